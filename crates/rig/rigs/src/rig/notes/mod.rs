//! Labels, marks and trials from a bus: contents 5 to 7 of the plain datagram, the markers of an LSL stream, messages of a ZeroMQ
//! publisher, or entries of a Redis stream.
//!
//! | content | entries (bytes 6–7) | bytes 8–15 | bytes 32– |
//! |---|---|---|---|
//! | 5 label | outputs | number of the step that the label is for; 2⁶⁴ − 1: the sender does not know | f32 per output |
//! | 6 mark | bytes of the text | as above | UTF-8 |
//! | 7 trial | 1 | as above | u16: 1 begins, 2 ends, 3 ends and is not to be learned from |
//!
//! Bytes 16–23 are the sender's time, i64 in ns; 24–31 are 0. These datagrams have no numbers of their own, so that
//! their losses cannot be told.

mod zmq;

use std::time::Duration;

use betz_base::{Error, Result};

use self::zmq::ZmqNotes;
use super::host_ns;
use crate::brand::notes::RedisNotes;
use crate::bus::plain::{HEADER, MAGIC, VERSION};
use crate::lsl::notes::LslMarkers;
use crate::udp::{Receiver, word};

/// Bytes of the system's buffer of datagrams that are asked for: labels come step by step, and their thread may wait for others.
const BUFFER: usize = 4 << 20;
const LABEL: u8 = 5;
const MARK: u8 = 6;
const TRIAL: u8 = 7;

/// Content of a note.
#[derive(Debug, Clone, PartialEq)]
pub enum NoteContent {
    /// The true outputs of a step.
    Label(Vec<f32>),
    /// A text, for the recording.
    Mark(String),
    /// A trial begins.
    TrialBegin,
    /// A trial ends.
    TrialEnd,
    /// A trial ends and is not to be learned from.
    TrialReject,
}

/// A label, a mark, or the begin or end of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// Number of the step that it belongs to, if the sender knows.
    pub step: Option<u64>,
    /// The sender's time in nanoseconds of its own clock.
    pub sent: i64,
    /// Arrival in nanoseconds, see [`host_ns`].
    pub host_ns: i64,
    /// Content.
    pub content: NoteContent,
}

impl Note {
    /// The datagram of a note.
    pub fn to_bytes(&self) -> Vec<u8> {
        let trial = |what: u16| (TRIAL, 1, what.to_le_bytes().to_vec());
        let (content, entries, body) = match &self.content {
            NoteContent::Label(values) => {
                let body = values.iter().flat_map(|v| v.to_le_bytes());
                (LABEL, values.len(), body.collect())
            }
            NoteContent::Mark(text) => (MARK, text.len(), text.as_bytes().to_vec()),
            NoteContent::TrialBegin => trial(1),
            NoteContent::TrialEnd => trial(2),
            NoteContent::TrialReject => trial(3),
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, content]);
        bytes.extend((entries as u16).to_le_bytes());
        bytes.extend(self.step.unwrap_or(u64::MAX).to_le_bytes());
        bytes.extend(self.sent.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes
    }

    /// The note in a datagram; `None` if it holds none.
    pub fn parse(datagram: &[u8], host_ns: i64) -> Option<Self> {
        if datagram.len() < HEADER || datagram[..4] != MAGIC || datagram[4] != VERSION {
            return None;
        }
        let entries = usize::from(u16::from_le_bytes(word(datagram, 6)));
        let body = &datagram[HEADER..];
        let content = match datagram[5] {
            LABEL if body.len() == 4 * entries && entries > 0 => {
                let values = body.chunks_exact(4).map(|b| f32::from_le_bytes(word(b, 0)));
                NoteContent::Label(values.collect())
            }
            MARK if body.len() == entries => {
                NoteContent::Mark(std::str::from_utf8(body).ok()?.into())
            }
            TRIAL if body.len() == 2 && entries == 1 => match u16::from_le_bytes(word(body, 0)) {
                1 => NoteContent::TrialBegin,
                2 => NoteContent::TrialEnd,
                3 => NoteContent::TrialReject,
                _ => return None,
            },
            _ => return None,
        };
        let step = u64::from_le_bytes(word(datagram, 8));
        Some(Self {
            step: (step != u64::MAX).then_some(step),
            sent: i64::from_le_bytes(word(datagram, 16)),
            host_ns,
            content,
        })
    }
}

/// Receives notes in datagrams, or from a bus.
pub struct NoteReceiver {
    from: NoteSource,
    /// Notes received.
    pub notes: u64,
    /// Datagrams, messages and entries that hold none.
    pub malformed: u64,
}

enum NoteSource {
    Datagrams(Receiver),
    Markers(LslMarkers),
    Messages(ZmqNotes),
    Entries(RedisNotes),
}

impl NoteReceiver {
    /// Opens an address: `udp://HOST:PORT`, at which it listens for datagrams; `lsl://NAME`, a stream of markers;
    /// `zmq://HOST:PORT`, a publisher; `redis://HOST:PORT/STREAM` or `redis:///SOCKET?stream=NAME`, a Redis stream. Peers that are
    /// not there yet, or go away, are waited for.
    ///
    /// # Errors
    /// `InvalidArgument` for another address; `Io` if it cannot be bound, or without liblsl.
    pub fn open(address: &str) -> Result<Self> {
        match address.split_once("://") {
            Some(("udp", place)) => Self::bind(place),
            Some(("lsl", name)) if !name.is_empty() => {
                Ok(Self::over(NoteSource::Markers(LslMarkers::named(name)?)))
            }
            Some(("zmq", place)) => Ok(Self::over(NoteSource::Messages(ZmqNotes::new(place)?))),
            Some(("redis", place)) => Ok(Self::over(NoteSource::Entries(RedisNotes::new(place)?))),
            _ => Err(Error::argument(format!(
                "\"{address}\": expected udp://HOST:PORT, lsl://NAME, zmq://HOST:PORT or redis://HOST:PORT/STREAM"
            ))),
        }
    }

    /// Listens at `address`, `HOST:PORT`.
    ///
    /// # Errors
    /// `InvalidArgument` if `address` cannot be parsed, `Io` if it cannot be bound.
    pub fn bind(address: &str) -> Result<Self> {
        let receiver = Receiver::bind(address)?.counting_drops();
        // A system that gives less drops more, which is counted.
        receiver.buffering(BUFFER);
        Ok(Self::over(NoteSource::Datagrams(receiver)))
    }

    fn over(from: NoteSource) -> Self {
        Self {
            from,
            notes: 0,
            malformed: 0,
        }
    }

    /// Address on which it listens.
    ///
    /// # Errors
    /// An error of the system; `InvalidArgument` for a bus, which has none.
    pub fn address(&self) -> Result<std::net::SocketAddr> {
        match &self.from {
            NoteSource::Datagrams(receiver) => receiver.address(),
            _ => Err(Error::argument(
                "address: expected a receiver of datagrams, got one of a bus",
            )),
        }
    }

    /// Number of datagrams that the system has dropped because its buffer was full, where it tells.
    pub fn dropped(&self) -> u64 {
        match &self.from {
            NoteSource::Datagrams(receiver) => receiver.dropped(),
            _ => 0,
        }
    }

    /// Waits at most `patience` for the next note.
    ///
    /// # Errors
    /// An error of the system, or of liblsl.
    pub fn take(&mut self, patience: Duration) -> Result<Option<Note>> {
        let note = match &mut self.from {
            NoteSource::Markers(markers) => markers.take(patience)?,
            NoteSource::Messages(messages) => messages.take(patience, &mut self.malformed)?,
            NoteSource::Entries(entries) => entries.take(patience, &mut self.malformed)?,
            NoteSource::Datagrams(receiver) => {
                let Some(length) = receiver.receive(patience)? else {
                    return Ok(None);
                };
                let note = Note::parse(&receiver.buffer[..length], host_ns());
                self.malformed += u64::from(note.is_none());
                note
            }
        };
        self.notes += u64::from(note.is_some());
        Ok(note)
    }
}

impl NoteContent {
    /// The content of a marker: `trial begin`, `trial end` and `trial reject` in any case, `label` before one number per output;
    /// anything else is a mark.
    pub fn of_marker(text: &str) -> Self {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let mark = || Self::Mark(text.to_owned());
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["trial", bound] => Self::of_trial(bound).unwrap_or_else(mark),
            ["label", ref numbers @ ..] => Self::of_numbers(numbers).unwrap_or_else(mark),
            _ => mark(),
        }
    }

    /// The bound of a trial: `begin`, `end` or `reject`.
    pub(crate) fn of_trial(bound: &str) -> Option<Self> {
        match bound {
            "begin" => Some(Self::TrialBegin),
            "end" => Some(Self::TrialEnd),
            "reject" => Some(Self::TrialReject),
            _ => None,
        }
    }

    /// A label of numbers, of which there is at least one.
    pub(crate) fn of_numbers(numbers: &[&str]) -> Option<Self> {
        let values: Option<Vec<f32>> = numbers.iter().map(|n| n.parse().ok()).collect();
        values.filter(|values| !values.is_empty()).map(Self::Label)
    }
}

#[cfg(all(test, feature = "emulate"))]
mod tests {
    use super::*;
    use crate::rig::emulate::Sender;

    #[test]
    fn notes_come_back_as_they_went_and_cut_ones_do_not() {
        let contents = [
            NoteContent::Label(vec![1.0, -2.5]),
            NoteContent::Mark("reward é".into()),
            NoteContent::TrialBegin,
            NoteContent::TrialEnd,
            NoteContent::TrialReject,
        ];
        for (content, step) in contents
            .into_iter()
            .zip([Some(7), None, None, Some(0), Some(9)])
        {
            let note = Note {
                step,
                sent: -3,
                host_ns: 11,
                content,
            };
            let bytes = note.to_bytes();
            assert_eq!(Note::parse(&bytes, 11), Some(note));
            for cut in 0..bytes.len() {
                assert_eq!(Note::parse(&bytes[..cut], 11), None);
            }
        }
        let mut mark = Note {
            step: None,
            sent: 0,
            host_ns: 0,
            content: NoteContent::Mark("ab".into()),
        }
        .to_bytes();
        mark[HEADER] = 0xff;
        assert_eq!(Note::parse(&mark, 0), None, "no UTF-8");
    }

    #[test]
    fn texts_are_labels_trials_and_marks() {
        let label = |values: &[f32]| NoteContent::Label(values.to_vec());
        let mark = |text: &str| NoteContent::Mark(text.into());
        for (text, content) in [
            ("label 0.5 -2", label(&[0.5, -2.0])),
            ("Label 1e-3", label(&[1e-3])),
            ("label", mark("label")),
            ("label x", mark("label x")),
            ("trial begin", NoteContent::TrialBegin),
            ("TRIAL reject", NoteContent::TrialReject),
            ("trial begin now", mark("trial begin now")),
            ("0.5", mark("0.5")),
        ] {
            assert_eq!(NoteContent::of_marker(text), content, "{text}");
        }
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        for address in [
            "tcp://a:1",
            "zmq://nowhere",
            "redis://127.0.0.1:6379",
            "redis://127.0.0.1:6379/",
            "redis:///run/redis.sock",
            "redis:///run/redis.sock?stream=",
        ] {
            let refused = NoteReceiver::open(address).err().map(|e| e.kind());
            assert_eq!(
                refused,
                Some(betz_base::ErrorKind::InvalidArgument),
                "{address}"
            );
        }
    }

    #[test]
    fn a_receiver_counts_what_is_no_note() -> Result<()> {
        let mut notes = NoteReceiver::bind("127.0.0.1:0")?;
        let sender = Sender::new(&notes.address()?.to_string())?;
        let begin = Note {
            step: Some(1),
            sent: 2,
            host_ns: 0,
            content: NoteContent::TrialBegin,
        };
        for bytes in [b"BETZ".to_vec(), begin.to_bytes()] {
            sender.send(&bytes)?;
        }
        assert_eq!(notes.take(Duration::from_secs(5))?, None);
        let note = notes.take(Duration::from_secs(5))?;
        assert_eq!(note.map(|n| n.content), Some(NoteContent::TrialBegin));
        assert_eq!((notes.notes, notes.malformed), (1, 1));
        Ok(())
    }
}
