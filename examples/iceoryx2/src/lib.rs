//! A session between two shared-memory services of iceoryx2: nothing is copied between processes but into the frame
//! that is decoded.
//!
//! | service | messages | who writes |
//! |---|---|---|
//! | `NAME/counts` | [`StepHeader`] and a u16 a channel | the rig |
//! | `NAME/movement` | [`StepHeader`] and an f32 an output | Betz |
//! | `NAME/counts/came`, `NAME/movement/came` | an event with each message, for whoever sleeps | as above |
//!
//! [`SharedSource`] and [`SharedSink`] are a [`Source`] and a [`Sink`] as the buses of `betz_rigs` are: pump between
//! them, or put one of them beside another bus. [`Sender`] and [`Receiver`] are what both are made of, and what a rig
//! and a reader in Rust use; in C, C++ or Python iceoryx2's own bindings do, with the same services and types.
#![warn(missing_docs)]

mod channel;

use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::bus::{Content, Counts, Estimate, Frame, Order, Reception, Sink, Source, Tally};

pub use channel::{Receiver, Sender, StepHeader};

/// Ends of the services called `NAME`, by what goes through them.
pub fn counts_of(name: &str) -> String {
    format!("{name}/counts")
}

/// As [`counts_of`].
pub fn movement_of(name: &str) -> String {
    format!("{name}/movement")
}

pub(crate) fn service_error(what: &str, service: &str, error: impl std::fmt::Debug) -> Error {
    Error::new(ErrorKind::Io, format!("{what} {service}: {error:?}"))
}

/// Receives spike counts, one message per step. What the rig sends faster than it is decoded overwrites the oldest, and is a gap
/// in the numbers.
pub struct SharedSource {
    receiver: Receiver<u16>,
    channels: usize,
    order: Order,
    /// The next step is the first of another sender.
    begins: bool,
    tally: Tally,
}

impl SharedSource {
    /// The service `NAME/counts`, for a model of `channels`. Before it sleeps it asks for `spin` again and again: for a
    /// loop with a core of its own.
    ///
    /// # Errors
    /// `Io` where iceoryx2 has no such service for us.
    pub fn open(name: &str, channels: usize, spin: Duration) -> Result<Self> {
        Ok(Self {
            receiver: Receiver::open(&counts_of(name), spin)?,
            channels,
            order: Order::default(),
            begins: false,
            tally: Tally::default(),
        })
    }
}

impl Source for SharedSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        let (channels, order, tally) = (self.channels, &mut self.order, &self.tally);
        let begins = &mut self.begins;
        let taken = self.receiver.take(patience, |header, counts, other| {
            tally.messages.add(1);
            if other {
                // Its numbers, and what the filters remember, are the last sender's no more.
                *order = Order::default();
                *begins = true;
                tally.restarts.add(1);
            }
            if counts.len() != channels {
                tally.malformed.add(1);
                return Reception::Nothing;
            }
            frame.clear();
            (frame.content, frame.sent) = (Content::Counts, header.sent);
            frame.counts.extend_from_slice(counts);
            if !order.judge(header.sequence, frame, tally) {
                return Reception::Nothing;
            }
            frame.restart |= std::mem::take(begins);
            tally.steps.add(1);
            Reception::Step
        })?;
        Ok(taken.unwrap_or(Reception::Nothing))
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}

/// Sends estimates of movement, one message per step. It waits for no reader: one that falls behind loses the oldest.
pub struct SharedSink {
    sender: Sender<f32>,
    tally: Tally,
}

impl SharedSink {
    /// The service `NAME/movement`, for a model of `outputs`.
    ///
    /// # Errors
    /// `Io` where iceoryx2 has no such service for us.
    pub fn open(name: &str, outputs: usize) -> Result<Self> {
        Ok(Self {
            sender: Sender::open(&movement_of(name), outputs)?,
            tally: Tally::default(),
        })
    }
}

impl Sink for SharedSink {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        let header = StepHeader {
            sequence: decoded.sequence,
            sent: decoded.sent_or_arrival(),
            status: decoded.status,
            reserved: 0,
        };
        match self.sender.send(header, decoded.values) {
            Ok(()) => {
                self.tally.messages.add(1);
                self.tally.steps.add(1);
            }
            Err(_) => self.tally.unsent.add(1),
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}
