//! `solve.cu`.

use crate::arguments::{In, InOut, MaybeOut, Out, kernel, n};

kernel! {
    /// a = Γ − Σa Σaᵀ / steps + ridge on the diagonal; in f32 too, where that is wanted.
    SOLVE, centre_gram:
    struct CentreGram<'a> {
        gram: In<'a, f64>,
        sums: In<'a, f64>,
        n: i32,
        outputs: i32,
        steps: f64,
        ridge: f64,
        a: Out<'a, f64>,
        rounded: MaybeOut<'a, f32>,
    }
    needs |own, blocks| {
        gram: n(own.n) * n(own.n),
        sums: n(own.n) * (n(own.outputs) + 1),
        a: n(own.n) * n(own.n),
        rounded: n(own.n) * n(own.n),
    }
}

kernel! {
    /// b = Υ − Σa · x̄, column-major; likewise.
    SOLVE, centre_upsilon:
    struct CentreUpsilon<'a> {
        sums: In<'a, f64>,
        mean: In<'a, f64>,
        n: i32,
        outputs: i32,
        b: Out<'a, f64>,
        rounded: MaybeOut<'a, f32>,
    }
    needs |own, blocks| {
        sums: n(own.n) * (n(own.outputs) + 1),
        mean: n(own.outputs),
        b: n(own.n) * n(own.outputs),
        rounded: n(own.n) * n(own.outputs),
    }
}

kernel! {
    /// x += correction; x = correction the first time.
    SOLVE, correct:
    struct Correct<'a> {
        x: InOut<'a, f64>,
        correction: In<'a, f32>,
        count: i32,
        first: i32,
    }
    needs |own, blocks| {
        x: n(own.count),
        correction: n(own.count),
    }
}

kernel! {
    /// b − product, rounded to f32.
    SOLVE, residual:
    struct Residual<'a> {
        b: In<'a, f64>,
        product: In<'a, f64>,
        count: i32,
        rounded: Out<'a, f32>,
    }
    needs |own, blocks| {
        b: n(own.count),
        product: n(own.count),
        rounded: n(own.count),
    }
}

kernel! {
    /// How large x and its correction are, and how small the factor's pivots.
    SOLVE, measure_f32:
    struct MeasureF32<'a> {
        x: In<'a, f64>,
        correction: In<'a, f32>,
        count: i32,
        a: In<'a, f64>,
        factor: In<'a, f32>,
        n: i32,
        norms: Out<'a, f64>,
    }
    needs |own, blocks| {
        x: n(own.count),
        correction: n(own.count),
        a: n(own.n) * n(own.n),
        factor: n(own.n) * n(own.n),
        norms: 3,
    }
}

kernel! {
    /// As [`MeasureF32`] for a factor in f64.
    SOLVE, measure_f64:
    struct MeasureF64<'a> {
        x: In<'a, f64>,
        correction: In<'a, f64>,
        count: i32,
        a: In<'a, f64>,
        factor: In<'a, f64>,
        n: i32,
        norms: Out<'a, f64>,
    }
    needs |own, blocks| {
        x: n(own.count),
        correction: n(own.count),
        a: n(own.n) * n(own.n),
        factor: n(own.n) * n(own.n),
        norms: 3,
    }
}

kernel! {
    /// Copies one triangle onto the other.
    SOLVE, mirror_lower:
    struct MirrorLower<'a> {
        a: InOut<'a, f64>,
        n: i32,
    }
    needs |own, blocks| {
        a: n(own.n) * n(own.n),
    }
}
