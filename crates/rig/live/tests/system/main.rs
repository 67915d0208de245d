//! A session on a system that misbehaves: this program brings its own allocator, wall clock and `write`.

#![allow(clippy::unwrap_used, clippy::expect_used)]
#![cfg(target_os = "linux")]

mod disk;
#[path = "../live/rigs.rs"]
#[allow(dead_code)]
mod rigs;
mod room;
mod system;

use betz_live::{Live, Pace, Part, Replay, Until};
use rigs::{ALWAYS, ListRig, Small};
use std::path::Path;

fn open(small: &Small, blocks: usize, to: &Path, more: &[&str]) -> Live {
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), blocks)
            .into_iter(),
    };
    let record = format!("record.to={:?}", to.to_str().unwrap());
    let changes = [&["missing.stale_after=10000h", record.as_str()], more].concat();
    let mut live =
        Live::with_rig(rigs::plan(&changes), small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    live
}

/// The next `steps` of a session, without a copy of them.
fn run(live: &mut Live, steps: u64) {
    let some = Until {
        steps: Some(steps),
        ..ALWAYS
    };
    live.run(&some, &mut |_| Ok(())).unwrap();
}

/// One test, because the system is one.
#[test]
fn a_session_goes_on_while_the_system_misbehaves() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    the_loop_of_a_session_that_is_kept_allocates_nothing(&small);
    room::a_segment_has_its_room_before_the_first_step_and_no_file_is_opened_until_its_end(&small);
    room::a_disk_with_little_room_is_left_what_it_has();
    a_wall_clock_that_jumps_changes_nothing(&small);
    a_disk_that_hangs_costs_frames_that_are_counted_and_no_step(&small);
    a_session_that_ends_while_the_ring_is_full_says_so(&small);
    disk::a_full_disk_keeps_what_is_small_and_every_step(&small);
    disk::a_reserve_that_is_too_small_ends_the_recording_and_not_the_session(&small);
    disk::a_full_disk_ends_a_session_that_must_record(&small);
    disk::a_disk_that_fails_is_an_error_at_the_end(&small);
}

fn the_loop_of_a_session_that_is_kept_allocates_nothing(small: &Small) {
    let folder = tempfile::tempdir().unwrap();
    let everything = [
        "learn.mode=watch",
        "recalibrate.mode=suggest",
        "outputs.to=[\"udp://127.0.0.1:9\"]",
        "outputs.clamp=[[-1, 1], [-1, 1]]",
        "outputs.slew=[0.2, 0.2]",
        "outputs.hold={ hold = \"0.2s\", decay = \"0.5s\" }",
        "outputs.deadline=1ms",
    ];
    let mut live = open(small, 6000, folder.path(), &everything);
    live.keep().unwrap();
    // Past the first laps of the rings, and past a checkpoint.
    run(&mut live, 120);
    let before = system::allocations_of_this_thread();
    run(&mut live, 120);
    let allocated = system::allocations_of_this_thread() - before;
    let (mut checkpoints, mut reader) = (0, {
        live.stop().unwrap();
        betz_live::record::Reader::open(live.folder().unwrap()).unwrap()
    });
    while let Some(record) = reader.next_record().unwrap() {
        if let betz_live::record::Record::Checkpoint { .. } = record {
            checkpoints += 1;
        }
    }
    assert!(checkpoints >= 4, "{checkpoints}");
    assert_eq!(allocated, 0);
}

fn a_wall_clock_that_jumps_changes_nothing(small: &Small) {
    let steps = |jumps: bool| {
        let folder = tempfile::tempdir().unwrap();
        system::jump(jumps);
        let mut live = open(small, 1000, folder.path(), &[]);
        let steps = rigs::run(&mut live);
        live.stop().unwrap();
        system::jump(false);
        let told = Replay::open(live.folder().unwrap())
            .unwrap()
            .run(&mut |_| Ok(()))
            .unwrap();
        assert!(told.is_equal(), "{told:?}");
        assert_eq!(live.report().input.stale, 0);
        steps
    };
    assert_eq!(steps(true), steps(false));
}

fn a_disk_that_hangs_costs_frames_that_are_counted_and_no_step(small: &Small) {
    let folder = tempfile::tempdir().unwrap();
    let mut live = open(small, 8000, folder.path(), &[]);
    run(&mut live, 20);
    let counts = {
        let _hang = system::hang();
        // At least two fifths of the ring are full when the session looks next, and there is room for a line of the log.
        run(&mut live, 120);
        std::thread::sleep(std::time::Duration::from_millis(110));
        run(&mut live, 130);
        live.report().recorder.unwrap()
    };
    // 250 steps of 20 blocks of 1,488 bytes. The ring holds 5.76 MB, and the writer has taken at most another MiB: 423
    // blocks are too many, however fast the two threads are.
    assert!(
        counts.unrecorded > 400 && counts.fullest > 0.9,
        "{counts:?}"
    );
    // A third of the ring is written; then there is room again.
    while live.report().recorder.unwrap().written < 2 << 20 {
        std::thread::yield_now();
    }
    run(&mut live, 100);
    live.stop().unwrap();
    let report = live.report();
    assert_eq!((report.input.steps, report.input.stale), (370, 0));
    let crossed = live.crossed();
    assert!(crossed[0].starts_with("limits.unrecorded"), "{crossed:?}");
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    let log = std::fs::read_to_string(live.folder().unwrap().join("log.jsonl")).unwrap();
    assert!(log.contains("\"what\":\"slow-disk\",\"fill\":0."), "{log}");
    // The recording says where frames are missing; nothing before differs.
    let unrecorded = report.recorder.unwrap().unrecorded;
    assert_eq!(told.damage.unrecorded, unrecorded);
    assert!(told.damage.places == 0 && told.damage.ended, "{told:?}");
    assert!(told.different == 0 && told.not_compared > 0, "{told:?}");
}

fn a_session_that_ends_while_the_ring_is_full_says_so(small: &Small) {
    let folder = tempfile::tempdir().unwrap();
    let mut live = open(small, 8000, folder.path(), &[]);
    // The first step makes the recording's folder.
    run(&mut live, 1);
    {
        let _hang = system::hang();
        run(&mut live, 300);
    }
    live.stop().unwrap();
    let unrecorded = live.report().recorder.unwrap().unrecorded;
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(unrecorded > 0 && told.damage.unrecorded == unrecorded);
    assert!(told.damage.ended, "{told:?}");
}
