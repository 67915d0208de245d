//! Files of `betz network graph`: one row per window as CSV, or everything as `.npz`.

use std::io::Write;
use std::path::Path;

use betz::Result;
use betz::file::write_atomically;
use betz::network::file::NetworkFile;
use betz::network::graph::track::CommunityTracks;
use betz::recording::arrays::{Array, write};

/// Values of every window, (windows,), under a name.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) values: Vec<f64>,
}

/// Values of every node in every window, (windows, nodes), under a name.
pub(super) struct NodeColumn {
    pub(super) name: &'static str,
    pub(super) values: Vec<f32>,
}

/// All that was measured.
pub(super) struct GraphMeasures {
    pub(super) columns: Vec<Column>,
    pub(super) nodes: Vec<NodeColumn>,
    pub(super) tracked: Option<CommunityTracks>,
    /// (windows, windows).
    pub(super) likeness: Option<Vec<f32>>,
}

/// The first line of the table begins with this.
pub(super) const HEADER: &str = "window,start,seconds,edges,density";

impl GraphMeasures {
    /// One row a window; what is undefined is left empty.
    pub(super) fn write_csv(&self, file: &NetworkFile, path: &Path) -> Result<()> {
        write_atomically(path, |to| {
            write!(to, "window,start,seconds")?;
            for column in &self.columns {
                write!(to, ",{}", column.name)?;
            }
            writeln!(to)?;
            for (k, start) in file.network.window_start().iter().enumerate() {
                write!(to, "{k},{start},")?;
                if let Some(seconds) = file.seconds(k) {
                    write!(to, "{seconds}")?;
                }
                for column in &self.columns {
                    let value = column.values[k];
                    if value.is_finite() {
                        write!(to, ",{value}")?;
                    } else {
                        write!(to, ",")?;
                    }
                }
                writeln!(to)?;
            }
            Ok(())
        })
    }

    /// Every column, (windows,); every node's, (windows, nodes); `community`, -1 where none is followed;
    /// `flexibility`, (nodes,); `fcd`, (windows, windows).
    pub(super) fn write_npz(&self, file: &NetworkFile, from: &Path, path: &Path) -> Result<()> {
        let network = &file.network;
        let (windows, nodes) = (network.len(), network.nodes());
        let (per_window, per_node) = ([windows], [windows, nodes]);
        let starts: Vec<i64> = network.window_start().iter().map(|s| *s as i64).collect();
        let seconds: Option<Vec<f64>> = (0..windows).map(|k| file.seconds(k)).collect();
        let meta = [format!(
            "{{\"graph_of\":{}}}",
            serde_json::Value::from(from.display().to_string())
        )];
        let communities: Option<Vec<i64>> = self.tracked.as_ref().map(|t| {
            let none = betz::network::graph::track::NONE;
            (t.identities.iter())
                .map(|c| if *c == none { -1 } else { i64::from(*c) })
                .collect()
        });
        let flexibility = self.tracked.as_ref().map(CommunityTracks::flexibility);
        let (of_nodes, square) = ([nodes], [windows, windows]);
        let mut arrays = vec![
            ("meta", Array::Text(&[], &meta)),
            ("window_start", Array::I64(&per_window, &starts)),
        ];
        if let Some(seconds) = &seconds {
            arrays.push(("window_seconds", Array::F64(&per_window, seconds)));
        }
        for column in &self.columns {
            arrays.push((column.name, Array::F64(&per_window, &column.values)));
        }
        for column in &self.nodes {
            arrays.push((column.name, Array::F32(&per_node, &column.values)));
        }
        if let (Some(communities), Some(flexibility)) = (&communities, &flexibility) {
            arrays.push(("community", Array::I64(&per_node, communities)));
            arrays.push(("flexibility", Array::F64(&of_nodes, flexibility)));
        }
        if let Some(likeness) = &self.likeness {
            arrays.push(("fcd", Array::F32(&square, likeness)));
        }
        if let Some(names) = &file.names {
            arrays.push(("node_name", Array::Text(&of_nodes, names)));
        }
        write(path, &arrays)
    }
}
