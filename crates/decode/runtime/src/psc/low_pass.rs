//! Butterworth low-pass behind the filters: design as second-order sections, and streaming.
//!
//! The paper's pipeline smooths the responses before the decoder (Galbraith 2010, §5.1). A low-pass
//! is linear, so it commutes with the filters and with the readout: it may run on the spike trains,
//! on the responses or on the outputs, whichever are fewest.

use super::flush;
use alloc::vec::Vec;
use betz_base::error::{Error, Result};
use betz_base::float;

/// A Butterworth low-pass applied to the responses, and so, being linear, to the outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LowPass {
    /// Order, 1 to 8.
    pub order: u32,
    /// Cut-off (−3 dB) in Hz, below half the step rate.
    pub cutoff_hz: f64,
}

/// Largest order of a low-pass.
pub const MAX_LOW_PASS_ORDER: u32 = 8;

/// One second-order section: `y[t] = b0·x[t] + b1·x[t−1] + b2·x[t−2] − a1·y[t−1] − a2·y[t−2]`.
///
/// Unit gain at 0 Hz. A first-order section has b2 = a2 = 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Section {
    /// Coefficients of the input, newest first.
    pub b: [f64; 3],
    /// Coefficients of the past output, newest first (a0 = 1 is left out).
    pub a: [f64; 2],
}

impl LowPass {
    /// Checks the order and that the cut-off lies strictly between 0 and half the step rate.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) otherwise.
    pub fn check(&self, step_seconds: f64) -> Result<()> {
        if self.order < 1 || self.order > MAX_LOW_PASS_ORDER {
            return Err(Error::argument(format!(
                "low-pass: expected an order of 1 to {MAX_LOW_PASS_ORDER}, got {}",
                self.order
            )));
        }
        let nyquist = 0.5 / step_seconds;
        if !(self.cutoff_hz > 0.0 && self.cutoff_hz < nyquist) {
            return Err(Error::argument(format!(
                "low-pass: expected a cut-off above 0 and below {nyquist} Hz (half the step rate), got {} Hz",
                self.cutoff_hz
            )));
        }
        Ok(())
    }

    /// The digital filter: bilinear transform of the analogue Butterworth, prewarped so that the
    /// −3 dB point is exactly at the cut-off. Lowest Q first; an odd order begins with a
    /// first-order section.
    ///
    /// # Errors
    /// The same as for [`LowPass::check`].
    pub fn sections(&self, step_seconds: f64) -> Result<Vec<Section>> {
        self.check(step_seconds)?;
        let k = float::tan(core::f64::consts::PI * self.cutoff_hz * step_seconds);
        let mut sections = Vec::with_capacity(self.order.div_ceil(2) as usize);
        if self.order % 2 == 1 {
            let b = k / (1.0 + k);
            sections.push(Section {
                b: [b, b, 0.0],
                a: [(k - 1.0) / (k + 1.0), 0.0],
            });
        }
        // Analogue pole pairs s² + 2·sin(θ)·s + 1, θ = (2i + 1)·π / (2·order); a large θ damps most.
        for i in (0..self.order / 2).rev() {
            let theta =
                f64::from(2 * i + 1) * core::f64::consts::PI / (2.0 * f64::from(self.order));
            let damping = 2.0 * float::sin(theta) * k;
            let norm = 1.0 / (1.0 + damping + k * k);
            let b = k * k * norm;
            sections.push(Section {
                b: [b, 2.0 * b, b],
                a: [2.0 * (k * k - 1.0) * norm, (1.0 - damping + k * k) * norm],
            });
        }
        Ok(sections)
    }
}

/// A low-pass at work on several signals side by side; starts from rest.
///
/// Opening allocates; [`step`](Self::step) and [`reset`](Self::reset) do not.
#[derive(Debug, Clone, PartialEq)]
pub struct LowPassFilter {
    sections: Vec<Section>,
    signals: usize,
    /// (section, 2, signal): the two delays of the transposed direct form II.
    state: Vec<f64>,
}

impl LowPassFilter {
    /// A filter at rest for `signals` signals.
    ///
    /// # Errors
    /// The same as for [`LowPass::check`].
    pub fn new(low_pass: LowPass, step_seconds: f64, signals: usize) -> Result<Self> {
        let sections = low_pass.sections(step_seconds)?;
        let state = vec![0.0; sections.len() * 2 * signals];
        Ok(Self {
            sections,
            signals,
            state,
        })
    }

    /// Filters one sample of every signal in place. Values beyond the number of signals are left
    /// as they are.
    pub fn step(&mut self, values: &mut [f64]) {
        if self.signals == 0 {
            return;
        }
        let states = self.state.chunks_exact_mut(2 * self.signals);
        for (section, state) in self.sections.iter().zip(states) {
            let ([b0, b1, b2], [a1, a2]) = (section.b, section.a);
            let (first, second) = state.split_at_mut(self.signals);
            for ((value, z1), z2) in values.iter_mut().zip(first).zip(second) {
                let x = *value;
                let y = b0 * x + *z1;
                *z1 = flush(b1 * x - a1 * y + *z2);
                *z2 = flush(b2 * x - a2 * y);
                *value = y;
            }
        }
    }

    /// Back to rest, as at the start of a segment.
    pub fn reset(&mut self) {
        self.state.fill(0.0);
    }

    /// All delays, in a fixed order.
    pub fn state(&self) -> &[f64] {
        &self.state
    }

    /// All delays, to be put back.
    pub fn state_mut(&mut self) -> &mut [f64] {
        &mut self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// |H| at `hz`.
    fn gain(sections: &[Section], hz: f64, step_seconds: f64) -> f64 {
        use num_complex::Complex64;
        let z1 = Complex64::cis(-2.0 * core::f64::consts::PI * hz * step_seconds);
        sections
            .iter()
            .map(|s| {
                let up = s.b[0] + z1 * (s.b[1] + z1 * s.b[2]);
                let down = 1.0 + z1 * (s.a[0] + z1 * s.a[1]);
                (up / down).norm()
            })
            .product()
    }

    #[test]
    fn gain_is_unity_at_rest_three_db_at_the_cutoff_and_analytic_between() {
        for step_seconds in [0.00025, 0.001, 0.1] {
            for part in [0.004, 0.1, 0.3, 0.45] {
                let cutoff_hz = part / step_seconds;
                let warp = |hz: f64| (core::f64::consts::PI * hz * step_seconds).tan();
                for order in 1..=MAX_LOW_PASS_ORDER {
                    let sections = LowPass { order, cutoff_hz }.sections(step_seconds).unwrap();
                    let at = |hz| gain(&sections, hz, step_seconds);
                    assert!((at(0.0) - 1.0).abs() < 1e-9);
                    assert!((at(cutoff_hz) - 0.5f64.sqrt()).abs() < 1e-9);
                    for hz in [0.5 * cutoff_hz, 0.9 * cutoff_hz, 1.05 * cutoff_hz] {
                        // |H|² = 1 / (1 + Ω^(2·order)) in the warped frequency.
                        let omega = warp(hz) / warp(cutoff_hz);
                        let expected = 1.0 / (1.0 + omega.powi(2 * order as i32)).sqrt();
                        assert!((at(hz) - expected).abs() < 1e-8, "{order} {hz}");
                    }
                }
            }
        }
    }

    /// `scipy.signal.sosfilt(butter(order, fc, fs=fs, output='sos'), impulse)` at samples
    /// 0, 1, 2, 5, 17, 40, 63.
    #[test]
    fn impulse_responses_equal_scipys() {
        let cases: [(u32, f64, f64, [f64; 7]); 4] = [
            (
                1,
                10.0,
                1000.0,
                [
                    0.03046874709125383,
                    0.05908080508388608,
                    0.0554805688677889,
                    0.04594353498137886,
                    0.021605206225517808,
                    0.005087822275335686,
                    0.0011981341550365873,
                ],
            ),
            (
                4,
                5.0,
                4000.0,
                [
                    2.3539208201824455e-10,
                    1.8783056061794893e-09,
                    7.489116811430904e-09,
                    8.319929852145418e-08,
                    2.8704843988670312e-06,
                    3.294346810762533e-05,
                    0.00011356829003251293,
                ],
            ),
            (
                5,
                2.0,
                10.0,
                [
                    0.02193962068846417,
                    0.13131576544687754,
                    0.32741905994650966,
                    -0.025673460137664524,
                    -0.0036522568259414194,
                    2.349879679245013e-06,
                    -1.0054515167632528e-09,
                ],
            ),
            (
                8,
                0.5,
                10.0,
                [
                    1.7625537291912854e-07,
                    2.5363790725129084e-06,
                    1.797088103929588e-05,
                    0.0008358839975295308,
                    0.09929326268301829,
                    0.01410532045282397,
                    0.004896596539316679,
                ],
            ),
        ];
        for (order, cutoff_hz, rate, expected) in cases {
            let low_pass = LowPass { order, cutoff_hz };
            let mut filter = LowPassFilter::new(low_pass, 1.0 / rate, 2).unwrap();
            let mut response = Vec::new();
            for t in 0..64 {
                let x = f64::from(u8::from(t == 0));
                let mut values = [x, -3.0 * x];
                filter.step(&mut values);
                assert!((values[1] + 3.0 * values[0]).abs() < 1e-14);
                response.push(values[0]);
            }
            for (t, e) in [0, 1, 2, 5, 17, 40, 63].into_iter().zip(expected) {
                let scale = response.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                assert!(
                    (response[t] - e).abs() < 1e-10 * scale,
                    "order {order}, sample {t}: {} against {e}",
                    response[t]
                );
            }
        }
    }

    #[test]
    fn reset_is_a_fresh_filter_and_silence_leaves_no_denormals() {
        let low_pass = LowPass {
            order: 5,
            cutoff_hz: 50.0,
        };
        let fresh = LowPassFilter::new(low_pass, 0.001, 3).unwrap();
        let mut filter = fresh.clone();
        filter.step(&mut [1.0, 2.0, 3.0]);
        assert_ne!(filter, fresh);
        let mut again = filter.clone();
        again.reset();
        assert_eq!(again, fresh);
        for _ in 0..100_000 {
            filter.step(&mut [0.0; 3]);
        }
        assert_eq!(filter, fresh);
    }

    #[test]
    fn refuses_what_cannot_be_designed() {
        for (order, cutoff_hz) in [(0, 1.0), (9, 1.0), (2, 0.0), (2, 5.0), (2, f64::NAN)] {
            let error = LowPass { order, cutoff_hz }.sections(0.1).unwrap_err();
            assert_eq!(error.kind(), betz_base::ErrorKind::InvalidArgument);
        }
    }
}
