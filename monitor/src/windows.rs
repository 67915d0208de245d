//! Handlers for windows of a recording that are mined one after another.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use betz_base::Progress;
use betz_base::error::{Error, Result};
use serde::Deserialize;
use serde_json::json;

use crate::app::{App, AppState, json_of, no_source};
use crate::explore::job::{self, JobSender};
use crate::explore::windows::{WindowMiner, WindowRequest};

/// Largest number of windows in one answer.
const MOST_WINDOWS: i64 = 64;

#[derive(Deserialize)]
pub(crate) struct WindowQuery {
    #[serde(default)]
    source: usize,
    window: f64,
    step: f64,
    intervals: String,
    threshold: u64,
    max_size: usize,
    /// First window of the answer.
    from: i64,
    #[serde(default = "one")]
    count: i64,
    /// Channels of an episode, separated by commas.
    #[serde(default)]
    symbols: String,
    /// Numbers of the intervals of its delays, separated by commas.
    #[serde(default)]
    edges: String,
}

const fn one() -> i64 {
    1
}

impl WindowQuery {
    fn request(&self) -> Result<WindowRequest> {
        Ok(WindowRequest {
            window_seconds: self.window,
            step_seconds: self.step,
            intervals: WindowRequest::read_intervals(&self.intervals)?,
            threshold: self.threshold,
            max_size: self.max_size,
        })
    }
}

/// Mines windows and sends each when it is done. Ends with the client's connection.
pub(crate) async fn windows(State(app): State<App>, Query(asked): Query<WindowQuery>) -> Response {
    if app.recorded.get(asked.source).is_none() {
        return no_source(&app, asked.source);
    }
    let shared = app.clone();
    job::start(&app.jobs, move |tell| {
        tell.end(match mine_windows(&shared, &asked, tell) {
            Ok(()) => json!({"done": true}),
            Err(e) => json!({"error": e.message()}),
        });
    })
}

fn mine_windows(app: &AppState, asked: &WindowQuery, tell: &JobSender) -> Result<()> {
    let Some(recorded) = app.recorded.get(asked.source) else {
        return Err(Error::argument("expected a recording, got none"));
    };
    let request = asked.request()?;
    let miner = WindowMiner::new(recorded, &request)?;
    let count = asked.count.clamp(1, MOST_WINDOWS);
    let end = asked.from.saturating_add(count).min(miner.len());
    // The first is mined in any case, so that a number that does not exist is refused.
    for window in asked.from..end.max(asked.from.saturating_add(1)) {
        let Some(mined) = miner.mine(window, &ClientGone(tell))? else {
            return Ok(());
        };
        if !tell.event(&miner.json(window, &mined)?) {
            return Ok(());
        }
    }
    Ok(())
}

/// Stops work if the client is gone, and sends no progress within a window.
struct ClientGone<'a>(&'a JobSender);

impl Progress for ClientGone<'_> {
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

/// All occurrences of an episode in a window.
pub(crate) async fn occurrences(
    State(app): State<App>,
    Query(asked): Query<WindowQuery>,
) -> Response {
    if app.recorded.get(asked.source).is_none() {
        return no_source(&app, asked.source);
    }
    let found = tokio::task::spawn_blocking(move || {
        let recorded = &app.recorded[asked.source];
        let request = asked.request()?;
        let symbols = numbers("symbols", &asked.symbols)?;
        let edges = numbers("edges", &asked.edges)?;
        WindowMiner::new(recorded, &request)?.occurrences(asked.from, &symbols, &edges)
    });
    match found.await {
        Ok(Ok(found)) => json_of(&found),
        Ok(Err(e)) => (StatusCode::BAD_REQUEST, e.message().to_owned()).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "it could not be done").into_response(),
    }
}

fn numbers<T: std::str::FromStr>(name: &str, text: &str) -> Result<Vec<T>> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            part.parse().map_err(|_| {
                Error::argument(format!(
                    "{name}: expected numbers with commas between them, got {text:?}"
                ))
            })
        })
        .collect()
}
