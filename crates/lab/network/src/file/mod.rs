//! Networks as `.npz` files, format 1.
//!
//! | array | dtype, shape | meaning |
//! |---|---|---|
//! | `meta` | str | JSON: format, measure, window, step, threshold, sign, sample_seconds, source, … |
//! | `window_start` | i64, (K,) | first sample of each window, ascending |
//! | `window_seconds` | f64, (K,) | optional: when each begins |
//! | `indptr` | u64, (K + 1,) | the edges of window k are `indptr[k]..indptr[k + 1]` |
//! | `i`, `j` | u16 or u32, (E,) | the two nodes of each edge, i < j, by (i, j) within a window |
//! | `r` | f32, (E,) | its value; i16 where `meta` says `compact`: r·32,767 |
//! | `full` | f32, (K, N(N−1)/2) | optional: the value of every pair, by (i, j), NaN where undefined |
//! | `lag` | i16, (E,) | where lagged: samples by which j's window lies later |
//! | `undefined_indptr` | u64, (K + 1,) | as `indptr`, for |
//! | `undefined`, `undefined_why` | u32, u8, (U,) | nodes undefined in a window; 0 constant, 1 not finite |
//! | `node_name` | str, (N,) | optional |
//! | `node_xy` | f32, (N, 2 or 3) | optional, NaN where unknown |
//!
//! A path that ends in `.zarr` is a directory, a Zarr v3 group of the same arrays in chunks (its attributes hold
//! `meta` and `node_name`): for what is too large for one file, more than [`LARGEST`] bytes
//! ([`NetworkFile::place`]). `full` may have chunks of a part of a window ([`NetworkFile::write_with_pairs`]). Attributes: `zarr.open(path).attrs["meta"]`.
//!
//! In SciPy window k is `csr_array((r[a:b], (i[a:b], j[a:b])), shape=(N, N))` with `a, b =
//! indptr[k:k + 2]`. Reading takes the numbers from any type they fit, and checks all of the above.

mod header;
mod pair_writer;
mod part;
mod read;
#[cfg(test)]
mod tests;
mod zarr;

use std::path::{Path, PathBuf};

use betz_base::{Error, Result};
use betz_recording::arrays::{Array, Arrays, Number, Numbers, write};
use serde::{Deserialize, Serialize};

use crate::export::NodeTable;
use crate::network::Network;
use crate::oracle::UndefinedReason;
use crate::spec::Measure;
pub use pair_writer::PairWriter;
pub use part::{PART_MAGIC, Part};
use read::Reading;

/// The format that is written, and read.
pub const FORMAT: u32 = 1;

/// Bytes of arrays up to which a network is one file.
pub const LARGEST: u64 = 2 << 30;

/// The integer that stands for a value of 1 in a compact file.
const COMPACT: f32 = 32_767.0;

/// The first characters of `meta`.
pub(crate) const META_BEGINS: &str = "{\"kind\":\"network\",";

/// A network, its nodes, and where it came from.
///
/// ```
/// use betz_network::file::NetworkFile;
/// use betz_network::{NetworkSpec, Plan, Signal, Threshold, Window};
///
/// let samples: Vec<f32> = (0..300_u32).map(|t| (t * t % 83) as f32).collect();
/// let signal = Signal::new(&samples, 3)?;
/// let spec = NetworkSpec::pearson(Window { length: 50, step: 25 }).threshold(Threshold::Top(1));
/// let mut file = NetworkFile::new(Plan::new(&spec, &signal)?.run(&signal, &())?);
/// file.names = Some(["a", "b", "c"].map(str::to_owned).to_vec());
///
/// let path = std::env::temp_dir().join("betz-network-doc.npz");
/// file.write(&path)?;
/// assert_eq!(NetworkFile::read(&path)?, file);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkFile {
    /// The edges of all windows.
    pub network: Network,
    /// One per node.
    pub names: Option<Vec<String>>,
    /// Positions of the nodes.
    pub positions: Option<Positions>,
    /// Beginning of each window, in seconds of the recording.
    pub window_seconds: Option<Vec<f64>>,
    /// The signal it was computed from.
    pub source: Option<Source>,
    /// The surrogates that gave the threshold, if any did.
    pub chance: Option<Chance>,
    /// False where work was stopped before its last window.
    pub complete: bool,
    /// Values are written as whole multiples of 1/32,767, in 2 bytes instead of 4: for measures within
    /// [−1, 1].
    pub compact: bool,
    /// The values of all pairs, edges or not: (windows, pairs), the pairs by (i, j); NaN where undefined. `None` after
    /// reading a directory that [`NetworkFile::write_with_pairs`] wrote in parts of rows or beyond [`LARGEST`]:
    /// [`NetworkFile::read_pairs`] reads a window.
    pub full: Option<Vec<f32>>,
}

/// Positions of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Positions {
    /// (nodes, axes), row by row; kept to f32's precision.
    pub values: Vec<f64>,
    /// 2 or 3.
    pub axes: usize,
}

/// The signal that a network was computed from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// [`Signal::hash`](crate::Signal::hash) in hexadecimal.
    pub hash: String,
}

/// The surrogates that a threshold was computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chance {
    /// Number of surrogates.
    pub surrogates: usize,
    /// Their kind.
    pub kind: String,
    /// `maximum` or `false-discovery`.
    pub correction: String,
    /// The level.
    pub alpha: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl NetworkFile {
    /// A file of `network` and nothing else.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            names: None,
            positions: None,
            window_seconds: None,
            source: None,
            chance: None,
            complete: true,
            compact: false,
            full: None,
        }
    }

    /// The nodes as exports want them.
    pub fn nodes(&self) -> NodeTable<'_> {
        NodeTable {
            names: self.names.as_deref(),
            positions: (self.positions.as_ref()).map(|p| (p.values.as_slice(), p.axes)),
        }
    }

    /// Beginning of window `k` in seconds: its [`NetworkFile::window_seconds`], else by its first sample; `None` if
    /// neither is known.
    pub fn seconds(&self, k: usize) -> Option<f64> {
        match &self.window_seconds {
            Some(seconds) => seconds.get(k).copied(),
            None => {
                let start = *self.network.window_start().get(k)?;
                Some(start as f64 * self.network.meta().sample_seconds?)
            }
        }
    }

    /// The text of `meta`.
    ///
    /// # Errors
    /// [`Internal`](betz_base::ErrorKind::Internal) when a number cannot be written as JSON.
    pub fn meta_json(&self) -> Result<String> {
        serde_json::to_string(&self.header()).map_err(|e| {
            Error::new(
                betz_base::ErrorKind::Internal,
                format!("meta of a network: {e}"),
            )
        })
    }

    /// Bytes of its arrays as they are written, before they are deflated; without texts.
    pub fn bytes(&self) -> u64 {
        let network = &self.network;
        let node = if network.nodes() <= 1 << 16 { 2 } else { 4 };
        let lag = if network.lag.is_empty() { 0 } else { 2 };
        let edge = 2 * node + if self.compact { 2 } else { 4 } + lag;
        let window = 24 + if self.window_seconds.is_some() { 8 } else { 0 };
        let full = self.full.as_ref().map_or(0, |full| 4 * full.len() as u64);
        let positions = (self.positions.as_ref()).map_or(0, |p| 4 * p.values.len() as u64);
        network.edges() * edge
            + network.undefined.len() as u64 * 5
            + network.len() as u64 * window
            + full
            + positions
    }

    /// The best path to write to for a requested `path`: a file of more than [`LARGEST`] bytes becomes a directory of the
    /// same name that ends in `.zarr`, unless something else than a network has that name.
    pub fn place(&self, path: &Path) -> PathBuf {
        place(path, self.bytes(), LARGEST)
    }

    /// The best path to write to for a requested `path` with all pairs' values beside it, which only a directory has
    /// ([`NetworkFile::write_with_pairs`]). One that does not end in `.zarr` is refused there.
    pub fn place_with_pairs(path: &Path) -> PathBuf {
        place(path, u64::MAX, LARGEST)
    }

    fn pairs(&self) -> usize {
        let nodes = self.network.nodes();
        nodes * nodes.saturating_sub(1) / 2
    }

    /// Refuses lists that do not fit the network.
    fn check(&self) -> Result<()> {
        let (network, pairs, windows) = (&self.network, self.pairs(), self.network.len());
        self.nodes().check(network.nodes())?;
        let seconds = self.window_seconds.as_ref().map_or(windows, Vec::len);
        if seconds != windows {
            return Err(Error::mismatch(format!(
                "window_seconds: expected one per window, {windows}, got {seconds}"
            )));
        }
        let full = self.full.as_ref().map_or(windows * pairs, Vec::len);
        if full != windows * pairs {
            return Err(Error::mismatch(format!(
                "full: expected {windows} windows of {pairs} pairs, got {full} values"
            )));
        }
        let measure = network.meta.spec.measure;
        if self.compact && measure.largest() > 1.0 {
            return Err(Error::argument(format!(
                "compact: expected a measure within [-1, 1], got {}",
                measure.name()
            )));
        }
        Ok(())
    }

    /// Writes the file, deflated, or the directory, over an earlier network: whole or not at all. Equal networks give equal bytes. Allocates 4 bytes
    /// per edge if nodes are stored as u16.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::ErrorKind::Mismatch) for names, positions or times that are not one per node
    /// or window; [`Io`](betz_base::ErrorKind::Io).
    pub fn write(&self, path: &Path) -> Result<()> {
        self.write_and(path, &mut |_| Ok(()))
    }

    /// As [`NetworkFile::write`], with what `more` adds to a directory.
    fn write_and(&self, path: &Path, more: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
        self.check()?;
        let network = &self.network;
        let (nodes, windows) = (network.nodes(), [network.len()]);
        let packed: Option<Vec<i16>> = self.compact.then(|| {
            let pack = |r: &f32| (r * COMPACT).round() as i16;
            network.r.iter().map(pack).collect()
        });
        let meta = [self.meta_json()?];
        let starts: Vec<i64> = network.window_start.iter().map(|s| *s as i64).collect();
        let why: Vec<u8> = (network.why.iter())
            .map(|why| u8::from(*why == UndefinedReason::NonFinite))
            .collect();
        let xy: Option<(Vec<f32>, [usize; 2])> = (self.positions.as_ref()).map(|p| {
            (
                p.values.iter().map(|v| *v as f32).collect(),
                [nodes, p.axes],
            )
        });
        let narrow = |of: &[u32]| -> Vec<u16> { of.iter().map(|v| *v as u16).collect() };
        let small = (nodes <= 1 << 16).then(|| (narrow(&network.i), narrow(&network.j)));
        let (edges, left_out) = ([network.r.len()], [network.undefined.len()]);
        let (bounds, named) = ([windows[0] + 1], [nodes]);
        let mut arrays = vec![
            ("meta", Array::Text(&[], &meta)),
            ("window_start", Array::I64(&windows, &starts)),
            ("indptr", Array::U64(&bounds, &network.indptr)),
        ];
        match &small {
            Some((i, j)) => {
                arrays.push(("i", Array::U16(&edges, i)));
                arrays.push(("j", Array::U16(&edges, j)));
            }
            None => {
                arrays.push(("i", Array::U32(&edges, &network.i)));
                arrays.push(("j", Array::U32(&edges, &network.j)));
            }
        }
        arrays.push(match &packed {
            Some(packed) => ("r", Array::I16(&edges, packed)),
            None => ("r", Array::F32(&edges, &network.r)),
        });
        let all = [windows[0], self.pairs()];
        if let Some(full) = &self.full {
            arrays.push(("full", Array::F32(&all, full)));
        }
        if matches!(network.meta.spec.measure, Measure::Lagged { .. }) {
            arrays.push(("lag", Array::I16(&edges, &network.lag)));
        }
        arrays.extend([
            (
                "undefined_indptr",
                Array::U64(&bounds, &network.undefined_indptr),
            ),
            ("undefined", Array::U32(&left_out, &network.undefined)),
            ("undefined_why", Array::U8(&left_out, &why)),
        ]);
        if let Some(seconds) = &self.window_seconds {
            arrays.push(("window_seconds", Array::F64(&windows, seconds)));
        }
        if let Some(names) = &self.names {
            arrays.push(("node_name", Array::Text(&named, names)));
        }
        if let Some((values, shape)) = &xy {
            arrays.push(("node_xy", Array::F32(shape, values)));
        }
        if is_zarr(path) {
            return zarr::write(path, &arrays, more);
        }
        write(path, &arrays)
    }

    /// Reads and checks the network at `path`.
    ///
    /// # Errors
    /// [`Io`](betz_base::ErrorKind::Io); [`InvalidRecording`](betz_base::ErrorKind::InvalidRecording), naming
    /// file, array and place, for what is damaged, missing, out of order or out of range, and for a format
    /// of the future.
    pub fn read(path: &Path) -> Result<Self> {
        let mut arrays = if is_zarr(path) || path.is_dir() {
            Store::Zarr(zarr::Store::open(path)?)
        } else {
            Store::Npz(Arrays::open(path)?)
        };
        Reading {
            arrays: &mut arrays,
        }
        .file()
        .map_err(|e| {
            let named = e.message().contains(&*path.to_string_lossy());
            if named { e } else { e.at(path.display()) }
        })
    }

    /// True if the file at `path` says that it is a network; false if it cannot be read.
    pub fn is_one(path: &Path) -> bool {
        if path.is_dir() {
            let meta = zarr::Store::open(path).and_then(|store| store.strings("meta", 0));
            let meta = meta.ok().flatten().and_then(|m| m.into_iter().next());
            let meta = meta.and_then(|m| serde_json::from_str::<serde_json::Value>(&m).ok());
            return meta.is_some_and(|m| m["kind"] == "network");
        }
        Arrays::open(path)
            .and_then(|mut arrays| arrays.strings("meta", 0))
            .is_ok_and(|meta| meta.is_some_and(|m| m.iter().any(|m| m.starts_with(META_BEGINS))))
    }
}

fn place(path: &Path, bytes: u64, largest: u64) -> PathBuf {
    let is_file = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npz"));
    let directory = path.with_extension("zarr");
    let free = || directory.symlink_metadata().is_err() || NetworkFile::is_one(&directory);
    match is_file && bytes > largest && free() {
        true => directory,
        false => path.to_owned(),
    }
}

fn is_zarr(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("zarr"))
}

/// Source of arrays.
enum Store {
    Npz(Arrays),
    Zarr(zarr::Store),
}

impl Store {
    fn names(&self) -> Vec<String> {
        match self {
            Self::Npz(arrays) => arrays.names(),
            Self::Zarr(store) => store.names(),
        }
    }

    fn strings(&mut self, name: &str, dims: usize) -> Result<Option<Vec<String>>> {
        match self {
            Self::Npz(arrays) => arrays.strings(name, dims),
            Self::Zarr(store) => store.strings(name, dims),
        }
    }

    /// Shape of an array of two dimensions that is stored in parts of rows.
    fn shape_of_parts(&self, name: &str) -> Result<Option<Vec<usize>>> {
        match self {
            Self::Npz(_) => Ok(None),
            Self::Zarr(store) => store.shape_of_parts(name),
        }
    }

    fn numbers<T: Number>(&mut self, name: &str, dims: usize) -> Result<Option<Numbers<T>>> {
        match self {
            Self::Npz(arrays) => arrays.numbers(name, dims),
            Self::Zarr(store) => store.numbers(name, dims),
        }
    }
}
