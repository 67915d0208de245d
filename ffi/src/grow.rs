//! Structs that grow from one version to the next, on both sides of the boundary.
//!
//! A caller that was compiled with an older header has a smaller struct: its missing fields take their
//! defaults, and nothing is written beyond its end. A caller with a newer header has a larger struct: its
//! additional fields must be zero, so that they ask for nothing.
//!
//! Rules for the structs: fields are only added, at the end. No struct has padding, because a new field
//! must not lie in an older struct's tail; [`grows`] asserts this.

use crate::cast;
use crate::failure::{Failure, Result};

/// Upper limit of the size of any version, so that a garbled size does not cause a read far beyond the
/// struct.
const LONGEST: usize = 4096;

/// A struct of which callers may have an older or a newer version.
///
/// # Safety
/// The type is `repr(C)`, every bit pattern that C may leave in it is valid, and `STARTS` holds the offsets
/// of its fields.
pub(crate) unsafe trait Grows: Sized {
    /// Offsets of the fields: a smaller struct may end at one of them, and nowhere else.
    const STARTS: &'static [usize];
}

/// A configuration: its first field is `uint32_t struct_size`.
pub(crate) trait Config: Grows {
    /// Every field's default, `struct_size` included.
    fn defaults() -> Self;
}

/// Declares a struct that implements [`Grows`]. `tests/header.rs` takes the declaration out of the macro
/// for cbindgen.
macro_rules! grows {
    ($(#[$about:meta])* $visible:vis struct $name:ident {
        $($(#[$about_field:meta])* $of:vis $field:ident: $type:ty,)+
    }) => {
        $(#[$about])*
        $visible struct $name {
            $($(#[$about_field])* $of $field: $type,)+
        }
        // SAFETY: every field is a number, a pointer, or bits that are checked before they become an enum;
        // the compiler gives the offsets.
        unsafe impl crate::grow::Grows for $name {
            const STARTS: &'static [usize] = &[$(std::mem::offset_of!($name, $field)),+];
        }
        const _: () = {
            // There is no padding on systems with 64-bit pointers.
            let fields = 0 $(+ size_of::<$type>())+;
            assert!(cfg!(not(target_pointer_width = "64")) || fields == size_of::<$name>());
        };
    };
}
pub(crate) use grows;

/// A struct with all fields 0 or NULL.
pub(crate) fn zeroed<T: Grows>() -> T {
    // SAFETY: zeros are a bit pattern that C may leave in it.
    unsafe { std::mem::zeroed() }
}

/// True if a caller's struct may have this size: cut between two fields, complete, or longer.
fn known<T: Grows>(size: usize) -> bool {
    let whole = size_of::<T>();
    if size < whole {
        size >= 8 && T::STARTS.contains(&size)
    } else {
        size <= LONGEST
    }
}

fn refuse<T>(name: &'static str, got: usize) -> Failure {
    Failure::StructSize {
        name,
        known: size_of::<T>(),
        got,
    }
}

/// Reads the caller's configuration of any version; missing fields take their defaults.
///
/// # Safety
/// `config` is NULL or points to a struct that begins with `uint32_t struct_size` and is as long as
/// that says.
pub(crate) unsafe fn read<T: Config>(config: *const T, name: &'static str) -> Result<T> {
    // SAFETY: the caller's promise; only the first field is read at this point.
    let size = unsafe { *cast::shared(config.cast::<u32>(), name)? } as usize;
    cast::check(config, name)?;
    if !known::<T>(size) {
        return Err(refuse::<T>(name, size));
    }
    let whole = size_of::<T>();
    for at in whole..size {
        // SAFETY: the caller's struct is `size` bytes long.
        let byte = unsafe { config.cast::<u8>().add(at).read() };
        if byte != 0 {
            return Err(Failure::NewerStruct {
                name,
                known: whole,
                got: size,
                at,
            });
        }
    }
    let mut value = T::defaults();
    // SAFETY: both are at least this long and do not overlap; `Grows` allows any bytes from C, and no field
    // is cut.
    unsafe {
        std::ptr::copy_nonoverlapping(
            config.cast::<u8>(),
            (&raw mut value).cast::<u8>(),
            size.min(whole),
        );
    }
    Ok(value)
}

/// Fills the caller's configuration of `size` bytes with the defaults. Fields that this version does not
/// know become zero, and `struct_size` becomes the caller's.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
pub(crate) unsafe fn write_defaults<T: Config>(config: *mut T, size: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        write(config, size, "config", T::defaults())?;
        config.cast::<u32>().write(size as u32);
    }
    Ok(())
}

/// Writes `value` to `size` bytes: the fields that the caller's version has, and zeros for fields that this
/// version does not have.
///
/// # Safety
/// `place` is NULL or writable for `size` bytes.
pub(crate) unsafe fn write<T: Grows>(
    place: *mut T,
    size: usize,
    name: &'static str,
    value: T,
) -> Result<()> {
    check_place(place, size, name)?;
    let n = size.min(size_of::<T>());
    // SAFETY: not NULL, aligned, and writable for `size` bytes, of which `n` are this version's.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place.cast::<u8>(), n);
        place.cast::<u8>().add(n).write_bytes(0, size - n);
    }
    Ok(())
}

/// Refuses a destination that [`write`] would refuse, before any work is done for it.
pub(crate) fn check_place<T: Grows>(place: *mut T, size: usize, name: &'static str) -> Result<()> {
    cast::check(place, name)?;
    if known::<T>(size) {
        Ok(())
    } else {
        Err(refuse::<T>(name, size))
    }
}

/// Reads a flag, which must be 0 or 1.
pub(crate) fn flag(value: u32, name: &'static str) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::Argument {
            name,
            expected: "0 or 1",
        }),
    }
}

/// Checks that a field reserved for later versions is zero.
pub(crate) fn zero(value: u32, name: &'static str) -> Result<()> {
    match value {
        0 => Ok(()),
        _ => Err(Failure::Argument {
            name,
            expected: "0 (it is reserved: a later version may give it a meaning)",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    grows! {
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq)]
        struct Now {
            struct_size: u32,
            small: u32,
            large: f64,
            last: u64,
        }
    }
    impl Config for Now {
        fn defaults() -> Self {
            Self {
                struct_size: size_of::<Self>() as u32,
                small: 1,
                large: 2.0,
                last: 3,
            }
        }
    }

    /// Room for a struct of any version, and the bytes after it.
    #[repr(C, align(8))]
    struct Room([u8; 64]);

    #[test]
    fn an_older_caller_is_written_no_byte_too_many_and_gets_defaults() {
        for size in [8usize, 16, 24] {
            let mut room = Room([0xA5; 64]);
            let place = room.0.as_mut_ptr().cast::<Now>();
            // SAFETY: the room is longer than `size`.
            unsafe { write_defaults(place, size) }.unwrap();
            assert!(room.0[size..].iter().all(|&b| b == 0xA5), "{size}");
            // The bytes after the struct are not read either. SAFETY: the struct is as long as it says.
            let read = unsafe { read(room.0.as_ptr().cast::<Now>(), "config") }.unwrap();
            let expected = Now {
                struct_size: size as u32,
                ..Now::defaults()
            };
            assert_eq!(read, expected, "{size}");
        }
    }

    #[test]
    fn a_newer_caller_is_taken_while_it_asks_for_nothing_new() {
        let mut room = Room([0xA5; 64]);
        // SAFETY: the room is longer than 40 bytes.
        unsafe { write_defaults(room.0.as_mut_ptr().cast::<Now>(), 40) }.unwrap();
        assert!(room.0[24..40].iter().all(|&b| b == 0) && room.0[40] == 0xA5);
        let config = room.0.as_ptr().cast::<Now>();
        // SAFETY: the struct is as long as it says.
        assert_eq!(unsafe { read(config, "config") }.unwrap().last, 3);
        room.0[39] = 1;
        // SAFETY: the struct is as long as it says.
        let error = unsafe { read(room.0.as_ptr().cast::<Now>(), "config") }.unwrap_err();
        assert!(
            matches!(
                error,
                Failure::NewerStruct {
                    known: 24,
                    got: 40,
                    at: 39,
                    ..
                }
            ),
            "{error:?}"
        );
    }

    #[test]
    fn sizes_that_cut_a_field_or_are_garbled_are_refused() {
        let mut room = Room([0; 64]);
        for size in [0usize, 1, 4, 12, 20, 23, 5000, 1 << 31] {
            room.0[..4].copy_from_slice(&(size as u32).to_ne_bytes());
            // SAFETY: if the size is refused, only the first field is read.
            let error = unsafe { read(room.0.as_ptr().cast::<Now>(), "config") }.unwrap_err();
            assert!(matches!(error, Failure::StructSize { .. }), "{size}");
            // SAFETY: if the size is refused, nothing is written.
            assert!(unsafe { write_defaults(room.0.as_mut_ptr().cast::<Now>(), size) }.is_err());
        }
    }

    #[test]
    fn flags_and_reserved_fields_are_looked_at() {
        assert!(!flag(0, "f").unwrap() && flag(1, "f").unwrap());
        assert!(flag(2, "f").is_err() && zero(1, "r").is_err());
        zero(0, "r").unwrap();
    }
}
