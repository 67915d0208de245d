//! The state of the front end by blocks as bytes.

use betz_base::Result;
use betz_base::state::StateBytes;

use super::super::state::{is_before, is_sample};
use super::{BlockFrontEnd, Rule};

impl BlockFrontEnd {
    /// Writes or reads everything that the next samples' features depend on. The front end that reads has the settings, the
    /// layout and the options of the one that wrote.
    ///
    /// # Errors
    /// `InvalidCheckpoint` for the bytes of another front end.
    pub fn state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        state.numbers(&mut self.states)?;
        state.numbers(&mut self.power_states)?;
        state.numbers(&mut self.power_sums)?;
        state.numbers(&mut self.power_totals)?;
        state.number(&mut self.power_rows)?;
        state.number(&mut self.next)?;
        state.number(&mut self.rest_since)?;
        state.check(is_sample(self.next) && is_before(self.rest_since, self.next))?;
        state.check(self.power_rows <= self.next as u64)?;
        match &mut self.rule {
            Rule::None => Ok(()),
            Rule::Once(detector) => detector.state(self.next, state),
            Rule::Settled(front) => front.state(state),
        }
    }
}
