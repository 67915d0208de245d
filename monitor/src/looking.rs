//! Handlers for networks and mined episodes.

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use betz_base::error::Error;
use betz_network::Measure;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use std::sync::Arc;

use crate::app::{App, AppState, json_of, no_source};
use crate::explore::counted::EpisodeList;
use crate::explore::job::{self, JobSender};
use crate::explore::last_minute::{LastMinute, last_minute};
use crate::explore::network::{
    EdgeQuery, MOST_EDGES, NamedNetwork, NetworkRequest, NetworkView, compute,
};
use crate::kept::{self, NetworkSlot};
use betz_base::lock::lock;

/// Largest number of steps of a layout.
const MOST_STEPS: u32 = 5_000;
/// Largest number of networks that were given at the start or computed for pages.
const MOST_COMPUTED: usize = 64;

pub(crate) async fn networks(State(app): State<App>) -> Response {
    let image = app.image.as_ref().map(|i| json!({"extent": i.extent}));
    let keeps = app.store.get().is_some();
    let updated = {
        let app = app.clone();
        tokio::task::spawn_blocking(move || kept::update(&app)).await
    };
    // A store that cannot be read leaves the list as it was; pages show why.
    let failure = match updated {
        Ok(done) => done.err().map(|e| e.message().to_owned()),
        Err(e) => Some(e.to_string()),
    };
    json_of(&json!({
        "networks": kept::listed(&app), "image": image, "keeps": keeps,
        "changes": keeps && app.may_control, "failure": failure,
    }))
}

/// Picture below the nodes.
pub(crate) async fn image(State(app): State<App>) -> Response {
    let found = (app.image.as_ref()).and_then(|image| Some((image.kind()?, image)));
    match found {
        Some((kind, image)) => {
            let headers = [(header::CONTENT_TYPE, kind)];
            (headers, Bytes::from(image.bytes.clone())).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no picture below the nodes").into_response(),
    }
}

/// The version of a growing network that a page has.
#[derive(Deserialize)]
pub(crate) struct Since {
    since: Option<u64>,
}

pub(crate) async fn network(
    State(app): State<App>,
    Path(id): Path<usize>,
    Query(Since { since }): Query<Since>,
) -> Response {
    if let Some((name, live)) = kept::live(&app, id) {
        if since == Some(live.version()) {
            return json_of(&Value::Null);
        }
        let may_change = app.may_control;
        let told = move || live.about(id, &name, may_change);
        return match tokio::task::spawn_blocking(told).await {
            Ok(Ok(about)) => json_of(&about),
            Ok(Err(e)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, e.message().to_owned()).into_response()
            }
            Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
        };
    }
    // It may be read from a store.
    let found = {
        let app = app.clone();
        tokio::task::spawn_blocking(move || kept::find(&app, id, None)).await
    };
    match found {
        Ok(Ok(Some((name, network)))) => {
            let mut about = network.json(id);
            about["name"] = json!(name);
            json_of(&about)
        }
        Ok(Ok(None)) => not_there(&app, id),
        Ok(Err(e)) => (StatusCode::INTERNAL_SERVER_ERROR, e.message().to_owned()).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
pub(crate) struct Rule {
    #[serde(default)]
    rule: String,
    version: Option<u64>,
}

fn is_peak(rule: &str) -> bool {
    rule == "peak"
}

pub(crate) async fn timeline(
    State(app): State<App>,
    Path(id): Path<usize>,
    Query(rule): Query<Rule>,
) -> Response {
    let peak = is_peak(&rule.rule);
    at_work(&app, id, rule.version, move |network| {
        network.timeline(peak)
    })
    .await
}

#[derive(Deserialize)]
pub(crate) struct Edges {
    window: usize,
    #[serde(default)]
    rule: String,
    limit: Option<usize>,
    version: Option<u64>,
}

pub(crate) async fn edges(
    State(app): State<App>,
    Path(id): Path<usize>,
    Query(asked): Query<Edges>,
) -> Response {
    let limit = asked.limit.unwrap_or(MOST_EDGES);
    let meant = EdgeQuery {
        window: asked.window,
        peak: is_peak(&asked.rule),
        least: None,
    };
    at_work(&app, id, asked.version, move |network| {
        network.edges(meant, limit)
    })
    .await
}

#[derive(Deserialize)]
pub(crate) struct LayoutQuery {
    window: usize,
    #[serde(default)]
    rule: String,
    threshold: Option<f32>,
    steps: Option<u32>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    warm: u8,
    version: Option<u64>,
}

pub(crate) async fn layout(
    State(app): State<App>,
    Path(id): Path<usize>,
    Query(asked): Query<LayoutQuery>,
) -> Response {
    let network = match looked(&app, id, asked.version) {
        Ok(network) => network,
        Err(refused) => return *refused,
    };
    let steps = asked.steps.unwrap_or(300).min(MOST_STEPS);
    job::start(&app.jobs, move |tell| {
        let meant = EdgeQuery {
            window: asked.window,
            peak: is_peak(&asked.rule),
            least: asked.threshold,
        };
        if let Err(e) = network.layout(meant, steps, asked.seed, asked.warm > 0, tell) {
            tell.end(json!({"error": e.message()}));
        }
    })
}

#[derive(Deserialize)]
pub(crate) struct TrackQuery {
    #[serde(default)]
    from: usize,
    to: Option<usize>,
    threshold: Option<f32>,
    #[serde(default)]
    seed: u64,
    version: Option<u64>,
}

pub(crate) async fn communities(
    State(app): State<App>,
    Path(id): Path<usize>,
    Query(asked): Query<TrackQuery>,
) -> Response {
    let network = match looked(&app, id, asked.version) {
        Ok(network) => network,
        Err(refused) => return *refused,
    };
    job::start(&app.jobs, move |tell| {
        let span = (asked.from, asked.to.unwrap_or(usize::MAX));
        if let Err(e) = network.communities(span, asked.threshold, asked.seed, tell) {
            tell.end(json!({"error": e.message()}));
        }
    })
}

#[derive(Deserialize)]
pub(crate) struct Computing {
    #[serde(default)]
    source: usize,
    window: f64,
    step: f64,
    bin: f64,
    measure: Option<String>,
    /// Largest shift in time, of lagged correlations and of time warping.
    shift: Option<f64>,
    min: Option<f64>,
}

/// Measures of spike counts.
const MEASURES: [Measure; 10] = [
    Measure::Pearson,
    Measure::Spearman,
    Measure::Kendall,
    Measure::Covariance,
    Measure::GaussianInformation,
    Measure::Lagged { lags: 0 },
    Measure::Partial,
    Measure::Euclidean { hold: 1 },
    Measure::Warping {
        band: 0,
        normalised: true,
    },
    // A segment follows from the window.
    Measure::Coherence {
        segment: 0,
        first: 1,
        last: 0,
        peak: false,
    },
];

impl Computing {
    /// The measure that is asked for.
    ///
    /// # Errors
    /// The expected and the found words, for an answer.
    fn measure(&self) -> Result<Measure, String> {
        let name = self.measure.as_deref().unwrap_or("pearson");
        let Some(measure) = MEASURES.into_iter().find(|m| m.name() == name) else {
            let all = MEASURES.map(Measure::name).join(", ");
            let why = match Measure::named(name) {
                Some(_) => {
                    "; `betz network compute` has it, for phases, places or spike times, which counts are not"
                }
                None => "",
            };
            return Err(format!("measure: expected one of {all}, got {name:?}{why}"));
        };
        let shift = match measure {
            Measure::Lagged { .. } | Measure::Warping { .. } => self.shift.unwrap_or(0.0),
            _ => 0.0,
        };
        // A bin of 0 is refused by its own name.
        let bins = match shift {
            0.0 => 0.0,
            shift => (shift / self.bin).round(),
        };
        if !(0.0..=f64::from(i16::MAX)).contains(&bins) {
            return Err(format!(
                "shift: expected 0 to {} bins of {} s, got {} s",
                i16::MAX,
                self.bin,
                shift
            ));
        }
        let shift = bins as usize;
        Ok(match measure {
            Measure::Lagged { .. } => Measure::Lagged { lags: shift },
            Measure::Warping { normalised, .. } => Measure::Warping {
                band: shift,
                normalised,
            },
            other => other,
        })
    }
}

/// Computes a network of a recording, or of a session's last minute, in windows that the page chooses. Adds the
/// result to the list of networks.
pub(crate) async fn computed(State(app): State<App>, Query(asked): Query<Computing>) -> Response {
    let last_minute = app.live && asked.source == 0;
    if !last_minute && app.recorded.get(asked.source).is_none() {
        return no_source(&app, asked.source);
    }
    let measure = match asked.measure() {
        Ok(measure) => measure,
        Err(words) => return (StatusCode::BAD_REQUEST, words).into_response(),
    };
    let wanted = NetworkRequest {
        window_seconds: asked.window,
        step_seconds: asked.step,
        bin_seconds: asked.bin,
        measure,
        least: asked.min.unwrap_or(0.1),
    };
    let shared = app.clone();
    job::start(&app.jobs, move |tell| {
        let done = match shared.recorded.get(asked.source) {
            Some(recorded) => compute(recorded, wanted, tell),
            None => of_the_last_minute(&shared, wanted, tell),
        };
        let done = done
            .and_then(NetworkView::new)
            .and_then(|network| add(&shared, network));
        tell.end(match done {
            Ok(id) => json!({"network": id}),
            Err(e) => json!({"error": e.message()}),
        });
    })
}

/// Computes the network of a session's stored frames, with times on the session's clock.
fn of_the_last_minute(
    app: &AppState,
    wanted: NetworkRequest,
    tell: &JobSender,
) -> betz_base::Result<NamedNetwork> {
    let LastMinute {
        recorded, first, ..
    } = kept(app)?;
    let mut found = compute(&recorded, wanted, tell)?;
    let sample = found.network.meta().sample_seconds.unwrap_or(0.0);
    let begin = first as f64 * app.source.step_seconds;
    let starts = found.network.window_start().iter();
    found.window_seconds = Some(starts.map(|s| begin + *s as f64 * sample).collect());
    Ok(found)
}

/// A session's stored frames as a recording.
pub(crate) fn kept(app: &AppState) -> betz_base::Result<LastMinute> {
    let (frames, labels, events): (Vec<Bytes>, _, _) = {
        let seen = lock(&app.seen);
        let all = seen.history.range(i64::MIN..i64::MAX);
        let frames = all.map(|f| f.bytes.clone()).collect();
        (frames, seen.labels.all(), seen.events.clone())
    };
    let mut found = last_minute(&app.source, &frames, &labels)?;
    // The session's program knows of trials that its steps do not carry.
    let told = events.iter().filter_map(|event| {
        let event: Value = serde_json::from_str(event).ok()?;
        (event["type"] == "trial").then(|| event["tick"].as_i64())?
    });
    let steps = found.recorded.dataset.steps as i64;
    let within = told.map(|tick| tick - found.first);
    found
        .trials
        .extend(within.filter(|tick| (0..steps).contains(tick)));
    found.trials.sort_unstable();
    found.trials.dedup();
    Ok(found)
}

fn add(app: &AppState, network: NetworkView) -> betz_base::Result<usize> {
    let mut all = lock(&app.networks);
    // The same network is stored only once.
    let same = |slot: &NetworkSlot| slot.view.as_ref().is_some_and(|view| view.same(&network));
    if let Some(id) = all.iter().position(same) {
        return Ok(id);
    }
    if all.iter().filter(|slot| slot.takes_place()).count() >= MOST_COMPUTED {
        return Err(Error::argument(format!(
            "expected at most {MOST_COMPUTED} networks, got one more: begin anew"
        )));
    }
    all.push(NetworkSlot::new(network));
    Ok(all.len() - 1)
}

fn looked(app: &App, id: usize, version: Option<u64>) -> Result<Arc<NetworkView>, Box<Response>> {
    match kept::find(app, id, version) {
        Ok(Some((_, network))) => Ok(network),
        Ok(None) => Err(Box::new(not_there(app, id))),
        Err(e) => {
            let words = e.message().to_owned();
            Err(Box::new(
                (StatusCode::INTERNAL_SERVER_ERROR, words).into_response(),
            ))
        }
    }
}

fn not_there(app: &App, id: usize) -> Response {
    let all = lock(&app.networks).len();
    let words = format!("expected one of {all} networks that is not deleted, got number {id}");
    (StatusCode::NOT_FOUND, words).into_response()
}

pub(crate) async fn mined(State(app): State<App>) -> Response {
    // A session lists only its own episodes, and no recordings' episodes.
    let counted = app.counted.get().map(EpisodeList::name);
    let names = counted
        .into_iter()
        .chain(app.mined.iter().map(|m| m.name.as_str()));
    let all: Vec<_> = names.map(|name| json!({"name": name})).collect();
    json_of(&json!(all))
}

fn no_episodes(app: &App, id: usize) -> Response {
    let words = format!("expected one of {} lists, got number {id}", app.mined.len());
    (StatusCode::NOT_FOUND, words).into_response()
}

pub(crate) async fn episodes(State(app): State<App>, Path(id): Path<usize>) -> Response {
    if let (Some(counted), 0) = (app.counted.get(), id) {
        let steps = lock(&app.seen).totals.steps;
        return json_of(&counted.json(steps as f64 * app.source.step_seconds));
    }
    let Some(mined) = app.mined.get(id) else {
        return no_episodes(&app, id);
    };
    let of = app.recorded.get(mined.recording).map(|r| &r.dataset);
    json_of(&mined.json(of.map_or(0.0, |d| d.steps as f64 * d.step_seconds)))
}

/// All occurrences of an episode.
pub(crate) async fn occurrences(
    State(app): State<App>,
    Path((id, episode)): Path<(usize, usize)>,
) -> Response {
    let lives = app.counted.get().is_some() && id == 0;
    if !lives && id >= app.mined.len() {
        return no_episodes(&app, id);
    }
    let found = tokio::task::spawn_blocking(move || match app.counted.get().filter(|_| lives) {
        Some(counted) => {
            Some(kept(&app).and_then(|k| counted.occurrences(episode, &k.recorded, k.first)))
        }
        None => app.mined.get(id).map(|mined| mined.occurrences(episode)),
    });
    match found.await {
        Ok(Some(Ok(found))) => json_of(&found),
        Ok(Some(Err(e))) => (StatusCode::NOT_FOUND, e.message().to_owned()).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "it could not be done").into_response(),
    }
}

/// Computes a slow answer on a separate thread, so that other answers do not wait.
async fn at_work(
    app: &App,
    id: usize,
    version: Option<u64>,
    work: impl FnOnce(&NetworkView) -> betz_base::Result<Bytes> + Send + 'static,
) -> Response {
    let network = match looked(app, id, version) {
        Ok(network) => network,
        Err(refused) => return *refused,
    };
    match tokio::task::spawn_blocking(move || work(&network)).await {
        Ok(Ok(bytes)) => {
            ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response()
        }
        Ok(Err(e)) => (StatusCode::BAD_REQUEST, e.message().to_owned()).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "it could not be done").into_response(),
    }
}
