//! Movement in behaviour: the outputs that are positions, and the speed at every step.

use betz_recording::{DatasetView, OutputInfo, Segment};

/// The outputs that are coordinates of a place: those that are no velocities (their unit does not end in
/// `/s`). `None` where there are none, or they differ in unit.
pub fn coordinates(outputs: &[OutputInfo]) -> Option<Vec<usize>> {
    let is_place = |o: &usize| !outputs[*o].unit.trim_end().ends_with("/s");
    let places: Vec<usize> = (0..outputs.len()).filter(is_place).collect();
    let unit = &outputs[*places.first()?].unit;
    (places.iter().all(|&o| outputs[o].unit == *unit)).then_some(places)
}

/// The speed at every step inside segments; 0 elsewhere.
pub fn speed(data: &DatasetView<'_>) -> Vec<f32> {
    let n = data.outputs.len();
    let is_velocity = |o: &usize| data.outputs[*o].unit.trim_end().ends_with("/s");
    let velocities: Vec<usize> = (0..n).filter(is_velocity).collect();
    let mut speed = vec![0.0; data.steps];
    if !velocities.is_empty() {
        let scales = scales(data, &velocities);
        for segment in data.segments {
            let steps = segment.start as usize..segment.stop as usize;
            for (step, speed) in steps.clone().zip(&mut speed[steps]) {
                let squares = velocities
                    .iter()
                    .zip(&scales)
                    .map(|(&o, scale)| (f64::from(data.behavior[step * n + o]) * scale).powi(2));
                *speed = squares.sum::<f64>().sqrt() as f32;
            }
        }
        return speed;
    }
    let all: Vec<usize> = (0..n).collect();
    let scales = scales(data, &all);
    for Segment { start, stop } in data.segments {
        let (first, last) = (*start as usize, *stop as usize - 1);
        for (step, speed) in (first..=last).zip(&mut speed[first..=last]) {
            let (before, after) = (step.saturating_sub(1).max(first), (step + 1).min(last));
            let seconds = (after - before).max(1) as f64 * data.step_seconds;
            let squares = all.iter().zip(&scales).map(|(&o, scale)| {
                let value = |step: usize| f64::from(data.behavior[step * n + o]);
                ((value(after) - value(before)) / seconds * scale).powi(2)
            });
            *speed = squares.sum::<f64>().sqrt() as f32;
        }
    }
    speed
}

/// Factor of each of `outputs` before they are added: 1 if their units are the same,
/// else one over the standard deviation inside segments.
fn scales(data: &DatasetView<'_>, outputs: &[usize]) -> Vec<f64> {
    let n = data.outputs.len();
    let units = outputs.iter().map(|&o| &data.outputs[o].unit);
    if units.clone().all(|unit| Some(unit) == units.clone().next()) {
        return vec![1.0; outputs.len()];
    }
    let scale = |&o: &usize| {
        let inside = |s: &Segment| s.start as usize..s.stop as usize;
        let values = data.segments.iter().flat_map(inside);
        let values = values.map(|step| f64::from(data.behavior[step * n + o]));
        let (count, sum) = (values.clone()).fold((0.0, 0.0), |(c, s), v| (c + 1.0, s + v));
        let mean = sum / f64::max(count, 1.0);
        let deviation =
            (values.map(|v| (v - mean).powi(2)).sum::<f64>() / f64::max(count, 1.0)).sqrt();
        if deviation > 0.0 {
            1.0 / deviation
        } else {
            0.0
        }
    };
    outputs.iter().map(scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::behaving as data;

    #[test]
    fn speed_is_that_of_velocities_where_there_are_some() {
        let rows: [&[f32]; 3] = [&[0.0, 9.0, 9.0], &[5.0, 3.0, 4.0], &[6.0, 0.0, -2.0]];
        let with = data(0.1, &[("x", "mm"), ("vx", "mm/s"), ("vy", "mm/s")], &rows);
        assert_eq!(speed(&with.view()), [0.0, 5.0, 2.0]);
        // Positions: one step each way inside the segment, here one way at both ends.
        let without = data(0.1, &[("x", "mm"), ("y", "mm"), ("z", "mm")], &rows);
        let expected = (1.0_f64 + 9.0 + 36.0).sqrt() / 0.1;
        for value in &speed(&without.view())[1..] {
            assert!((f64::from(*value) - expected).abs() < 1e-3, "{value}");
        }
        // Of different units: a value of one unit of standard deviation counts the same.
        let mixed = data(
            0.1,
            &[("x", "mm"), ("angle", "deg")],
            &[&[0.0; 2], &[0.0, 0.0], &[2.0, 90.0]],
        );
        let expected = (8.0_f64).sqrt() / 0.1;
        assert!((f64::from(speed(&mixed.view())[1]) - expected).abs() < 1e-3);
    }
}
