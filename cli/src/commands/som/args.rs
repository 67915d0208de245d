//! Arguments of `betz som`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::common_args::Common;
use crate::page::Page;

/// Neighbourhoods of the online rule: how far a sample moves the nodes around its winner.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NeighbourhoodName {
    /// All nodes nearer than the radius equally (--disc): the step function of Galbraith 2010
    Disc,
    /// All nodes of a square equally: the paper's rectangular window (its width 5 is radius 2)
    Window,
    /// Gaussian decay
    Gaussian,
    /// Linear decay
    Triangle,
    /// Gaussian decay; nodes beyond the radius are repelled
    MexicanHat,
}

/// Edge of the disc.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiscName {
    /// Nodes nearer than the radius, and the winner: radius 1 moves one node (Listing 3.3 of Galbraith 2010)
    Open,
    /// Nodes at the radius, too: radius 1 moves five nodes of a square grid
    Closed,
}

/// Distances between samples and nodes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MetricName {
    /// Root of the sum of squared differences
    Euclidean,
    /// Sum of absolute differences
    Manhattan,
    /// Largest absolute difference
    Chebyshev,
    /// One less the cosine of the angle
    Cosine,
    /// One less Pearson's correlation
    Correlation,
}

/// Schedules of rate and radius from their first value to their last.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FadeName {
    /// In equal differences
    Linear,
    /// In equal ratios
    Geometric,
    /// Radius less one node per pass: the paper's viewer
    OnePerPass,
}

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    mut_group("Page", |g| g.requires("live")),
    after_help = "Examples:\n  betz som data.npz --map 90x70 --epochs 100 --out map.npz\n  betz som data.npz --map 8x8x8 --torus --metric cosine --out map.npz\n  betz som assign map.npz new.npz --out nodes.npz\n  betz som picture.png --map 128x128 --online --stages 8 --picture map.png --out map.npz\n  betz som data.npz --map 40x40 --hex --live --out map.npz"
)]
pub(crate) struct Som {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Data: an .npz with an array (samples, numbers), or a picture (.png, 24-bit .bmp) whose
    /// pixels are samples of red, green and blue from 0 to 1
    #[arg(value_name = "DATA", required = true)]
    pub(crate) data: Option<PathBuf>,
    /// Rows and columns of the map, after the number of layers for a map in three dimensions
    #[arg(long, value_name = "[LAYERSx]ROWSxCOLUMNS", default_value = "16x16")]
    pub(crate) map: String,
    /// Put the nodes at these positions instead: an .npz with an array `positions` (nodes, 1 to 3),
    /// or a table with one node per line (.csv)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["map", "hex", "torus"])]
    pub(crate) positions: Option<PathBuf>,
    /// Distance between samples and nodes
    #[arg(long, value_name = "NAME", default_value = "euclidean")]
    pub(crate) metric: MetricName,
    /// Map to write (.npz): `weights`, `heights` (the U-matrix), `hits`, and the node of each sample
    /// (`winners`) with its distance (`distances`)
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) out: Option<PathBuf>,
    /// Name of the array, if an .npz has several
    #[arg(long, value_name = "NAME")]
    pub(crate) array: Option<String>,
    /// Number of passes over all samples [default: 30; --online: 16]
    #[arg(long, value_name = "N")]
    pub(crate) epochs: Option<usize>,
    /// First and last radius in nodes [default: a third of the longest side to 0.6; --online: 16 to
    /// 1]
    #[arg(long, value_name = "FIRST,LAST")]
    pub(crate) radius: Option<String>,
    /// Use a hexagonal grid
    #[arg(long)]
    pub(crate) hex: bool,
    /// Join opposite edges of the map
    #[arg(long)]
    pub(crate) torus: bool,
    /// Decide in f64 where f32 cannot tell nodes apart
    #[arg(long, conflicts_with = "online")]
    pub(crate) exact: bool,
    /// Use Kohonen's online rule, one sample at a time from random weights (Galbraith 2010, chapter
    /// 3)
    #[arg(long)]
    pub(crate) online: bool,
    /// First and last learning rate of the online rule
    #[arg(long, value_name = "FIRST,LAST", requires = "online")]
    pub(crate) rate: Option<String>,
    /// Neighbourhood of the online rule [default: disc]
    #[arg(long, value_name = "NAME", requires = "online")]
    pub(crate) neighbourhood: Option<NeighbourhoodName>,
    /// Edge of the online rule's disc [default: open]
    #[arg(long, value_name = "NAME", requires = "online")]
    pub(crate) disc: Option<DiscName>,
    /// Change of the online rule's radius from pass to pass [default: one-per-pass]
    #[arg(long, value_name = "NAME", requires = "online")]
    pub(crate) fade: Option<FadeName>,
    /// Seed of the online rule's first weights
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Draw the map (.png): samples of three numbers as colours, others as the U-matrix
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Number of further pictures to draw during training, as NAME-00.png (before training),
    /// NAME-01.png and so on
    #[arg(long, value_name = "N", requires = "picture")]
    pub(crate) stages: Option<usize>,
    /// Show the training on a page, which stays until Ctrl-C. With --json, its address is an object
    /// of its own before the result
    #[arg(long)]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) page: Page,
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
}

impl Som {
    /// The data; the command line asks for it.
    pub(crate) fn data(&self) -> &Path {
        self.data.as_deref().unwrap_or(Path::new(""))
    }

    /// The map to write; the command line asks for it.
    pub(crate) fn out(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new(""))
    }
}

/// Use of a map that exists.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Find the node of each sample on a map that exists
    Assign(Assign),
}

#[derive(Args)]
#[command(after_help = "Example:\n  betz som assign map.npz new.npz --out nodes.npz")]
pub(crate) struct Assign {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Map that `betz som` wrote (.npz)
    #[arg(value_name = "MAP")]
    pub(crate) map: PathBuf,
    /// Data as for training, with as many numbers per sample as the map has weights per node
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    /// Nodes to write (.npz): `winners` (the number of each sample's node, from 0), `distances` and
    /// `hits`
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Name of the array, if an .npz has several
    #[arg(long, value_name = "NAME")]
    pub(crate) array: Option<String>,
}
