//! PSC filtering on a device by the filters' recursion, in tiles of 4,096 steps side by side.
//!
//! Two passes over the input: what each tile does to a filter at rest, and, once these are summed up
//! in f64, the responses. Deterministic; f32 within a word of 32 steps.

use super::Input;
use super::layout::{DeviceLayout, THREADS, tile_bytes};
use super::shape::{Shape, shapes};
use betz_base::error::{Error, Result};
use betz_device::cuda::{Buffer, Context, PushKernelArg, View};
use betz_kernels::PSC_RECURSIVE;
use betz_runtime::psc::FilterBank;

/// A filter that decays faster a step wants the kernels' variant for brief filters.
const BRIEF_RATE: f64 = 0.4;

/// What kernels know of a bank.
pub(crate) struct DeviceBank {
    /// `struct Filter` of every filter.
    pub(crate) filter: Buffer<u32>,
    pub(crate) filters: usize,
    /// Largest order.
    pub(crate) order: usize,
    /// Compile-time constants.
    pub(crate) options: Vec<String>,
}

impl DeviceBank {
    pub(crate) fn new(context: &Context, bank: &FilterBank, step_seconds: f64) -> Result<Self> {
        let shapes = shapes(bank, step_seconds);
        let words: Vec<u32> = shapes.iter().flat_map(Shape::words).collect();
        let order = shapes.iter().map(|s| s.order).max().unwrap_or(0) as usize;
        let mut options = vec![format!("-DORDER={order}")];
        if shapes.iter().any(|s| s.rate > BRIEF_RATE) {
            options.push("-DBRIEF".to_owned());
        }
        Ok(Self {
            filter: context.upload(&words)?,
            filters: shapes.len(),
            order,
            options,
        })
    }
}

/// Every filter of a bank at work on `channels` rows of samples; the states go on from slice to
/// slice.
pub(crate) struct Recursion<'a> {
    context: &'a Context,
    bank: DeviceBank,
    channels: usize,
    /// (order + 1) × rows.
    carry: Buffer<f64>,
}

/// Rows of samples in device memory, `stride` samples apart. Kernels also write through it.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'b, T> {
    pub(crate) view: &'b View<'b, T>,
    pub(crate) stride: usize,
}

/// The grid for one block a tile and row.
///
/// # Errors
/// [`ErrorKind::DeviceMemory`](betz_base::ErrorKind::DeviceMemory) past 2³¹ blocks.
pub(crate) fn grid(rows: usize, tiles: usize) -> Result<(u32, u32, u32)> {
    match u32::try_from(rows * tiles) {
        Ok(blocks) if blocks < 1 << 31 => Ok((blocks, 1, 1)),
        _ => Err(Error::device_limit(format!(
            "filters on a device: expected at most 2^31 tiles at a time, got {rows} rows × {tiles}"
        ))),
    }
}

impl<'a> Recursion<'a> {
    pub(crate) fn new(
        context: &'a Context,
        bank: &FilterBank,
        step_seconds: f64,
        channels: usize,
    ) -> Result<Self> {
        let bank = DeviceBank::new(context, bank, step_seconds)?;
        let carry = context.zeros((bank.order + 1) * channels * bank.filters)?;
        Ok(Self {
            context,
            bank,
            channels,
            carry,
        })
    }

    /// Bytes that a run needs for each tile and row.
    pub(crate) fn tile_bytes(bank: &FilterBank) -> usize {
        4 * Self::states(bank) * (1 + THREADS)
    }

    /// Bytes of a row's states.
    pub(crate) fn carry_bytes(bank: &FilterBank) -> usize {
        8 * Self::states(bank)
    }

    /// Values of a row's states.
    fn states(bank: &FilterBank) -> usize {
        let order = bank.filters().iter().map(|f| f.order).max().unwrap_or(0);
        (order as usize + 1) * bank.len()
    }

    /// Back to rest.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.carry = self
            .context
            .zeros((self.bank.order + 1) * self.channels * self.bank.filters)?;
        Ok(())
    }

    /// Responses to the steps of `layout`, which follow those of the run before. Row
    /// channel × filters + filter of `output`; zero outside segments. Does not wait.
    pub(crate) fn run<T: Input>(
        &mut self,
        input: Rows<'_, T>,
        layout: &DeviceLayout,
        output: Rows<'_, f32>,
    ) -> Result<()> {
        let (context, bank) = (self.context, &self.bank);
        let rows = self.channels * bank.filters;
        if rows == 0 || layout.steps == 0 {
            return Ok(());
        }
        let blocks = grid(self.channels, layout.tiles)?;
        let states = layout.tiles * (bank.order + 1) * rows;
        let ends: Buffer<f32> = context.alloc(states)?;
        let words: Buffer<f32> = context.alloc(states * THREADS)?;
        let mut options = bank.options.clone();
        options.push(format!("-DINPUT={}", T::NAME));
        let kernel = |name, shared| context.kernel(PSC_RECURSIVE, &options, name, shared);
        let (stride, steps) = (input.stride as u64, layout.steps as i32);
        let (filters, channels) = (bank.filters as i32, self.channels as i32);
        let tiles = layout.tiles as i32;
        let shared = tile_bytes(4);
        kernel("psc_tile_ends", shared)?.launch(blocks, THREADS as u32, shared, |a| {
            a.arg(input.view).arg(&stride).arg(&steps).arg(&layout.mask);
            a.arg(&bank.filter).arg(&filters).arg(&channels);
            a.arg(&tiles).arg(&ends).arg(&words);
        })?;
        kernel("psc_carry", 0)?.launch((rows.div_ceil(64) as u32, 1, 1), 64, 0, |a| {
            a.arg(&ends)
                .arg(&words)
                .arg(&steps)
                .arg(&layout.uncut)
                .arg(&tiles)
                .arg(&bank.filter);
            a.arg(&filters).arg(&channels).arg(&mut self.carry);
        })?;
        let shared = shared * bank.filters.min(2);
        let output_stride = output.stride as u64;
        kernel("psc_responses", shared)?.launch(blocks, THREADS as u32, shared, |a| {
            a.arg(input.view).arg(&stride).arg(&steps).arg(&layout.mask);
            a.arg(&layout.uncut)
                .arg(&bank.filter)
                .arg(&filters)
                .arg(&channels);
            a.arg(&tiles)
                .arg(&ends)
                .arg(&words)
                .arg(output.view)
                .arg(&output_stride);
        })
    }
}
