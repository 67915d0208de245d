//! Answers of an emulated Cerebus device: to questions for its time, and to the handshake of Central, CereLink and pycbsdk.
//!
//! A client asks for the run level, then for the whole configuration, of which the device tells its name, its sample groups and
//! every channel. The layout of packets is that of version 4.1; earlier ones are asked for their time alone.

use betz_base::Result;

use super::{CerebusDevice, LARGEST};
use crate::cerebus::questions::ANSWER;
use crate::cerebus::{Packet, Protocol};
use crate::rig::emulate::next_datagram;
use crate::udp::word;

/// The channel of packets that configure.
const CONFIGURATION: u16 = 0x8000;
/// Types of requests; the answers have the same without the highest bit, but for that to all of the configuration.
const QUESTION_OF_TIME: u16 = 0xdc;
const SET_RUN_LEVEL: u16 = 0x92;
const CONFIGURATION_OF_ALL: u16 = 0x88;
/// Settings of a channel: all, and parts of them, such as its sample group.
const SET_CHANNEL: std::ops::RangeInclusive<u16> = 0xc0..=0xcf;
const RUN_LEVEL: u16 = 0x12;
const SYSTEM: u16 = 0x10;
const PROCESSOR: u16 = 0x21;
const GROUP: u16 = 0x30;
const CHANNEL: u16 = 0x40;

/// Run levels: a hard reset ends in standby, a reset in running.
const HARD_RESET: u32 = 20;
const STANDBY: u32 = 30;
const RESET: u32 = 40;
pub(super) const RUNNING: u32 = 50;

/// Bytes of a channel's configuration behind the head, and places in it.
const CHANNEL_BYTES: usize = 664;
const SAMPLE_GROUP: usize = 296;
/// Flags of a channel: it exists, is connected, isolated, and has analog input; or digital input.
const FRONT_END: u32 = 0x1 | 0x2 | 0x4 | 0x100;
const DIGITAL_INPUT: u32 = 0x1 | 0x2 | 0x400;
/// Digital input of 16 bits, which tells any change.
const BITS_16: u32 = 0x400 | 0x1000;

impl CerebusDevice {
    /// Answers the questions for its time that came, and the requests of a handshake; returns the number of the former. A device
    /// with `has_field` states the time in the payload, an older one in the header alone.
    ///
    /// # Errors
    /// An error of the system.
    pub fn answer(&mut self, has_field: bool) -> Result<usize> {
        let to = self.sender.to;
        let io = |e| crate::rig::emulate::sending(to, e);
        self.sender.socket.set_nonblocking(true).map_err(io)?;
        let (mut bytes, mut answers) = (vec![0; 1 << 16], 0);
        while let Some((length, _)) = next_datagram(&self.sender.socket, &mut bytes).map_err(io)? {
            let mut rest = &bytes[..length];
            while let Some((packet, taken)) = self.protocol.first(rest) {
                let body = &rest[self.protocol.header()..taken];
                answers += usize::from(self.take_request(&packet, body, has_field)?);
                rest = &rest[taken..];
            }
        }
        self.sender.socket.set_nonblocking(false).map_err(io)?;
        Ok(answers)
    }

    /// Answers a request; true if it was for the time.
    fn take_request(&mut self, packet: &Packet, body: &[u8], has_field: bool) -> Result<bool> {
        if packet.chid != CONFIGURATION {
            return Ok(false);
        }
        let time = self.time(self.next);
        match packet.kind {
            QUESTION_OF_TIME => {
                let mut body = vec![0; 1008];
                if has_field {
                    body[16..24].copy_from_slice(&time.to_le_bytes());
                }
                self.put(time, CONFIGURATION, ANSWER, &body);
                self.flush()?;
                return Ok(true);
            }
            _ if self.protocol != Protocol::V41 => {}
            SET_RUN_LEVEL if body.len() >= 24 => {
                let levels = match u32::from_le_bytes(word(body, 16)) {
                    HARD_RESET => [HARD_RESET, STANDBY],
                    RESET => [RESET, RUNNING],
                    // Any other is a question: the device runs.
                    _ => [self.run_level; 2],
                };
                for level in levels {
                    self.run_level = level;
                    self.put_system(RUN_LEVEL);
                }
            }
            CONFIGURATION_OF_ALL => self.put_configuration()?,
            kind if SET_CHANNEL.contains(&kind) && body.len() >= 4 => {
                // The device keeps its own settings, and says what they are.
                let channel = u32::from_le_bytes(word(body, 0));
                self.put_channel(channel, kind & 0x7f);
            }
            _ => {}
        }
        self.flush()?;
        Ok(false)
    }

    /// Sends what a device tells of itself without being asked: its name, and the channels of the group.
    ///
    /// # Errors
    /// An error of the system.
    pub fn describe(&mut self) -> Result<()> {
        self.put_processor();
        self.put_group(self.group);
        self.flush()
    }

    /// All of the configuration, in the order of the device.
    fn put_configuration(&mut self) -> Result<()> {
        let time = self.time(self.next);
        self.put(time, CONFIGURATION, CONFIGURATION_OF_ALL & 0x7f, &[]);
        self.put_processor();
        (1..=6).for_each(|group| self.put_group(group));
        for channel in 1..=self.all_channels() {
            if self.datagram.len() + CHANNEL_BYTES + 16 > LARGEST {
                self.flush()?;
            }
            self.put_channel(channel, CHANNEL);
        }
        self.put_system(SYSTEM);
        self.flush()
    }

    /// Channels of the device: the electrodes, and the digital input behind them.
    fn all_channels(&self) -> u32 {
        self.channels as u32 + 1
    }

    fn put_system(&mut self, kind: u16) {
        let time = self.time(self.next);
        // Ticks per second, samples of a waveform and before its threshold, and no reset queue.
        let numbers = [self.unit as u32, 48, 10, 0, self.run_level, 0];
        let body: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.put(time, CONFIGURATION, kind, &body);
    }

    fn put_processor(&mut self) {
        let name: &[u8] = match self.unit {
            30_000 => b"NSP (emulated)",
            _ => b"Gemini NSP (emulated)",
        };
        let mut body = vec![0; 72 + 40];
        body[..4].copy_from_slice(&1_u32.to_le_bytes());
        body[8..8 + name.len()].copy_from_slice(name);
        // First channel, channels, banks, groups, filters, channels, units and hoops of sorting, its method, and version 4.1.
        let numbers = [1, self.all_channels(), 2, 6, 0, 0, 5, 4, 0, 4 << 16 | 1];
        for (at, number) in numbers.iter().enumerate() {
            body[72 + 4 * at..][..4].copy_from_slice(&u32::to_le_bytes(*number));
        }
        let time = self.time(self.next);
        self.put(time, CONFIGURATION, PROCESSOR, &body);
    }

    /// A sample group, of which all but that of the device have no channels.
    fn put_group(&mut self, group: u8) {
        let mut body = vec![0; 32];
        let channels = match group == self.group && self.has_group {
            true => self.channels as u16,
            false => 0,
        };
        body[0] = 1;
        body[4] = group;
        let period = [60_u32, 30, 15, 3, 1, 1][usize::from(group - 1)];
        body[24..28].copy_from_slice(&period.to_le_bytes());
        body[28..32].copy_from_slice(&u32::from(channels).to_le_bytes());
        body.extend((1..=channels).flat_map(u16::to_le_bytes));
        let time = self.time(self.next);
        self.put(time, CONFIGURATION, GROUP, &body);
    }

    /// The settings of a channel.
    fn put_channel(&mut self, channel: u32, kind: u16) {
        let mut body = vec![0; CHANNEL_BYTES];
        let mut put =
            |at: usize, value: u32| body[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(0, channel);
        put(4, 1);
        let label = match channel <= self.channels as u32 {
            true => {
                put(16, FRONT_END);
                put(SAMPLE_GROUP, u32::from(self.group));
                format!("elec{channel}")
            }
            false => {
                put(16, DIGITAL_INPUT);
                put(24, BITS_16);
                "digin1".into()
            }
        };
        // A bit is a quarter of a microvolt: 32,764 of them are 8,191 µV.
        let (most, unit) = ([32_764_i16, 8191], b"uV");
        for at in [40, 204] {
            body[at..at + 2].copy_from_slice(&(-most[0]).to_le_bytes());
            body[at + 2..at + 4].copy_from_slice(&most[0].to_le_bytes());
            body[at + 4..at + 8].copy_from_slice(&(-i32::from(most[1])).to_le_bytes());
            body[at + 8..at + 12].copy_from_slice(&i32::from(most[1]).to_le_bytes());
            body[at + 12..at + 16].copy_from_slice(&1_i32.to_le_bytes());
            body[at + 16..at + 18].copy_from_slice(unit);
        }
        body[168..168 + label.len()].copy_from_slice(label.as_bytes());
        let time = self.time(self.next);
        self.put(time, CONFIGURATION, kind, &body);
    }
}
