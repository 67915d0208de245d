//! Rows of devices and streams of the field.

use std::time::Duration;

use betz::recording::arrays::Values;
use betz::{Error, Result};
use betz_rigs::rig::{Arrival, Block, Rig, Samples, open_rig};

use super::args::LiveInput;
use super::bins::SpikeBins;
use super::feed::{Answer, Facts, Feed, FeedCounts, Piece};

/// A rig, and where its clock was.
pub(super) struct RigFeed {
    rig: Box<dyn Rig>,
    address: String,
    block: Block,
    bin: Option<f64>,
    sample_seconds: Option<f64>,
    epoch: Option<u32>,
    /// Kind of samples and number of channels of the first block.
    known: Option<(Kind, usize)>,
    bins: Option<SpikeBins>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Voltage,
    Spikes,
    Features,
}

impl Kind {
    fn of(samples: &Samples) -> Self {
        match samples {
            Samples::Voltage(_) => Self::Voltage,
            Samples::Spikes(_) => Self::Spikes,
            Samples::Features(_) => Self::Features,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Voltage => "voltage",
            Self::Spikes => "spikes",
            Self::Features => "features",
        }
    }
}

impl RigFeed {
    /// # Errors
    /// The errors of [`open_rig`].
    pub(super) fn open(address: &str, from: &LiveInput) -> Result<Self> {
        Ok(Self::new(open_rig(address)?, address, from))
    }

    fn new(rig: Box<dyn Rig>, address: &str, from: &LiveInput) -> Self {
        Self {
            rig,
            address: address.to_owned(),
            block: Block::new(),
            bin: from.bin,
            sample_seconds: from.sample_seconds,
            epoch: None,
            known: None,
            bins: None,
        }
    }

    /// The kind and the channels of the first block, with the facts of the rig.
    fn begin(&mut self, kind: Kind, pieces: &mut Vec<Piece>) -> Result<(Kind, usize)> {
        let signal = self.rig.signal();
        let rate = signal.as_ref().map(|s| s.rate).filter(|r| *r > 0.0);
        let channels = match &self.block.samples {
            Samples::Voltage(v) => v.len() / self.block.rows.max(1),
            Samples::Features(v) => v.len() / self.block.rows.max(1),
            Samples::Spikes(_) => signal.map_or(0, |s| s.channels),
        };
        let mut sample_seconds = self.sample_seconds.or(rate.map(|rate| 1.0 / rate));
        match (kind, self.bin, rate) {
            (Kind::Spikes, None, _) => {
                return Err(Error::argument(format!(
                    "--bin: expected one, such as 50ms, for the spikes of {}, got none",
                    self.address
                )));
            }
            (Kind::Spikes, Some(_), None) => {
                return Err(Error::argument(format!(
                    "{}: expected rate=HZ of the spikes' clock, got none",
                    self.address
                )));
            }
            (Kind::Spikes, Some(bin), Some(rate)) => {
                let bins = SpikeBins::new(bin, rate, channels)?;
                sample_seconds = Some(bins.seconds());
                self.bins = Some(bins);
            }
            (kind, Some(_), _) => {
                return Err(Error::argument(format!(
                    "--bin: expected a source of spikes, got {}; --average takes the mean of rows",
                    kind.name()
                )));
            }
            (_, None, _) => {}
        }
        pieces.push(Piece::Facts(Facts {
            nodes: channels,
            sample_seconds,
            positions: None,
        }));
        self.known = Some((kind, channels));
        Ok((kind, channels))
    }

    fn take_block(&mut self, pieces: &mut Vec<Piece>) -> Result<()> {
        let kind = Kind::of(&self.block.samples);
        let (first_kind, channels) = match self.known {
            Some(known) => known,
            // Blocks without rows come before the rig knows its channels.
            None if kind != Kind::Spikes && self.block.rows == 0 => return Ok(()),
            None => self.begin(kind, pieces)?,
        };
        if kind != first_kind {
            return Err(Error::recording(format!(
                "{}: expected {} as in the first block, got {}",
                self.address,
                first_kind.name(),
                kind.name()
            )));
        }
        let restarted = self.epoch.is_some_and(|epoch| epoch != self.block.epoch);
        self.epoch = Some(self.block.epoch);
        let lost = self.block.lost_before;
        if let Some(bins) = &mut self.bins {
            if restarted {
                bins.restart(pieces);
                pieces.push(Piece::Gap(0));
            } else if lost.count > 0 || lost.at_least {
                bins.lose(self.block.first, pieces);
            }
            return bins.take(&self.block, pieces);
        }
        if restarted {
            pieces.push(Piece::Gap(0));
        } else if lost.count > 0 || lost.at_least {
            pieces.push(Piece::Gap(lost.count));
        }
        let values = match &mut self.block.samples {
            Samples::Voltage(v) => Values::I16(v.clone()),
            Samples::Features(v) => Values::F32(v.clone()),
            Samples::Spikes(_) => return Ok(()),
        };
        let got = match &values {
            Values::I16(v) => v.len(),
            Values::F32(v) => v.len(),
            _ => 0,
        };
        if got != channels * self.block.rows {
            return Err(Error::recording(format!(
                "{}: expected {} rows of {channels} channels as in the first block, got {got} values",
                self.address, self.block.rows
            )));
        }
        if got > 0 {
            pieces.push(Piece::Rows(values));
        }
        Ok(())
    }
}

impl Feed for RigFeed {
    fn next(&mut self, pieces: &mut Vec<Piece>, patience: Duration) -> Result<Answer> {
        match self.rig.take(&mut self.block, patience)? {
            Arrival::Block => {
                self.take_block(pieces)?;
                Ok(Answer::Pieces)
            }
            Arrival::Nothing => Ok(Answer::Nothing),
            Arrival::Ended => {
                if let Some(bins) = &mut self.bins {
                    bins.end(pieces);
                }
                Ok(Answer::Ended)
            }
        }
    }

    fn waits(&self) -> bool {
        // A pipe's writer waits; a device goes on.
        self.address.starts_with("pipe:")
    }

    fn counts(&self) -> FeedCounts {
        let counts = self.rig.counts();
        FeedCounts {
            late: counts.late + self.bins.as_ref().map_or(0, SpikeBins::late),
            unreadable: counts.malformed,
        }
    }
}
