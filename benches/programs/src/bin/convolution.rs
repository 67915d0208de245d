//! Responses to a kernel of any shape, timed by its length (fig. 5.2): `cargo run --release -p betz-programs --bin
//! convolution -- --help`.
//!
//! `--cuda` prints, from the device's own clock, the median seconds of the phases from spikes to weights. `--spikes FILE`
//! writes the spikes and the kernel for `benches/compare/convolution.py`, which does the same with CuPy and PyTorch on a GPU,
//! and with SciPy on the CPU.

use std::io::Write;
use std::time::Instant;

use betz::device::{Device, Precision};
use betz::psc::{Block, Filter, FilterBank, Responses, SampledFilter};
use betz::recording::Dataset;
use betz::simulate;
use betz::train::gram::cuda::{Request, SampledWay, device_sums};
use betz::train::gram::{GramPath, cost};
use betz::train::solve;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "\
convolution [--channels 1000] [--steps 400000] [--step 0.00025] [--rate 20] [--samples 4000]
            [--repeats 7] [--cuda] [--cpu] [--tf32] [--recursive] [--spikes FILE]
            recursive: t e^(-t/50 ms) in place of the kernel, with --cpu only";

/// Size of the work.
struct Options {
    channels: usize,
    steps: usize,
    step_seconds: f64,
    rate: f64,
    samples: usize,
    repeats: usize,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--help") {
        println!("{HELP}");
        return Ok(());
    }
    let given = |name: &str| {
        let at = arguments.iter().position(|a| a == name);
        at.and_then(|i| arguments.get(i + 1)).cloned()
    };
    let number = |name: &str, default: f64| given(name).map_or(Ok(default), |text| text.parse());
    let options = Options {
        channels: number("--channels", 1000.0)? as usize,
        steps: number("--steps", 400_000.0)? as usize,
        step_seconds: number("--step", 0.00025)?,
        rate: number("--rate", 20.0)?,
        samples: number("--samples", 4000.0)? as usize,
        repeats: number("--repeats", 7.0)? as usize,
    };
    let (steps, step) = (options.steps, options.step_seconds);
    let data = simulate::poisson(options.channels, options.rate, steps, step, 1)?;
    if arguments.iter().any(|a| a == "--recursive") {
        let tau_seconds = 0.05;
        let bank = FilterBank::new(vec![Filter {
            tau_seconds,
            order: 1,
        }])?;
        return on_cpu(&data, &bank, &options);
    }
    let bank = FilterBank::with_sampled(vec![], vec![kernel(&options)?])?;
    println!(
        "{} channels, {steps} steps, kernel of {} samples, {} spikes; gather or transform by cost: {}",
        options.channels,
        options.samples,
        data.spikes.len(),
        cost::sampled_way(&data, &bank, None).name(),
    );
    if let Some(file) = given("--spikes") {
        write(&data, &bank, &file)?;
    }
    if arguments.iter().any(|a| a == "--cpu") {
        on_cpu(&data, &bank, &options)?;
    }
    if arguments.iter().any(|a| a == "--cuda") {
        let precision = match arguments.iter().any(|a| a == "--tf32") {
            true => Precision::Tf32,
            false => Precision::F32,
        };
        on_cuda(&data, &bank, &options, precision)?;
    }
    Ok(())
}

/// A difference of exponentials with a ragged tail, as a measured EPSC.
fn kernel(options: &Options) -> Outcome<SampledFilter> {
    let value = |i: usize| {
        let t = i as f64 * options.step_seconds;
        ((-t / 0.05).exp() - (-t / 0.004).exp()) * (1.0 + 0.2 * (t * 80.0).sin())
    };
    let samples = (0..options.samples).map(value).collect();
    let filter = SampledFilter::new("epsc", samples, options.step_seconds, 0)?;
    Ok(filter.with_unit_sum()?)
}

/// Seconds per processor of the responses, as user time of the process has it.
fn on_cpu(data: &Dataset, bank: &FilterBank, options: &Options) -> Outcome<()> {
    let mut seconds = Vec::new();
    for _ in 0..options.repeats {
        let (clock, before) = (Instant::now(), processor_seconds());
        let mut responses = Responses::new(data, bank, None)?;
        let mut block = Block::<f32>::default();
        let mut sum = 0.0;
        while responses.next_block(2048, &mut block) {
            sum += f64::from(block.values[block.values.len() / 2]);
        }
        assert!(sum.is_finite());
        let used = processor_seconds() - before;
        seconds.push((used, clock.elapsed().as_secs_f64()));
    }
    seconds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (used, clock) = seconds[seconds.len() / 2];
    let threads = rayon::current_num_threads();
    println!("cpu: {used:.3} processor seconds, {clock:.3} s by the clock with {threads} threads");
    Ok(())
}

/// Milliseconds of every phase from spikes to weights, by either way.
fn on_cuda(
    data: &Dataset,
    bank: &FilterBank,
    options: &Options,
    precision: Precision,
) -> Outcome<()> {
    let device = Device::open("cuda".parse()?)?;
    let contexts = device.contexts();
    let context = contexts.first().ok_or("expected a CUDA device")?;
    println!("{}, {precision:?}", context.info().name);
    for way in [SampledWay::Gather, SampledWay::Transform] {
        let mut runs: Vec<(f64, Vec<(&'static str, f64)>)> = Vec::new();
        for repeat in 0..=options.repeats {
            context.synchronize()?;
            let clock = Instant::now();
            context.start_phases();
            context.phase("start")?;
            let view = data.view();
            let request = Request {
                precision,
                sampled: Some(way),
                ..Request::new(&view, bank, None, 0, GramPath::Dense)
            };
            let sums = device_sums(contexts, &view, &request, &())?;
            let (sums, _) = sums.ok_or("expected sums on the device")?;
            context.phase("weights")?;
            let ridge = 1e-3 * sums.steps as f64 / sums.features as f64;
            let solved = solve::cuda::solve(context, &sums, ridge, solve::Solver::Cholesky)?;
            let weights = solved.ok_or("expected weights")?.into_solution(1).weights;
            assert!(weights.iter().all(|w| w.is_finite()));
            let phases = context.take_phases()?;
            // The first run compiles and plans.
            if repeat > 0 {
                runs.push((clock.elapsed().as_secs_f64(), phases));
            }
        }
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some((median, _)) = runs.get(runs.len() / 2) else {
            continue;
        };
        print!("{:9} spikes to weights {:.2} ms:", way.name(), 1e3 * median);
        for name in runs[0].1.iter().map(|(name, _)| *name) {
            let of = |(_, phases): &(f64, Vec<(&str, f64)>)| {
                phases.iter().find(|p| p.0 == name).map_or(0.0, |p| p.1)
            };
            let mut each: Vec<f64> = runs.iter().map(of).collect();
            each.sort_by(f64::total_cmp);
            print!(" {name} {:.2},", 1e3 * each[each.len() / 2]);
        }
        println!();
    }
    Ok(())
}

/// Raw little-endian arrays: spikes and samples (u64), the steps of all spikes (u32), their channels (u32), the samples
/// (f64).
fn write(data: &Dataset, bank: &FilterBank, path: &str) -> Outcome<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let samples = bank.sampled()[0].samples();
    file.write_all(&(data.spikes.len() as u64).to_le_bytes())?;
    file.write_all(&(samples.len() as u64).to_le_bytes())?;
    for &tick in &data.spikes.ticks {
        file.write_all(&(tick as u32).to_le_bytes())?;
    }
    for &channel in &data.spikes.channels {
        file.write_all(&channel.to_le_bytes())?;
    }
    for h in samples {
        file.write_all(&h.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

/// User and system seconds of this process so far.
fn processor_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
