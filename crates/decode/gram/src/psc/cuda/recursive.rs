//! PSC filtering on a device by the filters' recursion, in tiles of 4,096 steps side by side.
//!
//! Two passes over the input: what each tile does to a filter at rest, and, once these are summed up
//! in f64, the responses. Deterministic; f32 within a word of 32 steps.

use super::layout::{DeviceLayout, THREADS, tile_bytes};
use super::shape::{Shape, shapes};
use betz_base::error::{Error, Result};
use betz_device::cuda::{Buffer, Context};
use betz_kernels::psc::{PscCarry, PscResponses, PscTileEnds};
use betz_kernels::{Filter, In, KernelOption};
use betz_runtime::psc::FilterBank;

/// A filter that decays faster a step wants the kernels' variant for brief filters.
const BRIEF_RATE: f64 = 0.4;

/// A bank as kernels take it.
pub(crate) struct DeviceBank {
    /// Every filter.
    pub(crate) filter: Buffer<Filter>,
    pub(crate) filters: usize,
    /// Largest order.
    pub(crate) order: usize,
    /// Compile-time constants.
    pub(crate) options: Vec<String>,
}

impl DeviceBank {
    pub(crate) fn new(context: &Context, bank: &FilterBank, step_seconds: f64) -> Result<Self> {
        let shapes = shapes(bank, step_seconds);
        let filter: Vec<Filter> = shapes.iter().map(Shape::filter).collect();
        let order = shapes.iter().map(|s| s.order).max().unwrap_or(0) as usize;
        let mut options = vec![format!("-DORDER={order}")];
        if shapes.iter().any(|s| s.rate > BRIEF_RATE) {
            options.push("-DBRIEF".to_owned());
        }
        Ok(Self {
            filter: context.upload(&filter)?,
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
        (order as usize + 1) * bank.filters().len()
    }

    /// Back to rest.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.carry = self
            .context
            .zeros((self.bank.order + 1) * self.channels * self.bank.filters)?;
        Ok(())
    }

    /// Responses to the steps of `layout`, which follow those of the run before. Rows of `input` are
    /// `stride` samples apart. Writes rows channel × `width` + filter of `output`; zero outside segments. Does
    /// not wait.
    pub(crate) fn run(
        &mut self,
        input: In<'_, f32>,
        stride: usize,
        layout: &DeviceLayout,
        output: &mut Buffer<f32>,
        (width, output_stride): (usize, usize),
    ) -> Result<()> {
        let (context, bank) = (self.context, &self.bank);
        let rows = self.channels * bank.filters;
        if rows == 0 || layout.steps == 0 {
            return Ok(());
        }
        let blocks = grid(self.channels, layout.tiles)?;
        let states = layout.tiles * (bank.order + 1) * rows;
        let mut ends: Buffer<f32> = context.alloc(states)?;
        let mut words: Buffer<f32> = context.alloc(states * THREADS)?;
        let mut options = bank.options.clone();
        options.push(format!("-DINPUT={}", f32::VALUE));
        let (input_stride, steps) = (stride as u64, layout.steps as i32);
        let (filters, channels) = (bank.filters as i32, self.channels as i32);
        let tiles = layout.tiles as i32;
        let shared = tile_bytes(4);
        let tile_ends = PscTileEnds {
            input,
            stride: input_stride,
            steps,
            mask: layout.mask.read(),
            filter: bank.filter.read(),
            filters,
            channels,
            tiles,
            at: ends.write(),
            words: words.write(),
        };
        context.load::<PscTileEnds<f32>>(&options, shared)?.launch(
            blocks,
            THREADS as u32,
            tile_ends,
        )?;
        let carry = PscCarry {
            at: ends.update(),
            words: words.read(),
            steps,
            uncut: layout.uncut.read(),
            tiles,
            filter: bank.filter.read(),
            filters,
            channels,
            carry: self.carry.update(),
        };
        context.load::<PscCarry>(&options, 0)?.launch(
            (rows.div_ceil(64) as u32, 1, 1),
            64,
            carry,
        )?;
        let responses = PscResponses {
            input,
            stride: input_stride,
            steps,
            mask: layout.mask.read(),
            uncut: layout.uncut.read(),
            filter: bank.filter.read(),
            filters,
            channels,
            tiles,
            at: ends.read(),
            words: words.read(),
            width: width as i32,
            output: output.update(),
            output_stride: output_stride as u64,
        };
        context
            .load::<PscResponses<f32>>(&options, shared * bank.filters.min(2))?
            .launch(blocks, THREADS as u32, responses)
    }
}
