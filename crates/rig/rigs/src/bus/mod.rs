//! Buses of the field: the sources of a session's spikes, and the sinks of its outputs.
//!
//! A [`Source`] gives one [`Frame`] per step, and a [`Sink`] takes one [`Estimate`] per step. [`pump`] runs a session
//! between them. Both count every irregularity ([`Counts`]), so that nothing is lost silently. Anything that may block
//! too long (a library with its own threads, a connection to restore) runs [on a thread of its own](threads), so that
//! the loop never waits for it.

mod address;
mod bins;
#[cfg(any(feature = "udp", feature = "zmq"))]
pub(crate) mod plain;
mod pump;
mod tally;
pub mod threads;

use std::time::{Duration, Instant};

use betz_base::Result;

pub use crate::order::Order;
#[cfg(feature = "rig")]
pub(crate) use address::Address;
#[cfg(any(feature = "udp", feature = "zmq"))]
pub(crate) use address::resolve;
pub use address::{Stream, open_sink, open_source};
pub use bins::Bins;
pub use pump::{PumpReport, Until, pump};
pub use tally::{Counts, Tally};

/// Content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// Spikes of each channel, in `counts`.
    #[default]
    Counts,
    /// Features of each channel, in `features`.
    Features,
    /// Channels that fired, one entry per spike, in `spikes`.
    Spikes,
}

/// One step's input. Reused: a source clears and fills it.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The source's number of this step.
    pub sequence: u64,
    /// Number of steps before this one that never arrived; the session treats them as silent.
    pub skipped: u64,
    /// True if the source restarted (another clock, another sender): the session starts from rest.
    pub restart: bool,
    /// Time stamp of the sender in nanoseconds of its own clock, passed on to the sink.
    pub sent: i64,
    /// Time of arrival.
    pub received: Instant,
    /// Which of the lists below is valid.
    pub content: Content,
    /// Spikes of each channel of the model.
    pub counts: Vec<u16>,
    /// Features of each channel of the model.
    pub features: Vec<f32>,
    /// Channels that fired.
    pub spikes: Vec<u32>,
}

impl Frame {
    /// An empty frame with room for a model of `channels`.
    pub fn new(channels: usize) -> Self {
        Self {
            sequence: 0,
            skipped: 0,
            restart: false,
            sent: 0,
            received: Instant::now(),
            content: Content::Counts,
            counts: Vec::with_capacity(channels),
            features: Vec::with_capacity(channels),
            spikes: Vec::with_capacity(4 * channels),
        }
    }

    /// Empties the frame and sets its time of arrival to now.
    pub fn clear(&mut self) {
        (self.sequence, self.skipped, self.restart) = (0, 0, false);
        (self.sent, self.received) = (0, Instant::now());
        self.content = Content::Counts;
        self.counts.clear();
        self.features.clear();
        self.spikes.clear();
    }
}

/// One step's output.
#[derive(Debug, Clone, Copy)]
pub struct Estimate<'a> {
    /// The source's number of the step.
    pub sequence: u64,
    /// Device time of the step's last row; of a source of whole steps, its number of the step.
    pub device: u64,
    /// Time stamp of the frame from which it was decoded, in nanoseconds of the sender's clock; `None` if outputs carry
    /// times of their own.
    pub sent: Option<i64>,
    /// Arrival of the data that it was decoded from, in nanoseconds of the host's clock (`CLOCK_MONOTONIC_RAW`); 0
    /// without data.
    pub host_ns: i64,
    /// Quality of the estimates: `StepStatus`'s bits.
    pub status: u32,
    /// Estimates, one per output of the model.
    pub values: &'a [f32],
}

impl Estimate<'_> {
    /// The sender's time, else the arrival.
    pub fn sent_or_arrival(&self) -> i64 {
        self.sent.unwrap_or(self.host_ns)
    }
}

/// Answer of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// The frame holds the next step.
    Step,
    /// Nothing arrived in the allowed time.
    Nothing,
    /// The source has ended.
    Ended,
}

/// Source of a session's input.
pub trait Source: Send {
    /// Waits at most `patience` for the next step and writes it to `frame`. A lost connection is not an error: the
    /// source counts it, reconnects, and gives no steps meanwhile.
    ///
    /// # Errors
    /// Faults that waiting cannot remove, such as a stream with channels that differ from the model's.
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception>;

    /// Counts so far.
    fn counts(&self) -> Counts;
}

/// Sink of a session's output.
pub trait Sink: Send {
    /// Passes `decoded` on without waiting for a receiver; an output that cannot be passed on is counted as unsent.
    ///
    /// # Errors
    /// Faults that another attempt cannot remove.
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()>;

    /// Maintains connections while there is nothing to send. [On a thread of its own](threads), a sink gets this call
    /// after each output and twenty times per second.
    fn attend(&mut self) {}

    /// Counts so far.
    fn counts(&self) -> Counts;
}
