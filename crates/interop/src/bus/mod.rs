//! Buses of the field: where spikes come from while a session runs, and where its outputs go.
//!
//! A [`Source`] gives one [`Frame`] a step, a [`Sink`] takes one [`Estimate`] a step, [`pump`] lets a session run
//! between them. Both count what did not go as it should ([`Counts`]): nothing is lost silently. What may block for
//! longer than it is allowed to (a library with threads of its own, a connection that has to be made again) is put
//! [on a thread of its own](beside), so that the loop never waits for it.

mod address;
pub mod beside;
mod bins;
mod order;
#[cfg(any(feature = "udp", feature = "zmq"))]
pub(crate) mod plain;
mod pump;
mod tally;

use std::time::{Duration, Instant};

use betz_base::Result;

#[cfg(any(feature = "udp", feature = "zmq"))]
pub(crate) use address::resolve;
pub use address::{Stream, open_sink, open_source};
pub use bins::Bins;
pub use order::Order;
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
    /// Channels that fired, an entry a spike, in `spikes`.
    Spikes,
}

/// One step's input. Reused: a source clears and fills it.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The source's number of this step.
    pub sequence: u64,
    /// Steps before this one that never came: the session passes over them as silent.
    pub skipped: u64,
    /// The source began anew (another clock, another sender): the session starts from rest.
    pub restart: bool,
    /// The sender's own time stamp, handed on to the sink: nanoseconds, of a clock that is the sender's affair.
    pub sent: i64,
    /// When it came here.
    pub received: Instant,
    /// Which of the lists below holds.
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

    /// Empties it; it came now.
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
    /// The time stamp of the frame that it was made of.
    pub sent: i64,
    /// Quality of the estimates: `StepStatus`'s bits.
    pub status: u32,
    /// Estimates, one per output of the model.
    pub values: &'a [f32],
}

/// Answer of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// The frame holds the next step.
    Step,
    /// Nothing came in the time that was allowed.
    Nothing,
    /// Nothing will come any more.
    Ended,
}

/// Where a session's input comes from.
pub trait Source: Send {
    /// Waits no longer than `patience` for the next step, and puts it into `frame`. A connection that is gone is no
    /// error: it is counted and made again, and nothing comes meanwhile.
    ///
    /// # Errors
    /// Faults that waiting cannot mend: a stream of other channels than the model's, say.
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception>;

    /// Counts until now.
    fn counts(&self) -> Counts;
}

/// Where a session's output goes.
pub trait Sink: Send {
    /// Hands `decoded` on without waiting for whoever takes it; what cannot be handed on is counted as unsent.
    ///
    /// # Errors
    /// Faults that trying again cannot mend.
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()>;

    /// Does what connections need while there is nothing to give: [on a thread of its own](beside) it is called after each
    /// output, and twenty times per second.
    fn attend(&mut self) {}

    /// Counts until now.
    fn counts(&self) -> Counts;
}
