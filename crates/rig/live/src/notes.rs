//! Labels, marks and trials from a bus, on a thread of their own.

use betz_base::lock::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use betz_base::ring::ring;
use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::notes::{Note, NoteReceiver};
use ringbuf::HeapCons;
use ringbuf::traits::{Consumer, Producer};
use serde::Serialize;

/// Notes that may wait for the loop.
const ROOM: usize = 4096;
/// Interval at which the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Counts of labels, marks and trials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NoteCounts {
    /// Labels of steps.
    pub labels: u64,
    /// Labels that do not have one finite value per output; they are left out.
    pub odd_labels: u64,
    /// Marks.
    pub marks: u64,
    /// Begins and ends of trials.
    pub trials: u64,
    /// Datagrams that hold none of these, and notes for which there was no room, here or in the system's buffer.
    pub malformed: u64,
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    malformed: AtomicU64,
    failed: Mutex<Option<Error>>,
}

/// Notes on their way to the loop.
pub(crate) struct Notes {
    ring: HeapCons<Note>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Notes {
    /// Listens at `address`, `udp://HOST:PORT` or `lsl://NAME`.
    pub(crate) fn open(address: &str) -> Result<Self> {
        let mut receiver = NoteReceiver::open(address)?;
        let (mut send, take) = ring("notes", ROOM)?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("betz-notes".into())
            .spawn(move || {
                let (mut full, mut last) = (0, 0);
                while last < ROOM {
                    let ends = shared.stop.load(Ordering::Relaxed);
                    last += usize::from(ends);
                    let taken = receiver.take(if ends { Duration::ZERO } else { LOOK });
                    let is_none = matches!(taken, Ok(None));
                    match taken {
                        Ok(Some(note)) => full += u64::from(send.try_push(note).is_err()),
                        Ok(None) => {}
                        Err(error) => {
                            *lock(&shared.failed) = Some(error);
                            return;
                        }
                    }
                    let lost = receiver.malformed + receiver.dropped() + full;
                    shared.malformed.store(lost, Ordering::Relaxed);
                    if ends && is_none {
                        return;
                    }
                }
            })
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread: {e}")))?;
        Ok(Self {
            ring: take,
            state,
            thread: Some(thread),
        })
    }

    /// The next note, without waiting.
    pub(crate) fn take(&mut self) -> Option<Note> {
        self.ring.try_pop()
    }

    /// Listens to no more. What had arrived by then is still to be taken, up to 4,096 notes.
    pub(crate) fn close(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by it.
            let _ = thread.join();
        }
    }

    /// Datagrams that hold no note, and notes without room.
    pub(crate) fn malformed(&self) -> u64 {
        self.state.malformed.load(Ordering::Relaxed)
    }

    /// The error that ended the thread, once.
    pub(crate) fn failure(&self) -> Option<Error> {
        lock(&self.state.failed).take()
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.close();
    }
}
