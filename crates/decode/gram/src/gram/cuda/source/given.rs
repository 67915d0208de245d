//! Responses that are on the device already.

use std::ops::Range;

use super::{ResponseSource, Round};
use crate::gram::cuda::filters::Filters;
use crate::gram::cuda::plan::{CHUNK_BLOCKS, CHUNK_STEPS, SourceCosts};
use crate::gram::cuda::staging::GramStaging;
use crate::gram::cuda::store;
use crate::gram::cuda::timeline::Timeline;
use betz_base::error::{Error, Result};
use betz_device::cuda::Buffer;
use betz_kernels::gram::ResponsesGiven;
use betz_kernels::{Block, Target};

/// f32 responses of every feature to every step of a recording, on the device, `[feature][step]`,
/// however they were made (an FFT, a low-pass, a caller's own). Each segment's filter starts at rest;
/// steps outside segments are not read. Features are channel · filters + filter.
pub(crate) struct GivenResponses<'a> {
    responses: &'a Buffer<f32>,
    features: usize,
    /// Values from one feature to the next, at least as many as steps.
    length: usize,
    operands: Vec<Range<usize>>,
}

impl<'a> GivenResponses<'a> {
    /// `responses` holds `features` rows, `length` values apart, of `steps` steps each.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when that does not fit together.
    pub(crate) fn new(
        responses: &'a Buffer<f32>,
        features: usize,
        steps: usize,
        length: usize,
    ) -> Result<Self> {
        let needed = features.saturating_sub(1) * length + steps;
        if length < steps || responses.len() < needed {
            return Err(Error::mismatch(format!(
                "responses on the device: expected {features} features of {steps} steps, got {} values, {length} a feature",
                responses.len()
            )));
        }
        Ok(Self {
            responses,
            features,
            length,
            operands: Vec::new(),
        })
    }
}

impl ResponseSource for GivenResponses<'_> {
    fn features(&self) -> usize {
        self.features
    }

    /// They may be of a signal.
    fn rests_at_zero(&self) -> bool {
        false
    }

    /// The responses themselves are the caller's.
    fn costs(&self, _timeline: &Timeline) -> SourceCosts {
        SourceCosts::default()
    }

    fn filters(&self) -> Option<&Filters> {
        None
    }

    fn begin(
        &mut self,
        _timeline: &Timeline,
        operands: &[Range<usize>],
        _chunks: usize,
        _staging: &mut GramStaging,
    ) -> Result<()> {
        self.operands = operands.to_vec();
        Ok(())
    }

    fn load(&mut self, _round: &Round<'_>) -> Result<()> {
        Ok(())
    }

    fn fill(
        &self,
        round: &Round<'_>,
        operand: usize,
        _states: &Buffer<f32>,
        target: Target<'_>,
    ) -> Result<()> {
        let rows = &self.operands[operand];
        let columns = GivenColumns {
            responses: self.responses,
            length: self.length,
            first: rows.start,
            count: rows.len(),
        };
        fill(round, columns, round.blocks, round.delay_steps, target)
    }

    fn release(&mut self) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, _staging: &mut GramStaging) -> Result<()> {
        Ok(())
    }
}

/// Features on the device: `count` rows from `first` on, `length` values apart.
pub(super) struct GivenColumns<'b> {
    pub(super) responses: &'b Buffer<f32>,
    pub(super) length: usize,
    pub(super) first: usize,
    pub(super) count: usize,
}

/// Brings a round's `columns` to `target`; a block's first step is at its `origin` + `delay` of a row.
pub(super) fn fill(
    round: &Round<'_>,
    columns: GivenColumns<'_>,
    blocks: &Buffer<Block>,
    delay: i64,
    target: Target<'_>,
) -> Result<()> {
    let arguments = ResponsesGiven {
        responses: columns.responses.read(),
        length: columns.length as u64,
        block: blocks.read(),
        delay: delay as i32,
        first_column: columns.first as i32,
        target,
    };
    let tiles = columns.count.div_ceil(32) as u32;
    round
        .context
        .load::<ResponsesGiven>(&store::options(), 4 * 33 * CHUNK_STEPS)?
        .launch(
            (tiles, round.chunks.len() as u32, 1),
            32 * CHUNK_BLOCKS as u32,
            arguments,
        )
}
