//! The one error type of the library.
//!
//! A message says what was expected, what came, and where; the kind is what a program branches on.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// Result of every fallible call in Betz.
pub type Result<T> = core::result::Result<T, Error>;

/// Kind of an error, in terms that a caller can act on.
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
    /// The operating system has not the memory that was asked for.
    OutOfMemory,
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
        Self::OutOfMemory,
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
            Self::OutOfMemory => 302,
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
            Self::OutOfMemory => "out of memory",
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

/// An error: its [`ErrorKind`], a message for a person, and what the message counts as numbers.
///
/// The numbers are in a box of their own, which an error without them does not have.
///
/// ```
/// use betz_base::{Error, ErrorKind};
///
/// let error = Error::device_memory("Γ", 4096, 1000).at("training");
/// assert_eq!(error.kind(), ErrorKind::DeviceMemory);
/// assert_eq!((error.needed_bytes(), error.available_bytes()), (Some(4096), Some(1000)));
/// assert_eq!(error.channel(), None);
/// let says = "training: Γ: expected room for at least 4096 bytes, got 1000";
/// assert_eq!(error.message(), says);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    facts: Option<Box<Facts>>,
}

/// Details of an error for programs: a field of `Facts`, an accessor and a builder for each.
macro_rules! facts {
    ($($(#[$doc:meta])* $fact:ident, $with:ident: $number:ty;)*) => {
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        struct Facts {
            $($fact: Option<u64>,)*
        }

        impl Error {
            $(
                $(#[$doc])*
                pub fn $fact(&self) -> Option<u64> {
                    self.facts.as_ref()?.$fact
                }

                #[doc = concat!("Sets [`Error::", stringify!($fact), "`].")]
                #[must_use]
                pub fn $with(mut self, value: $number) -> Self {
                    self.facts.get_or_insert_default().$fact = Some(value as u64);
                    self
                }
            )*
        }
    };
}

facts! {
    /// The least memory, in bytes, with which the work can be done; if it fell short.
    needed_bytes, with_needed_bytes: u64;
    /// The memory, in bytes, that there was for it.
    available_bytes, with_available_bytes: u64;
    /// The place of the first wrong element, from 0, in the list, row-major array or file that the message
    /// names.
    position, with_position: usize;
    /// The channel it is about, from 0.
    channel, with_channel: usize;
    /// The filter of the bank it is about, from 0.
    filter, with_filter: usize;
    /// The segment of the recording it is about, from 0.
    segment, with_segment: usize;
}

impl Error {
    /// An error of `kind`; `message` says what was expected, what came and where.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: with_short_numbers(message.into()),
            facts: None,
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

    /// `what` takes `needed` bytes of a device's memory at least, of which `available` may be used.
    pub fn device_memory(what: impl fmt::Display, needed: u64, available: u64) -> Self {
        Self::new(
            ErrorKind::DeviceMemory,
            format!("{what}: expected room for at least {needed} bytes, got {available}"),
        )
        .with_needed_bytes(needed)
        .with_available_bytes(available)
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
    #[cfg(feature = "std")]
    pub fn io(action: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(
            ErrorKind::Io,
            format!("{action} {}: {error}", path.display()),
        )
    }

    /// `bytes` of memory for `what`, which the operating system does not give.
    pub fn no_memory(what: impl fmt::Display, bytes: usize) -> Self {
        Self::new(
            ErrorKind::OutOfMemory,
            format!("{what}: expected {bytes} bytes of memory, which the system does not give"),
        )
        .with_needed_bytes(bytes as u64)
    }

    /// The kind of this error.
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

    /// The same error as one of `kind`: what it means to who called may be another thing.
    #[must_use]
    pub fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// The same error in other words.
    #[must_use]
    pub fn in_words(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }
}

/// Digits in a row from which on a number is written with an exponent: 1e300, not 301 digits.
const LONG_NUMBER: usize = 25;

/// `message` without numbers that fill lines.
fn with_short_numbers(message: String) -> String {
    let of_number = |c: char| c.is_ascii_digit() || c == '.';
    if !message
        .split(|c| !of_number(c))
        .any(|run| run.len() > LONG_NUMBER)
    {
        return message;
    }
    let mut short = String::with_capacity(message.len());
    let mut rest = message.as_str();
    while let Some(at) = rest.find(of_number) {
        short.push_str(&rest[..at]);
        rest = &rest[at..];
        let run = &rest[..rest.find(|c| !of_number(c)).unwrap_or(rest.len())];
        match with_exponent(run) {
            Some(number) if run.len() > LONG_NUMBER => short.push_str(&number),
            _ => short.push_str(run),
        }
        rest = &rest[run.len()..];
    }
    short.push_str(rest);
    short
}

/// A number of digits with at most one point among them, as its first 17 digits that count and an exponent. (As text: the
/// tables that parse numbers would be 13 kB of the C library.)
fn with_exponent(run: &str) -> Option<String> {
    let (whole, part) = run.split_once('.').unwrap_or((run, ""));
    if part.contains('.') {
        return None;
    }
    let digits = [whole, part].concat();
    let Some(first) = digits.find(|c| c != '0') else {
        return Some("0".to_owned());
    };
    let (leading, others) = digits[first..].split_at(1);
    let others = others[..others.len().min(16)].trim_end_matches('0');
    let point = if others.is_empty() { "" } else { "." };
    let exponent = whole.len() as i64 - first as i64 - 1;
    Some(format!("{leading}{point}{others}e{exponent}"))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn codes_lie_in_their_bands_in_rising_order() {
        for pair in ErrorKind::ALL.windows(2) {
            assert!(pair[0].code() < pair[1].code(), "{}", pair[1]);
        }
        assert_eq!(ErrorKind::OutOfMemory.code(), 302);
    }

    #[test]
    fn facts_stay_whatever_the_words_and_the_kind() {
        let error = Error::no_memory("queue", 12)
            .with_available_bytes(7)
            .with_position(3)
            .with_channel(4)
            .with_filter(1)
            .with_segment(5)
            .at("opening")
            .of_kind(ErrorKind::DeviceMemory)
            .in_words("too little");
        let bytes = (error.needed_bytes(), error.available_bytes());
        assert_eq!(bytes, (Some(12), Some(7)));
        let place = (error.position(), error.channel(), error.filter());
        assert_eq!(place, (Some(3), Some(4), Some(1)));
        assert_eq!(error.segment(), Some(5));
        assert_eq!(error.kind(), ErrorKind::DeviceMemory);
        assert_eq!(error.to_string(), "too little");
    }

    #[test]
    fn an_error_without_facts_knows_none_and_is_small() {
        let error = Error::argument("step: expected more than 0, got 0");
        assert_eq!((error.needed_bytes(), error.position()), (None, None));
        assert_eq!((error.channel(), error.segment()), (None, None));
        assert!(size_of::<Error>() <= size_of::<String>() + 2 * size_of::<usize>());
    }

    #[test]
    fn numbers_of_hundreds_of_digits_are_written_short() {
        let says = |value: f64| Error::argument(format!("expected at most 100.5, got {value} s"));
        assert_eq!(says(1e300).message(), "expected at most 100.5, got 1e300 s");
        assert_eq!(
            says(-2.5e-200).message(),
            "expected at most 100.5, got -2.5e-200 s"
        );
        assert_eq!(says(0.1).message(), "expected at most 100.5, got 0.1 s");
        let zeros = Error::argument("0".repeat(400) + "...");
        assert!(zeros.message().len() < 500);
    }
}
