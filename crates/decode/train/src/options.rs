//! Options of training.

use super::search::Search;
use betz_device::Precision;
use betz_gram::gram::GramPath;
use betz_gram::solve::{MaskPolicy, Solver};
use betz_runtime::psc::{FilterBank, LowPass};

/// The ridge λ that is added to the diagonal of the centred Γ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RidgeChoice {
    /// This λ.
    Fixed(f64),
    /// λ = σ²T for neural noise of standard deviation σ on every feature.
    Noise(f64),
    /// The same with σ as this part of the largest response of the bank (before any low-pass),
    /// customarily a tenth: σ = 0.1·max a (Eliasmith & Anderson 2003).
    RelativeNoise(f64),
    /// The ridge that generalised cross-validation expects to decode best (Golub, Heath & Wahba 1979): from the sums
    /// alone, with nothing held out. Not together with folds.
    Generalised,
}

/// All that decides how a decoder is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// The PSC filters.
    pub bank: FilterBank,
    /// A Butterworth low-pass behind them.
    pub low_pass: Option<LowPass>,
    /// The output at step t estimates the behaviour at step t − delay.
    pub delay_steps: i64,
    /// The ridge.
    pub ridge: RidgeChoice,
    /// How Γ is computed.
    pub gram: GramPath,
    /// Precision of the dense path's products on a device; the CPU uses f32 or better.
    pub precision: Precision,
    /// Solver of the linear system.
    pub solver: Solver,
    /// Treatment of dead and duplicated channels.
    pub mask: MaskPolicy,
    /// Keep the sums in the decoder, of at most so many bytes: what
    /// [`Remover`](super::retained::Remover) takes channels away by.
    pub retain: Option<usize>,
    /// Train on steps with far more spikes than usual as they are, and decode them as they are. Otherwise they are
    /// taken for artefacts ([`Artefacts`](super::Artefacts)).
    pub keep_artefacts: bool,
}

impl TrainOptions {
    /// Neural noise of a tenth of the largest response.
    pub const CUSTOMARY_RIDGE: RidgeChoice = RidgeChoice::RelativeNoise(0.1);

    /// Training with `bank` and the customary noise term, without cross-validation.
    pub fn new(bank: FilterBank) -> Self {
        Self {
            bank,
            low_pass: None,
            delay_steps: 0,
            ridge: Self::CUSTOMARY_RIDGE,
            gram: GramPath::Auto,
            precision: Precision::F32,
            solver: Solver::Cholesky,
            mask: MaskPolicy::Refuse,
            retain: None,
            keep_artefacts: false,
        }
    }
}

/// Options that are settled for a recording, and what cross-validation chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingPlan {
    /// Options of every training.
    pub options: TrainOptions,
    /// Cross-validation; `None`: bank and ridge of `options` as they are.
    pub search: Option<Search>,
    /// Silent channels have no part in Γ and are masked; otherwise the solver meets them.
    pub leave_out_silent: bool,
}

impl TrainingPlan {
    /// The banks that sums are made with: those of the search, or the one of the options.
    pub(crate) fn banks(&self) -> &[FilterBank] {
        match &self.search {
            Some(search) if !search.banks.is_empty() => &search.banks,
            _ => std::slice::from_ref(&self.options.bank),
        }
    }
}
