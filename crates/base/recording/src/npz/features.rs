//! The features of a recording's spikes, as an array beside its spikes.

use std::path::Path;

use super::arrays::Arrays;
use crate::SpikeFeatures;
use betz_base::error::{Error, Result};

/// Name of the array.
pub(super) const FEATURES: &str = "spike_features";

impl SpikeFeatures {
    /// Reads the features in the `.npz` recording `path`: the array `spike_features` (spikes, features).
    ///
    /// # Errors
    /// [`ErrorKind::Io`](betz_base::error::ErrorKind::Io);
    /// [`ErrorKind::InvalidRecording`](betz_base::error::ErrorKind::InvalidRecording) if there is no such array.
    pub fn read_npz(path: &Path) -> Result<Self> {
        let mut start = [0; 2];
        let mut file = betz_base::file::open_file(path)?;
        let is_npz = std::io::Read::read_exact(&mut file, &mut start).is_ok() && &start == b"PK";
        let array = match is_npz {
            true => Arrays::open(path)?.numbers::<f32>(FEATURES, 2)?,
            false => None,
        };
        match array {
            Some(array) => Ok(Self {
                columns: array.shape[1],
                values: array.values,
            }),
            None => Err(Error::recording(format!(
                "{}: expected an .npz recording with an array `{FEATURES}` (spikes, features), got none; docs/recordings.md describes it",
                path.display()
            ))),
        }
    }
}
