//! Training samples of networks: counts of every step, and their labels.

use std::ops::Range;

use betz_gram::gram::paired_steps;
use betz_recording::{DatasetView, Segment};

/// Added to a channel's standard deviation, in counts per step: a channel that hardly fires is not blown up.
const LEAST_DEVIATION: f64 = 0.05;

/// Largest input of a channel, in its standard deviations, unless its mean is near it.
pub(super) const LARGEST_INPUT: f64 = 5.0;

/// A channel's largest input lies at least so many standard deviations above its mean.
const ABOVE_MEAN: f64 = 3.0;

/// Counts of each step, those of one channel added up, and the labels that belong to the steps.
pub(super) struct Samples<'a> {
    pub(super) data: DatasetView<'a>,
    /// The entries of step t are `first[t]..first[t + 1]`.
    pub(super) first: Vec<usize>,
    pub(super) channels: Vec<u32>,
    pub(super) counts: Vec<f32>,
    /// The step of behaviour that step t estimates, if both lie in one segment.
    label_step: Vec<Option<u32>>,
    /// True if all counts are whole and not negative: thinning then keeps or drops each spike.
    pub(super) are_counts: bool,
}

impl<'a> Samples<'a> {
    pub(super) fn new(data: DatasetView<'a>, delay_steps: i64) -> Self {
        let spikes = data.spikes;
        let mut first = vec![0; data.steps + 1];
        let mut row = vec![0.0; data.channels()];
        let (mut channels, mut counts) = (Vec::new(), Vec::new());
        let mut fired = Vec::new();
        let mut next = 0;
        for step in 0..data.steps {
            while next < spikes.ticks.len() && spikes.ticks[next] == step as i64 {
                let channel = spikes.channels[next];
                if row[channel as usize] == 0.0 {
                    fired.push(channel);
                }
                row[channel as usize] += spikes.weight(next);
                next += 1;
            }
            fired.sort_unstable();
            fired.dedup();
            for channel in fired.drain(..) {
                let count = std::mem::take(&mut row[channel as usize]);
                channels.push(channel);
                counts.push(count);
            }
            first[step + 1] = channels.len();
        }
        let mut label_step = vec![None; data.steps];
        for segment in data.segments {
            if let Some((from, until)) = paired_steps(segment, delay_steps) {
                for step in from..until {
                    label_step[step as usize] = u32::try_from(step - delay_steps).ok();
                }
            }
        }
        let are_counts = counts.iter().all(|&c| c >= 0.0 && c.fract() == 0.0);
        Self {
            data,
            first,
            channels,
            counts,
            label_step,
            are_counts,
        }
    }

    /// Channels with a count at `step`, and their counts.
    #[inline]
    pub(super) fn counts(&self, step: usize) -> impl Iterator<Item = (usize, f32)> {
        let range = self.first[step]..self.first[step + 1];
        let channels = self.channels[range.clone()].iter();
        channels
            .zip(&self.counts[range])
            .map(|(&channel, &count)| (channel as usize, count))
    }

    /// The labels that `step` estimates, one per output; `None` for a step without.
    #[inline]
    pub(super) fn labels(&self, step: usize) -> Option<&'a [f32]> {
        let outputs = self.data.outputs.len();
        let row = &self.data.behavior[self.label_step[step]? as usize * outputs..][..outputs];
        row.iter().all(|label| label.is_finite()).then_some(row)
    }

    /// Appends the standardised labels of `step` to `to`; NaN for a step without.
    pub(super) fn extend_targets(&self, step: usize, scaling: &Scaling, to: &mut Vec<f32>) {
        let scales = scaling.label_means.iter().zip(&scaling.label_deviations);
        match self.labels(step) {
            None => to.extend(scales.map(|_| f32::NAN)),
            Some(row) => {
                to.extend(row.iter().zip(scales).map(|(&label, (mean, deviation))| {
                    ((f64::from(label) - mean) / deviation) as f32
                }))
            }
        }
    }

    /// How `runs` scale: what training takes off and divides by.
    pub(super) fn scaling(&self, runs: &[Range<usize>]) -> Scaling {
        let mut inputs = vec![Moments::default(); self.data.channels()];
        let mut labels = vec![Moments::default(); self.data.outputs.len()];
        let (mut steps, mut labelled) = (0.0, 0.0);
        for step in runs.iter().cloned().flatten() {
            steps += 1.0;
            for (channel, count) in self.counts(step) {
                inputs[channel].add(count);
            }
            if let Some(row) = self.labels(step) {
                labelled += 1.0;
                labels
                    .iter_mut()
                    .zip(row)
                    .for_each(|(m, &label)| m.add(label));
            }
        }
        let (mut factors, mut caps) = (Vec::new(), Vec::new());
        for channel in &inputs {
            let deviation = channel.deviation(steps);
            let unit = deviation + LEAST_DEVIATION;
            let cap = (LARGEST_INPUT * unit).max(channel.sum / steps + ABOVE_MEAN * unit);
            let changes = deviation > 0.0;
            factors.push(if changes { (1.0 / unit) as f32 } else { 0.0 });
            caps.push(if changes { cap as f32 } else { f32::INFINITY });
        }
        // An output that does not change keeps its units: it is learned as its mean.
        let label_deviations = labels.iter().map(|m| match m.deviation(labelled) {
            0.0 => 1.0,
            deviation => deviation,
        });
        Scaling {
            factors,
            caps,
            label_deviations: label_deviations.collect(),
            label_means: labels
                .iter()
                .map(|m| m.sum / f64::max(labelled, 1.0))
                .collect(),
        }
    }
}

/// Factors that scale the counts and standardise the labels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scaling {
    /// s_c, one per channel; 0 for one that never changes.
    pub(super) factors: Vec<f32>,
    /// Largest count of each channel that is told from larger ones; infinity for one that never changes.
    pub(super) caps: Vec<f32>,
    pub(super) label_means: Vec<f64>,
    pub(super) label_deviations: Vec<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f32) {
        let value = f64::from(value);
        self.sum += value;
        self.squares += value * value;
    }

    /// Standard deviation over `steps`, of which those not added are 0; 0 where it is rounding alone.
    fn deviation(&self, steps: f64) -> f64 {
        let about_mean = self.squares - self.sum * self.sum / f64::max(steps, 1.0);
        if about_mean > 1e-12 * self.squares {
            (about_mean / steps).sqrt()
        } else {
            0.0
        }
    }
}

impl Scaling {
    /// The input of `channel` for `count`.
    #[inline]
    pub(super) fn input(&self, channel: usize, count: f32) -> f32 {
        count.min(self.caps[channel]) * self.factors[channel]
    }
}

/// Steps of `segments`, ascending, neighbours joined.
pub(super) fn runs(segments: impl IntoIterator<Item = Segment>) -> Vec<Range<usize>> {
    let mut segments: Vec<Segment> = segments.into_iter().collect();
    segments.sort_unstable_by_key(|segment| segment.start);
    let ranges = segments.iter().map(|s| s.start as usize..s.stop as usize);
    ranges.filter(|run| !run.is_empty()).collect()
}
