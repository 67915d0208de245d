//! Cerebus packets (Blackrock Neurotech) as input, in datagrams of one or more packets.
//!
//! [`CerebusSource`] puts spikes into a model's steps; `CerebusRig` gives voltage and spikes block by block. Both read packets
//! ([`Protocol`]) and count losses the same way.
//!
//! Headers, little-endian and packed, before `4 · dlen` bytes:
//! - 3.11: `u32 time, u16 chid, u8 type, u8 dlen`
//! - 4.0: `u64 time, u16 chid, u8 type, u16 dlen, u8 instrument, u16`
//! - 4.1 and later: `u64 time, u16 chid, u16 type, u16 dlen, u8 instrument, u8`
//!
//! Times count 1/30,000 s up to 4.0. Later the unit is the device's: nanoseconds from Gemini devices, 1/30,000 s from
//! nPlay and older ones. It is nanoseconds until the device tells: by its name (type 0x21), by two packets of a group at
//! 30 kHz, or by two heartbeats, 10 ms apart.
//!
//! chid 0: groups of samples; 1 to 32,767: a spike of that channel, `type` its unit; 0x8000 and more: the system's, of
//! which heartbeats end steps in silence. Packets have no numbers: `lost` counts them by the times of a sample group,
//! exactly, or without a group by the device's monitors (type 0x01), which say how many packets it sent.

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
#[cfg(feature = "rig")]
mod lines;
mod losses;
#[cfg(feature = "rig")]
mod questions;
mod steps;
#[cfg(all(test, feature = "emulate"))]
mod tests;
#[cfg(feature = "rig")]
mod version;
#[cfg(feature = "rig")]
mod voltage;

use betz_base::{Error, Result};

use self::losses::Losses;
pub use self::losses::Packet;
pub use self::steps::CerebusSource;
#[cfg(feature = "rig")]
pub use self::voltage::{CerebusRig, Group};
use crate::udp::word;

/// Version of the packet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// 3.11 and before: 8 bytes, times in 1/30,000 s.
    V311,
    /// 4.0: 16 bytes, times in 1/30,000 s.
    V40,
    /// 4.1 and later: 16 bytes, times in nanoseconds or in 1/30,000 s, by the device.
    V41,
}

impl Protocol {
    /// Parses a version: `3.11`, `4.0` or `4.1`.
    ///
    /// # Errors
    /// `InvalidArgument` for any other text.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "3.11" => Ok(Self::V311),
            "4.0" => Ok(Self::V40),
            "4.1" | "4.2" => Ok(Self::V41),
            _ => Err(Error::argument(format!(
                "version of Cerebus packets: expected 3.11, 4.0 or 4.1, got {name}"
            ))),
        }
    }

    /// Ticks per second; for 4.1, those of a Gemini device.
    pub const fn rate(self) -> u64 {
        match self {
            Self::V311 | Self::V40 => 30_000,
            Self::V41 => 1_000_000_000,
        }
    }

    fn header(self) -> usize {
        if self == Self::V311 { 8 } else { 16 }
    }

    /// The first packet of `bytes` and its length; `None` if `bytes` ends before the packet.
    pub fn first(self, bytes: &[u8]) -> Option<(Packet, usize)> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let header = self.header();
        if bytes.len() < header {
            return None;
        }
        let (packet, words) = if self == Self::V311 {
            let time = u64::from(u32::from_le_bytes(word(bytes, 0)));
            let kind = u16::from(bytes[6]);
            let chid = u16_at(4);
            (Packet { time, chid, kind }, u16::from(bytes[7]))
        } else {
            let time = u64::from_le_bytes(word(bytes, 0));
            let chid = u16_at(8);
            match self {
                Self::V40 => {
                    let kind = u16::from(bytes[10]);
                    (Packet { time, chid, kind }, u16_at(11))
                }
                _ => {
                    let kind = u16_at(10);
                    (Packet { time, chid, kind }, u16_at(12))
                }
            }
        };
        let length = header + 4 * usize::from(words);
        (length <= bytes.len()).then_some((packet, length))
    }
}

/// Ticks per second of a device whose clock does not count nanoseconds.
const TICKS: u64 = 30_000;

/// Ticks per second of the device's clock, if `packet` tells, alone or with the one of its kind before.
fn pace(paces: &mut [Option<u64>; 3], packet: &Packet, payload: &[u8]) -> Option<u64> {
    const NANOSECONDS: u64 = Protocol::V41.rate();
    let kind = match (packet.chid, packet.kind) {
        (0x8000, 0x21) => {
            let name = payload.get(8..72)?.to_ascii_lowercase();
            let gemini = name.windows(6).any(|part| part == b"gemini");
            return Some(if gemini { NANOSECONDS } else { TICKS });
        }
        (0, 5) => 0,
        (0, 6) => 1,
        (0x8000, 0) => 2,
        _ => return None,
    };
    let since = packet.time.checked_sub(paces[kind].replace(packet.time)?)?;
    match (kind, since) {
        (0 | 1, 1) => Some(TICKS),
        (0 | 1, 33_333..=33_334) => Some(NANOSECONDS),
        // 300 ticks or 10,000,000 ns, or several of them.
        (2, 1..1_000_000) => Some(TICKS),
        (2, 1_000_000..) => Some(NANOSECONDS),
        _ => None,
    }
}
