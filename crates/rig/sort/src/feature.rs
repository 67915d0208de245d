//! From the voltage around a crossing to a few numbers in units of the noise.
//!
//! Each channel's voltage is projected on three waveforms (the principal components of spikes), faded with the
//! distance of the channel from where the spike seems to be, and all of them projected on the principal components
//! of the group's spikes. A spike between samples is not moved: the waveforms are, by a table.

use betz_base::{Error, Result};
use pulp::{Arch, Simd, WithSimd};

use crate::front::{Crossing, FrontEnd, LANES};
use crate::settings::{MARGIN, Window};

/// Waveforms that a channel is projected on.
pub(crate) const WAVES: usize = 3;
/// Most numbers of a spike: one register of them.
pub(crate) const MOST_DIMS: usize = 16;
/// Distance by which a channel's share falls to 1/e.
pub(crate) const FADE_UM: f32 = 60.0;
/// Channels further than this from the crossing have no share.
pub(crate) const REACH_UM: f32 = 150.0;
/// Steps between two samples at which a spike may lie.
const SHIFTS: usize = 16;
/// Least length of a wave by noise that says where a spike is: what noise alone has is less.
const TOLD_FROM: f32 = 9.0;

/// Three waveforms of unit length, and the same between samples.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Waves {
    window: usize,
    /// (WAVES, window).
    waves: Vec<f32>,
    /// (SHIFTS + 1, window + 2 MARGIN, WAVES).
    shifted: Vec<f32>,
}

impl Waves {
    pub(crate) fn new(window: Window, waves: Vec<f32>) -> Result<Self> {
        if waves.len() != WAVES * window.len() || waves.iter().any(|w| !w.is_finite()) {
            return Err(Error::mismatch(format!(
                "waveforms: expected {WAVES} of {} finite samples, got {} numbers",
                window.len(),
                waves.len()
            )));
        }
        let taps = window.len() + 2 * MARGIN;
        let mut shifted = vec![0.0; (SHIFTS + 1) * taps * WAVES];
        for (s, table) in shifted.chunks_exact_mut(taps * WAVES).enumerate() {
            let shift = s as f64 / SHIFTS as f64 - 0.5;
            // Between a sample and the next, by a cubic through four of them (Catmull and Rom 1974).
            let (base, t) = if shift < 0.0 {
                (-1_isize, 1.0 + shift)
            } else {
                (0, shift)
            };
            let (t2, t3) = (t * t, t * t * t);
            let cubic = [
                -0.5 * t3 + t2 - 0.5 * t,
                1.5 * t3 - 2.5 * t2 + 1.0,
                -1.5 * t3 + 2.0 * t2 + 0.5 * t,
                0.5 * t3 - 0.5 * t2,
            ];
            for (w, wave) in waves.chunks_exact(window.len()).enumerate() {
                for (i, &wave) in wave.iter().enumerate() {
                    for (c, factor) in cubic.iter().enumerate() {
                        let tap = (MARGIN + i + c) as isize + base - 1;
                        table[tap as usize * WAVES + w] += (f64::from(wave) * factor) as f32;
                    }
                }
            }
        }
        Ok(Self {
            window: window.len(),
            waves,
            shifted,
        })
    }

    pub(crate) fn waves(&self) -> &[f32] {
        &self.waves
    }

    fn table(&self, shift: f32) -> &[f32] {
        let taps = self.window + 2 * MARGIN;
        let step = ((shift + 0.5) * SHIFTS as f32)
            .round()
            .clamp(0.0, SHIFTS as f32);
        &self.shifted[step as usize * taps * WAVES..][..taps * WAVES]
    }
}

/// Channels whose spikes are told apart together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axes {
    /// First and last plus one of the channels that features are made of, by their place in the layout.
    pub(crate) from: usize,
    pub(crate) until: usize,
    pub(crate) dims: usize,
    /// (WAVES, until − from): the mean of what is projected.
    pub(crate) mean: Vec<f32>,
    /// For each of these: a weight of each dimension, [`MOST_DIMS`] with padding.
    pub(crate) axes: Vec<f32>,
}

impl Axes {
    /// Numbers before the projection on axes.
    pub(crate) fn inputs(&self) -> usize {
        WAVES * (self.until - self.from)
    }

    /// Difference of faded projections of numbers that differ by `by`, as far as the axes have it.
    pub(crate) fn back(&self, by: &[f32]) -> Vec<f32> {
        let rows = self.axes.chunks_exact(MOST_DIMS);
        rows.map(|row| row.iter().zip(by).map(|(a, b)| a * b).sum())
            .collect()
    }

    /// The numbers of a spike from its faded projections; those beyond the dimensions are zero.
    pub(crate) fn weigh(&self, arch: Arch, faded: &[f32]) -> [f32; MOST_DIMS] {
        arch.dispatch(Weigh {
            values: faded,
            means: &self.mean,
            rows: &self.axes,
        })
    }
}

/// Makes features; memory is taken when it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Features {
    arch: Arch,
    window: Window,
    per_noise: Vec<f32>,
    places: Vec<[f32; 2]>,
    /// (WAVES, channels with padding to whole lanes on both ends of any range).
    projected: Vec<f32>,
    padded: usize,
    faded: Vec<f32>,
}

impl Features {
    pub(crate) fn new(front: &FrontEnd, window: Window) -> Self {
        let layout = front.layout();
        let padded = layout.channels().next_multiple_of(LANES);
        let mut per_noise: Vec<f32> = layout.noise.iter().map(|s| 1.0 / s).collect();
        per_noise.resize(padded, 0.0);
        Self {
            arch: Arch::new(),
            window,
            per_noise,
            places: layout.places.clone(),
            projected: vec![0.0; WAVES * padded],
            padded,
            faded: vec![0.0; WAVES * padded],
        }
    }

    /// The faded projections of channels `from..until`, (WAVES, channels), before the mean is taken off.
    pub(crate) fn faded(
        &mut self,
        front: &FrontEnd,
        waves: &Waves,
        crossing: &Crossing,
        from: usize,
        until: usize,
    ) -> &[f32] {
        let begin = from / LANES * LANES;
        let end = until.next_multiple_of(LANES);
        self.projected.fill(0.0);
        let first = crossing.sample - (self.window.before + MARGIN) as i64;
        let table = waves.table(crossing.shift);
        self.arch.dispatch(Project {
            front,
            first,
            table,
            begin,
            end,
            padded: self.padded,
            sums: &mut self.projected,
        });
        for wave in self.projected.chunks_exact_mut(self.padded) {
            for (value, per) in wave[from..until]
                .iter_mut()
                .zip(&self.per_noise[from..until])
            {
                *value *= per;
            }
        }
        let wave = |w: usize, c: usize| self.projected[w * self.padded + c];
        // Where the spike seems to be: the mean place of the channels around the crossing, by their energy. The
        // crossing's own channel would jump between two that see a spike alike, and its features with it.
        let (mut mass, mut x, mut y) = (0.0_f32, 0.0_f32, 0.0_f32);
        let [px, py] = self.places[crossing.channel];
        for c in from..until {
            let [cx, cy] = self.places[c];
            let squared = (cx - px).powi(2) + (cy - py).powi(2);
            if squared > REACH_UM * REACH_UM {
                continue;
            }
            let energy: f32 = (0..WAVES).map(|w| wave(w, c).powi(2)).sum();
            let floor = if c == crossing.channel {
                0.0
            } else {
                TOLD_FROM
            };
            let near = (-squared / (2.0 * FADE_UM * FADE_UM)).exp();
            let share = (energy - floor).max(0.0) * near;
            mass += share;
            x += share * cx;
            y += share * cy;
        }
        let (x, y) = if mass > 0.0 {
            (x / mass, y / mass)
        } else {
            (px, py)
        };
        let channels = until - from;
        for c in from..until {
            let [cx, cy] = self.places[c];
            let far = (cx - px).hypot(cy - py) > REACH_UM;
            let squared = (cx - x).powi(2) + (cy - y).powi(2);
            let share = if far {
                0.0
            } else {
                (-squared / (FADE_UM * FADE_UM)).exp()
            };
            for w in 0..WAVES {
                self.faded[w * channels + c - from] = self.projected[w * self.padded + c] * share;
            }
        }
        &self.faded[..WAVES * channels]
    }
}

/// Rows of voltage times a table of waves.
struct Project<'a> {
    front: &'a FrontEnd,
    first: i64,
    table: &'a [f32],
    begin: usize,
    end: usize,
    padded: usize,
    sums: &'a mut [f32],
}

impl WithSimd for Project<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (table, _) = self.table.as_chunks::<WAVES>();
        // By registers: lanes of 16 are one, two or four of them.
        let (begin, end) = (self.begin / S::F32_LANES, self.end / S::F32_LANES);
        for at in begin..end {
            let mut sums = [simd.splat_f32s(0.0); WAVES];
            for (tap, waves) in table.iter().enumerate() {
                let (row, _) = S::as_simd_f32s(self.front.row(self.first + tap as i64));
                let Some(&row) = row.get(at) else { continue };
                for (sum, &wave) in sums.iter_mut().zip(waves) {
                    *sum = simd.mul_add_f32s(row, simd.splat_f32s(wave), *sum);
                }
            }
            for (to, &sum) in self.sums.chunks_exact_mut(self.padded).zip(&sums) {
                let (to, _) = S::as_mut_simd_f32s(to);
                if let Some(to) = to.get_mut(at) {
                    *to = sum;
                }
            }
        }
    }
}

/// Sums of rows of [`MOST_DIMS`] weights, a value each.
struct Weigh<'a> {
    values: &'a [f32],
    means: &'a [f32],
    rows: &'a [f32],
}

impl WithSimd for Weigh<'_> {
    type Output = [f32; MOST_DIMS];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f32; MOST_DIMS] {
        let mut numbers = [0.0; MOST_DIMS];
        let (sums, _) = S::as_mut_simd_f32s(&mut numbers);
        for ((value, mean), row) in (self.values.iter())
            .zip(self.means)
            .zip(self.rows.chunks_exact(MOST_DIMS))
        {
            let value = simd.splat_f32s(value - mean);
            let (row, _) = S::as_simd_f32s(row);
            for (sum, &weights) in sums.iter_mut().zip(row) {
                *sum = simd.mul_add_f32s(weights, value, *sum);
            }
        }
        numbers
    }
}
