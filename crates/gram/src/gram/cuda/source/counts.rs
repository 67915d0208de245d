//! Responses from binned counts or a signal: in host memory, as a matrix or as a list, or on the device
//! already.

use std::ops::Range;

use rayon::prelude::*;

use super::{ResponseSource, Round};
use crate::gram::cuda::filters::Filters;
use crate::gram::cuda::plan::{CHUNK_BLOCKS, CHUNK_STEPS, SourceCosts};
use crate::gram::cuda::staging::GramStaging;
use crate::gram::cuda::timeline::Timeline;
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, FEED_PIECES, Feed, PinnedBuffer};
use betz_kernels::gram::{ChunkStatesCounts, ResponsesCounts};
use betz_kernels::{self as kernels, Sample, Target};
use betz_recording::SpikesView;
use betz_runtime::psc::FilterBank;

/// A type of counts.
pub(crate) trait Count: Sample + Default {
    /// The count that an entry of weight `weight` adds to `self`.
    fn plus(self, weight: f32) -> Self;

    /// Where its host memory is kept.
    fn kept(staging: &mut GramStaging) -> &mut Vec<PinnedBuffer<Self>>;
}

impl Count for u8 {
    fn plus(self, weight: f32) -> Self {
        self.saturating_add(weight as Self)
    }

    fn kept(staging: &mut GramStaging) -> &mut Vec<PinnedBuffer<Self>> {
        &mut staging.u8s
    }
}

impl Count for u16 {
    fn plus(self, weight: f32) -> Self {
        self.saturating_add(weight as Self)
    }

    fn kept(staging: &mut GramStaging) -> &mut Vec<PinnedBuffer<Self>> {
        &mut staging.u16s
    }
}

impl Count for f32 {
    fn plus(self, weight: f32) -> Self {
        self + weight
    }

    fn kept(staging: &mut GramStaging) -> &mut Vec<PinnedBuffer<Self>> {
        &mut staging.f32s
    }
}

/// Counts, steps × channels row-major.
pub(crate) enum Place<'a, C: Count> {
    Host(&'a [C]),
    /// What is not zero, with its weight; it becomes rows a round at a time.
    List(&'a SpikesView<'a>),
    Device(&'a Buffer<C>),
}

impl<C: Count> Place<'_, C> {
    /// Writes the rows of `steps`, of `channels` out of `all`, to `part`; nothing where they are on a
    /// device.
    fn copy(&self, steps: Range<usize>, all: usize, channels: &Range<usize>, part: &mut [C]) {
        let width = channels.len();
        match self {
            Self::Device(_) => {}
            Self::Host(counts) if width == all => {
                part.copy_from_slice(&counts[steps.start * all..steps.end * all]);
            }
            Self::Host(counts) => {
                for (step, part) in steps.zip(part.chunks_exact_mut(width)) {
                    let row = &counts[step * all..(step + 1) * all];
                    part.copy_from_slice(&row[channels.clone()]);
                }
            }
            Self::List(list) => {
                part.fill(C::default());
                for i in list.range(steps.start as i64, steps.end as i64) {
                    let column = (list.channels[i] as usize).wrapping_sub(channels.start);
                    if column < width {
                        let row = (list.ticks[i] as usize - steps.start) * width;
                        let cell = &mut part[row + column];
                        *cell = cell.plus(list.weight(i));
                    }
                }
            }
        }
    }
}

/// Counts, sent a round at a time unless they are there.
pub(crate) struct CountSource<'a, C: Count> {
    context: &'a Context,
    counts: Place<'a, C>,
    channels: usize,
    filters: Filters,
    operands: Vec<CountRows>,
    feed: Option<Feed<C>>,
}

/// One range of features and the channels they come from.
struct CountRows {
    features: Range<usize>,
    channels: Range<usize>,
    /// Where its counts begin in a piece, in counts per step of padded time.
    offset: usize,
}

impl<'a, C: Count> CountSource<'a, C> {
    pub(crate) fn new(
        context: &'a Context,
        counts: Place<'a, C>,
        channels: usize,
        bank: &FilterBank,
        step_seconds: f64,
    ) -> Result<Self> {
        Ok(Self {
            context,
            counts,
            channels,
            filters: Filters::new(context, bank, step_seconds)?,
            operands: Vec::new(),
            feed: None,
        })
    }

    fn argument(&self, round: &Round<'_>, operand: &CountRows) -> Result<kernels::Counts<'_, C>> {
        let (counts, width, first_channel) = match (&self.counts, &self.feed) {
            (Place::Device(counts), _) => (counts.read(), self.channels, 0),
            (Place::Host(_) | Place::List(_), Some(feed)) => {
                let rows = round.chunks.len() * CHUNK_STEPS;
                let counts = feed.piece().read().skip(operand.offset * rows);
                (counts, operand.channels.len(), operand.channels.start)
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "counts: no round was begun",
                ));
            }
        };
        Ok(kernels::Counts::new(
            counts,
            width as u64,
            first_channel as i32,
            matches!(self.counts, Place::Device(_)),
            round.delay_steps as i32,
        ))
    }

    fn options(&self) -> Vec<String> {
        let mut options = self.filters.options(CHUNK_BLOCKS);
        options.push(format!("-DCOUNT={}", C::VALUE));
        options
    }
}

impl<C: Count> ResponseSource for CountSource<'_, C> {
    fn features(&self) -> usize {
        self.channels * self.filters.shapes.len()
    }

    fn costs(&self, _timeline: &Timeline) -> SourceCosts {
        let chunk = (CHUNK_STEPS * size_of::<C>()) as u64;
        match self.counts {
            Place::Device(_) => SourceCosts::default(),
            Place::Host(_) | Place::List(_) => SourceCosts {
                // A range of features may begin and end inside a channel.
                chunk: 4 * FEED_PIECES as u64 * chunk,
                row_chunk: (FEED_PIECES as u64 * chunk).div_ceil(self.filters.shapes.len() as u64),
                host_chunk: chunk * self.channels as u64,
                ..SourceCosts::default()
            },
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
        if !matches!(self.counts, Place::Device(_)) {
            let len = chunks * CHUNK_STEPS * width;
            self.feed = Some(Feed::new(self.context, len, C::kept(staging))?);
        }
        Ok(())
    }

    fn load(&mut self, round: &Round<'_>) -> Result<()> {
        let Some(feed) = &mut self.feed else {
            return Ok(());
        };
        let counts = &self.counts;
        let (all, operands) = (self.channels, &self.operands);
        let blocks = round.chunks.start * CHUNK_BLOCKS..round.chunks.end * CHUNK_BLOCKS;
        let rows = round.chunks.len() * CHUNK_STEPS;
        let width: usize = operands.iter().map(|o| o.channels.len()).sum();
        feed.send(rows * width, |target| {
            let mut target = target;
            for operand in operands {
                let width = operand.channels.len();
                let (part, rest) = target.split_at_mut(rows * width);
                target = rest;
                // Padding is never read.
                let runs = round.timeline.runs(blocks.clone(), part, width);
                (runs.into_par_iter())
                    .for_each(|(steps, part)| counts.copy(steps, all, &operand.channels, part));
            }
            Ok(())
        })
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
            .load::<ChunkStatesCounts<C>>(&self.options(), 0)?
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
            .load::<ResponsesCounts<C>>(&self.options(), 4 * 33 * CHUNK_STEPS)?
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
            feed.keep(C::kept(staging));
        }
        Ok(())
    }
}
