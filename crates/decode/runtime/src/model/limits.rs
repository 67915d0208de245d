//! Limits of input and outputs that a decoder was made for, and the treatment of everything outside them.

use alloc::vec::Vec;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::wire::{Reader, Writer};

/// Limits that a decoder was made for. The default has no limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Steps whose spikes are an artefact are decoded as if they had held mean counts.
    pub blanking: Option<Blanking>,
    /// Range that each output is kept within, one entry per output; empty for no bounds.
    pub ranges: Vec<OutputRange>,
    /// Largest count that a channel drives the filters with in one step, one entry per channel; empty for no
    /// bounds. A channel that suddenly screams then counts for no more than it did in training. For a decoder with
    /// [`channel_means`](super::DecoderParts::channel_means), of the deviation from the mean.
    pub count_caps: Vec<f32>,
}

/// An output beyond these bounds is none that the decoder was trained for: it is kept at the bound, and the
/// step is flagged [`OUT_OF_RANGE`](crate::stream::StepStatus::OUT_OF_RANGE). Training gives the range of
/// its labels about their middle, 1.2 times as wide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutputRange {
    /// Lowest value, in output units; −∞ for none.
    pub low: f32,
    /// Highest value, in output units; +∞ for none.
    pub high: f32,
}

impl OutputRange {
    /// Keeps `values`, one per range, within `ranges`; says whether one was beyond. NaN stays.
    #[inline(always)]
    pub fn keep(ranges: &[Self], values: &mut [f64]) -> bool {
        let mut beyond = false;
        for (value, range) in values.iter_mut().zip(ranges) {
            let (low, high) = (f64::from(range.low), f64::from(range.high));
            beyond |= *value < low || *value > high;
            *value = if *value < low { low } else { *value };
            *value = if *value > high { high } else { *value };
        }
        beyond
    }
}

/// Population-count blanking: a step whose spikes, over all channels that take part, are fewer than
/// `least` or more than `most` is an artefact (stimulation, a cable that moved). Its counts are replaced by
/// the mean ones *before* the filters, so that slow filters do not remember it.
///
/// Where a session masks further channels, their mean counts are taken off both bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Blanking {
    /// Fewest spikes of a step that is believed; 0 for no lower bound.
    pub least: u64,
    /// Most spikes of a step that is believed.
    pub most: u64,
    /// Mean count per step in training, one per channel; what a blanked step is taken to hold.
    pub mean_counts: Vec<f64>,
}

impl Limits {
    pub(super) const TAG: [u8; 4] = *b"LIMS";
    pub(super) const RANGES_TAG: [u8; 4] = *b"RANG";
    pub(super) const COUNT_CAPS_TAG: [u8; 4] = *b"CAPS";

    pub(super) fn check(&self, channels: usize, outputs: usize) -> Result<()> {
        self.check_ranges(outputs)?;
        self.check_count_caps(channels)?;
        let Some(blanking) = &self.blanking else {
            return Ok(());
        };
        let refuse = |text| Err(Error::new(ErrorKind::InvalidModel, text));
        if blanking.least > blanking.most {
            return refuse(format!(
                "blanking: expected least <= most, got {} and {}",
                blanking.least, blanking.most
            ));
        }
        if blanking.mean_counts.len() != channels {
            return refuse(format!(
                "blanking.mean_counts: expected {channels} values, one per channel, got {}",
                blanking.mean_counts.len()
            ));
        }
        for (channel, &mean) in blanking.mean_counts.iter().enumerate() {
            if !(0.0..=f64::from(u16::MAX)).contains(&mean) {
                return refuse(format!(
                    "blanking.mean_counts[{channel}]: expected 0 to {}, got {mean}",
                    u16::MAX
                ));
            }
        }
        Ok(())
    }

    fn check_count_caps(&self, channels: usize) -> Result<()> {
        let refuse = |text| Err(Error::new(ErrorKind::InvalidModel, text));
        if !self.count_caps.is_empty() && self.count_caps.len() != channels {
            return refuse(format!(
                "count_caps: expected {channels} values, one per channel, got {}",
                self.count_caps.len()
            ));
        }
        match self
            .count_caps
            .iter()
            .position(|&cap| cap.is_nan() || cap <= 0.0)
        {
            Some(channel) => refuse(format!(
                "count_caps[{channel}]: expected a count above 0, got {}",
                self.count_caps[channel]
            )),
            None => Ok(()),
        }
    }

    fn check_ranges(&self, outputs: usize) -> Result<()> {
        let refuse = |text| Err(Error::new(ErrorKind::InvalidModel, text));
        if !self.ranges.is_empty() && self.ranges.len() != outputs {
            return refuse(format!(
                "ranges: expected {outputs} entries, one per output, got {}",
                self.ranges.len()
            ));
        }
        for (i, OutputRange { low, high }) in self.ranges.iter().enumerate() {
            if low.is_nan() || high.is_nan() || low > high {
                return refuse(format!(
                    "range of output {i}: expected low <= high, got [{low}, {high}]"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn write_ranges(&self, to: &mut Writer) {
        let bounds = self.ranges.iter().flat_map(|r| [r.low, r.high]);
        to.f32s(&bounds.collect::<Vec<f32>>());
    }

    pub(super) fn read_ranges(from: &mut Reader<'_>) -> Result<Vec<OutputRange>> {
        let bounds = from.at("ranges").f32s()?;
        let (pairs, rest) = bounds.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!(
                    "ranges: expected two bounds per output, got {}",
                    bounds.len()
                ),
            ));
        }
        let range = |&[low, high]: &[f32; 2]| OutputRange { low, high };
        Ok(pairs.iter().map(range).collect())
    }

    pub(super) fn write(&self, to: &mut Writer) {
        to.flag(self.blanking.is_some());
        if let Some(blanking) = &self.blanking {
            to.u64(blanking.least);
            to.u64(blanking.most);
            to.f64s(&blanking.mean_counts);
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Option<Blanking>> {
        Ok(if from.at("blanking").flag()? {
            Some(Blanking {
                least: from.at("blanking.least").u64()?,
                most: from.at("blanking.most").u64()?,
                mean_counts: from.at("blanking.mean_counts").f64s()?,
            })
        } else {
            None
        })
    }
}
