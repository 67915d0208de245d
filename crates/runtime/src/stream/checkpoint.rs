//! A session's state as bytes, so that a restarted controller goes on bit for bit.
//!
//! ```text
//! frame (see betz_base::frame), version 2, payload of 8-byte little-endian words:
//! fingerprint of the model │ ticks, spikes, unknown, dropped, late, future, skipped, swaps │ clock │
//! flagged steps in a row │ n, o │ n states (f64) │ o last good outputs (f64)
//! ```
//!
//! With a slew limit, 2·o outputs: those that were given out last (infinity before the first) come behind. With classes,
//! three more values per class: the automata of their events (events that nobody has read are not kept).
//!
//! Latencies are not kept: they belong to the process. Nor is a model that is being swapped in: the
//! checkpoint is of the model that gives the estimates.

use super::Session;
use super::events::EventDetector;
use super::session::Counters;
use super::slew::Slew;
use alloc::vec::Vec;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::frame::{self, Content};

const CHECKPOINT: Content = Content {
    magic: *b"BETZSTAT",
    name: "a Betz session's checkpoint",
    damaged: ErrorKind::InvalidCheckpoint,
};
const VERSION: u32 = 2;

/// Words before the states.
const HEAD: usize = 13;

/// States beyond this would overflow before long.
const LARGEST_STATE: f64 = 1e250;

impl Session {
    /// Length of this session's checkpoint in bytes. The same for the model's whole life.
    pub fn checkpoint_len(&self) -> usize {
        let states = self.running().active().states().count();
        frame::OVERHEAD + 8 * (HEAD + states + self.kept_outputs())
    }

    fn kept_outputs(&self) -> usize {
        self.outputs() * if self.slew().is_some() { 2 } else { 1 } + self.kept_events()
    }

    fn kept_events(&self) -> usize {
        self.event_detector().map_or(0, EventDetector::state_len)
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
            future,
            skipped,
            swaps,
        } = *self.counters();
        let states = engine.states();
        let (flagged, last) = self.holding().state();
        let given = self.slew().map_or(&[][..], Slew::state);
        let events = self
            .event_detector()
            .into_iter()
            .flat_map(EventDetector::state);
        let kept = self.kept_outputs();
        let count = (length - frame::OVERHEAD) / 8 - HEAD - kept;
        let head = [
            engine.model().fingerprint(),
            ticks,
            spikes,
            unknown,
            dropped,
            late,
            future,
            skipped,
            swaps,
            self.tick() as u64,
            flagged,
            count as u64,
            kept as u64,
        ];
        let words = (head.into_iter())
            .chain(states.map(|s| s.to_bits()))
            .chain(last.iter().chain(given).map(|v| f64::from(*v).to_bits()))
            .chain(events.map(f64::to_bits));
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
    /// [`ErrorKind::Mismatch`] for one of another model (or of the same with another mask) or of a session
    /// that has a slew limit where this one has none (or the reverse), and
    /// [`ErrorKind::InvalidArgument`] during a model swap. The session is unchanged then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        if self.running().is_swapping() {
            return Err(Error::argument(
                "restore: expected a session without a second model beside it; release or roll back the swap first",
            ));
        }
        let payload = self.checked_payload(bytes)?;
        let running = self.running_mut().active_mut().states_mut();
        for (state, bytes) in running.zip(payload.states) {
            *state = number(bytes);
        }
        let (flagged, last) = self.holding_mut().state_mut();
        *flagged = payload.flagged;
        for (value, bytes) in last.iter_mut().zip(payload.last) {
            *value = number(bytes) as f32;
        }
        if let Some(slew) = self.slew_mut() {
            for (value, bytes) in slew.state_mut().iter_mut().zip(payload.limited) {
                *value = number(bytes) as f32;
            }
        }
        if let Some(detector) = self.event_detector_mut() {
            detector.set_state(payload.events.iter().map(number));
        }
        self.set_clock(payload.tick);
        *self.counters_mut() = payload.counters;
        Ok(())
    }

    /// The payload of a checkpoint that this session can take.
    fn checked_payload<'a>(&self, bytes: &'a [u8]) -> Result<Payload<'a>> {
        let (version, payload) = frame::open(CHECKPOINT, bytes)?;
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!("checkpoint format {version}: this Betz reads format {VERSION}"),
            ));
        }
        let (words, _) = payload.as_chunks::<8>();
        let expected = self.running().active().states().count();
        let (outputs, kept) = (self.outputs(), self.kept_outputs());
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
            future,
            skipped,
            swaps,
            tick,
            flagged,
            count,
            last_count,
        ] = head.map(u64::from_le_bytes);
        let model = self.model().fingerprint();
        if fingerprint != model {
            return Err(Error::mismatch(format!(
                "checkpoint: expected one of the model {model:#018x} that this session runs, got one of {fingerprint:#018x}"
            )));
        }
        self.check_slew_limit(last_count)?;
        let sane = (states.iter().take(expected)).all(|s| number(s).abs() <= LARGEST_STATE)
            && (states.iter().skip(expected).take(outputs)).all(|s| (number(s) as f32).is_finite())
            && (states.iter().skip(expected + outputs)).all(|s| !number(s).is_nan());
        if count != expected as u64
            || last_count != kept as u64
            || states.len() != expected + kept
            || payload.len() != 8 * words.len()
            || !sane
        {
            return Err(Error::new(
                ErrorKind::InvalidCheckpoint,
                format!(
                    "checkpoint: expected {expected} finite states and {kept} outputs, got {count} and {last_count}, or others"
                ),
            ));
        }
        let (states, last) = states.split_at(expected);
        let (last, given) = last.split_at(outputs);
        let (limited, events) = given.split_at(given.len() - self.kept_events());
        Ok(Payload {
            flagged,
            tick: tick as i64,
            counters: Counters {
                ticks,
                spikes,
                unknown,
                dropped,
                late,
                future,
                skipped,
                swaps,
            },
            states,
            last,
            limited,
            events,
        })
    }

    /// Refuses a checkpoint, with `kept` outputs, of a session that has a slew limit where this one has none, or the reverse.
    fn check_slew_limit(&self, kept: u64) -> Result<()> {
        let own = self.kept_outputs();
        let other = 3 * self.outputs() + 2 * self.kept_events() - own;
        if kept == own as u64 || kept != other as u64 {
            return Ok(());
        }
        let (own, its) = match self.slew() {
            Some(_) => ("with", "without"),
            None => ("without", "with"),
        };
        Err(Error::mismatch(format!(
            "checkpoint: expected one of a session {own} a slew limit, got one of a session {its}"
        )))
    }
}

/// The numbers of a checkpoint, by what they restore.
struct Payload<'a> {
    flagged: u64,
    tick: i64,
    counters: Counters,
    /// States of filters, low-pass and head.
    states: &'a [[u8; 8]],
    /// The last estimates.
    last: &'a [[u8; 8]],
    /// State of the slew limit, if there is one.
    limited: &'a [[u8; 8]],
    /// State of the detector of events, if there is one.
    events: &'a [[u8; 8]],
}

fn number(word: &[u8; 8]) -> f64 {
    f64::from_le_bytes(*word)
}
