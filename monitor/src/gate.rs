//! A gate on velocities: the probabilities of its classes and the factor of the gated outputs, beside the estimates of a step.

use betz_runtime::model::{Decoder, Head};
use serde_json::{Value, json};

/// The gate of a model of kind `gated`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gate {
    /// Number of classes.
    classes: usize,
    /// The class whose probability opens the gate.
    class: usize,
    /// Factor of the gated outputs if the probability is 0, and what a probability of 1 adds to it.
    closed: f64,
    slope: f64,
    /// Names of the gated outputs.
    outputs: Vec<String>,
}

impl Gate {
    /// `None` for a model without a gate.
    pub(crate) fn of(decoder: &Decoder) -> Option<Self> {
        let Head::VelocityGate(gate) = decoder.head() else {
            return None;
        };
        let gated = decoder.outputs().iter().zip(&gate.gated);
        Some(Self {
            classes: gate.names.len(),
            class: gate.class as usize,
            closed: gate.closed,
            slope: gate.slope,
            outputs: (gated.filter(|(_, gated)| **gated))
                .map(|(output, _)| output.name.clone())
                .collect(),
        })
    }

    /// Number of values of a step: the probability of each class, and the factor.
    pub(crate) fn width(&self) -> usize {
        self.classes + 1
    }

    /// Number of classes.
    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    /// Writes the values of a step to `to`: the probability of each class, then the factor of the gated outputs. The
    /// factor is NaN while the gate stands open because channels are gone; every value is NaN for a step of a model with
    /// other classes.
    pub(crate) fn fill(
        &self,
        probabilities: impl ExactSizeIterator<Item = f64>,
        open: bool,
        to: &mut [f32],
    ) {
        if probabilities.len() != self.classes || to.len() != self.width() {
            to.fill(f32::NAN);
            return;
        }
        for (to, p) in to.iter_mut().zip(probabilities) {
            *to = p as f32;
        }
        to[self.classes] = match open {
            true => f32::NAN,
            false => (self.closed + self.slope * f64::from(to[self.class])) as f32,
        };
    }

    /// Description for the page.
    pub(crate) fn card(&self) -> Value {
        json!({"class": self.class, "closed": self.closed, "slope": self.slope, "outputs": self.outputs})
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::feed::{FeedStep, feed};
    use betz_runtime::stream::{Input, Step, StepStatus, SwapState, Tap};

    fn gate() -> Gate {
        Gate {
            classes: 2,
            class: 1,
            closed: 0.25,
            slope: 0.5,
            outputs: vec!["vx".into()],
        }
    }

    #[test]
    fn a_step_has_its_probabilities_and_the_factor_behind_its_estimates() {
        let (mut feed, mut reader) = feed(2, Some(gate()), 1 << 10).unwrap();
        let mut step = Step {
            tick: 0,
            input: Input::Spikes(&[7]),
            estimates: &[3.0, 4.0],
            beside: &[],
            classes: &[0.75, 0.25],
            status: StepStatus::OK,
            previous_latency_ns: 9,
            swap: SwapState::Idle,
        };
        feed.take(&step);
        // Channels are gone, and a second model runs.
        (step.tick, step.status) = (1, StepStatus::CHANNELS);
        step.beside = &[5.0, 6.0];
        feed.take(&step);
        // Another model runs, without classes.
        step.tick = 2;
        (step.classes, step.beside) = (&[], &[]);
        feed.take(&step);
        // Another number of outputs is not shown, as without a gate.
        step.tick = 3;
        step.estimates = &[1.0];
        feed.take(&step);
        let mut taken = FeedStep::default();
        assert!(reader.take(&mut taken));
        assert_eq!(
            (taken.estimates.as_slice(), taken.beside.len()),
            (&[3.0, 4.0][..], 0)
        );
        assert_eq!(taken.gate, [0.75, 0.25, 0.375]);
        assert!(reader.take(&mut taken));
        assert_eq!(taken.beside, [5.0, 6.0]);
        assert_eq!(taken.status, StepStatus::CHANNELS);
        assert_eq!(taken.gate[..2], [0.75, 0.25]);
        assert!(taken.gate[2].is_nan());
        assert!(reader.take(&mut taken));
        assert_eq!((taken.tick, taken.spikes.as_slice()), (2, &[7][..]));
        assert!(taken.gate.len() == 3 && taken.gate.iter().all(|v| v.is_nan()));
        assert!(!reader.take(&mut taken));
        assert_eq!(reader.not_shown(), 1);
    }
}
