//! The section of the channels' means.

use betz_base::ErrorKind;
use betz_runtime::model::{BlendMember, Decoder, DecoderParts, Head, ModelBlend};

use super::{framed, parts, payload, refused};

const FIXTURE: &[u8] = include_bytes!("../fixtures/means.betz");

fn with_means(means: &[f64]) -> DecoderParts {
    DecoderParts {
        channel_means: means.to_vec(),
        ..parts()
    }
}

fn decoder() -> Decoder {
    Decoder::new(with_means(&[32_768.25, -0.5, 0.0])).unwrap()
}

/// Writes the fixture; to be run by hand where the section has changed.
#[test]
#[ignore = "writes the fixture"]
fn write_the_fixture_of_means() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/means.betz");
    decoder().save(std::path::Path::new(path)).unwrap();
}

#[test]
fn a_model_with_means_still_loads() {
    assert_eq!(Decoder::from_bytes(FIXTURE).unwrap(), decoder());
    assert_eq!(decoder().to_bytes().unwrap(), FIXTURE);
}

/// Readers that do not know the section must not read on: its tag begins in upper case, and it comes once.
#[test]
fn damaged_means_are_refused() {
    let payload = payload(FIXTURE);
    let start = payload.windows(4).position(|tag| tag == b"MEAN").unwrap();
    let length = u64::from_le_bytes(payload[start + 4..start + 12].try_into().unwrap()) as usize;
    let end = start + 12 + length + 4;
    let section = &payload[start..end];
    let twice = [&payload[..end], section, &payload[end..]].concat();
    refused(&framed(2, &twice), "means twice");
    for cut in 1..length {
        let mut short = b"MEAN".to_vec();
        short.extend(((length - cut) as u64).to_le_bytes());
        short.extend(&section[12..12 + length - cut]);
        short.extend(crc32fast::hash(&short).to_le_bytes());
        let file = [&payload[..start], &short, &payload[end..]].concat();
        refused(&framed(2, &file), "means cut short");
    }
}

#[test]
fn means_that_do_not_fit_are_refused() {
    for (means, expected) in [
        (&[1.0, 2.0][..], "channel_means: expected 3 values, got 2"),
        (&[1.0, f64::NAN, 0.0], "channel_means[1]: expected a finite"),
        (&[1e39, 0.0, 0.0], "channel_means[0]: expected a finite"),
    ] {
        let error = Decoder::new(with_means(means)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidModel);
        assert!(error.message().contains(expected), "{error}");
    }
    // Members of a blend hear the same values about the same means.
    let head = ModelBlend {
        own: Box::new(Head::Linear),
        weight: 0.5,
        members: vec![BlendMember {
            weight: 0.5,
            decoder: Decoder::new(parts()).unwrap(),
        }],
    };
    let blend = DecoderParts {
        head: Head::ModelBlend(head),
        ..decoder().into_parts()
    };
    let error = Decoder::new(blend).unwrap_err();
    assert!(
        error.message().contains("member 1: channels' means"),
        "{error}"
    );
}
