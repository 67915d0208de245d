//! Files in and out: recordings and the parts of them to use, models, decoded outputs.

use std::io::Write;
use std::path::Path;

use betz::model::{Decoder, OutputScore};
use betz::recording::{AlignOptions, Dataset, Recording};
use betz::train::score;
use betz::{Error, Result};

use crate::args::Part;

/// Step of a model trained on spike times when none is asked for.
const DEFAULT_STEP_SECONDS: f64 = 0.005;

/// Reads a recording and says on standard error what it holds.
pub(crate) fn read_recording(path: &Path) -> Result<Recording> {
    let recording = Recording::read_npz(path)?;
    eprintln!(
        "{}: {} channels, {} spikes, {:.1} s, {} segment{}",
        path.display(),
        recording.channels(),
        recording.spikes.len(),
        recording.seconds(),
        recording.segments.len(),
        if recording.segments.len() == 1 {
            ""
        } else {
            "s"
        },
    );
    Ok(recording)
}

/// Refuses, before any work, a file that could not be written when it is done: one whose ending is
/// not among `endings` (where there are any), or whose folder is not there.
pub(crate) fn check_output(option: &str, path: &Path, endings: &[&str]) -> Result<()> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if !endings.is_empty() && !endings.contains(&ending) {
        return Err(Error::argument(format!(
            "{option}: expected a file ending in .{}, got {}",
            endings.join(" or ."),
            path.display()
        )));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Error::argument(format!(
            "{option} {}: expected a folder that is there, got {}",
            path.display(),
            folder.display()
        )));
    }
    if path.is_dir() {
        return Err(Error::argument(format!(
            "{option} {}: expected a file, got a folder",
            path.display()
        )));
    }
    Ok(())
}

/// The step a recording is trained at: its bin, or 5 ms for spike times.
pub(crate) fn default_step(recording: &Recording) -> f64 {
    match recording.form {
        betz::recording::SpikeForm::Counts => recording.tick_seconds,
        betz::recording::SpikeForm::Events => DEFAULT_STEP_SECONDS.max(recording.tick_seconds),
    }
}

/// `recording` on a clock of `step` seconds; what had to be left out is said on standard error.
pub(crate) fn align(recording: &Recording, step: f64) -> Result<Dataset> {
    let options = AlignOptions {
        step_seconds: step,
        max_gap_seconds: None,
    };
    let (dataset, left_out) = recording.align_with(&options)?;
    for (count, what) in [
        (
            left_out.segments_dropped,
            "segments without a whole step or without behaviour",
        ),
        (
            left_out.steps_without_behavior,
            "steps before or after the behaviour",
        ),
        (left_out.steps_in_gaps, "steps in gaps of the behaviour"),
    ] {
        if count > 0 {
            eprintln!("left out: {count} {what}");
        }
    }
    Ok(dataset)
}

/// Keeps the part of `dataset` that `--segments`, `--from` and `--until` name.
pub(crate) fn part(dataset: Dataset, part: &Part) -> Result<Dataset> {
    let mut dataset = match &part.segments {
        None => dataset,
        Some(list) => {
            let wanted = parse_ranges(list, dataset.segments.len())?;
            dataset.select(&wanted)
        }
    };
    if part.from.is_some() || part.until.is_some() {
        dataset = dataset.between(
            part.from.unwrap_or(0.0),
            part.until.unwrap_or(f64::INFINITY),
        )?;
    }
    Ok(dataset)
}

/// Parses `0..800,805` into indices below `count`.
fn parse_ranges(list: &str, count: usize) -> Result<Vec<usize>> {
    let bad = |item: &str| {
        Error::argument(format!(
            "--segments: expected numbers and half-open ranges below {count}, such as 0..800,805; got '{item}'"
        ))
    };
    let number = |text: &str, item: &str| text.trim().parse::<usize>().map_err(|_| bad(item));
    let mut wanted = Vec::new();
    for item in list.split(',') {
        let range = match item.split_once("..") {
            Some((first, last)) => {
                let first = if first.trim().is_empty() {
                    0
                } else {
                    number(first, item)?
                };
                let last = if last.trim().is_empty() {
                    count
                } else {
                    number(last, item)?
                };
                first..last
            }
            None => {
                let one = number(item, item)?;
                one..one + 1
            }
        };
        if range.is_empty() || range.end > count {
            return Err(bad(item));
        }
        wanted.extend(range);
    }
    wanted.sort_unstable();
    wanted.dedup();
    Ok(wanted)
}

/// Two numbers as `LOW,HIGH`.
pub(crate) fn parse_pair(option: &str, text: &str) -> Result<(f64, f64)> {
    let parsed = text
        .split_once(',')
        .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    match parsed {
        Some((low, high)) if low <= high => Ok((low, high)),
        _ => Err(Error::argument(format!(
            "{option}: expected LOW,HIGH with LOW <= HIGH, got '{text}'"
        ))),
    }
}

/// The recording at `path` as `model` sees it: its channels by name, its step, the chosen part.
pub(crate) fn dataset_for(model: &Decoder, path: &Path, chosen: &Part) -> Result<Dataset> {
    let recording = read_recording(path)?
        .with_channels(&model.channel_names)
        .map_err(|e| e.at(path.display()))?;
    let dataset = align(&recording, model.step_seconds).map_err(|e| e.at(path.display()))?;
    part(dataset, chosen).map_err(|e| e.at(path.display()))
}

/// Scores of `decoded` on the dataset's behaviour, outputs matched by name.
pub(crate) fn score(
    model: &Decoder,
    dataset: &Dataset,
    decoded: &[f32],
) -> Result<Vec<OutputScore>> {
    let truth = dataset.with_outputs(&model.outputs)?;
    Ok(score::score_estimates(&truth, decoded, model.delay_steps)?.outputs)
}

/// Writes decoded outputs as CSV: step, seconds, then each output and, where known, its truth.
pub(crate) fn write_outputs(
    path: &Path,
    model: &Decoder,
    dataset: &Dataset,
    decoded: &[f32],
) -> Result<()> {
    let truth = dataset.with_outputs(&model.outputs).ok();
    betz::file::write_atomically(path, |file| {
        write!(file, "step,seconds")?;
        for output in &model.outputs {
            write!(file, ",{}", output.name)?;
            if truth.is_some() {
                write!(file, ",{}_true", output.name)?;
            }
        }
        writeln!(file)?;
        let width = model.outputs.len();
        for segment in &dataset.segments {
            for step in segment.start..segment.stop {
                let row = step as usize * width;
                write!(file, "{step},{}", step as f64 * dataset.step_seconds)?;
                for (o, estimate) in decoded[row..row + width].iter().enumerate() {
                    write!(file, ",{estimate}")?;
                    if let Some(truth) = &truth {
                        write!(file, ",{}", truth.behavior[row + o])?;
                    }
                }
                writeln!(file)?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open_and_checked() {
        assert_eq!(parse_ranges("0..3,5", 6).unwrap(), [0, 1, 2, 5]);
        assert_eq!(parse_ranges("4..", 6).unwrap(), [4, 5]);
        for bad in ["6", "2..2", "a", "0..7", "-1", ""] {
            assert!(parse_ranges(bad, 6).is_err(), "{bad} was accepted");
        }
    }
}
