//! Regenerates the tables of `benches/record/spiking.md`:
//!
//! ```sh
//! cargo run --release -p betz-programs --bin spiking_record            # all but the next two
//! cargo run --release -p betz-programs --bin spiking_record -- pd14    # the full microcircuit, 10 s
//! cargo run --release -p betz-programs --bin spiking_record -- user    # users for the closed loop
//! cargo run --release -p betz-programs --bin spiking_record -- device  # published models on cuda:0 beside a thread
//! cargo run --release -p betz-programs --bin spiking_record -- device-pd14    # the full microcircuit there
//! cargo run --release -p betz-programs --bin spiking_record -- device-large   # on one device and on all
//! ```
//!
//! `betz reproduce spiking` measures the networks of Galbraith 2010.
//! Beside wall-clock seconds of a run it prints the processor's seconds of one thread (Linux), which
//! say more on a machine that is shared.

use std::time::Instant;

use betz_closed_loop::{
    Decoder, Kalman, KalmanConfig, Loop, Ole, Session, Setup, Units, User, intention, reaches,
};
use betz_spiking::models::{self, PD14_RATES_HZ};
use betz_spiking::{Device, Engine, Network, Options, Phases, Result, Rule};

fn main() -> Result<()> {
    let parts: Vec<String> = std::env::args().skip(1).collect();
    let all = parts.is_empty();
    let wanted = |part: &str| all || parts.iter().any(|p| p == part);
    if wanted("models") {
        named_models()?;
    }
    if wanted("loop") {
        closed_loop(60, 3)?;
    }
    if parts.iter().any(|p| p == "pd14") {
        microcircuit()?;
    }
    if parts.iter().any(|p| p == "user") {
        users()?;
    }
    if parts.iter().any(|p| p == "device") {
        models_on_a_device()?;
    }
    if parts.iter().any(|p| p == "device-pd14") {
        microcircuit_on_a_device()?;
        microcircuits_of_five_seeds()?;
    }
    if parts.iter().any(|p| p == "device-large") {
        large_on_devices()?;
    }
    Ok(())
}

/// Seconds that the calling thread had a processor; NaN where the system does not say.
fn processor_seconds() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(f64::NAN, |nanoseconds| nanoseconds * 1e-9)
}

fn named_models() -> Result<()> {
    println!(
        "| model | neurons | synapses | seconds simulated | build s | s of processor | real-time factor by it | ns per event | rates Hz |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (name, network, seconds) in [
        ("PD14, scale 0.1", models::pd14(0.1, 1)?, 1.2),
        ("Brunel 12,500", models::brunel(1.0, 5.0, 2.0, 1)?, 0.2),
        ("CUBA 4,000", models::cuba(1.0, 1)?, 10.0),
    ] {
        let mut engine = Engine::build(&network, &Options::default(), &())?;
        if name != "CUBA 4,000" {
            engine.run(1_000, &())?;
        }
        let before = processor_seconds();
        let report = engine.run((seconds * 1e3 / network.step_ms).round() as u64, &())?;
        let processor = processor_seconds() - before;
        let rates: Vec<String> = report
            .rates_hz
            .iter()
            .map(|(n, r)| format!("{n} {r:.3}"))
            .collect();
        println!(
            "| {name} | {} | {} | {seconds} | {:.2} | {processor:.3} | {:.3} | {:.1} | {} |",
            report.neurons,
            report.synapses,
            report.build_seconds,
            processor / seconds,
            processor * 1e9 / report.synaptic_events as f64,
            rates.join(", ")
        );
    }
    println!();
    Ok(())
}

fn microcircuit() -> Result<()> {
    let network = models::pd14(1.0, 1)?;
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    let mut engine = Engine::build(&network, &options, &())?;
    println!(
        "{}; built in {:.1} s",
        engine.plan(),
        engine.build_seconds()
    );
    let rates = |engine: &Engine| -> Vec<f64> {
        let (counts, firsts) = (engine.counts(), network.firsts());
        (0..8)
            .map(|p| {
                let own = &counts[firsts[p] as usize..firsts[p + 1] as usize];
                own.iter().map(|c| f64::from(*c)).sum::<f64>() / own.len() as f64
            })
            .collect()
    };
    engine.run(5_000, &())?;
    let before = rates(&engine);
    // Second by second, so that a run that is cut short has said something.
    for second in 1..=10u32 {
        let report = engine.run(10_000, &())?;
        let after = rates(&engine);
        println!(
            "after {second} s, real-time factor {:.2}, hash {:016x}",
            report.rtf, report.hash
        );
        println!("| population | rate Hz | published | difference |\n|---|---|---|---|");
        for (p, (population, published)) in
            network.populations.iter().zip(PD14_RATES_HZ).enumerate()
        {
            let rate = (after[p] - before[p]) / f64::from(second);
            let difference = rate / published - 1.0;
            println!(
                "| {} | {rate:.3} | {published} | {:+.1} % |",
                population.name,
                difference * 100.0
            );
        }
    }
    Ok(())
}

/// Steps of [`models_on_a_device`].
const DEVICE_STEPS: u64 = 40_000;

/// Seconds of a run on one thread and on the first CUDA device, and whether they gave the same spikes.
fn models_on_a_device() -> Result<()> {
    println!(
        "| network | neurons | synapses | spikes | s, 1 thread | s, device | design | µs per step | same spikes |\n|---|---|---|---|---|---|---|---|---|"
    );
    for (name, network) in [
        ("PD14, scale 0.1, 4 s", models::pd14(0.1, 1)?),
        ("Brunel 12,500, 4 s", models::brunel(1.0, 5.0, 2.0, 1)?),
        ("CUBA 4,000, 4 s", models::cuba(1.0, 1)?),
    ] {
        let mut host = Engine::build(&network, &Options::default(), &())?;
        let expected = host.run(DEVICE_STEPS, &())?;
        let options = Options {
            device: Device::cuda(0)?,
            ..Options::default()
        };
        let mut seconds = f64::INFINITY;
        let (mut same, mut path) = (true, "");
        for _ in 0..3 {
            let mut device = Engine::build(&network, &options, &())?;
            let report = device.run(DEVICE_STEPS, &())?;
            seconds = seconds.min(report.seconds);
            same &= report.hash == expected.hash && device.synapse_hash() == host.synapse_hash();
            path = device.ran().path;
        }
        println!(
            "| {name} | {} | {} | {} | {:.3} | {seconds:.4} | {path} | {:.2} | {} |",
            expected.neurons,
            expected.synapses,
            expected.spikes,
            expected.seconds,
            seconds * 1e6 / DEVICE_STEPS as f64,
            if same { "yes" } else { "NO" }
        );
    }
    Ok(())
}

/// The full microcircuit, spikes recorded and not; the first thousand steps against a thread.
fn microcircuit_on_a_device() -> Result<()> {
    let network = models::pd14(1.0, 1)?;
    for recorded in [0, 100_000_000] {
        for timed in [false, true] {
            let options = Options {
                device: Device::cuda(0)?,
                record_spikes: recorded,
                time_phases: timed,
                ..Options::default()
            };
            let mut builds = Vec::new();
            let mut steps = Vec::new();
            let mut hashes = Vec::new();
            let mut phases = Phases::default();
            let mut spikes = 0;
            for _ in 0..3 {
                let mut engine = Engine::build(&network, &options, &())?;
                builds.push(engine.build_seconds());
                engine.run(5_000, &())?;
                let report = engine.run(100_000, &())?;
                steps.push(report.us_per_step);
                hashes.push(report.hash);
                phases = report.phases;
                spikes = engine.spikes().len();
                if steps.len() == 1 {
                    println!("{}, {}", engine.plan(), engine.ran().path);
                }
            }
            steps.sort_by(f64::total_cmp);
            println!(
                "recorded {spikes}, timed {timed}: {:.3} µs per step (least {:.3}), real-time factor {:.4}, builds {builds:.3?} s, hash {:016x}, same {}, {phases:?}",
                steps[1],
                steps[0],
                steps[1] / 100.0,
                hashes[0],
                hashes.iter().all(|h| *h == hashes[0])
            );
        }
    }
    let device = Options {
        device: Device::cuda(0)?,
        ..Options::default()
    };
    let threads = Options {
        threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
        ..Options::default()
    };
    let mut both = Vec::new();
    for options in [&device, &threads] {
        let mut engine = Engine::build(&network, options, &())?;
        let report = engine.run(1_000, &())?;
        println!(
            "{} after 1,000 steps: hash {:016x}, synapses {:016x}, built in {:.2} s, {:.1} µs per step",
            report.device,
            report.hash,
            engine.synapse_hash(),
            report.build_seconds,
            report.us_per_step
        );
        both.push((report.hash, engine.synapse_hash()));
    }
    println!("same spikes and synapses: {}", both[0] == both[1]);
    Ok(())
}

/// Rates of five full microcircuits over 10 s after 0.5 s, beside the published ones.
fn microcircuits_of_five_seeds() -> Result<()> {
    let mut means = [0.0; 8];
    for seed in 1..=5 {
        let network = models::pd14(1.0, seed)?;
        let options = Options {
            device: Device::cuda(0)?,
            ..Options::default()
        };
        let mut engine = Engine::build(&network, &options, &())?;
        engine.run(5_000, &())?;
        let (before, firsts) = (engine.counts(), network.firsts());
        engine.run(100_000, &())?;
        let after = engine.counts();
        let rates: Vec<f64> = (0..8)
            .map(|p| {
                let own = firsts[p] as usize..firsts[p + 1] as usize;
                let neurons = own.len() as f64;
                own.map(|i| f64::from(after[i] - before[i])).sum::<f64>() / neurons / 10.0
            })
            .collect();
        for (mean, rate) in means.iter_mut().zip(&rates) {
            *mean += rate / 5.0;
        }
        println!("seed {seed}: {rates:.3?} Hz");
    }
    let near =
        |(mean, published): (&f64, &f64)| (mean - published).abs() <= (0.05 * published).max(0.15);
    println!(
        "mean: {means:.3?} Hz; published {PD14_RATES_HZ:?}; each within 5 % or 0.15 Hz: {}",
        means.iter().zip(&PD14_RATES_HZ).all(near)
    );
    Ok(())
}

/// A sparse random network of `neurons`, 1,000 synapses from each, delays of 1.5 ms.
fn large(neurons: u32) -> Network {
    let mut network = models::brunel(1.0, 5.0, 2.0, 1).unwrap_or_else(|_| Network::new(0.1, 1));
    network.populations[0].neurons = neurons / 5 * 4;
    network.populations[1].neurons = neurons / 5;
    for projection in &mut network.projections {
        // In-degrees as in the model: 1,000 from the excitatory ones and 250 from the others.
        let count = match projection.target.as_str() {
            "E" => 1_000,
            _ => 250,
        };
        projection.rule = Rule::FixedOut {
            count,
            distinct: false,
        };
    }
    network
}

/// A network larger than a chip holds, on one device and shared by all.
fn large_on_devices() -> Result<()> {
    println!(
        "| neurons | synapses | devices | build s | µs per step | Hz | hash |\n|---|---|---|---|---|---|---|"
    );
    for neurons in [200_000, 800_000] {
        let network = large(neurons);
        for device in [Device::cuda(0)?, Device::cuda_all()?] {
            let options = Options {
                device,
                ..Options::default()
            };
            let mut engine = Engine::build(&network, &options, &())?;
            engine.run(1_000, &())?;
            let report = engine.run(5_000, &())?;
            println!(
                "| {neurons} | {} | {} | {:.2} | {:.1} | {:.1} | {:016x} |",
                report.synapses,
                report.device,
                report.build_seconds,
                report.us_per_step,
                report.rates_hz[0].1,
                report.hash
            );
        }
    }
    Ok(())
}

/// Decoders in one loop: each starts from units at rest and meets the same targets.
fn sessions(setup: &Setup, trials: usize) -> Result<Vec<(&'static str, Session)>> {
    let data = reaches(setup, &mut Units::tuned(&setup.units, setup.seed)?, 120)?;
    let run = |decoder: &mut dyn Decoder, seed: u64| -> Result<Session> {
        let setup = Setup {
            seed: setup.seed + seed,
            ..setup.clone()
        };
        // The units are those of the calibration; chance is not.
        let units = Units::tuned(&setup.units, setup.seed - seed)?;
        Loop::new(&setup, units)?.run(decoder, trials)
    };
    let position = KalmanConfig { position: true };
    let mut ole_slow = Ole::train(&data, 0.15, 1e-3)?;
    let mut ole_fast = Ole::train(&data, 0.05, 1e-3)?;
    let mut kalman = Kalman::train(&data, KalmanConfig::default())?;
    let retrain = intention(&run(&mut kalman, 1_000)?);
    let mut refit = Kalman::train(&retrain, position)?;
    let retrain = intention(&run(&mut ole_slow, 1_000)?);
    let mut fit_ole = Ole::train(&retrain, 0.15, 1e-3)?;
    Ok(vec![
        ("OLE, 150 ms", run(&mut ole_slow, 2_000)?),
        ("OLE, 50 ms", run(&mut ole_fast, 2_000)?),
        ("Kalman", run(&mut kalman, 2_000)?),
        ("ReFIT", run(&mut refit, 2_000)?),
        ("OLE, 150 ms, on intentions", run(&mut fit_ole, 2_000)?),
    ])
}

fn closed_loop(trials: usize, seeds: u64) -> Result<()> {
    println!("| decoder | success | s to target | dial-in s | path efficiency | bits/s |");
    println!("|---|---|---|---|---|---|");
    let mut joined: Vec<(&str, Session)> = Vec::new();
    let (begun, before) = (Instant::now(), processor_seconds());
    for seed in 1..=seeds {
        let setup = Setup {
            seed,
            ..Setup::default()
        };
        for (i, (name, session)) in sessions(&setup, trials)?.into_iter().enumerate() {
            match joined.get_mut(i) {
                Some((_, all)) => {
                    all.trials.extend(session.trials);
                    all.log.extend(session.log);
                }
                None => joined.push((name, session)),
            }
        }
    }
    let (wall, processor) = (begun.elapsed().as_secs_f64(), processor_seconds() - before);
    for (name, session) in &joined {
        let s = session.scores(1);
        let show = |i: betz_closed_loop::Interval| {
            format!("{:.3} ({:.3} to {:.3})", i.mean, i.low, i.high)
        };
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            show(s.success),
            show(s.time_to_target_s),
            show(s.dial_in_s),
            show(s.path_efficiency),
            show(s.bits_per_s)
        );
    }
    println!("\nAll of this, training included: {wall:.1} s, {processor:.1} s of processor.");
    let setup = Setup::default();
    let data = reaches(&setup, &mut Units::tuned(&setup.units, 1)?, 60)?;
    let mut decoder = Ole::train(&data, 0.05, 1e-3)?;
    let mut test = Loop::new(&setup, Units::tuned(&setup.units, 1)?)?;
    let before = processor_seconds();
    let session = test.run(&mut decoder, 1_000)?;
    let processor = processor_seconds() - before;
    let simulated = session.log.len() as f64 * session.bin_s;
    println!(
        "1,000 trials of OLE, 150 units at 0.25 ms: {processor:.2} s of processor for {simulated:.0} s, {:.0} × real time.\n",
        simulated / processor
    );
    Ok(())
}

/// Factor between Kalman filter and ReFIT for several users; the defaults come from it.
fn users() -> Result<()> {
    println!("| delay s | gain 1/s | noise cm/s | noise of speed | Kalman s | ReFIT s | factor |");
    println!("|---|---|---|---|---|---|---|");
    for delay_s in [0.1, 0.2, 0.3] {
        for gain_per_s in [4.0, 8.0] {
            for noise_of_speed in [0.2, 0.6] {
                let user = User {
                    delay_s,
                    gain_per_s,
                    noise_of_speed,
                    ..User::default()
                };
                let setup = Setup {
                    user,
                    ..Setup::default()
                };
                let found = sessions(&setup, 40)?;
                let time = |i: usize| found[i].1.scores(1).time_to_target_s.mean;
                println!(
                    "| {delay_s} | {gain_per_s} | {} | {noise_of_speed} | {:.3} | {:.3} | {:.2} |",
                    user.noise_cm_s,
                    time(2),
                    time(3),
                    time(2) / time(3)
                );
            }
        }
    }
    Ok(())
}
