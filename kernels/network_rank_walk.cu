// Rank measures of sliding windows: a tile of 128 x 128 pairs of nodes stays in registers, 64 x 64 per warp, and tensor
// cores sum products of small whole numbers (`network_rank_prepare.cu`). Every sum is exact, and the value of a pair that
// may reach the threshold is made of it in f64, so that edges and values are the CPU's to the last bit.
//
// A slot is that of `network_walk.cu`.
//
// FORM 0: ranks as f16, whose products f32 sums exactly; 1: ranks as two bytes, modulo 2^32, for longer windows; 2: signs,
// whose sums slide from window to window.
//: variants -DFORM=0 | -DFORM=1 | -DFORM=2

typedef unsigned int u32;
typedef unsigned long long u64;

#include "network_slots.cuh"

constexpr int BYTES = 1;
constexpr int BLOCK = 128, THREADS = 128;
// Rows and columns of a warp's part of a tile: 2 x 2 warps.
constexpr int PART = 64;
// Words of a node in a stage, and of a block; stages in shared memory.
constexpr int NODE_WORDS = 16, SIDE_WORDS = BLOCK * NODE_WORDS;
constexpr int STAGES = 4, STAGE_WORDS = 2 * SIDE_WORDS;
constexpr float NO_VALUE = 2;

// Entries of `tally`; CAPACITY is given, the others are counted.
constexpr int NEXT = 0, SLOTS = 1, KEPT = 3, CAPACITY = 6;

#if FORM == 0
typedef float Sum;
#else
typedef int Sum;
#endif

// Of m, n, and what a tensor core leaves with a lane: row m * 16 + lane / 4 (+ 8), column n * 8 + lane % 4 * 2 (+ 1).
typedef Sum Sums[4][8][4];

// 16 bytes from global to shared memory, without registers and without waiting.
__device__ __forceinline__ void copy16(u32* to, const u32* from) {
    const u32 address = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until no more than the last `LEFT` groups are under way.
template <int LEFT>
__device__ __forceinline__ void arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// sum += a b, of 32 bytes of 16 rows and 8 columns.
__device__ __forceinline__ void multiply(Sum (&sum)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
#if FORM == 0
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}

// sums += rows columnsT: a stage of two steps, or its first step alone; from this lane's first word of the
// rows and of the columns. Which bytes of a stage are multiplied together is the same for rows and columns.
__device__ __forceinline__ void stage_on(Sums& sums, const u32* rows, const u32* columns, bool both) {
    uint4 y[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        y[n] = *(const uint4*)(columns + n * 8 * NODE_WORDS);
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        const uint4 a = *(const uint4*)(rows + m * 16 * NODE_WORDS);
        const uint4 b = *(const uint4*)(rows + (m * 16 + 8) * NODE_WORDS);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            multiply(sums[m][n], a.x, b.x, a.y, b.y, y[n].x, y[n].y);
        }
        if (both) {
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                multiply(sums[m][n], a.z, b.z, a.w, b.w, y[n].z, y[n].w);
            }
        }
    }
}

template <class Change>
__device__ __forceinline__ void each(Sums& sums, Change change) {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                change(sums[m][n][e], (m * 8 + n) * 4 + e);
            }
        }
    }
}

// Which pairs are edges.
struct Cut {
    const double *squares, *limit;
    const float *bound, *least;
    int nodes, padded, sign, strict;
};

// The edges of this warp in window k; (wi, wj): the warp's first pair. All threads of the warp.
__device__ __forceinline__ void emit(Sums& sums, const Cut& cut, Sink& sink, int k, int wi, int wj) {
    const float* bounds = cut.bound + (u64)k * (cut.padded / PART);
    const float bound = bounds[wi / PART] * bounds[wj / PART] * (1 + 2e-6f);
    // Neither side has a defined node, or none lies above the diagonal.
    if (!(bound > 0) || wi > wj) {
        return;
    }
    const float least = cut.least[k];
    const float cheap = least > 0 ? least / bound : -__int_as_float(0x7f800000);
    Sum high = sums[0][0][0], low = high;
    each(sums, [&](Sum& sum, int) {
        high = max(high, sum);
        low = min(low, sum);
    });
    const float up = (float)high, down = -(float)low;
    const float top = cut.sign == 0 ? fmaxf(up, down) : cut.sign > 0 ? up : down;
    if (!__any_sync(ALL, top >= cheap)) {
        return;
    }
    // The rest is rare: sums are looked up by number.
    Sum found[128];
    u32 mask[4] = {0, 0, 0, 0};
    each(sums, [&](Sum& sum, int at) {
        const float value = (float)sum;
        const float size = cut.sign == 0 ? fabsf(value) : cut.sign > 0 ? value : -value;
        mask[at / 32] |= (u32)(size >= cheap) << (at % 32);
        found[at] = sum;
    });
    const int i0 = wi + sink.lane / 4, j0 = wj + sink.lane % 4 * 2;
    const double* squares = cut.squares + (u64)k * cut.padded;
    const double limit = cut.limit[k];
#pragma unroll 1
    for (int part = 0; part < 4; ++part) {
        u32 rest = part == 0 ? mask[0] : part == 1 ? mask[1] : part == 2 ? mask[2] : mask[3];
#pragma unroll 1
        while (__any_sync(ALL, rest != 0)) {
            bool keep = false;
            u64 key = 0;
            float value = 0;
            if (rest) {
                const int bit = __ffs(rest) - 1;
                rest &= rest - 1;
                const int row = i0 + part * 16 + bit % 4 / 2 * 8, column = j0 + bit / 4 * 8 + bit % 2;
                if (row < column && column < cut.nodes) {
                    const double a = squares[row], b = squares[column];
                    if (a > 0 && b > 0) {
                        const double all = (double)found[part * 32 + bit] / sqrt(a * b);
                        const double r = fmin(fmax(all, -1.0), 1.0);
                        const double size = cut.sign == 0 ? fabs(r) : cut.sign > 0 ? r : -r;
                        keep = cut.strict ? size > limit : size >= limit;
                        key = (u64)k << 54 | (u64)row << 27 | (u64)column;
                        value = (float)r;
                    }
                }
            }
            sink.put(keep, key, value);
        }
    }
}

// The stage of a window that is multiplied at which time: with bytes all four products of upper and lower halves.
struct Order {
    // Stages of the rows' panel, and times, of a window; of the first one where it has more.
    int stages, times, first_stages;

    __device__ void at(int time, int& row, int& column) const {
        row = column = time;
        if (FORM == BYTES) {
            const int half = stages / 2, window = time / times, rest = time % times;
            const int quarter = rest / half;
            row = window * stages + rest % half + quarter / 2 * half;
            column = window * stages + rest % half + quarter % 2 * half;
        }
    }
};

// Tiles of pairs through windows.
// All windows of the `count` tiles from `first` on (row block << 16 | column block), `group` windows at once;
// tally[NEXT_TILE] is 0. Of a panel `first_stages` are the first window's, and every further
// one has `stages`; bytes behind `first_steps` and `steps` halves of them are 0. With `direct` sums begin anew in every window. A pair is an
// edge of window k if its size reaches limit[k], with `strict` exceeds it; least[k] is a little less. `sign`: 0 both, 1 positive, -1
// negative. Any number of blocks.
//: squares: in, padded * windows
//: bound: in, padded / BOUND_NODES * windows
//: rows: in, padded * (first_stages + windows.saturating_sub(1) * stages) * NODE_WORDS
//: columns: in, padded * (first_stages + windows.saturating_sub(1) * stages) * NODE_WORDS
//: tiles: in, first + count
//: limit: in, windows
//: least: in, windows
//: keys: in-out
//: values: in-out, keys.len()
//: tally: in-out, TALLY
extern "C" __global__ void __launch_bounds__(128, 2)
network_rank_walk(int nodes, int padded, int windows, int group, int direct,
                  const double* __restrict__ squares, const float* __restrict__ bound,
                  const u32* __restrict__ rows, const u32* __restrict__ columns, int first_stages,
                  int stages, int first_steps, int steps, const u32* __restrict__ tiles, u32 first,
                  u32 count, const double* __restrict__ limit, int strict,
                  const float* __restrict__ least, int sign, u64* keys, float* values, u64* tally) {
    extern __shared__ __align__(128) u32 staged[];
    __shared__ u64 current;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / 2 * PART, warp_column = warp % 2 * PART;
    const int lane_word = lane / 4 * NODE_WORDS + lane % 4 * 4;
    const int row_word = warp_row * NODE_WORDS + lane_word;
    const int column_word = SIDE_WORDS + warp_column * NODE_WORDS + lane_word;
    const Cut cut{squares, limit, bound, least, nodes, padded, sign, strict};
    const Order order{stages, FORM == BYTES ? 2 * stages : stages, first_stages};
    const u64 panel_words = ((u64)first_stages + (u64)(windows - 1) * stages) * SIDE_WORDS;
    const u64 items = (u64)count * ((windows + group - 1) / group);
    Sink sink{keys, values, tally + SLOTS, tally[CAPACITY], 0, 0, (u32)lane, 0};
    Sums sums;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            current = atomicAdd(tally + NEXT, 1ull);
        }
        __syncthreads();
        if (current >= items) {
            break;
        }
        const u32 tile = tiles[first + current % count];
        const int begin = (int)(current / count) * group, end = min(windows, begin + group);
        const int row_block = tile >> 16, column_block = tile & 0xffff;
        const u64 skipped = begin ? first_stages + (u64)(begin - 1) * stages : 0;
        const u32* row_panel = rows + row_block * panel_words + skipped * SIDE_WORDS;
        const u32* column_panel = columns + column_block * panel_words + skipped * SIDE_WORDS;
        const int of_first = begin || FORM == BYTES ? order.times : first_stages;
        const int all = of_first + (end - begin - 1) * order.times;
        const auto load = [&](int time) {
            if (time < all) {
                int row, column;
                order.at(time, row, column);
                u32* to = staged + time % STAGES * STAGE_WORDS + 4 * threadIdx.x;
                const u32* from_row = row_panel + (u64)row * SIDE_WORDS + 4 * threadIdx.x;
                const u32* from_column = column_panel + (u64)column * SIDE_WORDS + 4 * threadIdx.x;
#pragma unroll
                for (int at = 0; at < SIDE_WORDS; at += 4 * THREADS) {
                    copy16(to + at, from_row + at);
                    copy16(to + SIDE_WORDS + at, from_column + at);
                }
            }
            commit();
        };
        for (int time = 0; time < STAGES - 1; ++time) {
            load(time);
        }
        each(sums, [](Sum& sum, int) { sum = 0; });
        int k = begin, left = of_first;
        // Half a stage is empty at a window's end.
        bool half = FORM != BYTES && (begin ? steps : first_steps) % 2;
#pragma unroll 1
        for (int time = 0; time < all; ++time) {
            arrived<STAGES - 2>();
            __syncthreads();
            // Everyone is done with what the slot held.
            load(time + STAGES - 1);
            if (FORM == BYTES && (left == order.times / 4 * 3 || left == order.times / 4)) {
                each(sums, [](Sum& sum, int) { sum = (Sum)((u32)sum << 8); });
            }
            const u32* stage = staged + time % STAGES * STAGE_WORDS;
            --left;
            stage_on(sums, stage + row_word, stage + column_word, left > 0 || !half);
            if (left == 0) {
                emit(sums, cut, sink, k, row_block * BLOCK + warp_row, column_block * BLOCK + warp_column);
                ++k;
                left = order.times;
                half = FORM != BYTES && steps % 2;
                if (direct) {
                    each(sums, [](Sum& sum, int) { sum = 0; });
                }
            }
        }
    }
    sink.close(NO_VALUE, tally + KEPT);
}
