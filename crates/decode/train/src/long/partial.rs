//! Sums over a part of a recording, exact under merging.

use betz_base::error::{Error, Result};
use betz_runtime::model::Decoder;

use super::words::{Words, put_extremes, put_usual};
use crate::limits::{Extremes, NO_LABEL, widen};
use crate::sums::fixed;
use crate::usual_counts::UsualCounts;
use betz_gram::gram::{GramPath, NormalEquations};

/// Facts of chunks besides their sums.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    /// Number of the bank.
    pub(super) bank: usize,
    /// Features and outputs.
    pub(super) shape: (usize, usize),
    /// Of the chunks' own steps, without artefacts.
    pub(super) usual: UsualCounts,
    pub(super) extremes: Vec<Extremes>,
    /// The largest response, where it is asked for.
    pub(super) largest: f64,
    pub(super) artefacts: u64,
    pub(super) spikes: u64,
    pub(super) path: Option<GramPath>,
}

/// Sums over the steps of a fold, or of all.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) steps: u64,
    /// As [`Sums`](crate::sums::Sums) keeps them.
    pub(super) values: Vec<i128>,
}

impl Group {
    /// Over no step.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub(super) fn nothing((features, outputs): (usize, usize)) -> Result<Self> {
        let count = fixed::len(features, outputs).unwrap_or(usize::MAX);
        let mut values = Vec::new();
        (values.try_reserve_exact(count))
            .map_err(|_| Error::no_memory("sums", count.saturating_mul(16)))?;
        values.resize(count, 0);
        Ok(Self { steps: 0, values })
    }

    /// Adds sums in f64, each rounded once.
    pub(super) fn add(&mut self, sums: &NormalEquations) -> Result<()> {
        self.steps += sums.steps;
        for (value, units) in self.values.iter_mut().zip(fixed::each_unit(sums)) {
            *value += units?;
        }
        Ok(())
    }

    /// Takes away sums of steps that are in here.
    pub(super) fn subtract(&mut self, sums: &NormalEquations) -> Result<()> {
        self.steps = self.steps.saturating_sub(sums.steps);
        for (value, units) in self.values.iter_mut().zip(fixed::each_unit(sums)) {
            *value -= units?;
        }
        Ok(())
    }

    pub(super) fn equations(&self, shape: (usize, usize)) -> NormalEquations {
        fixed::to_equations(&self.values, shape, self.steps)
    }
}

impl Facts {
    /// Facts of no chunk.
    pub(super) fn nothing(bank: usize, shape: (usize, usize), channels: usize) -> Self {
        Self {
            bank,
            shape,
            usual: UsualCounts {
                counts: vec![0; channels],
                ..UsualCounts::default()
            },
            extremes: vec![NO_LABEL; shape.1],
            largest: 0.0,
            artefacts: 0,
            spikes: 0,
            path: None,
        }
    }

    /// All of it, to be sent.
    pub(super) fn to_words(&self) -> Vec<u64> {
        let path = self.path.map_or(0, code);
        let mut to = vec![self.bank as u64, self.shape.0 as u64, self.shape.1 as u64];
        to.extend([self.largest.to_bits(), self.artefacts, self.spikes, path]);
        put_usual(&mut to, &self.usual);
        put_extremes(&mut to, &self.extremes);
        to
    }

    /// Takes in those of other chunks.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for those of another bank or other channels, and for words
    /// that are none.
    pub(super) fn absorb(&mut self, words: &[u64]) -> Result<()> {
        let mut from = Words(words);
        let about = [from.next()?, from.next()?, from.next()?];
        let own = [self.bank, self.shape.0, self.shape.1].map(|v| v as u64);
        if about != own {
            return Err(Error::mismatch(format!(
                "sums: expected those of the same bank, features and outputs, {own:?}, got {about:?}"
            )));
        }
        self.largest = self.largest.max(from.f64()?);
        self.artefacts += from.next()?;
        self.spikes += from.next()?;
        let path = path(from.next()?);
        self.path = self.path.or(path);
        self.usual.add(&from.usual()?);
        widen(&mut self.extremes, from.extremes()?.into_iter());
        Ok(())
    }
}

/// A path to Γ as a word; 0 for none in particular.
pub(super) const fn code(path: GramPath) -> u64 {
    match path {
        GramPath::Auto => 0,
        GramPath::Dense => 1,
        GramPath::Event => 2,
    }
}

/// The inverse of [`code`].
pub(super) const fn path(code: u64) -> Option<GramPath> {
    match code {
        1 => Some(GramPath::Dense),
        2 => Some(GramPath::Event),
        _ => None,
    }
}

/// Sums, ridge and fold decoders of the best bank so far.
pub(super) struct BestBank {
    pub(super) facts: Facts,
    /// Mean R² of the held-out steps.
    pub(super) r2: f64,
    /// Ridge for the whole; `None` unless folds chose it.
    pub(super) ridge: Option<f64>,
    /// Sums over all groups; `None` unless they make up the whole.
    pub(super) total: Option<Group>,
    /// One decoder per fold.
    pub(super) decoders: Vec<Decoder>,
}
