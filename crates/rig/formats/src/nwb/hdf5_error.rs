//! Errors and panics of the HDF5 crate as errors of this library.

use std::panic::{AssertUnwindSafe, catch_unwind};

use betz_base::error::{Error, ErrorKind, Result};
use rust_hdf5::Hdf5Error;

/// Words of the standard library for a read beyond a file's end; the crate hands them on inside a type of its own.
const PAST_END: &str = "failed to fill whole buffer";

/// Returns the crate's error, or its panic, as an error of the library: a damaged file must not end the program.
pub(super) fn guarded<T>(
    what: &str,
    work: impl FnOnce() -> std::result::Result<T, Hdf5Error>,
) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(in_words(what, &error)),
        Err(_) => Err(Error::recording(format!(
            "{what}: damaged: expected data that can be read, got others"
        ))),
    }
}

/// Converts the crate's error to a message for users.
fn in_words(what: &str, error: &Hdf5Error) -> Error {
    let text = match error {
        Hdf5Error::Io(e) if e.raw_os_error().is_some() => {
            return Error::new(ErrorKind::Io, format!("{what}: {e}"));
        }
        Hdf5Error::IoLayer(e) => e.to_string(),
        Hdf5Error::Format(e) => e.to_string(),
        other => other.to_string(),
    };
    if text.contains(PAST_END) {
        return Error::recording(format!(
            "{what}: damaged: expected a file that holds all of these data, got one that ends before"
        ));
    }
    Error::recording(format!(
        "{what}: damaged, or not supported: expected HDF5 that can be read, got: {text}"
    ))
}
