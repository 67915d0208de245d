//! Products of two filters, summed over the rest of a segment.

use betz_base::float;
use betz_runtime::psc::{BINOMIAL, Filter, MAX_ORDER};

/// Largest number of states of a filter.
pub(super) const STATES: usize = MAX_ORDER as usize + 1;

/// Furthest that the base step may lie behind, in steps, for each order n. Where τ is long, pairs of
/// spikes that have H steps left lose (span / H)ⁿ of f32's precision to alternating powers; with a
/// base that follows every step all terms are positive and nothing is lost.
const LONGEST_SPAN: [usize; STATES] = [64, 32, 0, 0, 0];

/// A filter on the dataset's clock: h\[m\] = factor·(m/τ)ⁿ·rᵐ.
#[derive(Debug, Clone, Copy)]
pub(super) struct SteppedFilter {
    pub(super) order: usize,
    /// r.
    pub(super) decay: f64,
    /// τ in steps, −1/ln r.
    pub(super) tau_steps: f64,
    /// scale·τⁿ: with powers of m/τ instead of m all numbers stay near one.
    pub(super) factor: f64,
}

impl SteppedFilter {
    pub(super) fn new(filter: Filter, step_seconds: f64) -> Self {
        let decay = filter.decay(step_seconds);
        let tau_steps = -1.0 / float::ln(decay);
        Self {
            order: filter.order as usize,
            decay,
            tau_steps,
            factor: filter.scale(step_seconds) * tau_steps.powi(filter.order as i32),
        }
    }

    /// rᵐ·C(i, p)·(m/τ)^(i−p): what state p of `m` steps ago is to state i now. `m` may be negative.
    pub(super) fn carry(&self, i: usize, p: usize, m: f64) -> f64 {
        float::powf(self.decay, m) * BINOMIAL[i][p] * (m / self.tau_steps).powi((i - p) as i32)
    }

    /// Largest distance of the base, in steps.
    pub(super) fn span(&self) -> usize {
        ((self.tau_steps / 2.0) as usize).min(LONGEST_SPAN[self.order])
    }
}

/// T_i(H) of filters a (the later spike's) and b (the earlier's) for every H, as the module above
/// defines it.
#[derive(Debug)]
pub(super) struct Overlap {
    pub(super) later: SteppedFilter,
    pub(super) earlier: SteppedFilter,
    /// One entry for each H from 0; the last one serves all longer H.
    table: Vec<[f64; STATES]>,
}

impl Overlap {
    /// For segments of up to `longest` steps. Stops where less than 10⁻¹² is left.
    pub(super) fn new(later: SteppedFilter, earlier: SteppedFilter, longest: usize) -> Self {
        let mut sum = [0.0; STATES];
        let mut table = vec![sum];
        let decay = later.decay * earlier.decay;
        let peak = (later.order + earlier.order) as f64 / -float::ln(decay);
        let mut decayed = 1.0;
        for m in 0..longest {
            let terms = terms(later, earlier, 0, m as f64, decayed);
            decayed *= decay;
            let mut settled = true;
            for (sum, term) in sum.iter_mut().zip(terms) {
                *sum += term;
                // Beyond twice the peak a term is at most √decay times the one before.
                settled &= term <= 1e-12 * (1.0 - decay.sqrt()) * *sum;
            }
            table.push(sum);
            if settled && m as f64 > 2.0 * peak {
                break;
            }
        }
        Self {
            later,
            earlier,
            table,
        }
    }

    /// T_i(H), H = `left` steps from the later spike to the end of the sum.
    #[inline(always)]
    pub(super) fn at(&self, left: usize) -> &[f64; STATES] {
        &self.table[left.min(self.table.len() - 1)]
    }

    /// K_qp(H), H = `left`: pairs of spikes before the sum begins add s_aᵀ·K·s_b, s being the
    /// states where it does. T is its first row.
    pub(super) fn history(&self, left: usize) -> [[f64; STATES]; STATES] {
        let (later, earlier) = (self.later, self.earlier);
        let mut kernel = [[0.0; STATES]; STATES];
        let decay = later.decay * earlier.decay;
        let mut decayed = 1.0;
        for m in 0..left.min(self.table.len()) {
            for (q, row) in kernel[..=later.order].iter_mut().enumerate() {
                let terms = terms(later, earlier, q, m as f64, decayed);
                row.iter_mut().zip(terms).for_each(|(k, term)| *k += term);
            }
            decayed *= decay;
        }
        kernel
    }
}

/// Terms that step m after the sum's beginning adds to K_q0, K_q1, …; `decayed` is (r_a·r_b)ᵐ.
#[inline(always)]
fn terms(
    later: SteppedFilter,
    earlier: SteppedFilter,
    q: usize,
    m: f64,
    decayed: f64,
) -> [f64; STATES] {
    let power = (m / later.tau_steps).powi((later.order - q) as i32);
    let common = later.factor * earlier.factor * BINOMIAL[later.order][q] * decayed * power;
    let mut terms = [0.0; STATES];
    for (p, term) in terms[..=earlier.order].iter_mut().enumerate() {
        let power = (m / earlier.tau_steps).powi((earlier.order - p) as i32);
        *term = common * BINOMIAL[earlier.order][p] * power;
    }
    terms
}
