//! Histograms of the weights of synapses that learn, over a run.

use std::io::Write;
use std::path::Path;

use betz::file::write_atomically;
use betz::spiking::Engine;
use betz::{Error, Result};

use super::RunTotals;
use super::written::whole_nanoseconds;
use crate::files::Kind;
use crate::report::{Bar, number};

/// First words of a file of histograms.
pub(super) const WEIGHTS: Kind = Kind::Table(&["seconds,source,target,"]);

/// Parts of a run, at whose ends the weights are counted.
const PARTS: u64 = 20;
/// Bins from the lower to the upper bound.
const BINS: usize = 40;

/// Histograms at a moment.
struct Moment {
    step: u64,
    /// A histogram per projection that learns.
    counts: Vec<Vec<u64>>,
}

/// Histograms of the projections that learn, at the beginning of a run and at the ends of its parts.
pub(super) struct WeightTable {
    /// Numbers of the projections that learn.
    projections: Vec<usize>,
    moments: Vec<Moment>,
    /// Ends and bounds of each projection's bins, as a line has them.
    bins: Vec<Vec<String>>,
    /// Length of a step.
    step_seconds: f64,
}

impl WeightTable {
    /// An empty table of an engine's network; `None` unless it is `wanted`.
    ///
    /// # Errors
    /// `InvalidArgument` for a network that does not learn.
    pub(super) fn of(engine: &Engine, wanted: bool) -> Result<Option<Self>> {
        if !wanted {
            return Ok(None);
        }
        let network = engine.network();
        let mut projections = Vec::new();
        let mut bins = Vec::new();
        for (place, of) in network.projections.iter().enumerate() {
            let Some(plasticity) = of.plasticity else {
                continue;
            };
            projections.push(place);
            let bound = |bin: usize| {
                plasticity.low + (plasticity.high - plasticity.low) * bin as f64 / BINS as f64
            };
            let line = |bin: usize| {
                let (low, high) = (number(bound(bin)), number(bound(bin + 1)));
                format!("{},{},{low},{high}", of.source, of.target)
            };
            bins.push((0..BINS).map(line).collect());
        }
        if projections.is_empty() {
            return Err(Error::argument(
                "--weights: expected a network with \"plasticity\", got one that does not learn",
            ));
        }
        Ok(Some(Self {
            projections,
            moments: Vec::new(),
            bins,
            step_seconds: network.step_ms * 1e-3,
        }))
    }

    /// Runs `steps` steps, or fewer after Ctrl-C, and counts the weights on the way.
    ///
    /// # Errors
    /// The errors of the engine.
    pub(super) fn run(
        &mut self,
        ran: &mut RunTotals,
        engine: &mut Engine,
        steps: u64,
        bar: &Bar,
    ) -> Result<()> {
        self.count(engine)?;
        for part in 0..PARTS {
            let from = steps * part / PARTS;
            ran.steps(engine, steps * (part + 1) / PARTS - from, bar)?;
            if ran.interrupted {
                break;
            }
            self.count(engine)?;
        }
        Ok(())
    }

    /// Counts the weights, unless they are counted at this step. All ranks of a team call it together.
    ///
    /// # Errors
    /// The errors of the engine.
    pub(super) fn count(&mut self, engine: &Engine) -> Result<()> {
        if (self.moments.last()).is_some_and(|last| last.step == engine.steps()) {
            return Ok(());
        }
        let counts = (self.projections.iter())
            .map(|projection| engine.weight_histogram(*projection, BINS))
            .collect::<Result<_>>()?;
        self.moments.push(Moment {
            step: engine.steps(),
            counts,
        });
        Ok(())
    }

    /// Writes a line per moment, projection and bin.
    ///
    /// # Errors
    /// `Io` naming the file.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        write_atomically(path, |file| {
            writeln!(file, "seconds,source,target,from,to,synapses")?;
            for moment in &self.moments {
                let seconds = number(whole_nanoseconds(moment.step as f64 * self.step_seconds));
                for (bins, counts) in self.bins.iter().zip(&moment.counts) {
                    for (bin, count) in bins.iter().zip(counts) {
                        writeln!(file, "{seconds},{bin},{count}")?;
                    }
                }
            }
            Ok(())
        })
    }
}
