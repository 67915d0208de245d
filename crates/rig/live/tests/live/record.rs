use std::path::Path;

use betz_rigs::rig::{Block, Loss, RigSpike, Samples};
use betz_runtime::stream::StepStatus;

use betz_live::Step;
use betz_live::record::{Damage, Reader, Record};

use super::rigs;

fn block(first: u64, samples: Samples) -> Block {
    Block {
        epoch: 0,
        first,
        rows: 2,
        host_ns: 7,
        lost_before: Loss::default(),
        samples,
    }
}

fn write(folder: &Path, segment: u64) -> Vec<Record> {
    let mut recorder = rigs::recorder(folder, 1 << 20, segment).unwrap();
    let mut records = Vec::new();
    recorder.configuration(0, "{}", 1);
    records.push(Record::Configuration(0, "{}".into()));
    for i in 0..50 {
        let mut voltage = block(2 * i, Samples::Voltage(vec![i as i16, -1, 2, i16::MIN]));
        if i % 7 == 0 {
            voltage.lost_before = Loss {
                count: i + 1,
                at_least: i % 2 == 0,
            };
        }
        voltage.epoch = i as u32 / 20;
        recorder.block(0, &voltage);
        records.push(Record::Block(0, voltage));
        let values = [i as f32, f32::MIN_POSITIVE];
        recorder.step(&Step {
            number: i,
            end: 2 * i + 2,
            host_ns: 7,
            status: StepStatus::STALE,
            values: &values,
        });
        records.push(Record::Step {
            number: i,
            end: 2 * i + 2,
            status: 1,
            values: values.to_vec(),
        });
    }
    recorder.stale(50, 9);
    records.push(Record::Stale(50));
    let spike = RigSpike {
        tick: 99,
        channel: 3,
        unit: 255,
    };
    for samples in [
        Samples::Spikes(vec![spike]),
        Samples::Features(vec![0.5, -1.5, 2.0, 3.0]),
    ] {
        let block = Block {
            epoch: 2,
            ..block(100, samples)
        };
        recorder.block(0, &block);
        records.push(Record::Block(0, block));
    }
    recorder.end(11).unwrap();
    records.push(Record::End);
    assert_eq!(recorder.counts().unrecorded, 0);
    records
}

fn read(folder: &Path) -> (Vec<Record>, Damage) {
    let mut reader = Reader::open(folder).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record);
    }
    (records, reader.damage())
}

#[test]
fn what_was_recorded_is_read_over_all_segments() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(folder.path(), 1 << 30);
    let (records, damage) = read(folder.path());
    assert_eq!(records, written);
    assert!(damage.is_clean() && damage.ended && damage.torn == 0);
    // One byte less than a write: each write begins a segment of its own.
    let folder = tempfile::tempdir().unwrap();
    let written = write(folder.path(), 1);
    assert_eq!(read(folder.path()).0, written);
}

#[test]
fn a_flipped_bit_costs_its_frame_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(folder.path(), 1 << 30);
    let path = folder.path().join("000000.blog");
    let whole = std::fs::read(&path).unwrap();
    // Every bit of the first frames' heads and bodies, and some of all others.
    let bits = (0..8 * 256).chain((8 * 256..8 * whole.len()).step_by(97));
    for bit in bits {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).unwrap();
        let (records, damage) = read(folder.path());
        assert!(
            !damage.is_clean() || damage.torn > 0,
            "bit {bit}: {damage:?}"
        );
        assert!(damage.missing + damage.torn <= 1, "bit {bit}: {damage:?}");
        assert!(
            records.len() + 1 >= written.len() - 1,
            "bit {bit}: {}",
            records.len()
        );
    }
}

#[test]
fn a_segment_that_comes_twice_is_read_once_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(folder.path(), 1 << 30);
    let segment = |name: &str| folder.path().join(name);
    std::fs::copy(segment("000000.blog"), segment("000001.blog")).unwrap();
    let (records, damage) = read(folder.path());
    assert_eq!(records, written);
    assert!(!damage.is_clean(), "{damage:?}");
    let length = std::fs::metadata(segment("000000.blog")).unwrap().len();
    assert_eq!((damage.places, damage.bytes), (1, length));
}

#[test]
fn a_torn_end_keeps_every_frame_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(folder.path(), 1 << 30);
    let path = folder.path().join("000000.blog");
    let whole = std::fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(13) {
        std::fs::write(&path, &whole[..length]).unwrap();
        let (records, damage) = read(folder.path());
        assert_eq!(records[..], written[..records.len()], "{length}");
        assert!(damage.is_clean() && !damage.ended, "{length}: {damage:?}");
    }
}

#[test]
fn a_full_ring_is_counted_and_told_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = rigs::recorder(folder.path(), 4096, 1 << 30).unwrap();
    // Each of these fills more than the whole ring.
    for _ in 0..3 {
        recorder.block(0, &block(0, Samples::Voltage(vec![0; 4096])));
    }
    recorder.stale(1, 0);
    recorder.end(0).unwrap();
    assert_eq!(recorder.counts().unrecorded, 3);
    let (records, damage) = read(folder.path());
    assert_eq!(
        records,
        [Record::Unrecorded(3), Record::Stale(1), Record::End]
    );
    assert_eq!((damage.unrecorded, damage.is_clean()), (3, false));
}

#[test]
fn a_recording_that_is_deleted_while_it_is_written_is_an_error_and_its_frames_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("run");
    std::fs::create_dir(&to).unwrap();
    let mut recorder = rigs::recorder(&to, 1 << 20, 1 << 20).unwrap();
    recorder.configuration(0, "{}", 1);
    for i in 0..50 {
        recorder.block(0, &block(2 * i, Samples::Voltage(vec![1, 2, 3, 4])));
    }
    while recorder.counts().written == 0 {
        std::thread::yield_now();
    }
    std::fs::remove_dir_all(&to).unwrap();
    let error = recorder.end(1).unwrap_err();
    assert!(error.message().contains("it was deleted"), "{error}");
    let counts = recorder.counts();
    assert_eq!((counts.frames, counts.unrecorded), (52, 52));
}
