//! cuBLAS: products of matrices, row-major at this interface.

use cudarc::cublas::sys;

use super::context::Context;
use super::error::blas_error;
use super::memory::{Buffer, Value};
use crate::matrix::{
    Batch, Element, Matrices, Precision, ProductShape, SecondFactor, StridedMatrices,
};
use betz_base::error::{Error, ErrorKind, Result};

/// Refuses an operand of `got` values that is to have `expected`.
fn check_len(what: &str, expected: usize, got: usize) -> Result<()> {
    if got < expected {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("{what}: expected an operand of {expected} values, got {got}"),
        ));
    }
    Ok(())
}

impl StridedMatrices {
    /// Values up to the end of the last of `count` matrices of `rows` × `columns`.
    fn end(&self, count: usize, rows: usize, columns: usize) -> usize {
        self.offset
            + count.saturating_sub(1) * self.batch_stride
            + rows.saturating_sub(1) * self.stride
            + columns
    }
}

impl<'b, T: Value> SecondFactor<&'b Buffer<T>> {
    /// The buffer, and cuBLAS' operation and distance of columns where row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ.
    fn turned(
        self,
        ProductShape { n, k, .. }: ProductShape,
    ) -> (&'b Buffer<T>, sys::cublasOperation_t, i32) {
        match self {
            Self::Plain(b) => (b, sys::cublasOperation_t::CUBLAS_OP_N, n as i32),
            Self::Transposed(b) => (b, sys::cublasOperation_t::CUBLAS_OP_T, k as i32),
        }
    }
}

impl Context {
    /// C ← alpha·A·Bᵀ + beta·C for every product of `batch`, with f32 sums; A is m × k, B is n × k, C is
    /// m × n. `a` and `b` hold their elements' bits.
    #[allow(unsafe_code)]
    pub fn products(
        &self,
        batch: Batch,
        a: Matrices<&Buffer<u16>>,
        b: Matrices<&Buffer<u16>>,
        c: Matrices<&mut Buffer<f32>>,
    ) -> Result<()> {
        let Batch {
            element,
            count,
            shape: ProductShape { m, n, k },
            alpha,
            beta,
        } = batch;
        let halves = match element {
            Element::Bf16 => 1,
            Element::Tf32 => 2,
        };
        let what = "cuBLAS products";
        check_len(what, halves * a.at.end(count, m, k), a.buffer.len())?;
        check_len(what, halves * b.at.end(count, n, k), b.buffer.len())?;
        check_len(what, c.at.end(count, m, n), c.buffer.len())?;
        let ap = a.buffer.address();
        let bp = b.buffer.address();
        let cp = c.buffer.address();
        let (bytes, kind, compute) = match element {
            Element::Bf16 => (
                2,
                sys::cudaDataType::CUDA_R_16BF,
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            ),
            Element::Tf32 => (
                4,
                sys::cudaDataType::CUDA_R_32F,
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            ),
        };
        // Row-major C = A·Bᵀ is column-major Cᵀ = B·Aᵀ with each operand's rows as columns.
        // SAFETY: the operands lie inside their buffers, checked above; scalars are read in the call.
        unsafe {
            sys::cublasGemmStridedBatchedEx(
                *self.blas()?.handle(),
                sys::cublasOperation_t::CUBLAS_OP_T,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n as i32,
                m as i32,
                k as i32,
                std::ptr::from_ref(&alpha).cast(),
                (bp + bytes * b.at.offset as u64) as *const _,
                kind,
                b.at.stride as i32,
                b.at.batch_stride as i64,
                (ap + bytes * a.at.offset as u64) as *const _,
                kind,
                a.at.stride as i32,
                a.at.batch_stride as i64,
                std::ptr::from_ref(&beta).cast(),
                (cp + 4 * c.at.offset as u64) as *mut _,
                sys::cudaDataType::CUDA_R_32F,
                c.at.stride as i32,
                c.at.batch_stride as i64,
                count as i32,
                compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .result()
        .map_err(|e| blas_error("cuBLAS products", e))
    }

    /// C ← A·B + beta·C, all row-major and without gaps: A is m × k.
    #[allow(unsafe_code)]
    pub fn product_f32(
        &self,
        precision: Precision,
        shape: ProductShape,
        a: &Buffer<f32>,
        b: SecondFactor<&Buffer<f32>>,
        beta: f32,
        c: &mut Buffer<f32>,
    ) -> Result<()> {
        let ProductShape { m, n, k } = shape;
        let (b, turned, distance) = b.turned(shape);
        let ap = a.address();
        let bp = b.address();
        let cp = c.address();
        let what = "cuBLAS product in f32";
        check_len(what, m * k, a.len())?;
        check_len(what, k * n, b.len())?;
        check_len(what, m * n, c.len())?;
        let alpha = 1.0f32;
        let compute = match precision {
            Precision::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        };
        // SAFETY: the buffers hold the matrices, checked above; scalars are read in the call.
        unsafe {
            sys::cublasGemmEx(
                *self.blas()?.handle(),
                turned,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n as i32,
                m as i32,
                k as i32,
                std::ptr::from_ref(&alpha).cast(),
                bp as *const _,
                sys::cudaDataType::CUDA_R_32F,
                distance,
                ap as *const _,
                sys::cudaDataType::CUDA_R_32F,
                k as i32,
                std::ptr::from_ref(&beta).cast(),
                cp as *mut _,
                sys::cudaDataType::CUDA_R_32F,
                n as i32,
                compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .result()
        .map_err(|e| blas_error("cuBLAS product in f32", e))
    }

    /// C ← A·B + beta·C in f64, all row-major and without gaps: A is m × k.
    #[allow(unsafe_code)]
    pub fn product_f64(
        &self,
        shape: ProductShape,
        a: &Buffer<f64>,
        b: SecondFactor<&Buffer<f64>>,
        beta: f64,
        c: &mut Buffer<f64>,
    ) -> Result<()> {
        let ProductShape { m, n, k } = shape;
        let (b, turned, distance) = b.turned(shape);
        let ap = a.address();
        let bp = b.address();
        let cp = c.address();
        let what = "cuBLAS product in f64";
        check_len(what, m * k, a.len())?;
        check_len(what, k * n, b.len())?;
        check_len(what, m * n, c.len())?;
        let alpha = 1.0f64;
        // SAFETY: the buffers hold the matrices, checked above; scalars are read in the call.
        unsafe {
            sys::cublasDgemm_v2(
                *self.blas()?.handle(),
                turned,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n as i32,
                m as i32,
                k as i32,
                &alpha,
                bp as *const f64,
                distance,
                ap as *const f64,
                k as i32,
                &beta,
                cp as *mut f64,
                n as i32,
            )
        }
        .result()
        .map_err(|e| blas_error(what, e))
    }

    /// Y ← A·X in f64 for a symmetric row-major A (n × n); X and Y are column-major n × m.
    #[allow(unsafe_code)]
    pub fn symmetric_times(
        &self,
        n: usize,
        m: usize,
        a: &Buffer<f64>,
        x: &Buffer<f64>,
        y: &mut Buffer<f64>,
    ) -> Result<()> {
        let ap = a.address();
        let xp = x.address();
        let yp = y.address();
        let what = "cuBLAS product in f64";
        check_len(what, n * n, a.len())?;
        check_len(what, n * m, x.len().min(y.len()))?;
        let (alpha, beta) = (1.0f64, 0.0f64);
        // SAFETY: n² and n·m values in the buffers, checked above; A symmetric, so its
        // row-major and column-major forms are one.
        unsafe {
            sys::cublasDgemm_v2(
                *self.blas()?.handle(),
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
