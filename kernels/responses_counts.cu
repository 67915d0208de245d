// Responses of every feature from binned counts, a round of chunks at a time.
//
// `counts` has one row per step and `width` values per row, the first of them channel `first_channel`.
// Rows are those of the round in padded time, or, `resident`, of the whole recording. Steps that are
// not summed are zero. Chunks and blocks are counted from the round's first. Columns are channel ·
// filters + filter, counted from `first_column`.
//
// COUNT is the type of a count: u8, u16, or float for counts of any size and signals. Filters of these run in f64: a
// signal's mean may be far above what it varies by, and rounding at every step would add up in proportion to it.
//
//: variants -DORDER=1 -DBLOCKS=8 -DCOUNT=u8 | -DORDER=4 -DBLOCKS=8 -DCOUNT=u16 -DBRIEF
//: variants -DORDER=2 -DBLOCKS=8 -DCOUNT=float | -DORDER=1 -DBLOCKS=8 -DCOUNT=float -DBRIEF
//: variants -DORDER=4 -DBLOCKS=8 -DCOUNT=float -DBRIEF
//: module gram

#include "spike_states.cuh"
#include "response_tile.cuh"

template <class Count> struct RealOf { typedef float type; };
template <> struct RealOf<float> { typedef double type; };
typedef RealOf<COUNT>::type Real;

// A filter's constants in the type that its states have.
struct Constants {
    Real rate, loss, scale;
    __device__ __forceinline__ explicit Constants(const Filter &f)
        : rate(f.rate), loss(f.loss), scale(f.scale) {
        if (sizeof(Real) == sizeof(double)) {
            rate = f.exact_rate;
            loss = -expm1(-f.exact_rate);
            scale = f.exact_scale;
        }
    }
};

// Counts, one row per step. The host makes it by hand, with the same fields.
struct Counts {
    const COUNT *counts;  // [step][width]
    size_t width;         // counts per step
    int first_channel;    // channel of a row's first count
    int resident;         // 1: rows are those of the whole recording, 0: those of the round, in padded time
    int delay;            // the step of a block's first is its `origin` + delay
};

// This lane's channel over the 32 steps of its warp's block.
__device__ __forceinline__ void load(const Counts &from, const Block &here, int first_row, int channel,
                                     bool valid, float *c) {
    size_t row = from.resident ? (size_t)(here.origin + from.delay) : (size_t)first_row;
    const COUNT *at = from.counts + row * from.width + (channel - from.first_channel);
#pragma unroll
    for (int i = 0; i < 32; ++i) c[i] = valid && i < here.left ? (float)at[i * from.width] : 0.0f;
}

// The states after 32 steps from rest.
__device__ __forceinline__ void run(StatesOf<Real> &s, const float *c, const Constants &f) {
    s.clear();
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        s.s[0] += c[i];
        s.step(f.rate, f.loss);
    }
}

// States at each chunk's end from its own counts alone, `states[chunk][i][column]`; those before the
// segment that is open there are left out. grid: x = tile of 32 columns, y = chunk; 32 · BLOCKS threads.
//: filter: in, filters
//: states: out, grid.y * columns
extern "C" __global__ void __launch_bounds__(32 * BLOCKS)
    chunk_states_counts(Counts from, const Block *block, const Filter *filter, int filters,
                        int first_column, int columns, float *states) {
    __shared__ Real ends[BLOCKS][ORDER + 1][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunk = blockIdx.y;
    int local = blockIdx.x * 32 + lane;
    bool valid = local < columns;
    int column = valid ? first_column + local : first_column;
    Filter f = filter[column % filters];
    const Block here = block[(size_t)chunk * BLOCKS + warp];
    float c[32];
    load(from, here, chunk * STEPS + 32 * warp, column / filters, valid, c);
    const Constants constants(f);
    StatesOf<Real> s;
    run(s, c, constants);
#pragma unroll
    for (int i = 0; i <= ORDER; ++i) ends[warp][i][lane] = s.s[i];
    __syncthreads();
    if (warp > 0) return;
    int since = block[(size_t)(chunk + 1) * BLOCKS].since;
    s.clear();
    for (int w = 0; w < BLOCKS; ++w) {
        if (since < 32 * (BLOCKS - w)) continue;  // of an earlier segment
        s.advance(constants.rate, 32);
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) s.s[i] += ends[w][i][lane];
    }
    if (!valid) return;
#pragma unroll
    for (int i = 0; i <= ORDER; ++i) {
        states[((size_t)chunk * (ORDER + 1) + i) * columns + local] = (float)s.s[i];
    }
}

// A round's responses from counts.
// grid: x = tile of 32 columns, y = chunk. 32 · BLOCKS threads. `states[chunk][i][column]` are the
// states at each chunk's start. Shared: STEPS × 33 floats.
//: filter: in, filters
//: states: in, grid.y * target.columns()
//: target: value, grid.y
extern "C" __global__ void __launch_bounds__(32 * BLOCKS)
    responses_counts(Counts from, const Block *block, const Filter *filter, int filters,
                     const float *states, int first_column, Target target) {
    extern __shared__ float y[];
    __shared__ Real ends[BLOCKS][ORDER + 1][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunk = blockIdx.y;
    int local = blockIdx.x * 32 + lane;
    bool valid = local < target.columns;
    int column = valid ? first_column + local : first_column;
    Filter f = filter[column % filters];
    const Block here = block[(size_t)chunk * BLOCKS + warp];
    float c[32];
    load(from, here, chunk * STEPS + 32 * warp, column / filters, valid, c);
    const Constants constants(f);
    StatesOf<Real> s;
    run(s, c, constants);
#pragma unroll
    for (int i = 0; i <= ORDER; ++i) ends[warp][i][lane] = s.s[i];
    __syncthreads();
    s.clear();
    int now = 32 * warp;
    if (valid && here.since > now) {
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) {
            s.s[i] = states[((size_t)chunk * (ORDER + 1) + i) * target.columns + local];
        }
    }
    for (int w = 0; w < warp; ++w) {
        s.advance(constants.rate, 32);
        if (here.since < 32 * (warp - w)) continue;  // of an earlier segment
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) s.s[i] += ends[w][i][lane];
    }
    float *cell = y + now * TILE_STRIDE + lane;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        s.s[0] += c[i];
        Real value = s.s[0];
#pragma unroll
        for (int d = 1; d <= ORDER; ++d) value = f.order == d ? s.s[d] : value;
        bool summed = here.before - i <= 0 && here.left - i > 0;
        cell[i * TILE_STRIDE] = summed ? (float)(constants.scale * value) : 0.0f;
        s.step(constants.rate, constants.loss);
    }
    __syncthreads();
    write_tile(y, target, blockIdx.x, chunk, block);
}
