//! Spikes per step over all channels: their sums, their histogram, and the most that a usual step holds.

use std::collections::BTreeMap;

use rayon::prelude::*;

use betz_recording::DatasetView;

/// Steps or spikes that a thread goes through at a time.
pub(crate) const AT_ONCE: usize = 1 << 14;

/// Fewest steps that say what is usual.
const LEAST_STEPS: u64 = 200;

/// Steps further from the median than this many deviations are left out when the usual range is found.
const DEVIATIONS: f64 = 6.0;

/// Unless they are more than this share of all: what is frequent is no artefact.
const RARE: f64 = 0.1;

/// Quantile of the counts that are left, which the limit lies beyond.
const WITHIN: f64 = 0.999;

/// A channel whose mean is at least so many standard deviations holds samples, not counts: of spikes at random, that is more
/// than 36 per step.
const SAMPLES: f64 = 6.0;

/// True if entries are values of a signal, not numbers of spikes: some are negative or fractional, or most channels hold
/// whole numbers far from 0, as converters give them.
pub(crate) fn is_signal(data: &DatasetView<'_>) -> bool {
    let weights = data.spikes.weights;
    weights.iter().any(|w| *w < 0.0 || w.fract() != 0.0) || holds_samples(data)
}

/// True if most channels hold values at most steps, far from 0.
fn holds_samples(data: &DatasetView<'_>) -> bool {
    let steps = data.steps_in_segments() as f64;
    let channels = data.channels();
    // Counts are small: few recordings are looked at twice.
    if data.spikes.weights.is_empty() || data.spikes_in_segments() < steps * channels as f64 {
        return false;
    }
    let mut sums = vec![(0.0, 0.0); channels];
    for segment in data.segments {
        for i in data.spikes.range(segment.start, segment.stop) {
            if let Some((sum, squares)) = sums.get_mut(data.spikes.channels[i] as usize) {
                let value = f64::from(data.spikes.weight(i));
                *sum += value;
                *squares += value * value;
            }
        }
    }
    let is_far = |(sum, squares): &&(f64, f64)| {
        let mean = sum / steps;
        mean * mean > SAMPLES * SAMPLES * (squares / steps - mean * mean)
    };
    let far = sums.iter().filter(is_far).count();
    let varying = sums.iter().filter(|(sum, _)| *sum > 0.0).count();
    far > 0 && 2 * far > varying
}

/// Spikes inside segments in the ticks that count, one number per channel.
pub(crate) fn counts(data: &DatasetView<'_>, ticks: impl Fn(i64) -> bool + Sync) -> Vec<u64> {
    let spikes = &data.spikes;
    let none = || vec![0; data.channels()];
    let add = |mut counts: Vec<u64>, i: usize| {
        if ticks(spikes.ticks[i]) {
            counts[spikes.channels[i] as usize] += spikes.weight(i) as u64;
        }
        counts
    };
    let together = |mut counts: Vec<u64>, part: Vec<u64>| {
        counts
            .iter_mut()
            .zip(part)
            .for_each(|(all, part)| *all += part);
        counts
    };
    (data.segments.iter())
        .map(|segment| {
            let range = spikes.range(segment.start, segment.stop);
            let parts = range.into_par_iter().with_min_len(AT_ONCE);
            parts.fold(none, add).reduce(none, together)
        })
        .fold(none(), together)
}

/// Spikes at every step, of the channels that take part.
pub(crate) fn totals(data: &DatasetView<'_>, takes_part: &[bool]) -> Vec<u64> {
    let mut totals = vec![0; data.steps];
    let parts = totals.par_chunks_mut(AT_ONCE).enumerate();
    parts.for_each(|(part, totals)| add_totals(data, takes_part, (part * AT_ONCE) as i64, totals));
    totals
}

/// Adds to `totals` the spikes at the steps from `first` on.
fn add_totals(data: &DatasetView<'_>, takes_part: &[bool], first: i64, totals: &mut [u64]) {
    let spikes = &data.spikes;
    let range = spikes.range(first, first + totals.len() as i64);
    let mut add = |i: usize, count: u64| {
        if let Some(total) = totals.get_mut((spikes.ticks[i] - first) as usize) {
            *total += count;
        }
    };
    if takes_part.iter().all(|&takes_part| takes_part) && !spikes.is_weighted() {
        return range.for_each(|i| add(i, 1));
    }
    for i in range {
        let channel = spikes.channels[i] as usize;
        if takes_part.get(channel).copied().unwrap_or(false) {
            add(i, spikes.weight(i) as u64);
        }
    }
}

/// Histogram: number of steps inside segments per number of spikes of the channels that take part.
pub(crate) fn histogram(data: &DatasetView<'_>, takes_part: &[bool]) -> BTreeMap<u64, u64> {
    let pieces: Vec<(i64, usize)> = (data.segments.iter())
        .flat_map(|s| {
            let starts = (s.start..s.stop).step_by(AT_ONCE);
            starts.map(|first| (first, (s.stop - first).min(AT_ONCE as i64) as usize))
        })
        .collect();
    let count = |mut histogram: Histogram, &(first, steps): &(i64, usize)| {
        histogram.totals.clear();
        histogram.totals.resize(steps, 0);
        add_totals(data, takes_part, first, &mut histogram.totals);
        for &total in &histogram.totals {
            match usize::try_from(total)
                .ok()
                .and_then(|t| histogram.few.get_mut(t))
            {
                Some(steps) => *steps += 1,
                None => *histogram.many.entry(total).or_insert(0) += 1,
            }
        }
        histogram
    };
    let parts = pieces
        .par_iter()
        .fold(Histogram::default, count)
        .map(Histogram::into_map);
    parts.reduce(BTreeMap::new, |mut all, part| {
        for (total, steps) in part {
            *all.entry(total).or_insert(0) += steps;
        }
        all
    })
}

/// Room to count steps by their spikes in: most hold few, and those are counted in a list.
struct Histogram {
    totals: Vec<u64>,
    few: Vec<u64>,
    many: BTreeMap<u64, u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            totals: Vec::new(),
            few: vec![0; 1024],
            many: BTreeMap::new(),
        }
    }
}

impl Histogram {
    fn into_map(self) -> BTreeMap<u64, u64> {
        let few = (0..).zip(self.few).filter(|(_, steps)| *steps > 0);
        few.chain(self.many).collect()
    }
}

/// True if a step holds more than `most`.
pub(crate) fn has_more(histogram: &BTreeMap<u64, u64>, most: u64) -> bool {
    histogram
        .last_key_value()
        .is_some_and(|(total, _)| *total > most)
}

/// The most spikes of a usual step; `None` where there are too few steps to tell, or no spikes.
pub(crate) fn limit_of(histogram: &BTreeMap<u64, u64>) -> Option<u64> {
    let steps: u64 = histogram.values().sum();
    if steps < LEAST_STEPS {
        return None;
    }
    let median = at_rank(histogram, steps / 2);
    let mut away = BTreeMap::new();
    for (count, steps) in histogram {
        *away.entry(count.abs_diff(median)).or_insert(0) += steps;
    }
    // Of a normal distribution, the standard deviation; no less than that of counts.
    let deviation = (1.4826 * at_rank(&away, steps / 2) as f64)
        .max((median as f64).sqrt())
        .max(1.0);
    let bound = median as f64 + DEVIATIONS * deviation;
    let within = histogram
        .iter()
        .take_while(|(count, _)| **count as f64 <= bound);
    let mut usual: u64 = within.map(|(_, steps)| steps).sum();
    if (steps - usual) as f64 > RARE * steps as f64 {
        usual = steps;
    }
    let rank = ((usual.max(1) - 1) as f64 * WITHIN).round() as u64;
    let q = at_rank(histogram, rank) as f64;
    if q == 0.0 {
        return None;
    }
    Some((q + (q / 4.0).max(2.0 * q.sqrt())).ceil() as u64)
}

/// The value at place `rank`, counted from 0, of those in the histogram in ascending order.
fn at_rank(histogram: &BTreeMap<u64, u64>, rank: u64) -> u64 {
    let mut before = 0;
    for (value, times) in histogram {
        before += times;
        if before > rank {
            return *value;
        }
    }
    histogram.last_key_value().map_or(0, |(value, _)| *value)
}
