//! State of a model swap.

/// State of a model swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SwapState {
    /// One model runs; there is none to roll back to.
    #[default]
    Idle,
    /// The session has not taken the last request yet, because it has not stepped since.
    Pending,
    /// The new model runs in parallel with the old one, which still gives the estimates, or part of them.
    WarmingUp,
    /// The new model gives the estimates; the previous one is on standby.
    TakenOver,
}

impl SwapState {
    #[cfg(feature = "std")]
    pub(super) fn from_phase(phase: u64) -> Self {
        match phase {
            0 => Self::Idle,
            1 => Self::Pending,
            2 => Self::WarmingUp,
            _ => Self::TakenOver,
        }
    }
}
