//! Movement in behaviour: the outputs that are positions, and the speed at every step.

use betz_recording::{DatasetView, OutputInfo, Segment};

/// The outputs that are coordinates of a place: those that are no velocities ([`OutputInfo::is_velocity`]).
/// `None` where there are none, or they differ in unit.
pub fn coordinates(outputs: &[OutputInfo]) -> Option<Vec<usize>> {
    let places: Vec<usize> = (0..outputs.len())
        .filter(|&o| !outputs[o].is_velocity())
        .collect();
    let unit = &outputs[*places.first()?].unit;
    (places.iter().all(|&o| outputs[o].unit == *unit)).then_some(places)
}

/// The speed at every step inside segments; 0 elsewhere.
pub fn speed(data: &DatasetView<'_>) -> Vec<f32> {
    let n = data.outputs.len();
    let velocities: Vec<usize> = (0..n).filter(|&o| data.outputs[o].is_velocity()).collect();
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

/// Most outputs among which derivatives are looked for.
const MOST_OUTPUTS: usize = 64;

/// About as many steps are looked at to find derivatives.
const LOOKED_AT: usize = 20_000;

/// Share of an output's variance that the slope of another explains if it is the velocity of it.
const LEAST_R2: f64 = 0.8;

/// And so much more than its own slope explains of the other: in a steady rotation each is the slope of the other.
const LEAST_MARGIN: f64 = 0.1;

/// The outputs of `data` with those of unknown unit that are derivatives of others marked as velocities
/// ([`OutputInfo::into_velocity`]): an output is one if it is regressed with R² of at least 0.8 and a positive slope on
/// the differences of another to the step before and after, and clearly better than the other way round.
pub fn outputs_with_velocities(data: &DatasetView<'_>) -> Vec<OutputInfo> {
    let outputs = data.outputs;
    let unknown: Vec<usize> = (0..outputs.len())
        .filter(|&o| outputs[o].unit.trim().is_empty())
        .collect();
    let places: Vec<usize> = (0..outputs.len())
        .filter(|&o| !outputs[o].is_velocity())
        .collect();
    let mut marked = outputs.to_vec();
    if unknown.is_empty() || places.len() < 2 || places.len() > MOST_OUTPUTS {
        return marked;
    }
    let steps = steps_between_others(data);
    for &v in &unknown {
        let is_velocity = places.iter().any(|&place| {
            let r2 = slope_r2(data, &steps, v, place);
            place != v
                && r2 >= LEAST_R2
                && slope_r2(data, &steps, place, v).abs() < r2 - LEAST_MARGIN
        });
        if is_velocity {
            marked[v] = marked[v].clone().into_velocity();
        }
    }
    marked
}

/// Evenly spaced steps with one before and one after them in their segment.
fn steps_between_others(data: &DatasetView<'_>) -> Vec<usize> {
    let inside = |s: &Segment| (s.start + 1).max(1) as usize..(s.stop - 1).max(0) as usize;
    let all: usize = data.segments.iter().map(|s| inside(s).len()).sum();
    let steps = data.segments.iter().flat_map(inside);
    steps.step_by((all / LOOKED_AT).max(1)).collect()
}

/// R² of output `v` regressed on the differences of output `place` to the step before and to the step after, with the
/// sign of their common slope; 0 where nothing changes.
fn slope_r2(data: &DatasetView<'_>, steps: &[usize], v: usize, place: usize) -> f64 {
    let n = data.outputs.len();
    let at = |step: usize, o: usize| f64::from(data.behavior[step * n + o]);
    let row = |&step: &usize| {
        let here = at(step, place);
        [
            at(step, v),
            here - at(step - 1, place),
            at(step + 1, place) - here,
        ]
    };
    let count = steps.len().max(1) as f64;
    let mut mean = [0.0; 3];
    for values in steps.iter().map(row) {
        mean.iter_mut()
            .zip(values)
            .for_each(|(m, x)| *m += x / count);
    }
    // Of the output, the difference before and the difference after, about their means.
    let mut sums = [[0.0; 3]; 3];
    for mut values in steps.iter().map(row) {
        values.iter_mut().zip(mean).for_each(|(x, m)| *x -= m);
        for (sums, a) in sums.iter_mut().zip(values) {
            sums.iter_mut()
                .zip(values)
                .for_each(|(sum, b)| *sum += a * b);
        }
    }
    let [[vv, vb, va], [_, bb, ba], [_, _, aa]] = sums;
    let determinant = bb * aa - ba * ba;
    let [before, after] = if determinant > 1e-9 * bb * aa {
        [
            (vb * aa - va * ba) / determinant,
            (va * bb - vb * ba) / determinant,
        ]
    } else if bb > 0.0 {
        [vb / bb, 0.0]
    } else {
        return 0.0;
    };
    let explained = before * vb + after * va;
    if vv > 0.0 && explained.is_finite() {
        (explained / vv).copysign(before + after)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::behaving as data;
    use betz_recording::Dataset;

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

    /// Positions on an ellipse whose turns change, and their velocities as `[x, y, vx, vy]`, in steps of 0.1 s.
    fn moving(units: [&str; 4]) -> Dataset {
        // In a steady rotation each of two outputs is the other's slope: here both turn at changing speed.
        let place = |t: f64| {
            let turn = 1.3 * t + 1.2 * (0.6 * t).cos();
            [30.0 * (t + (0.7 * t).sin()).cos(), 20.0 * turn.sin()]
        };
        let rows: Vec<[f32; 4]> = (0..400)
            .map(|step| {
                let [before, here] = [step - 1, step].map(|s| place(0.1 * f64::from(s)));
                let slope = |o: usize| ((here[o] - before[o]) / 0.1) as f32;
                [here[0] as f32, here[1] as f32, slope(0), slope(1)]
            })
            .collect();
        let rows: Vec<&[f32]> = rows.iter().map(|row| &row[..]).collect();
        let names = ["x", "y", "vx", "vy"];
        let outputs: Vec<(&str, &str)> = names.into_iter().zip(units).collect();
        data(0.1, &outputs, &rows)
    }

    #[test]
    fn velocities_of_unknown_unit_are_found_by_regression() {
        let named = moving(["mm", "mm", "mm/s", "mm/sec"]);
        assert_eq!(outputs_with_velocities(&named.view()), named.outputs);
        let mut unnamed = moving([""; 4]);
        assert_ne!(speed(&unnamed.view()), speed(&named.view()));
        let marked = outputs_with_velocities(&unnamed.view());
        let units: Vec<&str> = marked.iter().map(|o| o.unit.as_str()).collect();
        assert_eq!(units, ["", "", "/s", "/s"]);
        unnamed.outputs = marked;
        assert_eq!(coordinates(&unnamed.outputs), Some(vec![0, 1]));
        // Both are speeds in one unit; `mm/s` and `mm/sec` count as two.
        let same = moving(["mm", "mm", "mm/s", "mm/s"]);
        assert_eq!(speed(&unnamed.view()), speed(&same.view()));
    }

    #[test]
    fn a_steady_rotation_has_no_velocities() {
        let circle: Vec<[f32; 2]> = (0..300)
            .map(|step| (0.1 * step as f32).sin_cos())
            .map(|(y, x)| [x, y])
            .collect();
        let rows: Vec<&[f32]> = circle.iter().map(|row| &row[..]).collect();
        let data = data(0.1, &[("x", ""), ("y", "")], &rows);
        assert_eq!(outputs_with_velocities(&data.view()), data.outputs);
    }
}
