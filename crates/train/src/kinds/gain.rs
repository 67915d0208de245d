//! Scores of held-out estimates, and their gain on the linear decoder's.

use rayon::prelude::*;

use crate::folds::Part;
use crate::options::TrainOptions;
use crate::validate::BankChoice;
use betz_base::error::Result;
use betz_gram::gram::paired_steps;
use betz_gram::score::{mean_r2, place_error, score_estimates};
use betz_recording::{DatasetView, Segment};

use super::{Kind, KindScore};

/// Score of a kind. `estimates`, (steps, outputs), cover all held-out steps.
///
/// # Errors
/// Returns the errors of the scores.
pub(super) fn score(
    (data, options, found): (&DatasetView<'_>, &TrainOptions, &BankChoice),
    kind: Kind,
    configuration: String,
    estimates: &[f32],
    multiply_adds: f64,
) -> Result<KindScore> {
    let held = held_segments(found);
    let held = data.with_segments(&held);
    let scores = score_estimates(held, estimates, options.delay_steps)?.outputs;
    let (gain, gain_error) = gain(data, options, found, estimates);
    Ok(KindScore {
        kind,
        configuration,
        r2: mean_r2(&scores),
        scores,
        gain,
        gain_error,
        unseen: None,
        median_error: median_error(data, options, found, estimates)?,
        multiply_adds,
    })
}

/// Median distance of `estimates` from the place, where outputs are its coordinates.
///
/// # Errors
/// Returns the errors of [`place_error`].
pub(super) fn median_error(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    found: &BankChoice,
    estimates: &[f32],
) -> Result<Option<f64>> {
    let held = held_segments(found);
    let held = data.with_segments(&held);
    let place = place_error(held, estimates, options.delay_steps)?;
    Ok(place.map(|place| place.median))
}

fn held_segments(found: &BankChoice) -> Vec<Segment> {
    let parts = found.split.folds.iter().flatten();
    let mut held: Vec<Segment> = parts.map(|p| p.segment).collect();
    held.sort_unstable_by_key(|s| s.start);
    held
}

/// Mean over folds, and its standard error, of what `estimates` gain in R² on the linear decoder's: a fold's
/// gain is that of all its squared errors over its share of Σ(x − x̄)².
fn gain(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    found: &BankChoice,
    estimates: &[f32],
) -> (f64, f64) {
    let n = data.outputs.len();
    let folds = found.split.folds.par_iter();
    let folds: Vec<Squares> = folds
        .map(|parts| squares(data, options, parts, [estimates, &found.estimates]))
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
