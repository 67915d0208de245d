//! Processes that work on one thing together, all by the same program: each takes its share, and what they find is
//! put together so that everyone knows all of it.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// The processes, as one of them sees them. Every one calls the same methods in the same order; one that fails ends
/// the others.
pub trait Team: Send + Sync {
    /// This process' number, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// The words of every process, in order of their ranks.
    ///
    /// # Errors
    /// What the exchange says.
    fn gather(&self, own: &[u64]) -> Result<Vec<Vec<u64>>>;

    /// The words of every process, in order of their ranks, for the first process; nothing for the others.
    ///
    /// # Errors
    /// What the exchange says.
    fn collect(&self, own: &[u64]) -> Result<Vec<Vec<u64>>>;

    /// Replaces `values` by the sums over all processes, of which each has as many. Whole numbers: no order of adding
    /// makes a difference.
    ///
    /// # Errors
    /// [`ErrorKind::NonFinite`] when a sum leaves 127 bits; what the exchange says.
    fn add(&self, values: &mut [i128]) -> Result<()>;

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
