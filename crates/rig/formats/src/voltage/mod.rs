//! Recordings of voltage, described before a sample is read: SpikeGLX, Open Ephys, NWB, and flat files of 16-bit samples.
//!
//! ```no_run
//! use betz_formats::voltage::VoltageRecording;
//!
//! let recording = VoltageRecording::read("run_g0_t0.imec0.ap.bin".as_ref())?.expect("a header");
//! for stream in &recording.streams {
//!     println!("{}: {} at {} Hz", stream.name, stream.kind.name(), stream.rate_hz);
//! }
//! let mut voltage = recording.stream(None)?.open(false)?;
//! let mut rows = vec![0; 1000 * voltage.channels()];
//! voltage.read(0, &mut rows)?;
//! # Ok::<(), betz_base::Error>(())
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `spikeglx` | `.meta` beside `.bin`: kinds of channels, gains, positions |
//! | `neuropixels` | layouts of Neuropixels probes, and the electrodes that a table of channels selects |
//! | `openephys` | `structure.oebin`, `sample_numbers.npy`, `settings.xml` |
//! | `flat` | blocks of samples of a file |
//! | `probe` | positions from probeinterface's JSON |

mod flat;
mod likely;
mod neuropixels;
mod openephys;
mod probe;
mod sample_numbers;
mod spikeglx;
mod xml;

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use betz_base::file::open_file;
use betz_base::text::count;
use betz_base::{Error, ErrorKind, Result};
use betz_sort::{MAX_CHANNELS, Voltage};

pub use flat::FlatFile;
pub use likely::likely_channels;
pub use probe::read_probe;

/// Most bytes of a header or a description of a probe.
const MOST_TEXT: u64 = 64 << 20;
/// Bytes per sample.
const SAMPLE: u64 = 2;

/// Kind of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamKind {
    /// Electrodes, band of action potentials.
    ActionPotentials,
    /// Electrodes, band of the local field potential.
    LocalField,
    /// Electrodes, one band for both.
    Broadband,
    /// Synchronisation lines and digital words.
    Sync,
    /// Analogue inputs that are not electrodes.
    Analog,
}

impl StreamKind {
    /// Short name: `ap`, `lf`, `broadband`, `sync` or `analog`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ActionPotentials => "ap",
            Self::LocalField => "lf",
            Self::Broadband => "broadband",
            Self::Sync => "sync",
            Self::Analog => "analog",
        }
    }

    /// True if spikes can be sorted from the stream.
    pub const fn has_spikes(self) -> bool {
        matches!(self, Self::ActionPotentials | Self::Broadband)
    }
}

/// One channel of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct VoltageChannel {
    /// Name in the header.
    pub name: String,
    /// Position in a row of samples, from 0.
    pub column: usize,
    /// Microvolts per bit; `None` if unknown.
    pub microvolts: Option<f64>,
    /// (x, y) in micrometres, shanks beside each other; `None` if unknown.
    pub place: Option<[f32; 2]>,
    /// Number of the shank, from 0; `None` if unknown.
    pub shank: Option<u32>,
    /// False for a reference electrode and for one that the header marks as unused.
    pub used: bool,
}

/// Samples that the device took but the file lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// First missing sample, counted by the device from the first sample of the stream.
    pub start: u64,
    /// Number of missing samples.
    pub length: u64,
}

/// Location of the samples of a stream.
#[derive(Debug, Clone, PartialEq)]
enum Location {
    /// A file of rows after `offset` bytes.
    Flat { path: PathBuf, offset: u64 },
    /// A series of an NWB file, by its path there.
    Series { path: PathBuf, series: String },
}

/// A stream of voltage: channels that share a clock, a file and a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct VoltageStream {
    /// Name, by which a stream is chosen.
    pub name: String,
    /// Kind of its channels.
    pub kind: StreamKind,
    /// Samples per second of each channel.
    pub rate_hz: f64,
    /// Rows in the file.
    pub samples: u64,
    /// Rows that the header promises; `None` if it says nothing.
    pub expected_samples: Option<u64>,
    /// Gaps between the rows, ascending.
    pub gaps: Vec<Gap>,
    /// Channels of the stream.
    pub channels: Vec<VoltageChannel>,
    /// Samples per row of the file, which may hold other streams as well.
    pub row_channels: usize,
    /// Remarks on the header and the file, one sentence each.
    pub notes: Vec<String>,
    location: Location,
}

impl VoltageStream {
    /// A flat file without a header.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::InvalidArgument`] for facts that make no sense.
    pub fn flat(path: &Path, rate_hz: f64, channels: usize, microvolts: f64) -> Result<Self> {
        if channels == 0 || channels > MAX_CHANNELS {
            return Err(Error::argument(format!(
                "channels: expected 1 to {MAX_CHANNELS}, got {channels}"
            )));
        }
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
        let channel = |column| VoltageChannel {
            name: format!("ch{column}"),
            column,
            microvolts: Some(microvolts),
            place: None,
            shank: None,
            used: true,
        };
        let mut stream = Self {
            name: stem.unwrap_or_default(),
            kind: StreamKind::Broadband,
            rate_hz,
            samples: 0,
            expected_samples: None,
            gaps: Vec::new(),
            channels: (0..channels).map(channel).collect(),
            row_channels: channels,
            notes: Vec::new(),
            location: Location::Flat {
                path: path.to_owned(),
                offset: 0,
            },
        };
        stream.measure(false, None)?;
        Ok(stream)
    }

    /// The stream of a series of an NWB file.
    #[cfg(feature = "nwb")]
    pub fn of_series(path: &Path, series: &crate::nwb::ElectricalSeries) -> Self {
        let name = series.name();
        let leaf = name.rsplit('/').next().unwrap_or(name);
        let field = name.split('/').any(|part| part.starts_with("LFP"))
            || leaf.to_ascii_lowercase().contains("lfp");
        let place = |column: usize| series.places().and_then(|places| places[column]);
        let channel = |column| VoltageChannel {
            name: format!("ch{column}"),
            column,
            microvolts: series.microvolts(),
            place: place(column),
            shank: None,
            used: true,
        };
        Self {
            name: leaf.to_owned(),
            kind: match field {
                true => StreamKind::LocalField,
                false => StreamKind::Broadband,
            },
            rate_hz: series.rate_hz(),
            samples: series.rows(),
            expected_samples: None,
            gaps: Vec::new(),
            channels: (0..series.channels()).map(channel).collect(),
            row_channels: series.channels(),
            notes: series.notes().to_vec(),
            location: Location::Series {
                path: path.to_owned(),
                series: name.to_owned(),
            },
        }
    }

    /// File of the samples.
    pub fn path(&self) -> &Path {
        match &self.location {
            Location::Flat { path, .. } | Location::Series { path, .. } => path,
        }
    }

    /// Bytes before the first sample; `None` for a series of an NWB file.
    pub fn flat_offset(&self) -> Option<u64> {
        match self.location {
            Location::Flat { offset, .. } => Some(offset),
            Location::Series { .. } => None,
        }
    }

    /// Opens the samples: whole rows, with the channels of other streams that the file interleaves.
    ///
    /// `truncate` takes the whole rows of a file that ends within a row.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::InvalidRecording`] for a file that ends within a row.
    pub fn open(&self, truncate: bool) -> Result<Box<dyn Voltage>> {
        match &self.location {
            Location::Flat { path, offset } => {
                let file = FlatFile::open(path, self.row_channels, *offset, truncate)?;
                Ok(Box::new(file.with_most_rows(self.samples)))
            }
            #[cfg(feature = "nwb")]
            Location::Series { path, series } => Ok(Box::new(crate::nwb::ElectricalSeries::open(
                path,
                Some(series),
            )?)),
            #[cfg(not(feature = "nwb"))]
            Location::Series { path, .. } => Err(Error::argument(format!(
                "{}: expected a build with the feature nwb",
                path.display()
            ))),
        }
    }

    /// Position of each column of a row; `None` for a column that is no used electrode of this stream, or whose position
    /// is unknown. `None` for all if no position is known.
    pub fn places(&self) -> Option<Vec<Option<[f32; 2]>>> {
        let mut places = vec![None; self.row_channels];
        for channel in self.channels.iter().filter(|c| c.used) {
            places[channel.column] = channel.place;
        }
        places.iter().any(Option::is_some).then_some(places)
    }

    /// Microvolts per bit, one for all used channels; `None` if unknown.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`] if channels differ.
    pub fn microvolts(&self) -> Result<Option<f64>> {
        let mut used = self.channels.iter().filter(|c| c.used);
        let Some(first) = used.next() else {
            return Ok(None);
        };
        match used.find(|c| c.microvolts != first.microvolts) {
            Some(other) => {
                let of = |c: &VoltageChannel| match c.microvolts {
                    Some(microvolts) => format!("{microvolts} µV"),
                    None => "an unknown gain".to_owned(),
                };
                Err(Error::recording(format!(
                    "{}: expected one gain for all channels of {}, got {} per bit for {} and {} for {}; write the channels of one gain to a file of their own",
                    self.path().display(),
                    self.name,
                    of(first),
                    first.name,
                    of(other),
                    other.name
                )))
            }
            None => Ok(first.microvolts),
        }
    }

    /// Length on the device's clock in samples: rows and gaps.
    pub fn length(&self) -> u64 {
        self.samples + self.gaps.iter().map(|gap| gap.length).sum::<u64>()
    }

    /// Sample number on the device's clock, from 0, of a row of the file.
    pub fn clock(&self, row: u64) -> u64 {
        let mut at = row;
        for gap in &self.gaps {
            if at < gap.start {
                break;
            }
            at += gap.length;
        }
        at
    }

    /// First row of the file at or after sample `at` of the device's clock.
    pub fn row_at(&self, at: u64) -> u64 {
        let mut missing = 0;
        for gap in &self.gaps {
            if at < gap.start {
                break;
            }
            missing += gap.length.min(at - gap.start);
        }
        (at - missing).min(self.samples)
    }

    /// The parts of `rows` without a gap inside.
    pub fn pieces(&self, rows: Range<u64>) -> Vec<Range<u64>> {
        let (mut pieces, mut start, mut missing) = (Vec::new(), rows.start, 0);
        for gap in &self.gaps {
            let seam = gap.start - missing;
            missing += gap.length;
            if (start + 1..rows.end).contains(&seam) {
                pieces.push(start..seam);
                start = seam;
            }
        }
        pieces.push(start..rows.end);
        pieces
    }

    /// Takes the number of rows from the size of the file, and notes a file that is shorter than the header says.
    ///
    /// A header whose samples are missing can be described: `headed` streams note it.
    fn measure(&mut self, headed: bool, expected_bytes: Option<u64>) -> Result<()> {
        let Location::Flat { path, offset } = &self.location else {
            return Ok(());
        };
        let row = SAMPLE * self.row_channels as u64;
        self.expected_samples = expected_bytes.map(|bytes| bytes / row);
        let size = match std::fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && headed => {
                self.notes
                    .push(format!("{}: the samples are not there", path.display()));
                return Ok(());
            }
            Err(e) => return Err(Error::io("reading", path, &e)),
        };
        let bytes = size.saturating_sub(*offset);
        self.samples = bytes / row;
        if let Some(expected) = expected_bytes.filter(|expected| *expected > bytes) {
            let missing = (expected - bytes) / row;
            self.notes.push(format!(
                "{}: expected {expected} bytes, as the header says, got {bytes}: the file was cut short, {} ({:.3} s) are missing at its end",
                path.display(),
                count(u128::from(missing), "row"),
                missing as f64 / self.rate_hz
            ));
        }
        if !bytes.is_multiple_of(row) {
            self.notes.push(format!(
                "{}: ends {} bytes into a row of {row}; --truncate reads the whole rows",
                path.display(),
                bytes % row
            ));
        }
        Ok(())
    }
}

/// All streams of a recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VoltageRecording {
    /// Streams in the order of the header.
    pub streams: Vec<VoltageStream>,
}

impl VoltageRecording {
    /// Reads the header of the recording at `path`: a SpikeGLX `.bin`, `.meta` or folder; an Open Ephys
    /// `structure.oebin`, its folder or one above it; an NWB file. `None` for a file without a header.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRecording`] for a header that makes no sense, [`ErrorKind::Io`].
    pub fn read(path: &Path) -> Result<Option<Self>> {
        #[cfg(feature = "nwb")]
        if crate::is_hdf5(path) {
            return crate::nwb::voltage_streams(path).map(|streams| Some(Self { streams }));
        }
        let streams = if path.is_dir() {
            match folder_streams(path)? {
                Some(streams) => streams,
                None => return Ok(None),
            }
        } else {
            let beside = path.with_extension("meta");
            match path.extension().and_then(|e| e.to_str()) {
                Some("meta") => spikeglx::read(path, &path.with_extension("bin"))?,
                Some("bin") if beside.is_file() => spikeglx::read(&beside, path)?,
                Some("oebin") => openephys::read(path)?,
                _ => return Ok(None),
            }
        };
        Ok(Some(Self { streams }))
    }

    /// The stream called `name`; without a name the only one that spikes can be sorted from.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if several or none could be meant, with a list.
    pub fn stream(&self, name: Option<&str>) -> Result<&VoltageStream> {
        let list = |streams: &[&VoltageStream]| {
            let names: Vec<String> = streams
                .iter()
                .map(|s| format!("{} ({})", s.name, s.kind.name()))
                .collect();
            names.join(", ")
        };
        let all: Vec<&VoltageStream> = self.streams.iter().collect();
        let meant: Vec<&VoltageStream> = match name {
            Some(name) => all.iter().copied().filter(|s| s.name == name).collect(),
            None => (all.iter().copied())
                .filter(|s| s.kind.has_spikes())
                .collect(),
        };
        match (&meant[..], name) {
            ([one], _) => Ok(one),
            ([], Some(name)) => Err(Error::argument(format!(
                "stream: expected one of [{}], got '{name}'",
                list(&all)
            ))),
            ([], None) => Err(Error::argument(format!(
                "stream: expected one of action potentials, got none; --stream takes one of [{}]",
                list(&all)
            ))),
            (several, _) => Err(Error::argument(format!(
                "stream: expected the name of one stream, because there are several: --stream takes one of [{}]",
                list(several)
            ))),
        }
    }
}

/// Streams of the recording in a folder: an Open Ephys header there, SpikeGLX headers there or one folder below, or the
/// only Open Ephys header below. `None` if there is none.
fn folder_streams(folder: &Path) -> Result<Option<Vec<VoltageStream>>> {
    let oebins = openephys::headers(folder)?;
    if let [oebin] = &oebins[..]
        && oebin.parent() == Some(folder)
    {
        return openephys::read(oebin).map(Some);
    }
    let metas = spikeglx::headers(folder)?;
    if !metas.is_empty() {
        let mut streams = Vec::new();
        for meta in metas {
            streams.extend(spikeglx::read(&meta, &meta.with_extension("bin"))?);
        }
        return Ok(Some(streams));
    }
    match &oebins[..] {
        [] => Ok(None),
        [oebin] => openephys::read(oebin).map(Some),
        _ => {
            let list: Vec<String> = oebins.iter().map(|p| p.display().to_string()).collect();
            Err(Error::argument(format!(
                "{}: expected one recording, got several; name one of [{}]",
                folder.display(),
                list.join(", ")
            )))
        }
    }
}

/// Text of a header.
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
    // Notes of a session may be in any encoding.
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Number of channels of a row within the limits.
fn check_channels(path: &Path, key: &str, channels: f64) -> Result<usize> {
    if channels >= 1.0 && channels <= MAX_CHANNELS as f64 && channels.fract() == 0.0 {
        return Ok(channels as usize);
    }
    Err(Error::new(
        ErrorKind::InvalidRecording,
        format!(
            "{}: {key}: expected 1 to {MAX_CHANNELS}, got {channels}",
            path.display()
        ),
    ))
}
