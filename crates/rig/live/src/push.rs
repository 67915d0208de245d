//! A source in the same process: a program pushes blocks, and the session decodes them.

use betz_base::lock::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use betz_base::{Error, Result};
use betz_rigs::rig::{Arrival, Block, Loss, Rig, RigCounts, Samples, Signal, host_ns};
use betz_runtime::model::Decoder;

use crate::lane::LARGEST_FEATURE;
use crate::plan::{Plan, Sends};

/// Address of a source whose blocks the program pushes.
pub(crate) const PUSH: &str = "push";
/// Blocks that may wait for the session: a second of the usual ones.
const ROOM: usize = 1024;

/// Device times up to which steps are placed exactly.
const LAST_ROW: u64 = 1 << 53;

/// Section of a model file with the form of its training data, and the form that has counts. The facade writes it.
const FORM: [u8; 4] = *b"form";
const SPIKES: &[u8] = b"spikes";

fn is_count(value: f32) -> bool {
    (0.0..=f32::from(u16::MAX)).contains(&value) && value.fract() == 0.0
}

/// Rows that a program pushes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rows<'a> {
    /// Voltage in the device's bits, row by row.
    Voltage(&'a [i16]),
    /// Features or counts of channels, row by row.
    Features(&'a [f32]),
}

impl Rows<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Voltage(values) => values.len(),
            Self::Features(values) => values.len(),
        }
    }

    fn to_samples(self) -> Samples {
        match self {
            Self::Voltage(values) => Samples::Voltage(values.to_vec()),
            Self::Features(values) => Samples::Features(values.to_vec()),
        }
    }
}

#[derive(Default)]
struct Queue {
    blocks: VecDeque<Block>,
    /// Device time of the row after the newest one; `None` before the first.
    next: Option<u64>,
    ended: bool,
    /// True once the session has dropped its end.
    closed: bool,
}

struct PushState {
    queue: Mutex<Queue>,
    /// A block has come, or one has been taken.
    changed: Condvar,
    channels: usize,
    voltage: bool,
    /// True for a model that was trained on counts.
    counts: bool,
}

impl PushState {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Waits for a change until `until`; false if it is over.
    fn wait<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        until: Instant,
    ) -> (MutexGuard<'a, Queue>, bool) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (queue, false);
        }
        let waited = self.changed.wait_timeout(queue, left);
        (waited.unwrap_or_else(PoisonError::into_inner).0, true)
    }
}

/// The end of a pushed source that belongs to the program. Ends the source when it is dropped.
pub struct Pusher(Arc<PushState>);

impl Pusher {
    /// Hands rows to the session, of which the first has the device time `first`; `None`: right after the newest ones.
    /// Missing rows between are counted as lost. Waits at most `patience` for room; false if there was none, and
    /// nothing was taken.
    ///
    /// # Errors
    /// `Mismatch` for values of another kind than the plan's, or of rows that are not whole; `InvalidArgument` for rows
    /// that were pushed before, for features that no step takes (not finite, or beyond 1e15), for a device time beyond
    /// 2⁵³ rows, and after the end.
    pub fn push(&self, first: Option<u64>, rows: Rows<'_>, patience: Duration) -> Result<bool> {
        let channels = self.0.channels;
        let (kind, other) = match self.0.voltage {
            true => ("voltage as int16", "features"),
            false => (
                "features as float32, because the source sends steps",
                "voltage",
            ),
        };
        if matches!(rows, Rows::Voltage(_)) != self.0.voltage {
            return Err(Error::mismatch(format!(
                "push: expected {kind}, got {other}"
            )));
        }
        if rows.len() == 0 || !rows.len().is_multiple_of(channels) {
            return Err(Error::mismatch(format!(
                "push: expected whole rows of {channels} channels, got {} values",
                rows.len()
            )));
        }
        if let Rows::Features(values) = rows
            && let Some(at) = (values.iter()).position(|v| v.is_nan() || v.abs() > LARGEST_FEATURE)
        {
            return Err(Error::argument(format!(
                "push: expected finite features of at most {LARGEST_FEATURE:e}, got {} at row {}, channel {}",
                values[at],
                at / channels,
                at % channels
            )));
        }
        if let Rows::Features(values) = rows
            && self.0.counts
            && let Some(at) = values.iter().position(|v| !is_count(*v))
        {
            return Err(Error::argument(format!(
                "push: expected counts, whole numbers from 0 to 65535, which the model was trained on, got {} at row {}, channel {}",
                values[at],
                at / channels,
                at % channels
            )));
        }
        let until = Instant::now() + patience.min(Duration::from_secs(1 << 20));
        let mut queue = self.0.lock();
        loop {
            if queue.ended || queue.closed {
                return Err(Error::argument(
                    "push: expected a session that takes rows, got one that has ended",
                ));
            }
            if queue.blocks.len() < ROOM {
                break;
            }
            let more;
            (queue, more) = self.0.wait(queue, until);
            if !more {
                return Ok(false);
            }
        }
        let expected = queue.next;
        let first = first.or(expected).unwrap_or(0);
        let lost = match expected {
            None => 0,
            Some(next) => first.checked_sub(next).ok_or_else(|| {
                Error::argument(format!(
                    "push: expected a first row of {next} or later, because the rows before were pushed, got {first}"
                ))
            })?,
        };
        let count = rows.len() / channels;
        let end = first.saturating_add(count as u64);
        if end > LAST_ROW {
            return Err(Error::argument(format!(
                "push: expected a device time of at most 2^53 rows, got a first row of {first}"
            )));
        }
        queue.next = Some(end);
        queue.blocks.push_back(Block {
            epoch: 0,
            first,
            rows: count,
            host_ns: host_ns(),
            lost_before: Loss {
                count: lost,
                at_least: false,
            },
            samples: rows.to_samples(),
        });
        drop(queue);
        self.0.changed.notify_all();
        Ok(true)
    }

    /// Channels of a row.
    pub fn channels(&self) -> usize {
        self.0.channels
    }

    /// Ends the source: the session decodes what was pushed, and is over then.
    pub fn end(&self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.end();
    }
}

/// The session's end of a pushed source.
pub struct PushRig {
    shared: Arc<PushState>,
    signal: Signal,
    counts: RigCounts,
}

/// The two ends of the pushed source of a plan. Voltage needs `channels` and `rate`; with `sends = "steps"` a row is a
/// step of `model`.
///
/// # Errors
/// `InvalidArgument` with file, line and key for facts that the plan lacks.
pub fn push_source(plan: &Plan, model: &Decoder) -> Result<(Pusher, PushRig)> {
    let source = plan.source();
    let voltage = source.form() == Sends::Samples;
    let lacks = |key: &str| {
        let why = "a number, because rows that are pushed do not state it; got none";
        plan.refuse("source", key, format_args!("expected {why}"))
    };
    let (channels, rate) = match voltage {
        true => (
            source.channels.ok_or_else(|| lacks("channels"))?,
            source.rate.ok_or_else(|| lacks("rate"))?,
        ),
        false => (plan.first_channels(model), 1.0 / model.step_seconds()),
    };
    let shared = Arc::new(PushState {
        queue: Mutex::default(),
        changed: Condvar::new(),
        channels,
        voltage,
        counts: model.attachment(FORM) == Some(SPIKES),
    });
    let rig = PushRig {
        shared: Arc::clone(&shared),
        signal: Signal {
            channels,
            rate,
            microvolts: source.microvolts,
            clock_bits: 64,
        },
        counts: RigCounts::default(),
    };
    Ok((Pusher(shared), rig))
}

impl Rig for PushRig {
    fn signal(&self) -> Option<Signal> {
        Some(self.signal.clone())
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let until = Instant::now() + patience;
        let mut queue = self.shared.lock();
        loop {
            if let Some(pushed) = queue.blocks.pop_front() {
                drop(queue);
                self.shared.changed.notify_all();
                self.counts.blocks += 1;
                self.counts.rows += pushed.rows as u64;
                self.counts.lost += pushed.lost_before.count;
                *block = pushed;
                return Ok(Arrival::Block);
            }
            if queue.ended {
                return Ok(Arrival::Ended);
            }
            let more;
            (queue, more) = self.shared.wait(queue, until);
            if !more {
                return Ok(Arrival::Nothing);
            }
        }
    }

    fn counts(&self) -> RigCounts {
        self.counts
    }
}

impl Drop for PushRig {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}
