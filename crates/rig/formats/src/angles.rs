//! Angles among the outputs of behaviour.
//!
//! An angle that passes from 2π to 0 has no values in between: it must not be interpolated or averaged. Its cosine and sine
//! can be.

use std::f64::consts::TAU;

use betz_base::{Error, Result};
use betz_recording::{Behavior, OutputInfo};

/// Part of a turn by which a step may differ from a whole one and still be a wrap.
const NEAR_TURN: f64 = 0.2;

/// Replaces the outputs called `angles` by their cosines and sines, and warns of others that wrap.
///
/// # Errors
/// `InvalidArgument` for a name that no output has.
pub(crate) fn settle(
    behavior: &mut Option<Behavior>,
    angles: &[String],
    notes: &mut Vec<String>,
) -> Result<()> {
    let Some(behavior) = behavior else {
        return match angles.first() {
            None => Ok(()),
            Some(name) => Err(Error::argument(format!(
                "angle '{name}': expected behaviour, got none"
            ))),
        };
    };
    for name in angles {
        let there = || {
            let names: Vec<&str> = behavior.outputs.iter().map(|o| o.name.as_str()).collect();
            names.join(", ")
        };
        let at = behavior.outputs.iter().position(|o| o.name == *name);
        let at = at.ok_or_else(|| {
            Error::argument(format!(
                "angle: expected one of [{}], got '{name}'",
                there()
            ))
        })?;
        let turn = turn(&behavior.outputs[at].unit).unwrap_or(TAU);
        notes.push(format!(
            "{name}: taken as an angle of {turn:.6} per turn: decoded as {name}_cos and {name}_sin"
        ));
        split(behavior, at, turn);
    }
    let wrapping: Vec<String> = (0..behavior.outputs.len())
        .filter_map(|at| {
            let output = &behavior.outputs[at];
            let steps = wraps(behavior, at, turn(&output.unit)?);
            (steps > 0).then(|| format!("{} ({} times)", output.name, steps))
        })
        .collect();
    if !wrapping.is_empty() {
        notes.push(format!(
            "warning: angles that wrap: {}; between such samples interpolation and decoders are wrong: --angle NAME takes cosine and sine",
            wrapping.join(", ")
        ));
    }
    Ok(())
}

/// A whole turn in `unit`; `None` for a unit that is none of angles.
fn turn(unit: &str) -> Option<f64> {
    match unit.trim().to_lowercase().as_str() {
        "rad" | "radian" | "radians" => Some(TAU),
        "deg" | "degree" | "degrees" | "°" => Some(360.0),
        _ => None,
    }
}

/// Number of steps of an output that are about a whole turn.
fn wraps(behavior: &Behavior, at: usize, turn: f64) -> usize {
    let values: Vec<f64> = column(behavior, at).collect();
    let steps = values.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    steps
        .filter(|step| (step / turn - 1.0).abs() < NEAR_TURN)
        .count()
}

fn column(behavior: &Behavior, at: usize) -> impl Iterator<Item = f64> + '_ {
    let width = behavior.outputs.len();
    let values = behavior.values.iter().skip(at).step_by(width);
    values.map(|v| f64::from(*v))
}

/// Replaces an output by its cosine and its sine.
fn split(behavior: &mut Behavior, at: usize, turn: f64) {
    let width = behavior.outputs.len();
    let angles: Vec<f64> = column(behavior, at).map(|v| v / turn * TAU).collect();
    let mut values = Vec::with_capacity(behavior.values.len() + angles.len());
    for (row, angle) in behavior.values.chunks_exact(width).zip(&angles) {
        values.extend_from_slice(&row[..at]);
        values.extend([angle.cos() as f32, angle.sin() as f32]);
        values.extend_from_slice(&row[at + 1..]);
    }
    behavior.values = values;
    let name = behavior.outputs[at].name.clone();
    let part = |what: &str| OutputInfo {
        name: format!("{name}_{what}"),
        unit: String::new(),
    };
    behavior.outputs.splice(at..=at, [part("cos"), part("sin")]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wheel(unit: &str, turn: f64) -> Option<Behavior> {
        let output = |name: &str, unit: &str| OutputInfo {
            name: name.into(),
            unit: unit.into(),
        };
        let angle = |i: i32| (f64::from(i) * 0.01 % 1.0 * turn) as f32;
        Some(Behavior {
            outputs: vec![output("x", "m"), output("wheel", unit)],
            values: (0..300).flat_map(|i| [i as f32, angle(i)]).collect(),
            times: None,
        })
    }

    #[test]
    fn angles_that_wrap_are_named_and_become_cosine_and_sine() {
        for (unit, turn) in [("rad", TAU), ("degrees", 360.0)] {
            let mut notes = Vec::new();
            let mut plain = wheel(unit, turn);
            settle(&mut plain, &[], &mut notes).unwrap();
            assert_eq!(plain, wheel(unit, turn));
            assert!(notes[0].contains("wheel (2 times)"), "{notes:?}");
            notes.clear();
            let mut split = wheel(unit, turn);
            settle(&mut split, &["wheel".to_owned()], &mut notes).unwrap();
            let split = split.unwrap();
            let names: Vec<&str> = split.outputs.iter().map(|o| o.name.as_str()).collect();
            assert_eq!(names, ["x", "wheel_cos", "wheel_sin"]);
            for (i, row) in split.values.chunks_exact(3).enumerate() {
                let angle = i as f64 * 0.01 * TAU;
                let expected = [i as f64, angle.cos(), angle.sin()];
                for (got, expected) in row.iter().zip(expected) {
                    assert!((f64::from(*got) - expected).abs() < 1e-4, "{i}: {row:?}");
                }
            }
            assert!(
                notes.len() == 1 && !notes[0].contains("warning"),
                "{notes:?}"
            );
        }
        // A velocity is no angle.
        let mut notes = Vec::new();
        settle(&mut wheel("rad/s", TAU), &[], &mut notes).unwrap();
        assert!(notes.is_empty());
        let error = settle(&mut wheel("rad", TAU), &["nix".to_owned()], &mut notes).unwrap_err();
        assert!(error.message().contains("[x, wheel], got 'nix'"), "{error}");
    }
}
