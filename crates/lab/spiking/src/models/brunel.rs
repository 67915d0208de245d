use betz_base::Result;

use super::{current_for_potential, scale_neurons};
use crate::spec::{Draw, Lif, Network, Neuron, Poisson, Population, Projection, Rule, Synapse};

/// The sparse network of Brunel (2000) with exponential currents of 0.5 ms: at `scale` 1, 10,000
/// excitatory and 2,500 inhibitory neurons, 1,000 and 250 synapses onto each, delays of 1.5 ms.
///
/// `g` is the strength of inhibition against excitation, `eta` the external rate against that which
/// reaches the threshold on average. `scale` multiplies neurons and in-degrees, and divides weights.
///
/// # Errors
/// None of its own; a scale that leaves no neurons is refused where the network is built.
pub fn brunel(scale: f64, g: f64, eta: f64, seed: u64) -> Result<Network> {
    let lif = Lif {
        tau_m_ms: 20.0,
        c_m_pf: 250.0,
        rest_mv: 0.0,
        threshold_mv: 20.0,
        reset_mv: 0.0,
        refractory_ms: 2.0,
        current_pa: 0.0,
    };
    let tau_s = 0.5;
    let (excitatory, inhibitory) = (
        scale_neurons(10_000.0, scale),
        scale_neurons(2_500.0, scale),
    );
    let (from_e, from_i) = (scale_neurons(1_000.0, scale), scale_neurons(250.0, scale));
    let weight = 0.1 / scale * current_for_potential(lif.c_m_pf, lif.tau_m_ms, tau_s);
    // Rate of all external spikes at which τ_m τ_s w ν / C is the threshold, per ms.
    let threshold_rate = lif.threshold_mv * lif.c_m_pf / (weight * lif.tau_m_ms * tau_s);
    let mut network = Network::new(0.1, seed);
    for (name, neurons) in [("E", excitatory), ("I", inhibitory)] {
        let mut population = Population::new(name, neurons);
        population.neuron = Neuron::Lif(lif);
        population.synapse = Synapse::Exponential {
            tau_ms: tau_s,
            tau_inhibitory_ms: None,
            arrival: Default::default(),
        };
        population.poisson = Some(Poisson {
            rate_hz: eta * threshold_rate * 1e3,
            weight,
        });
        population.start_mv = Draw::Constant(0.0);
        network.populations.push(population);
        for (source, count, weight) in [("E", from_e, weight), ("I", from_i, -g * weight)] {
            network.projections.push(Projection::new(
                source,
                name,
                Rule::FixedIn {
                    count,
                    distinct: false,
                },
                weight,
                1.5,
            ));
        }
    }
    Ok(network)
}
