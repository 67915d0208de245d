//! Pairs whose values come exact from elsewhere: what is kept of a window.

use super::{Candidate, Keep, Lists};
use crate::oracle::{TIE, reaches};

/// Pairs of a window with exact values, handed in one by one, of which those stay that may be kept.
pub(crate) struct ExactPairs {
    lists: Lists,
    keep: Keep,
}

impl ExactPairs {
    pub(crate) fn new(keep: Keep, nodes: usize) -> Self {
        Self {
            lists: Lists::new(keep, nodes),
            keep,
        }
    }

    /// No pair below this size is kept.
    pub(crate) fn least(&self) -> f64 {
        match self.keep {
            Keep::Reaching { threshold, .. } => threshold - TIE,
            _ => self.lists.bar(0..self.lists.lists.len(), 0..0),
        }
    }

    /// Takes a pair's value, its size and its lag; false if the pair does not reach the threshold.
    pub(crate) fn push(&mut self, (i, j): (u32, u32), (value, size): (f64, f64), lag: i16) -> bool {
        // −0 and 0 are the same size.
        let size = size + 0.0;
        match self.keep {
            Keep::Reaching { threshold, strict } if !reaches(size, threshold, strict) => {
                return false;
            }
            _ => self.lists.push(Candidate {
                i,
                j,
                value,
                bound: 0.0,
                size,
                lag,
            }),
        }
        true
    }

    /// Takes the pairs of another part of the same window.
    pub(crate) fn merge(&mut self, other: Self) {
        let count = self.lists.count;
        for (own, others) in self.lists.lists.iter_mut().zip(other.lists.lists) {
            others.list.into_iter().for_each(|c| own.push(c, count));
        }
    }

    /// The pairs that are kept.
    pub(crate) fn finish(self) -> Vec<Candidate> {
        self.lists.finish(|c| Some(*c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measure, NetworkSpec, Plan, Sign, Threshold, Window, cases, oracle};

    #[test]
    fn lags_that_come_in_parts_are_kept_as_by_the_cpu() {
        let (lags, length) = (3, 40);
        let mut edges = 0;
        for case in cases::all() {
            let signal = case.signal();
            if signal.nodes() > 33 {
                continue;
            }
            for (threshold, sign, strict) in [
                (Threshold::Absolute(0.3), Sign::Both, true),
                (Threshold::Absolute(0.0), Sign::Negative, false),
                (Threshold::Density(0.1), Sign::Both, false),
                (Threshold::Top(4), Sign::Positive, false),
                (Threshold::TopPerNode(2), Sign::Negative, false),
            ] {
                let spec = NetworkSpec::new(Measure::Lagged { lags }, Window::new(length, 31))
                    .threshold(threshold)
                    .sign(sign)
                    .strict(strict);
                let Ok(plan) = Plan::new(&spec, &signal) else {
                    continue;
                };
                for window in plan.run(&signal, &()).unwrap().windows() {
                    let around = |node: u32| {
                        let mut samples = vec![0.0; length + 2 * lags];
                        signal.column(node as usize, window.start as usize - lags, &mut samples);
                        samples
                    };
                    let nodes = signal.nodes() as u32;
                    let columns: Vec<Vec<f64>> = (0..nodes).map(around).collect();
                    let keep = Keep::new(&spec, signal.nodes());
                    // Odd rows apart from even ones.
                    let mut parts = [0, 1].map(|_| ExactPairs::new(keep, signal.nodes()));
                    for (i, x) in (0..nodes).zip(&columns) {
                        for (j, y) in (0..nodes).zip(&columns).skip(i as usize + 1) {
                            let size = |r| sign.size(r);
                            let found = oracle::lagged(x, y, (lags, length), lags, size);
                            let Some((value, lag)) = found else { continue };
                            let part = &mut parts[i as usize % 2];
                            if size(value) >= part.least() {
                                part.push((i, j), (value, size(value)), lag);
                            }
                        }
                    }
                    let [mut all, odd] = parts;
                    all.merge(odd);
                    let mut kept: Vec<_> =
                        (all.finish().iter()).map(|c| (c.i, c.j, c.lag)).collect();
                    kept.sort_unstable();
                    let ends = window.i.iter().zip(window.j).zip(window.lag);
                    let expected: Vec<_> = ends.map(|((i, j), lag)| (*i, *j, *lag)).collect();
                    assert_eq!(kept, expected, "{}, {spec:?}", case.name);
                    edges += kept.len();
                }
            }
        }
        assert!(edges > 5_000, "{edges}");
    }
}
