//! The section of a blend: a file as it was first written, damaged ones, and blends inside blends.

use betz_base::ErrorKind;
use betz_runtime::model::{BlendMember, Decoder, DecoderParts, Head, ModelBlend};

use super::sections::with_sections;
use super::{decoder, framed, parts, payload, refused};

const FIXTURE: &[u8] = include_bytes!("../fixtures/blend.betz");

/// A lift with limits, and a linear decoder.
fn blend() -> Decoder {
    let first = with_sections();
    let member = DecoderParts {
        outputs: first.outputs.clone(),
        ..parts()
    };
    let head = ModelBlend {
        own: Box::new(first.head.clone()),
        weight: 0.75,
        members: vec![BlendMember {
            weight: 0.25,
            decoder: Decoder::new(member).unwrap(),
        }],
    };
    Decoder::new(DecoderParts {
        head: Head::ModelBlend(head),
        ..first
    })
    .unwrap()
}

/// Writes the fixture; to be run by hand where the section has changed.
#[test]
#[ignore = "writes the fixture"]
fn write_the_fixture_of_a_blend() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/blend.betz");
    blend().save(std::path::Path::new(path)).unwrap();
}

#[test]
fn a_blend_still_loads() {
    assert_eq!(Decoder::from_bytes(FIXTURE).unwrap(), blend());
    assert_eq!(blend().to_bytes().unwrap(), FIXTURE);
}

/// Checksums of a hostile writer are right: nothing but the reading of the section can refuse it.
#[test]
fn damaged_blends_are_refused_or_are_other_blends() {
    let payload = payload(FIXTURE);
    let start = payload.windows(4).position(|tag| tag == b"BLND").unwrap();
    let length = u64::from_le_bytes(payload[start + 4..start + 12].try_into().unwrap()) as usize;
    let after = start + 12 + length;
    for at in start + 12..after {
        for change in [1, 0x20, 0x80, 0xFF] {
            let mut section = payload[start..after].to_vec();
            section[at - start] ^= change;
            section.extend(crc32fast::hash(&section).to_le_bytes());
            let file = framed(
                2,
                &[&payload[..start], &section, &payload[after + 4..]].concat(),
            );
            if let Ok(other) = Decoder::from_bytes(&file) {
                // −0 and 0 are equal numbers, and other bytes.
                assert_eq!(other.to_bytes().unwrap(), file, "byte {at}");
                assert_eq!(other.kind(), "blend");
            }
        }
    }
}

/// The payload of a decoder whose blend has `member` in its section, whatever that is.
fn around(member: &[u8]) -> Vec<u8> {
    let mut content = 1_u64.to_le_bytes().to_vec();
    content.extend(0.5_f64.to_le_bytes());
    content.push(0);
    content.extend(1_u64.to_le_bytes());
    content.extend(0.5_f64.to_le_bytes());
    content.extend((member.len() as u64).to_le_bytes());
    content.extend(member);
    let mut section = b"BLND".to_vec();
    section.extend((content.len() as u64).to_le_bytes());
    section.extend(content);
    section.extend(crc32fast::hash(&section).to_le_bytes());
    let mut all = payload(&decoder().to_bytes().unwrap()).to_vec();
    all.extend(section);
    all
}

#[test]
fn blends_inside_blends_are_refused_however_deep() {
    let plain = around(payload(&decoder().to_bytes().unwrap()));
    assert_eq!(
        Decoder::from_bytes(&framed(2, &plain)).unwrap().kind(),
        "blend"
    );
    let mut nested = plain;
    for _ in 0..200 {
        nested = around(&nested);
        let error = refused(&framed(2, &nested), "a blend inside a blend");
        assert_eq!(error.kind(), ErrorKind::InvalidModel);
        assert!(error.message().contains("no blend itself"), "{error}");
    }
}
