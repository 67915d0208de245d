// Networks that fit on the chip: a neuron is a thread, rings of input lie in shared memory, all steps in one launch.
//
// Neuron i is neuron i / B of block i mod B. Each step every block sends all others one word: a tag, how many of its
// neurons fired, up to five of them. Message and barrier are one store. A synapse of one step is due before the next
// update: it lies in quads of 16 bytes, by (source, block), which the thread that gets the message asks for at once.
// All others are due two steps later at the earliest: they are taken from their rows in the next step, while its
// messages travel.
//
// All blocks must be resident at once (a cooperative launch). Compile-time: those of spiking_neuron.cuh; PHASES, 1 to
// measure the parts of a step.
//: variants -DRECEPTORS=1 -DCHAIN=1 -DPAST=0 -DPHASES=0 | -DRECEPTORS=2 -DCHAIN=4 -DPAST=1 -DPHASES=1

#include "spiking_neuron.cuh"

constexpr int THREADS = 896;
constexpr u32 WARPS = THREADS / 32;
constexpr u32 ALL_LANES = 0xffffffffu;
constexpr u32 MOST_BLOCKS = 160;
constexpr int MOST_POPULATIONS = 16;
// A message: tag << 53 | count << 50 | ids of ten bits; a count of SPILLED says that the ids are in `spilled`, and
// the low half how many.
constexpr u32 IDS = 5, ID_BITS = 10, SPILLED = 7, TAGS = 2048;
constexpr u32 ID = (1u << ID_BITS) - 1;
// Words that share 16 bytes, and the words from one such pair to the next: a line each.
constexpr u32 PAIR = 2, LINE = 16;
constexpr u32 MAIL = (MOST_BLOCKS / PAIR + 1) * LINE;
// Cycles in which no message can have arrived.
constexpr long long TRAVEL = 600;
// The longest any block waits, in polls.
constexpr u32 PATIENCE = 1u << 28;
// Bits of a mark: what it says besides a trace's number.
constexpr u32 EMITS = 0x80000000u;
// Spikes of a message whose one-step synapses the thread that gets it asks for, with two quads each on the way; those
// of a message of more are left to all threads of the block.
constexpr u32 AHEAD = 3;
// In the list of spikes: such a one.
constexpr u32 LEFT = 0x80000000u;

// A late synapse: delay << 26 | (receptor, neuron of the block) << 16 | weight; delays modulo 64. Never 0.

// Source of a block's late synapses.
struct Rows {
    int* ring;
    u32 per_slot;
    u32 mask;
    const u32* offsets;
    const u32* entries;
    u32 blocks;
};

__device__ __forceinline__ void put(const Rows& rows, u32 entry, u32 step) {
    const u32 slot = (step + (entry >> 26)) & rows.mask;
    atomicAdd(rows.ring + slot * rows.per_slot + (entry >> 16 & ID), (int)(short)entry);
}

__device__ __forceinline__ u32 read_entry(const u32* at) {
    u32 value;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(at));
    return value;
}

// A warp takes the late synapses of `source`, which fired at `step`, to this block's neurons.
__device__ __forceinline__ void take_row(const Rows& rows, u32 begin, u32 end, u32 step) {
    const u32 lane = threadIdx.x % 32;
    // Rows are twenty to sixty long: two loads at once, more where there are more.
    const u32 first = begin + lane < end ? read_entry(rows.entries + begin + lane) : 0;
    const u32 second = begin + 32 + lane < end ? read_entry(rows.entries + begin + 32 + lane) : 0;
    if (first) {
        put(rows, first, step);
    }
    if (second) {
        put(rows, second, step);
    }
    for (u32 k = begin + 64 + lane; k < end; k += 32) {
        put(rows, read_entry(rows.entries + k), step);
    }
}

// A warp takes the rows that its lanes know of.
__device__ __forceinline__ void take_some(const Rows& rows, u32 begin, u32 end, u32 step) {
    u32 full = __ballot_sync(ALL_LANES, begin < end);
    while (full) {
        const int who = __ffs(full) - 1;
        full &= full - 1;
        take_row(rows, __shfl_sync(ALL_LANES, begin, who), __shfl_sync(ALL_LANES, end, who), step);
    }
}

// Warps `first`, `first` + `stride`, … take a spike each.
__device__ __forceinline__ void take_rows(const Rows& rows, const u32* list, u32 many, u32 first, u32 stride,
                                          u32 step) {
    const u32 lane = threadIdx.x % 32;
    for (u32 from = first; from < many; from += 32 * stride) {
        // Where the rows of this warp's next spikes lie, one lane per spike.
        const u32 own = from + lane * stride;
        u32 begin = 0, end = 0;
        if (own < many) {
            const u32* at = rows.offsets + (size_t)(list[own] & ~LEFT) * rows.blocks + blockIdx.x;
            begin = __ldg(at);
            end = __ldg(at + 1);
        }
        take_some(rows, begin, end, step);
    }
}

// Asks for bytes at `from` to be brought near: a warp.
__device__ __forceinline__ void bring(const void* from, size_t bytes) {
    for (size_t at = threadIdx.x % 32 * 128; at < bytes + 127; at += 32 * 128) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char*)from + min(at, bytes - 1)));
    }
}

// Adds a quad to the slot that is `due`; whether it is full, so that another may lie behind it.
__device__ __forceinline__ bool put_quad(int* due, uint4 quad) {
    const u32 each[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (each[k]) {
            atomicAdd(due + (each[k] >> 16 & ID), (int)(short)each[k]);
        }
    }
    return quad.w != 0;
}

// The one-step synapses of spikes that were left to all threads, a thread a quad.
__device__ __forceinline__ void take_quads(int* due, const uint4* quads, u32 deep, u32 blocks, const u32* list,
                                           u32 many) {
    constexpr u32 AT_ONCE = 4;
    for (u32 first = threadIdx.x; first < many * deep; first += AT_ONCE * THREADS) {
        uint4 each[AT_ONCE];
#pragma unroll
        for (u32 j = 0; j < AT_ONCE; ++j) {
            const u32 k = first + j * THREADS;
            each[j] = make_uint4(0, 0, 0, 0);
            if (k < many * deep && list[k / deep] & LEFT) {
                const size_t source = list[k / deep] & ~LEFT;
                each[j] = __ldg(quads + (source * blocks + blockIdx.x) * deep + k % deep);
            }
        }
#pragma unroll
        for (u32 j = 0; j < AT_ONCE; ++j) {
            put_quad(due, each[j]);
        }
    }
}

// The k-th id of a message.
__device__ __forceinline__ u32 id_of(u64 message, const u16* spilled, u32 k, bool spills) {
    return spills ? __ldcg(spilled + k) : (u32)(message >> (k * ID_BITS)) & ID;
}

// More spikes than the list holds: all warps read the messages again and take the late synapses at once, and those
// of one step that are left. One lane per spike.
__device__ __noinline__ void take_burst(const Rows& rows, const u64* mail, const u16* spilled, u32 per_block,
                                        u32 step, int* due, const uint4* quads, u32 deep) {
    for (u32 from = threadIdx.x / 32; from < rows.blocks; from += WARPS) {
        const u64 message = load_relaxed(mail + from / PAIR * LINE + from % PAIR);
        u32 many = (u32)(message >> 50) & 7;
        const bool spills = many == SPILLED;
        if (spills) {
            many = (u32)message & 0xffff;
            __threadfence();
        }
        for (u32 first = 0; first < many; first += 32) {
            const u32 k = first + threadIdx.x % 32;
            u32 begin = 0, end = 0;
            if (k < many) {
                const u32 source = id_of(message, spilled + from * per_block, k, spills) * rows.blocks + from;
                const size_t cell = (size_t)source * rows.blocks + blockIdx.x;
                begin = __ldg(rows.offsets + cell);
                end = __ldg(rows.offsets + cell + 1);
                for (u32 j = 0; many > AHEAD && j < deep && put_quad(due, __ldg(quads + cell * deep + j)); ++j) {
                }
            }
            take_some(rows, begin, end, step);
        }
    }
}

// Steps of a network that fits on the chip.
// words: `deep` quads a (source, block), then rows: row[offsets[k]..offsets[k + 1]]: late synapses of (source, block) k. ring:
// (block, slot, receptor, neuron of the block). past: (step modulo the longest filter, neuron). marks: number of a
// neuron's trace + 1; EMITS where it fires in the first step by call. mail: (step modulo 2, MAIL words). spilled:
// (step modulo 2, block, neuron of the block). recorded: step of the launch << tally[ID_WIDTH] | neuron.
//: cells: in, populations
//: starts: in, populations * BUCKETS
//: membranes: in-out, 2 * neurons
//: silent: in-out, neurons
//: ring: in-out, neurons * slots
//: past: in-out, neurons * longest
//: counts: in-out, neurons
//: tally: in-out, TALLY
//: offsets: in, neurons * grid.x + 1
//: words: in, neurons * grid.x * 4 * deep
//: mail: in-out, MAIL
//: recorded: in-out
//: marks: in, neurons
//: traces: in-out
extern "C" __global__ void __launch_bounds__(896, 1)
spiking_resident(const Cells* __restrict__ cells, int populations, const u32* __restrict__ thresholds,
                 const u16* __restrict__ starts, u64 seed, int neurons, int slots, int longest, u64 begin,
                 u32 steps, float* membranes, int* silent, int* ring, int* past, u32* counts, u64* tally,
                 const u32* __restrict__ offsets, const u32* __restrict__ words, int deep, u64* mail,
                 u32* recorded, const u32* __restrict__ marks, float* traces) {
    extern __shared__ int slots_of_input[];
    __shared__ u32 fired[2], heard[2];
    // Where in the list the ids of a message go that it had no room for, and how many they are.
    __shared__ u32 spill_at[MOST_BLOCKS], spill_many[MOST_BLOCKS];
    __shared__ u16 ids[2][THREADS];
    __shared__ uint4 on_the_way[2][AHEAD][MOST_BLOCKS];
    __shared__ u16 first_threshold[MOST_POPULATIONS * BUCKETS];
    __shared__ u32 firsts[MOST_POPULATIONS];

    const u32 blocks = gridDim.x, block = blockIdx.x;
    const u32 per_block = (neurons + blocks - 1) / blocks;
    const u32 per_slot = per_block * RECEPTORS;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 local = threadIdx.x, neuron = local * blocks + block;
    const bool own = local < per_block && neuron < (u32)neurons;
    u16* const spilled = (u16*)(mail + 2 * MAIL);
    // Behind the rings: spikes of a step, whose late synapses wait for the next one; of more than there is room for, all
    // are taken at once.
    u32 dynamic;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dynamic));
    const u32 most = (dynamic / 4 - slots * per_slot) / 2;
    u32* const lists = (u32*)slots_of_input + slots * per_slot;
    const u64 room = tally[ROOM];
    const u32 id_bits = tally[ID_WIDTH];
    const uint4* const quads = (const uint4*)words;
    const u32* const entries = words + (size_t)neurons * blocks * deep * 4;

    for (u32 p = threadIdx.x; p < populations * BUCKETS; p += THREADS) {
        first_threshold[p] = starts[p];
    }
    if (threadIdx.x < populations) {
        firsts[threadIdx.x] = cells[threadIdx.x].first;
    }
    if (threadIdx.x < MOST_BLOCKS) {
        spill_many[threadIdx.x] = 0;
    }
    if (threadIdx.x < 2) {
        fired[threadIdx.x] = 0;
        heard[threadIdx.x] = 0;
    }
    int* const saved = ring + (size_t)block * slots * per_slot;
    for (u32 k = threadIdx.x; k < slots * per_slot; k += THREADS) {
        slots_of_input[k] = saved[k];
    }
    __syncthreads();

    u32 population = 0;
    for (int p = 1; p < populations; ++p) {
        population += neuron >= firsts[p];
    }
    const Cells mine = cells[population];
    const u16* const bucket = first_threshold + population * BUCKETS;
    Membrane m = {};
    float current = 0.0f;
    u32 said = 0, count = 0;
    if (own) {
        load(m, current, membranes, silent, neurons, neuron);
        said = marks[neuron];
    }
    const u32 trace = said & ~EMITS;
    const bool noisy = own && mine.poisson > 0;
    u64 hash = 0, history = ~0ull;
    const Rows rows = {slots_of_input, per_slot, (u32)slots - 1, offsets, entries, blocks};

    // Words of these four steps and of the next four, which the warps take turns to draw.
    uint4 now = {}, next = {};
    int drawn = 0;
    if (noisy) {
        now = poisson_words(begin, neuron, seed);
        next = poisson_words(begin + 4, neuron, seed);
        drawn = poisson_input(mine, thresholds, bucket, word_of(now, (u32)begin));
    }

    // The last warp sends; those before it listen, one thread per block; the others take rows.
    const u32 listeners = (blocks + 31) / 32;
    const bool sends = warp == WARPS - 1;
    const bool listens = warp >= WARPS - 1 - listeners && !sends;
    const u32 takers = WARPS - 1 - listeners;
    const u32 from = listens ? (WARPS - 2 - warp) * 32 + lane : block;
    u64* const box = mail + from / PAIR * LINE + from % PAIR;
    long long cycles[3] = {0, 0, 0}, mark = 0;
    const long long started = clock64();

    u32 x = (u32)begin & 1;
    for (u32 lag = 0; lag < steps; ++lag, x ^= 1) {
        const u64 step = begin + lag;
        const u32 t = (u32)step;
        if (PHASES) {
            mark = clock64();
        }
        bool fires = false;
        if (threadIdx.x == 0) {
            heard[x] = 0;
        }
        if (own && mine.receptors > 0) {
            int* const slot = slots_of_input + (t & rows.mask) * per_slot + local;
            int input[RECEPTORS];
#pragma unroll
            for (u32 r = 0; r < RECEPTORS; ++r) {
                input[r] = slot[r * per_block] + (r == mine.poisson_receptor ? drawn : 0);
                slot[r * per_block] = 0;
            }
            int ended = 0;
            if (PAST && mine.filter > 0) {
                int* const then = past + (step % mine.filter) * neurons + neuron;
                ended = exchange_past(then, mine.filter, input[0], history);
            }
            fires = advance(m, mine, current, input, ended);
        } else if (own) {
            fires = lag == 0 && said & EMITS;
        }
        if (fires) {
            ids[x][atomicAdd(&fired[x], 1u)] = (u16)local;
        }
        const bool any = __syncthreads_or(fires);
        if (PHASES) {
            cycles[0] += clock64() - mark;
            mark = clock64();
        }

        const u64 tag = (u64)(((u32)step + 1) & (TAGS - 1)) << 53;
        if (sends) {
            const u32 many = any ? fired[x] : 0;
            u64 message = tag;
            if (many > IDS) {
                for (u32 k = lane; k < many; k += 32) {
                    __stcg(spilled + (x * blocks + block) * per_block + k, ids[x][k]);
                }
                __threadfence();
                __syncwarp();
                if (lane == 0) {
                    __threadfence();
                }
                message |= (u64)SPILLED << 50 | many;
            } else if (many > 0) {
                const u64 id = lane < many ? (u64)ids[x][lane] << (ID_BITS * lane) : 0;
                const u32 low = __reduce_or_sync(ALL_LANES, (u32)id);
                const u32 high = __reduce_or_sync(ALL_LANES, (u32)(id >> 32));
                message |= (u64)many << 50 | (u64)high << 32 | low;
            }
            if (lane == 0) {
                store_relaxed(box + x * MAIL, message);
                fired[x ^ 1] = 0;
            }
            // While the message travels: what all blocks will ask for, and the record.
            for (u32 k = 0; k < min(many, 16u); ++k) {
                const size_t source = (size_t)ids[x][k] * blocks + block;
                if (deep > 0) {
                    bring(quads + source * blocks * deep, (size_t)blocks * deep * 16);
                }
                const u32* at = offsets + source * blocks;
                const u32 row = __ldg(at), end = __ldg(at + blocks);
                if (end > row) {
                    bring(at, (size_t)blocks * 4);
                    bring(entries + row, (size_t)(end - row) * 4);
                }
            }
            if (room > 0 && many > 0) {
                u64 at = 0;
                if (lane == 0) {
                    at = atomicAdd(tally + RECORDED, (u64)many);
                }
                at = __shfl_sync(ALL_LANES, at, 0);
                for (u32 k = lane; k < many; k += 32) {
                    if (at + k < room) {
                        recorded[at + k] = lag << id_bits | (ids[x][k] * blocks + block);
                    }
                }
            }
        }
        if (fires) {
            ++count;
            hash += spike_hash(step, neuron);
        }
        if (trace > 0) {
            traces[(u64)(trace - 1) * steps + lag] = m.v;
        }
        if (noisy) {
            if (((t + 1) & 3) == 0) {
                now = next;
            }
            drawn = poisson_input(mine, thresholds, bucket, word_of(now, t + 1));
            if (((t + 1) & 3) == (warp & 3)) {
                next = poisson_words((((step + 1) >> 2) + 1) << 2, neuron, seed);
            }
        }
        // Late synapses of the step before.
        if (warp < takers && lag > 0 && heard[x ^ 1] <= most) {
            take_rows(rows, lists + (x ^ 1) * most, heard[x ^ 1], warp, takers, t - 1);
        }
        if (PHASES) {
            cycles[2] += clock64() - mark;
            mark = clock64();
        }

        bool left = false;
        int* const due = slots_of_input + ((t + 1) & rows.mask) * per_slot;
        if (listens) {
            const long long posted = clock64();
            while (blocks > 1 && clock64() - posted < TRAVEL) {
            }
            bool waits = from < blocks;
            u32 asked = 0, polls = 0;
            u64 message = 0;
            while (__any_sync(ALL_LANES, waits)) {
                const u64 there = waits ? load_relaxed(box + x * MAIL) : 0;
                if (waits && there >> 53 == tag >> 53) {
                    waits = false;
                    u32 many = (u32)(there >> 50) & 7;
                    if (many > 0) {
                        const bool spills = many == SPILLED;
                        many = spills ? (u32)there & 0xffff : many;
                        const u32 at = atomicAdd(&heard[x], many);
                        left = many > AHEAD || at + many > most;
                        if (spills) {
                            __threadfence();
                            spill_at[from] = at;
                            spill_many[from] = many;
                            many = 0;
                        }
                        for (u32 k = 0; k < many; ++k) {
                            const u32 source = id_of(there, nullptr, k, false) * blocks + from;
                            if (at + k < most) {
                                lists[x * most + at + k] = many > AHEAD ? source | LEFT : source;
                            }
                            if (deep == 0 || many > AHEAD) {
                                continue;
                            }
                            // Copies go on by themselves while the thread polls.
                            const uint4* quad = quads + ((size_t)source * blocks + block) * deep;
                            message = there;
                            asked = k + 1;
                            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                                             (u32)__cvta_generic_to_shared(&on_the_way[0][k][from])),
                                         "l"(quad)
                                         : "memory");
                            if (deep > 1) {
                                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                                                 (u32)__cvta_generic_to_shared(&on_the_way[1][k][from])),
                                             "l"(quad + 1)
                                             : "memory");
                            }
                        }
                    }
                }
                if (++polls > PATIENCE) {
                    __trap();
                }
            }
            asm volatile("cp.async.wait_all;" ::: "memory");
            for (u32 k = 0; k < asked; ++k) {
                if (put_quad(due, on_the_way[0][k][from]) && deep > 1 &&
                    put_quad(due, on_the_way[1][k][from])) {
                    const size_t source = id_of(message, nullptr, k, false) * blocks + from;
                    const uint4* quad = quads + (source * blocks + block) * deep;
                    for (int j = 2; j < deep && put_quad(due, __ldg(quad + j)); ++j) {
                    }
                }
            }
        }
        if (__syncthreads_or(left)) {
            const u16* const spill = spilled + x * blocks * per_block;
            for (u32 sender = warp; sender < blocks; sender += WARPS) {
                const u32 many = spill_many[sender], at = spill_at[sender];
                for (u32 k = lane; k < many && at + k < most; k += 32) {
                    lists[x * most + at + k] = (__ldcg(spill + sender * per_block + k) * blocks + sender) | LEFT;
                }
                __syncwarp();
                if (lane == 0) {
                    spill_many[sender] = 0;
                }
            }
            __syncthreads();
            if (heard[x] > most) {
                take_burst(rows, mail + x * MAIL, spill, per_block, t, due, quads, deep);
            } else if (deep > 0) {
                take_quads(due, quads, deep, blocks, lists + x * most, heard[x]);
            }
            __syncthreads();
        }
        if (PHASES) {
            cycles[1] += clock64() - mark;
        }
    }
    if (heard[x ^ 1] <= most) {
        take_rows(rows, lists + (x ^ 1) * most, heard[x ^ 1], warp, WARPS, (u32)(begin + steps) - 1);
    }
    __syncthreads();

    for (u32 k = threadIdx.x; k < slots * per_slot; k += THREADS) {
        saved[k] = slots_of_input[k];
    }
    if (own) {
        store(m, membranes, silent, neurons, neuron);
        counts[neuron] += count;
    }
    u64 spikes = count;
    for (int d = 16; d > 0; d /= 2) {
        hash += __shfl_down_sync(ALL_LANES, hash, d);
        spikes += __shfl_down_sync(ALL_LANES, spikes, d);
    }
    if (lane == 0 && spikes > 0) {
        atomicAdd(tally + HASH, hash);
        atomicAdd(tally + SPIKES, spikes);
    }
    if (PHASES && block == 0 && threadIdx.x == 0) {
        tally[UPDATE] += cycles[0];
        tally[EXCHANGE] += cycles[1];
        tally[DELIVER] += cycles[2];
        tally[CYCLES] += clock64() - started;
    }
}
