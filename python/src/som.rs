//! Self-organising maps, as `betz.SelfOrganizingMap` uses them.

use betz::device::{Device, Ran};
use betz::som::{
    Batch, BatchOptions, Fade, FadeShape, Grid, Lattice, Map, Metric, Neighbourhood, Online,
    OnlineOptions, Samples,
};
use betz::text::count;
use betz::{Error, Progress, Result};
use numpy::{IntoPyArray, Ix2, PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use crate::arguments::{instance, number, optional_whole, refused, whole};
use crate::arrays::{Numbers, floats, shown, to_f32};
use crate::error::OrRaise;
use crate::{options, work};

/// Samples presented between two looks at whether to stop.
const AT_ONCE: usize = 1 << 12;
/// Products of a number and a weight that the topographic error is worth: after a training, and after a part.
const QUALITY_PRODUCTS: [usize; 2] = [1 << 30, 1 << 26];

const SOM_MAP: &str = "the map_ of a betz.SelfOrganizingMap";

const NEIGHBOURHOODS: [(&str, Neighbourhood); 5] = [
    ("disc", Neighbourhood::Disc),
    ("window", Neighbourhood::Window),
    ("gaussian", Neighbourhood::Gaussian),
    ("triangle", Neighbourhood::Triangle),
    ("mexican-hat", Neighbourhood::MexicanHat),
];
const DISCS: [(&str, Neighbourhood); 2] = [
    ("open", Neighbourhood::Disc),
    ("closed", Neighbourhood::ClosedDisc),
];
const FADES: [(&str, FadeShape); 3] = [
    ("linear", FadeShape::Linear),
    ("geometric", FadeShape::Geometric),
    ("one-per-pass", FadeShape::OnePerPass),
];

/// Arguments that a map is made of again, for pickle.
type SomMapParts<'py> = (
    Bound<'py, PyAny>,
    (
        ([usize; 3], bool, bool),
        Option<Vec<f64>>,
        &'static str,
        Bound<'py, PyArray2<f32>>,
    ),
);

/// The node of each row, and its distance.
type NodesAndDistances<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f32>>);

/// Nodes, their weights and their metric. `betz.SelfOrganizingMap` trains one. It pickles.
#[pyclass(frozen, module = "betz")]
pub(crate) struct SomMap {
    inner: Map,
}

#[pymethods]
impl SomMap {
    /// The map of its values, for pickle.
    #[classmethod]
    fn _of(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        shape: ([usize; 3], bool, bool),
        places: Option<Vec<f64>>,
        metric: &Bound<'_, PyAny>,
        weights: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let metric = choice("metric", metric, &Metric::NAMES)?;
        let (values, dims) = rows(py, "weights", weights)?;
        let nodes = match places {
            Some(places) => Nodes::Places(places, 3),
            None => Nodes::Sides(shape.0, shape.1, shape.2),
        };
        let inner = nodes.grid().and_then(|grid| Map::new(grid, dims, values));
        let inner = inner.or_raise(py)?.with_metric(metric);
        Ok(Self { inner })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<SomMapParts<'py>> {
        let (map, grid) = (&slf.get().inner, slf.get().inner.grid());
        let places = (grid.has_positions()).then(|| {
            (0..grid.nodes())
                .flat_map(|node| grid.place(node))
                .collect()
        });
        let weights = PyArray1::from_slice(slf.py(), map.weights());
        let of = (
            (
                [grid.layers(), grid.rows(), grid.columns()],
                grid.lattice() == Lattice::Hexagonal,
                grid.is_torus(),
            ),
            places,
            map.metric().name(),
            weights.reshape([grid.nodes(), map.dims()])?,
        );
        Ok((slf.get_type().getattr("_of")?, of))
    }

    /// Lengths of the map's sides: (rows, columns), (layers, rows, columns), or (nodes,) at positions of their own.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        let grid = self.inner.grid();
        match (grid.has_positions(), grid.layers()) {
            (true, _) => vec![grid.nodes()],
            (_, 1) => vec![grid.rows(), grid.columns()],
            (_, layers) => vec![layers, grid.rows(), grid.columns()],
        }
    }

    /// Weights of each node, float32 (nodes, features), read-only.
    #[getter]
    fn weights<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let map = &slf.get().inner;
        shown(slf, map.weights(), Some(map.dims()))
    }

    /// Place of each node, float64 (nodes, 3): column, row and layer in widths of a node, or the positions given.
    #[getter]
    fn places<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let grid = self.inner.grid();
        let places: Vec<f64> = (0..grid.nodes()).flat_map(|n| grid.place(n)).collect();
        places.into_pyarray(py).reshape([grid.nodes(), 3])
    }

    /// Mean distance of each node's weights from those of its neighbours, float32 (nodes,): the U-matrix.
    fn heights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        work::detach(py, || self.inner.heights()).into_pyarray(py)
    }

    /// Nearest node of each row of `samples`, uint32, and its distance, float32; of nodes equally near the lowest.
    fn assign<'py>(
        &self,
        py: Python<'py>,
        samples: &Bound<'py, PyAny>,
    ) -> PyResult<NodesAndDistances<'py>> {
        let (values, dims) = rows(py, "X", samples)?;
        let found = work::run(py, None, |_| {
            self.inner.assign(Samples::new(&values, dims)?)
        })?;
        let (winners, distances) = (found.winners, found.distances);
        Ok((winners.into_pyarray(py), distances.into_pyarray(py)))
    }

    /// Distance of each row of `samples` from each node, float64 (rows, nodes).
    fn distances<'py>(
        &self,
        py: Python<'py>,
        samples: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (values, dims) = rows(py, "X", samples)?;
        let found = work::run(py, None, |_| {
            self.inner.distances(Samples::new(&values, dims)?)
        })?;
        let shape = [values.len() / dims, self.inner.grid().nodes()];
        found.into_pyarray(py).reshape(shape)
    }

    fn __repr__(&self) -> String {
        let sides: Vec<String> = self.shape().iter().map(ToString::to_string).collect();
        format!(
            "<betz.SomMap: {} nodes of {}, {}>",
            sides.join(" x "),
            count(self.inner.dims() as u128, "number"),
            self.inner.metric().name()
        )
    }
}

/// Nodes as they are asked for.
enum Nodes {
    /// Layers, rows and columns; of hexagons; joined at their edges.
    Sides([usize; 3], bool, bool),
    /// Positions of so many numbers each.
    Places(Vec<f64>, usize),
}

impl Nodes {
    fn of(asked: &Parameters<'_, '_>) -> PyResult<Self> {
        let (hex, torus) = (asked.flag("hex")?, asked.flag("torus")?);
        let positions = asked.get("positions")?;
        if positions.is_none() {
            return Ok(Self::Sides(sides(&asked.get("map")?)?, hex, torus));
        }
        if hex || torus {
            let name = if hex { "hex" } else { "torus" };
            return Err(PyValueError::new_err(format!(
                "{name}: expected False for nodes at positions of their own, got True"
            )));
        }
        let shape = Numbers::<Ix2>::of("positions", &positions)?
            .shape()
            .to_vec();
        let flat = positions.call_method1("reshape", (-1,))?;
        Ok(Self::Places(floats("positions", &flat)?, shape[1]))
    }

    fn grid(&self) -> Result<Grid> {
        match self {
            Self::Places(places, dims) => Grid::at_positions(places, *dims),
            &Self::Sides([layers, rows, columns], hex, torus) => {
                let lattice = match hex {
                    true => Lattice::Hexagonal,
                    false => Lattice::Rectangular,
                };
                Grid::new(rows, columns, lattice, torus)?.with_layers(layers)
            }
        }
    }
}

/// Layers, rows and columns of "90x70", "8x8x8", (90, 70) or (8, 8, 8).
fn sides(map: &Bound<'_, PyAny>) -> PyResult<[usize; 3]> {
    let expected = "rows and columns, such as (90, 70) or \"90x70\", or layers, rows and columns, such as (8, 8, 8)";
    let numbers: Option<Vec<usize>> = match map.cast::<PyString>() {
        Ok(text) => (text.to_string().split(['x', '×']))
            .map(|number| number.trim().parse().ok())
            .collect(),
        Err(_) => Some(map.extract().map_err(|_| refused("map", expected, map))?),
    };
    match numbers.as_deref() {
        Some(&[rows, columns]) => Ok([1, rows, columns]),
        Some(&[layers, rows, columns]) => Ok([layers, rows, columns]),
        _ => Err(PyValueError::new_err(format!(
            "map: expected {expected}, got {}",
            map.str()?
        ))),
    }
}

/// The estimator's parameters by name.
struct Parameters<'a, 'py>(&'a Bound<'py, PyDict>);

impl<'py> Parameters<'_, 'py> {
    fn get(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let missing = || PyValueError::new_err(format!("{name}: expected a parameter, got none"));
        self.0.get_item(name)?.ok_or_else(missing)
    }

    fn flag(&self, name: &str) -> PyResult<bool> {
        let value = self.get(name)?;
        value
            .extract()
            .map_err(|_| refused(name, "True or False", &value))
    }

    /// A parameter that is not None, for which `online` has to be `needed`.
    fn given(&self, name: &str, needed: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.get(name)?;
        if value.is_none() {
            return Ok(None);
        }
        if self.flag("online")? != needed {
            let (needed, got) = if needed {
                ("True", "False")
            } else {
                ("False", "True")
            };
            return Err(PyValueError::new_err(format!(
                "{name}: expected online={needed}, got online={got}"
            )));
        }
        Ok(Some(value))
    }

    /// A first and a last number, or one for both.
    fn pair(&self, name: &str, value: &Bound<'py, PyAny>) -> PyResult<(f64, f64)> {
        if let Ok(one) = number(name, value) {
            return Ok((one, one));
        }
        value
            .extract()
            .map_err(|_| refused(name, "a number, or (first, last) such as (16, 1)", value))
    }
}

/// The entry of `table` that is named.
fn choice<T: Copy>(name: &str, value: &Bound<'_, PyAny>, table: &[(&str, T)]) -> PyResult<T> {
    let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
    let expected = format!("one of {}", names.join(", "));
    let text: String = value
        .extract()
        .map_err(|_| refused(name, &expected, value))?;
    let found = table.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| PyValueError::new_err(format!("{name}: expected {expected}, got '{text}'")))
}

/// Rows of numbers in f32, and the length of each.
fn rows(py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<(Vec<f32>, usize)> {
    let numbers = Numbers::<Ix2>::of(name, object)?;
    let dims = numbers.shape()[1];
    Ok((to_f32(py, name, &numbers)?, dims))
}

/// The rule of a training.
enum Rule {
    Batch(BatchOptions),
    Online(OnlineOptions),
}

impl Rule {
    fn of(asked: &Parameters<'_, '_>) -> PyResult<Self> {
        let epochs = optional_whole("epochs", Some(&asked.get("epochs")?))?;
        let radius = asked.get("radius")?;
        let radius = (!radius.is_none())
            .then(|| asked.pair("radius", &radius))
            .transpose()?;
        let exact = asked.flag("exact")?;
        if !asked.flag("online")? {
            for name in ["rate", "neighbourhood", "disc", "fade"] {
                asked.given(name, true)?;
            }
            let usual = BatchOptions::default();
            let (first, last) = radius.unwrap_or((usual.first_radius, usual.last_radius));
            return Ok(Self::Batch(BatchOptions {
                epochs: epochs.unwrap_or(usual.epochs),
                first_radius: first,
                last_radius: last,
                exact,
            }));
        }
        if exact {
            asked.given("exact", false)?;
        }
        let usual = OnlineOptions::default();
        let neighbourhood = match asked.given("neighbourhood", true)? {
            None => Neighbourhood::Disc,
            Some(name) => choice("neighbourhood", &name, &NEIGHBOURHOODS)?,
        };
        let disc = asked.given("disc", true)?;
        if disc.is_some() && neighbourhood != Neighbourhood::Disc {
            return Err(PyValueError::new_err(format!(
                "disc: expected neighbourhood=\"disc\", got {}",
                asked.get("neighbourhood")?.repr()?
            )));
        }
        let (first, last) = radius.unwrap_or((usual.radius.first, usual.radius.last));
        let (fast, slow) = match asked.given("rate", true)? {
            None => (usual.rate.first, usual.rate.last),
            Some(rate) => asked.pair("rate", &rate)?,
        };
        Ok(Self::Online(OnlineOptions {
            passes: epochs.unwrap_or(usual.passes),
            rate: Fade {
                first: fast,
                last: slow,
                shape: FadeShape::Linear,
            },
            radius: Fade {
                first,
                last,
                shape: match asked.given("fade", true)? {
                    None => FadeShape::OnePerPass,
                    Some(name) => choice("fade", &name, &FADES)?,
                },
            },
            neighbourhood: match disc {
                None => neighbourhood,
                Some(name) => choice("disc", &name, &DISCS)?,
            },
        }))
    }

    /// The rule of one pass alone; behind the last pass that of the last.
    fn of_pass(self, pass: usize) -> Result<OnlineOptions> {
        match self {
            Self::Batch(_) => Err(Error::argument(
                "partial_fit: expected online=True, which takes one sample after the other, got online=False",
            )),
            Self::Online(options) => {
                let at = pass.min(options.passes.saturating_sub(1));
                Ok(OnlineOptions {
                    passes: options.passes.min(1),
                    rate: Fade::constant(options.rate.at(at, options.passes)),
                    radius: Fade::constant(options.radius.at(at, options.passes)),
                    ..options
                })
            }
        }
    }
}

/// A training that is done.
struct TrainingResult {
    map: Map,
    ran: Ran,
    passes: usize,
    rechecked: usize,
    /// Mean distance before each epoch of batch training.
    errors: Vec<f64>,
}

fn batch(
    map: &Map,
    samples: Samples<'_>,
    options: &BatchOptions,
    device: &Device,
    progress: &dyn Progress,
) -> Result<TrainingResult> {
    let mut batch = Batch::new(map, samples, options, device)?;
    let total = options.epochs as u64;
    for done in 0..total {
        betz::progress::check(progress, "training the map")?;
        batch.epoch()?;
        progress.update("training the map", done + 1, total);
    }
    let epochs = batch.epochs();
    Ok(TrainingResult {
        map: batch.map()?,
        ran: batch.ran().clone(),
        passes: epochs.len(),
        rechecked: epochs.iter().map(|epoch| epoch.rechecked).sum(),
        errors: epochs.iter().map(|e| e.quantisation_error).collect(),
    })
}

fn online(
    mut map: Map,
    samples: Samples<'_>,
    options: &OnlineOptions,
    device: &Device,
    progress: &dyn Progress,
) -> Result<TrainingResult> {
    let mut online = Online::new(&map, samples, options, device)?;
    let total = options.passes as u64 * samples.count() as u64;
    let mut done = 0;
    loop {
        betz::progress::check(progress, "training the map")?;
        let presented = online.present(AT_ONCE)?;
        if presented == 0 {
            break;
        }
        done += presented as u64;
        progress.update("training the map", done, total);
    }
    online.write(&mut map)?;
    Ok(TrainingResult {
        map,
        ran: online.ran().clone(),
        passes: online.passes(),
        rechecked: 0,
        errors: Vec::new(),
    })
}

/// A map trained on `samples`, and a report of its training. `pass_number` is the number of one pass that is done alone, from
/// `start` on or from a new map. `betz.SelfOrganizingMap` is the way to call it.
#[pyfunction]
#[pyo3(signature = (samples, parameters, start=None, pass_number=None, progress=None))]
pub(crate) fn train_map<'py>(
    py: Python<'py>,
    samples: &Bound<'py, PyAny>,
    parameters: &Bound<'py, PyDict>,
    start: Option<&Bound<'py, PyAny>>,
    pass_number: Option<usize>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<(SomMap, Bound<'py, PyDict>)> {
    let (values, dims) = rows(py, "X", samples)?;
    let asked = Parameters(parameters);
    let (nodes, rule) = (Nodes::of(&asked)?, Rule::of(&asked)?);
    let metric = choice("metric", &asked.get("metric")?, &Metric::NAMES)?;
    let seed = whole("seed", &asked.get("seed")?)? as u64;
    let device = asked.get("device")?;
    let device: String = device
        .extract()
        .map_err(|_| refused("device", "a text such as \"cpu\" or \"cuda\"", &device))?;
    let device = options::device(py, &device)?;
    let start = match start.filter(|start| !start.is_none()) {
        Some(start) => Some(instance::<SomMap>("start", SOM_MAP, start)?.get()),
        None => None,
    };
    let (trained, assigned, quality) = work::run(py, progress, |progress| {
        let samples = Samples::new(&values, dims)?;
        let map = match (start, &rule) {
            (Some(start), _) => start.inner.clone(),
            (None, Rule::Online(_)) => Map::at_random(nodes.grid()?, samples, seed)?,
            (None, Rule::Batch(_)) => Map::on_plane(nodes.grid()?, samples)?,
        };
        let map = map.with_metric(metric);
        let trained = match (pass_number, rule) {
            (Some(pass), rule) => online(map, samples, &rule.of_pass(pass)?, &device, progress),
            (None, Rule::Online(options)) => online(map, samples, &options, &device, progress),
            (None, Rule::Batch(options)) => batch(&map, samples, &options, &device, progress),
        }?;
        let assigned = trained.map.assign(samples)?;
        let products = QUALITY_PRODUCTS[usize::from(pass_number.is_some())];
        let some = trained.map.evenly(samples, products);
        let quality = trained.map.quality(Samples::new(&some, dims)?)?;
        Ok((trained, assigned, quality))
    })?;
    let report = PyDict::new(py);
    let distances = assigned.distances.iter().map(|d| f64::from(*d));
    let error = distances.sum::<f64>() / assigned.distances.len() as f64;
    report.set_item("quantization_error", error)?;
    report.set_item("topographic_error", quality.topographic_error)?;
    report.set_item("winners", assigned.winners.into_pyarray(py))?;
    report.set_item("passes", trained.passes)?;
    report.set_item("errors", trained.errors)?;
    report.set_item("rechecked", trained.rechecked)?;
    report.set_item("device", trained.ran.device)?;
    report.set_item("fallback", trained.ran.fallback)?;
    Ok((SomMap { inner: trained.map }, report))
}
