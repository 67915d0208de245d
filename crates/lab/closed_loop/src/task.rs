use betz_base::{Error, Result};
use serde::{Deserialize, Serialize};

use betz_spiking::random::Sequence;

/// The task of the cursor. Lengths are centimetres, the centre is (0, 0).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Task {
    /// To a target on a circle and back to the centre, in turn.
    CentreOut {
        /// Targets on the circle.
        targets: u32,
        /// Its radius.
        distance: f64,
        /// Largest distance from a target that counts as on it.
        radius: f64,
        /// Seconds the cursor must stay there.
        hold_s: f64,
        /// Seconds after which a trial fails.
        limit_s: f64,
    },
    /// To targets anywhere in a square, one after another.
    Pinball {
        /// Half the square's side.
        half_side: f64,
        /// Largest distance from a target that counts as on it.
        radius: f64,
        /// Seconds the cursor must stay there.
        hold_s: f64,
        /// Seconds after which a trial fails.
        limit_s: f64,
    },
}

impl Default for Task {
    /// Eight targets at 8 cm, accepted within 2 cm, held for 0.5 s, within 3 s.
    fn default() -> Self {
        Self::CentreOut {
            targets: 8,
            distance: 8.0,
            radius: 2.0,
            hold_s: 0.5,
            limit_s: 3.0,
        }
    }
}

impl Task {
    /// Targets within ± 8 cm, accepted within 2 cm, held for 0.5 s, within 3 s.
    pub fn pinball() -> Self {
        Self::Pinball {
            half_side: 8.0,
            radius: 2.0,
            hold_s: 0.5,
            limit_s: 3.0,
        }
    }

    /// Targets a loop with this half width of its workspace can be set.
    pub(crate) fn check(&self, workspace: f64) -> Result<()> {
        let (extent, count) = match *self {
            Self::CentreOut {
                targets, distance, ..
            } => (distance, targets),
            Self::Pinball { half_side, .. } => (half_side, 1),
        };
        let (radius, hold, limit) = (self.radius(), self.hold_s(), self.limit_s());
        let fine = count > 0
            && (0.0..=workspace).contains(&extent)
            && radius.is_finite()
            && radius > 0.0
            && hold.is_finite()
            && hold >= 0.0
            && limit.is_finite()
            && limit > hold
            && limit <= 3600.0;
        if !fine {
            return Err(Error::argument(format!(
                "task: expected targets within {workspace} cm, a radius above 0, a hold from 0 s and a longer limit, got {self:?}"
            )));
        }
        Ok(())
    }

    /// Target of trial `k`.
    pub(crate) fn target(&self, k: usize, chance: &mut Sequence) -> [f64; 2] {
        match *self {
            Self::CentreOut {
                targets, distance, ..
            } => {
                if k % 2 == 1 {
                    return [0.0; 2];
                }
                let which = f64::from(chance.below(targets));
                let angle = std::f64::consts::TAU * which / f64::from(targets);
                [distance * angle.cos(), distance * angle.sin()]
            }
            Self::Pinball { half_side, .. } => {
                [0, 1].map(|_| half_side * (2.0 * chance.unit() - 1.0))
            }
        }
    }

    /// Largest distance from a target that counts as on it.
    pub fn radius(&self) -> f64 {
        match *self {
            Self::CentreOut { radius, .. } | Self::Pinball { radius, .. } => radius,
        }
    }

    /// Seconds the cursor must stay on a target.
    pub fn hold_s(&self) -> f64 {
        match *self {
            Self::CentreOut { hold_s, .. } | Self::Pinball { hold_s, .. } => hold_s,
        }
    }

    /// Seconds after which a trial fails.
    pub fn limit_s(&self) -> f64 {
        match *self {
            Self::CentreOut { limit_s, .. } | Self::Pinball { limit_s, .. } => limit_s,
        }
    }
}
