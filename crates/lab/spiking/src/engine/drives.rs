//! Drives of populations: asked when their currents change.

use std::fmt;

use betz_base::Result;

use super::Machine;
use crate::drive::Drive;
use crate::spec::Network;

/// The drives of an engine's populations.
#[derive(Debug, Default)]
pub(super) struct Drives {
    all: Vec<DrivenPopulation>,
}

struct DrivenPopulation {
    population: usize,
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
            stimuli,
            scale,
            drive,
            due: Some(0),
        });
    }

    /// Sets the currents that change in `step`; the first later step in which some do.
    pub(super) fn apply(&mut self, step: u64, machine: &mut dyn Machine) -> Result<u64> {
        let mut next = u64::MAX;
        for driven in &mut self.all {
            if driven.due.is_some_and(|due| due <= step) {
                let mut currents = driven.stimuli.clone();
                driven.due = driven
                    .drive
                    .add_currents(step, &mut currents)?
                    .map(|due| due.max(step + 1));
                let scaled: Vec<f32> = currents.iter().map(|c| *c as f32 * driven.scale).collect();
                machine.set_currents(driven.population, &scaled)?;
            }
            next = next.min(driven.due.unwrap_or(u64::MAX));
        }
        Ok(next)
    }
}
