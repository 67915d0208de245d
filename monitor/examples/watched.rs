//! A synthetic session to watch: tuned channels, a moving hand, and a decoder that follows it.
//!
//! ```text
//! cargo run -p betz-monitor --example watched -- [--channels N] [--rate HZ] [--seconds S] [--speed TIMES] [--port N] [--slow-every STEPS] [--control] [--simulation] [--episodes] [--notes] [--stay] [--embed]
//! ```
//! Prints the address to open. The spikes are random with a fixed seed, at 1,000 steps per second; one channel is
//! silent and one is noisy. Options:
//! - `--simulation`: show the session as a simulated network, which pages can pause
//! - `--episodes`: count pairs of channels during the session
//! - `--notes`: true outputs come as labels, 0.3 s after their steps; a target and a trial begin every second
//! - `--slow-every`: make a step take 1.8 deadlines at this interval, as happens on a busy machine
//! - `--embed`: print the address for a frame
//! - `--stay`: keep the page open after the session has ended

use std::f64::consts::TAU;
use std::time::{Duration, Instant};

use betz_base::error::{Error, Result};
use betz_episode::online::{MinerConfig, open};
use betz_episode::{Interval, Pattern};
use betz_monitor::{
    Control, Label, Monitor, Options, SimulatedPopulation, Simulation, Source, Token, Wish,
};
use betz_recording::OutputInfo;
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Session, SessionConfig, Step, Tap};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const STEP: f64 = 0.001;
/// Modulation depth: how strongly the movement's direction changes a channel's rate.
const DEPTH: f64 = 0.8;
/// Millimetres per second.
const FASTEST: f64 = 300.0;

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
    Decoder::new(DecoderParts {
        weights,
        ..DecoderParts::linear(STEP, bank, names, vec![output("vx"), output("vy")])
    })
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

fn main() -> Result<()> {
    let channels = number("--channels", 192.0) as usize;
    let rate = number("--rate", 20.0);
    let seconds = number("--seconds", f64::INFINITY);
    let speed = number("--speed", 1.0).max(0.01);
    let slow_every = number("--slow-every", 0.0) as u64;
    let model = decoder(channels, rate, 0.04)?;
    let slower = decoder(channels, rate, 0.08)?;
    let deadline = Duration::from_micros(number("--deadline", 500.0) as u64);
    let mut session = Session::open(
        &model,
        SessionConfig {
            deadline: Some(deadline),
            ..SessionConfig::default()
        },
    )?;
    let control = std::env::args().any(|a| a == "--control");
    let fixed = std::env::var("BETZ_MONITOR_TOKEN")
        .ok()
        .filter(|t| t == "none");
    let options = Options {
        port: number("--port", 0.0) as u16,
        no_token: fixed.is_some(),
        token: if fixed.is_some() {
            None
        } else {
            Some(Token::new()?)
        },
        control,
        embed: std::env::args().any(|a| a == "--embed"),
        page_folder: std::env::var_os("BETZ_PAGE").map(Into::into),
        ..Options::default()
    };
    let mut source = Source::of("a made-up session", &model);
    source.deadline = Some(deadline);
    source.speed = speed;
    let wide = (channels as f64).sqrt().ceil() as usize;
    source.electrode_um = Some(
        (0..channels)
            .map(|c| [(c % wide) as f32 * 400.0, (c / wide) as f32 * 400.0])
            .collect(),
    );
    let (monitor, feed) = Monitor::start(source, options)?;
    monitor.watch(session.health());
    let mut truth = monitor.truth().ok_or_else(|| Error::argument("no truth"))?;
    if control {
        let models = vec![
            ("tau 40 ms".to_owned(), model),
            ("tau 80 ms".to_owned(), slower),
        ];
        monitor.control(Control::new(session.swapper()?, models)?)?;
    }
    let wishes = match std::env::args().any(|a| a == "--simulation") {
        true => Some(monitor.simulation(Simulation {
            populations: vec![SimulatedPopulation {
                name: "made up".into(),
                neurons: channels as u32,
                takes_current: false,
                degrees: [0.0; 2],
                parameters: Vec::new(),
            }],
            synapses: 0,
            seed: number("--seed", 1.0) as u64,
            name: "made up".into(),
            scale: 1.0,
            every: 1,
            replaceable: false,
        })?),
        false => None,
    };
    session.attach(Box::new(feed), 0)?;
    if std::env::args().any(|a| a == "--episodes") {
        let edge = Interval::new(0, 5)?;
        let pairs = (0..channels as u32 / 2).take(20);
        let pairs = pairs.map(|c| Pattern::new(vec![2 * c, 2 * c + 1], vec![edge]));
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        let (counted, miner) = open(MinerConfig::new(channels, pairs))?;
        session.attach(Box::new(counted), 0)?;
        monitor.mine("pairs of channels", miner)?;
    }
    if slow_every > 0 {
        session.attach(
            Box::new(Hiccup {
                every: slow_every,
                length: deadline * 9 / 5,
                steps: 0,
            }),
            0,
        )?;
    }
    println!(
        "{}",
        monitor.embedded_url().as_deref().unwrap_or(monitor.url())
    );

    let mut random = ChaCha8Rng::seed_from_u64(number("--seed", 1.0) as u64);
    let mut spikes = Vec::with_capacity(channels);
    let mut out = [0.0f32; 2];
    let mut notes = std::env::args()
        .any(|a| a == "--notes")
        .then(Notes::default);
    let mut started = Instant::now();
    for step in 0u64.. {
        let t = step as f64 * STEP;
        if t >= seconds {
            break;
        }
        let due = Duration::from_secs_f64(t / speed);
        if let Some(wishes) = &wishes {
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
                started += since.elapsed();
            }
        }
        if let Some(wait) = due.checked_sub(started.elapsed()) {
            std::thread::sleep(wait);
        }
        let [x, y] = hand(t);
        spikes.clear();
        for c in 0..channels {
            let angle = preferred(c, channels);
            let drive = 1.0 + DEPTH * (angle.cos() * x + angle.sin() * y);
            let wanted = match c % 61 {
                17 => 0.0,
                43 if c < 61 => 12.0 * rate,
                _ => rate * drive,
            };
            if random.random::<f64>() < wanted * STEP {
                spikes.push(c as u32);
            }
        }
        let true_outputs = [(x * FASTEST) as f32, (y * FASTEST) as f32];
        if notes.is_none() {
            truth.step(&true_outputs);
        }
        session.step_spikes(&spikes, &mut out)?;
        if let Some(notes) = &mut notes {
            notes.step(step, true_outputs, &monitor)?;
        }
    }
    drop(session);
    if std::env::args().any(|a| a == "--stay") {
        loop {
            std::thread::park();
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    monitor.stop();
    Ok(())
}
