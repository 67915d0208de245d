//! All that a decoder of place believes: where it most likely is, and how sure that is.

use super::{channel_order, check_shape, each_step};
use crate::movement::coordinates;
use betz_base::error::{Error, Result};
use betz_recording::{DatasetView, OutputInfo};
use betz_runtime::model::{Belief, Decoder, DecoderParts, Head, Limits};

/// Posterior of a decoder of place at every step; NaN outside segments.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    /// Mean of the outputs under the posterior, (steps, outputs) row-major: what a session gives, but for what it
    /// keeps within the labels' range.
    pub mean: Vec<f32>,
    /// Outputs in the likeliest cell, (steps, outputs) row-major.
    pub likeliest: Vec<f32>,
    /// Root of the posterior's mean square distance from its mean, in the coordinates' unit, one per step.
    pub spread: Vec<f32>,
}

/// The posterior of `decoder` at every step of `data`, from rest at each segment's start.
///
/// Allocates 4 × steps × (2 × outputs + 1) bytes.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a decoder of another kind; those of
/// [`decode`](super::decode).
pub fn beliefs<'d>(decoder: &Decoder, data: impl Into<DatasetView<'d>>) -> Result<Beliefs> {
    let data = &data.into();
    let Head::Place(place) = decoder.head() else {
        return Err(Error::argument(format!(
            "beliefs: expected a decoder of place, got one of kind {}",
            decoder.kind()
        )));
    };
    check_shape(decoder, data)?;
    let order = channel_order(decoder, data)?;
    data.spikes.check(data.steps as i64, data.channels())?;
    let n = decoder.outputs().len();
    let axes = coordinates(decoder.outputs()).unwrap_or_else(|| (0..n).collect());
    let mut belief = Belief::new(place, n)?;
    betz_base::memory::plan(
        "beliefs of place",
        data.steps as u128 * (2 * n as u128 + 1) * 4,
    )?;
    let mut beliefs = Beliefs {
        mean: vec![f32::NAN; data.steps * n],
        likeliest: vec![f32::NAN; data.steps * n],
        spread: vec![f32::NAN; data.steps],
    };
    // The linear engine alone, whose outputs are log-likelihoods.
    let parts = decoder.parts();
    let engine = Decoder::new(DecoderParts {
        head: Head::Linear,
        outputs: (0..place.cells.len())
            .map(|cell| OutputInfo::from(format!("cell {cell}").as_str()))
            .collect(),
        limits: Limits {
            ranges: Vec::new(),
            ..parts.limits.clone()
        },
        attachments: Vec::new(),
        ..parts.clone()
    })?;
    let mut log_likelihood = vec![0.0; place.cells.len()];
    each_step(&engine, data, &order, |step, first, latents| {
        if first {
            belief.reset();
        }
        let both = log_likelihood.iter_mut().zip(latents);
        both.for_each(|(own, latent)| *own = f64::from(*latent));
        let (p, mean) = belief.step(&log_likelihood);
        let row = step * n..(step + 1) * n;
        for (own, mean) in beliefs.mean[row.clone()].iter_mut().zip(mean) {
            *own = *mean as f32;
        }
        let (mut likeliest, mut spread) = (0, 0.0);
        for (cell, values) in place.values.chunks_exact(n).enumerate() {
            if p[cell] > p[likeliest] {
                likeliest = cell;
            }
            let square: f64 = axes.iter().map(|&o| (values[o] - mean[o]).powi(2)).sum();
            spread += p[cell] * square;
        }
        let values = &place.values[likeliest * n..][..n];
        for (own, value) in beliefs.likeliest[row].iter_mut().zip(values) {
            *own = *value as f32;
        }
        beliefs.spread[step] = spread.sqrt() as f32;
    })?;
    Ok(beliefs)
}
