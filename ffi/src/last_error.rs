//! This thread's last message, in a fixed buffer, so that storing one allocates nothing.

use std::cell::Cell;
use std::ffi::c_char;
use std::fmt::{self, Write};

/// Length of the longest stored message in bytes; longer messages are cut between two characters.
const CAPACITY: usize = 1024;

/// A buffer of cells without a lock. A signal handler's failing call may interrupt another call of its
/// thread while that writes a message; this only garbles the message.
struct Message {
    /// The last byte is always 0.
    bytes: [Cell<u8>; CAPACITY + 1],
    len: Cell<usize>,
}

impl Write for &Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let len = self.len.get().min(CAPACITY);
        let mut n = text.len().min(CAPACITY - len);
        while !text.is_char_boundary(n) {
            n -= 1;
        }
        for (to, from) in self.bytes[len..CAPACITY].iter().zip(&text.as_bytes()[..n]) {
            to.set(*from);
        }
        self.len.set(len + n);
        if n == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

thread_local! {
    static LAST: Message = const {
        Message {
            bytes: [const { Cell::new(0) }; CAPACITY + 1],
            len: Cell::new(0),
        }
    };
}

/// Stores `message` as this thread's last error.
pub(crate) fn set(message: &dyn fmt::Display) {
    LAST.with(|mut last| {
        last.len.set(0);
        // An error here only says that the message was cut, which is intended.
        let _ = write!(last, "{message}");
    });
}

/// Calls `read` with this thread's last error, which ends in NUL.
pub(crate) fn with_text(read: impl FnOnce(*const c_char)) {
    LAST.with(|last| {
        last.bytes[last.len.get().min(CAPACITY)].set(0);
        read(last.bytes.as_ptr().cast());
    });
}

/// Copies this thread's last error message into `buf`, cut to `cap` - 1 bytes and terminated by NUL. Writes
/// nothing if `buf` is NULL or `cap` is 0.
///
/// Returns the length of the stored message in bytes without the NUL, so that a call with NULL and 0 tells
/// the room needed; 0 if no call has failed in this thread. The length is at most 1,024: longer messages are
/// cut. The text is UTF-8. A successful call does not change the message, as with errno.
///
/// Thread-safe: yes. Realtime-safe: yes, after the thread's first call. Allocates: no (the C
/// library may, once a thread, for thread-local storage of a library loaded with dlopen).
///
/// # Safety
/// `buf` is NULL or points to `cap` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_last_error(buf: *mut c_char, cap: usize) -> usize {
    LAST.with(|last| {
        let len = last.len.get();
        if !buf.is_null() && cap > 0 {
            let mut n = len.min(cap - 1);
            // Do not cut inside a character: 0b10xxxxxx continues one.
            while n < len && n > 0 && last.bytes[n].get() & 0xC0 == 0x80 {
                n -= 1;
            }
            // SAFETY: the caller gives `cap` writable bytes, and n + 1 <= cap.
            unsafe {
                std::ptr::copy_nonoverlapping(last.bytes.as_ptr().cast(), buf, n);
                buf.add(n).write(0);
            }
        }
        len
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cap: usize) -> (usize, Vec<u8>) {
        let mut buffer = vec![0x55u8; cap + 1];
        // SAFETY: the buffer is longer than `cap`.
        let len = unsafe { betz_last_error(buffer.as_mut_ptr().cast(), cap) };
        assert_eq!(buffer[cap], 0x55, "wrote past cap");
        let end = buffer.iter().position(|&b| b == 0).unwrap_or(0);
        (len, buffer[..end].to_vec())
    }

    #[test]
    fn cuts_at_characters_and_says_the_length_that_is_kept() {
        set(&"τ is 5 µs");
        let whole = "τ is 5 µs".len();
        assert_eq!(read(64), (whole, "τ is 5 µs".as_bytes().to_vec()));
        assert_eq!(read(2), (whole, vec![]));
        assert_eq!(read(3), (whole, "τ".as_bytes().to_vec()));
        // SAFETY: NULL and 0 only return the length.
        assert_eq!(unsafe { betz_last_error(std::ptr::null_mut(), 0) }, whole);
    }

    #[test]
    fn keeps_the_beginning_of_a_long_message() {
        set(&"µ".repeat(2 * CAPACITY));
        let (len, text) = read(4 * CAPACITY);
        assert_eq!(len, CAPACITY);
        assert_eq!(text, "µ".repeat(CAPACITY / 2).as_bytes());
    }

    /// A message whose formatting fails, as if a signal handler's call had interrupted it.
    struct InterruptedMessage;

    impl fmt::Display for InterruptedMessage {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("begun, ")?;
            set(&"handler's");
            f.write_str(" and ended")
        }
    }

    #[test]
    fn a_failure_within_a_failure_leaves_a_message() {
        set(&InterruptedMessage);
        assert_eq!(read(64).1, b"handler's and ended");
    }

    #[test]
    fn belongs_to_its_thread() {
        set(&"mine");
        std::thread::spawn(|| assert_eq!(read(8), (0, vec![])))
            .join()
            .unwrap();
        assert_eq!(read(8), (4, b"mine".to_vec()));
    }
}
