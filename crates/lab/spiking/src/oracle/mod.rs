//! Plain loops to test the engine against; nothing here is fast.
//!
//! [`exact`] repeats the engine's arithmetic (f32, whole units of weight) in the order the definition
//! has it, neuron by neuron, and must give the same spikes bit for bit. [`reference()`] is the model in
//! f64: currents as sums over all past arrivals, each by its closed form.

mod models;

use std::collections::HashMap;

use betz_base::{Error, Result};

use crate::connect::{Edge, Wiring, weight_unit};
use crate::engine::{Spike, start_potential};
use crate::neuron::{Constants, Receptor};
use crate::random::{Normal, Purpose, Words, mix, poisson_thresholds};
use crate::spec::{Arrival, Lif, Network, Neuron, Population, Synapse};

pub use models::{Trajectory, trajectory};

/// Results of an oracle.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// All spikes, by step, then neuron.
    pub spikes: Vec<Spike>,
    /// Hash of the spikes, as the engine's.
    pub hash: u64,
    /// Potential in mV of each neuron after each step: (step, neuron).
    pub potentials: Vec<Vec<f64>>,
}

struct Plain {
    unit: f64,
    rows: Vec<Vec<Edge>>,
    populations: Vec<usize>,
    constants: Vec<Option<Constants>>,
    normal: Normal,
}

fn plain(network: &Network) -> Result<Plain> {
    network.check()?;
    let exact = |p: &Population| {
        matches!(p.neuron, Neuron::Lif(_) | Neuron::Source)
            && !matches!(p.synapse, Synapse::Conductance { .. })
    };
    let learns = !network.rules().is_empty();
    if learns || network.only_on_cpu().is_some() || !network.populations.iter().all(exact) {
        return Err(Error::argument(
            "oracle: expected lif neurons with currents and synapses that do not learn",
        ));
    }
    let unit = weight_unit(network)?;
    let normal = Normal::new();
    let mut rows = vec![Vec::new(); network.neurons() as usize];
    for p in 0..network.projections.len() {
        let wiring = Wiring::new(network, p, unit)?;
        for source in 0..wiring.sources {
            let row = &mut rows[(wiring.source_first + source) as usize];
            wiring.row(source, &normal, row);
        }
    }
    let populations = network.populations.iter().enumerate();
    Ok(Plain {
        unit,
        rows,
        populations: populations
            .flat_map(|(p, of)| std::iter::repeat_n(p, of.neurons as usize))
            .collect(),
        constants: (0..network.populations.len())
            .map(|p| Constants::of(network, p))
            .collect::<Result<_>>()?,
        normal,
    })
}

/// Units that the Poisson input of a neuron adds in a step, and the receptor they go to.
fn poisson(network: &Network, plain: &Plain, neuron: usize, step: u64) -> Option<(usize, i64)> {
    let population = plain.populations[neuron];
    let poisson = network.populations[population].poisson?;
    let quad = step / 4;
    let place = [quad as u32, (quad >> 32) as u32, neuron as u32];
    let word = Words::new(network.seed, Purpose::Poisson).at(place, 0)[(step % 4) as usize];
    let expected = poisson.rate_hz * network.step_ms * 1e-3;
    let count = poisson_thresholds(expected)
        .iter()
        .filter(|t| **t <= word)
        .count();
    let weight = (poisson.weight / plain.unit).round_ties_even() as i64;
    let receptors = plain.constants[population].as_ref()?.receptors.len();
    Some((
        usize::from(receptors > 1 && weight < 0),
        count as i64 * weight,
    ))
}

fn stimulus(network: &Network, plain: &Plain, neuron: usize) -> f64 {
    let population = plain.populations[neuron];
    let own = neuron as u64 - network.firsts()[population];
    (network.populations[population].stimuli.iter())
        .filter(|s| (u64::from(s.first)..u64::from(s.first + s.count)).contains(&own))
        .map(|s| s.current_pa)
        .sum()
}

fn outcome(spikes: Vec<Spike>, potentials: Vec<Vec<f64>>) -> Outcome {
    let hash = spikes.iter().fold(0u64, |sum, s| {
        sum.wrapping_add(mix(s.step << 32 | u64::from(s.neuron)))
    });
    Outcome {
        spikes,
        hash,
        potentials,
    }
}

fn tiny(x: f32) -> f32 {
    if x.abs() < 1e-30 { 0.0 } else { x }
}

/// One step of a receptor's chain `m`, which `arrived` units enter.
fn advance_chain(m: &mut [f32], receptor: &Receptor, unit: f64, arrived: f32) {
    let gain = (receptor.gain * unit) as f32;
    let p = receptor.decay;
    let old = m.to_vec();
    for k in (0..m.len()).rev() {
        m[k] = tiny(match k {
            0 => old[0].mul_add(p, arrived * gain),
            1 => p * (old[1] + old[0]),
            2 => p * (old[2] + old[1].mul_add(2.0, old[0])),
            _ => p * (old[3] + (old[2] + old[1]).mul_add(3.0, old[0])),
        });
    }
}

/// The potential after a step with `current` and the input of `chains`.
fn driven(c: &Constants, v: f32, current: f32, chains: &[Vec<f32>]) -> f32 {
    let mut next = v.mul_add(c.leak, c.constant) + current;
    for (m, receptor) in chains.iter().zip(&c.receptors) {
        for (m, onto) in m.iter().zip(&receptor.onto) {
            if *onto != 0.0 {
                next = m.mul_add(*onto, next);
            }
        }
    }
    next
}

/// Adds the synapses of neurons that fired in `step` to the input by (receptor, step of arrival).
fn deliver(plain: &Plain, fired: &[u32], step: u64, input: &mut [HashMap<(usize, u64), i64>]) {
    for edge in fired
        .iter()
        .flat_map(|&neuron| &plain.rows[neuron as usize])
    {
        let place = (usize::from(edge.receptor), step + u64::from(edge.delay));
        *input[edge.target as usize].entry(place).or_default() += i64::from(edge.weight);
    }
}

/// The engine's arithmetic, neuron by neuron; takes step times neurons of memory.
///
/// # Errors
/// As [`Network::check`].
pub fn exact(network: &Network, steps: u64) -> Result<Outcome> {
    let plain = plain(network)?;
    let n = plain.rows.len();
    let population = |i: usize| &network.populations[plain.populations[i]];
    let firsts = network.firsts();
    let rest = |i: usize| match population(i).neuron {
        Neuron::Lif(lif) => lif.rest_mv,
        _ => Lif::default().rest_mv,
    };
    let start = |i: usize| {
        let own = i as u64 - firsts[plain.populations[i]];
        let numbers = [i as u32, own as u32];
        start_potential(network, &population(i).start_mv, numbers, &plain.normal) - rest(i)
    };
    let mut v: Vec<f32> = (0..n).map(|i| start(i) as f32).collect();
    let mut silent: Vec<u32> = (0..n).map(|i| population(i).start_silent_steps).collect();
    // Chains by (receptor, k), and input by (receptor, step of arrival).
    let rooms = |c: &Constants| {
        c.receptors
            .iter()
            .map(|r| vec![0.0; r.onto.len()])
            .collect()
    };
    let mut chains: Vec<Vec<Vec<f32>>> = (0..n)
        .map(|i| (plain.constants[plain.populations[i]].as_ref()).map_or_else(Vec::new, rooms))
        .collect();
    let mut input: Vec<HashMap<(usize, u64), i64>> = vec![HashMap::new(); n];
    let (mut spikes, mut potentials) = (Vec::new(), Vec::new());
    for step in 0..steps {
        let mut fired = Vec::new();
        for i in 0..n {
            let population = plain.populations[i];
            let Some(c) = &plain.constants[population] else {
                continue;
            };
            if let Some((receptor, units)) = poisson(network, &plain, i, step) {
                *input[i].entry((receptor, step)).or_default() += units;
            }
            let filter = network.filter_length(population)?;
            let arrived = |r: usize, t: u64| input[i].get(&(r, t)).copied().unwrap_or(0) as f32;
            let advance = |chain: &mut [Vec<f32>]| {
                let ended = |r: usize| step.checked_sub(filter).map_or(0.0, |t| arrived(r, t));
                for (r, (m, receptor)) in chain.iter_mut().zip(&c.receptors).enumerate() {
                    advance_chain(m, receptor, plain.unit, arrived(r, step));
                    if filter > 0 {
                        for (m, tail) in m.iter_mut().zip(&receptor.tail) {
                            *m = ended(r).mul_add((tail * plain.unit) as f32, *m);
                        }
                    }
                }
            };
            if c.early {
                advance(&mut chains[i]);
            }
            let current = stimulus(network, &plain, i) as f32 * c.current;
            let mut next = driven(c, v[i], current, &chains[i]);
            if c.delta {
                let gain = (c.receptors[0].gain * plain.unit) as f32;
                next += arrived(0, step) * gain;
            }
            if silent[i] > 0 {
                silent[i] -= 1;
            } else {
                v[i] = tiny(next);
                if v[i] >= c.threshold {
                    v[i] = c.reset;
                    silent[i] = c.refractory as u32;
                    fired.push(i as u32);
                }
            }
            if !c.early && !c.delta {
                advance(&mut chains[i]);
            }
        }
        deliver(&plain, &fired, step, &mut input);
        spikes.extend(fired.into_iter().map(|neuron| Spike { step, neuron }));
        let mv = |i: usize| f64::from(v[i]) + rest(i);
        potentials.push((0..n).map(mv).collect());
    }
    Ok(outcome(spikes, potentials))
}

/// The model in f64: at each step, every neuron's currents are summed over all arrivals so far.
///
/// Time grows with the square of the steps.
///
/// # Errors
/// As [`Network::check`].
pub fn reference(network: &Network, steps: u64) -> Result<Outcome> {
    let plain = plain(network)?;
    let n = plain.rows.len();
    let h = network.step_ms;
    let firsts = network.firsts();
    let start = |i: usize| {
        let p = plain.populations[i];
        let numbers = [i as u32, (i as u64 - firsts[p]) as u32];
        start_potential(
            network,
            &network.populations[p].start_mv,
            numbers,
            &plain.normal,
        )
    };
    let mut v: Vec<f64> = (0..n).map(start).collect();
    let mut silent: Vec<u64> = (0..n)
        .map(|i| u64::from(network.populations[plain.populations[i]].start_silent_steps))
        .collect();
    // (step of arrival, weight) of each neuron.
    let mut arrivals: Vec<Vec<(u64, f64)>> = vec![Vec::new(); n];
    let (mut spikes, mut potentials) = (Vec::new(), Vec::new());
    for step in 0..steps {
        let mut fired = Vec::new();
        for i in 0..n {
            let of = &network.populations[plain.populations[i]];
            let Neuron::Lif(lif) = of.neuron else {
                continue;
            };
            if let Some((_, units)) = poisson(network, &plain, i, step)
                && units != 0
            {
                arrivals[i].push((step, units as f64 * plain.unit));
            }
            if silent[i] > 0 {
                silent[i] -= 1;
                continue;
            }
            let leak = (-h / lif.tau_m_ms).exp();
            let held = lif.tau_m_ms / lif.c_m_pf * (1.0 - leak);
            let constant = lif.current_pa + stimulus(network, &plain, i);
            let mut next = lif.rest_mv + (v[i] - lif.rest_mv) * leak + constant * held;
            for &(arrival, weight) in &arrivals[i] {
                next += weight * felt(network, &of.synapse, lif, (step, arrival), weight < 0.0);
            }
            v[i] = next;
            if v[i] >= lif.threshold_mv {
                v[i] = lif.reset_mv;
                silent[i] = network.steps_of(lif.refractory_ms)?;
                fired.push(i as u32);
            }
        }
        for &neuron in &fired {
            spikes.push(Spike { step, neuron });
            for edge in &plain.rows[neuron as usize] {
                let weight = f64::from(edge.weight) * plain.unit;
                arrivals[edge.target as usize].push((step + u64::from(edge.delay), weight));
            }
        }
        potentials.push(v.clone());
    }
    Ok(outcome(spikes, potentials))
}

/// Addition to V over `step` of a unit weight that arrives at `arrival`.
fn felt(
    network: &Network,
    synapse: &Synapse,
    lif: crate::spec::Lif,
    (step, arrival): (u64, u64),
    inhibitory: bool,
) -> f64 {
    let h = network.step_ms;
    let of_sign = |tau: f64, other: Option<f64>| match other {
        Some(other) if inhibitory => other,
        _ => tau,
    };
    // The current over the step as a function of time in it, and its age when the step begins.
    let integral = |current: &dyn Fn(f64) -> f64, begin: f64| {
        // Composite Simpson's rule: the integrand is smooth within a step.
        let parts = 64;
        let at = |k: usize| {
            let s = h * k as f64 / parts as f64;
            (-(h - s) / lif.tau_m_ms).exp() * current(begin + s)
        };
        let inner: f64 = (1..parts)
            .map(|k| at(k) * if k % 2 == 1 { 4.0 } else { 2.0 })
            .sum();
        (at(0) + inner + at(parts)) * h / parts as f64 / 3.0 / lif.c_m_pf
    };
    let age = |when: Arrival| match when {
        Arrival::Beginning => step.checked_sub(arrival),
        Arrival::End => step.checked_sub(arrival + 1),
    };
    match *synapse {
        Synapse::Conductance { .. } => f64::NAN,
        Synapse::Delta => f64::from(u8::from(step == arrival)),
        Synapse::Exponential {
            tau_ms,
            tau_inhibitory_ms,
            arrival,
        } => age(arrival).map_or(0.0, |a| {
            let tau = of_sign(tau_ms, tau_inhibitory_ms);
            integral(&|t| (-t / tau).exp(), a as f64 * h)
        }),
        Synapse::Alpha {
            tau_ms,
            tau_inhibitory_ms,
            arrival,
        } => age(arrival).map_or(0.0, |a| {
            let tau = of_sign(tau_ms, tau_inhibitory_ms);
            let alpha = |t: f64| t / tau * (1.0 - t / tau).exp();
            integral(&alpha, a as f64 * h)
        }),
        Synapse::Psc {
            order,
            tau_ms,
            truncated,
        } => {
            let Some(j) = step.checked_sub(arrival) else {
                return 0.0;
            };
            let length = if truncated {
                (5.0 * tau_ms / h - 1e-9).ceil() as u64
            } else {
                (60.0 * tau_ms / h) as u64
            };
            if j >= length {
                return 0.0;
            }
            let value =
                |j: u64| (j as f64 * h).powi(order as i32) * (-(j as f64) * h / tau_ms).exp();
            let sum: f64 = (0..length).map(value).sum();
            let held = lif.tau_m_ms / lif.c_m_pf * (1.0 - (-h / lif.tau_m_ms).exp());
            value(j) / sum * held
        }
    }
}
