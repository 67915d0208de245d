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

use std::io::Read;
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

/// How a file that holds more than a recording is read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// Series that are behaviour, by name or path; none: the first that holds velocities, else the first.
    pub behavior: Vec<String>,
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
            tick_seconds: 1e-5,
            units: Vec::new(),
            seconds: None,
        }
    }
}

/// What a reader made of a file, and what it left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// What was chosen, mended or left out, a sentence each; empty when there is nothing to say.
    pub notes: Vec<String>,
    /// Paths of the series that could have been behaviour and were not taken.
    pub other_series: Vec<String>,
    /// The file's time that became 0: below 0 where something lies before.
    pub origin_seconds: f64,
}

/// Whether the file at `path` begins as HDF5 does.
pub fn is_hdf5(path: &Path) -> bool {
    let mut start = [0; 8];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut start))
        .is_ok_and(|()| start == *b"\x89HDF\r\n\x1a\n")
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
    if let Some(name) = options.behavior.first() {
        return Err(Error::argument(format!(
            "{}: behaviour '{name}': expected an NWB file, whose series have names, got something else",
            path.display()
        )));
    }
    Ok((Recording::read_npz(path)?, Report::default()))
}
