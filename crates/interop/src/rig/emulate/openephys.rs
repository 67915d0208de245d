//! Open Ephys' plugin "ZMQ Interface".

use std::net::SocketAddr;

use betz_base::Result;

use super::publication::Publication;
use super::{Emulator, whole_rows};
use crate::rig::RigSpike;

/// Publishes voltage and spikes as [`OpenEphysRig`](crate::rig::OpenEphysRig) receives them.
pub struct OpenEphysPublisher {
    publication: Publication,
    channels: usize,
    rate: f64,
    microvolts: f64,
    /// Rows of a block.
    block: usize,
    /// Rows that wait for a whole block.
    waiting: Vec<i16>,
    /// Number of the next row to be published, and of the newest message.
    first: u64,
    message: u64,
    /// Number of the next messages that are lost on the way.
    to_lose: u64,
}

impl OpenEphysPublisher {
    /// A publisher of `channels` in blocks of `block` rows at a free port of this machine.
    ///
    /// # Errors
    /// `Io` if the system gives no port or no thread.
    pub fn bind(channels: usize, rate: f64, microvolts: f64, block: usize) -> Result<Self> {
        Ok(Self {
            publication: Publication::bind("Open Ephys")?,
            channels,
            rate,
            microvolts,
            block: block.max(1),
            waiting: Vec::new(),
            first: 0,
            message: 0,
            to_lose: 0,
        })
    }

    /// Address of the publisher.
    pub fn address(&self) -> SocketAddr {
        self.publication.address()
    }

    /// True if somebody has subscribed.
    pub fn is_connected(&self) -> bool {
        self.publication.is_connected()
    }

    /// Loses the next so many messages.
    pub fn lose_messages(&mut self, messages: u64) {
        self.to_lose += messages;
    }

    /// Publishes a message of any parts.
    ///
    /// # Errors
    /// `Io` if a subscriber makes no room.
    pub fn publish(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.publication.publish(parts)
    }

    /// Publishes a message with the next number, unless it is to be lost.
    fn message(&mut self, envelope: &[u8], kind: &str, content: &str, body: &[u8]) -> Result<()> {
        self.message += 1;
        if self.to_lose > 0 {
            self.to_lose -= 1;
            return Ok(());
        }
        let key = if kind == "spike" { "spike" } else { "content" };
        let header = format!(
            r#"{{"message_num": {}, "type": "{kind}", "{key}": {content}, "data_size": {}, "timestamp": 0}}"#,
            self.message,
            body.len()
        );
        self.publish(&[envelope, header.as_bytes(), body])
    }

    /// Publishes the rows that wait.
    fn flush(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let rows = waiting.len() / self.channels;
        for channel in (0..self.channels).filter(|_| rows > 0) {
            let column = waiting.iter().skip(channel).step_by(self.channels);
            let values = column.map(|v| (f64::from(*v) * self.microvolts) as f32);
            let body: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
            let content = format!(
                r#"{{"stream": "Emulated", "channel_num": {channel}, "channel_name": "CH{}", "num_samples": {rows}, "sample_num": {}, "sample_rate": {:?}}}"#,
                channel + 1,
                self.first,
                self.rate
            );
            self.message(b"DATA\0", "data", &content, &body)?;
        }
        self.first += rows as u64;
        Ok(())
    }
}

impl Emulator for OpenEphysPublisher {
    /// Rows are published when a block of them is there.
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        whole_rows(voltage, self.channels)?;
        for row in voltage.chunks(self.channels) {
            self.waiting.extend(row);
            if self.waiting.len() == self.block * self.channels {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn lose(&mut self, rows: u64) -> Result<()> {
        self.flush()?;
        self.first += rows;
        Ok(())
    }

    fn spike(&mut self, spike: RigSpike) -> Result<()> {
        let content = format!(
            r#"{{"stream": "Emulated", "source_node": 101, "electrode": "Electrode {}", "sample_num": {}, "num_channels": 1, "num_samples": 0, "sorted_id": {}, "threshold": [-50.0]}}"#,
            spike.channel + 1,
            spike.tick,
            spike.unit
        );
        self.message(b"EVENT\0", "spike", &content, &[])
    }

    fn restart(&mut self) -> Result<()> {
        self.waiting.clear();
        (self.first, self.message) = (0, 0);
        Ok(())
    }

    fn next_row(&self) -> u64 {
        self.first + (self.waiting.len() / self.channels) as u64
    }
}
