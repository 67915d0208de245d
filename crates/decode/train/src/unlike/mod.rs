//! Unlike training: how far the latents and the rates of a session are from those in training, without labels.
//!
//! ```text
//! loop thread                            worker's thread (or whoever calls UnlikeWorker::work)
//! Session ──UnlikeTap──ring──► stage 1 again ─► moving window ─► KL of latents, changes of rates
//! ```
//!
//! The divergence of Kullback and Leibler is that of two normal distributions: of the window from training, whose
//! moments come from the sums that the model retains. It says that a window is *unlike training*, and does not say that
//! quality is lost. What a user does moves it as well as drift does, and often more: compare like tasks, and rest only
//! with rest.
//!
//! A worker [`with_suggestions`](UnlikeWorker::with_suggestions) also gives each whole window to [`recalibrate`]. The result is a [`Suggestion`], which changes nothing until
//! [`UnlikeWorker::apply`] or [`UnlikeWatch::apply`] is called.
//!
//! ```
//! use betz_runtime::psc::{Filter, FilterBank};
//! use betz_runtime::stream::{Session, SessionConfig};
//! use betz_train::unlike::{UnlikeConfig, UnlikeWorker};
//! use betz_train::{TrainOptions, train};
//!
//! # fn main() -> betz_base::Result<()> {
//! let data = betz_simulate::poisson(10, 20.0, 2_000, 0.01, 1)?;
//! let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 1 }])?;
//! let retain = Some(1 << 20);
//! let model = train(&data, &TrainOptions { retain, ..TrainOptions::new(bank) }, &())?;
//!
//! let mut session = Session::open(&model, SessionConfig::default())?;
//! let config = UnlikeConfig { window_seconds: 5.0, ..UnlikeConfig::default() };
//! let (tap, mut worker) = UnlikeWorker::open(&model, &config)?;
//! session.attach(Box::new(tap), 0)?;
//! let mut out = vec![0.0; session.outputs()];
//! for step in 0..600 {
//!     let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
//!     session.step_spikes(spikes, &mut out)?;
//! }
//! // On another thread: `UnlikeWatch::start(worker)`; here at once.
//! worker.work()?;
//! let newest = worker.newest().unwrap();
//! assert!(newest.latents.is_finite() && newest.seconds >= 5.0);
//! # Ok(())
//! # }
//! ```

mod recalibrate;
mod recent;
mod reference;
mod slopes;
mod suggestion;
mod thread;
mod window;

pub use recalibrate::{LEAST_SECONDS, Recalibration, recalibrate};
pub use suggestion::{ModelChange, Suggestion};
pub use thread::UnlikeWatch;

use crate::retained::StoredStatistics;
use betz_base::error::{Error, Result};
use betz_base::worker::Pool;
use betz_runtime::model::{Decoder, DecoderParts, Head};
use betz_runtime::stream::{
    LentTap, Session, SessionConfig, Step, StepReader, StepRecord, StepWriter, Swapper, Tap,
    TapLease, lend, step_ring,
};
use reference::Reference;
use std::time::Duration;
use suggestion::Suggester;
use window::Window;

/// Steps of a window are fewer than these.
const MOST_WINDOW_STEPS: f64 = 1e12;
/// Words of the ring for each step or spike that it is asked to hold.
const WORDS: usize = 2;
/// A pause of at most so many seconds is skipped; after a longer one filters start from rest.
const LONGEST_PAUSE_SECONDS: f64 = 30.0;

/// Configuration of the comparison with training.
#[derive(Debug, Clone, PartialEq)]
pub struct UnlikeConfig {
    /// Length of the moving window, in seconds. A new value comes every twentieth of it.
    pub window_seconds: f64,
    /// Steps and spikes that the ring between the loop and the worker holds at least (8 bytes each; a step counts twice).
    pub capacity: usize,
    /// Time that the worker's thread sleeps when it is idle.
    pub idle: Duration,
}

impl Default for UnlikeConfig {
    /// A window of 100 s, 2¹⁸ steps and spikes (2 MB), 5 ms of sleep.
    fn default() -> Self {
        Self {
            window_seconds: 100.0,
            capacity: 1 << 18,
            idle: Duration::from_millis(5),
        }
    }
}

/// Distance of a window of steps from training.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Unlikeness {
    /// Tick of the window's last step, as the tap was given it.
    pub tick: i64,
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// KL divergence of the latents of stage 1 from those in training, in nats. A linear decoder's latents are its
    /// outputs.
    pub latents: f64,
    /// Mean |ln(rate / rate in training)| over the channels in use; NaN if the model does not store its mean counts.
    pub rates: f64,
}

/// Hands a session's steps to the comparison. Wait-free: a step is a bounded number of instructions, without allocation,
/// lock or system call; a step that finds the ring full is left out and counted.
pub struct UnlikeTap {
    ring: StepWriter,
}

impl Tap for UnlikeTap {
    fn take(&mut self, step: &Step<'_>) {
        self.ring.push(step);
    }

    fn rest(&mut self) {
        self.ring.rest();
    }

    fn name(&self) -> &'static str {
        "unlike"
    }
}

/// The worker of the comparison, on whichever thread calls it.
pub struct UnlikeWorker {
    steps: StepReader,
    record: StepRecord,
    latents: LatentSession,
    reference: Reference,
    window: Window,
    suggester: Suggester,
    newest: Option<Unlikeness>,
    idle: Duration,
    window_seconds: f64,
    /// Threads for what a full window asks for.
    pool: Pool,
    /// The session leaves the tap out from when the worker is dropped.
    _tap: TapLease<UnlikeTap>,
}

impl UnlikeWorker {
    /// Opens a comparison for sessions of `decoder`, and its tap, which hears nothing from when the worker is dropped. Its
    /// work is done in a pool of its own, whose thread inherits the caller's policy, priority and processors, and ends with
    /// the worker.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) if the model does not retain its sums;
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a window that is not longer than 20
    /// steps.
    pub fn open(decoder: &Decoder, config: &UnlikeConfig) -> Result<(LentTap<UnlikeTap>, Self)> {
        let window_steps = config.window_seconds / decoder.step_seconds();
        if !(window_steps > window::PARTS as f64 && window_steps < MOST_WINDOW_STEPS) {
            return Err(Error::argument(format!(
                "unlike training: expected a window of more than {} steps ({} s) and fewer than {MOST_WINDOW_STEPS:e}, got {} s",
                window::PARTS,
                window::PARTS as f64 * decoder.step_seconds(),
                config.window_seconds
            )));
        }
        let pool = Pool::start("unlike", 1)?;
        let reference = pool.run(|| Reference::new(decoder, &StoredStatistics::read(decoder)?))?;
        let (writer, steps) = step_ring("unlike's ring", config.capacity, WORDS, None)?;
        let (tap, lease) = lend(UnlikeTap { ring: writer });
        let worker = Self {
            steps,
            record: StepRecord::default(),
            latents: LatentSession::open(decoder)?,
            window: Window::new(window_steps as u64, decoder.latents(), decoder.channels()),
            reference,
            suggester: Suggester::new(decoder, window_steps.ceil() as u64)?,
            newest: None,
            idle: config.idle,
            window_seconds: config.window_seconds,
            pool,
            _tap: lease,
        };
        Ok((tap, worker))
    }

    /// Also suggests a recalibration of each whole window, solved in a pool of one thread per processor that the caller may
    /// use.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for windows shorter than
    /// [`LEAST_SECONDS`], which never suggest anything; [`ErrorKind::Io`](betz_base::ErrorKind::Io) if the system cannot
    /// start a thread.
    pub fn with_suggestions(mut self) -> Result<Self> {
        if self.window_seconds < LEAST_SECONDS {
            return Err(Error::argument(format!(
                "recalibration: expected a window of at least {LEAST_SECONDS} s, got {} s",
                self.window_seconds
            )));
        }
        self.pool = Pool::start("unlike", 0)?;
        self.suggester.begin();
        Ok(self)
    }

    /// Takes all steps that wait, and returns their number.
    ///
    /// # Errors
    /// The errors of steps, which the session's own steps have had before.
    pub fn work(&mut self) -> Result<usize> {
        let mut taken = 0;
        while self.steps.take(&mut self.record) {
            taken += 1;
            let record = &self.record;
            let pause = self.latents.pause(record);
            if self.suggester.step(record, pause) {
                let suggester = &mut self.suggester;
                self.pool.run(|| suggester.look(record.tick));
            }
            let latents = self.latents.step(record, pause)?;
            if self.window.push(latents, &record.fired, &self.reference) {
                let (window, reference) = (&mut self.window, &self.reference);
                let compare = || window.compare(reference, record.tick);
                self.newest = self.pool.run(compare);
            }
        }
        Ok(taken)
    }

    /// The newest comparison; `None` before the first window is full.
    pub fn newest(&self) -> Option<Unlikeness> {
        self.newest
    }

    /// The recalibration that the newest whole window suggests, or the reason why it suggests none; `None` before the
    /// first window is full, and of a worker without suggestions. A new one comes with every whole window. It is solved from the model as it was trained.
    pub fn suggestion(&self) -> Option<&Suggestion> {
        self.suggester.newest()
    }

    /// The model of the suggestion, which has not been applied.
    pub fn suggested_model(&self) -> Option<&Decoder> {
        self.suggester.model()
    }

    /// The recalibrated model that was applied, or the model as it was trained.
    pub fn running_model(&self) -> &Decoder {
        self.suggester.running()
    }

    /// Gives the session of `swapper` the suggested model, warmed up with the newest spikes. If a recalibrated model
    /// runs and the newest window does not suggest it any more, the session goes back to the model as it was trained.
    /// A loop that calls this now and then adapts; one that never does keeps its model, and not one bit changes.
    ///
    /// # Errors
    /// The errors of [`Swapper::swap_with`] and [`Swapper::roll_back`]; the suggestion then stays.
    pub fn apply(&mut self, swapper: &mut Swapper) -> Result<ModelChange> {
        self.suggester.apply(swapper)
    }

    /// Returns the session of `swapper` to the model as it was trained: exactly and at the next step if it stands by,
    /// warmed up with the newest spikes if it was released. False if no recalibrated model runs.
    ///
    /// # Errors
    /// The errors of [`Swapper::swap_with`] and [`Swapper::roll_back`]; the model then stays.
    pub fn roll_back(&mut self, swapper: &mut Swapper) -> Result<bool> {
        self.suggester.roll_back(swapper)
    }

    /// Takes note that the session was given `decoder`, a recalibration of these gains with this fingerprint, by whoever holds
    /// it: in place of [`apply`](Self::apply), where a swap has to be recorded.
    pub fn note_applied(&mut self, decoder: Decoder, gains: Vec<f64>, fingerprint: u64) {
        self.suggester.note_applied(decoder, gains, fingerprint);
    }

    /// Takes note that the session runs the model as it was trained again: in place of [`roll_back`](Self::roll_back).
    pub fn note_rolled_back(&mut self) {
        self.suggester.note_rolled_back();
    }

    /// Number of steps that were lost because the ring was full.
    pub fn lost_steps(&self) -> u64 {
        self.steps.backlog().lost()
    }
}

/// Stage 1 of a decoder in a session of its own.
struct LatentSession {
    session: Session,
    /// One value per channel, 0 between steps.
    counts: Vec<f32>,
    latents: Vec<f32>,
    last: Option<i64>,
    longest_pause: u64,
}

impl LatentSession {
    fn open(decoder: &Decoder) -> Result<Self> {
        let stage = stage_1(decoder)?;
        let config = SessionConfig {
            statistics: false,
            ..SessionConfig::default()
        };
        Ok(Self {
            session: Session::open(&stage, config)?,
            counts: vec![0.0; decoder.channels()],
            latents: vec![0.0; decoder.latents()],
            last: None,
            longest_pause: (LONGEST_PAUSE_SECONDS / decoder.step_seconds()) as u64,
        })
    }

    /// Number of silent steps between the last one and this one; `None` if filters start from rest.
    fn pause(&self, record: &StepRecord) -> Option<u64> {
        let pause = record.tick.saturating_sub(self.last?);
        let pause = u64::try_from(pause.saturating_sub(1)).unwrap_or(u64::MAX);
        let rest = record.after_rest || record.after_gap || pause > self.longest_pause;
        (!rest).then_some(pause)
    }

    /// The latents of a step after a [pause](Self::pause).
    fn step(&mut self, record: &StepRecord, pause: Option<u64>) -> Result<&[f32]> {
        match pause {
            None => self.session.reset(),
            Some(0) => {}
            Some(steps) => self.session.skip(steps),
        }
        self.last = Some(record.tick);
        for (channel, count) in &record.fired {
            if let Some(to) = self.counts.get_mut(*channel as usize) {
                *to += count;
            }
        }
        let stepped = self.session.step_values(&self.counts, &mut self.latents);
        for (channel, _) in &record.fired {
            if let Some(to) = self.counts.get_mut(*channel as usize) {
                *to = 0.0;
            }
        }
        stepped.map(|()| &self.latents[..])
    }
}

/// A linear decoder whose outputs are the latents of `decoder`.
fn stage_1(decoder: &Decoder) -> Result<Decoder> {
    let parts = decoder.parts().clone();
    let outputs = (0..decoder.latents()).map(|i| format!("latent {i}").as_str().into());
    Decoder::new(DecoderParts {
        head: Head::Linear,
        outputs: outputs.collect(),
        limits: betz_runtime::model::Limits {
            ranges: Vec::new(),
            ..parts.limits
        },
        attachments: Vec::new(),
        ..parts
    })
}

#[cfg(test)]
mod tests;
