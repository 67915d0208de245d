//! The `meta` of a network's file.

use betz_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Chance, FORMAT, NetworkFile, Source};
use crate::network::Meta;
use crate::spec::{Measure, NetworkSpec, Sign, Taper, Threshold};
use crate::window::Window;

/// The JSON in `meta`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Header {
    // First: it tells such a file (`META_BEGINS`).
    kind: String,
    format: u32,
    pub(super) betz: String,
    measure: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lags: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reach: Option<usize>,
    /// Of distances between places; absent in files in which `distance` meant euclidean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    near: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gap: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    earth: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    band: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    normalised: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    segment: Option<usize>,
    /// Cycles per segment of the lowest and the highest frequency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cycles: Option<(usize, usize)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peak: Option<bool>,
    window: usize,
    step: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) threshold: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) density: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top_per_node: Option<usize>,
    sign: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taper: Option<String>,
    strict: bool,
    max_edges: u64,
    nodes: usize,
    samples: usize,
    pub(super) sample_seconds: Option<f64>,
    trailing: usize,
    pub(super) rechecked: u64,
    pub(super) rebuilt: u64,
    pub(super) extreme: u64,
    pub(super) device: String,
    pub(super) complete: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) compact: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<Source>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) chance: Option<Chance>,
}

impl NetworkFile {
    pub(super) fn header(&self) -> Header {
        let Meta { spec, .. } = *self.network.meta();
        let meta = self.network.meta();
        let (near, gap, earth) = match spec.measure {
            Measure::Distance { near, gap, earth } => (Some(near), Some(gap), Some(earth)),
            _ => (None, None, None),
        };
        let (band, normalised) = match spec.measure {
            Measure::Warping { band, normalised } => (Some(band), Some(normalised)),
            _ => (None, None),
        };
        let (segment, cycles, peak) = match spec.measure {
            Measure::Coherence {
                segment,
                first,
                last,
                peak,
            } => (Some(segment), Some((first, last)), Some(peak)),
            _ => (None, None, None),
        };
        let (mut threshold, mut density, mut top, mut top_per_node) = (None, None, None, None);
        match spec.threshold {
            Threshold::Absolute(value) => threshold = Some(value),
            Threshold::Density(share) => density = Some(share),
            Threshold::Top(count) => top = Some(count),
            Threshold::TopPerNode(count) => top_per_node = Some(count),
        }
        Header {
            kind: "network".to_owned(),
            format: FORMAT,
            betz: env!("CARGO_PKG_VERSION").to_owned(),
            measure: spec.measure.name().to_owned(),
            lags: match spec.measure {
                Measure::Lagged { lags } => Some(lags),
                _ => None,
            },
            hold: match spec.measure {
                Measure::Euclidean { hold } => Some(hold),
                _ => None,
            },
            reach: match spec.measure {
                Measure::SpikeTiling { reach } => Some(reach),
                _ => None,
            },
            near,
            gap,
            earth,
            band,
            normalised,
            segment,
            cycles,
            peak,
            window: spec.window.length,
            step: spec.window.step,
            threshold,
            density,
            top,
            top_per_node,
            sign: spec.sign.name().to_owned(),
            taper: (spec.taper != Taper::Rectangular).then(|| spec.taper.name().to_owned()),
            strict: spec.strict,
            max_edges: spec.max_edges,
            nodes: meta.nodes,
            samples: meta.samples,
            sample_seconds: meta.sample_seconds,
            trailing: meta.trailing,
            rechecked: meta.rechecked,
            rebuilt: meta.rebuilt,
            extreme: meta.extreme,
            device: meta.device.clone(),
            complete: self.complete,
            compact: self.compact,
            source: self.source.clone(),
            chance: self.chance.clone(),
        }
    }
}

fn threshold(header: &Header) -> Result<Threshold> {
    let Header {
        threshold,
        density,
        top,
        top_per_node,
        ..
    } = *header;
    match (threshold, density, top, top_per_node) {
        (Some(value), None, None, None) => Ok(Threshold::Absolute(value)),
        (None, Some(share), None, None) => Ok(Threshold::Density(share)),
        (None, None, Some(count), None) => Ok(Threshold::Top(count)),
        (None, None, None, Some(count)) => Ok(Threshold::TopPerNode(count)),
        _ => Err(Error::recording(
            "expected one of threshold, density, top and top_per_node",
        )),
    }
}

/// The description in the header, checked.
pub(super) fn meta(header: &Header) -> Result<Meta> {
    let measure = match Measure::named(&header.measure) {
        Some(Measure::Lagged { .. }) => Measure::Lagged {
            lags: header.lags.unwrap_or(0),
        },
        Some(Measure::Euclidean { .. }) => Measure::Euclidean {
            hold: header.hold.unwrap_or(1),
        },
        Some(Measure::Distance { .. }) => match header.near {
            Some(near) => Measure::Distance {
                near,
                gap: header.gap.unwrap_or(0),
                earth: header.earth.unwrap_or(false),
            },
            // The name's meaning until there were places.
            None => Measure::Euclidean {
                hold: header.hold.unwrap_or(1),
            },
        },
        Some(Measure::Warping { .. }) => Measure::Warping {
            band: header.band.unwrap_or(0),
            normalised: header.normalised.unwrap_or(false),
        },
        Some(Measure::Coherence { .. }) => {
            let (first, last) = header.cycles.unwrap_or((1, 0));
            Measure::Coherence {
                segment: header.segment.unwrap_or(0),
                first,
                last,
                peak: header.peak.unwrap_or(false),
            }
        }
        Some(Measure::SpikeTiling { .. }) => Measure::SpikeTiling {
            reach: header.reach.unwrap_or(0),
        },
        Some(measure) => measure,
        None => {
            return Err(Error::recording(format!(
                "measure: expected one of {}, got {}",
                Measure::names().join(", "),
                header.measure
            )));
        }
    };
    let sign = Sign::named(&header.sign).ok_or_else(|| {
        Error::recording(format!(
            "sign: expected both, pos or neg, got {}",
            header.sign
        ))
    })?;
    let taper = header.taper.as_deref().unwrap_or("rectangular");
    let taper = Taper::named(taper).ok_or_else(|| {
        Error::recording(format!("taper: expected rectangular or hann, got {taper}"))
    })?;
    let spec = NetworkSpec {
        measure,
        window: Window::new(header.window, header.step),
        threshold: threshold(header)?,
        sign,
        strict: header.strict,
        max_edges: header.max_edges,
        taper,
    };
    spec.check()?;
    if header.nodes > i32::MAX as usize {
        return Err(Error::recording(format!(
            "nodes: expected at most {}, got {}",
            i32::MAX,
            header.nodes
        )));
    }
    if header
        .sample_seconds
        .is_some_and(|s| !(s > 0.0 && s.is_finite()))
    {
        return Err(Error::recording(
            "sample_seconds: expected a positive number",
        ));
    }
    Ok(Meta {
        spec,
        nodes: header.nodes,
        samples: header.samples,
        sample_seconds: header.sample_seconds,
        trailing: header.trailing,
        rechecked: header.rechecked,
        rebuilt: header.rebuilt,
        extreme: header.extreme,
        device: header.device.clone(),
    })
}
