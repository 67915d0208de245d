//! Events of classes: onsets and ends, with hysteresis, dwell and a refractory time.

use super::{Session, StepStatus};
use crate::model::EventRule;
use alloc::vec::Vec;
use betz_base::error::Result;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use betz_base::hash::Fnv1a;
use betz_base::memory::filled;

/// Number of events that a session keeps until they are read.
pub const EVENT_ROOM: usize = 256;

/// Onset or end of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ClassEvent {
    /// Tick of the step, on the session's clock.
    pub tick: i64,
    /// Index of the class.
    pub class: u32,
    /// True for an onset, false for the end.
    pub on: bool,
    /// Probability of the class in that step; 0 if a reset, a skip or a held step ended it.
    pub probability: f32,
}

/// [`EventRule`] with times in steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StepRule {
    on: f32,
    off: f32,
    dwell: u32,
    refractory: u32,
}

impl StepRule {
    pub(super) fn new(rule: EventRule, step_seconds: f64) -> Self {
        let refractory = (rule.refractory_seconds / step_seconds - 1e-6).ceil();
        Self {
            on: rule.on,
            off: rule.off,
            dwell: rule.dwell,
            refractory: refractory.clamp(0.0, f64::from(u32::MAX - 1)) as u32,
        }
    }

    pub(super) fn hash(&self, hash: &mut Fnv1a) {
        hash.number(f64::from(self.on));
        hash.number(f64::from(self.off));
        hash.word(u64::from(self.dwell));
        hash.word(u64::from(self.refractory));
    }
}

/// One class between two steps.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ClassState {
    on: bool,
    /// Steps in a row at or above the threshold.
    run: u32,
    /// Steps since the last onset.
    since: u32,
}

/// A class that has made no event.
const REST: ClassState = ClassState {
    on: false,
    run: 0,
    since: u32::MAX,
};

impl ClassState {
    /// Takes one step; returns `Some(true)` for an onset and `Some(false)` for an end.
    #[inline]
    fn step(&mut self, rule: &StepRule, probability: f32) -> Option<bool> {
        self.since = self.since.saturating_add(1);
        if self.on {
            if probability < rule.off {
                self.on = false;
                return Some(false);
            }
            return None;
        }
        self.run = if probability >= rule.on {
            self.run.saturating_add(1)
        } else {
            0
        };
        if self.run < rule.dwell || self.since < rule.refractory {
            return None;
        }
        *self = Self {
            on: true,
            run: 0,
            since: 0,
        };
        Some(true)
    }
}

/// The automaton of every class, and the events that nobody has read yet.
///
/// ```
/// use betz_runtime::model::EventRule;
/// use betz_runtime::stream::{ClassEvent, EventDetector};
///
/// let rule = EventRule { on: 0.6, off: 0.3, dwell: 2, refractory_seconds: 0.5 };
/// let mut detector = EventDetector::new(&[Some(rule)], 0.1)?;
/// for (tick, p) in [0.7, 0.2, 0.8, 0.9, 0.5, 0.1].into_iter().enumerate() {
///     detector.step(tick as i64, &[p]);
/// }
/// let mut events = [ClassEvent::default(); 4];
/// assert_eq!(detector.read(&mut events), 2);
/// assert_eq!((events[0].tick, events[0].on), (3, true));
/// assert_eq!((events[1].tick, events[1].on), (5, false));
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct EventDetector {
    rules: Vec<Option<StepRule>>,
    states: Vec<ClassState>,
    ring: Vec<ClassEvent>,
    first: usize,
    length: usize,
    lost: u64,
}

impl EventDetector {
    /// A detector with one rule per class, at rest. Allocates all that it needs.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn new(rules: &[Option<EventRule>], step_seconds: f64) -> Result<Self> {
        let rules = rules
            .iter()
            .map(|rule| rule.map(|rule| StepRule::new(rule, step_seconds)));
        Self::with_rules(rules.collect())
    }

    pub(super) fn with_rules(rules: Vec<Option<StepRule>>) -> Result<Self> {
        Ok(Self {
            states: filled("events", REST, rules.len())?,
            ring: filled("events", ClassEvent::default(), EVENT_ROOM)?,
            rules,
            first: 0,
            length: 0,
            lost: 0,
        })
    }

    /// Goes on by other rules for the same classes, as after a change of the model.
    pub(super) fn set_rules(&mut self, rules: &[Option<StepRule>]) {
        if rules.len() == self.rules.len() {
            self.rules.copy_from_slice(rules);
        } else {
            self.rules.fill(None);
        }
    }

    /// Takes one step's probabilities, one per class. Allocates nothing. If nobody reads the events, the oldest are lost
    /// and counted.
    #[inline]
    pub fn step(&mut self, tick: i64, probabilities: &[f64]) {
        for (class, probability) in probabilities.iter().enumerate().take(self.states.len()) {
            let Some(rule) = &self.rules[class] else {
                continue;
            };
            let probability = *probability as f32;
            if let Some(on) = self.states[class].step(rule, probability) {
                self.push(ClassEvent {
                    tick,
                    class: class as u32,
                    on,
                    probability,
                });
            }
        }
    }

    /// A step whose data did not arrive: nothing begins, ends or goes on.
    pub fn miss(&mut self) {
        for state in &mut self.states {
            state.since = state.since.saturating_add(1);
        }
    }

    /// Ends every class that is on and forgets runs, as at a gap in the data. `ticks` go by meanwhile.
    pub fn rest(&mut self, tick: i64, ticks: u64) {
        let passed = u32::try_from(ticks).unwrap_or(u32::MAX);
        for class in 0..self.states.len() {
            let was_on = self.states[class].on;
            self.states[class] = ClassState {
                since: self.states[class].since.saturating_add(passed),
                ..REST
            };
            if was_on {
                self.push(ClassEvent {
                    tick,
                    class: class as u32,
                    on: false,
                    probability: 0.0,
                });
            }
        }
    }

    /// As [`rest`](Self::rest), and forgets earlier onsets, too: the beginning of a segment.
    pub fn reset(&mut self, tick: i64) {
        self.rest(tick, u64::from(u32::MAX));
    }

    fn push(&mut self, event: ClassEvent) {
        let room = self.ring.len();
        if self.length == room {
            self.first = (self.first + 1) % room;
            self.length -= 1;
            self.lost = self.lost.saturating_add(1);
        }
        let at = (self.first + self.length) % room;
        self.ring[at] = event;
        self.length += 1;
    }

    /// Moves events to `out`, the oldest first, and returns their number. Allocates nothing.
    pub fn read(&mut self, out: &mut [ClassEvent]) -> usize {
        let count = out.len().min(self.length);
        for out in &mut out[..count] {
            *out = self.ring[self.first];
            self.first = (self.first + 1) % self.ring.len();
        }
        self.length -= count;
        count
    }

    /// Number of events that were lost because nobody read them in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn clear_lost(&mut self) {
        self.lost = 0;
    }

    fn classes(&self) -> usize {
        self.states.len()
    }

    /// Number of values of [`state`](Self::state).
    pub(super) fn state_len(&self) -> usize {
        3 * self.states.len()
    }

    /// The automata for a checkpoint, three values per class.
    pub(super) fn state(&self) -> impl Iterator<Item = f64> {
        (self.states.iter()).flat_map(|s| [f64::from(u8::from(s.on)), s.run.into(), s.since.into()])
    }

    /// The automata as a checkpoint has them.
    pub(super) fn set_state(&mut self, values: impl Iterator<Item = f64>) {
        let mut values = values;
        for state in &mut self.states {
            let mut next = || values.next().unwrap_or(0.0);
            // `as` saturates: any number gives a valid state.
            *state = ClassState {
                on: next() >= 0.5,
                run: next() as u32,
                since: next() as u32,
            };
        }
        (self.first, self.length) = (0, 0);
    }
}

impl Session {
    /// Writes the probability of each class in the last step to `out`: those of the running model, before a
    /// clamp, a slew limit or a hold policy; 0 before the first step. Allocates nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) if the model has no classes;
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) unless `out` has one value per class.
    pub fn classes(&self, out: &mut [f32]) -> Result<()> {
        self.try_classes(out)
            .map_err(super::StepRefused::into_error)
    }

    /// As [`classes`](Self::classes), with a refusal that allocates nothing.
    ///
    /// # Errors
    /// The same as for [`classes`](Self::classes).
    pub fn try_classes(&self, out: &mut [f32]) -> core::result::Result<(), super::StepRefused> {
        let classes = self.running().active().classes();
        if classes.is_empty() {
            return Err(super::StepRefused::NoClasses);
        }
        if out.len() != classes.len() {
            return Err(super::StepRefused::Classes {
                expected: classes.len(),
                got: out.len(),
            });
        }
        for (out, share) in out.iter_mut().zip(classes) {
            *out = *share as f32;
        }
        Ok(())
    }

    /// Moves the events of the classes to `out`, the oldest first, and returns their number; 0 for a model without
    /// classes. A session keeps [`EVENT_ROOM`] of them until they are read; then the oldest are lost
    /// ([`Stats::events_lost`](super::Stats)). Allocates nothing.
    pub fn events(&mut self, out: &mut [ClassEvent]) -> usize {
        (self.event_detector_mut()).map_or(0, |events| events.read(out))
    }

    /// The end of a step: events of its probabilities.
    #[inline(never)]
    pub(super) fn detect_events(&mut self, status: StepStatus) {
        let tick = self.tick();
        let (running, events) = self.running_and_events();
        let (active, Some(events)) = (running.active(), events) else {
            return;
        };
        if status.contains(StepStatus::SWAPPED) {
            let rules = &active.model().event_rules;
            if rules.len() != events.classes() {
                events.rest(tick, 0);
            }
            events.set_rules(rules);
        }
        let distrusted = StepStatus::HELD | StepStatus::NON_FINITE | StepStatus::UNTRUSTED;
        if status.intersects(distrusted) {
            events.rest(tick, 1);
        } else if status.contains(StepStatus::STALE) {
            events.miss();
        } else {
            events.step(tick, active.classes());
        }
    }
}
