// Kohonen's online rule (Galbraith 2010, chapter 3): sample after sample, the nearest node and its neighbours move towards
// it. Every number is rounded as on the host, so that a map has the same bits.
//
// A block has `per` nodes in a row: in shared memory where IN_SHARED is 1, else where they lie. For each sample the blocks
// tell each other their nearest node by one word each, which is also the barrier: its lowest bits are a tag that the two
// samples before do not have. All blocks must be resident at once (a cooperative launch).
//: variants -DIN_SHARED=0 | -DIN_SHARED=1

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 ALL = 0xffffffffu;
// Most threads of a block, and blocks of a launch.
constexpr int THREADS = 1024;
constexpr int ONLINE_BLOCKS = 192;
// Words that a lane reads at once.
constexpr int WORDS = ONLINE_BLOCKS / 32;
// Samples in shared memory: one that is learned, one that has come, one on its way.
constexpr int HELD = 3;
// Dimensions of a node that are on their way at once.
constexpr int AT_ONCE = 8;
// A word: bits of the squared distance, the node, the tag.
constexpr int TAG_BITS = 10;
constexpr u32 TAG = (1u << TAG_BITS) - 1;

// The least word of a warp, for all its lanes.
__device__ __forceinline__ u64 least_of_warp(const u64 word) {
    const u32 high = (u32)(word >> 32);
    const u32 least = __reduce_min_sync(ALL, high);
    const u32 low = __reduce_min_sync(ALL, high == least ? (u32)word : ALL);
    return (u64)least << 32 | low;
}

__device__ __forceinline__ void tell(u64* messages, const int even, const u64 word) {
    if (threadIdx.x % 32 == 0) {
        u64* const at = messages + even * ONLINE_BLOCKS + blockIdx.x;
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
    }
}

__device__ __forceinline__ u64 ask(const u64* messages, const int even, const u32 block) {
    u64 word;
    const u64* const at = messages + even * ONLINE_BLOCKS + block;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}

__device__ __forceinline__ float moved(const float weight, const float value, const float scale) {
    return __fadd_rn(weight, __fmul_rn(scale, __fsub_rn(value, weight)));
}

// Begins to copy a sample to shared memory.
__device__ __forceinline__ void fetch(const float* from, float* to, const int dims) {
    for (int d = threadIdx.x; d < dims; d += blockDim.x) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((u32)__cvta_generic_to_shared(to + d)),
                     "l"(from + d)
                     : "memory");
    }
}

// The way from the winner's row or column to another: the shorter one on a torus.
__device__ __forceinline__ int way(int by, const int length, const int torus) {
    if (torus) {
        by -= by > length / 2 ? length : 0;
        by += by < -((length - 1) / 2) ? length : 0;
    }
    return by;
}

// Presents samples [first, first + count).
// planes[d][k]: weight d of node k, in rows of `padded`. scales[p][i][j]: what a node moves by that lies `up` + i rows below
// and `left` + j columns right of the winner, whose row is even (p = 0) or odd (p = 1, of `parities` = 2); NaN where it
// stays. ranges[d]: the lowest and the highest value that a weight may take, if `bounded`. Shared memory: HELD samples, and
// with IN_SHARED the block's nodes.
//: samples: in, (first + count) * dims
//: scales: in, parities * height * width
//: ranges: in, 2 * dims
//: messages: in-out, 2 * ONLINE_BLOCKS
//: planes: in-out, dims * padded
extern "C" __global__ void __launch_bounds__(1024)
map_online(const float* __restrict__ samples, const float* __restrict__ scales, const float* __restrict__ ranges,
           size_t first, size_t count, int dims, int rows, int columns, int padded, int per, int torus, int parities,
           int up, int height, int left, int width, int bounded, u64* messages, float* planes) {
    extern __shared__ float shared[];
    __shared__ u64 bests[THREADS / 32];
    __shared__ u32 winners[2];
    const int threads = blockDim.x, warps = threads / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int begin = blockIdx.x * per, mine = max(0, min(rows * columns, begin + per) - begin);
#if IN_SHARED
    float* const own = shared + HELD * dims;
    const int stride = per;
    for (int i = threadIdx.x; i < dims * mine; i += threads) {
        own[i / mine * stride + i % mine] = planes[(size_t)(i / mine) * padded + begin + i % mine];
    }
#else
    float* const own = planes + begin;
    const size_t stride = padded;
#endif
    samples += first * dims;
    fetch(samples, shared, dims);
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (count > 1) {
        fetch(samples + dims, shared + dims, dims);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    const int own_row = (begin + threadIdx.x) / columns, own_column = (begin + threadIdx.x) % columns;
    const int rows_on = threads / columns, columns_on = threads % columns;
    const float inverse = 1.0f / columns;
    __syncthreads();
    int slot = 0;
    for (size_t at = 0; at < count; ++at) {
        const int even = at & 1;
        const float* const x = shared + slot * dims;
        const int free = slot == 0 ? HELD - 1 : slot - 1;
        slot = slot == HELD - 1 ? 0 : slot + 1;
        u64 best = ~0ull;
        for (int node = threadIdx.x; node < mine; node += threads) {
            const float* weight = own + node;
            float squared = 0.0f;
            int d = 0;
            for (; d + AT_ONCE <= dims; d += AT_ONCE) {
                float apart[AT_ONCE];
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i, weight += stride) {
                    apart[i] = __fsub_rn(*weight, x[d + i]);
                }
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) {
                    squared = __fadd_rn(squared, __fmul_rn(apart[i], apart[i]));
                }
            }
            for (; d < dims; ++d, weight += stride) {
                const float apart = __fsub_rn(*weight, x[d]);
                squared = __fadd_rn(squared, __fmul_rn(apart, apart));
            }
            const u64 word = (u64)__float_as_uint(squared) << 32 | (u32)(begin + node) << TAG_BITS;
            best = min(best, word);
        }
        best = least_of_warp(best);
        if (lane == 0) {
            bests[warp] = best;
        }
        __syncthreads();
        // All have learned the sample before: its place is free.
        if (at + 2 < count) {
            fetch(samples + (at + 2) * dims, shared + free * dims, dims);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (warp == 0) {
            best = least_of_warp(lane < warps ? bests[lane] : ~0ull);
            if (gridDim.x > 1) {
                const u32 tag = (u32)(at + 1) & TAG;
                tell(messages, even, (best & ~(u64)TAG) | tag);
                u64 heard[WORDS];
                bool waits = true;
                while (waits) {
                    waits = false;
#pragma unroll
                    for (int i = 0; i < WORDS; ++i) {
                        const u32 block = i * 32 + lane;
                        heard[i] = block < gridDim.x ? ask(messages, even, block) : ~(u64)TAG | tag;
                    }
#pragma unroll
                    for (int i = 0; i < WORDS; ++i) {
                        waits |= ((u32)heard[i] & TAG) != tag;
                    }
                }
                best = ~0ull;
#pragma unroll
                for (int i = 0; i < WORDS; ++i) {
                    best = min(best, heard[i]);
                }
                __syncwarp();
                best = least_of_warp(best);
            }
            if (lane == 0) {
                winners[even] = (u32)best >> TAG_BITS;
            }
        }
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        // The quotient of numbers below 2^22, at most one off before it is put right.
        const int winner = winners[even];
        int row = __float2int_rz(__int2float_rn(winner) * inverse), column = winner - row * columns;
        const int off = column < 0 ? -1 : column >= columns ? 1 : 0;
        row += off;
        column -= off * columns;
        const float* const table = scales + (parities == 2 && row % 2 != 0 ? (size_t)height * width : 0);
        int node_row = own_row, node_column = own_column;
        for (int node = threadIdx.x; node < mine; node += threads) {
            const int down = way(node_row - row, rows, torus) - up;
            const int right = way(node_column - column, columns, torus) - left;
            node_row += rows_on;
            node_column += columns_on;
            if (node_column >= columns) {
                node_column -= columns;
                ++node_row;
            }
            if (down < 0 || down >= height || right < 0 || right >= width) {
                continue;
            }
            const float scale = __ldg(table + (size_t)down * width + right);
            if (scale != scale) {
                continue;
            }
            float* weight = own + node;
            if (bounded) {
                for (int d = 0; d < dims; ++d, weight += stride) {
                    const float low = __ldg(ranges + 2 * d), high = __ldg(ranges + 2 * d + 1);
                    const float now = moved(*weight, x[d], scale);
                    *weight = now < low ? low : now > high ? high : now;
                }
                continue;
            }
            int d = 0;
            for (; d + AT_ONCE <= dims; d += AT_ONCE) {
                float now[AT_ONCE];
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i) {
                    now[i] = moved(weight[i * stride], x[d + i], scale);
                }
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i, weight += stride) {
                    *weight = now[i];
                }
            }
            for (; d < dims; ++d, weight += stride) {
                *weight = moved(*weight, x[d], scale);
            }
        }
    }
#if IN_SHARED
    __syncthreads();
    for (int i = threadIdx.x; i < dims * mine; i += threads) {
        planes[(size_t)(i / mine) * padded + begin + i % mine] = own[i / mine * stride + i % mine];
    }
#endif
}
