//! How matrices lie in a buffer, and what sizes a product has.

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

/// Type of the operands of `Blas::products`.
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
pub struct Strided {
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
    /// Where in it they lie.
    pub at: Strided,
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
