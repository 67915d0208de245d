//! Networks of spike trains: counts in bins, whose correlations are those of any signal, and the
//! spike-time tiling coefficient, which needs no bins.

use std::ops::Range;

use betz_base::progress::check;
use betz_base::{Error, Progress, Result, memory};
use rayon::prelude::*;

use crate::chunk::ChunkResult;
use crate::network::{Meta, Network, Windows};
use crate::oracle::UndefinedReason;
use crate::scan::{self, ExactWindow};
use crate::spec::{Measure, NetworkSpec};
use crate::window::WindowGrid;

/// Nodes for which all pairs of a window are held at once.
const MOST_NODES: usize = 8192;

/// Spikes of several trains, as times in ticks and the train of each, in any order.
///
/// ```
/// use betz_network::SpikeTrains;
///
/// let trains = SpikeTrains::new(&[5, 12, 7, 30], &[0, 0, 1, 1], 2, 40)?;
/// assert_eq!(trains.counts(10)?, [1, 1, 1, 0, 0, 0, 0, 1]); // (bins, trains)
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpikeTrains {
    /// Sorted ticks of each train.
    trains: Vec<Vec<u64>>,
    ticks: u64,
}

/// Spikes counted in bins that lie within segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinnedCounts {
    /// (bins, trains), segment after segment.
    pub counts: Vec<u16>,
    /// The bins of each segment; empty for one shorter than a bin.
    pub segments: Vec<Range<usize>>,
}

impl SpikeTrains {
    /// Spikes at `times` of the trains `of`, over ticks `0..ticks`.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::ErrorKind::Mismatch) when the two differ in length,
    /// [`InvalidRecording`](betz_base::ErrorKind::InvalidRecording) naming a spike at or beyond `ticks`
    /// or of a train that there is not.
    pub fn new(times: &[u64], of: &[u32], trains: usize, ticks: u64) -> Result<Self> {
        if times.len() != of.len() {
            return Err(Error::mismatch(format!(
                "spikes: expected a train for each of {} times, got {}",
                times.len(),
                of.len()
            )));
        }
        let mut lists = vec![Vec::new(); trains];
        for (at, (time, train)) in times.iter().zip(of).enumerate() {
            if *time >= ticks {
                return Err(Error::recording(format!(
                    "spike {at}: expected a time below {ticks}, got {time}"
                )));
            }
            let Some(list) = lists.get_mut(*train as usize) else {
                return Err(Error::recording(format!(
                    "spike {at}: expected a train below {trains}, got {train}"
                )));
            };
            list.push(*time);
        }
        lists.par_iter_mut().for_each(|list| list.sort_unstable());
        Ok(Self {
            trains: lists,
            ticks,
        })
    }

    /// Number of trains.
    pub fn len(&self) -> usize {
        self.trains.len()
    }

    /// True without a train.
    pub fn is_empty(&self) -> bool {
        self.trains.is_empty()
    }

    /// Spikes of each train in bins of `bin` ticks, (bins, trains): the signal of a network of spike-count
    /// correlations. Ticks behind the last whole bin are left out. A count beyond 65,535 stays there.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for bins of no tick, or more bins than
    /// memory can hold.
    pub fn counts(&self, bin: u64) -> Result<Vec<u16>> {
        let all = 0..self.ticks;
        Ok(self.counts_within(std::slice::from_ref(&all), bin)?.counts)
    }

    /// The same, segment by segment: bins begin anew with every segment (half-open, in ticks), and what
    /// lies outside of them or behind a segment's last whole bin is left out.
    ///
    /// ```
    /// use betz_network::SpikeTrains;
    ///
    /// let trains = SpikeTrains::new(&[5, 12, 7, 30], &[0, 0, 1, 1], 2, 40)?;
    /// let binned = trains.counts_within(&[3..9, 10..35], 5)?;
    /// assert_eq!(binned.segments, [0..1, 1..6]);
    /// assert_eq!(binned.counts, [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    /// # Ok::<(), betz_network::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`SpikeTrains::counts`]; also for a segment that is reversed or ends beyond the recording.
    pub fn counts_within(&self, segments: &[Range<u64>], bin: u64) -> Result<BinnedCounts> {
        if bin == 0 {
            return Err(Error::argument("bin: expected at least 1 tick, got 0"));
        }
        let nodes = self.trains.len();
        let mut bins = 0_u64;
        for (number, segment) in segments.iter().enumerate() {
            if segment.start > segment.end || segment.end > self.ticks {
                return Err(Error::argument(format!(
                    "segment {number}: expected a range of ticks up to {}, got {}..{}",
                    self.ticks, segment.start, segment.end
                )));
            }
            bins = bins.saturating_add((segment.end - segment.start) / bin);
        }
        let len = usize::try_from(bins)
            .ok()
            .and_then(|b| b.checked_mul(nodes))
            .filter(|l| *l <= isize::MAX as usize / 2);
        let Some(len) = len else {
            return Err(Error::argument(format!(
                "bins: {bins} of {nodes} trains are more than memory can hold"
            )));
        };
        let mut counts = memory::filled("spike counts", 0_u16, len)?;
        let (mut ranges, mut first) = (Vec::with_capacity(segments.len()), 0);
        for segment in segments {
            let bins = ((segment.end - segment.start) / bin) as usize;
            for node in 0..nodes {
                let end = segment.start + bins as u64 * bin;
                for time in self.within(node, segment.start, end) {
                    let at = first + ((time - segment.start) / bin) as usize;
                    let count = &mut counts[at * nodes + node];
                    *count = count.saturating_add(1);
                }
            }
            ranges.push(first..first + bins);
            first += bins;
        }
        Ok(BinnedCounts {
            counts,
            segments: ranges,
        })
    }

    /// Sorted spikes of `train` in `from..to`.
    fn within(&self, train: usize, from: u64, to: u64) -> &[u64] {
        let times = &self.trains[train];
        let (a, b) = (
            times.partition_point(|t| *t < from),
            times.partition_point(|t| *t < to),
        );
        &times[a..b]
    }

    /// A network of spike-time tiling coefficients ([`tiling`]), [`Measure::SpikeTiling`], over windows in ticks.
    /// Trains without a spike in a window are undefined there.
    ///
    /// No window crosses the end of one of `segments` (half-open, in ticks, ascending, apart from each other).
    /// Every pair of trains with spikes is looked at in every window, O(n_A + n_B) each.
    ///
    /// # Errors
    /// As for [`Plan::new`](crate::Plan::new) and [`Plan::run`](crate::Plan::run); [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument)
    /// for more than 8,192 trains, segments out of order or beyond the recording.
    pub fn tiling_network(
        &self,
        spec: &NetworkSpec,
        segments: &[Range<u64>],
        progress: &dyn Progress,
    ) -> Result<Network> {
        let nodes = self.trains.len();
        scan::at_most(nodes, MOST_NODES, "spike-time tiling")?;
        let Measure::SpikeTiling { reach } = spec.measure else {
            return Err(Error::argument(format!(
                "spike-time tiling: expected the measure sttc, got {}",
                spec.measure.name()
            )));
        };
        spec.check()?;
        let ticks = usize::try_from(self.ticks)
            .map_err(|_| Error::argument(format!("spikes: {} ticks are too many", self.ticks)))?;
        // Farther than the recording is long is all of it.
        let reach = (reach as u64).min(self.ticks);
        let mut before = 0;
        let mut within = Vec::with_capacity(segments.len());
        for (number, segment) in segments.iter().enumerate() {
            if segment.start < before || segment.end < segment.start || segment.end > self.ticks {
                return Err(Error::argument(format!(
                    "segment {number}: expected ascending ticks from {before} to {}, got {}..{}",
                    self.ticks, segment.start, segment.end
                )));
            }
            before = segment.end;
            within.push(segment.start as usize..segment.end as usize);
        }
        let grid = WindowGrid::over(&within, spec.window, 0)?;
        let mut network = Network::empty(Meta {
            spec: *spec,
            nodes,
            samples: ticks,
            sample_seconds: None,
            trailing: grid.trailing(),
            rechecked: 0,
            rebuilt: 0,
            extreme: 0,
            device: "cpu".to_owned(),
        });
        let mut left = spec.max_edges;
        let chunks = grid.chunks(4 * rayon::current_num_threads());
        for (done, chunk) in chunks.iter().enumerate() {
            progress.update("spike-time tiling", done as u64, chunks.len() as u64);
            let length = spec.window.length as u64;
            let windows = (0..chunk.windows).into_par_iter().map(|q| {
                check(progress, "spike-time tiling")?;
                Ok(self.window(chunk.start_of(q) as u64, length, reach))
            });
            let windows = windows.collect::<Result<_>>()?;
            let result = ChunkResult::exact(windows, spec, nodes, left)?;
            left -= result.edges.r.len() as u64;
            network.absorb(Windows::new(chunk, result.edges, &result.undefined));
        }
        Ok(network)
    }

    /// All pairs of a window, and the trains without a spike in it.
    fn window(&self, from: u64, ticks: u64, reach: u64) -> ExactWindow {
        let to = from + ticks;
        let (active, silent): (Vec<u32>, Vec<u32>) = (0..self.trains.len() as u32)
            .partition(|node| !self.within(*node as usize, from, to).is_empty());
        let shares: Vec<f64> = (active.iter())
            .map(|node| share_covered(self.within(*node as usize, from, to), (from, to), reach))
            .collect();
        let mut pairs = Vec::with_capacity(active.len() * active.len().saturating_sub(1) / 2);
        for (a, i) in active.iter().enumerate() {
            let x = self.within(*i as usize, from, to);
            for (b, j) in active.iter().enumerate().skip(a + 1) {
                let y = self.within(*j as usize, from, to);
                let half = |near: usize, of: usize, share: f64| {
                    let p = near as f64 / of as f64;
                    // 0/0 where all spikes are near and all the window is covered: 1, as Cutts and Eglen.
                    if p * share == 1.0 {
                        1.0
                    } else {
                        (p - share) / (1.0 - p * share)
                    }
                };
                let value = 0.5
                    * (half(count_near(x, y, reach), x.len(), shares[b])
                        + half(count_near(y, x, reach), y.len(), shares[a]));
                pairs.push((*i, *j, value));
            }
        }
        let silent = silent
            .into_iter()
            .map(|node| (node, UndefinedReason::Constant));
        (pairs, silent.collect())
    }
}

/// Share of the window that lies within `reach` of a spike, with each spike taken as a point.
fn share_covered(spikes: &[u64], (from, to): (u64, u64), reach: u64) -> f64 {
    let (mut covered, mut until) = (0, from);
    for spike in spikes {
        let (a, b) = (
            spike.saturating_sub(reach).max(until),
            spike.saturating_add(reach).min(to),
        );
        if b > a {
            covered += b - a;
            until = b;
        }
    }
    covered as f64 / (to - from) as f64
}

/// Number of the sorted spikes `of` that have one of the sorted `others` within `reach`.
fn count_near(of: &[u64], others: &[u64], reach: u64) -> usize {
    let mut at = 0;
    let mut count = 0;
    for spike in of {
        while at < others.len() && others[at].saturating_add(reach) < *spike {
            at += 1;
        }
        count += usize::from(
            others
                .get(at)
                .is_some_and(|other| *other <= spike.saturating_add(reach)),
        );
    }
    count
}

/// The spike-time tiling coefficient of Cutts and Eglen (2014) as plainly as can be, of spikes `x` and
/// `y` in a window of ticks `from..to`: ½((P_A − T_B)/(1 − P_A T_B) + (P_B − T_A)/(1 − P_B T_A)), P the
/// share of a train's spikes within `reach` of one of the other's, T the share of the window within
/// `reach` of the train's spikes. `None` when a train has no spike in it.
pub fn tiling(x: &[u64], y: &[u64], (from, to): (u64, u64), reach: u64) -> Option<f64> {
    let inside = |v: &&u64| (from..to).contains(*v);
    let (x, y): (Vec<u64>, Vec<u64>) = (
        x.iter().filter(inside).copied().collect(),
        y.iter().filter(inside).copied().collect(),
    );
    if x.is_empty() || y.is_empty() {
        return None;
    }
    // Each tick stands for the stretch from itself to the next.
    let covered = |spikes: &[u64]| {
        let near = |t: &u64| spikes.iter().any(|s| *t < s + reach && *t + reach >= *s);
        (from..to).filter(near).count() as f64 / (to - from) as f64
    };
    let share = |of: &[u64], others: &[u64]| {
        let near = of
            .iter()
            .filter(|s| others.iter().any(|o| s.abs_diff(*o) <= reach));
        near.count() as f64 / of.len() as f64
    };
    let half = |p: f64, t: f64| {
        if p * t == 1.0 {
            1.0
        } else {
            (p - t) / (1.0 - p * t)
        }
    };
    Some(0.5 * (half(share(&x, &y), covered(&y)) + half(share(&y, &x), covered(&x))))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::{Plan, Sign, Signal, Threshold, Window};

    fn random(trains: usize, spikes: usize, ticks: u64, seed: u64) -> (Vec<u64>, Vec<u32>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..spikes)
            .map(|_| {
                (
                    rng.random_range(0..ticks),
                    rng.random_range(0..trains as u32),
                )
            })
            .unzip()
    }

    fn whole(trains: &SpikeTrains) -> Vec<Range<u64>> {
        std::iter::once(0..trains.ticks).collect()
    }

    #[test]
    fn tiling_crosses_no_gap() {
        let (times, of) = random(5, 300, 500, 3);
        let trains = SpikeTrains::new(&times, &of, 5, 500).unwrap();
        let window = Window::new(100, 40);
        let sttc = |reach| NetworkSpec::new(Measure::SpikeTiling { reach }, window);
        let spec = sttc(4).threshold(Threshold::Absolute(0.0));
        let all = trains.tiling_network(&spec, &whole(&trains), &()).unwrap();
        let parts = trains
            .tiling_network(&spec, &[0..190, 200..500], &())
            .unwrap();
        assert_eq!(
            parts.window_start(),
            [0, 40, 80, 200, 240, 280, 320, 360, 400]
        );
        assert_eq!(parts.meta().spec.measure.name(), "sttc");
        for window in parts.windows().filter(|w| w.start % 40 == 0) {
            let same = all.window(window.start as usize / 40).unwrap();
            assert_eq!((window.i, window.j, window.r), (same.i, same.j, same.r));
        }
        for wrong in [[0..600, 600..700], [100..200, 150..300]] {
            assert!(trains.tiling_network(&spec, &wrong, &()).is_err());
        }
        let signal = vec![0.0_f32; 1000];
        let signal = Signal::new(&signal, 5).unwrap();
        assert!(Plan::new(&sttc(3), &signal).is_err());
        let pearson = NetworkSpec::pearson(window);
        assert!(
            trains
                .tiling_network(&pearson, &whole(&trains), &())
                .is_err()
        );
    }

    #[test]
    fn tiling_is_that_of_plain_loops() {
        for (spikes, reach) in [(40, 3), (400, 3), (400, 0), (60, 1000), (6, 5)] {
            let (times, of) = random(6, spikes, 500, spikes as u64);
            let trains = SpikeTrains::new(&times, &of, 6, 500).unwrap();
            let window = Window::new(120, 60);
            let measure = Measure::SpikeTiling {
                reach: reach as usize,
            };
            let spec = NetworkSpec::new(measure, window).threshold(Threshold::Absolute(0.0));
            let network = trains.tiling_network(&spec, &whole(&trains), &()).unwrap();
            assert_eq!(network.len(), 7);
            for window in network.windows() {
                let of_train = |node: u32| -> Vec<u64> {
                    times
                        .iter()
                        .zip(&of)
                        .filter(|(_, n)| **n == node)
                        .map(|(t, _)| *t)
                        .collect()
                };
                let mut expected = Vec::new();
                for i in 0..6 {
                    for j in i + 1..6 {
                        let range = (window.start, window.start + 120);
                        if let Some(value) = tiling(&of_train(i), &of_train(j), range, reach) {
                            expected.push((i, j, value as f32));
                        }
                    }
                }
                let got: Vec<_> = window.edges().collect();
                assert_eq!(got, expected, "{spikes} spikes, reach {reach}");
                assert!(expected.iter().all(|e| e.2.abs() <= 1.0));
            }
        }
    }

    #[test]
    fn a_train_tiles_itself() {
        let (times, _) = random(1, 30, 1000, 4);
        assert_eq!(tiling(&times, &times, (0, 1000), 5), Some(1.0));
        assert_eq!(tiling(&times, &[], (0, 1000), 5), None);
    }

    #[test]
    fn counts_of_unsorted_and_simultaneous_spikes() {
        let trains = SpikeTrains::new(&[9, 3, 3, 11, 19, 20], &[1, 0, 0, 1, 0, 0], 3, 21).unwrap();
        assert_eq!(trains.counts(10).unwrap(), [2, 1, 0, 1, 1, 0]);
        assert!(trains.counts(0).is_err());
        assert!(SpikeTrains::new(&[21], &[0], 1, 21).is_err());
        assert!(SpikeTrains::new(&[1], &[1], 1, 21).is_err());
        assert!(SpikeTrains::new(&[1], &[], 1, 21).is_err());
        let spec = NetworkSpec::pearson(Window::new(2, 1));
        let counts = trains.counts(5).unwrap();
        let signal = Signal::new(&counts, 3).unwrap();
        let network = Plan::new(&spec, &signal).unwrap().run(&signal, &());
        let network = network.unwrap();
        assert_eq!(
            network.window(0).unwrap().undefined,
            [2],
            "a silent train is constant"
        );
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let trains = SpikeTrains::new(&[], &[], 2, u64::MAX).unwrap();
        assert!(trains.counts(1).is_err());
        let window = Window::new(10, 1);
        let measure = Measure::SpikeTiling { reach: 1 };
        let spec = NetworkSpec::new(measure, window).sign(Sign::Positive);
        let none = SpikeTrains::new(&[], &[], 3, 50).unwrap();
        let network = none.tiling_network(&spec, &whole(&none), &()).unwrap();
        assert_eq!((network.edges(), network.undefined().0), (0, 41 * 3));
        let many = SpikeTrains::new(&[], &[], 9000, 50).unwrap();
        assert!(many.tiling_network(&spec, &whole(&many), &()).is_err());
    }
}
