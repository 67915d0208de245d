//! The shape of a unit's spike on all channels that see it.

use crate::settings::{Settings, Span, Window};
#[cfg(feature = "train")]
use betz_base::{Error, ErrorKind, Result};
#[cfg(feature = "train")]
use betz_linear::{Mat, eigen};

/// Products of a shape in time and weights of channels that a template is the sum of.
pub(crate) const RANK: usize = 3;

/// A unit's mean spike in standard deviations of the noise, Σ_r shape_r (sample) weight_r (channel).
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Template {
    /// First and last plus one of its channels, by their place in the layout.
    pub(crate) from: usize,
    pub(crate) until: usize,
    /// (RANK, span): of unit length and at right angles.
    pub(crate) shapes: Vec<f32>,
    /// (RANK, channels).
    pub(crate) weights: Vec<f32>,
    /// Standard deviation of its score, Σ template · voltage, in noise.
    pub(crate) floor: f32,
}

impl Template {
    /// True if its parts fit each other and `channels` of a layout.
    pub(crate) fn fits(&self, span: Span, channels: usize) -> bool {
        let finite = |values: &[f32]| values.iter().all(|v| v.is_finite());
        self.from < self.until
            && self.until <= channels
            && self.shapes.len() == RANK * span.len()
            && self.weights.len() == RANK * (self.until - self.from)
            && finite(&self.shapes)
            && finite(&self.weights)
            && self.floor.is_finite()
            && self.floor >= 0.0
    }

    /// The same with other weights: what a mean differs by, `faded` (waves, channels) of `waves` (waves, window), as far as the
    /// shapes have it.
    pub(crate) fn moved(&self, settings: &Settings, waves: &[f32], faded: &[f32]) -> Self {
        let (span, window) = (
            Span::from_settings(settings),
            Window::from_settings(settings),
        );
        let mut moved = self.clone();
        let width = self.until - self.from;
        let begin = span.before - window.before;
        for (shape, weights) in
            (self.shapes.chunks_exact(span.len())).zip(moved.weights.chunks_exact_mut(width))
        {
            let part = &shape[begin..begin + window.len()];
            for (wave, faded) in (waves.chunks_exact(window.len())).zip(faded.chunks_exact(width)) {
                let common: f32 = part.iter().zip(wave).map(|(a, b)| a * b).sum();
                for (w, f) in weights.iter_mut().zip(faded) {
                    *w += common * f;
                }
            }
        }
        moved
    }

    /// The mean, (span, channels).
    #[cfg(feature = "train")]
    pub(crate) fn mean(&self) -> Vec<f32> {
        let width = self.until - self.from;
        let span = (self.shapes.len() / RANK).max(1);
        let mut mean = vec![0.0; span * width];
        for (shape, weights) in
            (self.shapes.chunks_exact(span)).zip(self.weights.chunks_exact(width.max(1)))
        {
            for (row, s) in mean.chunks_exact_mut(width.max(1)).zip(shape) {
                for (m, w) in row.iter_mut().zip(weights) {
                    *m += s * w;
                }
            }
        }
        mean
    }

    #[cfg(feature = "train")]
    pub(crate) fn energy(&self) -> f32 {
        self.weights.iter().map(|w| w * w).sum()
    }

    /// The nearest to a mean, (span, channels from `from` on); channels whose mean is nowhere above `least` are left out.
    #[cfg(feature = "train")]
    pub(crate) fn of(mean: &[f64], span: Span, from: usize, least: f64) -> Result<Self> {
        let width = mean.len() / span.len();
        let mut mean = mean.to_vec();
        for c in 0..width {
            let most = (mean.iter().skip(c).step_by(width)).fold(0.0, |m: f64, y| m.max(y.abs()));
            if most < least {
                mean.iter_mut()
                    .skip(c)
                    .step_by(width)
                    .for_each(|y| *y = 0.0);
            }
        }
        let products = Mat::from_fn(width, width, |a, b| {
            let rows = mean.chunks_exact(width);
            rows.map(|row| row[a] * row[b]).sum::<f64>()
        });
        let found = eigen(products.as_ref()).ok_or_else(|| {
            Error::new(ErrorKind::NonFinite, "templates: no principal components")
        })?;
        let mut template = Self {
            from,
            until: from + width,
            shapes: vec![0.0; RANK * span.len()],
            weights: vec![0.0; RANK * width],
            floor: 0.0,
        };
        for r in 0..RANK.min(width) {
            let axis = |c: usize| found.vectors[(c, width - 1 - r)];
            let rows = mean.chunks_exact(width);
            let shape: Vec<f64> = rows
                .map(|row| row.iter().enumerate().map(|(c, y)| y * axis(c)).sum())
                .collect();
            let length = shape.iter().map(|s| s * s).sum::<f64>().sqrt();
            if length < 1e-9 {
                continue;
            }
            for (to, s) in template.shapes[r * span.len()..].iter_mut().zip(&shape) {
                *to = (s / length) as f32;
            }
            for (c, to) in template.weights[r * width..][..width]
                .iter_mut()
                .enumerate()
            {
                *to = (length * axis(c)) as f32;
            }
        }
        template.floor = 1.5 * template.energy().sqrt();
        Ok(template)
    }
}
