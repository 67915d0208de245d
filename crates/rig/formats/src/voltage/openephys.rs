//! Open Ephys, binary format: `structure.oebin`, with `sample_numbers.npy` beside the samples and `settings.xml` above.

use std::path::{Path, PathBuf};

use betz_base::{Error, Result};
use serde_json::Value;

use super::neuropixels::{Electrode, ProbeLayout};
use super::xml::{Element, elements, inside};
use super::{
    Location, StreamKind, VoltageChannel, VoltageStream, check_channels, sample_numbers, text,
};

/// Header of a recording.
const HEADER: &str = "structure.oebin";
/// Depth below a folder at which headers are looked for: record node, experiment, recording.
const DEPTH: usize = 4;
/// Folders above the header in which settings are looked for.
const ABOVE: usize = 3;
/// Highest rate of a local field potential in Hz.
const FIELD_HZ: f64 = 3000.0;

/// Headers in `folder` or below it, ascending.
pub(super) fn headers(folder: &Path) -> Result<Vec<PathBuf>> {
    let direct = folder.join(HEADER);
    if direct.is_file() {
        return Ok(vec![direct]);
    }
    let mut found = Vec::new();
    search(folder, DEPTH, &mut found)?;
    found.sort();
    Ok(found)
}

fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let io = |e: std::io::Error| Error::io("reading", folder, &e);
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.file_name().is_some_and(|name| name == HEADER) {
            found.push(path);
        } else if depth > 0 && path.is_dir() && !path.is_symlink() {
            search(&path, depth - 1, found)?;
        }
    }
    Ok(())
}

/// Streams of the header at `path`.
pub(super) fn read(path: &Path) -> Result<Vec<VoltageStream>> {
    let bad = |what: String| Error::recording(format!("{}: {what}", path.display()));
    let json: Value = serde_json::from_str(&text(path)?).map_err(|e| bad(e.to_string()))?;
    let listed = json["continuous"].as_array().filter(|c| !c.is_empty());
    let listed = listed.ok_or_else(|| bad("expected continuous streams, got none".to_owned()))?;
    let settings = settings(path)?;
    let mut streams = Vec::new();
    for stream in listed {
        streams.extend(continuous(path, stream, settings.as_ref())?);
    }
    // Two boards may call their streams alike; folders differ.
    let names: Vec<String> = streams
        .iter()
        .map(|s: &VoltageStream| s.name.clone())
        .collect();
    for stream in &mut streams {
        if names.iter().filter(|name| **name == stream.name).count() > 1 {
            let folder = stream.path().parent().and_then(Path::file_name);
            let folder = folder.map(|f| f.to_string_lossy().into_owned());
            stream.name = folder.unwrap_or_else(|| stream.name.clone());
        }
    }
    Ok(streams)
}

/// The streams of one entry of `continuous`: its electrodes, and other channels that it interleaves.
fn continuous(
    path: &Path,
    json: &Value,
    settings: Option<&Settings>,
) -> Result<Vec<VoltageStream>> {
    let bad = |what: String| Error::recording(format!("{}: {what}", path.display()));
    let folder = json["folder_name"].as_str().map(|f| f.trim_matches('/'));
    let folder = folder.filter(|f| !f.is_empty()).ok_or_else(|| {
        bad("expected a continuous stream with a folder_name, got none".to_owned())
    })?;
    let inside = Path::new(folder).components();
    if !inside
        .into_iter()
        .all(|c| matches!(c, std::path::Component::Normal(_)))
    {
        return Err(bad(format!(
            "folder_name: expected a folder beside the header, got {folder}"
        )));
    }
    let name = json["stream_name"].as_str().unwrap_or(folder).to_owned();
    let rate_hz = json["sample_rate"].as_f64().unwrap_or(0.0);
    if !(rate_hz.is_finite() && rate_hz > 0.0) {
        return Err(bad(format!(
            "{name}: sample_rate: expected a number above 0, got {}",
            json["sample_rate"]
        )));
    }
    let row = json["num_channels"].as_f64().unwrap_or(0.0);
    let row_channels = check_channels(path, "num_channels", row)?;
    let listed = json["channels"].as_array().map_or(&[][..], Vec::as_slice);
    if listed.len() != row_channels {
        return Err(bad(format!(
            "{name}: expected a description of each of {row_channels} channels, got {}",
            listed.len()
        )));
    }
    let base = path.parent().unwrap_or(Path::new("."));
    let data = base.join("continuous").join(folder);
    let electrode = match name.to_ascii_uppercase() {
        upper if upper.ends_with("-LFP") && rate_hz <= FIELD_HZ => StreamKind::LocalField,
        upper if upper.ends_with("-AP") => StreamKind::ActionPotentials,
        _ => StreamKind::Broadband,
    };
    let template = VoltageStream {
        name: name.clone(),
        kind: electrode,
        rate_hz,
        samples: 0,
        expected_samples: None,
        gaps: Vec::new(),
        channels: Vec::new(),
        row_channels,
        notes: Vec::new(),
        location: Location::Flat {
            path: data.join("continuous.dat"),
            offset: 0,
        },
    };
    let mut streams: Vec<VoltageStream> = Vec::new();
    for (column, channel) in listed.iter().enumerate() {
        let kind = channel_kind(channel, electrode);
        let described =
            describe(channel, column, kind).map_err(|what| bad(format!("{name}: {what}")))?;
        match streams.iter_mut().find(|stream| stream.kind == kind) {
            Some(stream) => stream.channels.push(described),
            None => streams.push(VoltageStream {
                name: match (kind, streams.is_empty()) {
                    (_, true) => name.clone(),
                    (StreamKind::Sync, _) => format!("{name}-SYNC"),
                    (other, _) => format!("{name}-{}", other.name()),
                },
                kind,
                channels: vec![described],
                ..template.clone()
            }),
        }
    }
    for stream in &mut streams {
        stream.measure(true, None)?;
        number(stream, &data)?;
        if stream.kind == electrode {
            place(stream, listed, &name, settings);
        }
    }
    Ok(streams)
}

/// Kind of a channel of a stream whose electrodes are of kind `electrode`.
fn channel_kind(channel: &Value, electrode: StreamKind) -> StreamKind {
    let said = |key: &str| channel[key].as_str().unwrap_or("").to_ascii_uppercase();
    let (name, description) = (said("channel_name"), said("description"));
    let is_input = ["ADC", "AUX", "AI", "ANALOG"]
        .iter()
        .any(|start| name.starts_with(start) && !name.starts_with("AIN_CH"));
    if name.contains("SYNC") || description.contains("SYNC LINE") {
        StreamKind::Sync
    } else if channel["type"].as_u64().is_some_and(|kind| kind > 0)
        || is_input
        || description.starts_with("ANALOG INPUT")
        || description.starts_with("AUX")
    {
        StreamKind::Analog
    } else {
        electrode
    }
}

fn describe(
    channel: &Value,
    column: usize,
    kind: StreamKind,
) -> std::result::Result<VoltageChannel, String> {
    let name = channel["channel_name"].as_str();
    let name = name.map_or_else(|| format!("CH{}", column + 1), str::to_owned);
    let bit = channel["bit_volts"].as_f64();
    let bit = bit
        .filter(|bit| bit.is_finite() && *bit > 0.0)
        .ok_or_else(|| {
            format!(
                "bit_volts of {name}: expected above 0, got {}",
                channel["bit_volts"]
            )
        })?;
    // Electrodes are given in microvolts, inputs in volts, if the header does not say.
    let unit = channel["units"].as_str().unwrap_or("").trim();
    let microvolts = match (unit, kind) {
        (_, StreamKind::Sync) => None,
        ("V", _) | ("", StreamKind::Analog) => Some(bit * 1e6),
        ("mV", _) => Some(bit * 1e3),
        ("" | "uV" | "µV" | "μV", _) => Some(bit),
        _ => None,
    };
    // A number that went through 32 bits comes back as the decimal it was.
    let decimal = |value: f64| format!("{}", value as f32).parse().unwrap_or(value);
    Ok(VoltageChannel {
        name,
        column,
        microvolts: microvolts.map(decimal),
        place: None,
        shank: None,
        used: true,
    })
}

/// Takes the gaps from the device's sample numbers.
fn number(stream: &mut VoltageStream, data: &Path) -> Result<()> {
    // Until version 0.6, `timestamps.npy` had the numbers; since then it has seconds.
    let files = ["sample_numbers.npy", "timestamps.npy"].map(|name| data.join(name));
    for file in files.iter().filter(|file| file.is_file()) {
        let Some(numbers) = sample_numbers::read(file)? else {
            continue;
        };
        if numbers.count < stream.samples {
            stream.notes.push(format!(
                "{}: expected {} sample numbers, one per row, got {}: rows after those are left out",
                file.display(),
                stream.samples,
                numbers.count
            ));
            stream.samples = numbers.count;
        } else if numbers.count > stream.samples {
            stream.expected_samples = Some(numbers.count);
            stream.notes.push(format!(
                "{}: expected {} sample numbers, one per row, got {}: the samples were cut short",
                file.display(),
                stream.samples,
                numbers.count
            ));
        }
        stream.gaps = numbers.gaps;
        let length = stream.samples;
        // Gaps behind the last row are none.
        let mut missing = 0;
        stream.gaps.retain(|gap| {
            let kept = gap.start - missing < length;
            missing += gap.length;
            kept
        });
        if !stream.gaps.is_empty() {
            let missing: u64 = stream.gaps.iter().map(|gap| gap.length).sum();
            stream.notes.push(format!(
                "{}: {} with {missing} missing samples ({:.3} s): later times count them",
                file.display(),
                betz_base::text::count(stream.gaps.len() as u128, "gap"),
                missing as f64 / stream.rate_hz
            ));
        }
        return Ok(());
    }
    stream.notes.push(format!(
        "{}: expected sample_numbers.npy, got none: gaps are unknown",
        data.display()
    ));
    Ok(())
}

/// A probe in the settings.
struct Probe {
    name: String,
    layout: Option<&'static ProbeLayout>,
    part: String,
    /// Electrode of each channel, in order.
    selected: Vec<Electrode>,
    /// (x, y) of each channel, in order, with its shank.
    places: Vec<([f32; 2], u32)>,
}

/// Probes in `settings.xml`.
struct Settings {
    path: PathBuf,
    probes: Vec<Probe>,
}

/// Reads the settings above the header at `path`; `None` if there are none.
fn settings(path: &Path) -> Result<Option<Settings>> {
    // The second experiment has settings_2.xml.
    let experiment = path.ancestors().find_map(|folder| {
        let name = folder.file_name()?.to_str()?;
        name.strip_prefix("experiment")?.parse::<u32>().ok()
    });
    let names = match experiment {
        Some(number) if number > 1 => {
            vec![format!("settings_{number}.xml"), "settings.xml".to_owned()]
        }
        _ => vec!["settings.xml".to_owned()],
    };
    let above = path.ancestors().skip(1).take(ABOVE);
    let candidates = above.flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let Some(path) = candidates.into_iter().find(|file| file.is_file()) else {
        return Ok(None);
    };
    let all = elements(&text(&path)?);
    Ok(Some(Settings {
        probes: probes(&all),
        path,
    }))
}

/// Probes in the elements of a settings file, with the names of their streams.
fn probes(all: &[Element]) -> Vec<Probe> {
    let version = all
        .iter()
        .find(|e| e.name == "VERSION")
        .map_or("", |e| &e.text);
    let number = |at: usize| {
        version
            .split('.')
            .nth(at)
            .and_then(|n| n.parse::<u32>().ok())
    };
    let old = (number(0).unwrap_or(1), number(1).unwrap_or(0)) < (0, 6);
    let source = |e: &Element| {
        e.name == "PROCESSOR"
            && e.attribute("name").is_some_and(|n| {
                ["Neuropix-PXI", "OneBox", "ONIX"]
                    .iter()
                    .any(|p| n.contains(p))
            })
    };
    let mut found = Vec::new();
    for at in (0..all.len()).filter(|at| source(&all[*at])) {
        let within = inside(all, at);
        let depth = all[at].depth + 1;
        let mut streams: Vec<String> = Vec::new();
        for stream in within
            .iter()
            .filter(|e| e.name == "STREAM" && e.depth == depth)
        {
            let name = stream.attribute("name").unwrap_or("");
            let name = name.replace("-AP", "").replace("-LFP", "");
            if !name.contains("ADC") && !streams.contains(&name) {
                streams.push(name);
            }
        }
        let node = all[at].attribute("NodeId").or(all[at].attribute("nodeId"));
        let enabled = (0..within.len()).filter(|i| {
            within[*i].name == "NP_PROBE" && within[*i].attribute("isEnabled") != Some("0")
        });
        for (k, i) in enabled.enumerate() {
            let serial = within[i].attribute("probe_serial_number");
            let custom = within[i]
                .attribute("custom_probe_name")
                .filter(|name| Some(*name) != serial);
            let by_order = match streams.is_empty() {
                true => node.map(|node| format!("{node}.{k}")),
                false => streams.get(k).cloned(),
            };
            let name = custom.map(str::to_owned).or(by_order).unwrap_or_default();
            found.push(probe(&within[i], inside(within, i), name, old));
        }
    }
    found
}

/// One probe: element `NP_PROBE` and those inside it.
fn probe(element: &Element, within: &[Element], name: String, old: bool) -> Probe {
    let part = element
        .attribute("probe_part_number")
        .or_else(|| element.attribute("probePartNumber"))
        .unwrap_or("");
    let layout = ProbeLayout::of_part(part);
    let child = |name: &str| within.iter().find(|e| e.name == name);
    let selected = child("SELECTED_ELECTRODES").zip(layout).map(|(e, layout)| {
        let numbers = e.attributes().filter_map(|(_, n)| n.parse::<u32>().ok());
        numbers.map(|n| layout.electrode(n)).collect()
    });
    let places = match (
        child("CHANNELS"),
        child("ELECTRODE_XPOS"),
        child("ELECTRODE_YPOS"),
    ) {
        (Some(channels), Some(x), Some(y)) => {
            electrode_positions(channels, x, y, layout, old).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    Probe {
        name,
        layout,
        part: part.to_owned(),
        selected: selected.unwrap_or_default(),
        places,
    }
}

/// Positions of the channels `CH0`, `CH1`, … in order, with the first column at x = 0.
fn electrode_positions(
    channels: &Element,
    x: &Element,
    y: &Element,
    layout: Option<&'static ProbeLayout>,
    old: bool,
) -> Option<Vec<([f32; 2], u32)>> {
    let mut listed: Vec<(u32, &str, u32)> = Vec::new();
    for (key, value) in channels.attributes() {
        let mut parts = key.strip_prefix("CH")?.split('_');
        let number = parts.next()?.parse().ok()?;
        // `bank:shank`, or `CH0_shank`.
        let shank = value.split_once(':').map(|(_, shank)| shank);
        let shank = shank.or_else(|| parts.next()).unwrap_or("0");
        listed.push((number, key, shank.parse().ok()?));
    }
    listed.sort_unstable_by_key(|(number, _, _)| *number);
    let pitch = layout.map_or(0.0, ProbeLayout::shank_pitch);
    let at = |of: &Element, key: &str| of.attribute(key)?.parse::<f32>().ok();
    let mut places = Vec::new();
    for (_, key, shank) in &listed {
        let mut place = [at(x, key)?, at(y, key)?];
        if old {
            // Until version 0.6, the distance of shanks was added to y.
            place[1] -= pitch * *shank as f32;
        }
        places.push((place, *shank));
    }
    let left = places
        .iter()
        .map(|(p, _)| p[0])
        .fold(f32::INFINITY, f32::min);
    let first = places.iter().map(|(_, shank)| *shank).min().unwrap_or(0);
    let left = left - first as f32 * pitch;
    places.iter_mut().for_each(|(place, _)| place[0] -= left);
    Some(places)
}

/// Positions of a stream's electrodes: by the numbers of electrodes that the header gives, else by the settings' order.
fn place(stream: &mut VoltageStream, listed: &[Value], name: &str, settings: Option<&Settings>) {
    let unknown = |why: String| format!("{name}: positions of electrodes are unknown: {why}");
    let Some(settings) = settings else {
        stream.notes.push(unknown(
            "expected settings.xml above the recording, got none".to_owned(),
        ));
        return;
    };
    let probes = &settings.probes;
    let named = probes
        .iter()
        .find(|p| !p.name.is_empty() && name.contains(&p.name));
    let Some(probe) = named else {
        stream.notes.push(unknown(format!(
            "expected a probe of this stream in {}, got [{}]",
            settings.path.display(),
            probes
                .iter()
                .map(|p| p.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        )));
        return;
    };
    let numbers: Option<Vec<u32>> = (stream.channels.iter())
        .map(|channel| electrode_number(&listed[channel.column]))
        .collect();
    let sites: Vec<([f32; 2], u32)> = match (numbers, probe.layout) {
        (Some(numbers), Some(layout)) => (numbers.iter())
            .filter_map(|n| {
                let electrode = layout.electrode(*n);
                Some((layout.place(electrode)?, electrode.shank))
            })
            .collect(),
        (None, Some(layout)) if !probe.selected.is_empty() => (probe.selected.iter())
            .filter_map(|e| Some((layout.place(*e)?, e.shank)))
            .collect(),
        _ => probe.places.clone(),
    };
    if sites.len() != stream.channels.len() {
        stream.notes.push(unknown(format!(
            "expected {} electrodes of probe {} in {}, got {}",
            stream.channels.len(),
            probe.part,
            settings.path.display(),
            sites.len()
        )));
        return;
    }
    for (channel, (place, shank)) in stream.channels.iter_mut().zip(sites) {
        (channel.place, channel.shank) = (Some(place), Some(shank));
    }
}

/// Number of a channel's electrode on its probe, from its metadata.
fn electrode_number(channel: &Value) -> Option<u32> {
    let metadata = channel["channel_metadata"].as_array()?;
    let index =
        |entry: &&Value| entry["identifier"].as_str() == Some("neuropixels.electrode_index");
    let value = metadata.iter().find(index)?["value"].get(0)?.as_u64()?;
    u32::try_from(value).ok()
}
