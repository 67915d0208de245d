//! Errors of the driver and of the libraries.

use cudarc::cublas::result::CublasError;
use cudarc::cublas::sys::cublasStatus_t;
use cudarc::cufft::result::CufftError;
use cudarc::cufft::sys::cufftResult_t;
use cudarc::cusolver::result::CusolverError;
use cudarc::cusolver::sys::cusolverStatus_t;
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

use betz_base::error::{Error, ErrorKind};

/// A driver error while doing `what`.
pub(super) fn driver_error(what: &str, error: DriverError) -> Error {
    let kind = match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::DeviceMemory,
        CUresult::CUDA_ERROR_NO_DEVICE
        | CUresult::CUDA_ERROR_INVALID_DEVICE
        | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => ErrorKind::DeviceUnavailable,
        _ => ErrorKind::DeviceFailure,
    };
    Error::new(kind, format!("{what}: {error}"))
}

/// A cuBLAS error while doing `what`.
pub(super) fn blas_error(what: &str, error: CublasError) -> Error {
    let kind = match error.0 {
        cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => ErrorKind::DeviceMemory,
        _ => ErrorKind::DeviceFailure,
    };
    Error::new(kind, format!("{what}: {error}"))
}

/// A cuSOLVER error while doing `what`.
pub(super) fn solver_error(what: &str, error: CusolverError) -> Error {
    let kind = match error.0 {
        cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED => ErrorKind::DeviceMemory,
        _ => ErrorKind::DeviceFailure,
    };
    Error::new(kind, format!("{what}: {error}"))
}

/// A cuFFT error while doing `what`.
pub(super) fn fourier_error(what: &str, error: CufftError) -> Error {
    let kind = match error.0 {
        cufftResult_t::CUFFT_ALLOC_FAILED => ErrorKind::DeviceMemory,
        _ => ErrorKind::DeviceFailure,
    };
    Error::new(kind, format!("{what}: {error}"))
}
