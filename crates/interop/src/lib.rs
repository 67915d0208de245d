//! Formats of the field, read into recordings and written from them, and its buses, as sources and sinks of a session:
//! one module and one feature each.
//!
//! ```no_run
//! let (recording, report) = betz_interop::read_recording("session.nwb".as_ref(), &Default::default())?;
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

#[cfg(feature = "brand")]
pub mod brand;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(feature = "lsl")]
pub mod lsl;
#[cfg(feature = "nwb")]
pub mod nwb;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "udp")]
pub mod udp;
#[cfg(feature = "zmq")]
pub mod zmq;

/// Options for reading a file that holds more than a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// Series that are behaviour, by name or path; none: the first that holds velocities, else the first.
    pub behavior: Vec<String>,
    /// Tables of intervals whose rows are the segments; none: `trials`. Each is a name (`epochs`) or a path, with a
    /// condition on one column if wanted (`trials:direction=left`). Series of intervals count as tables.
    pub trials: Vec<String>,
    /// Tables of intervals outside of which nothing is used; none: everything is.
    pub within: Vec<String>,
    /// Tables of intervals in which nothing is used; none: `invalid_times`, if the file has it. `none` names no table.
    pub mask: Vec<String>,
    /// Length of a tick in seconds where the file has times in seconds. (With all options as they are by default, a file
    /// that Betz wrote comes back as it was, with its own.)
    pub tick_seconds: f64,
    /// Units that are read, by name; none: all.
    pub units: Vec<String>,
    /// Seconds of the file's clock, from the first to before the second, that are read: spikes and samples of behaviour in
    /// them, trials that lie in them as a whole. Times stay what they are. `None`: all.
    pub seconds: Option<[f64; 2]>,
}

impl ReadOptions {
    /// The seconds that are read, without ends where none were given.
    ///
    /// # Errors
    /// `InvalidArgument` where there are none between.
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
            units: Vec::new(),
            seconds: None,
        }
    }
}

/// Report of a reader: the choices it made, and the parts it left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Choices, repairs and omissions, a sentence each; empty if there are none.
    pub notes: Vec<String>,
    /// Paths of the series that could have been behaviour and were not taken.
    pub other_series: Vec<String>,
    /// The file's time that became 0: below 0 where something lies before.
    pub origin_seconds: f64,
}

/// First bytes of an HDF5 superblock.
const SUPERBLOCK: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
/// Size of the smallest block that an HDF5 file may begin with; larger ones are doubled.
const USER_BLOCK: u64 = 512;

/// True if the file at `path` is HDF5, with or without a user block.
pub fn is_hdf5(path: &Path) -> bool {
    superblock(path, SUPERBLOCK.len()).is_some()
}

/// The first `bytes` of the superblock of the HDF5 file at `path`, fewer at its end; `None` if it has none. A pipe is
/// not opened: opening one waits for its writer.
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
        // A file that begins as a ZIP archive is one, whatever its size.
        if start.starts_with(b"PK") {
            return None;
        }
        at = if at == 0 { USER_BLOCK } else { at * 2 };
    }
    None
}

/// The recording in the file at `path`, whatever its format: `.npz`, or NWB by its first bytes.
///
/// # Errors
/// Those of [`Recording::read_npz`] and [`nwb::read`]; `InvalidArgument` for behaviour by name of what is not NWB.
pub fn read_recording(path: &Path, options: &ReadOptions) -> Result<(Recording, Report)> {
    #[cfg(feature = "nwb")]
    if is_hdf5(path) {
        return nwb::read(path, options);
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
    Ok((Recording::read_npz(path)?, Report::default()))
}
