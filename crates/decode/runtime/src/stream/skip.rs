//! Silence of any length at once: what filters are after so many ticks without a spike.
//!
//! A filter's states s_j = Σ_u (t − u)^j·r^(t − u) become s_j ← r^m·Σ_{i≤j} C(j, i)·m^(j−i)·s_i after m
//! silent ticks: the binomial theorem. A low-pass behind the filters hears their responses die away, so its
//! states after m ticks are a linear map of the filters' states and its own; the maps of 1, 2, 4, … ticks
//! are made when the model is prepared, and those of m's binary digits applied one after another.
//!
//! A head is not linear. Silence leads its states to a fixed point, which is found when the model is prepared: a skip
//! steps the head until it is there, and goes there at once after a pause that outlasts all memory.

use alloc::vec::Vec;
use core::ops::Range;

use super::stage::Stage;
use crate::model::head::PreparedHead;
use crate::psc::{BINOMIAL, LowPassFilter, flush};
use betz_base::error::Result;
use betz_base::float;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use betz_base::memory::filled;

/// Powers of two of ticks that are told apart; silence of 2⁴⁰ ticks or more is rest.
pub(super) const POWERS: u32 = 40;

/// Most ticks that a head is stepped through because of one skip, one by one.
pub(super) const MOST_HEAD_STEPS: u64 = 1024;

/// A head has arrived if each state is this close to where silence leads: as a share of the state, and absolutely.
const NEAR: (f64, f64) = (3e-7, 1e-12);

/// Bounds of the search for where silence leads: numbers that it goes through, and steps. Some 0.2 s.
const MOST_NUMBERS: usize = 1 << 24;
const MOST_STEPS: usize = 1 << 15;

/// The states of a head after endless silence, and the time in which the model forgets everything before it.
#[derive(Debug, Clone)]
pub(super) struct HeadSilence {
    /// Empty for a head without states.
    pub(super) states: Vec<f64>,
    /// The first of them, which count steps.
    counters: usize,
    /// Ticks after which filters and low-pass are at rest.
    linear_ticks: u64,
    /// Ticks after which nothing is left of any state.
    pub(super) all_ticks: u64,
}

impl HeadSilence {
    /// Steps `head`, of so many `outputs`, from rest on latents that are their intercepts until its states repeat.
    pub(super) fn new(
        head: &PreparedHead,
        outputs: usize,
        intercept: &[f64],
        linear_memory: u64,
    ) -> Result<Self> {
        const WHAT: &str = "model";
        let mut states = filled(WHAT, 0.0, head.states())?;
        let mut seen = filled(WHAT, f64::NAN, states.len())?;
        let mut scratch = filled(WHAT, 0.0, head.scratch())?;
        let mut outputs = filled(WHAT, 0.0, outputs)?;
        let mut latents = intercept.to_vec();
        let steps = MOST_NUMBERS / (states.len() + scratch.len() + 1);
        for step in 0..steps.min(MOST_STEPS) {
            // Rounding may end in a cycle of a few states: seen again, wherever the search is in it.
            if states == seen {
                break;
            }
            if step.is_power_of_two() {
                seen.copy_from_slice(&states);
            }
            latents.copy_from_slice(intercept);
            step_apart(head, &mut latents, &mut states, &mut scratch, &mut outputs);
        }
        // Memory leaves 1e-7; half as much again, 3e-11.
        let linear_ticks = linear_memory.saturating_mul(3) / 2;
        Ok(Self {
            states,
            counters: head.counters(),
            linear_ticks,
            all_ticks: linear_ticks.saturating_add(head.skip_steps()),
        })
    }

    /// True if so many ticks of silence have put the filters to rest, and the head is where silence leads.
    #[inline]
    pub(super) fn has_arrived(&self, ticks: u64, states: &[f64]) -> bool {
        let near = |(state, end): (&f64, &f64)| (state - end).abs() <= NEAR.0 * end.abs() + NEAR.1;
        let mut pairs = states.iter().zip(&self.states).skip(self.counters);
        ticks >= self.linear_ticks && pairs.all(near)
    }

    /// `states` where silence leads; those that count steps stay.
    pub(super) fn arrive(&self, states: &mut [f64]) {
        states[self.counters..].copy_from_slice(&self.states[self.counters..]);
    }
}

/// One step of a head, not compiled into the loop around it: there the compiler reads fields of every kind before it
/// looks which kind it is, and Valgrind reports that.
#[inline(never)]
pub(super) fn step_apart(
    head: &PreparedHead,
    latents: &mut [f64],
    states: &mut [f64],
    scratch: &mut [f32],
    outputs: &mut [f64],
) {
    head.step(latents, states, scratch, outputs);
}

/// `map[j][i]`: what s_i adds to s_j in `ticks` silent ticks.
pub(super) fn silence(stage: &Stage, ticks: f64) -> [[f64; 5]; 5] {
    let left = float::exp(ticks * stage.log_decay);
    let mut map = [[0.0; 5]; 5];
    for j in 0..=stage.order as usize {
        for i in 0..=j {
            map[j][i] = left * BINOMIAL[j][i] * ticks.powi((j - i) as i32);
        }
    }
    map
}

/// Lanes of a filter that [`skip_lanes`] takes at once, so that processors use their vectors.
const BLOCK: usize = 8;

/// `ticks` silent ticks of one filter, whose states are the `lanes` of `states`, (order + 1, `stride`).
pub(super) fn skip_lanes(
    states: &mut [f64],
    stage: &Stage,
    ticks: f64,
    stride: usize,
    lanes: Range<usize>,
) {
    let map = silence(stage, ticks);
    for j in (0..=stage.order as usize).rev() {
        let (before, own) = states.split_at_mut(j * stride);
        let own = &mut own[lanes.clone()];
        let before = |i: usize| &before[i * stride..][lanes.clone()];
        let (blocks, rest) = own.as_chunks_mut::<BLOCK>();
        for (at, block) in blocks.iter_mut().enumerate() {
            let mut sums = [0.0; BLOCK];
            for (i, scale) in map[j][..j].iter().enumerate() {
                add_scaled(&mut sums, *scale, &before(i).as_chunks::<BLOCK>().0[at]);
            }
            add_scaled(&mut sums, map[j][j], block);
            *block = sums.map(flush);
        }
        let first = blocks.len() * BLOCK;
        for (at, state) in rest.iter_mut().enumerate() {
            let sum = (0..j).fold(0.0, |sum, i| sum + map[j][i] * before(i)[first + at]);
            *state = flush(sum + map[j][j] * *state);
        }
    }
}

#[inline]
fn add_scaled(sums: &mut [f64; BLOCK], scale: f64, from: &[f64; BLOCK]) {
    for (sum, from) in sums.iter_mut().zip(from) {
        *sum += scale * from;
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

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use super::*;
    use crate::model::{Decoder, DecoderParts, Head, Place};
    use crate::psc::{Filter, FilterBank};
    use crate::stream::PreparedModel;
    use crate::stream::engine::Engine;

    /// Of places on a line, between which the animal walks or jumps.
    fn engine(cells: u64, walk: f32, jump: f64) -> Engine {
        let n = cells as usize;
        let bank = FilterBank::new(vec![Filter {
            tau_seconds: 0.1,
            order: 0,
        }])
        .unwrap();
        let parts = DecoderParts::linear(0.01, bank, vec!["a".into()], vec!["x".into()]);
        let decoder = Decoder::new(DecoderParts {
            weights: (0..n).map(|cell| (cell as f64 * 0.1).sin()).collect(),
            intercept: (0..n)
                .map(|cell| -(cell as f64 * 0.2).cos() - 1.0)
                .collect(),
            head: Head::Place(Place {
                shape: vec![cells],
                cells: (0..cells).collect(),
                start: vec![1.0 / n as f64; n],
                walk: vec![1.0 - walk, 0.5 * walk],
                jump,
                values: (0..n).map(|cell| cell as f64).collect(),
            }),
            ..parts
        });
        let model = PreparedModel::new(&decoder.unwrap(), None).unwrap();
        Engine::new(Arc::new(model)).unwrap()
    }

    #[test]
    fn a_head_is_stepped_until_it_is_where_silence_leads_and_no_further() {
        for (walk, jump, expected) in [(0.5, 0.01, 1..400), (1e-6, 1e-9, 0..MOST_HEAD_STEPS + 1)] {
            let mut engine = engine(40, walk, jump);
            let remembered = engine.model().head.skip_steps();
            assert!(remembered > 3000);
            for ticks in [3000, remembered - 1, remembered] {
                engine.skip_whole(100);
                let stepped = engine.skip_whole(ticks);
                assert!(expected.contains(&stepped), "{walk}, {ticks}: {stepped}");
            }
            for ticks in [engine.model().silence.all_ticks, 1 << 60, u64::MAX] {
                assert_eq!(engine.skip_whole(ticks), 0);
            }
        }
    }
}
