//! A spiking network: the paper's, a model's or one's own; what it takes, what it does.

mod stimulus;
mod told;
mod weights;
mod written;

use std::io::Write;
use std::path::{Path, PathBuf};

use betz::file::write_atomically;
use betz::spiking::connections::{self, Delays};
use betz::spiking::models::{self, galbraith};
use betz::spiking::{
    Engine, ListedSynapse, Network, Options, Phases, Plan, Report, StreamCost, write_counts,
};
use betz::team::Team;
use betz::{Error, ErrorKind, Progress, Result};
use serde::Serialize;

use super::activity::Activity;
use super::args::Simulate;
use super::lab_args::{Compat, SpikingArgs};
use super::movement;
use super::recording_file::RecordingFile;
use crate::device;
use crate::files::{self, Files, Kind};
use crate::parse;
use crate::report::{self, Bar, Outcome, count};
use weights::{WEIGHTS, WeightTable};
use written::{TRACES, draw, write_recording, write_traces};

/// Seconds simulated unless told otherwise: of the paper's networks, and of models.
const PAPER_SECONDS: f64 = 10.0;
const MODEL_SECONDS: f64 = 1.0;
/// Neurons from which on threads have enough to do between two meetings.
const SHARED_FROM: u64 = 5_000;
/// Milliseconds that a raster shows, as the paper's.
const SHOWN_MS: f64 = 250.0;

impl SpikingArgs {
    /// True if the options request a spiking network.
    pub(super) fn is_asked_for(&self) -> bool {
        self.ring.is_some()
            || self.full.is_some()
            || self.random.is_some()
            || self.model.is_some()
            || self.spec.is_some()
            || self.connections.is_some()
            || self.patterns
    }
}

/// Size of the network, known before anything is built.
#[derive(Serialize)]
struct PlanReport {
    #[serde(skip)]
    text: String,
    #[serde(skip)]
    plan: Plan,
    device: String,
    neurons: u64,
    synapses: f64,
    threads: usize,
    bytes: u64,
    building_bytes: u64,
    /// Most bytes of a rank, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    streaming: Option<StreamCost>,
    shortest_delay_steps: u32,
    longest_delay_steps: u32,
    weight_unit: f64,
    steps: u64,
}

/// Results of a simulation.
#[derive(Serialize)]
struct SpikingReport {
    neurons: u64,
    synapses: u64,
    /// A hash of all synapses, and one of all spikes, in hexadecimal.
    synapse_hash: String,
    steps: u64,
    spikes: u64,
    hash: String,
    /// Seconds of the simulation, without building.
    seconds: f64,
    /// Seconds for a second of the network's time.
    rtf: f64,
    build_seconds: f64,
    us_per_step: f64,
    synaptic_events: u64,
    /// Device and layout of the neurons.
    device: String,
    path: &'static str,
    threads: usize,
    #[serde(skip_serializing_if = "alone")]
    ranks: usize,
    bytes: u64,
    /// Largest sum of inputs of a step, as a share of the fixed-point range.
    fixed_point_use: f64,
    rates_hz: Vec<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Phases>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<RecordingFile>,
    spikes_left_out: u64,
    interrupted: bool,
}

fn alone(ranks: &usize) -> bool {
    *ranks == 1
}

/// Mean rate of a population after `--settle`.
#[derive(Serialize)]
struct Rate {
    population: String,
    neurons: u32,
    hz: f64,
}

/// By a team of processes; the first tells and writes.
pub(super) fn run_by(team: &'static dyn Team, args: &Simulate) -> Result<()> {
    let asked = &args.spiking;
    if asked.patterns {
        return super::patterns::run(args);
    }
    let network = network(args)?;
    let (steps, settle) = lengths(args, &network)?;
    check_files(args)?;
    let options = options(team, args, &network)?;
    if asked.dry_run {
        let plan = plan(team, &network, &options, steps).map_err(|e| of_file(asked, e))?;
        return match team.rank() {
            0 => {
                note_rounded(&plan.plan);
                note_device_memory(asked.device_memory.is_some() && plan.device == "cpu");
                report::tell(&plan, args.common.json)
            }
            _ => Ok(()),
        };
    }
    report::stop_on_interrupt();
    let bar = Bar::new();
    let mut engine = match team.size() {
        1 => Engine::build(&network, &options, &bar),
        _ => Engine::build_in(team, &network, &options, &bar),
    }
    .map_err(|e| of_file(asked, e))?;
    let first = team.rank() == 0;
    note_device_memory(first && asked.device_memory.is_some() && engine.ran().memory_cap.is_none());
    if let (true, Some(path)) = (first, &asked.write_spec) {
        let text = network.to_json()?;
        write_atomically(path, |file| writeln!(file, "{text}"))?;
    }
    if first {
        note_rounded(engine.plan());
    }
    stimulus::drive(team, &mut engine, asked)?;
    let movement = movement::follow(&mut engine, asked.movement.as_deref())?;
    let mut activity = Activity::new(&network, SHOWN_MS);
    let mut ran = RunTotals::default();
    ran.steps(&mut engine, settle, &bar)?;
    let before = engine.counts();
    // The raster hears the last steps one by one, a live one all of them.
    let drawn = asked.raster && !args.common.json;
    let heard = if asked.live {
        steps
    } else if drawn || args.picture.is_some() {
        activity.steps().min(steps)
    } else {
        0
    };
    let mut weights = WeightTable::of(&engine, asked.weights.is_some())?;
    match &mut weights {
        Some(weights) => weights.run(&mut ran, &mut engine, steps - heard, &bar)?,
        None => ran.steps(&mut engine, steps - heard, &bar)?,
    }
    drop(bar);
    let ends = team.size() == 1;
    ran.heard(&mut engine, heard, &mut activity, asked.live, ends)?;
    if let Some(weights) = &mut weights {
        // The last state, also after steps that were drawn one by one, and after Ctrl-C.
        weights.count(&engine)?;
    }
    let report = engine.run(0, &())?;
    if !first {
        return others(team, &engine, args, ran.interrupted);
    }
    let place = |path: &Option<PathBuf>| {
        (path.as_deref()).map(|path| files::destination(path, !ran.interrupted))
    };
    let recording = match place(&args.out) {
        Some(path) => Some(write_recording(
            &engine,
            args,
            &path,
            movement.as_ref(),
            ran.interrupted,
        )?),
        None => None,
    };
    if let Some(path) = place(&asked.counts) {
        write_counts(&path, &engine.counts())?;
    }
    if let Some(path) = place(&asked.write_connections) {
        connections::write_learned(&path, &engine)?;
    }
    if let (Some(path), Some(weights)) = (place(&asked.weights), &weights) {
        weights.write(&path)?;
    }
    if let Some(path) = place(&asked.traces) {
        write_traces(&path, &engine)?;
    }
    if let Some(path) = place(&args.picture) {
        draw(&engine, &activity, &path)?;
    }
    device::note_fallback(engine.ran(), "the simulation");
    let simulated = SpikingReport {
        rates_hz: rates(&engine, &before, settle.min(engine.steps())),
        phases: asked.phases.then_some(ran.phases),
        recording,
        ranks: team.size(),
        ..SpikingReport::new(&engine, report, &ran, network.step_ms)
    };
    if drawn {
        activity.print()?;
    }
    report::tell(&simulated, args.common.json)?;
    // The other ranks wait until all is written: the first one that reports an interruption ends the job.
    team.gather(&[0])?;
    match simulated.interrupted {
        true => Err(report::interrupted("the simulation")),
        false => Ok(()),
    }
}

/// An error of a network that cannot be built: names the file that describes it.
fn of_file(asked: &SpikingArgs, error: Error) -> Error {
    match &asked.spec {
        Some(path) if error.kind() == ErrorKind::InvalidArgument => error.at(path.display()),
        _ => error,
    }
}

/// Tells of listed weights that round to 0.
fn note_rounded(plan: &Plan) {
    for weights in &plan.rounded_weights {
        eprintln!("note: {weights}");
    }
}

/// The part of a rank that writes nothing: it sends what the first one asks for.
fn others(team: &dyn Team, engine: &Engine, args: &Simulate, interrupted: bool) -> Result<()> {
    if args.spiking.write_connections.is_some() {
        for projection in 0..engine.network().projections.len() {
            engine.weights(projection)?;
        }
    }
    team.gather(&[0])?;
    match interrupted {
        true => Err(report::interrupted("the simulation")),
        false => Ok(()),
    }
}

/// Refuses files that cannot be read or written, before any work.
fn check_files(args: &Simulate) -> Result<()> {
    let asked = &args.spiking;
    let mut files = Files::new(&args.common)
        .may_read("--spec", asked.spec.as_deref())
        .may_read("--connections", asked.connections.as_deref())
        .may_read("--movement", asked.movement.as_deref());
    files.may_write("--out", args.out.as_deref(), Kind::Simulated)?;
    files.may_write("--counts", asked.counts.as_deref(), Kind::SpikeCounts)?;
    files.may_write("--traces", asked.traces.as_deref(), TRACES)?;
    files.may_write("--weights", asked.weights.as_deref(), WEIGHTS)?;
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    if asked.trace.is_some() && asked.traces.is_none() && args.picture.is_none() {
        return Err(Error::argument(
            "--trace: expected --traces FILE or --picture FILE to write them to, got neither",
        ));
    }
    let (spec, connections) = (&asked.write_spec, &asked.write_connections);
    files.may_write("--write-spec", spec.as_deref(), Kind::SpikingSpec)?;
    files.may_write(
        "--write-connections",
        connections.as_deref(),
        Kind::Connections,
    )
}

/// Options of the engine for `network`.
fn options(team: &dyn Team, args: &Simulate, network: &Network) -> Result<Options> {
    let asked = &args.spiking;
    let threads = match asked.threads {
        Some(threads) => threads,
        // Ranks are the threads of a team.
        None if asked.live || network.neurons() < SHARED_FROM || team.size() > 1 => 1,
        None => rayon::current_num_threads(),
    };
    let device = device::open(&args.common.device)
        .map_err(|e| e.at("--device"))?
        .with_memory_cap(asked.device_memory.or(asked.memory));
    if asked.live && threads != 1 {
        return Err(Error::argument(format!(
            "--live: expected one thread, got --threads {threads}"
        )));
    }
    if asked.live && team.size() > 1 {
        return Err(Error::argument(
            "--live: expected betz simulate, got several ranks",
        ));
    }
    let traced = match &asked.trace {
        Some(list) => parse::ranges("--trace", list, network.neurons() as usize)?,
        None => Vec::new(),
    };
    Ok(Options {
        device,
        threads,
        memory_limit: asked.memory,
        record_spikes: match &args.out {
            Some(_) if team.rank() == 0 => usize::try_from(asked.max_spikes).unwrap_or(usize::MAX),
            _ => 0,
        },
        record_potentials: traced.iter().map(|&neuron| neuron as u32).collect(),
        time_phases: asked.phases,
    })
}

impl SpikingReport {
    /// Of a network that has run, without rates, phases and recording.
    fn new(engine: &Engine, report: Report, ran: &RunTotals, step_ms: f64) -> Self {
        let steps = engine.steps() as f64;
        Self {
            device: report.device,
            path: engine.ran().path,
            neurons: report.neurons,
            synapses: report.synapses,
            synapse_hash: format!("{:016x}", engine.synapse_hash()),
            steps: engine.steps(),
            spikes: report.spikes,
            hash: format!("{:016x}", report.hash),
            seconds: ran.seconds,
            rtf: ran.seconds / (steps * step_ms * 1e-3).max(f64::MIN_POSITIVE),
            build_seconds: report.build_seconds,
            us_per_step: ran.seconds * 1e6 / steps.max(1.0),
            synaptic_events: engine.synaptic_events(),
            threads: report.threads,
            ranks: 1,
            bytes: engine.plan().bytes(),
            fixed_point_use: engine.fixed_point_use(),
            rates_hz: Vec::new(),
            phases: None,
            recording: None,
            spikes_left_out: report.spikes_left_out,
            interrupted: ran.interrupted,
        }
    }
}

/// The network that was asked for.
fn network(args: &Simulate) -> Result<Network> {
    let asked = &args.spiking;
    let order = asked.order.unwrap_or(0);
    let mut paper = if let Some(neurons) = asked.ring {
        galbraith::ring(neurons, order).map_err(|e| e.at("--ring"))?
    } else if let Some(neurons) = asked.full {
        galbraith::full(neurons, order).map_err(|e| e.at("--full"))?
    } else if let Some(text) = &asked.random {
        let (neurons, synapses) = neurons_and_synapses(text)?;
        galbraith::random(neurons, synapses, order, args.seed).map_err(|e| e.at("--random"))?
    } else if let Some(path) = &asked.connections {
        let neurons = args
            .neurons
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(u32::MAX);
        let listed = listed(path, neurons, asked.ignore_delays)?;
        galbraith::listed(neurons, listed, order).map_err(|e| e.at("--connections"))?
    } else if let Some(path) = &asked.spec {
        return super::network_file(path);
    } else {
        let name = asked.model.as_deref().unwrap_or_default();
        let scale = asked.scale.unwrap_or(1.0);
        return models::by_name(name, scale, args.seed).map_err(|e| e.at("--model"));
    };
    if asked.compat != Some(Compat::Galbraith) {
        galbraith::endless(&mut paper);
    }
    Ok(paper)
}

/// The synapses of a file. The folder of the paper's simulator holds more than those: a note says so.
fn listed(path: &Path, neurons: u32, ignore_delays: bool) -> Result<Vec<ListedSynapse>> {
    let delays = match ignore_delays {
        true => Delays::Ignored,
        false => Delays::Seconds {
            step_ms: galbraith::STEP_MS,
        },
    };
    let listed = connections::read(path, neurons, delays).map_err(|e| match delays {
        Delays::Seconds { .. } if e.message().contains("a delay of 1 to") => {
            e.at("--connections (--ignore-delays reads it without its delays)")
        }
        _ => e,
    })?;
    let timing = path.with_file_name("timing.xml");
    if timing.exists() {
        eprintln!(
            "note: {} is not read: every neuron has the constants of docs/spiking.md; give others by --spec",
            timing.display()
        );
    }
    Ok(listed)
}

/// `1000,500000`.
fn neurons_and_synapses(text: &str) -> Result<(u32, u64)> {
    let parsed = text
        .split_once(',')
        .and_then(|(n, s)| Some((n.trim().parse().ok()?, s.trim().parse().ok()?)));
    parsed.ok_or_else(|| {
        Error::argument(format!(
            "--random: expected neurons and synapses such as 1000,500000, got '{text}'"
        ))
    })
}

/// Steps in all after those of `--settle`, and those.
fn lengths(args: &Simulate, network: &Network) -> Result<(u64, u64)> {
    let asked = &args.spiking;
    let default = if asked.model.is_some() || asked.spec.is_some() {
        MODEL_SECONDS
    } else {
        PAPER_SECONDS
    };
    let steps =
        |option: &str, seconds: f64| network.steps_of(seconds * 1e3).map_err(|e| e.at(option));
    let length = steps("--seconds", args.seconds.unwrap_or(default))?;
    if length == 0 {
        return Err(Error::argument(
            "--seconds: expected at least one step, got 0",
        ));
    }
    Ok((length, steps("--settle", asked.settle.unwrap_or(0.0))?))
}

fn note_device_memory(is_idle: bool) {
    if is_idle {
        eprintln!("--device-memory has no effect: no GPU is used");
    }
}

fn plan(team: &dyn Team, network: &Network, options: &Options, steps: u64) -> Result<PlanReport> {
    let (plan, ran, share) = match team.size() {
        1 => {
            let (plan, ran) = Engine::plan_for(network, options)?;
            (plan, ran, None)
        }
        ranks => {
            let (plan, ran) = Engine::plan_in(team, network, options)?;
            let share = plan.share_bytes(plan.threads.div_ceil(ranks));
            (plan, ran, Some(share))
        }
    };
    let each = share.map(|bytes| {
        format!(
            "\n{}: at most {:.1} MB each",
            count(team.size() as u64, "rank"),
            bytes as f64 / 1e6
        )
    });
    Ok(PlanReport {
        text: format!(
            "{}: {plan}{}\n{} of {} ms",
            ran.device,
            each.unwrap_or_default(),
            count(steps, "step"),
            network.step_ms
        ),
        device: ran.device,
        neurons: plan.neurons,
        synapses: plan.synapses,
        threads: plan.threads,
        bytes: plan.bytes(),
        building_bytes: plan.building_bytes,
        rank_bytes: share,
        streaming: plan.streaming,
        shortest_delay_steps: plan.shortest_delay,
        longest_delay_steps: plan.longest_delay,
        weight_unit: plan.weight_unit,
        plan,
        steps,
    })
}

impl Outcome for PlanReport {
    fn print(&self) -> Result<()> {
        report::line(&self.text)
    }
}

/// Total time of the runs.
#[derive(Default)]
struct RunTotals {
    seconds: f64,
    phases: Phases,
    interrupted: bool,
}

impl RunTotals {
    /// Runs `steps` steps on the engine's threads; fewer after Ctrl-C.
    fn steps(&mut self, engine: &mut Engine, steps: u64, bar: &Bar) -> Result<()> {
        if steps == 0 || self.interrupted {
            return Ok(());
        }
        let started = std::time::Instant::now();
        match engine.run(steps, bar) {
            Ok(report) => self.add(&report),
            Err(e) if e.kind() == ErrorKind::Interrupted => {
                self.interrupted = true;
                self.seconds += started.elapsed().as_secs_f64();
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn add(&mut self, report: &Report) {
        self.seconds += report.seconds;
        self.phases.update_seconds += report.phases.update_seconds;
        self.phases.exchange_seconds += report.phases.exchange_seconds;
        self.phases.deliver_seconds += report.phases.deliver_seconds;
    }

    /// Runs the steps one by one and hands each to the raster. Steps that are watched `live` run in real time and are
    /// drawn as they come. Ctrl-C `ends` them, unless other ranks would wait.
    fn heard(
        &mut self,
        engine: &mut Engine,
        steps: u64,
        activity: &mut Activity,
        live: bool,
        ends: bool,
    ) -> Result<()> {
        let begun = std::time::Instant::now();
        let step_seconds = engine.network().step_ms * 1e-3;
        let mut fired = Vec::new();
        let mut view = live.then(super::activity::View::open).transpose()?;
        for step in 0..steps {
            if ends && report::UntilInterrupted.cancelled() || self.interrupted {
                self.interrupted = true;
                break;
            }
            let started = std::time::Instant::now();
            engine.step(&mut fired)?;
            self.seconds += started.elapsed().as_secs_f64();
            activity.hear(&fired);
            if let Some(view) = &mut view {
                let simulated = (step + 1) as f64 * step_seconds;
                view.show(activity, simulated, begun.elapsed().as_secs_f64())?;
            }
        }
        Ok(())
    }
}

/// Rates of the populations since `before` was counted, at step `settled`.
fn rates(engine: &Engine, before: &[u32], settled: u64) -> Vec<Rate> {
    let network = engine.network();
    let seconds = (engine.steps() - settled) as f64 * network.step_ms * 1e-3;
    let (counts, firsts) = (engine.counts(), network.firsts());
    (network.populations.iter().enumerate())
        .map(|(p, population)| {
            let own = firsts[p] as usize..firsts[p + 1] as usize;
            let spikes: u64 = own.map(|i| u64::from(counts[i] - before[i])).sum();
            Rate {
                population: population.name.clone(),
                neurons: population.neurons,
                hz: spikes as f64 / f64::from(population.neurons) / seconds.max(f64::MIN_POSITIVE),
            }
        })
        .collect()
}
