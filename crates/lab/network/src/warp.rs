//! Dynamic time warping of two nodes' samples within a band, exact: lower bounds leave out what cannot be an edge, and
//! eight pairs are warped side by side.

use betz_base::progress::check;
use betz_base::{Progress, Result};
use rayon::prelude::*;

use crate::oracle::{self, UndefinedReason};
use crate::scan::{ExactWindow, Keep};
use crate::signal::Signal;
use crate::window::Chunk;

/// Most nodes of which all pairs are computed, for thresholds that say how many edges there are.
pub(crate) const MOST_NODES: usize = 4096;

/// Pairs that are warped side by side.
const LANES: usize = 8;

/// Rounding of sums that bounds are compared with, with room to spare.
const ROUNDING: f64 = 1e-9;

/// Pairs of one node with later ones (nodes, value), and the number of pairs that were aligned.
type RowPairs = (Vec<(u32, u32, f64)>, u64);

/// The measure's options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeWarp {
    pub(crate) band: usize,
    pub(crate) normalised: bool,
}

/// The samples of a window as they are compared, node after node, and their envelopes: the largest and least within the
/// band.
pub(crate) struct WindowSamples {
    pub(crate) length: usize,
    pub(crate) samples: Vec<f64>,
    pub(crate) upper: Vec<f64>,
    pub(crate) lower: Vec<f64>,
    /// Nodes with samples to compare.
    pub(crate) defined: Vec<u32>,
}

impl WindowSamples {
    fn of<'a>(&self, list: &'a [f64], node: u32) -> &'a [f64] {
        &list[node as usize * self.length..][..self.length]
    }

    /// The same with the lists of defined nodes only, in the order of `defined`.
    pub(crate) fn without_undefined(mut self) -> Self {
        let length = self.length;
        for list in [&mut self.samples, &mut self.upper, &mut self.lower] {
            for (to, node) in self.defined.iter().enumerate() {
                let from = *node as usize * length;
                list.copy_within(from..from + length, to * length);
            }
            list.truncate(self.defined.len() * length);
        }
        self
    }
}

/// Bytes of a window's samples and envelopes.
pub(crate) fn bytes(nodes: usize, length: usize) -> u128 {
    let room = rayon::current_num_threads() * 3 * LANES * length;
    3 * 8 * nodes as u128 * length as u128 + 8 * room as u128
}

impl TimeWarp {
    /// Every window of `chunk`: its pairs that may be kept, with their distances; and how many pairs were warped.
    pub(crate) fn windows(
        &self,
        signal: &Signal<'_>,
        chunk: &Chunk,
        keep: Keep,
        progress: &dyn Progress,
    ) -> Result<(Vec<ExactWindow>, u64)> {
        let mut warped = 0;
        let windows = (0..chunk.windows).map(|q| {
            check(progress, "dynamic time warping")?;
            let (window, count) = self.window(signal, chunk, q, keep);
            warped += count;
            Ok(window)
        });
        let windows = windows.collect::<Result<_>>()?;
        Ok((windows, warped))
    }

    fn window(
        &self,
        signal: &Signal<'_>,
        chunk: &Chunk,
        q: usize,
        keep: Keep,
    ) -> (ExactWindow, u64) {
        let length = chunk.window.length;
        let (prepared, undefined) = self.prepare(signal, chunk.start_of(q), length);
        let most = most_squares(keep);
        let vectors = pulp::Arch::new();
        let rows: Vec<RowPairs> = (0..prepared.defined.len())
            .into_par_iter()
            .map_init(Rows::default, |rows, at| {
                vectors.dispatch(
                    #[inline(always)]
                    || self.row(&prepared, at, most, rows),
                )
            })
            .collect();
        let warped = rows.iter().map(|(_, count)| count).sum();
        let pairs = rows.into_iter().flat_map(|(pairs, _)| pairs).collect();
        ((pairs, undefined), warped)
    }

    /// A window's samples, normalised if asked for, and the nodes that have none to compare.
    pub(crate) fn prepare(
        &self,
        signal: &Signal<'_>,
        start: usize,
        length: usize,
    ) -> (WindowSamples, Vec<(u32, UndefinedReason)>) {
        let nodes = signal.nodes();
        let mut prepared = WindowSamples {
            length,
            samples: vec![0.0; nodes * length],
            upper: vec![0.0; nodes * length],
            lower: vec![0.0; nodes * length],
            defined: Vec::new(),
        };
        let lists = (prepared.samples.par_chunks_mut(length))
            .zip(prepared.upper.par_chunks_mut(length))
            .zip(prepared.lower.par_chunks_mut(length));
        let why: Vec<Option<UndefinedReason>> = (lists.enumerate())
            .map(|(node, ((samples, upper), lower))| {
                signal.column(node, start, samples);
                let why = oracle::warped_samples(samples, self.normalised).err();
                envelope(samples, self.band, f64::max, upper);
                envelope(samples, self.band, f64::min, lower);
                why
            })
            .collect();
        let mut undefined = Vec::new();
        for (node, why) in (0..).zip(why) {
            match why {
                None => prepared.defined.push(node),
                Some(why) => undefined.push((node, why)),
            }
        }
        (prepared, undefined)
    }

    /// The pairs of the defined node number `at` with those behind it whose squared distance may reach `most`.
    #[inline(always)]
    fn row(&self, all: &WindowSamples, at: usize, most: f64, rows: &mut Rows) -> RowPairs {
        let i = all.defined[at];
        let x = all.of(&all.samples, i);
        let (upper, lower) = (all.of(&all.upper, i), all.of(&all.lower, i));
        let (mut pairs, mut warped) = (Vec::new(), 0);
        let mut batch: Vec<u32> = Vec::with_capacity(LANES);
        for &j in &all.defined[at + 1..] {
            let y = all.of(&all.samples, j);
            let far = ends(x, y) > most
                || outside(y, upper, lower, most)
                || outside(x, all.of(&all.upper, j), all.of(&all.lower, j), most);
            if far {
                continue;
            }
            batch.push(j);
            if batch.len() == LANES {
                warped += LANES as u64;
                self.warp(all, (x, i), &batch, most, rows, &mut pairs);
                batch.clear();
            }
        }
        if !batch.is_empty() {
            warped += batch.len() as u64;
            self.warp(all, (x, i), &batch, most, rows, &mut pairs);
        }
        (pairs, warped)
    }

    /// Warps node i to each of up to [`LANES`] others.
    #[inline(always)]
    fn warp(
        &self,
        all: &WindowSamples,
        (x, i): (&[f64], u32),
        batch: &[u32],
        most: f64,
        rows: &mut Rows,
        pairs: &mut Vec<(u32, u32, f64)>,
    ) {
        let length = x.len();
        rows.others.clear();
        rows.others.resize(length, [0.0; LANES]);
        for (lane, j) in batch.iter().enumerate() {
            for (others, y) in rows.others.iter_mut().zip(all.of(&all.samples, *j)) {
                others[lane] = *y;
            }
        }
        let Some(squares) = squares(x, self.band, most, rows) else {
            return;
        };
        for (lane, j) in batch.iter().enumerate() {
            if squares[lane] <= most {
                pairs.push((i, *j, squares[lane].sqrt()));
            }
        }
    }
}

/// No pair is kept whose squared distance is beyond this.
pub(crate) fn most_squares(keep: Keep) -> f64 {
    match keep {
        Keep::Reaching { threshold, .. } => threshold * threshold * (1.0 + ROUNDING),
        _ => f64::INFINITY,
    }
}

/// A worker's rows of sums.
#[derive(Default)]
struct Rows {
    /// (sample, lane)
    others: Vec<[f64; LANES]>,
    before: Vec<[f64; LANES]>,
    now: Vec<[f64; LANES]>,
}

/// The least sums of squared differences along a path; `None` if all of them are beyond `most`.
#[inline(always)]
fn squares(x: &[f64], band: usize, most: f64, rows: &mut Rows) -> Option<[f64; LANES]> {
    const FAR: [f64; LANES] = [f64::INFINITY; LANES];
    let length = x.len();
    let Rows {
        others,
        before,
        now,
    } = rows;
    for row in [&mut *before, &mut *now] {
        row.clear();
        row.resize(length + 1, FAR);
    }
    // Element t + 1 of a row is the sum up to the other's sample t.
    before[0] = [0.0; LANES];
    for (s, x) in x.iter().enumerate() {
        let (from, to) = (s.saturating_sub(band), (s + band + 1).min(length));
        now[from] = FAR;
        let mut left = FAR;
        let mut least = FAR;
        for t in from..to {
            let (diagonal, up, y) = (before[t], before[t + 1], others[t]);
            let mut sum = [0.0; LANES];
            for lane in 0..LANES {
                let apart = *x - y[lane];
                let least_before = min(min(diagonal[lane], up[lane]), left[lane]);
                sum[lane] = least_before + apart * apart;
                least[lane] = min(least[lane], sum[lane]);
            }
            now[t + 1] = sum;
            left = sum;
        }
        if least.iter().all(|sum| *sum > most) {
            return None;
        }
        std::mem::swap(before, now);
    }
    Some(before[length])
}

/// One instruction, unlike `f64::min`: no number is NaN here.
#[inline(always)]
fn min(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Every path has the first pair of samples and the last.
#[inline(always)]
fn ends(x: &[f64], y: &[f64]) -> f64 {
    let last = x.len() - 1;
    let (first, last) = (x[0] - y[0], x[last] - y[last]);
    first * first + last * last
}

/// True if samples are so far outside another node's envelope that no path stays within `most` (Keogh's bound).
#[inline(always)]
fn outside(x: &[f64], upper: &[f64], lower: &[f64], most: f64) -> bool {
    let most = most * (1.0 + ROUNDING);
    let mut sum = 0.0;
    for ((x, upper), lower) in x.chunks(16).zip(upper.chunks(16)).zip(lower.chunks(16)) {
        let mut parts = [0.0; 4];
        for (at, ((x, upper), lower)) in x.iter().zip(upper).zip(lower).enumerate() {
            let above = if x > upper { x - upper } else { 0.0 };
            let below = if x < lower { lower - x } else { 0.0 };
            let apart = above + below;
            parts[at % 4] += apart * apart;
        }
        sum += (parts[0] + parts[1]) + (parts[2] + parts[3]);
        if sum > most {
            return true;
        }
    }
    false
}

/// The largest (or least, by `most`) of the samples within `band` of each.
fn envelope(samples: &[f64], band: usize, most: impl Fn(f64, f64) -> f64, out: &mut [f64]) {
    // Positions of samples of which each is beyond all behind it.
    let mut line: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
    let beyond = |a: f64, b: f64| most(a, b) == a;
    let mut next = 0;
    for (t, out) in out.iter_mut().enumerate() {
        while next < samples.len() && next <= t + band {
            while line
                .back()
                .is_some_and(|last| beyond(samples[next], samples[*last]))
            {
                line.pop_back();
            }
            line.push_back(next);
            next += 1;
        }
        while line.front().is_some_and(|first| first + band < t) {
            line.pop_front();
        }
        *out = line.front().map_or(f64::NAN, |first| samples[*first]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use crate::{Measure, NetworkSpec, Plan, Threshold, Window};

    /// Forty samples of three nodes, and what dtaidistance 2.5.1 gives for them: `dtw.distance(x, y, window=band + 1)`.
    #[test]
    fn values_are_those_of_dtaidistance() {
        let node = |n: i32, t: i32| match n {
            0 => t * t % 17,
            1 => t * 7 % 11,
            _ => (t * t * 3 + 5) % 13,
        };
        let samples: Vec<f64> = (0..40)
            .flat_map(|t| (0..3).map(move |n| f64::from(node(n, t))))
            .collect();
        let signal = Signal::new(&samples, 3).unwrap();
        let run = |band, normalised| {
            let measure = Measure::Warping { band, normalised };
            let spec =
                NetworkSpec::new(measure, Window::new(40, 1)).threshold(Threshold::Absolute(99.0));
            cases::run(&spec, &signal)
        };
        for (band, expected) in [
            (
                0,
                [
                    45.650_848_842_053_31,
                    44.158_804_331_639_23,
                    25.258_661_880_630_18,
                ],
            ),
            (
                1,
                [
                    31.701_734_968_294_716,
                    35.860_842_154_082_21,
                    15.459_624_833_740_307,
                ],
            ),
            (
                3,
                [
                    26.664_583_251_946_766,
                    27.349_588_662_354_687,
                    12.806_248_474_865_697,
                ],
            ),
            (
                10,
                [
                    25.514_701_644_346_147,
                    27.349_588_662_354_687,
                    12.206_555_615_733_702,
                ],
            ),
            (
                39,
                [
                    25.514_701_644_346_147,
                    27.349_588_662_354_687,
                    12.206_555_615_733_702,
                ],
            ),
        ] {
            let found = run(band, false);
            assert_eq!(found.r(), expected.map(|v| v as f32), "band {band}");
        }
        let normalised = run(3, true).r()[0];
        assert!((f64::from(normalised) - 4.795_477_106_379_94).abs() < 1e-6);
    }

    #[test]
    fn edges_are_those_of_plain_loops_and_bounds_leave_pairs_out() {
        let mut case = cases::communities(45, 120, 8);
        case.change(|t, node, v| match node {
            5 => 2.0,
            6 if t == 50 => f32::NAN,
            _ => v / 20.0,
        });
        let signal = case.signal();
        let (mut kept, mut warped, mut all_pairs) = (0, 0, 0);
        for (window, band) in [((20, 13), 2), ((33, 20), 0), ((33, 20), 5), ((20, 13), 40)] {
            let window = Window::new(window.0, window.1);
            for normalised in [false, true] {
                let spec = NetworkSpec::new(Measure::Warping { band, normalised }, window);
                let plan = |spec: &NetworkSpec| Plan::new(spec, &signal).unwrap();
                let starts: Vec<usize> = plan(&spec).windows().starts().collect();
                let values: Vec<Vec<(u32, u32, f64)>> = (starts.iter())
                    .map(|start| {
                        let node = |n: usize| -> Vec<f64> {
                            (*start..start + window.length)
                                .map(|t| signal.value(t, n))
                                .collect()
                        };
                        let nodes: Vec<_> = (0..45).map(node).collect();
                        (0..45_u32)
                            .flat_map(|i| (i + 1..45).map(move |j| (i, j)))
                            .filter_map(|(i, j)| {
                                let (x, y) = (&nodes[i as usize], &nodes[j as usize]);
                                Some((i, j, oracle::warping(x, y, band, normalised)?))
                            })
                            .collect()
                    })
                    .collect();
                for most in [0.0, 2.0, 6.0, 40.0] {
                    let network = plan(&spec.threshold(Threshold::Absolute(most)))
                        .run(&signal, &())
                        .unwrap();
                    for (window, all) in network.windows().zip(&values) {
                        let got: Vec<_> = window.edges().collect();
                        let expected: Vec<_> = (all.iter())
                            .filter(|(_, _, v)| *v <= most + 1e-12)
                            .map(|(i, j, v)| (*i, *j, *v as f32))
                            .collect();
                        assert_eq!(got, expected, "{window:?} {band} {normalised} {most}");
                    }
                    kept += network.edges();
                    warped += network.meta().rechecked;
                    all_pairs += values.iter().map(|v| v.len() as u64).sum::<u64>();
                }
                let nearest = plan(&spec.threshold(Threshold::Top(4)))
                    .run(&signal, &())
                    .unwrap();
                for (window, all) in nearest.windows().zip(&values) {
                    let mut sorted = all.clone();
                    sorted.sort_by(|a, b| a.2.total_cmp(&b.2).then((a.0, a.1).cmp(&(b.0, b.1))));
                    sorted.truncate(4);
                    sorted.sort_by_key(|e| (e.0, e.1));
                    let got: Vec<_> = window.edges().map(|(i, j, _)| (i, j)).collect();
                    assert_eq!(got, sorted.iter().map(|e| (e.0, e.1)).collect::<Vec<_>>());
                }
            }
        }
        assert!(
            kept > 1_000 && warped >= kept && warped < all_pairs,
            "{kept} {warped} {all_pairs}"
        );
    }

    #[test]
    fn undefined_nodes_are_left_out_of_lists() {
        let list = |scale: f64| -> Vec<f64> { (0..8).map(|at| scale * f64::from(at)).collect() };
        let all = WindowSamples {
            length: 2,
            samples: list(1.0),
            upper: list(10.0),
            lower: list(-1.0),
            defined: vec![1, 3],
        };
        let some = all.without_undefined();
        assert_eq!(some.samples, [2.0, 3.0, 6.0, 7.0]);
        assert_eq!(some.upper, [20.0, 30.0, 60.0, 70.0]);
        assert_eq!(some.lower, [-2.0, -3.0, -6.0, -7.0]);
    }

    #[test]
    fn envelopes_are_those_of_plain_loops() {
        let samples: Vec<f64> = (0..50).map(|t| f64::from(t * t % 23)).collect();
        for band in [0, 1, 4, 49, 80] {
            let mut out = vec![0.0; 50];
            envelope(&samples, band, f64::max, &mut out);
            for (t, upper) in out.iter().enumerate() {
                let within = &samples[t.saturating_sub(band)..(t + band + 1).min(50)];
                assert_eq!(*upper, within.iter().copied().fold(f64::MIN, f64::max));
            }
        }
    }
}
