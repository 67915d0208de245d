//! Fourier transforms of real signals: `realfft`'s, planned here and nowhere else.
//!
//! `realfft` and `rustfft` are generic over the kind of number, so every crate that plans a transform
//! compiles all of both again: about a minute of a core. What is here is not generic, and what a plan
//! gives back is a trait object: other crates only call it.
//!
//! ```
//! use betz_fourier::Real;
//!
//! let forward = f64::forward(8);
//! let mut signal = [1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0];
//! let mut spectrum = forward.make_output_vec(); // bins 0 to 4
//! forward.process(&mut signal, &mut spectrum).expect("lengths are the plan's own");
//! assert!((spectrum[2].re - 4.0).abs() < 1e-12 && spectrum[1].norm() < 1e-12);
//! ```

use std::sync::Arc;

use realfft::RealFftPlanner;

pub use realfft::num_complex::{Complex, Complex64};
pub use realfft::{ComplexToReal, FftError, FftNum, RealToComplex};

/// A kind of number with transforms: f32 and f64.
pub trait Real: FftNum {
    /// Plans the transform of `length` reals to ⌊length / 2⌋ + 1 complex bins, unscaled.
    fn forward(length: usize) -> Arc<dyn RealToComplex<Self>>;

    /// Plans the transform back to `length` reals, unscaled: there and back multiplies by `length`.
    fn inverse(length: usize) -> Arc<dyn ComplexToReal<Self>>;
}

impl Real for f32 {
    fn forward(length: usize) -> Arc<dyn RealToComplex<Self>> {
        RealFftPlanner::new().plan_fft_forward(length)
    }

    fn inverse(length: usize) -> Arc<dyn ComplexToReal<Self>> {
        RealFftPlanner::new().plan_fft_inverse(length)
    }
}

impl Real for f64 {
    fn forward(length: usize) -> Arc<dyn RealToComplex<Self>> {
        RealFftPlanner::new().plan_fft_forward(length)
    }

    fn inverse(length: usize) -> Arc<dyn ComplexToReal<Self>> {
        RealFftPlanner::new().plan_fft_inverse(length)
    }
}
