//! Tuned populations that follow a movement.

use betz_base::{Error, Result};

use super::Engine;
use crate::tuning::{Movement, TunedDrive};

impl Engine {
    /// Lets every tuned population follow a movement from the next step on ([`TuningProfile`](crate::TuningProfile)), as by
    /// [`Engine::drive`].
    ///
    /// # Errors
    /// `InvalidArgument` for a network without tuned populations.
    pub fn follow(&mut self, movement: &Movement) -> Result<()> {
        if !self.network.is_tuned() {
            return Err(Error::argument(
                "movement: expected a population with \"tuning\", got none",
            ));
        }
        for population in 0..self.network.populations.len() {
            if let Some(drive) = TunedDrive::of(&self.network, population, movement) {
                self.drive(population, Box::new(drive))?;
            }
        }
        Ok(())
    }
}
