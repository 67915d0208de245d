//! Complete responses from spikes in host memory, for what the products' own kernels do not filter: a low-pass, sampled
//! filters, or both beside recursive ones.
//!
//! A round's spikes become trains of counts, the low-pass runs over the trains (it commutes with the filters, and channels
//! are fewer than features), and the filters over what it leaves. States of recursions go on from round to round; a window
//! of trains reaches as far back and ahead of a round as sampled filters do. Spikes that sampled filters gather need no
//! trains.
//!
//! ```text
//! spikes ─┬─► trains ─► low-pass ─► window ─┬─► recursion ─────► responses ─► operands
//!         │                                 └─► overlap-save ──────►┤
//!         └─► sorted by chunk and channel ────► gather ────────────►┘
//! ```

use std::ops::Range;

use super::given::{self, GivenColumns};
use super::sampled::{
    Gather, OverlapSave, ResponseMatrix, SampledWay, Samples, SortedChunks, WindowBlocks,
};
use super::sent::{SentSpikes, most_events};
use super::{ResponseSource, Round};
use crate::gram::cuda::filters::Filters;
use crate::gram::cuda::plan::{CHUNK_BLOCKS, CHUNK_STEPS, SourceCosts};
use crate::gram::cuda::spikes::{SortedShape, UnsortedEvents, check_channels, sort_events};
use crate::gram::cuda::staging::GramStaging;
use crate::gram::cuda::store;
use crate::gram::cuda::timeline::{BLOCK_STEPS, Timeline};
use crate::psc::cuda::{LowPassScan, Recursion, TILE};
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, FEED_PIECES, Feed};
use betz_kernels::gram::CopyRows;
use betz_kernels::psc::TrainsEvent;
use betz_kernels::{Block, In, Target};
use betz_recording::{Segment, SpikesView};
use betz_runtime::psc::{FilterBank, LowPass};

/// The filters of a [`TrainSource`].
#[derive(Clone, Copy)]
pub(crate) struct TrainFilters<'a> {
    pub(crate) bank: &'a FilterBank,
    pub(crate) low_pass: Option<LowPass>,
    pub(crate) step_seconds: f64,
    /// Computes responses to sampled filters in this way. Spikes with weights, and those behind a low-pass, are transformed.
    pub(crate) way: SampledWay,
}

/// Spikes behind a low-pass or sampled filters, sent a round at a time.
pub(crate) struct TrainSource<'a> {
    context: &'a Context,
    spikes: &'a SpikesView<'a>,
    channels: usize,
    filters: TrainFilters<'a>,
    samples: Option<Samples>,
    shape: Shape,
    operands: Vec<FilteredRows<'a>>,
    sent: Option<RoundBuffers>,
    /// In place of weights where there are none; never read.
    unweighted: Buffer<f32>,
    /// Most chunks of a round.
    round_chunks: usize,
    /// The chunk before which the operands' states stand.
    reached: Option<usize>,
}

/// Buffers that a source needs, and the number of chunks around a round.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Chunks before a round, and behind it, that its responses depend on.
    history: usize,
    ahead: usize,
    /// Trains are needed, or sorted spikes.
    trains: bool,
    sorted: bool,
    /// Low-passed trains go to windows that reach beyond a round.
    windows: bool,
}

/// One range of features, and the channels they come from.
struct FilteredRows<'a> {
    features: Range<usize>,
    channels: Range<usize>,
    low_pass: Option<LowPassScan<'a>>,
    recursion: Option<Recursion<'a>>,
    /// (channel, step), before and behind the low-pass. Without one, steps of the window.
    trains: Buffer<f32>,
    /// Low-passed input of a round and around it; and of the round before.
    windows: Option<[Buffer<f32>; 2]>,
    /// (channel · filters + filter, step of the round).
    responses: Buffer<f32>,
}

/// The spikes of a round on the device, and its blocks as their own recording.
struct RoundBuffers {
    spikes: SentSpikes,
    blocks: Feed<Block>,
    /// Steps within their chunks, chunk by chunk, channel by channel, and the first spike of each channel in each chunk.
    sorted: Option<(Buffer<u16>, Buffer<u32>)>,
    convolution: Option<Convolution>,
    /// Steps from one channel's window to the next.
    stride: usize,
    /// The first chunk of the window, which may lie before the recording, and the chunk before which input was low-passed.
    base: i64,
    filtered: usize,
}

/// Sampled filters at work.
enum Convolution {
    Gather(Gather),
    OverlapSave(Box<OverlapSave>),
}

impl<'a> TrainSource<'a> {
    /// Responses of `channels` channels to the filters over `segments`.
    ///
    /// # Errors
    /// As [`LowPass::check`] and [`FilterBank::check_step`]; those of the device.
    pub(crate) fn new(
        context: &'a Context,
        spikes: &'a SpikesView<'a>,
        channels: usize,
        filters: TrainFilters<'a>,
        segments: &[Segment],
    ) -> Result<Self> {
        if let Some(low_pass) = filters.low_pass {
            low_pass.check(filters.step_seconds)?;
        }
        filters.bank.check_step(filters.step_seconds)?;
        check_channels(context, channels)?;
        let way = match spikes.is_weighted() || filters.low_pass.is_some() {
            true => SampledWay::Transform,
            false => filters.way,
        };
        let samples = Samples::new(filters.bank, segments);
        let reach = samples.as_ref().map(Samples::reach).unwrap_or_default();
        let gather = samples.is_some() && way == SampledWay::Gather;
        let recursive = !filters.bank.filters().is_empty();
        Ok(Self {
            context,
            spikes,
            channels,
            filters,
            shape: Shape {
                history: reach.back.div_ceil(CHUNK_STEPS),
                ahead: reach.ahead.div_ceil(CHUNK_STEPS),
                trains: !gather || recursive,
                sorted: gather,
                windows: samples.is_some() && filters.low_pass.is_some(),
            },
            samples,
            operands: Vec::new(),
            sent: None,
            unweighted: context.zeros(1)?,
            round_chunks: 0,
            reached: None,
        })
    }

    /// Chunks of the recording that the window of `chunks` has.
    fn window(&self, timeline: &Timeline, chunks: &Range<usize>) -> Range<usize> {
        let all = timeline.block_count / CHUNK_BLOCKS;
        let start = chunks.start.saturating_sub(self.shape.history);
        start..(chunks.end + self.shape.ahead).min(all)
    }

    /// Goes on to `chunks`, which follow those of the call before; computes sampled responses if `wanted`.
    fn advance(&mut self, timeline: &Timeline, chunks: Range<usize>, wanted: bool) -> Result<()> {
        let Some(mut round) = self.sent.take() else {
            return Err(no_round());
        };
        let done = self.advance_round(timeline, &chunks, wanted, &mut round);
        self.sent = Some(round);
        self.reached = Some(chunks.end);
        done
    }

    fn advance_round(
        &mut self,
        timeline: &Timeline,
        chunks: &Range<usize>,
        wanted: bool,
        round: &mut RoundBuffers,
    ) -> Result<()> {
        let context = self.context;
        let window = self.window(timeline, chunks);
        let base = chunks.start as i64 - self.shape.history as i64;
        // The chunks that are not on the device yet; all of the window if there is no low-pass.
        let fresh = match self.filters.low_pass {
            Some(_) => round.filtered.max(window.start)..window.end,
            None => window.clone(),
        };
        let blocks = fresh.start * CHUNK_BLOCKS..fresh.end * CHUNK_BLOCKS;
        (round.spikes).send(timeline, self.spikes, self.channels, &blocks)?;
        let layout = timeline.layout(blocks).upload(context)?;
        let own = chunks.start * CHUNK_BLOCKS..chunks.end * CHUNK_BLOCKS;
        let own = timeline.layout(own).upload(context)?;
        let step = |chunk: usize, first: i64| (chunk as i64 - first) as usize * CHUNK_STEPS;
        for operand in &mut self.operands {
            let stride = match self.shape.windows {
                true => fresh.len() * CHUNK_STEPS,
                false => round.stride,
            };
            if self.shape.trains {
                let offset = match self.filters.low_pass {
                    Some(_) => 0,
                    None => step(fresh.start, base),
                };
                let place = (stride, offset);
                operand.scatter(context, &round.spikes, &self.unweighted, fresh.len(), place)?;
            }
            if let Some(low_pass) = &mut operand.low_pass {
                low_pass.run(&mut operand.trains, stride, &layout)?;
            }
            if let Some([window, before]) = &mut operand.windows {
                std::mem::swap(window, before);
                context.clear(window)?;
                let rows = operand.channels.len();
                let known = base.max(round.base)..round.filtered as i64;
                if known.start < known.end {
                    let from = before.read();
                    let from = from.skip((known.start - round.base) as usize * CHUNK_STEPS);
                    let count = (known.end - known.start) as usize * CHUNK_STEPS;
                    let at = (known.start - base) as usize * CHUNK_STEPS;
                    copy_rows(
                        context,
                        (from, round.stride),
                        (rows, count),
                        (window, at, round.stride),
                    )?;
                }
                let (from, count) = (operand.trains.read(), fresh.len() * CHUNK_STEPS);
                let to = (window, step(fresh.start, base), round.stride);
                copy_rows(context, (from, stride), (rows, count), to)?;
            }
            if let Some(recursion) = &mut operand.recursion {
                let input = operand.windows.as_ref().map_or(&operand.trains, |[w, _]| w);
                let history = match self.filters.low_pass.is_some() && !self.shape.windows {
                    true => 0,
                    false => self.shape.history * CHUNK_STEPS,
                };
                let input = input.read().skip(history);
                let rows = (self.filters.bank.len(), self.round_chunks * CHUNK_STEPS);
                recursion.run(input, round.stride, &own, &mut operand.responses, rows)?;
            }
        }
        round.base = base;
        round.filtered = window.end;
        if wanted {
            context.phase("sampled filters")?;
            self.convolve(chunks, &window, round)?;
        }
        round.spikes.release()
    }

    /// Responses of the round to sampled filters.
    fn convolve(
        &mut self,
        chunks: &Range<usize>,
        window: &Range<usize>,
        round: &mut RoundBuffers,
    ) -> Result<()> {
        let (context, channels) = (self.context, self.channels);
        let Some(convolution) = &mut round.convolution else {
            return Ok(());
        };
        if let Some((ticks, offsets)) = &mut round.sorted {
            sort_events(
                context,
                &store::options(),
                SortedShape {
                    channels,
                    chunks: window.len(),
                    blocks: window.len() * CHUNK_BLOCKS,
                },
                &UnsortedEvents {
                    channels: round.spikes.channels.piece(),
                    ticks: round.spikes.ticks.piece(),
                    starts: round.spikes.starts.piece(),
                },
                ticks,
                offsets,
            )?;
        }
        for operand in &mut self.operands {
            let mut to = ResponseMatrix {
                channels: operand.channels.clone(),
                width: self.filters.bank.len(),
                first: self.filters.bank.filters().len(),
                stride: self.round_chunks * CHUNK_STEPS,
                values: &mut operand.responses,
            };
            match (&mut *convolution, &round.sorted) {
                (Convolution::Gather(gather), Some((ticks, offsets))) => {
                    let spikes = SortedChunks {
                        ticks,
                        offsets,
                        chunks: window.len(),
                        channels,
                        first: chunks.start - window.start,
                        round: chunks.len(),
                    };
                    gather.run(context, &spikes, &mut to)?;
                }
                (Convolution::OverlapSave(blocks), _) => {
                    let input = operand.windows.as_ref().map_or(&operand.trains, |[w, _]| w);
                    blocks.run(context, input, chunks.len() * CHUNK_STEPS, &mut to)?;
                }
                (Convolution::Gather(_), None) => return Err(no_round()),
            }
        }
        Ok(())
    }

    /// Memory of one operand's channels.
    fn rows(&self, features: &Range<usize>, blocks: &WindowBlocks) -> Result<FilteredRows<'a>> {
        let (context, filters) = (self.context, self.filters.bank.len());
        let TrainFilters {
            bank,
            low_pass,
            step_seconds: step,
            ..
        } = self.filters;
        let channels = features.start / filters..features.end.div_ceil(filters);
        let rows = channels.len();
        let around = (self.shape.history + self.shape.ahead) * CHUNK_STEPS;
        let window = || context.zeros(blocks.values(rows, around));
        let low_pass = low_pass.map(|l| LowPassScan::new(context, l, step, rows));
        let recursion =
            (!bank.filters().is_empty()).then(|| Recursion::new(context, bank, step, rows));
        let fresh = self.round_chunks * CHUNK_STEPS + around;
        Ok(FilteredRows {
            features: features.clone(),
            low_pass: low_pass.transpose()?,
            recursion: recursion.transpose()?,
            trains: match (self.shape.trains, self.shape.windows) {
                (false, _) => context.zeros(1)?,
                (true, true) => context.alloc(rows * fresh)?,
                (true, false) => window()?,
            },
            windows: match self.shape.windows {
                true => Some([window()?, window()?]),
                false => None,
            },
            responses: context.alloc(rows * filters * self.round_chunks * CHUNK_STEPS)?,
            channels,
        })
    }

    /// Blocks of windows of a round and around it. Without transforms, one block is the window.
    fn blocks(&self, chunks: usize) -> WindowBlocks {
        let steps = (chunks + self.shape.history + self.shape.ahead) * CHUNK_STEPS;
        match &self.samples {
            Some(samples) if !self.shape.sorted => samples.blocks(steps),
            _ => WindowBlocks {
                length: 0,
                hop: steps,
                each: 1,
            },
        }
    }

    /// Responses to `chunks` of `timeline`, after those of the call before or anew; see [`responses`](Self::responses).
    ///
    /// # Errors
    /// The errors of the device; [`ErrorKind::Internal`] before [`ResponseSource::begin`].
    pub(in crate::gram::cuda) fn filter(
        &mut self,
        timeline: &Timeline,
        chunks: Range<usize>,
    ) -> Result<()> {
        let start = chunks.start;
        if self.reached != Some(start) {
            let mut has_states = false;
            for operand in &mut self.operands {
                if let Some(low_pass) = &mut operand.low_pass {
                    low_pass.reset()?;
                    has_states = true;
                }
                if let Some(recursion) = &mut operand.recursion {
                    recursion.reset()?;
                    has_states = true;
                }
            }
            // Earlier steps of the same segment affect the states.
            let since = timeline.blocks[start * CHUNK_BLOCKS].since.max(0) as usize;
            let mut from = match has_states {
                true => start - since.div_ceil(CHUNK_STEPS).min(start),
                false => start,
            };
            if let Some(sent) = &mut self.sent {
                // No input is known before.
                (sent.base, sent.filtered) = (from as i64, from);
            }
            while from < start {
                let to = start.min(from + self.round_chunks);
                self.advance(timeline, from..to, false)?;
                from = to;
            }
        }
        self.advance(timeline, chunks, true)
    }

    /// The latest responses of operand `operand`: (channel · filters + filter, step of the round), rows as many steps apart as
    /// the longest round has. Those outside segments are of no meaning.
    pub(in crate::gram::cuda) fn responses(&self, operand: usize) -> &Buffer<f32> {
        &self.operands[operand].responses
    }
}

impl FilteredRows<'_> {
    /// Adds `spikes`, which are those of `chunks` chunks, to trains that were cleared: rows `stride` apart, from step `offset`
    /// of each on.
    fn scatter(
        &mut self,
        context: &Context,
        spikes: &SentSpikes,
        unweighted: &Buffer<f32>,
        chunks: usize,
        (stride, offset): (usize, usize),
    ) -> Result<()> {
        context.clear(&mut self.trains)?;
        let (weights, options) = match &spikes.weights {
            Some(weights) => (weights.piece().read(), vec!["-DWEIGHTED".to_owned()]),
            None => (unweighted.read(), Vec::new()),
        };
        if chunks == 0 {
            return Ok(());
        }
        let arguments = TrainsEvent {
            channel: spikes.channels.piece().read(),
            step: spikes.ticks.piece().read(),
            weight: weights,
            starts: spikes.starts.piece().read(),
            first_channel: self.channels.start as i32,
            channels: self.channels.len() as i32,
            stride: stride as u64,
            trains: self.trains.update().skip(offset),
        };
        let grid = ((chunks * CHUNK_BLOCKS) as u32, 1, 1);
        context
            .load::<TrainsEvent>(&options, 0)?
            .launch(grid, 64, arguments)
    }
}

/// Copies `count` values of each of `rows` rows, from rows some stride apart to rows that begin at a value and are another
/// stride apart.
fn copy_rows(
    context: &Context,
    (from, from_stride): (In<'_, f32>, usize),
    (rows, count): (usize, usize),
    (to, first, to_stride): (&mut Buffer<f32>, usize, usize),
) -> Result<()> {
    if rows == 0 || count == 0 {
        return Ok(());
    }
    let arguments = CopyRows {
        from,
        from_stride: from_stride as u64,
        count: count as i32,
        to_stride: to_stride as u64,
        to: to.update().skip(first),
    };
    let grid = (count.div_ceil(256) as u32, rows as u32, 1);
    context
        .load::<CopyRows>(&store::options(), 0)?
        .launch(grid, 256, arguments)
}

fn no_round() -> Error {
    Error::new(ErrorKind::Internal, "spikes: no round was begun")
}

impl ResponseSource for TrainSource<'_> {
    fn features(&self) -> usize {
        self.channels * self.filters.bank.len()
    }

    fn rests_at_zero(&self) -> bool {
        super::rests_at_zero(self.spikes, self.channels)
    }

    fn costs(&self, timeline: &Timeline) -> SourceCosts {
        let (shape, bank) = (&self.shape, self.filters.bank);
        let events = most_events(timeline, self.spikes, 1) as u64;
        let filters = bank.len() as u64;
        // Of a channel: its trains and windows, its responses and the states behind each tile, of which a round has one
        // more than it has whole ones; what goes on from round to round is there twice while it is reset.
        let (mut tile, mut carry) = (0, 0);
        if !bank.filters().is_empty() {
            tile += Recursion::tile_bytes(bank);
            carry += Recursion::carry_bytes(bank);
        }
        if let Some(low_pass) = self.filters.low_pass {
            tile += LowPassScan::tile_bytes(low_pass);
            carry += LowPassScan::carry_bytes(low_pass);
        }
        let inputs = u64::from(shape.trains) + 2 * u64::from(shape.windows);
        // Windows are cut into blocks at multiples of four steps.
        let input_chunk = 4 * (CHUNK_STEPS as u64 + 4) * inputs;
        let around = (shape.history + shape.ahead) as u64;
        let whole = (tile + 2 * carry) as u64 + input_chunk * (around + 1);
        let chunk = input_chunk
            + 4 * CHUNK_STEPS as u64 * filters
            + (tile as u64).div_ceil((TILE / CHUNK_STEPS) as u64);
        let mut spikes = SentSpikes::chunk_bytes(events, self.spikes.is_weighted())
            // Masks of the window and of the round.
            + 2 * (16 * CHUNK_BLOCKS + 128) as u64;
        if shape.sorted {
            spikes += 2 * events + 4 * (self.channels as u64 + 1);
        }
        let sampled = self.samples.as_ref().map_or(0, |samples| {
            let way = match shape.sorted {
                true => SampledWay::Gather,
                false => SampledWay::Transform,
            };
            // Windows of two ranges of features, each of which a last block reads beyond.
            let around = (shape.history + shape.ahead) * CHUNK_STEPS;
            samples.fixed_bytes(way) + 2 * inputs * samples.tail_bytes(around)
        });
        // A range of features may begin and end inside a channel, and there are up to two ranges.
        let cut = 4;
        SourceCosts {
            // Tables.
            fixed: (64 << 10) + cut * whole + around * spikes + sampled,
            row: whole.div_ceil(filters),
            // Spikes, blocks and masks.
            chunk: spikes + (FEED_PIECES * 16 * CHUNK_BLOCKS) as u64 + cut * chunk,
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
        let window = chunks + self.shape.history + self.shape.ahead;
        let events = most_events(timeline, self.spikes, window);
        self.round_chunks = chunks;
        self.reached = None;
        let blocks = self.blocks(chunks);
        let rows = operands.iter().map(|features| self.rows(features, &blocks));
        self.operands = rows.collect::<Result<_>>()?;
        let fewest = self.operands.iter().map(|o| o.channels.len()).min();
        let convolution = match &self.samples {
            None => None,
            Some(samples) if self.shape.sorted => {
                Some(Convolution::Gather(Gather::new(context, samples)?))
            }
            Some(samples) => {
                let history = self.shape.history * CHUNK_STEPS;
                let rows = fewest.unwrap_or(1);
                let save = OverlapSave::new(context, samples, blocks, rows, history)?;
                Some(Convolution::OverlapSave(Box::new(save)))
            }
        };
        let offsets = window * (self.channels + 1);
        self.sent = Some(RoundBuffers {
            spikes: SentSpikes::new(context, events, window, self.spikes.is_weighted(), staging)?,
            blocks: Feed::new(context, chunks * CHUNK_BLOCKS, &mut staging.blocks)?,
            sorted: match self.shape.sorted {
                true => Some((context.alloc(events)?, context.alloc(offsets)?)),
                false => None,
            },
            convolution,
            stride: blocks.stride(),
            base: 0,
            filtered: 0,
        });
        Ok(())
    }

    fn load(&mut self, round: &Round<'_>) -> Result<()> {
        let start = round.chunks.start;
        self.filter(round.timeline, round.chunks.clone())?;
        let blocks = start * CHUNK_BLOCKS..round.chunks.end * CHUNK_BLOCKS;
        let here = &round.timeline.blocks[blocks];
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
            return Err(no_round());
        };
        given::fill(
            round,
            GivenColumns {
                responses: &operand.responses,
                length: self.round_chunks * CHUNK_STEPS,
                first: operand.features.start - operand.channels.start * self.filters.bank.len(),
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
