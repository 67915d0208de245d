//! The passes of a block: samples to f32, biquads, reference, crossings.
//!
//! No operation is fused and no sum crosses channels in f32, so that every vector width gives the same bits.

use pulp::{Simd, WithSimd, bytemuck};

use super::super::LANES;

/// Rows that are worked on together; chunks end at whole multiples of it, however the samples come.
pub(super) const ROWS: usize = 64;
/// Channels of int16 that are counted together.
pub(super) const WORDS: usize = 32;
/// Largest number of biquads of a filter.
pub(super) const SECTIONS: usize = 4;
/// Sections of spike-band power.
const POWER_SECTIONS: usize = 2;
/// Steps of a microvolt in which the median is taken.
const STEPS: f32 = 16.0;
/// The largest of them; more than 1 mV at once on half of the channels is an artefact.
const LARGEST: i16 = 16_383;
/// 1.5 · 2²³: the low 16 bits of a sum with it are the other summand, rounded.
const ROUND: f32 = 12_582_912.0;

/// Samples of the used channels, in microvolts, less the mean of the channels if `average`.
pub(super) struct Load<'a> {
    /// Rows of samples, `row_channels` each.
    pub(super) samples: &'a [i16],
    pub(super) row_channels: usize,
    pub(super) used: &'a [u32],
    /// True if `used` counts up by one.
    pub(super) contiguous: bool,
    pub(super) microvolts: f32,
    pub(super) average: bool,
    /// One row of int16, `used` long.
    pub(super) words: &'a mut [i16],
    /// Rows, `stride` each.
    pub(super) rows: &'a mut [f32],
    pub(super) stride: usize,
    /// For each row: samples at an end of their range.
    pub(super) rails: &'a mut [u32; ROWS],
}

impl WithSimd for Load<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let n = self.used.len();
        let rows = self.rows.chunks_exact_mut(self.stride);
        let samples = self.samples.chunks_exact(self.row_channels);
        for ((row, samples), rails) in rows.zip(samples).zip(self.rails.iter_mut()) {
            let words = if self.contiguous {
                &samples[self.used[0] as usize..][..n]
            } else {
                for (word, &channel) in self.words.iter_mut().zip(self.used) {
                    *word = samples[channel as usize];
                }
                &*self.words
            };
            let (mut sum, mut ends) = (0_i32, 0_u32);
            for &word in words {
                // Both ends are at most 1 after this.
                ends += u32::from((word as u16).wrapping_add(0x8001) <= 1);
                sum += i32::from(word);
            }
            *rails = ends;
            let mean = if self.average {
                (f64::from(sum) / n as f64) as f32
            } else {
                0.0
            };
            for (y, &word) in row.iter_mut().zip(words) {
                *y = (f32::from(word) - mean) * self.microvolts;
            }
            row[n..].fill(0.0);
        }
    }
}

/// The biquads of the spikes' band in place, and those of spike-band power, whose |y| is summed. The states of two
/// registers of channels stay in registers over the whole block.
pub(super) struct Filter<'a> {
    pub(super) sections: &'a [[f32; 3]],
    pub(super) states: &'a mut [f32],
    pub(super) power: &'a [[f32; 3]],
    pub(super) power_states: &'a mut [f32],
    pub(super) sums: &'a mut [f32],
    pub(super) rows: &'a mut [f32],
    pub(super) stride: usize,
}

impl WithSimd for Filter<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.sections.len(), self.power.len()) {
            (0, _) => filter::<S, 0, POWER_SECTIONS>(simd, self),
            (1, 0) => filter::<S, 1, 0>(simd, self),
            (2, 0) => filter::<S, 2, 0>(simd, self),
            (3, 0) => filter::<S, 3, 0>(simd, self),
            (4, 0) => filter::<S, 4, 0>(simd, self),
            (1, _) => filter::<S, 1, POWER_SECTIONS>(simd, self),
            (2, _) => filter::<S, 2, POWER_SECTIONS>(simd, self),
            (3, _) => filter::<S, 3, POWER_SECTIONS>(simd, self),
            _ => filter::<S, SECTIONS, POWER_SECTIONS>(simd, self),
        }
    }
}

/// A cascade of `N` biquads at `K` registers of channels. Of the transposed direct form II both states are kept with
/// their sign turned: y = b x − s₁; s₁ ← s₂ + a₁ y; s₂ ← b x + a₂ y.
#[derive(Clone, Copy)]
struct Cascade<S: Simd, const N: usize, const K: usize> {
    coefficients: [[S::f32s; 3]; N],
    states: [[[S::f32s; 2]; N]; K],
}

impl<S: Simd, const N: usize, const K: usize> Cascade<S, N, K> {
    #[inline(always)]
    fn load(simd: S, sections: &[[f32; 3]], states: &[S::f32s], width: usize, at: usize) -> Self {
        let zero = simd.splat_f32s(0.0);
        let mut cascade = Self {
            coefficients: [[zero; 3]; N],
            states: [[[zero; 2]; N]; K],
        };
        for (n, &section) in sections.iter().enumerate().take(N) {
            cascade.coefficients[n] = section.map(|c| simd.splat_f32s(c));
            for k in 0..K {
                for s in 0..2 {
                    cascade.states[k][n][s] = states[(2 * n + s) * width + at + k];
                }
            }
        }
        cascade
    }

    #[inline(always)]
    fn store(&self, states: &mut [S::f32s], width: usize, at: usize) {
        for n in 0..N {
            for k in 0..K {
                for s in 0..2 {
                    states[(2 * n + s) * width + at + k] = self.states[k][n][s];
                }
            }
        }
    }

    #[inline(always)]
    fn step(&mut self, simd: S, k: usize, input: S::f32s) -> S::f32s {
        let mut y = input;
        for n in 0..N {
            let [b, a1, a2] = self.coefficients[n];
            let [first, second] = self.states[k][n];
            let scaled = simd.mul_f32s(b, y);
            y = simd.sub_f32s(scaled, first);
            self.states[k][n] = [
                simd.add_f32s(second, simd.mul_f32s(a1, y)),
                simd.add_f32s(scaled, simd.mul_f32s(a2, y)),
            ];
        }
        y
    }
}

#[inline(always)]
fn filter<S: Simd, const N: usize, const P: usize>(simd: S, mut pass: Filter<'_>) {
    let width = pass.sums.len() / S::F32_LANES;
    let mut at = 0;
    while at + 2 <= width {
        columns::<S, N, P, 2>(simd, &mut pass, at);
        at += 2;
    }
    if at < width {
        columns::<S, N, P, 1>(simd, &mut pass, at);
    }
}

#[inline(always)]
fn columns<S: Simd, const N: usize, const P: usize, const K: usize>(
    simd: S,
    pass: &mut Filter<'_>,
    at: usize,
) {
    let (states, _) = S::as_mut_simd_f32s(pass.states);
    let (power_states, _) = S::as_mut_simd_f32s(pass.power_states);
    let (sums, _) = S::as_mut_simd_f32s(pass.sums);
    let width = sums.len();
    let mut spikes = Cascade::<S, N, K>::load(simd, pass.sections, states, width, at);
    let mut power = Cascade::<S, P, K>::load(simd, pass.power, power_states, width, at);
    let mut sum: [S::f32s; K] = std::array::from_fn(|k| sums[at + k]);
    let (rows, _) = S::as_mut_simd_f32s(pass.rows);
    for row in rows.chunks_exact_mut(pass.stride / S::F32_LANES) {
        let Some(row) = row[at..].first_chunk_mut::<K>() else {
            continue;
        };
        for (k, place) in row.iter_mut().enumerate() {
            let input = *place;
            if N > 0 {
                *place = spikes.step(simd, k, input);
            }
            if P > 0 {
                let y = power.step(simd, k, input);
                sum[k] = simd.add_f32s(sum[k], simd.abs_f32s(y));
            }
        }
    }
    spikes.store(states, width, at);
    power.store(power_states, width, at);
    sums[at..at + K].copy_from_slice(&sum);
}

/// The median of the channels of each row, in whole sixteenths of a microvolt (the mean of two if there are two).
pub(super) struct Median<'a> {
    pub(super) rows: &'a [f32],
    pub(super) stride: usize,
    pub(super) live: usize,
    /// One row of int16, padded to whole [`WORDS`].
    pub(super) words: &'a mut [i16],
    /// For each row, in microvolts.
    pub(super) medians: &'a mut [f32; ROWS],
}

impl WithSimd for Median<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut guess = 0;
        let most = f32::from(LARGEST);
        self.words[self.live..].fill(LARGEST);
        let rows = self.rows.chunks_exact(self.stride);
        for (row, median) in rows.zip(self.medians.iter_mut()) {
            for (word, &y) in self.words[..self.live].iter_mut().zip(row) {
                let steps = (y * STEPS).clamp(-most, most);
                *word = (steps + ROUND).to_bits() as i16;
            }
            let (words, _) = S::as_simd_i16s(self.words);
            let lower = lower_median(simd, words, self.live, guess);
            guess = lower;
            let padding = self.words.len() - self.live;
            let upper = if self.live.is_multiple_of(2)
                && lower < LARGEST
                && above(simd, words, lower) - padding == self.live / 2
            {
                least_above(self.words, lower)
            } else {
                lower
            };
            *median = (i32::from(lower) + i32::from(upper)) as f32 / (2.0 * STEPS);
        }
    }
}

/// Number of words above `value`. None differs from it by more than 2¹⁵ − 1, so that differences do not wrap.
#[inline(always)]
fn above<S: Simd>(simd: S, words: &[S::i16s], value: i16) -> usize {
    let (value, none, one) = (
        simd.splat_i16s(value),
        simd.splat_i16s(0),
        simd.splat_i16s(1),
    );
    let mut counts = none;
    for &word in words {
        let more = simd.max_i16s(simd.sub_i16s(word, value), none);
        counts = simd.add_i16s(counts, simd.min_i16s(more, one));
    }
    let counts: &[i16] = bytemuck::cast_slice(std::slice::from_ref(&counts));
    // At most 2¹⁴ channels fit.
    counts.iter().fold(0_i16, |sum, &n| sum.wrapping_add(n)) as u16 as usize
}

/// The least word above `value`.
#[inline(always)]
fn least_above(words: &[i16], value: i16) -> i16 {
    let above = |word: &i16| if *word > value { *word } else { LARGEST };
    words.iter().map(above).fold(LARGEST, i16::min)
}

/// The lower median of `live` words, beside which there is only padding of [`LARGEST`], by bisection on the value,
/// around a guess first: exact for every guess.
#[inline(always)]
fn lower_median<S: Simd>(simd: S, words: &[S::i16s], live: usize, guess: i16) -> i16 {
    let all = words.len() * S::I16_LANES;
    let rank = live.div_ceil(2);
    let is_at_most = |value: i32| all - above(simd, words, value as i16) >= rank;
    let (least, largest) = (-i32::from(LARGEST), i32::from(LARGEST));
    // The median is above `low` and at most `high`.
    let (mut low, mut high) = (i32::from(guess) - 16, i32::from(guess) + 16);
    let mut reach = 32;
    while high < largest && !is_at_most(high) {
        low = high;
        high += reach;
        reach *= 4;
    }
    reach = 32;
    while low >= least && is_at_most(low) {
        high = low;
        low -= reach;
        reach *= 4;
    }
    low = low.max(least - 1);
    high = high.min(largest);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_at_most(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high as i16
}

/// y_c ← y_c − Σ_j w_jc y_j for each row, for weights (from, to) of `stride` each.
pub(super) struct Regress<'a> {
    pub(super) weights: &'a [f32],
    pub(super) live: usize,
    pub(super) said: &'a mut [f32],
    pub(super) rows: &'a mut [f32],
    pub(super) stride: usize,
}

impl WithSimd for Regress<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for row in self.rows.chunks_exact_mut(self.stride) {
            self.said.fill(0.0);
            for (weights, &y) in (self.weights.chunks_exact(self.said.len())).zip(&row[..self.live])
            {
                for (said, weight) in self.said.iter_mut().zip(weights) {
                    *said += weight * y;
                }
            }
            for (y, said) in row.iter_mut().zip(self.said.iter()) {
                *y -= said;
            }
        }
    }
}

/// A channel that crosses its threshold, or whose voltage is no spike's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    pub(super) row: u32,
    pub(super) channel: u32,
    pub(super) crossing: bool,
    pub(super) artefact: bool,
}

/// Subtracts the reference, looks for crossings and follows the noise.
pub(super) struct Cross<'a> {
    pub(super) rows: &'a mut [f32],
    pub(super) stride: usize,
    /// The reference of each row.
    pub(super) reference: &'a [f32; ROWS],
    /// The row before the first.
    pub(super) before: &'a mut [f32],
    pub(super) thresholds: &'a mut [f32],
    pub(super) medians: &'a mut [f32],
    /// By how much a median moves a row.
    pub(super) steps: &'a [f32],
    /// Threshold by median, below 0.
    pub(super) factor: f32,
    pub(super) artefact: f32,
    /// Room for as many as there are samples; in order of the channels, then of the rows.
    pub(super) hits: &'a mut Vec<Hit>,
}

impl WithSimd for Cross<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (thresholds, _) = S::as_mut_simd_f32s(self.thresholds);
        let (medians, _) = S::as_mut_simd_f32s(self.medians);
        let (before, _) = S::as_mut_simd_f32s(self.before);
        let (steps, _) = S::as_simd_f32s(self.steps);
        let (rows, _) = S::as_mut_simd_f32s(self.rows);
        let (factor, most) = (simd.splat_f32s(self.factor), simd.splat_f32s(self.artefact));
        let width = self.stride / S::F32_LANES;
        for at in 0..thresholds.len() {
            let (mut last, mut threshold) = (before[at], thresholds[at]);
            let (mut median, up) = (medians[at], steps[at]);
            let down = simd.neg_f32s(up);
            for (r, row) in rows.chunks_exact_mut(width).enumerate() {
                let y = simd.sub_f32s(row[at], simd.splat_f32s(self.reference[r]));
                row[at] = y;
                let size = simd.abs_f32s(y);
                let crossing = simd.and_m32s(
                    simd.less_than_f32s(y, threshold),
                    simd.greater_than_or_equal_f32s(last, threshold),
                );
                let artefact = simd.greater_than_f32s(size, most);
                last = y;
                if any(&simd.or_m32s(crossing, artefact)) {
                    let words = |mask| {
                        let (one, none) = (simd.splat_u32s(1), simd.splat_u32s(0));
                        simd.select_u32s(mask, one, none)
                    };
                    let (crossing, artefact) = (words(crossing), words(artefact));
                    let crossing: &[u32] = bytemuck::cast_slice(std::slice::from_ref(&crossing));
                    let artefact: &[u32] = bytemuck::cast_slice(std::slice::from_ref(&artefact));
                    for (l, (&crossing, &artefact)) in crossing.iter().zip(artefact).enumerate() {
                        if crossing + artefact > 0 {
                            self.hits.push(Hit {
                                row: r as u32,
                                channel: (at * S::F32_LANES + l) as u32,
                                crossing: crossing > 0,
                                artefact: artefact > 0,
                            });
                        }
                    }
                }
                let above = simd.greater_than_f32s(size, median);
                median = simd.add_f32s(median, simd.select_f32s(above, up, down));
                threshold = simd.mul_f32s(factor, median);
            }
            before[at] = last;
            thresholds[at] = threshold;
            medians[at] = median;
        }
    }
}

/// True if any lane of a mask is set.
#[inline(always)]
fn any<M: bytemuck::NoUninit>(mask: &M) -> bool {
    (bytemuck::bytes_of(mask).iter()).fold(0_u8, |all, byte| all | byte) != 0
}

/// Rows of the widest vectors, one more if that makes them even in number: rows a whole page apart would share a
/// set of the cache.
pub(super) fn stride(channels: usize) -> usize {
    let padded = channels.next_multiple_of(LANES);
    padded
        + if (padded / LANES).is_multiple_of(2) {
            LANES
        } else {
            0
        }
}
