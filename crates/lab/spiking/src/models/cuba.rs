use betz_base::Result;

use super::scale_neurons;
use crate::spec::{Arrival, Draw, Lif, Network, Neuron, Population, Projection, Rule, Synapse};

/// The self-sustained network of Vogels and Abbott (2005) with currents, as benchmark 2 of Brette et
/// al. (2007): at `scale` 1, 4,000 neurons, one in five inhibitory, pairs connected with
/// probability 0.02 (divided by `scale`), steps of 0.1 ms.
///
/// Currents are in mV of the potential they would hold (τ_m / C_m = 1). A spike acts in the step
/// after it, as in Brian2 without a delay.
///
/// # Errors
/// None of its own; a scale that leaves no neurons or a probability above 1 is refused where the
/// network is built.
pub fn cuba(scale: f64, seed: u64) -> Result<Network> {
    let mut network = Network::new(0.1, seed);
    for (name, neurons) in [("E", 3200.0), ("I", 800.0)] {
        let mut population = Population::new(name, scale_neurons(neurons, scale));
        population.neuron = Neuron::Lif(Lif {
            tau_m_ms: 20.0,
            c_m_pf: 20.0,
            rest_mv: -49.0,
            threshold_mv: -50.0,
            reset_mv: -60.0,
            refractory_ms: 5.0,
            current_pa: 0.0,
        });
        population.synapse = Synapse::Exponential {
            tau_ms: 5.0,
            tau_inhibitory_ms: Some(10.0),
            arrival: Arrival::Beginning,
        };
        population.start_mv = Draw::Uniform {
            low: -60.0,
            high: -50.0,
        };
        network.populations.push(population);
        for (source, weight) in [("E", 60.0 * 0.27 / 10.0), ("I", -20.0 * 4.5 / 10.0)] {
            network.projections.push(Projection::new(
                source,
                name,
                Rule::Pairwise {
                    probability: 0.02 / scale,
                },
                weight,
                0.1,
            ));
        }
    }
    Ok(network)
}
