//! Correlations of responses with outputs at many lags on a device: the search for a delay.
//!
//! Responses of a round go behind those of earlier rounds, into a window per feature that reaches back twice the largest lag.
//! cuFFT transforms overlapping blocks of the windows, and blocks of the behaviour that lie in the middle of these. One
//! kernel multiplies their spectra and adds the products, which are transformed back once, behind the last round. Segments
//! lie so far apart in padded time that no lag reaches from one into another.
//!
//! Features that do not fit go through all rounds in several passes.

use std::ops::Range;

use super::plan::{CHUNK_BLOCKS, CHUNK_STEPS, SourceCosts};
use super::source::{ResponseSource, Samples, TrainFilters, TrainSource};
use super::staging::GramStaging;
use super::timeline::{Reach, Timeline};
use crate::gram::cost;
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
use betz_device::cuda::{BlockTransforms, Buffer, Context, FEED_PIECES, Feed};
use betz_device::{Room, TransformShape};
use betz_kernels::gram::{LagProducts, LagSquares, LagWindow};
use betz_recording::DatasetView;
use betz_runtime::psc::{FilterBank, LowPass};

/// Bytes of spectra that are worked on at once: they stay in the cache from the transform to the product.
const SPECTRA_BYTES: usize = 32 << 20;

/// Shortest block, unless the recording is shorter.
const SHORTEST: usize = 4096;

/// Steps of a block for each step of lag: the longer a block, the fewer of its steps overlap.
const BLOCK_LAGS: usize = 6;

/// Blocks of behaviour in a round, tried in this order.
const ROUND_BLOCKS: [usize; 3] = [8, 4, 2];

/// Threads of a block of threads, as in the kernels.
const THREADS: usize = 256;

/// Rows whose squares are added by one block of threads.
const PART_ROWS: usize = 64;

/// A feature counts as constant if its variance is below this part of its mean square: its responses have 24 bits.
const LEAST_SPREAD: f64 = 1e-10;

/// The data and the lags.
pub(crate) struct LagSearch<'a> {
    pub(crate) data: &'a DatasetView<'a>,
    pub(crate) bank: &'a FilterBank,
    pub(crate) low_pass: Option<LowPass>,
    /// Largest lag in both directions, in steps; less than the longest segment.
    pub(crate) most: usize,
    /// Behaviour minus its mean, (steps, outputs) row-major.
    pub(crate) behavior: &'a [f32],
    /// Sum of squares of each output; 0 for one that is constant.
    pub(crate) squares: &'a [f64],
}

/// Blocks of windows and of the behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LagBlocks {
    /// Steps that are transformed.
    length: usize,
    /// Steps of behaviour in a block.
    hop: usize,
    /// Blocks of behaviour in a round.
    used: usize,
    /// Blocks of a window: those of the behaviour, and some that do not count.
    each: usize,
    /// Steps of a round, a multiple of the chunk's.
    advance: usize,
}

impl LagBlocks {
    /// Rounds of about `count` blocks for lags of up to `most` steps over `steps` steps.
    fn new(most: usize, steps: usize, count: usize) -> Self {
        let longest = (steps + 2 * most).next_power_of_two();
        let length = (BLOCK_LAGS * most).max(SHORTEST).next_power_of_two();
        let length = length.min(longest);
        let hop = (length - 2 * most) / 4 * 4;
        // The last lags are those of the steps behind the last.
        let all = (steps + most).next_multiple_of(CHUNK_STEPS);
        let advance = (count * hop / CHUNK_STEPS).max(1) * CHUNK_STEPS;
        let advance = advance.min(all);
        Self {
            length,
            hop,
            used: advance.div_ceil(hop),
            each: (advance + 2 * most).div_ceil(hop),
            advance,
        }
    }

    /// Steps from one window to the next.
    const fn stride(&self) -> usize {
        self.hop * self.each
    }

    /// Values of a spectrum.
    const fn spectrum(&self) -> usize {
        2 * (self.length / 2 + 1)
    }
}

/// Cuts of time and features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LagPlan {
    blocks: LagBlocks,
    /// Channels of a pass.
    channels: usize,
    /// Features that are transformed at once, and how often that is done.
    batch: usize,
    batches: usize,
}

/// Sizes that a plan follows from.
struct LagDemand {
    channels: usize,
    filters: usize,
    outputs: usize,
    /// Steps of padded time.
    steps: usize,
    most: usize,
    source: SourceCosts,
}

impl LagDemand {
    fn cut(&self, channels: usize, count: usize) -> LagPlan {
        let blocks = LagBlocks::new(self.most, self.steps, count);
        let rows = channels * self.filters;
        let most = SPECTRA_BYTES / (4 * blocks.each * blocks.spectrum());
        let batches = rows.div_ceil(most.max(1)).max(1);
        let batch = rows.div_ceil(batches);
        LagPlan {
            blocks,
            channels,
            batch,
            batches: rows.div_ceil(batch),
        }
    }

    /// Bytes of device memory that `plan` takes.
    fn bytes(&self, plan: &LagPlan) -> u64 {
        let LagBlocks {
            length,
            used,
            each,
            advance,
            ..
        } = plan.blocks;
        let (spectrum, outputs) = (plan.blocks.spectrum(), self.outputs);
        let (rows, padded) = (plan.channels * self.filters, plan.batch * plan.batches);
        let chunks = (advance.min(self.steps) / CHUNK_STEPS) as u64;
        let windows = 2 * (padded * plan.blocks.stride() + length);
        let products = padded * outputs * spectrum;
        // Spectra, and as much again for the library's work.
        let spectra = 2 * (plan.batch * (each + outputs) + outputs * used) * spectrum;
        let behavior = FEED_PIECES * outputs * used * length;
        let lags = 2 * self.most + 1;
        let parts = (plan.batch * outputs).div_ceil(PART_ROWS);
        let own = 4 * (windows + products + spectra + behavior)
            + 8 * (lags * parts + 3 * padded * (outputs + 1))
            + advance;
        let source = self.source.fixed
            + self.source.row * rows as u64
            + self.source.chunk * chunks
            + self.source.row_chunk * rows as u64 * chunks;
        own as u64 + source
    }

    /// The plan within `memory` bytes: all features in long rounds, else shorter rounds, else fewer features at a time.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory), with the smallest memory that works.
    fn plan(&self, memory: u64) -> Result<LagPlan> {
        let mut channels = self.channels;
        loop {
            let plans = ROUND_BLOCKS.map(|count| self.cut(channels, count));
            if let Some(plan) = plans.iter().find(|plan| self.bytes(plan) <= memory) {
                return Ok(*plan);
            }
            if channels == 1 {
                let least = plans.iter().map(|plan| self.bytes(plan)).min();
                let what = format!(
                    "the delay over lags of up to {} steps on a device, in bytes",
                    self.most
                );
                return Err(Error::device_memory(what, least.unwrap_or(0), memory));
            }
            channels = channels.div_ceil(2);
        }
    }
}

/// Mean over features and outputs of the squared correlation at each lag, from −`most` on, of responses with the behaviour
/// of so many steps before.
///
/// # Errors
/// As [`TrainSource::new`]; [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory) if one channel does not fit;
/// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted) if `progress` cancels; those of the device.
pub(crate) fn mean_correlations(
    context: &Context,
    search: &LagSearch<'_>,
    progress: &dyn Progress,
) -> Result<Vec<f64>> {
    let Room { memory, .. } = Room::of(context)?;
    // The library takes some itself.
    mean_correlations_within(context, memory / 8 * 7, search, progress)
}

pub(super) fn mean_correlations_within(
    context: &Context,
    memory: u64,
    search: &LagSearch<'_>,
    progress: &dyn Progress,
) -> Result<Vec<f64>> {
    let (data, bank, most) = (search.data, search.bank, search.most);
    let filters = TrainFilters {
        bank,
        low_pass: search.low_pass,
        step_seconds: data.step_seconds,
        way: cost::sampled_way(data, bank, search.low_pass),
    };
    let reach = Samples::new(bank, data.segments)
        .map(|samples| samples.reach())
        .unwrap_or_default();
    let reach = Reach {
        back: reach.back.max(most),
        ..reach
    };
    let timeline = Timeline::new(data.segments, data.steps, 0, CHUNK_BLOCKS, reach)?;
    let mut source = TrainSource::new(
        context,
        &data.spikes,
        data.channels(),
        filters,
        data.segments,
    )?;
    let demand = LagDemand {
        channels: data.channels(),
        filters: bank.len(),
        outputs: data.outputs.len(),
        steps: timeline.block_count / CHUNK_BLOCKS * CHUNK_STEPS,
        most,
        source: source.costs(&timeline),
    };
    let plan = demand.plan(memory)?;
    betz_base::memory::plan(
        format_args!("behaviour of {} steps for a device", demand.steps),
        4 * demand.steps as u128 * demand.outputs as u128,
    )?;
    let mut behavior = vec![0.0; demand.steps * demand.outputs];
    let all = 0..timeline.block_count;
    timeline.pack_behavior(search.behavior, demand.outputs, 0, all, &mut behavior);
    let mut correlation = vec![0.0; 2 * most + 1];
    for first in (0..demand.channels).step_by(plan.channels) {
        let channels = first..demand.channels.min(first + plan.channels);
        let pass = LagPass {
            context,
            search,
            demand: &demand,
            plan,
            timeline: &timeline,
            behavior: &behavior,
            features: channels.start * bank.len()..channels.end * bank.len(),
            progress,
        };
        pass.run(&mut source, &mut correlation)?;
    }
    let pairs = (demand.channels * bank.len() * demand.outputs) as f64;
    correlation.iter_mut().for_each(|c| *c /= pairs);
    Ok(correlation)
}

/// Some features' walk through all of time.
struct LagPass<'a> {
    context: &'a Context,
    search: &'a LagSearch<'a>,
    demand: &'a LagDemand,
    plan: LagPlan,
    timeline: &'a Timeline,
    /// Of padded time, (steps, outputs) row-major.
    behavior: &'a [f32],
    features: Range<usize>,
    progress: &'a dyn Progress,
}

/// Sums that grow from round to round.
struct LagSums {
    /// Σa and Σa² of each feature.
    totals: Buffer<f64>,
    /// Spectra of the sums at all lags, (feature, output), one buffer per batch.
    products: Vec<Buffer<f32>>,
}

impl LagPass<'_> {
    /// Adds the features' squared correlations to `correlation`.
    fn run(&self, source: &mut TrainSource<'_>, correlation: &mut [f64]) -> Result<()> {
        let (context, outputs) = (self.context, self.demand.outputs);
        let LagPlan {
            blocks,
            batch,
            batches,
            ..
        } = self.plan;
        let spectrum = blocks.spectrum();
        let round_chunks = blocks.advance.min(self.demand.steps) / CHUNK_STEPS;
        let mut staging = context.take_slot::<GramStaging>();
        source.begin(
            self.timeline,
            std::slice::from_ref(&self.features),
            round_chunks,
            &mut staging,
        )?;
        let values = outputs * blocks.used * blocks.length;
        let mut behavior = Feed::new(context, values, &mut staging.f32s)?;
        let window = || context.zeros(batch * batches * blocks.stride() + blocks.length);
        let mut windows: [Buffer<f32>; 2] = [window()?, window()?];
        let product = |_| context.zeros(batch * outputs * spectrum);
        let mut sums = LagSums {
            totals: context.zeros(2 * self.features.len())?,
            products: (0..batches).map(product).collect::<Result<_>>()?,
        };
        let shape = |hop, count| TransformShape {
            length: blocks.length,
            hop,
            count,
        };
        let count = outputs * blocks.used;
        let mut of_behavior = context.block_transforms(shape(blocks.length, count), 1)?;
        let mut of_windows = context.block_transforms(shape(blocks.hop, batch * blocks.each), 1)?;
        let mut spectra = context.alloc(count * spectrum)?;
        let mut window_spectra = context.alloc(batch * blocks.each * spectrum)?;
        let end = self.demand.steps + self.search.most;
        for begin in (0..end).step_by(blocks.advance) {
            progress::check(self.progress, "delay")?;
            self.extend_windows(source, begin, round_chunks, &mut windows, &mut sums.totals)?;
            behavior.send(values, |target| {
                self.write_behavior(begin, target);
                Ok(())
            })?;
            of_behavior.forward(context, behavior.piece(), 0, &mut spectra)?;
            behavior.release()?;
            for (number, product) in sums.products.iter_mut().enumerate() {
                let first = number * batch * blocks.stride();
                of_windows.forward(context, &windows[0], first, &mut window_spectra)?;
                self.multiply(&window_spectra, &spectra, product)?;
            }
            self.report(begin);
        }
        behavior.keep(&mut staging.f32s);
        source.end(&mut staging)?;
        context.put_slot(staging);
        drop((windows, window_spectra, of_windows));
        let back = context.block_transforms(shape(blocks.length, batch * outputs), 1)?;
        self.add_squares(back, sums, correlation)
    }

    /// Progress of a round that begins at step `begin`, in steps of the recording.
    fn report(&self, begin: usize) {
        let (all, features) = (
            self.demand.steps,
            self.demand.channels * self.demand.filters,
        );
        let here = all.min(begin + self.plan.blocks.advance) as f64 / all as f64;
        let done = self.features.start as f64 + here * self.features.len() as f64;
        let steps = self.timeline.steps;
        let done = (done / features as f64 * steps as f64) as u64;
        self.progress.update("delay", done, steps);
    }

    /// Computes the responses of the round at step `begin` and puts them behind those before. The first of `windows` is then
    /// the new one: its first step is `begin` − 2 · most.
    fn extend_windows(
        &self,
        source: &mut TrainSource<'_>,
        begin: usize,
        round_chunks: usize,
        windows: &mut [Buffer<f32>; 2],
        totals: &mut Buffer<f64>,
    ) -> Result<()> {
        let context = self.context;
        let advance = self.plan.blocks.advance;
        let all = self.demand.steps / CHUNK_STEPS;
        let chunk = |step: usize| all.min(step / CHUNK_STEPS);
        let chunks = chunk(begin)..chunk(begin + advance);
        if !chunks.is_empty() {
            source.filter(self.timeline, chunks.clone())?;
        }
        let blocks = chunks.start * CHUNK_BLOCKS..chunks.end * CHUNK_BLOCKS;
        let mask = context.upload(&self.timeline.layout(blocks).words)?;
        let [window, before] = windows;
        std::mem::swap(window, before);
        let arguments = LagWindow {
            before: before.read(),
            kept: 2 * self.search.most as i32,
            advance: advance as i32,
            responses: source.responses(0).read(),
            length: (round_chunks * CHUNK_STEPS) as u64,
            mask: mask.read(),
            steps: (chunks.len() * CHUNK_STEPS) as i32,
            stride: self.plan.blocks.stride() as u64,
            window: window.write(),
            totals: totals.update(),
        };
        let grid = (self.features.len() as u32, 1, 1);
        context
            .load::<LagWindow>(&[], 0)?
            .launch(grid, THREADS as u32, arguments)
    }

    /// Writes the behaviour that the windows of the round at step `begin` are centred about: (output, block), each with zeros
    /// behind.
    fn write_behavior(&self, begin: usize, target: &mut [f32]) {
        let (most, outputs) = (self.search.most, self.demand.outputs);
        let LagBlocks {
            length,
            hop,
            used,
            advance,
            ..
        } = self.plan.blocks;
        target.fill(0.0);
        let end = (begin + advance).saturating_sub(most);
        let end = end.min(self.demand.steps);
        for (i, block) in target.chunks_exact_mut(length).enumerate() {
            let (output, number) = (i / used, i % used);
            // Step `first` − `most` of the behaviour is the block's first.
            let first = begin + number * hop;
            let steps = first.saturating_sub(most)..end.min((first + hop).saturating_sub(most));
            for step in steps {
                block[step + most - first] = self.behavior[step * outputs + output];
            }
        }
    }

    /// Adds products of the spectra of a batch of windows and of the behaviour.
    fn multiply(
        &self,
        windows: &Buffer<f32>,
        behavior: &Buffer<f32>,
        products: &mut Buffer<f32>,
    ) -> Result<()> {
        let blocks = self.plan.blocks;
        let pairs = blocks.spectrum() / 2;
        let arguments = LagProducts {
            windows: windows.read(),
            behavior: behavior.read(),
            pairs: pairs as i32,
            each: blocks.each as i32,
            used: blocks.used as i32,
            outputs: self.demand.outputs as i32,
            products: products.update(),
        };
        let grid = (pairs.div_ceil(THREADS) as u32, self.plan.batch as u32, 1);
        self.context
            .load::<LagProducts>(&[], 0)?
            .launch(grid, THREADS as u32, arguments)
    }

    /// Transforms the sums back and adds their squares, in units of the variances.
    fn add_squares(
        &self,
        mut back: BlockTransforms,
        sums: LagSums,
        correlation: &mut [f64],
    ) -> Result<()> {
        let context = self.context;
        let (outputs, blocks) = (self.demand.outputs, self.plan.blocks);
        let totals = context.download(&sums.totals, 2 * self.features.len())?;
        let weights = self.weights(&totals);
        let rows = self.plan.batch * outputs;
        let (lags, parts) = (correlation.len(), rows.div_ceil(PART_ROWS));
        let mut squares: Buffer<f64> = context.zeros(parts * lags)?;
        for (mut sums, weights) in sums.products.into_iter().zip(weights.chunks_exact(rows)) {
            back.inverse(context, &mut sums)?;
            let weights = context.upload(weights)?;
            let arguments = LagSquares {
                sums: sums.read(),
                pairs: (blocks.spectrum() / 2) as i32,
                weight: weights.read(),
                rows_in_all: rows as i32,
                part_rows: PART_ROWS as i32,
                lags: lags as i32,
                squares: squares.update(),
            };
            let grid = (lags.div_ceil(THREADS) as u32, parts as u32, 1);
            context
                .load::<LagSquares>(&[], 0)?
                .launch(grid, THREADS as u32, arguments)?;
        }
        let squares = context.download(&squares, parts * lags)?;
        for part in squares.chunks_exact(lags) {
            for (c, square) in correlation.iter_mut().zip(part) {
                *c += square;
            }
        }
        Ok(())
    }

    /// Factor of each squared sum, (feature, output): 0 for constant features and outputs, and for rows that fill a batch.
    fn weights(&self, totals: &[f64]) -> Vec<f64> {
        let outputs = self.demand.outputs;
        let steps = self.timeline.steps as f64;
        // There and back multiplies by the length.
        let scale = (self.plan.blocks.length as f64).powi(2);
        let mut weights = vec![0.0; self.plan.batch * self.plan.batches * outputs];
        for (own, total) in weights
            .chunks_exact_mut(outputs)
            .zip(totals.chunks_exact(2))
        {
            let spread = total[1] - total[0] * total[0] / steps;
            if spread <= LEAST_SPREAD * total[1] {
                continue;
            }
            for (weight, square) in own.iter_mut().zip(self.search.squares) {
                if *square > 0.0 {
                    *weight = 1.0 / (spread * square * scale);
                }
            }
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every step of the behaviour is in one block of one round, and windows hold all that its lags pair it with.
    #[test]
    fn blocks_cover_time_once_with_all_lags() {
        for most in [0, 1, 40, 700, 5000] {
            for steps in [256, 5120, 25_600] {
                if most >= steps {
                    continue;
                }
                for count in ROUND_BLOCKS {
                    let blocks = LagBlocks::new(most, steps, count);
                    assert!(blocks.hop > 0 && blocks.hop + 2 * most <= blocks.length);
                    assert!(blocks.stride() >= blocks.advance + 2 * most);
                    assert!(blocks.used * blocks.hop >= blocks.advance);
                    assert!(blocks.used <= blocks.each);
                    assert!(blocks.advance.is_multiple_of(CHUNK_STEPS));
                    let covered = (0..steps + most).step_by(blocks.advance).count();
                    assert!(covered * blocks.advance >= steps + most);
                }
            }
        }
    }

    /// Less memory means shorter rounds, then fewer channels, and what the error names is enough.
    #[test]
    fn plans_fit_the_memory_down_to_one_channel() {
        let demand = LagDemand {
            channels: 300,
            filters: 2,
            outputs: 3,
            steps: 1 << 20,
            most: 2000,
            source: SourceCosts {
                fixed: 1000,
                row: 100,
                chunk: 5000,
                row_chunk: 4096,
                host_chunk: 0,
            },
        };
        let mut channels = demand.channels;
        for memory in (16..40).rev().map(|bits| 1u64 << bits) {
            match demand.plan(memory) {
                Ok(plan) => {
                    assert!(demand.bytes(&plan) <= memory && plan.channels <= channels);
                    assert!(plan.batch * plan.batches >= plan.channels * demand.filters);
                    channels = plan.channels;
                }
                Err(error) => {
                    let least = error.needed_bytes().unwrap();
                    assert_eq!(demand.plan(least).unwrap().channels, 1);
                    assert!(demand.plan(least - 1).is_err());
                }
            }
        }
        assert_eq!(channels, 1);
    }
}
