//! A simulated network behind a page: its description, and the requests of pages to it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use betz_base::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use betz_base::lock::lock;

/// Description of a simulated network.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// Populations. The first has neurons 0…n − 1; the next continues from there.
    pub populations: Vec<SimulatedPopulation>,
    /// Number of synapses.
    pub synapses: u64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Name by which the network is requested.
    pub name: String,
    /// Share of the model's neurons that is simulated.
    pub scale: f64,
    /// Distance between shown neurons: channel c of the page is neuron c · `every`. Above 1 for large networks.
    pub every: u32,
    /// True if pages may ask for another network in its place.
    pub replaceable: bool,
}

/// A group of neurons of the same type.
#[derive(Debug, Clone)]
pub struct SimulatedPopulation {
    /// Name of the population.
    pub name: String,
    /// Number of neurons.
    pub neurons: u32,
    /// True if a current can be injected into its neurons.
    pub takes_current: bool,
    /// Mean number of synapses onto a neuron, and from a neuron.
    pub degrees: [f64; 2],
    /// Parameters as texts to show: name, and value with its unit.
    pub parameters: Vec<(String, String)>,
}

/// Histogram of the weights of a projection whose synapses learn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WeightHistogram {
    /// Names of the populations that it connects.
    pub name: String,
    /// Lower bound of the weights.
    pub low: f64,
    /// Upper bound of the weights.
    pub high: f64,
    /// Synapses in each of the equal bins from `low` to `high`.
    pub bins: Vec<u64>,
}

/// A page's request to a simulation.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
    /// Inject a constant current into some neurons of a population; it replaces the last one.
    Stimulate {
        /// Number of the population.
        population: usize,
        /// First neuron, counted within the population.
        first: u32,
        /// Number of neurons.
        count: u32,
        /// Current in pA.
        current_pa: f64,
    },
    /// Pause (true) or resume (false).
    Pause(bool),
    /// Simulate another network in place of this one.
    Network {
        /// Name of the network. It is never a path, so that viewers cannot read files.
        name: String,
        /// Share of the model's neurons to simulate.
        scale: f64,
        /// Seed of the random numbers.
        seed: u64,
    },
}

/// Largest current that a page may ask for, in pA.
const MOST_CURRENT_PA: f64 = 1e6;

/// Longest name of a network, in bytes.
const LONGEST_NAME: usize = 100;

/// A simulation, and the channel for requests to it.
pub(crate) struct SimulationHandle {
    told: Simulation,
    wishes: Mutex<Sender<Wish>>,
    /// Weights of synapses that learn, as they were last told.
    weights: Mutex<Vec<WeightHistogram>>,
    /// State last requested; every page shows it.
    paused: AtomicBool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stimulus {
    population: usize,
    first: u32,
    count: u32,
    current_pa: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Another {
    name: String,
    scale: f64,
    seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pause {
    paused: bool,
}

/// A page's request to steer a simulation, as read from JSON.
pub(crate) enum SteerRequest {
    Pause(Pause),
    Network(Another),
    Stimulus(Stimulus),
}

impl SteerRequest {
    /// # Errors
    /// An error of `serde_json` if the body does not fit the request.
    pub(crate) fn read(what: &str, body: &[u8]) -> serde_json::Result<Self> {
        match what {
            "pause" => serde_json::from_slice(body).map(Self::Pause),
            "network" => serde_json::from_slice(body).map(Self::Network),
            _ => serde_json::from_slice(body).map(Self::Stimulus),
        }
    }
}

impl SimulationHandle {
    pub(crate) fn new(told: Simulation, wishes: Sender<Wish>) -> Self {
        Self {
            told,
            wishes: Mutex::new(wishes),
            weights: Mutex::new(Vec::new()),
            paused: AtomicBool::new(false),
        }
    }

    /// Shows these weights in place of those before.
    pub(crate) fn set_weights(&self, weights: Vec<WeightHistogram>) {
        *lock(&self.weights) = weights;
    }

    pub(crate) fn json(&self) -> Value {
        let populations = self.told.populations.iter();
        let populations: Vec<Value> = populations
            .map(|p| {
                json!({"name": p.name, "neurons": p.neurons, "takes_current": p.takes_current, "degrees": p.degrees, "parameters": p.parameters})
            })
            .collect();
        json!({
            "populations": populations,
            "synapses": self.told.synapses,
            "seed": self.told.seed,
            "name": self.told.name,
            "scale": self.told.scale,
            "every": self.told.every,
            "replaceable": self.told.replaceable,
            "weights": *lock(&self.weights),
            "paused": self.paused.load(Ordering::Relaxed),
        })
    }

    /// True if simulations accept requests of this name.
    pub(crate) fn hears(what: &str) -> bool {
        matches!(what, "stimulus" | "pause" | "network")
    }

    /// Passes a request on and returns the event that reports it.
    pub(crate) fn act(&self, asked: SteerRequest) -> Result<Value> {
        let (wish, event) = match asked {
            SteerRequest::Pause(Pause { paused }) => {
                let event = json!({"what": if paused { "pause" } else { "go on" }});
                (Wish::Pause(paused), event)
            }
            SteerRequest::Network(_) if !self.told.replaceable => {
                return Err(Error::argument(format!(
                    "network: expected a simulation that can be replaced, got {:?}, which cannot",
                    self.told.name
                )));
            }
            SteerRequest::Network(Another { name, scale, seed }) => {
                if name.is_empty() || name.len() > LONGEST_NAME || !(scale > 0.0 && scale <= 1.0) {
                    return Err(Error::argument(format!(
                        "network: expected a name of up to {LONGEST_NAME} bytes and a scale above 0 and up to 1, got {name:.LONGEST_NAME$?} and {scale}"
                    )));
                }
                let event = json!({"what": "network", "name": name, "scale": scale, "seed": seed});
                (Wish::Network { name, scale, seed }, event)
            }
            SteerRequest::Stimulus(asked) => {
                let name = self.check(&asked)?;
                let wish = Wish::Stimulate {
                    population: asked.population,
                    first: asked.first,
                    count: asked.count,
                    current_pa: asked.current_pa,
                };
                let event = json!({
                    "what": "stimulus", "population": name, "first": asked.first,
                    "count": asked.count, "current_pa": asked.current_pa,
                });
                (wish, event)
            }
        };
        let pause = match wish {
            Wish::Pause(paused) => Some(paused),
            _ => None,
        };
        lock(&self.wishes)
            .send(wish)
            .map_err(|_| Error::argument("the simulation has ended"))?;
        if let Some(paused) = pause {
            self.paused.store(paused, Ordering::Relaxed);
        }
        Ok(event)
    }

    /// Returns the population's name, or refuses a stimulus that the simulation cannot apply.
    fn check(&self, asked: &Stimulus) -> Result<&str> {
        let all = &self.told.populations;
        let Some(population) = all.get(asked.population) else {
            return Err(Error::argument(format!(
                "stimulus: expected a population below {}, got {}",
                all.len(),
                asked.population
            )));
        };
        if !population.takes_current {
            return Err(Error::argument(format!(
                "stimulus: population {:?} takes no current",
                population.name
            )));
        }
        let end = u64::from(asked.first) + u64::from(asked.count);
        if end > u64::from(population.neurons) {
            return Err(Error::argument(format!(
                "stimulus: expected neurons of {:?} up to {}, got {} from {} on",
                population.name, population.neurons, asked.count, asked.first
            )));
        }
        if !(asked.current_pa.is_finite() && asked.current_pa.abs() <= MOST_CURRENT_PA) {
            return Err(Error::argument(format!(
                "stimulus: expected at most {MOST_CURRENT_PA} pA, got {}",
                asked.current_pa
            )));
        }
        Ok(&population.name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn steered() -> (SimulationHandle, Receiver<Wish>) {
        let population = |name: &str, neurons, takes_current| SimulatedPopulation {
            name: name.into(),
            neurons,
            takes_current,
            degrees: [0.0; 2],
            parameters: vec![],
        };
        let told = Simulation {
            populations: vec![population("e", 80, true), population("in", 20, false)],
            synapses: 5,
            seed: 1,
            name: "cuba".into(),
            scale: 1.0,
            every: 1,
            replaceable: true,
        };
        let (to, from) = channel();
        (SimulationHandle::new(told, to), from)
    }

    fn act(steered: &SimulationHandle, what: &str, body: &str) -> Result<Value> {
        steered.act(SteerRequest::read(what, body.as_bytes()).unwrap())
    }

    fn stimulus(population: usize, first: u32, count: u32, current: &str) -> String {
        format!(
            "{{\"population\":{population},\"first\":{first},\"count\":{count},\"current_pa\":{current}}}"
        )
    }

    fn network(name: &str, scale: f64) -> String {
        format!("{{\"name\":{name:?},\"scale\":{scale},\"seed\":7}}")
    }

    #[test]
    fn wishes_are_handed_on() {
        let (steered, from) = steered();
        let event = act(&steered, "stimulus", &stimulus(0, 70, 10, "250"));
        assert_eq!(event.unwrap()["population"], "e");
        let wish = Wish::Stimulate {
            population: 0,
            first: 70,
            count: 10,
            current_pa: 250.0,
        };
        assert_eq!(from.try_recv(), Ok(wish));
        act(&steered, "pause", "{\"paused\":true}").unwrap();
        assert_eq!(from.try_recv(), Ok(Wish::Pause(true)));
        assert_eq!(steered.json()["paused"], true);
        act(&steered, "network", &network("ring:100", 1.0)).unwrap();
        let wish = Wish::Network {
            name: "ring:100".into(),
            scale: 1.0,
            seed: 7,
        };
        assert_eq!(from.try_recv(), Ok(wish));
    }

    #[test]
    fn weights_are_told() {
        let (steered, _from) = steered();
        assert_eq!(steered.json()["weights"], json!([]));
        steered.set_weights(vec![WeightHistogram {
            name: "e to e".into(),
            low: 0.0,
            high: 4.0,
            bins: vec![3, 1, 1, 2],
        }]);
        let told = json!([{"name": "e to e", "low": 0.0, "high": 4.0, "bins": [3, 1, 1, 2]}]);
        assert_eq!(steered.json()["weights"], told);
    }

    #[test]
    fn nonsense_is_refused_and_not_handed_on() {
        let (steered, from) = steered();
        for (name, scale) in [
            ("", 1.0),
            ("cuba", 0.0),
            ("cuba", 1.5),
            (&"x".repeat(101), 1.0),
        ] {
            let error = act(&steered, "network", &network(name, scale));
            assert!(error.unwrap_err().message().contains("network: expected"));
            assert!(from.try_recv().is_err());
        }
        for (body, words) in [
            (stimulus(2, 0, 1, "1"), "below 2"),
            (stimulus(1, 0, 1, "1"), "takes no current"),
            (stimulus(0, 71, 10, "1"), "up to 80"),
            (stimulus(0, u32::MAX, u32::MAX, "1"), "up to 80"),
            (stimulus(0, 0, 1, "1e7"), "at most"),
        ] {
            let error = act(&steered, "stimulus", &body).unwrap_err();
            assert!(error.message().contains(words), "{body}: {error}");
            assert!(from.try_recv().is_err());
        }
        for body in [&stimulus(0, 0, 1, "\"x\""), "{", "{}", "{\"paused\":1}"] {
            for what in ["stimulus", "pause", "network"] {
                assert!(
                    SteerRequest::read(what, body.as_bytes()).is_err(),
                    "{what} {body}"
                );
            }
        }
    }

    #[test]
    fn a_wish_that_nobody_hears_is_refused() {
        let (steered, from) = steered();
        act(&steered, "pause", "{\"paused\":true}").unwrap();
        drop(from);
        assert!(act(&steered, "pause", "{\"paused\":false}").is_err());
        assert_eq!(
            steered.json()["paused"],
            true,
            "what was not heard is not so"
        );
    }
}
