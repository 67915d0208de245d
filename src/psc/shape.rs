//! The formulas: one filter, and a bank of them.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Largest order n of a filter.
pub const MAX_ORDER: u32 = 4;

/// One PSC filter h(t) = t^n e^(−t/τ), t ≥ 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// Time constant τ in seconds; finite and positive.
    pub tau_seconds: f64,
    /// Order n, 0 to [`MAX_ORDER`].
    pub order: u32,
}

/// Filters applied to every channel. Features are ordered channel-major: feature
/// `channel * bank.len() + filter`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilterBank {
    filters: Vec<Filter>,
}

impl FilterBank {
    /// A bank of `filters`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) when the bank is
    /// empty, a τ is not finite and positive, an order exceeds [`MAX_ORDER`], or a filter is there
    /// twice (its features would be equal and Γ singular).
    pub fn new(filters: Vec<Filter>) -> Result<Self> {
        if filters.is_empty() {
            return Err(Error::argument(
                "filter bank: expected at least one filter, got none",
            ));
        }
        for (i, f) in filters.iter().enumerate() {
            if !(f.tau_seconds.is_finite() && f.tau_seconds > 0.0) {
                return Err(Error::argument(format!(
                    "filter {i}: expected a finite tau > 0 s, got {}",
                    f.tau_seconds
                )));
            }
            if f.order > MAX_ORDER {
                return Err(Error::argument(format!(
                    "filter {i}: expected an order of 0 to {MAX_ORDER}, got {}",
                    f.order
                )));
            }
            if filters[..i].contains(f) {
                return Err(Error::argument(format!(
                    "filter {i}: tau {} s, order {} is in the bank already",
                    f.tau_seconds, f.order
                )));
            }
        }
        Ok(Self { filters })
    }

    /// The filters, in feature order.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Number of filters.
    pub fn len(&self) -> usize {
        self.filters.len()
    }

    /// Never true: a bank holds at least one filter.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }
}
