//! Responses behind a low-pass, from spikes in host memory.
//!
//! A round's spikes become trains of counts, the low-pass runs over the trains (it commutes with the
//! filters, and channels are fewer than features), and the filters over what it leaves; the states of
//! both go on from round to round. Responses are then complete: nothing is carried beside them.

use std::ops::Range;

use super::given::{self, GivenColumns};
use super::sent::{SentSpikes, most_events};
use super::{ResponseSource, Round};
use crate::gram::cuda::filters::Filters;
use crate::gram::cuda::plan::{CHUNK_BLOCKS, CHUNK_STEPS, SourceCosts};
use crate::gram::cuda::spikes::check_channels;
use crate::gram::cuda::staging::GramStaging;
use crate::gram::cuda::timeline::{BLOCK_STEPS, Timeline};
use crate::psc::cuda::{Layout, LowPassScan, Recursion, TILE};
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, FEED_PIECES, Feed};
use betz_kernels::psc::TrainsEvent;
use betz_kernels::{Block, Target};
use betz_recording::SpikesView;
use betz_runtime::psc::{FilterBank, LowPass};

/// Spikes behind a low-pass and a bank, sent a round at a time.
pub(crate) struct LowPassSource<'a> {
    context: &'a Context,
    spikes: &'a SpikesView<'a>,
    channels: usize,
    bank: &'a FilterBank,
    low_pass: LowPass,
    step_seconds: f64,
    operands: Vec<FilteredRows<'a>>,
    sent: Option<RoundBuffers>,
    /// In place of weights where there are none; never read.
    unweighted: Buffer<f32>,
    /// Most chunks of a round.
    round_chunks: usize,
    /// The chunk before which the operands' states stand.
    reached: Option<usize>,
}

/// One range of features, and the channels they come from.
struct FilteredRows<'a> {
    features: Range<usize>,
    channels: Range<usize>,
    low_pass: LowPassScan<'a>,
    filters: Recursion<'a>,
    /// (channel, step of the round), before and behind the low-pass.
    trains: Buffer<f32>,
    /// (channel · filters + filter, step of the round).
    responses: Buffer<f32>,
}

/// The spikes of a round on the device, and its blocks as their own recording.
struct RoundBuffers {
    spikes: SentSpikes,
    blocks: Feed<Block>,
}

impl<'a> LowPassSource<'a> {
    pub(crate) fn new(
        context: &'a Context,
        spikes: &'a SpikesView<'a>,
        channels: usize,
        bank: &'a FilterBank,
        low_pass: LowPass,
        step_seconds: f64,
    ) -> Result<Self> {
        low_pass.check(step_seconds)?;
        check_channels(context, channels)?;
        Ok(Self {
            context,
            spikes,
            channels,
            bank,
            low_pass,
            step_seconds,
            operands: Vec::new(),
            sent: None,
            unweighted: context.zeros(1)?,
            round_chunks: 0,
            reached: None,
        })
    }

    /// Responses of `chunks`, which follow those of the call before.
    fn advance(&mut self, timeline: &Timeline, chunks: Range<usize>) -> Result<()> {
        let context = self.context;
        let Some(RoundBuffers { spikes: sent, .. }) = &mut self.sent else {
            return Err(Error::new(
                ErrorKind::Internal,
                "spikes: no round was begun",
            ));
        };
        let blocks = chunks.start * CHUNK_BLOCKS..chunks.end * CHUNK_BLOCKS;
        let steps = chunks.len() * CHUNK_STEPS;
        sent.send(timeline, self.spikes, self.channels, &blocks)?;
        let here = &timeline.blocks[blocks.clone()];
        // A segment begins where no step lies before a block.
        let fresh = here.iter().map(|block| block.since == 0);
        let layout = Layout::of_words(fresh).upload(context)?;
        for operand in &mut self.operands {
            let rows = operand.channels.len();
            context.clear(&mut operand.trains)?;
            let (weights, options) = match &sent.weights {
                Some(weights) => (weights.piece().read(), vec!["-DWEIGHTED".to_owned()]),
                None => (self.unweighted.read(), Vec::new()),
            };
            let arguments = TrainsEvent {
                channel: sent.channels.piece().read(),
                step: sent.ticks.piece().read(),
                weight: weights,
                starts: sent.starts.piece().read(),
                first_channel: operand.channels.start as i32,
                channels: rows as i32,
                stride: steps as u64,
                trains: operand.trains.update(),
            };
            context.load::<TrainsEvent>(&options, 0)?.launch(
                (blocks.len() as u32, 1, 1),
                64,
                arguments,
            )?;
            let trains = &mut operand.trains;
            operand.low_pass.run(trains, steps, &layout)?;
            let responses = &mut operand.responses;
            (operand.filters).run(trains.read(), steps, &layout, responses, steps)?;
        }
        sent.release()?;
        self.reached = Some(chunks.end);
        Ok(())
    }
}

impl ResponseSource for LowPassSource<'_> {
    fn features(&self) -> usize {
        self.channels * self.bank.len()
    }

    fn costs(&self, timeline: &Timeline) -> SourceCosts {
        let events = most_events(timeline, self.spikes, 1) as u64;
        let filters = self.bank.len() as u64;
        // Of a channel: its train, its responses and the states behind each tile, of which a round has one
        // more than it has whole ones; what goes on from round to round is there twice while it is reset.
        let tile = Recursion::tile_bytes(self.bank) + LowPassScan::tile_bytes(self.low_pass);
        let carry = Recursion::carry_bytes(self.bank) + LowPassScan::carry_bytes(self.low_pass);
        let whole = (tile + 2 * carry) as u64;
        let chunk = 4 * (CHUNK_STEPS as u64) * (1 + filters)
            + (tile as u64).div_ceil((TILE / CHUNK_STEPS) as u64);
        // A range of features may begin and end inside a channel, and there are up to two ranges.
        let cut = 4;
        SourceCosts {
            // Tables.
            fixed: (64 << 10) + cut * whole,
            row: whole.div_ceil(filters),
            // Spikes, blocks and masks.
            chunk: SentSpikes::chunk_bytes(events, self.spikes.is_weighted())
                + (FEED_PIECES * 16 * CHUNK_BLOCKS + 128) as u64
                + cut * chunk,
            row_chunk: chunk.div_ceil(filters),
            ..SourceCosts::default()
        }
    }

    fn filters(&self) -> Option<&Filters> {
        None
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
        let (filters, steps) = (self.bank.len(), chunks * CHUNK_STEPS);
        self.operands = operands
            .iter()
            .map(|features| {
                let channels = features.start / filters..features.end.div_ceil(filters);
                let rows = channels.len();
                Ok(FilteredRows {
                    features: features.clone(),
                    low_pass: LowPassScan::new(context, self.low_pass, self.step_seconds, rows)?,
                    filters: Recursion::new(context, self.bank, self.step_seconds, rows)?,
                    trains: context.alloc(rows * steps)?,
                    responses: context.alloc(rows * filters * steps)?,
                    channels,
                })
            })
            .collect::<Result<_>>()?;
        self.sent = Some(RoundBuffers {
            spikes: SentSpikes::new(context, events, chunks, self.spikes.is_weighted(), staging)?,
            blocks: Feed::new(context, chunks * CHUNK_BLOCKS, &mut staging.blocks)?,
        });
        self.round_chunks = chunks;
        self.reached = None;
        Ok(())
    }

    fn load(&mut self, round: &Round<'_>) -> Result<()> {
        let timeline = round.timeline;
        if self.reached != Some(round.chunks.start) {
            for operand in &mut self.operands {
                operand.low_pass.reset()?;
                operand.filters.reset()?;
            }
            // Earlier steps of the same segment affect the states.
            let first = round.chunks.start * CHUNK_BLOCKS;
            let since = timeline.blocks[first].since.max(0) as usize;
            let mut from = round.chunks.start - since.div_ceil(CHUNK_STEPS).min(round.chunks.start);
            while from < round.chunks.start {
                let to = round.chunks.start.min(from + self.round_chunks);
                self.advance(timeline, from..to)?;
                from = to;
            }
        }
        self.advance(timeline, round.chunks.clone())?;
        let blocks = round.chunks.start * CHUNK_BLOCKS..round.chunks.end * CHUNK_BLOCKS;
        let here = &timeline.blocks[blocks];
        let Some(sent) = &mut self.sent else {
            return Ok(());
        };
        sent.blocks.send(here.len(), |target| {
            target.copy_from_slice(here);
            // Responses are in the round's own steps.
            for (i, block) in (0..).zip(target) {
                block.origin = i * BLOCK_STEPS as i32;
            }
            Ok(())
        })
    }

    fn fill(
        &self,
        round: &Round<'_>,
        operand: usize,
        _states: &Buffer<f32>,
        target: Target<'_>,
    ) -> Result<()> {
        let operand = &self.operands[operand];
        let Some(sent) = &self.sent else {
            return Err(Error::new(
                ErrorKind::Internal,
                "spikes: no round was begun",
            ));
        };
        given::fill(
            round,
            GivenColumns {
                responses: &operand.responses,
                length: round.chunks.len() * CHUNK_STEPS,
                first: operand.features.start - operand.channels.start * self.bank.len(),
                count: operand.features.len(),
            },
            sent.blocks.piece(),
            0,
            target,
        )
    }

    fn release(&mut self) -> Result<()> {
        self.sent
            .as_mut()
            .map_or(Ok(()), |sent| sent.blocks.release())
    }

    fn end(&mut self, staging: &mut GramStaging) -> Result<()> {
        self.operands.clear();
        if let Some(sent) = self.sent.take() {
            sent.spikes.keep(staging);
            sent.blocks.keep(&mut staging.blocks);
        }
        Ok(())
    }
}
