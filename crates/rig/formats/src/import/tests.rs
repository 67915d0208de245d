use std::path::PathBuf;

use super::safetensors::half;
use super::tensor::Tensors;
use super::*;
use betz_recording::{Segment, Spikes};
use betz_runtime::model::Blend;
use betz_runtime::stream::{Session, SessionConfig};
use serde_json::Value;

const NAMES: [&str; 6] = [
    "gru",
    "gru_two",
    "gru_without_bias",
    "lstm",
    "lstm_two",
    "lstm_projected",
];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/import")
        .join(name)
}

fn numbers(value: &Value) -> Vec<f64> {
    let rows = value.as_array().unwrap().iter();
    rows.flat_map(|row| row.as_array().unwrap())
        .map(|v| v.as_f64().unwrap())
        .collect()
}

/// The counts of the fixtures as a recording, and what each network makes of them.
fn expected() -> (Dataset, Vec<u16>, Value) {
    let text = std::fs::read_to_string(fixture("expected.json")).unwrap();
    let mut expected: Value = serde_json::from_str(&text).unwrap();
    let counts: Vec<u16> = numbers(&expected["counts"])
        .iter()
        .map(|&c| c as u16)
        .collect();
    let mut spikes = Spikes::default();
    for (i, &count) in counts.iter().enumerate() {
        for _ in 0..count {
            spikes.ticks.push(i as i64 / 5);
            spikes.channels.push(i as u32 % 5);
        }
    }
    let data = Dataset {
        step_seconds: 0.1,
        steps: 100,
        channel_names: (0..5).map(|c| format!("c{c}")).collect(),
        spikes,
        segments: vec![Segment {
            start: 0,
            stop: 100,
        }],
        outputs: ["x", "y", "z"].map(Into::into).to_vec(),
        behavior: vec![0.0; 300],
    };
    (data, counts, expected["outputs"].take())
}

fn estimates(decoder: &Decoder, counts: &[u16]) -> Vec<f64> {
    let mut session = Session::open(decoder, SessionConfig::default()).unwrap();
    let mut out = [0.0; 3];
    let rows = counts.chunks(5).flat_map(|row| {
        session.step_counts(row, &mut out).unwrap();
        out.map(f64::from)
    });
    rows.collect()
}

#[test]
fn networks_step_as_pytorch_computes() {
    let (data, counts, outputs) = expected();
    for name in NAMES {
        let expected = numbers(&outputs[name]);
        for ending in ["safetensors", "onnx"] {
            if name == "lstm_projected" && ending == "onnx" {
                continue;
            }
            let network =
                Network::read(&fixture(&format!("{name}.{ending}")), Options::default()).unwrap();
            assert_eq!((network.inputs(), network.outputs()), (5, 3));
            let wide = network.estimates(
                &counts.iter().map(|&c| f64::from(c)).collect::<Vec<_>>(),
                0.0,
            );
            for (got, expected) in wide.iter().zip(&expected) {
                assert!(
                    (got - expected).abs() < 1e-12,
                    "{name}.{ending}: {got} {expected}"
                );
            }
            let decoder = network.decoder(&data).unwrap();
            let Head::Recurrent(head) = decoder.head() else {
                panic!()
            };
            assert!(
                (2..100).contains(&head.memory_steps),
                "{name}: {}",
                head.memory_steps
            );
            for (got, expected) in estimates(&decoder, &counts).iter().zip(&expected) {
                assert!(
                    (got - expected).abs() < 1e-6,
                    "{name}.{ending}: {got} {expected}"
                );
            }
        }
    }
}

#[test]
fn an_exported_decoder_is_read_back_as_it_was() {
    let (data, counts, _) = expected();
    for name in NAMES {
        let network =
            Network::read(&fixture(&format!("{name}.safetensors")), Options::default()).unwrap();
        let decoder = network.decoder(&data).unwrap();
        let again = own::read(&to_bytes(&decoder).unwrap(), Options::default())
            .unwrap()
            .decoder(&data)
            .unwrap();
        assert_eq!(again.head().name(), "recurrent");
        for (a, b) in estimates(&decoder, &counts)
            .iter()
            .zip(estimates(&again, &counts))
        {
            assert!((a - b).abs() < 1e-6);
        }
    }
    let linear = FilterBank::new(vec![Filter {
        tau_seconds: 0.1,
        order: 0,
    }])
    .unwrap();
    let parts = DecoderParts::linear(0.1, linear, data.channel_names, data.outputs);
    let error = to_bytes(&Decoder::new(parts).unwrap()).unwrap_err();
    assert!(
        error
            .message()
            .contains("expected a recurrent decoder, got a linear one"),
        "{error}"
    );
}

#[test]
fn a_blend_is_exported_with_its_weights() {
    let (data, ..) = expected();
    let network = Network::read(&fixture("gru.safetensors"), Options::default()).unwrap();
    let parts = network.decoder(&data).unwrap().into_parts();
    let Head::Recurrent(mut head) = parts.head else {
        panic!()
    };
    head.members.push(head.members[0].clone());
    head.blend = Some(Blend {
        usual: 1,
        share: 0.25,
        apart: 0.5,
        kept: 0.75,
        deviations: vec![1.0, 2.0, 4.0],
        bias: vec![8.0, 16.0, 32.0],
    });
    let latents = parts.intercept.len();
    let twice = |values: &[f64]| -> Vec<f64> {
        values
            .chunks(latents)
            .flat_map(|row| [row, row].concat())
            .collect()
    };
    let (weights, intercept) = (twice(&parts.weights), twice(&parts.intercept));
    let decoder = Decoder::new(DecoderParts {
        weights,
        intercept,
        head: Head::Recurrent(head),
        ..parts
    });
    let decoder = decoder.unwrap();
    read_back(&decoder);
    let bytes = to_bytes(&decoder).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let tensor = |name: &str| -> Vec<f32> {
        let offsets = &header[name]["data_offsets"];
        let at = |i: usize| 8 + length + offsets[i].as_u64().unwrap() as usize;
        let numbers = bytes[at(0)..at(1)].chunks(4);
        numbers
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    assert_eq!(tensor("blend"), [1.0, 0.25, 0.5, 0.75]);
    assert_eq!(tensor("blend_deviations"), [1.0, 2.0, 4.0]);
    assert_eq!(tensor("member1.readout.bias"), [8.0, 16.0, 32.0]);
    assert_eq!(
        tensor("member1.gru.weight_hh_l0"),
        tensor("member0.gru.weight_hh_l0")
    );
}

/// Exports `decoder` in both formats, reads it back, and compares all that it holds and its estimates.
fn read_back(decoder: &Decoder) {
    let (data, counts, _) = expected();
    let files = [
        own::read(&to_bytes(decoder).unwrap(), Options::default()),
        onnx::read(&crate::onnx::to_bytes(decoder).unwrap()),
    ];
    for network in files {
        let again = network.unwrap().decoder(&data).unwrap();
        assert_eq!(again.head(), decoder.head());
        assert_eq!(again.limits(), decoder.limits());
        assert_eq!(again.channel_mask(), decoder.channel_mask());
        assert_eq!(again.delay_steps(), decoder.delay_steps());
        let pairs = estimates(decoder, &counts);
        for (a, b) in pairs.iter().zip(estimates(&again, &counts)) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }
}

/// Several members without a blend, limits, a masked channel and a delay.
#[test]
fn all_that_a_recurrent_decoder_holds_is_read_back() {
    use betz_runtime::model::{Blanking, Limits, OutputRange};
    let (data, ..) = expected();
    for name in ["gru_two", "lstm"] {
        let file = fixture(&format!("{name}.safetensors"));
        let mut network = Network::read(&file, Options::default()).unwrap();
        let mut other = network.clone();
        other.layers[0].input_weights[3] += 0.5;
        network.others = vec![other];
        let mut parts = network.decoder(&data).unwrap().into_parts();
        parts.delay_steps = -2;
        parts.channel_mask = vec![true, true, false, true, true];
        let unused = 2 * parts.intercept.len()..3 * parts.intercept.len();
        parts.weights[unused].fill(0.0);
        parts.limits = Limits {
            count_caps: vec![2.0, 1.5, 3.0, 1.0, 2.0],
            blanking: Some(Blanking {
                least: 1,
                most: 12,
                mean_counts: vec![0.5, 0.25, 0.0, 1.0, 0.125],
            }),
            ranges: [(-0.1, 0.1), (f32::NEG_INFINITY, 0.2), (-0.3, f32::INFINITY)]
                .map(|(low, high)| OutputRange { low, high })
                .to_vec(),
        };
        let decoder = Decoder::new(parts).unwrap();
        read_back(&decoder);
        // A file whose description was changed is refused, not read in part.
        let changed = |mut bytes: Vec<u8>| {
            let name = b"delay_steps\\\":";
            let at = bytes.windows(name.len()).position(|text| text == name);
            bytes[at.unwrap()] = b'D';
            bytes
        };
        let error = own::read(&changed(to_bytes(&decoder).unwrap()), Options::default());
        let error = error.unwrap_err();
        assert!(
            error.message().contains("export the decoder again"),
            "{error}"
        );
    }
}

#[test]
fn a_wrong_order_of_gates_is_seen() {
    let (data, counts, outputs) = expected();
    let mut network = Network::read(&fixture("gru.safetensors"), Options::default()).unwrap();
    let units = network.layers[0].units;
    for row in network.layers[0].input_weights.chunks_mut(3 * units) {
        let (r, z) = row[..2 * units].split_at_mut(units);
        r.swap_with_slice(z);
    }
    let got = estimates(&network.decoder(&data).unwrap(), &counts);
    let apart = got
        .iter()
        .zip(numbers(&outputs["gru"]))
        .map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f64::max) > 0.01);
}

/// A file of other tensors.
fn changed(name: &str, change: impl FnOnce(&mut Tensors)) -> String {
    let (mut tensors, _) = safetensors::read(&std::fs::read(fixture(name)).unwrap()).unwrap();
    change(&mut tensors);
    let list: Vec<_> = (tensors.into_iter())
        .map(|(name, t)| (name, t.shape, t.values))
        .collect();
    own::read(&safetensors::file(&list, None), Options::default())
        .unwrap_err()
        .message()
        .to_owned()
}

fn add(tensors: &mut Tensors, name: &str, from: &str) {
    let tensor = tensors[from].clone();
    tensors.insert(name.into(), tensor);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    type Change = Box<dyn FnOnce(&mut Tensors)>;
    let cases: [(&str, Change); 7] = [
        (
            "rnn.weight_ih_l0_reverse: expected layers that go forwards",
            { Box::new(|t| add(t, "rnn.weight_ih_l0_reverse", "rnn.weight_ih_l0")) },
        ),
        ("tensor norm.weight, [3]: expected recurrent layers", {
            Box::new(|t| add(t, "norm.weight", "head.bias"))
        }),
        ("found 2: [\"other\", \"rnn\"]", {
            Box::new(|t| add(t, "other.weight_hh_l0", "rnn.weight_hh_l0"))
        }),
        (
            "found 0",
            Box::new(|t| t.retain(|name, _| name.starts_with("head"))),
        ),
        ("expected one nn.Linear of 7 inputs", {
            Box::new(|t| {
                t.remove("head.weight");
            })
        }),
        ("rnn.bias_hh_l0: expected the shape [21], got [3]", {
            Box::new(|t| add(t, "rnn.bias_hh_l0", "head.bias"))
        }),
        ("nn.RNN is not supported", {
            Box::new(|t| {
                let tensor = t.get_mut("rnn.weight_hh_l0").unwrap();
                tensor.shape[0] = 7;
                tensor.values.truncate(49);
            })
        }),
    ];
    for (expected, change) in cases {
        let message = changed("gru.safetensors", change);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let refused = |from: &str, to: &str| {
        let mut bytes = std::fs::read(fixture("gru.onnx")).unwrap();
        let at: Vec<usize> = (0..bytes.len() - from.len())
            .filter(|&at| bytes[at..].starts_with(from.as_bytes()))
            .collect();
        assert!(!at.is_empty());
        at.iter()
            .for_each(|&at| bytes[at..at + to.len()].copy_from_slice(to.as_bytes()));
        onnx::read(&bytes).unwrap_err().message().to_owned()
    };
    let message = refused("Squeeze", "Softmax");
    assert!(message.contains("operator Softmax"), "{message}");
    let message = refused("linear_before_reset", "linear_before_resex");
    assert!(
        message.contains("attribute linear_before_resex"),
        "{message}"
    );
}

#[test]
fn damaged_files_and_other_recordings_are_refused() {
    let (mut data, ..) = expected();
    for name in [
        "gru_two.safetensors",
        "speech.safetensors",
        "lstm_two.onnx",
        "conv.onnx",
        "patches.onnx",
    ] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let read = |bytes: &[u8]| match name.ends_with("onnx") {
            true => onnx::read(bytes),
            false => {
                let stride = (name == "speech.safetensors").then_some(2);
                let options = Options {
                    stride,
                    ..Options::default()
                };
                own::read(bytes, options)
            }
        };
        read(&whole).unwrap();
        for length in (0..whole.len()).step_by(7) {
            assert!(read(&whole[..length]).is_err(), "{name}, {length}");
        }
        for at in 0..whole.len().min(600) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            // It reads or refuses the file; it must not panic.
            let _ = read(&bytes).map(|network| network.decoder(&data));
        }
    }
    let network = Network::read(&fixture("gru.onnx"), Options::default()).unwrap();
    data.outputs.pop();
    let error = network.decoder(&data).unwrap_err();
    assert!(error.message().contains("expected 2 outputs"), "{error}");
    data.channel_names.pop();
    let error = network.decoder(&data).unwrap_err();
    assert!(error.message().contains("expected 4 inputs"), "{error}");
    assert_eq!(half(0x3C00), 1.0);
    assert_eq!(half(0xC170), -2.718_75);
    assert_eq!(half(1), 2f64.powi(-24));
}

mod chains;
mod draft;
mod moves;

impl draft::Draft {
    /// The message with which the file is refused.
    fn refused(self, output: &str) -> String {
        let error = onnx::read(&self.file(output)).unwrap_err();
        error.message().to_owned()
    }
}
