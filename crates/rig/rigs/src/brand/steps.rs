//! Whole steps of a BRAND graph, and outputs to it.

use std::time::{Duration, Instant};

use betz_base::{Error, Result};

use super::resp::{Connection, Reply};
use super::{Entries, Place, RETRY};
use crate::bus::{Content, Counts, Estimate, Frame, Reception, Sink, Source, Tally};
use crate::clock::{age_ns, monotonic_ns};

/// Type of the numbers in `samples`, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    /// Counts, a byte each.
    Int8,
    /// Counts, two bytes each.
    Int16,
    /// Counts, two bytes each, up to 65,535.
    UInt16,
    /// Features.
    Float32,
}

impl Samples {
    /// Reads NumPy's name of a type.
    ///
    /// # Errors
    /// `InvalidArgument` for any other.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "int8" => Ok(Self::Int8),
            "int16" => Ok(Self::Int16),
            "uint16" => Ok(Self::UInt16),
            "float32" => Ok(Self::Float32),
            _ => Err(Error::argument(format!(
                "type of samples: expected int8, int16, uint16 or float32, got {name}"
            ))),
        }
    }

    /// Puts `bytes` into `frame`; whether they are `channels` of these.
    fn put(self, bytes: &[u8], channels: usize, frame: &mut Frame) -> bool {
        let size = match self {
            Self::Int8 => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Float32 => 4,
        };
        if bytes.len() != size * channels {
            return false;
        }
        if self == Self::Float32 {
            frame.content = Content::Features;
            let values = bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            frame.features.extend(values);
            return frame.features.iter().all(|v| v.is_finite());
        }
        frame.content = Content::Counts;
        for number in bytes.chunks_exact(size) {
            let count = match (self, number) {
                (Self::Int8, [a]) => u16::try_from(*a as i8).ok(),
                (Self::Int16, [a, b]) => u16::try_from(i16::from_le_bytes([*a, *b])).ok(),
                (_, [a, b]) => Some(u16::from_le_bytes([*a, *b])),
                _ => None,
            };
            let Some(count) = count else { return false };
            frame.counts.push(count);
        }
        true
    }
}

/// Steps of a BRAND graph, one per entry. It waits for Redis: put it [on a thread of its own](crate::bus::threads).
pub struct BrandSource {
    entries: Entries,
    samples: Samples,
    channels: usize,
}

impl BrandSource {
    /// The node at `place`; connects with the first step.
    pub fn new(place: Place, samples: Samples, channels: usize) -> Self {
        Self {
            entries: Entries::new(place),
            samples,
            channels,
        }
    }
}

impl Source for BrandSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        let Some(fields) = self.entries.next(patience)? else {
            return Ok(Reception::Nothing);
        };
        let tally = &self.entries.tally;
        frame.clear();
        let samples = fields.get("samples").map_or(&[][..], Reply::bytes);
        if !self.samples.put(samples, self.channels, frame) {
            tally.malformed.add(1);
            return Ok(Reception::Nothing);
        }
        let ts = fields.get("ts").and_then(|ts| ts.bytes().try_into().ok());
        frame.sent = ts.map_or(0, i64::from_le_bytes);
        let sync = fields.get("sync").map_or(&[][..], Reply::bytes);
        let sync: Option<serde_json::Value> = serde_json::from_slice(sync).ok();
        let index = sync.and_then(|sync| sync["nsp_idx"].as_u64());
        frame.sequence = index.unwrap_or_else(|| tally.steps.get());
        tally.steps.add(1);
        Ok(Reception::Step)
    }

    fn counts(&self) -> Counts {
        self.entries.tally.counts()
    }
}

/// Outputs to a BRAND graph, one entry per step. It waits for Redis: put it [on a thread of its own](crate::bus::threads).
pub struct BrandSink {
    place: Place,
    connection: Option<Connection>,
    output: Option<String>,
    tried: Option<Instant>,
    samples: Vec<u8>,
    tally: Tally,
}

impl BrandSink {
    /// The node at `place`; connects with the first output.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            connection: None,
            output: None,
            tried: None,
            samples: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn connect(&mut self) -> Result<()> {
        if self.connection.is_some() || self.tried.is_some_and(|t| t.elapsed() < RETRY) {
            return Ok(());
        }
        self.tried = Some(Instant::now());
        match (self.place.connect(), &self.output) {
            (Ok(connection), Some(_)) => {
                self.tally.reconnects.add(1);
                self.connection = Some(connection);
            }
            (Ok(mut connection), None) => {
                self.output = Some(self.place.parameter(&mut connection, "output_stream")?);
                self.connection = Some(connection);
            }
            (Err(_), Some(_)) => {}
            (Err(error), None) => return Err(error),
        }
        Ok(())
    }
}

impl Sink for BrandSink {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        self.connect()?;
        let (Some(connection), Some(output)) = (&mut self.connection, &self.output) else {
            self.tally.unsent.add(1);
            return Ok(());
        };
        self.samples.clear();
        let values = decoded.values.iter().map(|v| f64::from(*v));
        self.samples.extend(values.flat_map(f64::to_le_bytes));
        // BRAND's nodes stamp with `time.monotonic_ns()`, and hand on the device's time as `nsp_idx`.
        let now = monotonic_ns();
        let arrival = || now - age_ns(decoded.host_ns);
        let ts_in = decoded.sent.unwrap_or_else(arrival);
        let sync = format!("{{\"nsp_idx\":{}}}", decoded.device);
        let reply = connection.ask(&[
            b"XADD",
            output.as_bytes(),
            b"MAXLEN",
            b"~",
            b"100000",
            b"*",
            b"ts",
            &now.to_le_bytes(),
            b"ts_in",
            &ts_in.to_le_bytes(),
            b"sync",
            sync.as_bytes(),
            b"status",
            &decoded.status.to_le_bytes(),
            b"samples",
            &self.samples,
        ]);
        match reply {
            Ok(Reply::Text(_)) => {
                self.tally.messages.add(1);
                self.tally.steps.add(1);
            }
            Ok(_) => self.tally.unsent.add(1),
            Err(_) => {
                self.connection = None;
                self.tally.unsent.add(1);
            }
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}
