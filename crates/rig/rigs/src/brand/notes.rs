//! Labels, marks and trials from a Redis stream.
//!
//! | field of an entry | value |
//! |---|---|
//! | `label` | a number per output, with blanks or commas between |
//! | `mark` | a text |
//! | `trial` | `begin`, `end` or `reject` |
//! | `step` | the number of the step that these belong to, if the program knows it |
//! | `ts` | the program's time in nanoseconds: decimals, or 8 bytes as BRAND's nodes write them |

use std::collections::VecDeque;
use std::time::Duration;

use betz_base::{Error, Result};

use super::resp::{Connection, Reply};
use crate::clock::host_ns;
use crate::rig::notes::{Note, NoteContent};
use crate::rig::tcp::Attempts;

/// The entries of a stream from the first connection on. A Redis that is not there, or goes away, is waited for; entries that it
/// is given meanwhile come when it is back.
pub(crate) struct RedisNotes {
    redis: String,
    stream: String,
    connection: Option<Connection>,
    attempts: Attempts,
    /// The newest entry that was read; empty before the first connection.
    last: Vec<u8>,
    waiting: VecDeque<Note>,
}

impl RedisNotes {
    /// The stream at `place`, `HOST:PORT/STREAM` or `/SOCKET?stream=NAME`.
    pub(crate) fn new(place: &str) -> Result<Self> {
        let parts = match place.starts_with('/') {
            true => place.split_once("?stream="),
            false => place.split_once('/'),
        };
        let Some((redis, stream)) =
            parts.filter(|(redis, stream)| !redis.is_empty() && !stream.is_empty())
        else {
            return Err(Error::argument(format!(
                "\"redis://{place}\": expected redis://HOST:PORT/STREAM or redis:///SOCKET?stream=NAME"
            )));
        };
        Ok(Self {
            redis: redis.to_owned(),
            stream: stream.to_owned(),
            connection: None,
            attempts: Attempts::default(),
            last: Vec::new(),
            waiting: VecDeque::new(),
        })
    }

    pub(crate) fn take(&mut self, patience: Duration, malformed: &mut u64) -> Result<Option<Note>> {
        if self.waiting.is_empty() {
            if self.connection.is_none() && self.attempts.is_due(patience) {
                self.connection = self.connect().ok();
                if self.connection.is_some() {
                    self.attempts.succeed();
                }
            }
            if self.connection.is_some() && self.read(patience, malformed).is_err() {
                self.connection = None;
            }
        }
        Ok(self.waiting.pop_front())
    }

    fn connect(&mut self) -> std::io::Result<Connection> {
        let mut connection = Connection::open(&self.redis)?;
        if self.last.is_empty() {
            self.last = connection.newest_entry(&self.stream)?;
        }
        Ok(connection)
    }

    /// Reads the entries that are there, or waits for one.
    fn read(&mut self, patience: Duration, malformed: &mut u64) -> std::io::Result<()> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let Ok(entries) = connection.next_entries(&self.stream, &mut self.last, patience)? else {
            *malformed += 1;
            std::thread::sleep(patience);
            return Ok(());
        };
        let now = host_ns();
        for entry in entries {
            match entry.list().get(1).and_then(|fields| notes_of(fields, now)) {
                Some(notes) => self.waiting.extend(notes),
                None => *malformed += 1,
            }
        }
        Ok(())
    }
}

/// The notes of an entry's fields; `None` if there are none, or a field does not make sense.
fn notes_of(fields: &Reply, host_ns: i64) -> Option<Vec<Note>> {
    let text = |name: &str| match fields.get(name) {
        Some(value) => std::str::from_utf8(value.bytes()).ok().map(Some),
        None => Some(None),
    };
    let step = match text("step")? {
        Some(step) => Some(step.trim().parse().ok()?),
        None => None,
    };
    let sent = match fields.get("ts").map(Reply::bytes) {
        None => 0,
        Some(ts) => match (<[u8; 8]>::try_from(ts), std::str::from_utf8(ts)) {
            (_, Ok(ts)) if ts.trim().parse::<i64>().is_ok() => ts.trim().parse().ok()?,
            (Ok(ts), _) => i64::from_le_bytes(ts),
            _ => return None,
        },
    };
    let mut contents = Vec::new();
    if let Some(label) = text("label")? {
        let numbers: Vec<&str> = (label.split([' ', ',', '\t']))
            .filter(|n| !n.is_empty())
            .collect();
        contents.push(NoteContent::of_numbers(&numbers)?);
    }
    if let Some(mark) = text("mark")? {
        contents.push(NoteContent::Mark(mark.to_owned()));
    }
    if let Some(trial) = text("trial")? {
        contents.push(NoteContent::of_trial(&trial.trim().to_lowercase())?);
    }
    let note = |content| Note {
        step,
        sent,
        host_ns,
        content,
    };
    (!contents.is_empty()).then(|| contents.into_iter().map(note).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(fields: &[(&str, &[u8])]) -> Option<Vec<Note>> {
        let texts = fields
            .iter()
            .flat_map(|(name, value)| [name.as_bytes().to_vec(), value.to_vec()]);
        notes_of(&Reply::List(texts.map(Reply::Text).collect()), 3)
    }

    #[test]
    fn entries_are_notes_or_refused() {
        let note = |step, sent, content| Note {
            step,
            sent,
            host_ns: 3,
            content,
        };
        let label = NoteContent::Label(vec![0.5, -2.0]);
        assert_eq!(
            notes(&[("label", b"0.5, -2"), ("step", b"7"), ("trial", b"End")]),
            Some(vec![
                note(Some(7), 0, label),
                note(Some(7), 0, NoteContent::TrialEnd)
            ])
        );
        let mark = |sent| Some(vec![note(None, sent, NoteContent::Mark("go".into()))]);
        assert_eq!(notes(&[("mark", b"go"), ("ts", b"-12")]), mark(-12));
        let bytes = (1_i64 << 40).to_le_bytes();
        assert_eq!(notes(&[("ts", &bytes), ("mark", b"go")]), mark(1 << 40));
        for odd in [
            &[("ts", &b"12"[..])][..],
            &[("label", b"")],
            &[("label", b"a")],
            &[("mark", b"\xff")],
            &[("mark", b"go"), ("step", b"-1")],
            &[("mark", b"go"), ("ts", b"\xff\xff")],
            &[("trial", b"begins")],
            &[("other", b"1")],
        ] {
            assert_eq!(notes(odd), None, "{odd:?}");
        }
    }
}
