//! The exact streaming recursion of a PSC filter: order + 1 states, no buffer, no taps.
//!
//! s_j\[t\] = Σ_u (t − u)^j·r^(t − u) over the past inputs u, j = 0…n. One step later
//! s_j ← r·Σ_{i≤j} C(j, i)·s_i, then the input adds to s_0; the response is scale·s_n. All terms
//! are positive for positive input, so nothing cancels. States are f64 also behind f32 responses:
//! with a step of τ/3000 an f32 decay alone would be wrong by 1e-4.

use super::{Filter, MAX_ORDER, flush};
use alloc::vec::Vec;

/// C(j, i), the binomial coefficients of the orders there are; 0 for i > j.
pub const BINOMIAL: [[f64; MAX_ORDER as usize + 1]; MAX_ORDER as usize + 1] = [
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [1.0, 1.0, 0.0, 0.0, 0.0],
    [1.0, 2.0, 1.0, 0.0, 0.0],
    [1.0, 3.0, 3.0, 1.0, 0.0],
    [1.0, 4.0, 6.0, 4.0, 1.0],
];

/// One step of the states of one signal, with its input. `STATES` is the order + 1.
#[inline(always)]
pub fn advance<const STATES: usize>(state: &mut [f64; STATES], decay: f64, input: f64) {
    for j in (0..STATES).rev() {
        let mut sum = state[j];
        for i in 0..j {
            sum += BINOMIAL[j][i] * state[i];
        }
        state[j] = flush(decay * sum);
    }
    state[0] += input;
}

/// One PSC filter at work on several signals side by side; starts from rest.
///
/// Opening allocates; [`step`](Self::step) and [`reset`](Self::reset) do not.
#[derive(Debug, Clone, PartialEq)]
pub struct RecursiveFilter {
    decay: f64,
    scale: f64,
    states: usize,
    /// (signal, order + 1) row-major.
    state: Vec<f64>,
}

impl RecursiveFilter {
    /// `filter` on a clock of `step_seconds`, at rest, for `signals` signals.
    pub fn new(filter: Filter, step_seconds: f64, signals: usize) -> Self {
        let states = filter.order as usize + 1;
        Self {
            decay: filter.decay(step_seconds),
            scale: filter.scale(step_seconds),
            states,
            state: vec![0.0; signals * states],
        }
    }

    /// Takes one input of every signal and writes every response. Signals beyond the shorter slice
    /// are left alone.
    pub fn step(&mut self, input: &[f64], response: &mut [f64]) {
        match self.states {
            1 => self.step_order::<1>(input, response),
            2 => self.step_order::<2>(input, response),
            3 => self.step_order::<3>(input, response),
            4 => self.step_order::<4>(input, response),
            _ => self.step_order::<5>(input, response),
        }
    }

    #[inline(always)]
    fn step_order<const STATES: usize>(&mut self, input: &[f64], response: &mut [f64]) {
        let (states, _) = self.state.as_chunks_mut::<STATES>();
        for ((state, x), y) in states.iter_mut().zip(input).zip(response) {
            advance(state, self.decay, *x);
            *y = self.scale * state[STATES - 1];
        }
    }

    /// Back to rest, as at the start of a segment.
    pub fn reset(&mut self) {
        self.state.fill(0.0);
    }
}
