//! Arguments of `betz look`.

use std::path::PathBuf;

use clap::Args;

use crate::common_args::{Behaviors, Common};
use crate::parse::{positive_seconds, seconds, seconds_span};

#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  betz look reach.npz\n  betz look reach.npz --align starts --window=-0.5s..1s --bin 20ms --channels 3,7..9 --picture look.svg\n  betz look reach.npz --tune direction:vx,vy --lag 100ms"
)]
pub(crate) struct Look {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) behavior: Behaviors,
    /// Recording (.npz, .nwb)
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Channels to look at: names, numbers from 0 and half-open ranges such as 3,7..9 [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) channels: Option<String>,
    /// Segments (trials) to look at: numbers and half-open ranges such as 0..800,805 [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) segments: Option<String>,
    /// Show firing rates around events: `starts` or `stops` of the segments, times such as
    /// 1.5,2s,2500ms, or a file with one time in seconds per line (first column of a table)
    #[arg(long, value_name = "EVENTS")]
    pub(crate) align: Option<String>,
    /// Time around each event, before to after
    #[arg(
        long,
        value_name = "FROM..TO",
        value_parser = seconds_span,
        default_value = "-0.5s..1s",
        allow_hyphen_values = true
    )]
    pub(crate) window: (f64, f64),
    /// Length of a bin around events
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds, default_value = "10ms")]
    pub(crate) bin: f64,
    /// Include the spikes around each event in --json (a raster per channel)
    #[arg(long, requires = "align")]
    pub(crate) raster: bool,
    /// Show tuning curves. VARIABLE is an output (x), map:x,y, direction:vx,vy or speed:vx,vy of
    /// two outputs as they are, or direction-of-change:x,y or speed-of-change:x,y of positions
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) tune: Option<String>,
    /// Number of bins of a tuning curve, along each axis
    #[arg(long, value_name = "N", default_value_t = 8, requires = "tune")]
    pub(crate) tune_bins: usize,
    /// Compare spikes with the behaviour this much later (negative: earlier), rounded to steps
    /// [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_hyphen_values = true, requires = "tune")]
    pub(crate) lag: Option<f64>,
    /// Leave out directions of vectors shorter than this, in the unit of the outputs (of
    /// positions: per second) [default: 0]
    #[arg(long, value_name = "SPEED", requires = "tune")]
    pub(crate) min_speed: Option<f64>,
    /// Show no rate for bins of a tuning curve with less time than this [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "tune")]
    pub(crate) min_time: Option<f64>,
    /// Include histograms of the intervals between spikes in --json, in bins of 1 ms up to this
    /// length [without SECONDS: 0.1]
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = positive_seconds,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0.1"
    )]
    pub(crate) intervals: Option<f64>,
    /// Refractory period of a neuron; shorter intervals are violations
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds, default_value = "1.5ms")]
    pub(crate) refractory: f64,
    /// Draw rasters, rates, tuning curves and intervals of the first channels
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
}
