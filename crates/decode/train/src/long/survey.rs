//! The first pass: where the segments are, which channels fire, and what a usual step is.

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_recording::{Dataset, Segment};

use super::Outline;
use super::words::{Words, put_extremes, put_usual, put_wide};
use crate::centre::channel_sums;
use crate::limits::{Extremes, NO_LABEL, extremes, widen};
use crate::sums::fixed;
use crate::training_data::TrainingData;
use crate::usual_counts::UsualCounts;

/// Counts of a recording between two of its steps; the recording need not stay in memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Survey {
    /// The steps.
    pub(super) steps: Range<i64>,
    /// Segments inside them, in the recording's steps.
    pub(super) segments: Vec<Segment>,
    /// The first segment began before the first step.
    goes_on: bool,
    pub(super) usual: UsualCounts,
    /// One flag per channel: true if it has an entry in a segment.
    pub(super) fires: Vec<bool>,
    pub(super) extremes: Vec<Extremes>,
    /// Sum of each channel's entries inside segments, in units of 2⁻⁶⁴.
    pub(super) levels: Vec<i128>,
    /// Total weight of the entries inside segments, and their number.
    pub(super) spikes: f64,
    pub(super) entries: u64,
    pub(super) weighted: bool,
    pub(super) sample: TrainingData,
}

impl Survey {
    /// Of no step; others are appended to it in order of time.
    pub(super) fn nothing(outline: &Outline) -> Self {
        Self {
            steps: 0..0,
            segments: Vec::new(),
            goes_on: false,
            usual: UsualCounts {
                counts: vec![0; outline.channel_names.len()],
                ..UsualCounts::default()
            },
            fires: vec![false; outline.channel_names.len()],
            extremes: vec![NO_LABEL; outline.outputs.len()],
            levels: vec![0; outline.channel_names.len()],
            spikes: 0.0,
            entries: 0,
            weighted: false,
            sample: TrainingData::default(),
        }
    }

    /// The steps that are read to survey `chunk`: one more, before them, to see whether a segment goes on.
    pub(super) fn reach(chunk: &Range<i64>) -> Range<i64> {
        (chunk.start - 1).max(0)..chunk.end
    }

    /// Of the steps `chunk`, from `data`, its [`reach`](Self::reach).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for entries whose sum whole numbers do not
    /// hold.
    pub(super) fn new(data: &Dataset, chunk: Range<i64>) -> Result<Self> {
        let first = Self::reach(&chunk).start;
        let lead = chunk.start - first;
        let own = |s: &Segment| Segment {
            start: s.start.max(lead),
            stop: s.stop,
        };
        let segments: Vec<Segment> = (data.segments.iter().map(own))
            .filter(|s| !s.is_empty())
            .collect();
        let view = data.view().with_segments(&segments);
        let mut fires = vec![false; data.channels()];
        for s in &segments {
            for &channel in &data.spikes.channels[data.spikes.range(s.start, s.stop)] {
                if let Some(fires) = fires.get_mut(channel as usize) {
                    *fires = true;
                }
            }
        }
        let global = |s: &Segment| Segment {
            start: s.start + first,
            stop: s.stop + first,
        };
        let levels = channel_sums(&view).into_iter().map(fixed::unit_of);
        Ok(Self {
            levels: levels.collect::<Result<_>>()?,
            goes_on: lead > 0
                && data
                    .segments
                    .first()
                    .is_some_and(|s| s.start < lead && s.stop > lead),
            usual: UsualCounts::new(&view),
            fires,
            extremes: extremes(&view),
            spikes: view.spikes_in_segments(),
            entries: view.events_in_segments() as u64,
            weighted: view.spikes.is_weighted(),
            sample: TrainingData::new(view),
            segments: segments.iter().map(global).collect(),
            steps: chunk,
        })
    }

    /// Takes in the survey of the steps that follow.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for one of other steps or of other channels.
    pub(super) fn append(&mut self, next: &Self) -> Result<()> {
        let shape = |s: &Self| (s.fires.len(), s.extremes.len());
        if next.steps.start != self.steps.end || shape(self) != shape(next) {
            return Err(Error::mismatch(format!(
                "a survey: expected that of the steps from {} on, got {}..{}",
                self.steps.end, next.steps.start, next.steps.end
            )));
        }
        self.steps.end = next.steps.end;
        let mut segments = next.segments.iter();
        if next.goes_on
            && let (Some(last), Some(first)) = (self.segments.last_mut(), segments.clone().next())
            && last.stop == first.start
        {
            last.stop = first.stop;
            segments.next();
        }
        self.segments.extend(segments);
        self.usual.add(&next.usual);
        let both = self.fires.iter_mut().zip(&next.fires);
        both.for_each(|(fires, too)| *fires |= too);
        widen(&mut self.extremes, next.extremes.iter().copied());
        let levels = self.levels.iter_mut().zip(&next.levels);
        levels.for_each(|(level, more)| *level = level.saturating_add(*more));
        self.spikes += next.spikes;
        self.entries += next.entries;
        self.weighted |= next.weighted;
        self.sample.merge(&next.sample);
        Ok(())
    }

    /// All of it, to be sent.
    pub(super) fn to_words(&self) -> Vec<u64> {
        let mut to = vec![self.steps.start as u64, self.steps.end as u64];
        to.push(self.segments.len() as u64);
        let bounds = self.segments.iter().flat_map(|s| [s.start, s.stop]);
        to.extend(bounds.map(|step| step as u64));
        to.push(u64::from(self.goes_on));
        put_usual(&mut to, &self.usual);
        to.push(self.fires.len() as u64);
        to.extend(self.fires.iter().map(|&fires| u64::from(fires)));
        put_extremes(&mut to, &self.extremes);
        put_wide(&mut to, &self.levels);
        to.extend([
            self.spikes.to_bits(),
            self.entries,
            u64::from(self.weighted),
        ]);
        let sample = self.sample.to_words();
        to.push(sample.len() as u64);
        to.extend(sample);
        to
    }

    /// The inverse of [`to_words`](Self::to_words).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for words that are no survey.
    pub(super) fn from_words(words: &[u64]) -> Result<Self> {
        let mut from = Words(words);
        let steps = from.next()? as i64..from.next()? as i64;
        let segments = (0..from.count(2)?).map(|_| {
            Ok(Segment {
                start: from.next()? as i64,
                stop: from.next()? as i64,
            })
        });
        Ok(Self {
            segments: segments.collect::<Result<_>>()?,
            steps,
            goes_on: from.next()? != 0,
            usual: from.usual()?,
            fires: (0..from.count(1)?)
                .map(|_| Ok(from.next()? != 0))
                .collect::<Result<_>>()?,
            extremes: from.extremes()?,
            levels: from.wide()?,
            spikes: from.f64()?,
            entries: from.next()?,
            weighted: from.next()? != 0,
            sample: {
                let words: Result<Vec<u64>> = (0..from.count(1)?).map(|_| from.next()).collect();
                TrainingData::from_words(&words?)
            },
        })
    }
}
