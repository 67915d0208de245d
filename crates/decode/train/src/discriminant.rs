//! Linear discriminant analysis from sums by class (Fisher 1936; one covariance within all classes).

use betz_base::float;
use betz_linear::{Cholesky, Mat};

/// Least share of the steps that a class counts with.
const LEAST_SHARE: f64 = 1e-6;

/// Sums of `features` numbers over the steps of some classes.
pub(crate) struct ClassSums<'a> {
    pub(crate) features: usize,
    /// Σxxᵀ over all steps, (feature, feature) row-major; the lower triangle is read.
    pub(crate) products: &'a [f64],
    /// Σx over the steps of each class, (class, feature) row-major.
    pub(crate) sums: &'a [f64],
    /// Number of steps of each class.
    pub(crate) members: &'a [u64],
}

/// Means of classes and the covariance within them.
pub(crate) struct Scatter {
    /// (feature, class)
    means: Mat<f64>,
    /// The lower triangle.
    within: Mat<f64>,
    /// Share of each class in the steps.
    shares: Vec<f64>,
}

/// Scores of classes: ℓ = Wᵀx + b. A softmax of them gives probabilities if the classes are normal.
pub(crate) struct Scores {
    /// (class, feature) row-major.
    pub(crate) weights: Vec<f64>,
    /// One per class.
    pub(crate) bias: Vec<f64>,
}

impl ClassSums<'_> {
    /// Total number of steps.
    pub(crate) fn steps(&self) -> u64 {
        self.members.iter().sum()
    }

    /// Expects at least one step.
    pub(crate) fn scatter(&self) -> Scatter {
        let (n, total) = (self.features, self.steps());
        let means = self.means();
        let mut within = Mat::<f64>::zeros(n, n);
        for i in 0..n {
            for j in 0..=i {
                let between: f64 = (self.members.iter().enumerate())
                    .map(|(k, &members)| members as f64 * means[(i, k)] * means[(j, k)])
                    .sum();
                within[(i, j)] = (self.products[i * n + j] - between) / total as f64;
            }
        }
        let share = |&members: &u64| (members as f64 / total as f64).max(LEAST_SHARE);
        Scatter {
            means,
            within,
            shares: self.members.iter().map(share).collect(),
        }
    }

    /// The mean of each class. An empty one lies at the mean of all, and is hardly ever chosen.
    fn means(&self) -> Mat<f64> {
        let (n, total) = (self.features, self.steps());
        let overall = |i: usize| self.sums.iter().skip(i).step_by(n).sum::<f64>() / total as f64;
        Mat::from_fn(n, self.members.len(), |i, k| match self.members[k] {
            0 => overall(i),
            count => self.sums[k * n + i] / count as f64,
        })
    }
}

impl Scatter {
    /// The discriminant with `shrinkage` × the mean diagonal added to the covariance's diagonal; `None` if the
    /// covariance is not positive definite then.
    pub(crate) fn scores(&self, shrinkage: f64) -> Option<Scores> {
        let (n, classes) = (self.means.nrows(), self.shares.len());
        let mut shrunk = self.within.clone();
        let added = (shrinkage * self.mean_diagonal()).max(1e-12);
        for i in 0..n {
            shrunk[(i, i)] += added;
        }
        let factor = Cholesky::new(shrunk.as_ref()).ok()?;
        let solved = factor.solve(self.means.as_ref());
        let weights = (0..classes).flat_map(|k| (0..n).map(move |i| (i, k)));
        let bias = (self.shares.iter().enumerate()).map(|(k, share)| {
            let products = (0..n).map(|i| self.means[(i, k)] * solved[(i, k)]);
            float::ln(*share) - products.sum::<f64>() / 2.0
        });
        Some(Scores {
            bias: bias.collect(),
            weights: weights.map(|at| solved[at]).collect(),
        })
    }

    /// Mean variance of a feature within the classes.
    pub(crate) fn mean_diagonal(&self) -> f64 {
        let n = self.means.nrows();
        (0..n).map(|i| self.within[(i, i)]).sum::<f64>() / n as f64
    }
}
