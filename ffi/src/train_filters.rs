//! Filters of samples, and the solver, in a configuration of training.

use std::ffi::c_char;

use betz::psc::SampledFilter;
use betz::train::Solver;

use crate::cast;
use crate::enum_bits::enum_bits;
use crate::failure::{Failure, Result};
use crate::grow;
use crate::train::betz_train_config;

/// A filter of any shape as samples of its impulse response, one per step of the model. It acts from step `start` after a
/// spike to step `start` + `n_samples` - 1. Samples carry no step of their own: resample those of another step
/// before the call. Each new sample is the mean of the curve over one step, as the command line does with files.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_filter_sampled {
    /// The samples: finite, at most 1,048,576, and one of them other than 0.
    pub samples: *const f64,
    /// Number of samples.
    pub n_samples: usize,
    /// Steps from a spike to the first sample, within 1,048,576. Below 0 the filter looks ahead: such models decode whole
    /// recordings with the command line, and sessions refuse them.
    pub start: i64,
    /// Name in messages and in the model, UTF-8; NULL: "sampled0", "sampled1", ...
    pub name: *const c_char,
    /// 0: scale the samples to a sum of 1, as recursive filters are. 1: keep them as they are.
    pub keep_gain: u32,
    /// Zero.
    pub reserved: u32,
}

/// Method that solves the linear system. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_solver {
    /// Cholesky's factor and two triangular solves.
    BETZ_SOLVER_CHOLESKY = 0,
    /// The explicit inverse (Galbraith 2010, eq. 5.3): slower and less accurate, for comparison.
    BETZ_SOLVER_INVERSE = 1,
}

/// The solver that `config` asks for.
pub(crate) fn read_solver(config: &betz_train_config) -> Result<Solver> {
    match enum_bits(&config.solver) {
        0 => Ok(Solver::Cholesky),
        1 => Ok(Solver::Inverse),
        _ => Err(Failure::Argument {
            name: "config->solver",
            expected: "a value of betz_solver",
        }),
    }
}

/// The filters of samples, on the configuration's step.
///
/// # Safety
/// The configuration's arrays are as the documentation of their fields says.
pub(crate) unsafe fn read_sampled(config: &betz_train_config) -> Result<Vec<SampledFilter>> {
    let (filters, count) = (config.sampled_filters, config.n_sampled_filters);
    // SAFETY: the caller's promise.
    let filters = unsafe { cast::slice(filters, count, "config->sampled_filters")? };
    let mut made = Vec::with_capacity(filters.len());
    for (i, filter) in filters.iter().enumerate() {
        // SAFETY: the caller's promise.
        let (samples, name) = unsafe {
            let field = "config->sampled_filters[].samples";
            (
                cast::slice(filter.samples, filter.n_samples, field)?,
                match filter.name.is_null() {
                    true => format!("sampled{i}"),
                    false => cast::text(filter.name, "config->sampled_filters[].name")?.to_owned(),
                },
            )
        };
        grow::zero(filter.reserved, "config->sampled_filters[].reserved")?;
        let keep = grow::flag(filter.keep_gain, "config->sampled_filters[].keep_gain")?;
        let filter = SampledFilter::new(name, samples.to_vec(), config.step_seconds, filter.start)?;
        made.push(match keep {
            true => filter,
            false => filter.with_unit_sum()?,
        });
    }
    Ok(made)
}
