//! Responses of a whole dataset in blocks of steps: the input of the dense training path.
//!
//! Channels go through the recursion eight at a time, one per SIMD lane. A low-pass runs on the spike trains (it
//! commutes with the filters), once per channel and not once per feature.

use std::ops::Range;

use rayon::prelude::*;

use super::Sample;
use super::sampled::SampledResponses;
use betz_base::error::{Error, Result};
use betz_recording::DatasetView;
use betz_runtime::psc::{FilterBank, LowPass, LowPassFilter, advance};

/// Number of channels that go through the recursion together.
const LANES: usize = 8;

/// Number of steps that go through one filter before the next filter; 256 × 8 f64 stay in L1/L2.
const TILE: usize = 256;

/// Responses at some steps, row-major (features, columns).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Block<T> {
    /// The step of the dataset that each column is at, ascending.
    pub steps: Vec<usize>,
    /// Row-major (features, columns); feature = channel × filters + filter. The stride of a row is
    /// `steps.len()`.
    pub values: Vec<T>,
}

/// Spikes in channel order.
#[derive(Debug)]
pub(super) struct Trains {
    /// Channel c holds `steps[first[c]..first[c + 1]]`.
    first: Vec<usize>,
    steps: Vec<u32>,
    /// Count of each spike; empty: every count is 1.
    weights: Vec<f32>,
}

/// A run of steps inside one segment.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: usize,
    stop: usize,
    /// Number of the segment.
    segment: usize,
    /// True if the segment begins here: filters go back to rest.
    fresh: bool,
    /// First column in the block; `None` if the states only have to be carried along.
    column: Option<usize>,
}

/// Eight channels and their states.
#[derive(Debug)]
struct Lanes {
    /// For each filter, its order + 1 states.
    state: Vec<[f64; LANES]>,
    low_pass: Option<LowPassFilter>,
    /// Next spike of each channel in `Trains::steps`.
    next: [usize; LANES],
}

/// Iterates over a dataset and gives its responses block by block.
///
/// Segments begin at rest; steps outside every segment are left out. Opening allocates (spikes in
/// channel order: 4 bytes each, 8 with weights); [`next_block`](Self::next_block) only grows the block it is given.
#[derive(Debug)]
pub struct Responses<'a> {
    dataset: DatasetView<'a>,
    /// The recursive filters; a channel's rows of a block are theirs, then those of the sampled ones.
    filters: Vec<Coefficients>,
    /// Number of filters of both kinds.
    width: usize,
    trains: Trains,
    lanes: Vec<Lanes>,
    sampled: Option<SampledResponses>,
    delay_steps: i64,
    /// Runs of steps that are given; `None` for all. The current one.
    runs: Option<Vec<Range<usize>>>,
    run: usize,
    /// Current segment and step.
    segment: usize,
    step: usize,
}

#[derive(Debug, Clone, Copy)]
struct Coefficients {
    states: usize,
    decay: f64,
    scale: f64,
}

impl<'a> Responses<'a> {
    /// Opens `dataset` at its first segment.
    ///
    /// # Errors
    /// As [`LowPass::check`]; [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when a spike's
    /// channel or step lies outside the dataset, or a sampled filter is on another step.
    pub fn new(
        dataset: impl Into<DatasetView<'a>>,
        bank: &FilterBank,
        low_pass: Option<LowPass>,
    ) -> Result<Self> {
        let dataset = dataset.into();
        let filters: Vec<Coefficients> = bank
            .filters()
            .iter()
            .map(|f| Coefficients {
                states: f.order as usize + 1,
                decay: f.decay(dataset.step_seconds),
                scale: f.scale(dataset.step_seconds),
            })
            .collect();
        let states = filters.iter().map(|f| f.states).sum();
        let single = low_pass
            .map(|l| LowPassFilter::new(l, dataset.step_seconds, 1))
            .transpose()?;
        let sampled = SampledResponses::new(&dataset, bank, single.as_ref())?;
        let low_pass = low_pass
            .map(|l| LowPassFilter::new(l, dataset.step_seconds, LANES))
            .transpose()?;
        let lanes = (0..dataset.channels().div_ceil(LANES))
            .map(|_| Lanes {
                state: vec![[0.0; LANES]; states],
                low_pass: low_pass.clone(),
                next: [0; LANES],
            })
            .collect();
        Ok(Self {
            dataset,
            filters,
            trains: Trains::new(&dataset)?,
            lanes,
            sampled,
            width: bank.len(),
            delay_steps: 0,
            runs: None,
            run: 0,
            segment: 0,
            step: 0,
        })
    }

    /// Leaves out the steps t whose partner t − `delay_steps` lies outside t's segment.
    #[must_use]
    pub fn paired(mut self, delay_steps: i64) -> Self {
        self.delay_steps = delay_steps;
        self
    }

    /// Gives the steps of `runs` alone, which ascend and do not overlap. The filters run through all steps of a segment up to
    /// its last run.
    #[must_use]
    pub fn only(mut self, runs: Vec<Range<usize>>) -> Self {
        self.runs = Some(runs);
        self
    }

    /// Features, channels × filters: rows of a block.
    pub fn features(&self) -> usize {
        self.dataset.channels() * self.width
    }

    /// Fills `block` with the next (at most) `max_columns` steps; `false` when none are left.
    /// Channels run in parallel on rayon's current pool.
    pub fn next_block<T: Sample>(&mut self, max_columns: usize, block: &mut Block<T>) -> bool {
        let pieces = self.pieces(max_columns.max(1), &mut block.steps);
        let columns = block.steps.len();
        block.values.resize(self.features() * columns, T::default());
        if columns == 0 {
            return false;
        }
        let (channels, filters, trains) = (self.dataset.channels(), &self.filters, &self.trains);
        let of_channel = self.width;
        let arch = pulp::Arch::new();
        self.lanes
            .par_iter_mut()
            .zip(block.values.par_chunks_mut(LANES * of_channel * columns))
            .enumerate()
            .for_each(|(group, (lanes, rows))| {
                let first = group * LANES;
                let width = LANES.min(channels - first);
                arch.dispatch(|| {
                    for piece in &pieces {
                        let stride = (of_channel, columns);
                        lanes.run(*piece, first..first + width, trains, filters, rows, stride);
                    }
                });
            });
        if let Some(sampled) = &mut self.sampled {
            for piece in &pieces {
                let Some(column) = piece.column else { continue };
                let (steps, to) = ((piece.start, piece.stop), (columns, column));
                let (data, rows) = (&self.dataset, &mut block.values);
                sampled.write(data, trains, piece.segment, steps, rows, to);
            }
        }
        true
    }

    /// Plans the next block, writing its steps.
    fn pieces(&mut self, max_columns: usize, steps: &mut Vec<usize>) -> Vec<Piece> {
        steps.clear();
        let mut pieces = Vec::new();
        while let Some(segment) = self.dataset.segments.get(self.segment) {
            let (first, stop) = (segment.start.max(0) as usize, segment.stop as usize);
            // Paired steps: start <= t − delay < stop.
            let emit_from = segment
                .start
                .max(segment.start.saturating_add(self.delay_steps));
            let emit_stop = segment
                .stop
                .min(segment.stop.saturating_add(self.delay_steps));
            if emit_from >= emit_stop {
                self.segment += 1;
                continue;
            }
            let (emit_from, emit_stop) = (emit_from as usize, emit_stop as usize);
            if steps.len() == max_columns {
                break;
            }
            let start = self.step.max(first);
            let Some(run) = self.next_run(start.max(emit_from)..emit_stop) else {
                self.segment += 1;
                self.step = stop;
                continue;
            };
            let emit_from = run.start;
            if start < emit_from {
                pieces.push(Piece {
                    start,
                    stop: emit_from,
                    segment: self.segment,
                    fresh: start == first,
                    column: None,
                });
            }
            let start = start.max(emit_from);
            let piece_stop = run.end.min(start + max_columns - steps.len());
            pieces.push(Piece {
                start,
                stop: piece_stop,
                segment: self.segment,
                fresh: start == first,
                column: Some(steps.len()),
            });
            steps.extend(start..piece_stop);
            self.step = piece_stop;
            if piece_stop == emit_stop {
                self.segment += 1;
                self.step = stop;
            }
        }
        pieces
    }

    /// The next steps of `left` that are given.
    fn next_run(&mut self, left: Range<usize>) -> Option<Range<usize>> {
        let Some(runs) = &self.runs else {
            return Some(left);
        };
        self.run += (runs[self.run..].iter())
            .take_while(|run| run.end <= left.start)
            .count();
        let run = runs.get(self.run)?;
        let run = run.start.max(left.start)..run.end.min(left.end);
        (!run.is_empty()).then_some(run)
    }
}

/// All responses of `dataset` at once, row-major (features, steps in segments).
///
/// # Errors
/// As [`Responses::new`].
pub fn responses<'d, T: Sample>(
    dataset: impl Into<DatasetView<'d>>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
) -> Result<Block<T>> {
    let dataset = &dataset.into();
    let mut block = Block::default();
    Responses::new(dataset, bank, low_pass)?.next_block(dataset.steps_in_segments(), &mut block);
    Ok(block)
}

impl Trains {
    /// Counting sort by channel; stays in time order within each.
    fn new(dataset: &DatasetView<'_>) -> Result<Self> {
        let (spikes, channels) = (&dataset.spikes, dataset.channels());
        let mut first = vec![0; channels + 1];
        for (i, &channel) in spikes.channels.iter().enumerate() {
            let Some(count) = first.get_mut(channel as usize + 1) else {
                return Err(Error::mismatch(format!(
                    "spike {i}: expected a channel below {channels}, got {channel}"
                )));
            };
            *count += 1;
        }
        for c in 0..channels {
            first[c + 1] += first[c];
        }
        let mut next = first.clone();
        let mut steps = vec![0; spikes.len()];
        let mut weights = vec![0.0; spikes.weights.len()];
        for (i, (&tick, &channel)) in spikes.ticks.iter().zip(spikes.channels).enumerate() {
            let step = u32::try_from(tick)
                .ok()
                .filter(|&s| (s as usize) < dataset.steps)
                .ok_or_else(|| {
                    Error::mismatch(format!(
                        "spike {i}: expected a step inside [0, {}) and below 2^32, got {tick}",
                        dataset.steps
                    ))
                })?;
            let place = next[channel as usize];
            steps[place] = step;
            if let Some(weight) = weights.get_mut(place) {
                *weight = spikes.weights[i];
            }
            next[channel as usize] += 1;
        }
        Ok(Self {
            first,
            steps,
            weights,
        })
    }

    pub(super) fn of(&self, channel: usize) -> &[u32] {
        &self.steps[self.first[channel]..self.first[channel + 1]]
    }

    /// Count of entry `number` of `channel`.
    #[inline(always)]
    pub(super) fn weight(&self, channel: usize, number: usize) -> f64 {
        let weight = self.weights.get(self.first[channel] + number);
        weight.map_or(1.0, |&w| f64::from(w))
    }
}

impl Lanes {
    /// Runs `piece` for `channels`, writing their rows (row-major, `of_channel` to each channel, `columns` wide).
    #[inline(always)]
    fn run<T: Sample>(
        &mut self,
        piece: Piece,
        channels: std::ops::Range<usize>,
        trains: &Trains,
        filters: &[Coefficients],
        rows: &mut [T],
        (of_channel, columns): (usize, usize),
    ) {
        if piece.fresh {
            self.state.fill([0.0; LANES]);
            if let Some(low_pass) = &mut self.low_pass {
                low_pass.reset();
            }
            for (lane, channel) in channels.clone().enumerate() {
                let train = trains.of(channel);
                self.next[lane] = train.partition_point(|&s| (s as usize) < piece.start);
            }
        }
        let mut input = [[0.0; LANES]; TILE];
        let mut response = [[0.0; LANES]; TILE];
        let mut start = piece.start;
        while start < piece.stop {
            let len = TILE.min(piece.stop - start);
            input[..len].fill([0.0; LANES]);
            for (lane, channel) in channels.clone().enumerate() {
                let late = &trains.of(channel)[self.next[lane]..];
                let now = late.iter().take_while(|&&s| (s as usize) < start + len);
                for &step in now {
                    input[step as usize - start][lane] += trains.weight(channel, self.next[lane]);
                    self.next[lane] += 1;
                }
            }
            if let Some(low_pass) = &mut self.low_pass {
                for values in &mut input[..len] {
                    low_pass.step(values);
                }
            }
            let mut state = self.state.as_mut_slice();
            for (f, filter) in filters.iter().enumerate() {
                let (own, rest) = state.split_at_mut(filter.states);
                state = rest;
                let (input, response) = (&input[..len], &mut response[..len]);
                match filter.states {
                    1 => run_order::<1>(own, filter, input, response),
                    2 => run_order::<2>(own, filter, input, response),
                    3 => run_order::<3>(own, filter, input, response),
                    4 => run_order::<4>(own, filter, input, response),
                    _ => run_order::<5>(own, filter, input, response),
                }
                if let Some(column) = piece.column {
                    let column = column + start - piece.start;
                    for lane in 0..channels.len() {
                        let row = (lane * of_channel + f) * columns + column;
                        for (value, y) in rows[row..row + len].iter_mut().zip(&*response) {
                            *value = T::rounded(y[lane]);
                        }
                    }
                }
            }
            start += len;
        }
    }
}

/// One filter over one tile, eight channels abreast.
#[inline(always)]
fn run_order<const STATES: usize>(
    state: &mut [[f64; LANES]],
    filter: &Coefficients,
    input: &[[f64; LANES]],
    response: &mut [[f64; LANES]],
) {
    // (lane, state), so that `advance` sees the states of one signal.
    let mut lanes = [[0.0; STATES]; LANES];
    for (lane, own) in lanes.iter_mut().enumerate() {
        for (s, all) in own.iter_mut().zip(&*state) {
            *s = all[lane];
        }
    }
    for (x, y) in input.iter().zip(response) {
        for lane in 0..LANES {
            advance(&mut lanes[lane], filter.decay, x[lane]);
            y[lane] = filter.scale * lanes[lane][STATES - 1];
        }
    }
    for (lane, own) in lanes.iter().enumerate() {
        for (s, all) in own.iter().zip(&mut *state) {
            all[lane] = *s;
        }
    }
}
