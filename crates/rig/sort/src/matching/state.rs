//! The state of the search for units' spikes as bytes.

use betz_base::Result;
use betz_base::state::StateBytes;

use super::{FoundSpike, Matching};
use crate::front::{LANES, is_before, is_sample};

/// Bytes of a spike that was taken away.
const TAKEN: usize = 28;

impl Matching {
    /// Writes or reads everything that the next samples' spikes depend on.
    pub(crate) fn state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        let length = self.span.len().next_multiple_of(LANES);
        let mut at = self.at as u64;
        state.number(&mut at)?;
        state.number(&mut self.next)?;
        state.check((length as u64 - 1..self.room as u64).contains(&at) && is_sample(self.next))?;
        self.at = at as usize;
        state.numbers(&mut self.weighed)?;
        state.numbers(&mut self.scores)?;
        state.numbers(&mut self.rest)?;
        for unit in &mut self.units {
            state.numbers(&mut unit.weights)?;
            state.number(&mut unit.last)?;
            state.number(&mut unit.mass)?;
            state.check(is_before(unit.last, self.next))?;
            if state.is_load() {
                unit.weigh(&self.per_noise);
            }
        }
        self.taken_state(state)
    }

    fn taken_state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        let mut count = self.taken.len();
        state.count(&mut count, self.taken.capacity(), TAKEN)?;
        let nothing = FoundSpike {
            sample: 0,
            unit: 0,
            template: 0,
            channel: 0,
            microvolts: 0.0,
            size: 0.0,
            distance: 0.0,
        };
        self.taken.resize(count, nothing);
        for taken in &mut self.taken {
            let mut places = [taken.template as u32, taken.channel as u32];
            state.number(&mut taken.sample)?;
            state.numbers(&mut places)?;
            [taken.template, taken.channel] = places.map(|place| place as usize);
            state.number(&mut taken.microvolts)?;
            state.number(&mut taken.size)?;
            state.number(&mut taken.distance)?;
            let unit = self.units.get(taken.template);
            state.check(unit.is_some() && is_before(taken.sample, self.next))?;
            taken.unit = unit.map_or(0, |unit| unit.unit);
        }
        Ok(())
    }
}
