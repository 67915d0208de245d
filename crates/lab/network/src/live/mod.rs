//! Networks as their signals come: of counts, bin after bin, and of samples of any kind ([`SampleNetwork`]). The edges
//! are those that [`Plan`](crate::Plan) finds in the recorded bins or samples.
//!
//! # Counts
//! Sums of counts and of their products are whole numbers: what enters is added, what leaves is
//! subtracted, and nothing ever drifts. A correlation is computed from them in f64; one that is within
//! 10⁻⁹ of the threshold is decided as the oracle decides it.
//!
//! [`Live`] is given bins. [`open`] puts one on a thread of its own, which a [`LiveFeed`] feeds: attached to a
//! session ([`Session::attach`](betz_runtime::stream::Session::attach)) it hears every step, and the step
//! only pushes.

#[cfg(test)]
mod bin_tests;
mod bins;
mod feed;
#[cfg(test)]
mod sample_tests;
mod samples;
#[cfg(test)]
mod tests;
mod thread;

use betz_base::{Error, Result};

pub use bins::LiveCounts;
pub use feed::LiveFeed;
pub use samples::{SampleCounts, SampleNetwork};
pub use thread::{LiveConfig, LiveHandle, LiveStats, LiveWindow, open};

use crate::network::WindowEdges;
use crate::oracle::{self, UndefinedReason, reaches};
use crate::spec::Sign;
use crate::window::Window;

/// Channels, windows and edges of a live network.
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

/// Most channels: sums take 4 bytes per pair, and 8 more once a count is large.
pub const MOST_CHANNELS: usize = 16_384;

/// A window's edges as they are kept.
#[derive(Debug, Default)]
struct Edges {
    i: Vec<u32>,
    j: Vec<u32>,
    r: Vec<f32>,
    undefined: Vec<u32>,
    why: Vec<UndefinedReason>,
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
    /// Of products: row i holds pairs (i, j), j ≥ i. In 32 bits while no count is above `small`.
    narrow: Vec<i32>,
    wide: Vec<i64>,
    is_wide: bool,
    small: u16,
    scale: Vec<f64>,
    /// `sums`, while they are small.
    sums_f64: Vec<f64>,
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
            narrow: zeros(n * (n + 1) / 2, "sums of products")?,
            // Pages of zeros cost nothing until they are written.
            wide: zeros(n * (n + 1) / 2, "sums of products")?,
            is_wide: false,
            small: small_counts(spec.window.length),
            scale: zeros(n, "scales of channels")?,
            sums_f64: zeros(n, "sums of counts")?,
            windows: 0,
            edges: Edges::with_capacity(spec.max_edges, n)?,
        })
    }

    /// Specification that the network was opened with.
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
    pub(crate) fn push_only(&mut self, counts: &[u16]) -> Result<bool> {
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
        if !self.is_wide && counts.iter().any(|c| *c > self.small) {
            self.is_wide = true;
            let sums = self.wide.iter_mut().zip(&self.narrow);
            sums.for_each(|(wide, narrow)| *wide = i64::from(*narrow));
        }
        for (sum, (x, y)) in self.sums.iter_mut().zip(counts.iter().zip(&*old)) {
            *sum += i64::from(*x) - i64::from(*y);
        }
        let (narrow, wide) = (&mut self.narrow, &mut self.wide);
        // Before the ring is full, what leaves is 0.
        if self.is_wide {
            pulp::Arch::new().dispatch(|| slide(wide, counts, old));
        } else {
            pulp::Arch::new().dispatch(|| slide(narrow, counts, old));
        }
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
        self.narrow.fill(0);
        self.is_wide = false;
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

    /// Empties the edges for the next window, and scales its channels by their spread; one that never changes is undefined.
    fn begin_window(&mut self) {
        let (n, length) = (self.spec.channels, self.spec.window.length);
        self.windows += 1;
        let edges = &mut self.edges;
        edges.index = self.windows;
        edges.found = 0;
        edges.start = self.total - length as u64;
        edges.i.clear();
        edges.j.clear();
        edges.r.clear();
        edges.undefined.clear();
        edges.why.clear();
        let mut at = 0;
        for i in 0..n {
            let squares = if self.is_wide {
                self.wide[at]
            } else {
                i64::from(self.narrow[at])
            };
            // W²·variance, a whole number.
            let spread = length as i64 * squares - self.sums[i] * self.sums[i];
            at += n - i;
            self.scale[i] = if spread > 0 {
                1.0 / (spread as f64).sqrt()
            } else {
                0.0
            };
            if spread <= 0 {
                edges.undefined.push(i as u32);
                edges.why.push(UndefinedReason::Constant);
            }
            self.sums_f64[i] = self.sums[i] as f64;
        }
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
        self.begin_window();
        let edges = &mut self.edges;
        let (scale, ring) = (&self.scale, &self.ring);
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
        let least = threshold - close;
        let (narrow, wide) = (&self.narrow, &self.wide);
        let (sums, sums_f64) = (&self.sums, &self.sums_f64);
        let vectors = pulp::Arch::new();
        // Both are exact: whole numbers below 2⁵³, and below 2⁶³.
        if self.is_wide {
            let of = |p: i64, x: i64, y: i64| (w * p - x * y) as f64;
            vectors.dispatch(|| strips(wide, sums, scale, sign, least, of, &mut keep));
        } else {
            let w = w as f64;
            let of = |p: i32, x: f64, y: f64| w * f64::from(p) - x * y;
            vectors.dispatch(|| strips(narrow, sums_f64, scale, sign, least, of, &mut keep));
        }
    }
}

/// Hands every pair of defined channels to `keep` whose correlation may reach `least`, by (i, j).
/// `covariance` makes W² times it of the sum of products and the two sums.
#[inline(always)]
fn strips<P: Copy, S: Copy>(
    products: &[P],
    sums: &[S],
    scale: &[f64],
    sign: Sign,
    least: f64,
    covariance: impl Fn(P, S, S) -> f64,
    keep: &mut impl FnMut(usize, usize, f64),
) {
    const STRIP: usize = 64;
    let n = scale.len();
    let mut at = 0;
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
            let values = &mut values[..len];
            for k in 0..len {
                values[k] = covariance(row[k], sums[i], sums_j[k]) * scale[i] * scale_j[k];
            }
            // Lanes of their own, so that they need not wait for each other.
            let mut largest = [f64::NEG_INFINITY; 16];
            let (lanes, rest) = values.as_chunks::<16>();
            for lanes in lanes {
                for (largest, value) in largest.iter_mut().zip(lanes) {
                    let size = sign.size(*value);
                    *largest = if size > *largest { size } else { *largest };
                }
            }
            let reaches = |value: &f64| sign.size(*value) >= least;
            if largest.iter().any(|l| *l >= least) || rest.iter().any(reaches) {
                for (k, value) in values.iter().enumerate() {
                    if scale_j[k] > 0.0 && sign.size(*value) >= least {
                        keep(i, j + k, *value);
                    }
                }
            }
            j += len;
        }
    }
}

/// The largest count whose products, a window and a bin of them, fit into 31 bits.
fn small_counts(length: usize) -> u16 {
    let most = (f64::from(i32::MAX) / (length as f64 + 1.0)).sqrt();
    most as u16
}

/// A sum of products of counts.
trait Sum: Copy {
    /// More by `times · count`, modulo 2³² or 2⁶⁴: what a whole window sums to fits.
    fn add(self, times: i32, count: u16) -> Self;
}

impl Sum for i32 {
    #[inline(always)]
    fn add(self, times: i32, count: u16) -> Self {
        self.wrapping_add(times.wrapping_mul(i32::from(count)))
    }
}

impl Sum for i64 {
    #[inline(always)]
    fn add(self, times: i32, count: u16) -> Self {
        self.wrapping_add(Self::from(times) * Self::from(count))
    }
}

/// `new` counts enter the sums of products of all pairs, `old` ones leave.
#[inline(always)]
fn slide<T: Sum>(products: &mut [T], new: &[u16], old: &[u16]) {
    let mut at = 0;
    for i in 0..new.len() {
        let (x, y) = (i32::from(new[i]), i32::from(old[i]));
        let row = &mut products[at..at + new.len() - i];
        at += new.len() - i;
        // Most counts are 0.
        match (x, y) {
            (0, 0) => {}
            (x, 0) => add(row, &new[i..], x),
            (0, y) => add(row, &old[i..], -y),
            (x, y) => {
                for (sum, (new, old)) in row.iter_mut().zip(new[i..].iter().zip(&old[i..])) {
                    *sum = sum.add(x, *new).add(-y, *old);
                }
            }
        }
    }
}

#[inline(always)]
fn add<T: Sum>(row: &mut [T], counts: &[u16], times: i32) {
    for (sum, count) in row.iter_mut().zip(counts) {
        *sum = sum.add(times, *count);
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
