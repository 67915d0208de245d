//! The edges of one chunk of windows, measure by measure.

use betz_base::progress::check;
use betz_base::{Progress, Result};

use rayon::prelude::*;

use crate::block::{PanelOptions, SampleTransform, margin};
use crate::coherence::Coherence;
use crate::engine::{ChunkEdges, Correlations, Cut, correlate, exact_of, extreme_pairs, split_by};
use crate::oracle::UndefinedReason;
use crate::pairs::{Correlation, LaggedCorrelation, Moments};
use crate::panel::Panels;
use crate::partial;
use crate::phase::Phases;
use crate::place::{self, Nearness};
use crate::plan::{Plan, spikes_only};
use crate::rank::{RankMeasure, RankPanels};
use crate::scan::{self, ExactWindow, Keep};
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec, Sign, Taper};
use crate::warp::TimeWarp;
use crate::window::Chunk;

impl Plan {
    pub(crate) fn panel_options(&self) -> PanelOptions {
        let measure = self.spec.measure;
        PanelOptions {
            arch: self.arch,
            rules: self.rules,
            // Large sums are then what a tile looks for.
            negative: self.spec.sign == Sign::Negative && measure == Measure::Pearson,
            moments: matches!(measure, Measure::Covariance | Measure::Euclidean { .. }),
            of: match self.spec.taper {
                Taper::Rectangular => SampleTransform::Samples,
                taper => SampleTransform::Tapered(taper),
            },
        }
    }

    /// The edges of a chunk, on the CPU.
    pub(crate) fn chunk(
        &self,
        signal: &Signal<'_>,
        chunk: Chunk,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<ChunkResult> {
        let (keep, sign) = (Keep::new(&self.spec, self.nodes), self.spec.sign);
        match self.spec.measure {
            Measure::Pearson | Measure::GaussianInformation => {
                self.correlations(signal, chunk, most, progress)
            }
            Measure::Spearman => {
                self.rank_correlations((signal, chunk), RankMeasure::Spearman, most, progress)
            }
            Measure::Kendall => {
                self.rank_correlations((signal, chunk), RankMeasure::Kendall, most, progress)
            }
            Measure::Covariance | Measure::Euclidean { .. } => {
                let panels = Panels::new(signal, chunk, self.panel_options());
                let pairs = Moments {
                    signal,
                    panels: &panels,
                    rules: self.rules,
                    sign,
                    distance: self.spec.measure != Measure::Covariance,
                };
                let edges = scan::scan(&pairs, keep, most, progress)?;
                let mut result = ChunkResult::new(edges, panels);
                // A constant node has a covariance (0) and distances.
                (result.undefined).retain(|(_, _, why)| *why == UndefinedReason::NonFinite);
                Ok(result)
            }
            Measure::Lagged { lags } => {
                let panels = |start| {
                    let chunk = Chunk { start, ..chunk };
                    Panels::new(signal, chunk, self.panel_options())
                };
                let rows = panels(chunk.start);
                let shifted: Vec<Panels> = (0..=2 * lags)
                    .map(|shift| panels(chunk.start + shift - lags))
                    .collect();
                let pairs = LaggedCorrelation {
                    signal,
                    rows: &rows,
                    shifted: &shifted,
                    rules: self.rules,
                    sign,
                };
                let edges = scan::scan(&pairs, keep, most, progress)?;
                Ok(ChunkResult::new(edges, rows))
            }
            Measure::PhaseLocking | Measure::ImaginaryPhaseLocking | Measure::PhaseConsistency => {
                let margin = self.rules.margin();
                let phases = Phases::new(signal, chunk, self.arch, self.spec.measure, margin);
                let edges = scan::scan(&phases, keep, most, progress)?;
                Ok(ChunkResult {
                    edges,
                    undefined: phases.undefined,
                    extreme: 0,
                })
            }
            Measure::Distance { near, gap, earth } => {
                check(progress, "distances")?;
                let windows = place::windows(Nearness { near, gap, earth }, signal, &chunk, keep);
                ChunkResult::exact(windows, &self.spec, self.nodes, most)
            }
            Measure::Warping { band, normalised } => {
                let warp = TimeWarp { band, normalised };
                let (windows, warped) = warp.windows(signal, &chunk, keep, progress)?;
                let mut result = ChunkResult::exact(windows, &self.spec, self.nodes, most)?;
                result.edges.counts.rechecked = warped;
                Ok(result)
            }
            Measure::Coherence {
                segment,
                first,
                last,
                peak,
            } => {
                let coherence = Coherence {
                    segment,
                    first,
                    last,
                    peak,
                };
                let windows = coherence.windows((signal, &chunk), keep, most, progress)?;
                ChunkResult::exact(windows, &self.spec, self.nodes, most)
            }
            Measure::SpikeTiling { .. } => Err(spikes_only()),
            Measure::Partial => {
                let length = chunk.window.length;
                let windows = (0..chunk.windows).into_par_iter().map(|q| {
                    check(progress, "partial correlation")?;
                    partial::window(signal, chunk.start_of(q), length)
                });
                ChunkResult::exact(
                    windows.collect::<Result<_>>()?,
                    &self.spec,
                    self.nodes,
                    most,
                )
            }
        }
    }

    /// The edges of a chunk by Spearman's or Kendall's measure.
    fn rank_correlations(
        &self,
        (signal, chunk): (&Signal<'_>, Chunk),
        measure: RankMeasure,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<ChunkResult> {
        let sign = self.spec.sign;
        let panels = RankPanels::new(signal, chunk, measure, (self.arch, sign));
        let edges = match Keep::new(&self.spec, self.nodes) {
            Keep::Reaching { threshold, strict } => {
                let cut = Cut {
                    thresholds: vec![threshold; chunk.windows],
                    sign,
                    strict,
                    most,
                };
                correlate(&panels, &cut, Vec::new(), progress)?
            }
            keep => scan::scan(&panels, keep, most, progress)?,
        };
        Ok(ChunkResult {
            edges,
            undefined: panels.undefined,
            extreme: 0,
        })
    }

    /// The edges of a chunk whose values are correlations, or made of them.
    fn correlations(
        &self,
        signal: &Signal<'_>,
        chunk: Chunk,
        most: u64,
        progress: &dyn Progress,
    ) -> Result<ChunkResult> {
        let options = self.panel_options();
        let (sign, of) = (self.spec.sign, options.of);
        let panels = Panels::new(signal, chunk, options);
        let mut rules = self.rules;
        if let (None, SampleTransform::Samples) = (rules.margin, of) {
            rules.margin = Some(margin(&chunk));
        }
        let keep = Keep::new(&self.spec, self.nodes);
        let mut edges = if let Keep::Reaching { threshold, strict } = keep {
            let cut = Cut {
                thresholds: vec![threshold; chunk.windows],
                sign,
                strict,
                most,
            };
            let extra = extreme_pairs(signal, (&chunk, of), &panels.extreme, &cut, progress)?;
            let tiles = Correlations::new(signal, &panels, &cut, rules);
            correlate(&tiles, &cut, extra, progress)?
        } else {
            let pairs = Correlation {
                signal,
                panels: &panels,
                rules,
                sign,
            };
            scan::scan(&pairs, keep, most, progress)?
        };
        if self.spec.measure == Measure::GaussianInformation {
            informations(signal, &chunk, of, &mut edges);
        }
        Ok(ChunkResult::new(edges, panels))
    }
}

/// A chunk's edges, and what was counted.
pub(crate) struct ChunkResult {
    pub(crate) edges: ChunkEdges,
    /// (window, node, why), nodes ascending.
    pub(crate) undefined: Vec<(u32, u32, UndefinedReason)>,
    /// (window, node)s that f32 sums could not hold.
    pub(crate) extreme: u64,
}

impl ChunkResult {
    fn new(edges: ChunkEdges, panels: Panels) -> Self {
        Self {
            edges,
            extreme: panels.extreme.len() as u64,
            undefined: panels.undefined,
        }
    }

    /// Keeps the pairs of a chunk's windows that `spec` says.
    pub(crate) fn exact(
        windows: Vec<ExactWindow>,
        spec: &NetworkSpec,
        nodes: usize,
        most: u64,
    ) -> Result<Self> {
        let (mut lists, mut undefined) = (Vec::new(), Vec::new());
        for (q, (list, left_out)) in windows.into_iter().enumerate() {
            lists.push(list);
            undefined.extend(
                left_out
                    .into_iter()
                    .map(|(node, why)| (q as u32, node, why)),
            );
        }
        let keep = Keep::new(spec, nodes);
        let near = spec.measure.is_distance();
        let size = |v: f64| if near { -v } else { spec.sign.size(v) };
        Ok(Self {
            edges: scan::keep_exact(lists, nodes, keep, size, most)?,
            undefined,
            extreme: 0,
        })
    }
}

/// Makes Gaussian informations of correlations: from f64 where f32 would not do.
pub(crate) fn informations(
    signal: &Signal<'_>,
    chunk: &Chunk,
    of: SampleTransform,
    edges: &mut ChunkEdges,
) {
    let ChunkEdges {
        indptr, i, j, r, ..
    } = edges;
    let lengths: Vec<usize> = indptr.windows(2).map(|w| (w[1] - w[0]) as usize).collect();
    split_by(&lengths, r)
        .into_par_iter()
        .enumerate()
        .for_each(|(q, r)| {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            for (e, r) in r.iter_mut().enumerate() {
                let at = indptr[q] as usize + e;
                let mut value = f64::from(*r);
                // dI/dr = r/(1 − r²) carries the error of an f32 correlation beyond 1e-5 from here on.
                if value.abs() > 0.5 {
                    let pair = (q, i[at] as usize, j[at] as usize);
                    value = exact_of(signal, chunk, of, pair, &mut x, &mut y).unwrap_or(value);
                }
                *r = crate::oracle::gaussian_information(value) as f32;
            }
        });
}
