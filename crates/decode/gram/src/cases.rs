//! The cases that every implementation is tested on, here and in `betz-train`.

use crate::gram::{GramPath, normal_equations};
use crate::solve::{FeatureNames, MaskPolicy, Solver, solve};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use betz_recording::{Dataset, OutputInfo, Segment, Spikes};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank, LowPass, SampledFilter};

/// A named dataset with a bank and a delay.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub data: Dataset,
    pub bank: FilterBank,
    pub delay_steps: i64,
}

/// A bank of (τ in milliseconds, order).
pub fn bank(filters: &[(f64, u32)]) -> FilterBank {
    let filters = filters.iter().map(|&(ms, order)| Filter {
        tau_seconds: ms * 1e-3,
        order,
    });
    FilterBank::new(filters.collect()).unwrap()
}

/// A dataset at 1 ms from (tick, channel) pairs and (start, stop) segments, with smooth behaviour.
pub fn dataset(
    channels: usize,
    segments: &[(i64, i64)],
    mut spikes: Vec<(i64, u32)>,
    outputs: usize,
) -> Dataset {
    spikes.sort_unstable_by_key(|s| s.0);
    let steps = segments.last().map_or(0, |s| s.1) as usize;
    spikes.retain(|s| (s.0 as usize) < steps);
    let value = |i: usize| {
        let (t, o) = ((i / outputs) as f32, (i % outputs) as f32);
        10.0 * o + 3.0 + (t * (0.011 + 0.007 * o)).sin()
    };
    Dataset {
        step_seconds: 1e-3,
        steps,
        channel_names: (0..channels).map(|c| format!("c{c}")).collect(),
        spikes: Spikes::new(
            spikes.iter().map(|s| s.0).collect(),
            spikes.iter().map(|s| s.1).collect(),
        ),
        segments: segments
            .iter()
            .map(|&(start, stop)| Segment { start, stop })
            .collect(),
        outputs: (0..outputs)
            .map(|o| OutputInfo {
                name: format!("x{o}"),
                unit: "mm".into(),
            })
            .collect(),
        behavior: (0..steps * outputs).map(value).collect(),
    }
}

/// Behaviour of which the first row lies outside the only segment; one silent channel.
pub fn behaving(step_seconds: f64, outputs: &[(&str, &str)], rows: &[&[f32]]) -> Dataset {
    Dataset {
        step_seconds,
        steps: rows.len(),
        channel_names: vec!["a".into()],
        spikes: Spikes::default(),
        segments: vec![Segment {
            start: 1,
            stop: rows.len() as i64,
        }],
        outputs: (outputs.iter())
            .map(|(name, unit)| OutputInfo {
                name: (*name).into(),
                unit: (*unit).into(),
            })
            .collect(),
        behavior: rows.concat(),
    }
}

/// `count` spikes anywhere in `0..steps`, seeded.
pub fn random_spikes(seed: u64, channels: u32, steps: i64, count: usize) -> Vec<(i64, u32)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count)
        .map(|_| (rng.random_range(0..steps), rng.random_range(0..channels)))
        .collect()
}

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: &str, data: Dataset, bank: FilterBank, delay_steps: i64| {
        cases.push(Case {
            name: name.into(),
            data,
            bank,
            delay_steps,
        });
    };
    let random = |seed, channels: u32, segments: &[(i64, i64)], count| {
        let steps = segments.last().unwrap().1;
        let spikes = random_spikes(seed, channels, steps, count);
        dataset(channels as usize, segments, spikes, 2)
    };
    for order in 0..=4 {
        let data = random(u64::from(order), 5, &[(0, 400)], 200);
        add(&format!("order {order}"), data, bank(&[(10.0, order)]), 0);
    }
    let mixed = [
        (3.0, 0),
        (5.0, 1),
        (20.0, 2),
        (8.0, 3),
        (15.0, 4),
        (300.0, 1),
    ];
    add(
        "a bank of all orders",
        random(10, 4, &[(0, 500)], 300),
        bank(&mixed),
        0,
    );
    let trials = [(2, 60), (60, 61), (70, 140), (150, 153), (160, 420)];
    add("segments", random(11, 6, &trials, 400), bank(&mixed), 0);
    add("delay", random(12, 6, &trials, 400), bank(&mixed), 7);
    add(
        "delay longer than some segments",
        random(13, 3, &trials, 300),
        bank(&mixed),
        75,
    );
    add(
        "negative delay",
        random(14, 3, &trials, 300),
        bank(&mixed),
        -9,
    );
    add(
        "one channel",
        random(15, 1, &[(0, 300)], 40),
        bank(&[(10.0, 1)]),
        0,
    );
    add(
        "one spike",
        dataset(1, &[(0, 50)], vec![(3, 0)], 1),
        bank(&[(10.0, 2)]),
        0,
    );
    add(
        "a spike in the last step",
        dataset(2, &[(0, 50)], vec![(49, 0), (49, 1)], 1),
        bank(&[(10.0, 0)]),
        0,
    );
    add(
        "one step",
        dataset(2, &[(0, 1)], vec![(0, 0), (0, 0), (0, 1)], 1),
        bank(&mixed),
        0,
    );
    add(
        "no spikes",
        dataset(3, &[(0, 20)], vec![], 2),
        bank(&[(10.0, 1)]),
        0,
    );
    add(
        "silent channels",
        {
            let mut spikes = random_spikes(16, 9, 300, 150);
            spikes.retain(|s| s.1 % 3 != 1);
            dataset(9, &[(0, 300)], spikes, 2)
        },
        bank(&[(10.0, 1)]),
        0,
    );
    add(
        "ties",
        {
            let spikes = (0..300)
                .map(|i| (i / 30 * 25, (i * 7 % 11) as u32))
                .collect();
            dataset(11, &[(0, 300)], spikes, 1)
        },
        bank(&[(10.0, 1), (4.0, 0), (6.0, 3)]),
        0,
    );
    add(
        "bursts and long silence",
        {
            let bursts =
                (0..400).map(|i| (i64::from(i / 80) * 1000 + i64::from(i % 13), (i % 5) as u32));
            dataset(5, &[(0, 5000)], bursts.collect(), 1)
        },
        bank(&[(10.0, 1), (2.0, 4), (100.0, 2)]),
        0,
    );
    add(
        "steps longer than tau",
        random(17, 4, &[(0, 200)], 300),
        bank(&[(0.2, 0), (0.3, 2), (0.01, 1)]),
        0,
    );
    add(
        "slow filters in short segments",
        random(18, 4, &trials, 500),
        bank(&[(5000.0, 0), (2000.0, 2)]),
        0,
    );
    add(
        "more channels than one tile",
        random(19, 150, &[(0, 300), (310, 500)], 2000),
        bank(&[(10.0, 1), (30.0, 0)]),
        3,
    );
    add(
        "no outputs",
        {
            let mut data = random(20, 3, &[(0, 100)], 50);
            (data.outputs, data.behavior) = (vec![], vec![]);
            data
        },
        bank(&[(10.0, 1)]),
        0,
    );
    let with_counts = |mut data: Dataset, seed, large: bool| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let of = |_| match large && rng.random_range(0..20) == 0 {
            true => 65_535.0,
            false => rng.random_range(1..9) as f32,
        };
        data.spikes.weights = (0..data.spikes.len()).map(of).collect();
        data
    };
    let counted = with_counts(random(21, 6, &trials, 300), 21, false);
    add("counts", counted.clone(), bank(&mixed), 0);
    add("counts, delay", counted.clone(), bank(&mixed), 7);
    add("counts, negative delay", counted, bank(&mixed), -9);
    let large = with_counts(random(22, 150, &[(0, 300), (310, 500)], 2000), 22, true);
    add(
        "large counts, two tiles",
        large,
        bank(&[(10.0, 1), (30.0, 0)]),
        3,
    );
    add(
        "a signal",
        {
            let mut rng = ChaCha8Rng::seed_from_u64(23);
            let samples = (0..420).flat_map(|t| (0..6).map(move |c| (t, c)));
            let mut data = dataset(6, &trials, samples.collect(), 2);
            data.spikes.weights = (0..data.spikes.len())
                .map(|_| rng.random_range(-3.0_f32..5.0))
                .collect();
            data
        },
        bank(&mixed),
        2,
    );
    cases
}

/// The cases whose datasets are larger than a few steps, with sampled filters behind their banks: short, long, late and
/// ahead of the spike.
pub fn sampled() -> Vec<Case> {
    let samples = |length: usize| (0..length).map(|i| ((i * i + 3 * i) % 19) as f64 / 19.0 - 0.3);
    let filter = |name: &str, length: usize, start: i64| {
        SampledFilter::new(name, samples(length).collect(), 1e-3, start).unwrap()
    };
    let mut cases = all();
    cases.retain(|case| case.data.steps < 1000);
    for (i, case) in cases.iter_mut().enumerate() {
        let sampled = match i % 3 {
            0 => vec![filter("short", 8, 0), filter("long", 1200, 3)],
            1 => vec![filter("ahead", 90, -40)],
            _ => vec![filter("late", 33, 20), filter("before", 5, -9)],
        };
        let recursive = case.bank.filters()[..i % 2].to_vec();
        case.bank = FilterBank::with_sampled(recursive, sampled).unwrap();
        case.name.push_str(", sampled filters");
    }
    cases
}

/// One channel that fires all the time and in step, among many that hardly do: its row of Γ takes far
/// more terms than the mean of them, all of one sign.
#[cfg(test)]
pub(crate) fn busy_regular() -> Vec<Case> {
    let (channels, steps) = (60, 30_000);
    let mut spikes: Vec<(i64, u32)> = (0..steps / 2).map(|i| (2 * i, 0)).collect();
    spikes.extend((1..40).map(|i| (i * 700, 1 + i as u32 % (channels - 1))));
    spikes.sort_unstable();
    let trials: Vec<(i64, i64)> = (0..10).map(|i| (i * 3000, i * 3000 + 2990)).collect();
    let cut = [vec![(0, steps)], trials];
    let of = |delay_steps, segments: &Vec<(i64, i64)>| Case {
        name: format!("{} segments, delay {delay_steps}", segments.len()),
        data: dataset(channels as usize, segments, spikes.clone(), 1),
        bank: bank(&[(10.0, 1)]),
        delay_steps,
    };
    [0, 5]
        .into_iter()
        .flat_map(|delay| cut.iter().map(move |segments| (delay, segments)))
        .map(|(delay, segments)| of(delay, segments))
        .collect()
}

/// The decoder that solves the normal equations of `data` without a ridge.
pub fn solved(
    data: &Dataset,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    delay_steps: i64,
) -> Decoder {
    let (sums, _) =
        normal_equations(data, bank, low_pass, delay_steps, GramPath::Auto, &()).unwrap();
    let names = FeatureNames {
        channels: &data.channel_names,
        bank,
    };
    let solution = solve(&sums, 0.0, Solver::Cholesky, MaskPolicy::Refuse, names).unwrap();
    let (channels, outputs) = (data.channel_names.clone(), data.outputs.clone());
    Decoder::new(DecoderParts {
        low_pass,
        delay_steps,
        weights: solution.weights,
        intercept: solution.intercept,
        ..DecoderParts::linear(data.step_seconds, bank.clone(), channels, outputs)
    })
    .unwrap()
}

/// `decoder`, whose outputs are kept within no range.
pub fn without_ranges(decoder: Decoder) -> Decoder {
    let mut parts = decoder.into_parts();
    parts.limits.ranges.clear();
    Decoder::new(parts).unwrap()
}
