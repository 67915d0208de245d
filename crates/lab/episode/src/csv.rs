//! `label,seconds` files: read into [`Events`], and written.

mod seconds;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder, Trim};
use rayon::prelude::*;

use crate::alphabet::Alphabet;
use crate::clock::Clock;
use crate::events::{Events, max_tick_of_doubled};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::file::read_all;
use betz_base::memory;
use seconds::parse_picoseconds;

/// The treatment of a file whose times descend somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Refuse it, naming the line.
    #[default]
    Required,
    /// Sort the events.
    Sort,
}

const PER_SECOND: i128 = 1_000_000_000_000;

/// Beyond this many seconds from 0 times count from the first event's whole second.
const FAR_SECONDS: i128 = 1_000_000;

impl Events {
    /// Reads a text file of lines `label,seconds`, ascending in time.
    ///
    /// CSV as RFC 4180 has it: a label with a comma, a quote or an end of line in it stands in quotes.
    /// Blanks around fields are dropped; symbols are the labels in lexical order. Blank lines and a
    /// first line `label,seconds` (in any case, quoted or not) are skipped, and so is a byte order mark.
    /// Labels that are not UTF-8 are read as Latin-1. Seconds are decimal numbers, with an exponent or
    /// without. `-` is standard input.
    ///
    /// **Ticks.** A tick is the finest of 1 ps, 10 ps, 100 ps, … at which the longest time fits 63
    /// bits together with the symbol: 1 ps up to 40 hours of 64 symbols. The decimal digits
    /// are read as an integer, never through a float, and rounded to the nearest tick, so delays of
    /// decimal times are exact: 0.0163 s − 0.0123 s is 0.004 s and not more. Times written by a
    /// double-precision program keep their order and delays to 1 ps, finer than the spacing of
    /// doubles beyond 2,000 s. Times that start beyond ±10⁶ s count from the first one's whole
    /// second; negative times from the least one's.
    ///
    /// Reads the whole file into memory (its size, plus 16 bytes per event, besides the result), in
    /// rayon's current threads.
    ///
    /// # Errors
    /// `Io` when the file cannot be read; `InvalidRecording` with the line number for a malformed
    /// line, a time that is not finite, or (with [`Order::Required`]) one that descends;
    /// `InsufficientData` for a file without events.
    pub fn read_csv(path: &Path, order: Order) -> Result<Self> {
        let text = read_all(path, None)?;
        Self::parse_csv(&text, order).map_err(|e| e.at(path.display()))
    }

    /// [`Events::read_csv`] on text already in memory.
    ///
    /// # Errors
    /// As [`Events::read_csv`], except `Io`.
    pub(crate) fn parse_csv(text: &[u8], order: Order) -> Result<Self> {
        let text = without_mark(text)?;
        let body = skip_header(text);
        let origin = origin_seconds(body);
        memory::plan("events", text.len() as u128 * 2)?;
        let chunks: Vec<Chunk> = pieces(body)
            .into_par_iter()
            .map(|range| parse_chunk(&body[range], origin))
            .collect::<Result<_>>()?;
        let header_lines = text.len() - body.len();
        let first_line = 1 + usize::from(header_lines > 0);
        let mut line = first_line;
        for chunk in &chunks {
            if let Some((offset, error)) = &chunk.error {
                return Err(error.clone().at(format!("line {}", line + offset)));
            }
            line += chunk.lines;
        }

        let mut names: Vec<String> = chunks
            .iter()
            .flat_map(|c| c.labels.iter().cloned())
            .collect();
        names.sort_unstable();
        names.dedup();
        let all = chunks.iter().map(|c| c.events.len()).sum();
        let mut pairs = memory::room("events", all)?;
        for chunk in chunks {
            let symbols: Vec<u32> = chunk
                .labels
                .iter()
                .map(|l| names.partition_point(|k| k < l) as u32)
                .collect();
            pairs.extend(
                chunk
                    .events
                    .iter()
                    .map(|&(tick, local)| (tick, symbols[local as usize])),
            );
        }
        if pairs.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "no events: expected lines `label,seconds`",
            ));
        }
        if let Some(i) = (1..pairs.len()).find(|&i| pairs[i].0 < pairs[i - 1].0) {
            if order == Order::Required {
                let at = |i: usize| pairs[i].0 as f64 / PER_SECOND as f64 + origin as f64;
                return Err(Error::recording(format!(
                    "line {}: time {} s follows {} s: expected ascending times (or ask for sorting)",
                    line_of_event(body, i) + first_line,
                    at(i),
                    at(i - 1)
                )));
            }
            pairs.par_sort_by_key(|&(tick, _)| tick);
        }
        let origin = shift_negative(&mut pairs, origin);
        let clock = coarsen(&mut pairs, names.len());
        Self::from_pairs(Alphabet::new(names, clock)?, pairs.into_iter(), origin)
    }
}

impl Events {
    /// Writes the header `label,seconds` and one line per event, as [`Events::read_csv`] reads them.
    ///
    /// Times are the shortest decimals of their doubles, so ticks of a decimal length come back
    /// exactly. Others (1/30,000 s) come back to the picosecond: a delay that lies on a bound of an
    /// interval may then fall on its other side, which an .npz recording avoids.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "label,seconds")?;
        let mut table = csv::Writer::from_writer(out);
        for (tick, symbol) in self.iter() {
            let seconds = self.seconds(tick).to_string();
            table.write_record([self.alphabet().label(symbol), &seconds])?;
        }
        table.flush()
    }
}

/// Moves times below 0 to count from the least one's whole second.
fn shift_negative(pairs: &mut [(i64, u32)], origin: i64) -> i64 {
    let least = pairs.first().map_or(0, |p| p.0);
    if least >= 0 {
        return origin;
    }
    let seconds = least.div_euclid(PER_SECOND as i64);
    for (tick, _) in pairs {
        *tick -= seconds * PER_SECOND as i64;
    }
    origin + seconds
}

/// Rounds picoseconds to the finest power of ten that fits; returns the clock.
fn coarsen(pairs: &mut [(i64, u32)], symbols: usize) -> Clock {
    let last = pairs.last().map_or(0, |p| p.0);
    let ceiling = max_tick_of_doubled(symbols);
    let mut step = 1_i64;
    while (last + step / 2) / step > ceiling {
        step *= 10;
    }
    if step > 1 {
        for (tick, _) in pairs {
            *tick = (*tick + step / 2) / step;
        }
    }
    Clock::per_second((PER_SECOND as i64 / step) as u64)
}

/// `text` behind its byte order mark, if it has one.
pub(crate) fn without_mark(text: &[u8]) -> Result<&[u8]> {
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
        return Err(Error::recording(
            "expected text in UTF-8, got UTF-16: save it as UTF-8",
        ));
    }
    Ok(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text))
}

/// `bytes` as text: UTF-8, or else Latin-1, which gives each byte a character.
pub(crate) fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|&b| char::from(b)).collect()),
    }
}

fn reader(text: &[u8]) -> csv::Reader<&[u8]> {
    ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .from_reader(text)
}

/// A field that a blank kept from being read as quoted: `a, "b"`.
fn unquote(field: &[u8]) -> Cow<'_, [u8]> {
    match field {
        [b'"', inside @ .., b'"'] if inside.contains(&b'"') => {
            let mut plain = Vec::with_capacity(inside.len());
            let mut rest = inside;
            while let [first, after @ ..] = rest {
                plain.push(*first);
                let doubled = *first == b'"' && after.first() == Some(&b'"');
                rest = if doubled { &after[1..] } else { after };
            }
            Cow::Owned(plain)
        }
        [b'"', inside @ .., b'"'] => Cow::Borrowed(inside),
        field => Cow::Borrowed(field),
    }
}

fn skip_header(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .position(|&b| b == b'\n')
        .map_or(text.len(), |i| i + 1);
    let mut first = ByteRecord::new();
    let read = reader(&text[..end]).read_byte_record(&mut first);
    let named = |i: usize, name: &[u8]| {
        first
            .get(i)
            .is_some_and(|f| unquote(f).trim_ascii().eq_ignore_ascii_case(name))
    };
    if read.is_ok() && first.len() == 2 && named(0, b"label") && named(1, b"seconds") {
        &text[end..]
    } else {
        text
    }
}

/// 0, or the first event's whole second when that is far from 0.
fn origin_seconds(body: &[u8]) -> i64 {
    let mut first = ByteRecord::new();
    let mut lines = reader(body);
    while lines.read_byte_record(&mut first).is_ok_and(|more| more) {
        if first.len() == 1 && first.get(0).is_none_or(<[u8]>::is_empty) {
            continue;
        }
        return match first.get(1).map(|time| parse_picoseconds(&unquote(time))) {
            Some(Ok(ps)) if ps.abs() >= FAR_SECONDS * PER_SECOND => {
                ps.div_euclid(PER_SECOND).try_into().unwrap_or(0)
            }
            _ => 0,
        };
    }
    0
}

/// Cuts the text at line ends into pieces for the threads. A text with quotes is one piece: a line
/// may end inside them.
fn pieces(body: &[u8]) -> Vec<std::ops::Range<usize>> {
    if body.contains(&b'"') {
        return std::iter::once(0..body.len()).collect();
    }
    let piece = (body.len() / (rayon::current_num_threads() * 4)).max(1 << 16);
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < body.len() {
        let target = (start + piece).min(body.len());
        let stop = body[target..]
            .iter()
            .position(|&b| b == b'\n')
            .map_or(body.len(), |i| target + i + 1);
        ranges.push(start..stop);
        start = stop;
    }
    ranges
}

struct Chunk {
    /// Picoseconds from the origin, and an index into `labels`.
    events: Vec<(i64, u32)>,
    labels: Vec<String>,
    lines: usize,
    /// Offset of the line at fault within the chunk.
    error: Option<(usize, Error)>,
}

fn parse_chunk(text: &[u8], origin: i64) -> Result<Chunk> {
    let lines = text.iter().filter(|&&b| b == b'\n').count();
    let mut chunk = Chunk {
        events: memory::room("events", lines + 1)?,
        labels: Vec::new(),
        lines,
        error: None,
    };
    let mut known: HashMap<Vec<u8>, u32> = HashMap::new();
    let offset = i128::from(origin) * PER_SECOND;
    let mut records = reader(text);
    let mut record = ByteRecord::new();
    loop {
        let parsed = match records.read_byte_record(&mut record) {
            Ok(false) => break,
            Ok(true) if record.len() == 1 && record.get(0).is_none_or(<[u8]>::is_empty) => continue,
            Ok(true) => parse_record(&record, offset),
            Err(e) => Err(Error::recording(e.to_string())),
        };
        match parsed {
            Ok((label, tick)) => {
                let next = known.len() as u32;
                let local = match known.get(&*label) {
                    Some(&local) => local,
                    None => {
                        chunk.labels.push(decode_text(&label).into_owned());
                        known.insert(label.into_owned(), next);
                        next
                    }
                };
                chunk.events.push((tick, local));
            }
            Err(error) => {
                // The line that was read last, counted from 0.
                let read = records.position().byte() as usize;
                let ends = text[..read].iter().filter(|&&b| b == b'\n').count();
                let behind = text[..read].last() == Some(&b'\n');
                chunk.error = Some((ends - usize::from(behind), error));
                break;
            }
        }
    }
    Ok(chunk)
}

fn parse_record(record: &ByteRecord, offset: i128) -> Result<(Cow<'_, [u8]>, i64)> {
    let line = || record.iter().collect::<Vec<_>>().join(&b',');
    let (Some(label), Some(time)) = (record.get(0), record.get(1)) else {
        return Err(malformed_line("expected `label,seconds`, got", &line()));
    };
    let label = unquote(label);
    if label.is_empty() {
        return Err(malformed_line(
            "expected a label before the comma, got none in",
            &line(),
        ));
    }
    if record.len() > 2 {
        return Err(malformed_line(
            "expected two fields `label,seconds`, got",
            &line(),
        ));
    }
    let ps = parse_picoseconds(&unquote(time))?;
    let tick = i64::try_from(ps - offset)
        .ok()
        .filter(|t| t.abs() < i64::MAX / 2)
        .ok_or_else(|| {
            malformed_line(
                "expected a time within 53 days of the first event, got",
                &line(),
            )
        })?;
    Ok((label, tick))
}

fn malformed_line(what: &str, line: &[u8]) -> Error {
    let shown: String = String::from_utf8_lossy(line).chars().take(60).collect();
    Error::recording(format!("{what} {shown:?}"))
}

/// Number of lines before the end of the `index`-th event.
fn line_of_event(body: &[u8], index: usize) -> usize {
    let mut records = reader(body);
    let mut record = ByteRecord::new();
    let mut events = 0;
    while records.read_byte_record(&mut record).is_ok_and(|more| more) {
        if record.len() == 1 && record.get(0).is_none_or(<[u8]>::is_empty) {
            continue;
        }
        if events == index {
            let read = records.position().byte() as usize;
            let ends = body[..read].iter().filter(|&&b| b == b'\n').count();
            return ends - usize::from(body[..read].last() == Some(&b'\n'));
        }
        events += 1;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_kept_and_sorted() {
        let events = Events::parse_csv(
            b"label,seconds\nb, 0\n a ,0.5\r\n\nb,1e0\n",
            Order::Required,
        );
        let events = events.unwrap();
        assert_eq!(events.alphabet().labels(), ["a", "b"]);
        assert_eq!(events.ticks_of(1), [0, 1_000_000_000_000]);
        assert_eq!(events.ticks_of(0), [500_000_000_000]);
        assert_eq!(events.len(), 3);
    }

    #[test]
    fn quotes_marks_and_other_encodings_are_read() {
        let read = |text: &[u8]| Events::parse_csv(text, Order::Required).unwrap();
        for header in [
            "label, seconds",
            "\"label\",\"seconds\"",
            "\"Label\", \"SECONDS\"",
            " label ,seconds ",
        ] {
            let events = read(format!("{header}\r\na,1\r\n").as_bytes());
            assert_eq!(
                (events.len(), events.alphabet().labels()),
                (1, &["a".to_owned()][..]),
                "{header}"
            );
        }
        let events = read(b"\xef\xbb\xbf\"a, \"\"b\"\"\",1\n\"two\nlines\",2\n c , \"3\"\nc,4");
        assert_eq!(events.alphabet().labels(), ["a, \"b\"", "c", "two\nlines"]);
        let mut written = Vec::new();
        events.write_csv(&mut written).unwrap();
        assert_eq!(
            read(&written).alphabet().labels(),
            events.alphabet().labels()
        );
        // Latin-1 beside UTF-8: each its own character, and the same one.
        let events = read(b"\xe9,1\n\xc3\xa9,2\n\xff,3\n");
        assert_eq!(events.alphabet().labels(), ["é", "ÿ"]);
        let error = Events::parse_csv(b"\xff\xfea\x00,\x001\x00", Order::Required).unwrap_err();
        assert!(error.message().contains("UTF-16"), "{error}");
        let error = Events::parse_csv(b"\"a\nb\",1\nc\n", Order::Required).unwrap_err();
        assert!(error.message().contains("line 3"), "{error}");
    }

    #[test]
    fn what_is_written_reads_back_equal() {
        let text = "label,seconds\na,0.00001\nb,0.00001\na,0.12345\nb,3999.99999\n";
        let events = Events::parse_csv(text.as_bytes(), Order::Required).unwrap();
        let mut written = Vec::new();
        events.write_csv(&mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text);
    }

    #[test]
    fn far_and_negative_times_count_from_a_whole_second() {
        let far = Events::parse_csv(b"a,1700000000.25\nb,1700000001.5", Order::Required).unwrap();
        assert_eq!(far.origin_seconds(), 1_700_000_000);
        assert_eq!(far.ticks_of(1), [1_500_000_000_000]);
        let before = Events::parse_csv(b"a,-1.25\nb,0.5", Order::Required).unwrap();
        assert_eq!(before.origin_seconds(), -2);
        assert_eq!(before.ticks_of(0), [750_000_000_000]);
        assert_eq!(before.seconds(before.ticks_of(1)[0]), 0.5);
    }

    #[test]
    fn a_long_file_gets_coarser_ticks() {
        let events = Events::parse_csv(b"a,0.25\nb,900000", Order::Required).unwrap();
        // 9e17 ps fit in 2^61 - 1 with one symbol bit
        assert_eq!(events.clock().tick_seconds(), 1e-12);
        let mut text = String::from("a,0.25\n");
        for s in 0..1000 {
            text.push_str(&format!("s{s},900000\n"));
        }
        let events = Events::parse_csv(text.as_bytes(), Order::Required).unwrap();
        assert_eq!(events.clock().tick_seconds(), 1e-10);
        assert_eq!(events.first_tick(), 2_500_000_000);
    }

    #[test]
    fn broken_files_are_refused_with_the_line() {
        let refuse = |text: &str, part: &str| {
            let error = Events::parse_csv(text.as_bytes(), Order::Required).unwrap_err();
            assert!(
                error.message().contains(part),
                "{text:?}: {error} should contain {part:?}"
            );
        };
        refuse("", "no events");
        refuse("\n\n", "no events");
        refuse("label,seconds\n", "no events");
        refuse("a,1\nb\n", "line 2");
        refuse("a,1\n\nb,x\n", "line 3");
        refuse(
            "label,seconds\na,1\nb,nan\n",
            "line 3: expected a finite time",
        );
        refuse("a,inf\n", "line 1: expected a finite time");
        refuse("a,1e99\n", "line 1");
        refuse("a,1,2\n", "line 1: expected two fields");
        refuse(",1\n", "expected a label before the comma");
        refuse("a,\n", "line 1");
        refuse("a,1.2.3\n", "line 1");
        refuse("a,--1\n", "line 1");
        refuse("a,2\n\nb,1\n", "line 3: time 1 s follows 2 s");
        let sorted = Events::parse_csv(b"a,2\nb,1\n", Order::Sort).unwrap();
        assert_eq!(sorted.iter().map(|e| e.1).collect::<Vec<_>>(), [1, 0]);
        let dir = tempfile::tempdir().unwrap();
        let error = Events::read_csv(dir.path(), Order::Required).unwrap_err();
        assert!(error.message().contains("directory"), "{error}");
        let error = Events::read_csv(&dir.path().join("none.csv"), Order::Required).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
    }
}
