//! A value for one call at a time: a second call beside it is refused, neither waits nor races.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, Result};

/// A value that is used through the one guard that there is at a time.
pub(crate) struct Exclusive<T> {
    in_use: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value may be sent, and is touched only by the holder of `in_use`, of whom there is one at a time.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            in_use: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, until the guard is dropped; refused while another call uses it, in a second thread or in code that a
    /// signal handler has interrupted. One atomic exchange.
    #[inline]
    pub(crate) fn enter(&self, name: &'static str) -> Result<ExclusiveGuard<'_, T>> {
        if self.seize() {
            return Ok(ExclusiveGuard(self));
        }
        Err(Failure::Busy(name))
    }

    /// Takes the value for as long as the caller likes; false if somebody has it.
    #[inline]
    pub(crate) fn seize(&self) -> bool {
        !self.in_use.swap(true, Ordering::Acquire)
    }

    /// Gives it back. For whoever has seized it.
    #[inline]
    pub(crate) fn release(&self) {
        self.in_use.store(false, Ordering::Release);
    }

    /// The place of the value, for whoever has seized it.
    #[inline]
    pub(crate) fn place(&self) -> *mut T {
        self.value.get()
    }
}

/// The use of a value until it is dropped.
pub(crate) struct ExclusiveGuard<'a, T>(&'a Exclusive<T>);

impl<T> Drop for ExclusiveGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<T> Deref for ExclusiveGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one guard at a time, and this is it.
        unsafe { &*self.0.place() }
    }
}

impl<T> DerefMut for ExclusiveGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one guard at a time, and this is it.
        unsafe { &mut *self.0.place() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_user_is_refused_until_the_first_has_left() {
        let value = Exclusive::new(1);
        let mut first = value.enter("value").unwrap();
        *first += 1;
        assert!(matches!(value.enter("value"), Err(Failure::Busy("value"))));
        drop(first);
        assert_eq!(*value.enter("value").unwrap(), 2);
        assert!(value.seize() && !value.seize());
        value.release();
        assert!(value.enter("value").is_ok());
    }
}
