//! Networks that a device can compute, and the size of its chunks.

use betz_base::{Error, Result};
use betz_kernels::network as kernels;

use super::sums;
use super::warps::MOST_BAND;
use crate::rank::RankMeasure;
use crate::spec::{Measure, NetworkSpec, Taper, Threshold};

/// Bounds that tests narrow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most windows of a chunk.
    pub(crate) windows: usize,
    /// Slots of the edge buffer at first.
    pub(crate) slots: usize,
    /// Most slots, memory aside.
    pub(crate) most_slots: usize,
    /// Pairs times windows of which the strongest are found among all, without a search for thresholds.
    pub(crate) all_pairs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            windows: kernels::MOST_WINDOWS,
            slots: 32 << 20,
            most_slots: 1 << 28,
            all_pairs: 1 << 24,
        }
    }
}

/// Refuses networks that a device cannot compute.
///
/// # Errors
/// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) with what it cannot.
pub(crate) fn can(spec: &NetworkSpec, nodes: usize) -> Result<()> {
    let refuse = |what: &str, got: String| {
        Err(Error::argument(format!(
            "network on a CUDA device: expected {what}, got {got}"
        )))
    };
    let other = |got: &str| refuse("another measure than partial or sttc", got.to_owned());
    match spec.measure {
        Measure::Warping { band, .. } => {
            return match band.min(spec.window.length - 1) > MOST_BAND {
                true => refuse(
                    &format!("a band of up to {MOST_BAND} samples for dtw"),
                    band.to_string(),
                ),
                false => Ok(()),
            };
        }
        Measure::Coherence { .. } | Measure::Lagged { .. } => return Ok(()),
        Measure::Distance { .. } if matches!(spec.threshold, Threshold::Absolute(_)) => {
            return Ok(());
        }
        Measure::Distance { .. } => {
            return refuse(
                "--threshold for distance",
                match spec.threshold {
                    Threshold::Density(_) => "--density; the CPU has it".to_owned(),
                    _ => "--top or --top-per-node; the CPU has these".to_owned(),
                },
            );
        }
        Measure::Partial => {
            return other("partial, for which the CPU inverts a matrix in every window");
        }
        Measure::SpikeTiling { .. } => return other("sttc, whose spike times the CPU compares"),
        _ => {}
    }
    let ranks = RankMeasure::of(spec.measure).is_some();
    let sums = sums::kind(spec.measure).is_some();
    if spec.taper != Taper::Rectangular {
        return refuse("no taper", spec.taper.name().to_owned());
    }
    if let Threshold::TopPerNode(count) = spec.threshold {
        return refuse(
            "a threshold, a density or the strongest pairs of a window",
            format!("the strongest {count} per node"),
        );
    }
    let most_nodes = match sums {
        true => kernels::MOST_NODES / kernels::BLOCK * sums::SIDE,
        false => kernels::MOST_NODES,
    };
    if nodes > most_nodes {
        return refuse(&format!("at most {most_nodes} nodes"), nodes.to_string());
    }
    let window = spec.window;
    if ranks && window.length > kernels::LONGEST_RANKS {
        let longest = kernels::LONGEST_RANKS;
        return refuse(
            &format!("windows of up to {longest} samples for a rank measure"),
            format!("{window:?}"),
        );
    }
    if window.length.max(window.step) > i32::MAX as usize / (2 * kernels::MOST_WINDOWS) {
        return refuse("windows of fewer than 2^20 samples", format!("{window:?}"));
    }
    Ok(())
}
