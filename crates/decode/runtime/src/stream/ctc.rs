//! Greedy decoding of connectionist temporal classification (CTC; Graves et al. 2006), one step at a time.

/// Turns scores of labels, one row per step, into a sequence of labels: the best label of a step is emitted if it is not
/// the blank and differs from the best label of the step before.
///
/// A stream gives the same labels at the same steps as the whole sequence at once. On equal scores, the lowest index
/// wins.
///
/// ```
/// use betz_runtime::stream::GreedyCtc;
///
/// let mut ctc = GreedyCtc::new(0);
/// let best = [1, 1, 0, 1, 2, 2];
/// let labels: Vec<usize> = (best.iter())
///     .filter_map(|&k| {
///         let mut scores = [0.0; 3];
///         scores[k] = 1.0;
///         ctc.step(&scores)
///     })
///     .collect();
/// assert_eq!(labels, [1, 1, 2]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreedyCtc {
    blank: usize,
    last: usize,
}

impl GreedyCtc {
    /// A decoder at the beginning of a sequence; `blank` is the index of the blank.
    pub fn new(blank: usize) -> Self {
        Self { blank, last: blank }
    }

    /// Returns the label that a step with these scores emits. NaN never wins; without a score there is no label.
    pub fn step(&mut self, scores: &[f32]) -> Option<usize> {
        let mut best = self.blank;
        let mut highest = f32::NEG_INFINITY;
        for (label, &score) in scores.iter().enumerate() {
            if score > highest {
                (best, highest) = (label, score);
            }
        }
        let emitted = (best != self.blank && best != self.last).then_some(best);
        self.last = best;
        emitted
    }

    /// Begins anew, as after a gap in the data or a reset: the same label may then be emitted again.
    pub fn reset(&mut self) {
        self.last = self.blank;
    }
}

#[cfg(test)]
mod tests {
    use super::GreedyCtc;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// All at once: runs of the best label, without blanks.
    fn batch(scores: &[Vec<f32>], blank: usize) -> Vec<(usize, usize)> {
        let best = |row: &Vec<f32>| {
            let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter().position(|s| *s == highest).unwrap_or(blank)
        };
        let best: Vec<usize> = scores.iter().map(best).collect();
        (0..best.len())
            .filter(|&t| best[t] != blank && (t == 0 || best[t - 1] != best[t]))
            .map(|t| (t, best[t]))
            .collect()
    }

    #[test]
    fn a_stream_gives_the_labels_and_times_of_the_whole() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for case in 0..2000 {
            let (steps, labels) = (rng.random_range(1..60), rng.random_range(2..42));
            let blank = rng.random_range(0..labels);
            let mut rows: Vec<Vec<f32>> = Vec::new();
            while rows.len() < steps {
                // Whole numbers make ties; repeated rows make runs.
                let row: Vec<f32> = (0..labels)
                    .map(|_| {
                        if case % 2 == 0 {
                            rng.random_range(-3..3) as f32
                        } else {
                            rng.random()
                        }
                    })
                    .collect();
                let times = if case % 5 == 0 {
                    rng.random_range(1..4)
                } else {
                    1
                };
                rows.extend(core::iter::repeat_n(row, times));
            }
            let mut ctc = GreedyCtc::new(blank);
            let streamed: Vec<(usize, usize)> = (rows.iter().enumerate())
                .filter_map(|(t, row)| ctc.step(row).map(|label| (t, label)))
                .collect();
            assert_eq!(streamed, batch(&rows, blank), "case {case}");
        }
    }

    #[test]
    fn a_reset_lets_a_label_come_again() {
        let mut ctc = GreedyCtc::new(0);
        assert_eq!(ctc.step(&[0.0, 1.0]), Some(1));
        assert_eq!(ctc.step(&[0.0, 1.0]), None);
        ctc.reset();
        assert_eq!(ctc.step(&[0.0, 1.0]), Some(1));
        assert_eq!(ctc.step(&[f32::NAN, f32::NAN]), None);
    }
}
