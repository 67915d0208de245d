//! The state of the front end as bytes.

use betz_base::Result;
use betz_base::state::StateBytes;

use super::{ArtefactCounts, Candidate, FrontEnd};

/// Bytes of a candidate.
const CANDIDATE: usize = 21;

/// True for a number of samples that something at work may have taken.
pub(crate) fn is_sample(sample: i64) -> bool {
    (0..=i64::MAX / 4).contains(&sample)
}

/// True for a sample before `next`, or one long before every sample.
pub(crate) fn is_before(sample: i64, next: i64) -> bool {
    (i64::MIN / 2..=next).contains(&sample)
}

impl ArtefactCounts {
    pub(super) fn state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        state.number(&mut self.artefacts)?;
        state.number(&mut self.crossings)?;
        state.number(&mut self.saturated)
    }
}

impl FrontEnd {
    /// Writes or reads everything that the next samples' crossings depend on.
    pub(crate) fn state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        self.filter.state(state)?;
        state.numbers(&mut self.ring)?;
        state.numbers(&mut self.focused)?;
        state.numbers(&mut self.artefact_ring)?;
        state.numbers(&mut self.thresholds)?;
        state.numbers(&mut self.medians)?;
        state.numbers(&mut self.last_crossing)?;
        for number in [
            &mut self.next,
            &mut self.rest_since,
            &mut self.last_artefact,
        ] {
            state.number(number)?;
        }
        state.check(is_sample(self.next) && is_before(self.rest_since, self.next))?;
        state.check(is_before(self.last_artefact, self.next))?;
        state.check((self.last_crossing.iter()).all(|at| is_before(*at, self.next)))?;
        self.blanked.state(state)?;
        self.candidates_state(state)
    }

    fn candidates_state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        let (mut count, mut decided) = (self.candidates.len(), self.decided as u64);
        state.count(&mut count, self.candidates.capacity(), CANDIDATE)?;
        state.number(&mut decided)?;
        let nothing = Candidate {
            sample: 0,
            channel: 0,
            depth: 0.0,
            shift: 0.0,
            beaten: false,
        };
        self.candidates.resize(count, nothing);
        let channels = self.layout.channels() as u32;
        for candidate in &mut self.candidates {
            state.number(&mut candidate.sample)?;
            state.number(&mut candidate.channel)?;
            state.number(&mut candidate.depth)?;
            state.number(&mut candidate.shift)?;
            state.number(&mut candidate.beaten)?;
            state.check(candidate.channel < channels && is_before(candidate.sample, self.next))?;
        }
        state.check(decided <= count as u64)?;
        self.decided = decided as usize;
        Ok(())
    }
}
