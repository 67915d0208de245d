//! The section of chains of layers, as it was first written. A build without them refuses it by name.

const FIXTURE: &[u8] = include_bytes!("../fixtures/layers.betz");

#[cfg(not(feature = "layers"))]
#[test]
fn a_build_without_chains_refuses_them_by_name() {
    let error = super::refused(FIXTURE, "a chain");
    assert_eq!(error.kind(), betz_base::ErrorKind::UnsupportedVersion);
    assert!(
        error.message().contains("the feature \"layers\""),
        "{error}"
    );
}

#[cfg(feature = "layers")]
mod with {
    use betz_runtime::model::{
        Activation, Cell, Decoder, DecoderParts, Head, Layer, Layers, RecurrentLayer,
    };

    use super::FIXTURE;
    use crate::{framed, parts, payload, recurrent, refused};

    fn decoder() -> Decoder {
        let numbers = |count: usize, start: usize| -> Vec<f32> {
            (0..count)
                .map(|i| 0.125 * ((i + start) % 23) as f32 - 1.25)
                .collect()
        };
        let gated = |cell: Cell, inputs: usize, initial: usize| Layer::Gated {
            cell,
            layer: RecurrentLayer {
                input_weights: numbers(inputs * cell.gates() * 2, 1),
                input_bias: numbers(cell.gates() * 2, 2),
                state_weights: numbers(2 * cell.gates() * 2, 3),
                state_bias: numbers(cell.gates() * 2, 4),
            },
            initial: numbers(initial, 5),
        };
        let layers = vec![
            Layer::Norm {
                scale: numbers(3, 0),
                shift: numbers(3, 1),
                epsilon: 1e-5,
            },
            Layer::Activation(Activation::Softsign),
            Layer::Window {
                length: 2,
                apart: 3,
                stride: 4,
                first: 5,
            },
            gated(Cell::Gru, 6, 2),
            gated(Cell::Lstm, 2, 0),
            Layer::Linear {
                weights: numbers(4, 6),
                bias: numbers(2, 7),
            },
            Layer::Activation(Activation::Elu),
        ];
        let decoder = Decoder::new(DecoderParts {
            channel_mask: vec![true; 3],
            weights: (0..18).map(|i| 0.5 - f64::from(i)).collect(),
            intercept: vec![0.0, 0.25, 0.5],
            head: Head::Layers(Layers {
                inputs: 3,
                layers,
                memory_steps: 40,
            }),
            ..parts()
        });
        decoder.unwrap()
    }

    /// Writes the fixture; to be run by hand where a version is new.
    #[test]
    #[ignore = "writes the fixture"]
    fn write_the_fixture_of_chains() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/layers.betz");
        decoder().save(std::path::Path::new(path)).unwrap();
    }

    #[test]
    fn a_file_of_a_chain_still_loads() {
        assert_eq!(Decoder::from_bytes(FIXTURE).unwrap(), decoder());
        assert_eq!(decoder().to_bytes().unwrap(), FIXTURE);
    }

    #[test]
    fn damaged_chains_are_refused_and_hostile_ones_are_others() {
        let payload = payload(FIXTURE);
        for at in recurrent::section(payload) {
            let mut damaged = payload.to_vec();
            damaged[at] ^= 0x55;
            refused(&framed(2, &damaged), &format!("byte {at}"));
        }
        recurrent::check_hostile(&[FIXTURE], &[0, 2, u64::MAX]);
    }
}
