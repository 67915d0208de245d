//! Devices and buses of the field, which serve as sources and sinks of a session. Each has a module and a feature.
//!
//! A [`rig`] gives blocks of voltage, spikes or features as a recording system sends them. A `bus` gives one frame per
//! step, and takes one estimate per step.

#[cfg(feature = "brand")]
pub mod brand;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(feature = "udp")]
pub mod cerebus;
#[cfg(feature = "bus")]
mod clock;
#[cfg(feature = "lsl")]
pub mod lsl;
#[cfg(feature = "bus")]
mod order;
pub mod rig;
#[cfg(feature = "udp")]
pub mod udp;
#[cfg(any(feature = "udp", feature = "zmq"))]
mod waiting;
#[cfg(feature = "zmq")]
pub mod zmq;
