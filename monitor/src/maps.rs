//! Handlers for self-organising maps.

use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use betz_base::error::Result;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use crate::app::{App, json_of};
use crate::explore::map::MapView;

/// Longest time that a request waits for a change.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

pub(crate) async fn maps(State(app): State<App>) -> Response {
    let all: Vec<_> = app.maps.iter().map(|m| json!({"name": m.name()})).collect();
    json_of(&json!(all))
}

#[derive(Deserialize)]
pub(crate) struct MapQuery {
    /// Version that the page already has; the answer waits for a newer one.
    #[serde(default)]
    after: u64,
}

pub(crate) async fn map(
    State(app): State<App>,
    Path(id): Path<usize>,
    Query(known): Query<MapQuery>,
) -> Response {
    let Some(map) = app.maps.get(id) else {
        return no_map(&app, id);
    };
    let mut version = map.version();
    // After the time limit, answer with the unchanged version.
    let _ = tokio::time::timeout(LONGEST_WAIT, version.wait_for(|v| *v > known.after)).await;
    json_of(&map.json(id))
}

pub(crate) async fn surface(
    State(app): State<App>,
    Path((id, stage)): Path<(usize, u64)>,
) -> Response {
    answer(&app, id, |map| map.surface(stage))
}

#[derive(Deserialize)]
pub(crate) struct Planes {
    dims: String,
}

pub(crate) async fn planes(
    State(app): State<App>,
    Path((id, stage)): Path<(usize, u64)>,
    Query(asked): Query<Planes>,
) -> Response {
    let dims = asked.dims.split(',').map(str::parse);
    let Ok(dims) = dims.collect::<std::result::Result<Vec<usize>, _>>() else {
        let words = format!("dims: expected numbers such as 0,4, got {:?}", asked.dims);
        return (StatusCode::BAD_REQUEST, words).into_response();
    };
    answer(&app, id, |map| map.planes(stage, &dims))
}

pub(crate) async fn node(
    State(app): State<App>,
    Path((id, stage, node)): Path<(usize, u64, usize)>,
) -> Response {
    answer(&app, id, |map| map.node(stage, node))
}

pub(crate) async fn samples(
    State(app): State<App>,
    Path((id, node)): Path<(usize, usize)>,
) -> Response {
    answer(&app, id, |map| map.samples(node))
}

fn answer(app: &App, id: usize, of: impl FnOnce(&MapView) -> Result<Bytes>) -> Response {
    let Some(map) = app.maps.get(id) else {
        return no_map(app, id);
    };
    match of(map) {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
        Err(e) => (StatusCode::NOT_FOUND, e.message().to_owned()).into_response(),
    }
}

fn no_map(app: &App, id: usize) -> Response {
    let words = format!("expected one of {} maps, got number {id}", app.maps.len());
    (StatusCode::NOT_FOUND, words).into_response()
}
