//! NumPy arrays read in place, and slices of the library shown as NumPy arrays.

use betz::recording::{Segment, Spikes};
use betz::{Error, Result};
use numpy::ndarray::{ArrayView1, ArrayView2, Dimension};
use numpy::{
    Element, PyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::PyClass;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arguments::{described, refused as refused_type};
use crate::error::OrRaise;

/// Largest distance from 0 of a value that the library sums squares of.
const LARGEST: f64 = 1e15;

/// An array of one of the types that are read without a copy.
pub(crate) enum Numbers<'py, D: Dimension> {
    F64(PyReadonlyArray<'py, f64, D>),
    F32(PyReadonlyArray<'py, f32, D>),
    U16(PyReadonlyArray<'py, u16, D>),
    U8(PyReadonlyArray<'py, u8, D>),
    I64(PyReadonlyArray<'py, i64, D>),
}

/// One expression for the array that `Numbers` holds, whatever its type.
macro_rules! each_type {
    ($numbers:expr, $array:ident => $value:expr) => {
        match $numbers {
            Numbers::F64($array) => $value,
            Numbers::F32($array) => $value,
            Numbers::U16($array) => $value,
            Numbers::U8($array) => $value,
            Numbers::I64($array) => $value,
        }
    };
}

impl<'py, D: Dimension> Numbers<'py, D> {
    /// The array `object`, where it lies if its type is float64, float32, uint16, uint8 or int64; as a float64
    /// copy that NumPy makes otherwise (lists, other integers, booleans).
    pub(crate) fn of(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Self> {
        fn lies<'py, T: Element, D: Dimension>(
            object: &Bound<'py, PyAny>,
        ) -> Option<PyReadonlyArray<'py, T, D>> {
            let array = object.cast::<PyArray<T, D>>().ok()?;
            array.try_readonly().ok()
        }
        let in_place = (lies(object).map(Self::F64))
            .or_else(|| lies(object).map(Self::F32))
            .or_else(|| lies(object).map(Self::U16))
            .or_else(|| lies(object).map(Self::U8))
            .or_else(|| lies(object).map(Self::I64));
        // A masked array is one of its values, too: `numeric` looks at the mask.
        if let Some(array) = in_place.filter(|_| !matches!(object.hasattr("mask"), Ok(true))) {
            return Ok(array);
        }
        let numpy = object.py().import("numpy")?;
        let array = numeric(name, object)?;
        let copy = array.call_method1("astype", (numpy.getattr("float64")?,))?;
        let array = copy.cast::<PyArray<f64, D>>().map_err(|_| {
            let expected = match D::NDIM {
                Some(1) => "one dimension",
                _ => "two dimensions, a row per time and a column per channel or output",
            };
            let got = described(object);
            PyValueError::new_err(format!("{name}: expected {expected}, got {got}"))
        })?;
        Ok(Self::F64(array.try_readonly()?))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        each_type!(self, a => a.shape())
    }
}

/// A number that goes into f32 with a check.
trait Value: Copy + Element + Into64 {}
impl<T: Copy + Element + Into64> Value for T {}

trait Into64 {
    fn into64(self) -> f64;
}

macro_rules! into64 {
    ($($number:ty),*) => {$(
        impl Into64 for $number {
            #[inline(always)]
            fn into64(self) -> f64 {
                self as f64
            }
        }
    )*};
}
into64!(f64, f32, u16, u8, i64);

/// `numbers` in f32, row-major.
///
/// # Errors
/// BetzError for what f32 does not hold, unless it is NaN.
pub(crate) fn to_f32(
    py: Python<'_>,
    name: &str,
    numbers: &Numbers<'_, numpy::Ix2>,
) -> PyResult<Vec<f32>> {
    fn rows<T: Value>(name: &str, view: &ArrayView2<'_, T>) -> Result<Vec<f32>> {
        let mut values = betz::memory::room("an array", view.len())?;
        for ((row, column), value) in view.indexed_iter() {
            let (wide, narrow) = (value.into64(), value.into64() as f32);
            if narrow.is_infinite() {
                return Err(Error::recording(format!(
                    "{name}: [{row}, {column}] = {wide}: expected a number that 32 bits hold"
                ))
                .with_position(row * view.ncols() + column));
            }
            values.push(narrow);
        }
        Ok(values)
    }
    let values = each_type!(numbers, a => rows(name, &a.as_array()));
    values.or_raise(py)
}

/// The entries of (time, channels) that are not 0, and whether all are whole numbers of at least 0: counts.
pub(crate) fn entries(
    py: Python<'_>,
    name: &str,
    numbers: &Numbers<'_, numpy::Ix2>,
) -> PyResult<(Spikes, bool)> {
    fn of<T: Value>(name: &str, view: &ArrayView2<'_, T>) -> Result<(Spikes, bool)> {
        let filled = view.iter().filter(|v| v.into64() != 0.0).count();
        let mut spikes = Spikes {
            ticks: betz::memory::room("an array", filled)?,
            channels: betz::memory::room("an array", filled)?,
            weights: betz::memory::room("an array", filled)?,
        };
        let (mut counts, mut single) = (true, true);
        for ((row, column), value) in view.indexed_iter() {
            let value = value.into64();
            if value.is_nan() || value.abs() > LARGEST {
                return Err(Error::recording(format!(
                    "{name}: [{row}, {column}] = {value}: expected a finite number of at most 1e15"
                ))
                .with_position(row * view.ncols() + column)
                .with_channel(column));
            }
            if value == 0.0 {
                continue;
            }
            counts &= value > 0.0 && value <= f64::from(u16::MAX) && value.fract() == 0.0;
            single &= value == 1.0;
            spikes.ticks.push(row as i64);
            spikes.channels.push(column as u32);
            spikes.weights.push(value as f32);
        }
        if single {
            spikes.weights = Vec::new();
        }
        Ok((spikes, counts))
    }
    let found = each_type!(numbers, a => of(name, &a.as_array()));
    found.or_raise(py)
}

/// Refuses an array some of whose values are masked: read in place, they would be numbers like others.
///
/// # Errors
/// TypeError.
pub(crate) fn refuse_masked(name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
    // Plain arrays, which steps are made of, cost one comparison.
    if !object.is_exact_instance_of::<PyUntypedArray>() && object.hasattr("mask")? {
        numeric(name, object)?;
    }
    Ok(())
}

/// `object` as NumPy has it, if it holds numbers: booleans, integers or floats.
///
/// # Errors
/// TypeError for everything that NumPy would turn into numbers that mean something else, and says how to convert it.
pub(crate) fn numeric<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let refused = |remedy: &str| {
        let got = described(object);
        PyTypeError::new_err(format!("{name}: expected numbers, got {got}{remedy}"))
    };
    if object.hasattr("toarray")? {
        return Err(refused("; convert a sparse matrix by its .toarray()"));
    }
    let numpy = object.py().import("numpy")?;
    let masked = numpy.getattr("ma")?.call_method1("is_masked", (object,));
    if object.hasattr("mask")? && masked?.is_truthy()? {
        return Err(refused(
            " with masked values; fill them, or leave their rows out",
        ));
    }
    let Ok(array) = numpy.call_method1("asarray", (object,)) else {
        return Err(refused(" with rows of different lengths"));
    };
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    Err(refused(match kind.as_str() {
        "b" | "i" | "u" | "f" => return Ok(array),
        "M" | "m" => "; convert times to seconds: (t - t[0]) / numpy.timedelta64(1, \"s\")",
        "c" => "; take its .real, or abs() of it",
        "O" | "U" | "S" => "; convert it by .astype(float)",
        _ => "; pass one column of it as an array of numbers",
    }))
}

/// A list of whole numbers, such as ticks.
pub(crate) fn integers(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    refuse_masked(name, object)?;
    if let Ok(array) = object.cast::<PyArray1<i64>>() {
        return Ok(copied(&array.try_readonly()?.as_array()));
    }
    let refused = |expected: &str| {
        let got = described(object);
        PyValueError::new_err(format!("{name}: expected {expected}, got {got}"))
    };
    let numpy = object.py().import("numpy")?;
    let Ok(array) = numpy.call_method1("asarray", (object,)) else {
        return Err(refused("one dimension"));
    };
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let empty = matches!(array.len(), Ok(0));
    if !matches!(kind.as_str(), "i" | "u") && !empty {
        numeric(name, object)?;
        let remedy = match name {
            "spike_ticks" => "numpy.round(seconds / tick_seconds).astype(int) makes ticks of times",
            _ => "convert them by .astype(int), best to uint32",
        };
        let expected = format!("whole numbers; {remedy}");
        return Err(refused_type(name, &expected, object));
    }
    if kind == "u" && !empty && array.call_method0("max")?.extract::<i64>().is_err() {
        return Err(refused("numbers below 2^63"));
    }
    let array = array.call_method1("astype", (numpy.getattr("int64")?,))?;
    let array = array
        .cast::<PyArray1<i64>>()
        .map_err(|_| refused("one dimension"))?;
    Ok(copied(&array.try_readonly()?.as_array()))
}

/// Times in seconds, or other numbers of one dimension.
pub(crate) fn floats(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let numbers = Numbers::<numpy::Ix1>::of(name, object)?;
    Ok(each_type!(&numbers, a => a.as_array().iter().map(|v| v.into64()).collect()))
}

fn copied<T: Copy>(view: &ArrayView1<'_, T>) -> Vec<T> {
    view.iter().copied().collect()
}

/// Segments from an array (n, 2), half-open; none given: all of `ticks`.
pub(crate) fn segments(object: Option<&Bound<'_, PyAny>>, ticks: i64) -> PyResult<Vec<Segment>> {
    let Some(object) = object.filter(|o| !o.is_none()) else {
        return Ok(vec![Segment {
            start: 0,
            stop: ticks,
        }]);
    };
    let pairs: Vec<[i64; 2]> = object.extract().map_err(|_| {
        PyTypeError::new_err(format!(
            "segments: expected whole numbers (n, 2), the first tick of each segment and the one behind its last, got {}",
            described(object)
        ))
    })?;
    Ok(pairs
        .into_iter()
        .map(|[start, stop]| Segment { start, stop })
        .collect())
}

/// A slice of `owner` as a read-only array that keeps `owner` alive: nothing is copied.
#[allow(unsafe_code)]
pub(crate) fn shown<'py, T: Element, O: PyClass + Sync>(
    owner: &Bound<'py, O>,
    slice: &[T],
    columns: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let owner = owner.clone().into_any();
    let array = match columns {
        None => {
            let view = ArrayView1::from(slice);
            // SAFETY: `slice` lies in `owner`, a frozen object that the array keeps alive, and nothing writes to it:
            // the array is made read-only before anybody sees it.
            unsafe { PyArray1::borrow_from_array(&view, owner) }.into_any()
        }
        Some(columns) => {
            let rows = slice.len().checked_div(columns).unwrap_or(0);
            let view = ArrayView2::from_shape((rows, columns), slice)
                .map_err(|e| PyValueError::new_err(e.to_string()))?;
            // SAFETY: as above.
            unsafe { PyArray2::borrow_from_array(&view, owner) }.into_any()
        }
    };
    array.getattr("flags")?.setattr("writeable", false)?;
    Ok(array)
}
