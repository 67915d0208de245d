//! The one error type of the library.
//!
//! A message says what was expected, what came, and where; the kind is what a program branches on.

use std::fmt;
use std::path::Path;

/// Result of every fallible call in Betz.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, in the terms a caller can act on.
///
/// Each kind has one status code of the C ABI ([`ErrorKind::code`]). Codes come in bands of one
/// hundred (1xx arguments, 2xx data, 3xx files and the system, 4xx numerics, 5xx devices,
/// 9xx Betz itself) and are never given a new meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter is outside its documented range.
    InvalidArgument,
    /// Two things that must agree in shape, count, names or clock do not.
    Mismatch,
    /// A recording or event file breaks its schema.
    InvalidRecording,
    /// The data is well-formed but too small or too empty for what was asked.
    InsufficientData,
    /// A model file is damaged or is no model file.
    InvalidModel,
    /// A file was written by a version of Betz that this one cannot read.
    UnsupportedVersion,
    /// A session's checkpoint is damaged or is no checkpoint.
    InvalidCheckpoint,
    /// The operating system refused to read, write or map something.
    Io,
    /// The user asked a long operation to stop.
    Interrupted,
    /// A matrix that must be positive definite is not (a dead or duplicated channel, no ridge).
    NotPositiveDefinite,
    /// A computation produced NaN or infinity from finite input.
    NonFinite,
    /// The requested device cannot be had; the message keeps the reason.
    DeviceUnavailable,
    /// The device (or its cap) has too little memory, or the work is more than its kernels take; the
    /// message names what would do.
    DeviceMemory,
    /// A device call failed.
    DeviceFailure,
    /// A kernel did not compile; the message carries the compiler's log.
    KernelCompile,
    /// A broken invariant inside Betz: a bug, please report it.
    Internal,
}

impl ErrorKind {
    /// Every kind, in the order of their codes.
    pub const ALL: &[Self] = &[
        Self::InvalidArgument,
        Self::Mismatch,
        Self::InvalidRecording,
        Self::InsufficientData,
        Self::InvalidModel,
        Self::UnsupportedVersion,
        Self::InvalidCheckpoint,
        Self::Io,
        Self::Interrupted,
        Self::NotPositiveDefinite,
        Self::NonFinite,
        Self::DeviceUnavailable,
        Self::DeviceMemory,
        Self::DeviceFailure,
        Self::KernelCompile,
        Self::Internal,
    ];

    /// The status code of this kind in the C ABI. Stable for ever.
    pub const fn code(self) -> i32 {
        match self {
            Self::InvalidArgument => 100,
            Self::Mismatch => 101,
            Self::InvalidRecording => 200,
            Self::InsufficientData => 201,
            Self::InvalidModel => 202,
            Self::UnsupportedVersion => 203,
            Self::InvalidCheckpoint => 204,
            Self::Io => 300,
            Self::Interrupted => 301,
            Self::NotPositiveDefinite => 400,
            Self::NonFinite => 401,
            Self::DeviceUnavailable => 500,
            Self::DeviceMemory => 501,
            Self::DeviceFailure => 502,
            Self::KernelCompile => 503,
            Self::Internal => 900,
        }
    }

    /// A short name for logs and for programs that read messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid argument",
            Self::Mismatch => "mismatch",
            Self::InvalidRecording => "invalid recording",
            Self::InsufficientData => "insufficient data",
            Self::InvalidModel => "invalid model",
            Self::UnsupportedVersion => "unsupported version",
            Self::InvalidCheckpoint => "invalid checkpoint",
            Self::Io => "input/output",
            Self::Interrupted => "interrupted",
            Self::NotPositiveDefinite => "not positive definite",
            Self::NonFinite => "non-finite value",
            Self::DeviceUnavailable => "device unavailable",
            Self::DeviceMemory => "device memory",
            Self::DeviceFailure => "device failure",
            Self::KernelCompile => "kernel compilation",
            Self::Internal => "internal error",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error: its [`ErrorKind`] and a message for a person.
///
/// ```
/// use betz_base::{Error, ErrorKind};
///
/// let error = Error::argument("expected at least 1 filter, got 0").at("bank");
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert_eq!(error.to_string(), "bank: expected at least 1 filter, got 0");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of `kind`; `message` says what was expected, what came and where.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// A parameter out of range.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// More work than a device's kernels take, which the CPU may still do.
    pub fn device_limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::DeviceMemory, message)
    }

    /// Two things that do not fit together.
    pub fn mismatch(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Mismatch, message)
    }

    /// A recording that breaks its schema.
    pub fn recording(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidRecording, message)
    }

    /// The operating system's error while doing `action` ("reading", "writing") on `path`.
    pub fn io(action: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::new(
            ErrorKind::Io,
            format!("{action} {}: {error}", path.display()),
        )
    }

    /// `bytes` of memory for `what`, which the operating system does not give.
    pub fn no_memory(what: impl fmt::Display, bytes: usize) -> Self {
        Self::new(
            ErrorKind::Io,
            format!("{what}: the system has no {bytes} bytes of memory for it"),
        )
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message alone.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same error with `place` put in front of its message (a file, an array, a channel).
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
