//! Rows of int16 in plain datagrams: content 4.
//!
//! | bytes | content |
//! |---|---|
//! | 0–3, 4, 5 | `BETZ`; version, 1; 4 |
//! | 6–7 | channels, u16 |
//! | 8–15 | number of the first row, u64 |
//! | 16–23 | the sender's time, i64 in ns |
//! | 24–27 | 0 |
//! | 28–31 | rows per 1,000 seconds, u32 |
//! | 32– | the rows, int16, each with all channels |
//!
//! Losses are exact, by the numbers.

use std::time::Duration;

use betz_base::{Error, Result};

use crate::bus::plain::{HEADER, MAGIC, VERSION};
use crate::order::rows::Reorder;
use crate::rig::{
    Arrival, Block, Loss, MISFITS, Rig, RigCounts, Samples, Signal, append_words, host_ns,
};
use crate::udp::{Receiver, word};

/// Content of rows of int16.
pub(super) const ROWS: u8 = 4;

/// Source of rows of int16 in datagrams.
pub struct FrameRig {
    receiver: Receiver,
    buffer: Option<usize>,
    channels: Option<usize>,
    rate: Option<f64>,
    microvolts: Option<f64>,
    signal: Option<Signal>,
    /// Consecutive datagrams that would fit other settings.
    misfits: u32,
    order: Reorder,
    counts: RigCounts,
}

impl FrameRig {
    /// Listens at `address`, `HOST:PORT`, for rows of `channels` or, if none are given, of those of the first datagram.
    /// `rate` stands in for a sender that sends 0.
    ///
    /// # Errors
    /// `InvalidArgument` if `address` cannot be parsed, `Io` if it cannot be bound.
    pub fn bind(address: &str, channels: Option<usize>, rate: Option<f64>) -> Result<Self> {
        Ok(Self {
            receiver: Receiver::bind(address)?.counting_drops(),
            buffer: None,
            channels,
            rate,
            microvolts: None,
            signal: None,
            misfits: 0,
            order: Reorder::new(u64::MAX),
            counts: RigCounts::default(),
        })
    }

    /// Sets the microvolts per bit.
    pub fn with_microvolts(mut self, microvolts: Option<f64>) -> Self {
        self.microvolts = microvolts;
        self
    }

    /// Sets the time for which rows wait for those that they have overtaken.
    pub fn reordering(mut self, patience: Duration) -> Self {
        self.order.set_patience(patience);
        self
    }

    /// Sets the time for which a wait polls before the thread sleeps.
    pub fn spinning(mut self, spin: Duration) -> Self {
        self.receiver = self.receiver.spinning(spin);
        self
    }

    /// Asks the system for a socket's buffer of so many bytes, see [`Rig::socket_buffer`].
    pub fn with_buffer(mut self, bytes: usize) -> Self {
        self.buffer = self.receiver.buffering(bytes);
        self
    }

    /// Address on which it listens.
    ///
    /// # Errors
    /// An error of the system.
    pub fn address(&self) -> Result<std::net::SocketAddr> {
        self.receiver.address()
    }

    /// Channels, first row and rows per second of a datagram; `None` if it is none of these.
    fn head(&self, datagram: &[u8]) -> Option<(usize, u64, f64)> {
        if datagram.len() < HEADER || datagram[..4] != MAGIC || datagram[4..6] != [VERSION, ROWS] {
            return None;
        }
        let channels = usize::from(u16::from_le_bytes(word(datagram, 6)));
        let body = datagram.len() - HEADER;
        let rate = match u32::from_le_bytes(word(datagram, 28)) {
            0 => self.rate?,
            rate => f64::from(rate) / 1000.0,
        };
        let fits = channels > 0
            && body > 0
            && body.is_multiple_of(2 * channels)
            && self.channels.is_none_or(|expected| expected == channels)
            && (self.signal.as_ref()).is_none_or(|s| s.channels == channels && s.rate == rate);
        fits.then(|| (channels, u64::from_le_bytes(word(datagram, 8)), rate))
    }
}

impl FrameRig {
    /// Gives the next rows in order, if there are some.
    fn give(&mut self, block: &mut Block) -> bool {
        self.order.give(block, host_ns, &mut self.counts)
    }

    /// An error if all that comes before the first block fits other settings.
    fn check_settings(&mut self, length: usize) -> Result<()> {
        let datagram = &self.receiver.buffer[..length];
        let is_of_rows = length > HEADER
            && datagram[..4] == MAGIC
            && datagram[4..6] == [VERSION, ROWS]
            && self.signal.is_none();
        let channels = if is_of_rows {
            u16::from_le_bytes(word(datagram, 6))
        } else {
            0
        };
        let complaint = match self.channels {
            _ if channels == 0 => None,
            Some(expected) if expected != usize::from(channels) => Some(format!(
                "expected rows of {expected} channels, got {channels}: change channels=N or the sender"
            )),
            _ if self.rate.is_none() && datagram[28..32] == [0; 4] => Some(
                "expected the rate in each datagram or as rate=HZ, got neither: change one of them"
                    .into(),
            ),
            _ => None,
        };
        self.misfits = if complaint.is_some() {
            self.misfits + 1
        } else {
            0
        };
        match complaint {
            Some(complaint) if self.misfits == MISFITS => {
                let address = self.receiver.address()?;
                Err(Error::mismatch(format!("udp://{address}: {complaint}")))
            }
            _ => Ok(()),
        }
    }
}

impl Rig for FrameRig {
    fn signal(&self) -> Option<Signal> {
        self.signal.clone()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        if self.give(block) {
            return Ok(Arrival::Block);
        }
        let Some(length) = self.receiver.receive(self.order.wait(patience, host_ns))? else {
            return Ok(match self.give(block) {
                true => Arrival::Block,
                false => Arrival::Nothing,
            });
        };
        let now = host_ns();
        let datagram = &self.receiver.buffer[..length];
        let Some((channels, first, rate)) = self.head(datagram) else {
            self.counts.malformed += 1;
            self.check_settings(length)?;
            return Ok(Arrival::Nothing);
        };
        if self.signal.is_none() {
            self.order.set_rate(rate);
            self.signal = Some(Signal {
                channels,
                rate,
                microvolts: self.microvolts,
                clock_bits: 64,
            });
        }
        let rows = (length - HEADER) / (2 * channels);
        let mut voltage = block.take_voltage();
        append_words(&mut voltage, &datagram[HEADER..]);
        *block = Block {
            epoch: self.order.epoch(),
            first,
            rows,
            host_ns: now,
            lost_before: Loss::default(),
            samples: Samples::Voltage(voltage),
        };
        self.order.put(block, &mut self.counts);
        Ok(match self.give(block) {
            true => Arrival::Block,
            false => Arrival::Nothing,
        })
    }

    fn socket_buffer(&self) -> Option<usize> {
        self.buffer
    }

    fn counts(&self) -> RigCounts {
        RigCounts {
            dropped_by_host: self.receiver.dropped(),
            ..self.counts
        }
    }
}
