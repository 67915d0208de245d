//! Sessions that are dropped without an end, as a killed one leaves them, and others that go on with their recordings.

use std::path::Path;

use betz_live::record::Reader;
use betz_live::{Live, Pace, Part, Replay, Resumption, Until};
use betz_rigs::rig::Block;

use super::rigs::{self, ALWAYS, ListRig, Small, Steps, run};

fn open(small: &Small, blocks: &[Block], to: &Path, changes: &[&str]) -> Live {
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: Vec::from(blocks).into_iter(),
    };
    let set = format!("record.to={:?}", to.to_str().unwrap());
    let mut all = vec![
        set.as_str(),
        "missing.stale_after=1h",
        "voltage.noise.track=0s",
    ];
    all.extend(changes);
    Live::with_rig(rigs::plan(&all), small.model.clone(), Box::new(rig)).unwrap()
}

/// A session over `blocks` that is killed at their end; its noise is known but for `changes` that measure it.
fn killed(small: &Small, blocks: &[Block], to: &Path, changes: &[&str]) -> Steps {
    let mut live = open(small, blocks, to, changes);
    if changes.is_empty() {
        live.set_noise(small.noise.clone());
    }
    assert!(matches!(live.keep().unwrap(), Resumption::StartsAnew(_)));
    run(&mut live)
}

fn setup(count: usize) -> (Small, Vec<Block>, tempfile::TempDir) {
    let small = rigs::small(0.0);
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), count);
    (small, blocks, tempfile::tempdir().unwrap())
}

fn check_replay(folder: &Path, steps: usize) {
    let replayed = Replay::open(folder).unwrap().run(&mut |_| Ok(())).unwrap();
    assert!(replayed.is_equal(), "{replayed:?}");
    assert_eq!(replayed.compared, steps as u64);
    assert!(replayed.damage.ended);
}

/// Kills a session over `blocks` after `end` of them, lets another go on from block `from`, and compares both with a session
/// that lost the same blocks. Returns the folder of the recordings.
fn resume_and_compare(
    small: &Small,
    blocks: &[Block],
    [end, from]: [usize; 2],
    changes: &[&str],
) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let before = killed(small, &blocks[..end], folder.path(), changes);
    let mut live = open(small, &blocks[from..], folder.path(), changes);
    let told = live.keep().unwrap();
    let after = run(&mut live);
    let recording = live.stop().unwrap().unwrap();
    assert_eq!(told, Resumption::Resumes(recording.clone()));

    let other = tempfile::tempdir().unwrap();
    let one: Vec<Block> = [&blocks[..end], &blocks[from..]].concat();
    let mut whole = open(small, &one, other.path(), changes);
    if changes.is_empty() {
        whole.set_noise(small.noise.clone());
    }
    let expected = run(&mut whole);
    assert_eq!(before, expected[..before.len()]);
    let after_gap = &expected[before.len()..];
    assert_eq!(after.len(), after_gap.len());
    for (step, expected) in after.iter().zip(after_gap) {
        assert_eq!(step, expected, "killed after block {end}, on from {from}");
    }
    assert_eq!(live.report().input, whole.report().input);
    assert_eq!(live.report().resumed, 1);
    check_replay(&recording, before.len() + after.len());
    folder
}

#[test]
fn a_session_killed_at_any_block_goes_on_as_one_that_lost_the_rows_between() {
    let (small, blocks, _) = setup(3000);
    let kills = match std::env::var_os("BETZ_EXHAUSTIVE") {
        Some(_) => 100,
        None => 9,
    };
    for kill in 0..kills {
        // Any place within a step, and gaps that are bridged, of a step, and longer ones.
        let end = 1100 + kill * 7919 % 700;
        let gap = match kill % 3 {
            0 => kill * 104_729 % 6,
            1 => 6 + kill * 104_729 % 30,
            _ => 36 + kill * 104_729 % 1000,
        };
        resume_and_compare(&small, &blocks, [end, end + gap], &[]);
    }
}

#[test]
fn every_front_end_goes_on_where_it_was() {
    let (small, blocks, _) = setup(2200);
    for changes in [
        &["voltage.noise.track=1s", "voltage.noise.calibrate=500ms"][..],
        // The noise is still being measured.
        &["voltage.noise.calibrate=1500ms"],
        &["voltage.at=settled", "voltage.noise.calibrate=0s"],
        &["voltage.feature=sbp"],
        &["voltage.reference=average", "voltage.noise.calibrate=500ms"],
    ] {
        for (end, gap) in [(1111, 0), (1233, 3), (1098, 22), (1307, 200)] {
            resume_and_compare(&small, &blocks, [end, end + gap], changes);
        }
    }
}

#[test]
fn a_killed_session_goes_on_as_one_that_lost_the_rows_between() {
    let (small, blocks, _) = setup(3000);
    let folder = resume_and_compare(&small, &blocks, [1710, 2030], &[]);

    // It has ended as asked: the next session is another one.
    let mut next = open(&small, &blocks, folder.path(), &[]);
    let Resumption::StartsAnew(why) = next.keep().unwrap() else {
        panic!()
    };
    assert!(why.ends_with("has ended as asked"), "{why}");
}

#[test]
fn a_torn_end_is_left_behind_and_a_second_kill_is_survived() {
    let (small, blocks, folder) = setup(3000);
    let first = killed(&small, &blocks[..1230], folder.path(), &[]);
    let recording = std::fs::read_dir(folder.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    // The last block, its step's frames and more are torn off.
    let segment = recording.join("000000.blog");
    let length = segment.metadata().unwrap().len();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&segment)
        .unwrap();
    file.set_len(length - 50_001).unwrap();
    let mut second = open(&small, &blocks[1400..2000], folder.path(), &[]);
    second.keep().unwrap();
    let middle = run(&mut second);
    drop(second);
    let mut third = open(&small, &blocks[2100..], folder.path(), &[]);
    third.keep().unwrap();
    let last = run(&mut third);
    assert_eq!(third.stop().unwrap().unwrap(), recording);
    assert_eq!(third.report().resumed, 2);
    let numbers: Vec<u64> = (first.iter().chain(&middle).chain(&last))
        .map(|s| s.0)
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let replayed = Replay::open(&recording)
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(replayed.is_equal(), "{replayed:?}");
    assert!(replayed.compared >= (middle.len() + last.len()) as u64);
    let mut reader = Reader::open(&recording).unwrap();
    while reader.next_record().unwrap().is_some() {}
    assert_eq!(reader.damage().torn, 1);
    for segment in ["000001.blog", "000002.blog"] {
        assert!(recording.join(segment).exists());
    }
}

#[test]
fn a_device_that_started_again_meanwhile_decodes_from_rest() {
    let (small, blocks, folder) = setup(1500);
    let before = killed(&small, &blocks, folder.path(), &[]);
    let mut live = open(&small, &blocks[..1000], folder.path(), &[]);
    live.keep().unwrap();
    let after = run(&mut live);
    let recording = live.stop().unwrap().unwrap();
    let counts = live.report().input;
    assert_eq!((counts.restarts, counts.late, counts.lost), (1, 0, 0));
    assert_eq!(counts.steps, (before.len() + after.len()) as u64);
    // The step that was open is not made.
    assert_eq!(after[0].0, before.len() as u64 + 1);
    check_replay(&recording, before.len() + after.len());
}

/// Equal but for what decoders that began with other models still remember.
fn assert_near(some: &[(u64, Vec<u32>)], others: &[(u64, Vec<u32>)]) {
    assert_eq!(some.len(), others.len());
    for ((number, values), (other, expected)) in some.iter().zip(others) {
        let near = |a: u32, b: u32| (f32::from_bits(a) - f32::from_bits(b)).abs() < 1e-4;
        let all = values.iter().zip(expected).all(|(a, b)| near(*a, *b));
        let floats = |bits: &[u32]| bits.iter().map(|b| f32::from_bits(*b)).collect::<Vec<_>>();
        let (got, wanted) = (floats(values), floats(expected));
        assert!(
            number == other && all,
            "{number} {got:?}, {other} {wanted:?}"
        );
    }
}

#[test]
fn a_model_that_was_swapped_in_decodes_on() {
    let (small, blocks, folder) = setup(4500);
    let other = rigs::small_of(0.0, None, 2.0).model;
    let mut live = open(&small, &blocks[..1700], folder.path(), &[]);
    live.set_noise(small.noise.clone());
    live.keep().unwrap();
    let some = Until {
        steps: Some(10),
        ..ALWAYS
    };
    live.run(&some, &mut |_| Ok(())).unwrap();
    live.swap(&other).unwrap();
    let before = 10 + run(&mut live).len();
    drop(live);
    let mut live = open(&small, &blocks[2000..], folder.path(), &[]);
    live.keep().unwrap();
    let after = run(&mut live);
    let recording = live.stop().unwrap().unwrap();
    check_replay(&recording, before + after.len());

    // As a session that began with the other model, once both have forgotten their begins.
    let elsewhere = tempfile::tempdir().unwrap();
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: blocks[..1700]
            .iter()
            .chain(&blocks[2000..])
            .cloned()
            .collect::<Vec<_>>()
            .into_iter(),
    };
    let set = format!("record.to={:?}", elsewhere.path().to_str().unwrap());
    let plan = rigs::plan(&[&set, "missing.stale_after=1h", "voltage.noise.track=0s"]);
    let mut alone = Live::with_rig(plan, other, Box::new(rig)).unwrap();
    alone.set_noise(small.noise.clone());
    let expected = run(&mut alone);
    assert_near(&after[after.len() - 20..], &expected[expected.len() - 20..]);
}

#[test]
fn a_session_that_learns_goes_on_with_a_model_that_keeps_no_sums() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 4500);
    let folder = tempfile::tempdir().unwrap();
    let other = rigs::small_of(0.0, None, 2.0).model;
    let learns = ["learn.mode=watch"];
    let mut live = open(&small, &blocks[..3000], folder.path(), &learns);
    live.set_noise(small.noise.clone());
    live.keep().unwrap();
    let some = Until {
        steps: Some(10),
        ..ALWAYS
    };
    live.run(&some, &mut |_| Ok(())).unwrap();
    live.swap(&other).unwrap();
    let before = 10 + run(&mut live).len();
    drop(live);
    let mut live = open(&small, &blocks[3200..], folder.path(), &learns);
    live.keep().unwrap();
    let after = run(&mut live);
    let recording = live.stop().unwrap().unwrap();
    assert_eq!(live.report().resumed, 1);
    assert!(!live.report().learn.unwrap().dead);
    check_replay(&recording, before + after.len());
}

#[test]
fn recordings_that_cannot_be_gone_on_with_are_named_with_the_reason() {
    let (small, blocks, folder) = setup(1200);
    let to = folder.path();
    let mut running = open(&small, &blocks, to, &[]);
    running.set_noise(small.noise.clone());
    running.keep().unwrap();
    run(&mut running);
    let why = |changes: &[&str]| match open(&small, &blocks, to, changes).keep().unwrap() {
        Resumption::StartsAnew(why) => why,
        Resumption::Resumes(folder) => panic!("{}", folder.display()),
    };
    assert!(why(&[]).ends_with("is of a session that runs"));
    drop(running);
    let other = why(&["voltage.threshold=-4"]);
    assert!(
        other.ends_with("is of another plan, model or sorter"),
        "{other}"
    );
    let recording = std::fs::read_dir(to).unwrap().next().unwrap().unwrap();
    let segment = std::fs::File::options()
        .write(true)
        .open(recording.path().join("000000.blog"))
        .unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    segment.set_modified(long_ago).unwrap();
    let old = why(&[]);
    assert!(
        old.ends_with("s old, more than record.resume_within = 600s"),
        "{old}"
    );
    let plan = rigs::plan(&["missing.stale_after=1h"]);
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: Vec::new().into_iter(),
    };
    let mut unrecorded = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    let error = unrecorded.keep().unwrap_err().to_string();
    assert!(error.contains("record.to"), "{error}");
}
