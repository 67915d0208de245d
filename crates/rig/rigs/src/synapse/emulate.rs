//! A tap of a Synapse device, and its answers about the time.

use std::net::{SocketAddr, UdpSocket};

use betz_base::{Error, ErrorKind, Result};

use super::TimePacket;
use crate::rig::emulate::publication::Publication;
use crate::rig::emulate::{Emulator, next_datagram, whole_rows};
use crate::rig::protobuf::{put_bytes, put_number, put_varint, zigzag};

/// Device time of the first row, in nanoseconds.
const BEGIN_NS: u64 = 1_764_000_000_000_000_000;

/// Publishes voltage or spike counts as [`SynapseRig`](crate::rig::SynapseRig) receives them.
pub struct SynapseTap {
    publication: Publication,
    clock: UdpSocket,
    channels: usize,
    rate: f64,
    /// Number that is added to each value of voltage.
    offset: i64,
    next: u64,
    /// Device time of row 0.
    begin_ns: u64,
    message: Vec<u8>,
    packed: Vec<u8>,
}

impl SynapseTap {
    /// A tap of `channels` with `rate` messages per second, at `at`.
    ///
    /// # Errors
    /// `InvalidArgument` for a rate that is no whole number above 0, `Io` if the system gives no port or no thread.
    pub fn bind(at: SocketAddr, channels: usize, rate: f64) -> Result<Self> {
        if !(rate >= 1.0 && rate.fract() == 0.0 && rate <= f64::from(u32::MAX)) {
            return Err(Error::argument(format!(
                "emulator of Synapse: expected a rate of whole Hz above 0, got {rate}"
            )));
        }
        let clock = UdpSocket::bind((at.ip(), 0)).map_err(asking)?;
        clock.set_nonblocking(true).map_err(asking)?;
        Ok(Self {
            publication: Publication::bind("Synapse", at)?,
            clock,
            channels,
            rate,
            offset: 0,
            next: 0,
            begin_ns: BEGIN_NS,
            message: Vec::new(),
            packed: Vec::new(),
        })
    }

    /// Adds `offset` to each value of voltage, as a device does that sends unsigned numbers.
    pub fn with_offset(mut self, offset: u32) -> Self {
        self.offset = i64::from(offset);
        self
    }

    /// Address of the tap.
    pub fn address(&self) -> SocketAddr {
        self.publication.address()
    }

    /// Address at which questions for the time are answered.
    ///
    /// # Errors
    /// An error of the system.
    pub fn clock_address(&self) -> Result<SocketAddr> {
        self.clock.local_addr().map_err(asking)
    }

    /// True if somebody has subscribed.
    pub fn is_connected(&self) -> bool {
        self.publication.is_connected()
    }

    /// Publishes a message of any bytes.
    ///
    /// # Errors
    /// `Io` if a subscriber makes no room.
    pub fn publish(&self, message: &[u8]) -> Result<()> {
        self.publish_parts(&[message])
    }

    /// Publishes messages as the parts of one.
    ///
    /// # Errors
    /// `Io` if a subscriber makes no room.
    pub fn publish_parts(&self, messages: &[&[u8]]) -> Result<()> {
        self.publication.publish(messages)
    }

    /// Publishes bins of spike counts, each with all channels, as a tap of `synapse.SpiketrainFrame` does.
    ///
    /// # Errors
    /// `InvalidArgument` for counts that are not whole bins, and the errors of [`publish`](Self::publish).
    pub fn send_counts(&mut self, counts: &[u32]) -> Result<()> {
        if self.channels == 0 || !counts.len().is_multiple_of(self.channels) {
            return Err(Error::argument(format!(
                "emulator of Synapse: expected whole bins of {} channels, got {} counts",
                self.channels,
                counts.len()
            )));
        }
        for bin in counts.chunks(self.channels) {
            self.packed.clear();
            bin.iter()
                .for_each(|n| put_varint(&mut self.packed, u64::from(*n)));
            self.begin_message();
            put_number(&mut self.message, 3, (1000.0 / self.rate).round() as u64);
            put_bytes(&mut self.message, 4, &self.packed);
            self.packed.clear();
            (0..self.channels as u64).for_each(|channel| put_varint(&mut self.packed, channel));
            put_bytes(&mut self.message, 5, &self.packed);
            self.end_message()?;
        }
        Ok(())
    }

    /// Answers the questions for the device's time that came; returns their number.
    ///
    /// # Errors
    /// An error of the system.
    pub fn answer(&mut self) -> Result<usize> {
        let (mut bytes, mut answers) = ([0; 1024], 0);
        loop {
            let Some((length, from)) = next_datagram(&self.clock, &mut bytes).map_err(asking)?
            else {
                return Ok(answers);
            };
            if let Some(mut packet) = TimePacket::read(&bytes[..length]) {
                let now = self.time_ns(self.next);
                packet.times[1..3].fill(now);
                self.clock
                    .send_to(&packet.to_bytes(), from)
                    .map_err(asking)?;
                answers += 1;
            }
        }
    }

    /// Device time of a row.
    fn time_ns(&self, row: u64) -> u64 {
        self.begin_ns + (u128::from(row) * 1_000_000_000 / self.rate as u128) as u64
    }

    fn begin_message(&mut self) {
        let time = self.time_ns(self.next);
        self.message.clear();
        put_number(&mut self.message, 1, time);
        put_number(&mut self.message, 2, self.next);
    }

    /// Publishes the message with the time at which it was made, that of its row.
    fn end_message(&mut self) -> Result<()> {
        let time = self.time_ns(self.next);
        put_number(&mut self.message, 6, time);
        self.publication.publish(&[&self.message])?;
        self.next += 1;
        Ok(())
    }
}

fn asking(e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("emulator of Synapse: {e}"))
}

impl Emulator for SynapseTap {
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        whole_rows(voltage, self.channels)?;
        for row in voltage.chunks(self.channels) {
            self.packed.clear();
            for value in row {
                put_varint(&mut self.packed, zigzag(i64::from(*value) + self.offset));
            }
            self.begin_message();
            put_bytes(&mut self.message, 3, &self.packed);
            put_number(&mut self.message, 4, self.rate as u64);
            self.end_message()?;
        }
        Ok(())
    }

    fn lose(&mut self, rows: u64) -> Result<()> {
        self.next += rows;
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        // Its clock goes on.
        self.begin_ns = self.time_ns(self.next);
        self.next = 0;
        Ok(())
    }

    fn next_row(&self) -> u64 {
        self.next
    }

    fn attend(&mut self) -> Result<()> {
        self.answer().map(drop)
    }

    fn is_heard(&self) -> bool {
        self.is_connected()
    }
}
