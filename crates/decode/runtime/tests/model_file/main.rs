//! The model file: what is written comes back, and nothing damaged gets in.

#![allow(clippy::unwrap_used, clippy::expect_used)] // tests stop where something fails

mod blend;
mod classes;
mod layers;
mod means;
mod recurrent;
mod sampled;
mod sections;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use betz_base::output::OutputInfo;
use betz_base::{Error, ErrorKind};
use betz_runtime::model::{
    Decoder, DecoderParts, FORMAT_VERSION, Head, Limits, LowPass, OutputScore, TrainingRecord,
};
use betz_runtime::psc::{Filter, FilterBank};

/// The system's allocator, remembering this thread's largest request.
struct LargestRequest;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for LargestRequest {
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
static ALLOCATOR: LargestRequest = LargestRequest;

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
        channel_means: Vec::new(),
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
