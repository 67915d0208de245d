//! Name and unit of an output: behaviour that is recorded, and decoded.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// Name and unit of one output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OutputInfo {
    /// Name, such as `x`.
    pub name: String,
    /// Unit, such as `mm`; empty when unknown.
    pub unit: String,
}

/// Units of time in the denominator of a velocity's unit.
const TIMES: [&str; 24] = [
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "ms",
    "msec",
    "millisecond",
    "milliseconds",
    "min",
    "minute",
    "minutes",
    "h",
    "hr",
    "hour",
    "hours",
    "bin",
    "bins",
    "step",
    "steps",
    "frame",
    "frames",
    "sample",
    "samples",
];

/// Endings of units per second written as a power: `m s-1`, `m s⁻¹`.
const INVERSE_SECONDS: [&str; 4] = ["s-1", "s^-1", "s**-1", "s⁻¹"];

/// Unit of a velocity whose unit is unknown.
const UNKNOWN_VELOCITY: &str = "/s";

impl OutputInfo {
    /// True if the unit is a quantity per time: `mm/s`, `m/sec`, `deg per second`, `m s-1`.
    pub fn is_velocity(&self) -> bool {
        let unit = self.unit.trim().to_lowercase();
        let per = unit.rsplit_once('/').or_else(|| unit.rsplit_once("per "));
        per.is_some_and(|(_, time)| TIMES.contains(&time.trim()))
            || INVERSE_SECONDS.iter().any(|end| unit.ends_with(end))
    }

    /// Converts the output to a velocity: if its unit is not one of velocity already, the unit becomes that unit per
    /// second.
    pub fn into_velocity(mut self) -> Self {
        if !self.is_velocity() {
            self.unit = format!("{}{UNKNOWN_VELOCITY}", self.unit.trim());
        }
        self
    }

    /// True if the unit is known.
    pub fn has_known_unit(&self) -> bool {
        !matches!(self.unit.trim(), "" | UNKNOWN_VELOCITY)
    }
}

/// An output of unknown unit.
impl From<&str> for OutputInfo {
    fn from(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_velocity_is_known_by_its_unit_however_it_is_written() {
        let of = |unit: &str| OutputInfo {
            name: "v".into(),
            unit: unit.into(),
        };
        for unit in [
            "mm/s",
            "mm/sec",
            "mm / Seconds",
            "deg per second",
            "m s-1",
            "m·s⁻¹",
            "px/frame",
            "m/min",
            "/s",
        ] {
            assert!(of(unit).is_velocity(), "{unit}");
            assert_eq!(of(unit).into_velocity().unit, unit);
        }
        for unit in ["", "mm", "N", "s", "m/kg", "degrees", "pixels", "mm/s^2"] {
            assert!(!of(unit).is_velocity(), "{unit}");
            assert_eq!(of(unit).into_velocity().unit, format!("{unit}/s"));
        }
    }
}
