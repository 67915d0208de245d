//! Sample groups and spikes of Cerebus devices (Blackrock Neurotech), in datagrams of whole packets ([`cerebus`](super)).
//!
//! It listens and sends nothing, unless it is told where to ask for the device's time ([`CerebusRig::with_probe`]).
//! The version of the packets is the one under which eight datagrams in a row are whole packets to their last byte,
//! unless it is given. The unit of times is the device's, see [`cerebus`](super). Channels of a sample group come in the
//! order of the device's group list ([`CerebusRig::group_channels`]), once it was seen.
//!
//! Rows of a sample group are numbered by their times: their losses are exact. Of spikes, losses are packets by the
//! balance of the device's monitors, a lower bound where a monitor itself was lost.
//!
//! Emulated from public sources (CerebusOSS/CereLink), not tried on hardware.

use std::ops::Range;
use std::time::Duration;

use betz_base::{Error, Result};

use super::losses::{Losses, Packet};
use super::questions::{ANSWER, ClockQuestions};
use super::version::{Recognition, is_whole, known_unit};
use super::{Protocol, pace};
use crate::clock::host_ns;
use crate::order::rows::Reorder;
use crate::order::{JumpRule, TimeVerdict};
use crate::rig::{
    Arrival, Block, LineEdge, LineEdges, Loss, LossReport, MISFITS, Probe, Rig, RigCounts,
    RigSpike, Samples, Signal, append_words,
};
use crate::udp::{Receiver, word};

/// Steps of the clock that are believed at once, in seconds; larger ones when the next packet confirms them.
const FORWARD_SECONDS: u64 = 10;
const BACKWARD_SECONDS: u64 = 1;

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
    pub(super) fn rate(self) -> Option<f64> {
        match self {
            Self::Samples(group) => Some([500.0, 1e3, 2e3, 1e4, 3e4, 3e4][usize::from(group) - 1]),
            Self::Spikes => None,
        }
    }
}

/// Source of a sample group or of spikes of a Cerebus device.
pub struct CerebusRig {
    pub(super) receiver: Receiver,
    buffer: Option<usize>,
    given: Option<Protocol>,
    protocol: Option<Protocol>,
    recognition: Recognition,
    pub(super) group: Group,
    channels: Option<usize>,
    microvolts: Option<f64>,
    group_channels: Vec<u16>,
    /// Ticks per second of the device's clock once they are known, and the times that tell them.
    unit: Option<u64>,
    paces: [Option<u64>; 3],
    losses: Losses,
    /// Time and number of the newest row.
    pub(super) newest: Option<(u64, u64)>,
    /// The newest time of any packet, with what a clock of 32 bits has gone round.
    time: Option<u64>,
    jumps: JumpRule<u64>,
    pub(super) order: Reorder,
    /// Packets lost before the next block of spikes.
    owed: Loss,
    /// Bytes of the datagram that were read, its length and its arrival.
    read: usize,
    length: usize,
    arrival: i64,
    datagrams: u64,
    /// Consecutive rows of another width, before the first block, and that width in words.
    misfits: (u32, usize),
    /// Questions for the device's time.
    clock: Option<ClockQuestions>,
    /// The channel of the digital input, and the changes of its lines.
    pub(super) digital: Option<u16>,
    pub(super) edges: LineEdges,
    pub(super) counts: RigCounts,
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
            receiver: Receiver::bind(address)?.counting_drops(),
            buffer: None,
            given: protocol,
            protocol,
            recognition: Recognition::default(),
            group,
            channels,
            microvolts: None,
            group_channels: Vec::new(),
            unit: protocol.and_then(known_unit),
            paces: [None; 3],
            losses: Losses::default(),
            newest: None,
            time: None,
            jumps: JumpRule::default(),
            order: Reorder::at_rate(group.rate().unwrap_or(1.0)),
            owed: Loss::default(),
            read: 0,
            length: 0,
            arrival: 0,
            datagrams: 0,
            misfits: (0, 0),
            clock: None,
            digital: None,
            edges: LineEdges::default(),
            counts: RigCounts::default(),
        })
    }

    /// Asks the device at `device`, `HOST:PORT`, for its time four times per second. This is all that the rig sends.
    ///
    /// # Errors
    /// `InvalidArgument` if `device` cannot be parsed.
    pub fn with_probe(mut self, device: &str) -> Result<Self> {
        self.clock = Some(ClockQuestions::new(device)?);
        Ok(self)
    }

    /// Sets the microvolts per bit.
    pub fn with_microvolts(mut self, microvolts: Option<f64>) -> Self {
        self.microvolts = microvolts;
        self
    }

    /// Sets the time for which rows wait for those that they have overtaken.
    pub fn reordering(mut self, patience: Duration) -> Self {
        self.order.set_patience(patience);
        self
    }

    /// Sets the time for which a wait polls before the thread sleeps.
    pub fn spinning(mut self, spin: Duration) -> Self {
        self.receiver = self.receiver.spinning(spin);
        self
    }

    /// Asks the system for a socket's buffer of so many bytes, see [`Rig::socket_buffer`].
    pub fn with_buffer(mut self, bytes: usize) -> Self {
        self.buffer = self.receiver.buffering(bytes);
        self
    }

    /// Address on which it listens.
    ///
    /// # Errors
    /// An error of the system.
    pub fn address(&self) -> Result<std::net::SocketAddr> {
        self.receiver.address()
    }

    /// Datagrams received.
    pub fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// The version of the packets, once it is known.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Numbers of the group's channels, from 1, in the order of a row; empty until the device has sent its list.
    pub fn group_channels(&self) -> &[u16] {
        &self.group_channels
    }

    /// The number of a row by its time. Counted from the row before, because the device's clock is set by parts of a
    /// million where its samples are not.
    fn number(&mut self, time: u64, rate: f64, unit: u64) -> u64 {
        let rows = |ticks: u64| (ticks as f64 * rate / unit as f64).round() as u64;
        let Some((last_time, last)) = self.newest else {
            self.newest = Some((time, rows(time)));
            return rows(time);
        };
        if time < last_time {
            return last.saturating_sub(rows(last_time - time));
        }
        let number = last.saturating_add(rows(time - last_time));
        self.newest = Some((time, number));
        number
    }

    /// The next packet of the datagram, its payload, and its end.
    fn next_packet(&mut self, protocol: Protocol) -> Option<(Packet, Range<usize>, usize)> {
        if self.read >= self.length {
            return None;
        }
        let rest = &self.receiver.buffer[self.read..self.length];
        let Some((packet, taken)) = protocol.first(rest) else {
            self.counts.malformed += 1;
            self.read = self.length;
            return None;
        };
        let end = self.read + taken;
        Some((packet, self.read + protocol.header()..end, end))
    }

    /// Takes the next rows of the datagram that follow each other, and gives the next ones in order; false if there are
    /// none.
    fn fill_rows(&mut self, protocol: Protocol, group: u8, rate: f64, block: &mut Block) -> bool {
        let mut voltage = block.take_voltage();
        let (mut epoch, mut first, mut rows) = (0, 0, 0);
        while let Some((packet, body, end)) = self.next_packet(protocol) {
            let before = self.order.epoch();
            let time = self.account(protocol, &packet, body.clone());
            let (Some(time), 0, Some(unit)) = (time, packet.chid, self.unit) else {
                self.read = end;
                continue;
            };
            if packet.kind != u16::from(group) {
                self.read = end;
                continue;
            }
            let Some(channels) = self.row_channels(body.len() / 2) else {
                self.counts.malformed += 1;
                self.misfits = (self.misfits.0 + 1, body.len() / 2);
                self.read = end;
                continue;
            };
            self.misfits.0 = 0;
            let number = self.number(time, rate, unit);
            if rows > 0 && (number != first + rows as u64 || self.order.epoch() != before) {
                // The next block begins with this packet, which is read again.
                break;
            }
            self.read = end;
            if rows == 0 {
                (epoch, first) = (self.order.epoch(), number);
            }
            let row = body.start..body.start + 2 * channels;
            append_words(&mut voltage, &self.receiver.buffer[row]);
            rows += 1;
        }
        *block = Block {
            epoch,
            first,
            rows,
            host_ns: self.arrival,
            lost_before: Loss::default(),
            samples: Samples::Voltage(voltage),
        };
        if rows > 0 {
            self.order.put(block, &mut self.counts);
        }
        self.order.give(block, host_ns, &mut self.counts)
    }

    /// Fills `block` with the next spikes of the datagram; false if it holds none.
    fn fill_spikes(&mut self, protocol: Protocol, block: &mut Block) -> bool {
        let mut spikes = block.take_spikes();
        let mut epoch = self.order.epoch();
        let most = self.channels.unwrap_or(usize::MAX);
        while let Some((packet, body, end)) = self.next_packet(protocol) {
            let time = self.account(protocol, &packet, body);
            if !spikes.is_empty() && self.order.epoch() != epoch {
                break;
            }
            self.read = end;
            epoch = self.order.epoch();
            let is_spike = (1..0x8000).contains(&packet.chid)
                && usize::from(packet.chid) <= most
                && Some(packet.chid) != self.digital;
            if let (Some(tick), true) = (time, is_spike) {
                spikes.push(RigSpike {
                    tick,
                    channel: u32::from(packet.chid) - 1,
                    unit: packet.kind as u8,
                });
            }
        }
        spikes.sort_by_key(|spike| spike.tick);
        let lost_before = match spikes.len() {
            0 => Loss::default(),
            _ => std::mem::take(&mut self.owed),
        };
        let count = spikes.len() as u64;
        self.counts.rows += count;
        self.counts.blocks += u64::from(count > 0);
        self.counts.bounds += u64::from(lost_before.at_least);
        *block = Block {
            epoch,
            first: spikes.first().map_or(0, |spike| spike.tick),
            rows: 0,
            host_ns: self.arrival,
            lost_before,
            samples: Samples::Spikes(spikes),
        };
        count > 0
    }

    /// Channels of a row in a packet of so many words; the last word is padding if the channels are odd in number.
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

    /// Takes what a packet tells of the clock, of losses and of the group. Returns its time, if the unit of times is
    /// known and the time is believed.
    fn account(&mut self, protocol: Protocol, packet: &Packet, body: Range<usize>) -> Option<u64> {
        let payload = &self.receiver.buffer[body.clone()];
        if protocol == Protocol::V41
            && let Some(unit) = pace(&mut self.paces, packet, payload)
            && self.unit != Some(unit)
        {
            let known = self.unit.replace(unit).is_some();
            self.losses = Losses::default();
            if known {
                self.begin_epoch();
            }
        }
        let payload = &self.receiver.buffer[body.clone()];
        if let (Group::Samples(group), 0x8000, 0x30) = (self.group, packet.chid, packet.kind)
            && payload.len() >= 32
            && u32::from_le_bytes(word(payload, 4)) == u32::from(group)
        {
            let length = u32::from_le_bytes(word(payload, 28)) as usize;
            let listed = payload[32..].chunks_exact(2).take(length);
            self.group_channels.clear();
            (self.group_channels).extend(listed.map(|b| u16::from_le_bytes([b[0], b[1]])));
        }
        let unit = self.unit?;
        if self.group == Group::Spikes {
            let lost = self.losses.take(packet, payload, unit);
            self.owed.count += lost;
            self.counts.lost += lost;
            // Times of a group tell how many of its packets are lost, and nothing of spikes beside them.
            let by_group = lost > 0 && packet.chid == 0;
            self.owed.at_least |= self.losses.take_bound() || by_group;
        }
        if (packet.chid, packet.kind) == (0x8000, ANSWER) {
            self.take_time(packet, body.clone(), unit);
        }
        let has_time = packet.chid < 0x8000 || packet.kind <= 1;
        if !has_time {
            return None;
        }
        let time = self.believe(protocol, packet.time, unit);
        if let (Some(time), true) = (time, Some(packet.chid) == self.digital) {
            self.take_lines(time, body, unit);
        }
        time
    }

    /// The time of a packet, unwrapped; none if it is far from the one before and the next one has yet to confirm it.
    fn believe(&mut self, protocol: Protocol, time: u64, unit: u64) -> Option<u64> {
        let is_near = |time: u64, other: u64| {
            time < other.saturating_add(FORWARD_SECONDS * unit)
                && other < time.saturating_add(BACKWARD_SECONDS * unit)
        };
        let unwrapped = |newest: u64| match protocol {
            // 2³² ticks are 39.8 h.
            Protocol::V311 => {
                let since = (time as u32).wrapping_sub(newest as u32) as i32;
                newest.saturating_add_signed(i64::from(since))
            }
            _ => time,
        };
        let Some(newest) = self.time else {
            self.time = Some(time);
            return Some(time);
        };
        let time_now = unwrapped(newest);
        let confirms = |doubtful: u64| is_near(time, doubtful);
        match (self.jumps).judge(time, is_near(time_now, newest), confirms) {
            TimeVerdict::Near => {
                self.time = Some(time_now.max(newest));
                Some(time_now)
            }
            TimeVerdict::Jumped => {
                self.begin_epoch();
                self.time = Some(time);
                Some(time)
            }
            TimeVerdict::Doubtful => {
                self.counts.malformed += 1;
                None
            }
        }
    }

    /// Takes the device's time out of an answer.
    fn take_time(&mut self, packet: &Packet, body: Range<usize>, unit: u64) {
        let Some(clock) = &mut self.clock else {
            return;
        };
        let payload = &self.receiver.buffer[body];
        let device = |time: u64| row_at(self.group, self.newest, time, unit);
        clock.take(packet.time, payload, self.arrival, device);
    }

    /// The device's clock began anew.
    fn begin_epoch(&mut self) {
        self.newest = None;
        self.time = None;
        self.jumps.clear();
        self.order.restart(&mut self.counts);
    }
}

/// The row of a time, counted from the newest one; of spikes the time itself. `None` before a group has rows.
pub(super) fn row_at(
    group: Group,
    newest: Option<(u64, u64)>,
    time: u64,
    unit: u64,
) -> Option<u64> {
    let Some(rate) = group.rate() else {
        return Some(time);
    };
    let (newest, number) = newest?;
    let rows = (time as f64 - newest as f64) * rate / unit as f64;
    Some(number.saturating_add_signed(rows.round() as i64))
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
                rate: self.unit? as f64,
                microvolts: self.microvolts,
                clock_bits: bits,
            }),
        }
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        if self.order.give(block, host_ns, &mut self.counts) {
            return Ok(Arrival::Block);
        }
        if self.read >= self.length {
            let Some(length) = self.receiver.receive(self.order.wait(patience, host_ns))? else {
                return Ok(match self.order.give(block, host_ns, &mut self.counts) {
                    true => Arrival::Block,
                    false => Arrival::Nothing,
                });
            };
            (self.read, self.length, self.arrival) = (0, length, host_ns());
            self.datagrams += 1;
            if self.protocol.is_none() {
                let datagram = &self.receiver.buffer[..length];
                self.protocol = self.recognition.take(datagram);
                self.unit = self.protocol.and_then(known_unit);
                self.read = self.length;
                return Ok(Arrival::Nothing);
            }
            if let Some(given) = self.given
                && !is_whole(given, &self.receiver.buffer[..length], |_, _| true)
            {
                self.counts.malformed += 1;
                self.read = self.length;
                return Ok(Arrival::Nothing);
            }
        }
        let Some(protocol) = self.protocol else {
            return Ok(Arrival::Nothing);
        };
        if let Some(clock) = &mut self.clock {
            clock.ask(protocol, &self.receiver);
        }
        let is_filled = match (self.group, self.group.rate()) {
            (Group::Samples(group), Some(rate)) => self.fill_rows(protocol, group, rate, block),
            _ => self.fill_spikes(protocol, block),
        };
        let (misfits, words) = self.misfits;
        if let (MISFITS.., 0, Some(channels)) = (misfits, self.counts.rows, self.channels) {
            return Err(Error::mismatch(format!(
                "cerebus://{}: expected rows of {channels} channels, got {words} (one less if they are odd in number): \
                 change channels=N, or the group in Central",
                self.receiver.address()?
            )));
        }
        match is_filled {
            true => Ok(Arrival::Block),
            false => Ok(Arrival::Nothing),
        }
    }

    fn take_edges(&mut self, edges: &mut Vec<LineEdge>) {
        edges.append(&mut self.edges.waiting);
    }

    fn probe(&mut self) -> Option<Probe> {
        self.clock.as_mut()?.answer.take()
    }

    fn loss_report(&self) -> LossReport {
        match self.group {
            Group::Samples(_) => LossReport::Exact,
            Group::Spikes => LossReport::Packets,
        }
    }

    fn socket_buffer(&self) -> Option<usize> {
        self.buffer
    }

    fn counts(&self) -> RigCounts {
        RigCounts {
            dropped_by_host: self.receiver.dropped(),
            ..self.counts
        }
    }
}
