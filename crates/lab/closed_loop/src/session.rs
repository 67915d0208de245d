use std::collections::VecDeque;

use betz_base::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::Decoder;
use crate::fault::{Fault, Troubles};
use crate::score::{Scores, Trial};
use crate::task::Task;
use crate::units::{Units, UnitsConfig};
use crate::user::{Aim, Mind, User};
use betz_spiking::random::{Normal, Purpose, Sequence};

/// A loop without its decoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setup {
    /// The user.
    pub user: User,
    /// The units, where the loop makes them.
    pub units: UnitsConfig,
    /// The task.
    pub task: Task,
    /// Length of a bin in seconds: whole steps of the units.
    pub bin_s: f64,
    /// The cursor stays within ± this, in cm.
    pub workspace_cm: f64,
    /// Faults and their times.
    pub faults: Vec<Fault>,
    /// Targets, noise and units follow from it.
    pub seed: u64,
}

impl Default for Setup {
    /// Bins of 25 ms, a workspace of ± 20 cm, no faults.
    fn default() -> Self {
        Self {
            user: User::default(),
            units: UnitsConfig::default(),
            task: Task::default(),
            bin_s: 0.025,
            workspace_cm: 20.0,
            faults: Vec::new(),
            seed: 1,
        }
    }
}

impl Setup {
    pub(crate) fn check(&self, units: &Units) -> Result<()> {
        if !(self.bin_s.is_finite()
            && self.bin_s > 0.0
            && self.workspace_cm.is_finite()
            && self.workspace_cm > 0.0)
        {
            return Err(Error::argument(format!(
                "loop: expected a bin above 0 s and a workspace above 0 cm, got {} and {}",
                self.bin_s, self.workspace_cm
            )));
        }
        self.steps_per_bin(units)?;
        self.user.check(self.bin_s)?;
        self.task.check(self.workspace_cm)?;
        self.faults.iter().try_for_each(|f| f.check(units))
    }

    pub(crate) fn steps_per_bin(&self, units: &Units) -> Result<u64> {
        let steps = self.bin_s * 1e3 / units.step_ms();
        if !(steps.round() >= 1.0 && (steps - steps.round()).abs() < 1e-6 && steps < 1e6) {
            return Err(Error::argument(format!(
                "loop: expected a bin of whole steps of {} ms, got {} s",
                units.step_ms(),
                self.bin_s
            )));
        }
        Ok(steps.round() as u64)
    }
}

/// One bin of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Bin {
    /// Position of the cursor before the bin.
    pub cursor: [f64; 2],
    /// The decoder's velocity.
    pub velocity: [f64; 2],
    /// Position of the target.
    pub target: [f64; 2],
    /// Spikes of each channel.
    pub counts: Vec<u32>,
}

/// The record of a decoder's trials.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Session {
    /// Trial by trial.
    pub trials: Vec<Trial>,
    /// Bin by bin.
    pub log: Vec<Bin>,
    /// Bins in which the decoder answered NaN or infinity: the cursor stayed where it was.
    pub non_finite: u64,
    /// Bins that were lost by a fault.
    pub lost_bins: u64,
    /// Bins that came late by a fault.
    pub late_bins: u64,
    /// Length of a bin in seconds.
    pub bin_s: f64,
    /// Radius of a target in cm.
    pub radius: f64,
}

impl Session {
    /// Scores of all trials; `seed` draws the bootstrap.
    pub fn scores(&self, seed: u64) -> Scores {
        Scores::of(&self.trials, seed)
    }
}

/// A loop, ready for decoders.
#[derive(Debug)]
pub struct Loop {
    setup: Setup,
    units: Units,
    steps: u64,
    normal: Normal,
}

/// State that lasts from trial to trial.
struct State {
    cursor: [f64; 2],
    mind: Mind,
    chance: Sequence,
    troubles: Troubles,
    /// Faults to come, the next one first.
    faults: VecDeque<Fault>,
    bins: u64,
    /// Counts that have not come yet.
    waiting: Option<Vec<u32>>,
    velocity: [f64; 2],
}

impl Loop {
    /// Checks the setup.
    ///
    /// # Errors
    /// `InvalidArgument` for a field out of range.
    pub fn new(setup: &Setup, units: Units) -> Result<Self> {
        setup.check(&units)?;
        Ok(Self {
            steps: setup.steps_per_bin(&units)?,
            setup: setup.clone(),
            units,
            normal: Normal::new(),
        })
    }

    /// Runs a session of `trials` trials. Units stay as they are left, faults included: build the
    /// loop anew to compare decoders under the same chances.
    ///
    /// # Errors
    /// `InvalidArgument` for no trials.
    pub fn run(&mut self, decoder: &mut dyn Decoder, trials: usize) -> Result<Session> {
        if trials == 0 {
            return Err(Error::argument("loop: expected at least one trial, got 0"));
        }
        let mut faults = self.setup.faults.clone();
        faults.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let mut state = State {
            cursor: [0.0; 2],
            mind: Mind::new(&self.setup.user, self.setup.bin_s),
            chance: Sequence::new(self.setup.seed, Purpose::Loop, 4),
            troubles: Troubles::default(),
            faults: faults.into(),
            bins: 0,
            waiting: None,
            velocity: [0.0; 2],
        };
        let mut session = Session {
            trials: Vec::new(),
            log: Vec::new(),
            non_finite: 0,
            lost_bins: 0,
            late_bins: 0,
            bin_s: self.setup.bin_s,
            radius: self.setup.task.radius(),
        };
        // Targets have chances of their own: the same for every decoder.
        let mut targets = Sequence::new(self.setup.seed, Purpose::Loop, 5);
        decoder.reset();
        for k in 0..trials {
            let target = self.setup.task.target(k, &mut targets);
            let trial = self.trial(target, decoder, &mut state, &mut session)?;
            decoder.trial_ended(trial.success);
            session.trials.push(trial);
        }
        Ok(session)
    }

    fn trial(
        &mut self,
        target: [f64; 2],
        decoder: &mut dyn Decoder,
        state: &mut State,
        session: &mut Session,
    ) -> Result<Trial> {
        let bin_s = self.setup.bin_s;
        let task = self.setup.task;
        let bins = |s: f64| (s / bin_s - 1e-9).ceil().max(1.0) as u64;
        let (limit, hold) = (bins(task.limit_s()), bins(task.hold_s()));
        let away = |cursor: [f64; 2]| (target[0] - cursor[0]).hypot(target[1] - cursor[1]);
        let straight = (away(state.cursor) - task.radius()).max(0.0);
        let difficulty = (1.0 + away(state.cursor) / (2.0 * task.radius())).log2();
        let (mut way, mut angles, mut moved) = (0.0, 0.0, 0u64);
        // Bins at whose end the target was first touched, and last entered.
        let (mut first, mut entered) = (None, None);
        let mut trial = Trial {
            target,
            success: false,
            time_to_target_s: limit as f64 * bin_s,
            dial_in_s: None,
            path_efficiency: 0.0,
            bits_per_s: 0.0,
            angular_error_deg: 0.0,
        };
        for bin in 1..=limit {
            let before = state.cursor;
            self.bin(target, decoder, state, session)?;
            let step = [0, 1].map(|i| state.cursor[i] - before[i]);
            let length = step[0].hypot(step[1]);
            if away(before) >= task.radius() && length > 0.0 {
                let to = [0, 1].map(|i| target[i] - before[i]);
                let cosine = (step[0] * to[0] + step[1] * to[1]) / (length * away(before));
                angles += cosine.clamp(-1.0, 1.0).acos().to_degrees();
                moved += 1;
            }
            if first.is_none() {
                way += length;
            }
            if away(state.cursor) >= task.radius() {
                entered = None;
                continue;
            }
            let touched = *first.get_or_insert(bin);
            let begun = *entered.get_or_insert(bin);
            if bin - begun >= hold {
                trial.success = true;
                trial.time_to_target_s = begun as f64 * bin_s;
                trial.dial_in_s = Some((begun - touched) as f64 * bin_s);
                trial.bits_per_s = difficulty / trial.time_to_target_s;
                break;
            }
        }
        if first.is_some() {
            trial.path_efficiency = if way > 0.0 {
                (straight / way).min(1.0)
            } else {
                1.0
            };
        }
        trial.angular_error_deg = angles / (moved as f64).max(1.0);
        Ok(trial)
    }

    fn bin(
        &mut self,
        target: [f64; 2],
        decoder: &mut dyn Decoder,
        state: &mut State,
        session: &mut Session,
    ) -> Result<()> {
        let now = state.bins as f64 * self.setup.bin_s;
        while let Some(fault) = state.faults.front().filter(|f| f.at_s <= now) {
            let (kind, chance) = (fault.kind, &mut state.chance);
            state.troubles.strike(kind, &mut self.units, chance);
            state.faults.pop_front();
        }
        let cursor = state.cursor;
        let intent = state.mind.intend(
            &self.setup.user,
            target,
            cursor,
            &mut state.chance,
            &self.normal,
        );
        let mut counts = vec![0; self.units.len()];
        self.units
            .fire(intent, self.steps, &mut state.chance, &mut counts)?;
        let lost = state.troubles.lost > 0.0 && state.chance.unit() < state.troubles.lost;
        let late = state.troubles.late > 0.0 && state.chance.unit() < state.troubles.late;
        let overdue = state.waiting.take();
        if let Some(overdue) = &overdue {
            state.velocity = decoder.step(overdue, cursor);
        }
        if lost {
            session.lost_bins += 1;
            state.velocity = decoder.missed(counts.len(), cursor);
        } else if late && overdue.is_none() {
            session.late_bins += 1;
            state.waiting = Some(counts.clone());
        } else {
            state.velocity = decoder.step(&counts, cursor);
        }
        if !state.velocity.iter().all(|v| v.is_finite()) {
            session.non_finite += 1;
            state.velocity = [0.0; 2];
        }
        // A bin that comes late is labelled when it is decoded.
        if state.waiting.is_none() {
            decoder.label(&Aim {
                cursor,
                target,
                radius: self.setup.task.radius(),
                velocity: state.velocity,
            });
        }
        let edge = self.setup.workspace_cm;
        state.cursor =
            [0, 1].map(|i| (cursor[i] + state.velocity[i] * self.setup.bin_s).clamp(-edge, edge));
        session.log.push(Bin {
            cursor,
            velocity: state.velocity,
            target,
            counts,
        });
        state.bins += 1;
        Ok(())
    }
}
