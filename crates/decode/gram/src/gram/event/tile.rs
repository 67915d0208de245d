//! One tile of M: rows of one filter over all channels, columns of another over some.

use pulp::{Simd, WithSimd};

use super::overlap::{Overlap, STATES, SteppedFilter};
use crate::gram::paired_steps;
use betz_base::aligned::AlignedBuffer;
use betz_base::error::Result;
use betz_base::progress::{self, Progress};
use betz_recording::{DatasetView, Segment};

/// Spikes of a channel after which its row of M moves from f32 to f64.
const ADDITIONS: u8 = 128;

/// Approximate number of spikes between two checks for cancellation.
const STRETCH: usize = 1 << 16;

/// Smaller states are set to zero, because zeros are faster than denormal numbers.
const SILENCE: f32 = 1e-30;

/// Silence of up to this many steps beyond the span is looked up rather than computed.
const COMMON_GAP: usize = 64;

/// Points at which rows of M move from f32 to f64: (spike, its channel) for every 128th spike of a channel inside the
/// paired steps, ascending. All tiles share this list.
pub(super) fn settlements(data: &DatasetView<'_>, delay_steps: i64) -> Vec<(usize, u32)> {
    let mut seen = vec![0; data.channels()];
    let mut settlements = Vec::with_capacity(data.spikes.len() / usize::from(ADDITIONS));
    for segment in data.segments {
        let Some((start, stop)) = paired_steps(segment, delay_steps) else {
            continue;
        };
        for spike in data.spikes.range(start, stop) {
            let channel = data.spikes.channels[spike];
            let seen: &mut u8 = &mut seen[channel as usize];
            *seen += 1;
            if *seen == ADDITIONS {
                *seen = 0;
                settlements.push((spike, channel));
            }
        }
    }
    settlements
}

/// The work on one tile; owns its states and the f32 accumulator.
pub(super) struct Tile<'a> {
    data: &'a DatasetView<'a>,
    overlap: &'a Overlap,
    delay_steps: i64,
    /// Channels of the columns: `first..first + width`, some of them perhaps beyond the last.
    first: usize,
    width: usize,
    /// Amount that a new spike m steps after the base adds to each state, f32 (m, state).
    arrival: Vec<[f32; STATES]>,
    /// rᵐ·C(i, p)·(m/τ)^(i−p), (m, i, p).
    carry: Vec<[[f64; STATES]; STATES]>,
    /// S, (state, column).
    states: AlignedBuffer<f32>,
    /// M in f32, (channel, column), of each row since it last moved to `sum`.
    rows: AlignedBuffer<f32>,
    /// M in f64, (channel, column).
    sum: &'a mut [f64],
    /// The step that the states are relative to.
    base: i64,
    /// Columns that fired in the current step, and how often.
    fired: Vec<(usize, f32)>,
    /// The [`settlements`] to come.
    settlements: &'a [(usize, u32)],
}

impl<'a> Tile<'a> {
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) if there is no memory for the tile.
    pub(super) fn new(
        data: &'a DatasetView<'a>,
        overlap: &'a Overlap,
        first: usize,
        width: usize,
        delay_steps: i64,
        settlements: &'a [(usize, u32)],
        sum: &'a mut [f64],
    ) -> Result<Self> {
        let shape = overlap.earlier;
        let span = shape.span();
        Ok(Self {
            data,
            overlap,
            delay_steps,
            first,
            width,
            arrival: (0..=span).map(|m| arrival(shape, m)).collect(),
            carry: (0..=span + COMMON_GAP)
                .map(|m| carry(shape, m as f64))
                .collect(),
            states: AlignedBuffer::filled("gram", 0.0, (shape.order + 1) * width)?,
            rows: AlignedBuffer::filled("gram", 0.0, data.channels() * width)?,
            sum,
            base: 0,
            fired: Vec::new(),
            settlements,
        })
    }

    /// Walks every segment.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted) if `progress` cancels.
    pub(super) fn run(mut self, progress: &dyn Progress) -> Result<()> {
        let arch = pulp::Arch::new();
        let data = self.data;
        for segment in data.segments {
            let Some((start, stop)) = paired_steps(segment, self.delay_steps) else {
                continue;
            };
            self.states.fill(0.0);
            self.base = segment.start;
            if segment.start < start {
                arch.dispatch(HistoryPass {
                    tile: &mut self,
                    segment,
                    start,
                    stop,
                });
            }
            let mut spikes = data.spikes.range(start, stop);
            while !spikes.is_empty() {
                let taken = arch.dispatch(PairPass {
                    tile: &mut self,
                    stop,
                    spikes: spikes.clone(),
                });
                spikes.start = taken;
                progress::check(progress, "gram")?;
            }
        }
        for channel in 0..data.channels() {
            self.settle(channel);
        }
        Ok(())
    }

    /// Moves the f32 sums of a channel's row to f64.
    #[inline(always)]
    fn settle(&mut self, channel: usize) {
        let row = channel * self.width..(channel + 1) * self.width;
        for (sum, row) in self.sum[row.clone()].iter_mut().zip(&mut self.rows[row]) {
            *sum += f64::from(*row);
            *row = 0.0;
        }
    }

    /// Moves the base to `step`; the states go with it.
    #[inline(always)]
    fn rebase<S: Simd>(&mut self, simd: S, step: i64) {
        let shape = self.overlap.earlier;
        let distance = (step - self.base) as usize;
        let carry = match self.carry.get(distance) {
            Some(known) => *known,
            None => carry(shape, distance as f64),
        };
        self.base = step;
        let width = self.width / S::F32_LANES;
        let (states, _) = S::as_mut_simd_f32s(&mut self.states);
        let silence = simd.splat_f32s(SILENCE);
        for i in (0..=shape.order).rev() {
            let (lower, own) = states.split_at_mut(i * width);
            let keep = simd.splat_f32s(carry[i][i] as f32);
            for (column, state) in own[..width].iter_mut().enumerate() {
                let mut sum = simd.mul_f32s(keep, *state);
                for p in 0..i {
                    let carry = simd.splat_f32s(carry[i][p] as f32);
                    sum = simd.mul_add_f32s(carry, lower[p * width + column], sum);
                }
                let heard = simd.greater_than_f32s(simd.abs_f32s(sum), silence);
                *state = simd.select_f32s(heard, sum, simd.splat_f32s(0.0));
            }
        }
    }

    /// Half of `count` spikes in `column`, `m` steps after the base.
    #[inline(always)]
    fn half_spike(&mut self, column: usize, count: f32, m: usize) {
        for (p, arrival) in self.arrival[m][..=self.overlap.earlier.order]
            .iter()
            .enumerate()
        {
            self.states[p * self.width + column] += 0.5 * count * arrival;
        }
    }

    /// The weights w_p for spikes `m` steps after the base that have `left` steps to go.
    #[inline(always)]
    fn weights(&self, m: usize, left: usize) -> [f32; STATES] {
        let (overlap, carry) = (self.overlap.at(left), &self.carry[m]);
        let order = self.overlap.earlier.order;
        let mut weights = [0.0; STATES];
        for (p, weight) in weights[..=order].iter_mut().enumerate() {
            let mut sum = 0.0;
            for i in p..=order {
                sum += overlap[i] * carry[i][p];
            }
            *weight = sum as f32;
        }
        weights
    }

    /// Adds Σ_p weights\[p\]·S_p to the rows of `channels`: as many times as `counts` says of each where they
    /// are `WEIGHTED`, or once.
    #[inline(always)]
    fn add_to_rows<S: Simd, const WEIGHTED: bool>(
        &mut self,
        simd: S,
        weights: &[f32],
        channels: &[u32],
        counts: &[f32],
    ) {
        let width = self.width / S::F32_LANES;
        let (states, _) = S::as_simd_f32s(&self.states);
        let (rows, _) = S::as_mut_simd_f32s(&mut self.rows);
        let now = (channels, counts);
        let mut column = 0;
        while column + 8 <= width {
            add_columns::<S, WEIGHTED, 8>(simd, weights, states, now, rows, width, column);
            column += 8;
        }
        if column + 4 <= width {
            add_columns::<S, WEIGHTED, 4>(simd, weights, states, now, rows, width, column);
            column += 4;
        }
        if column + 2 <= width {
            add_columns::<S, WEIGHTED, 2>(simd, weights, states, now, rows, width, column);
            column += 2;
        }
        if column < width {
            add_columns::<S, WEIGHTED, 1>(simd, weights, states, now, rows, width, column);
        }
    }
}

/// `N` registers wide, the sum held in registers while every row takes it.
#[inline(always)]
fn add_columns<S: Simd, const WEIGHTED: bool, const N: usize>(
    simd: S,
    weights: &[f32],
    states: &[S::f32s],
    (channels, counts): (&[u32], &[f32]),
    rows: &mut [S::f32s],
    width: usize,
    column: usize,
) {
    let mut sum = [simd.splat_f32s(0.0); N];
    for (p, &weight) in weights.iter().enumerate() {
        let weight = simd.splat_f32s(weight);
        let state = &states[p * width + column..][..N];
        for i in 0..N {
            sum[i] = simd.mul_add_f32s(weight, state[i], sum[i]);
        }
    }
    if !WEIGHTED {
        for &channel in channels {
            let row = &mut rows[channel as usize * width + column..][..N];
            for i in 0..N {
                row[i] = simd.add_f32s(row[i], sum[i]);
            }
        }
        return;
    }
    for (&channel, &count) in channels.iter().zip(counts) {
        let row = &mut rows[channel as usize * width + column..][..N];
        let count = simd.splat_f32s(count);
        for i in 0..N {
            row[i] = simd.mul_add_f32s(count, sum[i], row[i]);
        }
    }
}

/// The spikes of a segment before `start`, where the sum begins: states only, then what pairs of
/// them add from `start` to `stop`.
struct HistoryPass<'t, 'a> {
    tile: &'t mut Tile<'a>,
    segment: &'t Segment,
    start: i64,
    stop: i64,
}

impl WithSimd for HistoryPass<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            tile,
            segment,
            start,
            stop,
        } = self;
        let (later, earlier) = (tile.overlap.later, tile.overlap.earlier);
        let spikes = &tile.data.spikes;
        let range = spikes.range(segment.start, start);
        if range.is_empty() {
            return;
        }
        let mut own = vec![[0.0; STATES]; tile.data.channels()];
        let mut heard = vec![false; tile.data.channels()];
        for spike in range {
            let (tick, channel) = (spikes.ticks[spike], spikes.channels[spike] as usize);
            let count = spikes.weight(spike);
            if (tick - tile.base) as usize >= tile.arrival.len() {
                tile.rebase(simd, tick);
            }
            let column = channel.wrapping_sub(tile.first);
            if column < tile.width {
                let m = (tick - tile.base) as usize;
                tile.half_spike(column, count, m);
                tile.half_spike(column, count, m);
            }
            heard[channel] = true;
            for (q, state) in own[channel][..=later.order].iter_mut().enumerate() {
                *state += f64::from(count) * later.carry(q, 0, (start - tick) as f64);
            }
        }
        tile.rebase(simd, start);
        let kernel = tile.overlap.history((stop - start) as usize);
        for (channel, state) in own.iter().enumerate().filter(|&(c, _)| heard[c]) {
            let mut weights = [0.0; STATES];
            for (p, weight) in weights[..=earlier.order].iter_mut().enumerate() {
                // Half: Γ = M + Mᵀ has the other one.
                let sum: f64 = (0..=later.order).map(|q| state[q] * kernel[q][p]).sum();
                *weight = (0.5 * sum) as f32;
            }
            let weights = &weights[..=earlier.order];
            tile.add_to_rows::<S, false>(simd, weights, &[channel as u32], &[]);
            // No spike counts these terms, and there may be one from each of many segments.
            tile.settle(channel);
        }
    }
}

/// The spikes of a segment from where the sum begins; stops after a stretch of them and says where.
struct PairPass<'t, 'a> {
    tile: &'t mut Tile<'a>,
    stop: i64,
    spikes: std::ops::Range<usize>,
}

impl WithSimd for PairPass<'_, '_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        match self.tile.data.spikes.is_weighted() {
            true => self.walk::<S, true>(simd),
            false => self.walk::<S, false>(simd),
        }
    }
}

impl PairPass<'_, '_> {
    #[inline(always)]
    fn walk<S: Simd, const WEIGHTED: bool>(self, simd: S) -> usize {
        let Self { tile, stop, spikes } = self;
        let data = tile.data;
        let (ticks, channels) = (
            &data.spikes.ticks[..spikes.end],
            &data.spikes.channels[..spikes.end],
        );
        let order = tile.overlap.earlier.order;
        let stop_at = spikes.end.min(spikes.start + STRETCH);
        let mut next = spikes.start;
        while next < stop_at {
            let tick = ticks[next];
            let mut after = next + 1;
            while after < spikes.end && ticks[after] == tick {
                after += 1;
            }
            let now = &channels[next..after];
            let counts = match WEIGHTED {
                true => &data.spikes.weights[next..after],
                false => &[],
            };
            next = after;
            if (tick - tile.base) as usize >= tile.arrival.len() {
                tile.rebase(simd, tick);
            }
            let m = (tick - tile.base) as usize;
            tile.fired.clear();
            for (i, &channel) in now.iter().enumerate() {
                let column = (channel as usize).wrapping_sub(tile.first);
                if column < tile.width {
                    let count = if WEIGHTED { counts[i] } else { 1.0 };
                    tile.fired.push((column, count));
                    tile.half_spike(column, count, m);
                }
            }
            let weights = tile.weights(m, (stop - tick) as usize);
            tile.add_to_rows::<S, WEIGHTED>(simd, &weights[..=order], now, counts);
            for i in 0..tile.fired.len() {
                let (column, count) = tile.fired[i];
                tile.half_spike(column, count, m);
            }
            while let [(spike, channel), rest @ ..] = tile.settlements
                && *spike < next
            {
                tile.settle(*channel as usize);
                tile.settlements = rest;
            }
        }
        next
    }
}

fn arrival(shape: SteppedFilter, m: usize) -> [f32; STATES] {
    let mut arrival = [0.0; STATES];
    for (p, value) in arrival[..=shape.order].iter_mut().enumerate() {
        *value = shape.carry(p, 0, -(m as f64)) as f32;
    }
    arrival
}

fn carry(shape: SteppedFilter, m: f64) -> [[f64; STATES]; STATES] {
    let mut carry = [[0.0; STATES]; STATES];
    for (i, row) in carry[..=shape.order].iter_mut().enumerate() {
        for (p, value) in row[..=i].iter_mut().enumerate() {
            *value = shape.carry(i, p, m);
        }
    }
    carry
}
