//! The state of something at work as bytes: one list of its fields both writes and reads them.
//!
//! A type names its fields once, in a function that takes [`StateBytes`]; to save is to append them, to load is to overwrite them
//! in the same order. Lists have the length that their owner was opened with, so that only those of [`StateBytes::list`] have a
//! length in the bytes. Saving allocates only what the bytes need.
//!
//! ```
//! use betz_base::state::StateBytes;
//!
//! let mut filter = ([1.0_f32, 2.0], vec![7_i64]);
//! let fields = |filter: &mut ([f32; 2], Vec<i64>), state: &mut StateBytes<'_>| {
//!     state.numbers(&mut filter.0)?;
//!     state.list(&mut filter.1)
//! };
//! let mut bytes = Vec::new();
//! fields(&mut filter, &mut StateBytes::save(&mut bytes))?;
//! let mut other = ([0.0; 2], Vec::new());
//! let mut saved = StateBytes::load(&bytes);
//! fields(&mut other, &mut saved)?;
//! saved.end()?;
//! assert_eq!(filter, other);
//! # Ok::<(), betz_base::Error>(())
//! ```

use alloc::vec::Vec;

use crate::error::{Error, ErrorKind, Result};

/// A number in the bytes of a state.
pub trait Word: Copy + Default {
    /// Bytes that it takes.
    const BYTES: usize;
    /// Writes numbers to as many bytes as they take, little-endian.
    fn put(values: &[Self], to: &mut [u8]);
    /// Reads numbers from as many bytes as they take.
    fn get(values: &mut [Self], from: &[u8]);
}

macro_rules! words {
    ($($number:ty),*) => { $(
        impl Word for $number {
            const BYTES: usize = size_of::<$number>();

            #[inline]
            fn put(values: &[Self], to: &mut [u8]) {
                let (words, _) = to.as_chunks_mut::<{ size_of::<$number>() }>();
                (words.iter_mut().zip(values)).for_each(|(word, value)| *word = value.to_le_bytes());
            }

            #[inline]
            fn get(values: &mut [Self], from: &[u8]) {
                let (words, _) = from.as_chunks::<{ size_of::<$number>() }>();
                (values.iter_mut().zip(words))
                    .for_each(|(value, word)| *value = <$number>::from_le_bytes(*word));
            }
        }
    )* };
}

words!(i16, u32, i64, u64, f32, f64);

impl Word for bool {
    const BYTES: usize = 1;

    fn put(values: &[Self], to: &mut [u8]) {
        (to.iter_mut().zip(values)).for_each(|(byte, value)| *byte = u8::from(*value));
    }

    fn get(values: &mut [Self], from: &[u8]) {
        (values.iter_mut().zip(from)).for_each(|(value, byte)| *value = *byte != 0);
    }
}

/// Bytes that a state is written to, or read from.
#[derive(Debug)]
pub struct StateBytes<'a> {
    bytes: Bytes<'a>,
    spare: usize,
}

#[derive(Debug)]
enum Bytes<'a> {
    Save(&'a mut Vec<u8>),
    Load(&'a [u8]),
}

impl<'a> StateBytes<'a> {
    /// Fields are appended to `bytes`.
    pub fn save(bytes: &'a mut Vec<u8>) -> Self {
        Self {
            bytes: Bytes::Save(bytes),
            spare: 0,
        }
    }

    /// Fields are overwritten with `bytes`.
    pub fn load(bytes: &'a [u8]) -> Self {
        Self {
            bytes: Bytes::Load(bytes),
            spare: 0,
        }
    }

    /// True if fields are overwritten: they may then have values that no work gives.
    pub fn is_load(&self) -> bool {
        matches!(self.bytes, Bytes::Load(_))
    }

    /// Bytes by which a later state may be longer than the one that was saved, as far as lists have room.
    pub fn spare(&self) -> usize {
        self.spare
    }

    /// One number.
    ///
    /// # Errors
    /// `InvalidCheckpoint` if too few bytes are left, as all methods that follow.
    pub fn number<T: Word>(&mut self, value: &mut T) -> Result<()> {
        self.numbers(core::slice::from_mut(value))
    }

    /// Numbers of a list whose length is known.
    ///
    /// # Errors
    /// As [`number`](Self::number).
    pub fn numbers<T: Word>(&mut self, values: &mut [T]) -> Result<()> {
        let length = values.len() * T::BYTES;
        match &mut self.bytes {
            Bytes::Save(bytes) => {
                let from = bytes.len();
                bytes.resize(from + length, 0);
                T::put(values, &mut bytes[from..]);
            }
            Bytes::Load(bytes) => {
                let Some((words, rest)) = bytes.split_at_checked(length) else {
                    return Err(expected(length, bytes.len()));
                };
                T::get(values, words);
                *bytes = rest;
            }
        }
        Ok(())
    }

    /// Numbers after their count.
    ///
    /// # Errors
    /// As [`number`](Self::number).
    pub fn list<T: Word>(&mut self, values: &mut Vec<T>) -> Result<()> {
        let mut count = values.len();
        self.count(&mut count, values.capacity(), T::BYTES)?;
        values.resize(count, T::default());
        self.numbers(values)
    }

    /// The count of a list whose items, of `bytes` each, follow; the list has room for `room` of them.
    ///
    /// # Errors
    /// As [`number`](Self::number).
    pub fn count(&mut self, count: &mut usize, room: usize, bytes: usize) -> Result<()> {
        let mut word = *count as u64;
        self.number(&mut word)?;
        if let Bytes::Load(rest) = &self.bytes
            && word > (rest.len() / bytes) as u64
        {
            return Err(expected((word as usize).saturating_mul(bytes), rest.len()));
        }
        *count = word as usize;
        self.spare += room.saturating_sub(*count) * bytes;
        Ok(())
    }

    /// Refuses a value that no work gives.
    ///
    /// # Errors
    /// `InvalidCheckpoint` unless `sane`.
    pub fn check(&self, sane: bool) -> Result<()> {
        match sane || !self.is_load() {
            true => Ok(()),
            false => Err(invalid(format_args!(
                "expected numbers of one state, got others"
            ))),
        }
    }

    /// Refuses bytes that are left over.
    ///
    /// # Errors
    /// `InvalidCheckpoint` if there are any.
    pub fn end(&self) -> Result<()> {
        match &self.bytes {
            Bytes::Load(rest) if !rest.is_empty() => Err(expected(0, rest.len())),
            _ => Ok(()),
        }
    }
}

fn expected(bytes: usize, left: usize) -> Error {
    invalid(format_args!("expected {bytes} more bytes, got {left}"))
}

fn invalid(problem: core::fmt::Arguments<'_>) -> Error {
    Error::new(
        ErrorKind::InvalidCheckpoint,
        alloc::format!("state: {problem}"),
    )
}
