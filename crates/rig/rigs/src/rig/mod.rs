//! Rigs: blocks of voltage, spikes or features, each with the device's own time.
//!
//! A [`Rig`] gives [`Block`]s as they come. It never interpolates and never drops anything silently: what is known to
//! be missing before a block is in [`Block::lost_before`], exact or as a lower bound. `bus::Source` gives a model's
//! steps instead, which are already made. [`open_rig`] opens a rig by its address.
//!
//! Every source of a device is emulated from public sources, not tried on hardware.

#[cfg(feature = "emulate")]
pub mod emulate;
#[cfg(feature = "rig")]
pub mod notes;
#[cfg(feature = "rig")]
mod open;
#[cfg(feature = "rig")]
pub(crate) mod protobuf;
#[cfg(feature = "rig")]
pub(crate) mod tcp;
#[cfg(all(test, feature = "emulate"))]
pub(crate) mod tests;

use std::time::Duration;

#[cfg(feature = "rig")]
use betz_base::Error;
use betz_base::Result;

#[cfg(feature = "rig")]
pub use crate::brand::BrandRig;
#[cfg(feature = "rig")]
pub use crate::cerebus::{CerebusRig, Group};
#[cfg(feature = "rig")]
pub use crate::clock::host_ns;
#[cfg(feature = "rig")]
pub use crate::lsl::LslRig;
#[cfg(feature = "rig")]
pub use crate::openephys::OpenEphysRig;
#[cfg(feature = "rig")]
pub use crate::pipe::{Fifo, PipeRig};
#[cfg(feature = "rig")]
pub use crate::rhx::{RhxBand, RhxOptions, RhxRig};
#[cfg(all(feature = "rig", target_os = "linux"))]
pub use crate::shared::SharedRig;
#[cfg(feature = "rig")]
pub use crate::spikeglx::{SpikeGlxRig, SpikeGlxStream};
#[cfg(feature = "rig")]
pub use crate::synapse::SynapseRig;
#[cfg(feature = "rig")]
pub use crate::udp::rows::FrameRig;
#[cfg(feature = "rig")]
pub use open::{RigOptions, open_rig};

/// A spike of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RigSpike {
    /// Time in the device's clock, in the unit of [`Block::first`].
    pub tick: u64,
    /// Channel, from 0.
    pub channel: u32,
    /// Unit of the device's own sorter; 0 where it has none.
    pub unit: u8,
}

/// Contents of a block.
#[derive(Debug, Clone, PartialEq)]
pub enum Samples {
    /// Voltage in the device's bits, sample by sample: `rows` × channels.
    Voltage(Vec<i16>),
    /// Spikes, in order of time.
    Spikes(Vec<RigSpike>),
    /// Features of channels, row by row: `rows` × channels.
    Features(Vec<f32>),
}

/// Samples that are missing before a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loss {
    /// Number of rows (of spikes: of messages).
    pub count: u64,
    /// True if at least as many are missing, but maybe more.
    pub at_least: bool,
}

/// Contents of one arrival from a rig. Reused: a rig clears and fills it.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Number of the rig's restarts of its clock, from 0: a block of another epoch has another time axis.
    pub epoch: u32,
    /// Device time of the first row: its number, or a tick.
    pub first: u64,
    /// Rows of voltage or features. Of spikes: the ticks that the block covers whole, or 0 if only the times of its spikes
    /// are known.
    pub rows: usize,
    /// Arrival in nanoseconds of the host's `CLOCK_MONOTONIC_RAW`.
    pub host_ns: i64,
    /// Rows that are missing before this block.
    pub lost_before: Loss,
    /// Contents.
    pub samples: Samples,
}

impl Block {
    /// An empty block.
    pub fn new() -> Self {
        Self {
            epoch: 0,
            first: 0,
            rows: 0,
            host_ns: 0,
            lost_before: Loss::default(),
            samples: Samples::Voltage(Vec::new()),
        }
    }
}

#[cfg(feature = "rig")]
impl Block {
    /// The list of its voltage, emptied, with the room that it has; to be put back.
    pub(crate) fn take_voltage(&mut self) -> Vec<i16> {
        match std::mem::replace(&mut self.samples, Samples::Voltage(Vec::new())) {
            Samples::Voltage(mut voltage) => {
                voltage.clear();
                voltage
            }
            Samples::Spikes(_) | Samples::Features(_) => Vec::new(),
        }
    }

    /// The list of its spikes, likewise.
    pub(crate) fn take_spikes(&mut self) -> Vec<RigSpike> {
        match std::mem::replace(&mut self.samples, Samples::Voltage(Vec::new())) {
            Samples::Spikes(mut spikes) => {
                spikes.clear();
                spikes
            }
            Samples::Voltage(_) | Samples::Features(_) => Vec::new(),
        }
    }
}

/// Consecutive messages that fit other settings, after which these settings are wrong.
#[cfg(feature = "rig")]
pub(crate) const MISFITS: u32 = 8;

/// Microvolts per bit of the int16 that voltage of float32 becomes, unless another number is given; those of Intan's
/// chips.
#[cfg(feature = "rig")]
pub(crate) const MICROVOLTS: f64 = 0.195;

/// The int16 nearest to a voltage times the bits per microvolt, away from zero if two are as near.
#[cfg(feature = "rig")]
pub(crate) fn to_bits(microvolts: f32, bits: f32) -> i16 {
    let value = bits * microvolts;
    (value + 0.5_f32.copysign(value)) as i16
}

/// Refuses facts of the rig at `address` that are not above 0.
#[cfg(feature = "rig")]
pub(crate) fn check_given(
    address: std::fmt::Arguments<'_>,
    channels: Option<usize>,
    rate: Option<f64>,
) -> Result<()> {
    if channels == Some(0) {
        return Err(Error::argument(format!(
            "{address}: expected channels above 0, got 0"
        )));
    }
    match rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
        Some(rate) => Err(Error::argument(format!(
            "{address}: expected a rate above 0, got {rate}"
        ))),
        None => Ok(()),
    }
}

/// Appends the int16 of `bytes`, little-endian.
#[cfg(feature = "rig")]
pub(crate) fn append_words(voltage: &mut Vec<i16>, bytes: &[u8]) {
    let words = bytes.chunks_exact(2);
    voltage.extend(words.map(|b| i16::from_le_bytes([b[0], b[1]])));
}

impl Default for Block {
    fn default() -> Self {
        Self::new()
    }
}

/// Answer of a rig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The block is filled.
    Block,
    /// Nothing arrived in the allowed time.
    Nothing,
    /// The rig has ended.
    Ended,
}

/// Facts about what a rig sends, as far as it has said so.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    /// Channels of each row.
    pub channels: usize,
    /// Rows, or ticks, per second of the device's clock.
    pub rate: f64,
    /// Microvolts per bit of voltage, where the rig says so.
    pub microvolts: Option<f64>,
    /// Bits of the device's clock, after which it wraps; 64 if it never does.
    pub clock_bits: u32,
}

/// Number and time that the sender of a block has given to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The sender's number of the step.
    pub sequence: u64,
    /// Time in nanoseconds of the sender's own clock.
    pub sent: i64,
}

/// An answer to a question for the device's time: it was asked and answered between two times of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Host time before the question, in nanoseconds of `CLOCK_MONOTONIC_RAW`.
    pub asked_ns: i64,
    /// Device time, in the unit of [`Block::first`].
    pub device: u64,
    /// Host time after the answer.
    pub answered_ns: i64,
}

/// Precision of a rig's losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossReport {
    /// Losses are known to the row.
    Exact,
    /// Losses are known in packets of any kind, of which each may hold a spike.
    Packets,
    /// Losses are unknown, because the source numbers nothing.
    Unknown,
}

/// Counts since a rig was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RigCounts {
    /// Blocks given.
    pub blocks: u64,
    /// Rows, or spikes, given.
    pub rows: u64,
    /// Rows that are missing, as in [`Block::lost_before`].
    pub lost: u64,
    /// Blocks before which more may be missing than was counted.
    pub bounds: u64,
    /// Blocks, or messages, that came twice.
    pub duplicates: u64,
    /// Blocks, or messages, that came after a later one.
    pub late: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages that this host's kernel dropped.
    pub dropped_by_host: u64,
    /// Restarts of the device, or of its clock.
    pub restarts: u64,
    /// Connections lost and made again.
    pub reconnects: u64,
}

/// A change of a digital line, such as that of a TTL pulse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineEdge {
    /// Epoch of the device's clock, as [`Block::epoch`].
    pub epoch: u32,
    /// Device time of the change, in the unit of [`Block::first`].
    pub row: u64,
    /// Number of the line, from 1; at most [`MOST_LINES`].
    pub line: u8,
    /// True if the line goes up.
    pub is_up: bool,
}

/// Most digital lines of a device.
pub const MOST_LINES: u8 = 64;

/// Changes of digital lines that nobody has taken yet.
#[cfg(feature = "rig")]
#[derive(Default)]
pub(crate) struct LineEdges {
    pub(crate) waiting: Vec<LineEdge>,
    /// Newest state of the lines, a bit each; `None` before the first.
    pub(crate) state: Option<u64>,
}

#[cfg(feature = "rig")]
impl LineEdges {
    /// Most changes that wait; more are those of a reader that takes none.
    const MOST: usize = 1 << 16;

    pub(crate) fn push(&mut self, edge: LineEdge) {
        if self.waiting.len() < Self::MOST {
            self.waiting.push(edge);
        }
    }

    /// Takes the state of all lines at a row. Without a state before, the lines of `changed` have changed.
    pub(crate) fn take_state(&mut self, epoch: u32, row: u64, state: u64, changed: u64) {
        let changed = self.state.map_or(changed, |before| before ^ state);
        self.state = Some(state);
        for bit in (0..MOST_LINES).filter(|bit| changed >> bit & 1 == 1) {
            self.push(LineEdge {
                epoch,
                row,
                line: bit + 1,
                is_up: state >> bit & 1 == 1,
            });
        }
    }
}

/// A source of blocks.
pub trait Rig: Send {
    /// Facts about the signal; `None` until the rig has said so.
    fn signal(&self) -> Option<Signal>;

    /// Waits at most `patience` for the next block.
    ///
    /// # Errors
    /// Faults that waiting cannot remove.
    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival>;

    /// The newest answer about the device's time since the last call, where the rig can be asked.
    fn probe(&mut self) -> Option<Probe> {
        None
    }

    /// Appends the changes of the device's digital lines since the last call to `edges`, where the device tells them.
    fn take_edges(&mut self, edges: &mut Vec<LineEdge>) {
        let _ = edges;
    }

    /// The sender's number and time of the newest block, where blocks are steps that have some.
    fn stamp(&self) -> Option<Stamp> {
        None
    }

    /// Precision of [`Block::lost_before`].
    fn loss_report(&self) -> LossReport {
        LossReport::Exact
    }

    /// Bytes of the socket's buffer that the system gave, if there is one and the system tells.
    fn socket_buffer(&self) -> Option<usize> {
        None
    }

    /// Counts so far.
    fn counts(&self) -> RigCounts;
}
