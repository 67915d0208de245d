//! A moving window of sums, in parts: the oldest part leaves when a new one is full.

use super::Unlikeness;
use super::reference::Reference;
use std::collections::VecDeque;

/// Parts of a window.
pub(super) const PARTS: u64 = 20;

/// Sums over some steps. Latents are counted from their mean in training.
#[derive(Clone)]
struct Part {
    steps: u64,
    sum: Vec<f64>,
    /// Σ z zᵀ, (latent, latent).
    products: Vec<f64>,
    /// Spikes of each channel.
    counts: Vec<f64>,
}

impl Part {
    fn new(latents: usize, channels: usize) -> Self {
        Self {
            steps: 0,
            sum: vec![0.0; latents],
            products: vec![0.0; latents * latents],
            counts: vec![0.0; channels],
        }
    }

    fn clear(&mut self) {
        self.steps = 0;
        for list in [&mut self.sum, &mut self.products, &mut self.counts] {
            list.fill(0.0);
        }
    }

    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        let lists = [
            (&mut self.sum, &other.sum),
            (&mut self.products, &other.products),
            (&mut self.counts, &other.counts),
        ];
        for (to, from) in lists {
            (to.iter_mut().zip(from)).for_each(|(to, from)| *to += from);
        }
    }
}

/// The newest parts, and one that fills.
pub(super) struct Window {
    full: VecDeque<Part>,
    filling: Part,
    /// Room for the sum of all parts.
    whole: Part,
    part_steps: u64,
    /// Latents of a step, from their mean in training.
    centred: Vec<f64>,
}

impl Window {
    pub(super) fn new(steps: u64, latents: usize, channels: usize) -> Self {
        let part = Part::new(latents, channels);
        Self {
            full: VecDeque::with_capacity(PARTS as usize),
            filling: part.clone(),
            whole: part,
            part_steps: steps.div_ceil(PARTS),
            centred: vec![0.0; latents],
        }
    }

    /// Adds a step; true if it has filled a part, and all parts of a window are there.
    pub(super) fn push(
        &mut self,
        latents: &[f32],
        fired: &[(u32, f32)],
        reference: &Reference,
    ) -> bool {
        let part = &mut self.filling;
        for ((to, z), mean) in self.centred.iter_mut().zip(latents).zip(&reference.mean) {
            *to = f64::from(*z) - mean;
        }
        part.steps += 1;
        for (row, (sum, a)) in part
            .products
            .chunks_exact_mut(self.centred.len())
            .zip(part.sum.iter_mut().zip(&self.centred))
        {
            *sum += a;
            (row.iter_mut().zip(&self.centred)).for_each(|(to, b)| *to += a * b);
        }
        for (channel, count) in fired {
            if let Some(to) = part.counts.get_mut(*channel as usize) {
                *to += f64::from(*count);
            }
        }
        if part.steps < self.part_steps {
            return false;
        }
        let mut next = match self.full.len() as u64 {
            PARTS => self.full.pop_front(),
            _ => None,
        }
        .unwrap_or_else(|| Part::new(self.centred.len(), self.whole.counts.len()));
        next.clear();
        self.full.push_back(std::mem::replace(part, next));
        self.full.len() as u64 == PARTS
    }

    /// The window against training; `None` without a step.
    pub(super) fn compare(&mut self, reference: &Reference, tick: i64) -> Option<Unlikeness> {
        self.whole.clear();
        for part in &self.full {
            self.whole.add(part);
        }
        let (whole, steps) = (&self.whole, self.whole.steps as f64);
        let shift: Vec<f64> = whole.sum.iter().map(|sum| sum / steps).collect();
        let k = shift.len();
        let covariance: Vec<f64> = (whole.products.iter().enumerate())
            .map(|(i, sum)| sum / steps - shift[i / k] * shift[i % k])
            .collect();
        (whole.steps > 0).then(|| Unlikeness {
            tick,
            seconds: steps * reference.step_seconds,
            latents: reference.divergence(&shift, &covariance),
            rates: reference.rate_change(&whole.counts, steps),
        })
    }
}
