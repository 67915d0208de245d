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
}

/// Position of a step's end among the samples.
enum Position {
    /// The step ends before the first or after the last sample; the value is the index of the nearest sample.
    Outside(usize),
    /// The step ends at this sample.
    At(usize),
    /// The step ends between this sample and the one before it.
    Before(usize),
}

impl<'a> SampleClock<'a> {
    /// Creates a clock for `samples` samples that start at the recording's sample `first_sample`.
    pub(crate) fn new(times: Option<&'a [f64]>, samples: usize, first_sample: usize) -> Self {
        Self {
            times,
            samples,
            first_sample,
        }
    }

    fn time_of(&self, clock: &StepClock, sample: usize) -> f64 {
        match self.times {
            Some(times) => times[sample],
            None => (self.first_sample + sample + 1) as f64 * clock.tick_seconds,
        }
    }

    /// Position of the end of each of `steps`.
    fn positions(&self, clock: &StepClock, steps: &Range<i64>) -> impl Iterator<Item = Position> {
        // Index of the first sample after the step's end.
        let mut after = 0;
        steps.clone().map(move |step| {
            if let (None, Some(n)) = (self.times, clock.whole) {
                // One sample per tick: the sample of the step's last tick belongs to the step's end.
                return Position::At(((step + 1) * n) as usize - 1 - self.first_sample);
            }
            let end = clock.end_seconds(step);
            while after < self.samples && self.time_of(clock, after) <= end {
                after += 1;
            }
            if after > 0 && self.time_of(clock, after - 1) == end {
                Position::At(after - 1)
            } else if after > 0 && after < self.samples {
                Position::Before(after)
            } else {
                Position::Outside(after.saturating_sub(1))
            }
        })
    }

    /// Behaviour at the end of each of `steps`, row-major; outside the samples, that of the nearest sample.
    pub(crate) fn interpolate(
        &self,
        behavior: &Behavior,
        clock: &StepClock,
        steps: &Range<i64>,
    ) -> Vec<f32> {
        let outputs = behavior.outputs.len();
        let row = |i: usize| &behavior.values[i * outputs..(i + 1) * outputs];
        let mut values = Vec::with_capacity((steps.end - steps.start).max(0) as usize * outputs);
        for (step, position) in steps.clone().zip(self.positions(clock, steps)) {
            match position {
                Position::At(i) | Position::Outside(i) => values.extend_from_slice(row(i)),
                Position::Before(after) => {
                    let [t0, t1] = [after - 1, after].map(|i| self.time_of(clock, i));
                    let weight = (clock.end_seconds(step) - t0) / (t1 - t0);
                    let between = |(&a, &b): (&f32, &f32)| {
                        (f64::from(a) + weight * (f64::from(b) - f64::from(a))) as f32
                    };
                    values.extend(row(after - 1).iter().zip(row(after)).map(between));
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
    /// Computes the coverage of `steps` by samples.
    pub(crate) fn new(
        samples: &SampleClock<'_>,
        clock: &StepClock,
        steps: &Range<i64>,
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
        for (step, position) in (0..count).zip(samples.positions(clock, steps)) {
            if matches!(position, Position::Outside(_)) {
                continue;
            }
            coverage.covered.start = coverage.covered.start.min(step);
            coverage.covered.stop = step + 1;
            let Position::Before(after) = position else {
                continue;
            };
            let gap = samples.time_of(clock, after) - samples.time_of(clock, after - 1);
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
