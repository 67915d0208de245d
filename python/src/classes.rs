//! Classes: labels, training on them, and events, as `betz.ClassDecoder` uses them.

use betz::input_form;
use betz::recording::labels::{LabelledInterval, Labels};
use betz::train::{ClassOptions, ClassReport, EventScores, LabelSource, class_events as events_of};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{instance, refused};
use crate::arrays::integers;
use crate::dataset::{DATASET, Dataset};
use crate::error::OrRaise;
use crate::model::{MODEL, Model};
use crate::options::Options;
use crate::work;

/// Names of classes, and the class of each step.
type NamesAndClasses<'py> = (Vec<String>, Bound<'py, PyArray1<i32>>);

/// Tick, class, 1 for an onset, and probability of each event.
type EventArrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<f32>>,
);

/// Names of the classes that `source` gives the steps of `data`, and the class of each step, int32; −1 for no label.
/// `source` is a column or a condition as for `betz train --labels`, or a list of (start, stop, name) in seconds.
#[pyfunction]
pub(crate) fn labels<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    source: &Bound<'py, PyAny>,
) -> PyResult<NamesAndClasses<'py>> {
    let data = instance::<Dataset>("data", DATASET, data)?.get();
    let source = match source.extract::<String>() {
        Ok(text) => LabelSource::parse(&text).or_raise(py)?,
        Err(_) => {
            let intervals: Vec<(f64, f64, String)> = source.extract().map_err(|_| {
                refused(
                    "labels",
                    "a column or a condition as text, or a list of (start, stop, name) in seconds",
                    source,
                )
            })?;
            let interval = |(start, stop, name)| LabelledInterval { start, stop, name };
            LabelSource::Intervals(intervals.into_iter().map(interval).collect())
        }
    };
    let labels = source.labels(&data.inner).or_raise(py)?;
    Ok((labels.names, labels.of_step.into_pyarray(py)))
}

/// Options of classes, as a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ClassChoices {
    /// True for linear discriminant analysis in place of a softmax.
    discriminant: bool,
    false_alarms: f64,
    priors: Option<Vec<f64>>,
    least_labelled: usize,
    markov: bool,
}

impl ClassChoices {
    pub(crate) fn options(self) -> ClassOptions {
        ClassOptions {
            false_alarms: self.false_alarms,
            priors: self.priors,
            least_labelled: self.least_labelled,
            markov: self.markov,
        }
    }
}

/// Labels of `data`: the class of each step among `names`, −1 for no label.
pub(crate) fn labels_of(
    data: &Dataset,
    names: Vec<String>,
    classes: &Bound<'_, PyAny>,
) -> PyResult<Labels> {
    let classes = integers("classes", classes)?;
    let known = -1..names.len() as i64;
    if classes.len() != data.inner.steps || !classes.iter().all(|class| known.contains(class)) {
        return Err(PyValueError::new_err(format!(
            "classes: expected {} numbers from -1 to {}, one per step, got {}",
            data.inner.steps,
            names.len() as i64 - 1,
            classes.len()
        )));
    }
    Ok(Labels {
        names,
        of_step: classes.into_iter().map(|class| class as i32).collect(),
    })
}

/// A decoder of the classes `names`, with the class of each step of `data` (−1 for no label), and a report of its training.
/// `betz.ClassDecoder` is the way to call it.
#[pyfunction]
#[pyo3(signature = (data, options, names, classes, choices, progress=None))]
pub(crate) fn train_classes<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    options: &Bound<'py, PyAny>,
    names: Vec<String>,
    classes: &Bound<'py, PyAny>,
    choices: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Model, Bound<'py, PyDict>)> {
    let data = instance::<Dataset>("data", DATASET, data)?.get();
    let options = Options::of(options)?;
    let choices: ClassChoices = choices.extract()?;
    let labels = labels_of(data, names, classes)?;
    let (inner, form) = (data.inner.clone(), data.form());
    let (decoder, ran, warnings, report) = work::run(py, progress, |progress| {
        let training = options.training(options.bank.bank(inner.step_seconds)?)?;
        let (discriminant, choices) = (choices.discriminant, choices.options());
        let device = options.device()?;
        let (trained, report) = match discriminant {
            true => training.run_discriminant(&inner, &labels, &choices, &device, progress)?,
            false => training.run_classes(&inner, &labels, &choices, &device, progress)?,
        };
        let decoder = input_form::marked(trained.decoder, form)?;
        Ok((decoder, trained.ran, trained.warnings, report))
    })?;
    let said = report_dict(py, &report)?;
    said.set_item("device", ran.device)?;
    said.set_item("path", ran.path)?;
    said.set_item("fallback", ran.fallback)?;
    said.set_item("warnings", warnings)?;
    Ok((Model::of(decoder), said))
}

pub(crate) fn report_dict<'py>(
    py: Python<'py>,
    report: &ClassReport,
) -> PyResult<Bound<'py, PyDict>> {
    let (dict, scores) = (PyDict::new(py), &report.scores);
    dict.set_item("accuracy", scores.accuracy)?;
    dict.set_item("balanced_accuracy", scores.balanced_accuracy)?;
    dict.set_item("auc", &scores.auc)?;
    dict.set_item("confusion", &scores.confusion)?;
    dict.set_item("nll", scores.nll)?;
    dict.set_item("ece", scores.ece)?;
    dict.set_item("ece_before", report.ece_before)?;
    dict.set_item("scale", report.scale)?;
    dict.set_item("kappa", report.kappa)?;
    dict.set_item("labelled", &report.labelled)?;
    let event = |scores: &EventScores| {
        let dict = PyDict::new(py);
        dict.set_item("onsets", scores.onsets)?;
        dict.set_item("missed", scores.missed)?;
        dict.set_item("false_alarms_per_minute", scores.false_alarms_per_minute)?;
        dict.set_item("latency", scores.latency)?;
        Ok(dict)
    };
    let events = scores
        .events
        .iter()
        .map(|scores| scores.as_ref().map(event).transpose());
    dict.set_item("events", events.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

/// Events of `model`'s classes on `data`: step, class, True for an onset and False for an end, and probability of each.
/// `betz.ClassDecoder.events` is the way to call it.
#[pyfunction]
pub(crate) fn class_events<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    data: &Bound<'py, PyAny>,
) -> PyResult<EventArrays<'py>> {
    let model = instance::<Model>("model", MODEL, model)?.get();
    let data = instance::<Dataset>("data", DATASET, data)?.get();
    let (decoder, dataset, form) = (&model.inner, &data.inner, data.form());
    let events = work::run(py, None, |_| {
        input_form::check(decoder, form)?;
        events_of(decoder, dataset)
    })?;
    let ticks: Vec<i64> = events.iter().map(|event| event.tick).collect();
    let classes: Vec<u32> = events.iter().map(|event| event.class).collect();
    let on: Vec<bool> = events.iter().map(|event| event.on).collect();
    let probabilities: Vec<f32> = events.iter().map(|event| event.probability).collect();
    Ok((
        ticks.into_pyarray(py),
        classes.into_pyarray(py),
        on.into_pyarray(py),
        probabilities.into_pyarray(py),
    ))
}
