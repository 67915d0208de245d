//! `betz sort import`: a sorter of the units in a folder of Kilosort4 or Phy.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use betz::recording::arrays::{Values, read_npy};
use betz::sort::{KnownUnit, Settings, TrainOptions, import};
use betz::text::count;
use betz::{Error, Result};
use serde::Serialize;

use super::args::{Raw, SortImport, VoltagePart};
use super::input::{Info, has_header};
use crate::files::{Files, Kind};
use crate::report::{self, Bar, Outcome, Table};

/// Accuracy below which a unit is named.
const WELL: f64 = 0.8;

#[derive(Serialize)]
struct ImportReport {
    file: String,
    units: Vec<UnitReport>,
    /// Units of the folder whose label was not asked for.
    other_units: usize,
    /// Units with too few spikes in the rows that were used.
    rare: Vec<u32>,
    /// Units that the sorter finds with an accuracy below 0.8.
    poor: Vec<u32>,
    silent_channels: Vec<u32>,
    clipped_channels: Vec<u32>,
}

#[derive(Serialize)]
struct UnitReport {
    unit: u32,
    spikes: u64,
    accuracy: f64,
}

pub(super) fn run(args: &SortImport) -> Result<()> {
    let mut files = Files::new(&args.common)
        .reads("--voltage", &args.voltage)
        .may_read("--probe", args.probe.as_deref());
    let folder = PhyFolder::read(&args.phy, &labels_taken(args))?;
    if !folder.others.is_empty() {
        report::remark(format!(
            "{}: left out by their labels: {}; --label NAME takes them",
            args.phy.display(),
            folder.others.join(", ")
        ));
    }
    let params = &folder.params;
    // Kilosort rounds the rate that a header gives.
    let headed = has_header(&args.voltage)?;
    let raw = Raw {
        raw: args.voltage.clone(),
        part: VoltagePart {
            rate: args.part.rate.or(params.rate.filter(|_| !headed)),
            channels: args.part.channels.or(params.channels.filter(|_| !headed)),
            ..args.part.clone()
        },
    };
    let (info, source) = Info::of(&raw, None)?;
    files = files.reads("--voltage", &info.path);
    files.writes("--out", &args.out, Kind::Sorter)?;
    let places = match &args.probe {
        Some(path) => info.places(Some(path))?,
        None => folder.places(info.channels)?,
    };
    let (mut voltage, rows) = source.open(&info, &raw.part)?;
    let beyond = beyond_end(&folder.units, voltage.rows());
    if beyond > 0 {
        report::remark(format!(
            "{}: {} after the end of the voltage ({} rows): left out; check that --voltage is what was sorted",
            args.phy.display(),
            count(beyond as u128, "spike"),
            voltage.rows()
        ));
    }
    let options = TrainOptions {
        rows,
        ..TrainOptions::new(Settings::new(info.rate_hz, info.microvolts), places)
    };
    report::stop_on_interrupt();
    let bar = Bar::new();
    let imported = import(voltage.as_mut(), &options, &folder.units, &bar)?;
    drop(bar);
    imported.sorter.save(&args.out)?;
    let units: Vec<UnitReport> = (imported.units.iter())
        .map(|u| UnitReport {
            unit: u.id,
            spikes: u.spikes,
            accuracy: u.accuracy,
        })
        .collect();
    let told = ImportReport {
        file: args.out.display().to_string(),
        poor: (units.iter().filter(|u| u.accuracy < WELL).map(|u| u.unit)).collect(),
        units,
        other_units: folder.other_units,
        rare: imported.rare,
        silent_channels: imported.silent,
        clipped_channels: imported.clipped,
    };
    report::tell(&told, args.common.json)
}

/// Labels of the units to take.
fn labels_taken(args: &SortImport) -> Vec<String> {
    let mut taken = match args.labels.is_empty() {
        true => vec!["good".to_owned()],
        false => args.labels.clone(),
    };
    if args.also_mua {
        taken.push("mua".to_owned());
    }
    taken
}

/// Spikes after the last row of the voltage, which belong to another file or to a part that is missing.
fn beyond_end(units: &[KnownUnit], rows: u64) -> usize {
    let of_unit = |unit: &KnownUnit| {
        let within = unit.samples.partition_point(|s| *s < rows as i64);
        unit.samples.len() - within
    };
    units.iter().map(of_unit).sum()
}

impl Outcome for ImportReport {
    fn print(&self) -> Result<()> {
        let mut table = Table::new(&["unit", "spikes", "accuracy"]);
        for unit in &self.units {
            table.row([
                unit.unit.to_string(),
                unit.spikes.to_string(),
                format!("{:.3}", unit.accuracy),
            ]);
        }
        table.print()?;
        report::line(&format!(
            "{}: {}; {} of other labels left out, {} with too few spikes",
            self.file,
            count(self.units.len() as u128, "unit"),
            self.other_units,
            self.rare.len()
        ))?;
        if !self.poor.is_empty() {
            report::line(&format!(
                "found with an accuracy below {WELL}: units {:?}",
                self.poor
            ))?;
        }
        Ok(())
    }
}

/// Facts of `params.py`.
#[derive(Default)]
struct Params {
    rate: Option<f64>,
    channels: Option<usize>,
}

/// A folder of Kilosort4 or Phy.
struct PhyFolder {
    units: Vec<KnownUnit>,
    other_units: usize,
    /// Labels that were not asked for, with their numbers of units.
    others: Vec<String>,
    params: Params,
    /// Channel of a row, and place in micrometres, of each channel that was sorted.
    channels: Vec<(usize, [f32; 2])>,
}

impl PhyFolder {
    fn read(folder: &Path, taken: &[String]) -> Result<Self> {
        let params = Params::read(&folder.join("params.py"))?;
        let times = whole_numbers(folder, "spike_times.npy")?;
        let clusters = whole_numbers(folder, "spike_clusters.npy")?;
        if times.len() != clusters.len() {
            return Err(Error::mismatch(format!(
                "{}: expected a cluster for each of the {} spikes of spike_times.npy, got {} in spike_clusters.npy",
                folder.display(),
                times.len(),
                clusters.len()
            )));
        }
        let labels = labels(folder)?;
        let mut trains: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for (time, cluster) in times.iter().zip(&clusters) {
            let id = u32::try_from(*cluster).map_err(|_| {
                Error::recording(format!(
                    "{}: expected numbers of clusters from 0, got {cluster}",
                    folder.join("spike_clusters.npy").display()
                ))
            })?;
            trains.entry(id).or_default().push(*time);
        }
        let wanted = |id: &u32| match labels.get(id) {
            Some(label) => taken.contains(label),
            // Nobody has labelled anything.
            None => labels.is_empty(),
        };
        let mut others: BTreeMap<&str, usize> = BTreeMap::new();
        for id in trains.keys().filter(|id| !wanted(id)) {
            let label = labels.get(id).map_or("no label", String::as_str);
            *others.entry(label).or_default() += 1;
        }
        let others: Vec<String> = others.iter().map(|(l, n)| format!("{l}: {n}")).collect();
        let all = trains.len();
        let units: Vec<KnownUnit> = (trains.into_iter())
            .filter(|(id, _)| wanted(id))
            .map(|(id, mut samples)| {
                samples.sort_unstable();
                KnownUnit { id, samples }
            })
            .collect();
        if units.is_empty() {
            return Err(Error::recording(format!(
                "{}: expected units with the label {}, got none of {all} ({}); --also-mua takes those with mua as well, --label NAME others",
                folder.display(),
                taken.join(" or "),
                others.join(", ")
            )));
        }
        Ok(Self {
            others,
            other_units: all - units.len(),
            units,
            params,
            channels: channels(folder)?,
        })
    }

    /// Place of each channel of a row.
    fn places(&self, row: usize) -> Result<Vec<Option<[f32; 2]>>> {
        let mut places = vec![None; row];
        for (channel, place) in &self.channels {
            let to = places.get_mut(*channel).ok_or_else(|| {
                Error::mismatch(format!(
                    "channel_map.npy: expected channels of a row of {row}, got {channel}"
                ))
            })?;
            *to = Some(*place);
        }
        Ok(places)
    }
}

impl Params {
    /// Reads `KEY = VALUE` lines of Python.
    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
        let mut params = Self::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or("");
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let value = value.trim().trim_matches(['\'', '"']);
            let refuse = |expected: &str| {
                Error::recording(format!(
                    "{}: {}: expected {expected}, got {value}",
                    path.display(),
                    key.trim()
                ))
            };
            match key.trim() {
                "sample_rate" => {
                    let rate = value
                        .parse::<f64>()
                        .ok()
                        .filter(|r| r.is_finite() && *r > 0.0);
                    params.rate = Some(rate.ok_or_else(|| refuse("samples per second"))?);
                }
                "n_channels_dat" => {
                    let channels = value.parse::<usize>().ok().filter(|n| *n > 0);
                    params.channels = Some(channels.ok_or_else(|| refuse("a number of channels"))?);
                }
                "dtype" if !value.contains("int16") || value.contains("uint16") => {
                    return Err(refuse("int16"));
                }
                "offset" if value != "0" => return Err(refuse("0")),
                _ => {}
            }
        }
        Ok(params)
    }
}

/// Numbers of an array of one dimension, or of one column, which are whole.
fn whole_numbers(folder: &Path, name: &str) -> Result<Vec<i64>> {
    let path = folder.join(name);
    let array = read_npy(&path)?;
    let refuse = |got: String| {
        Error::recording(format!(
            "{}: expected a list of whole numbers from 0, got {got}",
            path.display()
        ))
    };
    if !matches!(array.shape[..], [_] | [_, 1]) {
        return Err(refuse(format!("the shape {:?}", array.shape)));
    }
    let values: Vec<f64> = numbers(array.values);
    match values
        .iter()
        .position(|v| !(v.fract() == 0.0 && (0.0..9e15).contains(v)))
    {
        Some(at) => Err(refuse(format!("{} at {at}", values[at])).with_position(at)),
        None => Ok(values.into_iter().map(|v| v as i64).collect()),
    }
}

fn numbers(values: Values) -> Vec<f64> {
    match values {
        Values::U8(v) => v.into_iter().map(f64::from).collect(),
        Values::U16(v) => v.into_iter().map(f64::from).collect(),
        Values::I16(v) => v.into_iter().map(f64::from).collect(),
        Values::F32(v) => v.into_iter().map(f64::from).collect(),
        Values::F64(v) => v,
    }
}

/// Channels that were sorted, with their places.
fn channels(folder: &Path) -> Result<Vec<(usize, [f32; 2])>> {
    let map = whole_numbers(folder, "channel_map.npy")?;
    let path = folder.join("channel_positions.npy");
    let positions = read_npy(&path)?;
    if positions.shape != [map.len(), 2] {
        return Err(Error::mismatch(format!(
            "{}: expected the shape [{}, 2], a place for each channel of channel_map.npy, got {:?}",
            path.display(),
            map.len(),
            positions.shape
        )));
    }
    let values = numbers(positions.values);
    if let Some(at) = values.iter().position(|v| !v.is_finite()) {
        return Err(Error::recording(format!(
            "{}: expected finite micrometres, got {} for channel {}",
            path.display(),
            values[at],
            map[at / 2]
        ))
        .with_position(at));
    }
    let place = |xy: &[f64]| [xy[0] as f32, xy[1] as f32];
    let places = values.chunks_exact(2).map(place);
    Ok(map.into_iter().map(|c| c as usize).zip(places).collect())
}

/// Tables of labels: those given by hand, then Kilosort's.
const TABLES: [&[&str]; 2] = [
    &[
        "cluster_group.tsv",
        "cluster_groups.csv",
        "cluster_group.csv",
    ],
    &["cluster_KSLabel.tsv"],
];
/// Column of a table with its labels.
const LABEL_COLUMNS: [&str; 2] = ["group", "KSLabel"];

/// Label of each cluster: by hand, else Kilosort's; empty if there are none.
fn labels(folder: &Path) -> Result<HashMap<u32, String>> {
    let mut labels = HashMap::new();
    for names in TABLES {
        let paths = names.iter().map(|name| folder.join(name));
        if let Some(path) = paths.into_iter().find(|path| path.exists()) {
            for (id, label) in table(&path)? {
                labels.entry(id).or_insert(label);
            }
        }
    }
    Ok(labels)
}

/// Clusters and labels of one table, whose header names its columns.
fn table(path: &Path) -> Result<HashMap<u32, String>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
    let separator = match text.lines().next() {
        Some(header) if !header.contains('\t') && header.contains(',') => ',',
        _ => '\t',
    };
    let mut labels = HashMap::new();
    let mut column = 1;
    for (i, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
        if i == 0 {
            let named = fields.iter().position(|f| LABEL_COLUMNS.contains(f));
            column = named.unwrap_or(1);
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let id = fields[0].parse::<u32>().ok();
        let (Some(id), Some(label)) = (id, fields.get(column)) else {
            return Err(Error::recording(format!(
                "{}, line {}: expected the number of a cluster, a tab and a label, got \"{line}\"",
                path.display(),
                i + 1
            )));
        };
        // An empty label is none.
        if !label.is_empty() {
            labels.insert(id, (*label).to_owned());
        }
    }
    Ok(labels)
}
