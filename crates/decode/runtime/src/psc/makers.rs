//! Sampled filters by name: `boxcar:50ms`, `gauss:30ms`, `halfgauss:60ms`, `biexp:0.5ms:5ms`, `cosine:8:10ms..800ms`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::f64::consts::{FRAC_PI_2, PI};

use super::sampled::{MAX_SAMPLES, SampledFilter};
use betz_base::error::{Error, Result};
use betz_base::float;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;

/// Standard deviations that a Gaussian reaches to either side: 6e-5 of its area is beyond.
const GAUSS_REACH: f64 = 4.0;
/// Part of a difference of exponentials that is cut off at its end.
const CUT: f64 = 1e-6;
/// Most filters of a basis.
const MOST_COSINES: usize = 64;

/// A shape that a formula gives, on no clock yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KernelShape {
    /// 1 from the spike to `seconds` after it; a step that lies in part within has that part.
    Boxcar {
        /// Length.
        seconds: f64,
    },
    /// e^(−t² / 2σ²) before and after the spike, to 4 σ: looks ahead.
    Gauss {
        /// Standard deviation σ.
        sigma_seconds: f64,
    },
    /// e^(−t² / 2σ²) from the spike on, to 4 σ.
    HalfGauss {
        /// Standard deviation σ.
        sigma_seconds: f64,
    },
    /// e^(−t/decay) − e^(−t/rise).
    Biexp {
        /// Time constant of the rise.
        rise_seconds: f64,
        /// Time constant of the decay, longer than that of the rise.
        decay_seconds: f64,
    },
    /// A basis of `count` raised cosines in logarithmic time (Pillow et al. 2008) with peaks from `first` to `last`:
    /// ½ + ½·cos(π·(ln t − ln peak) / 2Δ) within 2Δ of its peak, Δ the distance of neighbouring peaks in ln t.
    Cosine {
        /// Number of filters.
        count: usize,
        /// Time of the first peak.
        first_seconds: f64,
        /// Time of the last peak.
        last_seconds: f64,
    },
}

impl KernelShape {
    /// The filters of this shape on steps of `step_seconds`, each of unit sum. `name` stands for them in messages.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::error::ErrorKind::InvalidArgument) for times that are not finite and
    /// positive or do not ascend, a basis of fewer than two or too many filters, and the errors of
    /// [`SampledFilter::new`].
    pub fn filters(self, name: &str, step_seconds: f64) -> Result<Vec<SampledFilter>> {
        self.check(name)?;
        let dt = step_seconds;
        let reach = |seconds: f64| steps(name, seconds, dt);
        let one = |samples: Vec<f64>, start: i64| {
            let filter = SampledFilter::new(name, samples, dt, start)?.with_unit_sum()?;
            Ok(Vec::from([filter]))
        };
        let bell = |m: i64, sigma: f64| float::exp(-0.5 * (m as f64 * dt / sigma).powi(2));
        match self {
            Self::Boxcar { seconds } => {
                let long = reach(seconds)?;
                let within = |m: i64| (seconds / dt - m as f64).clamp(0.0, 1.0);
                // A rest below a millionth of a step is rounding of the times.
                let kept = |part: f64| if part < 1e-6 { 0.0 } else { part };
                one((0..=long).map(|m| kept(within(m))).collect(), 0)
            }
            Self::Gauss { sigma_seconds } => {
                let long = reach(GAUSS_REACH * sigma_seconds)?;
                one(
                    (-long..=long).map(|m| bell(m, sigma_seconds)).collect(),
                    -long,
                )
            }
            Self::HalfGauss { sigma_seconds } => {
                let long = reach(GAUSS_REACH * sigma_seconds)?;
                one((0..=long).map(|m| bell(m, sigma_seconds)).collect(), 0)
            }
            Self::Biexp {
                rise_seconds,
                decay_seconds,
            } => {
                let long = reach(-decay_seconds * float::ln(CUT))?;
                let value = |m: i64| {
                    let t = m as f64 * dt;
                    float::exp(-t / decay_seconds) - float::exp(-t / rise_seconds)
                };
                one((0..=long.max(1)).map(value).collect(), 0)
            }
            Self::Cosine {
                count,
                first_seconds,
                last_seconds,
            } => cosines(name, count, first_seconds, last_seconds, dt),
        }
    }

    fn check(self, name: &str) -> Result<()> {
        let times: &[f64] = match &self {
            Self::Boxcar { seconds } => &[*seconds],
            Self::Gauss { sigma_seconds } | Self::HalfGauss { sigma_seconds } => &[*sigma_seconds],
            Self::Biexp {
                rise_seconds,
                decay_seconds,
            } => &[*rise_seconds, *decay_seconds],
            Self::Cosine {
                first_seconds,
                last_seconds,
                ..
            } => &[*first_seconds, *last_seconds],
        };
        if let Some(time) = times.iter().find(|t| !(t.is_finite() && **t > 0.0)) {
            return refuse(name, format!("expected times above 0 s, got {time} s"));
        }
        if let [low, high] = times
            && low >= high
        {
            let what = format!("expected the shorter time first, got {low} s and {high} s");
            return refuse(name, what);
        }
        if let Self::Cosine { count, .. } = self
            && !(2..=MOST_COSINES).contains(&count)
        {
            let what = format!("expected 2 to {MOST_COSINES} filters of the basis, got {count}");
            return refuse(name, what);
        }
        Ok(())
    }
}

/// The basis of raised cosines.
fn cosines(name: &str, count: usize, first: f64, last: f64, dt: f64) -> Result<Vec<SampledFilter>> {
    let apart = float::ln(last / first) / (count - 1) as f64;
    let filters = (0..count).map(|j| {
        let peak = first * float::exp(apart * j as f64);
        let long = steps(name, peak * float::exp(2.0 * apart), dt)?;
        let value = |m: i64| {
            let angle = FRAC_PI_2 * float::ln(m as f64 * dt / peak) / apart;
            // ln 0 is far outside.
            if angle.abs() < PI {
                0.5 + 0.5 * float::sin(angle + FRAC_PI_2)
            } else {
                0.0
            }
        };
        let named = format!("{name}[{j}]");
        let filter = SampledFilter::new(named, (0..=long).map(value).collect(), dt, 0);
        let filter = filter.map_err(|e| {
            e.in_words(format!(
                "filter {name}: its peak at {peak} s has no step of {dt} s; begin later, or take a shorter step"
            ))
        })?;
        filter.with_unit_sum()
    });
    filters.collect()
}

/// Whole steps up to `seconds`, rounded up.
fn steps(name: &str, seconds: f64, step_seconds: f64) -> Result<i64> {
    let steps = (seconds / step_seconds - 1e-9).ceil();
    if !(step_seconds > 0.0 && steps.is_finite() && steps < MAX_SAMPLES as f64) {
        return refuse(
            name,
            format!(
                "expected at most {MAX_SAMPLES} steps of {step_seconds} s, got {seconds} s; use a longer step or a shorter filter"
            ),
        );
    }
    Ok(steps as i64)
}

fn refuse<T>(name: &str, reason: String) -> Result<T> {
    Err(Error::argument(format!("filter {name}: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn one(shape: KernelShape, step: f64) -> SampledFilter {
        shape.filters("it", step).unwrap().remove(0)
    }

    #[test]
    fn shapes_follow_their_formulas() {
        let boxcar = one(KernelShape::Boxcar { seconds: 0.05 }, 0.01);
        assert_eq!(boxcar.samples(), [0.2; 5]);
        let part = one(KernelShape::Boxcar { seconds: 0.05 }, 0.02);
        let expected = [0.4, 0.4, 0.2];
        assert!((part.samples().iter().zip(expected)).all(|(h, e)| (h - e).abs() < 1e-9));
        let gauss = one(
            KernelShape::Gauss {
                sigma_seconds: 0.03,
            },
            0.001,
        );
        assert_eq!((gauss.start(), gauss.stop()), (-120, 121));
        assert!((gauss.at(30) / gauss.at(0) - (-0.5f64).exp()).abs() < 1e-12);
        assert_eq!(gauss.at(-30), gauss.at(30));
        let half = one(
            KernelShape::HalfGauss {
                sigma_seconds: 0.03,
            },
            0.001,
        );
        assert_eq!(half.start(), 0);
        let biexp = KernelShape::Biexp {
            rise_seconds: 0.0005,
            decay_seconds: 0.005,
        };
        let biexp = one(biexp, 0.00025);
        let value = |m: f64| (-m * 0.05).exp() - (-m * 0.5).exp();
        assert!((biexp.at(8) / biexp.at(3) - value(8.0) / value(3.0)).abs() < 1e-12);
        for filter in [&boxcar, &gauss, &half, &biexp] {
            assert!((filter.samples().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_cosine_basis_tiles_logarithmic_time() {
        let shape = KernelShape::Cosine {
            count: 8,
            first_seconds: 0.01,
            last_seconds: 0.8,
        };
        let basis = shape.filters("cosine", 0.001).unwrap();
        assert_eq!(basis.len(), 8);
        let largest = |f: &SampledFilter| {
            let best = f
                .samples()
                .iter()
                .enumerate()
                .max_by(|a, b| a.1.total_cmp(b.1));
            best.unwrap().0 as i64 + f.start()
        };
        assert_eq!(largest(&basis[0]), 10);
        assert_eq!(largest(&basis[7]), 800);
        // Neighbours overlap so that the unscaled sum is constant between the inner peaks.
        let height = |f: &SampledFilter, m| f.at(m) / f.at(largest(f));
        for m in 40..400 {
            let sum: f64 = basis.iter().map(|f| height(f, m)).sum();
            assert!((sum - 2.0).abs() < 0.02, "{m}: {sum}");
        }
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for (shape, step, says) in [
            (KernelShape::Boxcar { seconds: 0.0 }, 0.01, "above 0 s"),
            (
                KernelShape::Gauss {
                    sigma_seconds: f64::NAN,
                },
                0.01,
                "above 0 s",
            ),
            (
                KernelShape::HalfGauss { sigma_seconds: 1e9 },
                0.01,
                "longer step",
            ),
            (
                KernelShape::Biexp {
                    rise_seconds: 0.01,
                    decay_seconds: 0.01,
                },
                0.01,
                "shorter time first",
            ),
            (
                KernelShape::Cosine {
                    count: 1,
                    first_seconds: 0.01,
                    last_seconds: 0.8,
                },
                0.01,
                "2 to 64",
            ),
            (
                KernelShape::Cosine {
                    count: 9,
                    first_seconds: 1e-5,
                    last_seconds: 1e-4,
                },
                0.01,
                "no step",
            ),
        ] {
            let message = shape.filters("it", step).unwrap_err().to_string();
            assert!(
                message.contains("it") && message.contains(says),
                "{message}"
            );
        }
    }
}
