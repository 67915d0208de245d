//! Silence of any length at once: what filters are after so many ticks without a spike.
//!
//! A filter's states s_j = Σ_u (t − u)^j·r^(t − u) become s_j ← r^m·Σ_{i≤j} C(j, i)·m^(j−i)·s_i after m
//! silent ticks: the binomial theorem. A low-pass behind the filters hears their responses die away, so its
//! states after m ticks are a linear map of the filters' states and its own; the maps of 1, 2, 4, … ticks
//! are made when the model is prepared, and those of m's binary digits applied one after another.

use std::ops::Range;

use super::stage::Stage;
use crate::psc::{BINOMIAL, LowPassFilter, flush};

/// Powers of two of ticks that are told apart; silence of 2⁴⁰ ticks or more is rest.
pub(super) const POWERS: u32 = 40;

/// `map[j][i]`: what s_i adds to s_j in `ticks` silent ticks.
pub(super) fn silence(stage: &Stage, ticks: f64) -> [[f64; 5]; 5] {
    let left = (ticks * stage.log_decay).exp();
    let mut map = [[0.0; 5]; 5];
    for j in 0..=stage.order as usize {
        for i in 0..=j {
            map[j][i] = left * BINOMIAL[j][i] * ticks.powi((j - i) as i32);
        }
    }
    map
}

/// `ticks` silent ticks of one filter, whose states are the `lanes` of `states`, (order + 1, `stride`).
pub(super) fn skip_lanes(
    states: &mut [f64],
    stage: &Stage,
    ticks: f64,
    stride: usize,
    lanes: Range<usize>,
) {
    let map = silence(stage, ticks);
    for lane in lanes {
        for j in (0..=stage.order as usize).rev() {
            let sum: f64 = (0..=j).map(|i| map[j][i] * states[i * stride + lane]).sum();
            states[j * stride + lane] = flush(sum);
        }
    }
}

/// The low-pass's states after 1, 2, 4, … silent ticks, from the filters' states and its own.
#[derive(Debug, Clone)]
pub(super) struct LowPassSilence {
    /// States of the filters of one latent, and all with the low-pass's.
    filters: usize,
    all: usize,
    /// For each power: (low-pass state, state).
    maps: Vec<f64>,
}

impl LowPassSilence {
    /// `one` is the low-pass at rest for one signal.
    pub(super) fn new(stages: &[Stage], one: &LowPassFilter) -> Self {
        let filters = stages.iter().map(|s| s.order as usize + 1).sum::<usize>();
        let own = one.state().len();
        let all = filters + own;
        let mut maps = vec![0.0; POWERS as usize * own * all];
        // One tick, of each state alone.
        for column in 0..all {
            let mut low_pass = one.clone();
            let mut response = [0.0];
            if let Some(state) = column.checked_sub(filters) {
                low_pass.state_mut()[state] = 1.0;
            } else {
                let mut first = 0;
                for stage in stages {
                    let order = stage.order as usize;
                    if (first..=first + order).contains(&column) {
                        response[0] = silence(stage, 1.0)[order][column - first];
                    }
                    first += order + 1;
                }
            }
            low_pass.step(&mut response);
            for (row, state) in low_pass.state().iter().enumerate() {
                maps[row * all + column] = *state;
            }
        }
        // Twice as many: the map of the states that the same number of ticks leaves.
        for power in 1..POWERS {
            let ticks = (1_u64 << (power - 1)) as f64;
            let (before, after) = maps.split_at_mut(power as usize * own * all);
            let half = &before[(power as usize - 1) * own * all..];
            for row in 0..own {
                let (half_row, to) = (&half[row * all..][..all], &mut after[row * all..][..all]);
                let mut first = 0;
                for stage in stages {
                    let map = silence(stage, ticks);
                    for i in 0..=stage.order as usize {
                        to[first + i] = (i..=stage.order as usize)
                            .map(|j| half_row[first + j] * map[j][i])
                            .sum();
                    }
                    first += stage.order as usize + 1;
                }
                for column in 0..all {
                    let through: f64 = (0..own)
                        .map(|c| half_row[filters + c] * half[c * all + column])
                        .sum();
                    let direct = if column < filters { to[column] } else { 0.0 };
                    to[column] = flush(direct + through);
                }
            }
        }
        Self { filters, all, maps }
    }

    /// The low-pass's state `row` after 2^`power` ticks, of one latent's `states` (filters', then its own).
    pub(super) fn after(&self, power: u32, row: usize, states: &[f64]) -> f64 {
        let own = self.all - self.filters;
        let map = &self.maps[(power as usize * own + row) * self.all..][..self.all];
        flush(map.iter().zip(states).map(|(m, s)| m * s).sum())
    }

    /// Number of states of one latent, the low-pass's included.
    pub(super) fn states(&self) -> usize {
        self.all
    }
}
