//! Choice of a decoder from the sums, by the first process.

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_base::team::add;
use betz_base::text::count;
use betz_device::Placement;
use betz_runtime::model::{Decoder, TrainingRecord};

use super::job::{Groups, Job};
use super::partial::{BestBank, Facts, Group};
use super::words::Words;
use crate::active::spread;
use crate::blank::Artefacts;
use crate::centre;
use crate::device::Trained;
use crate::fit;
use crate::options::RidgeChoice;
use crate::sums::{Form, RecordingFacts, SolveOptions, Sums, fixed};
use crate::validate::{BankSums, Study, all_steps};
use betz_gram::gram::NormalEquations;
use betz_gram::score::ScoreSums;

/// Sums as the first process gets them, one group after the other.
pub(super) struct GroupSums {
    shape: (usize, usize),
    /// Each group's, where they are folds.
    folds: Option<Vec<NormalEquations>>,
    /// Of all, where they are wanted.
    total: Option<Result<Group>>,
}

impl GroupSums {
    /// Takes in the next group's.
    pub(super) fn take(&mut self, group: Group) {
        if let Some(folds) = &mut self.folds {
            folds.push(group.equations(self.shape));
        }
        self.total = self.total.take().map(|total| {
            let mut total = total?;
            if total.values.is_empty() {
                return Ok(group);
            }
            total.steps += group.steps;
            add(&mut total.values, &group.values)?;
            Ok(total)
        });
    }
}

/// The decision that all processes need: the bank to sum over the whole, and the decoders of the folds.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FoldDecision {
    pub(super) whole: Option<usize>,
    pub(super) decoders: Vec<Decoder>,
}

impl FoldDecision {
    fn to_words(&self) -> Result<Vec<u64>> {
        let whole = self.whole.map_or(0, |bank| bank as u64 + 1);
        let mut to = vec![whole, self.decoders.len() as u64];
        for decoder in &self.decoders {
            let bytes = decoder.to_bytes()?;
            to.push(bytes.len() as u64);
            to.extend(bytes.chunks(8).map(|some| {
                let mut word = [0; 8];
                word[..some.len()].copy_from_slice(some);
                u64::from_le_bytes(word)
            }));
        }
        Ok(to)
    }

    /// The inverse of [`Job::decided`].
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for words that are none, and those of a model file.
    pub(super) fn from_words(words: &[u64]) -> Result<Self> {
        let mut from = Words(words);
        let whole = usize::try_from(from.next()?).unwrap_or(usize::MAX);
        let decoders = (0..from.count(1)?).map(|_| Decoder::from_bytes(&from.bytes()?));
        Ok(Self {
            decoders: decoders.collect::<Result<_>>()?,
            whole: whole.checked_sub(1),
        })
    }
}

impl Job {
    /// Empty sums of a bank's groups, which the first process fills.
    pub(super) fn gathered(&self, bank: usize, groups: Groups) -> GroupSums {
        let folds = groups == Groups::Wanted && self.search.is_some();
        let whole = self.split.as_ref().is_none_or(|split| split.whole);
        let nothing = Group {
            steps: 0,
            values: Vec::new(),
        };
        GroupSums {
            shape: self.shape(bank),
            folds: folds.then(Vec::new),
            total: (!folds || whole).then_some(Ok(nothing)),
        }
    }

    /// Chooses the ridge by the sums of a bank over the whole recording, and keeps the bank where it is the best yet.
    ///
    /// # Errors
    /// The same as for [`train_validated_on`](crate::validate::train_validated_on).
    pub(super) fn take(
        &mut self,
        facts: Facts,
        gathered: GroupSums,
        progress: &dyn Progress,
    ) -> Result<()> {
        let total = gathered.total.transpose()?;
        let (Some(search), Some(folds)) = (&self.search, gathered.folds) else {
            self.found = Some(BestBank {
                facts,
                r2: f64::NAN,
                ridge: None,
                total,
                decoders: Vec::new(),
            });
            return Ok(());
        };
        let (bank, split) = (facts.bank, self.split.as_ref().is_none_or(|s| s.whole));
        let path = facts.path.unwrap_or(self.gram(bank));
        let options = self.options_with(&facts);
        let paths = (self.paths[bank], path);
        let mut sums = BankSums::from_folds(&self.banks[bank], folds, paths, &options, split)?;
        let view = self.view();
        let study = Study {
            placement: &self.placement,
            data: view,
            options: &options,
            search_ridge: search.ridge,
            progress,
        };
        sums.best = sums.choose(&study)?;
        let r2 = sums.best.r2;
        // NaN (no output changes) never beats what is there.
        if self.found.as_ref().is_none_or(|found| r2 > found.r2) {
            self.found = Some(BestBank {
                r2,
                ridge: Some(sums.ridge_of_all(&view, options.delay_steps)),
                decoders: sums.decoders(&study, usize::MAX)?,
                facts,
                total,
            });
        }
        Ok(())
    }

    /// The decision for the best bank, for all processes.
    ///
    /// # Errors
    /// Returns the errors of making a model file.
    pub(super) fn decided(&self) -> Result<Vec<u64>> {
        let Some(found) = &self.found else {
            return FoldDecision::default().to_words();
        };
        FoldDecision {
            whole: found.total.is_none().then_some(found.facts.bank),
            decoders: found.decoders.clone(),
        }
        .to_words()
    }

    /// The decoder, from the sums over the whole where [`decided`](Self::decided) asked for them, and with the scores
    /// over all chunks.
    ///
    /// # Errors
    /// The same as for [`train_validated_on`](crate::validate::train_validated_on).
    pub(super) fn finish(
        mut self,
        whole: Option<(Facts, GroupSums)>,
        scores: Option<Vec<ScoreSums>>,
    ) -> Result<Trained> {
        let Some(found) = self.found.take() else {
            return Err(Error::argument("training: expected a bank, got none"));
        };
        let options = self.options_with(&found.facts);
        let view = self.view();
        let ridge = match found.ridge {
            Some(ridge) => RidgeChoice::Fixed(ridge),
            None if options.ridge == RidgeChoice::Generalised => options.ridge,
            None => {
                let steps = all_steps(&view, options.delay_steps);
                RidgeChoice::Fixed(fit::ridge(&view, &options.bank, &options, steps)?)
            }
        };
        let scores = match &scores {
            Some(sums) => (sums.iter().zip(&self.outline.outputs))
                .map(|(sums, output)| sums.score(output))
                .collect::<Result<Vec<_>>>()?,
            None => Vec::new(),
        };
        let folds = self
            .split
            .as_ref()
            .map_or(0, |split| split.folds.len() as u32);
        let solve = SolveOptions {
            ridge,
            solver: options.solver,
            mask: options.mask,
            retain: options.retain,
        };
        let (names, active) = (self.outline.channel_names.clone(), self.active.clone());
        let path = found.facts.path.unwrap_or(self.gram(found.facts.bank));
        let placement = std::mem::replace(&mut self.placement, Placement::cpu());
        let (facts, total) = match whole {
            Some((facts, gathered)) => (facts, gathered.total.transpose()?),
            None => (found.facts, found.total),
        };
        let artefacts = match options.keep_artefacts {
            true => Artefacts {
                all_spikes: self.survey.spikes.round() as u64,
                ..Artefacts::default()
            },
            false => self.survey.usual.artefacts(),
        };
        let decoder = self.sums_of(facts, total)?.solve(&solve)?;
        let training = TrainingRecord {
            folds,
            scores,
            ..decoder.training().clone()
        };
        let mut decoder = decoder.with_training(training);
        if let Some(channels) = active {
            decoder = spread(decoder, &names, &channels)?;
        }
        Ok(Trained {
            artefacts,
            decoder,
            ran: placement.ran(path.name()),
            gram_error: None,
        })
    }

    /// The sums themselves.
    ///
    /// # Errors
    /// The same as for [`Sums::over`].
    pub(super) fn into_sums(self, facts: Facts, gathered: GroupSums) -> Result<Sums> {
        self.sums_of(facts, gathered.total.transpose()?)
    }

    fn sums_of(mut self, facts: Facts, total: Option<Group>) -> Result<Sums> {
        let path = facts.path.unwrap_or(self.gram(facts.bank));
        let mut all = total.ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "sums: expected those over the whole, got none",
            )
        })?;
        if all.steps == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "sums: expected a delay that leaves steps of a segment with their partners, got one of {}; choose one shorter than the segments",
                    count(self.options.delay_steps.unsigned_abs(), "step")
                ),
            ));
        }
        let form = Form {
            step_seconds: self.outline.step_seconds,
            bank: self.banks[facts.bank].clone(),
            low_pass: self.options.low_pass,
            delay_steps: self.options.delay_steps,
            channel_names: self.names,
            outputs: self.outline.outputs,
        };
        fixed::check_squares(fixed::squares_in(&all.values, facts.shape))?;
        let mut spikes = facts.spikes;
        if let Some(means) = &self.means {
            // The chunks were summed without means.
            spikes = self.survey.spikes.abs().round() as u64;
            let mut sums = all.equations(facts.shape);
            centre::shift(&mut sums, &form.bank, means, 1.0);
            all.values = fixed::units(&sums)?;
        }
        let beside = RecordingFacts {
            means: self.means.take(),
            segments: self.survey.segments.len() as u64,
            spikes,
            artefacts: facts.artefacts,
            largest: facts.largest,
            usual: match self.options.keep_artefacts {
                true => facts.usual.without_limit(),
                false => facts.usual,
            },
            extremes: facts.extremes,
            sample: self.survey.sample,
            ran: self.placement.ran(path.name()),
        };
        Sums::of_whole(form, all.steps, all.values, beside)
    }
}
