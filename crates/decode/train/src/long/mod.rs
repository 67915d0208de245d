//! Training on recordings that are larger than memory, a chunk of time after the other.
//!
//! Everything that training needs of a recording is a sum over its steps, so a chunk can be summed and forgotten.
//! Three things reach across a seam, and are made whole again:
//!
//! - A filter remembers. A chunk is summed from a *lead* before it on, long enough for what came earlier to have
//!   decayed below rounding, and the sums over the lead are taken away again.
//! - A step is paired with one that lies a delay away. The lead covers that, too: pairs that end in a chunk are
//!   its own, those that end in its lead were the chunk's before.
//! - The limit for artefacts follows from all steps. So a first pass, the survey, counts spikes; later passes use its result.
//!
//! So the sums are those of the whole to rounding, f32's, in which both paths to Γ work for a while.
//!
//! Sums are added as whole numbers (see [`sums`](crate::sums)): chunks can be summed in any order, anywhere, and
//! give the same bits. So several processes can share them out ([`Team`]): each sums its own, and all know the sums.

mod ahead;
mod chosen;
mod chunk;
mod evaluate;
#[cfg(feature = "npz")]
mod file;
mod job;
mod partial;
mod survey;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{Phases, Progress};
use betz_base::team::Team;
use betz_device::Device;
use betz_recording::{Dataset, OutputInfo};
use betz_runtime::model::Decoder;
use betz_runtime::psc::FilterBank;

use crate::device::Trained;
use crate::options::{TrainOptions, TrainingPlan};
use crate::sums::Sums;

use betz_gram::score::ScoreSums;
use chosen::{FoldDecision, GroupSums};
pub use evaluate::{DecodedRow, evaluate};
#[cfg(feature = "npz")]
pub use file::File;
use job::{Chunk, Groups, Job, Pass, tell};
use partial::Facts;
use survey::Survey;

/// A recording on its clock that is read a chunk at a time, the next on a thread of its own while one is at work.
pub trait Read: Send {
    /// The `steps` of the recording, the first of them as step 0; segments that reach beyond are cut there.
    ///
    /// # Errors
    /// Returns the errors of reading.
    fn read(&mut self, steps: Range<i64>) -> Result<Dataset>;
}

impl<F: FnMut(Range<i64>) -> Result<Dataset> + Send> Read for F {
    fn read(&mut self, steps: Range<i64>) -> Result<Dataset> {
        self(steps)
    }
}

/// Outline of a recording, known before any of it is read.
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

/// Share of a progress bar that reading the recording once has, which is that of one filter's sums, too.
const ONE_READ: u64 = 1;

/// Share of a progress bar that the sums with `bank` have: one reading, and the products of its filters.
fn cost(bank: &FilterBank) -> u64 {
    ONE_READ * (1 + bank.len() as u64)
}

/// A recording as a team trains on it.
pub struct Work<'a> {
    /// The team: [`Alone`](betz_base::team::Alone), or several processes that read the same recording.
    pub team: &'a dyn Team,
    /// Device that computes the sums.
    pub device: &'a Device,
    /// Outline of the recording.
    pub outline: &'a Outline,
    /// Cuts between chunks: steps, ascending, from 0 to the end of the recording. Other cuts give other roundings.
    pub cuts: &'a [i64],
    /// Bytes of sums that a process holds while it sums: those of so many folds at once, and of one at least. Fewer
    /// folds at once, more passes over what lies at their seams; the same bits.
    pub memory: u64,
    /// Told of the chunks.
    pub progress: &'a dyn Progress,
}

impl Work<'_> {
    /// Trains a linear decoder on the recording that `read` reads. What
    /// [`train_validated_on`](crate::validate::train_validated_on) gives, or [`train_on`](crate::device::train_on) without a search, to
    /// rounding; the same bits whatever the team. The first process has the decoder, the others none.
    ///
    /// Memory of Γ = features² × 8 bytes: in every process the sums of the folds that are at work (see
    /// [`memory`](Self::memory)), Γ each, and two Γ for a chunk's; in the first one, which solves, those of all folds
    /// and ten more. Beside that one chunk with its lead. The recording is read once to survey it, once for each
    /// bank, and once for the scores.
    ///
    /// # Errors
    /// As in memory, what reading says, and what the team says.
    pub fn train(&self, read: &mut dyn Read, plan: &TrainingPlan) -> Result<Option<Trained>> {
        let banks = plan.banks();
        let largest = banks.iter().map(cost).max().unwrap_or(1);
        let all = ONE_READ * 2 + banks.iter().map(cost).sum::<u64>() + largest;
        let mut phases = Phases::new(self.progress, "training", all);
        let mut job = self.surveyed(read, plan, &phases.next(ONE_READ))?;
        for (bank, filters) in banks.iter().enumerate() {
            let phase = phases.next(cost(filters));
            let (facts, gathered) = self.summed(&job, read, bank, Groups::Wanted, &phase)?;
            self.of_first(|| {
                job.take(facts, gathered, self.progress)
                    .map(|()| Vec::new())
            })?;
        }
        let decided = FoldDecision::from_words(&self.of_first(|| job.decided())?)?;
        let phase = phases.next(largest);
        let whole = match decided.whole {
            Some(bank) => Some(self.summed(&job, read, bank, Groups::Whole, &phase)?),
            None => None,
        };
        let words = self.scored(&job, read, &decided.decoders, &phases.next(ONE_READ))?;
        let mut scores = vec![ScoreSums::default(); self.outline.outputs.len()];
        let all = self.team.collect(&words)?.concat();
        // Chunk after chunk, in their order.
        let each = all.as_chunks::<6>().0.chunks(scores.len().max(1));
        for chunk in each {
            for (all, here) in scores.iter_mut().zip(chunk) {
                all.join(&ScoreSums::from_array(here.map(f64::from_bits)));
            }
        }
        let mut trained = None;
        self.of_first(|| {
            trained = Some(job.finish(whole, (!all.is_empty()).then_some(scores))?);
            Ok(Vec::new())
        })?;
        Ok(trained)
    }

    /// The sums over the recording that `read` reads, as [`Sums::over`] gives them in memory, to rounding.
    ///
    /// # Errors
    /// Returns the errors of [`Sums::over`], of reading and of the team.
    pub fn sums(&self, read: &mut dyn Read, options: &TrainOptions) -> Result<Option<Sums>> {
        let plan = TrainingPlan {
            options: options.clone(),
            search: None,
            leave_out_silent: false,
        };
        let summing = cost(&options.bank);
        let mut phases = Phases::new(self.progress, "sums", ONE_READ + summing);
        let job = self.surveyed(read, &plan, &phases.next(ONE_READ))?;
        let phase = phases.next(summing);
        let (facts, gathered) = self.summed(&job, read, 0, Groups::Whole, &phase)?;
        let mut sums = None;
        self.of_first(|| {
            sums = Some(job.into_sums(facts, gathered)?);
            Ok(Vec::new())
        })?;
        Ok(sums)
    }

    /// This process' chunks.
    fn own(&self) -> Vec<Range<i64>> {
        let own = self.team.share(self.cuts.len().saturating_sub(1));
        own.map(|i| self.cuts[i]..self.cuts[i + 1]).collect()
    }

    /// Residuals of the folds' decoders on this process' chunks, in their order; empty without folds.
    fn scored(
        &self,
        job: &Job,
        read: &mut dyn Read,
        decoders: &[Decoder],
        progress: &dyn Progress,
    ) -> Result<Vec<u64>> {
        let (own, parts) = (self.own(), job.parts(Groups::Wanted));
        let mut words = Vec::new();
        if decoders.is_empty() {
            return Ok(words);
        }
        let reach = |chunk: &Range<i64>| job.reach(&parts, chunk);
        ahead::each(read, &own, reach, |done, chunk, data| {
            tell(progress, "score", done, own.len())?;
            let sums = job.score(decoders, data, chunk, &parts)?;
            words.extend(sums.iter().flat_map(|s| s.to_array()).map(f64::to_bits));
            Ok(())
        })?;
        Ok(words)
    }

    fn surveyed(
        &self,
        read: &mut dyn Read,
        plan: &TrainingPlan,
        progress: &dyn Progress,
    ) -> Result<Job> {
        let (own, mut known) = (self.own(), None);
        ahead::each(read, &own, Survey::reach, |done, chunk, data| {
            tell(progress, "survey", done, own.len())?;
            let next = Survey::new(&data, chunk.clone())?;
            match &mut known {
                None => known = Some(next),
                Some(known) => Survey::append(known, &next)?,
            }
            Ok(())
        })?;
        let words = known.map_or_else(Vec::new, |known| known.to_words());
        let mut survey = Survey::nothing(self.outline);
        for words in self.team.gather(&words)?.iter().filter(|w| !w.is_empty()) {
            survey.append(&Survey::from_words(words)?)?;
        }
        let mut job = Job::new(self.device, self.outline, survey, plan)?;
        // Processes may have other threads, and so think another path to Γ the quicker one: the first one's is taken.
        let paths: Vec<u64> = (0..job.banks())
            .map(|bank| partial::code(job.gram(bank)))
            .collect();
        let all = self.team.gather(&paths)?;
        let first = all.first().map_or(&[][..], Vec::as_slice);
        for (bank, &code) in first.iter().enumerate().take(job.banks()) {
            if let Some(path) = partial::path(code) {
                job.set_gram(bank, path);
            }
        }
        Ok(job)
    }

    /// Over the whole recording: facts that all know, and sums that the first process has.
    fn summed(
        &self,
        job: &Job,
        read: &mut dyn Read,
        bank: usize,
        groups: Groups,
        progress: &dyn Progress,
    ) -> Result<(Facts, GroupSums)> {
        let passes = job.passes(bank, groups, self.cuts, self.memory);
        let own = |pass: &Pass| self.team.share(pass.chunks.len());
        let total = passes.iter().map(|pass| own(pass).len()).sum();
        let at_once = passes.first().map_or(0, |pass| pass.parts.len());
        let folds = passes.iter().map(|pass| pass.parts.len()).sum();
        job.check_room(bank, at_once, (self.team.rank() == 0).then_some(folds))?;
        let (mut done, mut facts) = (0, job.no_facts(bank));
        let mut gathered = job.gathered(bank, groups);
        for pass in &passes {
            let mut sums = job.nothing(pass)?;
            let reach = |chunk: &Chunk| job.reach(&pass.parts, &chunk.steps);
            ahead::each(read, &pass.chunks[own(pass)], reach, |_, chunk, data| {
                tell(progress, "sum", done, total)?;
                done += 1;
                job.add(&mut facts, &mut sums, data, chunk, pass)
            })?;
            for mut sums in sums {
                let steps = self.team.collect(&[sums.steps])?;
                self.team.reduce(&mut sums.values)?;
                if self.team.rank() == 0 {
                    sums.steps = steps.iter().flatten().sum();
                    gathered.take(sums);
                }
            }
        }
        let words = self.team.gather(&facts.to_words())?;
        let mut facts = job.no_facts(bank);
        for words in &words {
            facts.absorb(words)?;
        }
        Ok((facts, gathered))
    }

    /// Runs `make` in the first process and sends its result to all processes; if it fails, it fails in all of them.
    fn of_first(&self, make: impl FnOnce() -> Result<Vec<u64>>) -> Result<Vec<u64>> {
        let first = self.team.rank() == 0;
        let made = match first {
            true => make().map(|words| [&[1], &words[..]].concat()),
            false => Ok(Vec::new()),
        };
        let all = self.team.gather(made.as_deref().unwrap_or(&[]))?;
        made?;
        match all.first().and_then(|words| words.split_first()) {
            Some((_, words)) => Ok(words.to_vec()),
            None => Err(Error::new(
                ErrorKind::Interrupted,
                "training: expected the first process to go on, it has failed and says why",
            )),
        }
    }
}
