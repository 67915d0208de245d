//! Requests to a running trainer: candidates at once, another half-life, its state, its models.

use super::*;

#[test]
fn candidates_come_when_they_are_asked_for() {
    let model = train(&trials(30, 60), &options(), &()).unwrap();
    let config = TrainerConfig {
        half_life_seconds: 24.0,
        batch: 10_000,
        ..TrainerConfig::default()
    };
    let mut rig = Rig::new(&model, config);
    assert_eq!(rig.worker.solve_now().unwrap(), None);
    let (drifted, test) = (exchanged(&trials(31, 60)), exchanged(&trials(32, 30)));
    let mut asked = Vec::new();
    for some in (0..60).collect::<Vec<usize>>().chunks(6) {
        let some = drifted.select(some);
        rig.run(&some, &in_order(&some));
        assert!(rig.verdicts.iter().all(|v| *v == Verdict::Learned));
        rig.verdicts.clear();
        asked.extend(rig.worker.solve_now().unwrap());
        // Nothing was learned since.
        assert_eq!(rig.worker.solve_now().unwrap(), None);
    }
    let accepted = |v: &&Verdict| matches!(v, Verdict::Accepted { .. });
    assert!(asked.iter().filter(accepted).count() > 0, "{asked:?}");
    let (before, after) = rig.worker.state().scores.unwrap();
    assert!(before.is_finite() && after.is_finite());
    assert!(score(rig.worker.model(), &test) > 0.3 + score(&model, &test));
}

#[test]
fn few_trials_do_not_decide() {
    let model = train(&trials(33, 60), &options(), &()).unwrap();
    let mut rig = Rig::new(&model, never_forgets());
    let drifted = exchanged(&trials(34, 12));
    for some in [[0, 1, 2], [3, 4, 5], [6, 7, 8]] {
        let some = drifted.select(&some);
        rig.run(&some, &in_order(&some));
        assert_eq!(rig.worker.solve_now().unwrap(), None);
    }
    assert_eq!(rig.worker.model(), &model);
}

#[test]
fn another_half_life_holds_from_then_on() {
    let data = trials(35, 24);
    let first: Vec<usize> = (0..12).collect();
    let model = train(&data.select(&first), &options(), &()).unwrap();
    let mut rig = Rig::new(&model, never_forgets());
    for bad in [0.0, -1.0, f64::NAN] {
        let refused = rig.worker.set_half_life(bad).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
    let mut expected = super::sums::FadingSums::new(sums_of(&data, &data.segments[..12]));
    // A trial is 1.2 s.
    for (trials, half_life) in [(12..16, f64::INFINITY), (16..20, 2.4), (20..24, 1.2)] {
        rig.worker.set_half_life(half_life).unwrap();
        let of_these: Vec<usize> = trials.clone().collect();
        let some = data.select(&of_these);
        rig.run(&some, &in_order(&some));
        for trial in trials {
            expected.forget((-1.2 / half_life).exp2());
            let sums = sums_of(&data, &data.segments[trial..=trial]);
            expected.add(&sums).unwrap();
        }
    }
    assert!((expected.steps - rig.worker.state().effective_steps).abs() < 1e-6);
    close(&rig.worker.learner_sums(), &expected.whole(), F32);
}

#[test]
fn what_was_learned_is_kept_and_goes_on() {
    let model = train(&trials(36, 60), &options(), &()).unwrap();
    let config = TrainerConfig {
        half_life_seconds: 24.0,
        ..TrainerConfig::default()
    };
    let drifted = exchanged(&trials(37, 40));
    let mut rig = Rig::new(&model, config.clone());
    rig.run(&drifted, &in_order(&drifted));
    assert!(rig.worker.state().accepted > 0);
    let bytes = rig.worker.to_bytes().unwrap();
    let mut again = Rig::new(&model, config.clone());
    let untouched = again.worker.learner_sums();
    // Any byte that is wrong is told, and changes nothing; so is an end that is missing.
    for at in (0..bytes.len()).step_by(bytes.len() / 200).chain([0, 9]) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x11;
        assert!(again.worker.restore(&wrong).is_err(), "byte {at}");
        assert!(again.worker.restore(&bytes[..at]).is_err(), "end at {at}");
    }
    assert_eq!(again.worker.model(), &model);
    close(&again.worker.learner_sums(), &untouched, 0.0);

    again.worker.restore(&bytes).unwrap();
    assert_eq!(again.worker.model(), rig.worker.model());
    close(
        &again.worker.learner_sums(),
        &rig.worker.learner_sums(),
        0.0,
    );
    let mut told = rig.worker.state();
    told.scores = None;
    assert_eq!(again.worker.state(), told);
    assert_eq!(again.worker.to_bytes().unwrap(), bytes);
    // And it learns on as the first does.
    let more = exchanged(&trials(38, 3));
    for rig in [&mut rig, &mut again] {
        rig.run(&more, &in_order(&more));
    }
    close(
        &again.worker.learner_sums(),
        &rig.worker.learner_sums(),
        1e-12,
    );
    // At another pace if that is asked for.
    let mut slow = Rig::new(&model, never_forgets());
    slow.worker.restore(&bytes).unwrap();
    assert_eq!(slow.worker.learner_halves(), [f64::INFINITY]);

    let other = TrainOptions {
        bank: cases::bank(&[(40.0, 0)]),
        ..options()
    };
    let other = train(&trials(36, 60), &other, &()).unwrap();
    let mut unlike = Rig::new(&other, config);
    let refused = unlike.worker.restore(&bytes).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Mismatch);
    assert!(refused.to_string().contains("filters"), "{refused}");
}

/// Estimates of a session that has run `model` alone over `steps` of `data`, starting from rest.
fn estimates(model: &Decoder, data: &Dataset, steps: std::ops::Range<i64>) -> Vec<f32> {
    let mut session = Session::open(model, SessionConfig::default()).unwrap();
    let mut out = vec![0.0; session.outputs()];
    for step in steps {
        let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
        session.step_spikes(spikes, &mut out).unwrap();
    }
    out
}

#[test]
fn models_are_applied_from_outside_warm_and_rolled_back_to() {
    let model = train(&trials(39, 60), &options(), &()).unwrap();
    let config = TrainerConfig {
        half_life_seconds: 24.0,
        ..TrainerConfig::default()
    };
    let Rig {
        mut session,
        mut labels,
        worker,
        mut out,
        ..
    } = Rig::new(&model, config);
    let mut swapper = session.swapper().unwrap();
    let trainer = Trainer::start(worker, None).unwrap();
    assert!(!trainer.apply(&mut swapper).unwrap());
    let data = exchanged(&trials(40, 60));
    let mut newest = None;
    for (trial, segment) in (1..).zip(&data.segments) {
        session.reset();
        for step in segment.start..segment.stop {
            let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
            session.step_spikes(spikes, &mut out).unwrap();
            let row = &data.behavior[step as usize * 2..][..2];
            labels.label(row).unwrap();
        }
        labels.end_trial(true);
        while trainer.state().trials < trial {
            std::thread::yield_now();
        }
        if trainer.state().accepted > 0 {
            newest = Some(*segment);
            break;
        }
    }
    let segment = newest.expect("a model that took over");
    // It is given while the trial goes on: what filters remember of it is replayed.
    assert!(trainer.apply(&mut swapper).unwrap());
    assert!(!trainer.apply(&mut swapper).unwrap() && trainer.take().is_none());
    let short = swapper.progress().ticks as i64;
    let memory = PreparedModel::new(&model, None).unwrap().memory_steps();
    assert_eq!(short as u64, memory.div_ceil(HURRY));
    let stop = segment.stop + short + 1;
    for step in segment.stop..stop {
        let spikes = &data.spikes.channels[data.spikes.range(step, step + 1)];
        session.step_spikes(spikes, &mut out).unwrap();
    }
    let adapted = trainer.stop().unwrap().model().clone();
    assert_ne!(adapted, model);
    assert_eq!(out, estimates(&adapted, &data, segment.start..stop));
}
