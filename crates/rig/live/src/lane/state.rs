//! The state of a lane, in a checkpoint.

use betz_base::state::StateBytes;
use betz_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Lane;
use crate::event::BinnerCounts;

/// State of a [`Lane`] that a session which was killed goes on from; the open step and the front end are bytes beside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LaneState {
    /// Epoch of the newest block, and its arrival.
    pub(crate) epoch: u32,
    pub(crate) host_ns: i64,
    /// Device time of the next row.
    pub(crate) next: u64,
    /// The grid of steps, and the step that is open.
    origin: u64,
    first: u64,
    step: u64,
    late_in_gap: u64,
    pub(crate) counts: BinnerCounts,
    /// Bytes of the open step and the front end. Checkpoints of version 1 have none, and the noise alone: their filters start
    /// at rest.
    #[serde(default)]
    bytes: u64,
    #[serde(default, skip_serializing)]
    noise: Option<Vec<f32>>,
}

impl Lane {
    /// Writes the state, to go on from, to `state`, and appends the open step and the front end to `bytes`. Returns how many
    /// bytes more a later state may have.
    ///
    /// # Errors
    /// None today.
    pub(crate) fn state_into(
        &mut self,
        state: &mut LaneState,
        bytes: &mut Vec<u8>,
    ) -> Result<usize> {
        let before = bytes.len();
        let mut open = StateBytes::save(bytes);
        self.open_state(&mut open)?;
        let spare = open.spare();
        *state = LaneState {
            epoch: self.epoch,
            host_ns: self.heard_ns,
            next: self.next,
            origin: self.grid.origin,
            first: self.grid.first,
            step: self.step,
            late_in_gap: self.late_in_gap,
            counts: self.counts,
            bytes: (bytes.len() - before) as u64,
            noise: None,
        };
        Ok(spare)
    }

    /// Writes or reads the open step and the front end.
    fn open_state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        let input = &mut self.input;
        state.list(&mut input.spikes)?;
        state.numbers(&mut input.features)?;
        state.number(&mut input.rows)?;
        state.number(&mut input.has_features)?;
        state.number(&mut input.missing)?;
        state.number(&mut input.host_ns)?;
        state.number(&mut self.sends_rows)?;
        state.number(&mut self.was_behind)?;
        match &mut self.front {
            Some(front) => front.state(state),
            None => Ok(()),
        }
    }

    /// Goes on from a state, and from the bytes beside it, which are taken from the begin of `bytes`; `self` has taken no block
    /// yet.
    ///
    /// # Errors
    /// As [`Lane::set_noise`]; `InvalidCheckpoint` for bytes of another lane.
    pub(crate) fn restore(&mut self, state: &LaneState, bytes: &mut &[u8]) -> Result<()> {
        if let Some(noise) = &state.noise {
            self.set_noise(noise)?;
        }
        (self.grid.origin, self.grid.first) = (state.origin, state.first);
        (self.started, self.restored) = (true, true);
        (self.epoch, self.heard_ns) = (state.epoch, state.host_ns);
        (self.step, self.next) = (state.step, state.next);
        (self.late_in_gap, self.counts) = (state.late_in_gap, state.counts);
        if state.bytes == 0 {
            self.input.missing = state.next.saturating_sub(self.grid.begin(state.step));
            return Ok(());
        }
        let all = usize::try_from(state.bytes).ok();
        let Some((open, rest)) = all.and_then(|all| bytes.split_at_checked(all)) else {
            return Err(Error::recording(format!(
                "checkpoint: expected {} bytes of a source's state, got {}",
                state.bytes,
                bytes.len()
            )));
        };
        *bytes = rest;
        let mut open = StateBytes::load(open);
        self.open_state(&mut open)?;
        open.end()
    }
}
