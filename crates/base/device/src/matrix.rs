//! Layout of matrices in a buffer; size and precision of a product.

/// Sizes of a product: m × k times k × n makes m × n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductShape {
    /// Rows of the first factor and of the product.
    pub m: usize,
    /// Columns of the second factor and of the product.
    pub n: usize,
    /// Terms of every sum.
    pub k: usize,
}

/// The second factor of a product, k × n, as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondFactor<B> {
    /// k × n.
    Plain(B),
    /// n × k: its transpose is multiplied.
    Transposed(B),
}

/// Precision with which a device multiplies matrices of f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Full f32: factors and sums.
    #[default]
    F32,
    /// Factors rounded to TF32's 11 bits, sums in f32: several times faster where a device has it.
    Tf32,
}

impl Precision {
    /// `f32` or `tf32`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
        }
    }
}

/// Type of the operands of `Context::products`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// bf16: 8 bits of mantissa.
    Bf16,
    /// f32, rounded to TF32 when multiplied.
    Tf32,
}

/// Row-major matrices in one buffer, counted in elements: the first from `offset` on, rows `stride`
/// values apart, matrices `batch_stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StridedMatrices {
    /// First element of the first matrix.
    pub offset: usize,
    /// From one row to the next.
    pub stride: usize,
    /// From one matrix to the next.
    pub batch_stride: usize,
}

/// Matrices of a product in a buffer on the device.
#[derive(Clone, Copy, Debug)]
pub struct Matrices<B> {
    /// The buffer, borrowed as the product wants it.
    pub buffer: B,
    /// Place of the matrices in it.
    pub at: StridedMatrices,
}

/// Products of one size, side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Type of the factors' elements.
    pub element: Element,
    /// Number of products.
    pub count: usize,
    /// The size of each.
    pub shape: ProductShape,
    /// Factor of a product.
    pub alpha: f32,
    /// Factor of the target before a product is added: 0 to overwrite it, 1 to add.
    pub beta: f32,
}

/// Real transforms of many blocks of one length, in f32.
///
/// Block b of the signal begins b × `hop` values behind the first. Its spectrum has `length` / 2 + 1 complex numbers, as
/// pairs of values, one spectrum behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransformShape {
    /// Values of a block.
    pub length: usize,
    /// Values from the first of a block to the first of the next.
    pub hop: usize,
    /// Number of blocks.
    pub count: usize,
}

impl TransformShape {
    /// Values of one block's spectrum.
    pub const fn spectrum(&self) -> usize {
        2 * (self.length / 2 + 1)
    }
}
