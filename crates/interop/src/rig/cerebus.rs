//! Sample groups and spikes of Cerebus devices (Blackrock Neurotech), in datagrams of whole packets ([`udp::cerebus`]).
//!
//! It listens and sends nothing. The version of the packets is the one under which eight datagrams in a row are whole packets to
//! their last byte, unless it is given; the unit of times is the device's, see [`udp::cerebus`]. Channels of a sample group come in
//! the order of the device's group list ([`CerebusRig::group_channels`]), once it was seen.
//!
//! Rows of a sample group are numbered by their times: their losses are exact. Of spikes, losses are packets by the balance of the
//! device's monitors, a lower bound where a monitor itself was lost.
//!
//! Emulated from public sources (CerebusOSS/CereLink), not tried on hardware.
//!
//! [`udp::cerebus`]: crate::udp::cerebus

use std::time::Duration;

use betz_base::{Error, Result};

use super::order::RowOrder;
use super::{Arrival, Block, Loss, Rig, RigCounts, RigSpike, Samples, Signal, host_ns};
use crate::udp::cerebus::{Protocol, TICKS, pace};
use crate::udp::losses::{Losses, Packet};
use crate::udp::{Receiver, word};

/// Datagrams in a row that tell the version.
const TELLING: u32 = 8;
const VERSIONS: [Protocol; 3] = [Protocol::V311, Protocol::V40, Protocol::V41];
/// Longest gap in a group's times that is a loss, in seconds.
const LONGEST_SECONDS: f64 = 10.0;
/// Times within which the device counted on when a packet came late, in seconds.
const LATE_SECONDS: f64 = 0.01;

/// The packets that a [`CerebusRig`] gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Voltage of a sample group, 1 to 6: 500, 1,000, 2,000, 10,000, 30,000 Hz, raw at 30,000 Hz.
    Samples(u8),
    /// Spikes that the device found.
    Spikes,
}

impl Group {
    /// Parses `1` to `6`, `raw` (6) or `spikes`.
    ///
    /// # Errors
    /// `InvalidArgument` for any other text.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "raw" => Ok(Self::Samples(6)),
            "spikes" => Ok(Self::Spikes),
            _ => match name.parse() {
                Ok(group @ 1..=6) => Ok(Self::Samples(group)),
                _ => Err(Error::argument(format!(
                    "group of Cerebus packets: expected raw, spikes or 1 to 6, got {name}"
                ))),
            },
        }
    }

    /// Rows per second of a sample group.
    fn rate(self) -> Option<f64> {
        match self {
            Self::Samples(group) => {
                Some([500.0, 1e3, 2e3, 1e4, 3e4, 3e4][usize::from(group) - 1])
            }
            Self::Spikes => None,
        }
    }
}

/// Source of a sample group or of spikes of a Cerebus device.
pub struct CerebusRig {
    receiver: Receiver,
    given: Option<Protocol>,
    protocol: Option<Protocol>,
    /// Datagrams in a row that each version fits.
    fits: [u32; VERSIONS.len()],
    group: Group,
    channels: Option<usize>,
    microvolts: Option<f64>,
    group_channels: Vec<u16>,
    /// Ticks per second of the device's clock, and the packets that tell it.
    unit: u64,
    paces: [Option<u64>; 3],
    losses: Losses,
    /// Time and number of the newest row.
    newest: Option<(u64, u64)>,
    /// The newest time of any packet, with what a clock of 32 bits has gone round.
    time: Option<u64>,
    order: RowOrder,
    /// Packets lost before the next block of spikes.
    owed: Loss,
    /// Bytes of the datagram that were read, its length and its arrival.
    read: usize,
    length: usize,
    arrival: i64,
    counts: RigCounts,
}

impl CerebusRig {
    /// Listens at `address`, `HOST:PORT`. Without `protocol` the version is recognised.
    ///
    /// # Errors
    /// `InvalidArgument` if `address` cannot be parsed, `Io` if it cannot be bound.
    pub fn bind(
        address: &str,
        protocol: Option<Protocol>,
        group: Group,
        channels: Option<usize>,
    ) -> Result<Self> {
        Ok(Self {
            receiver: Receiver::bind(address)?,
            given: protocol,
            protocol,
            fits: [0; VERSIONS.len()],
            group,
            channels,
            microvolts: None,
            group_channels: Vec::new(),
            unit: protocol.map_or(TICKS, Protocol::rate),
            paces: [None; 3],
            losses: Losses::default(),
            newest: None,
            time: None,
            order: RowOrder::new((LONGEST_SECONDS * group.rate().unwrap_or(1.0)) as u64),
            owed: Loss::default(),
            read: 0,
            length: 0,
            arrival: 0,
            counts: RigCounts::default(),
        })
    }

    /// Sets the microvolts per bit.
    pub fn with_microvolts(mut self, microvolts: Option<f64>) -> Self {
        self.microvolts = microvolts;
        self
    }

    /// Sets the time for which a wait polls before the thread sleeps.
    pub fn spinning(mut self, spin: Duration) -> Self {
        self.receiver = self.receiver.spinning(spin);
        self
    }

    /// Asks the system for a socket's buffer of so many bytes; returns the size that it gives, if it tells.
    pub fn buffering(&self, bytes: usize) -> Option<usize> {
        self.receiver.buffering(bytes)
    }

    /// Address on which it listens.
    ///
    /// # Errors
    /// An error of the system.
    pub fn address(&self) -> Result<std::net::SocketAddr> {
        self.receiver.address()
    }

    /// The version of the packets, once it is known.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Ticks per second of the times in packets, as far as the device has told.
    pub fn ticks_per_second(&self) -> u64 {
        self.unit
    }

    /// Numbers of the group's channels, from 1, in the order of a row; empty until the device has sent its list.
    pub fn group_channels(&self) -> &[u16] {
        &self.group_channels
    }

    /// Looks which versions a datagram fits.
    fn recognise(&mut self) {
        let datagram = &self.receiver.buffer[..self.length];
        for (version, fits) in VERSIONS.into_iter().zip(&mut self.fits) {
            *fits = if is_whole(version, datagram) { *fits + 1 } else { 0 };
        }
        let mut telling = VERSIONS.into_iter().zip(self.fits).filter(|v| v.1 >= TELLING);
        if let (Some((version, _)), None) = (telling.next(), telling.next()) {
            self.protocol = Some(version);
            self.unit = version.rate();
        }
    }

    /// The unwrapped time of a packet.
    fn unwrap(&mut self, protocol: Protocol, time: u64) -> u64 {
        let time = match (protocol, self.time) {
            // 2³² ticks are 39.8 h.
            (Protocol::V311, Some(newest)) => {
                let since = (time as u32).wrapping_sub(newest as u32) as i32;
                newest.saturating_add_signed(i64::from(since))
            }
            _ => time,
        };
        self.time = Some(time);
        time
    }

    /// The number of a row by its time. Counted from the row before, because the device's clock is set by parts of a
    /// million where its samples are not.
    fn number(&mut self, time: u64, rate: f64) -> u64 {
        let rows = |ticks: u64| (ticks as f64 * rate / self.unit as f64).round();
        let Some((last_time, last)) = self.newest else {
            let number = rows(time) as u64;
            self.newest = Some((time, number));
            return number;
        };
        if time >= last_time {
            let gap = rows(time - last_time);
            if gap > LONGEST_SECONDS * rate {
                self.order.forget(&mut self.counts);
            }
            let number = last.saturating_add(gap as u64);
            self.newest = Some((time, number));
            return number;
        }
        let back = rows(last_time - time);
        if back > LATE_SECONDS * rate && back > last as f64 {
            // Before the first row of this epoch: the clock began anew.
            self.newest = Some((time, rows(time) as u64));
            self.order.forget(&mut self.counts);
            return rows(time) as u64;
        }
        last.saturating_sub(back as u64)
    }

    /// Fills `block` with the next packets of the datagram that belong together; false if it holds no more.
    fn fill(&mut self, protocol: Protocol, block: &mut Block) -> bool {
        let mut voltage = Vec::new();
        let mut spikes = Vec::new();
        match self.group {
            Group::Samples(_) => voltage = block.take_voltage(),
            Group::Spikes => {
                if let Samples::Spikes(list) = &mut block.samples {
                    spikes = std::mem::take(list);
                    spikes.clear();
                }
            }
        }
        let (mut first, mut rows, mut lost) = (0, 0, 0);
        while self.read < self.length {
            let rest = &self.receiver.buffer[self.read..self.length];
            let Some((packet, taken)) = protocol.first(rest) else {
                self.counts.malformed += 1;
                self.read = self.length;
                break;
            };
            let body = self.read + protocol.header()..self.read + taken;
            match (self.group, packet.chid, packet.kind) {
                (Group::Samples(group), 0, kind) if kind == u16::from(group) => {
                    let time = self.unwrap(protocol, packet.time);
                    self.account(protocol, &packet, body.clone());
                    let channels = self.row_channels((body.len()) / 2);
                    let Some(channels) = channels else {
                        self.counts.malformed += 1;
                        self.read += taken;
                        continue;
                    };
                    let rate = self.group.rate().unwrap_or(1.0);
                    let number = self.number(time, rate);
                    if rows > 0 && number != first + rows as u64 {
                        // The next block begins here; looked at again.
                        self.newest = Some((time, number));
                        break;
                    }
                    if rows == 0 {
                        match self.order.judge(number, 1, &mut self.counts) {
                            Some(gap) => (first, lost) = (number, gap),
                            None => {
                                self.read += taken;
                                continue;
                            }
                        }
                    } else {
                        self.order.judge(number, 1, &mut self.counts);
                    }
                    let words = self.receiver.buffer[body].chunks_exact(2).take(channels);
                    voltage.extend(words.map(|b| i16::from_le_bytes([b[0], b[1]])));
                    rows += 1;
                }
                (Group::Spikes, 1..0x8000, unit) => {
                    let tick = self.unwrap(protocol, packet.time);
                    self.account(protocol, &packet, body);
                    if spikes.is_empty() {
                        first = tick;
                    }
                    spikes.push(RigSpike {
                        tick,
                        channel: u32::from(packet.chid) - 1,
                        unit: unit as u8,
                    });
                }
                _ => {
                    self.unwrap(protocol, packet.time);
                    self.account(protocol, &packet, body);
                }
            }
            self.read += taken;
        }
        let (count, loss) = match self.group {
            Group::Samples(_) => (rows, Loss { count: lost, at_least: false }),
            Group::Spikes => (spikes.len(), self.owed),
        };
        self.counts.rows += count as u64;
        self.counts.blocks += u64::from(count > 0);
        if count > 0 && self.group == Group::Spikes {
            self.counts.bounds += u64::from(loss.at_least);
            self.owed = Loss::default();
            spikes.sort_by_key(|spike| spike.tick);
            first = spikes[0].tick;
        }
        *block = Block {
            epoch: self.order.epoch,
            first,
            rows,
            host_ns: self.arrival,
            lost_before: loss,
            samples: match self.group {
                Group::Samples(_) => Samples::Voltage(voltage),
                Group::Spikes => Samples::Spikes(spikes),
            },
        };
        count > 0
    }

    /// Channels of a row out of packets of so many words; the last is padding if they are odd in number.
    fn row_channels(&mut self, words: usize) -> Option<usize> {
        if words == 0 {
            return None;
        }
        if self.channels.is_none() {
            let listed = self.group_channels.len();
            self.channels = Some(if listed > 0 { listed } else { words });
        }
        let channels = self.channels?;
        (channels.next_multiple_of(2) == words).then_some(channels)
    }

    /// Takes what a packet tells of the clock, of losses and of the group.
    fn account(&mut self, protocol: Protocol, packet: &Packet, body: std::ops::Range<usize>) {
        let payload = &self.receiver.buffer[body];
        if let (Protocol::V41, Some(unit)) = (protocol, pace(&mut self.paces, packet, payload))
            && unit != self.unit
        {
            self.unit = unit;
            self.losses = Losses::default();
            self.newest = None;
            if self.counts.rows > 0 {
                self.order.forget(&mut self.counts);
            }
        }
        let lost = self.losses.take(packet, payload, self.unit);
        if self.group == Group::Spikes {
            self.owed.count += lost;
            self.counts.lost += lost;
            self.owed.at_least |= self.losses.take_bound();
        }
        if let (Group::Samples(group), 0x8000, 0x30) = (self.group, packet.chid, packet.kind)
            && payload.len() >= 32
            && u32::from_le_bytes(word(payload, 4)) == u32::from(group)
        {
            let length = u32::from_le_bytes(word(payload, 28)) as usize;
            let listed = payload[32..].chunks_exact(2).take(length);
            self.group_channels.clear();
            (self.group_channels).extend(listed.map(|b| u16::from_le_bytes([b[0], b[1]])));
        }
    }
}

/// True if the datagram is whole packets of a version, to its last byte.
fn is_whole(version: Protocol, datagram: &[u8]) -> bool {
    let mut at = 0;
    while at < datagram.len() {
        match version.first(&datagram[at..]) {
            Some((_, taken)) => at += taken,
            None => return false,
        }
    }
    at > 0
}

impl Rig for CerebusRig {
    fn signal(&self) -> Option<Signal> {
        let protocol = self.protocol?;
        let bits = if protocol == Protocol::V311 { 32 } else { 64 };
        match self.group.rate() {
            Some(rate) => Some(Signal {
                channels: self.channels?,
                rate,
                microvolts: self.microvolts,
                // Rows are counted on, whatever the device's clock does.
                clock_bits: 64,
            }),
            None => Some(Signal {
                channels: self.channels?,
                rate: self.unit as f64,
                microvolts: self.microvolts,
                clock_bits: bits,
            }),
        }
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        if self.read >= self.length {
            let Some(length) = self.receiver.receive(patience)? else {
                return Ok(Arrival::Nothing);
            };
            (self.read, self.length, self.arrival) = (0, length, host_ns());
            if self.protocol.is_none() {
                self.recognise();
                self.read = self.length;
                return Ok(Arrival::Nothing);
            }
            if let Some(given) = self.given
                && !is_whole(given, &self.receiver.buffer[..length])
            {
                self.counts.malformed += 1;
                self.read = self.length;
                return Ok(Arrival::Nothing);
            }
        }
        let Some(protocol) = self.protocol else {
            return Ok(Arrival::Nothing);
        };
        match self.fill(protocol, block) {
            true => Ok(Arrival::Block),
            false => Ok(Arrival::Nothing),
        }
    }

    fn counts(&self) -> RigCounts {
        RigCounts {
            dropped_by_host: self.receiver.dropped(),
            ..self.counts
        }
    }
}
