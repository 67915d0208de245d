//! A network that grows while pages look at it: its newest windows, and what pages ask to change.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use betz_base::error::{Error, Result};
use betz_base::lock::lock;
use betz_network::{Meta, Network, Threshold, UndefinedReason, WindowEdges};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::{App, json_of};
use crate::explore::network::{NamedNetwork, NetworkView};

/// Largest number of windows of a live network that pages can look at.
const MOST_WINDOWS: usize = 2_000;
/// Largest number of their edges, unless the newest window alone has more.
const MOST_EDGES: usize = 4_000_000;
/// Views that pages may still be reading when newer ones are there.
const VIEWS: usize = 4;
/// Longest time for which a page waits for the program's answer to a change.
const PATIENCE: Duration = Duration::from_secs(30);

/// Names and positions of the nodes of a live network.
#[derive(Debug, Clone, Default)]
pub struct LiveNodes {
    /// One name per node.
    pub names: Option<Vec<String>>,
    /// (nodes, axes), row by row, and the number of axes, 2 or 3.
    pub positions: Option<(Vec<f64>, usize)>,
}

/// Counts that the page shows beside a live network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveStatus {
    /// Rows that have come.
    pub rows: u64,
    /// Rows that are missing.
    pub lost: u64,
    /// Windows that were computed.
    pub windows: u64,
    /// Windows that were left out to catch up.
    pub skipped: u64,
    /// True after the last window.
    pub ended: bool,
}

/// A change that a page asks for: what is `None` stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkChange {
    /// Samples in a window.
    pub window: Option<usize>,
    /// Samples from one window's start to the next one's.
    pub step: Option<usize>,
    /// Edges are values of at least this (of distances: at most).
    pub threshold: Option<f64>,
    /// Edges are this share of all pairs.
    pub density: Option<f64>,
    /// Edges are so many strongest pairs.
    pub top: Option<usize>,
}

impl NetworkChange {
    /// The threshold that is asked for, if any.
    ///
    /// # Errors
    /// `InvalidArgument` for several kinds of thresholds.
    pub fn kept(&self) -> Result<Option<Threshold>> {
        match (self.threshold, self.density, self.top) {
            (None, None, None) => Ok(None),
            (Some(value), None, None) => Ok(Some(Threshold::Absolute(value))),
            (None, Some(share), None) => Ok(Some(Threshold::Density(share))),
            (None, None, Some(count)) => Ok(Some(Threshold::Top(count))),
            _ => Err(Error::argument(
                "expected one of threshold, density and top, got several",
            )),
        }
    }
}

/// A change that a page waits for.
#[derive(Debug)]
pub struct NetworkWish {
    /// The change.
    pub change: NetworkChange,
    answer: Sender<Result<()>>,
}

impl NetworkWish {
    /// Tells the page that the change was made, or why not.
    pub fn answer(self, done: Result<()>) {
        // The page may have gone.
        let _ = self.answer.send(done);
    }
}

/// A window as it is held.
struct HeldWindow {
    start: u64,
    i: Vec<u32>,
    j: Vec<u32>,
    r: Vec<f32>,
    lag: Vec<i16>,
    undefined: Vec<u32>,
    why: Vec<UndefinedReason>,
}

impl HeldWindow {
    fn edges(&self) -> WindowEdges<'_> {
        WindowEdges {
            index: 0,
            start: self.start,
            i: &self.i,
            j: &self.j,
            r: &self.r,
            lag: &self.lag,
            undefined: &self.undefined,
            why: &self.why,
        }
    }
}

#[derive(Default)]
struct HeldWindows {
    /// `None` before the signal's nodes are known.
    meta: Option<Meta>,
    nodes: LiveNodes,
    windows: VecDeque<HeldWindow>,
    edges: usize,
    status: LiveStatus,
    /// Goes up with every window and change.
    version: u64,
    views: VecDeque<(u64, Arc<NetworkView>)>,
}

/// State of a live network that the program and the pages share.
pub(crate) struct LiveShared {
    held: Mutex<HeldWindows>,
    wishes: Mutex<Sender<NetworkWish>>,
}

/// A network on a page that grows window by window.
pub struct LiveNetwork {
    shared: Arc<LiveShared>,
    wishes: Receiver<NetworkWish>,
}

impl LiveNetwork {
    pub(crate) fn new() -> Self {
        let (to, from) = channel();
        let shared = LiveShared {
            held: Mutex::default(),
            wishes: Mutex::new(to),
        };
        Self {
            shared: Arc::new(shared),
            wishes: from,
        }
    }

    pub(crate) fn shared(&self) -> Arc<LiveShared> {
        Arc::clone(&self.shared)
    }

    /// Begins anew, with the specification in `meta`: windows so far are no longer shown.
    pub fn begin(&self, meta: Meta, nodes: LiveNodes) {
        let mut held = lock(&self.shared.held);
        held.windows.clear();
        (held.meta, held.nodes, held.edges) = (Some(meta), nodes, 0);
        held.version += 1;
    }

    /// Adds a window. The oldest ones go, once there are 2,000 windows or four million edges.
    pub fn push(&self, window: &WindowEdges<'_>) {
        let copy = HeldWindow {
            start: window.start,
            i: window.i.to_vec(),
            j: window.j.to_vec(),
            r: window.r.to_vec(),
            lag: window.lag.to_vec(),
            undefined: window.undefined.to_vec(),
            why: window.why.to_vec(),
        };
        let mut held = lock(&self.shared.held);
        held.edges += copy.r.len();
        held.windows.push_back(copy);
        while held.windows.len() > MOST_WINDOWS || held.edges > MOST_EDGES && held.windows.len() > 1
        {
            let oldest = held.windows.pop_front();
            held.edges -= oldest.map_or(0, |window| window.r.len());
        }
        held.version += 1;
    }

    /// Shows counts, and the device that computes.
    pub fn status(&self, status: LiveStatus, meta: Meta) {
        let mut held = lock(&self.shared.held);
        // Pages hear of the end without a further window.
        held.version += u64::from(status.ended && !held.status.ended);
        held.status = status;
        held.meta = Some(meta);
    }

    /// The oldest change that pages have asked for and nobody has taken, if any.
    pub fn wish(&self) -> Option<NetworkWish> {
        self.wishes.try_recv().ok()
    }
}

impl std::fmt::Debug for LiveNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveNetwork").finish_non_exhaustive()
    }
}

impl LiveShared {
    /// The view of a version if it is still there, else the newest one; with its version. `None` before the first.
    ///
    /// # Errors
    /// Windows that do not follow each other.
    pub(crate) fn view(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<(u64, Arc<NetworkView>)>> {
        let (version, given) = {
            let held = lock(&self.held);
            let wanted = version.unwrap_or(held.version);
            if let Some((_, view)) = held.views.iter().find(|(v, _)| *v == wanted) {
                return Ok(Some((wanted, Arc::clone(view))));
            }
            match held.named(name)? {
                Some(given) => (held.version, given),
                None => return Ok(None),
            }
        };
        // Levels take a look at every edge: the program pushes meanwhile.
        let view = Arc::new(NetworkView::new(given)?);
        let mut held = lock(&self.held);
        held.views.push_back((version, Arc::clone(&view)));
        while held.views.len() > VIEWS {
            held.views.pop_front();
        }
        Ok(Some((version, view)))
    }

    /// Version of the newest window.
    pub(crate) fn version(&self) -> u64 {
        lock(&self.held).version
    }

    /// Description of the newest view, with its version and the state of the network.
    ///
    /// # Errors
    /// The errors of [`view`](Self::view).
    pub(crate) fn about(&self, id: usize, name: &str, may_change: bool) -> Result<Value> {
        let view = self.view(name, None)?;
        let mut about = match &view {
            Some((_, view)) => view.json(id),
            None => json!({"id": id, "windows": 0}),
        };
        about["name"] = json!(name);
        about["live"] = self.json(may_change);
        if let Some((version, _)) = view {
            about["live"]["version"] = json!(version);
        }
        Ok(about)
    }

    /// State of the network for pages: the version of the newest window, counts, and the threshold.
    fn json(&self, changes: bool) -> Value {
        let held = lock(&self.held);
        let status = held.status;
        let mut about = json!({
            "version": held.version, "rows": status.rows, "lost": status.lost, "total": status.windows,
            "skipped": status.skipped, "ended": status.ended, "changes": changes && !status.ended,
        });
        if let Some(meta) = &held.meta {
            about["sample_seconds"] = json!(meta.sample_seconds);
            match meta.spec.threshold {
                Threshold::Absolute(value) => about["threshold"] = json!(value),
                Threshold::Density(share) => about["density"] = json!(share),
                Threshold::Top(count) => about["top"] = json!(count),
                Threshold::TopPerNode(_) => {}
            }
        }
        about
    }

    /// Hands a change to the program, and waits for its answer.
    fn ask(&self, change: NetworkChange) -> Result<()> {
        change.kept()?;
        let (answer, answered) = channel();
        let sent = lock(&self.wishes).send(NetworkWish { change, answer });
        sent.map_err(|_| Error::argument("the network has ended"))?;
        match answered.recv_timeout(PATIENCE) {
            Ok(done) => done,
            Err(_) => Err(Error::argument(
                "the network has not answered: it has ended, or is far behind; the change then follows when it has caught up",
            )),
        }
    }
}

impl HeldWindows {
    /// The windows as a network.
    fn named(&self, name: &str) -> Result<Option<NamedNetwork>> {
        let Some(meta) = &self.meta else {
            return Ok(None);
        };
        let mut network = Network::empty(meta.clone());
        for window in &self.windows {
            network.push(&window.edges())?;
        }
        Ok(Some(NamedNetwork {
            name: name.to_owned(),
            network,
            names: self.nodes.names.clone(),
            positions: self.nodes.positions.clone(),
            window_seconds: None,
            complete: true,
        }))
    }
}

/// Changes the window or the threshold of a live network.
pub(crate) async fn change(State(app): State<App>, Path(id): Path<usize>, body: Bytes) -> Response {
    let asked: NetworkChange = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(e) => return (StatusCode::BAD_REQUEST, format!("expected JSON: {e}")).into_response(),
    };
    let live = {
        let slots = lock(&app.networks);
        let slot = slots.get(id).filter(|slot| !slot.deleted);
        slot.and_then(|slot| slot.live.clone())
    };
    let Some(live) = live else {
        let words = format!("expected the number of a live network, got {id}");
        return (StatusCode::NOT_FOUND, words).into_response();
    };
    // The program answers after the window that it is computing.
    match tokio::task::spawn_blocking(move || live.ask(asked).map(|()| live.json(true))).await {
        Ok(Ok(about)) => json_of(&about),
        Ok(Err(e)) => (StatusCode::CONFLICT, e.message().to_owned()).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}
