//! `betz stream --unlike`: how far a session is from training, without labels.

use betz::model::Decoder;
use betz::stream::Session;
use betz::train::unlike::{UnlikeConfig, UnlikeWatch, UnlikeWorker, Unlikeness};
use betz::{Error, Result};
use serde::Serialize;

use crate::report;

/// Comparisons of moving windows with training.
#[derive(Serialize)]
pub(crate) struct UnlikeTraining {
    /// Length of a window.
    window_seconds: f64,
    /// Every complete window, or of a live source the newest.
    windows: Vec<Unlikeness>,
    lost_steps: u64,
}

/// The comparison of a session whose steps wait for it.
pub(crate) struct SteppedComparison {
    worker: UnlikeWorker,
    found: UnlikeTraining,
    failure: Option<Error>,
}

fn open(model: &Decoder, session: &mut Session, window_seconds: f64) -> Result<UnlikeWorker> {
    let config = UnlikeConfig {
        window_seconds,
        ..UnlikeConfig::default()
    };
    let (tap, worker) = UnlikeWorker::open(model, &config)?;
    session.attach(Box::new(tap), 0)?;
    Ok(worker)
}

impl SteppedComparison {
    pub(crate) fn open(model: &Decoder, session: &mut Session, seconds: f64) -> Result<Self> {
        Ok(Self {
            worker: open(model, session, seconds)?,
            found: UnlikeTraining {
                window_seconds: seconds,
                windows: Vec::new(),
                lost_steps: 0,
            },
            failure: None,
        })
    }

    /// Takes the step that the session has made.
    pub(crate) fn step(&mut self) {
        if let Err(error) = self.worker.work() {
            self.failure.get_or_insert(error);
        }
        if let Some(newest) = self.worker.newest()
            && (self.found.windows.last()).is_none_or(|last| last.tick != newest.tick)
        {
            self.found.windows.push(newest);
        }
    }

    pub(crate) fn finish(mut self) -> Result<UnlikeTraining> {
        self.found.lost_steps = self.worker.lost_steps();
        self.failure.map_or(Ok(self.found), Err)
    }
}

/// The comparison of a live session, on a thread.
pub(crate) struct LiveComparison {
    watch: UnlikeWatch,
    window_seconds: f64,
}

impl LiveComparison {
    pub(crate) fn start(model: &Decoder, session: &mut Session, seconds: f64) -> Result<Self> {
        let watch = UnlikeWatch::start(open(model, session, seconds)?)?;
        Ok(Self {
            watch,
            window_seconds: seconds,
        })
    }

    pub(crate) fn finish(self) -> Result<UnlikeTraining> {
        self.watch.flush()?;
        Ok(UnlikeTraining {
            window_seconds: self.window_seconds,
            windows: self.watch.newest().into_iter().collect(),
            lost_steps: self.watch.lost_steps(),
        })
    }
}

impl UnlikeTraining {
    pub(crate) fn print(&self) -> Result<()> {
        let window = self.window_seconds;
        let Some(newest) = self.windows.last() else {
            return report::line(&format!(
                "unlike training: no complete window of {window} s; a shorter one is --unlike=SECONDS"
            ));
        };
        let largest = (self.windows.iter()).fold(newest, |a, b| match b.latents > a.latents {
            true => b,
            false => a,
        });
        let rates = match newest.rates.is_nan() {
            true => String::new(),
            false => format!(", rates changed {:.2}-fold", newest.rates.exp()),
        };
        report::line(&format!(
            "unlike training: {:.3} nats in the last {window} s{rates}; at most {:.3} nats in {}",
            newest.latents,
            largest.latents,
            report::count(self.windows.len() as u128, "window")
        ))?;
        if self.lost_steps > 0 {
            report::line(&format!(
                "unlike training: {} lost, because its thread was late",
                report::count(u128::from(self.lost_steps), "step")
            ))?;
        }
        Ok(())
    }
}
