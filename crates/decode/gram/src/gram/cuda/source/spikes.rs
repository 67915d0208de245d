//! Responses from spikes in host memory.

use std::ops::Range;

use super::sent::{SentSpikes, most_events};
use super::{ResponseSource, Round};
use crate::gram::cuda::filters::Filters;
use crate::gram::cuda::plan::{CHUNK_BLOCKS, CHUNK_STEPS, SourceCosts};
use crate::gram::cuda::spikes::{SortedShape, UnsortedEvents, check_channels, sort_events};
use crate::gram::cuda::staging::GramStaging;
use crate::gram::cuda::timeline::Timeline;
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::Target;
use betz_kernels::gram::{ChunkStatesEvent, ResponsesEvent};
use betz_recording::SpikesView;
use betz_runtime::psc::FilterBank;

/// Spikes, sent a round at a time and sorted there by channel.
pub(crate) struct SpikeSource<'a> {
    context: &'a Context,
    spikes: &'a SpikesView<'a>,
    channels: usize,
    filters: Filters,
    operands: Vec<Range<usize>>,
    round: Option<RoundSpikes>,
}

/// The spikes of a round on the device, sorted.
struct RoundSpikes {
    sent: SentSpikes,
    /// The step within its chunk of every spike, chunk by chunk, channel by channel.
    sorted: Buffer<u16>,
    /// First spike of each channel in each chunk: chunks × (channels + 1).
    offsets: Buffer<u32>,
}

impl<'a> SpikeSource<'a> {
    pub(crate) fn new(
        context: &'a Context,
        spikes: &'a SpikesView<'a>,
        channels: usize,
        bank: &FilterBank,
        step_seconds: f64,
    ) -> Result<Self> {
        check_channels(context, channels)?;
        Ok(Self {
            context,
            spikes,
            channels,
            filters: Filters::new(context, bank, step_seconds)?,
            operands: Vec::new(),
            round: None,
        })
    }

    fn sorted(&self) -> Result<&RoundSpikes> {
        self.round
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "spikes: no round was begun"))
    }
}

impl ResponseSource for SpikeSource<'_> {
    fn features(&self) -> usize {
        self.channels * self.filters.shapes.len()
    }

    fn costs(&self, timeline: &Timeline) -> SourceCosts {
        let events = most_events(timeline, self.spikes, 1) as u64;
        SourceCosts {
            // Incoming spikes, their sorted steps, and the start of each channel.
            chunk: SentSpikes::chunk_bytes(events, false)
                + 2 * events
                + 4 * (self.channels as u64 + 1),
            ..SourceCosts::default()
        }
    }

    fn filters(&self) -> Option<&Filters> {
        Some(&self.filters)
    }

    fn begin(
        &mut self,
        timeline: &Timeline,
        operands: &[Range<usize>],
        chunks: usize,
        staging: &mut GramStaging,
    ) -> Result<()> {
        let context = self.context;
        let events = most_events(timeline, self.spikes, chunks);
        self.operands = operands.to_vec();
        self.round = Some(RoundSpikes {
            sent: SentSpikes::new(context, events, chunks, false, staging)?,
            sorted: context.alloc(events)?,
            offsets: context.alloc(chunks * (self.channels + 1))?,
        });
        Ok(())
    }

    fn load(&mut self, round: &Round<'_>) -> Result<()> {
        let Some(RoundSpikes {
            sent,
            sorted,
            offsets,
        }) = &mut self.round
        else {
            return Err(Error::new(
                ErrorKind::Internal,
                "spikes: no round was begun",
            ));
        };
        let blocks = round.chunks.start * CHUNK_BLOCKS..round.chunks.end * CHUNK_BLOCKS;
        sent.send(round.timeline, self.spikes, self.channels, &blocks)?;
        sort_events(
            self.context,
            &self.filters.options(CHUNK_BLOCKS),
            SortedShape {
                channels: self.channels,
                chunks: round.chunks.len(),
                blocks: blocks.len(),
            },
            &UnsortedEvents {
                channels: sent.channels.piece(),
                ticks: sent.ticks.piece(),
                starts: sent.starts.piece(),
            },
            sorted,
            offsets,
        )?;
        // Only the sorting reads them.
        sent.release()
    }

    fn chunk_states(
        &self,
        round: &Round<'_>,
        operand: usize,
        states: &mut Buffer<f32>,
    ) -> Result<()> {
        let (spikes, rows) = (self.sorted()?, &self.operands[operand]);
        let arguments = ChunkStatesEvent {
            ticks: spikes.sorted.read(),
            offsets: spikes.offsets.read(),
            block: round.blocks.read(),
            filter: self.filters.table.read(),
            filters: self.filters.shapes.len() as i32,
            channels: self.channels as i32,
            first_column: rows.start as i32,
            columns: rows.len() as i32,
            states: states.write(),
        };
        let grid = (
            rows.len().div_ceil(128) as u32,
            round.chunks.len() as u32,
            1,
        );
        self.context
            .load::<ChunkStatesEvent>(&self.filters.options(CHUNK_BLOCKS), 0)?
            .launch(grid, 128, arguments)
    }

    fn fill(
        &self,
        round: &Round<'_>,
        operand: usize,
        states: &Buffer<f32>,
        target: Target<'_>,
    ) -> Result<()> {
        let (spikes, rows) = (self.sorted()?, &self.operands[operand]);
        let arguments = ResponsesEvent {
            ticks: spikes.sorted.read(),
            offsets: spikes.offsets.read(),
            block: round.blocks.read(),
            filter: self.filters.table.read(),
            filters: self.filters.shapes.len() as i32,
            channels: self.channels as i32,
            states: states.read(),
            first_column: rows.start as i32,
            target,
        };
        let grid = (rows.len().div_ceil(32) as u32, round.chunks.len() as u32, 1);
        self.context
            .load::<ResponsesEvent>(&self.filters.options(CHUNK_BLOCKS), 4 * 33 * CHUNK_STEPS)?
            .launch(grid, 32 * CHUNK_BLOCKS as u32, arguments)
    }

    fn release(&mut self) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, staging: &mut GramStaging) -> Result<()> {
        if let Some(round) = self.round.take() {
            round.sent.keep(staging);
        }
        Ok(())
    }
}
