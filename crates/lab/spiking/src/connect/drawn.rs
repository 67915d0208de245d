//! Projections that a device draws by itself.

use betz_base::Result;
use betz_kernels::{Wires, spiking};

use super::{Lateness, Strength, Wiring, table};
use crate::spec::{Network, Rule};

impl Wiring {
    /// The projection as a device draws it, and how many synapses it has where their sources are drawn;
    /// `None` for rules that need a table, or draw without repetition.
    pub(crate) fn drawn(
        network: &Network,
        index: usize,
        unit: f64,
    ) -> Result<Option<(Wires, Option<u64>)>> {
        let own = Self::unprepared(network, index, unit)?;
        if own.receptor > 0 {
            return Ok(None);
        }
        let (kind, count, total) = match network.projections[index].rule {
            Rule::FixedTotal {
                count,
                distinct: false,
            } => {
                table::check_total(count)?;
                (spiking::LISTED_DEGREES, 0, Some(count))
            }
            Rule::FixedOut {
                count,
                distinct: false,
            } => (spiking::GIVEN_DEGREE, count, None),
            Rule::Ring => (spiking::RING, 0, None),
            Rule::All => (spiking::EVERY, 0, None),
            Rule::OneToOne => (spiking::ONE_TO_ONE, 0, None),
            _ => return Ok(None),
        };
        let mut wires = Wires {
            kind,
            index: own.index,
            source_first: own.source_first,
            sources: own.sources,
            target_first: own.target_first,
            targets: own.targets,
            choice: own.choice(),
            skip_self: u32::from(own.skip_self),
            count,
            two_receptors: u32::from(own.two_receptors),
            ..Wires::default()
        };
        match own.weight {
            Strength::Constant(weight) => wires.weight = i32::from(weight),
            Strength::Normal {
                mean,
                sd,
                keep_sign,
            } => {
                (wires.weight_mean, wires.weight_deviation) = (mean, sd);
                wires.keep_sign = u32::from(keep_sign);
            }
            Strength::Drawn(_) => return Ok(None),
        }
        match own.delay {
            Lateness::Constant(delay) => wires.delay = u32::from(delay),
            Lateness::Normal { mean, sd } => {
                (wires.delay_mean, wires.delay_deviation) = (mean, sd);
            }
            Lateness::Drawn(_) => return Ok(None),
        }
        Ok(Some((wires, total)))
    }
}
