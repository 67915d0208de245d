//! Figures 5.7 to 5.10: CUSUMMA.

use std::ops::Range;

use betz::Result;
use betz::device::Device;
use betz::device::multiply::{Product, StridedMatrix, multiply};

use super::super::figure::{Figure, Plot, Style};
use super::super::study::{Answer, Findings, Grid, short, whole};
use super::super::{Lab, least_seconds};

/// Bytes of f32 that CUSUMMA may use on the thesis' GPUs: their memory less 15 MB.
const GTX_260: u64 = (896 - 15) << 20;
const FX_3700: u64 = (512 - 15) << 20;

/// Cuts of a product, by eqs 5.4 to 5.11 of the thesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cuts {
    t_m: u64,
    t_k: u64,
    /// Transfers, eq. 5.6.
    transfers: u64,
}

/// The cuts for a given t_m, if they fit `room` values.
fn cuts(m: u64, n: u64, k: u64, room: u64, t_m: u64) -> Option<Cuts> {
    let rows = m.div_ceil(t_m);
    let k_max = (room.checked_sub(rows * n)? / (rows + n)).min(k);
    let t_k = k.checked_div(k_max).map(|_| k.div_ceil(k_max))?;
    Some(Cuts {
        t_m,
        t_k,
        transfers: 2 * t_m * t_k + t_m,
    })
}

/// The cuts with the fewest transfers.
fn best(m: u64, n: u64, k: u64, room: u64) -> Option<Cuts> {
    let all = (1..=m.min(200)).filter_map(|t_m| cuts(m, n, k, room, t_m));
    all.min_by_key(|c| c.transfers)
}

pub(super) fn transfers(lab: &Lab<'_>) -> Result<Findings> {
    lab.part("figure 5.8", 0, 1)?;
    let mut plot = Plot::new(
        "Transfers by the cuts of the leading dimension (iterative solver)",
        "t_m",
        "transfers",
        false,
        true,
    );
    let mut grid = Grid::new(
        "Fewest transfers",
        &["product", "memory", "t_m", "t_k", "transfers"],
    );
    let mut fewest = Vec::new();
    for (name, m, n, k) in [
        ("20k × 20k × 20k", 20_000, 20_000, 20_000),
        ("1k × 1k × 400k", 1_000, 1_000, 400_000),
    ] {
        for (memory, bytes) in [("512 MB", FX_3700), ("896 MB", GTX_260)] {
            let room = bytes / 4;
            let curve = (1..=12).filter_map(|t_m| cuts(m, n, k, room, t_m));
            plot.add(
                format!("{name}, {memory}"),
                Style::Measured,
                curve.map(|c| (c.t_m as f64, c.transfers as f64)),
            );
            if let Some(best) = best(m, n, k, room) {
                grid.row([
                    name.to_owned(),
                    memory.to_owned(),
                    best.t_m.to_string(),
                    best.t_k.to_string(),
                    best.transfers.to_string(),
                ]);
                fewest.push(best);
            }
        }
    }
    let at_one = fewest.iter().filter(|c| c.t_m == 1).count();
    let least = cuts(1_000, 1_000, 1_000, GTX_260 / 4, 1).map_or(0, |c| c.transfers);
    let pairs: Vec<String> = (fewest.chunks_exact(2))
        .map(|pair| format!("{} against {}", pair[1].transfers, pair[0].transfers))
        .collect();
    let fewer = fewest
        .chunks_exact(2)
        .all(|pair| pair[1].transfers < pair[0].transfers);
    Ok(Findings {
        sizes: "the paper's, by its equations".to_owned(),
        figures: vec![Figure::Plot(plot)],
        grids: vec![grid],
        answers: vec![
            Answer::decided(
                least == 3,
                least.to_string(),
                "the equation gives another number",
            ),
            Answer::decided(
                2 * at_one >= fewest.len(),
                format!("1 in {at_one} of {} cases", fewest.len()),
                "large square products need more",
            ),
            Answer::decided(fewer, pairs.join("; "), "the numbers are near each other"),
        ],
    })
}

/// Seconds of A·B of f32, m × k times k × n.
fn seconds(device: &Device, m: usize, k: usize, n: usize, lab: &Lab<'_>) -> Result<f64> {
    let value = |i: usize| (i % 1013) as f32 / 1013.0 - 0.4;
    let values: Vec<f32> = (0..(m * k).max(k * n)).map(value).collect();
    let a = StridedMatrix::row_major(&values[..m * k], m, k)?;
    let b = StridedMatrix::row_major(&values[..k * n], k, n)?;
    let mut c = vec![0.0_f32; m * n];
    let product = Product::new(&a, &b);
    let mut run = || {
        let mut take = |rows: Range<usize>, columns: Range<usize>, block: &[f32]| {
            for (row, values) in rows.zip(block.chunks_exact(columns.len())) {
                c[row * n + columns.start..row * n + columns.end].copy_from_slice(values);
            }
            Ok(())
        };
        multiply(device, &product, &mut take, &lab.quiet()).map(drop)
    };
    if !device.is_cpu() {
        run()?;
    }
    Ok(least_seconds(3, run)?.1)
}

/// Products of several sizes, on the CPU and on the device with the memory of the thesis' GPU.
fn measured(
    lab: &Lab<'_>,
    place: &str,
    axis: &'static str,
    sizes: &[[usize; 3]],
    of: fn(&[usize; 3]) -> usize,
) -> Result<(Findings, Vec<f64>)> {
    let mut grid = Grid::new(
        "Products of f32",
        &[axis, "CPU, s", "GFLOP/s", "CUDA device, s", "speedup"],
    );
    let (mut cpu_line, mut gpu_line) = (Vec::new(), Vec::new());
    let mut speedups = Vec::new();
    for (i, size) in sizes.iter().enumerate() {
        lab.part(place, i, sizes.len())?;
        let [m, k, n] = *size;
        let cpu = seconds(&Device::cpu(), m, k, n, lab)?;
        let gpu = match lab.device() {
            Ok(cuda) => {
                let capped = cuda.clone().with_memory_cap(Some(GTX_260));
                Some(seconds(&capped, m, k, n, lab)?)
            }
            Err(_) => None,
        };
        let flops = |s: f64| 2e-9 * m as f64 * k as f64 * n as f64 / s;
        cpu_line.push((of(size) as f64, flops(cpu)));
        gpu_line.extend(gpu.map(|s| (of(size) as f64, flops(s))));
        speedups.extend(gpu.map(|s| cpu / s));
        grid.row([
            whole(of(size) as u64),
            short(cpu),
            short(flops(cpu)),
            gpu.map_or_else(|| "–".to_owned(), short),
            gpu.map_or_else(|| "–".to_owned(), |s| format!("{} ×", short(cpu / s))),
        ]);
    }
    let mut plot = Plot::log_log("Billions of operations per second", axis, "GFLOP/s");
    plot.add("CPU", Style::Measured, cpu_line);
    plot.add("CUDA device within 881 MB", Style::Measured, gpu_line);
    let found = Findings {
        sizes: format!(
            "{axis} up to {}",
            whole(sizes.iter().map(of).max().unwrap_or(0) as u64)
        ),
        figures: vec![Figure::Plot(plot)],
        grids: vec![grid],
        answers: Vec::new(),
    };
    Ok((found, speedups))
}

/// An answer of speedups: the paper's GPU stands against one core of its CPU.
fn speedup(lab: &Lab<'_>, speedups: &[f64], paper: f64) -> Answer {
    match (lab.device(), speedups.last()) {
        (Ok(_), Some(last)) => Answer::ratio(
            *last,
            paper,
            " at the largest size",
            "device and processor are others, and the CPU uses all of its threads",
        ),
        (reason, _) => Answer::unavailable(reason.err().unwrap_or("no CUDA device")),
    }
}

pub(super) fn square(lab: &Lab<'_>) -> Result<Findings> {
    let device = lab.device().is_ok();
    let sides: Vec<usize> = match device {
        true => lab.pick(
            vec![1_000, 2_000, 4_000, 8_000, 12_000, 16_000, 20_000],
            vec![1_000, 2_000, 4_000],
            vec![64],
        ),
        false => lab.pick(
            vec![1_000, 2_000, 4_000, 8_000],
            vec![500, 1_000, 2_000],
            vec![64],
        ),
    };
    let sizes: Vec<[usize; 3]> = sides.iter().map(|side| [*side; 3]).collect();
    let (found, speedups) = measured(lab, "figure 5.9", "side", &sizes, |s| s[0])?;
    let thousands = |cut: &dyn Fn(Cuts) -> bool| -> Option<u64> {
        let sides = (1..=20).map(|side| 1_000 * side);
        let mut cut_sides =
            sides.filter(|side| best(*side, *side, *side, GTX_260 / 4).is_some_and(cut));
        cut_sides.next()
    };
    let told =
        |side: Option<u64>| side.map_or("no side".to_owned(), |s| format!("{}k on", s / 1_000));
    let (shared, leading) = (thousands(&|c| c.t_k > 1), thousands(&|c| c.t_m > 1));
    Ok(Findings {
        answers: vec![
            speedup(lab, &speedups, 12.0),
            Answer::unavailable(
                "the libraries of today have other kernels, which are not faster at sides of multiples of 32",
            ),
            Answer::decided(
                shared == Some(9_000),
                told(shared),
                "eqs 5.6 to 5.11 give another side",
            ),
            Answer::decided(
                leading == Some(15_000),
                told(leading),
                "with t_m = 2, eq. 5.6 counts fewer transfers from this side on; at 15k a cut of the shared dimension alone is still possible, with many times the transfers",
            ),
        ],
        ..found
    })
}

pub(super) fn rectangular(lab: &Lab<'_>) -> Result<Findings> {
    let side = match lab.device().is_ok() {
        true => lab.pick(10_000, 2_000, 32),
        false => lab.pick(4_000, 1_000, 32),
    };
    let lengths = lab.pick(
        &[1_000, 2_000, 5_000, 10_000, 20_000][..],
        &[500, 1_000, 2_000],
        &[16, 64],
    );
    let sizes: Vec<[usize; 3]> = lengths.iter().map(|k| [side, *k, side]).collect();
    let (found, speedups) = measured(lab, "figure 5.10", "k", &sizes, |s| s[1])?;
    let cut = (1..=40_u64)
        .filter(|k| best(10_000, 10_000, 1_000 * k, GTX_260 / 4).is_some_and(|c| c.t_m > 1));
    let cut: Vec<u64> = cut.collect();
    Ok(Findings {
        sizes: format!("m = n = {}, {}", whole(side as u64), found.sizes),
        answers: vec![
            speedup(lab, &speedups, 12.0),
            Answer::decided(
                cut.is_empty(),
                match cut.first() {
                    None => "for no k up to 40k".to_owned(),
                    Some(k) => format!("from k = {k}k on, by eq. 5.6"),
                },
                "with t_m = 2, eq. 5.6 counts fewer transfers for these k",
            ),
        ],
        ..found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eq. 5.6 by hand: 8k × 8k fits whole, 9k × 9k does not.
    #[test]
    fn a_product_is_cut_where_it_does_not_fit() {
        let room = GTX_260 / 4;
        let fits = best(8_000, 8_000, 8_000, room).unwrap();
        assert_eq!((fits.t_m, fits.t_k, fits.transfers), (1, 1, 3));
        let cut = best(9_000, 9_000, 9_000, room).unwrap();
        assert_eq!((cut.t_m, cut.t_k, cut.transfers), (1, 2, 5));
        assert_eq!(cuts(20_000, 20_000, 20_000, room, 1), None);
    }
}
