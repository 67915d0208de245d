//! The population-temporal experiment.

use betz_base::ErrorKind;
use betz_recording::multiunit::random_groups;
use betz_simulate::lif::Lif;
use betz_simulate::population::{PopulationConfig, TunedNeuron, simulate};

fn small() -> PopulationConfig {
    PopulationConfig {
        neurons: 40,
        train_seconds: 5.0,
        test_seconds: 2.0,
        ..PopulationConfig::default()
    }
}

#[test]
fn recordings_are_whole_and_share_the_population_alone() {
    let r = simulate(&small(), 7).unwrap();
    for (part, steps) in [(&r.train, 20_000), (&r.test, 8_000)] {
        part.check().unwrap();
        assert_eq!((part.ticks, part.channels()), (steps, 40));
        assert_eq!(part.channel_names[39], "u39");
        let b = part.behavior.as_ref().unwrap();
        assert_eq!((b.samples(), b.outputs.len()), (steps as usize, 2));
        for axis in 0..2 {
            let values = b.values.iter().skip(axis).step_by(2);
            let variance = values.map(|&v| f64::from(v).powi(2)).sum::<f64>() / steps as f64;
            assert!((variance.sqrt() - 0.5).abs() < 1e-6);
        }
        let d = part.align(0.000_25).unwrap();
        assert_eq!(d.behavior, b.values);
        assert_eq!(d.spikes, part.spikes);
    }
    let values = |r: &betz_recording::Recording| r.behavior.clone().unwrap().values;
    assert_ne!(values(&r.train)[..100], values(&r.test)[..100]);
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let r = pool.install(|| simulate(&small(), seed)).unwrap();
        let path = dir.path().join("r.npz");
        r.train.write_npz(&path).unwrap();
        (std::fs::read(&path).unwrap(), r.test)
    };
    let one = bytes(1, 7);
    assert!(one == bytes(3, 7));
    assert!(one != bytes(1, 8));
    // A larger population begins with the smaller one.
    let larger = PopulationConfig {
        neurons: 50,
        ..small()
    };
    assert_eq!(
        simulate(&larger, 7).unwrap().neurons[..40],
        simulate(&small(), 7).unwrap().neurons[..]
    );
}

#[test]
fn tuning_hits_maximal_rate_and_intercept() {
    let lif = Lif::new(0.02, 0.002).unwrap();
    for (rate, intercept) in [(20.0, -0.95), (60.0, 0.95), (200.0, 0.0)] {
        let n = TunedNeuron::new(lif, [0.6, 0.8], rate, intercept).unwrap();
        assert!((n.current([0.6 * intercept, 0.8 * intercept]) - 1.0).abs() < 1e-12);
        assert!((lif.rate_hz(n.current([0.6, 0.8])) - rate).abs() < 1e-9 * rate);
        // Across the preferred direction nothing changes.
        assert!((n.current([-0.8, 0.6]) - n.bias).abs() < 1e-12);
    }
    assert!(TunedNeuron::new(lif, [1.0, 0.0], 501.0, 0.0).is_err());
    assert!(TunedNeuron::new(lif, [1.0, 0.0], 50.0, 1.0).is_err());
}

#[test]
fn firing_follows_the_stimulus_along_the_preferred_direction() {
    let r = simulate(&small(), 3).unwrap();
    let b = r.train.behavior.as_ref().unwrap();
    for (c, neuron) in r.neurons.iter().enumerate() {
        // A slow stimulus: the mean of the analytic rate is close to the mean rate simulated.
        let expected: f64 = b
            .values
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&[x, y]| neuron.lif.rate_hz(neuron.current([x.into(), y.into()])))
            .sum::<f64>()
            * r.train.tick_seconds;
        let spikes = r
            .train
            .spikes
            .channels
            .iter()
            .filter(|&&k| k == c as u32)
            .count() as f64;
        assert!(
            (spikes - expected).abs() < 0.2 * expected + 8.0,
            "u{c}: {spikes} spikes, expected about {expected}"
        );
    }
}

#[test]
fn rates_follow_the_configuration() {
    let fast = PopulationConfig {
        max_rate_hz: 100.0..200.0,
        ..small()
    };
    let (slow, fast) = (simulate(&small(), 1).unwrap(), simulate(&fast, 1).unwrap());
    assert!(fast.train.spikes.len() > 2 * slow.train.spikes.len());
    for n in &fast.neurons {
        let rate = n.lif.rate_hz(n.current(n.direction));
        assert!((100.0..200.0 + 1e-9).contains(&rate), "{rate}");
    }
}

#[test]
fn multi_unit_recordings_keep_every_spike() {
    let r = simulate(&small(), 5).unwrap();
    let groups = random_groups(40, 3, 5);
    let mu = r.train.combine(&groups).unwrap();
    assert_eq!(mu.channels(), 14);
    assert_eq!(mu.spikes.len(), r.train.spikes.len());
    assert_eq!(mu.behavior, r.train.behavior);
}

#[test]
fn impossible_configurations_are_refused() {
    type Change = fn(&mut PopulationConfig);
    let cases: [(Change, &str); 14] = [
        (|c| c.neurons = 0, "neuron"),
        (|c| c.train_seconds = 0.0, "training"),
        (|c| c.test_seconds = f64::NAN, "test"),
        (|c| c.step_seconds = -1.0, "step"),
        (|c| c.train_seconds = 1e9, "steps"),
        (|c| c.max_rate_hz = 0.0..60.0, "rate"),
        (|c| c.max_rate_hz = 60.0..20.0, "rate"),
        (|c| c.max_rate_hz = 20.0..400.0, "forbids"),
        (|c| c.intercept = -1.0..0.5, "intercept"),
        (|c| c.intercept = -0.5..1.0, "intercept"),
        (|c| c.tau_rc_seconds = 0.0..0.02, "tau_RC"),
        (|c| c.tau_ref_seconds = -0.1..0.0, "tau_ref"),
        (|c| c.band_hz = 2000.0, "band"),
        (|c| c.stimulus_std = 0.0, "deviation"),
    ];
    for (change, word) in cases {
        let mut config = PopulationConfig::default();
        change(&mut config);
        let e = simulate(&config, 0).expect_err(word);
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.message().contains(word), "{e}");
    }
}
