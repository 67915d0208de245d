//! Runs on this machine that the cost models are fitted to.

use std::time::Instant;

use super::choice::download_terms;
use super::choice::solve_terms;
use super::device::sums_for_timing;
use betz_base::error::Result;
use betz_base::progress::{self, Progress};
use betz_device::cost::{Calibration, CostModel, START_CUDA};
use betz_device::cuda::Context;
use betz_device::{Device, Placement};
use betz_gram::decode::cost;
use betz_gram::decode::decode_on;
use betz_gram::gram::cost::DOWNLOAD_CUDA;
use betz_gram::gram::cost::{Processor, Work};
use betz_gram::gram::cuda::DeviceSums;
use betz_gram::gram::{GramPath, NormalEquations};
use betz_gram::solve::{self, FeatureNames, MaskPolicy, Solver};
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, DecoderParts, LowPass};
use betz_runtime::psc::{Filter, FilterBank};
use betz_simulate::poisson;

/// Length of a step of the problems timed here.
const STEP_SECONDS: f64 = 0.00025;

/// A number of steps, and a tenth of it in a build for development: its times fit no other build, and are only tested.
const fn steps(number: usize) -> usize {
    if cfg!(debug_assertions) {
        number / 10
    } else {
        number
    }
}

/// (channels, filters, steps, spikes per second and channel): small enough that the CPU takes seconds
/// for all, different enough to tell the terms of a model apart.
const CPU_PROBLEMS: &[(usize, usize, usize, f64)] = &[
    (4, 1, steps(2_000), 20.0),
    (32, 1, steps(40_000), 20.0),
    (32, 1, steps(40_000), 400.0),
    (100, 3, steps(20_000), 20.0),
    (128, 1, steps(40_000), 20.0),
    (300, 1, steps(20_000), 100.0),
    (1000, 1, steps(8_000), 20.0),
];

/// As [`CPU_PROBLEMS`], for a device.
const CUDA_PROBLEMS: &[(usize, usize, usize, f64)] = &[
    (4, 1, 2_000, 20.0),
    (64, 1, 400_000, 20.0),
    (200, 1, 100_000, 100.0),
    (300, 4, 100_000, 20.0),
    (1000, 1, 100_000, 20.0),
    (1000, 1, 400_000, 20.0),
    (2000, 1, 100_000, 20.0),
];

/// Features of the systems that are solved.
const CPU_ORDERS: &[usize] = &[4, 50, 150, 400, 800];

/// As [`CPU_ORDERS`], for a device.
const CUDA_ORDERS: &[usize] = &[4, 150, 1000, 3000];

/// (channels, filters, steps, order of a low-pass, 0 for none) of what is decoded on the CPU.
const CPU_DECODING: &[(usize, usize, usize, u32)] = &[
    (4, 1, 2_000, 0),
    (20, 1, 40_000, 0),
    (400, 1, 40_000, 0),
    (400, 4, 40_000, 0),
    (20, 4, 40_000, 0),
    (20, 1, 40_000, 4),
];

/// As [`CPU_DECODING`], for a device.
const CUDA_DECODING: &[(usize, usize, usize, u32)] = &[
    (4, 1, 2_000, 0),
    (20, 1, 400_000, 0),
    (1000, 1, 100_000, 0),
    (1000, 4, 400_000, 0),
];

/// Runs of each problem, after one that is not counted; the least is kept, which other work on the
/// machine disturbs least.
const RUNS: usize = if cfg!(debug_assertions) { 1 } else { 5 };

/// One problem, as measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Name of the model that it is for.
    pub model: &'static str,
    /// Description of the run.
    pub problem: String,
    /// Seconds it took.
    pub seconds: f64,
    /// Seconds that the fitted model gives for it.
    pub expected: f64,
}

/// Times training on the CPU, and on the first context of `device` where it has one, and fits the
/// cost models that [`choose`](super::choose) goes by; those of a device that was not timed are the ones
/// this host has. Takes seconds; runs on rayon's current pool.
///
/// # Errors
/// Returns the errors of the device, and [`ErrorKind::Interrupted`](betz_base::ErrorKind::Interrupted).
pub fn calibrate(device: &Device, progress: &dyn Progress) -> Result<(Calibration, Vec<Timing>)> {
    let threads = rayon::current_num_threads();
    let mut names = vec![format!("{threads} threads")];
    let mut runs = Runs::default();
    let start = Instant::now();
    let already_open = device.is_explicit() || device.is_started();
    let on_device = !device.is_cpu();
    if on_device && !already_open {
        let seconds = start.elapsed().as_secs_f64();
        runs.add(&START_CUDA, vec![1.0], "opening a context".into(), seconds);
    }
    time_gram(
        &Device::cpu(),
        Processor::Cpu,
        CPU_PROBLEMS,
        &mut runs,
        progress,
    )?;
    time_solve(
        &Device::cpu(),
        Processor::Cpu,
        CPU_ORDERS,
        &mut runs,
        progress,
    )?;
    time_decoding(
        &Device::cpu(),
        Processor::Cpu,
        CPU_DECODING,
        &mut runs,
        progress,
    )?;
    if on_device
        && let Some(timed) = Placement::on(device).or_cpu(time_cuda(&device.first(), progress))?
    {
        runs.0.extend(timed.0);
        names.extend(device.contexts().first().map(|c| c.info().name.clone()));
    }
    let (fitted, timings) = runs.fitted(Calibration::new(names))?;
    Ok((fitted.keeping(&Calibration::current()), timings))
}

/// The timed runs of one CUDA device.
fn time_cuda(device: &Device, progress: &dyn Progress) -> Result<Runs> {
    let mut runs = Runs::default();
    time_gram(device, Processor::Cuda, CUDA_PROBLEMS, &mut runs, progress)?;
    time_solve(device, Processor::Cuda, CUDA_ORDERS, &mut runs, progress)?;
    time_decoding(device, Processor::Cuda, CUDA_DECODING, &mut runs, progress)?;
    Ok(runs)
}

/// Every run, in the order they were made.
#[derive(Default)]
struct Runs(Vec<(&'static CostModel, Vec<f64>, String, f64)>);

impl Runs {
    fn add(&mut self, model: &'static CostModel, terms: Vec<f64>, problem: String, seconds: f64) {
        self.0.push((model, terms, problem, seconds));
    }

    fn fitted(self, mut calibration: Calibration) -> Result<(Calibration, Vec<Timing>)> {
        let mut models: Vec<&'static CostModel> = Vec::new();
        for (model, ..) in &self.0 {
            if !models.iter().any(|m| m.name == model.name) {
                models.push(model);
            }
        }
        for model in models {
            let of_model = self.0.iter().filter(|(m, ..)| m.name == model.name);
            let runs: Vec<_> = of_model.map(|(_, t, _, s)| (t.clone(), *s)).collect();
            calibration.fit(model, &runs)?;
        }
        let timings = self.0.into_iter();
        let timings = timings.map(|(model, terms, problem, seconds)| Timing {
            model: model.name,
            problem,
            seconds,
            expected: calibration.seconds(model, &terms),
        });
        let timings = timings.collect();
        Ok((calibration, timings))
    }
}

/// Least seconds of `work` after a first run.
fn least(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        work()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least.max(1e-9))
}

fn time_gram(
    device: &Device,
    place: Processor,
    problems: &[(usize, usize, usize, f64)],
    runs: &mut Runs,
    progress: &dyn Progress,
) -> Result<()> {
    let stage = format!("calibrate {}", place.name());
    for (i, &(channels, filters, steps, rate)) in problems.iter().enumerate() {
        progress::check(progress, &stage)?;
        progress.update(&stage, i as u64, problems.len() as u64);
        let data = poisson(channels, rate, steps, STEP_SECONDS, 1)?;
        let bank = bank(filters)?;
        let work = Work::new(&data, &bank);
        for path in [GramPath::Event, GramPath::Dense] {
            let seconds = least(|| sums_for_timing(device, &data.view(), &bank, path, progress))?;
            let (model, terms) = work.gram(place, path);
            let problem =
                format!("{channels} channels, {filters} filters, {steps} steps, {rate} Hz");
            runs.add(model, terms, problem, seconds);
        }
    }
    progress.update(&stage, problems.len() as u64, problems.len() as u64);
    Ok(())
}

fn time_solve(
    device: &Device,
    place: Processor,
    orders: &[usize],
    runs: &mut Runs,
    progress: &dyn Progress,
) -> Result<()> {
    for &order in orders {
        progress::check(progress, "calibrate")?;
        let sums = system(order);
        let work = Work {
            channels: order as f64,
            filters: 1.0,
            samples: 0.0,
            spikes: 0.0,
            weighted: false,
            steady: false,
            steps: 0.0,
            outputs: sums.outputs as f64,
            threads: rayon::current_num_threads() as f64,
        };
        let (model, terms) = solve_terms(&work, place);
        let problem = format!("{order} features");
        if let Some(context) = device.contexts().first() {
            let (solve, download) = device_seconds(context, &sums)?;
            runs.add(model, terms, problem.clone(), solve);
            runs.add(&DOWNLOAD_CUDA, download_terms(&work), problem, download);
            continue;
        }
        runs.add(model, terms, problem, solve_seconds(&sums)?);
    }
    Ok(())
}

/// Seconds to solve with sums that are on a device, and to bring them to the host.
fn device_seconds(context: &Context, sums: &NormalEquations) -> Result<(f64, f64)> {
    let (ridge, sums) = (sums.steps as f64, DeviceSums::upload(context, sums)?);
    let solve = least(|| {
        solve::cuda::solve(context, &sums, ridge, Solver::Cholesky)?;
        context.synchronize()
    })?;
    Ok((solve, least(|| sums.download(context).map(|_| ()))?))
}

fn solve_seconds(sums: &NormalEquations) -> Result<f64> {
    let ridge = sums.steps as f64;
    let channels: Vec<String> = (0..sums.features).map(|i| i.to_string()).collect();
    let bank = bank(1)?;
    let names = FeatureNames {
        channels: &channels,
        bank: &bank,
    };
    least(|| solve::solve(sums, ridge, Solver::Cholesky, MaskPolicy::Refuse, names).map(|_| ()))
}

/// Times decoding on `device`, which the caller named.
fn time_decoding(
    device: &Device,
    place: Processor,
    problems: &[(usize, usize, usize, u32)],
    runs: &mut Runs,
    progress: &dyn Progress,
) -> Result<()> {
    for &(channels, filters, steps, order) in problems {
        progress::check(progress, "calibrate")?;
        let data = poisson(channels, 20.0, steps, STEP_SECONDS, 1)?;
        let decoder = decoder(&data.view(), bank(filters)?, order)?;
        let seconds = least(|| decode_on(device, &decoder, &data).map(|_| ()))?;
        let (cpu, cuda) = cost::terms(&decoder, &data.view());
        let (model, terms) = match place {
            Processor::Cpu => (&cost::DECODE_CPU, cpu),
            Processor::Cuda => (&cost::DECODE_CUDA, cuda),
        };
        let problem =
            format!("{channels} channels, {filters} filters, {steps} steps, low-pass {order}");
        runs.add(model, terms, problem, seconds);
    }
    Ok(())
}

/// A decoder of `data` with some weights, behind a low-pass of `order` (0: none).
fn decoder(data: &DatasetView<'_>, bank: FilterBank, order: u32) -> Result<Decoder> {
    let (channels, outputs) = (data.channels(), data.outputs.len());
    let (names, infos) = (data.channel_names.to_vec(), data.outputs.to_vec());
    let parts = DecoderParts {
        low_pass: (order > 0).then_some(LowPass {
            order,
            cutoff_hz: 10.0,
        }),
        weights: (0..channels * bank.len() * outputs)
            .map(|i| (i % 7) as f64 - 3.0)
            .collect(),
        ..DecoderParts::linear(data.step_seconds, bank, names, infos)
    };
    Decoder::new(parts)
}

/// A system of `features` features and two outputs that is far from singular.
fn system(features: usize) -> NormalEquations {
    let mut sums = NormalEquations::zeros(features, 2);
    sums.steps = 1000 + features as u64;
    for i in 0..features {
        for j in 0..features {
            sums.gram[i * features + j] = if i == j { sums.steps as f64 } else { 0.1 };
        }
        sums.upsilon[2 * i] = i as f64;
        sums.upsilon[2 * i + 1] = 1.0;
    }
    sums
}

/// `filters` filters of order one.
fn bank(filters: usize) -> Result<FilterBank> {
    let filter = |i| Filter {
        tau_seconds: 0.005 * f64::from(1u32 << i),
        order: 1,
    };
    FilterBank::new((0..filters as u32).map(filter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_device::cost::fit;

    #[test]
    fn the_problems_tell_the_terms_of_every_model_apart() {
        for (place, problems) in [
            (Processor::Cpu, CPU_PROBLEMS),
            (Processor::Cuda, CUDA_PROBLEMS),
        ] {
            for path in [GramPath::Event, GramPath::Dense] {
                let runs: Vec<(Vec<f64>, f64)> = problems
                    .iter()
                    .map(|&(channels, filters, steps, rate)| {
                        let work = Work {
                            channels: channels as f64,
                            filters: filters as f64,
                            samples: 0.0,
                            spikes: channels as f64 * rate * steps as f64 * STEP_SECONDS,
                            weighted: false,
                            steady: false,
                            steps: steps as f64,
                            outputs: 2.0,
                            threads: 2.0,
                        };
                        let (model, terms) = work.gram(place, path);
                        let cost = model.defaults.iter().zip(&terms).map(|(c, t)| c * t);
                        let seconds = cost.sum();
                        (terms, seconds)
                    })
                    .collect();
                let (model, _) = Work {
                    channels: 1.0,
                    filters: 1.0,
                    samples: 0.0,
                    spikes: 0.0,
                    weighted: false,
                    steady: false,
                    steps: 1.0,
                    outputs: 1.0,
                    threads: 1.0,
                }
                .gram(place, path);
                for (found, default) in fit(&runs).unwrap().iter().zip(model.defaults) {
                    assert!(
                        (found - default).abs() < 1e-3 * default,
                        "{}: {found} {default}",
                        model.name
                    );
                }
            }
        }
    }
}
