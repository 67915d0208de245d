//! Numbers that are drawn: of neurons, of synapses, of potentials at the start.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use betz_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::math::exp;
use crate::random::{NORMAL_LIMIT, Normal, unit};

/// Draws within bounds, at most; bounds that hold less than a hundredth of a distribution are refused.
const MOST_DRAWS: u32 = 10_000;
/// Least part of a distribution that its bounds must hold.
const LEAST_PART: f64 = 0.01;

/// A number, or how to draw one. A draw is a function of the network's seed and of its place (population, parameter and
/// neuron, or synapse): the same on any device and any number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a number, a list of one number per neuron, {\"file\": PATH}, or a distribution such as {\"mean\": 1, \"sd\": 0.1}"
)]
pub enum Draw {
    /// Always the same.
    Constant(f64),
    /// Normally distributed. Weights are drawn again until they have the mean's sign; delays are
    /// rounded to steps and drawn again until they are one at least.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
    /// Uniform.
    Uniform {
        /// Least.
        low: f64,
        /// Largest.
        high: f64,
    },
    /// Normal, drawn again until it is within bounds.
    ClippedNormal {
        /// Mean of the distribution without bounds.
        mean: f64,
        /// Standard deviation of the distribution without bounds.
        sd: f64,
        /// Least.
        low: f64,
        /// Largest.
        high: f64,
    },
    /// Log-normal: the median times e^(log_sd · z) with a standard normal z.
    LogNormal {
        /// Median; its sign is that of all draws.
        median: f64,
        /// Standard deviation of the logarithm.
        log_sd: f64,
    },
    /// Log-normal, drawn again until it is within bounds.
    ClippedLogNormal {
        /// Median of the distribution without bounds.
        median: f64,
        /// Standard deviation of the logarithm without bounds.
        log_sd: f64,
        /// Least.
        low: f64,
        /// Largest.
        high: f64,
    },
    /// Not drawn: one value per neuron of the population. Weights and delays take none; [`Rule::List`](crate::Rule) lists
    /// synapses.
    Listed(Values),
    /// The same from a file with a number per line; a first line may be a title. [`Network::load`](crate::Network::load)
    /// reads it.
    File {
        /// Its path.
        file: PathBuf,
    },
}

/// Values of a population's neurons, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Values(Arc<[f64]>);

impl Values {
    /// The values.
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }
}

impl From<Vec<f64>> for Values {
    fn from(values: Vec<f64>) -> Self {
        Self(values.into())
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        Vec::<f64>::deserialize(from).map(Self::from)
    }
}

impl From<Vec<f64>> for Draw {
    fn from(values: Vec<f64>) -> Self {
        Self::Listed(values.into())
    }
}

impl From<f64> for Draw {
    fn from(value: f64) -> Self {
        Self::Constant(value)
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write!(f, "{value}"),
            Self::Normal { mean, sd } => write!(f, "{mean} ± {sd}"),
            Self::Uniform { low, high } => write!(f, "{low} to {high}"),
            Self::ClippedNormal {
                mean,
                sd,
                low,
                high,
            } => {
                write!(f, "{mean} ± {sd} within {low} to {high}")
            }
            Self::LogNormal { median, log_sd } => write!(f, "{median} × e^(± {log_sd})"),
            Self::ClippedLogNormal {
                median,
                log_sd,
                low,
                high,
            } => write!(f, "{median} × e^(± {log_sd}) within {low} to {high}"),
            Self::Listed(values) => {
                let (low, high) = ends(values.as_slice());
                write!(f, "{low} to {high} ({} values)", values.0.len())
            }
            Self::File { file } => write!(f, "values of {}", file.display()),
        }
    }
}

impl Draw {
    /// The value of a draw that is always the same.
    pub fn constant(&self) -> Option<f64> {
        match *self {
            Self::Constant(value) => Some(value),
            Self::Normal { mean, sd: 0.0 } => Some(mean),
            Self::Uniform { low, high } if low == high => Some(low),
            Self::Listed(ref values) => {
                let first = *values.0.first()?;
                values.0.iter().all(|v| *v == first).then_some(first)
            }
            _ => None,
        }
    }

    /// Least and largest value that can be drawn.
    ///
    /// # Errors
    /// `InvalidArgument` for numbers that are not finite, a negative deviation, bounds in the wrong order, or bounds that
    /// hold less than a hundredth of the distribution.
    pub fn bounds(&self) -> Result<(f64, f64)> {
        let refuse = |words: &str| Err(Error::argument(format!("expected {words}, got {self}")));
        let spread = |median: f64, log_sd: f64| {
            let factor = (NORMAL_LIMIT * log_sd).exp();
            let ends = (median * factor, median / factor);
            (ends.0.min(ends.1), ends.0.max(ends.1))
        };
        let finite = |all: &[f64]| all.iter().all(|v| v.is_finite());
        let ends = match *self {
            Self::Constant(value) => (value, value),
            Self::Normal { mean, sd } | Self::ClippedNormal { mean, sd, .. } => {
                if !(finite(&[mean, sd]) && sd >= 0.0) {
                    return refuse("a finite mean and sd >= 0");
                }
                (mean - NORMAL_LIMIT * sd, mean + NORMAL_LIMIT * sd)
            }
            Self::Uniform { low, high } => (low, high),
            Self::LogNormal { median, log_sd } | Self::ClippedLogNormal { median, log_sd, .. } => {
                if !(finite(&[median]) && median != 0.0 && (0.0..=10.0).contains(&log_sd)) {
                    return refuse("a finite median other than 0 and log_sd of 0 to 10");
                }
                spread(median, log_sd)
            }
            Self::Listed(ref values) => {
                if let Some(i) = values.0.iter().position(|v| !v.is_finite()) {
                    return Err(Error::argument(format!(
                        "expected finite numbers, got {} of neuron {i}",
                        values.0[i]
                    )));
                }
                ends(values.as_slice())
            }
            Self::File { ref file } => {
                return Err(Error::argument(format!(
                    "expected a file that has been read, got {}: Network::load reads files",
                    file.display()
                )));
            }
        };
        let (low, high) = match *self {
            Self::ClippedNormal { low, high, .. } | Self::ClippedLogNormal { low, high, .. } => {
                (ends.0.max(low), ends.1.min(high))
            }
            _ => ends,
        };
        if !(finite(&[low, high]) && low <= high) {
            return refuse("finite numbers with low <= high");
        }
        if self.part_within(low, high) < LEAST_PART {
            return refuse("bounds that hold at least a hundredth of the distribution");
        }
        Ok((low, high))
    }

    /// Part of a clipped distribution that lies within its bounds.
    fn part_within(&self, low: f64, high: f64) -> f64 {
        // By counting: 4,096 equal parts of the distribution.
        let within = |value: &dyn Fn(f64) -> f64| {
            let normal = Normal::new();
            let parts = 4096u32;
            let inside = (0..parts).filter(|k| {
                // The last bit is the sign, the others are a tail's probability.
                let word = (k >> 1) << 21 | 1 << 20 | (k & 1);
                (low..=high).contains(&value(f64::from(normal.quantile(word))))
            });
            inside.count() as f64 / f64::from(parts)
        };
        match *self {
            Self::ClippedNormal { mean, sd, .. } => within(&|z| mean + sd * z),
            Self::ClippedLogNormal { median, log_sd, .. } => {
                within(&|z| median * (log_sd * z).exp())
            }
            _ => 1.0,
        }
    }

    /// The same in a unit that is `factor` times smaller, `factor` above 0.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        match &mut scaled {
            Self::Constant(value) => *value *= factor,
            Self::Normal { mean, sd } => (*mean, *sd) = (*mean * factor, *sd * factor),
            Self::Uniform { low, high } => (*low, *high) = (*low * factor, *high * factor),
            Self::ClippedNormal {
                mean,
                sd,
                low,
                high,
            } => {
                (*mean, *sd) = (*mean * factor, *sd * factor);
                (*low, *high) = (*low * factor, *high * factor);
            }
            Self::LogNormal { median, .. } => *median *= factor,
            Self::ClippedLogNormal {
                median, low, high, ..
            } => {
                *median *= factor;
                (*low, *high) = (*low * factor, *high * factor);
            }
            Self::Listed(values) => {
                *values = values
                    .0
                    .iter()
                    .map(|v| v * factor)
                    .collect::<Vec<_>>()
                    .into()
            }
            Self::File { .. } => {}
        }
        scaled
    }

    /// Refuses a list that does not have a value for each of `neurons`.
    ///
    /// # Errors
    /// `InvalidArgument` with both numbers.
    pub(crate) fn check_length(&self, neurons: u32) -> Result<()> {
        match self {
            Self::Listed(values) if values.0.len() != neurons as usize => {
                Err(Error::argument(format!(
                    "expected one value per neuron, {neurons}, got {}",
                    values.0.len()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Refuses lists, where there is no population's neuron to give each value to.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn refuse_list(&self) -> Result<()> {
        match self {
            Self::Listed(_) | Self::File { .. } => Err(Error::argument(format!(
                "expected a number or a distribution, got {self}: the rule \"list\" gives each synapse its own"
            ))),
            _ => Ok(()),
        }
    }

    /// Least and largest value of neuron `own`.
    pub(crate) fn bounds_of(&self, own: usize) -> Result<(f64, f64)> {
        match self {
            Self::Listed(values) => {
                let value = values.0.get(own).copied().unwrap_or(f64::NAN);
                Ok((value, value))
            }
            _ => self.bounds(),
        }
    }

    /// Replaces the name of a file by the values that it holds.
    ///
    /// # Errors
    /// `Io`, and `InvalidRecording` naming file and line.
    pub(crate) fn read_file(&mut self, folder: &Path) -> Result<()> {
        let Self::File { file } = self else {
            return Ok(());
        };
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).map_err(|e| Error::io("reading", &path, &e))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).trim_end();
        let mut values = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            match line.trim().parse::<f64>() {
                Ok(value) => values.push(value),
                // A title. What has a digit is a number that is not written as one.
                Err(_) if number == 1 && !line.contains(|c: char| c.is_ascii_digit()) => {}
                Err(_) => {
                    return Err(Error::new(
                        ErrorKind::InvalidRecording,
                        format!(
                            "{}: line {number}: expected a number, got {line:?}",
                            path.display()
                        ),
                    ));
                }
            }
        }
        *self = values.into();
        Ok(())
    }

    /// A draw for neuron `own` of a population by random words: `word(0)`, and the next ones where it is drawn again. Values
    /// of a list are there for each neuron once [`Draw::check_length`] has passed.
    pub(crate) fn of_neuron(&self, own: u32, word: impl FnMut(u32) -> u32, normal: &Normal) -> f64 {
        match self {
            Self::Listed(values) => values.0.get(own as usize).copied().unwrap_or(f64::NAN),
            _ => self.sample(word, normal),
        }
    }

    /// A draw by random words: `word(0)`, and the next ones where it is drawn again. Of a list, which only neurons have, NaN.
    pub(crate) fn sample(&self, mut word: impl FnMut(u32) -> u32, normal: &Normal) -> f64 {
        let log = |median: f64, log_sd: f64, z: f32| {
            median * f64::from(exp((log_sd * f64::from(z)) as f32))
        };
        match *self {
            Self::Constant(value) => value,
            Self::Normal { mean, sd } => mean + sd * f64::from(normal.quantile(word(0))),
            Self::Uniform { low, high } => low + (high - low) * unit(word(0)),
            Self::LogNormal { median, log_sd } => log(median, log_sd, normal.quantile(word(0))),
            Self::ClippedNormal {
                mean,
                sd,
                low,
                high,
            } => within(low, high, |again| {
                mean + sd * f64::from(normal.quantile(word(again)))
            }),
            Self::ClippedLogNormal {
                median,
                log_sd,
                low,
                high,
            } => within(low, high, |again| {
                log(median, log_sd, normal.quantile(word(again)))
            }),
            Self::Listed(_) | Self::File { .. } => f64::NAN,
        }
    }
}

/// Least and largest of some values; NaN of none.
fn ends(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::NAN, f64::min);
    let largest = values.iter().copied().fold(f64::NAN, f64::max);
    (least, largest)
}

/// Draws until a value is within bounds.
fn within(low: f64, high: f64, mut draw: impl FnMut(u32) -> f64) -> f64 {
    for again in 0..MOST_DRAWS {
        let value = draw(again);
        if (low..=high).contains(&value) {
            return value;
        }
    }
    // A chance of 10⁻⁴³ where the bounds hold a hundredth.
    draw(MOST_DRAWS).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Words};

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        let (normal, words) = (Normal::new(), Words::new(7, Purpose::Start));
        let n = 40_000u32;
        let moments = |draw: Draw| {
            let (low, high) = draw.bounds().unwrap();
            let values: Vec<f64> = (0..n)
                .map(|i| draw.sample(|again| words.at([i, 0, 0], again)[0], &normal))
                .collect();
            assert!(values.iter().all(|v| (low..=high).contains(v)), "{draw}");
            let mean = values.iter().sum::<f64>() / f64::from(n);
            let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            (mean, (square / f64::from(n)).sqrt())
        };
        let close = |(mean, sd): (f64, f64), (m, s): (f64, f64)| {
            let error = 4.0 * s / f64::from(n).sqrt();
            assert!((mean - m).abs() < error, "{mean} {m}");
            assert!((sd / s - 1.0).abs() < 0.03, "{sd} {s}");
        };
        close(moments(Draw::Normal { mean: 3.0, sd: 2.0 }), (3.0, 2.0));
        close(
            moments(Draw::Uniform {
                low: -1.0,
                high: 3.0,
            }),
            (1.0, 4.0 / 12f64.sqrt()),
        );
        let s = 0.3f64;
        let mean = 2.0 * (s * s / 2.0).exp();
        let sd = mean * ((s * s).exp() - 1.0).sqrt();
        close(
            moments(Draw::LogNormal {
                median: 2.0,
                log_sd: s,
            }),
            (mean, sd),
        );
        // A half-normal: mean √(2/π), variance 1 − 2/π.
        let half = Draw::ClippedNormal {
            mean: 0.0,
            sd: 1.0,
            low: 0.0,
            high: 9.0,
        };
        let part = 2.0 / std::f64::consts::PI;
        close(moments(half), (part.sqrt(), (1.0 - part).sqrt()));
    }

    #[test]
    fn draws_that_are_none_are_refused() {
        for draw in [
            Draw::Constant(f64::NAN),
            Draw::Normal {
                mean: 0.0,
                sd: -1.0,
            },
            Draw::Uniform {
                low: 1.0,
                high: 0.0,
            },
            Draw::LogNormal {
                median: 0.0,
                log_sd: 1.0,
            },
            Draw::LogNormal {
                median: 1.0,
                log_sd: 99.0,
            },
            Draw::ClippedNormal {
                mean: 0.0,
                sd: 1.0,
                low: 3.0,
                high: 4.0,
            },
            Draw::ClippedNormal {
                mean: 0.0,
                sd: 1.0,
                low: 1.0,
                high: -1.0,
            },
        ] {
            assert!(draw.bounds().is_err(), "{draw:?}");
        }
        for text in [
            "{\"mean\": 1}",
            "{\"mean\": 1, \"sd\": 1, \"lo\": 0}",
            "\"a\"",
        ] {
            assert!(serde_json::from_str::<Draw>(text).is_err(), "{text}");
        }
        for text in [
            "2.5",
            "{\"mean\":1.0,\"sd\":2.0}",
            "{\"mean\":1.0,\"sd\":2.0,\"low\":0.0,\"high\":3.0}",
        ] {
            let draw: Draw = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&draw).unwrap(), text);
        }
    }
}
