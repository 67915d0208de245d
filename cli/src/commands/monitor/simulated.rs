//! `betz monitor --simulate`: a network in real time, and the page that shows and steers it.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use betz::recording::OutputInfo;
use betz::spiking::models::{self, galbraith};
use betz::spiking::{Engine, Network, Neuron, Options, Synapse};
use betz::stream::{Input, Step, StepStatus, SwapState, Tap};
use betz::{Error, ErrorKind, Progress, Result};
use betz_monitor::{Feed, Monitor, SimulatedPopulation, Simulation, Source, WeightHistogram, Wish};
use serde_json::json;

use super::args::Monitor as Arguments;
use crate::commands::simulate;
use crate::page::{LOOK, announce, options, rest};
use crate::parse;
use crate::report::{self, Bar, UntilInterrupted, number};

/// Most channels of a page: of larger networks every so many neurons are shown.
const MOST_SHOWN: u64 = 16_384;
/// Most potentials that are drawn.
const MOST_TRACED: usize = 8;
/// Steps between two looks at the clock and at what the page wants: a millisecond of the network, at least one.
const LOOK_SECONDS: f64 = 1e-3;
/// Bins of a histogram of weights.
const WEIGHT_BINS: usize = 40;
/// Least time between two histograms, and how many times as long as making one it is.
const WEIGHTS_EVERY: Duration = Duration::from_secs(1);
const WEIGHTS_SHARE: u32 = 20;
/// Lag behind the clock above which it no longer tries to catch up.
const LAG: Duration = Duration::from_millis(100);

/// A request for a network.
#[derive(Clone)]
struct NetworkRequest {
    name: String,
    scale: f64,
    seed: u64,
}

/// A network that is ready to run, and what of it is shown.
struct ReadyNetwork {
    asked: NetworkRequest,
    engine: Engine,
    every: u64,
    traced: Vec<u32>,
}

pub(super) fn run(args: &Arguments, asked: &str) -> Result<()> {
    let first = NetworkRequest {
        name: asked.to_owned(),
        scale: args.scale.unwrap_or(1.0),
        seed: args.seed,
    };
    let named = network(&first, |file| {
        simulate::named_network("--simulate", file, first.scale, first.seed)
    })?;
    report::stop_on_interrupt();
    let mut built = ReadyNetwork::new(first, &named, args.trace.as_deref())?;
    let mut place = options(&args.page);
    let mut door = None;
    loop {
        let (monitor, feed) = Monitor::start(built.source(args.speed), place.clone())?;
        let wishes = monitor.simulation(built.told())?;
        // Another network comes to the same place, where the pages that watch look for it.
        if door.is_none() {
            door = Some(announce(&monitor, &args.page, args.common.json)?);
            place.port = monitor.address().port();
            place.token = monitor.token().cloned();
        }
        let work = Work {
            asked,
            shown: Vec::new(),
            estimates: Vec::new(),
            feed,
            built,
            tick: 0,
            step_ns: 0,
        };
        match work.play(args.speed, &wishes, &monitor)? {
            Some(another) => built = another,
            None => return Ok(()),
        }
    }
}

/// `ring:N`, `full:N`, `random:N,S`, or what `otherwise` makes of the name.
fn network(asked: &NetworkRequest, otherwise: impl Fn(&str) -> Result<Network>) -> Result<Network> {
    let place = |e: Error| e.at("--simulate");
    let Some((kind, size)) = asked.name.split_once(':') else {
        return otherwise(&asked.name);
    };
    let refuse = || {
        Error::argument(format!(
            "--simulate: expected ring:N, full:N or random:N,S with numbers of neurons and synapses, got {:?}",
            asked.name
        ))
    };
    let whole = |text: &str| text.parse::<u32>().map_err(|_| refuse());
    match kind {
        "ring" => galbraith::ring(whole(size)?, 0).map_err(place),
        "full" => galbraith::full(whole(size)?, 0).map_err(place),
        "random" => {
            let (neurons, synapses) = size.split_once(',').ok_or_else(refuse)?;
            let synapses = synapses.parse().map_err(|_| refuse())?;
            galbraith::random(whole(neurons)?, synapses, 0, asked.seed).map_err(place)
        }
        _ => otherwise(&asked.name),
    }
}

impl ReadyNetwork {
    /// Neurons whose potentials are drawn are those `listed`, or the first of each population.
    fn new(asked: NetworkRequest, network: &Network, listed: Option<&str>) -> Result<Self> {
        let all = network.neurons();
        let traced = match listed {
            Some(list) => parse::ranges("--trace", list, all as usize)?,
            None => first_with_potential(network),
        };
        if traced.len() > MOST_TRACED {
            return Err(Error::argument(format!(
                "--trace: expected at most {MOST_TRACED} neurons, got {}",
                traced.len()
            )));
        }
        let traced: Vec<u32> = traced.iter().map(|n| *n as u32).collect();
        let mut engine = Engine::build(network, &Options::default(), &Bar::new())?;
        simulate::movement::follow(&mut engine, None)?;
        // Neurons without a potential are refused before a page is opened.
        (traced.iter()).try_for_each(|n| engine.potential(*n).map(|_| ()))?;
        Ok(Self {
            asked,
            engine,
            every: all.div_ceil(MOST_SHOWN).max(1),
            traced,
        })
    }

    fn source(&self, speed: f64) -> Source {
        let network = self.engine.network();
        let names = (network.populations.iter())
            .flat_map(|p| (0..p.neurons).map(|i| format!("{}{i}", p.name)))
            .collect::<Vec<_>>();
        let output = |what: String, neuron: u32, unit: &str| OutputInfo {
            name: format!("{what} {}", names[neuron as usize]),
            unit: unit.into(),
        };
        // A neuron's conductances follow its potential, as the steps have them.
        let outputs = self.traced.iter().flat_map(|&neuron| {
            let channels = self.engine.channels(neuron).unwrap_or_default();
            let conductances =
                (channels.into_iter()).map(move |name| output(format!("g {name}"), neuron, "nS"));
            std::iter::once(output("V".into(), neuron, "mV")).chain(conductances)
        });
        Source {
            name: self.asked.name.clone(),
            outputs: outputs.collect(),
            channel_names: names.iter().step_by(self.every as usize).cloned().collect(),
            electrode_um: None,
            step_seconds: network.step_ms * 1e-3,
            speed,
            deadline: None,
            model: None,
        }
    }

    fn told(&self) -> Simulation {
        let network = self.engine.network();
        let degrees = self.engine.plan().degrees(network);
        let populations = network.populations.iter().zip(degrees).map(|(p, degrees)| {
            let mut parameters = Vec::new();
            let mut say = |name: &str, value: String| parameters.push((name.to_owned(), value));
            if let Neuron::Lif(lif) = p.neuron {
                say("τ_m", format!("{} ms", number(lif.tau_m_ms)));
                say("C_m", format!("{} pF", number(lif.c_m_pf)));
                say(
                    "V_th",
                    format!("{} mV", number((lif.threshold_mv * 1e6).round() / 1e6)),
                );
                say("V_reset", format!("{} mV", number(lif.reset_mv)));
                say("t_ref", format!("{} ms", number(lif.refractory_ms)));
            }
            match &p.neuron {
                Neuron::Lif(_) => {}
                Neuron::Model(model) => {
                    say("model", model.name.clone());
                    for (name, draw) in &model.parameters {
                        say(name, draw.to_string());
                    }
                }
                Neuron::Poisson(source) => say("fire at random", format!("{} Hz", source.rate_hz)),
                Neuron::Spikes(_) => say("neurons", "fire at listed times".to_owned()),
                Neuron::Source => say("neurons", "fire by call".to_owned()),
            }
            match &p.synapse {
                Synapse::Conductance { channels, .. } => {
                    let names: Vec<_> = channels.keys().map(String::as_str).collect();
                    say("channels", names.join(", "));
                }
                Synapse::Exponential { tau_ms, .. } => {
                    say("τ_syn", format!("{} ms", number(*tau_ms)))
                }
                Synapse::Alpha { tau_ms, .. } => say("α, τ_syn", format!("{} ms", number(*tau_ms))),
                Synapse::Psc { order, tau_ms, .. } => {
                    say(
                        &format!("PSC of order {order}, τ"),
                        format!("{} ms", number(*tau_ms)),
                    );
                }
                Synapse::Delta => say("synapses", "delta".to_owned()),
            }
            if let Some(tuning) = &p.tuning {
                say("tuned, gain", format!("{} pA", tuning.gain_pa));
            }
            if let Some(poisson) = p.poisson {
                say("Poisson input", format!("{} Hz", number(poisson.rate_hz)));
            }
            SimulatedPopulation {
                name: p.name.clone(),
                neurons: p.neurons,
                takes_current: p.neuron.has_potential() && p.tuning.is_none(),
                degrees,
                parameters,
            }
        });
        Simulation {
            populations: populations.collect(),
            synapses: self.engine.synapses(),
            seed: network.seed,
            name: self.asked.name.clone(),
            scale: self.asked.scale,
            every: self.every as u32,
            replaceable: true,
        }
    }
}

/// The first neuron of each population that has a potential, as many as are drawn.
fn first_with_potential(network: &Network) -> Vec<usize> {
    let firsts = network.firsts();
    (network.populations.iter().zip(firsts))
        .filter(|(p, _)| p.neurons > 0 && p.neuron.has_potential())
        .map(|(_, first)| first as usize)
        .take(MOST_TRACED)
        .collect()
}

/// A network at work.
struct Work<'a> {
    /// The network of the command line, which a page may request again.
    asked: &'a str,
    built: ReadyNetwork,
    feed: Feed,
    estimates: Vec<f32>,
    shown: Vec<u32>,
    tick: i64,
    step_ns: u32,
}

impl Work<'_> {
    /// Steps as fast as the clock on the wall times `speed`, or as fast as it can, until Ctrl-C, or until a page
    /// asks for another network that can be built.
    fn play(
        mut self,
        speed: f64,
        wishes: &Receiver<Wish>,
        monitor: &Monitor,
    ) -> Result<Option<ReadyNetwork>> {
        let step_seconds = self.built.engine.network().step_ms * 1e-3;
        let at_once = (LOOK_SECONDS / step_seconds).round().max(1.0) as u64;
        let (mut begun, mut done) = (Instant::now(), 0u64);
        let mut paused = false;
        let mut weights_due = self
            .show_weights(monitor)?
            .map(|wait| Instant::now() + wait);
        while !UntilInterrupted.cancelled() {
            if !paused && weights_due.is_some_and(|due| Instant::now() >= due) {
                weights_due = self
                    .show_weights(monitor)?
                    .map(|wait| Instant::now() + wait);
            }
            while let Ok(wish) = wishes.try_recv() {
                match wish {
                    Wish::Pause(pause) => paused = pause,
                    Wish::Stimulate {
                        population,
                        first,
                        count,
                        current_pa,
                    } => self.stimulate(population, first..first + count, current_pa)?,
                    Wish::Network { name, scale, seed } => {
                        match self.another(NetworkRequest { name, scale, seed }) {
                            Ok(built) => return Ok(Some(built)),
                            Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(None),
                            Err(e) => monitor.event("refused", json!({"words": e.message()})),
                        }
                    }
                }
            }
            if paused {
                std::thread::sleep(LOOK);
                (begun, done) = (Instant::now(), 0);
                continue;
            }
            for _ in 0..at_once {
                self.step()?;
            }
            done += at_once;
            let due = Duration::try_from_secs_f64(done as f64 * step_seconds / speed);
            let (due, now) = (due.unwrap_or(Duration::MAX), begun.elapsed());
            match due.checked_sub(now) {
                Some(wait) => {
                    rest(wait);
                }
                // Time that is lost is not made up for later.
                None if now - due > LAG => (begun, done) = (Instant::now(), 0),
                None => {}
            }
        }
        Ok(None)
    }

    /// Shows the weights of synapses that learn; the time after which they are shown again, if there are some.
    fn show_weights(&self, monitor: &Monitor) -> Result<Option<Duration>> {
        let started = Instant::now();
        let engine = &self.built.engine;
        let mut all = Vec::new();
        for (number, of) in engine.network().projections.iter().enumerate() {
            let Some(plasticity) = of.plasticity else {
                continue;
            };
            all.push(WeightHistogram {
                name: format!("{} to {}", of.source, of.target),
                low: plasticity.low,
                high: plasticity.high,
                bins: engine.weight_histogram(number, WEIGHT_BINS)?,
            });
        }
        if all.is_empty() {
            return Ok(None);
        }
        monitor.weights(all);
        Ok(Some(WEIGHTS_EVERY.max(WEIGHTS_SHARE * started.elapsed())))
    }

    /// The network that a page asks for: of files only the one that the command line named.
    fn another(&self, asked: NetworkRequest) -> Result<ReadyNetwork> {
        let network = network(&asked, |name| {
            if name != self.asked && !models::NAMES.contains(&name) {
                return Err(Error::argument(format!(
                    "expected {}, ring:N, full:N or random:N,S, got {name:?}",
                    models::NAMES.join(", ")
                )));
            }
            simulate::named_network("--simulate", name, asked.scale, asked.seed)
        })?;
        ReadyNetwork::new(asked, &network, None)
    }

    fn step(&mut self) -> Result<()> {
        let ReadyNetwork {
            engine,
            every,
            traced,
            ..
        } = &mut self.built;
        let started = Instant::now();
        self.shown.clear();
        engine.step(&mut self.shown)?;
        let took = started.elapsed();
        let every = *every as u32;
        self.shown.retain(|n| n % every == 0);
        self.shown.iter_mut().for_each(|n| *n /= every);
        self.estimates.clear();
        for &mut neuron in traced {
            self.estimates.push(engine.potential(neuron)?);
            self.estimates.extend(engine.conductances(neuron)?);
        }
        self.feed.take(&Step {
            tick: self.tick,
            input: Input::Spikes(&self.shown),
            estimates: &self.estimates,
            beside: &[],
            classes: &[],
            status: StepStatus::OK,
            previous_latency_ns: self.step_ns,
            swap: SwapState::Idle,
        });
        self.step_ns = u32::try_from(took.as_nanos()).unwrap_or(u32::MAX);
        self.tick += 1;
        Ok(())
    }

    fn stimulate(
        &mut self,
        population: usize,
        neurons: std::ops::Range<u32>,
        current_pa: f64,
    ) -> Result<()> {
        let engine = &mut self.built.engine;
        let all = engine.network().populations[population].neurons;
        let mut currents = vec![0.0; all as usize];
        for i in neurons {
            if let Some(current) = currents.get_mut(i as usize) {
                *current = current_pa;
            }
        }
        engine.set_currents(population, &currents)
    }
}
