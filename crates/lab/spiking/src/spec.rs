//! Definition of a network: populations, projections and their inputs, in the units of the field.
//!
//! Times are milliseconds, potentials mV, currents pA, capacitances pF, as in NEST. A weight is in
//! the unit of what it adds to: pA for currents, mV for delta synapses.

use std::collections::BTreeMap;

use betz_base::{Error, Result};
use betz_kernels::spiking::{MOST_RULES, PLACE_BITS};
use serde::{Deserialize, Serialize};

pub(crate) use crate::draw::Draw;
pub(crate) use crate::kinds::{Lif, Neuron};
use crate::plasticity::Plasticity;
use crate::tuning::TuningProfile;

/// Most steps that a spike may take to its target.
pub const MAX_DELAY_STEPS: u32 = 255;

/// Most neurons of a network.
pub const MAX_NEURONS: u64 = 1 << 28;

/// Most neurons of a network whose synapses learn on a device: a synapse has 24 bits for its place, one of four receptors.
const MOST_LEARNING_NEURONS: u64 = 1 << (PLACE_BITS - 2);

/// A network, whole: with its seed it is one spike train and no other.
///
/// ```
/// use betz_spiking::{Network, Population, Projection, Rule};
///
/// let mut network = Network::new(0.1, 1);
/// network.populations.push(Population::new("e", 80));
/// network.projections.push(Projection::new("e", "e", Rule::FixedIn { count: 8, distinct: false }, 20.0, 1.5));
/// network.check()?;
/// let text = network.to_json()?;
/// assert_eq!(Network::from_json(&text)?, network);
/// # Ok::<(), betz_spiking::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Length of a step.
    pub step_ms: f64,
    /// All that is drawn follows from it.
    #[serde(default)]
    pub seed: u64,
    /// Neurons; those of the first population are 0…n − 1, those of the next follow.
    pub populations: Vec<Population>,
    /// Synapses.
    #[serde(default)]
    pub projections: Vec<Projection>,
}

/// Neurons of one kind; their parameters may be drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// Its name, for projections and reports.
    pub name: String,
    /// Number of neurons.
    pub neurons: u32,
    /// Kind of the neurons.
    #[serde(default)]
    pub neuron: Neuron,
    /// Effect of arriving spikes on them.
    #[serde(default)]
    pub synapse: Synapse,
    /// Poisson input, for each neuron its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poisson: Option<Poisson>,
    /// Channel that Poisson input opens. Only conductance synapses with several channels need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poisson_receptor: Option<String>,
    /// Constant currents into some of its neurons, beside `current_pa` of all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stimuli: Vec<Stimulus>,
    /// Currents by a movement that the network follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningProfile>,
    /// Membrane potentials at the start in mV.
    #[serde(default = "rest")]
    pub start_mv: Draw,
    /// Steps at the start in which nothing is integrated.
    #[serde(default)]
    pub start_silent_steps: u32,
}

/// The microcircuit's rest, from which every model starts unless told otherwise.
fn rest() -> Draw {
    Draw::Constant(Lif::default().rest_mv)
}

/// Effect of a spike on its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Synapse {
    /// The potential jumps by the weight in mV; what arrives while refractory is lost.
    Delta,
    /// I(t) = w e^(−t/τ).
    Exponential {
        /// τ.
        tau_ms: f64,
        /// τ of negative weights, where it is another.
        #[serde(default)]
        tau_inhibitory_ms: Option<f64>,
        /// The moment from which an arrival counts.
        #[serde(default)]
        arrival: Arrival,
    },
    /// I(t) = w (t/τ) e^(1 − t/τ).
    Alpha {
        /// τ.
        tau_ms: f64,
        /// τ of negative weights, where it is another.
        #[serde(default)]
        tau_inhibitory_ms: Option<f64>,
        /// The moment from which an arrival counts.
        #[serde(default)]
        arrival: Arrival,
    },
    /// The filter of Galbraith 2010 (§2.2.5, §4.1): h_j ∝ (jΔ)^n e^(−jΔ/τ), of sum 1, current held
    /// over a step.
    Psc {
        /// n, 0 to 3.
        order: u32,
        /// τ.
        tau_ms: f64,
        /// Ends after ⌈5τ/Δ⌉ values, as published; otherwise it never ends.
        #[serde(default)]
        truncated: bool,
    },
    /// I(t) = g(t) gate(V) (E − V), weights in nS: channels by name, `ampa`, `nmda` (with its block by magnesium),
    /// `gaba_a` and `gaba_b`. A projection names the one that it opens.
    Conductance {
        /// Channels and what differs from their usual constants.
        channels: BTreeMap<String, Channel>,
        /// The moment from which an arrival counts.
        #[serde(default)]
        arrival: Arrival,
    },
}

/// A channel's constants; those that are not given are the usual ones of its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Time constant of the rise; 0: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tau_rise_ms: Option<f64>,
    /// Time constant of the decay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tau_decay_ms: Option<f64>,
    /// Reversal potential E.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversal_mv: Option<f64>,
    /// Concentration of magnesium in mM; `nmda` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub magnesium_mm: Option<f64>,
}

impl Default for Synapse {
    fn default() -> Self {
        Self::Exponential {
            tau_ms: 0.5,
            tau_inhibitory_ms: None,
            arrival: Arrival::End,
        }
    }
}

/// Time at which an arriving spike acts on the potential: in the step of its arrival, or in the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// It arrives at the step's end: first felt in the next step (NEST).
    #[default]
    End,
    /// It arrives at the step's beginning (Brian2 with one step less of delay).
    Beginning,
}

/// Independent Poisson spike trains, one per neuron, that arrive in the step they are drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poisson {
    /// Spikes per second that each neuron gets.
    pub rate_hz: f64,
    /// Weight of each.
    pub weight: f64,
}

/// A constant current into some neurons of a population.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stimulus {
    /// First neuron, counted within the population.
    pub first: u32,
    /// Number of neurons.
    pub count: u32,
    /// The current.
    pub current_pa: f64,
}

/// Synapses from one population to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Projection {
    /// Name of the sending population.
    pub source: String,
    /// Name of the receiving population.
    pub target: String,
    /// Rule of connectivity: which neurons are connected.
    pub rule: Rule,
    /// Weights; their sign chooses between two synaptic time constants.
    pub weight: Draw,
    /// Delays in ms: whole steps, 1 to 255.
    pub delay_ms: Draw,
    /// True if a neuron may be connected with itself, if the populations are one.
    #[serde(default = "yes")]
    pub autapses: bool,
    /// Channel of the target that spikes open. Only conductance synapses with several channels need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receptor: Option<String>,
    /// Rule by which weights learn from spikes; without it they are static.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plasticity: Option<Plasticity>,
}

fn yes() -> bool {
    true
}

/// Rule of connectivity: which neurons are connected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// Neuron i with i + 1, the last with the first.
    Ring,
    /// Every neuron with every neuron.
    All,
    /// Neuron i with i.
    OneToOne,
    /// A number of synapses in all, their ends uniform.
    FixedTotal {
        /// Number of synapses.
        count: u64,
        /// No pair twice.
        #[serde(default)]
        distinct: bool,
    },
    /// A number of synapses onto each target, their sources uniform.
    FixedIn {
        /// Number of synapses.
        count: u32,
        /// No source twice.
        #[serde(default)]
        distinct: bool,
    },
    /// A number of synapses from each source, their targets uniform.
    FixedOut {
        /// Number of synapses.
        count: u32,
        /// No target twice.
        #[serde(default)]
        distinct: bool,
    },
    /// Each pair with this probability.
    Pairwise {
        /// The probability.
        probability: f64,
    },
    /// Listed synapses, as read from a file; `weight` and `delay_ms` of the projection do not count.
    List {
        /// Each of them.
        synapses: Vec<ListedSynapse>,
    },
}

/// One synapse of a list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedSynapse {
    /// Neuron of the sending population.
    pub source: u32,
    /// Neuron of the receiving population.
    pub target: u32,
    /// Weight.
    pub weight: f32,
    /// Delay in steps, 1 to 255.
    pub delay_steps: u32,
}

impl Network {
    /// No neurons yet.
    pub fn new(step_ms: f64, seed: u64) -> Self {
        Self {
            step_ms,
            seed,
            populations: Vec::new(),
            projections: Vec::new(),
        }
    }

    /// Rules of the projections that learn, in their order.
    pub(crate) fn rules(&self) -> Vec<Plasticity> {
        self.projections
            .iter()
            .filter_map(|p| p.plasticity)
            .collect()
    }

    /// Reason why no device runs the network, if there is one.
    pub(crate) fn only_on_cpu(&self) -> Option<&'static str> {
        let (rules, neurons) = (self.rules().len(), self.neurons());
        if rules > 0 && (rules > MOST_RULES || neurons > MOST_LEARNING_NEURONS) {
            return Some(
                "networks of more than 256 projections that learn, or that learn and have more than 4,194,304 neurons, run on the CPU",
            );
        }
        let listed = |p: &Population| matches!(p.neuron, Neuron::Spikes(_));
        (self.populations.iter().any(listed))
            .then_some("spikes at listed times are fired on the CPU")
    }

    /// The step that a time falls into.
    pub(crate) fn step_at(&self, ms: f64) -> u64 {
        (ms / self.step_ms + 1e-6).floor().max(0.0) as u64
    }

    /// True if a population is tuned to a movement.
    pub fn is_tuned(&self) -> bool {
        self.populations.iter().any(|p| p.tuning.is_some())
    }

    /// Neurons in all.
    pub fn neurons(&self) -> u64 {
        self.populations.iter().map(|p| u64::from(p.neurons)).sum()
    }

    /// First neuron of each population, and one past the last of the last.
    pub fn firsts(&self) -> Vec<u64> {
        let mut next = 0;
        let mut firsts = vec![0];
        for population in &self.populations {
            next += u64::from(population.neurons);
            firsts.push(next);
        }
        firsts
    }

    /// The population of that name.
    ///
    /// # Errors
    /// `InvalidArgument` when there is none.
    pub fn population(&self, name: &str) -> Result<usize> {
        let found = self.populations.iter().position(|p| p.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = self.populations.iter().map(|p| p.name.as_str()).collect();
            Error::argument(format!("no population {name:?} among {names:?}"))
        })
    }

    /// Reads a network from JSON, and checks it; files that it names are relative to the working directory.
    ///
    /// # Errors
    /// `InvalidArgument` for text that is no JSON, names no field of a network, or describes a
    /// network that [`Network::check`] refuses.
    pub fn from_json(text: &str) -> Result<Self> {
        Self::load(text, std::path::Path::new(""))
    }

    /// The network as JSON.
    ///
    /// # Errors
    /// `InvalidArgument` when it holds NaN or infinity, which JSON cannot say.
    pub fn to_json(&self) -> Result<String> {
        self.check()?;
        serde_json::to_string_pretty(self)
            .map_err(|e| Error::argument(format!("network description: {e}")))
    }

    /// Whole steps of `ms`.
    ///
    /// # Errors
    /// `InvalidArgument` when it is no whole number of steps, by more than a millionth of one.
    pub fn steps_of(&self, ms: f64) -> Result<u64> {
        let steps = ms / self.step_ms;
        if !(steps.is_finite() && (0.0..9e15).contains(&steps)) {
            return Err(Error::argument(format!(
                "expected a finite time from 0 ms, got {ms} ms"
            )));
        }
        if (steps - steps.round()).abs() > 1e-6 * steps.max(1.0) {
            return Err(Error::argument(format!(
                "expected whole steps of {} ms, got {ms} ms = {steps} steps",
                self.step_ms
            )));
        }
        Ok(steps.round() as u64)
    }
}

impl Population {
    /// Neurons with default constants, at rest, without input.
    pub fn new(name: impl Into<String>, neurons: u32) -> Self {
        Self {
            name: name.into(),
            neurons,
            neuron: Neuron::default(),
            synapse: Synapse::default(),
            poisson: None,
            poisson_receptor: None,
            stimuli: Vec::new(),
            tuning: None,
            start_mv: rest(),
            start_silent_steps: 0,
        }
    }
}

impl Projection {
    /// Synapses by `rule`, self-connections allowed.
    pub fn new(
        source: impl Into<String>,
        target: impl Into<String>,
        rule: Rule,
        weight: impl Into<Draw>,
        delay_ms: impl Into<Draw>,
    ) -> Self {
        Self {
            source: source.into(),
            target: target.into(),
            rule,
            weight: weight.into(),
            delay_ms: delay_ms.into(),
            autapses: true,
            receptor: None,
            plasticity: None,
        }
    }
}
