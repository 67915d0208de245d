//! Classes: the probability of each class, from the latents and cosines of them.
//!
//! Multinomial logistic regression on the features of a lift. A hidden Markov model may smooth the
//! probabilities over time. The outputs of such a decoder are its classes, in their order.

use alloc::vec::Vec;
use betz_base::float;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use super::arithmetic::{Width, add_rows, cosines_of_rows, softmax_of_rows};
use super::{
    Cosines, FORGOTTEN, Kind, HeadStep, check_finite, check_radius, clip, expect, refuse,
};
use crate::psc::flush;
use betz_base::error::Result;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};

/// Largest number of classes.
pub const MAX_CLASSES: usize = 256;

/// Largest score that a step can come to.
const MAX_SCORE: f64 = 1e30;

/// Probability that a hidden Markov model leaves every class at least.
const FLOOR: f64 = 1e-9;

/// Probabilities of classes: p = softmax(Wᵀu + b) with u = [z; h ∗ z; cos(2π·(Fz + p))].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classes {
    /// Radius of the clip, and the cosines. Without units, u has no cosines.
    pub cosines: Cosines,
    /// Time constant of the filter h of the latents, in seconds; `None`: u has no filtered latents.
    pub tau_seconds: Option<f64>,
    /// W, row-major (feature of u, class), calibrated.
    pub weights: Vec<f32>,
    /// b, one per class, calibrated.
    pub bias: Vec<f32>,
    /// Share of each class in training; they add up to 1.
    pub priors: Vec<f64>,
    /// Hidden Markov model behind the probabilities.
    pub markov: Option<Markov>,
    /// Rule by which each class makes events; `None` for a class that makes none.
    pub events: Vec<Option<EventRule>>,
}

/// Hidden Markov model of the classes: α ← (Aᵀα) ∘ (p/π)^κ, normalised, with π the priors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Markov {
    /// κ, 0 to 1: weight of one step's evidence.
    pub kappa: f64,
    /// A, row-major (from, to); each row adds up to 1.
    pub transitions: Vec<f64>,
    /// α before the first step; adds up to 1.
    pub start: Vec<f64>,
}

/// Rule by which the probability of a class makes events, with hysteresis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventRule {
    /// The class is on after `dwell` steps in a row with a probability of at least this.
    pub on: f32,
    /// It is off at the first step with a probability below this.
    pub off: f32,
    /// Number of steps in a row, at least 1.
    pub dwell: u32,
    /// Shortest time between two onsets of the class, in seconds.
    pub refractory_seconds: f64,
}

impl Classes {
    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.bias.len()
    }

    /// Number of features of `latents` latents.
    pub fn features(&self, latents: usize) -> usize {
        latents * (1 + usize::from(self.tau_seconds.is_some())) + self.cosines.units()
    }

    /// Number of latents.
    pub fn latents(&self) -> usize {
        let features = self.weights.len() / self.classes().max(1);
        (features.saturating_sub(self.cosines.units()))
            / (1 + usize::from(self.tau_seconds.is_some()))
    }

    fn check_scores(&self, latents: usize) -> Result<()> {
        let (classes, radius) = (self.classes(), self.cosines.radius);
        let features = self.features(latents);
        expect("weights", self.weights.len(), features * classes)?;
        check_finite("weights", &self.weights, MAX_SCORE)?;
        check_finite("bias", &self.bias, MAX_SCORE)?;
        let linear = features - self.cosines.units();
        for class in 0..classes {
            let bounds = (0..features).map(|i| if i < linear { radius } else { 1.0 });
            let weights = self.weights.iter().skip(class).step_by(classes);
            let sum: f64 = (bounds.zip(weights))
                .map(|(bound, weight)| bound * f64::from(*weight).abs())
                .sum();
            let most = sum + f64::from(self.bias[class]).abs();
            if most > MAX_SCORE {
                return refuse(format!(
                    "weights of class {class}: expected scores of at most {MAX_SCORE:e} within the radius, got {most:e}"
                ));
            }
        }
        Ok(())
    }

    fn check_events(&self) -> Result<()> {
        expect("events, one per class", self.events.len(), self.classes())?;
        for (class, rule) in self.events.iter().enumerate() {
            let Some(rule) = rule else { continue };
            let thresholds = 0.0 <= rule.off && rule.off <= rule.on && rule.on <= 1.0;
            let refractory = (0.0..=1e6).contains(&rule.refractory_seconds);
            if !(thresholds && rule.on > 0.0 && rule.dwell > 0 && refractory) {
                return refuse(format!(
                    "events of class {class}: expected 0 <= off <= on <= 1, on > 0, dwell >= 1 and a refractory time of \
                     0 to 1e6 s, got {rule:?}"
                ));
            }
        }
        Ok(())
    }
}

impl Markov {
    fn check(&self, classes: usize) -> Result<()> {
        if !(0.0..=1.0).contains(&self.kappa) {
            return refuse(format!("markov.kappa: expected 0 to 1, got {}", self.kappa));
        }
        expect("markov.transitions", self.transitions.len(), classes * classes)?;
        for row in self.transitions.chunks_exact(classes) {
            check_shares("markov.transitions", row, classes)?;
        }
        check_shares("markov.start", &self.start, classes)
    }
}

/// Refuses `shares` that are not `classes` numbers from 0 to 1 that add up to 1.
pub(crate) fn check_shares(what: &str, shares: &[f64], classes: usize) -> Result<()> {
    expect(what, shares.len(), classes)?;
    let sum: f64 = shares.iter().sum();
    let inside = shares.iter().all(|share| (0.0..=1.0).contains(share));
    if inside && (sum - 1.0).abs() <= 1e-6 {
        return Ok(());
    }
    refuse(format!(
        "{what}: expected shares from 0 to 1 that add up to 1, got {shares:?}, which add up to {sum}"
    ))
}

impl Kind for Classes {
    type StepForm = PreparedClasses;
    const NAME: &'static str = "classes";
    const TAG: [u8; 4] = *b"CLAS";

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        let classes = self.classes();
        if !(2..=MAX_CLASSES).contains(&classes) {
            return refuse(format!(
                "bias: expected 2 to {MAX_CLASSES} values, one per class, got {classes}"
            ));
        }
        expect("bias, one per output", classes, outputs)?;
        check_radius(self.cosines.radius)?;
        if self.cosines.units() > 0 || !self.cosines.frequencies.is_empty() {
            self.cosines.check(latents)?;
        }
        if let Some(tau) = self.tau_seconds
            && !(tau.is_finite() && tau > 0.0)
        {
            return refuse(format!(
                "tau_seconds: expected a finite tau > 0 s, got {tau}"
            ));
        }
        self.check_scores(latents)?;
        check_shares("priors", &self.priors, classes)?;
        if let Some(class) = self.priors.iter().position(|&prior| prior < 1e-12) {
            return refuse(format!(
                "priors[{class}]: expected a share of at least 1e-12, got {}",
                self.priors[class]
            ));
        }
        if let Some(markov) = &self.markov {
            markov.check(classes)?;
        }
        self.check_events()
    }

    fn write(&self, to: &mut Writer) {
        to.f64(self.cosines.radius);
        to.f32s(&self.cosines.frequencies);
        to.f32s(&self.cosines.phases);
        to.flag(self.tau_seconds.is_some());
        if let Some(tau) = self.tau_seconds {
            to.f64(tau);
        }
        to.f32s(&self.weights);
        to.f32s(&self.bias);
        to.f64s(&self.priors);
        to.flag(self.markov.is_some());
        if let Some(markov) = &self.markov {
            to.f64(markov.kappa);
            to.f64s(&markov.transitions);
            to.f64s(&markov.start);
        }
        for rule in &self.events {
            to.flag(rule.is_some());
            if let Some(rule) = rule {
                to.f64(f64::from(rule.on));
                to.f64(f64::from(rule.off));
                to.u32(rule.dwell);
                to.f64(rule.refractory_seconds);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let cosines = Cosines {
            radius: from.at("radius").f64()?,
            frequencies: from.at("frequencies").f32s()?,
            phases: from.at("phases").f32s()?,
        };
        let tau_seconds = match from.at("tau_seconds").flag()? {
            true => Some(from.at("tau_seconds").f64()?),
            false => None,
        };
        let weights = from.at("weights").f32s()?;
        let bias = from.at("bias").f32s()?;
        let priors = from.at("priors").f64s()?;
        let markov = match from.at("markov").flag()? {
            true => Some(Markov {
                kappa: from.at("markov.kappa").f64()?,
                transitions: from.at("markov.transitions").f64s()?,
                start: from.at("markov.start").f64s()?,
            }),
            false => None,
        };
        let mut events = Vec::with_capacity(bias.len().min(MAX_CLASSES));
        for _ in 0..bias.len().min(MAX_CLASSES) {
            events.push(match from.at("events").flag()? {
                true => Some(EventRule {
                    on: from.at("events.on").f64()? as f32,
                    off: from.at("events.off").f64()? as f32,
                    dwell: from.at("events.dwell").u32()?,
                    refractory_seconds: from.at("events.refractory_seconds").f64()?,
                }),
                false => None,
            });
        }
        Ok(Self {
            cosines,
            tau_seconds,
            weights,
            bias,
            priors,
            markov,
            events,
        })
    }

    fn prepare(&self, step_seconds: f64) -> Result<PreparedClasses> {
        let latents = self.latents();
        let filter = self.tau_seconds.map(|tau| step_seconds / tau);
        let forget = |log_decay: f64| (-float::ln(FORGOTTEN) / log_decay).ceil().min(1e15) as u64;
        let filtered_steps = filter.map_or(0, forget);
        let markov = self.markov.as_ref().map(|markov| PreparedMarkov {
            kappa: markov.kappa as f32,
            log_priors: self.priors.iter().map(|p| float::ln(*p) as f32).collect(),
            transitions: markov.transitions.clone(),
            start: markov.start.clone(),
        });
        let markov_steps = (self.markov.as_ref()).map_or(0, |m| m.memory_steps(self.classes()));
        Ok(PreparedClasses {
            width: Width::detect(),
            radius: self.cosines.radius,
            latents,
            filter: filter.map(|steps| (float::exp(-steps), -float::exp_m1(-steps))),
            frequencies: self.cosines.frequencies.clone(),
            phases: self.cosines.phases.clone(),
            weights: self.weights.clone(),
            bias: self.bias.clone(),
            markov,
            memory_steps: filtered_steps.saturating_add(markov_steps),
        })
    }
}

impl Markov {
    /// Steps after which A alone has forgotten a state, by its smallest share of leaving (Doeblin): at most 10⁹.
    fn memory_steps(&self, classes: usize) -> u64 {
        let least = |to: usize| {
            let column = self.transitions.iter().skip(to).step_by(classes);
            column.fold(1.0, |least: f64, &share| least.min(share))
        };
        let mixing: f64 = (0..classes).map(least).sum();
        (-float::ln(FORGOTTEN) / mixing.clamp(1e-8, 1.0)).ceil() as u64
    }
}

/// [`Classes`] in the form that steps use.
#[derive(Debug, Clone)]
pub(crate) struct PreparedClasses {
    width: Width,
    radius: f64,
    latents: usize,
    /// ρ and 1 − ρ of the filter of the latents.
    filter: Option<(f64, f64)>,
    /// (latent, unit)
    frequencies: Vec<f32>,
    phases: Vec<f32>,
    /// (feature, class)
    weights: Vec<f32>,
    bias: Vec<f32>,
    markov: Option<PreparedMarkov>,
    memory_steps: u64,
}

#[derive(Debug, Clone)]
struct PreparedMarkov {
    kappa: f32,
    log_priors: Vec<f32>,
    transitions: Vec<f64>,
    start: Vec<f64>,
}

impl PreparedMarkov {
    /// One step of α, which is all 0 before the first; `scores` become its evidence.
    fn step(&self, width: Width, scores: &mut [f32], alpha: &mut [f64], outputs: &mut [f64]) {
        for (score, log_prior) in scores.iter_mut().zip(&self.log_priors) {
            *score = self.kappa * (*score - log_prior);
        }
        softmax_of_rows(width, scores, &[], &[]);
        if alpha.iter().all(|a| *a == 0.0) {
            outputs.copy_from_slice(&self.start);
        } else {
            outputs.fill(0.0);
            for (a, row) in alpha.iter().zip(self.transitions.chunks_exact(outputs.len())) {
                for (output, share) in outputs.iter_mut().zip(row) {
                    *output += a * share;
                }
            }
        }
        let mut total = 0.0;
        for (output, evidence) in outputs.iter_mut().zip(&*scores) {
            *output *= f64::from(*evidence);
            total += *output;
        }
        // Evidence that no class can explain leaves the classes as likely as the evidence says.
        if total <= 0.0 {
            for (output, evidence) in outputs.iter_mut().zip(&*scores) {
                *output = f64::from(*evidence);
            }
            total = 1.0;
        }
        let mut floored = 0.0;
        for output in outputs.iter_mut() {
            *output = (*output / total).max(FLOOR);
            floored += *output;
        }
        for (alpha, output) in alpha.iter_mut().zip(outputs) {
            *output /= floored;
            *alpha = *output;
        }
    }
}

impl PreparedClasses {
    pub(super) fn classes(&self) -> usize {
        self.bias.len()
    }

    pub(super) fn latents(&self) -> usize {
        self.latents
    }
}

impl HeadStep for PreparedClasses {
    /// The filtered latents, then α.
    fn states(&self) -> usize {
        let filtered = if self.filter.is_some() { self.latents } else { 0 };
        filtered + self.markov.as_ref().map_or(0, |_| self.classes())
    }

    /// The features, then one score per class.
    fn scratch(&self) -> usize {
        self.weights.len() / self.classes() + self.classes()
    }

    fn memory_steps(&self) -> u64 {
        self.memory_steps
    }

    fn instructions(&self) -> u64 {
        let transitions = self.markov.as_ref().map_or(0, |m| m.transitions.len());
        let products = self.frequencies.len() + self.weights.len() + transitions;
        (1000 + 2 * products + 30 * self.classes()) as u64
    }

    fn hash(&self, hash: &mut Fnv1a) {
        hash.number(self.radius);
        hash.word(self.latents as u64);
        if let Some((decay, _)) = self.filter {
            hash.number(decay);
        }
        for list in [&self.frequencies, &self.phases, &self.weights, &self.bias] {
            list.iter().for_each(|v| hash.number(f64::from(*v)));
        }
        if let Some(markov) = &self.markov {
            hash.number(f64::from(markov.kappa));
            (markov.log_priors.iter()).for_each(|v| hash.number(f64::from(*v)));
            (markov.transitions.iter().chain(&markov.start)).for_each(|v| hash.number(*v));
        }
    }

    #[inline]
    fn step(
        &self,
        latents: &mut [f64],
        states: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        let clipped = clip(latents, self.radius);
        let (features, scores) = scratch.split_at_mut(scratch.len() - self.classes());
        let (input, behind) = features.split_at_mut(self.latents);
        for (z, latent) in input.iter_mut().zip(latents.iter()) {
            *z = *latent as f32;
        }
        let mut alpha = states;
        let mut cosines = behind;
        if let Some((decay, gain)) = self.filter {
            let (filtered, rest) = cosines.split_at_mut(self.latents);
            let (slow, own) = alpha.split_at_mut(self.latents);
            for ((state, z), latent) in slow.iter_mut().zip(filtered).zip(latents) {
                *state = flush(decay * *state + gain * *latent);
                *z = *state as f32;
            }
            (cosines, alpha) = (rest, own);
        }
        if !cosines.is_empty() {
            cosines.copy_from_slice(&self.phases);
            cosines_of_rows(self.width, cosines, input, &self.frequencies);
        }
        scores.copy_from_slice(&self.bias);
        match &self.markov {
            Some(markov) => {
                add_rows(self.width, scores, features, &self.weights);
                markov.step(self.width, scores, alpha, outputs);
            }
            None => {
                softmax_of_rows(self.width, scores, features, &self.weights);
                for (output, share) in outputs.iter_mut().zip(scores.iter()) {
                    *output = f64::from(*share);
                }
            }
        }
        clipped
    }
}
