//! `betz demo`: the population-temporal experiment of Galbraith 2010 (ch. 5), end to end.
//!
//! A tuned LIF population sees 100 s of band-limited noise; decoders are trained on its single
//! units (SU) and on multi-unit channels of three units each (MU); 10 s of fresh noise go through
//! the real-time session tick by tick, and what comes out is scored, timed and drawn. As in the
//! experiment, responses are low-passed and their delay is estimated by cross-correlation; the ridge
//! is cross-validated.

use crate::common_args::Common;
use clap::Args;
use std::path::PathBuf;
mod picture;

use std::time::Instant;

use betz::Result;
use betz::device::Device;
use betz::model::OutputScore;
use betz::psc::{Filter, FilterBank, LowPass};
use betz::recording::Recording;
use betz::recording::multiunit::random_groups;
use betz::simulate::population::{self, PopulationConfig};
use betz::stream::{Session, SessionConfig, Stats};
use betz::train::score::score_estimates;
use betz::train::{Search, TrainOptions, estimate_delay_on, train_validated_on};
use serde::Serialize;

use self::picture::Movement;
use crate::device;
use crate::files::{Files, Kind};
use crate::replay::{LatencyUs, replay};
use crate::report::{self, Bar, Outcome, Table};

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Seed of the population, its tuning and both stimuli
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of neurons
    #[arg(long, default_value_t = 150)]
    pub(crate) neurons: usize,
    /// Picture to write (.svg, .png or .pdf)
    #[arg(long, value_name = "FILE", default_value = "betz-demo.svg")]
    pub(crate) picture: PathBuf,
}

/// Units heard by one electrode.
const UNITS: usize = 3;
const TAU_SECONDS: f64 = 0.010;
const ORDER: u32 = 1;
/// The experiment low-passes its responses; the stimulus ends at 5 Hz.
const LOW_PASS: LowPass = LowPass {
    order: 2,
    cutoff_hz: 12.0,
};
/// Longest delay of the responses that is tried.
const LONGEST_DELAY_SECONDS: f64 = 0.1;

#[derive(Serialize)]
struct DecoderOutcome {
    name: &'static str,
    channels: usize,
    nrmse_std: f64,
    outputs: Vec<OutputScore>,
    delay_seconds: f64,
    latency_us: LatencyUs,
    train_seconds: f64,
    /// The device of training; a session runs on the CPU.
    device: String,
    stream_seconds: f64,
}

#[derive(Serialize)]
struct Demonstration {
    neurons: usize,
    seed: u64,
    decoders: Vec<DecoderOutcome>,
    simulate_seconds: f64,
    draw_seconds: f64,
    total_seconds: f64,
    picture: String,
}

pub(crate) fn run(args: &Demo) -> Result<()> {
    Files::new(&args.common).writes("--picture", &args.picture, Kind::Picture)?;
    let device = device::open(&args.common.device)?;
    let bar = Bar::new();
    let config = PopulationConfig {
        neurons: args.neurons,
        ..PopulationConfig::default()
    };
    let (made, simulate_seconds) = timed(|| population::simulate(&config, args.seed))?;
    let groups = random_groups(args.neurons, UNITS, args.seed);
    let (single, single_xy) = decode("single units", (&made.train, &made.test), &device, &bar)?;
    let channels = (&made.train.combine(&groups)?, &made.test.combine(&groups)?);
    let (multi, multi_xy) = decode("multi-unit channels", channels, &device, &bar)?;
    let truth = made.test.align(config.step_seconds)?.behavior;
    let label = |o: &DecoderOutcome| format!("{} {}, NRMSE {:.3}", o.channels, o.name, o.nrmse_std);
    let (single_seen, multi_seen) = (
        advance(&single_xy, steps(single.delay_seconds, config.step_seconds)),
        advance(&multi_xy, steps(multi.delay_seconds, config.step_seconds)),
    );
    let ((), draw_seconds) = timed(|| {
        picture::draw(
            &Movement {
                step_seconds: config.step_seconds,
                truth: &truth,
                single: &single_seen,
                multi: &multi_seen,
                spikes: &made.test,
                single_label: label(&single),
                multi_label: label(&multi),
                title: format!(
                    "Movement decoded from {} simulated neurons, {} s not trained on",
                    args.neurons, config.test_seconds
                ),
            },
            &args.picture,
        )
    })?;
    let shown = Demonstration {
        neurons: args.neurons,
        seed: args.seed,
        decoders: vec![single, multi],
        simulate_seconds,
        draw_seconds,
        total_seconds: bar.seconds(),
        picture: args.picture.display().to_string(),
    };
    drop(bar);
    report::tell(&shown, args.common.json)
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let started = Instant::now();
    let done = work()?;
    Ok((done, started.elapsed().as_secs_f64()))
}

fn steps(seconds: f64, step_seconds: f64) -> usize {
    (seconds / step_seconds).round().max(0.0) as usize
}

/// Trains on `training` on `device`, streams `test` through a session, scores.
fn decode(
    name: &'static str,
    (training, test): (&Recording, &Recording),
    device: &Device,
    bar: &Bar,
) -> Result<(DecoderOutcome, Vec<f32>)> {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: TAU_SECONDS,
        order: ORDER,
    }])?;
    let step = training.tick_seconds;
    let (trained, train_seconds) = timed(|| {
        let dataset = training.align(step)?;
        let most = (LONGEST_DELAY_SECONDS / step) as usize;
        let delay = estimate_delay_on(device, &dataset, &bank, Some(LOW_PASS), most, bar)?;
        let options = TrainOptions {
            low_pass: Some(LOW_PASS),
            delay_steps: delay.delay_steps,
            ..TrainOptions::new(bank.clone())
        };
        train_validated_on(device, &dataset, &options, &Search::ridge(), bar)
    })?;
    device::note_fallback(&trained.ran, "training");
    let model = trained.decoder;
    let dataset = test.align(step)?;
    let mut session = Session::open(&model, SessionConfig::default())?;
    let (decoded, stream_seconds) = timed(|| replay(&mut session, &dataset, bar))?;
    let outputs = score_estimates(&dataset, &decoded, model.delay_steps())?.outputs;
    let stats: Stats = session.stats();
    let outcome = DecoderOutcome {
        name,
        channels: model.channels(),
        nrmse_std: outputs.iter().map(|o| o.nrmse_std).sum::<f64>() / outputs.len() as f64,
        outputs,
        delay_seconds: model.delay_steps() as f64 * step,
        latency_us: LatencyUs::of(&stats),
        train_seconds,
        device: trained.ran.device,
        stream_seconds,
    };
    Ok((outcome, decoded))
}

/// Moves rows of two forward by `delay`, so that a delayed estimate lies over its truth.
fn advance(xy: &[f32], delay: usize) -> Vec<f32> {
    let from = (2 * delay).min(xy.len());
    let mut moved = xy[from..].to_vec();
    moved.resize(xy.len(), f32::NAN);
    moved
}

impl Outcome for Demonstration {
    fn print(&self) -> Result<()> {
        let mut table = Table::new(&[
            "decoder", "channels", "NRMSE", "delay", "p50", "p99", "p99.9", "max",
        ]);
        for d in &self.decoders {
            let l = &d.latency_us;
            table.row([
                d.name.to_string(),
                d.channels.to_string(),
                format!("{:.3}", d.nrmse_std),
                format!("{:.1} ms", d.delay_seconds * 1e3),
                l.microseconds(l.p50),
                l.microseconds(l.p99),
                l.microseconds(l.p99_9),
                l.microseconds(l.max),
            ]);
        }
        table.print()?;
        report::line(
            "NRMSE: RMSE / standard deviation, mean of x and y, on 10 s not trained on; p50 to max: one step of the session",
        )?;
        report::line(
            "Parameters of the population are ours: Galbraith 2010 does not give them, so its NRMSE (0.115 and 0.171) is no measure of these",
        )?;
        report::line("")?;
        let mut seconds = Table::new(&["step", "seconds"]);
        let mut row = |name: String, s: f64| seconds.row([name, format!("{s:.2}")]);
        row(
            format!("simulate {} neurons, 110 s", self.neurons),
            self.simulate_seconds,
        );
        for d in &self.decoders {
            row(format!("train on {}", d.name), d.train_seconds);
            row(
                format!("stream {} ticks, {}", d.latency_us.steps, d.name),
                d.stream_seconds,
            );
        }
        row("draw".into(), self.draw_seconds);
        row("all".into(), self.total_seconds);
        seconds.print()?;
        report::line("")?;
        report::line(&format!("picture: {}", self.picture))
    }
}
