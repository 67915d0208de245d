//! Calibration of scores, on steps that were held out: a scale and, for two classes, an offset.

use super::softmax_in_place;

/// Bounds of the scale.
const SCALE: (f64, f64) = (0.02, 5.0);
const STEPS: usize = 30;

/// ℓ ← scale·ℓ, and for two classes ± offset/2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Calibration {
    pub(super) scale: f64,
    pub(super) offset: f64,
}

impl Calibration {
    /// Changes the scores of one step in place.
    pub(super) fn apply(self, scores: &mut [f64]) {
        scores.iter_mut().for_each(|s| *s *= self.scale);
        if let [first, second] = scores {
            *first -= self.offset / 2.0;
            *second += self.offset / 2.0;
        }
    }

    /// The most likely calibration of `scores`, (step, class), given the class of each step: Newton's method.
    pub(super) fn fit(scores: &[f64], labels: &[usize], classes: usize) -> Self {
        let mut found = Self {
            scale: 1.0,
            offset: 0.0,
        };
        let mut p = vec![0.0; classes];
        for _ in 0..STEPS {
            let (mut g, mut h) = ([0.0; 2], [0.0; 3]);
            for (row, &label) in scores.chunks_exact(classes).zip(labels) {
                p.copy_from_slice(row);
                found.apply(&mut p);
                softmax_in_place(&mut p);
                let mean: f64 = p.iter().zip(row).map(|(p, s)| p * s).sum();
                let square: f64 = p.iter().zip(row).map(|(p, s)| p * s * s).sum();
                g[0] += row[label] - mean;
                h[0] += square - mean * mean;
                if classes == 2 {
                    let q = p[0] * p[1];
                    g[1] += label as f64 - p[1];
                    h[1] += q * (row[1] - row[0]);
                    h[2] += q;
                }
            }
            let (h0, h2) = (h[0] + 1e-9, h[2] + 1e-9);
            let determinant = h0 * h2 - h[1] * h[1];
            let step = match classes {
                2 if determinant > 0.0 => [
                    (h2 * g[0] - h[1] * g[1]) / determinant,
                    (h0 * g[1] - h[1] * g[0]) / determinant,
                ],
                _ => [g[0] / h0, 0.0],
            };
            let before = found;
            found.scale = (found.scale + step[0].clamp(-1.0, 1.0)).clamp(SCALE.0, SCALE.1);
            found.offset = (found.offset + step[1].clamp(-2.0, 2.0)).clamp(-50.0, 50.0);
            let moved = (found.scale - before.scale).abs() + (found.offset - before.offset).abs();
            if moved < 1e-9 {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores that are three times too confident, and one class said too often.
    #[test]
    fn overconfidence_is_found() {
        let (mut scores, mut labels) = (Vec::new(), Vec::new());
        for i in 0..4000 {
            let difference = (i % 80) as f64 / 10.0 - 4.0;
            let p = 1.0 / (1.0 + (-(difference - 0.5)).exp());
            // The share p of each score's steps has label 1.
            let label = usize::from(((i / 80) as f64 + 0.5) / 50.0 < p);
            scores.extend([-1.5 * difference, 1.5 * difference]);
            labels.push(label);
        }
        let found = Calibration::fit(&scores, &labels, 2);
        assert!((found.scale - 1.0 / 3.0).abs() < 0.01, "{found:?}");
        assert!((found.offset + 0.5).abs() < 0.05, "{found:?}");
        let three: Vec<f64> = scores.chunks(2).flat_map(|s| [s[0], s[1], -9.0]).collect();
        let found = Calibration::fit(&three, &labels, 3);
        assert!(found.scale < 0.5 && found.offset == 0.0, "{found:?}");
    }
}
