//! Targets of the latents: past, present and future outputs, and speed.
//!
//! Future values are labels, used in training alone: a step of the decoder that comes of it reads the
//! past only. A target that is no linear function of the outputs, speed, is what tells rest from
//! movement; without it half of the gain is lost.

use betz_gram::movement::speed;
use betz_recording::{DatasetView, OutputInfo};

/// Leads of the outputs, in seconds.
const LEADS: [f64; 6] = [-0.4, -0.2, 0.0, 0.2, 0.4, 0.8];

/// Leads of the speed, in seconds.
const SPEED_LEADS: [f64; 3] = [-0.2, 0.0, 0.2];

/// Targets of `data`: the outputs at leads of −0.4 to 0.8 s and the speed
/// at leads of −0.2 to 0.2 s, each lead in whole steps, once.
///
/// A lead k is the value k steps later, inside the segment: beyond its ends the first or the last
/// value stands. Speed is the norm of the outputs that are velocities; without such, of the central differences of all outputs inside the segment, each over its
/// standard deviation where their units differ.
///
/// Allocates targets × steps f32.
pub(crate) fn targets(data: &DatasetView<'_>) -> Targets {
    let leads = in_steps(&LEADS, data.step_seconds);
    let speed_leads = in_steps(&SPEED_LEADS, data.step_seconds);
    let named = |what: &str, lead: i64| OutputInfo {
        name: format!("{what} at {lead} steps"),
        unit: String::new(),
    };
    let outputs = (leads.iter())
        .flat_map(|&lead| data.outputs.iter().map(move |o| named(&o.name, lead)))
        .chain(speed_leads.iter().map(|&lead| named("speed", lead)))
        .collect();
    Targets {
        outputs,
        behavior: values(data, &leads, &speed_leads),
    }
}

/// Leads of classes, in seconds.
const CLASS_LEADS: [f64; 7] = [-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8];

/// Targets of `data`, whose outputs are indicators of classes: each of them at leads of −0.4 to 0.8 s. Of two classes,
/// one says everything.
///
/// Allocates targets × steps f32.
pub(crate) fn class_targets(data: &DatasetView<'_>) -> Targets {
    let leads = in_steps(&CLASS_LEADS, data.step_seconds);
    let classes = data.outputs.len();
    let kept = if classes == 2 { 1 } else { classes };
    let all = values(data, &leads, &[]);
    let rows = all.chunks_exact(classes.max(1));
    let lead_name = |lead: i64, output: &OutputInfo| OutputInfo {
        name: format!("{} at {lead} steps", output.name),
        unit: String::new(),
    };
    Targets {
        outputs: (leads.iter())
            .flat_map(|&lead| data.outputs[..kept].iter().map(move |o| lead_name(lead, o)))
            .collect(),
        behavior: rows.flat_map(|row| &row[..kept]).copied().collect(),
    }
}

/// Targets of a recording.
pub(crate) struct Targets {
    outputs: Vec<OutputInfo>,
    /// (step, target) row-major; 0 outside segments.
    behavior: Vec<f32>,
}

impl Targets {
    /// `data`, the recording these were made of, with targets in place of its outputs.
    pub(crate) fn view<'a>(&'a self, data: &DatasetView<'a>) -> DatasetView<'a> {
        DatasetView {
            outputs: &self.outputs,
            behavior: &self.behavior,
            ..*data
        }
    }
}

/// Labels that distinguish movements, and their number: the outputs now and 0.2 s later, and the speed, (step, value)
/// row-major. Leads are the same as in [`targets`].
pub(crate) fn labels(data: &DatasetView<'_>) -> (Vec<f32>, usize) {
    let leads = in_steps(&LEADS[2..4], data.step_seconds);
    let width = leads.len() * data.outputs.len() + 1;
    (values(data, &leads, &[0]), width)
}

/// The outputs at `leads`, then the speed at `speed_leads`, (step, value) row-major; 0 outside segments.
fn values(data: &DatasetView<'_>, leads: &[i64], speed_leads: &[i64]) -> Vec<f32> {
    let n = data.outputs.len();
    let m = leads.len() * n + speed_leads.len();
    let speed = match speed_leads.is_empty() {
        true => Vec::new(),
        false => speed(data),
    };
    let mut values = vec![0.0; data.steps * m];
    for segment in data.segments {
        let (first, last) = (segment.start, segment.stop - 1);
        for step in segment.start..segment.stop {
            let at = |lead: i64| step.saturating_add(lead).clamp(first, last) as usize;
            let row = &mut values[step as usize * m..][..m];
            let (outputs, speeds) = row.split_at_mut(leads.len() * n);
            for (row, &lead) in outputs.chunks_exact_mut(n).zip(leads) {
                row.copy_from_slice(&data.behavior[at(lead) * n..][..n]);
            }
            for (value, &lead) in speeds.iter_mut().zip(speed_leads) {
                *value = speed[at(lead)];
            }
        }
    }
    values
}

/// `seconds` in whole steps, each number once, ascending.
fn in_steps(seconds: &[f64], step_seconds: f64) -> Vec<i64> {
    let mut steps: Vec<i64> = seconds
        .iter()
        .map(|s| (s / step_seconds).round() as i64)
        .collect();
    steps.dedup();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_gram::cases::behaving as data;

    #[test]
    fn leads_stay_inside_the_segment() {
        let rows: Vec<[f32; 1]> = (0..20).map(|i| [i as f32]).collect();
        let rows: Vec<&[f32]> = rows.iter().map(|r| &r[..]).collect();
        let made = targets(&data(0.1, &[("x", "mm")], &rows).view());
        assert_eq!(made.outputs.len(), 9);
        let row = |step: usize| &made.behavior[step * 9..][..9];
        // Leads −4 −2 0 2 4 8 of x, then the speed (1 per step of 0.1 s) at −2 0 2.
        assert_eq!(row(8), [4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 10.0, 10.0, 10.0]);
        assert_eq!(row(2)[..6], [1.0, 1.0, 2.0, 4.0, 6.0, 10.0]);
        assert_eq!(row(15)[..6], [11.0, 13.0, 15.0, 17.0, 19.0, 19.0]);
        assert_eq!(row(0), [0.0; 9]);
        // A step of 0.5 s: −1, 0, 1 and 2 steps of x are left, and no step for the speeds but 0.
        let made = targets(&data(0.5, &[("x", "mm")], &rows).view());
        let names: Vec<&str> = made.outputs.iter().map(|o| o.name.as_str()).collect();
        let expected = [
            "x at -1 steps",
            "x at 0 steps",
            "x at 1 steps",
            "x at 2 steps",
        ];
        assert_eq!(names[..4], expected);
        assert_eq!(names[4..], ["speed at 0 steps"]);
    }

    #[test]
    fn a_segment_of_one_step_has_no_speed() {
        let rows: [&[f32]; 2] = [&[0.0], &[5.0]];
        let one = data(0.1, &[("x", "mm")], &rows);
        assert_eq!(
            targets(&one.view()).behavior[9..],
            [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 0.0, 0.0, 0.0]
        );
    }
}
