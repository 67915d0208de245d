//! The ridge readout of stage 2, and which features and ridge leave least of what was held out.

use betz_linear::{Cholesky, MatRef};
use rayon::prelude::*;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::text::count;
use betz_gram::NormalEquations;

/// Ridges that are tried, each a part of the mean of the centred sums' diagonal.
pub(crate) const KAPPAS: [f64; 5] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Weights (features × outputs, row-major) and intercepts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weights {
    pub(crate) weights: Vec<f64>,
    pub(crate) intercept: Vec<f64>,
}

/// Residual of one readout.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    /// Number of the subset of features.
    pub(crate) subset: usize,
    pub(crate) kappa: f64,
    /// Σ(x − x̂)² of what was held out, one per output.
    pub(crate) residual: Vec<f64>,
    /// The solution; `None` for a ridge that is too small.
    pub(crate) readout: Option<Weights>,
}

/// The ridge solution of `sums` for the features `subset`, λ = `kappa` × the mean of their centred
/// sums' diagonal; features left out weigh 0.
///
/// # Errors
/// [`ErrorKind::InsufficientData`] without a step or a feature that changes;
/// [`ErrorKind::NotPositiveDefinite`] when the ridge is too small.
pub(crate) fn ridge_readout(
    sums: &NormalEquations,
    subset: &[usize],
    kappa: f64,
) -> Result<Weights> {
    CentredSums::new(sums, subset)?.solve(sums, subset, kappa)
}

/// Residuals on `held` of each of `kappas` with each of `subsets` of the features, solved from
/// `train`: subset by subset, ridge by ridge.
///
/// # Errors
/// As [`ridge_readout`], except that a ridge that is too small is passed over.
pub(crate) fn best_of(
    train: &NormalEquations,
    held: &NormalEquations,
    subsets: &[Vec<usize>],
    kappas: &[f64],
) -> Result<Vec<Candidate>> {
    let solved: Vec<Result<Vec<Candidate>>> = subsets
        .par_iter()
        .enumerate()
        .map(|(number, subset)| {
            let centred = CentredSums::new(train, subset)?;
            let mut candidates = Vec::with_capacity(kappas.len());
            for &kappa in kappas {
                let readout = match centred.solve(train, subset, kappa) {
                    Ok(found) => Some(found),
                    Err(e) if e.kind() == ErrorKind::NotPositiveDefinite => None,
                    Err(e) => return Err(e),
                };
                let residual = match &readout {
                    Some(found) => residuals(held, subset, found),
                    None => vec![f64::INFINITY; held.outputs],
                };
                candidates.push(Candidate {
                    subset: number,
                    kappa,
                    residual,
                    readout,
                });
            }
            Ok(candidates)
        })
        .collect();
    let solved: Result<Vec<Vec<Candidate>>> = solved.into_iter().collect();
    Ok(solved?.concat())
}

/// Σ(x − x̂)² over the steps of `sums`, of each output.
fn residuals(sums: &NormalEquations, subset: &[usize], found: &Weights) -> Vec<f64> {
    let (n, m, t) = (sums.features, sums.outputs, sums.steps as f64);
    let mut product = vec![0.0; m];
    let mut residual: Vec<f64> = (found.intercept.iter().enumerate())
        .map(|(o, c)| sums.output_sq_sum[o] - 2.0 * c * sums.output_sum[o] + c * c * t)
        .collect();
    for &f in subset {
        product.fill(0.0);
        for &other in subset {
            let g = sums.gram[f * n + other];
            let row = &found.weights[other * m..][..m];
            product.iter_mut().zip(row).for_each(|(p, w)| *p += g * w);
        }
        for (o, (residual, product)) in residual.iter_mut().zip(&product).enumerate() {
            let (w, c) = (found.weights[f * m + o], found.intercept[o]);
            *residual +=
                w * (product - 2.0 * sums.upsilon[f * m + o] + 2.0 * c * sums.feature_sum[f]);
        }
    }
    residual.iter_mut().for_each(|r| *r = r.max(0.0));
    residual
}

/// The centred sums of some features. Both matrices are column-major slices, which are copied as a whole: element by
/// element, copies took two fifths of an unoptimised comparison of kinds.
struct CentredSums {
    gram: Vec<f64>,
    upsilon: Vec<f64>,
    scale: f64,
}

impl CentredSums {
    fn new(sums: &NormalEquations, subset: &[usize]) -> Result<Self> {
        let (n, m) = (sums.features, sums.outputs);
        let (mean, output_mean) = (sums.feature_mean(), sums.output_mean());
        let mut gram = Vec::with_capacity(subset.len() * subset.len());
        for &j in subset {
            let (row, sum) = (&sums.gram[j * n..][..n], sums.feature_sum[j]);
            gram.extend(subset.iter().map(|&i| row[i] - sum * mean[i]));
        }
        let mut upsilon = Vec::with_capacity(subset.len() * m);
        for (o, output_mean) in output_mean.iter().enumerate() {
            let centred = |&f: &usize| sums.upsilon[f * m + o] - sums.feature_sum[f] * output_mean;
            upsilon.extend(subset.iter().map(centred));
        }
        let diagonal = gram.iter().step_by(subset.len() + 1);
        let scale = diagonal.sum::<f64>() / subset.len().max(1) as f64;
        if sums.steps == 0 || !scale.is_finite() || scale <= 0.0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "readout: expected features of the latents that change over at least one step, got {} over {}; use a longer part of the recording",
                    count(subset.len() as u128, "feature"),
                    count(sums.steps, "step")
                ),
            ));
        }
        Ok(Self {
            gram,
            upsilon,
            scale,
        })
    }

    fn solve(&self, sums: &NormalEquations, subset: &[usize], kappa: f64) -> Result<Weights> {
        let (size, m) = (subset.len(), sums.outputs);
        let ridge = kappa * self.scale;
        let mut system = self.gram.clone();
        system
            .iter_mut()
            .step_by(size + 1)
            .for_each(|d| *d += ridge);
        let system = MatRef::from_column_major_slice(&system, size, size);
        let factor = Cholesky::new(system).map_err(|_| {
            Error::new(
                ErrorKind::NotPositiveDefinite,
                format!("readout: expected a system that can be solved, got none at a ridge of {kappa:e} of its mean diagonal"),
            )
        })?;
        let solved = factor.solve(MatRef::from_column_major_slice(&self.upsilon, size, m));
        let mut weights = vec![0.0; sums.features * m];
        let mut intercept = sums.output_mean();
        let mean = sums.feature_mean();
        for (i, &f) in subset.iter().enumerate() {
            for (o, intercept) in intercept.iter_mut().enumerate() {
                weights[f * m + o] = solved[(i, o)];
                *intercept -= solved[(i, o)] * mean[f];
            }
        }
        if weights.iter().chain(&intercept).any(|w| !w.is_finite()) {
            return Err(Error::new(
                ErrorKind::NotPositiveDefinite,
                format!(
                    "readout: expected finite weights at a ridge of {kappa:e} of the mean diagonal, got others"
                ),
            ));
        }
        Ok(Weights { weights, intercept })
    }
}
