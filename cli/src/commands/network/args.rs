//! The command line of `betz network`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use betz::network::Measure;
use betz::team::Shard;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::frames::Channel;
use crate::common_args::{Common, memory_size, shard};
use crate::parse::{positive_seconds, seconds_with_unit};

#[derive(Subcommand)]
pub(crate) enum NetworkCommand {
    /// Compute the edges of every window and write the network
    Compute(Box<Compute>),
    /// Compute the network of signals or frames while they come
    #[cfg(feature = "rig")]
    Live(Box<super::live::args::Live>),
    /// Measure each window's graph, find communities and follow them over time
    Graph(Graph),
    /// Compare networks with the first of them, window by window: common edges, degrees, correlation
    Compare(Compare),
    /// Export a network, or one window of it, for other programs
    Export(Export),
}

/// A length, in samples or seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Span {
    Samples(usize),
    Seconds(f64),
}

/// `200` (samples), `2s`, `50ms`, `1.5min`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    if let Ok(samples) = text.trim().parse() {
        return Ok(Span::Samples(samples));
    }
    (seconds_with_unit(text).filter(|seconds| *seconds > 0.0))
        .map(Span::Seconds)
        .ok_or_else(|| {
            format!("expected a whole number of samples or a time such as 2s or 50ms, got {text:?}")
        })
}

/// `8-13`: a lower and a higher frequency in Hz.
fn band_of_frequencies(text: &str) -> Result<(f64, f64), String> {
    let hertz = |text: &str| -> Option<f64> {
        let number: f64 = text.trim().parse().ok()?;
        (0.0..f64::INFINITY).contains(&number).then_some(number)
    };
    (text.trim().trim_end_matches("Hz").split_once('-'))
        .and_then(|(low, high)| Some((hertz(low)?, hertz(high)?)))
        .filter(|(low, high)| low <= high)
        .ok_or_else(|| {
            format!("expected a lower and a higher frequency in Hz such as 8-13, got {text:?}")
        })
}

/// A count that may be written as 1e9.
fn many(text: &str) -> Result<u64, String> {
    let whole = || {
        let number: f64 = text.parse().ok()?;
        ((0.0..=1e18).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    };
    (text.parse().ok().or_else(whole))
        .ok_or_else(|| format!("expected a whole number such as 1000000 or 1e9, got {text:?}"))
}

/// `130,172`: height and width of a frame.
pub(super) fn frame(text: &str) -> Result<(usize, usize), String> {
    let side = |side: &str| side.trim().parse().ok().filter(|n| *n > 0);
    (text.split_once([',', 'x']))
        .and_then(|(height, width)| Some((side(height)?, side(width)?)))
        .ok_or_else(|| format!("expected height and width such as 130,172, got {text:?}"))
}

/// A rectangle of pixels; x to the right and y down from the left upper corner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rectangle {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// The nodes that are used: those that a file lists, or pixels of a rectangle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Region {
    File(PathBuf),
    Rectangle(Rectangle),
}

/// `10,20,64,48`: x, y, width and height; anything else is a file.
pub(super) fn region(text: &str) -> Result<Region, String> {
    let numbers: Option<Vec<usize>> = (text.split(',').map(|n| n.trim().parse().ok())).collect();
    match numbers.as_deref() {
        Some(&[x, y, width, height]) if width > 0 && height > 0 => {
            Ok(Region::Rectangle(Rectangle {
                x,
                y,
                width,
                height,
            }))
        }
        Some(numbers) if numbers.len() > 1 => Err(format!(
            "expected x, y, width and height in pixels such as 10,20,64,48, or a file, got {text:?}"
        )),
        _ => Ok(Region::File(PathBuf::from(text))),
    }
}

fn measures() -> impl TypedValueParser<Value = Measure> {
    PossibleValuesParser::new(Measure::names())
        .try_map(|name| Measure::named(&name).ok_or("no measure of this name"))
}

/// Signs of values that count.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum SignName {
    /// Both, by magnitude
    Both,
    /// Positive values
    Pos,
    /// Negative values, by magnitude
    Neg,
}

/// Methods that make surrogates.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum SurrogateName {
    /// Randomise each node's Fourier phases
    Phase,
    /// Shift each node by a random number of samples, cyclically
    Shift,
}

/// Procedures that bound false discoveries.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum FdrName {
    /// For independent or positively dependent pairs
    #[value(alias = "bh")]
    BenjaminiHochberg,
    /// For any dependence of pairs
    #[value(alias = "by")]
    BenjaminiYekutieli,
}

/// Arguments of `betz network compute`.
#[derive(Args)]
#[command(
    group = ArgGroup::new("keep").required(true).multiple(false),
    after_help = "Example: betz network compute video.npz --window 2s --step 100ms --threshold 0.7 --out net.npz\nINPUT is an .npz with `signal` (samples, nodes), (frames, height, width) or (frames, height, width, 3), or `positions` (samples, nodes, 2 or 3), and `sample_seconds`, an .npy, a table (.txt, .csv, .tsv) with a time and one value per node on each line, frames, or a recording of spikes. Frames are a folder of .png, .tif, .bmp, .pgm or .ppm images of one format, a .tif of many pages, a video (.mp4, .avi and others, through the program ffmpeg), or raw bytes (--frames). Optional arrays of the .npz: `segments` (n, 2), `node_name`, `node_xy`.\nA GPU (--device) computes all measures but lagged, partial and sttc: with --threshold, --density or --top (distance with --threshold only), and pearson, gaussian-information, spearman and kendall with --surrogates."
)]
pub struct Compute {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Signal (.npz, .npy, frames and others, see below) or recording (.npz, .nwb)
    #[arg(value_name = "INPUT")]
    pub(crate) input: PathBuf,
    /// Network to write: .npz, or .zarr (a directory in chunks; an .npz above 2 GiB becomes one)
    #[arg(long, value_name = "NET", required_unless_present = "dry_run")]
    pub(crate) out: Option<PathBuf>,
    /// Estimate windows, pairs, edges, memory and time, and stop. Edges are counted on a sample of
    /// nodes and windows
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Memory to use on each GPU at most, such as 2GiB or 500MB; larger problems are computed in
    /// parts
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) device_memory: Option<u64>,
    /// Memory to use for signal, work and edges at most, such as 2GiB or 500MB; fewer windows are
    /// then computed at a time
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) memory: Option<u64>,
    /// Also write the value of every pair (`full` in the file). Of more than 4000 nodes, or 2 GiB, NET
    /// becomes a directory (.zarr)
    #[arg(long)]
    pub(crate) full: bool,
    /// Write values as multiples of 1/32767, in half the bytes; for measures between -1 and 1
    #[arg(long)]
    pub(crate) compact: bool,
    /// Compute only shard K of N of the windows and write it to NET. `betz join` makes the network
    /// from all N; its bytes equal those without --shard (on a GPU: its edges)
    #[arg(long, value_name = "K/N", value_parser = shard, conflicts_with = "dry_run")]
    pub(crate) shard: Option<Shard>,
    #[command(flatten)]
    pub(crate) from: InputArgs,
    #[command(flatten)]
    pub(crate) edges: Edges,
    #[command(flatten)]
    pub(crate) chance: Surrogates,
}

/// The input.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// Array of an .npz that holds the signal, time along its first axis
    #[arg(long, value_name = "NAME", default_value = "signal")]
    pub(crate) signal: String,
    /// Time between samples, such as 0.1 or 100ms, if the file does not give it
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) sample_seconds: Option<f64>,
    /// Length of the bins in which a recording's spikes are counted, such as 50ms; bins restart
    /// with every trial
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) bin: Option<f64>,
    /// Read INPUT as raw frames: one byte per pixel, H rows of W pixels
    #[arg(long, value_name = "H,W", value_parser = frame)]
    pub(crate) frames: Option<(usize, usize)>,
    /// Nodes to use: numbers from 0, half-open ranges such as 3..10, or names, separated by commas [default:
    /// all]
    #[arg(long, value_name = "LIST", conflicts_with = "region")]
    pub(crate) nodes: Option<String>,
    /// Pixels to use of each frame: x, y, width and height. Or a file of nodes to use: text as for
    /// --nodes, on any number of lines, or an .npy with one number per node (or pixel), 0 outside
    #[arg(long, value_name = "X,Y,W,H|FILE", value_parser = region)]
    pub(crate) region: Option<Region>,
    /// Value of a pixel. Hue is an angle in radians: compare it with --measure plv, ciplv or ppc
    /// [default: grey]
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) channel: Option<Channel>,
    /// Use the mean of each block of N x N pixels as a node; pixels at the right and lower edge that
    /// fill no block are left out
    #[arg(long, value_name = "N")]
    pub(crate) downsample: Option<NonZeroUsize>,
}

/// The choice of edges.
#[derive(Args)]
#[command(next_help_heading = "Edges")]
pub(crate) struct Edges {
    /// Similarity of two nodes: pearson, spearman, kendall, covariance, euclidean,
    /// gaussian-information, lagged, partial, coherence or dtw (time warping); distance for places that change;
    /// plv, ciplv and ppc for a signal of phases in radians; sttc (spike-time
    /// tiling) for a recording
    #[arg(long, value_name = "NAME", default_value = "pearson", value_parser = measures(), hide_possible_values = true)]
    pub(crate) measure: Measure,
    /// Length of a window in samples (200) or time (2s, 500ms); windows do not cross segments
    #[arg(long, value_name = "N|TIME", value_parser = span)]
    pub(crate) window: Span,
    /// Time from the start of one window to the next, in samples or time
    #[arg(long, value_name = "N|TIME", value_parser = span)]
    pub(crate) step: Span,
    /// Weight of samples within a window: rectangular (equal) or hann (pearson and
    /// gaussian-information only)
    #[arg(long, value_name = "NAME", default_value = "rectangular", value_parser = PossibleValuesParser::new(["rectangular", "hann"]), hide_possible_values = true)]
    pub(crate) taper: String,
    /// Edges are values of at least R (for distance, dtw and euclidean: at
    /// most R)
    #[arg(long, value_name = "R", group = "keep")]
    pub(crate) threshold: Option<f64>,
    /// Edges are this share of all pairs, the strongest of each window
    #[arg(long, value_name = "SHARE", group = "keep")]
    pub(crate) density: Option<f64>,
    /// Edges are the K strongest pairs of each window
    #[arg(long, value_name = "K", group = "keep")]
    pub(crate) top: Option<usize>,
    /// Edges are pairs among the K strongest of either of their nodes
    #[arg(long, value_name = "K", group = "keep")]
    pub(crate) top_per_node: Option<usize>,
    /// Signs that count
    #[arg(long, value_enum, default_value_t = SignName::Both)]
    pub(crate) sign: SignName,
    /// Values must exceed the threshold, not only reach it
    #[arg(long, requires = "threshold")]
    pub(crate) strict: bool,
    /// Largest shift in either direction for --measure lagged, in samples or time
    #[arg(long, value_name = "N|TIME", value_parser = span)]
    pub(crate) lags: Option<Span>,
    /// Largest time between spikes that count as together for --measure sttc, such as 5ms
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) reach: Option<f64>,
    /// Number of consecutive windows that a pair must be near for --measure euclidean
    #[arg(long, value_name = "N")]
    pub(crate) hold: Option<usize>,
    /// Time that a pair must be near within a window for --measure distance, in samples or time
    /// [default: the window]
    #[arg(long, value_name = "N|TIME", value_parser = span)]
    pub(crate) near: Option<Span>,
    /// Time that a near pair may be farther apart or unseen for --measure distance, in samples or
    /// time [default: 0]
    #[arg(long, value_name = "N|TIME", value_parser = span)]
    pub(crate) gap: Option<Span>,
    /// Read places as latitude and longitude in degrees; --measure distance is then in metres
    #[arg(long)]
    pub(crate) earth: bool,
    /// Largest shift for --measure dtw, in samples or time [default: a tenth of the window]
    #[arg(long, value_name = "N|TIME", value_parser = span)]
    pub(crate) band: Option<Span>,
    /// Subtract each window's mean and divide by its standard deviation before --measure dtw
    #[arg(long)]
    pub(crate) normalise: bool,
    /// Length of a segment for --measure coherence, in samples or time; each begins half a segment
    /// after the one before [default: a quarter of the window]
    #[arg(long, value_name = "N|TIME", value_parser = span)]
    pub(crate) segment: Option<Span>,
    /// Frequencies in Hz for --measure coherence, such as 8-13 [default: all above 0]
    #[arg(long, value_name = "LOW-HIGH", value_parser = band_of_frequencies)]
    pub(crate) frequencies: Option<(f64, f64)>,
    /// Take the largest coherence of the frequencies instead of the mean
    #[arg(long)]
    pub(crate) peak: bool,
    /// Number of edges over all windows at which the command stops
    #[arg(long, value_name = "N", value_parser = many, default_value = "1e9")]
    pub(crate) max_edges: u64,
}

/// A threshold from surrogates.
#[derive(Args)]
#[command(next_help_heading = "Threshold from surrogates")]
pub(crate) struct Surrogates {
    /// Find the threshold from N surrogates, in which each node keeps its own structure and shares
    /// nothing with others. With probability 1 - ALPHA no edge is false
    #[arg(long, value_name = "N", group = "keep")]
    pub(crate) surrogates: Option<usize>,
    /// Probability of any false edge in the whole network [default: 0.05]
    #[arg(
        long,
        value_name = "ALPHA",
        requires = "surrogates",
        conflicts_with = "fdr"
    )]
    pub(crate) alpha: Option<f64>,
    /// Bound the expected share of false edges instead (pearson, spearman and kendall)
    #[arg(long, value_name = "Q", requires = "surrogates")]
    pub(crate) fdr: Option<f64>,
    /// Procedure that --fdr follows
    #[arg(long, value_name = "NAME", value_enum, default_value_t = FdrName::BenjaminiHochberg, requires = "fdr")]
    pub(crate) fdr_procedure: FdrName,
    /// Refuse surrogates that would take longer than this many hours
    #[arg(
        long,
        value_name = "HOURS",
        default_value_t = 24.0,
        requires = "surrogates"
    )]
    pub(crate) max_hours: f64,
    /// Method that makes surrogates
    #[arg(long, value_name = "HOW", value_enum, default_value_t = SurrogateName::Phase, requires = "surrogates")]
    pub(crate) surrogate: SurrogateName,
    /// Seed of the surrogates
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Measures of `betz network graph`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphMeasure {
    /// Number of edges of each node
    Degree,
    /// Sum of each node's positive weights, and of its negative weights
    Strength,
    /// Clustering, plain and weighted, and transitivity
    Clustering,
    /// Connected components
    Components,
    /// Global efficiency and mean length of shortest paths
    Efficiency,
    /// Correlation of the degrees at both ends of edges
    Assortativity,
    /// Leiden communities, followed from window to window
    Communities,
    /// Participation of each node in the communities
    Participation,
    /// Small-worldness, compared with random graphs of the same degrees
    SmallWorld,
    /// Correlation of the edges of every two windows (functional connectivity dynamics)
    Fcd,
}

#[derive(Args)]
#[command(
    after_help = "Example: betz network graph net.npz --measures degree,communities,fcd --out graph.npz"
)]
pub(crate) struct Graph {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Network that `betz network compute` wrote
    #[arg(value_name = "NET")]
    pub(crate) network: PathBuf,
    /// Measures to compute, separated by commas
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        default_value = "degree,clustering,components,efficiency,communities"
    )]
    pub(crate) measures: Vec<GraphMeasure>,
    /// Write the measures of every window to this file: .csv, or .npz with the measures of every
    /// node
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Draw density and communities over time, the similarity of windows, and a map of the window
    /// with most edges (.svg, .png or .pdf)
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
    /// Resolution of the communities; larger values give smaller communities
    #[arg(long, value_name = "GAMMA", default_value_t = 1.0)]
    pub(crate) resolution: f64,
    /// Number of random nodes from which shortest paths are computed [default: all up to 5000
    /// nodes, else 500]
    #[arg(long, value_name = "N")]
    pub(crate) sources: Option<usize>,
    /// Number of random graphs with the same degrees that small-worldness is compared with
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) rewirings: usize,
    /// Seed of communities, sources and rewirings
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Networks of the same nodes; the first is compared with each of the others, at windows that
    /// start at the same sample
    #[arg(value_name = "NET", num_args = 2.., required = true)]
    pub(crate) networks: Vec<PathBuf>,
    /// Write the comparison of every window to this file (.csv)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Formats of `betz network export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One line per edge and window
    Csv,
    /// One line per spell: consecutive windows in which an edge exists
    Spells,
    /// All windows as spells, for Gephi
    Gexf,
    /// One window
    Graphml,
    /// One window as nodes and links, for D3 and NetworkX
    Json,
}

#[derive(Args)]
#[command(after_help = "Example: betz network export net.npz --window 12 --out w12.graphml")]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Network that `betz network compute` wrote
    #[arg(value_name = "NET")]
    pub(crate) network: PathBuf,
    /// File to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Format to write [default: by the file's ending: .csv, .gexf, .graphml, .json]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<Format>,
    /// Window to write, counted from 0; required for graphml and json
    #[arg(long, value_name = "K")]
    pub(crate) window: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units_or_count_samples() {
        for (text, expected) in [
            ("200", Span::Samples(200)),
            ("2s", Span::Seconds(2.0)),
            ("50ms", Span::Seconds(0.05)),
            ("0.5 s", Span::Seconds(0.5)),
            ("250us", Span::Seconds(0.000_25)),
            ("2min", Span::Seconds(120.0)),
        ] {
            assert_eq!(span(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "2.5", "-1s", "0s", "2h", "nans", "1e999s", "-3"] {
            assert!(span(text).is_err(), "{text}");
        }
        assert_eq!((many("1e9"), many("12")), (Ok(1_000_000_000), Ok(12)));
        assert_eq!(frame("130, 172"), Ok((130, 172)));
        assert!(frame("130").is_err() && frame("0,5").is_err() && frame("1,2,3").is_err());
        assert_eq!(
            region("1, 2,3,4"),
            Ok(Region::Rectangle(Rectangle {
                x: 1,
                y: 2,
                width: 3,
                height: 4
            }))
        );
        for file in ["left.txt", "1", "a,b"] {
            assert_eq!(region(file), Ok(Region::File(PathBuf::from(file))));
        }
        for wrong in ["1,2,3", "1,2,0,4", "1,2,3,0", "1,2,3,4,5"] {
            assert!(region(wrong).is_err(), "{wrong}");
        }
        assert_eq!(band_of_frequencies("8-13"), Ok((8.0, 13.0)));
        assert_eq!(band_of_frequencies("0.5 - 4 Hz"), Ok((0.5, 4.0)));
        for wrong in ["8", "13-8", "-1-8", "a-b", "8-inf", "nan-8"] {
            assert!(band_of_frequencies(wrong).is_err(), "{wrong}");
        }
        assert!(many("1.5").is_err() && many("-1").is_err() && many("nan").is_err());
    }
}
