//! Errors of estimated places, and selection of the steps with movement.

use super::check_estimates;
use crate::gram::paired_steps;
use crate::movement::{coordinates, speed};
use betz_base::error::{Error, Result};
use betz_recording::DatasetView;

/// Distances between true and estimated places.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceError {
    /// Half of the steps are off by less.
    pub median: f64,
    /// Unit of the outputs, and so of the distance; empty when unknown.
    pub unit: String,
    /// Names of the outputs that are coordinates of the place.
    pub outputs: Vec<String>,
    /// Steps that count.
    pub steps: u64,
}

/// The median distance of `estimates` (steps, outputs; row t estimates step t − `delay_steps`) from the place
/// that the outputs are coordinates of ([`coordinates`]).
/// `None` where there are none of these, they differ in unit, or no step has an estimate.
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for estimates of another shape.
pub fn place_error<'d>(
    data: impl Into<DatasetView<'d>>,
    estimates: &[f32],
    delay_steps: i64,
) -> Result<Option<PlaceError>> {
    let data = &data.into();
    check_estimates(data, estimates)?;
    let n = data.outputs.len();
    let Some(places) = coordinates(data.outputs) else {
        return Ok(None);
    };
    let unit = data.outputs[places[0]].unit.clone();
    let paired = data
        .segments
        .iter()
        .filter_map(|s| paired_steps(s, delay_steps));
    let mut distances: Vec<f64> = paired
        .flat_map(|(first, stop)| first..stop)
        .map(|step| {
            let truth = (step - delay_steps) as usize * n;
            let off = |&o: &usize| {
                let estimate = f64::from(estimates[step as usize * n + o]);
                (estimate - f64::from(data.behavior[truth + o])).powi(2)
            };
            places.iter().map(off).sum::<f64>().sqrt()
        })
        .filter(|distance| distance.is_finite())
        .collect();
    if distances.is_empty() {
        return Ok(None);
    }
    let middle = distances.len() / 2;
    let (_, median, _) = distances.select_nth_unstable_by(middle, f64::total_cmp);
    Ok(Some(PlaceError {
        median: *median,
        unit,
        outputs: places
            .iter()
            .map(|&o| data.outputs[o].name.clone())
            .collect(),
        steps: distances.len() as u64,
    }))
}

/// `estimates` (steps, outputs) with NaN, which scores leave out, where the speed at the step they estimate is
/// below `least`, in the outputs' unit per second. Speed is the norm of the velocities; without such, of the central differences of all outputs inside the segment.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a speed that is negative or not
/// finite; [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for estimates of another shape.
pub fn while_moving<'d>(
    data: impl Into<DatasetView<'d>>,
    mut estimates: Vec<f32>,
    delay_steps: i64,
    least: f64,
) -> Result<Vec<f32>> {
    let data = &data.into();
    check_estimates(data, &estimates)?;
    if !(least.is_finite() && least >= 0.0) {
        return Err(Error::argument(format!(
            "least speed: expected a finite number of at least 0, got {least}"
        )));
    }
    let speed = speed(data);
    let n = data.outputs.len();
    for (step, row) in estimates.chunks_exact_mut(n.max(1)).enumerate() {
        let truth = usize::try_from(step as i64 - delay_steps).ok();
        let moves = truth
            .and_then(|t| speed.get(t))
            .is_some_and(|s| f64::from(*s) >= least);
        if !moves {
            row.fill(f32::NAN);
        }
    }
    Ok(estimates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_recording::{Dataset, OutputInfo, Segment, Spikes};

    fn data(units: [&str; 3]) -> Dataset {
        Dataset {
            step_seconds: 0.5,
            steps: 6,
            channel_names: vec!["a".into()],
            spikes: Spikes::default(),
            segments: vec![Segment { start: 0, stop: 5 }],
            outputs: (0..3)
                .map(|o| OutputInfo {
                    name: format!("o{o}"),
                    unit: units[o].into(),
                })
                .collect(),
            behavior: (0..18)
                .map(|i| if i % 3 == 2 { (i / 3) as f32 } else { 0.0 })
                .collect(),
        }
    }

    #[test]
    fn the_median_is_that_of_distances_in_places() {
        let data = data(["px", "px", "px/s"]);
        let mut estimates = vec![100.0; 18];
        for (step, off) in [0.0, 5.0, 1.0, 10.0, 2.0].into_iter().enumerate() {
            estimates[step * 3..][..2].copy_from_slice(&[0.6 * off, -0.8 * off]);
        }
        let found = place_error(&data, &estimates, 0).unwrap().unwrap();
        assert!((found.median - 2.0).abs() < 1e-6);
        assert_eq!((found.unit.as_str(), found.steps), ("px", 5));
        assert_eq!(found.outputs, ["o0", "o1"]);
        // Of a delay of one step, the first has no partner.
        assert_eq!(place_error(&data, &estimates, 1).unwrap().unwrap().steps, 4);
        assert!(place_error(&data, &estimates[1..], 0).is_err());
        assert_eq!(place_error(&data, &[f32::NAN; 18], 0).unwrap(), None);
    }

    #[test]
    fn outputs_that_are_no_place_have_no_distance() {
        let estimates = vec![0.0; 18];
        for units in [["m/s", "px/s", "deg/s"], ["px", "deg", "px/s"]] {
            assert_eq!(place_error(&data(units), &estimates, 0).unwrap(), None);
        }
    }

    #[test]
    fn only_steps_that_move_keep_their_estimates() {
        // The speed is the step's number.
        let data = data(["px", "px", "px/s"]);
        let kept = while_moving(&data, vec![1.0; 18], 0, 3.0).unwrap();
        let steps: Vec<bool> = kept.chunks_exact(3).map(|row| !row[0].is_nan()).collect();
        assert_eq!(steps, [false, false, false, true, true, false]);
        let later = while_moving(&data, vec![1.0; 18], 1, 3.0).unwrap();
        assert!(later[4 * 3].is_finite() && later[3 * 3].is_nan());
        assert!(while_moving(&data, vec![1.0; 18], 0, f64::NAN).is_err());
        assert!(while_moving(&data, vec![1.0; 18], 0, -1.0).is_err());
    }
}
