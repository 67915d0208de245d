//! Networks with embedded chains.

use betz_base::ErrorKind;
use betz_simulate::network::{NetworkConfig, NetworkRecording, simulate};

/// Spike ticks of every channel.
fn trains(r: &NetworkRecording) -> Vec<Vec<i64>> {
    let mut trains = vec![Vec::new(); r.recording.channels()];
    for (&t, &c) in r
        .recording
        .spikes
        .ticks
        .iter()
        .zip(&r.recording.spikes.channels)
    {
        trains[c as usize].push(t);
    }
    trains
}

/// Fraction of the spikes of `from` that a spike of `to` follows within (low, high].
fn followed(from: &[i64], to: &[i64], (low, high): (i64, i64)) -> f64 {
    let hits = from.iter().filter(|&&t| {
        let next = to.partition_point(|&u| u <= t + low);
        to.get(next).is_some_and(|&u| u <= t + high)
    });
    hits.count() as f64 / from.len() as f64
}

#[test]
fn data_sets_have_about_the_published_number_of_events() {
    // Patnaik et al., table II: 65,428 events in data set 8; the others in proportion.
    let r = simulate(&NetworkConfig::data_set(8).unwrap(), 1).unwrap();
    r.recording.check().unwrap();
    let events = r.recording.spikes.len() as f64;
    assert!((events / 65_428.0 - 1.0).abs() < 0.05, "{events} events");
    assert_eq!(r.recording.channel_names[63], "h8");
    assert_eq!(r.chains.len(), 4);
    assert!(r.chains.iter().all(|c| c.nodes.len() == 9));

    // Feng et al., §1.4.1: about 50,000 events in 60 s.
    let r = simulate(&NetworkConfig::sym26(), 1).unwrap();
    let events = r.recording.spikes.len() as f64;
    assert!((events / 50_000.0 - 1.0).abs() < 0.05, "{events} events");
    assert_eq!(r.recording.channel_names[25], "Z");
}

#[test]
fn lone_neurons_are_poisson_and_chains_are_followed() {
    let config = NetworkConfig::sym64(40.0);
    let r = simulate(&config, 9).unwrap();
    let trains = trains(&r);
    let mut in_chain = [false; 64];
    for chain in &r.chains {
        assert_eq!(chain.delay_ticks, (400, 600));
        for &n in &chain.nodes {
            assert!(
                !std::mem::replace(&mut in_chain[n as usize], true),
                "shared node {n}"
            );
        }
        for edge in chain.nodes.windows(2) {
            let (a, b) = (&trains[edge[0] as usize], &trains[edge[1] as usize]);
            let p = followed(a, b, chain.delay_ticks);
            // 0.95, more by chance, less by refractoriness.
            assert!((0.85..=1.0).contains(&p), "edge {edge:?}: {p}");
            // Against the arrow there is chance alone.
            let back = followed(b, a, chain.delay_ticks);
            assert!(back < 0.4, "edge {edge:?} backwards: {back}");
        }
    }
    for (n, train) in trains.iter().enumerate() {
        assert!(
            train.windows(2).all(|w| w[1] - w[0] >= 100),
            "refractory period of {n}"
        );
        if !in_chain[n] {
            // 800 expected; five standard deviations.
            let expected = 40.0 * 20.0 / (1.0 + 20.0 * 0.001);
            assert!(
                (train.len() as f64 - expected).abs() < 5.0 * expected.sqrt(),
                "{}",
                train.len()
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_network_on_any_number_of_threads() {
    let config = NetworkConfig::sym64(3.0);
    let run = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| simulate(&config, seed)).unwrap()
    };
    assert_eq!(run(1, 4), run(3, 4));
    assert_ne!(run(1, 4).chains, run(1, 5).chains);
}

#[test]
fn any_size_goes() {
    let large = NetworkConfig {
        neurons: 3000,
        chain_lengths: vec![20, 1, 300],
        ..NetworkConfig::sym64(0.5)
    };
    let r = simulate(&large, 0).unwrap();
    r.recording.check().unwrap();
    assert_eq!(r.chains[2].nodes.len(), 300);
    let one = NetworkConfig {
        neurons: 1,
        chain_lengths: vec![],
        ..large
    };
    assert_eq!(simulate(&one, 0).unwrap().recording.channel_names, ["A"]);
}

#[test]
fn impossible_networks_are_refused() {
    type Change = fn(&mut NetworkConfig);
    let cases: [(Change, &str); 13] = [
        (|c| c.neurons = 0, "neurons"),
        (|c| c.neurons = 35, "nodes"),
        (|c| c.chain_lengths = vec![0], "one node"),
        (|c| c.chain_lengths = vec![usize::MAX, 2], "nodes"),
        (|c| c.seconds = f64::INFINITY, "length"),
        (|c| c.seconds = 1e6, "longer tick"),
        (|c| c.tick_seconds = 0.0, "tick"),
        (|c| c.basal_hz = -1.0, "basal"),
        (|c| c.basal_hz = 1e9, "spikes in a tick"),
        (|c| c.connection = 1.1, "probability"),
        (|c| c.delay_seconds = (0.005, 0.005), "window"),
        (|c| c.delay_seconds = (-0.001, 0.005), "window"),
        (|c| c.refractory_seconds = -1.0, "refractory"),
    ];
    for (change, word) in cases {
        let mut config = NetworkConfig::sym64(1.0);
        change(&mut config);
        let e = simulate(&config, 0).expect_err(word);
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        assert!(e.message().contains(word), "{word}: {e}");
    }
    for number in [0, 9] {
        assert!(NetworkConfig::data_set(number).is_err());
    }
}
