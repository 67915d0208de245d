//! `spiking_wire.cu`, `spiking_resident.cu`, `spiking_spread.cu` and `spiking_learn.cu`.

use crate::arguments::n;

include!(concat!(env!("OUT_DIR"), "/spiking.rs"));

/// Threads of a block of [`SpikingResident`]: most neurons that it can have.
pub const RESIDENT_THREADS: u32 = 896;
/// Most blocks of [`SpikingResident`].
pub const RESIDENT_BLOCKS: u32 = 160;
/// Most populations of its network.
pub const RESIDENT_POPULATIONS: usize = 16;
/// Most places of input (receptor, neuron) of one of its blocks.
pub const RESIDENT_PLACES: u32 = 1 << 10;
/// Longest delay that it takes, in steps.
pub const RESIDENT_DELAY: u32 = 64;
/// Shared memory of one of its blocks besides the rings, in bytes.
pub const RESIDENT_SHARED: usize = 30 * 1024;
/// Spikes of a step that a block must have room for, twice, behind its rings.
pub const RESIDENT_LIST: usize = 1 << 11;
/// Words of messages, twice over.
pub const MAIL: usize = 2 * (RESIDENT_BLOCKS as usize / 2 + 1) * 16;

/// Threads of a block of [`SpikingSpread`].
pub const SPREAD_THREADS: u32 = 1024;
/// Most neurons of a thread that it keeps in registers, for which it may be compiled (`EACH`).
pub const SPREAD_EACH: u32 = 4;

/// Bits of the place of a synapse that learns; the bits above are its rule.
pub const PLACE_BITS: u32 = 24;
/// Most rules of synapses that learn.
pub const MOST_RULES: usize = 1 << (32 - PLACE_BITS);
/// Threads of a block of [`SpikingLearnAdvance`].
pub const LEARN_THREADS: u32 = 256;

/// Words of the barrier of [`SpikingSpread`].
pub const BARRIER: usize = 65;

/// Most devices that share a network.
pub const MOST_PARTS: usize = 8;
/// Where `share` has what: devices.
pub const PARTS: usize = 0;
/// Which of them this is.
pub const PART: usize = 1;
/// The shortest delay.
pub const SHORTEST: usize = 2;
/// Neurons that a device has at most.
pub const LARGEST: usize = 3;
/// Addresses of each device's `post`.
pub const POSTS: usize = 4;
/// Words of `post` before the spikes that came, two lists of 32-bit numbers per device.
pub const SENT: usize = 32;

/// Threads of a block of the kernels that make synapses.
pub const WIRE_THREADS: u32 = 256;

/// Buckets of words: for each the first threshold of Poisson counts that may lie above them.
pub const BUCKETS: usize = 256;

/// Where `tally` has what: the hash of all spikes.
pub const HASH: usize = 0;
/// Spikes.
pub const SPIKES: usize = 1;
/// Spikes recorded since it was set to 0.
pub const RECORDED: usize = 2;
/// Cycles of a block for input, membranes and thresholds.
pub const UPDATE: usize = 3;
/// Cycles for messages.
pub const EXCHANGE: usize = 4;
/// Cycles for delivery.
pub const DELIVER: usize = 5;
/// All cycles.
pub const CYCLES: usize = 6;
/// Given: spikes that there is room for.
pub const ROOM: usize = 7;
/// Given: bits of a neuron's number in the record.
pub const ID_WIDTH: usize = 8;
/// A neuron whose potential is no number any more: step << 32 | neuron, and 1; 0 without any.
pub const LOST: usize = 9;
/// Numbers in `tally`.
pub const TALLY: usize = 10;

/// In [`ModelCells::model`](crate::ModelCells::model): a source that fires at random.
pub const RANDOM_SOURCE: u32 = 255;
/// In [`ModelCells::refractory`](crate::ModelCells::refractory): none.
pub const NO_REFRACTORY: u32 = 255;

/// In a mark: the neuron fires in the first step, by call; the other bits are the number of its trace and 1.
pub const EMITS: u32 = 1 << 31;

/// Kinds of [`Wires`](crate::Wires): out-degrees of the sources are listed, targets drawn.
pub const LISTED_DEGREES: u32 = 0;
/// Each source has [`Wires::count`](crate::Wires::count) synapses, targets drawn.
pub const GIVEN_DEGREE: u32 = 1;
/// Neuron i with i + 1.
pub const RING: u32 = 2;
/// Every neuron with every neuron.
pub const EVERY: u32 = 3;
/// Neuron i with i.
pub const ONE_TO_ONE: u32 = 4;

/// Where `found` has what: synapses.
pub const SYNAPSES: usize = 0;
/// Their hash.
pub const WIRE_HASH: usize = 1;
/// The longest delay.
pub const LONGEST: usize = 2;
/// Most synapses of one step that a source has in a block.
pub const DEEPEST: usize = 3;
/// Numbers in `found`.
pub const FOUND: usize = 4;

/// Numbers of the table of normal quantiles.
pub const QUANTILES: usize = 32 * 65;
