//! Magnitude-squared coherence by Welch's method, window by window: every node's spectra once, then sums of products
//! pair by pair. Sums are fused in a fixed order, so that a GPU's values are these to the last bit.

use std::sync::atomic::{AtomicU64, Ordering};

use betz_base::progress::check;
use betz_base::{Error, ErrorKind, Progress, Result};
use betz_fourier::{Complex64, Real, RealToComplex};
use rayon::prelude::*;

use crate::engine::too_many;
use crate::oracle::{self, TIE, UndefinedReason};
use crate::scan::{ExactWindow, Keep};
use crate::signal::Signal;
use crate::spec::Measure;
use crate::window::Chunk;

/// Most nodes of which all pairs are kept, for thresholds that say how many edges there are.
pub(crate) const MOST_NODES: usize = 4096;

/// Nodes of a block of spectra.
pub(crate) const SIDE: usize = 64;

/// Nodes that are paired side by side, with so many others.
const LANES: usize = 8;
const ROWS: usize = 2;

/// The measure's options: samples of a segment, its bins, and how a value is made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Coherence {
    pub(crate) segment: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) peak: bool,
}

/// The spectra of a window's nodes. The squares of a node's numbers at a frequency, over all segments, add up to 1, or to
/// 0 where it has no power.
pub(crate) struct Spectra {
    pub(crate) bins: usize,
    pub(crate) segments: usize,
    /// (block, bin, segment, part, node of the block): real parts, then imaginary ones; 0 for what is undefined.
    pub(crate) values: Vec<f64>,
    pub(crate) defined: Vec<bool>,
}

impl Spectra {
    fn block_len(&self) -> usize {
        self.bins * self.segments * 2 * SIDE
    }

    fn block(&self, node: usize) -> &[f64] {
        &self.values[node / SIDE * self.block_len()..][..self.block_len()]
    }
}

/// A node's transforms, and room for them.
struct Transform {
    plan: std::sync::Arc<dyn RealToComplex<f64>>,
    weights: Vec<f64>,
    samples: Vec<f64>,
    weighted: Vec<f64>,
    spectrum: Vec<Complex64>,
}

impl Coherence {
    /// The options of `measure`, if it is coherence.
    pub(crate) fn of(measure: Measure) -> Option<Self> {
        let Measure::Coherence {
            segment,
            first,
            last,
            peak,
        } = measure
        else {
            return None;
        };
        Some(Self {
            segment,
            first,
            last,
            peak,
        })
    }

    /// Segments of a window of `length` samples, each half over the one before.
    pub(crate) fn segments(&self, length: usize) -> usize {
        length.saturating_sub(self.segment / 2) / self.hop()
    }

    fn hop(&self) -> usize {
        (self.segment - self.segment / 2).max(1)
    }

    pub(crate) fn bins(&self) -> usize {
        (self.last + 1).saturating_sub(self.first)
    }

    /// Bytes of the spectra of `nodes` nodes.
    pub(crate) fn bytes(&self, nodes: usize, length: usize) -> u128 {
        let padded = nodes.div_ceil(SIDE) * SIDE;
        padded as u128 * (self.bins() * self.segments(length)) as u128 * 16
    }

    fn transform(&self) -> Transform {
        let plan = f64::forward(self.segment);
        Transform {
            weights: oracle::segment_weights(self.segment),
            samples: Vec::new(),
            weighted: vec![0.0; self.segment],
            spectrum: plan.make_output_vec(),
            plan,
        }
    }

    /// The spectra of the window of `length` samples from `start`, and the nodes that have none.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if a transform fails.
    pub(crate) fn prepare(
        &self,
        signal: &Signal<'_>,
        start: usize,
        length: usize,
    ) -> Result<(Spectra, Vec<(u32, UndefinedReason)>)> {
        let nodes = signal.nodes();
        let mut spectra = Spectra {
            bins: self.bins(),
            segments: self.segments(length),
            values: Vec::new(),
            defined: vec![true; nodes],
        };
        let len = spectra.block_len();
        spectra.values = vec![0.0; nodes.div_ceil(SIDE) * len];
        let lists: Vec<_> = (spectra.values.par_chunks_mut(len.max(1)).enumerate())
            .map_init(
                || self.transform(),
                |transform, (block, values)| {
                    let mut undefined = Vec::new();
                    for node in block * SIDE..nodes.min((block + 1) * SIDE) {
                        transform.samples.resize(length, 0.0);
                        signal.column(node, start, &mut transform.samples);
                        if let Some(why) = self.node(transform, node % SIDE, values)? {
                            undefined.push((node as u32, why));
                        }
                    }
                    Ok(undefined)
                },
            )
            .collect::<Result<_>>()?;
        let undefined: Vec<_> = lists.into_iter().flatten().collect();
        for (node, _) in &undefined {
            spectra.defined[*node as usize] = false;
        }
        Ok((spectra, undefined))
    }

    /// Writes the spectra of the node in `transform.samples` to its place in a block; the reason if it has none.
    fn node(
        &self,
        transform: &mut Transform,
        place: usize,
        block: &mut [f64],
    ) -> Result<Option<UndefinedReason>> {
        let Transform {
            plan,
            weights,
            samples,
            weighted,
            spectrum,
        } = transform;
        if let Err(why) = oracle::moments(samples) {
            return Ok(Some(why));
        }
        let (segments, mut total) = (self.segments(samples.len()), 0.0);
        for s in 0..segments {
            let own = &samples[s * self.hop()..][..self.segment];
            let mean = own.iter().sum::<f64>() / self.segment as f64;
            for ((to, x), w) in weighted.iter_mut().zip(own).zip(&*weights) {
                *to = (x - mean) * w;
            }
            total += weighted.iter().map(|v| v * v).sum::<f64>();
            plan.process(weighted, spectrum).map_err(|e| {
                Error::new(
                    ErrorKind::Internal,
                    format!("transform of {} samples: {e}", self.segment),
                )
            })?;
            for (bin, value) in spectrum[self.first..=self.last].iter().enumerate() {
                let at = (bin * segments + s) * 2 * SIDE + place;
                block[at] = value.re;
                block[at + SIDE] = value.im;
            }
        }
        let least = oracle::least_power(total, self.segment);
        let mut powered = false;
        for bin in block.chunks_exact_mut(segments * 2 * SIDE) {
            let own = || (place..segments * 2 * SIDE).step_by(SIDE);
            let power: f64 = own().map(|at| bin[at] * bin[at]).sum();
            let enough = power > least && power.is_finite();
            powered |= enough;
            let scale = if enough { 1.0 / power.sqrt() } else { 0.0 };
            for at in own() {
                bin[at] = if enough { bin[at] * scale } else { 0.0 };
            }
        }
        Ok((!powered).then_some(UndefinedReason::Constant))
    }

    /// Every window of `chunk`: its pairs that may be kept, with their values.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`]; more than `most` edges; as for [`prepare`](Self::prepare).
    pub(crate) fn windows(
        &self,
        (signal, chunk): (&Signal<'_>, &Chunk),
        keep: Keep,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<Vec<ExactWindow>> {
        let edges = EdgeLimit::new(keep, most);
        (0..chunk.windows)
            .map(|q| {
                check(progress, "coherence")?;
                let (spectra, undefined) =
                    self.prepare(signal, chunk.start_of(q), chunk.window.length)?;
                let pairs = self.pairs(&spectra, least_value(keep), &edges);
                edges.check()?;
                Ok((pairs, undefined))
            })
            .collect()
    }

    /// The pairs of a window; only some of them once there are too many.
    fn pairs(&self, spectra: &Spectra, least: f64, edges: &EdgeLimit) -> Vec<(u32, u32, f64)> {
        let (nodes, vectors) = (spectra.defined.len(), pulp::Arch::new());
        let rows: Vec<Vec<(u32, u32, f64)>> = (0..nodes.div_ceil(ROWS))
            .into_par_iter()
            .map(|at| {
                if edges.is_exceeded() {
                    return Vec::new();
                }
                let pairs = vectors.dispatch(
                    #[inline(always)]
                    || self.rows(spectra, at * ROWS, least),
                );
                edges.count(&pairs);
                pairs
            })
            .collect();
        rows.into_iter().flatten().collect()
    }

    /// The pairs of the nodes from `i` on with those behind them.
    #[inline(always)]
    fn rows(&self, spectra: &Spectra, i: usize, least: f64) -> Vec<(u32, u32, f64)> {
        let mut pairs = Vec::new();
        let nodes = spectra.defined.len();
        for j in (i / LANES * LANES..nodes).step_by(LANES) {
            let values = self.tile(spectra, i, j);
            for (row, values) in (i..nodes).zip(&values) {
                for (column, value) in (j..nodes).zip(values) {
                    let defined = spectra.defined[row] && spectra.defined[column];
                    if row < column && defined && *value >= least {
                        pairs.push((row as u32, column as u32, *value));
                    }
                }
            }
        }
        pairs
    }

    /// The values of nodes `i`, `i + 1` with `j` to `j + 7`.
    #[inline(always)]
    fn tile(&self, spectra: &Spectra, i: usize, j: usize) -> [[f64; LANES]; ROWS] {
        let (x, y) = (spectra.block(i), spectra.block(j));
        let (row, column) = (i % SIDE, j % SIDE);
        let mut values = [[0.0_f64; LANES]; ROWS];
        for bin in 0..spectra.bins {
            let (mut re, mut im) = ([[0.0; LANES]; ROWS], [[0.0; LANES]; ROWS]);
            for s in 0..spectra.segments {
                let at = (bin * spectra.segments + s) * 2 * SIDE;
                let lanes = |from: usize| -> [f64; LANES] {
                    (y[from..].first_chunk()).map_or([0.0; LANES], |lanes| *lanes)
                };
                let (c, d) = (lanes(at + column), lanes(at + SIDE + column));
                for r in 0..ROWS {
                    let (a, b) = (x[at + row + r], x[at + SIDE + row + r]);
                    for lane in 0..LANES {
                        re[r][lane] = a.mul_add(c[lane], b.mul_add(d[lane], re[r][lane]));
                        im[r][lane] = b.mul_add(c[lane], (-a).mul_add(d[lane], im[r][lane]));
                    }
                }
            }
            for r in 0..ROWS {
                for lane in 0..LANES {
                    let (re, im) = (re[r][lane], im[r][lane]);
                    let own = re.mul_add(re, im * im);
                    let value = &mut values[r][lane];
                    *value = if !self.peak {
                        *value + own
                    } else if own > *value {
                        own
                    } else {
                        *value
                    };
                }
            }
        }
        let over = if self.peak { 1.0 } else { spectra.bins as f64 };
        values.map(|row| row.map(|value| (value / over).min(1.0)))
    }
}

/// Counts edges while pairs are found, so that no memory is filled with pairs that are refused in the end.
pub(crate) struct EdgeLimit {
    /// Pairs above this value are edges for certain.
    certain: f64,
    most: u64,
    edges: AtomicU64,
}

impl EdgeLimit {
    pub(crate) fn new(keep: Keep, most: u64) -> Self {
        Self {
            certain: match keep {
                Keep::Reaching { threshold, .. } => threshold + TIE,
                // Others are chosen once all pairs are known.
                _ => f64::INFINITY,
            },
            most,
            edges: AtomicU64::new(0),
        }
    }

    pub(crate) fn count(&self, pairs: &[(u32, u32, f64)]) {
        let edges = pairs.iter().filter(|pair| pair.2 > self.certain).count();
        self.edges.fetch_add(edges as u64, Ordering::Relaxed);
    }

    fn is_exceeded(&self) -> bool {
        self.edges.load(Ordering::Relaxed) > self.most
    }

    /// # Errors
    /// More edges than the limit.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_exceeded() {
            true => Err(too_many(self.most)),
            false => Ok(()),
        }
    }
}

/// No pair below this value is kept.
pub(crate) fn least_value(keep: Keep) -> f64 {
    match keep {
        Keep::Reaching { threshold, .. } => threshold - TIE,
        _ => f64::NEG_INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use crate::{NetworkSpec, Plan, Threshold, Window};

    #[test]
    fn values_are_those_of_scipy() {
        let x: Vec<f64> = (0..200).map(|t| f64::from(t * t * 7 % 31)).collect();
        let y: Vec<f64> = (0..200)
            .map(|t| f64::from((t * t * 7 + 3 * t) % 29) + 0.5 * x[t as usize])
            .collect();
        // f, c = scipy.signal.coherence(x, y, nperseg=segment); the mean and the largest of c[first : last + 1]
        // (SciPy 1.17.1).
        for (segment, first, last, mean, largest) in [
            (50, 1, 25, 0.37876817405753804, 0.8741506172115092),
            (50, 5, 8, 0.21151959460598035, 0.5280878631534941),
            (64, 0, 32, 0.37979870306532204, 0.9249403138362503),
            (33, 1, 16, 0.32585050456359477, 0.7281974642377899),
        ] {
            let of = |peak| oracle::coherence(&x, &y, (segment, first, last), peak).unwrap();
            assert!((of(false) - mean).abs() < 1e-12, "{segment}: {}", of(false));
            assert!(
                (of(true) - largest).abs() < 1e-12,
                "{segment}: {}",
                of(true)
            );
        }
    }

    #[test]
    fn values_are_those_of_plain_loops() {
        let mut compared = 0;
        for case in cases::all() {
            let signal = case.signal();
            if signal.nodes() > 64 {
                continue;
            }
            for (segment, first, last) in [(16, 1, 8), (16, 3, 3), (21, 0, 10), (10, 2, 4)] {
                for peak in [false, true] {
                    let measure = Measure::Coherence {
                        segment,
                        first,
                        last,
                        peak,
                    };
                    let window = Window::new(50, 37);
                    let spec =
                        NetworkSpec::new(measure, window).threshold(Threshold::Absolute(0.0));
                    let Ok(plan) = Plan::new(&spec, &signal) else {
                        continue;
                    };
                    let network = plan.run(&signal, &()).unwrap();
                    let columns = |start: usize| -> Vec<Vec<f64>> {
                        let of = |node| {
                            let mut x = vec![0.0; 50];
                            signal.column(node, start, &mut x);
                            x
                        };
                        (0..signal.nodes()).map(of).collect()
                    };
                    for found in network.windows() {
                        let columns = columns(found.start as usize);
                        let mut expected = Vec::new();
                        for (i, x) in columns.iter().enumerate() {
                            for (j, y) in columns.iter().enumerate().skip(i + 1) {
                                if let Some(value) =
                                    oracle::coherence(x, y, (segment, first, last), peak)
                                {
                                    expected.push((i as u32, j as u32, value));
                                }
                            }
                        }
                        assert_eq!(found.i.len(), expected.len(), "{} {measure:?}", case.name);
                        for ((i, j, r), (a, b, value)) in found.edges().zip(&expected) {
                            assert_eq!((i, j), (*a, *b));
                            let off = (f64::from(r) - value).abs();
                            assert!(off < 1e-6, "{} {measure:?}: {r} {value}", case.name);
                            compared += 1;
                        }
                    }
                }
            }
        }
        assert!(compared > 10_000, "{compared}");
    }

    #[test]
    fn too_many_edges_end_the_search_for_pairs() {
        let case = cases::communities(60, 200, 6);
        let signal = case.signal();
        let coherence = Coherence {
            segment: 16,
            first: 1,
            last: 8,
            peak: false,
        };
        let (spectra, _) = coherence.prepare(&signal, 0, 50).unwrap();
        let (all, keep) = (60 * 59 / 2, |threshold| Keep::Reaching {
            threshold,
            strict: false,
        });
        let pairs = |limit: &EdgeLimit| coherence.pairs(&spectra, 0.0, limit).len() as u64;
        let enough = EdgeLimit::new(keep(0.0), all);
        assert_eq!((pairs(&enough), enough.check().is_ok()), (all, true));
        let few = EdgeLimit::new(keep(0.0), 100);
        few.edges.store(101, Ordering::Relaxed);
        assert_eq!(pairs(&few), 0);
        assert!(few.check().unwrap_err().message().contains("at most 100"));
        // Pairs that the threshold may leave out do not count, nor do those of which some are chosen.
        for keep in [keep(1.0), Keep::Strongest(3)] {
            let limit = EdgeLimit::new(keep, 0);
            assert_eq!((pairs(&limit), limit.check().is_ok()), (all, true));
        }
    }

    #[test]
    fn a_common_rhythm_is_found_in_its_band_and_a_pure_tone_has_no_power_elsewhere() {
        // Nodes 0 and 1 share 8 cycles in 64 samples, node 1 a quarter of a cycle later; 2 has 16 cycles; 3 is constant.
        let noise =
            |t: usize, n: usize| ((t * 7919 + n * 104_729 + t * t * 31) % 97) as f64 / 970.0;
        let samples: Vec<f64> = (0..320)
            .flat_map(|t| {
                let turn = std::f64::consts::TAU * t as f64 / 8.0;
                let half = 2.0 * turn;
                [
                    turn.sin() + noise(t, 0),
                    turn.cos() + noise(t, 1),
                    half.sin(),
                    3.0,
                ]
            })
            .collect();
        let signal = Signal::new(&samples, 4).unwrap();
        let run = |first, last, keep| {
            let measure = Measure::Coherence {
                segment: 64,
                first,
                last,
                peak: false,
            };
            let spec = NetworkSpec::new(measure, Window::new(320, 1)).threshold(keep);
            Plan::new(&spec, &signal)
                .unwrap()
                .run(&signal, &())
                .unwrap()
        };
        let rhythm = run(8, 8, Threshold::Absolute(0.99));
        assert_eq!((rhythm.i(), rhythm.j()), (&[0][..], &[1][..]));
        // No power of node 2: 8 cycles are far from its 16.
        let undefined = rhythm.window(0).unwrap();
        assert_eq!(undefined.undefined, [2, 3]);
        let apart = run(24, 30, Threshold::Top(1));
        assert!(apart.r()[0] < 0.8, "{:?}", apart.r());
    }

    #[test]
    fn options_out_of_range_are_named() {
        let samples = vec![0.0_f32; 400];
        let signal = Signal::new(&samples, 2).unwrap();
        for (segment, first, last, expected) in [
            (0, 1, 0, "segment: expected 4 to 66 samples"),
            (67, 1, 2, "segment: expected 4 to 66 samples"),
            (50, 3, 2, "frequencies"),
            (50, 3, 26, "frequencies"),
        ] {
            let measure = Measure::Coherence {
                segment,
                first,
                last,
                peak: false,
            };
            let spec = NetworkSpec::new(measure, Window::new(100, 1));
            let error = Plan::new(&spec, &signal).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
        let band = |low, high| Measure::coherence(50, Some((low, high)), 0.01, false);
        let Ok(Measure::Coherence { first, last, .. }) = band(8.0, 13.0) else {
            panic!("8 to 13 Hz");
        };
        assert_eq!((first, last), (4, 6));
        for (low, high, expected) in [
            (8.5, 9.5, "2 Hz apart"),
            (12.0, 8.0, "expected a lower and a higher"),
            (-1.0, 8.0, "expected a lower and a higher"),
            (10.0, 51.0, "at most 50 Hz"),
            (f64::NAN, 8.0, "expected a lower and a higher"),
        ] {
            let error = band(low, high).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }
}
