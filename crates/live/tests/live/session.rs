use std::path::Path;

use betz_live::record::Reader;
use betz_live::{Live, Pace, Part, Replay, Until, check};

use super::rigs::{self, ListRig};

const ALWAYS: Until<'static> = Until {
    steps: None,
    stop: &|| false,
};

/// A session over `blocks`, recorded in `to`; the outputs of each step.
fn run(
    small: &rigs::Small,
    blocks: Vec<betz_interop::rig::Block>,
    to: &Path,
) -> (Live, Vec<(u64, Vec<u32>)>) {
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: blocks.into_iter(),
    };
    let set = format!("record.to={:?}", to.to_str().unwrap());
    // No step is made without data by the clock: this machine may be busy.
    let plan = rigs::plan(&[&set, "missing.stale_after=1h"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    let mut steps = Vec::new();
    live.run(&ALWAYS, &mut |step| {
        steps.push((
            step.number,
            step.values.iter().map(|v| v.to_bits()).collect(),
        ));
        Ok(())
    })
    .unwrap();
    live.stop().unwrap();
    (live, steps)
}

#[test]
fn the_replay_of_a_session_gives_the_same_bits() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000);
    let (live, steps) = run(&small, blocks, folder.path());
    let counts = live.report().input;
    assert_eq!((counts.steps, counts.rows, counts.lost), (50, 30_000, 0));
    assert!(live.crossed().is_empty(), "{:?}", live.crossed());

    let mut replayed = Vec::new();
    let replay = Replay::open(live.folder().unwrap()).unwrap();
    let told = replay
        .run(&mut |step| {
            replayed.push((
                step.number,
                step.values.iter().map(|v| v.to_bits()).collect(),
            ));
            Ok(())
        })
        .unwrap();
    assert_eq!(replayed, steps);
    assert!(told.is_equal() && told.compared == 50, "{told:?}");
    assert_eq!(told.input, counts);
}

#[test]
fn losses_are_counted_exactly_and_replayed() {
    let small = rigs::small(0.02);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000);
    let lost: u64 = blocks.iter().map(|b| b.lost_before.count).sum();
    assert!(lost > 0);
    let (live, steps) = run(&small, blocks, folder.path());
    let counts = live.report().input;
    assert_eq!(
        (counts.lost, counts.bridged, counts.rows),
        (lost, lost, 30_000)
    );
    assert_eq!(live.crossed().len(), 1);
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(
        told.is_equal() && told.compared == steps.len() as u64,
        "{told:?}"
    );
}

#[test]
fn a_source_that_is_faster_than_the_loop_waits_and_loses_nothing() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    // Three times as many blocks as there is room for.
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 3000);
    let (live, steps) = run(&small, blocks, folder.path());
    let counts = live.report().input;
    assert_eq!(
        (counts.rows, counts.lost, counts.stale, steps.len()),
        (90_000, 0, 0, 150)
    );
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert_eq!(told.different, 0);
    assert!(
        told.damage.places == 0 && told.damage.missing == 0,
        "{told:?}"
    );
}

#[test]
fn a_changed_recording_is_told_by_its_first_step() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 300);
    let (live, _) = run(&small, blocks, folder.path());
    let folder = live.folder().unwrap();
    let plan = folder.join("resolved.toml");
    let text = std::fs::read_to_string(&plan).unwrap();
    std::fs::write(&plan, text.replace("threshold = -4.5", "threshold = -3.5")).unwrap();
    let told = Replay::open(folder).unwrap().run(&mut |_| Ok(())).unwrap();
    assert!(
        told.different > 0 && told.first.is_some() && !told.is_equal(),
        "{told:?}"
    );
    // And a damaged block keeps what comes after it from being compared.
    std::fs::write(&plan, text).unwrap();
    let segment = folder.join("000000.blog");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let told = Replay::open(folder).unwrap().run(&mut |_| Ok(())).unwrap();
    assert_eq!(told.different, 0);
    assert!(
        told.not_compared > 0 && told.compared > 0 && !told.is_equal(),
        "{told:?}"
    );
}

#[test]
fn a_model_of_other_channels_is_refused_by_check_and_by_run_in_the_same_words() {
    let small = rigs::small(0.0);
    let mut signal = small.simulation.signal();
    signal.channels = 25;
    let block = betz_interop::rig::Block {
        rows: 30,
        samples: betz_interop::rig::Samples::Voltage(vec![0; 750]),
        ..betz_interop::rig::Block::new()
    };
    let listed = || ListRig {
        signal: signal.clone(),
        blocks: vec![block.clone()].into_iter(),
    };
    let plan = rigs::plan(&[]);
    let listen = std::time::Duration::from_secs(2);
    let checked = check(&plan, &small.model, &mut listed(), listen).unwrap_err();
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(listed())).unwrap();
    let ran = live.run(&ALWAYS, &mut |_| Ok(())).unwrap_err();
    assert_eq!(checked.message(), ran.message());
    assert!(
        ran.message()
            .starts_with("small.toml, line 2, session.model: expected a model of the 25 channels"),
        "{}",
        ran.message()
    );
}

#[test]
fn a_recording_becomes_the_bins_that_its_session_decoded() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000);
    let (live, _) = run(&small, blocks, folder.path());
    let mut recording = betz_live::record::Recording::open(live.folder().unwrap()).unwrap();
    let plan = rigs::plan(&["voltage.noise.calibrate=200ms"]);
    let (bins, noise) = betz_live::bin(&plan, &mut recording, rigs::STEP_SECONDS).unwrap();
    let made = bins
        .into_recording(&plan, Vec::new(), &|_, _| None)
        .unwrap();
    assert_eq!(
        (made.ticks, made.segments[0].start, noise.unwrap().len()),
        (50, 10, 24)
    );
    assert!(made.spikes.ticks.len() > 100);
    // Nothing is left to be read.
    assert!(Reader::open(folder.path()).is_err());
}
