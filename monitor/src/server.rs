//! HTTP server of the page: routes, limits and handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use betz_base::error::ErrorKind;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::app::{App, json_of, no_source};
use crate::control::{Control, ControlRequest};
use crate::decisions::Decision;
use crate::explore::recorded::DecodedRecording;
use crate::frame;
use crate::guard::{Entry, policy_of};
use crate::metrics::{self, ServerCounts};
use crate::simulation::{SimulationHandle, SteerRequest};
use crate::viewer::{self, FromPage};
use crate::{expected, kept, live_network, looking, maps, page, parts, source::ModelCard, windows};
use betz_base::lock::lock;

/// Largest number of pages that watch at a time.
pub(crate) const VIEWERS: usize = 32;
/// Largest number of connections at a time.
const CONNECTIONS: usize = 256;
/// Largest request body, in bytes.
const REQUEST_BYTES: usize = 64 << 10;
/// Largest head of a request, in bytes; hyper accepts no smaller limit.
const HEAD_BYTES: usize = 8 << 10;
/// Time limit for a request's head.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Name of the WebSocket sub-protocol.
const PROTOCOL: &str = "betz.v1";

/// Serves until `stop` becomes true or its sender is dropped.
pub(crate) async fn serve(listeners: Vec<TcpListener>, app: App, stop: watch::Receiver<bool>) {
    let router = router(app.clone());
    let open = Arc::new(AtomicUsize::new(0));
    let accepting = listeners.into_iter().map(|listener| {
        let (app, router) = (app.clone(), router.clone());
        tokio::spawn(accept(listener, app, router, open.clone(), stop.clone()))
    });
    for task in accepting.collect::<Vec<_>>() {
        let _ = task.await;
    }
}

async fn accept(
    listener: TcpListener,
    app: App,
    router: Router,
    open: Arc<AtomicUsize>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|s| *s) => return,
        };
        let Ok((stream, _)) = accepted else {
            // Probably no file descriptors are left; some may become free soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let _ = stream.set_nodelay(true);
        let (inner, app, open) = (
            TowerToHyperService::new(router.clone()),
            app.clone(),
            open.clone(),
        );
        // Before the router, which goes by the path.
        let service = service_fn(move |mut request| {
            app.guard.unwrap_path(&mut request);
            inner.call(request)
        });
        let mut stop = stop.clone();
        tokio::spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES);
            let connection = http
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            tokio::select! {
                _ = connection => {}
                _ = stop.wait_for(|s| *s) => {}
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn router(app: App) -> Router {
    let api = Router::new()
        .route("/state", get(state))
        .route("/events", get(events))
        .route("/outline", get(outline))
        .route("/spikes", get(spikes))
        .route("/overview", get(parts::overview))
        .route("/range", get(parts::range))
        .route("/trials", get(parts::trials))
        .route("/unit", get(parts::unit))
        .route("/weights/{model}", get(weights))
        .route("/latency", get(latency))
        .route("/history", get(history))
        .route("/misses", get(misses))
        .route("/misses/{id}", get(moment))
        .route("/networks", get(looking::networks))
        .route("/mined", get(looking::mined))
        .route("/mined/{id}", get(looking::episodes))
        .route("/mined/{id}/{episode}", get(looking::occurrences))
        .route("/windows", get(windows::windows))
        .route("/windows/occurrences", get(windows::occurrences))
        .route("/image", get(looking::image))
        .route("/maps", get(maps::maps))
        .route("/map/{id}", get(maps::map))
        .route("/map/{id}/samples/{node}", get(maps::samples))
        .route("/map/{id}/{stage}", get(maps::surface))
        .route("/map/{id}/{stage}/planes", get(maps::planes))
        .route("/map/{id}/{stage}/node/{node}", get(maps::node))
        .route("/compute", get(looking::computed))
        .route("/network/{id}", get(looking::network))
        .route("/network/{id}/timeline", get(looking::timeline))
        .route("/network/{id}/edges", get(looking::edges))
        .route("/network/{id}/layout", get(looking::layout))
        .route("/network/{id}/communities", get(looking::communities))
        .route("/network/{id}/change", post(live_network::change))
        .route("/sessions/{what}", post(kept::change))
        .route("/expected", post(expected))
        .route("/control/{what}", post(control));
    Router::new()
        .nest("/api", api)
        .route("/live", get(live))
        .route("/metrics", get(metrics))
        .fallback(get(file))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .layer(middleware::from_fn_with_state(app.clone(), guarded))
        .with_state(app)
}

async fn guarded(State(app): State<App>, request: Request, next: Next) -> Response {
    let policy = policy_of(&request);
    let uri = request.uri();
    let checked = (app.guard).check(request.method(), uri.path(), uri.query(), request.headers());
    let mut response = match checked {
        Ok(Entry::Known) => next.run(request).await,
        Ok(Entry::Introduced) => {
            let mut response = (StatusCode::SEE_OTHER, "").into_response();
            let headers = response.headers_mut();
            headers.insert(header::LOCATION, HeaderValue::from_static("/"));
            if let Ok(cookie) = HeaderValue::from_str(&app.guard.cookie()) {
                headers.insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Err(refusal) => (refusal.status(), refusal.words()).into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    (headers.entry(header::CACHE_CONTROL)).or_insert(HeaderValue::from_static("no-cache"));
    response
}

async fn file(State(app): State<App>, request: Request) -> Response {
    let Some((kind, text)) = page::file(request.uri().path(), app.page_folder.as_deref()) else {
        return (StatusCode::NOT_FOUND, "there is nothing here").into_response();
    };
    let tag = page::tag(&text);
    let known = request.headers().get(header::IF_NONE_MATCH);
    if known.is_some_and(|k| k.as_bytes() == tag.as_bytes()) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::ETAG, tag),
        (header::VARY, "accept-encoding".to_owned()),
    ];
    let accepted = (request.headers().get(header::ACCEPT_ENCODING)).and_then(|v| v.to_str().ok());
    // Files from a developer's folder are not cached.
    let small = accepted
        .filter(|a| app.page_folder.is_none() && page::takes_gzip(a))
        .and_then(|_| page::compressed(request.uri().path()));
    match small {
        Some(small) => {
            let coding = [(header::CONTENT_ENCODING, "gzip")];
            (headers, coding, small).into_response()
        }
        None => (headers, text.into_owned()).into_response(),
    }
}

/// Number of the recording that is asked for.
#[derive(Deserialize)]
struct Which {
    #[serde(default)]
    source: usize,
}

async fn state(State(app): State<App>, Query(which): Query<Which>) -> Response {
    let recorded = app.recorded.get(which.source);
    if recorded.is_none() && (which.source > 0 || !app.recorded.is_empty()) {
        return no_source(&app, which.source);
    }
    let source = recorded.map_or(&app.source, |r| &r.source);
    let sources: Vec<&str> = app
        .recorded
        .iter()
        .map(|r| r.source.name.as_str())
        .collect();
    let (swap, model, span, ended) = {
        let seen = lock(&app.seen);
        (seen.swap, seen.model, seen.history.span(), seen.ended)
    };
    let control = app.control.get().map(Control::json);
    json_of(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "frame_version": frame::VERSION,
        "mode": if app.live { "live" } else { "file" },
        "sources": sources,
        "epoch": app.epoch,
        "source": source.json(),
        "model": source.model.as_ref().map(ModelCard::json),
        "running": format!("{:016x}", app.running(model)),
        "swap": format!("{swap:?}"),
        "history": span.map(|s| [s.start, s.end]),
        "ended": ended,
        "control": app.may_control && app.control.get().is_some(),
        "models": control,
        "decides": app.decision_sender().is_some(),
        "status": lock(&app.status).newest(),
        "simulation": app.steered.get().map(SimulationHandle::json),
        "steered": app.may_control && app.steered.get().is_some(),
        "networks": lock(&app.networks).iter().filter(|slot| !slot.deleted).count(),
        "mined": app.mined.len() + usize::from(app.counted.get().is_some()),
        "maps": app.maps.len(),
        "labels": parts::label_names(&app),
        "in_sample": recorded.is_some_and(DecodedRecording::in_sample),
        "kept": app.kept,
        "limits": {"viewers": VIEWERS, "in_flight": viewer::IN_FLIGHT, "waiting": viewer::WAITING},
    }))
}

/// Weights of a model that the page knows, by its fingerprint.
async fn weights(State(app): State<App>, Path(model): Path<String>) -> Response {
    let wanted = u64::from_str_radix(&model, 16).ok();
    let own = app.recorded.iter().map(|r| &r.source).chain([&app.source]);
    let mut own = own.filter_map(|s| s.model.as_ref());
    let card = wanted.and_then(|w| {
        let swapped = || app.control.get().and_then(|c| c.card(w));
        own.find(|c| c.fingerprint == w).or_else(swapped)
    });
    match card {
        Some(card) => {
            let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
            (kind, card.weights()).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no such model here").into_response(),
    }
}

async fn events(State(app): State<App>) -> Response {
    let all: Vec<String> = {
        let seen = lock(&app.seen);
        let labels = seen.labels.event().map(|labels| labels.to_string());
        seen.events.iter().cloned().chain(labels).collect()
    };
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, format!("[{}]", all.join(","))).into_response()
}

/// Overview of a whole recording.
async fn outline(State(app): State<App>, Query(which): Query<Which>) -> Response {
    match app.recorded.get(which.source) {
        Some(recorded) => json_of(&recorded.outline()),
        None => no_source(&app, which.source),
    }
}

#[derive(Deserialize)]
struct Span {
    #[serde(default)]
    source: usize,
    from: i64,
    to: i64,
}

/// Frames of the session's last minute, or of a recording, in order.
async fn spikes(State(app): State<App>, Query(span): Query<Span>) -> Response {
    if span.to <= span.from {
        return (StatusCode::BAD_REQUEST, "expected from before to, in ticks").into_response();
    }
    if let Some(recorded) = app.recorded.get(span.source) {
        return frames_again(&recorded.frames(span.from..span.to));
    }
    let frames: Vec<Bytes> = {
        let seen = lock(&app.seen);
        seen.history
            .range(span.from..span.to)
            .map(|f| f.bytes.clone())
            .collect()
    };
    frames_again(&frames)
}

fn frames_again(frames: &[Bytes]) -> Response {
    let mut all = Vec::with_capacity(frames.iter().map(Bytes::len).sum());
    frames
        .iter()
        .for_each(|f| all.extend_from_slice(&frame::again(f)));
    ([(header::CONTENT_TYPE, "application/octet-stream")], all).into_response()
}

/// Time that steps take, by second.
async fn latency(State(app): State<App>) -> Response {
    let latency = lock(&app.seen).computing.json();
    json_of(&latency)
}

/// The session's history by second, and the verdict on its decoder with those before.
async fn history(State(app): State<App>) -> Response {
    let history = lock(&app.seen).history_json();
    json_of(&history)
}

/// Moments around missed deadlines.
async fn misses(State(app): State<App>) -> Response {
    let seen = lock(&app.seen);
    let moments: Vec<Value> = (seen.moments.iter())
        .map(|m| {
            json!({
                "id": m.id, "from": m.ticks.start, "to": m.ticks.end,
                "misses": m.misses, "more": m.more,
            })
        })
        .collect();
    json_of(&json!({"moments": moments, "gone": seen.moments.gone}))
}

async fn moment(State(app): State<App>, Path(id): Path<u64>) -> Response {
    let frames: Option<Vec<Bytes>> = {
        let seen = lock(&app.seen);
        let found = seen.moments.iter().find(|m| m.id == id);
        found.map(|m| m.frames.iter().map(|f| f.bytes.clone()).collect())
    };
    match frames {
        Some(frames) => frames_again(&frames),
        None => (StatusCode::NOT_FOUND, "that moment is not kept (any more)").into_response(),
    }
}

async fn metrics(State(app): State<App>) -> Response {
    let served = ServerCounts {
        viewers: app.viewers.load(Ordering::Relaxed),
        frames_skipped: app.skipped.load(Ordering::Relaxed),
    };
    let published = lock(&app.seen).model;
    let model = app.running(published);
    let mut text = {
        let seen = lock(&app.seen);
        metrics::text(&seen, served, &format!("{model:016x}"))
    };
    if let Some(counted) = app.counted.get() {
        metrics::episodes(&mut text, &counted.totals());
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Handles a request to steer the simulation.
fn steer(app: &App, what: &str, body: &[u8]) -> Response {
    let Some(steered) = app.steered.get().filter(|_| app.may_control) else {
        return (StatusCode::FORBIDDEN, "nothing here can be controlled").into_response();
    };
    let asked = match SteerRequest::read(what, body) {
        Ok(asked) => asked,
        Err(e) => return (StatusCode::BAD_REQUEST, format!("expected JSON: {e}")).into_response(),
    };
    match steered.act(asked) {
        Ok(event) => {
            let _ = app.events.send(("control".into(), event.clone()));
            (StatusCode::ACCEPTED, json_of(&event)).into_response()
        }
        Err(e) => (StatusCode::CONFLICT, e.message().to_owned()).into_response(),
    }
}

/// Computes the expected cost of a mask without touching the session. One computation runs at a time, on its own
/// thread; the client cancels it by closing the connection.
async fn expected(State(app): State<App>, body: Bytes) -> Response {
    let asked: MaskQuery = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(e) => return (StatusCode::BAD_REQUEST, format!("expected JSON: {e}")).into_response(),
    };
    if !app.may_control || app.control.get().is_none() {
        return (StatusCode::FORBIDDEN, "nothing here can be controlled").into_response();
    }
    let (tell, told) = tokio::sync::oneshot::channel();
    let judging = app.clone();
    let spawned = crate::thread("betz-expected", move || {
        let answer = judged(&judging, &asked.channels, || tell.is_closed());
        let _ = tell.send(answer);
    });
    match (spawned, told.await) {
        (Ok(_), Ok(answer)) => answer,
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "it could not be done").into_response(),
    }
}

/// Channels that the mask would leave out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MaskQuery {
    channels: Vec<usize>,
}

fn judged(app: &App, off: &[usize], cancelled: impl Fn() -> bool) -> Response {
    let Some(control) = app.control.get() else {
        return (StatusCode::FORBIDDEN, "nothing here can be controlled").into_response();
    };
    let Some(_place) = control.judge() else {
        let words = "what a mask would cost is being worked out for somebody: ask again";
        return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    };
    let answer = control.running().and_then(|model| {
        let frames: Vec<Bytes> = {
            let seen = lock(&app.seen);
            let all = seen.history.range(i64::MIN..i64::MAX);
            all.map(|f| f.bytes.clone()).collect()
        };
        expected::of_mask(&model, off, &frames, cancelled)
    });
    match answer {
        // Cancelled: nobody reads this answer.
        Ok(None) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Ok(Some(answer)) => json_of(&answer),
        Err(e) if e.kind() == ErrorKind::InvalidArgument => {
            (StatusCode::BAD_REQUEST, e.message().to_owned()).into_response()
        }
        Err(e) => (StatusCode::CONFLICT, e.message().to_owned()).into_response(),
    }
}

async fn control(State(app): State<App>, Path(what): Path<String>, body: Bytes) -> Response {
    if SimulationHandle::hears(&what) {
        return steer(&app, &what, &body);
    }
    if let (Some(sender), Some(decision)) = (app.decision_sender(), Decision::from_path(&what)) {
        return match sender.send(decision) {
            Ok(()) => (StatusCode::ACCEPTED, json_of(&json!({"what": what}))).into_response(),
            Err(_) => (StatusCode::CONFLICT, "the session has ended").into_response(),
        };
    }
    let asked: ControlRequest = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(e) => return (StatusCode::BAD_REQUEST, format!("expected JSON: {e}")).into_response(),
    };
    if !app.may_control || app.control.get().is_none() {
        return (StatusCode::FORBIDDEN, "nothing here can be controlled").into_response();
    }
    // Preparing a model takes a while; other viewers must get their frames meanwhile.
    let (tell, told) = tokio::sync::oneshot::channel();
    let acting = app.clone();
    let spawned = std::thread::Builder::new()
        .name("betz-control".into())
        .spawn(move || {
            let done = acting.control.get().map(|c| c.act(&what, &asked));
            let _ = tell.send(done);
        });
    let Ok(Some(done)) = (match spawned {
        Ok(_) => told.await.map_err(|_| ()),
        Err(_) => Err(()),
    }) else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "it could not be done").into_response();
    };
    match done {
        Ok(event) => {
            let _ = app.events.send(("control".into(), event.clone()));
            (StatusCode::ACCEPTED, json_of(&event)).into_response()
        }
        Err(e) => (StatusCode::CONFLICT, e.message().to_owned()).into_response(),
    }
}

async fn live(State(app): State<App>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    let wanted = headers.get(header::SEC_WEBSOCKET_PROTOCOL);
    if wanted.is_none_or(|w| w.as_bytes() != PROTOCOL.as_bytes()) {
        return (StatusCode::BAD_REQUEST, "expected the sub-protocol betz.v1").into_response();
    }
    let Some(place) = Place::take(&app) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "32 pages watch already").into_response();
    };
    // Subscribe before the handshake, so that no frame is lost during it.
    let frames = place.0.frames.subscribe();
    upgrade
        .protocols([PROTOCOL])
        .write_buffer_size(0)
        .max_write_buffer_size(64 << 20)
        .max_message_size(REQUEST_BYTES)
        .on_upgrade(move |socket| async move {
            let skipped = |n| {
                place.0.skipped.fetch_add(n, Ordering::Relaxed);
            };
            viewer::serve(Socket(socket), frames, skipped).await;
        })
}

/// One of the places for viewers, released on drop.
struct Place(App);

impl Place {
    fn take(app: &App) -> Option<Self> {
        let taken = app.viewers.fetch_add(1, Ordering::Relaxed);
        let place = Self(app.clone());
        (taken < VIEWERS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Socket(WebSocket);

impl viewer::Page for Socket {
    async fn send(&mut self, message: Bytes) -> bool {
        self.0.send(Message::Binary(message)).await.is_ok()
    }

    async fn receive(&mut self) -> FromPage {
        match self.0.recv().await {
            Some(Ok(Message::Binary(bytes))) => FromPage::said(&bytes),
            Some(Ok(Message::Close(_)) | Err(_)) | None => FromPage::Gone,
            Some(Ok(_)) => FromPage::Other,
        }
    }
}
