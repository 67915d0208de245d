//! Alignment: converts a recording from its own clock to a model's clock.

use super::align_report::AlignReport;
use super::behavior::missing_ranges;
use super::gaps::{Coverage, GapLimits, SampleClock, typical_interval};
use super::step_clock::StepClock;
use super::{Dataset, Recording, Segment, SpikeForm, Spikes};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::memory;
use betz_base::text::{count, number};
use std::ops::Range;

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
    ///   segment; a shorter one is interpolated. Samples with a NaN are missing, and so part of a gap. The report counts
    ///   what was left out and interpolated. Outside segments, [`Dataset::behavior`] holds the nearest sample.
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
                    "expected a segment with a whole step of {} s and behaviour, got {} without: {} without behaviour, {} in gaps longer than allowed (max-gap)",
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

    /// Median interval between samples of behaviour in seconds, missing ones included; `None` without sample times.
    pub fn behavior_interval(&self) -> Option<f64> {
        typical_interval(self.behavior.as_ref()?.times.as_ref()?)
    }

    /// The same, or a tick if there is one sample per tick.
    fn sample_interval(&self) -> Option<f64> {
        match self.behavior.as_ref()?.times {
            Some(_) => self.behavior_interval(),
            None => Some(self.tick_seconds),
        }
    }

    /// Limits of gaps between behaviour samples.
    fn gap_limits(&self, max_gap_seconds: Option<f64>) -> GapLimits {
        GapLimits::new(self.sample_interval(), max_gap_seconds)
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
        let here: Vec<Segment> = clock.segments_within(&self.segments, &part.steps).collect();
        let (behavior, segments) = match &self.behavior {
            Some(b) => {
                let missing = missing_ranges(&b.values, b.outputs.len());
                let times = b.times.as_deref();
                let times = SampleClock::new(times, b.samples(), part.first_sample, missing);
                let coverage = Coverage::new(&times, clock, &part.steps, &here, limits);
                let kept = here.into_iter();
                let kept: Vec<Segment> = kept.flat_map(|s| coverage.clip(s, &mut report)).collect();
                (times.interpolate(b, clock, &part.steps, &kept), kept)
            }
            None => (Vec::new(), here),
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
