//! The section of recurrent networks: both of its versions as they were first written, and damaged ones.

use betz_base::ErrorKind;
use betz_runtime::model::{
    Blend, Cell, Decoder, DecoderParts, Head, Recurrent, RecurrentLayer, RecurrentMember,
};

use super::{framed, parts, payload, refused};

/// Version 1, then version 2, which has a blend.
const FIXTURES: [&[u8]; 2] = [
    include_bytes!("../fixtures/recurrent_v1.betz"),
    include_bytes!("../fixtures/recurrent_v2.betz"),
];

/// Numbers that differ and that f32 holds.
fn numbers(count: usize, start: usize) -> Vec<f32> {
    (0..count)
        .map(|i| 0.125 * ((i + start) % 23) as f32 - 1.25)
        .collect()
}

fn member(cell: Cell, units: &[usize], start: usize) -> RecurrentMember {
    let layers = units.iter().enumerate().map(|(l, &own)| {
        let columns = cell.gates() * own;
        let below = l.checked_sub(1).map(|below| units[below]);
        RecurrentLayer {
            input_weights: numbers(below.unwrap_or(0) * columns, start),
            input_bias: numbers(below.map_or(0, |_| columns), start + 1),
            state_weights: numbers(own * columns, start + 2),
            state_bias: numbers(columns, start + 3),
        }
    });
    RecurrentMember {
        layers: layers.collect(),
        readout: numbers(2 * units[units.len() - 1], start + 4),
    }
}

/// A stack of LSTM layers, and a blend of GRU members.
fn decoders() -> [Decoder; 2] {
    let lstm = Recurrent {
        cell: Cell::Lstm,
        units: vec![3, 2],
        members: vec![member(Cell::Lstm, &[3, 2], 5)],
        bias: vec![0.5, -2.0],
        memory_steps: 40,
        seed: 3,
        blend: None,
    };
    let blended = Recurrent {
        cell: Cell::Gru,
        units: vec![2],
        members: (0..3).map(|m| member(Cell::Gru, &[2], 7 * m)).collect(),
        bias: vec![0.25, 4.0],
        memory_steps: 25,
        seed: 1 << 40,
        blend: Some(Blend {
            usual: 2,
            share: 0.25,
            apart: 3.0,
            kept: 0.75,
            deviations: vec![2.0, 0.5],
            bias: vec![-0.5, 0.125],
        }),
    };
    [lstm, blended].map(|head| {
        let latents = head.members.len() * head.cell.gates() * head.units[0];
        let weights = (0..parts().channel_names.len() * 2 * latents).map(|i| 0.5 - i as f64);
        let decoder = Decoder::new(DecoderParts {
            channel_mask: vec![true; 3],
            weights: weights.collect(),
            intercept: (0..latents).map(|i| 0.25 * i as f64).collect(),
            head: Head::Recurrent(head),
            ..parts()
        });
        decoder.unwrap()
    })
}

/// Writes the fixtures; to be run by hand where a version is new.
#[test]
#[ignore = "writes the fixtures"]
fn write_the_fixtures_of_networks() {
    for (version, decoder) in (1..).zip(decoders()) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        let path = std::path::Path::new(folder).join(format!("recurrent_v{version}.betz"));
        decoder.save(&path).unwrap();
    }
}

/// The section's place in a payload, of which it is the last part.
pub(super) fn section(payload: &[u8]) -> std::ops::Range<usize> {
    let is_tag = |tag: &[u8]| tag == b"GRUS" || tag == b"NETS";
    let found = payload.windows(4).rposition(is_tag);
    found.unwrap()..payload.len()
}

#[test]
fn both_versions_of_networks_still_load() {
    for (version, (fixture, decoder)) in (1u64..).zip(FIXTURES.into_iter().zip(decoders())) {
        let payload = payload(fixture);
        let content = section(payload).start + 12;
        assert_eq!(payload[content..content + 8], version.to_le_bytes());
        assert_eq!(Decoder::from_bytes(fixture).unwrap(), decoder);
        assert_eq!(decoder.to_bytes().unwrap(), fixture);
    }
}

#[test]
fn a_flipped_byte_of_networks_is_found() {
    for fixture in FIXTURES {
        let payload = payload(fixture);
        for at in section(payload) {
            let mut file = fixture.to_vec();
            file[20 + at] ^= 0x55;
            refused(&file, &format!("byte {at} of the file"));
            for change in [1, 0x20, 0x80, 0xFF] {
                let mut damaged = payload.to_vec();
                damaged[at] ^= change;
                refused(&framed(2, &damaged), &format!("byte {at} of the payload"));
            }
        }
    }
}

/// A file of `content` in its section of networks, with right lengths and checksums.
fn with_content(payload: &[u8], content: &[u8]) -> Vec<u8> {
    let start = section(payload).start;
    let mut new = payload[start..start + 4].to_vec();
    new.extend((content.len() as u64).to_le_bytes());
    new.extend(content);
    new.extend(crc32fast::hash(&new).to_le_bytes());
    framed(2, &[&payload[..start], &new].concat())
}

/// Checksums of a hostile writer are right: nothing but the reading of the section can refuse it.
#[test]
fn hostile_networks_are_refused_or_are_other_networks() {
    check_hostile(&FIXTURES, &[0, 3, u64::MAX]);
}

/// Cuts and changes the last section of each fixture, which begins with its version; `unknown` are no versions.
pub(super) fn check_hostile(fixtures: &[&[u8]], unknown: &[u64]) {
    for fixture in fixtures {
        let payload = payload(fixture);
        let place = section(payload);
        let content = &payload[place.start + 12..place.end - 4];
        assert_eq!(with_content(payload, content), *fixture);
        for length in 0..content.len() {
            let error = refused(
                &with_content(payload, &content[..length]),
                &format!("{length} bytes"),
            );
            assert_eq!(error.kind(), ErrorKind::InvalidModel, "{error}");
        }
        let longer = [content, &[0]].concat();
        refused(&with_content(payload, &longer), "a byte more");
        for at in 0..content.len() {
            for change in [1, 0x20, 0x80, 0xFF] {
                let mut other = content.to_vec();
                other[at] ^= change;
                // A number may have become another one; what is read then is a decoder that can be written again.
                let bytes = with_content(payload, &other);
                match Decoder::from_bytes(&bytes) {
                    Ok(decoder) => assert_eq!(decoder.to_bytes().unwrap(), bytes),
                    Err(_) => drop(refused(&bytes, "a changed byte")),
                }
            }
        }
        for version in unknown {
            let other = [&version.to_le_bytes(), &content[8..]].concat();
            let error = refused(&with_content(payload, &other), "another version");
            assert!(error.message().contains("a newer Betz"), "{error}");
        }
    }
}
