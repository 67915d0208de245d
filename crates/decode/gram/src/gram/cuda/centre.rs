//! A constant is subtracted from responses before they are multiplied, and added again in f64.
//!
//! Tensor cores round their sums toward zero: what they lose is in proportion to the sum. Where every
//! response has its mean taken off, sums of products nearly cancel off Γ's diagonal, and what is lost is
//! in proportion to Γ_c, which the weights follow from, rather than to the far larger Γ. Any constant c
//! will do, since Σ (a_i − c_i)(a_j − c_j) + c_i Σa_j + c_j Σa_i − T c_i c_j = Σ a_i a_j, of which all but
//! the first sum is computed in f64. But the farther c is from the mean, the more is lost again, in
//! proportion to T c²: c is the mean over a first stretch of time, and where that turns out to have been
//! no guide to the rest (a channel that falls silent), the sums are made again about the mean, which is
//! then known.

use std::ops::Range;

use super::plan::CHUNK_BLOCKS;
use super::source::Round;
use super::timeline::Timeline;
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context};
use betz_kernels::In;
use betz_kernels::gram::{CentreAtMean, FindFarCentre, MeanResponses, PutCentreBack};

/// One constant a feature; zero until it is measured.
pub(super) struct Centre {
    values: Buffer<f32>,
    outputs: usize,
    /// To f32, for features that do not rest at zero: what a mean far above the features' variation lacks of precision
    /// would be a large part of that. Else to what every form of an operand holds, so that steps at rest, which are all
    /// alike, are not all rounded alike.
    exact: bool,
}

/// The steps that were summed, and the compile-time options of the kernels.
#[derive(Clone, Copy)]
pub(super) struct SumSource<'a> {
    pub(super) context: &'a Context,
    pub(super) options: &'a [String],
    pub(super) timeline: &'a Timeline,
    pub(super) chunks: &'a Range<usize>,
}

impl SumSource<'_> {
    fn steps(&self) -> f64 {
        steps_in(self.timeline, self.chunks) as f64
    }
}

impl Centre {
    pub(super) fn new(
        context: &Context,
        features: usize,
        outputs: usize,
        exact: bool,
    ) -> Result<Self> {
        Ok(Self {
            values: context.zeros(features)?,
            outputs,
            exact,
        })
    }

    /// The constants of the features from `first` on.
    pub(super) fn read(&self, first: usize) -> In<'_, f32> {
        self.values.read().skip(first)
    }

    /// Takes the means of the features in `rows` over `round`, which has steps that are summed, from Σa of
    /// its chunks (last in `sums[chunk][outputs + 1][row]`).
    pub(super) fn measure(
        &mut self,
        round: &Round<'_>,
        options: &[String],
        rows: &Range<usize>,
        sums: &Buffer<f64>,
    ) -> Result<()> {
        let arguments = MeanResponses {
            partial: sums.read(),
            chunks: round.chunks.len() as i32,
            columns: rows.len() as i32,
            first_column: rows.start as i32,
            outputs: self.outputs as i32,
            steps: steps_in(round.timeline, &round.chunks) as f64,
            exact: i32::from(self.exact),
            centre: self.values.update(),
        };
        let grid = (rows.len().div_ceil(64) as u32, 1, 1);
        (round.context)
            .load::<MeanResponses>(options, 0)?
            .launch(grid, 64, arguments)
    }

    /// True when the constants of `rows` suited the responses that were summed: T c² is not far above any
    /// Γ_ii of `gram`, rows × rows. Waits.
    pub(super) fn suited(
        &self,
        over: SumSource<'_>,
        rows: &Range<usize>,
        gram: &Buffer<f64>,
    ) -> Result<bool> {
        let mut far: Buffer<i32> = over.context.zeros(1)?;
        let arguments = FindFarCentre {
            centre: self.values.read(),
            gram: gram.read(),
            steps: over.steps(),
            first_row: rows.start as i32,
            rows: rows.len() as i32,
            far: far.update(),
        };
        let grid = (rows.len().div_ceil(256) as u32, 1, 1);
        over.context
            .load::<FindFarCentre>(over.options, 0)?
            .launch(grid, 256, arguments)?;
        Ok(over.context.download(&far, 1)?[0] == 0)
    }

    /// Takes the means of `rows`, from Σa (last of every feature's row of `sums`).
    pub(super) fn take_means(
        &mut self,
        over: SumSource<'_>,
        rows: &Range<usize>,
        sums: &Buffer<f64>,
    ) -> Result<()> {
        let arguments = CentreAtMean {
            sums: sums.read(),
            outputs: self.outputs as i32,
            steps: over.steps(),
            exact: i32::from(self.exact),
            first_row: rows.start as i32,
            rows: rows.len() as i32,
            centre: self.values.update(),
        };
        let grid = (rows.len().div_ceil(256) as u32, 1, 1);
        over.context
            .load::<CentreAtMean>(over.options, 0)?
            .launch(grid, 256, arguments)
    }

    /// Puts back what was taken from the sums: `block` is `rows` × `columns`,
    /// `sums` has Υ and Σa of every feature over the same chunks.
    pub(super) fn put_back(
        &self,
        over: SumSource<'_>,
        rows: &Range<usize>,
        columns: &Range<usize>,
        sums: &Buffer<f64>,
        block: &mut Buffer<f64>,
    ) -> Result<()> {
        let arguments = PutCentreBack {
            centre: self.values.read(),
            sums: sums.read(),
            outputs: self.outputs as i32,
            steps: over.steps(),
            first_row: rows.start as i32,
            first_column: columns.start as i32,
            columns: columns.len() as i32,
            gram: block.update(),
        };
        let grid = (columns.len().div_ceil(256) as u32, rows.len() as u32, 1);
        over.context
            .load::<PutCentreBack>(over.options, 0)?
            .launch(grid, 256, arguments)
    }
}

/// Steps that are summed in `chunks`.
pub(super) fn steps_in(timeline: &Timeline, chunks: &Range<usize>) -> u64 {
    timeline.paired_in(chunks.start * CHUNK_BLOCKS..chunks.end * CHUNK_BLOCKS)
}
