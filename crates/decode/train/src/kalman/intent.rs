//! Intended movement of the subject (ReFIT: Gilja et al. 2012): at every step, to move towards the end point of
//! the trial at the actual speed; at the end, to hold.

use betz_base::error::{Error, ErrorKind, Result};
use betz_gram::movement::coordinates;
use betz_recording::DatasetView;

/// Steps at a trial's end that say where its target is.
const END: usize = 2;

/// Within this share of the longest distance from the target that a trial sees, it holds.
const HOLDS: f64 = 0.1;

/// The behaviour of `data` with velocities turned towards where each trial ends, their speed kept, and 0 where the
/// trial holds there. Places stay as they were.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] where outputs are not as many velocities as coordinates;
/// [`ErrorKind::InsufficientData`] for fewer than two trials.
pub(crate) fn intended(data: &DatasetView<'_>) -> Result<Vec<f32>> {
    let n = data.outputs.len();
    let places = coordinates(data.outputs).unwrap_or_default();
    let velocities: Vec<usize> = (0..n).filter(|o| !places.contains(o)).collect();
    if places.is_empty() || places.len() != velocities.len() {
        let named = data
            .outputs
            .iter()
            .map(|o| format!("{} ({})", o.name, o.unit));
        return Err(Error::argument(format!(
            "refit: expected outputs that are a place's coordinates and as many velocities (in …/s, or named as velocities), in the same order, got {}",
            named.collect::<Vec<_>>().join(", ")
        )));
    }
    if data.segments.len() < 2 {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "refit: expected trials, whose ends say what was intended, got {} segment",
                data.segments.len()
            ),
        ));
    }
    let mut behavior = data.behavior.to_vec();
    for segment in data.segments {
        let steps = segment.start as usize..segment.stop as usize;
        let last = steps.len().min(END);
        let target: Vec<f64> = (places.iter())
            .map(|&o| {
                let ends =
                    (steps.end - last..steps.end).map(|t| f64::from(data.behavior[t * n + o]));
                ends.sum::<f64>() / last as f64
            })
            .collect();
        let towards = |step: usize| -> Vec<f64> {
            let here = places.iter().zip(&target);
            here.map(|(&o, target)| target - f64::from(data.behavior[step * n + o]))
                .collect()
        };
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
        let longest = steps.clone().map(|t| norm(&towards(t))).fold(0.0, f64::max);
        for step in steps {
            let towards = towards(step);
            let distance = norm(&towards);
            let row = &mut behavior[step * n..][..n];
            let velocity: Vec<f64> = velocities.iter().map(|&o| f64::from(row[o])).collect();
            let factor = if distance > HOLDS * longest {
                norm(&velocity) / distance
            } else {
                0.0
            };
            for (&o, towards) in velocities.iter().zip(&towards) {
                row[o] = (factor * towards) as f32;
            }
        }
    }
    Ok(behavior)
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_recording::OutputInfo;

    #[test]
    fn velocities_turn_to_where_the_trial_ends() {
        let mut data = betz_gram::cases::dataset(1, &[(0, 6), (8, 12)], vec![], 4);
        let output = |name: &str, unit: &str| OutputInfo {
            name: name.into(),
            unit: unit.into(),
        };
        data.outputs = vec![
            output("x", "mm"),
            output("y", "mm"),
            output("vx", "mm/s"),
            output("vy", "mm/s"),
        ];
        data.behavior.fill(0.0);
        // The first trial ends at (3, 4), having come from 0 by the way of (3, 0), and overshoots by little.
        let path = [
            [0.0, 0.0, 5.0, 0.0],
            [3.0, 0.0, 0.0, 2.0],
            [3.0, 4.2, 0.0, 1.0],
            [3.0, 4.0, 0.0, 0.0],
            [3.0, 4.0, -1.0, 0.0],
            [3.0, 4.0, 0.0, 0.0],
        ];
        for (row, x) in data.behavior.chunks_exact_mut(4).zip(&path) {
            row.copy_from_slice(x);
        }
        let got = intended(&data.view()).unwrap();
        let velocity = |t: usize| [got[t * 4 + 2], got[t * 4 + 3]];
        assert_eq!(velocity(0), [3.0, 4.0]);
        assert_eq!(velocity(1), [0.0, 2.0]);
        // Within a tenth of 5 mm it holds.
        for t in 2..6 {
            assert_eq!(velocity(t), [0.0, 0.0]);
        }
        for (row, was) in got.chunks_exact(4).zip(data.behavior.chunks_exact(4)) {
            assert_eq!(row[..2], was[..2]);
        }
        data.segments.truncate(1);
        let error = intended(&data.view()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InsufficientData);
        data.outputs[3].unit = "mm".into();
        let error = intended(&data.view()).unwrap_err();
        assert!(
            error
                .message()
                .contains("x (mm), y (mm), vx (mm/s), vy (mm)"),
            "{error}"
        );
    }
}
