//! Stepping a decoder in real time: one tick of spikes in, one estimate out.
//!
//! ```text
//! acquisition thread              decoding thread                      any thread
//! SpikeProducer ──ring──► SpikeConsumer ──step──► Session ◄──models── Swapper
//!                                                    │ ▲
//!                                             checkpoint, restore
//! ```
//!
//! A [`PhasedSession`] gives estimates at ticks finer than the model's step.
//!
//! A [`Tap`] is given every step: a miner, for instance. [`step_ring`] carries the steps to another thread.
//!
//! A [`Session`] works without the rest: give each tick's spikes to
//! [`step_spikes`](Session::step_spikes) or [`step_counts`](Session::step_counts) yourself. All
//! allocation is in opening. A step that succeeds does not allocate, lock or call the system, and
//! takes a time bounded by the spikes given; the test `realtime` proves it.

// Without `std`, nothing asks for swaps, masks and counts of losses.
#![cfg_attr(not(feature = "std"), allow(dead_code))]

#[cfg(not(feature = "std"))]
mod alone;
#[cfg(feature = "std")]
mod channels;
mod checkpoint;
mod clock;
mod config;
mod ctc;
mod debt;
mod engine;
mod events;
#[cfg(feature = "std")]
mod health;
mod hold;
#[cfg(feature = "std")]
mod lease;
#[cfg(feature = "std")]
mod ledger;
mod phases;
mod prepared;
#[cfg(feature = "std")]
mod queue;
mod refused;
mod rows;
mod running;
mod session;
mod skip;
mod slew;
mod stage;
mod status;
#[cfg(feature = "std")]
mod steps;
#[cfg(feature = "std")]
mod swap;
mod swap_state;
mod tap;
#[cfg(feature = "std")]
mod timing;

#[cfg(not(feature = "std"))]
use self::{alone as channels, alone as health, alone as swap, alone as timing};

/// The atomics of the queue's ledger and clock: a test puts loom's in their place.
#[cfg(feature = "std")]
mod atomic {
    pub(super) use core::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
}

/// Types that join a session's thread and a worker's: a test puts loom's in their place.
#[cfg(feature = "std")]
mod between {
    pub(super) use alloc::sync::Arc;

    pub(super) use betz_base::error::Result;
    pub(super) use betz_base::ring::ring_of;
    pub(super) use betz_base::worker::Backlog;
    pub(super) use ringbuf::traits::{Consumer, Observer, Producer};
    pub(super) use ringbuf::{HeapCons, HeapProd};

    pub(super) use core::sync::atomic::{AtomicBool, Ordering};
    pub(super) use std::sync::Mutex;

    /// Lets a step of another thread go on, also one of lower priority on this processor.
    pub(super) fn pause() {
        std::thread::sleep(core::time::Duration::from_micros(50));
    }
}

#[cfg(feature = "std")]
pub use channels::{ChannelDetector, ChannelRules, ChannelState, ChannelWatch};
pub use clock::SampleClock;
pub use config::{Clamp, Latency, SessionConfig, Stats, UnknownChannels};
pub use ctc::GreedyCtc;
pub use events::{ClassEvent, EVENT_ROOM, EventDetector};
#[cfg(feature = "std")]
pub use health::{Health, HealthReader};
pub use hold::Hold;
#[cfg(feature = "std")]
pub use lease::{LentTap, TapLease, lend};
pub use phases::{MAX_PHASES, PhasedSession};
pub use prepared::PreparedModel;
#[cfg(feature = "std")]
pub use queue::{
    LateSpikes, QueueConfig, Resync, SampledSpike, Spike, SpikeConsumer, SpikeProducer,
    spike_queue, spike_queue_with,
};
pub use refused::StepRefused;
pub use session::{EstimateSamples, EstimateTime, Session};
pub use status::StepStatus;
#[cfg(feature = "std")]
pub use steps::{STEP_WORDS, StepReader, StepRecord, StepWriter, step_ring};
#[cfg(feature = "std")]
pub use swap::{Replay, SwapOptions, SwapProgress, Swapper};
pub use swap_state::SwapState;
pub use tap::{Input, MAX_TAPS, Step, Tap, TapPlace};
