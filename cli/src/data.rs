//! Files in and out: recordings and the parts of them to use, models, decoded outputs.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use betz::model::Decoder;
use betz::recording::{
    AlignOptions, AlignReport, Dataset, OutputInfo, Recording, SpikeFeatures, SpikeForm,
    invented_channel_names,
};
use betz::{Error, Result, memory};
use betz_formats::{ReadOptions, Report};

use crate::common_args::{Behaviors, Part};
use crate::files::Kind;
use crate::parse;
use crate::report;
use betz::input_form;

/// Decoded outputs as a table; `step,seconds` began those of earlier versions.
pub(crate) const OUTPUTS: Kind = Kind::Table(&["step,start_seconds,end_seconds,", "step,seconds,"]);

/// Step of a model trained on spike times when none is asked for.
const DEFAULT_STEP_SECONDS: f64 = 0.005;

/// Reads a recording, `.npz` or NWB, and says on standard error what was made of its file.
pub(crate) fn open_recording(path: &Path) -> Result<Recording> {
    opened(path, &Behaviors::default()).map(|(recording, _)| recording)
}

/// Reads a recording whose notes were printed when it was read before.
pub(crate) fn read_again(path: &Path, behavior: &Behaviors) -> Result<(Recording, Report)> {
    betz_formats::read_recording(path, &read_options(behavior))
}

/// Series and tables that `behavior` names.
fn read_options(behavior: &Behaviors) -> ReadOptions {
    ReadOptions {
        behavior: behavior.names.clone(),
        trials: behavior.trial_tables.clone(),
        within: behavior.within_tables.clone(),
        mask: behavior.mask_tables.clone(),
        angles: behavior.angles.clone(),
        ..ReadOptions::default()
    }
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|m| m.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

fn opened(path: &Path, behavior: &Behaviors) -> Result<(Recording, Report)> {
    if is_pipe(path) {
        report::note(&format!(
            "{}: a pipe: reading until its writer closes it",
            path.display()
        ));
    }
    let (recording, read) = read_again(path, behavior)?;
    tell_notes(path, &read);
    Ok((recording, read))
}

/// Says what the reader of `path` noted.
fn tell_notes(path: &Path, read: &Report) {
    for note in &read.notes {
        report::remark(format!("{}: {note}", path.display()));
    }
    if !read.other_series.is_empty() {
        report::remark(format!(
            "{}: not taken as behaviour (--behavior NAME does): {}",
            path.display(),
            read.other_series.join(", ")
        ));
    }
}

/// Reads a recording and says on standard error what it holds.
pub(crate) fn read_recording(path: &Path, behavior: &Behaviors) -> Result<Recording> {
    read_recording_with_report(path, behavior).map(|(recording, _)| recording)
}

/// [`read_recording`], and what its reader reports.
pub(crate) fn read_recording_with_report(
    path: &Path,
    behavior: &Behaviors,
) -> Result<(Recording, Report)> {
    let (recording, read) = opened(path, behavior)?;
    tell_size(path, &recording);
    Ok((recording, read))
}

/// Says how much the recording in `path` holds.
fn tell_size(path: &Path, recording: &Recording) {
    report::note(&format!(
        "{}: {}, {}, {:.1} s, {}",
        path.display(),
        report::count(recording.channels() as u128, "channel"),
        entries(recording),
        recording.seconds(),
        report::count(recording.segments.len() as u128, "segment"),
    ));
}

/// Reads a recording of spikes with features: an array `spike_features` of an `.npz`, or waveforms of NWB.
pub(crate) fn read_marks(path: &Path, behavior: &Behaviors) -> Result<(Recording, SpikeFeatures)> {
    #[cfg(feature = "rig")]
    if betz_formats::is_hdf5(path) {
        let (recording, features, read) =
            betz_formats::nwb::read_spike_events(path, &read_options(behavior))?;
        tell_notes(path, &read);
        tell_size(path, &recording);
        return Ok((recording, features));
    }
    let features = SpikeFeatures::read_npz(path)?;
    Ok((read_recording(path, behavior)?, features))
}

/// Number of spikes of a recording, or of values of a signal, in words.
pub(crate) fn entries(recording: &Recording) -> String {
    match recording.form {
        SpikeForm::Signal => report::count(recording.spikes.len() as u128, "value"),
        _ => report::count(recording.spikes.total() as u128, "spike"),
    }
}

/// The step a recording is trained at: its bin or sample, or 5 ms for spike times.
pub(crate) fn default_step(recording: &Recording) -> f64 {
    match recording.form {
        SpikeForm::Counts | SpikeForm::Signal => recording.tick_seconds,
        SpikeForm::Events => DEFAULT_STEP_SECONDS.max(recording.tick_seconds),
    }
}

/// The chosen `part` of `recording` on a clock of `step` seconds. Omissions are reported on standard error.
pub(crate) fn dataset(recording: Recording, step: f64, part: &Part) -> Result<Dataset> {
    aligned_dataset(recording, step, part).map(|(dataset, _)| dataset)
}

/// [`dataset`], and the report on its behaviour.
pub(crate) fn aligned_dataset(
    recording: Recording,
    step: f64,
    part: &Part,
) -> Result<(Dataset, AlignReport)> {
    let (dataset, report) = aligned(Cow::Owned(recording), step, part)?;
    tell_aligned(&report);
    Ok((dataset, report))
}

/// [`aligned_dataset`] without notes. A borrowed recording is copied if `part` chooses segments.
pub(crate) fn aligned(
    mut recording: Cow<'_, Recording>,
    step: f64,
    part: &Part,
) -> Result<(Dataset, AlignReport)> {
    if let Some(list) = &part.segments {
        let wanted = parse::ranges("--segments", list, recording.segments.len())?;
        if let Cow::Borrowed(recording) = &recording {
            let spikes = recording.spikes.len() as u128 * 16;
            let names = memory::of_names(&recording.channel_names);
            memory::plan("a copy of the recording", spikes + names)?;
        }
        let segments = wanted.iter().map(|&i| recording.segments[i]).collect();
        recording.to_mut().segments = segments;
    }
    check_gap(part)?;
    check_gap_against(part, &recording)?;
    let options = AlignOptions {
        step_seconds: step,
        max_gap_seconds: part.max_gap,
    };
    let (mut dataset, report) = recording.align_with(&options)?;
    drop(recording);
    if part.segments.is_some() {
        // Without the spikes of the segments that were not chosen.
        let all: Vec<usize> = (0..dataset.segments.len()).collect();
        dataset = dataset.select(&all);
    }
    if part.from.is_some() || part.until.is_some() {
        let (from, until) = (
            part.from.unwrap_or(0.0),
            part.until.unwrap_or(f64::INFINITY),
        );
        dataset = dataset.between(from, until)?;
    }
    let dataset = dataset
        .with_velocities(&part.velocity)
        .map_err(|e| e.at("--velocity"))?;
    Ok((dataset, report))
}

/// Number of steps of `step` seconds that the whole of `recording` has.
pub(crate) fn steps_of(recording: &Recording, step: f64) -> usize {
    (recording.seconds() / step + 1e-6).floor() as usize
}

/// Refuses a longest gap that is none.
pub(crate) fn check_gap(part: &Part) -> Result<()> {
    match part.max_gap {
        Some(gap) if gap.is_nan() || gap <= 0.0 => Err(Error::argument(format!(
            "--max-gap: expected a number of seconds above 0, or inf, got {gap}"
        ))),
        _ => Ok(()),
    }
}

/// Part of a sample interval that a longest gap may fall short of it.
const SHORT_GAP: f64 = 0.999;

/// Refuses a longest gap that is shorter than the usual interval between samples: nothing would be left but single steps.
fn check_gap_against(part: &Part, recording: &Recording) -> Result<()> {
    if recording.behavior.is_none() {
        return Ok(());
    }
    let interval = recording.behavior_interval();
    let interval = interval.unwrap_or(recording.tick_seconds);
    match part.max_gap {
        Some(gap) if gap < SHORT_GAP * interval => Err(Error::argument(format!(
            "--max-gap: expected at least {} s, the interval between samples of behaviour, got {gap} s, which ends a segment at every sample",
            report::number(interval)
        ))),
        _ => Ok(()),
    }
}

/// Says on standard error what aligning left out and interpolated.
pub(crate) fn tell_aligned(report: &AlignReport) {
    let longest = report.max_gap_seconds.map_or(String::new(), |seconds| {
        format!(
            " longer than {} s, which end their segments (--max-gap)",
            report::number(seconds)
        )
    });
    for (said, count, unit, place) in [
        (
            "left out",
            report.segments_dropped,
            "segment",
            "without a whole step or without behaviour".to_owned(),
        ),
        (
            "left out",
            report.steps_without_behavior,
            "step",
            "before or after the behaviour".to_owned(),
        ),
        (
            "left out",
            report.steps_in_gaps,
            "step",
            format!("in gaps of the behaviour{longest}"),
        ),
        (
            "interpolated",
            report.steps_interpolated,
            "step",
            "between samples of behaviour that are further apart than usual".to_owned(),
        ),
    ] {
        if count > 0 {
            let steps = report::count(count as u128, unit);
            report::note(&format!("{said}: {steps} {place}"));
        }
    }
}

/// The recording at `path` as `model` sees it (its channels by name, its step, the chosen part), and the report on its
/// behaviour.
pub(crate) fn dataset_for(
    model: &Decoder,
    path: &Path,
    chosen: &Part,
) -> Result<(Dataset, AlignReport)> {
    let recording = recording_for(model, path, &chosen.behavior)?;
    let step = model.step_seconds();
    aligned_dataset(recording, step, chosen).map_err(|e| e.at(path.display()))
}

/// The recording at `path` with `model`'s channels, by name.
pub(crate) fn recording_for(
    model: &Decoder,
    path: &Path,
    behavior: &Behaviors,
) -> Result<Recording> {
    let recording = read_recording(path, behavior)?;
    input_form::check(model, recording.form).map_err(|e| e.at(path.display()))?;
    if invented_channel_names(model.channel_names())
        || invented_channel_names(&recording.channel_names)
    {
        eprintln!("channels have no names in the model or the recording: matched by number");
    }
    recording
        .with_channels(model.channel_names())
        .map_err(|e| e.at(path.display()))
}

/// `text` in quotes where it would not be one field otherwise.
fn csv_field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

/// Columns of a table of decoded outputs besides step, start, end and the outputs.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    /// The number of each step's segment.
    pub(crate) segment: bool,
    /// The true value of each output.
    pub(crate) truth: bool,
}

/// A row of a table of decoded outputs.
pub(crate) struct OutputsRow<'a> {
    pub(crate) step: i64,
    /// Written if present.
    pub(crate) segment: Option<usize>,
    pub(crate) estimate: &'a [f32],
    /// Written if present.
    pub(crate) truth: Option<&'a [f32]>,
}

/// Writes decoded outputs as CSV: step, its start and its end in seconds, then each output and, if `dataset` has
/// behaviour (the model's outputs, in its order), its truth. Estimate and truth belong to the step's end: the output of
/// a session when the step is over, and the behaviour at that moment.
pub(crate) fn write_outputs(
    path: &Path,
    outputs: &[OutputInfo],
    dataset: &Dataset,
    decoded: &[f32],
    columns: Columns,
) -> Result<()> {
    betz::file::write_atomically(path, |file| {
        write_outputs_header(file, outputs, columns)?;
        let width = outputs.len();
        for (number, segment) in dataset.segments.iter().enumerate() {
            for step in segment.start..segment.stop {
                let values = step as usize * width..(step + 1) as usize * width;
                let row = OutputsRow {
                    step,
                    segment: columns.segment.then_some(number),
                    estimate: &decoded[values.clone()],
                    truth: columns.truth.then(|| &dataset.behavior[values]),
                };
                write_outputs_row(file, dataset.step_seconds, &row)?;
            }
        }
        Ok(())
    })
}

/// The first line of [`write_outputs`].
pub(crate) fn write_outputs_header(
    to: &mut impl Write,
    outputs: &[OutputInfo],
    columns: Columns,
) -> std::io::Result<()> {
    write!(to, "step,start_seconds,end_seconds")?;
    if columns.segment {
        write!(to, ",segment")?;
    }
    for output in outputs {
        write!(to, ",{}", csv_field(&output.name))?;
        if columns.truth {
            write!(to, ",{}", csv_field(&format!("{}_true", output.name)))?;
        }
    }
    writeln!(to)
}

/// A line of [`write_outputs`].
pub(crate) fn write_outputs_row(
    to: &mut impl Write,
    step_seconds: f64,
    row: &OutputsRow<'_>,
) -> std::io::Result<()> {
    let step = row.step;
    let [start, end] = [step, step + 1].map(|s| s as f64 * step_seconds);
    write!(to, "{step},{start},{end}")?;
    if let Some(segment) = row.segment {
        write!(to, ",{segment}")?;
    }
    for (o, estimate) in row.estimate.iter().enumerate() {
        write!(to, ",{estimate}")?;
        if let Some(truth) = row.truth {
            write!(to, ",{}", truth[o])?;
        }
    }
    writeln!(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_field() {
        assert_eq!(csv_field("x"), "x");
        assert_eq!(csv_field("x, \"left\""), "\"x, \"\"left\"\"\"");
    }
}
