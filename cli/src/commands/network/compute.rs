//! `betz network compute`: from a signal or spikes to the edges of every window.

use std::time::Instant;

use betz::network::file::{Chance, NetworkFile, Source};
use betz::network::surrogate::{Correction, Significance, Surrogate, significant_threshold};
use betz::network::{Measure, NetworkSpec, Plan, Sign, Signal, Threshold, Window};
use betz::{Error, Result};
use serde::Serialize;

use super::asked::Asked;
use super::{Spread, expected, input::Input};
use crate::device;
use crate::files::{Files, Kind};
use crate::network_args::{Compute, SignName, Span, SurrogateName};
use crate::report::{self, Bar};

#[derive(Serialize)]
struct Seconds {
    read: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    surrogates: Option<f64>,
    compute: f64,
    write: f64,
    total: f64,
}

#[derive(Serialize)]
struct Undefined {
    constant: u64,
    nonfinite: u64,
}

#[derive(Serialize)]
struct Computed {
    #[serde(flatten)]
    asked: Asked,
    windows: usize,
    edges: u64,
    density: Option<Spread>,
    undefined: Undefined,
    trailing: usize,
    rechecked: u64,
    rebuilt: u64,
    extreme: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance: Option<Chance>,
    complete: bool,
    seconds: Seconds,
    device: String,
    out: String,
}

pub(super) fn run(args: &Compute) -> Result<()> {
    let device = device::open(&args.common.device)?.with_memory_cap(args.device_memory);
    let mut files = Files::new(&args.common).reads("INPUT", &args.input);
    files.may_write("--out", args.out.as_deref(), Kind::Network)?;
    let chance = significance(args)?;
    let input = Input::read(&args.input, &args.from)?;
    let signal = input.signal()?;
    let read = report::total_seconds();
    let mut spec = spec(args, &signal)?;
    // Whatever is wrong with it is said before surrogates are drawn.
    let plan = Plan::new(&spec, &signal)?;
    let planned = if chance.is_some() {
        // With the threshold that surrogates will have found.
        Plan::new(&spec.threshold(Threshold::Absolute(0.5)), &signal)?.on(&device)
    } else {
        plan.on(&device)
    };
    let planned = planned.map_err(|e| e.at("--device"))?;
    if args.dry_run {
        return expected::run(args, &spec, &signal, &planned);
    }
    let Some(out) = &args.out else {
        return Err(Error::argument("--out: expected a file, got none"));
    };
    report::stop_on_interrupt();
    let bar = Bar::new();
    let mut searched = None;
    if let Some(chance) = &chance {
        let started = Instant::now();
        let found = significant_threshold(&spec, &signal, chance, &bar)?;
        searched = Some(started.elapsed().as_secs_f64());
        match found.threshold {
            // One beyond the largest value is reached by none.
            Some(threshold) if threshold <= 1.0 || spec.measure == Measure::GaussianInformation => {
                spec.threshold = Threshold::Absolute(threshold);
            }
            _ => {
                eprintln!("no value is more than chance: the network has no edge");
                spec.threshold = Threshold::Absolute(1.0);
                spec.strict = true;
            }
        }
    }
    let started = Instant::now();
    let plan = Plan::new(&spec, &signal)?.on(&device)?;
    let planned = plan.windows().len();
    let network = plan
        .run_until_stopped(&signal, &bar)
        .map_err(|e| match e.kind() {
            betz::ErrorKind::InvalidArgument => e.at("--max-edges"),
            _ => e,
        })?;
    let compute = started.elapsed().as_secs_f64();
    drop(bar);
    let ran = plan.ran();
    device::note_fallback(&ran, "the network");
    if args.device_memory.is_some() && ran.memory_cap.is_none() {
        eprintln!("--device-memory made no difference: no GPU is used");
    }
    let complete = network.len() == planned;
    if !complete {
        eprintln!(
            "stopped: {} of {planned} windows are done and kept",
            network.len()
        );
    }
    let started = Instant::now();
    let name = args.input.file_name().unwrap_or(args.input.as_os_str());
    let file = NetworkFile {
        window_seconds: input.window_seconds(network.window_start()),
        names: input.names.clone(),
        positions: input.positions.clone(),
        source: Some(Source {
            name: name.to_string_lossy().into_owned(),
            hash: format!("{:016x}", signal.hash()),
        }),
        chance: chance.as_ref().map(recorded),
        complete,
        network,
    };
    file.write(out)?;
    let network = &file.network;
    let meta = network.meta();
    let (constant, nonfinite) = network.undefined();
    let computed = Computed {
        asked: Asked::new(&spec, &signal),
        windows: network.len(),
        edges: network.edges(),
        density: Spread::of((0..network.len()).filter_map(|k| network.density(k))),
        undefined: Undefined {
            constant,
            nonfinite,
        },
        trailing: meta.trailing,
        rechecked: meta.rechecked,
        rebuilt: meta.rebuilt,
        extreme: meta.extreme,
        chance: file.chance.clone(),
        complete,
        seconds: Seconds {
            read,
            surrogates: searched,
            compute,
            write: started.elapsed().as_secs_f64(),
            total: report::total_seconds(),
        },
        device: meta.device.clone(),
        out: out.display().to_string(),
    };
    if args.common.json {
        return report::json(&computed);
    }
    computed.print()
}

impl Computed {
    fn print(&self) -> Result<()> {
        let asked = &self.asked;
        report::line(&format!(
            "{}: {} of {} of {} samples every {}, {} by {}",
            self.out,
            report::count(self.windows as u128, "window"),
            report::count(asked.nodes as u128, "node"),
            asked.window,
            asked.step,
            report::count(self.edges, "edge"),
            asked.measure
        ))?;
        if let Some(threshold) = asked.threshold {
            let found = if self.chance.is_some() {
                ", found from surrogates"
            } else {
                ""
            };
            report::line(&format!("threshold {threshold:.6}{found}"))?;
        }
        if let Some(density) = &self.density {
            report::line(&format!(
                "density {:.4} % (from {:.4} to {:.4} %)",
                density.mean * 100.0,
                density.min * 100.0,
                density.max * 100.0
            ))?;
        }
        let Undefined {
            constant,
            nonfinite,
        } = self.undefined;
        if constant + nonfinite > 0 {
            report::line(&format!(
                "undefined, counted in each window: {} constant, {nonfinite} not finite",
                report::count(constant, "node")
            ))?;
        }
        if self.trailing > 0 {
            report::line(&format!(
                "in no window: {}",
                report::count(self.trailing as u128, "sample")
            ))?;
        }
        let Seconds {
            read,
            compute,
            write,
            total,
            ..
        } = self.seconds;
        report::line(&format!(
            "read {read:.2} s, compute {compute:.2} s, write {write:.2} s, {total:.2} s in all ({})",
            self.device
        ))
    }
}

/// So many samples of `signal`.
fn samples(option: &str, span: Span, signal: &Signal<'_>) -> Result<usize> {
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
            "{option}: expected samples, or --sample-seconds beside a time, for the file does not say it; got {asked} s"
        ))),
    }
}

fn spec(args: &Compute, signal: &Signal<'_>) -> Result<NetworkSpec> {
    let edges = &args.edges;
    let measure = measure(args, signal)?;
    let window = Window {
        length: samples("--window", edges.window, signal)?,
        step: samples("--step", edges.step, signal)?,
    };
    let threshold = match (
        edges.threshold,
        edges.density,
        edges.top,
        edges.top_per_node,
    ) {
        (Some(value), ..) => Threshold::Absolute(value),
        (_, Some(share), ..) => Threshold::Density(share),
        (_, _, Some(count), _) => Threshold::Top(count),
        (.., Some(count)) => Threshold::TopPerNode(count),
        // Surrogates find one.
        _ => Threshold::Top(1),
    };
    Ok(NetworkSpec::new(measure, window)
        .threshold(threshold)
        .sign(match edges.sign {
            SignName::Both => Sign::Both,
            SignName::Pos => Sign::Positive,
            SignName::Neg => Sign::Negative,
        })
        .strict(edges.strict)
        .max_edges(edges.max_edges))
}

fn measure(args: &Compute, signal: &Signal<'_>) -> Result<Measure> {
    let edges = &args.edges;
    let named = Measure::named(&edges.measure).ok_or_else(|| {
        Error::argument(format!(
            "--measure: expected one of {}, got {}",
            Measure::names().join(", "),
            edges.measure
        ))
    })?;
    let only = |option: &str, of: &str| {
        Err(Error::argument(format!(
            "{option}: expected --measure {of} beside it, got {}",
            edges.measure
        )))
    };
    match (named, edges.lags, edges.hold) {
        (Measure::Lagged { .. }, Some(lags), None) => Ok(Measure::Lagged {
            lags: match lags {
                Span::Samples(0) => 0,
                lags => samples("--lags", lags, signal)?,
            },
        }),
        (Measure::Lagged { .. }, None, None) => Err(Error::argument(
            "--lags: expected the largest shift for --measure lagged, got none",
        )),
        (Measure::Distance { .. }, None, hold) => Ok(Measure::Distance {
            hold: hold.unwrap_or(1),
        }),
        (_, Some(_), _) => only("--lags", "lagged"),
        (_, _, Some(_)) => only("--hold", "distance"),
        (measure, None, None) => Ok(measure),
    }
}

fn significance(args: &Compute) -> Result<Option<Significance>> {
    let asked = &args.chance;
    let Some(count) = asked.surrogates else {
        return Ok(None);
    };
    let (alpha, correction) = match asked.fdr {
        Some(rate) => (rate, Correction::FalseDiscovery),
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
        }
        .to_owned(),
        alpha: chance.alpha,
        seed: chance.seed,
    }
}
