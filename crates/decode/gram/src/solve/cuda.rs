//! The same system on a CUDA device: factored in f32, refined to f64; in f64 where that fails.

use super::{PIVOT_TOLERANCE, Solution, Solver};
use crate::gram::cuda::{DeviceSums, Gram};
use crate::parts::{FACTOR, INVERSE, WEIGHTS};
use betz_base::error::{Error, ErrorKind, Result};
use betz_device::cuda::{Buffer, Context, Factor, Kernel, MOST_BLOCKS};
use betz_kernels::Arguments;
use betz_kernels::solve::{
    CentreGram, CentreUpsilon, Correct, MeasureF32, MeasureF64, MirrorLower, Residual,
};

/// Refinement stops when the last correction is below this part of the weights.
const CONVERGED: f64 = 1e-11;

/// Corrections that are tried in f32 before the system is factored in f64.
const MOST_CORRECTIONS: usize = 8;

/// Pivots below this part of their diagonal element are left to f64.
const DOUBTFUL_PIVOT: f64 = 1e-4;

/// Weights (features × outputs, row-major) and intercept.
pub struct DeviceSolution {
    pub(crate) weights: Vec<f64>,
    pub(crate) intercept: Vec<f64>,
    /// Σa, one per feature.
    pub(crate) feature_sums: Vec<f64>,
}

impl DeviceSolution {
    /// The same with channels of `filters` filters that never respond masked.
    pub fn into_solution(self, filters: usize) -> Solution {
        let channels = self.feature_sums.chunks_exact(filters);
        Solution {
            // No sum, no response: that of a channel with spikes is not exactly zero.
            channel_mask: channels
                .map(|sums| sums.iter().any(|&sum| sum != 0.0))
                .collect(),
            weights: self.weights,
            intercept: self.intercept,
        }
    }
}

/// Starts the library and the kernels that [`solve`] needs, which a process's first solution would
/// wait for. A failure is left for [`solve`] to report.
pub fn prepare(context: &Context) {
    let _ = context.start_solver();
    let _ = context.load::<CentreGram>(&[], 0);
}

/// Solves (Γ_c + λI) φ = Υ_c on the device. `None` when a pivot is not positive by the measure of
/// [`PIVOT_TOLERANCE`], a value is not finite or the ridge is none to solve with: the CPU's solver then
/// says what it is, or masks the channel.
///
/// # Errors
/// [`ErrorKind::InsufficientData`] without features, outputs or steps; those of the device.
pub fn solve(
    context: &Context,
    sums: &DeviceSums,
    ridge: f64,
    solver: Solver,
) -> Result<Option<DeviceSolution>> {
    // Measured on an H200, N = 1,000: three rounds of triangular solves in f32 take longer than one
    // factorisation and one round in f64.
    solve_by(context, sums, ridge, solver, !context.fast_double())
}

/// [`solve`], `None` also where Γ is not on the device, no room is left beside it or it has more rows than
/// a launch; with f32 and refinement tried first or not.
pub(crate) fn solve_by(
    context: &Context,
    sums: &DeviceSums,
    ridge: f64,
    solver: Solver,
    refine: bool,
) -> Result<Option<DeviceSolution>> {
    let (n, m) = (sums.features, sums.outputs);
    if n == 0 || m == 0 || sums.steps == 0 {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "solve: expected at least one feature, output and paired step, got {n} features, {m} outputs, {} steps",
                sums.steps
            ),
        ));
    }
    let enough = ridge > 0.0 || (ridge == 0.0 && sums.steps > n as u64);
    let Gram::Device(gram) = &sums.gram else {
        return Ok(None);
    };
    if !(ridge.is_finite() && enough && fits(context, n, m, 0)?) {
        return Ok(None);
    }
    let refine = refine && solver == Solver::Cholesky;
    context.phase(FACTOR)?;
    let system = System::new(context, sums, gram, ridge, refine)?;
    let solved = match solver {
        Solver::Cholesky => match system.refined()? {
            Some(weights) => Some(weights),
            None => system.in_f64(false)?,
        },
        Solver::Inverse => system.in_f64(true)?,
    };
    let Some(columns) = solved else {
        return Ok(None);
    };
    let rows = context.download(&sums.upsilon, n * (m + 1))?;
    let mut intercept = context.download(&sums.output_mean, m)?;
    let mut weights = vec![0.0; n * m];
    for (i, row) in rows.chunks_exact(m + 1).enumerate() {
        let mean = row[m] / sums.steps as f64;
        for (o, c) in intercept.iter_mut().enumerate() {
            let weight = columns[o * n + i];
            weights[i * m + o] = weight;
            *c -= weight * mean;
        }
    }
    Ok(Some(DeviceSolution {
        weights,
        intercept,
        feature_sums: rows.chunks_exact(m + 1).map(|row| row[m]).collect(),
    }))
}

/// True when a system of `n` features and `m` outputs and its factor fit beside Γ and `others` bytes, and
/// its rows a launch.
pub fn fits(context: &Context, n: usize, m: usize, others: u64) -> Result<bool> {
    // Γ_c in f64 and f32 and a factor; right sides and weights; what cuSOLVER works in.
    let (rows, m) = (n as u64, m as u64);
    let needed = 20 * rows * rows + 64 * rows * (m + 64) + (1 << 20) + others;
    Ok(rows <= u64::from(MOST_BLOCKS) && needed <= context.available_memory()?)
}

/// A = Γ_c + λI and B = Υ_c.
struct System<'a> {
    context: &'a Context,
    n: usize,
    m: usize,
    matrix: Buffer<f64>,
    right: Buffer<f64>,
    /// Both in f32, where that is tried first.
    rounded: Option<(Buffer<f32>, Buffer<f32>)>,
}

impl<'a> System<'a> {
    fn new(
        context: &'a Context,
        sums: &DeviceSums,
        gram: &Buffer<f64>,
        ridge: f64,
        refine: bool,
    ) -> Result<Self> {
        let (n, m) = (sums.features, sums.outputs);
        let mut system = Self {
            context,
            n,
            m,
            matrix: context.alloc(n * n)?,
            right: context.alloc(n * m)?,
            rounded: match refine {
                true => Some((context.alloc(n * n)?, context.alloc(n * m)?)),
                false => None,
            },
        };
        let (matrix_f32, right_f32) = match &mut system.rounded {
            Some((matrix, right)) => (Some(matrix.write()), Some(right.write())),
            None => (None, None),
        };
        let (order, outputs) = (n as i32, m as i32);
        let centre = CentreGram {
            gram: gram.read(),
            sums: sums.upsilon.read(),
            n: order,
            outputs,
            steps: sums.steps as f64,
            ridge,
            a: system.matrix.write(),
            rounded: matrix_f32.into(),
        };
        let blocks = n.div_ceil(256) as u32;
        context
            .load::<CentreGram>(&[], 0)?
            .launch((blocks, n as u32, 1), 256, centre)?;
        let centre = CentreUpsilon {
            sums: sums.upsilon.read(),
            mean: sums.output_mean.read(),
            n: order,
            outputs,
            b: system.right.write(),
            rounded: right_f32.into(),
        };
        context
            .load::<CentreUpsilon>(&[], 0)?
            .launch((blocks, m as u32, 1), 256, centre)?;
        Ok(system)
    }

    fn load<A: Arguments>(&self) -> Result<Kernel> {
        self.context.load::<A>(&[], 0)
    }

    /// Factors in f32 and corrects in f64 until corrections vanish; `None` when they do not, or it is
    /// not to be tried.
    fn refined(&self) -> Result<Option<Vec<f64>>> {
        let (context, n, m) = (self.context, self.n, self.m);
        let Some((matrix, right)) = &self.rounded else {
            return Ok(None);
        };
        let mut factor: Buffer<f32> = context.alloc(n * n)?;
        context.copy(matrix, &mut factor)?;
        let mut status: Buffer<i32> = context.zeros(1)?;
        let mut solve_status: Buffer<i32> = context.zeros(1)?;
        f32::cholesky(context, n, &mut factor, &mut status)?;
        context.phase(WEIGHTS)?;
        let mut correction: Buffer<f32> = context.alloc(n * m)?;
        context.copy(right, &mut correction)?;
        let mut weights: Buffer<f64> = context.alloc(n * m)?;
        let mut product: Buffer<f64> = context.alloc(n * m)?;
        let mut norms: Buffer<f64> = context.alloc(3)?;
        let (correct, residual) = (self.load::<Correct>()?, self.load::<Residual>()?);
        let measure = self.load::<MeasureF32>()?;
        let (count, order) = ((n * m) as i32, n as i32);
        let blocks = ((n * m).div_ceil(256) as u32, 1, 1);
        let mut previous = f64::INFINITY;
        for round in 0..MOST_CORRECTIONS {
            if round > 0 {
                context.symmetric_times(n, m, &self.matrix, &weights, &mut product)?;
                let arguments = Residual {
                    b: self.right.read(),
                    product: product.read(),
                    count,
                    rounded: correction.write(),
                };
                residual.launch(blocks, 256, arguments)?;
            }
            f32::cholesky_solve(context, n, m, &factor, &mut correction, &mut solve_status)?;
            let arguments = Correct {
                x: weights.update(),
                correction: correction.read(),
                count,
                first: i32::from(round == 0),
            };
            correct.launch(blocks, 256, arguments)?;
            // The first two are always needed; asking costs a round trip.
            if round < 2 {
                continue;
            }
            let arguments = MeasureF32 {
                x: weights.read(),
                correction: correction.read(),
                count,
                a: self.matrix.read(),
                factor: factor.read(),
                n: order,
                norms: norms.write(),
            };
            measure.launch((1, 1, 1), 256, arguments)?;
            let found = context.download(&norms, 3)?;
            if round == 2 && context.download(&status, 1)?[0] != 0 {
                return Ok(None);
            }
            let change = found[1] / found[0].max(f64::MIN_POSITIVE);
            if !found[1].is_finite() || found[1] >= 1e300 || found[2] < DOUBTFUL_PIVOT {
                return Ok(None);
            }
            if found[1] <= CONVERGED * found[0] {
                return context.download(&weights, n * m).map(Some);
            }
            if change > 0.25 * previous {
                return Ok(None);
            }
            previous = change;
        }
        Ok(None)
    }

    /// Factors in f64; with `inverse`, through the explicit inverse. `None` at a pivot that is not
    /// positive.
    fn in_f64(&self, inverse: bool) -> Result<Option<Vec<f64>>> {
        let (context, n, m) = (self.context, self.n, self.m);
        let mut factor: Buffer<f64> = context.alloc(n * n)?;
        context.copy(&self.matrix, &mut factor)?;
        let mut status: Buffer<i32> = context.zeros(1)?;
        f64::cholesky(context, n, &mut factor, &mut status)?;
        let mut norms: Buffer<f64> = context.alloc(3)?;
        let (count, order) = ((n * m) as i32, n as i32);
        let arguments = MeasureF64 {
            x: self.right.read(),
            correction: self.right.read(),
            count,
            a: self.matrix.read(),
            factor: factor.read(),
            n: order,
            norms: norms.write(),
        };
        self.load::<MeasureF64>()?
            .launch((1, 1, 1), 256, arguments)?;
        context.phase(if inverse { INVERSE } else { WEIGHTS })?;
        // Solved before anyone knows whether the factor is sound: asking would cost a round trip.
        let mut solve_status: Buffer<i32> = context.zeros(1)?;
        let mut weights: Buffer<f64> = context.alloc(n * m)?;
        if inverse {
            f64::cholesky_inverse(context, n, &mut factor, &mut solve_status)?;
            let arguments = MirrorLower {
                a: factor.update(),
                n: order,
            };
            self.load::<MirrorLower>()?.launch(
                (n.div_ceil(256) as u32, n as u32, 1),
                256,
                arguments,
            )?;
            context.phase(WEIGHTS)?;
            context.symmetric_times(n, m, &factor, &self.right, &mut weights)?;
        } else {
            context.copy(&self.right, &mut weights)?;
            f64::cholesky_solve(context, n, m, &factor, &mut weights, &mut solve_status)?;
        }
        let found = context.download(&norms, 3)?;
        if context.download(&status, 1)?[0] != 0 || found[1] >= 1e300 || found[2] <= PIVOT_TOLERANCE
        {
            return Ok(None);
        }
        let weights = context.download(&weights, n * m)?;
        Ok(weights.iter().all(|w| w.is_finite()).then_some(weights))
    }
}
