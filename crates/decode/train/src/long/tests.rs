use std::ops::Range;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::device::train_on;
use crate::options::RidgeChoice;
use crate::search::Search;
use crate::sums::SolveOptions;
use crate::validate::train_validated_on;
use betz_base::team::Alone;
use betz_base::team::threads::run_team;
use betz_gram::{GramPath, MaskPolicy};
use betz_recording::{Segment, Spikes};
use betz_runtime::psc::{Filter, FilterBank, LowPass};

/// Part of a [`Dataset`] between two steps, as a reader gives it.
fn cut(whole: &Dataset, steps: Range<i64>) -> Dataset {
    let (from, to) = (steps.start, steps.end);
    let mut spikes = Spikes::default();
    spikes.extend_from(&whole.spikes, whole.spikes.range(from, to));
    spikes.ticks.iter_mut().for_each(|tick| *tick -= from);
    let within = |s: &Segment| Segment {
        start: s.start.max(from) - from,
        stop: s.stop.min(to) - from,
    };
    let outputs = whole.outputs.len();
    Dataset {
        steps: (to - from) as usize,
        spikes,
        segments: whole
            .segments
            .iter()
            .map(within)
            .filter(|s| !s.is_empty())
            .collect(),
        behavior: whole.behavior[from as usize * outputs..to as usize * outputs].to_vec(),
        ..whole.clone()
    }
}

fn surveyed(whole: &Dataset, chunk: Range<i64>) -> Survey {
    Survey::new(&cut(whole, Survey::reach(&chunk)), chunk).unwrap()
}

fn outline(data: &Dataset) -> Outline {
    Outline {
        step_seconds: data.step_seconds,
        steps: data.steps as i64,
        channel_names: data.channel_names.clone(),
        outputs: data.outputs.clone(),
    }
}

/// Channels that follow two outputs, the last one silent; artefacts here and there.
fn data(seed: u64, segments: &[(i64, i64)], weighted: bool) -> Dataset {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let steps = segments.last().map_or(0, |s| s.1);
    let mut spikes = Vec::new();
    let mut behavior = Vec::new();
    for step in 0..steps {
        let t = step as f64 * 0.01;
        let (x, y) = ((1.3 * t).sin(), (0.7 * t).cos());
        behavior.extend([x as f32, 3.0 + y as f32]);
        let artefact = step % 997 == 500;
        for channel in 0..5_u32 {
            let rate = 0.2 + 0.1 * (x * f64::from(channel) + y * f64::from(4 - channel)) / 4.0;
            if artefact || random.random::<f64>() < rate {
                for _ in 0..if artefact { 8 } else { 1 } {
                    spikes.push((step, channel));
                }
            }
        }
    }
    let mut data = betz_gram::cases::dataset(6, segments, spikes, 2);
    data.behavior = behavior;
    if weighted {
        data.spikes.weights = (0..data.spikes.len())
            .map(|i| 1.0 + (i % 3) as f32)
            .collect();
    }
    data
}

fn bank(taus: &[(f64, u32)]) -> FilterBank {
    let filter = |&(tau_seconds, order): &(f64, u32)| Filter { tau_seconds, order };
    FilterBank::new(taus.iter().map(filter).collect()).unwrap()
}

fn options(taus: &[(f64, u32)]) -> TrainOptions {
    TrainOptions {
        mask: MaskPolicy::Mask,
        gram: GramPath::Event,
        ridge: RidgeChoice::RelativeNoise(0.1),
        ..TrainOptions::new(bank(taus))
    }
}

/// Largest difference, relative to the largest value.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let scale = a.iter().chain(b).fold(0.0_f64, |m, v| m.max(v.abs()));
    let most = a
        .iter()
        .zip(b)
        .fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
    most / scale.max(f64::MIN_POSITIVE)
}

/// Both paths to Γ work in f32 for a while: a pair of steps too many or too few is a hundred times as much.
const F32: f64 = 1e-6;

const TRIALS: &[(i64, i64)] = &[(3, 700), (700, 1900), (2000, 2001), (2100, 6000)];

#[test]
fn sums_in_chunks_are_those_of_the_whole() {
    for (case, (delay, low_pass, weighted)) in [
        (0, None, false),
        (7, None, false),
        (-5, None, true),
        (
            2,
            Some(LowPass {
                order: 2,
                cutoff_hz: 4.0,
            }),
            false,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let whole = data(case as u64, TRIALS, weighted);
        let mut options = options(&[(0.05, 0), (0.3, 2)]);
        (options.delay_steps, options.low_pass) = (delay, low_pass);
        if low_pass.is_some() {
            options.gram = GramPath::Auto;
        }
        let expected = Sums::over(&Device::cpu(), &whole, &options, &()).unwrap();
        for cuts in [
            vec![0, 6000],
            vec![0, 699, 701, 2000, 2001, 2050, 5999, 6000],
            (0..=20).map(|i| i * 300).collect(),
        ] {
            let mut read = |steps: Range<i64>| Ok(cut(&whole, steps));
            let (device, outline) = (Device::cpu(), outline(&whole));
            let got = work(&Alone, &device, &outline, &cuts)
                .sums(&mut read, &options)
                .unwrap()
                .unwrap();
            let (a, b) = (expected.equations(), got.equations());
            assert_eq!(a.steps, b.steps, "case {case}, cuts {cuts:?}");
            assert!(
                apart(&a.gram, &b.gram) < F32,
                "case {case}, {cuts:?}: Γ {:e}",
                apart(&a.gram, &b.gram)
            );
            assert!(apart(&a.upsilon, &b.upsilon) < F32, "case {case}: Υ");
            assert!(
                apart(&a.feature_sum, &b.feature_sum) < F32,
                "case {case}: Σa"
            );
            assert!(apart(&a.output_sum, &b.output_sum) < F32, "case {case}: Σx");
            let facts = |s: &Sums| (s.form().clone(), s.spikes(), s.segments(), s.artefacts());
            assert_eq!(facts(&expected), facts(&got));
            assert!(weighted || got.artefacts() > 0, "the trap was not met");
            let solve = SolveOptions::with(RidgeChoice::Fixed(3.0));
            let decoders = [&expected, &got].map(|s| s.solve(&solve).unwrap());
            assert_eq!(decoders[0].limits(), decoders[1].limits());
        }
    }
}

/// Values of five channels at every step, which the two outputs follow, `offset` from 0.
fn signal(offset: f64) -> Dataset {
    let all = (0..6000).flat_map(|t| (0..5).map(move |c| (t, c)));
    let mut data = betz_gram::cases::dataset(5, TRIALS, all.collect(), 2);
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let values: Vec<f64> = (0..data.spikes.len())
        .map(|_| random.random::<f64>() - 0.5)
        .collect();
    data.spikes.weights = values.iter().map(|v| (v + offset) as f32).collect();
    data.behavior = (values.chunks(5))
        .flat_map(|v| [v[0] - 2.0 * v[3], v[1] + 0.5 * v[4]])
        .map(|x| x as f32)
        .collect();
    data
}

/// A distance from 0 shows in no decoder: of the whole, of chunks, of merged parts, of folds.
#[test]
fn a_signal_far_from_zero_leads_to_the_weights_of_one_about_zero() {
    let train = TrainOptions {
        gram: GramPath::Auto,
        ..options(&[(1e-3 / 40.0, 0)])
    };
    let solve = SolveOptions::with(RidgeChoice::Fixed(0.1));
    let cpu = Device::cpu();
    let sums = |data: &Dataset| Sums::over(&cpu, data, &train, &()).unwrap();
    let expected = sums(&signal(0.0)).solve(&solve).unwrap();
    for offset in [1e3, -1e4, 3e4] {
        let whole = signal(offset);
        let mut read = |steps: Range<i64>| Ok(cut(&whole, steps));
        let outline = outline(&whole);
        let chunks = work(&Alone, &cpu, &outline, &[0, 699, 2100, 4001, 6000])
            .sums(&mut read, &train)
            .unwrap()
            .unwrap();
        let parts = [cut(&whole, 0..2000), cut(&whole, 2000..6000)].map(|part| sums(&part));
        let mut merged = parts[1].clone();
        merged.merge(&parts[0]).unwrap();
        let mut backwards = parts[0].clone();
        backwards.merge(&parts[1]).unwrap();
        assert_eq!(merged.to_bytes(), backwards.to_bytes());
        let (validated, score) = Sums::cross_validate(&parts, &solve).unwrap();
        assert!(score.outputs.iter().all(|o| o.r2 > 0.999), "{score:?}");
        let found = [sums(&whole), chunks, merged].map(|sums| sums.solve(&solve).unwrap());
        for decoder in found.iter().chain([&validated]) {
            assert_eq!(decoder.channel_mask(), [true; 5], "{offset}");
            let error = apart(expected.weights(), decoder.weights());
            assert!(error < 1e-3, "{offset}: {error:e}");
        }
    }
}

#[test]
fn training_in_chunks_is_training_on_the_whole() {
    let one: &[(i64, i64)] = &[(0, 6000)];
    for (segments, folds) in [(TRIALS, Some(4)), (one, Some(5)), (TRIALS, None)] {
        let whole = data(7, segments, false);
        let train = options(&[(0.05, 0)]);
        let search = folds.map(|folds| Search {
            folds,
            banks: vec![bank(&[(0.02, 0)]), bank(&[(0.1, 1), (0.4, 0)])],
            ridge: true,
        });
        let silent = crate::active::active(&whole).unwrap().unwrap();
        let cpu = Device::cpu();
        let expected = match &search {
            Some(search) => train_validated_on(&cpu, &silent.data, &train, search, &()),
            None => train_on(&cpu, &silent.data, &train, &()),
        };
        let expected = expected.unwrap().decoder;
        let expected =
            crate::active::spread(expected, &whole.channel_names, &silent.channels).unwrap();
        let long = TrainingPlan {
            options: train,
            search,
            leave_out_silent: true,
        };
        let mut read = |steps: Range<i64>| Ok(cut(&whole, steps));
        let cuts = [0, 1000, 1001, 3500, 4800, 6000];
        let outline = outline(&whole);
        let got = work(&Alone, &cpu, &outline, &cuts)
            .train(&mut read, &long)
            .unwrap()
            .unwrap();
        let got = got.decoder;
        assert_eq!(expected.bank(), got.bank());
        assert_eq!(expected.channel_mask(), got.channel_mask());
        assert_eq!(expected.limits(), got.limits());
        assert!(apart(expected.weights(), got.weights()) < 1e-4);
        let (a, b) = (expected.training(), got.training());
        assert_eq!(
            (a.steps, a.segments, a.spikes, a.folds),
            (b.steps, b.segments, b.spikes, b.folds)
        );
        assert!((a.ridge / b.ridge - 1.0).abs() < F32);
        assert_eq!(a.scores.len(), b.scores.len());
        for (a, b) in a.scores.iter().zip(&b.scores) {
            assert!(
                (a.r2 - b.r2).abs() < 1e-5 && (a.rmse / b.rmse - 1.0).abs() < 1e-5,
                "{a:?} {b:?}"
            );
        }
    }
}

#[test]
fn evaluating_in_chunks_is_evaluating_the_whole() {
    for (delay, weighted) in [(0, false), (6, true), (-4, false)] {
        let whole = data(3, TRIALS, weighted);
        let mut train = options(&[(0.05, 0), (0.3, 1)]);
        train.delay_steps = delay;
        let decoder = train_on(&Device::cpu(), &whole, &train, &())
            .unwrap()
            .decoder;
        let expected = betz_gram::evaluate(&decoder, &whole).unwrap();
        let decoded = betz_gram::decode::decode(&decoder, whole.view()).unwrap();
        for cuts in [vec![0, 6000], vec![0, 2, 3, 699, 1900, 2000, 2500, 6000]] {
            let mut read = |steps: Range<i64>| Ok(cut(&whole, steps));
            let mut seen = vec![f32::NAN; decoded.len()];
            let mut each = |row: DecodedRow<'_>| {
                let at = row.step as usize * 2;
                assert_eq!(row.truth, &whole.behavior[at..at + 2]);
                seen[at..at + 2].copy_from_slice(row.estimate);
                Ok(())
            };
            let got =
                evaluate(&decoder, &mut read, &outline(&whole), &cuts, &mut each, &()).unwrap();
            for (i, (a, b)) in decoded.iter().zip(&seen).enumerate() {
                assert!(
                    a.is_nan() && b.is_nan() || (a - b).abs() < 1e-4,
                    "value {i}: {a} {b}"
                );
            }
            assert_eq!((got.steps, got.segments), (5_798, 4));
            for (a, b) in expected.outputs.iter().zip(&got.outputs) {
                assert!(
                    (a.r2 - b.r2).abs() < 1e-5 && (a.rmse - b.rmse).abs() < 1e-5,
                    "{a:?} {b:?}"
                );
            }
        }
    }
}

fn work<'a>(
    team: &'a dyn Team,
    device: &'a Device,
    outline: &'a Outline,
    cuts: &'a [i64],
) -> Work<'a> {
    Work {
        team,
        device,
        outline,
        cuts,
        memory: u64::MAX,
        progress: &(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn every_team_gives_the_same_bits(
        seed in 0..100_u64,
        cuts in prop::collection::btree_set(1..6000_i64, 1..6),
    ) {
        let whole = data(seed, TRIALS, false);
        let mut cuts: Vec<i64> = cuts.into_iter().collect();
        cuts.insert(0, 0);
        cuts.push(6000);
        let outline = outline(&whole);
        let long = TrainingPlan {
            options: options(&[(0.1, 1)]),
            search: Some(Search { banks: Vec::new(), ..Search::ridge() }),
            leave_out_silent: true,
        };
        let device = Device::cpu();
        let train = |team: &dyn Team, memory: u64| {
            let mut read = |steps: Range<i64>| Ok(cut(&whole, steps));
            let work = Work { memory, ..work(team, &device, &outline, &cuts) };
            let trained = work.train(&mut read, &long).unwrap();
            trained.map(|trained| trained.decoder.to_bytes().unwrap())
        };
        let alone = train(&Alone, u64::MAX).unwrap();
        // 6 features and 2 outputs: 21 + 6 + 12 + 2 + 2 numbers of 16 bytes per fold. One, two, three folds at once.
        for memory in [0, 2 * 43 * 16, 4 * 43 * 16 - 1] {
            prop_assert!(train(&Alone, memory).unwrap() == alone);
        }
        // More processes than chunks, too.
        for size in [2, 3, 7] {
            let memory = if size == 3 { 43 * 16 } else { u64::MAX };
            let of_team = run_team(size, |team| train(team, memory));
            prop_assert_eq!(of_team[0].as_ref(), Some(&alone));
            prop_assert!(of_team[1..].iter().all(Option::is_none));
        }
    }

    #[test]
    fn surveys_are_joined_as_they_were_sent(
        seed in 0..100_u64,
        cuts in prop::collection::btree_set(1..6000_i64, 1..6),
    ) {
        let whole = data(seed, TRIALS, false);
        let mut survey = Survey::nothing(&outline(&whole));
        let mut start = 0;
        for end in cuts.into_iter().chain([6000]) {
            let one = surveyed(&whole, start..end);
            let sent = Survey::from_words(&one.to_words()).unwrap();
            prop_assert_eq!(&one, &sent);
            survey.append(&sent).unwrap();
            start = end;
        }
        prop_assert_eq!(&survey.segments, &whole.segments);
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let whole = data(1, TRIALS, false);
    let outline = outline(&whole);
    let mut first = Survey::nothing(&outline);
    first.append(&surveyed(&whole, 0..10)).unwrap();
    assert!(first.append(&surveyed(&whole, 11..20)).is_err());
    let long = TrainingPlan {
        options: options(&[(0.1, 1)]),
        search: None,
        leave_out_silent: true,
    };
    assert!(Job::new(&Device::cpu(), &outline, first, &long).is_err());
    for words in [&[][..], &[0, 5, u64::MAX], &[0, 0, 0, 0, 0, 1 << 40]] {
        assert!(Survey::from_words(words).is_err());
    }
    let all = surveyed(&whole, 0..6000);
    let job = Job::new(&Device::cpu(), &outline, all, &long).unwrap();
    assert!(job.no_facts(0).absorb(&[1, 2, 3]).is_err());
    for words in [
        &[][..],
        &[0, 1],
        &[0, 1, 9, 0],
        &[0, 1, 8, 0],
        &[0, u64::MAX],
    ] {
        assert!(FoldDecision::from_words(words).is_err());
    }
}

/// Everything is counted once, whatever is summed at once, and a pass has the chunks that its folds lie in alone.
#[test]
fn passes_share_out_folds_and_count_each_chunk_once() {
    let whole = data(1, &[(0, 6000)], false);
    let outline = outline(&whole);
    let survey = surveyed(&whole, 0..6000);
    let long = TrainingPlan {
        options: options(&[(0.1, 1)]),
        search: Some(Search {
            banks: Vec::new(),
            folds: 5,
            ..Search::ridge()
        }),
        leave_out_silent: true,
    };
    let job = Job::new(&Device::cpu(), &outline, survey, &long).unwrap();
    let cuts: Vec<i64> = (0..=20).map(|i| i * 300).collect();
    for (memory, at_once) in [
        (0, vec![1; 5]),
        (2 * 43 * 16, vec![2, 2, 1]),
        (u64::MAX, vec![5]),
    ] {
        let passes = job.passes(0, Groups::Wanted, &cuts, memory);
        assert_eq!(
            passes.iter().map(|p| p.parts.len()).collect::<Vec<_>>(),
            at_once
        );
        let chunks = || passes.iter().flat_map(|p| &p.chunks);
        let mut counted: Vec<i64> = chunks()
            .filter(|s| s.counted)
            .map(|s| s.steps.start)
            .collect();
        counted.sort_unstable();
        assert_eq!(counted, cuts[..20]);
        // 1,200 steps per fold are four chunks of 300.
        assert_eq!(chunks().count(), 20, "{at_once:?}");
    }
}
