//! Models that are swapped while a session runs, the online trainer, and what a model's channels are made of.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use betz_live::{FrontEnd, Live, Pace, Part, RelearnReport, Replay, Trial, Until, check};

use super::rigs::{self, ListRig, Small};

/// A session of `small` over `blocks` blocks, recorded in `to`.
fn open(small: &Small, blocks: usize, to: &Path, changes: &[&str]) -> Live {
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), blocks)
            .into_iter(),
    };
    let set = format!("record.to={:?}", to.to_str().unwrap());
    // The tests wait for the trainer between two trials.
    let mut all = vec![set.as_str(), "missing.stale_after=1h", "labels.wait=0s"];
    all.extend(changes);
    let mut live = Live::with_rig(rigs::plan(&all), small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    live
}

/// Runs `steps` more steps; false if the source has ended.
fn run(live: &mut Live, steps: u64, made: &mut Vec<Vec<u32>>) -> bool {
    let before = made.len();
    let until = Until {
        steps: Some(steps),
        stop: &|| false,
    };
    live.run(&until, &mut |step| {
        made.push(step.values.iter().map(|v| v.to_bits()).collect());
        Ok(())
    })
    .unwrap();
    rigs::wait_for_recorder(live);
    made.len() - before >= steps as usize
}

/// The replay of a session gives the same bits.
pub(crate) fn replayed(live: &Live, made: &[Vec<u32>]) {
    let mut again = Vec::new();
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |step| {
            again.push(step.values.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
            Ok(())
        })
        .unwrap();
    assert!(
        told.is_equal() && told.compared == made.len() as u64,
        "{told:?}"
    );
    assert_eq!(again, made);
}

#[test]
fn swaps_and_rollbacks_are_recorded_and_replayed_bit_for_bit() {
    let small = rigs::small(0.0);
    let other = rigs::small_of(0.0, None, -1.0).model;
    let folder = tempfile::tempdir().unwrap();
    let mut live = open(&small, 4000, folder.path(), &[]);
    let mut made = Vec::new();
    assert!(live.swap(&other).is_err(), "nothing was heard yet");
    assert!(run(&mut live, 20, &mut made));
    // A model of other outputs is refused by name, and the old one decodes on.
    let mut parts = other.clone().into_parts();
    parts.outputs[0].name = "z".into();
    let misfit = betz_runtime::model::Decoder::new(parts).unwrap();
    let refused = live.swap(&misfit).unwrap_err();
    assert!(refused.message().contains('z'), "{refused}");
    let health = live.sources();
    assert!((health.len(), health[0].lost, health[0].at_least) == (1, 0, false));
    assert!(health[0].silent_ms.is_some() && health[0].bound_us > 0.0);
    live.swap(&other).unwrap();
    assert!(run(&mut live, 120, &mut made));
    live.roll_back().unwrap();
    assert!(run(&mut live, 20, &mut made));
    live.swap(&other).unwrap();
    live.roll_back().unwrap();
    assert!(live.roll_back().is_err(), "there is no model to return to");
    assert!(run(&mut live, 40, &mut made));
    live.stop().unwrap();
    let report = live.report();
    assert_eq!((report.swapped, report.rolled_back), (2, 2));
    replayed(&live, &made);

    // The same session without swaps: the other model did decode, and went without a trace.
    let plain = tempfile::tempdir().unwrap();
    let mut alone = open(&small, 4000, plain.path(), &[]);
    let mut same = Vec::new();
    assert!(run(&mut alone, 200, &mut same));
    assert_eq!(made[..20], same[..20]);
    assert_ne!(made[139], same[139]);
    assert_eq!(made[141..200], same[141..200]);

    // A recording without its model is told by the model's file.
    std::fs::remove_dir_all(live.folder().unwrap().join("models")).unwrap();
    let refused = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()));
    assert!(refused.unwrap_err().message().contains("models"));
}

/// A trial of a second with the true movement, once the trainer has taken it; false if the source has ended.
fn learn_from_a_trial(
    small: &Small,
    live: &mut Live,
    made: &mut Vec<Vec<u32>>,
    labelled: &mut u64,
) -> bool {
    if !run(live, 50, made) {
        return false;
    }
    let delay = small.model.delay_steps().max(0) as u64;
    while *labelled + delay + 1 < made.len() as u64 {
        let truth = small.simulation.truth(Part::Run, (*labelled + 1) * 600 - 1);
        live.label(*labelled, &truth);
        *labelled += 1;
    }
    live.trial(Trial::End);
    // The trainer's thread needs time, and no step depends on when it is done.
    while live.report().learn.unwrap().trials + live.report().learn.unwrap().dropped
        < made.len() as u64 / 50
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_session_learns_from_labels_and_its_replay_is_equal() {
    // Trained on the movement in the mirror: every candidate is better.
    let small = rigs::small_of(0.0, Some(64 << 20), -1.0);
    for (mode, swaps) in [("apply", 1), ("propose", 1), ("watch", 0)] {
        let folder = tempfile::tempdir().unwrap();
        let set = format!("learn.mode={mode}");
        let mut live = open(&small, 60_000, folder.path(), &[&set, "learn.batch=2"]);
        let (mut made, mut labelled, mut after) = (Vec::new(), 0, 0);
        // Two trials after the first model that took over.
        while after < 2 && learn_from_a_trial(&small, &mut live, &mut made, &mut labelled) {
            let accepted = live.report().learn.unwrap().accepted > 0;
            if mode == "propose" && accepted && live.report().swapped == 0 {
                live.accept().unwrap();
            }
            let done = match mode {
                "watch" => accepted,
                _ => live.report().swapped > 0,
            };
            after += u32::from(done);
        }
        live.stop().unwrap();
        let report = live.report();
        let learn = report.learn.unwrap();
        assert!(learn.accepted >= 1 && !learn.dead, "{mode}: {learn:?}");
        assert!(report.swapped.min(1) == swaps, "{mode}: {report:?}");
        replayed(&live, &made);
        let again = relearned(&live);
        assert_eq!((again.equal, again.other), (report.swapped, 0), "{mode}");
        let counts = |accepted, refused, rolled_back| [accepted, refused, rolled_back];
        assert_eq!(
            counts(again.accepted, again.refused, again.rolled_back),
            counts(learn.accepted, learn.refused, learn.rolled_back)
        );
        assert_eq!((again.trials, again.dropped), (learn.trials, learn.dropped));
    }
}

/// The result of learning again in a replay of a session.
pub(crate) fn relearned(live: &Live) -> RelearnReport {
    let mut replay = Replay::open(live.folder().unwrap()).unwrap();
    replay.relearn().unwrap();
    let told = replay.run(&mut |_| Ok(())).unwrap();
    let learned = told.relearned.clone().unwrap();
    assert_eq!(told.is_equal(), learned.other == 0, "{told:?}");
    learned
}

#[test]
fn a_replay_that_learns_again_names_a_model_that_the_trainer_did_not_make() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let other = rigs::small_of(0.0, None, -1.0).model;
    let folder = tempfile::tempdir().unwrap();
    let mut live = open(&small, 1000, folder.path(), &["learn.mode=watch"]);
    let mut made = Vec::new();
    assert!(run(&mut live, 20, &mut made));
    live.swap(&other).unwrap();
    assert!(run(&mut live, 20, &mut made));
    live.stop().unwrap();
    let again = relearned(&live);
    assert_eq!((again.equal, again.other), (0, 1));
    let named = again.first_other.unwrap();
    let model = live.folder().unwrap().join("models");
    assert!(model.join(format!("{}.betz", named.fingerprint)).exists());
    assert_eq!(named.step, 20);

    let folder = tempfile::tempdir().unwrap();
    let mut live = open(&small, 1000, folder.path(), &[]);
    assert!(run(&mut live, 20, &mut made));
    live.stop().unwrap();
    let mut replay = Replay::open(live.folder().unwrap()).unwrap();
    let refused = replay.relearn().unwrap_err();
    assert!(refused.message().contains("learn.mode"), "{refused}");
}

#[test]
fn a_model_that_cannot_be_stored_is_counted_and_decodes_once_there_is_room() {
    let small = rigs::small_of(0.0, Some(64 << 20), -1.0);
    let folder = tempfile::tempdir().unwrap();
    let changes = ["learn.mode=apply", "learn.batch=2"];
    let mut live = open(&small, 60_000, folder.path(), &changes);
    let (mut made, mut labelled) = (Vec::new(), 0);
    assert!(run(&mut live, 20, &mut made));
    // No file can be made in what is no folder.
    let models = live.folder().unwrap().join("models");
    std::fs::write(&models, "no folder").unwrap();
    while live.report().learn.unwrap().unstored == 0 {
        assert!(learn_from_a_trial(
            &small,
            &mut live,
            &mut made,
            &mut labelled
        ));
    }
    let why = live.not_stored().unwrap();
    assert!(why.message().contains("models"), "{why}");
    // The old model decodes on.
    assert!(run(&mut live, 20, &mut made));
    assert_eq!(live.report().swapped, 0);
    std::fs::remove_file(&models).unwrap();
    while live.not_stored().is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(run(&mut live, 20, &mut made));
    assert!(live.report().swapped > 0);
    live.stop().unwrap();
    replayed(&live, &made);
}

#[test]
fn a_model_without_sums_cannot_learn_and_is_refused_by_check_and_run_in_the_same_words() {
    let small = rigs::small(0.0);
    let plan = rigs::plan(&["learn.mode=watch"]);
    let rig = || ListRig {
        signal: small.simulation.signal(),
        blocks: Vec::new().into_iter(),
    };
    let checked = check(&plan, &small.model, &mut rig(), Duration::ZERO).unwrap_err();
    let ran = Live::with_rig(plan, small.model.clone(), Box::new(rig()))
        .err()
        .unwrap();
    assert_eq!(checked.message(), ran.message());
    assert!(
        ran.message().contains("learn.mode: ") && ran.message().contains("--retain"),
        "{ran}"
    );
}

#[test]
fn a_model_of_another_front_end_is_refused_by_check_and_run_in_the_same_words() {
    let mut small = rigs::small(0.0);
    let front_end = FrontEnd::of_plan(&rigs::plan(&[]), true).unwrap();
    small.model = front_end.attach(small.model).unwrap();
    assert!(matches!(
        FrontEnd::of_model(&small.model).unwrap(),
        Some(FrontEnd::Crossings { .. })
    ));
    let rig = || ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 30).into_iter(),
    };
    let second = Duration::from_secs(1);
    for (change, words) in [
        (
            "voltage.threshold=-4",
            "voltage.threshold: expected -4.5, which the model was trained on, got -4; ",
        ),
        (
            "voltage.reference=average",
            "voltage.reference: expected \"median\", which",
        ),
        (
            "voltage.band=[300, 5000]",
            "voltage.band: expected [300.0, 6000.0] Hz, which",
        ),
        ("voltage.dead=2ms", "voltage.dead: expected 1ms, which"),
        (
            "voltage.feature=sbp",
            "voltage.feature: expected crossings at once of -4.5 times the noise",
        ),
    ] {
        let plan = rigs::plan(&[change]);
        let checked = check(&plan, &small.model, &mut rig(), second).unwrap_err();
        let opened = Live::with_rig(plan, small.model.clone(), Box::new(rig()));
        let ran = opened.err().unwrap();
        assert_eq!(checked.message(), ran.message());
        assert!(ran.message().contains(words), "{change}: {ran}");
    }
    // Keys that do not change the features are free. A model that says nothing is taken with a warning.
    let plan = rigs::plan(&["voltage.noise.track=20s", "missing.bridge=3ms"]);
    let warned = Cell::new(0);
    let mut parts = small.model.clone().into_parts();
    parts.attachments.clear();
    let silent = betz_runtime::model::Decoder::new(parts).unwrap();
    for model in [&small.model, &silent] {
        let report = check(&plan, model, &mut rig(), second).unwrap();
        let line = report
            .lines
            .iter()
            .find(|line| line.part == "features")
            .unwrap();
        warned.set(warned.get() + u32::from(line.warning));
    }
    assert_eq!(warned.get(), 1);
}
