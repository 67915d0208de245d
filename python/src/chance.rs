//! Tests of episodes against surrogates, as `betz mine --surrogates` makes them.

use betz::device::{DeferredPlacement, Device};
use betz::episode::significance::{ChainTest, EpisodeTest, TestEvents, TestNames, Workers};
use betz::episode::{Events, Frequency, MiningResult};
use betz::team::Alone;
use betz::{Progress, Result};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arguments::{optional_number, optional_seconds, optional_whole};
use crate::error::OrRaise;

/// The options by their names in Python.
const NAMES: TestNames = TestNames {
    surrogates: "surrogates",
    dither: "dither_seconds",
    shuffle: "shuffle",
    fdr: "fdr",
    parts: "parts",
};

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
    test: EpisodeTest,
}

impl Chance {
    /// The test of counts by `frequency`, whose span is not on a clock yet; `None` without surrogates.
    pub(crate) fn of(
        py: Python<'_>,
        asked: &ChanceArguments<'_, '_>,
        frequency: Frequency,
    ) -> PyResult<Option<Self>> {
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
        let test = EpisodeTest {
            surrogates,
            dither_seconds,
            shuffle: asked.shuffle,
            seed,
            fdr,
            parts: asked.parts,
            frequency,
        };
        test.check(&NAMES).or_raise(py)?;
        Ok(Some(Self { test }))
    }

    /// The test with counts by `frequency`, after a check that these events, of whose episodes the longest delay has
    /// `longest` ticks, have room for it.
    pub(crate) fn on(&self, events: &Events, frequency: Frequency, longest: i64) -> Result<Self> {
        let test = EpisodeTest {
            frequency,
            ..self.test
        };
        test.check_on(&NAMES, events.clock(), Some(events), longest)?;
        Ok(Self { test })
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
        let placement = DeferredPlacement::new(device);
        let workers = Workers {
            team: &Alone,
            placement: &placement,
        };
        let prepared = self.test.prepare(events.clock(), &mined.episodes)?;
        let events = TestEvents::Held(events);
        let tested = prepared.run(workers, events, &mut mined.episodes, progress)?;
        let none = tested.none_passed(&self.test, &NAMES);
        Ok((tested.rows, none))
    }
}
