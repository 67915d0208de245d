//! Networks of every kind of neuron, synapse and rule, for whatever must give the same spikes.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use betz_spiking::{
    Arrival, Channel, Dependence, Draw, Network, Neuron, NeuronModel, Plasticity, Poisson,
    PoissonSource, Population, Projection, Rule, SpikeTrains, Stimulus, Synapse, models,
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
        population.synapse = synapse.clone();
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
        Projection::new("e", "e", first.clone(), normal(weight), delays.clone()),
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

/// Synapses of these channels.
pub fn conductance(names: &[&str]) -> Synapse {
    Synapse::Conductance {
        channels: names
            .iter()
            .map(|n| ((*n).to_owned(), Channel::default()))
            .collect(),
        arrival: Arrival::End,
    }
}

/// Sources that fire at these times.
pub fn listed(trains_ms: Vec<Vec<f64>>) -> Population {
    let mut source = Population::new("source", trains_ms.len() as u32);
    source.neuron = Neuron::Spikes(SpikeTrains {
        trains_ms,
        file: None,
    });
    source
}

/// All models, drawn parameters, all kinds of synapses and sources.
pub fn zoo(seed: u64) -> Network {
    let mut network = Network::new(0.1, seed);
    let mut add = |name: &str, neurons: u32, neuron: Neuron, synapse: Synapse| {
        let mut population = Population::new(name, neurons);
        population.neuron = neuron;
        population.synapse = synapse;
        network.populations.push(population);
    };
    let exponential = Synapse::Exponential {
        tau_ms: 5.0,
        tau_inhibitory_ms: Some(10.0),
        arrival: Arrival::Beginning,
    };
    let model = |name: &str| NeuronModel::new(name);
    let uniform = |low, high| Draw::Uniform { low, high };
    add(
        "poisson",
        100,
        Neuron::Poisson(PoissonSource {
            rate_hz: uniform(50.0, 150.0),
        }),
        Synapse::Delta,
    );
    let lif = model("lif")
        .with("tau_m_ms", uniform(10.0, 20.0))
        .with(
            "refractory_ms",
            Draw::ClippedNormal {
                mean: 2.0,
                sd: 1.0,
                low: 0.5,
                high: 5.0,
            },
        )
        .with("current_pa", 350.0);
    add("lif", 70, Neuron::Model(lif), exponential.clone());
    let izhikevich = model("izhikevich")
        .with("d", uniform(2.0, 8.0))
        .with(
            "a",
            (0..130)
                .map(|i| (32.0 + f64::from(i)) / 2048.0)
                .collect::<Vec<_>>(),
        )
        .with("current_pa", 5.0);
    add("izhikevich", 130, Neuron::Model(izhikevich), exponential);
    let adex = model("adex").with(
        "c_m_pf",
        Draw::LogNormal {
            median: 281.0,
            log_sd: 0.2,
        },
    );
    add(
        "adex",
        65,
        Neuron::Model(adex),
        conductance(&["ampa", "gaba_a", "gaba_b", "nmda"]),
    );
    add("hh", 10, Neuron::Model(model("hh")), conductance(&["ampa"]));
    add(
        "qif",
        90,
        Neuron::Model(model("qif").with("current_pa", 80.0)),
        Synapse::Delta,
    );
    add(
        "theta",
        80,
        Neuron::Model(model("theta").with("input", uniform(-0.1, 0.2))),
        Synapse::Delta,
    );
    let start = (0..65).map(|i| -70.0 + 0.25 * f64::from(i));
    network.populations[3].start_mv = start.collect::<Vec<_>>().into();
    network.populations[3].poisson = Some(Poisson {
        rate_hz: 2000.0,
        weight: 2.0,
    });
    network.populations[3].poisson_receptor = Some("ampa".into());
    let mut train = listed(vec![vec![5.0, 6.0, 40.0], vec![12.3]]);
    train.name = "listed".into();
    network.populations.push(train);
    let rule = || Rule::FixedOut {
        count: 20,
        distinct: false,
    };
    let mut wire = |source: &str, target: &str, weight: f64, receptor: Option<&str>| {
        let mut projection = Projection::new(source, target, rule(), weight, 1.5);
        projection.receptor = receptor.map(str::to_owned);
        projection.delay_ms = uniform(0.5, 4.0);
        network.projections.push(projection);
    };
    wire("poisson", "lif", 30.0, None);
    wire("poisson", "izhikevich", 1.0, None);
    wire("izhikevich", "adex", 3.0, Some("nmda"));
    wire("lif", "adex", 3.0, Some("gaba_a"));
    wire("poisson", "hh", 10.0, None);
    wire("lif", "qif", 1.0, None);
    wire("listed", "theta", 0.5, None);
    wire("adex", "izhikevich", -2.0, None);
    network
}

/// A balanced network that learns.
pub fn balanced() -> Network {
    let mut network = Network::new(0.1, 5);
    for (name, neurons) in [("e", 200), ("i", 50)] {
        let mut population = Population::new(name, neurons);
        population.poisson = Some(Poisson {
            rate_hz: 9000.0,
            weight: 87.8,
        });
        population.start_mv = Draw::Uniform {
            low: -65.0,
            high: -50.0,
        };
        network.populations.push(population);
    }
    let rule = || Rule::FixedIn {
        count: 20,
        distinct: false,
    };
    let mut learning = Projection::new("e", "e", rule(), 87.8, 1.5);
    learning.delay_ms = Draw::Uniform {
        low: 0.5,
        high: 3.0,
    };
    learning.weight = Draw::ClippedNormal {
        mean: 87.8,
        sd: 30.0,
        low: 0.0,
        high: 175.0,
    };
    let mut both = Plasticity::pairs(0.01, 0.0105, 175.6);
    learning.plasticity = Some(both);
    both.dependence = Dependence::Multiplicative;
    let mut onto = Projection::new("e", "i", rule(), 87.8, 1.5);
    onto.plasticity = Some(both);
    network.projections = vec![
        learning,
        onto,
        Projection::new("i", "e", rule(), -351.0, 0.8),
        Projection::new("i", "i", rule(), -351.0, 0.8),
    ];
    network
}
