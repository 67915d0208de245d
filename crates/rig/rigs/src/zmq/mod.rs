//! ZeroMQ: spikes of Open Ephys in, as its plugin "ZMQ Interface" publishes them, and outputs published ([`OutputSink`]).
//!
//! A message of Open Ephys has an envelope (`EVENT` or `DATA`), a header in JSON and raw data, which is not read. The header
//! of a spike is `{"message_num": n, "type": "spike", "spike": {"sample_num": t, "electrode": "Electrode 1", …}}`; the
//! `sample_num` under a data message's `content` ends steps in silence. Times count samples. Before June 2022 the plugin
//! wrote `message_no`, `electrode_id` and `timestamp` instead: both are read. An electrode whose name ends in number N is
//! channel N − 1, because Open Ephys counts them from 1; an `electrode_id` is the channel itself. Numbers of messages tell
//! how many were lost. The source waits for a publisher that goes away.

mod publisher;
mod sink;
mod zmtp;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use betz_base::Result;
use serde_json::Value;

pub(crate) use self::publisher::Publisher;
pub use self::sink::{OutputSink, TOPIC};
#[cfg(feature = "rig")]
pub(crate) use self::zmtp::PIECE;
pub(crate) use self::zmtp::Subscriber;
use crate::bus::{Bins, Counts, Frame, Order, Reception, Source, Tally};

/// Between two attempts to reach a publisher.
const RETRY: Duration = Duration::from_millis(100);

/// Spikes of Open Ephys by channel, see the module. It waits for the publisher: put it
/// [on a thread of its own](crate::bus::threads).
pub struct EventSource {
    place: SocketAddr,
    subscriber: Option<Subscriber>,
    was_connected: bool,
    tried: Option<Instant>,
    bins: Bins,
    order: Order,
    tally: Tally,
}

impl EventSource {
    /// The publisher at `place`, HOST:PORT, whose clock counts `rate` samples per second; steps of `step_seconds`.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no address, and those of [`Bins::new`].
    pub fn new(place: &str, rate: u64, step_seconds: f64) -> Result<Self> {
        Ok(Self {
            place: crate::bus::resolve(place)?,
            subscriber: None,
            was_connected: false,
            tried: None,
            bins: Bins::new(rate, step_seconds)?,
            order: Order::default(),
            tally: Tally::default(),
        })
    }

    fn connect(&mut self, patience: Duration) {
        let left = self
            .tried
            .map_or(Duration::ZERO, |t| RETRY.saturating_sub(t.elapsed()));
        if !left.is_zero() {
            std::thread::sleep(left.min(patience));
            return;
        }
        self.tried = Some(Instant::now());
        self.subscriber = Subscriber::connect(self.place, patience.max(RETRY)).ok();
        if self.subscriber.is_some() {
            self.tally.reconnects.add(u64::from(self.was_connected));
            self.was_connected = true;
        }
    }

    /// Takes a message's header; false where it is none.
    fn put(&mut self, header: &[u8]) -> bool {
        let Ok(header) = serde_json::from_slice::<Value>(header) else {
            return false;
        };
        let number = header["message_num"].as_u64();
        if let Some(number) = number.or_else(|| header["message_no"].as_u64()) {
            // The clock tells of silence; numbers tell of losses alone.
            let mut unused = Frame::new(0);
            if !self.order.judge(number, &mut unused, &self.tally) {
                return true;
            }
        }
        match header["type"].as_str() {
            Some("spike") => {
                let spike = &header["spike"];
                let time = spike["sample_num"]
                    .as_u64()
                    .or_else(|| spike["timestamp"].as_u64());
                let (Some(time), Some(channel)) = (time, channel_of(spike)) else {
                    return false;
                };
                self.bins.put(time, Some(channel), &self.tally);
            }
            Some("data") => {
                self.tally.ignored.add(1);
                if let Some(time) = header["content"]["sample_num"].as_u64() {
                    self.bins.put(time, None, &self.tally);
                }
            }
            Some(_) => self.tally.ignored.add(1),
            None => return false,
        }
        true
    }
}

/// The channel of a spike: by the name of its electrode, or by the number that the plugin wrote before June 2022.
pub(crate) fn channel_of(spike: &Value) -> Option<u32> {
    if let Some(channel) = spike["electrode_id"].as_u64() {
        return u32::try_from(channel).ok();
    }
    let name = spike["electrode"].as_str()?;
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[digits..].parse::<u32>().ok()?.checked_sub(1)
}

impl Source for EventSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        if !self.bins.next(frame) {
            let Some(subscriber) = &mut self.subscriber else {
                self.connect(patience);
                return Ok(Reception::Nothing);
            };
            match subscriber.receive(patience) {
                Ok(Some(parts)) => {
                    self.tally.messages.add(1);
                    if !parts.get(1).is_some_and(|header| self.put(header)) {
                        self.tally.malformed.add(1);
                    }
                }
                Ok(None) => {}
                Err(_) => self.subscriber = None,
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Number and channels of each step.
    type Steps = Vec<(u64, Vec<u32>)>;

    fn steps(headers: &[&str]) -> Result<(Steps, Counts)> {
        let mut source = EventSource::new("127.0.0.1:1", 30_000, 0.02)?;
        for header in headers {
            if !source.put(header.as_bytes()) {
                source.tally.malformed.add(1);
            }
        }
        let (mut frame, mut steps) = (Frame::new(4), Vec::new());
        while source.bins.next(&mut frame) {
            steps.push((frame.sequence, frame.spikes.clone()));
        }
        Ok((steps, source.counts()))
    }

    #[test]
    fn spikes_of_both_generations_of_the_plugin_are_read() -> Result<()> {
        let expected = [(0, vec![3]), (1, vec![0])];
        let old = [
            r#"{"message_no": 1, "type": "spike", "spike": {"timestamp": 5, "electrode_id": 3}}"#,
            r#"{"message_no": 4, "type": "spike", "spike": {"timestamp": 605, "electrode_id": 0}}"#,
            r#"{"message_no": 5, "type": "data", "content": {"sample_num": 1200}}"#,
        ];
        let new = [
            r#"{"message_num": 1, "type": "spike", "spike": {"sample_num": 5, "electrode": "Electrode 4"}}"#,
            r#"{"message_num": 4, "type": "spike", "spike": {"sample_num": 605, "electrode": "Tetrode 1"}}"#,
            r#"{"message_num": 5, "type": "data", "content": {"sample_num": 1200}}"#,
        ];
        for headers in [old, new] {
            let (steps, counts) = steps(&headers)?;
            assert_eq!(steps, expected);
            assert_eq!((counts.lost, counts.malformed), (2, 0), "messages 2 and 3");
        }
        Ok(())
    }

    #[test]
    fn electrodes_without_a_number_are_malformed() -> Result<()> {
        for electrode in ["", "Probe", "Electrode 0", "Electrode 99999999999"] {
            let header = format!(
                r#"{{"message_num": 1, "type": "spike", "spike": {{"sample_num": 5, "electrode": "{electrode}"}}}}"#
            );
            assert_eq!(steps(&[&header])?.1.malformed, 1, "{electrode}");
        }
        Ok(())
    }
}
