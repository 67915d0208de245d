//! The online trainer of a session whose data are not whole, and one that dies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use betz_live::{LearnReport, Live, Pace, Part, Replay, Trial, Until};
use betz_runtime::stream::StepStatus;

use super::rigs::{self, ALWAYS, ListRig, STEP_SECONDS, Small};

/// A session of `small` over `blocks` blocks but those that are `lost`.
fn open(small: &Small, blocks: usize, lost: &dyn Fn(usize) -> bool, changes: &[&str]) -> Live {
    let all = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), blocks);
    let came = all.into_iter().enumerate().filter(|(n, _)| !lost(*n));
    let came: Vec<_> = came.map(|(_, block)| block).collect();
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: came.into_iter(),
    };
    let changes = [&["missing.stale_after=10000h", "learn.batch=2"], changes].concat();
    let mut live =
        Live::with_rig(rigs::plan(&changes), small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    live
}

/// The next `steps` of a session.
fn run(live: &mut Live, steps: u64) {
    let some = Until {
        steps: Some(steps),
        ..ALWAYS
    };
    live.run(&some, &mut |_| Ok(())).unwrap();
}

/// Labels `steps`, and ends their trial.
fn teach(small: &Small, live: &mut Live, steps: std::ops::Range<u64>) {
    for step in steps {
        let truth = small.simulation.truth(Part::Run, (step + 1) * 600 - 1);
        live.label(step, &truth);
    }
    live.trial(Trial::End);
}

/// Waits until the trainer's thread has come so far; no step depends on when that is.
fn wait(live: &Live, done: impl Fn(&LearnReport) -> bool) -> LearnReport {
    for _ in 0..200_000 {
        let now = live.report().learn.unwrap();
        if done(&now) {
            return now;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the trainer's thread stands still: {:?}", live.report());
}

#[test]
fn steps_without_all_their_data_are_not_learned_from_and_counted() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    // A block of step 20, half of step 30, all of steps 40 and 41, and a part of step 42.
    let lost = |n: usize| n == 405 || (602..612).contains(&n) || (800..845).contains(&n);
    let mut live = open(&small, 2000, &lost, &["learn.mode=watch"]);
    let (mut steps, mut whole) = (0, 0);
    live.run(&ALWAYS, &mut |step| {
        steps = step.number + 1;
        let flags = StepStatus::STALE | StepStatus::DROPPED;
        whole += u64::from(!step.status.intersects(flags));
        Ok(())
    })
    .unwrap();
    assert!(steps - whole >= 5, "{whole} of {steps}");
    teach(&small, &mut live, 0..steps);
    let learn = wait(&live, |learn| learn.trials + learn.dropped > 0);
    assert_eq!((learn.trials, learn.late_labels), (1, 0), "{learn:?}");
    assert_eq!(learn.left_out, steps - whole);
    let seconds = whole as f64 * STEP_SECONDS;
    assert!((learn.labelled_seconds - seconds).abs() < 1e-9, "{learn:?}");
}

static DIES: AtomicBool = AtomicBool::new(false);

/// A check for memory that ends the trainer's thread.
fn fatal_room(_: usize) -> bool {
    assert!(
        !DIES.load(Ordering::SeqCst),
        "the trainer dies, as the test wants"
    );
    true
}

#[test]
fn a_session_whose_trainer_dies_goes_on_without_it() {
    // Trained on the movement in the mirror: every candidate would be better.
    let small = rigs::small_of(0.0, Some(64 << 20), -1.0);
    let folder = tempfile::tempdir().unwrap();
    let record = format!("record.to={:?}", folder.path().to_str().unwrap());
    let mut live = open(&small, 6000, &|_| false, &["learn.mode=apply", &record]);
    live.set_trainer_room(fatal_room);
    run(&mut live, 50);
    assert!(!wait(&live, |_| true).dead);
    DIES.store(true, Ordering::SeqCst);
    teach(&small, &mut live, 0..50);
    wait(&live, |learn| learn.dead);
    // Three seconds in all: the recorder's ring has room for four, however slow the disk and this machine are.
    for second in 1..3 {
        run(&mut live, 50);
        teach(&small, &mut live, 50 * second..50 * (second + 1));
    }
    live.stop().unwrap();
    let report = live.report();
    let learn = report.learn.unwrap();
    assert!(learn.dead && learn.trials == 0, "{learn:?}");
    assert_eq!((report.input.steps, report.input.stale), (150, 0));
    assert_eq!(report.swapped, 0);
    // It is no limit of the plan: the session ends as asked.
    assert_eq!(live.crossed(), Vec::<String>::new());
    let replay = Replay::open(live.folder().unwrap()).unwrap();
    let told = replay.run(&mut |_| Ok(())).unwrap();
    assert!(told.is_equal() && told.compared == 150, "{told:?}");
}

#[test]
fn a_trainer_without_memory_leaves_its_trials_out_and_goes_on_when_there_is_some() {
    static HAS_ROOM: AtomicBool = AtomicBool::new(false);
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let mut live = open(&small, 4000, &|_| false, &["learn.mode=watch"]);
    live.set_trainer_room(|_| HAS_ROOM.load(Ordering::SeqCst));
    run(&mut live, 50);
    teach(&small, &mut live, 0..50);
    let learn = wait(&live, |learn| learn.trials + learn.dropped > 0);
    assert_eq!((learn.trials, learn.dropped, learn.dead), (0, 1, false));
    HAS_ROOM.store(true, Ordering::SeqCst);
    for second in 1..3 {
        run(&mut live, 50);
        teach(&small, &mut live, 50 * second..50 * (second + 1));
        wait(&live, |learn| learn.trials + learn.dropped > second);
    }
    let learn = live.report().learn.unwrap();
    assert!(learn.trials >= 1 && !learn.dead, "{learn:?}");
    assert_eq!(live.report().input.steps, 150);
}
