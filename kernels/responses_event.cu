// Responses of every feature from its sorted spikes, split in two bf16 for the tensor cores.
//
// a ≈ high + low with high = bf16(a), low = bf16(a − high): 16 bits of a. Steps that are not summed
// (before the delay lets sums begin, behind a segment's end) are zero.
//
// Variants: -DORDER=1 -DBLOCKS=8 | -DORDER=4 -DBLOCKS=8 -DBRIEF

#include "spike_states.cuh"

// The nearest bf16 (ties to even) of a finite x >= 0 or < 0, as its bits.
__device__ __forceinline__ u32 to_bf16(float x) {
    u32 bits = __float_as_uint(x);
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

// grid: x = tile of 32 columns (channel · filters + filter), counted from `first_column`; y = chunk,
// counted from `first_chunk`. 32 · BLOCKS threads. `states[chunk][i][column]` are the states at each
// chunk's start. `high[column][chunk][step]` and `low`, both counted from the first, have
// `column_count` columns of `stride` steps.
extern "C" __global__ void __launch_bounds__(32 * BLOCKS)
    responses_event(const u16 *ticks, const u32 *offsets, const Block *block, const Filter *filter,
                    int filters, int channels, const float *states, int first_chunk,
                    int first_column, int column_count, int stride, u16 *high, u16 *low) {
    extern __shared__ float y[];  // STEPS × 33
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int chunk = first_chunk + blockIdx.y;
    int local = blockIdx.x * 32 + lane, column = first_column + local;
    bool valid = local < column_count;
    int j = valid ? column / filters : 0;
    Filter f = filter[valid ? column % filters : 0];
    int columns = channels * filters;
    const u32 *row = offsets + (size_t)chunk * (channels + 1);
    u32 e0 = valid ? row[j] : 0, e1 = valid ? row[j + 1] : 0;
    const Block here = block[(size_t)chunk * BLOCKS + warp];
    int now = 32 * warp;
    float *cell = y + now * 33 + lane;
    States s;
    s.clear();
    if (valid && here.since > now) {
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) {
            s.s[i] = states[((size_t)chunk * (ORDER + 1) + i) * columns + column];
        }
        s.advance(f.rate, now);
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) cell[i * 33] = 0.0f;
    for (u32 e = e0; e < e1; ++e) {
        int t = ticks[e];
        if (t >= now) {
            if (t >= now + 32) break;
            cell[(t - now) * 33] += 1.0f;
        } else if (t >= now - here.since) {
            s.spike(f.rate * (now - t));
        }
    }
    for (int i = 0; i < 32; ++i) {
        s.s[0] += cell[i * 33];
        float value = s.s[0];
#pragma unroll
        for (int d = 1; d <= ORDER; ++d) value = f.order == d ? s.s[d] : value;
        bool summed = here.before - i <= 0 && here.left - i > 0;
        cell[i * 33] = summed ? f.scale * value : 0.0f;
        s.step(f.rate, f.loss);
    }
    __syncthreads();
    for (int c = warp; c < 32; c += BLOCKS) {
        int at = blockIdx.x * 32 + c;
        if (at >= column_count) break;
        size_t base = (size_t)at * stride + (size_t)blockIdx.y * STEPS;
        u32 *high_row = (u32 *)(high + base), *low_row = (u32 *)(low + base);
        for (int t = 2 * lane; t < STEPS; t += 64) {
            float a = y[t * 33 + c], b = y[(t + 1) * 33 + c];
            u32 ah = to_bf16(a), bh = to_bf16(b);
            high_row[t / 2] = ah | bh << 16;
            low_row[t / 2] = to_bf16(a - __uint_as_float(ah << 16)) |
                             to_bf16(b - __uint_as_float(bh << 16)) << 16;
        }
    }
}

// gram(i, j) += Σ over parts of products[part](i, j), in f64, where it was computed: panels of
// `panel` rows, each up to its own diagonal block. n × n; grid.y = i.
extern "C" __global__ void add_products(const float *products, int parts, int n, int panel,
                                        double *gram) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= min(n, (i / panel + 1) * panel)) return;
    size_t at = (size_t)i * n + j, count = (size_t)n * n;
    double sum = 0.0;
    for (int p = 0; p < parts; ++p) sum += products[p * count + at];
    gram[at] += sum;
}

// gram = lower triangle of `gram` mirrored + Σ over parts of (cross + its transpose), n × n.
// 32 × 8 threads a tile of 32 × 32; tiles on or below the diagonal write both halves.
extern "C" __global__ void finish_gram(const float *cross, int parts, int n, double *gram) {
    __shared__ double tile[32][33];
    int x = threadIdx.x % 32, y0 = threadIdx.x / 32;
    int i0 = blockIdx.y * 32, j0 = blockIdx.x * 32;
    if (j0 > i0) return;
    for (int y = y0; y < 32; y += 8) {
        double sum = 0.0;
        int i = j0 + y, j = i0 + x;  // the transposed tile
        if (i < n && j < n) {
            for (int p = 0; p < parts; ++p) sum += cross[((size_t)p * n + i) * n + j];
        }
        tile[y][x] = sum;
    }
    __syncthreads();
    double value[4];
    for (int k = 0, y = y0; y < 32; y += 8, ++k) {
        int i = i0 + y, j = j0 + x;
        value[k] = 0.0;
        if (i < n && j < n && i >= j) {
            double sum = gram[(size_t)i * n + j] + tile[x][y];
            for (int p = 0; p < parts; ++p) sum += cross[((size_t)p * n + i) * n + j];
            value[k] = sum;
            gram[(size_t)i * n + j] = sum;
        }
    }
    __syncthreads();
    for (int k = 0, y = y0; y < 32; y += 8, ++k) tile[y][x] = value[k];
    __syncthreads();
    for (int y = y0; y < 32; y += 8) {
        int i = j0 + y, j = i0 + x;  // above the diagonal: element (i, j) is (j, i) below it
        if (i < n && j < n && j > i) gram[(size_t)i * n + j] = tile[x][y];
    }
}
