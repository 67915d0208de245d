//! Why a call fails, on this side of the boundary.

use std::fmt;

use crate::status::betz_status;

/// Why a call fails: a mistake that only C can make, or an error of the library.
///
/// Formatting one allocates nothing, so a refused call on the step path does not either.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The named argument is NULL.
    Null(&'static str),
    /// The named argument cannot be read as what it should be.
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
    /// The named struct is of no known size.
    StructSize {
        name: &'static str,
        expected: u32,
        got: u32,
    },
    /// The named handle has seen a panic.
    Poisoned(&'static str),
    /// The library refused.
    Betz(betz::Error),
}

impl Failure {
    pub(crate) fn status(&self) -> betz_status {
        match self {
            Self::Null(_) => betz_status::BETZ_ERROR_NULL,
            Self::Argument { .. } => betz_status::BETZ_ERROR_INVALID_ARGUMENT,
            Self::Length { .. } => betz_status::BETZ_ERROR_MISMATCH,
            Self::StructSize { .. } => betz_status::BETZ_ERROR_STRUCT_SIZE,
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
            Self::StructSize {
                name,
                expected,
                got,
            } => write!(
                f,
                "{name}->struct_size: expected {expected}, got {got} (fill the struct with its \
                 betz_*_config_default first, and link the library whose header you compile with)"
            ),
            Self::Poisoned(name) => write!(
                f,
                "{name}: an earlier call panicked and left this handle in an unknown state; it can \
                 only be freed"
            ),
            Self::Betz(error) => error.fmt(f),
        }
    }
}

impl From<betz::Error> for Failure {
    fn from(error: betz::Error) -> Self {
        Self::Betz(error)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;
