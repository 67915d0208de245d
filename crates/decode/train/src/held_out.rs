//! A fold that is held out: the system of everything else, solved at any ridge, and what the solution
//! leaves unexplained of the fold.

mod cuda;

use std::cell::OnceCell;

use betz_base::error::{ErrorKind, Result};
use betz_device::Placement;
use betz_gram::NormalEquations;
use betz_gram::solve::{CentredEquations, FeatureNames, MaskPolicy, Solution, Solver};
use rayon::prelude::*;

/// How λ follows from the sums trained on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ridge {
    /// ρ, a part of the mean of Γ_c's diagonal.
    Relative(f64),
    /// λ a step.
    PerStep(f64),
}

impl Ridge {
    /// λ for `sums` of so many features, in these or in other coordinates.
    pub(super) fn lambda(self, sums: &NormalEquations, features: usize) -> f64 {
        let per_feature = sums.features as f64 / features as f64;
        match self {
            Self::Relative(rho) => rho * sums.mean_variance_sum() * per_feature,
            Self::PerStep(lambda) => lambda * sums.steps as f64,
        }
    }
}

/// Settings for solving a fold's system: placement and solver.
#[derive(Clone, Copy)]
pub(super) struct SolveTask<'a> {
    pub(super) placement: &'a Placement,
    /// Number of features, whatever the coordinates of the sums.
    pub(super) features: usize,
    pub(super) solver: Solver,
    pub(super) mask: MaskPolicy,
    pub(super) names: FeatureNames<'a>,
}

/// One fold and the sums of everything else.
pub(super) struct HeldOut<'a> {
    solving: SolveTask<'a>,
    fold: &'a NormalEquations,
    rest: NormalEquations,
    /// The system where the CPU solves it, made when it first does.
    centred: OnceCell<CentredEquations>,
    there: Option<cuda::OnDevice<'a>>,
}

impl<'a> HeldOut<'a> {
    /// `fold` is part of `total`.
    ///
    /// # Errors
    /// Returns the errors of the device that [`Placement::or_cpu`] passes on.
    pub(super) fn new(
        solving: SolveTask<'a>,
        total: &NormalEquations,
        fold: &'a NormalEquations,
    ) -> Result<Self> {
        let mut rest = total.clone();
        rest.subtract(fold)?;
        Ok(Self {
            there: cuda::OnDevice::new(solving.placement, fold, &rest)?,
            solving,
            fold,
            rest,
            centred: OnceCell::new(),
        })
    }

    /// The weights at `ridge`.
    ///
    /// # Errors
    /// As [`CentredEquations::new`] and [`CentredEquations::solve`]; those of the device.
    pub(super) fn solve(&self, ridge: Ridge) -> Result<Solution> {
        let SolveTask {
            solver,
            mask,
            names,
            ..
        } = self.solving;
        let lambda = ridge.lambda(&self.rest, self.solving.features);
        if let Some(there) = self.there() {
            let solved = there.solve(lambda, solver);
            if let Some(Some(found)) = self.solving.placement.or_cpu(solved)? {
                return Ok(found.into_solution(names.bank.len()));
            }
        }
        self.centred()?.solve(lambda, solver, mask, names)
    }

    /// The weights at each of `ridges` by the CPU.
    ///
    /// # Errors
    /// The errors of [`CentredEquations::new`].
    fn solve_side_by_side(&self, ridges: &[Ridge]) -> Result<Vec<Result<Solution>>> {
        let SolveTask {
            features,
            solver,
            mask,
            names,
            ..
        } = self.solving;
        let (centred, rest) = (self.centred()?, &self.rest);
        let solve =
            |ridge: &Ridge| centred.solve(ridge.lambda(rest, features), solver, mask, names);
        Ok(ridges.par_iter().map(solve).collect())
    }

    /// The data on the device; `None` if the operation has returned to the CPU.
    fn there(&self) -> Option<&cuda::OnDevice<'a>> {
        let given_up = self.solving.placement.contexts().is_empty();
        self.there.as_ref().filter(|_| !given_up)
    }

    /// The sums of everything else.
    pub(super) fn rest(&self) -> &NormalEquations {
        &self.rest
    }

    fn centred(&self) -> Result<&CentredEquations> {
        if let Some(made) = self.centred.get() {
            return Ok(made);
        }
        let made = CentredEquations::new(&self.rest)?;
        Ok(self.centred.get_or_init(|| made))
    }

    /// Σ (x − x̂)² over the fold's steps, of each output, at each of `ridges`; an error for a ridge that
    /// is too small to solve with. If `side_by_side`, the CPU solves the systems of all ridges at once.
    ///
    /// # Errors
    /// As [`HeldOut::solve`], for anything else.
    pub(super) fn residuals(
        &self,
        ridges: &[Ridge],
        side_by_side: bool,
    ) -> Result<Vec<Result<Vec<f64>>>> {
        let solved = match side_by_side && self.there.is_none() {
            true => self.solve_side_by_side(ridges)?,
            false => ridges.iter().map(|&ridge| self.solve(ridge)).collect(),
        };
        let mut solutions = Vec::with_capacity(ridges.len());
        for solved in solved {
            match solved {
                Err(e) if e.kind() != ErrorKind::NotPositiveDefinite => return Err(e),
                solved => solutions.push(solved),
            }
        }
        // One product of Γ for all ridges: their weights side by side.
        let (n, m) = (self.fold.features, self.fold.outputs);
        let solved: Vec<&Solution> = solutions.iter().flatten().collect();
        let columns = solved.len() * m;
        let mut weights = vec![0.0; n * columns];
        for (s, solution) in solved.iter().enumerate() {
            for (f, row) in solution.weights.chunks_exact(m).enumerate() {
                weights[f * columns + s * m..][..m].copy_from_slice(row);
            }
        }
        let product = self.gram_times(&weights, columns)?;
        let mut at = 0;
        Ok(solutions
            .into_iter()
            .map(|solution| {
                let solution = solution?;
                let first = at * m;
                at += 1;
                let gram_weight = |f: usize, o: usize| product[f * columns + first + o];
                let (weights, intercept) = (&solution.weights, &solution.intercept);
                Ok(self.fold.residuals_of(weights, intercept, gram_weight))
            })
            .collect())
    }

    /// The fold's Γ times `weights`, features × `columns`, row-major.
    fn gram_times(&self, weights: &[f64], columns: usize) -> Result<Vec<f64>> {
        if let Some(there) = self.there() {
            let product = there.gram_times(weights, columns);
            if let Some(product) = self.solving.placement.or_cpu(product)? {
                return Ok(product);
            }
        }
        Ok(self.fold.gram_times(weights, columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_gram::cases;
    use betz_gram::gram::{GramPath, normal_equations};

    /// With `device`, what folds leave is what each solution leaves by itself, and solutions are those of
    /// the plain system; how many were compared.
    pub(super) fn compare(placement: &Placement) -> usize {
        let ridges = [
            Ridge::Relative(1e-3),
            Ridge::PerStep(0.1),
            Ridge::Relative(1.0),
        ];
        let mut compared = 0;
        for case in cases::all() {
            let data = &case.data;
            let names = FeatureNames {
                channels: &data.channel_names,
                bank: &case.bank,
            };
            let sums = |segments: &[_]| {
                let mut part = data.clone();
                part.segments = segments.to_vec();
                let (bank, delay) = (&case.bank, case.delay_steps);
                normal_equations(&part, bank, None, delay, GramPath::Event, &()).map(|f| f.0)
            };
            let (first, others) = data.segments.split_at(data.segments.len() / 2);
            let (fold, mut total) = (sums(first).unwrap(), sums(others).unwrap());
            let silent = total.mean_variance_sum() == 0.0;
            if total.steps == 0 || fold.steps == 0 || total.features == 0 || silent {
                continue;
            }
            total.add(&fold).unwrap();
            let (solver, mask) = (Solver::Cholesky, MaskPolicy::Refuse);
            let solving = SolveTask {
                placement,
                features: total.features,
                solver,
                mask,
                names,
            };
            let held = HeldOut::new(solving, &total, &fold).unwrap();
            for side_by_side in [false, true] {
                let refused = held.residuals(&[ridges[0], Ridge::Relative(f64::NAN)], side_by_side);
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
            }
            let left = held.residuals(&ridges, false).unwrap();
            if placement.contexts().is_empty() {
                let at_once = held.residuals(&ridges, true).unwrap();
                assert_eq!(at_once, left, "{}", case.name);
            }
            for (left, ridge) in left.into_iter().zip(ridges) {
                let solution = held.solve(ridge).unwrap();
                let (weights, intercept) = (&solution.weights, &solution.intercept);
                let expected = fold.residual_squares(weights, intercept);
                let left = left.unwrap();
                for ((got, expected), all) in left.iter().zip(expected).zip(&fold.output_sq_sum) {
                    assert!((got - expected).abs() <= 1e-9 * all, "{}", case.name);
                }
                let plain = CentredEquations::new(&held.rest).unwrap();
                let lambda = ridge.lambda(&held.rest, held.rest.features);
                let plain = plain.solve(lambda, solver, mask, names);
                let plain = plain.unwrap();
                let size = plain.weights.iter().fold(0.0, |s: f64, w| s.max(w.abs()));
                for (got, expected) in weights.iter().zip(&plain.weights) {
                    assert!((got - expected).abs() <= 1e-6 * size, "{}", case.name);
                }
                compared += 1;
            }
        }
        compared
    }

    #[test]
    fn residuals_are_those_of_each_solution_by_itself() {
        let compared = compare(&Placement::cpu());
        assert!(compared >= 12, "{compared}");
    }

    #[test]
    fn a_ridge_too_small_leaves_the_others() {
        let sums = |steps, scale: f64| NormalEquations {
            features: 2,
            outputs: 1,
            steps,
            // Two features that are one.
            gram: vec![4.0 * scale; 4],
            upsilon: vec![scale; 2],
            feature_sum: vec![0.0; 2],
            output_sum: vec![0.0],
            output_sq_sum: vec![scale],
        };
        let (total, fold) = (sums(30, 3.0), sums(10, 1.0));
        let bank = cases::bank(&[(3.0, 0)]);
        let (channels, placement) = (["a".to_owned(), "b".to_owned()], Placement::cpu());
        let solving = SolveTask {
            placement: &placement,
            features: 2,
            solver: Solver::Cholesky,
            mask: MaskPolicy::Refuse,
            names: FeatureNames {
                channels: &channels,
                bank: &bank,
            },
        };
        let held = HeldOut::new(solving, &total, &fold).unwrap();
        let ridges = [0.5, 0.0, 1e-3].map(Ridge::Relative);
        let left = held.residuals(&ridges, true).unwrap();
        assert!(left[0].is_ok() && left[2].is_ok());
        let refused = left[1].as_ref().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotPositiveDefinite);
        // The smaller the ridge, the closer: φ = 1/8 for both, which leaves 1 − 1/4.
        let [best] = left[2].as_ref().unwrap()[..] else {
            panic!()
        };
        assert!((best - 0.75).abs() < 1e-3 && best < left[0].as_ref().unwrap()[0]);
    }
}
