//! The page of Betz: see a decoding session at work in a browser, without ever making it wait.
//!
//! ```text
//! decoding thread ──Feed (a ring of words)──► hub thread ──frames──► server thread: one task per viewer
//! acquisition     ──Truth (a ring)─────────►     │
//!                                                └─ keeps the last minute, totals, frames around misses
//! ```
//! - The session's thread only pushes: [`Feed`] never waits, allocates, locks or calls the system. A step that does not
//!   fit is counted as not shown.
//! - The hub makes one frame for all viewers, 60 times per second. At most two messages are on their way to a viewer
//!   before it draws them. Later frames wait and are sent together; those older than two seconds are dropped and
//!   counted.
//! - A viewer needs the token, whatever the address. The page is read-only unless [`Options::control`] is set.
//!
//! [`Monitor::open`] serves recordings and networks without a session, in the same frames.
//!
//! # A session that is watched
//! ```
//! use betz_monitor::{Monitor, Options, Source};
//! use betz_runtime::model::{Decoder, DecoderParts};
//! use betz_runtime::psc::{Filter, FilterBank};
//! use betz_runtime::stream::{Session, SessionConfig};
//!
//! let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
//! let names = vec!["left".into(), "right".into()];
//! let decoder = Decoder::new(DecoderParts::linear(0.001, bank, names, vec!["x".into()]))?;
//! let mut session = Session::open(&decoder, SessionConfig::default())?;
//!
//! // Two threads of its own; port 0 is any that is free.
//! let (monitor, feed) = Monitor::start(Source::of("rig 2", &decoder), Options::default())?;
//! monitor.watch(session.health());
//! session.attach(Box::new(feed), 0)?;
//! assert!(monitor.url().starts_with("http://127.0.0.1:")); // to open in a browser, with its token
//!
//! session.step_spikes(&[1], &mut [0.0])?;
//! monitor.stop(); // as dropping it does; the session goes on
//! # Ok::<(), betz_base::Error>(())
//! ```

mod app;
mod class_events;
mod control;
mod decisions;
mod decoder_watch;
mod expected;
mod explore;
mod feed;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod feed_tests;
pub mod frame;
mod gate;
mod guard;
mod history;
mod hub;
mod hub_state;
mod kept;
mod labels;
mod latency;
mod live_network;
mod looking;
mod maps;
mod metrics;
mod options;
mod page;
mod parts;
mod rate_spread;
mod server;
mod session_counts;
mod session_file;
mod session_history;
mod simulation;
mod source;
mod status;
mod verdict;
mod viewer;
mod windows;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use betz_base::error::{Error, ErrorKind, Result};
use betz_episode::online::MinerHandle;
use betz_runtime::stream::HealthReader;
use tokio::sync::{broadcast, mpsc, watch};

pub use control::Control;
pub use decisions::Decision;
pub use explore::episodes::MinedEpisodes;
pub use explore::map::{MapErrors, MapShape, MapStage, MapUnit, MapView};
pub use explore::map_samples::MapSamples;
pub use explore::network::NamedNetwork;
pub use explore::recorded::{DecodedRecording, SpikeTimes};
pub use explore::{Contents, Image};
pub use feed::{Feed, Truth};
pub use guard::Token;
pub use kept::{KeptName, NetworkStore};
pub use labels::Label;
pub use live_network::{LiveNetwork, LiveNodes, LiveStatus, NetworkChange, NetworkWish};
pub use options::Options;
pub use simulation::{SimulatedPopulation, Simulation, WeightHistogram, Wish};
pub use source::{ModelCard, Source};
pub use status::{
    ArrivalToOutput, LearningStatus, NoteStatus, RecalibrationStatus, RecordingStatus,
    SessionStatus, SourceStatus,
};

use app::AppState;
use betz_base::lock::lock;
use guard::Guard;
use hub::{Hub, HubState, Shape};
use options::{check, check_token};
use session_file::HistoryKeeper;

/// Frames made per second.
const FRAMES_A_SECOND: u32 = 60;
/// Seconds of frames that are stored.
const KEPT_SECONDS: f64 = 60.0;
/// Seconds that are stored on each side of a missed deadline.
const AROUND_SECONDS: f64 = 0.5;
/// Nice value of the page's threads on Linux, so that other threads go first.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Events for the hub to send.
type EventQueue = mpsc::UnboundedReceiver<(String, serde_json::Value)>;
type EventSender = mpsc::UnboundedSender<(String, serde_json::Value)>;

/// A page that is served. Dropping it ends its threads; the session goes on.
pub struct Monitor {
    url: String,
    token: Option<Token>,
    embed: bool,
    address: SocketAddr,
    shared: Arc<AppState>,
    health: Arc<Mutex<Option<HealthReader>>>,
    truth: Mutex<Option<Truth>>,
    stop: watch::Sender<bool>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Monitor {
    /// Opens the port, starts the page's two threads, and returns the tap to attach to the session.
    ///
    /// # Errors
    /// `InvalidArgument` if the source has no channels or its step is not a positive length of time, or if a page
    /// without a token would listen elsewhere than on loopback; `Io` if the address cannot be bound.
    pub fn start(source: Source, options: Options) -> Result<(Self, Feed)> {
        Self::start_with(source, Contents::default(), options)
    }

    /// Like [`start`](Self::start), and shows networks, maps and a picture below the nodes as well.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start) and [`open`](Self::open); `InvalidArgument` for recordings, or for
    /// episodes and labels of recordings: a page shows these or a session.
    pub fn start_with(source: Source, beside: Contents, options: Options) -> Result<(Self, Feed)> {
        check(&source, &options)?;
        let of_recordings = beside.recordings.len() + beside.mined.len() + beside.labels.len();
        if of_recordings > 0 {
            return Err(Error::argument(format!(
                "a page of a session: expected networks, maps and a picture beside it, got {} recordings, {} lists \
                 of episodes and {} labels",
                beside.recordings.len(),
                beside.mined.len(),
                beside.labels.len()
            )));
        }
        let outputs = source.outputs.len();
        let (feed, reader) = feed::feed(outputs, source.gate().cloned(), options.ring_words)?;
        let (truth, truth_reader) = feed::truth(outputs)?;
        let classes = source.class_events();
        let shape = Shape {
            channels: u32::try_from(source.channel_names.len()).unwrap_or(u32::MAX),
            outputs,
            ticks_a_second: 1.0 / source.step_seconds,
            deadline_ns: (source.deadline).map(|d| u32::try_from(d.as_nanos()).unwrap_or(u32::MAX)),
        };
        let (mut monitor, mut to_tell) = Self::serve(source, beside, true, options)?;
        *lock(&monitor.truth) = Some(truth);
        let mut hub = Hub::new(reader, truth_reader, shape);
        hub.detect(classes);
        let (shared, given) = (monitor.shared.clone(), monitor.health.clone());
        let stopping = monitor.stopping.clone();
        let turn = Duration::from_secs(1) / FRAMES_A_SECOND;
        let work = move || {
            let mut due = Instant::now();
            let mut keeper = HistoryKeeper::default();
            while !stopping.load(Ordering::Relaxed) {
                if let Some(health) = lock(&given).take() {
                    hub.watch(health);
                }
                let mut send = |frame| {
                    let _ = shared.frames.send(frame);
                };
                // Events before the ring is read: the steps they name are then known.
                let told: Vec<_> = std::iter::from_fn(|| to_tell.try_recv().ok()).collect();
                hub.turn(&shared.seen, &mut send);
                if let Some(status) = lock(&shared.status).take() {
                    hub.status_now(&status, &mut send);
                }
                for (kind, more) in told {
                    hub.event_now(&shared.seen, &kind, more, &mut send);
                }
                keeper.write_if_due(&shared);
                due += turn;
                match due.checked_duration_since(Instant::now()) {
                    Some(wait) => std::thread::sleep(wait),
                    None => due = Instant::now(),
                }
            }
            keeper.write(&shared);
        };
        monitor.threads.push(thread("betz-hub", work)?);
        Ok((monitor, feed))
    }

    /// Serves recordings, networks and maps without a session: the page asks for the parts that it shows.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start); `InvalidArgument` if there is nothing to show or the picture is not a PNG
    /// or JPEG; `Mismatch` if arrays do not fit each other.
    pub fn open(shown: impl Into<Contents>, options: Options) -> Result<Self> {
        let shown: Contents = shown.into();
        for one in &shown.recordings {
            check(&one.source, &options)?;
            one.check()?;
        }
        (shown.mined.iter()).try_for_each(|m| m.check(shown.recordings.len()))?;
        let network = shown.networks.first().map(|n| n.name.as_str());
        let named = network.or(shown.maps.first().map(|m| m.name()));
        let source = match (shown.recordings.first(), named) {
            (Some(first), _) => first.source.clone(),
            (None, Some(name)) => Source::nothing(name),
            (None, None) => {
                return Err(Error::argument(
                    "a page: expected a recording, a network or a map to look at, got none",
                ));
            }
        };
        check_token(&options)?;
        Ok(Self::serve(source, shown, false, options)?.0)
    }

    /// Serves the page of a network that grows: windows come by [`LiveNetwork::push`]. If [`Options::control`] is set,
    /// pages ask for other windows and thresholds ([`LiveNetwork::wish`]).
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn open_live_network(name: &str, options: Options) -> Result<(Self, LiveNetwork)> {
        check_token(&options)?;
        let (monitor, _) = Self::serve(Source::nothing(name), Contents::default(), false, options)?;
        let network = LiveNetwork::new();
        let slot = kept::NetworkSlot::of_live(name, network.shared());
        lock(&monitor.shared.networks).push(slot);
        Ok((monitor, network))
    }

    /// Listens and starts the server's thread.
    fn serve(
        source: Source,
        shown: Contents,
        live: bool,
        options: Options,
    ) -> Result<(Self, EventQueue)> {
        if shown.image.as_ref().is_some_and(|i| i.kind().is_none()) {
            return Err(Error::argument(
                "a picture below the nodes: expected a PNG or a JPEG, got something else",
            ));
        }
        let token = match (options.no_token, &options.token) {
            (true, _) => None,
            (false, Some(token)) => Some(token.clone()),
            (false, None) => Some(Token::new()?),
        };
        let (address, listeners) = listen(options.address, options.port)?;
        let embed = options.embed;
        let (events, told) = mpsc::unbounded_channel();
        let guard = guard_of(&options, address, token.clone());
        let shared = state_of(source, shown, live, options, guard, events)?;
        let (stop, stopped) = watch::channel(false);
        let runtime = (tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build())
        .map_err(|e| Error::new(ErrorKind::Io, format!("the page's server: {e}")))?;
        let at_server = shared.clone();
        let work = move || {
            runtime.block_on(async move {
                let listeners = listeners.into_iter();
                let listeners = listeners.filter_map(|l| tokio::net::TcpListener::from_std(l).ok());
                server::serve(listeners.collect(), at_server, stopped).await;
            });
        };
        let server_thread = thread("betz-page", work)?;
        let query = (token.as_ref()).map_or(String::new(), |t| format!("?token={}", t.as_str()));
        let monitor = Self {
            url: format!("http://{address}/{query}"),
            token,
            embed,
            address,
            shared,
            health: Arc::default(),
            truth: Mutex::new(None),
            stop,
            stopping: Arc::default(),
            threads: vec![server_thread],
        };
        Ok((monitor, told))
    }

    /// Address to open in a browser. It contains the token, so give it only to people who may watch.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Address for a frame in another page, if [`Options::embed`] is set. It contains the token in its path, because
    /// browsers withhold cookies from frames, and stays valid until the page ends: a notebook may load the frame anew.
    pub fn embedded_url(&self) -> Option<String> {
        let token = self.token.as_ref().filter(|_| self.embed)?;
        let (address, token) = (self.address, token.as_str());
        Some(format!("http://{address}{}{token}/", guard::EMBEDDED))
    }

    /// Address and port of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token; `None` if the page is served without one.
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Shows the networks of `store` as well. With [`Options::control`], pages may keep networks there, name and delete
    /// them.
    ///
    /// # Errors
    /// `InvalidArgument` for a second store; the store cannot be read.
    pub fn keep_networks(&self, store: Box<dyn NetworkStore>) -> Result<()> {
        let set = self.shared.store.set(Mutex::new(store));
        set.map_err(|_| Error::argument("kept networks: expected one store, got a second"))?;
        kept::update(&self.shared)
    }

    /// From now on, the totals on the page are those that the session publishes (`Session::health`), including dropped,
    /// late and unknown spikes.
    pub fn watch(&self, health: HealthReader) {
        *lock(&self.health) = Some(health);
    }

    /// Returns the sender of intended outputs, shown beside the decoded ones; `None` from the second call on.
    pub fn truth(&self) -> Option<Truth> {
        lock(&self.truth).take()
    }

    /// Sets the session and the models that pages control if [`Options::control`] is set.
    ///
    /// # Errors
    /// `InvalidArgument` from the second call on.
    pub fn control(&self, control: Control) -> Result<()> {
        (self.shared.control.set(control)).map_err(|_| {
            Error::argument(
                "control: expected a page that nothing is controlled from yet, got it twice",
            )
        })
    }

    /// Returns the receiver of the pages' decisions about the session's models. Pages may decide if [`Options::control`]
    /// is set. The program that takes the receiver carries them out itself, in place of [`Monitor::control`].
    ///
    /// # Errors
    /// `InvalidArgument` from the second call on.
    pub fn decisions(&self) -> Result<std::sync::mpsc::Receiver<Decision>> {
        let (to, from) = std::sync::mpsc::channel();
        (self.shared.decisions.set(to)).map_err(|_| {
            Error::argument(
                "decisions: expected a page whose decisions nobody takes yet, got it twice",
            )
        })?;
        Ok(from)
    }

    /// Shows a simulated network on the page. If [`Options::control`] is set, the receiver gives the pages' requests.
    ///
    /// # Errors
    /// `InvalidArgument` from the second call on.
    pub fn simulation(&self, told: Simulation) -> Result<std::sync::mpsc::Receiver<Wish>> {
        let (to, from) = std::sync::mpsc::channel();
        let steered = simulation::SimulationHandle::new(told, to);
        (self.shared.steered.set(steered)).map_err(|_| {
            Error::argument("simulation: expected a page without one, got it twice")
        })?;
        Ok(from)
    }

    /// Shows the weights of a simulated network's synapses that learn, in place of those before; nothing without a simulation.
    pub fn weights(&self, weights: Vec<WeightHistogram>) {
        if let Some(steered) = self.shared.steered.get() {
            steered.set_weights(weights);
        }
    }

    /// Shows episodes with their counts during the session. `miner`'s feed must be another tap of the session, and its
    /// symbols must be the session's channels.
    ///
    /// # Errors
    /// `Mismatch` for a miner of other channels; `InvalidArgument` from the second call on.
    pub fn mine(&self, name: &str, miner: MinerHandle) -> Result<()> {
        let counted = explore::counted::EpisodeList::new(name, miner, &self.shared.source)?;
        (self.shared.counted.set(counted))
            .map_err(|_| Error::argument("episodes: expected one list per page, got a second one"))
    }

    /// Adds true outputs that arrived after their steps, up to a minute late. They are drawn and scored like those of
    /// [`Self::truth`], which they replace.
    ///
    /// # Errors
    /// `InvalidArgument` for a label that does not have one finite value per output; then none is added.
    pub fn labels(&self, labels: &[Label]) -> Result<()> {
        if !labels.is_empty() {
            let outputs = self.shared.source.outputs.len();
            self.event("labels", labels::event(labels, outputs)?);
        }
        Ok(())
    }

    /// Sets the target of the movement, in the outputs' units, from `tick` on (`None`: from now on). Without values,
    /// there is no target.
    ///
    /// # Errors
    /// `InvalidArgument` if `values` are neither empty nor one finite value per output.
    pub fn target(&self, tick: Option<i64>, values: &[f32]) -> Result<()> {
        let outputs = self.shared.source.outputs.len();
        if !(values.is_empty() || values.len() == outputs) || values.iter().any(|v| !v.is_finite())
        {
            return Err(Error::argument(format!(
                "a target: expected {outputs} finite values or none, got {values:?}"
            )));
        }
        let mut event = serde_json::json!({ "values": values });
        if let Some(tick) = tick {
            event["at"] = tick.into();
        }
        self.event("target", event);
        Ok(())
    }

    /// Sends an event to every viewer; `more` is a JSON object. The kinds `status`, `labels` and `target` are reserved
    /// for the methods of these names.
    pub fn event(&self, kind: &str, more: serde_json::Value) {
        let _ = self.shared.events.send((kind.to_owned(), more));
    }

    /// Shows the state of the session in the page's status band, in place of the one before. A program that reports
    /// once per second is often enough.
    pub fn status(&self, status: &SessionStatus) {
        let mut seen = lock(&self.shared.seen);
        if let Some(lately) = status.arrival_lately {
            seen.session.arrival(lately);
        }
        seen.judge.decoder.take_unlike(&status.into());
        drop(seen);
        lock(&self.shared.status).set(status);
    }

    /// Keeps the session's history in a file, written every ten seconds of the session and at its end. If the file exists, the
    /// session goes on where it ends: its history has the seconds of the file, too.
    ///
    /// # Errors
    /// `Io` if an existing file cannot be read; `Mismatch` and `InvalidArgument` if it is no history of this session;
    /// `InvalidArgument` from the second call on.
    pub fn keep_history(&self, file: &Path) -> Result<()> {
        session_file::restore(&self.shared, file)?;
        let kept = self.shared.history_file.set(file.to_owned());
        kept.map_err(|_| {
            Error::argument("history: expected one file for a session, got a second one")
        })
    }

    /// The session's history, as `GET /api/history` gives it: numbers of every second, and the verdict on the decoder with
    /// those before it.
    pub fn history(&self) -> serde_json::Value {
        lock(&self.shared.seen).history_json()
    }

    /// Number of pages that watch.
    pub fn viewers(&self) -> usize {
        self.shared.viewers.load(Ordering::Relaxed)
    }

    /// Ends the page; the session goes on.
    pub fn stop(self) {}
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("Monitor").field("address", &self.address)).finish_non_exhaustive()
    }
}

/// The conditions that a request must meet.
fn guard_of(options: &Options, address: SocketAddr, token: Option<Token>) -> Guard {
    let mut names = options.allow_hosts.clone();
    names.push(match options.address {
        IpAddr::V4(a) => a.to_string(),
        IpAddr::V6(a) => format!("[{a}]"),
    });
    Guard::new(address.port(), &names, token, options.control).embedded(options.embed)
}

/// The state that the page's threads share, at its beginning.
fn state_of(
    source: Source,
    shown: Contents,
    live: bool,
    options: Options,
    guard: Guard,
    events: EventSender,
) -> Result<Arc<AppState>> {
    let networks = shown.networks.into_iter();
    let networks: Vec<_> = networks
        .map(|n| explore::network::NetworkView::new(n).map(kept::NetworkSlot::new))
        .collect::<Result<_>>()?;
    let kept = (KEPT_SECONDS / source.step_seconds).ceil() as i64;
    let around = (AROUND_SECONDS / source.step_seconds).ceil() as i64;
    let seen = HubState::of(&source, kept, around);
    Ok(Arc::new(AppState {
        source,
        recorded: shown.recordings,
        networks: Mutex::new(networks),
        store: OnceLock::new(),
        mined: shown.mined,
        counted: OnceLock::new(),
        maps: shown.maps,
        labels: shown.labels,
        image: shown.image,
        live,
        jobs: explore::job::Places::default(),
        seen: Mutex::new(seen),
        status: Mutex::default(),
        frames: broadcast::Sender::new(8),
        guard,
        viewers: AtomicUsize::new(0),
        skipped: AtomicU64::new(0),
        control: OnceLock::new(),
        decisions: OnceLock::new(),
        steered: OnceLock::new(),
        may_control: options.control,
        epoch: epoch()?,
        kept: options.state,
        page_folder: options.page_folder,
        history_file: OnceLock::new(),
        events,
    }))
}

/// Listens on the address; for 127.0.0.1 also on ::1 if possible.
fn listen(address: IpAddr, port: u16) -> Result<(SocketAddr, Vec<TcpListener>)> {
    let wanted = SocketAddr::new(address, port);
    let failed = |e| Error::io("listen on", std::path::Path::new(&wanted.to_string()), &e);
    let first = TcpListener::bind(wanted).map_err(failed)?;
    let bound = first.local_addr().map_err(failed)?;
    let mut all = vec![first];
    if address == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        let other = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), bound.port());
        all.extend(TcpListener::bind(other));
    }
    for listener in &all {
        listener.set_nonblocking(true).map_err(failed)?;
    }
    Ok((bound, all))
}

fn epoch() -> Result<String> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::new(
            ErrorKind::Io,
            format!("the system gives no random bytes: {e}"),
        )
    })?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// Starts a thread of low priority.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let begin = move || {
        // If the system refuses, the thread keeps its normal priority.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
        work();
    };
    (std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(begin))
    .map_err(|e| Error::new(ErrorKind::Io, format!("a thread for the page: {e}")))
}
