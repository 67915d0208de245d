//! A dataset's spikes on the device, sorted by channel within chunks of time.

use super::filters::{Filters, WINDOW_TAUS};
use super::staging::{Staging, at_least};
use super::timeline::Timeline;
use betz_base::error::{Error, Result};
use betz_device::cuda::{Buffer, Context, Kernel, PushKernelArg};
use betz_kernels::GRAM_EVENT;
use betz_recording::Dataset;
use betz_runtime::psc::FilterBank;

/// Sorted spikes and what describes them.
pub(super) struct DeviceSpikes<'a> {
    pub(super) context: &'a Context,
    pub(super) timeline: Timeline,
    pub(super) filters: Filters,
    pub(super) channels: usize,
    /// Blocks in a chunk.
    pub(super) chunk_blocks: usize,
    /// Number of chunks.
    pub(super) chunks: usize,
    /// The step within its chunk of every spike, chunk by chunk, channel by channel.
    pub(super) ticks: Buffer<u16>,
    /// Where each channel's spikes begin: chunks × (channels + 1).
    pub(super) offsets: Buffer<u32>,
    /// `struct Block` of every block.
    pub(super) blocks: Buffer<i32>,
}

impl<'a> DeviceSpikes<'a> {
    /// Copies the spikes of `data`, laid out in `timeline`, to the device and sorts them there. Does
    /// not wait.
    pub(super) fn new(
        context: &'a Context,
        data: &Dataset,
        bank: &FilterBank,
        timeline: Timeline,
        chunk_blocks: usize,
        staging: &mut Staging,
    ) -> Result<Self> {
        let channels = data.channels();
        check_channels(context, channels)?;
        let filters = Filters::new(context, bank, data.step_seconds)?;
        let chunks = timeline.block_count / chunk_blocks;
        let events = timeline.events(&data.spikes, 0..timeline.block_count);
        let (event_channels, event_ticks, starts) =
            stage_events(context, data, &timeline, events, staging)?;
        let blocks: Buffer<i32> = context.upload(&timeline.blocks)?;
        // Two more than there are: kernels copy pairs.
        let ticks = context.alloc(events + 2)?;
        let offsets = context.alloc(chunks * (channels + 1))?;
        sort_events(
            context,
            &filters.options(chunk_blocks),
            channels,
            (chunks, timeline.block_count),
            (&event_channels, &event_ticks, &starts),
            (&ticks, &offsets),
        )?;
        Ok(Self {
            context,
            filters,
            channels,
            chunk_blocks,
            chunks,
            ticks,
            offsets,
            timeline,
            blocks,
        })
    }

    /// A kernel of `gram_event.cu` for this bank and chunk.
    pub(super) fn kernel(&self, name: &str, shared_bytes: usize) -> Result<Kernel> {
        self.context.kernel(
            GRAM_EVENT,
            &self.filters.options(self.chunk_blocks),
            name,
            shared_bytes,
        )
    }

    /// Number of features.
    pub(super) fn columns(&self) -> usize {
        self.channels * self.filters.shapes.len()
    }

    /// States of every feature at the start of each of `count` chunks (numbers on the device):
    /// count × (order + 1) × features.
    pub(super) fn states_at(&self, chunks: &Buffer<i32>, count: usize) -> Result<Buffer<f32>> {
        let columns = self.columns();
        let states: Buffer<f32> = self
            .context
            .alloc(count * (self.filters.order + 1) * columns)?;
        let (filters, channels) = (self.filters.shapes.len() as i32, self.channels as i32);
        self.kernel("states_at_slices", 0)?.launch(
            (columns.div_ceil(64) as u32, count as u32, 1),
            64,
            0,
            |a| {
                a.arg(&self.ticks).arg(&self.offsets).arg(&self.blocks);
                a.arg(&self.filters.table).arg(&filters).arg(&channels);
                a.arg(chunks).arg(&WINDOW_TAUS).arg(&states);
            },
        )?;
        Ok(states)
    }
}

/// Refuses more channels than the device's kernels can sort.
pub(super) fn check_channels(context: &Context, channels: usize) -> Result<()> {
    let most = (context.shared_bytes() / 8).min(usize::from(u16::MAX));
    if channels > most {
        return Err(Error::device_limit(format!(
            "gram on this device: expected at most {most} channels, got {channels}"
        )));
    }
    Ok(())
}

/// Sorts spikes by channel within each chunk: from channels, steps within their blocks and where
/// blocks begin, to steps within their chunks and where channels begin.
pub(super) fn sort_events(
    context: &Context,
    options: &[String],
    channels: usize,
    (chunks, blocks): (usize, usize),
    (event_channels, event_ticks, starts): (&Buffer<u16>, &Buffer<u8>, &Buffer<u32>),
    (ticks, offsets): (&Buffer<u16>, &Buffer<u32>),
) -> Result<()> {
    // As many warps as there are counters for.
    let most = context.shared_bytes() / (4 * channels.max(1));
    let warps = most.saturating_sub(1).clamp(1, 8);
    let shared = 4 * (warps + 1) * channels;
    let (blocks, channels) = (blocks as i32, channels as i32);
    let kernel = context.kernel(GRAM_EVENT, options, "sort_events", shared)?;
    kernel.launch((chunks as u32, 1, 1), 32 * warps as u32, shared, |a| {
        a.arg(event_channels).arg(event_ticks).arg(starts);
        a.arg(&blocks).arg(&channels).arg(ticks).arg(offsets);
    })
}

/// The spikes on the device: channels, steps within their blocks, and where blocks begin.
type Events = (Buffer<u16>, Buffer<u8>, Buffer<u32>);

/// Packs the spikes into pinned memory and copies them to the device.
fn stage_events(
    context: &Context,
    data: &Dataset,
    timeline: &Timeline,
    events: usize,
    staging: &mut Staging,
) -> Result<Events> {
    let blocks = timeline.block_count;
    if events as u64 > u64::from(u32::MAX) {
        return Err(Error::device_limit(format!(
            "event path on a device: expected at most 2^32 spikes, got {events}"
        )));
    }
    let channels = at_least(context, &mut staging.u16s, events)?;
    let ticks = at_least(context, &mut staging.u8s, events)?;
    let starts = at_least(context, &mut staging.u32s, blocks + 1)?;
    timeline.pack(
        &data.spikes,
        data.channels(),
        0..blocks,
        (
            &mut channels.as_mut_slice()?[..events],
            &mut ticks.as_mut_slice()?[..events],
            &mut starts.as_mut_slice()?[..=blocks],
        ),
    )?;
    Ok((
        context.upload_pinned(channels, events)?,
        context.upload_pinned(ticks, events)?,
        context.upload_pinned(starts, blocks + 1)?,
    ))
}
