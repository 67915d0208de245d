//! Outputs published over ZeroMQ.

use betz_base::{Error, ErrorKind, Result};

use super::Publisher;
use crate::bus::plain::{self, HEADER};
use crate::bus::{Counts, Estimate, Sink, Tally};

/// The topic of outputs where no other is asked for.
pub const TOPIC: &str = "betz";
/// Most outputs that a message counts.
const MOST_OUTPUTS: usize = u16::MAX as usize;

/// Outputs to whoever subscribes: a PUB socket, bound here, that SUB sockets connect to.
///
/// One message per step, of two parts: the topic, and the plain datagram of outputs ([`udp`](crate::udp) has its table). Nothing
/// waits for a subscriber. A step that nobody subscribed to, or that one subscriber at least had no room for (1 MiB wait
/// for each), counts as unsent; those that came to somebody count as steps, too. It reads what subscribers ask for between
/// outputs: put it [on a thread of its own](crate::bus::threads).
pub struct OutputSink {
    publisher: Publisher,
    topic: Vec<u8>,
    datagram: Vec<u8>,
    tally: Tally,
}

impl OutputSink {
    /// Publishes at `place`, HOST:PORT (`*` for all of this machine's addresses), the outputs of a model of `outputs`.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no address, and more outputs than a message counts; `Io` where it cannot be bound.
    pub fn bind(place: &str, topic: &str, outputs: usize) -> Result<Self> {
        if outputs > MOST_OUTPUTS {
            return Err(Error::argument(format!(
                "messages: expected at most {MOST_OUTPUTS} outputs, got {outputs}"
            )));
        }
        let address = match place.strip_prefix('*') {
            Some(port) => crate::bus::resolve(&format!("0.0.0.0{port}"))?,
            None => crate::bus::resolve(place)?,
        };
        let publisher = Publisher::bind(address)
            .map_err(|e| Error::new(ErrorKind::Io, format!("publishing at {place}: {e}")))?;
        Ok(Self {
            publisher,
            topic: topic.as_bytes().to_vec(),
            datagram: Vec::with_capacity(HEADER + 4 * outputs),
            tally: Tally::default(),
        })
    }
}

impl Sink for OutputSink {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        plain::outputs(decoded, &mut self.datagram);
        let sent = self.publisher.send(&self.topic, &self.datagram);
        self.tally.messages.add(sent.to);
        self.tally.steps.add(u64::from(sent.to > 0));
        let unsent = sent.to == 0 || sent.without_room > 0;
        self.tally.unsent.add(u64::from(unsent));
        Ok(())
    }

    fn attend(&mut self) {
        self.tally.malformed.add(self.publisher.attend());
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}
