//! Parts of a trial besides its sums: its scored steps, its spikes without artefacts, its labels.

use super::assemble::Trial;
use crate::limits::{Extremes, NO_LABEL, widen};
use betz_gram::gram::paired_steps;
use betz_recording::{Segment, Spikes};
use betz_runtime::model::Blanking;

/// Steps of `trial` that are scored, each with the step whose label it estimates.
pub(super) fn pairs(trial: &Trial, delay_steps: i64) -> impl Iterator<Item = (usize, usize)> {
    let runs = trial.labelled.iter().filter_map(move |run| {
        let (start, stop) = (run.start as i64, run.end as i64);
        paired_steps(&Segment { start, stop }, delay_steps)
    });
    runs.flat_map(move |(first, stop)| {
        (first..stop).map(move |step| (step as usize, (step - delay_steps) as usize))
    })
}

/// `trial`'s spikes with mean counts in the steps that `blanking` takes for artefacts; `None` without such.
pub(super) fn blanked(trial: &Trial, blanking: &Blanking, mask: &[bool]) -> Option<Spikes> {
    let spikes = &trial.data.spikes;
    let mut totals = vec![0.0; trial.data.steps];
    for (i, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        if mask[channel as usize] {
            totals[tick as usize] += f64::from(spikes.weight(i));
        }
    }
    let usual = blanking.least as f64..=blanking.most as f64;
    if totals.iter().all(|total| usual.contains(total)) {
        return None;
    }
    let mut made = Spikes::default();
    for (step, total) in totals.iter().enumerate() {
        if usual.contains(total) {
            for i in spikes.range(step as i64, step as i64 + 1) {
                made.ticks.push(step as i64);
                made.channels.push(spikes.channels[i]);
                made.weights.push(spikes.weight(i));
            }
        } else {
            for (channel, &mean) in (0..).zip(&blanking.mean_counts) {
                made.ticks.push(step as i64);
                made.channels.push(channel);
                made.weights.push(mean as f32);
            }
        }
    }
    Some(made)
}

/// `spikes` without those of channels for which `gone` is true.
pub(super) fn without(spikes: &Spikes, gone: &[bool]) -> Spikes {
    let mut made = Spikes::default();
    for (i, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        if !gone[channel as usize] {
            made.ticks.push(tick);
            made.channels.push(channel);
            if !spikes.weights.is_empty() {
                made.weights.push(spikes.weights[i]);
            }
        }
    }
    made
}

/// Variance of all labels so far.
pub(super) struct Moments {
    pub(super) count: f64,
    pub(super) sum: Vec<f64>,
    pub(super) squares: Vec<f64>,
    /// The least and the greatest of each output.
    pub(super) extremes: Vec<Extremes>,
}

impl Moments {
    pub(super) fn new(outputs: usize) -> Self {
        Self {
            count: 0.0,
            sum: vec![0.0; outputs],
            squares: vec![0.0; outputs],
            extremes: vec![NO_LABEL; outputs],
        }
    }

    pub(super) fn add(&mut self, trial: &Trial) {
        let n = self.sum.len();
        for step in trial.labelled.iter().cloned().flatten() {
            self.count += 1.0;
            let row = &trial.data.behavior[step * n..][..n];
            widen(&mut self.extremes, row.iter().map(|&x| (x, x)));
            for ((sum, square), &x) in self.sum.iter_mut().zip(&mut self.squares).zip(row) {
                *sum += f64::from(x);
                *square += f64::from(x).powi(2);
            }
        }
    }

    pub(super) fn variances(&self) -> impl Iterator<Item = f64> {
        let n = self.count.max(1.0);
        let both = self.sum.iter().zip(&self.squares);
        both.map(move |(sum, square)| (square / n - (sum / n).powi(2)).max(0.0))
    }
}
