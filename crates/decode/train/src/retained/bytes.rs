//! Retained sums as bytes: little-endian, the lower triangle of Γ row by row.

use super::StoredStatistics;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::wire::{Reader, Writer};
use betz_gram::NormalEquations;

/// Version, features, outputs (u32), two bytes' worth of nothing to keep what follows aligned, steps
/// (u64) and the ridge (f64).
pub(super) const HEAD: usize = 4 * 4 + 8 + 8;

const VERSION: u32 = 1;

impl StoredStatistics {
    /// The sums as bytes. Equal sums give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sums = &self.sums;
        let (n, m) = (sums.features, sums.outputs);
        let mut to = Writer {
            bytes: Vec::with_capacity(Self::size(n, m).unwrap_or(0)),
        };
        for number in [VERSION, n as u32, m as u32, 0] {
            to.u32(number);
        }
        to.u64(sums.steps);
        to.f64(self.ridge);
        let lower = (0..n).flat_map(|i| &sums.gram[i * n..][..=i]);
        let rest = [
            &sums.feature_sum,
            &sums.upsilon,
            &sums.output_sum,
            &sums.output_sq_sum,
        ];
        (lower.chain(rest.into_iter().flatten())).for_each(|value| to.f64(*value));
        to.bytes
    }

    /// The sums in `bytes`. Takes no memory out of proportion to them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for bytes that are no sums, of another length than they say, or that hold
    /// numbers no sums can be; [`ErrorKind::UnsupportedVersion`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Reader::new(bytes, ErrorKind::InvalidModel, "retained sums");
        let version = from.u32()?;
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!("retained sums: expected version {VERSION}, got {version}"),
            ));
        }
        let (n, m) = (from.u32()? as usize, from.u32()? as usize);
        let _reserved = from.u32()?;
        if Self::size(n, m) != Some(bytes.len()) || n == 0 || m == 0 {
            return Err(from.error(format_args!(
                "expected as many bytes as {n} features and {m} outputs take, got {}",
                bytes.len()
            )));
        }
        let (steps, ridge) = (from.u64()?, from.f64()?);
        let mut gram = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let value = from.f64()?;
                gram[i * n + j] = value;
                gram[j * n + i] = value;
            }
        }
        let sums = NormalEquations {
            features: n,
            outputs: m,
            steps,
            gram,
            feature_sum: from.f64_list(n as u64)?,
            upsilon: from.f64_list((n * m) as u64)?,
            output_sum: from.f64_list(m as u64)?,
            output_sq_sum: from.f64_list(m as u64)?,
        };
        let lists = [
            &sums.gram,
            &sums.feature_sum,
            &sums.upsilon,
            &sums.output_sum,
            &sums.output_sq_sum,
        ];
        if !lists.into_iter().flatten().all(|v| v.is_finite()) {
            return Err(from.error("expected finite sums, got NaN or infinity"));
        }
        if steps == 0 || !(ridge.is_finite() && ridge >= 0.0) {
            return Err(from.error(format_args!(
                "expected at least one step and a finite ridge of at least 0, got {steps} and {ridge}"
            )));
        }
        Ok(Self { sums, ridge })
    }
}
