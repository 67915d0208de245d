//! Complex Fourier transforms of a power of two in stages, so that a caller may spread one over many steps.
//!
//! Forward stages leave the spectrum in bit-reversed order, and backward stages begin with it: a product of spectra needs
//! no other order, so nothing is reordered.

use alloc::vec::Vec;
use core::f64::consts::TAU;

use crate::width::{Width, for_every_width};
use betz_base::float;

/// Twiddle factors of transforms of one length.
#[derive(Debug, Clone)]
pub(super) struct Transform {
    length: usize,
    /// cos and −sin of 2πk / 2·half at `half + k`, for every stage's `half`.
    cos: Vec<f64>,
    sin: Vec<f64>,
    width: Width,
}

impl Transform {
    /// Transforms of `length`, a power of two.
    pub(super) fn new(length: usize) -> Self {
        let (mut cos, mut sin) = (vec![1.0; length], vec![0.0; length]);
        let mut half = 1;
        while half < length {
            for k in 0..half {
                let angle = TAU * k as f64 / (2 * half) as f64;
                cos[half + k] = float::sin(angle + TAU / 4.0);
                sin[half + k] = -float::sin(angle);
            }
            half *= 2;
        }
        Self {
            length,
            cos,
            sin,
            width: Width::detect(),
        }
    }

    /// Number of stages of a transform, one way.
    pub(super) fn stages(&self) -> usize {
        self.length.trailing_zeros() as usize
    }

    /// Stage `stage` of the transform of `data`, real parts before imaginary ones.
    pub(super) fn forward(&self, data: &mut [f64], stage: usize) {
        let half = self.length >> (stage + 1);
        let (re, im) = data.split_at_mut(self.length);
        let factors = (&self.cos[half..2 * half], &self.sin[half..2 * half]);
        forward_stage(self.width, re, im, factors);
    }

    /// Stage `stage` of the transform back, unscaled.
    pub(super) fn backward(&self, data: &mut [f64], stage: usize) {
        let half = 1 << stage;
        let (re, im) = data.split_at_mut(self.length);
        let factors = (&self.cos[half..2 * half], &self.sin[half..2 * half]);
        backward_stage(self.width, re, im, factors);
    }

    /// Adds the product of spectra `x` and `h` to `sum`.
    pub(super) fn multiply_add(&self, sum: &mut [f64], x: &[f64], h: &[f64]) {
        multiply_add(self.width, sum, x, h);
    }
}

for_every_width! {
    /// u, v ← u + v, (u − v)·w
    fn forward_stage(re: &mut [f64], im: &mut [f64], factors: (&[f64], &[f64])) {
        let (cos, sin) = factors;
        let half = cos.len();
        for (re, im) in re.chunks_exact_mut(2 * half).zip(im.chunks_exact_mut(2 * half)) {
            let ((ur, vr), (ui, vi)) = (re.split_at_mut(half), im.split_at_mut(half));
            let (vr, vi, ui, sin) = (&mut vr[..half], &mut vi[..half], &mut ui[..half], &sin[..half]);
            let ur = &mut ur[..half];
            for k in 0..half {
                let (dr, di) = (ur[k] - vr[k], ui[k] - vi[k]);
                ur[k] += vr[k];
                ui[k] += vi[k];
                vr[k] = dr * cos[k] - di * sin[k];
                vi[k] = dr * sin[k] + di * cos[k];
            }
        }
    }
}

for_every_width! {
    /// u, v ← u + v·w̄, u − v·w̄
    fn backward_stage(re: &mut [f64], im: &mut [f64], factors: (&[f64], &[f64])) {
        let (cos, sin) = factors;
        let half = cos.len();
        for (re, im) in re.chunks_exact_mut(2 * half).zip(im.chunks_exact_mut(2 * half)) {
            let ((ur, vr), (ui, vi)) = (re.split_at_mut(half), im.split_at_mut(half));
            let (vr, vi, ui, sin) = (&mut vr[..half], &mut vi[..half], &mut ui[..half], &sin[..half]);
            let ur = &mut ur[..half];
            for k in 0..half {
                let pr = vr[k] * cos[k] + vi[k] * sin[k];
                let pi = vi[k] * cos[k] - vr[k] * sin[k];
                vr[k] = ur[k] - pr;
                vi[k] = ui[k] - pi;
                ur[k] += pr;
                ui[k] += pi;
            }
        }
    }
}

for_every_width! {
    /// Complex products, real parts before imaginary ones.
    fn multiply_add(sum: &mut [f64], x: &[f64], h: &[f64]) {
        let half = sum.len() / 2;
        let (sr, si) = sum.split_at_mut(half);
        let ((xr, xi), (hr, hi)) = (x.split_at(half), h.split_at(half));
        let (si, xr, xi) = (&mut si[..half], &xr[..half], &xi[..half]);
        let (hr, hi) = (&hr[..half], &hi[..half]);
        for k in 0..half {
            sr[k] += xr[k] * hr[k] - xi[k] * hi[k];
            si[k] += xr[k] * hi[k] + xi[k] * hr[k];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_the_length_times_the_signal() {
        for length in [2, 8, 64, 1024] {
            let transform = Transform::new(length);
            let signal: Vec<f64> = (0..2 * length)
                .map(|i| ((i * i) % 17) as f64 - 8.0)
                .collect();
            let mut data = signal.clone();
            (0..transform.stages()).for_each(|s| transform.forward(&mut data, s));
            // Bin 0 is the sum.
            let sum: f64 = signal[..length].iter().sum();
            assert!((data[0] - sum).abs() < 1e-9);
            (0..transform.stages()).for_each(|s| transform.backward(&mut data, s));
            for (got, expected) in data.iter().zip(&signal) {
                assert!((got / length as f64 - expected).abs() < 1e-12);
            }
        }
    }
}
