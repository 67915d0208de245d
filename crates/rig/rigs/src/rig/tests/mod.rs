//! Rigs against their emulators: equal blocks, losses to the row, damaged packets.

mod lines;
mod open;

use std::time::Duration;

use super::{Arrival, Block, Rig, Samples};

/// Long enough for any arrival on a loaded machine; tests that pass do not wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Factor of the number of damaged messages: 1, or 100 with `BETZ_EXHAUSTIVE=1`.
pub(crate) fn effort() -> usize {
    if std::env::var_os("BETZ_EXHAUSTIVE").is_some() {
        100
    } else {
        1
    }
}

/// Voltage of a row and channel that no other has nearby.
pub(crate) fn value(row: u64, channel: usize) -> i16 {
    (row.wrapping_mul(31).wrapping_add(channel as u64 * 7919) % 20_011) as i16 - 10_000
}

/// Rows from `first` on.
pub(crate) fn voltage(first: u64, rows: usize, channels: usize) -> Vec<i16> {
    let row = |r: usize| (0..channels).map(move |c| value(first + r as u64, c));
    (0..rows).flat_map(row).collect()
}

/// Numbers that look random, the same each time.
pub(crate) struct Scramble(pub(crate) u64);

impl Scramble {
    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next(256) as u8).collect()
    }
}

/// Takes blocks until row `until` of the current epoch has come; every row must be the one that was sent under its
/// number. Returns the rows received and the rows reported as lost.
pub(crate) fn take_rows(rig: &mut dyn Rig, until: u64) -> betz_base::Result<(u64, u64)> {
    let (mut block, mut received, mut lost) = (Block::new(), 0, 0);
    loop {
        match rig.take(&mut block, PATIENCE)? {
            Arrival::Nothing => continue,
            Arrival::Ended => return Ok((received, lost)),
            Arrival::Block => {}
        }
        let Samples::Voltage(found) = &block.samples else {
            panic!("expected voltage, got {:?}", block.samples);
        };
        let channels = rig.signal().map_or(0, |s| s.channels);
        assert_eq!(
            found,
            &voltage(block.first, block.rows, channels),
            "rows from {}",
            block.first
        );
        received += block.rows as u64;
        lost += block.lost_before.count;
        assert!(!block.lost_before.at_least);
        if block.first + block.rows as u64 >= until {
            return Ok((received, lost));
        }
    }
}
