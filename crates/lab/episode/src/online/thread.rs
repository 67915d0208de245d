//! A miner on a thread of its own, fed through a bounded ring that never makes the feeder wait.

use betz_base::lock::lock;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{OnlineMiner, OnlineStats, ReminingOptions, WatchedEpisode};
use crate::pattern::Pattern;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_base::worker::{self, Backlog, WorkerThread};
use betz_runtime::stream::{Input, STEP_WORDS, Step, StepRecord, StepWriter, Tap, step_ring};

/// Steps taken from the ring at once; others may read in between.
const BATCH: usize = 256;

/// Options with which a miner is opened.
#[derive(Debug, Clone)]
pub struct MinerConfig {
    /// Symbols are 0 to `symbols` − 1: with a decoding session, its channels.
    pub symbols: usize,
    /// The episodes to watch at first.
    pub patterns: Vec<Pattern>,
    /// Events that the ring holds at least (20 bytes each), 1 to 2²⁴: room for events while the miner is held up.
    pub capacity: usize,
    /// Bytes that the miner takes at most, besides the ring and the watched episodes themselves: for the window,
    /// for beginnings of occurrences, and while it mines. A search that needs more fails and is counted
    /// ([`MinerSummary::remining_failures`]); beginnings that find no room are forgotten and counted
    /// ([`OnlineStats::forgotten`]). `None`: 256 MiB, or 256 bytes for each event of the window if that is more.
    pub max_bytes: Option<usize>,
    /// Mines the recent past in the background and changes the watch list; `None`: the list is fixed.
    pub remining: Option<ReminingOptions>,
    /// Sleep of the miner's thread while the ring is empty.
    pub idle: Duration,
}

impl MinerConfig {
    /// A fixed list, a ring of 65,536 events, 1 ms of sleep.
    pub fn new(symbols: usize, patterns: Vec<Pattern>) -> Self {
        Self {
            symbols,
            patterns,
            capacity: 1 << 16,
            max_bytes: None,
            remining: None,
            idle: Duration::from_millis(1),
        }
    }
}

/// The feeding thread's end, for instance the decoding thread's. Nothing here blocks, allocates,
/// locks or calls the system: every call is a bounded number of instructions (wait-free).
pub struct MinerFeed {
    ring: StepWriter,
}

/// The miner on its thread: read the counts here. Dropping it ends the thread.
pub struct MinerHandle {
    shared: Arc<SharedMiner>,
    thread: WorkerThread,
}

/// The state of a miner at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinerSnapshot {
    /// The numbers.
    pub summary: MinerSummary,
    /// The last failure of background mining.
    pub remining_error: Option<String>,
    /// The watched episodes with their counts, in the list's order.
    pub watched: Vec<WatchedEpisode>,
}

/// A [`MinerSnapshot`] without the list: nothing is copied but numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinerSummary {
    /// Tick of the last event taken.
    pub now: Option<i64>,
    /// Numbers of events that reached the miner, taken and refused.
    pub stats: OnlineStats,
    /// Events that found no room in the ring: the miner never saw them.
    pub dropped: u64,
    /// Number of times that background mining has changed the list.
    pub remined: u64,
    /// Number of times that it failed, and the list stayed.
    pub remining_failures: u64,
    /// Number of episodes watched.
    pub watched: usize,
}

/// The state that the two ends and the threads share.
struct SharedMiner {
    miner: Mutex<State>,
    /// Readers that wait for `miner`: the miner's thread then stands back.
    readers: AtomicUsize,
    backlog: Arc<Backlog>,
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
/// `InvalidArgument` for a ring without room or of more than 2²⁴ events, and for a window that leaves nothing
/// of [`MinerConfig::max_bytes`]; as [`OnlineMiner::new`],
/// [`OnlineMiner::with_window`] and [`ReminingOptions::check`]; `OutOfMemory` when the system has no memory for
/// the ring, `Io` when it starts no thread.
pub fn open(config: MinerConfig) -> Result<(MinerFeed, MinerHandle)> {
    let shares = Shares::new(&config)?;
    let (writer, mut reader) = step_ring("miner's ring", config.capacity, STEP_WORDS + 1, None)?;
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
    let miner = miner.limited_to(shares.chains);
    let backlog = Arc::clone(reader.backlog());
    let shared = Arc::new(SharedMiner::new(miner, Arc::clone(&backlog)));
    let mut background = background
        .map(|remining| Background::start(remining, config.symbols, shares.mining, &shared))
        .transpose()?;
    let thread = WorkerThread::start("miner", &backlog, config.idle, {
        let shared = Arc::clone(&shared);
        let mut step = StepRecord::default();
        move || {
            while shared.readers.load(Ordering::Acquire) > 0 {
                thread::yield_now();
            }
            let mut steps = 0;
            let mut state = shared.lock();
            while steps < BATCH && reader.take(&mut step) {
                let events = step.fired.iter().map(|&(symbol, _)| (step.tick, symbol));
                state.miner.extend(events);
                steps += 1;
            }
            drop(state);
            if let Some(background) = &mut background {
                background.attend(&shared);
            }
            steps
        }
    })?;
    let feed = MinerFeed { ring: writer };
    let handle = MinerHandle { shared, thread };
    Ok((feed, handle))
}

/// Bytes of a window's event: kept, copied for a search, and in the form that is searched.
const WINDOW_EVENT_BYTES: usize = 64;

/// Bytes for a miner's parts.
struct Shares {
    /// Chains of one list; while the list changes there are two.
    chains: usize,
    mining: usize,
}

impl Shares {
    /// Half of what the window leaves is for mining, a quarter for chains.
    fn new(config: &MinerConfig) -> Result<Self> {
        let events = config.remining.as_ref().map_or(0, |r| r.window_events);
        let window = events.saturating_mul(WINDOW_EVENT_BYTES);
        let default = (256_usize << 20).max(window.saturating_mul(4));
        let all = config.max_bytes.unwrap_or(default);
        let left = all.saturating_sub(window);
        if left < LEAST_BYTES {
            return Err(Error::argument(format!(
                "miner: expected max_bytes of at least {} ({WINDOW_EVENT_BYTES} for each event of the window, and {LEAST_BYTES}), got {all}",
                window.saturating_add(LEAST_BYTES)
            )));
        }
        Ok(Self {
            chains: left / 4,
            mining: left / 2,
        })
    }
}

/// Bytes that a miner has at least besides its window.
const LEAST_BYTES: usize = 1 << 20;

impl MinerFeed {
    /// Hands one event over; false if there is no room for it, which is counted.
    ///
    /// Ticks that go back and unknown symbols are refused, and counted, by the miner.
    #[inline]
    pub fn push(&mut self, tick: i64, symbol: u32) -> bool {
        self.push_events(&[(tick, symbol)]) == 1
    }

    /// Hands (tick, symbol) pairs over; how many found room: the first so many. The rest is dropped
    /// and counted.
    pub fn push_events(&mut self, events: &[(i64, u32)]) -> usize {
        self.push_iter(events.iter().copied())
    }

    /// As [`push_events`](Self::push_events), from an iterator.
    pub fn push_iter(&mut self, mut events: impl Iterator<Item = (i64, u32)> + Clone) -> usize {
        let mut pushed = 0;
        while let Some((tick, _)) = events.clone().next() {
            let of_tick = events.clone().take_while(|&(t, _)| t == tick);
            let given = of_tick.clone().count();
            let n = (self.ring).push_some(tick, of_tick.map(|(_, symbol)| symbol));
            pushed += n;
            events.by_ref().take(given).for_each(drop);
            if n < given {
                self.ring.lose(events.count() as u64);
                break;
            }
        }
        pushed
    }

    /// Hands over a tick's spikes as they are given to
    /// [`Session::step_spikes`](betz_runtime::stream::Session::step_spikes); how many found room.
    pub fn push_spikes(&mut self, tick: i64, channels: &[u32]) -> usize {
        self.ring.push_some(tick, channels.iter().copied())
    }

    /// Hands over a tick's counts as they are given to
    /// [`Session::step_counts`](betz_runtime::stream::Session::step_counts): one event for each channel that
    /// fired, since a symbol's events of one tick count as one. How many found room.
    pub fn push_counts(&mut self, tick: i64, counts: &[u16]) -> usize {
        self.push_fired(tick, counts, |c| c > 0)
    }

    fn push_fired<T: Copy>(&mut self, tick: i64, counts: &[T], fired: fn(T) -> bool) -> usize {
        let channels = (0..).zip(counts).filter(|&(_, &count)| fired(count));
        self.ring
            .push_some(tick, channels.map(|(channel, _)| channel))
    }

    /// Number of events that have found no room. Exact.
    pub fn dropped(&self) -> u64 {
        self.ring.lost()
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
            Input::CountsU8(counts) => self.push_fired(tick, counts, |c| c > 0),
            // A weighted count below a half is no event.
            Input::CountsF32(counts) => self.push_fired(tick, counts, |c| c >= 0.5),
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
        let state = self.shared.read();
        MinerSnapshot {
            summary: self.summarize(&state),
            remining_error: state.remining_error.clone(),
            watched: state.miner.watched(),
        }
    }

    /// The numbers of [`snapshot`](Self::snapshot), which the miner's thread need not wait long for.
    /// Allocates nothing.
    pub fn summary(&self) -> MinerSummary {
        self.summarize(&self.shared.read())
    }

    fn summarize(&self, state: &State) -> MinerSummary {
        MinerSummary {
            now: state.miner.now(),
            stats: state.miner.stats(),
            dropped: self.shared.backlog.lost(),
            remined: state.remined,
            remining_failures: state.remining_failures,
            watched: state.miner.patterns().len(),
        }
    }

    /// False when the miner's thread has died of a panic: its counts then stand still.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Waits until everything pushed before this call has been counted.
    ///
    /// # Errors
    /// `Internal` when the miner's thread has died.
    pub fn flush(&self) -> Result<()> {
        self.thread.flush()
    }

    /// Ends the thread when it has counted all that was pushed before this call, and gives the miner.
    /// Background mining is broken off. A feed that is still there drops what it is given once the
    /// ring is full.
    ///
    /// # Errors
    /// `Internal` when the miner's thread had died.
    pub fn close(mut self) -> Result<OnlineMiner> {
        self.thread.end()?;
        let nothing = OnlineMiner::new(1, &[])?;
        Ok(std::mem::replace(&mut self.shared.lock().miner, nothing))
    }
}

impl SharedMiner {
    fn new(miner: OnlineMiner, backlog: Arc<Backlog>) -> Self {
        Self {
            miner: Mutex::new(State {
                miner,
                remined: 0,
                remining_failures: 0,
                remining_error: None,
            }),
            readers: AtomicUsize::new(0),
            backlog,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.miner)
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
impl Progress for SharedMiner {
    fn cancelled(&self) -> bool {
        self.backlog.is_stopping()
    }
}

/// The mining thread, as seen from the miner's.
struct Background {
    remining: ReminingOptions,
    windows: Option<SyncSender<Vec<(i64, u32)>>>,
    lists: Receiver<Result<Option<Vec<Pattern>>>>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
    /// Tick of the last event when mining last began; before that, when the thread first saw an event.
    since: Option<i64>,
}

impl Background {
    fn start(
        remining: ReminingOptions,
        symbols: usize,
        max_bytes: usize,
        shared: &Arc<SharedMiner>,
    ) -> Result<Self> {
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
        let thread = worker::start("betz-remine", {
            let (remining, shared) = (remining.clone(), Arc::clone(shared));
            move || {
                for window in windows {
                    let list =
                        pool.install(|| remining.search(symbols, &window, max_bytes, &*shared));
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
    fn attend(&mut self, shared: &SharedMiner) {
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
        (f.debug_struct("MinerFeed")
            .field("dropped", &self.dropped()))
        .finish_non_exhaustive()
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
    use crate::cases::remining;
    use crate::pattern::Interval;

    /// A mining thread that dies, with or without a window at hand, is one failure.
    #[test]
    fn a_dead_mining_thread_is_told_of_once() {
        let remining = ReminingOptions {
            every_ticks: 1,
            ..remining(400, Interval::new(0, 5).unwrap())
        };
        for (busy, receives) in [(true, false), (false, true), (false, false)] {
            let miner = OnlineMiner::with_window(2, &[], 400, 100).unwrap();
            let shared = SharedMiner::new(miner, Arc::default());
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
