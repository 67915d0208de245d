//! The event path on a CUDA device: see `kernels/gram_event.cu` for the formula.
//!
//! Only spikes and behaviour go up; Γ, Υ and the sums stay on the device until they are asked for.

use super::coefficients::Coefficients;
use super::spikes::{DeviceSpikes, Staging};
use super::timeline::BLOCK_STEPS;
use super::{DeviceSums, behavior};
use crate::device::cuda::{Buffer, Context, PushKernelArg};
use crate::error::Result;
use crate::psc::FilterBank;
use crate::recording::Dataset;

/// Columns of one tile of Γ: one a lane.
const TILE_COLUMNS: usize = 32;

/// Blocks a chunk may have; each is a compiled variant.
const CHUNK_BLOCKS: [usize; 4] = [32, 20, 16, 8];

/// How the kernel's work is cut; see its source for the terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    chunk_blocks: usize,
    tile_rows: usize,
    kept_events: usize,
    shared_bytes: usize,
}

impl Plan {
    /// The longest chunks of which a usual one's spikes fit on chip beside a tile of Γ.
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

/// Into how many slices of time to cut `chunks`, so that tiles × slices fill the multiprocessors.
fn slice_count(tiles: usize, chunks: usize, multiprocessors: usize) -> usize {
    let cost = |slices: usize| {
        let waves = (tiles * slices).div_ceil(multiprocessors) as f64;
        // A slice costs a pass over its tile and a share of the final sum.
        waves / slices as f64 * (1.0 + 0.01 * slices as f64)
    };
    (1..=chunks.clamp(1, 64))
        .min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
        .unwrap_or(1)
}

/// Γ, Υ and the sums of `data` on the device. Does not wait for them.
pub(super) fn sums(
    context: &Context,
    data: &Dataset,
    bank: &FilterBank,
    delay_steps: i64,
) -> Result<DeviceSums> {
    let order = bank.filters().iter().map(|f| f.order).max().unwrap_or(0) as usize;
    let density = data.spikes.len() as f64 / data.steps_in_segments().max(1) as f64;
    let plan = Plan::new(data.channels(), order, density, context.shared_bytes());
    let mut staging = context.take_slot::<Staging>();
    let spikes = DeviceSpikes::new(
        context,
        data,
        bank,
        delay_steps,
        plan.chunk_blocks,
        &mut staging,
    )?;
    // The host turns to the behaviour while the device is at Γ.
    let gram = gram(&spikes, &plan)?;
    let behavior = behavior::sums(&spikes, data, &mut staging)?;
    context.put_slot(staging);
    Ok(DeviceSums::new(&spikes, data.outputs.len(), gram, behavior))
}

/// Γ of sorted spikes.
fn gram(spikes: &DeviceSpikes<'_>, plan: &Plan) -> Result<Buffer<f64>> {
    let (context, channels, filters) = (spikes.context, spikes.channels, spikes.shapes.len());
    let (columns, chunks) = (spikes.columns(), spikes.chunks);
    let tiles = columns.div_ceil(TILE_COLUMNS) * channels.div_ceil(plan.tile_rows) * filters;
    let slices = slice_count(tiles, chunks, context.info().multiprocessors as usize);
    let slice_chunks: Vec<i32> = (0..=slices).map(|s| (s * chunks / slices) as i32).collect();
    let slice_chunk = context.upload(&slice_chunks)?;
    let states = spikes.states_at(&slice_chunk, slices)?;
    let coefficients = Coefficients::new(&spikes.shapes, spikes.timeline.longest);
    let table = context.upload(&coefficients.table)?;
    let partial: Buffer<f32> = context.alloc(slices * columns * columns)?;
    let (filter_count, channel_count) = (filters as i32, channels as i32);
    let (chunk_count, reach) = (chunks as i32, coefficients.reach as i32);
    let (tile_rows, kept) = (plan.tile_rows as i32, plan.kept_events as i32);
    spikes.kernel("gram_event", plan.shared_bytes)?.launch(
        (
            columns.div_ceil(TILE_COLUMNS) as u32,
            (channels.div_ceil(plan.tile_rows) * filters) as u32,
            slices as u32,
        ),
        (plan.chunk_blocks * 32) as u32,
        plan.shared_bytes,
        |a| {
            a.arg(&spikes.ticks).arg(&spikes.offsets);
            a.arg(&spikes.blocks).arg(&chunk_count);
            a.arg(&spikes.filter).arg(&filter_count).arg(&channel_count);
            a.arg(&slice_chunk).arg(&states).arg(&table).arg(&reach);
            a.arg(&tile_rows).arg(&kept).arg(&partial);
        },
    )?;
    let gram: Buffer<f64> = context.alloc(columns * columns)?;
    let (slices, n) = (slices as i32, columns as i32);
    let tiles = columns.div_ceil(32) as u32;
    spikes
        .kernel("combine_slices", 0)?
        .launch((tiles, tiles, 1), 256, 0, |a| {
            a.arg(&partial).arg(&slices).arg(&n).arg(&gram);
        })?;
    Ok(gram)
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
                        let plan = Plan::new(channels, order, density, shared);
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
}
