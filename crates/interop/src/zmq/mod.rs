//! ZeroMQ: spikes of Open Ephys in, as its plugin "ZMQ Interface" publishes them, and outputs published ([`OutputSink`]).
//!
//! Of Open Ephys, a message has an envelope (`EVENT` or `DATA`), a header in JSON and raw data, which is not read. Of spikes:
//! `{"message_no": n, "type": "spike", "spike": {"sample_num" or "timestamp": t, "electrode_id": k, …}}`; of data the
//! `sample_num` under `content`, which ends steps in silence. Times count samples. A publisher that goes away is waited
//! for.

mod publisher;
mod sink;
mod zmtp;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use betz_base::Result;
use serde_json::Value;

pub use self::sink::{OutputSink, TOPIC};
use self::zmtp::Subscriber;
use crate::bus::{Bins, Counts, Frame, Order, Reception, Source, Tally};

/// Between two attempts to reach a publisher.
const RETRY: Duration = Duration::from_millis(100);

/// Spikes of Open Ephys, of electrode k to channel k. It waits for the publisher: put it
/// [on a thread of its own](crate::bus::beside).
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
    /// The publisher at `place`, HOST:PORT, whose clock counts `rate` samples a second; steps of `step_seconds`.
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
        if let Some(number) = header["message_no"].as_u64() {
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
                let channel = spike["electrode_id"]
                    .as_u64()
                    .and_then(|c| u32::try_from(c).ok());
                let (Some(time), Some(channel)) = (time, channel) else {
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
