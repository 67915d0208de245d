//! Failures of calls, on the Rust side of the boundary.

use std::fmt;

use betz::stream::StepRefused;

use crate::status::betz_status;

/// A failure of a call: a mistake that is only possible in C, or an error of the library.
///
/// Formatting one allocates nothing, so a refused call on the step path does not either.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The named argument is NULL.
    Null(&'static str),
    /// The named argument has an invalid value.
    Argument {
        name: &'static str,
        expected: &'static str,
    },
    /// The named argument has the wrong number of elements.
    Length {
        name: &'static str,
        expected: usize,
        got: usize,
    },
    /// No version of the named struct has this size.
    StructSize {
        name: &'static str,
        known: usize,
        got: usize,
    },
    /// The named struct belongs to a newer version and asks for a feature that this one does not
    /// have.
    NewerStruct {
        name: &'static str,
        known: usize,
        got: usize,
        at: usize,
    },
    /// The named handle's threads exist only in the parent process, before the fork.
    Forked(&'static str),
    /// Another call is using the named handle.
    Busy(&'static str),
    /// The system has no memory left; the call has freed its results.
    OutOfMemory,
    /// The session has not stepped yet.
    NoStep,
    /// The session refused a step.
    Step(StepRefused),
    /// An earlier panic has poisoned the named handle.
    Poisoned(&'static str),
    /// An error of the library.
    Betz(betz::Error),
}

impl Failure {
    pub(crate) fn status(&self) -> betz_status {
        match self {
            Self::Null(_) => betz_status::BETZ_ERROR_NULL,
            Self::Argument { .. } => betz_status::BETZ_ERROR_INVALID_ARGUMENT,
            Self::Length { .. } => betz_status::BETZ_ERROR_MISMATCH,
            Self::StructSize { .. } | Self::NewerStruct { .. } => {
                betz_status::BETZ_ERROR_STRUCT_SIZE
            }
            Self::Forked(_) => betz_status::BETZ_ERROR_FORKED,
            Self::Busy(_) => betz_status::BETZ_ERROR_BUSY,
            Self::OutOfMemory => betz_status::BETZ_ERROR_OUT_OF_MEMORY,
            Self::NoStep => betz_status::BETZ_ERROR_INSUFFICIENT_DATA,
            Self::Step(refused) => refused.kind().into(),
            Self::Poisoned(_) => betz_status::BETZ_ERROR_POISONED,
            Self::Betz(error) => error.kind().into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null(name) => write!(f, "{name}: expected a pointer, got NULL"),
            Self::Argument { name, expected } => write!(f, "{name}: expected {expected}"),
            Self::Length {
                name,
                expected,
                got,
            } => write!(f, "{name}: expected {expected}, got {got}"),
            Self::StructSize { name, known, got } => write!(
                f,
                "{name}: expected the size of a version of this struct, at most {known} in this \
                 library, got {got} (give sizeof; a configuration is filled with its \
                 betz_*_config_default first)"
            ),
            Self::NewerStruct {
                name,
                known,
                got,
                at,
            } => write!(
                f,
                "{name}: expected zeros behind the {known} bytes that this library knows, got {got} \
                 bytes of which byte {at} is set (the program was compiled for a newer library)"
            ),
            Self::Forked(name) => write!(
                f,
                "{name}: expected the process that opened it, got a child forked from it, which has \
                 none of its threads (close it, and open another)"
            ),
            Self::Busy(name) => write!(
                f,
                "{name}: expected one call at a time, got a second one while the first runs (in another thread, \
                 or interrupted by a signal handler)"
            ),
            Self::OutOfMemory => f.write_str(
                "memory: expected more of it, the system has none left (what this call had made is \
                 freed)",
            ),
            Self::NoStep => {
                f.write_str("session: expected at least one step before this call, got none")
            }
            Self::Step(StepRefused::Outputs { expected, got }) => {
                write!(f, "outputs: expected {expected}, got {got}")
            }
            Self::Step(StepRefused::Channels { expected, got }) => {
                write!(f, "channels: expected {expected}, got {got}")
            }
            Self::Step(StepRefused::UnknownChannel {
                spike,
                channel,
                channels,
            }) => write!(
                f,
                "channels[{spike}]: expected a channel of the model, below {channels}, got {channel}"
            ),
            Self::Step(refused) => refused.fmt(f),
            Self::Poisoned(name) => write!(
                f,
                "{name}: an earlier call panicked and left this handle in an unknown state; it can \
                 only be freed"
            ),
            Self::Betz(error) => error.fmt(f),
        }
    }
}

impl From<StepRefused> for Failure {
    fn from(refused: StepRefused) -> Self {
        Self::Step(refused)
    }
}

impl From<betz::Error> for Failure {
    fn from(error: betz::Error) -> Self {
        Self::Betz(error)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;
