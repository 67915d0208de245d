//! Changes of digital lines in the words of a recording of voltage, and the trials and marks that they mean.

use std::fmt;
use std::str::FromStr;

use betz_base::error::{Error, Result};

use super::live::{SessionParts, SessionTrial};
use crate::voltage::{StreamKind, VoltageStream};

/// Lines of a word, and most lines of a stream.
const WORD_LINES: usize = 16;
const MOST_LINES: usize = 64;
/// Use of a line that begins a trial when it goes up, and ends it when it goes down.
const TRIAL: &str = "trial";

/// A use of a digital line: `[STREAM:]LINE=TEXT`, such as `1=trial` or `nidq-SYNC:2=reward`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineUse {
    /// Name of the stream; `None`: the only one with digital words.
    pub stream: Option<String>,
    /// Number of the line, from 1: bit 0 of the stream's first word is line 1, bit 0 of its second word line 17.
    pub line: u8,
    /// `trial`, which begins when the line goes up and ends when it goes down, or the text of a mark when it goes up.
    pub text: String,
}

impl FromStr for LineUse {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(place, text)| {
            let (stream, line) = match place.rsplit_once(':') {
                Some((stream, line)) => (Some(stream.to_owned()), line),
                None => (None, place),
            };
            let line = line.parse().ok()?;
            let is_whole = (1..=MOST_LINES).contains(&usize::from(line))
                && !text.is_empty()
                && stream.as_deref() != Some("");
            is_whole.then(|| Self {
                stream,
                line,
                text: text.to_owned(),
            })
        });
        parsed.ok_or_else(|| {
            format!(
                "expected [STREAM:]LINE=TEXT with a line of 1 to {MOST_LINES}, such as 1=trial, got {text:?}"
            )
        })
    }
}

impl fmt::Display for LineUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stream) = &self.stream {
            write!(f, "{stream}:")?;
        }
        write!(f, "{}={}", self.line, self.text)
    }
}

/// A change of a line.
struct Change {
    seconds: f64,
    /// Number of the use among all.
    of: usize,
    is_up: bool,
}

/// The used lines of the streams that are written.
pub(super) struct Lines<'a> {
    uses: &'a [LineUse],
    /// Stream of each use, by its number and its name.
    streams: Vec<(usize, &'a str)>,
    /// Newest state of the lines of each stream; `None` before its first row.
    states: Vec<Option<u64>>,
    changes: Vec<Change>,
}

impl<'a> Lines<'a> {
    /// # Errors
    /// `InvalidArgument` for a stream or a line that is not there, and for trials of two lines.
    pub(super) fn new(uses: &'a [LineUse], streams: &[&'a VoltageStream]) -> Result<Self> {
        let mut trials = uses.iter().filter(|of| of.text == TRIAL);
        if let (Some(first), Some(second)) = (trials.next(), trials.next()) {
            return Err(Error::argument(format!(
                "lines: expected one line of trials, got {first} and {second}"
            )));
        }
        let place = |of: &LineUse| {
            let digital = (streams.iter().enumerate())
                .filter(|(_, stream)| stream.kind == StreamKind::Sync)
                .filter(|(_, stream)| of.stream.as_ref().is_none_or(|name| *name == stream.name));
            let digital: Vec<_> = digital.collect();
            let [(number, stream)] = digital[..] else {
                let words = streams.iter().filter(|s| s.kind == StreamKind::Sync);
                let names: Vec<&str> = words.map(|stream| stream.name.as_str()).collect();
                return Err(Error::argument(format!(
                    "line {of}: expected a stream with digital words, one of \"{}\", got {}",
                    names.join("\", \""),
                    match &of.stream {
                        Some(name) => format!("{name:?}"),
                        None => "none".into(),
                    }
                )));
            };
            let lines = (WORD_LINES * stream.channels.len()).min(MOST_LINES);
            match usize::from(of.line) <= lines {
                true => Ok((number, stream.name.as_str())),
                false => Err(Error::argument(format!(
                    "line {of}: expected a line of 1 to {lines} of {}, got {}",
                    stream.name, of.line
                ))),
            }
        };
        Ok(Self {
            uses,
            streams: uses.iter().map(place).collect::<Result<_>>()?,
            states: vec![None; streams.len()],
            changes: Vec::new(),
        })
    }

    /// Takes rows of words of the stream with this number, whose first row in a piece without a gap is at `seconds`.
    pub(super) fn take(
        &mut self,
        stream: usize,
        words: usize,
        rows: &[i16],
        seconds: impl Fn(usize) -> f64,
    ) {
        if !self.streams.iter().any(|(of, _)| *of == stream) {
            return;
        }
        let mut before = self.states[stream];
        for (row, words) in rows.chunks_exact(words).enumerate() {
            let heard = words.iter().take(MOST_LINES / WORD_LINES).rev();
            let state = heard.fold(0, |state, word| {
                state << WORD_LINES | u64::from(*word as u16)
            });
            let changed = before.map_or(0, |before| before ^ state);
            before = Some(state);
            if changed == 0 {
                continue;
            }
            for (of, (use_of, (at, _))) in self.uses.iter().zip(&self.streams).enumerate() {
                let bit = use_of.line - 1;
                if *at == stream && changed >> bit & 1 == 1 {
                    self.changes.push(Change {
                        seconds: seconds(row),
                        of,
                        is_up: state >> bit & 1 == 1,
                    });
                }
            }
        }
        self.states[stream] = before;
    }

    /// The changes, and what they mean, for the file. A trial that has not ended is none.
    pub(super) fn into_parts(mut self) -> SessionParts<'static> {
        (self.changes).sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let mut parts = SessionParts::default();
        let mut begun = None;
        for change in &self.changes {
            let (of, (_, stream)) = (&self.uses[change.of], self.streams[change.of]);
            let way = if change.is_up { "up" } else { "down" };
            let text = format!("{stream}/{} {way}", of.line);
            parts.lines.push((change.seconds, text));
            match (of.text.as_str(), change.is_up) {
                (TRIAL, true) => begun = Some(change.seconds),
                (TRIAL, false) => parts.trials.extend(begun.take().map(|start| SessionTrial {
                    start,
                    stop: change.seconds,
                    learn: true,
                })),
                (text, true) => parts.marks.push((change.seconds, text.to_owned())),
                (_, false) => {}
            }
        }
        parts
    }
}
