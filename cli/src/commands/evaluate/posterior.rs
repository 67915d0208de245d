//! Scores of a place decoder's posterior: its most likely place, and its calibration.

use betz::Result;
use betz::model::{Decoder, Head};
use betz::recording::Dataset;
use betz::train::place::beliefs;
use betz::train::score::{place_error, while_moving};
use serde::Serialize;

use crate::report;

#[derive(Serialize)]
pub(crate) struct Posterior {
    unit: String,
    /// Median distance from the likeliest cell.
    likeliest_median_error: f64,
    /// Median of the posterior's spread about its mean.
    median_spread: f64,
    /// Of the spread with the distance from the mean.
    spread_error_correlation: f64,
    /// Median distance from the mean in the half of the steps that is spread least, and in the other.
    surer_half_median_error: f64,
    other_half_median_error: f64,
}

/// `None` for a model of another kind, or where nothing can be scored. `moving`: only steps at that speed.
pub(crate) fn of(
    model: &Decoder,
    dataset: &Dataset,
    moving: Option<f64>,
) -> Result<Option<Posterior>> {
    if !matches!(model.head(), Head::Place(_)) {
        return Ok(None);
    }
    let mut beliefs = beliefs(model, dataset)?;
    let delay = model.delay_steps();
    if let Some(least) = moving {
        beliefs.mean = while_moving(dataset, beliefs.mean, delay, least)?;
        beliefs.likeliest = while_moving(dataset, beliefs.likeliest, delay, least)?;
    }
    let Some(likeliest) = place_error(dataset, &beliefs.likeliest, delay)? else {
        return Ok(None);
    };
    let n = dataset.outputs.len();
    let axes: Vec<usize> = (0..n)
        .filter(|&o| likeliest.outputs.contains(&dataset.outputs[o].name))
        .collect();
    // (spread, distance) of every step that has both.
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for segment in &dataset.segments {
        for step in segment.start..segment.stop {
            let truth = step.saturating_sub(delay);
            if !(segment.start..segment.stop).contains(&truth) {
                continue;
            }
            let square = |&o: &usize| {
                let mean = f64::from(beliefs.mean[step as usize * n + o]);
                (mean - f64::from(dataset.behavior[truth as usize * n + o])).powi(2)
            };
            let distance = axes.iter().map(square).sum::<f64>().sqrt();
            if distance.is_finite() {
                pairs.push((f64::from(beliefs.spread[step as usize]), distance));
            }
        }
    }
    if pairs.len() < 2 {
        return Ok(None);
    }
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (surer, other) = pairs.split_at(pairs.len() / 2);
    Ok(Some(Posterior {
        unit: likeliest.unit,
        likeliest_median_error: likeliest.median,
        median_spread: other[0].0,
        spread_error_correlation: correlation(&pairs),
        surer_half_median_error: median(surer),
        other_half_median_error: median(other),
    }))
}

impl Posterior {
    pub(crate) fn print(&self) -> Result<()> {
        let Self { unit, .. } = self;
        report::line(&format!(
            "likeliest cell: median distance {:.4} {unit}",
            self.likeliest_median_error
        ))?;
        report::line(&format!(
            "posterior: median spread {:.4} {unit}, correlation with the distance {:.4}; median distance of the surer half {:.4} {unit}, of the other {:.4} {unit}",
            self.median_spread,
            self.spread_error_correlation,
            self.surer_half_median_error,
            self.other_half_median_error
        ))
    }
}

/// Median of the pairs' second values.
fn median(pairs: &[(f64, f64)]) -> f64 {
    let mut values: Vec<f64> = pairs.iter().map(|p| p.1).collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
    let both = sum(&|p| (p.0 - x) * (p.1 - y));
    both / (sum(&|p| (p.0 - x).powi(2)) * sum(&|p| (p.1 - y).powi(2))).sqrt()
}
