//! Firing rates of a recording, compared with those of the training recording.

use betz::model::Decoder;
use betz::recording::Dataset;
use serde::Serialize;

use betz::input_form;

use crate::report;

/// A mean rate this many times that of training, or its inverse, is said.
const DRIFT: f64 = 1.5;
/// A channel's rate this many times that of training, or its inverse, is said.
const CHANGE: f64 = 3.0;
/// Fewest spikes, expected or there, that say something of a channel.
const LEAST_SPIKES: f64 = 20.0;
/// Channels that are named; of more the number is said.
const NAMED: usize = 8;

/// Rates in hertz.
#[derive(Serialize, Clone)]
pub(crate) struct Rates {
    /// Of a mean channel that the model uses.
    here: f64,
    training: f64,
    /// Channels that fire much more or much less than in training.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<RateChange>,
}

#[derive(Serialize, Clone)]
struct RateChange {
    channel: String,
    here: f64,
    training: f64,
}

impl Rates {
    /// Nothing where the model does not say how often its channels fired, or they carry a signal.
    pub(crate) fn of(model: &Decoder, dataset: &Dataset) -> Option<Self> {
        if input_form::is_of_signal(model) {
            return None;
        }
        let record = model.training();
        let used = model.channel_mask().iter().filter(|used| **used).count() as f64;
        let seconds = dataset.steps_in_segments() as f64 * dataset.step_seconds;
        let here = dataset.view().spikes_in_segments() / seconds / used;
        let trained_seconds = record.steps as f64 * model.step_seconds();
        let training = record.spikes as f64 / trained_seconds / used;
        (here.is_finite() && training.is_finite() && training > 0.0).then(|| Self {
            here,
            training,
            changed: changed(model, dataset, seconds),
        })
    }

    /// Says on standard error what has changed.
    pub(crate) fn warn(&self) {
        if !(1.0 / DRIFT..=DRIFT).contains(&(self.here / self.training)) {
            eprintln!(
                "drift: channels fire at {:.2} Hz here and at {:.2} Hz where the model was trained",
                self.here, self.training
            );
        }
        if self.changed.is_empty() {
            return;
        }
        let one =
            |c: &RateChange| format!("{} ({:.2} Hz, was {:.2})", c.channel, c.here, c.training);
        let mut named: Vec<String> = self.changed.iter().take(NAMED).map(one).collect();
        if self.changed.len() > NAMED {
            named.push(format!("and {} more", self.changed.len() - NAMED));
        }
        eprintln!(
            "drift: {} changed to less than a third or more than three times the rate in training: {}",
            report::count(self.changed.len() as u128, "channel"),
            named.join(", ")
        );
    }
}

/// Channels in use whose spikes are far from the mean counts of training, which the model keeps to decode
/// artefacts as.
fn changed(model: &Decoder, dataset: &Dataset, seconds: f64) -> Vec<RateChange> {
    let Some(blanking) = &model.limits().blanking else {
        return Vec::new();
    };
    let mut spikes = vec![0.0; model.channels()];
    for segment in &dataset.segments {
        for i in dataset.spikes.view().range(segment.start, segment.stop) {
            if let Some(spikes) = spikes.get_mut(dataset.spikes.channels[i] as usize) {
                *spikes += f64::from(dataset.spikes.weight(i));
            }
        }
    }
    let steps = seconds / model.step_seconds();
    (model.channel_mask().iter().zip(&blanking.mean_counts))
        .zip(spikes)
        .enumerate()
        .filter_map(|(channel, ((used, mean), spikes))| {
            let expected = mean * steps;
            let rare = expected >= LEAST_SPIKES && spikes * CHANGE < expected;
            let frequent = spikes >= LEAST_SPIKES && spikes > CHANGE * expected.max(1.0);
            (*used && (rare || frequent)).then(|| RateChange {
                channel: model.channel_names()[channel].clone(),
                here: spikes / seconds,
                training: expected / seconds,
            })
        })
        .collect()
}
