//! The same bits on every system: hashes of the models that a training of every kind makes, with
//! `betz_train::use_one_order`. They are those of Linux on x86-64 with AVX-512. Build this test for another system or
//! processor to compare with it.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::hash::Fnv1a;
use betz_base::random::Random;
use betz_device::Device;
use betz_gram::GramPath;
use betz_recording::{Dataset, Labels, OutputInfo, Segment, Spikes};
use betz_runtime::psc::{Filter, FilterBank};
use betz_train::{ClassOptions, Kind, KindOptions, Training};

const CHANNELS: usize = 12;
const TRIALS: usize = 12;
const TRIAL: usize = 100;
const STEPS: usize = TRIALS * TRIAL;

/// A place that moves to and fro between 0 and 1, by quarters and thirds: no function of the system's library is needed.
fn place(step: usize) -> [f32; 2] {
    let wave = |step: usize, period: usize| {
        let at = step % period;
        at.min(period - at) as f32 / (period / 2) as f32
    };
    [wave(step, 60), wave(step + 17, 88)]
}

/// Trials of 2 s whose channels fire the more, the nearer their own place is.
fn recording() -> Dataset {
    let mut random = Random::new(11);
    let (mut ticks, mut channels) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let [x, y] = place(step);
        for channel in 0..CHANNELS {
            let (own_x, own_y) = ((channel % 4) as f32 / 3.0, (channel / 4) as f32 / 2.0);
            let distance = (x - own_x) * (x - own_x) + (y - own_y) * (y - own_y);
            if random.uniform() < f64::from(0.6 / (1.0 + 8.0 * distance)) {
                ticks.push(step as i64);
                channels.push(channel as u32);
            }
        }
    }
    let trial = |number: usize| Segment {
        start: (number * TRIAL) as i64,
        stop: ((number + 1) * TRIAL) as i64,
    };
    let output = |name: &str| OutputInfo {
        name: name.into(),
        unit: "m".into(),
    };
    Dataset {
        step_seconds: 0.02,
        steps: STEPS,
        channel_names: (0..CHANNELS).map(|c| format!("c{c}")).collect(),
        spikes: Spikes::new(ticks, channels),
        segments: (0..TRIALS).map(trial).collect(),
        outputs: vec![output("x"), output("y")],
        behavior: (0..STEPS).flat_map(place).collect(),
    }
}

fn training(kinds: KindOptions, gram: GramPath) -> Training {
    let filter = |tau_seconds, order| Filter { tau_seconds, order };
    Training {
        bank: Some(FilterBank::new(vec![filter(0.04, 1), filter(0.15, 0)]).unwrap()),
        folds: 3,
        gram,
        kinds,
        ..Training::default()
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hash = Fnv1a::new();
    hash.bytes(bytes);
    hash.finish()
}

#[test]
fn trainings_have_the_same_bits_on_every_system() {
    betz_train::use_one_order();
    let (data, cpu) = (recording(), Device::cpu());
    let mut got = Vec::new();
    let mut note = |name: &str, model: Vec<u8>| got.push(format!("{name} {:016x}", hash(&model)));
    for (name, path) in [("dense", GramPath::Dense), ("event", GramPath::Event)] {
        let training = training(KindOptions::linear(), path);
        let decoder = training.run(&data, &cpu, &()).unwrap().decoder;
        note(&format!("linear, {name}"), decoder.to_bytes().unwrap());
    }
    let chosen = [
        Kind::Lift,
        Kind::Experts,
        Kind::Kalman,
        Kind::Place,
        Kind::Recurrent,
    ];
    // ReFIT is a Kalman filter of turned velocities, and needs outputs that are velocities: the same sums and solutions.
    let kinds = chosen.map(|kind| (kind.name(), vec![kind]));
    let blend = vec![
        Kind::Linear,
        Kind::Lift,
        Kind::Experts,
        Kind::Recurrent,
        Kind::Blend,
    ];
    for (name, kinds) in kinds.into_iter().chain([("blend", blend)]) {
        let kinds = KindOptions {
            latents: Some(3),
            units: Some(16),
            experts: Some(2),
            cells: Some(8),
            layers: Some(vec![16]),
            epochs: Some(3),
            ..KindOptions::among(&kinds)
        };
        let training = training(kinds, GramPath::Event);
        let decoder = training.run(&data, &cpu, &()).unwrap().decoder;
        note(name, decoder.to_bytes().unwrap());
    }
    let side = |step: usize| i32::from(place(step)[0] > 0.5);
    let labels = Labels {
        names: vec!["left".into(), "right".into()],
        of_step: (0..STEPS).map(side).collect(),
    };
    let training = training(KindOptions::linear(), GramPath::Event);
    let (outcome, _) = training
        .run_classes(&data, &labels, &ClassOptions::default(), &cpu, &())
        .unwrap();
    note("classes", outcome.decoder.to_bytes().unwrap());
    assert_eq!(got, EXPECTED);
}

#[test]
fn the_documentation_has_these_hashes() {
    let page = include_str!("../../../../docs/safety.md");
    for line in EXPECTED {
        let (_, hash) = line.rsplit_once(' ').unwrap();
        assert!(page.contains(hash), "docs/safety.md: expected {line}");
    }
}

const EXPECTED: &[&str] = &[
    "linear, dense 48db5c2d535b1254",
    "linear, event a5f9601a1d38caab",
    "lift 46f5f3f7a72f7441",
    "experts acb60d23848bb782",
    "kalman 101152a28072a3ad",
    "place fa40c440399094d5",
    "recurrent 5bfc94f7108a968d",
    "blend da760f799f68e3fa",
    "classes 67cb8910531605b8",
];
