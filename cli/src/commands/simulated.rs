//! `betz monitor --simulate`: a network in real time, and the page that shows and steers it.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use betz::recording::OutputInfo;
use betz::spiking::models::galbraith;
use betz::spiking::{Engine, Network, Neuron, Options, Synapse};
use betz::stream::{Input, Step, StepStatus, SwapState, Tap};
use betz::{Error, Progress, Result};
use betz_monitor::{Feed, Monitor, SimulatedPopulation, Simulation, Source, Wish};

use super::page::{LOOK, announce, options, rest};
use super::simulate;
use crate::data;
use crate::monitor_args;
use crate::report::{self, Bar, UntilInterrupted, number};

/// Most channels of a page: of larger networks every so many neurons are shown.
const MOST_SHOWN: u64 = 16_384;
/// Most potentials that are drawn.
const MOST_TRACED: usize = 8;
/// Steps between two looks at the clock and at what the page wants: a millisecond of the network, at least one.
const LOOK_SECONDS: f64 = 1e-3;
/// How far it may lag behind the clock before it no longer tries to catch up.
const LAG: Duration = Duration::from_millis(100);

pub(super) fn run(args: &monitor_args::Monitor, asked: &str) -> Result<()> {
    let network = network(args, asked)?;
    let all = network.neurons();
    let every = all.div_ceil(MOST_SHOWN).max(1);
    let traced = match &args.trace {
        Some(list) => data::parse_ranges("--trace", list, all as usize)?,
        None => first_with_potential(&network),
    };
    if traced.len() > MOST_TRACED {
        return Err(Error::argument(format!(
            "--trace: expected at most {MOST_TRACED} neurons, got {}",
            traced.len()
        )));
    }
    let traced: Vec<u32> = traced.iter().map(|n| *n as u32).collect();
    report::stop_on_interrupt();
    let engine = Engine::build(&network, &Options::default(), &Bar::new())?;
    // What has no potential is said before a page is opened.
    (traced.iter()).try_for_each(|n| engine.potential(*n).map(|_| ()))?;
    let source = source(args, asked, &network, every, &traced);
    let (monitor, feed) = Monitor::start(source, options(&args.page))?;
    let wishes = monitor.simulation(told(&network, &engine, every))?;
    let _door = announce(&monitor, &args.page, args.common.json)?;
    let work = Work {
        engine,
        feed,
        every: every as u32,
        traced,
        estimates: Vec::new(),
        shown: Vec::new(),
        tick: 0,
        step_ns: 0,
    };
    work.play(args.speed, &wishes)
}

/// By name, `ring:N`, `full:N`, or a file of JSON.
fn network(args: &monitor_args::Monitor, asked: &str) -> Result<Network> {
    let place = |e: Error| e.at("--simulate");
    for (kind, make) in [
        ("ring:", galbraith::ring as fn(u32, u32) -> Result<Network>),
        ("full:", galbraith::full),
    ] {
        if let Some(neurons) = asked.strip_prefix(kind) {
            let neurons = neurons.parse().map_err(|_| {
                Error::argument(format!(
                    "--simulate: expected {kind}N with a number of neurons, got {asked:?}"
                ))
            })?;
            return make(neurons, 0).map_err(place);
        }
    }
    let scale = args.scale.unwrap_or(1.0);
    simulate::named_network("--simulate", asked, scale, args.seed)
}

/// The first neuron of each population that has a potential, as many as are drawn.
fn first_with_potential(network: &Network) -> Vec<usize> {
    let firsts = network.firsts();
    (network.populations.iter().zip(firsts))
        .filter(|(p, _)| p.neurons > 0 && p.neuron != Neuron::Source)
        .map(|(_, first)| first as usize)
        .take(MOST_TRACED)
        .collect()
}

fn source(
    args: &monitor_args::Monitor,
    name: &str,
    network: &Network,
    every: u64,
    traced: &[u32],
) -> Source {
    let names = (network.populations.iter())
        .flat_map(|p| (0..p.neurons).map(|i| format!("{}{i}", p.name)))
        .collect::<Vec<_>>();
    let output = |neuron: &u32| OutputInfo {
        name: format!("V {}", names[*neuron as usize]),
        unit: "mV".into(),
    };
    Source {
        name: name.to_owned(),
        outputs: traced.iter().map(output).collect(),
        channel_names: names.iter().step_by(every as usize).cloned().collect(),
        electrode_um: None,
        step_seconds: network.step_ms * 1e-3,
        speed: args.speed,
        deadline: None,
        model: None,
    }
}

fn told(network: &Network, engine: &Engine, every: u64) -> Simulation {
    let populations = network.populations.iter().map(|p| {
        let mut parameters = Vec::new();
        let mut say = |name: &str, value: String| parameters.push((name.to_owned(), value));
        if let Neuron::Lif(lif) = p.neuron {
            say("τ_m", format!("{} ms", number(lif.tau_m_ms)));
            say("C_m", format!("{} pF", number(lif.c_m_pf)));
            say("V_th", format!("{} mV", number(lif.threshold_mv)));
            say("V_reset", format!("{} mV", number(lif.reset_mv)));
            say("t_ref", format!("{} ms", number(lif.refractory_ms)));
        } else {
            say("neurons", "fire by call".to_owned());
        }
        match p.synapse {
            Synapse::Exponential { tau_ms, .. } => say("τ_syn", format!("{} ms", number(tau_ms))),
            Synapse::Alpha { tau_ms, .. } => say("α, τ_syn", format!("{} ms", number(tau_ms))),
            Synapse::Psc { order, tau_ms, .. } => {
                say(
                    &format!("PSC of order {order}, τ"),
                    format!("{} ms", number(tau_ms)),
                );
            }
            Synapse::Delta => say("synapses", "delta".to_owned()),
        }
        if let Some(poisson) = p.poisson {
            say("Poisson input", format!("{} Hz", number(poisson.rate_hz)));
        }
        SimulatedPopulation {
            name: p.name.clone(),
            neurons: p.neurons,
            takes_current: p.neuron != Neuron::Source,
            parameters,
        }
    });
    Simulation {
        populations: populations.collect(),
        synapses: engine.synapses(),
        seed: network.seed,
        every: every as u32,
    }
}

/// A network at work.
struct Work {
    engine: Engine,
    feed: Feed,
    every: u32,
    traced: Vec<u32>,
    estimates: Vec<f32>,
    shown: Vec<u32>,
    tick: i64,
    step_ns: u32,
}

impl Work {
    /// Steps as fast as the clock on the wall times `speed`, or as fast as it can, until Ctrl-C.
    fn play(mut self, speed: f64, wishes: &Receiver<Wish>) -> Result<()> {
        let step_seconds = self.engine.network().step_ms * 1e-3;
        let at_once = (LOOK_SECONDS / step_seconds).round().max(1.0) as u64;
        let (mut begun, mut done) = (Instant::now(), 0u64);
        let mut paused = false;
        while !UntilInterrupted.cancelled() {
            while let Ok(wish) = wishes.try_recv() {
                match wish {
                    Wish::Pause(pause) => paused = pause,
                    Wish::Stimulate {
                        population,
                        first,
                        count,
                        current_pa,
                    } => self.stimulate(population, first..first + count, current_pa)?,
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
                // What it cannot keep up with is not made up for later.
                None if now - due > LAG => (begun, done) = (Instant::now(), 0),
                None => {}
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let started = Instant::now();
        self.shown.clear();
        self.engine.step(&mut self.shown)?;
        let took = started.elapsed();
        let every = self.every;
        self.shown.retain(|n| n % every == 0);
        self.shown.iter_mut().for_each(|n| *n /= every);
        self.estimates.clear();
        for &neuron in &self.traced {
            self.estimates.push(self.engine.potential(neuron)?);
        }
        self.feed.take(&Step {
            tick: self.tick,
            input: Input::Spikes(&self.shown),
            estimates: &self.estimates,
            beside: &[],
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
        let all = self.engine.network().populations[population].neurons;
        let mut currents = vec![0.0; all as usize];
        for i in neurons {
            if let Some(current) = currents.get_mut(i as usize) {
                *current = current_pa;
            }
        }
        self.engine.set_currents(population, &currents)
    }
}
