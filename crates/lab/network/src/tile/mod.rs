//! The kernel: a tile of pairs walks through all windows of a chunk with its sums in registers.
//!
//! A tile is [`Arch::rows`] nodes times [`Arch::columns`] nodes. It starts with the sums of one
//! window and then takes a few multiply-adds per window (see [`crate::panel`] for which); after each it
//! asks with one comparison whether any pair can be an edge. Only then are single pairs looked at,
//! and only those that reach the threshold are stored. No matrix exists at any time.
#![allow(unsafe_code)] // the sums must stay in registers, which takes vector intrinsics

mod portable;
mod walk;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Largest number of pairs in a tile.
pub(crate) const MAX_PAIRS: usize = 384;
/// Lists of the windows of a node are padded to a multiple of this, and of [`Arch::group`].
pub(crate) const GROUP: usize = 16;

/// Kinds of vector registers the kernel is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// x86-64 with AVX-512F and AVX-512DQ: tiles of 12 × 32.
    Avx512,
    /// x86-64 with AVX2 and FMA: tiles of 6 × 16.
    Avx2,
    /// Anything: vectors of four as the compiler makes them of plain loops; tiles of 12 × 8 on 64-bit
    /// ARM (NEON), of 4 × 8 elsewhere.
    Portable,
}

impl Arch {
    /// The fastest kind this processor has.
    pub fn best() -> Self {
        Self::available().first().copied().unwrap_or(Self::Portable)
    }

    /// All kinds this processor has, the fastest first.
    pub fn available() -> Vec<Self> {
        let mut kinds = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            if avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                kinds.push(Self::Avx512);
            }
            if avx2 {
                kinds.push(Self::Avx2);
            }
        }
        kinds.push(Self::Portable);
        kinds
    }

    /// Its name, as results report it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    /// Nodes down a tile.
    pub fn rows(self) -> usize {
        match self {
            Self::Avx512 => 12,
            Self::Avx2 => 6,
            Self::Portable => portable::ROWS,
        }
    }

    /// Nodes across a tile.
    pub fn columns(self) -> usize {
        match self {
            Self::Avx512 => 32,
            Self::Avx2 => 16,
            Self::Portable => 8,
        }
    }

    /// Windows whose sums are looked at together: as many as a register holds.
    pub(crate) fn group(self) -> usize {
        match self {
            Self::Avx512 => 16,
            Self::Avx2 => 8,
            Self::Portable => 4,
        }
    }

    /// Pair-windows per second of one thread without edges, of the order of: for plans.
    pub(crate) fn rate(self) -> f64 {
        match self {
            Self::Avx512 => 1.2e10,
            Self::Avx2 => 5e9,
            Self::Portable => 1e9,
        }
    }
}

/// The inputs of one tile. Panels are step-major; see [`crate::panel`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk<'a> {
    /// (steps, rows) and (steps, columns).
    pub(crate) rows: &'a [f32],
    pub(crate) columns: &'a [f32],
    /// Steps of the first window, and of each further one.
    pub(crate) first: usize,
    pub(crate) further: usize,
    /// Every window starts from zero (its steps are those of the whole window).
    pub(crate) direct: bool,
    pub(crate) windows: usize,
    /// For each window: start it from zero with what `rebuild` hands out.
    pub(crate) row_anchor: &'a [u8],
    pub(crate) column_anchor: &'a [u8],
}

/// Which pairs of a tile are wanted: those whose value, sum × row scale × column scale, reaches a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filter<'a> {
    /// For each node of the rows, and of the columns, the scales of all windows, `stride` apart: 0 where it
    /// is undefined.
    pub(crate) row_scale: &'a [f32],
    pub(crate) column_scale: &'a [f32],
    pub(crate) stride: usize,
    /// For each group of [`Arch::group`] windows, or group and column: the inverse of the largest scale
    /// in any window, infinite where undefined, and the root of the sum of the squares of its steps
    /// into windows of the group. Of the rows the least and the largest.
    pub(crate) row_least: &'a [f32],
    pub(crate) row_norm: &'a [f32],
    pub(crate) column_least: &'a [f32],
    pub(crate) column_norm: &'a [f32],
    /// For each window the least value that is wanted, padded to a multiple of [`GROUP`]: positive, or −∞
    /// for every pair that is defined.
    pub(crate) least: &'a [f32],
    /// Of each group the least of these.
    pub(crate) least_of_group: &'a [f32],
    /// For each window, padded as well: what does not reach this is also put among the doubtful.
    pub(crate) clear: &'a [f32],
    /// Compare magnitudes; otherwise values.
    pub(crate) magnitude: bool,
    /// Give values the opposite sign, once they are compared.
    pub(crate) negative: bool,
}

/// Centred samples of a tile's rows and columns in one window, (steps, rows) and (steps, columns).
pub(crate) type Rebuild<'a> = &'a mut dyn FnMut(usize) -> (*const f32, *const f32);

/// Windows in which a pair of a tile is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// The window of the lowest bit.
    pub(crate) begin: u32,
    /// row × columns + column
    pub(crate) place: u16,
    pub(crate) windows: u16,
}

impl Run {
    /// The windows, ascending.
    #[inline(always)]
    pub(crate) fn windows(self) -> impl Iterator<Item = usize> {
        let mut left = self.windows;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            (left != 0).then(|| {
                left &= left - 1;
                self.begin as usize + bit as usize
            })
        })
    }
}

/// Pairs of tiles that were wanted, tile after tile: for one window and row of a tile the columns ascend.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    pub(crate) runs: Vec<Run>,
    /// One for each window of each run, −1 to 1.
    pub(crate) values: Vec<f32>,
    /// (which of the values, window, place) of those that do not reach [`Filter::clear`].
    pub(crate) doubtful: Vec<(usize, usize, usize)>,
    /// Values of each window.
    pub(crate) counts: Vec<u32>,
    /// A few windows' sums, before the kernel looks at single pairs.
    group: Box<walk::Group>,
}

impl Hits {
    /// Forgets everything, for tiles of `windows` windows.
    pub(crate) fn clear(&mut self, windows: usize) {
        self.runs.clear();
        self.values.clear();
        self.doubtful.clear();
        self.counts.clear();
        self.counts.resize(windows.next_multiple_of(GROUP), 0);
    }

    /// Room for every pair of every window of one more tile, and for what is written but not wanted.
    fn reserve(&mut self, windows: usize) {
        self.values.reserve(windows * MAX_PAIRS + GROUP);
    }
}

/// Panics (a bug of this crate) unless the slices are as long as the kernel will read.
fn check(arch: Arch, walk: &Walk<'_>) {
    let steps = walk.first + walk.further * (walk.windows - 1);
    assert!(walk.windows > 0 && walk.windows <= 1 << 24);
    assert!(walk.rows.len() >= steps * arch.rows());
    assert!(walk.columns.len() >= steps * arch.columns());
    assert!(walk.row_anchor.len() >= walk.windows && walk.column_anchor.len() >= walk.windows);
}

macro_rules! dispatch {
    ($arch:expr, $name:ident, $($argument:expr),*) => {
        match $arch {
            // SAFETY: `check` has compared every length the kernel reads with the slices; an `Arch` for
            // registers that this processor lacks is refused by `Arch::available` before.
            #[cfg(target_arch = "x86_64")]
            Arch::Avx512 => unsafe { x86::avx512::$name($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Arch::Avx2 => unsafe { x86::avx2::$name($($argument),*) },
            // SAFETY: as above.
            _ => unsafe { portable::$name($($argument),*) },
        }
    };
}

/// Walks one tile and stores the wanted pairs in `hits`, behind what is there.
///
/// # Safety
/// The processor has `arch` ([`Arch::available`]); the pointers that `rebuild` returns stay readable
/// for `walk.first` steps of rows and of columns until it is called again.
pub(crate) unsafe fn edges(
    arch: Arch,
    walk: &Walk<'_>,
    filter: &Filter<'_>,
    rebuild: Rebuild<'_>,
    hits: &mut Hits,
) {
    check(arch, walk);
    let padded = walk.windows.next_multiple_of(GROUP);
    assert!(filter.stride >= padded);
    assert!(filter.row_scale.len() >= filter.stride * arch.rows());
    assert!(filter.column_scale.len() >= filter.stride * arch.columns());
    let groups = walk.windows.div_ceil(arch.group());
    assert!(filter.row_least.len() >= groups && filter.row_norm.len() >= groups);
    assert!(filter.column_least.len() >= groups * arch.columns());
    assert!(filter.column_norm.len() >= groups * arch.columns());
    assert!(filter.least_of_group.len() >= groups);
    assert!(filter.least.len() >= padded && filter.clear.len() >= padded);
    assert!(hits.counts.len() >= padded);
    hits.reserve(walk.windows);
    dispatch!(arch, edges, walk, filter, rebuild, hits);
}

/// Walks one tile and writes the sums of every pair in every window to `sums`, (window, row, column).
///
/// # Safety
/// The conditions of [`edges`].
pub(crate) unsafe fn sums(arch: Arch, walk: &Walk<'_>, rebuild: Rebuild<'_>, sums: &mut [f32]) {
    check(arch, walk);
    assert!(sums.len() >= walk.windows * arch.rows() * arch.columns());
    dispatch!(arch, sums, walk, rebuild, sums);
}
