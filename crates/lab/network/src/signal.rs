//! The input of a network: samples of many nodes at common instants.

use std::ops::Range;

use betz_base::hash::Fnv1a;
use betz_base::{Error, Result};

/// Borrowed samples, time-major: all nodes of one instant lie side by side.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum SignalData<'a> {
    /// 32-bit floating point.
    F32(&'a [f32]),
    /// 64-bit floating point.
    F64(&'a [f64]),
    /// Signed 16-bit integers, as amplifiers deliver them.
    I16(&'a [i16]),
    /// Unsigned 16-bit integers: spike counts, 16-bit cameras.
    U16(&'a [u16]),
    /// Unsigned bytes: grey levels of a video.
    U8(&'a [u8]),
}

impl SignalData<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::U8(v) => v.len(),
        }
    }

    fn bytes_per_sample(&self) -> usize {
        match self {
            Self::F64(_) => 8,
            Self::F32(_) => 4,
            Self::I16(_) | Self::U16(_) => 2,
            Self::U8(_) => 1,
        }
    }
}

macro_rules! borrowed_from {
    ($($kind:ident: $sample:ty),*) => { $(
        impl<'a> From<&'a [$sample]> for SignalData<'a> {
            fn from(samples: &'a [$sample]) -> Self {
                Self::$kind(samples)
            }
        }
        impl<'a> From<&'a Vec<$sample>> for SignalData<'a> {
            fn from(samples: &'a Vec<$sample>) -> Self {
                Self::$kind(samples)
            }
        }
    )* };
}
borrowed_from!(F32: f32, F64: f64, I16: i16, U16: u16, U8: u8);

/// A signal of shape (samples, nodes), borrowed, with the stretches over which it was recorded
/// without a gap.
///
/// ```
/// use betz_network::Signal;
///
/// let samples = vec![0.0_f32; 300 * 4]; // 300 instants of 4 nodes
/// let signal = Signal::new(&samples, 4)?.with_segments(vec![0..100, 120..300])?;
/// assert_eq!((signal.samples(), signal.nodes()), (300, 4));
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Signal<'a> {
    data: SignalData<'a>,
    samples: usize,
    nodes: usize,
    /// Values of a node at an instant.
    axes: usize,
    segments: Vec<Range<usize>>,
    sample_seconds: Option<f64>,
}

impl<'a> Signal<'a> {
    /// A signal without gaps: `data` holds the samples of `nodes` nodes, instant after instant.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::ErrorKind::Mismatch) when `data` is no whole number of instants,
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for more than 2³¹ − 1 nodes.
    pub fn new(data: impl Into<SignalData<'a>>, nodes: usize) -> Result<Self> {
        let data = data.into();
        let len = data.len();
        if nodes == 0 && len != 0 {
            return Err(Error::mismatch(format!(
                "signal: expected no samples for 0 nodes, got {len}"
            )));
        }
        if nodes > i32::MAX as usize {
            return Err(Error::argument(format!(
                "signal: expected at most {} nodes, got {nodes}",
                i32::MAX
            )));
        }
        let samples = len.checked_div(nodes).unwrap_or(0);
        if samples * nodes != len {
            return Err(Error::mismatch(format!(
                "signal: expected a whole number of instants of {nodes} nodes, got {len} values ({} too many)",
                len - samples * nodes
            )));
        }
        Ok(Self {
            data,
            samples,
            nodes,
            axes: 1,
            segments: std::iter::once(0..samples).collect(),
            sample_seconds: None,
        })
    }

    /// Places of `nodes` nodes that move, (samples, nodes, axes), instant after instant: for
    /// [`Measure::Distance`](crate::Measure::Distance). A node whose coordinates are not all finite has no place at that
    /// instant.
    ///
    /// # Errors
    /// As for [`Signal::new`]; [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) unless there are 2 or 3 axes.
    pub fn places(data: impl Into<SignalData<'a>>, nodes: usize, axes: usize) -> Result<Self> {
        if !matches!(axes, 2 | 3) {
            return Err(Error::argument(format!(
                "places: expected 2 or 3 axes, got {axes}"
            )));
        }
        let flat = Self::new(data, nodes.saturating_mul(axes))?;
        Ok(Self {
            nodes,
            axes,
            ..flat
        })
    }

    /// Values of a node at an instant: 1, or the axes of its place.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// The place of `node` at instant `t`, 0 on axes that it lacks; `None` if it is not known.
    pub fn place(&self, t: usize, node: usize) -> Option<[f64; 3]> {
        let mut place = [0.0; 3];
        for (axis, value) in place.iter_mut().enumerate().take(self.axes) {
            *value = self.at((t * self.nodes + node) * self.axes + axis);
        }
        place.iter().all(|v| v.is_finite()).then_some(place)
    }

    /// The same signal, recorded in `segments` (half-open ranges of instants, in order, apart from
    /// each other). No window crosses the end of one; samples in none of them are not used.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) naming the segment that is
    /// reversed, out of order or beyond the last sample.
    pub fn with_segments(mut self, segments: Vec<Range<usize>>) -> Result<Self> {
        let mut end = 0;
        for (index, segment) in segments.iter().enumerate() {
            if segment.start < end || segment.end < segment.start || segment.end > self.samples {
                return Err(Error::argument(format!(
                    "segment {index}: expected a range of samples from {end} to at most {}, got {}..{}",
                    self.samples, segment.start, segment.end
                )));
            }
            end = segment.end;
        }
        self.segments = segments;
        Ok(self)
    }

    /// The same signal with the time between two samples, in seconds.
    ///
    /// # Errors
    /// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) unless it is positive and finite.
    pub fn with_sample_seconds(mut self, seconds: f64) -> Result<Self> {
        if !(seconds > 0.0 && seconds.is_finite()) {
            return Err(Error::argument(format!(
                "seconds from sample to sample: expected a positive number, got {seconds}"
            )));
        }
        self.sample_seconds = Some(seconds);
        Ok(self)
    }

    /// Number of instants.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Stretches without a gap, half-open, in order.
    pub fn segments(&self) -> &[Range<usize>] {
        &self.segments
    }

    /// Seconds from sample to sample, if known.
    pub fn sample_seconds(&self) -> Option<f64> {
        self.sample_seconds
    }

    /// The samples, time-major.
    pub fn data(&self) -> SignalData<'a> {
        self.data
    }

    /// Bytes the samples take.
    pub fn bytes(&self) -> usize {
        self.data.len() * self.data.bytes_per_sample()
    }

    /// Nodes whose samples were rounded away before they came here: f32 numbers of their size are further apart than
    /// a hundredth of their standard deviation, over finite samples (an offset of 10⁸ on a deviation of 1 leaves
    /// steps of 8). Their correlations are those of what is left. None of other types, and none that is constant.
    pub fn coarse(&self) -> Vec<usize> {
        let (SignalData::F32(samples), 1) = (self.data, self.axes) else {
            return Vec::new();
        };
        let mut seen = vec![NodeSums::default(); self.nodes];
        for row in samples.chunks_exact(self.nodes.max(1)) {
            for (value, node) in row.iter().zip(&mut seen) {
                node.take(*value);
            }
        }
        (seen.iter().enumerate())
            .filter(|(_, node)| node.is_coarse())
            .map(|(node, _)| node)
            .collect()
    }

    /// A hash of shape and samples that tells one signal from another (FNV-1a); it protects against nothing.
    pub fn hash(&self) -> u64 {
        let mut hash = Fnv1a::new();
        hash.word(self.samples as u64);
        hash.word(self.nodes as u64);
        if self.axes > 1 {
            hash.word(self.axes as u64);
        }
        match self.data {
            SignalData::F32(v) => v.iter().for_each(|v| hash.bytes(&v.to_le_bytes())),
            SignalData::F64(v) => v.iter().for_each(|v| hash.bytes(&v.to_le_bytes())),
            SignalData::I16(v) => v.iter().for_each(|v| hash.bytes(&v.to_le_bytes())),
            SignalData::U16(v) => v.iter().for_each(|v| hash.bytes(&v.to_le_bytes())),
            SignalData::U8(v) => hash.bytes(v),
        }
        hash.finish()
    }

    /// The sample of `node` at instant `t`; of a place the first coordinate.
    #[inline]
    pub fn value(&self, t: usize, node: usize) -> f64 {
        self.at((t * self.nodes + node) * self.axes)
    }

    #[inline]
    fn at(&self, at: usize) -> f64 {
        match self.data {
            SignalData::F32(v) => f64::from(v[at]),
            SignalData::F64(v) => v[at],
            SignalData::I16(v) => f64::from(v[at]),
            SignalData::U16(v) => f64::from(v[at]),
            SignalData::U8(v) => f64::from(v[at]),
        }
    }

    /// Samples of neighbouring nodes from `first` on at instant `t`.
    #[inline(always)]
    pub(crate) fn read(&self, t: usize, first: usize, out: &mut [f64]) {
        let at = t * self.nodes + first;
        let range = at..at + out.len();
        match self.data {
            SignalData::F32(v) => convert(&v[range], out),
            SignalData::F64(v) => out.copy_from_slice(&v[range]),
            SignalData::I16(v) => convert(&v[range], out),
            SignalData::U16(v) => convert(&v[range], out),
            SignalData::U8(v) => convert(&v[range], out),
        }
    }

    /// Samples of one node over instants from `start` on.
    pub(crate) fn column(&self, node: usize, start: usize, out: &mut [f64]) {
        for (offset, out) in out.iter_mut().enumerate() {
            *out = self.value(start + offset, node);
        }
    }
}

#[inline(always)]
fn convert<T: Copy + Into<f64>>(from: &[T], to: &mut [f64]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from.into();
    }
}

/// The finite samples of a node, in sums about the first of them.
#[derive(Debug, Clone, Copy, Default)]
struct NodeSums {
    count: f64,
    origin: f64,
    sum: f64,
    squares: f64,
    largest: f32,
}

impl NodeSums {
    fn take(&mut self, value: f32) {
        if !value.is_finite() {
            return;
        }
        if self.count == 0.0 {
            self.origin = f64::from(value);
        }
        let about = f64::from(value) - self.origin;
        self.count += 1.0;
        self.sum += about;
        self.squares += about * about;
        self.largest = self.largest.max(value.abs());
    }

    fn is_coarse(&self) -> bool {
        let variance = (self.squares - self.sum * self.sum / self.count) / self.count;
        let apart = f64::from(self.largest) - f64::from(self.largest.next_down());
        variance > 0.0 && apart > 0.01 * variance.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_f32_has_rounded_away_are_named() {
        // Nodes: plain, on an offset of 10⁸, constant on one, and 10³⁰ times as large.
        let samples: Vec<f32> = (0..400)
            .flat_map(|t| {
                let v = f64::from(t * 7 % 11) / 3.0;
                [v, 10.0 * v + 1e8, 1e8, v * 1e30].map(|v| v as f32)
            })
            .collect();
        assert_eq!(Signal::new(&samples, 4).unwrap().coarse(), [1]);
        let wide: Vec<f64> = samples.iter().map(|v| f64::from(*v)).collect();
        assert!(Signal::new(&wide, 4).unwrap().coarse().is_empty());
        assert!(Signal::new(&[0.0_f32; 0][..], 4).is_ok_and(|s| s.coarse().is_empty()));
    }

    #[allow(clippy::single_range_in_vec_init)] // a list of segments, of which there is one
    #[test]
    fn bad_shapes_and_segments_are_named() {
        let samples = vec![0.0_f32; 10];
        let error = Signal::new(&samples, 3).unwrap_err();
        assert!(
            error.message().contains("10 values (1 too many)"),
            "{error}"
        );
        assert!(Signal::new(&samples, 0).is_err());
        let signal = Signal::new(&samples, 2).unwrap();
        assert_eq!(signal.samples(), 5);
        for segments in [vec![0..6], vec![0..3, 2..5], vec![3..5, 0..2]] {
            let error = signal.clone().with_segments(segments).unwrap_err();
            assert!(error.message().contains("segment"), "{error}");
        }
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = vec![4..2];
        assert!(signal.clone().with_segments(reversed).is_err());
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(signal.clone().with_sample_seconds(seconds).is_err());
        }
    }

    #[test]
    fn every_kind_of_sample_reads_alike() {
        let (a, b): (Vec<u8>, Vec<u16>) = ((0..12).collect(), (0..12).collect());
        let (c, d): (Vec<i16>, Vec<f32>) = ((0..12).collect(), (0..12).map(|v| v as f32).collect());
        let e: Vec<f64> = (0..12).map(f64::from).collect();
        let kinds: [SignalData<'_>; 5] = [
            (&a).into(),
            (&b).into(),
            (&c).into(),
            (&d).into(),
            (&e).into(),
        ];
        for data in kinds {
            let signal = Signal::new(data, 4).unwrap();
            let mut row = [0.0; 2];
            signal.read(1, 2, &mut row);
            assert_eq!(row, [6.0, 7.0]);
            let mut column = [0.0; 3];
            signal.column(3, 0, &mut column);
            assert_eq!(column, [3.0, 7.0, 11.0]);
        }
    }
}
