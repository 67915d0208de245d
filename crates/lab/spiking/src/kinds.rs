//! Kinds of neurons: models that integrate equations, and sources of spikes.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::draw::Draw;
use crate::random::{Normal, Words};
use crate::spec::Network;

/// A kind of neuron. In JSON, `{"NAME": {parameters}}`: `lif`, `izhikevich`, `adex`, `hh`, `qif`, `theta`, `poisson`,
/// `spikes`; or `"source"`. A parameter is a number, a [`Draw`], or a list of one number per neuron.
///
/// ```
/// use betz_spiking::{Draw, Neuron};
///
/// let neuron: Neuron = serde_json::from_str(r#"{"izhikevich": {"a": 0.1, "d": {"low": 2, "high": 8}}}"#)?;
/// let Neuron::Model(model) = &neuron else { panic!() };
/// assert_eq!(model.parameters["d"], Draw::Uniform { low: 2.0, high: 8.0 });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Neuron {
    /// Leaky integrate-and-fire, all neurons alike; with currents as synapses, integrated exactly.
    Lif(Lif),
    /// A model by name, whose parameters may be drawn.
    Model(NeuronModel),
    /// Fires at random at a rate that may be drawn, without memory.
    Poisson(PoissonSource),
    /// Fires at listed times.
    Spikes(SpikeTrains),
    /// Fires when the caller says so ([`Engine::emit`](crate::Engine::emit)), never by itself.
    Source,
}

impl Neuron {
    /// True if it has a potential and takes input; false of sources.
    pub fn has_potential(&self) -> bool {
        matches!(self, Self::Lif(_) | Self::Model(_))
    }
}

/// A model of the list ([`neuron_models`](crate::neuron_models)) with parameters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NeuronModel {
    /// Its name.
    pub name: String,
    /// Parameters that differ from their usual values, with their unit in the name.
    pub parameters: BTreeMap<String, Draw>,
}

impl NeuronModel {
    /// The model of that name with its usual parameters.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            parameters: BTreeMap::new(),
        }
    }

    /// With another value of a parameter, or another distribution.
    #[must_use]
    pub fn with(mut self, parameter: impl Into<String>, value: impl Into<Draw>) -> Self {
        self.parameters.insert(parameter.into(), value.into());
        self
    }
}

/// Neurons that fire at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoissonSource {
    /// Rate of each neuron.
    pub rate_hz: Draw,
}

impl PoissonSource {
    /// A word below which the neuron at a place fires in a step: a spike or none.
    pub(crate) fn chance(
        &self,
        network: &Network,
        words: Words,
        at: [u32; 3],
        normal: &Normal,
    ) -> u32 {
        let word = |again| words.at(at, again)[0];
        let rate = self.rate_hz.of_neuron(at[0], word, normal);
        let chance = -(-rate * network.step_ms * 1e-3).exp_m1();
        (chance * 4_294_967_296.0).round() as u32
    }
}

/// Neurons that fire at listed times: neuron i at those of train i.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpikeTrains {
    /// Times in ms from the network's start, each in the step that it falls into.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trains_ms: Vec<Vec<f64>>,
    /// File that holds them instead, a line `neuron,seconds` for each spike. [`Network::load`](crate::Network::load)
    /// reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<std::path::PathBuf>,
}

impl Default for Neuron {
    fn default() -> Self {
        Self::Lif(Lif::default())
    }
}

/// Leaky integrate-and-fire: τ_m dV/dt = −(V − E_L) + (I + I_e) τ_m / C_m, integrated exactly over a
/// step; at V ≥ V_th a spike, then V_reset for t_ref.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lif {
    /// Membrane time constant τ_m.
    pub tau_m_ms: f64,
    /// Capacitance C_m.
    pub c_m_pf: f64,
    /// Resting potential E_L.
    pub rest_mv: f64,
    /// Threshold V_th.
    pub threshold_mv: f64,
    /// Potential after a spike V_reset.
    pub reset_mv: f64,
    /// Refractory time t_ref: whole steps, 0 allowed.
    pub refractory_ms: f64,
    /// Constant current I_e.
    pub current_pa: f64,
}

impl Default for Lif {
    /// 10 ms, 250 pF, −65 mV, −50 mV, −65 mV, 2 ms, no current: the microcircuit's neuron.
    fn default() -> Self {
        Self {
            tau_m_ms: 10.0,
            c_m_pf: 250.0,
            rest_mv: -65.0,
            threshold_mv: -50.0,
            reset_mv: -65.0,
            refractory_ms: 2.0,
            current_pa: 0.0,
        }
    }
}

/// A kind's name, with parameters or without.
#[derive(Deserialize)]
#[serde(untagged)]
enum KindText {
    Name(String),
    Tagged(BTreeMap<String, serde_json::Value>),
}

/// Reads parameters, none of which is required; the error names the first that cannot be read by itself.
fn parameters_of<T: serde::de::DeserializeOwned>(
    neuron: &str,
    value: serde_json::Value,
) -> Result<T, String> {
    let refused = match serde_json::from_value(value.clone()) {
        Ok(read) => return Ok(read),
        Err(refused) => refused.to_string(),
    };
    let each = value.as_object().into_iter().flatten();
    for (name, value) in each {
        let alone = serde_json::json!({ name: value });
        if let Err(own) = serde_json::from_value::<T>(alone) {
            let own = own.to_string();
            return Err(match own.starts_with("unknown field") {
                true => format!("neuron {neuron:?}: {own}"),
                false => format!("neuron {neuron:?}: {name}: {own}"),
            });
        }
    }
    Err(format!("neuron {neuron:?}: {refused}"))
}

impl<'de> Deserialize<'de> for Neuron {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let (name, value) = match KindText::deserialize(from)? {
            KindText::Name(name) => (name, serde_json::json!({})),
            KindText::Tagged(one) => {
                let count = one.len();
                let mut all = one.into_iter();
                match (all.next(), count) {
                    (Some(one), 1) => one,
                    _ => {
                        return Err(D::Error::custom(format!(
                            "neuron: expected one kind such as {{\"lif\": {{}}}}, got {count}"
                        )));
                    }
                }
            }
        };
        let refuse = |e: serde_json::Error| D::Error::custom(format!("neuron {name:?}: {e}"));
        Ok(match name.as_str() {
            "source" => Self::Source,
            "poisson" => Self::Poisson(serde_json::from_value(value).map_err(refuse)?),
            "spikes" => Self::Spikes(serde_json::from_value(value).map_err(refuse)?),
            _ => {
                let drawn = value
                    .as_object()
                    .is_some_and(|v| v.values().any(|v| v.is_object() || v.is_array()));
                if name == "lif" && !drawn {
                    return (parameters_of(&name, value))
                        .map(Self::Lif)
                        .map_err(D::Error::custom);
                }
                let parameters = parameters_of(&name, value).map_err(D::Error::custom)?;
                Self::Model(NeuronModel { name, parameters })
            }
        })
    }
}

impl Serialize for Neuron {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = match self {
            Self::Source => return to.serialize_str("source"),
            _ => to.serialize_map(Some(1))?,
        };
        match self {
            Self::Lif(lif) => map.serialize_entry("lif", lif)?,
            Self::Model(model) => map.serialize_entry(&model.name, &model.parameters)?,
            Self::Poisson(poisson) => map.serialize_entry("poisson", poisson)?,
            Self::Spikes(trains) => map.serialize_entry("spikes", trains)?,
            Self::Source => {}
        }
        map.end()
    }
}
