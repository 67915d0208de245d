//! Networks on recordings that are not as in training, and training in f64.

use super::*;
use crate::recurrent::pass::Dropout;

/// The segments of `data` from number `first` on.
fn held(data: &Dataset, first: usize) -> Vec<Range<usize>> {
    runs(data.segments.iter().copied()).split_off(first)
}

fn apart(runs: &[Range<usize>]) -> Vec<Sequence> {
    runs.iter().map(|run| vec![run.clone()]).collect()
}

/// `data` with only those spikes that `keeps`, by channel.
fn thinned(data: &Dataset, mut keeps: impl FnMut(u32) -> bool) -> Dataset {
    let spikes = data.spikes.ticks.iter().zip(&data.spikes.channels);
    let (ticks, channels) = spikes.filter(|(_, channel)| keeps(**channel)).unzip();
    Dataset {
        spikes: Spikes::new(ticks, channels),
        ..data.clone()
    }
}

/// `data` with forty more spikes per step on `channel`.
fn screaming(data: &Dataset, channel: u32) -> Dataset {
    let own = data.spikes.ticks.iter().copied();
    let mut spikes: Vec<(i64, u32)> = own.zip(data.spikes.channels.iter().copied()).collect();
    spikes.extend((0..data.steps as i64).flat_map(|step| [(step, channel); 40]));
    spikes.sort_unstable();
    let (ticks, channels) = spikes.into_iter().unzip();
    Dataset {
        spikes: Spikes::new(ticks, channels),
        ..data.clone()
    }
}

#[test]
fn lost_weaker_and_screaming_channels_and_cropped_trials_cost_little() {
    let data = wave(100);
    let recipe = Recipe {
        epochs: 80,
        ..Recipe::TRIALS
    };
    let samples = Samples::new(data.view(), 0);
    let training = &runs(data.segments.iter().copied())[..80];
    let mut trained = trained_by(&recipe, &samples, training, &sizes(&[32], 1));
    let test = held(&data, 80);
    let score = |trained: &Trained, data: &Dataset, runs: &[Range<usize>]| {
        let samples = Samples::new(data.view(), 0);
        r2(trained, &samples, &apart(runs))
    };
    let plain = score(&trained, &data, &test);
    let mut random = Random::new(7, 0);
    let weaker = thinned(&data, |_| random.uniform() < 0.7);
    let cropped: Vec<Range<usize>> = (test.iter().enumerate())
        .map(|(trial, run)| run.start + trial % 9..run.end)
        .collect();
    for (control, scores) in [
        (
            "lost",
            score(&trained, &thinned(&data, |c| c % 5 != 1), &test),
        ),
        ("weaker", score(&trained, &weaker, &test)),
        ("cropped", score(&trained, &data, &cropped)),
    ] {
        for (score, plain) in scores.iter().zip(plain) {
            assert!(
                *score > plain - 0.1,
                "{control}: {scores:?}, plain {plain:?}"
            );
        }
    }
    // One of twelve channels is a large part of them; the caps of counts keep the rest of the estimates.
    let screaming = screaming(&data, 4);
    let capped = score(&trained, &screaming, &test);
    assert!(capped.iter().all(|r2| *r2 > 0.3), "{capped:?}");
    trained.scaling.caps.fill(f32::INFINITY);
    let uncapped = score(&trained, &screaming, &test);
    assert!(uncapped.iter().all(|r2| *r2 < 0.0), "{uncapped:?}");
}

/// [`fit::fit`] in f64: the same batches and random numbers, and AdamW as its paper writes it.
fn fit_in_f64(task: &batch::Task<'_>, mut random: Random) -> Vec<f32> {
    let (recipe, shape) = (task.recipe, task.shape);
    let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    let mut weights = wide(&fit::initial(shape, &mut random));
    let mut mean = weights.clone();
    let mut moments = vec![[0.0_f64; 2]; shape.weights];
    let steps = recipe.sequences.batches(task.runs, recipe.epochs) as f64;
    let (mut batch, mut work, mut step) = (Batch::default(), Work::default(), 0.0_f64);
    for _ in 0..recipe.epochs {
        for sequences in recipe.sequences.epoch(task.runs, &mut random) {
            batch.pack(&sequences);
            batch.fill_disturbed(task, None, &mut random);
            let inputs = wide(&batch.inputs);
            let pass = Pass {
                arch: Arch::new(),
                shape,
                weights: &weights,
                packing: &batch.packing,
                inputs: &inputs,
            };
            let dropout = Dropout {
                probability: recipe.dropout,
                random: &mut random,
            };
            pass.forward(&mut work, Some(dropout), None);
            let rows = batch.steps.len();
            work.estimate_gradient.clear();
            work.estimate_gradient.resize(rows * shape.columns, 0.0);
            for (row, targets) in batch.targets.chunks_exact(shape.outputs).enumerate() {
                for (o, target) in targets.iter().enumerate() {
                    let off = work.estimates[row * shape.columns + o] - f64::from(*target);
                    work.estimate_gradient[row * shape.columns + o] = 2.0 * off / rows as f64;
                }
            }
            let mut gradient = vec![0.0; shape.weights];
            pass.backward(&mut work, &mut gradient);
            step += 1.0;
            let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
            let shorten = (1.0 / (norm + 1e-6)).min(1.0);
            let turn = std::f64::consts::PI * (step / steps).min(1.0);
            let rate = recipe.learning_rate * 0.5 * (1.0 + turn.cos());
            let kept = recipe.mean_decay.min((1.0 + step) / (10.0 + step));
            for i in 0..shape.weights {
                let g = gradient[i] * shorten;
                let [first, second] = &mut moments[i];
                *first = 0.9 * *first + 0.1 * g;
                *second = 0.999 * *second + 0.001 * g * g;
                let along = *first / (1.0 - 0.9_f64.powf(step));
                let size = (*second / (1.0 - 0.999_f64.powf(step))).sqrt() + 1e-8;
                weights[i] = weights[i] * (1.0 - rate * recipe.weight_decay) - rate * along / size;
                mean[i] = kept * mean[i] + (1.0 - kept) * weights[i];
            }
        }
    }
    mean.iter().map(|&weight| weight as f32).collect()
}

#[test]
fn ten_epochs_in_f32_score_as_in_f64() {
    let data = wave(60);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    let (training, test) = all.split_at(48);
    let scaling = samples.scaling(training);
    let shape = Shape::new(CHANNELS, 2, &[16, 16]);
    let recipe = Recipe {
        epochs: 10,
        ..Recipe::TRIALS
    };
    let task = batch::Task {
        shape: &shape,
        samples: &samples,
        scaling: &scaling,
        runs: training,
        recipe: &recipe,
        mixing: None,
    };
    let score = |weights: Vec<f32>| {
        let trained = Trained {
            scaling: samples.scaling(training),
            usual: Networks {
                shape: Shape::new(CHANNELS, 2, &[16, 16]),
                weights: vec![weights],
            },
            mixed: None,
            epochs: recipe.epochs,
        };
        r2(&trained, &samples, &apart(test))
    };
    let fitted = fit::fit(&task, Random::new(5, 0), &|| Ok(())).unwrap();
    let (narrow, wide) = (
        score(fitted.weights),
        score(fit_in_f64(&task, Random::new(5, 0))),
    );
    for (a, b) in narrow.iter().zip(wide) {
        assert!((a - b).abs() < 0.003, "f32 {narrow:?}, f64 {wide:?}");
    }
}
