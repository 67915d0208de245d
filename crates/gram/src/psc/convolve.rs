//! Batch convolution of whole signals by FFT, for a bank of filters at once.
//!
//! Overlap-save: one forward transform a chunk, one inverse per filter and chunk. A transform at least
//! as long as signal and filter together makes one chunk of it (plain padding); the plan weighs both
//! and takes the cheaper.

use std::sync::Arc;

use betz_fourier::{Complex, ComplexToReal, FftError, Real, RealToComplex};

use super::Sample;
use betz_base::error::{Error, ErrorKind, Result};
use betz_recording::{Segment, check_segments};
use betz_runtime::psc::FilterBank;

/// Convolves signals with every filter of a bank. Plan once, run for any number of signals; shared
/// between threads, each with a [`ConvolverScratch`] of its own.
#[derive(Clone)]
pub struct Convolver<T: Sample> {
    forward: Arc<dyn RealToComplex<T>>,
    inverse: Arc<dyn ComplexToReal<T>>,
    /// Samples of the longest filter that count.
    taps: usize,
    /// Segments longer than this would miss a part of the filter that was cut for shorter ones.
    longest: usize,
    /// (filter, bins) row-major, with the transform's 1/length in it.
    spectra: Vec<Complex<T>>,
}

/// Working memory of one run at a time.
#[derive(Debug, Clone)]
pub struct ConvolverScratch<T> {
    signal: Vec<T>,
    spectrum: Vec<Complex<T>>,
    product: Vec<Complex<T>>,
    fft: Vec<Complex<T>>,
}

impl<T: Sample> Convolver<T> {
    /// Plans for segments of up to `longest` samples at `step_seconds`. Filters are cut there, or
    /// where 1e-8 (f32) or 1e-15 (f64) of their sum is left.
    ///
    /// The error is of the order of 1e-7 (f32) or 1e-15 (f64) of the largest response.
    pub fn new(bank: &FilterBank, step_seconds: f64, longest: usize) -> Self {
        let taps = taps::<T>(bank, step_seconds, longest);
        Self::with_length(
            bank,
            step_seconds,
            longest,
            cheapest_length(taps, longest.max(1)),
        )
    }

    /// As [`new`](Self::new) with a transform of (at least) `length` samples: the way to force plain
    /// padding, with `length >= 2 * longest`.
    pub fn with_length(
        bank: &FilterBank,
        step_seconds: f64,
        longest: usize,
        length: usize,
    ) -> Self {
        let taps = taps::<T>(bank, step_seconds, longest);
        let length = length.max(taps).next_multiple_of(2);
        let forward = T::forward(length);
        let inverse = T::inverse(length);
        // The spectra are made in f64, so that an f32 response starts from exact ones.
        let exact = f64::forward(length);
        let mut spectrum = exact.make_output_vec();
        let mut spectra = Vec::with_capacity(bank.len() * spectrum.len());
        for filter in bank.filters() {
            let mut impulse = filter.impulse(step_seconds, taps);
            impulse.resize(length, 0.0);
            // Fails only on wrong lengths, and these are the plan's own.
            let made = exact.process(&mut impulse, &mut spectrum);
            debug_assert!(made.is_ok());
            let norm = 1.0 / length as f64;
            spectra.extend(
                spectrum
                    .iter()
                    .map(|z| Complex::new(T::rounded(z.re * norm), T::rounded(z.im * norm))),
            );
        }
        Self {
            forward,
            inverse,
            taps,
            longest: if taps < longest { usize::MAX } else { taps },
            spectra,
        }
    }

    /// Samples of one transform.
    pub fn length(&self) -> usize {
        self.forward.len()
    }

    /// Number of filters.
    pub fn filters(&self) -> usize {
        self.spectra.len() / self.forward.complex_len()
    }

    /// Working memory for [`process_with_scratch`](Self::process_with_scratch).
    pub fn make_scratch(&self) -> ConvolverScratch<T> {
        let scratch = self
            .forward
            .get_scratch_len()
            .max(self.inverse.get_scratch_len());
        ConvolverScratch {
            signal: self.forward.make_input_vec(),
            spectrum: self.forward.make_output_vec(),
            product: self.forward.make_output_vec(),
            fft: vec![Complex::new(T::zero(), T::zero()); scratch],
        }
    }

    /// Responses of `signal` to every filter, at rest at each segment's start.
    ///
    /// `responses` is row-major (filters, samples); samples outside every segment become zero.
    /// Allocates nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] when `responses` is not filters × samples or a segment is longer than
    /// the filters were cut for; those of [`check_segments`].
    pub fn process_with_scratch(
        &self,
        signal: &[T],
        segments: &[Segment],
        responses: &mut [T],
        scratch: &mut ConvolverScratch<T>,
    ) -> Result<()> {
        let samples = signal.len();
        if responses.len() != self.filters() * samples {
            return Err(Error::mismatch(format!(
                "responses: expected {} filters × {samples} samples, got {}",
                self.filters(),
                responses.len()
            )));
        }
        check_segments(segments, samples as i64)?;
        if let Some(long) = segments.iter().find(|s| s.len() > self.longest) {
            return Err(Error::mismatch(format!(
                "segment [{}, {}): planned for at most {} samples, got {}",
                long.start,
                long.stop,
                self.longest,
                long.len()
            )));
        }
        responses.fill(T::zero());
        for segment in segments {
            let (mut at, stop) = (segment.start as usize, segment.stop as usize);
            while at < stop {
                // The history that the filters reach back to, then the samples that are new.
                let history = (self.taps - 1).min(at - segment.start as usize);
                // Before `history` the filters reach into zeros wrapped round from the end.
                let fresh = (self.length() + 1 - self.taps).min(stop - at);
                let chunk = &signal[at - history..at + fresh];
                scratch.signal[..chunk.len()].copy_from_slice(chunk);
                scratch.signal[chunk.len()..].fill(T::zero());
                self.chunk(history, at, fresh, samples, responses, scratch)?;
                at += fresh;
            }
        }
        Ok(())
    }

    /// Transforms the chunk in `scratch.signal` and writes samples `at..at + fresh` of every row.
    fn chunk(
        &self,
        history: usize,
        at: usize,
        fresh: usize,
        samples: usize,
        responses: &mut [T],
        scratch: &mut ConvolverScratch<T>,
    ) -> Result<()> {
        let lengths = |e: FftError| {
            Error::new(
                ErrorKind::Mismatch,
                format!("scratch of another convolver: {e}"),
            )
        };
        self.forward
            .process_with_scratch(&mut scratch.signal, &mut scratch.spectrum, &mut scratch.fft)
            .map_err(lengths)?;
        let filters = self.spectra.chunks_exact(self.forward.complex_len());
        for (filter, row) in filters.zip(responses.chunks_exact_mut(samples)) {
            for ((p, x), h) in scratch
                .product
                .iter_mut()
                .zip(&scratch.spectrum)
                .zip(filter)
            {
                *p = x * h;
            }
            // The ends are real in theory; rounding must not make realfft refuse them.
            for end in [0, scratch.product.len() - 1] {
                scratch.product[end].im = T::zero();
            }
            self.inverse
                .process_with_scratch(&mut scratch.product, &mut scratch.signal, &mut scratch.fft)
                .map_err(lengths)?;
            row[at..at + fresh].copy_from_slice(&scratch.signal[history..history + fresh]);
        }
        Ok(())
    }
}

impl<T: Sample> std::fmt::Debug for Convolver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Convolver")
            .field("length", &self.length())
            .field("taps", &self.taps)
            .field("filters", &self.filters())
            .finish()
    }
}

/// Samples of the longest filter that count within `longest` samples.
fn taps<T: Sample>(bank: &FilterBank, step_seconds: f64, longest: usize) -> usize {
    let taps = bank
        .filters()
        .iter()
        .map(|f| f.taps(step_seconds, T::TAIL))
        .max()
        .unwrap_or(1);
    taps.clamp(1, longest.max(1))
}

/// The even length of the form 2^a·3^b (b ≤ 1) with the least work a signal of `longest` samples:
/// transforms × length × log(length).
fn cheapest_length(taps: usize, longest: usize) -> usize {
    let padded = longest + taps - 1;
    let mut best = (f64::INFINITY, padded);
    for power in 2..usize::BITS - 2 {
        for length in [1usize << power, 3usize << (power - 1)] {
            if length >= taps {
                let transforms = longest.div_ceil(length + 1 - taps) as f64;
                let work = transforms * length as f64 * (length as f64).log2();
                if work < best.0 {
                    best = (work, length);
                }
            }
        }
        if (1usize << power) >= 2 * padded {
            break;
        }
    }
    best.1
}
