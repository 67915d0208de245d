//! `betz info NET`: what a network holds.

use std::path::Path;

use betz::Result;
use betz::network::Window;
use betz::network::file::NetworkFile;
use serde::Serialize;

use super::Spread;
use crate::report::{self, Outcome, count};

#[derive(Serialize)]
struct Facts {
    kind: &'static str,
    file: String,
    bytes: u64,
    nodes: usize,
    windows: usize,
    edges: u64,
    density: Option<Spread>,
    from_seconds: Option<f64>,
    until_seconds: Option<f64>,
    named: bool,
    positions: bool,
    undefined_constant: u64,
    undefined_nonfinite: u64,
    meta: serde_json::Value,
    #[serde(skip)]
    measure: &'static str,
    #[serde(skip)]
    window: Window,
    #[serde(skip)]
    complete: bool,
}

/// True if the file at `path` is a network.
pub(in crate::commands) fn is_network(path: &Path) -> bool {
    NetworkFile::is_one(path)
}

pub(in crate::commands) fn inside(path: &Path, bytes: u64, json: bool) -> Result<()> {
    let file = NetworkFile::read(path)?;
    let network = &file.network;
    let meta = network.meta();
    let (undefined_constant, undefined_nonfinite) = network.undefined();
    let last = network.len().checked_sub(1).and_then(|k| file.seconds(k));
    let length = meta
        .sample_seconds
        .map(|s| s * meta.spec.window.length as f64);
    let facts = Facts {
        kind: "network",
        file: path.display().to_string(),
        bytes,
        nodes: network.nodes(),
        windows: network.len(),
        edges: network.edges(),
        density: Spread::of((0..network.len()).filter_map(|k| network.density(k))),
        from_seconds: file.seconds(0),
        until_seconds: last.zip(length).map(|(start, length)| start + length),
        named: file.names.is_some(),
        positions: file.positions.is_some(),
        undefined_constant,
        undefined_nonfinite,
        meta: serde_json::from_str(&file.meta_json()?).unwrap_or_default(),
        measure: meta.spec.measure.name(),
        window: meta.spec.window,
        complete: file.complete,
    };
    report::tell(&facts, json)
}

impl Outcome for Facts {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: a network of {} over {}, {}, {} bytes",
            self.file,
            count(self.nodes as u128, "node"),
            count(self.windows as u128, "window"),
            count(self.edges, "edge"),
            self.bytes
        ))?;
        report::line(&format!(
            "{} over windows of {} every {}{}",
            self.measure,
            count(self.window.length as u128, "sample"),
            self.window.step,
            match (self.from_seconds, self.until_seconds) {
                (Some(from), Some(until)) => format!(", from {from:.3} to {until:.3} s"),
                _ => String::new(),
            }
        ))?;
        if let Some(density) = &self.density {
            report::line(&format!(
                "density {:.4} % (from {:.4} to {:.4} %)",
                density.mean * 100.0,
                density.min * 100.0,
                density.max * 100.0
            ))?;
        }
        report::line(&format!(
            "undefined, counted in each window: {} constant, {} not finite; names: {}, positions: {}",
            count(self.undefined_constant, "node"),
            self.undefined_nonfinite,
            yes(self.named),
            yes(self.positions)
        ))?;
        if !self.complete {
            report::line("stopped before its last window")?;
        }
        report::line(&format!("meta: {}", self.meta))
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
