//! State that every request handler shares, and answers that several handlers give.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use betz_recording::labels::LabelledInterval;
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

use crate::control::Control;
use crate::decisions::Decision;
use crate::explore::Image;
use crate::explore::counted::EpisodeList;
use crate::explore::episodes::MinedEpisodes;
use crate::explore::job;
use crate::explore::map::MapView;
use crate::explore::recorded::DecodedRecording;
use crate::guard::Guard;
use crate::hub::HubState;
use crate::kept::{NetworkSlot, NetworkStore};
use crate::simulation::SimulationHandle;
use crate::source::Source;
use crate::status::StatusSlot;

/// State shared by all request handlers.
pub(crate) struct AppState {
    pub(crate) source: Source,
    /// Recordings shown in place of a session.
    pub(crate) recorded: Vec<DecodedRecording>,
    /// Networks: first the ones given at the start, then those that pages have computed or a store keeps.
    pub(crate) networks: Mutex<Vec<NetworkSlot>>,
    /// Store that keeps networks; locked before `networks`.
    pub(crate) store: OnceLock<Mutex<Box<dyn NetworkStore>>>,
    pub(crate) mined: Vec<MinedEpisodes>,
    /// Episodes that are counted during the session.
    pub(crate) counted: OnceLock<EpisodeList>,
    pub(crate) maps: Vec<MapView>,
    /// Intervals with labels, ascending.
    pub(crate) labels: Vec<LabelledInterval>,
    pub(crate) image: Option<Image>,
    /// True if a session runs or has run.
    pub(crate) live: bool,
    pub(crate) jobs: job::Places,
    pub(crate) seen: Mutex<HubState>,
    /// State that the session's program last reported.
    pub(crate) status: Mutex<StatusSlot>,
    pub(crate) frames: broadcast::Sender<Bytes>,
    pub(crate) guard: Guard,
    pub(crate) viewers: AtomicUsize,
    pub(crate) skipped: AtomicU64,
    pub(crate) control: OnceLock<Control>,
    /// Receiver of pages' decisions, if the session's program carries them out.
    pub(crate) decisions: OnceLock<std::sync::mpsc::Sender<Decision>>,
    /// A simulated network that pages can steer.
    pub(crate) steered: OnceLock<SimulationHandle>,
    pub(crate) may_control: bool,
    /// Identifies this run of the server: a page that reconnects sees whether it is another run.
    pub(crate) epoch: String,
    /// State that a page starts from if its address contains none.
    pub(crate) kept: Option<Value>,
    pub(crate) page_folder: Option<PathBuf>,
    /// File of the session's history, if it is kept.
    pub(crate) history_file: OnceLock<PathBuf>,
    /// Queue of events for the hub to send.
    pub(crate) events: mpsc::UnboundedSender<(String, Value)>,
}

impl AppState {
    /// Fingerprint of the decoder that gives the estimates. `published` is the one that the session publishes, which
    /// depends on its mask, too; it is returned if it is of no model that the page knows.
    pub(crate) fn running(&self, published: u64) -> u64 {
        if let Some(control) = self.control.get() {
            return control.running_fingerprint();
        }
        let own = self.source.model.as_ref();
        own.filter(|card| published == 0 || published == card.session_fingerprint)
            .map_or(published, |card| card.fingerprint)
    }

    /// Sender of decisions to the session's program, if pages may decide and a program takes decisions.
    pub(crate) fn decision_sender(&self) -> Option<&std::sync::mpsc::Sender<Decision>> {
        self.decisions.get().filter(|_| self.may_control)
    }
}

pub(crate) type App = Arc<AppState>;

/// Answer for a recording that does not exist.
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
