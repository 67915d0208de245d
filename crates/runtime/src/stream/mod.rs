//! Stepping a decoder in real time: one tick of spikes in, one estimate out.
//!
//! ```text
//! acquisition thread              decoding thread                      any thread
//! SpikeProducer ──ring──► SpikeConsumer ──step──► Session ◄──models── Swapper
//!                                                    │ ▲
//!                                             checkpoint, restore
//! ```
//!
//! A [`Tap`] is given every step: a miner, for instance. [`step_ring`] carries the steps to another thread.
//!
//! A [`Session`] works without the rest: give each tick's spikes to
//! [`step_spikes`](Session::step_spikes) or [`step_counts`](Session::step_counts) yourself. All
//! allocation is in opening. A step that succeeds does not allocate, lock or call the system, and
//! takes a time bounded by the spikes given; the test `realtime` proves it.

mod channels;
mod checkpoint;
mod clock;
mod config;
mod ctc;
mod engine;
mod events;
mod health;
mod hold;
mod ledger;
mod prepared;
mod queue;
mod refused;
mod rows;
mod running;
mod session;
mod skip;
mod slew;
mod stage;
mod status;
mod steps;
mod swap;
mod tap;
mod timing;

/// The atomics of the queue's ledger and clock: a test puts loom's in their place.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
}

/// Types that join a session's thread and a worker's: a test puts loom's in their place.
mod between {
    pub(super) use std::sync::Arc;

    pub(super) use betz_base::error::Result;
    pub(super) use betz_base::ring::ring_of;
    pub(super) use betz_base::worker::Backlog;
    pub(super) use ringbuf::traits::{Consumer, Observer, Producer};
    pub(super) use ringbuf::{HeapCons, HeapProd};
}

pub use channels::{ChannelDetector, ChannelRules, ChannelState, ChannelWatch};
pub use clock::SampleClock;
pub use config::{Clamp, SessionConfig, Stats, UnknownChannels};
pub use ctc::GreedyCtc;
pub use events::{ClassEvent, EVENT_ROOM, EventDetector};
pub use health::{Health, HealthReader};
pub use hold::Hold;
pub use prepared::PreparedModel;
pub use queue::{
    LateSpikes, QueueConfig, Resync, SampledSpike, Spike, SpikeConsumer, SpikeProducer,
    spike_queue, spike_queue_with,
};
pub use refused::StepRefused;
pub use rows::non_zero;
pub use session::{EstimateSamples, EstimateTime, Session};
pub use status::StepStatus;
pub use steps::{STEP_WORDS, StepReader, StepRecord, StepWriter, step_ring};
pub use swap::{Replay, SwapOptions, SwapProgress, SwapState, Swapper};
pub use tap::{Input, MAX_TAPS, Step, Tap};
pub use timing::Latency;
