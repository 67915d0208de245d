//! Clusterless place decoding on simulated tetrodes, beside plain f64 loops.

use betz_base::ErrorKind;
use betz_recording::{Dataset, OutputInfo, Segment, Spikes};
use betz_train::place::{ClusterlessOptions, ClusterlessPlace, ClusterlessShape, SpikeFeatures};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const STEP: f64 = 0.02;

fn normal(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}

/// Place cells on tetrodes along a track of 200 cm that is run to and fro. Each tetrode hears `units` cells, which its
/// total rate cannot tell apart; their amplitudes differ.
fn tetrodes(tetrodes: usize, units: usize, steps: usize, seed: u64) -> (Dataset, SpikeFeatures) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Centres and amplitudes belong to the animal, not to the draw of spikes.
    let mut animal = ChaCha8Rng::seed_from_u64(99);
    let cells: Vec<(f64, [f64; 4])> = (0..tetrodes * units)
        .map(|_| {
            let amplitudes = std::array::from_fn(|_| 60.0 + 200.0 * animal.random::<f64>());
            (200.0 * animal.random::<f64>(), amplitudes)
        })
        .collect();
    let mut spikes = Spikes::default();
    let (mut values, mut behavior) = (Vec::new(), Vec::new());
    for step in 0..steps {
        let phase = (step as f64 * STEP / 16.0).fract();
        let x = 200.0 * (1.0 - (2.0 * phase - 1.0).abs());
        behavior.push(x as f32);
        for (i, (centre, amplitudes)) in cells.iter().enumerate() {
            let rate = 0.1 + 25.0 * (-0.5 * ((x - centre) / 12.0).powi(2)).exp();
            if random.random::<f64>() < rate * STEP {
                spikes.ticks.push(step as i64);
                spikes.channels.push((i / units) as u32);
                values.extend(amplitudes.map(|a| (a + 12.0 * normal(&mut random)) as f32));
            }
        }
    }
    let dataset = Dataset {
        step_seconds: STEP,
        steps,
        channel_names: (0..tetrodes).map(|t| format!("tetrode{t}")).collect(),
        spikes,
        segments: vec![Segment {
            start: 0,
            stop: steps as i64,
        }],
        outputs: vec![OutputInfo {
            name: "x".into(),
            unit: "cm".into(),
        }],
        behavior,
    };
    (dataset, SpikeFeatures { columns: 4, values })
}

fn median_error(data: &Dataset, estimates: &[f32]) -> f64 {
    let mut off: Vec<f64> = (estimates.iter().zip(&data.behavior))
        .map(|(e, x)| f64::from((e - x).abs()))
        .collect();
    let middle = off.len() / 2;
    *off.select_nth_unstable_by(middle, f64::total_cmp).1
}

fn gaussian(sigma: f64) -> Vec<f64> {
    let most = (4.0 * sigma).ceil() as i64;
    let all: Vec<f64> = (-most..=most)
        .map(|k| (-0.5 * (k as f64 / sigma).powi(2)).exp())
        .collect();
    let sum: f64 = all.iter().sum();
    all.iter().map(|w| w / sum).collect()
}

/// `values` smoothed by `weights`; nothing lies beyond the ends.
fn smooth(values: &[f64], weights: &[f64]) -> Vec<f64> {
    let middle = weights.len() as i64 / 2;
    (0..values.len() as i64)
        .map(|to| {
            let from = |k: usize| values.get((to + k as i64 - middle) as usize).copied();
            (0..weights.len())
                .map(|k| weights[k] * from(k).unwrap_or(0.0))
                .sum()
        })
        .collect()
}

/// The formulas on a line in plain loops: every training spike is a kernel.
fn oracle(
    model: &ClusterlessPlace,
    train: (&Dataset, &SpikeFeatures),
    test: (&Dataset, &SpikeFeatures),
) -> Vec<Vec<f64>> {
    let shape = model.shape();
    let centres = &model.place().values;
    let cells = centres.len();
    let low = centres[0] - 0.5 * (centres[1] - centres[0]);
    let edge = centres[1] - centres[0];
    let cell = |x: f32| (((f64::from(x) - low) / edge) as usize).min(cells - 1);
    let (data, features) = train;
    let mut time = vec![0.0; cells];
    data.behavior.iter().for_each(|x| time[cell(*x)] += 1.0);
    let weights = gaussian(shape.smoothing);
    let time = smooth(&time, &weights);
    let prior = 0.05 / STEP;
    let steps = data.steps as f64;
    // r of every spike, and the ground intensity.
    let mut ground = vec![0.0; cells];
    let rates: Vec<Vec<f64>> = (data.spikes.ticks.iter())
        .map(|tick| {
            let mut one = vec![0.0; cells];
            one[cell(data.behavior[*tick as usize])] = 1.0;
            let one = smooth(&one, &weights);
            let rate = |c: usize| (one[c] + prior / steps) / (time[c] + prior);
            let rate: Vec<f64> = (0..cells).map(rate).collect();
            ground.iter_mut().zip(&rate).for_each(|(g, r)| *g += r);
            rate
        })
        .collect();
    let deviations: Vec<[f64; 4]> = (0..data.channel_names.len())
        .map(|g| {
            std::array::from_fn(|c| {
                let own: Vec<f64> = (0..data.spikes.len())
                    .filter(|&i| data.spikes.channels[i] as usize == g)
                    .map(|i| f64::from(features.values[i * 4 + c]))
                    .collect();
                let mean = own.iter().sum::<f64>() / own.len() as f64;
                let square: f64 = own.iter().map(|a| (a - mean).powi(2)).sum();
                (square / own.len() as f64).sqrt()
            })
        })
        .collect();
    let walk = &model.place().walk;
    let transition = |from: usize, to: usize| {
        let reach = from.abs_diff(to);
        walk.get(reach).map_or(0.0, |w| f64::from(*w))
    };
    let (data, seen) = test;
    let jump = model.place().jump;
    let mut p = Vec::new();
    let mut all: Vec<Vec<f64>> = Vec::new();
    for step in 0..data.steps as i64 {
        let mut now = match all.last() {
            None => model.place().start.clone(),
            Some(_) => (0..cells)
                .map(|to| {
                    let walked = |from: usize| {
                        let ends: f64 = (0..cells).map(|e| transition(from, e)).sum();
                        let before: &Vec<f64> = &p;
                        before[from] * transition(from, to) / ends
                    };
                    let walked: f64 = (0..cells).map(walked).sum();
                    (1.0 - jump) * walked + jump / cells as f64
                })
                .collect(),
        };
        let mut log = ground.iter().map(|g| -g).collect::<Vec<f64>>();
        for i in (0..data.spikes.len()).filter(|&i| data.spikes.ticks[i] == step) {
            let group = data.spikes.channels[i];
            let mut intensity = vec![0.0; cells];
            for (j, rates) in rates.iter().enumerate() {
                if train.0.spikes.channels[j] != group {
                    continue;
                }
                let mut exponent = 0.0;
                for (c, deviation) in deviations[group as usize].iter().enumerate().take(4) {
                    let h = shape.bandwidth * deviation;
                    let between =
                        f64::from(seen.values[i * 4 + c]) - f64::from(train.1.values[j * 4 + c]);
                    exponent -= 0.5 * (between / h).powi(2);
                }
                let kernel: f64 = exponent.exp();
                for (sum, rate) in intensity.iter_mut().zip(rates) {
                    *sum += kernel * rate;
                }
            }
            let nearby = intensity.iter().sum::<f64>() > 1e-250;
            assert!(nearby, "spike {i} is far from all of training");
            log.iter_mut()
                .zip(&intensity)
                .for_each(|(l, s)| *l += s.ln());
        }
        let most = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (p, l) in now.iter_mut().zip(&log) {
            *p *= (shape.trust * (l - most)).exp();
        }
        let total: f64 = now.iter().sum();
        now.iter_mut().for_each(|p| *p /= total);
        p.clone_from(&now);
        all.push(now);
    }
    all
}

#[test]
fn with_a_component_per_spike_the_posterior_is_that_of_the_plain_formulas() {
    let (train, features) = tetrodes(3, 3, 1_600, 1);
    let (test, seen) = tetrodes(3, 3, 300, 2);
    let options = ClusterlessOptions {
        cells: 20,
        components: 4_096,
        shape: Some(ClusterlessShape {
            bandwidth: 0.3,
            smoothing: 1.0,
            pace: 1.5,
            trust: 1.0,
        }),
        ..ClusterlessOptions::default()
    };
    let (model, score) = ClusterlessPlace::fit(&train, &features, &options, &()).unwrap();
    assert_eq!((model.components(), score), (train.spikes.len(), None));
    let expected = oracle(&model, (&train, &features), (&test, &seen));
    let mut session = model.session().unwrap();
    let mut next = 0;
    let mut most = 0.0_f64;
    for (step, expected) in expected.iter().enumerate() {
        while next < test.spikes.len() && test.spikes.ticks[next] == step as i64 {
            let channel = test.spikes.channels[next] as usize;
            assert!(session.add_spike(channel, &seen.values[next * 4..][..4]));
            next += 1;
        }
        let (_, p) = session.finish_step();
        assert_eq!(p.len(), expected.len());
        for (p, expected) in p.iter().zip(expected) {
            most = most.max((p - expected).abs());
        }
    }
    assert!(next > 100 && most < 2e-3, "{next} spikes, off by {most}");
}

#[test]
fn features_find_the_place_that_rates_of_tetrodes_do_not() {
    let (train, features) = tetrodes(4, 8, 15_000, 3);
    let (test, seen) = tetrodes(4, 8, 5_000, 4);
    let options = ClusterlessOptions::default();
    let (model, score) = ClusterlessPlace::fit(&train, &features, &options, &()).unwrap();
    let (estimates, left_out) = model.decode(&test, &seen).unwrap();
    let error = median_error(&test, &estimates);
    let score = score.unwrap();
    assert_eq!((left_out, score.steps), (0, 3_000));
    assert!(model.components() <= 4 * 64);
    // The same spikes without features: one constant feature.
    let blind = |features: &SpikeFeatures| SpikeFeatures {
        columns: 4,
        values: vec![1.0; features.values.len()],
    };
    let (rates, _) = ClusterlessPlace::fit(&train, &blind(&features), &options, &()).unwrap();
    let (estimates, _) = rates.decode(&test, &blind(&seen)).unwrap();
    let without = median_error(&test, &estimates);
    println!(
        "{error} with features, {without} without, {} held out",
        score.median_error
    );
    assert!(
        error < 6.0 && without > 2.0 * error,
        "{error} cm, without features {without} cm"
    );
    assert!((score.median_error - error).abs() < 3.0, "{score:?}");
}

#[test]
fn a_file_gives_the_same_decoder_and_damage_is_found() {
    let (train, mut features) = tetrodes(2, 3, 2_000, 5);
    // The second tetrode has three wires.
    for (i, row) in features.values.chunks_exact_mut(4).enumerate() {
        if train.spikes.channels[i] == 1 {
            row[3] = f32::NAN;
        }
    }
    let options = ClusterlessOptions {
        cells: 12,
        components: 8,
        ..ClusterlessOptions::default()
    };
    let (model, _) = ClusterlessPlace::fit(&train, &features, &options, &()).unwrap();
    let bytes = model.to_bytes();
    let read = ClusterlessPlace::from_bytes(&bytes).unwrap();
    assert_eq!(read, model);
    assert_eq!(read.to_bytes(), bytes);
    let (estimates, left_out) = model.decode(&train, &features).unwrap();
    assert_eq!(
        (left_out, read.decode(&train, &features).unwrap().0),
        (0, estimates)
    );
    for at in (0..bytes.len()).step_by(97).chain([0, bytes.len() - 1]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = ClusterlessPlace::from_bytes(&damaged).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidModel, "byte {at}: {error}");
        assert!(ClusterlessPlace::from_bytes(&bytes[..at]).is_err());
    }
    // Counts that the checksum covers, but that do not fit together.
    for at in (20..bytes.len() - 4).step_by(61) {
        let mut payload = bytes[20..bytes.len() - 4].to_vec();
        payload[at - 20] ^= 0x81;
        let mut writer = betz_base::wire::Writer::framed();
        writer.bytes.extend_from_slice(&payload);
        let content = betz_base::frame::Content {
            magic: ClusterlessPlace::MAGIC,
            name: "a clusterless place decoder",
            damaged: ErrorKind::InvalidModel,
        };
        // Read or refused, never a panic; what is read can be used.
        if let Ok(read) = ClusterlessPlace::from_bytes(&writer.seal(content, 1)) {
            let mut session = read.session().unwrap();
            session.add_spike(0, &[100.0; 4]);
            session.finish_step();
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_or_counted() {
    let (train, features) = tetrodes(2, 3, 2_000, 6);
    let options = ClusterlessOptions {
        cells: 12,
        components: 8,
        ..ClusterlessOptions::default()
    };
    let (model, _) = ClusterlessPlace::fit(&train, &features, &options, &()).unwrap();
    let mut session = model.session().unwrap();
    assert!(session.add_spike(1, &[100.0; 4]));
    assert!(!session.add_spike(2, &[100.0; 4]));
    assert!(!session.add_spike(1, &[100.0, f32::NAN, 1.0, 1.0]));
    assert!(!session.add_spike(1, &[100.0]));
    assert_eq!(session.spikes_left_out(), 3);
    let short = SpikeFeatures {
        columns: 4,
        values: features.values[4..].to_vec(),
    };
    let error = model.decode(&train, &short).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRecording);
    assert!(error.message().contains("one per spike"), "{error}");
    let mut other = train.clone();
    other.channel_names[1] = "another".into();
    let error = model.decode(&other, &features).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    let mut slower = train.clone();
    slower.step_seconds = 0.05;
    let error = model.decode(&slower, &features).unwrap_err();
    assert!(
        error.message().contains("steps of 0.02 s, got 0.05 s"),
        "{error}"
    );
    let nothing = SpikeFeatures {
        columns: 4,
        values: vec![f32::NAN; features.values.len()],
    };
    let error = ClusterlessPlace::fit(&train, &nothing, &options, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData, "{error}");
}
