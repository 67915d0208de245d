//! Messages between processes, besides sums: lists of 64-bit words.

use std::collections::BTreeMap;

use betz_base::error::{Error, Result};

use crate::limits::Extremes;
use crate::usual_counts::UsualCounts;

/// Takes words from the front.
pub(super) struct Words<'a>(pub(super) &'a [u64]);

impl Words<'_> {
    pub(super) fn next(&mut self) -> Result<u64> {
        let (&first, rest) = (self.0.split_first()).ok_or_else(|| {
            Error::mismatch("a part of a training: expected more of it, got its end")
        })?;
        self.0 = rest;
        Ok(first)
    }

    /// The length of a list that follows, of `each` words an item.
    pub(super) fn count(&mut self, each: usize) -> Result<usize> {
        let count = self.next()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.0.len() / each => Ok(count),
            _ => Err(Error::mismatch(format!(
                "a part of a training: expected a list of at most {} words, got one of {count} items",
                self.0.len()
            ))),
        }
    }

    /// Bytes, of which there are as many as the next word says.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        let count = self.next()?;
        let Some(words) = usize::try_from(count.div_ceil(8))
            .ok()
            .and_then(|words| self.0.split_at_checked(words))
        else {
            return Err(Error::mismatch(format!(
                "a part of a training: expected {count} bytes, got {} words",
                self.0.len()
            )));
        };
        self.0 = words.1;
        let mut bytes: Vec<u8> = words.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(count as usize);
        Ok(bytes)
    }

    pub(super) fn f64(&mut self) -> Result<f64> {
        self.next().map(f64::from_bits)
    }

    pub(super) fn usual(&mut self) -> Result<UsualCounts> {
        let signal = self.next()? != 0;
        let histogram = (0..self.count(2)?)
            .map(|_| Ok((self.next()?, self.next()?)))
            .collect::<Result<BTreeMap<u64, u64>>>()?;
        let counts = (0..self.count(1)?)
            .map(|_| self.next())
            .collect::<Result<Vec<u64>>>()?;
        Ok(UsualCounts {
            signal,
            histogram,
            counts,
        })
    }

    /// Whole numbers of 128 bits.
    pub(super) fn wide(&mut self) -> Result<Vec<i128>> {
        (0..self.count(2)?)
            .map(|_| {
                let (low, high) = (self.next()?, self.next()?);
                Ok((i128::from(high.cast_signed()) << 64) | i128::from(low))
            })
            .collect()
    }

    pub(super) fn extremes(&mut self) -> Result<Vec<Extremes>> {
        let float = |word: u64| f32::from_bits(word as u32);
        (0..self.count(2)?)
            .map(|_| Ok((float(self.next()?), float(self.next()?))))
            .collect()
    }
}

pub(super) fn put_usual(to: &mut Vec<u64>, usual: &UsualCounts) {
    to.push(u64::from(usual.signal));
    to.push(usual.histogram.len() as u64);
    to.extend(usual.histogram.iter().flat_map(|(c, s)| [*c, *s]));
    to.push(usual.counts.len() as u64);
    to.extend(&usual.counts);
}

pub(super) fn put_wide(to: &mut Vec<u64>, values: &[i128]) {
    to.push(values.len() as u64);
    to.extend(values.iter().flat_map(|v| [*v as u64, (*v >> 64) as u64]));
}

pub(super) fn put_extremes(to: &mut Vec<u64>, extremes: &[Extremes]) {
    to.push(extremes.len() as u64);
    let bits = |value: f32| u64::from(value.to_bits());
    to.extend(
        extremes
            .iter()
            .flat_map(|(low, high)| [bits(*low), bits(*high)]),
    );
}
