//! A value for one call at a time: a second call during the first is refused; it neither waits nor races.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, Result};

/// A value that is accessed through a guard, of which there is at most one at a time.
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

    /// Exclusive access to the value until the guard is dropped. Fails while another call uses it, in a second thread
    /// or in code that a signal handler has interrupted. Costs one atomic exchange.
    #[inline]
    pub(crate) fn enter(&self, name: &'static str) -> Result<ExclusiveGuard<'_, T>> {
        if self.seize() {
            return Ok(ExclusiveGuard(self));
        }
        Err(Failure::Busy(name))
    }

    /// Takes the value for an unlimited time. Returns false if it is in use.
    #[inline]
    pub(crate) fn seize(&self) -> bool {
        !self.in_use.swap(true, Ordering::Acquire)
    }

    /// Releases the value after [`seize`](Self::seize).
    #[inline]
    pub(crate) fn release(&self) {
        self.in_use.store(false, Ordering::Release);
    }

    /// Pointer to the value. Only the holder may use it.
    #[inline]
    pub(crate) fn place(&self) -> *mut T {
        self.value.get()
    }
}

/// Access to the value; ends when the guard is dropped.
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
