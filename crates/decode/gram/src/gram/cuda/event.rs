//! The event path on a CUDA device: see `kernels/gram_event.cu` for the formula.
//!
//! Only spikes and behaviour are uploaded; Γ, Υ and the sums stay on the device until requested. If Γ does not fit
//! beside the spikes, it is computed block by block of one triangle and assembled in host memory. Several devices take
//! a part of time each.

use std::ops::Range;
use std::sync::Arc;

use super::coefficients::{Coefficients, shapes};
use super::spikes::DeviceSpikes;
use super::staging::GramStaging;
use super::store::{Gram, place, triangle};
use super::timeline::{BLOCK_STEPS, Reach, Timeline};
use super::{DeviceSums, behavior, several};
use crate::parts::{GRAM, UPSILON};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{Progress, Quiet};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::gram as kernels;
use betz_kernels::{Block, Pair};
use betz_recording::DatasetView;
use betz_runtime::psc::FilterBank;

/// Columns of one tile of Γ: one per lane.
const TILE_COLUMNS: usize = 32;

/// Allowed numbers of blocks per chunk; each is a compiled variant.
const CHUNK_BLOCKS: [usize; 4] = [32, 20, 16, 8];

/// Tiling of the kernel's work; the kernel's source explains the terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tiling {
    chunk_blocks: usize,
    tile_rows: usize,
    kept_events: usize,
    shared_bytes: usize,
}

impl Tiling {
    /// Chooses the longest chunks whose usual number of spikes fits on chip beside a tile of Γ.
    fn new(channels: usize, order: usize, events_per_step: f64, shared_bytes: usize) -> Self {
        let bytes = |chunk_blocks: usize, tile_rows: usize| {
            let steps = chunk_blocks * BLOCK_STEPS as usize;
            4 * TILE_COLUMNS * (steps + 2 * (order + 1) + tile_rows) + 4 * (tile_rows + 1)
        };
        let most_rows = (shared_bytes * 58 / 100) / (4 * TILE_COLUMNS + 4);
        let tile_rows = channels.div_ceil(channels.div_ceil(most_rows));
        let room =
            |chunk_blocks| (shared_bytes.saturating_sub(bytes(chunk_blocks, tile_rows)) / 2) & !1;
        let wanted = |chunk_blocks: usize| {
            let steps = (chunk_blocks as i64 * BLOCK_STEPS) as f64;
            let share = tile_rows as f64 / channels as f64;
            (1.3 * steps * events_per_step * share) as usize + 64
        };
        let fits = |blocks: &usize| shared_bytes >= bytes(*blocks, tile_rows) + 2048;
        let chunk_blocks = CHUNK_BLOCKS
            .into_iter()
            .filter(fits)
            .find(|&blocks| room(blocks) >= wanted(blocks))
            .or_else(|| CHUNK_BLOCKS.into_iter().find(fits))
            .unwrap_or(CHUNK_BLOCKS[CHUNK_BLOCKS.len() - 1]);
        let kept_events = room(chunk_blocks).min((2 * wanted(chunk_blocks) + 1) & !1);
        Self {
            chunk_blocks,
            tile_rows,
            kept_events,
            shared_bytes: bytes(chunk_blocks, tile_rows) + 2 * kept_events,
        }
    }
}

/// Number of slices of time for `chunks`, chosen so that tiles × slices fill the multiprocessors.
fn slice_count(tiles: usize, chunks: usize, multiprocessors: usize) -> usize {
    let cost = |slices: usize| {
        let waves = (tiles * slices).div_ceil(multiprocessors) as f64;
        // A slice costs a pass over its tile and a share of the final sum.
        waves / slices as f64 * (1.0 + 0.01 * slices as f64)
    };
    let filling = (1..=chunks.clamp(1, 64)).min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
    filling.unwrap_or(1)
}

/// Bytes for tables and for rounding up buffers.
const FIXED_BYTES: u64 = 256 << 10;

/// Smallest number of channels per block of Γ, if Γ is cut.
const LEAST_CHANNELS: usize = 32;

/// Division of Γ that fits a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    /// Channels of a block of Γ; all of them when Γ fits.
    channels: usize,
    /// Slices of time that are summed side by side.
    slices: usize,
    /// Rows of Υ at a time.
    rows: usize,
}

/// Sizes that determine the cut, in bytes unless stated otherwise.
#[derive(Debug, Clone, Copy)]
struct EventDemand {
    channels: usize,
    filters: usize,
    /// Rows of Υ in all.
    rows: usize,
    /// Sorted spikes and their index.
    base: u64,
    /// Spikes before they are sorted.
    unsorted: u64,
    /// Inputs of Γ besides the spikes: a table, and the states of a slice.
    table: u64,
    slice: u64,
    /// One row of Υ, and further memory for computing Υ.
    row: u64,
    behavior: u64,
}

impl EventDemand {
    fn new(
        timeline: &Timeline,
        data: &DatasetView<'_>,
        bank: &FilterBank,
        plan: &Tiling,
        coefficients: &Coefficients,
    ) -> Self {
        let (channels, filters, outputs) = (data.channels(), bank.len(), data.outputs.len());
        let states = coefficients.order + 1;
        let events = timeline.events(&data.spikes, 0..timeline.block_count) as u64;
        let chunks = timeline.block_count / plan.chunk_blocks;
        let blocks = timeline.block_count as u64;
        let features = channels * filters;
        let (row, behavior) = behavior::costs(blocks, states, features, outputs);
        Self {
            channels,
            filters,
            rows: filters * (outputs + 1),
            base: FIXED_BYTES
                + 2 * events
                + 4 * (chunks * (channels + 1)) as u64
                + size_of::<Block>() as u64 * (blocks + 1),
            unsorted: 3 * events + 4 * (blocks + 1),
            table: coefficients.bytes(),
            slice: 4 * (states * features) as u64,
            row,
            behavior: behavior + 4 * data.behavior.len() as u64,
        }
    }

    /// Bytes of a block of Γ over `channels` channels with `slices` slices.
    fn gram(&self, channels: usize, slices: usize) -> u64 {
        // Off the diagonal both halves of a pair of blocks are computed.
        let halves = if channels == self.channels { 1 } else { 2 };
        let (edge, slices) = ((channels * self.filters) as u64, slices as u64);
        self.base + self.table + slices * self.slice + 8 * (1 + halves * slices) * edge * edge
    }

    /// Bytes of Υ, `rows` rows at a time, and of Γ too if `resident`.
    fn upsilon(&self, rows: usize, resident: bool) -> u64 {
        let n = match resident {
            true => (self.channels * self.filters) as u64,
            false => 0,
        };
        self.base + self.behavior + rows as u64 * self.row + 8 * n * n
    }

    /// The cut within `memory` bytes with up to `slices` slices and as few blocks as possible.
    fn cut(&self, memory: u64, slices: usize) -> Result<Cut> {
        let least = LEAST_CHANNELS.min(self.channels);
        let sorting = self.base + self.unsorted;
        let whole = self
            .gram(self.channels, 1)
            .max(self.upsilon(1, true))
            .max(sorting);
        let in_blocks = self.gram(least, 1).max(self.upsilon(1, false)).max(sorting);
        let needed = if least < self.channels {
            whole.min(in_blocks)
        } else {
            whole
        };
        if memory < needed {
            let features = self.channels * self.filters;
            let what = format_args!("gram of {features} features from spikes on a device");
            return Err(Error::device_memory(what, needed, memory));
        }
        let resident = whole <= memory;
        let (mut channels, mut parts) = (self.channels, 1);
        while !resident && channels > least && (parts == 1 || self.gram(channels, 1) > memory) {
            parts += 1;
            channels = self.channels.div_ceil(parts).max(least);
        }
        let fits = |slices: &usize| self.gram(channels, *slices) <= memory;
        let fit_rows = |rows: &usize| self.upsilon(*rows, resident) <= memory;
        Ok(Cut {
            channels,
            slices: (1..=slices.max(1)).rev().find(fits).unwrap_or(1),
            rows: (1..=self.rows).rev().find(fit_rows).unwrap_or(1),
        })
    }
}

/// Computes Γ, Υ and the sums of `data` on the first of `contexts`, with Γ in host memory if necessary. Does not wait
/// for a single device's work.
pub(super) fn sums(
    contexts: &[Arc<Context>],
    data: &DatasetView<'_>,
    bank: &FilterBank,
    delay_steps: i64,
    progress: &dyn Progress,
) -> Result<DeviceSums> {
    let devices = contexts.len();
    let ((mut gram, sums), others) = several::each(contexts, |i, context| {
        let quiet = Quiet(progress);
        let progress = if i == 0 { progress } else { &quiet };
        share(context, data, bank, delay_steps, i, devices, progress)
    })?;
    for ((other, _), context) in others.into_iter().zip(&contexts[1..]) {
        gram.add(&contexts[0], context, other)?;
    }
    let Some((sums, steps)) = sums else {
        return Err(Error::new(ErrorKind::Internal, "gram: no Υ"));
    };
    Ok(DeviceSums {
        features: data.channels() * bank.len(),
        outputs: data.outputs.len(),
        steps,
        gram,
        upsilon: sums.upsilon,
        totals: sums.totals,
        output_mean: sums.output_mean,
        sampled: None,
        sampled_way: None,
    })
}

/// Computes part `part` of `parts` of Γ; the first part also computes the other sums and the number of steps.
fn share(
    context: &Context,
    data: &DatasetView<'_>,
    bank: &FilterBank,
    delay_steps: i64,
    part: usize,
    parts: usize,
    progress: &dyn Progress,
) -> Result<(Gram, Option<(behavior::BehaviorSums, u64)>)> {
    let memory = context.available_memory()?;
    let shapes = shapes(bank, data.step_seconds);
    let order = shapes.iter().map(|s| s.order).max().unwrap_or(0) as usize;
    let density = data.spikes.len() as f64 / data.steps_in_segments().max(1) as f64;
    let plan = Tiling::new(data.channels(), order, density, context.shared_bytes());
    let timeline = Timeline::new(
        data.segments,
        data.steps,
        delay_steps,
        plan.chunk_blocks,
        Reach::default(),
    )?;
    let coefficients = Coefficients::new(&shapes, timeline.longest);
    let demand = EventDemand::new(&timeline, data, bank, &plan, &coefficients);
    let all = timeline.block_count / plan.chunk_blocks;
    let chunks = part * all / parts..(part + 1) * all / parts;
    let (columns, tall) = (
        data.channels() * bank.len(),
        data.channels().div_ceil(plan.tile_rows),
    );
    let tiles = columns.div_ceil(TILE_COLUMNS) * tall * bank.len();
    let multiprocessors = context.info().multiprocessors as usize;
    let cut = demand.cut(memory, slice_count(tiles, chunks.len(), multiprocessors))?;
    context.phase(GRAM)?;
    let mut staging = context.take_slot::<GramStaging>();
    let spikes = DeviceSpikes::new(
        context,
        data,
        bank,
        timeline,
        plan.chunk_blocks,
        &mut staging,
    )?;
    // The host handles the behaviour while the device computes Γ.
    let gram = EventGram::new(&spikes, plan, &coefficients, chunks, cut.slices)?
        .sum(cut.channels, progress)?;
    let mut sums = None;
    if part == 0 {
        context.phase(UPSILON)?;
        let found = behavior::sums(&spikes, data, cut.rows, &mut staging)?;
        sums = Some((found, spikes.timeline.steps));
    }
    context.put_slot(staging);
    Ok((gram, sums))
}

/// Γ of sorted spikes, over some slices of time.
struct EventGram<'a> {
    spikes: &'a DeviceSpikes<'a>,
    plan: Tiling,
    slices: usize,
    /// First chunk of each slice, and the end of the last.
    slice_chunk: Buffer<i32>,
    states: Buffer<f32>,
    table: Buffer<f64>,
    pairs: Buffer<Pair>,
}

impl<'a> EventGram<'a> {
    fn new(
        spikes: &'a DeviceSpikes<'a>,
        plan: Tiling,
        coefficients: &Coefficients,
        chunks: Range<usize>,
        slices: usize,
    ) -> Result<Self> {
        let (context, count) = (spikes.context, chunks.len());
        let starts: Vec<i32> = (0..=slices)
            .map(|s| (chunks.start + s * count / slices) as i32)
            .collect();
        let slice_chunk = context.upload(&starts)?;
        Ok(Self {
            spikes,
            plan,
            slices,
            states: spikes.states_at(&slice_chunk, slices)?,
            slice_chunk,
            table: context.upload(&coefficients.table)?,
            pairs: context.upload(&coefficients.pairs)?,
        })
    }

    /// Γ in blocks of `edge` channels; on the device when that is all of them.
    fn sum(&self, edge: usize, progress: &dyn Progress) -> Result<Gram> {
        let (channels, filters) = (self.spikes.channels, self.spikes.filters.shapes.len());
        if edge >= channels {
            let gram = self.diagonal(0..channels)?;
            progress.update("gram", 1, 1);
            return Ok(Gram::Device(gram));
        }
        let (context, n) = (self.spikes.context, channels * filters);
        let edges: Vec<Range<usize>> = (0..channels)
            .step_by(edge)
            .map(|start| start..channels.min(start + edge))
            .collect();
        let features = |range: &Range<usize>| range.start * filters..range.end * filters;
        let mut gram = vec![0.0; n * n];
        triangle(edges.len(), progress, |row, column| {
            let (rows, columns) = (&edges[row], &edges[column]);
            let block = if row == column {
                self.diagonal(rows.clone())?
            } else {
                let (below, above) = (self.half(rows, columns)?, self.half(columns, rows)?);
                self.combine(
                    &below,
                    &above,
                    rows.len() * filters,
                    columns.len() * filters,
                )?
            };
            let (rows, columns) = (features(rows), features(columns));
            place(context, &block, &mut gram, n, &rows, &columns)
        })?;
        Ok(Gram::Host(gram))
    }

    fn diagonal(&self, channels: Range<usize>) -> Result<Buffer<f64>> {
        let half = self.half(&channels, &channels)?;
        let edge = channels.len() * self.spikes.filters.shapes.len();
        self.combine(&half, &half, edge, edge)
    }

    /// slices × rows × columns of M, with Γ = M + Mᵀ: later spikes of the channels `rows` with
    /// earlier ones of `columns`.
    fn half(&self, rows: &Range<usize>, columns: &Range<usize>) -> Result<Buffer<f64>> {
        let (spikes, plan) = (self.spikes, &self.plan);
        let filters = spikes.filters.shapes.len();
        let column_count = columns.len() * filters;
        let mut partial: Buffer<f64> = spikes
            .context
            .alloc(self.slices * rows.len() * filters * column_count)?;
        let arguments = kernels::GramEvent {
            ticks: spikes.ticks.read(),
            offsets: spikes.offsets.read(),
            block: spikes.blocks.read(),
            chunks: spikes.chunks as i32,
            filter: spikes.filters.table.read(),
            filters: filters as i32,
            channels: spikes.channels as i32,
            slice_chunk: self.slice_chunk.read(),
            states: self.states.read(),
            table: self.table.read(),
            pair: self.pairs.read(),
            tile_rows: plan.tile_rows as i32,
            kept: plan.kept_events as i32,
            first_channel: rows.start as i32,
            row_channels: rows.len() as i32,
            first_column: (columns.start * filters) as i32,
            column_count: column_count as i32,
            partial: partial.write(),
        };
        let blocks = (
            column_count.div_ceil(TILE_COLUMNS) as u32,
            (rows.len().div_ceil(plan.tile_rows) * filters) as u32,
            self.slices as u32,
        );
        let threads = (plan.chunk_blocks * 32) as u32;
        spikes.launch(blocks, threads, plan.shared_bytes, arguments)?;
        Ok(partial)
    }

    /// Σ over slices of `below` + the transpose of `above`.
    fn combine(
        &self,
        below: &Buffer<f64>,
        above: &Buffer<f64>,
        rows: usize,
        columns: usize,
    ) -> Result<Buffer<f64>> {
        let mut gram: Buffer<f64> = self.spikes.context.alloc(rows * columns)?;
        let arguments = kernels::CombineSlices {
            partial: below.read(),
            mirrored: above.read(),
            slices: self.slices as i32,
            rows: rows as i32,
            columns: columns as i32,
            gram: gram.write(),
        };
        let blocks = (columns.div_ceil(32) as u32, rows.div_ceil(32) as u32, 1);
        self.spikes.launch(blocks, 256, 0, arguments)?;
        Ok(gram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_fit_on_chip_at_every_size() {
        for shared in [99 << 10, 163 << 10, 227 << 10] {
            for channels in [1, 2, 31, 500, 1000, 1024, 2100, 8000, 65535] {
                for order in 0..=4 {
                    for density in [0.0, 0.001, 5.0, 100.0, 4000.0] {
                        let plan = Tiling::new(channels, order, density, shared);
                        assert!(plan.shared_bytes <= shared, "{channels} {order} {density}");
                        assert!(plan.tile_rows >= 1 && plan.tile_rows <= channels);
                        assert!(CHUNK_BLOCKS.contains(&plan.chunk_blocks));
                        assert_eq!(plan.kept_events % 2, 0);
                    }
                }
            }
        }
    }

    #[test]
    fn slices_fill_the_device() {
        assert_eq!(slice_count(32, 626, 132), 4);
        assert_eq!(slice_count(1, 1, 132), 1);
        assert!(slice_count(2000, 626, 132) <= 4);
        assert!(slice_count(1, 626, 132) > 10);
    }

    /// The event path holds all spikes at once, so their number is limited; the dense path needs those of one round.
    #[test]
    fn what_is_too_long_for_a_cap_by_events_has_a_dense_plan() {
        let (channels, steps, memory) = (1000u64, 120_000_000u64, 2u64 << 30);
        let (spikes, blocks) = (channels * 20 * 30_000, steps / 32);
        let demand = EventDemand {
            channels: channels as usize,
            filters: 1,
            rows: 3,
            base: FIXED_BYTES + 2 * spikes + 4 * blocks / 32 * (channels + 1) + 16 * blocks,
            unsorted: 3 * spikes + 4 * blocks,
            table: 50_000,
            slice: 8 * channels,
            row: 8 * blocks * 34,
            behavior: 8 * steps,
        };
        let refused = demand.cut(memory, 4).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DeviceMemory);
        let most_in_a_chunk = 2 * channels * 20 * 256 / 4000;
        let dense = super::super::plan::DenseDemand {
            features: channels as usize,
            outputs: 2,
            chunks: steps as usize / 256,
            states: 2,
            product_chunks: 2,
            crossed: true,
            source: super::super::plan::SourceCosts {
                chunk: 11 * most_in_a_chunk + 4 * (channels + 25),
                ..Default::default()
            },
        };
        let plan = dense.plan(memory).unwrap();
        assert!(dense.bytes(&plan) <= memory && plan.edge == channels as usize);
    }

    #[test]
    fn cuts_keep_to_every_cap_down_to_the_one_the_error_names() {
        for (channels, filters) in [(1, 1), (5, 8), (40, 1), (1000, 1), (2100, 2), (8000, 1)] {
            let demand = EventDemand {
                channels,
                filters,
                rows: 3 * filters,
                base: 1 << 20,
                unsorted: 300_000,
                table: 50_000,
                slice: 8 * (channels * filters) as u64,
                row: 3_000_000,
                behavior: 100_000,
            };
            let free = demand.cut(u64::MAX, 7).unwrap();
            assert_eq!(
                (free.channels, free.slices, free.rows),
                (channels, 7, 3 * filters)
            );
            let error = demand.cut(1, 7).unwrap_err();
            let least = error.needed_bytes().unwrap();
            assert!(demand.cut(least - 1, 7).is_err(), "{error}");
            for cap in [least, least + 1, 2 * least, 9 * least, 100 * least] {
                let cut = demand.cut(cap, 7).unwrap();
                assert!(
                    demand.gram(cut.channels, cut.slices) <= cap,
                    "{cut:?}, {cap}"
                );
                assert!(
                    demand.upsilon(cut.rows, cut.channels == channels) <= cap,
                    "{cut:?}"
                );
                assert!(cut.channels == channels || cut.channels >= LEAST_CHANNELS);
            }
        }
    }
}
