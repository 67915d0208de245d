//! Recalibration of a session without labels: suggested from whole windows, given on request, taken back.
//!
//! The comparison with training works on a thread of its own ([`UnlikeWatch`]). A second one prepares and stores the models
//! that it suggests, so that the loop only takes them.

use betz_base::lock::lock;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use betz_base::ring::ring;
use betz_base::{Error, ErrorKind, Result};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{LentTap, PreparedModel, Session};
use betz_train::unlike::{Suggestion, UnlikeConfig, UnlikeTap, UnlikeWatch, UnlikeWorker};
use ringbuf::traits::{Consumer, Producer};
use ringbuf::{HeapCons, HeapProd};
use serde::Serialize;

use crate::plan::{Plan, RecalibrateMode};
use crate::swap::PreparedSwap;

/// Time between two looks at the comparison.
const LOOK: Duration = Duration::from_millis(20);

/// Report of the recalibration without labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct RecalibrateReport {
    /// Whole windows that were looked at.
    pub windows: u64,
    /// Windows of these that suggested a recalibrated model.
    pub suggestions: u64,
    /// KL divergence of the latents of the newest moving window from those in training, in nats: how far it is *unlike
    /// training*, and not a loss. 0 before the first window is full.
    pub unlike_training: f64,
    /// Share of the change of rates that behaviour explains, in the newest whole window; 0 before.
    pub explained: f64,
    /// Root mean square of the relative changes of rates that are left, in the newest whole window; 0 before.
    pub unexplained: f64,
    /// Channels whose slope does not fit their rate, in the newest whole window.
    pub odd: u64,
    /// True if a model waits for [`Live::accept`](crate::Live::accept): a recalibrated one, or the one as it was trained if
    /// `roll_back`.
    pub suggested: bool,
    /// True if the session was given a recalibrated model.
    pub applied: bool,
    /// True if the newest whole window speaks against the recalibrated model that the session was given.
    pub roll_back: bool,
    /// Suggested models that could not be stored beside the recording, and do not decode.
    pub unstored: u64,
    /// Steps that the comparison lost because its thread was late.
    pub lost_steps: u64,
    /// True if the comparison's thread has ended before the session.
    pub dead: bool,
}

impl RecalibrateReport {
    /// Counts a whole window.
    fn look_at(&mut self, newest: &Suggestion) {
        let found = &newest.found;
        self.windows += 1;
        self.suggestions += u64::from(newest.suggested);
        (self.explained, self.unexplained) = (found.explained, found.unexplained);
        self.odd = found.odd.len() as u64;
    }
}

/// A model that the session may be given.
pub(crate) struct Offer {
    swap: PreparedSwap,
    /// The model and the gains of its recalibration; `None` for the model as it was trained.
    recalibrated: Option<(Decoder, Vec<f64>)>,
}

impl Offer {
    pub(crate) fn swap(&self) -> &PreparedSwap {
        &self.swap
    }

    /// True for the model as it was trained.
    pub(crate) fn is_trained(&self) -> bool {
        self.recalibrated.is_none()
    }
}

/// State that the thread shares with the loop.
#[derive(Default)]
struct OfferState {
    stop: AtomicBool,
    report: Mutex<RecalibrateReport>,
    /// Error that kept the newest suggestion from being stored.
    failed: Mutex<Option<Error>>,
}

/// The loop's end of the recalibration.
pub(crate) struct Recalibrator {
    mode: RecalibrateMode,
    watch: Arc<UnlikeWatch>,
    /// One per whole window: a model, or none.
    offers: HeapCons<Option<Offer>>,
    /// Models that the session was given; `None` if the loop has rolled back by itself.
    given: HeapProd<Option<Offer>>,
    waiting: Option<Offer>,
    state: Arc<OfferState>,
    thread: Option<JoinHandle<()>>,
    /// Fingerprint of the model as it was trained.
    trained: u64,
    /// Fingerprint of the recalibrated model that the session was given, and of the one before it.
    running: Option<u64>,
    before: Option<u64>,
}

impl Recalibrator {
    /// A comparison of `session` with the training of `model`, if the plan wants recalibration; suggested models are stored in
    /// `recording`.
    ///
    /// # Errors
    /// `InvalidArgument` and `InsufficientData` with file, line and key for a model that keeps no sums, and for a window that is
    /// too short; the errors of the threads.
    pub(crate) fn start(
        plan: &Plan,
        model: &Decoder,
        session: &mut Session,
        recording: Option<PathBuf>,
    ) -> Result<Option<Self>> {
        if plan.recalibrate.mode == RecalibrateMode::Off {
            return Ok(None);
        }
        let (tap, worker) = open_worker(plan, model)?;
        session.attach(Box::new(tap), 0)?;
        let watch = Arc::new(UnlikeWatch::start(worker.with_suggestions()?)?);
        let (send, offers) = ring("offers", 4)?;
        let (given, take) = ring("given", 8)?;
        let state = Arc::new(OfferState::default());
        let trained = PreparedModel::new(model, None)?.decoder_fingerprint();
        let offering = OfferThread {
            watch: Arc::clone(&watch),
            model: model.clone(),
            recording,
            state: Arc::clone(&state),
        };
        let thread = std::thread::Builder::new()
            .name("betz-suggest".into())
            .spawn(move || offering.run(send, take))
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread: {e}")))?;
        Ok(Some(Self {
            mode: plan.recalibrate.mode,
            watch,
            offers,
            given,
            waiting: None,
            state,
            thread: Some(thread),
            trained,
            running: None,
            before: None,
        }))
    }

    /// Takes the newest offer; true if the session is to be given it without being asked.
    pub(crate) fn follow(&mut self) -> bool {
        while let Some(offer) = self.offers.try_pop() {
            self.waiting = offer;
        }
        self.mode == RecalibrateMode::Apply && self.waiting.is_some()
    }

    /// The model that waits to be accepted.
    pub(crate) fn take_waiting(&mut self) -> Option<Offer> {
        self.waiting.take()
    }

    /// True if a session whose newest models are these runs the model as it was trained, or its recalibration.
    pub(crate) fn knows(&self, mut models: impl Iterator<Item = u64>) -> bool {
        models.all(|model| model == self.trained || Some(model) == self.running)
    }

    /// Fingerprint of the recalibrated model that the session was given.
    pub(crate) fn running(&self) -> Option<u64> {
        self.running
    }

    /// True if the recalibrated model took the place of the model as it was trained.
    pub(crate) fn is_first(&self) -> bool {
        self.running.is_some() && self.before.is_none()
    }

    /// Takes note that the session was given an offer.
    pub(crate) fn note_given(&mut self, offer: Offer) {
        (self.before, self.running) = match offer.is_trained() {
            true => (None, None),
            false => (self.running, Some(offer.swap.fingerprint())),
        };
        // The thread takes one in every look, and the loop gives fewer.
        let _ = self.given.try_push(Some(offer));
    }

    /// Takes note that the session went back to the model before.
    pub(crate) fn note_rolled_back(&mut self) {
        let ran = self.running.is_some();
        self.running = self.before.take();
        if ran && self.running.is_none() {
            let _ = self.given.try_push(None);
        }
    }

    /// Counts so far.
    pub(crate) fn report(&self) -> RecalibrateReport {
        RecalibrateReport {
            suggested: self.waiting.is_some(),
            applied: self.running.is_some(),
            ..*lock(&self.state.report)
        }
    }

    /// The newest whole window, with the reasons in words.
    pub(crate) fn suggestion(&self) -> Option<Suggestion> {
        self.watch.suggestion()
    }

    /// The error that kept the newest suggestion from being stored.
    pub(crate) fn not_stored(&self) -> Option<Error> {
        lock(&self.state.failed).clone()
    }
}

impl Drop for Recalibrator {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by it.
            let _ = thread.join();
        }
    }
}

/// Opens the comparison of a plan.
///
/// # Errors
/// The errors of [`UnlikeWorker::open`], with file, line and key.
pub(crate) fn open_worker(
    plan: &Plan,
    model: &Decoder,
) -> Result<(LentTap<UnlikeTap>, UnlikeWorker)> {
    let config = UnlikeConfig {
        window_seconds: plan.recalibrate.window.seconds(),
        ..UnlikeConfig::default()
    };
    UnlikeWorker::open(model, &config).map_err(|e| {
        let key = match e.kind() {
            ErrorKind::InvalidArgument => "window",
            _ => "mode",
        };
        plan.refuse("recalibrate", key, e.message())
            .of_kind(e.kind())
    })
}

/// The thread that prepares and stores the models that windows suggest, until it is stopped.
struct OfferThread {
    watch: Arc<UnlikeWatch>,
    /// The model as it was trained.
    model: Decoder,
    recording: Option<PathBuf>,
    state: Arc<OfferState>,
}

impl OfferThread {
    fn run(self, mut send: HeapProd<Option<Offer>>, mut take: HeapCons<Option<Offer>>) {
        let mut report = RecalibrateReport::default();
        // Tick of the newest window that was looked at.
        let mut seen = None;
        while !self.state.stop.load(Ordering::Relaxed) {
            while let Some(given) = take.try_pop() {
                self.note(given);
            }
            if let Some(newest) = self.watch.suggestion() {
                report.roll_back = newest.roll_back.is_some();
                if seen != Some(newest.tick) {
                    seen = Some(newest.tick);
                    report.look_at(&newest);
                    let offered = self.offer(&newest);
                    report.unstored += u64::from(offered.is_err());
                    let (offer, failed) = offered.map_or_else(|e| (None, Some(e)), |o| (o, None));
                    // A loop that has taken none of the last four takes the next one.
                    let _ = send.try_push(offer);
                    *lock(&self.state.failed) = failed;
                }
            }
            let unlike = self.watch.newest().map(|newest| newest.latents);
            report.unlike_training = unlike.filter(|nats| nats.is_finite()).unwrap_or(0.0);
            report.lost_steps = self.watch.lost_steps();
            report.dead = !self.watch.is_running();
            *lock(&self.state.report) = report;
            std::thread::sleep(LOOK);
        }
    }

    /// The model that the newest window wants the session to have; `None` if it is to keep its own.
    fn offer(&self, newest: &Suggestion) -> Result<Option<Offer>> {
        let recording = self.recording.as_deref();
        if newest.roll_back.is_some() {
            return Ok(Some(Offer {
                swap: PreparedSwap::new(&self.model, recording)?,
                recalibrated: None,
            }));
        }
        let suggested = match newest.suggested {
            true => self.watch.suggested_model(),
            false => None,
        };
        // A window that came meanwhile is looked at next.
        let is_newest = (self.watch.suggestion()).is_some_and(|now| now.tick == newest.tick);
        let Some(model) = suggested.filter(|_| is_newest) else {
            return Ok(None);
        };
        Ok(Some(Offer {
            swap: PreparedSwap::new(&model, recording)?,
            recalibrated: Some((model, newest.found.gains.clone())),
        }))
    }

    /// Tells the comparison what the session was given.
    fn note(&self, given: Option<Offer>) {
        match given {
            Some(Offer {
                recalibrated: Some((model, gains)),
                swap,
            }) => self.watch.note_applied(model, gains, swap.fingerprint()),
            _ => self.watch.note_rolled_back(),
        }
    }
}
