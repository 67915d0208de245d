//! Folds that hold out a kind of movement, whole: what a decoder makes of what it has never seen.

use crate::experts::Clusters;
use crate::folds::{Folds, Part};
use betz_recording::DatasetView;

/// Fewest segments that are told apart by where they end.
const LEAST_SEGMENTS: usize = 40;

/// Regions that segments are sorted into.
const REGIONS: usize = 8;

/// Folds by where segments end: k-means of the mean outputs over the last third of each. The largest fold
/// comes first. `None` where there are too few segments, or too few places.
pub(crate) fn regions(data: &DatasetView<'_>, seed: u64) -> Option<Folds> {
    let n = data.outputs.len();
    if data.segments.len() < LEAST_SEGMENTS || n == 0 {
        return None;
    }
    let ends: Vec<f32> = (data.segments.iter())
        .flat_map(|segment| {
            let last = (segment.stop - (segment.len() as i64 / 3).max(1)) as usize;
            let rows = &data.behavior[last * n..segment.stop as usize * n];
            let count = (rows.len() / n) as f64;
            (0..n).map(move |o| {
                let sum: f64 = rows.iter().skip(o).step_by(n).map(|v| f64::from(*v)).sum();
                (sum / count) as f32
            })
        })
        .collect();
    let all: Vec<usize> = (0..data.segments.len()).collect();
    let clusters = Clusters::find(&ends, n, &all, REGIONS, seed);
    let mut folds = vec![Vec::new(); clusters.len()];
    for (segment, end) in data.segments.iter().zip(ends.chunks_exact(n)) {
        folds[clusters.of(end)].push(Part {
            segment: *segment,
            from: segment.start,
        });
    }
    folds.retain(|f| !f.is_empty());
    folds.sort_by_key(|f| std::cmp::Reverse(f.len()));
    (folds.len() > 2).then_some(Folds { folds, whole: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_end_alike_are_held_out_together() {
        let segments: Vec<(i64, i64)> = (0..60).map(|i| (i * 10, i * 10 + 9)).collect();
        let mut data = betz_gram::cases::dataset(1, &segments, vec![], 2);
        for (i, segment) in data.segments.iter().enumerate() {
            let angle = (i % 5) as f32 * std::f32::consts::TAU / 5.0;
            for step in segment.start as usize..segment.stop as usize {
                let wobble = ((step * 7) % 11) as f32 * 0.001;
                data.behavior[step * 2..][..2]
                    .copy_from_slice(&[angle.cos() + wobble, angle.sin() - wobble]);
            }
        }
        let folds = regions(&data.view(), 0).unwrap().folds;
        assert_eq!(folds.iter().map(Vec::len).sum::<usize>(), 60);
        assert!((5..=8).contains(&folds.len()), "{} folds", folds.len());
        for fold in &folds {
            let direction = |p: &Part| p.segment.start / 10 % 5;
            assert!(fold.iter().all(|p| direction(p) == direction(&fold[0])));
            assert!(fold.iter().all(|p| p.from == p.segment.start));
        }
        data.segments.truncate(39);
        assert_eq!(regions(&data.view(), 0), None);
    }

    #[test]
    fn outputs_that_never_change_have_no_regions() {
        let segments: Vec<(i64, i64)> = (0..50).map(|i| (i * 10, i * 10 + 9)).collect();
        let mut data = betz_gram::cases::dataset(1, &segments, vec![], 1);
        data.behavior.fill(3.0);
        assert_eq!(regions(&data.view(), 0), None);
    }
}
