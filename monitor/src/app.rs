//! What every request looks at, and the answers that several have in common.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

use crate::control::Control;
use crate::explore::Image;
use crate::explore::counted::EpisodeList;
use crate::explore::episodes::MinedEpisodes;
use crate::explore::job;
use crate::explore::map::MapView;
use crate::explore::network::NetworkView;
use crate::explore::recorded::DecodedRecording;
use crate::guard::Guard;
use crate::hub::HubState;
use crate::simulation::SimulationHandle;
use crate::source::Source;

/// What every request looks at.
pub(crate) struct AppState {
    pub(crate) source: Source,
    /// What is looked at instead of a session.
    pub(crate) recorded: Vec<DecodedRecording>,
    /// Networks; those that pages have computed come behind those that were given.
    pub(crate) networks: Mutex<Vec<Arc<NetworkView>>>,
    pub(crate) mined: Vec<MinedEpisodes>,
    /// Episodes that are counted while the session runs.
    pub(crate) counted: OnceLock<EpisodeList>,
    pub(crate) maps: Vec<MapView>,
    pub(crate) image: Option<Image>,
    /// A session runs, or did.
    pub(crate) live: bool,
    pub(crate) jobs: job::Places,
    pub(crate) seen: Mutex<HubState>,
    pub(crate) frames: broadcast::Sender<Bytes>,
    pub(crate) guard: Guard,
    pub(crate) viewers: AtomicUsize,
    pub(crate) skipped: AtomicU64,
    pub(crate) control: OnceLock<Control>,
    /// A simulated network.
    pub(crate) steered: OnceLock<SimulationHandle>,
    pub(crate) may_control: bool,
    /// Told apart from sessions before: a page that comes back knows that it is another.
    pub(crate) epoch: String,
    /// What pages begin with.
    pub(crate) kept: Option<Value>,
    pub(crate) page_folder: Option<PathBuf>,
    /// Events to be told, by the hub.
    pub(crate) events: mpsc::UnboundedSender<(String, Value)>,
}

pub(crate) type App = Arc<AppState>;

/// There is no such recording.
pub(crate) fn no_source(app: &App, asked: usize) -> Response {
    let words = format!(
        "expected one of {} recordings, got number {asked}",
        app.recorded.len()
    );
    (StatusCode::NOT_FOUND, words).into_response()
}

pub(crate) fn json_of(value: &Value) -> Response {
    (
        [(header::CONTENT_TYPE, "application/json")],
        value.to_string(),
    )
        .into_response()
}
