//! Processes that work on one thing together, all by the same program: each takes its share, and what they find is
//! put together so that everyone knows all of it.

#[doc(hidden)]
pub mod threads;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::prelude::rust_2024::*;

use crate::error::{Error, ErrorKind, Result};

/// The processes, as one of them sees them. Every one calls the same methods in the same order; one that fails ends
/// the others.
pub trait Team: Send + Sync {
    /// This process' number, from 0.
    fn rank(&self) -> usize;

    /// Number of processes.
    fn size(&self) -> usize;

    /// The words of every process, in order of their ranks.
    ///
    /// # Errors
    /// Errors of the exchange.
    fn gather(&self, own: &[u64]) -> Result<Vec<Vec<u64>>>;

    /// The words of every process, in order of their ranks, for the first process; nothing for the others.
    ///
    /// # Errors
    /// Errors of the exchange.
    fn collect(&self, own: &[u64]) -> Result<Vec<Vec<u64>>>;

    /// Replaces `values` by the sums over all processes, of which each has as many. Whole numbers: no order of adding
    /// makes a difference.
    ///
    /// # Errors
    /// [`ErrorKind::NonFinite`] when a sum leaves 127 bits; what the exchange says.
    fn add(&self, values: &mut [i128]) -> Result<()>;

    /// Replaces the first process' `values` by the sums over all processes, of which each has as many; what the others'
    /// are then is left open.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    fn reduce(&self, values: &mut [i128]) -> Result<()> {
        self.add(values)
    }

    /// This process' share of `count` things in a row.
    fn share(&self, count: usize) -> Range<usize> {
        share(count, self.rank(), self.size())
    }
}

/// The share of `rank` among `size` of `count` things in a row: as even as can be.
pub fn share(count: usize, rank: usize, size: usize) -> Range<usize> {
    let bound = |rank: usize| (count as u128 * rank as u128 / size.max(1) as u128) as usize;
    bound(rank)..bound(rank + 1)
}

/// One of several shares that are worked on apart, each into a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// Share `number`, from 1, of `of`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a number that is 0 or above `of`.
    pub fn new(number: usize, of: usize) -> Result<Self> {
        if number == 0 || number > of {
            return Err(Error::argument(format!(
                "a shard: expected a number from 1 to how many there are, got {number} of {of}"
            )));
        }
        Ok(Self { number, of })
    }

    /// Its number, from 1.
    pub fn number(self) -> usize {
        self.number
    }

    /// Number of shards.
    pub fn of(self) -> usize {
        self.of
    }

    /// Its share of `count` things in a row.
    pub fn among(self, count: usize) -> Range<usize> {
        share(count, self.number - 1, self.of)
    }

    /// `parts` in the order of their shards, `of` all of which must be there; each with its number and what messages
    /// call it.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for a shard that is there twice, or missing.
    pub fn in_order<T>(
        of: usize,
        parts: impl IntoIterator<Item = (usize, String, T)>,
    ) -> Result<Vec<(String, T)>> {
        let mut all: BTreeMap<usize, (String, T)> = BTreeMap::new();
        for (number, name, part) in parts {
            if let Some((before, _)) = all.get(&number) {
                return Err(Error::mismatch(format!(
                    "{name}: expected each shard once, got shard {number}, which {before} is too"
                )));
            }
            all.insert(number, (name, part));
        }
        /// Numbers that are listed.
        const SHOWN: usize = 20;
        let missing = || (1..=of).filter(|number| !all.contains_key(number));
        let few: Vec<String> = missing().take(SHOWN).map(|n| n.to_string()).collect();
        if few.is_empty() {
            return Ok(all.into_values().collect());
        }
        Err(Error::mismatch(format!(
            "expected all {of} shards, got {}: none of number {}{}",
            all.len(),
            few.join(", "),
            if missing().nth(SHOWN).is_some() {
                ", …"
            } else {
                ""
            }
        )))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.number, self.of)
    }
}

/// Adds `others` to `values`, one by one.
///
/// # Errors
/// [`ErrorKind::NonFinite`] when a sum leaves 127 bits.
pub fn add(values: &mut [i128], others: &[i128]) -> Result<()> {
    for (value, other) in values.iter_mut().zip(others) {
        *value = value.checked_add(*other).ok_or_else(|| {
            Error::new(
                ErrorKind::NonFinite,
                "sums: expected them to stay below 2⁶³ together, got more",
            )
        })?;
    }
    Ok(())
}

/// A team of one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Team for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn gather(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        Ok(vec![own.to_vec()])
    }

    fn collect(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        self.gather(own)
    }

    fn add(&self, _values: &mut [i128]) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_all_there_once() {
        assert!(
            Shard::new(0, 3).is_err() && Shard::new(4, 3).is_err() && Shard::new(1, 0).is_err()
        );
        let part = |number: usize| (number, format!("{number}.part"), number * 10);
        let whole = Shard::in_order(3, [2, 3, 1].map(part)).unwrap();
        assert_eq!(whole.iter().map(|w| w.1).collect::<Vec<_>>(), [10, 20, 30]);
        for (numbers, words) in [
            (
                vec![1, 3, 1],
                "1.part: expected each shard once, got shard 1, which 1.part is too",
            ),
            (vec![3], "expected all 3 shards, got 1: none of number 1, 2"),
        ] {
            let error = Shard::in_order(3, numbers.into_iter().map(part)).unwrap_err();
            assert_eq!(
                (error.kind(), error.message()),
                (ErrorKind::Mismatch, words)
            );
        }
    }

    #[test]
    fn shares_are_even_and_leave_nothing_out() {
        for (count, size) in [(0, 3), (2, 7), (10, 1), (10, 3), (1_000, 7)] {
            let shares: Vec<Range<usize>> = (0..size).map(|r| share(count, r, size)).collect();
            assert!(shares.windows(2).all(|w| w[0].end == w[1].start));
            assert_eq!((shares[0].start, shares[size - 1].end), (0, count));
            let lengths: Vec<usize> = shares.iter().map(ExactSizeIterator::len).collect();
            let (least, most) = (lengths.iter().min(), lengths.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1);
        }
    }
}
