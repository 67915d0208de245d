//! Sums that stay with a model, and what they allow without the recording: taking channels away exactly.
//!
//! The ridge solution without some features S is no retraining: with M = Γ_c + λI, M φ' = Υ_c over the
//! features R that stay, and Υ_c = M φ is known from the decoder that is there. So φ'_R = M_RR⁻¹(M φ)_R, or,
//! from the factor of M alone, φ'_R = φ_R − P_RS P_SS⁻¹ φ_S with P = M⁻¹. The intercept follows from the
//! means. What is behind the latents of a lift or of experts stays as it is.

mod bytes;
mod refit;
mod remove;

pub use refit::Refit;
#[cfg(feature = "tuning")]
pub(crate) use remove::mask_blanking;
pub(crate) use remove::without_rows;
pub use remove::{Remover, drop_channels};

use betz_base::error::{Error, Result};
use betz_gram::NormalEquations;
use betz_runtime::model::{Attachment, Decoder};

/// The tag of the sums in a model file.
pub const TAG: [u8; 4] = *b"sums";

/// The sums a decoder's linear engine was solved from, and the ridge.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredStatistics {
    /// Γ, Υ and the plain sums. The outputs are those that stage 1 was trained on: of a nonlinear
    /// decoder, targets.
    pub sums: NormalEquations,
    /// λ.
    pub ridge: f64,
}

impl StoredStatistics {
    /// Bytes that the sums over `features` features and `outputs` outputs take in a model file; `None` for
    /// more than can be counted.
    pub fn size(features: usize, outputs: usize) -> Option<usize> {
        let lower = features.checked_mul(features.checked_add(1)?)? / 2;
        let values = lower
            .checked_add(features.checked_mul(outputs.checked_add(1)?)?)?
            .checked_add(outputs.checked_mul(2)?)?;
        values
            .checked_mul(size_of::<f64>())?
            .checked_add(bytes::HEAD)
    }

    /// The sums that travel with `decoder`.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`](betz_base::ErrorKind::InsufficientData) when it has none (they are
    /// kept where training is asked to retain them); as [`from_bytes`](Self::from_bytes);
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) when they are of other features.
    pub fn read(decoder: &Decoder) -> Result<Self> {
        let Some(bytes) = decoder.attachment(TAG) else {
            return Err(Error::new(
                betz_base::ErrorKind::InsufficientData,
                "expected a model that retains its sums, got one without; train a linear decoder, a lift or experts with --retain",
            ));
        };
        let retained = Self::from_bytes(bytes)?;
        if retained.sums.features != decoder.features() {
            return Err(Error::new(
                betz_base::ErrorKind::InvalidModel,
                format!(
                    "retained sums: expected those of the model's {} features, got {}",
                    decoder.features(),
                    retained.sums.features
                ),
            ));
        }
        Ok(retained)
    }

    /// Refuses, before the work, to keep sums over `features` features and `outputs` outputs in `most`
    /// bytes that they do not fit; `None` keeps none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument), with the bytes they take.
    pub(crate) fn check_size(features: usize, outputs: usize, most: Option<usize>) -> Result<()> {
        let Some(most) = most else { return Ok(()) };
        match Self::size(features, outputs) {
            Some(bytes) if bytes <= most => Ok(()),
            bytes => Err(Error::argument(format!(
                "retained sums: expected {features} features to take at most {most} bytes, got {}; retain more, or use fewer filters",
                bytes.map_or("more than can be counted".to_owned(), |b| b.to_string())
            ))),
        }
    }

    /// `decoder` with `sums` and the ridge it was trained with, if `most` asks for that.
    ///
    /// # Errors
    /// As [`check_size`](Self::check_size) and [`Decoder::new`].
    pub(crate) fn kept_in(
        decoder: Decoder,
        sums: &NormalEquations,
        most: Option<usize>,
    ) -> Result<Decoder> {
        Self::check_size(sums.features, sums.outputs, most)?;
        if most.is_none() {
            return Ok(decoder);
        }
        let retained = Self {
            sums: sums.clone(),
            ridge: decoder.training().ridge,
        };
        let mut parts = decoder.into_parts();
        parts.attachments.retain(|a| a.tag != TAG);
        parts.attachments.push(retained.attachment());
        Decoder::new(parts)
    }

    /// The sums in the form in which they travel with a decoder.
    pub fn attachment(&self) -> Attachment {
        Attachment {
            tag: TAG,
            bytes: self.to_bytes(),
        }
    }
}

/// `mask` without `channels`, which are to be left out, or dropped, as `what` says.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a channel that the model does not have, or
/// when none would be left.
pub(crate) fn mask_without(mask: &[bool], channels: &[usize], what: &str) -> Result<Vec<bool>> {
    let (mut mask, count) = (mask.to_vec(), mask.len());
    for &channel in channels {
        match mask.get_mut(channel) {
            Some(takes_part) => *takes_part = false,
            None => {
                return Err(Error::argument(format!(
                    "channels to {what}: expected numbers below {count}, got {channel}"
                )));
            }
        }
    }
    if !mask.contains(&true) {
        return Err(Error::argument(format!(
            "channels to {what}: expected at least one of the model's {count} to be left, got none"
        )));
    }
    Ok(mask)
}

#[cfg(test)]
mod tests;
