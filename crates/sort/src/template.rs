//! What a unit's spike looks like on all channels that see it: found again in the voltage, and taken away from it, so that
//! what lies under it is seen.

use betz_base::Result;
use pulp::{Arch, Simd, WithSimd};

use crate::front::{Crossing, FrontEnd, LANES, MARGIN, Window};
use crate::sorter::Sorter;

/// Samples by which a spike may lie beside its crossing.
const LAGS: i64 = MARGIN as i64;
/// Part of the best explanation that the map's own has to reach to be kept.
const AS_GOOD: f32 = 0.9;

/// A unit's mean spike.
#[derive(Debug, Clone)]
struct Template {
    /// Channels by whole lanes: `from..until` of a row.
    from: usize,
    until: usize,
    /// (window, channels), in microvolts; zero on channels that the unit's group does not see.
    mean: Vec<f32>,
    /// The mean by the variance of the noise.
    weighed: Vec<f32>,
    /// Σ mean · weighed.
    energy: f32,
    /// Sample of its last spike.
    last: i64,
}

/// What a crossing is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Found {
    /// A unit's spike: its place, the first row of its window, and its share of the unit's mean.
    Spike { unit: u32, first: i64, share: f32 },
    /// Of no unit.
    Unknown,
    /// What was left of the unit's spike before.
    Rest,
}

/// What a crossing was taken for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// The unit that the map has it of.
    #[cfg_attr(not(feature = "train"), allow(dead_code))]
    pub(crate) mapped: Option<u32>,
    /// What came of it.
    #[cfg_attr(not(feature = "train"), allow(dead_code))]
    pub(crate) found: Found,
}

/// Of all units, which may explain a group's crossings.
#[derive(Debug, Clone)]
pub(crate) struct Templates {
    arch: Arch,
    window: Window,
    exclusive: i64,
    /// 1 by the noise's variance, of each channel with padding.
    per_variance: Vec<f32>,
    templates: Vec<Template>,
    /// Units that each group's crossings may be of.
    of_group: Vec<Vec<u32>>,
}

impl Templates {
    pub(crate) fn new(sorter: &Sorter, front: &FrontEnd) -> Result<Self> {
        let layout = &sorter.layout;
        let window = Window::of(&sorter.settings);
        let n = layout.channels();
        let padded = n.next_multiple_of(LANES);
        let mut per_variance: Vec<f32> = layout.noise.iter().map(|s| 1.0 / (s * s)).collect();
        per_variance.resize(padded, 0.0);
        let mut of_group = vec![Vec::new(); sorter.groups.len()];
        let mut templates = Vec::with_capacity(sorter.units.len());
        for (u, unit) in sorter.units.iter().enumerate() {
            let axes = &sorter.groups[unit.group as usize].axes;
            let (from, until) = (
                axes.from / LANES * LANES,
                axes.until.next_multiple_of(LANES),
            );
            let width = until - from;
            let own = axes.until - axes.from;
            let mut mean = betz_base::memory::filled("templates", 0.0, window.len() * width)?;
            for (row, own) in
                (mean.chunks_exact_mut(width)).zip(unit.template.chunks_exact(own.max(1)))
            {
                row[axes.from - from..][..own.len()].copy_from_slice(own);
            }
            let mut template = Template {
                from,
                until,
                weighed: mean.clone(),
                mean,
                energy: 0.0,
                last: i64::MIN / 2,
            };
            template.weigh(&per_variance);
            templates.push(template);
            of_group[unit.group as usize].push(u as u32);
            for beyond in &unit.beyond {
                of_group[beyond.group as usize].push(u as u32);
            }
        }
        Ok(Self {
            arch: Arch::new(),
            window,
            exclusive: front.exclusive(),
            per_variance,
            templates,
            of_group,
        })
    }

    /// Which unit of its group a crossing is of: that by whose spike the energy of what was measured falls most, Σ (2 y − m) m/σ²
    /// over lags of a few samples, if it falls at all. `mapped`, what the map says with the spike's share of its unit's mean, is
    /// kept where it explains it nearly as well.
    pub(crate) fn find(
        &self,
        front: &FrontEnd,
        group: u32,
        crossing: &Crossing,
        mapped: Option<(u32, f32)>,
    ) -> Found {
        let first = crossing.sample - self.window.before as i64;
        let (mut best, mut own) = ((0.0, 0, 0_u32), (0.0, 0, 0_u32));
        for &unit in &self.of_group[group as usize] {
            let template = &self.templates[unit as usize];
            for lag in -LAGS..=LAGS {
                let product = self.arch.dispatch(Product {
                    front,
                    first: first + lag,
                    template,
                });
                let gain = 2.0 * product - template.energy;
                if gain > best.0 {
                    best = (gain, lag, unit);
                }
                if mapped.is_some_and(|(mapped, _)| mapped == unit) && gain > own.0 {
                    own = (gain, lag, unit);
                }
            }
        }
        if best.0 <= 0.0 {
            return Found::Unknown;
        }
        let (_, lag, unit) = if own.0 >= AS_GOOD * best.0 { own } else { best };
        if (crossing.sample + lag - self.templates[unit as usize].last).abs() <= self.exclusive {
            return Found::Rest;
        }
        let share = mapped.map_or(
            0.0,
            |(mapped, share)| if mapped == unit { share } else { 0.0 },
        );
        Found::Spike {
            unit,
            first: first + lag,
            share,
        }
    }

    /// Takes a unit's spike away from what was measured, of which its mean takes its share.
    pub(crate) fn take_away(&mut self, front: &mut FrontEnd, crossing: &Crossing, found: Found) {
        let Found::Spike { unit, first, share } = found else {
            return;
        };
        let template = &mut self.templates[unit as usize];
        template.last = first + self.window.before as i64;
        if share > 0.0 {
            template.follow(front, first, share);
            template.weigh(&self.per_variance);
        }
        let channels = template.from..template.until;
        front.take_away(crossing.sample, first, channels, &template.mean);
    }
}

impl Template {
    fn weigh(&mut self, per_variance: &[f32]) {
        let per = &per_variance[self.from..self.until];
        let rows = self.mean.chunks_exact(per.len());
        self.energy = 0.0;
        for (weighed, mean) in self.weighed.chunks_exact_mut(per.len()).zip(rows) {
            for ((w, m), per) in weighed.iter_mut().zip(mean).zip(per) {
                *w = m * per;
                self.energy += *w * m;
            }
        }
    }

    fn follow(&mut self, front: &FrontEnd, first: i64, share: f32) {
        let width = self.until - self.from;
        for (i, mean) in self.mean.chunks_exact_mut(width).enumerate() {
            let row = &front.row(first + i as i64)[self.from..self.until];
            for (m, y) in mean.iter_mut().zip(row) {
                *m += share * (y - *m);
            }
        }
    }
}

/// Σ y m/σ².
struct Product<'a> {
    front: &'a FrontEnd,
    first: i64,
    template: &'a Template,
}

impl WithSimd for Product<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let of = self.template;
        let width = of.until - of.from;
        let mut sums = [simd.splat_f32s(0.0); 2];
        for (i, weights) in of.weighed.chunks_exact(width).enumerate() {
            let row = &self.front.row(self.first + i as i64)[of.from..of.until];
            let ((row, _), (weights, _)) = (S::as_simd_f32s(row), S::as_simd_f32s(weights));
            for (at, (&y, &w)) in row.iter().zip(weights).enumerate() {
                sums[at & 1] = simd.mul_add_f32s(y, w, sums[at & 1]);
            }
        }
        simd.reduce_sum_f32s(simd.add_f32s(sums[0], sums[1]))
    }
}
