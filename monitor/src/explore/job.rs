//! Work that takes longer than an answer may. It runs on a thread of its own and sends its results frame by frame. The
//! client stops it by closing the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use betz_base::Progress;
use bytes::Bytes;
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::mpsc;

use crate::frame::{Kind, Section, Writer};

/// Largest number of jobs at a time.
pub(crate) const MOST: usize = 4;
/// Number of frames that wait to be sent before the job waits.
const WAITING: usize = 4;

/// Number of running jobs.
pub(crate) type Places = Arc<AtomicUsize>;

/// One of the places for jobs, released on drop.
struct Place(Places);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends a job's frames to the client.
pub(crate) struct JobSender(mpsc::Sender<Bytes>);

impl JobSender {
    /// Sends a frame; returns `false` if the client is gone.
    pub(crate) fn send(&self, frame: Bytes) -> bool {
        self.0.blocking_send(frame).is_ok()
    }

    /// Sends an event; returns `false` if the client is gone.
    pub(crate) fn event(&self, words: &serde_json::Value) -> bool {
        let words = words.to_string();
        let mut w = Writer::new(Kind::Job, 0, 0, 0, 0, 64 + words.len());
        w.bytes(Section::EVENT, words.as_bytes());
        self.send(w.finish())
    }

    /// Sends the last event of the job; it has an `error` if the job failed.
    pub(crate) fn end(&self, words: serde_json::Value) {
        self.event(&words);
    }
}

impl Progress for JobSender {
    fn update(&self, stage: &str, done: u64, total: u64) {
        let mut w = Writer::new(Kind::Job, 0, 0, 0, 0, 128);
        let words = json!({"stage": stage, "done": done, "of": total}).to_string();
        w.bytes(Section::EVENT, words.as_bytes());
        // A slow page misses this frame and gets the next.
        let _ = self.0.try_send(w.finish());
    }

    fn cancelled(&self) -> bool {
        self.0.is_closed()
    }
}

/// Starts `work` on a thread and streams its frames as the answer.
pub(crate) fn start(places: &Places, work: impl FnOnce(&JobSender) + Send + 'static) -> Response {
    if places.fetch_add(1, Ordering::Relaxed) >= MOST {
        places.fetch_sub(1, Ordering::Relaxed);
        let words = format!("{MOST} pieces of work are under way: wait, or stop one");
        return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
    }
    let place = Place(places.clone());
    let (tell, told) = mpsc::channel(WAITING);
    let begin = move || {
        work(&JobSender(tell));
        drop(place);
    };
    if crate::thread("betz-job", begin).is_err() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "no thread for it").into_response();
    }
    let headers = [(header::CONTENT_TYPE, "application/octet-stream")];
    (headers, Body::new(JobBody(told))).into_response()
}

struct JobBody(mpsc::Receiver<Bytes>);

impl HttpBody for JobBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        (self.0.poll_recv(context)).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a job that works until the client is gone; `ended` closes when it stops.
    fn begin(places: &Places, ended: std::sync::mpsc::Sender<()>) -> Response {
        start(places, move |tell| {
            while tell.send(Bytes::from_static(b"more")) {}
            drop(ended);
        })
    }

    #[test]
    fn whoever_hangs_up_stops_the_work_and_its_place_is_free() {
        let places = Places::default();
        let (ended, end) = std::sync::mpsc::channel();
        let answers: Vec<Response> = (0..MOST).map(|_| begin(&places, ended.clone())).collect();
        let refused = begin(&places, ended);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(answers.iter().all(|a| a.status() == StatusCode::OK));
        assert_eq!(places.load(Ordering::Relaxed), MOST);
        drop(answers);
        // The channel closes when the last job ends, so all have stopped.
        assert!(end.recv().is_err());
        while places.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}
