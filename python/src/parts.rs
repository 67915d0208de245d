//! A network's shard: the windows that one machine computes.

use betz::Result;
use betz::network::file::Part;
use betz::team::Shard;
use betz::text::count;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::arguments::FilePath;
use crate::error::OrRaise;
use crate::work;

/// A function that pickle calls, and its arguments.
pub(crate) type PickleParts<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>,));

/// Shard (k, n), k from 1.
pub(crate) fn shard((number, of): (usize, usize)) -> Result<Shard> {
    Shard::new(number, of).map_err(|e| e.at("shard"))
}

/// One shard's windows of a network; [`betz.join`] makes the network of all of them. It pickles.
#[pyclass(frozen, module = "betz")]
pub(crate) struct NetworkPart {
    pub(crate) inner: Part,
}

#[pymethods]
impl NetworkPart {
    /// The part in the bytes of a file.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let inner = work::detach(py, || Part::from_bytes(bytes)).or_raise(py)?;
        Ok(Self { inner })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py>> {
        let bytes = slf.get().inner.to_bytes().or_raise(slf.py())?;
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (PyBytes::new(slf.py(), &bytes),)))
    }

    /// Writes the file that `betz join` takes.
    fn save(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        work::detach(py, || self.inner.save(&path)).or_raise(py)
    }

    /// (k, n): share k, from 1, of n.
    #[getter]
    fn shard(&self) -> (usize, usize) {
        let shard = self.inner.shard();
        (shard.number(), shard.of())
    }

    /// Number of windows in the shard.
    fn __len__(&self) -> usize {
        self.inner.network().len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.NetworkPart: shard {}, {} of {}>",
            self.inner.shard(),
            self.inner.network().len(),
            count(self.inner.windows_of_all() as u128, "window")
        )
    }
}
