//! `spiking_wire.cu`, `spiking_resident.cu` and `spiking_spread.cu`.

use crate::arguments::{Element, In, InOut, Out, Plain, kernel, n};
use crate::layout::{Layout, Shared, plain, shared};

shared! {
    /// What the neurons of a population have in common.
    struct Cells {
        /// First neuron.
        first: u32,
        /// Neurons.
        count: u32,
        /// e^(−Δ/τ_m).
        leak: f32,
        /// What the constant current adds to V over a step.
        constant: f32,
        /// V_th − E_L.
        threshold: f32,
        /// V_reset − E_L.
        reset: f32,
        /// Steps of silence after a spike.
        refractory: i32,
        /// Receptors; 0: a source, that fires by call only.
        receptors: u32,
        /// Length of the chains; 0: the potential jumps by what arrives.
        chain: u32,
        /// 1: arrivals act in the step they arrive in.
        early: u32,
        /// Steps after which filters end, or 0.
        filter: u32,
        /// Thresholds of Poisson counts; 0 without such input.
        poisson: u32,
        /// The first of them.
        thresholds: u32,
        /// Weight of a Poisson spike in units.
        poisson_weight: i32,
        /// The receptor it goes to.
        poisson_receptor: u32,
        /// e^(−Δ/τ), by receptor.
        decay: [f32; 2],
        /// From units to the first link of the chain, by receptor.
        gain: [f32; 2],
        /// What each link adds to V over a step: (receptor, link).
        onto: [f32; 8],
        /// What an arrival adds to each link when its filter ends.
        tail: [f32; 4],
    }
}

shared! {
    /// How the synapses of a projection are drawn.
    struct Wires {
        /// Where targets come from; see [`LISTED_DEGREES`] and those that follow.
        kind: u32,
        /// Number of the projection.
        index: u32,
        /// First neuron of the sources.
        source_first: u32,
        /// How many they are.
        sources: u32,
        /// First neuron of the targets.
        target_first: u32,
        /// How many they are.
        targets: u32,
        /// Targets that a source may have: all, or all but itself.
        choice: u32,
        /// 1: all but itself.
        skip_self: u32,
        /// Synapses of each source, where that is given.
        count: u32,
        /// 1: weights are drawn again until they have the mean's sign.
        keep_sign: u32,
        /// The weight in units, where the deviation is 0.
        weight: i32,
        /// Its mean.
        weight_mean: f32,
        /// Its deviation.
        weight_deviation: f32,
        /// The delay in steps, where the deviation is 0.
        delay: u32,
        /// Its mean.
        delay_mean: f32,
        /// Its deviation.
        delay_deviation: f32,
        /// 1: weights below 0 go to the second receptor.
        two_receptors: u32,
    }
}

plain! {
    Cells: u32 u32 f32 f32 f32 f32 i32 u32 u32 u32 u32 u32 u32 i32 u32 [f32; 2] [f32; 2] [f32; 8] [f32; 4];
    Wires: u32 u32 u32 u32 u32 u32 u32 u32 u32 u32 i32 f32 f32 u32 f32 f32 u32;
}

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
/// Where each device's `post` lies.
pub const POSTS: usize = 4;
/// Words of `post` before the spikes that came, two lists of 32-bit numbers a device.
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
/// Numbers in `tally`.
pub const TALLY: usize = 9;

/// In a mark: the neuron fires in the first step, by call; the other bits are the number of its trace and 1.
pub const EMITS: u32 = 1 << 31;

/// Kinds of [`Wires`]: out-degrees of the sources are listed, targets drawn.
pub const LISTED_DEGREES: u32 = 0;
/// Each source has [`Wires::count`] synapses, targets drawn.
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

/// Where rows lie, one after another: sources, by block of the target where there are `blocks`.
fn cells(neurons: i32, blocks: i32) -> u128 {
    n(neurons) * n(blocks.max(1))
}

kernel! {
    /// Out-degrees, where each synapse draws its source.
    SPIKING_WIRE, spiking_degrees:
    struct SpikingDegrees<'a> {
        seed: u64,
        index: u32,
        sources: u32,
        total: u64,
        degrees: InOut<'a, u32>,
    }
    needs |own, blocks| {
        degrees: n(own.sources),
    }
}

kernel! {
    /// Counts the synapses of a projection by where they will lie.
    SPIKING_WIRE, spiking_count:
    struct SpikingCount<'a> {
        wires: In<'a, Wires>,
        normal: In<'a, f32>,
        seed: u64,
        degrees: In<'a, u32>,
        blocks: i32,
        neurons: i32,
        parts: u32,
        part: u32,
        offsets: InOut<'a, u32>,
        quads: InOut<'a, u32>,
        sums: InOut<'a, u64>,
        found: InOut<'a, u64>,
    }
    needs |own, blocks| {
        wires: 1,
        normal: QUANTILES as u128,
        offsets: cells(own.neurons, own.blocks) + 1,
        quads: cells(own.neurons, own.blocks) * u128::from(own.blocks > 0),
        sums: n(own.neurons),
        found: FOUND as u128,
    }
}

kernel! {
    /// Places the synapses of a projection.
    SPIKING_WIRE, spiking_place:
    struct SpikingPlace<'a> {
        wires: In<'a, Wires>,
        normal: In<'a, f32>,
        seed: u64,
        degrees: In<'a, u32>,
        blocks: i32,
        neurons: i32,
        parts: u32,
        part: u32,
        offsets: InOut<'a, u32>,
        quads: InOut<'a, u32>,
        deep: i32,
        words: InOut<'a, u32>,
    }
    needs |own, blocks| {
        wires: 1,
        normal: QUANTILES as u128,
        offsets: cells(own.neurons, own.blocks) + 1,
        quads: cells(own.neurons, own.blocks) * u128::from(own.blocks > 0),
        words: cells(own.neurons, own.blocks) * 4 * n(own.deep),
    }
}

kernel! {
    /// As [`SpikingCount`], of synapses that the host has made.
    SPIKING_WIRE, spiking_count_listed:
    struct SpikingCountListed<'a> {
        ends: In<'a, u32>,
        strengths: In<'a, u32>,
        many: u64,
        blocks: i32,
        neurons: i32,
        parts: u32,
        part: u32,
        offsets: InOut<'a, u32>,
        quads: InOut<'a, u32>,
        sums: InOut<'a, u64>,
        found: InOut<'a, u64>,
    }
    needs |own, blocks| {
        ends: 2 * n(own.many),
        strengths: n(own.many),
        offsets: cells(own.neurons, own.blocks) + 1,
        quads: cells(own.neurons, own.blocks) * u128::from(own.blocks > 0),
        sums: n(own.neurons),
        found: FOUND as u128,
    }
}

kernel! {
    /// As [`SpikingPlace`], of synapses that the host has made.
    SPIKING_WIRE, spiking_place_listed:
    struct SpikingPlaceListed<'a> {
        ends: In<'a, u32>,
        strengths: In<'a, u32>,
        many: u64,
        blocks: i32,
        neurons: i32,
        parts: u32,
        part: u32,
        offsets: InOut<'a, u32>,
        quads: InOut<'a, u32>,
        deep: i32,
        words: InOut<'a, u32>,
    }
    needs |own, blocks| {
        ends: 2 * n(own.many),
        strengths: n(own.many),
        offsets: cells(own.neurons, own.blocks) + 1,
        quads: cells(own.neurons, own.blocks) * u128::from(own.blocks > 0),
        words: cells(own.neurons, own.blocks) * 4 * n(own.deep),
    }
}

kernel! {
    /// Synapses of each neuron, once all are placed.
    SPIKING_WIRE, spiking_row_lengths:
    struct SpikingRowLengths<'a> {
        blocks: i32,
        neurons: i32,
        offsets: In<'a, u32>,
        quads: In<'a, u32>,
        degrees: Out<'a, u32>,
    }
    needs |own, blocks| {
        offsets: cells(own.neurons, own.blocks) + 1,
        quads: cells(own.neurons, own.blocks) * u128::from(own.blocks > 0),
        degrees: n(own.neurons),
    }
}

kernel! {
    /// Steps of a network, or one device's share of it, whose rings of input lie in the device's memory.
    SPIKING_SPREAD, spiking_spread:
    struct SpikingSpread<'a> {
        cells: In<'a, Cells>,
        populations: i32,
        thresholds: In<'a, u32>,
        starts: In<'a, u16>,
        seed: u64,
        neurons: i32,
        slots: i32,
        longest: i32,
        begin: u64,
        steps: u32,
        membranes: InOut<'a, f32>,
        silent: InOut<'a, i32>,
        ring: InOut<'a, i32>,
        past: InOut<'a, i32>,
        counts: InOut<'a, u32>,
        tally: InOut<'a, u64>,
        offsets: In<'a, u32>,
        words: In<'a, u32>,
        team: i32,
        barrier: InOut<'a, u32>,
        arrived: u32,
        share: In<'a, u64>,
        post: InOut<'a, u64>,
        recorded: InOut<'a, u32>,
        marks: In<'a, u32>,
        traces: InOut<'a, f32>,
    }
    needs |own, blocks| {
        cells: n(own.populations),
        starts: n(own.populations) * BUCKETS as u128,
        membranes: 2 * n(own.neurons),
        silent: n(own.neurons),
        ring: n(own.neurons) * n(own.slots),
        past: n(own.neurons) * n(own.longest),
        counts: n(own.neurons),
        tally: TALLY as u128,
        share: POSTS as u128,
        barrier: BARRIER as u128,
        marks: n(own.neurons),
    }
}

kernel! {
    /// Steps of a network that fits on the chip.
    SPIKING_RESIDENT, spiking_resident:
    struct SpikingResident<'a> {
        cells: In<'a, Cells>,
        populations: i32,
        thresholds: In<'a, u32>,
        starts: In<'a, u16>,
        seed: u64,
        neurons: i32,
        slots: i32,
        longest: i32,
        begin: u64,
        steps: u32,
        membranes: InOut<'a, f32>,
        silent: InOut<'a, i32>,
        ring: InOut<'a, i32>,
        past: InOut<'a, i32>,
        counts: InOut<'a, u32>,
        tally: InOut<'a, u64>,
        offsets: In<'a, u32>,
        words: In<'a, u32>,
        deep: i32,
        mail: InOut<'a, u64>,
        recorded: InOut<'a, u32>,
        marks: In<'a, u32>,
        traces: InOut<'a, f32>,
    }
    needs |own, blocks| {
        cells: n(own.populations),
        starts: n(own.populations) * BUCKETS as u128,
        membranes: 2 * n(own.neurons),
        silent: n(own.neurons),
        ring: n(own.neurons) * n(own.slots),
        past: n(own.neurons) * n(own.longest),
        counts: n(own.neurons),
        tally: TALLY as u128,
        offsets: n(own.neurons) * n(blocks.0) + 1,
        words: n(own.neurons) * n(blocks.0) * 4 * n(own.deep),
        mail: MAIL as u128,
        marks: n(own.neurons),
    }
}
