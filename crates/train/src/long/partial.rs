//! Sums over a part of a recording, exact under merging.

use betz_base::error::{Error, ErrorKind, Result};

use super::words::{Words, put_extremes, put_usual};
use crate::blank::Usual;
use crate::gram::{GramPath, NormalEquations};
use crate::limits::{Extremes, widen};
use crate::sums::fixed;

/// What a stretch, or several, adds to the sums of each group of steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Partial {
    /// Of which bank.
    pub(super) bank: usize,
    pub(super) shape: (usize, usize),
    pub(super) groups: Vec<Group>,
    /// Of the stretches' own steps, without artefacts.
    pub(super) usual: Usual,
    pub(super) extremes: Vec<Extremes>,
    /// The largest response, where it is asked for.
    pub(super) largest: f64,
    pub(super) artefacts: u64,
    pub(super) spikes: u64,
    pub(super) path: Option<GramPath>,
}

/// The steps of a fold, or all.
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
    /// [`ErrorKind::OutOfMemory`].
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
        let units = fixed::units(sums)?;
        self.values.iter_mut().zip(units).for_each(|(a, b)| *a += b);
        Ok(())
    }

    pub(super) fn equations(&self, shape: (usize, usize)) -> NormalEquations {
        fixed::to_equations(&self.values, shape, self.steps)
    }
}

impl Partial {
    /// Takes in another of the same bank and groups; no order makes a difference.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for one of another bank, other channels or groups; [`ErrorKind::NonFinite`] when a
    /// sum leaves its range.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.absorb(&other.to_words())?;
        for group in 0..self.groups.len() {
            self.add_values(group, 0, &other.groups[group].values)?;
        }
        Ok(())
    }

    /// Number of groups, each with a list of [`values`](Self::values).
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// A group's sums, whole numbers of 2⁻⁶⁴: what is to be exchanged beside [`to_words`](Self::to_words).
    ///
    /// # Panics
    /// When there is no such group.
    pub fn values(&self, group: usize) -> &[i128] {
        &self.groups[group].values
    }

    /// [`values`](Self::values), to be replaced by what another machine has summed.
    ///
    /// # Panics
    /// When there is no such group.
    pub fn values_mut(&mut self, group: usize) -> &mut [i128] {
        &mut self.groups[group].values
    }

    /// Adds another's values of a group from number `first` on.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for more of them than there are; [`ErrorKind::NonFinite`] when a sum leaves its range.
    pub fn add_values(&mut self, group: usize, first: usize, others: &[i128]) -> Result<()> {
        let own = self.groups.get_mut(group).map(|g| &mut g.values);
        let Some(own) = own.and_then(|v| v.get_mut(first..first + others.len())) else {
            return Err(Error::mismatch(format!(
                "sums: expected values of as many features, got {} at {first}",
                others.len()
            )));
        };
        for (own, other) in own.iter_mut().zip(others) {
            *own = own.checked_add(*other).ok_or_else(|| {
                Error::new(
                    ErrorKind::NonFinite,
                    "sums: expected them to stay below 2⁶³, got more",
                )
            })?;
        }
        Ok(())
    }

    /// All but the values, to be sent.
    pub fn to_words(&self) -> Vec<u64> {
        let path = match self.path {
            None | Some(GramPath::Auto) => 0,
            Some(GramPath::Dense) => 1,
            Some(GramPath::Event) => 2,
        };
        let mut to = vec![self.bank as u64, self.shape.0 as u64, self.shape.1 as u64];
        to.push(self.groups.len() as u64);
        to.extend(self.groups.iter().map(|group| group.steps));
        to.extend([self.largest.to_bits(), self.artefacts, self.spikes, path]);
        put_usual(&mut to, &self.usual);
        put_extremes(&mut to, &self.extremes);
        to
    }

    /// Takes in all but the values of another.
    ///
    /// # Errors
    /// As [`merge`](Self::merge), and [`ErrorKind::Mismatch`] for words that are none.
    pub fn absorb(&mut self, words: &[u64]) -> Result<()> {
        let mut from = Words(words);
        let about = [from.next()?, from.next()?, from.next()?, from.next()?];
        let own = [self.bank, self.shape.0, self.shape.1, self.groups.len()].map(|v| v as u64);
        if about != own {
            return Err(Error::mismatch(format!(
                "sums: expected those of the same bank, features, outputs and folds, {own:?}, got {about:?}"
            )));
        }
        for group in &mut self.groups {
            group.steps += from.next()?;
        }
        self.largest = self.largest.max(from.f64()?);
        self.artefacts += from.next()?;
        self.spikes += from.next()?;
        let path = match from.next()? {
            1 => Some(GramPath::Dense),
            2 => Some(GramPath::Event),
            _ => None,
        };
        self.path = self.path.or(path);
        self.usual.add(&from.usual()?);
        widen(&mut self.extremes, from.extremes()?.into_iter());
        Ok(())
    }

    /// Replaces all but the values by what [`to_words`](Self::to_words) of another gave.
    ///
    /// # Errors
    /// As [`absorb`](Self::absorb).
    pub fn replace(&mut self, words: &[u64]) -> Result<()> {
        for group in &mut self.groups {
            group.steps = 0;
        }
        (self.artefacts, self.spikes, self.largest, self.path) = (0, 0, 0.0, None);
        self.usual.signal = false;
        self.usual.histogram.clear();
        self.usual.counts.fill(0);
        self.extremes.fill(crate::limits::NO_LABEL);
        self.absorb(words)
    }
}
