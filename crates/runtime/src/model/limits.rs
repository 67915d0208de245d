//! What input a decoder was made for, and what becomes of the rest.

use super::format::wire::{Reader, Writer};
use betz_base::error::{Error, ErrorKind, Result};

/// What input a decoder was made for. The default has no limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Steps whose spikes are an artefact are decoded as if they had held mean counts.
    pub blanking: Option<Blanking>,
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

    pub(super) fn is_default(&self) -> bool {
        self.blanking.is_none()
    }

    pub(super) fn check(&self, channels: usize) -> Result<()> {
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

    pub(super) fn write(&self, to: &mut Writer) {
        to.flag(self.blanking.is_some());
        if let Some(blanking) = &self.blanking {
            to.u64(blanking.least);
            to.u64(blanking.most);
            to.f64s(&blanking.mean_counts);
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let blanking = if from.flag("blanking")? {
            Some(Blanking {
                least: from.u64("blanking.least")?,
                most: from.u64("blanking.most")?,
                mean_counts: from.f64s("blanking.mean_counts")?,
            })
        } else {
            None
        };
        Ok(Self { blanking })
    }
}
