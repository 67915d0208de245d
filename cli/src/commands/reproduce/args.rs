//! Arguments of `betz reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::common_args::Common;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz reproduce networks --quick --out networks.html\n  betz reproduce mining --device cuda --out mining.html\n\nThe page needs no script and no other file. docs/reproduce.md lists the experiments."
)]
pub(crate) struct Reproduce {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Papers to make again: mining (Feng et al., Patnaik et al., Cao et al.), networks (Purgato 2016), som, spiking or
    /// decoding (Galbraith 2010, chapters 3 to 5)
    #[arg(value_name = "PAPER")]
    pub(crate) subject: Subject,
    /// Page to write (.html)
    #[arg(long, value_name = "REPORT.html")]
    pub(crate) out: PathBuf,
    /// Smaller sizes, meant for a minute on two idle cores. The page names the sizes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Tiny sizes, for tests of the command
    #[arg(long, hide = true, conflicts_with = "quick")]
    pub(crate) tiny: bool,
}

/// The papers of one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    Mining,
    Networks,
    Som,
    Spiking,
    Decoding,
}
