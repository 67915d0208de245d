//! Real recordings, decoded end to end: figures that must not get worse.
//!
//! Skipped, saying so, where the recordings are not there. `BETZ_EXHAUSTIVE=1 cargo test --release
//! --test recordings -- --nocapture` prints the figures of several splits, with the bank chosen
//! among the presets; without it one split and one preset are checked.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use betz::psc::{Filter, FilterBank};
use betz::recording::{Dataset, Recording};
use betz::train::{
    Evaluation, Preset, Search, TrainOptions, cross_validate, evaluate, train_validated,
};
use rand::{SeedableRng, seq::SliceRandom};

fn recording(name: &str) -> Option<Recording> {
    Some(Recording::read_npz(&betz_testkit::shared(name)?).unwrap())
}

fn exhaustive() -> bool {
    std::env::var_os("BETZ_EXHAUSTIVE").is_some()
}

fn bank(name: &str) -> FilterBank {
    Preset::named(name).unwrap().bank().unwrap()
}

/// The defaults: ridge and bank by cross-validation within `train`, and nothing else.
fn search(train: &Dataset) -> Search {
    Search::presets(train).unwrap()
}

/// Trains on a random `part` of the trials, scores the others.
fn split(data: &Dataset, seed: u64, part: f64, search: impl Fn(&Dataset) -> Search) -> Evaluation {
    let mut trials: Vec<usize> = (0..data.segments.len()).collect();
    trials.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
    let (train, test) = trials.split_at((trials.len() as f64 * part) as usize);
    let sorted = |trials: &[usize]| {
        let mut trials = trials.to_vec();
        trials.sort_unstable();
        data.select(&trials)
    };
    let (train, test) = (sorted(train), sorted(test));
    let options = TrainOptions::new(bank("reach"));
    let decoder = train_validated(&train, &options, &search(&train), &()).unwrap();
    let scored = evaluate(&decoder, &test).unwrap();
    eprintln!(
        "seed {seed}, {} trials trained on, {} scored: {} filters, ridge {:.1}, position {:.4}, velocity {:.4}, cross-validated {:.4}",
        train.segments.len(),
        scored.segments,
        decoder.bank().len(),
        decoder.training().ridge,
        mean(&scored, 0..2),
        mean(&scored, 2..4),
        decoder.training().scores.iter().map(|s| s.r2).sum::<f64>() / 4.0,
    );
    scored
}

fn mean(scored: &Evaluation, outputs: std::ops::Range<usize>) -> f64 {
    let n = outputs.len() as f64;
    scored.outputs[outputs].iter().map(|s| s.r2).sum::<f64>() / n
}

#[test]
fn reaching_is_decoded_from_other_trials() {
    let Some(recording) = recording("reach95.npz") else {
        return;
    };
    let data = recording.align(recording.tick_seconds).unwrap();
    let scored = split(&data, 1, 0.8, |_| Search {
        folds: 3,
        ..Search::ridge()
    });
    assert!(mean(&scored, 0..2) > 0.88, "{scored:?}");
    assert!(mean(&scored, 2..4) > 0.735, "{scored:?}");
    if exhaustive() {
        for part in [0.8, 2.0 / 3.0] {
            let scored: Vec<Evaluation> = (10..15).map(|s| split(&data, s, part, search)).collect();
            let over = |outputs: std::ops::Range<usize>| {
                let all = scored.iter().map(|s| mean(s, outputs.clone()));
                all.sum::<f64>() / scored.len() as f64
            };
            let (position, velocity) = (over(0..2), over(2..4));
            eprintln!("part {part:.2}: position {position:.4}, velocity {velocity:.4}");
            assert!(position >= 0.885 && velocity >= 0.74);
        }
    }
}

/// Seconds of the linear track during which the animal is tracked: the position stands still before
/// and after.
const TRACKED: (f64, f64) = (26.0, 985.0);

#[test]
fn position_on_a_track_is_decoded_from_the_first_half() {
    let Some(recording) = recording("linear_track.npz") else {
        return;
    };
    let halves = |step: f64| {
        let data = recording.align(step).unwrap();
        let middle = (TRACKED.0 + TRACKED.1) / 2.0;
        let half = |from, until| data.between(from, until).unwrap();
        (half(TRACKED.0, middle), half(middle, TRACKED.1))
    };
    let run = |name: &str, step: f64, search: Search| {
        let (first, second) = halves(step);
        let options = TrainOptions::new(bank("single"));
        let decoder = train_validated(&first, &options, &search, &()).unwrap();
        let scored = evaluate(&decoder, &second).unwrap();
        eprintln!(
            "{name}, step {step} s: {} filters, R² {:.3} {:.3}, cross-validated {:.3} {:.3}",
            decoder.bank().len(),
            scored.outputs[0].r2,
            scored.outputs[1].r2,
            decoder.training().scores[0].r2,
            decoder.training().scores[1].r2,
        );
        mean(&scored, 0..2)
    };
    let only = |bank: FilterBank| Search {
        banks: vec![bank],
        ..Search::ridge()
    };
    // A τ far below the step leaves the binned counts themselves.
    let counts = FilterBank::new(vec![Filter {
        tau_seconds: 1e-6,
        order: 0,
    }])
    .unwrap();
    let binned = [0.5, 1.0, 2.0].map(|step| run("binned counts", step, only(counts.clone())));
    let binned = binned.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let slow = run("slow bank", 0.025, only(bank("slow")));
    assert!(slow > 0.45 && slow > binned + 0.1, "{slow} beside {binned}");
    if exhaustive() {
        for step in [0.005, 0.025, 0.1] {
            let (first, _) = halves(step);
            let chosen = run("chosen among presets", step, search(&first));
            assert!(chosen > binned);
        }
        let (first, _) = halves(0.025);
        let options = TrainOptions::new(bank("single"));
        let found = cross_validate(&first, &options, &search(&first), &()).unwrap();
        eprintln!("cross-validated R² of the presets: {:.3?}", found.bank_r2);
    }
}
