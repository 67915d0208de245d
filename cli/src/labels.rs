//! Labels for classes: from a column, a condition or a file of intervals.

use std::path::Path;

use betz::model::{Attachment, Decoder};
use betz::recording::Dataset;
use betz::recording::arrays::Arrays;
use betz::recording::labels::{LabelledInterval, Labels, intervals_from_csv};
use betz::train::LabelSource;
use betz::{Error, Result};

use crate::report::{self, Table};

/// Section of the model file with the text of `--labels`, for `betz evaluate`.
const TAG: [u8; 4] = *b"labs";

/// The source that `text` names.
pub(crate) fn source(text: &str) -> Result<LabelSource> {
    let path = Path::new(text);
    let ends_in = |ending: &str| {
        path.extension()
            .is_some_and(|e| e.eq_ignore_ascii_case(ending))
    };
    if ends_in("csv") {
        let content =
            std::fs::read_to_string(path).map_err(|e| Error::io("read labels from", path, &e))?;
        let intervals = intervals_from_csv(&content).map_err(|e| e.at(text))?;
        return Ok(LabelSource::Intervals(intervals));
    }
    if ends_in("npz") {
        return intervals_from_npz(path)
            .map(LabelSource::Intervals)
            .map_err(|e| e.at(text));
    }
    LabelSource::parse(text)
}

/// Intervals from the arrays `start`, `stop` (seconds) and `name`, of the same length.
fn intervals_from_npz(path: &Path) -> Result<Vec<LabelledInterval>> {
    let mut arrays = Arrays::open(path)?;
    let missing = |name: &str| {
        Error::argument(format!(
            "labels: expected the arrays start, stop and name, got none called {name}"
        ))
    };
    let mut seconds = |name: &str| -> Result<Vec<f64>> {
        let found = arrays.numbers::<f64>(name, 1)?;
        found
            .map(|numbers| numbers.values)
            .ok_or_else(|| missing(name))
    };
    let (starts, stops) = (seconds("start")?, seconds("stop")?);
    let names = arrays.strings("name", 1)?.ok_or_else(|| missing("name"))?;
    if starts.len() != stops.len() || starts.len() != names.len() {
        return Err(Error::argument(format!(
            "labels: expected start, stop and name of one length, got {}, {} and {}",
            starts.len(),
            stops.len(),
            names.len()
        )));
    }
    let all = starts.into_iter().zip(stops).zip(names);
    Ok(all
        .map(|((start, stop), name)| LabelledInterval { start, stop, name })
        .collect())
}

/// The labels of `dataset` that `text` names, and a note on them.
pub(crate) fn read(text: &str, dataset: &Dataset) -> Result<Labels> {
    let labels = source(text)?.labels(dataset)?;
    let counts: Vec<String> = (labels.names.iter().zip(labels.counts()))
        .map(|(name, count)| format!("{name}: {}", report::count(count as u128, "step")))
        .collect();
    report::note(&format!("labels: {}", counts.join(", ")));
    Ok(labels)
}

/// `model` with the text of its labels.
pub(crate) fn marked(model: Decoder, text: &str) -> Result<Decoder> {
    let mut parts = model.into_parts();
    parts.attachments.retain(|a| a.tag != TAG);
    parts.attachments.push(Attachment {
        tag: TAG,
        bytes: text.as_bytes().to_vec(),
    });
    Decoder::new(parts)
}

/// The text of the labels that `model` was trained on.
pub(crate) fn text_of(model: &Decoder) -> Option<String> {
    let bytes = model.attachment(TAG)?;
    String::from_utf8(bytes.to_vec()).ok()
}

/// Prints the report of training on labels.
pub(crate) fn print_training(report: &betz::train::ClassReport) -> Result<()> {
    print(&report.scores)?;
    report::line(&format!(
        "calibration: error {:.4} before, {:.4} after; scores times {:.3}",
        report.ece_before, report.scores.ece, report.scale
    ))?;
    report::line(&match report.kappa {
        Some(kappa) => format!("hidden Markov model: evidence to the power of {kappa}"),
        None => "hidden Markov model: none; it makes held-out labels less likely".to_owned(),
    })
}

/// Prints scores of classes: one row per class, then what holds for all.
pub(crate) fn print(scores: &betz::train::ClassScores) -> Result<()> {
    let mut header = vec!["class", "steps", "right", "AUC"];
    let shown: Vec<String> = scores
        .classes
        .iter()
        .map(|name| format!("as {name}"))
        .collect();
    let few = scores.classes.len() <= 12;
    if few {
        header.extend(shown.iter().map(String::as_str));
    }
    let mut table = Table::new(&header);
    for (class, name) in scores.classes.iter().enumerate() {
        let row = &scores.confusion[class];
        let steps: u64 = row.iter().sum();
        let mut cells = vec![
            name.clone(),
            steps.to_string(),
            format!("{:.1} %", 100.0 * row[class] as f64 / steps.max(1) as f64),
            format!("{:.4}", scores.auc[class]),
        ];
        if few {
            cells.extend(row.iter().map(ToString::to_string));
        }
        table.row(cells);
    }
    table.print()?;
    report::line(&format!(
        "balanced accuracy {:.4} (largest p / prior), {:.4} (largest p); accuracy {:.4}",
        scores.balanced_accuracy_by_prior, scores.balanced_accuracy, scores.accuracy
    ))?;
    report::line(&format!(
        "-ln p {:.4}, calibration error {:.4}",
        scores.nll, scores.ece
    ))?;
    let mut table = Table::new(&[
        "events of",
        "onsets",
        "missed",
        "false alarms per minute",
        "mean latency",
        "10 to 90 %",
    ]);
    let mut any = false;
    for (name, events) in scores.classes.iter().zip(&scores.events) {
        let Some(events) = events else { continue };
        any = true;
        let milliseconds = |seconds: f64| format!("{:.0}", 1000.0 * seconds);
        table.row([
            name.clone(),
            events.onsets.to_string(),
            format!("{:.2} %", 100.0 * events.missed),
            format!("{:.2}", events.false_alarms_per_minute),
            format!("{} ms", milliseconds(events.latency)),
            format!(
                "{} to {} ms",
                milliseconds(events.latency_10_90[0]),
                milliseconds(events.latency_10_90[1])
            ),
        ]);
    }
    if any {
        report::line("")?;
        table.print()?;
    }
    Ok(())
}
