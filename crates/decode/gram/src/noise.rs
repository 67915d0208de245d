//! The largest response, from which the customary neural noise σ = 0.1·max a follows.
//!
//! Between two spikes of a channel its response is a decaying polynomial, so the largest value of
//! all steps is found from the spikes alone: at the spike for order 0, at one of the two steps
//! around l = τ − s₁/s₀ for order 1, and by walking on from the spike, no further than n·τ, for
//! higher orders.

use betz_base::float;
use std::ops::Range;

use rayon::prelude::*;

use crate::gram::dense::BLOCK_STEPS;
use crate::psc::{Block, Responses};
use betz_recording::DatasetView;
use betz_runtime::psc::{BINOMIAL, Filter, FilterBank, MAX_ORDER};

const STATES: usize = MAX_ORDER as usize + 1;

/// Returns the largest response a over every feature of `bank` and every step inside segments, before any low-pass; 0
/// without spikes. If a signal has values below 0, this is the largest |a|.
///
/// Passes over the spikes once per filter, or once per thread if there are more threads. For order n ≥ 2 it checks up
/// to n·τ steps after spikes that may lead to a larger response. Allocates a few numbers per channel, and 32 KiB per
/// pass.
pub fn largest_response<'d>(data: impl Into<DatasetView<'d>>, bank: &FilterBank) -> f64 {
    let data = &data.into();
    let channels = data.channels();
    // With negative weights, or filters of any shape, a response may peak anywhere, so compute all of it.
    if data.spikes.weights.iter().any(|&w| w < 0.0) || !bank.sampled().is_empty() {
        return largest_of_all(data, bank);
    }
    // Where there are fewer filters than threads, channels are shared out. Every part looks at all
    // spikes, which costs little beside what it does with its own.
    let parts = rayon::current_num_threads().div_ceil(bank.len());
    let parts = parts.clamp(1, channels.max(1));
    let part = |i: usize| i * channels / parts..(i + 1) * channels / parts;
    let filters = bank.filters().par_iter();
    filters
        .flat_map(|&f| (0..parts).into_par_iter().map(move |i| (f, i)))
        .map(|(f, i)| Peaks::of(data, part(i), f))
        .reduce(|| 0.0, f64::max)
}

/// Largest |a|, response by response; 0 if the spikes do not fit the dataset, which training refuses.
fn largest_of_all(data: &DatasetView<'_>, bank: &FilterBank) -> f64 {
    let mut largest = 0.0;
    let mut block = Block::<f64>::default();
    if let Ok(mut walk) = Responses::new(data, bank, None) {
        while walk.next_block(BLOCK_STEPS, &mut block) {
            largest = (block.values.iter()).fold(largest, |l: f64, value| l.max(value.abs()));
        }
    }
    largest
}

/// Up to this many steps, the remaining part of a response is looked up.
const SHORT_GAP: usize = 4096;

/// States of some channels for one filter, each at the time of its last spike.
struct Peaks {
    order: usize,
    decay: f64,
    /// decayˡ for l up to [`SHORT_GAP`].
    powers: Vec<f64>,
    tau_steps: f64,
    state: Vec<[f64; STATES]>,
    last: Vec<i64>,
    largest: f64,
}

impl Peaks {
    fn of(data: &DatasetView<'_>, channels: Range<usize>, filter: Filter) -> f64 {
        let decay = filter.decay(data.step_seconds);
        let mut peaks = Self {
            order: filter.order as usize,
            decay,
            tau_steps: -1.0 / float::ln(decay),
            powers: (0..SHORT_GAP)
                .map(|l| float::powf(decay, l as f64))
                .collect(),
            state: vec![[0.0; STATES]; channels.len()],
            last: vec![0; channels.len()],
            largest: 0.0,
        };
        for segment in data.segments {
            for i in data.spikes.range(segment.start, segment.stop) {
                let channel = (data.spikes.channels[i] as usize).wrapping_sub(channels.start);
                if channel < channels.len() {
                    let count = f64::from(data.spikes.weight(i));
                    peaks.leap(channel, data.spikes.ticks[i], count);
                }
            }
            for channel in 0..channels.len() {
                peaks.leap(channel, segment.stop, 0.0);
                peaks.state[channel] = [0.0; STATES];
            }
        }
        peaks.largest * filter.scale(data.step_seconds)
    }

    /// Advances `channel` to `tick`, records the largest response before it, and adds `count` spikes there.
    fn leap(&mut self, channel: usize, tick: i64, count: f64) {
        let gap = (tick - self.last[channel]) as f64;
        self.last[channel] = tick;
        let state = self.state[channel];
        if state[0] > 0.0 && gap > 0.0 {
            let furthest = gap - 1.0;
            match self.order {
                0 => self.note(&state, 0.0),
                1 => {
                    let peak = (self.tau_steps - state[1] / state[0]).clamp(0.0, furthest);
                    self.note(&state, peak.floor());
                    self.note(&state, peak.ceil());
                }
                n if self.bound(&state) > self.largest => {
                    let last = furthest.min((n as f64 * self.tau_steps).ceil());
                    (0..=last as i64).for_each(|l| self.note(&state, l as f64));
                }
                _ => {}
            }
            let left = self.left_after(gap);
            for j in 0..=self.order {
                self.state[channel][j] = shifted(&state, j, gap) * left;
            }
        }
        self.state[channel][0] += count;
    }

    /// Upper bound of the response from here until another spike: each term at its peak,
    /// max over l of l^k·r^l = (k·τ/e)^k.
    fn bound(&self, state: &[f64; STATES]) -> f64 {
        let peak = |k: usize| (k as f64 * self.tau_steps / std::f64::consts::E).powi(k as i32);
        let terms = state[..=self.order].iter().zip(BINOMIAL[self.order]);
        let terms = terms.enumerate();
        terms.fold(0.0, |sum, (i, (s, ways))| {
            sum + ways * s * peak(self.order - i)
        })
    }

    /// decayˡ for a whole number l of steps.
    fn left_after(&self, steps: f64) -> f64 {
        let known = self.powers.get(steps as usize).copied();
        known.unwrap_or_else(|| float::powf(self.decay, steps))
    }

    fn note(&mut self, state: &[f64; STATES], later: f64) {
        let value = shifted(state, self.order, later) * self.left_after(later);
        self.largest = self.largest.max(value);
    }
}

/// Σ_i C(j, i)·l^(j−i)·s_i, by Horner's rule: the state s_j, `later` = l steps on, but for r^l.
fn shifted(state: &[f64; STATES], j: usize, later: f64) -> f64 {
    let terms = state[..=j].iter().zip(BINOMIAL[j]);
    terms.fold(0.0, |sum, (s, ways)| sum * later + ways * s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use crate::psc::responses;

    #[test]
    fn equals_the_largest_of_all_responses() {
        for case in cases::all() {
            let block = responses::<f64>(&case.data, &case.bank, None).unwrap();
            let expected = block.values.iter().copied().fold(0.0, f64::max);
            let got = largest_response(&case.data, &case.bank);
            assert!(
                (got - expected).abs() <= 1e-12 * expected.max(1e-300),
                "{}: {got} against {expected}",
                case.name
            );
        }
    }
}
