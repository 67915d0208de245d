//! Specification of a network: measure, window, threshold, sign.

use betz_base::{Error, Result};

use crate::rank::LONGEST_KENDALL;
use crate::window::Window;

/// Measure of the similarity of two nodes over a window. [`crate::oracle`] has the formulas as plain loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measure {
    /// Pearson correlation, within [−1, 1].
    Pearson,
    /// Covariance Σ(x−x̄)(y−ȳ)/(W−1), in the squared unit of the signal.
    Covariance,
    /// Euclidean distance √Σ(x−y)² of two signals; an edge is what lies at or *below* the threshold.
    Euclidean {
        /// Edges are kept in windows where they have been near for this many windows running (1: no
        /// condition), counted within a segment.
        hold: usize,
    },
    /// The least distance that two places ([`Signal::places`](crate::Signal::places)) do not exceed for `near` samples in a
    /// row, within a window; an edge is what lies at or *below* the threshold. Samples without a place are not near.
    Distance {
        /// Samples that the two must be near, at most those of a window.
        near: usize,
        /// Up to so many samples between near ones may be farther apart or missing; fewer than `near`.
        gap: usize,
        /// Places are latitudes and longitudes in degrees, and distances metres along a great circle.
        earth: bool,
    },
    /// Dynamic time warping: the root of the least Σ(x−y)² along a path that aligns the two windows' samples in order, by
    /// at most `band` samples (Sakoe and Chiba 1978); an edge is what lies at or *below* the threshold.
    Warping {
        /// Largest shift of the alignment in samples.
        band: usize,
        /// Subtract each window's mean and divide by its standard deviation first.
        normalised: bool,
    },
    /// Mutual information of two Gaussians, −½ ln(1 − r²), in nats; without sign.
    GaussianInformation,
    /// Spearman's correlation: Pearson's of the ranks within the window, ties at their mean rank.
    Spearman,
    /// Kendall's τ-b: of all pairs of samples in the window, those that order both nodes alike less those that order
    /// them against each other, over √((n − n₁)(n − n₂)), n₁ and n₂ the pairs of equal samples of each node.
    Kendall,
    /// The Pearson correlation of x(t) with y(t + ℓ) that is largest in magnitude over |ℓ| ≤ `lags`
    /// samples, y's window shifted by ℓ with mean and deviation of its own. Of equal ones the
    /// smallest |ℓ| counts, then the negative one. Windows keep `lags` samples away from gaps.
    Lagged {
        /// Largest shift in samples.
        lags: usize,
    },
    /// Phase-locking value |Σ e^{i(φx−φy)}|/W; the signal holds phases in radians.
    PhaseLocking,
    /// Corrected imaginary phase-locking value |Im P|/√(1 − (Re P)²), P = Σ e^{i(φx−φy)}/W; the signal
    /// holds phases in radians.
    ImaginaryPhaseLocking,
    /// Pairwise phase consistency (|Σ e^{i(φx−φy)}|² − W)/(W(W−1)); the signal holds phases in radians.
    PhaseConsistency,
    /// Magnitude-squared coherence, within [0, 1], by Welch's method: of segments of Hann's window, each half over the one
    /// before; at the frequencies of `first` to `last` cycles per segment. [`Measure::coherence`] takes a band in Hz.
    Coherence {
        /// Samples of a segment; a window has at least two segments.
        segment: usize,
        /// Cycles per segment of the lowest frequency.
        first: usize,
        /// Cycles per segment of the highest frequency, at most half a segment.
        last: usize,
        /// The largest value of the band instead of its mean.
        peak: bool,
    },
    /// Partial correlation −Ω_ij/√(Ω_ii Ω_jj) given all other nodes, Ω the inverse of the covariance
    /// shrunk after Ledoit and Wolf (2004). Nodes that are undefined in a window are left out of it.
    Partial,
    /// Spike-time tiling coefficient (Cutts and Eglen 2014), within [−1, 1]: of spike times, windows in
    /// ticks ([`SpikeTrains::tiling_network`](crate::SpikeTrains::tiling_network)).
    SpikeTiling {
        /// Spikes within this many ticks of each other are together.
        reach: usize,
    },
}

impl Measure {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pearson => "pearson",
            Self::Covariance => "covariance",
            Self::Euclidean { .. } => "euclidean",
            Self::Distance { .. } => "distance",
            Self::Warping { .. } => "dtw",
            Self::GaussianInformation => "gaussian-information",
            Self::Spearman => "spearman",
            Self::Kendall => "kendall",
            Self::Lagged { .. } => "lagged",
            Self::PhaseLocking => "plv",
            Self::ImaginaryPhaseLocking => "ciplv",
            Self::PhaseConsistency => "ppc",
            Self::Coherence { .. } => "coherence",
            Self::Partial => "partial",
            Self::SpikeTiling { .. } => "sttc",
        }
    }

    /// Every measure under its name, with no lag, no hold, no reach, no time, no band and no segment.
    const ALL: [Self; 15] = [
        Self::Pearson,
        Self::Covariance,
        Self::Euclidean { hold: 1 },
        Self::Distance {
            near: 1,
            gap: 0,
            earth: false,
        },
        Self::Warping {
            band: 0,
            normalised: false,
        },
        Self::GaussianInformation,
        Self::Spearman,
        Self::Kendall,
        Self::Lagged { lags: 0 },
        Self::PhaseLocking,
        Self::ImaginaryPhaseLocking,
        Self::PhaseConsistency,
        Self::Coherence {
            segment: 0,
            first: 1,
            last: 0,
            peak: false,
        },
        Self::Partial,
        Self::SpikeTiling { reach: 0 },
    ];

    /// All names.
    pub fn names() -> [&'static str; 15] {
        Self::ALL.map(Self::name)
    }

    /// The measure of this name, with no lag, no hold and no reach; `None` where there is none.
    ///
    /// ```
    /// use betz_network::Measure;
    ///
    /// assert_eq!(Measure::named("plv"), Some(Measure::PhaseLocking));
    /// assert_eq!(Measure::named("lagged"), Some(Measure::Lagged { lags: 0 }));
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Coherence of segments of `segment` samples, over the frequencies from `band.0` to `band.1` Hz, or all above 0, of
    /// a signal with samples every `sample_seconds`; its mean, or the largest if `peak`.
    ///
    /// ```
    /// use betz_network::Measure;
    ///
    /// let alpha = Measure::coherence(100, Some((8.0, 12.0)), 0.004, false)?;
    /// // Frequencies are 2.5 Hz apart: 10 Hz alone.
    /// assert_eq!(alpha, Measure::Coherence { segment: 100, first: 4, last: 4, peak: false });
    /// # Ok::<(), betz_network::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a band without a frequency of a segment.
    pub fn coherence(
        segment: usize,
        band: Option<(f64, f64)>,
        sample_seconds: f64,
        peak: bool,
    ) -> Result<Self> {
        let Some((low, high)) = band else {
            return Ok(Self::Coherence {
                segment,
                first: 1,
                last: segment / 2,
                peak,
            });
        };
        if !(low >= 0.0 && high >= low && high.is_finite()) {
            return Err(Error::argument(format!(
                "frequencies: expected a lower and a higher one, got {low} to {high} Hz"
            )));
        }
        let apart = 1.0 / (segment.max(1) as f64 * sample_seconds);
        let most = 0.5 / sample_seconds;
        if high > most * (1.0 + 1e-9) {
            return Err(Error::argument(format!(
                "frequencies: expected at most {most} Hz, half the rate of samples, got {low} to {high} Hz"
            )));
        }
        // Rounding leaves no frequency out.
        let first = (low / apart - 1e-9).ceil().max(0.0) as usize;
        let last = ((high / apart + 1e-9).floor() as usize).min(segment / 2);
        if first > last {
            return Err(Error::argument(format!(
                "frequencies: expected a band with one of those of a segment of {segment} samples, which are {apart} Hz apart, got {low} to {high} Hz; a longer segment has more"
            )));
        }
        Ok(Self::Coherence {
            segment,
            first,
            last,
            peak,
        })
    }

    /// True if small values are strong: an edge does not exceed the threshold.
    pub fn is_distance(self) -> bool {
        matches!(
            self,
            Self::Euclidean { .. } | Self::Distance { .. } | Self::Warping { .. }
        )
    }

    /// True if windows are computed each by itself, and a window's pairs all at once.
    pub(crate) fn by_window(self) -> bool {
        matches!(
            self,
            Self::Partial | Self::Coherence { .. } | Self::Distance { .. } | Self::Warping { .. }
        )
    }

    /// True when values may be negative, so that a sign can be asked for.
    pub(crate) fn signed(self) -> bool {
        matches!(
            self,
            Self::Pearson
                | Self::Covariance
                | Self::Spearman
                | Self::Kendall
                | Self::Lagged { .. }
                | Self::Partial
                | Self::SpikeTiling { .. }
        )
    }

    /// Largest magnitude a value can have.
    pub(crate) fn largest(self) -> f64 {
        match self {
            Self::Covariance | Self::GaussianInformation => f64::INFINITY,
            _ if self.is_distance() => f64::INFINITY,
            _ => 1.0,
        }
    }
}

/// Which of the values count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sign {
    /// All values, by magnitude.
    #[default]
    Both,
    /// Positive ones only.
    Positive,
    /// Negative ones only, by magnitude.
    Negative,
}

impl Sign {
    /// The size of a value, which is compared with the threshold.
    #[inline]
    pub(crate) fn size(self, value: f64) -> f64 {
        match self {
            Self::Both => value.abs(),
            Self::Positive => value,
            Self::Negative => -value,
        }
    }

    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Positive => "pos",
            Self::Negative => "neg",
        }
    }

    /// The sign of this name; `None` where there is none.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Both, Self::Positive, Self::Negative]
            .into_iter()
            .find(|s| s.name() == name)
    }
}

/// Weights of the samples of a window, by their place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Taper {
    /// All the same.
    #[default]
    Rectangular,
    /// sin²(π(t + ½)/W): little at the ends, so that no sample enters or leaves with a jump.
    Hann,
}

impl Taper {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rectangular => "rectangular",
            Self::Hann => "hann",
        }
    }

    /// The taper of this name; `None` where there is none.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Rectangular, Self::Hann]
            .into_iter()
            .find(|t| t.name() == name)
    }

    /// The weight of each of `length` samples, above 0 and at most 1.
    ///
    /// ```
    /// use betz_network::Taper;
    ///
    /// let weights = Taper::Hann.weights(3);
    /// assert!((weights[0] - 0.25).abs() < 1e-12 && weights[1] == 1.0);
    /// assert_eq!(Taper::Rectangular.weights(2), [1.0, 1.0]);
    /// ```
    pub fn weights(self, length: usize) -> Vec<f64> {
        (0..length)
            .map(|t| match self {
                Self::Rectangular => 1.0,
                Self::Hann => {
                    let sin = (std::f64::consts::PI * (t as f64 + 0.5) / length as f64).sin();
                    sin * sin
                }
            })
            .collect()
    }
}

/// Which pairs are edges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Values that reach this one (for distances: that do not exceed it).
    Absolute(f64),
    /// The strongest pairs of each window, this share of all pairs of nodes (rounded to the nearest
    /// whole number of pairs).
    Density(f64),
    /// This many strongest pairs of each window.
    Top(usize),
    /// Pairs that are among this many strongest of one of their two nodes, in each window.
    TopPerNode(usize),
}

/// Specification of a network.
///
/// ```
/// use betz_network::{NetworkSpec, Sign, Threshold, Window};
///
/// let spec = NetworkSpec::pearson(Window { length: 200, step: 1 })
///     .threshold(Threshold::Density(0.01))
///     .sign(Sign::Positive);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkSpec {
    /// Measure of similarity.
    pub measure: Measure,
    /// The samples of a window.
    pub window: Window,
    /// From which value on there is an edge. [`NetworkSpec::new`] sets an absolute 0.7.
    pub threshold: Threshold,
    /// Which values count.
    pub sign: Sign,
    /// Values must exceed an absolute threshold (the paper's rule) instead of reaching it.
    pub strict: bool,
    /// More edges than this, over all windows, are an error. 10⁹ unless set.
    pub max_edges: u64,
    /// Weights of the samples of a window (Pearson, and the information made of it).
    pub taper: Taper,
}

impl NetworkSpec {
    /// A network of `measure`: |value| ≥ 0.7, at most 10⁹ edges.
    pub fn new(measure: Measure, window: Window) -> Self {
        Self {
            measure,
            window,
            threshold: Threshold::Absolute(0.7),
            sign: Sign::Both,
            strict: false,
            max_edges: 1_000_000_000,
            taper: Taper::Rectangular,
        }
    }

    /// A network of Pearson correlations.
    pub fn pearson(window: Window) -> Self {
        Self::new(Measure::Pearson, window)
    }

    /// The same with another threshold.
    #[must_use]
    pub fn threshold(mut self, threshold: Threshold) -> Self {
        self.threshold = threshold;
        self
    }

    /// The same for values of one sign.
    #[must_use]
    pub fn sign(mut self, sign: Sign) -> Self {
        self.sign = sign;
        self
    }

    /// The same with `strict`.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// The same with another limit of edges.
    #[must_use]
    pub fn max_edges(mut self, max_edges: u64) -> Self {
        self.max_edges = max_edges;
        self
    }

    /// The same with samples weighted by their place in the window: r = Σw(x−x̄)(y−ȳ) /
    /// √(Σw(x−x̄)² Σw(y−ȳ)²), x̄ = Σwx/Σw. Every window is summed from zero then: step 1 takes about W/2 times as
    /// long.
    #[must_use]
    pub fn taper(mut self, taper: Taper) -> Self {
        self.taper = taper;
        self
    }

    /// Refuses a specification that no network could be computed with, before there is a signal.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) naming the field that is out of range.
    pub fn check(&self) -> Result<()> {
        self.window.check()?;
        let name = self.measure.name();
        match self.threshold {
            Threshold::Absolute(value) => {
                let most = self.measure.largest();
                if !(value >= 0.0 && value <= most && value.is_finite()) {
                    return Err(Error::argument(format!(
                        "threshold of {name}: expected 0 to {most}, got {value}"
                    )));
                }
            }
            Threshold::Density(share) => {
                if !(share > 0.0 && share <= 1.0) {
                    return Err(Error::argument(format!(
                        "density: expected more than 0 and at most 1 (all pairs), got {share}"
                    )));
                }
            }
            Threshold::Top(count) | Threshold::TopPerNode(count) => {
                if count == 0 {
                    return Err(Error::argument(
                        "strongest pairs: expected at least 1, got 0",
                    ));
                }
            }
        }
        if self.strict && !matches!(self.threshold, Threshold::Absolute(_)) {
            return Err(Error::argument(
                "strict: expected an absolute threshold, because values can equal no other",
            ));
        }
        if self.sign != Sign::Both && !self.measure.signed() {
            return Err(Error::argument(format!(
                "sign: expected both for {name}, whose values have none, got {}",
                self.sign.name()
            )));
        }
        if self.taper != Taper::Rectangular
            && !matches!(
                self.measure,
                Measure::Pearson | Measure::GaussianInformation
            )
        {
            return Err(Error::argument(format!(
                "taper: expected the measure pearson or gaussian-information, got {name}"
            )));
        }
        match self.measure {
            Measure::Euclidean { hold: 0 } => {
                Err(Error::argument("hold: expected at least 1 window, got 0"))
            }
            Measure::Distance { near, .. } if !(1..=self.window.length).contains(&near) => {
                Err(Error::argument(format!(
                    "near: expected 1 to {} samples, those of a window, got {near}",
                    self.window.length
                )))
            }
            Measure::Distance { near, gap, .. } if gap >= near => Err(Error::argument(format!(
                "gap: expected fewer samples than near, {near}, got {gap}"
            ))),
            Measure::Kendall if self.window.length > LONGEST_KENDALL => {
                Err(Error::argument(format!(
                    "window of kendall: expected at most {LONGEST_KENDALL} samples, got {}; take every n-th sample, or spearman",
                    self.window.length
                )))
            }
            Measure::Coherence {
                segment,
                first,
                last,
                ..
            } => check_segment(self.window.length, segment, (first, last)),
            Measure::Lagged { lags } if lags > i16::MAX as usize => Err(Error::argument(format!(
                "lags: expected at most {} samples, got {lags}",
                i16::MAX
            ))),
            _ => Ok(()),
        }
    }
}

/// Checks the segments and frequencies of coherence in windows of `length` samples.
fn check_segment(length: usize, segment: usize, (first, last): (usize, usize)) -> Result<()> {
    // Two segments, the second half over the first.
    let most = length * 2 / 3;
    if most < 4 {
        return Err(Error::argument(format!(
            "window of coherence: expected at least 6 samples, got {length}"
        )));
    }
    if !(4..=most).contains(&segment) {
        return Err(Error::argument(format!(
            "segment: expected 4 to {most} samples, so that a window of {length} has two segments, got {segment}"
        )));
    }
    if first > last || last > segment / 2 {
        return Err(Error::argument(format!(
            "frequencies: expected 0 to {} cycles per segment, the lower one first, got {first} to {last}",
            segment / 2
        )));
    }
    Ok(())
}
