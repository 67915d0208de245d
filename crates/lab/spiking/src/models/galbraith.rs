//! The overdriven networks of Galbraith 2010, chapter 4: every spike that a neuron gets fires it,
//! unless it is refractory.
//!
//! Steps of 0.25 ms, refractory 2 ms = 8 steps, a constant stimulus into the first neuron, nothing at
//! step 0, no delay but that of the step, PSCs of order 0 (the paper's GPU) or 1 (its MPI version),
//! ended after ⌈5τ/Δ⌉ values. The paper does not give τ_RC, R, V_th and τ_psc; here they are 20 ms,
//! 4,000, 1 and 2.5 ms (50 values, the least it names), with its weight of 5 and its stimulus of
//! 1,000: one spike then crosses the threshold for both orders. Counts do not depend on them.
//!
//! Where the published code and text differ, this follows the text: refractory time is counted in
//! steps (the code's f32 clock drifts after 32 s), and a PSC ends (an early return in the appendix
//! leaves its last value for ever).

use betz_base::Result;

use crate::spec::{
    Draw, Lif, ListedSynapse, Network, Neuron, Population, Projection, Rule, Stimulus, Synapse,
};

/// Length of a step.
pub const STEP_MS: f64 = 0.25;
/// Steps of the paper's 10 s.
pub const STEPS: u64 = 40_000;
/// The listing's weight.
const WEIGHT: f64 = 5.0;
/// The listing's stimulus.
const STIMULUS: f64 = 1000.0;

/// Ring: neuron i to i + 1, as many synapses as neurons.
///
/// # Errors
/// As [`Network::check`].
pub fn ring(neurons: u32, order: u32) -> Result<Network> {
    with(neurons, order, 0, Rule::Ring)
}

/// Every neuron to every neuron, itself included.
///
/// # Errors
/// As [`Network::check`].
pub fn full(neurons: u32, order: u32) -> Result<Network> {
    with(neurons, order, 0, Rule::All)
}

/// `synapses` distinct pairs, self-connections among them.
///
/// # Errors
/// As [`Network::check`].
pub fn random(neurons: u32, synapses: u64, order: u32, seed: u64) -> Result<Network> {
    let rule = Rule::FixedTotal {
        count: synapses,
        distinct: true,
    };
    with(neurons, order, seed, rule)
}

/// The synapses of a file, in the file's weights.
///
/// # Errors
/// As [`Network::check`].
pub fn listed(neurons: u32, synapses: Vec<ListedSynapse>, order: u32) -> Result<Network> {
    with(neurons, order, 0, Rule::List { synapses })
}

/// Takes the ends from a network's PSCs: none is cut after 5τ any more.
pub fn endless(network: &mut Network) {
    for population in &mut network.populations {
        if let Synapse::Psc { truncated, .. } = &mut population.synapse {
            *truncated = false;
        }
    }
}

fn with(neurons: u32, order: u32, seed: u64, rule: Rule) -> Result<Network> {
    let (tau_ms, resistance) = (20.0, 4000.0);
    let mut population = Population::new("neurons", neurons);
    population.neuron = Neuron::Lif(Lif {
        tau_m_ms: tau_ms,
        c_m_pf: tau_ms / resistance,
        rest_mv: 0.0,
        // The paper fires above the threshold, not at it.
        threshold_mv: f64::from(1.0f32.next_up()),
        reset_mv: 0.0,
        refractory_ms: 2.0,
        current_pa: 0.0,
    });
    population.synapse = Synapse::Psc {
        order,
        tau_ms: 2.5,
        truncated: true,
    };
    population.stimuli = vec![Stimulus {
        first: 0,
        count: neurons.min(1),
        current_pa: STIMULUS,
    }];
    population.start_mv = Draw::Constant(0.0);
    population.start_silent_steps = 1;
    let mut network = Network::new(STEP_MS, seed);
    network.populations.push(population);
    network
        .projections
        .push(Projection::new("neurons", "neurons", rule, WEIGHT, STEP_MS));
    network.check()?;
    Ok(network)
}

/// Spikes of neuron `k` (from 1) of a ring over `steps` steps: it fires first at step
/// k + (k − 1)·order, then at every ninth. The stimulated neuron paces its successors; the ring's own
/// return to it changes nothing.
pub fn ring_count(k: u64, order: u64, steps: u64) -> u64 {
    let first = k + (k - 1) * order;
    match steps.checked_sub(first + 1) {
        Some(left) => left / 9 + 1,
        None => 0,
    }
}

/// Spikes of a whole ring of `neurons`.
pub fn ring_total(neurons: u64, order: u64, steps: u64) -> u64 {
    (1..=neurons).map(|k| ring_count(k, order, steps)).sum()
}
