//! The lift: cosines of random projections of the latents beside the latents themselves (random Fourier
//! features, Rahimi & Recht 2007), read out linearly.

use betz_base::float;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use std::f64::consts::TAU;

use crate::readout::Basis;

/// Standard deviation of a projection's elements in radians per latent of unit variance; 0.09 to 0.2 do
/// as well.
const SPREAD: f64 = 0.13;

/// g = [z; cos 2π(Ωz + b)].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cosines {
    pub(crate) latents: usize,
    /// Ω in turns, (unit, latent) row-major.
    pub(crate) omega: Vec<f32>,
    /// b in turns, one per unit.
    pub(crate) phase: Vec<f32>,
}

impl Cosines {
    /// `units` random projections of `latents` latents. The first of them are the same however many
    /// there are.
    pub(crate) fn draw(seed: u64, latents: usize, units: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut omega = Vec::with_capacity(units * latents);
        let mut phase = Vec::with_capacity(units);
        for _ in 0..units {
            for _ in 0..latents {
                // Box & Muller: of the two normal numbers, one.
                let (u, v): (f64, f64) = (random.random(), random.random());
                let normal = (-2.0 * float::ln(1.0 - u)).sqrt() * float::cos(TAU * v);
                omega.push((normal * SPREAD / TAU) as f32);
            }
            phase.push(random.random::<f64>() as f32);
        }
        Self {
            latents,
            omega,
            phase,
        }
    }
}

impl Basis for Cosines {
    fn width(&self) -> usize {
        self.latents + self.phase.len()
    }

    fn fill(&self, z: &[f32], _: &[f32], n: usize, out: &mut [f32]) {
        let (plain, cosines) = out.split_at_mut(self.latents * n);
        plain.copy_from_slice(z);
        let arch = pulp::Arch::new();
        (cosines.par_chunks_exact_mut(n))
            .zip(self.omega.par_chunks_exact(self.latents))
            .zip(&self.phase)
            .with_min_len(8)
            .for_each(|((row, omega), phase)| {
                arch.dispatch(|| {
                    row.fill(*phase);
                    for (omega, z) in omega.iter().zip(z.chunks_exact(n)) {
                        row.iter_mut()
                            .zip(z)
                            .for_each(|(turns, z)| *turns += omega * z);
                    }
                    row.iter_mut().for_each(|turns| *turns = cosine(*turns));
                });
            });
    }
}

/// cos 2πt, to 2e-7: t less its whole turns, then the Taylor series of sin 2πv, v = ¼ − |t|.
#[inline(always)]
fn cosine(turns: f32) -> f32 {
    // Rounds to the nearest whole number: in f32 nothing is left of a fraction beside 1.5·2²³.
    const WHOLE: f32 = 12_582_912.0;
    let whole = (turns + WHOLE) - WHOLE;
    let v = 0.25 - (turns - whole).abs();
    let s = v * v;
    let series = 15.094_643 * s - 42.058_693;
    let series = series * s + 76.705_86;
    let series = -(series * s - 81.605_25);
    let series = series * s - 41.341_7;
    (series * s + std::f32::consts::TAU) * v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_cosines() {
        for i in -40_000..40_000 {
            let turns = i as f32 * 1.7e-4;
            let expected = (TAU * f64::from(turns)).cos();
            let got = f64::from(cosine(turns));
            assert!(
                (got - expected).abs() < 4e-7,
                "cos of {turns} turns: {got}, expected {expected}"
            );
        }
    }

    #[test]
    fn fewer_units_are_the_first_of_more() {
        let (more, fewer) = (Cosines::draw(3, 5, 64), Cosines::draw(3, 5, 16));
        assert_eq!(more.omega[..5 * 16], fewer.omega);
        assert_eq!(more.phase[..16], fewer.phase);
        assert_ne!(Cosines::draw(4, 5, 16), fewer);
        let variance = |values: &[f32]| {
            values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / values.len() as f64
        };
        let many = Cosines::draw(0, 12, 2000);
        assert!((variance(&many.omega).sqrt() * TAU / SPREAD - 1.0).abs() < 0.02);
        assert!(many.phase.iter().all(|p| (0.0..1.0).contains(p)));
        let mean = many.phase.iter().sum::<f32>() / 2000.0;
        assert!((mean - 0.5).abs() < 0.03);
    }

    #[test]
    fn features_are_the_latents_and_their_cosines() {
        let cosines = Cosines::draw(1, 3, 7);
        let n = 5;
        let z: Vec<f32> = (0..3 * n).map(|i| (i as f32 * 0.7).sin() * 4.0).collect();
        let mut out = vec![0.0; cosines.width() * n];
        cosines.fill(&z, &[], n, &mut out);
        assert_eq!(out[..3 * n], z);
        for unit in 0..7 {
            for step in 0..n {
                let turns = f64::from(cosines.phase[unit])
                    + (0..3)
                        .map(|i| {
                            f64::from(cosines.omega[unit * 3 + i]) * f64::from(z[i * n + step])
                        })
                        .sum::<f64>();
                let got = f64::from(out[(3 + unit) * n + step]);
                assert!((got - (TAU * turns).cos()).abs() < 3e-6);
            }
        }
    }
}
