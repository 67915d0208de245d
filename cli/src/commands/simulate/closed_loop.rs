//! `betz simulate --closed-loop`: a simulated user steers a cursor through decoders, each with the same chances.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use betz::model::Decoder as Model;
use betz::recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use betz::spiking::Network;
use betz::spiking::closed_loop::{
    Decoder, Fault, Interval, Kalman, KalmanConfig, Loop, Ole, Scores, Session, Setup, Task,
    TrainingData, Units, intention, reaches,
};
use betz::{Error, Progress, Result};
use rayon::prelude::*;
use serde::Serialize;

use super::args::Simulate;
use super::lab_args::{ClosedLoop, TaskName};
use super::loop_picture;
use super::recording_file::RecordingFile;
use super::steered::{LearningDecoder, Velocity};
use crate::files::{Files, Kind};
use crate::report::{self, Bar, Outcome, Table, count};

/// Ridge of an OLE, as a part of each channel's spread.
const RIDGE: f64 = 1e-3;
/// Smoothing of an OLE's counts unless told otherwise.
const SMOOTHING_SECONDS: f64 = 0.05;
/// Draws the bootstrap.
const BOOTSTRAP_SEED: u64 = 1;

/// A decoder that is to be compared.
#[derive(Clone)]
enum Candidate {
    Ole { tau_s: f64 },
    FitOle { tau_s: f64 },
    Kalman,
    Refit,
    Model { path: PathBuf, model: Box<Model> },
}

/// Results of one decoder over all repeats.
#[derive(Serialize)]
struct DecoderScores {
    decoder: String,
    #[serde(flatten)]
    scores: Scores,
    trials: usize,
    /// Seconds of the loop's own time.
    loop_seconds: f64,
    non_finite_bins: u64,
    lost_bins: u64,
    late_bins: u64,
    /// Models that took over while it learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    models_accepted: Option<u64>,
}

#[derive(Serialize)]
struct LoopReport {
    decoders: Vec<DecoderScores>,
    units: usize,
    repeats: u64,
    seed: u64,
    /// All of the command's time.
    total_seconds: f64,
}

pub(super) fn run(args: &Simulate) -> Result<()> {
    let asked = &args.closed_loop;
    check_options(args)?;
    let candidates = candidates(asked)?;
    let known = (candidates.iter()).any(|c| matches!(c, Candidate::Model { .. }));
    check_files(args, &candidates)?;
    let world = World::new(args)?;
    if let Some(path) = &asked.calibration {
        let written = world.calibration(asked.reaches, path)?;
        return report::tell(&written, args.common.json);
    }
    if asked.adapt.is_some() && !known {
        return Err(Error::argument(
            "--adapt: expected a model file among the decoders, which alone can learn, got none",
        ));
    }
    if asked.repeats == 0 {
        return Err(Error::argument("--repeats: expected at least 1, got 0"));
    }
    report::stop_on_interrupt();
    let bar = Bar::new();
    let done = AtomicU64::new(0);
    let all = asked.repeats * candidates.len() as u64;
    let repeats = (0..asked.repeats)
        .into_par_iter()
        .map(|k| {
            let world = world.repeat(k, known);
            let data = reaches(&world.setup, &mut world.units()?, asked.reaches)?;
            (candidates.iter())
                .map(|candidate| {
                    betz::progress::check(&bar, "trying decoders")?;
                    let outcome = world.try_out(candidate, &data, asked)?;
                    bar.update(
                        "trying decoders",
                        done.fetch_add(1, Ordering::Relaxed) + 1,
                        all,
                    );
                    Ok(outcome)
                })
                .collect::<Result<Vec<_>>>()
        })
        .collect::<Result<Vec<_>>>()?;
    drop(bar);
    if let (Some(path), Some(first)) = (&args.picture, repeats.first()) {
        let names = candidates.iter().map(Candidate::name);
        let sessions: Vec<_> = names
            .zip(first.iter().map(|(session, _)| session))
            .collect();
        loop_picture::draw(&sessions, &world.setup, path)?;
    }
    let compared = LoopReport {
        decoders: joined(&candidates, repeats),
        units: world.units()?.len(),
        repeats: asked.repeats,
        seed: args.seed,
        total_seconds: report::total_seconds(),
    };
    report::tell(&compared, args.common.json)
}

/// Refuses options that do not fit together.
fn check_options(args: &Simulate) -> Result<()> {
    let asked = &args.closed_loop;
    // Before the population is calibrated, which takes seconds.
    if asked.trials == 0 {
        return Err(Error::argument("--trials: expected at least 1, got 0"));
    }
    if asked.adapt.is_some() && asked.calibration.is_some() {
        return Err(Error::argument(
            "--adapt: expected decoders to be tried, but --calibration only writes a recording",
        ));
    }
    match &args.out {
        Some(out) => Err(Error::argument(format!(
            "--out {}: a closed loop writes none; --calibration FILE writes what decoders are trained on",
            out.display()
        ))),
        None => Ok(()),
    }
}

/// Refuses files that cannot be read or written, before any work.
fn check_files(args: &Simulate, candidates: &[Candidate]) -> Result<()> {
    let asked = &args.closed_loop;
    let mut files = Files::new(&args.common)
        .may_read("--setup", asked.setup.as_deref())
        .may_read("--events", asked.events.as_deref());
    for candidate in candidates {
        if let Candidate::Model { path, .. } = candidate {
            files = files.reads("--decoder", path);
        }
    }
    let calibration = asked.calibration.as_deref();
    files.may_write("--calibration", calibration, Kind::Simulated)?;
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)
}

/// The decoders that are listed; model files are read.
fn candidates(asked: &ClosedLoop) -> Result<Vec<Candidate>> {
    let names = asked
        .decoder
        .split(',')
        .map(str::trim)
        .filter(|n| !n.is_empty());
    let found = names.map(|name| {
        let smoothing = |text: Option<&str>| match text.map(str::parse::<f64>) {
            None => Ok(SMOOTHING_SECONDS),
            Some(Ok(tau)) if tau.is_finite() && tau >= 0.0 => Ok(tau),
            Some(_) => Err(Error::argument(format!(
                "--decoder: expected seconds of smoothing such as ole:0.15, got '{name}'"
            ))),
        };
        let (kind, tau) = match name.split_once(':') {
            Some((kind, tau)) => (kind, Some(tau)),
            None => (name, None),
        };
        match (kind, tau) {
            ("ole", tau) => smoothing(tau).map(|tau_s| Candidate::Ole { tau_s }),
            ("fit-ole", tau) => smoothing(tau).map(|tau_s| Candidate::FitOle { tau_s }),
            ("kalman", None) => Ok(Candidate::Kalman),
            ("refit", None) => Ok(Candidate::Refit),
            _ => {
                let path = PathBuf::from(name);
                let model = Model::load(&path).map_err(|e| {
                    e.at("--decoder (ole, fit-ole, kalman, refit, or a model file)")
                })?;
                Ok(Candidate::Model {
                    path,
                    model: Box::new(model),
                })
            }
        }
    });
    let found = found.collect::<Result<Vec<_>>>()?;
    if found.is_empty() {
        return Err(Error::argument(
            "--decoder: expected at least one, got none",
        ));
    }
    Ok(found)
}

impl Candidate {
    fn name(&self) -> String {
        match self {
            Self::Ole { tau_s } => format!("ole, {} ms", tau_s * 1e3),
            Self::FitOle { tau_s } => format!("fit-ole, {} ms", tau_s * 1e3),
            Self::Kalman => "kalman".into(),
            Self::Refit => "refit".into(),
            Self::Model { path, model } => format!("{} ({})", path.display(), model.kind()),
        }
    }
}

/// User, task, units and faults of one repeat.
#[derive(Clone)]
struct World {
    setup: Setup,
    /// A network that the units are part of, without its seed.
    network: Option<Network>,
    /// Draws the units' tuning, and the network.
    population_seed: u64,
}

impl World {
    fn new(args: &Simulate) -> Result<Self> {
        let asked = &args.closed_loop;
        let mut setup: Setup = match &asked.setup {
            Some(path) => read_json(path)?,
            None => Setup::default(),
        };
        setup.seed = args.seed;
        if let Some(delay_s) = asked.feedback_delay {
            setup.user.delay_s = delay_s;
        }
        if let Some(bin_s) = asked.bin {
            setup.bin_s = bin_s;
        }
        if let Some(neurons) = args.neurons {
            setup.units.neurons = u32::try_from(neurons).unwrap_or(u32::MAX);
        }
        match asked.task {
            Some(TaskName::CentreOut) => setup.task = Task::default(),
            Some(TaskName::Pinball) => setup.task = Task::pinball(),
            None => {}
        }
        if let Some(path) = &asked.events {
            setup.faults = read_json::<Vec<Fault>>(path)?;
        }
        let scale = args.spiking.scale.unwrap_or(1.0);
        let network = (asked.recurrent.as_deref())
            .map(|name| super::named_network("--recurrent", name, scale, args.seed))
            .transpose()?;
        Ok(Self {
            setup,
            network,
            population_seed: args.seed,
        })
    }

    /// The world of repeat `k`; `same`: with the same population.
    fn repeat(&self, k: u64, same: bool) -> Self {
        let mut world = self.clone();
        world.setup.seed = self.setup.seed.wrapping_add(k);
        if !same {
            world.population_seed = world.setup.seed;
        }
        world
    }

    fn units(&self) -> Result<Units> {
        let (config, seed) = (&self.setup.units, self.population_seed);
        let Some(network) = &self.network else {
            return Units::tuned(config, seed);
        };
        let mut network = network.clone();
        network.seed = seed;
        let name = network.populations.first().map(|p| p.name.clone());
        Units::embedded(network, &name.unwrap_or_default(), config, seed)
    }

    /// A session of its trials under `candidate`, trained on `data`, and how many models took over in it.
    fn try_out(
        &self,
        candidate: &Candidate,
        data: &TrainingData,
        asked: &ClosedLoop,
    ) -> Result<(Session, Option<u64>)> {
        let under = |decoder: &mut dyn Decoder| {
            Loop::new(&self.setup, self.units()?)?.run(decoder, asked.trials)
        };
        let kalman = || Kalman::train(data, KalmanConfig::default());
        let session = match candidate {
            Candidate::Ole { tau_s } => under(&mut Ole::train(data, *tau_s, RIDGE)?)?,
            Candidate::FitOle { tau_s } => {
                let first = self.rehearsal(&mut Ole::train(data, *tau_s, RIDGE)?, asked)?;
                under(&mut Ole::train(&first, *tau_s, RIDGE)?)?
            }
            Candidate::Kalman => under(&mut kalman()?)?,
            Candidate::Refit => {
                let first = self.rehearsal(&mut kalman()?, asked)?;
                let config = KalmanConfig { position: true };
                under(&mut Kalman::train(&first, config)?)?
            }
            Candidate::Model { path, model } => {
                let channels = self.units()?.len();
                let velocity = Velocity::of(model, path, channels, self.setup.bin_s)?;
                let mut steered = LearningDecoder::open(model, velocity, asked.adapt)?;
                let session = under(&mut steered)?;
                let accepted = asked.adapt.map(|_| steered.accepted());
                steered.finish()?;
                return Ok((session, accepted));
            }
        };
        Ok((session, None))
    }

    /// Intended movements from a session without faults, with other random draws than the scored one.
    fn rehearsal(&self, decoder: &mut dyn Decoder, asked: &ClosedLoop) -> Result<TrainingData> {
        let mut setup = self.setup.clone();
        setup.faults.clear();
        setup.seed = setup.seed.wrapping_add(1 << 32);
        let session = Loop::new(&setup, self.units()?)?.run(decoder, asked.reaches.max(1))?;
        Ok(intention(&session))
    }

    /// Writes the reaches that decoders are trained on.
    fn calibration(&self, count: usize, path: &Path) -> Result<RecordingFile> {
        let mut units = self.units()?;
        let data = reaches(&self.setup, &mut units, count)?;
        let outputs = ["vx", "vy"].map(|name| OutputInfo {
            name: name.into(),
            unit: "cm/s".into(),
        });
        let counts: Vec<u16> = (data.bins.iter())
            .flat_map(|bin| {
                bin.counts
                    .iter()
                    .map(|c| u16::try_from(*c).unwrap_or(u16::MAX))
            })
            .collect();
        let ticks = data.bins.len() as i64;
        let recording = Recording {
            tick_seconds: data.bin_s,
            ticks,
            spikes: Spikes::from_counts(&counts, units.len())?,
            channel_names: (0..units.len()).map(|i| format!("u{i}")).collect(),
            behavior: Some(Behavior {
                outputs: outputs.into(),
                values: (data.bins.iter())
                    .flat_map(|bin| bin.velocity.map(|v| v as f32))
                    .collect(),
                times: None,
            }),
            segments: vec![Segment {
                start: 0,
                stop: ticks,
            }],
            electrode_um: None,
            form: SpikeForm::Counts,
            meta: Some(format!(
                "{{\"source\": \"betz simulate\", \"seed\": {}, \"reaches\": {count}}}",
                self.setup.seed
            )),
        };
        recording.write_npz(path)?;
        Ok(RecordingFile::new(&recording, path))
    }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
    serde_json::from_str(&text)
        .map_err(|e| Error::argument(format!("{}: expected JSON, got: {e}", path.display())))
}

/// Sessions of each decoder, one after another.
fn joined(
    candidates: &[Candidate],
    repeats: Vec<Vec<(Session, Option<u64>)>>,
) -> Vec<DecoderScores> {
    let mut all: Vec<Option<(Session, Option<u64>)>> = candidates.iter().map(|_| None).collect();
    for repeat in repeats {
        for (slot, (session, accepted)) in all.iter_mut().zip(repeat) {
            match slot {
                None => *slot = Some((session, accepted)),
                Some((first, sum)) => {
                    first.trials.extend(session.trials);
                    first.log.extend(session.log);
                    first.non_finite += session.non_finite;
                    first.lost_bins += session.lost_bins;
                    first.late_bins += session.late_bins;
                    *sum = sum.zip(accepted).map(|(a, b)| a + b);
                }
            }
        }
    }
    (candidates.iter().zip(all))
        .filter_map(|(candidate, joined)| {
            let (session, models_accepted) = joined?;
            Some(DecoderScores {
                decoder: candidate.name(),
                scores: session.scores(BOOTSTRAP_SEED),
                trials: session.trials.len(),
                loop_seconds: session.log.len() as f64 * session.bin_s,
                non_finite_bins: session.non_finite,
                lost_bins: session.lost_bins,
                late_bins: session.late_bins,
                models_accepted,
            })
        })
        .collect()
}

impl Outcome for LoopReport {
    fn print(&self) -> Result<()> {
        let mut table = Table::new(&[
            "decoder",
            "success",
            "s to target",
            "dial-in s",
            "path efficiency",
            "bits/s",
            "angle °",
        ]);
        let shown = |i: Interval, digits: usize| {
            if i.mean.is_nan() {
                return "none".to_owned();
            }
            let number = |v: f64| format!("{v:.digits$}");
            format!(
                "{} ({} to {})",
                number(i.mean),
                number(i.low),
                number(i.high)
            )
        };
        for scored in &self.decoders {
            let s = &scored.scores;
            table.row([
                scored.decoder.clone(),
                shown(s.success, 2),
                shown(s.time_to_target_s, 3),
                shown(s.dial_in_s, 3),
                shown(s.path_efficiency, 2),
                shown(s.bits_per_s, 2),
                shown(s.angular_error_deg, 0),
            ]);
        }
        table.print()?;
        for scored in &self.decoders {
            if scored.non_finite_bins > 0 {
                eprintln!(
                    "{}: no finite velocity in {}: the cursor stayed",
                    scored.decoder,
                    count(scored.non_finite_bins, "bin")
                );
            }
            if let Some(accepted) = scored.models_accepted {
                report::line(&format!(
                    "{}: {} took over while it learned",
                    scored.decoder,
                    count(accepted, "model")
                ))?;
            }
        }
        let trials = self.decoders.first().map_or(0, |d| d.trials);
        let simulated: f64 = self.decoders.iter().map(|d| d.loop_seconds).sum();
        report::line(&format!(
            "{} of each, {}, {}; mean and 95 % interval over trials; {} of the loop in {:.1} s",
            count(trials as u64, "trial"),
            count(self.units as u64, "unit"),
            count(self.repeats, "repeat"),
            report::duration(simulated),
            self.total_seconds
        ))
    }
}
