//! A population whose neurons are integrated step by step: its model, the parameters of each neuron, its receptors.

use betz_base::{Error, Result};

use crate::channels::{self, Gate};
use crate::draw::Draw;
use crate::dynamics::{self, Kind, Model};
use crate::kinds::{Lif, Neuron, NeuronModel};
use crate::random::{Normal, Purpose, Words};
use crate::spec::{Arrival, Network, Population, Synapse};

/// Most receptors of a population.
pub(crate) const MOST_RECEPTORS: usize = 4;

/// A population's model, parameters and receptors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelPopulation {
    pub(crate) kind: Kind,
    pub(crate) model: Model,
    /// Value of each parameter, or how it is drawn. The refractory time is in steps.
    pub(crate) parameters: Vec<Draw>,
    /// The same as the engine takes them; `None` where they are drawn.
    pub(crate) constants: Vec<Option<f32>>,
    /// Place of the refractory time among them.
    pub(crate) refractory: Option<usize>,
    /// Sub-steps of a step, and the length of one in ms.
    pub(crate) parts: u32,
    pub(crate) part_ms: f32,
    pub(crate) receptors: Vec<Receptor>,
    /// Arrivals act in the step they arrive in.
    pub(crate) early: bool,
    /// The potential jumps by what arrives.
    pub(crate) jumps: bool,
    /// Steps in ms.
    step_ms: f64,
}

/// A receptor: traces that decay, and how they act.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Receptor {
    /// Effect of a trace on the potential.
    pub(crate) effect: Effect,
    /// Traces: one, or the decay's and the rise's, whose difference is the conductance; none of jumps.
    pub(crate) traces: usize,
    /// Decay of each trace over half a sub-step, and over a whole one.
    pub(crate) half: [f32; 2],
    pub(crate) whole: [f32; 2],
    /// Factor from an arriving weight to each trace.
    pub(crate) gain: f64,
}

/// Effect of a receptor on the potential.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Effect {
    /// The potential jumps at the step's end.
    Jump,
    /// A current in pA.
    Current,
    /// A conductance in nS.
    Conductance {
        /// E in mV.
        reversal: f32,
        /// Dependence on the potential.
        gate: Gate,
        /// Concentration of magnesium in mM.
        magnesium: f32,
    },
}

impl ModelPopulation {
    /// Of a population that is integrated step by step; `None` for those with propagators ([`crate::neuron`]) and sources.
    ///
    /// # Errors
    /// `InvalidArgument` naming the parameter.
    pub(crate) fn of(network: &Network, population: usize) -> Result<Option<Self>> {
        let of = &network.populations[population];
        let conductance = matches!(of.synapse, Synapse::Conductance { .. });
        let neuron = match &of.neuron {
            Neuron::Model(model) => model.clone(),
            Neuron::Lif(lif) if conductance => by_parameters(*lif),
            _ => return Ok(None),
        };
        let Some((kind, model)) = dynamics::by_name(&neuron.name) else {
            let names: Vec<_> = dynamics::models().map(|m| m.name).collect();
            return Err(Error::argument(format!(
                "neuron: expected a model of {names:?}, \"poisson\", \"spikes\" or \"source\", got {:?}",
                neuron.name
            )));
        };
        let mut parameters = parameters(&model, &neuron, of.neurons)?;
        let refractory = model.refractory.and_then(|name| model.place(name));
        if let Some(place) = refractory {
            parameters[place] = silence(network, parameters[place].clone())?;
        }
        let parts = (network.step_ms / model.longest_ms - 1e-9).ceil().max(1.0);
        if parts > 1e5 {
            return Err(Error::argument(format!(
                "{}: expected steps of at most {} ms, got {} ms",
                model.name,
                model.longest_ms * 1e5,
                network.step_ms
            )));
        }
        let part_ms = network.step_ms / parts;
        let receptors = receptors(of, part_ms)?;
        let in_steps = |(place, draw): (usize, &Draw)| {
            let value = draw.constant()?;
            Some(match Some(place) == refractory {
                true => (value / network.step_ms).round_ties_even() as f32,
                false => value as f32,
            })
        };
        Ok(Some(Self {
            constants: parameters.iter().enumerate().map(in_steps).collect(),
            jumps: receptors.iter().any(|r| r.effect == Effect::Jump),
            kind,
            model,
            parameters,
            refractory,
            parts: parts as u32,
            part_ms: part_ms as f32,
            receptors,
            early: arrives_early(of),
            step_ms: network.step_ms,
        }))
    }

    /// Traces of all receptors.
    pub(crate) fn traces(&self) -> usize {
        self.receptors.iter().map(|r| r.traces).sum()
    }

    /// Numbers of a neuron's state besides its potential: what the potential's sum has lost by rounding, the other states,
    /// the traces.
    pub(crate) fn state(&self) -> usize {
        self.model.states.len() + self.traces()
    }

    /// Parameters that differ between neurons.
    pub(crate) fn drawn(&self) -> usize {
        self.parameters
            .iter()
            .filter(|p| p.constant().is_none())
            .count()
    }

    /// Parameter `place` of neuron `own` of the population.
    pub(crate) fn parameter(
        &self,
        network: &Network,
        population: usize,
        place: usize,
        own: u32,
        normal: &Normal,
    ) -> f32 {
        if let Some(value) = self.constants[place] {
            return value;
        }
        let words = Words::new(network.seed, Purpose::Parameter);
        let at = [own, population as u32, place as u32];
        let value = self.parameters[place].of_neuron(own, |again| words.at(at, again)[0], normal);
        match Some(place) == self.refractory {
            true => (value / self.step_ms).round_ties_even() as f32,
            false => value as f32,
        }
    }
}

fn arrives_early(population: &Population) -> bool {
    match population.synapse {
        Synapse::Exponential { arrival, .. } | Synapse::Conductance { arrival, .. } => {
            arrival == Arrival::Beginning
        }
        _ => false,
    }
}

/// A leaky integrator of constants as a model of the list.
fn by_parameters(lif: Lif) -> NeuronModel {
    NeuronModel::new("lif")
        .with("tau_m_ms", lif.tau_m_ms)
        .with("c_m_pf", lif.c_m_pf)
        .with("rest_mv", lif.rest_mv)
        .with("threshold_mv", lif.threshold_mv)
        .with("reset_mv", lif.reset_mv)
        .with("current_pa", lif.current_pa)
        .with("refractory_ms", lif.refractory_ms)
}

/// Values of a model's parameters, in its order.
fn parameters(model: &Model, neuron: &NeuronModel, neurons: u32) -> Result<Vec<Draw>> {
    for name in neuron.parameters.keys() {
        if model.place(name).is_none() {
            let names: Vec<_> = model.parameters.iter().map(|p| p.name).collect();
            return Err(Error::argument(format!(
                "{}: expected a parameter of {names:?}, got {name:?}",
                model.name
            )));
        }
    }
    let mut values = Vec::new();
    for parameter in model.parameters {
        let draw = (neuron.parameters.get(parameter.name).cloned())
            .unwrap_or(Draw::Constant(parameter.default));
        let place = format!("{}: parameter {}", model.name, parameter.name);
        draw.check_length(neurons).map_err(|e| e.at(&place))?;
        let (low, high) = draw.bounds().map_err(|e| e.at(&place))?;
        if low < parameter.low || high > parameter.high {
            return Err(Error::argument(format!(
                "{place} ({}): expected {} to {}, got {draw}{}",
                parameter.text,
                parameter.low,
                parameter.high,
                other_unit(parameter, low, high)
            )));
        }
        values.push(draw);
    }
    check_volts(model, &values)?;
    check_order(model, &values)?;
    Ok(values)
}

/// A hint where a thousand times as much, or as little, would be in range.
fn other_unit(parameter: &dynamics::Parameter, low: f64, high: f64) -> &'static str {
    let fits = |factor: f64| low * factor >= parameter.low && high * factor <= parameter.high;
    match () {
        () if low > 0.0 && fits(1e3) => {
            " (1,000 times as much fits: check the unit, which the name ends with)"
        }
        () if fits(1e-3) => " (a thousandth fits: check the unit, which the name ends with)",
        () => "",
    }
}

/// Least and largest potential of a parameter, by its name.
type PotentialRange<'a> = (&'a str, (f64, f64));

/// Refuses potentials of a model in volts.
fn check_volts(model: &Model, values: &[Draw]) -> Result<()> {
    let potentials: Vec<PotentialRange<'_>> = (model.parameters.iter().zip(values))
        .filter(|(p, _)| p.name.ends_with("_mv") && !matches!(p.name, "slope_mv" | "shift_mv"))
        .filter_map(|(p, v)| Some((p.name, v.bounds().ok()?)))
        .collect();
    refuse_volts(model.name, &potentials)
}

/// Distance from zero below which a potential that is not 0 seems to be in volts.
const SMALLEST_MV: f64 = 0.5;
/// Distance below zero of another potential that shows that it is.
const USUAL_MV: f64 = 20.0;

/// Largest distance from zero.
fn size((low, high): (f64, f64)) -> f64 {
    low.abs().max(high.abs())
}

/// Refuses potentials at the start that seem to be in volts, of neurons whose constants are not.
pub(crate) fn refuse_start_in_volts(population: &Population) -> Result<()> {
    let lowest = match &population.neuron {
        Neuron::Lif(lif) => lif.rest_mv,
        Neuron::Model(neuron) => match dynamics::by_name(&neuron.name) {
            Some((_, model)) => (model.parameters.iter())
                .filter(|p| p.name.ends_with("_mv"))
                .filter_map(|p| match neuron.parameters.get(p.name) {
                    Some(draw) => draw.bounds().ok().map(|(low, _)| low),
                    None => Some(p.default),
                })
                .fold(0.0, f64::min),
            None => 0.0,
        },
        _ => 0.0,
    };
    let start = population.start_mv.bounds()?;
    if start != (0.0, 0.0) && size(start) < SMALLEST_MV && lowest <= -USUAL_MV {
        return Err(Error::argument(format!(
            "expected potentials in mV beside constants down to {lowest} mV, got {}: they seem to be in volts",
            population.start_mv
        )));
    }
    Ok(())
}

/// Refuses potentials that seem to be in volts, which are within 0.5 mV of zero and not 0: several of them and no other, or
/// one beside others of a usual size, which are negative.
pub(crate) fn refuse_volts(model: &str, potentials: &[PotentialRange<'_>]) -> Result<()> {
    let given: Vec<_> = potentials
        .iter()
        .filter(|(_, ends)| *ends != (0.0, 0.0))
        .collect();
    let small: Vec<_> = (given.iter())
        .filter(|(_, ends)| size(*ends) < SMALLEST_MV)
        .map(|(name, _)| *name)
        .collect();
    if small.len() == given.len() && given.len() > 1 {
        return Err(Error::argument(format!(
            "{model}: expected potentials in mV, got {} all within {SMALLEST_MV} mV of zero: they seem to be in volts",
            small.join(", ")
        )));
    }
    let usual = (given.iter()).find(|(_, (low, _))| *low <= -USUAL_MV);
    if let (Some(name), Some((other, (low, _)))) = (small.first(), usual) {
        return Err(Error::argument(format!(
            "{model}: expected potentials in mV, got {name} within {SMALLEST_MV} mV of zero beside {other} of {low} mV: it seems to be in volts"
        )));
    }
    Ok(())
}

/// Refuses a reset that is not below the threshold or peak: the neuron would fire without end.
fn check_order(model: &Model, values: &[Draw]) -> Result<()> {
    let value = |name: &str| {
        model
            .place(name)
            .map(|place| (name.to_owned(), &values[place]))
    };
    let reset = value("reset_mv").or_else(|| value("c_mv"));
    let top = value("peak_mv").or_else(|| value("threshold_mv"));
    if let (Some((reset, from)), Some((top, to))) = (reset, top) {
        let count = match (from, to) {
            (Draw::Listed(values), _) | (_, Draw::Listed(values)) => values.as_slice().len(),
            _ => 1,
        };
        // Bounds of what is drawn are the same for all neurons, and take long to find.
        let drawn = |draw: &Draw| match draw {
            Draw::Listed(_) => Ok(None),
            draw => draw.bounds().map(Some),
        };
        let (all_from, all_to) = (drawn(from)?, drawn(to)?);
        let of =
            |draw: &Draw, all: Option<(f64, f64)>, own| all.map_or_else(|| draw.bounds_of(own), Ok);
        for own in 0..count {
            if of(from, all_from, own)?.1 >= of(to, all_to, own)?.0 {
                let which = if count > 1 {
                    format!(" of neuron {own}")
                } else {
                    String::new()
                };
                return Err(Error::argument(format!(
                    "{}: expected {reset} below {top}, got {from} and {to}{which}: the neuron would fire without end",
                    model.name
                )));
            }
        }
    }
    Ok(())
}

/// A refractory time as it is drawn, whole steps where it is constant.
fn silence(network: &Network, draw: Draw) -> Result<Draw> {
    if let Some(ms) = draw.constant() {
        network.steps_of(ms).map_err(|e| e.at("refractory_ms"))?;
    }
    if let Draw::Listed(values) = &draw {
        for (own, ms) in values.as_slice().iter().enumerate() {
            (network.steps_of(*ms)).map_err(|e| e.at(format!("refractory_ms of neuron {own}")))?;
        }
    }
    Ok(draw)
}

/// A population's receptors. Conductances follow one another in the order of their channels' names.
fn receptors(population: &Population, part_ms: f64) -> Result<Vec<Receptor>> {
    let decay = |tau: f64, ms: f64| {
        if tau > 0.0 {
            (-ms / tau).exp() as f32
        } else {
            0.0
        }
    };
    let decays = |taus: [f64; 2], ms: f64| taus.map(|tau| decay(tau, ms));
    let current = |tau: f64| Receptor {
        effect: Effect::Current,
        traces: 1,
        half: decays([tau, 0.0], part_ms / 2.0),
        whole: decays([tau, 0.0], part_ms),
        gain: 1.0,
    };
    Ok(match &population.synapse {
        Synapse::Delta => vec![Receptor {
            effect: Effect::Jump,
            traces: 0,
            half: [0.0; 2],
            whole: [0.0; 2],
            gain: 1.0,
        }],
        Synapse::Exponential {
            tau_ms,
            tau_inhibitory_ms,
            ..
        } => match *tau_inhibitory_ms {
            Some(other) if other != *tau_ms => vec![current(*tau_ms), current(other)],
            _ => vec![current(*tau_ms)],
        },
        Synapse::Conductance { channels, .. } => (channels.iter())
            .map(|(name, given)| {
                let (channel, constants) = channel(name, given)?;
                let taus = [constants.tau_decay_ms, constants.tau_rise_ms];
                Ok(Receptor {
                    effect: Effect::Conductance {
                        reversal: constants.reversal_mv as f32,
                        gate: channel.gate,
                        magnesium: constants.magnesium_mm as f32,
                    },
                    traces: 1 + usize::from(constants.tau_rise_ms > 0.0),
                    half: decays(taus, part_ms / 2.0),
                    whole: decays(taus, part_ms),
                    gain: channels::peak(constants.tau_rise_ms, constants.tau_decay_ms),
                })
            })
            .collect::<Result<_>>()?,
        other => {
            return Err(Error::argument(format!(
                "synapse: expected delta, exponential or conductance for neurons that are drawn or no lif, got {other:?}"
            )));
        }
    })
}

/// A channel by name, with its constants checked.
fn channel(
    name: &str,
    given: &crate::spec::Channel,
) -> Result<(&'static channels::Channel, channels::Constants)> {
    let Some(channel) = channels::by_name(name) else {
        let names: Vec<_> = channels::CHANNELS.iter().map(|c| c.name).collect();
        return Err(Error::argument(format!(
            "synapse: expected a channel of {names:?}, got {name:?}"
        )));
    };
    let usual = channel.constants;
    let constants = channels::Constants {
        tau_rise_ms: given.tau_rise_ms.unwrap_or(usual.tau_rise_ms),
        tau_decay_ms: given.tau_decay_ms.unwrap_or(usual.tau_decay_ms),
        reversal_mv: given.reversal_mv.unwrap_or(usual.reversal_mv),
        magnesium_mm: given.magnesium_mm.unwrap_or(usual.magnesium_mm),
    };
    let in_range = |what: &str, value: f64, low: f64, high: f64| {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        Err(Error::argument(format!(
            "channel {name}: expected {what} of {low} to {high}, got {value}"
        )))
    };
    in_range("tau_decay_ms", constants.tau_decay_ms, 0.05, 1e5)?;
    in_range("reversal_mv", constants.reversal_mv, -500.0, 500.0)?;
    in_range("magnesium_mm", constants.magnesium_mm, 0.0, 100.0)?;
    if constants.tau_rise_ms != 0.0 {
        in_range("tau_rise_ms (or 0)", constants.tau_rise_ms, 0.01, 1e5)?;
        if constants.tau_rise_ms >= constants.tau_decay_ms {
            return Err(Error::argument(format!(
                "channel {name}: expected tau_rise_ms below tau_decay_ms, got {} and {}",
                constants.tau_rise_ms, constants.tau_decay_ms
            )));
        }
    }
    if constants.reversal_mv != 0.0 && constants.reversal_mv.abs() < 0.5 {
        return Err(Error::argument(format!(
            "channel {name}: expected reversal_mv in mV, got {}: it seems to be in volts",
            constants.reversal_mv
        )));
    }
    if given.magnesium_mm.is_some() && channel.gate != Gate::Magnesium {
        return Err(Error::argument(format!(
            "channel {name}: magnesium_mm is of nmda only"
        )));
    }
    Ok((channel, constants))
}

/// Number of the receptor that `name` opens, or of the only one there is; `None` where the weight's sign chooses.
///
/// # Errors
/// `InvalidArgument` for a channel that the population does not have, or for none where it has several.
pub(crate) fn receptor_named(population: &Population, name: Option<&str>) -> Result<Option<u8>> {
    let Synapse::Conductance { channels, .. } = &population.synapse else {
        return match name {
            None => Ok(None),
            Some(name) => Err(Error::argument(format!(
                "receptor: population {:?} has no conductance synapses and so no channel {name:?}",
                population.name
            ))),
        };
    };
    let names: Vec<_> = channels.keys().map(String::as_str).collect();
    if names.is_empty() || names.len() > MOST_RECEPTORS {
        return Err(Error::argument(format!(
            "synapse: expected 1 to {MOST_RECEPTORS} channels, got {}",
            names.len()
        )));
    }
    let place = match name {
        None if names.len() == 1 => Some(0),
        None => None,
        Some(name) => names.iter().position(|n| *n == name),
    };
    match place {
        Some(place) => Ok(Some(place as u8)),
        None => Err(Error::argument(format!(
            "receptor: expected a channel of population {:?}, {names:?}, got {}",
            population.name,
            name.map_or("none".to_owned(), |n| format!("{n:?}"))
        ))),
    }
}
