//! Onsets of classes as events of the page: the automata of the model, on the probabilities of the steps that are shown.

use betz_runtime::model::{Decoder, EventRule};
use betz_runtime::stream::{ClassEvent, EventDetector};
use serde_json::{Value, json};

use crate::feed::FeedStep;

/// Section of a model file with the confusion of its training (`betz_train`): u64, steps by true and by decided class.
const CONFUSION: [u8; 4] = *b"conf";

/// Classes of a model.
#[derive(Debug, Clone)]
pub(crate) struct ClassRules {
    names: Vec<String>,
    rules: Vec<Option<EventRule>>,
    /// True if their probabilities gate the outputs; else they are the outputs.
    gate: bool,
}

impl ClassRules {
    /// `None` for a model without classes.
    pub(crate) fn of(decoder: &Decoder) -> Option<Self> {
        let classes = decoder.classes()?;
        let names = decoder.class_names().into_iter();
        Some(Self {
            names: names.map(ToOwned::to_owned).collect(),
            rules: classes.events.clone(),
            gate: decoder.kind() != "classes",
        })
    }
}

/// Names of the classes of `decoder`, and steps of its training by true class (row) and most probable class, for its card.
pub(crate) fn card(decoder: &Decoder) -> Value {
    let names = decoder.class_names();
    let bytes = decoder.attachment(CONFUSION).unwrap_or_default();
    let (counts, _) = bytes.as_chunks::<8>();
    let counts: Vec<u64> = counts
        .iter()
        .map(|count| u64::from_le_bytes(*count))
        .collect();
    let rows = (counts.len() == names.len() * names.len() && !names.is_empty())
        .then(|| counts.chunks_exact(names.len()).collect::<Vec<_>>());
    json!({"names": names, "confusion": rows})
}

/// The automata of a session's classes.
#[derive(Debug)]
pub(crate) struct ClassEvents {
    detector: EventDetector,
    names: Vec<String>,
    probabilities: Vec<f64>,
    gate: bool,
}

impl ClassEvents {
    /// `None` for rules that no session takes.
    pub(crate) fn new(rules: &ClassRules, step_seconds: f64) -> Option<Self> {
        Some(Self {
            detector: EventDetector::new(&rules.rules, step_seconds).ok()?,
            names: rules.names.clone(),
            probabilities: vec![0.0; rules.names.len()],
            gate: rules.gate,
        })
    }

    /// Takes a step, and calls `tell` with tick and content of each onset.
    pub(crate) fn step(&mut self, step: &FeedStep, mut tell: impl FnMut(i64, Value)) {
        if step.trial_begins {
            self.detector.reset(step.tick);
        }
        let values = if self.gate {
            &step.gate
        } else {
            &step.estimates
        };
        for (p, value) in self.probabilities.iter_mut().zip(values) {
            *p = f64::from(*value);
        }
        self.detector.step(step.tick, &self.probabilities);
        let mut room = [ClassEvent::default(); 16];
        loop {
            let count = self.detector.read(&mut room);
            for event in room[..count].iter().filter(|event| event.on) {
                let name = &self.names[event.class as usize];
                tell(event.tick, json!({"class": name, "p": event.probability}));
            }
            if count < room.len() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(tick: i64, p: f32, gate: bool) -> FeedStep {
        let values = vec![1.0 - p, p];
        let (estimates, gate) = match gate {
            true => (vec![0.0, 0.0], values),
            false => (values, Vec::new()),
        };
        FeedStep {
            status: betz_runtime::stream::StepStatus::OK,
            tick,
            number: 0,
            previous_latency_ns: 0,
            trial_begins: tick == 6,
            estimates,
            gate,
            beside: Vec::new(),
            spikes: Vec::new(),
        }
    }

    #[test]
    fn onsets_are_those_of_the_rule() {
        let rule = EventRule {
            on: 0.8,
            off: 0.4,
            dwell: 2,
            refractory_seconds: 0.0,
        };
        for gate in [false, true] {
            let rules = ClassRules {
                names: vec!["rest".into(), "go".into()],
                rules: vec![None, Some(rule)],
                gate,
            };
            let mut events = ClassEvents::new(&rules, 0.1).unwrap();
            let mut told = Vec::new();
            // On at tick 2; a trial ends it at tick 6, and it is on again at tick 7.
            for (tick, p) in [0.1, 0.9, 0.9, 0.9, 0.5, 0.9, 0.9, 0.9, 0.1]
                .into_iter()
                .enumerate()
            {
                events.step(&step(tick as i64, p, gate), |tick, event| {
                    told.push((tick, event))
                });
            }
            let ticks: Vec<i64> = told.iter().map(|t| t.0).collect();
            assert_eq!((ticks, &told[0].1["class"]), (vec![2, 7], &json!("go")));
        }
    }
}
