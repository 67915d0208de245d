//! The model file: what is written comes back, and nothing damaged gets in.

#![allow(clippy::unwrap_used, clippy::expect_used)] // tests stop where something fails

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use betz_base::output::OutputInfo;
use betz_base::{Error, ErrorKind};
use betz_runtime::model::{
    Attachment, Blanking, Classes, Cosines, Decoder, DecoderParts, EventRule, Experts,
    FORMAT_VERSION, FilteredReadout, Gate, Head, Lift, Limits, LowPass, Markov, OutputRange,
    OutputScore, TrainingRecord, VelocityGate,
};
use betz_runtime::psc::{Filter, FilterBank};

mod layers;
mod recurrent;

/// The system's allocator, remembering this thread's largest request.
struct Watching;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.with(|l| l.set(l.get().max(layout.size())));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Every field away from its default, so that none can be left out of the file unnoticed.
fn decoder() -> Decoder {
    Decoder::new(parts()).unwrap()
}

fn parts() -> DecoderParts {
    DecoderParts {
        step_seconds: 0.01,
        bank: FilterBank::new(vec![
            Filter {
                tau_seconds: 0.05,
                order: 0,
            },
            Filter {
                tau_seconds: 0.1,
                order: 2,
            },
        ])
        .unwrap(),
        low_pass: Some(LowPass {
            order: 3,
            cutoff_hz: 7.5,
        }),
        delay_steps: -4,
        channel_names: vec!["a".into(), "électrode 2".into(), String::new()],
        channel_mask: vec![true, true, false],
        weights: vec![
            0.5, -1.5, 2.5, 1e-3, -7.0, 11.0, 13.25, -17.0, 0.0, 0.0, 0.0, 0.0,
        ],
        intercept: vec![100.25, -3.5],
        head: Head::Linear,
        limits: Limits::default(),
        attachments: Vec::new(),
        outputs: vec![
            OutputInfo {
                name: "x".into(),
                unit: "mm".into(),
            },
            OutputInfo {
                name: "vx".into(),
                unit: "mm/s".into(),
            },
        ],
        training: TrainingRecord {
            betz_version: "0.1.0".into(),
            steps: 1_000_000,
            segments: 7,
            spikes: 123_456_789_012,
            ridge: 0.125,
            gram_path: "event".into(),
            solver: "cholesky".into(),
            folds: 5,
            scores: vec![OutputScore {
                name: "x".into(),
                unit: "mm".into(),
                r2: 0.875,
                rmse: 2.25,
                nrmse_range: 0.0625,
                nrmse_std: 0.3125,
            }],
        },
    }
}

fn refused(bytes: &[u8], what: &str) -> Error {
    LARGEST.with(|l| l.set(0));
    let error = Decoder::from_bytes(bytes).expect_err(what);
    let largest = LARGEST.with(Cell::get);
    assert!(
        largest <= 1 << 20,
        "{what}: an allocation of {largest} bytes"
    );
    assert!(!error.message().is_empty());
    error
}

/// A frame around any payload, with a right length and checksum.
fn framed(version: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"BETZMODL".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn payload(bytes: &[u8]) -> &[u8] {
    &bytes[20..bytes.len() - 4]
}

#[test]
fn comes_back_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.betz");
    let decoder = decoder();
    decoder.save(&path).unwrap();
    assert_eq!(Decoder::load(&path).unwrap(), decoder);
    // Saving over an older file leaves nothing behind.
    decoder.save(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(decoder.to_bytes().unwrap(), std::fs::read(&path).unwrap());
}

/// This holds for any number of channels: the reader's limits follow the payload's length.
#[test]
fn models_of_every_size_come_back_the_same() {
    for channels in (1..=16).map(|i| i * 300).chain([30_000, 38_000, 600_000]) {
        let parts = parts();
        let decoder = Decoder::new(DecoderParts {
            channel_names: (0..channels).map(|c| c.to_string()).collect(),
            channel_mask: vec![true; channels],
            bank: FilterBank::new(parts.bank.filters()[..1].to_vec()).unwrap(),
            weights: (0..channels * 2).map(|i| i as f64).collect(),
            ..parts
        })
        .unwrap();
        let back = Decoder::from_bytes(&decoder.to_bytes().unwrap());
        assert!(
            back.as_ref() == Ok(&decoder),
            "{channels} channels: {:?}",
            back.err()
        );
    }
}

/// However large the file: a name that promises what is not there is not an allocation.
#[test]
fn a_large_file_with_a_name_that_is_not_there_is_refused() {
    let decoder = Decoder::new(DecoderParts {
        channel_names: vec!["marked".into(), "b".into(), "x".repeat(33 << 20)],
        ..parts()
    });
    let bytes = decoder.unwrap().to_bytes().unwrap();
    let mut payload = payload(&bytes).to_vec();
    drop(bytes);
    let at = payload.windows(6).position(|w| w == b"marked").unwrap() - 1;
    // bincode's form of a length of 32 bits, in place of one byte for 6.
    payload.splice(at..=at, [252, 0xF0, 0xFF, 0xFF, 0xFF]);
    refused(&framed(1, &payload), "a name of 4 GiB");
}

#[test]
fn every_change_of_a_byte_is_refused() {
    let bytes = decoder().to_bytes().unwrap();
    for at in 0..bytes.len() {
        for change in 1..=255 {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            let error = refused(&damaged, &format!("byte {at} changed by {change:#x}"));
            assert_eq!(error.kind(), ErrorKind::InvalidModel);
        }
    }
}

#[test]
fn every_truncation_and_anything_appended_is_refused() {
    let bytes = decoder().to_bytes().unwrap();
    for length in 0..bytes.len() {
        let error = refused(&bytes[..length], &format!("{length} bytes"));
        assert_eq!(error.kind(), ErrorKind::InvalidModel);
    }
    let mut longer = bytes.clone();
    longer.push(0);
    refused(&longer, "one byte more");
    longer.extend_from_slice(&bytes);
    refused(&longer, "two files");
}

/// A checksum does not stop a hostile writer: content that does not decode, or decodes to nonsense,
/// is refused behind a right checksum as well, and lengths that lie take no memory.
#[test]
fn a_right_checksum_does_not_let_nonsense_in() {
    let bytes = decoder().to_bytes().unwrap();
    let payload = payload(&bytes);
    for length in 0..payload.len() {
        refused(&framed(1, &payload[..length]), "a payload cut short");
    }
    let mut longer = payload.to_vec();
    longer.push(0);
    let error = refused(&framed(1, &longer), "a payload with more behind");
    assert!(error.message().contains("1 more"), "{error}");
    for at in 0..payload.len() {
        for change in 1..=255 {
            let mut changed = payload.to_vec();
            changed[at] ^= change;
            LARGEST.with(|l| l.set(0));
            // Some changes are another sensible model; none may panic or take much memory.
            if let Ok(other) = Decoder::from_bytes(&framed(1, &changed)) {
                Decoder::new(other.into_parts()).unwrap();
            }
            assert!(LARGEST.with(Cell::get) <= 1 << 20);
        }
    }
    // Lengths of 2^62 where the filters' list begins (after the step's eight bytes).
    let mut huge = payload[..8].to_vec();
    huge.push(253);
    huge.extend((1u64 << 62).to_le_bytes());
    huge.extend(&payload[9..]);
    refused(&framed(1, &huge), "a list of 2^62 filters");
}

#[test]
fn versions() {
    let bytes = decoder().to_bytes().unwrap();
    let payload = payload(&bytes);
    assert_eq!(bytes, framed(FORMAT_VERSION, payload));
    let newer = refused(&framed(FORMAT_VERSION + 1, payload), "a newer format");
    assert_eq!(newer.kind(), ErrorKind::UnsupportedVersion);
    assert!(newer.message().contains("newer Betz"), "{newer}");
    let never = refused(&framed(0, payload), "format 0");
    assert_eq!(never.kind(), ErrorKind::UnsupportedVersion);
}

/// The file as format 1 was first written. It must load for ever; when this fails, a change has
/// been made to a format that is out there: make a new version instead.
#[test]
fn format_1_still_loads() {
    let fixture = include_bytes!("../fixtures/model_v1.betz");
    assert_eq!(fixture[8..12], 1u32.to_le_bytes());
    assert_eq!(Decoder::from_bytes(fixture).unwrap(), decoder());
}

#[test]
fn what_is_no_model_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "not a model, a text").unwrap();
    let error = Decoder::load(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidModel);
    assert!(error.message().contains("notes.txt"), "{error}");
    for path in [folder.path(), &folder.path().join("missing")] {
        let error = Decoder::load(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains(&path.display().to_string()));
    }
    assert_eq!(
        decoder().save(folder.path()).unwrap_err().kind(),
        ErrorKind::Io
    );
}

#[test]
fn check_names_what_is_wrong() {
    type Spoil = fn(&mut DecoderParts);
    let cases: &[(&str, Spoil)] = &[
        ("channels", |d| d.channel_names.clear()),
        ("outputs", |d| d.outputs.clear()),
        ("channel_mask", |d| d.channel_mask.push(true)),
        ("intercept", |d| d.intercept.truncate(1)),
        ("weights", |d| d.weights.truncate(11)),
        ("step_seconds", |d| d.step_seconds = 0.0),
        ("step_seconds", |d| d.step_seconds = f64::INFINITY),
        ("delay_steps", |d| d.delay_steps = i64::MIN),
        ("cut-off", |d| d.step_seconds = 1.0),
        ("order", |d| {
            d.low_pass = Some(LowPass {
                order: 9,
                cutoff_hz: 1.0,
            })
        }),
        ("channel_names[1]", |d| d.channel_names[1] = "a".into()),
        ("outputs[1]", |d| d.outputs[1].name = "x".into()),
        ("channel 1", |d| d.weights[5] = f64::NAN),
        ("channel 0", |d| d.weights[0] = f64::NEG_INFINITY),
        ("masked", |d| d.weights[10] = 1.0),
        ("intercept[1]", |d| d.intercept[1] = f64::NAN),
    ];
    for (expected, spoil) in cases {
        let mut parts = parts();
        spoil(&mut parts);
        let error = Decoder::new(parts).expect_err(expected);
        assert_eq!(error.kind(), ErrorKind::InvalidModel);
        assert!(error.message().contains(expected), "{expected}: {error}");
    }
}

/// A lift with limits and something attached: every sort of section there is.
fn with_sections() -> DecoderParts {
    let parts = parts();
    DecoderParts {
        head: Head::Lift(Lift {
            cosines: Cosines {
                radius: 4.5,
                frequencies: vec![0.25, -0.125, 0.5, 0.0625, 1.0, -0.75],
                phases: vec![0.0, 0.25, 0.375],
            },
            readout: FilteredReadout {
                tau_seconds: Some(0.125),
                centre: vec![0.5, -0.5, 0.25, 0.125, 0.0],
                direct: (0..10).map(f64::from).collect(),
                filtered: (0..10).map(|i| f64::from(-i)).collect(),
                intercept: vec![7.0, -7.5],
            },
            seed: 99,
        }),
        limits: Limits {
            blanking: Some(Blanking {
                least: 1,
                most: 120,
                mean_counts: vec![0.5, 1.5, 0.0],
            }),
            ..Limits::default()
        },
        attachments: vec![Attachment {
            tag: *b"sums",
            bytes: vec![1, 2, 3],
        }],
        ..parts
    }
}

/// Offset of each section of a model's payload.
fn sections(payload: &[u8]) -> Vec<(String, std::ops::Range<usize>)> {
    let mut at = self::payload(&decoder().to_bytes().unwrap()).len();
    let mut found = Vec::new();
    while at < payload.len() {
        let tag = String::from_utf8(payload[at..at + 4].to_vec()).unwrap();
        let length = u64::from_le_bytes(payload[at + 4..at + 12].try_into().unwrap()) as usize;
        found.push((tag, at..at + 16 + length));
        at += 16 + length;
    }
    assert_eq!(at, payload.len());
    found
}

#[test]
fn sections_come_back_in_any_order() {
    let mut parts = with_sections();
    let range = |low, high| OutputRange { low, high };
    parts.limits.ranges = vec![range(-1.5, 2.5), range(f32::NEG_INFINITY, 0.0)];
    let decoder = Decoder::new(parts).unwrap();
    let bytes = decoder.to_bytes().unwrap();
    assert_eq!(Decoder::from_bytes(&bytes).unwrap(), decoder);
    assert_eq!(decoder.attachment(*b"sums"), Some(&[1, 2, 3][..]));
    assert_eq!(decoder.attachment(*b"none"), None);
    let payload = payload(&bytes);
    let found = sections(payload);
    let tags: Vec<&str> = found.iter().map(|(tag, _)| tag.as_str()).collect();
    assert_eq!(tags, ["LIFT", "LIMS", "RANG", "sums"]);
    let first = &payload[..found[0].1.start];
    for order in [
        [0, 3, 2, 1],
        [1, 0, 3, 2],
        [1, 2, 0, 3],
        [3, 0, 2, 1],
        [2, 3, 1, 0],
    ] {
        let mut other = first.to_vec();
        for i in order {
            other.extend(&payload[found[i].1.clone()]);
        }
        assert_eq!(Decoder::from_bytes(&framed(2, &other)).unwrap(), decoder);
    }
    // Twice is once too often, and a head cut off from its engine does not fit.
    let mut twice = payload.to_vec();
    twice.extend(&payload[found[0].1.clone()]);
    let error = refused(&framed(2, &twice), "two lifts");
    assert!(error.message().contains("LIFT"), "{error}");
    let mut experts = with_sections();
    experts.head = Head::Experts(Experts {
        gate: Gate {
            radius: 3.0,
            weights: vec![0.5; 8],
            bias: vec![0.25, -0.25],
        },
        readout: FilteredReadout {
            tau_seconds: Some(0.5),
            centre: vec![0.0; 8],
            direct: vec![1.0; 16],
            filtered: vec![0.5; 16],
            intercept: vec![0.0; 2],
        },
        seed: 1,
    });
    let experts = Decoder::new(experts).unwrap();
    let back = Decoder::from_bytes(&experts.to_bytes().unwrap()).unwrap();
    assert_eq!(back, experts);
    assert_eq!((back.kind(), back.latents()), ("experts", 2));
}

/// An engine whose head is gone is no linear decoder, whatever else is there; and nothing is there twice.
#[test]
fn sections_that_are_missing_or_twice_are_refused() {
    let mut parts = with_sections();
    parts.limits.ranges = vec![
        OutputRange {
            low: -1.0,
            high: 1.0
        };
        2
    ];
    // Three latents of two outputs.
    let more = parts.weights.len() / parts.intercept.len();
    parts.weights.extend(vec![0.0; more]);
    parts.intercept.push(0.0);
    let Head::Lift(lift) = &mut parts.head else {
        unreachable!("made as a lift above")
    };
    lift.cosines.frequencies.extend([0.5; 3]);
    lift.readout.centre.push(0.0);
    lift.readout.direct.extend([1.0; 2]);
    lift.readout.filtered.extend([1.0; 2]);
    let bytes = Decoder::new(parts).unwrap().to_bytes().unwrap();
    let payload = payload(&bytes);
    let mut found = Vec::new();
    let mut at = payload.len();
    // From the end: what lies before the sections is not of the usual length.
    let tags: [&[u8]; 4] = [b"sums", b"RANG", b"LIMS", b"LIFT"];
    for tag in tags {
        let start = (0..at - 4).rev().find(|&i| &payload[i..i + 4] == tag);
        let start = start.unwrap();
        found.push((tag, start..at));
        at = start;
    }
    assert!(Decoder::from_bytes(&framed(2, payload)).is_ok());
    for (tag, place) in &found {
        let twice = [payload, &payload[place.clone()]].concat();
        let error = refused(&framed(2, &twice), "a section twice");
        let name = String::from_utf8_lossy(tag);
        assert!(error.message().contains(&*name), "{name}: {error}");
        let without = [&payload[..place.start], &payload[place.end..]].concat();
        let read = Decoder::from_bytes(&framed(2, &without));
        match *tag {
            b"LIFT" => {
                let error = read.expect_err("an engine without its head");
                assert!(error.message().contains("one per output"), "{error}");
            }
            // Only data that a decoder does not need is gone.
            _ => assert_eq!(read.unwrap().kind(), "lift"),
        }
    }
}

#[test]
fn unknown_sections_are_refused_or_kept_as_their_tag_says() {
    let bytes = decoder().to_bytes().unwrap();
    let with = |tag: &[u8; 4]| {
        let mut section = tag.to_vec();
        section.extend(5u64.to_le_bytes());
        section.extend(b"bytes");
        section.extend(crc32fast::hash(&section).to_le_bytes());
        [payload(&bytes), section.as_slice()].concat()
    };
    let error = refused(&framed(2, &with(b"TOMO")), "a section of tomorrow");
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    assert!(error.message().contains("TOMO"), "{error}");
    let kept = Decoder::from_bytes(&framed(2, &with(b"note"))).unwrap();
    assert_eq!(kept.attachment(*b"note"), Some(&b"bytes"[..]));
    assert_eq!(
        Decoder::from_bytes(&kept.to_bytes().unwrap()).unwrap(),
        kept
    );
    for tag in [b"a b ", b"\0\0\0\0", b"ABC1"] {
        let error = refused(&framed(2, &with(tag)), "no tag");
        assert!(error.message().contains("letters"), "{error}");
    }
    for (what, tag) in [("lower case", *b"SUMS"), ("letters", *b"s\xFFms")] {
        let mut parts = parts();
        let bytes = Vec::new();
        parts.attachments.push(Attachment { tag, bytes });
        let error = Decoder::new(parts).unwrap_err();
        assert!(error.message().contains(what), "{error}");
    }
}

/// The file's checksum finds a changed byte; where a hostile writer has mended that one, a section's own
/// does, and what lies before the sections cannot grow into them.
#[test]
fn each_flipped_byte_of_a_section_is_found() {
    let bytes = Decoder::new(with_sections()).unwrap().to_bytes().unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        refused(&damaged, &format!("byte {at}"));
    }
    let payload = payload(&bytes);
    let first = sections(payload)[0].1.start;
    for at in first..payload.len() {
        for change in [1, 0x20, 0x80, 0xFF] {
            let mut damaged = payload.to_vec();
            damaged[at] ^= change;
            refused(&framed(2, &damaged), &format!("byte {at} of the payload"));
        }
    }
    for length in first + 1..payload.len() {
        let whole = sections(payload)
            .iter()
            .any(|(_, range)| range.end == length);
        if !whole {
            refused(&framed(2, &payload[..length]), &format!("{length} bytes"));
        }
    }
    // In format 1 nothing may follow.
    refused(&framed(1, payload), "sections in format 1");
}

/// The file as format 2 was first written, with every sort of section.
#[test]
fn format_2_still_loads() {
    let fixture = include_bytes!("../fixtures/model_v2.betz");
    assert_eq!(fixture[8..12], 2u32.to_le_bytes());
    let decoder = Decoder::new(with_sections()).unwrap();
    assert_eq!(Decoder::from_bytes(fixture).unwrap(), decoder);
    assert_eq!(decoder.to_bytes().unwrap(), fixture);
}

/// Classes with all that they may have, of two latents.
fn classes() -> Classes {
    Classes {
        cosines: Cosines {
            radius: 4.5,
            frequencies: vec![0.5, -0.25, 1.5, 2.0, 0.125, -3.0],
            phases: vec![0.0, 0.25, 0.75],
        },
        tau_seconds: Some(0.1),
        weights: (0..14).map(|i| 0.25 * (i as f32 - 6.0)).collect(),
        bias: vec![0.5, -0.75],
        priors: vec![0.875, 0.125],
        markov: Some(Markov {
            kappa: 0.3,
            transitions: vec![0.9375, 0.0625, 0.25, 0.75],
            start: vec![0.5, 0.5],
        }),
        events: vec![
            None,
            Some(EventRule {
                on: 0.625,
                off: 0.3125,
                dwell: 2,
                refractory_seconds: 0.5,
            }),
        ],
    }
}

/// A decoder of classes, and one of velocities that a class gates.
fn with_classes() -> [Decoder; 2] {
    let of_classes = DecoderParts {
        head: Head::Classes(classes()),
        outputs: ["rest", "go"].map(Into::into).to_vec(),
        ..parts()
    };
    let gated = DecoderParts {
        weights: (0..24)
            .map(|i| if i < 16 { 0.5 - f64::from(i) } else { 0.0 })
            .collect(),
        intercept: vec![100.25, -3.5, 0.0, 1.0],
        head: Head::VelocityGate(VelocityGate {
            classes: classes(),
            names: ["rest", "go"].map(String::from).to_vec(),
            class: 1,
            closed: 0.02,
            slope: 1.2,
            gated: vec![false, true],
        }),
        ..parts()
    };
    [of_classes, gated].map(|parts| Decoder::new(parts).unwrap())
}

const CLASSES: [&[u8]; 2] = [
    include_bytes!("../fixtures/classes.betz"),
    include_bytes!("../fixtures/gated.betz"),
];

/// The files of classes and of gated decoders as they were first written.
#[test]
fn files_of_classes_still_load() {
    for (fixture, decoder) in CLASSES.into_iter().zip(with_classes()) {
        assert_eq!(Decoder::from_bytes(fixture).unwrap(), decoder);
        assert_eq!(decoder.to_bytes().unwrap(), fixture);
    }
}

/// Writes the fixtures of classes; to be run by hand where new ones are made.
#[test]
#[ignore = "writes the fixtures"]
fn write_the_fixtures_of_classes() {
    for (name, decoder) in ["classes", "gated"].into_iter().zip(with_classes()) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        let path = std::path::Path::new(folder).join(format!("{name}.betz"));
        decoder.save(&path).unwrap();
    }
}

/// Writes the fixture of the newest format; to be run by hand where a new one is made.
#[test]
#[ignore = "writes the fixture"]
fn write_the_newest_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/model_v2.betz");
    let decoder = Decoder::new(with_sections()).unwrap();
    decoder.save(std::path::Path::new(path)).unwrap();
}

/// Opening a pipe would wait for somebody who writes into it; a device would never end.
#[test]
#[cfg(unix)]
fn what_is_no_regular_file_is_refused_at_once() {
    use std::os::unix::net::UnixListener;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for path in [
        std::path::Path::new("/dev/zero"),
        folder.path(),
        socket.as_path(),
    ] {
        let error = Decoder::load(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.message().contains("regular file"), "{error}");
    }
}
