// Responses of every feature from sorted spikes, a round of chunks at a time.
//
// Steps that are not summed (before the delay lets sums begin, behind a segment's end) are zero.
// Chunks, blocks and offsets are counted from the round's first. Columns are channel · filters +
// filter, counted from `first_column`.
//
//: variants -DORDER=1 -DBLOCKS=8 | -DORDER=4 -DBLOCKS=8 -DBRIEF
//: module gram

#include "spike_states.cuh"
#include "response_tile.cuh"

// States at each chunk's end from its own spikes alone, `states[chunk][i][column]`; spikes before the
// segment that is open there are left out. One thread per column; grid.y = chunk.
//: offsets: in, grid.y * (channels + 1)
//: filter: in, filters
//: states: out, grid.y * columns
extern "C" __global__ void chunk_states_event(const u16 *ticks, const u32 *offsets,
                                              const Block *block, const Filter *filter, int filters,
                                              int channels, int first_column, int columns,
                                              float *states) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, chunk = blockIdx.y;
    if (at >= columns) return;
    int column = first_column + at;
    float rate = filter[column % filters].rate;
    int since = block[(size_t)(chunk + 1) * BLOCKS].since;
    const u32 *row = offsets + (size_t)chunk * (channels + 1) + column / filters;
    States s;
    s.clear();
    for (u32 e = row[0]; e < row[1]; ++e) {
        int distance = STEPS - ticks[e];
        if (distance <= since) s.spike(rate * distance);
    }
#pragma unroll
    for (int i = 0; i <= ORDER; ++i) {
        states[((size_t)chunk * (ORDER + 1) + i) * columns + at] = s.s[i];
    }
}

// A round's responses from spikes.
// grid: x = tile of 32 columns, y = chunk. 32 · BLOCKS threads. `states[chunk][i][column]` are the
// states at each chunk's start. Shared: STEPS × 33 floats.
//: offsets: in, grid.y * (channels + 1)
//: filter: in, filters
//: states: in, grid.y * target.columns()
//: target: value, grid.y
extern "C" __global__ void __launch_bounds__(32 * BLOCKS)
    responses_event(const u16 *ticks, const u32 *offsets, const Block *block, const Filter *filter,
                    int filters, int channels, const float *states, int first_column,
                    Target target) {
    extern __shared__ float y[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunk = blockIdx.y;
    int local = blockIdx.x * 32 + lane;
    bool valid = local < target.columns;
    int column = valid ? first_column + local : 0;
    Filter f = filter[column % filters];
    const u32 *row = offsets + (size_t)chunk * (channels + 1) + column / filters;
    u32 e0 = valid ? row[0] : 0, e1 = valid ? row[1] : 0;
    const Block here = block[(size_t)chunk * BLOCKS + warp];
    int now = 32 * warp;
    float *cell = y + now * TILE_STRIDE + lane;
    States s;
    s.clear();
    if (valid && here.since > now) {
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) {
            s.s[i] = states[((size_t)chunk * (ORDER + 1) + i) * target.columns + local];
        }
        s.advance(f.rate, now);
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) cell[i * TILE_STRIDE] = 0.0f;
    for (u32 e = e0; e < e1; ++e) {
        int t = ticks[e];
        if (t >= now) {
            if (t >= now + 32) break;
            cell[(t - now) * TILE_STRIDE] += 1.0f;
        } else if (t >= now - here.since) {
            s.spike(f.rate * (now - t));
        }
    }
    for (int i = 0; i < 32; ++i) {
        s.s[0] += cell[i * TILE_STRIDE];
        float value = s.s[0];
#pragma unroll
        for (int d = 1; d <= ORDER; ++d) value = f.order == d ? s.s[d] : value;
        bool summed = here.before - i <= 0 && here.left - i > 0;
        cell[i * TILE_STRIDE] = summed ? f.scale * value : 0.0f;
        s.step(f.rate, f.loss);
    }
    __syncthreads();
    write_tile(y, target, blockIdx.x, chunk, block);
}
