//! One chunk of a training: read with what lies around it, and summed or scored.

use std::ops::Range;

use betz_base::error::Result;
use betz_recording::{Dataset, DatasetView, Segment};
use betz_runtime::model::Decoder;

use super::job::{Chunk, Job, Pass};
use super::partial::{Facts, Group};
use crate::blank::CleanData;
use crate::centre::without_means;
use crate::device::normal_equations;
use crate::folds::Part;
use crate::limits::extremes;
use crate::usual_counts::UsualCounts;
use betz_gram::decode::decode;
use betz_gram::gram::{NormalEquations, paired_steps};
use betz_gram::largest_response;
use betz_gram::score::ScoreSums;

/// Steps behind a chunk in which an artefact's nearest usual step is looked for.
const BEHIND: i64 = 1_000;

/// A chunk in memory, with what lies around it.
struct ChunkWithMargins {
    data: Dataset,
    /// The recording's number of its first step.
    first: i64,
    artefacts: u64,
}

/// A piece of a group inside a chunk: its steps, where its filters start from rest, and the segment or part that
/// it is of.
#[derive(Debug, Clone, Copy)]
struct Piece {
    group: usize,
    own: Segment,
    from: i64,
    of: Segment,
}

impl Job {
    /// Adds what a chunk is worth to the sums `to` of a pass' groups, and to the facts; `data` is its
    /// [`reach`](Self::reach).
    ///
    /// # Errors
    /// As [`Sums::over`](crate::sums::Sums::over) for values that whole numbers do not hold.
    pub(super) fn add(
        &self,
        facts: &mut Facts,
        to: &mut [Group],
        data: Dataset,
        chunk: &Chunk,
        pass: &Pass,
    ) -> Result<()> {
        let pieces = self.pieces(&pass.parts, &chunk.steps);
        let around = self.around(data, &chunk.steps, &pieces)?;
        let bank = &self.banks[pass.bank];
        let view = around.data.view();
        if chunk.counted {
            let own = around.own(&self.survey.segments, &chunk.steps);
            let own = view.with_segments(&own);
            facts.usual.add(&UsualCounts::new(&own));
            crate::limits::widen(&mut facts.extremes, extremes(&own).into_iter());
            facts.artefacts += around.artefacts;
            facts.spikes += own.spikes_in_segments().abs().round() as u64;
        }
        if self.wants_largest() {
            for piece in &pieces {
                let piece = [around.local(piece.from, piece.own.stop)];
                let largest = largest_response(view.with_segments(&piece), bank);
                facts.largest = facts.largest.max(largest);
            }
        }
        // Pieces of a group that start from rest are summed as one.
        for (group, to) in to.iter_mut().enumerate() {
            let mine = pieces.iter().filter(|p| p.group == group);
            let at_rest = mine.clone().filter(|p| p.from == p.own.start);
            let at_rest: Vec<Segment> = at_rest
                .map(|p| around.local(p.own.start, p.own.stop))
                .collect();
            if !at_rest.is_empty() {
                to.add(&self.equations(view.with_segments(&at_rest), facts)?)?;
            }
            for piece in mine.filter(|p| p.from < p.own.start) {
                let [all, lead] =
                    [piece.own.stop, piece.own.start].map(|stop| [around.local(piece.from, stop)]);
                to.add(&self.equations(view.with_segments(&all), facts)?)?;
                to.subtract(&self.equations(view.with_segments(&lead), facts)?)?;
            }
        }
        Ok(())
    }

    fn equations(&self, data: DatasetView<'_>, facts: &mut Facts) -> Result<NormalEquations> {
        if data.events_in_segments() == 0
            || data
                .segments
                .iter()
                .all(|s| paired_steps(s, self.options.delay_steps).is_none())
        {
            return self.of_no_spike(data, facts.shape);
        }
        let bank = facts.bank;
        let path = facts.path.unwrap_or(self.gram(bank));
        let paths = self.paths[bank].taken(path);
        let found = normal_equations(
            &self.placement,
            paths,
            &data,
            &self.options,
            &self.banks[bank],
            &(),
        )?;
        facts.path.get_or_insert(found.path);
        Ok(found.sums)
    }

    /// Sums where nothing fires: those of the behaviour alone.
    fn of_no_spike(
        &self,
        data: DatasetView<'_>,
        (features, outputs): (usize, usize),
    ) -> Result<NormalEquations> {
        let mut sums = NormalEquations::zeros(features, outputs);
        let delay = self.options.delay_steps;
        for (first, stop) in data.segments.iter().filter_map(|s| paired_steps(s, delay)) {
            sums.steps += (stop - first) as u64;
            let rows = (first - delay) as usize * outputs..(stop - delay) as usize * outputs;
            for row in data.behavior[rows].chunks_exact(outputs) {
                for (o, &value) in row.iter().enumerate() {
                    sums.output_sum[o] += f64::from(value);
                    sums.output_sq_sum[o] += f64::from(value).powi(2);
                }
            }
        }
        Ok(sums)
    }

    /// The pieces of `groups` inside `chunk`.
    fn pieces(&self, groups: &[Vec<Part>], chunk: &Range<i64>) -> Vec<Piece> {
        let lead = self.lead();
        let mut pieces = Vec::new();
        for (group, parts) in groups.iter().enumerate() {
            let first = parts.partition_point(|p| p.segment.stop <= chunk.start);
            let here = parts[first..]
                .iter()
                .take_while(|p| p.segment.start < chunk.end);
            pieces.extend(here.map(|part| {
                let own = Segment {
                    start: part.segment.start.max(chunk.start),
                    stop: part.segment.stop.min(chunk.end),
                };
                let from = match own.start == part.segment.start {
                    true => part.from,
                    false => part.from.max(own.start - lead),
                };
                Piece {
                    group,
                    own,
                    from,
                    of: part.segment,
                }
            }));
        }
        pieces
    }

    /// The steps that are read for `chunk`: itself, and what the pieces of `groups` in it need before and behind it.
    pub(super) fn reach(&self, groups: &[Vec<Part>], chunk: &Range<i64>) -> Range<i64> {
        self.reach_of(chunk, &self.pieces(groups, chunk))
    }

    fn reach_of(&self, chunk: &Range<i64>, pieces: &[Piece]) -> Range<i64> {
        let delay = self.options.delay_steps.abs();
        let from = pieces.iter().map(|p| p.from).min().unwrap_or(chunk.start);
        let first = (from.min(chunk.start - delay)).max(0);
        let stop = chunk
            .end
            .saturating_add(BEHIND.max(delay))
            .min(self.outline.steps);
        first..stop
    }

    /// `data`, the reach of `chunk`, without artefacts and silent channels.
    fn around(
        &self,
        mut data: Dataset,
        chunk: &Range<i64>,
        pieces: &[Piece],
    ) -> Result<ChunkWithMargins> {
        let first = self.reach_of(chunk, pieces).start;
        if let Some(active) = &self.active {
            let mut number = vec![u32::MAX; self.outline.channel_names.len()];
            for (new, &channel) in active.iter().enumerate() {
                number[channel as usize] = new as u32;
            }
            retain(&mut data.spikes, &number);
            data.channel_names.clone_from(&self.names);
        }
        if let Some(means) = &self.means {
            data = without_means(&data.view(), means)?;
        }
        let (mut artefacts, view) = (0, data.view());
        if let Some(most) = self.most {
            let found = CleanData::beyond(&view, most, (chunk.start - first)..(chunk.end - first))?;
            artefacts = found.artefacts.steps;
            if let Some(spikes) = found.into_spikes() {
                data.spikes = spikes;
            }
        }
        Ok(ChunkWithMargins {
            data,
            first,
            artefacts,
        })
    }

    /// Residuals of the folds' decoders on their held-out steps in `chunk`, one per output. `parts` are the steps of
    /// each fold; `data` is the chunk's [`reach`](Self::reach).
    ///
    /// # Errors
    /// Returns the errors of decoding.
    pub(super) fn score(
        &self,
        decoders: &[Decoder],
        data: Dataset,
        chunk: &Range<i64>,
        parts: &[Vec<Part>],
    ) -> Result<Vec<ScoreSums>> {
        let outputs = self.outline.outputs.len();
        let pieces = self.pieces(parts, chunk);
        let around = self.around(data, chunk, &pieces)?;
        let mut sums = vec![ScoreSums::default(); outputs];
        let delay = self.options.delay_steps;
        for piece in &pieces {
            let Some((first, stop)) = paired_steps(&piece.of, delay) else {
                continue;
            };
            let (first, stop) = (first.max(piece.own.start), stop.min(piece.own.stop));
            if first >= stop {
                continue;
            }
            let within = [around.local(piece.from, piece.own.stop)];
            let view = around.data.view().with_segments(&within);
            let decoded = decode(&decoders[piece.group], view)?;
            let rows = |from: i64, to: i64| {
                (from - around.first) as usize * outputs..(to - around.first) as usize * outputs
            };
            let truth = &around.data.behavior[rows(first - delay, stop - delay)];
            let here = betz_gram::score::sums_of(outputs, truth, &decoded[rows(first, stop)]);
            sums.iter_mut()
                .zip(&here)
                .for_each(|(all, here)| all.join(here));
        }
        Ok(sums)
    }
}

impl ChunkWithMargins {
    /// A chunk of the recording in the steps at hand.
    fn local(&self, start: i64, stop: i64) -> Segment {
        Segment {
            start: start - self.first,
            stop: stop - self.first,
        }
    }

    /// The segments inside `chunk`, in the steps at hand.
    fn own(&self, segments: &[Segment], chunk: &Range<i64>) -> Vec<Segment> {
        let first = segments.partition_point(|s| s.stop <= chunk.start);
        let here = segments[first..].iter().take_while(|s| s.start < chunk.end);
        here.map(|s| self.local(s.start.max(chunk.start), s.stop.min(chunk.end)))
            .collect()
    }
}

/// Keeps the entries of channels that have a number, by it.
pub(super) fn retain(spikes: &mut betz_recording::Spikes, number: &[u32]) {
    let mut kept = 0;
    for i in 0..spikes.len() {
        let new = number
            .get(spikes.channels[i] as usize)
            .copied()
            .unwrap_or(u32::MAX);
        if new != u32::MAX {
            spikes.ticks[kept] = spikes.ticks[i];
            spikes.channels[kept] = new;
            if let Some(&weight) = spikes.weights.get(i) {
                spikes.weights[kept] = weight;
            }
            kept += 1;
        }
    }
    spikes.ticks.truncate(kept);
    spikes.channels.truncate(kept);
    spikes.weights.truncate(kept);
}
