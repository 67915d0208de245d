//! Files of decoders of classes, and of velocities that a class gates.

use betz_runtime::model::{
    Classes, Cosines, Decoder, DecoderParts, EventRule, Head, Markov, VelocityGate,
};

use crate::parts;

/// Classes with all that they may have, of two latents.
fn classes() -> Classes {
    Classes {
        cosines: Cosines {
            radius: 4.5,
            frequencies: vec![0.5, -0.25, 1.5, 2.0, 0.125, -3.0],
            phases: vec![0.0, 0.25, 0.75],
        },
        tau_seconds: Some(0.1),
        weights: (0..14).map(|i| 0.25 * (i as f32 - 6.0)).collect(),
        bias: vec![0.5, -0.75],
        priors: vec![0.875, 0.125],
        markov: Some(Markov {
            kappa: 0.3,
            transitions: vec![0.9375, 0.0625, 0.25, 0.75],
            start: vec![0.5, 0.5],
        }),
        events: vec![
            None,
            Some(EventRule {
                on: 0.625,
                off: 0.3125,
                dwell: 2,
                refractory_seconds: 0.5,
            }),
        ],
    }
}

/// A decoder of classes, and one of velocities that a class gates.
fn with_classes() -> [Decoder; 2] {
    let of_classes = DecoderParts {
        head: Head::Classes(classes()),
        outputs: ["rest", "go"].map(Into::into).to_vec(),
        ..parts()
    };
    let gated = DecoderParts {
        weights: (0..24)
            .map(|i| if i < 16 { 0.5 - f64::from(i) } else { 0.0 })
            .collect(),
        intercept: vec![100.25, -3.5, 0.0, 1.0],
        head: Head::VelocityGate(VelocityGate {
            classes: classes(),
            names: ["rest", "go"].map(String::from).to_vec(),
            class: 1,
            closed: 0.02,
            slope: 1.2,
            gated: vec![false, true],
        }),
        ..parts()
    };
    [of_classes, gated].map(|parts| Decoder::new(parts).unwrap())
}

const CLASSES: [&[u8]; 2] = [
    include_bytes!("../fixtures/classes.betz"),
    include_bytes!("../fixtures/gated.betz"),
];

/// The files of classes and of gated decoders as they were first written.
#[test]
fn files_of_classes_still_load() {
    for (fixture, decoder) in CLASSES.into_iter().zip(with_classes()) {
        assert_eq!(Decoder::from_bytes(fixture).unwrap(), decoder);
        assert_eq!(decoder.to_bytes().unwrap(), fixture);
    }
}

/// Writes the fixtures of classes; to be run by hand where new ones are made.
#[test]
#[ignore = "writes the fixtures"]
fn write_the_fixtures_of_classes() {
    for (name, decoder) in ["classes", "gated"].into_iter().zip(with_classes()) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        let path = std::path::Path::new(folder).join(format!("{name}.betz"));
        decoder.save(&path).unwrap();
    }
}
