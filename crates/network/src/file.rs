//! Networks as `.npz` files, format 1.
//!
//! | array | dtype, shape | meaning |
//! |---|---|---|
//! | `meta` | str | JSON: format, measure, window, step, threshold, sign, sample_seconds, source, … |
//! | `window_start` | i64, (K,) | first sample of each window, ascending |
//! | `window_seconds` | f64, (K,) | optional: when each begins |
//! | `indptr` | u64, (K + 1,) | the edges of window k are `indptr[k]..indptr[k + 1]` |
//! | `i`, `j` | u16 or u32, (E,) | the two nodes of each edge, i < j, by (i, j) within a window |
//! | `r` | f32, (E,) | its value |
//! | `lag` | i16, (E,) | where lagged: samples by which j's window lies later |
//! | `undefined_indptr` | u64, (K + 1,) | as `indptr`, for |
//! | `undefined`, `undefined_why` | u32, u8, (U,) | nodes undefined in a window; 0 constant, 1 not finite |
//! | `node_name` | str, (N,) | optional |
//! | `node_xy` | f32, (N, 2 or 3) | optional, NaN where unknown |
//!
//! In SciPy window k is `csr_array((r[a:b], (i[a:b], j[a:b])), shape=(N, N))` with `a, b =
//! indptr[k:k + 2]`. Reading takes the numbers from any type they fit, and checks all of the above.

use std::path::Path;

use betz_base::{Error, Result};
use betz_recording::arrays::{Array, Arrays, Number, write};
use serde::{Deserialize, Serialize};

use crate::export::NodeTable;
use crate::network::{Meta, Network};
use crate::oracle::Undefined;
use crate::spec::{Measure, NetworkSpec, Sign, Threshold};
use crate::window::Window;

/// The format that is written, and read.
pub const FORMAT: u32 = 1;

/// What `meta` begins with.
pub const META_BEGINS: &str = "{\"kind\":\"network\",";

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
    /// Where the nodes are.
    pub positions: Option<Positions>,
    /// When each window begins, in seconds of what was recorded; one per window.
    pub window_seconds: Option<Vec<f64>>,
    /// What it was made of.
    pub source: Option<Source>,
    /// How the threshold was found, where surrogates were asked.
    pub chance: Option<Chance>,
    /// False where work was stopped before its last window.
    pub complete: bool,
}

/// Positions of nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Positions {
    /// (nodes, axes), row by row; kept to f32's precision.
    pub values: Vec<f64>,
    /// 2 or 3.
    pub axes: usize,
}

/// What a network was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// [`Signal::hash`](crate::Signal::hash) in hexadecimal.
    pub hash: String,
}

/// How a threshold was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chance {
    /// How many surrogates.
    pub surrogates: usize,
    /// How they were made.
    pub kind: String,
    /// `maximum` or `false-discovery`.
    pub correction: String,
    /// The level.
    pub alpha: f64,
    /// Of the random numbers.
    pub seed: u64,
}

/// The JSON in `meta`.
#[derive(Serialize, Deserialize)]
struct Header {
    // First: it tells such a file (`META_BEGINS`).
    kind: String,
    format: u32,
    betz: String,
    measure: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lags: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<usize>,
    window: usize,
    step: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    density: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top_per_node: Option<usize>,
    sign: String,
    strict: bool,
    max_edges: u64,
    nodes: usize,
    samples: usize,
    sample_seconds: Option<f64>,
    trailing: usize,
    rechecked: u64,
    rebuilt: u64,
    extreme: u64,
    device: String,
    complete: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chance: Option<Chance>,
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
        }
    }

    /// The nodes as exports want them.
    pub fn nodes(&self) -> NodeTable<'_> {
        NodeTable {
            names: self.names.as_deref(),
            positions: (self.positions.as_ref()).map(|p| (p.values.as_slice(), p.axes)),
        }
    }

    /// When window `k` begins: its [`NetworkFile::window_seconds`], else by its first sample; `None` where
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

    fn header(&self) -> Header {
        let Meta { spec, .. } = *self.network.meta();
        let meta = self.network.meta();
        let (mut threshold, mut density, mut top, mut top_per_node) = (None, None, None, None);
        match spec.threshold {
            Threshold::Absolute(value) => threshold = Some(value),
            Threshold::Density(share) => density = Some(share),
            Threshold::Top(count) => top = Some(count),
            Threshold::TopPerNode(count) => top_per_node = Some(count),
        }
        Header {
            kind: "network".to_owned(),
            format: FORMAT,
            betz: env!("CARGO_PKG_VERSION").to_owned(),
            measure: spec.measure.name().to_owned(),
            lags: match spec.measure {
                Measure::Lagged { lags } => Some(lags),
                _ => None,
            },
            hold: match spec.measure {
                Measure::Distance { hold } => Some(hold),
                _ => None,
            },
            window: spec.window.length,
            step: spec.window.step,
            threshold,
            density,
            top,
            top_per_node,
            sign: spec.sign.name().to_owned(),
            strict: spec.strict,
            max_edges: spec.max_edges,
            nodes: meta.nodes,
            samples: meta.samples,
            sample_seconds: meta.sample_seconds,
            trailing: meta.trailing,
            rechecked: meta.rechecked,
            rebuilt: meta.rebuilt,
            extreme: meta.extreme,
            device: meta.device.clone(),
            complete: self.complete,
            source: self.source.clone(),
            chance: self.chance.clone(),
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

    /// Writes the file, deflated: whole or not at all. Equal networks give equal bytes. Allocates 4 bytes
    /// an edge where nodes are stored as u16.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::ErrorKind::Mismatch) for names, positions or times that are not one per node
    /// or window; [`Io`](betz_base::ErrorKind::Io).
    pub fn write(&self, path: &Path) -> Result<()> {
        let network = &self.network;
        let nodes = network.nodes();
        self.nodes().check(nodes)?;
        let windows = [network.len()];
        if let Some(seconds) = self
            .window_seconds
            .as_ref()
            .filter(|s| s.len() != windows[0])
        {
            return Err(Error::mismatch(format!(
                "window_seconds: expected one per window, {}, got {}",
                windows[0],
                seconds.len()
            )));
        }
        let meta = [self.meta_json()?];
        let starts: Vec<i64> = network.window_start.iter().map(|s| *s as i64).collect();
        let why: Vec<u8> = (network.why.iter())
            .map(|why| u8::from(*why == Undefined::NonFinite))
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
        arrays.push(("r", Array::F32(&edges, &network.r)));
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
        write(path, &arrays)
    }

    /// Reads and checks the network at `path`.
    ///
    /// # Errors
    /// [`Io`](betz_base::ErrorKind::Io); [`InvalidRecording`](betz_base::ErrorKind::InvalidRecording), naming
    /// file, array and place, for what is damaged, missing, out of order or out of range, and for a format
    /// of the future.
    pub fn read(path: &Path) -> Result<Self> {
        let mut arrays = Arrays::open(path)?;
        Reading {
            arrays: &mut arrays,
        }
        .file()
        .map_err(|e| {
            let named = e.message().contains(&*path.to_string_lossy());
            if named { e } else { e.at(path.display()) }
        })
    }

    /// Whether the file at `path` says that it is a network. What cannot be read is none.
    pub fn is_one(path: &Path) -> bool {
        Arrays::open(path)
            .and_then(|mut arrays| arrays.strings("meta", 0))
            .is_ok_and(|meta| meta.is_some_and(|m| m.iter().any(|m| m.starts_with(META_BEGINS))))
    }
}

struct Reading<'a> {
    arrays: &'a mut Arrays,
}

fn wrong(array: &str, what: impl std::fmt::Display) -> Error {
    Error::recording(format!("array `{array}`: {what}"))
}

impl Reading<'_> {
    /// The numbers of `array`, which must be there, `len` of them if that is known.
    fn list<T: Number>(&mut self, array: &str, len: Option<(usize, &str)>) -> Result<Vec<T>> {
        let found = self.arrays.numbers::<T>(array, 1)?;
        let values = found
            .ok_or_else(|| wrong(array, "expected it in the file of a network, got none"))?
            .values;
        match len {
            Some((len, what)) if values.len() != len => Err(wrong(
                array,
                format_args!("expected {len} values, {what}, got {}", values.len()),
            )),
            _ => Ok(values),
        }
    }

    /// Ascending bounds from 0 to `total`, one more than there are windows.
    fn bounds(&mut self, array: &str, windows: usize, total: Option<usize>) -> Result<Vec<u64>> {
        let bounds: Vec<u64> = self.list(
            array,
            Some((windows + 1, "one more than there are windows")),
        )?;
        if let Some(at) = (1..bounds.len()).find(|&at| bounds[at] < bounds[at - 1]) {
            return Err(wrong(
                array,
                format_args!(
                    "[{at}] = {}: expected at least {}",
                    bounds[at],
                    bounds[at - 1]
                ),
            ));
        }
        let (first, last) = (bounds[0], bounds[windows]);
        if first != 0 {
            return Err(wrong(array, format_args!("[0] = {first}: expected 0")));
        }
        match total {
            Some(total) if last != total as u64 => Err(wrong(
                array,
                format_args!("[{windows}] = {last}: expected {total}, the number of entries"),
            )),
            _ => Ok(bounds),
        }
    }

    fn header(&mut self) -> Result<Header> {
        let text = self.arrays.strings("meta", 0)?.and_then(|mut m| m.pop());
        let text = text.ok_or_else(|| {
            wrong(
                "meta",
                format_args!(
                    "expected that of a network, got none (arrays here: {})",
                    self.arrays.names().join(", ")
                ),
            )
        })?;
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
            format: u32,
        }
        let kind: Kind = serde_json::from_str(&text)
            .map_err(|e| wrong("meta", format_args!("expected that of a network ({e})")))?;
        if kind.kind != "network" {
            return Err(wrong(
                "meta",
                format_args!("expected the kind network, got {}", kind.kind),
            ));
        }
        if kind.format != FORMAT {
            return Err(wrong(
                "meta",
                format_args!("expected format {FORMAT}, got {}", kind.format),
            ));
        }
        serde_json::from_str(&text).map_err(|e| wrong("meta", e))
    }

    fn file(&mut self) -> Result<NetworkFile> {
        let header = self.header()?;
        let meta = meta(&header).map_err(|e| Error::recording(e.message()).at("array `meta`"))?;
        let nodes = meta.nodes;
        let starts: Vec<i64> = self.list("window_start", None)?;
        let windows = starts.len();
        let length = meta.spec.window.length;
        for (k, start) in starts.iter().enumerate() {
            let after = k == 0 || *start > starts[k - 1];
            let inside = usize::try_from(*start)
                .is_ok_and(|s| s.checked_add(length).is_some_and(|end| end <= meta.samples));
            if !after || !inside {
                return Err(wrong(
                    "window_start",
                    format_args!(
                        "[{k}] = {start}: expected ascending samples from which {length} fit into {}",
                        meta.samples
                    ),
                ));
            }
        }
        let indptr = self.bounds("indptr", windows, None)?;
        let edges = usize::try_from(indptr[windows]).unwrap_or(usize::MAX);
        let many = Some((edges, "the last of `indptr`"));
        let i: Vec<u32> = self.list("i", many)?;
        let j: Vec<u32> = self.list("j", many)?;
        let r: Vec<f32> = self.list("r", many)?;
        check_edges(&meta, &indptr, &i, &j, &r)?;
        let lag = match meta.spec.measure {
            Measure::Lagged { lags } => {
                let lag: Vec<i16> = self.list("lag", many)?;
                if let Some(at) = lag
                    .iter()
                    .position(|l| usize::from(l.unsigned_abs()) > lags)
                {
                    return Err(wrong(
                        "lag",
                        format_args!("[{at}] = {}: expected at most {lags} either way", lag[at]),
                    ));
                }
                lag
            }
            _ => Vec::new(),
        };
        let undefined: Vec<u32> = self.list("undefined", None)?;
        let undefined_indptr = self.bounds("undefined_indptr", windows, Some(undefined.len()))?;
        for k in 0..windows {
            let (from, to) = (
                undefined_indptr[k] as usize,
                undefined_indptr[k + 1] as usize,
            );
            for at in from..to {
                let node = undefined[at];
                if node as usize >= nodes || at > from && node <= undefined[at - 1] {
                    return Err(wrong(
                        "undefined",
                        format_args!(
                            "[{at}] = {node}: expected ascending nodes below {nodes} in window {k}"
                        ),
                    ));
                }
            }
        }
        let why: Vec<u8> = self.list("undefined_why", Some((undefined.len(), "as `undefined`")))?;
        if let Some(at) = why.iter().position(|w| *w > 1) {
            return Err(wrong(
                "undefined_why",
                format_args!("[{at}] = {}: expected 0 or 1", why[at]),
            ));
        }
        let why = (why.into_iter())
            .map(|w| match w {
                0 => Undefined::Constant,
                _ => Undefined::NonFinite,
            })
            .collect();
        let window_seconds = self.arrays.numbers::<f64>("window_seconds", 1)?;
        if let Some(seconds) = &window_seconds
            && (seconds.values.len() != windows || seconds.values.iter().any(|s| !s.is_finite()))
        {
            return Err(wrong(
                "window_seconds",
                format_args!("expected a finite number for each of {windows} windows"),
            ));
        }
        let names = self.arrays.strings("node_name", 1)?;
        let positions = self.arrays.numbers::<f64>("node_xy", 2)?;
        let file = NetworkFile {
            network: Network {
                meta,
                window_start: starts.into_iter().map(|s| s as u64).collect(),
                indptr,
                i,
                j,
                r,
                lag,
                undefined_indptr,
                undefined,
                why,
            },
            names,
            positions: positions.map(|p| Positions {
                axes: p.shape[1],
                values: p.values,
            }),
            window_seconds: window_seconds.map(|s| s.values),
            source: header.source,
            chance: header.chance,
            complete: header.complete,
        };
        (file.nodes().check(nodes)).map_err(|e| Error::recording(e.message()))?;
        Ok(file)
    }
}

/// What the header says, checked.
fn meta(header: &Header) -> Result<Meta> {
    let measure = match Measure::named(&header.measure) {
        Some(Measure::Lagged { .. }) => Measure::Lagged {
            lags: header.lags.unwrap_or(0),
        },
        Some(Measure::Distance { .. }) => Measure::Distance {
            hold: header.hold.unwrap_or(1),
        },
        Some(measure) => measure,
        None => {
            return Err(Error::recording(format!(
                "measure: expected one of {}, got {}",
                Measure::names().join(", "),
                header.measure
            )));
        }
    };
    let threshold = match (
        header.threshold,
        header.density,
        header.top,
        header.top_per_node,
    ) {
        (Some(value), None, None, None) => Threshold::Absolute(value),
        (None, Some(share), None, None) => Threshold::Density(share),
        (None, None, Some(count), None) => Threshold::Top(count),
        (None, None, None, Some(count)) => Threshold::TopPerNode(count),
        _ => {
            return Err(Error::recording(
                "expected one of threshold, density, top and top_per_node",
            ));
        }
    };
    let sign = Sign::named(&header.sign).ok_or_else(|| {
        Error::recording(format!(
            "sign: expected both, pos or neg, got {}",
            header.sign
        ))
    })?;
    let spec = NetworkSpec {
        measure,
        window: Window {
            length: header.window,
            step: header.step,
        },
        threshold,
        sign,
        strict: header.strict,
        max_edges: header.max_edges,
    };
    spec.check()?;
    if header.nodes > i32::MAX as usize {
        return Err(Error::recording(format!(
            "nodes: expected at most {}, got {}",
            i32::MAX,
            header.nodes
        )));
    }
    if header
        .sample_seconds
        .is_some_and(|s| !(s > 0.0 && s.is_finite()))
    {
        return Err(Error::recording(
            "sample_seconds: expected a positive number",
        ));
    }
    Ok(Meta {
        spec,
        nodes: header.nodes,
        samples: header.samples,
        sample_seconds: header.sample_seconds,
        trailing: header.trailing,
        rechecked: header.rechecked,
        rebuilt: header.rebuilt,
        extreme: header.extreme,
        device: header.device.clone(),
    })
}

/// i < j < nodes, by (i, j) within each window, values finite and in the measure's range.
fn check_edges(meta: &Meta, indptr: &[u64], i: &[u32], j: &[u32], r: &[f32]) -> Result<()> {
    let most = meta.spec.measure.largest() * (1.0 + 1e-6);
    for (k, bounds) in indptr.windows(2).enumerate() {
        let (from, to) = (bounds[0] as usize, bounds[1] as usize);
        for at in from..to {
            let pair = (i[at], j[at]);
            if pair.0 >= pair.1 || pair.1 as usize >= meta.nodes {
                return Err(wrong(
                    "j",
                    format_args!(
                        "[{at}] = {}: expected a node above i = {} and below {}",
                        pair.1, pair.0, meta.nodes
                    ),
                ));
            }
            if at > from && (i[at - 1], j[at - 1]) >= pair {
                return Err(wrong(
                    "i",
                    format_args!(
                        "[{at}]: expected the edges of window {k} by (i, j), each once; ({}, {}) comes after ({}, {})",
                        pair.0,
                        pair.1,
                        i[at - 1],
                        j[at - 1]
                    ),
                ));
            }
            let value = f64::from(r[at]);
            if !(value.is_finite() && value.abs() <= most) {
                return Err(wrong(
                    "r",
                    format_args!(
                        "[{at}] = {value}: expected a finite {} of at most {most:.0}",
                        meta.spec.measure.name()
                    ),
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, cases};

    fn made(measure: Measure, threshold: Threshold) -> NetworkFile {
        let mut case = cases::communities(12, 160, 3);
        let nodes = 12;
        for t in 40..90 {
            case.samples[t * nodes + 4] = 0.0;
        }
        case.samples[100 * nodes + 7] = f32::NAN;
        let signal = case.signal().with_segments(vec![0..70, 72..160]).unwrap();
        let signal = signal.with_sample_seconds(0.1).unwrap();
        let spec = NetworkSpec::new(
            measure,
            Window {
                length: 30,
                step: 4,
            },
        )
        .threshold(threshold);
        let network = Plan::new(&spec, &signal)
            .unwrap()
            .run(&signal, &())
            .unwrap();
        let windows = network.len();
        NetworkFile {
            names: Some((0..12).map(|n| format!("region {n}")).collect()),
            positions: Some(Positions {
                values: (0..24).map(f64::from).collect(),
                axes: 2,
            }),
            window_seconds: Some((0..windows).map(|k| k as f64 * 0.4).collect()),
            source: Some(Source {
                name: "case".into(),
                hash: format!("{:016x}", signal.hash()),
            }),
            chance: None,
            complete: true,
            network,
        }
    }

    #[test]
    fn networks_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.npz");
        for (measure, threshold) in [
            (Measure::Pearson, Threshold::Absolute(0.4)),
            (Measure::Pearson, Threshold::Absolute(1.0)),
            (Measure::Lagged { lags: 3 }, Threshold::Density(0.2)),
            (Measure::Distance { hold: 2 }, Threshold::Absolute(9.0)),
            (Measure::Spearman, Threshold::Top(5)),
            (Measure::Covariance, Threshold::TopPerNode(2)),
        ] {
            let file = made(measure, threshold);
            file.write(&path).unwrap();
            assert!(NetworkFile::is_one(&path));
            let bytes = std::fs::read(&path).unwrap();
            let back = NetworkFile::read(&path).unwrap();
            assert_eq!(back, file);
            assert!(back.network.undefined().1 > 0, "{measure:?}");
            back.write(&path).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "equal bytes");
            assert_eq!(back.seconds(2), Some(0.8));
        }
    }

    /// The arrays of a whole file, one of them changed by `change`, written anew and read.
    fn read_changed(change: &dyn Fn(&mut NetworkFile)) -> Error {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.npz");
        let mut file = made(Measure::Pearson, Threshold::Absolute(0.4));
        change(&mut file);
        file.write(&path).unwrap();
        NetworkFile::read(&path).unwrap_err()
    }

    #[test]
    fn what_is_out_of_order_is_refused_by_array_and_place() {
        type Change = &'static dyn Fn(&mut NetworkFile);
        let changes: [(Change, &str); 12] = [
            (&|f| f.network.window_start[3] = 2, "`window_start`: [3]"),
            (
                &|f| *f.network.window_start.last_mut().unwrap() = 140,
                "`window_start`: [",
            ),
            (&|f| f.network.indptr[2] = 1 << 40, "`indptr`: [3]"),
            (&|f| f.network.indptr[0] = 1, "`indptr`: [0] = 1"),
            (
                &|f| *f.network.indptr.last_mut().unwrap() += 1,
                "`i`: expected",
            ),
            (
                &|f| {
                    f.network.i.swap(0, 1);
                    f.network.j.swap(0, 1);
                },
                "[1]",
            ),
            (&|f| f.network.j[2] = 12, "`j`: [2] = 12"),
            (&|f| f.network.i[5] = f.network.j[5], "`j`: [5]"),
            (&|f| f.network.r[4] = f32::NAN, "`r`: [4] = NaN"),
            (&|f| f.network.r[4] = -1.5, "`r`: [4] = -1.5"),
            (&|f| f.network.undefined[1] = 99, "`undefined`: [1] = 99"),
            (&|f| f.network.meta.spec.window.length = 1, "`meta`"),
        ];
        for (number, (change, says)) in changes.iter().enumerate() {
            let error = read_changed(change);
            let said = error.message();
            assert!(
                said.contains(says) && said.contains("net.npz"),
                "{number}: {said} should say {says}"
            );
            assert_eq!(error.kind(), betz_base::ErrorKind::InvalidRecording);
        }
        let mut short = made(Measure::Pearson, Threshold::Absolute(0.4));
        short.names = Some(vec!["one".into()]);
        let path = std::env::temp_dir().join("betz-network-never-written.npz");
        assert!(short.write(&path).is_err() && !path.exists());
    }

    #[test]
    fn damage_and_strangers_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.npz");
        made(Measure::Pearson, Threshold::Absolute(0.4))
            .write(&path)
            .unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 1, 50, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let error = NetworkFile::read(&path).unwrap_err();
            assert!(error.message().contains("net.npz"), "{error}");
            assert!(!NetworkFile::is_one(&path));
        }
        write(&path, &[("signal", Array::F64(&[2], &[1.0, 2.0]))]).unwrap();
        let error = NetworkFile::read(&path).unwrap_err();
        assert!(error.message().contains("arrays here: signal"), "{error}");
        for (meta, says) in [
            ("{}", "that of a network"),
            (
                "{\"kind\":\"network\",\"format\":2}",
                "expected format 1, got 2",
            ),
            ("{\"kind\":\"other\",\"format\":1}", "got other"),
            ("{\"kind\":\"network\",\"format\":1}", "missing field"),
        ] {
            let meta = [meta.to_owned()];
            write(&path, &[("meta", Array::Text(&[], &meta))]).unwrap();
            let error = NetworkFile::read(&path).unwrap_err();
            assert!(error.message().contains(says), "{error}");
        }
    }
}
