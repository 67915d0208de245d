//! From a recording's own clock to a model's clock.

use super::{Behavior, Dataset, Recording, Segment, SpikeForm, Spikes};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::memory;
use betz_base::text::{count, number};
use std::ops::Range;

/// Most behaviour values (steps × outputs) of a [`Dataset`]: 8 GiB.
const MAX_VALUES: usize = 1 << 31;

/// What [`Recording::align_with`] had to leave out. All zero when everything fitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlignReport {
    /// Segments that hold no whole step, or no behaviour, and so are gone.
    pub segments_dropped: usize,
    /// Steps inside segments that lie before the first or after the last behaviour sample.
    pub steps_without_behavior: usize,
    /// Steps inside segments that lie in a gap between behaviour samples longer than allowed.
    pub steps_in_gaps: usize,
    /// Spikes outside every remaining segment (or after the last whole step): they are ignored.
    pub spikes_outside: usize,
}

/// How to align; see [`Recording::align_with`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlignOptions {
    /// Length of a step in seconds.
    pub step_seconds: f64,
    /// Longest gap between two behaviour samples that is interpolated, in seconds; longer gaps
    /// split their segment. `None`: every gap is interpolated.
    pub max_gap_seconds: Option<f64>,
}

impl Recording {
    /// [`Recording::align_with`] with every gap interpolated, without the report.
    ///
    /// # Errors
    /// Those of [`Recording::align_with`].
    pub fn align(&self, step_seconds: f64) -> Result<Dataset> {
        let options = AlignOptions {
            step_seconds,
            max_gap_seconds: None,
        };
        Ok(self.align_with(&options)?.0)
    }

    /// Puts spikes and behaviour on a clock of `step_seconds`.
    ///
    /// - Step s covers the time [s, s + 1) · step. A spike at tick k, which is the time k · tick,
    ///   falls into the step that covers it.
    /// - The behaviour of step s is the behaviour at the step's **end**, the moment at which a
    ///   session emits its output: linear interpolation between the two samples around it. Without
    ///   sample times, sample i belongs to the end of tick i; so where step and tick are equal,
    ///   each step has its own sample, unchanged.
    /// - Bins of counts that a step joins are added up; of a signal the step has their mean.
    /// - A segment keeps the steps that lie wholly inside it. One that holds no whole step is
    ///   dropped.
    /// - Segments are clipped to where there is behaviour: steps that end before its first or after
    ///   its last sample are in no segment. A gap longer than
    ///   [`max_gap_seconds`](AlignOptions::max_gap_seconds) splits its segment. The report counts
    ///   what was left out. Outside segments [`Dataset::behavior`] holds the nearest sample.
    ///
    /// Allocates the dataset: 12 bytes per spike and 4 per step and output.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the step is not finite and positive, is shorter than a
    /// tick, gives more than 2³¹ behaviour values, or, for binned counts, is not the bin or a whole
    /// multiple of it; [`ErrorKind::InsufficientData`] when no segment keeps a step; those of
    /// [`Recording::check`].
    pub fn align_with(&self, options: &AlignOptions) -> Result<(Dataset, AlignReport)> {
        self.check()?;
        let clock = StepClock::new(self, options.step_seconds)?;
        let steps = clock.checked_steps(self)?;
        memory::plan(
            format_args!("a recording in steps of {} s", number(options.step_seconds)),
            self.bytes_on_clock(steps),
        )?;
        let part = Part {
            steps: 0..steps as i64,
            first_sample: 0,
        };
        let (dataset, mut report) = self.on_clock(&clock, options.max_gap_seconds, &part)?;
        let segments = &dataset.segments;
        if segments.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "no segment holds a whole step of {} s with behaviour: {}, {} without behaviour, {} in gaps",
                    number(options.step_seconds),
                    count(self.segments.len() as u128, "segment"),
                    count(report.steps_without_behavior as u128, "step"),
                    report.steps_in_gaps
                ),
            ));
        }
        report.segments_dropped = self
            .segments
            .iter()
            .filter(|s| {
                let Segment { start, stop } = clock.whole_steps_of(s);
                let next = segments.partition_point(|kept| kept.stop <= start);
                segments.get(next).is_none_or(|kept| kept.start >= stop)
            })
            .count();
        let outside = self.spikes.total() - in_segments(&self.spikes, &clock, segments, steps);
        report.spikes_outside = outside.max(0.0).round() as usize;
        Ok((dataset, report))
    }

    /// Bytes of `steps` steps of this recording's behaviour and of its spikes on a clock.
    fn bytes_on_clock(&self, steps: usize) -> u128 {
        let outputs = self.behavior.as_ref().map_or(0, |b| b.outputs.len());
        steps as u128 * outputs as u128 * 4
            + self.spikes.len() as u128 * 12
            + self.spikes.weights.len() as u128 * 4
            + memory::of_names(&self.channel_names)
    }

    /// The steps of `part` of this recording, which holds at least what they cover: a dataset whose first step is
    /// the part's first. Of the report, what lies in the part; neither `segments_dropped` nor `spikes_outside`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub(crate) fn on_clock(
        &self,
        clock: &StepClock,
        max_gap_seconds: Option<f64>,
        part: &Part,
    ) -> Result<(Dataset, AlignReport)> {
        let (first, stop) = (part.steps.start, part.steps.end);
        let mut report = AlignReport::default();
        let whole = (self.segments.iter()).map(|s| clock.whole_steps_of(s));
        let here = whole.map(|s| Segment {
            start: s.start.max(first) - first,
            stop: s.stop.min(stop) - first,
        });
        let here = here.filter(|s| !s.is_empty());
        let (behavior, segments) = match &self.behavior {
            Some(b) => {
                let sampled = sample(b, clock, part, max_gap_seconds);
                let kept = here.flat_map(|s| clip(s, &sampled, &mut report)).collect();
                (sampled.values, kept)
            }
            None => (Vec::new(), here.collect()),
        };
        let ticks = &self.spikes.ticks;
        let [from, to] =
            [first, stop].map(|step| ticks.partition_point(|&t| clock.step_of(t) < step));
        let mut spikes = Spikes {
            ticks: (ticks[from..to].iter())
                .map(|&t| clock.step_of(t) - first)
                .collect(),
            channels: self.spikes.channels[from..to].to_vec(),
            weights: match self.spikes.weights.is_empty() {
                true => Vec::new(),
                false => self.spikes.weights[from..to].to_vec(),
            },
        };
        let joined = clock.whole.unwrap_or(1);
        if self.form == SpikeForm::Signal && joined > 1 && spikes.weights.is_empty() {
            // Values that are all 1 have a mean, too.
            spikes.weights = memory::filled("spikes", 1.0, spikes.len())?;
        }
        if !spikes.weights.is_empty() {
            let scale = match self.form {
                SpikeForm::Signal => 1.0 / joined as f64,
                _ => 1.0,
            };
            join(&mut spikes, self.channels(), scale)?;
        }
        let dataset = Dataset {
            step_seconds: clock.step_seconds,
            steps: (stop - first).max(0) as usize,
            channel_names: self.channel_names.clone(),
            spikes,
            segments,
            outputs: self
                .behavior
                .as_ref()
                .map_or_else(Vec::new, |b| b.outputs.clone()),
            behavior,
        };
        Ok((dataset, report))
    }
}

/// A part of a recording's steps, and what of its behaviour is at hand.
pub(crate) struct Part {
    /// Steps, on the recording's clock.
    pub(crate) steps: Range<i64>,
    /// The recording's number of the first sample at hand; every one between the part's first end of a step and its
    /// last is, and one more on either side, where there is one.
    pub(crate) first_sample: usize,
}

/// How many of `spikes`, those of the first `steps`, lie in `segments`, which are in steps.
fn in_segments(spikes: &Spikes, clock: &StepClock, segments: &[Segment], steps: usize) -> f64 {
    let last = (spikes.ticks).partition_point(|&t| clock.step_of(t) < steps as i64);
    let ticks = &spikes.ticks[..last];
    let first_of = |step: i64| ticks.partition_point(|&t| clock.step_of(t) < step);
    let inside = |s: &Segment| spikes.view().total_of(first_of(s.start)..first_of(s.stop));
    segments.iter().map(inside).sum()
}

/// Makes one entry, `scale` times their sum, of all those of one channel and step, channels ascending
/// within a step. In place.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`].
fn join(spikes: &mut Spikes, channels: usize, scale: f64) -> Result<()> {
    let mut sums = memory::filled("a step", 0.0_f64, channels)?;
    let mut fired: Vec<u32> = Vec::new();
    let (mut from, mut to) = (0, 0);
    while from < spikes.len() {
        let step = spikes.ticks[from];
        fired.clear();
        while from < spikes.len() && spikes.ticks[from] == step {
            fired.push(spikes.channels[from]);
            sums[spikes.channels[from] as usize] += f64::from(spikes.weights[from]);
            from += 1;
        }
        fired.sort_unstable();
        fired.dedup();
        for &channel in &fired {
            spikes.ticks[to] = step;
            spikes.channels[to] = channel;
            spikes.weights[to] = (scale * std::mem::take(&mut sums[channel as usize])) as f32;
            to += 1;
        }
    }
    spikes.ticks.truncate(to);
    spikes.channels.truncate(to);
    spikes.weights.truncate(to);
    Ok(())
}

/// Converts ticks to steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepClock {
    step_seconds: f64,
    tick_seconds: f64,
    /// Ticks a step, when that is a whole number: then everything is integer arithmetic.
    pub(crate) whole: Option<i64>,
}

impl StepClock {
    pub(crate) fn new(recording: &Recording, step_seconds: f64) -> Result<Self> {
        let tick_seconds = recording.tick_seconds;
        if !(step_seconds.is_finite() && step_seconds > 0.0) {
            return Err(Error::argument(format!(
                "expected a finite step > 0 s, got {step_seconds}"
            )));
        }
        let ratio = step_seconds / tick_seconds;
        let nearest = ratio.round();
        // Bins can only be joined whole, so a step written with a few digits may be meant so; spike
        // times are converted as they are unless the two clocks agree to the last digits.
        let tolerance = match recording.form {
            SpikeForm::Counts | SpikeForm::Signal => 1e-6,
            SpikeForm::Events => 1e-12,
        };
        let whole = ((ratio - nearest).abs() <= tolerance * ratio && nearest >= 1.0)
            .then_some(nearest as i64);
        if recording.form != SpikeForm::Events && whole.is_none() {
            let what = match recording.form {
                SpikeForm::Signal => "samples cannot be split",
                _ => "binned counts cannot be split",
            };
            return Err(Error::argument(format!(
                "expected a step of one or several whole bins of {tick_seconds} s, got {step_seconds} s: {what}"
            )));
        }
        if whole.is_none() && ratio < 1.0 {
            return Err(Error::argument(format!(
                "expected a step of at least one tick ({tick_seconds} s), got {step_seconds} s"
            )));
        }
        Ok(Self {
            step_seconds,
            tick_seconds,
            whole,
        })
    }

    /// Number of whole steps of `recording`.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] for none, [`ErrorKind::InvalidArgument`] for more than memory should hold.
    fn checked_steps(&self, recording: &Recording) -> Result<usize> {
        let steps = self.whole_steps_before(recording.ticks);
        if steps == 0 {
            return Err(self.too_short(recording));
        }
        let outputs = recording.behavior.as_ref().map_or(0, |b| b.outputs.len());
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        if steps.saturating_mul(outputs.max(1)) > MAX_VALUES {
            return Err(Error::argument(format!(
                "a step of {} s gives {steps} steps of {outputs} outputs, more than {MAX_VALUES} values: choose a longer step",
                number(self.step_seconds)
            )));
        }
        Ok(steps)
    }

    pub(crate) fn too_short(&self, recording: &Recording) -> Error {
        Error::new(
            ErrorKind::InsufficientData,
            format!(
                "expected at least one step of {} s, got a recording of {} s",
                number(self.step_seconds),
                number(recording.seconds())
            ),
        )
    }

    /// The first tick of `step`.
    #[cfg(feature = "npz")]
    pub(crate) fn first_tick(&self, step: i64) -> i64 {
        match self.whole {
            Some(n) => step * n,
            None => {
                let near = (step as f64 * self.ratio()).floor() as i64;
                // Rounding is off by one tick at most.
                let first = (near - 1..=near + 2).find(|&tick| self.step_of(tick.max(0)) >= step);
                first.unwrap_or(near).max(0)
            }
        }
    }

    /// The whole steps inside `segment`, which is in ticks.
    pub(crate) fn whole_steps_of(&self, segment: &Segment) -> Segment {
        Segment {
            start: self.first_whole_step(segment.start),
            stop: self.whole_steps_before(segment.stop),
        }
    }

    fn ratio(&self) -> f64 {
        self.step_seconds / self.tick_seconds
    }

    /// The step that covers `tick` (at or after 0).
    pub(crate) fn step_of(&self, tick: i64) -> i64 {
        match self.whole {
            Some(n) => tick / n,
            None => (tick as f64 / self.ratio()).floor() as i64,
        }
    }

    /// The first step that starts at `tick` or later.
    fn first_whole_step(&self, tick: i64) -> i64 {
        match self.whole {
            Some(n) => (tick / n) + i64::from(tick % n != 0),
            None => (tick as f64 / self.ratio()).ceil() as i64,
        }
    }

    /// The number of steps that end at `tick` or earlier.
    pub(crate) fn whole_steps_before(&self, tick: i64) -> i64 {
        self.step_of(tick)
    }

    /// The end of `step` in seconds.
    pub(crate) fn end_seconds(&self, step: i64) -> f64 {
        (step + 1) as f64 * self.step_seconds
    }
}

/// Behaviour at every step, and where it is trustworthy.
struct Sampled {
    values: Vec<f32>,
    /// First step at or after the first sample, first step after the last sample.
    covered: Segment,
    /// Steps inside gaps too long to interpolate: ascending, disjoint.
    gaps: Vec<Segment>,
}

fn sample(b: &Behavior, clock: &StepClock, part: &Part, max_gap: Option<f64>) -> Sampled {
    let outputs = b.outputs.len();
    let (begin, steps) = (part.steps.start, part.steps.end - part.steps.start);
    let mut sampled = Sampled {
        values: Vec::with_capacity(steps.max(0) as usize * outputs),
        covered: Segment {
            start: steps,
            stop: 0,
        },
        gaps: Vec::new(),
    };
    let samples = b.samples();
    let time_of = |i: usize| match &b.times {
        Some(times) => times[i],
        None => (part.first_sample + i + 1) as f64 * clock.tick_seconds,
    };
    let row = |i: usize| &b.values[i * outputs..(i + 1) * outputs];
    // Index of the first sample after the step's end.
    let mut after = 0;
    for step in 0..steps {
        if let (None, Some(n)) = (&b.times, clock.whole) {
            // One sample per tick: the step's last tick has the step's end.
            let i = ((begin + step + 1) * n) as usize - 1 - part.first_sample;
            sampled.values.extend_from_slice(row(i));
            sampled.covered = Segment {
                start: 0,
                stop: steps,
            };
            continue;
        }
        let t = clock.end_seconds(begin + step);
        while after < samples && time_of(after) <= t {
            after += 1;
        }
        let exact = after > 0 && time_of(after - 1) == t;
        let inside = exact || (after > 0 && after < samples);
        if inside {
            sampled.covered.start = sampled.covered.start.min(step);
            sampled.covered.stop = step + 1;
        }
        if exact || !inside {
            sampled
                .values
                .extend_from_slice(row(after.saturating_sub(1)));
            continue;
        }
        let (t0, t1) = (time_of(after - 1), time_of(after));
        let weight = (t - t0) / (t1 - t0);
        sampled.values.extend(
            row(after - 1)
                .iter()
                .zip(row(after))
                .map(|(&a, &b)| (f64::from(a) + weight * (f64::from(b) - f64::from(a))) as f32),
        );
        if max_gap.is_some_and(|gap| t1 - t0 > gap) {
            let here = step;
            match sampled.gaps.last_mut() {
                Some(gap) if gap.stop == here => gap.stop += 1,
                _ => sampled.gaps.push(Segment {
                    start: here,
                    stop: here + 1,
                }),
            }
        }
    }
    sampled
}

/// The parts of `segment` that have behaviour; counts the rest in `report`.
fn clip(segment: Segment, sampled: &Sampled, report: &mut AlignReport) -> Vec<Segment> {
    let clipped = Segment {
        start: segment.start.max(sampled.covered.start),
        stop: segment.stop.min(sampled.covered.stop),
    };
    report.steps_without_behavior += segment.len() - clipped.len().min(segment.len());
    let mut parts = Vec::new();
    let mut start = clipped.start;
    let first = sampled.gaps.partition_point(|g| g.stop <= clipped.start);
    for gap in sampled.gaps[first..]
        .iter()
        .take_while(|g| g.start < clipped.stop)
    {
        let lost = Segment {
            start: gap.start.max(clipped.start),
            stop: gap.stop.min(clipped.stop),
        };
        report.steps_in_gaps += lost.len();
        parts.push(Segment {
            start,
            stop: lost.start,
        });
        start = lost.stop;
    }
    parts.push(Segment {
        start,
        stop: clipped.stop,
    });
    parts.retain(|p| !p.is_empty());
    parts
}
