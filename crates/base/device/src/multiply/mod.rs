//! A·B of matrices larger than memory (CUSUMMA, Galbraith 2010, §5.2), on the CPU's threads and on any number of CUDA
//! devices.
//!
//! A block of C stays where it is computed while the blocks of A and B that it needs pass by; the planner
//! ([`partition`](crate::partition)) cuts all three so that the fewest blocks move. Factors give their blocks
//! ([`MatrixSource`]), from memory or from a file; finished blocks of C go to the caller. A·Aᵀ is computed once per pair of
//! rows.

mod cpu;
mod cuda;
mod matrix;
mod plan;

use betz_base::lock::lock;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cost::{Calibration, CostModel};
use crate::placement::{Placement, Ran, Work};
use crate::{Device, Precision};
use betz_base::error::Result;
use betz_base::progress::{self, Progress};

pub use matrix::{MatrixSource, StridedMatrix, Transpose};
pub use plan::{MultiplyPlan, PaperPlan};

/// Bytes of host memory that blocks take on the CPU, unless the caller says otherwise.
pub const HOST_BYTES: u64 = 1 << 30;

/// One per multiply-add.
const MULTIPLY_CPU: CostModel = CostModel {
    name: "multiply.cpu",
    terms: &["1", "multiply-adds"],
    defaults: &[20e-6, 0.03e-9],
};

/// Values move to the device and back.
const MULTIPLY_CUDA: CostModel = CostModel {
    name: "multiply.cuda",
    terms: &["1", "multiply-adds", "values"],
    defaults: &[0.3e-3, 0.05e-12, 0.5e-9],
};

/// f32 or f64.
pub trait Real: cuda::DeviceReal + cpu::HostReal {}

impl Real for f32 {}
impl Real for f64 {}

/// A product to compute.
#[derive(Clone, Copy)]
pub struct Product<'a, T> {
    /// A, m × k.
    pub a: &'a dyn MatrixSource<T>,
    /// B, k × n; `None` for Aᵀ.
    pub b: Option<&'a dyn MatrixSource<T>>,
    /// Precision of f32 on a device; f64 has no lower one.
    pub precision: Precision,
    /// Bytes of host memory for blocks on the CPU.
    pub host_bytes: u64,
}

impl<T> std::fmt::Debug for Product<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Product({} × {}, …)", self.a.rows(), self.a.columns())
    }
}

impl<'a, T> Product<'a, T> {
    /// A·B at full precision, with [`HOST_BYTES`] on the CPU.
    pub fn new(a: &'a dyn MatrixSource<T>, b: &'a dyn MatrixSource<T>) -> Self {
        Self {
            b: Some(b),
            ..Self::with_transpose(a)
        }
    }

    /// A·Aᵀ.
    pub fn with_transpose(a: &'a dyn MatrixSource<T>) -> Self {
        Self {
            a,
            b: None,
            precision: Precision::F32,
            host_bytes: HOST_BYTES,
        }
    }

    /// Columns of C.
    fn columns(&self) -> usize {
        self.b.map_or(self.a.rows(), MatrixSource::columns)
    }
}

/// Report of a product.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductRun {
    /// Device, and why another was not taken.
    pub ran: Ran,
    /// The partition.
    pub plan: MultiplyPlan,
}

/// Takes finished blocks of C: its rows, its columns and its values, row-major.
pub type TakeBlock<'a, T> = dyn FnMut(Range<usize>, Range<usize>, &[T]) -> Result<()> + Send + 'a;

/// Computes a product where it is expected to take less time, or where `device` names it, and hands every block of C to
/// `take` once, in any order.
///
/// Sums of f32 are in f32 over at most 4,096 terms, and then block after block. The result is the same for any number of
/// threads and of devices, but for devices with different memory.
///
/// ```
/// use betz_device::multiply::{Product, StridedMatrix, multiply};
/// use betz_device::Device;
///
/// let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let a = StridedMatrix::row_major(&a, 2, 3)?;
/// let mut c = [0.0; 4];
/// let mut take = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, block: &[f64]| {
///     for (i, row) in rows.zip(block.chunks_exact(columns.len())) {
///         c[2 * i + columns.start..2 * i + columns.end].copy_from_slice(row);
///     }
///     Ok(())
/// };
/// multiply(&Device::cpu(), &Product::with_transpose(&a), &mut take, &())?;
/// assert_eq!(c, [14.0, 32.0, 32.0, 77.0]);
/// # Ok::<(), betz_base::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if the inner sides differ,
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a side of zero,
/// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory), naming the smallest that works, if memory is too small;
/// those of the factors, of `take` and of the devices; `Interrupted` if `progress` cancels.
pub fn multiply<T: Real>(
    device: &Device,
    product: &Product<'_, T>,
    take: &mut TakeBlock<'_, T>,
    progress: &dyn Progress,
) -> Result<ProductRun> {
    let (m, n, k) = plan::sides(product)?;
    let placement = placement(device, m, n, k);
    let take = Mutex::new(take);
    let contexts = placement.contexts();
    if !contexts.is_empty() {
        let done = cuda::run(contexts, product, &take, progress);
        // Blocks that were written are written again.
        if let Some(plan) = placement.or_cpu(done)? {
            return Ok(ProductRun {
                ran: placement.ran("blocks"),
                plan,
            });
        }
    }
    let plan = MultiplyPlan::for_host::<T>(product)?;
    cpu::run(product, &plan, &take, progress)?;
    Ok(ProductRun {
        ran: placement.ran("blocks"),
        plan,
    })
}

/// The placement of a product of m × k by k × n.
fn placement(device: &Device, m: usize, n: usize, k: usize) -> Placement {
    let calibration = Calibration::current();
    let (m, n, k) = (m as f64, n as f64, k as f64);
    let threads = rayon::current_num_threads() as f64;
    let work = Work::Seconds {
        cpu: calibration.seconds(&MULTIPLY_CPU, &[1.0, m * n * k / threads]),
        cuda: calibration.seconds(&MULTIPLY_CUDA, &[1.0, m * n * k, m * k + k * n + m * n]),
    };
    Placement::decide(device, work)
}

/// Blocks of C that are not begun, shared by whoever computes them.
struct Blocks<'p> {
    plan: &'p MultiplyPlan,
    next: AtomicUsize,
    done: AtomicUsize,
}

impl<'p> Blocks<'p> {
    const fn new(plan: &'p MultiplyPlan) -> Self {
        Self {
            plan,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        }
    }

    /// The next block's rows and columns.
    fn take(&self) -> Option<(Range<usize>, Range<usize>)> {
        self.plan.block(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands a finished block on, and its mirror image where only one of the two is computed.
    fn finish<T: Real>(
        &self,
        (rows, columns): (&Range<usize>, &Range<usize>),
        values: &[T],
        take: &Mutex<&mut TakeBlock<'_, T>>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut take = lock(take);
        take(rows.clone(), columns.clone(), values)?;
        if self.plan.symmetric && rows != columns {
            let mirrored = matrix::transposed(values, rows.len(), columns.len());
            take(columns.clone(), rows.clone(), &mirrored)?;
        }
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.update("multiply", done as u64, self.plan.blocks() as u64);
        progress::check(progress, "multiply")
    }
}

#[cfg(test)]
mod tests;
