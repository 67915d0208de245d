use betz_base::{Error, Result};
use serde::{Deserialize, Serialize};

use betz_spiking::random::{Purpose, Sequence};
use betz_spiking::{Draw, Engine, Lif, Network, Neuron, Options, Population, Synapse};

/// Tuned neurons, as those of the population-temporal experiment (Galbraith 2010, §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UnitsConfig {
    /// Number of recorded neurons.
    pub neurons: u32,
    /// Step of the simulation in ms.
    pub step_ms: f64,
    /// Least and largest rate in Hz at the full speed in the preferred direction.
    pub max_rate_hz: [f64; 2],
    /// Least and largest intent, as a part of full speed, at which firing begins.
    pub intercept: [f64; 2],
    /// Speed in cm/s that counts as full.
    pub full_speed_cm_s: f64,
    /// Neurons recorded together as one unit.
    pub multiunit: u32,
}

impl Default for UnitsConfig {
    /// 150 neurons at 0.25 ms, 20 to 60 Hz, intercepts −0.95 to 0.95 of 25 cm/s, single units.
    fn default() -> Self {
        Self {
            neurons: 150,
            step_ms: 0.25,
            max_rate_hz: [20.0, 60.0],
            intercept: [-0.95, 0.95],
            full_speed_cm_s: 25.0,
            multiunit: 1,
        }
    }
}

/// A population that fires with what the user intends.
///
/// Neurons by themselves ([`Units::tuned`]) or some of a recurrent network ([`Units::embedded`]).
#[derive(Debug)]
pub struct Units {
    engine: Engine,
    population: usize,
    first: u32,
    /// Preferred direction times gain, and bias, in pA.
    tuning: Vec<[f64; 3]>,
    full_speed: f64,
    multiunit: u32,
    currents: Vec<f64>,
    fired: Vec<u32>,
    pub(crate) gains: Vec<f64>,
    pub(crate) lost: Vec<bool>,
    pub(crate) extra_hz: f64,
}

const TAU_MS: f64 = 20.0;
const REFRACTORY_MS: f64 = 2.0;

impl Units {
    /// Unconnected neurons.
    ///
    /// # Errors
    /// `InvalidArgument` for parameters out of range.
    pub fn tuned(config: &UnitsConfig, seed: u64) -> Result<Self> {
        let mut network = Network::new(config.step_ms, seed);
        let mut population = Population::new("tuned", config.neurons);
        // One pA holds one mV, and the threshold is 1 mV: currents in threshold currents.
        population.neuron = Neuron::Lif(Lif {
            tau_m_ms: TAU_MS,
            c_m_pf: TAU_MS,
            rest_mv: 0.0,
            threshold_mv: 1.0,
            reset_mv: 0.0,
            refractory_ms: REFRACTORY_MS,
            current_pa: 0.0,
        });
        population.synapse = Synapse::Delta;
        population.start_mv = Draw::Uniform {
            low: 0.0,
            high: 0.99,
        };
        network.populations.push(population);
        Self::embedded(network, "tuned", config, seed)
    }

    /// The neurons of one population of a network: the intent enters as current, beside what the
    /// network does. Gains are those of the population's own neurons without the network.
    ///
    /// # Errors
    /// As [`Engine::build`]; `InvalidArgument` for a population without potentials, and for tuning
    /// that its neurons cannot have.
    pub fn embedded(
        network: Network,
        population: &str,
        config: &UnitsConfig,
        seed: u64,
    ) -> Result<Self> {
        let index = network.population(population)?;
        let Neuron::Lif(lif) = network.populations[index].neuron else {
            return Err(Error::argument(format!(
                "population {population:?}: expected neurons with a potential, got a source"
            )));
        };
        if config.neurons == 0
            || config.neurons > network.populations[index].neurons
            || config.multiunit == 0
            || !(config.full_speed_cm_s.is_finite() && config.full_speed_cm_s > 0.0)
        {
            return Err(Error::argument(format!(
                "units: expected 1 to {} neurons, a multiunit of at least 1 and a full speed above 0, got {config:?}",
                network.populations[index].neurons
            )));
        }
        let mut chance = Sequence::new(seed, Purpose::Loop, 1);
        let holds = (lif.threshold_mv - lif.rest_mv) * lif.c_m_pf / lif.tau_m_ms;
        let tuning = (0..config.neurons)
            .map(|_| draw(config, lif, holds, &mut chance))
            .collect::<Result<_>>()?;
        let firsts = network.firsts();
        let neurons = network.populations[index].neurons as usize;
        Ok(Self {
            engine: Engine::build(&network, &Options::default(), &())?,
            population: index,
            first: firsts[index] as u32,
            tuning,
            full_speed: config.full_speed_cm_s,
            multiunit: config.multiunit,
            currents: vec![0.0; neurons],
            fired: Vec::new(),
            gains: vec![1.0; config.neurons as usize],
            lost: vec![false; config.neurons as usize],
            extra_hz: 0.0,
        })
    }

    /// Channels that are recorded.
    pub fn len(&self) -> usize {
        self.tuning.len().div_ceil(self.multiunit as usize)
    }

    /// True if nothing is recorded, which is never so.
    pub fn is_empty(&self) -> bool {
        self.tuning.is_empty()
    }

    pub(crate) fn step_ms(&self) -> f64 {
        self.engine.network().step_ms
    }

    /// Simulates `steps` steps under an intent in cm/s; adds the spikes to `counts`.
    pub(crate) fn fire(
        &mut self,
        intent: [f64; 2],
        steps: u64,
        chance: &mut Sequence,
        counts: &mut [u32],
    ) -> Result<()> {
        let x = intent.map(|v| v / self.full_speed);
        for (i, tuning) in self.tuning.iter().enumerate() {
            let along = tuning[0] * x[0] + tuning[1] * x[1];
            self.currents[i] = self.gains[i] * (along + tuning[2]);
        }
        self.engine.set_currents(self.population, &self.currents)?;
        counts.fill(0);
        for _ in 0..steps {
            self.engine.step(&mut self.fired)?;
            for neuron in &self.fired {
                let Some(own) = neuron.checked_sub(self.first) else {
                    continue;
                };
                let own = own as usize;
                if own < self.lost.len() && !self.lost[own] {
                    counts[own / self.multiunit as usize] += 1;
                }
            }
        }
        if self.extra_hz > 0.0 {
            // Spikes from elsewhere: at most one per step and channel.
            let p = (self.extra_hz * self.step_ms() * 1e-3).min(1.0);
            for count in counts.iter_mut() {
                *count += (0..steps).filter(|_| chance.unit() < p).count() as u32;
            }
        }
        Ok(())
    }
}

/// Preferred direction, and gain and bias from rate and intercept.
fn draw(config: &UnitsConfig, lif: Lif, holds: f64, chance: &mut Sequence) -> Result<[f64; 3]> {
    let angle = std::f64::consts::TAU * chance.unit();
    let mut between = |[low, high]: [f64; 2]| low + (high - low) * chance.unit();
    let rate = between(config.max_rate_hz);
    let intercept = between(config.intercept);
    // J = 1 / (1 − e^(−charging/τ)) in threshold currents gives the rate.
    let charging = 1e3 / rate - lif.refractory_ms;
    let current = -1.0 / (-charging / lif.tau_m_ms).exp_m1();
    if !(charging > 0.0 && current.is_finite() && current > 1.0 && intercept < 1.0) {
        return Err(Error::argument(format!(
            "units: expected rates below {} Hz and intercepts below 1, got {rate} Hz and {intercept}",
            1e3 / lif.refractory_ms
        )));
    }
    let gain = (current - 1.0) / (1.0 - intercept);
    Ok([
        gain * angle.cos() * holds,
        gain * angle.sin() * holds,
        (1.0 - gain * intercept) * holds,
    ])
}
