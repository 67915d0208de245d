//! The two kinds of number that a response comes in.

/// f32 or f64. States and sums behind a response are f64 either way.
pub trait Sample: Copy + Default + Send + Sync {
    /// The nearest value.
    fn rounded(value: f64) -> Self;
}

impl Sample for f32 {
    #[inline(always)]
    fn rounded(value: f64) -> Self {
        value as f32
    }
}

impl Sample for f64 {
    #[inline(always)]
    fn rounded(value: f64) -> Self {
        value
    }
}
