//! `Live`: a whole session on threads of the library, which Python watches and steers.

use std::path::PathBuf;
use std::time::Duration;

use betz::live::{BackgroundSession, OutputReader, Plan, Reading, Replay, Rows, StepOutput, Trial};
use betz::text::count;
use betz::{Error, ErrorKind};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

use crate::arguments::{instance, refused, whole};
use crate::arrays::{Numbers, floats, refuse_masked, to_f32};
use crate::error::{OrRaise, raised};
use crate::model::{MODEL, Model};
use crate::work;

/// Time between two looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// A step of a session: its outputs and their quality.
#[pyclass(frozen, get_all, module = "betz")]
pub(crate) struct LiveStep {
    /// Number of the step, from 0.
    number: u64,
    /// Device time of its end: the first row that is not in it.
    end: u64,
    /// Arrival of the block that completed it, in nanoseconds of `CLOCK_MONOTONIC_RAW`; 0 without data.
    host_ns: i64,
    /// Flags of the outputs, such as "stale, held"; "" if there are none.
    status: String,
    /// One value per output, float32.
    values: Py<PyArray1<f32>>,
}

impl LiveStep {
    fn of(py: Python<'_>, step: &StepOutput) -> Self {
        Self {
            number: step.number,
            end: step.end,
            host_ns: step.host_ns,
            status: match step.status.is_ok() {
                true => String::new(),
                false => step.status.to_string(),
            },
            values: step.values.clone().into_pyarray(py).unbind(),
        }
    }
}

#[pymethods]
impl LiveStep {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let values: Vec<f32> = self.values.bind(py).to_vec()?;
        let status = match self.status.as_str() {
            "" => String::new(),
            flags => format!(", {flags}"),
        };
        Ok(format!(
            "<betz.LiveStep: {}, {values:?}{status}>",
            self.number
        ))
    }
}

/// Steps of a session, one after another, as `iter(live)` gives them.
#[pyclass(module = "betz")]
pub(crate) struct LiveSteps {
    live: Py<Live>,
    reader: OutputReader,
    out: StepOutput,
}

#[pymethods]
impl LiveSteps {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<LiveStep>> {
        let (reader, out) = (&mut self.reader, &mut self.out);
        loop {
            match work::detach(py, || reader.next(out, LOOK)) {
                Reading::Step => return Ok(Some(LiveStep::of(py, out))),
                Reading::Nothing => py.check_signals()?,
                Reading::Over => {
                    // A session that failed raises its error.
                    let live = self.live.get();
                    work::detach(py, || live.session.stop()).or_raise(py)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Steps that were written over before they were read: 4096 are kept.
    #[getter]
    fn missed(&self) -> u64 {
        self.reader.missed()
    }
}

/// A whole session: source, front end, decoder, outputs and recording, as `betz run` runs it. `plan` is the path of a
/// plan, or a dictionary with its sections, whose paths are relative to the working directory. `set` changes keys, such
/// as {"voltage.threshold": -4}.
///
/// The session runs on threads of its own and never waits for Python. As a context manager it starts, and is stopped at
/// the end, also by Ctrl-C. Iteration gives every step.
///
/// With `from = "push"` the program hands over the rows itself; `from = "simulated"` is a simulated rig.
///
/// >>> import numpy as np, betz
/// >>> X = np.random.default_rng(0).poisson(1.0, (500, 4))
/// >>> betz.Decoder(step_seconds=0.02, bank=[(0.05, 1)]).fit(X, X[:, :2] * 1.0).model_.save("live.betz")
/// >>> plan = {"session": {"model": "live.betz"}, "source": {"name": "bins", "from": "push", "sends": "steps"},
/// ...         "missing": {"stale_after": "1h"}}
/// >>> with betz.Live(plan) as live:
/// ...     live.push(X[:100])
/// ...     live.end()
/// ...     steps = [step.number for step in live]
/// True
/// >>> len(steps), live.health()["input"]["steps"], live.latest().values.shape
/// (100, 100, (2,))
/// >>> import os; os.remove("live.betz")
#[pyclass(frozen, module = "betz")]
pub(crate) struct Live {
    session: BackgroundSession,
}

#[pymethods]
impl Live {
    #[new]
    #[pyo3(signature = (plan, *, set=None))]
    fn new(
        py: Python<'_>,
        plan: &Bound<'_, PyAny>,
        set: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let plan = read_plan(py, plan, set)?;
        let session = work::run(py, None, |_| BackgroundSession::open(plan))?;
        Ok(Self { session })
    }

    /// Starts the session, if it does not run yet. Returns itself.
    fn start(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let py = this.py();
        let live = this.get();
        work::detach(py, || live.session.start()).or_raise(py)?;
        Ok(this)
    }

    /// Ends the session: waits until its recording is whole. Returns its health. Raises the error that ended it before,
    /// if one did.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ended = work::detach(py, || self.session.stop()).or_raise(py)?;
        json_object(py, &ended)
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        Self::start(this)
    }

    #[pyo3(signature = (exception=None, _value=None, _traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exception: Option<&Bound<'_, PyAny>>,
        _value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let ended = work::detach(py, || self.session.stop());
        // The exception of the block is the one to be seen.
        if exception.is_none_or(|e| e.is_none()) {
            ended.or_raise(py)?;
        }
        Ok(false)
    }

    fn __iter__(this: Bound<'_, Self>) -> LiveSteps {
        let reader = this.get().session.reader();
        LiveSteps {
            out: reader.output(),
            reader,
            live: this.unbind(),
        }
    }

    /// The newest step, without waiting; None before the first.
    fn latest(&self, py: Python<'_>) -> Option<LiveStep> {
        let mut out = self.session.reader().output();
        (self.session.newest(&mut out)).then(|| LiveStep::of(py, &out))
    }

    /// Counts and latencies so far, as `betz run --json` names them, with `phase`: "open", "running" or "ended".
    fn health<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let health = work::detach(py, || self.session.health()).or_raise(py)?;
        json_object(py, &health)
    }

    /// Adds the true outputs of a step, one value per output. `step`: its number, as `LiveStep.number`; None: the step
    /// that is open.
    #[pyo3(signature = (values, step=None))]
    fn label(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        step: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let values: Vec<f32> = (floats("values", values)?.into_iter())
            .map(|v| v as f32)
            .collect();
        let step = step.filter(|s| !s.is_none());
        let step = step.map(|s| whole("step", s)).transpose()?;
        let label = || self.session.label(step.map(|s| s as u64), &values);
        work::detach(py, label).or_raise(py)
    }

    /// Adds a trial's begin or end at the open step: "begin", "end", or "reject" for an end that is not to be learned
    /// from.
    fn trial(&self, py: Python<'_>, what: &Bound<'_, PyAny>) -> PyResult<()> {
        let expected = "\"begin\", \"end\" or \"reject\"";
        let text: String = (what.extract()).map_err(|_| refused("what", expected, what))?;
        let trial = match text.as_str() {
            "begin" => Trial::Begin,
            "end" => Trial::End,
            "reject" => Trial::Reject,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "what: expected {expected}, got \"{text}\""
                )));
            }
        };
        work::detach(py, || self.session.trial(trial)).or_raise(py)
    }

    /// Adds a text at the open step.
    fn mark(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<()> {
        let text: String = (text.extract()).map_err(|_| refused("text", "a text", text))?;
        work::detach(py, || self.session.mark(&text)).or_raise(py)
    }

    /// Gives the session another model of the same channels, outputs and step. It takes over once it has heard as much
    /// as it remembers.
    fn swap(&self, py: Python<'_>, model: &Bound<'_, PyAny>) -> PyResult<()> {
        let model = instance::<Model>("model", MODEL, model)?;
        let decoder = std::sync::Arc::clone(&model.get().inner);
        work::detach(py, || self.session.swap(&decoder)).or_raise(py)
    }

    /// Returns to the model before the last swap, at the next step and as if there had been none.
    fn roll_back(&self, py: Python<'_>) -> PyResult<()> {
        work::detach(py, || self.session.roll_back()).or_raise(py)
    }

    /// Gives the session the model that the online trainer proposes (`learn.mode = "propose"`), or that a window without labels
    /// suggests (`recalibrate.mode = "suggest"`); False if there is none.
    fn accept(&self, py: Python<'_>) -> PyResult<bool> {
        work::detach(py, || self.session.accept()).or_raise(py)
    }

    /// Hands rows (time, channels) to a source with `from = "push"`: voltage as int16, or with `sends = "steps"` one
    /// row of counts or features per step. `first`: device time of the first row; None: right after the newest ones.
    /// Rows between are lost. Waits for room, unless `wait` is False: then False is returned if there is none.
    #[pyo3(signature = (rows, *, first=None, wait=true))]
    fn push(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        first: Option<&Bound<'_, PyAny>>,
        wait: bool,
    ) -> PyResult<bool> {
        let first = first.filter(|s| !s.is_none());
        let first = first.map(|s| whole("first", s)).transpose()?;
        let first = first.map(|s| s as u64);
        refuse_masked("rows", rows)?;
        if let Ok(array) = rows.cast::<PyArray2<i16>>() {
            let values = array.try_readonly()?.as_array().iter().copied().collect();
            return self.push_rows(py, first, wait, array.shape(), &Values::Voltage(values));
        }
        let numbers = Numbers::<numpy::Ix2>::of("rows", rows)?;
        let values = to_f32(py, "rows", &numbers)?;
        self.push_rows(py, first, wait, numbers.shape(), &Values::Features(values))
    }

    /// Ends a source with `from = "push"`: the session decodes what was pushed, and is over then.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.session.pusher().or_raise(py)?.end();
        Ok(())
    }

    /// Names of the outputs.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.session.outputs().to_vec()
    }

    /// Length of a step in seconds.
    #[getter]
    fn step_seconds(&self) -> f64 {
        self.session.step_seconds()
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.Live: {}, {}, a step every {} s>",
            self.session.name(),
            count(self.session.outputs().len() as u128, "output"),
            self.session.step_seconds()
        )
    }

    /// Runs a recorded session again, as fast as possible, and compares every output with the recorded one, bit by bit.
    /// The dictionary has `equal`, `compared`, `different`, `first` (the first difference) and the outputs: `number`,
    /// and `values` (steps, outputs).
    #[staticmethod]
    fn replay<'py>(py: Python<'py>, folder: PathBuf) -> PyResult<Bound<'py, PyAny>> {
        let (mut numbers, mut values) = (Vec::new(), Vec::new());
        let (report, outputs) = work::run(py, None, |progress| {
            let replay = Replay::open(&folder)?;
            let outputs = replay.recording().model.outputs().len();
            let report = replay.run(&mut |step| {
                numbers.push(step.number);
                values.extend_from_slice(step.values);
                match progress.cancelled() {
                    true => Err(Error::new(ErrorKind::Interrupted, "replay: interrupted")),
                    false => Ok(()),
                }
            })?;
            Ok((report, outputs))
        })?;
        let told = json_object(py, &report)?;
        told.set_item("equal", report.is_equal())?;
        let values = values.into_pyarray(py).reshape([numbers.len(), outputs])?;
        told.set_item("number", numbers.into_pyarray(py))?;
        told.set_item("values", values)?;
        Ok(told)
    }
}

/// Rows that were copied from Python's arrays.
enum Values {
    Voltage(Vec<i16>),
    Features(Vec<f32>),
}

impl Live {
    /// Pushes rows as one block.
    fn push_rows(
        &self,
        py: Python<'_>,
        first: Option<u64>,
        wait: bool,
        shape: &[usize],
        values: &Values,
    ) -> PyResult<bool> {
        let channels = shape[1];
        let pusher = self.session.pusher().or_raise(py)?;
        let rows = match values {
            Values::Voltage(v) => Rows::Voltage(v),
            Values::Features(v) => Rows::Features(v),
        };
        if channels != pusher.channels() {
            return Err(raised(
                py,
                &Error::mismatch(format!(
                    "rows: expected {} channels, got {channels}",
                    pusher.channels()
                )),
            ));
        }
        let patience = if wait { LOOK } else { Duration::ZERO };
        loop {
            let taken = work::detach(py, || pusher.push(first, rows, patience));
            if taken.or_raise(py)? {
                return Ok(true);
            }
            if !wait {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }
}

/// The plan in a file or a dictionary, with changes.
fn read_plan(
    py: Python<'_>,
    plan: &Bound<'_, PyAny>,
    set: Option<&Bound<'_, PyAny>>,
) -> PyResult<Plan> {
    let mut changes = Vec::new();
    if let Some(set) = set.filter(|s| !s.is_none()) {
        let expected = "a dictionary, such as {\"voltage.threshold\": -4}";
        let set = set
            .cast::<PyMapping>()
            .map_err(|_| refused("set", expected, set))?;
        for item in set.items()?.iter() {
            let (key, value): (String, Bound<'_, PyAny>) = item.extract()?;
            changes.push(format!("{key}={}", toml_value(&key, &value)?));
        }
    }
    if let Ok(path) = plan.extract::<PathBuf>() {
        return Plan::read(&path, &changes).or_raise(py);
    }
    let expected = "the path of a plan, or a dictionary with its sections";
    let sections = plan
        .cast::<PyMapping>()
        .map_err(|_| refused("plan", expected, plan))?;
    let mut table = table_of("plan", sections)?;
    // One source may stand for the list of one.
    if let Some(source @ toml::Value::Table(_)) = table.get("source").cloned() {
        table.insert("source".into(), vec![source].into());
    }
    Plan::from_table(&table, &changes, &PathBuf::new()).or_raise(py)
}

/// A section of a plan.
fn table_of(name: &str, mapping: &Bound<'_, PyMapping>) -> PyResult<toml::Table> {
    let mut table = toml::Table::new();
    for item in mapping.items()?.iter() {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let key: String = (key.extract()).map_err(|_| refused(name, "keys as text", &key))?;
        // None is an absent key.
        if !value.is_none() {
            let value = toml_value(&format!("{name}.{key}"), &value)?;
            table.insert(key, value);
        }
    }
    Ok(table)
}

/// A value of a plan.
fn toml_value(name: &str, value: &Bound<'_, PyAny>) -> PyResult<toml::Value> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str()?.into());
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.into());
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(value.extract::<i64>()?.into());
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(value.extract::<f64>()?.into());
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        return Ok(table_of(name, mapping)?.into());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let entries = value.try_iter()?.enumerate();
        let list: PyResult<Vec<toml::Value>> = entries
            .map(|(i, entry)| toml_value(&format!("{name}[{i}]"), &entry?))
            .collect();
        return Ok(list?.into());
    }
    // NumPy's numbers, and paths.
    if let Ok(item) = value.call_method0("item") {
        return toml_value(name, &item);
    }
    if let Ok(path) = value.extract::<PathBuf>()
        && let Some(text) = path.to_str()
    {
        return Ok(text.into());
    }
    let expected = "text, a number, True or False, a path, a list or a dictionary";
    Err(refused(name, expected, value))
}

/// A report as a dictionary.
fn json_object<'py>(
    py: Python<'py>,
    report: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(report)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("writing JSON: {e}")))
        .or_raise(py)?;
    py.import("json")?.getattr("loads")?.call1((text,))
}
