//! The engine against plain loops: the same bits on any number of threads, and the model itself
//! within the rounding of an f32.

use betz_spiking::{
    Arrival, Engine, Lif, ListedSynapse, Network, Neuron, Options, Population, Projection, Rule,
    Spike, Stimulus, Synapse, models, oracle,
};

use crate::cases::{alpha, cases, exponential, psc};

fn run(network: &Network, threads: usize, steps: u64) -> (Engine, Vec<Spike>) {
    let options = Options {
        threads,
        record_spikes: usize::MAX / 64,
        memory_limit: Some(u64::MAX),
        record_potentials: vec![0, network.neurons() as u32 - 1],
        ..Options::default()
    };
    let mut engine = Engine::build(network, &options, &()).unwrap();
    let report = engine.run(steps, &()).unwrap();
    assert_eq!(report.spikes_left_out, 0);
    let spikes = engine.spikes();
    (engine, spikes)
}

#[test]
fn one_two_and_seven_threads_give_the_oracles_spikes_bit_for_bit() {
    let steps = 150;
    for (i, network) in cases().iter().enumerate() {
        let expected = oracle::exact(network, steps).unwrap();
        assert!(expected.spikes.len() > 20, "case {i} hardly fires");
        let mut hashes = Vec::new();
        for threads in [1, 2, 7] {
            let (engine, spikes) = run(network, threads, steps);
            assert_eq!(spikes, expected.spikes, "case {i}, {threads} threads");
            assert_eq!(engine.hash(), expected.hash, "case {i}, {threads} threads");
            hashes.push((engine.synapse_hash(), engine.synapses()));
            for (neuron, potentials) in engine.potentials() {
                assert_eq!(potentials.len(), steps as usize);
                for (got, all) in potentials.iter().zip(&expected.potentials) {
                    let exact = all[neuron as usize];
                    assert!(
                        (f64::from(*got) - exact).abs() < 1e-4,
                        "case {i}: {got} {exact}"
                    );
                }
            }
        }
        assert!(hashes.iter().all(|h| *h == hashes[0]), "case {i}");
        let counts = run(network, 3, steps).0.counts();
        for (neuron, count) in counts.iter().enumerate() {
            let own = |s: &&Spike| s.neuron as usize == neuron;
            assert_eq!(*count as usize, expected.spikes.iter().filter(own).count());
        }
    }
}

#[test]
fn steps_one_by_one_and_in_runs_are_the_same() {
    let network = models::brunel(0.02, 5.0, 2.0, 5).unwrap();
    let (engine, spikes) = run(&network, 2, 300);
    let options = Options {
        threads: 3,
        ..Options::default()
    };
    let mut stepped = Engine::build(&network, &options, &()).unwrap();
    let (mut fired, mut all) = (Vec::new(), Vec::new());
    for step in 0..100 {
        stepped.step(&mut fired).unwrap();
        all.extend(fired.iter().map(|&neuron| Spike { step, neuron }));
    }
    all.sort_unstable();
    assert!(all.iter().eq(spikes.iter().filter(|s| s.step < 100)));
    // Runs that end in the middle of a shortest delay.
    for steps in [7, 33, 160] {
        stepped.run(steps, &()).unwrap();
    }
    assert_eq!(stepped.hash(), engine.hash());
    assert_eq!(stepped.steps(), 300);
}

/// Two driven neurons with synapses of this kind onto a third.
fn two_sources_and_a_target(synapse: Synapse) -> Network {
    let mut network = Network::new(0.1, 1);
    let mut source = Population::new("source", 2);
    source.neuron = Neuron::Lif(Lif {
        current_pa: 600.0,
        ..Lif::default()
    });
    source.stimuli = vec![Stimulus {
        first: 0,
        count: 1,
        current_pa: 300.0,
    }];
    let mut target = Population::new("target", 1);
    target.synapse = synapse.clone();
    network.populations = vec![source, target];
    let scale = match synapse {
        Synapse::Delta => 0.01,
        Synapse::Psc { .. } => 20.0,
        _ => 1.0,
    };
    let one = |source: u32, weight: f32, delay_steps: u32| ListedSynapse {
        source,
        target: 0,
        weight: weight * scale,
        delay_steps,
    };
    network.projections.push(Projection::new(
        "source",
        "target",
        Rule::List {
            synapses: vec![one(0, 60.0, 1), one(1, -40.0, 23), one(1, 30.0, 255)],
        },
        0.0,
        0.1,
    ));
    network
}

#[test]
fn potentials_follow_the_model() {
    let synapses = [
        exponential(None, Arrival::End),
        exponential(Some(10.0), Arrival::Beginning),
        // Where the formula of two different time constants is singular.
        Synapse::Exponential {
            tau_ms: 10.0,
            tau_inhibitory_ms: None,
            arrival: Arrival::End,
        },
        alpha(None, Arrival::End),
        Synapse::Alpha {
            tau_ms: 10.0,
            tau_inhibitory_ms: Some(3.0),
            arrival: Arrival::Beginning,
        },
        Synapse::Delta,
        psc(0, true),
        psc(0, false),
        psc(1, true),
        psc(2, true),
        psc(3, true),
        psc(3, false),
    ];
    for synapse in synapses {
        let network = two_sources_and_a_target(synapse.clone());
        let steps = 700;
        let exact = oracle::reference(&network, steps).unwrap();
        let options = Options {
            record_potentials: vec![2],
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, &()).unwrap();
        engine.run(steps, &()).unwrap();
        assert_eq!(engine.hash(), exact.hash, "{synapse:?}");
        let (_, got) = engine.potentials()[0];
        let rest = Lif::default().rest_mv;
        let peak = (exact.potentials.iter())
            .map(|v| (v[2] - rest).abs())
            .fold(0.0, f64::max);
        assert!(peak > 0.05, "{synapse:?}: nothing arrived");
        for (step, (got, exact)) in got.iter().zip(&exact.potentials).enumerate() {
            // An f32 of −65 mV has a spacing of 8·10⁻⁶.
            let error = (f64::from(*got) - exact[2]).abs();
            assert!(
                error < 1e-5 * peak.max(1.0) + 8e-6,
                "{synapse:?} step {step}: {error:e}"
            );
        }
    }
}

#[test]
fn a_constant_current_gives_the_analytic_rate() {
    for current in [300.0, 376.0, 400.0, 800.0, 5000.0] {
        let mut network = Network::new(0.1, 1);
        let mut population = Population::new("one", 1);
        let lif = Lif {
            current_pa: current,
            ..Lif::default()
        };
        population.neuron = Neuron::Lif(lif);
        network.populations.push(population);
        let mut engine = Engine::build(&network, &Options::default(), &()).unwrap();
        let report = engine.run(40_000, &()).unwrap();
        // V reaches the threshold after τ ln(RI / (RI − θ)), found at the end of its step.
        let drive = current * lif.tau_m_ms / lif.c_m_pf;
        let charging = lif.tau_m_ms * (drive / (drive - 15.0)).ln();
        let expected = if drive <= 15.0 {
            0.0
        } else {
            40_000.0 / ((charging / 0.1).ceil() + 20.0)
        };
        let spikes = report.spikes as f64;
        assert!(
            (spikes - expected).abs() <= 1.0 + 0.002 * expected,
            "{current}: {spikes} {expected}"
        );
    }
}

#[test]
fn only_the_seed_changes_what_is_drawn() {
    let hashes: Vec<_> = [1, 1, 2]
        .map(|seed| {
            let (engine, _) = run(&models::brunel(0.02, 5.0, 2.0, seed).unwrap(), 1, 100);
            (engine.hash(), engine.synapse_hash())
        })
        .into();
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0].0, hashes[2].0);
    assert_ne!(hashes[0].1, hashes[2].1);
}

#[test]
fn the_first_spikes_are_kept_whatever_the_threads() {
    let network = models::cuba(0.1, 1).unwrap();
    let kept = |threads| {
        let options = Options {
            threads,
            record_spikes: 10,
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, &()).unwrap();
        let report = engine.run(400, &()).unwrap();
        (engine.spikes(), report.spikes_left_out, report.spikes)
    };
    let (spikes, left_out, all) = kept(1);
    assert_eq!(spikes.len() as u64 + left_out, all);
    assert!(left_out > 0);
    assert_eq!(kept(5), (spikes, left_out, all));
}
