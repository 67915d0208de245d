//! Alignment: converts a recording from its own clock to a model's clock.

use super::gaps::{Coverage, GapLimits, SampleClock, typical_interval};
use super::{Dataset, Recording, Segment, SpikeForm, Spikes};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::memory;
use betz_base::text::{count, number};
use std::ops::Range;

/// Largest number of behaviour values (steps × outputs) of a [`Dataset`]: 8 GiB.
const MAX_VALUES: usize = 1 << 31;

/// Counts of what [`Recording::align_with`] left out and interpolated.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AlignReport {
    /// Segments that were dropped because they contain no whole step or no behaviour.
    pub segments_dropped: usize,
    /// Steps inside segments that lie before the first or after the last behaviour sample.
    pub steps_without_behavior: usize,
    /// Steps inside segments that lie in a gap between behaviour samples longer than allowed.
    pub steps_in_gaps: usize,
    /// Steps inside segments whose behaviour is interpolated across missing samples: the two samples around the step
    /// are more than one and a half usual intervals apart, but no further than allowed.
    pub steps_interpolated: usize,
    /// Spikes outside every remaining segment or after the last whole step, which are ignored.
    pub spikes_outside: usize,
    /// Longest gap that is interpolated, in seconds; `None`: no limit.
    pub max_gap_seconds: Option<f64>,
}

/// Options of an alignment; see [`Recording::align_with`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlignOptions {
    /// Length of a step in seconds.
    pub step_seconds: f64,
    /// Longest gap between two behaviour samples that is interpolated, in seconds; longer gaps split their segment.
    /// Infinite: every gap is interpolated. `None`: five sample intervals (their median), at least 0.15 s.
    pub max_gap_seconds: Option<f64>,
}

impl Recording {
    /// Aligns as [`Recording::align_with`] does, with the default limit on gaps and without the report.
    ///
    /// # Errors
    /// The errors of [`Recording::align_with`].
    pub fn align(&self, step_seconds: f64) -> Result<Dataset> {
        let options = AlignOptions {
            step_seconds,
            max_gap_seconds: None,
        };
        Ok(self.align_with(&options)?.0)
    }

    /// Converts spikes and behaviour to a clock of `step_seconds`.
    ///
    /// - Step s covers the time [s, s + 1) · step. A spike at tick k, which is the time k · tick,
    ///   falls into the step that covers it.
    /// - The behaviour of step s is the behaviour at the step's **end**, the moment at which a
    ///   session emits its output: linear interpolation between the two samples around it. Without
    ///   sample times, sample i belongs to the end of tick i; so where step and tick are equal,
    ///   each step has its own sample, unchanged.
    /// - If a step spans several bins of counts, their counts are added; samples of a signal are averaged.
    /// - A segment keeps the steps that lie wholly inside it. One that holds no whole step is
    ///   dropped.
    /// - Segments are clipped to the time span of the behaviour: steps that end before its first or after its last
    ///   sample are in no segment. A gap longer than [`max_gap_seconds`](AlignOptions::max_gap_seconds) splits its
    ///   segment. The report counts what was left out. Outside segments, [`Dataset::behavior`] holds the nearest
    ///   sample.
    ///
    /// Allocates the dataset: 12 bytes per spike and 4 per step and output.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the step is not finite and positive, is shorter than a tick, gives more than
    /// 2³¹ behaviour values, or, for binned counts, is not a whole multiple of the bin; [`ErrorKind::InsufficientData`]
    /// if no segment keeps a step; the errors of [`Recording::check`].
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
        let limits = self.gap_limits(options.max_gap_seconds);
        let (dataset, mut report) = self.on_clock(&clock, limits, &part)?;
        let segments = &dataset.segments;
        if segments.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "no segment holds a whole step of {} s with behaviour: {}, {} without behaviour, {} in gaps longer than allowed (max-gap)",
                    number(options.step_seconds),
                    count(self.segments.len() as u128, "segment"),
                    count(report.steps_without_behavior as u128, "step"),
                    report.steps_in_gaps
                ),
            ));
        }
        report.segments_dropped = clock.dropped(&self.segments, segments);
        let outside = self.spikes.total() - in_segments(&self.spikes, &clock, segments, steps);
        report.spikes_outside = outside.max(0.0).round() as usize;
        Ok((dataset, report))
    }

    /// Median interval between samples of behaviour in seconds; `None` without sample times.
    pub fn behavior_interval(&self) -> Option<f64> {
        typical_interval(self.behavior.as_ref()?.times.as_ref()?)
    }

    /// Limits of gaps between behaviour samples.
    fn gap_limits(&self, max_gap_seconds: Option<f64>) -> GapLimits {
        GapLimits::new(self.behavior_interval(), max_gap_seconds)
    }

    /// Bytes that `steps` steps of this recording's behaviour and its spikes take on a clock.
    fn bytes_on_clock(&self, steps: usize) -> u128 {
        let outputs = self.behavior.as_ref().map_or(0, |b| b.outputs.len());
        steps as u128 * outputs as u128 * 4
            + self.spikes.len() as u128 * 12
            + self.spikes.weights.len() as u128 * 4
            + memory::of_names(&self.channel_names)
    }

    /// Converts the steps of `part` to a dataset whose first step is the part's first. The recording must contain
    /// everything that these steps cover. The report covers the part, without `segments_dropped` and `spikes_outside`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if there is no memory for the dataset.
    pub(crate) fn on_clock(
        &self,
        clock: &StepClock,
        limits: GapLimits,
        part: &Part,
    ) -> Result<(Dataset, AlignReport)> {
        let (first, stop) = (part.steps.start, part.steps.end);
        let mut report = AlignReport {
            max_gap_seconds: Some(limits.longest).filter(|seconds| seconds.is_finite()),
            ..AlignReport::default()
        };
        let here = clock.segments_within(&self.segments, &part.steps);
        let (behavior, segments) = match &self.behavior {
            Some(b) => {
                let times = SampleClock::new(b.times.as_deref(), b.samples(), part.first_sample);
                let coverage = Coverage::new(&times, clock, &part.steps, limits);
                let kept = here.flat_map(|s| coverage.clip(s, &mut report)).collect();
                (times.interpolate(b, clock, &part.steps), kept)
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
            // A step's value is a mean, even if all samples are 1.
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

/// A range of a recording's steps, and the behaviour that is loaded for it.
pub(crate) struct Part {
    /// Steps on the recording's clock.
    pub(crate) steps: Range<i64>,
    /// Number of the first loaded sample in the recording. All samples from the end of the part's first step to the end
    /// of its last are loaded, and one more on either side if it exists.
    pub(crate) first_sample: usize,
}

/// Number of spikes in `segments`, which are in steps; only spikes in the first `steps` steps count.
fn in_segments(spikes: &Spikes, clock: &StepClock, segments: &[Segment], steps: usize) -> f64 {
    let last = (spikes.ticks).partition_point(|&t| clock.step_of(t) < steps as i64);
    let ticks = &spikes.ticks[..last];
    let first_of = |step: i64| ticks.partition_point(|&t| clock.step_of(t) < step);
    let inside = |s: &Segment| spikes.view().total_of(first_of(s.start)..first_of(s.stop));
    segments.iter().map(inside).sum()
}

/// Merges all entries of one channel and step into one, with `scale` times their sum, in place. Within a step, channels
/// then ascend.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`] if there is no memory for the merge.
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
    pub(crate) tick_seconds: f64,
    /// Ticks per step if that is a whole number; all arithmetic is then in integers.
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
        // Bins can only be merged whole, so a step written with few digits is taken for a multiple of the bin. Spike
        // times are converted exactly, unless the two clocks agree to the last digits.
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
    /// [`ErrorKind::InsufficientData`] for no step, [`ErrorKind::InvalidArgument`] for more steps than memory should
    /// hold.
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
                // Rounding is wrong by one tick at most.
                let first = (near - 1..=near + 2).find(|&tick| self.step_of(tick.max(0)) >= step);
                first.unwrap_or(near).max(0)
            }
        }
    }

    /// Whole steps inside `segment`, which is in ticks.
    pub(crate) fn whole_steps_of(&self, segment: &Segment) -> Segment {
        Segment {
            start: self.first_whole_step(segment.start),
            stop: self.whole_steps_before(segment.stop),
        }
    }

    /// The whole steps of `segments` inside `steps`, counted from the first of them.
    pub(crate) fn segments_within(
        &self,
        segments: &[Segment],
        steps: &Range<i64>,
    ) -> impl Iterator<Item = Segment> {
        let (first, stop) = (steps.start, steps.end);
        let whole = segments.iter().map(|s| self.whole_steps_of(s));
        let here = whole.map(move |s| Segment {
            start: s.start.max(first) - first,
            stop: s.stop.min(stop) - first,
        });
        here.filter(|s| !s.is_empty())
    }

    /// Number of `segments` (in ticks) without a step in `kept` (in steps).
    pub(crate) fn dropped(&self, segments: &[Segment], kept: &[Segment]) -> usize {
        let is_dropped = |segment: &&Segment| {
            let Segment { start, stop } = self.whole_steps_of(segment);
            let next = kept.partition_point(|kept| kept.stop <= start);
            kept.get(next).is_none_or(|kept| kept.start >= stop)
        };
        segments.iter().filter(is_dropped).count()
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
