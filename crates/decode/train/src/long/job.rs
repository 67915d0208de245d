//! One training in chunks: what it is told, which steps are summed together, and what of it is summed at once.

use std::ops::Range;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
use betz_base::progress::{self, Progress};
use betz_device::{Device, Placement};
use betz_recording::{DatasetView, Segment, SpikesView};
use betz_runtime::model::MAX_DELAY_STEPS;
use betz_runtime::psc::{FilterBank, LowPass};

use super::Outline;
use super::partial::{BestBank, Facts, Group};
use super::survey::Survey;
use crate::centre;
use crate::choice::{Choice, Paths, choose_for};
use crate::fit;
use crate::folds::{Folds, Part, folds};
use crate::options::{RidgeChoice, TrainOptions, TrainingPlan};
use crate::search::Search;
use crate::sums::fixed;
use crate::validate::spans;
use betz_gram::gram::GramPath;
use betz_gram::gram::cost::{Work, samples};

/// An exponential is below f64's rounding after so many time constants,
const DECAYED: f64 = 45.0;
/// and a polynomial before it takes so many more for each power.
const PER_ORDER: f64 = 10.0;

/// Which steps are summed apart from which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    /// Each fold's, or all as one where there are no folds.
    Wanted,
    /// All as one.
    Whole,
}

/// A training in chunks, after its survey.
pub(super) struct Job {
    pub(super) placement: Placement,
    pub(super) paths: Vec<Paths>,
    pub(super) options: TrainOptions,
    pub(super) search: Option<Search>,
    pub(super) banks: Vec<FilterBank>,
    pub(super) outline: Outline,
    /// Names of the channels in Γ.
    pub(super) names: Vec<String>,
    /// Their numbers; `None` where that is all of them.
    pub(super) active: Option<Vec<u32>>,
    pub(super) survey: Survey,
    /// Means of the channels in Γ, which are taken off a signal's values; `None` of spikes.
    pub(super) means: Option<Vec<f64>>,
    /// Steps with more spikes are artefacts.
    pub(super) most: Option<u64>,
    pub(super) split: Option<Folds>,
    /// The best bank; only the first process has it.
    pub(super) found: Option<BestBank>,
}

/// The sums of one pass over the recording.
pub(super) struct Pass {
    pub(super) bank: usize,
    /// The steps of each group, of those whose sums are held at once.
    pub(super) parts: Vec<Vec<Part>>,
    /// The chunks in which any of them lie.
    pub(super) chunks: Vec<Chunk>,
}

/// Some steps of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) steps: Range<i64>,
    /// It is this pass that counts what is in them beside sums.
    pub(super) counted: bool,
}

impl Job {
    /// The training of a recording of which `survey` is.
    ///
    /// # Errors
    /// As [`train_validated_on`](crate::validate::train_validated_on) refuses data, names and options.
    pub(super) fn new(
        device: &Device,
        outline: &Outline,
        survey: Survey,
        plan: &TrainingPlan,
    ) -> Result<Self> {
        let train = plan.options.clone();
        let banks = plan.banks().to_vec();
        if survey.steps != (0..outline.steps) {
            return Err(Error::mismatch(format!(
                "a survey: expected that of the steps 0..{}, got {:?}",
                outline.steps, survey.steps
            )));
        }
        let firing: Vec<u32> = (0..)
            .zip(&survey.fires)
            .filter(|(_, fires)| **fires)
            .map(|(channel, _)| channel)
            .collect();
        let all = outline.channel_names.len();
        let some = plan.leave_out_silent && !firing.is_empty() && firing.len() < all;
        let names = match some {
            true => firing
                .iter()
                .map(|&c| outline.channel_names[c as usize].clone())
                .collect(),
            false => outline.channel_names.clone(),
        };
        let mut job = Self {
            placement: Placement::cpu(),
            paths: Vec::new(),
            outline: outline.clone(),
            names,
            active: some.then_some(firing),
            means: None,
            most: survey.usual.most().filter(|_| !train.keep_artefacts),
            survey,
            split: None,
            found: None,
            options: train,
            search: plan.search.clone(),
            banks,
        };
        job.check()?;
        job.means = job.channel_means();
        if let Some(search) = &job.search {
            let view = job.view();
            let (guard, history) = spans(&job.banks, view.step_seconds, job.options.delay_steps);
            job.split = Some(folds(view.segments, search.folds, guard, history)?);
        }
        let works = job.banks.iter().map(|bank| Work {
            channels: job.names.len() as f64,
            filters: bank.len() as f64,
            samples: samples(bank),
            spikes: job.survey.entries as f64,
            weighted: job.survey.weighted,
            // Values are not counted by channel: all of them could be of one.
            steady: job.survey.weighted
                && 2 * job.survey.entries > job.view().steps_in_segments() as u64,
            steps: job.view().steps_in_segments() as f64,
            outputs: job.outline.outputs.len() as f64,
            threads: rayon::current_num_threads() as f64,
        });
        let Choice {
            placement, paths, ..
        } = choose_for(device, works.collect(), &job.options, job.search.as_ref());
        (job.placement, job.paths) = (placement, paths);
        Ok(job)
    }

    /// The means of the channels in Γ, where responses depend on them.
    fn channel_means(&self) -> Option<Vec<f64>> {
        let steps = self.view().steps_in_segments() as u64;
        let depends = |bank: &FilterBank| {
            let options = TrainOptions {
                bank: bank.clone(),
                ..self.options.clone()
            };
            centre::depends_on_zero(&options, self.outline.step_seconds)
        };
        let survey = &self.survey;
        if !survey.usual.signal
            || !centre::has_means(survey.entries, steps, self.outline.channel_names.len())
            || !self.banks.iter().any(depends)
        {
            return None;
        }
        let mean = |level: &i128| fixed::value_of(*level) / steps.max(1) as f64;
        let means = survey.levels.iter().map(mean);
        Some(match &self.active {
            None => means.collect(),
            Some(active) => {
                let all: Vec<f64> = means.collect();
                active.iter().map(|&c| all[c as usize]).collect()
            }
        })
    }

    fn check(&self) -> Result<()> {
        let mut sampled = self.banks.iter().flat_map(FilterBank::sampled);
        if let Some(filter) = sampled.find(|filter| filter.ahead() > 0) {
            return Err(Error::argument(format!(
                "filter {}: expected a filter that needs no future for a recording that is read in chunks, got one that looks {} steps ahead; leave out --memory, or shift the filter",
                filter.name(),
                filter.ahead()
            )));
        }
        let lacking = if self.outline.outputs.is_empty() {
            "behaviour to decode, got none"
        } else if self.survey.segments.is_empty() {
            "at least one segment, got none"
        } else if self.survey.entries == 0 {
            "spikes inside the segments, got none"
        } else {
            return fit::check_form(&self.view(), &self.banks);
        };
        Err(Error::new(
            ErrorKind::InsufficientData,
            format!("training: expected {lacking}"),
        ))
    }

    /// The recording without what it holds.
    pub(super) fn view(&self) -> DatasetView<'_> {
        DatasetView {
            step_seconds: self.outline.step_seconds,
            steps: usize::try_from(self.outline.steps).unwrap_or(usize::MAX),
            channel_names: &self.names,
            spikes: SpikesView::new(&[], &[]),
            segments: &self.survey.segments,
            outputs: &self.outline.outputs,
            behavior: &[],
        }
    }

    /// Number of banks that are compared.
    pub(super) fn banks(&self) -> usize {
        self.banks.len()
    }

    /// Path to Γ of a bank. It must be the same in all processes, so that they give the same bits.
    pub(super) fn gram(&self, bank: usize) -> GramPath {
        match self.placement.is_cpu() {
            true => self.paths[bank].cpu,
            false => self.paths[bank].cuda,
        }
    }

    /// Takes the path that another machine has settled on ([`gram`](Self::gram)).
    pub(super) fn set_gram(&mut self, bank: usize, path: GramPath) {
        self.paths[bank] = self.paths[bank].taken(path);
    }

    /// Features and outputs of a bank's sums.
    pub(super) fn shape(&self, bank: usize) -> (usize, usize) {
        let outputs = self.outline.outputs.len();
        (self.names.len() * self.banks[bank].len(), outputs)
    }

    pub(super) fn parts(&self, groups: Groups) -> Vec<Vec<Part>> {
        match (&self.split, groups) {
            (Some(split), Groups::Wanted) => split.folds.clone(),
            _ => {
                let whole = |&segment: &Segment| Part {
                    segment,
                    from: segment.start,
                };
                vec![self.survey.segments.iter().map(whole).collect()]
            }
        }
    }

    /// Steps before a chunk that its first responses and pairs depend on, with any bank.
    pub(super) fn lead(&self) -> i64 {
        lead(&self.banks, &self.options, self.outline.step_seconds)
    }

    /// Bytes of one group's sums.
    fn group_bytes(&self, bank: usize) -> u128 {
        let (features, outputs) = self.shape(bank);
        fixed::len(features, outputs).unwrap_or(usize::MAX) as u128 * 16
    }

    /// Groups of each pass. A pass sums as many groups as fit into `memory` bytes, but at least one. Groups follow each
    /// other in time, so that a further pass reads little more.
    pub(super) fn passes(
        &self,
        bank: usize,
        groups: Groups,
        cuts: &[i64],
        memory: u64,
    ) -> Vec<Pass> {
        let parts = self.parts(groups);
        let at_once = u128::from(memory) / self.group_bytes(bank).max(1);
        let at_once = usize::try_from(at_once).unwrap_or(usize::MAX).max(1);
        // Of each chunk, the groups from the first to the last that has steps in it.
        let mut counted = vec![false; cuts.len()];
        let in_pass = |parts: &[Vec<Part>]| {
            let chunk = |(number, ends): (usize, &[i64])| {
                let steps = ends[0]..ends[1];
                let has = |parts: &Vec<Part>| {
                    let first = parts.partition_point(|p| p.segment.stop <= steps.start);
                    parts
                        .get(first)
                        .is_some_and(|p| p.segment.start < steps.end)
                };
                parts.iter().any(has).then_some((number, steps))
            };
            cuts.windows(2).enumerate().filter_map(chunk).collect()
        };
        let mut passes: Vec<Pass> = Vec::new();
        for parts in parts.chunks(at_once) {
            let chunks: Vec<(usize, Range<i64>)> = in_pass(parts);
            let chunks = chunks.into_iter().map(|(number, steps)| Chunk {
                steps,
                counted: !std::mem::replace(&mut counted[number], true),
            });
            passes.push(Pass {
                bank,
                chunks: chunks.collect(),
                parts: parts.to_vec(),
            });
        }
        // Chunks between groups are counted, too.
        if let Some(first) = passes.first_mut() {
            let left = cuts
                .windows(2)
                .zip(&counted)
                .filter(|(_, counted)| !**counted);
            first.chunks.extend(left.map(|(ends, _)| Chunk {
                steps: ends[0]..ends[1],
                counted: true,
            }));
            first.chunks.sort_by_key(|s| s.steps.start);
        }
        passes
    }

    /// Refuses what does not fit into this machine: `at_once` groups' sums and a chunk's, and for the process that
    /// solves those of all `groups`, systems and factors.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub(super) fn check_room(&self, bank: usize, at_once: usize, all: Option<usize>) -> Result<()> {
        let (features, _) = self.shape(bank);
        let sets = at_once as u128 + 2 + all.map_or(0, |groups| groups as u128 + 10);
        betz_base::memory::plan(
            format_args!("the sums of {at_once} folds at once over {features} features"),
            sets * (features as u128).pow(2) * 8,
        )
    }

    /// Facts before the first chunk.
    pub(super) fn no_facts(&self, bank: usize) -> Facts {
        Facts::nothing(bank, self.shape(bank), self.names.len())
    }

    /// Sums over no chunk of `pass`, to which those of chunks are added.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub(super) fn nothing(&self, pass: &Pass) -> Result<Vec<Group>> {
        let shape = self.shape(pass.bank);
        pass.parts.iter().map(|_| Group::nothing(shape)).collect()
    }

    pub(super) fn wants_largest(&self) -> bool {
        let searched = self.search.as_ref().is_some_and(|s| s.ridge);
        !searched && matches!(self.options.ridge, RidgeChoice::RelativeNoise(_))
    }

    /// The options, noise in proportion to the largest response made noise.
    pub(super) fn options_with(&self, facts: &Facts) -> TrainOptions {
        let ridge = match self.options.ridge {
            RidgeChoice::RelativeNoise(fraction) => RidgeChoice::Noise(fraction * facts.largest),
            other => other,
        };
        TrainOptions {
            bank: self.banks[facts.bank].clone(),
            ridge,
            ..self.options.clone()
        }
    }
}

/// Steps before a chunk that its first responses and pairs depend on, with any of `banks`.
pub(super) fn lead(banks: &[FilterBank], options: &TrainOptions, step_seconds: f64) -> i64 {
    let decayed =
        |tau: f64, order: u32| tau * PER_ORDER.mul_add(f64::from(order), DECAYED) / step_seconds;
    let longest = (banks.iter().flat_map(FilterBank::filters))
        .map(|f| decayed(f.tau_seconds, f.order))
        .fold(0.0, f64::max);
    let samples = (banks.iter().flat_map(FilterBank::sampled)).map(|f| f.stop().max(0) as f64);
    let longest = samples.fold(longest, f64::max);
    let low_pass = options
        .low_pass
        .map_or(0.0, |l| decayed(slowest(l), l.order));
    let delay = (options.delay_steps.unsigned_abs()).min(MAX_DELAY_STEPS as u64);
    (longest + low_pass).ceil() as i64 + delay as i64 + 1
}

/// Time constant of the slowest pole of a Butterworth low-pass, in seconds.
fn slowest(low_pass: LowPass) -> f64 {
    let angle = std::f64::consts::FRAC_PI_2 / f64::from(low_pass.order.max(1));
    1.0 / (std::f64::consts::TAU * low_pass.cutoff_hz * float::sin(angle))
}

/// Tells `progress` of a chunk of `total` before it is at work.
///
/// # Errors
/// [`ErrorKind::Interrupted`] when it is to stop.
pub(super) fn tell(
    progress: &dyn Progress,
    stage: &'static str,
    done: usize,
    total: usize,
) -> Result<()> {
    progress.update(stage, done as u64, total as u64);
    progress::check(progress, stage)
}
