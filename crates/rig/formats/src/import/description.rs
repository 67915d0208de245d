//! Description of a decoder that Betz exported, beside its weights: names, the numbers of a blend, and properties as JSON.

use betz_base::{Error, ErrorKind, Result};
use betz_runtime::model::{Blanking, Blend, Decoder, Head, Limits, OutputRange, Recurrent};
use serde_json::{Value, json};

/// Key of [`describe`] in the metadata of a file, behind `producer`, by which the command line knows its own files.
pub(crate) const KEY: &str = "properties";

/// Names of the engine's weights and intercept in ONNX.
pub(crate) const WEIGHTS: &str = "engine.weights";
pub(crate) const INTERCEPT: &str = "engine.intercept";

/// Names of [`blend_numbers`] and of the deviations.
pub(crate) const BLEND: &str = "blend";
pub(crate) const DEVIATIONS: &str = "blend_deviations";

/// Properties of a decoder that its weights do not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Properties {
    delay_steps: i64,
    /// Empty if all channels take part.
    pub(super) channel_mask: Vec<bool>,
    /// Without caps of counts, which the network has.
    pub(super) limits: Limits,
    pub(super) memory_steps: u64,
    seed: u64,
}

impl Properties {
    pub(super) fn delay_steps(&self) -> i64 {
        self.delay_steps
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}

/// The properties of a recurrent decoder as JSON, beside its weights.
pub(crate) fn describe(decoder: &Decoder, network: &Recurrent) -> Value {
    let limits = decoder.limits();
    let ranges: Vec<[f32; 2]> = limits.ranges.iter().map(|r| [r.low, r.high]).collect();
    let blanking = limits.blanking.as_ref().map(|blanking| {
        json!({
            "least": blanking.least,
            "most": blanking.most,
            "mean_counts": blanking.mean_counts,
        })
    });
    // Infinite bounds become null.
    json!({
        "delay_steps": decoder.delay_steps(),
        "channel_mask": decoder.channel_mask(),
        "ranges": ranges,
        "blanking": blanking,
        "memory_steps": network.memory_steps,
        "seed": network.seed,
    })
}

/// The numbers of a blend, but for deviations and bias: usual members, w, a and k.
pub(crate) fn blend_numbers(blend: &Blend) -> Vec<f64> {
    vec![blend.usual as f64, blend.share, blend.apart, blend.kept]
}

/// Reads what [`describe`] wrote.
pub(super) fn properties(text: &str) -> Result<Properties> {
    let value: Value = serde_json::from_str(text).map_err(|e| damaged(&e.to_string()))?;
    read_properties(&value).ok_or_else(|| damaged("a property is missing or of another type"))
}

pub(super) fn damaged(reason: &str) -> Error {
    Error::new(
        ErrorKind::InvalidModel,
        format!("metadata {KEY:?}: {reason}; export the decoder again"),
    )
}

fn read_properties(value: &Value) -> Option<Properties> {
    let range = |pair: &Value| {
        let bound = |i: usize, none: f32| match pair.get(i)? {
            Value::Null => Some(none),
            bound => bound.as_f64().map(|bound| bound as f32),
        };
        Some(OutputRange {
            low: bound(0, f32::NEG_INFINITY)?,
            high: bound(1, f32::INFINITY)?,
        })
    };
    let blanking = match value.get("blanking")? {
        Value::Null => None,
        blanking => Some(Blanking {
            least: blanking.get("least")?.as_u64()?,
            most: blanking.get("most")?.as_u64()?,
            mean_counts: (blanking.get("mean_counts")?.as_array()?.iter())
                .map(Value::as_f64)
                .collect::<Option<_>>()?,
        }),
    };
    let mask = value.get("channel_mask")?.as_array()?.iter();
    Some(Properties {
        delay_steps: value.get("delay_steps")?.as_i64()?,
        channel_mask: mask.map(Value::as_bool).collect::<Option<_>>()?,
        limits: Limits {
            blanking,
            ranges: (value.get("ranges")?.as_array()?.iter())
                .map(range)
                .collect::<Option<_>>()?,
            ..Limits::default()
        },
        memory_steps: value.get("memory_steps")?.as_u64()?,
        seed: value.get("seed")?.as_u64()?,
    })
}

/// Returns whether a file holds all that `decoder` computes with: its filters hand the counts of a step on as they are.
pub(crate) fn is_whole(decoder: &Decoder) -> bool {
    let of_step = match decoder.bank().filters() {
        [filter] => {
            decoder.bank().len() == 1
                && filter.order == 0
                && decoder.step_seconds() / filter.tau_seconds > super::PARTS - 1.0
        }
        _ => false,
    };
    let plain = decoder.low_pass().is_none() && decoder.channel_means().is_empty();
    of_step && plain && matches!(decoder.head(), Head::Recurrent(_))
}
