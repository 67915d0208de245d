use super::super::batch::{Batch, Recipe};
use super::super::pass::{Dropout, Pass, Work};
use super::super::samples::{Samples, runs};
use super::super::shape::Shape;
use super::super::tests::wave;
use super::*;
use betz_testkit::context;
use pulp::Arch;

/// Distance of two lists, as a share of the first one's length.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let difference = squares(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    (difference / squares(&mut a.iter().map(|a| f64::from(*a)))).sqrt()
}

/// Recipes, and whether their networks see mixtures of runs, behind a projection.
const RECIPES: [(&Recipe, bool); 3] = [
    (&Recipe::TRIALS, false),
    (&Recipe::CONTINUOUS, false),
    (&Recipe::MIXTURES, true),
];

/// A network of `units` for 16 numbers that are made of the inputs if it is for mixtures.
fn shape_of(inputs: usize, is_mixed: bool, units: &[usize]) -> Shape {
    Shape::projected(inputs, is_mixed.then_some(16), 2, units)
}

/// Layers of every path: weights in registers and not, more columns than threads.
const CASES: [&[usize]; 6] = [&[16], &[64, 64], &[48, 32, 16], &[80], &[256, 64], &[512]];

/// Needs no device: what a plan takes from the random numbers is what the CPU draws.
#[test]
fn plans_take_the_random_numbers_of_the_cpu() {
    let data = wave(50);
    let samples = Samples::new(data.view(), 2);
    let all = runs(data.segments.iter().copied());
    let scaling = samples.scaling(&all);
    let mixer = Mixer::new(&samples, &scaling, &all);
    for (recipe, is_mixed) in RECIPES {
        let shape = shape_of(data.channels(), is_mixed, &[48, 16]);
        let task = Task {
            shape: &shape,
            samples: &samples,
            scaling: &scaling,
            runs: &all,
            recipe,
            mixing: mixer.as_ref().filter(|_| is_mixed),
        };
        let mut random = Random::new(3, 1);
        let mut planned = random.clone();
        let weights = fit::initial(&shape, &mut random.clone());
        let (plans, numbers) = plan(&task, &mut planned);
        let (mut batch, mut work) = (Batch::default(), Work::default());
        let mixes = (task.mixing).map(|mixing| mixing.draw(recipe.mixing, &mut random));
        for (sequences, plan) in recipe.sequences.epoch(&all, &mut random).iter().zip(&plans) {
            batch.pack(sequences);
            batch.fill_disturbed(&task, mixes.as_ref(), &mut random);
            let pass = Pass {
                arch: Arch::new(),
                shape: &shape,
                weights: &weights,
                packing: &batch.packing,
                inputs: &batch.inputs,
            };
            assert_eq!(plan.dropouts[0], random.state());
            let dropout = Dropout {
                probability: recipe.dropout,
                random: &mut random,
            };
            pass.forward(&mut work, Some(dropout), None);
            assert_eq!(plan.rows, batch.steps.len());
            assert!(plan.rows <= recipe.sequences.most_steps(&all));
            let steps = &numbers[plan.lists[2]..][..plan.rows];
            assert!(
                steps
                    .iter()
                    .zip(&batch.steps)
                    .all(|(a, b)| *a as usize == *b)
            );
        }
        assert_eq!(planned.state(), random.state());
    }
}

#[test]
fn cuda_gradients_of_disturbed_batches_are_those_of_the_cpu() {
    let Some(context) = context() else { return };
    let data = wave(50);
    let samples = Samples::new(data.view(), 2);
    let all = runs(data.segments.iter().copied());
    let scaling = samples.scaling(&all);
    let mixer = Mixer::new(&samples, &scaling, &all);
    for (recipe, is_mixed) in RECIPES {
        for units in CASES {
            let shape = shape_of(data.channels(), is_mixed, units);
            let task = Task {
                shape: &shape,
                samples: &samples,
                scaling: &scaling,
                runs: &all,
                recipe,
                mixing: mixer.as_ref().filter(|_| is_mixed),
            };
            let mut random = Random::new(3, 1);
            let weights = fit::initial(&shape, &mut random);
            let mut network = OnCuda::new(&task, &context, &weights).unwrap();
            let (plans, numbers) = plan(&task, &mut random.clone());
            let numbers = context.upload(&numbers).unwrap();
            let mut batch = Batch::default();
            let mut work = Work::default();
            let mixes = (task.mixing).map(|mixing| mixing.draw(recipe.mixing, &mut random));
            let epoch = recipe.sequences.epoch(&all, &mut random);
            assert_eq!(epoch.len(), plans.len());
            for (sequences, plan) in epoch.iter().zip(&plans) {
                batch.pack(sequences);
                batch.fill_disturbed(&task, mixes.as_ref(), &mut random);
                let pass = Pass {
                    arch: Arch::new(),
                    shape: &shape,
                    weights: &weights,
                    packing: &batch.packing,
                    inputs: &batch.inputs,
                };
                let dropout = Dropout {
                    probability: recipe.dropout,
                    random: &mut random,
                };
                pass.forward(&mut work, Some(dropout), None);
                assert!(fit::differentiate(&task, &batch, &mut work));
                let mut expected = vec![0.0; shape.weights];
                pass.backward(&mut work, &mut expected);
                network.differentiate(plan, &numbers).unwrap();
                let inputs = context.download(&network.work, batch.inputs.len()).unwrap();
                assert_eq!(inputs, batch.inputs, "{units:?}");
                let got = context.download(&network.gradient, shape.weights).unwrap();
                let apart = apart(&expected, &got);
                assert!(apart < 2e-5, "{units:?}: {apart}");
            }
        }
    }
}

#[test]
fn cuda_training_follows_that_of_the_cpu_and_repeats_itself() {
    let Some(context) = context() else { return };
    let data = wave(60);
    let samples = Samples::new(data.view(), 0);
    let all = runs(data.segments.iter().copied());
    let scaling = samples.scaling(&all);
    let shape = Shape::new(data.channels(), 2, &[64, 32]);
    let recipe = Recipe {
        epochs: 3,
        ..Recipe::TRIALS
    };
    let task = Task {
        shape: &shape,
        samples: &samples,
        scaling: &scaling,
        runs: &all,
        recipe: &recipe,
        mixing: None,
    };
    let go_on = || Ok(());
    let cuda = || fit(&task, &context, Random::new(3, 1), &go_on).unwrap();
    let on_cuda = cuda();
    let on_cpu = fit::fit(&task, Random::new(3, 1), &go_on).unwrap();
    assert_eq!(on_cuda.epochs, on_cpu.epochs);
    let start = fit::initial(&shape, &mut Random::new(3, 1));
    let moved = apart(&on_cpu.weights, &start);
    // Adam divides by the gradient's own size, so where it is nearly 0 rounding decides; the rest is alike.
    let difference = apart(&on_cpu.weights, &on_cuda.weights);
    assert!(difference < 0.02 * moved, "{difference} of {moved}");
    assert_eq!(cuda().weights, on_cuda.weights);
}
