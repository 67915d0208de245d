//! The ring between two threads, made whole or refused.

use ringbuf::traits::Split;
use ringbuf::{HeapCons, HeapProd, HeapRb};

use crate::error::{Error, Result};

/// Most elements of a ring: sixteen seconds of a million per second, and 256 MiB of 16 bytes each.
pub const MAX_CAPACITY: usize = 1 << 24;

/// The two ends of a ring for `capacity` elements; `what` names it in messages.
///
/// # Errors
/// `InvalidArgument` for a capacity of 0 or more than 2²⁴; `OutOfMemory` when the system has no memory for it.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// use ringbuf::traits::{Consumer, Producer};
///
/// let (mut send, mut take) = betz_base::ring::ring("spikes", 4)?;
/// assert!(send.try_push(7).is_ok()); // on one thread
/// assert_eq!(take.try_pop(), Some(7)); // on another
/// # Ok(())
/// # }
/// ```
pub fn ring<T>(what: &str, capacity: usize) -> Result<(HeapProd<T>, HeapCons<T>)> {
    ring_of(what, capacity, 1)
}

/// As [`ring`], with room for `capacity` items of `size` elements each.
///
/// # Errors
/// As [`ring`].
pub fn ring_of<T>(what: &str, capacity: usize, size: usize) -> Result<(HeapProd<T>, HeapCons<T>)> {
    if !(1..=MAX_CAPACITY).contains(&capacity) {
        return Err(Error::argument(format!(
            "{what}: expected a capacity of 1 to 2^24, got {capacity}"
        )));
    }
    let elements = capacity.saturating_mul(size);
    let ring = HeapRb::try_new(elements)
        .map_err(|_| Error::no_memory(what, elements.saturating_mul(size_of::<T>())))?;
    Ok(ring.split())
}
