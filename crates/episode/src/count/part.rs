//! Counts of one stretch of time as a file, and the counts that all stretches make together.
//!
//! A [frame](betz_base::frame) with its checksum around, all numbers little-endian:
//!
//! ```text
//! shard, shards u32; recording u64, tick seconds f64, ticks of the recording i64, segments u64
//! first tick i64, tick after the last i64, events u64
//! labels: count u32; length u32, UTF-8 each
//! episodes: count u64; each: symbols u32, then u32 each; (low, high] i64 twice an edge
//! of each: steps u32; from i64, count u64, last end i64 each
//! ```

use std::io::Write;
use std::path::Path;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::file::{read_all, write_atomically};
use betz_base::frame::{self, Content};
use betz_base::progress::Progress;
use betz_base::team::Shard;

use super::long::ShardEvents;
use super::passage::{Passage, Step, Tally};
use crate::{Alphabet, Clock, Episode, Interval, MAX_SYMBOLS, Pattern};

/// The first bytes of a file of counts.
pub const PART_MAGIC: [u8; 8] = *b"BETZCNTP";

const CONTENT: Content = Content {
    magic: PART_MAGIC,
    name: "a shard of counts",
    damaged: ErrorKind::InvalidRecording,
};

const VERSION: u32 = 1;

/// What given episodes count in one shard of a recording's time, whatever came before it.
#[derive(Debug, Clone)]
pub struct CountPart {
    /// What messages call it.
    name: String,
    shard: Shard,
    whole: Whole,
    /// First tick of the recording in it, and first after it.
    ticks: (i64, i64),
    events: u64,
    passages: Vec<Passage>,
}

/// What all shards have in common.
#[derive(Debug, Clone)]
struct Whole {
    recording: u64,
    tick_seconds: f64,
    ticks: i64,
    segments: u64,
    labels: Vec<String>,
    patterns: Vec<Pattern>,
}

/// Counts over a whole recording.
#[derive(Debug, Clone)]
pub struct Joined {
    /// Labels and clock.
    pub alphabet: Alphabet,
    /// The episodes in their file's order, with their counts.
    pub episodes: Vec<Episode>,
    /// Events of the recording.
    pub events: u64,
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::recording(format!("a shard of counts: {what}"))
}

impl CountPart {
    /// Counts `patterns` in `events`, which are `shard`'s of the recording that `recording` tells from others (a hash).
    ///
    /// # Errors
    /// As [`ShardEvents::pass`].
    pub fn count(
        shard: Shard,
        recording: u64,
        events: &ShardEvents,
        patterns: Vec<Pattern>,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let (passages, number) = events.pass(&patterns, progress)?;
        let outline = events.outline();
        Ok(Self {
            name: format!("shard {shard}"),
            shard,
            whole: Whole {
                recording,
                tick_seconds: outline.tick_seconds,
                ticks: outline.ticks,
                segments: outline.segments.len() as u64,
                labels: outline.channel_names.clone(),
                patterns,
            },
            ticks: events.ticks(),
            events: number,
            passages,
        })
    }

    /// Which shard it is.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Its stretch of the recording in seconds.
    pub fn seconds(&self) -> (f64, f64) {
        let tick = self.whole.tick_seconds;
        (self.ticks.0 as f64 * tick, self.ticks.1 as f64 * tick)
    }

    /// Events in its stretch.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many episodes it counts.
    pub fn episodes(&self) -> usize {
        self.passages.len()
    }

    /// The bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = vec![0; frame::HEADER];
        let mut put = |bytes: &[u8]| to.extend_from_slice(bytes);
        let whole = &self.whole;
        put(&(self.shard.number() as u32).to_le_bytes());
        put(&(self.shard.of() as u32).to_le_bytes());
        put(&whole.recording.to_le_bytes());
        put(&whole.tick_seconds.to_le_bytes());
        put(&whole.ticks.to_le_bytes());
        put(&whole.segments.to_le_bytes());
        put(&self.ticks.0.to_le_bytes());
        put(&self.ticks.1.to_le_bytes());
        put(&self.events.to_le_bytes());
        put(&(whole.labels.len() as u32).to_le_bytes());
        for label in &whole.labels {
            put(&(label.len() as u32).to_le_bytes());
            put(label.as_bytes());
        }
        put(&(whole.patterns.len() as u64).to_le_bytes());
        for pattern in &whole.patterns {
            put(&(pattern.size() as u32).to_le_bytes());
            for symbol in pattern.symbols() {
                put(&symbol.to_le_bytes());
            }
            for edge in pattern.intervals() {
                put(&edge.low.to_le_bytes());
                put(&edge.high.to_le_bytes());
            }
        }
        for passage in &self.passages {
            put(&(passage.steps().len() as u32).to_le_bytes());
            for step in passage.steps() {
                put(&step.from.to_le_bytes());
                put(&step.count.to_le_bytes());
                put(&step.last_end.to_le_bytes());
            }
        }
        to.extend_from_slice(&[0; frame::OVERHEAD - frame::HEADER]);
        frame::seal(CONTENT, VERSION, &mut to);
        to
    }

    /// The counts in `bytes`. Takes no memory out of proportion to them.
    ///
    /// # Errors
    /// `InvalidRecording` for bytes that are none, are damaged or cut short, or hold what no counts can;
    /// `UnsupportedVersion`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (version, payload) = frame::open(CONTENT, bytes)?;
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!("a shard of counts: expected version {VERSION}, got {version}"),
            ));
        }
        read(&mut Reader(payload))
    }

    /// Writes the file `path`: complete, or not at all.
    ///
    /// # Errors
    /// `Io`.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes();
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes), and `Io`; messages begin with the path.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = read_all(path, Some(&PART_MAGIC))?;
        let mut part = Self::from_bytes(&bytes).map_err(|e| e.at(path.display()))?;
        part.name = path.display().to_string();
        Ok(part)
    }

    /// The counts over the whole recording, which its shards make in whatever order they come.
    ///
    /// # Errors
    /// `Mismatch` naming the shard and what differs, for shards of another recording or other episodes, one that is there
    /// twice or missing; `InsufficientData` where no shard has an event.
    pub fn join(parts: Vec<Self>) -> Result<Joined> {
        let Some(first) = parts.first() else {
            return Err(Error::argument("expected shards of counts, got none"));
        };
        for part in &parts[1..] {
            first.same(part)?;
        }
        let of = first.shard.of();
        let whole = first.whole.clone();
        let numbered = parts
            .into_iter()
            .map(|p| (p.shard.number(), p.name.clone(), p));
        let nothing = Tally {
            count: 0,
            last_end: i64::MIN,
        };
        let mut tallies = vec![nothing; whole.patterns.len()];
        let (mut next, mut events) = (0, 0_u64);
        let beyond =
            |what: &str| Error::mismatch(format!("expected {what} within 64 bits, got more"));
        for (name, part) in Shard::in_order(of, numbered)? {
            if part.ticks.0 != next {
                return Err(Error::mismatch(format!(
                    "{name}: expected the stretch from tick {next} on, got that from {} on",
                    part.ticks.0
                )));
            }
            next = part.ticks.1;
            events = (events.checked_add(part.events)).ok_or_else(|| beyond("events"))?;
            for (tally, passage) in tallies.iter_mut().zip(&part.passages) {
                *tally = passage.after(*tally).ok_or_else(|| beyond("counts"))?;
            }
        }
        if next != whole.ticks {
            return Err(Error::mismatch(format!(
                "expected shards up to tick {}, the recording's end, got them up to {next}",
                whole.ticks
            )));
        }
        if events == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "no events: expected at least one",
            ));
        }
        let clock = Clock::from_tick_seconds(whole.tick_seconds)?;
        let episodes = whole.patterns.into_iter().zip(tallies);
        Ok(Joined {
            alphabet: Alphabet::new(whole.labels, clock)?,
            episodes: episodes
                .map(|(pattern, tally)| Episode {
                    pattern,
                    count: tally.count,
                })
                .collect(),
            events,
        })
    }

    /// Refuses `other` where it is of another whole than this.
    fn same(&self, other: &Self) -> Result<()> {
        let (a, b) = (&self.whole, &other.whole);
        let differs = |what: &str, got: String, expected: String| {
            (got != expected).then(|| format!("{what} {got} instead of {expected}"))
        };
        let number = |what: &str, got: u64, expected: u64| {
            differs(what, got.to_string(), expected.to_string())
        };
        let listed = |same: bool, what: &str| (!same).then(|| format!("other {what}"));
        let seconds = |w: &Whole| w.tick_seconds.to_string();
        let hash = |w: &Whole| format!("{:016x}", w.recording);
        let shards = (self.shard.of() as u64, other.shard.of() as u64);
        let difference = number("shards", shards.1, shards.0)
            .or_else(|| differs("ticks of seconds", seconds(b), seconds(a)))
            .or_else(|| differs("ticks", b.ticks.to_string(), a.ticks.to_string()))
            .or_else(|| number("segments", b.segments, a.segments))
            .or_else(|| listed(a.labels == b.labels, "channels"))
            .or_else(|| differs("a recording of hash", hash(b), hash(a)))
            .or_else(|| {
                let episodes = (a.patterns.len() as u64, b.patterns.len() as u64);
                number("episodes", episodes.1, episodes.0)
            })
            .or_else(|| listed(a.patterns == b.patterns, "episodes"));
        match difference {
            None => Ok(()),
            Some(difference) => Err(Error::mismatch(format!(
                "{}: expected a shard of the same counts as {}, got {difference}",
                other.name, self.name
            ))),
        }
    }
}

/// Takes numbers from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((head, rest)) = self.0.split_first_chunk::<N>() else {
            return Err(damaged(format_args!(
                "expected {N} more bytes, got {}",
                self.0.len()
            )));
        };
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// How many items of at least `size` bytes follow; refused where what is left has no room for them.
    fn room(&self, count: u64, size: usize, what: &str) -> Result<usize> {
        match usize::try_from(count) {
            Ok(count) if count <= self.0.len() / size => Ok(count),
            _ => Err(damaged(format_args!(
                "expected at most {} {what}, got {count}",
                self.0.len() / size
            ))),
        }
    }
}

fn read(from: &mut Reader<'_>) -> Result<CountPart> {
    let (number, of) = (from.u32()? as usize, from.u32()? as usize);
    let shard = Shard::new(number, of).map_err(|e| damaged(e.message()))?;
    let recording = from.u64()?;
    let tick_seconds = f64::from_le_bytes(from.array()?);
    Clock::from_tick_seconds(tick_seconds).map_err(|e| damaged(e.message()))?;
    let (all, segments) = (from.i64()?, from.u64()?);
    let ticks = (from.i64()?, from.i64()?);
    if !(0 <= ticks.0 && ticks.0 <= ticks.1 && ticks.1 <= all) {
        return Err(damaged(format_args!(
            "expected ticks within 0 to {all}, got {} to {}",
            ticks.0, ticks.1
        )));
    }
    let events = from.u64()?;
    let labels = read_labels(from)?;
    let patterns = read_patterns(from, labels.len())?;
    let mut passages = Vec::with_capacity(patterns.len().min(from.0.len() / 28));
    for _ in 0..patterns.len() {
        let count = u64::from(from.u32()?);
        let count = from.room(count, 24, "steps")?;
        let steps = (0..count).map(|_| {
            Ok(Step {
                from: from.i64()?,
                count: from.u64()?,
                last_end: from.i64()?,
            })
        });
        let steps = steps.collect::<Result<Vec<Step>>>()?;
        if let Some(step) = steps.iter().find(|step| step.count > events) {
            return Err(damaged(format_args!(
                "expected counts of at most {events}, the events, got {}",
                step.count
            )));
        }
        passages.push(
            Passage::of(steps).ok_or_else(|| damaged("expected steps that ascend, got others"))?,
        );
    }
    if !from.0.is_empty() {
        return Err(damaged(format_args!(
            "expected its end, got {} more bytes",
            from.0.len()
        )));
    }
    Ok(CountPart {
        name: format!("shard {shard}"),
        shard,
        whole: Whole {
            recording,
            tick_seconds,
            ticks: all,
            segments,
            labels,
            patterns,
        },
        ticks,
        events,
        passages,
    })
}

fn read_labels(from: &mut Reader<'_>) -> Result<Vec<String>> {
    let count = u64::from(from.u32()?);
    let count = from.room(count, 4, "labels")?;
    (0..count)
        .map(|_| {
            let length = u64::from(from.u32()?);
            let length = from.room(length, 1, "bytes of a label")?;
            let (text, rest) = from.0.split_at(length);
            from.0 = rest;
            let text =
                std::str::from_utf8(text).map_err(|_| damaged("expected labels in UTF-8"))?;
            Ok(text.to_owned())
        })
        .collect()
}

fn read_patterns(from: &mut Reader<'_>, symbols: usize) -> Result<Vec<Pattern>> {
    let count = from.u64()?;
    let count = from.room(count, 8, "episodes")?;
    (0..count)
        .map(|_| {
            let size = from.u32()? as usize;
            if size == 0 || size > MAX_SYMBOLS {
                return Err(damaged(format_args!(
                    "expected episodes of 1 to {MAX_SYMBOLS} symbols, got {size}"
                )));
            }
            let named = (0..size)
                .map(|_| from.u32())
                .collect::<Result<Vec<u32>>>()?;
            if let Some(symbol) = named.iter().find(|symbol| **symbol as usize >= symbols) {
                return Err(damaged(format_args!(
                    "expected symbols below {symbols}, got {symbol}"
                )));
            }
            let edges = (1..size).map(|_| Interval::new(from.i64()?, from.i64()?));
            let edges = edges
                .collect::<Result<Vec<_>>>()
                .map_err(|e| damaged(e.message()))?;
            Pattern::new(named, edges).map_err(|e| damaged(e.message()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{alphabet, bursts, random_case};
    use crate::count::{CountJob, Serial, Strategy};
    use crate::{Events, oracle};
    use betz_recording::{Recording, Segment, SpikeForm, Spikes};
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn recording(events: &Events, segments: Vec<Segment>) -> Recording {
        let (ticks, channels): (Vec<i64>, Vec<u32>) = events.iter().unzip();
        Recording {
            tick_seconds: 1e-3,
            ticks: events.last_tick() + 3,
            spikes: Spikes::new(ticks, channels),
            channel_names: alphabet(events.symbols()).labels().to_vec(),
            behavior: None,
            segments,
            electrode_um: None,
            form: SpikeForm::Events,
            meta: None,
        }
    }

    fn part(
        recording: &Recording,
        shard: Shard,
        cuts: Vec<i64>,
        patterns: &[Pattern],
    ) -> CountPart {
        let spikes = recording.spikes.clone();
        let read = move |start, stop| {
            let within = spikes.range(start, stop);
            Ok(Spikes::new(
                spikes.ticks[within.clone()].to_vec(),
                spikes.channels[within].to_vec(),
            ))
        };
        let events = ShardEvents::new(recording, cuts, read).unwrap();
        let part = CountPart::count(shard, 7, &events, patterns.to_vec(), &()).unwrap();
        CountPart::from_bytes(&part.to_bytes()).unwrap()
    }

    /// Shards between `bounds`, each in two stretches where it is long enough; the last one first.
    fn parts(recording: &Recording, bounds: &[i64], patterns: &[Pattern]) -> Vec<CountPart> {
        let of = bounds.len() - 1;
        (0..of)
            .rev()
            .map(|k| {
                let (from, to) = (bounds[k], bounds[k + 1]);
                let mut cuts = vec![from, (from + to) / 2, to];
                cuts.dedup();
                part(recording, Shard::new(k + 1, of).unwrap(), cuts, patterns)
            })
            .collect()
    }

    fn counts(joined: &Joined) -> Vec<u64> {
        joined.episodes.iter().map(|e| e.count).collect()
    }

    #[test]
    fn a_cut_at_every_place_and_more_shards_than_events_give_the_oracles_counts() {
        for seed in 0..60 {
            let case = random_case(seed, 40, 12);
            let recording = recording(&case.events, Vec::new());
            let expected: Vec<u64> = (case.patterns.iter())
                .map(|p| oracle::count(&case.events, p))
                .collect();
            let end = recording.ticks;
            let one = (0..=end).map(|at| vec![0, at, end]);
            // A shard for every tick, and each of them followed by an empty one.
            let each = [
                (0..=end).collect(),
                (0..=end).flat_map(|t| [t, t]).collect(),
            ];
            for bounds in one.chain(each) {
                let joined = CountPart::join(parts(&recording, &bounds, &case.patterns)).unwrap();
                assert_eq!(counts(&joined), expected, "seed {seed}, cuts {bounds:?}");
                assert_eq!(joined.events, case.events.len() as u64);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(120))]
        #[test]
        fn random_cuts_of_bursts_and_trials_give_the_counts_of_the_whole(
            seed in any::<u64>(),
            longest in 1_i64..40,
            cuts in prop::collection::vec(0.0_f64..=1.0, 0..9),
            trials in any::<bool>(),
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let case = bursts(&mut rng, 1..900, longest);
            let mut recording = recording(&case.events, Vec::new());
            let mut at = 0;
            while trials && at < recording.ticks {
                let start = at + rng.random_range(0..30);
                let stop = (start + rng.random_range(1..300)).min(recording.ticks);
                if start < stop {
                    recording.segments.push(Segment { start, stop });
                }
                at = stop.max(start);
            }
            let mut bounds: Vec<i64> = (cuts.iter())
                .map(|cut| (recording.ticks as f64 * cut) as i64)
                .chain([0, recording.ticks])
                .collect();
            bounds.sort_unstable();
            let joined = CountPart::join(parts(&recording, &bounds, &case.patterns));
            match Events::from_recording(&recording) {
                Ok(whole) => {
                    let expected = Serial.count(&CountJob::new(&whole, &case.patterns)).unwrap();
                    prop_assert_eq!(counts(&joined.unwrap()), expected);
                }
                Err(e) => prop_assert_eq!(joined.err().map(|e| e.kind()), Some(e.kind())),
            }
        }
    }

    #[test]
    fn what_does_not_belong_together_is_refused_by_name() {
        let case = random_case(3, 60, 8);
        let whole = recording(&case.events, Vec::new());
        let end = whole.ticks;
        let bounds = [0, end / 3, end / 2, end];
        let all = parts(&whole, &bounds, &case.patterns);
        let refused = |parts: Vec<CountPart>, words: &str| {
            let error = CountPart::join(parts).unwrap_err();
            assert!(error.message().contains(words), "{words}: {error}");
        };
        refused(Vec::new(), "got none");
        refused(
            all[..2].to_vec(),
            "expected all 3 shards, got 2: none of number 1",
        );
        refused(
            vec![
                all[0].clone(),
                all[1].clone(),
                all[1].clone(),
                all[2].clone(),
            ],
            "expected each shard once, got shard 2",
        );
        // Another one in the place of the second.
        let with = |second: CountPart| vec![all[0].clone(), second, all[2].clone()];
        let second = |recording: &Recording, patterns: &[Pattern], bounds: &[i64]| {
            parts(recording, bounds, patterns)[1].clone()
        };
        refused(
            with(parts(&whole, &[0, 1, 2, 3, end], &case.patterns)[1].clone()),
            "got shards 4 instead of 3",
        );
        refused(
            with(second(&whole, &case.patterns[1..], &bounds)),
            "got episodes 7 instead of 8",
        );
        let mut turned = case.patterns.clone();
        turned.rotate_left(1);
        refused(with(second(&whole, &turned, &bounds)), "got other episodes");
        refused(
            with(second(&whole, &case.patterns, &[0, end / 4, end / 2, end])),
            "expected the stretch from tick",
        );
        let mut longer = whole.clone();
        longer.ticks += 1;
        refused(with(second(&longer, &case.patterns, &bounds)), "got ticks ");
        let mut renamed = whole.clone();
        renamed.channel_names[0] = "other".to_owned();
        refused(
            with(second(&renamed, &case.patterns, &bounds)),
            "got other channels",
        );
        let mut other = all[1].clone();
        other.whole.recording += 1;
        refused(
            with(other),
            "a recording of hash 0000000000000008 instead of 0000000000000007",
        );
        let mut silent = whole.clone();
        silent.spikes = Spikes::default();
        let error = CountPart::join(parts(&silent, &bounds, &case.patterns)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InsufficientData);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let case = random_case(3, 60, 8);
        let whole = recording(&case.events, Vec::new());
        let bytes = parts(&whole, &[0, whole.ticks / 2, whole.ticks], &case.patterns)[0].to_bytes();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(CountPart::from_bytes(&changed).is_err(), "byte {at}");
            assert!(CountPart::from_bytes(&bytes[..at]).is_err(), "{at} bytes");
            // A whole frame around what may be none: no panic, and no memory that it has no bytes for.
            if (frame::HEADER..bytes.len() - 8).contains(&at) {
                for value in [[0xff; 4], [0; 4]] {
                    let mut changed = bytes.clone();
                    changed[at..at + 4].copy_from_slice(&value);
                    frame::seal(CONTENT, VERSION, &mut changed);
                    let _ = CountPart::from_bytes(&changed).map(|part| CountPart::join(vec![part]));
                }
            }
        }
        let mut newer = bytes.clone();
        frame::seal(CONTENT, VERSION + 1, &mut newer);
        let error = CountPart::from_bytes(&newer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
        // The header as a machine of the other byte order would have written it.
        let mut swapped = bytes.clone();
        swapped[8..12].reverse();
        swapped[12..20].reverse();
        let error = CountPart::from_bytes(&swapped).unwrap_err();
        assert!(
            error.message().contains("expected little-endian"),
            "{error}"
        );
    }
}
