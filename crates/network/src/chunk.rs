//! What a plan does with one chunk of windows, measure by measure.

use betz_base::progress::check;
use betz_base::{Progress, Result};

use rayon::prelude::*;

use crate::block::{PanelOptions, Rules, SampleTransform, margin};
use crate::engine::{ChunkEdges, Cut, correlate, exact_of};
use crate::oracle::Undefined;
use crate::pairs::{Correlation, Lagged, Moments};
use crate::panel::Panels;
use crate::partial;
use crate::phase::Phases;
use crate::plan::{Plan, spikes_only};
use crate::scan::{self, Keep};
use crate::signal::Signal;
use crate::spec::{Measure, Sign, Taper, Threshold};
use crate::window::Chunk;

impl Plan {
    pub(crate) fn keep(&self) -> Keep {
        match self.spec.threshold {
            Threshold::Absolute(value) => {
                let threshold = match self.spec.measure {
                    Measure::Distance { .. } => -value,
                    // I = −½ ln(1 − r²)
                    Measure::GaussianInformation => (-(-2.0 * value).exp_m1()).sqrt(),
                    _ => value,
                };
                Keep::Reaching {
                    threshold,
                    strict: self.spec.strict,
                }
            }
            Threshold::Density(share) => {
                let pairs = self.nodes as f64 * (self.nodes as f64 - 1.0) / 2.0;
                Keep::Strongest((share * pairs).round() as usize)
            }
            Threshold::Top(count) => {
                Keep::Strongest(count.min(self.nodes.saturating_mul(self.nodes)))
            }
            Threshold::TopPerNode(count) => Keep::StrongestPerNode(count),
        }
    }

    pub(crate) fn panel_options(&self) -> PanelOptions {
        let measure = self.spec.measure;
        PanelOptions {
            arch: self.arch,
            rules: self.rules,
            // Large sums are then what a tile looks for.
            negative: self.spec.sign == Sign::Negative
                && matches!(measure, Measure::Pearson | Measure::Spearman),
            moments: matches!(measure, Measure::Covariance | Measure::Distance { .. }),
            of: match self.spec.taper {
                Taper::Rectangular if measure == Measure::Spearman => SampleTransform::Ranks,
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
        let (keep, sign, rules) = (self.keep(), self.spec.sign, self.rules);
        let panels = |chunk: Chunk| Panels::new(signal, chunk, self.panel_options());
        match self.spec.measure {
            Measure::Pearson | Measure::GaussianInformation | Measure::Spearman => {
                let panels = panels(chunk);
                let rules = Rules {
                    margin: rules.margin.or(match self.panel_options().of {
                        SampleTransform::Samples => Some(margin(&chunk)),
                        _ => None,
                    }),
                    ..rules
                };
                let mut edges = if let Keep::Reaching { threshold, strict } = keep {
                    let cut = Cut {
                        thresholds: vec![threshold; chunk.windows],
                        sign,
                        strict,
                        most,
                    };
                    correlate(signal, &panels, &cut, rules, progress)?
                } else {
                    scan::scan(
                        &Correlation {
                            signal,
                            panels: &panels,
                            rules,
                            sign,
                        },
                        keep,
                        most,
                        progress,
                    )?
                };
                if self.spec.measure == Measure::GaussianInformation {
                    informations(signal, &chunk, self.panel_options().of, &mut edges);
                }
                let extreme = panels.extreme.len() as u64;
                Ok(ChunkResult {
                    edges,
                    undefined: panels.undefined,
                    extreme,
                })
            }
            Measure::Covariance | Measure::Distance { .. } => {
                let panels = panels(chunk);
                let distance = self.spec.measure != Measure::Covariance;
                let pairs = Moments {
                    signal,
                    panels: &panels,
                    rules,
                    sign,
                    distance,
                };
                let edges = scan::scan(&pairs, keep, most, progress)?;
                let extreme = panels.extreme.len() as u64;
                // A constant node has a covariance (0) and distances.
                let undefined = (panels.undefined.into_iter())
                    .filter(|(_, _, why)| *why == Undefined::NonFinite)
                    .collect();
                Ok(ChunkResult {
                    edges,
                    undefined,
                    extreme,
                })
            }
            Measure::Lagged { lags } => {
                let rows = panels(chunk);
                let shifted: Vec<Panels> = (0..=2 * lags)
                    .map(|shift| {
                        panels(Chunk {
                            start: chunk.start + shift - lags,
                            ..chunk
                        })
                    })
                    .collect();
                let pairs = Lagged {
                    signal,
                    rows: &rows,
                    shifted: &shifted,
                    rules,
                    sign,
                };
                let edges = scan::scan(&pairs, keep, most, progress)?;
                let extreme = rows.extreme.len() as u64;
                Ok(ChunkResult {
                    edges,
                    undefined: rows.undefined,
                    extreme,
                })
            }
            Measure::PhaseLocking | Measure::ImaginaryPhaseLocking | Measure::PhaseConsistency => {
                let phases =
                    Phases::new(signal, chunk, self.arch, self.spec.measure, rules.margin());
                let edges = scan::scan(&phases, keep, most, progress)?;
                Ok(ChunkResult {
                    edges,
                    undefined: phases.undefined,
                    extreme: 0,
                })
            }
            Measure::SpikeTiling { .. } => Err(spikes_only()),
            Measure::Partial => {
                let windows: Vec<_> = (0..chunk.windows)
                    .into_par_iter()
                    .map(|q| {
                        check(progress, "partial correlation")?;
                        partial::window(signal, chunk.start_of(q), chunk.window.length)
                    })
                    .collect::<Result<_>>()?;
                let (mut lists, mut undefined) = (Vec::new(), Vec::new());
                for (q, (list, left_out)) in windows.into_iter().enumerate() {
                    lists.push(list);
                    undefined.extend(
                        left_out
                            .into_iter()
                            .map(|(node, why)| (q as u32, node, why)),
                    );
                }
                let edges = scan::keep_exact(lists, self.nodes, keep, |v| sign.size(v), most)?;
                Ok(ChunkResult {
                    edges,
                    undefined,
                    extreme: 0,
                })
            }
        }
    }
}

/// A chunk's edges, and what was counted.
pub(crate) struct ChunkResult {
    pub(crate) edges: ChunkEdges,
    /// (window, node, why), nodes ascending.
    pub(crate) undefined: Vec<(u32, u32, Undefined)>,
    /// (window, node)s that f32 sums could not hold.
    pub(crate) extreme: u64,
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
    let mut rest = &mut r[..];
    let mut windows = Vec::new();
    for q in 0..chunk.windows {
        let (now, later) = rest.split_at_mut((indptr[q + 1] - indptr[q]) as usize);
        windows.push(now);
        rest = later;
    }
    windows.into_par_iter().enumerate().for_each(|(q, r)| {
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
