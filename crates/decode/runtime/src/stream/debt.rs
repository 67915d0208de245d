//! The debt of a pause: silent steps of a head that are still to be made.
//!
//! A head is not linear, so a skip has to step it. A skip of many steps would hold up the loop. It therefore leaves a
//! debt: a second set of the head's states stays where the pause began, and this skip and every call after it make a few
//! of the missing steps. The latents of the steps meanwhile are kept, and the second states follow through them.
//! Once they have caught up, they are the states that a skip of all steps at once would have left, and replace the
//! head's own. Until then the head runs on states that are estimated: those that the old ones come to at the speed of the head's memory.
//!
//! Memory is limited to [`MOST_PAUSES`] pauses and a fixed number of steps. If a debt needs more, it is cancelled, and the
//! head stays on its estimated states.

use alloc::vec::Vec;

use super::PreparedModel;
use super::engine::advance_filters;
use super::skip::{MOST_HEAD_STEPS, step_apart};
use crate::psc::LowPassFilter;
use betz_base::aligned::AlignedBuffer;
use betz_base::error::Result;
use betz_base::memory::filled;

/// Pauses that one debt can have.
const MOST_PAUSES: usize = 4;

/// Instructions that a call may spend on a debt, per millisecond of a step; also the least of all steps.
const INSTRUCTIONS: f64 = 80_000.0;

/// Instructions of a missing step around those of the head and the filters, counted with a Kalman filter.
const AROUND: u64 = 700;

/// Name of a debt's memory in errors.
const SESSION: &str = "session";

/// One pause, and the number of steps after it.
#[derive(Debug, Clone)]
struct Pause {
    /// States of the filters, as far into the pause as the head's steps are.
    filters: AlignedBuffer<f64>,
    low_pass: Option<LowPassFilter>,
    /// Ticks of the pause that the filters have passed.
    passed: u64,
    /// Ticks that the head has only to count: it forgets everything before them.
    forgotten: u64,
    /// Silent steps of the head that are missing.
    steps: u64,
    /// Ticks after those, through which the head's states are estimated.
    rest: u64,
    /// Steps since the pause whose latents are kept.
    inputs: u64,
}

/// Silent steps that a head still has to make, and everything they need.
#[derive(Debug, Clone)]
pub(super) struct Debt {
    /// Missing steps that one skip makes.
    steps_per_skip: u64,
    /// Missing steps that one step of the session makes.
    steps_per_step: u64,
    /// Room for [`MOST_PAUSES`], of which the first `standing` are in use.
    pauses: Vec<Pause>,
    standing: usize,
    /// The head's states, as far as its steps are made.
    head: Vec<f64>,
    /// Latents of the steps since the pauses, (step, latent), as a ring.
    inputs: Vec<f64>,
    first_input: usize,
    kept_inputs: usize,
    /// Input of a silent step of the filters: zeros.
    silence: AlignedBuffer<f64>,
    latents: Vec<f64>,
    outputs: Vec<f64>,
}

impl Debt {
    /// Room for the debts of one of `engines` that share the time of a step; `None` if a call can make all steps of a
    /// skip at once.
    pub(super) fn new(
        model: &PreparedModel,
        outputs: usize,
        engines: usize,
    ) -> Result<Option<Self>> {
        let latents = model.latents();
        let filters: usize = (model.groups.iter())
            .map(|group| group.states(latents))
            .sum();
        let budget = INSTRUCTIONS * (model.step_seconds() * 1e3).max(1.0) / engines as f64;
        let low_pass = model.low_pass.as_ref().map_or(0, |l| l.state().len());
        // Some two instructions per state of a filter, five per state of a low-pass, and those around a head's step.
        let cost = model.head.instructions() + (2 * filters + 5 * low_pass) as u64 + AROUND;
        // A skip also takes the filters through the pause: some four instructions per state.
        let jump = 4.0 * filters as f64;
        let steps_per_skip = ((budget - jump).max(0.0) / cost as f64) as u64;
        // With one, the inputs would never be caught up.
        let steps_per_step = ((budget / cost as f64) as u64).max(2);
        let most = MOST_HEAD_STEPS.min(model.head.skip_steps());
        if model.head.states() == 0 || model.sampled_ticks() > 0 || most <= steps_per_skip {
            return Ok(None);
        }
        let pause = || -> Result<Pause> {
            Ok(Pause {
                filters: AlignedBuffer::filled(SESSION, 0.0, filters)?,
                low_pass: model.low_pass.clone(),
                passed: 0,
                forgotten: 0,
                steps: 0,
                rest: 0,
                inputs: 0,
            })
        };
        let kept = most.div_ceil(steps_per_step) as usize + 1;
        Ok(Some(Self {
            steps_per_skip,
            steps_per_step,
            pauses: (0..MOST_PAUSES).map(|_| pause()).collect::<Result<_>>()?,
            standing: 0,
            head: filled(SESSION, 0.0, model.head.states())?,
            inputs: filled(SESSION, 0.0, kept * latents)?,
            first_input: 0,
            kept_inputs: 0,
            silence: AlignedBuffer::filled(SESSION, 0.0, model.stride())?,
            latents: filled(SESSION, 0.0, latents)?,
            outputs: filled(SESSION, 0.0, outputs)?,
        }))
    }

    pub(super) fn stands(&self) -> bool {
        self.standing > 0
    }

    pub(super) fn steps_per_skip(&self) -> u64 {
        self.steps_per_skip
    }

    pub(super) fn steps_per_step(&self) -> u64 {
        self.steps_per_step
    }

    pub(super) fn cancel(&mut self) {
        self.standing = 0;
        self.kept_inputs = 0;
    }

    /// States of the head once the debt is paid.
    pub(super) fn head(&self) -> &[f64] {
        &self.head
    }

    /// Adds a pause of `ticks` ticks, of which the engine is at the beginning: its filters' states are `filters` and
    /// `low_pass`, its head's `head`.
    pub(super) fn add(
        &mut self,
        model: &PreparedModel,
        (filters, low_pass): (&[f64], Option<&LowPassFilter>),
        head: &[f64],
        together: &mut [f64],
        ticks: u64,
    ) {
        let extends = (self.standing > 0) && self.pauses[self.standing - 1].inputs == 0;
        let forgets = ticks >= model.head.skip_steps();
        if self.standing == MOST_PAUSES && !extends || forgets && self.stands() {
            self.cancel();
        }
        if self.standing == 0 || !extends {
            if self.standing == 0 {
                self.head.copy_from_slice(head);
            }
            let pause = &mut self.pauses[self.standing];
            self.standing += 1;
            pause.filters.copy_from_slice(filters);
            if let (Some(own), Some(low_pass)) = (&mut pause.low_pass, low_pass) {
                own.state_mut().copy_from_slice(low_pass.state());
            }
            (pause.passed, pause.forgotten) = (0, 0);
            (pause.steps, pause.rest, pause.inputs) = (0, 0, 0);
        }
        let pause = &mut self.pauses[self.standing - 1];
        let left = ticks.saturating_add(pause.steps).saturating_add(pause.rest);
        let remembered = left.min(model.head.skip_steps());
        // A head that remembers more than is stepped has heard most of it at the beginning, while filters decay.
        let forgotten = match remembered <= MOST_HEAD_STEPS {
            true => left - remembered,
            false => 0,
        };
        if forgotten > 0 {
            let own = (&mut *pause.filters, pause.low_pass.as_mut());
            model.skip_linear(own, together, forgotten);
            pause.passed = pause.passed.saturating_add(forgotten);
            pause.forgotten = pause.forgotten.saturating_add(forgotten);
        }
        pause.steps = (left - forgotten).min(MOST_HEAD_STEPS);
        pause.rest = left - forgotten - pause.steps;
    }

    /// Keeps the latents of a step. Without room for them the debt is cancelled.
    pub(super) fn keep_input(&mut self, latents: &[f64]) {
        let room = self.inputs.len() / latents.len();
        if self.standing == 0 || self.kept_inputs == room {
            self.cancel();
            return;
        }
        let at = (self.first_input + self.kept_inputs) % room * latents.len();
        self.inputs[at..at + latents.len()].copy_from_slice(latents);
        self.kept_inputs += 1;
        self.pauses[self.standing - 1].inputs += 1;
    }

    /// Makes the next missing steps, at most `steps`. Returns their number.
    pub(super) fn pay(&mut self, steps: u64, model: &PreparedModel, scratch: &mut [f32]) -> u64 {
        for made in 0..steps {
            if !self.make_step(model, scratch) {
                return made;
            }
        }
        self.end_pauses(model);
        steps
    }

    /// Makes one missing step; false if none is missing.
    fn make_step(&mut self, model: &PreparedModel, scratch: &mut [f32]) -> bool {
        self.end_pauses(model);
        let Some(pause) = self.pauses[..self.standing].first_mut() else {
            return false;
        };
        let latents = self.latents.as_mut_slice();
        if pause.steps > 0 {
            latents.fill(0.0);
            let (states, silence) = (&mut *pause.filters, &*self.silence);
            advance_filters(
                model.width,
                &model.groups,
                &model.decays,
                silence,
                states,
                latents,
            );
            if let Some(low_pass) = &mut pause.low_pass {
                low_pass.step(latents);
            }
            for (latent, intercept) in latents.iter_mut().zip(&model.intercept) {
                *latent += intercept;
            }
            pause.passed = pause.passed.saturating_add(1);
            pause.steps -= 1;
        } else {
            let at = self.first_input * latents.len();
            latents.copy_from_slice(&self.inputs[at..at + latents.len()]);
            self.first_input = (self.first_input + 1) % (self.inputs.len() / latents.len());
            self.kept_inputs -= 1;
            pause.inputs -= 1;
        }
        step_apart(
            &model.head,
            latents,
            &mut self.head,
            scratch,
            &mut self.outputs,
        );
        true
    }

    /// Passes everything at the front of the debt that takes no step.
    fn end_pauses(&mut self, model: &PreparedModel) {
        let (kind, silence) = (&model.head, &model.silence);
        while let Some(pause) = self.pauses[..self.standing].first_mut() {
            kind.pass(core::mem::take(&mut pause.forgotten), &mut self.head);
            let arrived = pause.steps > 0 && silence.has_arrived(pause.passed, &self.head);
            if pause.steps > 0 && !arrived {
                return;
            }
            if arrived {
                silence.arrive(&mut self.head);
            } else if pause.rest > 0 {
                kind.approach(pause.rest, &mut self.head, &silence.states);
            }
            let rest = core::mem::take(&mut pause.steps).saturating_add(pause.rest);
            kind.pass(rest, &mut self.head);
            pause.rest = 0;
            if pause.inputs > 0 {
                return;
            }
            self.pauses[..self.standing].rotate_left(1);
            self.standing -= 1;
        }
    }

    /// Most words of [`state`](Self::state).
    pub(super) fn most_words(&self) -> usize {
        let pause = PAUSE_WORDS + self.pauses.first().map_or(0, Pause::numbers);
        1 + MOST_PAUSES * pause + self.head.len() + self.inputs.len()
    }

    /// The debt as words: the number of pauses, and if it is not 0 the pauses, the head's states and the inputs.
    pub(super) fn state(&self) -> impl Iterator<Item = u64> {
        let pauses = &self.pauses[..self.standing];
        let head = if pauses.is_empty() {
            &[][..]
        } else {
            &self.head
        };
        let row = self.latents.len();
        let room = self.inputs.len() / row;
        let inputs = (0..self.kept_inputs).flat_map(move |i| {
            let at = (self.first_input + i) % room * row;
            &self.inputs[at..at + row]
        });
        core::iter::once(self.standing as u64)
            .chain(pauses.iter().flat_map(Pause::words))
            .chain(head.iter().chain(inputs).map(|number| number.to_bits()))
    }

    /// Number of words of a [`state`](Self::state) that begins `words`; `None` if no debt of this model has such words, or
    /// a number in it is above `most`.
    pub(super) fn words_of(&self, words: &[[u8; 8]], most: f64) -> Option<usize> {
        let at = |i: usize| words.get(i).map(|word| u64::from_le_bytes(*word));
        let standing = usize::try_from(at(0)?).ok().filter(|n| *n <= MOST_PAUSES)?;
        if standing == 0 {
            return Some(1);
        }
        let numbers = self.pauses.first().map_or(0, Pause::numbers);
        let mut kept = 0_u64;
        let sane = |words: &[[u8; 8]]| words.iter().all(|w| f64::from_le_bytes(*w).abs() <= most);
        for pause in 0..standing {
            let first = 1 + pause * (PAUSE_WORDS + numbers);
            let [_, _, steps, _, inputs] = core::array::from_fn(|i| at(first + i));
            (steps? <= MOST_HEAD_STEPS).then_some(())?;
            kept = kept.checked_add(inputs?)?;
            sane(words.get(first + PAUSE_WORDS..first + PAUSE_WORDS + numbers)?).then_some(())?;
        }
        let kept = usize::try_from(kept).ok()?;
        let first = 1 + standing * (PAUSE_WORDS + numbers);
        let row = self.latents.len();
        if kept > self.inputs.len() / row {
            return None;
        }
        let end = first + self.head.len() + kept * row;
        sane(words.get(first..end)?).then_some(end)
    }

    /// Restores a [`state`](Self::state), which [`words_of`](Self::words_of) has checked.
    pub(super) fn set_state(&mut self, words: &[[u8; 8]]) {
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        self.cancel();
        let standing = words.next().unwrap_or(0) as usize;
        if standing == 0 {
            return;
        }
        self.first_input = 0;
        for pause in self.pauses.iter_mut().take(standing) {
            pause.set(&mut words);
            self.kept_inputs += pause.inputs as usize;
        }
        self.standing = standing;
        for (to, word) in self.head.iter_mut().chain(&mut self.inputs).zip(words) {
            *to = f64::from_bits(word);
        }
    }
}

/// Words of a pause before its filters' states.
const PAUSE_WORDS: usize = 5;

impl Pause {
    fn numbers(&self) -> usize {
        self.filters.len() + self.low_pass.as_ref().map_or(0, |l| l.state().len())
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        let behind = self.low_pass.as_ref().map_or(&[][..], LowPassFilter::state);
        let counts = [
            self.passed,
            self.forgotten,
            self.steps,
            self.rest,
            self.inputs,
        ];
        let numbers = self.filters.iter().chain(behind);
        (counts.into_iter()).chain(numbers.map(|number| number.to_bits()))
    }

    fn set(&mut self, words: &mut impl Iterator<Item = u64>) {
        for count in [
            &mut self.passed,
            &mut self.forgotten,
            &mut self.steps,
            &mut self.rest,
            &mut self.inputs,
        ] {
            *count = words.next().unwrap_or(0);
        }
        let behind = (self.low_pass.as_mut()).map_or(&mut [][..], LowPassFilter::state_mut);
        for (to, word) in self.filters.iter_mut().chain(behind).zip(words) {
            *to = f64::from_bits(word);
        }
    }
}
