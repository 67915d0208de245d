use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::archive::ArchiveWriter;
use super::*;
use crate::npz::number::Element;
use crate::{OutputInfo, Segment};

/// A recording and how it is cut.
#[derive(Debug, Clone)]
struct Case {
    recording: Recording,
    step_seconds: f64,
    gap: Option<f64>,
    most: u64,
    most_steps: i64,
}

fn case() -> impl Strategy<Value = Case> {
    let spikes = prop::collection::vec((0..400_i64, 0..3_u32), 0..120);
    let times = prop::collection::vec(0.0..0.5_f64, 1..60);
    let bounds = prop::collection::btree_set(0..=400_i64, 2..8);
    // Ticks per step: two whole numbers, and one that is not whole.
    let step = prop_oneof![Just(1.0), Just(4.0), Just(7.3)];
    let kind = (0..3_u8, any::<bool>(), prop::option::of(0.01..0.2_f64));
    // Samples without one of their outputs; the last sample keeps both.
    let holes = prop::collection::vec((0..400_usize, 0..60_usize, 0..2_usize), 0..5);
    let cut = (1..60_u64, 1..40_i64);
    (spikes, times, bounds, step, kind, cut, holes).prop_map(
        |(spikes, times, bounds, ticks_a_step, (form, timed, gap), (most, most_steps), holes)| {
            let (mut spikes, mut times) = (spikes, times);
            spikes.sort_unstable();
            times.sort_by(f64::total_cmp);
            let form = [SpikeForm::Events, SpikeForm::Counts, SpikeForm::Signal][usize::from(form)];
            let ticks_a_step = if form == SpikeForm::Events {
                ticks_a_step
            } else {
                f64::max(1.0, f64::floor(ticks_a_step))
            };
            if form != SpikeForm::Events {
                spikes.dedup();
            }
            let bounds: Vec<i64> = bounds.into_iter().collect();
            let segments = bounds.chunks_exact(2).map(|b| Segment {
                start: b[0],
                stop: b[1],
            });
            let samples = if timed { times.len() } else { 400 };
            let mut values: Vec<f32> = (0..samples * 2).map(|i| (i as f32 * 0.37).sin()).collect();
            for (first, length, output) in holes {
                let last = (first + length).min(samples - 1);
                for sample in first..last {
                    values[sample * 2 + output] = f32::NAN;
                }
            }
            let weights = match form {
                SpikeForm::Events => Vec::new(),
                _ => (0..spikes.len()).map(|i| 1.0 + (i % 3) as f32).collect(),
            };
            let recording = Recording {
                tick_seconds: 0.001,
                ticks: 400,
                spikes: Spikes {
                    ticks: spikes.iter().map(|s| s.0).collect(),
                    channels: spikes.iter().map(|s| s.1).collect(),
                    weights,
                },
                channel_names: ["a", "b", "c"].map(String::from).to_vec(),
                behavior: Some(Behavior {
                    outputs: vec![OutputInfo::from("x"), OutputInfo::from("y")],
                    values,
                    times: timed.then_some(times),
                }),
                segments: segments.collect(),
                electrode_um: None,
                form,
                meta: None,
            };
            Case {
                recording,
                step_seconds: ticks_a_step * 0.001,
                gap,
                most,
                most_steps,
            }
        },
    )
}

fn written(recording: &Recording) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.npz");
    recording.write_npz(&path).unwrap();
    (folder, path)
}

/// Copies the archive at `path` with its arrays stored plainly.
fn stored(path: &Path) -> PathBuf {
    use std::io::Read;
    let plain = path.with_extension("plain.npz");
    let mut from = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut to = zip::ZipWriter::new(std::fs::File::create(&plain).unwrap());
    for i in 0..from.len() {
        let mut member = from.by_index(i).unwrap();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        to.start_file(member.name().unwrap(), options).unwrap();
        std::io::Write::write_all(&mut to, &bytes).unwrap();
    }
    to.finish().unwrap();
    plain
}

/// Expected chunk: `whole` between the steps `from` and `to`.
fn cut(whole: &Dataset, from: i64, to: i64) -> Dataset {
    let range = whole.spikes.range(from, to);
    let mut spikes = Spikes::default();
    spikes.extend_from(&whole.spikes, range);
    spikes.ticks.iter_mut().for_each(|tick| *tick -= from);
    let within = |s: &Segment| Segment {
        start: s.start.max(from) - from,
        stop: s.stop.min(to) - from,
    };
    let outputs = whole.outputs.len();
    Dataset {
        steps: (to - from) as usize,
        spikes,
        segments: whole
            .segments
            .iter()
            .map(within)
            .filter(|s| !s.is_empty())
            .collect(),
        behavior: whole.behavior[from as usize * outputs..to as usize * outputs].to_vec(),
        ..whole.clone()
    }
}

fn as_the_whole(case: &Case, path: &Path) {
    let read = Recording::read_npz(path).unwrap();
    let mut stretches = Stretches::open(path).unwrap();
    spikes_as_the_whole(case, &read, &mut stretches);
    let options = AlignOptions {
        step_seconds: case.step_seconds,
        max_gap_seconds: case.gap,
    };
    if let Ok(whole) = read.align_with(&options) {
        steps_as_the_whole(case, &options, whole, &mut stretches);
    }
}

fn spikes_as_the_whole(case: &Case, read: &Recording, stretches: &mut Stretches) {
    let mut spikes = Spikes::default();
    // Two adjacent ranges of ticks, cut separately, cover the recording from end to end.
    let middle = read.ticks / 3;
    let mut cuts = stretches.cut_between(0..middle, case.most).unwrap();
    assert_eq!((cuts[0], cuts.pop()), (0, Some(middle)));
    cuts.extend(
        stretches
            .cut_between(middle..read.ticks, case.most)
            .unwrap(),
    );
    assert_eq!(cuts.last(), Some(&read.ticks));
    let whole = stretches.cut(case.most).unwrap();
    assert_eq!((whole[0], whole.last()), (0, Some(&read.ticks)));
    for ends in cuts.windows(2).chain(whole.windows(2)) {
        assert!(ends[0] < ends[1]);
    }
    for ends in cuts.windows(2) {
        let part = stretches.spikes(ends[0], ends[1]).unwrap();
        let entries = match read.form {
            SpikeForm::Events => part.len() as u64,
            _ => (ends[1] - ends[0]) as u64 * 3,
        };
        assert!(entries <= case.most || ends[1] == ends[0] + 1);
        // If no bin of a chunk has more than one spike, it needs no weights.
        let weights = (0..part.len()).map(|i| part.weight(i));
        spikes.ticks.extend(&part.ticks);
        spikes.channels.extend(&part.channels);
        spikes.weights.extend(weights);
    }
    let weights: Vec<f32> = (0..read.spikes.len())
        .map(|i| read.spikes.weight(i))
        .collect();
    assert_eq!(
        (&spikes.ticks, &spikes.channels),
        (&read.spikes.ticks, &read.spikes.channels)
    );
    assert_eq!(spikes.weights, weights);
}

fn steps_as_the_whole(
    case: &Case,
    options: &AlignOptions,
    (whole, report): (Dataset, AlignReport),
    stretches: &mut Stretches,
) {
    assert_eq!(stretches.steps(options).unwrap(), whole.steps as i64);
    let cuts = stretches
        .cut_steps(options, case.most, case.most_steps)
        .unwrap();
    assert_eq!(*cuts.last().unwrap(), whole.steps as i64);
    let expected = AlignReport {
        spikes_outside: 0,
        ..report
    };
    assert_eq!(stretches.align_report(options, &cuts).unwrap(), expected);
    for ends in cuts.windows(2) {
        let mut part = stretches.dataset(options, ends[0]..ends[1]).unwrap();
        let mut expected = cut(&whole, ends[0], ends[1]);
        // Weights that are all equal may be present or absent.
        for data in [&mut part, &mut expected] {
            if data.spikes.weights.iter().all(|&w| w == 1.0) {
                data.spikes.weights.clear();
            }
        }
        let outside = |i: usize, data: &Dataset| {
            let step = (i / 2) as i64;
            !data
                .segments
                .iter()
                .any(|s| (s.start..s.stop).contains(&step))
        };
        // Outside segments, behaviour is the nearest loaded sample.
        for i in 0..part.behavior.len() {
            if outside(i, &expected) {
                part.behavior[i] = 0.0;
                expected.behavior[i] = 0.0;
            }
        }
        assert_eq!(part, expected, "steps {ends:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn stretches_are_what_the_whole_holds_there(case in case()) {
        let (_folder, path) = written(&case.recording);
        as_the_whole(&case, &path);
        as_the_whole(&case, &stored(&path));
    }
}

#[test]
fn channels_are_seen_as_in_the_whole() {
    let recording = Recording {
        tick_seconds: 0.001,
        ticks: 40,
        spikes: Spikes::new((0..40).collect(), (0..40).map(|i| i % 3).collect()),
        channel_names: ["a", "b", "c"].map(String::from).to_vec(),
        behavior: None,
        segments: vec![
            Segment { start: 5, stop: 30 },
            Segment {
                start: 31,
                stop: 40,
            },
        ],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    let (_folder, path) = written(&recording);
    let options = AlignOptions {
        step_seconds: 0.002,
        max_gap_seconds: None,
    };
    let check = |mut stretches: Stretches, whole: Recording| {
        let whole = whole.align(0.002).unwrap();
        assert_eq!(stretches.outline().channel_names, whole.channel_names);
        assert_eq!(
            stretches.dataset(&options, 3..17).unwrap(),
            cut(&whole, 3, 17)
        );
    };
    let open = || Stretches::open(&path).unwrap();
    let wanted = ["c", "a"].map(String::from);
    check(
        open().with_channels(&wanted).unwrap(),
        recording.clone().with_channels(&wanted).unwrap(),
    );
    let groups = [vec![2, 0], vec![1]];
    check(
        open().combine(&groups).unwrap(),
        recording.combine(&groups).unwrap(),
    );
    let second = vec![recording.segments[1]];
    let whole = Recording {
        segments: second.clone(),
        ..recording.clone()
    };
    check(open().with_segments(second).unwrap(), whole);
    assert!(open().with_channels(&["d".to_owned()]).is_err());
    assert!(
        open()
            .with_segments(vec![Segment { start: 0, stop: 41 }])
            .is_err()
    );
}

#[test]
fn a_matrix_in_fortran_order_is_read_in_stretches_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fortran.npz");
    let (bins, channels) = (50_usize, 4);
    let count = |bin: usize, channel: usize| u8::from((bin * 7 + channel * 3).is_multiple_of(5));
    let counts: Vec<u8> = (0..channels)
        .flat_map(|c| (0..bins).map(move |b| count(b, c)))
        .collect();
    let mut archive = ArchiveWriter::new(std::fs::File::create(&path).unwrap());
    archive
        .start("counts", u8::DESCR, &[bins, channels])
        .unwrap();
    archive.push(&counts).unwrap();
    archive.write("step_seconds", &[], &[0.01_f64]).unwrap();
    archive.finish().unwrap();
    // The header says C order; data of the same length in Fortran order mean other values.
    let plain = stored(&path);
    let mut bytes = std::fs::read(&plain).unwrap();
    let at = bytes.windows(5).position(|w| w == b"False").unwrap();
    bytes[at..at + 5].copy_from_slice(b"True ");
    let from = bytes.windows(6).position(|w| w == b"\x93NUMPY").unwrap();
    let header = u16::from_le_bytes([bytes[from + 8], bytes[from + 9]]) as usize + 10;
    let crc = crc(&bytes[from..from + header + bins * channels]);
    // Both places where a zip stores the checksum of its first member.
    bytes[14..18].copy_from_slice(&crc.to_le_bytes());
    let central = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    bytes[central + 16..central + 20].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&plain, bytes).unwrap();
    let whole = Recording::read_npz(&plain).unwrap();
    let mut stretches = Stretches::open(&plain).unwrap();
    let mut ticks = Vec::new();
    for ends in stretches.cut(3 * 4).unwrap().windows(2) {
        ticks.extend(stretches.spikes(ends[0], ends[1]).unwrap().ticks);
    }
    assert_eq!(ticks, whole.spikes.ticks);
}

#[test]
fn an_archive_is_told_from_others_by_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let fingerprint = |name: &str, channel: u32| {
        let path = folder.path().join(name);
        let recording = Recording {
            tick_seconds: 0.001,
            ticks: 1_000,
            spikes: Spikes::new((0..1_000).collect(), vec![channel; 1_000]),
            channel_names: vec!["a".into(), "b".into()],
            behavior: None,
            segments: vec![Segment {
                start: 0,
                stop: 1_000,
            }],
            electrode_um: None,
            form: SpikeForm::Events,
            meta: None,
        };
        recording.write_npz(&path).unwrap();
        Stretches::open(&path).unwrap().fingerprint().unwrap()
    };
    let first = fingerprint("first.npz", 0);
    assert_eq!(first, fingerprint("copy.npz", 0));
    assert_ne!(first, fingerprint("other.npz", 1));
}

/// CRC-32 of the zip format, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn what_cannot_be_read_in_stretches_is_said() {
    let recording = Recording {
        tick_seconds: 0.001,
        ticks: 20,
        spikes: Spikes::new(vec![1, 5, 9], vec![0, 1, 0]),
        channel_names: vec!["a".into(), "b".into()],
        behavior: None,
        segments: vec![Segment { start: 0, stop: 20 }],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    let (_folder, path) = written(&recording);
    let plain = stored(&path);
    let mut stretches = Stretches::open(&plain).unwrap();
    let options = |step_seconds| AlignOptions {
        step_seconds,
        max_gap_seconds: None,
    };
    assert!(stretches.dataset(&options(0.001), 10..21).is_err());
    assert!(stretches.steps(&options(0.0001)).is_err());
    assert!(stretches.steps(&options(1.0)).is_err());
    // The checksum detects a changed byte of a spike's tick.
    let mut bytes = std::fs::read(&plain).unwrap();
    let at = bytes
        .windows(17)
        .position(|w| w == [1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9])
        .unwrap();
    bytes[at] = 7;
    std::fs::write(&plain, bytes).unwrap();
    let error = Stretches::open(&plain).err().unwrap();
    assert!(error.message().contains("spike_ticks"), "{error}");
    let error = Stretches::open(Path::new("/dev/null")).err().unwrap();
    assert!(error.message().contains("in chunks"), "{error}");
}

#[test]
fn behaviour_comes_as_it_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.npz");
    let whole = Recording {
        tick_seconds: 0.01,
        ticks: 5,
        spikes: Spikes::new(vec![1], vec![0]),
        channel_names: vec!["a".into()],
        behavior: Some(Behavior {
            outputs: vec!["x".into(), "y".into()],
            values: (0..10).map(|i| i as f32).collect(),
            times: Some(vec![-1.0, 0.0, 0.5, 0.5, 7.0]),
        }),
        segments: vec![Segment { start: 0, stop: 5 }],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: None,
    };
    whole.write_npz(&path).unwrap();
    let mut stretches = Stretches::open(&path).unwrap();
    assert_eq!(stretches.samples(), 5);
    assert_eq!(stretches.behavior(0..99).unwrap(), whole.behavior);
    let some = stretches.behavior(3..5).unwrap().unwrap();
    assert_eq!(some.values, [6.0, 7.0, 8.0, 9.0]);
    assert_eq!(some.times.unwrap(), [0.5, 7.0]);
    assert!(stretches.behavior(5..9).unwrap().unwrap().values.is_empty());
    let without = Recording {
        behavior: None,
        ..whole
    };
    without.write_npz(&path).unwrap();
    let mut stretches = Stretches::open(&path).unwrap();
    assert_eq!(
        (stretches.samples(), stretches.behavior(0..1).unwrap()),
        (0, None)
    );
}
