//! Outputs while the input is not to be believed.

use super::StepStatus;
use alloc::vec::Vec;
use betz_base::error::{Error, Result};
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use betz_base::hash::Fnv1a;

/// Outputs of a session while data are missing or flagged: the last good outputs for a while, then a
/// straight line to rest. So a lost connection neither runs on nor slides to the intercept unnoticed.
///
/// A step without data, with a non-finite estimate or with more than half of what the decoder leans on
/// [gone](super::ChannelWatch) is held at once; one whose spikes were blanked or
/// whose latents lay out of range after more than `patience_steps` such steps in a row. The first good step
/// ends it.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// Time for which the last good outputs are held, in seconds.
    pub hold_seconds: f64,
    /// Time that the way to rest takes then, in seconds.
    pub decay_seconds: f64,
    /// Flagged steps in a row that are still believed.
    pub patience_steps: u32,
    /// Where the outputs come to rest, one entry per output; `None` for 0 (velocities stop).
    pub rest: Option<Vec<f32>>,
}

/// Holds 0.2 s, then comes to rest in 0.5 s; two flagged steps in a row are believed.
impl Default for Hold {
    fn default() -> Self {
        Self {
            hold_seconds: 0.2,
            decay_seconds: 0.5,
            patience_steps: 2,
            rest: None,
        }
    }
}

impl Hold {
    pub(super) fn check(&self, outputs: usize) -> Result<()> {
        for (what, seconds) in [("hold", self.hold_seconds), ("decay", self.decay_seconds)] {
            if !(0.0..=1e9).contains(&seconds) {
                return Err(Error::argument(format!(
                    "hold: expected a {what} of 0 to 1e9 s, got {seconds}"
                )));
            }
        }
        let Some(rest) = &self.rest else {
            return Ok(());
        };
        if rest.len() != outputs {
            return Err(Error::mismatch(format!(
                "hold.rest: expected {outputs} values, one per output of the model, got {}",
                rest.len()
            )));
        }
        match rest.iter().find(|value| !value.is_finite()) {
            None => Ok(()),
            Some(value) => Err(Error::argument(format!(
                "hold.rest: expected finite values, got {value}"
            ))),
        }
    }
}

/// Flags that are never believed, and flags that are believed for a while.
const AT_ONCE: StepStatus = StepStatus::from_bits(
    StepStatus::STALE.bits() | StepStatus::NON_FINITE.bits() | StepStatus::UNTRUSTED.bits(),
);
const FLAGGED: StepStatus = StepStatus::from_bits(
    AT_ONCE.bits() | StepStatus::OUT_OF_RANGE.bits() | StepStatus::BLANKED.bits(),
);

/// The last good outputs, and the policy where there is one.
#[derive(Debug, Clone)]
pub(super) struct HoldState {
    /// The last good outputs; rest before the first.
    last: Vec<f32>,
    policy: Option<Policy>,
    /// Flagged steps in a row.
    flagged: u64,
}

#[derive(Debug, Clone)]
struct Policy {
    hold_steps: u64,
    decay_steps: u64,
    patience: u64,
    rest: Vec<f32>,
}

impl HoldState {
    pub(super) fn new(hold: Option<&Hold>, step_seconds: f64, outputs: usize) -> Self {
        let steps = |seconds: f64| (seconds / step_seconds).round() as u64;
        let policy = hold.map(|hold| Policy {
            hold_steps: steps(hold.hold_seconds),
            decay_steps: steps(hold.decay_seconds).max(1),
            patience: u64::from(hold.patience_steps),
            rest: hold.rest.clone().unwrap_or_else(|| vec![0.0; outputs]),
        });
        Self {
            last: (policy.as_ref()).map_or_else(|| vec![0.0; outputs], |p| p.rest.clone()),
            policy,
            flagged: 0,
        }
    }

    /// Puts the last good output in the place of each that is not finite.
    #[inline(always)]
    pub(super) fn catch_non_finite(&self, out: &mut [f32]) -> bool {
        // One test for all: a sum of finite values times 0 is 0.
        if out.iter().map(|x| x * 0.0).sum::<f32>() == 0.0 {
            return false;
        }
        for (out, last) in out.iter_mut().zip(&self.last) {
            if !out.is_finite() {
                *out = *last;
            }
        }
        true
    }

    /// Holds a step's outputs if its flags ask for it.
    #[inline(always)]
    pub(super) fn judge(&mut self, status: &mut StepStatus, out: &mut [f32]) {
        if !status.intersects(FLAGGED) {
            self.flagged = 0;
            self.last.copy_from_slice(out);
            return;
        }
        self.hold(status, out);
    }

    #[cold]
    fn hold(&mut self, status: &mut StepStatus, out: &mut [f32]) {
        self.flagged = self.flagged.saturating_add(1);
        let Some(policy) = &self.policy else {
            return;
        };
        if !status.intersects(AT_ONCE) && self.flagged <= policy.patience {
            return;
        }
        let past = self.flagged.saturating_sub(policy.hold_steps);
        let way = (past as f64 / policy.decay_steps as f64).min(1.0);
        for ((out, last), rest) in out.iter_mut().zip(&self.last).zip(&policy.rest) {
            let (last, rest) = (f64::from(*last), f64::from(*rest));
            *out = (last + way * (rest - last)) as f32;
        }
        *status |= StepStatus::HELD | StepStatus::AT_REST.when(way >= 1.0);
    }

    /// Returns to the initial state.
    pub(super) fn reset(&mut self) {
        self.flagged = 0;
        match &self.policy {
            Some(policy) => self.last.copy_from_slice(&policy.rest),
            None => self.last.fill(0.0),
        }
    }

    /// Words that tell this policy from others: 1 if there is one, its steps, and a hash of its rest; 0 without one.
    pub(super) fn policy(&self) -> [u64; 5] {
        let Some(policy) = &self.policy else {
            return [0; 5];
        };
        let rest = Fnv1a::of_values(&policy.rest);
        let (hold, decay) = (policy.hold_steps, policy.decay_steps);
        [1, hold, decay, policy.patience, rest]
    }

    /// The part that a checkpoint keeps.
    pub(super) fn state(&self) -> (u64, &[f32]) {
        (self.flagged, &self.last)
    }

    pub(super) fn state_mut(&mut self) -> (&mut u64, &mut [f32]) {
        (&mut self.flagged, &mut self.last)
    }
}
