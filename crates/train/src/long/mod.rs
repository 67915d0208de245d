//! Training on recordings that are larger than memory, a stretch of time after the other.
//!
//! Everything that training needs of a recording is a sum over its steps, so a stretch can be summed and forgotten.
//! Three things reach across a seam, and are made whole again:
//!
//! - A filter remembers. A stretch is summed from a *lead* before it on, long enough for what came earlier to have
//!   decayed below rounding, and the sums over the lead are taken away again.
//! - A step is paired with one that lies a delay away. The lead covers that, too: pairs that end in a stretch are
//!   its own, those that end in its lead were the stretch's before.
//! - What an artefact is follows from all steps. So a first pass ([`Survey`]) counts, and later ones know.
//!
//! So the sums are those of the whole to rounding, f32's, in which both paths to Γ work for a while.
//!
//! Sums are added as whole numbers (see [`sums`](crate::sums)): stretches can be summed in any order, anywhere, and
//! give the same bits. [`train`] is the loop that does it here, one stretch after the other; a cluster deals the
//! stretches to its machines and merges [`Survey`]s, [`Partial`]s and scores.

mod evaluate;
mod job;
mod partial;
mod survey;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;

use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_device::Device;
use betz_recording::{Dataset, OutputInfo};

use crate::device::Trained;
use crate::options::TrainOptions;
use crate::search::Search;
use crate::sums::Sums;

pub use evaluate::{Decoded, evaluate};
pub use job::{Groups, Job};
pub use partial::Partial;
pub use survey::Survey;

/// A recording on its clock that is read a stretch at a time.
pub trait Read {
    /// The `steps` of the recording, the first of them as step 0; segments that reach beyond are cut there.
    ///
    /// # Errors
    /// What reading says.
    fn read(&mut self, steps: Range<i64>) -> Result<Dataset>;
}

impl<F: FnMut(Range<i64>) -> Result<Dataset>> Read for F {
    fn read(&mut self, steps: Range<i64>) -> Result<Dataset> {
        self(steps)
    }
}

/// What is known of a recording before anything of it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// Length of one step in seconds.
    pub step_seconds: f64,
    /// Number of steps.
    pub steps: i64,
    /// One name per channel.
    pub channel_names: Vec<String>,
    /// Name and unit of each output.
    pub outputs: Vec<OutputInfo>,
}

/// What training in stretches is told.
#[derive(Debug, Clone, PartialEq)]
pub struct LongOptions {
    /// As for training in memory.
    pub train: TrainOptions,
    /// Cross-validation; `None`: the bank and the ridge of `train` as they are.
    pub search: Option<Search>,
    /// Silent channels have no part in Γ and are masked; otherwise they are as others, for the solver to refuse.
    pub leave_out_silent: bool,
}

/// Trains a linear decoder on the recording that `read` reads, in the stretches between `cuts` (steps, ascending,
/// from 0 to the recording's end). What [`train_validated_on`](crate::train_validated_on) gives, or
/// [`train_on`](crate::train_on) without a search, to rounding.
///
/// Memory: the sums of all folds and of a stretch's, and one stretch with its lead. The recording is read once to
/// survey it, once for each bank, and once for the scores.
///
/// # Errors
/// As in memory, and what reading says.
pub fn train(
    device: &Device,
    read: &mut dyn Read,
    outline: &Outline,
    cuts: &[i64],
    options: &LongOptions,
    progress: &dyn Progress,
) -> Result<Trained> {
    let mut job = surveyed(device, read, outline, cuts, options, progress)?;
    for bank in 0..job.banks() {
        let folds = job.summed(read, cuts, (bank, Groups::Wanted), progress)?;
        job.take(folds, progress)?;
    }
    let whole = match job.wants_whole() {
        Some(bank) => Some(job.summed(read, cuts, (bank, Groups::Whole), progress)?),
        None => None,
    };
    let scores = (job.told(cuts, "score", progress))
        .map(|stretch| job.score(read, stretch?))
        .collect::<Result<Vec<_>>>()?;
    job.finish(whole, &scores)
}

/// The sums over the recording that `read` reads, as [`Sums::over`] gives them in memory, to rounding.
///
/// # Errors
/// As there, and what reading says.
pub fn sums(
    device: &Device,
    read: &mut dyn Read,
    outline: &Outline,
    cuts: &[i64],
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<Sums> {
    let options = LongOptions {
        train: options.clone(),
        search: None,
        leave_out_silent: false,
    };
    let job = surveyed(device, read, outline, cuts, &options, progress)?;
    let whole = job.summed(read, cuts, (0, Groups::Whole), progress)?;
    job.into_sums(whole)
}

fn surveyed(
    device: &Device,
    read: &mut dyn Read,
    outline: &Outline,
    cuts: &[i64],
    options: &LongOptions,
    progress: &dyn Progress,
) -> Result<Job> {
    let mut survey = Survey::nothing(outline);
    for stretch in job::told(cuts, "survey", progress) {
        survey.append(&Survey::of(read, stretch?)?)?;
    }
    Job::new(device, outline, survey, options)
}
