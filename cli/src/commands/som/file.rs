//! The file of a map, and positions of nodes.

use std::path::Path;

use betz::recording::arrays::{Array, Arrays, Number, write};
use betz::som::{Assignment, Grid, Lattice, Map, Metric};
use betz::{Error, Result};

use super::live::Errors;

/// Data that a map was trained on.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    /// Name of the array, if one was given.
    pub(super) array: Option<&'a str>,
}

/// A map as a file holds it.
pub(super) struct MapFile {
    pub(super) map: Map,
    /// Path of the data, as given for the training, and name of the array.
    pub(super) source: Option<(String, Option<String>)>,
    /// Node of each sample; without samples if the file does not have them.
    pub(super) assigned: Assignment,
    /// Samples that each node wins; empty if the file does not have them.
    pub(super) hits: Vec<u32>,
    pub(super) errors: Errors,
}

/// Shape of a map's arrays: (nodes) at positions of their own, (rows, columns), or (layers, rows, columns).
fn shape(grid: &Grid) -> Vec<usize> {
    if grid.has_positions() {
        vec![grid.nodes()]
    } else if grid.layers() > 1 {
        vec![grid.layers(), grid.rows(), grid.columns()]
    } else {
        vec![grid.rows(), grid.columns()]
    }
}

/// Writes a map of the data of `source` with its heights, the nodes of its samples, and errors by epoch.
pub(super) fn save(
    path: &Path,
    source: Source<'_>,
    map: &Map,
    hits: &[u32],
    assigned: &Assignment,
    errors: &Errors,
) -> Result<()> {
    let grid = map.grid();
    let nodes = shape(grid);
    let weights = [&nodes[..], &[map.dims()]].concat();
    let meta = format!(
        "{{\"map_of\": {}, \"array\": {}, \"lattice\": \"{}\", \"torus\": {}, \"layers\": {}, \"metric\": \"{}\"}}",
        serde_json::Value::from(source.path.display().to_string()),
        serde_json::Value::from(source.array),
        match grid.lattice() {
            Lattice::Hexagonal => "hexagonal",
            Lattice::Rectangular => "rectangular",
        },
        grid.is_torus(),
        grid.layers(),
        map.metric().name()
    );
    let (heights, meta) = (map.heights(), [meta]);
    let (samples, epochs) = ([assigned.winners.len()], [errors.epochs.len()]);
    let places: Vec<f64> = (0..grid.nodes())
        .flat_map(|node| grid.place(node))
        .collect();
    let placed = [grid.nodes(), 3];
    let mut arrays = vec![
        ("weights", Array::F32(&weights, map.weights())),
        ("heights", Array::F32(&nodes, &heights)),
        ("hits", Array::U32(&nodes, hits)),
        ("winners", Array::U32(&samples, &assigned.winners)),
        ("distances", Array::F32(&samples, &assigned.distances)),
        ("epochs", Array::F64(&epochs, &errors.epochs)),
        (
            "quantisation_error",
            Array::F64(&epochs, &errors.quantisation),
        ),
        (
            "topographic_error",
            Array::F64(&epochs, &errors.topographic),
        ),
        ("meta", Array::Text(&[], &meta)),
    ];
    if grid.has_positions() {
        arrays.push(("positions", Array::F64(&placed, &places)));
    }
    write(path, &arrays)
}

/// Reads a map that `betz som` wrote, of this version or an earlier one.
///
/// # Errors
/// For arrays that are not those of a map.
pub(super) fn read(path: &Path) -> Result<MapFile> {
    let bad = |words: String| Error::recording(format!("{}: {words}", path.display()));
    let mut arrays = Arrays::open(path)?;
    let mut text = arrays.strings("meta", 0)?.unwrap_or_default();
    let meta = text.pop().unwrap_or_default();
    let meta: serde_json::Value = serde_json::from_str(&meta)
        .map_err(|e| bad(format!("meta: expected what betz som wrote, got {e}")))?;
    // Files of earlier versions have neither layers nor a metric.
    let layers = match &meta["layers"] {
        serde_json::Value::Null => 1,
        layers => (layers.as_u64())
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(|| bad(format!("meta: expected a number of layers, got {layers}")))?,
    };
    let metric = match &meta["metric"] {
        serde_json::Value::Null => Metric::Euclidean,
        name => (Metric::NAMES.iter())
            .find(|(known, _)| name == known)
            .map(|(_, metric)| *metric)
            .ok_or_else(|| bad(format!("meta: expected a metric of betz som, got {name}")))?,
    };
    let axes = if arrays.has("positions") {
        1
    } else if layers > 1 {
        3
    } else {
        2
    };
    let weights = arrays.numbers::<f32>("weights", axes + 1)?;
    let weights = weights.ok_or_else(|| bad("expected an array `weights`, got none".into()))?;
    let (dims, values) = (weights.shape[axes], weights.values);
    let grid = match weights.shape[..axes] {
        [nodes] => {
            let places = arrays.numbers::<f64>("positions", 2)?;
            let places = places.ok_or_else(|| bad("expected positions, got none".into()))?;
            if places.shape[0] != nodes {
                return Err(bad(format!(
                    "positions: expected {nodes} nodes, got {}",
                    places.shape[0]
                )));
            }
            Grid::at_positions(&places.values, places.shape[1])
        }
        ref sides => {
            let lattice = if meta["lattice"] == "hexagonal" {
                Lattice::Hexagonal
            } else {
                Lattice::Rectangular
            };
            let (rows, columns) = (sides[axes - 2], sides[axes - 1]);
            Grid::new(rows, columns, lattice, meta["torus"] == true)
                .and_then(|grid| grid.with_layers(if axes == 3 { sides[0] } else { 1 }))
        }
    };
    let grid = grid.map_err(|e| e.at(path.display()))?;
    let map = Map::new(grid, dims, values).map_err(|e| e.at(path.display()))?;
    let hits = list::<u32>(&mut arrays, "hits", axes)?;
    let assigned = Assignment {
        winners: list(&mut arrays, "winners", 1)?,
        distances: list(&mut arrays, "distances", 1)?,
    };
    let text = |name: &str| meta[name].as_str().map(str::to_owned);
    let source = text("map_of").map(|path| (path, text("array")));
    let errors = Errors {
        epochs: list(&mut arrays, "epochs", 1)?,
        quantisation: list(&mut arrays, "quantisation_error", 1)?,
        topographic: list(&mut arrays, "topographic_error", 1)?,
    };
    let epochs = errors.epochs.len();
    if errors.quantisation.len() != epochs || errors.topographic.len() != epochs {
        return Err(bad(format!(
            "expected both errors for each of {epochs} epochs, got {} and {}",
            errors.quantisation.len(),
            errors.topographic.len()
        )));
    }
    Ok(MapFile {
        map: map.with_metric(metric),
        source,
        assigned,
        hits,
        errors,
    })
}

/// The numbers of an array; none if the file does not have it.
fn list<T: Number>(arrays: &mut Arrays, name: &str, axes: usize) -> Result<Vec<T>> {
    let found = arrays.numbers::<T>(name, axes)?;
    Ok(found.map_or_else(Vec::new, |numbers| numbers.values))
}

/// Most bytes of a table of positions.
const MOST_BYTES: u64 = 16 << 20;

/// The grid of the nodes in a file of positions.
pub(super) fn positions(path: &Path) -> Result<Grid> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    let (values, dims) = if ending.eq_ignore_ascii_case("csv") {
        table(path)?
    } else {
        let mut arrays = Arrays::open(path)?;
        let found = arrays.numbers::<f64>("positions", 2)?;
        let found = found.ok_or_else(|| {
            Error::argument(format!(
                "{}: expected an array `positions` (nodes, 1 to 3), got none",
                path.display()
            ))
        })?;
        (found.values, found.shape[1])
    };
    Grid::at_positions(&values, dims).map_err(|e| e.at(path.display()))
}

/// Numbers of a table, line by line, and how many there are in each. The first line may hold names.
fn table(path: &Path) -> Result<(Vec<f64>, usize)> {
    let io = |e: std::io::Error| Error::io("reading", path, &e);
    let file = betz::file::open_file(path)?;
    let mut text = String::new();
    let read =
        std::io::Read::read_to_string(&mut std::io::Read::take(file, MOST_BYTES + 1), &mut text);
    if read.map_err(io)? as u64 > MOST_BYTES {
        return Err(Error::argument(format!(
            "{}: expected a table of at most {MOST_BYTES} bytes, got a longer one",
            path.display()
        )));
    }
    let (mut values, mut dims) = (Vec::new(), None);
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let cells: Option<Vec<f64>> = (line.split(','))
            .map(|cell| cell.trim().parse().ok())
            .collect();
        match (cells, dims) {
            (None, None) if number == 0 => {}
            (Some(cells), _) if dims.is_none_or(|dims| dims == cells.len()) => {
                dims = Some(cells.len());
                values.extend(cells);
            }
            _ => {
                return Err(Error::argument(format!(
                    "{}, line {}: expected {} with commas between them, got '{line}'",
                    path.display(),
                    number + 1,
                    dims.map_or("numbers".to_owned(), |dims| betz::text::count(
                        dims as u128,
                        "number"
                    ))
                )));
            }
        }
    }
    Ok((values, dims.unwrap_or(1)))
}
