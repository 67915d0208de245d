//! Counting in a recording that need not fit in memory, one chunk of time after another.
//!
//! A chunk [a, b) is read with a halo before it, as long as the longest episode can last: every occurrence that
//! ends in the chunk lies in what was read, latest start included. The greedy choice goes on from the chunk
//! before (count and last end, 16 bytes an episode). Occurrences that end in the halo come again, and are not taken
//! again: after the greedy choice has gone through all that end before a, none of them starts after the last one
//! taken ended. So the counts are those of the whole.

use betz_base::lock::lock;
use std::ops::Range;
use std::sync::Mutex;

use rayon::prelude::*;

use super::greedy::GreedyChoice;
use super::latest_start::{LatestStart, runs};
use super::walk::{TILE, Walk, WalkOutput};
use super::{Counter, Strategy};
use crate::alphabet::Alphabet;
use crate::clock::Clock;
use crate::events::Events;
use crate::events::{gap_ticks, is_whole, one_each};
use crate::pattern::Pattern;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_device::Ran;
use betz_recording::{Recording, Segment, SpikeForm, Spikes};

/// Reads the spikes of [start, stop), in the recording's ticks.
type Read = dyn FnMut(i64, i64) -> Result<Spikes> + Send;

/// The events of a recording that is read in chunks. They are those of [`Events::from_recording`], with segments moved
/// apart in the same way.
pub struct LongEvents {
    pub(super) alphabet: Alphabet,
    /// The recording's segments and the tick at which each begins here; empty if one covers everything.
    segments: Vec<(Segment, i64)>,
    /// Ticks of the recording at which it is cut.
    pub(super) cuts: Vec<i64>,
    read: Mutex<Box<Read>>,
    seen: Mutex<PassStats>,
}

/// The events of one pass.
#[derive(Debug, Clone, Copy, Default)]
struct PassStats {
    events: u64,
    /// Ticks here of the first event and of the last one.
    ends: Option<(i64, i64)>,
}

impl PassStats {
    /// Takes in the `events` of a chunk, `fresh` of which lie in it and any others before it.
    fn take(&mut self, events: &Events, fresh: u64) {
        self.events += fresh;
        let first = self.ends.map_or(events.first_tick(), |ends| ends.0);
        self.ends = Some((first, events.last_tick()));
    }
}

/// Patterns as they are counted in chunks: cut into runs that threads share out.
pub(crate) struct ChunkedCount<'a> {
    patterns: &'a [Pattern],
    order: Vec<usize>,
    /// The range of each run in the order.
    runs: Vec<Range<usize>>,
}

/// The greedy choice so far for each pattern, run by run.
pub(crate) type ChunkedState = Vec<Vec<GreedyChoice>>;

impl<'a> ChunkedCount<'a> {
    pub(crate) fn new(patterns: &'a [Pattern]) -> Self {
        let order = Pattern::prefix_order(patterns);
        let mut at = 0;
        let runs = runs(patterns, &order, rayon::current_num_threads()).into_iter();
        let runs = runs.map(|run| {
            at += run.len();
            at - run.len()..at
        });
        Self {
            patterns,
            runs: runs.collect(),
            order,
        }
    }

    /// The longest that an occurrence lasts, in ticks.
    pub(crate) fn span(&self) -> i64 {
        self.patterns.iter().map(Pattern::span).max().unwrap_or(0)
    }

    /// Before the first chunk.
    pub(crate) fn begin(&self) -> ChunkedState {
        let nothing = |run: &Range<usize>| vec![GreedyChoice::default(); run.len()];
        self.runs.iter().map(nothing).collect()
    }

    /// Continues the count in `events`: a chunk, and as much before it as an occurrence lasts.
    pub(crate) fn go_on(
        &self,
        counted: &mut ChunkedState,
        events: &Events,
        progress: &dyn Progress,
    ) -> Result<()> {
        let runs = counted.par_iter_mut().zip(&self.runs);
        runs.try_for_each(|(greedy, run)| {
            let order = self.order[run.clone()].iter();
            let patterns: Vec<&Pattern> = order.map(|&i| &self.patterns[i]).collect();
            let mut walk = Walk::new(events, &patterns, WalkOutput::Counts, 0, i64::MAX, TILE);
            walk.resume(greedy);
            while walk.advance() {
                progress::check(progress, "counting")?;
            }
            *greedy = walk.greedy();
            Ok(())
        })
    }

    /// The counts, in the patterns' order.
    pub(crate) fn counts(&self, counted: ChunkedState) -> Vec<u64> {
        let mut counts = vec![0; self.patterns.len()];
        for (&i, greedy) in self.order.iter().zip(counted.into_iter().flatten()) {
            counts[i] = greedy.count;
        }
        counts
    }
}

impl LongEvents {
    /// Events of the recording that `outline` describes (no spikes needed), cut at the ascending ticks `cuts` from 0
    /// to its length; `read` brings the spikes of ticks [start, stop).
    ///
    /// # Errors
    /// `InvalidArgument` for a signal, or cuts that do not ascend from 0 to the recording's length; as
    /// [`Alphabet::new`].
    pub fn new(
        outline: &Recording,
        cuts: Vec<i64>,
        read: impl FnMut(i64, i64) -> Result<Spikes> + Send + 'static,
    ) -> Result<Self> {
        Self::between(0, outline.ticks, outline, cuts, read)
    }

    pub(super) fn between(
        from: i64,
        to: i64,
        outline: &Recording,
        cuts: Vec<i64>,
        read: impl FnMut(i64, i64) -> Result<Spikes> + Send + 'static,
    ) -> Result<Self> {
        if outline.form == SpikeForm::Signal {
            return Err(Error::argument(
                "episodes are of spikes: expected spike times or counts, got a signal",
            ));
        }
        let ascend = cuts.windows(2).all(|w| w[0] < w[1]);
        if cuts.first() != Some(&from) || cuts.last() != Some(&to) || !ascend {
            return Err(Error::argument(format!(
                "cuts: expected ascending ticks from {from} to {to}, got {} from {:?} to {:?}",
                cuts.len(),
                cuts.first(),
                cuts.last()
            )));
        }
        let clock = Clock::from_tick_seconds(outline.tick_seconds)?;
        let alphabet = Alphabet::new(outline.channel_names.clone(), clock)
            .map_err(|e| e.at("channel_names"))?;
        let mut segments = Vec::new();
        if !is_whole(outline) {
            let gap = gap_ticks(clock)?;
            let mut here = 0;
            for &segment in &outline.segments {
                segments.push((segment, here));
                here += segment.stop - segment.start + gap;
            }
        }
        Ok(Self {
            alphabet,
            segments,
            cuts,
            read: Mutex::new(Box::new(read)),
            seen: Mutex::default(),
        })
    }

    /// Number of events in the last count, which goes through all of them.
    pub fn len(&self) -> u64 {
        self.seen().events
    }

    fn seen(&self) -> PassStats {
        *lock(&self.seen)
    }

    /// Chunks in ticks of the recording.
    pub(crate) fn chunks(&self) -> Vec<Range<i64>> {
        self.cuts.windows(2).map(|w| w[0]..w[1]).collect()
    }

    /// As [`Events::segment_bounds`], once all was counted.
    pub(crate) fn segment_bounds(&self) -> Vec<(i64, i64)> {
        if self.segments.is_empty() {
            return self.seen().ends.into_iter().collect();
        }
        let bounds = |&(s, here): &(Segment, i64)| (here, here + (s.stop - s.start - 1));
        self.segments.iter().map(bounds).collect()
    }

    /// The events of a chunk, of `before` ticks before it and of `behind` after it; `None` if there are none.
    pub(crate) fn around(
        &self,
        chunk: Range<i64>,
        before: i64,
        behind: i64,
    ) -> Result<Option<Events>> {
        let (Some(&first), Some(&last)) = (self.cuts.first(), self.cuts.last()) else {
            return Ok(None);
        };
        let start = chunk.start.saturating_sub(before).max(first);
        let stop = chunk.end.saturating_add(behind).min(last);
        Ok(self.events(start, start, stop)?.0)
    }

    /// The tick here at which a chunk begins or ends in the recording; between segments, the beginning of the next.
    pub(crate) fn tick_here(&self, tick: i64) -> i64 {
        if self.segments.is_empty() {
            return tick;
        }
        let next = self.segments.partition_point(|(s, _)| s.stop <= tick);
        match self.segments.get(next) {
            Some(&(segment, here)) => here + (tick - segment.start).max(0),
            None => i64::MAX,
        }
    }

    /// True before the first count: a count refuses a recording without events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Pattern::check`], against what is known without the events.
    pub(super) fn check(&self, patterns: &[Pattern]) -> Result<()> {
        let gap = match self.segments.len() {
            0 | 1 => None,
            _ => Some(gap_ticks(self.alphabet.clock())?),
        };
        patterns.iter().try_for_each(|pattern| {
            (pattern.check_in(&self.alphabet, gap))
                .map_err(|e| e.at(format!("episode {}", pattern.display(&self.alphabet))))
        })
    }

    /// The events of [start, stop), `None` if there are none, and the number of them at or after `from`; ticks of the
    /// recording.
    pub(super) fn events(&self, start: i64, from: i64, stop: i64) -> Result<(Option<Events>, u64)> {
        let mut spikes = lock(&self.read)(start, stop)?;
        if !spikes.weights.is_empty() {
            spikes = one_each(&spikes)?;
        }
        let mut fresh = spikes.range(from, stop).len() as u64;
        if !self.segments.is_empty() {
            (spikes, fresh) = self.move_spikes(&spikes, from);
        }
        if spikes.ticks.is_empty() {
            return Ok((None, 0));
        }
        let events = Events::new(self.alphabet.clone(), &spikes.ticks, &spikes.channels)?;
        Ok((Some(events), fresh))
    }

    /// The `spikes` that lie in segments, with their ticks here, and the number of them at or after `from`.
    fn move_spikes(&self, spikes: &Spikes, from: i64) -> (Spikes, u64) {
        let (mut ticks, mut channels, mut fresh) = (Vec::new(), Vec::new(), 0);
        let (Some(&first), Some(&last)) = (spikes.ticks.first(), spikes.ticks.last()) else {
            return (Spikes::new(ticks, channels), fresh);
        };
        let skip = self.segments.partition_point(|(s, _)| s.stop <= first);
        let inside = self.segments[skip..].iter();
        for (segment, here) in inside.take_while(|(s, _)| s.start <= last) {
            for i in spikes.range(segment.start, segment.stop) {
                fresh += u64::from(spikes.ticks[i] >= from);
                ticks.push(spikes.ticks[i] - segment.start + here);
                channels.push(spikes.channels[i]);
            }
        }
        (Spikes::new(ticks, channels), fresh)
    }
}

impl Counter for LongEvents {
    fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// One pass over the recording; the stage is `counting`, in patterns.
    fn count(
        &self,
        patterns: &[Pattern],
        _threshold: Option<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<u64>> {
        self.check(patterns)?;
        let counting = ChunkedCount::new(patterns);
        let mut counted = counting.begin();
        let total = patterns.len() as u64;
        let pieces = self.cuts.len() as u64 - 1;
        let mut seen = PassStats::default();
        for (done, cut) in self.cuts.windows(2).enumerate() {
            progress::check(progress, "counting")?;
            let start = cut[0].saturating_sub(counting.span()).max(0);
            let (events, fresh) = self.events(start, cut[0], cut[1])?;
            if let Some(events) = events.filter(|_| fresh > 0) {
                seen.take(&events, fresh);
                counting.go_on(&mut counted, &events, progress)?;
            }
            progress.update("counting", total * (done as u64 + 1) / pieces, total);
        }
        if seen.events == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "no events: expected at least one",
            ));
        }
        *lock(&self.seen) = seen;
        Ok(counting.counts(counted))
    }

    fn ran(&self) -> Ran {
        Ran::on_cpu(LatestStart.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{bursts, random_case, random_cuts, random_segments, reader, recording};
    use crate::count::count;
    use crate::mine::{MineOptions, mine, mine_by};
    use crate::pattern::Interval;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn long(recording: &Recording, cuts: Vec<i64>) -> LongEvents {
        LongEvents::new(recording, cuts, reader(recording)).unwrap()
    }

    #[test]
    fn one_cut_at_every_place_and_a_cut_at_each_equal_the_oracle() {
        for seed in 0..60 {
            let case = random_case(seed, 40, 12);
            let recording = recording(&case.events, Vec::new());
            let expected = case.oracle_counts();
            let one = (1..recording.ticks).map(|at| vec![0, at, recording.ticks]);
            for cuts in one.chain([(0..=recording.ticks).collect()]) {
                let long = long(&recording, cuts.clone());
                let counts = long.count(&case.patterns, None, &()).unwrap();
                assert_eq!(counts, expected, "seed {seed}, cuts {cuts:?}");
                assert_eq!(long.len(), case.events.len() as u64);
            }
        }
    }

    #[test]
    fn bursts_in_chunks_equal_the_whole() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for _ in 0..100 {
            let case = bursts(&mut rng, 100..1500, 30);
            let recording = recording(&case.events, Vec::new());
            let cuts = random_cuts(&mut rng, recording.ticks);
            let counts = long(&recording, cuts).count(&case.patterns, None, &());
            let whole = count(&case.events, &case.patterns);
            assert_eq!(counts.unwrap(), whole.unwrap());
        }
    }

    #[test]
    fn trials_in_chunks_equal_the_whole() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        for seed in 0..200 {
            let case = random_case(seed, 120, 12);
            let mut recording = recording(&case.events, Vec::new());
            recording.segments = random_segments(&mut rng, recording.ticks, 0..3, 1..30);
            let cuts = random_cuts(&mut rng, recording.ticks);
            let counts = long(&recording, cuts).count(&case.patterns, None, &());
            match Events::from_recording(&recording) {
                Ok(whole) => {
                    let expected = count(&whole, &case.patterns).unwrap();
                    assert_eq!(counts.unwrap(), expected, "seed {seed}");
                }
                Err(e) => assert_eq!(counts.unwrap_err().kind(), e.kind()),
            }
        }
    }

    #[test]
    fn the_search_in_chunks_finds_what_the_search_in_memory_finds() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for seed in 0..20 {
            let case = random_case(seed, 150, 0);
            let recording = recording(&case.events, Vec::new());
            let cuts = random_cuts(&mut rng, recording.ticks);
            let intervals = vec![Interval::new(0, 3).unwrap(), Interval::new(2, 5).unwrap()];
            let mut options = MineOptions::new(intervals, 4);
            options.max_size = Some(4);
            let whole = mine(&case.events, &options, &()).unwrap();
            let found = mine_by(&long(&recording, cuts), &options, &()).unwrap();
            assert_eq!(found.episodes, whole.episodes);
            assert!(found.complete);
        }
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let case = random_case(1, 10, 3);
        let mut recording = recording(&case.events, Vec::new());
        let ticks = recording.ticks;
        for cuts in [vec![], vec![0], vec![0, ticks - 1], vec![0, 2, 2, ticks]] {
            let refused = LongEvents::new(&recording, cuts, |_, _| Ok(Spikes::default()));
            let error = refused.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        recording.spikes = Spikes::default();
        let empty = long(&recording, vec![0, ticks]).count(&case.patterns, None, &());
        assert_eq!(empty.unwrap_err().kind(), ErrorKind::InsufficientData);
    }
}
