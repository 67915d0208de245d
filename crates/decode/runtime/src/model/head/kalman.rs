//! A Kalman filter in its steady state (Wu et al. 2003; steady state: Malik et al. 2011).
//!
//! x̂ₜ = A·x̂ₜ₋₁ + K·(yₜ − C·A·x̂ₜ₋₁) = M·x̂ₜ₋₁ + K·yₜ with M = (I − K·C)·A: the gain acts on the observations as
//! the weights of the linear engine do, so that a step adds only M.

use alloc::vec::Vec;
use super::{FORGOTTEN, Kind, HeadStep, check_finite, expect, refuse};
use crate::model::MAX_WEIGHT;
use betz_base::wire::{Reader, Writer};
use crate::psc::flush;
use betz_base::error::Result;
use betz_base::hash::Fnv1a;

/// Largest number of outputs of a Kalman filter.
pub const MAX_STATES: usize = 64;

/// Doublings of M's power until which it must have died out.
const DOUBLINGS: u32 = 40;

/// Latents are K·y about its mean; s ← M·s + latents, x̂ = s + mean. s = 0 at rest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kalman {
    /// M, row-major (output, output); all of its eigenvalues lie inside the unit circle.
    pub transition: Vec<f64>,
    /// Mean of each output.
    pub mean: Vec<f64>,
}

impl Kind for Kalman {
    type StepForm = PreparedKalman;
    const NAME: &'static str = "kalman";
    const TAG: [u8; 4] = *b"KALM";

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        expect("latents, one per output,", latents, outputs)?;
        if outputs > MAX_STATES {
            return refuse(format!("expected at most {MAX_STATES} outputs, got {outputs}"));
        }
        expect("transition, outputs × outputs,", self.transition.len(), outputs * outputs)?;
        expect("mean, one per output,", self.mean.len(), outputs)?;
        check_finite("transition", &self.transition, 1e6)?;
        check_finite("mean", &self.mean, MAX_WEIGHT)?;
        if powers(&self.transition, outputs).is_none() {
            return refuse(
                "transition: expected a stable matrix, all eigenvalues inside the unit circle, got one that does not die out".into(),
            );
        }
        Ok(())
    }

    fn write(&self, to: &mut Writer) {
        to.f64s(&self.transition);
        to.f64s(&self.mean);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            transition: from.at("transition").f64s()?,
            mean: from.at("mean").f64s()?,
        })
    }

    fn prepare(&self, _: f64) -> Result<PreparedKalman> {
        let outputs = self.mean.len();
        match powers(&self.transition, outputs) {
            None => refuse("transition: expected a stable matrix".into()),
            Some(powers) => Ok(PreparedKalman {
                kalman: self.clone(),
                powers,
            }),
        }
    }
}

/// [`Kalman`] in the form that steps use.
#[derive(Debug, Clone)]
pub(crate) struct PreparedKalman {
    kalman: Kalman,
    /// The transition over 1, 2, 4, … steps; of the last one less than [`FORGOTTEN`] is left.
    powers: Vec<Vec<f64>>,
}

impl HeadStep for PreparedKalman {
    fn states(&self) -> usize {
        self.kalman.mean.len()
    }

    fn scratch(&self) -> usize {
        0
    }

    fn memory_steps(&self) -> u64 {
        1 << (self.powers.len() - 1)
    }

    /// Exact: the distance from `end` goes through the transition's powers.
    fn approach(&self, steps: u64, states: &mut [f64], end: &[f64]) {
        let mut distance = [0.0; MAX_STATES];
        let distance = &mut distance[..states.len()];
        for ((distance, state), end) in distance.iter_mut().zip(&*states).zip(end) {
            *distance = state - end;
        }
        for (k, power) in self.powers.iter().enumerate() {
            let last = k + 1 == self.powers.len();
            // Of two passes through the last power 1e-14 is left: more need not be told apart.
            let times = if last { (steps >> k).min(2) } else { (steps >> k) & 1 };
            for _ in 0..times {
                let before = &mut [0.0; MAX_STATES][..distance.len()];
                before.copy_from_slice(distance);
                for (to, row) in distance.iter_mut().zip(power.chunks_exact(before.len())) {
                    *to = row.iter().zip(&*before).map(|(m, d)| m * d).sum();
                }
            }
        }
        for ((state, distance), end) in states.iter_mut().zip(&*distance).zip(end) {
            *state = flush(end + distance);
        }
    }

    fn instructions(&self) -> u64 {
        100 + 4 * self.kalman.transition.len() as u64
    }

    fn hash(&self, hash: &mut Fnv1a) {
        for value in self.kalman.transition.iter().chain(&self.kalman.mean) {
            hash.number(*value);
        }
    }

    #[inline]
    fn step(
        &self,
        latents: &mut [f64],
        states: &mut [f64],
        _: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        let rows = self.kalman.transition.chunks_exact(states.len());
        for ((latent, row), output) in latents.iter().zip(rows).zip(outputs.iter_mut()) {
            let mut sum = *latent;
            for (m, state) in row.iter().zip(&*states) {
                sum += m * state;
            }
            *output = sum;
        }
        for ((state, output), mean) in states.iter_mut().zip(outputs).zip(&self.kalman.mean) {
            *state = flush(*output);
            *output += mean;
        }
        false
    }
}

/// `matrix` over 1, 2, 4, … steps, until no element is above [`FORGOTTEN`]; `None` if its powers do not die out.
fn powers(matrix: &[f64], n: usize) -> Option<Vec<Vec<f64>>> {
    let mut powers = Vec::new();
    let mut power = matrix.to_vec();
    for _ in 0..DOUBLINGS {
        let most = power.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
        if !most.is_finite() || most > 1e100 {
            return None;
        }
        let mut square = vec![0.0; n * n];
        for i in 0..n {
            for k in 0..n {
                for j in 0..n {
                    square[i * n + j] += power[i * n + k] * power[k * n + j];
                }
            }
        }
        powers.push(core::mem::replace(&mut power, square));
        if most < FORGOTTEN {
            return Some(powers);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kalman(transition: &[f64]) -> Kalman {
        let n = (transition.len() as f64).sqrt() as usize;
        Kalman {
            transition: transition.to_vec(),
            mean: (0..n).map(|i| i as f64).collect(),
        }
    }

    #[test]
    fn only_what_dies_out_is_stable() {
        // A double eigenvalue, a rotation, a nilpotent matrix of large elements.
        for stable in [&[0.9, 5.0, 0.0, 0.9][..], &[0.6, -0.7, 0.7, 0.6], &[0.0, 1e5, 0.0, 0.0], &[0.999]] {
            let n = kalman(stable).mean.len();
            kalman(stable).check(n, n).unwrap();
        }
        for unstable in [&[1.0][..], &[-1.01], &[0.8, -0.7, 0.7, 0.8], &[0.5, 2.0, 2.0, 0.5]] {
            let n = kalman(unstable).mean.len();
            let error = kalman(unstable).check(n, n).unwrap_err();
            assert!(error.message().contains("stable"), "{error}");
        }
        assert!(kalman(&[f64::NAN]).check(1, 1).is_err());
        assert!(kalman(&[0.5]).check(2, 1).is_err());
        assert!(kalman(&[0.5]).check(1, 2).is_err());
    }

    #[test]
    fn a_step_is_the_recursion() {
        let prepared = kalman(&[0.5, 0.25, -0.5, 0.75]).prepare(0.1).unwrap();
        assert_eq!((prepared.states(), prepared.scratch()), (2, 0));
        let (mut states, mut outputs) = (vec![0.0; 2], vec![0.0; 2]);
        let mut s = [0.0, 0.0];
        for step in 0..50 {
            let u = [f64::from(step % 3), f64::from(step % 5) - 2.0];
            let next = [0.5 * s[0] + 0.25 * s[1] + u[0], -0.5 * s[0] + 0.75 * s[1] + u[1]];
            s = next;
            prepared.step(&mut u.clone(), &mut states, &mut [], &mut outputs);
            assert!((outputs[0] - s[0]).abs() < 1e-12 && (outputs[1] - s[1] - 1.0).abs() < 1e-12);
        }
        // After its memory, a state is forgotten.
        let mut far = vec![1.0, -1.0];
        let mut zero = vec![0.0; 2];
        for _ in 0..prepared.memory_steps() {
            prepared.step(&mut zero.clone(), &mut far, &mut [], &mut outputs);
        }
        zero.copy_from_slice(&far);
        assert!(zero.iter().all(|s| s.abs() < 1e-6));
    }
}
