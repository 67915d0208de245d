use betz_base::Result;

use super::{current_for_potential, scale_neurons};
use crate::spec::{Draw, Lif, Network, Neuron, Poisson, Population, Projection, Rule, Synapse};

/// The populations: excitatory and inhibitory neurons of layers 2/3, 4, 5 and 6.
const NAMES: [&str; 8] = ["L23E", "L23I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I"];
const NEURONS: [f64; 8] = [
    20683.0, 5834.0, 21915.0, 5479.0, 4850.0, 1065.0, 14395.0, 2948.0,
];
/// Connection probability, target by source.
const PROBABILITY: [[f64; 8]; 8] = [
    [0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0.0, 0.0076, 0.0],
    [0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0.0, 0.0042, 0.0],
    [0.0077, 0.0059, 0.0497, 0.135, 0.0067, 0.0003, 0.0453, 0.0],
    [0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0.0, 0.1057, 0.0],
    [0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0.0],
    [0.0548, 0.0269, 0.0257, 0.0022, 0.06, 0.3158, 0.0086, 0.0],
    [
        0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252,
    ],
    [0.0364, 0.001, 0.0034, 0.0005, 0.0277, 0.008, 0.0658, 0.1443],
];
const EXTERNAL: [f64; 8] = [
    1600.0, 1500.0, 2100.0, 1900.0, 2000.0, 1900.0, 2900.0, 2100.0,
];
/// Rate of each external input in Hz.
const BACKGROUND_HZ: f64 = 8.0;
/// Rates of the full model that a scaled one's missing input is made up from.
const COMPENSATED_HZ: [f64; 8] = [0.971, 2.868, 4.746, 5.396, 8.142, 9.078, 0.991, 7.523];

/// Rates of the eight populations of the full model in Hz, over 10 s after 0.5 s: single runs of
/// the model's own scripts (INM-6/microcircuit-PD14-model).
pub const PD14_RATES_HZ: [f64; 8] = [0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829];

/// The cortical microcircuit of Potjans and Diesmann (2014): 77,169 neurons, 299 million synapses at
/// `scale` 1, Poisson background, steps of 0.1 ms.
///
/// `scale` multiplies neurons and in-degrees; as in the model's scripts, weights then grow by
/// 1/√scale and a constant current replaces the input that is missing on average.
///
/// # Errors
/// None of its own; a scale that leaves no neurons is refused where the network is built.
pub fn pd14(scale: f64, seed: u64) -> Result<Network> {
    let lif = Lif::default();
    let tau_s = 0.5;
    let weight = 0.15 * current_for_potential(lif.c_m_pf, lif.tau_m_ms, tau_s);
    let grown = 1.0 / scale.sqrt();
    let missing = 1e-3 * tau_s * (1.0 - scale.sqrt());
    let mut network = Network::new(0.1, seed);
    for t in 0..8 {
        let neurons = scale_neurons(NEURONS[t], scale);
        let mut constant = missing * weight * EXTERNAL[t] * BACKGROUND_HZ;
        for s in 0..8 {
            if PROBABILITY[t][s] == 0.0 {
                continue;
            }
            // Synapses by total number, so that the probability is that of at least one.
            let in_degree = (-PROBABILITY[t][s]).ln_1p()
                / (-1.0 / (NEURONS[t] * NEURONS[s])).ln_1p()
                / NEURONS[t];
            let inhibitory = s % 2 == 1;
            let mean = match (t, s) {
                _ if inhibitory => -4.0 * weight,
                (0, 2) => 2.0 * weight,
                _ => weight,
            };
            constant += missing * in_degree * mean * COMPENSATED_HZ[s];
            let count = (in_degree * scale * f64::from(neurons)).round() as u64;
            let delay = if inhibitory { 0.75 } else { 1.5 };
            network.projections.push(Projection::new(
                NAMES[s],
                NAMES[t],
                Rule::FixedTotal {
                    count,
                    distinct: false,
                },
                Draw::Normal {
                    mean: mean * grown,
                    sd: (0.1 * mean * grown).abs(),
                },
                Draw::Normal {
                    mean: delay,
                    sd: delay / 2.0,
                },
            ));
        }
        let mut population = Population::new(NAMES[t], neurons);
        population.neuron = Neuron::Lif(Lif {
            current_pa: constant,
            ..lif
        });
        population.synapse = Synapse::Exponential {
            tau_ms: tau_s,
            tau_inhibitory_ms: None,
            arrival: Default::default(),
        };
        population.poisson = Some(Poisson {
            rate_hz: EXTERNAL[t] * scale * BACKGROUND_HZ,
            weight: weight * grown,
        });
        population.start_mv = Draw::Normal {
            mean: -58.0,
            sd: 10.0,
        };
        network.populations.push(population);
    }
    Ok(network)
}
