//! Tests of episodes against surrogates, as `betz mine --surrogates` makes them.

use betz::device::{DeferredPlacement, Device};
use betz::episode::significance::{
    ChainOptions, ChainTest, PartOptions, Significance, SignificanceOptions, Surrogate, Workers,
    chains_by, significance_by,
};
use betz::episode::{Events, MiningResult, Pattern};
use betz::team::Alone;
use betz::{Progress, Result};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arguments::{optional_number, optional_seconds, optional_whole};

/// Dithering moves events by up to so many times the longest delay, unless told otherwise.
const DITHER: i64 = 4;
/// Parts are shifted against the rest by at least, and at most, so many times the longest delay.
const SHIFTS: (i64, i64) = (20, 200);

/// Arguments of a test, as they come from Python.
pub(crate) struct ChanceArguments<'a, 'py> {
    pub(crate) surrogates: Option<&'a Bound<'py, PyAny>>,
    pub(crate) dither_seconds: Option<&'a Bound<'py, PyAny>>,
    pub(crate) shuffle: bool,
    pub(crate) seed: i64,
    pub(crate) fdr: Option<&'a Bound<'py, PyAny>>,
    pub(crate) parts: bool,
}

/// A test against surrogates.
pub(crate) struct Chance {
    surrogates: u32,
    dither_seconds: Option<f64>,
    shuffle: bool,
    seed: u64,
    fdr: Option<f64>,
    parts: bool,
}

impl Chance {
    /// `None` without surrogates.
    pub(crate) fn of(asked: &ChanceArguments<'_, '_>) -> PyResult<Option<Self>> {
        let value = |message: String| Err(PyValueError::new_err(message));
        let surrogates = optional_whole("surrogates", asked.surrogates)?;
        let dither_seconds = optional_seconds("dither_seconds", asked.dither_seconds)?;
        let fdr = optional_number("fdr", asked.fdr)?;
        let seed = u64::try_from(asked.seed);
        let Ok(seed) = seed else {
            return value(format!(
                "seed: expected a whole number of at least 0, got {}",
                asked.seed
            ));
        };
        let Some(surrogates) = surrogates else {
            let given = [
                ("dither_seconds", dither_seconds.is_some()),
                ("shuffle", asked.shuffle),
                ("fdr", fdr.is_some()),
                ("parts", asked.parts),
            ];
            return match given.into_iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((name, _)) => Err(PyTypeError::new_err(format!(
                    "{name}: expected surrogates=, a number of surrogates, beside it, got none"
                ))),
            };
        };
        let Some(surrogates) = u32::try_from(surrogates).ok().filter(|n| *n > 0) else {
            return value(format!(
                "surrogates: expected 1 to {}, got {surrogates}",
                u32::MAX
            ));
        };
        if let Some(fdr) = fdr {
            if !(fdr > 0.0 && fdr <= 1.0) {
                return value(format!(
                    "fdr: expected a rate above 0 and up to 1, got {fdr}"
                ));
            }
            // No p, and so no q, is below 1 / (surrogates + 1).
            if fdr * (f64::from(surrogates) + 1.0) < 1.0 - 1e-9 {
                return value(format!(
                    "fdr {fdr}: expected surrogates of at least {:.0}, because q is never below 1 / (surrogates + 1), got {surrogates}",
                    (1.0 / fdr - 1e-9).ceil() - 1.0
                ));
            }
        } else if asked.parts {
            return value("parts: expected fdr= beside it, got none".to_owned());
        }
        if let Some(seconds) = dither_seconds {
            if !(seconds > 0.0 && seconds.is_finite()) {
                return value(format!(
                    "dither_seconds: expected a finite number of seconds above 0, got {seconds}"
                ));
            }
            if asked.shuffle {
                return value("shuffle: expected no dither_seconds beside it, got both".to_owned());
            }
        }
        Ok(Some(Self {
            surrogates,
            dither_seconds,
            shuffle: asked.shuffle,
            seed,
            fdr,
            parts: asked.parts,
        }))
    }

    /// Refuses a test that these events, of whose episodes the longest delay has `longest` ticks, have no room for.
    pub(crate) fn check(&self, events: &Events, longest: i64) -> Result<()> {
        let surrogate = self.surrogate(events, longest)?;
        surrogate.check().map_err(|e| e.at("dither_seconds"))?;
        if self.parts {
            let shifts = self.shifts(longest);
            shifts.check(events).map_err(|e| e.at("parts"))?;
        }
        Ok(())
    }

    fn surrogate(&self, events: &Events, longest: i64) -> Result<Surrogate> {
        if self.shuffle {
            return Ok(Surrogate::ShuffleIntervals);
        }
        let delta = match self.dither_seconds {
            None => longest.saturating_mul(DITHER),
            Some(seconds) => {
                let ticks = events.clock().ticks_floor(seconds);
                ticks.map_err(|e| e.at("dither_seconds"))?
            }
        };
        Ok(Surrogate::Dither { delta })
    }

    fn shifts(&self, longest: i64) -> PartOptions {
        PartOptions {
            shifts: self.surrogates,
            least: longest.saturating_mul(SHIFTS.0),
            most: longest.saturating_mul(SHIFTS.1),
            seed: self.seed,
        }
    }

    /// Tests the episodes that were mined, and keeps those that pass: one test per episode that stays, `None` for single
    /// symbols. The message, if none of several has passed.
    pub(crate) fn run(
        &self,
        events: &Events,
        device: &Device,
        mined: &mut MiningResult,
        progress: &dyn Progress,
    ) -> Result<(Vec<Option<ChainTest>>, Option<String>)> {
        let several = |pattern: &Pattern| pattern.size() > 1;
        let patterns = mined.episodes.iter().map(|e| &e.pattern);
        let patterns: Vec<Pattern> = patterns.filter(|p| several(p)).cloned().collect();
        let placement = DeferredPlacement::new(device);
        let workers = Workers {
            team: &Alone,
            placement: &placement,
        };
        let tests = self.tests(workers, events, &patterns, progress)?;
        let tested = tests.iter().flatten().count();
        let mut tests = tests.into_iter();
        let mut rows: Vec<Option<ChainTest>> = (mined.episodes.iter())
            .map(|e| {
                several(&e.pattern)
                    .then(|| tests.next())
                    .flatten()
                    .flatten()
            })
            .collect();
        let Some(fdr) = self.fdr else {
            return Ok((rows, None));
        };
        let passed: Vec<bool> = (rows.iter())
            .map(|row| row.as_ref().is_some_and(|test| test.passed))
            .collect();
        keep(&mut rows, &passed);
        keep(&mut mined.episodes, &passed);
        let none = (rows.is_empty() && tested > 0).then(|| {
            format!(
                "no episode passes; to tell k of {tested} at fdr={fdr} from chance takes {:.0}/k surrogates or more, and there were {}",
                (tested as f64 / fdr).ceil(),
                self.surrogates
            )
        });
        Ok((rows, none))
    }

    fn tests(
        &self,
        workers: Workers<'_>,
        events: &Events,
        patterns: &[Pattern],
        progress: &dyn Progress,
    ) -> Result<Vec<Option<ChainTest>>> {
        let delays = patterns.iter().flat_map(Pattern::intervals);
        let longest = delays.map(|delay| delay.high).max().unwrap_or(1);
        let surrogate = self.surrogate(events, longest)?;
        if self.parts {
            let shifts = self.shifts(longest);
            let options = ChainOptions {
                surrogate,
                draws: self.surrogates,
                shifts: (shifts.least, shifts.most),
                rate: self.fdr.unwrap_or(1.0),
                seed: self.seed,
            };
            return chains_by(workers, events, patterns, &options, progress);
        }
        let options = SignificanceOptions {
            surrogate,
            surrogates: self.surrogates,
            seed: self.seed,
        };
        let tested = significance_by(workers, events, patterns, &options, progress)?;
        let row = |surrogates: Significance| {
            Some(ChainTest {
                surrogates,
                parts: None,
                passed: self.fdr.is_none_or(|fdr| surrogates.q <= fdr),
            })
        };
        Ok(tested.into_iter().map(row).collect())
    }
}

fn keep<T>(items: &mut Vec<T>, passed: &[bool]) {
    let mut passed = passed.iter();
    items.retain(|_| passed.next().is_some_and(|&passed| passed));
}
