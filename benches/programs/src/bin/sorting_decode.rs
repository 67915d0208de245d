//! Crossings, spike-band power and sorted units as what a decoder is given: the same voltage through the same front end,
//! as docs/sorting.md compares them.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin sorting_decode [SEEDS]
//! ```
//!
//! Two minutes of 32 electrodes, 32 units wherever chance puts them (some electrodes have none, some several), each with
//! a direction of movement that it prefers. Sorter and decoder are trained on the first 96 s and scored on the last 24 s.

use std::f64::consts::TAU;

use betz::psc::{Filter, FilterBank};
use betz::recording::{Dataset, OutputInfo, Segment, Spikes};
use betz::sort::synthetic::{Synthetic, SyntheticRecording, make_moved};
use betz::sort::{self, BandPower, FrontEnd, InMemory, Settings, Sorting};
use betz::train::{Search, TrainOptions, evaluate, train_validated};
use betz::{Error, Result};

const CHANNELS: usize = 32;
const STEP: usize = 600;
const STEPS: usize = 6000;
const TRIAL: i64 = 200;
const LEARNED: usize = 24;

fn main() -> Result<()> {
    let seeds = match std::env::args().nth(1) {
        None => 10,
        Some(text) => text
            .parse()
            .map_err(|_| Error::argument(format!("SEEDS: expected a number, got '{text}'")))?,
    };
    let mut sums = [0.0; 4];
    for seed in 1..=seeds {
        let scores = compare(seed)?;
        println!(
            "seed {seed}: R² {:.3} crossings, {:.3} spike-band power, {:.3} sorted, {:.3} true units",
            scores[0], scores[1], scores[2], scores[3]
        );
        for (sum, score) in sums.iter_mut().zip(scores) {
            *sum += score / seeds as f64;
        }
    }
    println!(
        "mean of {seeds}: R² {:.3} crossings, {:.3} spike-band power, {:.3} sorted, {:.3} true units",
        sums[0], sums[1], sums[2], sums[3]
    );
    Ok(())
}

/// R² of each, the mean of two outputs.
fn compare(seed: u64) -> Result<[f64; 4]> {
    let of = Synthetic {
        seconds: (STEP * STEPS) as f64 / 30_000.0,
        rates_hz: (10.0, 50.0),
        ..Synthetic::array(CHANNELS, seed)
    };
    let turn = seed as f64;
    let velocity = |t: f64| {
        [
            0.7 * (1.3 * t + turn).sin() * (0.37 * t).cos(),
            0.7 * (1.1 * t + 2.0 * turn).cos() * (0.53 * t + turn).sin(),
        ]
    };
    let made = make_moved(&of, &|unit, t| {
        let angle = TAU * (unit as f64 * 0.618_034).fract();
        let [x, y] = velocity(t);
        (0.5 + 0.5 * (x * angle.cos() + y * angle.sin())).clamp(0.0, 1.0)
    })?;
    let behavior: Vec<f32> = (0..STEPS)
        .flat_map(|step| velocity(step as f64 * 0.02))
        .map(|v| v as f32)
        .collect();
    let settings = Settings::new(of.rate_hz, of.gain);
    let places = of.places.iter().map(|p| Some(*p)).collect();
    let options = sort::TrainOptions {
        rows: 0..(LEARNED as u64 * TRIAL as u64 * STEP as u64),
        ..sort::TrainOptions::new(settings, places)
    };
    let sorter = sort::train(&mut InMemory::new(&made.samples, CHANNELS)?, &options, &())?.sorter;
    let (crossings, sorted) = (crossings(&sorter, &made)?, sorted(&sorter, &made)?);
    let r2 = |channels: usize, spikes: Spikes| r2(channels, spikes, &behavior);
    Ok([
        r2(CHANNELS, crossings)?,
        r2(CHANNELS, power(&of, &made)?)?,
        r2(sorter.units().len(), sorted)?,
        r2(of.units, truth(&made))?,
    ])
}

fn crossings(sorter: &sort::Sorter, made: &SyntheticRecording) -> Result<Spikes> {
    let mut front = FrontEnd::new(sorter.settings(), sorter.layout())?;
    let mut spikes = Spikes::default();
    for row in made.samples.chunks_exact(CHANNELS) {
        front.step(row);
        while let Some(crossing) = front.take() {
            let channel = sorter.layout().used[crossing.channel];
            push(&mut spikes, crossing.sample, channel);
        }
    }
    Ok(spikes)
}

fn power(of: &Synthetic, made: &SyntheticRecording) -> Result<Spikes> {
    let mut power = BandPower::new(of.rate_hz, of.gain, CHANNELS, STEP)?;
    let mut spikes = Spikes::default();
    let mut step = 0;
    for row in made.samples.chunks_exact(CHANNELS) {
        if let Some(bin) = power.step(row) {
            for (channel, &value) in bin.iter().enumerate() {
                spikes.ticks.push(step);
                spikes.channels.push(channel as u32);
                spikes.weights.push(value);
            }
            step += 1;
        }
    }
    Ok(spikes)
}

fn sorted(sorter: &sort::Sorter, made: &SyntheticRecording) -> Result<Spikes> {
    let mut sorting = Sorting::open(sorter)?;
    let mut spikes = Spikes::default();
    sorting.push(&made.samples, &mut |spike| {
        if let Some(unit) = spike.unit {
            push(&mut spikes, spike.sample, unit);
        }
    })?;
    Ok(spikes)
}

fn truth(made: &SyntheticRecording) -> Spikes {
    let mut spikes = Spikes::default();
    for (&sample, &unit) in made.spikes.iter().zip(&made.units) {
        push(&mut spikes, sample, unit);
    }
    spikes
}

fn push(spikes: &mut Spikes, sample: i64, channel: u32) {
    let step = sample / STEP as i64;
    if (0..STEPS as i64).contains(&step) {
        spikes.ticks.push(step);
        spikes.channels.push(channel);
    }
}

fn r2(channels: usize, spikes: Spikes, behavior: &[f32]) -> Result<f64> {
    let output = |name: &str| OutputInfo {
        name: name.to_owned(),
        unit: "1/s".to_owned(),
    };
    let all = Dataset {
        step_seconds: 0.02,
        steps: STEPS,
        channel_names: (0..channels).map(|c| format!("ch{c}")).collect(),
        spikes,
        segments: (0..STEPS as i64 / TRIAL)
            .map(|t| Segment {
                start: t * TRIAL,
                stop: (t + 1) * TRIAL,
            })
            .collect(),
        outputs: vec![output("vx"), output("vy")],
        behavior: behavior.to_vec(),
    };
    let trials: Vec<usize> = (0..all.segments.len()).collect();
    let (learned, kept) = trials.split_at(LEARNED);
    let filter = |tau_seconds| Filter {
        tau_seconds,
        order: 0,
    };
    let options = TrainOptions::new(FilterBank::new(vec![filter(0.06), filter(0.2)])?);
    let decoder = train_validated(&all.select(learned), &options, &Search::ridge(), &())?;
    let scores = evaluate(&decoder, &all.select(kept))?.outputs;
    Ok(scores.iter().map(|s| s.r2).sum::<f64>() / scores.len() as f64)
}
