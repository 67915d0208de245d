//! Shards of a network: one written, all joined.

use std::path::{Path, PathBuf};

use betz::Result;
use betz::network::file::Part;
use serde::Serialize;

use super::args::Compute;
use super::summary::write_where_it_fits;
use crate::files::{Files, Kind};
use crate::report::{self, Outcome, count};

#[derive(Serialize)]
struct Shard {
    kind: &'static str,
    file: String,
    shard: usize,
    shards: usize,
    /// Of the shard, and of all.
    windows: usize,
    windows_of_all: usize,
    edges: u64,
    nodes: usize,
    device: String,
    total_seconds: f64,
}

impl Shard {
    fn of(part: &Part, path: &Path) -> Self {
        let (shard, network) = (part.shard(), part.network());
        Self {
            kind: "network shard",
            file: path.display().to_string(),
            shard: shard.number(),
            shards: shard.of(),
            windows: network.len(),
            windows_of_all: part.windows_of_all(),
            edges: network.edges(),
            nodes: network.nodes(),
            device: network.meta().device.clone(),
            total_seconds: report::total_seconds(),
        }
    }
}

impl Outcome for Shard {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: shard {} of {} of a network of {}: {} of {} windows, {} ({})",
            self.file,
            self.shard,
            self.shards,
            count(self.nodes as u128, "node"),
            self.windows,
            self.windows_of_all,
            count(self.edges, "edge"),
            self.device
        ))
    }
}

/// Writes a shard and says what it holds.
pub(super) fn finish(args: &Compute, out: &Path, part: Part) -> Result<()> {
    part.save(out)?;
    if part.network().is_empty() {
        eprintln!(
            "shard {} has no window: there are fewer runs of windows than shards",
            part.shard()
        );
    }
    report::tell(&Shard::of(&part, out), args.common.json)
}

/// `betz info` of a shard.
pub(in crate::commands) fn part_inside(path: &Path, json: bool) -> Result<()> {
    report::tell(&Shard::of(&Part::load(path)?, path), json)
}

#[derive(Serialize)]
struct JoinReport {
    kind: &'static str,
    out: String,
    shards: usize,
    nodes: usize,
    windows: usize,
    edges: u64,
    device: String,
    total_seconds: f64,
}

/// `betz join` of a network's shards.
pub(in crate::commands) fn join(
    mut files: Files,
    inputs: &[PathBuf],
    out: &Path,
    json: bool,
) -> Result<()> {
    files.writes("--out", out, Kind::Network)?;
    let parts = inputs.iter().map(|path| Part::load(path));
    let file = Part::join(parts.collect::<Result<_>>()?)?;
    let place = write_where_it_fits(&file, out)?;
    let network = &file.network;
    let joined = JoinReport {
        kind: "network",
        out: place.display().to_string(),
        shards: inputs.len(),
        nodes: network.nodes(),
        windows: network.len(),
        edges: network.edges(),
        device: network.meta().device.clone(),
        total_seconds: report::total_seconds(),
    };
    report::tell(&joined, json)
}

impl Outcome for JoinReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: {} of {}, {}, from {} ({})",
            self.out,
            count(self.windows as u128, "window"),
            count(self.nodes as u128, "node"),
            count(self.edges, "edge"),
            count(self.shards as u128, "shard"),
            self.device
        ))
    }
}
