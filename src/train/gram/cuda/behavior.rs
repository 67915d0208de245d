//! Υ, Σa and the behaviour's own sums on the device: behaviour correlated with each filter, then
//! summed at the spikes.

use rayon::prelude::*;

use super::spikes::{DeviceSpikes, Staging, at_least};
use super::timeline::BLOCK_STEPS;
use crate::device::cuda::{Buffer, Context, PushKernelArg};
use crate::error::Result;
use crate::recording::Dataset;

/// Thread blocks that sum the behaviour.
const PARTS: usize = 64;

/// Sums that involve the behaviour.
pub(super) struct BehaviorSums {
    /// Υ and Σa: features × (outputs + 1), row-major, Σa last.
    pub(super) upsilon: Buffer<f64>,
    /// Σx, then Σx².
    pub(super) totals: Buffer<f64>,
    /// x̄.
    pub(super) output_mean: Buffer<f64>,
}

/// Υ and the sums. Does not wait for them.
pub(super) fn sums(
    spikes: &DeviceSpikes<'_>,
    data: &Dataset,
    staging: &mut Staging,
) -> Result<BehaviorSums> {
    let (context, timeline, order) = (spikes.context, &spikes.timeline, spikes.order);
    let (channels, filters, outputs) = (spikes.channels, spikes.shapes.len(), data.outputs.len());
    let (blocks, filter) = (&spikes.blocks, &spikes.filter);
    let (block_count, chunk_count) = (timeline.block_count as i32, spikes.chunks as i32);
    let (channel_count, filter_count) = (channels as i32, filters as i32);
    let behavior = stage(context, data, staging)?;
    let rows = filters * (outputs + 1);
    let mut future: Buffer<f64> = context.alloc(rows * (order + 1) * timeline.block_count)?;
    let output_count = outputs as i32;
    spikes.kernel("behavior_block_states", 0)?.launch(
        (timeline.block_count.div_ceil(128) as u32, rows as u32, 1),
        128,
        0,
        |a| {
            a.arg(&behavior).arg(blocks).arg(&block_count);
            a.arg(filter).arg(&output_count).arg(&mut future);
        },
    )?;
    spikes
        .kernel("behavior_carry", 0)?
        .launch((rows as u32, 1, 1), 512, 0, |a| {
            a.arg(blocks).arg(&block_count).arg(filter);
            a.arg(&output_count).arg(&mut future);
        })?;
    let correlated: Buffer<f64> =
        context.alloc(rows * timeline.block_count * BLOCK_STEPS as usize)?;
    spikes.kernel("behavior_correlate", 0)?.launch(
        (timeline.block_count.div_ceil(128) as u32, rows as u32, 1),
        128,
        0,
        |a| {
            a.arg(&behavior).arg(blocks).arg(&block_count);
            a.arg(filter).arg(&output_count);
            a.arg(&future).arg(&correlated);
        },
    )?;
    let upsilon: Buffer<f64> = context.alloc(spikes.columns() * (outputs + 1))?;
    spikes.kernel("upsilon_event", 0)?.launch(
        (channels.div_ceil(4) as u32, rows as u32, 1),
        128,
        0,
        |a| {
            a.arg(&spikes.ticks).arg(&spikes.offsets).arg(&chunk_count);
            a.arg(&channel_count).arg(&filter_count).arg(&output_count);
            a.arg(&block_count).arg(&correlated).arg(&upsilon);
        },
    )?;
    let parts: Buffer<f64> = context.alloc(PARTS * outputs * 2)?;
    spikes
        .kernel("behavior_sums", 0)?
        .launch((PARTS as u32, 1, 1), 256, 0, |a| {
            a.arg(&behavior).arg(blocks).arg(&block_count);
            a.arg(&output_count).arg(&parts);
        })?;
    let totals: Buffer<f64> = context.zeros(2 * outputs)?;
    let output_mean: Buffer<f64> = context.zeros(outputs)?;
    let (part_count, steps) = (PARTS as i32, timeline.steps as f64);
    spikes.kernel("behavior_mean", 0)?.launch(
        (outputs.div_ceil(64).max(1) as u32, 1, 1),
        64,
        0,
        |a| {
            a.arg(&parts).arg(&part_count).arg(&output_count);
            a.arg(&steps).arg(&totals).arg(&output_mean);
        },
    )?;
    Ok(BehaviorSums {
        upsilon,
        totals,
        output_mean,
    })
}

/// Copies the behaviour to the device through pinned memory, on rayon's pool.
fn stage(context: &Context, data: &Dataset, staging: &mut Staging) -> Result<Buffer<f32>> {
    let len = data.behavior.len();
    let pinned = at_least(context, &mut staging.behavior, len)?;
    pinned.as_mut_slice()?[..len]
        .par_chunks_mut(1 << 16)
        .zip(data.behavior.par_chunks(1 << 16))
        .for_each(|(target, source)| target.copy_from_slice(source));
    context.upload_pinned(pinned, len)
}
