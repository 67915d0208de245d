//! Arguments from Python: each is checked under its own name, so that a refusal says which, what was expected and what to do.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use pyo3::PyClass;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A TypeError: `name: expected …, got …`. What to do, behind a semicolon in `expected`, comes last.
pub(crate) fn refused(name: &str, expected: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let (expected, remedy) = expected.split_at(expected.find("; ").unwrap_or(expected.len()));
    let got = described(got);
    PyTypeError::new_err(format!("{name}: expected {expected}, got {got}{remedy}"))
}

/// A file's path: text or an `os.PathLike`.
pub(crate) struct FilePath(PathBuf);

impl FromPyObject<'_, '_> for FilePath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let path = object.extract().map(Self);
        path.map_err(|_| refused("path", "a path as text or a pathlib.Path", &object))
    }
}

impl Deref for FilePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

/// The value, if it is short, or the type of `object`, with dtype and shape of an array, for messages.
pub(crate) fn described(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().name();
    let name = name.map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    if let (Ok(dtype), Ok(shape)) = (object.getattr("dtype"), object.getattr("shape")) {
        return format!("{name} of dtype {dtype} and shape {shape}");
    }
    let plain = matches!(
        name.as_str(),
        "int" | "float" | "bool" | "str" | "NoneType" | "complex" | "timedelta" | "datetime"
    );
    match object.repr() {
        Ok(value) if plain && value.to_string().chars().count() <= 60 => {
            if name == "NoneType" {
                "None".to_owned()
            } else {
                format!("{value} ({name})")
            }
        }
        _ => name,
    }
}

/// A number of seconds.
pub(crate) fn seconds(name: &str, object: &Bound<'_, PyAny>) -> PyResult<f64> {
    object.extract().map_err(|_| {
        let remedy = match object.hasattr("total_seconds") {
            Ok(true) => "; pass its .total_seconds()",
            _ => "",
        };
        PyTypeError::new_err(format!(
            "{name}: expected a number of seconds, got {}{remedy}",
            described(object)
        ))
    })
}

/// [`seconds`], or `None`.
pub(crate) fn optional_seconds(
    name: &str,
    object: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<f64>> {
    let given = object.filter(|o| !o.is_none());
    given.map(|o| seconds(name, o)).transpose()
}

/// A whole number of at least 0.
pub(crate) fn whole(name: &str, object: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(number) = object.extract() {
        return Ok(number);
    }
    let message = format!(
        "{name}: expected a whole number of at least 0, got {}",
        described(object)
    );
    Err(match object.extract::<i128>() {
        Ok(_) => PyValueError::new_err(message),
        Err(_) => PyTypeError::new_err(message),
    })
}

/// [`whole`], or `None`.
pub(crate) fn optional_whole(
    name: &str,
    object: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<usize>> {
    let given = object.filter(|o| !o.is_none());
    given.map(|o| whole(name, o)).transpose()
}

/// [`number`], or `None`.
pub(crate) fn optional_number(
    name: &str,
    object: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<f64>> {
    let given = object.filter(|o| !o.is_none());
    given.map(|o| number(name, o)).transpose()
}

/// A list of texts.
pub(crate) fn texts(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let expected = "a list of names";
    if object.is_instance_of::<PyString>() {
        return Err(refused(name, expected, object));
    }
    let list = object.call_method0("tolist");
    let list = list.as_ref().unwrap_or(object);
    let entries = list
        .try_iter()
        .map_err(|_| refused(name, expected, object))?;
    let mut texts = Vec::new();
    for (i, entry) in entries.enumerate() {
        let entry = entry?;
        let text = entry.extract::<String>().map_err(|_| {
            PyTypeError::new_err(format!(
                "{name}: [{i}]: expected a name as text, got {}; str() makes one of it",
                described(&entry)
            ))
        })?;
        texts.push(text);
    }
    Ok(texts)
}

/// [`texts`], or `None`.
pub(crate) fn optional_texts(
    name: &str,
    object: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Vec<String>>> {
    let given = object.filter(|o| !o.is_none());
    given.map(|o| texts(name, o)).transpose()
}

/// A list, or `None`.
pub(crate) fn list<'py, T>(
    name: &str,
    expected: &str,
    object: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Vec<T>>>
where
    Vec<T>: for<'a> FromPyObject<'a, 'py>,
{
    let given = object.filter(|o| !o.is_none());
    given
        .map(|o| o.extract().map_err(|_| refused(name, expected, o)))
        .transpose()
}

/// A number.
pub(crate) fn number(name: &str, object: &Bound<'_, PyAny>) -> PyResult<f64> {
    object
        .extract()
        .map_err(|_| refused(name, "a number", object))
}

/// An object of the class `T`. `expected` names it, and says how to get one.
pub(crate) fn instance<'a, 'py, T: PyClass>(
    name: &str,
    expected: &str,
    object: &'a Bound<'py, PyAny>,
) -> PyResult<&'a Bound<'py, T>> {
    object
        .cast::<T>()
        .map_err(|_| refused(name, expected, object))
}
