//! The CUDA kernels of Betz: one `.cu` file an operation, and what their launches are given.
//!
//! Nothing here runs anything: [`Source`]s are compiled at run time by NVRTC, in `betz_device::cuda`.

mod arguments;
pub mod decode;
pub mod episode;
pub mod gram;
mod layout;
pub mod map;
pub mod network;
pub mod psc;
pub mod scan;
pub mod solve;
pub mod sort;
pub mod spiking;
mod text;

pub use arguments::{
    Arguments, Blocks, Compiled, Direction, Element, In, InOut, InPlace, MOST_ARGUMENTS, MaybeOut,
    Out, Parameter, Pass, Plain, TooShort,
};
pub use layout::{
    Block, Chunk, Complex, Counts, Entry, Filter, Layout, Link, Mask, Node, Pair, Part, Sample,
    Section, Shared, Step, Tally, Target, TargetShape, Tick, Tuple,
};
pub use spiking::{Cells, Wires};
use text::text;

/// One kernel file and what it includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Its name, for messages and the cache: `gram_event` for `gram_event.cu`.
    pub name: &'static str,
    /// Its text, without comments and indentation.
    pub text: &'static str,
    /// What it includes: (name, text) each.
    pub headers: &'static [(&'static str, &'static str)],
}

/// Every kernel file.
pub const ALL: &[Source] = &[
    DECODE,
    EPISODE_LATEST_START,
    EPISODE_LOCAL_TRACKING,
    EPISODE_MAP_CONCAT,
    EPISODE_SERIAL,
    EPISODE_SIBLINGS,
    EPISODE_SURROGATE,
    EPISODE_TWO_PASS,
    GRAM_DENSE,
    GRAM_EVENT,
    LOW_PASS,
    MAP_TRAIN,
    NETWORK_ORDER,
    NETWORK_PREPARE,
    NETWORK_WALK,
    PSC_CONVOLVE,
    PSC_RECURSIVE,
    RESPONSES_COUNTS,
    RESPONSES_EVENT,
    RESPONSES_GIVEN,
    SCAN,
    SCORES,
    SOLVE,
    SORT,
    SPIKING_RESIDENT,
    SPIKING_SPREAD,
    SPIKING_WIRE,
    TRAINS,
];

/// `decode.cu`: Batch decoding: every spike adds its weights to the weighted trains, one for each filter and output
pub const DECODE: Source = Source {
    name: "decode",
    text: text!("../decode.cu"),
    headers: &[SPIKE_STATES, TILE_SCAN, MASK, PSC_SYSTEM, LAYOUT],
};
/// `episode_latest_start.cu`: Counts of non-overlapped serial episodes by latest starts, on any number of warps.
pub const EPISODE_LATEST_START: Source = Source {
    name: "episode_latest_start",
    text: text!("../episode_latest_start.cu"),
    headers: &[EPISODE_CHAINS, EPISODE_TICK, LAYOUT],
};
/// `episode_local_tracking.cu`: The papers' parallel local tracking, a thread an occurrence (Feng et al., §1.3.1, Algorithms 3 and
pub const EPISODE_LOCAL_TRACKING: Source = Source {
    name: "episode_local_tracking",
    text: text!("../episode_local_tracking.cu"),
    headers: &[EPISODE_TICK, LAYOUT],
};
/// `episode_map_concat.cu`: The papers' MapConcat, several threads an episode (MTPE; Patnaik et al., §III.B; Cao et al.,
pub const EPISODE_MAP_CONCAT: Source = Source {
    name: "episode_map_concat",
    text: text!("../episode_map_concat.cu"),
    headers: &[EPISODE_AUTOMATON, LAYOUT],
};
/// `episode_serial.cu`: The papers' Algorithm 1, a thread an episode (PTPE; Cao et al., §5.1): every thread takes its
pub const EPISODE_SERIAL: Source = Source {
    name: "episode_serial",
    text: text!("../episode_serial.cu"),
    headers: &[EPISODE_AUTOMATON],
};
/// `episode_siblings.cu`: Counts all continuations of prefixes by one symbol at once: in levelwise mining a prefix is tried
pub const EPISODE_SIBLINGS: Source = Source {
    name: "episode_siblings",
    text: text!("../episode_siblings.cu"),
    headers: &[EPISODE_CHAINS, EPISODE_TICK, LAYOUT],
};
/// `episode_surrogate.cu`: Makes a surrogate of events: every event is moved by up to `delta` ticks, by a number that follows from the
pub const EPISODE_SURROGATE: Source = Source {
    name: "episode_surrogate",
    text: text!("../episode_surrogate.cu"),
    headers: &[EPISODE_TICK],
};
/// `episode_two_pass.cu`: The first pass of the papers' two-pass elimination (PreElim; Feng et al., §1.3.2, Algorithm 4), a
pub const EPISODE_TWO_PASS: Source = Source {
    name: "episode_two_pass",
    text: text!("../episode_two_pass.cu"),
    headers: &[EPISODE_AUTOMATON],
};
/// `gram_dense.cu`: Around the dense path's products: states handed from chunk to chunk, and sums over rounds in f64.
pub const GRAM_DENSE: Source = Source {
    name: "gram_dense",
    text: text!("../gram_dense.cu"),
    headers: &[SPIKE_STATES, LAYOUT],
};
/// `gram_event.cu`: Γ and Υ from the spikes alone.
pub const GRAM_EVENT: Source = Source {
    name: "gram_event",
    text: text!("../gram_event.cu"),
    headers: &[SPIKE_STATES, LAYOUT],
};
/// `low_pass.cu`: A low-pass, second-order sections in series, in tiles: `low_pass_tile_ends`, `low_pass_carry`,
pub const LOW_PASS: Source = Source {
    name: "low_pass",
    text: text!("../low_pass.cu"),
    headers: &[TILE_SCAN, MASK, LAYOUT],
};
/// `map_train.cu`: An epoch of a self-organising map's batch training, around cuBLAS's x·w: nodes laid
pub const MAP_TRAIN: Source = Source {
    name: "map_train",
    text: text!("../map_train.cu"),
    headers: &[],
};
/// `network_order.cu`: Edges in order: slots counted by window and first node, placed, each row sorted.
pub const NETWORK_ORDER: Source = Source {
    name: "network_order",
    text: text!("../network_order.cu"),
    headers: &[],
};
/// `network_prepare.cu`: What the walk through a chunk of windows is given: moments, scales, panels.
pub const NETWORK_PREPARE: Source = Source {
    name: "network_prepare",
    text: text!("../network_prepare.cu"),
    headers: &[],
};
/// `network_walk.cu`: Sliding-window correlations, a tile of pairs through all windows, and what is near the threshold
pub const NETWORK_WALK: Source = Source {
    name: "network_walk",
    text: text!("../network_walk.cu"),
    headers: &[],
};
/// `psc_convolve.cu`: PSC filtering by transforms (overlap-save): `convolve_load` cuts channels into rows, cuFFT
pub const PSC_CONVOLVE: Source = Source {
    name: "psc_convolve",
    text: text!("../psc_convolve.cu"),
    headers: &[LAYOUT],
};
/// `psc_recursive.cu`: PSC filtering by the recursion of the filters' states, in tiles: `psc_tile_ends`, `psc_carry`,
pub const PSC_RECURSIVE: Source = Source {
    name: "psc_recursive",
    text: text!("../psc_recursive.cu"),
    headers: &[SPIKE_STATES, TILE_SCAN, MASK, PSC_SYSTEM, LAYOUT],
};
/// `responses_counts.cu`: Responses of every feature from binned counts, a round of chunks at a time.
pub const RESPONSES_COUNTS: Source = Source {
    name: "responses_counts",
    text: text!("../responses_counts.cu"),
    headers: &[SPIKE_STATES, RESPONSE_TILE, LAYOUT],
};
/// `responses_event.cu`: Responses of every feature from sorted spikes, a round of chunks at a time.
pub const RESPONSES_EVENT: Source = Source {
    name: "responses_event",
    text: text!("../responses_event.cu"),
    headers: &[SPIKE_STATES, RESPONSE_TILE, LAYOUT],
};
/// `responses_given.cu`: Responses that are on the device already, in f32, into the operands of the products.
pub const RESPONSES_GIVEN: Source = Source {
    name: "responses_given",
    text: text!("../responses_given.cu"),
    headers: &[SPIKE_STATES, RESPONSE_TILE, LAYOUT],
};
/// `scan.cu`: Exclusive prefix sums of 32-bit numbers, in place. A block sums its own stretch; the blocks' totals
pub const SCAN: Source = Source {
    name: "scan",
    text: text!("../scan.cu"),
    headers: &[],
};
/// `scores.cu`: What R², RMSE and NRMSE are made from, over the rows that count: Σx, Σ(x − x̄)², Σ(x − x̂)² and the
pub const SCORES: Source = Source {
    name: "scores",
    text: text!("../scores.cu"),
    headers: &[MASK, LAYOUT],
};
/// `solve.cu`: Around cuSOLVER: centring, precision changes and refinement of the decoder's normal equations.
pub const SOLVE: Source = Source {
    name: "solve",
    text: text!("../solve.cu"),
    headers: &[],
};
/// `sort.cu`: Sorts 64-bit keys by some of their bits, keys that agree in those staying in the order they were in: digit by digit,
pub const SORT: Source = Source {
    name: "sort",
    text: text!("../sort.cu"),
    headers: &[],
};
/// `spiking_resident.cu`: Spiking networks that fit on the chip: rings of input in shared memory, all steps in one launch.
pub const SPIKING_RESIDENT: Source = Source {
    name: "spiking_resident",
    text: text!("../spiking_resident.cu"),
    headers: &[SPIKING_NEURON, LAYOUT],
};
/// `spiking_spread.cu`: Spiking networks of any size: rings of input in the device's memory, all steps in one launch.
pub const SPIKING_SPREAD: Source = Source {
    name: "spiking_spread",
    text: text!("../spiking_spread.cu"),
    headers: &[SPIKING_NEURON, LAYOUT],
};
/// `spiking_wire.cu`: Synapses of spiking networks, drawn where they will lie.
pub const SPIKING_WIRE: Source = Source {
    name: "spiking_wire",
    text: text!("../spiking_wire.cu"),
    headers: &[SPIKING_NEURON, LAYOUT],
};
/// `trains.cu`: Spikes as trains of counts, one row a channel.
pub const TRAINS: Source = Source {
    name: "trains",
    text: text!("../trains.cu"),
    headers: &[],
};

const EPISODE_AUTOMATON: (&str, &str) =
    ("episode_automaton.cuh", text!("../episode_automaton.cuh"));
const EPISODE_TICK: (&str, &str) = ("episode_tick.cuh", text!("../episode_tick.cuh"));
const LAYOUT: (&str, &str) = ("layout.cuh", text!("../layout.cuh"));
const SPIKING_NEURON: (&str, &str) = ("spiking_neuron.cuh", text!("../spiking_neuron.cuh"));
const MASK: (&str, &str) = ("mask.cuh", text!("../mask.cuh"));
const EPISODE_CHAINS: (&str, &str) = ("episode_chains.cuh", text!("../episode_chains.cuh"));
const PSC_SYSTEM: (&str, &str) = ("psc_system.cuh", text!("../psc_system.cuh"));
const RESPONSE_TILE: (&str, &str) = ("response_tile.cuh", text!("../response_tile.cuh"));
const SPIKE_STATES: (&str, &str) = ("spike_states.cuh", text!("../spike_states.cuh"));
const TILE_SCAN: (&str, &str) = ("tile_scan.cuh", text!("../tile_scan.cuh"));
