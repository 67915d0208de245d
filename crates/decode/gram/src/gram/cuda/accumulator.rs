//! Accumulates one block of Γ: products on the tensor cores, sums in f64.
//!
//! A centred response (`centre`) a = h + l + ε is kept as two bf16, h = bf16(a) and l = bf16(a − h). Then
//! a aᵀ ≈ h hᵀ + l hᵀ + h lᵀ + l lᵀ; products with ε, 2⁻¹⁷ of the result and of either sign, average
//! out. h hᵀ is summed over few steps at a time (the tensor cores round their sums toward zero) and
//! added up in f64; the others, small, stay in f32. Of a block on the diagonal only panels of one
//! triangle are computed. In TF32 there is one product.

use super::plan::{CHUNK_STEPS, RoundPlan, panel_rows, pieces};
use betz_base::error::Result;
use betz_device::cuda::{Buffer, Context};
use betz_device::{Batch, Element, Matrices, Precision, ProductShape, StridedMatrices};
use betz_kernels::gram::{AddProducts, FinishGram};

/// Number of chunks that are multiplied in one sum on the tensor cores. Their rounding toward zero costs 1 to 2·10⁻⁹ of
/// Γ_ii per step of the sum, because operands are centred (benches/record/gpu.md). With two chunks, weights are more
/// exact than those of the CPU's f32 sums.
pub(super) const fn product_chunks(precision: Precision) -> usize {
    match precision {
        Precision::F32 => 2,
        // Rounding of the factors costs more than this.
        Precision::Tf32 => 8,
    }
}

/// Responses of a round: rows × `stride` steps.
pub(super) struct OperandBuffer {
    /// Split: all h, then all l. Whole: f32.
    pub(super) bits: Buffer<u16>,
    pub(super) rows: usize,
    pub(super) stride: usize,
}

impl OperandBuffer {
    pub(super) fn new(context: &Context, rows: usize, stride: usize) -> Result<Self> {
        Ok(Self {
            bits: context.alloc(2 * rows * stride)?,
            rows,
            stride,
        })
    }

    /// Rows from `row` on, from chunk `chunk` of the round on, `length` chunks a matrix.
    fn high(&self, row: usize, chunk: usize, length: usize) -> Matrices<&Buffer<u16>> {
        Matrices {
            buffer: &self.bits,
            at: StridedMatrices {
                offset: row * self.stride + chunk * CHUNK_STEPS,
                stride: self.stride,
                batch_stride: length * CHUNK_STEPS,
            },
        }
    }

    fn low(&self, row: usize, chunk: usize, length: usize) -> Matrices<&Buffer<u16>> {
        let mut low = self.high(row, chunk, length);
        low.at.offset += self.rows * self.stride;
        low
    }
}

/// A block of Γ and what its products are made in.
pub(super) struct Accumulator<'a> {
    context: &'a Context,
    options: Vec<String>,
    plan: RoundPlan,
    precision: Precision,
    rows: usize,
    columns: usize,
    /// On the diagonal, both operands are the same.
    diagonal: bool,
    sum: Buffer<f64>,
    products: Buffer<f32>,
    cross: Buffer<f32>,
}

impl<'a> Accumulator<'a> {
    /// An empty block of `rows` × `columns`; `columns` is `None` on the diagonal.
    pub(super) fn new(
        context: &'a Context,
        options: Vec<String>,
        plan: RoundPlan,
        precision: Precision,
        rows: usize,
        columns: Option<usize>,
    ) -> Result<Self> {
        let diagonal = columns.is_none();
        let columns = columns.unwrap_or(rows);
        let cross_parts = match precision {
            Precision::F32 => plan.cross_parts,
            Precision::Tf32 => 0,
        };
        Ok(Self {
            context,
            options,
            plan,
            precision,
            rows,
            columns,
            diagonal,
            sum: context.zeros(rows * columns)?,
            products: context.alloc(plan.parts * rows * columns)?,
            cross: context.zeros(cross_parts * rows * columns)?,
        })
    }

    /// Adds the first `chunks` chunks of a round. On the diagonal `b` is `a`.
    pub(super) fn add(
        &mut self,
        a: &OperandBuffer,
        b: &OperandBuffer,
        chunks: usize,
    ) -> Result<()> {
        let element = match self.precision {
            Precision::F32 => Element::Bf16,
            Precision::Tf32 => Element::Tf32,
        };
        if self.precision == Precision::F32 {
            self.add_crossed(a, b, chunks)?;
        }
        // Full sums, then what is left over in one shorter sum.
        let mut used = 0;
        for (first, count, length) in
            pieces(chunks, product_chunks(self.precision), self.plan.parts)
        {
            // Parts that were not yet written this round begin afresh.
            let beta = if used >= count { 1.0 } else { 0.0 };
            for (row, rows, columns) in self.panels() {
                let batch = Batch {
                    element,
                    count,
                    shape: ProductShape {
                        m: rows,
                        n: columns,
                        k: length * CHUNK_STEPS,
                    },
                    alpha: 1.0,
                    beta,
                };
                let target = Matrices {
                    buffer: &mut self.products,
                    at: part(self.rows, self.columns, row),
                };
                let (a, b) = (a.high(row, first, length), b.high(0, first, length));
                self.context.products(batch, a, b, target)?;
            }
            used = used.max(count);
        }
        let panel = if self.diagonal {
            panel_rows(self.rows) as i32
        } else {
            0
        };
        let arguments = AddProducts {
            products: self.products.read(),
            parts: used as i32,
            rows: self.rows as i32,
            columns: self.columns as i32,
            panel,
            sum: self.sum.update(),
        };
        let grid = (self.columns.div_ceil(256) as u32, self.rows as u32, 1);
        self.context
            .load::<AddProducts>(&self.options, 0)?
            .launch(grid, 256, arguments)
    }

    /// Adds the products with l. On the diagonal this is l hᵀ; its transpose is added at the end, together with the two
    /// halves of l lᵀ (of which one triangle is computed). Without l lᵀ, a copied channel would not equal its original.
    fn add_crossed(&mut self, a: &OperandBuffer, b: &OperandBuffer, chunks: usize) -> Result<()> {
        let context = self.context;
        let (rows, columns) = (self.rows, self.columns);
        let length = chunks.div_ceil(self.plan.cross_parts);
        for (first, count, length) in pieces(chunks, length, self.plan.cross_parts) {
            let shape = ProductShape {
                m: rows,
                n: columns,
                k: length * CHUNK_STEPS,
            };
            let (ah, al) = (a.high(0, first, length), a.low(0, first, length));
            let (bh, bl) = (b.high(0, first, length), b.low(0, first, length));
            let mut add = |a, b, alpha| {
                let batch = Batch {
                    element: Element::Bf16,
                    count,
                    shape,
                    alpha,
                    beta: 1.0,
                };
                let target = Matrices {
                    buffer: &mut self.cross,
                    at: part(rows, columns, 0),
                };
                context.products(batch, a, b, target)
            };
            add(al, bh, 1.0)?;
            if self.diagonal {
                add(al, bl, 0.5)?;
            } else {
                add(ah, bl, 1.0)?;
                add(al, bl, 1.0)?;
            }
        }
        Ok(())
    }

    /// Panels of h hᵀ to compute: (first row, rows, columns).
    fn panels(&self) -> Vec<(usize, usize, usize)> {
        if !self.diagonal {
            return vec![(0, self.rows, self.columns)];
        }
        let panel = panel_rows(self.rows);
        (0..self.rows)
            .step_by(panel)
            .map(|row| {
                let rows = panel.min(self.rows - row);
                (row, rows, row + rows)
            })
            .collect()
    }

    /// Returns the block: rows × columns, on the diagonal with both triangles.
    pub(super) fn finish(mut self) -> Result<Buffer<f64>> {
        let parts = match self.precision {
            Precision::F32 => self.plan.cross_parts as i32,
            Precision::Tf32 => 0,
        };
        let (rows, columns) = (self.rows as i32, self.columns as i32);
        if self.diagonal {
            let tiles = self.rows.div_ceil(32) as u32;
            let arguments = FinishGram {
                cross: self.cross.read(),
                parts,
                n: rows,
                gram: self.sum.update(),
            };
            self.context.load::<FinishGram>(&self.options, 0)?.launch(
                (tiles, tiles, 1),
                256,
                arguments,
            )?;
        } else {
            let grid = (self.columns.div_ceil(256) as u32, self.rows as u32, 1);
            let arguments = AddProducts {
                products: self.cross.read(),
                parts,
                rows,
                columns,
                panel: 0,
                sum: self.sum.update(),
            };
            self.context
                .load::<AddProducts>(&self.options, 0)?
                .launch(grid, 256, arguments)?;
        }
        Ok(self.sum)
    }
}

/// Parts of rows × columns, from row `row` on.
const fn part(rows: usize, columns: usize, row: usize) -> StridedMatrices {
    StridedMatrices {
        offset: row * columns,
        stride: columns,
        batch_stride: rows * columns,
    }
}
