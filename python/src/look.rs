//! `betz.look`: what a recording shows before anything is trained on it.

use betz::explore::{
    self as rust, Events, IntervalOptions, QualityOptions, TuningOptions, Variable, VectorSource,
    Window,
};
use betz::recording as recordings;
use numpy::{IntoPyArray, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::arguments::{instance, refused, texts};
use crate::arrays::{floats, integers};
use crate::dataset::Dataset;
use crate::error::OrRaise;
use crate::recording::{RECORDING, Recording};
use crate::work;

/// Step of behaviour for tuning curves where none is given.
const STEP_SECONDS: f64 = 0.05;

/// Arrays and numbers by name.
type NamedArrays<'py> = PyResult<Bound<'py, PyDict>>;

fn recording<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<&'a recordings::Recording> {
    let recording = instance::<Recording>("recording", RECORDING, object)?;
    Ok(&recording.get().inner)
}

/// Numbers of the channels that are asked for by name or number; None: all.
fn channels(names: &[String], asked: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<usize>> {
    let Some(asked) = asked.filter(|asked| !asked.is_none()) else {
        return Ok((0..names.len()).collect());
    };
    let named = |name: &String| {
        names.iter().position(|own| own == name).ok_or_else(|| {
            let some: Vec<&str> = names.iter().take(5).map(String::as_str).collect();
            let some = some.join(", ");
            PyValueError::new_err(format!(
                "channels: expected names of the recording's channels, such as {some}, got {name:?}"
            ))
        })
    };
    let list = match asked.is_instance_of::<PyString>() || asked.extract::<i64>().is_ok() {
        true => PyList::new(asked.py(), [asked])?.into_any(),
        false => asked.clone(),
    };
    if let Ok(asked) = texts("channels", &list) {
        return asked.iter().map(named).collect();
    }
    let numbers = integers("channels", &list)?;
    let number = |number: i64| {
        let found = usize::try_from(number).ok().filter(|n| *n < names.len());
        found.ok_or_else(|| {
            let last = names.len().saturating_sub(1);
            PyValueError::new_err(format!(
                "channels: expected numbers from 0 to {last}, got {number}"
            ))
        })
    };
    numbers.into_iter().map(number).collect()
}

/// Events as an argument: starts (None) or stops of trials, or times in seconds.
fn events(recording: &recordings::Recording, asked: Option<&Bound<'_, PyAny>>) -> PyResult<Events> {
    let Some(asked) = asked.filter(|asked| !asked.is_none()) else {
        return Ok(Events::segment_starts(recording));
    };
    if let Ok(name) = asked.extract::<String>() {
        return match name.as_str() {
            "starts" => Ok(Events::segment_starts(recording)),
            "stops" => Ok(Events::segment_stops(recording)),
            _ => Err(PyValueError::new_err(format!(
                "events: expected \"starts\" or \"stops\" of trials, or times in seconds, got {name:?}"
            ))),
        };
    }
    let seconds = floats("events", asked)?;
    Events::from_seconds(recording, "events", &seconds).or_raise(asked.py())
}

fn matrix<'py>(
    py: Python<'py>,
    values: Vec<f64>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(values.into_pyarray(py).reshape([rows, columns])?.into_any())
}

/// Names of `channels`.
fn named(recording: &recordings::Recording, channels: &[usize]) -> Vec<String> {
    let name = |channel: &usize| recording.channel_names[*channel].clone();
    channels.iter().map(name).collect()
}

/// Mean firing rates around events (a peri-stimulus time histogram). A dictionary: `times` (starts of bins, seconds after
/// the event), `channels` (names), `mean_hz` and `error_hz` (standard error), both (channels, bins), `fano` (per channel),
/// `events` (number used), `left_out` (windows beyond the recording), `outside_segments`.
///
/// `events`: "starts" (None) or "stops" of trials, or times in seconds. `channels`: names or numbers; None: all.
///
/// >>> import betz
/// >>> recording = betz.Recording.from_spikes([200, 1200], [0, 0], 0.001, segments=[(0, 1000), (1000, 2000)])
/// >>> found = betz.look.psth(recording, "starts", start=0, stop=0.5, bin=0.1)
/// >>> found["mean_hz"].tolist()
/// [[0.0, 0.0, 10.0, 0.0, 0.0]]
#[pyfunction]
#[pyo3(signature = (recording, events=None, *, channels=None, start=-0.5, stop=1.0, bin=0.01))]
fn psth<'py>(
    py: Python<'py>,
    recording: &Bound<'py, PyAny>,
    events: Option<&Bound<'py, PyAny>>,
    channels: Option<&Bound<'py, PyAny>>,
    start: f64,
    stop: f64,
    bin: f64,
) -> NamedArrays<'py> {
    let recording = self::recording(recording)?;
    let channels = self::channels(&recording.channel_names, channels)?;
    let events = self::events(recording, events)?;
    let window = Window {
        start_seconds: start,
        stop_seconds: stop,
        bin_seconds: bin,
    };
    let found = work::run(py, None, |_| {
        rust::psth(recording, &channels, &events, &window)
    })?;
    let dict = PyDict::new(py);
    dict.set_item("times", found.times().into_pyarray(py))?;
    dict.set_item("channels", named(recording, &channels))?;
    let rows = channels.len();
    dict.set_item("mean_hz", matrix(py, found.mean_hz, rows, found.bins)?)?;
    dict.set_item("error_hz", matrix(py, found.error_hz, rows, found.bins)?)?;
    dict.set_item("fano", found.fano.into_pyarray(py))?;
    dict.set_item("events", found.events)?;
    dict.set_item("left_out", found.left_out)?;
    dict.set_item("outside_segments", found.outside_segments)?;
    Ok(dict)
}

/// Spikes of one channel around events (a peri-event raster). A dictionary: `rows` (event of each spike), `seconds` (after
/// the event), `events` (number used), `left_out`. Arguments as for `psth`.
///
/// >>> import betz
/// >>> recording = betz.Recording.from_spikes([200, 1200], [0, 0], 0.001, segments=[(0, 1000), (1000, 2000)])
/// >>> betz.look.raster(recording, 0, start=0, stop=0.5)["seconds"].tolist()
/// [0.2, 0.2]
#[pyfunction]
#[pyo3(signature = (recording, channel, events=None, *, start=-0.5, stop=1.0))]
fn raster<'py>(
    py: Python<'py>,
    recording: &Bound<'py, PyAny>,
    channel: &Bound<'py, PyAny>,
    events: Option<&Bound<'py, PyAny>>,
    start: f64,
    stop: f64,
) -> NamedArrays<'py> {
    let recording = self::recording(recording)?;
    let channels = self::channels(&recording.channel_names, Some(channel))?;
    let [channel] = channels[..] else {
        let message = format!("channel: expected one, got {}", channels.len());
        return Err(PyValueError::new_err(message));
    };
    let events = self::events(recording, events)?;
    let window = Window {
        start_seconds: start,
        stop_seconds: stop,
        bin_seconds: stop - start,
    };
    let found = work::run(py, None, |_| {
        rust::raster(recording, channel, &events, &window)
    })?;
    let dict = PyDict::new(py);
    dict.set_item("rows", found.rows.into_pyarray(py))?;
    dict.set_item("seconds", found.seconds.into_pyarray(py))?;
    dict.set_item("events", found.events)?;
    dict.set_item("left_out", found.left_out)?;
    Ok(dict)
}

/// The variable of a tuning curve.
fn variable(
    dataset: &recordings::Dataset,
    asked: &Bound<'_, PyAny>,
    of: VectorSource,
) -> PyResult<Variable> {
    let output = |name: &str| {
        let found = dataset.outputs.iter().position(|o| o.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = dataset.outputs.iter().map(|o| o.name.as_str()).collect();
            PyValueError::new_err(format!(
                "variable: expected \"direction\", \"speed\" or an output, one of {}, got {name:?}",
                names.join(", ")
            ))
        })
    };
    let names: Vec<String> = match asked.extract::<String>() {
        Ok(name) => vec![name],
        Err(_) => texts("variable", asked)?,
    };
    let first_two = || match dataset.outputs.len() {
        0 | 1 => Err(PyValueError::new_err(
            "variable: expected two outputs for a direction or a speed, got fewer; name one output instead",
        )),
        _ => Ok((0, 1)),
    };
    let vector = |rest: &[String]| match rest {
        [] => first_two(),
        [x, y] => Ok((output(x)?, output(y)?)),
        _ => Err(refused("variable", "two outputs after its kind", asked)),
    };
    match &names[..] {
        [kind, rest @ ..] if kind == "direction" => {
            vector(rest).map(|(x, y)| Variable::Direction { x, y, of })
        }
        [kind, rest @ ..] if kind == "speed" => {
            vector(rest).map(|(x, y)| Variable::Speed { x, y, of })
        }
        [name] => Ok(Variable::Output(output(name)?)),
        [x, y] => Ok(Variable::Map {
            x: output(x)?,
            y: output(y)?,
        }),
        _ => Err(refused("variable", "one output, or two for a map", asked)),
    }
}

/// Firing rates by behaviour (tuning curves). A dictionary: `channels` (names), `axes` (one or two dictionaries of `name`,
/// `unit`, `edges`, `centres`), `rate_hz` (channels, bins; a map's bins row by row), `occupancy_seconds` (bins), `peak_hz`,
/// `bits_per_spike`, and `cosine` for a direction: `preferred` (radians), `depth_hz`, `offset_hz`, `r2` per channel.
///
/// `variable`: "direction" or "speed" of the first two outputs, ("direction", x, y) of others, one output's name, or two for
/// a map. `derivative`: the outputs are positions, and direction and speed are of their velocity. `data`: a Recording, which
/// is put on steps of `step_seconds` (None: 0.05 s, or the bins of counts), or a Dataset. `lag_seconds`: behaviour so much
/// after the spikes.
///
/// >>> import betz
/// >>> train, _ = betz.simulate.population(neurons=20, train_seconds=20, test_seconds=1, seed=1)
/// >>> found = betz.look.tuning(train, "direction", derivative=True)
/// >>> found["rate_hz"].shape
/// (20, 8)
#[pyfunction]
#[pyo3(signature = (data, variable, *, channels=None, bins=8, range=None, lag_seconds=0.0, min_speed=0.0, min_occupancy_seconds=0.0, derivative=false, step_seconds=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
fn tuning<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    variable: &Bound<'py, PyAny>,
    channels: Option<&Bound<'py, PyAny>>,
    bins: usize,
    range: Option<(f64, f64)>,
    lag_seconds: f64,
    min_speed: f64,
    min_occupancy_seconds: f64,
    derivative: bool,
    step_seconds: Option<f64>,
) -> NamedArrays<'py> {
    let usual = match data.cast::<Recording>() {
        Ok(recording) if recording.get().inner.form == recordings::SpikeForm::Events => {
            STEP_SECONDS.max(recording.get().inner.tick_seconds)
        }
        Ok(recording) => recording.get().inner.tick_seconds,
        Err(_) => STEP_SECONDS,
    };
    let data = Dataset::of_argument(data, step_seconds.unwrap_or(usual))?;
    let dataset = &data.get().inner;
    let channels = self::channels(&dataset.channel_names, channels)?;
    let of = match derivative {
        true => VectorSource::Derivative,
        false => VectorSource::Values,
    };
    let variable = self::variable(dataset, variable, of)?;
    let options = TuningOptions {
        bins,
        range,
        lag_steps: (lag_seconds / dataset.step_seconds).round() as i64,
        min_speed,
        min_occupancy_seconds,
    };
    let found = work::run(py, None, |_| {
        rust::tuning(dataset, &channels, variable, &options)
    })?;
    let dict = PyDict::new(py);
    let names: Vec<&String> = channels
        .iter()
        .map(|c| &dataset.channel_names[*c])
        .collect();
    dict.set_item("channels", names)?;
    let axes = PyList::empty(py);
    for axis in &found.axes {
        let of_axis = PyDict::new(py);
        of_axis.set_item("name", &axis.name)?;
        of_axis.set_item("unit", &axis.unit)?;
        of_axis.set_item("edges", axis.edges.clone().into_pyarray(py))?;
        of_axis.set_item("centres", axis.centres().into_pyarray(py))?;
        axes.append(of_axis)?;
    }
    dict.set_item("axes", axes)?;
    let per_channel = |value: fn(&rust::Curve) -> f64| {
        let values: Vec<f64> = found.curves.iter().map(value).collect();
        values.into_pyarray(py)
    };
    dict.set_item("peak_hz", per_channel(|c| c.peak_hz))?;
    dict.set_item("bits_per_spike", per_channel(|c| c.bits_per_spike))?;
    if found.curves.iter().any(|curve| curve.cosine.is_some()) {
        dict.set_item("cosine", cosines(py, &found.curves)?)?;
    }
    let bins = found.bins();
    dict.set_item("rate_hz", matrix(py, found.rate_hz, channels.len(), bins)?)?;
    dict.set_item(
        "occupancy_seconds",
        found.occupancy_seconds.into_pyarray(py),
    )?;
    dict.set_item("steps_without_value", found.steps_without_value)?;
    dict.set_item("steps_outside", found.steps_outside)?;
    Ok(dict)
}

/// The cosine of each curve; NaN for one without.
fn cosines<'py>(py: Python<'py>, curves: &[rust::Curve]) -> NamedArrays<'py> {
    let cosine = PyDict::new(py);
    let fit = |value: fn(&rust::CosineFit) -> f64| {
        let of = |c: &rust::Curve| c.cosine.as_ref().map_or(f64::NAN, value);
        let values: Vec<f64> = curves.iter().map(of).collect();
        values.into_pyarray(py)
    };
    cosine.set_item("preferred", fit(|c| c.preferred))?;
    cosine.set_item("depth_hz", fit(|c| c.depth_hz))?;
    cosine.set_item("offset_hz", fit(|c| c.offset_hz))?;
    cosine.set_item("r2", fit(|c| c.r2))?;
    Ok(cosine)
}

/// Intervals between consecutive spikes, inside trials. A dictionary: `channels` (names), `counts` (channels, bins of `bin`
/// seconds), `longer` (number of intervals beyond `longest` seconds), `mean_seconds`, `cv`, `lv` (local variation).
///
/// >>> import betz
/// >>> recording = betz.Recording.from_spikes([100, 110, 120, 130], [0, 0, 0, 0], 0.001)
/// >>> found = betz.look.isi(recording)
/// >>> int(found["counts"][0, 10]), float(found["cv"][0])
/// (3, 0.0)
#[pyfunction]
#[pyo3(signature = (recording, *, channels=None, bin=0.001, longest=0.1))]
fn isi<'py>(
    py: Python<'py>,
    recording: &Bound<'py, PyAny>,
    channels: Option<&Bound<'py, PyAny>>,
    bin: f64,
    longest: f64,
) -> NamedArrays<'py> {
    let recording = self::recording(recording)?;
    let channels = self::channels(&recording.channel_names, channels)?;
    let options = IntervalOptions {
        bin_seconds: bin,
        longest_seconds: longest,
    };
    let found = work::run(py, None, |_| {
        rust::intervals(recording, &channels, &options)
    })?;
    let dict = PyDict::new(py);
    dict.set_item("channels", named(recording, &channels))?;
    let counts = found.counts.into_pyarray(py);
    dict.set_item("counts", counts.reshape([channels.len(), found.bins])?)?;
    dict.set_item("longer", found.longer.into_pyarray(py))?;
    dict.set_item("mean_seconds", found.mean_seconds.into_pyarray(py))?;
    dict.set_item("cv", found.cv.into_pyarray(py))?;
    dict.set_item("lv", found.lv.into_pyarray(py))?;
    Ok(dict)
}

/// Fano factors, variance over mean of the spike counts in windows of `window` seconds inside trials: float64, one per
/// channel.
///
/// >>> import betz
/// >>> recording = betz.Recording.from_spikes([100, 1100], [0, 0], 0.001, duration_ticks=2000)
/// >>> betz.look.fano(recording, window=1.0).tolist()
/// [0.0]
#[pyfunction]
#[pyo3(signature = (recording, *, channels=None, window=0.1))]
fn fano<'py>(
    py: Python<'py>,
    recording: &Bound<'py, PyAny>,
    channels: Option<&Bound<'py, PyAny>>,
    window: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let recording = self::recording(recording)?;
    let channels = self::channels(&recording.channel_names, channels)?;
    let found = work::run(py, None, |_| rust::fano(recording, &channels, window))?;
    Ok(found.into_pyarray(py).into_any())
}

/// Quality of units: one dictionary per channel of `name`, `spikes`, `rate_hz`, `presence` (share of `parts` of the recording
/// with a spike), `refractory_violations` (intervals below `refractory` seconds; None for counts), `violation_share`,
/// `contamination`, `cv`, `lv` and `fano`.
///
/// >>> import betz
/// >>> recording = betz.Recording.from_spikes([100, 101, 900, 1700], [0, 0, 0, 0], 0.001, duration_ticks=2000)
/// >>> betz.look.quality(recording)[0]["refractory_violations"]
/// 1
#[pyfunction]
#[pyo3(signature = (recording, *, channels=None, refractory=0.0015, parts=100, fano_window=0.1))]
fn quality<'py>(
    py: Python<'py>,
    recording: &Bound<'py, PyAny>,
    channels: Option<&Bound<'py, PyAny>>,
    refractory: f64,
    parts: usize,
    fano_window: f64,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let recording = self::recording(recording)?;
    let channels = self::channels(&recording.channel_names, channels)?;
    let options = QualityOptions {
        refractory_seconds: refractory,
        presence_parts: parts,
        fano_seconds: fano_window,
    };
    let found = work::run(py, None, |_| rust::quality(recording, &channels, &options))?;
    let dict = |unit: rust::UnitQuality| {
        let dict = PyDict::new(py);
        dict.set_item("channel", unit.channel)?;
        dict.set_item("name", unit.name)?;
        dict.set_item("refractory_violations", unit.refractory_violations)?;
        for (name, value) in [
            ("spikes", unit.spikes),
            ("rate_hz", unit.rate_hz),
            ("presence", unit.presence),
            ("violation_share", unit.violation_share),
            ("contamination", unit.contamination),
            ("cv", unit.cv),
            ("lv", unit.lv),
            ("fano", unit.fano),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    };
    found.into_iter().map(dict).collect()
}

/// `betz.look`.
pub(crate) fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let module = PyModule::new(py, "look")?;
    module.add_function(wrap_pyfunction!(psth, &module)?)?;
    module.add_function(wrap_pyfunction!(raster, &module)?)?;
    module.add_function(wrap_pyfunction!(tuning, &module)?)?;
    module.add_function(wrap_pyfunction!(isi, &module)?)?;
    module.add_function(wrap_pyfunction!(fano, &module)?)?;
    module.add_function(wrap_pyfunction!(quality, &module)?)?;
    Ok(module)
}
