//! `betz drop`: a model without some of its channels, as if it had been trained without them.

use crate::common_args::Common;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

use betz::model::Decoder;
use betz::train::retained::drop_channels;
use betz::{Error, Result};
use serde::Serialize;

use crate::files::{Files, Kind};
use crate::parse;
use crate::report::{self, Outcome};

#[derive(Args)]
#[command(after_help = "Example: betz drop m.betz --channels 3,17 --out n.betz")]
pub(crate) struct Drop {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Model file, trained with --retain
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Channels to remove: names, numbers and half-open ranges such as 3,7..9
    #[arg(long, value_name = "LIST")]
    pub(crate) channels: String,
    /// Model file to write; it stores the same sums
    #[arg(long, value_name = "MODEL")]
    pub(crate) out: PathBuf,
}

#[derive(Serialize)]
struct RemovalReport {
    model: String,
    /// Names of the channels that were asked for.
    channels: Vec<String>,
    channels_left: usize,
    /// To take the channels out: to factor the system of every member, and to solve it.
    seconds: f64,
}

pub(crate) fn run(args: &Drop) -> Result<()> {
    Files::new(&args.common)
        .reads("MODEL", &args.model)
        .writes("--out", &args.out, Kind::Model)?;
    let model = Decoder::load(&args.model)?;
    let at = |e: Error| e.at(args.model.display());
    let channels = parse::channels("--channels", &args.channels, model.channel_names())?;
    let started = Instant::now();
    let left = drop_channels(&model, &channels).map_err(at)?;
    let seconds = started.elapsed().as_secs_f64();
    left.save(&args.out)?;
    let dropped = RemovalReport {
        model: args.out.display().to_string(),
        channels: (channels.iter().map(|&c| model.channel_names()[c].clone())).collect(),
        channels_left: left.channel_mask().iter().filter(|used| **used).count(),
        seconds,
    };
    report::tell(&dropped, args.common.json)
}

impl Outcome for RemovalReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}: without {}, {} left; taken out in {:.1} ms",
            self.model,
            report::count(self.channels.len() as u128, "channel"),
            self.channels_left,
            1e3 * self.seconds
        ))
    }
}
