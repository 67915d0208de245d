//! Two estimates blended by how far they lie apart.
//!
//! Networks decode movements like those of training best, and go astray where a movement is new. Networks trained on
//! mixtures of movements hold there, and are a little worse elsewhere. Where both agree, the first are taken; where
//! they part for longer than noise does, the second:
//!
//! ```text
//! d = Σ_o ((g_o − m_o)/σ_o)²        s ← k·s + (1 − k)·d        α = 1/(1 + (s/a)⁴)
//! y = m + (1 − w)·α·(g − m)
//! ```

use super::{check_finite, expect, refuse};
use alloc::vec::Vec;
use betz_base::error::Result;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};

/// Largest absolute value of a bias or of a deviation, and the inverse of the least of a deviation.
const MOST: f64 = 1e30;

/// Blend of the estimates of two groups of networks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Blend {
    /// Members before this one make the usual estimate g, the others the estimate m by mixtures.
    pub usual: usize,
    /// w: part of m where both agree, 0 to 1.
    pub share: f64,
    /// a: distance at which g has half of its part, in standard deviations of the outputs, squared and added up.
    pub apart: f64,
    /// k: part of the distance so far that a step keeps, 0 to below 1.
    pub kept: f64,
    /// σ: standard deviation of each output in training.
    pub deviations: Vec<f64>,
    /// The bias of m, one per output; [`Recurrent::bias`](super::Recurrent::bias) is that of g.
    pub bias: Vec<f64>,
}

impl Blend {
    pub(super) fn check(&self, members: usize, latents: usize, outputs: usize) -> Result<()> {
        if self.usual == 0 || self.usual >= members {
            return refuse(format!(
                "blend: expected 1 to {} usual members, got {}",
                members - 1,
                self.usual
            ));
        }
        if latents < outputs {
            return refuse(format!(
                "blend: expected at most as many outputs as latents, {latents}, got {outputs}"
            ));
        }
        let within = |what: &str, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            refuse(format!(
                "blend: {what}: expected {least} to {most}, got {value}"
            ))
        };
        within("share", self.share, 0.0, 1.0)?;
        within("apart", self.apart, 1e-12, 1e12)?;
        within("kept", self.kept, 0.0, 1.0 - 1e-6)?;
        expect("deviations of the blend", self.deviations.len(), outputs)?;
        (self.deviations.iter()).try_for_each(|&v| within("deviation", v, 1.0 / MOST, MOST))?;
        expect("bias of the blend", self.bias.len(), outputs)?;
        check_finite("bias of the blend", &self.bias, MOST)
    }

    pub(super) fn write(&self, to: &mut Writer) {
        to.u64(self.usual as u64);
        let numbers = [self.share, self.apart, self.kept];
        (numbers.iter()).for_each(|number| to.f64(*number));
        to.f64s(&self.deviations);
        to.f64s(&self.bias);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let usual = from.at("usual members").u64()?;
        Ok(Self {
            // One that does not fit is refused with the others that are too many.
            usual: usize::try_from(usual).unwrap_or(usize::MAX),
            share: from.at("share").f64()?,
            apart: from.at("apart").f64()?,
            kept: from.at("kept").f64()?,
            deviations: from.at("deviations").f64s()?,
            bias: from.at("bias of the blend").f64s()?,
        })
    }

    pub(super) fn hash(&self, hash: &mut Fnv1a) {
        hash.word(self.usual as u64);
        let numbers = [self.share, self.apart, self.kept];
        let lists = [&numbers[..], &self.deviations, &self.bias];
        (lists.iter().copied().flatten()).for_each(|number| hash.number(*number));
    }

    /// Turns `usual`, the estimates g, into the blended ones. `distance` is s, 0 when a session begins.
    #[inline]
    pub fn mix(&self, distance: &mut f64, usual: &mut [f64], by_mixtures: &[f64]) {
        let mut apart = 0.0;
        for ((g, m), deviation) in usual.iter().zip(by_mixtures).zip(&self.deviations) {
            let difference = (g - m) / deviation;
            apart += difference * difference;
        }
        *distance = self.kept * *distance + (1.0 - self.kept) * apart;
        let square = (*distance / self.apart) * (*distance / self.apart);
        let part = (1.0 - self.share) / (1.0 + square * square);
        for (g, m) in usual.iter_mut().zip(by_mixtures) {
            *g = m + part * (*g - m);
        }
    }
}
