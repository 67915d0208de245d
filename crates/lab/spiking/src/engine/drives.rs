//! Drives of populations: asked when their currents change.

use std::fmt;

use betz_base::{Error, Result};

use super::Machine;
use crate::check::LARGEST;
use crate::drive::Drive;
use crate::spec::Network;

/// The drives of an engine's populations.
#[derive(Debug, Default)]
pub(super) struct Drives {
    all: Vec<DrivenPopulation>,
}

struct DrivenPopulation {
    population: usize,
    name: String,
    /// Stimuli of its neurons in pA.
    stimuli: Vec<f64>,
    scale: f32,
    drive: Box<dyn Drive>,
    /// Step in which its currents change; `None`: never again.
    due: Option<u64>,
}

impl fmt::Debug for DrivenPopulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DrivenPopulation({}, due {:?})",
            self.population, self.due
        )
    }
}

/// Additions to V per step by currents in pA.
///
/// # Errors
/// `InvalidArgument` for currents so large that potentials would be infinite.
pub(super) fn scaled(currents_pa: &[f64], scale: f32) -> Result<Vec<f32>> {
    (currents_pa.iter().enumerate())
        .map(|(neuron, &current)| {
            let scaled = current as f32 * scale;
            match (-LARGEST..=LARGEST).contains(&current) && scaled.is_finite() {
                true => Ok(scaled),
                false => Err(Error::argument(format!(
                    "currents: expected −1e30 to 1e30 pA, got {current:e} for neuron {neuron}"
                ))),
            }
        })
        .collect()
}

impl Drives {
    pub(super) fn set(
        &mut self,
        network: &Network,
        population: usize,
        scale: f32,
        drive: Box<dyn Drive>,
    ) {
        let of = &network.populations[population];
        let mut stimuli = vec![0.0; of.neurons as usize];
        for stimulus in &of.stimuli {
            let own = stimulus.first as usize..(stimulus.first + stimulus.count) as usize;
            stimuli[own]
                .iter_mut()
                .for_each(|s| *s += stimulus.current_pa);
        }
        self.all.retain(|d| d.population != population);
        self.all.push(DrivenPopulation {
            population,
            name: of.name.clone(),
            stimuli,
            scale,
            drive,
            due: Some(0),
        });
    }

    /// Sets the currents that change in `step`; the first later step in which some do.
    ///
    /// # Errors
    /// The errors of the drives; `InvalidArgument` naming population, neuron and step of a current that is too large.
    pub(super) fn apply(&mut self, step: u64, machine: &mut dyn Machine) -> Result<u64> {
        let mut next = u64::MAX;
        for driven in &mut self.all {
            if driven.due.is_some_and(|due| due <= step) {
                let mut currents = driven.stimuli.clone();
                driven.due = driven
                    .drive
                    .add_currents(step, &mut currents)?
                    .map(|due| due.max(step + 1));
                let scaled = scaled(&currents, driven.scale)
                    .map_err(|e| e.at(format!("population {:?} at step {step}", driven.name)))?;
                machine.set_currents(driven.population, &scaled)?;
            }
            next = next.min(driven.due.unwrap_or(u64::MAX));
        }
        Ok(next)
    }
}
