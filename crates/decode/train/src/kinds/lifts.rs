//! Which lift: latents, units, filter and ridge by what is held out.

use std::rc::Rc;

use crate::kinds::Kind;
use crate::kinds::family::{
    Family, FoldFeatures, FoldReadout, PassProgress, Plan, Residual, Residuals, Truth, cost_of_sums,
};
use crate::kinds::split::Fold;
use crate::lift::Cosines;
use crate::readout::{KAPPAS, best_of};
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_base::text::count;

/// Numbers of latents and of units that are tried, and seconds of the filter behind the readout.
const LATENTS: [usize; 2] = [12, 6];
const UNITS: [usize; 3] = [64, 128, 256];
const FILTERS: [f64; 2] = [0.1, 0.5];

/// The lifts to choose from.
#[derive(Debug, Clone)]
pub(crate) struct Lifts {
    pub(crate) latents: Vec<usize>,
    pub(crate) units: Vec<usize>,
    pub(crate) seed: u64,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LiftConfig {
    pub(crate) units: usize,
    pub(crate) plan: Plan,
}

impl Lifts {
    /// Those with so many latents and units; where none is given, those worth trying.
    pub(crate) fn new(latents: Option<usize>, units: Option<usize>, seed: u64) -> Self {
        Self {
            latents: latents.map_or(LATENTS.to_vec(), |r| vec![r]),
            units: units.map_or(UNITS.to_vec(), |d| vec![d]),
            seed,
        }
    }

    /// Numbers of latents, where there are `latents`.
    fn counts(&self, latents: usize) -> Vec<usize> {
        let mut counts: Vec<usize> = self.latents.iter().map(|&r| r.min(latents)).collect();
        counts.dedup();
        counts
    }

    /// Features of `cosines` with filters: the columns of [z; c], of them behind filter 1, behind
    /// filter 2. For each number of units and each filter or none, the columns it uses.
    fn subsets(&self, latents: usize, most: usize) -> Vec<(usize, Option<f64>, Vec<usize>)> {
        let width = latents + most;
        let mut subsets = Vec::new();
        for &units in &self.units {
            let own = 0..latents + units;
            subsets.push((units, None, own.clone().collect()));
            for (i, &tau) in FILTERS.iter().enumerate() {
                let behind = own.clone().map(|f| (1 + i) * width + f);
                subsets.push((units, Some(tau), own.clone().chain(behind).collect()));
            }
        }
        subsets
    }
}

impl Family for Lifts {
    type Config = LiftConfig;
    type Basis = Cosines;
    const KIND: Kind = Kind::Lift;

    /// One per number of latents.
    fn costs(&self, latents: usize) -> Vec<u64> {
        let most = self.units.iter().copied().max().unwrap_or(0);
        let features = |latents: usize| (1 + FILTERS.len()) * (latents + most);
        let counts = self.counts(latents).into_iter();
        counts
            .map(|latents| cost_of_sums(features(latents)))
            .collect()
    }

    fn compare(
        &self,
        fold: Fold<'_>,
        latents: usize,
        passes: &[usize],
        progress: &dyn Progress,
    ) -> Result<Residuals<LiftConfig>> {
        let counts = self.counts(latents);
        let mut told = PassProgress::new(self.costs(latents), passes, progress);
        let most = self.units.iter().copied().max().unwrap_or(0);
        let mut residuals = Vec::new();
        let mut truth = None;
        for &number in passes {
            let latents = counts[number];
            let cosines = Cosines::draw(self.seed, latents, most);
            let features = FoldFeatures::new(fold, (latents, cosines), &FILTERS, progress)?;
            let features = Rc::new(features);
            let pass = features.pass(fold)?;
            let train = pass.sums(&fold.trains(), progress)?;
            let held = pass.sums(&fold.holds(), progress)?;
            let subsets = self.subsets(latents, most);
            let columns: Vec<Vec<usize>> = subsets.iter().map(|s| s.2.clone()).collect();
            for left in best_of(&train, &held, &columns, &KAPPAS)? {
                let (units, tau_seconds, _) = subsets[left.subset];
                let plan = Plan {
                    latents,
                    tau_seconds,
                    kappa: left.kappa,
                };
                residuals.push(Residual {
                    pass: number,
                    config: LiftConfig { units, plan },
                    residual: left.residual,
                    readouts: vec![FoldReadout {
                        features: features.clone(),
                        readout: left.readout,
                    }],
                });
            }
            truth = Some(Truth::new(&held));
            told.finish(number);
        }
        Residuals::new(residuals, truth)
    }

    fn basis(&self, _: Fold<'_>, config: &LiftConfig, _: &dyn Progress) -> Result<Cosines> {
        Ok(Cosines::draw(self.seed, config.plan.latents, config.units))
    }

    fn plan(config: &LiftConfig) -> Plan {
        config.plan
    }

    fn describe(LiftConfig { units, plan }: &LiftConfig) -> String {
        format!(
            "{}, {}, {}",
            count(plan.latents as u128, "latent"),
            count(*units as u128, "unit"),
            plan.describe()
        )
    }

    fn multiply_adds(LiftConfig { units, plan }: &LiftConfig, outputs: usize) -> f64 {
        let filtered = plan.tau_seconds.is_some();
        let readout = Kind::readout_cost(plan.latents + units, outputs, filtered);
        (plan.latents * units) as f64 + readout
    }
}
