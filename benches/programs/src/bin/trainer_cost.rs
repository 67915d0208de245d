//! Cost of an online trainer to the loop: nanoseconds per step, with and without it.
//!
//! `cargo run --release -p betz-programs --bin trainer_cost [CHANNELS] [SPIKES]` steps five sessions of one model in
//! turn, a block of steps each (so that whatever else the machine does hits all alike), and prints the least and
//! the median time of a step over the blocks: plain; watching channels; with a trainer's tap; with a
//! label a step as well; with all of it.

use std::time::Instant;

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

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| {
        let wrong = |_| Error::argument(format!("expected a number, got '{text}'"));
        text.parse::<usize>().map_err(wrong)
    });
    let channels = numbers.next().transpose()?.unwrap_or(95);
    let spikes = numbers.next().transpose()?.unwrap_or(120);
    let data = betz::simulate::poisson(channels, 50.0, 4_000, 0.02, 1)?;
    let bank = FilterBank::new(vec![
        Filter {
            tau_seconds: 0.05,
            order: 1,
        },
        Filter {
            tau_seconds: 0.2,
            order: 0,
        },
    ])?;
    let options = TrainOptions {
        ridge: RidgeChoice::Fixed(1.0),
        retain: Some(1 << 30),
        ..TrainOptions::new(bank)
    };
    let model = train(&data, &options, &())?;
    let label = vec![0.0; model.outputs().len()];
    // It hears and labels, and never solves: solving is another thread's time.
    let config = TrainerConfig {
        batch: 10_000,
        ..TrainerConfig::default()
    };
    let mut loops = Vec::new();
    for (what, watches, hears, labelled) in [
        ("plain", false, false, false),
        ("watch", true, false, false),
        ("tap", false, true, false),
        ("tap, labels", false, true, true),
        ("tap, labels, watch", true, true, true),
    ] {
        let mut session = Session::open(&model, SessionConfig::default())?;
        let (mut labels, mut trainer) = (None, None);
        let watch = watches
            .then(|| session.watch_channels(&model, ChannelRules::default()))
            .transpose()?;
        if hears {
            let (tap, end, mut worker) = Worker::open(&model, config.clone())?;
            session.attach(Box::new(tap), 0)?;
            if let Some(watch) = watch {
                worker.watch(watch);
            }
            labels = labelled.then_some(end);
            trainer = Some(Trainer::start(worker, None)?);
        }
        loops.push(Loop {
            what,
            session,
            labels,
            trainer,
            nanoseconds: Vec::with_capacity(BLOCKS),
        });
    }
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let steps: Vec<Vec<u32>> = (0..BLOCK)
        .map(|_| {
            (0..spikes)
                .map(|_| random.random_range(0..channels as u32))
                .collect()
        })
        .collect();
    let mut out = vec![0.0; model.outputs().len()];
    for _ in 0..BLOCKS {
        for each in &mut loops {
            each.session.reset();
            let begin = Instant::now();
            for spikes in &steps {
                each.session.step_spikes(spikes, &mut out)?;
                if let Some(labels) = &mut each.labels {
                    labels.label(&label)?;
                }
            }
            each.nanoseconds
                .push(begin.elapsed().as_nanos() as f64 / BLOCK as f64);
            if let Some(labels) = &mut each.labels {
                labels.end_trial(true);
            }
        }
        // The worker is to keep up: what the ring has no room for costs less.
        let states = loops
            .iter()
            .filter_map(|l| l.trainer.as_ref().map(Trainer::state));
        if states.into_iter().any(|s| s.lost_steps > 0) {
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
        let lost = each.trainer.as_ref().map_or(0, |t| t.state().lost_steps);
        println!(
            "{:<20} {:>7.1} {:>7.1} {:>14}",
            each.what,
            each.nanoseconds[0],
            each.nanoseconds[BLOCKS / 2],
            lost
        );
    }
    Ok(())
}
