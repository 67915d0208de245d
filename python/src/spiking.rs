//! `SpikingEngine`: a spiking network at work, for `betz.spiking.Network`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use betz::Error;
use betz::recording::{self as rust, Segment, SpikeForm, Spikes};
use betz::spiking::{
    CurrentRow, CurrentTable, Engine, Interpolation, ListedSynapse, Movement, Network, Options,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::OrRaise;
use crate::recording::Recording;
use crate::{options, work};

/// A spiking network at work; `betz.spiking.Network.build` makes one.
///
/// >>> import betz
/// >>> network = betz.spiking.Network()
/// >>> _ = network.population("e", 10, "izhikevich", current_pa=10.0)
/// >>> engine = network.build()
/// >>> engine.run(0.1)
/// >>> engine.steps, len(engine.counts())
/// (1000, 10)
#[pyclass(frozen, module = "betz")]
pub(crate) struct SpikingEngine {
    engine: Mutex<Engine>,
}

/// Synapses as four arrays: sources, targets, weights, delays in steps.
type Synapses<'py> = (
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<f32>>,
    Bound<'py, PyArray1<u32>>,
);

#[pymethods]
impl SpikingEngine {
    /// Builds the network that `description` describes in JSON.
    #[new]
    #[pyo3(signature = (description, *, threads=1, record=10_000_000, traces=Vec::new(), device="cpu", progress=None))]
    fn new(
        py: Python<'_>,
        description: &str,
        threads: usize,
        record: usize,
        traces: Vec<u32>,
        device: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let device = options::device(py, device)?;
        let engine = work::run(py, progress, |progress| {
            let network = Network::from_json(description)?;
            let options = Options {
                device,
                threads,
                record_spikes: record,
                record_potentials: traces,
                ..Options::default()
            };
            Engine::build(&network, &options, progress)
        })?;
        let warning = py.get_type::<PyUserWarning>();
        for weights in &engine.plan().rounded_weights {
            let text = std::ffi::CString::new(weights.to_string())?;
            PyErr::warn(py, &warning, &text, 2)?;
        }
        Ok(Self {
            engine: Mutex::new(engine),
        })
    }

    /// Runs the network for `seconds` of its own time, whole steps.
    #[pyo3(signature = (seconds, *, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        seconds: f64,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        work::run(py, progress, |progress| {
            let mut engine = self.engine();
            let steps = (engine.network().steps_of(seconds * 1e3)).map_err(|e| e.at("seconds"))?;
            engine.run(steps, progress)?;
            Ok(())
        })
    }

    /// Runs one step; the neurons that fire in it.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let mut fired = Vec::new();
        self.engine().step(&mut fired).or_raise(py)?;
        Ok(fired.into_pyarray(py))
    }

    /// Sets the currents in pA into the neurons of population number `population`, one per neuron.
    fn set_currents(
        &self,
        py: Python<'_>,
        population: usize,
        currents_pa: Vec<f64>,
    ) -> PyResult<()> {
        (self.engine().set_currents(population, &currents_pa)).or_raise(py)
    }

    /// Lets currents follow a table: `seconds` of each row, and `currents_pa` of it, one for all neurons or one per neuron.
    fn drive(
        &self,
        py: Python<'_>,
        population: usize,
        seconds: Vec<f64>,
        currents_pa: Vec<Vec<f64>>,
        linear: bool,
    ) -> PyResult<()> {
        if seconds.len() != currents_pa.len() {
            return Err(Error::mismatch(format!(
                "currents: expected a row for each of {} times, got {}",
                seconds.len(),
                currents_pa.len()
            )))
            .or_raise(py);
        }
        let rows = seconds
            .into_iter()
            .zip(currents_pa)
            .map(|(seconds, currents_pa)| {
                Ok(CurrentRow {
                    seconds,
                    currents_pa,
                })
            });
        let interpolation = match linear {
            true => Interpolation::Linear,
            false => Interpolation::Hold,
        };
        let mut engine = self.engine();
        let step_ms = engine.network().step_ms;
        let table = CurrentTable::new(rows, "currents", step_ms, interpolation);
        engine.drive(population, Box::new(table)).or_raise(py)
    }

    /// Lets the tuned populations follow a movement: `positions`, x and y each, from `seconds` on. It repeats; the last one holds
    /// as long as the one before it.
    fn follow(&self, py: Python<'_>, seconds: Vec<f64>, positions: Vec<[f32; 2]>) -> PyResult<()> {
        if seconds.len() != positions.len() {
            return Err(Error::mismatch(format!(
                "movement: expected a position for each of {} times, got {}",
                seconds.len(),
                positions.len()
            )))
            .or_raise(py);
        }
        let mut engine = self.engine();
        let rows: Vec<(f64, [f32; 2])> = seconds.into_iter().zip(positions).collect();
        let movement = Movement::from_seconds(&rows, engine.network().step_ms).or_raise(py)?;
        engine.follow(&movement).or_raise(py)
    }

    /// Lets neurons of source populations fire in the next step.
    fn emit(&self, py: Python<'_>, neurons: Vec<u32>) -> PyResult<()> {
        self.engine().emit(&neurons).or_raise(py)
    }

    /// Adds dopamine.
    fn reward(&self, py: Python<'_>, amount: f64) -> PyResult<()> {
        self.engine().reward(amount).or_raise(py)
    }

    /// Synapses of projection number `projection` now: sources, targets, weights, delays in steps.
    fn synapses<'py>(&self, py: Python<'py>, projection: usize) -> PyResult<Synapses<'py>> {
        let list = self.engine().weights(projection).or_raise(py)?;
        let array = |value: fn(&ListedSynapse) -> u32| {
            list.iter().map(value).collect::<Vec<_>>().into_pyarray(py)
        };
        let weights: Vec<f32> = list.iter().map(|s| s.weight).collect();
        Ok((
            array(|s| s.source),
            array(|s| s.target),
            weights.into_pyarray(py),
            array(|s| s.delay_steps),
        ))
    }

    /// Drawn values of a parameter of population number `population`.
    fn parameters<'py>(
        &self,
        py: Python<'py>,
        population: usize,
        name: &str,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let values = self.engine().parameters(population, name).or_raise(py)?;
        Ok(values.into_pyarray(py))
    }

    /// Spikes of each neuron so far.
    fn counts<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        self.engine().counts().into_pyarray(py)
    }

    /// Membrane potentials in mV of each traced neuron after each step, by neuron.
    fn potentials<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let potentials = PyDict::new(py);
        for (neuron, values) in self.engine().potentials() {
            potentials.set_item(neuron, values.to_vec().into_pyarray(py))?;
        }
        Ok(potentials)
    }

    /// Recorded spikes as a recording: a channel per neuron, a tick per step.
    fn recording(&self) -> Recording {
        let engine = self.engine();
        Recording {
            inner: Arc::new(recording_of(&engine)),
        }
    }

    /// Rates of the populations in Hz since the start, by name.
    fn rates<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let engine = self.engine();
        let (network, counts) = (engine.network(), engine.counts());
        let seconds = (engine.steps() as f64 * network.step_ms * 1e-3).max(f64::MIN_POSITIVE);
        let firsts = network.firsts();
        let rates = PyDict::new(py);
        for (p, population) in network.populations.iter().enumerate() {
            let own = &counts[firsts[p] as usize..firsts[p + 1] as usize];
            let spikes: u64 = own.iter().map(|c| u64::from(*c)).sum();
            let neurons = f64::from(population.neurons.max(1));
            rates.set_item(&population.name, spikes as f64 / neurons / seconds)?;
        }
        Ok(rates)
    }

    /// Steps so far.
    #[getter]
    fn steps(&self) -> u64 {
        self.engine().steps()
    }

    /// A hash of all spikes: equal on any number of threads.
    #[getter]
    fn hash(&self) -> u64 {
        self.engine().hash()
    }

    /// Synapses there are.
    #[getter]
    fn synapse_count(&self) -> u64 {
        self.engine().synapses()
    }

    /// The device that the network runs on.
    #[getter]
    fn device(&self) -> String {
        self.engine().ran().device.clone()
    }
}

impl SpikingEngine {
    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn recording_of(engine: &Engine) -> rust::Recording {
    let network = engine.network();
    let spikes = engine.spikes();
    let ticks = engine.steps() as i64;
    let names = (network.populations.iter())
        .flat_map(|p| (0..p.neurons).map(move |i| format!("{}{i}", p.name)));
    rust::Recording {
        tick_seconds: network.step_ms * 1e-3,
        ticks,
        spikes: Spikes::new(
            spikes.iter().map(|s| s.step as i64).collect(),
            spikes.iter().map(|s| s.neuron).collect(),
        ),
        channel_names: names.collect(),
        behavior: None,
        segments: vec![Segment {
            start: 0,
            stop: ticks,
        }],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    }
}

/// Neuron models: name, equations, parameters (name, default, low, high, meaning).
#[pyfunction]
pub(crate) fn neuron_models(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let models = PyDict::new(py);
    for model in betz::spiking::neuron_models() {
        let parameters: Vec<_> = (model.parameters.iter())
            .map(|p| (p.name, p.default, p.low, p.high, p.text))
            .collect();
        models.set_item(model.name, (model.text, parameters))?;
    }
    Ok(models)
}
