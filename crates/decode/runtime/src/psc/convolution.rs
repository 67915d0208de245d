//! Sampled filters in real time: the same bounded work at every step, whatever the length of a filter.
//!
//! The newest inputs are convolved directly. Older ones go through a uniformly partitioned convolution (Gardner 1995;
//! Wefers 2015, chapter 5): with blocks of B steps, h is cut after 2·B samples, and the rest into parts of B samples.
//! While block j runs, block j − 1 is transformed, multiplied with the spectrum of every part, summed and transformed
//! back: that is what the parts add to block j + 1. These transforms and products are a list of tasks of about the same
//! size, and every step of a block does its share of the list.
//!
//! Two signals are the real and the imaginary part of one complex transform.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::sampled::SampledFilter;
use super::transform::Transform;
use crate::width::{Width, for_every_width};
use betz_base::error::{Error, Result};
use betz_base::memory::filled;

/// Products that are summed side by side; the direct part's length is a multiple.
const ABREAST: usize = 32;

/// Most numbers that sampled filters take in a session: 512 MiB.
const MOST_NUMBERS: u64 = 1 << 26;

/// Multiply-adds per number of a transform's stage, and of a product of spectra.
const STAGE_COST: f64 = 3.0;
const PRODUCT_COST: f64 = 4.0;

/// Memory of a convolution in messages.
const WHAT: &str = "sampled filters";

/// Counters in front of the state: position in the ring, newest spectrum, and which of two tails is the current one.
const COUNTERS: usize = 3;

/// Sampled filters at work on several signals; starts from rest.
///
/// The input is one value per filter and signal, the output their sum over filters per signal. Opening allocates;
/// [`step`](Self::step) and [`reset`](Self::reset) do not. Results depend on the step's number since the reset alone.
///
/// ```
/// use betz_runtime::psc::{Convolution, SampledFilter};
///
/// let ramp = SampledFilter::new("ramp", vec![1.0, 2.0, 3.0], 0.001, 0)?;
/// let mut convolution = Convolution::new(&[ramp], 1, 0)?;
/// let mut step = |x: f64| {
///     let mut y = [0.0];
///     convolution.step(&[x], &mut y);
///     y[0]
/// };
/// assert_eq!([step(1.0), step(0.0), step(1.0), step(0.0)], [1.0, 2.0, 4.0, 2.0]);
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Convolution {
    plan: Arc<Plan>,
    /// Counters, ring, tails, spectra, sums: every number that steps change.
    state: Vec<f64>,
}

/// The constant part: filters in the forms that steps use.
#[derive(Debug)]
struct Plan {
    filters: usize,
    signals: usize,
    /// Samples of the direct part, padded with zeros to a multiple of [`ABREAST`].
    direct: usize,
    /// (filter, direct): samples, the last first.
    reversed: Vec<f64>,
    /// Length of the ring of inputs.
    ring: usize,
    /// Steps of a block; 0: all of it is direct.
    block: usize,
    parts: usize,
    transform: Transform,
    /// (filter, part, 2, 2·block): spectra, scaled.
    spectra: Vec<f64>,
    width: Width,
}

impl Convolution {
    /// `filters` at rest, for `signals` signals. Filters that look ahead are as many steps late as `ahead` says, and so
    /// are all others.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a filter that looks further ahead, and
    /// as [`check_room`](Self::check_room); [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn new(filters: &[SampledFilter], signals: usize, ahead: usize) -> Result<Self> {
        Self::check_room(filters, signals, ahead)?;
        let samples: Result<Vec<Vec<f64>>> = (filters.iter())
            .map(|f| f.clone().shifted(ahead as i64)?.causal_samples())
            .collect();
        let plan = Plan::new(&samples?, signals)?;
        Ok(Self {
            state: filled(WHAT, 0.0, plan.states())?,
            plan: Arc::new(plan),
        })
    }

    /// Refuses filters that would take more than 512 MiB for `signals` signals. Allocates nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument).
    pub fn check_room(filters: &[SampledFilter], signals: usize, ahead: usize) -> Result<()> {
        let stops = filters
            .iter()
            .map(|f| f.stop().saturating_add(ahead as i64));
        let longest = stops.max().unwrap_or(0).max(0) as usize;
        let numbers = numbers(filters.len(), signals, longest);
        if numbers <= MOST_NUMBERS {
            return Ok(());
        }
        Err(Error::argument(format!(
            "sampled filters: expected filters that take at most {} bytes in a session, got {} of up to {longest} steps on {signals} signals, which take {}; use fewer or shorter filters, or a longer step",
            8 * MOST_NUMBERS,
            filters.len(),
            numbers.saturating_mul(8)
        )))
    }

    /// Takes one input per filter and signal, (filter, signal), and adds one response per signal to `response`.
    pub fn step(&mut self, input: &[f64], response: &mut [f64]) {
        let Self { plan, state } = self;
        let position = plan.position(state);
        for (lane, x) in input.iter().enumerate().take(plan.lanes()) {
            let at = COUNTERS + lane * 2 * plan.ring + position;
            state[at] = *x;
            state[at + plan.ring] = *x;
        }
        plan.respond(state, position, response);
        plan.advance(state, position);
    }

    /// Does what a step does, but for what it changes: it fills the caches.
    pub(crate) fn rehearse(&self, response: &mut [f64]) {
        let position = self.plan.position(&self.state);
        self.plan.respond(&self.state, position, response);
    }

    /// Back to rest, as at the start of a segment.
    pub fn reset(&mut self) {
        self.state.fill(0.0);
    }

    /// All states, in a fixed order.
    pub fn state(&self) -> &[f64] {
        &self.state
    }

    /// All states, to be put back.
    pub fn state_mut(&mut self) -> &mut [f64] {
        &mut self.state
    }

    /// Multiply-adds that a step takes at most, about.
    pub fn most_cost(&self) -> f64 {
        let plan = &self.plan;
        match plan.block {
            0 => (plan.lanes() * plan.direct) as f64,
            block => cost(plan.filters, plan.signals, block, plan.parts),
        }
    }

    /// Steps of a block of the partitioned part; 0 if there is none.
    pub fn block(&self) -> usize {
        self.plan.block
    }
}

/// Multiply-adds of the dearest step with blocks of `block` steps.
fn cost(filters: usize, signals: usize, block: usize, parts: usize) -> f64 {
    let (length, pairs) = (2 * block as u64, signals.div_ceil(2) as u64);
    let (filters, signals, parts) = (filters as u64, signals as u64, parts as u64);
    let stages = u64::from(length.trailing_zeros());
    let tasks = filters * pairs * (stages + parts) + pairs * stages;
    let direct = (filters * signals * length) as f64;
    direct + tasks.div_ceil(block as u64) as f64 * PRODUCT_COST.max(STAGE_COST) * length as f64
}

/// Steps of a block for filters of up to `longest` samples; 0 where all of them are better taken directly.
fn best_block(filters: usize, signals: usize, longest: usize) -> usize {
    let all_direct = filters as f64 * signals as f64 * longest as f64;
    let blocks = (5..14).map(|power| 1_usize << power);
    let blocks = blocks.filter(|block| 2 * block < longest);
    let costs = blocks.map(|block| {
        let parts = parts(longest, block);
        (block, cost(filters, signals, block, parts))
    });
    let best = costs.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(0, |(block, cost)| if cost < all_direct { block } else { 0 })
}

/// Parts of `block` samples behind the direct part.
fn parts(longest: usize, block: usize) -> usize {
    match block {
        0 => 0,
        block => longest.saturating_sub(2 * block).div_ceil(block),
    }
}

/// Numbers that filters of up to `longest` samples take for `signals` signals: their samples, spectra and states.
fn numbers(filters: usize, signals: usize, longest: usize) -> u64 {
    let block = best_block(filters, signals, longest);
    let parts = parts(longest, block) as u64;
    let (direct, ring) = match block {
        0 => (longest as u64, longest as u64),
        block => (2 * block as u64, 4 * block as u64),
    };
    let (filters, signals, block) = (filters as u64, signals as u64, block as u64);
    let pairs = signals.div_ceil(2);
    let product = |factors: &[u64]| factors.iter().fold(1_u64, |all, f| all.saturating_mul(*f));
    [
        product(&[filters, longest as u64]),
        product(&[filters, direct]),
        product(&[filters, signals, 2, ring]),
        product(&[8, pairs, block]),
        product(&[filters, pairs + 1, parts, 4, block]),
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}

impl Plan {
    fn new(samples: &[Vec<f64>], signals: usize) -> Result<Self> {
        let longest = samples.iter().map(Vec::len).max().unwrap_or(0);
        let block = best_block(samples.len(), signals, longest);
        Self::with_block(samples, signals, longest, block)
    }

    fn with_block(
        samples: &[Vec<f64>],
        signals: usize,
        longest: usize,
        block: usize,
    ) -> Result<Self> {
        let direct = match block {
            0 => longest.next_multiple_of(ABREAST),
            block => 2 * block,
        };
        let mut reversed = filled(WHAT, 0.0, samples.len() * direct)?;
        for (to, h) in reversed.chunks_exact_mut(direct.max(1)).zip(samples) {
            for (to, h) in to.iter_mut().rev().zip(h) {
                *to = *h;
            }
        }
        let transform = Transform::new((2 * block).max(2));
        let parts = parts(longest, block);
        let mut spectra = filled(WHAT, 0.0, samples.len() * parts * 4 * block)?;
        let of_filters = spectra.chunks_exact_mut((parts * 4 * block).max(1));
        for (to, h) in of_filters.zip(samples) {
            let rest = h.get(2 * block..).unwrap_or(&[]);
            for (to, part) in to.chunks_exact_mut(4 * block).zip(rest.chunks(block)) {
                for (to, h) in to.iter_mut().zip(part) {
                    *to = h / (2 * block) as f64;
                }
                (0..transform.stages()).for_each(|stage| transform.forward(to, stage));
            }
        }
        Ok(Self {
            filters: samples.len(),
            signals,
            direct,
            reversed,
            ring: match block {
                0 => direct,
                block => 4 * block,
            },
            block,
            parts,
            transform,
            spectra,
            width: Width::detect(),
        })
    }

    fn lanes(&self) -> usize {
        self.filters * self.signals
    }

    fn pairs(&self) -> usize {
        self.signals.div_ceil(2)
    }

    /// Range of the ring of inputs in the state: (filter, signal, 2·ring), every input twice.
    fn inputs(&self) -> Range<usize> {
        COUNTERS..COUNTERS + self.lanes() * 2 * self.ring
    }

    /// Range of the tails: (2, signal, block), signals padded to pairs.
    fn tails(&self) -> Range<usize> {
        let start = self.inputs().end;
        start..start + 2 * 2 * self.pairs() * self.block
    }

    /// Range of the spectra of past blocks: (filter, pair, part, 2, 2·block).
    fn history(&self) -> Range<usize> {
        let start = self.tails().end;
        start..start + self.filters * self.pairs() * self.parts * 4 * self.block
    }

    /// Range of the sums of products: (pair, 2, 2·block).
    fn sums(&self) -> Range<usize> {
        let start = self.history().end;
        start..start + self.pairs() * 4 * self.block
    }

    fn states(&self) -> usize {
        self.sums().end
    }

    /// Position in the ring. A state that came from outside may hold any number.
    fn position(&self, state: &[f64]) -> usize {
        state[0] as usize % self.ring.max(1)
    }

    /// Adds the direct part and the current tail.
    fn respond(&self, state: &[f64], position: usize, response: &mut [f64]) {
        let end = position + self.ring + 1;
        let inputs = &state[self.inputs()];
        for (lane, ring) in inputs.chunks_exact((2 * self.ring).max(1)).enumerate() {
            let Some(response) = response.get_mut(lane % self.signals) else {
                continue;
            };
            let samples = &self.reversed[lane / self.signals * self.direct..][..self.direct];
            dot(self.width, &ring[end - self.direct..end], samples, response);
        }
        if self.block > 0 {
            let tail = &state[self.tail(state[2] as usize)];
            let tails = tail.chunks_exact(self.block);
            for (response, tail) in response.iter_mut().zip(tails) {
                *response += tail[position % self.block];
            }
        }
    }

    /// One of the two tails.
    fn tail(&self, number: usize) -> Range<usize> {
        let tails = self.tails();
        let half = tails.len() / 2;
        let start = tails.start + number % 2 * half;
        start..start + half
    }

    /// Does the step's share of the block's tasks, and goes on to the next position.
    fn advance(&self, state: &mut [f64], position: usize) {
        if self.block > 0 {
            let (tasks, step) = (self.tasks(), position % self.block);
            for task in tasks * step / self.block..tasks * (step + 1) / self.block {
                self.run(state, task, position);
            }
            if step + 1 == self.block {
                state[1] = ((state[1] as usize % self.parts + 1) % self.parts) as f64;
                state[2] = f64::from(u8::from((state[2] as usize).is_multiple_of(2)));
            }
        }
        state[0] = ((position + 1) % self.ring.max(1)) as f64;
    }

    /// Number of tasks of a block: stages of transforms there, products, stages of transforms back.
    fn tasks(&self) -> usize {
        let (there, stages) = (self.filters * self.pairs(), self.transform.stages());
        there * (stages + self.parts) + self.pairs() * stages
    }

    fn run(&self, state: &mut [f64], task: usize, position: usize) {
        let stages = self.transform.stages();
        let there = self.filters * self.pairs();
        let newest = state[1] as usize % self.parts;
        let length = 4 * self.block;
        let spectrum = |of: usize, slot: usize| {
            let start = self.history().start + (of * self.parts + slot) * length;
            start..start + length
        };
        let sum = |pair: usize| {
            let start = self.sums().start + pair * length;
            start..start + length
        };
        if task < there * stages {
            let (of, stage) = (task / stages, task % stages);
            if stage == 0 {
                self.copy_inputs(state, of, spectrum(of, newest), position);
            }
            let data = &mut state[spectrum(of, newest)];
            return self.transform.forward(data, stage);
        }
        let task = task - there * stages;
        if task < there * self.parts {
            let (pair, rest) = (
                task / (self.filters * self.parts),
                task % (self.filters * self.parts),
            );
            let (filter, part) = (rest / self.parts, rest % self.parts);
            let slot = (newest + self.parts - part) % self.parts;
            let x = spectrum(filter * self.pairs() + pair, slot);
            let h = &self.spectra[(filter * self.parts + part) * length..][..length];
            // Sums lie behind the spectra.
            let (before, behind) = state.split_at_mut(self.sums().start);
            let sum = &mut behind[pair * length..][..length];
            if rest == 0 {
                sum.fill(0.0);
            }
            return self.transform.multiply_add(sum, &before[x], h);
        }
        let task = task - there * self.parts;
        let (pair, stage) = (task / stages, task % stages);
        self.transform.backward(&mut state[sum(pair)], stage);
        if stage + 1 == stages {
            let to = self.tail(state[2] as usize % 2 + 1);
            let (before, behind) = state.split_at_mut(self.sums().start);
            let sum = behind[pair * length..][..length].chunks_exact(2 * self.block);
            let tails = before[to].chunks_exact_mut(self.block).skip(2 * pair);
            for (tail, sum) in tails.zip(sum) {
                tail.copy_from_slice(&sum[self.block..]);
            }
        }
    }

    /// Copies the last two blocks of a filter's pair of signals to `to`, real before imaginary.
    fn copy_inputs(&self, state: &mut [f64], of: usize, to: Range<usize>, position: usize) {
        let (filter, pair) = (of / self.pairs(), of % self.pairs());
        let first = (position / self.block + 2) % 4 * self.block;
        let (before, behind) = state.split_at_mut(self.history().start);
        let start = self.history().start;
        let to = &mut behind[to.start - start..to.end - start];
        for (signal, to) in to.chunks_exact_mut(2 * self.block).enumerate() {
            let signal = 2 * pair + signal;
            if signal < self.signals {
                let lane = filter * self.signals + signal;
                let from = COUNTERS + lane * 2 * self.ring + first;
                to.copy_from_slice(&before[from..from + 2 * self.block]);
            } else {
                to.fill(0.0);
            }
        }
    }
}

for_every_width! {
    /// Adds Σ x·h to `sum`; lengths are multiples of [`ABREAST`].
    fn dot(x: &[f64], h: &[f64], sum: &mut f64) {
        let mut sums = [0.0; ABREAST];
        let ((x, _), (h, _)) = (x.as_chunks::<ABREAST>(), h.as_chunks::<ABREAST>());
        for (x, h) in x.iter().zip(h) {
            for i in 0..ABREAST {
                sums[i] += x[i] * h[i];
            }
        }
        let mut left = ABREAST;
        while left > 1 {
            left /= 2;
            for i in 0..left {
                sums[i] += sums[i + left];
            }
        }
        *sum += sums[0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern.
    fn numbers(seed: u64, count: usize) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f64 / 1e7 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    fn oracle(samples: &[Vec<f64>], signals: usize, input: &[f64], t: usize) -> Vec<f64> {
        let lanes = samples.len() * signals;
        let mut response = vec![0.0; signals];
        for (f, h) in samples.iter().enumerate() {
            for (m, h) in h.iter().enumerate().take(t + 1) {
                for (s, y) in response.iter_mut().enumerate() {
                    *y += h * input[(t - m) * lanes + f * signals + s];
                }
            }
        }
        response
    }

    #[test]
    fn every_block_equals_plain_loops() {
        for (lengths, signals) in [
            (&[1_usize][..], 1),
            (&[33], 2),
            (&[200], 3),
            (&[70, 333], 2),
            (&[500, 1, 129], 5),
        ] {
            let samples: Vec<Vec<f64>> = (lengths.iter()).map(|&l| numbers(l as u64, l)).collect();
            let longest = *lengths.iter().max().unwrap();
            let steps = 3 * longest + 100;
            let input = numbers(7, steps * samples.len() * signals);
            for block in [0, 8 * 4, 64] {
                if 2 * block >= longest && block > 0 {
                    continue;
                }
                let plan = Plan::with_block(&samples, signals, longest, block).unwrap();
                let mut walk = Convolution {
                    state: vec![0.0; plan.states()],
                    plan: Arc::new(plan),
                };
                let lanes = samples.len() * signals;
                for pass in 0..2 {
                    for (t, x) in input.chunks_exact(lanes).enumerate() {
                        let mut response = vec![0.0; signals];
                        walk.step(x, &mut response);
                        if t % 7 == 0 {
                            let expected = oracle(&samples, signals, &input, t);
                            for (y, e) in response.iter().zip(&expected) {
                                assert!(
                                    (y - e).abs() < 1e-11,
                                    "{lengths:?} {block} {t} {pass}: {y} {e}"
                                );
                            }
                        }
                    }
                    walk.reset();
                }
            }
        }
    }

    #[test]
    fn what_filters_take_is_known_beforehand_and_too_much_is_refused() {
        for (count, signals, length) in [(1, 1, 1), (2, 3, 100), (1, 4, 4000), (3, 5, 30_000)] {
            let filter = |i| SampledFilter::new("k", numbers(i, length), 1.0, 0).unwrap();
            let filters: Vec<SampledFilter> = (0..count as u64).map(filter).collect();
            let made = Convolution::new(&filters, signals, 0).unwrap();
            let plan = &made.plan;
            let taken = made.state.len() + plan.spectra.len() + plan.reversed.len();
            let expected = super::numbers(count, signals, length) as usize - count * length;
            // But for the counters, and the padding of direct filters.
            let padding = COUNTERS + (ABREAST - 1) * count * (1 + 2 * signals);
            assert!(
                (expected..=expected + padding).contains(&taken),
                "{taken} {expected}"
            );
        }
        // One sample, late: small in a file.
        let late = SampledFilter::new("late", vec![1.0], 1.0, 1 << 20).unwrap();
        let error = Convolution::new(&vec![late.clone(); 64], 64, 0).unwrap_err();
        assert!(
            error.message().contains("use fewer or shorter filters"),
            "{error}"
        );
        assert!(Convolution::check_room(&[late], 4, 0).is_ok());
    }

    #[test]
    fn long_filters_are_cut_into_blocks_and_cost_little() {
        let filter = SampledFilter::new("long", numbers(3, 4000), 1.0, 0).unwrap();
        let convolution = Convolution::new(&[filter], 4, 0).unwrap();
        assert!(convolution.block() > 0);
        assert!(
            convolution.most_cost() < 4000.0,
            "{}",
            convolution.most_cost()
        );
        let short = SampledFilter::new("short", numbers(3, 40), 1.0, 0).unwrap();
        assert_eq!(Convolution::new(&[short], 4, 0).unwrap().block(), 0);
    }

    #[test]
    fn a_filter_that_looks_ahead_is_late_by_as_much() {
        let filter = SampledFilter::new("ahead", vec![1.0, 2.0, 4.0], 1.0, -1).unwrap();
        assert!(Convolution::new(core::slice::from_ref(&filter), 1, 0).is_err());
        let mut convolution = Convolution::new(&[filter], 1, 1).unwrap();
        let mut y = [0.0];
        convolution.step(&[1.0], &mut y);
        assert_eq!(y, [1.0]);
    }
}
