//! Products of NumPy arrays, which may be memory-mapped files larger than memory.

use std::ops::Range;

use betz::device::multiply::{
    HOST_BYTES, MatrixSource, Product, Real, Transpose, multiply as multiply_matrices,
};
use betz::device::{Device, Precision};
use betz::{Error, Result};
use numpy::ndarray::{ArrayView2, s};
use numpy::{Element, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::arguments::described;
use crate::arrays::refuse_masked;
use crate::{options, work};

/// Values that a thread copies at once, at least.
const LEAST_VALUES: usize = 1 << 16;

/// A matrix that is read where NumPy has it.
struct NumpyMatrix<'a, T>(ArrayView2<'a, T>);

impl<T: Copy + Send + Sync> MatrixSource<T> for NumpyMatrix<'_, T> {
    fn rows(&self) -> usize {
        self.0.nrows()
    }

    fn columns(&self) -> usize {
        self.0.ncols()
    }

    fn read(&self, rows: Range<usize>, columns: Range<usize>, target: &mut [T]) -> Result<()> {
        let width = columns.len().max(1);
        let least = LEAST_VALUES / width + 1;
        let lines = target.par_chunks_mut(width).zip(rows).with_min_len(least);
        lines.for_each(|(target, row)| {
            let line = self.0.slice(s![row, columns.clone()]);
            match line.as_slice() {
                Some(line) => target.copy_from_slice(line),
                None => {
                    for (target, value) in target.iter_mut().zip(line) {
                        *target = *value;
                    }
                }
            }
        });
        Ok(())
    }
}

/// The factors, and how they are taken.
struct Factors<'a, T> {
    a: ArrayView2<'a, T>,
    /// `None`: Aᵀ.
    b: Option<ArrayView2<'a, T>>,
    precision: Precision,
    host_bytes: u64,
}

/// Does `work` with a source of `view`'s values that reads along the axis whose values lie closer together.
fn with_source<T: Real, R>(
    view: &ArrayView2<'_, T>,
    work: impl FnOnce(&dyn MatrixSource<T>) -> R,
) -> R {
    let [down, across] = [0, 1].map(|axis| view.strides()[axis].unsigned_abs());
    match down < across {
        true => work(&Transpose(&NumpyMatrix(view.t()))),
        false => work(&NumpyMatrix(view.view())),
    }
}

impl<T: Real> Factors<'_, T> {
    /// Writes the product to `out`.
    fn multiply(
        &self,
        device: &Device,
        mut out: numpy::ndarray::ArrayViewMut2<'_, T>,
        progress: &dyn betz::Progress,
    ) -> Result<()> {
        let mut take = |rows: Range<usize>, columns: Range<usize>, values: &[T]| {
            let shape = (rows.len(), columns.len());
            let block = ArrayView2::from_shape(shape, values);
            let block = block.map_err(|e| Error::mismatch(format!("a block of C: {e}")))?;
            out.slice_mut(s![rows, columns]).assign(&block);
            Ok(())
        };
        let mut run = |a: &dyn MatrixSource<T>, b: Option<&dyn MatrixSource<T>>| {
            let product = Product {
                b,
                precision: self.precision,
                host_bytes: self.host_bytes,
                ..Product::with_transpose(a)
            };
            multiply_matrices(device, &product, &mut take, progress).map(|_| ())
        };
        with_source(&self.a, |a| match &self.b {
            None => run(a, None),
            Some(b) => with_source(b, |b| run(a, Some(b))),
        })
    }
}

/// Arguments of [`multiply`] besides the factors.
struct Settings<'py> {
    out: Option<Bound<'py, PyAny>>,
    transpose_a: bool,
    transpose_b: bool,
    device: Device,
    precision: Precision,
    host_bytes: u64,
}

/// The product A·B of two matrices of float32 or of float64, on the CPU or on CUDA devices. Without `b`: A·Aᵀ, in half the work.
///
/// a, b : arrays of two dimensions, in any order and stride, also numpy.memmap: factors larger than memory are read in blocks.
/// out : array to write the product to, such as a numpy.memmap; None: a new one. It is returned.
/// transpose_a, transpose_b : take Aᵀ, or Bᵀ. If a and b are one array and one is transposed, half of the product is computed.
/// device : "auto", "cpu", "cuda", "cuda:1" or "cuda:all".
/// memory, device_memory : bytes of host memory for blocks on the CPU (default 1 GiB), and of each device.
/// tf32 : multiply float32 in TF32 on a GPU: faster, less exact.
/// progress : called as progress(stage, done, total), or None.
#[pyfunction]
#[pyo3(signature = (a, b=None, *, out=None, transpose_a=false, transpose_b=false, device="auto", memory=None, device_memory=None, tf32=false, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn multiply<'py>(
    py: Python<'py>,
    a: &Bound<'py, PyAny>,
    b: Option<&Bound<'py, PyAny>>,
    out: Option<Bound<'py, PyAny>>,
    transpose_a: bool,
    transpose_b: bool,
    device: &str,
    memory: Option<u64>,
    device_memory: Option<u64>,
    tf32: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let b = b.filter(|b| !b.is_none());
    let single = is_matrix::<f32>(a);
    if !single && !is_matrix::<f64>(a) {
        return Err(not_a_matrix("a", "float32 or float64", a));
    }
    if tf32 && !single {
        return Err(PyTypeError::new_err(format!(
            "tf32: expected arrays of float32, got {} for a",
            described(a)
        )));
    }
    if b.is_none() && transpose_b {
        return Err(PyValueError::new_err(
            "transpose_b: expected b, got none; multiply(a) is A·Aᵀ, and multiply(a, transpose_a=True) is Aᵀ·A",
        ));
    }
    // A·Aᵀ and Aᵀ·A of one array are computed once per pair.
    let b = b.filter(|b| !(b.is(a) && transpose_a != transpose_b));
    let settings = Settings {
        out: out.filter(|out| !out.is_none()),
        transpose_a,
        transpose_b,
        device: options::device(py, device)?.with_memory_cap(device_memory),
        precision: match tf32 {
            true => Precision::Tf32,
            false => Precision::F32,
        },
        host_bytes: memory.unwrap_or(HOST_BYTES),
    };
    match single {
        true => multiplied::<f32>(py, a, b, settings, progress),
        false => multiplied::<f64>(py, a, b, settings, progress),
    }
}

fn is_matrix<T: Element>(object: &Bound<'_, PyAny>) -> bool {
    object.cast::<PyArray2<T>>().is_ok()
}

fn not_a_matrix(name: &str, of: &str, got: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{name}: expected an array of {of} with two dimensions, got {}",
        described(got)
    ))
}

/// The type's name in messages.
fn type_name<T>() -> &'static str {
    match size_of::<T>() {
        4 => "float32",
        _ => "float64",
    }
}

/// The matrix `object`, whose values lie where their type may.
fn matrix<'py, T: Element>(
    name: &str,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    refuse_masked(name, object)?;
    let array = object.cast::<PyArray2<T>>();
    let array = array.map_err(|_| not_a_matrix(name, type_name::<T>(), object))?;
    if !object.getattr("flags")?.getattr("aligned")?.is_truthy()? {
        return Err(PyValueError::new_err(format!(
            "{name}: expected values at addresses that are multiples of their size, got an array that is not aligned; pass a copy, {name}.copy()"
        )));
    }
    Ok(array.clone())
}

fn multiplied<'py, T: Real + Element>(
    py: Python<'py>,
    a: &Bound<'py, PyAny>,
    b: Option<&Bound<'py, PyAny>>,
    settings: Settings<'py>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let a = matrix::<T>("a", a)?.try_readonly()?;
    let b = b.map(|b| -> PyResult<PyReadonlyArray2<'py, T>> {
        Ok(matrix::<T>("b", b)?.try_readonly()?)
    });
    let b = b.transpose()?;
    let turned = |array: &PyReadonlyArray2<'py, T>, turned: bool| match turned {
        true => [array.shape()[1], array.shape()[0]],
        false => [array.shape()[0], array.shape()[1]],
    };
    let [rows, _] = turned(&a, settings.transpose_a);
    let columns = (b.as_ref()).map_or(rows, |b| turned(b, settings.transpose_b)[1]);
    let out = match settings.out {
        None => PyArray2::<T>::zeros(py, [rows, columns], false),
        Some(out) => {
            let out = matrix::<T>("out", &out)?;
            if out.shape() != [rows, columns] {
                return Err(PyValueError::new_err(format!(
                    "out: expected the product's shape ({rows}, {columns}), got {}",
                    described(&out)
                )));
            }
            out
        }
    };
    let mut to = out.try_readwrite().map_err(|_| {
        PyValueError::new_err(
            "out: expected an array that can be written to and shares no memory with a and b, got another; pass a new array, or None",
        )
    })?;
    let (a_view, b_view) = (a.as_array(), b.as_ref().map(|b| b.as_array()));
    let factors = Factors {
        a: match settings.transpose_a {
            true => a_view.reversed_axes(),
            false => a_view,
        },
        b: b_view.map(|b| match settings.transpose_b {
            true => b.reversed_axes(),
            false => b,
        }),
        precision: settings.precision,
        host_bytes: settings.host_bytes,
    };
    let to = to.as_array_mut();
    let device = &settings.device;
    work::run(py, progress, move |progress| {
        factors.multiply(device, to, progress)
    })?;
    Ok(out.into_any())
}
