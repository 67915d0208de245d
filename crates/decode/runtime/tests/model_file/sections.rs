//! Sections of the file: any order, none missing, damaged or unknown.

use betz_base::ErrorKind;
use betz_runtime::model::{
    Attachment, Blanking, Cosines, Decoder, DecoderParts, Experts, FilteredReadout, Gate, Head,
    Lift, Limits, OutputRange,
};

use crate::{decoder, framed, parts, payload, refused};

/// A lift with limits and something attached: every sort of section there is.
pub(super) fn with_sections() -> DecoderParts {
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
    let mut at = crate::payload(&decoder().to_bytes().unwrap()).len();
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

/// Writes the fixture of the newest format; to be run by hand where a new one is made.
#[test]
#[ignore = "writes the fixture"]
fn write_the_newest_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/model_v2.betz");
    let decoder = Decoder::new(with_sections()).unwrap();
    decoder.save(std::path::Path::new(path)).unwrap();
}
