//! The population-temporal experiment over population sizes and seeds (Galbraith 2010, ch. 5):
//! NRMSE (RMSE / standard deviation, mean of x and y) of single-unit and multi-unit decoding on 10 s
//! that were not trained on.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin population_sweep              # 10 to 1,000 neurons, 10 seeds
//! cargo run --release -p betz-programs --bin population_sweep 150 20       # 150 neurons, 20 seeds
//! ```
//!
//! Each cell is mean ± standard deviation over the seeds. `PSC` decodes the filtered spikes with a
//! delay of 15 ms; `PSC + low-pass` adds a Butterworth low-pass (order 2, 12 Hz) and estimates the
//! delay by cross-correlation, which is the published pipeline.

use std::time::Instant;

use betz::psc::{Filter, FilterBank, LowPass};
use betz::recording::Recording;
use betz::recording::multiunit::random_groups;
use betz::simulate::population::{PopulationConfig, PopulationRecording, simulate};
use betz::train::{Search, TrainOptions, estimate_delay, evaluate, train_validated};
use betz::{Error, Result};

const UNITS: usize = 3;
const LOW_PASS: LowPass = LowPass {
    order: 2,
    cutoff_hz: 12.0,
};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let sizes = match arguments.next() {
        Some(size) => vec![number(&size)?],
        None => vec![10, 30, 80, 150, 300, 600, 1000],
    };
    let seeds = match arguments.next() {
        Some(seeds) => number(&seeds)? as u64,
        None => 10,
    };
    println!(
        "| neurons | SU, PSC | MU, PSC | SU, PSC + low-pass | MU, PSC + low-pass | seconds a seed |"
    );
    println!("|---:|---|---|---|---|---:|");
    for neurons in sizes {
        let started = Instant::now();
        let mut cells: [Vec<f64>; 4] = Default::default();
        for seed in 1..=seeds {
            let config = PopulationConfig {
                neurons,
                ..PopulationConfig::default()
            };
            let made = simulate(&config, seed)?;
            let groups = random_groups(neurons, UNITS, seed);
            let multi = PopulationRecording {
                train: made.train.combine(&groups)?,
                test: made.test.combine(&groups)?,
                neurons: Vec::new(),
            };
            for (i, low_pass) in [None, Some(LOW_PASS)].into_iter().enumerate() {
                cells[2 * i].push(nrmse(&made.train, &made.test, low_pass)?);
                cells[2 * i + 1].push(nrmse(&multi.train, &multi.test, low_pass)?);
            }
        }
        let seconds = started.elapsed().as_secs_f64() / seeds as f64;
        let [a, b, c, d] = cells.map(|cell| mean_and_spread(&cell));
        println!("| {neurons} | {a} | {b} | {c} | {d} | {seconds:.1} |");
    }
    Ok(())
}

fn number(text: &str) -> Result<usize> {
    text.parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| Error::argument(format!("expected a number above 0, got '{text}'")))
}

fn nrmse(train: &Recording, test: &Recording, low_pass: Option<LowPass>) -> Result<f64> {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.010,
        order: 1,
    }])?;
    let step = train.tick_seconds;
    let (train, test) = (train.align(step)?, test.align(step)?);
    let delay_steps = match low_pass {
        None => (0.015 / step) as i64,
        Some(_) => estimate_delay(&train, &bank, low_pass, (0.1 / step) as usize, &())?.delay_steps,
    };
    let options = TrainOptions {
        low_pass,
        delay_steps,
        ..TrainOptions::new(bank)
    };
    let decoder = train_validated(&train, &options, &Search::ridge(), &())?;
    let scores = evaluate(&decoder, &test)?.outputs;
    Ok(scores.iter().map(|s| s.nrmse_std).sum::<f64>() / scores.len() as f64)
}

fn mean_and_spread(values: &[f64]) -> String {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    format!("{mean:.3} ± {:.3}", variance.sqrt())
}
