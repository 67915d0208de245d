//! The library's errors as Python's: what a program branches on is the class, or `.kind`.

use betz::{Error, ErrorKind};
use pyo3::exceptions::{
    PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

pyo3::create_exception!(
    betz,
    BetzError,
    PyValueError,
    "What the library refuses: its message says what was expected, what came and where. `.kind` is the kind of error \
     in words; `.position`, `.channel` and `.segment` are numbers where the message counts something, else None."
);

pyo3::create_exception!(
    betz,
    DeviceError,
    PyRuntimeError,
    "A device that cannot be had, fell short or failed; attributes as those of BetzError."
);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BetzError", module.py().get_type::<BetzError>())?;
    module.add("DeviceError", module.py().get_type::<DeviceError>())
}

/// The exception of `error`.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let message = error.message().to_owned();
    let exception = match error.kind() {
        ErrorKind::Io => PyOSError::new_err(message),
        ErrorKind::OutOfMemory => PyMemoryError::new_err(message),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(message),
        ErrorKind::DeviceUnavailable
        | ErrorKind::DeviceMemory
        | ErrorKind::DeviceFailure
        | ErrorKind::KernelCompile => DeviceError::new_err(message),
        ErrorKind::Internal => PyRuntimeError::new_err(message),
        _ => BetzError::new_err(message),
    };
    let value = exception.value(py);
    let facts = [
        ("position", error.position()),
        ("channel", error.channel()),
        ("segment", error.segment()),
    ];
    let told = value.setattr("kind", error.kind().name()).and_then(|()| {
        facts
            .into_iter()
            .try_for_each(|(name, fact)| value.setattr(name, fact))
    });
    match told {
        Ok(()) => exception,
        Err(other) => other,
    }
}

/// [`raised`] for results.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for betz::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}
