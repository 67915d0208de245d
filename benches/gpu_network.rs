//! Sliding-window correlation networks on a CUDA device against the CPU's.
//!
//! ```sh
//! cargo bench -p betz --bench gpu_network                     # on a machine with a GPU
//! gpu-bundle/gpu_network small headline               # what scripts/gpu-bundle.sh carried there
//! gpu-bundle/gpu_network headline device              # the device alone
//! gpu-bundle/gpu_network two                          # one device against all of them
//! gpu-bundle/gpu_network ranks                        # Spearman and Kendall
//! gpu-bundle/gpu_network strongest                    # densities and the strongest pairs
//! gpu-bundle/gpu_network warp                         # dynamic time warping
//! gpu-bundle/gpu_network sums                         # distances, covariances and phase locking
//! gpu-bundle/gpu_network pairs                        # coherence, lags, and places near for a time
//! ```
//! Videos of grey levels, smooth in space and time, W = 200, every window: `small` 50 × 80 pixels and 100
//! windows, `headline` 130 × 172 and 801, each with 0, 0.01 % and 0.5 % of the pairs. `two`: 150 × 200 pixels on
//! one device and on all. `ranks`: 50 × 80 pixels beside the CPU, then the headline's on the device alone, without
//! equal samples and with them. `strongest`: 1,000 pairs and 0.1 % of the pairs of every window, three runs. `warp`: 60 × 80 pixels, W = 200 every 50, bands of 10, 20 and
//! 60, beside the CPU. `sums`: 4,000 nodes beside the CPU, then the headline's on the device alone. `pairs`: coherence of 4,000 and 22,360 nodes, W = 200,
//! segments of 50, correlations at 21 lags every 200 samples, every 20 and every one, and 2,000 and 20,000 animals that wander about a field, near for 30 of 60 instants; the smaller ones beside
//! the CPU. Medians of ten warm runs, of ranks five; the edges of both are compared. Says so and ends where
//! there is no device.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Instant;

use betz::device::Device;
use betz::network::{DeviceCount, Measure, NetworkSpec, Plan, Signal, Threshold, Window};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

/// Mean over 2·radius + 1 pixels along a row or column, round the edges.
fn blurred(field: &[f32], height: usize, width: usize, radius: usize) -> Vec<f32> {
    let mut now = field.to_vec();
    let mut next = vec![0.0; now.len()];
    // Three times each way is near a Gaussian.
    for pass in 0..6 {
        let (lines, length, step, stride) = if pass % 2 == 0 {
            (height, width, 1, width)
        } else {
            (width, height, width, 1)
        };
        for line in 0..lines {
            let at = |k: usize| line * stride + k % length * step;
            let mut sum: f32 = (0..=2 * radius).map(|k| now[at(k)]).sum();
            for k in 0..length {
                next[at(k + radius)] = sum / (2 * radius + 1) as f32;
                sum += now[at(k + 2 * radius + 1)] - now[at(k)];
            }
        }
        std::mem::swap(&mut now, &mut next);
    }
    now
}

/// Two smooth fields that drift, and noise of each pixel.
fn video(height: usize, width: usize, frames: usize) -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
    let pixels = height * width;
    let mut noise = move || -> Vec<f32> {
        (0..pixels)
            .map(|_| StandardNormal.sample(&mut rng))
            .collect()
    };
    let mut fields = vec![vec![0.0_f32; pixels]; 2];
    let mut video = Vec::with_capacity(pixels * frames);
    for frame in 0..frames {
        for (field, (radius, rho)) in fields.iter_mut().zip([(4_usize, 0.5_f32), (14, 0.7)]) {
            let fresh = blurred(&noise(), height, width, radius);
            let size = (fresh.iter().map(|v| v * v).sum::<f32>() / pixels as f32).sqrt();
            let share = if frame == 0 {
                1.0
            } else {
                (1.0 - rho * rho).sqrt()
            };
            for (old, new) in field.iter_mut().zip(&fresh) {
                *old = *old * if frame == 0 { 0.0 } else { rho } + share * new / size;
            }
        }
        let own = noise();
        video.extend((0..pixels).map(|p| {
            (100.0 + 9.0 * fields[0][p] + 4.0 * fields[1][p] + 4.0 * own[p]).round() as u8
        }));
    }
    video
}

fn spec(step: usize, threshold: f64) -> NetworkSpec {
    spec_of(Measure::Pearson, step, threshold)
}

fn spec_of(measure: Measure, step: usize, threshold: f64) -> NetworkSpec {
    let window = Window { length: 200, step };
    NetworkSpec::new(measure, window)
        .threshold(Threshold::Absolute(threshold))
        .max_edges(u64::MAX)
}

/// The threshold that this share of the pairs reaches, from some windows; for a share of 0, one that hardly any reaches.
fn threshold(signal: &Signal<'_>, share: f64) -> f64 {
    threshold_of(Measure::Pearson, signal, share)
}

fn threshold_of(measure: Measure, signal: &Signal<'_>, share: f64) -> f64 {
    if share == 0.0 {
        return 0.999;
    }
    const BINS: usize = 20_000;
    let step = ((signal.samples() - 200) / 2).max(1);
    let plan = Plan::new(&spec_of(measure, step, 0.5), signal).unwrap();
    let counts = plan.histogram(signal, BINS, &()).unwrap();
    let all: u64 = counts.iter().sum();
    let mut above = 0;
    for (bin, count) in counts.iter().enumerate().rev() {
        above += count;
        if above as f64 > share * all as f64 {
            return (bin + 1) as f64 / BINS as f64;
        }
    }
    0.0
}

/// Seconds, edges, and a hash of their ends; none is kept.
fn run(plan: &Plan, signal: &Signal<'_>) -> (f64, u64, u64) {
    let (mut edges, mut hash) = (0, 0_u64);
    let mut hashing = 0.0;
    let started = Instant::now();
    let stream = plan.stream(signal, &(), |window| {
        let started = Instant::now();
        edges += window.i.len() as u64;
        for (i, j) in window.i.iter().zip(window.j) {
            let pair = u64::from(*i) << 32 | u64::from(*j);
            hash = (hash ^ pair)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        }
        for lag in window.lag {
            hash = (hash ^ u64::from(*lag as u16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        hashing += started.elapsed().as_secs_f64();
        Ok(())
    });
    stream.unwrap();
    let seconds = started.elapsed().as_secs_f64() - hashing;
    (seconds, edges, hash)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One device against all: 30,000 nodes, 0.01 % and 0.5 % of the pairs, edges left on the devices.
fn two() {
    let (one, all) = match (Device::cuda(0), Device::cuda_all()) {
        (Ok(one), Ok(all)) => (one, all),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("no CUDA device: {}", error.message());
            return;
        }
    };
    let samples = video(150, 200, 1000);
    let signal = Signal::new(&samples, 30_000).unwrap();
    for share in [0.0, 1e-4, 5e-3] {
        let theta = threshold(&signal, share);
        let plan = Plan::new(&spec(1, theta), &signal).unwrap();
        let plans = [&one, &all].map(|device| plan.clone().on(device).unwrap());
        let edges = plans
            .each_ref()
            .map(|p| p.count_on_device(&signal, &()).unwrap().edges);
        assert_eq!(edges[0], edges[1], "the same edges");
        let mut times = [Vec::new(), Vec::new()];
        let mut walls = [Vec::new(), Vec::new()];
        for _ in 0..10 {
            for (at, plan) in plans.iter().enumerate() {
                let started = Instant::now();
                let count = plan.count_on_device(&signal, &()).unwrap();
                walls[at].push(started.elapsed().as_secs_f64());
                times[at].push(count.prepare + count.walk + count.recheck);
            }
        }
        let ([a, b], [c, d]) = (times.map(median), walls.map(median));
        println!(
            "30,000 nodes, {} edges: one device {:.2} ms, {} devices {:.2} ms, {:.2} x; with the upload {:.2} and {:.2} ms, {:.2} x",
            edges[0],
            1e3 * a,
            all.contexts().len(),
            1e3 * b,
            a / b,
            1e3 * c,
            1e3 * d,
            c / d
        );
    }
}

/// Spearman and Kendall: small ones beside the CPU's, the headline's on the device alone.
fn ranks(device: &Device) {
    for (height, width, frames) in [(50, 80, 299), (130, 172, 1000)] {
        let grey = video(height, width, frames);
        // No two samples of a pixel are equal.
        let fine: Vec<f32> = (0..)
            .zip(&grey)
            .map(|(at, v)| f32::from(*v) + between(at))
            .collect();
        for (measure, share) in [
            (Measure::Spearman, 0.0),
            (Measure::Kendall, 0.0),
            (Measure::Spearman, 1e-4),
            (Measure::Kendall, 1e-4),
        ] {
            let signal = Signal::new(&fine, height * width).unwrap();
            let theta = threshold_of(measure, &signal, share);
            let equal = Signal::new(&grey, height * width).unwrap();
            for (what, signal) in [("no", &signal), ("with", &equal)] {
                let cpu = Plan::new(&spec_of(measure, 1, theta), signal).unwrap();
                let cuda = cpu.clone().on(device).unwrap();
                println!(
                    "{}, {what} equal samples: {} nodes, {} windows, threshold {theta:.4}",
                    measure.name(),
                    signal.nodes(),
                    cpu.windows().len(),
                );
                let count = time_on_device(&cuda, signal, 5);
                if frames < 1000 {
                    compare_with_cpu(&cpu, &cuda, signal, &count);
                }
            }
        }
    }
}

/// The strongest pairs of every window, beside the CPU where that does not take too long.
fn strongest(device: &Device) {
    for (height, width, frames) in [(50, 80, 299), (130, 172, 1000)] {
        let samples = video(height, width, frames);
        let phases: Vec<f32> = samples.iter().map(|v| f32::from(*v) * 0.05).collect();
        for measure in [
            Measure::Pearson,
            Measure::Spearman,
            Measure::Kendall,
            Measure::Euclidean { hold: 1 },
            Measure::Covariance,
            Measure::PhaseLocking,
        ] {
            let signal = match measure {
                Measure::PhaseLocking => Signal::new(&phases, height * width).unwrap(),
                _ => Signal::new(&samples, height * width).unwrap(),
            };
            for keep in [Threshold::Top(1000), Threshold::Density(1e-3)] {
                let plan = Plan::new(&spec_of(measure, 1, 0.5).threshold(keep), &signal).unwrap();
                let cuda = plan.clone().on(device).unwrap();
                // The first run compiles kernels.
                let (_, edges, hash) = run(&cuda, &signal);
                let seconds: Vec<f64> = (0..3).map(|_| run(&cuda, &signal).0).collect();
                println!(
                    "{}, {keep:?}: {} nodes, {} windows, {edges} edges, {:.3} s with edges on the host",
                    measure.name(),
                    signal.nodes(),
                    plan.windows().len(),
                    median(seconds)
                );
                if frames < 1000 {
                    let (seconds, expected, same) = run(&plan, &signal);
                    assert_eq!((edges, hash), (expected, same));
                    println!("  CPU {seconds:.3} s, the same edges");
                }
            }
        }
    }
}

/// Measures from f64 sums: about 0.1 % of the pairs, beside the CPU where that does not take too long.
fn sums(device: &Device) {
    let (few, many) = (50 * 80, 130 * 172);
    let (small, large) = (video(50, 80, 299), video(130, 172, 1000));
    // Phases that neighbours nearly share.
    let phases = |grey: &[u8]| -> Vec<f32> { grey.iter().map(|v| f32::from(*v) * 0.05).collect() };
    let (small_phases, large_phases) = (phases(&small), phases(&large));
    for measure in [
        Measure::Euclidean { hold: 1 },
        Measure::Covariance,
        Measure::PhaseLocking,
        Measure::ImaginaryPhaseLocking,
        Measure::PhaseConsistency,
    ] {
        let (small, large) = match measure {
            Measure::Euclidean { .. } | Measure::Covariance => {
                (Signal::new(&small, few), Signal::new(&large, many))
            }
            _ => (
                Signal::new(&small_phases, few),
                Signal::new(&large_phases, many),
            ),
        };
        let (small, large) = (small.unwrap(), large.unwrap());
        // The threshold that 0.1 % of the pairs reach in one window.
        let one =
            NetworkSpec::new(measure, Window::new(200, 299)).threshold(Threshold::Density(1e-3));
        let network = Plan::new(&one, &small).unwrap().run(&small, &()).unwrap();
        let values = network.r().iter().map(|r| f64::from(r.abs()));
        let theta = match measure {
            Measure::Euclidean { .. } => values.fold(0.0, f64::max),
            _ => values.fold(f64::INFINITY, f64::min),
        };
        for signal in [&small, &large] {
            let plan = Plan::new(&spec_of(measure, 1, theta), signal).unwrap();
            let cuda = plan.clone().on(device).unwrap();
            println!(
                "{}: {} nodes, {} windows, threshold {theta:.4}",
                measure.name(),
                signal.nodes(),
                plan.windows().len()
            );
            let count = time_on_device(&cuda, signal, 3);
            if signal.nodes() == few {
                compare_with_cpu(&plan, &cuda, signal, &count);
            }
        }
    }
}

/// Time warping beside the CPU: with bounds that leave out most pairs, and of all pairs.
fn warp(device: &Device) {
    let (height, width, frames) = (60, 80, 299);
    let samples = video(height, width, frames);
    let window = Window::new(200, 50);
    for nodes in [1200, 4800] {
        let some: Vec<u8> = (samples.chunks(height * width))
            .flat_map(|frame| &frame[..nodes])
            .copied()
            .collect();
        let signal = Signal::new(&some, nodes).unwrap();
        for band in [10, 20, 60] {
            for keep in [Threshold::Absolute(5.0), Threshold::Density(0.01)] {
                let measure = Measure::Warping {
                    band,
                    normalised: true,
                };
                let spec = NetworkSpec::new(measure, window).threshold(keep);
                let Ok(plan) = Plan::new(&spec, &signal) else {
                    // Too many nodes for all pairs.
                    continue;
                };
                let cuda = plan.clone().on(device).unwrap();
                let (_, edges, hash) = run(&cuda, &signal);
                let seconds = median((0..3).map(|_| run(&cuda, &signal).0).collect());
                let aligned = cuda.run(&signal, &()).unwrap().meta().rechecked;
                println!(
                    "dtw, band {band}, {keep:?}: {nodes} nodes, {} windows, {edges} edges of {aligned} aligned pairs, {seconds:.3} s",
                    plan.windows().len(),
                );
                if nodes < 2000 {
                    let (cpu, expected, same) = run(&plan, &signal);
                    assert_eq!((edges, hash), (expected, same));
                    println!(
                        "  CPU {cpu:.3} s, {:.1} times as long, the same edges",
                        cpu / seconds
                    );
                }
            }
        }
    }
}

/// Coherence, correlations at several lags, and places that are near for a time; edges and their ends are compared with the CPU's.
fn pairs(device: &Device) {
    let time = |spec: &NetworkSpec, signal: &Signal<'_>, beside: bool| {
        let plan = Plan::new(spec, signal).unwrap();
        let cuda = plan.clone().on(device).unwrap();
        let (_, edges, hash) = run(&cuda, signal);
        let seconds = median((0..3).map(|_| run(&cuda, signal).0).collect());
        println!(
            "{:?}, {:?}: {} nodes, {} windows, {edges} edges, {seconds:.3} s with edges on the host",
            spec.measure,
            spec.threshold,
            signal.nodes(),
            plan.windows().len(),
        );
        if beside {
            let (cpu, expected, same) = run(&plan, signal);
            assert_eq!((edges, hash), (expected, same));
            println!(
                "  CPU {cpu:.3} s, {:.1} times as long, the same edges",
                cpu / seconds
            );
        }
    };
    for (height, width, beside) in [(50, 80, true), (130, 172, false)] {
        let samples = video(height, width, 299);
        let signal = Signal::new(&samples, height * width).unwrap();
        for band in [None, Some((0.1, 0.2))] {
            let measure = Measure::coherence(50, band, 1.0, false).unwrap();
            let spec = NetworkSpec::new(measure, Window::new(200, 20))
                .max_edges(u64::MAX)
                .threshold(Threshold::Absolute(0.8));
            time(&spec, &signal, beside);
            if beside {
                time(&spec.threshold(Threshold::Top(1000)), &signal, true);
            }
        }
    }
    for (height, width, step, beside) in [
        (50, 80, 200, true),
        (50, 80, 20, true),
        (50, 80, 1, true),
        (130, 172, 200, false),
    ] {
        let samples = video(height, width, if step == 1 { 249 } else { 620 });
        let signal = Signal::new(&samples, height * width).unwrap();
        let spec = NetworkSpec::new(Measure::Lagged { lags: 10 }, Window::new(200, step))
            .max_edges(u64::MAX)
            .threshold(Threshold::Absolute(0.8));
        time(&spec, &signal, beside);
        if beside && step == 20 {
            time(&spec.threshold(Threshold::Top(1000)), &signal, true);
        }
    }
    for (animals, side, beside) in [(2_000_u32, 2e3, true), (20_000, 6e3, false)] {
        let mut places: Vec<f64> = (0..2 * animals)
            .map(|at| side * f64::from(between(at)))
            .collect();
        let mut field = Vec::new();
        for t in 0..600 {
            for (at, place) in (0..).zip(&mut places) {
                let random = between(t * 2 * animals + at + 1_000_003);
                *place = (*place + 4.0 * f64::from(random) - 2.0).clamp(0.0, side);
                field.push(*place);
            }
        }
        let signal = Signal::places(&field, animals as usize, 2).unwrap();
        let measure = Measure::Distance {
            near: 30,
            gap: 3,
            earth: false,
        };
        let spec =
            NetworkSpec::new(measure, Window::new(60, 60)).threshold(Threshold::Absolute(12.0));
        time(&spec, &signal, beside);
    }
}

/// A number from 0 to 1 that looks random.
fn between(at: u32) -> f32 {
    (at.wrapping_mul(0x9e37_79b9) >> 8) as f32 / (1 << 24) as f32
}

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    if asked.iter().any(|a| a == "two") {
        two();
    }
    let wants = |what: &str| asked.is_empty() || asked.iter().any(|a| a == what);
    let alone = asked.iter().any(|a| a == "device");
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("no CUDA device: {}", error.message());
            return;
        }
    };
    let info = device.contexts()[0].info().clone();
    println!("{} | {} threads", info.name, rayon::current_num_threads());
    if asked.iter().any(|a| a == "ranks") {
        ranks(&device);
    }
    if asked.iter().any(|a| a == "sums") {
        sums(&device);
    }
    if asked.iter().any(|a| a == "pairs") {
        pairs(&device);
    }
    if asked.iter().any(|a| a == "warp") {
        warp(&device);
    }
    if asked.iter().any(|a| a == "strongest") {
        strongest(&device);
    }
    let cases = [("small", 50, 80, 299), ("headline", 130, 172, 1000)];
    for (name, height, width, frames) in cases {
        if !(wants(name) || alone && asked.len() == 1) {
            continue;
        }
        let samples = video(height, width, frames);
        let signal = Signal::new(&samples, height * width).unwrap();
        for (share, step) in [(0.0, 1), (1e-4, 1), (5e-3, 1), (1e-4, 10)] {
            let theta = threshold(&signal, share);
            let cpu = Plan::new(&spec(step, theta), &signal).unwrap();
            let cuda = cpu.clone().on(&device).unwrap();
            println!(
                "{name}: {} nodes, {} windows every {step}, threshold {theta:.4}",
                signal.nodes(),
                cpu.windows().len(),
            );
            let count = time_on_device(&cuda, &signal, 10);
            if !alone {
                compare_with_cpu(&cpu, &cuda, &signal, &count);
            }
        }
    }
}

/// Prints medians of the device alone, edges left there.
fn time_on_device(cuda: &Plan, signal: &Signal<'_>, runs: usize) -> DeviceCount {
    let mut times = Vec::new();
    let mut parts = Vec::new();
    let mut count = cuda.count_on_device(signal, &()).unwrap();
    for _ in 0..runs {
        count = cuda.count_on_device(signal, &()).unwrap();
        times.push(count.prepare + count.walk + count.recheck);
        parts.push([count.upload, count.prepare, count.walk, count.recheck]);
    }
    let part = |p: usize| 1e3 * median(parts.iter().map(|of| of[p]).collect());
    println!(
        "  {} edges ({:.4} %), {} of them in doubt, {} rechecked, {} rebuilt, {} walks",
        count.edges,
        100.0 * count.edges as f64 / cuda.estimate().pair_windows,
        count.doubtful,
        count.rechecked,
        count.rebuilt,
        count.walks
    );
    println!(
        "  on the device {:.2} ms (prepare {:.2}, walk {:.2}, recheck {:.2}); upload {:.2} ms",
        1e3 * median(times),
        part(1),
        part(2),
        part(3),
        part(0)
    );
    count
}

/// Times both with edges in host memory, and compares the edges.
fn compare_with_cpu(cpu: &Plan, cuda: &Plan, signal: &Signal<'_>, count: &DeviceCount) {
    let (seconds, edges, hash) = run(cpu, signal);
    println!("  CPU {seconds:.3} s, {edges} edges");
    // Hundreds of millions are not brought here: most of that is the host's sorting.
    if edges > 200_000_000 {
        let sure = count.edges - count.doubtful;
        assert!(
            (sure..=count.edges).contains(&edges),
            "{sure} to {}",
            count.edges
        );
        return;
    }
    let whole = run(cuda, signal);
    println!("  device, edges in host memory in order {:.3} s", whole.0);
    assert_eq!((whole.1, whole.2), (edges, hash), "the same edges");
}
