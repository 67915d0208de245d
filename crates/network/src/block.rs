//! What preparing a block of nodes for the kernel needs to know, and where it puts the result.

use crate::spec::Taper;
use crate::tile::Arch;
use crate::window::Chunk;

/// Nodes prepared together; a multiple of the height and width of every tile.
pub(crate) const BLOCK: usize = 96;

/// Bound of the error of a correlation from f32 sums, with room to spare: drift over a chunk's steps is
/// below 1e-5 at worst (2⁻²⁵·√8192 times the 4 that the flags allow), 4e-6 was seen.
const MARGIN: f64 = 3e-5;

/// What to do differently, for tests that must fail when a rule is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Start from zero after a fall of the sum of squares.
    pub(crate) anchors: bool,
    /// Decide pairs close to the threshold in f64.
    pub(crate) recheck: bool,
    /// Decide everything up to the threshold in f64, however far below; otherwise only what is close to it.
    pub(crate) one_sided: bool,
    /// How close is close, and how far below the threshold pairs are looked at.
    pub(crate) margin: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            anchors: true,
            recheck: true,
            one_sided: true,
            margin: MARGIN,
        }
    }
}

/// How panels are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making {
    pub(crate) arch: Arch,
    pub(crate) rules: Rules,
    /// Rows get the opposite sign.
    pub(crate) negative: bool,
    /// Keep means and sums of squares.
    pub(crate) moments: bool,
    pub(crate) of: Of,
}

/// What is correlated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Samples, all of the same weight.
    Samples,
    /// Their ranks within each window.
    Ranks,
    /// Samples weighted by their place in the window.
    Tapered(Taper),
}

impl Of {
    /// Windows share nothing that could slide: each is summed from zero.
    pub(crate) fn anew(self) -> bool {
        self != Self::Samples
    }
}

/// True when a walk from zero in every window is no more work than sliding.
pub(crate) fn direct(chunk: &Chunk) -> bool {
    chunk.windows == 1 || chunk.window.step >= chunk.window.length.div_ceil(2)
}

/// One block's share of [`Panels`](crate::panel::Panels) to write.
pub(crate) struct BlockOut<'a> {
    pub(crate) rows: &'a mut [f32],
    pub(crate) columns: &'a mut [f32],
    pub(crate) row_scale: &'a mut [f32],
    pub(crate) column_scale: &'a mut [f32],
    pub(crate) row_max: &'a mut [f32],
    pub(crate) row_anchor: &'a mut [u8],
    pub(crate) column_anchor: &'a mut [u8],
    pub(crate) scale: &'a mut [f64],
    pub(crate) fill: &'a mut [f64],
}
