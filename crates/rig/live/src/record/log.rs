//! The log of a recording: a line of JSON per event in `log.jsonl`, for people and programs that look for what went wrong.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use betz_runtime::stream::StepStatus;
use serde::Serialize;

use super::frame::{self, HEAD, Head, Kind};

/// Name of the file in the recording's folder.
const NAME: &str = "log.jsonl";
/// Lines per second of one kind of event; more are counted.
const MOST: u64 = 10;
const SECOND: i64 = 1_000_000_000;
/// Bytes of lines that wait for a disk without room; more are lost.
const ROOM: usize = 1 << 20;
/// Flags of steps whose changes are events.
const FLAGS: StepStatus = StepStatus::from_bits(
    StepStatus::NON_FINITE.bits()
        | StepStatus::BLANKED.bits()
        | StepStatus::HELD.bits()
        | StepStatus::AT_REST.bits()
        | StepStatus::CHANNELS.bits()
        | StepStatus::UNTRUSTED.bits(),
);

/// An event that no other frame tells, as it is written to the log.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum LogEvent<'a> {
    /// A source has sent nothing for a second.
    Silent { source: &'a str },
    /// A source that was silent sends again.
    Back { source: &'a str },
    /// A source has ended with an error.
    Failed { source: &'a str, error: &'a str },
    /// Messages that could not be read or that this host dropped, and connections made again, so far.
    Source {
        source: &'a str,
        malformed: u64,
        dropped_by_host: u64,
        reconnects: u64,
    },
    /// Rows of a source pass at another rate than it says.
    Rate {
        source: &'a str,
        declared: f64,
        measured: f64,
    },
    /// Two sources are farther from each other than the plan allows, by a line that both hear; or no longer, with `is_beyond` false.
    SharedLine {
        offset_us: f64,
        error_us: f64,
        is_beyond: bool,
    },
    /// Labels that were left out so far: of another width or not finite; too late; far outside the range of training.
    Labels { odd: u64, late: u64, outliers: u64 },
    /// Decisions of the online trainer so far.
    Trainer {
        accepted: u64,
        refused: u64,
        rolled_back: u64,
        unstored: u64,
        dead: bool,
    },
    /// State of the recalibration without labels.
    Recalibration {
        suggested: bool,
        applied: bool,
        roll_back: bool,
        dead: bool,
    },
    /// Outputs that could not be sent to an address so far.
    Unsent { to: &'a str, outputs: u64 },
    /// Share of the recorder's buffer that a slow disk fills.
    SlowDisk { fill: f64 },
}

/// State of the disk that is recorded to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Disk {
    /// The disk has room.
    #[default]
    Room,
    /// It is full: voltage is left out, and everything else is recorded in the reserve.
    KeepsSmall,
    /// It is full, and nothing more is recorded.
    Full,
}

/// Lines of one kind in the newest second with any.
#[derive(Default)]
struct KindCount {
    second: i64,
    lines: u64,
    left_out: u64,
}

/// The writer's end of a log.
pub(super) struct Log {
    file: Option<File>,
    /// Lines that are not in the file yet.
    text: Vec<u8>,
    kinds: BTreeMap<String, KindCount>,
    /// The step after the newest one.
    step: u64,
    flags: StepStatus,
    newest_ns: i64,
    /// Time of the newest line.
    told_ns: i64,
}

impl Log {
    /// The log of the recording in `folder`, behind the lines that it has. A folder that takes no log has none.
    pub(super) fn open(folder: &Path) -> Self {
        let mut options = File::options();
        let opened = options.read(true).append(true).create(true);
        let mut log = Self {
            file: opened.open(folder.join(NAME)).ok(),
            text: Vec::new(),
            kinds: BTreeMap::new(),
            step: 0,
            flags: StepStatus::OK,
            newest_ns: 0,
            told_ns: 0,
        };
        if log.file.as_mut().is_some_and(is_torn) {
            log.text.push(b'\n');
        }
        log
    }

    /// Logs what the whole frames at the start of `bytes` tell.
    pub(super) fn hear_all(&mut self, bytes: &[u8]) {
        frame::each(bytes).for_each(|frame| self.hear(frame));
    }

    fn hear(&mut self, frame: &[u8]) {
        let Some(head) = Head::read(frame) else {
            return;
        };
        self.newest_ns = self.newest_ns.max(head.host_ns);
        if head.kind == Kind::Voltage {
            return;
        }
        let body = &frame[HEAD..];
        if head.kind == Kind::Step {
            self.step = head.first + 1;
        }
        if head.kind == Kind::End {
            self.tell_left_out();
        }
        if let Some((step, told)) = self.tell(&head, body) {
            self.add(head.host_ns, step.unwrap_or(self.step), &told);
        }
    }

    /// The step of an event, if it is another than the open one, and its fields.
    fn tell(&mut self, head: &Head, body: &[u8]) -> Option<(Option<u64>, String)> {
        let source = head.source;
        let at = Some(head.first);
        let word = |bytes: &[u8]| bytes.first_chunk::<8>().map(|w| u64::from_le_bytes(*w));
        Some(match (head.kind, body) {
            (Kind::Configuration, _) => (None, format!("\"what\":\"begin\",\"source\":{source}")),
            (Kind::End, _) => (None, "\"what\":\"end\"".into()),
            (Kind::Epoch, _) => {
                let epoch = head.first;
                let told = format!("\"what\":\"epoch\",\"source\":{source},\"epoch\":{epoch}");
                (None, told)
            }
            (Kind::Loss, _) => {
                let (rows, at_least) = (head.first, body == [1]);
                let told = format!(
                    "\"what\":\"lost\",\"source\":{source},\"rows\":{rows},\"at_least\":{at_least}"
                );
                (None, told)
            }
            (Kind::Unrecorded, _) => {
                let told = format!("\"what\":\"unrecorded\",\"frames\":{}", head.first);
                (None, told)
            }
            (Kind::Decision, [1]) => (at, "\"what\":\"stale\"".into()),
            (Kind::Decision, [2, model @ ..]) => {
                let model = word(model)?;
                (at, format!("\"what\":\"swap\",\"model\":\"{model:016x}\""))
            }
            (Kind::Decision, [3]) => (at, "\"what\":\"roll-back\"".into()),
            (Kind::Decision, [5, to @ ..]) => {
                let steps = word(to)?.saturating_sub(head.first);
                (at, format!("\"what\":\"behind\",\"steps\":{steps}"))
            }
            (Kind::Checkpoint, [2, ..]) => (at, "\"what\":\"resumed\"".into()),
            (Kind::Mark, text) => {
                let text = json_text(&String::from_utf8_lossy(text))?;
                (at, format!("\"what\":\"mark\",\"text\":{text}"))
            }
            (Kind::Step, _) => {
                let bits = body.first_chunk::<4>().map(|b| u32::from_le_bytes(*b))?;
                let flags = StepStatus::from_bits(bits & FLAGS.bits());
                if flags == std::mem::replace(&mut self.flags, flags) {
                    return None;
                }
                (at, format!("\"what\":\"flags\",\"flags\":\"{flags}\""))
            }
            (Kind::Event, [b'{', fields @ .., b'}']) => {
                (at, String::from_utf8_lossy(fields).into_owned())
            }
            _ => return None,
        })
    }

    /// Logs that the disk is full.
    pub(super) fn note_disk(&mut self, disk: Disk) {
        let state = match disk {
            Disk::Room => "room",
            Disk::KeepsSmall => "keeps-small",
            Disk::Full => "full",
        };
        let told = format!("\"what\":\"disk\",\"state\":\"{state}\"");
        self.add(self.newest_ns, self.step, &told);
    }

    /// Logs an error of the disk.
    pub(super) fn note_failure(&mut self, error: &str) {
        if let Some(error) = json_text(error) {
            let told = format!("\"what\":\"disk\",\"state\":\"failed\",\"error\":{error}");
            self.add(self.newest_ns, self.step, &told);
        }
    }

    /// Adds a line, unless this second has many of its kind.
    fn add(&mut self, t_ns: i64, step: u64, fields: &str) {
        let kind = fields.split('"').nth(3).unwrap_or("");
        let second = t_ns.div_euclid(SECOND);
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.to_owned(), KindCount::default());
        }
        let Some(count) = self.kinds.get_mut(kind) else {
            return;
        };
        let mut left_out = 0;
        if count.second != second {
            left_out = count.left_out;
            *count = KindCount {
                second,
                ..KindCount::default()
            };
        }
        let is_shown = count.lines < MOST;
        match is_shown {
            true => count.lines += 1,
            false => count.left_out += 1,
        }
        if left_out > 0 {
            let more = format!("\"what\":\"{kind}\",\"more\":{left_out}");
            self.line(t_ns, step, &more);
        }
        if is_shown {
            self.line(t_ns, step, fields);
        }
    }

    fn line(&mut self, t_ns: i64, step: u64, fields: &str) {
        // An event that is noticed later than others, such as the resumption before the first block, follows them.
        self.told_ns = self.told_ns.max(t_ns);
        let t_ns = self.told_ns;
        if self.text.len() < ROOM {
            let line = format!("{{\"t_ns\":{t_ns},\"step\":{step},{fields}}}\n");
            self.text.extend_from_slice(line.as_bytes());
        }
    }

    /// Ends the log.
    pub(super) fn end(&mut self) {
        self.tell_left_out();
        self.flush();
    }

    /// Tells the events that were only counted.
    fn tell_left_out(&mut self) {
        let kinds = std::mem::take(&mut self.kinds);
        for (kind, count) in kinds.into_iter().filter(|(_, count)| count.left_out > 0) {
            let more = format!("\"what\":\"{kind}\",\"more\":{}", count.left_out);
            self.line(self.newest_ns, self.step, &more);
        }
    }

    /// Writes what waits. What a full disk does not take waits on.
    pub(super) fn flush(&mut self) {
        let Some(file) = &mut self.file else {
            self.text.clear();
            return;
        };
        while !self.text.is_empty() {
            match file.write(&self.text) {
                Ok(0) | Err(_) => return,
                Ok(written) => drop(self.text.drain(..written)),
            }
        }
    }
}

/// True if a file ends within a line.
fn is_torn(file: &mut File) -> bool {
    let mut last = [0];
    let read = (file.seek(SeekFrom::End(-1))).and_then(|_| file.read_exact(&mut last));
    read.is_ok() && last != *b"\n"
}

/// A text as JSON.
fn json_text(text: &str) -> Option<String> {
    serde_json::to_string(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_ten_lines_of_a_kind_per_second_are_counted_and_a_torn_line_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, "{\"t_ns\":1,\"st").unwrap();
        let mut log = Log::open(folder.path());
        for i in 0..60 {
            // 50 in the first second.
            log.add(i * SECOND / 50, 7, "\"what\":\"stale\"");
        }
        log.add(SECOND, 8, "\"what\":\"end\"");
        log.end();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 10 + 1 + 10 + 1, "{text}");
        assert_eq!(lines[1], "{\"t_ns\":0,\"step\":7,\"what\":\"stale\"}");
        let more = "{\"t_ns\":1000000000,\"step\":7,\"what\":\"stale\",\"more\":40}";
        assert_eq!(lines[11], more);
    }
}
