//! The same bits on every system: hashes of 5,000 steps of every kind of decoder. They are those of Linux on x86-64;
//! `scripts/windows.sh` and `.ci/run` run this test on other systems and processors.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::hash::Fnv1a;
use betz_runtime::model::Decoder;

use crate::common::{counts, decoder, open, rng, sampled, with_sampled};
use crate::{blend, classes, skip};

const STEPS: usize = 5000;

fn decoders() -> Vec<Decoder> {
    let mut all = skip::decoders();
    let filters: &[&[(f64, u32)]] = &[&[(0.05, 0)], &[(0.02, 1), (0.1, 2), (0.3, 3), (0.01, 4)]];
    all.extend((filters.iter()).map(|filters| decoder(&mut rng(60), 30, 4, filters, None)));
    let plain = decoder(&mut rng(61), 6, 3, &[(0.05, 1)], None);
    let kernels = vec![sampled(&mut rng(62), 40, 0), sampled(&mut rng(63), 700, 2)];
    all.push(with_sampled(&mut rng(64), plain, kernels));
    all.extend(classes::decoders());
    all.push(blend::mixed());
    all
}

/// 5,000 steps with counts, a pause of 70 steps in their middle, and the variances at the end where there are some.
fn hash(decoder: &Decoder) -> u64 {
    let channels = decoder.channels();
    let counts = counts(&mut rng(70), STEPS, channels);
    let mut session = open(decoder);
    let mut out = vec![0.0; session.outputs()];
    let mut hash = Fnv1a::new();
    for (step, counts) in counts.chunks_exact(channels).enumerate() {
        if step == STEPS / 2 {
            session.skip(70);
        }
        session.step_counts(counts, &mut out).unwrap();
        out.iter().for_each(|value| hash.number(f64::from(*value)));
    }
    if session.model().tells_variances() {
        session.variances(&mut out).unwrap();
        out.iter().for_each(|value| hash.number(f64::from(*value)));
    }
    hash.finish()
}

#[test]
fn steps_have_the_same_bits_on_every_system() {
    let got: Vec<_> = (decoders().iter())
        .map(|decoder| format!("{} {:016x}", decoder.head().name(), hash(decoder)))
        .collect();
    assert_eq!(got, EXPECTED);
}

const EXPECTED: &[&str] = &[
    "lift 75228dffe6627934",
    "lift 1cad403284cd34a0",
    "lift 233aab18f23a6975",
    "experts 6b7a9e571cf8970a",
    "experts 2ed1cc054792741b",
    "experts cf737788767d448e",
    "place 3d88b09ae8395c7a",
    "place 3f321cc8eab6141f",
    "place 6b3152d52704aff0",
    "recurrent 315c414aa65bca91",
    "recurrent c5be7a94834cc479",
    "recurrent 7fe6b5bea7126080",
    "recurrent 472193ed37dede3a",
    "recurrent 1b2c55cf1037e2b7",
    "recurrent 5055c300bdfab90f",
    "recurrent d7d9b2f0471a463d",
    "recurrent 05a2b54c334adb4d",
    "kalman 4a65ea0120ec7e6d",
    "linear c7f8a95aeef04efd",
    "linear 3cd90b8c15994a49",
    "linear 63f95cfd1fbc0240",
    "classes 1a71fe990636afea",
    "classes 8bf62b963c7c9472",
    "classes f612d93652c7f380",
    "classes 2989e935e4b561be",
    "blend b5ec1ef5e429e4b7",
];
