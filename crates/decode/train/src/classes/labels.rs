//! Sources of labels, and the probabilities of a decoder on a recording.

use crate::folds::Part;
use betz_base::error::{Error, Result};
use betz_gram::decode::decode;
use betz_gram::movement::{outputs_with_velocities, speed};
use betz_recording::labels::{LabelledInterval, Labels};
use betz_recording::{Dataset, DatasetView, Segment};
use betz_runtime::model::{Decoder, DecoderParts, Head};

/// Source of the labels of a recording.
#[derive(Debug, Clone, PartialEq)]
pub enum LabelSource {
    /// A column of behaviour with whole numbers; −1 for no label.
    Column(String),
    /// A condition on a column of behaviour or on the speed: two classes.
    Condition {
        /// Name of the class of steps for which it holds.
        name: String,
        /// Column of behaviour, or `speed`.
        column: String,
        /// True for a value above `limit`, false for one below.
        above: bool,
        /// Limit in the column's unit.
        limit: f64,
    },
    /// Intervals of time.
    Intervals(Vec<LabelledInterval>),
}

impl LabelSource {
    /// Parses `[NAME=]COLUMN>LIMIT`, `[NAME=]COLUMN<LIMIT` or `COLUMN`.
    ///
    /// ```
    /// use betz_train::LabelSource;
    ///
    /// let LabelSource::Condition { name, column, limit, .. } = LabelSource::parse("move=speed>60")? else {
    ///     panic!("expected a condition");
    /// };
    /// assert_eq!((name.as_str(), column.as_str(), limit), ("move", "speed", 60.0));
    /// # Ok::<(), betz_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a limit that is no number, and an empty
    /// name.
    pub fn parse(text: &str) -> Result<Self> {
        let Some(at) = text.find(['<', '>']) else {
            return Ok(Self::Column(text.trim().to_owned()));
        };
        let (left, right) = (&text[..at], text[at + 1..].trim_start_matches('='));
        let (name, column) = match left.split_once('=') {
            Some((name, column)) => (name.trim(), column.trim()),
            None => (text.trim(), left.trim()),
        };
        match right.trim().parse::<f64>() {
            Ok(limit) if limit.is_finite() && !name.is_empty() && !column.is_empty() => {
                Ok(Self::Condition {
                    name: name.to_owned(),
                    column: column.to_owned(),
                    above: text.as_bytes()[at] == b'>',
                    limit,
                })
            }
            _ => Err(Error::argument(format!(
                "labels: expected NAME=COLUMN>LIMIT with a number for the limit, such as move=speed>60, got {text:?}"
            ))),
        }
    }

    /// The labels of `data`.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for a column that the recording does not have; the errors
    /// of [`Labels`].
    pub fn labels(&self, data: &Dataset) -> Result<Labels> {
        match self {
            Self::Column(name) => Labels::from_numbers(&column(name, data)?, data),
            Self::Intervals(intervals) => Labels::from_intervals(intervals, data),
            Self::Condition {
                name,
                column: of,
                above,
                limit,
            } => {
                let values = column(of, data)?;
                let is_in = |step: usize| {
                    let value = f64::from(values[step]);
                    if *above {
                        value > *limit
                    } else {
                        value < *limit
                    }
                };
                Ok(Labels::from_condition(name, is_in, data))
            }
        }
    }
}

/// A column of behaviour; `speed` is the speed where no column has that name.
fn column(name: &str, data: &Dataset) -> Result<Vec<f32>> {
    let outputs = data.outputs.len();
    if let Some(column) = data.outputs.iter().position(|output| output.name == name) {
        return Ok(data
            .behavior
            .iter()
            .skip(column)
            .step_by(outputs)
            .copied()
            .collect());
    }
    if name == "speed" && outputs > 0 {
        let marked = outputs_with_velocities(&data.view());
        return Ok(speed(&DatasetView {
            outputs: &marked,
            ..data.view()
        }));
    }
    let names: Vec<&str> = data.outputs.iter().map(|o| o.name.as_str()).collect();
    Err(Error::mismatch(format!(
        "labels: expected the name of a column of behaviour, `speed`, or a file of intervals, got {name:?}; the recording \
         has [{}]",
        names.join(", ")
    )))
}

/// Step at which the filters of a part that begins at `start` start from rest: `history` steps earlier, or with the segment.
pub(super) fn start_of_filters(start: i64, data: &Dataset, history: usize) -> i64 {
    let history = i64::try_from(history).unwrap_or(i64::MAX);
    let of = (data.segments).partition_point(|segment| segment.stop <= start);
    let first = (data.segments.get(of)).map_or(start, |segment| segment.start.min(start));
    start.saturating_sub(history).max(first)
}

/// Parts of `data` whose sums pair the labelled steps, and no others, with the responses `delay_steps` later.
pub(crate) fn labelled_parts(
    labels: &Labels,
    data: &Dataset,
    delay_steps: i64,
    history: usize,
) -> Vec<Part> {
    let parts = labels.runs(data).into_iter().filter_map(|run| {
        let of = (data.segments).partition_point(|segment| segment.stop <= run.start);
        let stop = data.segments.get(of)?.stop;
        // Sums pair x(t) with a(t + delay) if t is in the part and the delay ahead, or t + delay is and the delay is not.
        let shift = delay_steps.max(0);
        let segment = Segment {
            start: run.start.saturating_add(shift),
            stop: run.stop.saturating_add(shift).min(stop),
        };
        (segment.start < segment.stop).then(|| Part {
            segment,
            from: start_of_filters(segment.start, data, history),
        })
    });
    parts.collect()
}

/// Probabilities of `decoder`'s classes at every step of `data`, (step, class).
pub(super) fn probabilities(decoder: &Decoder, data: &Dataset) -> Result<Vec<f32>> {
    let plain = match decoder.head() {
        Head::VelocityGate(gated) => {
            // The same engine without the gated outputs.
            let (outputs, latents) = (gated.gated.len(), decoder.latents());
            let parts = decoder.parts().clone();
            let names = gated.names.iter().map(|name| name.as_str().into());
            Decoder::new(DecoderParts {
                weights: (parts.weights.chunks_exact(latents))
                    .flat_map(|row| &row[outputs..])
                    .copied()
                    .collect(),
                intercept: parts.intercept[outputs..].to_vec(),
                head: Head::Classes(gated.classes.clone()),
                outputs: names.collect(),
                limits: betz_runtime::model::Limits {
                    ranges: Vec::new(),
                    ..parts.limits
                },
                attachments: Vec::new(),
                ..parts
            })?
        }
        _ => decoder.clone(),
    };
    decode(&plain, data.view())
}
