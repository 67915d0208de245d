//! The lower triangle of A·Aᵀ, in f32.
//!
//! A is packed once into panels as high as three SIMD registers, step after step. A tile of the
//! product is such a panel times a few columns of another (or of itself), kept in registers over a
//! stretch of steps, so that nearly every instruction is a multiply-add. Tiles are independent: any
//! number of threads shares them, and a tile's bits do not depend on which of them had it.
//!
//! Own code, because the library kernels that are as fast bring two megabytes of assembly for
//! types and shapes that are not needed here, and the small ones reach 60 % of this one's rate
//! (`benches/record/gram.md`).

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// SIMD registers that hold one step of a panel.
const REGISTERS: usize = 3;

/// Steps that are packed at a time: what they touch stays in the first cache.
const PACKED_STEPS: usize = 16;

/// Steps of one sum in registers: sums of sums keep digits that one long f32 sum would round away.
const SUM_STEPS: usize = 128;

/// Room for A·Aᵀ of one number of rows, reused from block to block.
#[derive(Debug)]
pub struct LowerProduct {
    arch: Arch,
    rows: usize,
    /// The first columns of the product, which are computed.
    columns: usize,
    shape: TileShape,
    /// For each panel: (step, row); rows beyond A's last are zero.
    packed: Vec<f32>,
    /// (panel, first column) of each tile, panel by panel.
    places: Vec<(usize, usize)>,
    /// For each tile: (column, row).
    tiles: Vec<f32>,
}

/// Rows of a panel and columns of a tile: what the processor's registers hold.
#[derive(Debug, Clone, Copy)]
struct TileShape {
    rows: usize,
    columns: usize,
}

impl TileShape {
    fn len(self) -> usize {
        self.rows * self.columns
    }
}

impl LowerProduct {
    /// Room for the product of `rows` rows, with the widest registers there are.
    pub fn new(rows: usize) -> Self {
        Self::with_arch((rows, rows), Arch::new())
    }

    /// Room for the first `columns` columns of that product.
    pub fn of_first_columns(rows: usize, columns: usize) -> Self {
        Self::with_arch((rows, columns), Arch::new())
    }

    fn with_arch((rows, most): (usize, usize), arch: Arch) -> Self {
        let shape = arch.dispatch(TileOfRegisters);
        let places: Vec<_> = (0..rows.div_ceil(shape.rows))
            .flat_map(|panel| {
                let columns = ((panel + 1) * shape.rows).min(rows).min(most);
                (0..columns)
                    .step_by(shape.columns)
                    .map(move |first| (panel, first))
            })
            .collect();
        Self {
            arch,
            rows,
            columns: most,
            shape,
            packed: Vec::new(),
            tiles: vec![0.0; places.len() * shape.len()],
            places,
        }
    }

    /// Multiplies `a`, row-major (rows, steps), on rayon's current pool. The first block, and any
    /// longer one, allocates another `a`.
    pub fn multiply(&mut self, a: &[f32]) {
        self.multiply_about(a, &[]);
    }

    /// [`multiply`](Self::multiply) of `a` less a constant for each row; no `centre` counts as zeros.
    pub fn multiply_about(&mut self, a: &[f32], centre: &[f32]) {
        let (rows, columns) = (self.shape.rows, self.shape.columns);
        let steps = a.len() / self.rows.max(1);
        if steps == 0 {
            self.tiles.fill(0.0);
            return;
        }
        let panel_len = rows * steps;
        self.packed
            .resize(self.rows.div_ceil(rows) * panel_len, 0.0);
        (self.packed.par_chunks_mut(panel_len))
            .zip(a.par_chunks(panel_len))
            .enumerate()
            .for_each(|(i, (panel, a))| {
                pack(a, steps, rows, centre.get(i * rows..).unwrap_or(&[]), panel);
            });
        let panel = |i: usize| &self.packed[i * panel_len..][..panel_len];
        (self.tiles.par_chunks_mut(self.shape.len()))
            .zip(&self.places)
            .for_each(|(tile, &(i, first))| {
                self.arch.dispatch(Tile {
                    left: panel(i),
                    right: panel(first / rows),
                    first: first % rows,
                    shape: TileShape { rows, columns },
                    tile,
                });
            });
    }

    /// Adds the product, or its first columns, to the lower triangle of `sums`, (rows, rows).
    pub fn add_to(&self, sums: &mut [f64]) {
        let TileShape { rows, columns } = self.shape;
        let sums = sums.par_chunks_mut(self.rows.max(1)).enumerate();
        sums.for_each(|(i, sums)| {
            let before = self.places.partition_point(|(panel, _)| *panel < i / rows);
            let tiles = self.tiles.chunks_exact(self.shape.len()).skip(before);
            let length = (i + 1).min(self.columns);
            for (sums, tile) in sums[..length].chunks_mut(columns).zip(tiles) {
                for (sum, column) in sums.iter_mut().zip(tile.chunks_exact(rows)) {
                    *sum += f64::from(column[i % rows]);
                }
            }
        });
    }
}

/// A response below this counts as zero: products of two above it are no denormal numbers, which take many
/// times as long. Channels that have been silent for a while are full of smaller ones.
const TINY: f32 = 1.0 / (1u64 << 63) as f32;

/// Writes `a`, (at most `rows`, steps), less each row's `centre`, as (step, row).
fn pack(a: &[f32], steps: usize, rows: usize, centre: &[f32], panel: &mut [f32]) {
    for (i, panel) in panel.chunks_mut(PACKED_STEPS * rows).enumerate() {
        for (r, values) in a.chunks_exact(steps).enumerate() {
            let values = &values[i * PACKED_STEPS..];
            let centre = centre.get(r).copied().unwrap_or(0.0);
            for (packed, value) in panel.chunks_exact_mut(rows).zip(values) {
                let value = value - centre;
                packed[r] = if value.abs() < TINY { 0.0 } else { value };
            }
        }
    }
}

struct TileOfRegisters;

impl WithSimd for TileOfRegisters {
    type Output = TileShape;

    /// The tile, a step of its panel and one number fill the registers; its columns divide the
    /// panel's rows, so that they lie in one panel.
    fn with_simd<S: Simd>(self, _: S) -> TileShape {
        let rows = REGISTERS * S::F32_LANES;
        let columns = match S::REGISTER_COUNT {
            32.. if rows.is_multiple_of(8) => 8,
            _ if rows.is_multiple_of(4) => 4,
            _ => REGISTERS,
        };
        TileShape { rows, columns }
    }
}

/// One tile to be multiplied.
struct Tile<'a> {
    left: &'a [f32],
    /// The panel that has the tile's columns as rows.
    right: &'a [f32],
    /// The first of them in `right`.
    first: usize,
    shape: TileShape,
    tile: &'a mut [f32],
}

impl WithSimd for Tile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.shape.columns {
            8 => self.multiply::<S, 8>(simd),
            4 => self.multiply::<S, 4>(simd),
            _ => self.multiply::<S, REGISTERS>(simd),
        }
    }
}

impl Tile<'_> {
    #[inline(always)]
    fn multiply<S: Simd, const COLUMNS: usize>(self, simd: S) {
        let (left, _) = S::as_simd_f32s(self.left);
        let (left, _) = left.as_chunks::<REGISTERS>();
        let (tile, _) = S::as_mut_simd_f32s(self.tile);
        let (tile, _) = tile.as_chunks_mut::<REGISTERS>();
        // Arrays of known length throughout: a loop that is not unrolled keeps the sums in memory.
        let Some(tile) = tile.first_chunk_mut::<COLUMNS>() else {
            return;
        };
        *tile = [[simd.splat_f32s(0.0); REGISTERS]; COLUMNS];
        let stretches = self.right.chunks(SUM_STEPS * self.shape.rows);
        for (left, right) in left.chunks(SUM_STEPS).zip(stretches) {
            let mut sums = [[simd.splat_f32s(0.0); REGISTERS]; COLUMNS];
            for (left, right) in left.iter().zip(right.chunks_exact(self.shape.rows)) {
                let Some(right) = right[self.first..].first_chunk::<COLUMNS>() else {
                    break;
                };
                for (sums, &right) in sums.iter_mut().zip(right) {
                    let right = simd.splat_f32s(right);
                    for (sum, &left) in sums.iter_mut().zip(left) {
                        *sum = simd.mul_add_f32s(left, right, *sum);
                    }
                }
            }
            for (totals, sums) in tile.iter_mut().zip(sums) {
                for (total, sum) in totals.iter_mut().zip(sums) {
                    *total = simd.add_f32s(*total, sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// This machine's registers and every narrower kind it has.
    fn archs() -> Vec<Arch> {
        #[allow(unused_mut)]
        let mut archs = vec![Arch::new(), Arch::Scalar];
        #[cfg(target_arch = "x86_64")]
        archs.extend(pulp::x86::V3::try_new().map(Arch::V3));
        archs
    }

    #[test]
    fn what_is_tiny_is_zero_and_its_neighbours_are_not() {
        let a = [TINY, TINY / 2.0, -TINY, f32::MIN_POSITIVE, 1.0, -0.25];
        for arch in archs() {
            let mut product = LowerProduct::with_arch((6, 6), arch);
            product.multiply(&a);
            let mut sums = vec![0.0; 36];
            product.add_to(&mut sums);
            let kept = a.map(|v| if v.abs() < TINY { 0.0 } else { f64::from(v) });
            for i in 0..6 {
                for j in 0..=i {
                    let got = sums[6 * i + j];
                    assert_eq!(got, kept[i] * kept[j], "{i}, {j}");
                    assert!(got == 0.0 || got.abs() >= f64::from(f32::MIN_POSITIVE));
                }
            }
        }
    }

    #[test]
    fn equals_plain_loops_for_every_shape_and_kind_of_register() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for arch in archs() {
            let squares = [1, 2, 3, 4, 11, 12, 13, 24, 47, 48, 49, 100].map(|rows| (rows, rows));
            for (rows, columns) in squares.into_iter().chain([(13, 5), (100, 49), (149, 50)]) {
                let mut product = LowerProduct::with_arch((rows, columns), arch);
                // Longer and shorter again: what an earlier block left must not show.
                for steps in [1, 2, 16, 33, 150, 15, 0, 7] {
                    let a: Vec<f32> = (0..rows * steps).map(|_| rng.random()).collect();
                    let mut sums = vec![0.5; rows * rows];
                    product.multiply(&a);
                    product.add_to(&mut sums);
                    let row = |i: usize| &a[i * steps..(i + 1) * steps];
                    for i in 0..rows {
                        for j in 0..rows {
                            let dot = |(x, y): (&f32, &f32)| f64::from(*x) * f64::from(*y);
                            let expected: f64 = match j <= i && j < columns {
                                true => row(i).iter().zip(row(j)).map(dot).sum(),
                                false => 0.0,
                            };
                            let error = (sums[i * rows + j] - 0.5 - expected).abs();
                            assert!(
                                error <= 2e-6 * (1.0 + expected),
                                "{arch:?}, {rows} rows, {steps} steps, ({i}, {j}): {error:e}"
                            );
                        }
                    }
                }
            }
        }
    }
}
