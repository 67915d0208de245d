//! `betz join`: shards to what they make together. Their first bytes tell what they are of.

pub(crate) mod args;

use std::path::Path;

use betz::{Error, Result};

use super::{mine, network};
use crate::files::{Files, first_bytes};
use args::Join;

/// The kinds of results that have shards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Network,
    Counts,
}

impl Kind {
    fn of(path: &Path) -> Result<Self> {
        match first_bytes(path)? {
            betz::network::file::PART_MAGIC => Ok(Self::Network),
            betz::episode::count::PART_MAGIC => Ok(Self::Counts),
            other => Err(Error::recording(format!(
                "{}: expected a shard that `betz mine --shard` or `betz network compute --shard` wrote, got a file that begins with {:?}",
                path.display(),
                other.escape_ascii().to_string()
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Network => "a network",
            Self::Counts => "counts",
        }
    }
}

pub(crate) fn run(args: &Join) -> Result<()> {
    let inputs = args.inputs.iter();
    let files = inputs.fold(Files::new(&args.common), |files, path| {
        files.reads("PART", path)
    });
    crate::device::cpu_for("joining", &args.common.device)?;
    let mut kind = None;
    for path in &args.inputs {
        let this = Kind::of(path)?;
        let first = *kind.get_or_insert(this);
        if this != first {
            return Err(Error::mismatch(format!(
                "{}: expected a shard of {}, as {} is, got one of {}",
                path.display(),
                first.name(),
                args.inputs[0].display(),
                this.name()
            )));
        }
    }
    if kind == Some(Kind::Counts) {
        return mine::join(files, args);
    }
    if args.threshold.is_some() {
        return Err(Error::argument(
            "--threshold: expected shards of counts, got those of a network",
        ));
    }
    network::join(files, &args.inputs, &args.out, args.common.json)
}
