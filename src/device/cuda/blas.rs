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

/// Part of a buffer that holds a row-major matrix: rows of `columns` values begin `stride` values
/// apart, from `offset` on.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) offset: usize,
    pub(crate) stride: usize,
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

    /// C ← A·Bᵀ + beta·C for bf16 operands with f32 sums: A is m × k, B is n × k, C is m × n.
    #[allow(unsafe_code, clippy::too_many_arguments)]
    pub(crate) fn product_transposed_bf16(
        &self,
        (m, n, k): (usize, usize, usize),
        a: (&Buffer<u16>, Operand),
        b: (&Buffer<u16>, Operand),
        beta: f32,
        c: (&mut Buffer<f32>, Operand),
    ) -> Result<()> {
        let (ap, _a) = a.0.device_ptr(&self.stream);
        let (bp, _b) = b.0.device_ptr(&self.stream);
        let (cp, _c) = c.0.device_ptr_mut(&self.stream);
        let alpha = 1.0f32;
        // Row-major C = A·Bᵀ is column-major Cᵀ = B·Aᵀ with each operand's rows as columns.
        // SAFETY: the callers' operands lie inside their buffers; scalars are read in the call.
        unsafe {
            sys::cublasGemmEx(
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
                (ap + 2 * a.1.offset as u64) as *const _,
                sys::cudaDataType::CUDA_R_16BF,
                a.1.stride as i32,
                std::ptr::from_ref(&beta).cast(),
                (cp + 4 * c.1.offset as u64) as *mut _,
                sys::cudaDataType::CUDA_R_32F,
                c.1.stride as i32,
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .result()
        .map_err(|e| blas_error("cuBLAS product in bf16", e))
    }

    /// C ← A·Bᵀ + beta·C in f32, or with operands rounded to TF32 on the way in.
    #[allow(unsafe_code, clippy::too_many_arguments)]
    pub(crate) fn product_transposed(
        &self,
        (m, n, k): (usize, usize, usize),
        a: (&Buffer<f32>, Operand),
        b: (&Buffer<f32>, Operand),
        beta: f32,
        c: (&mut Buffer<f32>, Operand),
        tf32: bool,
    ) -> Result<()> {
        let (ap, _a) = a.0.device_ptr(&self.stream);
        let (bp, _b) = b.0.device_ptr(&self.stream);
        let (cp, _c) = c.0.device_ptr_mut(&self.stream);
        let alpha = 1.0f32;
        // SAFETY: as in `product_transposed_bf16`.
        unsafe {
            sys::cublasGemmEx(
                *self.handle.handle(),
                sys::cublasOperation_t::CUBLAS_OP_T,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n as i32,
                m as i32,
                k as i32,
                std::ptr::from_ref(&alpha).cast(),
                (bp + 4 * b.1.offset as u64) as *const _,
                sys::cudaDataType::CUDA_R_32F,
                b.1.stride as i32,
                (ap + 4 * a.1.offset as u64) as *const _,
                sys::cudaDataType::CUDA_R_32F,
                a.1.stride as i32,
                std::ptr::from_ref(&beta).cast(),
                (cp + 4 * c.1.offset as u64) as *mut _,
                sys::cudaDataType::CUDA_R_32F,
                c.1.stride as i32,
                if tf32 {
                    sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
                } else {
                    sys::cublasComputeType_t::CUBLAS_COMPUTE_32F
                },
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .result()
        .map_err(|e| blas_error("cuBLAS product in f32", e))
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
