//! Scores of classes in `betz evaluate`.

use betz::model::Decoder;
use betz::recording::Dataset;
use betz::train::{ClassScores, evaluate_classes};
use betz::{Error, Result};
use serde::Serialize;

use crate::labels;
use crate::report::{self, Outcome};

/// The scores of a model of kind `classes`.
#[derive(Serialize)]
pub(super) struct ClassEvaluation {
    classes: ClassScores,
    segments: usize,
    /// Doubts about the scores, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    total_seconds: f64,
}

/// Scores of the model's classes on `dataset`. Labels are `given` or those that the model was trained on; `None` for a
/// model with other outputs and no labels.
pub(super) fn scores(
    model: &Decoder,
    dataset: &Dataset,
    given: Option<&str>,
) -> Result<Option<ClassScores>> {
    if model.class_names().is_empty() {
        return match given {
            Some(_) => Err(Error::argument(format!(
                "--labels: expected a model with classes, got one of kind {}",
                model.kind()
            ))),
            None => Ok(None),
        };
    }
    let of_training = labels::text_of(model);
    let Some(text) = given.or(of_training.as_deref()) else {
        if model.kind() != "classes" {
            return Ok(None);
        }
        return Err(Error::argument(
            "evaluate: expected --labels COLUMN|CONDITION|FILE to score classes against, got none",
        ));
    };
    let labels = labels::read(text, dataset)?;
    evaluate_classes(model, dataset, &labels).map(Some)
}

/// Prints the scores of a model of kind `classes`.
pub(super) fn tell(
    classes: ClassScores,
    dataset: &Dataset,
    warnings: Vec<String>,
    as_json: bool,
) -> Result<()> {
    let evaluation = ClassEvaluation {
        classes,
        segments: dataset.segments.len(),
        warnings,
        total_seconds: report::total_seconds(),
    };
    report::tell(&evaluation, as_json)
}

impl Outcome for ClassEvaluation {
    fn print(&self) -> Result<()> {
        labels::print(&self.classes)
    }
}
