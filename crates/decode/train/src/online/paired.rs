//! Comparison of two models by their errors on the same trials.

use std::collections::VecDeque;

/// Trials that are compared at most.
pub(super) const LONGEST: usize = 30;

/// Errors of a model, or of the models that a memory makes one after another, each on a trial that had not
/// been learned from: the newest last, `None` where there was no model.
#[derive(Debug, Clone, Default)]
pub(super) struct Errors(VecDeque<Option<f64>>);

impl Errors {
    pub(super) fn push(&mut self, error: Option<f64>) {
        if self.0.len() == LONGEST {
            self.0.pop_front();
        }
        self.0.push_back(error);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Errors on the newest `count` trials; `None` if there are fewer.
    pub(super) fn newest(&self, count: usize) -> Option<Vec<f64>> {
        let first = self.0.len().checked_sub(count)?;
        self.0.iter().skip(first).copied().collect()
    }

    pub(super) fn mean_of_newest(&self, count: usize) -> Option<f64> {
        let errors = self.newest(count)?;
        Some(mean_and_error(&errors).0)
    }
}

/// True if the errors of `this` are lower than those of `other`, by more than the fraction `gain` and by
/// more than chance, over the newest `batch` trials, or over 2, 4, … times as many (up to `LONGEST`): soon
/// after a change the newest trials show a difference, while small differences need more trials.
pub(super) fn is_better(this: &Errors, other: &Errors, batch: usize, gain: f64) -> bool {
    let spans = std::iter::successors(Some(batch), |n| n.checked_mul(2));
    spans.take_while(|n| *n <= LONGEST.max(batch)).any(|n| {
        let (Some(this), Some(other)) = (this.newest(n), other.newest(n)) else {
            return false;
        };
        let of_other = other.iter().sum::<f64>() / n as f64;
        let differences: Vec<f64> = other.iter().zip(&this).map(|(o, t)| o - t).collect();
        is_positive(&differences) && mean_and_error(&differences).0 > gain * of_other
    })
}

/// True if the mean is above 0 by more than chance: by Student's t, with 95 % in the middle
/// (t ≈ 2 + 4/n, 2.8 of five values, 2.2 of twenty).
pub(super) fn is_positive(values: &[f64]) -> bool {
    let (mean, error) = mean_and_error(values);
    mean > (2.0 + 4.0 / values.len().max(1) as f64) * error && mean > 0.0
}

/// Mean and its standard error; infinity where there are fewer than two.
pub(super) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(values: &[f64]) -> Errors {
        let mut errors = Errors::default();
        values.iter().for_each(|&v| errors.push(Some(v)));
        errors
    }

    #[test]
    fn better_is_by_more_than_chance_and_than_the_gain_asked_for() {
        // A quarter less in each of five trials, which differ.
        let now = errors(&[0.1, 0.2, 0.15, 0.12, 0.18]);
        let less = errors(&[0.07, 0.16, 0.11, 0.09, 0.13]);
        assert!(is_better(&less, &now, 5, 0.02) && !is_better(&now, &less, 5, 0.02));
        assert!(!is_better(&less, &now, 5, 0.5));
        // As much less on average, by one trial alone.
        let once = errors(&[0.1, 0.2, 0.15, 0.12, 0.0]);
        assert!(!is_better(&once, &now, 5, 0.02));
        // Too few, or one without a model.
        assert!(!is_better(&errors(&[0.0; 4]), &now, 5, 0.02));
        let mut gap = less.clone();
        gap.push(None);
        assert!(!is_better(&gap, &errors(&[1.0; 6]), 5, 0.02));
        // A little less than chance allows in five is enough in twenty.
        let pattern = |shift: f64| -> Vec<f64> {
            let wave = [0.02, -0.02, 0.015, -0.015];
            (0..20)
                .map(|i| 0.2 + shift * (1.0 + 60.0 * wave[i % 4]))
                .collect()
        };
        let (now, less) = (errors(&[0.2; 20]), errors(&pattern(-0.02)));
        assert!(!is_better(
            &errors(&pattern(-0.02)[15..]),
            &errors(&[0.2; 5]),
            5,
            0.02
        ));
        assert!(is_better(&less, &now, 5, 0.02));
    }

    #[test]
    fn only_the_newest_are_compared() {
        let mut all = Errors::default();
        (0..100).for_each(|i| all.push(Some(f64::from(i))));
        assert_eq!(all.newest(LONGEST + 1), None);
        assert_eq!(all.newest(2), Some(vec![98.0, 99.0]));
        assert_eq!(all.mean_of_newest(3), Some(98.0));
        assert_eq!(mean_and_error(&[1.0]), (1.0, f64::INFINITY));
        assert!(!is_positive(&[1.0]) && !is_positive(&[]));
    }
}
