//! Chains of layers: against NumPy's outputs, and against the equations in plain f64.

use super::*;
use crate::import::chain::Stage;
use betz_runtime::model::Activation;

/// erf by its series, good to 1e-9 below 4.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    match x.abs() < 4.0 {
        true => sum * std::f64::consts::FRAC_2_SQRT_PI,
        false => x.signum(),
    }
}

fn activate(function: Activation, x: f64) -> f64 {
    match function {
        Activation::Relu => x.max(0.0),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Softsign => x / (1.0 + x.abs()),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => x * (1.0 + erf(x / std::f64::consts::SQRT_2)) / 2.0,
        Activation::Elu if x > 0.0 => x,
        Activation::Elu => x.exp() - 1.0,
        other => panic!("{other:?}"),
    }
}

/// All rows of one stage behind the rows of the one before.
fn behind(stage: &Stage, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    match stage {
        Stage::Linear { weights, bias } => {
            let row = |row: &Vec<f64>| {
                let mut sums = bias.clone();
                for (value, weights) in row.iter().zip(weights.chunks(bias.len())) {
                    sums.iter_mut()
                        .zip(weights)
                        .for_each(|(s, w)| *s += value * w);
                }
                sums
            };
            rows.iter().map(row).collect()
        }
        Stage::Activation(function) => (rows.iter())
            .map(|row| row.iter().map(|&x| activate(*function, x)).collect())
            .collect(),
        Stage::Norm {
            scale,
            shift,
            epsilon,
        } => {
            let row = |row: &Vec<f64>| {
                let n = row.len() as f64;
                let mean = row.iter().sum::<f64>() / n;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
                (row.iter().zip(scale).zip(shift))
                    .map(|((x, a), b)| (x - mean) / (variance + epsilon).sqrt() * a + b)
                    .collect()
            };
            rows.iter().map(row).collect()
        }
        Stage::Window {
            length,
            apart,
            stride,
            first,
        } => {
            let at = |step: usize, back: usize| match step.checked_sub(back) {
                Some(step) => rows[step].clone(),
                None => vec![0.0; rows[0].len()],
            };
            (first - 1..rows.len())
                .step_by(*stride)
                .map(|step| {
                    (0..*length)
                        .rev()
                        .flat_map(|k| at(step, k * apart))
                        .collect()
                })
                .collect()
        }
        Stage::Gated(cell, layer, start) => {
            let begin = |part: usize| match start.is_empty() {
                true => vec![0.0; layer.units],
                false => start[part * layer.units..][..layer.units].to_vec(),
            };
            let (mut h, mut c) = (
                begin(0),
                match cell {
                    Cell::Lstm => begin(1),
                    _ => Vec::new(),
                },
            );
            let row = |row: &Vec<f64>| {
                layer.advance(*cell, row, &mut h, &mut c);
                h.clone()
            };
            rows.iter().map(row).collect()
        }
    }
}

struct Reference {
    first: usize,
    stride: usize,
    outputs: Value,
}

fn stored(name: &str) -> Reference {
    let text = std::fs::read_to_string(fixture("chains.json")).unwrap();
    let mut all: Value = serde_json::from_str(&text).unwrap();
    let number = |key: &str| all[name][key].as_u64().unwrap() as usize;
    let (first, stride) = (number("first"), number("stride"));
    let outputs = all[name]["outputs"].take();
    Reference {
        first,
        stride,
        outputs,
    }
}

/// Checks a network's session and its equations in f64 against stored windows of three outputs.
fn check(network: &Network, expected: &Reference, outputs: &Value, tolerance: f64) -> Decoder {
    let (data, counts, _) = super::expected();
    let expected_outputs = numbers(outputs);
    let mut rows: Vec<Vec<f64>> = (counts.chunks(5))
        .map(|row| row.iter().map(|&c| f64::from(c)).collect())
        .collect();
    for stage in &network.chain {
        rows = behind(stage, &rows);
    }
    let plain: Vec<f64> = rows.concat();
    assert_eq!(plain.len(), expected_outputs.len());
    for (got, expected) in plain.iter().zip(&expected_outputs) {
        assert!((got - expected).abs() < 1e-8, "{got} {expected}");
    }
    let decoder = network.decoder(&data).unwrap();
    let got = estimates(&decoder, &counts);
    for (step, got) in got.chunks(3).enumerate() {
        let held = match (step + 1).checked_sub(expected.first) {
            Some(since) => &expected_outputs[since / expected.stride * 3..][..3],
            None => &[0.0; 3],
        };
        for (got, held) in got.iter().zip(held) {
            assert!((got - held).abs() < tolerance, "step {step}: {got} {held}");
        }
    }
    decoder
}

#[test]
fn chains_of_onnx_step_as_numpy_computes() {
    for (name, words) in [
        (
            "conv",
            "window 3/1, linear 6, relu, window 2/1, linear 4, gelu, norm, gru 4, linear 3",
        ),
        (
            "patches",
            "linear 4, softsign, window 4/3, linear 6, silu, lstm 5, linear 3, elu",
        ),
    ] {
        let path = fixture(&format!("{name}.onnx"));
        let network = Network::read(&path, Options::default()).unwrap();
        assert_eq!(network.describe(), words);
        assert_eq!((network.inputs(), network.outputs()), (5, 3));
        let expected = stored(name);
        let decoder = check(&network, &expected, &expected.outputs, 1e-6);
        let again = Decoder::from_bytes(&decoder.to_bytes().unwrap()).unwrap();
        assert_eq!(again, decoder);
        let Head::Layers(head) = decoder.head() else {
            panic!()
        };
        assert!(
            (6..100).contains(&head.memory_steps),
            "{}",
            head.memory_steps
        );
    }
}

#[test]
fn the_speech_network_steps_as_numpy_computes_on_each_day() {
    let expected = stored("speech");
    let read = |options: Options| Network::read(&fixture("speech.safetensors"), options);
    for (day, outputs) in expected.outputs.as_array().unwrap().iter().enumerate() {
        let options = Options {
            day: Some(day),
            stride: Some(2),
            ..Options::default()
        };
        let network = read(options).unwrap();
        assert_eq!(
            network.describe(),
            "linear 5, softsign, window 6/2, gru 7, gru 7, linear 3"
        );
        check(&network, &expected, outputs, 1e-6);
    }
    // The last day is the default; bfloat16 costs three digits.
    let short = read(Options {
        stride: Some(2),
        precision: WeightPrecision::Bf16,
        ..Options::default()
    })
    .unwrap();
    check(&short, &expected, &expected.outputs[2], 0.02);
    let bytes = read(Options {
        stride: Some(2),
        precision: WeightPrecision::Int8,
        ..Options::default()
    });
    check(&bytes.unwrap(), &expected, &expected.outputs[2], 0.05);
    for (options, words) in [
        (Options::default(), "expected a stride of 1 step or more"),
        (
            Options {
                day: Some(3),
                stride: Some(2),
                ..Options::default()
            },
            "expected a tensor day_weights.3",
        ),
    ] {
        let error = read(options).unwrap_err();
        assert!(error.message().contains(words), "{error}");
    }
    let options = Options {
        day: Some(0),
        ..Options::default()
    };
    let error = Network::read(&fixture("gru.safetensors"), options).unwrap_err();
    assert!(
        error.message().contains("expected tensors day_weights.0"),
        "{error}"
    );
    let error = Network::read(&fixture("gru.onnx"), options).unwrap_err();
    assert!(
        error.message().contains("expected neither day nor stride"),
        "{error}"
    );
}
