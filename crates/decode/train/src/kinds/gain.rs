//! Scores of held-out estimates, and their gain on the linear decoder's.

use rayon::prelude::*;

use crate::folds::Part;
use crate::options::TrainOptions;
use crate::validate::BankChoice;
use betz_base::error::Result;
use betz_gram::gram::paired_steps;
use betz_gram::score::{mean_r2, place_error, score_estimates};
use betz_recording::{DatasetView, Segment};

use super::{Kind, KindScore, WindowScore};

/// Windows of the held-out steps in which R² over time is given.
const WINDOWS: usize = 16;

/// Held-out parts that kinds are scored on, and the linear kind's estimates of them.
#[derive(Clone, Copy)]
pub(super) struct Reference<'a> {
    pub(super) data: &'a DatasetView<'a>,
    pub(super) options: &'a TrainOptions,
    /// The parts that each fold holds out.
    pub(super) folds: &'a [Vec<Part>],
    /// Estimates of the linear kind, (steps, outputs).
    pub(super) linear: &'a [f32],
}

impl<'a> Reference<'a> {
    /// The folds by which the linear kind was chosen, and its estimates of them.
    pub(super) fn of(
        (data, options, found): (&'a DatasetView<'a>, &'a TrainOptions, &'a BankChoice),
    ) -> Self {
        Self {
            data,
            options,
            folds: &found.split.folds,
            linear: &found.estimates,
        }
    }
}

/// Score of a kind. `estimates`, (steps, outputs), cover all held-out steps.
///
/// # Errors
/// Returns the errors of the scores.
pub(super) fn score(
    reference: &Reference<'_>,
    kind: Kind,
    configuration: String,
    estimates: &[f32],
    multiply_adds: f64,
) -> Result<KindScore> {
    let Reference { data, options, .. } = reference;
    let held = held_segments(reference);
    let held = data.with_segments(&held);
    let scores = score_estimates(held, estimates, options.delay_steps)?.outputs;
    let (gain, gain_error) = gain(reference, estimates);
    Ok(KindScore {
        kind,
        configuration,
        r2: mean_r2(&scores),
        scores,
        gain,
        gain_error,
        over_time: over_time(reference, estimates),
        weight: None,
        median_error: median_error(reference, estimates)?,
        multiply_adds,
    })
}

/// Median distance of `estimates` from the place, where outputs are its coordinates.
///
/// # Errors
/// Returns the errors of [`place_error`].
pub(super) fn median_error(reference: &Reference<'_>, estimates: &[f32]) -> Result<Option<f64>> {
    let held = held_segments(reference);
    let held = reference.data.with_segments(&held);
    let place = place_error(held, estimates, reference.options.delay_steps)?;
    Ok(place.map(|place| place.median))
}

fn held_segments(reference: &Reference<'_>) -> Vec<Segment> {
    let parts = reference.folds.iter().flatten();
    let mut held: Vec<Segment> = parts.map(|p| p.segment).collect();
    held.sort_unstable_by_key(|s| s.start);
    held
}

/// Mean over folds, and its standard error, of what `estimates` gain in R² on the linear decoder's: a fold's
/// gain is that of all its squared errors over its share of Σ(x − x̄)².
fn gain(reference: &Reference<'_>, estimates: &[f32]) -> (f64, f64) {
    let Reference { data, options, .. } = reference;
    let n = data.outputs.len();
    let folds = reference.folds.par_iter();
    let folds: Vec<Squares> = folds
        .map(|parts| squares(data, options, parts, [estimates, reference.linear]))
        .collect();
    let steps: f64 = folds.iter().map(|f| f.steps).sum();
    let about_mean: Vec<f64> = (0..n)
        .map(|o| {
            let sum: f64 = folds.iter().map(|f| f.sum[o]).sum();
            folds.iter().map(|f| f.squares[o]).sum::<f64>() - sum * sum / steps
        })
        .collect();
    let gains: Vec<f64> = (folds.iter().filter(|f| f.steps > 0.0))
        .map(|fold| {
            let share = fold.steps / steps;
            let changing = (0..n).filter(|&o| about_mean[o] > 0.0);
            let of_outputs: Vec<f64> = changing
                .map(|o| (fold.linear[o] - fold.ours[o]) / (about_mean[o] * share))
                .collect();
            of_outputs.iter().sum::<f64>() / of_outputs.len() as f64
        })
        .collect();
    let count = gains.len() as f64;
    let mean = gains.iter().sum::<f64>() / count;
    let squares: f64 = gains.iter().map(|g| (g - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

/// Mean R² of `estimates` in windows of equally many held-out steps, in order of time; the last may be shorter.
pub(super) fn over_time(reference: &Reference<'_>, estimates: &[f32]) -> Vec<WindowScore> {
    let Reference { data, options, .. } = reference;
    let n = data.outputs.len();
    let steps: Vec<i64> = held_segments(reference)
        .iter()
        .filter_map(|segment| paired_steps(segment, options.delay_steps))
        .flat_map(|(first, stop)| first..stop)
        .collect();
    let truth = |step: i64, o: usize| {
        f64::from(data.behavior[(step - options.delay_steps) as usize * n + o])
    };
    let about_mean: Vec<f64> = (0..n)
        .map(|o| {
            let mean = steps.iter().map(|&t| truth(t, o)).sum::<f64>() / steps.len() as f64;
            steps.iter().map(|&t| (truth(t, o) - mean).powi(2)).sum()
        })
        .collect();
    let window = |steps_of: &[i64]| {
        let share = steps_of.len() as f64 / steps.len() as f64;
        let changing: Vec<usize> = (0..n).filter(|&o| about_mean[o] > 0.0).collect();
        let r2 = |&o: &usize| {
            let error = |&t: &i64| (truth(t, o) - f64::from(estimates[t as usize * n + o])).powi(2);
            1.0 - steps_of.iter().map(error).sum::<f64>() / (about_mean[o] * share)
        };
        WindowScore {
            first_step: steps_of[0],
            stop_step: steps_of[steps_of.len() - 1] + 1,
            r2: changing.iter().map(r2).sum::<f64>() / changing.len() as f64,
        }
    };
    let length = steps.len().div_ceil(WINDOWS).max(1);
    steps.chunks(length).map(window).collect()
}

/// Sums over one fold's paired steps, one per output.
struct Squares {
    steps: f64,
    sum: Vec<f64>,
    squares: Vec<f64>,
    /// Σ(x − x̂)².
    ours: Vec<f64>,
    linear: Vec<f64>,
}

fn squares(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    parts: &[Part],
    [ours, linear]: [&[f32]; 2],
) -> Squares {
    let n = data.outputs.len();
    let mut sums = Squares {
        steps: 0.0,
        sum: vec![0.0; n],
        squares: vec![0.0; n],
        ours: vec![0.0; n],
        linear: vec![0.0; n],
    };
    let paired = parts
        .iter()
        .filter_map(|p| paired_steps(&p.segment, options.delay_steps));
    for step in paired.flat_map(|(first, stop)| first..stop) {
        sums.steps += 1.0;
        let truth = (step - options.delay_steps) as usize * n;
        let row = step as usize * n;
        for o in 0..n {
            let x = f64::from(data.behavior[truth + o]);
            let off = |estimates: &[f32]| (x - f64::from(estimates[row + o])).powi(2);
            sums.sum[o] += x;
            sums.squares[o] += x * x;
            sums.ours[o] += off(ours);
            sums.linear[o] += off(linear);
        }
    }
    sums
}
