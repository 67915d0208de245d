//! A·B and A·Aᵀ larger than a device's memory, timed by size and by memory cap (figs 5.8 to 5.10 of the thesis):
//! `cargo run --release -p betz-programs --bin products -- --device cuda --sizes 1000,4000,16000`.
//!
//! Matrices are f32 in host memory. `benches/peers/products.py` times cuBLASXt and PyTorch at the same sizes.

use std::ops::Range;
use std::time::Instant;

use betz::device::Device;
use betz::device::multiply::{Product, ProductRun, StridedMatrix, multiply};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "\
products [--device auto] [--sizes 1000,4000,8000] [--caps 64,512,4096] [--repeats 3]
         sizes: rows, columns and terms; caps: MB of memory for blocks, 0 for Betz's own choice";

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
    let numbers = |text: String| -> Result<Vec<usize>, std::num::ParseIntError> {
        text.split(',').map(str::parse).collect()
    };
    let repeats = given("--repeats", "3").parse::<usize>()?;
    println!(
        "product, side, cap MB, device, m_max, n_max, k_max, transfers, paper's, GB moved, s, GFLOP/s"
    );
    for side in numbers(given("--sizes", "1000,4000,8000"))? {
        let values: Vec<f32> = (0..side * side)
            .map(|i| (i % 1013) as f32 / 1013.0 - 0.4)
            .collect();
        let a = StridedMatrix::row_major(&values, side, side)?;
        for cap in numbers(given("--caps", "64,512,4096"))? {
            let bytes = (cap as u64) << 20;
            let device = Device::open(given("--device", "auto").parse()?)?;
            let device = device.with_memory_cap((cap > 0).then_some(bytes));
            for (name, product) in [
                ("A·B", Product::new(&a, &a)),
                ("A·Aᵀ", Product::with_transpose(&a)),
            ] {
                let product = match cap {
                    0 => product,
                    _ => Product {
                        host_bytes: bytes,
                        ..product
                    },
                };
                let (done, seconds) = timed(&device, &product, side, repeats)?;
                let plan = done.plan;
                println!(
                    "{name}, {side}, {cap}, {}, {}, {}, {}, {}, {}, {:.3}, {seconds:.4}, {:.0}",
                    done.ran.device,
                    plan.m_max,
                    plan.n_max,
                    plan.k_max,
                    plan.transfers(),
                    plan.paper
                        .map_or("–".into(), |paper| paper.transfers.to_string()),
                    plan.bytes_moved() as f64 / 1e9,
                    2e-9 * (side as f64).powi(3) / seconds,
                );
            }
        }
    }
    Ok(())
}

/// The median of some runs, after one that starts the libraries.
fn timed(
    device: &Device,
    product: &Product<'_, f32>,
    side: usize,
    repeats: usize,
) -> Outcome<(ProductRun, f64)> {
    let mut c = vec![0.0_f32; side * side];
    let mut run = || {
        let begun = Instant::now();
        let mut take = |rows: Range<usize>, columns: Range<usize>, block: &[f32]| {
            for (row, values) in rows.zip(block.chunks_exact(columns.len())) {
                c[row * side + columns.start..row * side + columns.end].copy_from_slice(values);
            }
            Ok(())
        };
        let done = multiply(device, product, &mut take, &())?;
        Ok::<_, betz::Error>((done, begun.elapsed().as_secs_f64()))
    };
    run()?;
    let mut runs = (0..repeats.max(1))
        .map(|_| run())
        .collect::<Result<Vec<_>, _>>()?;
    runs.sort_by(|a, b| a.1.total_cmp(&b.1));
    Ok(runs.swap_remove(runs.len() / 2))
}
