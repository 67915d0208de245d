//! Networks of every kind of neuron, synapse and rule, for whatever must give the same spikes.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use betz_spiking::{
    Arrival, Draw, Network, Poisson, Population, Projection, Rule, Stimulus, Synapse, models,
};

pub fn exponential(inhibitory: Option<f64>, arrival: Arrival) -> Synapse {
    Synapse::Exponential {
        tau_ms: 2.0,
        tau_inhibitory_ms: inhibitory,
        arrival,
    }
}

pub fn alpha(inhibitory: Option<f64>, arrival: Arrival) -> Synapse {
    Synapse::Alpha {
        tau_ms: 1.5,
        tau_inhibitory_ms: inhibitory,
        arrival,
    }
}

pub fn psc(order: u32, truncated: bool) -> Synapse {
    Synapse::Psc {
        order,
        tau_ms: 1.1,
        truncated,
    }
}

/// Two populations, four projections, Poisson input and a stimulus.
pub fn mixed(synapse: Synapse, rules: [Rule; 2], weight: f64, seed: u64) -> Network {
    let mut network = Network::new(0.2, seed);
    for (name, neurons) in [("e", 150), ("i", 70)] {
        let mut population = Population::new(name, neurons);
        population.synapse = synapse;
        population.start_mv = Draw::Normal {
            mean: -57.0,
            sd: 5.0,
        };
        population.poisson = (name == "e").then_some(Poisson {
            rate_hz: 900.0,
            weight,
        });
        population.stimuli = vec![Stimulus {
            first: 3,
            count: 60,
            current_pa: 450.0,
        }];
        network.populations.push(population);
    }
    let normal = |mean: f64| Draw::Normal {
        mean,
        sd: mean.abs() / 5.0,
    };
    let delays = Draw::Normal { mean: 1.5, sd: 1.0 };
    let [first, second] = rules;
    let projections = [
        Projection::new("e", "e", first.clone(), normal(weight), delays),
        Projection::new("e", "i", second.clone(), weight, 0.6),
        Projection::new("i", "e", second, normal(-2.0 * weight), 1.0),
        Projection::new("i", "i", first, -weight, delays),
    ];
    network.projections.extend(projections);
    network
}

pub fn rules() -> Vec<[Rule; 2]> {
    let total = |count, distinct| Rule::FixedTotal { count, distinct };
    let within = |count, distinct| Rule::FixedIn { count, distinct };
    let out = |count, distinct| Rule::FixedOut { count, distinct };
    vec![
        [Rule::Ring, Rule::Pairwise { probability: 0.05 }],
        [total(900, false), Rule::All],
        [total(700, true), Rule::Pairwise { probability: 1.0 }],
        [within(9, false), Rule::Pairwise { probability: 0.7 }],
        [within(9, true), out(20, true)],
        [out(9, false), total(4000, true)],
        [Rule::OneToOne, within(30, true)],
        [Rule::Pairwise { probability: 0.1 }, total(3000, false)],
    ]
}

pub fn cases() -> Vec<Network> {
    let synapses = [
        (exponential(None, Arrival::End), 90.0),
        (exponential(Some(4.0), Arrival::Beginning), 60.0),
        (exponential(Some(4.0), Arrival::End), 60.0),
        (alpha(None, Arrival::Beginning), 40.0),
        (alpha(Some(3.0), Arrival::End), 40.0),
        (Synapse::Delta, 0.6),
        (psc(0, true), 900.0),
        (psc(1, true), 900.0),
    ];
    let mut cases: Vec<Network> = (synapses.into_iter().zip(rules()).zip(1..))
        .map(|(((synapse, weight), rules), seed)| mixed(synapse, rules, weight, seed))
        .collect();
    for (synapse, seed) in [
        (exponential(None, Arrival::Beginning), 20),
        (psc(0, false), 21),
        (psc(2, true), 22),
        (psc(3, false), 23),
    ] {
        let [first, second] = rules()[seed as usize % 8].clone();
        cases.push(mixed(synapse, [first, second], 500.0, seed));
    }
    for case in &mut cases[..4] {
        // Self-connections left out, where a rule could make them.
        for projection in &mut case.projections {
            projection.autapses = matches!(projection.rule, Rule::Ring);
        }
    }
    cases.push(models::galbraith::ring(130, 1).unwrap());
    cases.push(models::galbraith::random(200, 300, 0, 7).unwrap());
    cases.push(models::cuba(0.05, 3).unwrap());
    cases.push(models::pd14(0.005, 3).unwrap());
    cases
}
