//! cuSOLVER: Cholesky factors of symmetric positive definite matrices, in f32 or f64.

use cudarc::cusolver::sys;

use super::context::Context;
use super::error::solver_error;
use super::memory::{Buffer, Value};
use betz_base::error::{Error, ErrorKind, Result};

/// Which triangle of a column-major matrix is read and written.
const TRIANGLE: sys::cublasFillMode_t = sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;

/// A precision that cuSOLVER factorises in.
pub trait Factor: Value + Default {
    /// Overwrites the symmetric n × n matrix `a` with its Cholesky factor. `status[0]` becomes 0,
    /// or the one-based index of the first pivot that is not positive. Does not wait.
    fn cholesky(
        context: &Context,
        n: usize,
        a: &mut Buffer<Self>,
        status: &mut Buffer<i32>,
    ) -> Result<()>;

    /// Overwrites `b` (column-major, n × m) with the solution for the factor `a`. Does not wait.
    fn cholesky_solve(
        context: &Context,
        n: usize,
        m: usize,
        a: &Buffer<Self>,
        b: &mut Buffer<Self>,
        status: &mut Buffer<i32>,
    ) -> Result<()>;

    /// Overwrites one triangle of the factor `a` with that of the inverse. Does not wait.
    fn cholesky_inverse(
        context: &Context,
        n: usize,
        a: &mut Buffer<Self>,
        status: &mut Buffer<i32>,
    ) -> Result<()>;
}

/// Refuses a matrix of fewer than n × n values.
fn check_matrix<T>(n: usize, a: &Buffer<T>) -> Result<()> {
    if a.len() < n * n {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("cuSOLVER: expected {n} × {n} values, got {}", a.len()),
        ));
    }
    Ok(())
}

/// cuSOLVER's question for the size of a workspace, for a matrix of `T`.
type Size<T> = unsafe fn(Handle, sys::cublasFillMode_t, i32, *mut T, i32, *mut i32) -> Status;

/// cuSOLVER's work in a workspace of that size.
type Work<T> =
    unsafe fn(Handle, sys::cublasFillMode_t, i32, *mut T, i32, *mut T, i32, *mut i32) -> Status;

type Handle = sys::cusolverDnHandle_t;
type Status = sys::cusolverStatus_t;

/// A work of cuSOLVER's, and the question for its workspace.
struct InWorkspace<T> {
    what: &'static str,
    size: Size<T>,
    work: Work<T>,
}

/// Overwrites one triangle of the n × n matrix `a` by `call`'s work, in a workspace of the size that it
/// asks for. Does not wait.
///
/// # Safety
/// `a` holds n² values and `status` one.
#[allow(unsafe_code)]
unsafe fn in_workspace<T: Value>(
    context: &Context,
    call: InWorkspace<T>,
    n: usize,
    a: &mut Buffer<T>,
    status: &mut Buffer<i32>,
) -> Result<()> {
    let InWorkspace { what, size, work } = call;
    let solver = context.solver()?;
    let (handle, order, mut len) = (solver.cu(), n as i32, 0);
    let ap = a.address();
    let ap = ap as *mut T;
    let fail = |e| solver_error(what, e);
    // SAFETY: the caller's matrix; the size is written to the integer given.
    unsafe { size(handle, TRIANGLE, order, ap, order, &mut len) }
        .result()
        .map_err(fail)?;
    let space = context.alloc::<T>(len.max(0) as usize)?;
    let wp = space.address();
    let sp = status.address();
    let (wp, sp) = (wp as *mut T, sp as *mut i32);
    // SAFETY: the workspace has the size asked for; the caller's `status` holds an integer.
    unsafe { work(handle, TRIANGLE, order, ap, order, wp, len, sp) }
        .result()
        .map_err(fail)
}

macro_rules! factor {
    ($type:ty, $size:ident, $factor:ident, $solve:ident, $inverse_size:ident, $inverse:ident) => {
        #[allow(unsafe_code)]
        impl Factor for $type {
            fn cholesky(
                context: &Context,
                n: usize,
                a: &mut Buffer<Self>,
                status: &mut Buffer<i32>,
            ) -> Result<()> {
                check_matrix(n, a)?;
                // SAFETY: `a` holds n² values, checked above, and `status` an integer.
                unsafe {
                    let call = InWorkspace {
                        what: "cuSOLVER Cholesky",
                        size: sys::$size,
                        work: sys::$factor,
                    };
                    in_workspace(context, call, n, a, status)
                }
            }

            fn cholesky_solve(
                context: &Context,
                n: usize,
                m: usize,
                a: &Buffer<Self>,
                b: &mut Buffer<Self>,
                status: &mut Buffer<i32>,
            ) -> Result<()> {
                check_matrix(n, a)?;
                if b.len() < n * m {
                    return Err(Error::new(
                        ErrorKind::Internal,
                        format!("cuSOLVER: expected {n} × {m} values, got {}", b.len()),
                    ));
                }
                let solver = context.solver()?;
                let order = n as i32;
                let ap = a.address();
                let bp = b.address();
                let sp = status.address();
                // SAFETY: `a` holds n² values, `b` n·m, `status` an integer.
                unsafe {
                    sys::$solve(
                        solver.cu(),
                        TRIANGLE,
                        order,
                        m as i32,
                        ap as *const _,
                        order,
                        bp as *mut _,
                        order,
                        sp as *mut _,
                    )
                }
                .result()
                .map_err(|e| solver_error("cuSOLVER triangular solution", e))
            }

            fn cholesky_inverse(
                context: &Context,
                n: usize,
                a: &mut Buffer<Self>,
                status: &mut Buffer<i32>,
            ) -> Result<()> {
                check_matrix(n, a)?;
                // SAFETY: as in `cholesky`.
                unsafe {
                    let call = InWorkspace {
                        what: "cuSOLVER inverse",
                        size: sys::$inverse_size,
                        work: sys::$inverse,
                    };
                    in_workspace(context, call, n, a, status)
                }
            }
        }
    };
}

factor!(
    f32,
    cusolverDnSpotrf_bufferSize,
    cusolverDnSpotrf,
    cusolverDnSpotrs,
    cusolverDnSpotri_bufferSize,
    cusolverDnSpotri
);
factor!(
    f64,
    cusolverDnDpotrf_bufferSize,
    cusolverDnDpotrf,
    cusolverDnDpotrs,
    cusolverDnDpotri_bufferSize,
    cusolverDnDpotri
);
