//! The network of counts as they come: bin after bin, the same edges as [`Plan`](crate::Plan) finds in
//! the recorded bins.
//!
//! Sums of counts and of their products are whole numbers: what enters is added, what leaves is
//! subtracted, and nothing ever drifts. A correlation is computed from them in f64; one that is within
//! 10⁻⁹ of the threshold is decided as the oracle decides it.
//!
//! [`Live`] is given bins. [`open`] puts one on a thread of its own, which a [`LiveFeed`] feeds: attached to a
//! session ([`Session::attach`](betz_runtime::stream::Session::attach)) it hears every step, and the step
//! only pushes.

mod bins;
mod feed;
#[cfg(test)]
mod tests;
mod thread;

use betz_base::{Error, Result};

pub use bins::LiveCounts;
pub use feed::LiveFeed;
pub use thread::{LiveConfig, LiveHandle, LiveStats, LiveWindow, open};

use crate::network::WindowEdges;
use crate::oracle::{self, Undefined, reaches};
use crate::spec::Sign;
use crate::window::Window;

/// What a live network keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LiveSpec {
    /// Channels that are counted.
    pub channels: usize,
    /// In bins.
    pub window: Window,
    /// Least correlation of an edge.
    pub threshold: f64,
    /// Which correlations count.
    pub sign: Sign,
    /// Correlations must exceed the threshold.
    pub strict: bool,
    /// Edges of a window that are kept, the first ones by (i, j); all are [counted](Live::found). Their
    /// memory, 12 bytes each, is taken by [`Live::new`].
    pub max_edges: usize,
}

/// Most channels: sums take 8 bytes a pair.
pub const MOST_CHANNELS: usize = 16_384;

/// A window's edges as they are kept.
#[derive(Debug, Default)]
struct Edges {
    i: Vec<u32>,
    j: Vec<u32>,
    r: Vec<f32>,
    undefined: Vec<u32>,
    why: Vec<Undefined>,
    start: u64,
    /// From 1: 0 is none yet.
    index: usize,
    /// Also those that are not kept.
    found: usize,
}

impl Edges {
    fn with_capacity(most: usize, channels: usize) -> Result<Self> {
        let pairs = channels * channels.saturating_sub(1) / 2;
        let most = most.min(pairs);
        Ok(Self {
            i: room(most, "edges of a live window")?,
            j: room(most, "edges of a live window")?,
            r: room(most, "edges of a live window")?,
            undefined: room(channels, "undefined channels")?,
            why: room(channels, "undefined channels")?,
            start: 0,
            index: 0,
            found: 0,
        })
    }

    fn as_window(&self, index: usize) -> WindowEdges<'_> {
        WindowEdges {
            index,
            start: self.start,
            i: &self.i,
            j: &self.j,
            r: &self.r,
            lag: &[],
            undefined: &self.undefined,
            why: &self.why,
        }
    }
}

/// Counts bin by bin to a network window by window. All memory is taken by [`Live::new`].
///
/// ```
/// use betz_network::{Sign, Window, live::{Live, LiveSpec}};
///
/// let window = Window { length: 4, step: 2 };
/// let mut live = Live::new(LiveSpec {
///     channels: 3,
///     window,
///     threshold: 0.9,
///     sign: Sign::Both,
///     strict: false,
///     max_edges: 3,
/// })?;
/// for (bin, counts) in [[0, 5, 1], [1, 3, 1], [2, 1, 1], [1, 3, 1], [0, 5, 1], [2, 1, 1]].iter().enumerate() {
///     // Windows end with bins 3 and 5.
///     assert_eq!(live.push(counts)?, bin == 3 || bin == 5);
/// }
/// let newest = live.newest().unwrap();
/// assert_eq!((newest.index, newest.start), (1, 2));
/// assert_eq!((newest.i, newest.j, newest.r), (&[0][..], &[1][..], &[-1.0][..]));
/// assert_eq!(newest.undefined, [2]); // constant
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug)]
pub struct Live {
    spec: LiveSpec,
    /// (window, channels), a ring.
    ring: Vec<u16>,
    /// Bins taken since the start or the last gap, and in all.
    taken: u64,
    total: u64,
    sums: Vec<i64>,
    /// Of products: row i holds pairs (i, j), j ≥ i.
    products: Vec<i64>,
    scale: Vec<f64>,
    windows: usize,
    edges: Edges,
}

impl Live {
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) naming what is out of range,
    /// [`Io`](betz_base::ErrorKind::Io) when memory does not suffice.
    pub fn new(spec: LiveSpec) -> Result<Self> {
        spec.window.check()?;
        if !(spec.threshold >= 0.0 && spec.threshold <= 1.0) {
            return Err(Error::argument(format!(
                "threshold: expected 0 to 1, got {}",
                spec.threshold
            )));
        }
        if !(1..=MOST_CHANNELS).contains(&spec.channels) {
            return Err(Error::argument(format!(
                "channels: expected 1 to {MOST_CHANNELS}, got {}",
                spec.channels
            )));
        }
        // W·Σxy must fit into 63 bits: W² · 65,535².
        if spec.window.length > 1 << 15 {
            return Err(Error::argument(format!(
                "length of a live window: expected at most {} bins, got {}",
                1 << 15,
                spec.window.length
            )));
        }
        let n = spec.channels;
        Ok(Self {
            spec,
            ring: zeros(n * spec.window.length, "bins of a live window")?,
            taken: 0,
            total: 0,
            sums: zeros(n, "sums of counts")?,
            products: zeros(n * (n + 1) / 2, "sums of products")?,
            scale: zeros(n, "scales of channels")?,
            windows: 0,
            edges: Edges::with_capacity(spec.max_edges, n)?,
        })
    }

    /// What it keeps.
    pub fn spec(&self) -> &LiveSpec {
        &self.spec
    }

    /// Takes the counts of the next bin; true when they complete a window, whose edges
    /// [`Live::newest`] then has.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::ErrorKind::Mismatch) unless there is a count for each channel; nothing has
    /// changed then.
    pub fn push(&mut self, counts: &[u16]) -> Result<bool> {
        let whole = self.take(counts)?;
        if whole {
            self.find_edges();
        }
        Ok(whole)
    }

    /// As [`Live::push`], but leaves the edges of a window that is complete where they are: the last
    /// window's. It counts among [`Live::windows`].
    ///
    /// # Errors
    /// As [`Live::push`].
    pub fn push_only(&mut self, counts: &[u16]) -> Result<bool> {
        let whole = self.take(counts)?;
        self.windows += usize::from(whole);
        Ok(whole)
    }

    fn take(&mut self, counts: &[u16]) -> Result<bool> {
        let n = self.spec.channels;
        if counts.len() != n {
            return Err(Error::mismatch(format!(
                "counts: expected one for each of {n} channels, got {}",
                counts.len()
            )));
        }
        let length = self.spec.window.length as u64;
        let slot = (self.taken % length) as usize * n;
        let old = &mut self.ring[slot..slot + n];
        let (sums, products) = (&mut self.sums, &mut self.products);
        // Before the ring is full, what leaves is 0.
        pulp::Arch::new().dispatch(|| {
            let mut at = 0;
            for i in 0..n {
                let (x, y) = (i64::from(counts[i]), i64::from(old[i]));
                sums[i] += x - y;
                let row = &mut products[at..at + n - i];
                at += n - i;
                // Most counts are 0.
                match (x, y) {
                    (0, 0) => {}
                    (x, 0) => add(row, &counts[i..], x),
                    (0, y) => add(row, &old[i..], -y),
                    (x, y) => {
                        add(row, &counts[i..], x);
                        add(row, &old[i..], -y);
                    }
                }
            }
        });
        old.copy_from_slice(counts);
        self.taken += 1;
        self.total += 1;
        Ok(self.taken >= length
            && (self.taken - length).is_multiple_of(self.spec.window.step as u64))
    }

    /// Begins anew behind a gap: no window holds bins from before and after it. `lost` bins were not
    /// pushed.
    pub fn gap(&mut self, lost: u64) {
        self.ring.fill(0);
        self.sums.fill(0);
        self.products.fill(0);
        self.taken = 0;
        self.total += lost;
    }

    /// The newest window whose edges were looked for, `None` before the first. Its start counts all bins,
    /// lost ones as well.
    pub fn newest(&self) -> Option<WindowEdges<'_>> {
        let index = self.edges.index.checked_sub(1)?;
        Some(self.edges.as_window(index))
    }

    fn edges_mut(&mut self) -> &mut Edges {
        &mut self.edges
    }

    /// Windows completed so far.
    pub fn windows(&self) -> usize {
        self.windows
    }

    /// Edges of the newest window, also those beyond [`LiveSpec::max_edges`].
    pub fn found(&self) -> usize {
        self.edges.found
    }

    fn find_edges(&mut self) {
        let LiveSpec {
            channels: n,
            window,
            threshold,
            sign,
            strict,
            max_edges,
        } = self.spec;
        let w = window.length as i64;
        self.windows += 1;
        let edges = &mut self.edges;
        edges.index = self.windows;
        edges.found = 0;
        edges.start = self.total - window.length as u64;
        edges.i.clear();
        edges.j.clear();
        edges.r.clear();
        edges.undefined.clear();
        edges.why.clear();
        let mut at = 0;
        for i in 0..n {
            // W²·variance, a whole number.
            let spread = w * self.products[at] - self.sums[i] * self.sums[i];
            at += n - i;
            self.scale[i] = if spread > 0 {
                1.0 / (spread as f64).sqrt()
            } else {
                0.0
            };
            if spread <= 0 {
                edges.undefined.push(i as u32);
                edges.why.push(Undefined::Constant);
            }
        }
        let (products, sums, scale, ring) = (&self.products, &self.sums, &self.scale, &self.ring);
        let close = 1e-9;
        let oldest = (self.taken % window.length as u64) as usize;
        let mut keep = |i: usize, j: usize, value: f64| {
            let size = sign.size(value);
            let mut value = value;
            if size <= threshold + close {
                // As the oracle has it, sample by sample from the oldest.
                let column = |c: usize| -> Vec<f64> {
                    (0..window.length)
                        .map(|t| f64::from(ring[(oldest + t) % window.length * n + c]))
                        .collect()
                };
                match oracle::pearson(&column(i), &column(j)) {
                    Some(exact) if reaches(sign.size(exact), threshold, strict) => value = exact,
                    _ => return,
                }
            }
            edges.found += 1;
            if edges.i.len() >= max_edges {
                return;
            }
            edges.i.push(i as u32);
            edges.j.push(j as u32);
            edges.r.push(value.clamp(-1.0, 1.0) as f32);
        };
        pulp::Arch::new().dispatch(|| {
            let mut at = 0;
            const STRIP: usize = 64;
            let mut values = [0.0; STRIP];
            for i in 0..n {
                let row = &products[at..at + n - i];
                at += n - i;
                if scale[i] == 0.0 {
                    continue;
                }
                let mut j = i + 1;
                while j < n {
                    let len = STRIP.min(n - j);
                    let (row, sums_j, scale_j) =
                        (&row[j - i..][..len], &sums[j..][..len], &scale[j..][..len]);
                    let mut largest = -1.0;
                    for k in 0..len {
                        let value =
                            (w * row[k] - sums[i] * sums_j[k]) as f64 * scale[i] * scale_j[k];
                        values[k] = value;
                        let size = sign.size(value);
                        largest = if size > largest { size } else { largest };
                    }
                    if largest >= threshold - close {
                        for (k, value) in values[..len].iter().enumerate() {
                            if scale_j[k] > 0.0 && sign.size(*value) >= threshold - close {
                                keep(i, j + k, *value);
                            }
                        }
                    }
                    j += len;
                }
            }
        });
    }
}

#[inline(always)]
fn add(row: &mut [i64], counts: &[u16], times: i64) {
    for (sum, count) in row.iter_mut().zip(counts) {
        *sum += times * i64::from(*count);
    }
}

fn room<T>(len: usize, what: &str) -> Result<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(len)
        .map_err(|_| Error::no_memory(what, len.saturating_mul(size_of::<T>())))?;
    Ok(room)
}

fn zeros<T: Clone + Default>(len: usize, what: &str) -> Result<Vec<T>> {
    let mut zeros = room(len, what)?;
    zeros.resize(len, T::default());
    Ok(zeros)
}

#[cfg(test)]
mod bin_tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::{NetworkSpec, Plan, Signal, Threshold};

    fn counts(channels: usize, bins: usize, seed: u64) -> Vec<u16> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..bins)
            .flat_map(|_| {
                let common: u16 = rng.random_range(0..4);
                (0..channels)
                    .map(|c| match c % 7 {
                        0 => 0,
                        1 => common,
                        2 => 65_535 - common,
                        k => common.saturating_sub(k as u16 / 3) + rng.random_range(0..2),
                    })
                    .collect::<Vec<u16>>()
            })
            .collect()
    }

    #[test]
    fn edges_are_those_of_the_recorded_bins() {
        for (n, length, step, threshold) in [
            (1, 5, 1, 0.5),
            (30, 20, 1, 0.4),
            (70, 33, 4, 0.0),
            (30, 10, 25, 1.0),
            (90, 40, 3, 0.7),
        ] {
            let all = counts(n, 130, n as u64);
            for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
                for strict in [false, true] {
                    let window = Window { length, step };
                    let mut live = Live::new(LiveSpec {
                        channels: n,
                        window,
                        threshold,
                        sign,
                        strict,
                        max_edges: usize::MAX,
                    })
                    .unwrap();
                    // Bins 60 to 69 are lost.
                    let signal = Signal::new(&all, n)
                        .unwrap()
                        .with_segments(vec![0..60, 70..130])
                        .unwrap();
                    let spec = NetworkSpec::pearson(window)
                        .threshold(Threshold::Absolute(threshold))
                        .sign(sign)
                        .strict(strict);
                    let offline = Plan::new(&spec, &signal)
                        .unwrap()
                        .run(&signal, &())
                        .unwrap();
                    let mut windows = offline.windows();
                    for (bin, counts) in all.chunks_exact(n).enumerate() {
                        if (60..70).contains(&bin) {
                            continue;
                        }
                        if bin == 70 {
                            live.gap(10);
                        }
                        if live.push(counts).unwrap() {
                            let (got, expected) = (live.newest().unwrap(), windows.next().unwrap());
                            assert_eq!((got.index, got.start), (expected.index, expected.start));
                            assert_eq!(
                                (got.i, got.j),
                                (expected.i, expected.j),
                                "{n} channels, window {}",
                                got.index
                            );
                            assert_eq!(
                                (got.undefined, got.why),
                                (expected.undefined, expected.why)
                            );
                            for (a, b) in got.r.iter().zip(expected.r) {
                                assert!((a - b).abs() <= 1e-5);
                            }
                        }
                    }
                    assert!(windows.next().is_none());
                    assert_eq!(live.windows(), offline.len());
                }
            }
        }
    }

    #[test]
    fn edges_beyond_the_most_are_counted() {
        let spec = |max_edges| LiveSpec {
            channels: 30,
            window: Window {
                length: 10,
                step: 1,
            },
            threshold: 0.2,
            sign: Sign::Both,
            strict: false,
            max_edges,
        };
        let mut all = Live::new(spec(usize::MAX)).unwrap();
        let mut some = Live::new(spec(5)).unwrap();
        for counts in counts(30, 40, 3).chunks_exact(30) {
            all.push(counts).unwrap();
            some.push(counts).unwrap();
        }
        let (all_of, some_of) = (all.newest().unwrap(), some.newest().unwrap());
        assert!(all_of.i.len() > 5);
        assert_eq!(
            (some.found(), all.found()),
            (all_of.i.len(), all_of.i.len())
        );
        assert_eq!((some_of.i, some_of.j), (&all_of.i[..5], &all_of.j[..5]));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let window = Window {
            length: 10,
            step: 1,
        };
        let spec = LiveSpec {
            channels: 4,
            window,
            threshold: 0.5,
            sign: Sign::Both,
            strict: false,
            max_edges: 6,
        };
        let mut live = Live::new(spec).unwrap();
        assert!(live.newest().is_none());
        assert!(live.push(&[0; 3]).is_err());
        for spec in [
            LiveSpec {
                channels: 0,
                ..spec
            },
            LiveSpec {
                channels: MOST_CHANNELS + 1,
                ..spec
            },
            LiveSpec {
                threshold: f64::NAN,
                ..spec
            },
            LiveSpec {
                window: Window { length: 1, step: 1 },
                ..spec
            },
            LiveSpec {
                window: Window {
                    length: 1 << 16,
                    step: 1,
                },
                ..spec
            },
            LiveSpec {
                window: Window { length: 5, step: 0 },
                ..spec
            },
        ] {
            assert!(Live::new(spec).is_err(), "{spec:?}");
        }
    }
}
