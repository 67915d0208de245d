//! The payload of a model file, one module a format version.
//!
//! A version's structures are its own and never change, whatever becomes of [`Decoder`]: fields are
//! written in order (bincode, little-endian, variable-length integers), so a field added, removed
//! or reordered is a new version. To add one: copy the newest module, change it, convert, raise
//! [`NEWEST`], keep a fixture of the old one in `tests/fixtures`.

use serde::{Deserialize, Serialize};

use super::Decoder;
use betz_base::error::{Error, ErrorKind, Result};

/// Largest model file that is read or written, in bytes: a bound on what a damaged or hostile file
/// can make a loader take.
pub const MAX_BYTES: usize = 1 << 30;

/// The version that is written.
pub(super) const NEWEST: u32 = 1;
/// The oldest version that is read.
const OLDEST: u32 = 1;

/// The payload of `decoder` in the newest version, after `head` bytes left for the frame.
pub(super) fn encode(decoder: &Decoder, head: usize) -> Result<Vec<u8>> {
    let payload = v1::Payload::from(decoder);
    let mut bytes = vec![0; head];
    bincode::serde::encode_into_std_write(&payload, &mut bytes, bincode::config::standard())
        .map_err(|e| Error::new(ErrorKind::Internal, format!("encoding a model: {e}")))?;
    Ok(bytes)
}

/// The decoder in a payload of `version`. It is well-formed, not yet checked for sense.
pub(super) fn decode(version: u32, payload: &[u8]) -> Result<Decoder> {
    match version {
        1 => decode_as::<v1::Payload<'_>>(payload)?.try_into(),
        newer if newer > NEWEST => Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "model format {newer}: this is Betz {}, which reads formats {OLDEST} to {NEWEST}; load it with a newer Betz",
                env!("CARGO_PKG_VERSION")
            ),
        )),
        other => Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "model format {other}: never written by any version of Betz (expected {OLDEST} to {NEWEST})"
            ),
        )),
    }
}

/// Decodes all of `payload` as a `T`.
///
/// A length inside the payload that promises more than is there must not become an allocation: text
/// is borrowed from the payload, and serde grows a list with what was really read, from at most 1 MiB.
fn decode_as<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T> {
    let config = bincode::config::standard();
    let decoded = bincode::serde::borrow_decode_from_slice(payload, config);
    let (value, used) = decoded.map_err(|error| {
        Error::new(
            ErrorKind::InvalidModel,
            format!("the model's content does not decode: {error}"),
        )
    })?;
    if used != payload.len() {
        return Err(Error::new(
            ErrorKind::InvalidModel,
            format!(
                "the model's content: expected {used} bytes, got {} more",
                payload.len() - used
            ),
        ));
    }
    Ok(value)
}

/// Writes and reads format 1.
mod v1 {
    use super::{Deserialize, Error, ErrorKind, Result, Serialize};
    use crate::model::{Decoder, LowPass, OutputScore, TrainingRecord};
    use crate::psc::{Filter, FilterBank};
    use betz_recording::OutputInfo;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Payload<'a> {
        step_seconds: f64,
        /// (τ in seconds, order)
        filters: Vec<(f64, u32)>,
        /// (order, cut-off in Hz)
        low_pass: Option<(u32, f64)>,
        delay_steps: i64,
        #[serde(borrow)]
        channel_names: Vec<&'a str>,
        channel_mask: Vec<bool>,
        weights: Vec<f64>,
        intercept: Vec<f64>,
        /// (name, unit)
        #[serde(borrow)]
        outputs: Vec<(&'a str, &'a str)>,
        #[serde(borrow)]
        training: Training<'a>,
    }

    #[derive(Serialize, Deserialize)]
    struct Training<'a> {
        betz_version: &'a str,
        steps: u64,
        segments: u64,
        spikes: u64,
        ridge: f64,
        gram_path: &'a str,
        solver: &'a str,
        folds: u32,
        #[serde(borrow)]
        scores: Vec<Score<'a>>,
    }

    #[derive(Serialize, Deserialize)]
    struct Score<'a> {
        name: &'a str,
        unit: &'a str,
        r2: f64,
        rmse: f64,
        nrmse_range: f64,
        nrmse_std: f64,
    }

    impl<'a> From<&'a Decoder> for Payload<'a> {
        fn from(decoder: &'a Decoder) -> Self {
            let training = &decoder.training;
            Self {
                step_seconds: decoder.step_seconds,
                filters: (decoder.bank.filters().iter())
                    .map(|f| (f.tau_seconds, f.order))
                    .collect(),
                low_pass: decoder.low_pass.map(|l| (l.order, l.cutoff_hz)),
                delay_steps: decoder.delay_steps,
                channel_names: decoder.channel_names.iter().map(String::as_str).collect(),
                channel_mask: decoder.channel_mask.clone(),
                weights: decoder.weights.clone(),
                intercept: decoder.intercept.clone(),
                outputs: (decoder.outputs.iter())
                    .map(|o| (o.name.as_str(), o.unit.as_str()))
                    .collect(),
                training: Training {
                    betz_version: &training.betz_version,
                    steps: training.steps,
                    segments: training.segments,
                    spikes: training.spikes,
                    ridge: training.ridge,
                    gram_path: &training.gram_path,
                    solver: &training.solver,
                    folds: training.folds,
                    scores: (training.scores.iter())
                        .map(|s| Score {
                            name: &s.name,
                            unit: &s.unit,
                            r2: s.r2,
                            rmse: s.rmse,
                            nrmse_range: s.nrmse_range,
                            nrmse_std: s.nrmse_std,
                        })
                        .collect(),
                },
            }
        }
    }

    impl TryFrom<Payload<'_>> for Decoder {
        type Error = Error;

        fn try_from(payload: Payload<'_>) -> Result<Self> {
            let filters = (payload.filters.into_iter())
                .map(|(tau_seconds, order)| Filter { tau_seconds, order })
                .collect();
            let training = payload.training;
            Ok(Self {
                step_seconds: payload.step_seconds,
                bank: FilterBank::new(filters)
                    .map_err(|e| Error::new(ErrorKind::InvalidModel, e.message()))?,
                low_pass: (payload.low_pass).map(|(order, cutoff_hz)| LowPass { order, cutoff_hz }),
                delay_steps: payload.delay_steps,
                channel_names: (payload.channel_names.into_iter())
                    .map(str::to_owned)
                    .collect(),
                channel_mask: payload.channel_mask,
                weights: payload.weights,
                intercept: payload.intercept,
                outputs: (payload.outputs.into_iter())
                    .map(|(name, unit)| OutputInfo {
                        name: name.to_owned(),
                        unit: unit.to_owned(),
                    })
                    .collect(),
                training: TrainingRecord {
                    betz_version: training.betz_version.to_owned(),
                    steps: training.steps,
                    segments: training.segments,
                    spikes: training.spikes,
                    ridge: training.ridge,
                    gram_path: training.gram_path.to_owned(),
                    solver: training.solver.to_owned(),
                    folds: training.folds,
                    scores: (training.scores.into_iter())
                        .map(|s| OutputScore {
                            name: s.name.to_owned(),
                            unit: s.unit.to_owned(),
                            r2: s.r2,
                            rmse: s.rmse,
                            nrmse_range: s.nrmse_range,
                            nrmse_std: s.nrmse_std,
                        })
                        .collect(),
                },
            })
        }
    }
}
