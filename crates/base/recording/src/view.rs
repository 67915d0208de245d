//! A borrowed dataset, in whole or in part.

use std::ops::Range;

use super::{Dataset, OutputInfo, Segment, Spikes};

/// Input of training, decoding and scoring: a [`Dataset`]'s fields, each borrowed separately. Copying a view copies
/// references only. So a fold is the same view with other segments, and a caller can pass arrays without making a
/// `Dataset`.
///
/// Functions that take `impl Into<DatasetView<'_>>` also take `&Dataset`.
///
/// ```
/// use betz_recording::{DatasetView, Segment, SpikesView};
///
/// let (ticks, channels) = ([2, 5, 7], [0, 1, 0]);
/// let names = ["a".to_owned(), "b".to_owned()];
/// let whole = DatasetView {
///     step_seconds: 0.001,
///     steps: 10,
///     channel_names: &names,
///     spikes: SpikesView::new(&ticks, &channels),
///     segments: &[Segment { start: 0, stop: 10 }],
///     outputs: &[],
///     behavior: &[],
/// };
/// let fold = [Segment { start: 4, stop: 8 }];
/// let part = whole.with_segments(&fold);
/// assert_eq!((part.steps_in_segments(), part.spikes_in_segments()), (4, 2.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DatasetView<'a> {
    /// Length of one step in seconds.
    pub step_seconds: f64,
    /// Number of steps.
    pub steps: usize,
    /// One name per channel, all different.
    pub channel_names: &'a [String],
    /// Spikes in steps, ascending; all inside `0..steps`. Spikes outside every segment are ignored.
    pub spikes: SpikesView<'a>,
    /// Trials in steps, half-open, ascending, disjoint, never empty.
    pub segments: &'a [Segment],
    /// One entry per output, names all different; empty when no behaviour was recorded.
    pub outputs: &'a [OutputInfo],
    /// Behaviour, row-major (steps, outputs); finite inside segments. Empty without behaviour.
    pub behavior: &'a [f32],
}

/// Spikes as events in ascending tick order: event i has the tick `ticks[i]`, the channel `channels[i]` and the weight
/// `weights[i]`.
///
/// An event is one spike unless it has a weight: the number of spikes in a bin, or the value of a sample. Events of the
/// same channel and tick add up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct SpikesView<'a> {
    /// Ticks from the start, ascending.
    pub ticks: &'a [i64],
    /// Channel of each event.
    pub channels: &'a [u32],
    /// Weight of each event; empty: every weight is 1.
    pub weights: &'a [f32],
}

impl<'a> SpikesView<'a> {
    /// Events with indices in `range`.
    ///
    /// # Panics
    /// Panics if `range` extends beyond the end.
    pub fn part(&self, range: Range<usize>) -> Self {
        Self {
            ticks: &self.ticks[range.clone()],
            channels: &self.channels[range.clone()],
            weights: match self.is_weighted() {
                true => &self.weights[range],
                false => &[],
            },
        }
    }

    /// Creates one spike per tick of `ticks`, on the channel at the same index. [`SpikesView::check`] checks that the
    /// lists fit together.
    pub const fn new(ticks: &'a [i64], channels: &'a [u32]) -> Self {
        Self {
            ticks,
            channels,
            weights: &[],
        }
    }

    /// Creates events with `weights`: one weight per tick of `ticks`, or none if every weight is 1.
    pub const fn weighted(ticks: &'a [i64], channels: &'a [u32], weights: &'a [f32]) -> Self {
        Self {
            ticks,
            channels,
            weights,
        }
    }

    /// True if events have weights.
    pub const fn is_weighted(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Weight of event `i`.
    #[inline(always)]
    pub fn weight(&self, i: usize) -> f32 {
        self.weights.get(i).copied().unwrap_or(1.0)
    }

    /// Number of spikes: the sum of all weights.
    pub fn total(&self) -> f64 {
        self.total_of(0..self.len())
    }

    /// Sum of the weights of the events `range`.
    pub(crate) fn total_of(&self, range: Range<usize>) -> f64 {
        match self.is_weighted() {
            true => self.weights[range].iter().map(|&w| f64::from(w)).sum(),
            false => range.len() as f64,
        }
    }

    /// Number of events.
    pub const fn len(&self) -> usize {
        self.ticks.len()
    }

    /// True if there are no events.
    pub const fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// Indices of the events with `start <= tick < stop`. Two binary searches.
    pub fn range(&self, start: i64, stop: i64) -> Range<usize> {
        let first = self.ticks.partition_point(|&t| t < start);
        let last = self.ticks.partition_point(|&t| t < stop);
        first..last.max(first)
    }
}

impl<'a> DatasetView<'a> {
    /// Number of channels.
    pub const fn channels(&self) -> usize {
        self.channel_names.len()
    }

    /// Number of steps inside segments.
    pub fn steps_in_segments(&self) -> usize {
        self.segments.iter().map(Segment::len).sum()
    }

    /// Number of spikes inside segments: the sum of their weights.
    pub fn spikes_in_segments(&self) -> f64 {
        let inside = |s: &Segment| self.spikes.total_of(self.spikes.range(s.start, s.stop));
        self.segments.iter().map(inside).sum()
    }

    /// Number of events inside segments, which determines the cost of walking over the spikes.
    pub fn events_in_segments(&self) -> usize {
        let inside = |s: &Segment| self.spikes.range(s.start, s.stop).len();
        self.segments.iter().map(inside).sum()
    }

    /// Returns the view with other segments, such as a fold or a held-out part.
    #[must_use]
    pub const fn with_segments(self, segments: &'a [Segment]) -> Self {
        Self { segments, ..self }
    }
}

impl Spikes {
    /// Borrows all spikes.
    pub fn view(&self) -> SpikesView<'_> {
        SpikesView::weighted(&self.ticks, &self.channels, &self.weights)
    }
}

impl Dataset {
    /// Borrows the whole dataset.
    pub fn view(&self) -> DatasetView<'_> {
        DatasetView {
            step_seconds: self.step_seconds,
            steps: self.steps,
            channel_names: &self.channel_names,
            spikes: self.spikes.view(),
            segments: &self.segments,
            outputs: &self.outputs,
            behavior: &self.behavior,
        }
    }
}

impl<'a> From<&'a Dataset> for DatasetView<'a> {
    fn from(data: &'a Dataset) -> Self {
        data.view()
    }
}

impl<'a> From<&DatasetView<'a>> for DatasetView<'a> {
    fn from(view: &DatasetView<'a>) -> Self {
        *view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_counts_what_its_dataset_does_and_refuses_what_it_does() {
        let mut spikes = Spikes::new(vec![0, 3, 3, 9], vec![0, 1, 1, 0]);
        for (start, stop) in [(0, 10), (1, 3), (3, 4), (5, 2), (-7, 100)] {
            assert_eq!(spikes.view().range(start, stop), spikes.range(start, stop));
        }
        assert_eq!(spikes.view().len(), 4);
        for (ticks, channels) in [(10, 2), (9, 2), (10, 1)] {
            let expected = spikes.check(ticks, channels);
            assert_eq!(spikes.view().check(ticks, channels), expected);
            assert_eq!(expected.is_ok(), (ticks, channels) == (10, 2));
        }
        for (weights, at) in [
            (vec![1.0; 3], None),
            (vec![1.0, f32::NAN, 1.0, 2.0], Some(1)),
        ] {
            spikes.weights = weights;
            assert_eq!(spikes.check(10, 2).unwrap_err().position(), at);
        }
        spikes.weights = Vec::new();
        let names = ["a", "b"].map(String::from);
        let view = DatasetView {
            step_seconds: 0.5,
            steps: 10,
            channel_names: &names,
            spikes: spikes.view(),
            segments: &[Segment { start: 0, stop: 4 }],
            outputs: &[],
            behavior: &[],
        };
        assert_eq!(view.spikes_in_segments(), 3.0);
        let late = [Segment { start: 4, stop: 10 }];
        assert_eq!(view.with_segments(&late).spikes_in_segments(), 1.0);
        assert!(view.check_names().is_ok());
        let weights = [1.0, 20.0, 0.5, 7.0];
        let weighted = SpikesView::weighted(&[0, 3, 3, 9], &[0, 1, 1, 0], &weights);
        let view = DatasetView {
            spikes: weighted,
            ..view
        };
        assert_eq!(view.spikes_in_segments(), 21.5);
        assert_eq!(view.events_in_segments(), 3);
        let twice = ["a", "a"].map(String::from);
        let view = DatasetView {
            channel_names: &twice,
            ..view
        };
        assert_eq!(view.check_names().unwrap_err().position(), Some(1));
    }
}
