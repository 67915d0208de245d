//! The kernel: a tile of pairs walks through all windows of a chunk with its sums in registers.
//!
//! A tile is [`Arch::rows`] nodes times [`Arch::columns`] nodes. It starts with the sums of one
//! window and then takes a few multiply-adds a window (see [`crate::panel`] for which); after each it
//! asks with one comparison whether any pair can be an edge. Only then are single pairs looked at,
//! and only those that reach the threshold are stored. No matrix exists at any time.
#![allow(unsafe_code)] // the sums must stay in registers, which takes vector intrinsics

mod portable;
mod walk;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Largest number of pairs in a tile; places in one fit into [`PLACE_BITS`] bits.
pub(crate) const MAX_PAIRS: usize = 384;
/// Bits of a [`Hits`] key that say which pair of the tile; the others say which window.
pub(crate) const PLACE_BITS: u32 = 9;

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

    /// Pair-windows a second of one thread without edges, of the order of: for plans.
    pub(crate) fn rate(self) -> f64 {
        match self {
            Self::Avx512 => 1.2e10,
            Self::Avx2 => 5e9,
            Self::Portable => 1e9,
        }
    }
}

/// What one tile walks through. Panels are step-major; see [`crate::panel`].
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

/// Which pairs of a tile are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filter<'a> {
    /// (windows, rows) and (windows, columns): a pair's value is sum × row scale × column scale.
    pub(crate) row_scale: &'a [f32],
    pub(crate) column_scale: &'a [f32],
    /// For each window the largest row scale.
    pub(crate) row_max: &'a [f32],
    /// For each window the least value that is wanted.
    pub(crate) least: &'a [f32],
    /// Compare magnitudes; otherwise values.
    pub(crate) magnitude: bool,
}

/// Centred samples of a tile's rows and columns in one window, (steps, rows) and (steps, columns).
pub(crate) type Rebuild<'a> = &'a mut dyn FnMut(usize) -> (*const f32, *const f32);

/// Pairs of tiles that were wanted, tile after tile.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    /// (window << [`PLACE_BITS`]) + row × columns + column, by window; for one window and row the
    /// columns ascend.
    pub(crate) keys: Vec<u32>,
    pub(crate) values: Vec<f32>,
    pub(crate) len: usize,
}

impl Hits {
    /// Room for every pair of every window of one more tile, and for one that is written but not wanted.
    fn reserve(&mut self, windows: usize) {
        let len = self.len + windows * MAX_PAIRS + 1;
        if self.keys.len() < len {
            let len = len.max(self.len.saturating_mul(2));
            self.keys.resize(len, 0);
            self.values.resize(len, 0.0);
        }
    }
}

/// Panics (a bug of this crate) unless the slices are as long as the kernel will read.
fn check(arch: Arch, walk: &Walk<'_>) {
    let steps = walk.first + walk.further * (walk.windows - 1);
    assert!(walk.windows > 0 && walk.windows < 1 << (32 - PLACE_BITS));
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
    assert!(filter.row_scale.len() >= walk.windows * arch.rows());
    assert!(filter.column_scale.len() >= walk.windows * arch.columns());
    assert!(filter.row_max.len() >= walk.windows && filter.least.len() >= walk.windows);
    hits.reserve(walk.windows);
    hits.len = dispatch!(arch, edges, walk, filter, rebuild, hits);
}

/// Walks one tile and writes the sums of every pair in every window to `sums`, (window, row, column).
///
/// # Safety
/// As for [`edges`].
pub(crate) unsafe fn sums(arch: Arch, walk: &Walk<'_>, rebuild: Rebuild<'_>, sums: &mut [f32]) {
    check(arch, walk);
    assert!(sums.len() >= walk.windows * arch.rows() * arch.columns());
    dispatch!(arch, sums, walk, rebuild, sums);
}
