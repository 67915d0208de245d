//! Synapses that learn: against sums over all spikes in f64, on any number of threads, and what is refused.

use betz_spiking::{
    Dependence, Draw, Engine, Network, Neuron, Options, Plasticity, Population, Projection, Reward,
    Rule, SpikeTrains, Synapse, Triplet,
};

use super::cases::balanced;

const STEP_MS: f64 = 0.1;

/// Times in ms of a pre-synaptic neuron's spikes and of its target's, which a teacher fires.
struct Protocol {
    before: Vec<f64>,
    after: Vec<f64>,
    delay_ms: f64,
}

impl Protocol {
    fn network(&self, plasticity: Plasticity, weight: f64) -> Network {
        let mut network = Network::new(STEP_MS, 1);
        let source = |name: &str, train: &[f64]| {
            let mut source = Population::new(name, 1);
            source.neuron = Neuron::Spikes(SpikeTrains {
                trains_ms: vec![train.to_vec()],
                file: None,
            });
            source
        };
        let mut target = Population::new("target", 1);
        target.synapse = Synapse::Delta;
        // The teacher's spike takes a step.
        let taught: Vec<f64> = self.after.iter().map(|t| t - STEP_MS).collect();
        network.populations = vec![
            source("before", &self.before),
            source("teacher", &taught),
            target,
        ];
        let mut learning = Projection::new("before", "target", Rule::All, weight, self.delay_ms);
        learning.plasticity = Some(plasticity);
        network.projections = vec![
            learning,
            Projection::new("teacher", "target", Rule::All, 100.0, STEP_MS),
        ];
        network
    }

    /// The weight after all spikes, as the rule's definition has it: an explicit sum over spikes at every event.
    fn expected(&self, rule: Plasticity, weight: f64) -> f64 {
        let mut events: Vec<(f64, bool)> = self
            .before
            .iter()
            .map(|t| (t + self.delay_ms, false))
            .collect();
        events.extend(self.after.iter().map(|t| (*t, true)));
        events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let trace = |now: usize, of: bool, tau: f64| -> f64 {
            let past = events[..now].iter().filter(|e| e.1 == of);
            past.map(|e| (-(events[now].0 - e.0) / tau).exp()).sum()
        };
        let third = rule.triplet.unwrap_or(Triplet {
            a_plus: 0.0,
            a_minus: 0.0,
            tau_x_ms: 1.0,
            tau_y_ms: 1.0,
        });
        let mut w = weight;
        for (now, &(_, fires)) in events.iter().enumerate() {
            let part = if fires {
                let r = trace(now, false, rule.tau_plus_ms);
                r * (rule.a_plus + third.a_plus * trace(now, true, third.tau_y_ms))
            } else {
                let o = trace(now, true, rule.tau_minus_ms);
                -o * (rule.a_minus + third.a_minus * trace(now, false, third.tau_x_ms))
            };
            let room = match rule.dependence {
                Dependence::Additive => rule.high,
                Dependence::Multiplicative if part > 0.0 => rule.high - w,
                Dependence::Multiplicative => w - rule.low,
            };
            w = (w + part * room).clamp(rule.low, rule.high);
        }
        w
    }

    fn learned(&self, rule: Plasticity, weight: f64) -> f64 {
        let network = self.network(rule, weight);
        let options = Options {
            record_spikes: 1000,
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, &()).unwrap();
        engine.run(4000, &()).unwrap();
        let fired: Vec<u64> = (engine.spikes().iter())
            .filter(|s| s.neuron == 2)
            .map(|s| s.step)
            .collect();
        let meant: Vec<u64> = self
            .after
            .iter()
            .map(|t| (t / STEP_MS).round() as u64)
            .collect();
        assert_eq!(fired, meant, "the teacher fires the target");
        f64::from(engine.weights(0).unwrap()[0].weight)
    }
}

fn protocols() -> Vec<Protocol> {
    let protocol = |before: &[f64], after: &[f64], delay_ms: f64| Protocol {
        before: before.to_vec(),
        after: after.to_vec(),
        delay_ms,
    };
    vec![
        // Before, after, at once; then trains with short and long delays.
        protocol(&[20.0], &[30.0], 1.0),
        protocol(&[40.0], &[30.0], 1.0),
        protocol(&[29.0], &[30.0], 1.0),
        protocol(
            &[10.0, 20.0, 35.0, 90.0],
            &[12.0, 33.0, 60.0, 95.0, 99.0],
            0.1,
        ),
        protocol(
            &[10.0, 20.0, 35.0, 90.0],
            &[12.0, 33.0, 60.0, 95.0, 99.0],
            20.0,
        ),
    ]
}

fn rules() -> Vec<Plasticity> {
    let pairs = Plasticity {
        tau_plus_ms: 17.0,
        tau_minus_ms: 34.0,
        ..Plasticity::pairs(0.02, 0.015, 1.0)
    };
    let triplet = Triplet {
        a_plus: 0.03,
        a_minus: 0.01,
        tau_x_ms: 100.0,
        tau_y_ms: 114.0,
    };
    vec![
        pairs,
        Plasticity {
            dependence: Dependence::Multiplicative,
            low: 0.1,
            ..pairs
        },
        Plasticity {
            triplet: Some(triplet),
            ..pairs
        },
        // Up to the bounds.
        Plasticity {
            a_plus: 2.0,
            a_minus: 0.1,
            ..pairs
        },
    ]
}

#[test]
fn weights_are_the_sums_over_pairs_and_triplets() {
    for rule in rules() {
        for protocol in protocols() {
            // A weight is at first a whole number of units: 100 mV / 16,384.
            let weight = 64.0 / 128.0;
            let (got, exact) = (
                protocol.learned(rule, weight),
                protocol.expected(rule, weight),
            );
            assert!(
                (got - exact).abs() < 2e-6,
                "{rule:?} {:?}: {got} {exact}",
                protocol.before
            );
            assert!((got - weight).abs() > 1e-4, "{rule:?}: nothing learned");
        }
    }
}

#[test]
fn reward_turns_eligibility_into_weight() {
    let reward = Reward {
        tau_eligibility_ms: 1000.0,
        tau_dopamine_ms: 200.0,
    };
    let rule = Plasticity {
        reward: Some(reward),
        ..Plasticity::pairs(0.02, 0.015, 1.0)
    };
    let protocol = &protocols()[0];
    let mut engine = Engine::build(&protocol.network(rule, 0.5), &Options::default(), &()).unwrap();
    let weight = |engine: &Engine| f64::from(engine.weights(0).unwrap()[0].weight);
    engine.run(1000, &()).unwrap();
    assert!((weight(&engine) - 0.5).abs() < 1e-9, "no reward, no change");
    engine.reward(3.0).unwrap();
    engine.run(1000, &()).unwrap();
    // The eligibility of +9 ms at 30 ms, dopamine from 100 to 200 ms.
    let c = 0.02 * (-9.0f64 / 20.0).exp() * (-70.0f64 / 1000.0).exp();
    let both = 1.0 / 1000.0 + 1.0 / 200.0;
    let area = 3.0 * (1.0 - (-100.0f64 * both).exp()) / both * 1e-3;
    let expected = 0.5 + c * area;
    assert!(
        (weight(&engine) - expected).abs() < 1e-6,
        "{} {expected}",
        weight(&engine)
    );
    // Reading changes nothing; a later reward acts on what is left.
    let before = weight(&engine);
    assert_eq!(before, weight(&engine));
    engine.reward(-3.0).unwrap();
    engine.run(1000, &()).unwrap();
    assert!(weight(&engine) < before);
    assert!(engine.reward(f64::NAN).is_err());
}

#[test]
fn a_network_learns_the_same_on_any_number_of_threads() {
    let network = balanced();
    let run = |threads: usize, parts: &[u64]| {
        let options = Options {
            threads,
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, &()).unwrap();
        let start = engine.weights(0).unwrap();
        for steps in parts {
            engine.run(*steps, &()).unwrap();
        }
        (
            engine.hash(),
            start,
            engine.weights(0).unwrap(),
            engine.weights(1).unwrap(),
        )
    };
    let one = run(1, &[5000]);
    assert_eq!((one.1.len(), one.3.len()), (4000, 1000));
    let changed = one
        .1
        .iter()
        .zip(&one.2)
        .filter(|(a, b)| a.weight != b.weight)
        .count();
    assert!(changed > 3000, "{changed} of 4000 have learned");
    assert!(one.2.iter().all(|s| (0.0..=175.6).contains(&s.weight)));
    let ends = |list: &[betz_spiking::ListedSynapse]| -> Vec<_> {
        list.iter()
            .map(|s| (s.source, s.target, s.delay_steps))
            .collect()
    };
    let mut start = ends(&one.1);
    start.sort_unstable();
    let mut end = ends(&one.2);
    end.sort_unstable();
    assert_eq!(start, end);
    assert_eq!(run(3, &[5000]), one);
    assert_eq!(run(2, &[1, 4999]), one);
    assert_eq!(
        Network::from_json(&network.to_json().unwrap()).unwrap(),
        network
    );
}

#[test]
fn rules_that_are_none_are_refused() {
    let refused = |change: &dyn Fn(&mut Projection), words: &str| {
        let mut network = balanced();
        change(&mut network.projections[0]);
        let error = network.check().unwrap_err();
        assert!(
            error.message().contains(words) && error.message().contains("e to e"),
            "{words:?} is not in {error}"
        );
    };
    let with = |change: fn(&mut Plasticity), words: &str| {
        refused(
            &|p| {
                let mut rule = p.plasticity.unwrap();
                change(&mut rule);
                p.plasticity = Some(rule);
            },
            words,
        );
    };
    with(|p| p.tau_plus_ms = 0.02, "tau_plus_ms");
    with(|p| p.a_minus = f64::NAN, "a_minus");
    with(|p| p.low = 200.0, "low < high");
    with(|p| p.low = -1.0, "0 <= low");
    with(|p| p.high = 100.0, "within low and high");
    with(
        |p| {
            p.reward = Some(Reward {
                tau_eligibility_ms: 0.0,
                tau_dopamine_ms: 1.0,
            })
        },
        "tau_eligibility_ms",
    );
    refused(&|p| p.weight = Draw::Constant(-1.0), "within low and high");
    let mut engine = Engine::build(&balanced(), &Options::default(), &()).unwrap();
    assert!(
        engine
            .reward(1.0)
            .unwrap_err()
            .message()
            .contains("plasticity has a reward")
    );
    assert!(engine.weights(9).is_err());
    // Static weights are told, too.
    assert_eq!(engine.weights(2).unwrap().len(), 4000);
}
