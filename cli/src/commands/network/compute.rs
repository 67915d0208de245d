//! `betz network compute`: from a signal or spikes to the edges of every window.

use std::time::Instant;

use betz::device::Device;
use betz::network::file::{Chance, NetworkFile, Part, Source};
use betz::network::surrogate::{
    Correction, Significance, Surrogate, significant_threshold, significant_threshold_on,
};
use betz::network::{
    Estimate, Measure, Network, NetworkSpec, Plan, Run, Signal, Threshold, Window,
};
use betz::progress::Phases;
use betz::team::Team;
use betz::{Error, ErrorKind, Progress, Result, memory};

use super::args::{Compute, Edges, FdrName, Span, SurrogateName};
use super::frames::Channel;
use super::full::{self, AllPairs};
use super::request::{Request, keeping};
use super::summary::{Seconds, finish};
use super::{expected, input::Input, part, sttc};
use crate::device;
use crate::files::{Files, Kind};
use crate::report::{self, Bar};

pub(super) fn run(args: &Compute) -> Result<()> {
    run_as(None, args)
}

/// By a team, whose processes share out the windows; the first tells and writes.
pub(crate) fn run_by(team: &dyn Team, args: &Compute) -> Result<()> {
    if args.shard.is_some() {
        return Err(Error::argument(
            "--shard: expected none in a team, whose processes share out windows",
        ));
    }
    check_apart(args, "in a team, whose processes share out windows")?;
    run_as(Some(team), args)
}

fn run_as(team: Option<&dyn Team>, args: &Compute) -> Result<()> {
    if args.shard.is_some() {
        check_apart(args, "with --shard, which takes windows apart")?;
    }
    if let Measure::SpikeTiling { .. } = args.edges.measure {
        return sttc::run(args);
    }
    check_request(args)?;
    let device = device::open(&args.common.device)?.with_memory_cap(args.device_memory);
    let chance = significance(args)?;
    let input = Input::read(&args.input, &args.from)?;
    let signal = input.signal()?;
    say_what_hue_means(args);
    say_what_f32_has_lost(&signal, &input);
    let read = report::total_seconds();
    let spec = spec(&args.edges, &signal)?;
    // Errors of the plan are reported before surrogates are drawn.
    let (mut plan, on_cpu) = prepare(args, &spec, &signal, &device, chance.is_some())?;
    if args.dry_run {
        return expected::run(args, &spec, &signal, &plan);
    }
    if let Some(chance) = &chance {
        // As `significant_threshold_on` has it.
        let on_device =
            chance.correction == Correction::Maximum && !plan.ran().device.starts_with("cpu");
        let estimate = if on_device { plan.estimate() } else { on_cpu };
        let hours = args.chance.max_hours;
        say_what_surrogates_take(chance, hours, &spec, &signal, &estimate, on_device)?;
    }
    let Some(out) = &args.out else {
        return Err(Error::argument("--out: expected a file, got none"));
    };
    report::stop_on_interrupt();
    let bar = Bar::new();
    // A surrogate takes as long as the network.
    let surrogates = chance.as_ref().map_or(0, |chance| chance.count as u64);
    let mut phases = Phases::new(&bar, "network", surrogates + 1);
    let (drawing, computing) = (phases.next(surrogates), phases.next(1));
    let mut searched = None;
    if let Some(chance) = &chance {
        let started = Instant::now();
        let found = significant_threshold_on(&device, &spec, &signal, chance, &drawing)?;
        searched = Some(started.elapsed().as_secs_f64());
        plan = with_found(plan, &spec, found.threshold)?;
    }
    let started = Instant::now();
    let planned = plan.windows().len();
    let Some(network) = compute(args, team, &plan, &signal, &computing)? else {
        return Ok(());
    };
    let spec = *plan.spec();
    let complete = args.shard.is_some() || network.len() == planned;
    let all = (args.full && complete).then_some(AllPairs {
        plan: &plan,
        signal: &signal,
        memory: args.memory,
    });
    let large = full::is_large(signal.nodes(), planned);
    let full = match all {
        Some(all) if !large => finished(all.values(&bar))?,
        _ => None,
    };
    let compute = started.elapsed().as_secs_f64();
    drop(bar);
    say_how_it_ran(args, &plan, network.len(), complete);
    let file = NetworkFile {
        window_seconds: input.window_seconds(network.window_start()),
        names: input.names.clone(),
        positions: input.positions.clone(),
        source: Some(source(args, &signal)),
        chance: chance.as_ref().map(recorded),
        complete,
        compact: args.compact,
        full,
        network,
    };
    if let Some(shard) = args.shard {
        return part::finish(args, out, Part::new(&plan, shard, file)?);
    }
    let seconds = Seconds {
        read,
        surrogates: searched,
        compute,
        write: 0.0,
        total: 0.0,
    };
    let asked = Request::new(&spec, &signal);
    finish(args, out, &file, asked, seconds, all.filter(|_| large))
}

/// The values of all pairs; none after a request to stop, so that the network is still written.
fn finished(values: Result<Vec<f32>>) -> Result<Option<Vec<f32>>> {
    match values {
        Err(e) if e.kind() == ErrorKind::Interrupted => {
            full::say_left_out();
            Ok(None)
        }
        values => values.map(Some),
    }
}

/// Refuses a reach, which is of spike tiling alone, and an output that would replace something else than an earlier
/// result.
fn check_request(args: &Compute) -> Result<()> {
    if args.edges.reach.is_some() {
        return Err(Error::argument(format!(
            "--reach: expected --measure sttc, got {}",
            args.edges.measure.name()
        )));
    }
    let mut files = Files::new(&args.common).reads("INPUT", &args.input);
    let kind = match args.shard {
        Some(_) => Kind::NetworkPart,
        None => Kind::Network,
    };
    files.may_write("--out", args.out.as_deref(), kind)
}

/// The plan on its device, and what the CPU would take; with a threshold for now if surrogates will find one.
fn prepare(
    args: &Compute,
    spec: &NetworkSpec,
    signal: &Signal<'_>,
    device: &Device,
    by_chance: bool,
) -> Result<(Plan, Estimate)> {
    let mut plan = within_memory(args, Plan::new(spec, signal)?, signal)?;
    if args.full {
        full::check(spec, signal, plan.windows().len(), args.out.as_deref())?;
    }
    let on_cpu = plan.estimate();
    if by_chance {
        plan = plan.with_threshold(Threshold::Absolute(0.5), spec.strict)?;
    }
    let plan = plan.on(device).map_err(|e| e.at("--device"))?;
    Ok((plan, on_cpu))
}

/// The network of the plan's windows; none where other processes of the team hold it.
fn compute(
    args: &Compute,
    team: Option<&dyn Team>,
    plan: &Plan,
    signal: &Signal<'_>,
    progress: &dyn Progress,
) -> Result<Option<Network>> {
    let work = Run {
        shard: args.shard,
        team,
        keep_finished: team.is_none() && args.shard.is_none(),
    };
    let max_edges = plan.spec().max_edges;
    let network = plan.run_with(work, signal, progress);
    network.map_err(|e| match e.kind() {
        ErrorKind::InvalidArgument if max_edges < args.edges.max_edges => e.at("--memory"),
        ErrorKind::InvalidArgument => e.at("--max-edges"),
        _ => e,
    })
}

/// Says on standard error where the network was computed otherwise than asked for, and whether windows are missing.
fn say_how_it_ran(args: &Compute, plan: &Plan, windows: usize, complete: bool) {
    let ran = plan.ran();
    device::note_fallback(&ran, "the network");
    if args.device_memory.is_some() && ran.memory_cap.is_none() {
        eprintln!("--device-memory has no effect: no GPU is used");
    }
    if !complete {
        eprintln!(
            "stopped after {windows} of {} windows",
            plan.windows().len()
        );
        if args.full {
            eprintln!("--full: the values of all pairs are left out");
        }
    }
}

/// Name and hash of the input.
fn source(args: &Compute, signal: &Signal<'_>) -> Source {
    let name = args.input.file_name().unwrap_or(args.input.as_os_str());
    Source {
        name: name.to_string_lossy().into_owned(),
        hash: format!("{:016x}", signal.hash()),
    }
}

/// The plan with the threshold that surrogates have found.
fn with_found(plan: Plan, spec: &NetworkSpec, threshold: Option<f64>) -> Result<Plan> {
    match threshold {
        // One beyond the largest value is reached by none.
        Some(threshold) if threshold <= 1.0 || spec.measure == Measure::GaussianInformation => {
            plan.with_threshold(Threshold::Absolute(threshold), spec.strict)
        }
        _ => {
            eprintln!("no value exceeds chance: the network has no edge");
            plan.with_threshold(Threshold::Absolute(1.0), true)
        }
    }
}

/// Refuses what is not shared out.
fn check_apart(args: &Compute, why: &str) -> Result<()> {
    for (option, given) in [
        (
            "--measure sttc",
            matches!(args.edges.measure, Measure::SpikeTiling { .. }),
        ),
        ("--surrogates", args.chance.surrogates.is_some()),
        ("--full", args.full),
        ("--dry-run", args.dry_run),
    ] {
        if given {
            return Err(Error::argument(format!("{option}: expected none {why}")));
        }
    }
    Ok(())
}

/// Hue is an angle, of which most measures take both ends for far apart.
fn say_what_hue_means(args: &Compute) {
    let measure = args.edges.measure.name();
    if args.from.channel == Some(Channel::Hue) && !matches!(measure, "plv" | "ciplv" | "ppc") {
        eprintln!(
            "--channel hue: hue is an angle from 0 to 2π, both of them red, and {measure} takes a step from one to the \
             other for a large change; --measure plv, ciplv and ppc compare angles"
        );
    }
}

/// An offset that is large beside what varies has cost digits before Betz saw them.
fn say_what_f32_has_lost(signal: &Signal<'_>, input: &Input) {
    let coarse = signal.coarse();
    let Some(first) = coarse.first() else {
        return;
    };
    let name = match input.names.as_ref().and_then(|names| names.get(*first)) {
        Some(name) => format!("{first} ({name})"),
        None => first.to_string(),
    };
    eprintln!(
        "{} of {} nodes, {name} the first of them: f32 samples of their size are further apart than a hundredth of \
         their standard deviation; subtract the offset before they are written as f32, or write f64",
        coarse.len(),
        signal.nodes()
    );
}

/// The plan within what `--memory` leaves beside the signal: with no more edges than fit.
fn within_memory(args: &Compute, plan: Plan, signal: &Signal<'_>) -> Result<Plan> {
    /// Bytes of an edge while it is found and kept: its chunk's lists, and the network's.
    const EDGE: u64 = 32;
    let Some(memory) = args.memory else {
        return Ok(plan);
    };
    let of_signal = signal.bytes() as u64;
    let left = memory.checked_sub(of_signal).ok_or_else(|| {
        Error::argument(format!(
            "--memory: expected more than the signal's {}, got {}",
            memory::size(of_signal),
            memory::size(memory)
        ))
    })?;
    // A quarter at least is the edges'.
    let plan = plan
        .with_memory(left - left / 4)
        .map_err(|e| e.at("--memory"))?;
    let edges = (left - plan.estimate().bytes) / EDGE;
    Ok(plan.with_max_edges(edges))
}

/// Says how long surrogates will take, before they are drawn: by arithmetic, then, on the CPU, by the time of one.
///
/// # Errors
/// `--surrogates` where that is more than `hours`.
fn say_what_surrogates_take(
    chance: &Significance,
    hours: f64,
    spec: &NetworkSpec,
    signal: &Signal<'_>,
    estimate: &Estimate,
    on_device: bool,
) -> Result<()> {
    if hours.is_nan() || hours <= 0.0 {
        return Err(Error::argument(format!(
            "--max-hours: expected a positive number, got {hours}"
        )));
    }
    let take = |seconds: f64| -> Result<String> {
        let all = seconds * chance.count as f64;
        let say = format!(
            "{} of {} take about {}",
            report::count(chance.count as u128, "surrogate"),
            report::count(estimate.windows as u128, "window"),
            report::duration(all)
        );
        if all > hours * 3600.0 {
            return Err(Error::argument(format!(
                "--surrogates: expected no more than {} of work (--max-hours), {say}; fewer surrogates, a longer --step or fewer nodes take less",
                report::duration(hours * 3600.0)
            )));
        }
        Ok(say)
    };
    let said = take(estimate.seconds)?;
    if on_device {
        eprintln!("{said}");
        return Ok(());
    }
    let started = Instant::now();
    let one = Significance {
        count: 1,
        alpha: 0.5,
        ..*chance
    };
    significant_threshold(spec, signal, &one, &())?;
    eprintln!("{}", take(started.elapsed().as_secs_f64())?);
    Ok(())
}

/// Number of samples of `signal` in `span`.
pub(super) fn samples(option: &str, span: Span, signal: &Signal<'_>) -> Result<usize> {
    match (span, signal.sample_seconds()) {
        (Span::Samples(samples), _) => Ok(samples),
        (Span::Seconds(asked), Some(seconds)) => {
            let samples = (asked / seconds).round();
            if !(1.0..1e15).contains(&samples) {
                return Err(Error::argument(format!(
                    "{option}: expected at least a sample of {seconds} s, got {asked} s"
                )));
            }
            Ok(samples as usize)
        }
        (Span::Seconds(asked), None) => Err(Error::argument(format!(
            "{option}: the time between samples is not known: expected a number of samples, or --sample-seconds, got {asked} s"
        ))),
    }
}

/// The specification that `edges` asks for, of a signal like `signal`.
pub(super) fn spec(edges: &Edges, signal: &Signal<'_>) -> Result<NetworkSpec> {
    let window = Window {
        length: samples("--window", edges.window, signal)?,
        step: samples("--step", edges.step, signal)?,
    };
    let measure = measure(edges, signal, window)?;
    Ok(keeping(NetworkSpec::new(measure, window), edges))
}

/// The measure that `edges` ask for, in windows of `window`.
pub(super) fn measure(edges: &Edges, signal: &Signal<'_>, window: Window) -> Result<Measure> {
    let only = |option: &str, of: &str| {
        Err(Error::argument(format!(
            "{option}: expected --measure {of}, got {}",
            edges.measure.name()
        )))
    };
    for (option, given, of) in [
        ("--lags", edges.lags.is_some(), "lagged"),
        ("--hold", edges.hold.is_some(), "euclidean"),
        ("--near", edges.near.is_some(), "distance"),
        ("--gap", edges.gap.is_some(), "distance"),
        ("--earth", edges.earth, "distance"),
        ("--band", edges.band.is_some(), "dtw"),
        ("--normalise", edges.normalise, "dtw"),
        ("--segment", edges.segment.is_some(), "coherence"),
        ("--frequencies", edges.frequencies.is_some(), "coherence"),
        ("--peak", edges.peak, "coherence"),
    ] {
        if given && edges.measure.name() != of {
            return only(option, of);
        }
    }
    // Each of these may be 0.
    let some = |option: &str, span: Option<Span>, otherwise: usize| match span {
        None => Ok(otherwise),
        Some(Span::Samples(0)) => Ok(0),
        Some(span) => samples(option, span, signal),
    };
    Ok(match edges.measure {
        Measure::Lagged { .. } if edges.lags.is_none() => {
            return Err(Error::argument(
                "--lags: expected the largest shift for --measure lagged, got none",
            ));
        }
        Measure::Lagged { .. } => Measure::Lagged {
            lags: some("--lags", edges.lags, 0)?,
        },
        Measure::Euclidean { .. } => Measure::Euclidean {
            hold: edges.hold.unwrap_or(1),
        },
        Measure::Distance { .. } => Measure::Distance {
            near: some("--near", edges.near, window.length)?,
            gap: some("--gap", edges.gap, 0)?,
            earth: edges.earth,
        },
        Measure::Warping { .. } => Measure::Warping {
            band: some("--band", edges.band, (window.length / 10).max(1))?,
            normalised: edges.normalise,
        },
        Measure::Coherence { .. } => {
            let segment = some("--segment", edges.segment, window.length / 4)?;
            let seconds = signal.sample_seconds();
            if let (Some((low, high)), None) = (edges.frequencies, seconds) {
                return Err(Error::argument(format!(
                    "--frequencies: the time between samples is not known: expected --sample-seconds with {low} to {high} Hz"
                )));
            }
            Measure::coherence(
                segment,
                edges.frequencies,
                seconds.unwrap_or(1.0),
                edges.peak,
            )?
        }
        measure => measure,
    })
}

fn significance(args: &Compute) -> Result<Option<Significance>> {
    let asked = &args.chance;
    let Some(count) = asked.surrogates else {
        return Ok(None);
    };
    let (alpha, correction) = match asked.fdr {
        Some(rate) => match asked.fdr_procedure {
            FdrName::BenjaminiHochberg => (rate, Correction::FalseDiscovery),
            FdrName::BenjaminiYekutieli => (rate, Correction::FalseDiscoveryAnyDependence),
        },
        None => (asked.alpha.unwrap_or(0.05), Correction::Maximum),
    };
    Ok(Some(Significance {
        surrogate: match asked.surrogate {
            SurrogateName::Phase => Surrogate::PhaseRandomised,
            SurrogateName::Shift => Surrogate::CircularShift,
        },
        count,
        alpha,
        correction,
        seed: asked.seed,
    }))
}

fn recorded(chance: &Significance) -> Chance {
    Chance {
        surrogates: chance.count,
        kind: match chance.surrogate {
            Surrogate::PhaseRandomised => "phase",
            Surrogate::CircularShift => "shift",
        }
        .to_owned(),
        correction: match chance.correction {
            Correction::Maximum => "maximum",
            Correction::FalseDiscovery => "false-discovery",
            Correction::FalseDiscoveryAnyDependence => "false-discovery-any-dependence",
        }
        .to_owned(),
        alpha: chance.alpha,
        seed: chance.seed,
    }
}
