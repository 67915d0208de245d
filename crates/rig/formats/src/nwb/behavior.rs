//! Behaviour: series side by side on one clock.

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::memory;
use betz_base::text::count;
use betz_recording::{Behavior, OutputInfo};

use super::hdf5::File;
use super::series::{self, Series};
use crate::{ReadOptions, Report};

/// The series of one behaviour, in the order of their columns. Series that nobody asked for by name and that cannot be read
/// are passed over, and the report says why.
fn series_of(
    file: &File,
    options: &ReadOptions,
    report: &mut Report,
) -> Result<(Vec<String>, Vec<Series>)> {
    let mut candidates = series::candidates(file);
    loop {
        let paths = series::chosen(file, &candidates, &options.behavior, report)?;
        let mut said = Report::default();
        let read = paths.iter().map(|path| series::read(file, path, &mut said));
        match read.collect::<Result<Vec<Series>>>() {
            Ok(columns) => {
                report.notes.extend(said.notes);
                return Ok((paths, columns));
            }
            Err(e) if options.behavior.is_empty() && e.kind() == ErrorKind::InvalidRecording => {
                report
                    .notes
                    .push(format!("not taken as behaviour: {}", e.message()));
                candidates.retain(|path| !paths.contains(path));
            }
            Err(e) => return Err(e),
        }
    }
}

/// Reads the series of behaviour, side by side on one clock.
///
/// Returns the paths of the series as well.
pub(super) fn read(
    file: &File,
    options: &ReadOptions,
    report: &mut Report,
) -> Result<(Option<Behavior>, Vec<String>)> {
    let (paths, columns) = series_of(file, options, report)?;
    let behavior = beside_each_other(&paths, columns, options, report)?;
    Ok((behavior, paths))
}

/// The columns of all `columns`, which share their times.
fn beside_each_other(
    paths: &[String],
    mut columns: Vec<Series>,
    options: &ReadOptions,
    report: &mut Report,
) -> Result<Option<Behavior>> {
    let Some(first) = columns.first() else {
        return Ok(None);
    };
    let same_as = &first.times;
    for other in &columns[1..] {
        let same = other.times.len() == same_as.len()
            && other
                .times
                .iter()
                .zip(same_as)
                .all(|(a, b)| (a - b).abs() <= 1e-6);
        if !same {
            return Err(Error::mismatch(format!(
                "behaviour: expected series that are sampled at the same times, got {} and {}; name one of them",
                first.path, other.path
            )));
        }
    }
    let mut times = std::mem::take(&mut columns[0].times);
    if is_m2(paths) {
        let step = median_step(&times);
        report.notes.push(format!(
            "{}: timestamps are the starts of bins (FALCON M2): moved to their ends, {step} s later",
            series::container(&paths[0])
        ));
        times.iter_mut().for_each(|t| *t += step);
    }
    let outputs = columns.iter().flat_map(|series| {
        let unit = &series.unit;
        series.columns.iter().map(move |name| OutputInfo {
            name: name.clone(),
            unit: unit.clone(),
        })
    });
    let outputs: Vec<OutputInfo> = outputs.collect();
    let window = options.window()?;
    let asked = times.iter().filter(|time| window.contains(time)).count();
    let mut values = memory::room("behaviour", asked * outputs.len())?;
    // Samples without a number are left out; values between their neighbours are interpolated.
    let in_order = in_order(&times);
    let mut kept = Vec::with_capacity(asked);
    let (mut outside, mut not_finite) = (0, 0_usize);
    for (row, &time) in times.iter().enumerate() {
        if !in_order[row] && time.is_finite() {
            continue;
        }
        if time.is_finite() && !window.contains(&time) {
            outside += 1;
            continue;
        }
        let of_row = columns.iter().flat_map(|series| {
            let width = series.columns.len();
            &series.values[row * width..(row + 1) * width]
        });
        let before = values.len();
        values.extend(of_row.map(|v| *v as f32));
        let finite = time.is_finite() && values[before..].iter().all(|v| v.is_finite());
        match finite {
            true => kept.push(time),
            false => {
                not_finite += 1;
                values.truncate(before);
            }
        }
    }
    if not_finite > 0 {
        report.notes.push(format!(
            "left out: {} of behaviour, not finite",
            count(not_finite as u128, "sample")
        ));
    }
    let lost = times.len() - kept.len() - outside - not_finite;
    if lost > 0 {
        report.notes.extend(out_of_order(&times, &in_order, lost));
    }
    if kept.is_empty() {
        return Ok(None);
    }
    Ok(Some(Behavior {
        outputs,
        values,
        times: Some(kept),
    }))
}

fn is_m2(paths: &[String]) -> bool {
    let of = |path: &String| {
        let container = series::container(path);
        ["acquisition/finger_vel", "acquisition/finger_pos"].contains(&container)
            && ["index_", "mrs_"]
                .iter()
                .any(|finger| series::leaf(path).starts_with(finger))
    };
    !paths.is_empty() && paths.iter().all(of)
}

fn median_step(times: &[f64]) -> f64 {
    let mut steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_by(f64::total_cmp);
    let median = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    (median * 1e9).round() / 1e9
}

/// True for each sample of the longest run of samples whose times do not go back: a time stamp that is far ahead, or far
/// behind, costs one sample and not those around it. Times that are not finite are in no order.
fn in_order(times: &[f64]) -> Vec<bool> {
    // The common case needs no search.
    let finite = times.iter().filter(|t| t.is_finite());
    if finite.clone().is_sorted() {
        return times.iter().map(|t| t.is_finite()).collect();
    }
    // Per length of a run, the row at which such a run ends earliest; per row, the row before it in its run.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![usize::MAX; times.len()];
    for (row, time) in times.iter().enumerate().filter(|(_, t)| t.is_finite()) {
        let length = ends.partition_point(|end| times[*end] <= *time);
        if length > 0 {
            before[row] = ends[length - 1];
        }
        match ends.get_mut(length) {
            Some(end) => *end = row,
            None => ends.push(row),
        }
    }
    let mut kept = vec![false; times.len()];
    let mut at = ends.last().copied().unwrap_or(usize::MAX);
    while at != usize::MAX {
        kept[at] = true;
        at = before[at];
    }
    kept
}

/// A note on the samples whose times are out of order.
fn out_of_order(times: &[f64], kept: &[bool], lost: usize) -> Option<String> {
    let first = (0..times.len()).find(|row| times[*row].is_finite() && !kept[*row])?;
    let beside = |row: Option<usize>| row.map_or(f64::NAN, |row| times[row]);
    let next = beside((first + 1..times.len()).find(|row| kept[*row]));
    let last = beside((0..first).rev().find(|row| kept[*row]));
    Some(format!(
        "left out: {} of behaviour, out of order in time: that of sample {first}, {} s, lies between {last} s and {next} s",
        count(lost as u128, "sample"),
        times[first]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_odd_time_costs_one_sample() {
        let mut times: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.02).collect();
        for (at, odd) in [(40, 2e5), (60, -3.0), (0, 7.0), (99, 0.5)] {
            let was = std::mem::replace(&mut times[at], odd);
            let kept = in_order(&times);
            assert_eq!(kept.iter().filter(|k| !**k).count(), 1, "{at}");
            assert!(!kept[at]);
            times[at] = was;
        }
        times[3] = f64::NAN;
        times[50] = 1e6;
        let kept = in_order(&times);
        assert!(!kept[3] && !kept[50] && kept.iter().filter(|k| **k).count() == 98);
        // Equal times stay.
        assert_eq!(in_order(&[1.0, 1.0, 1.0]), [true; 3]);
    }
}
