//! Why a step was refused, said without allocating.

use std::fmt;

use betz_base::error::Error;

/// Why a step was refused: what was expected, what came and where. Allocates nothing, as a loop wants it
/// ([`SpikeConsumer::try_step`](super::SpikeConsumer::try_step)); becomes an [`Error`]
/// with [`into_error`](Self::into_error).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepRefused {
    /// `out` is not one per output.
    Outputs {
        /// Outputs of the model.
        expected: usize,
        /// Length of `out`.
        got: usize,
    },
    /// A channel that the model does not have, where those are to be refused.
    UnknownChannel {
        /// Which spike of the tick, from 0.
        spike: usize,
        /// Its channel.
        channel: u32,
        /// Channels of the model.
        channels: usize,
    },
}

impl fmt::Display for StepRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outputs { expected, got } => write!(
                f,
                "estimates: expected room for {expected}, one per output of the model, got {got}"
            ),
            Self::UnknownChannel {
                spike: _,
                channel,
                channels,
            } => write!(
                f,
                "spike on channel {channel}: expected a channel below {channels}"
            ),
        }
    }
}

impl std::error::Error for StepRefused {}

impl StepRefused {
    /// The same with a message, which is allocated:
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch).
    pub fn into_error(self) -> Error {
        Error::mismatch(self.to_string())
    }
}
