//! A network with embedded chains: events to mine, and the chains beside them.

use std::io::Write;
use std::path::{Path, PathBuf};

use betz::episode::{Alphabet, Clock, Events, Interval, Pattern};
use betz::file::write_atomically;
use betz::recording::Recording;
use betz::simulate::network::{NetworkConfig, NetworkRecording, simulate};
use betz::{Error, Result};
use serde::Serialize;

use super::args::Simulate;
use super::lab_args::Chains;
use super::recording_file::RecordingFile;
use crate::files::{CHAINS, Files, Kind, hash_of, is_csv, told_of};
use crate::parse;
use crate::report::{self, Bar, Outcome};

/// Length of a network's recording unless told otherwise.
const SECONDS: f64 = 100.0;

#[derive(Serialize)]
struct Chain {
    symbols: Vec<String>,
    /// [low, high] of every edge in seconds.
    interval: [f64; 2],
}

#[derive(Serialize)]
struct ChainsReport {
    recordings: [RecordingFile; 1],
    neurons: usize,
    seed: u64,
    chains: Vec<Chain>,
    truth: String,
    simulation_seconds: f64,
}

impl Chains {
    /// True if the options request a network with chains.
    pub(super) fn is_asked_for(&self) -> bool {
        self.network || self.sym26 || self.dataset.is_some()
    }
}

pub(super) fn run(args: &Simulate, out: &Path) -> Result<()> {
    let config = config(args)?;
    let as_csv = is_csv(out)?;
    let truth = truth_path(args, out);
    let mut files = Files::new(&args.common);
    let kind = if as_csv {
        Kind::SimulatedEvents
    } else {
        Kind::Simulated
    };
    files.writes("--out", out, kind)?;
    files.writes("--truth", &truth, Kind::Chains)?;
    let bar = Bar::new();
    let made = simulate(&config, args.seed)?;
    let patterns = patterns(&made)?;
    let mut told = None;
    if as_csv {
        let events = Events::from_recording(&made.recording)?;
        write_atomically(out, |file| events.write_csv(file))?;
        // So that nothing else is ever taken for these events; what is no file is not.
        told = hash_of(out).ok().filter(|_| out.is_file());
    } else {
        made.recording.write_npz(out)?;
    }
    write_truth(&truth, &config, args.seed, told, &made.recording, &patterns)?;
    let alphabet = alphabet(&made.recording)?;
    let clock = alphabet.clock();
    let simulated = ChainsReport {
        recordings: [RecordingFile::new(&made.recording, out)],
        neurons: config.neurons,
        seed: args.seed,
        chains: (patterns.iter().zip(&made.chains))
            .map(|(pattern, chain)| Chain {
                symbols: (pattern.symbols().iter())
                    .map(|&s| alphabet.label(s).to_owned())
                    .collect(),
                interval: [chain.delay_ticks.0, chain.delay_ticks.1].map(|t| clock.seconds(t)),
            })
            .collect(),
        truth: truth.display().to_string(),
        simulation_seconds: bar.seconds(),
    };
    report::tell(&simulated, args.common.json)
}

impl Outcome for ChainsReport {
    fn print(&self) -> Result<()> {
        self.recordings[0].print()?;
        let count = self.chains.len();
        let named = if count == 1 { "chain" } else { "chains" };
        report::line(&format!("{}: {count} {named}", self.truth))?;
        for chain in &self.chains {
            let [low, high] = chain.interval;
            report::line(&format!(
                "  {}, ({low},{high}] s apart",
                chain.symbols.join(" ")
            ))?;
        }
        Ok(())
    }
}

fn config(args: &Simulate) -> Result<NetworkConfig> {
    let asked = &args.chains;
    let mut config = match asked.dataset {
        _ if asked.sym26 => NetworkConfig::sym26(),
        Some(number) => NetworkConfig::data_set(number).map_err(|e| e.at("--dataset"))?,
        None => NetworkConfig::sym64(SECONDS),
    };
    config.neurons = args.neurons.unwrap_or(config.neurons);
    config.seconds = args.seconds.unwrap_or(config.seconds);
    config.tick_seconds = args.tick.unwrap_or(config.tick_seconds);
    config.basal_hz = asked.rate.unwrap_or(config.basal_hz);
    config.connection = asked.connection.unwrap_or(config.connection);
    if let Some(text) = &asked.delay {
        config.delay_seconds = parse::seconds_pair("--delay", text)?;
    }
    if let Some(text) = &asked.chains {
        config.chain_lengths = lengths(text)?;
    }
    Ok(config)
}

/// Numbers of nodes, `9,9,9,9`.
fn lengths(text: &str) -> Result<Vec<usize>> {
    let nodes = text.split(',').map(|item| item.trim().parse().ok());
    nodes.collect::<Option<Vec<usize>>>().ok_or_else(|| {
        Error::argument(format!(
            "--chains: expected numbers of nodes such as 9,9,9,9, got '{text}'"
        ))
    })
}

fn truth_path(args: &Simulate, out: &Path) -> PathBuf {
    let beside = || out.with_extension("chains.txt");
    args.chains.truth.clone().unwrap_or_else(beside)
}

fn alphabet(recording: &Recording) -> Result<Alphabet> {
    let clock = Clock::from_tick_seconds(recording.tick_seconds)?;
    Alphabet::new(recording.channel_names.clone(), clock)
}

fn patterns(made: &NetworkRecording) -> Result<Vec<Pattern>> {
    (made.chains.iter())
        .map(|chain| {
            let (low, high) = chain.delay_ticks;
            Pattern::uniform(chain.nodes.clone(), Interval::new(low, high)?)
        })
        .collect()
}

/// The chains, one per line as `--count-only` reads them.
fn write_truth(
    path: &Path,
    config: &NetworkConfig,
    seed: u64,
    events: Option<u64>,
    recording: &Recording,
    patterns: &[Pattern],
) -> Result<()> {
    let alphabet = alphabet(recording)?;
    write_atomically(path, |file| {
        writeln!(
            file,
            "{CHAINS}{} neurons at {} Hz for {} s, connection {}, seed {seed}.",
            config.neurons, config.basal_hz, config.seconds, config.connection
        )?;
        if let Some(events) = events {
            writeln!(file, "{}", told_of(events))?;
        }
        for pattern in patterns {
            writeln!(file, "{}", pattern.display(&alphabet))?;
        }
        Ok(())
    })
}
