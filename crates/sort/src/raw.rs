//! Recordings of raw voltage: int16 files, SpikeGLX and Open Ephys, read a block at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use betz_base::file::open_file;
use betz_base::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::front::MAX_CHANNELS;
use crate::voltage::Voltage;

/// Most bytes of a header or a probe's description.
const MOST_TEXT: u64 = 64 << 20;

/// Description of a recording, known before a sample of it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct RawInfo {
    /// File of the samples.
    pub path: PathBuf,
    /// Samples of a channel a second.
    pub rate_hz: f64,
    /// Samples of a row.
    pub channels: usize,
    /// Microvolts a bit.
    pub microvolts: f64,
    /// Place of each channel, (x, y) in micrometres, where the header says; `None`: not an electrode.
    pub places: Option<Vec<Option<[f32; 2]>>>,
    /// Bytes before the first sample.
    pub offset: u64,
}

impl RawInfo {
    /// Looks at the header beside `path`: a SpikeGLX `.bin` or `.meta`, an Open Ephys `structure.oebin`, or the folder
    /// that has one. `None` where there is no header: then rate, channels and gain must be said.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`] for a header that makes no sense, [`ErrorKind::Io`].
    pub fn of(path: &Path) -> Result<Option<Self>> {
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let beside = path.with_extension("meta");
        if ending == "meta" {
            return spikeglx(path, &path.with_extension("bin")).map(Some);
        }
        if ending == "bin" && beside.is_file() {
            return spikeglx(&beside, path).map(Some);
        }
        if ending == "oebin" {
            return open_ephys(path).map(Some);
        }
        if path.is_dir() && path.join("structure.oebin").is_file() {
            return open_ephys(&path.join("structure.oebin")).map(Some);
        }
        Ok(None)
    }
}

fn text(path: &Path) -> Result<String> {
    let io = |e: std::io::Error| Error::io("reading", path, &e);
    let mut file = open_file(path)?;
    let size = file.metadata().map_err(io)?.len();
    if size > MOST_TEXT {
        return Err(Error::recording(format!(
            "{}: expected a description of at most {MOST_TEXT} bytes, got {size}",
            path.display()
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(io)?;
    Ok(text)
}

/// A SpikeGLX header: `key=value` lines.
fn spikeglx(meta: &Path, bin: &Path) -> Result<RawInfo> {
    let text = text(meta)?;
    let bad = |what: String| Error::recording(format!("{}: {what}", meta.display()));
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
        line.map(str::trim)
    };
    let number = |key: &str| -> Result<Option<f64>> {
        let Some(text) = value(key) else {
            return Ok(None);
        };
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
        number
            .map(Some)
            .ok_or_else(|| bad(format!("{key}: expected a number, got {text:?}")))
    };
    let needed = |key: &str, number: Option<f64>| {
        number.ok_or_else(|| bad(format!("expected {key}, got none")))
    };
    let probe = value("typeThis") == Some("imec");
    let (rate, range) = if probe {
        ("imSampRate", "imAiRangeMax")
    } else {
        ("niSampRate", "niAiRangeMax")
    };
    let channels = needed("nSavedChans", number("nSavedChans")?)?;
    let rate_hz = needed(rate, number(rate)?)?;
    let volts = needed(range, number(range)?)?;
    let (bits, gain) = if probe {
        let kind = number("imDatPrb_type")?.unwrap_or(0.0) as u32;
        let bits = number("imMaxInt")?.unwrap_or(512.0);
        // The second and later probes have one gain, the first one per channel in its table.
        let gain = match kind {
            21 | 24 => number("imChan0apGain")?.unwrap_or(80.0),
            2003 | 2004 | 2013 | 2014 | 2020 | 2021 => number("imChan0apGain")?.unwrap_or(100.0),
            _ => imro_gain(value("~imroTbl")).unwrap_or(500.0),
        };
        (bits, gain)
    } else {
        (
            number("niMaxInt")?.unwrap_or(32768.0),
            number("niMNGain")?.unwrap_or(1.0),
        )
    };
    let count = channels as usize;
    if !(channels >= 1.0 && channels <= MAX_CHANNELS as f64 && channels.fract() == 0.0) {
        return Err(bad(format!(
            "nSavedChans: expected 1 to {MAX_CHANNELS}, got {channels}"
        )));
    }
    let microvolts = volts / bits / gain * 1e6;
    if !(microvolts.is_finite() && microvolts > 0.0) {
        return Err(bad(format!(
            "expected a gain above 0, got {microvolts} µV a bit"
        )));
    }
    Ok(RawInfo {
        path: bin.to_owned(),
        rate_hz,
        channels: count,
        microvolts,
        places: geometry(value("~snsGeomMap"), count),
        offset: 0,
    })
}

/// Gain of the first channel of `(0,384)(0 0 0 500 250 1)…`.
fn imro_gain(table: Option<&str>) -> Option<f64> {
    let first = table?.split(')').nth(1)?.trim_start_matches('(');
    let gain: f64 = first.split_whitespace().nth(3)?.parse().ok()?;
    (gain > 0.0).then_some(gain)
}

/// Places from `(NP1010,1,0,70)(0:27:0:1)…`: shank, x, y, used; what has none (the sync channel) is no electrode.
fn geometry(map: Option<&str>, channels: usize) -> Option<Vec<Option<[f32; 2]>>> {
    let map = map?;
    let spacing: f32 = {
        let head = map.split(')').next()?.trim_start_matches('(');
        head.split(',').nth(2)?.parse().ok()?
    };
    let mut places = Vec::new();
    for entry in map.split(')').skip(1).filter(|e| !e.is_empty()) {
        let mut parts = entry.trim_start_matches('(').split(':');
        let mut next = || parts.next()?.parse::<f32>().ok().filter(|p| p.is_finite());
        let (shank, x, y, used) = (next()?, next()?, next()?, next()?);
        places.push((used > 0.0).then_some([x + shank * spacing, y]));
    }
    if places.len() > channels {
        return None;
    }
    places.resize(channels, None);
    Some(places)
}

/// The first continuous stream of an Open Ephys `structure.oebin`.
fn open_ephys(path: &Path) -> Result<RawInfo> {
    let bad = |what: String| Error::recording(format!("{}: {what}", path.display()));
    let json: Value = serde_json::from_str(&text(path)?).map_err(|e| bad(e.to_string()))?;
    let stream = &json["continuous"][0];
    let folder = stream["folder_name"].as_str().ok_or_else(|| {
        bad("expected a continuous stream with a folder_name, got none".to_owned())
    })?;
    let rate_hz = stream["sample_rate"].as_f64().unwrap_or(0.0);
    let channels = stream["num_channels"].as_u64().unwrap_or(0);
    if channels == 0 || channels > MAX_CHANNELS as u64 {
        return Err(bad(format!(
            "num_channels: expected 1 to {MAX_CHANNELS}, got {channels}"
        )));
    }
    let listed = stream["channels"].as_array().map_or(&[][..], Vec::as_slice);
    let volts = |c: &Value| c["bit_volts"].as_f64();
    let microvolts = listed.first().and_then(volts).unwrap_or(0.0);
    if !(microvolts.is_finite() && microvolts > 0.0) {
        return Err(bad(format!(
            "bit_volts of the first channel: expected above 0, got {microvolts}"
        )));
    }
    // Auxiliary and converter inputs have another gain: they are no electrodes.
    let electrode = |c: usize| {
        let gain = listed.get(c).and_then(volts);
        gain.is_some_and(|g| (g - microvolts).abs() < 1e-6 * microvolts)
    };
    let others = (0..channels as usize).any(|c| !electrode(c));
    let apart = |c: usize| electrode(c).then_some([c as f32 * 1000.0, 0.0]);
    let base = path.parent().unwrap_or(Path::new("."));
    Ok(RawInfo {
        path: base.join("continuous").join(folder).join("continuous.dat"),
        rate_hz,
        channels: channels as usize,
        microvolts,
        places: others.then(|| (0..channels as usize).map(apart).collect()),
        offset: 0,
    })
}

/// Places of channels from a probeinterface file: contacts with `device_channel_indices`, or one per channel in order.
///
/// # Errors
/// [`ErrorKind::InvalidRecording`] for what is no such file, [`ErrorKind::Mismatch`] where contacts and channels
/// cannot be told apart, [`ErrorKind::Io`].
pub fn read_probe(path: &Path, channels: usize) -> Result<Vec<Option<[f32; 2]>>> {
    let bad = |what: String| Error::recording(format!("{}: {what}", path.display()));
    let json: Value = serde_json::from_str(&text(path)?).map_err(|e| {
        bad(format!(
            "expected a probe as probeinterface writes it, in JSON, got: {e}"
        ))
    })?;
    let probes = json["probes"]
        .as_array()
        .filter(|p| !p.is_empty())
        .ok_or_else(|| bad("expected a list `probes`, got none".to_owned()))?;
    let mut places = vec![None; channels];
    let contacts_of = |probe: &Value| probe["contact_positions"].as_array().map_or(0, Vec::len);
    let all: usize = probes.iter().map(contacts_of).sum();
    let mut next = 0;
    for (p, probe) in probes.iter().enumerate() {
        let unit = match probe["si_units"].as_str() {
            Some("mm") => 1e3,
            Some("m") => 1e6,
            _ => 1.0,
        };
        let contacts = probe["contact_positions"]
            .as_array()
            .ok_or_else(|| bad(format!("probe {p}: expected contact_positions, got none")))?;
        let wired = probe["device_channel_indices"].as_array();
        if wired.is_some_and(|w| w.len() != contacts.len()) || (wired.is_none() && all != channels)
        {
            return Err(Error::new(
                ErrorKind::Mismatch,
                format!(
                    "{}: expected a contact for each of {channels} channels, or device_channel_indices of all contacts, got {all} contacts",
                    path.display()
                ),
            ));
        }
        for (c, contact) in contacts.iter().enumerate() {
            let at = |axis: usize| {
                let value = contact[axis].as_f64().map(|v| (v * unit) as f32);
                value.filter(|v| v.is_finite())
            };
            let (Some(x), Some(y)) = (at(0), at(1)) else {
                return Err(bad(format!(
                    "probe {p}, contact {c}: expected a finite x and y, got {contact}"
                )));
            };
            let channel = match wired {
                Some(wired) => wired[c].as_i64().unwrap_or(-1),
                None => next,
            };
            next += 1;
            // A contact that is wired to nothing has −1.
            if channel < 0 {
                continue;
            }
            let place = usize::try_from(channel)
                .ok()
                .and_then(|c| places.get_mut(c));
            match place {
                Some(place @ None) => *place = Some([x, y]),
                Some(_) => {
                    return Err(bad(format!(
                        "probe {p}, contact {c}: channel {channel} has a contact already"
                    )));
                }
                None => {
                    return Err(Error::mismatch(format!(
                        "{}: probe {p}, contact {c}: expected a channel below {channels}, got {channel}",
                        path.display()
                    )));
                }
            }
        }
    }
    Ok(places)
}

/// Rows that [`likely_channels`] looks at, and channels up to which it does.
const LOOKED_AT: usize = 1 << 13;
const MOST_LOOKED_AT: usize = 512;
/// Correlation by which another number of channels must excel.
const EXCELS: f64 = 0.3;

/// The number of channels that the samples seem to have, if it is not the one that they are read with.
///
/// A channel's next sample resembles this one more than those of other channels do. The distance at which the
/// interleaved samples are most alike is therefore the number of channels; one is named only if it excels by far.
///
/// # Errors
/// The reader's errors are passed on.
pub fn likely_channels(voltage: &mut dyn Voltage) -> Result<Option<usize>> {
    let channels = voltage.channels();
    let rows = voltage.rows().min(LOOKED_AT as u64) as usize;
    if channels > MOST_LOOKED_AT || rows < LOOKED_AT / 16 {
        return Ok(None);
    }
    let mut samples = vec![0; rows * channels];
    let rows = voltage.read(0, &mut samples)?;
    let mut scaled: Vec<f64> = samples[..rows * channels]
        .iter()
        .map(|s| f64::from(*s))
        .collect();
    for c in 0..channels {
        let of = scaled.iter().skip(c).step_by(channels);
        let (sum, squares) = of.fold((0.0, 0.0), |(sum, squares), v| (sum + v, squares + v * v));
        let mean = sum / rows as f64;
        let deviation = (squares / rows as f64 - mean * mean).max(0.0).sqrt();
        for value in scaled.iter_mut().skip(c).step_by(channels) {
            *value = if deviation > 0.0 {
                (*value - mean) / deviation
            } else {
                0.0
            };
        }
    }
    let alike = |lag: usize| {
        let pairs = scaled.iter().zip(&scaled[lag..]);
        pairs.map(|(a, b)| a * b).sum::<f64>() / (scaled.len() - lag) as f64
    };
    let mut best = (channels, alike(channels) + EXCELS);
    for lag in 1..=(2 * channels).min(scaled.len() / 2) {
        let found = alike(lag);
        if found > best.1 {
            best = (lag, found);
        }
    }
    Ok((best.0 != channels).then_some(best.0))
}

/// A file of 16-bit little-endian samples, (rows, channels), read a block at a time.
#[derive(Debug)]
pub struct RawFile {
    file: File,
    path: PathBuf,
    channels: usize,
    rows: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl RawFile {
    /// Opens the samples that `info` tells of.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::InvalidRecording`] for a length that makes no whole rows.
    pub fn open(info: &RawInfo) -> Result<Self> {
        let path = &info.path;
        let io = |e: std::io::Error| Error::io("reading", path, &e);
        let file = open_file(path)?;
        let metadata = file.metadata().map_err(io)?;
        if info.channels == 0 || info.channels > MAX_CHANNELS {
            return Err(Error::argument(format!(
                "channels: expected 1 to {MAX_CHANNELS}, got {}",
                info.channels
            )));
        }
        let bytes = metadata.len().saturating_sub(info.offset);
        let row = 2 * info.channels as u64;
        if bytes == 0 || !bytes.is_multiple_of(row) {
            return Err(Error::recording(format!(
                "{}: expected rows of {} channels of 16 bits ({row} bytes each), got {bytes} bytes, {} more than whole rows",
                path.display(),
                info.channels,
                bytes % row
            )));
        }
        Ok(Self {
            file,
            path: path.clone(),
            channels: info.channels,
            rows: bytes / row,
            offset: info.offset,
            bytes: Vec::new(),
        })
    }
}

impl Voltage for RawFile {
    fn channels(&self) -> usize {
        self.channels
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn read(&mut self, from: u64, samples: &mut [i16]) -> Result<usize> {
        let io = |e: std::io::Error| Error::io("reading", &self.path, &e);
        let left = self
            .rows
            .saturating_sub(from)
            .min((samples.len() / self.channels) as u64);
        let count = left as usize * self.channels;
        self.bytes.resize(2 * count, 0);
        let at = self.offset + from * 2 * self.channels as u64;
        self.file.seek(SeekFrom::Start(at)).map_err(io)?;
        self.file.read_exact(&mut self.bytes).map_err(io)?;
        let (pairs, _) = self.bytes.as_chunks::<2>();
        for (sample, pair) in samples.iter_mut().zip(pairs) {
            *sample = i16::from_le_bytes(*pair);
        }
        Ok(left as usize)
    }
}
