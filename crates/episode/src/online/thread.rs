//! A miner on a thread of its own, fed through a bounded ring that never makes the feeder wait.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringbuf::HeapProd;
use ringbuf::traits::{Consumer, Producer};

use super::{OnlineMiner, OnlineStats, Remining, Watched};
use crate::Pattern;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_base::taker::{self, Line, Taker};
use betz_runtime::stream::{self, Input, Step, Tap};

/// What a miner is opened with.
#[derive(Debug, Clone)]
pub struct MinerConfig {
    /// Symbols are 0 to `symbols` − 1: with a decoding session, its channels.
    pub symbols: usize,
    /// What to watch, at first.
    pub patterns: Vec<Pattern>,
    /// Events that the ring holds (16 bytes each), 1 to 2²⁴: what may come while the miner is held up.
    pub capacity: usize,
    /// Mines the recent past in the background and changes the watch list; `None`: the list is fixed.
    pub remining: Option<Remining>,
    /// How long the miner's thread sleeps when the ring is empty.
    pub idle: Duration,
}

impl MinerConfig {
    /// A fixed list, a ring of 65,536 events, 1 ms of sleep.
    pub fn new(symbols: usize, patterns: Vec<Pattern>) -> Self {
        Self {
            symbols,
            patterns,
            capacity: 1 << 16,
            remining: None,
            idle: Duration::from_millis(1),
        }
    }
}

/// The feeding thread's end, for instance the decoding thread's. Nothing here blocks, allocates,
/// locks or calls the system: every call is a bounded number of instructions (wait-free).
pub struct MinerFeed {
    ring: HeapProd<(i64, u32)>,
    shared: Arc<Shared>,
    pushed: u64,
    dropped: u64,
}

/// The miner on its thread: read the counts here. Dropping it ends the thread.
pub struct MinerHandle {
    shared: Arc<Shared>,
    taker: Taker,
}

/// The state of a miner at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinerSnapshot {
    /// Tick of the last event taken.
    pub now: Option<i64>,
    /// What became of the events that reached the miner.
    pub stats: OnlineStats,
    /// Events that found no room in the ring: the miner never saw them.
    pub dropped: u64,
    /// How often background mining has changed the list.
    pub remined: u64,
    /// How often it failed, and the list stayed.
    pub remining_failures: u64,
    /// What the last failure was.
    pub remining_error: Option<String>,
    /// The watched episodes with their counts, in the list's order.
    pub watched: Vec<Watched>,
}

/// A [`MinerSnapshot`] without the list: nothing is copied but numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinerSummary {
    /// Tick of the last event taken.
    pub now: Option<i64>,
    /// What became of the events that reached the miner.
    pub stats: OnlineStats,
    /// Events that found no room in the ring: the miner never saw them.
    pub dropped: u64,
    /// How often background mining has changed the list.
    pub remined: u64,
    /// How often it failed, and the list stayed.
    pub remining_failures: u64,
    /// Number of episodes watched.
    pub watched: usize,
}

/// What the two ends and the threads share.
struct Shared {
    miner: Mutex<State>,
    /// Readers that wait for `miner`: the miner's thread then stands back.
    readers: AtomicUsize,
    /// Of events: they are counted as soon as they come out of it.
    line: Arc<Line>,
    dropped: AtomicU64,
}

struct State {
    miner: OnlineMiner,
    remined: u64,
    remining_failures: u64,
    remining_error: Option<String>,
}

/// Opens a miner on its own thread, and a second thread when it is to mine in the background.
///
/// # Errors
/// `InvalidArgument` for a ring without room or of more than 2²⁴ events; as [`OnlineMiner::new`],
/// [`OnlineMiner::with_window`] and [`Remining::check`]; `OutOfMemory` when the system has no memory for
/// the ring, `Io` when it starts no thread.
pub fn open(config: MinerConfig) -> Result<(MinerFeed, MinerHandle)> {
    let (mut send, mut take) = betz_base::ring::ring("miner's ring", config.capacity)?;
    let (miner, background) = match config.remining {
        None => (OnlineMiner::new(config.symbols, &config.patterns)?, None),
        Some(remining) => {
            remining.check()?;
            let miner = OnlineMiner::with_window(
                config.symbols,
                &config.patterns,
                remining.window_ticks,
                remining.window_events,
            )?;
            (miner, Some(remining))
        }
    };
    let shared = Arc::new(Shared::new(miner));
    let mut background = background
        .map(|remining| Background::start(remining, config.symbols, &shared))
        .transpose()?;
    // Every page of the ring is touched now, so that no push has to wait for the system to map it.
    send.push_iter(std::iter::repeat_n((0, 0), config.capacity));
    take.clear();
    let taker = Taker::start("miner", &shared.line, take, config.idle, {
        let shared = Arc::clone(&shared);
        move |events: &[(i64, u32)], _| {
            while shared.readers.load(Ordering::Acquire) > 0 {
                thread::yield_now();
            }
            if !events.is_empty() {
                shared.lock().miner.extend(events.iter().copied());
            }
            if let Some(background) = &mut background {
                background.attend(&shared);
            }
        }
    })?;
    let feed = MinerFeed {
        ring: send,
        shared: Arc::clone(&shared),
        pushed: 0,
        dropped: 0,
    };
    let handle = MinerHandle { shared, taker };
    Ok((feed, handle))
}

impl MinerFeed {
    /// Hands one event over; false when there is no room for it, which is counted.
    ///
    /// Ticks that go back and unknown symbols are refused, and counted, by the miner.
    #[inline]
    pub fn push(&mut self, tick: i64, symbol: u32) -> bool {
        self.push_events(&[(tick, symbol)]) == 1
    }

    /// Hands (tick, symbol) pairs over; how many found room: the first so many. The rest is dropped
    /// and counted.
    pub fn push_events(&mut self, events: &[(i64, u32)]) -> usize {
        let room = self.ring.push_slice(events);
        self.account(room, events.len());
        room
    }

    /// As [`push_events`](Self::push_events), from an iterator.
    pub fn push_iter(&mut self, events: impl ExactSizeIterator<Item = (i64, u32)>) -> usize {
        let given = events.len();
        let room = self.ring.push_iter(events);
        self.account(room, given);
        room
    }

    /// Hands over a tick's spikes as they are given to
    /// [`Session::step_spikes`](betz_runtime::stream::Session::step_spikes); how many found room.
    pub fn push_spikes(&mut self, tick: i64, channels: &[u32]) -> usize {
        self.push_iter(channels.iter().map(|&c| (tick, c)))
    }

    /// Hands over a tick's counts as they are given to
    /// [`Session::step_counts`](betz_runtime::stream::Session::step_counts): one event for each channel that
    /// fired, since a symbol's events of one tick count as one. How many found room.
    pub fn push_counts(&mut self, tick: i64, counts: &[u16]) -> usize {
        let mut fired = stream::non_zero(counts).map(|(channel, _)| (tick, channel as u32));
        let room = self.ring.push_iter(&mut fired);
        let rest = fired.count();
        self.account(room, room + rest);
        room
    }

    fn push_fired(&mut self, tick: i64, fired: impl Iterator<Item = bool>) -> usize {
        let mut events = (fired.enumerate().filter(|(_, fired)| *fired))
            .map(|(channel, _)| (tick, channel as u32));
        let room = self.ring.push_iter(&mut events);
        let rest = events.count();
        self.account(room, room + rest);
        room
    }

    fn account(&mut self, room: usize, events: usize) {
        self.pushed += room as u64;
        self.shared.line.pushed(self.pushed);
        if room < events {
            self.dropped += (events - room) as u64;
            self.shared.dropped.store(self.dropped, Ordering::Relaxed);
        }
    }

    /// Events that found no room, ever. Exact.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Attached to a session, a miner counts what its steps take in: a symbol is a channel. What finds no
/// room in the ring is counted as dropped and holds up no step.
impl Tap for MinerFeed {
    fn take(&mut self, step: &Step<'_>) {
        let tick = step.tick;
        match step.input {
            Input::Spikes(channels) => self.push_spikes(tick, channels),
            Input::Counts(counts) => self.push_counts(tick, counts),
            Input::CountsU8(counts) => self.push_fired(tick, counts.iter().map(|&c| c > 0)),
            // A weighted count below a half is no event.
            Input::CountsF32(counts) => self.push_fired(tick, counts.iter().map(|&c| c >= 0.5)),
            _ => 0,
        };
    }

    fn name(&self) -> &'static str {
        "miner"
    }
}

impl MinerHandle {
    /// Reads the miner between two batches of events; it waits meanwhile (the feeder does not).
    pub fn read<T>(&self, look: impl FnOnce(&OnlineMiner) -> T) -> T {
        look(&self.shared.read().miner)
    }

    /// Everything at one moment.
    pub fn snapshot(&self) -> MinerSnapshot {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let state = self.shared.read();
        MinerSnapshot {
            now: state.miner.now(),
            stats: state.miner.stats(),
            dropped,
            remined: state.remined,
            remining_failures: state.remining_failures,
            remining_error: state.remining_error.clone(),
            watched: state.miner.watched(),
        }
    }

    /// The numbers of [`snapshot`](Self::snapshot), which the miner's thread need not wait long for.
    /// Allocates nothing.
    pub fn summary(&self) -> MinerSummary {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let state = self.shared.read();
        MinerSummary {
            now: state.miner.now(),
            stats: state.miner.stats(),
            dropped,
            remined: state.remined,
            remining_failures: state.remining_failures,
            watched: state.miner.patterns().len(),
        }
    }

    /// Writes the counts, in the list's order.
    ///
    /// # Errors
    /// `Mismatch` unless there is room for exactly as many as are watched.
    pub fn counts_into(&self, counts: &mut [u64]) -> Result<()> {
        self.read(|miner| {
            let watched = miner.counts();
            if watched.len() != counts.len() {
                return Err(Error::mismatch(format!(
                    "counts: {} episodes are watched, room for {}",
                    watched.len(),
                    counts.len()
                )));
            }
            for (slot, count) in counts.iter_mut().zip(watched) {
                *slot = count;
            }
            Ok(())
        })
    }

    /// False when the miner's thread has died of a panic: its counts then stand still.
    pub fn is_running(&self) -> bool {
        self.taker.is_running()
    }

    /// Waits until everything pushed before this call has been counted.
    ///
    /// # Errors
    /// `Internal` when the miner's thread has died.
    pub fn flush(&self) -> Result<()> {
        self.taker.flush()
    }

    /// Ends the thread when it has counted all that was pushed before this call, and gives the miner.
    /// Background mining is broken off. A feed that is still there drops what it is given once the
    /// ring is full.
    ///
    /// # Errors
    /// `Internal` when the miner's thread had died.
    pub fn close(mut self) -> Result<OnlineMiner> {
        self.taker.end()?;
        let nothing = OnlineMiner::new(1, &[])?;
        Ok(std::mem::replace(&mut self.shared.lock().miner, nothing))
    }
}

impl Shared {
    fn new(miner: OnlineMiner) -> Self {
        Self {
            miner: Mutex::new(State {
                miner,
                remined: 0,
                remining_failures: 0,
                remining_error: None,
            }),
            readers: AtomicUsize::new(0),
            line: Arc::new(Line::default()),
            dropped: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.miner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock for a reader: the miner's thread lets it go first.
    fn read(&self) -> MutexGuard<'_, State> {
        self.readers.fetch_add(1, Ordering::AcqRel);
        let state = self.lock();
        self.readers.fetch_sub(1, Ordering::AcqRel);
        state
    }
}

/// Background mining stops when the miner is closed.
impl Progress for Shared {
    fn cancelled(&self) -> bool {
        self.line.is_stopping()
    }
}

/// The mining thread, as seen from the miner's.
struct Background {
    remining: Remining,
    windows: Option<SyncSender<Vec<(i64, u32)>>>,
    lists: Receiver<Result<Option<Vec<Pattern>>>>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
    /// Tick of the last event when mining last began, or of the first event.
    since: Option<i64>,
}

impl Background {
    fn start(remining: Remining, symbols: usize, shared: &Arc<Shared>) -> Result<Self> {
        // One thread, apart from rayon's common ones, which may be at work for somebody else. Rayon
        // does not wait for a pool's threads, so this one is started here, and joined.
        let mut worker = None;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .spawn_handler(|thread| {
                let name = "betz-mining".to_owned();
                let run = || thread.run();
                worker = Some(thread::Builder::new().name(name).spawn(run)?);
                Ok(())
            })
            .build()
            .map_err(|e| Error::new(ErrorKind::Io, format!("mining thread: {e}")))?;
        let (send_window, windows) = sync_channel::<Vec<(i64, u32)>>(1);
        let (send_list, lists) = sync_channel(1);
        let thread = taker::start("betz-remine", {
            let (remining, shared) = (remining.clone(), Arc::clone(shared));
            move || {
                for window in windows {
                    let list = pool.install(|| remining.search(symbols, &window, &*shared));
                    if send_list.send(list).is_err() {
                        break;
                    }
                }
                drop(pool);
                if let Some(worker) = worker {
                    // A panic there has come out of `install` already.
                    let _ = worker.join();
                }
            }
        })?;
        Ok(Self {
            remining,
            windows: Some(send_window),
            lists,
            thread: Some(thread),
            busy: false,
            since: None,
        })
    }

    /// Takes a list that is ready, and has the window mined when it is time.
    fn attend(&mut self, shared: &Shared) {
        let Some(windows) = &self.windows else {
            return;
        };
        if self.busy {
            let list = match self.lists.try_recv() {
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    // Told of once: nothing is asked of it any more.
                    self.windows = None;
                    Err(Error::new(
                        ErrorKind::Internal,
                        "the mining thread has died",
                    ))
                }
                Ok(list) => list,
            };
            self.busy = false;
            let mut state = shared.lock();
            let watched = match list {
                Ok(Some(patterns)) => state.miner.watch(&patterns).map(|()| true),
                other => other.map(|_| false),
            };
            match watched {
                Ok(changed) => state.remined += u64::from(changed),
                Err(error) => {
                    state.remining_failures += 1;
                    state.remining_error = Some(error.to_string());
                }
            }
            return;
        }
        let state = shared.lock();
        let Some(now) = state.miner.now() else {
            return;
        };
        let since = *self.since.get_or_insert(now);
        if now.saturating_sub(since) < self.remining.every_ticks {
            return;
        }
        let window = state.miner.window_events();
        drop(state);
        // A dead thread is noticed by the list that does not come.
        if !matches!(windows.try_send(window), Err(TrySendError::Full(_))) {
            self.busy = true;
            self.since = Some(now);
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.windows = None;
        while self.lists.recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            // It has nothing left to say.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for MinerFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("MinerFeed").field("dropped", &self.dropped)).finish_non_exhaustive()
    }
}

impl fmt::Debug for MinerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MinerHandle").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;

    /// A mining thread that dies, with or without a window at hand, is one failure.
    #[test]
    fn a_dead_mining_thread_is_told_of_once() {
        let remining = Remining {
            window_ticks: 400,
            window_events: 100,
            every_ticks: 1,
            intervals: vec![Interval::new(0, 5).unwrap()],
            threshold: 8,
            min_size: 2,
            max_size: 3,
            max_episodes: 10,
        };
        for (busy, receives) in [(true, false), (false, true), (false, false)] {
            let miner = OnlineMiner::with_window(2, &[], 400, 100).unwrap();
            let shared = Shared::new(miner);
            let (send_window, windows) = sync_channel(1);
            let (send_list, lists) = sync_channel(1);
            drop(send_list);
            let windows = receives.then_some(windows);
            let mut background = Background {
                remining: remining.clone(),
                windows: Some(send_window),
                lists,
                thread: None,
                busy,
                since: None,
            };
            for tick in 0..20 {
                shared.lock().miner.push(tick, 0);
                background.attend(&shared);
            }
            let state = shared.lock();
            let told = (state.remining_failures, state.remined);
            assert_eq!(told, (1, 0), "busy {busy}, receives {receives}");
            drop(windows);
        }
    }
}
