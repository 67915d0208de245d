//! A decoder that is too slow for its source.

use std::time::Duration;

use betz_live::record::{Reader, Record};
use betz_live::{Live, Pace, Part, Replay};
use betz_runtime::stream::StepStatus;

use super::rigs::{self, ALWAYS, ListRig};
use super::sources::{self, FIRST, SECOND};

#[test]
fn steps_that_wait_for_a_slow_decoder_are_left_out_and_the_replay_gives_the_same_bits() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(
        &mut small.simulation.rig(Part::Run, Pace::Fastest),
        100 * 20,
    );
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: blocks.into_iter(),
    };
    let record = format!("record.to={:?}", folder.path().to_str().unwrap());
    let plan = rigs::plan(&[&record, "missing.stale_after=1h", "missing.backlog=8"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    let mut made = Vec::new();
    live.run(&ALWAYS, &mut |step| {
        made.push((step.number, step.status));
        // More than a step lasts, however fast this machine is.
        std::thread::sleep(Duration::from_millis(25));
        Ok(())
    })
    .unwrap();
    live.stop().unwrap();
    let input = live.report().input;
    assert!(input.behind > 20, "{input:?}");
    assert_eq!((input.skipped, input.lost), (input.behind, 0));
    assert_eq!(input.steps + input.behind, 100);
    let late = live.crossed();
    assert!(late[0].starts_with("limits.late_steps"), "{late:?}");
    // The step after each gap is flagged, and no other.
    let mut gaps = 0;
    for pair in made.windows(2) {
        let [(before, _), (number, status)] = [pair[0], pair[1]];
        let is_after_gap = number > before + 1;
        assert_eq!(status.contains(StepStatus::DROPPED), is_after_gap);
        gaps += u64::from(is_after_gap);
    }

    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(
        told.is_equal() && told.compared == made.len() as u64,
        "{told:?}"
    );
    assert_eq!(told.input.behind, input.behind);
    let (mut reader, mut recorded) = (Reader::open(live.folder().unwrap()).unwrap(), 0);
    while let Some(record) = reader.next_record().unwrap() {
        if let Record::SkipBehind { step, to } = record {
            assert!(to > step);
            recorded += 1;
        }
    }
    assert_eq!(recorded, gaps);
}

#[test]
fn a_slow_decoder_of_two_devices_leaves_out_the_steps_of_both() {
    let small = rigs::small(0.0);
    let voltage = sources::voltage(&small, 2000);
    let folder = tempfile::tempdir().unwrap();
    let rigs = sources::rigs_of(vec![
        (16, FIRST.blocks(&voltage, &|_| Some(0))),
        (8, SECOND.blocks(&voltage, &|_| Some(0))),
    ]);
    let record = sources::recorded_in(&folder);
    let plan = sources::plan("", &[&record, "missing.backlog=8"]);
    let mut live = Live::with_rigs(plan, small.model.clone(), rigs).unwrap();
    let mut numbers = Vec::new();
    live.run(&ALWAYS, &mut |step| {
        numbers.push(step.number);
        std::thread::sleep(Duration::from_millis(25));
        Ok(())
    })
    .unwrap();
    live.stop().unwrap();
    let input = live.report().input;
    assert!(
        input.behind > 20 && input.skipped >= input.behind,
        "{input:?}"
    );
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(
        told.is_equal() && told.compared == numbers.len() as u64,
        "{told:?}"
    );
    assert_eq!(told.input, input);
}
