//! One step of a layer's gates, forward and back.

use super::real::Real;
use super::shape::GATES;
use pulp::{Simd, WithSimd};

/// One step of all sequences through a layer's gates.
pub(super) struct Advance<'a, T> {
    pub(super) units: usize,
    /// Both sides of the gates, (sequence, gate, unit).
    pub(super) of_input: &'a [T],
    pub(super) of_state: &'a [T],
    /// States before and after, (sequence, unit).
    pub(super) before: &'a [T],
    pub(super) after: &'a mut [T],
    /// r, z, n and the state side of n, (sequence, 4, unit).
    pub(super) gates: &'a mut [T],
}

impl<T: Real> WithSimd for Advance<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let units = self.units;
        let sides = (self.of_input.chunks_exact(GATES * units))
            .zip(self.of_state.chunks_exact(GATES * units));
        let states = (self.before.chunks_exact(units)).zip(self.after.chunks_exact_mut(units));
        let gates = self.gates.chunks_exact_mut(4 * units);
        for (((of_input, of_state), (before, after)), gates) in sides.zip(states).zip(gates) {
            let [r_in, z_in, n_in] = parts(of_input, units);
            let [r_own, z_own, n_own] = parts(of_state, units);
            let [r_out, z_out, n_out, own_out] = parts_mut(gates, units);
            for j in 0..units {
                let r = (r_in[j] + r_own[j]).sigmoid();
                let z = (z_in[j] + z_own[j]).sigmoid();
                let n = (n_in[j] + r * n_own[j]).tanh();
                r_out[j] = r;
                z_out[j] = z;
                n_out[j] = n;
                own_out[j] = n_own[j];
                after[j] = n + z * (before[j] - n);
            }
        }
    }
}

/// One step of all sequences back through a layer's gates.
pub(super) struct Retreat<'a, T> {
    pub(super) units: usize,
    /// Derivatives by the states after the step, (sequence, unit).
    pub(super) gradient: &'a [T],
    pub(super) before: &'a [T],
    pub(super) gates: &'a [T],
    /// Derivatives by both sides of the gates, (sequence, gate, unit).
    pub(super) by_input: &'a mut [T],
    pub(super) by_state: &'a mut [T],
    /// Derivatives by the states before the step, to which those through z are added; empty at the first step.
    pub(super) last: &'a mut [T],
}

impl<T: Real> WithSimd for Retreat<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let units = self.units;
        let sides = (self.by_input.chunks_exact_mut(GATES * units))
            .zip(self.by_state.chunks_exact_mut(GATES * units));
        let states = (self.gradient.chunks_exact(units)).zip(self.before.chunks_exact(units));
        let gates = self.gates.chunks_exact(4 * units);
        for (((by_input, by_state), (mine, before)), gates) in sides.zip(states).zip(gates) {
            let [r, z, n, n_own] = parts(gates, units);
            let [r_in, z_in, n_in] = parts_mut(by_input, units);
            let [r_state, z_state, n_state] = parts_mut(by_state, units);
            for j in 0..units {
                let by_z = mine[j] * (before[j] - n[j]) * z[j] * (T::ONE - z[j]);
                let by_n = mine[j] * (T::ONE - z[j]) * (T::ONE - n[j] * n[j]);
                let by_r = by_n * n_own[j] * r[j] * (T::ONE - r[j]);
                r_in[j] = by_r;
                z_in[j] = by_z;
                n_in[j] = by_n;
                r_state[j] = by_r;
                z_state[j] = by_z;
                n_state[j] = by_n * r[j];
            }
        }
        let states = (self.gradient.chunks_exact(units)).zip(self.last.chunks_exact_mut(units));
        for ((mine, last), gates) in states.zip(self.gates.chunks_exact(4 * units)) {
            let z = &gates[units..][..units];
            for j in 0..units {
                last[j] += mine[j] * z[j];
            }
        }
    }
}

/// The first parts of `row`, of `units` numbers each.
#[inline(always)]
fn parts<T, const COUNT: usize>(row: &[T], units: usize) -> [&[T]; COUNT] {
    std::array::from_fn(|part| &row[part * units..][..units])
}

#[inline(always)]
fn parts_mut<T, const COUNT: usize>(row: &mut [T], units: usize) -> [&mut [T]; COUNT] {
    let mut rest = row.chunks_exact_mut(units);
    std::array::from_fn(|_| rest.next().unwrap_or_default())
}
