//! Sender of rows of int16 in plain datagrams.

use betz_base::Result;

use crate::rig::emulate::{Emulator, Sender, whole_rows};
use crate::rig::host_ns;

/// Bytes before the rows, and the largest datagram.
const HEADER: usize = 32;
const LARGEST: usize = 65_507;

/// Sends rows of int16 in plain datagrams, as [`FrameRig`](crate::rig::FrameRig) receives them.
pub struct FrameSender {
    sender: Sender,
    channels: usize,
    rate: f64,
    next: u64,
    datagram: Vec<u8>,
}

impl FrameSender {
    /// Sends rows of `channels` at `rate` per second to `to`, `HOST:PORT`.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid address or more channels than a datagram holds, `Io` without a socket.
    pub fn new(to: &str, channels: usize, rate: f64) -> Result<Self> {
        if !(1..=(LARGEST - HEADER) / 2).contains(&channels) {
            return Err(betz_base::Error::argument(format!(
                "emulator: expected 1 to {} channels, got {channels}",
                (LARGEST - HEADER) / 2
            )));
        }
        Ok(Self {
            sender: Sender::new(to)?,
            channels,
            rate,
            next: 0,
            datagram: Vec::new(),
        })
    }

    /// The datagram of rows, of which the first has the number `first`.
    pub fn datagram(&mut self, first: u64, voltage: &[i16]) -> &[u8] {
        self.datagram.clear();
        self.datagram.extend(b"BETZ\x01\x04");
        self.datagram.extend((self.channels as u16).to_le_bytes());
        self.datagram.extend(first.to_le_bytes());
        self.datagram.extend(host_ns().to_le_bytes());
        self.datagram.extend([0; 4]);
        let millihertz = (self.rate * 1000.0).round() as u32;
        self.datagram.extend(millihertz.to_le_bytes());
        self.datagram
            .extend(voltage.iter().flat_map(|v| v.to_le_bytes()));
        &self.datagram
    }

    /// Sends rows under other numbers than the next ones: late, or again.
    ///
    /// # Errors
    /// An error of the system.
    pub fn send_at(&mut self, first: u64, voltage: &[i16]) -> Result<()> {
        self.datagram(first, voltage);
        self.sender.send(&self.datagram)
    }
}

impl Emulator for FrameSender {
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        whole_rows(voltage, self.channels)?;
        let most = (LARGEST - HEADER) / 2 / self.channels * self.channels;
        for part in voltage.chunks(most) {
            self.send_at(self.next, part)?;
            self.next += (part.len() / self.channels) as u64;
        }
        Ok(())
    }

    fn lose(&mut self, rows: u64) -> Result<()> {
        self.next += rows;
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }

    fn next_row(&self) -> u64 {
        self.next
    }
}
