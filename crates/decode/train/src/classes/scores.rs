//! Scores of probabilities of classes against labels.

use betz_base::error::Result;
use betz_recording::labels::Labels;
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::EventRule;
use betz_runtime::stream::{ClassEvent, EventDetector};

/// Bins of confidence of the expected calibration error.
const BINS: usize = 15;

/// Seconds before an onset and after an end in which an event counts as the onset's.
pub(super) const BEFORE_SECONDS: f64 = 0.3;
const AFTER_SECONDS: f64 = 0.2;

/// Scores of a classifier on labelled steps.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ClassScores {
    /// Name of each class.
    pub classes: Vec<String>,
    /// Number of labelled steps.
    pub steps: u64,
    /// Steps by true class (row) and most probable class (column).
    pub confusion: Vec<Vec<u64>>,
    /// Share of steps whose most probable class is the true one.
    pub accuracy: f64,
    /// Mean share over classes of steps whose most probable class is the true one.
    pub balanced_accuracy: f64,
    /// The same if the class with the largest p/π is decided, with π its share in training: the best decision if
    /// every class counts the same.
    pub balanced_accuracy_by_prior: f64,
    /// Area under the curve of true against false positives, for each class against all others.
    pub auc: Vec<f64>,
    /// Mean negative log-likelihood of the true class, in nats.
    pub nll: f64,
    /// Expected calibration error: mean distance of confidence and accuracy, in 15 bins of confidence.
    pub ece: f64,
    /// Events of each class; `None` for a class that makes none.
    pub events: Vec<Option<EventScores>>,
}

impl ClassScores {
    /// A warning that names the classes without events: no rule keeps their false alarms and missed onsets low enough.
    /// `None` if every class has events.
    pub fn event_warning(&self) -> Option<String> {
        let silent = self.classes.iter().zip(&self.events);
        let silent: Vec<&str> = silent
            .filter(|(_, events)| events.is_none())
            .map(|(name, _)| name.as_str())
            .collect();
        let of = match silent.len() {
            0 => return None,
            all if all == self.classes.len() => "no class makes events".to_owned(),
            1..=8 => format!("no events of {}", silent.join(", ")),
            many => format!("no events of {many} of {} classes", self.classes.len()),
        };
        Some(format!(
            "{of}: no threshold keeps the rate of false alarms with few missed onsets; allow more false alarms per minute, or \
             use the probabilities alone"
        ))
    }
}

/// Scores of the events of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EventScores {
    /// True onsets that were decoded: those in steps left out between folds do not count.
    pub onsets: u64,
    /// Share of onsets without an event from 0.3 s before the onset to 0.2 s after the end.
    pub missed: f64,
    /// Events outside such times, per minute outside of them.
    pub false_alarms_per_minute: f64,
    /// Mean time from the true onset to its first event, in seconds; negative if events come early.
    pub latency: f64,
    /// Median of these times.
    pub latency_median: f64,
    /// Quantiles of these times at 10 and 90 %.
    pub latency_10_90: [f64; 2],
}

/// Probabilities of every step of a recording with their labels.
#[derive(Clone, Copy)]
pub(super) struct Predictions<'a> {
    pub(super) data: DatasetView<'a>,
    pub(super) labels: &'a Labels,
    /// The probabilities at step t are of the class at t − delay.
    pub(super) delay_steps: i64,
    /// (step, class) row-major.
    pub(super) probabilities: &'a [f32],
}

impl Predictions<'_> {
    fn classes(&self) -> usize {
        self.labels.classes()
    }

    /// The class at `step` of the probabilities.
    pub(super) fn label(&self, step: usize) -> Option<usize> {
        label_at(self.labels, self.delay_steps, step)
    }

    pub(super) fn row(&self, step: usize) -> &[f32] {
        &self.probabilities[step * self.classes()..][..self.classes()]
    }

    /// False for steps without probabilities, such as those left out between folds.
    fn is_known(&self, step: usize) -> bool {
        self.row(step)[0].is_finite()
    }

    /// Steps with a label and finite probabilities.
    pub(super) fn steps(&self) -> impl Iterator<Item = (usize, usize)> {
        let inside = |s: &Segment| s.start as usize..s.stop as usize;
        (self.data.segments.iter().flat_map(inside))
            .filter_map(|step| Some((step, self.label(step)?)))
            .filter(move |(step, _)| self.is_known(*step))
    }

    /// Scores of everything but events.
    pub(super) fn scores(&self, priors: &[f64]) -> ClassScores {
        let classes = self.classes();
        let mut confusion = vec![vec![0_u64; classes]; classes];
        let mut by_prior = vec![(0_u64, 0_u64); classes];
        let (mut nll, mut bins) = (0.0, [(0_u64, 0.0, 0_u64); BINS]);
        let mut steps = 0_u64;
        for (step, label) in self.steps() {
            let p = self.row(step);
            let decided = largest(p.iter().map(|p| f64::from(*p)));
            let balanced = largest((p.iter().zip(priors)).map(|(p, prior)| f64::from(*p) / prior));
            confusion[label][decided] += 1;
            by_prior[label].0 += u64::from(balanced == label);
            by_prior[label].1 += 1;
            nll -= f64::from(p[label]).max(1e-12).ln();
            let confidence = f64::from(p[decided]);
            let bin = &mut bins[((confidence * BINS as f64) as usize).min(BINS - 1)];
            *bin = (
                bin.0 + 1,
                bin.1 + confidence,
                bin.2 + u64::from(decided == label),
            );
            steps += 1;
        }
        let total = steps.max(1) as f64;
        let right: u64 = (0..classes).map(|k| confusion[k][k]).sum();
        let recall = |k: usize| (confusion[k][k], confusion[k].iter().sum::<u64>());
        ClassScores {
            classes: self.labels.names.clone(),
            steps,
            accuracy: right as f64 / total,
            balanced_accuracy: mean_share((0..classes).map(recall)),
            balanced_accuracy_by_prior: mean_share(by_prior.iter().copied()),
            auc: (0..classes).map(|class| self.auc(class)).collect(),
            nll: nll / total,
            ece: bins
                .iter()
                .map(|(_, sum, right)| (sum - *right as f64).abs())
                .sum::<f64>()
                / total,
            confusion,
            events: vec![None; classes],
        }
    }

    /// Area under the curve of `class` against all others, ties counted half (Mann & Whitney).
    fn auc(&self, class: usize) -> f64 {
        let mut ranked: Vec<(f32, bool)> = (self.steps())
            .map(|(step, label)| (self.row(step)[class], label == class))
            .collect();
        ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut positives, mut sum, mut before) = (0.0, 0.0, 0.0);
        for tied in ranked.chunk_by(|a, b| a.0 == b.0) {
            let own = tied.iter().filter(|(_, is_class)| *is_class).count() as f64;
            sum += own * (before + (tied.len() as f64 + 1.0) / 2.0);
            before += tied.len() as f64;
            positives += own;
        }
        let negatives = before - positives;
        (sum - positives * (positives + 1.0) / 2.0) / (positives * negatives)
    }

    /// Onset and end of each run of `class`, by segment.
    pub(super) fn onsets(&self, class: usize) -> Onsets {
        let steps = |seconds: f64| (seconds / self.data.step_seconds).round() as i64;
        let (before, after) = (steps(BEFORE_SECONDS), steps(AFTER_SECONDS));
        let mut onsets = Onsets::default();
        for segment in self.data.segments {
            let is_class = |step: i64| self.label(step as usize) == Some(class);
            let mut own = Vec::new();
            let mut step = segment.start;
            while step < segment.stop {
                if !is_class(step) {
                    step += 1;
                    continue;
                }
                let onset = step;
                while step < segment.stop && is_class(step) {
                    step += 1;
                }
                own.push(Onset {
                    step: onset,
                    window: (onset - before).max(segment.start)..(step + after).min(segment.stop),
                    is_judged: self.is_known(onset as usize),
                });
            }
            let inside = |s: &i64| own.iter().any(|onset| onset.window.contains(s));
            let outside = (segment.start..segment.stop).filter(|step| {
                let known = self.label(*step as usize).is_some() && self.is_known(*step as usize);
                known && !inside(step)
            });
            onsets.outside += outside.count() as u64;
            onsets.of_segment.push(own);
        }
        onsets
    }

    /// Scores of the events that `rule` makes of the probabilities of `class`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub(super) fn event_scores(
        &self,
        class: usize,
        rule: EventRule,
        onsets: &Onsets,
    ) -> Result<EventScores> {
        let mut detector = EventDetector::new(&[Some(rule)], self.data.step_seconds)?;
        let mut events = [ClassEvent::default(); 2];
        let (mut false_alarms, mut missed, mut latencies) = (0_u64, 0_u64, Vec::new());
        for (segment, own) in self.data.segments.iter().zip(&onsets.of_segment) {
            detector.reset(segment.start);
            let mut at = Vec::new();
            for step in segment.start..segment.stop {
                let p = self.row(step as usize)[class];
                if p.is_finite() {
                    detector.step(step, &[f64::from(p)]);
                }
                let count = detector.read(&mut events);
                at.extend(events[..count].iter().filter(|e| e.on).map(|e| e.tick));
            }
            for onset in own.iter().filter(|onset| onset.is_judged) {
                match at.iter().find(|tick| onset.window.contains(tick)) {
                    Some(tick) => {
                        latencies.push((tick - onset.step) as f64 * self.data.step_seconds);
                    }
                    None => missed += 1,
                }
            }
            let of_none = |tick: &&i64| {
                !own.iter().any(|onset| onset.window.contains(tick))
                    && self.label(**tick as usize).is_some()
            };
            false_alarms += at.iter().filter(of_none).count() as u64;
        }
        latencies.sort_unstable_by(f64::total_cmp);
        let quantile = |share: f64| match latencies.len() {
            0 => f64::NAN,
            n => latencies[((n - 1) as f64 * share).round() as usize],
        };
        let number = missed + latencies.len() as u64;
        let minutes = onsets.outside as f64 * self.data.step_seconds / 60.0;
        Ok(EventScores {
            onsets: number,
            missed: missed as f64 / number.max(1) as f64,
            false_alarms_per_minute: match false_alarms {
                0 => 0.0,
                n => n as f64 / minutes,
            },
            latency: latencies.iter().sum::<f64>() / latencies.len() as f64,
            latency_median: quantile(0.5),
            latency_10_90: [quantile(0.1), quantile(0.9)],
        })
    }
}

/// True onsets of a class.
#[derive(Default)]
pub(super) struct Onsets {
    of_segment: Vec<Vec<Onset>>,
    /// Labelled steps with probabilities outside the windows of all onsets.
    outside: u64,
}

/// A true onset.
struct Onset {
    step: i64,
    /// Steps in which an event is this onset's.
    window: std::ops::Range<i64>,
    /// False if the onset has no probabilities: it is neither found nor missed.
    is_judged: bool,
}

impl Onsets {
    /// Number of onsets that are judged.
    pub(super) fn len(&self) -> usize {
        let of_segment = self.of_segment.iter().flatten();
        of_segment.filter(|onset| onset.is_judged).count()
    }
}

/// The label of the step that goes with the probabilities at `step`.
pub(super) fn label_at(labels: &Labels, delay_steps: i64, step: usize) -> Option<usize> {
    labels.get(usize::try_from(step as i64 - delay_steps).ok()?)
}

fn largest(values: impl Iterator<Item = f64>) -> usize {
    let best = values
        .enumerate()
        .fold((0, f64::NEG_INFINITY), |best, (k, value)| {
            if value > best.1 { (k, value) } else { best }
        });
    best.0
}

/// Mean of shares over those that have a denominator.
fn mean_share(shares: impl Iterator<Item = (u64, u64)>) -> f64 {
    let known: Vec<f64> = shares
        .filter(|(_, of)| *of > 0)
        .map(|(part, of)| part as f64 / of as f64)
        .collect();
    known.iter().sum::<f64>() / known.len() as f64
}
