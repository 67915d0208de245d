//! Which channels are sorted together.

/// Most channels of a group: more see no common spikes, and would take dimensions from each other.
const MOST: usize = 40;
/// Channels beyond a group's own that its features still see.
const BESIDE_UM: f32 = 60.0;

/// An order of channels in which those of a group, and those beside it, follow each other.
pub(crate) struct ChannelGroups {
    /// Channels, as they came, in the new order.
    pub(crate) order: Vec<usize>,
    /// Group of each, in the new order.
    pub(crate) group_of: Vec<u32>,
    /// For each group: the range of channels, in the new order, that its features are made of.
    pub(crate) ranges: Vec<std::ops::Range<usize>>,
}

/// Channels within `near` of each other are of one group, transitively; long groups are cut across.
pub(crate) fn group(places: &[[f32; 2]], near: f32) -> ChannelGroups {
    let apart = |a: usize, b: usize| {
        let ([ax, ay], [bx, by]) = (places[a], places[b]);
        (ax - bx).hypot(ay - by)
    };
    let n = places.len();
    let mut component = vec![usize::MAX; n];
    let mut components: Vec<Vec<usize>> = Vec::new();
    for start in 0..n {
        if component[start] != usize::MAX {
            continue;
        }
        let number = components.len();
        let mut all = vec![start];
        component[start] = number;
        let mut next = 0;
        while next < all.len() {
            let from = all[next];
            for (to, component) in component.iter_mut().enumerate() {
                if *component == usize::MAX && apart(from, to) <= near {
                    *component = number;
                    all.push(to);
                }
            }
            next += 1;
        }
        components.push(all);
    }
    let (mut order, mut group_of, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    for mut channels in components {
        // Along the longer side, then across.
        let side = |axis: usize| {
            let of = channels.iter().map(|c| places[*c][axis]);
            let (low, high) = of.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), p| {
                (l.min(p), h.max(p))
            });
            high - low
        };
        let (long, short) = if side(0) > side(1) { (0, 1) } else { (1, 0) };
        channels.sort_by(|a, b| {
            let by = |axis: usize| places[*a][axis].total_cmp(&places[*b][axis]);
            by(long).then(by(short)).then(a.cmp(b))
        });
        let parts = channels.len().div_ceil(MOST);
        let size = channels.len().div_ceil(parts);
        let begin = order.len();
        for (p, own) in channels.chunks(size).enumerate() {
            let along = |c: usize| places[c][long];
            let (first, last) = (along(own[0]), along(own[own.len() - 1]));
            let from = channels.partition_point(|c| along(*c) < first - BESIDE_UM);
            let until = channels.partition_point(|c| along(*c) <= last + BESIDE_UM);
            let from = from.min(p * size);
            let until = until.max(p * size + own.len());
            group_of.extend(own.iter().map(|_| ranges.len() as u32));
            ranges.push(begin + from..begin + until);
        }
        order.extend(channels);
    }
    ChannelGroups {
        order,
        group_of,
        ranges,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_electrodes_probes_are_cut_and_tetrodes_stay_whole() {
        let array: Vec<[f32; 2]> = (0..9)
            .map(|i| [(i % 3) as f32 * 400.0, (i / 3) as f32 * 400.0])
            .collect();
        let grouped = group(&array, 75.0);
        assert_eq!(grouped.ranges.len(), 9);
        assert!(grouped.ranges.iter().all(|r| r.len() == 1));

        let tetrode = [[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]];
        let whole = group(&tetrode, 75.0).ranges;
        assert!(whole.len() == 1 && whole[0] == (0..4));

        let probe: Vec<[f32; 2]> = (0..384)
            .map(|i| [(i % 2) as f32 * 32.0, (i / 2) as f32 * 20.0])
            .collect();
        let grouped = group(&probe, 75.0);
        let mut order = grouped.order.clone();
        order.sort_unstable();
        assert_eq!(order, (0..384).collect::<Vec<_>>());
        assert_eq!(grouped.ranges.len(), 10);
        for (g, range) in grouped.ranges.iter().enumerate() {
            let own: Vec<usize> = (0..384)
                .filter(|c| grouped.group_of[*c] == g as u32)
                .collect();
            assert!(own.len() <= MOST && range.start <= own[0] && own[own.len() - 1] < range.end);
            // Everything beside the group is in its range.
            for c in 0..384 {
                let near = own.iter().any(|o| {
                    let (a, b) = (probe[grouped.order[*o]], probe[grouped.order[c]]);
                    (a[1] - b[1]).abs() <= BESIDE_UM
                });
                assert_eq!(range.contains(&c), near, "group {g}, channel {c}");
            }
        }
    }
}
