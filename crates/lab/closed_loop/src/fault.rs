use betz_base::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::units::Units;
use betz_spiking::random::Sequence;

/// Something that goes wrong at a time of the session.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Seconds after the session's beginning.
    pub at_s: f64,
    /// Kind of the fault.
    pub kind: FaultKind,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultKind {
    /// Some neurons, drawn by the seed among those still there, are no longer recorded.
    LoseUnits {
        /// Number of units.
        count: u32,
    },
    /// The input of every neuron is multiplied by a factor drawn between these.
    GainDrift {
        /// Least.
        low: f64,
        /// Largest.
        high: f64,
    },
    /// Every channel gets spikes from elsewhere.
    Noise {
        /// Rate of these spikes.
        rate_hz: f64,
    },
    /// Each bin is lost with this probability from now on; the decoder is told.
    LostBins {
        /// The probability.
        probability: f64,
    },
    /// Each bin comes one bin late with this probability from now on: the cursor goes on with the
    /// last velocity meanwhile, and two bins are decoded when it has come.
    LateBins {
        /// The probability.
        probability: f64,
    },
}

impl Fault {
    pub(crate) fn check(&self, units: &Units) -> Result<()> {
        let fine = match self.kind {
            FaultKind::LoseUnits { count } => count as usize <= units.lost.len(),
            FaultKind::GainDrift { low, high } => {
                low.is_finite() && high.is_finite() && 0.0 <= low && low <= high
            }
            FaultKind::Noise { rate_hz } => (0.0..=1e3 / units.step_ms()).contains(&rate_hz),
            FaultKind::LostBins { probability } | FaultKind::LateBins { probability } => {
                (0.0..=1.0).contains(&probability)
            }
        };
        if !(fine && self.at_s.is_finite() && self.at_s >= 0.0) {
            return Err(Error::argument(format!(
                "fault: expected a time from 0 s, at most {} units, 0 <= low <= high, a rate of at most one spike per step and probabilities of 0 to 1, got {self:?}",
                units.lost.len()
            )));
        }
        Ok(())
    }
}

/// The faults that have struck so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Troubles {
    pub(crate) lost: f64,
    pub(crate) late: f64,
}

impl Troubles {
    pub(crate) fn strike(&mut self, kind: FaultKind, units: &mut Units, chance: &mut Sequence) {
        match kind {
            FaultKind::LoseUnits { count } => {
                for _ in 0..count {
                    let left: Vec<usize> =
                        (0..units.lost.len()).filter(|i| !units.lost[*i]).collect();
                    if left.is_empty() {
                        break;
                    }
                    units.lost[left[chance.below(left.len() as u32) as usize]] = true;
                }
            }
            FaultKind::GainDrift { low, high } => {
                for gain in &mut units.gains {
                    *gain *= low + (high - low) * chance.unit();
                }
            }
            FaultKind::Noise { rate_hz } => units.extra_hz = rate_hz,
            FaultKind::LostBins { probability } => self.lost = probability,
            FaultKind::LateBins { probability } => self.late = probability,
        }
    }
}
