//! Voltage and spikes from Open Ephys, as its plugin "ZMQ Interface" publishes them (port 5556 unless changed).
//!
//! Voltage comes as a message for each channel and block, float32 in µV, which becomes int16. A block is whole when
//! all its channels have come; one with a hole counts as lost as soon as the second block after it begins. Losses of
//! voltage are exact, by the numbers of samples; those of spikes are lost messages of any kind, by their numbers. A
//! block is one of the application, 10 to 23 ms, which is the delay of this source.
//!
//! The rig sends no heartbeats, so that the application does not list it as a client; it is served all the same.
//!
//! Emulated from public sources (the plugin and its Python client), not tried on hardware.

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
#[cfg(all(test, feature = "emulate"))]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use betz_base::Result;
use serde_json::Value;

use crate::order::rows::RowOrder;
use crate::rig::tcp::Attempts;
use crate::rig::{
    Arrival, Block, LineEdge, LineEdges, Loss, LossReport, MICROVOLTS, Rig, RigCounts, RigSpike,
    Samples, Signal, check_given, host_ns, to_bits,
};
use crate::zmq::{Subscriber, channel_of};

/// Most samples of a message.
const MOST_ROWS: usize = 1 << 16;
/// Most messages that can be lost at once; with more the numbers are others.
const MOST_LOST: u64 = 1 << 24;
/// Type of an event that is a change of a digital line.
const TTL: u64 = 3;
/// Time that connecting may take.
const CONNECT: Duration = Duration::from_millis(500);

/// Block of which some channels may be missing.
struct Partial {
    first: u64,
    rows: usize,
    present: Vec<bool>,
    missing: usize,
    /// Voltage channel by channel.
    columns: Vec<i16>,
    host_ns: i64,
}

/// Source of voltage or spikes of Open Ephys. It waits for the application.
pub struct OpenEphysRig {
    place: SocketAddr,
    subscriber: Option<Subscriber>,
    attempts: Attempts,
    channels: usize,
    microvolts: f64,
    /// Samples per second: of the first message, or given, for spikes.
    rate: Option<f64>,
    spikes: bool,
    partials: VecDeque<Partial>,
    /// Number of the newest message.
    message: Option<u64>,
    /// Messages lost before the next block of spikes.
    owed: u64,
    order: RowOrder,
    edges: LineEdges,
    counts: RigCounts,
}

impl OpenEphysRig {
    /// Voltage of `channels` from the plugin at `place`, `HOST:PORT`. `microvolts` are those per bit of the rows,
    /// 0.195 if none are given.
    ///
    /// # Errors
    /// `InvalidArgument` if `place` cannot be parsed or there are no channels.
    pub fn voltage(place: &str, channels: usize, microvolts: Option<f64>) -> Result<Self> {
        check_given(format_args!("openephys://{place}"), Some(channels), None)?;
        Ok(Self {
            place: crate::bus::resolve(place)?,
            subscriber: None,
            attempts: Attempts::default(),
            channels,
            microvolts: microvolts.unwrap_or(MICROVOLTS),
            rate: None,
            spikes: false,
            partials: VecDeque::new(),
            message: None,
            owed: 0,
            order: RowOrder::new(u64::MAX),
            edges: LineEdges::default(),
            counts: RigCounts::default(),
        })
    }

    /// Spikes of electrodes whose names end in 1 to `channels`, in a stream of `rate` samples per second.
    ///
    /// # Errors
    /// The errors of [`voltage`](Self::voltage), and `InvalidArgument` if the rate is not above 0.
    pub fn spikes(place: &str, channels: usize, rate: f64) -> Result<Self> {
        check_given(format_args!("openephys://{place}"), None, Some(rate))?;
        let mut rig = Self::voltage(place, channels, None)?;
        (rig.rate, rig.spikes) = (Some(rate), true);
        Ok(rig)
    }

    /// Takes the parts of a message; true if `block` was filled.
    fn put(&mut self, parts: &[Vec<u8>], block: &mut Block) -> bool {
        let header = parts
            .get(1)
            .and_then(|h| serde_json::from_slice::<Value>(h).ok());
        let Some(header) = header else {
            self.counts.malformed += 1;
            return false;
        };
        let number = header["message_num"]
            .as_u64()
            .or_else(|| header["message_no"].as_u64());
        let (Some(number), Some(kind)) = (number, header["type"].as_str()) else {
            self.counts.malformed += 1;
            return false;
        };
        match self.message {
            Some(newest) if number <= newest || number - newest > MOST_LOST => {
                // A connection keeps its order: acquisition has begun anew.
                self.order.restart(&mut self.counts);
                self.partials.clear();
                self.owed = 0;
            }
            Some(newest) if self.spikes => {
                self.owed += number - newest - 1;
                self.counts.lost += number - newest - 1;
            }
            _ => {}
        }
        self.message = Some(number);
        match (kind, self.spikes) {
            ("data", false) => {
                let body = parts.get(2).map_or(&[][..], Vec::as_slice);
                if self.put_channel(&header["content"], body).is_none() {
                    self.counts.malformed += 1;
                }
                self.give_rows(block)
            }
            ("event", _) => {
                let body = parts.get(2).map_or(&[][..], Vec::as_slice);
                if self.put_event(&header["content"], body).is_none() {
                    self.counts.malformed += 1;
                }
                false
            }
            ("spike", true) => match self.give_spike(&header["spike"], block) {
                Some(given) => given,
                None => {
                    self.counts.malformed += 1;
                    false
                }
            },
            _ => false,
        }
    }

    /// Takes a change of a digital line; `None` if the message is damaged. Lines are numbered as Open Ephys shows them, from 1.
    fn put_event(&mut self, content: &Value, body: &[u8]) -> Option<()> {
        if content["type"].as_u64()? != TTL {
            return Some(());
        }
        let row = content["sample_num"].as_u64()?;
        let [line, state, ..] = *body else {
            return None;
        };
        self.edges.push(LineEdge {
            epoch: self.order.epoch,
            row,
            line: line.checked_add(1)?,
            is_up: state != 0,
        });
        Some(())
    }

    /// Puts the samples of a channel into their block; `None` if the message is damaged.
    fn put_channel(&mut self, content: &Value, body: &[u8]) -> Option<()> {
        let channel = usize::try_from(content["channel_num"].as_u64()?).ok()?;
        let rows = usize::try_from(content["num_samples"].as_u64()?).ok()?;
        let first = content["sample_num"].as_u64()?;
        let rate = content["sample_rate"]
            .as_f64()
            .filter(|r| r.is_finite() && *r > 0.0)?;
        if !(1..=MOST_ROWS).contains(&rows) || body.len() != 4 * rows {
            return None;
        }
        if self.rate.is_none() {
            self.rate = Some(rate);
            self.order.set_rate(rate);
        }
        if self.rate != Some(rate) {
            return None;
        }
        if channel >= self.channels {
            return Some(());
        }
        let at = match self.partials.iter().position(|p| p.first == first) {
            Some(at) => at,
            None if self.partials.back().is_some_and(|p| first < p.first) => {
                // Its block was given up.
                self.counts.late += 1;
                return Some(());
            }
            None => {
                self.partials.push_back(Partial {
                    first,
                    rows,
                    present: vec![false; self.channels],
                    missing: self.channels,
                    columns: vec![0; rows * self.channels],
                    host_ns: 0,
                });
                self.partials.len() - 1
            }
        };
        let partial = &mut self.partials[at];
        if partial.rows != rows {
            return None;
        }
        if std::mem::replace(&mut partial.present[channel], true) {
            self.counts.duplicates += 1;
            return Some(());
        }
        partial.missing -= 1;
        partial.host_ns = host_ns();
        let bits = (1.0 / self.microvolts) as f32;
        let column = &mut partial.columns[channel * rows..(channel + 1) * rows];
        for (to, value) in column.iter_mut().zip(body.chunks_exact(4)) {
            let value = f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
            *to = to_bits(value, bits);
        }
        Some(())
    }

    /// Gives the oldest block, if it is whole, and gives up older ones with holes.
    fn give_rows(&mut self, block: &mut Block) -> bool {
        while self.partials.len() > 2 && self.partials[0].missing > 0 {
            self.partials.pop_front();
        }
        if self.partials.front().is_none_or(|p| p.missing > 0) {
            return false;
        }
        let Some(partial) = self.partials.pop_front() else {
            return false;
        };
        let lost = self
            .order
            .judge(partial.first, partial.rows as u64, &mut self.counts);
        let Some(lost) = lost else {
            return false;
        };
        let mut voltage = block.take_voltage();
        transpose(&partial.columns, partial.rows, self.channels, &mut voltage);
        *block = Block {
            epoch: self.order.epoch,
            first: partial.first,
            rows: partial.rows,
            host_ns: partial.host_ns,
            lost_before: Loss {
                count: lost,
                at_least: false,
            },
            samples: Samples::Voltage(voltage),
        };
        self.counts.blocks += 1;
        self.counts.rows += partial.rows as u64;
        true
    }

    /// Gives a spike; `None` if the message is damaged, false for other electrodes.
    fn give_spike(&mut self, spike: &Value, block: &mut Block) -> Option<bool> {
        let tick = (spike["sample_num"].as_u64()).or_else(|| spike["timestamp"].as_u64())?;
        let channel = channel_of(spike)?;
        if channel as usize >= self.channels {
            return Some(false);
        }
        let mut spikes = block.take_spikes();
        spikes.push(RigSpike {
            tick,
            channel,
            unit: spike["sorted_id"].as_u64().unwrap_or(0).min(255) as u8,
        });
        *block = Block {
            epoch: self.order.epoch,
            first: tick,
            rows: 0,
            host_ns: host_ns(),
            lost_before: Loss {
                count: std::mem::take(&mut self.owed),
                at_least: false,
            },
            samples: Samples::Spikes(spikes),
        };
        self.counts.blocks += 1;
        self.counts.rows += 1;
        Some(true)
    }
}

/// Writes channel-by-channel voltage row by row, in tiles that stay in the cache.
fn transpose(columns: &[i16], rows: usize, channels: usize, voltage: &mut Vec<i16>) {
    const TILE: usize = 32;
    voltage.resize(rows * channels, 0);
    for row in (0..rows).step_by(TILE) {
        for channel in (0..channels).step_by(TILE) {
            for r in row..(row + TILE).min(rows) {
                let until = (channel + TILE).min(channels);
                let to = &mut voltage[r * channels + channel..r * channels + until];
                for (c, to) in (channel..until).zip(to) {
                    *to = columns[c * rows + r];
                }
            }
        }
    }
}

impl Rig for OpenEphysRig {
    fn signal(&self) -> Option<Signal> {
        Some(Signal {
            channels: self.channels,
            rate: self.rate?,
            microvolts: Some(self.microvolts),
            clock_bits: 64,
        })
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let started = Instant::now();
        loop {
            // More than one block may have become whole at once.
            if !self.spikes && self.give_rows(block) {
                return Ok(Arrival::Block);
            }
            let left = patience.saturating_sub(started.elapsed());
            match &mut self.subscriber {
                Some(subscriber) => match subscriber.receive(left) {
                    Ok(Some(parts)) if self.put(&parts, block) => return Ok(Arrival::Block),
                    Ok(_) => {}
                    Err(e) => {
                        let damaged = e.kind() == std::io::ErrorKind::InvalidData;
                        self.counts.malformed += u64::from(damaged);
                        self.subscriber = None;
                    }
                },
                None if self.attempts.is_due(left) => {
                    self.subscriber = Subscriber::connect(self.place, CONNECT).ok();
                    if self.subscriber.is_some() {
                        self.counts.reconnects += self.attempts.succeed();
                    }
                }
                None => {}
            }
            if started.elapsed() >= patience {
                return Ok(Arrival::Nothing);
            }
        }
    }

    fn take_edges(&mut self, edges: &mut Vec<LineEdge>) {
        edges.append(&mut self.edges.waiting);
    }

    fn loss_report(&self) -> LossReport {
        match self.spikes {
            true => LossReport::Packets,
            false => LossReport::Exact,
        }
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}
