//! Expected times of the phases of a comparison, so that one bar shows all of it.

use super::family::Family;
use super::lifts::Lifts;
use super::nonlinear::MOST_REGIONS;
use super::race::expected;
use super::regions::regions;
use super::{Kind, KindOptions, teams};
use crate::choice::{choose, seconds_of_folds};
use crate::options::TrainOptions;
use crate::recurrent::scored_early;
use crate::search::Search;
use crate::validate::BankChoice;
use betz_device::Device;
use betz_recording::DatasetView;

/// One thread's, measured on recordings of 6,000 to 396,000 steps.
const MULTIPLY_ADDS_PER_SECOND: f64 = 57e9;
/// Seconds of a pass of a race over a fold, whatever its steps: to solve for its readouts.
const LIFT_PASS: f64 = 0.1;
const EXPERTS_PASS: f64 = 0.05;
/// Multiply-adds that the features of a pass of experts take as long as, per step.
const GATES: f64 = 50e3;

/// Seconds per step of the other kinds, on 95 channels and, for places, 31.
const KALMAN: f64 = 17e-6;
const PLACE: f64 = 410e-6;
const RECURRENT: f64 = 8.5e-3;
/// Of a recurrent decoder trained on the whole.
const RECURRENT_FINISH: f64 = 2e-3;

/// Times that the networks of a recurrent decoder are trained more briefly to be scored, where that is done early.
const SCORED_EARLY: f64 = 7.0;

/// A member of a blend is trained on parts of the recording that together have so many of its steps, and on the whole.
const BLEND_PARTS: f64 = 2.0;
/// Of the latents of all folds, what those of these parts take.
const BLEND_LATENTS: f64 = 0.5;

/// Part of the time of the linear kind that its best bank takes, as long as that is unknown.
const OF_BEST_BANK: f64 = 0.3;
/// Training on the whole, as a part of the latents of all folds.
const FINISH: f64 = 0.25;

/// Expected times of the phases of a comparison, in microseconds on one thread. What is on a device counts by its time times
/// the threads that wait.
pub(super) struct TimeShares {
    pub(super) linear: u64,
    /// Of the latents of all folds.
    pub(super) latents: u64,
    pub(super) lift: u64,
    pub(super) experts: u64,
    /// Of the latents of regions, which experts are scored on where segments end in several places.
    pub(super) experts_regions: u64,
    /// Of the kinds without latents, each.
    others: Vec<(Kind, u64)>,
    /// Of training the chosen kind on the whole recording.
    pub(super) finish: u64,
    needs_latents: bool,
    has_regions: bool,
    is_recurrent: bool,
    blends: bool,
}

impl TimeShares {
    pub(super) fn new(
        device: &Device,
        data: &DatasetView<'_>,
        (options, search): (&TrainOptions, &Search),
        kinds: &KindOptions,
    ) -> Self {
        let asked = |kind| kinds.kinds.contains(&kind);
        let threads = rayon::current_num_threads() as f64;
        let linear = threads * choose(device, data, options, Some(search)).seconds;
        let steps = data.steps_in_segments() as f64;
        let early = match scored_early(data, kinds) {
            true => SCORED_EARLY,
            false => 1.0,
        };
        let of_regions = match asked(Kind::Experts) {
            true => regions(data, kinds.seed),
            false => None,
        };
        let found = of_regions.map_or(0, |regions| regions.folds.len().min(MOST_REGIONS));
        let race = |costs: &[u64], stages, (pass, features): (f64, f64)| {
            let [work, passes] = expected(costs, stages).map(|count| count as f64);
            microseconds(
                steps * (work + passes * features) / MULTIPLY_ADDS_PER_SECOND + passes * pass,
            )
        };
        let lifts = Lifts::new(kinds.latents, kinds.units, kinds.seed);
        let lifts = lifts.costs(lifts.latents.iter().copied().max().unwrap_or(0));
        let teams = teams::expected_costs(kinds.latents, kinds.experts);
        let others = kinds.kinds.iter().filter_map(|kind| {
            let per_step = match kind {
                Kind::Kalman | Kind::Refit => KALMAN,
                Kind::Place => PLACE,
                Kind::Recurrent if kinds.blends() => return None,
                Kind::Recurrent => RECURRENT / early,
                Kind::Blend if asked(Kind::Recurrent) => BLEND_PARTS * RECURRENT_FINISH,
                Kind::Linear | Kind::Lift | Kind::Experts | Kind::Blend => return None,
            };
            Some((*kind, microseconds(per_step * steps)))
        });
        let is_recurrent = asked(Kind::Recurrent);
        let mut shares = Self {
            linear: microseconds(linear),
            latents: 0,
            lift: match asked(Kind::Lift) {
                true => race(&lifts, [search.folds, 0], (LIFT_PASS, 0.0)),
                false => 0,
            },
            experts: match asked(Kind::Experts) {
                true => race(&teams, [search.folds, found], (EXPERTS_PASS, GATES)),
                false => 0,
            },
            experts_regions: 0,
            others: others.collect(),
            finish: microseconds(RECURRENT_FINISH * steps),
            needs_latents: kinds.kinds.iter().any(|kind| kind.traits().latents),
            has_regions: found > 0,
            is_recurrent,
            blends: kinds.blends(),
        };
        shares.set_latents(OF_BEST_BANK * linear);
        shares
    }

    /// Replaces what depends on the bank that was found.
    pub(super) fn know_bank(
        &mut self,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        found: &BankChoice,
    ) {
        let of = (&found.validation.bank, found.split.folds.len());
        let threads = rayon::current_num_threads() as f64;
        self.set_latents(threads * seconds_of_folds(data, options, of));
    }

    /// Sets the time of the latents of all folds, and what follows from it.
    fn set_latents(&mut self, seconds: f64) {
        let shares = |wanted: bool| if wanted { microseconds(seconds) } else { 0 };
        self.latents = shares(self.needs_latents);
        self.experts_regions = shares(self.has_regions);
        if !self.is_recurrent {
            self.finish = microseconds(FINISH * seconds);
        }
    }

    /// The share of scoring `kind`.
    pub(super) fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Linear => self.linear,
            Kind::Lift => self.lift,
            Kind::Experts => self.experts + self.experts_regions,
            Kind::Blend => {
                let networks = self.others.iter().find(|(kind, _)| *kind == Kind::Blend);
                let latents = (BLEND_LATENTS * self.latents as f64) as u64;
                1 + latents + networks.map_or(0, |(_, share)| *share)
            }
            other => {
                let found = self.others.iter().find(|(kind, _)| *kind == other);
                found.map_or(0, |(_, share)| *share)
            }
        }
    }

    /// All shares but the linear kind's.
    pub(super) fn after_linear(&self) -> u64 {
        let others: u64 = self.others.iter().map(|(_, share)| share).sum();
        let mut latents = self.latents + self.of(Kind::Lift) + self.of(Kind::Experts);
        if self.blends {
            latents += (BLEND_LATENTS * self.latents as f64) as u64;
        }
        others + latents + self.finish
    }
}

/// `kinds` without the members of a blend that would take more than its budget, the most costly first, and a sentence that
/// names them; the linear member stays. A recurrent member is left out where there is a low-pass, too.
pub(super) fn within_budget(
    device: &Device,
    data: &DatasetView<'_>,
    (options, search): (&TrainOptions, &Search),
    kinds: &KindOptions,
) -> (KindOptions, Option<String>) {
    let mut kinds = kinds.clone();
    if !kinds.blends() {
        return (kinds, None);
    }
    if options.low_pass.is_some() && kinds.kinds.contains(&Kind::Recurrent) {
        kinds.kinds.retain(|kind| *kind != Kind::Recurrent);
        let why = "recurrent is left out of the blend: its networks learn a low-pass where they need one, and a low-pass is given";
        return (kinds, Some(why.into()));
    }
    let Some(budget) = kinds.budget_seconds else {
        return (kinds, None);
    };
    let threads = rayon::current_num_threads() as f64;
    let seconds = |kinds: &KindOptions| {
        let shares = TimeShares::new(device, data, (options, search), kinds);
        (shares.linear + shares.after_linear()) as f64 * 1e-6 / threads
    };
    let mut dropped = Vec::new();
    let mut expected = seconds(&kinds);
    while expected > budget {
        let without = |member: Kind| {
            let mut fewer = kinds.clone();
            fewer.kinds.retain(|kind| *kind != member);
            (seconds(&fewer), member, fewer)
        };
        let members = [Kind::Recurrent, Kind::Experts, Kind::Lift];
        let asked = members
            .into_iter()
            .filter(|member| kinds.kinds.contains(member));
        let Some((least, member, fewer)) = (asked.map(without)).min_by(|a, b| a.0.total_cmp(&b.0))
        else {
            break;
        };
        (expected, kinds) = (least, fewer);
        dropped.push(member.name());
    }
    let why = (!dropped.is_empty()).then(|| {
        format!(
            "left out of the blend for a budget of {budget} s: {}",
            dropped.join(", ")
        )
    });
    (kinds, why)
}

/// At least 1, so that every phase moves the bar.
fn microseconds(seconds: f64) -> u64 {
    (1e6 * seconds).max(1.0) as u64
}
