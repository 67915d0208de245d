// Γ and Υ from the spikes alone.
//
// Γ = Σ_t a(t) a(t)ᵀ is a sum over pairs of spikes. Of each pair, the later spike (channel k, filter
// a, at t) meets the earlier one (channel j, filter b) through the states of j's filter,
//     s_i(t) = Σ_u x^i e^(−x),  x = (t − u)/τ_b,  over j's past spikes u,
// so that the row of (k, a) in the half M of Γ = M + Mᵀ is the sum, over the spikes of k, of
//     y_jb(t) = Σ_i K_abi(t) · s_i(t),
// where K holds the sum over what is left of the segment (the tables are made on the host, in f64).
// Spikes of one step count half before and half after. The segment's end and the steps that a delay
// leaves out are in K: nothing is subtracted afterwards. Υ and Σa are the same with y replaced by the
// behaviour (or 1) correlated with the filter.
//
//: variants -DORDER=0 -DBLOCKS=8 | -DORDER=1 -DBLOCKS=20 | -DORDER=1 -DBLOCKS=32
//: variants -DORDER=2 -DBLOCKS=16 | -DORDER=4 -DBLOCKS=32 | -DORDER=2 -DBLOCKS=8 -DBRIEF

#include "spike_states.cuh"

// Sorts each chunk's spikes by channel, in time order within a channel: `ticks` gets the step within
// the chunk, `offsets[chunk][k]` where channel k's begin. One thread block a chunk; its warps take
// consecutive blocks. Shared: (warps + 1) · channels counters.
//: block_events: in, blocks + 1
//: ticks: out
//: offsets: out, grid.x * (channels + 1)
extern "C" __global__ void sort_events(const u16 *channel, const u8 *tick, const u32 *block_events,
                                       int blocks, int channels, u16 *ticks, u32 *offsets) {
    extern __shared__ u32 counts[];
    int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 *mine = counts + warp * channels, *total = counts + warps * channels;
    int chunk_first = blockIdx.x * BLOCKS;
    int chunk_last = min(chunk_first + BLOCKS, blocks);
    int each = (BLOCKS + warps - 1) / warps;
    int first = min(chunk_first + warp * each, chunk_last);
    int last = min(first + each, chunk_last);

    for (int i = threadIdx.x; i < (warps + 1) * channels; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (u32 e = block_events[first] + lane; e < block_events[last]; e += 32) {
        atomicAdd(&mine[channel[e]], 1u);
    }
    __syncthreads();
    // Each warp's counts become where it starts within the channel.
    for (int k = threadIdx.x; k < channels; k += blockDim.x) {
        u32 sum = 0;
        for (int w = 0; w < warps; ++w) {
            u32 n = counts[w * channels + k];
            counts[w * channels + k] = sum;
            sum += n;
        }
        total[k] = sum;
    }
    __syncthreads();
    u32 *row = offsets + (size_t)blockIdx.x * (channels + 1);
    if (warp == 0) {
        u32 base = block_events[chunk_first];
        for (int k0 = 0; k0 < channels; k0 += 32) {
            int k = k0 + lane;
            u32 n = k < channels ? total[k] : 0, sum = n;
#pragma unroll
            for (int d = 1; d < 32; d *= 2) {
                u32 other = __shfl_up_sync(~0u, sum, d);
                if (lane >= d) sum += other;
            }
            if (k < channels) {
                total[k] = base + sum - n;
                row[k] = base + sum - n;
            }
            base += __shfl_sync(~0u, sum, 31);
        }
        if (lane == 0) row[channels] = base;
    }
    __syncthreads();
    for (int b = first; b < last; ++b) {
        u32 begin = block_events[b], end = block_events[b + 1];
        for (u32 e0 = begin; e0 < end; e0 += 32) {
            u32 e = e0 + lane;
            u32 active = __ballot_sync(~0u, e < end);
            if (e < end) {
                u32 k = channel[e];
                u32 peers = __match_any_sync(active, k);
                u32 rank = __popc(peers & ((1u << lane) - 1));
                u32 place = total[k] + mine[k] + rank;
                ticks[place] = (u16)(32 * (b - chunk_first) + tick[e]);
                __syncwarp(active);
                if (rank == 0) mine[k] += __popc(peers);
            }
            __syncwarp();
        }
    }
}

// States of every column (channel · filters + filter) at the start of each slice but the first:
// `states[slice][i][column]`. One thread per column and slice; f64, the walk back ends at the segment's
// start or after `window` τ, where nothing is left.
//: filter: in, filters
//: slice_chunk: in, grid.y
//: states: out, grid.y * channels * filters
extern "C" __global__ void states_at_slices(const u16 *ticks, const u32 *offsets,
                                            const Block *block, const Filter *filter, int filters,
                                            int channels, const int *slice_chunk, float window,
                                            float *states) {
    int columns = channels * filters;
    int column = blockIdx.x * blockDim.x + threadIdx.x, slice = blockIdx.y;
    if (column >= columns) return;
    int k = column / filters;
    double rate = filter[column % filters].exact_rate;
    int chunk = slice_chunk[slice];
    int history = block[(size_t)chunk * BLOCKS].since;
    int reach = (int)fminf(2.0e9f, ceilf(window / filter[column % filters].rate));
    int furthest = min(history, reach);
    double s[ORDER + 1];
    for (int i = 0; i <= ORDER; ++i) s[i] = 0.0;
    for (int back = 1; (back - 1) * STEPS < furthest; ++back) {
        const u32 *row = offsets + (size_t)(chunk - back) * (channels + 1) + k;
        for (u32 e = row[0]; e < row[1]; ++e) {
            int distance = back * STEPS - ticks[e];
            if (distance > furthest) continue;
            double x = rate * distance, p = exp(-x);
            for (int i = 0; i <= ORDER; ++i) {
                s[i] += p;
                p *= x;
            }
        }
    }
    for (int i = 0; i <= ORDER; ++i) {
        states[((size_t)slice * (ORDER + 1) + i) * columns + column] = (float)s[i];
    }
}

__device__ __forceinline__ void copy_4_bytes(void *shared, const void *global) {
    u32 address = (u32)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(global));
}

// Adds to each of this thread block's rows the y of its spikes in this chunk. Eight threads per row,
// four columns each. A chunk's spikes are summed by themselves first: f32 keeps more of them so.
template <class Ticks>
__device__ __forceinline__ void add_rows(float4 *m, const float4 *y, Ticks ticks, const u32 *start,
                                         u32 base, int rows) {
    int part = threadIdx.x % 8;
    for (int r = threadIdx.x / 8; r < rows; r += blockDim.x / 8) {
        u32 e = start[r] - base, end = start[r + 1] - base;
        if (e == end) continue;
        float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f), sum = zero;
        for (; e < end; e += 4) {
            // Four loads in flight; those past the end are not made.
            u32 left = end - e;
            float4 b = zero, c = zero, d = zero;
            float4 a = y[ticks[e] * 8 + part];
            if (left > 1) b = y[ticks[e + 1] * 8 + part];
            if (left > 2) c = y[ticks[e + 2] * 8 + part];
            if (left > 3) d = y[ticks[e + 3] * 8 + part];
            sum.x += (a.x + b.x) + (c.x + d.x);
            sum.y += (a.y + b.y) + (c.y + d.y);
            sum.z += (a.z + b.z) + (c.z + d.z);
            sum.w += (a.w + b.w) + (c.w + d.w);
        }
        float4 before = m[r * 8 + part];
        m[r * 8 + part] = make_float4(before.x + sum.x, before.y + sum.y, before.z + sum.z,
                                      before.w + sum.w);
    }
}

// Where the coefficients of a pair of filters begin, and after how many steps they no longer change.
struct Pair {
    unsigned long long first;  // index of the first
    unsigned long long reach;  // steps
};

// Chunks after which a tile's sums go on in f64. A channel that fires in step adds alike terms, whose
// rounding does not average out.
#define SETTLED 64

// One tile of M: rows (`tile_rows` channels, one filter a) × 32 columns, over one slice. Of a chunk's
// spikes, up to `kept` (even) are kept on chip.
// grid: x = column tile, y = row tile · filters + a, z = slice. 32 · BLOCKS threads. Columns are the
// `column_count` from `first_column` on; rows the features of `row_channels` channels from
// `first_channel` on.
// `table`, from `pair[a][b].first` on, has [w][i]: K_ab with w steps left, 0 <= w <= the pair's reach,
// at its limit there; in f64: where a delay keeps the first steps out, its differences count.
// `partial[slice][row][column]`, both counted from the first, gets the sums: f32 over SETTLED chunks,
// f64 beyond.
//: offsets: in, chunks * (channels + 1)
//: filter: in, filters
//: slice_chunk: in, grid.z + 1
//: states: in, grid.z * channels * filters
//: pair: in, filters * filters
//: partial: out, grid.z * row_channels * filters * column_count
extern "C" __global__ void __launch_bounds__(32 * BLOCKS, 1)
    gram_event(const u16 *ticks, const u32 *offsets, const Block *block, int chunks,
               const Filter *filter, int filters, int channels, const int *slice_chunk,
               const float *states, const double *table, const Pair *pair, int tile_rows, int kept,
               int first_channel, int row_channels, int first_column, int column_count,
               double *partial) {
    extern __shared__ float4 memory[];
    float *y = (float *)memory;                      // STEPS × 32
    float *carry = y + STEPS * 32;             // 2 × (ORDER + 1) × 32
    float *m = carry + 64 * (ORDER + 1);             // tile_rows × 32
    u32 *start = (u32 *)(m + tile_rows * 32);        // tile_rows + 1
    u16 *near = (u16 *)(start + tile_rows + 1);      // kept

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int columns = channels * filters;
    int local = blockIdx.x * 32 + lane, column = first_column + local;
    bool valid = local < column_count;
    int j = valid ? column / filters : 0, b = valid ? column % filters : 0;
    int a = blockIdx.y % filters;
    int local_row = (blockIdx.y / filters) * tile_rows;
    int first_row = first_channel + local_row;
    int rows = min(tile_rows, row_channels - local_row);
    int slice = blockIdx.z;
    float rate = filter[b].rate, loss = filter[b].loss;
    // Coefficients of column b's states for the row's filter a.
    Pair ab = pair[a * filters + b];
    const double *coefficients = table + ab.first;
    int reach = (int)ab.reach;
    // Of all columns of the tile: one way for a warp.
    int furthest = __reduce_max_sync(~0u, reach);
    auto with_left = [=](int w) { return coefficients + (size_t)(ORDER + 1) * max(0, min(w, reach)); };
    float limit[ORDER + 1];
#pragma unroll
    for (int i = 0; i <= ORDER; ++i) limit[i] = (float)with_left(reach)[i];

    for (int i = threadIdx.x; i < tile_rows * 32; i += blockDim.x) m[i] = 0.0f;
    int chunk = slice_chunk[slice], last_chunk = slice_chunk[slice + 1];
    if (warp == 0) {
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) {
            carry[((chunk & 1) * (ORDER + 1) + i) * 32 + lane] =
                valid ? states[((size_t)slice * (ORDER + 1) + i) * columns + column] : 0.0f;
        }
    }
    const int first_chunk = chunk;
    auto settle = [&](bool first) {
        if (!valid) return;
        for (int r = warp; r < rows; r += BLOCKS) {
            size_t height = (size_t)row_channels * filters;
            size_t at = (size_t)(local_row + r) * filters + a;
            double *sum = &partial[(slice * height + at) * column_count + local];
            *sum = (first ? 0.0 : *sum) + m[r * 32 + lane];
            m[r * 32 + lane] = 0.0f;
        }
    };
    for (; chunk < last_chunk; ++chunk) {
        __syncthreads();
        int done = chunk - first_chunk;
        if (done > 0 && done % SETTLED == 0) settle(done == SETTLED);
        // Where the rows' spikes are, and the spikes if they fit.
        const u32 *row = offsets + (size_t)chunk * (channels + 1);
        for (int r = threadIdx.x; r <= rows; r += blockDim.x) {
            copy_4_bytes(&start[r], &row[first_row + r]);
        }
        u32 begin = row[first_row] & ~1u, end = row[first_row + rows];
        bool fits = end - begin <= (u32)kept;
        if (fits) {
            for (u32 e = 2 * threadIdx.x; e < end - begin; e += 2 * blockDim.x) {
                copy_4_bytes(&near[e], &ticks[begin + e]);
            }
        }
        asm volatile("cp.async.commit_group;");

        // This warp's block, and for the first warp also where the next chunk takes over.
        float *before = carry + (chunk & 1) * (ORDER + 1) * 32;
        float *after = carry + (~chunk & 1) * (ORDER + 1) * 32;
        u32 e0 = valid ? row[j] : 0, e1 = valid ? row[j + 1] : 0;
        const Block here = block[(size_t)chunk * BLOCKS + warp];
        float *cell = y + warp * 32 * 32 + lane;
        States s;
#pragma unroll 1
        for (int target = warp == 0 ? BLOCKS : warp; target >= 0;
             target = target == BLOCKS ? warp : -1) {
            int since = target == warp ? here.since
                                       : block[(size_t)chunk * BLOCKS + BLOCKS].since;
            int now = 32 * target;  // steps into the chunk
            s.clear();
            if (since > now) {
#pragma unroll
                for (int i = 0; i <= ORDER; ++i) s.s[i] = before[i * 32 + lane];
                s.advance(rate, now);
            }
            if (target == warp) {
#pragma unroll
                for (int i = 0; i < 32; ++i) cell[i * 32] = 0.0f;
            }
            for (u32 e = e0; e < e1; ++e) {
                int t = ticks[e];
                if (t >= now) {
                    if (target == BLOCKS || t >= now + 32) break;
                    cell[(t - now) * 32] += 1.0f;
                } else if (t >= now - since) {
                    s.spike(rate * (now - t));
                }
            }
            if (target == BLOCKS) {
#pragma unroll
                for (int i = 0; i <= ORDER; ++i) after[i * 32 + lane] = s.s[i];
            }
        }
        if (here.left >= furthest + 32 && here.before <= 0) {
#pragma unroll 4
            for (int i = 0; i < 32; ++i) {
                float count = cell[i * 32];
                float value = limit[0] * fmaf(0.5f, count, s.s[0]);
#pragma unroll
                for (int d = 1; d <= ORDER; ++d) value = fmaf(limit[d], s.s[d], value);
                cell[i * 32] = value;
                s.s[0] += count;
                s.step(rate, loss);
            }
        } else {
            for (int i = 0; i < 32; ++i) {
                const double *now = with_left(here.left - i), *not_yet = with_left(here.before - i);
                float count = cell[i * 32];
                float value = (float)(now[0] - not_yet[0]) * fmaf(0.5f, count, s.s[0]);
#pragma unroll
                for (int d = 1; d <= ORDER; ++d) {
                    value = fmaf((float)(now[d] - not_yet[d]), s.s[d], value);
                }
                cell[i * 32] = value;
                s.s[0] += count;
                s.step(rate, loss);
            }
        }
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        if (fits) {
            add_rows((float4 *)m, (const float4 *)y, (const u16 *)near, start, begin, rows);
        } else {
            add_rows((float4 *)m, (const float4 *)y, ticks, start, 0u, rows);
        }
    }
    __syncthreads();
    settle(last_chunk - first_chunk <= SETTLED);
}

// Γ from its two halves.
// gram = Σ over slices of (partial + the transpose of `mirrored`), in f64: partial is rows × columns,
// mirrored columns × rows; on the diagonal they are one. 32 × 8 threads a tile of 32 × 32.
//: partial: in, slices * rows * columns
//: mirrored: in, slices * rows * columns
//: gram: out, rows * columns
extern "C" __global__ void combine_slices(const double *partial, const double *mirrored, int slices,
                                          int rows, int columns, double *gram) {
    __shared__ double tile[32][33];
    int x = threadIdx.x % 32, y0 = threadIdx.x / 32;
    int i0 = blockIdx.y * 32, j0 = blockIdx.x * 32;
    size_t count = (size_t)rows * columns;
    for (int y = y0; y < 32; y += 8) {
        double sum = 0.0;
        int i = j0 + y, j = i0 + x;  // the transposed tile
        if (i < columns && j < rows) {
            for (int s = 0; s < slices; ++s) sum += mirrored[s * count + (size_t)i * rows + j];
        }
        tile[y][x] = sum;
    }
    __syncthreads();
    for (int y = y0; y < 32; y += 8) {
        int i = i0 + y, j = j0 + x;
        if (i < rows && j < columns) {
            double sum = 0.0;
            for (int s = 0; s < slices; ++s) sum += partial[s * count + (size_t)i * columns + j];
            gram[(size_t)i * columns + j] = sum + tile[x][y];
        }
    }
}

// The behaviour of output o at step i of a block, 1 for o == outputs; zero where nothing is summed.
__device__ __forceinline__ float paired(const float *behavior, const Block &b, int i, int o,
                                        int outputs) {
    if (b.before - i > 0 || b.left - i <= 0) return 0.0f;
    return o == outputs ? 1.0f : behavior[(size_t)(b.origin + i) * outputs + o];
}

// The kernels below take some rows at a time, filter · (outputs + 1) + o, from `first_row` on; arrays
// have just these.
//
// Future states z_i(t) = Σ_{m >= 0} (m/τ)^i e^(−m/τ) x(t + m) within each block alone, at its first
// step: `future[(filter · (outputs + 1) + o) · (ORDER + 1) + i][block]`. One thread a block;
// grid.y = filter · (outputs + 1) + o.
//: block: in, blocks
//: filter: in, (first_row + grid.y).div_ceil(outputs + 1)
//: future: out, grid.y * blocks
extern "C" __global__ void behavior_block_states(const float *behavior, const Block *block,
                                                 int blocks, const Filter *filter, int outputs,
                                                 int first_row, double *future) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= blocks) return;
    int o = (first_row + blockIdx.y) % (outputs + 1);
    Filter f = filter[(first_row + blockIdx.y) / (outputs + 1)];
    Block here = block[at];
    double loss = -expm1(-f.exact_rate);
    ExactStates z;
    z.clear();
    for (int i = 31; i >= 0; --i) {
        z.step(f.exact_rate, loss);
        z.s[0] += paired(behavior, here, i, o, outputs);
    }
    for (int i = 0; i <= ORDER; ++i) {
        future[((size_t)blockIdx.y * (ORDER + 1) + i) * blocks + at] = z.s[i];
    }
}

// Turns `future` into the states just after each block's last step, within its segment.
// One thread block of 512 threads per row of the grid; each thread takes a run of blocks.
//: block: in, blocks + 1
//: filter: in, (first_row + grid.x).div_ceil(outputs + 1)
//: future: in-out, grid.x * blocks
extern "C" __global__ void __launch_bounds__(512)
    behavior_carry(const Block *block, int blocks, const Filter *filter, int outputs,
                   int first_row, double *future) {
    __shared__ double shared[ORDER + 1][512];
    __shared__ u8 open[512];
    double rate = filter[(first_row + blockIdx.x) / (outputs + 1)].exact_rate;
    double *row = future + (size_t)blockIdx.x * (ORDER + 1) * blocks;
    int each = (blocks + 511) / 512, t = threadIdx.x;
    int first = min(t * each, blocks), last = min(first + each, blocks);
    ExactStates z;
    z.clear();
    bool passes = true;  // no segment begins in this run after its first step, or at it
    for (int at = last - 1; at >= first; --at) {
        // Later states reach a block unless a segment begins in between.
        if (block[at + 1].since == 0) {
            z.clear();
            passes = false;
        }
        z.advance(rate, 32);
        for (int i = 0; i <= ORDER; ++i) z.s[i] += row[(size_t)i * blocks + at];
    }
    // Inclusive scan from the right over the threads' runs, each `each` blocks long but the last.
    int distance = 32 * each;
    for (int i = 0; i <= ORDER; ++i) shared[i][t] = z.s[i];
    open[t] = passes;
    for (int d = 1; d < 512; d *= 2) {
        __syncthreads();
        ExactStates right;
        right.clear();
        bool join = t + d < 512 && passes;
        bool right_open = t + d < 512 && open[t + d];
        if (join) {
            for (int i = 0; i <= ORDER; ++i) right.s[i] = shared[i][t + d];
        }
        __syncthreads();
        if (join) {
            right.advance(rate, distance);
            for (int i = 0; i <= ORDER; ++i) {
                z.s[i] += right.s[i];
                shared[i][t] = z.s[i];
            }
            passes = right_open;
            open[t] = passes;
        }
        // Twice the blocks a pass, as far as a step count goes; beyond, all has decayed or is empty.
        distance = distance < (1 << 28) ? 2 * distance : distance;
    }
    __syncthreads();
    z.clear();
    if (t + 1 < 512) {
        for (int i = 0; i <= ORDER; ++i) z.s[i] = shared[i][t + 1];
    }
    for (int at = last - 1; at >= first; --at) {
        if (block[at + 1].since == 0) z.clear();
        ExactStates own;
        for (int i = 0; i <= ORDER; ++i) {
            own.s[i] = row[(size_t)i * blocks + at];
            row[(size_t)i * blocks + at] = z.s[i];
        }
        z.advance(rate, 32);
        for (int i = 0; i <= ORDER; ++i) z.s[i] += own.s[i];
    }
}

// The behaviour correlated with each filter, at every step.
// g(t) = Σ_{m >= 0} h[m] x(t + m) at every step: `g[row][padded step]`, rows as in `future`.
//: block: in, blocks
//: filter: in, (first_row + grid.y).div_ceil(outputs + 1)
//: future: in, grid.y * blocks
//: g: out, grid.y * blocks * 32
extern "C" __global__ void behavior_correlate(const float *behavior, const Block *block, int blocks,
                                              const Filter *filter, int outputs, int first_row,
                                              const double *future, double *g) {
    __shared__ double tile[4][32][33];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int group = (blockIdx.x * (blockDim.x / 32) + warp) * 32;  // this warp's first block
    int at = group + lane;
    int o = (first_row + blockIdx.y) % (outputs + 1);
    Filter f = filter[(first_row + blockIdx.y) / (outputs + 1)];
    if (at < blocks) {
        Block here = block[at];
        double loss = -expm1(-f.exact_rate);
        ExactStates z;
        for (int i = 0; i <= ORDER; ++i) {
            z.s[i] = future[((size_t)blockIdx.y * (ORDER + 1) + i) * blocks + at];
        }
        for (int i = 31; i >= 0; --i) {
            z.step(f.exact_rate, loss);
            z.s[0] += paired(behavior, here, i, o, outputs);
            double value = z.s[0];
#pragma unroll
            for (int d = 1; d <= ORDER; ++d) value = f.order == d ? z.s[d] : value;
            tile[warp][lane][i] = f.exact_scale * value;
        }
    }
    __syncwarp();
    double *row = g + (size_t)blockIdx.y * blocks * 32;
    for (int b = 0; b < 32 && group + b < blocks; ++b) {
        row[(size_t)(group + b) * 32 + lane] = tile[warp][b][lane];
    }
}

// Υ and Σa: for each channel, the sum of g at its spikes, in f64. One warp per channel and row of g.
// `upsilon[channel · filters + filter][o]`, o == outputs being Σa.
//: offsets: in, chunks * (channels + 1)
//: g: in, grid.y * blocks * 32
//: upsilon: in-out, channels * filters * (outputs + 1)
extern "C" __global__ void upsilon_event(const u16 *ticks, const u32 *offsets, int chunks,
                                         int channels, int filters, int outputs, int blocks,
                                         int first_row, const double *g, double *upsilon) {
    int k = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (k >= channels) return;
    int filter = (first_row + blockIdx.y) / (outputs + 1);
    int o = (first_row + blockIdx.y) % (outputs + 1);
    const double *row = g + (size_t)blockIdx.y * blocks * 32;
    double sum = 0.0;
    for (int chunk = lane; chunk < chunks; chunk += 32) {
        const u32 *range = offsets + (size_t)chunk * (channels + 1) + k;
        u32 last = range[1];
        for (u32 e = range[0]; e < last; ++e) sum += row[(size_t)chunk * STEPS + ticks[e]];
    }
#pragma unroll
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) {
        upsilon[((size_t)k * filters + filter) * (outputs + 1) + o] = sum;
    }
}

// Σx and Σx² over paired steps: `sums[thread block][2 · o]` and `[2 · o + 1]`; one thread block a
// run of blocks, 256 threads, its partial sums in a fixed order.
//: block: in, blocks
//: sums: out, grid.x * outputs * 2
extern "C" __global__ void __launch_bounds__(256)
    behavior_sums(const float *behavior, const Block *block, int blocks, int outputs,
                  double *sums) {
    __shared__ double shared[2][256];
    int each = (blocks + gridDim.x - 1) / gridDim.x;
    int first = min((int)blockIdx.x * each, blocks), last = min(first + each, blocks);
    for (int o = 0; o < outputs; ++o) {
        double sum = 0.0, squares = 0.0;
        for (int i = 32 * first + threadIdx.x; i < 32 * last; i += 256) {
            double x = paired(behavior, block[i / 32], i % 32, o, outputs);
            sum += x;
            squares += x * x;
        }
        shared[0][threadIdx.x] = sum;
        shared[1][threadIdx.x] = squares;
        for (int d = 128; d > 0; d /= 2) {
            __syncthreads();
            if (threadIdx.x < d) {
                shared[0][threadIdx.x] += shared[0][threadIdx.x + d];
                shared[1][threadIdx.x] += shared[1][threadIdx.x + d];
            }
        }
        __syncthreads();
        if (threadIdx.x < 2) {
            sums[((size_t)blockIdx.x * outputs + o) * 2 + threadIdx.x] = shared[threadIdx.x][0];
        }
        __syncthreads();
    }
}

// Σx, Σx² and x̄ from the partial sums: `totals[0..outputs]`, `[outputs..2·outputs]`, and `mean`.
//: sums: in, parts * outputs * 2
//: totals: out, 2 * outputs
//: mean: out, outputs
extern "C" __global__ void behavior_mean(const double *sums, int parts, int outputs, double steps,
                                         double *totals, double *mean) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= outputs) return;
    double sum = 0.0, squares = 0.0;
    for (int p = 0; p < parts; ++p) {
        sum += sums[((size_t)p * outputs + o) * 2];
        squares += sums[((size_t)p * outputs + o) * 2 + 1];
    }
    totals[o] = sum;
    totals[outputs + o] = squares;
    mean[o] = sum / steps;
}
