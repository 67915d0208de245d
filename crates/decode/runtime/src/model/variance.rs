//! The likely distance of estimates from the truth, step by step.

use super::format::reader;
use super::{Attachment, Decoder, FilteredReadout};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::wire::Writer;

/// A second readout of the features of a lift or of experts: its outputs are the natural logarithms of the
/// variances of the decoder's outputs, in their units squared.
///
/// It travels with a decoder as an [`Attachment`]: a reader that does not know it decodes without.
#[derive(Debug, Clone, PartialEq)]
pub struct LogVariance {
    /// Of the same features as the head's own, about the same centre, with the same filter.
    pub readout: FilteredReadout,
}

impl LogVariance {
    /// The tag of its section of the model file.
    pub const TAG: [u8; 4] = *b"vari";

    /// The form in which it travels with a decoder.
    pub fn attachment(&self) -> Attachment {
        let mut to = Writer::default();
        self.readout.write(&mut to);
        Attachment {
            tag: Self::TAG,
            bytes: to.bytes,
        }
    }

    /// The attachment of `decoder`; `None` if it has none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for bytes that are no such readout.
    pub fn of(decoder: &Decoder) -> Result<Option<Self>> {
        let Some(bytes) = decoder.attachment(Self::TAG) else {
            return Ok(None);
        };
        let mut from = reader(bytes);
        let readout = FilteredReadout::read(&mut from)?;
        from.at("log-variances").end()?;
        Ok(Some(Self { readout }))
    }
}

impl FilteredReadout {
    /// This readout's outputs, then `other`'s.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for one of other features, another filter or another number of outputs.
    pub(in crate::model) fn beside(&self, other: &Self) -> Result<Self> {
        let outputs = self.intercept.len();
        let sizes = |r: &Self| (r.direct.len(), r.filtered.len(), r.intercept.len());
        if sizes(self) != sizes(other)
            || self.centre != other.centre
            || self.tau_seconds != other.tau_seconds
        {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                "log-variances: expected a readout of the head's features, about their centre and with its filter, one per output, got another",
            ));
        }
        let rows = |a: &[f64], b: &[f64]| {
            let both = a.chunks_exact(outputs).zip(b.chunks_exact(outputs));
            both.flat_map(|(a, b)| [a, b].concat()).collect()
        };
        Ok(Self {
            tau_seconds: self.tau_seconds,
            centre: self.centre.clone(),
            direct: rows(&self.direct, &other.direct),
            filtered: rows(&self.filtered, &other.filtered),
            intercept: [&self.intercept[..], &other.intercept].concat(),
        })
    }
}
