//! A Cerebus device made of datagrams.

mod answers;

use betz_base::Result;

use super::{Group, Protocol};
use crate::rig::RigSpike;
use crate::rig::emulate::{Emulator, Sender, sending, whole_rows};

/// Rows of a datagram at most.
const ROWS: usize = 30;
/// Most bytes of a datagram.
const LARGEST: usize = 58_080;
/// Milliseconds between two monitors.
const MONITOR_MS: u64 = 10;

/// Sends packets of a sample group, spikes, heartbeats and monitors as [`CerebusRig`](crate::rig::CerebusRig)
/// receives them.
pub struct CerebusDevice {
    sender: Sender,
    protocol: Protocol,
    /// Ticks per second of its clock.
    unit: u64,
    group: u8,
    rate: u64,
    channels: usize,
    next: u64,
    /// Time of the newest monitor in milliseconds, and its number.
    monitor_ms: u64,
    monitor: u32,
    /// Packets since the last monitor.
    sent: u32,
    datagram: Vec<u8>,
    /// True while what it sends is lost on the way.
    is_cut: bool,
    /// False if the group is off, so that its rows only let the time pass.
    has_group: bool,
    /// State of the digital input's lines.
    lines: u16,
    run_level: u32,
}

impl CerebusDevice {
    /// A device that sends to `to`, `HOST:PORT`. A `gemini` counts nanoseconds under version 4.1.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid address or a group that has no samples, `Io` without a socket.
    pub fn new(
        to: &str,
        protocol: Protocol,
        gemini: bool,
        group: u8,
        channels: usize,
    ) -> Result<Self> {
        if protocol == Protocol::V311 && channels > 510 {
            return Err(betz_base::Error::argument(format!(
                "emulator: expected at most 510 channels in a packet of version 3.11, got {channels}"
            )));
        }
        let rate = match Group::named(&group.to_string())?.rate() {
            Some(rate) if 2 * channels + 16 <= LARGEST && channels > 0 => rate as u64,
            _ => {
                return Err(betz_base::Error::argument(format!(
                    "emulator: expected 1 to {} channels, got {channels}",
                    (LARGEST - 16) / 2
                )));
            }
        };
        let nanoseconds = gemini && protocol == Protocol::V41;
        Ok(Self {
            sender: Sender::new(to)?,
            protocol,
            unit: if nanoseconds { 1_000_000_000 } else { 30_000 },
            group,
            rate,
            channels,
            next: 0,
            monitor_ms: 0,
            monitor: 0,
            sent: 0,
            datagram: Vec::new(),
            is_cut: false,
            has_group: true,
            lines: 0,
            run_level: answers::RUNNING,
        })
    }

    /// Answers at `at`, `HOST:PORT`, and sends from there, as a device does whose address is known.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid address, `Io` if it cannot be bound.
    pub fn bound_to(mut self, at: &str) -> Result<Self> {
        self.sender = Sender::bound(at, &self.sender.to.to_string())?;
        Ok(self)
    }

    /// Number of the digital input's channel: the one behind those of the group.
    pub fn digital_channel(&self) -> u16 {
        self.channels as u16 + 1
    }

    /// Address at which it answers questions.
    ///
    /// # Errors
    /// An error of the system.
    pub fn address(&self) -> Result<std::net::SocketAddr> {
        let port = (self.sender.socket.local_addr()).map_err(|e| sending(self.sender.to, e))?;
        Ok(std::net::SocketAddr::new(self.sender.to.ip(), port.port()))
    }

    /// Switches the sample group off: rows let the time pass, and are not sent.
    pub fn without_group(mut self) -> Self {
        self.has_group = false;
        self
    }

    /// Loses everything on the way, or nothing any more.
    pub fn set_cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
    }

    /// Time of a row in the device's ticks.
    fn time(&self, row: u64) -> u64 {
        (u128::from(row) * u128::from(self.unit) / u128::from(self.rate)) as u64
    }

    /// Appends a packet to the datagram.
    fn put(&mut self, time: u64, chid: u16, kind: u16, body: &[u8]) {
        let words = body.len().div_ceil(4);
        let to = &mut self.datagram;
        match self.protocol {
            Protocol::V311 => {
                to.extend((time as u32).to_le_bytes());
                to.extend(chid.to_le_bytes());
                to.extend([kind as u8, words as u8]);
            }
            Protocol::V40 => {
                to.extend(time.to_le_bytes());
                to.extend(chid.to_le_bytes());
                to.push(kind as u8);
                to.extend((words as u16).to_le_bytes());
                to.extend([0; 3]);
            }
            Protocol::V41 => {
                to.extend(time.to_le_bytes());
                to.extend(chid.to_le_bytes());
                to.extend(kind.to_le_bytes());
                to.extend((words as u16).to_le_bytes());
                to.extend([0; 2]);
            }
        }
        to.extend(body);
        to.resize(to.len() + 4 * words - body.len(), 0);
        self.sent += 1;
    }

    /// A packet of the group, alone, at the time of the next row.
    #[cfg(test)]
    pub(crate) fn packet(&mut self, row: &[i16]) -> Vec<u8> {
        let body: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
        let time = self.time(self.next);
        self.put(time, 0, u16::from(self.group), &body);
        self.sent -= 1;
        std::mem::take(&mut self.datagram)
    }

    fn flush(&mut self) -> Result<()> {
        let datagram = std::mem::take(&mut self.datagram);
        if !datagram.is_empty() && !self.is_cut {
            self.sender.send(&datagram)?;
        }
        self.datagram = datagram;
        self.datagram.clear();
        Ok(())
    }

    /// Sends a heartbeat and a monitor, if they are due.
    fn monitor(&mut self) -> Result<()> {
        let now = self.next * 1000 / self.rate;
        while self.monitor_ms + MONITOR_MS <= now {
            self.flush()?;
            self.monitor_ms += MONITOR_MS;
            let time = (u128::from(self.monitor_ms) * u128::from(self.unit) / 1000) as u64;
            self.put(time, 0x8000, 0, &[]);
            let sent = self.sent + 1;
            self.monitor = self.monitor.wrapping_add(1);
            let mut body = sent.to_le_bytes().to_vec();
            // Versions before 4.1 do not number their monitors.
            if self.protocol == Protocol::V41 {
                body.extend(self.monitor.to_le_bytes());
            }
            self.put(time, 0x8000, 1, &body);
            self.sent = 0;
            self.flush()?;
        }
        Ok(())
    }
}

impl Emulator for CerebusDevice {
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        whole_rows(voltage, self.channels)?;
        for (row, values) in voltage.chunks(self.channels).enumerate() {
            let body: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            if row % ROWS == 0 || self.datagram.len() + body.len() + 20 > LARGEST {
                self.flush()?;
            }
            if self.has_group {
                let time = self.time(self.next);
                self.put(time, 0, u16::from(self.group), &body);
            }
            self.next += 1;
            self.monitor()?;
        }
        self.flush()
    }

    fn lose(&mut self, rows: u64) -> Result<()> {
        self.is_cut = true;
        let nothing = vec![0; self.channels];
        for _ in 0..rows {
            self.send(&nothing)?;
        }
        self.is_cut = false;
        Ok(())
    }

    fn spike(&mut self, spike: RigSpike) -> Result<()> {
        let time = self.time(spike.tick);
        let body = [0; 16 + 96];
        self.put(time, spike.channel as u16 + 1, u16::from(spike.unit), &body);
        self.flush()
    }

    /// Sends the state of the digital input, the lines that have changed, and the kind of event: any bit.
    fn edge(&mut self, line: u8, is_up: bool) -> Result<()> {
        let Some(bit) = 1_u16.checked_shl(u32::from(line.saturating_sub(1))) else {
            return Ok(());
        };
        let before = self.lines;
        self.lines = if is_up { before | bit } else { before & !bit };
        let numbers = [u32::from(self.lines), u32::from(before ^ self.lines), 1];
        let body: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.flush()?;
        self.put(self.time(self.next), self.digital_channel(), 0, &body);
        self.flush()
    }

    fn attend(&mut self) -> Result<()> {
        self.answer(true).map(drop)
    }

    fn restart(&mut self) -> Result<()> {
        (self.next, self.monitor_ms, self.monitor, self.sent) = (0, 0, 0, 0);
        Ok(())
    }

    fn next_row(&self) -> u64 {
        self.next
    }
}
