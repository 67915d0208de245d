//! `--full`: the values of all pairs, edges or not.

use betz::network::{NetworkSpec, Plan, Sign, Signal, Threshold};
use betz::{Error, Progress, Result, memory};

/// Nodes whose pairs are written at most.
const MOST_NODES: usize = 4000;

/// Refuses values of all pairs if there are too many.
///
/// # Errors
/// `--full` for too many nodes or values, or distances.
pub(super) fn check(spec: &NetworkSpec, signal: &Signal<'_>, windows: usize) -> Result<()> {
    if signal.nodes() > MOST_NODES {
        return Err(Error::argument(format!(
            "--full: expected at most {MOST_NODES} nodes, got {}",
            signal.nodes()
        )));
    }
    if spec.measure.is_distance() {
        return Err(Error::argument(format!(
            "--full: expected another measure than {}, whose largest values have no edge",
            spec.measure.name()
        )));
    }
    memory::plan(
        "--full",
        windows as u128 * pairs(signal.nodes()) as u128 * 16,
    )
}

fn pairs(nodes: usize) -> usize {
    nodes * nodes.saturating_sub(1) / 2
}

/// (windows, pairs) of the first `windows` windows, the pairs by (i, j); NaN where undefined.
pub(super) fn values(
    spec: &NetworkSpec,
    signal: &Signal<'_>,
    windows: usize,
    progress: &dyn Progress,
) -> Result<Vec<f32>> {
    let (nodes, pairs) = (signal.nodes(), pairs(signal.nodes()));
    let mut values = memory::filled("--full", f32::NAN, windows * pairs)?;
    let spec = NetworkSpec {
        sign: Sign::Both,
        strict: false,
        max_edges: u64::MAX,
        ..spec.threshold(Threshold::Absolute(0.0))
    };
    Plan::new(&spec, signal)?.stream(signal, progress, |window| {
        let Some(room) = values.get_mut(window.index * pairs..(window.index + 1) * pairs) else {
            return Ok(());
        };
        for (i, j, r) in window.edges() {
            let (i, j) = (i as usize, j as usize);
            // Pairs of the rows above, then along the row.
            room[i * (2 * nodes - i - 1) / 2 + j - i - 1] = r;
        }
        Ok(())
    })?;
    Ok(values)
}
