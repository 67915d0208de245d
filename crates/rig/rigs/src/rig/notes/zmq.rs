//! Labels, marks and trials from a ZeroMQ publisher.

use std::net::SocketAddr;
use std::time::Duration;

use betz_base::Result;

use super::{Note, NoteContent};
use crate::bus::plain::MAGIC;
use crate::rig::host_ns;
use crate::rig::tcp::Attempts;
use crate::zmq::Subscriber;

/// Time that connecting may take.
const CONNECT: Duration = Duration::from_millis(500);

/// A subscription to a task program. The last part of each message is a note: a plain datagram, or a text as of a marker; parts
/// before it are its topic. A publisher that is not there, or goes away, is waited for.
pub(super) struct ZmqNotes {
    place: SocketAddr,
    subscriber: Option<Subscriber>,
    attempts: Attempts,
}

impl ZmqNotes {
    /// The publisher at `place`, `HOST:PORT`.
    pub(super) fn new(place: &str) -> Result<Self> {
        Ok(Self {
            place: crate::bus::resolve(place)?,
            subscriber: None,
            attempts: Attempts::default(),
        })
    }

    pub(super) fn take(&mut self, patience: Duration, malformed: &mut u64) -> Result<Option<Note>> {
        let Some(subscriber) = &mut self.subscriber else {
            if self.attempts.is_due(patience) {
                self.subscriber = Subscriber::connect(self.place, CONNECT).ok();
                if self.subscriber.is_some() {
                    self.attempts.succeed();
                }
            }
            return Ok(None);
        };
        let Ok(parts) = subscriber.receive(patience) else {
            self.subscriber = None;
            return Ok(None);
        };
        let note = parts.as_ref().map(|parts| note_of(parts, host_ns()));
        if note == Some(None) {
            *malformed += 1;
        }
        Ok(note.flatten())
    }
}

/// The note in the last part of a message.
fn note_of(parts: &[Vec<u8>], host_ns: i64) -> Option<Note> {
    let body = parts.last()?;
    if body.starts_with(&MAGIC) {
        return Note::parse(body, host_ns);
    }
    let text = std::str::from_utf8(body).ok()?;
    Some(Note {
        step: None,
        sent: 0,
        host_ns,
        content: NoteContent::of_marker(text),
    })
}

#[cfg(all(test, feature = "emulate"))]
mod tests {
    use super::*;
    use crate::rig::emulate::FREE_PORT;
    use crate::rig::emulate::publication::Publication;

    #[test]
    fn messages_are_notes() -> Result<()> {
        let publication = Publication::bind("a task program", FREE_PORT)?;
        let mut notes =
            super::super::NoteReceiver::open(&format!("zmq://{}", publication.address()))?;
        while !publication.is_connected() {
            notes.take(Duration::from_millis(10))?;
        }
        let label = Note {
            step: Some(7),
            sent: -5,
            host_ns: 0,
            content: NoteContent::Label(vec![0.5, -1.0]),
        };
        let datagram = label.to_bytes();
        publication.publish(&[&datagram])?;
        publication.publish(&[b"task", b"trial end"])?;
        publication.publish(&[b"task", &datagram[..20]])?;
        publication.publish(&[&[0xff, 0xfe]])?;
        publication.publish(&["reward é".as_bytes()])?;
        let mut taken = Vec::new();
        while taken.len() < 3 {
            taken.extend(notes.take(Duration::from_secs(5))?);
        }
        assert_eq!((taken[0].step, taken[0].sent), (Some(7), -5));
        let contents: Vec<_> = taken.into_iter().map(|note| note.content).collect();
        let expected = [
            label.content,
            NoteContent::TrialEnd,
            NoteContent::Mark("reward é".into()),
        ];
        assert_eq!(contents, expected);
        assert_eq!((notes.notes, notes.malformed), (3, 2));
        Ok(())
    }
}
