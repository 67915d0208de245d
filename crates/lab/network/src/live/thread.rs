//! A live network on a thread of its own, fed through a bounded ring that never makes the feeder wait.

use betz_base::lock::lock;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use betz_base::worker::{Backlog, WorkerThread};
use betz_base::{Error, ErrorKind, Result};
use betz_runtime::stream::{STEP_WORDS, StepReader, StepRecord, step_ring};
use hdrhistogram::Histogram;

use super::bins::{Bins, LiveCounts, StepOutcome};
use super::feed::LiveFeed;
use super::{Edges, Live, LiveSpec};
use crate::graph::Graph;
use crate::graph::leiden::Leiden;
use crate::graph::track::{Event, Matching, NONE, Tracker};
use crate::network::WindowEdges;

/// Steps taken from the ring at once; others may read in between.
const BATCH: usize = 64;

/// Configuration of a live network and its thread.
#[derive(Debug, Clone)]
pub struct LiveConfig {
    /// Channels, window in bins, threshold.
    pub spec: LiveSpec,
    /// Steps of a bin, at least 1.
    pub bin_steps: u32,
    /// Steps and channels that fire in them which the ring between the loop and the thread holds at least, 16
    /// bytes each. More than the channels, at most 2²⁴.
    pub capacity: usize,
    /// Look for communities in every window, from those of the window before; `None`: do not.
    pub communities: Option<Leiden>,
    /// Time that the thread sleeps when the ring is empty.
    pub idle: Duration,
}

impl LiveConfig {
    /// Bins of `bin_steps` steps, no communities, a line of 65,536 items or a few steps of all channels,
    /// 1 ms of sleep.
    pub fn new(spec: LiveSpec, bin_steps: u32) -> Self {
        Self {
            spec,
            bin_steps,
            capacity: (1 << 16).max(4 * (spec.channels + 1)),
            communities: None,
            idle: Duration::from_millis(1),
        }
    }
}

/// The newest window of a live network.
#[derive(Debug, Clone, Copy)]
pub struct LiveWindow<'a> {
    /// Its edges; starts count bins from the first.
    pub edges: WindowEdges<'a>,
    /// Ticks of its steps, as they were fed: from the first to before the last, half-open.
    pub ticks: (i64, i64),
    /// All edges it has, also those beyond [`LiveSpec::max_edges`].
    pub found: usize,
    /// The identity of each channel's community, [`NONE`] where none is followed; empty where
    /// communities are not looked for.
    pub communities: &'a [u32],
    /// Events of communities since the window that was read last.
    pub events: &'a [Event],
}

/// Steps that a live network has taken, and the time they took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveStats {
    /// Numbers of steps taken, by their fate.
    pub counts: LiveCounts,
    /// Steps that found no room in line. Each is the beginning of a gap, or within one.
    pub lost_steps: u64,
    /// Steps in line now.
    pub waiting_steps: u64,
    /// Updates (bins) timed.
    pub updates: u64,
    /// Median time of an update, in microseconds to 1 %: a bin's sums, and the edges and communities of a window
    /// that it completes.
    pub update_p50_us: f64,
    /// 99th percentile.
    pub update_p99_us: f64,
    /// The slowest.
    pub update_max_us: f64,
}

/// A network on its thread: read it here. Dropping it ends the thread.
pub struct LiveHandle {
    backlog: Arc<Backlog>,
    results: Arc<Results>,
    thread: WorkerThread,
    channels: usize,
}

/// Results that the thread writes and others read.
struct Results {
    newest: Mutex<Newest>,
}

struct Newest {
    edges: Edges,
    ticks: (i64, i64),
    communities: Vec<u32>,
    events: Vec<Event>,
    counts: LiveCounts,
    /// Times of updates, in nanoseconds.
    times: Histogram<u64>,
}

impl Results {
    fn lock(&self) -> MutexGuard<'_, Newest> {
        lock(&self.newest)
    }
}

/// Opens a live network on its own thread. All memory is taken here, but that of communities.
///
/// ```
/// use betz_network::live::{LiveConfig, LiveSpec, open};
/// use betz_network::{Sign, Window};
///
/// let spec = LiveSpec {
///     channels: 3,
///     window: Window { length: 4, step: 1 },
///     threshold: 0.9,
///     sign: Sign::Both,
///     strict: false,
///     max_edges: 3,
/// };
/// // Bins of two steps. A session takes the feed: session.attach(Box::new(feed), 0)
/// let (mut feed, handle) = open(LiveConfig::new(spec, 2))?;
/// for tick in 0..8 {
///     let fired: &[u32] = if tick % 4 < 2 { &[0, 1] } else { &[2] };
///     feed.push_spikes(tick, fired);
/// }
/// handle.flush()?;
/// handle.read(|newest| {
///     let newest = newest.unwrap();
///     assert_eq!(newest.ticks, (0, 8));
///     assert_eq!((newest.edges.i, newest.edges.j), (&[0, 0, 1][..], &[1, 2, 2][..]));
///     assert_eq!(newest.edges.r, [1.0, -1.0, -1.0]);
/// });
/// # Ok::<(), betz_network::Error>(())
/// ```
///
/// # Errors
/// As [`Live::new`]; [`InvalidArgument`](ErrorKind::InvalidArgument) for bins of no step and a line that cannot
/// hold a step of all channels, `OutOfMemory` when there is no memory for it, [`Io`](ErrorKind::Io) when the
/// system starts no thread.
pub fn open(config: LiveConfig) -> Result<(LiveFeed, LiveHandle)> {
    let LiveConfig {
        spec,
        bin_steps,
        capacity,
        communities,
        idle,
    } = config;
    if bin_steps == 0 {
        return Err(Error::argument("bin: expected at least 1 step, got 0"));
    }
    let live = Live::new(spec)?;
    if capacity <= spec.channels {
        return Err(Error::argument(format!(
            "capacity: expected more than the {} channels, got {capacity}",
            spec.channels
        )));
    }
    let (writer, reader) = step_ring("network's line", capacity, STEP_WORDS, None)?;
    let backlog = Arc::clone(reader.backlog());
    let times = Histogram::new_with_bounds(1, 3_600_000_000_000, 2)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("histogram: {e}")))?;
    if let Some(leiden) = &communities {
        // Options that Leiden cannot use are refused here.
        leiden.run(&Graph::new(spec.channels, [])?, None)?;
    }
    let communities = communities.map(|leiden| {
        let tracker = Tracker::new(spec.channels, Matching::default());
        (leiden, tracker, None)
    });
    let results = Arc::new(Results {
        newest: Mutex::new(Newest {
            edges: Edges::with_capacity(spec.max_edges, spec.channels)?,
            ticks: (0, 0),
            communities: Vec::new(),
            events: Vec::new(),
            counts: LiveCounts::default(),
            times,
        }),
    });
    let mut worker = Worker {
        ring: reader,
        step: StepRecord::default(),
        bins: Bins::new(live, bin_steps),
        communities,
        results: Arc::clone(&results),
    };
    let thread = WorkerThread::start("network", &backlog, idle, move || worker.take())?;
    let handle = LiveHandle {
        backlog,
        results,
        thread,
        channels: spec.channels,
    };
    Ok((LiveFeed::new(writer), handle))
}

impl LiveHandle {
    /// Looks at the newest window, `None` before the first. The thread waits meanwhile where it has another
    /// one to hand over; the feeder does not.
    pub fn read<T>(&self, look: impl FnOnce(Option<LiveWindow<'_>>) -> T) -> T {
        let newest = self.results.lock();
        let window = newest.edges.index.checked_sub(1).map(|index| LiveWindow {
            edges: newest.edges.as_window(index),
            ticks: newest.ticks,
            found: newest.edges.found,
            communities: &newest.communities,
            events: &newest.events,
        });
        look(window)
    }

    /// Counters and times.
    pub fn stats(&self) -> LiveStats {
        let lost_steps = self.backlog.lost();
        let newest = self.results.lock();
        let quantile = |q| newest.times.value_at_quantile(q) as f64 * 1e-3;
        let counts = newest.counts;
        let pushed = self.backlog.pushed();
        LiveStats {
            counts,
            lost_steps,
            waiting_steps: pushed.saturating_sub(counts.steps),
            updates: newest.times.len(),
            update_p50_us: quantile(0.5),
            update_p99_us: quantile(0.99),
            update_max_us: newest.times.max() as f64 * 1e-3,
        }
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// False when the thread has died of a panic: the network then stands still.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Waits until every step put in line before this call has been taken.
    ///
    /// # Errors
    /// `Internal` when the thread has died.
    pub fn flush(&self) -> Result<()> {
        self.thread.flush()
    }

    /// Ends the thread when it has taken all that was put in line before this call. A feed that is still
    /// there loses what it is given once the line is full.
    ///
    /// # Errors
    /// `Internal` when the thread had died.
    pub fn close(mut self) -> Result<LiveStats> {
        self.thread.end()?;
        Ok(self.stats())
    }
}

/// State of the thread.
struct Worker {
    ring: StepReader,
    step: StepRecord,
    bins: Bins,
    /// How, who is who, and the last window's.
    communities: Option<(Leiden, Tracker, Option<Vec<u32>>)>,
    results: Arc<Results>,
}

impl Worker {
    /// Takes up to [`BATCH`] steps; gives their number.
    fn take(&mut self) -> usize {
        let mut since = Instant::now();
        let mut steps = 0;
        while steps < BATCH && self.ring.take(&mut self.step) {
            steps += 1;
            // A thread that is far behind catches up without looking for edges.
            let done = self.bins.take(&self.step, self.ring.is_crowded());
            if done != StepOutcome::Nothing {
                self.hand_over(done, since);
                since = Instant::now();
            }
        }
        if steps > 0 {
            self.results.lock().counts = self.bins.told;
        }
        steps
    }

    /// After a bin, and with the window that it has completed.
    fn hand_over(&mut self, done: StepOutcome, since: Instant) {
        let mut events = Vec::new();
        if done == StepOutcome::Window {
            events = self.find_communities();
        }
        let nanoseconds = since.elapsed().as_nanos().min(u128::from(u64::MAX)) as u64;
        let mut newest = self.results.lock();
        newest.times.saturating_record(nanoseconds);
        newest.counts = self.bins.told;
        if done == StepOutcome::Window {
            std::mem::swap(&mut newest.edges, self.bins.live.edges_mut());
            newest.ticks = self.bins.ticks(newest.edges.start);
            newest.events = events;
            if let Some((_, tracker, _)) = &self.communities {
                newest.communities.clear();
                newest.communities.extend(tracker.identities());
            }
        }
    }

    fn find_communities(&mut self) -> Vec<Event> {
        let Some((leiden, tracker, before)) = &mut self.communities else {
            return Vec::new();
        };
        let Some(window) = self.bins.live.newest() else {
            return Vec::new();
        };
        let graph = Graph::of(&window, self.bins.live.spec().channels);
        let nobody = || vec![NONE; graph.nodes()];
        // `open` has checked what Leiden is asked for; a partition has a number for each channel.
        let found = leiden.run(&graph, before.as_deref());
        let partition = found.map_or_else(|_| nobody(), |found| found.communities);
        let events = tracker.next(&partition).unwrap_or_default();
        *before = Some(partition);
        events
    }
}

impl fmt::Debug for LiveHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("LiveHandle")
            .field("channels", &self.channels))
        .finish_non_exhaustive()
    }
}
