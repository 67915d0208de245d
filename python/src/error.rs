//! The library's errors as Python's: what a program branches on is the class, or `.kind`.

use betz::{Error, ErrorKind};
use pyo3::exceptions::{
    PyFileNotFoundError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError,
    PyUserWarning, PyValueError,
};
use pyo3::prelude::*;

pyo3::create_exception!(
    betz,
    BetzError,
    PyValueError,
    "Input that the library refuses: the message says what was expected, what was found and where. `.kind` names the kind \
     of error; `.position`, `.channel` and `.segment` are numbers if the message counts something, else None."
);

pyo3::create_exception!(
    betz,
    DeviceError,
    PyRuntimeError,
    "A device that is not available, has too little memory, or failed. Attributes as for BetzError."
);

pyo3::create_exception!(
    betz,
    BetzWarning,
    PyUserWarning,
    "Input that the library takes, though the result is probably not the one that is wanted: the message says what was \
     found, what follows from it, and what to do."
);

/// The command line's options in the library's messages, and their names in Python.
const OPTIONS: [(&str, &str); 11] = [
    ("--angle NAME takes", "angles=[NAME] takes"),
    ("(--filter ", "(bank= with "),
    ("(--delay auto)", "(delay_seconds=)"),
    ("(--keep-gain)", "(keep_gain=True of betz.Filter)"),
    (
        "make the filter at that step, or resample it",
        "give times=, the seconds of every sample, instead of step_seconds=: betz.Filter then resamples the curve",
    ),
    ("give fewer --folds", "give fewer folds="),
    (
        "leave out with --segments",
        "leave out by recording[numbers]",
    ),
    ("with --retain", "with retain_bytes="),
    ("(betz train --labels)", "(betz.ClassDecoder)"),
    ("(`betz train --labels`)", "(betz.ClassDecoder)"),
    ("(`betz sums --labels`)", "(ClassDecoder.partial_fit)"),
];

/// `message` in Python's words.
fn in_python(message: &str) -> String {
    let words = OPTIONS.iter();
    words.fold(message.to_owned(), |text, (option, keyword)| {
        text.replace(option, keyword)
    })
}

/// Modules whose lines a user cannot change.
const OF_LIBRARIES: [&str; 3] = ["betz.", "sklearn.", "joblib."];

/// Warns with `message`, as Python's `warnings` are set to: at the line of the caller outside libraries.
#[pyfunction]
pub(crate) fn warn(py: Python<'_>, message: String) -> PyResult<()> {
    let mut frame = py.import("sys")?.getattr("_getframe")?.call1((0,))?;
    let mut level = 1;
    loop {
        let name = frame.getattr("f_globals")?.get_item("__name__");
        let name = name.and_then(|name| name.extract::<String>());
        let inside = name.is_ok_and(|name| OF_LIBRARIES.iter().any(|of| name.starts_with(of)));
        let back = frame.getattr("f_back")?;
        if !inside || back.is_none() {
            break;
        }
        frame = back;
        level += 1;
    }
    let warn = py.import("warnings")?.getattr("warn")?;
    warn.call1((in_python(&message), py.get_type::<BetzWarning>(), level))?;
    Ok(())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(warn, module)?)?;
    module.add("BetzError", module.py().get_type::<BetzError>())?;
    module.add("BetzWarning", module.py().get_type::<BetzWarning>())?;
    module.add("DeviceError", module.py().get_type::<DeviceError>())
}

/// The exception of `error`.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let message = in_python(error.message());
    let exception = match error.kind() {
        // The system's words for a path that does not exist; `Error` keeps no code of its own.
        ErrorKind::Io if message.contains("(os error 2)") => PyFileNotFoundError::new_err(message),
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
