//! Spikes of Cerebus packets, put into a model's steps.

use std::time::Duration;

use betz_base::Result;

use super::{Losses, Protocol, TICKS, pace};
use crate::bus::{Bins, Counts, Frame, Reception, Source, Tally};
use crate::udp::Receiver;

/// Spikes of Cerebus packets, all units of a channel together: channel k of the model is chid k + 1.
pub struct CerebusSource {
    receiver: Receiver,
    protocol: Protocol,
    bins: Bins,
    /// The newest time, with what a clock of 32 bits has gone round.
    newest: Option<u64>,
    /// Ticks per second of the device's clock.
    rate: u64,
    /// Times of the newest packet of each group, and of the newest heartbeat, that tell the unit.
    paces: [Option<u64>; 3],
    losses: Losses,
    tally: Tally,
}

impl CerebusSource {
    /// Listens at `address`, `HOST:PORT`, for steps of `step_seconds`.
    ///
    /// # Errors
    /// The errors of [`UdpSource::bind`](crate::udp::UdpSource::bind) and [`Bins::new`].
    pub fn bind(address: &str, protocol: Protocol, step_seconds: f64) -> Result<Self> {
        Ok(Self {
            receiver: Receiver::bind(address)?,
            protocol,
            bins: Bins::new(protocol.rate(), step_seconds)?,
            newest: None,
            rate: protocol.rate(),
            paces: [None; 3],
            losses: Losses::default(),
            tally: Tally::default(),
        })
    }

    /// Sets the spinning time as [`UdpSource::spinning`](crate::udp::UdpSource::spinning) does.
    pub fn spinning(mut self, spin: Duration) -> Self {
        self.receiver = self.receiver.spinning(spin);
        self
    }

    /// Address on which it listens.
    ///
    /// # Errors
    /// An error of the system.
    pub fn address(&self) -> Result<std::net::SocketAddr> {
        self.receiver.address()
    }

    fn put_all(&mut self, length: usize) {
        let mut at = 0;
        while at < length {
            let rest = &self.receiver.buffer[at..length];
            let Some((packet, taken)) = self.protocol.first(rest) else {
                self.tally.malformed.add(1);
                return;
            };
            let payload = &rest[self.protocol.header()..taken];
            at += taken;
            if let (Protocol::V41, Some(rate)) =
                (self.protocol, pace(&mut self.paces, &packet, payload))
                && rate != self.rate
            {
                self.rate = rate;
                self.losses = Losses::default();
                self.bins.begin_anew(&self.tally);
            }
            self.tally
                .lost
                .add(self.losses.take(&packet, payload, self.rate));
            let time = match (self.protocol, self.newest) {
                // 2³² ticks are 39.8 h.
                (Protocol::V311, Some(newest)) => {
                    let since = (packet.time as u32).wrapping_sub(newest as u32) as i32;
                    newest.saturating_add_signed(i64::from(since))
                }
                // Steps are cut in nanoseconds.
                (Protocol::V41, _) if self.rate == TICKS => {
                    let nanoseconds = u128::from(packet.time) * 100_000 / 3;
                    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
                }
                _ => packet.time,
            };
            self.newest = Some(time);
            let is_spike = (1..0x8000).contains(&packet.chid);
            if !is_spike {
                self.tally.ignored.add(1);
            }
            let channel = is_spike.then(|| u32::from(packet.chid) - 1);
            self.bins.put(time, channel, &self.tally);
        }
    }
}

impl Source for CerebusSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        if !self.bins.next(frame) {
            let Some(length) = self.receiver.receive(patience)? else {
                return Ok(Reception::Nothing);
            };
            self.tally.messages.add(1);
            self.put_all(length);
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
