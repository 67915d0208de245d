// Sliding-window correlations: a tile of 128 x 128 pairs stays in registers, 8 x 8 per thread, and walks
// through all windows of a chunk; what reaches the threshold, less a margin, leaves the chip as a slot
// of the edge buffer. `network_recheck` then decides in f64 what is near the threshold.
//
// A step p pT - q qT is made by tensor cores: every number is the sum of two f16, hi + lo, and the eight
// products of one mma.m16n8k8 are (p_hi + p_lo)(p_hi + p_lo) - (q_hi + q_lo)(q_hi + q_lo). It starts from
// zero and is added to the sums in f32: tensor cores cut off what they add up, and over hundreds of
// windows that would be 4e-5 of a correlation.
//
// A slot: key = window << 54 | i << 27 | j and its value; EMPTY and NO_VALUE where there is none. Slots beyond
// `capacity` are counted and not written: the host walks fewer tiles at a time then.
//
// INPUT: u8, u16, i16, float or double; tests compile two of them.
//: variants -DINPUT=i16 | -DINPUT=double

typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int BLOCK = 128;
constexpr int THREADS = 256;
// Rows and columns of a warp's part of a tile: 2 x 4 warps.
constexpr int ROWS = 64, COLUMNS = 32;
// Steps of a stage, and stages in shared memory.
constexpr int STEPS = 8, STAGES = 4;
constexpr int STEP_WORDS = 2 * BLOCK;
constexpr int SIDE_WORDS = STEPS * STEP_WORDS;
constexpr int STAGE_WORDS = 2 * SIDE_WORDS;
// Of a step: 64 nodes, and 32 of them.
constexpr int GROUP_WORDS = BLOCK, HALF_WORDS = BLOCK / 2;
// Samples that a start from zero takes at once.
constexpr int FRESH = 8;
// Slots that a warp takes with one addition.
constexpr u32 RUN = 512;
constexpr u64 EMPTY = ~0ull;
constexpr float NO_VALUE = 2;
constexpr u32 ALL = 0xffffffffu;
constexpr double LARGEST = 1e14;

// Entries of `tally`; CAPACITY is given, the others are counted.
constexpr int NEXT_TILE = 0, SLOTS = 1, REBUILT = 2, KEPT = 3, RECHECKED = 4, DOUBTFUL = 5,
              CAPACITY = 6;

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

// A lane has rows `lane / 4` and columns `lane % 4 * 2` of its warp's part, and of every eighth on: what a
// tensor core leaves with it.
typedef float Sums[8][8];

// Row e of a thread's eight, from its first; a column likewise.
__device__ __forceinline__ constexpr int row_of(int e) { return 8 * e; }
__device__ __forceinline__ constexpr int column_of(int e) { return e % 2 + 8 * (e / 2); }

// sums += x yT.
__device__ __forceinline__ void add(Sums& sums, const float* rows, const float* columns) {
    float x[8], y[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        x[e] = rows[row_of(e)];
    }
#pragma unroll
    for (int e = 0; e < 8; e += 2) {
        const float2 both = *(const float2*)(columns + column_of(e));
        y[e] = both.x;
        y[e + 1] = both.y;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
        }
    }
}

// A lane's operand, made of a column's hi and lo: both halves of the one it multiplies with, q's with
// the opposite sign.
struct Operand {
    u32 pick, flip;

    __device__ explicit Operand(int lane)
        : pick(lane % 2 ? 0x3232 : 0x1010), flip(lane % 4 / 2 ? 0x80008000 : 0) {}
    __device__ u32 of(u32 halves) const { return __byte_perm(halves, 0, pick) ^ flip; }
};

// sums += p pT - q qT: one step, from this lane's first word of a step of the rows and of the columns.
__device__ __forceinline__ void step_on(Sums& sums, const u32* rows, const u32* columns,
                                        const Operand& operand) {
    const uint4 a = *(const uint4*)rows, b = *(const uint4*)(rows + HALF_WORDS);
    const uint4 c = *(const uint4*)columns;
    const u32 x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    const u32 y[4] = {operand.of(c.x), operand.of(c.y), operand.of(c.z), operand.of(c.w)};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int m = 0; m < 8; m += 2) {
            float d[4];
            asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
                : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                : "r"(x[m]), "r"(x[m + 1]), "r"(y[n]), "f"(0.f));
            sums[m][2 * n] += d[0];
            sums[m][2 * n + 1] += d[1];
            sums[m + 1][2 * n] += d[2];
            sums[m + 1][2 * n + 1] += d[3];
        }
    }
}

// Set in every number of at least 2 in size, and in no smaller one.
constexpr u32 TWO = 0x40000000;

// True if one of this thread's sums is at least 2 in size, or `all` is TWO.
__device__ __forceinline__ bool any_two(const Sums& sums, u32 all) {
    // Four chains: none waits for the one before it.
    u32 bits[4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            bits[i % 4] |= __float_as_uint(sums[i][j]);
        }
    }
    return (bits[0] | bits[1] | bits[2] | bits[3] | all) & TWO;
}

// The units follow the nodes' sums of squares.
__device__ __forceinline__ void rescale(Sums& sums, const float* ratio, int i0, int j0) {
    float y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        y[j] = ratio[j0 + column_of(j)];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float x = ratio[i0 + row_of(i)];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            sums[i][j] *= x * y[j];
        }
    }
}

// Samples and what makes centred, scaled ones of them.
struct Signal {
    const INPUT* samples;
    int nodes, padded, length, step, stretch;
    const double *fill, *mean, *scale;
};

// The sums of window k from its samples. All threads of the block.
__device__ __forceinline__ void begin(Sums& sums, const Signal& s, int k, int row_block,
                                      int column_block, float (*fresh)[2][BLOCK], int row0,
                                      int column0) {
    const int side = threadIdx.x / BLOCK, own = threadIdx.x % BLOCK;
    const int node = (side ? column_block : row_block) * BLOCK + own;
    const bool there = node < s.nodes;
    const double mean = there ? s.mean[(u64)k * s.padded + node] : 0;
    const double scale = there ? s.scale[(u64)(k / s.stretch) * s.padded + node] : 0;
    const double fill = there ? s.fill[node] : 0;
    const INPUT* from = s.samples + (u64)k * s.step * s.nodes + (there ? node : 0);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            sums[i][j] = 0;
        }
    }
#pragma unroll 1
    for (int t0 = 0; t0 < s.length; t0 += FRESH) {
        float next[FRESH];
#pragma unroll
        for (int t = 0; t < FRESH; ++t) {
            double value = 0;
            if (there && t0 + t < s.length) {
                value = (double)from[(u64)(t0 + t) * s.nodes];
                value = (isfinite(value) ? value : fill) - mean;
            }
            // In this order NaN becomes a number.
            next[t] = (float)fmin(fmax(value * scale, -LARGEST), LARGEST);
        }
        __syncthreads();
#pragma unroll
        for (int t = 0; t < FRESH; ++t) {
            fresh[t][side][own] = next[t];
        }
        __syncthreads();
#pragma unroll 1
        for (int t = 0; t < FRESH; ++t) {
            add(sums, fresh[t][0] + row0, fresh[t][1] + column0);
        }
    }
}

// A warp's slots: a run of the buffer.
struct Sink {
    u64* keys;
    float* values;
    u64* slots;
    u64 capacity, at;
    u32 left, lane;
};

// Factors that turn sums into correlations, and the bound of those that leave.
struct Cut {
    const float *factor, *bound, *least;
    int nodes, padded, sign;
    // TWO where every pair is looked at.
    u32 all;
};

__device__ __forceinline__ float size_of(float r, int sign) {
    return sign == 0 ? fabsf(r) : sign > 0 ? r : -r;
}

// The pairs of this warp that reach the least size of window k; (i0, j0): this thread's first pair, (wi, wj):
// the warp's. All threads of the warp.
__device__ __forceinline__ void emit(const Sums& sums, const Cut& f, Sink& sink, int k, int wi,
                                     int wj, int i0, int j0) {
    // Nodes are scaled so that the sum of an edge is at least 2.
    if (!__any_sync(ALL, any_two(sums, f.all))) {
        return;
    }
    // The rest is rare: its addresses are not to be kept ready.
    asm volatile("" : "+r"(k), "+r"(i0), "+r"(j0), "+r"(wi), "+r"(wj));
    const float least = f.least[k], cheap = least * (1 - 1e-6f);
    float top[8], most = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float v = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            v = fmaxf(v, fabsf(sums[i][j]));
        }
        top[i] = v;
        most = fmaxf(most, v);
    }
    const float* bounds = f.bound + (u64)k * (f.padded / 32);
    const float bound =
        fmaxf(bounds[wi / 32], bounds[wi / 32 + 1]) * bounds[wj / 32] * (1 + 1e-6f);
    if (!__any_sync(ALL, most * bound >= cheap)) {
        return;
    }
    const float* factor = f.factor + (u64)k * f.padded;
    float y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        y[j] = factor[j0 + column_of(j)];
    }
    // Above the diagonal and within the signal every pair counts.
    const bool whole = wi + ROWS <= wj && wj + COLUMNS <= f.nodes;
    float found[64];
    u32 mask[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        u32 hits = 0;
        if (top[i] * bound >= cheap) {
            const float x = factor[i0 + row_of(i)];
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const float both = x * y[j], r = sums[i][j] * both;
                const int row = i0 + row_of(i), column = j0 + column_of(j);
                const bool counts = whole || (row < column && column < f.nodes);
                if (both > 0 && size_of(r, f.sign) >= least && counts) {
                    found[8 * i + j] = r;
                    hits |= 1u << j;
                }
            }
        }
        mask[i / 4] |= hits << (8 * (i % 4));
    }
    const u32 mine = __popc(mask[0]) + __popc(mask[1]);
    if (!__any_sync(ALL, mine != 0)) {
        return;
    }
    u32 through = mine;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const u32 before = __shfl_up_sync(ALL, through, d);
        through += sink.lane >= (u32)d ? before : 0;
    }
    const u32 total = __shfl_sync(ALL, through, 31), left = sink.left;
    u32 place = through - mine;
    u64 more = 0;
    u32 taken = 0;
    if (total > left) {
        taken = (total - left + RUN - 1) / RUN * RUN;
        if (sink.lane == 0) {
            more = atomicAdd(sink.slots, (u64)taken);
        }
        more = __shfl_sync(ALL, more, 0);
    }
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        u32 rest = mask[half];
#pragma unroll 1
        while (rest) {
            const int bit = __ffs(rest) - 1;
            rest &= rest - 1;
            const int i = 4 * half + bit / 8, j = bit % 8;
            const u64 at = place < left ? sink.at + place : more + (place - left);
            if (at < sink.capacity) {
                sink.keys[at] = (u64)k << 54 | (u64)(i0 + row_of(i)) << 27 | (u64)(j0 + column_of(j));
                sink.values[at] = fminf(fmaxf(found[8 * i + j], -1.f), 1.f);
            }
            ++place;
        }
    }
    __syncwarp();
    if (total > left) {
        sink.at = more + (total - left);
        sink.left = taken - (total - left);
    } else {
        sink.at += total;
        sink.left -= total;
    }
}

// Tiles of pairs through all windows of a chunk.
// All windows of the tiles from tally[NEXT_TILE] to before `last`: tiles holds row block << 16 | column
// block. `stages` is the room of a block of panels; with `direct` there are none, and every window
// begins anew. `stretch`: a multiple of 32. Window k brings out pairs whose size reaches least[k]; with `all`, one of these is below
// LEAST, a sum below 2 may be an edge, and every pair is looked at. `sign`: 0 both, 1 positive, -1 negative. Any number of blocks.
//: samples: in, (windows.saturating_sub(1) * step + length) * nodes
//: fill: in, padded
//: mean: in, padded * windows
//: scale: in, padded * windows.div_ceil(stretch.max(1))
//: ratio: in, padded * windows.div_ceil(stretch.max(1))
//: factor: in, padded * windows
//: bound: in, padded / 32 * windows
//: anchor: in, padded / BLOCK * windows.div_ceil(32)
//: panels: in, padded / BLOCK * stages * (STAGE_STEPS * STEP_WORDS)
//: tiles: in, last
//: least: in, windows
//: keys: in-out
//: values: in-out, keys.len()
//: tally: in-out, TALLY
extern "C" __global__ void __launch_bounds__(256, 2)
network_walk(const INPUT* __restrict__ samples, int nodes, int padded, int length, int step,
             int windows, int stretch, const double* __restrict__ fill,
             const double* __restrict__ mean, const double* __restrict__ scale,
             const float* __restrict__ ratio, const float* __restrict__ factor,
             const float* __restrict__ bound, const u32* __restrict__ anchor,
             const u32* __restrict__ panels, int stages, const u32* __restrict__ tiles, u32 last,
             int direct, const float* __restrict__ least, int all, int sign, u64* keys, float* values, u64* tally) {
    extern __shared__ __align__(128) u32 staged[];
    __shared__ __align__(128) float fresh[FRESH][2][BLOCK];
    __shared__ u32 current;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / 4 * ROWS, warp_column = warp % 4 * COLUMNS;
    const int row0 = warp_row + lane / 4, column0 = warp_column + lane % 4 * 2;
    // This lane's words of a step.
    const int lane_word = lane / 4 * 8 + lane % 4 / 2 * 4;
    const int row_word = warp_row / 64 * GROUP_WORDS + lane_word;
    const int column_word =
        warp_column / 64 * GROUP_WORDS + warp_column % 64 / 32 * HALF_WORDS + lane_word;
    const Operand operand(lane);
    const Signal signal{samples, nodes, padded, length, step, stretch, fill, mean, scale};
    const Cut filter{factor, bound, least, nodes, padded, sign, all ? TWO : 0};
    const int words = (windows + 31) / 32;
    Sink sink{keys, values, tally + SLOTS, tally[CAPACITY], 0, 0, (u32)lane};
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            current = (u32)atomicAdd(tally + NEXT_TILE, 1ull);
        }
        __syncthreads();
        if (current >= last) {
            break;
        }
        const u32 tile = tiles[current];
        const int row_block = tile >> 16, column_block = tile & 0xffff;
        const int wi = row_block * BLOCK + warp_row, wj = column_block * BLOCK + warp_column;
        const int i0 = row_block * BLOCK + row0, j0 = column_block * BLOCK + column0;
        const u32* row_panel = panels + (u64)row_block * stages * SIDE_WORDS;
        const u32* column_panel = panels + (u64)column_block * stages * SIDE_WORDS;
        const auto load = [&](int stage) {
            if (stage < stages) {
                u32* to = staged + stage % STAGES * STAGE_WORDS;
                const u64 from = (u64)stage * SIDE_WORDS;
#pragma unroll
                for (int at = 0; at < SIDE_WORDS; at += 4 * THREADS) {
                    const int own = at + 4 * threadIdx.x;
                    copy16(to + own, row_panel + from + own);
                    copy16(to + SIDE_WORDS + own, column_panel + from + own);
                }
            }
            commit();
        };
        for (int stage = 0; stage < STAGES - 1; ++stage) {
            load(stage);
        }
        const u32* row_anchor = anchor + (u64)row_block * words;
        const u32* column_anchor = anchor + (u64)column_block * words;
        const u32 *rows = staged, *columns = staged;
        Sums sums;
        // Bit 0: the tile begins anew in the next window.
        u32 anew = direct ? ALL : row_anchor[0] | column_anchor[0] | 1;
        // Steps until a window is whole; the first has none.
        int k = 0, left = 0, at = 0;
#pragma unroll 1
        while (k < windows) {
            int run = STEPS;
            if (k > 0 && !direct) {
                arrived<STAGES - 2>();
                __syncthreads();
                // Everyone is done with what the slot held.
                load(at + STAGES - 1);
                rows = staged + at % STAGES * STAGE_WORDS + row_word;
                columns = rows - row_word + SIDE_WORDS + column_word;
                ++at;
            } else {
                run = 1;
            }
#pragma unroll 1
            for (; run > 0; --run) {
                if (left > 0) {
                    step_on(sums, rows, columns, operand);
                    rows += STEP_WORDS;
                    columns += STEP_WORDS;
                    if (--left > 0) {
                        continue;
                    }
                }
                left = direct ? 0 : step;
                if (anew & 1) {
                    begin(sums, signal, k, row_block, column_block, fresh, row0, column0);
                    if (threadIdx.x == 0 && k > 0 && !direct) {
                        atomicAdd(tally + REBUILT, 1ull);
                    }
                }
                anew >>= 1;
                emit(sums, filter, sink, k, wi, wj, i0, j0);
                if (++k == windows) {
                    break;
                }
                if (k % 32 == 0) {
                    anew = direct ? ALL : row_anchor[k / 32] | column_anchor[k / 32];
                    if (k % stretch == 0) {
                        rescale(sums, ratio + (u64)(k / stretch) * padded, i0, j0);
                    }
                }
            }
        }
    }
    for (u32 slot = lane; slot < sink.left; slot += 32) {
        if (sink.at + slot < sink.capacity) {
            keys[sink.at + slot] = EMPTY;
            values[sink.at + slot] = NO_VALUE;
        }
    }
}

// Decides in f64 what is near the threshold.
// Slots whose size is no larger than their window's threshold + margin are decided by f64 from the samples, a warp
// one; those below become EMPTY. What f64 cannot tell (within 1e-9 of the threshold, where the order of
// sums may matter) gets NaN for its value: the host decides. `highest`: the
// largest threshold. One thread per slot, any number of blocks.
//: keys: in-out
//: values: in-out, keys.len()
//: tally: in-out, TALLY
extern "C" __global__ void __launch_bounds__(256)
network_recheck(const INPUT* __restrict__ samples, int nodes, int length, int step,
                const double* __restrict__ thresholds, double highest, double margin, int sign, u64* keys, float* values, u64* tally) {
    const u32 lane = threadIdx.x % 32;
    const u64 slots = min(tally[SLOTS], tally[CAPACITY]);
    const u64 threads = (u64)gridDim.x * blockDim.x;
    u64 kept = 0, rechecked = 0, doubtful = 0;
    for (u64 from = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32; from < slots;
         from += threads) {
        const u64 own = from + lane;
        // Most keys are not looked at.
        const float value = own < slots ? values[own] : NO_VALUE;
        const bool there = value < NO_VALUE;
        const float size = size_of(value, sign);
        bool close = there && size <= highest + margin;
        const u64 key = close ? keys[own] : EMPTY;
        close = close && size <= thresholds[key >> 54] + margin;
        u32 near = __ballot_sync(ALL, close);
        kept += there && !(near >> lane & 1);
        while (near) {
            const int who = __ffs(near) - 1;
            near &= near - 1;
            const u64 pair = __shfl_sync(ALL, key, who);
            const int i = pair >> 27 & 0x7ffffff, j = pair & 0x7ffffff;
            const INPUT* x = samples + (pair >> 54) * step * nodes;
            double mx = 0, my = 0;
            const double x0 = (double)x[i], y0 = (double)x[j];
            for (int t = lane; t < length; t += 32) {
                mx += (double)x[(u64)t * nodes + i] - x0;
                my += (double)x[(u64)t * nodes + j] - y0;
            }
            for (int d = 16; d; d /= 2) {
                mx += __shfl_xor_sync(ALL, mx, d);
                my += __shfl_xor_sync(ALL, my, d);
            }
            mx = x0 + mx / length;
            my = y0 + my / length;
            double xx = 0, yy = 0, xy = 0;
            for (int t = lane; t < length; t += 32) {
                const double a = (double)x[(u64)t * nodes + i] - mx;
                const double b = (double)x[(u64)t * nodes + j] - my;
                xx += a * a;
                yy += b * b;
                xy += a * b;
            }
            for (int d = 16; d; d /= 2) {
                xx += __shfl_xor_sync(ALL, xx, d);
                yy += __shfl_xor_sync(ALL, yy, d);
                xy += __shfl_xor_sync(ALL, xy, d);
            }
            const double r = xy / (sqrt(xx) * sqrt(yy));
            if ((int)lane == who) {
                ++rechecked;
                const double threshold = thresholds[pair >> 54];
                const double size = sign == 0 ? fabs(r) : sign > 0 ? r : -r;
                if (!(fabs(size - threshold) > 1e-9)) {
                    values[own] = __int_as_float(0x7fffffff);
                    ++doubtful;
                    ++kept;
                } else if (size > threshold) {
                    values[own] = (float)fmin(fmax(r, -1.0), 1.0);
                    ++kept;
                } else {
                    keys[own] = EMPTY;
                }
            }
        }
    }
    for (int d = 16; d; d /= 2) {
        kept += __shfl_xor_sync(ALL, kept, d);
        rechecked += __shfl_xor_sync(ALL, rechecked, d);
        doubtful += __shfl_xor_sync(ALL, doubtful, d);
    }
    if (lane == 0) {
        atomicAdd(tally + KEPT, kept);
        atomicAdd(tally + RECHECKED, rechecked);
        atomicAdd(tally + DOUBTFUL, doubtful);
    }
}
