//! The payload of a model file, one module a format version.
//!
//! A version's structures are its own and never change, whatever becomes of [`Decoder`]: fields are
//! written in order (bincode, little-endian, variable-length integers), so a field added, removed
//! or reordered is a new version. To add one: copy the newest module, change it, convert, raise
//! [`NEWEST`], keep a fixture of the old one in `tests/fixtures`.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Decoder;
use crate::error::{Error, ErrorKind, Result};

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
        1 => decode_as::<v1::Payload>(payload)?.try_into(),
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
/// A length inside the payload that promises more than is there must not become an allocation. The
/// limit on what bincode may take is a constant of its type, so the next larger of a few is chosen.
/// It counts a number at the width of its type, which may be eight times what the number takes in
/// the file: a string can ask for at most 128 times the payload (64 KiB for small ones), and serde
/// grows a list with what was really read, from at most 1 MiB.
fn decode_as<T: DeserializeOwned>(payload: &[u8]) -> Result<T> {
    const fn config<const LIMIT: usize>() -> impl bincode::config::Config {
        bincode::config::standard().with_limit::<LIMIT>()
    }
    const WIDEST: usize = MAX_BYTES.saturating_mul(8);
    let most = payload.len().saturating_mul(8);
    let decoded = if most <= 0x1_0000 {
        bincode::serde::decode_from_slice(payload, config::<0x1_0000>())
    } else if most <= 0x10_0000 {
        bincode::serde::decode_from_slice(payload, config::<0x10_0000>())
    } else if most <= 0x100_0000 {
        bincode::serde::decode_from_slice(payload, config::<0x100_0000>())
    } else if most <= 0x1000_0000 {
        bincode::serde::decode_from_slice(payload, config::<0x1000_0000>())
    } else {
        bincode::serde::decode_from_slice(payload, config::<WIDEST>())
    };
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
    use serde::Deserialize;

    use super::{Error, ErrorKind, Result, Serialize};
    use crate::model::{Decoder, LowPass, OutputScore, TrainingRecord};
    use crate::psc::{Filter, FilterBank};
    use crate::recording::OutputInfo;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Payload {
        step_seconds: f64,
        /// (τ in seconds, order)
        filters: Vec<(f64, u32)>,
        /// (order, cut-off in Hz)
        low_pass: Option<(u32, f64)>,
        delay_steps: i64,
        channel_names: Vec<String>,
        channel_mask: Vec<bool>,
        weights: Vec<f64>,
        intercept: Vec<f64>,
        /// (name, unit)
        outputs: Vec<(String, String)>,
        training: Training,
    }

    #[derive(Serialize, Deserialize)]
    struct Training {
        betz_version: String,
        steps: u64,
        segments: u64,
        spikes: u64,
        ridge: f64,
        gram_path: String,
        solver: String,
        folds: u32,
        scores: Vec<Score>,
    }

    #[derive(Serialize, Deserialize)]
    struct Score {
        name: String,
        unit: String,
        r2: f64,
        rmse: f64,
        nrmse_range: f64,
        nrmse_std: f64,
    }
    impl From<&Decoder> for Payload {
        fn from(decoder: &Decoder) -> Self {
            let training = &decoder.training;
            Self {
                step_seconds: decoder.step_seconds,
                filters: (decoder.bank.filters().iter())
                    .map(|f| (f.tau_seconds, f.order))
                    .collect(),
                low_pass: decoder.low_pass.map(|l| (l.order, l.cutoff_hz)),
                delay_steps: decoder.delay_steps,
                channel_names: decoder.channel_names.clone(),
                channel_mask: decoder.channel_mask.clone(),
                weights: decoder.weights.clone(),
                intercept: decoder.intercept.clone(),
                outputs: (decoder.outputs.iter())
                    .map(|o| (o.name.clone(), o.unit.clone()))
                    .collect(),
                training: Training {
                    betz_version: training.betz_version.clone(),
                    steps: training.steps,
                    segments: training.segments,
                    spikes: training.spikes,
                    ridge: training.ridge,
                    gram_path: training.gram_path.clone(),
                    solver: training.solver.clone(),
                    folds: training.folds,
                    scores: (training.scores.iter())
                        .map(|s| Score {
                            name: s.name.clone(),
                            unit: s.unit.clone(),
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

    impl TryFrom<Payload> for Decoder {
        type Error = Error;

        fn try_from(payload: Payload) -> Result<Self> {
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
                channel_names: payload.channel_names,
                channel_mask: payload.channel_mask,
                weights: payload.weights,
                intercept: payload.intercept,
                outputs: (payload.outputs.into_iter())
                    .map(|(name, unit)| OutputInfo { name, unit })
                    .collect(),
                training: TrainingRecord {
                    betz_version: training.betz_version,
                    steps: training.steps,
                    segments: training.segments,
                    spikes: training.spikes,
                    ridge: training.ridge,
                    gram_path: training.gram_path,
                    solver: training.solver,
                    folds: training.folds,
                    scores: (training.scores.into_iter())
                        .map(|s| OutputScore {
                            name: s.name,
                            unit: s.unit,
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
