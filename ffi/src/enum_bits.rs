//! Enums that come from C.

use std::mem::MaybeUninit;

/// The bits of an enum that C has set: not every number is one of its values.
pub(crate) fn enum_bits<T>(value: &MaybeUninit<T>) -> u32 {
    const { assert!(size_of::<T>() == size_of::<u32>() && align_of::<T>() == align_of::<u32>()) };
    // SAFETY: as large and aligned as a u32, and every byte that comes from C has a value.
    unsafe { value.as_ptr().cast::<u32>().read() }
}
