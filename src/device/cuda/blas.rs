//! cuBLAS: products of matrices, row-major at this interface.

use std::sync::Arc;

use cudarc::cublas::{CudaBlas, result::CublasError, sys};
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};

use super::Buffer;
use crate::error::{Error, ErrorKind, Result};

/// A cuBLAS handle on its context's stream.
pub(crate) struct Blas {
    handle: CudaBlas,
    stream: Arc<CudaStream>,
}

/// Row-major matrices in one buffer: the first from `offset` on, rows `stride` values apart,
/// matrices `batch_stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) offset: usize,
    pub(crate) stride: usize,
    pub(crate) batch_stride: usize,
}

pub(super) fn blas_error(what: &str, error: CublasError) -> Error {
    let kind = match error.0 {
        sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => ErrorKind::DeviceMemory,
        _ => ErrorKind::DeviceFailure,
    };
    Error::new(kind, format!("{what}: {error}"))
}

impl Blas {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self> {
        let handle =
            CudaBlas::new(Arc::clone(stream)).map_err(|e| blas_error("starting cuBLAS", e))?;
        Ok(Self {
            handle,
            stream: Arc::clone(stream),
        })
    }

    /// C ← alpha·A·Bᵀ + beta·C for `count` matrices each: bf16 operands, f32 sums; A is m × k, B is n × k,
    /// C is m × n.
    #[allow(unsafe_code)]
    pub(crate) fn products_bf16(
        &self,
        count: usize,
        (m, n, k): (usize, usize, usize),
        a: (&Buffer<u16>, Operand),
        b: (&Buffer<u16>, Operand),
        (alpha, beta): (f32, f32),
        c: (&mut Buffer<f32>, Operand),
    ) -> Result<()> {
        let (ap, _a) = a.0.device_ptr(&self.stream);
        let (bp, _b) = b.0.device_ptr(&self.stream);
        let (cp, _c) = c.0.device_ptr_mut(&self.stream);
        // Row-major C = A·Bᵀ is column-major Cᵀ = B·Aᵀ with each operand's rows as columns.
        // SAFETY: the callers' operands lie inside their buffers; scalars are read in the call.
        unsafe {
            sys::cublasGemmStridedBatchedEx(
                *self.handle.handle(),
                sys::cublasOperation_t::CUBLAS_OP_T,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n as i32,
                m as i32,
                k as i32,
                std::ptr::from_ref(&alpha).cast(),
                (bp + 2 * b.1.offset as u64) as *const _,
                sys::cudaDataType::CUDA_R_16BF,
                b.1.stride as i32,
                b.1.batch_stride as i64,
                (ap + 2 * a.1.offset as u64) as *const _,
                sys::cudaDataType::CUDA_R_16BF,
                a.1.stride as i32,
                a.1.batch_stride as i64,
                std::ptr::from_ref(&beta).cast(),
                (cp + 4 * c.1.offset as u64) as *mut _,
                sys::cudaDataType::CUDA_R_32F,
                c.1.stride as i32,
                c.1.batch_stride as i64,
                count as i32,
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .result()
        .map_err(|e| blas_error("cuBLAS products in bf16", e))
    }

    /// Y ← A·X in f64 for a symmetric row-major A (n × n); X and Y are column-major n × m.
    #[allow(unsafe_code)]
    pub(crate) fn symmetric_times(
        &self,
        n: usize,
        m: usize,
        a: &Buffer<f64>,
        x: &Buffer<f64>,
        y: &mut Buffer<f64>,
    ) -> Result<()> {
        let (ap, _a) = a.device_ptr(&self.stream);
        let (xp, _x) = x.device_ptr(&self.stream);
        let (yp, _y) = y.device_ptr_mut(&self.stream);
        let (alpha, beta) = (1.0f64, 0.0f64);
        // SAFETY: n² and n·m values in the buffers (the callers' lengths); A symmetric, so its
        // row-major and column-major forms are one.
        unsafe {
            sys::cublasDgemm_v2(
                *self.handle.handle(),
                sys::cublasOperation_t::CUBLAS_OP_N,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n as i32,
                m as i32,
                n as i32,
                &alpha,
                ap as *const f64,
                n as i32,
                xp as *const f64,
                n as i32,
                &beta,
                yp as *mut f64,
                n as i32,
            )
        }
        .result()
        .map_err(|e| blas_error("cuBLAS product in f64", e))
    }
}
