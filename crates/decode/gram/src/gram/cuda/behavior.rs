//! Υ, Σa and the behaviour's own sums on the device: behaviour correlated with each filter, then
//! summed at the spikes.

use std::ops::Range;

use rayon::prelude::*;

use super::spikes::DeviceSpikes;
use super::staging::{GramStaging, at_least};
use super::timeline::BLOCK_STEPS;
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context};
use betz_kernels::gram as kernels;
use betz_recording::DatasetView;

/// Thread blocks that sum the behaviour.
const PARTS: usize = 64;

/// Bytes of device memory that [`sums`] takes: a row, and what there is beside rows and behaviour.
/// `states` are those of one feature.
pub(super) fn costs(blocks: u64, states: usize, features: usize, outputs: usize) -> (u64, u64) {
    let row = 8 * blocks * (states as u64 + BLOCK_STEPS as u64);
    let (features, outputs) = (features as u64, outputs as u64);
    (
        row,
        8 * (features * (outputs + 1) + (2 * PARTS as u64 + 3) * outputs),
    )
}

/// Sums that involve the behaviour.
pub(super) struct BehaviorSums {
    /// Υ and Σa: features × (outputs + 1), row-major, Σa last.
    pub(super) upsilon: Buffer<f64>,
    /// Σx, then Σx².
    pub(super) totals: Buffer<f64>,
    /// x̄.
    pub(super) output_mean: Buffer<f64>,
}

/// Υ and the sums, up to `most_rows` rows (an output, or Σa, of a filter) at a time. Does not wait for
/// them.
pub(super) fn sums(
    spikes: &DeviceSpikes<'_>,
    data: &DatasetView<'_>,
    most_rows: usize,
    staging: &mut GramStaging,
) -> Result<BehaviorSums> {
    let (context, outputs) = (spikes.context, data.outputs.len());
    let behavior = stage(context, data, staging)?;
    let rows = spikes.filters.shapes.len() * (outputs + 1);
    let mut upsilon: Buffer<f64> = context.alloc(spikes.columns() * (outputs + 1))?;
    for first in (0..rows).step_by(most_rows) {
        let rows = first..rows.min(first + most_rows);
        let correlated = correlate(spikes, &behavior, outputs, rows.clone())?;
        let at_spikes = kernels::UpsilonEvent {
            ticks: spikes.ticks.read(),
            offsets: spikes.offsets.read(),
            chunks: spikes.chunks as i32,
            channels: spikes.channels as i32,
            filters: spikes.filters.shapes.len() as i32,
            outputs: outputs as i32,
            blocks: spikes.timeline.block_count as i32,
            first_row: first as i32,
            g: correlated.read(),
            upsilon: upsilon.update(),
        };
        let grid = (spikes.channels.div_ceil(4) as u32, rows.len() as u32, 1);
        spikes.launch(grid, 128, 0, at_spikes)?;
    }
    let (totals, output_mean) = own_sums(spikes, &behavior, outputs)?;
    Ok(BehaviorSums {
        upsilon,
        totals,
        output_mean,
    })
}

/// The behaviour correlated with the filters of `rows`, at every step of every block: rows × blocks × steps.
fn correlate(
    spikes: &DeviceSpikes<'_>,
    behavior: &Buffer<f32>,
    outputs: usize,
    rows: Range<usize>,
) -> Result<Buffer<f64>> {
    let (context, blocks, filter) = (spikes.context, &spikes.blocks, &spikes.filters.table);
    let block_count = spikes.timeline.block_count;
    let (output_count, first_row) = (outputs as i32, rows.start as i32);
    let grid = (block_count.div_ceil(128) as u32, rows.len() as u32, 1);
    let states = rows.len() * (spikes.filters.order + 1);
    let mut future: Buffer<f64> = context.alloc(states * block_count)?;
    let states = kernels::BehaviorBlockStates {
        behavior: behavior.read(),
        block: blocks.read(),
        blocks: block_count as i32,
        filter: filter.read(),
        outputs: output_count,
        first_row,
        future: future.write(),
    };
    spikes.launch(grid, 128, 0, states)?;
    let carry = kernels::BehaviorCarry {
        block: blocks.read(),
        blocks: block_count as i32,
        filter: filter.read(),
        outputs: output_count,
        first_row,
        future: future.update(),
    };
    spikes.launch((rows.len() as u32, 1, 1), 512, 0, carry)?;
    let steps = rows.len() * block_count * BLOCK_STEPS as usize;
    let mut correlated: Buffer<f64> = context.alloc(steps)?;
    let correlate = kernels::BehaviorCorrelate {
        behavior: behavior.read(),
        block: blocks.read(),
        blocks: block_count as i32,
        filter: filter.read(),
        outputs: output_count,
        first_row,
        future: future.read(),
        g: correlated.write(),
    };
    spikes.launch(grid, 128, 0, correlate)?;
    Ok(correlated)
}

/// Σx and Σx², and x̄.
fn own_sums(
    spikes: &DeviceSpikes<'_>,
    behavior: &Buffer<f32>,
    outputs: usize,
) -> Result<(Buffer<f64>, Buffer<f64>)> {
    let (context, output_count) = (spikes.context, outputs as i32);
    let mut parts: Buffer<f64> = context.alloc(PARTS * outputs * 2)?;
    let sums = kernels::BehaviorSums {
        behavior: behavior.read(),
        block: spikes.blocks.read(),
        blocks: spikes.timeline.block_count as i32,
        outputs: output_count,
        sums: parts.write(),
    };
    spikes.launch((PARTS as u32, 1, 1), 256, 0, sums)?;
    let mut totals: Buffer<f64> = context.zeros(2 * outputs)?;
    let mut output_mean: Buffer<f64> = context.zeros(outputs)?;
    let mean = kernels::BehaviorMean {
        sums: parts.read(),
        parts: PARTS as i32,
        outputs: output_count,
        steps: spikes.timeline.steps as f64,
        totals: totals.write(),
        mean: output_mean.write(),
    };
    let grid = (outputs.div_ceil(64).max(1) as u32, 1, 1);
    spikes.launch(grid, 64, 0, mean)?;
    Ok((totals, output_mean))
}

/// Copies the behaviour to the device through pinned memory, on rayon's pool.
fn stage(
    context: &Context,
    data: &DatasetView<'_>,
    staging: &mut GramStaging,
) -> Result<Buffer<f32>> {
    let len = data.behavior.len();
    let pinned = at_least(context, &mut staging.f32s, len)?;
    pinned.as_mut_slice()?[..len]
        .par_chunks_mut(1 << 16)
        .zip(data.behavior.par_chunks(1 << 16))
        .for_each(|(target, source)| target.copy_from_slice(source));
    context.upload_pinned(pinned, len)
}
