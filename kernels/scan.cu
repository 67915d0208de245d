// Exclusive prefix sums of 32-bit numbers, in place. A block sums its own stretch; the blocks' totals
// are summed in turn and added.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 ALL = 0xffffffffu;
constexpr u32 THREADS = 1024;
// Numbers in a row for each thread.
constexpr u32 EACH = 4;

// Block b: values[b * THREADS * EACH ...] become their exclusive sums, totals[b] their sum.
//: values: in-out, count
//: totals: out, grid.x
extern "C" __global__ void scan_blocks(u32* values, u32 count, u32* totals) {
    __shared__ u32 warp_sums[THREADS / 32];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u64 from = ((u64)blockIdx.x * THREADS + threadIdx.x) * EACH;
    u32 own[EACH], sum = 0;
    for (u32 k = 0; k < EACH; ++k) {
        own[k] = from + k < count ? values[from + k] : 0;
        sum += own[k];
    }
    u32 through = sum;
    for (u32 step = 1; step < 32; step *= 2) {
        const u32 before = __shfl_up_sync(ALL, through, step);
        through += lane >= step ? before : 0;
    }
    if (lane == 31) {
        warp_sums[warp] = through;
    }
    __syncthreads();
    if (warp == 0) {
        u32 warps = warp_sums[lane];
        for (u32 step = 1; step < 32; step *= 2) {
            const u32 before = __shfl_up_sync(ALL, warps, step);
            warps += lane >= step ? before : 0;
        }
        warp_sums[lane] = warps;
    }
    __syncthreads();
    u32 before = through - sum + (warp > 0 ? warp_sums[warp - 1] : 0);
    for (u32 k = 0; k < EACH; ++k) {
        if (from + k < count) {
            values[from + k] = before;
        }
        before += own[k];
    }
    if (threadIdx.x == THREADS - 1) {
        totals[blockIdx.x] = before;
    }
}

// Adds to the values of block b its offset.
//: values: in-out, count
//: offsets: in, grid.x
extern "C" __global__ void scan_add(u32* values, u32 count, const u32* __restrict__ offsets) {
    const u64 from = ((u64)blockIdx.x * THREADS + threadIdx.x) * EACH;
    const u32 offset = offsets[blockIdx.x];
    for (u32 k = 0; k < EACH; ++k) {
        if (from + k < count) {
            values[from + k] += offset;
        }
    }
}
