//! Description of a session for its viewers.

use std::sync::Arc;
use std::time::Duration;

use betz_recording::OutputInfo;
use betz_runtime::model::Decoder;
use betz_runtime::stream::PreparedModel;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::class_events::{self, ClassEvents, ClassRules};
use crate::frame::{Kind, Section, Writer};
use crate::gate::Gate;

/// Description of a session, sent before its first step.
#[derive(Debug, Clone)]
pub struct Source {
    /// Name to show, such as a file's or a rig's.
    pub name: String,
    /// One name per channel.
    pub channel_names: Vec<String>,
    /// Electrode positions (x, y) in micrometres, one per channel; NaN if unknown.
    pub electrode_um: Option<Vec<[f32; 2]>>,
    /// One entry per output.
    pub outputs: Vec<OutputInfo>,
    /// Length of a step in seconds.
    pub step_seconds: f64,
    /// Speed relative to the wall clock: 2 runs twice as fast.
    pub speed: f64,
    /// Steps that take longer are marked, and the frames around them are stored.
    pub deadline: Option<Duration>,
    /// The model that runs at the start.
    pub model: Option<ModelCard>,
}

impl Source {
    /// Describes a session that runs `decoder` at the speed of the wall clock.
    pub fn of(name: &str, decoder: &Decoder) -> Self {
        Self {
            name: name.to_owned(),
            channel_names: decoder.channel_names().to_vec(),
            electrode_um: None,
            outputs: decoder.outputs().to_vec(),
            step_seconds: decoder.step_seconds(),
            speed: 1.0,
            deadline: None,
            model: Some(ModelCard::of(name, decoder)),
        }
    }

    /// The automata of the classes of the model; `None` if it has none.
    pub(crate) fn class_events(&self) -> Option<ClassEvents> {
        let rules = self.model.as_ref()?.classes.as_ref()?;
        ClassEvents::new(rules, self.step_seconds)
    }

    /// The gate of the model, if it has one.
    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.model.as_ref()?.gate.as_ref()
    }

    /// Describes a page with neither session nor recordings: a name and no channels.
    pub(crate) fn nothing(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            channel_names: Vec::new(),
            electrode_um: None,
            outputs: Vec::new(),
            step_seconds: 1.0,
            speed: 1.0,
            deadline: None,
            model: None,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let outputs = self.outputs.iter();
        let outputs: Vec<Value> = outputs
            .map(|o| json!({"name": o.name, "unit": o.unit}))
            .collect();
        // JSON has no NaN: an electrode without a position becomes null.
        let electrodes = self.electrode_um.as_ref().map(|all| {
            let known = |p: &[f32; 2]| p.iter().all(|v| v.is_finite()).then_some(*p);
            all.iter().map(known).collect::<Vec<_>>()
        });
        json!({
            "name": self.name,
            "channels": self.channel_names.len(),
            "channel_names": self.channel_names,
            "electrode_um": electrodes,
            "outputs": outputs,
            "step_seconds": self.step_seconds,
            "speed": self.speed,
            "deadline_ns": self.deadline.map(|d| d.as_nanos() as u64),
        })
    }
}

/// Description of a model.
#[derive(Debug, Clone)]
pub struct ModelCard {
    /// Name to show, usually a file's name.
    pub name: String,
    /// Fingerprint of the decoder: [`PreparedModel::decoder_fingerprint`].
    pub fingerprint: u64,
    /// Fingerprint that a session of the decoder without a mask publishes: [`PreparedModel::fingerprint`].
    pub(crate) session_fingerprint: u64,
    card: Value,
    /// (channels, filters, latents), in units of the latent per unit-sum filtered spike.
    weights: Arc<[f32]>,
    classes: Option<ClassRules>,
    gate: Option<Gate>,
    pub(crate) training: Training,
}

/// Facts of a model's training that a session is compared with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Training {
    pub(crate) segments: u64,
    pub(crate) spikes: u64,
    /// Cross-validated R², mean over the outputs that have one; `None` if there is none.
    pub(crate) r2: Option<f64>,
    /// Variance of each true output, NaN if it is unknown; empty if no scores are stored.
    pub(crate) variances: Vec<f64>,
    /// Mean count per step of each channel, 0 for one that takes no part; empty if the model does not store them.
    pub(crate) mean_counts: Vec<f64>,
}

impl Training {
    pub(crate) fn of(decoder: &Decoder) -> Self {
        let record = decoder.training();
        let scores = record.scores.iter().map(|score| score.r2);
        let known: Vec<f64> = scores.filter(|r2| r2.is_finite()).collect();
        let means = decoder.limits().blanking.as_ref();
        let means = means.map_or(&[][..], |blanking| &blanking.mean_counts);
        let used = means.iter().zip(decoder.channel_mask());
        Self {
            segments: record.segments,
            spikes: record.spikes,
            r2: (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64),
            variances: (record.scores.iter())
                .map(|score| (score.rmse / score.nrmse_std).powi(2))
                .collect(),
            mean_counts: used
                .map(|(mean, used)| if *used { *mean } else { 0.0 })
                .collect(),
        }
    }
}

impl ModelCard {
    /// Describes a decoder.
    pub fn of(name: &str, decoder: &Decoder) -> Self {
        let prepared = PreparedModel::new(decoder, None);
        let fingerprint = prepared
            .as_ref()
            .map_or(0, PreparedModel::decoder_fingerprint);
        let session_fingerprint = prepared.as_ref().map_or(0, PreparedModel::fingerprint);
        let memory = prepared.as_ref().map_or(0, PreparedModel::memory_steps);
        let gate = Gate::of(decoder);
        let t = decoder.training();
        let scores = t.scores.iter();
        let scores: Vec<Value> = scores
            .map(|s| json!({"name": s.name, "unit": s.unit, "r2": number(s.r2), "rmse": number(s.rmse)}))
            .collect();
        let filters = decoder.bank().filters().iter();
        let filters = filters.map(|f| json!({"tau_seconds": f.tau_seconds, "order": f.order}));
        // The page shows a filter by the time of its peak.
        let sampled = decoder.bank().sampled().iter().enumerate().map(|(i, f)| {
            let number = decoder.bank().filters().len() + i;
            json!({"tau_seconds": decoder.bank().peak_seconds(number), "order": 0, "name": f.name()})
        });
        let filters: Vec<Value> = filters.chain(sampled).collect();
        let card = json!({
            "name": name,
            "fingerprint": format!("{fingerprint:016x}"),
            "kind": decoder.kind(),
            "channels": decoder.channels(),
            "masked": decoder.channel_mask().iter().filter(|&&m| !m).count(),
            "latents": decoder.latents(),
            "filters": filters,
            "delay_steps": decoder.delay_steps(),
            "memory_steps": memory,
            "ridge": number(t.ridge),
            "trained": {
                "betz_version": t.betz_version, "steps": t.steps, "segments": t.segments,
                "spikes": t.spikes, "folds": t.folds, "solver": t.solver,
            },
            "scores": scores,
            "classes": class_events::card(decoder),
            "gate": gate.as_ref().map(Gate::card),
            "weight_share": weight_share(decoder),
        });
        Self {
            name: name.to_owned(),
            fingerprint,
            session_fingerprint,
            card,
            weights: decoder.weights().iter().map(|w| *w as f32).collect(),
            classes: ClassRules::of(decoder),
            gate,
            training: Training::of(decoder),
        }
    }

    /// Frame with the weights: (channels, filters, latents).
    pub(crate) fn weights(&self) -> Bytes {
        let channels = self.card["channels"].as_u64().unwrap_or(0) as u32;
        let room = self.weights.len() * 4 + 64;
        let mut frame = Writer::new(Kind::Model, 0, channels, 0, 0, room);
        frame.f32(Section::VALUE, &self.weights);
        frame.finish()
    }

    pub(crate) fn json(&self) -> &Value {
        &self.card
    }

    /// Number of segments and spikes that the model was trained on.
    pub(crate) fn trained(&self) -> (u64, u64) {
        (self.training.segments, self.training.spikes)
    }
}

/// Share of the readout per channel: Σ |φ| over filters as a share of all channels' for each latent, then the mean over the
/// latents that hear any channel. So it does not depend on the units of outputs.
fn weight_share(decoder: &Decoder) -> Vec<f64> {
    share_of(decoder.weights(), decoder.channels(), decoder.latents())
}

/// `weights` are (channels, filters, latents).
fn share_of(weights: &[f64], channels: usize, latents: usize) -> Vec<f64> {
    let latents = latents.max(1);
    let width = weights.len() / channels.max(1);
    let of = |row: &[f64], latent: usize| -> f64 {
        let own = row.iter().skip(latent).step_by(latents);
        own.map(|weight| weight.abs()).sum()
    };
    let rows = || weights.chunks_exact(width.max(1));
    let all: Vec<f64> = (0..latents)
        .map(|latent| rows().map(|row| of(row, latent)).sum())
        .collect();
    let heard = all.iter().filter(|all| **all > 0.0).count().max(1) as f64;
    let share = |row: &[f64]| {
        let shares = all.iter().enumerate().filter(|(_, all)| **all > 0.0);
        let mean = shares
            .map(|(latent, all)| of(row, latent) / all)
            .sum::<f64>()
            / heard;
        // Six digits: a page draws no finer.
        (mean * 1e6).round() / 1e6
    };
    let mut found: Vec<f64> = rows().map(share).collect();
    found.resize(channels, 0.0);
    found
}

/// `None` for NaN and infinity, which JSON does not have.
fn number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::share_of;

    #[test]
    fn shares_of_channels_do_not_depend_on_units() {
        // Two channels, one filter, two outputs; the first output also in units a thousand times smaller.
        let own = share_of(&[3.0, 1.0, 1.0, -1.0], 2, 2);
        let scaled = share_of(&[3_000.0, 1.0, 1_000.0, -1.0], 2, 2);
        assert_eq!(own, [0.625, 0.375]);
        assert_eq!(own, scaled);
        assert_eq!(share_of(&[0.0; 4], 2, 2), [0.0, 0.0]);
    }
}
