//! The exact counts of Galbraith 2010, §4.4.2, and those of `specs` that follow from its definition.

use std::collections::VecDeque;

use betz_spiking::models::galbraith::{self, STEPS, ring_count, ring_total};
use betz_spiking::{Engine, Network, Options, connections};

fn counts(network: &Network, threads: usize) -> Vec<u32> {
    let options = Options {
        threads,
        ..Options::default()
    };
    let mut engine = Engine::build(network, &options, &()).unwrap();
    engine.run(STEPS, &()).unwrap();
    engine.counts()
}

#[test]
fn ring_fires_as_published() {
    let order_0 = counts(&galbraith::ring(100, 0).unwrap(), 2);
    assert_eq!(order_0[..3], [4445; 3]);
    assert!(order_0[3..12].iter().all(|c| *c == 4444));
    assert!(order_0[12..21].iter().all(|c| *c == 4443));
    assert_eq!(order_0.iter().sum::<u32>(), 443_928);
    let order_1 = counts(&galbraith::ring(300, 1).unwrap(), 1);
    for (k, count) in (1..).zip(order_1) {
        assert_eq!(u64::from(count), ring_count(k, 1, STEPS), "neuron {k}");
    }
}

#[test]
fn closed_forms_add_up_the_published_counts() {
    for (neurons, total) in [
        (100, 443_928),
        (1_000, 4_389_278),
        (10_000, 38_892_778),
        (39_999, 88_904_445),
        (500_000, 88_904_445),
    ] {
        assert_eq!(ring_total(neurons, 0, STEPS), total, "{neurons}");
    }
    assert_eq!(ring_total(1_000, 1, STEPS), 4_333_778);
}

#[test]
fn the_end_of_the_wave_is_where_the_steps_end() {
    // A ring longer than its wave: the last neuron reached fires once, the next never.
    let network = galbraith::ring(4_000, 0).unwrap();
    let mut engine = Engine::build(&network, &Options::default(), &()).unwrap();
    let report = engine.run(3_000, &()).unwrap();
    let counts = engine.counts();
    assert_eq!((counts[2_998], counts[2_999]), (1, 0));
    assert_eq!(report.spikes, ring_total(4_000, 0, 3_000));
}

#[test]
fn fully_connected_neurons_all_fire_4445_times() {
    for order in [0, 1] {
        for neurons in [1, 10, 70] {
            let network = galbraith::full(neurons, order).unwrap();
            let counts = counts(&network, 1);
            assert!(
                counts.iter().all(|c| *c == 4445),
                "{neurons}, order {order}"
            );
        }
    }
}

#[test]
fn random_networks_fire_by_their_distance_from_the_stimulus() {
    let folder = tempfile::tempdir().unwrap();
    for order in [0, 1] {
        let network = galbraith::random(300, 700, order, 11).unwrap();
        let path = folder.path().join("connections.bin");
        connections::write(&path, &network).unwrap();
        let listed = connections::read(&path, 300, connections::Delays::Ignored).unwrap();
        assert_eq!(listed.len(), 700);
        let mut pairs: Vec<_> = listed.iter().map(|s| (s.source, s.target)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 700, "no pair twice");
        let mut distance = vec![None; 300];
        distance[0] = Some(0u64);
        let mut queue = VecDeque::from([0u32]);
        while let Some(neuron) = queue.pop_front() {
            for synapse in listed.iter().filter(|s| s.source == neuron) {
                if distance[synapse.target as usize].is_none() {
                    distance[synapse.target as usize] =
                        distance[neuron as usize].map(|d: u64| d + 1);
                    queue.push_back(synapse.target);
                }
            }
        }
        assert!(
            distance.iter().any(|d| d.is_none()),
            "some are out of reach"
        );
        let drawn = counts(&network, 2);
        for (neuron, distance) in distance.iter().enumerate() {
            let expected = distance.map_or(0, |d| ring_count(d + 1, u64::from(order), STEPS));
            assert_eq!(u64::from(drawn[neuron]), expected, "neuron {neuron}");
        }
        // The same network from its file.
        let network = galbraith::listed(300, listed, order).unwrap();
        assert_eq!(counts(&network, 1), drawn);
    }
}
