//! Streams a recording from its `.npz`, chunk by chunk, so that it need not fit in memory.

mod columns;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::column::Column;
use super::read::{self, last_tick};
use crate::align::Part;
use crate::check::MAX_TICKS;
use crate::gaps::{Coverage, GapLimits, SampleClock};
use crate::step_clock::StepClock;
use crate::{
    AlignOptions, AlignReport, Behavior, Dataset, Recording, Segment, SpikeForm, Spikes,
    check_segments,
};
use betz_base::error::{Error, Result};
use betz_base::hash::Fnv1a;
use columns::{Columns, Samples, greatest};

/// An open `.npz` recording that is read in chunks of time; only the requested chunk is in memory. Arrays that are
/// stored plainly (`numpy.savez`) are read in place; deflated ones are unpacked once, into unnamed temporary files
/// beside the recording.
///
/// ```
/// use betz_recording::{AlignOptions, Recording, Stretches};
/// # let whole = Recording {
/// #     tick_seconds: 0.001,
/// #     ticks: 1_000,
/// #     spikes: betz_recording::Spikes::new((0..1_000).collect(), vec![0; 1_000]),
/// #     channel_names: vec!["a".into()],
/// #     behavior: None,
/// #     segments: vec![betz_recording::Segment { start: 0, stop: 1_000 }],
/// #     electrode_um: None,
/// #     form: betz_recording::SpikeForm::Events,
/// #     meta: None,
/// # };
/// # let folder = std::env::temp_dir().join("betz-stretches");
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("week.npz");
/// # whole.write_npz(&path)?;
/// let mut week = Stretches::open(&path)?;
/// let mut spikes = 0;
/// let cuts = week.cut(300)?;
/// for stretch in cuts.windows(2) {
///     spikes += week.spikes(stretch[0], stretch[1])?.len();
/// }
/// assert_eq!((cuts.len() - 1, spikes), (4, 1_000));
///
/// let options = AlignOptions { step_seconds: 0.005, max_gap_seconds: None };
/// assert_eq!(week.dataset(&options, 50..100)?.spikes.len(), 250);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stretches {
    path: PathBuf,
    outline: Recording,
    spikes: Columns,
    behavior: Option<Samples>,
    /// Usual interval between samples of behaviour, in seconds.
    interval: Option<f64>,
    view: View,
    /// Names of the file's channels.
    names: Vec<String>,
}

/// Selection of channels.
enum View {
    All,
    /// Channels as [`Recording::with_channels`] selects them.
    Named(Vec<String>),
    /// Channels as [`Recording::combine`] merges them.
    Groups(Vec<Vec<u32>>),
}

impl Stretches {
    /// Opens the recording at `path`. Reads its large arrays once, to verify their checksums.
    ///
    /// # Errors
    /// The errors of [`Recording::read_npz`] that concern names, clock, shapes and segments. The other data of a
    /// chunk are checked when it is read.
    pub fn open(path: &Path) -> Result<Self> {
        Self::opened(path).map_err(|e| e.at(path.display()))
    }

    fn opened(path: &Path) -> Result<Self> {
        let there = path
            .metadata()
            .map_err(|e| Error::io("reading", path, &e))?;
        if !there.is_file() {
            return Err(Error::argument(
                "expected an .npz file, got a pipe or another kind of file: reading in chunks reads the file more than once",
            ));
        }
        let archive = &mut Archive::open(path)?;
        let form = read::form_of(archive)?;
        let tick_seconds = read::tick_seconds(archive, form)?;
        let segments = read::read_segments(archive)?;
        let names = archive.read_strings("channel_names", 1)?;
        let electrode_um = read::read_electrodes(archive)?;
        let mut behavior = open_behavior(path)?;
        let outputs = match &behavior {
            Some(b) => Some(read::outputs(archive, [b.count, b.values.shape()[1]])?),
            None => None,
        };
        let (mut spikes, width) = open_columns(path, form)?;
        let ticks = match &mut spikes {
            Columns::Matrix(matrix) => matrix.shape()[0].min(MAX_TICKS as u64) as i64,
            Columns::Events { ticks, .. } => match archive.read_scalar::<i64>("duration_ticks")? {
                Some(ticks) => ticks,
                None => {
                    let last = last_element(ticks)?;
                    let samples = behavior.as_mut().map(Samples::last).transpose()?;
                    last_tick(last, samples, segments.as_deref(), tick_seconds)?
                }
            },
        };
        let most = match (&mut spikes, width, &names, &electrode_um) {
            (Columns::Events { channels, .. }, None, None, None) => greatest(channels)?,
            _ => None,
        };
        let channel_names = read::names(names, width, electrode_um.as_deref(), most)?;
        let whole = Segment {
            start: 0,
            stop: ticks,
        };
        let outline = Recording {
            tick_seconds,
            ticks,
            spikes: Spikes::default(),
            channel_names,
            behavior: None,
            segments: segments.unwrap_or_else(|| vec![whole]),
            electrode_um,
            form,
            meta: archive.read_strings("meta", 0)?.and_then(|mut m| m.pop()),
        };
        outline.check()?;
        check_samples(behavior.as_ref(), ticks)?;
        let outline = Recording {
            behavior: outputs.map(|outputs| Behavior {
                outputs,
                values: Vec::new(),
                times: None,
            }),
            ..outline
        };
        let interval = match &mut behavior {
            Some(samples) if samples.times.is_none() => Some(tick_seconds),
            Some(samples) => samples.interval()?,
            None => None,
        };
        Ok(Self {
            path: path.to_owned(),
            interval,
            names: outline.channel_names.clone(),
            outline,
            spikes,
            behavior,
            view: View::All,
        })
    }

    /// Selects the channels named `wanted`, as [`Recording::with_channels`] does.
    ///
    /// # Errors
    /// The errors of [`Recording::with_channels`].
    pub fn with_channels(mut self, wanted: &[String]) -> Result<Self> {
        self.outline = self.outline.with_channels(wanted)?;
        self.view = View::Named(wanted.to_vec());
        Ok(self)
    }

    /// Merges each group of channels into one channel, as [`Recording::combine`] does.
    ///
    /// # Errors
    /// The errors of [`Recording::combine`].
    pub fn combine(mut self, groups: &[Vec<u32>]) -> Result<Self> {
        self.outline = self.outline.combine(groups)?;
        self.view = View::Groups(groups.to_vec());
        Ok(self)
    }

    /// Returns the recording with the given segments, ascending, in place of its own.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) for segments that overlap or lie outside
    /// the recording.
    pub fn with_segments(mut self, segments: Vec<Segment>) -> Result<Self> {
        check_segments(&segments, self.outline.ticks)?;
        self.outline.segments = segments;
        Ok(self)
    }

    /// The recording without its large data: no spikes and no behaviour samples, but with named outputs.
    pub fn outline(&self) -> &Recording {
        &self.outline
    }

    /// Fingerprint of the archive: a hash of its length and of its end, which contains the checksum of each array. Does
    /// not read the arrays.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::ErrorKind::Io) if the file cannot be read.
    pub fn fingerprint(&self) -> Result<u64> {
        /// Bytes at the end of an archive that contain the list of its arrays.
        const END: u64 = 1 << 16;
        let end = || -> io::Result<(u64, Vec<u8>)> {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
            let mut end = Vec::new();
            file.read_to_end(&mut end)?;
            Ok((length, end))
        };
        let (length, end) = end().map_err(|e| Error::io("reading", &self.path, &e))?;
        let mut hash = Fnv1a::new();
        hash.word(length);
        hash.bytes(&end);
        Ok(hash.finish())
    }

    /// Number of stored entries: spikes of a recording of spike times, or all values of a matrix, including zeros.
    pub fn entries(&self) -> u64 {
        match &self.spikes {
            Columns::Events { ticks, .. } => ticks.shape()[0],
            Columns::Matrix(matrix) => matrix.shape().iter().product(),
        }
    }

    /// Cuts the recording to the time from `from_seconds` (inclusive) to `until_seconds` (exclusive) on the clock of
    /// `options`; segments are clipped as [`Dataset::between`] does.
    ///
    /// # Errors
    /// The errors of [`Dataset::between`].
    pub fn between(
        self,
        options: &AlignOptions,
        from_seconds: f64,
        until_seconds: f64,
    ) -> Result<Self> {
        let clock = StepClock::new(&self.outline, options.step_seconds)?;
        let steps = self.steps(options)?;
        let range =
            Dataset::steps_between(options.step_seconds, steps, from_seconds, until_seconds)?;
        let [first, stop] = [range.start, range.end].map(|step| clock.first_tick(step));
        // Time after the last whole step belongs to no step; keep it.
        let stop = if range.end == steps {
            self.outline.ticks
        } else {
            stop
        };
        let clipped = self.outline.segments.iter().map(|s| Segment {
            start: s.start.max(first),
            stop: s.stop.min(stop),
        });
        let clipped: Vec<Segment> = clipped.filter(|s| !s.is_empty()).collect();
        if clipped.is_empty() {
            return Err(Dataset::nothing_between(
                options.step_seconds,
                steps,
                from_seconds,
                until_seconds,
            ));
        }
        self.with_segments(clipped)
    }

    /// Reads the spikes at the ticks `start..stop`. They keep their ticks and the file's channel numbers.
    ///
    /// # Errors
    /// The errors of [`Recording::read_npz`] that concern the data read.
    pub fn spikes(&mut self, start: i64, stop: i64) -> Result<Spikes> {
        let (ticks, channels) = (self.outline.ticks, self.names.len());
        let (start, stop) = (start.clamp(0, ticks), stop.clamp(0, ticks));
        let mut read = || {
            let spikes = self
                .spikes
                .between(start, stop.max(start), self.outline.form)?;
            spikes.check(ticks, channels)?;
            let inside = start..stop.max(start);
            // The search for the start of a chunk relies on ascending ticks.
            if let Some(tick) = spikes.ticks.iter().find(|tick| !inside.contains(tick)) {
                return Err(Error::recording(format!(
                    "array `spike_ticks`: {tick} among those of [{start}, {stop}): expected ascending ticks"
                )));
            }
            Ok(spikes)
        };
        read().map_err(|e| e.at(self.path.display()))
    }

    /// Number of behaviour samples; 0 without behaviour.
    pub fn samples(&self) -> u64 {
        self.behavior.as_ref().map_or(0, |b| b.count)
    }

    /// Reads the behaviour samples `rows` as they are stored, clipped to the existing ones; `None` without behaviour.
    ///
    /// # Errors
    /// The errors of [`Recording::read_npz`] that concern the data read. Times are checked to ascend only within
    /// `rows`.
    pub fn behavior(&mut self, rows: Range<u64>) -> Result<Option<Behavior>> {
        let (Some(samples), Some(named)) = (&mut self.behavior, &self.outline.behavior) else {
            return Ok(None);
        };
        let stop = rows.end.min(samples.count);
        let read = samples.read(rows.start.min(stop)..stop, named);
        read.map(Some).map_err(|e| e.at(self.path.display()))
    }

    /// Cuts the recording into chunks of at most `most` entries ([`entries`](Self::entries)), unless a single tick has
    /// more. Returns the cuts as ascending ticks, from 0 to the recording's end.
    ///
    /// # Errors
    /// The errors of [`spikes`](Self::spikes).
    pub fn cut(&mut self, most: u64) -> Result<Vec<i64>> {
        self.cut_between(0..self.outline.ticks, most)
    }

    /// Cuts only `ticks` of the recording, as [`cut`](Self::cut) does; an empty range gives one cut.
    ///
    /// # Errors
    /// The errors of [`spikes`](Self::spikes).
    pub fn cut_between(&mut self, ticks: Range<i64>, most: u64) -> Result<Vec<i64>> {
        let mut cuts = vec![ticks.start];
        while let Some(&last) = cuts.last()
            && last < ticks.end
        {
            cuts.push(self.stretch_end(last, most)?.min(ticks.end));
        }
        Ok(cuts)
    }

    /// End of a chunk from `start` on with at most `most` entries, or `start + 1`.
    fn stretch_end(&mut self, start: i64, most: u64) -> Result<i64> {
        let end = self.outline.ticks;
        let cut = match &mut self.spikes {
            Columns::Matrix(matrix) => {
                let rows = most / matrix.shape()[1].max(1);
                start.saturating_add(i64::try_from(rows).unwrap_or(i64::MAX))
            }
            Columns::Events { ticks, .. } => {
                let count = ticks.shape()[0];
                let next = ticks.below(count, start)?.saturating_add(most);
                if next >= count {
                    end
                } else {
                    ticks.element(next)?
                }
            }
        };
        Ok(cut.clamp(start + 1, end.max(start + 1)))
    }

    /// Number of whole steps.
    ///
    /// # Errors
    /// The errors of [`Recording::align_with`] for a step that does not fit the recording.
    pub fn steps(&self, options: &AlignOptions) -> Result<i64> {
        let clock = StepClock::new(&self.outline, options.step_seconds)?;
        match clock.whole_steps_before(self.outline.ticks) {
            0 => Err(clock.too_short(&self.outline)),
            steps => Ok(steps),
        }
    }

    /// Whole steps inside each segment; behaviour may cover only some of them.
    pub fn whole_steps(&self, options: &AlignOptions) -> Vec<Segment> {
        let Ok(clock) = StepClock::new(&self.outline, options.step_seconds) else {
            return Vec::new();
        };
        let whole = self
            .outline
            .segments
            .iter()
            .map(|s| clock.whole_steps_of(s));
        whole.filter(|s| !s.is_empty()).collect()
    }

    /// Cuts the recording on a clock: returns steps from 0 to [`steps`](Self::steps), in chunks of at most
    /// `most_steps`.
    ///
    /// # Errors
    /// The errors of [`steps`](Self::steps) and [`spikes`](Self::spikes).
    pub fn cut_steps(
        &mut self,
        options: &AlignOptions,
        most: u64,
        most_steps: i64,
    ) -> Result<Vec<i64>> {
        let steps = self.steps(options)?;
        let clock = StepClock::new(&self.outline, options.step_seconds)?;
        let mut cuts = vec![0];
        while let Some(&last) = cuts.last()
            && last < steps
        {
            let end = self.stretch_end(clock.first_tick(last), most)?;
            let furthest = last.saturating_add(most_steps.max(1)).min(steps);
            let cut = if end == self.outline.ticks {
                steps
            } else {
                clock.step_of(end)
            };
            cuts.push(cut.clamp(last + 1, furthest));
        }
        Ok(cuts)
    }

    /// Reads the steps `steps` of the recording, aligned as [`Recording::align_with`] does, and numbers them from 0. Cuts
    /// segments that extend beyond them. The dataset may have no segments.
    ///
    /// # Errors
    /// The errors of [`steps`](Self::steps) and [`spikes`](Self::spikes).
    pub fn dataset(&mut self, options: &AlignOptions, steps: Range<i64>) -> Result<Dataset> {
        let clock = StepClock::new(&self.outline, options.step_seconds)?;
        let all = clock.whole_steps_before(self.outline.ticks);
        if !(0 <= steps.start && steps.start <= steps.end && steps.end <= all) {
            return Err(Error::argument(format!(
                "a stretch: expected steps inside 0..{all}, got {}..{}",
                steps.start, steps.end
            )));
        }
        let ticks = clock.first_tick(steps.start)..clock.first_tick(steps.end);
        let spikes = self.spikes(ticks.start, ticks.end)?;
        let mut first_sample = 0;
        let behavior = match (&mut self.behavior, &self.outline.behavior) {
            (Some(samples), Some(named)) => {
                let rows = (samples.around(&clock, self.outline.tick_seconds, &steps))
                    .map_err(|e| e.at(self.path.display()))?;
                first_sample = rows.start as usize;
                let read = samples.read(rows, named);
                Some(read.map_err(|e| e.at(self.path.display()))?)
            }
            _ => None,
        };
        let part = Recording {
            spikes,
            behavior,
            electrode_um: None,
            meta: None,
            channel_names: self.names.clone(),
            segments: self.outline.segments.clone(),
            ..self.outline
        };
        let part = match &self.view {
            View::All => part,
            View::Named(wanted) => part.with_channels(wanted)?,
            View::Groups(groups) => part.combine(groups)?,
        };
        let part_of = Part {
            steps,
            first_sample,
        };
        Ok(part.on_clock(&clock, self.limits(options), &part_of)?.0)
    }

    fn limits(&self, options: &AlignOptions) -> GapLimits {
        GapLimits::new(self.interval, options.max_gap_seconds)
    }

    /// Report of [`Recording::align_with`], except for `spikes_outside`, which stays 0. Reads sample times chunk by
    /// chunk between the `cuts` ([`cut_steps`](Self::cut_steps)), and no spikes.
    ///
    /// # Errors
    /// The errors of [`steps`](Self::steps), and errors of reading.
    pub fn align_report(&mut self, options: &AlignOptions, cuts: &[i64]) -> Result<AlignReport> {
        let clock = StepClock::new(&self.outline, options.step_seconds)?;
        let limits = self.limits(options);
        let mut report = AlignReport {
            max_gap_seconds: Some(limits.longest).filter(|seconds| seconds.is_finite()),
            ..AlignReport::default()
        };
        let segments = &self.outline.segments;
        let mut kept = Vec::new();
        for ends in cuts.windows(2) {
            let steps = ends[0]..ends[1];
            let here: Vec<Segment> = clock.segments_within(segments, &steps).collect();
            let Some(samples) = &mut self.behavior else {
                kept.extend(here.iter().map(|s| s.later(steps.start)));
                continue;
            };
            let rows = (samples.around(&clock, self.outline.tick_seconds, &steps))
                .map_err(|e| e.at(self.path.display()))?;
            let (first, count) = (rows.start as usize, (rows.end - rows.start) as usize);
            let missing = samples.missing_in(&rows);
            let times = (samples.times(rows)).map_err(|e| e.at(self.path.display()))?;
            let samples = SampleClock::new(times.as_deref(), count, first, missing);
            let coverage = Coverage::new(&samples, &clock, &steps, &here, limits);
            let parts = here.into_iter().flat_map(|s| coverage.clip(s, &mut report));
            kept.extend(parts.map(|s| s.later(steps.start)));
        }
        report.segments_dropped = clock.dropped(segments, &kept);
        Ok(report)
    }
}

/// The samples of behaviour of the file at `path`, if it has any.
fn open_behavior(path: &Path) -> Result<Option<Samples>> {
    let Some(values) = Column::open(path, "behavior", 2)? else {
        return Ok(None);
    };
    let times = Column::open(path, "behavior_times", 1)?;
    Samples::new(values, times).map(Some)
}

/// Refuses samples without times that are not one per bin.
fn check_samples(behavior: Option<&Samples>, ticks: i64) -> Result<()> {
    match behavior {
        Some(samples) if samples.times.is_none() && samples.count != ticks as u64 => {
            Err(Error::recording(format!(
                "array `behavior`: expected {ticks} samples, one per bin (there is no `behavior_times`), got {}",
                samples.count
            )))
        }
        _ => Ok(()),
    }
}

fn last_element(ticks: &mut Column) -> Result<Option<i64>> {
    match ticks.shape()[0] {
        0 => Ok(None),
        n => ticks.element(n - 1).map(Some),
    }
}

/// The spikes of the file at `path`, and the number of channels where they are a matrix.
fn open_columns(path: &Path, form: SpikeForm) -> Result<(Columns, Option<usize>)> {
    let missing = |array: &str| Error::recording(format!("expected an array `{array}`"));
    let column = |array, dims| Column::open(path, array, dims)?.ok_or_else(|| missing(array));
    let array = match form {
        SpikeForm::Events => {
            let ticks = column("spike_ticks", 1)?;
            let channels = column("spike_channels", 1)?;
            if ticks.shape() != channels.shape() {
                return Err(Error::recording(format!(
                    "arrays `spike_ticks` and `spike_channels`: expected one length, got {} and {}",
                    ticks.shape()[0],
                    channels.shape()[0]
                )));
            }
            return Ok((Columns::Events { ticks, channels }, None));
        }
        SpikeForm::Counts => "counts",
        SpikeForm::Signal => "signal",
    };
    let matrix = column(array, 2)?;
    let width = matrix.shape()[1] as usize;
    Ok((Columns::Matrix(matrix), Some(width)))
}

#[cfg(test)]
mod tests;
