//! The strongest pairs of every window on devices. A walk brings out the pairs that reach a threshold. Every window has a
//! threshold of its own, which is lowered until enough pairs reach it. The strongest of these are the strongest of all.
//!
//! A sample of tiles and windows gives the first thresholds. Then Fisher's z is taken for normally distributed to guess
//! the next one; of distances and covariances, which have no such scale, the sample gives that, too. A wrong guess costs another walk, or edges that are brought in vain, and changes no edge.

use betz_base::progress::check;
use betz_base::{Progress, Result};
use rayon::prelude::*;

use super::sums;
use super::{Walkers, exact_value, size_of};
use crate::chunk::ChunkResult;
use crate::engine::{ChunkEdges, Counts, Cut};
use crate::plan::Plan;
use crate::rank::RankMeasure;
use crate::scan::{Candidate, Keep, gather, strongest_of};
use crate::signal::Signal;
use crate::spec::{Measure, Sign};
use crate::window::Chunk;

/// Windows, and tiles of a device, in the sample.
const SAMPLE_WINDOWS: usize = 64;
const SAMPLE_TILES: usize = 8;

/// No correlation reaches this threshold, and no other value the second.
const NOTHING: f64 = 2.0;
const FAR_BEYOND: f64 = 1e300;

/// A threshold is meant for so many times the pairs that are wanted.
const SPARE: f64 = 1.25;

/// Pairs of a sample from which a share of all pairs is told.
const TOLD: usize = 30;

/// The part of a threshold's z that the next one is, where nothing is known, and the bounds of this part.
const LOWER: f64 = 0.8;
const LEAST_PART: f64 = 0.5;
const MOST_PART: f64 = 0.95;

/// Below this z all pairs are brought out.
const LEAST_Z: f64 = 0.02;

/// Fisher's z of the first threshold without a sample.
const FIRST_Z: f64 = 1.0;

/// Half a step of an f32 near 1, with room to spare: the error of values that are exact before they are rounded.
const ROUNDED: f64 = 1e-7;

/// The part of a value that sums in f64 and f32 are off by, with room to spare; and the least that phases are.
const SUMMED: f64 = 3e-7;
const OF_PHASES: f64 = 1e-9;

/// Edges of a chunk that a device brings out at most, as far as that can be told before.
const MOST_EDGES: usize = 1 << 28;

/// Most windows of a chunk by the edges that it is to bring out.
pub(super) fn most_windows(plan: &Plan) -> usize {
    match Keep::new(plan.spec(), plan.nodes) {
        Keep::Strongest(count) => (MOST_EDGES / count.saturating_mul(2).max(1)).max(1),
        _ => usize::MAX,
    }
}

/// The search for a window's threshold.
#[derive(Debug, Clone, Copy)]
struct Search {
    measure: Measure,
    /// Pairs that are wanted, and all pairs.
    count: usize,
    pairs: f64,
    sign: Sign,
}

/// The z beyond which a normal distribution has the share `p` on one side, 0 < p < ½ (Abramowitz and Stegun 26.2.23).
fn upper_z(p: f64) -> f64 {
    let t = (-2.0 * p.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    t - above / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)))
}

impl Search {
    /// The threshold that every pair reaches.
    fn floor(&self) -> f64 {
        match (self.measure, self.sign) {
            (Measure::Euclidean { .. }, _) => -FAR_BEYOND,
            (Measure::Covariance, Sign::Positive | Sign::Negative) => -FAR_BEYOND,
            (Measure::PhaseConsistency, _) => -1.0,
            (_, Sign::Both) => 0.0,
            _ => -1.0,
        }
    }

    /// The threshold that no pair reaches.
    fn nothing(&self) -> f64 {
        match sums::kind(self.measure) {
            Some(_) => FAR_BEYOND,
            None => NOTHING,
        }
    }

    /// True if sizes are no correlations, or like them.
    fn is_free(&self) -> bool {
        matches!(
            self.measure,
            Measure::Euclidean { .. } | Measure::Covariance
        )
    }

    /// A threshold that some pairs can reach: some covariances are infinite as f32.
    fn clamp(&self, size: f64) -> f64 {
        size.clamp(self.floor(), FAR_BEYOND / 2.0)
    }

    fn size(&self, value: f64) -> f64 {
        size_of(self.measure, self.sign, value)
    }

    /// The z, in standard deviations, that this share of all sizes reaches; `None` if it is a large one.
    fn deviations(&self, share: f64) -> Option<f64> {
        let one_side = if self.floor() == 0.0 {
            share / 2.0
        } else {
            share
        };
        (one_side > 0.0 && one_side < 0.35).then(|| upper_z(one_side))
    }

    /// The share of all pairs that a threshold is meant for.
    fn share(&self) -> f64 {
        SPARE * self.count as f64 / self.pairs
    }

    fn threshold(&self, z: f64) -> f64 {
        if z > LEAST_Z { z.tanh() } else { self.floor() }
    }

    /// The first threshold, from the sizes that some of `looked_at` pairs have.
    fn first(&self, sizes: &mut [f64], looked_at: u64) -> f64 {
        let Some(wanted) = self.deviations(self.share()) else {
            return self.floor();
        };
        sizes.sort_unstable_by(|a, b| b.total_cmp(a));
        let looked_at = looked_at as f64;
        let rank = (self.share() * looked_at) as usize;
        if self.is_free() {
            let told = sizes.get(rank.max(TOLD - 1));
            return told.map_or(self.floor(), |size| self.clamp(*size));
        }
        let z = |size: f64| size.min(1.0 - 1e-9).atanh();
        if rank >= TOLD {
            return (sizes.get(rank)).map_or(self.floor(), |size| self.threshold(z(*size)));
        }
        // Too few for such a share: from a larger one on.
        match (
            sizes.get(TOLD - 1),
            self.deviations(TOLD as f64 / looked_at),
        ) {
            (Some(size), Some(told)) => self.threshold(z(*size) * wanted / told),
            _ => self.threshold(FIRST_Z),
        }
    }

    /// A lower threshold than `threshold`, which `found` pairs reach. `sizes`: those of a sample, the largest first.
    fn lower(&self, threshold: f64, found: usize, sizes: &[f64]) -> f64 {
        if self.is_free() {
            let reached = sizes.partition_point(|size| *size >= threshold);
            let next = sizes.get(2 * reached + TOLD);
            return next.map_or(self.floor(), |size| self.clamp(*size));
        }
        let Some(wanted) = self.deviations(self.share()) else {
            return self.floor();
        };
        let part = match self.deviations(found as f64 / self.pairs) {
            Some(reached) if found >= TOLD => wanted / reached,
            _ => LOWER,
        };
        let z = threshold.min(1.0 - 1e-9).atanh();
        self.threshold(z * part.clamp(LEAST_PART, MOST_PART))
    }
}

/// Finds a chunk's edges that reach the thresholds of a cut, in a number of tiles of every device at most, and the number of
/// pairs in these.
type Reach<'a> = dyn FnMut(&Cut, usize) -> Result<(ChunkResult, u64)> + 'a;

/// Sizes of some pairs of every so many windows, the largest first; of none where all pairs are brought out at once.
#[derive(Debug, Default)]
struct Samples {
    apart: usize,
    sizes: Vec<Vec<f64>>,
}

impl Samples {
    /// Those nearest before window `q`.
    fn of(&self, q: usize) -> &[f64] {
        let at = q.checked_div(self.apart).unwrap_or(0);
        self.sizes.get(at).map_or(&[], Vec::as_slice)
    }
}

/// A chunk whose windows are searched.
struct Windows<'a> {
    plan: &'a Plan,
    signal: &'a Signal<'a>,
    chunk: &'a Chunk,
    search: Search,
}

impl Windows<'_> {
    fn cut(&self, thresholds: &[f64]) -> Cut {
        Cut {
            thresholds: thresholds.to_vec(),
            sign: self.search.sign,
            strict: false,
            most: u64::MAX,
        }
    }

    /// The first threshold of every window, and the sizes of each sample, the largest first, with the windows from one
    /// sample to the next.
    fn first_thresholds(&self, reach: &mut Reach<'_>) -> Result<(Vec<f64>, Samples)> {
        let (search, windows) = (self.search, self.chunk.windows);
        let floor = vec![search.floor(); windows];
        if search.pairs * windows as f64 <= self.plan.limits.all_pairs as f64
            || search.deviations(search.share()).is_none()
        {
            return Ok((floor, Samples::default()));
        }
        let apart = windows.div_ceil(SAMPLE_WINDOWS);
        let of_sample = |q: usize| {
            if q.is_multiple_of(apart) {
                floor[q]
            } else {
                search.nothing()
            }
        };
        let cut = self.cut(&(0..windows).map(of_sample).collect::<Vec<_>>());
        let (result, looked_at) = reach(&cut, SAMPLE_TILES)?;
        let ChunkEdges { indptr, r, .. } = &result.edges;
        let mut samples = Samples {
            apart,
            sizes: Vec::new(),
        };
        let mut first = Vec::new();
        for q in (0..windows).step_by(apart) {
            let values = &r[indptr[q] as usize..indptr[q + 1] as usize];
            let mut sizes: Vec<f64> = (values.iter())
                .map(|r| search.size(f64::from(*r)))
                .collect();
            first.push(search.first(&mut sizes, looked_at));
            samples.sizes.push(sizes);
        }
        let thresholds = (0..windows).map(|q| first[q / apart]).collect();
        Ok((thresholds, samples))
    }

    /// The value of a pair in f64.
    fn exact(
        &self,
        q: usize,
        (i, j): (u32, u32),
        x: &mut Vec<f64>,
        y: &mut Vec<f64>,
    ) -> Option<f64> {
        let of = (self.signal, self.chunk);
        let pair = (q, i as usize, j as usize);
        exact_value(self.plan.spec().measure, of, pair, x, y)
    }

    /// Bound of the error of a value that a device has found.
    fn bound(&self, value: f64) -> f64 {
        let measure = self.plan.spec().measure;
        match measure {
            _ if RankMeasure::of(measure).is_some() => ROUNDED,
            // Of f32: decided in f64.
            _ if value.is_infinite() => f64::INFINITY,
            // Below f32's least normal number, digits are lost.
            _ if self.search.is_free() => SUMMED * value.abs() + f64::from(f32::MIN_POSITIVE),
            _ if sums::kind(measure).is_some() => SUMMED * value.abs() + OF_PHASES,
            _ => self.plan.rules.margin(),
        }
    }

    /// The strongest of the edges of window `q`, and the number of those that were decided in f64.
    fn strongest(&self, edges: &ChunkEdges, q: usize) -> (Vec<Candidate>, u64) {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        let own = edges.indptr[q] as usize..edges.indptr[q + 1] as usize;
        strongest_of(
            own.map(|e| (edges.i[e], edges.j[e], edges.r[e])),
            (self.search.count, &|value| self.bound(value)),
            |value| self.search.size(value),
            |i, j| self.exact(q, (i, j), &mut x, &mut y),
        )
    }

    fn run(
        &self,
        most: u64,
        reach: &mut Reach<'_>,
        progress: &dyn Progress,
    ) -> Result<ChunkResult> {
        let windows = self.chunk.windows;
        let nothing = self.search.nothing();
        let (mut thresholds, samples) = self.first_thresholds(reach)?;
        let mut lists = vec![Vec::new(); windows];
        let mut counts = Counts::default();
        loop {
            check(progress, "strongest pairs")?;
            let (result, _) = reach(&self.cut(&thresholds), usize::MAX)?;
            let edges = &result.edges;
            counts.rechecked += edges.counts.rechecked;
            counts.rebuilt += edges.counts.rebuilt;
            let (mut done, mut left) = (Vec::new(), false);
            for (q, threshold) in thresholds.iter_mut().enumerate() {
                if *threshold >= nothing {
                    continue;
                }
                let found = (edges.indptr[q + 1] - edges.indptr[q]) as usize;
                if found >= self.search.count || *threshold <= self.search.floor() {
                    done.push(q);
                    *threshold = nothing;
                } else {
                    *threshold = self.search.lower(*threshold, found, samples.of(q));
                    left = true;
                }
            }
            let kept: Vec<_> = (done.into_par_iter())
                .map(|q| (q, self.strongest(edges, q)))
                .collect();
            for (q, (list, decided)) in kept {
                lists[q] = list;
                counts.rechecked += decided;
            }
            if !left {
                return Ok(ChunkResult {
                    edges: gather(lists, false, most, counts)?,
                    ..result
                });
            }
        }
    }
}

impl Walkers {
    /// The strongest `count` pairs of every window of a chunk; more than `most` edges are refused.
    ///
    /// # Errors
    /// As for the CPU, and those of the devices.
    pub(super) fn strongest(
        &mut self,
        plan: &Plan,
        signal: &Signal<'_>,
        chunk: &Chunk,
        (count, most): (usize, u64),
        progress: &dyn Progress,
    ) -> Result<ChunkResult> {
        let mut reach = |cut: &Cut, most_tiles: usize| {
            self.reaching(plan, signal, chunk, cut, most_tiles, progress)
        };
        windows(plan, signal, chunk, count).run(most, &mut reach, progress)
    }
}

fn windows<'a>(
    plan: &'a Plan,
    signal: &'a Signal<'_>,
    chunk: &'a Chunk,
    count: usize,
) -> Windows<'a> {
    let nodes = signal.nodes() as f64;
    Windows {
        plan,
        signal,
        chunk,
        search: Search {
            measure: plan.spec().measure,
            count,
            pairs: nodes * (nodes - 1.0) / 2.0,
            sign: plan.spec().sign,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use crate::oracle::reaches;
    use crate::spec::{NetworkSpec, Threshold};
    use crate::window::Window;

    #[test]
    fn thresholds_fall_to_the_floor() {
        assert!((upper_z(0.025) - 1.96).abs() < 1e-3 && (upper_z(1e-6) - 4.7534).abs() < 1e-3);
        for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
            for count in [1, 100, 4_000, 9_999, 10_000] {
                let search = Search {
                    measure: Measure::Pearson,
                    count,
                    pairs: 10_000.0,
                    sign,
                };
                for found in [0, 1, count / 2, count - 1] {
                    let (mut threshold, mut rounds) = (1.0, 0);
                    while threshold > search.floor() {
                        let next = search.lower(threshold, found, &[]);
                        assert!(next < threshold, "{search:?}: {next} after {threshold}");
                        (threshold, rounds) = (next, rounds + 1);
                    }
                    assert!(rounds < 200, "{rounds}");
                }
                assert_eq!(search.first(&mut [], 0), {
                    let all = search.deviations(search.share()).is_none();
                    if all { search.floor() } else { FIRST_Z.tanh() }
                });
            }
        }
    }

    /// A search with thresholds and counts of its own ends with the edges of the CPU's walk, here without a device: pairs
    /// are found by the CPU and left out below the thresholds.
    #[test]
    fn a_search_of_thresholds_ends_with_the_strongest_pairs() {
        let (mut searched, mut walks) = (0, 0);
        for case in cases::all() {
            let signal = case.signal();
            if signal.nodes() > 50 {
                continue;
            }
            let window = Window::new(20.min(signal.samples()), 5);
            let sizes = case.samples.iter().map(|v| f64::from(v.abs()));
            let largest = sizes.filter(|size| size.is_finite()).fold(0.0, f64::max);
            for measure in [
                Measure::Pearson,
                Measure::Spearman,
                Measure::Kendall,
                Measure::Euclidean { hold: 1 },
                Measure::Covariance,
                Measure::PhaseLocking,
                Measure::ImaginaryPhaseLocking,
                Measure::PhaseConsistency,
            ] {
                let is_angle = matches!(sums::kind(measure), Some((2.., _)));
                if is_angle && largest > 1e10 {
                    // The plain loops' difference of such angles is off by more than its last digits.
                    continue;
                }
                for (sign, threshold) in [
                    (Sign::Both, Threshold::Top(3)),
                    (Sign::Positive, Threshold::Density(0.1)),
                    (Sign::Negative, Threshold::Top(40)),
                    (Sign::Both, Threshold::Density(1.0)),
                    (Sign::Positive, Threshold::Density(0.9)),
                ] {
                    let spec = NetworkSpec::new(measure, window)
                        .threshold(threshold)
                        .sign(sign);
                    let Ok(mut plan) = Plan::new(&spec, &signal) else {
                        continue;
                    };
                    plan.limits.all_pairs = 0;
                    let Keep::Strongest(count) = Keep::new(&spec, signal.nodes()) else {
                        panic!("{threshold:?}");
                    };
                    let whole = spec.threshold(Threshold::Density(1.0));
                    let whole = Plan::new(&whole, &signal).unwrap();
                    for chunk in plan.windows().chunks(7).into_iter().take(2) {
                        let expected = plan.chunk(&signal, chunk, u64::MAX, &()).unwrap().edges;
                        let all = whole.chunk(&signal, chunk, u64::MAX, &()).unwrap().edges;
                        // A walk decides in f64 what is near a threshold.
                        let searched_windows = windows(&plan, &signal, &chunk, count);
                        let (mut x, mut y) = (Vec::new(), Vec::new());
                        let (mut sizes, mut values) = (Vec::new(), Vec::new());
                        for q in 0..chunk.windows {
                            for e in all.indptr[q] as usize..all.indptr[q + 1] as usize {
                                let pair = (all.i[e], all.j[e]);
                                let exact = searched_windows.exact(q, pair, &mut x, &mut y);
                                let size = exact.map(|value| searched_windows.search.size(value));
                                sizes.push(size.unwrap_or(f64::NEG_INFINITY));
                                // Sums of a device are closer than the CPU's.
                                let of_sums = sums::kind(measure).and(exact);
                                values.push(of_sums.map_or(all.r[e], |value| value as f32));
                            }
                        }
                        let mut reach = |cut: &Cut, _: usize| {
                            walks += 1;
                            let mut edges = ChunkEdges {
                                indptr: vec![0],
                                ..ChunkEdges::default()
                            };
                            for q in 0..chunk.windows {
                                for e in all.indptr[q] as usize..all.indptr[q + 1] as usize {
                                    if reaches(sizes[e], cut.thresholds[q], false) {
                                        edges.i.push(all.i[e]);
                                        edges.j.push(all.j[e]);
                                        edges.r.push(values[e]);
                                    }
                                }
                                edges.indptr.push(edges.r.len() as u64);
                            }
                            let result = ChunkResult {
                                edges,
                                undefined: Vec::new(),
                                extreme: 0,
                            };
                            Ok((
                                result,
                                signal.nodes() as u64 * (signal.nodes() as u64 - 1) / 2,
                            ))
                        };
                        let found = searched_windows
                            .run(u64::MAX, &mut reach, &())
                            .unwrap()
                            .edges;
                        searched += 1;
                        let what = format!("{}, {spec:?}", case.name);
                        assert_eq!(found.indptr, expected.indptr, "{what}");
                        assert_eq!((found.i, found.j), (expected.i, expected.j), "{what}");
                        for (a, b) in found.r.iter().zip(&expected.r) {
                            // Covariances are as exact as the products of deviations.
                            let off = match measure {
                                Measure::Covariance => f32::INFINITY,
                                _ => 2e-5 * b.abs().max(1.0),
                            };
                            assert!(a == b || (a - b).abs() <= off, "{what}: {a} {b}");
                        }
                    }
                }
            }
        }
        assert!(searched > 100 && walks > searched, "{searched} {walks}");
    }
}
