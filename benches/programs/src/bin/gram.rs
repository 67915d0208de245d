//! Γ, Υ and the solve on simulated spikes, timed: `cargo run --release -p betz-programs --bin gram -- --help`.
//!
//! With `--spikes FILE` the spikes and the behaviour are written for other programs to read
//! (`benches/compare/gram_numpy.py` does the same work with NumPy and SciPy on them).

use std::io::Write;
use std::time::Instant;

use betz::psc::{Filter, FilterBank};
use betz::recording::Dataset;
use betz::simulate;
use betz::train::gram::{GramPath, normal_equations};
use betz::train::solve::{FeatureNames, MaskPolicy, Solver, solve};

const HELP: &str = "\
gram [--channels 1000] [--seconds 100] [--step 0.00025] [--rate 20] [--order 1] [--tau 0.01]
     [--filters 1] [--path event|dense|auto] [--repeats 5] [--spikes FILE]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--help") {
        println!("{HELP}");
        return Ok(());
    }
    let text = |name: &str, default: &str| {
        let at = arguments.iter().position(|a| a == name);
        at.and_then(|i| arguments.get(i + 1))
            .map_or(default, String::as_str)
            .to_owned()
    };
    let number = |name: &str, default: &str| text(name, default).parse::<f64>();
    let channels = number("--channels", "1000")? as usize;
    let step_seconds = number("--step", "0.00025")?;
    let steps = (number("--seconds", "100")? / step_seconds).round() as usize;
    let data = simulate::poisson(channels, number("--rate", "20")?, steps, step_seconds, 1)?;
    let tau_seconds = number("--tau", "0.01")?;
    let order = number("--order", "1")? as u32;
    let filters = (0..number("--filters", "1")? as i32).map(|i| Filter {
        tau_seconds: tau_seconds * 1.7f64.powi(i),
        order,
    });
    let bank = FilterBank::new(filters.collect())?;
    let path = match text("--path", "auto").as_str() {
        "event" => GramPath::Event,
        "dense" => GramPath::Dense,
        _ => GramPath::Auto,
    };
    if let Some(i) = arguments.iter().position(|a| a == "--spikes") {
        write(
            &data,
            arguments.get(i + 1).ok_or("--spikes: expected a file")?,
        )?;
    }
    let before = memory();
    let (mut gram, mut solving, mut used) = (Vec::new(), Vec::new(), path);
    for _ in 0..number("--repeats", "5")? as usize {
        let start = Instant::now();
        let (sums, taken) = normal_equations(&data, &bank, None, 0, path, &())?;
        let middle = Instant::now();
        let names = FeatureNames {
            channels: &data.channel_names,
            bank: &bank,
        };
        let ridge = 1e-3 * sums.gram[0];
        let solution = solve(&sums, ridge, Solver::Cholesky, MaskPolicy::Refuse, names)?;
        assert!(solution.weights.iter().all(|w| w.is_finite()));
        gram.push((middle - start).as_secs_f64());
        solving.push(middle.elapsed().as_secs_f64());
        used = taken;
    }
    let median = |v: &mut Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    println!(
        "{{\"channels\":{channels},\"steps\":{steps},\"spikes\":{},\"features\":{},\"path\":\"{}\",\"threads\":{},\"gram_seconds\":{:.4},\"solve_seconds\":{:.4},\"memory_before_mb\":{:.1},\"memory_peak_mb\":{:.1}}}",
        data.spikes.len(),
        channels * bank.len(),
        used.name(),
        rayon::current_num_threads(),
        median(&mut gram),
        median(&mut solving),
        before,
        memory(),
    );
    Ok(())
}

/// Raw little-endian arrays: spikes (u64), then the steps of all spikes (u32), then their channels (u32), then
/// the behaviour (f32, row-major).
fn write(data: &Dataset, path: &str) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    file.write_all(&(data.spikes.len() as u64).to_le_bytes())?;
    for &tick in &data.spikes.ticks {
        file.write_all(&(tick as u32).to_le_bytes())?;
    }
    for &channel in &data.spikes.channels {
        file.write_all(&channel.to_le_bytes())?;
    }
    for &x in &data.behavior {
        file.write_all(&x.to_le_bytes())?;
    }
    file.flush()
}

/// Largest resident memory so far in MB; 0 where the system does not say.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}
