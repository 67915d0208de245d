//! The kinds behind latents of the linear decoder: lifts and experts.

use super::family::held_out;
use super::lifts::{LiftConfig, Lifts};
use super::nonlinear::Nonlinear;
use super::race::Winner;
use super::teams::{TeamConfig, Teams};
use super::time::TimeShares;
use super::{Kind, KindOptions, KindScore, model};
use crate::folds::Folds;
use crate::options::TrainOptions;
use crate::validate::BankChoice;
use betz_base::error::Result;
use betz_base::progress::{Phases, Progress};
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, OutputScore};

/// Lifts and experts behind the same latents, with what was chosen for each.
pub(super) struct LatentKinds<'a> {
    behind: Nonlinear<'a>,
    lifts: Lifts,
    teams: Teams,
    lift: Option<LiftConfig>,
    team: Option<Winner<TeamConfig>>,
    seed: u64,
}

impl<'a> LatentKinds<'a> {
    /// # Errors
    /// The same as for [`Nonlinear::new`].
    pub(super) fn new(
        data: &DatasetView<'a>,
        options: &'a TrainOptions,
        found: &'a BankChoice,
        kinds: &KindOptions,
        progress: &dyn Progress,
    ) -> Result<Self> {
        let lifts = Lifts::new(kinds.latents, kinds.units, kinds.seed);
        let teams = Teams::new(data, kinds.latents, kinds.experts, kinds.seed);
        let of_lifts = lifts.latents.iter().copied();
        let most = of_lifts.fold(teams.latents, usize::max);
        Ok(Self {
            behind: Nonlinear::new(*data, options, found, most, progress)?,
            lifts,
            teams,
            lift: None,
            team: None,
            seed: kinds.seed,
        })
    }

    /// Chooses the configuration of `kind`, experts or else the lift; gives back how it does.
    ///
    /// # Errors
    /// The same as for [`Nonlinear::enter`].
    pub(super) fn enter(
        &mut self,
        kind: Kind,
        shares: &TimeShares,
        progress: &dyn Progress,
    ) -> Result<KindScore> {
        if kind == Kind::Experts {
            let mut phases = Phases::new(progress, "training", shares.of(kind));
            let latents = &phases.next(shares.experts_regions);
            let regions = self.behind.regions(self.seed, latents)?;
            let race = &phases.next(shares.experts);
            let (winner, score) = self.behind.enter(&self.teams, regions.as_ref(), race)?;
            self.team = Some(winner);
            return Ok(score);
        }
        let (winner, score) = self.behind.enter(&self.lifts, None, progress)?;
        self.lift = Some(winner.config);
        Ok(score)
    }

    /// Estimates of the first of `folds` by the kinds that were entered, in the configurations that were chosen, fitted to the
    /// others: (steps, outputs), NaN elsewhere.
    ///
    /// # Errors
    /// The same as for [`Nonlinear::split_on`] and [`held_out`].
    pub(super) fn held_out_parts(
        &self,
        folds: &Folds,
        progress: &dyn Progress,
    ) -> Result<Vec<(Kind, Vec<f32>)>> {
        let split = self.behind.split_on(folds, progress)?;
        let mut estimates = Vec::new();
        if let Some(config) = &self.lift {
            let made = held_out(&self.lifts, &split, config, progress)?;
            estimates.push((Kind::Lift, made));
        }
        if let Some(winner) = &self.team {
            let made = held_out(&self.teams, &split, &winner.config, progress)?;
            estimates.push((Kind::Experts, made));
        }
        Ok(estimates)
    }

    /// The decoder of `kind`, which did as `scores` say, on the whole recording; `None` for a kind that was not entered.
    ///
    /// # Errors
    /// The same as for [`Nonlinear::fit`].
    pub(super) fn decoder(
        &self,
        kind: Kind,
        scores: Vec<OutputScore>,
        progress: &dyn Progress,
    ) -> Result<Option<Decoder>> {
        let (behind, seed) = (&self.behind, self.seed);
        match (kind, &self.lift, &self.team) {
            (Kind::Lift, Some(config), _) => {
                let head = |fit: &_| model::lift(fit, seed);
                behind.fit(&self.lifts, config, head, scores, progress)
            }
            (Kind::Experts, _, Some(winner)) => {
                let head = |fit: &_| model::experts(fit, seed);
                behind.fit(&self.teams, &winner.config, head, scores, progress)
            }
            _ => return Ok(None),
        }
        .map(Some)
    }
}
