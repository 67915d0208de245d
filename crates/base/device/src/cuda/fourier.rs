//! cuFFT: real transforms of many blocks, which may overlap.

use betz_base::lock::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cudarc::cufft::{result, sys};

use super::context::Context;
use super::error::{driver_error, fourier_error};
use super::library::Library;
use super::memory::Buffer;
use crate::matrix::TransformShape;
use betz_base::error::{Error, ErrorKind, Result};

/// Plans that a context keeps; beyond, it forgets all.
const MOST_PLANS: usize = 32;

/// The plans of a context, by what they do.
pub(super) type Plans = HashMap<(Direction, TransformShape), Arc<Mutex<Plan>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Forward,
    Inverse,
}

/// A plan of cuFFT on its context's stream, without a work area.
pub(super) struct Plan {
    handle: sys::cufftHandle,
    work_bytes: usize,
}

impl Drop for Plan {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the handle is this plan's own, and nothing uses it any more.
        let _ = unsafe { result::destroy(self.handle) };
    }
}

/// True if cuFFT can be loaded.
pub fn has_transforms() -> bool {
    Library::Fourier.load().is_ok()
}

/// Transforms of many blocks to their spectra, and of several spectra per block back. Made by
/// [`Context::block_transforms`].
pub struct BlockTransforms {
    shape: TransformShape,
    spectra: usize,
    forward: Arc<Mutex<Plan>>,
    inverse: Arc<Mutex<Plan>>,
    work: Buffer<u8>,
}

impl std::fmt::Debug for BlockTransforms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockTransforms({:?})", self.shape)
    }
}

impl Context {
    /// Transforms of the blocks of `shape`, and of `spectra` spectra per block back. Plans are kept by the context; the
    /// work area belongs to what is returned.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUnavailable`] if cuFFT is absent; the errors of the library and of the device.
    pub fn block_transforms(
        &self,
        shape: TransformShape,
        spectra: usize,
    ) -> Result<BlockTransforms> {
        let back = TransformShape {
            hop: shape.spectrum(),
            count: shape.count * spectra,
            ..shape
        };
        let forward = self.plan(Direction::Forward, shape)?;
        let inverse = self.plan(Direction::Inverse, back)?;
        let bytes = |plan: &Mutex<Plan>| lock(plan).work_bytes;
        let work = self.alloc(bytes(&forward).max(bytes(&inverse)))?;
        Ok(BlockTransforms {
            shape,
            spectra,
            forward,
            inverse,
            work,
        })
    }

    fn plan(&self, direction: Direction, shape: TransformShape) -> Result<Arc<Mutex<Plan>>> {
        let mut plans = lock(&self.transforms);
        if let Some(plan) = plans.get(&(direction, shape)) {
            return Ok(Arc::clone(plan));
        }
        Library::Fourier.load()?;
        let plan = Arc::new(Mutex::new(self.new_plan(direction, shape)?));
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        plans.insert((direction, shape), Arc::clone(&plan));
        Ok(plan)
    }

    #[allow(unsafe_code)]
    fn new_plan(&self, direction: Direction, shape: TransformShape) -> Result<Plan> {
        let what = format!(
            "planning {} transforms of {} values by cuFFT",
            shape.count, shape.length
        );
        let number = |value: usize| {
            i32::try_from(value).map_err(|_| {
                Error::device_limit(format!("{what}: expected numbers below 2^31, got {value}"))
            })
        };
        let (mut length, count) = (number(shape.length)?, number(shape.count)?);
        let (real, complex) = (number(shape.hop)?, number(shape.spectrum() / 2)?);
        let (mut real_embed, mut complex_embed) = (length, complex);
        let (kind, first, second) = match direction {
            Direction::Forward => (
                sys::cufftType_t::CUFFT_R2C,
                (&mut real_embed, real),
                (&mut complex_embed, complex),
            ),
            Direction::Inverse => (
                sys::cufftType_t::CUFFT_C2R,
                (&mut complex_embed, complex),
                (&mut real_embed, real),
            ),
        };
        let fail = |e| fourier_error(&what, e);
        // A plan belongs to whatever context is current.
        (self.cuda.bind_to_thread()).map_err(|e| driver_error(&what, e))?;
        let mut plan = Plan {
            handle: result::create().map_err(fail)?,
            work_bytes: 0,
        };
        // SAFETY: the handle is valid; the numbers live through the call; the stream outlives the context's plans.
        unsafe {
            result::set_auto_allocation(plan.handle, false).map_err(fail)?;
            plan.work_bytes = result::make_plan_many(
                plan.handle,
                1,
                &mut length,
                first.0,
                1,
                first.1,
                second.0,
                1,
                second.1,
                kind,
                count,
            )
            .map_err(fail)?;
            result::set_stream(plan.handle, self.stream.cu_stream().cast()).map_err(fail)?;
        }
        Ok(plan)
    }
}

impl BlockTransforms {
    /// Transforms the blocks of `signal`, of which the first begins at value `first`, to `spectra`. Does not wait.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] for buffers that are too short; the errors of the library.
    #[allow(unsafe_code)]
    pub fn forward(
        &mut self,
        context: &Context,
        signal: &Buffer<f32>,
        first: usize,
        spectra: &mut Buffer<f32>,
    ) -> Result<()> {
        let TransformShape { length, hop, count } = self.shape;
        let end = first + count.saturating_sub(1) * hop + length;
        let source = signal.address_of(&(first..end))?;
        let target = spectra.address_of(&(0..count * self.shape.spectrum()))?;
        let what = "transforming by cuFFT";
        let plan = self.ready(context, &self.forward, what)?;
        // SAFETY: source and target hold what the plan reads and writes, checked above; freed in the stream's order.
        unsafe { result::exec_r2c(plan.handle, source as *mut _, target as *mut _) }
            .map_err(|e| fourier_error(what, e))
    }

    /// Transforms all `spectra` back in place: each becomes a block, from its first value on. Without a scale: a block is
    /// `length` times what it was. Does not wait.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] for a buffer that is too short; the errors of the library.
    #[allow(unsafe_code)]
    pub fn inverse(&mut self, context: &Context, spectra: &mut Buffer<f32>) -> Result<()> {
        let values = self.shape.count * self.spectra * self.shape.spectrum();
        let place = spectra.address_of(&(0..values))?;
        let what = "transforming back by cuFFT";
        let plan = self.ready(context, &self.inverse, what)?;
        // SAFETY: the buffer holds what the plan reads and writes, checked above; freed in the stream's order.
        unsafe { result::exec_c2r(plan.handle, place as *mut _, place as *mut _) }
            .map_err(|e| fourier_error(what, e))
    }

    /// `plan` with this work area; locked until it has been asked to run.
    #[allow(unsafe_code)]
    fn ready<'p>(
        &self,
        context: &Context,
        plan: &'p Mutex<Plan>,
        what: &str,
    ) -> Result<std::sync::MutexGuard<'p, Plan>> {
        let plan = lock(plan);
        if plan.work_bytes > self.work.len() {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("{what}: the work area is too short"),
            ));
        }
        (context.cuda.bind_to_thread()).map_err(|e| driver_error(what, e))?;
        let area = self.work.address() as *mut _;
        // SAFETY: the area has as many bytes as the plan asked for, and is freed in the stream's order.
        unsafe { result::set_work_area(plan.handle, area) }.map_err(|e| fourier_error(what, e))?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overlapping blocks there and back, and a spectrum against its definition.
    #[test]
    fn cuda_transforms_of_blocks_agree_with_their_definition() {
        let context = match Context::open(0) {
            Ok(context) if has_transforms() => context,
            Ok(_) => return eprintln!("skipped: no cuFFT"),
            Err(error) => return eprintln!("skipped: {}", error.message()),
        };
        for (length, hop, count, first) in [
            (64, 40, 7, 8),
            (4096, 4096, 3, 0),
            (32_768, 28_764, 5, 4),
            (301, 301, 4, 0),
        ] {
            let shape = TransformShape { length, hop, count };
            let signal: Vec<f32> = (0..first + hop * count + length)
                .map(|i| (i * i % 97) as f32 / 97.0 - 0.4)
                .collect();
            let there = context.upload(&signal).unwrap();
            let mut transforms = context.block_transforms(shape, 1).unwrap();
            let mut spectra = context.zeros(count * shape.spectrum()).unwrap();
            transforms
                .forward(&context, &there, first, &mut spectra)
                .unwrap();
            let found: Vec<f32> = context
                .download(&spectra, count * shape.spectrum())
                .unwrap();
            for block in 0..count {
                let x = &signal[first + block * hop..][..length];
                for k in [0, 1, 5, length / 2] {
                    let (mut re, mut im) = (0.0, 0.0);
                    for (i, &x) in x.iter().enumerate() {
                        let turn = (k * i % length) as f64 / length as f64;
                        let (sin, cos) = (-std::f64::consts::TAU * turn).sin_cos();
                        re += f64::from(x) * cos;
                        im += f64::from(x) * sin;
                    }
                    let at = block * shape.spectrum() + 2 * k;
                    let scale = 1e-5 * length as f64;
                    assert!(
                        (f64::from(found[at]) - re).abs() < scale,
                        "{length} {block} {k}"
                    );
                    assert!(
                        (f64::from(found[at + 1]) - im).abs() < scale,
                        "{length} {block} {k}"
                    );
                }
            }
            transforms.inverse(&context, &mut spectra).unwrap();
            let back: Vec<f32> = context
                .download(&spectra, count * shape.spectrum())
                .unwrap();
            for block in 0..count {
                let blocks = signal[first + block * hop..][..length].iter();
                for (x, y) in blocks.zip(&back[block * shape.spectrum()..]) {
                    assert!((x - y / length as f32).abs() < 1e-5, "{length} {block}");
                }
            }
        }
    }
}
