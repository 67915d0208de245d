//! A session's state as bytes, so that a restarted controller goes on bit for bit.
//!
//! ```text
//! frame (see betz_base::frame), version 3, payload of 8-byte little-endian words:
//! fingerprint of the model │ ticks, spikes, unknown, dropped, late, future, skipped, swaps │ clock │
//! flagged steps in a row │ n, o │ policies (6) │ n states (f64) │ o last good outputs (f64)
//! ```
//!
//! The policies are those of [`POLICIES`]: under another one the next step would give other bits.
//!
//! With a slew limit, 2·o outputs: those that were given out last (infinity before the first) come behind. With classes,
//! three more values per class: the automata of their events (events that nobody has read are not kept).
//!
//! If the head's states lack a part of a pause, version 4: the [debts](super::debt) come behind everything else.
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
const VERSION: u32 = 3;
const VERSION_WITH_DEBTS: u32 = 4;

/// The words that tell a session's policies, by their names in its configuration.
const POLICIES: [&str; 6] = [
    "slew",
    "hold",
    "hold_seconds",
    "decay_seconds",
    "patience_steps",
    "rest",
];

/// Words before the policies.
const COUNTERS: usize = 13;

/// Words before the states.
const HEAD: usize = COUNTERS + POLICIES.len();

/// States beyond this would overflow before long.
const LARGEST_STATE: f64 = 1e250;

impl Session {
    /// Room that a checkpoint of this session needs, in bytes. The same for the model's whole life. A checkpoint is
    /// shorter if no pause is being made up for.
    pub fn checkpoint_len(&self) -> usize {
        let debts = self.running().active().most_debt_words();
        self.settled_len() + 8 * debts
    }

    /// Length of a checkpoint without debts.
    fn settled_len(&self) -> usize {
        let states = self.running().active().states().count();
        frame::OVERHEAD + 8 * (HEAD + states + self.kept_outputs())
    }

    fn kept_outputs(&self) -> usize {
        self.outputs() * if self.slew().is_some() { 2 } else { 1 } + self.kept_events()
    }

    fn kept_events(&self) -> usize {
        self.event_detector().map_or(0, EventDetector::state_len)
    }

    /// Writes the session's state to the beginning of `bytes`, which has room for
    /// [`checkpoint_len`](Self::checkpoint_len) bytes, and gives its length. Does not allocate: may be called between two
    /// steps.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] when `bytes` is too short.
    pub fn checkpoint_into(&self, bytes: &mut [u8]) -> Result<usize> {
        let (most, room) = (self.checkpoint_len(), bytes.len());
        let engine = self.running().active();
        let settled = self.settled_len();
        let length = settled + 8 * engine.debt_words().count();
        let Some(bytes) = bytes.get_mut(..length).filter(|_| room >= most) else {
            return Err(Error::mismatch(format!(
                "checkpoint: expected room for {most} bytes, got {room}"
            )));
        };
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
        let count = (settled - frame::OVERHEAD) / 8 - HEAD - kept;
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
            .chain(self.policies())
            .chain(states.map(|s| s.to_bits()))
            .chain(last.iter().chain(given).map(|v| f64::from(*v).to_bits()))
            .chain(events.map(f64::to_bits))
            .chain(engine.debt_words());
        let (room, _) = bytes[frame::HEADER..].as_chunks_mut::<8>();
        for (bytes, word) in room.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        let version = match length > settled {
            true => VERSION_WITH_DEBTS,
            false => VERSION,
        };
        frame::seal(CHECKPOINT, version, bytes);
        Ok(length)
    }

    /// The session's state as bytes. Allocates them.
    ///
    /// # Errors
    /// None today; see [`checkpoint_into`](Self::checkpoint_into).
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.checkpoint_len()];
        let length = self.checkpoint_into(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// One word for each of [`POLICIES`].
    fn policies(&self) -> [u64; POLICIES.len()] {
        let slew = self.slew().map_or(0, Slew::policy);
        let [hold, hold_steps, decay_steps, patience, rest] = self.holding().policy();
        [slew, hold, hold_steps, decay_steps, patience, rest]
    }

    /// Puts this session where the one that wrote the checkpoint was: the next step gives the same
    /// bits as that one's next step. Counters are restored; latencies stay.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidCheckpoint`] for bytes that are damaged or no checkpoint,
    /// [`ErrorKind::UnsupportedVersion`] for one of another version of Betz,
    /// [`ErrorKind::Mismatch`] for one of another model (or of the same with another mask) or of a session
    /// with another slew limit or hold policy, which is named, and
    /// [`ErrorKind::InvalidArgument`] during a model swap. The session is unchanged then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        if self.running().is_swapping() {
            return Err(Error::argument(
                "restore: expected a session without a swap in progress; release it or roll it back first",
            ));
        }
        let words = CheckpointWords::read(self.without_spare_room(bytes))?;
        self.check(&words)?;
        let expected = self.running().active().states().count();
        let (values, debts) = words.values.split_at(expected + self.kept_outputs());
        let (states, last) = values.split_at(expected);
        let (last, given) = last.split_at(self.outputs());
        let (given, events) = given.split_at(given.len() - self.kept_events());
        let running = self.running_mut().active_mut().states_mut();
        for (state, bytes) in running.zip(states) {
            *state = number(bytes);
        }
        self.running_mut().active_mut().set_debts(debts);
        let (own_flagged, own_last) = self.holding_mut().state_mut();
        *own_flagged = words.flagged;
        for (value, bytes) in own_last.iter_mut().zip(last) {
            *value = number(bytes) as f32;
        }
        if let Some(slew) = self.slew_mut() {
            for (value, bytes) in slew.state_mut().iter_mut().zip(given) {
                *value = number(bytes) as f32;
            }
        }
        if let Some(detector) = self.event_detector_mut() {
            detector.set_state(events.iter().map(number));
        }
        self.set_clock(words.tick as i64);
        *self.counters_mut() = words.counters;
        Ok(())
    }

    /// The checkpoint at the beginning of `bytes`, if these are all the room that was asked for.
    fn without_spare_room<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let length = bytes.get(frame::HEADER - 8..frame::HEADER);
        let length = length.and_then(|word| <[u8; 8]>::try_from(word).ok());
        let length = length.and_then(|word| usize::try_from(u64::from_le_bytes(word)).ok());
        let length = length.and_then(|payload| payload.checked_add(frame::OVERHEAD));
        match length.and_then(|length| bytes.get(..length)) {
            Some(checkpoint) if bytes.len() == self.checkpoint_len() => checkpoint,
            _ => bytes,
        }
    }

    /// Refuses a checkpoint of another model or policy, and values that no session has.
    fn check(&self, words: &CheckpointWords<'_>) -> Result<()> {
        let model = self.model().fingerprint();
        if words.fingerprint != model {
            return Err(Error::mismatch(format!(
                "checkpoint: expected one of the model {model:#018x} that this session runs, got one of {:#018x}",
                words.fingerprint
            )));
        }
        expect_policies(self.policies(), words.policies)?;
        let expected = self.running().active().states().count();
        let (outputs, kept) = (self.outputs(), self.kept_outputs());
        let settled = words.values.len().min(expected + kept);
        let (values, debts) = words.values.split_at(settled);
        let sane = (values.iter().take(expected)).all(|s| number(s).abs() <= LARGEST_STATE)
            && (values.iter().skip(expected).take(outputs)).all(|s| (number(s) as f32).is_finite())
            && (values.iter().skip(expected + outputs)).all(|s| !number(s).is_nan());
        if words.states != expected as u64
            || words.kept != kept as u64
            || values.len() != expected + kept
            || !sane
            || !self.running().active().has_debts(debts, LARGEST_STATE)
        {
            return Err(Error::new(
                ErrorKind::InvalidCheckpoint,
                format!(
                    "checkpoint: expected {expected} finite states and {kept} outputs, got {} and {}, or others",
                    words.states, words.kept
                ),
            ));
        }
        Ok(())
    }
}

/// A checkpoint whose frame is whole.
struct CheckpointWords<'a> {
    fingerprint: u64,
    counters: Counters,
    tick: u64,
    flagged: u64,
    /// Number of states and of outputs, by the head.
    states: u64,
    kept: u64,
    policies: [u64; POLICIES.len()],
    /// The words of states and outputs.
    values: &'a [[u8; 8]],
}

impl<'a> CheckpointWords<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let (version, payload) = frame::open(CHECKPOINT, bytes)?;
        if !(VERSION..=VERSION_WITH_DEBTS).contains(&version) {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!(
                    "checkpoint format {version}: this Betz reads formats {VERSION} and {VERSION_WITH_DEBTS}"
                ),
            ));
        }
        let (words, rest) = payload.as_chunks::<8>();
        let (Some((head, values)), []) = (words.split_first_chunk::<HEAD>(), rest) else {
            return Err(Error::new(
                ErrorKind::InvalidCheckpoint,
                format!(
                    "checkpoint: expected at least {HEAD} words of 8 bytes, got {} bytes",
                    payload.len()
                ),
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
            states,
            kept,
            policies @ ..,
        ] = head.map(u64::from_le_bytes);
        Ok(Self {
            fingerprint,
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
            tick,
            flagged,
            states,
            kept,
            policies,
            values,
        })
    }
}

fn number(word: &[u8; 8]) -> f64 {
    f64::from_le_bytes(*word)
}

/// Refuses the policies of another session, by the name of the first that differs.
fn expect_policies(own: [u64; POLICIES.len()], its: [u64; POLICIES.len()]) -> Result<()> {
    let differs = (POLICIES.iter().zip(own.iter().zip(its))).find(|(_, (own, its))| *own != its);
    let Some((name, (own, its))) = differs else {
        return Ok(());
    };
    let has = |word| if word == 0 { "none" } else { "one" };
    let (own, its) = match *name {
        "slew" | "rest" if *own != 0 && its != 0 => {
            ("the values of this session".into(), "others".into())
        }
        "slew" | "hold" | "rest" => (has(*own).into(), has(its).into()),
        _ => (format!("{own} steps"), format!("{its}")),
    };
    Err(Error::mismatch(format!(
        "checkpoint: {name}: expected {own}, got {its}: open the session with the policy of the saved one"
    )))
}
