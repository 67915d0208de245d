//! The unit of weights in fixed point.

use std::fmt;

use betz_base::{Error, Result};

use crate::random::NORMAL_LIMIT;
use crate::spec::{Draw, Network, Rule};

/// Listed weights of a projection that round to 0, because the largest weight of the network sets the unit of all.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RoundedWeights {
    /// Number of the projection.
    pub projection: usize,
    /// Names of its populations.
    pub source: String,
    /// Population of its targets.
    pub target: String,
    /// Weights other than 0 that round to 0.
    pub rounded: usize,
    /// Weights other than 0.
    pub of: usize,
    /// Largest of those that round to 0, without its sign.
    pub largest: f64,
    /// Half a unit: smaller weights round to 0.
    pub limit: f64,
}

impl fmt::Display for RoundedWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "projection {} ({:?} to {:?}): {} of {} listed weights, up to {}, round to 0: they are below {}, half the unit that the largest weight of the network sets",
            self.projection,
            self.source,
            self.target,
            self.rounded,
            self.of,
            self.largest,
            self.limit
        )
    }
}

/// The projections of which some listed weights round to 0.
///
/// # Errors
/// `InvalidArgument` when all of a projection do.
pub(crate) fn rounded_weights(network: &Network, unit: f64) -> Result<Vec<RoundedWeights>> {
    let mut all = Vec::new();
    for (projection, of) in network.projections.iter().enumerate() {
        // Weights that learn are kept as they are; what arrives is rounded.
        let (Rule::List { synapses }, None) = (&of.rule, &of.plasticity) else {
            continue;
        };
        let weights = synapses.iter().map(|s| f64::from(s.weight).abs());
        let given: Vec<f64> = weights.filter(|w| *w > 0.0).collect();
        let rounded = given
            .iter()
            .filter(|w| (*w / unit).round_ties_even() == 0.0);
        let lost = RoundedWeights {
            projection,
            source: of.source.clone(),
            target: of.target.clone(),
            rounded: rounded.clone().count(),
            of: given.len(),
            largest: rounded.copied().fold(0.0, f64::max),
            limit: unit / 2.0,
        };
        if lost.rounded > 0 && lost.rounded == lost.of {
            return Err(Error::argument(format!(
                "{lost}: expected weights of one network within a factor of 60,000"
            )));
        }
        if lost.rounded > 0 {
            all.push(lost);
        }
    }
    Ok(all)
}

/// Largest weight in units.
const LARGEST: f64 = 32_767.0;

/// The unit of weights in fixed point: the power of two that the largest weight, with what a normal
/// draw may add, takes to at most 32,767 units. An f32 holds it exactly.
///
/// # Errors
/// `InvalidArgument` when a weight that is not 0 would round to 0, or the unit leaves the range of
/// an f32: weights too far apart, or too large.
pub(crate) fn weight_unit(network: &Network) -> Result<f64> {
    let mut largest: f64 = 0.0;
    let mut constants = Vec::new();
    for (i, projection) in network.projections.iter().enumerate() {
        if let Rule::List { synapses } = &projection.rule {
            let listed = synapses.iter().map(|s| f64::from(s.weight).abs());
            largest = listed.fold(largest, f64::max);
            continue;
        }
        match &projection.weight {
            Draw::Constant(w) => {
                largest = largest.max(w.abs());
                constants.push((*w, format!("projection {i}")));
            }
            Draw::Normal { mean, sd } => {
                largest = largest.max(mean.abs() + NORMAL_LIMIT * sd);
                constants.push((mean.abs() + sd, format!("projection {i}")));
            }
            draw => {
                let (low, high) = draw.bounds().map_err(|e| e.at(format!("projection {i}")))?;
                largest = largest.max(low.abs()).max(high.abs());
                constants.push((low.abs().max(high.abs()), format!("projection {i}")));
            }
        }
    }
    for projection in &network.projections {
        if let Some(plasticity) = projection.plasticity {
            largest = largest.max(plasticity.high);
        }
    }
    for population in &network.populations {
        if let Some(poisson) = population.poisson {
            largest = largest.max(poisson.weight.abs());
            constants.push((
                poisson.weight,
                format!("Poisson input of {:?}", population.name),
            ));
        }
    }
    if largest == 0.0 {
        return Ok(1.0);
    }
    let exponent = (LARGEST / largest).log2().floor();
    if !(exponent.is_finite() && exponent.abs() <= 100.0) {
        return Err(Error::argument(format!(
            "weights: expected a largest one between 1e-25 and 1e34, got {largest}{}",
            place_of_largest(network, largest)
        )));
    }
    let unit = (-exponent).exp2();
    for (weight, place) in constants {
        if weight != 0.0 && (weight / unit).abs() < 0.5 {
            return Err(Error::argument(format!(
                "{place}: expected a weight of at least {} (half a unit of the fixed point, which the largest weight, {largest}, sets), got {weight}",
                unit / 2.0
            )));
        }
    }
    Ok(unit)
}

/// The place where a description has its largest weight, in words.
fn place_of_largest(network: &Network, largest: f64) -> String {
    let reaches = |weight: f64| weight.abs() >= largest * (1.0 - 1e-9);
    for (i, projection) in network.projections.iter().enumerate() {
        let own = match &projection.rule {
            Rule::List { synapses } => synapses.iter().any(|s| reaches(f64::from(s.weight))),
            _ => match projection.weight.bounds() {
                Ok((low, high)) => reaches(low) || reaches(high),
                Err(_) => false,
            },
        };
        if own || projection.plasticity.is_some_and(|p| reaches(p.high)) {
            return format!(
                " in projection {i} ({} to {})",
                projection.source, projection.target
            );
        }
    }
    let poisson = |p: &&crate::spec::Population| p.poisson.is_some_and(|p| reaches(p.weight));
    match network.populations.iter().find(poisson) {
        Some(population) => format!(" in the Poisson input of population {:?}", population.name),
        None => String::new(),
    }
}
