//! Parts of a recording that a blend's members are compared on, and what they are trained on for that.
//!
//! A continuous recording drifts, and a decoder is used after its training. So members are trained on the first 40, 60 and
//! 80 % of the steps, and decode the 20 % that follow. Of a recording of trials the last fifth is held out, and random
//! trials of the others: trials that were cut out and sorted tell nothing about time.

use crate::folds::{Folds, Part};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::text::count;
use betz_recording::Segment;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Parts of a continuous recording that members are trained on, and the end of what is held out, in fifths.
const FORWARD: [(usize, usize); 3] = [(2, 3), (3, 4), (4, 5)];

/// With fewer trials, every one is held out once: a fold of them says too little.
const MANY_TRIALS: usize = 200;

/// Random folds of few trials, besides the last fifth.
const RANDOM_FOLDS: usize = 3;

/// Training sets and what each holds out.
pub(super) struct HeldOutParts {
    /// Each has two folds: the parts that are held out, and those that are trained on.
    pub(super) folds: Vec<Folds>,
    /// Description of the parts that are held out.
    pub(super) description: String,
}

impl HeldOutParts {
    /// Splits `segments`, which are trials if `has_trials`. The filters of a part that was cut start `history` steps before
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] for fewer than five steps.
    pub(super) fn new(
        segments: &[Segment],
        has_trials: bool,
        (history, seed): (usize, u64),
    ) -> Result<Self> {
        if has_trials {
            return Ok(Self::of_trials(segments, seed));
        }
        let steps: usize = segments.iter().map(Segment::len).sum();
        if steps < 5 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "blend: expected at least 5 steps to hold some of them out, got {}",
                    count(steps as u128, "step")
                ),
            ));
        }
        let folds = FORWARD.map(|(trained, end)| Folds {
            folds: vec![
                parts(segments, trained * steps / 5..end * steps / 5, history),
                parts(segments, 0..trained * steps / 5, history),
            ],
            whole: false,
        });
        Ok(Self {
            folds: folds.to_vec(),
            description: format!("{} forward folds", FORWARD.len()),
        })
    }

    fn of_trials(segments: &[Segment], seed: u64) -> Self {
        let fifth = segments.len() / 5;
        let mut order: Vec<usize> = (0..segments.len() - fifth).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let last: Vec<usize> = (segments.len() - fifth..segments.len()).collect();
        let random: Vec<Vec<usize>> = match segments.len() < MANY_TRIALS {
            true => (0..RANDOM_FOLDS)
                .map(|k| {
                    order
                        .iter()
                        .skip(k)
                        .step_by(RANDOM_FOLDS)
                        .copied()
                        .collect()
                })
                .collect(),
            false => vec![order[..fifth].to_vec()],
        };
        let part = |trial: usize| Part {
            segment: segments[trial],
            from: segments[trial].start,
        };
        let description = format!(
            "the last {fifth} trials, {} of random trials",
            count(random.len() as u128, "fold")
        );
        let folds = std::iter::once(last).chain(random).map(|mut held| {
            held.sort_unstable();
            let rest = (0..segments.len()).filter(|trial| held.binary_search(trial).is_err());
            let rest = rest.map(part).collect();
            Folds {
                folds: vec![held.iter().copied().map(part).collect(), rest],
                whole: false,
            }
        });
        Self {
            folds: folds.collect(),
            description,
        }
    }

    /// Everything that is held out, ascending.
    pub(super) fn segments(&self) -> Vec<Segment> {
        let held = self.folds.iter().flat_map(|folds| &folds.folds[0]);
        let mut held: Vec<Segment> = held.map(|part| part.segment).collect();
        held.sort_unstable_by_key(|segment| segment.start);
        held
    }

    /// The parts that each of them holds out.
    pub(super) fn held(&self) -> Vec<Vec<Part>> {
        self.folds
            .iter()
            .map(|folds| folds.folds[0].clone())
            .collect()
    }
}

/// The parts of `segments` from the step numbered `range.start` of them to that numbered `range.end`.
fn parts(segments: &[Segment], range: std::ops::Range<usize>, history: usize) -> Vec<Part> {
    let mut before = 0_i64;
    let mut parts = Vec::new();
    let (first, last) = (range.start as i64, range.end as i64);
    for segment in segments {
        let length = segment.len() as i64;
        let start = segment.start + (first - before).clamp(0, length);
        let stop = segment.start + (last - before).clamp(0, length);
        if start < stop {
            let history = i64::try_from(history).unwrap_or(i64::MAX);
            parts.push(Part {
                segment: Segment { start, stop },
                from: start.saturating_sub(history).max(segment.start),
            });
        }
        before += length;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: i64, stop: i64) -> Segment {
        Segment { start, stop }
    }

    #[test]
    fn continuous_recordings_are_decoded_forward_in_time() {
        let segments = [segment(10, 60), segment(100, 150)];
        let held = HeldOutParts::new(&segments, false, (7, 0)).unwrap();
        assert_eq!(
            held.segments(),
            [
                segment(50, 60),
                segment(100, 110),
                segment(110, 130),
                segment(130, 150)
            ]
        );
        for folds in &held.folds {
            let [held, trained] = &folds.folds[..] else {
                panic!()
            };
            let last = trained.iter().map(|p| p.segment.stop).max().unwrap();
            assert!(held.iter().all(|p| p.segment.start >= last));
        }
        let from: Vec<i64> = held.held().iter().flatten().map(|p| p.from).collect();
        assert_eq!(from, [43, 100, 103, 123]);
        assert!(HeldOutParts::new(&[segment(0, 4)], false, (0, 0)).is_err());
    }

    #[test]
    fn trials_stay_whole_and_few_are_all_held_out_once() {
        for (trials, folds) in [(27, 4), (300, 2)] {
            let segments: Vec<Segment> =
                (0..trials).map(|i| segment(20 * i, 20 * i + 13)).collect();
            let held = HeldOutParts::new(&segments, true, (50, 3)).unwrap();
            assert_eq!(held.folds.len(), folds);
            let last: Vec<Segment> = held.held()[0].iter().map(|p| p.segment).collect();
            assert_eq!(last, segments[segments.len() - segments.len() / 5..]);
            for folds in &held.folds {
                let mut all: Vec<Segment> =
                    folds.folds.iter().flatten().map(|p| p.segment).collect();
                all.sort_unstable_by_key(|s| s.start);
                assert_eq!(all, segments);
                assert!(
                    folds
                        .folds
                        .iter()
                        .flatten()
                        .all(|p| p.from == p.segment.start)
                );
            }
            let mut once = held.segments();
            once.dedup();
            assert_eq!(once, held.segments());
            assert_eq!(once.len(), if trials < 200 { 27 } else { 120 });
        }
    }
}
