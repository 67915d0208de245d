//! Thresholds that chance seldom reaches: surrogate signals in which every node keeps what it has by
//! itself and nothing is left of what it has in common with others.

use betz_base::progress::{Quiet, check};
use betz_base::{Error, Progress, Result};
use betz_device::{Device, Placement, Work};
use betz_fourier::{ComplexToReal, Real, RealToComplex};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::cuda::surrogates::DeviceSurrogates;
use crate::largest::LargestValue;
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec};

/// Kind of surrogate, made of a signal segment by segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surrogate {
    /// Every node's Fourier phases drawn anew, each node's on its own: spectrum and autocorrelation
    /// stay (Theiler et al. 1992).
    PhaseRandomised,
    /// Every node turned round by a random number of samples: the distribution stays as well.
    CircularShift,
}

/// The error rate that is held below `alpha`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// The probability of a single false edge in the whole network: the threshold is the 1 − α quantile
    /// of the surrogates' largest values.
    Maximum,
    /// The expected share of false ones among all edges: the lowest threshold at which the surrogates
    /// have no more than α times the edges.
    FalseDiscovery,
    /// The same whatever the pairs' dependence on each other (Benjamini and Yekutieli 2001): α is divided by
    /// Σ 1/k over all pairs of all windows, about the logarithm of their number. [`Correction::FalseDiscovery`]
    /// is Benjamini and Hochberg's (1995), which holds for independent or positively dependent pairs.
    FalseDiscoveryAnyDependence,
}

/// Options of the search for a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Significance {
    /// Kind of surrogates.
    pub surrogate: Surrogate,
    /// Number of surrogates.
    pub count: usize,
    /// The level.
    pub alpha: f64,
    /// The error rate that `alpha` limits.
    pub correction: Correction,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Significance {
    fn default() -> Self {
        Self {
            surrogate: Surrogate::PhaseRandomised,
            count: 99,
            alpha: 0.05,
            correction: Correction::Maximum,
            seed: 0,
        }
    }
}

impl Significance {
    fn check(&self, spec: &NetworkSpec) -> Result<()> {
        let Self {
            count,
            alpha,
            correction,
            ..
        } = *self;
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(Error::argument(format!(
                "alpha: expected more than 0 and less than 1, got {alpha}"
            )));
        }
        if spec.measure.is_distance() || spec.measure == Measure::Covariance {
            return Err(Error::argument(format!(
                "significance: expected a measure on a scale that all pairs share, got {}",
                spec.measure.name()
            )));
        }
        if correction == Correction::Maximum && (count as f64 + 1.0) * alpha < 1.0 - 1e-9 {
            return Err(Error::argument(format!(
                "surrogates: expected at least {} for a level of {alpha}, got {count}",
                (1.0 / alpha).ceil() - 1.0
            )));
        }
        if count == 0 {
            return Err(Error::argument("surrogates: expected at least 1, got 0"));
        }
        Ok(())
    }
}

/// A threshold, and the values it was computed from.
#[derive(Debug, Clone, PartialEq)]
pub struct SignificantThreshold {
    /// Values that reach it are significant; `None` when no value is (false discovery only).
    pub threshold: Option<f64>,
    /// The surrogates' largest values, ascending; empty for false discovery.
    pub maxima: Vec<f64>,
}

/// A surrogate of `signal`, (samples, nodes), f32; samples in no segment are 0. The same seed gives the
/// same surrogate for any number of threads. A node that is not finite somewhere in a segment is kept
/// as it is there.
///
/// # Errors
/// [`Io`](betz_base::ErrorKind::Io) when memory does not suffice.
pub fn surrogate(signal: &Signal<'_>, kind: Surrogate, seed: u64) -> Result<Vec<f32>> {
    let (samples, nodes) = (signal.samples(), signal.nodes());
    let mut out: Vec<f32> = Vec::new();
    out.try_reserve_exact(samples * nodes).map_err(|_| {
        Error::no_memory(
            "a surrogate",
            samples.saturating_mul(nodes).saturating_mul(4),
        )
    })?;
    out.resize(samples * nodes, 0.0);
    let segments = signal.segments().iter().enumerate();
    for (number, segment) in segments.filter(|(_, s)| !s.is_empty()) {
        let len = segment.len();
        let fourier = (f64::forward(len), f64::inverse(len));
        let columns: Vec<Vec<f32>> = (0..nodes)
            .into_par_iter()
            .map(|node| {
                // A stream of its own for each node and segment.
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream((number as u64) << 32 | node as u64);
                let mut x = vec![0.0; len];
                signal.column(node, segment.start, &mut x);
                if x.iter().all(|v| v.is_finite()) {
                    match kind {
                        Surrogate::CircularShift => x.rotate_left(rng.random_range(0..len)),
                        Surrogate::PhaseRandomised => {
                            randomise_phases(&mut x, (&*fourier.0, &*fourier.1), &mut rng);
                        }
                    }
                }
                x.into_iter().map(|v| v as f32).collect()
            })
            .collect();
        for (node, column) in columns.iter().enumerate() {
            for (t, value) in column.iter().enumerate() {
                out[(segment.start + t) * nodes + node] = *value;
            }
        }
    }
    Ok(out)
}

/// Draws the phases of all frequencies of `x`, whose length is that of the transforms.
fn randomise_phases(
    x: &mut [f64],
    (forward, inverse): (&dyn RealToComplex<f64>, &dyn ComplexToReal<f64>),
    rng: &mut ChaCha8Rng,
) {
    let len = x.len();
    let mut spectrum = forward.make_output_vec();
    // Lengths are the planner's own: these cannot fail.
    let there = forward.process(x, &mut spectrum);
    let last = spectrum.len() - 1;
    for (k, value) in spectrum.iter_mut().enumerate() {
        // The mean, and at even lengths the highest frequency, stay real.
        if k > 0 && (k < last || len % 2 == 1) {
            let (sin, cos) = rng.random_range(0.0..std::f64::consts::TAU).sin_cos();
            let (re, im) = (value.re, value.im);
            value.re = re * cos - im * sin;
            value.im = re * sin + im * cos;
        }
    }
    spectrum[0].im = 0.0;
    if len.is_multiple_of(2) {
        spectrum[last].im = 0.0;
    }
    let back = inverse.process(&mut spectrum, x);
    debug_assert!(there.is_ok() && back.is_ok());
    x.iter_mut().for_each(|v| *v /= len as f64);
}

/// [`significant_threshold_on`] the CPU.
///
/// # Errors
/// The errors of [`significant_threshold_on`].
pub fn significant_threshold(
    spec: &NetworkSpec,
    signal: &Signal<'_>,
    significance: &Significance,
    progress: &dyn Progress,
) -> Result<SignificantThreshold> {
    significant_threshold_on(&Device::cpu(), spec, signal, significance, progress)
}

/// The threshold that `significance` asks for, for networks of `spec` (its own threshold is not looked
/// at). Takes the time of as many networks as there are surrogates.
///
/// A CUDA device draws phase-randomised surrogates, with the same phases as the CPU. It also finds the largest values of
/// their networks by Pearson, Spearman and Kendall correlation ([`Correction::Maximum`]); the CPU finds those of other
/// measures, and counts all pairs for false discovery.
///
/// # Errors
/// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a measure whose values have no upper
/// end, too few surrogates for α, or false discovery of other than Pearson, Spearman or Kendall correlation;
/// as for [`Plan::run`](crate::Plan::run); those of the device.
pub fn significant_threshold_on(
    device: &Device,
    spec: &NetworkSpec,
    signal: &Signal<'_>,
    significance: &Significance,
    progress: &dyn Progress,
) -> Result<SignificantThreshold> {
    significance.check(spec)?;
    let Significance {
        count, correction, ..
    } = *significance;
    let spec = NetworkSpec {
        strict: false,
        max_edges: u64::MAX,
        ..*spec
    };
    let networks = match correction {
        Correction::Maximum => device,
        // Histograms of all pairs have no kernel.
        Correction::FalseDiscovery | Correction::FalseDiscoveryAnyDependence => &Device::cpu(),
    };
    let mut search = LargestValue::new(networks, &spec, signal, count)?;
    let mut maxima = Vec::new();
    let mut chance = vec![0_u64; BINS];
    let by_phases = significance.surrogate == Surrogate::PhaseRandomised;
    let placement = Placement::decide(device, drawing(signal, count, by_phases));
    let mut drawn = match by_phases {
        true => DeviceSurrogates::open(&placement, signal)?,
        false => None,
    };
    for k in 0..count {
        check(progress, "surrogates")?;
        progress.update("surrogates", k as u64, count as u64);
        let seed = significance.seed.wrapping_add(k as u64);
        let on_device = match &mut drawn {
            Some(drawn) => placement.or_cpu(drawn.draw(seed))?,
            None => None,
        };
        let samples = match on_device {
            Some(samples) => samples,
            None => surrogate(signal, significance.surrogate, seed)?,
        };
        let other =
            Signal::new(&samples, signal.nodes())?.with_segments(signal.segments().to_vec())?;
        match correction {
            Correction::Maximum => {
                maxima.push(search.of(&other, &Quiet(progress))?);
            }
            Correction::FalseDiscovery | Correction::FalseDiscoveryAnyDependence => {
                let of = (search.on_cpu()).histogram(&other, BINS, &Quiet(progress))?;
                chance.iter_mut().zip(of).for_each(|(a, b)| *a += b);
            }
        }
    }
    progress.update("surrogates", count as u64, count as u64);
    if correction == Correction::Maximum {
        maxima.sort_by(f64::total_cmp);
        let threshold = above_quantile(&maxima, significance.alpha);
        return Ok(SignificantThreshold {
            threshold: Some(threshold),
            maxima,
        });
    }
    let plan = search.on_cpu();
    let seen = plan.histogram(signal, BINS, &Quiet(progress))?;
    let alpha = match correction {
        Correction::FalseDiscoveryAnyDependence => {
            significance.alpha / harmonic(plan.estimate().pair_windows)
        }
        _ => significance.alpha,
    };
    let lowest = lowest_threshold(&seen, &chance, count, alpha);
    Ok(SignificantThreshold {
        threshold: lowest,
        maxima,
    })
}

/// Seconds that a processor takes to draw the phases of one value, and to transform it there and back.
const CPU_SECONDS: f64 = 30e-9;
/// Seconds that a device takes for one value, most of them for the way to the host; and to begin.
const CUDA_SECONDS: f64 = 0.5e-9;
const CUDA_BEGIN: f64 = 0.05;

/// The work of drawing `count` surrogates of `signal`.
fn drawing(signal: &Signal<'_>, count: usize, by_phases: bool) -> Work {
    if !by_phases {
        return Work::Gains(false);
    }
    let values = count as f64 * signal.nodes() as f64 * signal.samples() as f64;
    Work::Seconds {
        cpu: CPU_SECONDS * values / rayon::current_num_threads() as f64,
        cuda: CUDA_BEGIN + CUDA_SECONDS * values,
    }
}

/// The least number above the 1 − `alpha` quantile of sorted `maxima`.
fn above_quantile(maxima: &[f64], alpha: f64) -> f64 {
    // Rank ⌈(1 − α)(S + 1)⌉ of S: at most α of the S + 1 equally likely places lie above it.
    let rank = ((1.0 - alpha) * (maxima.len() as f64 + 1.0) - 1e-9).ceil() as usize;
    maxima[rank.clamp(1, maxima.len()) - 1].next_up()
}

/// The lowest threshold at which one of `count` surrogates has at most `alpha` times the pairs of the signal.
fn lowest_threshold(seen: &[u64], chance: &[u64], count: usize, alpha: f64) -> Option<f64> {
    let (mut by_chance, mut found) = (0, 0);
    let mut lowest = None;
    for bin in (0..BINS).rev() {
        by_chance += chance[bin];
        found += seen[bin];
        if found > 0 && (by_chance as f64 / count as f64) <= alpha * found as f64 {
            lowest = Some(bin as f64 / BINS as f64);
        }
    }
    lowest
}

/// Σ 1/k, k = 1 … n.
fn harmonic(n: f64) -> f64 {
    if n < 1000.0 {
        return (1..=n as u32)
            .map(|k| 1.0 / f64::from(k))
            .sum::<f64>()
            .max(1.0);
    }
    // Euler and Maclaurin: the next term is below 1e-13.
    const EULER: f64 = 0.577_215_664_901_532_9;
    n.ln() + EULER + 0.5 / n - 1.0 / (12.0 * n * n)
}

/// Of values from 0 to 1: thresholds are found to within 1/4,096.
const BINS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, Threshold, Window, cases, oracle};

    #[test]
    fn surrogates_keep_each_node_and_nothing_in_common() {
        let case = cases::communities(10, 301, 4);
        let signal = case.signal().with_segments(vec![0..120, 130..301]).unwrap();
        for kind in [Surrogate::PhaseRandomised, Surrogate::CircularShift] {
            let other = surrogate(&signal, kind, 5).unwrap();
            assert_eq!(other, surrogate(&signal, kind, 5).unwrap());
            assert_ne!(other, surrogate(&signal, kind, 6).unwrap());
            assert!(other[120 * 10..130 * 10].iter().all(|v| *v == 0.0));
            let other = Signal::new(&other, 10).unwrap();
            for segment in [0..120, 130..301_usize] {
                let len = segment.len();
                for node in 0..10 {
                    let (mut x, mut y) = (vec![0.0; len], vec![0.0; len]);
                    signal.column(node, segment.start, &mut x);
                    other.column(node, segment.start, &mut y);
                    // Circular autocorrelation: that of the power spectrum.
                    for lag in [0, 1, 7] {
                        let auto =
                            |x: &[f64]| (0..len).map(|t| x[t] * x[(t + lag) % len]).sum::<f64>();
                        assert!((auto(&x) - auto(&y)).abs() <= 1e-4 * auto(&x).abs().max(1.0));
                    }
                }
            }
        }
    }

    #[test]
    fn independent_noise_has_no_significant_edge_and_common_sources_have() {
        let case = cases::communities(12, 400, 6);
        let signal = case.signal();
        let noise = surrogate(&signal, Surrogate::PhaseRandomised, 77).unwrap();
        let noise = Signal::new(&noise, 12).unwrap();
        let spec = NetworkSpec::pearson(Window::new(200, 100));
        for surrogate in [Surrogate::PhaseRandomised, Surrogate::CircularShift] {
            for correction in [
                Correction::Maximum,
                Correction::FalseDiscovery,
                Correction::FalseDiscoveryAnyDependence,
            ] {
                let asked = Significance {
                    surrogate,
                    correction,
                    count: 39,
                    ..Significance::default()
                };
                let edges = |signal: &Signal<'_>| {
                    let found = significant_threshold(&spec, signal, &asked, &()).unwrap();
                    found.threshold.map_or(0, |threshold| {
                        let spec = spec.threshold(Threshold::Absolute(threshold));
                        Plan::new(&spec, signal)
                            .unwrap()
                            .run(signal, &())
                            .unwrap()
                            .edges()
                    })
                };
                assert!(edges(&signal) >= 6, "{surrogate:?}, {correction:?}");
                assert!(edges(&noise) <= 1, "{surrogate:?}, {correction:?}");
            }
        }
    }

    #[test]
    fn any_dependence_asks_for_no_lower_threshold() {
        for n in [1.0, 2.0, 999.0, 1000.0, 100_000.0] {
            let plain: f64 = (1..=n as u32).map(|k| 1.0 / f64::from(k)).sum();
            assert!((harmonic(n) - plain).abs() < 1e-9, "{n}");
        }
        let case = cases::communities(20, 300, 6);
        let spec = NetworkSpec::pearson(Window::new(100, 50));
        let threshold = |correction| {
            let asked = Significance {
                correction,
                count: 200,
                ..Significance::default()
            };
            let found = significant_threshold(&spec, &case.signal(), &asked, &()).unwrap();
            found.threshold.unwrap()
        };
        let (plain, any) = (
            threshold(Correction::FalseDiscovery),
            threshold(Correction::FalseDiscoveryAnyDependence),
        );
        assert!(any > plain && plain > 0.0, "{any} and {plain}");
    }

    #[test]
    fn histograms_count_every_defined_pair_once() {
        let case = cases::all()
            .into_iter()
            .find(|c| c.name.contains("not finite"))
            .unwrap();
        let signal = case.signal();
        for measure in [Measure::Pearson, Measure::Spearman, Measure::Kendall] {
            let plan = Plan::new(&NetworkSpec::new(measure, Window::new(40, 5)), &signal).unwrap();
            let found = plan.histogram(&signal, 7, &()).unwrap();
            let mut expected = vec![0_i64; 7];
            for start in plan.windows().starts() {
                let columns: Vec<Vec<f64>> = (0..case.nodes)
                    .map(|node| (start..start + 40).map(|t| signal.value(t, node)).collect())
                    .collect();
                for i in 0..case.nodes {
                    for j in i + 1..case.nodes {
                        let r = match measure {
                            Measure::Pearson => oracle::pearson(&columns[i], &columns[j]),
                            Measure::Spearman => oracle::spearman(&columns[i], &columns[j]),
                            _ => oracle::kendall(&columns[i], &columns[j]),
                        };
                        if let Some(r) = r {
                            expected[((r.abs() * 7.0) as usize).min(6)] += 1;
                        }
                    }
                }
            }
            // A value within f32's error of the edge of a bin may fall to either side.
            assert_eq!(
                found.iter().sum::<u64>() as i64,
                expected.iter().sum::<i64>()
            );
            assert!(
                found
                    .iter()
                    .zip(&expected)
                    .all(|(a, b)| (*a as i64 - b).abs() <= 2)
            );
        }
    }

    #[test]
    fn what_cannot_be_found_is_refused() {
        let case = cases::communities(4, 50, 1);
        let signal = case.signal();
        let window = Window::new(20, 5);
        let usual = Significance::default();
        let discovery = Significance {
            correction: Correction::FalseDiscovery,
            count: 2,
            ..usual
        };
        for (measure, significance, word) in [
            (Measure::Pearson, Significance { count: 18, ..usual }, "19"),
            (
                Measure::Pearson,
                Significance {
                    alpha: 0.0,
                    ..usual
                },
                "alpha",
            ),
            (Measure::Euclidean { hold: 1 }, usual, "euclidean"),
            (Measure::PhaseLocking, discovery, "pearson"),
            (
                Measure::Pearson,
                Significance {
                    count: 0,
                    ..discovery
                },
                "surrogates",
            ),
        ] {
            let spec = NetworkSpec::new(measure, window);
            let error = significant_threshold(&spec, &signal, &significance, &()).unwrap_err();
            assert!(error.message().contains(word), "{word}: {error}");
        }
    }
}
