//! The kernel of rank measures: whole numbers of a tile of pairs, summed without rounding.
//!
//! A tile is [`HEIGHT`] nodes times [`RankArch::width`] nodes. Products of ranks are summed from zero in every window.
//! Signs of pairs of samples are bits: a window adds those of the pairs that enter and takes away those that leave, 32
//! with one exclusive or and one count of bits.
#![allow(unsafe_code)] // the sums must stay in registers, which takes vector intrinsics

mod portable;
mod walk;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::tile::Arch;

/// Nodes that lie side by side in a panel.
pub(crate) const LANES: usize = 64;
/// Nodes down a tile.
pub(crate) const HEIGHT: usize = 12;
/// Nodes down a part of a tile, whose sums are in registers together; divides [`HEIGHT`] and [`LANES`].
pub(crate) const ROWS: usize = 4;
/// Parts of a tile.
pub(crate) const PARTS: usize = HEIGHT / ROWS;

/// Kinds of vector registers that the kernel is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RankArch {
    /// AVX-512 with VNNI and VPOPCNTDQ.
    Avx512,
    Avx2,
    Portable,
}

impl RankArch {
    /// The kind that goes with `arch`: AVX-512 without instructions for whole numbers falls back to AVX2.
    pub(crate) fn of(arch: Arch) -> Self {
        match arch {
            #[cfg(target_arch = "x86_64")]
            Arch::Avx512
                if is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vnni")
                    && is_x86_feature_detected!("avx512vpopcntdq") =>
            {
                Self::Avx512
            }
            #[cfg(target_arch = "x86_64")]
            Arch::Avx512 | Arch::Avx2 => Self::Avx2,
            _ => Self::Portable,
        }
    }

    /// Nodes across a tile; divides [`LANES`].
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Avx512 => 64,
            Self::Avx2 => 16,
            Self::Portable => 8,
        }
    }
}

/// Words of one part's rows, or of a tile's columns: (step, lane), each step [`LANES`] words after the one before, from the
/// first of the lanes on.
pub(crate) type Words<'a> = &'a [u32];

/// A tile's words, and what they are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TileWords<'a> {
    /// Two ranks per word, 16 bits each. So many steps of products fit into 32 bits.
    Ranks {
        rows: [Words<'a>; PARTS],
        columns: Words<'a>,
        fit: usize,
    },
    /// 32 signs per word, 1 where the later sample is larger, of nodes without equal samples. `all` pairs of samples make
    /// a window.
    Signs {
        rows: [Words<'a>; PARTS],
        columns: Words<'a>,
        all: i32,
    },
    /// The same, and words that have 1 where the two samples differ.
    TiedSigns {
        rows: [Words<'a>; PARTS],
        columns: Words<'a>,
        row_masks: [Words<'a>; PARTS],
        column_masks: Words<'a>,
    },
}

/// The steps of a tile's windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankWalk<'a> {
    pub(crate) words: TileWords<'a>,
    /// Steps of the first window.
    pub(crate) first: usize,
    /// Steps of each further one: so many that enter, then as many that leave.
    pub(crate) further: usize,
    /// Every window starts from zero and has `first` steps.
    pub(crate) direct: bool,
    pub(crate) windows: usize,
}

impl RankWalk<'_> {
    /// Steps of all windows.
    pub(crate) fn steps(&self) -> usize {
        steps(self.first, self.further, self.direct, self.windows)
    }
}

/// Steps of the words of `windows` windows.
pub(crate) fn steps(first: usize, further: usize, direct: bool, windows: usize) -> usize {
    if direct {
        first * windows
    } else {
        first + 2 * further * (windows - 1)
    }
}

/// Which pairs are wanted: those whose sum × the columns' scale reaches the rows' limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankFilter<'a> {
    /// (window, row): +∞ where the row is undefined.
    pub(crate) limits: &'a [f32],
    /// (window, lane), each window [`LANES`] after the one before, from the first of the lanes on: 0 where undefined.
    pub(crate) scales: &'a [f32],
    /// Compare magnitudes; otherwise values.
    pub(crate) magnitude: bool,
}

/// A pair of a tile whose sum reaches its limit, to within rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankHit {
    pub(crate) window: u32,
    /// row × width + column
    pub(crate) place: u32,
    pub(crate) sum: i64,
}

fn check(arch: RankArch, walk: &RankWalk<'_>, filter: &RankFilter<'_>) {
    let width = arch.width();
    let words = |lanes: usize| (walk.steps() - 1) * LANES + lanes;
    let long = |rows: &[Words<'_>], columns: Words<'_>| {
        rows.iter().all(|rows| rows.len() >= words(ROWS)) && columns.len() >= words(width)
    };
    assert!(walk.windows > 0 && walk.first > 0);
    assert!(filter.limits.len() >= walk.windows * HEIGHT);
    assert!(filter.scales.len() >= (walk.windows - 1) * LANES + width);
    match &walk.words {
        TileWords::Ranks { rows, columns, fit } => {
            assert!(long(rows, columns) && *fit > 0 && walk.direct);
        }
        TileWords::Signs { rows, columns, .. } => assert!(long(rows, columns)),
        TileWords::TiedSigns {
            rows,
            columns,
            row_masks,
            column_masks,
        } => assert!(long(rows, columns) && long(row_masks, column_masks)),
    }
}

/// Walks one tile and puts the wanted pairs behind `hits`: by window, row and column.
///
/// # Safety
/// The processor has `arch` ([`RankArch::of`]).
pub(crate) unsafe fn hits(
    arch: RankArch,
    walk: &RankWalk<'_>,
    filter: &RankFilter<'_>,
    hits: &mut Vec<RankHit>,
) {
    // Panics (a bug of this crate) unless the slices are as long as the kernel reads.
    check(arch, walk, filter);
    // SAFETY: `check` has compared every length; the caller vouches for the processor.
    unsafe {
        match arch {
            #[cfg(target_arch = "x86_64")]
            RankArch::Avx512 => x86::avx512::hits(walk, filter, hits),
            #[cfg(target_arch = "x86_64")]
            RankArch::Avx2 => x86::avx2::hits(walk, filter, hits),
            _ => portable::hits(walk, filter, hits),
        }
    }
}
