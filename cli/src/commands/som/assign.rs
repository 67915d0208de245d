//! `betz som assign`: the node of each sample on a map that exists.

use betz::recording::arrays::{Array, write};
use betz::som::Samples;
use betz::text::count;
use betz::{Error, Result};
use serde::Serialize;

use super::args::Assign;
use super::{QUALITY_PRODUCTS, file, input};
use crate::device;
use crate::files::{ASSIGNED, Files, Kind};
use crate::report::{self, Outcome};

#[derive(Serialize)]
struct AssignmentReport {
    file: String,
    nodes: usize,
    samples: usize,
    /// Nodes that win at least one sample.
    nodes_with_samples: usize,
    /// Mean distance of samples from their nearest node.
    quantisation_error: f64,
    /// Part of the samples whose two nearest nodes do not touch.
    topographic_error: f64,
    /// Samples that the topographic error was measured on.
    topographic_samples: usize,
}

pub(super) fn run(args: &Assign) -> Result<()> {
    let mut files = Files::new(&args.common)
        .reads("MAP", &args.map)
        .reads("DATA", &args.data);
    files.writes("--out", &args.out, Kind::Assignment)?;
    device::cpu_for("finding nodes", &args.common.device)?;
    if !Kind::Map.made(&args.map) {
        return Err(Error::argument(format!(
            "MAP: expected a map that betz som wrote, got {}",
            args.map.display()
        )));
    }
    let map = file::read(&args.map)?.map;
    let data = input::read(&args.data, args.array.as_deref())?;
    let samples = Samples::new(&data.values, data.dims).map_err(|e| e.at(args.data.display()))?;
    let assigned = map.assign(samples).map_err(|e| e.at(args.data.display()))?;
    let mut hits = vec![0_u32; map.grid().nodes()];
    for winner in &assigned.winners {
        hits[*winner as usize] += 1;
    }
    let some = map.evenly(samples, QUALITY_PRODUCTS);
    let some = Samples::new(&some, samples.dims())?;
    let distances = assigned.distances.iter().map(|d| f64::from(*d));
    let report = AssignmentReport {
        file: args.out.display().to_string(),
        nodes: hits.len(),
        samples: samples.count(),
        nodes_with_samples: hits.iter().filter(|hits| **hits > 0).count(),
        quantisation_error: distances.sum::<f64>() / samples.count() as f64,
        topographic_error: map.quality(some)?.topographic_error,
        topographic_samples: some.count(),
    };
    let meta = format!(
        "{ASSIGNED}{}, \"data\": {}}}",
        serde_json::Value::from(args.map.display().to_string()),
        serde_json::Value::from(args.data.display().to_string())
    );
    let shape = [samples.count()];
    write(
        &args.out,
        &[
            ("winners", Array::U32(&shape, &assigned.winners)),
            ("distances", Array::F32(&shape, &assigned.distances)),
            ("hits", Array::U32(&[hits.len()], &hits)),
            ("meta", Array::Text(&[], &[meta])),
        ],
    )?;
    report::tell(&report, args.common.json)
}

impl Outcome for AssignmentReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: {} on {} of {}: quantisation error {:.5}, topographic error {:.4} (of {})",
            self.file,
            count(self.samples as u128, "sample"),
            self.nodes_with_samples,
            count(self.nodes as u128, "node"),
            self.quantisation_error,
            self.topographic_error,
            count(self.topographic_samples as u128, "sample")
        ))
    }
}
