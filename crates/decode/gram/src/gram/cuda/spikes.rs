//! A dataset's spikes on the device, sorted by channel within chunks of time.

use super::filters::{Filters, WINDOW_TAUS};
use super::staging::{GramStaging, at_least};
use super::timeline::{PackedEvents, Timeline};
use betz_base::error::{Error, Result};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::gram as kernels;
use betz_kernels::{Arguments, Block, Blocks};
use betz_recording::DatasetView;
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
    /// First spike of each channel in each chunk: chunks × (channels + 1).
    pub(super) offsets: Buffer<u32>,
    /// Every block and one more.
    pub(super) blocks: Buffer<Block>,
}

impl<'a> DeviceSpikes<'a> {
    /// Copies the spikes of `data`, laid out in `timeline`, to the device and sorts them there. Does
    /// not wait.
    pub(super) fn new(
        context: &'a Context,
        data: &DatasetView<'_>,
        bank: &FilterBank,
        timeline: Timeline,
        chunk_blocks: usize,
        staging: &mut GramStaging,
    ) -> Result<Self> {
        let channels = data.channels();
        check_channels(context, channels)?;
        let filters = Filters::new(context, bank, data.step_seconds)?;
        let chunks = timeline.block_count / chunk_blocks;
        let events = timeline.events(&data.spikes, 0..timeline.block_count);
        let staged = stage_events(context, data, &timeline, events, staging)?;
        let blocks = context.upload(&timeline.blocks)?;
        // Two more than there are: kernels copy pairs.
        let mut ticks = context.alloc(events + 2)?;
        let mut offsets = context.alloc(chunks * (channels + 1))?;
        sort_events(
            context,
            &filters.options(chunk_blocks),
            SortedShape {
                channels,
                chunks,
                blocks: timeline.block_count,
            },
            &UnsortedEvents {
                channels: &staged.channels,
                ticks: &staged.ticks,
                starts: &staged.starts,
            },
            &mut ticks,
            &mut offsets,
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

    /// Starts a kernel of `gram_event.cu` for this bank and chunk.
    pub(super) fn launch<A: Arguments>(
        &self,
        blocks: Blocks,
        threads: u32,
        shared_bytes: usize,
        arguments: A,
    ) -> Result<()> {
        self.context
            .load::<A>(&self.filters.options(self.chunk_blocks), shared_bytes)?
            .launch(blocks, threads, arguments)
    }

    /// Number of features.
    pub(super) fn columns(&self) -> usize {
        self.channels * self.filters.shapes.len()
    }

    /// States of every feature at the start of each of `count` chunks (numbers on the device):
    /// count × (order + 1) × features.
    pub(super) fn states_at(&self, chunks: &Buffer<i32>, count: usize) -> Result<Buffer<f32>> {
        let columns = self.columns();
        let mut states: Buffer<f32> = self
            .context
            .alloc(count * (self.filters.order + 1) * columns)?;
        let arguments = kernels::StatesAtSlices {
            ticks: self.ticks.read(),
            offsets: self.offsets.read(),
            block: self.blocks.read(),
            filter: self.filters.table.read(),
            filters: self.filters.shapes.len() as i32,
            channels: self.channels as i32,
            slice_chunk: chunks.read(),
            window: WINDOW_TAUS,
            states: states.write(),
        };
        let blocks = (columns.div_ceil(64) as u32, count as u32, 1);
        self.launch(blocks, 64, 0, arguments)?;
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

/// Numbers of channels, chunks and blocks for sorting spikes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SortedShape {
    pub(super) channels: usize,
    pub(super) chunks: usize,
    pub(super) blocks: usize,
}

/// Spikes in time order on the device: channels, steps within their blocks, and where blocks begin.
pub(super) struct UnsortedEvents<'a> {
    pub(super) channels: &'a Buffer<u16>,
    pub(super) ticks: &'a Buffer<u8>,
    pub(super) starts: &'a Buffer<u32>,
}

/// Sorts spikes by channel within each chunk: from channels, steps within their blocks and where
/// blocks begin, to steps within their chunks and where channels begin.
pub(super) fn sort_events(
    context: &Context,
    options: &[String],
    shape: SortedShape,
    events: &UnsortedEvents<'_>,
    ticks: &mut Buffer<u16>,
    offsets: &mut Buffer<u32>,
) -> Result<()> {
    let SortedShape {
        channels,
        chunks,
        blocks,
    } = shape;
    // As many warps as there are counters for.
    let most = context.shared_bytes() / (4 * channels.max(1));
    let warps = most.saturating_sub(1).clamp(1, 8);
    let shared = 4 * (warps + 1) * channels;
    let arguments = kernels::SortEvents {
        channel: events.channels.read(),
        tick: events.ticks.read(),
        block_events: events.starts.read(),
        blocks: blocks as i32,
        channels: channels as i32,
        ticks: ticks.write(),
        offsets: offsets.write(),
    };
    context
        .load::<kernels::SortEvents>(options, shared)?
        .launch((chunks as u32, 1, 1), 32 * warps as u32, arguments)
}

/// [`UnsortedEvents`] that nobody else owns.
struct StagedEvents {
    channels: Buffer<u16>,
    ticks: Buffer<u8>,
    starts: Buffer<u32>,
}

/// Packs the spikes into pinned memory and copies them to the device.
fn stage_events(
    context: &Context,
    data: &DatasetView<'_>,
    timeline: &Timeline,
    events: usize,
    staging: &mut GramStaging,
) -> Result<StagedEvents> {
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
        PackedEvents {
            channels: &mut channels.as_mut_slice()?[..events],
            ticks: &mut ticks.as_mut_slice()?[..events],
            starts: &mut starts.as_mut_slice()?[..=blocks],
        },
    )?;
    Ok(StagedEvents {
        channels: context.upload_pinned(channels, events)?,
        ticks: context.upload_pinned(ticks, events)?,
        starts: context.upload_pinned(starts, blocks + 1)?,
    })
}
