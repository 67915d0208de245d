//! A synthetic session to watch: tuned channels, a moving hand, and a decoder that follows it.
//!
//! ```text
//! cargo run -p betz-monitor --example watched -- [--channels N] [--rate HZ] [--seconds S] [--speed TIMES] [--port N] [--slow-every STEPS] [--control] [--simulation] [--episodes] [--notes] [--fails SECONDS] [--stay] [--embed]
//! ```
//! Prints the address to open. The spikes are random with a fixed seed, at 1,000 steps per second; one channel is
//! silent and one is noisy. Options:
//! - `--simulation`: show the session as a simulated network, which pages can pause
//! - `--episodes`: count pairs of channels during the session
//! - `--notes`: true outputs come as labels, 0.3 s after their steps; a target and a trial begin every second
//! - `--slow-every`: make a step take 1.8 deadlines at this interval, as happens on a busy machine
//! - `--fails`: from this time on, seven channels are silent and one fires at 40 times its rate
//! - `--embed`: print the address for a frame
//! - `--stay`: keep the page open after the session has ended

use std::f64::consts::TAU;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use betz_base::error::{Error, Result};
use betz_episode::online::{MinerConfig, open};
use betz_episode::{Interval, Pattern};
use betz_monitor::{
    Control, Label, Monitor, Options, SimulatedPopulation, Simulation, Source, Token, Wish,
};
use betz_recording::OutputInfo;
use betz_runtime::model::{Blanking, Decoder, DecoderParts, OutputScore};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Session, SessionConfig, Step, Tap};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const STEP: f64 = 0.001;
/// Modulation depth: how strongly the movement's direction changes a channel's rate.
const DEPTH: f64 = 0.8;
/// Millimetres per second.
const FASTEST: f64 = 300.0;
const TRAINED_R2: f64 = 0.85;
/// Channels that fall silent with `--fails`, and one that becomes noisy.
const SILENT: [usize; 7] = [3, 8, 21, 34, 55, 60, 72];
const NOISY: usize = 20;

/// A population vector decoder: preferred directions are spread evenly over the channels.
fn decoder(channels: usize, rate: f64, tau_seconds: f64) -> Result<Decoder> {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds,
        order: 1,
    }])?;
    let names = (0..channels).map(|c| format!("ch{c}")).collect();
    let output = |name: &str| OutputInfo {
        name: name.into(),
        unit: "mm/s".into(),
    };
    // A filtered spike stands for rate × step: n channels of depth d sum to d · n / 2 along a direction.
    let gain = FASTEST / (rate * STEP * DEPTH * channels as f64 / 2.0);
    let weights = (0..channels)
        .flat_map(|c| {
            [
                preferred(c, channels).cos() * gain,
                preferred(c, channels).sin() * gain,
            ]
        })
        .collect();
    let mut parts = DecoderParts::linear(STEP, bank, names, vec![output("vx"), output("vy")]);
    parts.limits.blanking = Some(Blanking {
        least: 0,
        most: u64::MAX,
        mean_counts: (0..channels).map(|c| mean_rate(c, rate) * STEP).collect(),
    });
    parts.training.folds = 5;
    parts.training.scores = ["vx", "vy"].map(score).to_vec();
    Decoder::new(DecoderParts { weights, ..parts })
}

/// Mean rate of a channel: one of 61 is silent, and one is noisy.
fn mean_rate(channel: usize, rate: f64) -> f64 {
    match channel % 61 {
        17 => 0.0,
        43 if channel < 61 => 12.0 * rate,
        _ => rate,
    }
}

/// Cross-validated score that the decoder is said to have.
fn score(name: &str) -> OutputScore {
    OutputScore {
        name: name.into(),
        unit: "mm/s".into(),
        r2: TRAINED_R2,
        rmse: 60.0,
        nrmse_range: 0.0,
        nrmse_std: 0.0,
    }
}

fn preferred(channel: usize, channels: usize) -> f64 {
    TAU * channel as f64 / channels as f64
}

/// Velocity of the hand as a share of the fastest.
fn hand(t: f64) -> [f64; 2] {
    let slow = 0.55 + 0.45 * (t * 0.7).sin();
    [
        slow * (t * 2.1).cos() * (1.0 - 0.3 * (t * 5.3).sin()),
        slow * (t * 1.3).sin(),
    ]
}

/// A tap that sometimes takes far too long inside the step, like an interruption by another program.
struct Hiccup {
    every: u64,
    length: Duration,
    steps: u64,
}

impl Tap for Hiccup {
    fn take(&mut self, _: &Step<'_>) {
        self.steps += 1;
        if self.steps.is_multiple_of(self.every) {
            let begin = Instant::now();
            while begin.elapsed() < self.length {
                std::hint::spin_loop();
            }
        }
    }
}

/// Labels that come late, targets and trials.
#[derive(Default)]
struct Notes {
    waiting: Vec<Label>,
}

impl Notes {
    fn step(&mut self, step: u64, values: [f32; 2], monitor: &Monitor) -> Result<()> {
        let tick = step as i64;
        let values = values.to_vec();
        self.waiting.push(Label { tick, values });
        if step.is_multiple_of(1_000) {
            let side = if step.is_multiple_of(2_000) {
                200.0
            } else {
                -200.0
            };
            monitor.target(Some(tick), &[side, 100.0])?;
            monitor.event("trial", serde_json::json!({"at": tick}));
        }
        if step.is_multiple_of(100) {
            let late = self
                .waiting
                .partition_point(|label| label.tick + 300 <= tick);
            let labels: Vec<Label> = self.waiting.drain(..late).collect();
            monitor.labels(&labels)?;
        }
        Ok(())
    }
}

fn number(name: &str, otherwise: f64) -> f64 {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|a| a == name);
    at.and_then(|i| args.get(i + 1)?.parse().ok())
        .unwrap_or(otherwise)
}

fn flag(name: &str) -> bool {
    std::env::args().any(|a| a == name)
}

fn options() -> Result<Options> {
    let no_token = std::env::var("BETZ_MONITOR_TOKEN").is_ok_and(|t| t == "none");
    Ok(Options {
        port: number("--port", 0.0) as u16,
        no_token,
        token: (!no_token).then(Token::new).transpose()?,
        control: flag("--control"),
        embed: flag("--embed"),
        page_folder: std::env::var_os("BETZ_PAGE").map(Into::into),
        ..Options::default()
    })
}

/// The electrodes form a square grid, 0.4 mm apart.
fn source(model: &Decoder, channels: usize, deadline: Duration, speed: f64) -> Source {
    let wide = (channels as f64).sqrt().ceil() as usize;
    let electrode = |c: usize| [(c % wide) as f32 * 400.0, (c / wide) as f32 * 400.0];
    Source {
        deadline: Some(deadline),
        speed,
        electrode_um: Some((0..channels).map(electrode).collect()),
        ..Source::of("a made-up session", model)
    }
}

fn simulation(channels: usize, seed: u64) -> Simulation {
    Simulation {
        populations: vec![SimulatedPopulation {
            name: "made up".into(),
            neurons: channels as u32,
            takes_current: false,
            degrees: [0.0; 2],
            parameters: Vec::new(),
        }],
        synapses: 0,
        seed,
        name: "made up".into(),
        scale: 1.0,
        every: 1,
        replaceable: false,
    }
}

/// Counts up to 20 pairs of channels during the session.
fn count_pairs(session: &mut Session, monitor: &Monitor, channels: usize) -> Result<()> {
    let edge = Interval::new(0, 5)?;
    let pairs = (0..channels as u32 / 2).take(20);
    let pairs = pairs.map(|c| Pattern::new(vec![2 * c, 2 * c + 1], vec![edge]));
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    let (counted, miner) = open(MinerConfig::new(channels, pairs))?;
    session.attach(Box::new(counted), 0)?;
    monitor.mine("pairs of channels", miner)
}

/// Random spikes of tuned channels.
struct Population {
    channels: usize,
    rate: f64,
    random: ChaCha8Rng,
    spikes: Vec<u32>,
    /// True once channels have failed.
    fails: bool,
}

impl Population {
    fn new(channels: usize, rate: f64, seed: u64) -> Self {
        Self {
            channels,
            rate,
            random: ChaCha8Rng::seed_from_u64(seed),
            spikes: Vec::with_capacity(channels),
            fails: false,
        }
    }

    /// Draws the channels that fire during a step at this velocity.
    fn draw(&mut self, [x, y]: [f64; 2]) -> &[u32] {
        self.spikes.clear();
        for c in 0..self.channels {
            let angle = preferred(c, self.channels);
            let drive = 1.0 + DEPTH * (angle.cos() * x + angle.sin() * y);
            let mean = mean_rate(c, self.rate);
            let wanted = match c {
                c if self.fails && SILENT.contains(&c) => 0.0,
                NOISY if self.fails => 40.0 * mean,
                _ if mean == self.rate => mean * drive,
                _ => mean,
            };
            if self.random.random::<f64>() < wanted * STEP {
                self.spikes.push(c as u32);
            }
        }
        &self.spikes
    }
}

/// Starts every step at its time, and none while a page has paused the simulation.
struct Pace {
    started: Instant,
    speed: f64,
    wishes: Option<Receiver<Wish>>,
}

impl Pace {
    fn wait(&mut self, seconds: f64) {
        self.wait_while_paused();
        let due = Duration::from_secs_f64(seconds / self.speed);
        if let Some(wait) = due.checked_sub(self.started.elapsed()) {
            std::thread::sleep(wait);
        }
    }

    fn wait_while_paused(&mut self) {
        let Some(wishes) = &self.wishes else { return };
        let (mut paused, since) = (false, Instant::now());
        loop {
            while let Ok(wish) = wishes.try_recv() {
                paused = wish == Wish::Pause(true);
            }
            if !paused {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if since.elapsed() > Duration::from_millis(5) {
            self.started += since.elapsed();
        }
    }
}

fn main() -> Result<()> {
    let channels = number("--channels", 192.0) as usize;
    let rate = number("--rate", 20.0);
    let seconds = number("--seconds", f64::INFINITY);
    let speed = number("--speed", 1.0).max(0.01);
    let slow_every = number("--slow-every", 0.0) as u64;
    let seed = number("--seed", 1.0) as u64;
    let deadline = Duration::from_micros(number("--deadline", 500.0) as u64);
    let model = decoder(channels, rate, 0.04)?;
    let config = SessionConfig {
        deadline: Some(deadline),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&model, config)?;
    let source = source(&model, channels, deadline, speed);
    let (monitor, feed) = Monitor::start(source, options()?)?;
    monitor.watch(session.health());
    let mut truth = monitor.truth().ok_or_else(|| Error::argument("no truth"))?;
    if flag("--control") {
        let slower = decoder(channels, rate, 0.08)?;
        let models = [("tau 40 ms", model), ("tau 80 ms", slower)];
        let models = models.map(|(name, model)| (name.to_owned(), model));
        monitor.control(Control::new(session.swapper()?, models.into())?)?;
    }
    let wishes = flag("--simulation")
        .then(|| monitor.simulation(simulation(channels, seed)))
        .transpose()?;
    session.attach(Box::new(feed), 0)?;
    if flag("--episodes") {
        count_pairs(&mut session, &monitor, channels)?;
    }
    if slow_every > 0 {
        let hiccup = Hiccup {
            every: slow_every,
            length: deadline * 9 / 5,
            steps: 0,
        };
        session.attach(Box::new(hiccup), 0)?;
    }
    println!(
        "{}",
        monitor.embedded_url().as_deref().unwrap_or(monitor.url())
    );

    let mut population = Population::new(channels, rate, seed);
    let fails = number("--fails", f64::INFINITY);
    let mut out = [0.0f32; 2];
    let mut notes = flag("--notes").then(Notes::default);
    let started = Instant::now();
    let mut pace = Pace {
        started,
        speed,
        wishes,
    };
    for step in 0u64.. {
        let t = step as f64 * STEP;
        if t >= seconds {
            break;
        }
        pace.wait(t);
        population.fails = t >= fails;
        let velocity = hand(t);
        let true_outputs = velocity.map(|v| (v * FASTEST) as f32);
        if notes.is_none() {
            truth.step(&true_outputs);
        }
        session.step_spikes(population.draw(velocity), &mut out)?;
        if let Some(notes) = &mut notes {
            notes.step(step, true_outputs, &monitor)?;
        }
    }
    drop(session);
    if flag("--stay") {
        loop {
            std::thread::park();
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    monitor.stop();
    Ok(())
}
