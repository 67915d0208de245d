//! Units' mean spikes, from a recording.

use betz_base::{Progress, Result, memory, progress};

use crate::front::{FrontEnd, MAD};
use crate::settings::{Settings, Span, Window};
use crate::sorter::Sorter;
use crate::sorting::Sorting;
use crate::template::{RANK, Template};
use crate::voltage::{Voltage, for_each_block};

/// Seconds that units' mean spikes are made of.
const SECONDS: f64 = 120.0;
/// Channels on which a mean is nowhere larger, in standard deviations of the noise, are left out; a mean of few spikes wanders
/// by itself.
const LEAST: f64 = 0.3;
const WANDERS: f64 = 4.0;
/// Scores that the noise of a template's own is measured by are this many samples apart.
const APART: u64 = 211;
/// Largest difference of two aligned templates of one unit, as a part of the larger's energy.
const SAME: f64 = 0.05;
/// The same where one is late, or early: a unit's spike and its own echo.
const SAME_LATE: f64 = 0.2;
/// Milliseconds from which on it is.
const LATE_MS: f64 = 0.27;
/// Standard deviation of spikes' sizes, by their unit's, from which on they are of no unit: what is usual, and what noise adds.
const UNEVEN: f32 = 0.1;
const UNEVEN_BY_NOISE: f32 = 1.5;
/// Milliseconds by which a template's largest sample may lie beside its minimum.
const BESIDE_MS: f64 = 0.2;

/// Sums of rows around spikes.
struct Sums {
    span: Span,
    ranges: Vec<std::ops::Range<usize>>,
    counts: Vec<u64>,
    sums: Vec<Vec<f64>>,
    /// Spikes whose span is not over.
    open: Vec<(i64, usize)>,
}

impl Sums {
    fn new(sorter: &Sorter) -> Result<Self> {
        let span = Span::from_settings(&sorter.settings);
        let ranges: Vec<_> = (sorter.units.iter())
            .map(|unit| {
                let axes = &sorter.groups[unit.group as usize].axes;
                axes.from..axes.until
            })
            .collect();
        let sums = (ranges.iter())
            .map(|range| memory::filled("templates", 0.0, span.len() * range.len()))
            .collect::<Result<_>>()?;
        Ok(Self {
            span,
            counts: vec![0; ranges.len()],
            ranges,
            sums,
            open: Vec::new(),
        })
    }

    fn open(&mut self, sample: i64, unit: usize) {
        self.counts[unit] += 1;
        self.open.push((sample - self.span.before as i64, unit));
    }

    /// Adds the row of `sample` to the sums of all spikes that it belongs to.
    fn row(&mut self, sample: i64, row: &[f32]) {
        let span = self.span.len() as i64;
        self.open.retain(|(first, _)| sample < first + span);
        for &(first, unit) in self.open.iter().filter(|(first, _)| *first <= sample) {
            let range = &self.ranges[unit];
            let sum = &mut self.sums[unit][(sample - first) as usize * range.len()..];
            for (sum, y) in sum.iter_mut().zip(&row[range.clone()]) {
                *sum += f64::from(*y);
            }
        }
    }

    /// Each unit's mean in standard deviations of the noise; `None` without spikes.
    fn mean(&self, sorter: &Sorter, unit: usize) -> Option<Vec<f64>> {
        let (count, range) = (self.counts[unit], &self.ranges[unit]);
        let noise = sorter.layout.noise[range.clone()].iter().cycle();
        let means = self.sums[unit].iter().zip(noise);
        (count > 0).then(|| {
            means
                .map(|(s, n)| s / count as f64 / f64::from(*n))
                .collect()
        })
    }
}

fn least(count: u64) -> f64 {
    (WANDERS / (count.max(1) as f64).sqrt()).max(LEAST)
}

/// Mean spikes of what the voltage is around `fired`, samples of each unit's spikes.
pub(crate) fn from_voltage(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    sorter: &mut Sorter,
    fired: &[Vec<i64>],
) -> Result<()> {
    let mut sums = Sums::new(sorter)?;
    let mut spikes: Vec<(i64, usize)> = (fired.iter().enumerate())
        .flat_map(|(unit, samples)| samples.iter().map(move |sample| (*sample, unit)))
        .collect();
    spikes.sort_unstable();
    let mut next = 0;
    let mut front = FrontEnd::new(&sorter.settings, &sorter.layout)?;
    let until = until(rows, &sorter.settings);
    for_each_block(voltage, rows.start..until, &mut |block| {
        for row in block.chunks_exact(sorter.layout.row_channels) {
            front.step_unseen(row);
            let now = front.samples() - 1;
            while let Some(&(sample, unit)) = spikes.get(next)
                && sample - sums.span.before as i64 <= now
            {
                sums.open(sample, unit);
                next += 1;
            }
            sums.row(now, front.row(now));
        }
        Ok(true)
    })?;
    for unit in 0..sorter.units.len() {
        sorter.units[unit].spikes = sums.counts[unit];
        if let Some(mean) = sums.mean(sorter, unit) {
            let range = &sums.ranges[unit];
            sorter.units[unit].template =
                Template::of(&mean, sums.span, range.start, least(sums.counts[unit]))?;
        }
    }
    Ok(())
}

/// Spikes of units at their subtraction.
pub(crate) struct UnitSpikes {
    /// Samples of each unit's spikes.
    pub(crate) fired: Vec<Vec<i64>>,
    /// Standard deviation of their sizes, by that of what is usual.
    pub(crate) spread: Vec<f32>,
}

/// Standard deviation of sizes by the median of what they are away from their median.
fn spread(sizes: &mut [f32]) -> f32 {
    let middle = sizes.len() / 2;
    if sizes.is_empty() {
        return 0.0;
    }
    let (_, median, _) = sizes.select_nth_unstable_by(middle, f32::total_cmp);
    let median = *median;
    sizes.iter_mut().for_each(|s| *s = (*s - median).abs());
    let (_, away, _) = sizes.select_nth_unstable_by(middle, f32::total_cmp);
    *away / MAD as f32
}

/// Mean spikes of what is left when all spikes but a unit's own are taken away, as the sorter finds them now; how many each
/// unit has, and how large the noise of its score is.
pub(crate) fn refine(
    voltage: &mut dyn Voltage,
    rows: &std::ops::Range<u64>,
    sorter: &mut Sorter,
    progress: &dyn Progress,
) -> Result<UnitSpikes> {
    let mut sums = Sums::new(sorter)?;
    let units = sorter.units.len();
    let mut scores = vec![Vec::new(); units];
    let mut microvolts = vec![0.0_f64; units];
    let mut sizes = vec![Vec::new(); units];
    let mut fired = vec![Vec::new(); units];
    let mut sorting = Sorting::open(sorter)?;
    let until = until(rows, &sorter.settings);
    let mut at = 0_u64;
    for_each_block(voltage, rows.start..until, &mut |block| {
        progress::check(progress, "taking spikes away")?;
        progress.update("taking spikes away", at, until - rows.start);
        for row in block.chunks_exact(sorter.layout.row_channels) {
            sorting.step(row);
            while let Some((taken, _)) = sorting.matching().take() {
                sums.open(taken.sample, taken.unit as usize);
                microvolts[taken.unit as usize] += f64::from(taken.microvolts);
                sizes[taken.unit as usize].push(taken.size);
                fired[taken.unit as usize].push(taken.sample);
            }
            while sorting.rest().take().is_some() {}
            let told = sorting.matching().told();
            if told >= 0 {
                sums.row(told, sorting.matching().rest(told));
            }
            at += 1;
            if at.is_multiple_of(APART) {
                for (unit, scores) in scores.iter_mut().enumerate() {
                    scores.push(sorting.matching().newest_score(unit).abs());
                }
            }
        }
        Ok(true)
    })?;
    let seconds = (until - rows.start) as f64 / sorter.settings.rate_hz;
    for (unit, scores) in scores.iter_mut().enumerate() {
        let count = sums.counts[unit];
        let own = sorter.units[unit].template.mean();
        let Some(mut mean) = sums.mean(sorter, unit) else {
            sorter.units[unit].spikes = 0;
            continue;
        };
        for (mean, own) in mean.iter_mut().zip(&own) {
            *mean += f64::from(*own);
        }
        let range = &sums.ranges[unit];
        let mut template = Template::of(&mean, sums.span, range.start, least(count))?;
        if !scores.is_empty() {
            let middle = scores.len() / 2;
            let (_, median, _) = scores.select_nth_unstable_by(middle, f32::total_cmp);
            template.floor = *median / MAD as f32;
        }
        let microvolts = microvolts[unit];
        let unit = &mut sorter.units[unit];
        unit.spikes = count;
        unit.rate_hz = count as f64 / seconds;
        unit.microvolts = (microvolts / count as f64) as f32;
        unit.template = template;
    }
    describe(sorter);
    Ok(UnitSpikes {
        fired,
        spread: (sizes.iter_mut().map(|sizes| spread(sizes))).collect(),
    })
}

/// Channel and waveform of each unit by its template.
fn describe(sorter: &mut Sorter) {
    let (span, window) = (
        Span::from_settings(&sorter.settings),
        Window::from_settings(&sorter.settings),
    );
    for unit in &mut sorter.units {
        let template = &unit.template;
        let width = template.until - template.from;
        let mean = template.mean();
        let noise = &sorter.layout.noise[template.from..template.until];
        let lowest = (mean.iter().enumerate()).min_by(|a, b| a.1.total_cmp(b.1));
        let channel = lowest.map_or(0, |(at, _)| at % width);
        unit.channel = sorter.layout.used[template.from + channel];
        let first = span.before - window.before;
        unit.waveform = (first..first + window.len())
            .map(|i| mean[i * width + channel] * noise[channel])
            .collect();
    }
}

pub(crate) fn until(rows: &std::ops::Range<u64>, settings: &Settings) -> u64 {
    rows.end
        .min(rows.start + (SECONDS * settings.rate_hz) as u64)
}

/// Units that are none: with fewer than `spikes`, whose template's largest sample is not its minimum, or whose template another,
/// with more spikes, has as well, now or later.
pub(crate) fn find_false_units(
    sorter: &Sorter,
    spikes: u64,
    found: Option<&UnitSpikes>,
    last: bool,
) -> Vec<bool> {
    let span = Span::from_settings(&sorter.settings);
    let late = sorter.settings.samples(LATE_MS);
    let beside = sorter.settings.samples(BESIDE_MS) as i64;
    let means: Vec<Vec<f32>> = sorter.units.iter().map(|u| u.template.mean()).collect();
    let off = |unit: usize| {
        let width = sorter.units[unit].template.until - sorter.units[unit].template.from;
        let lowest = (means[unit].iter().enumerate()).min_by(|a, b| a.1.total_cmp(b.1));
        (lowest.map_or(0, |(at, _)| (at / width.max(1)) as i64) - span.before as i64).abs()
    };
    let mut order: Vec<usize> = (0..sorter.units.len()).collect();
    order.sort_by_key(|&u| {
        (
            off(u) > beside,
            std::cmp::Reverse(sorter.units[u].spikes),
            u,
        )
    });
    let mut gone = vec![false; order.len()];
    let mut kept: Vec<usize> = Vec::new();
    for &u in &order {
        let unit = &sorter.units[u];
        let few = unit.spikes < spikes;
        let expected = unit.template.floor / unit.template.energy().max(1e-9);
        let wide = found.is_some_and(|f| f.spread[u] > UNEVEN + UNEVEN_BY_NOISE * expected);
        let same = |other: &&usize| {
            let [a, b] = [u, **other].map(|unit| &sorter.units[unit].template);
            let (near, far) = differ(a, b, span.before, late);
            near < SAME || far < SAME_LATE
        };
        gone[u] = few || wide || (last && off(u) > beside) || kept.iter().find(same).is_some();
        if !gone[u] {
            kept.push(u);
        }
    }
    gone
}

/// Σ (a (i) − b (i + lag))² by the larger energy, the least for lags of `lags` either way: of those below `late`, and of the rest.
fn differ(a: &Template, b: &Template, lags: usize, late: usize) -> (f64, f64) {
    let (from, until) = (a.from.max(b.from), a.until.min(b.until));
    let (mut near, mut far) = (f64::INFINITY, f64::INFINITY);
    let (ea, eb) = (f64::from(a.energy()), f64::from(b.energy()));
    // Nothing as unlike in size is alike.
    if from >= until || (ea.sqrt() - eb.sqrt()).powi(2) > SAME_LATE * ea.max(eb) {
        return (near, far);
    }
    let span = a.shapes.len() / RANK;
    let part = |t: &Template, r: usize| {
        let width = t.until - t.from;
        r * width + from - t.from..r * width + until - t.from
    };
    let dots: [[f64; RANK]; RANK] = std::array::from_fn(|r| {
        std::array::from_fn(|q| {
            let both = a.weights[part(a, r)].iter().zip(&b.weights[part(b, q)]);
            both.map(|(a, b)| f64::from(a * b)).sum()
        })
    });
    for lag in 0..=2 * lags {
        let (skip_a, skip_b) = (lags.saturating_sub(lag), lag.saturating_sub(lags));
        let mut product = 0.0;
        for (r, dots) in dots.iter().enumerate() {
            for (q, dot) in dots.iter().enumerate() {
                let (a, b) = (
                    &a.shapes[r * span..][skip_a..span],
                    &b.shapes[q * span..][skip_b..span],
                );
                let common: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum();
                product += dot * common;
            }
        }
        let differ = (ea + eb - 2.0 * product) / ea.max(eb).max(1e-9);
        let least = if lag.abs_diff(lags) < late {
            &mut near
        } else {
            &mut far
        };
        *least = least.min(differ);
    }
    (near, far)
}
