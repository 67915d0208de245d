//! `--full`: the values of all pairs, edges or not.

use std::path::{Path, PathBuf};

use betz::network::file::{LARGEST, NetworkFile};
use betz::network::{NetworkSpec, Plan, Signal};
use betz::{Error, Progress, Result, memory};

/// Nodes whose pairs are in memory at most, and in one file. Of more nodes, values go to a directory as they are found.
const MOST_NODES: usize = 4000;

/// Bytes of a block of values while it is computed.
const BLOCK: u64 = 256 << 20;

/// Refuses values of all pairs of a measure without them, or of more pairs than memory holds.
///
/// # Errors
/// `--full` for distances; no memory for values that are written to one file.
pub(super) fn check(
    spec: &NetworkSpec,
    signal: &Signal<'_>,
    windows: usize,
    out: Option<&Path>,
) -> Result<()> {
    if spec.measure.is_distance() {
        return Err(Error::argument(format!(
            "--full: expected another measure than {}, whose largest values have no edge",
            spec.measure.name()
        )));
    }
    if is_large(signal.nodes(), windows) {
        let is_directory =
            |at: PathBuf| (at.extension()).is_some_and(|e| e.eq_ignore_ascii_case("zarr"));
        return match out {
            Some(out) if !is_directory(NetworkFile::place_with_pairs(out)) => {
                Err(Error::argument(format!(
                    "--full: {} of values need a directory whose name ends in .zarr, got {}",
                    memory::size(bytes(signal.nodes(), windows)),
                    out.display()
                ))
                .at("--out"))
            }
            _ => Ok(()),
        };
    }
    memory::plan("--full", u128::from(bytes(signal.nodes(), windows)) * 4)
}

/// True if values are written to a directory as they are found.
pub(super) fn is_large(nodes: usize, windows: usize) -> bool {
    nodes > MOST_NODES || bytes(nodes, windows) > LARGEST
}

fn pairs(nodes: usize) -> usize {
    nodes * nodes.saturating_sub(1) / 2
}

/// Bytes of the values.
pub(super) fn bytes(nodes: usize, windows: usize) -> u64 {
    4 * windows as u64 * pairs(nodes) as u64
}

/// Says that a request to stop came before all values were there: the network is written without them.
pub(super) fn say_left_out() {
    eprintln!("--full: stopped; the values of all pairs are left out");
}

/// The values of all pairs, to be computed.
#[derive(Clone, Copy)]
pub(super) struct AllPairs<'a> {
    pub(super) plan: &'a Plan,
    pub(super) signal: &'a Signal<'a>,
    /// Limit of `--memory`.
    pub(super) memory: Option<u64>,
}

impl AllPairs<'_> {
    /// (windows, pairs) of all windows, the pairs by (i, j); NaN where undefined.
    pub(super) fn values(self, progress: &dyn Progress) -> Result<Vec<f32>> {
        let (windows, pairs) = (self.plan.windows().len(), pairs(self.signal.nodes()));
        let mut values = memory::filled("--full", f32::NAN, windows * pairs)?;
        let block = self.block();
        (self.plan).stream_pairs(self.signal, block, progress, |block| {
            let rows = block.values.chunks(block.pairs.len().max(1));
            for (window, row) in block.windows.clone().zip(rows) {
                let at = window * pairs;
                values[at + block.pairs.start..at + block.pairs.end].copy_from_slice(row);
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Writes `file` and the values as a directory; returns its path.
    pub(super) fn write(
        self,
        file: &NetworkFile,
        out: &Path,
        progress: &dyn Progress,
    ) -> Result<PathBuf> {
        let place = NetworkFile::place_with_pairs(out);
        eprintln!(
            "--full: {} of values are written to the directory {}",
            memory::size(bytes(self.signal.nodes(), file.network.len())),
            place.display()
        );
        file.write_with_pairs(&place, &mut |writer| {
            let block = self.block();
            (self.plan).stream_pairs(self.signal, block, progress, |block| writer.put(block))
        })?;
        Ok(place)
    }

    fn block(self) -> u64 {
        self.memory.map_or(BLOCK, |memory| (memory / 4).min(BLOCK))
    }
}
