//! Counting by shards of time, apart from each other: each reports the amount it adds, as a function of the past.

mod bytes;
mod part;
#[cfg(test)]
mod tests;

#[cfg(feature = "npz")]
use std::path::Path;

use rayon::prelude::*;

use super::latest_start::runs;
use super::long::LongEvents;
use super::passage::{Passage, PassageBuilder};
use super::walk::{TILE, Walk, WalkOutput};
use crate::alphabet::Alphabet;
use crate::events::Events;
use crate::pattern::Pattern;
use betz_base::error::{Error, Result};
use betz_base::progress::{self, Progress};
#[cfg(feature = "npz")]
use betz_base::team::Shard;
#[cfg(feature = "npz")]
use betz_recording::Stretches;
use betz_recording::{Recording, Spikes};

pub use bytes::PART_MAGIC;
pub use part::{CountPart, JoinedCounts};

/// Most bytes that one event of a chunk takes while it is read, moved and indexed.
#[cfg(feature = "npz")]
const BYTES_PER_EVENT: u64 = 64;

/// Times at which choices that began differently are compared, in spans of the longest pattern: from there on the
/// shorter way counts those that go on alike.
const LOOKS: [i64; 2] = [2, 16];

/// The events of one shard of a recording, for counts to which other shards add.
pub struct ShardEvents {
    long: LongEvents,
    outline: Recording,
}

impl ShardEvents {
    /// As [`LongEvents::new`], with `cuts` from the shard's beginning to its end; a single cut is a shard of no time.
    ///
    /// # Errors
    /// As [`LongEvents::new`]; `InvalidArgument` for no cut, or one outside the recording.
    pub fn new(
        outline: &Recording,
        cuts: Vec<i64>,
        read: impl FnMut(i64, i64) -> Result<Spikes> + Send + 'static,
    ) -> Result<Self> {
        let (from, to) = match (cuts.first(), cuts.last()) {
            (Some(&from), Some(&to)) if from >= 0 && to <= outline.ticks => (from, to),
            ends => {
                return Err(Error::argument(format!(
                    "cuts of a shard: expected ticks from 0 to {}, got {ends:?}",
                    outline.ticks
                )));
            }
        };
        Ok(Self {
            long: LongEvents::between(from, to, outline, cuts, read)?,
            outline: outline.clone(),
        })
    }

    /// The events of `shard` of the time of the `.npz` recording at `path`, read in chunks of about `memory` bytes, and the
    /// recording's fingerprint.
    ///
    /// # Errors
    /// As [`Stretches::open`] and [`new`](Self::new).
    #[cfg(feature = "npz")]
    pub fn open(path: &Path, shard: Shard, memory: u64) -> Result<(Self, u64)> {
        let mut stretches = Stretches::open(path)?;
        let recording = stretches.fingerprint()?;
        let outline = stretches.outline().clone();
        let own = shard.among(usize::try_from(outline.ticks).unwrap_or(0));
        let most = (memory / BYTES_PER_EVENT).max(1);
        let cuts = stretches.cut_between(own.start as i64..own.end as i64, most)?;
        let events = Self::new(&outline, cuts, move |a, b| stretches.spikes(a, b))
            .map_err(|e| e.at(path.display()))?;
        Ok((events, recording))
    }

    /// Labels and clock.
    pub fn alphabet(&self) -> &Alphabet {
        &self.long.alphabet
    }

    /// The recording, without spikes.
    pub fn outline(&self) -> &Recording {
        &self.outline
    }

    /// First tick of the recording in the shard, and first after it.
    pub fn ticks(&self) -> (i64, i64) {
        let cuts = &self.long.cuts;
        (cuts[0], cuts[cuts.len() - 1])
    }

    /// The passage of each pattern through the shard, and the number of events in it. Reads the shard once, and as much
    /// before it as the longest pattern can last. The stage is `counting`, in patterns.
    ///
    /// # Errors
    /// `Mismatch` for a pattern that does not fit; `Interrupted`; those of reading.
    pub fn pass(
        &self,
        patterns: &[Pattern],
        progress: &dyn Progress,
    ) -> Result<(Vec<Passage>, u64)> {
        self.long.check(patterns)?;
        let order = Pattern::prefix_order(patterns);
        let runs = runs(patterns, &order, rayon::current_num_threads());
        let mut states: Vec<Vec<PassageBuilder>> = Vec::new();
        let span = patterns.iter().map(Pattern::span).max().unwrap_or(0);
        let cuts = self.cuts(span);
        let total = patterns.len() as u64;
        let pieces = cuts.len() as u64 - 1;
        let mut seen = 0;
        for (done, cut) in cuts.windows(2).enumerate() {
            progress::check(progress, "counting")?;
            let start = cut[0].saturating_sub(span).max(0);
            let (events, fresh) = self.long.events(start, cut[0], cut[1])?;
            seen += fresh;
            if let Some(events) = events.filter(|_| fresh > 0) {
                let first = events.stream()[events.len() - fresh as usize];
                let from = events.unpack(first).0;
                if states.is_empty() {
                    let new = |run: &&[usize]| vec![PassageBuilder::new(from); run.len()];
                    states = runs.iter().map(new).collect();
                }
                // Every occurrence that ends in this piece began in the shard.
                let inside = cut[0] - cuts[0] >= span;
                states
                    .par_iter_mut()
                    .zip(&runs)
                    .try_for_each(|(state, run)| {
                        let patterns: Vec<&Pattern> = run.iter().map(|&i| &patterns[i]).collect();
                        let chunk = Chunk {
                            events: &events,
                            from,
                            inside,
                        };
                        go_on(chunk, &patterns, state, progress)
                    })?;
            }
            progress.update("counting", total * (done as u64 + 1) / pieces, total);
        }
        let mut passages = vec![Passage::none(); patterns.len()];
        for (i, passing) in order.into_iter().zip(states.iter().flatten()) {
            passages[i] = passing.passage();
        }
        Ok((passages, seen))
    }

    /// The shard's cuts, and those at which choices are compared.
    fn cuts(&self, span: i64) -> Vec<i64> {
        let (from, to) = self.ticks();
        let looks = LOOKS.map(|spans| from.saturating_add(span.saturating_mul(spans)));
        let looks = looks.into_iter().filter(|look| from < *look && *look < to);
        let mut cuts: Vec<i64> = self.long.cuts.iter().copied().chain(looks).collect();
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }
}

/// A chunk of a shard.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    events: &'a Events,
    /// Occurrences that end at this tick or later belong to the shard.
    from: i64,
    /// True if all of them began after the shard did.
    inside: bool,
}

/// Takes `state` of `patterns`, sorted by prefix, through the occurrences of `chunk`.
fn go_on(
    chunk: Chunk<'_>,
    patterns: &[&Pattern],
    state: &mut [PassageBuilder],
    progress: &dyn Progress,
) -> Result<()> {
    let Chunk {
        events,
        from,
        inside,
    } = chunk;
    let settled = |p: &usize| inside && state[*p].settled_choice().is_some();
    let (alike, apart): (Vec<usize>, Vec<usize>) = (0..patterns.len()).partition(settled);
    let of = |chosen: &[usize]| -> Vec<&Pattern> { chosen.iter().map(|&p| patterns[p]).collect() };
    let to_end = |walk: &mut Walk<'_>| {
        while walk.advance() {
            progress::check(progress, "counting")?;
        }
        Ok::<(), Error>(())
    };
    if !alike.is_empty() {
        let greedy: Vec<_> = (alike.iter())
            .filter_map(|&p| state[p].settled_choice())
            .collect();
        let mut walk = Walk::new(events, &of(&alike), WalkOutput::Counts, 0, i64::MAX, TILE);
        walk.resume(&greedy);
        to_end(&mut walk)?;
        for (&p, greedy) in alike.iter().zip(walk.greedy()) {
            state[p].go_on(greedy);
        }
    }
    if !apart.is_empty() {
        let mut walk = Walk::new(
            events,
            &of(&apart),
            WalkOutput::Passages,
            from,
            i64::MAX,
            TILE,
        );
        walk.resume_passing(apart.iter().map(|&p| &state[p]));
        to_end(&mut walk)?;
        for (&p, passing) in apart.iter().zip(walk.passing()) {
            state[p] = passing.clone();
        }
    }
    Ok(())
}
