//! Numbers that begin at a cache line, so that loads of whole vectors never cross one.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::error::Result;
use crate::memory;

/// Bytes of a cache line, and of the widest vector registers.
const LINE: usize = 64;

/// A slice of its own that begins at a multiple of 64 bytes; of fixed length.
///
/// Vectors of 64 bytes that straddle two lines are read in two goes: a loop over rows of weights that begin where
/// the allocator happened to put them takes up to 1.5 times as long.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use betz_base::aligned::AlignedBuffer;
///
/// let mut rows = AlignedBuffer::filled("rows", 0.0_f64, 1000)?;
/// rows[17] = 1.0;
/// assert_eq!(rows.as_ptr() as usize % 64, 0);
/// assert_eq!(rows.iter().sum::<f64>(), 1.0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AlignedBuffer<T> {
    /// The numbers, with up to a line before them and the rest of one behind.
    memory: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy> AlignedBuffer<T> {
    /// `len` copies of `value`. Allocates a line more than they take.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) for `what`.
    pub fn filled(what: impl core::fmt::Display, value: T, len: usize) -> Result<Self> {
        let line = LINE / size_of::<T>().max(1);
        Ok(Self::in_room(
            memory::room(what, len.saturating_add(line))?,
            value,
            len,
        ))
    }

    fn in_room(mut memory: Vec<T>, value: T, len: usize) -> Self {
        let start = memory.as_ptr().align_offset(LINE);
        // Numbers of a size that does not divide a line begin where the memory does.
        let fits = start
            .checked_add(len)
            .is_some_and(|end| end <= memory.capacity());
        let start = if fits { start } else { 0 };
        memory.resize(start + len, value);
        Self { memory, start, len }
    }
}

/// Begins at a line of its own.
impl<T: Copy> Clone for AlignedBuffer<T> {
    fn clone(&self) -> Self {
        let Some(&first) = self.first() else {
            return Self {
                memory: Vec::new(),
                start: 0,
                len: 0,
            };
        };
        let mut copy = Self::in_room(Vec::with_capacity(self.memory.capacity()), first, self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T> Deref for AlignedBuffer<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for AlignedBuffer<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_line_and_holds_what_it_was_filled_with() {
        for len in [0, 1, 7, 8, 9, 1000] {
            let doubles = AlignedBuffer::filled("doubles", 2.5_f64, len).unwrap();
            assert_eq!(doubles.as_ptr().align_offset(LINE), 0);
            assert_eq!(*doubles, vec![2.5; len]);
            let mut bytes = AlignedBuffer::filled("bytes", 3_u8, len).unwrap();
            assert_eq!(bytes.as_ptr().align_offset(LINE), 0);
            bytes.fill(4);
            assert_eq!(*bytes, vec![4; len]);
            let copy = bytes.clone();
            assert_eq!(*copy, *bytes);
            assert!(len == 0 || copy.as_ptr().align_offset(LINE) == 0);
        }
    }

    #[test]
    fn what_no_memory_holds_is_refused() {
        let error = AlignedBuffer::filled("rows", 0.0_f64, usize::MAX / 16).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::OutOfMemory);
        assert!(AlignedBuffer::filled("rows", 0.0_f64, usize::MAX).is_err());
    }
}
