//! Retained sums as bytes: little-endian, the lower triangle of Γ row by row.

use super::Retained;
use betz_base::error::{Error, ErrorKind, Result};
use betz_gram::NormalEquations;

/// Version, features, outputs (u32), two bytes' worth of nothing to keep what follows aligned, steps
/// (u64) and the ridge (f64).
pub(super) const HEAD: usize = 4 * 4 + 8 + 8;

const VERSION: u32 = 1;

impl Retained {
    /// The sums as bytes. Equal sums give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sums = &self.sums;
        let (n, m) = (sums.features, sums.outputs);
        let mut bytes = Vec::with_capacity(Self::size(n, m).unwrap_or(0));
        for number in [VERSION, n as u32, m as u32, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&sums.steps.to_le_bytes());
        bytes.extend_from_slice(&self.ridge.to_le_bytes());
        let lower = (0..n).flat_map(|i| &sums.gram[i * n..][..=i]);
        let rest = [
            &sums.feature_sum,
            &sums.upsilon,
            &sums.output_sum,
            &sums.output_sq_sum,
        ];
        for value in lower.chain(rest.into_iter().flatten()) {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// The sums in `bytes`. Takes no memory out of proportion to them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for bytes that are no sums, of another length than they say, or that hold
    /// numbers no sums can be; [`ErrorKind::UnsupportedVersion`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let damaged =
            |what: String| Error::new(ErrorKind::InvalidModel, format!("retained sums: {what}"));
        let Some((head, values)) = bytes.split_at_checked(HEAD) else {
            return Err(damaged(format!(
                "expected at least {HEAD} bytes, got {}",
                bytes.len()
            )));
        };
        let (words, numbers) = head.split_at(16);
        let word = |i: usize| {
            let (words, _) = words.as_chunks::<4>();
            u32::from_le_bytes(words[i])
        };
        if word(0) != VERSION {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!("retained sums: expected version {VERSION}, got {}", word(0)),
            ));
        }
        let (n, m) = (word(1) as usize, word(2) as usize);
        if Self::size(n, m) != Some(bytes.len()) || n == 0 || m == 0 {
            return Err(damaged(format!(
                "expected as many bytes as {n} features and {m} outputs take, got {}",
                bytes.len()
            )));
        }
        let (numbers, _) = numbers.as_chunks::<8>();
        let (steps, ridge) = (
            u64::from_le_bytes(numbers[0]),
            f64::from_le_bytes(numbers[1]),
        );
        let (values, _) = values.as_chunks::<8>();
        let mut values = values.iter().map(|v| f64::from_le_bytes(*v));
        let mut take = |count: usize| values.by_ref().take(count).collect::<Vec<f64>>();
        let mut gram = vec![0.0; n * n];
        for i in 0..n {
            for (j, value) in take(i + 1).into_iter().enumerate() {
                gram[i * n + j] = value;
                gram[j * n + i] = value;
            }
        }
        let sums = NormalEquations {
            features: n,
            outputs: m,
            steps,
            gram,
            feature_sum: take(n),
            upsilon: take(n * m),
            output_sum: take(m),
            output_sq_sum: take(m),
        };
        let lists = [
            &sums.gram,
            &sums.feature_sum,
            &sums.upsilon,
            &sums.output_sum,
            &sums.output_sq_sum,
        ];
        if !lists.into_iter().flatten().all(|v| v.is_finite()) {
            return Err(damaged("expected finite sums, got NaN or infinity".into()));
        }
        if steps == 0 || !(ridge.is_finite() && ridge >= 0.0) {
            return Err(damaged(format!(
                "expected at least one step and a finite ridge of at least 0, got {steps} and {ridge}"
            )));
        }
        Ok(Self { sums, ridge })
    }
}
