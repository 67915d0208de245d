//! The ridge that decodes each part best from all others, of sums that were made apart.

use super::{SolveOptions, Sums};
use crate::search::best_ridge;
use betz_base::error::{Error, Result};
use betz_gram::gram::NormalEquations;
use betz_gram::solve::CentredEquations;
use betz_runtime::model::Decoder;

use super::solve::RidgeScore;

impl Sums {
    /// The linear decoder of all `parts` together, at the ridge of ρ × mean diagonal of Γ_c, ρ from 10⁻⁷ to 10, that
    /// leaves least unexplained of each part when it is solved from the others: cross-validation whose folds are the
    /// parts. The second number holds that ridge and R², RMSE over all parts, each decoded without itself.
    ///
    /// Whole numbers are taken away as exactly as they are added: the others' sums are what they would be had the part
    /// never been there. Allocates Γ in f64 three times over beside `parts`.
    ///
    /// # Errors
    /// As [`solve`](Self::solve); `InvalidArgument` for fewer than two parts; those of
    /// [`merge`](Self::merge); `InsufficientData` when no output changes.
    pub fn cross_validate(parts: &[Self], options: &SolveOptions) -> Result<(Decoder, RidgeScore)> {
        let [first, others @ ..] = parts else {
            return Err(few(0));
        };
        if others.is_empty() {
            return Err(few(1));
        }
        let mut all = first.clone();
        others.iter().try_for_each(|part| all.merge(part))?;
        let folds = Folds {
            means: all.means(),
            all: &all,
            parts,
        };
        let whole = all.equations();
        let total = whole.output_total_squares();
        let (rho, left) = best_ridge("cross-validation", |rho| {
            let left = folds.left(rho, options)?;
            let r2 = (left.iter().zip(&total))
                .map(|(left, total)| {
                    if *total > 0.0 {
                        1.0 - left / total
                    } else {
                        f64::NAN
                    }
                })
                .collect();
            Ok((r2, left))
        })?;
        let ridge = rho * whole.mean_variance_sum();
        let fixed = SolveOptions {
            ridge: crate::options::RidgeChoice::Fixed(ridge),
            ..*options
        };
        let outputs = all.form.scores(&left, &total, all.steps);
        Ok((all.solve(&fixed)?, RidgeScore { ridge, outputs }))
    }
}

fn few(got: usize) -> Error {
    Error::argument(format!(
        "cross-validation: expected sums of at least 2 parts, got {got}"
    ))
}

struct Folds<'a> {
    all: &'a Sums,
    /// Of all parts, if their filters start there.
    means: Option<Vec<f64>>,
    parts: &'a [Sums],
}

impl Folds<'_> {
    /// Squares of each output that are left over all parts, each decoded by what the others say at relative ridge `rho`.
    fn left(&self, rho: f64, options: &SolveOptions) -> Result<Vec<f64>> {
        let mut left = vec![0.0; self.all.form.outputs.len()];
        for part in self.parts {
            let others = self.without(part)?;
            let centred = CentredEquations::new(&others)?;
            let ridge = rho * others.mean_variance_sum();
            let names = self.all.names();
            let solution = centred.solve(ridge, options.solver, options.mask, names)?;
            let own = part.equations_without(self.means.as_deref());
            let squares = own.residual_squares(&solution.weights, &solution.intercept);
            left.iter_mut().zip(squares).for_each(|(l, s)| *l += s);
        }
        Ok(left)
    }

    fn without(&self, part: &Sums) -> Result<NormalEquations> {
        let (scale, features) = (&self.all.scale, self.all.form.features());
        let own = part.scale.raised(&part.values, features, scale)?;
        let both = self.all.values.iter().zip(&own);
        let values: Vec<i128> = both.map(|(all, own)| all - own).collect();
        let (steps, means) = (self.all.steps - part.steps, self.means.as_deref());
        Ok(self.all.form.equations((&values, scale), steps, means))
    }
}
