// Sorts 64-bit keys by some of their bits, keys that agree in those staying in the order they were in: digit by digit,
// the lowest first (radix sort). For each digit: every tile of keys counts how many it has of each value
// (`sort_count`), the counts' prefix sums (scan.cu), value by value and for each value tile by tile, say where they go,
// and every tile takes its keys there (`sort_place`).

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 ALL = 0xffffffffu;
constexpr u32 THREADS = 256;
constexpr u32 WARPS = THREADS / 32;
// Keys of a tile for each thread.
constexpr u32 EACH = 16;
constexpr u32 TILE = THREADS * EACH;
// Most values of a digit.
constexpr u32 VALUES = 256;

static __device__ u32 digit_of(u64 key, u32 shift, u32 values) {
    return (u32)(key >> shift) & (values - 1);
}

// Block b counts the keys of tile b by their digit: counts[v * tiles + b] are those with value v. The
// digit has `values` values, a power of two, and begins at bit `shift`.
//: keys: in, count
//: counts: out, values * grid.x
extern "C" __global__ void __launch_bounds__(256)
sort_count(const u64* __restrict__ keys, u32 count, u32 shift, u32 values, u32* counts) {
    __shared__ u32 own[VALUES];
    const u32 lane = threadIdx.x % 32;
    for (u32 v = threadIdx.x; v < VALUES; v += THREADS) {
        own[v] = 0;
    }
    __syncthreads();
    const u64 first = (u64)blockIdx.x * TILE + threadIdx.x;
    for (u32 k = 0; k < EACH; ++k) {
        const u64 at = first + k * THREADS;
        const bool here = at < count;
        const u32 digit = here ? digit_of(keys[at], shift, values) : VALUES;
        // Neighbours often agree: one of them adds for all.
        const u32 same = __match_any_sync(ALL, digit);
        if (here && __ffs((int)same) - 1 == (int)lane) {
            atomicAdd(own + digit, __popc(same));
        }
    }
    __syncthreads();
    for (u32 v = threadIdx.x; v < values; v += THREADS) {
        counts[(u64)v * gridDim.x + blockIdx.x] = own[v];
    }
}

// Block b takes the keys of tile b, in their order, to where places[v * tiles + b] says that those with
// value v begin.
//: keys: in, count
//: places: in, values * grid.x
//: sorted: out, count
extern "C" __global__ void __launch_bounds__(256)
sort_place(const u64* __restrict__ keys, u32 count, u32 shift, u32 values,
           const u32* __restrict__ places, u64* sorted) {
    // Of each warp: first how many of its keys have the value, then where its next one goes.
    __shared__ u32 own[WARPS][VALUES];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 i = threadIdx.x; i < WARPS * VALUES; i += THREADS) {
        own[i / VALUES][i % VALUES] = 0;
    }
    __syncthreads();
    // A warp has a stretch of the tile, 32 keys at a time, so that the order stays.
    const u64 first = (u64)blockIdx.x * TILE + warp * 32 * EACH + lane;
    u64 mine[EACH];
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        const u64 at = first + k * 32;
        const bool here = at < count;
        mine[k] = here ? keys[at] : 0;
        const u32 digit = here ? digit_of(mine[k], shift, values) : VALUES;
        const u32 same = __match_any_sync(ALL, digit);
        if (here && __ffs((int)same) - 1 == (int)lane) {
            own[warp][digit] += __popc(same);
        }
        __syncwarp();
    }
    __syncthreads();
    for (u32 v = threadIdx.x; v < values; v += THREADS) {
        u32 next = places[(u64)v * gridDim.x + blockIdx.x];
        for (u32 w = 0; w < WARPS; ++w) {
            const u32 many = own[w][v];
            own[w][v] = next;
            next += many;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
        const bool here = first + k * 32 < count;
        const u32 digit = here ? digit_of(mine[k], shift, values) : VALUES;
        const u32 same = __match_any_sync(ALL, digit);
        const u32 before = __popc(same & ((1u << lane) - 1));
        const u32 place = here ? own[warp][digit] + before : 0;
        // All have read before the first of those that agree moves on.
        __syncwarp();
        if (here && before == 0) {
            own[warp][digit] = place + __popc(same);
        }
        __syncwarp();
        if (here) {
            sorted[place] = mine[k];
        }
    }
}
