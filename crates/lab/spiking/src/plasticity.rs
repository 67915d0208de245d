//! Synapses that learn: spike-timing-dependent plasticity by pairs or triplets of spikes, at once or by reward.

use betz_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// Rule by which weights follow spikes.
///
/// Traces of arrivals (r, r2) and of the target's spikes (o, o2) grow by 1 and decay by their time constants. An arrival
/// takes o (A− + A3− r2) from the weight, a spike of the target adds r (A+ + A3+ o2), both times `high` (additive) or the
/// distance to the bound (multiplicative); r2 and o2 are those before the event (Pfister and Gerstner 2006; pairs of
/// spikes without [`Triplet`]: Song et al. 2000). Delays are axonal: a spike meets the synapse when it arrives. In one
/// step the arrival comes first. It acts with the weight that it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plasticity {
    /// Time constant of the trace of arrivals r.
    #[serde(default = "twenty")]
    pub tau_plus_ms: f64,
    /// Time constant of the trace of the target's spikes o.
    #[serde(default = "twenty")]
    pub tau_minus_ms: f64,
    /// A+, as a part of `high`.
    pub a_plus: f64,
    /// A−, as a part of `high`.
    pub a_minus: f64,
    /// Least weight, 0 or more.
    #[serde(default)]
    pub low: f64,
    /// Largest weight.
    pub high: f64,
    /// Dependence of a change on the weight.
    #[serde(default)]
    pub dependence: Dependence,
    /// Terms of triplets of spikes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triplet: Option<Triplet>,
    /// Changes are kept as eligibility, which reward turns into weight; without it they act at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<Reward>,
}

fn twenty() -> f64 {
    20.0
}

/// Dependence of a change on the weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dependence {
    /// None, up to the bounds.
    #[default]
    Additive,
    /// In proportion to the distance to the bound.
    Multiplicative,
}

/// Terms of triplets of spikes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Triplet {
    /// A3+, as a part of `high`.
    pub a_plus: f64,
    /// A3−, as a part of `high`.
    pub a_minus: f64,
    /// Time constant of r2.
    pub tau_x_ms: f64,
    /// Time constant of o2.
    pub tau_y_ms: f64,
}

/// Reward by dopamine D (Izhikevich 2007): weights grow by c D per second, where the eligibility c collects the changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reward {
    /// Time constant of the eligibility.
    pub tau_eligibility_ms: f64,
    /// Time constant of the dopamine that [`Engine::reward`](crate::Engine::reward) adds.
    pub tau_dopamine_ms: f64,
}

impl Plasticity {
    /// Pairs of spikes, additive, with traces of 20 ms; weights of 0 to `high`.
    pub fn pairs(a_plus: f64, a_minus: f64, high: f64) -> Self {
        Self {
            tau_plus_ms: twenty(),
            tau_minus_ms: twenty(),
            a_plus,
            a_minus,
            low: 0.0,
            high,
            dependence: Dependence::Additive,
            triplet: None,
            reward: None,
        }
    }

    /// Checks its numbers, and that the weights of a projection, `least` to `most`, are within its bounds.
    ///
    /// # Errors
    /// `InvalidArgument` naming the number.
    pub(crate) fn check(&self, (least, most): (f64, f64)) -> Result<()> {
        let refuse = |what: &str, got: f64| {
            Err(Error::argument(format!(
                "plasticity: expected {what}, got {got}"
            )))
        };
        let mut taus = vec![
            ("tau_plus_ms", self.tau_plus_ms),
            ("tau_minus_ms", self.tau_minus_ms),
        ];
        let mut parts = vec![("a_plus", self.a_plus), ("a_minus", self.a_minus)];
        if let Some(t) = self.triplet {
            taus.extend([
                ("triplet.tau_x_ms", t.tau_x_ms),
                ("triplet.tau_y_ms", t.tau_y_ms),
            ]);
            parts.extend([("triplet.a_plus", t.a_plus), ("triplet.a_minus", t.a_minus)]);
        }
        if let Some(r) = self.reward {
            taus.extend([
                ("reward.tau_eligibility_ms", r.tau_eligibility_ms),
                ("reward.tau_dopamine_ms", r.tau_dopamine_ms),
            ]);
        }
        for (name, tau) in taus {
            if !(0.1..=1e7).contains(&tau) {
                return refuse(&format!("{name} of 0.1 to 1e7 ms"), tau);
            }
        }
        for (name, part) in parts {
            if !(-100.0..=100.0).contains(&part) {
                return refuse(&format!("{name} of -100 to 100, a part of high"), part);
            }
        }
        if !(self.low >= 0.0 && self.low < self.high && self.high.is_finite()) {
            return Err(Error::argument(format!(
                "plasticity: expected 0 <= low < high, got {} and {}",
                self.low, self.high
            )));
        }
        if least < self.low || most > self.high {
            return Err(Error::argument(format!(
                "plasticity: expected weights within low and high, {} to {}, got {least} to {most}",
                self.low, self.high
            )));
        }
        Ok(())
    }
}
