//! Latents of a whole recording.

use rayon::prelude::*;

use super::Latents;
use betz_base::error::Result;
use betz_gram::psc::SampledSums;
use betz_recording::{DatasetView, Segment};
use betz_runtime::psc::{FilterBank, LowPass, LowPassFilter, RecursiveFilter};

/// Segments that one thread takes at a time.
const SEGMENTS: usize = 16;

/// Latents at every step of `data`, (step, latent) row-major, filters at rest at each segment's start; NaN
/// outside segments. The spikes have been checked. Runs on rayon's current pool.
///
/// # Errors
/// Returns the errors of the low-pass.
pub(crate) fn filter_latents(
    latents: &Latents,
    data: &DatasetView<'_>,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
) -> Result<Vec<f32>> {
    let r = latents.count;
    let mut z = vec![f32::NAN; data.steps * r];
    // Runs of segments with the part of `z` that is theirs.
    let mut runs: Vec<(&[Segment], usize, &mut [f32])> = Vec::new();
    let (mut rest, mut at) = (z.as_mut_slice(), 0);
    for segments in data.segments.chunks(SEGMENTS) {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
            continue;
        };
        let (first, stop) = (first.start as usize, last.stop as usize);
        let (_, from_here) = rest.split_at_mut((first - at) * r);
        let (own, after) = from_here.split_at_mut((stop - first) * r);
        runs.push((segments, first, own));
        (rest, at) = (after, stop);
    }
    runs.into_par_iter().try_for_each(|(segments, first, z)| {
        let mut walk = Recursion::new(latents, *data, bank, low_pass)?;
        for segment in segments {
            let rows = (segment.start as usize - first) * r..(segment.stop as usize - first) * r;
            walk.segment(segment, &mut z[rows]);
        }
        Ok(())
    })?;
    Ok(z)
}

/// The engine of a linear decoder with latents for outputs.
struct Recursion<'a> {
    latents: &'a Latents,
    data: DatasetView<'a>,
    bank: Vec<RecursiveFilter>,
    sampled: Option<SampledSums>,
    low_pass: Option<LowPassFilter>,
    weighted: Vec<f64>,
    response: Vec<f64>,
    sum: Vec<f64>,
}

impl<'a> Recursion<'a> {
    fn new(
        latents: &'a Latents,
        data: DatasetView<'a>,
        bank: &FilterBank,
        low_pass: Option<LowPass>,
    ) -> Result<Self> {
        let r = latents.count;
        let filters = bank.filters().iter();
        Ok(Self {
            latents,
            data,
            bank: filters
                .map(|&f| RecursiveFilter::new(f, data.step_seconds, r))
                .collect(),
            low_pass: low_pass
                .map(|l| LowPassFilter::new(l, data.step_seconds, r))
                .transpose()?,
            sampled: SampledSums::new(bank, r, low_pass)?,
            weighted: vec![0.0; bank.len() * r],
            response: vec![0.0; r],
            sum: vec![0.0; r],
        })
    }

    fn segment(&mut self, segment: &Segment, z: &mut [f32]) {
        let r = self.latents.count;
        let spikes = self.data.spikes;
        if let Some(sampled) = &mut self.sampled {
            let (mut of_segment, weights) = (
                spikes.range(segment.start, segment.stop).peekable(),
                &self.latents.weights,
            );
            sampled.run(segment.len(), |t, weighted| {
                let step = segment.start + t as i64;
                while let Some(i) = of_segment.next_if(|&i| spikes.ticks[i] == step) {
                    let row = &weights[spikes.channels[i] as usize * weighted.len()..];
                    let count = f64::from(spikes.weight(i));
                    (weighted.iter_mut().zip(row)).for_each(|(w, phi)| *w += count * phi);
                }
            });
        }
        self.bank.iter_mut().for_each(RecursiveFilter::reset);
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.reset();
        }
        let mut of_segment = spikes.range(segment.start, segment.stop).peekable();
        for (step, z) in (segment.start..segment.stop).zip(z.chunks_exact_mut(r)) {
            self.weighted.fill(0.0);
            while let Some(i) = of_segment.next_if(|&i| spikes.ticks[i] == step) {
                let channel = spikes.channels[i];
                let row = channel as usize * self.weighted.len();
                let row = &self.latents.weights[row..][..self.weighted.len()];
                let mut count = f64::from(spikes.weight(i));
                // Spikes of a channel in one step often follow each other, as in binned counts.
                let again = |&i: &usize| spikes.ticks[i] == step && spikes.channels[i] == channel;
                while let Some(i) = of_segment.next_if(again) {
                    count += f64::from(spikes.weight(i));
                }
                self.weighted
                    .iter_mut()
                    .zip(row)
                    .for_each(|(w, phi)| *w += count * phi);
            }
            self.sum.fill(0.0);
            for (filter, input) in self.bank.iter_mut().zip(self.weighted.chunks_exact(r)) {
                filter.step(input, &mut self.response);
                self.sum
                    .iter_mut()
                    .zip(&self.response)
                    .for_each(|(s, y)| *s += y);
            }
            if let Some(low_pass) = &mut self.low_pass {
                low_pass.step(&mut self.sum);
            }
            if let Some(sampled) = &self.sampled {
                sampled.add_to((step - segment.start) as usize, &mut self.sum);
            }
            for ((z, s), intercept) in z.iter_mut().zip(&self.sum).zip(&self.latents.intercept) {
                *z = (s + intercept) as f32;
            }
        }
    }
}

/// The `share` quantile of |z| over the first `r` latents of the rows, each `row` long, of the steps for
/// which `counts` holds; `None` when there is none.
pub(crate) fn quantile_of_norms(
    z: &[f32],
    (row, r): (usize, usize),
    counts: impl Fn(usize) -> bool,
    share: f64,
) -> Option<f64> {
    let norm = |z: &[f32]| {
        z[..r]
            .iter()
            .map(|v| f64::from(*v).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    let rows = z.chunks_exact(row).enumerate();
    let mut norms: Vec<f64> = rows
        .filter(|(step, _)| counts(*step))
        .map(|(_, z)| norm(z))
        .collect();
    norms.retain(|n| n.is_finite());
    if norms.is_empty() {
        return None;
    }
    let at = ((norms.len() - 1) as f64 * share.clamp(0.0, 1.0)).round() as usize;
    let (_, value, _) = norms.select_nth_unstable_by(at, f64::total_cmp);
    Some(*value)
}
