//! Responses from binned counts or a signal: a list of entries in host memory, sent as rows.

use std::ops::Range;

use rayon::prelude::*;

use super::{ResponseSource, Round};
use crate::gram::cuda::filters::Filters;
use crate::gram::cuda::plan::{CHUNK_BLOCKS, CHUNK_STEPS, SourceCosts};
use crate::gram::cuda::staging::GramStaging;
use crate::gram::cuda::timeline::Timeline;
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, FEED_PIECES, Feed};
use betz_kernels::gram::{ChunkStatesCounts, ResponsesCounts};
use betz_kernels::{self as kernels, KernelOption, Target};
use betz_recording::SpikesView;
use betz_runtime::psc::FilterBank;

/// Entries that become rows, one per step, and are sent a round at a time.
pub(crate) struct CountSource<'a> {
    context: &'a Context,
    entries: &'a SpikesView<'a>,
    channels: usize,
    filters: Filters,
    operands: Vec<CountRows>,
    feed: Option<Feed<f32>>,
}

/// One range of features and the channels they come from.
struct CountRows {
    features: Range<usize>,
    channels: Range<usize>,
    /// Offset of its counts in a piece, in counts per step of padded time.
    offset: usize,
}

impl<'a> CountSource<'a> {
    pub(crate) fn new(
        context: &'a Context,
        entries: &'a SpikesView<'a>,
        channels: usize,
        bank: &FilterBank,
        step_seconds: f64,
    ) -> Result<Self> {
        Ok(Self {
            context,
            entries,
            channels,
            filters: Filters::new(context, bank, step_seconds)?,
            operands: Vec::new(),
            feed: None,
        })
    }

    fn argument(&self, round: &Round<'_>, operand: &CountRows) -> Result<kernels::Counts<'_, f32>> {
        let Some(feed) = &self.feed else {
            return Err(Error::new(
                ErrorKind::Internal,
                "counts: no round was begun",
            ));
        };
        let rows = round.chunks.len() * CHUNK_STEPS;
        Ok(kernels::Counts::new(
            feed.piece().read().skip(operand.offset * rows),
            operand.channels.len() as u64,
            operand.channels.start as i32,
            false,
            round.delay_steps as i32,
        ))
    }

    /// Writes the rows of `steps`, of `channels`, to `part`.
    fn copy(&self, steps: Range<usize>, channels: &Range<usize>, part: &mut [f32]) {
        part.fill(0.0);
        for i in self.entries.range(steps.start as i64, steps.end as i64) {
            let column = (self.entries.channels[i] as usize).wrapping_sub(channels.start);
            if column < channels.len() {
                let row = (self.entries.ticks[i] as usize - steps.start) * channels.len();
                part[row + column] += self.entries.weight(i);
            }
        }
    }

    fn options(&self) -> Vec<String> {
        let mut options = self.filters.options(CHUNK_BLOCKS);
        options.push(format!("-DCOUNT={}", f32::VALUE));
        options
    }
}

impl ResponseSource for CountSource<'_> {
    fn features(&self) -> usize {
        self.channels * self.filters.shapes.len()
    }

    fn rests_at_zero(&self) -> bool {
        super::rests_at_zero(self.entries, self.channels)
    }

    fn costs(&self, _timeline: &Timeline) -> SourceCosts {
        let chunk = (CHUNK_STEPS * size_of::<f32>()) as u64;
        SourceCosts {
            // A range of features may begin and end inside a channel.
            chunk: 4 * FEED_PIECES as u64 * chunk,
            row_chunk: (FEED_PIECES as u64 * chunk).div_ceil(self.filters.shapes.len() as u64),
            host_chunk: chunk * self.channels as u64,
            ..SourceCosts::default()
        }
    }

    fn filters(&self) -> Option<&Filters> {
        Some(&self.filters)
    }

    fn begin(
        &mut self,
        _timeline: &Timeline,
        operands: &[Range<usize>],
        chunks: usize,
        staging: &mut GramStaging,
    ) -> Result<()> {
        let filters = self.filters.shapes.len();
        let mut width = 0;
        self.operands = operands
            .iter()
            .map(|features| {
                let channels = features.start / filters..features.end.div_ceil(filters);
                let offset = width;
                width += channels.len();
                CountRows {
                    features: features.clone(),
                    channels,
                    offset,
                }
            })
            .collect();
        let len = chunks * CHUNK_STEPS * width;
        self.feed = Some(Feed::new(self.context, len, &mut staging.f32s)?);
        Ok(())
    }

    fn load(&mut self, round: &Round<'_>) -> Result<()> {
        let Some(mut feed) = self.feed.take() else {
            return Ok(());
        };
        let blocks = round.chunks.start * CHUNK_BLOCKS..round.chunks.end * CHUNK_BLOCKS;
        let rows = round.chunks.len() * CHUNK_STEPS;
        let width: usize = self.operands.iter().map(|o| o.channels.len()).sum();
        let sent = feed.send(rows * width, |target| {
            let mut target = target;
            for operand in &self.operands {
                let width = operand.channels.len();
                let (part, rest) = target.split_at_mut(rows * width);
                target = rest;
                // Padding is never read.
                let runs = round.timeline.runs(blocks.clone(), part, width);
                (runs.into_par_iter())
                    .for_each(|(steps, part)| self.copy(steps, &operand.channels, part));
            }
            Ok(())
        });
        self.feed = Some(feed);
        sent
    }

    fn chunk_states(
        &self,
        round: &Round<'_>,
        operand: usize,
        states: &mut Buffer<f32>,
    ) -> Result<()> {
        let operand = &self.operands[operand];
        let arguments = ChunkStatesCounts {
            from: self.argument(round, operand)?,
            block: round.blocks.read(),
            filter: self.filters.table.read(),
            filters: self.filters.shapes.len() as i32,
            first_column: operand.features.start as i32,
            columns: operand.features.len() as i32,
            states: states.write(),
        };
        let tiles = operand.features.len().div_ceil(32) as u32;
        self.context
            .load::<ChunkStatesCounts<f32>>(&self.options(), 0)?
            .launch(
                (tiles, round.chunks.len() as u32, 1),
                32 * CHUNK_BLOCKS as u32,
                arguments,
            )
    }

    fn fill(
        &self,
        round: &Round<'_>,
        operand: usize,
        states: &Buffer<f32>,
        target: Target<'_>,
    ) -> Result<()> {
        let operand = &self.operands[operand];
        let arguments = ResponsesCounts {
            from: self.argument(round, operand)?,
            block: round.blocks.read(),
            filter: self.filters.table.read(),
            filters: self.filters.shapes.len() as i32,
            states: states.read(),
            first_column: operand.features.start as i32,
            target,
        };
        let tiles = operand.features.len().div_ceil(32) as u32;
        self.context
            .load::<ResponsesCounts<f32>>(&self.options(), 4 * 33 * CHUNK_STEPS)?
            .launch(
                (tiles, round.chunks.len() as u32, 1),
                32 * CHUNK_BLOCKS as u32,
                arguments,
            )
    }

    fn release(&mut self) -> Result<()> {
        self.feed.as_mut().map_or(Ok(()), Feed::release)
    }

    fn end(&mut self, staging: &mut GramStaging) -> Result<()> {
        if let Some(feed) = self.feed.take() {
            feed.keep(&mut staging.f32s);
        }
        Ok(())
    }
}
