//! Networks that are kept, and the report at the end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use betz::network::file::{NetworkFile, Positions};
use betz::network::live::SampleNetwork;
use betz::network::{Meta, Network, WindowEdges};
use betz::{Error, ErrorKind, Result};
use serde::Serialize;

use super::super::request::Request;
use super::super::summary::write_where_it_fits;
use super::feed::FeedCounts;
use crate::common_args::Common;
use crate::files::{Files, Kind};
use crate::report::{self, Outcome};

/// The network of the windows so far, one file for each specification.
pub(super) struct OutputNetworks<'a> {
    common: &'a Common,
    out: &'a Path,
    /// Number of the file.
    number: usize,
    network: Option<Network>,
    positions: Option<Positions>,
    most: u64,
    edges: u64,
    written: Vec<PathBuf>,
}

impl<'a> OutputNetworks<'a> {
    /// At most `most` edges over all windows.
    pub(super) fn new(common: &'a Common, out: &'a Path, most: u64) -> Self {
        Self {
            common,
            out,
            number: 1,
            network: None,
            positions: None,
            most,
            edges: 0,
            written: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, meta: Meta, positions: Option<Positions>) {
        self.network = Some(Network::empty(meta));
        self.positions = positions;
    }

    /// # Errors
    /// More edges than `--max-edges`.
    pub(super) fn push(&mut self, window: &WindowEdges<'_>) -> Result<()> {
        let Some(network) = &mut self.network else {
            return Ok(());
        };
        self.edges += window.len() as u64;
        if self.edges > self.most {
            return Err(Error::argument(format!(
                "expected at most {} edges over all windows that are kept, got more",
                self.most
            )));
        }
        network.push(window)
    }

    /// Writes the windows so far, whose origin is `before`, and goes on with another specification.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn next(&mut self, before: Meta, meta: Meta) -> Result<()> {
        let written = self.write(before);
        self.network = Some(Network::empty(meta));
        written
    }

    /// # Errors
    /// The file cannot be written; no window was computed.
    pub(super) fn end(&mut self, meta: Meta) -> Result<()> {
        let rows = meta.samples;
        let length = meta.spec.window.length;
        self.write(meta)?;
        if self.written.is_empty() {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "--out: expected a complete window of {length} samples, got {rows} samples; nothing is written"
                ),
            ));
        }
        Ok(())
    }

    fn write(&mut self, meta: Meta) -> Result<()> {
        let Some(network) = self.network.take().filter(|network| !network.is_empty()) else {
            return Ok(());
        };
        let path = numbered(self.out, self.number);
        self.number += 1;
        if path != self.out {
            Files::new(self.common).may_write("--out", Some(&path), Kind::Network)?;
        }
        let mut file = NetworkFile::new(network.with_meta(meta));
        file.positions.clone_from(&self.positions);
        self.written.push(write_where_it_fits(&file, &path)?);
        Ok(())
    }
}

/// `net.npz`, `net-2.npz`, `net-3.npz`, …; of `net.net.npz` `net-2.net.npz`.
fn numbered(out: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return out.to_owned();
    }
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let (stem, endings) = match name.find('.') {
        Some(at) if at > 0 => name.split_at(at),
        _ => (&*name, ""),
    };
    out.with_file_name(format!("{stem}-{number}{endings}"))
}

/// The report of `betz network live`.
#[derive(Serialize)]
pub(super) struct LiveReport {
    #[serde(flatten)]
    asked: Request,
    rows: u64,
    lost: u64,
    gaps: u64,
    windows: u64,
    skipped: u64,
    edges: u64,
    late: u64,
    unreadable: u64,
    /// Changes of window or threshold.
    changes: u64,
    seconds: f64,
    device: String,
    out: Vec<String>,
}

impl LiveReport {
    pub(super) fn new(
        network: &SampleNetwork,
        of_source: FeedCounts,
        changes: u64,
        took: Duration,
        kept: Option<&OutputNetworks<'_>>,
    ) -> Self {
        let counts = network.counts();
        let meta = network.meta();
        let written = kept.map_or(&[][..], |kept| &kept.written);
        let mut asked = Request::of(&meta.spec, meta.nodes, meta.samples);
        asked.sample_seconds = meta.sample_seconds;
        asked.segments = usize::try_from(counts.gaps)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        Self {
            asked,
            rows: counts.rows,
            lost: counts.lost,
            gaps: counts.gaps,
            windows: counts.windows,
            skipped: counts.skipped,
            edges: counts.edges,
            late: of_source.late,
            unreadable: of_source.unreadable,
            changes,
            seconds: took.as_secs_f64(),
            device: meta.device,
            out: written
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
        }
    }
}

impl Outcome for LiveReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{} of {}, {} lost in {}; {}, {} skipped, {} by {} in {:.1} s ({})",
            report::count(self.rows, "sample"),
            report::count(self.asked.nodes as u64, "node"),
            self.lost,
            report::count(self.gaps, "gap"),
            report::count(self.windows, "window"),
            self.skipped,
            report::count(self.edges, "edge"),
            self.asked.measure,
            self.seconds,
            self.device
        ))?;
        if self.late + self.unreadable > 0 {
            report::line(&format!(
                "of the source: {} late, {} unreadable, left out",
                self.late, self.unreadable
            ))?;
        }
        if self.changes > 0 {
            report::line(&format!(
                "{} of window or threshold by the page",
                report::count(self.changes, "change")
            ))?;
        }
        for out in &self.out {
            report::line(&format!("written: {out}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_later_specifications_have_numbers() {
        for (out, second) in [
            ("a/net.npz", "a/net-2.npz"),
            ("net.net.npz", "net-2.net.npz"),
            ("net.zarr", "net-2.zarr"),
            (".npz", ".npz-2"),
        ] {
            assert_eq!(numbered(Path::new(out), 1), Path::new(out));
            assert_eq!(numbered(Path::new(out), 2), Path::new(second));
        }
    }
}
