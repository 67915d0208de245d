//! R² of a session's outputs against the labels that it receives.

use std::collections::VecDeque;

/// Newest steps whose outputs wait for labels, and labels that wait for their steps.
const ROOM: usize = 1024;

/// Values of a step.
#[derive(Default)]
struct StepValues {
    step: u64,
    values: Vec<f32>,
}

/// Values of the newest steps, in order of their numbers as a rule.
struct Recent {
    all: VecDeque<StepValues>,
    free: Vec<StepValues>,
}

impl Recent {
    fn new(outputs: usize) -> Self {
        let value = || StepValues {
            step: 0,
            values: Vec::with_capacity(outputs),
        };
        Self {
            all: VecDeque::with_capacity(ROOM),
            free: (0..ROOM).map(|_| value()).collect(),
        }
    }

    fn push(&mut self, step: u64, values: &[f32]) {
        let oldest = || self.all.pop_front().unwrap_or_default();
        let mut next = self.free.pop().unwrap_or_else(oldest);
        next.step = step;
        next.values.clear();
        next.values.extend_from_slice(values);
        self.all.push_back(next);
    }

    /// Takes the values of a step out.
    fn take(&mut self, step: u64) -> Option<StepValues> {
        let at = self.all.iter().rposition(|of| of.step == step)?;
        self.all.remove(at)
    }
}

/// Sums over the labels of one output.
#[derive(Clone, Copy, Default)]
struct LabelSums {
    count: f64,
    sum: f64,
    squares: f64,
    errors: f64,
}

/// Compares outputs with labels as they come, in either order.
pub(super) struct LabelScore {
    /// Steps by which an output belongs to a later step than its label.
    delay: u64,
    made: Recent,
    labels: Recent,
    sums: Vec<LabelSums>,
}

impl LabelScore {
    /// Of a model with so many outputs, which are `delay` steps behind.
    pub(super) fn new(outputs: usize, delay: i64) -> Self {
        Self {
            delay: u64::try_from(delay).unwrap_or(0),
            made: Recent::new(outputs),
            labels: Recent::new(outputs),
            sums: vec![LabelSums::default(); outputs],
        }
    }

    /// Takes the outputs of a step with data.
    pub(super) fn made(&mut self, step: u64, values: &[f32]) {
        if let Some(label) = self.labels.take(step) {
            self.add(values, &label.values);
            self.labels.free.push(label);
        } else {
            self.made.push(step, values);
        }
    }

    /// Takes the label of a step; `open` is the step that is being filled.
    pub(super) fn label(&mut self, step: u64, open: u64, values: &[f32]) {
        let step = step.saturating_add(self.delay);
        if let Some(made) = self.made.take(step) {
            self.add(&made.values, values);
            self.made.free.push(made);
        } else if step >= open {
            self.labels.push(step, values);
        }
    }

    fn add(&mut self, values: &[f32], labels: &[f32]) {
        for ((sums, value), label) in self.sums.iter_mut().zip(values).zip(labels) {
            let (value, label) = (f64::from(*value), f64::from(*label));
            sums.count += 1.0;
            sums.sum += label;
            sums.squares += label * label;
            sums.errors += (value - label) * (value - label);
        }
    }

    /// R² of each output; empty before there are two labels that differ.
    pub(super) fn r2(&self) -> Vec<f64> {
        let of = |sums: &LabelSums| {
            let spread = sums.squares - sums.sum * sums.sum / sums.count;
            (sums.count >= 2.0 && spread > 0.0).then(|| 1.0 - sums.errors / spread)
        };
        let all: Option<Vec<f64>> = self.sums.iter().map(of).collect();
        all.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_compared_with_the_outputs_of_their_steps_in_either_order() {
        let mut score = LabelScore::new(1, 2);
        let mut lists = (Vec::new(), Vec::new());
        assert!(score.r2().is_empty());
        for step in 0..100_u64 {
            let (label, output) = ((step as f32 * 0.3).sin(), (step as f32 * 0.3).sin() + 0.1);
            // Every second label comes before its output, which is two steps behind.
            if step % 2 == 0 {
                score.label(step, step, &[label]);
            }
            score.made(step + 2, &[output]);
            if step % 2 == 1 {
                score.label(step, step + 3, &[label]);
            }
            lists.0.push(f64::from(label));
            lists.1.push(f64::from(output));
        }
        // Labels of steps that were never made count nothing.
        score.label(5, 103, &[1e9]);
        let mean = lists.0.iter().sum::<f64>() / 100.0;
        let spread: f64 = lists.0.iter().map(|y| (y - mean).powi(2)).sum();
        let errors: f64 = (lists.0.iter().zip(&lists.1))
            .map(|(y, x)| (x - y).powi(2))
            .sum();
        let (got, expected) = (score.r2()[0], 1.0 - errors / spread);
        assert!((got - expected).abs() < 1e-6, "{got} {expected}");
    }

    #[test]
    fn the_room_is_bounded() {
        let mut score = LabelScore::new(2, 0);
        for step in 0..5 * ROOM as u64 {
            score.made(step, &[0.0, 1.0]);
            score.label(step + 100_000, step, &[1.0, 2.0]);
        }
        assert_eq!((score.made.all.len(), score.labels.all.len()), (ROOM, ROOM));
    }
}
