//! File formats of the field, which are read into recordings and written from them. Each has a module and a feature.
//!
//! ```no_run
//! let (recording, report) = betz_formats::read_recording("session.nwb".as_ref(), &Default::default())?;
//! println!("{} channels, {} s", recording.channels(), recording.seconds());
//! for note in &report.notes {
//!     println!("{note}");
//! }
//! # Ok::<(), betz_base::Error>(())
//! ```

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use betz_base::{Error, Result};
use betz_recording::Recording;

mod angles;
#[cfg(feature = "onnx")]
pub mod import;
#[cfg(feature = "nwb")]
pub mod nwb;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "voltage")]
pub mod voltage;

/// Options for reading a file that holds more than a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// Series to read as behaviour, by name or path; if empty, the first series of velocities, else the first series.
    pub behavior: Vec<String>,
    /// Tables of intervals whose rows are the segments; if empty, `trials`. Each is a name (`epochs`) or a path,
    /// optionally with a condition on one column (`trials:direction=left`). Series of intervals count as tables.
    pub trials: Vec<String>,
    /// Tables of intervals outside of which nothing is used; if empty, everything is used.
    pub within: Vec<String>,
    /// Tables of intervals in which nothing is used; if empty, `invalid_times` if it exists. The name `none` means no
    /// table.
    pub mask: Vec<String>,
    /// Length of a tick in seconds, for files with times in seconds. If all options have their defaults, a file that
    /// Betz wrote is read back unchanged, with its own tick.
    pub tick_seconds: f64,
    /// Outputs of behaviour that are angles, by name: read as cosine and sine.
    pub angles: Vec<String>,
    /// Units to read, by name; if empty, all.
    pub units: Vec<String>,
    /// Range of seconds of the file's clock to read: spikes and behaviour samples in it, and trials that lie in it
    /// entirely. Times do not change. `None`: everything.
    pub seconds: Option<[f64; 2]>,
}

impl ReadOptions {
    /// Range of seconds to read; unbounded if none was given.
    ///
    /// # Errors
    /// `InvalidArgument` if the range is empty.
    #[cfg(feature = "nwb")]
    pub(crate) fn window(&self) -> Result<std::ops::Range<f64>> {
        match self.seconds {
            None => Ok(f64::NEG_INFINITY..f64::INFINITY),
            Some([from, until]) if from < until => Ok(from..until),
            Some([from, until]) => Err(Error::argument(format!(
                "seconds: expected a beginning before an end, got {from} to {until}"
            ))),
        }
    }
}

impl Default for ReadOptions {
    /// Ticks of 10 µs.
    fn default() -> Self {
        Self {
            behavior: Vec::new(),
            trials: Vec::new(),
            within: Vec::new(),
            mask: Vec::new(),
            tick_seconds: 1e-5,
            angles: Vec::new(),
            units: Vec::new(),
            seconds: None,
        }
    }
}

/// Report of a reader: its choices, and the parts that it left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Choices, repairs and omissions, one sentence each.
    pub notes: Vec<String>,
    /// Paths of further series that could be behaviour but were not read.
    pub other_series: Vec<String>,
    /// The file's time that became 0; below 0 if the file has earlier times.
    pub origin_seconds: f64,
}

/// First bytes of an HDF5 superblock.
const SUPERBLOCK: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
/// Smallest nonzero offset of a superblock in an HDF5 file; each further possible offset doubles.
const USER_BLOCK: u64 = 512;

/// True if the file at `path` is HDF5, with or without a user block.
pub fn is_hdf5(path: &Path) -> bool {
    superblock(path, SUPERBLOCK.len()).is_some()
}

/// First `bytes` of the superblock of the HDF5 file at `path`, or fewer at the file's end; `None` if it has none. Does
/// not open a pipe, because that would wait for its writer.
pub(crate) fn superblock(path: &Path, bytes: usize) -> Option<Vec<u8>> {
    let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut file = std::fs::File::open(path).ok()?;
    let mut at = 0;
    while at < metadata.len() {
        let mut start = Vec::new();
        file.seek(SeekFrom::Start(at)).ok()?;
        (&mut file)
            .take(bytes as u64)
            .read_to_end(&mut start)
            .ok()?;
        if start.starts_with(&SUPERBLOCK) {
            return Some(start);
        }
        // A file that begins like a ZIP archive is one, whatever its size.
        if start.starts_with(b"PK") {
            return None;
        }
        at = if at == 0 { USER_BLOCK } else { at * 2 };
    }
    None
}

/// Refuses a recording of voltage, which holds no spikes yet, and names its streams. NWB files may hold both.
///
/// # Errors
/// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) for voltage, and for a header of voltage that
/// makes no sense.
#[cfg_attr(
    not(feature = "voltage"),
    expect(unused_variables, reason = "no header is read")
)]
pub fn refuse_voltage(path: &Path) -> Result<()> {
    #[cfg(feature = "voltage")]
    if !is_hdf5(path)
        && let Some(found) = voltage::VoltageRecording::read(path)?
        && !found.streams.is_empty()
    {
        let streams = found.streams.iter();
        let streams: Vec<String> = streams
            .map(|s| format!("{} ({})", s.name, s.kind.name()))
            .collect();
        return Err(Error::recording(format!(
            "{}: expected a recording of spikes, counts or a signal, got one of voltage, with the streams [{}]; betz sort makes spikes of it, betz convert an NWB file",
            path.display(),
            streams.join(", ")
        )));
    }
    Ok(())
}

/// Reads the recording in the file at `path`. The first bytes tell whether it is `.npz` or NWB.
///
/// # Errors
/// The errors of [`Recording::read_npz`] and [`nwb::read`]; `InvalidArgument` if behaviour is chosen by name but the
/// file is not NWB.
pub fn read_recording(path: &Path, options: &ReadOptions) -> Result<(Recording, Report)> {
    #[cfg(feature = "nwb")]
    if is_hdf5(path) {
        return nwb::read(path, options);
    }
    #[cfg(not(feature = "nwb"))]
    if is_hdf5(path) {
        return Err(Error::argument(format!(
            "{}: expected an .npz file, because this build of Betz does not read NWB, got an HDF5 file; a build with the feature `nwb` reads it",
            path.display()
        )));
    }
    let named = [
        ("behaviour", &options.behavior),
        ("trials", &options.trials),
        ("within", &options.within),
        ("mask", &options.mask),
    ];
    for (what, names) in named {
        if let Some(name) = names.first() {
            return Err(Error::argument(format!(
                "{}: {what} '{name}': expected an NWB file, whose series and tables have names, got something else",
                path.display()
            )));
        }
    }
    refuse_voltage(path)?;
    let mut recording = Recording::read_npz(path)?;
    let mut report = Report::default();
    angles::settle(&mut recording.behavior, &options.angles, &mut report.notes)
        .map_err(|e| e.at(path.display()))?;
    Ok((recording, report))
}
