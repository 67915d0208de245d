//! Reading a network's file: every array is checked.

use betz_base::{Error, Result};
use betz_recording::arrays::Number;
use serde::Deserialize;

use super::header::{self, Header};
use super::{COMPACT, FORMAT, NetworkFile, Positions, Store};
use crate::network::{Meta, Network};
use crate::oracle::UndefinedReason;
use crate::spec::Measure;

pub(super) struct Reading<'a> {
    pub(super) arrays: &'a mut Store,
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
        check_bounds(array, &bounds, total)?;
        Ok(bounds)
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

    fn window_seconds(&mut self, windows: usize) -> Result<Option<Vec<f64>>> {
        let window_seconds = self.arrays.numbers::<f64>("window_seconds", 1)?;
        if let Some(seconds) = &window_seconds
            && (seconds.values.len() != windows || seconds.values.iter().any(|s| !s.is_finite()))
        {
            return Err(wrong(
                "window_seconds",
                format_args!("expected a finite number for each of {windows} windows"),
            ));
        }
        Ok(window_seconds.map(|s| s.values))
    }

    fn full(&mut self, windows: usize, nodes: usize) -> Result<Option<Vec<f32>>> {
        let pairs = nodes * nodes.saturating_sub(1) / 2;
        let check = |shape: &[usize]| {
            if shape == [windows, pairs] {
                return Ok(());
            }
            Err(wrong(
                "full",
                format_args!("expected ({windows}, {pairs}), got {shape:?}"),
            ))
        };
        // Values that were written a block at a time may be more than memory holds: they are left where they are.
        if let Some(shape) = self.arrays.shape_of_parts("full")? {
            return check(&shape).map(|()| None);
        }
        let Some(full) = self.arrays.numbers::<f32>("full", 2)? else {
            return Ok(None);
        };
        check(&full.shape)?;
        Ok(Some(full.values))
    }

    pub(super) fn file(&mut self) -> Result<NetworkFile> {
        let header = self.header()?;
        let meta =
            header::meta(&header).map_err(|e| Error::recording(e.message()).at("array `meta`"))?;
        let nodes = meta.nodes;
        let starts: Vec<i64> = self.list("window_start", None)?;
        let windows = starts.len();
        check_starts(&meta, &starts)?;
        let indptr = self.bounds("indptr", windows, None)?;
        let edges = usize::try_from(indptr[windows]).unwrap_or(usize::MAX);
        let many = Some((edges, "the last of `indptr`"));
        let i: Vec<u32> = self.list("i", many)?;
        let j: Vec<u32> = self.list("j", many)?;
        let mut r: Vec<f32> = self.list("r", many)?;
        if header.compact {
            r.iter_mut().for_each(|r| *r /= COMPACT);
        }
        check_edges(&meta, &indptr, &i, &j, &r)?;
        let lag = match meta.spec.measure {
            Measure::Lagged { lags } => {
                let lag: Vec<i16> = self.list("lag", many)?;
                check_lags(lags, &lag)?;
                lag
            }
            _ => Vec::new(),
        };
        let undefined: Vec<u32> = self.list("undefined", None)?;
        let undefined_indptr = self.bounds("undefined_indptr", windows, Some(undefined.len()))?;
        check_undefined(nodes, &undefined_indptr, &undefined)?;
        let why: Vec<u8> = self.list("undefined_why", Some((undefined.len(), "as `undefined`")))?;
        if let Some(at) = why.iter().position(|w| *w > 1) {
            return Err(wrong(
                "undefined_why",
                format_args!("[{at}] = {}: expected 0 or 1", why[at]),
            ));
        }
        let why = (why.into_iter())
            .map(|w| match w {
                0 => UndefinedReason::Constant,
                _ => UndefinedReason::NonFinite,
            })
            .collect();
        let window_seconds = self.window_seconds(windows)?;
        let full = self.full(windows, nodes)?;
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
            window_seconds,
            source: header.source,
            chance: header.chance,
            complete: header.complete,
            compact: header.compact,
            full,
        };
        (file.nodes().check(nodes)).map_err(|e| Error::recording(e.message()))?;
        Ok(file)
    }
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

/// Ascending bounds from 0 to `total`.
fn check_bounds(array: &str, bounds: &[u64], total: Option<usize>) -> Result<()> {
    let windows = bounds.len().saturating_sub(1);
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
        _ => Ok(()),
    }
}

/// Ascending, and inside the signal.
fn check_starts(meta: &Meta, starts: &[i64]) -> Result<()> {
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
    Ok(())
}

/// At most `lags` either way.
fn check_lags(lags: usize, lag: &[i16]) -> Result<()> {
    match (lag.iter()).position(|l| usize::from(l.unsigned_abs()) > lags) {
        Some(at) => Err(wrong(
            "lag",
            format_args!("[{at}] = {}: expected at most {lags} either way", lag[at]),
        )),
        None => Ok(()),
    }
}

/// Nodes, ascending in each window.
fn check_undefined(nodes: usize, bounds: &[u64], undefined: &[u32]) -> Result<()> {
    for (k, bounds) in bounds.windows(2).enumerate() {
        let (from, to) = (bounds[0] as usize, bounds[1] as usize);
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
    Ok(())
}

/// All that is checked of arrays, of a network that came as something else.
pub(super) fn check(network: &Network) -> Result<()> {
    let meta = &network.meta;
    let starts: Vec<i64> = (network.window_start.iter())
        .map(|start| i64::try_from(*start).unwrap_or(-1))
        .collect();
    check_starts(meta, &starts)?;
    check_bounds("indptr", &network.indptr, Some(network.r.len()))?;
    check_edges(meta, &network.indptr, &network.i, &network.j, &network.r)?;
    let (lags, expected) = match meta.spec.measure {
        Measure::Lagged { lags } => (lags, network.r.len()),
        _ => (0, 0),
    };
    if network.lag.len() != expected {
        return Err(wrong(
            "lag",
            format_args!("expected {expected} values, got {}", network.lag.len()),
        ));
    }
    check_lags(lags, &network.lag)?;
    let undefined = &network.undefined;
    check_bounds(
        "undefined_indptr",
        &network.undefined_indptr,
        Some(undefined.len()),
    )?;
    check_undefined(meta.nodes, &network.undefined_indptr, undefined)
}
