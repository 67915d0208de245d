//! Which experts: how many, how soft their gate, and the ridge, by what is held out.

use std::rc::Rc;

use crate::experts::{Clusters, Discriminant, Gate};
use crate::kinds::Kind;
use crate::kinds::family::{
    Family, FoldFeatures, FoldReadout, PassProgress, Plan, Residual, Residuals, Truth, cost_of_sums,
};
use crate::kinds::split::Fold;
use crate::latents::labels;
use crate::readout::best_of;
use betz_base::error::Result;
use betz_base::progress::Progress;
use betz_base::text::count;
use betz_recording::DatasetView;

/// Numbers of experts and sharpnesses β of the gate that are tried.
const EXPERTS: [usize; 2] = [8, 24];
const BETAS: [f64; 4] = [0.03, 0.06, 0.2, 1.0];

/// Ridges that are tried, each a part of the mean of the centred sums' diagonal. Smaller ones score a little
/// more over folds, and less on movements that training never saw.
const KAPPAS: [f64; 5] = [3e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Seconds of the filter behind the latents and behind the readout.
const TAU_SECONDS: f64 = 0.1;

/// Latents that experts see.
const LATENTS: usize = 12;

/// The experts to choose from, on one recording.
#[derive(Debug, Clone)]
pub(crate) struct Teams {
    pub(crate) latents: usize,
    experts: Vec<usize>,
    seed: u64,
    labels: Vec<f32>,
    width: usize,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TeamConfig {
    pub(crate) experts: usize,
    pub(crate) beta: f64,
    pub(crate) plan: Plan,
}

impl Teams {
    /// Those with so many latents and experts; where none is given, those worth trying.
    pub(crate) fn new(
        data: &DatasetView<'_>,
        latents: Option<usize>,
        experts: Option<usize>,
        seed: u64,
    ) -> Self {
        let (labels, width) = labels(data);
        Self {
            latents: latents.unwrap_or(LATENTS),
            experts: numbers(experts),
            seed,
            labels,
            width,
        }
    }

    /// The discriminant of `experts` clusters of `fold`'s training steps.
    fn discriminant(
        &self,
        fold: Fold<'_>,
        (latents, experts): (usize, usize),
        progress: &dyn Progress,
    ) -> Result<Discriminant> {
        let (data, delay) = (fold.data(), fold.delay_steps());
        let trains = fold.trains();
        // The step whose behaviour goes with the latents of `step`; inside the segment where it counts.
        let partner = |step: usize| (step as i64 - delay).clamp(0, data.steps as i64 - 1) as usize;
        let rows: Vec<usize> = (0..data.steps)
            .filter(|&s| trains(s))
            .map(partner)
            .collect();
        let clusters = Clusters::find(&self.labels, self.width, &rows, experts, self.seed);
        let cluster_of = |step: usize| {
            let row = partner(step) * self.width;
            clusters.of(&self.labels[row..][..self.width])
        };
        let walk = fold.walk(latents)?;
        let found = clusters.len();
        Discriminant::fit(walk, TAU_SECONDS, found, &cluster_of, &trains, progress)
    }
}

/// The costs of experts behind `latents` latents, one per number of experts and softness. Where no numbers are given, those
/// of the usual ones.
pub(super) fn expected_costs(latents: Option<usize>, experts: Option<usize>) -> Vec<u64> {
    costs(&numbers(experts), latents.unwrap_or(LATENTS))
}

fn numbers(experts: Option<usize>) -> Vec<usize> {
    experts.map_or(EXPERTS.to_vec(), |k| vec![k])
}

fn costs(experts: &[usize], latents: usize) -> Vec<u64> {
    // Every expert reads the latents and a constant, as they are and behind the filter.
    let per_expert = 2 * (latents + 1);
    let cost = |experts: &usize| vec![cost_of_sums(experts * per_expert); BETAS.len()];
    experts.iter().flat_map(cost).collect()
}

impl Family for Teams {
    type Config = TeamConfig;
    type Basis = Gate;
    const KIND: Kind = Kind::Experts;

    fn costs(&self, latents: usize) -> Vec<u64> {
        costs(&self.experts, self.latents.min(latents))
    }

    fn compare(
        &self,
        fold: Fold<'_>,
        latents: usize,
        passes: &[usize],
        progress: &dyn Progress,
    ) -> Result<Residuals<TeamConfig>> {
        let latents = self.latents.min(latents);
        let mut residuals = Vec::new();
        let mut truth = None;
        let mut told = PassProgress::new(self.costs(latents), passes, progress);
        let betas = BETAS.len();
        // The passes of one number of experts share its clusters.
        for passes in passes.chunk_by(|a, b| a / betas == b / betas) {
            let experts = self.experts[passes[0] / betas];
            let discriminant = self.discriminant(fold, (latents, experts), progress)?;
            for &number in passes {
                let beta = BETAS[number % betas];
                let gate = discriminant.gate(beta);
                let features = FoldFeatures::new(fold, (latents, gate), &[TAU_SECONDS], progress)?;
                let features = Rc::new(features);
                let pass = features.pass(fold)?;
                let train = pass.sums(&fold.trains(), progress)?;
                let held = pass.sums(&fold.holds(), progress)?;
                let every = vec![(0..train.features).collect()];
                for left in best_of(&train, &held, &every, &KAPPAS)? {
                    let plan = Plan {
                        latents,
                        tau_seconds: Some(TAU_SECONDS),
                        kappa: left.kappa,
                    };
                    let config = TeamConfig {
                        experts,
                        beta,
                        plan,
                    };
                    residuals.push(Residual {
                        pass: number,
                        config,
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
        }
        Residuals::new(residuals, truth)
    }

    fn basis(&self, fold: Fold<'_>, config: &TeamConfig, progress: &dyn Progress) -> Result<Gate> {
        let sizes = (config.plan.latents, config.experts);
        Ok(self.discriminant(fold, sizes, progress)?.gate(config.beta))
    }

    fn plan(config: &TeamConfig) -> Plan {
        config.plan
    }

    fn describe(config: &TeamConfig) -> String {
        let TeamConfig {
            experts,
            beta,
            plan,
        } = config;
        let latents = count(plan.latents as u128, "latent");
        let experts = count(*experts as u128, "expert");
        format!("{latents}, {experts}, gate {beta}, {}", plan.describe())
    }

    fn multiply_adds(config: &TeamConfig, outputs: usize) -> f64 {
        let (latents, experts) = (config.plan.latents, config.experts);
        let features = latents + experts * (1 + latents);
        (2 * latents * experts) as f64 + Kind::readout_cost(features, outputs, true)
    }
}
