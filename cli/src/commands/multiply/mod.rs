//! `betz multiply`: products of matrices in files, which may be larger than memory.

pub(crate) mod args;
mod print;

use std::ops::Range;
use std::time::Instant;

use betz::device::Precision;
use betz::device::multiply::{MatrixSource, MultiplyPlan, Product, Real, Transpose, multiply};
use betz::recording::matrix::{Float, NpyMatrix, write_npy_matrix};
use betz::{Error, Result};
use serde::Serialize;

use crate::device;
use crate::files::{Files, Kind};
use crate::report::{self, Bar};
use args::Multiply;

/// The report of `betz multiply`.
#[derive(Serialize)]
struct ProductReport {
    out: String,
    rows: usize,
    columns: usize,
    terms: usize,
    dtype: String,
    device: String,
    /// A·Aᵀ, of which one half was computed.
    symmetric: bool,
    plan: PlanReport,
    seconds: f64,
    /// Multiply-adds per second, those that symmetry saved included.
    gflops: f64,
}

/// The partition, and the paper's own for the same memory.
#[derive(Serialize)]
struct PlanReport {
    /// Rows, columns and terms of a block.
    m_max: usize,
    n_max: usize,
    k_max: usize,
    /// Blocks that moved, and their bytes.
    transfers: u64,
    bytes_moved: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    paper: Option<PaperReport>,
}

/// Of the paper's Algorithm 5 for the same memory.
#[derive(Serialize)]
struct PaperReport {
    m_max: u64,
    k_max: u64,
    transfers: u64,
}

/// A factor in a file.
struct Factor<'a>(&'a NpyMatrix);

impl<T: Float> MatrixSource<T> for Factor<'_> {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn columns(&self) -> usize {
        self.0.columns()
    }

    fn read(&self, rows: Range<usize>, columns: Range<usize>, target: &mut [T]) -> Result<()> {
        self.0.read(rows, columns, target)
    }
}

pub(crate) fn run(args: &Multiply) -> Result<()> {
    let mut files = Files::new(&args.common).reads("A.npy", &args.a);
    if let Some(b) = &args.b {
        files = files.reads("B.npy", b);
    }
    files.writes("--out", &args.out, Kind::Matrix)?;
    let a = NpyMatrix::open(&args.a)?;
    let b = args.b.as_deref().map(NpyMatrix::open).transpose()?;
    if let Some(b) = &b
        && a.descr() != b.descr()
    {
        return Err(Error::mismatch(format!(
            "expected factors of one type, got {} in {} and {} in {}; convert one with array.astype",
            a.descr(),
            args.a.display(),
            b.descr(),
            args.b.as_deref().unwrap_or(&args.a).display()
        )));
    }
    let single = a.descr() == f32::DESCR;
    if args.tf32 && !single {
        return Err(Error::argument(format!(
            "--tf32: expected factors of float32, got {} in {}",
            a.descr(),
            args.a.display()
        )));
    }
    match single {
        true => multiplied::<f32>(args, &a, b.as_ref()),
        false => multiplied::<f64>(args, &a, b.as_ref()),
    }
}

fn multiplied<T: Real + Float>(
    args: &Multiply,
    a: &NpyMatrix,
    b: Option<&NpyMatrix>,
) -> Result<()> {
    let device = device::open(&args.common.device)?.with_memory_cap(args.device_memory);
    let (a, b) = (Factor(a), b.map(Factor));
    let a: &dyn MatrixSource<T> = &a;
    let turned = Transpose(a);
    let a = if args.transpose_a { &turned } else { a };
    let b: Option<&dyn MatrixSource<T>> = b.as_ref().map(|b| b as &dyn MatrixSource<T>);
    let turned = b.map(Transpose);
    let b = match (&turned, args.transpose_b) {
        (Some(turned), true) => Some(turned as &dyn MatrixSource<T>),
        _ => b,
    };
    let product = Product {
        b,
        precision: match args.tf32 {
            true => Precision::Tf32,
            false => Precision::F32,
        },
        host_bytes: args.memory,
        ..Product::with_transpose(a)
    };
    let (rows, terms) = (a.rows(), a.columns());
    let columns = b.map_or(rows, MatrixSource::columns);
    let bar = Bar::new();
    let begun = Instant::now();
    let done = write_npy_matrix::<T, _>(&args.out, rows, columns, |to| {
        let mut take = |rows: Range<usize>, columns: Range<usize>, values: &[T]| {
            to.write(rows, columns, values)
        };
        multiply(&device, &product, &mut take, &bar)
    })?;
    drop(bar);
    device::note_fallback(&done.ran, "multiplying");
    let seconds = begun.elapsed().as_secs_f64();
    let told = ProductReport {
        out: args.out.display().to_string(),
        rows,
        columns,
        terms,
        dtype: T::DESCR.to_owned(),
        device: done.ran.device,
        symmetric: done.plan.symmetric,
        plan: PlanReport::new(&done.plan),
        seconds,
        gflops: 2e-9 * rows as f64 * columns as f64 * terms as f64 / seconds,
    };
    report::tell(&told, args.common.json)
}

impl PlanReport {
    fn new(plan: &MultiplyPlan) -> Self {
        Self {
            m_max: plan.m_max,
            n_max: plan.n_max,
            k_max: plan.k_max,
            transfers: plan.transfers(),
            bytes_moved: plan.bytes_moved(),
            paper: plan.paper.map(|paper| PaperReport {
                m_max: paper.m_max,
                k_max: paper.k_max,
                transfers: paper.transfers,
            }),
        }
    }
}
