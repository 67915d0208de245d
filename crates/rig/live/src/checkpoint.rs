//! State of a pipeline, from which a session that was killed goes on.

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::Block;
use serde::{Deserialize, Serialize};

use crate::binner::BinnerState;

/// Rows that the device's clock may differ from the host's over a gap, in seconds: more is a device that has started again.
const LARGEST_JUMP: f64 = 10.0;

/// Version that is written. Version 1 had neither open steps nor front ends.
const VERSION: u32 = 2;

/// State of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) head: CheckpointHead,
    /// Bytes of [`Session::checkpoint`](betz_runtime::stream::Session::checkpoint).
    pub(crate) session: Vec<u8>,
    /// Bytes of the open steps and front ends, in the order of the sources.
    pub(crate) fronts: Vec<u8>,
}

/// The part of a checkpoint that is JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckpointHead {
    version: u32,
    /// Fingerprint of the model that decodes.
    pub(crate) model: u64,
    /// Fingerprint of a model that was given and has not taken over yet.
    pub(crate) pending: Option<u64>,
    /// Times that the session went on after a kill.
    pub(crate) resumed: u64,
    /// Bytes of the session; those behind them are of the front ends. Version 1 has none of these.
    #[serde(default)]
    session_bytes: u64,
    pub(crate) binner: BinnerState,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self {
            head: CheckpointHead {
                version: VERSION,
                model: 0,
                pending: None,
                resumed: 0,
                session_bytes: 0,
                binner: BinnerState::default(),
            },
            session: Vec::new(),
            fronts: Vec::new(),
        }
    }
}

impl Checkpoint {
    /// Makes room in `bytes` and in this state, so that later states of the same sources allocate nothing; they may have `spare`
    /// bytes more.
    pub(crate) fn reserve(&mut self, spare: usize, bytes: &mut Vec<u8>) {
        self.fronts.reserve(spare);
        // Numbers of at most 20 digits with their names.
        bytes.reserve(4096 + self.session.len() + self.fronts.len() + spare);
    }

    /// Writes a u32 length of the JSON, the JSON, the session and the front ends to `bytes`, whose room is used again.
    ///
    /// # Errors
    /// `Internal` if the JSON cannot be written.
    pub(crate) fn write_to(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        self.head.session_bytes = self.session.len() as u64;
        bytes.clear();
        bytes.extend_from_slice(&[0; 4]);
        serde_json::to_writer(&mut *bytes, &self.head)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("writing JSON: {e}")))?;
        let length = (bytes.len() - 4) as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&self.session);
        bytes.extend_from_slice(&self.fronts);
        Ok(())
    }

    /// # Errors
    /// `InvalidRecording` for other bytes than [`Checkpoint::write_to`] makes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let refuse = |got: &str| {
            Error::recording(format!(
                "recording: expected a checkpoint of version 1 or {VERSION}, got {got}"
            ))
        };
        let parts = bytes
            .split_first_chunk::<4>()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let (json, session) = parts.ok_or_else(|| refuse("too few bytes"))?;
        let head: CheckpointHead =
            serde_json::from_slice(json).map_err(|e| refuse(&e.to_string()))?;
        let length = match head.version {
            1 => session.len(),
            VERSION => usize::try_from(head.session_bytes).unwrap_or(usize::MAX),
            other => return Err(refuse(&format!("version {other}"))),
        };
        let (session, fronts) = (session.split_at_checked(length))
            .ok_or_else(|| refuse("too few bytes of a session"))?;
        Ok(Self {
            head,
            session: session.to_vec(),
            fronts: fronts.to_vec(),
        })
    }

    /// True if `block`, the first one after the gap, is of the same run of the device: later than the last row before, and by
    /// as much as the host's clock says.
    pub(crate) fn is_followed_by(&self, block: &Block, rate: f64) -> bool {
        let state = &self.head.binner.first;
        let Some(rows) = block.first.checked_sub(state.next) else {
            return false;
        };
        // The host's clock begins again when the host does.
        let passed = block.host_ns.saturating_sub(state.host_ns).max(0) as f64 * 1e-9;
        (rows as f64 / rate - passed).abs() <= LARGEST_JUMP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As sessions wrote it before front ends were part of it.
    const FIRST: &str = r#"{"version":1,"model":7,"pending":null,"resumed":2,"binner":{"epoch":1,"host_ns":5,"next":60000,"origin":30,
        "first":0,"step":100,"late_in_gap":0,"counts":{"rows":9,"steps":100,"stale":1,"calibrating":1,"skipped":0,"lost":0,
        "bounds":0,"bridged":0,"late":0,"restarts":0,"partial":0,"behind":0},"noise":[8.5,9.0],"behind":0}}"#;

    #[test]
    fn a_checkpoint_of_version_1_is_read() -> Result<()> {
        let mut bytes = (FIRST.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(FIRST.as_bytes());
        bytes.extend_from_slice(&[1, 2, 3]);
        let read = Checkpoint::from_bytes(&bytes)?;
        assert_eq!(
            (read.session.as_slice(), read.fronts.len()),
            (&[1, 2, 3][..], 0)
        );
        assert_eq!(
            (read.head.resumed, read.head.binner.first.next),
            (2, 60_000)
        );
        Ok(())
    }

    #[test]
    fn what_is_written_is_read_and_cut_bytes_are_refused() -> Result<()> {
        let mut written = Checkpoint {
            session: vec![1; 5],
            fronts: vec![2; 7],
            ..Checkpoint::default()
        };
        let mut bytes = Vec::new();
        written.write_to(&mut bytes)?;
        assert_eq!(Checkpoint::from_bytes(&bytes)?, written);
        for length in 0..bytes.len() - 7 {
            assert!(Checkpoint::from_bytes(&bytes[..length]).is_err());
        }
        Ok(())
    }
}
