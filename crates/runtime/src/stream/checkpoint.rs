//! A session's state as bytes, so that a restarted controller goes on bit for bit.
//!
//! ```text
//! frame (see betz_base::frame), version 1, payload of 8-byte little-endian words:
//! fingerprint of the model │ ticks, spikes, unknown, dropped, late, swaps │ n │ n states (f64)
//! ```
//!
//! Latencies are not kept: they belong to the process. Nor is a model that is being swapped in: the
//! checkpoint is of the model that gives the estimates.

use super::Session;
use super::session::Counters;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::frame::{self, Content};

const CHECKPOINT: Content = Content {
    magic: *b"BETZSTAT",
    name: "a Betz session's checkpoint",
    damaged: ErrorKind::InvalidCheckpoint,
};
const VERSION: u32 = 1;

/// Words before the states.
const HEAD: usize = 8;

impl Session {
    /// Length of this session's checkpoint in bytes. The same for the model's whole life.
    pub fn checkpoint_len(&self) -> usize {
        frame::OVERHEAD + 8 * (HEAD + self.running().active().states().count())
    }

    /// Writes the session's state to the first [`checkpoint_len`](Self::checkpoint_len) bytes of
    /// `bytes` and gives that length. Does not allocate: may be called between two steps.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] when `bytes` is too short.
    pub fn checkpoint_into(&self, bytes: &mut [u8]) -> Result<usize> {
        let (length, room) = (self.checkpoint_len(), bytes.len());
        let Some(bytes) = bytes.get_mut(..length) else {
            return Err(Error::mismatch(format!(
                "checkpoint: expected room for {length} bytes, got {room}"
            )));
        };
        let engine = self.running().active();
        let Counters {
            ticks,
            spikes,
            unknown,
            dropped,
            late,
            swaps,
        } = *self.counters();
        let states = engine.states();
        let count = (length - frame::OVERHEAD) / 8 - HEAD;
        let head = [
            engine.model().fingerprint(),
            ticks,
            spikes,
            unknown,
            dropped,
            late,
            swaps,
            count as u64,
        ];
        let words = head.into_iter().chain(states.map(|s| s.to_bits()));
        let (room, _) = bytes[frame::HEADER..].as_chunks_mut::<8>();
        for (bytes, word) in room.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        frame::seal(CHECKPOINT, VERSION, bytes);
        Ok(length)
    }

    /// The session's state as bytes. Allocates them.
    ///
    /// # Errors
    /// None today; see [`checkpoint_into`](Self::checkpoint_into).
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.checkpoint_len()];
        self.checkpoint_into(&mut bytes)?;
        Ok(bytes)
    }

    /// Puts this session where the one that wrote the checkpoint was: the next step gives the same
    /// bits as that one's next step. Counters are restored; latencies stay.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidCheckpoint`] for bytes that are damaged or no checkpoint,
    /// [`ErrorKind::UnsupportedVersion`] for one of another version of Betz,
    /// [`ErrorKind::Mismatch`] for one of another model (or of the same with another mask), and
    /// [`ErrorKind::InvalidArgument`] during a model swap. The session is unchanged then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        if self.running().is_swapping() {
            return Err(Error::argument(
                "restore: expected a session without a second model beside it; release or roll back the swap first",
            ));
        }
        let (version, payload) = frame::open(CHECKPOINT, bytes)?;
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!("checkpoint format {version}: this Betz reads format {VERSION}"),
            ));
        }
        let (words, _) = payload.as_chunks::<8>();
        let expected = self.running().active().states().count();
        let Some((head, states)) = words.split_first_chunk::<HEAD>() else {
            return Err(Error::new(
                ErrorKind::InvalidCheckpoint,
                "checkpoint: too short for its counters",
            ));
        };
        let [
            fingerprint,
            ticks,
            spikes,
            unknown,
            dropped,
            late,
            swaps,
            count,
        ] = head.map(u64::from_le_bytes);
        let model = self.model().fingerprint();
        if fingerprint != model {
            return Err(Error::mismatch(format!(
                "checkpoint: expected one of the model {model:#018x} that this session runs, got one of {fingerprint:#018x}"
            )));
        }
        if count != expected as u64
            || states.len() != expected
            || payload.len() != 8 * words.len()
            || !states.iter().all(|s| f64::from_le_bytes(*s).is_finite())
        {
            return Err(Error::new(
                ErrorKind::InvalidCheckpoint,
                format!("checkpoint: expected {expected} finite states, got {count} or others"),
            ));
        }
        let running = self.running_mut().active_mut().states_mut();
        for (state, bytes) in running.zip(states) {
            *state = f64::from_le_bytes(*bytes);
        }
        *self.counters_mut() = Counters {
            ticks,
            spikes,
            unknown,
            dropped,
            late,
            swaps,
        };
        Ok(())
    }
}
