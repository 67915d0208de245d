//! Room of a recording's segments: taken from the disk before the first step, and given back.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use betz_live::record::Recorder;
use betz_live::{Live, Replay, Until};
use rustix::fs::{FallocateFlags, fallocate};

use super::rigs::{self, ALWAYS, Small};
use super::{open, system};

/// Bytes of a segment.
const SEGMENT: u64 = 1 << 20;
/// More bytes than a file takes beside its content.
const FEW: u64 = 1 << 16;

/// Bytes of the disk that a file has, whatever its length.
fn room(file: &Path) -> u64 {
    512 * std::fs::metadata(file).unwrap().blocks()
}

/// False on a file system that sets no room aside.
fn gives_room(folder: &Path) -> bool {
    let probe = File::create(folder.join("probe")).unwrap();
    fallocate(&probe, FallocateFlags::KEEP_SIZE, 0, 1 << 12).is_ok()
}

fn segment(live: &Live, number: u64) -> PathBuf {
    live.folder().unwrap().join(format!("{number:06}.blog"))
}

pub(super) fn a_segment_has_its_room_before_the_first_step_and_no_file_is_opened_until_its_end(
    small: &Small,
) {
    let folder = tempfile::tempdir().unwrap();
    if !gives_room(folder.path()) {
        eprintln!("skipped: this file system sets no room aside");
        return;
    }
    let mut live = open(small, 1000, folder.path(), &["record.segment_mib=1"]);
    let one = Until {
        steps: Some(1),
        ..ALWAYS
    };
    // Opened, and no step made: the first one is not there yet.
    assert!(live.wait(&one).unwrap());
    assert_eq!(live.report().input.steps, 0);
    let first = segment(&live, 0);
    assert!((SEGMENT..SEGMENT + FEW).contains(&room(&first)));
    let opened = system::opened_files();
    // 20 blocks of 1,488 bytes per step: 30 steps stay below a segment, and all of them are waited for.
    for _ in 0..30 {
        live.run(&one, &mut |_| Ok(())).unwrap();
        assert_eq!(system::opened_files(), opened);
    }
    while live.report().recorder.unwrap().written < 30 * 20 * 1_488 {
        std::thread::yield_now();
    }
    assert_eq!(system::opened_files(), opened);
    assert!((SEGMENT..SEGMENT + FEW).contains(&room(&first)));
    // The next segment is made once, at the end of this one.
    for steps in [38, 40] {
        while live.report().input.steps < steps {
            live.run(&one, &mut |_| Ok(())).unwrap();
        }
        while live.report().recorder.unwrap().written < steps * 20 * 1_488 {
            std::thread::yield_now();
        }
    }
    live.stop().unwrap();
    assert_eq!(system::opened_files(), opened + 1);
    for number in 0..2 {
        let path = segment(&live, number);
        let length = std::fs::metadata(&path).unwrap().len();
        let room = room(&path);
        assert!(
            length > 0 && room < length + FEW,
            "segment {number}: {room} for {length}"
        );
    }
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(told.is_equal() && told.damage.is_clean(), "{told:?}");
}

/// A segment of more bytes than half of what is free takes none of them beforehand.
pub(super) fn a_disk_with_little_room_is_left_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder: Recorder = rigs::recorder(folder.path(), 1 << 20, 1 << 50).unwrap();
    assert!(room(&folder.path().join("000000.blog")) < FEW);
    recorder.configuration(0, "{}", 1);
    recorder.end(2).unwrap();
}
