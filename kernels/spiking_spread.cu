// Networks of any size, on one device or several: rings of input in the device's memory, all steps in one launch.
//
// Neuron i of this device is neuron i · parts + part of the network. One that fires is taken to its targets on this device
// by its own block in the same step; a barrier of all blocks ends the step. Where there are other devices, its number is
// written into their memory too, and each device's last block to arrive tells the others how many there were; all
// blocks then take what the others sent to their targets here. A device waits for the others once per step: spikes that
// are due in the next step need one barrier more.
//
// All blocks must be resident at once (a cooperative launch). A slot more than the longest delay: what is sent in a step
// never reaches the slot that is read in it.
//
// Synapses that learn take the arrivals of a step before its input is read, a barrier earlier, and the spikes of their
// targets when these have fired (LEARNS).
//
// Where a device has no room for all synapses, they lie in blocks of targets, some of them in the host's memory (STREAMED):
// the row of a neuron that fires is then read across the bus, block by block.
//
// Compile-time: those of spiking_neuron.cuh; EACH, neurons that a thread looks at together; SEVERAL, 1 where there are
// other devices; PHASES, 1 to measure the parts of a step; MODELS, 1 where neurons are integrated [default: 0], with
// -fmad=false and STATE; LEARNS, 1 where synapses learn [default: 0], with -fmad=false; STREAMED, 1 where synapses lie in blocks
// of targets [default: 0].
//: variants -DRECEPTORS=1 -DCHAIN=1 -DPAST=0 -DEACH=1 -DSEVERAL=0 -DPHASES=0 | -DRECEPTORS=2 -DCHAIN=4 -DPAST=1 -DEACH=4 -DSEVERAL=1 -DPHASES=1 | -DRECEPTORS=4 -DCHAIN=1 -DPAST=0 -DEACH=1 -DSEVERAL=0 -DPHASES=0 -DMODELS=1 -DSTATE=12 -fmad=false | -DRECEPTORS=2 -DCHAIN=1 -DPAST=0 -DEACH=1 -DSEVERAL=0 -DPHASES=0 -DLEARNS=1 -fmad=false | -DRECEPTORS=1 -DCHAIN=1 -DPAST=0 -DEACH=4 -DSEVERAL=0 -DPHASES=1 -DSTREAMED=1

#include "spiking_integrate.cuh"

#include "spiking_learn.cuh"

#ifndef MODELS
#define MODELS 0
#endif
#ifndef LEARNS
#define LEARNS 0
#endif
#ifndef STREAMED
#define STREAMED 0
#endif

constexpr int THREADS = 1024;
// Spikes of a block that its threads share; others are delivered by the thread that found them.
constexpr u32 LIST = 4096;
// The longest any block waits, in polls.
constexpr u32 PATIENCE = 1u << 28;
// Where the barrier's second word lies.
constexpr u32 RELEASE = 64;
// Bits of a mark: what it says besides a trace's number.
constexpr u32 EMITS = 0x80000000u;
constexpr u32 MOST_PARTS = 8;
// Where `share` has what: devices, which of them this is, the shortest delay, neurons that a device has at most; then of
// each device where its `post` lies.
constexpr int PARTS = 0, PART = 1, SHORTEST = 2, LARGEST = 3, POSTS = 4;
// In `post`: by device and parity a word, step + 1 << 32 | spikes sent; the same way, what this one has sent so far in
// a step; from SENT on by (device, parity) the spikes that came.
constexpr u32 OUT = 2 * MOST_PARTS, SENT = 32;

// Rows of synapses onto this device's neurons, and its rings.
struct Rows {
    const u32* offsets;
    const u64* synapses;
    int* ring;
    u64 per_slot;
    int slots;
};

// A synapse: delay << 48 | weight << 32 | target (receptor · neurons + neuron of this device).
__device__ __forceinline__ void deliver(const Rows& rows, u64 synapse, u64 step) {
    const u32 slot = (u32)(step + (synapse >> 48)) & (rows.slots - 1);
    atomicAdd(rows.ring + slot * rows.per_slot + (u32)synapse, (int)(short)(synapse >> 32));
}

// A neuron's row by thread `rank` of `team`, four synapses at a time.
__device__ __forceinline__ void take_row(const Rows& rows, u32 source, u32 rank, u32 team, u64 step) {
    const u32 end = __ldg(rows.offsets + source + 1);
    u32 k = __ldg(rows.offsets + source) + rank;
    for (; k + 3 * team < end; k += 4 * team) {
        u64 four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            four[j] = __ldg(rows.synapses + k + j * team);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            deliver(rows, four[j], step);
        }
    }
    for (; k < end; k += team) {
        deliver(rows, __ldg(rows.synapses + k), step);
    }
}

// The row of a neuron in block `block` of targets: its beginnings and its synapses lie where `streams` says.
__device__ __forceinline__ void take_block(const Rows& rows, const u64* streams, u32 block, u32 source, u32 rank, u32 team,
                                           u64 step) {
    const Rows own = {(const u32*)streams[2 * block], (const u64*)streams[2 * block + 1], rows.ring, rows.per_slot, rows.slots};
    take_row(own, source, rank, team, step);
}

// Arrives at the barrier; whether it is the last of all blocks to do so. One thread of a block.
__device__ __forceinline__ bool arrive_here(u32* barrier, u32& arrived) {
    // The last lets all go on by another word: who waits does not hold up who arrives.
    arrived += gridDim.x;
    if (SEVERAL) {
        __threadfence_system();
    } else {
        __threadfence();
    }
    const bool last = atomicAdd(barrier, 1u) + 1 == arrived;
    if (last) {
        __threadfence();
    }
    return last;
}

__device__ __forceinline__ void wait_here(const u32* barrier, u32 arrived) {
    for (u32 polls = 0; (int)(load_acquire(barrier + RELEASE) - arrived) < 0; ++polls) {
        if (polls > PATIENCE) {
            __trap();
        }
    }
}

// Steps of a network, or one device's share of it, whose rings of input lie in the device's memory.
// values: parameters of models. marks: number of a neuron's trace + 1; EMITS where it fires in the first step by call. ring: (slot, receptor,
// neuron). past: (step modulo the longest filter, neuron). words: synapses, [offsets[n]..offsets[n + 1]] those of neuron
// n of the network. team: threads, a power of two up to a block, that a row is shared by. barrier[0]: arrivals, `arrived`
// of them before this launch; barrier[RELEASE]: those that all know of. recorded: step of the launch <<
// tally[ID_WIDTH] | neuron of the network. streams: of each block of targets where its rows begin, and where they lie. From
// `rules` on: `Learning` of spiking_learn.cuh; `after` are its traces, `last` its `fired`, `noted` its `history`; learn_team: threads that
// share a row of it.
//: cells: in, populations
//: models: in, populations
//: values: in
//: starts: in, populations * BUCKETS
//: membranes: in-out, 2 * neurons
//: silent: in-out, neurons
//: ring: in-out, neurons * slots
//: past: in-out, neurons * longest
//: counts: in-out, neurons
//: tally: in-out, TALLY
//: barrier: in-out, BARRIER
//: share: in, POSTS
//: post: in-out
//: streams: in, 2 * target_blocks
//: rules: in
//: rows_of: in
//: delays: in, delay_count
//: synapses: in-out
//: more: in-out
//: onto_offsets: in
//: onto: in
//: after: in-out
//: last: in-out
//: noted: in-out
//: recorded: in-out
//: marks: in, neurons
//: traces: in-out
extern "C" __global__ void __launch_bounds__(1024, 1)
spiking_spread(const Cells* __restrict__ cells, const ModelCells* __restrict__ models,
               const float* __restrict__ values, int populations, const u32* __restrict__ thresholds, const u16* __restrict__ starts, u64 seed, int neurons, int slots, int longest, u64 begin, u32 steps,
               float* membranes, int* silent, int* ring, int* past, u32* counts, u64* tally,
               const u32* __restrict__ offsets, const u32* __restrict__ words, int team, u32* barrier, u32 arrived,
               const u64* __restrict__ share, u64* post, const u64* __restrict__ streams, u32 target_blocks,
               const LearnRule* __restrict__ rules, u32 rule_count, const u32* __restrict__ rows_of, const u32* __restrict__ delays,
               u32 delay_count, float* synapses, float* more, const u32* __restrict__ onto_offsets, const u32* __restrict__ onto,
               float* after, u32* last, u32* noted, u32 noted_slots, float unit, int learn_team, u32* recorded, const u32* __restrict__ marks,
               float* traces) {
    __shared__ u32 list[LIST];
    __shared__ u32 fired;
    __shared__ u32 came[MOST_PARTS];
    const Rows rows = {offsets, (const u64*)words, ring, (u64)neurons * RECEPTORS, slots};
    const u32 parts = SEVERAL ? share[PARTS] : 1, part = SEVERAL ? share[PART] : 0;
    const u32 threads = gridDim.x * THREADS;
    // Where synapses learn, all blocks have neurons, however few there are.
    const u32 thread = LEARNS ? (threadIdx.x / 32 * gridDim.x + blockIdx.x) * 32 + threadIdx.x % 32
                              : blockIdx.x * THREADS + threadIdx.x;
    const Learning learning = {rules, rule_count, rows_of, delays, delay_count, (float4*)synapses, (float2*)more, onto_offsets,
                               onto, (float2*)after, last, noted, noted_slots, (u32)neurons, unit};
    const u64 room = tally[ROOM];
    const u32 id_bits = tally[ID_WIDTH];
    // Where every thread has few neurons, they stay in its registers.
    const bool held = (u64)threads * EACH >= neurons;
    Membrane m[EACH];
    float current[EACH];
    u32 said[EACH], population[EACH], count[EACH] = {};
    u64 history[EACH];
    const auto fetch = [&](u32 first) {
#pragma unroll
        for (u32 e = 0; e < EACH; ++e) {
            const u32 i = first + e * threads;
            if (i < neurons) {
                load(m[e], current[e], membranes, silent, neurons, i);
                said[e] = marks[i];
                history[e] = ~0ull;
                population[e] = population_of(cells, populations, i * parts + part);
            }
        }
    };
    const auto put_back = [&](u32 first) {
#pragma unroll
        for (u32 e = 0; e < EACH; ++e) {
            const u32 i = first + e * threads;
            if (i < neurons) {
                store(m[e], membranes, silent, neurons, i);
            }
        }
    };
    if (held) {
        fetch(thread);
    }
    u64 hash = 0, spikes = 0;
    long long update = 0, exchange = 0, delivery = 0, mark = 0;
    const long long started = clock64();
    if (threadIdx.x == 0) {
        fired = 0;
    }
    __syncthreads();
    for (u32 lag = 0; lag < steps; ++lag) {
        const u64 step = begin + lag;
        const u32 parity = (u32)step & 1;
        if (PHASES) {
            mark = clock64();
        }
        int* const slot = ring + (step & (slots - 1)) * rows.per_slot;
        if (LEARNS) {
            if (thread == 0) {
                noted[(u32)step & (noted_slots - 1)] = 0;
            }
            // A row's threads are of many blocks: twice as many, where there are others, so that most have one synapse.
            take_arrivals(learning, slot, (u32)step, thread, threads, gridDim.x > 1 ? 2 * learn_team : learn_team);
            __syncthreads();
            if (gridDim.x > 1 && threadIdx.x == 0) {
                if (arrive_here(barrier, arrived)) {
                    store_release(barrier + RELEASE, arrived);
                }
                wait_here(barrier, arrived);
            }
            __syncthreads();
        }
        for (u32 first = thread; first < neurons; first += EACH * threads) {
            if (!held) {
                fetch(first);
            }
            int input[EACH][RECEPTORS];
#pragma unroll
            for (u32 e = 0; e < EACH; ++e) {
                const u32 i = first + e * threads;
#pragma unroll
                for (u32 r = 0; r < RECEPTORS; ++r) {
                    input[e][r] = i < neurons ? __ldcg(slot + (u64)r * neurons + i) : 0;
                }
            }
#pragma unroll
            for (u32 e = 0; e < EACH; ++e) {
                const u32 i = first + e * threads;
                if (i >= neurons) {
                    continue;
                }
                const u32 neuron = i * parts + part;
                const Cells& own = cells[population[e]];
                bool fires = false;
                if (own.receptors > 0) {
#pragma unroll
                    for (u32 r = 0; r < RECEPTORS; ++r) {
                        if (input[e][r] != 0) {
                            __stcg(slot + (u64)r * neurons + i, 0);
                        }
                    }
                    if (own.poisson > 0) {
                        const u32 word = word_of(poisson_words(step, neuron, seed), (u32)step);
                        const u16* at = starts + population[e] * BUCKETS;
                        const int drawn = poisson_input(own, thresholds, at, word);
#pragma unroll
                        for (u32 r = 0; r < RECEPTORS; ++r) {
                            input[e][r] += r == own.poisson_receptor ? drawn : 0;
                        }
                    }
                    int ended = 0;
                    if (PAST && own.filter > 0) {
                        int* const then = past + (step % own.filter) * neurons + i;
                        ended = exchange_past(then, own.filter, input[e][0], history[e]);
                    }
                    if (MODELS && models[population[e]].model > 0) {
                        const ModelCells& model = models[population[e]];
                        fires = integrate(m[e], model, values, neuron - own.first, current[e], input[e]);
                        if (!(fabsf(m[e].v) < LARGEST_POTENTIAL)) {
                            atomicCAS(tally + LOST, 0ull, (step << 32 | neuron) + 1);
                        }
                    } else {
                        fires = advance(m[e], own, current[e], input[e], ended);
                    }
                } else if (MODELS && models[population[e]].model == RANDOM) {
                    const u32 chance = __float_as_uint(values[models[population[e]].values[0] + neuron - own.first]);
                    fires = word_of(source_words(step, neuron, seed), (u32)step) < chance;
                } else {
                    fires = lag == 0 && said[e] & EMITS;
                }
                if ((said[e] & ~EMITS) > 0) {
                    traces[(u64)((said[e] & ~EMITS) - 1) * steps + lag] = m[e].v;
                }
                if (fires) {
                    hash += spike_hash(step, neuron);
                    ++spikes;
                    if (held) {
                        ++count[e];
                    } else {
                        ++counts[i];
                    }
                    if (room > 0) {
                        const u64 at = atomicAdd(tally + RECORDED, 1ull);
                        if (at < room) {
                            recorded[at] = lag << id_bits | neuron;
                        }
                    }
                    if (SEVERAL) {
                        const u64 at = atomicAdd(post + OUT + parity, 1ull);
                        for (u32 other = 0; other < parts; ++other) {
                            if (other != part) {
                                u32* const there = (u32*)(share[POSTS + other] + SENT * sizeof(u64));
                                there[(u64)(2 * part + parity) * share[LARGEST] + at] = neuron;
                            }
                        }
                    }
                    if (LEARNS) {
                        note_spike(learning, neuron, (u32)step);
                    }
                    const u32 at = atomicAdd(&fired, 1u);
                    if (at < LIST) {
                        list[at] = neuron;
                    } else {
                        for (u32 block = 0; STREAMED && block < target_blocks; ++block) {
                            take_block(rows, streams, block, neuron, 0, 1, step);
                        }
                        if (!STREAMED) {
                            take_row(rows, neuron, 0, 1, step);
                        }
                        if (LEARNS) {
                            learn_spike(learning, neuron, 0, 1, (u32)step);
                            leave_traces(learning, neuron, (u32)step);
                        }
                    }
                }
            }
            if (!held) {
                put_back(first);
            }
        }
        __syncthreads();
        if (PHASES) {
            update += clock64() - mark;
            mark = clock64();
        }
        const u32 many = min(fired, LIST);
        if (STREAMED) {
            for (u32 which = threadIdx.x / team; which < many * target_blocks; which += THREADS / team) {
                take_block(rows, streams, which % target_blocks, list[which / target_blocks], threadIdx.x % team, team, step);
            }
        } else {
            for (u32 which = threadIdx.x / team; which < many; which += THREADS / team) {
                take_row(rows, list[which], threadIdx.x % team, team, step);
            }
        }
        if (LEARNS) {
            for (u32 which = threadIdx.x / learn_team; which < many; which += THREADS / learn_team) {
                learn_spike(learning, list[which], threadIdx.x % learn_team, learn_team, (u32)step);
            }
        }
        __syncthreads();
        if (LEARNS) {
            for (u32 which = threadIdx.x; which < many; which += THREADS) {
                leave_traces(learning, list[which], (u32)step);
            }
            __syncthreads();
        }
        if (PHASES) {
            delivery += clock64() - mark;
            mark = clock64();
        }
        if (threadIdx.x == 0) {
            fired = 0;
            if (SEVERAL || (gridDim.x > 1 && lag + 1 < steps)) {
                if (arrive_here(barrier, arrived)) {
                    if (SEVERAL) {
                        const u64 sent = atomicExch(post + OUT + parity, 0ull);
                        __threadfence_system();
                        for (u32 other = 0; other < parts; ++other) {
                            if (other != part) {
                                u64* const there = (u64*)share[POSTS + other];
                                store_release_system(there + 2 * part + parity, (step + 1) << 32 | sent);
                            }
                        }
                    }
                    store_release(barrier + RELEASE, arrived);
                }
                wait_here(barrier, arrived);
            }
            for (u32 other = 0; SEVERAL && other < parts; ++other) {
                u64 word = (step + 1) << 32;
                if (other != part) {
                    u32 polls = 0;
                    do {
                        word = load_acquire_system(post + 2 * other + parity);
                        if (++polls > PATIENCE) {
                            __trap();
                        }
                    } while ((u32)(word >> 32) != (u32)(step + 1));
                }
                came[other] = (u32)word;
            }
        }
        __syncthreads();
        if (SEVERAL) {
            const u32* const inbox = (const u32*)(post + SENT);
            for (u32 other = 0; other < parts; ++other) {
                const u32* const from = inbox + (u64)(2 * other + parity) * share[LARGEST];
                for (u32 which = thread / team; which < came[other]; which += threads / team) {
                    take_row(rows, __ldcg(from + which), thread % team, team, step);
                }
            }
            __syncthreads();
            if (share[SHORTEST] == 1 && threadIdx.x == 0) {
                if (arrive_here(barrier, arrived)) {
                    store_release(barrier + RELEASE, arrived);
                }
                wait_here(barrier, arrived);
            }
            __syncthreads();
        }
        if (PHASES) {
            exchange += clock64() - mark;
        }
    }
    if (held) {
        put_back(thread);
#pragma unroll
        for (u32 e = 0; e < EACH; ++e) {
            if (thread + e * threads < neurons && count[e] > 0) {
                counts[thread + e * threads] += count[e];
            }
        }
    }
    for (int d = 16; d > 0; d /= 2) {
        hash += __shfl_down_sync(~0u, hash, d);
        spikes += __shfl_down_sync(~0u, spikes, d);
    }
    if (threadIdx.x % 32 == 0 && spikes > 0) {
        atomicAdd(tally + HASH, hash);
        atomicAdd(tally + SPIKES, spikes);
    }
    if (PHASES && blockIdx.x == 0 && threadIdx.x == 0) {
        tally[UPDATE] += update;
        tally[DELIVER] += delivery;
        tally[EXCHANGE] += exchange;
        tally[CYCLES] += clock64() - started;
    }
}
