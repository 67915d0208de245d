//! The version of a device's packets, recognised from whole datagrams.

use super::{Packet, Protocol};

/// Datagrams in a row that tell the version.
const TELLING: u32 = 8;
const VERSIONS: [Protocol; 3] = [Protocol::V311, Protocol::V40, Protocol::V41];

/// Finds the version under which datagrams are whole packets to their last byte.
#[derive(Default)]
pub(super) struct Recognition {
    /// Datagrams in a row that each version fits.
    fits: [u32; VERSIONS.len()],
}

impl Recognition {
    /// Takes the next datagram; the version once it is the only one that has fitted for long enough.
    pub(super) fn take(&mut self, datagram: &[u8]) -> Option<Protocol> {
        for (version, fits) in VERSIONS.into_iter().zip(&mut self.fits) {
            *fits = match is_whole(version, datagram, is_plausible) {
                true => *fits + 1,
                false => 0,
            };
        }
        let fitting = VERSIONS.into_iter().zip(self.fits);
        let mut telling = fitting.filter(|(_, fits)| *fits >= TELLING);
        match (telling.next(), telling.next()) {
            (Some((version, _)), None) => Some(version),
            _ => None,
        }
    }
}

/// Ticks per second under a version in which all devices have the same.
pub(super) fn known_unit(version: Protocol) -> Option<u64> {
    (version != Protocol::V41).then(|| version.rate())
}

/// True if the datagram is whole packets of a version, to its last byte, each of which passes `check` with the length
/// of its payload.
pub(super) fn is_whole(
    version: Protocol,
    datagram: &[u8],
    check: impl Fn(&Packet, usize) -> bool,
) -> bool {
    let mut at = 0;
    while at < datagram.len() {
        match version.first(&datagram[at..]) {
            Some((packet, taken)) if check(&packet, taken - version.header()) => at += taken,
            _ => return false,
        }
    }
    at > 0
}

/// True for packets that a device sends: groups and channels always with a payload. Zeros of another layout are not.
fn is_plausible(packet: &Packet, payload: usize) -> bool {
    match packet.chid {
        0 => (1..=6).contains(&packet.kind) && payload > 0,
        1..0x8000 => payload > 0,
        chid => chid == 0x8000,
    }
}
