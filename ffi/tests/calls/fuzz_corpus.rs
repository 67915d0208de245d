//! The fuzz harnesses on the stable compiler: every kept input, then random changes of them.
//!
//! `BETZ_FUZZ_SECONDS=600` goes on for so long with fresh chance; an input that fails is written to the
//! temporary folder first. `ffi/fuzz/run.sh` is guided by coverage.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{calls, miner, model_load_bytes};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut paths: Vec<_> = (std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// A few bytes changed, a stretch copied elsewhere, or the end cut off.
fn change(input: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..random.random_range(1..8) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes[at] = random.random(),
            1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes.truncate(at),
            3 => {
                let from = random.random_range(0..bytes.len());
                let piece = bytes[from..(from + 16).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let mut fresh = [0; 8];
                random.fill_bytes(&mut fresh);
                let end = (at + 8).min(bytes.len());
                bytes[at..end].copy_from_slice(&fresh[..end - at]);
            }
        }
    }
    bytes
}

fn try_all(target: &str, run: fn(&[u8])) {
    let mut kept = corpus(target);
    kept.iter().for_each(|input| run(input));
    let seconds = std::env::var("BETZ_FUZZ_SECONDS").map_or(0, |s| s.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let scratch = std::env::temp_dir().join(format!("betz-fuzz-{target}-{}", std::process::id()));
    let mut tried = 0;
    while tried < 2_000 || Instant::now() < until {
        let which = random.random_range(0..kept.len());
        let input = change(&kept[which], &mut random);
        if seconds > 0 {
            std::fs::write(&scratch, &input).unwrap();
        }
        run(&input);
        tried += 1;
        // Wander: a tenth of the inputs begin others.
        if input.len() < 4096 && random.random_bool(0.1) {
            if kept.len() < 256 {
                kept.push(input);
            } else {
                kept[which] = input;
            }
        }
    }
    let _ = std::fs::remove_file(scratch);
    println!("{target}: {tried} inputs");
}

#[test]
fn any_bytes_are_refused_or_a_model() {
    try_all("model_load_bytes", model_load_bytes::run);
}

#[test]
fn any_sequence_of_calls_is_survived() {
    try_all("calls", calls::run);
}

#[test]
fn any_calls_around_a_miner_are_survived() {
    try_all("miner", miner::run);
}
