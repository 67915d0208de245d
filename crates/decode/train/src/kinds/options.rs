//! Kinds of decoders, and the sizes and choices of their training.

use super::table::names;
use crate::recurrent::product::COLUMNS as UNITS_MULTIPLE;
use betz_base::error::{Error, Result};
use betz_runtime::model::{MAX_LAYER_UNITS, MAX_LAYERS, MAX_MEMBERS, WeightPrecision};

/// Most latents that a decoder may have.
pub(super) const MOST_LATENTS: usize = 64;

/// Kinds of decoders. [`traits`](Self::traits) says what each can be trained from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The optimal linear decoder.
    Linear,
    /// Cosines of random projections of latents, read out linearly.
    Lift,
    /// Linear readouts of latents under a soft gate.
    Experts,
    /// A steady-state Kalman filter of the outputs.
    Kalman,
    /// A Kalman filter trained on intended instead of actual movements: velocities are turned towards the end
    /// point of each trial (ReFIT: Gilja et al. 2012). The model is of kind `kalman`.
    Refit,
    /// Bayesian decoding on a grid of places.
    Place,
    /// Layers of gated recurrent units on the counts of a bin, read out linearly.
    Recurrent,
    /// The others of the request side by side, their estimates averaged with weights that follow from data which they were
    /// not trained on. Members are linear, lift, experts and recurrent.
    Blend,
}

/// The kinds to compare, and their options that are given rather than chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct KindOptions {
    /// The kinds to choose from. The linear one is always scored. It is chosen if it is listed and no other kind
    /// gains more than two standard errors over folds on it.
    pub kinds: Vec<Kind>,
    /// Latents of the nonlinear kinds, 1 to 64; `None`: by cross-validation.
    pub latents: Option<usize>,
    /// Cosines of a lift, 1 to 16,384; `None`: by cross-validation, up to 256.
    pub units: Option<usize>,
    /// Experts, 2 to 256; `None`: by cross-validation.
    pub experts: Option<usize>,
    /// Cells of a decoder of place along the longest axis, 4 to 1,000; `None`: 28.
    pub cells: Option<usize>,
    /// Units of each layer of a recurrent decoder, multiples of 16 up to 1,024, at most 8 layers; `None`: 64, 64
    /// for trials, 64 for continuous recordings.
    pub layers: Option<Vec<usize>>,
    /// Networks that a recurrent decoder averages, 1 to 16; `None`: one.
    pub members: Option<usize>,
    /// Networks trained on mixtures of trials, 0 to 15, which a recurrent decoder follows where they part from the
    /// others, as in directions that training left out; `None`: one for trials, none for continuous recordings.
    pub mixed: Option<usize>,
    /// Passes over the recording that train a network; `None`: 140 over trials, 150 over continuous recordings, 400 over
    /// 64 trials or fewer, with more left out of each.
    pub epochs: Option<usize>,
    /// Numbers that the matrices of a recurrent decoder's networks are rounded to, before they are scored; `None`: bfloat16
    /// in layers of 128 units or more, float32 in others.
    pub weights: Option<WeightPrecision>,
    /// Seconds of this machine that the training of a blend may take, about: members are left out until the expected
    /// time is below. `None`: no limit.
    pub budget_seconds: Option<f64>,
    /// Take the member of a blend that decodes best what it was not trained on, in place of all of them.
    pub single: bool,
    /// Seed of random projections, clusters and networks.
    pub seed: u64,
}

impl KindOptions {
    /// A choice among `kinds`; cross-validation sets all other options.
    pub fn among(kinds: &[Kind]) -> Self {
        Self {
            kinds: kinds.to_vec(),
            latents: None,
            units: None,
            experts: None,
            cells: None,
            layers: None,
            members: None,
            mixed: None,
            epochs: None,
            weights: None,
            budget_seconds: None,
            single: false,
            seed: 0,
        }
    }

    /// Only the linear decoder.
    pub fn linear() -> Self {
        Self::among(&[Kind::Linear])
    }

    /// The blend of the linear kind, the lift, experts and the recurrent one: on no recording much worse than the best of them,
    /// and on most better. Kalman filters have not been seen to beat the linear decoder, and the place decoder needs outputs
    /// that are places.
    pub fn auto() -> Self {
        Self::among(&[
            Kind::Linear,
            Kind::Lift,
            Kind::Experts,
            Kind::Recurrent,
            Kind::Blend,
        ])
    }

    /// The best of the linear kind, the lift and experts by cross-validation: the kinds that may keep their sums.
    pub fn choice() -> Self {
        Self::among(&[Kind::Linear, Kind::Lift, Kind::Experts])
    }

    /// True if the members are blended.
    pub fn blends(&self) -> bool {
        self.kinds.contains(&Kind::Blend)
    }

    /// The one of [`auto`](Self::auto)'s members that decodes best what it was not trained on.
    pub fn best() -> Self {
        Self {
            single: true,
            ..Self::auto()
        }
    }

    /// A kind that no blend has as a member.
    fn foreign(&self) -> Option<Kind> {
        let foreign = |kind: &Kind| *kind != Kind::Blend && !kind.is_member();
        self.kinds.iter().copied().find(foreign)
    }

    /// Refuses to retain sums (`bytes`) where no kind would.
    pub(super) fn check_retained(&self, bytes: Option<usize>) -> Result<()> {
        // A blend keeps those of its members, which are listed, too.
        let keeps = |kind: &Kind| *kind != Kind::Blend && kind.traits().stored_statistics;
        match (bytes, self.kinds.first()) {
            (Some(_), Some(first)) if !self.kinds.iter().any(keeps) => {
                Err(Error::argument(format!(
                    "retained sums: expected a linear decoder, a lift or experts, which keep them, got {}",
                    first.name()
                )))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.kinds.is_empty() {
            return Err(Error::argument(
                "decoder kinds: expected at least one, got none",
            ));
        }
        if let (true, Some(other)) = (self.blends(), self.foreign()) {
            return Err(Error::argument(format!(
                "blend: expected members among {}, got {}",
                names(|traits| traits.blend_prior.is_some()),
                other.name()
            )));
        }
        if let Some(budget) = self.budget_seconds
            && (budget.is_nan() || budget <= 0.0)
        {
            return Err(Error::argument(format!(
                "budget: expected a number of seconds above 0, got {budget}"
            )));
        }
        let sizes = [
            ("latents", self.latents, 1, MOST_LATENTS),
            ("units of a lift", self.units, 1, 16_384),
            ("experts", self.experts, 2, 256),
            ("cells", self.cells, 4, 1000),
            ("members", self.members, 1, MAX_MEMBERS),
            ("networks by mixtures", self.mixed, 0, MAX_MEMBERS - 1),
            ("epochs", self.epochs, 1, 100_000),
            ("layers", self.layers.as_ref().map(Vec::len), 1, MAX_LAYERS),
        ];
        for (what, got, least, most) in sizes {
            if let Some(got) = got
                && !(least..=most).contains(&got)
            {
                return Err(Error::argument(format!(
                    "{what}: expected {least} to {most}, got {got}"
                )));
            }
        }
        for &units in self.layers.iter().flatten() {
            if !(UNITS_MULTIPLE..=MAX_LAYER_UNITS).contains(&units)
                || !units.is_multiple_of(UNITS_MULTIPLE)
            {
                return Err(Error::argument(format!(
                    "units of a layer: expected a multiple of {UNITS_MULTIPLE} up to {MAX_LAYER_UNITS}, got {units}"
                )));
            }
        }
        Ok(())
    }
}
