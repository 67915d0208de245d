//! Correlation networks over sliding windows.

use betz::Error;
use betz::network::file::{NetworkFile, Part, Source};
use betz::network::graph::leiden::Leiden;
use betz::network::graph::{Graph, measures};
use betz::network::{Measure, NetworkSpec, Plan, Run, Sign, Signal, SignalData, Threshold, Window};
use betz::text::count;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::arguments::{FilePath, described, optional_number, optional_whole, whole};
use crate::arrays::{self, numeric};
use crate::error::{OrRaise, warn};
use crate::parts::{self, NetworkPart, PickleParts};
use crate::{options, work};

/// The edges of every window: window k has those from `indptr[k]` to `indptr[k + 1]` of `i` < `j` and `r`.
#[pyclass(frozen, module = "betz")]
pub(crate) struct Network {
    pub(crate) file: NetworkFile,
}

#[pymethods]
impl Network {
    /// First sample of each window, uint64. A read-only view.
    #[getter]
    fn window_start<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shown(slf, slf.get().file.network.window_start(), None)
    }

    /// Where each window's edges begin, uint64 (windows + 1,). A read-only view.
    #[getter]
    fn indptr<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shown(slf, slf.get().file.network.indptr(), None)
    }

    /// The smaller node of each edge, uint32. A read-only view.
    #[getter]
    fn i<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shown(slf, slf.get().file.network.i(), None)
    }

    /// The larger node of each edge, uint32. A read-only view.
    #[getter]
    fn j<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shown(slf, slf.get().file.network.j(), None)
    }

    /// The value of each edge, float32. A read-only view.
    #[getter]
    fn r<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrays::shown(slf, slf.get().file.network.r(), None)
    }

    /// Number of nodes.
    #[getter]
    fn nodes(&self) -> usize {
        self.file.network.nodes()
    }

    /// Number of windows.
    fn __len__(&self) -> usize {
        self.file.network.len()
    }

    /// Numbers of nodes without correlations, counted in each window: constant ones, and ones with a value that is not finite.
    #[getter]
    fn undefined(&self) -> (u64, u64) {
        self.file.network.undefined()
    }

    /// Edges of each node in window `k`, uint32 (nodes,).
    fn degrees<'py>(&self, py: Python<'py>, k: usize) -> PyResult<Bound<'py, PyArray1<u32>>> {
        Ok(measures::degrees(&self.graph(k)?).into_pyarray(py))
    }

    /// The community of each node in window `k`, uint32 (nodes,), by Leiden's method.
    fn communities<'py>(&self, py: Python<'py>, k: usize) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let graph = self.graph(k)?;
        let found = work::detach(py, || Leiden::default().run(&graph, None)).or_raise(py)?;
        Ok(found.communities.into_pyarray(py))
    }

    /// The network in the bytes that its pickle holds.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let file = work::detach(py, || NetworkFile::from_bytes(bytes)).or_raise(py)?;
        Ok(Self { file })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickleParts<'py>> {
        let py = slf.py();
        let network = slf.get();
        let bytes = work::detach(py, || network.file.to_bytes()).or_raise(py)?;
        let make = slf.get_type().getattr("from_bytes")?;
        Ok((make, (PyBytes::new(py, &bytes),)))
    }

    /// Writes the `.npz` that `betz network` reads.
    fn save(&self, py: Python<'_>, path: FilePath) -> PyResult<()> {
        work::detach(py, || self.file.write(&path)).or_raise(py)
    }

    fn __repr__(&self) -> String {
        format!(
            "<betz.Network: {}, {}, {}>",
            count(self.file.network.nodes() as u128, "node"),
            count(self.file.network.len() as u128, "window"),
            count(self.file.network.edges() as u128, "edge")
        )
    }
}

impl Network {
    fn graph(&self, k: usize) -> PyResult<Graph> {
        let window = self.file.network.window(k).ok_or_else(|| {
            PyIndexError::new_err(format!(
                "expected a window below {}, got {k}",
                self.file.network.len()
            ))
        })?;
        Ok(Graph::of(&window, self.file.network.nodes()))
    }
}

/// Samples (time, nodes), or places (time, nodes, axes), read where they lie.
enum Samples<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
    I16(PyReadonlyArrayDyn<'py, i16>),
    U16(PyReadonlyArrayDyn<'py, u16>),
    U8(PyReadonlyArrayDyn<'py, u8>),
}

impl<'py> Samples<'py> {
    fn of(object: &Bound<'py, PyAny>, places: bool) -> PyResult<Self> {
        let numpy = object.py().import("numpy")?;
        let array = numeric("signal", object)?;
        let expected = match places {
            true => "three dimensions, (samples, nodes, 2 or 3)",
            false => "two dimensions, (samples, nodes)",
        };
        if array.getattr("ndim")?.extract::<usize>()? != if places { 3 } else { 2 } {
            let got = described(object);
            return Err(PyValueError::new_err(format!(
                "signal: expected {expected}, got {got}"
            )));
        }
        let array = numpy.call_method1("ascontiguousarray", (array,))?;
        let lies = array.extract().map(Self::F32);
        let lies = lies.or_else(|_| array.extract().map(Self::F64));
        let lies = lies.or_else(|_| array.extract().map(Self::I16));
        let lies = lies.or_else(|_| array.extract().map(Self::U16));
        let lies = lies.or_else(|_| array.extract().map(Self::U8));
        lies.or_else(|_: PyErr| {
            let wide = array.call_method1("astype", (numpy.getattr("float64")?,))?;
            Ok(Self::F64(wide.extract()?))
        })
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::F32(a) => a.shape(),
            Self::F64(a) => a.shape(),
            Self::I16(a) => a.shape(),
            Self::U16(a) => a.shape(),
            Self::U8(a) => a.shape(),
        }
    }

    fn signal(&self) -> PyResult<betz::Result<Signal<'_>>> {
        let data = self.data()?;
        Ok(match *self.shape() {
            [_, nodes, axes] => Signal::places(data, nodes, axes),
            _ => Signal::new(data, self.shape()[1]),
        })
    }

    fn data(&self) -> PyResult<SignalData<'_>> {
        let gaps = |_| PyValueError::new_err("signal: expected a contiguous array");
        Ok(match self {
            Self::F32(a) => a.as_slice().map_err(gaps)?.into(),
            Self::F64(a) => a.as_slice().map_err(gaps)?.into(),
            Self::I16(a) => a.as_slice().map_err(gaps)?.into(),
            Self::U16(a) => a.as_slice().map_err(gaps)?.into(),
            Self::U8(a) => a.as_slice().map_err(gaps)?.into(),
        })
    }
}

/// The network of `signal`, (samples, nodes), over windows of `window` samples every `step`.
///
/// One of `threshold` (values that reach it), `density` (share of all pairs), `top` (pairs of each window) and
/// `top_per_node`; `measure` as `betz network compute --measure` has them, `lags` for "lagged"; `sign`: "both", "pos",
/// "neg"; with `measure="distance"` the signal is places, (samples, nodes, 2 or 3), that must be near for `near` samples (the
/// window unless given) with up to `gap` between near ones, latitudes and longitudes if `earth`; with `measure="coherence"` `segment` samples (a quarter of the window
/// unless given), the `frequencies` (low, high) in cycles per sample (hertz times the seconds between samples; all above 0
/// unless given), and their mean, or their largest value if `peak`; `strict`: beyond the threshold instead of reaching it. With `shard=(k, n)` a `NetworkPart`: share k, from 1, of n of
/// the windows, of all of which `betz.join` makes the network.
///
/// >>> import numpy as np, betz
/// >>> t = np.arange(600)[:, None]
/// >>> signal = np.hstack([np.sin(t / 40 + np.zeros(3)), np.cos(t / 13 + np.zeros(3))])
/// >>> network = betz.network(signal + np.random.default_rng(0).normal(0, 0.1, signal.shape), window=200, step=50, threshold=0.8)
/// >>> len(network), network.communities(0).tolist()
/// (9, [0, 0, 0, 1, 1, 1])
#[pyfunction]
#[pyo3(signature = (signal, *, window, step=None, threshold=None, density=None, top=None, top_per_node=None, measure="pearson", lags=0, near=None, gap=0, earth=false, segment=None, frequencies=None, peak=false, sign="both", strict=false, device="cpu", shard=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn network<'py>(
    py: Python<'py>,
    signal: &Bound<'py, PyAny>,
    window: &Bound<'py, PyAny>,
    step: Option<&Bound<'py, PyAny>>,
    threshold: Option<&Bound<'py, PyAny>>,
    density: Option<&Bound<'py, PyAny>>,
    top: Option<&Bound<'py, PyAny>>,
    top_per_node: Option<&Bound<'py, PyAny>>,
    measure: &str,
    lags: usize,
    near: Option<usize>,
    gap: usize,
    earth: bool,
    segment: Option<usize>,
    frequencies: Option<(f64, f64)>,
    peak: bool,
    sign: &str,
    strict: bool,
    device: &str,
    shard: Option<(usize, usize)>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let window = whole("window", window)?;
    let step = step.map_or(Ok(1), |step| whole("step", step))?;
    let given = [
        optional_number("threshold", threshold)?.map(Threshold::Absolute),
        optional_number("density", density)?.map(Threshold::Density),
        optional_whole("top", top)?.map(Threshold::Top),
        optional_whole("top_per_node", top_per_node)?.map(Threshold::TopPerNode),
    ];
    let mut given = given.into_iter().flatten();
    let (Some(threshold), None) = (given.next(), given.next()) else {
        return Err(PyValueError::new_err(
            "network: expected exactly one of threshold=, density=, top= and top_per_node=, which choose the edges",
        ));
    };
    let named = || -> betz::Result<NetworkSpec> {
        let measure = match named_measure(measure, lags)? {
            Measure::Distance { .. } => Measure::Distance {
                near: near.unwrap_or(window),
                gap,
                earth,
            },
            Measure::Coherence { .. } => {
                Measure::coherence(segment.unwrap_or(window / 4), frequencies, 1.0, peak)?
            }
            other => other,
        };
        let sign = Sign::named(sign).ok_or_else(|| {
            Error::argument(format!("sign: expected both, pos or neg, got '{sign}'"))
        })?;
        let spec = NetworkSpec::new(
            measure,
            Window {
                length: window,
                step,
            },
        );
        Ok(spec.threshold(threshold).sign(sign).strict(strict))
    };
    let spec = named().or_raise(py)?;
    let device = options::device(py, device)?;
    let places = matches!(spec.measure, Measure::Distance { .. });
    let samples = Samples::of(signal, places)?;
    let signal = samples.signal()?.or_raise(py)?;
    let shard = shard.map(parts::shard).transpose().or_raise(py)?;
    let (plan, file) = work::run(py, progress, |progress| {
        let plan = Plan::new(&spec, &signal)?.on(&device)?;
        let run = Run {
            shard,
            ..Run::default()
        };
        let network = plan.run_with(run, &signal, progress)?;
        let network = network.ok_or_else(|| Error::argument("network: expected no team"))?;
        let file = NetworkFile {
            // Tells shards of different signals apart.
            source: Some(Source {
                name: "array".into(),
                hash: format!("{:016x}", signal.hash()),
            }),
            ..NetworkFile::new(network)
        };
        Ok((plan, file))
    })?;
    warn_of_undefined(py, &file.network)?;
    Ok(match shard {
        Some(shard) => {
            let inner = Part::new(&plan, shard, file).or_raise(py)?;
            Bound::new(py, NetworkPart { inner })?.into_any()
        }
        None => Bound::new(py, Network { file })?.into_any(),
    })
}

/// Warns of nodes that have no correlations because a value is not finite.
fn warn_of_undefined(py: Python<'_>, network: &betz::network::Network) -> PyResult<()> {
    if let (_, broken @ 1..) = network.undefined() {
        let message = format!(
            "signal: expected finite numbers, got NaN or an infinite value in {}, counted in each window: these have no \
             correlations; leave the nodes out, or fill the gaps",
            count(u128::from(broken), "node")
        );
        warn(py, message)?;
    }
    Ok(())
}

fn named_measure(name: &str, lags: usize) -> betz::Result<Measure> {
    match Measure::named(name) {
        Some(Measure::Lagged { .. }) => Ok(Measure::Lagged { lags }),
        Some(known) => Ok(known),
        None => Err(Error::argument(format!(
            "measure: expected one of {}, got '{name}'",
            Measure::names().join(", ")
        ))),
    }
}
