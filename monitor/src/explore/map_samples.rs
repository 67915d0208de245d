//! Samples of a map, by node.

/// Samples of a map, and the node of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapSamples {
    /// Nearest node of each sample.
    pub winners: Vec<u32>,
    /// Distance of each sample from it.
    pub distances: Vec<f32>,
    /// (samples, dims), row by row; empty if only their nodes are known.
    pub values: Vec<f32>,
}

/// Samples, and their order by node and distance.
#[derive(Debug)]
pub(super) struct SamplesByNode {
    pub(super) samples: MapSamples,
    /// Samples of the first node, nearest first, then those of the second, and so on.
    order: Vec<u32>,
    /// Beginning of each node's samples in `order`, and the end of the last.
    starts: Vec<usize>,
}

impl SamplesByNode {
    pub(super) fn new(samples: MapSamples, nodes: usize) -> Self {
        let (winners, distances) = (&samples.winners, &samples.distances);
        let mut order: Vec<u32> = (0..winners.len() as u32).collect();
        order.sort_by(|&a, &b| {
            let of = |s: u32| (winners[s as usize], distances[s as usize]);
            let ((node, far), (other, further)) = (of(a), of(b));
            node.cmp(&other).then(far.total_cmp(&further))
        });
        let mut starts = vec![0; nodes + 1];
        for &winner in winners {
            starts[winner as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        Self {
            samples,
            order,
            starts,
        }
    }
    /// Numbers of the samples of a node below the number of nodes, nearest first.
    pub(super) fn of(&self, node: usize) -> &[u32] {
        &self.order[self.starts[node]..self.starts[node + 1]]
    }
}
