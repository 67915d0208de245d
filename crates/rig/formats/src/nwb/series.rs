//! Time series: a list of them, the choice of behaviour, and the times of their samples.

use betz_base::error::{Error, Result};

use super::hdf5::{File, Numbers};
use crate::Report;

/// One time series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Path in the file.
    pub path: String,
    /// Values, row-major (samples, columns), in units: data × conversion + offset.
    pub values: Vec<f64>,
    /// One name per column.
    pub columns: Vec<String>,
    /// Unit of the values.
    pub unit: String,
    /// Time of each sample in seconds.
    pub times: Vec<f64>,
}

/// Group of series as they were acquired.
const ACQUISITION: &str = "acquisition";
/// Group of the modules of processing, each with series and containers.
const PROCESSING: &str = "processing";
/// The module for behaviour.
const BEHAVIOR: &str = "processing/behavior";

/// Series that are not behaviour, by the last part of their path.
const BESIDE: [&str; 2] = ["eval_mask", "TrialNum"];

/// Smallest number of samples of a series that has time along its second axis.
const TALL: usize = 32;

/// Types of series that are not behaviour: voltage, images, texts and intervals.
const NO_BEHAVIOR: [&str; 11] = [
    "ElectricalSeries",
    "SpikeEventSeries",
    "ImageSeries",
    "ImageMaskSeries",
    "IndexSeries",
    "OnePhotonSeries",
    "TwoPhotonSeries",
    "AnnotationSeries",
    "IntervalSeries",
    "RoiResponseSeries",
    "DecompositionSeries",
];

/// Paths of the series that may be behaviour, in the order of the file's names.
pub(super) fn candidates(file: &File) -> Vec<String> {
    let series = file
        .datasets()
        .filter_map(|path| path.strip_suffix("/data"));
    series
        .filter(|path| module(path).is_some())
        .filter(|path| !BESIDE.contains(&leaf(path)))
        .filter(|path| {
            let kind = file.group_text(path, "neurodata_type").unwrap_or_default();
            !NO_BEHAVIOR.contains(&kind.as_str()) && file.is_numeric(&format!("{path}/data"))
        })
        .map(str::to_owned)
        .collect()
}

pub(super) fn leaf(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Container of a path: of series beside each other, or the path itself if it stands alone.
pub(super) fn container(path: &str) -> &str {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    match module(path) == Some(parent) {
        true => path,
        false => parent,
    }
}

/// The group that `path` lies in: `acquisition`, or a module of processing; `None` for other places.
fn module(path: &str) -> Option<&str> {
    let (root, rest) = path.split_once('/')?;
    match root {
        ACQUISITION => Some(root),
        PROCESSING => {
            let (module, _) = rest.split_once('/')?;
            Some(&path[..root.len() + 1 + module.len()])
        }
        _ => None,
    }
}

/// True if a word of the series' name or of its container's says velocity: `hand_vel`, `WheelVelocity`, not `Sound_level`.
fn says_velocity(path: &str) -> bool {
    let inside = module(path).map_or(path, |module| &path[module.len()..]);
    let mut words: Vec<String> = vec![String::new()];
    let mut lower = false;
    for c in inside.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && lower) {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if let (true, Some(word)) = (c.is_alphabetic(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words
        .iter()
        .any(|word| word.starts_with("vel") || word.contains("velocit"))
}

/// Rank of a series that nobody asked for: velocities first, then the module for behaviour, then what was
/// acquired, then other modules.
fn rank(path: &str) -> usize {
    let of_module = match module(path) {
        Some(BEHAVIOR) => 0,
        Some(ACQUISITION) => 1,
        _ => 2,
    };
    of_module + if says_velocity(path) { 0 } else { 10 }
}

/// The series of `wanted` names (of a series, of a container, or whole paths), or those that seem to be meant.
///
/// A series that soft links lead to is one, under whichever of its paths it is asked for.
pub(super) fn chosen(
    file: &File,
    candidates: &[String],
    wanted: &[String],
    report: &mut Report,
) -> Result<Vec<String>> {
    let mut taken: Vec<String> = Vec::new();
    for name in wanted {
        let name = name.trim_matches('/');
        let named = |path: &&String| {
            path.as_str() == name
                || leaf(path) == name
                || container(path) == name
                || leaf(container(path)) == name
        };
        let before = taken.len();
        taken.extend(candidates.iter().filter(named).cloned());
        if taken.len() == before {
            return Err(Error::argument(format!(
                "behaviour: expected one of [{}], got '{name}'",
                candidates.join(", ")
            )));
        }
    }
    if wanted.is_empty() {
        // The first of the lowest rank.
        if let Some(first) = candidates.iter().min_by_key(|path| rank(path)) {
            let beside = |path: &&String| container(path) == container(first);
            taken.extend(candidates.iter().filter(beside).cloned());
        }
    }
    let mut seen = std::collections::HashSet::new();
    taken.retain(|path| seen.insert(file.canonical(path)));
    let others = candidates.iter();
    let others = others.filter(|path| seen.insert(file.canonical(path)));
    report.other_series = others.cloned().collect();
    Ok(taken)
}

/// The series at `path`.
///
/// FALCON's H1 files have series whose attribute `rate` holds the period and whose attribute `offset` is the time of
/// the first sample, where NWB means samples per second and what is added to the data; both are read as they were meant,
/// and the report says so.
pub(super) fn read(file: &File, path: &str, report: &mut Report) -> Result<Series> {
    let data = format!("{path}/data");
    let Some(numbers) = file.numbers(&data)? else {
        return Err(Error::recording(format!("{path}: expected data, got none")));
    };
    let timestamps = file.numbers(&format!("{path}/timestamps"))?;
    let numbers = upright(path, numbers, timestamps.as_ref(), report);
    let samples = numbers.shape.first().copied().unwrap_or(0);
    let columns = numbers.values.len().checked_div(samples).unwrap_or(0);
    let of_h1 = leaf(path).starts_with("OpenLoopKinematics") || h1_table(file, path);
    let factor = file.number(&data, "conversion").unwrap_or(1.0);
    let offset = file.number(&data, "offset").unwrap_or(0.0);
    let added = if of_h1 { 0.0 } else { offset };
    let mut values = numbers.values;
    if factor != 1.0 || added != 0.0 {
        values.iter_mut().for_each(|v| *v = *v * factor + added);
    }
    let times = match timestamps {
        Some(times) => times.values,
        None => {
            let start = format!("{path}/starting_time");
            let first = file
                .numbers(&start)?
                .and_then(|n| n.values.first().copied());
            let (Some(first), Some(rate)) = (first, file.number(&start, "rate")) else {
                return Err(Error::recording(format!(
                    "{path}: expected timestamps, or a starting_time with its rate, got neither"
                )));
            };
            if !(rate.is_finite() && rate > 0.0) {
                return Err(Error::recording(format!(
                    "{start}: expected a rate above 0 samples per second, got {rate}; write the rate, or timestamps"
                )));
            }
            let (first, period) = match of_h1 {
                true => {
                    report.notes.push(format!(
                        "{path}: read as FALCON's H1 has it: `rate` {rate} is {}, `offset` {offset} s the first time",
                        if rate < 1.0 { "the period in seconds" } else { "samples per second" }
                    ));
                    // In 32 bits a period of 0.02 s comes back as 0.0199999996.
                    (
                        offset,
                        if rate < 1.0 {
                            round_period(rate)
                        } else {
                            1.0 / rate
                        },
                    )
                }
                false => (first, period_of(rate)),
            };
            (0..samples).map(|i| first + i as f64 * period).collect()
        }
    };
    if times.len() != samples {
        return Err(Error::recording(format!(
            "{path}: expected {samples} timestamps, one per sample, got {}",
            times.len()
        )));
    }
    Ok(Series {
        columns: names(file, path, columns),
        unit: file.text(&data, "unit").unwrap_or_default(),
        path: path.to_owned(),
        values,
        times,
    })
}

/// `numbers` with time along their first axis, as NWB wants it. Data with more columns than samples, or with the number of
/// timestamps along their second axis, are transposed, and the report says so.
fn upright(
    path: &str,
    numbers: Numbers,
    timestamps: Option<&Numbers>,
    report: &mut Report,
) -> Numbers {
    let &[rows, columns] = &numbers.shape[..] else {
        return numbers;
    };
    let turned = match timestamps {
        Some(times) => times.values.len() == columns && rows != columns,
        // A single sample of a few columns is one.
        None => columns > rows && rows > 0 && columns >= TALL,
    };
    if !turned {
        return numbers;
    }
    report.notes.push(format!(
        "{path}: data of shape ({rows}, {columns}) have time along the second axis: read transposed"
    ));
    let value = |at: usize| numbers.values[at % rows * columns + at / rows];
    Numbers {
        values: (0..rows * columns).map(value).collect(),
        shape: vec![columns, rows],
    }
}

/// Series beside H1's kinematics share its meaning of time.
fn h1_table(file: &File, path: &str) -> bool {
    BESIDE.contains(&leaf(path)) && file.has("acquisition/OpenLoopKinematicsVelocity/data")
}

/// A period that went through 32 bits, as the decimal it was.
pub(super) fn round_period(period: f64) -> f64 {
    restored(period, 1e-7)
}

/// The period of a rate, as the decimal it was if division alone made it another.
pub(super) fn period_of(rate: f64) -> f64 {
    restored(1.0 / rate, 4.0 * f64::EPSILON)
}

/// The period in whole nanoseconds if that is no further away than this part of it.
fn restored(period: f64, part: f64) -> f64 {
    let rounded = (period * 1e9).round() / 1e9;
    match (rounded - period).abs() <= part * period {
        true => rounded,
        false => period,
    }
}

/// Names of the columns: from `comments` "columns=[x,y]", or from a description that lists as many.
fn names(file: &File, path: &str, columns: usize) -> Vec<String> {
    if columns == 1 {
        return vec![leaf(path).to_owned()];
    }
    let said = |attribute: &str| file.group_text(path, attribute).unwrap_or_default();
    let comments = said("comments");
    let listed = comments
        .split_once("columns=[")
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or_else(|| said("description"), |(list, _)| list.to_owned());
    let listed: Vec<&str> = listed.split(',').map(str::trim).collect();
    (0..columns)
        .map(|k| match listed.get(k) {
            Some(name) if listed.len() == columns && !name.is_empty() => {
                format!("{}_{name}", leaf(path))
            }
            _ => format!("{}{k}", leaf(path)),
        })
        .collect()
}
