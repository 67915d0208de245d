//! The search for a delay over lags of several lengths, on the CPU and on a device in one run:
//! `cargo run --release -p betz-programs --bin delays -- --device cuda --channels 1000 --steps 400000 --lags 500,5000,20000`.
//!
//! Spikes are Poisson at 20 per second in steps of 1 ms. Two outputs follow them, with a quarter of the longest lag between.

use std::time::Instant;

use betz::device::Device;
use betz::psc::{Filter, FilterBank};
use betz::recording::Dataset;
use betz::train::{DelayEstimate, estimate_delay_on};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "\
delays [--device auto] [--channels 1000] [--steps 400000] [--lags 500,5000,20000] [--repeats 3]
       lags: largest lag in steps, in both directions";

/// Share of an output that is left after a step.
const DECAY: f32 = 0.95;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--help") {
        println!("{HELP}");
        return Ok(());
    }
    let given = |name: &str, default: &str| {
        let at = arguments.iter().position(|a| a == name);
        let text = at
            .and_then(|i| arguments.get(i + 1))
            .map_or(default, String::as_str);
        text.to_owned()
    };
    let channels = given("--channels", "1000").parse()?;
    let steps: usize = given("--steps", "400000").parse()?;
    let repeats = given("--repeats", "3").parse()?;
    let devices = [
        Device::cpu(),
        Device::open(given("--device", "auto").parse()?)?,
    ];
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.02,
        order: 1,
    }])?;
    println!(
        "channels, steps, lags, CPU s ({} threads), device, s, ratio, largest difference, delay on the CPU, on the device",
        rayon::current_num_threads()
    );
    for lags in given("--lags", "500,5000,20000").split(',') {
        let most: usize = lags.parse()?;
        let data = followed(channels, steps, most / 4)?;
        let runs = devices
            .iter()
            .map(|device| timed(device, &data, &bank, most, repeats))
            .collect::<Outcome<Vec<_>>>()?;
        let [(cpu, cpu_seconds), (other, seconds)] = runs.as_slice() else {
            return Err("expected two devices".into());
        };
        let pairs = cpu.correlation.iter().zip(&other.correlation);
        let difference = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        println!(
            "{channels}, {steps}, {most}, {cpu_seconds:.4}, {}, {seconds:.4}, {:.1}, {difference:.1e}, {}, {}",
            other.ran.device,
            cpu_seconds / seconds,
            cpu.delay_steps,
            other.delay_steps
        );
        if let Some(reason) = &other.ran.fallback {
            println!("not on the device that was asked for: {reason}");
        }
    }
    Ok(())
}

/// A recording whose outputs are followed by its spikes, `delay` steps later.
fn followed(channels: usize, steps: usize, delay: usize) -> Outcome<Dataset> {
    let mut data = betz::simulate::poisson(channels, 20.0, steps, 1e-3, 1)?;
    let outputs = data.outputs.len();
    data.behavior.fill(0.0);
    for (&tick, &channel) in data.spikes.ticks.iter().zip(&data.spikes.channels) {
        let Some(step) = (tick as usize).checked_sub(delay) else {
            continue;
        };
        for output in 0..outputs {
            let weight = ((channel as usize * (2 * output + 3)) % 7) as f32 - 3.0;
            data.behavior[step * outputs + output] += weight;
        }
    }
    for at in outputs..data.behavior.len() {
        data.behavior[at] += DECAY * data.behavior[at - outputs];
    }
    Ok(data)
}

/// The median of some runs, after one that starts the libraries.
fn timed(
    device: &Device,
    data: &Dataset,
    bank: &FilterBank,
    most: usize,
    repeats: usize,
) -> Outcome<(DelayEstimate, f64)> {
    let run = || {
        let begun = Instant::now();
        let found = estimate_delay_on(device, data, bank, None, most, &())?;
        Ok::<_, betz::Error>((found, begun.elapsed().as_secs_f64()))
    };
    // Nothing starts on the CPU.
    if !device.is_cpu() {
        run()?;
    }
    let mut runs = (0..repeats.max(1))
        .map(|_| run())
        .collect::<Result<Vec<_>, _>>()?;
    runs.sort_by(|a, b| a.1.total_cmp(&b.1));
    Ok(runs.swap_remove(runs.len() / 2))
}
