// A neuron's step and the random numbers of spiking networks, bit for bit as on the CPU.
//
// Multiply-adds are spelled out and nothing else is contracted; random words are a function of what they are for.
//
// Compile-time: RECEPTORS, the most of any population (1 or 2); CHAIN, the longest chain of a synaptic current (1 to
// 4); PAST, 1 where a population's filters end; STATE, numbers of a neuron besides its potential and silence [default: those
// of its chains].

#pragma once

#ifndef STATE
#define STATE (RECEPTORS * CHAIN)
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Parameters of a population of neurons.
struct Cells {
    u32 first;             // first neuron
    u32 count;             // neurons
    float leak;            // e^(−Δ/τ_m)
    float constant;        // the constant current's addition to V over a step
    float threshold;       // V_th − E_L
    float reset;           // V_reset − E_L
    int refractory;        // steps of silence after a spike
    u32 receptors;         // receptors; 0: a source, that fires by call only
    u32 chain;             // length of the chains; 0: the potential jumps by what arrives
    u32 early;             // 1: arrivals act in the step they arrive in
    u32 filter;            // steps after which filters end, or 0
    u32 poisson;           // thresholds of Poisson counts; 0 without such input
    u32 thresholds;        // the first of them
    int poisson_weight;    // weight of a Poisson spike in units
    u32 poisson_receptor;  // the receptor it goes to
    float decay[2];        // e^(−Δ/τ), by receptor
    float gain[2];         // from units to the first link of the chain, by receptor
    float onto[8];         // each link's addition to V over a step: (receptor, link)
    float tail[4];         // an arrival's addition to each link when its filter ends
};

constexpr u32 LINKS = 4;

// Where `tally` has what: the hash of all spikes, spikes, spikes recorded since the launch, cycles of the parts of a
// step and of all of it; given: spikes that there is room for, and the
// bits of a neuron's number in the record; a neuron whose potential is no number any more, step << 32 | neuron, and 1.
constexpr int HASH = 0, SPIKES = 1, RECORDED = 2, UPDATE = 3, EXCHANGE = 4, DELIVER = 5, CYCLES = 6,
              ROOM = 7, ID_WIDTH = 8, LOST = 9;

// Buckets of words, for which the first threshold that may lie above them is known.
constexpr u32 BUCKETS = 256;

// Purposes of random words: the fourth word of the counter.
constexpr u32 FOR_SYNAPSE = 0x01000000u, FOR_WIRING = 0x02000000u, FOR_POISSON = 0x03000000u,
              FOR_SOURCE = 0x07000000u;

// Philox 4×32-10 (Salmon et al. 2011).
__device__ __forceinline__ uint4 philox(uint4 counter, u64 seed) {
    u32 a = counter.x, b = counter.y, c = counter.z, d = counter.w;
    u32 x = (u32)seed, y = (u32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u64 p = (u64)0xD2511F53u * a, q = (u64)0xCD9E8D57u * c;
        a = (u32)(q >> 32) ^ b ^ x;
        c = (u32)(p >> 32) ^ d ^ y;
        b = (u32)q;
        d = (u32)p;
        x += 0x9E3779B9u;
        y += 0xBB67AE85u;
    }
    return make_uint4(a, b, c, d);
}

// The last steps of SplitMix64 (Steele et al. 2014).
__device__ __forceinline__ u64 mix(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// Addition of a spike to the hash.
__device__ __forceinline__ u64 spike_hash(u64 step, u32 neuron) { return mix(step << 32 | neuron); }

// Too small for a full mantissa is zero, as on the CPU, where such numbers would take a hundred times as long.
__device__ __forceinline__ float kept(float x) { return fabsf(x) < 1e-30f ? 0.0f : x; }

// The words of four steps of a neuron's Poisson input.
__device__ __forceinline__ uint4 poisson_words(u64 step, u32 neuron, u64 seed) {
    const u64 quad = step >> 2;
    return philox(make_uint4((u32)quad, (u32)(quad >> 32), neuron, FOR_POISSON), seed);
}

// The words of four steps of a source that fires at random.
__device__ __forceinline__ uint4 source_words(u64 step, u32 neuron, u64 seed) {
    const u64 quad = step >> 2;
    return philox(make_uint4((u32)quad, (u32)(quad >> 32), neuron, FOR_SOURCE), seed);
}

__device__ __forceinline__ u32 word_of(const uint4& words, u32 step) {
    return step & 2 ? (step & 1 ? words.w : words.z) : (step & 1 ? words.y : words.x);
}

// Poisson input of a step: how many thresholds are at or below the word, times the weight. `starts`: how many are at
// or below the least word of each bucket.
__device__ __forceinline__ int poisson_input(const Cells& cells, const u32* __restrict__ thresholds,
                                             const u16* starts, u32 word) {
    u32 count = starts[word >> 24];
    while (count < cells.poisson && __ldg(thresholds + cells.thresholds + count) <= word) {
        ++count;
    }
    return (int)count * cells.poisson_weight;
}

// State of a neuron from step to step.
struct Membrane {
    float v;     // V − E_L
    int silent;  // steps of silence left
    float chain[STATE];
};

// The population of a neuron.
__device__ __forceinline__ u32 population_of(const Cells* cells, int populations, u32 neuron) {
    u32 own = 0;
    for (int p = 1; p < populations; ++p) {
        own += neuron >= cells[p].first;
    }
    return own;
}

// Chains go a step on and take in what arrives; `past`: what arrived a filter's length ago.
__device__ __forceinline__ void arrive(Membrane& m, const Cells& cells, const int (&input)[RECEPTORS],
                                       int past) {
#pragma unroll
    for (u32 r = 0; r < RECEPTORS; ++r) {
        if (r < cells.receptors) {
            float* chain = m.chain + r * CHAIN;
            const float p = cells.decay[r];
            const float arrived = __fmul_rn(__int2float_rn(input[r]), cells.gain[r]);
            const float m0 = chain[0];
            if constexpr (CHAIN > 1) {
                const float m1 = chain[1];
                if constexpr (CHAIN > 2) {
                    const float m2 = chain[2];
                    if constexpr (CHAIN > 3) {
                        if (cells.chain > 3) {
                            const float lower = __fmaf_rn(__fadd_rn(m2, m1), 3.0f, m0);
                            chain[3] = kept(__fmul_rn(p, __fadd_rn(chain[3], lower)));
                        }
                    }
                    if (cells.chain > 2) {
                        chain[2] = kept(__fmul_rn(p, __fadd_rn(m2, __fmaf_rn(m1, 2.0f, m0))));
                    }
                }
                if (cells.chain > 1) {
                    chain[1] = kept(__fmul_rn(p, __fadd_rn(m1, m0)));
                }
            }
            chain[0] = kept(__fmaf_rn(m0, p, arrived));
            if (PAST && cells.filter > 0) {
#pragma unroll
                for (u32 k = 0; k < CHAIN; ++k) {
                    if (k < cells.chain) {
                        chain[k] = __fmaf_rn(__int2float_rn(past), cells.tail[k], chain[k]);
                    }
                }
            }
        }
    }
}

// The input of a filter's length ago, in whose place `input` is kept. `history` has one bit per step of the last 64, set if
// something arrived, the last step lowest; all ones if that is not known. Most neurons rest, and memory is far away.
__device__ __forceinline__ int exchange_past(int* then, u32 filter, int input, u64& history) {
    const bool something = filter > 64 || history >> (filter - 1) & 1;
    const int ended = something ? *then : 0;
    if (ended != input) {
        *then = input;
    }
    history = history << 1 | (input != 0);
    return ended;
}

// One step; whether it fires. `current`: by stimulus and call, as what it adds to V.
__device__ __forceinline__ bool advance(Membrane& m, const Cells& cells, float current,
                                        const int (&input)[RECEPTORS], int past) {
    float next = __fadd_rn(__fmaf_rn(m.v, cells.leak, cells.constant), current);
    if (cells.early) {
        arrive(m, cells, input, past);
    }
#pragma unroll
    for (u32 r = 0; r < RECEPTORS; ++r) {
#pragma unroll
        for (u32 k = 0; k < CHAIN; ++k) {
            // A filter's lower moments do not act on the potential.
            if (r < cells.receptors && k < cells.chain && cells.onto[r * LINKS + k] != 0.0f) {
                next = __fmaf_rn(m.chain[r * CHAIN + k], cells.onto[r * LINKS + k], next);
            }
        }
    }
    if (cells.chain == 0) {
        next = __fadd_rn(next, __fmul_rn(__int2float_rn(input[0]), cells.gain[0]));
    }
    const bool free = m.silent == 0;
    const float v = free ? kept(next) : m.v;
    const bool fires = free && v >= cells.threshold;
    m.v = fires ? cells.reset : v;
    m.silent = fires ? cells.refractory : (free ? 0 : m.silent - 1);
    if (!cells.early && cells.chain > 0) {
        arrive(m, cells, input, past);
    }
    return fires;
}

// Where the numbers of neuron i lie in `membranes`: V, current, chains, each of all neurons.
__device__ __forceinline__ void load(Membrane& m, float& current, const float* membranes, const int* silent,
                                     size_t neurons, size_t i) {
    m.v = membranes[i];
    m.silent = silent[i];
    current = membranes[neurons + i];
#pragma unroll
    for (u32 k = 0; k < STATE; ++k) {
        m.chain[k] = membranes[(2 + k) * neurons + i];
    }
}

__device__ __forceinline__ void store(const Membrane& m, float* membranes, int* silent, size_t neurons,
                                      size_t i) {
    membranes[i] = m.v;
    silent[i] = m.silent;
#pragma unroll
    for (u32 k = 0; k < STATE; ++k) {
        membranes[(2 + k) * neurons + i] = m.chain[k];
    }
}

__device__ __forceinline__ u32 load_acquire(const u32* at) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

__device__ __forceinline__ u64 load_relaxed(const u64* at) {
    u64 value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

__device__ __forceinline__ void store_relaxed(u64* at, u64 value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

// Across devices.
__device__ __forceinline__ u64 load_acquire_system(const u64* at) {
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

__device__ __forceinline__ void store_release_system(u64* at, u64 value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

__device__ __forceinline__ void store_release(u32* at, u32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
