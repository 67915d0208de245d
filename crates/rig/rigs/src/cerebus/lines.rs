//! Lines of the digital input.

use std::ops::Range;

use super::voltage::{CerebusRig, row_at};
use crate::udp::word;

impl CerebusRig {
    /// Hears the digital input whose channel has this number, as Central shows it: 151 on devices of 128 channels, 279 on those
    /// of 256.
    pub fn with_digital(mut self, channel: u16) -> Self {
        self.digital = Some(channel);
        self
    }

    /// Takes the state of the digital input's lines: what was read, and which lines have changed.
    pub(super) fn take_lines(&mut self, time: u64, body: Range<usize>, unit: u64) {
        let payload = &self.receiver.buffer[body];
        if payload.len() < 8 {
            self.counts.malformed += 1;
            return;
        }
        let (state, changed) = (
            u32::from_le_bytes(word(payload, 0)),
            u32::from_le_bytes(word(payload, 4)),
        );
        let Some(row) = row_at(self.group, self.newest, time, unit) else {
            self.edges.state = Some(state.into());
            return;
        };
        let epoch = self.order.epoch();
        (self.edges).take_state(epoch, row, state.into(), changed.into());
    }
}
