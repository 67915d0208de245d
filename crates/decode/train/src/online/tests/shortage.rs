//! Trials that there is no memory for, trials that wait, and the first step of a restarted session.

use super::*;
use betz_runtime::stream::SwapState;

fn trained(seed: u64) -> Decoder {
    train(&trials(seed, 60), &options(), &()).unwrap()
}

#[test]
fn where_memory_is_short_whole_trials_are_dropped_and_counted() {
    let model = trained(50);
    let data = trials(51, 8);
    let mut rig = Rig::new(&model, never_forgets());
    let labelled = |rig: &mut Rig, trial: usize| {
        rig.session.reset();
        rig.step(&data, &data.segments[trial], Some);
        assert!(rig.labels.end_trial(true));
    };
    labelled(&mut rig, 0);
    rig.work();
    rig.worker.set_room(|_| false);
    labelled(&mut rig, 1);
    labelled(&mut rig, 2);
    rig.work();
    // The fourth has begun when memory comes back: its first half is gone, and it with it.
    rig.session.reset();
    rig.step(
        &data,
        &Segment {
            start: 3 * STEPS,
            stop: 3 * STEPS + 30,
        },
        Some,
    );
    rig.work();
    rig.worker.set_room(|_| true);
    rig.step(
        &data,
        &Segment {
            start: 3 * STEPS + 30,
            stop: 4 * STEPS,
        },
        Some,
    );
    rig.labels.end_trial(true);
    labelled(&mut rig, 4);
    rig.work();
    let state = rig.worker.state();
    let expected = Dropped {
        memory: 3,
        ..Dropped::default()
    };
    assert_eq!(
        (state.trials, state.dropped, state.waiting),
        (2, expected, 0)
    );
    let mut segments = trials(50, 60).segments;
    let mut sums = sums_of(&trials(50, 60), &segments);
    segments = vec![data.segments[0], data.segments[4]];
    sums.add(&sums_of(&data, &segments)).unwrap();
    close(&rig.worker.learner_sums(), &sums, F32);
}

#[test]
fn a_list_of_steps_that_finds_no_room_to_grow_drops_its_trial() {
    let model = trained(52);
    let data = trials(53, 2);
    let mut rig = Rig::new(&model, never_forgets());
    // There is room to learn from a trial, and none to hear one.
    rig.worker.set_room(|bytes| bytes != STEPS_AT_FIRST);
    rig.step(&data, &data.segments[0], Some);
    rig.labels.end_trial(true);
    rig.work();
    rig.worker.set_room(|_| true);
    rig.session.reset();
    rig.step(&data, &data.segments[1], Some);
    rig.labels.end_trial(true);
    rig.work();
    let state = rig.worker.state();
    assert_eq!((state.trials, state.dropped.memory), (1, 1));
}

/// Bytes that are asked for before the first step is heard.
const STEPS_AT_FIRST: usize = 1024 * 256;

#[test]
fn candidates_that_there_is_no_memory_for_are_counted_and_the_model_stays() {
    let model = trained(54);
    let data = exchanged(&trials(55, 10));
    let mut rig = Rig::new(&model, never_forgets());
    rig.worker.learner.has_room = |_| false;
    rig.run(&data, &in_order(&data));
    let state = rig.worker.state();
    assert_eq!((state.trials, state.unsolved, state.accepted), (10, 2, 0));
    assert_eq!(rig.worker.model(), &model);
    rig.worker.learner.has_room = |_| true;
    rig.run(&data, &in_order(&data));
    assert_eq!(rig.worker.state().unsolved, 2);
    assert!(rig.worker.state().accepted > 0);
}

#[test]
fn trials_that_wait_are_told_and_every_end_is_accounted_for() {
    let model = trained(56);
    let data = trials(57, 3);
    let mut rig = Rig::new(&model, never_forgets());
    for segment in &data.segments {
        rig.session.reset();
        rig.step(&data, segment, Some);
        rig.labels.end_trial(true);
    }
    assert_eq!(rig.worker.state().waiting, 3);
    rig.work();
    assert_eq!(
        (rig.worker.state().waiting, rig.worker.state().trials),
        (0, 3)
    );
    // Ends that find no room are counted as well.
    let mut rig = Rig::new(
        &model,
        TrainerConfig {
            capacity: 4,
            ..never_forgets()
        },
    );
    rig.step(&data, &data.segments[0], |_| None);
    let ends = 20;
    for _ in 0..ends {
        rig.labels.end_trial(true);
    }
    rig.work();
    let state = rig.worker.state();
    assert_eq!(state.trials + state.dropped.total() + state.waiting, ends);
}

#[test]
fn a_restored_model_takes_over_with_the_first_step() {
    let model = trained(58);
    let data = exchanged(&trials(59, 30));
    let mut rig = Rig::new(&model, never_forgets());
    rig.run(&data, &in_order(&data));
    assert!(rig.worker.state().accepted > 0);
    let learned = rig.worker.to_bytes().unwrap();

    let Rig {
        mut session,
        worker,
        mut out,
        ..
    } = Rig::new(&model, never_forgets());
    let mut swapper = session.swapper().unwrap();
    let trainer = Trainer::start(worker, None).unwrap();
    trainer.restore(&learned).unwrap();
    let given = trainer.apply_model(&mut swapper).unwrap().unwrap();
    assert_eq!(&given, rig.worker.model());
    session.step_spikes(&[1, 2], &mut out).unwrap();
    assert_eq!(swapper.state(), SwapState::TakenOver);
    let mut fresh = Session::open(&given, SessionConfig::default()).unwrap();
    let mut expected = vec![0.0; out.len()];
    fresh.step_spikes(&[1, 2], &mut expected).unwrap();
    assert_eq!(out, expected);
}
