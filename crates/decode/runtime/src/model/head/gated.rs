//! A linear decoder whose velocities a class gates: v̂ ← (a + b·p)·v̂.
//!
//! The first latents are the outputs of the linear decoder; the others are the latents of [`Classes`]. One
//! engine computes both. The probabilities of the classes lie behind the outputs.

use alloc::string::String;
use alloc::vec::Vec;
use super::classes::{Classes, MAX_CLASSES, PreparedClasses};
use super::{Kind, HeadStep, refuse};
use crate::model::MAX_WEIGHT;
use betz_base::error::Result;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};

/// Linear outputs, some of which are gated by the probability of a class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VelocityGate {
    /// The classes, on the latents behind those of the outputs.
    pub classes: Classes,
    /// Name of each class.
    pub names: Vec<String>,
    /// The class whose probability p opens the gate.
    pub class: u32,
    /// a, the factor of the gated outputs if p is 0.
    pub closed: f64,
    /// b, what p = 1 adds to the factor.
    pub slope: f64,
    /// True for each output that is gated.
    pub gated: Vec<bool>,
}

impl Kind for VelocityGate {
    type StepForm = PreparedGated;
    const NAME: &'static str = "gated";
    const TAG: [u8; 4] = *b"GATE";

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        let classes = self.classes.classes();
        super::expect("gated, one per output", self.gated.len(), outputs)?;
        super::expect("names, one per class", self.names.len(), classes)?;
        if let Some(twice) = (1..classes).find(|&i| self.names[..i].contains(&self.names[i])) {
            return refuse(format!(
                "names[{twice}]: {:?} is the name of an earlier class",
                self.names[twice]
            ));
        }
        if self.class as usize >= classes {
            return refuse(format!(
                "class: expected one of {classes}, got {}",
                self.class
            ));
        }
        for (what, value) in [("closed", self.closed), ("slope", self.slope)] {
            if value.is_nan() || value.abs() > 1e6 {
                return refuse(format!(
                    "{what}: expected a number of at most 1e6, got {value}"
                ));
            }
        }
        if latents <= outputs {
            return refuse(format!(
                "intercept: expected more than {outputs} values, one per output and one per latent of the classes, got {latents}"
            ));
        }
        (self.classes.check(latents - outputs, classes)).map_err(|e| e.at("classes"))
    }

    fn write(&self, to: &mut Writer) {
        self.classes.write(to);
        for name in &self.names {
            to.text(name);
        }
        to.u32(self.class);
        to.f64(self.closed);
        to.f64(self.slope);
        to.u32(self.gated.len() as u32);
        self.gated.iter().for_each(|&gated| to.flag(gated));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let classes = Classes::read(from)?;
        let mut names = Vec::new();
        for _ in 0..classes.classes().min(MAX_CLASSES) {
            names.push(from.at("names").text()?);
        }
        let (class, closed) = (from.at("class").u32()?, from.at("closed").f64()?);
        let slope = from.at("slope").f64()?;
        let outputs = from.at("gated").u32()?;
        let mut gated = Vec::new();
        for _ in 0..outputs {
            gated.push(from.at("gated").flag()?);
        }
        Ok(Self {
            classes,
            names,
            class,
            closed,
            slope,
            gated,
        })
    }

    fn prepare(&self, step_seconds: f64) -> Result<PreparedGated> {
        Ok(PreparedGated {
            classes: self.classes.prepare(step_seconds)?,
            class: self.class as usize,
            closed: self.closed,
            slope: self.slope,
            gated: self.gated.clone(),
        })
    }
}

/// [`VelocityGate`] in the form that steps use.
#[derive(Debug, Clone)]
pub(crate) struct PreparedGated {
    classes: PreparedClasses,
    class: usize,
    closed: f64,
    slope: f64,
    gated: Vec<bool>,
}

impl PreparedGated {
    pub(super) fn classes(&self) -> usize {
        self.classes.classes()
    }
}

impl HeadStep for PreparedGated {
    fn states(&self) -> usize {
        self.classes.states()
    }

    fn scratch(&self) -> usize {
        self.classes.scratch()
    }

    fn memory_steps(&self) -> u64 {
        self.classes.memory_steps()
    }

    fn instructions(&self) -> u64 {
        self.classes.instructions() + 20 * self.gated.len() as u64
    }

    fn hash(&self, hash: &mut Fnv1a) {
        self.classes.hash(hash);
        hash.word(self.class as u64);
        hash.number(self.closed);
        hash.number(self.slope);
        (self.gated.iter()).for_each(|&gated| hash.word(u64::from(gated)));
    }

    /// `outputs` are the outputs, then the probabilities of the classes.
    #[inline]
    fn step(
        &self,
        latents: &mut [f64],
        states: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        let (outputs, shares) = outputs.split_at_mut(self.gated.len());
        let (linear, latents) = latents.split_at_mut(self.gated.len());
        debug_assert_eq!(latents.len(), self.classes.latents());
        let clipped = self.classes.step(latents, states, scratch, shares);
        let factor = self.closed + self.slope * shares[self.class];
        for ((output, value), gated) in outputs.iter_mut().zip(&*linear).zip(&self.gated) {
            let value = if *gated { factor * value } else { *value };
            // The check bounds latents only; a session's outputs are f32.
            *output = value.clamp(-MAX_WEIGHT, MAX_WEIGHT);
        }
        clipped
    }
}
