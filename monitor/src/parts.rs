//! Handlers for parts of a recording, or of a session's last minute: overviews, numbers of a range, trials.

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use betz_base::error::{Error, Result};
use betz_explore::{Events, Window};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::app::{App, AppState, json_of, no_source};
use crate::explore::native::OverviewQuery;
use crate::explore::recorded::DecodedRecording;
use crate::explore::trials::{self, TrialEvents, TrialQuery};
use crate::explore::unit::UnitQuery;
use crate::looking;
use betz_base::lock::lock;

/// Does slow work on another thread.
async fn done<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
    answer: impl FnOnce(T) -> Response,
) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(found)) => answer(found),
        Ok(Err(e)) => (StatusCode::BAD_REQUEST, e.message().to_owned()).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "it could not be done").into_response(),
    }
}

fn frame_of(bytes: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response()
}

/// True if a request is for the session and not for a recording.
fn of_session(app: &AppState, source: usize) -> bool {
    app.live && source == 0
}

#[derive(Deserialize)]
pub(crate) struct Overview {
    #[serde(default)]
    source: usize,
    from: i64,
    to: i64,
    cell: i64,
    first: u32,
    last: u32,
    rows: u32,
}

/// Counts of a recording in cells, for windows with more steps or spikes than a page draws one by one.
pub(crate) async fn overview(State(app): State<App>, Query(asked): Query<Overview>) -> Response {
    if app.recorded.get(asked.source).is_none() {
        return no_source(&app, asked.source);
    }
    let Overview {
        source,
        from,
        to,
        cell,
        first,
        last,
        rows,
    } = asked;
    let query = OverviewQuery {
        from,
        to,
        cell,
        first,
        last,
        rows,
    };
    done(move || app.recorded[source].overview(query), frame_of).await
}

#[derive(Deserialize)]
pub(crate) struct Range {
    #[serde(default)]
    source: usize,
    from: f64,
    to: f64,
}

/// Rates, Fano factors and accuracy from one time to another, in seconds.
pub(crate) async fn range(State(app): State<App>, Query(asked): Query<Range>) -> Response {
    let session = of_session(&app, asked.source);
    if !session && app.recorded.get(asked.source).is_none() {
        return no_source(&app, asked.source);
    }
    let work = move || -> Result<Value> {
        if !session {
            return app.recorded[asked.source].statistics(asked.from, asked.to);
        }
        let last_minute = looking::kept(&app)?;
        let begin = last_minute.first as f64 * app.source.step_seconds;
        let mut found = (last_minute.recorded).statistics(asked.from - begin, asked.to - begin)?;
        for edge in ["from", "to"] {
            if let Some(seconds) = found[edge].as_f64() {
                found[edge] = (seconds + begin).into();
            }
        }
        Ok(found)
    };
    done(work, |found| json_of(&found)).await
}

/// Intervals, autocorrelogram, rate and tuning of a channel over a whole recording.
pub(crate) async fn unit(State(app): State<App>, Query(asked): Query<UnitQuery>) -> Response {
    if app.recorded.get(asked.source).is_none() {
        return no_source(&app, asked.source);
    }
    let work = move || app.recorded[asked.source].unit(asked);
    done(work, |found| json_of(&found)).await
}

#[derive(Deserialize)]
pub(crate) struct Trials {
    #[serde(default)]
    source: usize,
    /// `starts`, `stops`, `marks` or `labels`.
    align: String,
    /// Number of the only label to align to.
    label: Option<usize>,
    from: f64,
    to: f64,
    bin: f64,
    #[serde(default)]
    channel: usize,
    #[serde(default)]
    output: usize,
}

/// Rates, spikes and outputs around events.
pub(crate) async fn trials(State(app): State<App>, Query(asked): Query<Trials>) -> Response {
    let session = of_session(&app, asked.source);
    if !session && app.recorded.get(asked.source).is_none() {
        return no_source(&app, asked.source);
    }
    let query = TrialQuery {
        window: Window {
            start_seconds: asked.from,
            stop_seconds: asked.to,
            bin_seconds: asked.bin,
        },
        channel: asked.channel,
        output: asked.output,
        origin_seconds: 0.0,
    };
    let work = move || {
        if session {
            return of_the_last_minute(&app, &asked.align, query);
        }
        let recorded = &app.recorded[asked.source];
        if asked.align == "labels" {
            return around_labels(&app, recorded, asked.label, query);
        }
        let segments = match &recorded.times {
            Some(times) => &times.segments,
            None => &recorded.dataset.segments,
        };
        let ticks = match asked.align.as_str() {
            "starts" => segments.iter().map(|s| s.start).collect(),
            "stops" => segments.iter().map(|s| s.stop).collect(),
            other => return Err(no_events(other, "starts, stops or labels")),
        };
        let events = Events {
            name: asked.align,
            ticks,
        };
        let of = TrialEvents {
            events,
            own: segments.clone(),
            labels: Vec::new(),
        };
        trials::trials(recorded, &of, query)
    };
    done(work, frame_of).await
}

/// Names of the labels, each once, in the order of their first intervals.
pub(crate) fn label_names(app: &AppState) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for label in &app.labels {
        if !names.contains(&label.name.as_str()) {
            names.push(&label.name);
        }
    }
    names
}

/// Trials at the starts of the intervals with one label, or with any.
fn around_labels(
    app: &AppState,
    recorded: &DecodedRecording,
    label: Option<usize>,
    query: TrialQuery,
) -> Result<Bytes> {
    let names = label_names(app);
    let only = match label.map(|k| names.get(k)) {
        Some(None) => {
            let known = format!("one of {} labels", names.len());
            return Err(no_events(&format!("label {}", label.unwrap_or(0)), &known));
        }
        Some(Some(name)) => Some(*name),
        None => None,
    };
    let tick = recorded.tick_seconds();
    let mut chosen: Vec<(i64, &str)> = (app.labels.iter())
        .filter(|l| only.is_none_or(|name| l.name == name))
        .map(|l| ((l.start / tick).round() as i64, l.name.as_str()))
        .collect();
    chosen.sort_unstable();
    let (ticks, labels): (Vec<i64>, Vec<&str>) = chosen.into_iter().unzip();
    let segments = match &recorded.times {
        Some(times) => &times.segments,
        None => &recorded.dataset.segments,
    };
    let of = TrialEvents {
        labels,
        ..TrialEvents::within("labels".into(), ticks, segments)
    };
    trials::trials(recorded, &of, query)
}

fn no_events(asked: &str, known: &str) -> Error {
    Error::argument(format!("align: expected {known}, got {asked:?}"))
}

/// Trials of the session's stored frames, with times on the session's clock.
fn of_the_last_minute(app: &AppState, align: &str, query: TrialQuery) -> Result<Bytes> {
    let last_minute = looking::kept(app)?;
    let ticks = match align {
        "starts" => last_minute.trials,
        "marks" => {
            let events = lock(&app.seen).events.clone();
            let mark = |text: &String| -> Option<i64> {
                let event: Value = serde_json::from_str(text).ok()?;
                (event["what"] == "mark").then(|| event["tick"].as_i64())?
            };
            events
                .iter()
                .filter_map(mark)
                .map(|t| t - last_minute.first)
                .collect()
        }
        other => return Err(no_events(other, "starts or marks")),
    };
    let segments = &last_minute.recorded.dataset.segments;
    let of = TrialEvents::within(align.to_owned(), ticks, segments);
    let query = TrialQuery {
        origin_seconds: last_minute.first as f64 * app.source.step_seconds,
        ..query
    };
    trials::trials(&last_minute.recorded, &of, query)
}
