// Synapses of spiking networks, drawn where they will lie: the same as the CPU draws, since random words are a function
// of (synapse of the source, source, projection).
//
// Two passes over all synapses: one counts them by where they will lie, one places them there. The order within a row
// is free, since what neurons get are sums of integers.
//
// A block of targets is built like the share of a device; only its targets keep the network's numbers (`whole`).
//
// A cell is where a row lies: a source and, where `blocks` > 0, the block of its target (target mod `blocks`).

#define RECEPTORS 1
#define CHAIN 1
#define PAST 0
#include "spiking_neuron.cuh"

// Rule by which the synapses of a projection are drawn.
struct Wires {
    u32 kind;                // origin of the targets: `LISTED_DEGREES` and the constants after it
    u32 index;               // number of the projection
    u32 source_first;        // first neuron of the sources
    u32 sources;             // number of sources
    u32 target_first;        // first neuron of the targets
    u32 targets;             // number of targets
    u32 choice;              // targets that a source may have: all, or all but itself
    u32 skip_self;           // 1: all but itself
    u32 count;               // synapses of each source, where that is given
    u32 keep_sign;           // 1: weights are drawn again until they have the mean's sign
    int weight;              // the weight in units, where the deviation is 0
    float weight_mean;       // its mean
    float weight_deviation;  // its deviation
    u32 delay;               // the delay in steps, where the deviation is 0
    float delay_mean;        // its mean
    float delay_deviation;   // its deviation
    u32 two_receptors;       // 1: weights below 0 go to the second receptor
};

// Kinds: the degrees of the sources are listed; each source has `count`; ring; all; one to one.
constexpr u32 LISTED_DEGREES = 0, GIVEN_DEGREE = 1, RING = 2, EVERY = 3, ONE_TO_ONE = 4;

// Where `found` has what.
constexpr int SYNAPSES = 0, WIRE_HASH = 1, LONGEST = 2, DEEPEST = 3;

constexpr u32 ALL_LANES = 0xffffffffu;
constexpr u32 SEGMENTS = 64, OCTAVES = 32;
constexpr u32 EDGES = OCTAVES * (SEGMENTS + 1);
// A marker of a synapse of one step, so that none is 0.
constexpr u32 ONE_STEP = 0x80000000u;

// One synapse: neurons of the network.
struct Edge {
    u32 source, target;
    int weight;
    u32 delay, receptor;
};

// Where synapses lie, and how they are counted.
struct Cellar {
    u32 blocks, neurons;
    u32 parts, part;  // of several devices or blocks of targets, which one: neuron t is neuron t / parts of part t mod parts
    u32 whole;        // 1: parts are blocks of targets, whose numbers are those of the network
    u32* offsets;  // of cell c at c + 1: a count, then where it begins, then where it ends
    u32* quads;    // synapses of one step, by cell; with blocks only
};

__device__ __forceinline__ u64 cell_of(const Cellar& cellar, const Edge& edge) {
    return cellar.blocks > 0 ? (u64)edge.source * cellar.blocks + edge.target % cellar.blocks : edge.source;
}

// Standard normal numbers by linear interpolation of the quantile.
__device__ __forceinline__ float quantile(const float* edges, u32 word) {
    const u32 n = word | 1;
    const u32 octave = __clz(n);
    const u32 fraction = n << octave & 0x7fffffffu;
    const u32 place = octave * (SEGMENTS + 1) + (fraction >> 25);
    const float rest = __fmul_rn(__uint2float_rn(fraction & 0x01ffffffu), 1.0f / 33554432.0f);
    const float from = edges[place], to = edges[place + 1];
    const float z = __fmaf_rn(rest, __fsub_rn(to, from), from);
    return word & 1 ? -z : z;
}

__device__ __forceinline__ uint4 words_of(const Wires& wires, u32 k, u32 source, u32 again, u64 seed) {
    return philox(make_uint4(k, source, wires.index, FOR_SYNAPSE ^ again), seed);
}

// Synapse k of a source, counted within its population.
__device__ __forceinline__ Edge draw(const Wires& wires, const float* edges, u32 source, u32 k, u64 seed) {
    const bool random_target = wires.kind <= GIVEN_DEGREE;
    const bool random_weight = wires.weight_deviation > 0.0f, random_delay = wires.delay_deviation > 0.0f;
    uint4 words = {};
    if (random_target || random_weight || random_delay) {
        words = words_of(wires, k, source, 0, seed);
    }
    u32 target = k;
    if (random_target) {
        target = __umulhi(words.x, wires.choice);
    }
    if (wires.kind == RING) {
        target = source + 1 == wires.targets ? 0 : source + 1;
    } else if (wires.kind == ONE_TO_ONE) {
        target = source;
    } else {
        target += wires.skip_self && target >= source;
    }
    int weight = wires.weight;
    if (random_weight) {
        float w = __fmaf_rn(wires.weight_deviation, quantile(edges, words.y), wires.weight_mean);
        for (u32 again = 1; wires.keep_sign && !(__fmul_rn(w, wires.weight_mean) >= 0.0f); ++again) {
            const u32 word = words_of(wires, k, source, again, seed).y;
            w = __fmaf_rn(wires.weight_deviation, quantile(edges, word), wires.weight_mean);
        }
        weight = (int)rintf(w);
    }
    u32 delay = wires.delay;
    if (random_delay) {
        float d = rintf(__fmaf_rn(wires.delay_deviation, quantile(edges, words.z), wires.delay_mean));
        for (u32 again = 1; !(d >= 1.0f); ++again) {
            const u32 word = words_of(wires, k, source, again, seed).z;
            d = rintf(__fmaf_rn(wires.delay_deviation, quantile(edges, word), wires.delay_mean));
        }
        delay = (u32)fminf(d, 255.0f);
    }
    const u32 receptor = wires.two_receptors && weight < 0;
    return {wires.source_first + source, wires.target_first + target, weight, delay, receptor};
}

// Counts of a thread.
struct Found {
    u64 synapses, hash;
    u32 longest, deepest;
};

__device__ __forceinline__ void count_one(const Edge& edge, const Cellar& cellar, u64* sums, Found& found) {
    if (edge.target % cellar.parts != cellar.part) {
        return;
    }
    const u64 cell = cell_of(cellar, edge);
    if (cellar.blocks > 0 && edge.delay == 1) {
        found.deepest = max(found.deepest, atomicAdd(cellar.quads + cell, 1u) + 1);
    } else {
        atomicAdd(cellar.offsets + cell + 1, 1u);
    }
    atomicAdd(sums + (size_t)edge.receptor * cellar.neurons + edge.target, (u64)abs(edge.weight));
    const u64 ends = (u64)edge.source << 32 | edge.target;
    const u64 strength = (u64)edge.delay << 16 | (u16)edge.weight;
    found.hash += mix(mix(ends) ^ strength);
    ++found.synapses;
    found.longest = max(found.longest, edge.delay);
}

__device__ __forceinline__ void report(Found own, u64* found) {
    for (int d = 16; d > 0; d /= 2) {
        own.synapses += __shfl_down_sync(ALL_LANES, own.synapses, d);
        own.hash += __shfl_down_sync(ALL_LANES, own.hash, d);
        own.longest = max(own.longest, __shfl_down_sync(ALL_LANES, own.longest, d));
        own.deepest = max(own.deepest, __shfl_down_sync(ALL_LANES, own.deepest, d));
    }
    if (threadIdx.x % 32 == 0 && own.synapses > 0) {
        atomicAdd(found + SYNAPSES, own.synapses);
        atomicAdd(found + WIRE_HASH, own.hash);
        atomicMax(found + LONGEST, (u64)own.longest);
        atomicMax(found + DEEPEST, (u64)own.deepest);
    }
}

// Places a synapse: in 32 bits by cell, with those of one step in quads, or in 64 bits by source.
__device__ __forceinline__ void place_one(const Edge& edge, const Cellar& cellar, u32 deep, u32* words) {
    if (edge.target % cellar.parts != cellar.part) {
        return;
    }
    const u64 cell = cell_of(cellar, edge);
    const u32 weight = (u16)edge.weight;
    if (cellar.blocks == 0) {
        const u32 here = (cellar.neurons + cellar.parts - 1 - cellar.part) / cellar.parts;
        const u64 target = cellar.whole ? (u64)edge.receptor * cellar.neurons + edge.target
                                        : (u64)edge.receptor * here + edge.target / cellar.parts;
        const u32 at = atomicAdd(cellar.offsets + cell + 1, 1u);
        ((u64*)words)[at] = (u64)(edge.delay << 16 | weight) << 32 | target;
        return;
    }
    const u32 per_block = (cellar.neurons + cellar.blocks - 1) / cellar.blocks;
    const u32 lane = edge.receptor * per_block + edge.target / cellar.blocks;
    if (edge.delay == 1) {
        const u32 at = atomicAdd(cellar.quads + cell, 1u);
        words[cell * deep * 4 + at] = ONE_STEP | lane << 16 | weight;
    } else {
        // Quads lie before rows.
        const u64 rows = (u64)cellar.neurons * cellar.blocks * deep * 4;
        const u32 at = atomicAdd(cellar.offsets + cell + 1, 1u);
        words[rows + at] = (edge.delay & 63) << 26 | lane << 16 | weight;
    }
}

// Out-degrees, where each synapse draws its source.
// degrees[s] += the synapses of source s, when each of `total` draws its source: four per thread.
//: degrees: in-out, sources
extern "C" __global__ void __launch_bounds__(256)
spiking_degrees(u64 seed, u32 index, u32 sources, u64 total, u32* degrees) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    const u64 calls = (total + 3) / 4;
    for (u64 call = (u64)blockIdx.x * blockDim.x + threadIdx.x; call < calls; call += threads) {
        const uint4 words =
            philox(make_uint4((u32)call, (u32)(call >> 32), index, FOR_WIRING), seed);
        const u32 each[4] = {words.x, words.y, words.z, words.w};
        for (u64 k = 0; k < min(total - 4 * call, (u64)4); ++k) {
            atomicAdd(degrees + __umulhi(each[k], sources), 1u);
        }
    }
}

// A warp a source, any number of blocks. PLACE: the second pass.
template <bool PLACE>
__device__ __forceinline__ void walk(const Wires& wires, const float* normal, u64 seed, const u32* degrees,
                                     const Cellar& cellar, u64* sums, u64* found, u32 deep, u32* words) {
    __shared__ float edges[EDGES];
    for (u32 k = threadIdx.x; k < EDGES; k += blockDim.x) {
        edges[k] = normal[k];
    }
    __syncthreads();
    Found own = {};
    const u32 warps = gridDim.x * blockDim.x / 32;
    for (u32 source = (blockIdx.x * blockDim.x + threadIdx.x) / 32; source < wires.sources; source += warps) {
        const u32 many = wires.kind == LISTED_DEGREES ? degrees[source]
                         : wires.kind == GIVEN_DEGREE ? wires.count
                         : wires.kind == EVERY        ? wires.choice
                                                      : 1;
        for (u32 k = threadIdx.x % 32; k < many; k += 32) {
            const Edge edge = draw(wires, edges, source, k, seed);
            if (PLACE) {
                place_one(edge, cellar, deep, words);
            } else {
                count_one(edge, cellar, sums, own);
            }
        }
    }
    if (!PLACE) {
        __syncwarp();
        report(own, found);
    }
}

// Counts the synapses of a projection by where they will lie.
//: wires: in, 1
//: normal: in, QUANTILES
//: offsets: in-out, neurons * blocks.max(1) + 1
//: quads: in-out, neurons * blocks
//: sums: in-out, neurons
//: found: in-out, FOUND
extern "C" __global__ void __launch_bounds__(256)
spiking_count(const Wires* __restrict__ wires, const float* __restrict__ normal, u64 seed,
              const u32* __restrict__ degrees, int blocks, int neurons, u32 parts, u32 part, u32* offsets,
              u32* quads, u64* sums, u64* found) {
    const Cellar cellar = {(u32)blocks, (u32)neurons, parts, part, 0, offsets, quads};
    walk<false>(*wires, normal, seed, degrees, cellar, sums, found, 0, nullptr);
}

// Places the synapses of a projection.
//: wires: in, 1
//: normal: in, QUANTILES
//: offsets: in-out, neurons * blocks.max(1) + 1
//: quads: in-out, neurons * blocks
//: words: in-out, neurons * blocks.max(1) * 4 * deep
extern "C" __global__ void __launch_bounds__(256)
spiking_place(const Wires* __restrict__ wires, const float* __restrict__ normal, u64 seed,
              const u32* __restrict__ degrees, int blocks, int neurons, u32 parts, u32 part, u32* offsets,
              u32* quads, int deep, u32 whole, u32* words) {
    const Cellar cellar = {(u32)blocks, (u32)neurons, parts, part, whole, offsets, quads};
    walk<true>(*wires, normal, seed, degrees, cellar, nullptr, nullptr, deep, words);
}

__device__ __forceinline__ Edge listed(const u32* ends, const u32* strengths, u64 k) {
    const u32 strength = strengths[k];
    return {ends[2 * k], ends[2 * k + 1], (int)(short)strength, strength >> 16 & 255, strength >> 24};
}

// Synapses that the host has made: source and target; receptor << 24 | delay << 16 | weight. One thread per synapse, any
// number of blocks.
//: ends: in, 2 * many
//: strengths: in, many
//: offsets: in-out, neurons * blocks.max(1) + 1
//: quads: in-out, neurons * blocks
//: sums: in-out, neurons
//: found: in-out, FOUND
extern "C" __global__ void __launch_bounds__(256)
spiking_count_listed(const u32* __restrict__ ends, const u32* __restrict__ strengths, u64 many, int blocks,
                     int neurons, u32 parts, u32 part, u32* offsets, u32* quads, u64* sums, u64* found) {
    const Cellar cellar = {(u32)blocks, (u32)neurons, parts, part, 0, offsets, quads};
    const u64 threads = (u64)gridDim.x * blockDim.x;
    Found own = {};
    for (u64 k = (u64)blockIdx.x * blockDim.x + threadIdx.x; k < many; k += threads) {
        count_one(listed(ends, strengths, k), cellar, sums, own);
    }
    __syncwarp();
    report(own, found);
}

// As `spiking_place`, of synapses that the host has made.
//: ends: in, 2 * many
//: strengths: in, many
//: offsets: in-out, neurons * blocks.max(1) + 1
//: quads: in-out, neurons * blocks
//: words: in-out, neurons * blocks.max(1) * 4 * deep
extern "C" __global__ void __launch_bounds__(256)
spiking_place_listed(const u32* __restrict__ ends, const u32* __restrict__ strengths, u64 many, int blocks,
                     int neurons, u32 parts, u32 part, u32* offsets, u32* quads, int deep, u32 whole, u32* words) {
    const Cellar cellar = {(u32)blocks, (u32)neurons, parts, part, whole, offsets, quads};
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 k = (u64)blockIdx.x * blockDim.x + threadIdx.x; k < many; k += threads) {
        place_one(listed(ends, strengths, k), cellar, deep, words);
    }
}

// Synapses of each neuron, once all are placed: `quads` holds those of one step, by cell.
//: offsets: in, neurons * blocks.max(1) + 1
//: quads: in, neurons * blocks
//: degrees: out, neurons
extern "C" __global__ void __launch_bounds__(256)
spiking_row_lengths(int blocks, int neurons, const u32* __restrict__ offsets, const u32* __restrict__ quads,
                    u32* degrees) {
    const u32 threads = gridDim.x * blockDim.x;
    const u32 cells = max(blocks, 1);
    for (u32 n = blockIdx.x * blockDim.x + threadIdx.x; n < neurons; n += threads) {
        const u64 first = (u64)n * cells;
        u32 many = offsets[first + cells] - offsets[first];
        for (u32 b = 0; b < blocks; ++b) {
            many += quads[first + b];
        }
        degrees[n] = many;
    }
}
