//! Is what a nonlinear decoder gains real? Controls on recorded reaches, trial by trial.
//!
//! `cargo run --release -p betz-programs --bin decoder_controls -- ../shared/data/reach95.npz [CONTROL…]` trains every kind on
//! the first four fifths of the trials and scores it on the others. Controls: `plain`; `crop`, trials of both parts cut at a
//! random 0 to 8 steps from their start, so that nothing tells the time in the trial; `direction`, each of
//! eight directions of movement decoded by what never saw it; `few`, 200 trials to train on; `order`,
//! random trials in place of the last fifth; `joined`, the others as one session that is never reset; `lost`, 24 channels
//! of the others silent, and nothing adapts.

use std::path::Path;

use betz::device::Device;
use betz::model::decode;
use betz::recording::{Dataset, Recording, Segment};
use betz::train::score::score_estimates;
use betz::train::{Kind, KindOptions, Preset, Search, TrainOptions, train_kinds_on};
use betz::{Error, Result};
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

const KINDS: [Kind; 4] = [Kind::Linear, Kind::Lift, Kind::Experts, Kind::Recurrent];

/// Channels that fall silent in the control `lost`.
const LOST: usize = 24;
const DIRECTIONS: usize = 8;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        return Err(Error::argument(
            "expected the path of a recording of reaches",
        ));
    };
    let (names, chosen): (Vec<String>, Vec<String>) =
        arguments.partition(|name| KINDS.iter().any(|kind| kind.name() == name));
    let wanted = |control: &str| chosen.is_empty() || chosen.iter().any(|c| c == control);
    let kinds = KINDS.into_iter().filter(|kind| {
        let is_named = |name: &String| name == kind.name();
        names.is_empty() || names.iter().any(is_named)
    });
    let kinds = &kinds.collect::<Vec<Kind>>()[..];
    let recording = Recording::read_npz(Path::new(&path))?;
    let data = recording.align(recording.tick_seconds)?;
    let trials = data.segments.len();
    let (train, test): (Vec<usize>, Vec<usize>) = (0..trials).partition(|t| t * 5 < trials * 4);
    println!("control         decoder   seed  position  velocity");
    for seed in 0..2 {
        if wanted("plain") {
            compare(
                "plain",
                &data.select(&train),
                &data.select(&test),
                (kinds, seed),
            )?;
        }
        if wanted("order") {
            let mut random: Vec<usize> = (0..trials).collect();
            random.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
            let (first, rest) = random.split_at(trials * 4 / 5);
            compare(
                "order",
                &data.select(first),
                &data.select(rest),
                (kinds, seed),
            )?;
        }
        if wanted("crop") {
            let cropped = cropped(&data, seed);
            compare(
                "crop",
                &cropped.select(&train),
                &cropped.select(&test),
                (kinds, seed),
            )?;
        }
        for control in ["joined", "lost"] {
            if wanted(control) {
                disturbed(
                    control,
                    &data.select(&train),
                    &data.select(&test),
                    (kinds, seed),
                )?;
            }
        }
        if wanted("few") {
            compare(
                "few",
                &data.select(&train[..200]),
                &data.select(&test),
                (kinds, seed),
            )?;
        }
    }
    if wanted("direction") {
        directions(&data, &train, &test, kinds)?;
    }
    Ok(())
}

/// Trains each kind on `train` and prints how it does on `test`.
fn compare(
    control: &str,
    train: &Dataset,
    test: &Dataset,
    (kinds, seed): (&[Kind], u64),
) -> Result<()> {
    for &kind in kinds {
        let estimates = estimates(train, test, kind, seed)?;
        report(control, test, &estimates, kind, seed)?;
    }
    Ok(())
}

fn estimates(train: &Dataset, test: &Dataset, kind: Kind, seed: u64) -> Result<Vec<f32>> {
    let bank =
        Preset::named("reach").ok_or_else(|| Error::argument("expected a preset `reach`"))?;
    let kinds = KindOptions {
        seed,
        ..KindOptions::among(&[kind])
    };
    let options = TrainOptions::new(bank.bank()?);
    let search = match kind {
        // Folds choose nothing for networks.
        Kind::Recurrent => Search::scores_only(2),
        _ => Search::ridge(),
    };
    let cpu = Device::cpu();
    let (trained, _) = train_kinds_on(&cpu, train, &options, &search, &kinds, &())?;
    decode(&trained.decoder, test)
}

/// Trains each kind on `train` and prints how it does on `test`, disturbed as `control` says.
fn disturbed(
    control: &str,
    train: &Dataset,
    test: &Dataset,
    (kinds, seed): (&[Kind], u64),
) -> Result<()> {
    let mut shown = test.clone();
    if control == "joined"
        && let (Some(first), Some(last)) = (test.segments.first(), test.segments.last())
    {
        shown.segments = vec![Segment {
            start: first.start,
            stop: last.stop,
        }];
    }
    if control == "lost" {
        let mut channels: Vec<u32> = (0..test.channels() as u32).collect();
        channels.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let lost = &channels[..LOST.min(channels.len())];
        let view = test.spikes.view();
        let kept = |i: &usize| !lost.contains(&view.channels[*i]);
        let kept: Vec<usize> = (0..view.ticks.len()).filter(kept).collect();
        shown.spikes.ticks = kept.iter().map(|&i| view.ticks[i]).collect();
        shown.spikes.channels = kept.iter().map(|&i| view.channels[i]).collect();
        if !test.spikes.weights.is_empty() {
            shown.spikes.weights = kept.iter().map(|&i| view.weight(i)).collect();
        }
    }
    for &kind in kinds {
        let estimates = estimates(train, &shown, kind, seed)?;
        report(control, test, &estimates, kind, seed)?;
    }
    Ok(())
}

/// Means over x, y and over vx, vy.
fn report(control: &str, test: &Dataset, estimates: &[f32], kind: Kind, seed: u64) -> Result<()> {
    let scores = score_estimates(test, estimates, 0)?.outputs;
    let half = scores.len() / 2;
    let mean =
        |s: &[betz::model::OutputScore]| s.iter().map(|s| s.r2).sum::<f64>() / s.len() as f64;
    let (position, velocity) = (mean(&scores[..half]), mean(&scores[half..]));
    let name = kind.name();
    println!("{control:<15} {name:<9} {seed:>4}  {position:8.4}  {velocity:8.4}");
    Ok(())
}

/// Every trial begins 0 to 8 steps later than it does.
fn cropped(data: &Dataset, seed: u64) -> Dataset {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let crop = |s: &Segment| Segment {
        start: (s.start + random.random_range(0..9)).min(s.stop - 1),
        stop: s.stop,
    };
    let segments = data.segments.iter().map(crop).collect();
    let cropped = Dataset {
        segments,
        ..data.clone()
    };
    cropped.select(&(0..data.segments.len()).collect::<Vec<_>>())
}

/// Each direction is decoded by what was trained on the others; all are scored together.
fn directions(data: &Dataset, train: &[usize], test: &[usize], kinds: &[Kind]) -> Result<()> {
    let n = data.outputs.len();
    let point = |step: i64| [0, 1].map(|o| data.behavior[step as usize * n + o]);
    let starts = data.segments.iter().map(|s| point(s.start));
    let centre = starts.fold([0.0; 2], |c: [f32; 2], p| [c[0] + p[0], c[1] + p[1]]);
    let centre = centre.map(|c| c / data.segments.len() as f32);
    let angles: Vec<f32> = (data.segments.iter())
        .map(|s| point(s.stop - 1))
        .map(|p| (p[1] - centre[1]).atan2(p[0] - centre[0]).to_degrees())
        .collect();
    let places = places(&angles);
    for &kind in kinds {
        let mut all = vec![f32::NAN; data.steps * n];
        let without = &|direction: usize| -> Result<Vec<f32>> {
            let of = |trials: &[usize], same: bool| -> Vec<usize> {
                let mine = |t: &&usize| (places[**t] == direction) == same;
                trials.iter().filter(mine).copied().collect()
            };
            let (others, mine) = (data.select(&of(train, false)), data.select(&of(test, true)));
            estimates(&others, &mine, kind, 0)
        };
        let each: Result<Vec<Vec<f32>>> = std::thread::scope(|scope| {
            let start = |direction| scope.spawn(move || without(direction));
            let running: Vec<_> = (0..DIRECTIONS).map(start).collect();
            let failed = || Error::argument("a direction's thread ended early");
            (running.into_iter())
                .map(|one| one.join().map_err(|_| failed())?)
                .collect()
        });
        for estimates in each? {
            for (all, estimate) in all.iter_mut().zip(estimates) {
                if !estimate.is_nan() {
                    *all = estimate;
                }
            }
        }
        report("direction", &data.select(test), &all, kind, 0)?;
    }
    Ok(())
}

/// Angles sorted into directions by k-means on the circle, from evenly spaced ones.
fn places(angles: &[f32]) -> Vec<usize> {
    let away = |a: f32, b: f32| ((a - b + 180.0).rem_euclid(360.0) - 180.0).abs();
    let mut centres: Vec<f32> = (0..DIRECTIONS).map(|i| i as f32 * 45.0 - 157.5).collect();
    let nearest = |centres: &[f32], angle: f32| {
        let order =
            |a: &usize, b: &usize| away(angle, centres[*a]).total_cmp(&away(angle, centres[*b]));
        (0..DIRECTIONS).min_by(order).unwrap_or(0)
    };
    for _ in 0..20 {
        for k in 0..DIRECTIONS {
            let mine = angles.iter().filter(|a| nearest(&centres, **a) == k);
            let (x, y) = mine.fold((0.0, 0.0), |(x, y), a| {
                let (sin, cos) = a.to_radians().sin_cos();
                (x + cos, y + sin)
            });
            if x != 0.0 || y != 0.0 {
                centres[k] = y.atan2(x).to_degrees();
            }
        }
    }
    angles.iter().map(|a| nearest(&centres, *a)).collect()
}
