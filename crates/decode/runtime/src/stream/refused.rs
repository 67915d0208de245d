//! Why a step was refused, said without allocating.

use alloc::string::ToString;
use core::fmt;

use betz_base::error::{Error, ErrorKind};

/// Reason for refusing a step: what was expected, what was found and where. It allocates nothing, so
/// that loops can use it ([`Session::try_step`](super::Session::try_step),
/// [`SpikeConsumer::try_step`](super::SpikeConsumer::try_step)). [`into_error`](Self::into_error) turns
/// it into an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum StepRefused {
    /// `out` is not one per output.
    Outputs {
        /// Outputs of the model.
        expected: usize,
        /// Length of `out`.
        got: usize,
    },
    /// The input has not one entry per channel.
    Channels {
        /// Channels of the model.
        expected: usize,
        /// Entries of the input.
        got: usize,
    },
    /// A count that is not from 0 to 65,535.
    Count {
        /// Its channel.
        channel: usize,
        /// The count.
        got: f32,
    },
    /// A value that is not finite, or further than 10¹⁵ from 0.
    Value {
        /// Its channel.
        channel: usize,
        /// The value.
        got: f32,
    },
    /// The model does not estimate variances.
    NoVariances,
    /// The model computes no probabilities of classes.
    NoClasses,
    /// `out` is not one per class.
    Classes {
        /// Classes of the model.
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
            Self::Channels { expected, got } => write!(
                f,
                "counts: expected {expected}, one per channel of the model, got {got}"
            ),
            Self::Count { channel, got } => {
                write!(f, "count of channel {channel}: expected 0 to 65535, got {got}")
            }
            Self::Value { channel, got } => write!(
                f,
                "value of channel {channel}: expected a finite number of at most 1e15, got {got}"
            ),
            Self::NoVariances => f.write_str(
                "variances: expected a model that estimates them (betz train --variance), got one that does not",
            ),
            Self::NoClasses => f.write_str(
                "classes: expected a model that has them (betz train --labels), got one without",
            ),
            Self::Classes { expected, got } => write!(
                f,
                "classes: expected room for {expected}, one per class of the model, got {got}"
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

impl core::error::Error for StepRefused {}

impl StepRefused {
    /// Kind of the error that it becomes.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::Count { .. } | Self::Value { .. } => ErrorKind::InvalidArgument,
            Self::NoVariances | Self::NoClasses => ErrorKind::InsufficientData,
            Self::Outputs { .. }
            | Self::Channels { .. }
            | Self::Classes { .. }
            | Self::UnknownChannel { .. } => ErrorKind::Mismatch,
        }
    }

    /// The same with a message, which is allocated.
    pub fn into_error(self) -> Error {
        Error::new(self.kind(), self.to_string())
    }
}
