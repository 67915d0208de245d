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
    /// Largest number of edges, for the file.
    most: u64,
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
            written: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, meta: Meta, positions: Option<Positions>) {
        self.network = Some(Network::empty(meta));
        self.positions = positions;
    }

    /// # Errors
    /// The errors of [`Network::push`].
    pub(super) fn push(&mut self, window: &WindowEdges<'_>) -> Result<()> {
        let Some(network) = &mut self.network else {
            return Ok(());
        };
        network.push(window)
    }

    /// Goes on with another specification, behind the windows that [`OutputNetworks::write`] has written.
    pub(super) fn go_on(&mut self, meta: Meta) {
        if self.network.as_ref().is_none_or(Network::is_empty) {
            self.network = Some(Network::empty(meta));
        }
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

    /// Writes the windows so far, whose origin is `meta`. They stay if that fails.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&mut self, meta: Meta) -> Result<()> {
        if self.network.as_ref().is_none_or(Network::is_empty) {
            return Ok(());
        }
        let path = self.free_path()?;
        let Some(network) = self.network.take() else {
            return Ok(());
        };
        let spec = meta.spec.max_edges(self.most);
        let mut file = NetworkFile::new(network.with_meta(Meta { spec, ..meta }));
        file.positions.clone_from(&self.positions);
        match write_where_it_fits(&file, &path) {
            Ok(place) => {
                self.written.push(place);
                self.number += 1;
                Ok(())
            }
            Err(e) => {
                self.network = Some(file.network);
                Err(e)
            }
        }
    }

    /// Path of the next file. Numbers whose file is no earlier result are left out.
    fn free_path(&mut self) -> Result<PathBuf> {
        loop {
            let path = numbered(self.out, self.number);
            if path == self.out {
                return Ok(path);
            }
            let may = Files::new(self.common).may_write("--out", Some(&path), Kind::Network);
            match may {
                Err(_) if path.exists() => self.number += 1,
                may => return may.map(|()| path),
            }
        }
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
