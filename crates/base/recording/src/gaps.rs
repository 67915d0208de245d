//! Interpolation of behaviour between samples, and gaps that are too long for it.

use std::ops::Range;

use super::align_report::AlignReport;
use super::step_clock::StepClock;
use super::{Behavior, Segment};

/// Default for the longest gap that is interpolated, in sample intervals.
const MAX_GAP_INTERVALS: f64 = 5.0;

/// Lower bound of that default in seconds; movement is smooth over this time at any sampling rate.
const LEAST_MAX_GAP_SECONDS: f64 = 0.15;

/// Samples further apart than this many intervals have missing samples between them.
const MISSING_INTERVALS: f64 = 1.5;

/// Largest number of intervals from which the median is computed.
const MOST_INTERVALS: usize = 4096;

/// Indices of the samples whose following intervals enter the median: all, or evenly spaced ones.
pub(crate) fn sampled_intervals(samples: usize) -> impl Iterator<Item = usize> {
    let intervals = samples.saturating_sub(1);
    let count = intervals.min(MOST_INTERVALS);
    (0..count).map(move |i| (i as u128 * intervals as u128 / count as u128) as usize)
}

/// Median of the `intervals` above 0; `None` if there are none.
pub(crate) fn median_interval(intervals: impl Iterator<Item = f64>) -> Option<f64> {
    let mut intervals: Vec<f64> = intervals.filter(|seconds| *seconds > 0.0).collect();
    let middle = intervals.len().checked_sub(1)? / 2;
    Some(*intervals.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// Median interval between samples at ascending `times`.
pub(crate) fn typical_interval(times: &[f64]) -> Option<f64> {
    median_interval(sampled_intervals(times.len()).map(|i| times[i + 1] - times[i]))
}

/// Limits of the gaps between samples of behaviour, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GapLimits {
    /// Samples further apart have missing samples between them.
    missing: f64,
    /// Longest gap that is interpolated.
    pub(crate) longest: f64,
}

impl GapLimits {
    /// Limits for samples whose usual distance is `interval`. `longest` is explained at
    /// [`AlignOptions::max_gap_seconds`](crate::AlignOptions::max_gap_seconds).
    pub(crate) fn new(interval: Option<f64>, longest: Option<f64>) -> Self {
        let interval = interval.unwrap_or(f64::INFINITY);
        let usual = (MAX_GAP_INTERVALS * interval).max(LEAST_MAX_GAP_SECONDS);
        Self {
            missing: MISSING_INTERVALS * interval,
            longest: longest.unwrap_or(usual),
        }
    }
}

/// Times of samples. Without explicit times, sample i belongs to the end of tick i.
pub(crate) struct SampleClock<'a> {
    times: Option<&'a [f64]>,
    samples: usize,
    first_sample: usize,
    /// Samples without a value, as ascending ranges that do not touch.
    missing: Vec<Range<usize>>,
}

/// Position of a step's end among the samples.
enum Position {
    /// The step ends before the first or after the last sample; the value is the index of the nearest sample.
    Outside(usize),
    /// The step ends at this sample.
    At(usize),
    /// The step ends between two samples; `weight` is that of the second.
    Between {
        before: usize,
        after: usize,
        weight: f64,
    },
}

impl<'a> SampleClock<'a> {
    /// Creates a clock for `samples` samples that start at the recording's sample `first_sample`. `missing` are those
    /// without a value, as ascending ranges that do not touch.
    pub(crate) fn new(
        times: Option<&'a [f64]>,
        samples: usize,
        first_sample: usize,
        missing: Vec<Range<usize>>,
    ) -> Self {
        Self {
            times,
            samples,
            first_sample,
            missing,
        }
    }

    fn time_of(&self, clock: &StepClock, sample: usize) -> f64 {
        match self.times {
            Some(times) => times[sample],
            None => (self.first_sample + sample + 1) as f64 * clock.tick_seconds,
        }
    }

    /// Seconds between two samples.
    fn gap(&self, clock: &StepClock, before: usize, after: usize) -> f64 {
        match self.times {
            Some(times) => times[after] - times[before],
            None => (after - before) as f64 * clock.tick_seconds,
        }
    }

    /// The range of missing samples that contains `sample`.
    fn missing_around(&self, sample: usize) -> Option<&Range<usize>> {
        let at = self.missing.partition_point(|range| range.end <= sample);
        self.missing.get(at).filter(|range| range.start <= sample)
    }

    /// The first sample from `sample` on that has a value; the number of samples if there is none.
    fn with_value_from(&self, sample: usize) -> usize {
        self.missing_around(sample)
            .map_or(sample, |range| range.end)
    }

    /// Position of the end of each of `steps`.
    fn positions(&self, clock: &StepClock, steps: Range<i64>) -> impl Iterator<Item = Position> {
        // Samples with values around the step's end: the last at or before it, the first after it.
        let (mut before, mut after) = self.around(clock, clock.end_seconds(steps.start));
        steps.map(move |step| {
            if let (None, Some(n)) = (self.times, clock.whole) {
                // One sample per tick: the sample of the step's last tick belongs to the step's end.
                return self.position_at(((step + 1) * n) as usize - 1 - self.first_sample);
            }
            let end = clock.end_seconds(step);
            while after < self.samples && self.time_of(clock, after) <= end {
                before = Some(after);
                after = self.with_value_from(after + 1);
            }
            match before {
                Some(before) if self.time_of(clock, before) == end => Position::At(before),
                Some(before) if after < self.samples => {
                    let [t0, t1] = [before, after].map(|i| self.time_of(clock, i));
                    Position::Between {
                        before,
                        after,
                        weight: (end - t0) / (t1 - t0),
                    }
                }
                Some(last) => Position::Outside(last),
                None => Position::Outside(after.min(self.samples.saturating_sub(1))),
            }
        })
    }

    /// The last sample with a value at or before `seconds`, and the first one after.
    fn around(&self, clock: &StepClock, seconds: f64) -> (Option<usize>, usize) {
        let (mut low, mut high) = (0, self.samples);
        while low < high {
            let middle = low.midpoint(high);
            match self.time_of(clock, middle) <= seconds {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let before = low.checked_sub(1);
        let before = before.and_then(|last| match self.missing_around(last) {
            Some(missing) => missing.start.checked_sub(1),
            None => Some(last),
        });
        (before, self.with_value_from(low))
    }

    /// Position of a step that ends at `sample`, which may be missing.
    fn position_at(&self, sample: usize) -> Position {
        let Some(missing) = self.missing_around(sample) else {
            return Position::At(sample);
        };
        let after = missing.end;
        match missing.start.checked_sub(1) {
            Some(before) if after < self.samples => Position::Between {
                before,
                after,
                weight: (sample - before) as f64 / (after - before) as f64,
            },
            Some(last) => Position::Outside(last),
            None => Position::Outside(after.min(self.samples - 1)),
        }
    }

    /// Behaviour at the end of each of `steps`, row-major: in `segments`, which count from the first of `steps`, and 0
    /// elsewhere. The cost is that of the segments.
    pub(crate) fn interpolate(
        &self,
        behavior: &Behavior,
        clock: &StepClock,
        steps: &Range<i64>,
        segments: &[Segment],
    ) -> Vec<f32> {
        let outputs = behavior.outputs.len();
        let row = |i: usize| &behavior.values[i * outputs..(i + 1) * outputs];
        let mut values = vec![0.0; (steps.end - steps.start).max(0) as usize * outputs];
        for segment in segments {
            let here = steps.start + segment.start..steps.start + segment.stop;
            let to = &mut values[segment.start as usize * outputs..][..segment.len() * outputs];
            let rows = to.chunks_exact_mut(outputs.max(1));
            for (to, position) in rows.zip(self.positions(clock, here)) {
                match position {
                    Position::At(i) | Position::Outside(i) => to.copy_from_slice(row(i)),
                    Position::Between {
                        before,
                        after,
                        weight,
                    } => {
                        for (to, (&a, &b)) in to.iter_mut().zip(row(before).iter().zip(row(after)))
                        {
                            let (a, b) = (f64::from(a), f64::from(b));
                            *to = (a + weight * (b - a)) as f32;
                        }
                    }
                }
            }
        }
        values
    }
}

/// Steps that have behaviour, counted from the first step of a part.
pub(crate) struct Coverage {
    /// First step at or after the first sample, first step after the last sample.
    covered: Segment,
    /// Steps inside gaps too long to interpolate: ascending, disjoint.
    gaps: Vec<Segment>,
    /// Steps that are interpolated across missing samples: ascending, disjoint.
    interpolated: Vec<Segment>,
}

impl Coverage {
    /// Computes the coverage by samples of `segments`, which are ascending and count from the first of `steps`. The cost is
    /// that of the segments.
    pub(crate) fn new(
        samples: &SampleClock<'_>,
        clock: &StepClock,
        steps: &Range<i64>,
        segments: &[Segment],
        limits: GapLimits,
    ) -> Self {
        let count = (steps.end - steps.start).max(0);
        let mut coverage = Self {
            covered: Segment {
                start: count,
                stop: 0,
            },
            gaps: Vec::new(),
            interpolated: Vec::new(),
        };
        let positions = segments.iter().flat_map(|segment| {
            let here = steps.start + segment.start..steps.start + segment.stop;
            (segment.start..segment.stop).zip(samples.positions(clock, here))
        });
        for (step, position) in positions {
            if matches!(position, Position::Outside(_)) {
                continue;
            }
            coverage.covered.start = coverage.covered.start.min(step);
            coverage.covered.stop = step + 1;
            let Position::Between { before, after, .. } = position else {
                continue;
            };
            let gap = samples.gap(clock, before, after);
            if gap > limits.longest {
                push(&mut coverage.gaps, step);
            } else if gap > limits.missing {
                push(&mut coverage.interpolated, step);
            }
        }
        coverage
    }

    /// Parts of `segment` that have behaviour; counts the rest in `report`.
    pub(crate) fn clip(&self, segment: Segment, report: &mut AlignReport) -> Vec<Segment> {
        let clipped = Segment {
            start: segment.start.max(self.covered.start),
            stop: segment.stop.min(self.covered.stop),
        };
        report.steps_without_behavior += segment.len() - clipped.len().min(segment.len());
        report.steps_interpolated += within(&self.interpolated, clipped)
            .map(|s| s.len())
            .sum::<usize>();
        let mut parts = Vec::new();
        let mut start = clipped.start;
        for gap in within(&self.gaps, clipped) {
            report.steps_in_gaps += gap.len();
            parts.push(Segment {
                start,
                stop: gap.start,
            });
            start = gap.stop;
        }
        parts.push(Segment {
            start,
            stop: clipped.stop,
        });
        parts.retain(|p| !p.is_empty());
        parts
    }
}

/// Appends `step` to the last of `segments` if it follows directly, else as a new segment.
fn push(segments: &mut Vec<Segment>, step: i64) {
    match segments.last_mut() {
        Some(last) if last.stop == step => last.stop += 1,
        _ => segments.push(Segment {
            start: step,
            stop: step + 1,
        }),
    }
}

/// Parts of ascending `segments` inside `range`.
fn within(segments: &[Segment], range: Segment) -> impl Iterator<Item = Segment> {
    let first = segments.partition_point(|s| s.stop <= range.start);
    let inside = segments[first..]
        .iter()
        .take_while(move |s| s.start < range.stop);
    inside.map(move |s| Segment {
        start: s.start.max(range.start),
        stop: s.stop.min(range.stop),
    })
}
