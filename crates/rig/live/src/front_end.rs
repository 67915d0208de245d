//! Front end that made the features of a model.
//!
//! `betz record bins` writes it into the recording, training from that recording keeps it in the model, and a session
//! refuses a model of another front end. A model without it, made elsewhere, is taken with a warning of `--check`.

use std::fmt;

use betz_base::{Error, ErrorKind, Result};
use betz_runtime::model::{Attachment, Decoder};
use serde::{Deserialize, Serialize};

use crate::plan::{At, Feature, Plan, ReferencePlan, Span};

/// Section of a model file. Readers that do not know it keep it.
const TAG: [u8; 4] = *b"frnt";
/// Key of a recording's `meta`.
const KEY: &str = "front_end";

/// Front end, as far as the features depend on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "feature", rename_all = "lowercase")]
pub enum FrontEnd {
    /// Threshold crossings of voltage.
    Crossings {
        /// Reference that was subtracted.
        reference: ReferencePlan,
        /// Edges of the band-pass filter, in Hz.
        band: [f64; 2],
        /// Rule of crossings.
        at: At,
        /// Threshold in standard deviations of the noise.
        threshold: f64,
        /// Time after a crossing without another.
        dead: Span,
    },
    /// Spike-band power of voltage.
    Sbp {
        /// Reference that was subtracted.
        reference: ReferencePlan,
        /// Edges of the band-pass filter, in Hz.
        band: [f64; 2],
    },
    /// Units of a sorter.
    Units {
        /// Check sum of the sorter, if it is known.
        #[serde(default)]
        sum: Option<String>,
    },
    /// Features or spikes that the source itself sends.
    Source,
}

/// A key of the plan in which two front ends differ, with both values in words.
struct Difference {
    key: &'static str,
    trained: String,
    planned: String,
}

impl FrontEnd {
    /// The front end of a plan, for a source of `voltage` or of features and spikes.
    ///
    /// # Errors
    /// The errors of [`Plan::load_sorter`].
    pub fn of_plan(plan: &Plan, voltage: bool) -> Result<Self> {
        let of = &plan.voltage;
        Ok(match (voltage, of.feature) {
            (false, _) => Self::Source,
            (true, Feature::Crossings) => Self::Crossings {
                reference: of.reference,
                band: of.band,
                at: of.at,
                threshold: of.threshold,
                dead: of.dead,
            },
            (true, Feature::Sbp) => Self::Sbp {
                reference: of.reference,
                band: of.band,
            },
            (true, Feature::Units) => {
                let bytes = plan.load_sorter()?.to_bytes();
                let sum = format!("{:x}-{:08x}", bytes.len(), crc32fast::hash(&bytes));
                Self::Units { sum: Some(sum) }
            }
        })
    }

    /// The `meta` of a recording that this front end made.
    pub(crate) fn meta(&self) -> String {
        serde_json::json!({ "source": "betz live", KEY: self }).to_string()
    }

    /// The front end that `model` keeps; `None` if it has none.
    ///
    /// # Errors
    /// `InvalidModel` if the section is damaged.
    pub fn of_model(model: &Decoder) -> Result<Option<Self>> {
        let Some(bytes) = model.attachment(TAG) else {
            return Ok(None);
        };
        serde_json::from_slice(bytes).map(Some).map_err(|e| {
            Error::new(
                ErrorKind::InvalidModel,
                format!("the model's front end does not decode: {e}"),
            )
        })
    }

    /// `model` with this front end in place of its own.
    ///
    /// # Errors
    /// The errors of [`Decoder::new`].
    pub fn attach(&self, model: Decoder) -> Result<Decoder> {
        let bytes = serde_json::to_vec(self)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("writing JSON: {e}")))?;
        let mut parts = model.into_parts();
        parts.attachments.retain(|a| a.tag != TAG);
        parts.attachments.push(Attachment { tag: TAG, bytes });
        Decoder::new(parts)
    }

    /// Refuses a model that was trained on the features of another front end than the plan's.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key; the errors of [`FrontEnd::of_model`] and [`FrontEnd::of_plan`].
    pub(crate) fn check(plan: &Plan, model: &Decoder, voltage: bool) -> Result<()> {
        let Some(trained) = Self::of_model(model)? else {
            return Ok(());
        };
        let Some(differs) = trained.difference(&Self::of_plan(plan, voltage)?) else {
            return Ok(());
        };
        let (section, advice) = match differs.key {
            "from" => ("source", "train a model on a recording of this source"),
            _ => (
                "voltage",
                "change the plan, or train a model on its features (`betz record bins`)",
            ),
        };
        Err(plan.refuse(
            section,
            differs.key,
            format_args!(
                "expected {}, which the model was trained on, got {}; {advice}",
                differs.trained, differs.planned
            ),
        ))
    }

    /// The first key in which `planned` differs from this front end of a model.
    fn difference(&self, planned: &Self) -> Option<Difference> {
        let differ = |key, trained: String, planned: String| {
            Some(Difference {
                key,
                trained,
                planned,
            })
        };
        if self.reference() != planned.reference()
            && let (Some(a), Some(b)) = (self.reference(), planned.reference())
        {
            return differ("reference", word(a), word(b));
        }
        match (self, planned) {
            (
                Self::Crossings {
                    at,
                    threshold,
                    dead,
                    ..
                },
                Self::Crossings {
                    at: other_at,
                    threshold: other_threshold,
                    dead: other_dead,
                    ..
                },
            ) => {
                if at != other_at {
                    return differ("at", word(at), word(other_at));
                }
                if !near(*threshold, *other_threshold) {
                    return differ(
                        "threshold",
                        threshold.to_string(),
                        other_threshold.to_string(),
                    );
                }
                if !near(dead.seconds(), other_dead.seconds()) {
                    return differ("dead", dead.to_string(), other_dead.to_string());
                }
            }
            (Self::Units { sum: Some(a) }, Self::Units { sum: Some(b) }) if a != b => {
                return differ(
                    "sorter",
                    format!("the sorter of check sum {a}"),
                    format!("one of {b}"),
                );
            }
            (Self::Sbp { .. }, Self::Sbp { .. })
            | (Self::Units { .. }, Self::Units { .. })
            | (Self::Source, Self::Source) => {}
            (Self::Source, _) | (_, Self::Source) => {
                return differ("from", self.to_string(), planned.to_string());
            }
            _ => return differ("feature", self.to_string(), planned.to_string()),
        }
        let (a, b) = (self.band()?, planned.band()?);
        match near(a[0], b[0]) && near(a[1], b[1]) {
            true => None,
            false => differ("band", format!("{a:?} Hz"), format!("{b:?} Hz")),
        }
    }

    fn reference(&self) -> Option<&ReferencePlan> {
        match self {
            Self::Crossings { reference, .. } | Self::Sbp { reference, .. } => Some(reference),
            Self::Units { .. } | Self::Source => None,
        }
    }

    fn band(&self) -> Option<[f64; 2]> {
        match self {
            Self::Crossings { band, .. } | Self::Sbp { band, .. } => Some(*band),
            Self::Units { .. } | Self::Source => None,
        }
    }
}

/// The name of a choice, as in the plan.
fn word(choice: &impl Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(serde_json::Value::String(name)) => format!("\"{name}\""),
        _ => "another".into(),
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

impl fmt::Display for FrontEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crossings {
                at,
                threshold,
                band,
                ..
            } => {
                let at = match at {
                    At::Once => "crossings at once",
                    At::Settled => "settled crossings",
                };
                let [low, high] = band;
                write!(
                    f,
                    "{at} of {threshold} times the noise, band {low} to {high} Hz"
                )
            }
            Self::Sbp {
                band: [low, high], ..
            } => write!(f, "spike-band power, band {low} to {high} Hz"),
            Self::Units { .. } => f.write_str("sorted units"),
            Self::Source => f.write_str("features or spikes of the source"),
        }
    }
}
