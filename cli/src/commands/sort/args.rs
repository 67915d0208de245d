//! Arguments of `betz sort`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::common_args::Common;
use crate::parse::seconds;

#[derive(Subcommand)]
pub(crate) enum SortCommand {
    /// Train a sorter on raw voltage
    Train(Box<SortTrain>),
    /// Run a sorter on raw voltage and write the spikes, one channel per unit
    Run(SortRun),
    /// Make a sorter of the units in a folder of Kilosort4 or Phy: their times are taken, and templates
    /// are made of the voltage
    Import(Box<SortImport>),
    /// Score sorted spikes against known ones
    Score(SortScore),
    /// Show the units of a sorter
    Show(SortShow),
    /// Merge or split units by hand; the sorter stores the list of edits
    Edit(SortEdit),
}

/// A recording of raw voltage.
#[derive(Args)]
pub(crate) struct Raw {
    /// Raw voltage: 16-bit little-endian samples with interleaved channels; a SpikeGLX .bin, .meta
    /// or folder; an Open Ephys structure.oebin or its folder; an NWB file with an ElectricalSeries
    /// of int16 or uint16
    #[arg(value_name = "RAW")]
    pub(crate) raw: PathBuf,
    #[command(flatten)]
    pub(crate) part: VoltagePart,
}

/// Facts of a recording of voltage that its header does not hold, and the part of it to use.
#[derive(Args, Clone)]
pub(crate) struct VoltagePart {
    /// Stream of a recording that has several, as `betz info RAW` lists them; for NWB the name or
    /// path of a series [default: the only one with action potentials]
    #[arg(long, value_name = "NAME", visible_alias = "series")]
    pub(crate) stream: Option<String>,
    /// Read the whole rows of a file that ends within a row
    #[arg(long)]
    pub(crate) truncate: bool,
    /// Sampling rate in Hz, if the data have no header
    #[arg(long, value_name = "HZ")]
    pub(crate) rate: Option<f64>,
    /// Number of channels, if the data have no header
    #[arg(long, value_name = "N")]
    pub(crate) channels: Option<usize>,
    /// Microvolts per bit, if the data have no header
    #[arg(long, value_name = "UV")]
    pub(crate) gain: Option<f64>,
    /// Start of the part to use, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 0.0)]
    pub(crate) from: f64,
    /// End of the part to use, in seconds [default: the end]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) until: Option<f64>,
}

/// References that are subtracted from every channel.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReferenceName {
    /// The median with 16 or more channels, else nothing
    Auto,
    /// Nothing
    None,
    /// The mean of all channels
    Car,
    /// The median of all channels
    Median,
    /// Local ridge regression on the channels beyond a spike's reach
    Lrr,
}

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz sort train traces.dat --probe probe.json --rate 30000 --channels 32 --gain 0.195 --out sorter.betz\n  betz sort train run_g0_t0.imec0.ap.bin --until 600 --out sorter.betz\n  betz sort train session.nwb --stream ElectricalSeries --out sorter.betz"
)]
pub(crate) struct SortTrain {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) raw: Raw,
    /// Sorter to write
    #[arg(long, value_name = "SORTER")]
    pub(crate) out: PathBuf,
    /// Contact positions (probeinterface JSON), or `none` to sort each channel by itself [default:
    /// from the header or the NWB file]
    #[arg(long, value_name = "FILE")]
    pub(crate) probe: Option<PathBuf>,
    /// Reference to subtract from every channel
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) reference: ReferenceName,
    /// Pass band of the filter in Hz
    #[arg(long, value_name = "LOW,HIGH", default_value = "300,6000")]
    pub(crate) band: String,
    /// Detection threshold: a minimum below minus this many standard deviations of the noise
    #[arg(long, value_name = "SIGMA", default_value_t = 4.5)]
    pub(crate) threshold: f64,
    /// Standard deviation in micrometres of the Gaussian that combines nearby channels for
    /// detection. 0: each channel alone
    #[arg(long, value_name = "UM", default_value_t = 20.0)]
    pub(crate) focus: f64,
    /// Voltage above which a sample is an artefact, in microvolts
    #[arg(long, value_name = "UV", default_value_t = 500.0)]
    pub(crate) artefact: f64,
    /// Number of nodes along each side of a map [default: by the number of spikes, 4 to 32]
    #[arg(long, value_name = "N")]
    pub(crate) side: Option<usize>,
    /// Number of training passes of a map
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) epochs: usize,
    /// Clusters with a d' below this are merged into one unit
    #[arg(long, value_name = "D", default_value_t = 3.0)]
    pub(crate) d_prime: f64,
    /// Time constant in seconds with which units follow drifting spikes while the sorter runs. 0:
    /// they stay
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 20.0)]
    pub(crate) forget: f64,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  betz sort import kilosort4/ --voltage traces.dat --gain 0.195 --out sorter.betz"
)]
pub(crate) struct SortImport {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Folder with spike_times.npy, spike_clusters.npy, channel_map.npy, channel_positions.npy and
    /// params.py. Takes the units with the label good in cluster_group.tsv; a unit that is not in it
    /// has its label in cluster_KSLabel.tsv
    #[arg(value_name = "PHY")]
    pub(crate) phy: PathBuf,
    /// Raw voltage that was sorted, as for `betz sort train`. Rate and channels that neither its header
    /// nor an option says are those of params.py
    #[arg(long, value_name = "RAW")]
    pub(crate) voltage: PathBuf,
    /// Sorter to write
    #[arg(long, value_name = "SORTER")]
    pub(crate) out: PathBuf,
    /// Contact positions (probeinterface JSON) [default: channel_positions.npy]
    #[arg(long, value_name = "FILE")]
    pub(crate) probe: Option<PathBuf>,
    /// Also take units with the label mua
    #[arg(long)]
    pub(crate) also_mua: bool,
    /// Label of the units to take, such as unsorted; repeat for several [default: good]
    #[arg(long = "label", value_name = "NAME")]
    pub(crate) labels: Vec<String>,
    #[command(flatten)]
    pub(crate) part: VoltagePart,
}

/// Features of the voltage.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Feature {
    /// Spikes of units
    Sorted,
    /// Unsorted threshold crossings of each channel
    Crossings,
    /// Spike-band power: mean |voltage| from 300 to 1000 Hz, per channel and bin
    Sbp,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz sort run sorter.betz traces.dat --channels 32 --out spikes.npz --phy phy/\n  betz sort run sorter.betz traces.dat --channels 32 --feature sbp --bin 0.02 --out power.npz"
)]
pub(crate) struct SortRun {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Sorter that `betz sort train` wrote
    #[arg(value_name = "SORTER")]
    pub(crate) sorter: PathBuf,
    #[command(flatten)]
    pub(crate) raw: Raw,
    /// Recording to write (.npz), with one channel per unit or per electrode
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Feature to extract from the voltage
    #[arg(long, value_name = "NAME", default_value = "sorted")]
    pub(crate) feature: Feature,
    /// Length of a bin of spike-band power in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 0.02)]
    pub(crate) bin: f64,
    /// Write spike_times.npy, spike_clusters.npy and the other files of Phy to this folder; not for
    /// NWB
    #[arg(long, value_name = "FOLDER")]
    pub(crate) phy: Option<PathBuf>,
    /// Number of samples handed over at once; does not change the result
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) block: usize,
}

#[derive(Args)]
pub(crate) struct SortScore {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Recording that `betz sort run` wrote
    #[arg(value_name = "SPIKES")]
    pub(crate) spikes: PathBuf,
    /// True spikes: a recording whose channels are units, or an .npz with `samples` and `units`
    #[arg(value_name = "TRUTH")]
    pub(crate) truth: PathBuf,
    /// Largest time between spikes that match, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 0.0004)]
    pub(crate) window: f64,
}

#[derive(Args)]
pub(crate) struct SortShow {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Sorter that `betz sort train` wrote
    #[arg(value_name = "SORTER")]
    pub(crate) sorter: PathBuf,
    /// Draw maps and waveforms (.svg, .png or .pdf)
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
}

#[derive(Args)]
#[command(
    group = clap::ArgGroup::new("edit").required(true),
    after_help = "Examples:\n  betz sort edit sorter.betz --merge 3,7 --out sorter2.betz\n  betz sort edit sorter.betz --split 4:12,13,29 --out sorter2.betz"
)]
pub(crate) struct SortEdit {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Sorter that `betz sort train` wrote
    #[arg(value_name = "SORTER")]
    pub(crate) sorter: PathBuf,
    /// Units to merge; the first number stays
    #[arg(long, value_name = "UNIT,UNIT", group = "edit")]
    pub(crate) merge: Option<String>,
    /// Nodes of a unit to make a unit of their own (`betz sort show` numbers them row by row)
    #[arg(long, value_name = "UNIT:NODE,NODE", group = "edit")]
    pub(crate) split: Option<String>,
    /// Sorter to write
    #[arg(long, value_name = "SORTER")]
    pub(crate) out: PathBuf,
}
