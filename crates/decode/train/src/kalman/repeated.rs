//! Outputs that follow from others: a filter cannot tell them apart.

use super::{Dynamics, TINY, output_scales};
use betz_base::error::{Error, Result};
use betz_recording::OutputInfo;

/// Weight, of standardised outputs, from which on an output is named among those that another follows from.
const NAMED: f64 = 1e-3;

/// Refuses an output that is a sum of multiples of those before it, and names them.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument).
pub(super) fn refuse(labels: &Dynamics, outputs: &[OutputInfo]) -> Result<()> {
    let (m, steps) = (labels.outputs, labels.steps);
    let scale = output_scales(labels);
    let correlation = |i: usize, j: usize| {
        let about_mean = labels.squares[i * m + j] - labels.sum[i] * labels.sum[j] / steps;
        about_mean * scale[i] * scale[j] / steps
    };
    // Each output less what those before it tell, as weights of the outputs themselves, and the variance that is left.
    let mut rest: Vec<(Vec<f64>, f64)> = Vec::new();
    for at in (0..m).filter(|i| scale[*i] > 0.0) {
        let mut weights = vec![0.0; m];
        weights[at] = 1.0;
        for (other, variance) in &rest {
            let shared: f64 = (0..m).map(|i| other[i] * correlation(i, at)).sum();
            for (weight, of_other) in weights.iter_mut().zip(other) {
                *weight -= shared / variance * of_other;
            }
        }
        let left: f64 = (0..m).map(|i| weights[i] * correlation(i, at)).sum();
        if left > TINY {
            rest.push((weights, left));
            continue;
        }
        let named = (0..at).filter(|i| weights[*i].abs() > NAMED);
        let named: Vec<&str> = named.map(|i| outputs[i].name.as_str()).collect();
        return Err(Error::argument(format!(
            "kalman: expected outputs that do not follow from each other, got {}, which follows from {}; leave one of them out",
            outputs[at].name,
            named.join(", ")
        )));
    }
    Ok(())
}
