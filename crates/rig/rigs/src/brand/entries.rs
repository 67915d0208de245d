//! The entries of a node's input stream, in their order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use betz_base::Result;

use super::resp::{Connection, Refusal, Reply};
use super::{Place, RETRY};
use crate::bus::Tally;

/// Entries of the input stream of a node, which tells the graph how it is.
pub(crate) struct Entries {
    place: Place,
    connection: Option<Connection>,
    was_connected: bool,
    tried: Option<Instant>,
    input: String,
    /// The last entry that was read.
    last: Vec<u8>,
    /// Entries that the stream had been given before the first of ours, and how many of ours came.
    base: Option<i64>,
    entries: i64,
    /// Entries that Redis let go before they were read, told so far.
    told: u64,
    waiting: VecDeque<Reply>,
    pub(crate) tally: Tally,
}

impl Entries {
    /// The entries of the node at `place`; connects with the first.
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            connection: None,
            was_connected: false,
            tried: None,
            input: String::new(),
            last: b"0-0".to_vec(),
            base: None,
            entries: 0,
            told: 0,
            waiting: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// True if the next entry has been read already.
    #[cfg(feature = "rig")]
    pub(crate) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The names and values of the next entry, for which it waits at most `patience`.
    ///
    /// # Errors
    /// `Io` if Redis was never reached; `InvalidArgument` if the graph has no such node.
    pub(crate) fn next(&mut self, patience: Duration) -> Result<Option<Reply>> {
        if self.waiting.is_empty() {
            if !self.connect(patience)? {
                return Ok(None);
            }
            if self.read(patience).is_err() {
                self.connection = None;
            }
        }
        let Some(entry) = self.waiting.pop_front() else {
            return Ok(None);
        };
        self.tally.messages.add(1);
        Ok(Some(match entry {
            Reply::List(mut parts) if parts.len() == 2 => parts.swap_remove(1),
            _ => Reply::Nil,
        }))
    }

    /// Connects, or says why not; a Redis that was there before is waited for.
    fn connect(&mut self, patience: Duration) -> Result<bool> {
        if self.connection.is_some() {
            return Ok(true);
        }
        if let Some(tried) = self.tried {
            let left = RETRY.saturating_sub(tried.elapsed());
            std::thread::sleep(left.min(patience));
            if left > patience {
                return Ok(false);
            }
        }
        self.tried = Some(Instant::now());
        match self.begin() {
            Ok(connection) => {
                self.connection = Some(connection);
                self.tally.reconnects.add(u64::from(self.was_connected));
                self.was_connected = true;
                Ok(true)
            }
            Err(_) if self.was_connected => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn begin(&mut self) -> Result<Connection> {
        let mut connection = self.place.connect()?;
        let io = |e| self.place.io(&e);
        self.place
            .say(&mut connection, "0", "NODE_STARTED")
            .map_err(io)?;
        if !self.was_connected {
            self.input = self.place.parameter(&mut connection, "input_stream")?;
            self.last = connection.newest_entry(&self.input).map_err(io)?;
        }
        // A stream that Redis has lost begins at 0 again.
        let (added, _) = added(&mut connection, &self.input)
            .map_err(io)?
            .unwrap_or((0, Vec::new()));
        if self.base.is_none_or(|base| added < base + self.entries) {
            (self.base, self.entries) = (Some(if self.was_connected { 0 } else { added }), 0);
            self.told = 0;
        }
        self.place
            .say(&mut connection, "0", "NODE_READY")
            .map_err(io)?;
        Ok(connection)
    }

    /// Reads what is there, or waits for it.
    fn read(&mut self, patience: Duration) -> std::io::Result<()> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        match connection.next_entries(&self.input, &mut self.last, patience)? {
            Ok(entries) if !entries.is_empty() => {
                self.entries += entries.len() as i64;
                self.waiting.extend(entries);
            }
            Ok(_) => {
                // All is read: what was added and never came was let go before.
                if let Some((added, newest)) = added(connection, &self.input)?
                    && newest == self.last
                    && let Some(base) = self.base
                {
                    let lost = u64::try_from(added - base - self.entries).unwrap_or(0);
                    self.tally.lost.add(lost.saturating_sub(self.told));
                    self.told = lost.max(self.told);
                }
            }
            Err(Refusal) => {
                self.tally.malformed.add(1);
                std::thread::sleep(patience);
            }
        }
        Ok(())
    }
}

/// Entries that a stream was ever given and the newest one's name; none where there is no such stream, or the server
/// does not say (before Redis 7).
fn added(connection: &mut Connection, stream: &str) -> std::io::Result<Option<(i64, Vec<u8>)>> {
    let info = connection.ask(&[b"XINFO", b"STREAM", stream.as_bytes()])?;
    let added = info.get("entries-added").and_then(Reply::number);
    let newest = info.get("last-generated-id").map(|id| id.bytes().to_vec());
    Ok(added.zip(newest))
}

impl Drop for Entries {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.connection {
            // Whoever is gone cannot be told.
            let _ = self.place.say(connection, "0", "NODE_SHUTDOWN");
        }
    }
}
