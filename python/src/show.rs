//! `PageServer`: a recording on a page in the browser or in a notebook.

use std::sync::{Arc, Mutex};

use betz::Result;
use betz::device::Device;
use betz::input_form;
use betz::model::{Decoder, decode_on};
use betz::recording::{self as rust, AlignOptions};
use betz_monitor::{DecodedRecording, Monitor, Options, Source, SpikeTimes};
use pyo3::prelude::*;

use crate::arguments::instance;
use crate::dataset::usual_step;
use crate::model::{MODEL, Model};
use crate::recording::{RECORDING, Recording};
use crate::work;

/// A server of a recording's page on this machine's loopback; `betz.show` starts it and puts the page into a notebook.
///
/// Both addresses contain a token of 256 bits that is valid until `stop`. The page only shows; it changes nothing.
#[pyclass(frozen, module = "betz")]
pub(crate) struct PageServer {
    /// `None` after `stop`.
    monitor: Mutex<Option<Monitor>>,
    /// Address for a browser of this machine, with the token.
    #[pyo3(get)]
    url: String,
    /// Address for a frame in a page of this machine, with the token.
    #[pyo3(get)]
    embedded_url: String,
}

/// A recording on the page's steps.
fn undecoded(recording: &rust::Recording, name: &str) -> Result<DecodedRecording> {
    let step_seconds = usual_step(recording);
    let (dataset, times) = aligned(recording.clone(), step_seconds)?;
    Ok(DecodedRecording {
        times,
        left_out: Vec::new(),
        source: Source {
            name: name.to_owned(),
            channel_names: dataset.channel_names.clone(),
            electrode_um: recording.electrode_um.clone(),
            outputs: dataset.outputs.clone(),
            step_seconds,
            speed: 1.0,
            deadline: None,
            model: None,
        },
        dataset,
        estimates: Vec::new(),
        probabilities: Vec::new(),
        delay_steps: 0,
    })
}

/// A recording on a model's steps, with the model's estimates.
fn decoded(recording: &rust::Recording, name: &str, decoder: &Decoder) -> Result<DecodedRecording> {
    input_form::check(decoder, recording.form)?;
    let recording = recording.clone().with_channels(decoder.channel_names())?;
    let electrode_um = recording.electrode_um.clone();
    let (dataset, times) = aligned(recording, decoder.step_seconds())?;
    let dataset = input_form::with_behavior(decoder, dataset)?;
    let estimates = decode_on(&Device::cpu(), decoder, &dataset)?.estimates;
    let probabilities = match decoder.kind() {
        "gated" => betz::train::class_probabilities(decoder, &dataset)?,
        _ => Vec::new(),
    };
    let mut source = Source::of("model", decoder);
    source.name = name.to_owned();
    source.electrode_um = electrode_um;
    Ok(DecodedRecording {
        times,
        left_out: Vec::new(),
        source,
        dataset,
        estimates,
        probabilities,
        delay_steps: decoder.delay_steps(),
    })
}

fn aligned(
    recording: rust::Recording,
    step_seconds: f64,
) -> Result<(rust::Dataset, Option<SpikeTimes>)> {
    let options = AlignOptions {
        step_seconds,
        max_gap_seconds: None,
    };
    SpikeTimes::align(recording, step_seconds, |recording| {
        recording
            .align_with(&options)
            .map(|(dataset, _report)| dataset)
    })
}

#[pymethods]
impl PageServer {
    /// Starts a server for `recording`, with the estimates of `model` if that is not None.
    #[new]
    #[pyo3(signature = (recording, model=None, *, name="recording"))]
    fn new(
        py: Python<'_>,
        recording: &Bound<'_, PyAny>,
        model: Option<&Bound<'_, PyAny>>,
        name: &str,
    ) -> PyResult<Self> {
        let recording = instance::<Recording>("recording", RECORDING, recording)?;
        let recording = Arc::clone(&recording.get().inner);
        let decoder = match model {
            Some(model) => Some(Arc::clone(
                &instance::<Model>("model", MODEL, model)?.get().inner,
            )),
            None => None,
        };
        let monitor = work::run(py, None, |_| {
            let shown = match &decoder {
                Some(decoder) => decoded(&recording, name, decoder)?,
                None => undecoded(&recording, name)?,
            };
            let options = Options {
                embed: true,
                ..Options::default()
            };
            Monitor::open(vec![shown], options)
        })?;
        Ok(Self {
            url: monitor.url().to_owned(),
            embedded_url: monitor.embedded_url().unwrap_or_default(),
            monitor: Mutex::new(Some(monitor)),
        })
    }

    /// True until `stop`.
    #[getter]
    fn running(&self) -> bool {
        self.monitor.lock().is_ok_and(|monitor| monitor.is_some())
    }

    /// Ends the server and waits for its thread. A second call does nothing.
    fn stop(&self, py: Python<'_>) {
        let monitor = self.monitor.lock().ok().and_then(|mut m| m.take());
        work::detach(py, || drop(monitor));
    }
}
