//! Section of the sampled filters, which stand behind the recursive ones of the payload.

use alloc::format;
use alloc::vec::Vec;

use crate::model::MAX_FILTERS;
use crate::psc::{MAX_SAMPLES, SampledFilter};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::wire::{Reader, Writer};

/// Readers that do not know it refuse the file: its decoder would not be the same without.
pub(super) const TAG: [u8; 4] = *b"SAMP";

/// Per filter: name, step, start, and the samples behind their number.
pub(super) fn write(filters: &[SampledFilter], to: &mut Writer) {
    to.varint(filters.len() as u64);
    for filter in filters {
        to.var_text(filter.name());
        to.f64(filter.step_seconds());
        to.signed(filter.start());
        to.varint(filter.samples().len() as u64);
        filter.samples().iter().for_each(|h| to.f64(*h));
    }
}

pub(super) fn read(from: &mut Reader<'_>) -> Result<Vec<SampledFilter>> {
    let (count, mut filters) = from.at("sampled filters").many(11, MAX_FILTERS)?;
    for _ in 0..count {
        let name = from.at("a sampled filter's name").var_text()?;
        let step_seconds = from.at("a sampled filter's step").f64()?;
        let start = from.at("a sampled filter's start").signed()?;
        let samples = from.at("a sampled filter's samples").varint()?;
        if samples > MAX_SAMPLES as u64 {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!("filter {name}: expected at most {MAX_SAMPLES} samples, got {samples}"),
            ));
        }
        let samples = from.at("a sampled filter's samples").f64_list(samples)?;
        let filter = SampledFilter::new(name, samples, step_seconds, start);
        filters.push(filter.map_err(|e| Error::new(ErrorKind::InvalidModel, e.message()))?);
    }
    Ok(filters)
}
