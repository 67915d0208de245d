//! Options for preparing a block of nodes for the kernel, and the places for its result.

use crate::spec::Taper;
use crate::tile::Arch;
use crate::window::Chunk;

/// Nodes prepared together; a multiple of the height and width of every tile.
pub(crate) const BLOCK: usize = 96;

/// Bound of the error of a correlation from f32 sums, with room to spare, however many steps they take.
const MARGIN: f64 = 3e-5;

/// No margin is less: what is rounded before it is summed counts too.
const LEAST_MARGIN: f64 = 1e-5;

/// Rounding of a sum walks at random: after n steps an error of 2⁻²⁵·√n·F, where F is by how much the sums
/// of squares have fallen since the walk began. A margin is three times that.
const UNIT: f64 = 1.0 / (1_u64 << 25) as f64;

/// The fall that margins allow for after all of a chunk's steps; fewer steps allow for more of it.
const FALL: f64 = 8.0;

/// No larger fall is let pass, after however few steps.
const LARGEST_FALL: f64 = 64.0;

/// Steps of a walk that weigh in its rounding, `windows` after it began: a whole window is summed in parts.
fn weighty(chunk: &Chunk, windows: usize) -> f64 {
    let (w, s) = (chunk.window.length, chunk.window.step);
    (w.min(2048) + 2 * s * windows) as f64
}

/// The margin of correlations of samples from sums that slide through all of `chunk`.
pub(crate) fn margin(chunk: &Chunk) -> f64 {
    let steps = weighty(chunk, chunk.windows - 1);
    (3.0 * UNIT * FALL * steps.sqrt()).clamp(LEAST_MARGIN, MARGIN)
}

/// For each number of windows since a walk began, the fall of the sum of squares that [`margin`] allows.
pub(crate) fn falls(chunk: &Chunk) -> Vec<f64> {
    let drift = margin(chunk) / 3.0;
    (0..chunk.windows)
        .map(|windows| (drift / (UNIT * weighty(chunk, windows).sqrt())).min(LARGEST_FALL))
        .collect()
}

/// Rules that keep edges exact; tests drop one and must then fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Start from zero after a fall of the sum of squares.
    pub(crate) anchors: bool,
    /// Decide pairs close to the threshold in f64.
    pub(crate) recheck: bool,
    /// Decide everything up to the threshold in f64, however far below; otherwise only what is close to it.
    pub(crate) one_sided: bool,
    /// Distance from the threshold within which f64 decides; [`margin`] gives it if unset.
    pub(crate) margin: Option<f64>,
}

impl Rules {
    pub(crate) fn margin(&self) -> f64 {
        self.margin.unwrap_or(MARGIN)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            anchors: true,
            recheck: true,
            one_sided: true,
            margin: None,
        }
    }
}

/// Options of panels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PanelOptions {
    pub(crate) arch: Arch,
    pub(crate) rules: Rules,
    /// Rows get the opposite sign.
    pub(crate) negative: bool,
    /// Keep means and sums of squares.
    pub(crate) moments: bool,
    pub(crate) of: SampleTransform,
}

/// Transformation of the samples before they are correlated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleTransform {
    /// Samples, all of the same weight.
    Samples,
    /// Samples weighted by their place in the window.
    Tapered(Taper),
}

impl SampleTransform {
    /// Windows share nothing that could slide: each is summed from zero.
    pub(crate) fn starts_from_zero(self) -> bool {
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
    pub(crate) scales: &'a mut [f32],
    pub(crate) row_least: &'a mut [f32],
    pub(crate) row_norm: &'a mut [f32],
    pub(crate) column_least: &'a mut [f32],
    pub(crate) column_norm: &'a mut [f32],
    pub(crate) row_anchor: &'a mut [u8],
    pub(crate) column_anchor: &'a mut [u8],
    pub(crate) scale: &'a mut [f64],
    pub(crate) fill: &'a mut [f64],
}
