//! A trained model in the closed loop: this runtime's session, and, where it is to learn, its trainer.

use std::path::Path;

use betz::model::Decoder;
use betz::recording::OutputInfo;
use betz::spiking::closed_loop::{self, Aim};
use betz::stream::{Session, SessionConfig, Swapper};
use betz::train::online::{Labels, TrainerConfig, Worker, follow_verdict};
use betz::{Error, Result};

use super::lab_args::Intention;

/// Numbers of a model's two outputs of velocity, and their factor to cm/s.
#[derive(Clone, Copy)]
pub(super) struct Velocity {
    outputs: [usize; 2],
    scale: f32,
}

impl Velocity {
    /// Of a model for `channels` channels and bins of `bin_s` seconds.
    ///
    /// # Errors
    /// `Mismatch` for a model that is not made for them, or without a velocity.
    pub(super) fn of(model: &Decoder, path: &Path, channels: usize, bin_s: f64) -> Result<Self> {
        let refuse = |what: String| Err(Error::mismatch(format!("{}: {what}", path.display())));
        if model.channels() != channels {
            return refuse(format!(
                "expected a model of {channels} channels, as the loop has units, got {}",
                model.channels()
            ));
        }
        if (model.step_seconds() - bin_s).abs() > 1e-9 {
            return refuse(format!(
                "expected steps of {bin_s} s, the loop's bins, got {} s",
                model.step_seconds()
            ));
        }
        let find = |name: &str| model.outputs().iter().position(|o| o.name == name);
        let (Some(x), Some(y)) = (find("vx"), find("vy")) else {
            let names: Vec<&str> = model.outputs().iter().map(|o| o.name.as_str()).collect();
            return refuse(format!("expected outputs vx and vy, got {names:?}"));
        };
        let unit = |i: usize| {
            let OutputInfo { unit, .. } = &model.outputs()[i];
            match unit.as_str() {
                "cm/s" | "" => Some(1.0),
                "mm/s" => Some(0.1),
                "m/s" => Some(100.0),
                _ => None,
            }
        };
        match (unit(x), unit(y)) {
            (Some(a), Some(b)) if a == b => Ok(Self {
                outputs: [x, y],
                scale: a,
            }),
            _ => refuse("expected vx and vy in m/s, cm/s or mm/s".to_owned()),
        }
    }
}

/// A session under the loop's decoder trait.
pub(super) struct LearningDecoder {
    session: Session,
    velocity: Velocity,
    counts: Vec<u16>,
    out: Vec<f32>,
    /// True if counts arrived in the last step.
    came: bool,
    learning: Option<Learning>,
    /// The first thing that failed; the cursor stays from then on.
    failure: Option<Error>,
}

struct Learning {
    intention: Intention,
    labels: Labels,
    worker: Worker,
    swapper: Swapper,
}

impl LearningDecoder {
    /// # Errors
    /// As [`Session::open`] and, where it is to learn, [`Worker::open`].
    pub(super) fn open(
        model: &Decoder,
        velocity: Velocity,
        adapts: Option<Intention>,
    ) -> Result<Self> {
        let mut session = Session::open(model, SessionConfig::default())?;
        let learning = if let Some(intention) = adapts {
            if model.outputs().len() != 2 {
                return Err(Error::mismatch(format!(
                    "--adapt: expected a model whose outputs are vx and vy, which intentions are labels of, got {} outputs",
                    model.outputs().len()
                )));
            }
            let (tap, labels, worker) = Worker::open(model, TrainerConfig::default())?;
            session.attach(Box::new(tap), 0)?;
            Some(Learning {
                intention,
                labels,
                worker,
                swapper: session.swapper()?,
            })
        } else {
            None
        };
        Ok(Self {
            counts: vec![0; model.channels()],
            out: vec![0.0; model.outputs().len()],
            session,
            velocity,
            came: false,
            learning,
            failure: None,
        })
    }

    /// Models that took over while it learned.
    pub(super) fn accepted(&self) -> u64 {
        let state = self.learning.as_ref().map(|l| l.worker.state());
        state.map_or(0, |state| state.accepted)
    }

    /// The first failure there was.
    pub(super) fn finish(self) -> Result<()> {
        self.failure.map_or(Ok(()), Err)
    }

    fn answer(&mut self, done: Result<()>) -> [f64; 2] {
        if let Err(e) = done {
            self.failure.get_or_insert(e);
        }
        if self.failure.is_some() {
            return [0.0; 2];
        }
        (self.velocity.outputs).map(|i| f64::from(self.out[i] * self.velocity.scale))
    }
}

impl closed_loop::Decoder for LearningDecoder {
    fn reset(&mut self) {
        self.session.reset();
    }

    fn step(&mut self, counts: &[u32], _: [f64; 2]) -> [f64; 2] {
        for (own, count) in self.counts.iter_mut().zip(counts) {
            *own = u16::try_from(*count).unwrap_or(u16::MAX);
        }
        let done = self.session.step_counts(&self.counts, &mut self.out);
        self.came = true;
        self.answer(done)
    }

    fn missed(&mut self, _: usize, _: [f64; 2]) -> [f64; 2] {
        let done = self.session.step_stale(&mut self.out);
        self.came = false;
        self.answer(done)
    }

    fn label(&mut self, aim: &Aim) {
        let Some(learning) = self.learning.as_mut().filter(|_| self.came) else {
            return;
        };
        let intended = learning.intention.of(aim);
        let mut target = [0.0; 2];
        for (at, value) in self.velocity.outputs.iter().zip(intended) {
            target[*at] = value as f32 / self.velocity.scale;
        }
        if let Err(e) = learning.labels.label(&target) {
            self.failure.get_or_insert(e);
        }
    }

    fn trial_ended(&mut self, _: bool) {
        let Some(learning) = &mut self.learning else {
            return;
        };
        learning.labels.end_trial(true);
        if let Err(e) = learning.work(&mut self.session) {
            self.failure.get_or_insert(e);
        }
    }
}

/// Assumed wish of a user, in 1/s and cm/s: a reach of 8 cm in 0.7 s begins and ends so. Not the simulated user's
/// own numbers, which nobody knows of a person.
const GAIN_PER_S: f64 = 3.0;
const MAX_SPEED_CM_S: f64 = 20.0;

impl Intention {
    fn of(self, aim: &Aim) -> [f64; 2] {
        match self {
            Self::Straight => aim.straight(GAIN_PER_S, MAX_SPEED_CM_S),
            Self::Turned => aim.turned(),
        }
    }
}

impl Learning {
    /// Learns from the trial that has ended, and does with the session what is decided.
    fn work(&mut self, session: &mut Session) -> Result<()> {
        while let Some(verdict) = self.worker.work()? {
            follow_verdict(&verdict, &self.worker, &mut self.swapper, session)?;
        }
        Ok(())
    }
}
