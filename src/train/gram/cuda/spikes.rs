//! A dataset's spikes on the device, sorted by channel within chunks of time: where both paths start.

use super::HEADERS;
use super::coefficients::{Shape, shapes};
use super::timeline::{BLOCK_STEPS, Timeline};
use crate::device::cuda::{Buffer, Context, Kernel, PinnedBuffer, PushKernelArg, Source, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::psc::FilterBank;
use crate::recording::Dataset;

/// The kernels of the event path, of which sorting and Υ serve the dense path too.
const SOURCE: Source = Source {
    name: "gram_event",
    text: include_str!("../../../../kernels/gram_event.cu"),
    headers: HEADERS,
};

/// Distance, in τ, beyond which a spike has left no trace in f64.
const WINDOW_TAUS: f32 = 60.0;

/// A filter that decays faster a step wants the kernels' variant for brief filters.
const BRIEF_RATE: f64 = 0.4;

/// Host memory that copies run from, kept between calls.
#[derive(Default)]
pub(super) struct Staging {
    channels: Option<PinnedBuffer<u16>>,
    ticks: Option<PinnedBuffer<u8>>,
    starts: Option<PinnedBuffer<u32>>,
    pub(super) behavior: Option<PinnedBuffer<f32>>,
}

/// The buffer in `slot`, made anew when it is too small.
pub(super) fn at_least<'a, T: Value>(
    context: &Context,
    slot: &'a mut Option<PinnedBuffer<T>>,
    len: usize,
) -> Result<&'a mut PinnedBuffer<T>> {
    if slot.as_ref().is_none_or(|buffer| buffer.len() < len) {
        // The old one first: the two need not fit beside each other.
        *slot = None;
        *slot = Some(context.pinned(len + len / 8)?);
    }
    slot.as_mut()
        .ok_or_else(|| Error::new(ErrorKind::Internal, "staging buffer was not made"))
}

/// Sorted spikes and what describes them.
pub(super) struct DeviceSpikes<'a> {
    pub(super) context: &'a Context,
    pub(super) timeline: Timeline,
    pub(super) shapes: Vec<Shape>,
    /// Largest order in the bank.
    pub(super) order: usize,
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
    /// `struct Filter` of every filter.
    pub(super) filter: Buffer<u32>,
}

impl<'a> DeviceSpikes<'a> {
    /// Copies the spikes of `data` to the device and sorts them there. Does not wait.
    pub(super) fn new(
        context: &'a Context,
        data: &Dataset,
        bank: &FilterBank,
        delay_steps: i64,
        chunk_blocks: usize,
        staging: &mut Staging,
    ) -> Result<Self> {
        let channels = data.channels();
        if channels > usize::from(u16::MAX) {
            return Err(Error::argument(format!(
                "gram on a device: expected at most {} channels, got {channels}",
                u16::MAX
            )));
        }
        let shapes = shapes(bank, data.step_seconds);
        let order = shapes.iter().map(|s| s.order).max().unwrap_or(0) as usize;
        let timeline = Timeline::new(data, delay_steps, chunk_blocks)?;
        let chunks = timeline.block_count / chunk_blocks;
        let (event_channels, event_ticks, starts) =
            stage_events(context, data, &timeline, staging)?;
        let blocks: Buffer<i32> = context.upload(&timeline.blocks)?;
        let words: Vec<u32> = shapes.iter().flat_map(Shape::words).collect();
        let filter = context.upload(&words)?;
        let spikes = Self {
            context,
            shapes,
            order,
            channels,
            chunk_blocks,
            chunks,
            // Two more than there are: kernels copy pairs.
            ticks: context.alloc(timeline.events + 2)?,
            offsets: context.alloc(chunks * (channels + 1))?,
            timeline,
            blocks,
            filter,
        };
        spikes.sort(&event_channels, &event_ticks, &starts)?;
        Ok(spikes)
    }

    fn sort(
        &self,
        event_channels: &Buffer<u16>,
        event_ticks: &Buffer<u8>,
        starts: &Buffer<u32>,
    ) -> Result<()> {
        // As many warps as there are counters for.
        let most = self.context.shared_bytes() / (4 * self.channels);
        if most < 2 {
            return Err(Error::argument(format!(
                "gram on this device: expected at most {} channels, got {}",
                self.context.shared_bytes() / 8,
                self.channels
            )));
        }
        let warps = (most - 1).min(8);
        let shared = 4 * (warps + 1) * self.channels;
        let (blocks, channels) = (self.timeline.block_count as i32, self.channels as i32);
        let kernel = self.kernel("sort_events", shared)?;
        kernel.launch((self.chunks as u32, 1, 1), 32 * warps as u32, shared, |a| {
            a.arg(event_channels).arg(event_ticks).arg(starts);
            a.arg(&blocks).arg(&channels);
            a.arg(&self.ticks).arg(&self.offsets);
        })
    }

    /// A kernel of `gram_event.cu` for this bank and chunk.
    pub(super) fn kernel(&self, name: &str, shared_bytes: usize) -> Result<Kernel> {
        self.context
            .kernel(SOURCE, &self.options(), name, shared_bytes)
    }

    /// Compile-time constants of `spike_states.cuh`.
    pub(super) fn options(&self) -> Vec<String> {
        let mut options = vec![
            format!("-DORDER={}", self.order),
            format!("-DBLOCKS={}", self.chunk_blocks),
        ];
        if self.shapes.iter().any(|s| s.rate > BRIEF_RATE) {
            options.push("-DBRIEF".to_owned());
        }
        options
    }

    /// Number of features.
    pub(super) fn columns(&self) -> usize {
        self.channels * self.shapes.len()
    }

    /// Steps in a chunk.
    pub(super) fn chunk_steps(&self) -> usize {
        self.chunk_blocks * BLOCK_STEPS as usize
    }

    /// States of every feature at the start of each of `count` chunks (numbers on the device):
    /// count × (order + 1) × features.
    pub(super) fn states_at(&self, chunks: &Buffer<i32>, count: usize) -> Result<Buffer<f32>> {
        let columns = self.columns();
        let states: Buffer<f32> = self.context.alloc(count * (self.order + 1) * columns)?;
        let (filters, channels) = (self.shapes.len() as i32, self.channels as i32);
        self.kernel("states_at_slices", 0)?.launch(
            (columns.div_ceil(64) as u32, count as u32, 1),
            64,
            0,
            |a| {
                a.arg(&self.ticks).arg(&self.offsets).arg(&self.blocks);
                a.arg(&self.filter).arg(&filters).arg(&channels);
                a.arg(chunks).arg(&WINDOW_TAUS).arg(&states);
            },
        )?;
        Ok(states)
    }
}

/// The spikes on the device: channels, steps within their blocks, and where blocks begin.
type Events = (Buffer<u16>, Buffer<u8>, Buffer<u32>);

/// Packs the spikes into pinned memory and copies them to the device.
fn stage_events(
    context: &Context,
    data: &Dataset,
    timeline: &Timeline,
    staging: &mut Staging,
) -> Result<Events> {
    let (events, blocks) = (timeline.events, timeline.block_count);
    let channels = at_least(context, &mut staging.channels, events)?;
    let ticks = at_least(context, &mut staging.ticks, events)?;
    let starts = at_least(context, &mut staging.starts, blocks + 1)?;
    timeline.pack(
        data,
        &mut channels.as_mut_slice()?[..events],
        &mut ticks.as_mut_slice()?[..events],
        &mut starts.as_mut_slice()?[..=blocks],
    )?;
    Ok((
        context.upload_pinned(channels, events)?,
        context.upload_pinned(ticks, events)?,
        context.upload_pinned(starts, blocks + 1)?,
    ))
}
