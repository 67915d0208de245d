//! Winners, and how well a map stands for its samples.

use betz_base::{Result, memory};

use super::cpu::{Winners, nearest};
use super::metric::{self, Planes};
use super::samples::{Centre, Samples};
use super::{Map, Metric};

/// Samples whose winners are found at once.
const AT_ONCE: usize = 1 << 16;

/// Quality of a map as a picture of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Mean distance of samples from their winners.
    pub quantisation_error: f64,
    /// Part of the samples whose two nearest nodes are no neighbours on the map.
    pub topographic_error: f64,
}

pub(super) fn winners(map: &Map, samples: Samples<'_>) -> Result<Vec<u32>> {
    map.check(samples)?;
    if map.metric() != Metric::Euclidean {
        let planes = Planes::new(map.weights(), map.dims())?;
        let found = metric::winners(map.metric(), samples, &planes)?;
        return Ok(found.into_iter().map(|(node, _)| node).collect());
    }
    let mut all = memory::room("winners", samples.count())?;
    for part in samples.values().chunks(AT_ONCE * map.dims()) {
        let part = Samples::new(part, map.dims())?;
        let centre = Centre::of(part);
        let weights = centre.inward(map.weights());
        let mut search = Winners::new(
            centre.inward(part.values()),
            map.dims(),
            Metric::Euclidean,
            true,
        )?;
        if weights.iter().all(|w| w.abs() < 1e15) {
            search.search(&weights)?;
            all.extend_from_slice(search.all());
        } else {
            // Nodes so far off that their squares are beyond f32.
            let of = |x| nearest(x, map.weights(), map.dims());
            all.extend(part.rows().map(of));
        }
    }
    Ok(all)
}

pub(super) fn quality(map: &Map, samples: Samples<'_>) -> Result<Quality> {
    let winners = winners(map, samples)?;
    let (mut distance, mut apart) = (0.0, 0_usize);
    for (x, &winner) in samples.rows().zip(&winners) {
        let winner = winner as usize;
        // The square of a Euclidean distance has its order.
        let squared = |node: usize| -> f64 {
            if map.metric() != Metric::Euclidean {
                return map.metric().distance(x, map.node(node));
            }
            let terms = x.iter().zip(map.node(node));
            terms
                .map(|(x, w)| (f64::from(*x) - f64::from(*w)).powi(2))
                .sum()
        };
        distance += match map.metric() {
            Metric::Euclidean => squared(winner).sqrt(),
            _ => squared(winner),
        };
        let mut second = (f64::INFINITY, winner);
        for node in (0..map.grid().nodes()).filter(|&node| node != winner) {
            let squared = squared(node);
            if squared < second.0 {
                second = (squared, node);
            }
        }
        let touches = second.1 == winner || map.grid().neighbours(winner).any(|n| n == second.1);
        apart += usize::from(!touches);
    }
    let count = samples.count() as f64;
    Ok(Quality {
        quantisation_error: distance / count,
        topographic_error: apart as f64 / count,
    })
}
