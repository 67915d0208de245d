//! Training on a recording that is read in chunks: one progress bar, and no chunks that are all history.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use betz::device::Device;
use betz::psc::{Filter, FilterBank};
use betz::recording::{AlignOptions, Recording, Stretches};
use betz::simulate::population::{PopulationConfig, simulate};
use betz::team::Alone;
use betz::train::Training;
use betz::train::long::File;

use crate::progress::Shares;

/// Trains on `recording`, with filters of 20 and 200 ms, in chunks of `memory` bytes.
fn train(recording: &Recording, memory: u64) -> betz::Result<Shares> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npz");
    recording.write_npz(&path).unwrap();
    let options = AlignOptions {
        step_seconds: 0.005,
        max_gap_seconds: None,
    };
    let mut file = File::new(Stretches::open(&path).unwrap(), options, memory).unwrap();
    let filter = |tau_seconds| Filter {
        tau_seconds,
        order: 1,
    };
    let training = Training {
        bank: Some(FilterBank::new(vec![filter(0.02), filter(0.2)]).unwrap()),
        folds: 3,
        ..Training::default()
    };
    let shares = Shares::of("training");
    training.run_in_chunks(&Alone, &mut file, &Device::cpu(), memory, &shares)?;
    Ok(shares)
}

fn recording() -> Recording {
    let config = PopulationConfig {
        neurons: 8,
        train_seconds: 30.0,
        ..PopulationConfig::default()
    };
    simulate(&config, 3).unwrap().train
}

#[test]
fn progress_is_one_stage_that_never_goes_back() {
    train(&recording(), 128 << 10).unwrap().check(10);
}

#[test]
fn chunks_that_are_mostly_history_are_refused_with_the_memory_that_would_do() {
    let recording = recording();
    let refused = train(&recording, 1024).err().expect("refused");
    let said = refused.to_string();
    let expected = said.split("memory: expected at least ").nth(1);
    let kib = expected.and_then(|rest| rest.split(' ').next());
    let kib: u64 = kib.and_then(|n| n.parse().ok()).expect(&said);
    assert!(said.contains("got 1 KiB"), "{said}");
    assert!((2..200).contains(&kib), "{said}");
    // A little more than that does.
    train(&recording, (kib + 1) * 1024).unwrap();
}
