//! Shared parts of training the nonlinear kinds: sums of the targets, latents of every fold and of the whole
//! recording, scores, and the decoder's linear engine.

use super::family::{self, Family, FamilyFit, estimates_of};
use super::gain::{self, Reference};
use super::race::{Winner, race};
use super::split::{Fold, NOWHERE, Split, Stage};
use super::{Kind, KindScore, regions::regions};
use crate::fit::{checked, silent};
use crate::folds::Folds;
use crate::held_out::{HeldOut, SolveTask};
use crate::latents::{Latents, Targets, filter_latents, targets};
use crate::limits::limits;
use crate::options::TrainOptions;
use crate::retained::StoredStatistics;
use crate::validate::{BankChoice, BankSums, Study};
use betz_base::error::Result;
use betz_base::progress::{self, Phases, Progress};
use betz_gram::solve::CentredEquations;
use betz_gram::{MaskPolicy, NormalEquations};
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, DecoderParts, Head, OutputScore, TrainingRecord};
use betz_runtime::psc::FilterBank;

/// Shares of the time that the race of configurations takes, and decoding the folds by the best.
const RACE: u64 = 99;
const HELD_OUT: u64 = 1;

/// Regions that are held out one by one.
pub(super) const MOST_REGIONS: usize = 4;

/// A recording with the linear decoder's choices and the latents behind them.
pub(crate) struct Nonlinear<'a> {
    data: DatasetView<'a>,
    options: &'a TrainOptions,
    found: &'a BankChoice,
    /// Targets that the latents predict.
    targets: Targets,
    split: Split<'a>,
    /// Sums of the targets over all folds.
    total: NormalEquations,
    /// Most latents that are looked at.
    most_latents: usize,
}

/// Latents of the whole recording and the engine that gives them.
pub(crate) struct Whole {
    stage: Stage,
    channel_mask: Vec<bool>,
    sums: NormalEquations,
    /// 0 inside segments.
    fold_of: Vec<u16>,
}

impl Whole {
    /// Number of latents.
    pub(crate) fn latents(&self) -> usize {
        self.stage.latents.count
    }
}

impl<'a> Nonlinear<'a> {
    /// Latents number at most `most_latents`.
    ///
    /// # Errors
    /// Returns the errors of the sums and of their solution, and
    /// [`ErrorKind::InsufficientData`](betz_base::ErrorKind) if no output changes.
    pub(super) fn new(
        data: DatasetView<'a>,
        options: &'a TrainOptions,
        found: &'a BankChoice,
        most_latents: usize,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let aims = (targets(&data), most_latents);
        Self::with_targets(data, options, found, aims, progress)
    }

    /// The same with at most `most_latents` latents that predict `targets`.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new).
    pub(crate) fn with_targets(
        data: DatasetView<'a>,
        options: &'a TrainOptions,
        found: &'a BankChoice,
        (targets, most_latents): (Targets, usize),
        progress: &dyn Progress,
    ) -> Result<Self> {
        let shared = (data, &targets, options, found);
        let counts = (usize::MAX, most_latents);
        let (split, total) = split_of(shared, &found.split, counts, progress)?;
        Ok(Self {
            data,
            options,
            found,
            targets,
            split,
            total,
            most_latents,
        })
    }

    /// The folds.
    pub(crate) fn split(&self) -> &Split<'a> {
        &self.split
    }

    /// Splits that hold out where segments end; `None` where that does not tell them apart.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new).
    pub(super) fn regions(&self, seed: u64, progress: &dyn Progress) -> Result<Option<Split<'a>>> {
        let Some(folds) = regions(&self.data, seed) else {
            return Ok(None);
        };
        let shared = (self.data, &self.targets, self.options, self.found);
        let counts = (MOST_REGIONS, self.most_latents);
        let (split, _) = split_of(shared, &folds, counts, progress)?;
        Ok(Some(split))
    }

    /// The split of `folds`, the first of which is held out.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new).
    pub(super) fn split_on(&self, folds: &Folds, progress: &dyn Progress) -> Result<Split<'a>> {
        let shared = (self.data, &self.targets, self.options, self.found);
        let (split, _) = split_of(shared, folds, (1, self.most_latents), progress)?;
        Ok(split)
    }

    /// The best configuration of `family`, and how it does. Where there are `regions`, a twentieth of the
    /// score is what it makes of those that it never saw, so that one that only knows what it has seen is
    /// not preferred.
    ///
    /// # Errors
    /// The same as for [`Family::compare`].
    pub(super) fn enter<F: Family>(
        &self,
        family: &F,
        regions: Option<&Split<'_>>,
        progress: &dyn Progress,
    ) -> Result<(Winner<F::Config>, KindScore)> {
        let mut phases = Phases::new(progress, "training", RACE + HELD_OUT);
        let winner = race(family, &self.split, regions, &phases.next(RACE))?;
        let decoding = &phases.next(HELD_OUT);
        let estimates = estimates_of(&self.split, &winner.readouts, decoding)?;
        let config = &winner.config;
        let plan = F::plan(config);
        let outputs = self.data.outputs.len();
        let engine = engine_cost(&self.data, &self.found.validation.bank, plan.latents);
        let score = gain::score(
            &Reference::of((&self.data, self.options, self.found)),
            F::KIND,
            F::describe(config),
            &estimates,
            engine + F::multiply_adds(config, outputs),
        )?;
        Ok((winner, score))
    }

    /// The decoder of `family` in `config`, fitted to the whole recording, with the readout that `head` makes.
    pub(super) fn fit<F: Family>(
        &self,
        family: &F,
        config: &F::Config,
        head: impl FnOnce(&FamilyFit<F::Basis>) -> Head,
        scores: Vec<OutputScore>,
        progress: &dyn Progress,
    ) -> Result<Decoder> {
        let whole = self.whole(progress)?;
        let fit = family::fit(family, self.all(&whole), config, progress)?;
        self.decoder((&whole, fit.plan.latents), head(&fit), scores)
    }

    /// Latents of the whole recording.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new).
    pub(crate) fn whole(&self, progress: &dyn Progress) -> Result<Whole> {
        let (found, options) = (self.found, self.options);
        let bank = &found.validation.bank;
        let targets = self.targets.view(&self.data);
        let sums = (&targets, &self.total);
        let total = (found.bank).over_all(&found.placement, sums, options, progress)?;
        let names = found.bank.names(self.data.channel_names);
        let mut solution = CentredEquations::new(&total)?.solve(
            found.validation.ridge,
            options.solver,
            options.mask,
            names,
        )?;
        if let Some(rotation) = &found.bank.rotation {
            let latents = Latents::new(&total, &solution, self.most_latents)?.restored(rotation);
            return self.filtered(latents, rotation.varying_channels(), total);
        }
        for (channel, taking_part) in solution.channel_mask.iter_mut().enumerate() {
            *taking_part &= !silent(&total, channel, bank.len());
            if !*taking_part {
                let row = bank.len() * total.outputs;
                solution.weights[channel * row..][..row].fill(0.0);
            }
        }
        let latents = Latents::new(&total, &solution, self.most_latents)?;
        self.filtered(latents, solution.channel_mask, total)
    }

    /// `latents` of the whole recording, of the channels that take part by `channel_mask`.
    fn filtered(
        &self,
        latents: Latents,
        channel_mask: Vec<bool>,
        sums: NormalEquations,
    ) -> Result<Whole> {
        let bank = &self.found.validation.bank;
        let z = filter_latents(&latents, &self.data, bank, self.options.low_pass)?;
        let mut fold_of = vec![NOWHERE; self.data.steps];
        for segment in self.data.segments {
            fold_of[segment.start as usize..segment.stop as usize].fill(0);
        }
        Ok(Whole {
            stage: Stage { latents, z },
            channel_mask,
            fold_of,
            sums,
        })
    }

    /// All of `whole` as one training set.
    pub(crate) fn all<'b>(&'b self, whole: &'b Whole) -> Fold<'b> {
        Fold::whole(
            self.data,
            (self.options.delay_steps, &self.found.placement),
            &whole.stage,
            &whole.fold_of,
        )
    }

    /// The decoder of the first `latents` latents of `whole` with `head` behind them.
    ///
    /// # Errors
    /// [`ErrorKind::NonFinite`](betz_base::ErrorKind::NonFinite) for weights beyond what a session takes.
    pub(crate) fn decoder(
        &self,
        (whole, latents): (&Whole, usize),
        head: Head,
        scores: Vec<OutputScore>,
    ) -> Result<Decoder> {
        let (data, found, options) = (self.data, self.found, self.options);
        let stage = &whole.stage.latents;
        let rows = stage.weights.chunks_exact(stage.count);
        let mask = whole.channel_mask.clone();
        let parts = DecoderParts {
            low_pass: options.low_pass,
            delay_steps: options.delay_steps,
            limits: limits(&data, &mask, self.options.keep_artefacts),
            channel_mask: mask,
            weights: rows.flat_map(|row| &row[..latents]).copied().collect(),
            intercept: stage.intercept[..latents].to_vec(),
            head,
            training: TrainingRecord {
                betz_version: env!("CARGO_PKG_VERSION").into(),
                steps: whole.sums.steps,
                segments: data.segments.len() as u64,
                spikes: data.spikes_in_segments().round() as u64,
                ridge: found.validation.ridge,
                gram_path: found.bank.path.name().into(),
                solver: options.solver.name().into(),
                folds: found.validation.folds as u32,
                scores,
            },
            ..DecoderParts::linear(
                data.step_seconds,
                found.validation.bank.clone(),
                data.channel_names.to_vec(),
                data.outputs.to_vec(),
            )
        };
        StoredStatistics::kept_in(checked(parts)?, &whole.sums, options.retain)
    }
}

/// At most `most_latents` latents of the first `most` folds, each made without what it holds out, and the sums over all of them.
fn split_of<'a>(
    (data, targets, options, found): (DatasetView<'a>, &Targets, &TrainOptions, &'a BankChoice),
    folds: &Folds,
    (most, most_latents): (usize, usize),
    progress: &dyn Progress,
) -> Result<(Split<'a>, NormalEquations)> {
    let (bank, placement) = (&found.validation.bank, &found.placement);
    let study = Study {
        placement,
        data: targets.view(&data),
        options,
        search_ridge: false,
        progress,
    };
    let paths = found.bank.paths.taken(found.bank.path);
    let of = (bank, found.bank.rotation.as_ref());
    let sums = BankSums::new(&study, of, paths, folds, &|_| {})?;
    let solving = SolveTask {
        placement,
        features: sums.features(),
        solver: options.solver,
        mask: MaskPolicy::Mask,
        names: sums.names(data.channel_names),
    };
    let mut fold_of = vec![NOWHERE; data.steps];
    let mut stages = Vec::new();
    for (k, (parts, fold)) in folds.folds.iter().zip(&sums.folds).enumerate() {
        progress::check(progress, "latents")?;
        for part in parts {
            let steps = part.segment.start as usize..part.segment.stop as usize;
            fold_of[steps].fill(k as u16);
        }
        if k >= most {
            continue;
        }
        let held = HeldOut::new(solving, &sums.total, fold)?;
        let solution = held.solve(found.bank.best.ridge)?;
        let mut latents = Latents::new(held.rest(), &solution, most_latents)?;
        if let Some(rotation) = &sums.rotation {
            latents = latents.restored(rotation);
        }
        let z = filter_latents(&latents, &data, bank, options.low_pass)?;
        stages.push(Stage { latents, z });
    }
    let split = Split {
        data,
        delay_steps: options.delay_steps,
        placement,
        fold_of,
        stages,
    };
    Ok((split, sums.total))
}

/// Multiply-adds of a step of the linear engine with `lanes` outputs, at the recording's mean number of spikes.
pub(super) fn engine_cost(data: &DatasetView<'_>, bank: &FilterBank, lanes: usize) -> f64 {
    let per_step = data.events_in_segments() as f64 / data.steps_in_segments().max(1) as f64;
    (per_step * bank.len() as f64 + bank.step_cost()) * lanes as f64
}

impl Kind {
    /// Multiply-adds of a readout of `features`, filtered or not.
    pub(crate) fn readout_cost(features: usize, outputs: usize, filtered: bool) -> f64 {
        (features * outputs * (1 + usize::from(filtered))) as f64
    }
}
