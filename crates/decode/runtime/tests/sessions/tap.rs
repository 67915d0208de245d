//! Taps of a session: their ticks never go back, even if the acquisition's clock restarts between trials.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use std::sync::{Arc, Mutex};

use betz_runtime::stream::{
    LateSpikes, Session, SessionConfig, Spike, SpikeConsumer, SpikeProducer, Step, Tap, spike_queue,
};

/// 60 s in steps of 10 ms.
const REST: i64 = 6000;

/// Keeps the ticks it hears.
#[derive(Clone, Default)]
struct Ticks(Arc<Mutex<Vec<i64>>>);

impl Tap for Ticks {
    fn take(&mut self, step: &Step<'_>) {
        self.0.lock().unwrap().push(step.tick);
    }
}

struct Rig {
    session: Session,
    producer: SpikeProducer,
    consumer: SpikeConsumer,
    heard: Ticks,
}

impl Rig {
    fn new() -> Self {
        let model = super::common::decoder(&mut super::common::rng(1), 2, 1, &[(0.05, 0)], None);
        let mut session = Session::open(&model, SessionConfig::default()).unwrap();
        let (producer, consumer) = spike_queue(64, LateSpikes::Take).unwrap();
        let heard = Ticks::default();
        session.attach(Box::new(heard.clone()), 0).unwrap();
        Self {
            session,
            producer,
            consumer,
            heard,
        }
    }

    /// Steps through the queue from tick `first` on; what the tap heard.
    fn trial(&mut self, first: i64, ticks: i64) -> Vec<i64> {
        self.consumer.set_tick(first).unwrap();
        for tick in first..first + ticks {
            self.producer.push(&[Spike { tick, channel: 1 }]);
            self.consumer.step(&mut self.session, &mut [0.0]).unwrap();
        }
        std::mem::take(&mut self.heard.0.lock().unwrap())
    }
}

#[test]
fn a_clock_that_restarts_with_the_trial_is_sixty_seconds_later() {
    let mut rig = Rig::new();
    // Longer than the silence: with the silence alone, trial 2 would begin inside trial 1.
    let long = 2 * REST;
    assert_eq!(rig.trial(0, long), (0..long).collect::<Vec<_>>());
    let mut last = long - 1;
    // Back to 0, further back, on with a pause, and far ahead.
    for first in [0, -50, long + 700, 1 << 40, 0] {
        rig.session.reset();
        let begin = last + 1 + REST;
        assert_eq!(
            rig.trial(first, 10),
            (begin..begin + 10).collect::<Vec<_>>(),
            "a trial from tick {first} on"
        );
        last = begin + 9;
    }
}

#[test]
fn a_refused_step_between_the_trials_moves_nothing() {
    let mut rig = Rig::new();
    rig.trial(0, 100);
    rig.consumer.set_tick(-1000).unwrap();
    assert!(rig.consumer.step(&mut rig.session, &mut []).is_err());
    rig.session.reset();
    assert!(rig.consumer.step(&mut rig.session, &mut []).is_err());
    rig.session.reset();
    assert_eq!(rig.trial(7, 2), [100 + REST, 101 + REST]);
    // Without a queue it goes on from there.
    rig.session.step_counts(&[0, 1], &mut [0.0]).unwrap();
    rig.session.reset();
    rig.session.step_spikes(&[0], &mut [0.0]).unwrap();
    let heard = rig.heard.0.lock().unwrap().clone();
    assert_eq!(heard, [102 + REST, 103 + 2 * REST]);
}

#[test]
fn a_clock_at_its_ends_does_not_panic() {
    let mut rig = Rig::new();
    rig.trial(i64::MAX - 20, 10);
    rig.session.reset();
    rig.trial(i64::MIN, 10);
    rig.session.reset();
    let heard = rig.trial(0, 10);
    assert!(heard.is_sorted(), "{heard:?}");
}

#[test]
fn within_a_trial_the_ticks_are_the_queues() {
    let mut rig = Rig::new();
    rig.session.reset();
    assert_eq!(rig.trial(500, 2), [500, 501]);
    assert_eq!(rig.trial(900, 2), [900, 901]);
    rig.session.reset();
    assert_eq!(rig.trial(30, 1), [902 + REST]);
    // A jump of the clock within the trial is one for the tap, too.
    assert_eq!(rig.trial(40, 1), [912 + REST]);
}
