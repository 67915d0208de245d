//! Locks that a panic leaves usable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex` even after a thread has panicked with it: for data that every write leaves consistent.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_the_value() {
        let value = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                *lock(&value) = 2;
                let _held = lock(&value);
                panic!("with the lock");
            });
            thread.join().is_err()
        });
        assert!(panicked && value.is_poisoned());
        assert_eq!(*lock(&value), 2);
    }
}
