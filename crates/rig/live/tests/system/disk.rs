//! A disk that is full, or fails, at any byte.

use std::path::Path;

use betz_live::record::{Damage, Disk, Reader, Record};
use betz_live::{Live, Replay, Until};
use betz_runtime::stream::StepStatus;

use super::rigs::{ALWAYS, Small};
use super::system::{EIO, ENOSPC, small_disk};
use super::{open, run};

/// Steps of a session, and blocks of 1,488 bytes in them.
const STEPS: u64 = 40;
const BLOCKS: u64 = 20 * STEPS;

/// Until one step is made.
const ONE: Until<'static> = Until {
    steps: Some(1),
    ..ALWAYS
};

/// A session on a disk with `room` bytes after its first step.
fn session(small: &Small, to: &Path, room: u64, reserve: u64, more: &[&str]) -> Live {
    let mut live = open(small, BLOCKS as usize, to, more);
    run(&mut live, 1);
    let _small = small_disk(room, reserve, ENOSPC);
    run(&mut live, STEPS);
    live.stop().unwrap();
    live
}

/// Recorded blocks and steps, and damage.
fn read(live: &Live) -> (u64, u64, Damage) {
    let mut reader = Reader::open(live.folder().unwrap()).unwrap();
    let (mut blocks, mut steps) = (0, 0);
    while let Some(record) = reader.next_record().unwrap() {
        blocks += u64::from(matches!(record, Record::Block(..)));
        steps += u64::from(matches!(record, Record::Step { .. }));
    }
    (blocks, steps, reader.damage())
}

/// The disk is full at bytes that lie everywhere in frames.
pub(super) fn a_full_disk_keeps_what_is_small_and_every_step(small: &Small) {
    for room in (0..1_000_000).step_by(67_891) {
        let folder = tempfile::tempdir().unwrap();
        let live = session(small, folder.path(), room, 1 << 20, &[]);
        let report = live.report();
        let counts = report.recorder.unwrap();
        assert_eq!((report.input.steps, counts.disk), (STEPS, Disk::KeepsSmall));
        let (blocks, steps, damage) = read(&live);
        assert!(blocks >= room / 1500 && blocks < BLOCKS, "{room}: {blocks}");
        assert_eq!(steps, STEPS, "{room}");
        assert_eq!(damage.unrecorded, BLOCKS - blocks, "{room}: {damage:?}");
        assert_eq!(damage.unrecorded, counts.unrecorded, "{room}");
        // All whole frames are read; only the one that was cut off is left behind, and written again.
        assert!(damage.places == 0 && damage.missing == 0 && damage.torn <= 1);
        assert!(damage.ended, "{room}: {damage:?}");
        let log = std::fs::read_to_string(live.folder().unwrap().join("log.jsonl")).unwrap();
        let full = "\"what\":\"disk\",\"state\":\"keeps-small\"}";
        assert_eq!(log.matches(full).count(), 1, "{room}: {log}");
        assert!(log.contains("\"what\":\"end\"}\n"), "{room}: {log}");
        let crossed = live.crossed();
        assert!(crossed[0].starts_with("limits.unrecorded"), "{crossed:?}");
        let told = Replay::open(live.folder().unwrap())
            .unwrap()
            .run(&mut |_| Ok(()))
            .unwrap();
        assert!(told.different == 0 && told.not_compared > 0, "{told:?}");
    }
}

pub(super) fn a_reserve_that_is_too_small_ends_the_recording_and_not_the_session(small: &Small) {
    for (reserve, on_full) in [(900, "keep-small"), (1 << 20, "stop-recording")] {
        let folder = tempfile::tempdir().unwrap();
        let set = format!("record.on_full={on_full}");
        let live = session(small, folder.path(), 100_000, reserve, &[&set]);
        let report = live.report();
        let counts = report.recorder.unwrap();
        assert_eq!((report.input.steps, counts.disk), (STEPS, Disk::Full));
        let (blocks, steps, damage) = read(&live);
        assert!(blocks > 60 && steps < STEPS, "{blocks}, {steps}");
        assert!(damage.places == 0 && damage.missing == 0, "{damage:?}");
        assert!(damage.ended && damage.torn <= 2, "{damage:?}");
        // All but the end itself, which the recording has.
        assert_eq!(damage.unrecorded, counts.unrecorded - 1, "{damage:?}");
        assert!(!damage.is_clean());
        // Configuration, blocks, steps and the end were handed over.
        let recorded = counts.frames - counts.unrecorded;
        assert_eq!(recorded, 1 + blocks + steps, "{counts:?}");
    }
}

pub(super) fn a_full_disk_ends_a_session_that_must_record(small: &Small) {
    let folder = tempfile::tempdir().unwrap();
    let mut live = open(small, 8000, folder.path(), &["record.on_full=stop"]);
    run(&mut live, 1);
    let _small = small_disk(100_000, 0, ENOSPC);
    let (mut newest, mut ended) = (None, Ok(()));
    while ended.is_ok() {
        ended = live.run(&ONE, &mut |step| {
            newest = Some((step.status, step.values.to_vec()));
            Ok(())
        });
    }
    let error = ended.unwrap_err();
    assert!(
        error.message().ends_with("the disk is full")
            && error
                .message()
                .contains("record.on_full: expected a disk that records"),
        "{error}"
    );
    let (status, values) = newest.unwrap();
    assert!(status.contains(StepStatus::AT_REST) && values == [0.0, 0.0]);
    live.stop().unwrap();
    assert_eq!(read(&live).2.places, 0);
}

pub(super) fn a_disk_that_fails_is_an_error_at_the_end(small: &Small) {
    let folder = tempfile::tempdir().unwrap();
    let mut live = open(small, BLOCKS as usize, folder.path(), &[]);
    run(&mut live, 1);
    let _small = small_disk(200_000, 1 << 20, EIO);
    run(&mut live, STEPS);
    let error = live.stop().unwrap_err();
    assert!(error.message().contains("000000.blog"), "{error}");
    assert_eq!(live.report().input.steps, STEPS);
    let (blocks, _, damage) = read(&live);
    assert!(blocks >= 120 && damage.places == 0, "{blocks}: {damage:?}");
}
