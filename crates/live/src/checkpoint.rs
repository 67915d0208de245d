//! State of a pipeline, from which a session that was killed goes on.

use betz_base::{Error, ErrorKind, Result};
use betz_interop::rig::Block;
use serde::{Deserialize, Serialize};

use crate::binner::BinnerState;

/// Rows that the device's clock may differ from the host's over a gap, in seconds: more is a device that has started again.
const LARGEST_JUMP: f64 = 10.0;

/// State of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) head: CheckpointHead,
    /// Bytes of [`Session::checkpoint`](betz_runtime::stream::Session::checkpoint).
    pub(crate) session: Vec<u8>,
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
    pub(crate) binner: BinnerState,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self {
            head: CheckpointHead {
                version: 1,
                model: 0,
                pending: None,
                resumed: 0,
                binner: BinnerState::default(),
            },
            session: Vec::new(),
        }
    }
}

impl Checkpoint {
    /// Bytes that the checkpoints of a session of `channels` take at most, of which `session` are the session's.
    pub(crate) fn most_bytes(channels: usize, session: usize) -> usize {
        // Numbers of at most 20 digits with their names; a float has at most 16 digits, sign and exponent.
        4096 + 32 * channels + session
    }

    /// Writes a u32 length of the JSON, the JSON, and the session to `bytes`, whose room is used again.
    ///
    /// # Errors
    /// `Internal` if the JSON cannot be written.
    pub(crate) fn write_to(&self, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.clear();
        bytes.extend_from_slice(&[0; 4]);
        serde_json::to_writer(&mut *bytes, &self.head)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("writing JSON: {e}")))?;
        let length = (bytes.len() - 4) as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&self.session);
        Ok(())
    }

    /// # Errors
    /// `InvalidRecording` for other bytes than [`Checkpoint::write_to`] makes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let refuse = |got: &str| {
            Error::recording(format!(
                "recording: expected a checkpoint of version 1, got {got}"
            ))
        };
        let parts = bytes
            .split_first_chunk::<4>()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let (json, session) = parts.ok_or_else(|| refuse("too few bytes"))?;
        let head: CheckpointHead =
            serde_json::from_slice(json).map_err(|e| refuse(&e.to_string()))?;
        match head.version {
            1 => Ok(Self {
                head,
                session: session.to_vec(),
            }),
            other => Err(refuse(&format!("version {other}"))),
        }
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
