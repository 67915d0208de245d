//! A hidden Markov model behind the probabilities: taken only where it makes held-out labels more likely.

use super::scores::Predictions;
use betz_base::float;
use betz_recording::labels::Labels;
use betz_recording::{DatasetView, Segment};
use betz_runtime::model::Markov;

/// Weights κ of one step's evidence that are tried.
const KAPPAS: [f64; 7] = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0];
/// Transitions of every kind that count as seen.
const SEEN: f64 = 0.5;
const FLOOR: f64 = 1e-9;

/// The model of `labels` with `kappa`: transitions and starts counted inside segments.
pub(super) fn from_labels(labels: &Labels, data: &DatasetView<'_>, kappa: f64) -> Markov {
    let classes = labels.classes();
    let mut transitions = vec![SEEN; classes * classes];
    let mut start = vec![SEEN; classes];
    for Segment { start: first, stop } in data.segments {
        for step in *first..*stop {
            let now = labels.get(step as usize);
            let before = (step > *first)
                .then(|| labels.get(step as usize - 1))
                .flatten();
            match (before, now) {
                (Some(before), Some(now)) => transitions[before * classes + now] += 1.0,
                (None, Some(now)) if step == *first => start[now] += 1.0,
                _ => {}
            }
        }
    }
    for row in transitions
        .chunks_exact_mut(classes)
        .chain([&mut start[..]])
    {
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|share| *share /= sum);
    }
    Markov {
        kappa,
        transitions,
        start,
    }
}

/// `judged`'s probabilities behind `markov`, (step, class); NaN where they are.
pub(super) fn filtered(judged: Predictions<'_>, priors: &[f64], markov: &Markov) -> Vec<f32> {
    let classes = priors.len();
    let mut out = judged.probabilities.to_vec();
    for segment in judged.data.segments {
        let mut alpha: Option<Vec<f64>> = None;
        for step in segment.start as usize..segment.stop as usize {
            let row = judged.row(step);
            if !row[0].is_finite() {
                continue;
            }
            let predicted = match &alpha {
                None => markov.start.clone(),
                Some(alpha) => {
                    let to = |k: usize| {
                        let column = markov.transitions.iter().skip(k).step_by(classes);
                        alpha.iter().zip(column).map(|(a, share)| a * share).sum()
                    };
                    (0..classes).map(to).collect()
                }
            };
            let evidence = row.iter().zip(priors);
            let mut next: Vec<f64> = (predicted.iter().zip(evidence))
                .map(|(a, (p, prior))| {
                    a * float::powf(f64::from(*p).max(1e-30) / prior, markov.kappa)
                })
                .collect();
            for floor in [0.0, FLOOR] {
                let total: f64 = next.iter().sum();
                next.iter_mut().for_each(|a| *a = (*a / total).max(floor));
            }
            for (out, a) in out[step * classes..].iter_mut().zip(&next) {
                *out = *a as f32;
            }
            alpha = Some(next);
        }
    }
    out
}

/// The κ whose filtered probabilities make the held-out labels likelier than without a model; `None` if none does.
pub(super) fn choose(judged: Predictions<'_>, priors: &[f64]) -> Option<(Markov, Vec<f32>)> {
    let mut least = judged.scores(priors).nll;
    let mut best = None;
    for kappa in KAPPAS {
        let markov = from_labels(judged.labels, &judged.data, kappa);
        let probabilities = filtered(judged, priors, &markov);
        let nll = Predictions {
            probabilities: &probabilities,
            ..judged
        }
        .scores(priors)
        .nll;
        if nll < least {
            (least, best) = (nll, Some((markov, probabilities)));
        }
    }
    best
}
