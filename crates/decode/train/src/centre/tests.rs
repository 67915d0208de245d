use super::*;
use crate::kinds::{Kind, KindOptions};
use crate::long::{Outline, Work};
use crate::online::{TrainerConfig, Worker};
use crate::options::{RidgeChoice, TrainingPlan};
use crate::sums::{SolveOptions, Sums};
use crate::{Training, train};
use betz_base::team::Alone;
use betz_device::Device;
use betz_gram::decode::decode;
use betz_gram::gram::oracle;
use betz_gram::score::mean_r2;
use betz_gram::{cases, evaluate};
use betz_runtime::psc::{Filter, SampledFilter};
use betz_runtime::stream::{Session, SessionConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

const CHANNELS: usize = 6;
const STEPS: i64 = 150;

/// Trials of a signal whose channels mix two slow movements and noise of standard deviation 1, `offset` away from 0.
fn signal(trials: Range<i64>, offset: f64) -> Dataset {
    let segments: Vec<(i64, i64)> = (0..trials.end - trials.start)
        .map(|t| (t * (STEPS + 5), t * (STEPS + 5) + STEPS))
        .collect();
    let mut data = cases::dataset(CHANNELS, &segments, Vec::new(), 2);
    data.step_seconds = 0.02;
    for (number, segment) in trials.zip(data.segments.clone()) {
        let mut random = ChaCha8Rng::seed_from_u64(number as u64);
        let mut state = [0.0; 2];
        for step in segment.start..segment.stop {
            for x in &mut state {
                *x = 0.97 * *x + 0.2 * random.random_range(-1.0..1.0);
            }
            let row = step as usize * 2;
            data.behavior[row..row + 2].copy_from_slice(&state.map(|x| x as f32));
            for channel in 0..CHANNELS {
                let angle = channel as f64;
                let noise: f64 = random.random_range(-1.7..1.7);
                let value = angle.cos() * state[0] + angle.sin() * state[1] + noise;
                data.spikes.ticks.push(step);
                data.spikes.channels.push(channel as u32);
                data.spikes
                    .weights
                    .push((value + offset * (1.0 + 0.1 * angle)) as f32);
            }
        }
    }
    data
}

fn bank() -> FilterBank {
    let filters = [(0.1, 0), (0.4, 1)].map(|(tau_seconds, order)| Filter { tau_seconds, order });
    let sampled = SampledFilter::new("boxcar", vec![0.1; 10], 0.02, 0).unwrap();
    FilterBank::with_sampled(filters.to_vec(), vec![sampled]).unwrap()
}

fn training(kinds: &[Kind]) -> Training {
    Training {
        bank: Some(bank()),
        folds: 3,
        kinds: KindOptions {
            latents: Some(2),
            units: Some(16),
            experts: Some(2),
            layers: Some(vec![16]),
            epochs: Some(3),
            ..KindOptions::among(kinds)
        },
        ..Training::default()
    }
}

fn r2(decoder: &Decoder, offset: f64) -> f64 {
    mean_r2(&evaluate(decoder, &signal(40..50, offset)).unwrap().outputs)
}

/// A decoder of values `offset` away from 0 scores as one of values about 0, which is better than `least`.
fn scores_alike(offset: f64, least: f64, trained: impl Fn(&Dataset) -> Decoder) {
    let about_zero = r2(&trained(&signal(0..40, 0.0)), 0.0);
    let away = trained(&signal(0..40, offset));
    let score = r2(&away, offset);
    assert!(about_zero > least, "{about_zero}");
    assert!(
        (score - about_zero).abs() < 0.01,
        "{score}, not {about_zero}"
    );
    let data = signal(40..44, offset);
    let whole = decode(&away, &data).unwrap();
    let mut session = Session::open(&away, SessionConfig::default()).unwrap();
    let mut out = [0.0; 2];
    for segment in &data.segments {
        session.reset();
        for step in segment.start..segment.stop {
            let row = &data.spikes.weights[data.spikes.range(step, step + 1)];
            session.step_values(row, &mut out).unwrap();
            let expected = &whole[step as usize * 2..][..2];
            for (got, expected) in out.iter().zip(expected) {
                assert!((got - expected).abs() < 1e-4, "{got}, not {expected}");
            }
        }
    }
}

#[test]
fn every_kind_decodes_alike_wherever_zero_is() {
    for kind in [
        Kind::Linear,
        Kind::Lift,
        Kind::Experts,
        Kind::Kalman,
        Kind::Blend,
    ] {
        for offset in [1.0, 10.0, -1000.0] {
            scores_alike(offset, 0.5, |data| {
                let trained = training(&[kind]).run(data, &Device::cpu(), &()).unwrap();
                assert_eq!(trained.warnings, [""; 0]);
                assert_eq!(trained.decoder.channel_means().len(), CHANNELS);
                trained.decoder
            });
        }
    }
}

#[test]
fn a_low_pass_and_a_bank_of_its_own_choice_start_at_the_mean() {
    for low_pass in [None, Some((2, 3.0))] {
        let low_pass =
            low_pass.map(|(order, cutoff_hz)| betz_runtime::psc::LowPass { order, cutoff_hz });
        scores_alike(30.0, 0.4, |data| {
            let training = Training {
                bank: low_pass.map(|_| bank()),
                low_pass,
                ..training(&[Kind::Linear])
            };
            training.run(data, &Device::cpu(), &()).unwrap().decoder
        });
    }
}

#[test]
fn whole_numbers_far_from_zero_are_a_signal() {
    let adc = |trials| {
        let mut data = signal(trials, 0.0);
        for value in &mut data.spikes.weights {
            *value = (100.0 * *value + 32_768.0).round();
        }
        data
    };
    let trained = training(&[Kind::Linear])
        .run(&adc(0..40), &Device::cpu(), &())
        .unwrap();
    let score = mean_r2(&evaluate(&trained.decoder, &adc(40..50)).unwrap().outputs);
    let plain = r2(
        &training(&[Kind::Linear])
            .run(&signal(0..40, 0.0), &Device::cpu(), &())
            .unwrap()
            .decoder,
        0.0,
    );
    assert!((score - plain).abs() < 0.01, "{score}, not {plain}");
    assert_eq!(trained.decoder.limits().blanking, None);
}

#[test]
fn spikes_start_from_rest() {
    let data = cases::dataset(3, &[(0, 500)], cases::random_spikes(3, 3, 500, 2000), 1);
    let options = TrainOptions::new(cases::bank(&[(20.0, 1)]));
    assert_eq!(CentredSignal::new(&data, &options).unwrap(), None);
    // So does a signal that is 0 at most steps, and one whose filters remember nothing.
    let mut sparse = signal(0..3, 1.0);
    sparse.spikes.ticks.retain(|t| t % 3 == 0);
    let entries = sparse.spikes.ticks.len();
    sparse.spikes.channels.truncate(entries);
    sparse.spikes.weights.truncate(entries);
    assert_eq!(CentredSignal::new(&sparse, &options).unwrap(), None);
    let of_step = TrainOptions::new(
        FilterBank::new(vec![Filter {
            tau_seconds: 1e-3,
            order: 0,
        }])
        .unwrap(),
    );
    assert_eq!(
        CentredSignal::new(&signal(0..3, 1.0), &of_step).unwrap(),
        None
    );
    // Sums of events are about 0, whatever the filters.
    let events = TrainOptions {
        gram: GramPath::Event,
        ..of_step
    };
    assert!(
        CentredSignal::new(&signal(0..3, 1.0), &events)
            .unwrap()
            .is_some()
    );
}

#[test]
fn gram_of_events_knows_a_signal_far_from_zero() {
    let scores = [GramPath::Dense, GramPath::Event].map(|gram| {
        let training = Training {
            gram,
            bank: Some(bank().first()),
            ..training(&[Kind::Linear])
        };
        let trained = training.run(&signal(0..40, 1e4), &Device::cpu(), &());
        r2(&trained.unwrap().decoder, 1e4)
    });
    assert!((scores[0] - scores[1]).abs() < 1e-3, "{scores:?}");
}

#[test]
fn sums_shift_to_what_the_oracle_gives() {
    let bank = cases::bank(&[(20.0, 1), (60.0, 0)]);
    let mut data = signal(0..2, 2.0);
    data.step_seconds = 0.001;
    let means = [1.0, -2.0, 0.5, 3.0, 0.0, 4.0];
    let without = without_means(&data.view(), &means).unwrap();
    // The means forever: so long a lead that filters have settled.
    let mut sums = oracle::normal_equations(&without, &bank, None, 0).unwrap();
    let before = sums.clone();
    shift(&mut sums, &bank, &means, 1.0);
    let (n, steps) = (sums.features, sums.steps as f64);
    for i in 0..n {
        let by = means[i / 2];
        let expected = before.feature_sum[i] + steps * by;
        assert!((sums.feature_sum[i] - expected).abs() < 1e-9 * expected.abs().max(1.0));
        for j in 0..n {
            let other = means[j / 2];
            let expected = before.gram[i * n + j]
                + by * before.feature_sum[j]
                + other * before.feature_sum[i]
                + steps * by * other;
            assert!((sums.gram[i * n + j] - expected).abs() < 1e-9 * expected.abs().max(1.0));
        }
    }
    shift(&mut sums, &bank, &means, -1.0);
    for (a, b) in sums.gram.iter().zip(&before.gram) {
        assert!((a - b).abs() < 1e-9 * b.abs().max(1.0));
    }
}

#[test]
fn merged_sums_start_at_the_mean_of_all_parts() {
    let options = TrainOptions::new(bank());
    let solve = SolveOptions::with(RidgeChoice::Fixed(10.0));
    scores_alike(10.0, 0.5, |data| {
        let parts: Vec<Sums> = [0..20, 20..40]
            .map(|trials: Range<usize>| {
                let view = data.view().with_segments(&data.segments[trials]);
                Sums::over(&Device::cpu(), view, &options, &()).unwrap()
            })
            .to_vec();
        let (decoder, _) = Sums::cross_validate(&parts, &solve).unwrap();
        let [a, b] = &parts[..] else { unreachable!() };
        let mut both = a.clone();
        both.merge(b).unwrap();
        let mut other_way = b.clone();
        other_way.merge(a).unwrap();
        assert_eq!(both.to_bytes(), other_way.to_bytes());
        let again = Sums::from_bytes(&both.to_bytes()).unwrap();
        let solved = again.solve(&solve).unwrap();
        assert_eq!(solved.channel_means(), decoder.channel_means());
        let (held_out, _) = a.solve_held_back(b, &solve).unwrap();
        assert!(held_out.channel_means().len() == CHANNELS);
        solved
    });
}

#[test]
fn parts_with_other_means_add_up() {
    // Each part's filters start at its own mean; behaviour is linear in what is filtered, not in the distance from it.
    let options = TrainOptions::new(bank());
    let [first, second] = [(0..20, 10.0), (20..40, 10.5)].map(|(trials, offset)| {
        let data = signal(trials, offset);
        Sums::over(&Device::cpu(), &data, &options, &()).unwrap()
    });
    let mut both = first;
    both.merge(&second).unwrap();
    let solve = SolveOptions::with(RidgeChoice::Fixed(1.0));
    let decoder = both.solve(&solve).unwrap();
    let mean = decoder.channel_means()[0];
    assert!((mean - 10.25).abs() < 0.1, "{mean}");
    assert!(r2(&decoder, 10.25) > 0.5);
}

#[test]
fn chunks_give_the_decoder_of_the_whole() {
    let data = signal(0..40, 10.0);
    let options = TrainOptions {
        ridge: RidgeChoice::Fixed(1.0),
        ..TrainOptions::new(bank())
    };
    let plan = TrainingPlan {
        options: options.clone(),
        search: None,
        leave_out_silent: true,
    };
    let outline = Outline {
        step_seconds: data.step_seconds,
        steps: data.steps as i64,
        channel_names: data.channel_names.clone(),
        outputs: data.outputs.clone(),
    };
    let cuts = [0, 1800, 2500, data.steps as i64];
    let work = Work {
        team: &Alone,
        device: &Device::cpu(),
        outline: &outline,
        cuts: &cuts,
        memory: 1 << 20,
        progress: &(),
    };
    let mut read = |steps: Range<i64>| {
        let mut part = data.clone();
        part.segments = (data.segments.iter())
            .map(|s| Segment {
                start: s.start.clamp(steps.start, steps.end) - steps.start,
                stop: s.stop.clamp(steps.start, steps.end) - steps.start,
            })
            .filter(|s| !s.is_empty())
            .collect();
        let range = data.spikes.range(steps.start, steps.end);
        part.spikes = Spikes::default();
        part.spikes.extend_from(&data.spikes, range);
        part.spikes.ticks.iter_mut().for_each(|t| *t -= steps.start);
        part.behavior = data.behavior[steps.start as usize * 2..steps.end as usize * 2].to_vec();
        part.steps = (steps.end - steps.start) as usize;
        Ok(part)
    };
    let in_chunks = work.train(&mut read, &plan).unwrap().unwrap().decoder;
    let training = Training {
        ridge: Some(RidgeChoice::Fixed(1.0)),
        folds: 0,
        ..training(&[Kind::Linear])
    };
    let whole = training.run(&data, &Device::cpu(), &()).unwrap().decoder;
    let close = |a: &[f64], b: &[f64], by: f64| {
        assert_eq!(a.len(), b.len());
        let largest = b.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < by * largest, "{a}, not {b}");
        }
    };
    close(in_chunks.channel_means(), whole.channel_means(), 1e-9);
    close(in_chunks.weights(), whole.weights(), 1e-3);
    close(in_chunks.intercept(), whole.intercept(), 1e-2);
    let summed = work.sums(&mut read, &options).unwrap().unwrap();
    let solved = summed.solve(&SolveOptions::with(RidgeChoice::Fixed(1.0)));
    close(solved.unwrap().weights(), in_chunks.weights(), 1e-6);
}

/// A trainer that hears the signal has the same sums as training that was given it.
#[test]
fn a_trainer_learns_from_the_distance_to_the_mean() {
    let data = signal(0..10, 100.0);
    let training = Training {
        ridge: Some(RidgeChoice::Fixed(1.0)),
        folds: 0,
        retain: Some(1 << 20),
        ..training(&[Kind::Linear])
    };
    let model = training.run(&data, &Device::cpu(), &()).unwrap().decoder;
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let config = TrainerConfig {
        half_life_seconds: f64::INFINITY,
        batch: 10,
        ..TrainerConfig::default()
    };
    let (tap, mut labels, mut worker) = Worker::open(&model, config).unwrap();
    session.attach(Box::new(tap), 0).unwrap();
    let mut out = [0.0; 2];
    let next = signal(10..20, 100.0);
    for segment in &next.segments {
        session.reset();
        for step in segment.start..segment.stop {
            let row = &next.spikes.weights[next.spikes.range(step, step + 1)];
            session.step_values(row, &mut out).unwrap();
            labels
                .label(&next.behavior[step as usize * 2..][..2])
                .unwrap();
        }
        labels.end_trial(true);
        while worker.work().unwrap().is_some() {}
    }
    assert_eq!(worker.state().trials, 10);
    let values = without_means(&next.view(), model.channel_means()).unwrap();
    let expected = train(
        &values,
        &TrainOptions {
            ridge: RidgeChoice::Fixed(1.0),
            retain: Some(1 << 20),
            ..TrainOptions::new(bank())
        },
        &(),
    )
    .unwrap();
    let sums = |decoder: &Decoder| {
        crate::retained::StoredStatistics::read(decoder)
            .unwrap()
            .sums
    };
    let mut both = sums(&model);
    both.add(&sums(&expected)).unwrap();
    let learned = worker.learner_sums();
    let largest = both.gram.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
    for (a, b) in learned.gram.iter().zip(&both.gram) {
        assert!((a - b).abs() < 1e-4 * largest, "{a}, not {b}");
    }
}
