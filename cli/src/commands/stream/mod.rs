//! `betz stream`: decode a recording, or a live source, step by step in a real-time session.

pub(crate) mod args;
mod live;
pub(crate) mod recorded;

use betz::{Error, Result};

use crate::clusterless;
use args::Stream;

pub(crate) fn run(args: &Stream) -> Result<()> {
    match (&args.source, &args.recording) {
        (None, Some(recording)) if clusterless::is_one(&args.model) => {
            clusterless::stream(args, recording)
        }
        (Some(source), _) => live::run(args, source),
        (None, Some(recording)) => recorded::run(args, recording),
        (None, None) => Err(Error::argument("expected a recording or --in, got neither")),
    }
}
