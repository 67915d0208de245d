//! Sampled filters in the file.

use betz_base::ErrorKind;
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{FilterBank, MAX_SAMPLES, SampledFilter};

use super::{framed, parts, payload, refused};

/// [`parts`] with so many filters behind theirs, the first sample of each `start` steps after a spike.
fn with_samples(count: usize, start: i64) -> DecoderParts {
    let mut parts = parts();
    let (old, latents) = (parts.bank.len(), parts.latents());
    let filter = |i: usize| {
        let samples = vec![0.5, -0.25, 1.0 + i as f64];
        SampledFilter::new(format!("k{i}"), samples, parts.step_seconds, start).unwrap()
    };
    let sampled = (0..count).map(filter).collect();
    parts.bank = FilterBank::with_sampled(parts.bank.filters().to_vec(), sampled).unwrap();
    let rows = parts.weights.chunks_exact(old * latents);
    let more = vec![0.0; count * latents];
    parts.weights = rows.flat_map(|row| [row, &more].concat()).collect();
    parts
}

/// A payload whose section of sampled filters is `content`.
fn around(content: &[u8]) -> Vec<u8> {
    let file = Decoder::new(with_samples(1, 0))
        .unwrap()
        .to_bytes()
        .unwrap();
    let payload = payload(&file);
    let start = payload.windows(4).position(|tag| tag == b"SAMP").unwrap();
    let length = payload[start + 4..start + 12].try_into().unwrap();
    let end = start + 16 + u64::from_le_bytes(length) as usize;
    let mut section = b"SAMP".to_vec();
    section.extend((content.len() as u64).to_le_bytes());
    section.extend(content);
    section.extend(crc32fast::hash(&section).to_le_bytes());
    [&payload[..start], &section, &payload[end..]].concat()
}

#[test]
fn come_back_the_same() {
    for (count, start) in [(1, 0), (3, 700), (2, -5)] {
        let decoder = Decoder::new(with_samples(count, start)).unwrap();
        let bytes = decoder.to_bytes().unwrap();
        assert_eq!(Decoder::from_bytes(&bytes).unwrap(), decoder);
    }
}

/// The load refuses them, before a session takes gibibytes.
#[test]
fn filters_that_are_small_in_a_file_and_huge_in_a_session_are_refused() {
    let error = Decoder::new(with_samples(200, 1 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidModel);
    assert!(
        error.message().contains("fewer or shorter filters"),
        "{error}"
    );
    // One filter, three samples: number of filters, name, step, start, number of samples.
    let content = |samples: u64| {
        let mut content = vec![1, 1, b'k'];
        content.extend(0.01_f64.to_le_bytes());
        content.push(0);
        content.push(253);
        content.extend(samples.to_le_bytes());
        content.extend([0; 24]);
        content
    };
    for samples in [
        4,
        MAX_SAMPLES as u64,
        MAX_SAMPLES as u64 + 1,
        1 << 40,
        u64::MAX,
    ] {
        refused(
            &framed(2, &around(&content(samples))),
            "samples that are not there",
        );
    }
}
