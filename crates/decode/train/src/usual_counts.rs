//! Statistics of usual steps, which say what an artefact is, and what a channel usually holds.

use std::collections::BTreeMap;

use super::blank::Artefacts;
use super::step_totals::{counts, histogram, is_signal, limit_of};
use betz_recording::DatasetView;
use betz_runtime::model::Blanking;

/// Statistics of usual steps. They add up over recordings, in any order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UsualCounts {
    /// Entries are values of a signal: there is no blanking.
    pub(crate) signal: bool,
    /// Histogram: number of steps per number of spikes over all channels.
    pub(crate) histogram: BTreeMap<u64, u64>,
    /// Spikes, one per channel.
    pub(crate) counts: Vec<u64>,
}

impl UsualCounts {
    /// Counts of `data`, which holds no artefacts ([`CleanData`](super::blank::CleanData)).
    pub(crate) fn new(data: &DatasetView<'_>) -> Self {
        if is_signal(data) {
            return Self {
                signal: true,
                histogram: BTreeMap::new(),
                counts: vec![0; data.channels()],
            };
        }
        Self {
            signal: false,
            histogram: histogram(data, &vec![true; data.channels()]),
            counts: counts(data, |_| true),
        }
    }

    /// The same without a histogram, so that no step is an artefact for a decoder.
    pub(crate) fn without_limit(mut self) -> Self {
        self.histogram.clear();
        self
    }

    /// True if no step is an artefact for a decoder, whatever it holds. (Steps without spikes are in the histogram.)
    pub(crate) fn has_no_limit(&self) -> bool {
        !self.signal && self.histogram.is_empty()
    }

    /// The most spikes of a usual step; `None` where there are too few to tell, or of a signal.
    pub(crate) fn most(&self) -> Option<u64> {
        limit_of(&self.histogram).filter(|_| !self.signal)
    }

    /// The artefacts among these steps; none in a signal.
    pub(crate) fn artefacts(&self) -> Artefacts {
        match self.signal {
            true => Artefacts::default(),
            false => Artefacts::new(&self.histogram),
        }
    }

    /// Adds those of other recordings with as many channels.
    pub(crate) fn add(&mut self, other: &Self) {
        self.signal |= other.signal;
        for (count, steps) in &other.histogram {
            let all = self.histogram.entry(*count).or_insert(0);
            *all = all.saturating_add(*steps);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// [`blanking`](super::blank::blanking) for a decoder in which the channels take part for which `takes_part` is true.
    pub(crate) fn blanking(&self, takes_part: &[bool]) -> Option<Blanking> {
        if self.signal {
            return None;
        }
        let steps: u64 = self.histogram.values().sum();
        let mean = |count: &u64| (*count as f64 / steps.max(1) as f64).min(f64::from(u16::MAX));
        let means = self.counts.iter().map(mean).zip(takes_part);
        let gone: f64 = means.clone().filter(|(_, t)| !**t).map(|(m, _)| m).sum();
        Some(Blanking {
            least: 0,
            most: limit_of(&self.histogram)?.saturating_sub(gone.floor() as u64),
            mean_counts: means.map(|(m, t)| if *t { m } else { 0.0 }).collect(),
        })
    }
}
