//! Arguments of `betz network live`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::super::args::{Edges, InputArgs, Rectangle, Region, Span, frame, region, span};
use super::super::frames::Channel;
use crate::common_args::{Common, memory_size};
use crate::parse::positive_seconds;

/// Arguments of `betz network live`.
#[derive(Args)]
#[command(
    group = ArgGroup::new("keep").required(true).multiple(false),
    after_help = "Examples:\n  betz network live 'openephys://127.0.0.1:5556?channels=64' --average 10ms --window 2s --step 500ms --threshold 0.7 --page\n  betz network live 'lsl://EEG' --window 2s --step 250ms --threshold 0.6 --out eeg.net.npz\n  betz network live frames/ --sample-seconds 0.1 --window 200 --step 10 --threshold 0.7 --page\n  ffmpeg -i camera.mp4 -f yuv4mpegpipe -pix_fmt gray - | betz network live - --downsample 4 --window 2s --step 200ms --top 500 --page\nSOURCE is the address of a device or stream as in a session (udp://, cerebus://, spikeglx://, rhx://, openephys://, synapse://, brand://, lsl://, shm://, pipe:), a folder that fills with images, or - for frames on standard input: PGM or PPM images one behind the other, YUV4MPEG2 (8 bits), or raw bytes (--frames). A named pipe is read like standard input. Ctrl-C ends the command and writes what was computed."
)]
pub(crate) struct Live {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Address, folder of images, or - for standard input (see below)
    #[arg(value_name = "SOURCE")]
    pub(crate) source: PathBuf,
    /// Network to write at the end: .npz or .zarr. After each change of window or threshold another file
    /// begins: NET-2, NET-3 and so on, without the numbers of files that are no earlier network
    #[arg(long, value_name = "NET")]
    pub(crate) out: Option<PathBuf>,
    /// Seconds of the signal after which the command ends; of the clock if the time between samples is
    /// not known. A device that has stopped does not end the command [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Number of windows after which the command ends [default: no limit]
    #[arg(long, value_name = "N")]
    pub(crate) windows: Option<u64>,
    /// Compute only the newest complete window while rows of a device wait longer than this [default: 1s].
    /// Frames are never left out
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) behind: Option<f64>,
    /// Memory for rows that wait; a device's further rows are lost and counted [default: 256MB]
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) waiting: Option<u64>,
    /// Do not print a line for the newest window every second
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) from: LiveInput,
    #[command(flatten)]
    pub(crate) edges: Edges,
    #[cfg(feature = "page")]
    #[command(flatten)]
    pub(crate) page: LivePage,
}

/// The input.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct LiveInput {
    /// Time between samples, such as 0.1 or 100ms, if the source does not give it
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) sample_seconds: Option<f64>,
    /// Average N rows, or the rows of TIME, into one sample
    #[arg(long, value_name = "N|TIME", value_parser = span)]
    pub(crate) average: Option<Span>,
    /// Length of the bins in which a source's spikes are counted, such as 50ms
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) bin: Option<f64>,
    /// Nodes to use: numbers from 0, or half-open ranges such as 3..10, separated by commas [default:
    /// all]
    #[arg(long, value_name = "LIST")]
    pub(crate) nodes: Option<String>,
    /// Read standard input as raw frames: one byte per pixel, H rows of W pixels
    #[arg(long, value_name = "H,W", value_parser = frame)]
    pub(crate) frames: Option<(usize, usize)>,
    /// Pixels to use of each frame: x, y, width and height
    #[arg(long, value_name = "X,Y,W,H", value_parser = rectangle)]
    pub(crate) region: Option<Rectangle>,
    /// Value of a pixel. Hue is an angle in radians: compare it with --measure plv, ciplv or ppc
    /// [default: grey]
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) channel: Option<Channel>,
    /// Use the mean of each block of N x N pixels as a node; pixels at the right and lower edge that
    /// fill no block are left out
    #[arg(long, value_name = "N")]
    pub(crate) downsample: Option<NonZeroUsize>,
    /// Time for which the last image of a folder must keep its size before it is read; an image that is
    /// followed by another is read at once [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    pub(crate) settle: Option<f64>,
}

/// `10,20,64,48`: x, y, width and height.
fn rectangle(text: &str) -> Result<Rectangle, String> {
    match region(text)? {
        Region::Rectangle(rectangle) => Ok(rectangle),
        Region::File(_) => Err(format!(
            "expected x, y, width and height in pixels such as 10,20,64,48, got {text:?}"
        )),
    }
}

impl LiveInput {
    /// The same as the input of a file has it.
    pub(crate) fn as_input(&self) -> InputArgs {
        InputArgs {
            signal: String::new(),
            sample_seconds: self.sample_seconds,
            bin: self.bin,
            frames: self.frames,
            nodes: self.nodes.clone(),
            region: self.region.map(Region::Rectangle),
            channel: self.channel,
            downsample: self.downsample,
        }
    }
}

/// The page.
#[cfg(feature = "page")]
#[derive(Args)]
#[command(next_help_heading = "The page")]
pub(crate) struct LivePage {
    #[command(flatten)]
    pub(crate) of_session: crate::page::SessionPage,
    /// Let the page change window and threshold
    #[arg(long, requires = "shown")]
    pub(crate) control: bool,
    /// Keep networks in this database (SQLite), which is made if it is not there; with --control the page
    /// keeps, names and deletes them
    #[arg(long, value_name = "FILE.db", requires = "shown")]
    pub(crate) sessions: Option<PathBuf>,
}
