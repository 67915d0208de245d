//! cuFFT: batches of real transforms in place, planned once and reused.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cufft::{result, result::CufftError, sys};

use super::library::Library;
use super::{Buffer, Context};
use betz_base::error::{Error, ErrorKind, Result};

/// Plans kept for reuse; the oldest goes first.
const KEPT: usize = 8;

/// Forward and inverse transforms of `batch` rows of `length` reals in place: a row is `pitch`
/// floats, and after the forward transform length/2 + 1 complex bins in the same place. Nothing is
/// scaled: there and back multiplies by `length`.
pub struct RealFft {
    /// Reals of a row.
    pub length: usize,
    /// Rows.
    pub batch: usize,
    /// Floats from one row to the next.
    pub pitch: usize,
    /// Bytes of working memory that a run wants.
    pub work_bytes: usize,
    /// Forward, then inverse; one thread at a time.
    handles: Mutex<Vec<sys::cufftHandle>>,
}

fn fft_error(what: &str, error: CufftError) -> Error {
    let kind = match error.0 {
        sys::cufftResult::CUFFT_ALLOC_FAILED => ErrorKind::DeviceMemory,
        _ => ErrorKind::DeviceFailure,
    };
    Error::new(kind, format!("{what}: {error}"))
}

/// Floats of a row of `length` reals and of its bins, rounded up to 128 bytes.
pub const fn pitch(length: usize) -> usize {
    (length + 2).next_multiple_of(32)
}

/// The two transforms' types, in `handles`' order.
const TYPES: [sys::cufftType; 2] = [sys::cufftType::CUFFT_R2C, sys::cufftType::CUFFT_C2R];

#[allow(unsafe_code)]
impl RealFft {
    fn new(context: &Context, length: usize, batch: usize) -> Result<Self> {
        let pitch = pitch(length);
        let what = || format!("planning {batch} transforms of {length} samples");
        let (Ok(samples), Ok(rows), Ok(row)) = (
            i32::try_from(length),
            i32::try_from(batch),
            i32::try_from(pitch),
        ) else {
            return Err(Error::device_limit(format!(
                "{}: expected at most 2^31 of each",
                what()
            )));
        };
        let fail = |e| fft_error(&what(), e);
        let mut plan = Self {
            length,
            batch,
            pitch,
            work_bytes: 0,
            handles: Mutex::default(),
        };
        // Dropping `plan` destroys what was made before a failure.
        let handles = plan
            .handles
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for kind in TYPES {
            let (real, complex) = (row, row / 2);
            let (input, output) = match kind {
                sys::cufftType::CUFFT_R2C => (real, complex),
                _ => (complex, real),
            };
            let mut n = [samples];
            let (mut real_embed, mut complex_embed) = ([row], [row / 2]);
            let (input_embed, output_embed) = match kind {
                sys::cufftType::CUFFT_R2C => (&mut real_embed, &mut complex_embed),
                _ => (&mut complex_embed, &mut real_embed),
            };
            let handle = result::create().map_err(fail)?;
            handles.push(handle);
            // SAFETY: a fresh handle on a live stream; arrays of one entry each for rank one.
            let work = unsafe {
                result::set_auto_allocation(handle, false).map_err(fail)?;
                result::set_stream(handle, context.stream.cu_stream().cast()).map_err(fail)?;
                result::make_plan_many(
                    handle,
                    1,
                    n.as_mut_ptr(),
                    input_embed.as_mut_ptr(),
                    1,
                    input,
                    output_embed.as_mut_ptr(),
                    1,
                    output,
                    kind,
                    rows,
                )
                .map_err(fail)?
            };
            plan.work_bytes = plan.work_bytes.max(work);
        }
        Ok(plan)
    }

    /// Rows of reals in `rows` become rows of bins. Does not wait.
    pub fn forward(
        &self,
        context: &Context,
        rows: &mut Buffer<f32>,
        work: &mut Buffer<u8>,
    ) -> Result<()> {
        self.run(context, 0, rows, 0, work)
    }

    /// Rows of bins in `rows` from float `offset` on become rows of reals. Does not wait.
    pub fn inverse(
        &self,
        context: &Context,
        rows: &mut Buffer<f32>,
        offset: usize,
        work: &mut Buffer<u8>,
    ) -> Result<()> {
        self.run(context, 1, rows, offset, work)
    }

    fn run(
        &self,
        context: &Context,
        direction: usize,
        rows: &mut Buffer<f32>,
        offset: usize,
        work: &mut Buffer<u8>,
    ) -> Result<()> {
        if rows.len() < offset + self.batch * self.pitch || work.len() < self.work_bytes {
            return Err(Error::new(
                ErrorKind::Internal,
                "transform: rows or working memory are too short",
            ));
        }
        context.bind()?;
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let (data, space) = (rows.address(), work.address());
        let at = data + 4 * offset as u64;
        // SAFETY: the buffers are as long as the plan wants, checked above; both are used on the
        // plan's stream alone, so they outlive the work in stream order.
        unsafe {
            result::set_work_area(handles[direction], space as *mut _)
                .and_then(|()| match direction {
                    0 => result::exec_r2c(handles[0], at as *mut _, at as *mut _),
                    _ => result::exec_c2r(handles[1], at as *mut _, at as *mut _),
                })
                .map_err(|e| fft_error("transforming by cuFFT", e))
        }
    }
}

impl Drop for RealFft {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        let handles = self
            .handles
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for handle in handles.drain(..) {
            // SAFETY: made by `new`, destroyed once.
            let _ = unsafe { result::destroy(handle) };
        }
    }
}

impl Context {
    /// Transforms of `batch` rows of `length` samples, planned on the first call.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`] without cuFFT; [`ErrorKind::DeviceMemory`] and
    /// [`ErrorKind::DeviceFailure`] as cuFFT says.
    pub fn real_fft(&self, length: usize, batch: usize) -> Result<Arc<RealFft>> {
        Library::Fft.load()?;
        self.bind()?;
        let mut kept = self
            .transforms
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = kept.iter().find(|p| p.length == length && p.batch == batch) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(RealFft::new(self, length, batch)?);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(Arc::clone(&plan));
        Ok(plan)
    }

    /// Bytes of working memory that cuFFT expects `batch` rows of `length` samples to want.
    ///
    /// # Errors
    /// As [`real_fft`](Self::real_fft).
    pub fn real_fft_bytes(&self, length: usize, batch: usize) -> Result<usize> {
        Library::Fft.load()?;
        self.bind()?;
        let mut most = 0;
        for kind in TYPES {
            let estimate = result::estimate_1d(length as i32, kind, batch as i32)
                .map_err(|e| fft_error("asking cuFFT for its working memory", e))?;
            most = most.max(estimate);
        }
        Ok(most)
    }

    /// Makes this context the calling thread's, as libraries expect.
    fn bind(&self) -> Result<()> {
        self.cuda
            .bind_to_thread()
            .map_err(|e| super::driver_error("choosing a device", e))
    }
}
