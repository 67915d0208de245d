//! Recordings whose truth is known, and spiking networks.

use std::sync::Arc;

use betz::simulate as rust;
use betz::simulate::network::NetworkConfig;
use betz::simulate::population::PopulationConfig;
use betz::spiking::{self, Engine, Options};
use betz::{Error, recording};
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::recording::Recording;
use crate::{options, work};

fn shown(recording: recording::Recording) -> Recording {
    Recording {
        inner: Arc::new(recording),
    }
}

/// Tuned leaky integrate-and-fire neurons that follow a movement in two dimensions: a recording to train on and one
/// to test on (Galbraith 2010, §5.2).
///
/// >>> import betz
/// >>> train, test = betz.simulate.population(neurons=20, train_seconds=4, test_seconds=1, seed=1)
/// >>> train.channels, test.seconds, test.behavior_names
/// (20, 1.0, ['x', 'y'])
#[pyfunction]
#[pyo3(signature = (*, neurons=150, train_seconds=100.0, test_seconds=10.0, band_hz=5.0, step_seconds=0.00025, seed=0))]
fn population(
    py: Python<'_>,
    neurons: usize,
    train_seconds: f64,
    test_seconds: f64,
    band_hz: f64,
    step_seconds: f64,
    seed: u64,
) -> PyResult<(Recording, Recording)> {
    let config = PopulationConfig {
        neurons,
        step_seconds,
        train_seconds,
        test_seconds,
        band_hz,
        ..PopulationConfig::default()
    };
    let made = work::run(py, None, |_| rust::population::simulate(&config, seed))?;
    Ok((shown(made.train), shown(made.test)))
}

/// Neurons that fire at random, with chains hidden among them: the recording, and the neurons of each chain in the
/// order in which they fire.
#[pyfunction]
#[pyo3(signature = (*, seconds=10.0, neurons=26, seed=0))]
fn chains(
    py: Python<'_>,
    seconds: f64,
    neurons: usize,
    seed: u64,
) -> PyResult<(Recording, Vec<Vec<u32>>)> {
    let made = work::run(py, None, |_| {
        let config = match neurons {
            26 => NetworkConfig::sym26(),
            64 => NetworkConfig::sym64(seconds),
            _ => {
                return Err(Error::argument(format!(
                    "neurons: expected 26 or 64, got {neurons}"
                )));
            }
        };
        rust::network::simulate(&NetworkConfig { seconds, ..config }, seed)
    })?;
    let chains = made.chains.into_iter().map(|chain| chain.nodes).collect();
    Ok((shown(made.recording), chains))
}

/// A spiking network by name ("pd14", "brunel", "cuba"), run for `seconds` of its own time. Of one seed the spikes are
/// the same on any number of threads and on a GPU.
///
/// Returns a dictionary: `neurons`, `synapses`, `steps`, `spikes`, `hash`, `rtf` (seconds for a second of the network's
/// time), `rates_hz` by population, `counts` (spikes of each neuron, uint32), and with `record` > 0 the first so many
/// spikes, `spike_steps` and `spike_neurons`, and `left_out`, how many more there were.
///
/// >>> import betz
/// >>> report = betz.simulate.spiking("cuba", 0.1, seed=1)
/// >>> report["neurons"], report["steps"], bool(report["counts"].sum() == report["spikes"])
/// (4000, 1000, True)
#[pyfunction]
#[pyo3(name = "spiking", signature = (model, seconds, *, scale=1.0, seed=0, threads=1, record=0, device="cpu", progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
fn run_spiking<'py>(
    py: Python<'py>,
    model: &str,
    seconds: f64,
    scale: f64,
    seed: u64,
    threads: usize,
    record: usize,
    device: &str,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let device = options::device(py, device)?;
    let (report, counts, spikes) = work::run(py, progress, |progress| {
        let network = spiking::models::by_name(model, scale, seed)?;
        let steps = (seconds * 1e3 / network.step_ms).round();
        if !(0.0..=1e15).contains(&steps) {
            return Err(Error::argument(format!(
                "seconds: expected a finite time from 0 on, got {seconds}"
            )));
        }
        let options = Options {
            device,
            threads,
            record_spikes: record,
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, progress)?;
        let report = engine.run(steps as u64, progress)?;
        betz::progress::check(progress, "simulation")?;
        Ok((report, engine.counts(), engine.spikes()))
    })?;
    let dict = PyDict::new(py);
    dict.set_item("neurons", report.neurons)?;
    dict.set_item("synapses", report.synapses)?;
    dict.set_item("steps", report.steps)?;
    dict.set_item("spikes", report.spikes)?;
    dict.set_item("hash", report.hash)?;
    dict.set_item("seconds", report.seconds)?;
    dict.set_item("rtf", report.rtf)?;
    dict.set_item("device", report.device)?;
    dict.set_item(
        "rates_hz",
        report
            .rates_hz
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>(),
    )?;
    dict.set_item("counts", counts.into_pyarray(py))?;
    if record > 0 {
        let (steps, neurons): (Vec<u64>, Vec<u32>) =
            spikes.iter().map(|s| (s.step, s.neuron)).unzip();
        dict.set_item("spike_steps", steps.into_pyarray(py))?;
        dict.set_item("spike_neurons", neurons.into_pyarray(py))?;
        dict.set_item("left_out", report.spikes_left_out)?;
    }
    Ok(dict)
}

/// `betz.simulate`.
pub(crate) fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let module = PyModule::new(py, "simulate")?;
    module.add_function(wrap_pyfunction!(population, &module)?)?;
    module.add_function(wrap_pyfunction!(chains, &module)?)?;
    module.add_function(wrap_pyfunction!(run_spiking, &module)?)?;
    Ok(module)
}
