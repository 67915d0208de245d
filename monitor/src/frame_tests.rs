//! Frames written and read, cut short at every byte, and compared with the files of the page's own tests
//! (tests/golden).

use super::*;
use proptest::prelude::*;

/// A frame that has every section.
fn full() -> Bytes {
    let mut w = Writer::new(Kind::Step, 7, 3, 1_000_000_000_123, 5, 64);
    w.u16(Section::SPIKE_TICK, &[0, 2, 4]);
    w.spike_channels(3, &[2, 0, 1]);
    w.f32(Section::ESTIMATE, &[1.5, -2.0, 3.25, f32::NAN]);
    w.f32(Section::TRUTH, &[1.0, 2.0, 3.0, 4.0]);
    let mut latency = [0; BUCKETS];
    latency[latency_bucket(1_000)] = 4;
    w.u32(Section::LATENCY, &latency);
    w.u64(Section::COUNTERS, &[10, 20, 1, 2, 3, 4, 5, 6]);
    w.u16(Section::SLOW, &[STEP_BEFORE, 0, 0x1234, 0x0005, 2, 0, 7, 0]);
    w.u16(Section::ROW_TICK, &[0, 4]);
    w.f32(Section::RATES, &[0.5, 20.0, 0.0]);
    w.u16(Section::TRIALS, &[4]);
    w.bytes(Section(999), b"a section of tomorrow");
    w.finish()
}

fn event() -> Bytes {
    let mut w = Writer::new(Kind::Event, 8, 3, -5, 0, 64);
    w.bytes(
        Section::EVENT,
        "{\"type\":\"mark\",\"text\":\"grüße\"}".as_bytes(),
    );
    w.finish()
}

fn cells() -> Bytes {
    let mut w = Writer::new(Kind::Again, 9, 70_000, 50, 4, 64);
    w.spike_channels(70_000, &[69_999, 65_536]);
    w.u16(Section::SPIKE_TICK, &[1, 3]);
    let mut cells: Vec<u8> = [2u16, 2, 2, 0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    cells.extend([1, 0, 0, 255]);
    w.bytes(Section::CELLS, &cells);
    w.finish()
}

/// Edges of a window.
fn network() -> Bytes {
    let mut w = Writer::new(Kind::Network, 0, 4, 2, 3, 64);
    w.u32(Section::NODE_I, &[0, 1, 0]);
    w.u32(Section::NODE_J, &[1, 3, 3]);
    w.f32(Section::VALUE, &[0.9, -0.5, 0.25]);
    w.u32(Section::UNDEFINED, &[2]);
    w.finish()
}

#[test]
fn the_golden_files_are_what_is_written() {
    let joined = [full(), event(), cells()].concat();
    for (name, bytes) in [
        ("step.bin", full().to_vec()),
        ("message.bin", joined),
        ("network.bin", network().to_vec()),
    ] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(name);
        if std::env::var_os("BETZ_WRITE_GOLDEN").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
    }
}

#[test]
fn what_was_written_is_read() {
    let message = [full(), event(), cells()].concat();
    let all = Frame::read_all(&message).unwrap();
    assert_eq!(all.iter().map(|f| f.kind).collect::<Vec<_>>(), [1, 2, 5]);
    let f = &all[0];
    assert_eq!(
        (f.sequence, f.channels, f.first, f.ticks),
        (7, 3, 1_000_000_000_123, 5)
    );
    assert_eq!(f.u16(Section::SPIKE_TICK).collect::<Vec<_>>(), [0, 2, 4]);
    assert_eq!(f.spike_channels(), [2, 0, 1]);
    assert_eq!(
        f.u64(Section::COUNTERS).collect::<Vec<_>>(),
        [10, 20, 1, 2, 3, 4, 5, 6]
    );
    let estimates: Vec<f32> = f.f32(Section::ESTIMATE).collect();
    assert!(estimates[..3] == [1.5, -2.0, 3.25] && estimates[3].is_nan());
    assert_eq!(
        f.section(Section::SPIKE_TICK, 4),
        b"",
        "another size is another section"
    );
    assert_eq!(all[1].first, -5);
    assert_eq!(all[2].spike_channels(), [69_999, 65_536]);
}

#[test]
fn arrays_begin_at_multiples_of_eight() {
    let frame = full();
    let begin = frame.as_ptr() as usize;
    for (id, _, data) in Frame::read(&frame).unwrap().0.sections {
        assert_eq!((data.as_ptr() as usize - begin) % 8, 0, "{id:?}");
    }
}

#[test]
fn what_is_cut_short_is_refused_at_every_byte() {
    let frame = full();
    for len in 0..frame.len() {
        let error = Frame::read(&frame[..len]).unwrap_err();
        assert!(error.message().contains("cut short"), "{len}: {error}");
    }
}

#[test]
fn sizes_that_are_only_claimed_are_not_believed() {
    let mut frame = full().to_vec();
    frame[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Frame::read(&frame).is_err());
    let mut frame = full().to_vec();
    frame[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Frame::read(&frame).is_err());
    let mut frame = full().to_vec();
    frame[4] = 2;
    assert!(
        Frame::read(&frame)
            .unwrap_err()
            .message()
            .contains("version 1, got 2")
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_fall(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..400, with in any::<u8>()) {
        let _ = Frame::read_all(&bytes);
        let mut frame = full().to_vec();
        let at = at % frame.len();
        frame[at] = with;
        let _ = Frame::read_all(&frame);
    }

    #[test]
    fn any_spikes_there_and_back(ticks in proptest::collection::vec(any::<u16>(), 0..50), channels in 1u32..200_000, first in any::<i64>()) {
        let of: Vec<u32> = ticks.iter().map(|&t| u32::from(t) % channels).collect();
        let mut w = Writer::new(Kind::Step, 0, channels, first, 1, 0);
        w.u16(Section::SPIKE_TICK, &ticks).spike_channels(channels, &of);
        let bytes = w.finish();
        let (frame, rest) = Frame::read(&bytes).unwrap();
        prop_assert!(rest.is_empty());
        prop_assert_eq!(frame.first, first);
        prop_assert_eq!(frame.u16(Section::SPIKE_TICK).collect::<Vec<_>>(), ticks);
        prop_assert_eq!(frame.spike_channels(), of);
    }
}

#[test]
fn latency_buckets_are_quarters_of_octaves() {
    for bucket in 0..BUCKETS - 1 {
        let [begin, end] = [bucket, bucket + 1].map(|b| 64.0 * (b as f64 / 4.0).exp2());
        for ns in [
            begin.ceil() as u32,
            ((begin + end) / 2.0) as u32,
            end.ceil() as u32 - 1,
        ] {
            let got = latency_bucket(ns);
            assert!(
                got == bucket || f64::from(ns) < begin + 1.0,
                "{ns} ns: {got}, not {bucket}"
            );
        }
    }
    assert_eq!(
        (
            latency_bucket(0),
            latency_bucket(64),
            latency_bucket(u32::MAX)
        ),
        (0, 0, BUCKETS - 1)
    );
}
