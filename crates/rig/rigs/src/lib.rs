//! Devices and buses of the field, which serve as sources and sinks of a session.
//!
//! # The way of the data
//! 1. One client per device or bus reads its messages. Its module has everything that speaks to it: client, emulator, tests.
//!    Devices that give blocks alone (Open Ephys, SpikeGLX, Intan RHX, Synapse, shared memory, pipes) are public in [`rig`].
//! 2. One rule of loss judges the numbers and times of the messages: which are next, lost, late or repeated, and when a device or
//!    its clock began anew.
//! 3. The client gives blocks or steps. A [`rig::Rig`] gives blocks of voltage, spikes or features, with the device's own time. A
//!    `bus::Source` gives one frame per step of a model, and a `bus::Sink` takes one estimate per step.
//! 4. A client that may wait runs on a thread of its own, behind one kind of `handoff`. The loop never waits for it.
//! 5. A session (`betz_live`) takes blocks. `betz_live::step_rig` makes a block of one row of each step.

#[cfg(feature = "brand")]
pub mod brand;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(feature = "udp")]
pub mod cerebus;
#[cfg(feature = "bus")]
mod clock;
#[cfg(feature = "bus")]
pub mod handoff;
#[cfg(feature = "lsl")]
pub mod lsl;
#[cfg(feature = "rig")]
mod openephys;
#[cfg(feature = "bus")]
mod order;
#[cfg(feature = "rig")]
mod pipe;
#[cfg(feature = "rig")]
mod rhx;
pub mod rig;
#[cfg(all(feature = "rig", target_os = "linux"))]
mod shared;
#[cfg(feature = "rig")]
mod spikeglx;
#[cfg(feature = "rig")]
mod synapse;
#[cfg(feature = "udp")]
pub mod udp;
#[cfg(any(feature = "udp", feature = "zmq"))]
mod waiting;
#[cfg(feature = "zmq")]
pub mod zmq;
