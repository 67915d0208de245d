//! Cerebus packets (Blackrock Neurotech) as input: spikes with time stamps, in datagrams of one or more packets.
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

use std::time::Duration;

use betz_base::{Error, Result};

use super::Receiver;
use super::losses::Losses;
pub use super::losses::Packet;
use crate::bus::{Bins, Counts, Frame, Reception, Source, Tally};

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

    pub(crate) fn header(self) -> usize {
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
            let time = u64::from(u32::from_le_bytes(super::word(bytes, 0)));
            let kind = u16::from(bytes[6]);
            let chid = u16_at(4);
            (Packet { time, chid, kind }, u16::from(bytes[7]))
        } else {
            let time = u64::from_le_bytes(super::word(bytes, 0));
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

/// Spikes of Cerebus packets, all units of a channel together: channel k of the model is chid k + 1.
pub struct CerebusSource {
    receiver: Receiver,
    protocol: Protocol,
    bins: Bins,
    /// The newest time, with what a clock of 32 bits has gone round.
    newest: Option<u64>,
    /// Ticks per second of the device's clock.
    rate: u64,
    /// Times of the newest packet of each group, and of the newest heartbeat, that tell the unit.
    paces: [Option<u64>; 3],
    losses: Losses,
    tally: Tally,
}

/// Ticks per second of a device whose clock does not count nanoseconds.
pub(crate) const TICKS: u64 = 30_000;

impl CerebusSource {
    /// Listens at `address`, `HOST:PORT`, for steps of `step_seconds`.
    ///
    /// # Errors
    /// The errors of [`UdpSource::bind`](super::UdpSource::bind) and [`Bins::new`].
    pub fn bind(address: &str, protocol: Protocol, step_seconds: f64) -> Result<Self> {
        Ok(Self {
            receiver: Receiver::bind(address)?,
            protocol,
            bins: Bins::new(protocol.rate(), step_seconds)?,
            newest: None,
            rate: protocol.rate(),
            paces: [None; 3],
            losses: Losses::default(),
            tally: Tally::default(),
        })
    }

    /// Sets the spinning time as [`UdpSource::spinning`](super::UdpSource::spinning) does.
    pub fn spinning(mut self, spin: Duration) -> Self {
        self.receiver = self.receiver.spinning(spin);
        self
    }

    /// Address on which it listens.
    ///
    /// # Errors
    /// An error of the system.
    pub fn address(&self) -> Result<std::net::SocketAddr> {
        self.receiver.address()
    }

    fn put_all(&mut self, length: usize) {
        let mut at = 0;
        while at < length {
            let rest = &self.receiver.buffer[at..length];
            let Some((packet, taken)) = self.protocol.first(rest) else {
                self.tally.malformed.add(1);
                return;
            };
            let payload = &rest[self.protocol.header()..taken];
            at += taken;
            if let (Protocol::V41, Some(rate)) =
                (self.protocol, pace(&mut self.paces, &packet, payload))
                && rate != self.rate
            {
                self.rate = rate;
                self.losses = Losses::default();
                self.bins.begin_anew(&self.tally);
            }
            self.tally
                .lost
                .add(self.losses.take(&packet, payload, self.rate));
            let time = match (self.protocol, self.newest) {
                // 2³² ticks are 39.8 h.
                (Protocol::V311, Some(newest)) => {
                    let since = (packet.time as u32).wrapping_sub(newest as u32) as i32;
                    newest.saturating_add_signed(i64::from(since))
                }
                // Steps are cut in nanoseconds.
                (Protocol::V41, _) if self.rate == TICKS => {
                    let nanoseconds = u128::from(packet.time) * 100_000 / 3;
                    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
                }
                _ => packet.time,
            };
            self.newest = Some(time);
            let is_spike = (1..0x8000).contains(&packet.chid);
            if !is_spike {
                self.tally.ignored.add(1);
            }
            let channel = is_spike.then(|| u32::from(packet.chid) - 1);
            self.bins.put(time, channel, &self.tally);
        }
    }
}

/// Ticks per second of the device's clock, if `packet` tells, alone or with the one of its kind before.
pub(crate) fn pace(paces: &mut [Option<u64>; 3], packet: &Packet, payload: &[u8]) -> Option<u64> {
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

impl Source for CerebusSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        if !self.bins.next(frame) {
            let Some(length) = self.receiver.receive(patience)? else {
                return Ok(Reception::Nothing);
            };
            self.tally.messages.add(1);
            self.put_all(length);
            if !self.bins.next(frame) {
                return Ok(Reception::Nothing);
            }
        }
        self.tally.steps.add(1);
        Ok(Reception::Step)
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}
