//! Checks a network before it is built: every field must be in its range.

use betz_base::{Error, Result};

use crate::model_population::{
    ModelPopulation, receptor_named, refuse_start_in_volts, refuse_volts,
};
use crate::random::{NORMAL_LIMIT, POISSON_LIMIT};
use crate::spec::{
    Draw, Lif, MAX_DELAY_STEPS, MAX_NEURONS, Network, Neuron, Poisson, Population, Projection,
    Rule, Synapse,
};

/// Largest current or potential of an integrate-and-fire neuron. Numbers of 32 bits hold what follows from it.
pub(crate) const LARGEST: f64 = 1e30;
/// Largest order of a PSC.
const MAX_ORDER: u32 = 3;
/// Most values of a truncated PSC.
const MAX_FILTER: u64 = 1 << 20;
/// Most populations: each is a multiple of 64 neurons in memory.
const MAX_POPULATIONS: usize = 1 << 16;

impl Network {
    /// Checks every field.
    ///
    /// # Errors
    /// `InvalidArgument` naming the population or projection, what was expected and what came.
    pub fn check(&self) -> Result<()> {
        if !(self.step_ms.is_finite() && self.step_ms > 0.0) {
            return Err(Error::argument(format!(
                "network: expected a finite step above 0 ms, got {}",
                self.step_ms
            )));
        }
        let neurons = self.neurons();
        if neurons == 0 {
            return Err(Error::argument(
                "network: expected at least one neuron, got 0",
            ));
        }
        if neurons > MAX_NEURONS || self.populations.len() > MAX_POPULATIONS {
            return Err(Error::argument(format!(
                "network: expected at most {MAX_NEURONS} neurons in {MAX_POPULATIONS} populations, got {neurons} in {}",
                self.populations.len()
            )));
        }
        let mut names = std::collections::HashSet::new();
        for (index, population) in self.populations.iter().enumerate() {
            let place = format!("population {:?}", population.name);
            if !names.insert(population.name.as_str()) {
                return Err(Error::argument(format!("{place}: the name is given twice")));
            }
            self.check_population(index).map_err(|e| e.at(place))?;
        }
        for i in 0..self.populations.len() {
            self.filter_length(i)?;
        }
        for (i, projection) in self.projections.iter().enumerate() {
            self.check_projection(projection).map_err(|e| {
                e.at(format!(
                    "projection {i} ({} to {})",
                    projection.source, projection.target
                ))
            })?;
        }
        Ok(())
    }

    fn check_population(&self, index: usize) -> Result<()> {
        let population = &self.populations[index];
        if !population.neuron.has_potential() {
            return self.check_source(population);
        }
        let mut refractory = 0;
        if let Neuron::Lif(lif) = population.neuron {
            check_lif(lif)?;
            refractory = (self.steps_of(lif.refractory_ms)).map_err(|e| e.at("refractory_ms"))?;
        }
        if refractory > 1 << 24 || population.start_silent_steps > 1 << 24 {
            return Err(Error::argument(format!(
                "expected a silence of at most 2^24 steps, got {refractory} and {}",
                population.start_silent_steps
            )));
        }
        self.check_synapse(&population.synapse)?;
        ModelPopulation::of(self, index)?;
        if population.poisson.is_some() {
            receptor_named(population, population.poisson_receptor.as_deref())
                .map_err(|e| e.at("Poisson input"))?;
        }
        if let Some(Poisson { rate_hz, weight }) = population.poisson {
            let expected = rate_hz * self.step_ms * 1e-3;
            if !(weight.is_finite() && rate_hz >= 0.0 && (0.0..=POISSON_LIMIT).contains(&expected))
            {
                return Err(Error::argument(format!(
                    "Poisson input: expected a finite weight and a rate of 0 to {} Hz ({POISSON_LIMIT} per step), got {weight} and {rate_hz}",
                    POISSON_LIMIT / self.step_ms * 1e3
                )));
            }
        }
        for stimulus in &population.stimuli {
            let end = u64::from(stimulus.first) + u64::from(stimulus.count);
            let current = stimulus.current_pa;
            if end > u64::from(population.neurons) || !(-LARGEST..=LARGEST).contains(&current) {
                return Err(Error::argument(format!(
                    "stimulus: expected −1e30 to 1e30 pA and neurons below {}, got {current:e} pA and {} from {} on",
                    population.neurons, stimulus.count, stimulus.first
                )));
            }
        }
        if let Some(tuning) = &population.tuning {
            tuning.check(population)?;
        }
        (population.start_mv.check_length(population.neurons)).map_err(|e| e.at("start_mv"))?;
        refuse_start_in_volts(population).map_err(|e| e.at("start_mv"))?;
        Ok(())
    }

    /// Checks a population that has no potentials.
    fn check_source(&self, population: &Population) -> Result<()> {
        if population.poisson.is_some()
            || !population.stimuli.is_empty()
            || population.tuning.is_some()
        {
            return Err(Error::argument(
                "a source fires by call or by itself only: expected no Poisson input, no stimuli and no tuning",
            ));
        }
        match &population.neuron {
            Neuron::Poisson(source) => {
                (source.rate_hz.check_length(population.neurons)).map_err(|e| e.at("rate_hz"))?;
                let (low, high) = source.rate_hz.bounds().map_err(|e| e.at("rate_hz"))?;
                let most = 1e3 / self.step_ms;
                if low < 0.0 || high > most {
                    return Err(Error::argument(format!(
                        "rate_hz: expected 0 to {most} Hz (one spike per step), got {}",
                        source.rate_hz
                    )));
                }
            }
            Neuron::Spikes(trains) => {
                if let Some(file) = &trains.file {
                    return Err(Error::argument(format!(
                        "spikes: {} is not read yet: Network::load reads it",
                        file.display()
                    )));
                }
                if trains.trains_ms.len() > population.neurons as usize {
                    return Err(Error::argument(format!(
                        "spikes: expected trains of at most {} neurons, got {}",
                        population.neurons,
                        trains.trains_ms.len()
                    )));
                }
                for (neuron, train) in trains.trains_ms.iter().enumerate() {
                    self.check_train(train)
                        .map_err(|e| e.at(format!("spikes of neuron {neuron}")))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the times of a source's spikes: one per step at most.
    fn check_train(&self, train: &[f64]) -> Result<()> {
        if let Some(ms) = train.iter().find(|ms| !(0.0..1e12).contains(*ms)) {
            return Err(Error::argument(format!(
                "expected times from 0 ms on, got {ms}"
            )));
        }
        let mut steps: Vec<u64> = train.iter().map(|ms| self.step_at(*ms)).collect();
        steps.sort_unstable();
        match steps.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::argument(format!(
                "expected one spike per step of {} ms, got two at {} ms",
                self.step_ms,
                pair[0] as f64 * self.step_ms
            ))),
            None => Ok(()),
        }
    }

    fn check_synapse(&self, synapse: &Synapse) -> Result<()> {
        let taus = match *synapse {
            // Channels are checked with their population.
            Synapse::Delta | Synapse::Conductance { .. } => return Ok(()),
            Synapse::Exponential {
                tau_ms,
                tau_inhibitory_ms,
                ..
            }
            | Synapse::Alpha {
                tau_ms,
                tau_inhibitory_ms,
                ..
            } => [tau_ms, tau_inhibitory_ms.unwrap_or(tau_ms)],
            Synapse::Psc { order, tau_ms, .. } => {
                if order > MAX_ORDER {
                    return Err(Error::argument(format!(
                        "PSC: expected an order of 0 to {MAX_ORDER}, got {order}"
                    )));
                }
                [tau_ms; 2]
            }
        };
        for tau in taus {
            // A constant far below a step is no synapse but a rounding error, and far above it none.
            if !(tau.is_finite() && tau >= self.step_ms / 50.0 && tau <= self.step_ms * 1e9) {
                return Err(Error::argument(format!(
                    "synapse: tau_ms: expected a finite time constant of at least 1/50 step ({} ms), got {tau} ms",
                    self.step_ms / 50.0
                )));
            }
        }
        Ok(())
    }

    /// Length of a population's PSCs in steps, where they are truncated; otherwise 0.
    pub(crate) fn filter_length(&self, population: usize) -> Result<u64> {
        let population = &self.populations[population];
        let Synapse::Psc {
            tau_ms,
            truncated: true,
            ..
        } = population.synapse
        else {
            return Ok(0);
        };
        // Not rounded up for a length that is whole but for the last digit.
        let length = (5.0 * tau_ms / self.step_ms - 1e-9).ceil().max(1.0);
        if length.is_nan() || length > MAX_FILTER as f64 {
            return Err(Error::argument(format!(
                "population {:?}: expected a truncated PSC of at most {MAX_FILTER} steps, got {length}",
                population.name
            )));
        }
        Ok(length as u64)
    }

    fn check_projection(&self, projection: &Projection) -> Result<()> {
        let source = &self.populations[self.population(&projection.source)?];
        let target = &self.populations[self.population(&projection.target)?];
        if !target.neuron.has_potential() {
            return Err(Error::argument(
                "a source fires by call or by itself only and takes no synapses",
            ));
        }
        for (end, population) in [("source", source), ("target", target)] {
            if population.neurons == 0 {
                return Err(Error::argument(format!(
                    "expected a {end} with neurons, got {:?} with none",
                    population.name
                )));
            }
        }
        let listed = matches!(projection.rule, Rule::List { .. });
        if !listed {
            (projection.weight.refuse_list()).map_err(|e| e.at("weight"))?;
            let weights = projection.weight.bounds().map_err(|e| e.at("weight"))?;
            self.check_sign(target, weights)?;
            self.check_delay(&projection.delay_ms)?;
        }
        receptor_named(target, projection.receptor.as_deref())?;
        self.check_plasticity(projection)?;
        let (n, m) = (u64::from(source.neurons), u64::from(target.neurons));
        let same = projection.source == projection.target;
        let choice = |sizes: u64| sizes - u64::from(same && !projection.autapses && sizes > 0);
        match &projection.rule {
            Rule::Ring | Rule::OneToOne if n != m => Err(Error::mismatch(format!(
                "expected as many sources as targets, got {n} and {m}"
            ))),
            Rule::Ring if n == 1 && same && !projection.autapses => Err(Error::argument(
                "a ring of one neuron is a self-connection, which autapses = false forbids",
            )),
            Rule::OneToOne if same && !projection.autapses => Err(Error::argument(
                "one to one within a population is self-connections, which autapses = false forbids",
            )),
            Rule::FixedTotal {
                distinct: true,
                count,
            } if *count > n * choice(m) => Err(Error::argument(format!(
                "expected at most {} distinct pairs, got {count}",
                n * choice(m)
            ))),
            Rule::FixedTotal { count, .. } if *count > 0 && n * choice(m) == 0 => {
                Err(Error::argument("no pair of neurons to connect".to_string()))
            }
            Rule::FixedIn { count, distinct } => choices(*count, *distinct, choice(n), "sources"),
            Rule::FixedOut { count, distinct } => choices(*count, *distinct, choice(m), "targets"),
            Rule::Pairwise { probability } if !(0.0..=1.0).contains(probability) => {
                Err(Error::argument(format!(
                    "expected a probability of 0 to 1, got {probability}"
                )))
            }
            Rule::List { synapses } => {
                for (i, s) in synapses.iter().enumerate() {
                    if u64::from(s.source) >= n
                        || u64::from(s.target) >= m
                        || !s.weight.is_finite()
                        || !(1..=MAX_DELAY_STEPS).contains(&s.delay_steps)
                    {
                        return Err(Error::argument(format!(
                            "synapse {i} of the list: expected a source below {n}, a target below {m}, a finite weight and a delay of 1 to {MAX_DELAY_STEPS} steps, got {s:?}"
                        )));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Refuses negative conductances.
    fn check_sign(&self, target: &Population, (least, _): (f64, f64)) -> Result<()> {
        if matches!(target.synapse, Synapse::Conductance { .. }) && least < 0.0 {
            return Err(Error::argument(format!(
                "weight: expected conductances of 0 nS or more (the channel's reversal potential says what they do), got {least}"
            )));
        }
        Ok(())
    }

    fn check_plasticity(&self, projection: &Projection) -> Result<()> {
        let Some(plasticity) = projection.plasticity else {
            return Ok(());
        };
        let weights = match &projection.rule {
            Rule::List { synapses } => synapses.iter().fold((f64::MAX, f64::MIN), |ends, s| {
                let weight = f64::from(s.weight);
                (ends.0.min(weight), ends.1.max(weight))
            }),
            _ => projection.weight.bounds()?,
        };
        plasticity.check(weights)
    }

    fn check_delay(&self, delay: &Draw) -> Result<()> {
        let limit = f64::from(MAX_DELAY_STEPS);
        delay.refuse_list().map_err(|e| e.at("delay_ms"))?;
        let largest = match delay {
            Draw::Constant(ms) => {
                let steps = self.steps_of(*ms).map_err(|e| e.at("delay_ms"))?;
                if steps == 0 {
                    return Err(Error::argument(format!(
                        "delay_ms: expected 1 to {MAX_DELAY_STEPS} steps of {} ms, got 0",
                        self.step_ms
                    )));
                }
                steps as f64
            }
            Draw::Normal { mean, sd } => {
                let (mean, sd) = (mean / self.step_ms, sd / self.step_ms);
                if !(mean >= 1.0 && sd >= 0.0 && sd.is_finite()) {
                    return Err(Error::argument(format!(
                        "delay_ms: expected a mean of at least one step ({} ms) and sd >= 0, got {delay:?}",
                        self.step_ms
                    )));
                }
                mean + NORMAL_LIMIT * sd
            }
            _ => {
                let (low, high) = delay.bounds().map_err(|e| e.at("delay_ms"))?;
                if low < self.step_ms * (1.0 - 1e-6) {
                    return Err(Error::argument(format!(
                        "delay_ms: expected at least one step ({} ms), got {delay}",
                        self.step_ms
                    )));
                }
                high / self.step_ms
            }
        };
        if largest.is_nan() || largest > limit {
            return Err(Error::argument(format!(
                "delay_ms: expected delays up to {MAX_DELAY_STEPS} steps (a normal one: mean + {NORMAL_LIMIT} sd), got {delay:?} = up to {largest} steps of {} ms",
                self.step_ms
            )));
        }
        Ok(())
    }
}

fn choices(count: u32, distinct: bool, of: u64, what: &str) -> Result<()> {
    if (distinct && u64::from(count) > of) || (count > 0 && of == 0) {
        return Err(Error::argument(format!(
            "expected {count} {what} to choose from, got {of}"
        )));
    }
    Ok(())
}

fn check_lif(lif: Lif) -> Result<()> {
    for (name, value) in [("tau_m_ms", lif.tau_m_ms), ("c_m_pf", lif.c_m_pf)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::argument(format!(
                "{name}: expected a finite number above 0, got {value}"
            )));
        }
    }
    for (name, value) in [
        ("rest_mv", lif.rest_mv),
        ("threshold_mv", lif.threshold_mv),
        ("reset_mv", lif.reset_mv),
        ("current_pa", lif.current_pa),
    ] {
        if !(-LARGEST..=LARGEST).contains(&value) {
            return Err(Error::argument(format!(
                "{name}: expected −1e30 to 1e30, got {value:e}"
            )));
        }
    }
    refuse_volts(
        "lif",
        &[
            ("rest_mv", (lif.rest_mv, lif.rest_mv)),
            ("threshold_mv", (lif.threshold_mv, lif.threshold_mv)),
            ("reset_mv", (lif.reset_mv, lif.reset_mv)),
        ],
    )?;
    if lif.tau_m_ms < 0.05 {
        return Err(Error::argument(format!(
            "tau_m_ms: expected at least 0.05 ms, got {}: it seems to be in seconds",
            lif.tau_m_ms
        )));
    }
    // The paper's neurons have a threshold of 1 and no units.
    if lif.c_m_pf < 0.5 && lif.threshold_mv - lif.reset_mv >= 5.0 {
        return Err(Error::argument(format!(
            "c_m_pf: expected at least 0.5 pF, got {}: it seems to be in nF",
            lif.c_m_pf
        )));
    }
    let (reset, threshold) = (lif.reset_mv - lif.rest_mv, lif.threshold_mv - lif.rest_mv);
    if reset as f32 >= threshold as f32 {
        return Err(Error::argument(format!(
            "expected reset_mv below threshold_mv, got {} and {}: the neuron would fire without end",
            lif.reset_mv, lif.threshold_mv
        )));
    }
    Ok(())
}
