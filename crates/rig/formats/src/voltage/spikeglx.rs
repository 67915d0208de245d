//! SpikeGLX: `.meta` beside `.bin`.
//!
//! A file interleaves channels of several kinds, which `snsApLfSy`, `snsMnMaXaDw` or `snsXaDwSy` count. Each kind becomes a
//! stream. Gains follow SpikeGLX's guide to metadata: volts per bit = range / largest number / gain.

use std::path::{Path, PathBuf};

use betz_base::{Error, Result};

use super::neuropixels::{ProbeLayout, ReadoutChannel, readout_channels};
use super::{Location, StreamKind, VoltageChannel, VoltageStream, check_channels, text};

/// Gain of the bands if the header has no table: that of SpikeGLX's own tools.
const USUAL_AP_GAIN: f64 = 500.0;
const USUAL_LF_GAIN: f64 = 250.0;
/// Most channels that a part of a list of saved channels may have.
const MOST_ACQUIRED: usize = 1 << 16;
/// Largest number of a 16-bit converter.
const SIXTEEN_BITS: f64 = 32_768.0;

/// Headers in `folder` itself and in the folders of its probes, ascending.
pub(super) fn headers(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut search = |folder: &Path, subfolders: &mut Vec<PathBuf>| -> Result<()> {
        let io = |e: std::io::Error| Error::io("reading", folder, &e);
        for entry in std::fs::read_dir(folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if path.extension().is_some_and(|e| e == "meta") && path.is_file() {
                found.push(path);
            } else if path.is_dir() {
                subfolders.push(path);
            }
        }
        Ok(())
    };
    let mut subfolders = Vec::new();
    search(folder, &mut subfolders)?;
    for subfolder in subfolders {
        search(&subfolder, &mut Vec::new())?;
    }
    found.sort();
    Ok(found)
}

/// `key=value` lines of a header.
struct Header<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> Header<'a> {
    /// Value of `key`. Keys of tables begin with `~` in newer headers only.
    fn value(&self, key: &str) -> Option<&'a str> {
        let value = |line: &'a str| {
            let line = line.trim();
            let line = line.strip_prefix('~').unwrap_or(line);
            line.strip_prefix(key)?.strip_prefix('=')
        };
        self.text.lines().find_map(value).map(str::trim)
    }

    fn fault(&self, key: &str, expected: &str, got: &str) -> Error {
        let got: String = got.chars().take(60).collect();
        Error::recording(format!(
            "{}: {key}: expected {expected}, got {got}",
            self.path.display()
        ))
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(text) = self.value(key) else {
            return Ok(None);
        };
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
        number
            .map(Some)
            .ok_or_else(|| self.fault(key, "a number", &format!("{text:?}")))
    }

    fn needed(&self, key: &str) -> Result<f64> {
        self.number(key)?
            .ok_or_else(|| self.fault(key, "a number", "none"))
    }

    /// A number above 0, or `default` if the header lacks it.
    fn positive(&self, key: &str, default: f64) -> Result<f64> {
        let number = self.number(key)?.unwrap_or(default);
        match number > 0.0 {
            true => Ok(number),
            false => Err(self.fault(key, "a number above 0", &number.to_string())),
        }
    }

    /// Numbers of channels per kind, as in `384,0,1`.
    fn counts<const N: usize>(&self, key: &str) -> Result<Option<[usize; N]>> {
        let Some(text) = self.value(key) else {
            return Ok(None);
        };
        let numbers: Option<Vec<usize>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
        let counts = numbers.and_then(|n| <[usize; N]>::try_from(n).ok());
        let expected = format!("{N} numbers of channels");
        counts
            .map(Some)
            .ok_or_else(|| self.fault(key, &expected, text))
    }

    /// Acquired channel of each saved one, as in `0:383,768`.
    fn saved(&self, channels: usize) -> Result<Vec<usize>> {
        let key = "snsSaveChanSubset";
        let Some(text) = self.value(key).filter(|text| *text != "all") else {
            return Ok((0..channels).collect());
        };
        let fault = |got: &str| self.fault(key, "channels such as 0:383,768", got);
        let mut saved = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once(':').unwrap_or((part, part));
            let [Ok(first), Ok(last)] = [first, last].map(|n| n.trim().parse::<usize>()) else {
                return Err(fault(part));
            };
            if last < first || last - first > MOST_ACQUIRED {
                return Err(fault(part));
            }
            saved.extend(first..=last);
        }
        match saved.len() == channels {
            true => Ok(saved),
            false => Err(self.fault(
                key,
                &format!("the {channels} channels of nSavedChans"),
                &format!("{} of them", saved.len()),
            )),
        }
    }
}

/// Streams of the header `meta`, whose samples are in `bin`.
pub(super) fn read(meta: &Path, bin: &Path) -> Result<Vec<VoltageStream>> {
    let text = text(meta)?;
    let header = Header {
        path: meta,
        text: &text,
    };
    let channels = check_channels(meta, "nSavedChans", header.needed("nSavedChans")?)?;
    let device = Device::of(&header)?;
    let rate_hz = header.needed(device.rate_key())?;
    if rate_hz <= 0.0 {
        return Err(header.fault(device.rate_key(), "a number above 0", &rate_hz.to_string()));
    }
    let mut notes = Vec::new();
    let columns = match device {
        Device::Imec => imec(&header, channels, meta, &mut notes)?,
        Device::Nidq => nidq(&header, channels)?,
        Device::OneBox => onebox(&header, channels)?,
    };
    let expected_bytes = header.number("fileSizeBytes")?.filter(|bytes| *bytes > 0.0);
    let base = stream_name(meta, device, &columns);
    let mut streams: Vec<VoltageStream> = Vec::new();
    for (kind, channel) in columns {
        match streams.iter_mut().find(|stream| stream.kind == kind) {
            Some(stream) => stream.channels.push(channel),
            None => streams.push(VoltageStream {
                name: match (kind, streams.first()) {
                    (_, None) => base.clone(),
                    (StreamKind::Sync, _) => format!("{base}-SYNC"),
                    (other, _) => format!("{base}-{}", other.name()),
                },
                kind,
                rate_hz,
                samples: 0,
                expected_samples: None,
                gaps: Vec::new(),
                channels: vec![channel],
                row_channels: channels,
                notes: Vec::new(),
                location: Location::Flat {
                    path: bin.to_owned(),
                    offset: 0,
                },
            }),
        }
    }
    for stream in &mut streams {
        stream.measure(true, expected_bytes.map(|bytes| bytes as u64))?;
        if stream.kind.has_spikes() || stream.kind == StreamKind::LocalField {
            stream.notes.append(&mut notes);
        }
    }
    Ok(streams)
}

/// Device that wrote a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Device {
    Imec,
    Nidq,
    OneBox,
}

impl Device {
    fn of(header: &Header<'_>) -> Result<Self> {
        match header.value("typeThis") {
            Some("imec") => Ok(Self::Imec),
            Some("nidq") => Ok(Self::Nidq),
            Some("obx") => Ok(Self::OneBox),
            Some(other) => Err(header.fault("typeThis", "imec, nidq or obx", other)),
            // The first headers of Phase 3A have none.
            None if header.value("niSampRate").is_some()
                && header.value("imSampRate").is_none() =>
            {
                Ok(Self::Nidq)
            }
            None => Ok(Self::Imec),
        }
    }

    const fn rate_key(self) -> &'static str {
        match self {
            Self::Imec => "imSampRate",
            Self::Nidq => "niSampRate",
            Self::OneBox => "obSampRate",
        }
    }
}

/// Name of a file's first stream: `imec0.ap` of `run_g0_t0.imec0.ap.meta`.
fn stream_name(meta: &Path, device: Device, columns: &[Column]) -> String {
    let file = meta.file_stem().map(|s| s.to_string_lossy().into_owned());
    let file = file.unwrap_or_default();
    let parts: Vec<&str> = file.split('.').collect();
    let is_device = |part: &&str| ["imec", "nidq", "obx"].iter().any(|d| part.starts_with(d));
    if let Some(at) = parts.iter().skip(1).position(is_device) {
        return parts[at + 1..].join(".");
    }
    let kind = columns.first().map_or("ap", |(kind, _)| kind.name());
    match device {
        Device::Imec => format!("imec.{kind}"),
        Device::Nidq => "nidq".to_owned(),
        Device::OneBox => "obx".to_owned(),
    }
}

/// A column of a row, with the kind of its channel.
type Column = (StreamKind, VoltageChannel);

fn column(name: String, at: usize, microvolts: Option<f64>) -> VoltageChannel {
    VoltageChannel {
        name,
        column: at,
        microvolts,
        place: None,
        shank: None,
        used: true,
    }
}

/// Splits the columns of a row by `counts` of each group, in order.
fn groups<const N: usize>(
    header: &Header<'_>,
    key: &str,
    channels: usize,
) -> Result<Option<[std::ops::Range<usize>; N]>> {
    let Some(counts) = header.counts::<N>(key)? else {
        return Ok(None);
    };
    let all: usize = counts.iter().sum();
    if all != channels {
        return Err(header.fault(
            key,
            &format!("{channels} channels, as nSavedChans says"),
            &all.to_string(),
        ));
    }
    let mut next = 0;
    Ok(Some(counts.map(|count| {
        next += count;
        next - count..next
    })))
}

/// Channels of a probe: AP, LF and SY.
fn imec(
    header: &Header<'_>,
    channels: usize,
    meta: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<Column>> {
    let of_file = match meta.to_string_lossy().ends_with(".lf.meta") {
        true => [0..0, 0..channels, channels..channels],
        false => [0..channels, channels..channels, channels..channels],
    };
    let [ap, lf, sync] = groups::<3>(header, "snsApLfSy", channels)?.unwrap_or(of_file);
    let acquired = header.counts::<3>("acqApLfSy")?;
    let saved = header.saved(channels)?;
    let layout = probe_layout(header);
    let table = header.value("imroTbl").and_then(readout_channels);
    let volts = header.positive("imAiRangeMax", 0.0)?;
    let most = layout.map_or(512.0, |l| l.most_int);
    let most = header.positive("imMaxInt", most)?;
    let gains = ImecGains {
        table: table.as_deref(),
        first: header
            .number("imChan0apGain")?
            .filter(|g| *g > 0.0)
            .or_else(|| layout.and_then(ProbeLayout::fixed_gain)),
        first_lf: header.number("imChan0lfGain")?.filter(|g| *g > 0.0),
    };
    // Readout channel of a saved channel: LF channels are numbered after those of AP.
    let of_ap = acquired.map_or(usize::MAX, |[ap, _, _]| ap);
    let readout = |at: usize, lf: bool| match saved[at] {
        number if lf && number >= of_ap => number - of_ap,
        number => number,
    };
    let mut columns = Vec::with_capacity(channels);
    let mut guessed = 0;
    for at in 0..channels {
        if sync.contains(&at) {
            let name = format!("SY{}", at - sync.start);
            columns.push((StreamKind::Sync, column(name, at, None)));
            continue;
        }
        let is_lf = lf.contains(&at);
        let number = readout(at, is_lf);
        let (gain, known) = gains.of(number, is_lf);
        guessed += usize::from(!known);
        let (kind, name) = match is_lf {
            true => (StreamKind::LocalField, format!("LF{number}")),
            false => (StreamKind::ActionPotentials, format!("AP{number}")),
        };
        let microvolts = volts / most / gain * 1e6;
        columns.push((kind, column(name, at, Some(microvolts))));
    }
    if guessed > 0 {
        notes.push(format!(
            "{}: expected gains (imroTbl, imChan0apGain), got none for {guessed} channels: those of SpikeGLX's tools are taken, {USUAL_AP_GAIN} (AP) and {USUAL_LF_GAIN} (LF)",
            header.path.display()
        ));
    }
    let electrodes: Vec<(usize, usize)> = (0..channels)
        .filter(|at| !sync.contains(at))
        .map(|at| (at, readout(at, lf.contains(&at))))
        .collect();
    let placed = place(header, &mut columns, &electrodes, ap.len(), layout, table)?;
    if !placed {
        notes.push(format!(
            "{}: positions of electrodes are unknown: expected snsGeomMap, or snsShankMap or imroTbl with a known probe, got probe {}",
            header.path.display(),
            header.value("imDatPrb_pn").or_else(|| header.value("imDatPrb_type")).unwrap_or("none")
        ));
    }
    Ok(columns)
}

/// Gains of a probe's channels.
struct ImecGains<'a> {
    table: Option<&'a [ReadoutChannel]>,
    /// Gain that the header gives for channel 0, or that the probe has always.
    first: Option<f64>,
    first_lf: Option<f64>,
}

impl ImecGains<'_> {
    /// Gain of a readout channel, and true if it is not a guess.
    fn of(&self, channel: usize, lf: bool) -> (f64, bool) {
        let of_row = |row: &ReadoutChannel| if lf { row.lf_gain } else { row.ap_gain };
        let table = self.table.unwrap_or_default();
        let row = table.get(channel).and_then(of_row).filter(|g| *g > 0.0);
        let first = if lf { self.first_lf } else { self.first };
        let other = first.or_else(|| table.first().and_then(of_row).filter(|g| *g > 0.0));
        match row.or(other) {
            Some(gain) => (gain, true),
            None if lf => (USUAL_LF_GAIN, false),
            None => (USUAL_AP_GAIN, false),
        }
    }
}

/// Layout of the probe by its part number, else by its type.
fn probe_layout(header: &Header<'_>) -> Option<&'static ProbeLayout> {
    if header.value("imProbeOpt").is_some() {
        return ProbeLayout::of_part("NP1010");
    }
    let part = header.value("imDatPrb_pn").and_then(ProbeLayout::of_part);
    part.or_else(|| ProbeLayout::of_type(header.value("imDatPrb_type")?))
}

/// Positions of `electrodes` (column and readout channel), from the first table that the header has; true if known.
fn place(
    header: &Header<'_>,
    columns: &mut [Column],
    electrodes: &[(usize, usize)],
    ap: usize,
    layout: Option<&'static ProbeLayout>,
    table: Option<Vec<ReadoutChannel>>,
) -> Result<bool> {
    if let Some(map) = header.value("snsGeomMap") {
        let sites = geometry(map, layout)
            .ok_or_else(|| header.fault("snsGeomMap", "(shank:x:y:used) of channels", map))?;
        // One entry per saved channel of AP; of LF there are as many.
        for (i, (at, _)) in electrodes.iter().enumerate() {
            let i = if ap > 0 { i % ap } else { i };
            if let Some(site) = sites.get(i) {
                site.put(&mut columns[*at].1);
            }
        }
        return Ok(!sites.is_empty());
    }
    let Some(layout) = layout else {
        return Ok(false);
    };
    if let Some(table) = table {
        let mut known = false;
        for (at, channel) in electrodes {
            let Some(electrode) = table.get(*channel).map(|row| row.electrode) else {
                continue;
            };
            let place = layout.place(electrode);
            known |= place.is_some();
            (columns[*at].1.place, columns[*at].1.shank) =
                (place, place.is_some().then_some(electrode.shank));
        }
        if let Some(map) = header.value("snsShankMap") {
            for (site, (at, _)) in shank_map(map, layout)
                .unwrap_or_default()
                .iter()
                .zip(electrodes)
            {
                columns[*at].1.used = site.used;
            }
        }
        return Ok(known);
    }
    let sites = header
        .value("snsShankMap")
        .and_then(|map| shank_map(map, layout));
    let sites = sites.unwrap_or_default();
    for (site, (at, _)) in sites.iter().zip(electrodes) {
        site.put(&mut columns[*at].1);
    }
    Ok(sites.iter().any(|site| site.place.is_some()))
}

/// Site of a channel on its probe.
struct Site {
    shank: u32,
    place: Option<[f32; 2]>,
    used: bool,
}

impl Site {
    fn put(&self, channel: &mut VoltageChannel) {
        channel.place = self.place;
        channel.shank = self.place.is_some().then_some(self.shank);
        channel.used = self.used;
    }
}

/// Entries `(a:b:c:d)` of a map, without its head.
fn entries(map: &str) -> impl Iterator<Item = Option<[f32; 4]>> + '_ {
    let groups = map.split(')').skip(1).filter(|e| !e.trim().is_empty());
    groups.map(|entry| {
        let mut parts = entry.trim().trim_start_matches('(').split(':');
        let mut next = || {
            parts
                .next()?
                .trim()
                .parse::<f32>()
                .ok()
                .filter(|p| p.is_finite())
        };
        Some([next()?, next()?, next()?, next()?])
    })
}

/// Sites of `(NP1010,1,0,70)(0:27:0:1)…`: part, shanks, their distance, width; then shank, x from its left edge, y, used.
fn geometry(map: &str, layout: Option<&'static ProbeLayout>) -> Option<Vec<Site>> {
    let head: Vec<&str> = map
        .split(')')
        .next()?
        .trim_start_matches('(')
        .split(',')
        .collect();
    let pitch: f32 = head.get(2)?.parse().ok()?;
    let layout = layout.or_else(|| ProbeLayout::of_part(head[0]));
    entries(map)
        .map(|entry| {
            let [shank, x, y, used] = entry?;
            let x = layout.map_or(x, |layout| layout.x_of_edge(x));
            Some(Site {
                shank: shank as u32,
                place: Some([x + shank * pitch, y]),
                used: used > 0.0,
            })
        })
        .collect()
}

/// Sites of `(1,2,480)(0:0:0:1)…`: shanks, columns, rows; then shank, column, row, used.
fn shank_map(map: &str, layout: &ProbeLayout) -> Option<Vec<Site>> {
    entries(map)
        .map(|entry| {
            let [shank, column, row, used] = entry?;
            Some(Site {
                shank: shank as u32,
                place: layout.grid_place(shank as u32, column as u32, row as u32),
                used: used > 0.0,
            })
        })
        .collect()
}

/// Channels of a National Instruments device: multiplexed neural (MN) and analogue (MA), analogue (XA), digital words (DW).
fn nidq(header: &Header<'_>, channels: usize) -> Result<Vec<Column>> {
    let key = "snsMnMaXaDw";
    let groups = groups::<4>(header, key, channels)?;
    let [mn, ma, xa, _] = groups.ok_or_else(|| header.fault(key, "4 numbers", "none"))?;
    let volts = header.positive("niAiRangeMax", 0.0)?;
    let most = header.positive("niMaxInt", SIXTEEN_BITS)?;
    let mn_gain = header.positive("niMNGain", 1.0)?;
    let ma_gain = header.positive("niMAGain", 1.0)?;
    let bit = |gain: f64| Some(volts / most / gain * 1e6);
    let describe = |at: usize| {
        let (kind, name, microvolts) = if mn.contains(&at) {
            (StreamKind::Broadband, format!("MN{at}"), bit(mn_gain))
        } else if ma.contains(&at) {
            let name = format!("MA{}", at - ma.start);
            (StreamKind::Analog, name, bit(ma_gain))
        } else if xa.contains(&at) {
            let name = format!("XA{}", at - xa.start);
            (StreamKind::Analog, name, bit(1.0))
        } else {
            (StreamKind::Sync, format!("XD{}", at - xa.end), None)
        };
        (kind, column(name, at, microvolts))
    };
    Ok((0..channels).map(describe).collect())
}

/// Channels of a OneBox: analogue (XA), digital words (DW), synchronisation (SY).
fn onebox(header: &Header<'_>, channels: usize) -> Result<Vec<Column>> {
    let key = "snsXaDwSy";
    let groups = groups::<3>(header, key, channels)?;
    let [xa, dw, _] = groups.ok_or_else(|| header.fault(key, "3 numbers", "none"))?;
    let volts = header.positive("obAiRangeMax", 0.0)?;
    let most = header.positive("obMaxInt", SIXTEEN_BITS)?;
    let describe = |at: usize| {
        if xa.contains(&at) {
            let bit = Some(volts / most * 1e6);
            return (StreamKind::Analog, column(format!("XA{at}"), at, bit));
        }
        let name = match dw.contains(&at) {
            true => format!("XD{}", at - dw.start),
            false => format!("SY{}", at - dw.end),
        };
        (StreamKind::Sync, column(name, at, None))
    };
    Ok((0..channels).map(describe).collect())
}
