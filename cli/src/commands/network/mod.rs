//! `betz network`: correlation networks over sliding windows. One file a subcommand.

pub(crate) mod args;
mod compare;
pub(crate) mod compute;
mod expected;
mod export;
mod frames;
mod full;
mod graph;
mod input;
mod inside;
mod lines;
#[cfg(feature = "rig")]
pub(crate) mod live;
mod nodes;
mod part;
mod picture;
mod request;
mod sttc;
mod summary;
mod table;

use betz::device::DeviceSpec;
use betz::{Error, Result};
use serde::Serialize;

use args::NetworkCommand;

pub(super) use inside::{inside, is_network};
pub(super) use part::{join, part_inside};

pub(crate) fn run(command: &NetworkCommand) -> Result<()> {
    match command {
        NetworkCommand::Compute(args) => compute::run(args),
        #[cfg(feature = "rig")]
        NetworkCommand::Live(args) => live::run(args),
        NetworkCommand::Graph(args) => graph::run(args),
        NetworkCommand::Compare(args) => compare::run(args),
        NetworkCommand::Export(args) => export::run(args),
    }
}

/// Refuses a device for what runs on the CPU alone.
fn on_cpu(spec: &str) -> Result<()> {
    match spec.parse()? {
        DeviceSpec::Auto | DeviceSpec::Cpu => Ok(()),
        other => Err(Error::argument(format!(
            "--device: only `betz network compute` and `live` run on a GPU; expected auto or cpu, got {other}"
        ))),
    }
}

/// Least, mean and largest of finite numbers; `None` of none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Spread {
    min: f64,
    mean: f64,
    max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut min, mut sum, mut max, mut count) = (f64::INFINITY, 0.0, f64::NEG_INFINITY, 0);
        for value in values.filter(|v| v.is_finite()) {
            (min, sum, max, count) = (value.min(min), sum + value, value.max(max), count + 1);
        }
        (count > 0).then(|| Self {
            min,
            mean: sum / f64::from(count),
            max,
        })
    }
}
