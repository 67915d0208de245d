//! Form of a model's training data, spikes or a signal. It is an optional section of the model file, so that Betz can
//! refuse a recording of the other form.

use betz_base::{Error, Result};
use betz_recording::{Dataset, SpikeForm};
use betz_runtime::model::{Attachment, Decoder};

const TAG: [u8; 4] = *b"form";
const SIGNAL: &[u8] = b"signal";
const SPIKES: &[u8] = b"spikes";

/// Content of the section; counts are spikes.
fn name(form: SpikeForm) -> &'static [u8] {
    match form {
        SpikeForm::Signal => SIGNAL,
        SpikeForm::Counts | SpikeForm::Events => SPIKES,
    }
}

/// `model` with a section for the form of its training data.
///
/// # Errors
/// As [`Decoder::new`].
pub fn marked(model: Decoder, form: SpikeForm) -> Result<Decoder> {
    let mut parts = model.into_parts();
    parts.attachments.retain(|a| a.tag != TAG);
    parts.attachments.push(Attachment {
        tag: TAG,
        bytes: name(form).to_vec(),
    });
    Decoder::new(parts)
}

/// True if `model` was trained on a signal.
pub fn is_of_signal(model: &Decoder) -> bool {
    model.attachment(TAG) == Some(SIGNAL)
}

/// Refuses spikes for a model of a signal, and a signal for one of spikes. A model without the section, made elsewhere,
/// takes both.
///
/// # Errors
/// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording).
pub fn check(model: &Decoder, form: SpikeForm) -> Result<()> {
    let described = |of: &[u8]| match of {
        SIGNAL => "a signal (`signal`)",
        _ => "spikes (`counts`, or `spike_ticks` and `spike_channels`)",
    };
    match model.attachment(TAG) {
        Some(trained_on) if trained_on != name(form) => Err(Error::recording(format!(
            "expected {}, which the model was trained on, got {}",
            described(trained_on),
            described(name(form))
        ))),
        _ => Ok(()),
    }
}

/// `dataset` with the outputs of `decoder` as its behaviour, in their order. Without behaviour if it has none, or if the
/// decoder's outputs are probabilities of classes and the recording has no columns of their names.
///
/// # Errors
/// The errors of [`Dataset::with_outputs`].
pub fn with_behavior(decoder: &Decoder, dataset: Dataset) -> Result<Dataset> {
    let has = |name: &String| dataset.outputs.iter().any(|output| output.name == *name);
    let outputs = decoder.outputs();
    let is_of_labels = decoder.kind() == "classes" && !outputs.iter().all(|o| has(&o.name));
    if dataset.outputs.is_empty() || is_of_labels {
        return Ok(Dataset {
            outputs: Vec::new(),
            behavior: Vec::new(),
            ..dataset
        });
    }
    dataset.with_outputs(outputs)
}
