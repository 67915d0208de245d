//! Modularity, with signs.

use betz_base::{Error, Result};

use super::{Graph, one_per_node};

/// Treatment of negative weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signs {
    /// Rubinov and Sporns' Q* (2011): positive weights over their sum, negative ones over the sum of all.
    #[default]
    Asymmetric,
    /// Gómez, Jensen and Arenas (2009): both over the sum of all.
    Symmetric,
    /// Magnitudes.
    Ignored,
}

/// A quality of partitions: Q = Σ_c [W_c − α·X_c² + β·Y_c²], W_c the (scaled) weights inside, twice
/// each, X_c and Y_c sums of what nodes bring along.
#[derive(Debug, Clone)]
pub(crate) struct Quality {
    /// Factors of positive and of negative weights.
    pub(crate) plus: f64,
    pub(crate) minus: f64,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    /// (x, y) of each node.
    pub(crate) brings: Vec<(f64, f64)>,
}

impl Quality {
    pub(crate) fn weight(&self, w: f64) -> f64 {
        if w > 0.0 {
            self.plus * w
        } else {
            self.minus * w
        }
    }

    /// Modularity with resolution γ.
    pub(crate) fn modularity(graph: &Graph, resolution: f64, signs: Signs) -> Self {
        let brings: Vec<(f64, f64)> = match signs {
            Signs::Ignored => (super::measures::strengths(graph).into_iter())
                .map(|(p, m)| (p + m, 0.0))
                .collect(),
            _ => super::measures::strengths(graph),
        };
        let (plus, minus) = brings
            .iter()
            .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let over = |of: f64| if of > 0.0 { 1.0 / of } else { 0.0 };
        let (a, b) = match signs {
            Signs::Asymmetric => (over(plus), over(plus + minus)),
            Signs::Symmetric => (over(plus + minus), over(plus + minus)),
            Signs::Ignored => (over(plus), -over(plus)),
        };
        Self {
            plus: a,
            // `weight` multiplies a negative w: −b·|w| inside.
            minus: b,
            alpha: resolution * a * over(plus),
            beta: if signs == Signs::Ignored {
                0.0
            } else {
                resolution * b * over(minus)
            },
            brings,
        }
    }

    /// The constant Potts model: Σ_c [Σ w inside − γ·n_c(n_c − 1)/2]·2, up to a constant, signed.
    pub(crate) fn potts(graph: &Graph, resolution: f64) -> Self {
        Self {
            plus: 1.0,
            minus: 1.0,
            alpha: resolution,
            beta: 0.0,
            brings: vec![(1.0, 0.0); graph.nodes()],
        }
    }

    pub(crate) fn of(&self, graph: &Graph, communities: &[u32]) -> f64 {
        let mut inside = 0.0;
        for (i, j, w) in graph.pairs() {
            if communities[i as usize] == communities[j as usize] {
                inside += 2.0 * self.weight(f64::from(w));
            }
        }
        let mut brought: Vec<(u32, (f64, f64))> = communities
            .iter()
            .copied()
            .zip(self.brings.iter().copied())
            .collect();
        brought.sort_by_key(|(c, _)| *c);
        let expected: f64 = (brought.chunk_by(|a, b| a.0 == b.0))
            .map(|c| {
                let (x, y) = c
                    .iter()
                    .fold((0.0, 0.0), |a, (_, b)| (a.0 + b.0, a.1 + b.1));
                self.alpha * x * x - self.beta * y * y
            })
            .sum();
        inside - expected
    }
}

/// Modularity of a partition: Σ_c [w_c/2m − γ(K_c/2m)²] for weights of one sign; with both, that of the
/// positive ones less that of the negative ones, each as large as `signs` says
/// (`networkx.community.modularity`, `bct.modularity_und_sign`).
///
/// # Errors
/// [`Mismatch`](betz_base::ErrorKind::Mismatch) unless there is a community for each node,
/// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a resolution that is negative or not finite.
pub fn modularity(
    graph: &Graph,
    communities: &[u32],
    resolution: f64,
    signs: Signs,
) -> Result<f64> {
    one_per_node(graph, communities)?;
    check_resolution(resolution)?;
    Ok(Quality::modularity(graph, resolution, signs).of(graph, communities))
}

pub(crate) fn check_resolution(resolution: f64) -> Result<()> {
    if !(resolution >= 0.0 && resolution.is_finite()) {
        return Err(Error::argument(format!(
            "resolution: expected 0 or more, got {resolution}"
        )));
    }
    Ok(())
}
