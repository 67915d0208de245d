//! Labels: true outputs that arrive after their steps.

use std::collections::VecDeque;

use betz_base::error::{Error, Result};
use serde_json::{Value, json};

use crate::frame::{Frame, Section};
use crate::history::History;

/// Largest number of labels that are stored.
const MOST_LABELS: usize = 1 << 17;

/// True outputs of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// Tick of the step whose estimate answers these outputs: later than the movement by the model's delay.
    pub tick: i64,
    /// One value per output.
    pub values: Vec<f32>,
}

/// The labels of the last minute.
#[derive(Debug, Default)]
pub(crate) struct LabelHistory {
    labels: VecDeque<Label>,
}

/// Labels as an event.
///
/// # Errors
/// `InvalidArgument` for a label that does not have one finite value per output.
pub(crate) fn event(labels: &[Label], outputs: usize) -> Result<Value> {
    for Label { tick, values } in labels {
        if values.len() != outputs || values.iter().any(|v| !v.is_finite()) {
            return Err(Error::argument(format!(
                "the label of tick {tick}: expected {outputs} finite values, got {values:?}"
            )));
        }
    }
    let rows: Vec<Value> = (labels.iter())
        .map(|label| json!([label.tick, label.values]))
        .collect();
    Ok(json!({ "rows": rows }))
}

/// The label in a row of an event.
fn of_row(row: &Value) -> Option<Label> {
    let values = row.get(1)?.as_array()?.iter();
    Some(Label {
        tick: row.get(0)?.as_i64()?,
        values: values
            .map(|v| v.as_f64().map(|v| v as f32))
            .collect::<Option<_>>()?,
    })
}

impl LabelHistory {
    /// Adds the labels of an event, and drops those of ticks before `first`.
    pub(crate) fn push(&mut self, event: &Value, first: i64) {
        let rows = event["rows"].as_array().into_iter().flatten();
        self.labels.extend(rows.filter_map(of_row));
        self.labels.retain(|label| label.tick >= first);
        let over = self.labels.len().saturating_sub(MOST_LABELS);
        self.labels.drain(..over);
    }

    /// All labels, the oldest arrival first.
    pub(crate) fn all(&self) -> Vec<Label> {
        self.labels.iter().cloned().collect()
    }

    /// All labels as an event; `None` if there are none.
    pub(crate) fn event(&self) -> Option<Value> {
        if self.labels.is_empty() {
            return None;
        }
        let rows: Vec<Value> = (self.labels.iter())
            .map(|label| json!([label.tick, label.values]))
            .collect();
        Some(json!({"type": "labels", "tick": 0, "rows": rows}))
    }
}

/// Labels of an event that are new: tick, true outputs, and the estimates of that step, as the frames have them. A label of a
/// step whose true outputs are known adds nothing.
pub(crate) fn new_rows(
    known: &LabelHistory,
    event: &Value,
    history: &History,
) -> Vec<(i64, Vec<f32>, Vec<f32>)> {
    let ticks: std::collections::HashSet<i64> = known.labels.iter().map(|l| l.tick).collect();
    let rows = event["rows"].as_array().into_iter().flatten();
    let new = rows.filter_map(of_row).filter(|l| !ticks.contains(&l.tick));
    let mut held: Option<(std::ops::Range<i64>, FrameRows)> = None;
    let mut found = Vec::new();
    for Label { tick, values } in new {
        if !held
            .as_ref()
            .is_some_and(|(ticks, _)| ticks.contains(&tick))
        {
            let frame = history.range(tick..tick.saturating_add(1)).next();
            held = frame
                .and_then(|f| Some((f.ticks.clone(), FrameRows::read(&f.bytes, values.len())?)));
        }
        let estimates = held.as_ref().and_then(|(_, rows)| rows.estimates(tick));
        found.extend(estimates.map(|estimates| (tick, values, estimates.to_vec())));
    }
    found
}

/// Rows of a frame.
struct FrameRows {
    width: usize,
    ticks: Vec<i64>,
    estimates: Vec<f32>,
    truth: Vec<f32>,
}

impl FrameRows {
    fn read(bytes: &[u8], width: usize) -> Option<Self> {
        let frame = Frame::read(bytes).ok()?.0;
        let ticks: Vec<i64> = match frame.section(Section::ROW_TICK, 2) {
            [] => (0..i64::from(frame.ticks)).collect(),
            _ => frame.u16(Section::ROW_TICK).map(i64::from).collect(),
        };
        Some(Self {
            width,
            ticks: ticks
                .into_iter()
                .map(|offset| frame.first + offset)
                .collect(),
            estimates: frame.f32(Section::ESTIMATE).collect(),
            truth: frame.f32(Section::TRUTH).collect(),
        })
    }

    /// Estimates of a step whose true outputs are not in the frame.
    fn estimates(&self, tick: i64) -> Option<&[f32]> {
        let row = self.ticks.binary_search(&tick).ok()?;
        let part = row * self.width..(row + 1) * self.width;
        let unknown = |truth: &[f32]| truth.iter().all(|v| v.is_nan());
        if !self.truth.get(part.clone()).is_none_or(unknown) {
            return None;
        }
        self.estimates.get(part)
    }
}

/// Writes labels into the true outputs (steps × outputs) of a recording that begins at tick `first`; without labels,
/// `truths` stays as it is.
pub(crate) fn fill(
    truths: &mut Vec<f32>,
    labels: &[Label],
    first: i64,
    steps: usize,
    width: usize,
) {
    for label in labels.iter().filter(|l| l.values.len() == width) {
        let Ok(at) = usize::try_from(label.tick - first) else {
            continue;
        };
        if at < steps {
            truths.resize(steps * width, f32::NAN);
            truths[at * width..(at + 1) * width].copy_from_slice(&label.values);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn label(tick: i64, values: &[f32]) -> Label {
        let values = values.to_vec();
        Label { tick, values }
    }

    #[test]
    fn labels_are_kept_as_long_as_their_steps_and_only_whole_ones_are_taken() {
        let mut kept = LabelHistory::default();
        assert_eq!(kept.event(), None);
        let some = [label(5, &[1.0, -2.5]), label(9, &[0.25, 3.0])];
        kept.push(&event(&some, 2).unwrap(), 0);
        assert_eq!(kept.all(), some);
        assert_eq!(
            kept.event().unwrap()["rows"],
            json!([[5, [1.0, -2.5]], [9, [0.25, 3.0]]])
        );
        kept.push(&event(&[label(7, &[0.0, 1.0])], 2).unwrap(), 6);
        let ticks: Vec<i64> = kept.all().iter().map(|l| l.tick).collect();
        assert_eq!(ticks, [9, 7]);
        for odd in [label(1, &[1.0]), label(1, &[1.0, f32::NAN])] {
            let refused = event(&[odd], 2).unwrap_err();
            assert!(
                refused.message().contains("expected 2 finite values"),
                "{refused}"
            );
        }
    }

    #[test]
    fn labels_become_the_truth_of_their_steps() {
        let mut truths = Vec::new();
        fill(
            &mut truths,
            &[label(3, &[1.0]), label(12, &[2.0]), label(99, &[3.0])],
            10,
            4,
            1,
        );
        assert_eq!((truths.len(), truths[2]), (4, 2.0));
        assert!(truths[0].is_nan() && truths[1].is_nan() && truths[3].is_nan());
        let mut none = Vec::new();
        fill(&mut none, &[], 10, 4, 1);
        assert!(none.is_empty());
    }
}
