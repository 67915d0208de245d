//! Cost of an online trainer to the loop: nanoseconds per step, with and without it.
//!
//! `cargo run --release -p betz-programs --bin trainer_cost [CHANNELS] [SPIKES]` steps five sessions of one model in
//! turn, a block of steps each (so that whatever else the machine does hits all alike), and prints the least and
//! the median time of a step over the blocks: plain; watching channels; with a trainer's tap; with a
//! label a step as well; with all of it.

use std::time::Instant;

use betz::model::Decoder;
use betz::psc::{Filter, FilterBank};
use betz::stream::{ChannelRules, Session, SessionConfig};
use betz::train::online::{Labels, Trainer, TrainerConfig, Worker};
use betz::train::{RidgeChoice, TrainOptions, train};
use betz::{Error, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Steps of a block, a trial; blocks of each session.
const BLOCK: usize = 200;
const BLOCKS: usize = 2_000;

struct Loop {
    what: &'static str,
    session: Session,
    labels: Option<Labels>,
    trainer: Option<Trainer>,
    nanoseconds: Vec<f64>,
}

/// Work of a loop besides its steps.
#[derive(Clone, Copy, Default)]
struct Extras {
    watch: bool,
    tap: bool,
    labels: bool,
}

impl Loop {
    fn open(model: &Decoder, what: &'static str, extras: Extras) -> Result<Self> {
        // It hears and labels, and never solves: solving is another thread's time.
        let config = TrainerConfig {
            batch: 10_000,
            ..TrainerConfig::default()
        };
        let mut session = Session::open(model, SessionConfig::default())?;
        let (mut labels, mut trainer) = (None, None);
        let watch = (extras.watch)
            .then(|| session.watch_channels(model, ChannelRules::default()))
            .transpose()?;
        if extras.tap {
            let (tap, end, mut worker) = Worker::open(model, config)?;
            session.attach(Box::new(tap), 0)?;
            if let Some(watch) = watch {
                worker.watch(watch);
            }
            labels = extras.labels.then_some(end);
            trainer = Some(Trainer::start(worker, None)?);
        }
        Ok(Self {
            what,
            session,
            labels,
            trainer,
            nanoseconds: Vec::with_capacity(BLOCKS),
        })
    }

    /// Times a block, one trial.
    fn run_block(&mut self, steps: &[Vec<u32>], label: &[f32], out: &mut [f32]) -> Result<()> {
        self.session.reset();
        let begin = Instant::now();
        for spikes in steps {
            self.session.step_spikes(spikes, out)?;
            if let Some(labels) = &mut self.labels {
                labels.label(label)?;
            }
        }
        self.nanoseconds
            .push(begin.elapsed().as_nanos() as f64 / BLOCK as f64);
        if let Some(labels) = &mut self.labels {
            labels.end_trial(true);
        }
        Ok(())
    }

    fn lost_steps(&self) -> u64 {
        self.trainer.as_ref().map_or(0, |t| t.state().lost_steps)
    }
}

fn trained_model(channels: usize) -> Result<Decoder> {
    let data = betz::simulate::poisson(channels, 50.0, 4_000, 0.02, 1)?;
    let filter = |tau_seconds, order| Filter { tau_seconds, order };
    let bank = FilterBank::new(vec![filter(0.05, 1), filter(0.2, 0)])?;
    let options = TrainOptions {
        ridge: RidgeChoice::Fixed(1.0),
        retain: Some(1 << 30),
        ..TrainOptions::new(bank)
    };
    train(&data, &options, &())
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| {
        let wrong = |_| Error::argument(format!("expected a number, got '{text}'"));
        text.parse::<usize>().map_err(wrong)
    });
    let channels = numbers.next().transpose()?.unwrap_or(95);
    let spikes = numbers.next().transpose()?.unwrap_or(120);
    let model = trained_model(channels)?;
    let label = vec![0.0; model.outputs().len()];
    let plain = Extras::default();
    let with_watch = |extras| Extras {
        watch: true,
        ..extras
    };
    let tap = Extras { tap: true, ..plain };
    let labels = Extras {
        labels: true,
        ..tap
    };
    let mut loops = [
        ("plain", plain),
        ("watch", with_watch(plain)),
        ("tap", tap),
        ("tap, labels", labels),
        ("tap, labels, watch", with_watch(labels)),
    ]
    .map(|(what, extras)| Loop::open(&model, what, extras))
    .into_iter()
    .collect::<Result<Vec<_>>>()?;
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let mut channel = || random.random_range(0..channels as u32);
    let steps: Vec<Vec<u32>> = (0..BLOCK)
        .map(|_| (0..spikes).map(|_| channel()).collect())
        .collect();
    let mut out = vec![0.0; model.outputs().len()];
    for _ in 0..BLOCKS {
        for each in &mut loops {
            each.run_block(&steps, &label, &mut out)?;
        }
        // The worker is to keep up: what the ring has no room for costs less.
        if loops.iter().any(|l| l.lost_steps() > 0) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    println!("{channels} channels, {spikes} spikes per step, ns per step");
    println!(
        "{:<20} {:>7} {:>7} {:>14}",
        "", "least", "median", "steps lost"
    );
    for each in &mut loops {
        each.nanoseconds.sort_by(f64::total_cmp);
        println!(
            "{:<20} {:>7.1} {:>7.1} {:>14}",
            each.what,
            each.nanoseconds[0],
            each.nanoseconds[BLOCKS / 2],
            each.lost_steps()
        );
    }
    Ok(())
}
