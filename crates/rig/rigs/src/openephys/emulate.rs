//! Open Ephys' plugin "ZMQ Interface".

use std::net::SocketAddr;

use betz_base::Result;

use crate::rig::RigSpike;
use crate::rig::emulate::publication::Publication;
use crate::rig::emulate::{Emulator, whole_rows};

/// Publishes voltage and spikes as [`OpenEphysRig`](crate::rig::OpenEphysRig) receives them.
pub struct OpenEphysPublisher {
    publication: Publication,
    channels: usize,
    rate: f64,
    microvolts: f64,
    /// Rows of a block at least and at most, and of the next one.
    blocks: [usize; 2],
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
    /// A publisher of `channels` at `at`, in blocks of 10 to 23 ms, as the application sends them.
    ///
    /// # Errors
    /// `Io` if the system gives no port or no thread.
    pub fn bind(at: SocketAddr, channels: usize, rate: f64, microvolts: f64) -> Result<Self> {
        let blocks = BLOCK_SECONDS.map(|seconds| ((rate * seconds) as usize).max(1));
        Ok(Self {
            publication: Publication::bind("Open Ephys", at)?,
            channels,
            rate,
            microvolts,
            blocks,
            block: blocks[0],
            waiting: Vec::new(),
            first: 0,
            message: 0,
            to_lose: 0,
        })
    }

    /// Sends blocks of so many rows.
    pub fn with_blocks(mut self, rows: usize) -> Self {
        (self.blocks, self.block) = ([rows.max(1); 2], rows.max(1));
        self
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
        // Another length each time, the same in each run.
        let [least, most] = self.blocks;
        self.block =
            least + (self.message.wrapping_mul(2_654_435_761) >> 16) as usize % (most - least + 1);
        Ok(())
    }
}

/// Lengths of the application's blocks.
const BLOCK_SECONDS: [f64; 2] = [0.010, 0.023];

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

    /// The event of a TTL line: its number from 0, its state, and the word of all lines, which is left at 0.
    fn edge(&mut self, line: u8, is_up: bool) -> Result<()> {
        let row = self.next_row();
        let content = format!(
            r#"{{"stream": "Emulated", "source_node": 100, "type": 3, "sample_num": {row}}}"#
        );
        let mut body = vec![line.saturating_sub(1), u8::from(is_up)];
        body.extend([0; 8]);
        self.message(b"EVENT\0", "event", &content, &body)
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()
    }

    fn is_heard(&self) -> bool {
        self.is_connected()
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
