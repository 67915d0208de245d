//! Conversions between C's pointers and Rust's references: this file has every cast of the ABI.

use std::ffi::{CStr, c_char};
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::shortage::Shortage;

/// Destination of a result; it is written only on success.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result. Consumes the destination, so that it is written once.
    pub(crate) fn write(self, value: T) {
        // SAFETY: not NULL and aligned (`out`), writable by the caller's promise there.
        unsafe { self.0.write(value) }
    }
}

/// The destination behind `pointer`.
///
/// # Safety
/// `pointer` is NULL or writable for one `T` until the call returns.
pub(crate) unsafe fn out<T>(pointer: *mut T, name: &'static str) -> Result<Out<T>> {
    check(pointer, name)?;
    Ok(Out(pointer))
}

/// The value behind `pointer`.
///
/// # Safety
/// `pointer` is NULL or points to a `T` that lives, unchanged, for `'a`.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T> {
    check(pointer, name)?;
    // SAFETY: not NULL, aligned, and the caller's promise.
    Ok(unsafe { &*pointer })
}

/// Refuses a list that is neither empty nor of the expected length, before its elements are read.
pub(crate) fn expect_len(name: &'static str, expected: usize, got: usize) -> Result<()> {
    if got == 0 || got == expected {
        return Ok(());
    }
    Err(Failure::Length {
        name,
        expected,
        got,
    })
}

/// `len` elements from `pointer`; NULL is an empty slice when `len` is 0.
///
/// # Safety
/// `pointer` is NULL or points to `len` elements that live, unchanged, for `'a`.
#[inline]
pub(crate) unsafe fn slice<'a, T>(
    pointer: *const T,
    len: usize,
    name: &'static str,
) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    check_len(pointer, len, name)?;
    // SAFETY: not NULL, aligned, no longer than an object can be, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// `len` writable elements from `pointer`; NULL is an empty slice when `len` is 0.
///
/// # Safety
/// `pointer` is NULL or points to `len` elements that nobody else touches for `'a`. (They may be
/// uninitialised only for types, like f32 and u8, that every bit pattern is a value of, and are
/// then only written.)
#[inline]
pub(crate) unsafe fn slice_mut<'a, T>(
    pointer: *mut T,
    len: usize,
    name: &'static str,
) -> Result<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check_len(pointer, len, name)?;
    // SAFETY: not NULL, aligned, no longer than an object can be, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, len) })
}

/// Writes `needed` values to `buf` by means of `fill`, and their number to `len`. With `buf` NULL and `cap` 0 it
/// only writes the number. Fails if `cap` is too small. `name` is the caller's name of `buf`.
///
/// # Safety
/// The same as for [`slice_mut`] of `buf` and `cap`.
pub(crate) unsafe fn copy_out<T>(
    name: &'static str,
    buf: *mut T,
    cap: usize,
    needed: usize,
    len: Out<usize>,
    fill: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<()> {
    if !(buf.is_null() && cap == 0) {
        // SAFETY: the caller's promise.
        let room = unsafe { slice_mut(buf, cap, name)? };
        fill(room.get_mut(..needed).ok_or(Failure::Length {
            name: "cap",
            expected: needed,
            got: cap,
        })?)?;
    }
    len.write(needed);
    Ok(())
}

/// Reads NUL-terminated UTF-8 text.
///
/// # Safety
/// `pointer` is NULL or points to a NUL-terminated string that lives, unchanged, for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &'static str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(Failure::Null(name));
    }
    // SAFETY: not NULL, and the caller's promise.
    unsafe { CStr::from_ptr(pointer) }
        .to_str()
        .map_err(|_| Failure::Argument {
            name,
            expected: "UTF-8 text",
        })
}

/// Reads NUL-terminated UTF-8 text; `otherwise` for NULL.
///
/// # Safety
/// The same as for [`text`].
#[cfg(any(feature = "live", feature = "page"))]
pub(crate) unsafe fn text_or<'a>(
    pointer: *const c_char,
    name: &'static str,
    otherwise: &'a str,
) -> Result<&'a str> {
    if pointer.is_null() {
        return Ok(otherwise);
    }
    // SAFETY: the caller's promise.
    unsafe { text(pointer, name) }
}

/// Copies `text`, with a NUL behind it, to `buf` of `cap` bytes, and its length without the NUL to `*len`. With `buf` NULL
/// and `cap` 0 it only writes the length.
///
/// # Safety
/// `buf` is NULL or points to `cap` writable bytes; `len` is NULL or writable.
#[cfg(feature = "live")]
pub(crate) unsafe fn write_text(
    text: &[u8],
    buf: *mut c_char,
    cap: usize,
    len: *mut usize,
) -> Result<()> {
    check(len, "len")?;
    if !(buf.is_null() && cap == 0) {
        check(buf, "buf")?;
        if cap <= text.len() {
            return Err(Failure::Length {
                name: "cap",
                expected: text.len() + 1,
                got: cap,
            });
        }
        // SAFETY: the caller's promise; there is room for the NUL, too.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast(), text.len());
            buf.add(text.len()).write(0);
        }
    }
    // SAFETY: the caller's promise; it is neither NULL nor askew.
    unsafe { len.write(text.len()) };
    Ok(())
}

/// Reads `len` texts; returns `None` for NULL.
///
/// # Safety
/// `pointer` is NULL or points to `len` pointers that are as [`text`]'s.
pub(crate) unsafe fn texts(
    pointer: *const *const c_char,
    len: usize,
    name: &'static str,
) -> Result<Option<Vec<String>>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { slice(pointer, len, name)? }
        .iter()
        // SAFETY: the caller's promise.
        .map(|&p| unsafe { text(p, name) }.map(str::to_owned))
        .collect::<Result<_>>()
        .map(Some)
}

/// Reads a path, in the system's own bytes.
///
/// # Safety
/// The same as for [`text`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, name: &'static str) -> Result<&'a Path> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        if pointer.is_null() {
            return Err(Failure::Null(name));
        }
        // SAFETY: not NULL, and the caller's promise.
        let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
        Ok(Path::new(std::ffi::OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    {
        // SAFETY: the caller's promise.
        unsafe { text(pointer, name) }.map(Path::new)
    }
}

/// Makes a handle for C to own. If memory has been short during the call, it drops `value` and fails.
pub(crate) fn into_handle<T>(value: T) -> Result<*mut T> {
    let handle = Box::new(value);
    Shortage::check()?;
    Ok(Box::into_raw(handle))
}

/// Takes back and drops a handle from [`into_handle`]; does nothing for NULL.
///
/// # Safety
/// `pointer` is NULL or came from [`into_handle`], and nobody uses it any more.
pub(crate) unsafe fn drop_handle<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Refuses NULL and a pointer that is not aligned.
#[inline]
pub(crate) fn check<T>(pointer: *const T, name: &'static str) -> Result<()> {
    if pointer.is_null() {
        return Err(Failure::Null(name));
    }
    if !pointer.is_aligned() {
        return Err(Failure::Argument {
            name,
            expected: "a pointer aligned for its type",
        });
    }
    Ok(())
}

#[inline]
fn check_len<T>(pointer: *const T, len: usize, name: &'static str) -> Result<()> {
    check(pointer, name)?;
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::Argument {
            name,
            expected: "a length that fits in memory",
        });
    }
    Ok(())
}
