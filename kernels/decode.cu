// Batch decoding: every spike adds its weights to the weighted trains, one for each filter and output
// (`decode_weigh`); every filter runs over its trains in tiles (`decode_tile_ends`, `decode_carry`) and
// the filters' responses are summed (`decode_sum`); behind a low-pass, if any, `decode_estimates` adds
// the intercept and keeps to the range. f64 up to the last step, sums in the order of the spikes.
//
// Rows are filter · outputs + output. Compile-time: ORDER and BRIEF as in spike_states.cuh.
// WEIGHTED: a spike counts for its weight, else for one.
//: variants -DORDER=1 | -DORDER=4 -DBRIEF | -DORDER=2 -DWEIGHTED

#define BLOCKS 1  // of no use here
#include "spike_states.cuh"
#include "tile_scan.cuh"
#include "psc_system.cuh"

#define BLOCK_STEPS 256
#define ROWS_AT_ONCE 4

#ifdef WEIGHTED
#define WEIGHT(e) (double)weight[e]
#else
#define WEIGHT(e) 1.0
#endif

// Every spike adds its weights to the weighted trains.
// `spike`: channel · 256 + step within its block of 256, in time order; block b has spikes
// starts[b]..starts[b + 1]. weights[channel][row]. grid: x = block of steps, y = 4 rows; 256 threads.
//: starts: in, grid.x + 1
//: trains: out, rows(rows, stride, steps)
extern "C" __global__ void __launch_bounds__(BLOCK_STEPS)
    decode_weigh(const u32 *spike, const float *weight, const u32 *starts, const double *weights, int rows, int steps,
                 double *trains, size_t stride) {
    __shared__ u32 first[BLOCK_STEPS];  // each step's first spike
    u32 begin = starts[blockIdx.x], end = starts[blockIdx.x + 1];
    first[threadIdx.x] = end;
    __syncthreads();
    for (u32 e = begin + threadIdx.x; e < end; e += BLOCK_STEPS) {
        u32 step = spike[e] % BLOCK_STEPS;
        if (e == begin || spike[e - 1] % BLOCK_STEPS != step) first[step] = e;
    }
    __syncthreads();
    int step = blockIdx.x * BLOCK_STEPS + threadIdx.x, row = blockIdx.y * ROWS_AT_ONCE;
    if (step >= steps) return;
    double sum[ROWS_AT_ONCE] = {};
    for (u32 e = first[threadIdx.x]; e < end && spike[e] % BLOCK_STEPS == threadIdx.x; ++e) {
        const double *phi = weights + (size_t)(spike[e] / BLOCK_STEPS) * rows + row;
#pragma unroll
        for (int k = 0; k < ROWS_AT_ONCE; ++k) {
            if (row + k < rows) sum[k] += WEIGHT(e) * phi[k];
        }
    }
#pragma unroll
    for (int k = 0; k < ROWS_AT_ONCE; ++k) {
        if (row + k < rows) trains[(row + k) * stride + step] = sum[k];
    }
}

// Effect of each tile on a filter at rest.
// grid: row · tiles + tile; THREADS threads; THREADS · PITCH doubles shared. at[tile][state][row]:
// states behind each tile, from rest; words[row][tile][state][word]: at each word's start, from rest
// at the tile's.
//: trains: in, rows(rows, stride, steps)
//: mask: in, tiles * TILE_WORDS
//: filter: in, rows / outputs.max(1)
//: at: out, tiles * rows
//: words: out, tiles * rows * TILE_WORDS
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_tile_ends(const double *trains, size_t stride, int steps, const Mask *mask,
                     const Filter *filter, int outputs, int rows, int tiles, double *at,
                     double *words) {
    extern __shared__ double cells[];
    int row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    load_tile(trains + row * stride, tile * TILE, steps, cells);
    u32 fresh = mask[tile * THREADS + threadIdx.x].fresh;
    __syncthreads();
    Psc<double> system(filter[row / outputs]);
    PscStates<double> own = word_end(system, fresh, cells + threadIdx.x * PITCH);
    PscStates<double> s =
        tile_ends(system, own, fresh != 0,
                  words + ((size_t)row * tiles + tile) * PscStates<double>::N * THREADS);
    if (threadIdx.x == 0) put_states(s, at, tile, row, rows);
}

// From the states that tiles reach by themselves to the states at their starts.
// One thread per row.
//: at: in-out, tiles * rows
//: words: in, tiles * rows * TILE_WORDS
//: uncut: in, tiles
//: filter: in, rows / outputs.max(1)
//: carry: in-out, rows
extern "C" __global__ void decode_carry(double *at, const double *words, int steps, const u32 *uncut,
                                        int tiles, const Filter *filter, int outputs, int rows,
                                        double *carry) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    Psc<double> system(filter[row / outputs]);
    carry_tiles(system, at, words, steps, uncut, tiles, row, rows, carry);
}

// Every filter's responses, summed for each output.
// grid: output · tiles + tile; THREADS threads; twice THREADS · PITCH doubles shared.
// sums[output][step] = Σ over filters of their responses.
//: trains: in, rows(filters * outputs, stride, steps)
//: mask: in, tiles * TILE_WORDS
//: uncut: in, tiles
//: filter: in, filters
//: at: in, tiles * filters * outputs
//: words: in, tiles * filters * outputs * TILE_WORDS
//: sums: out, rows(outputs, stride, steps)
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_sum(const double *trains, size_t stride, int steps, const Mask *mask, const u32 *uncut,
               const Filter *filter, int filters, int outputs, int tiles, const double *at,
               const double *words, double *sums) {
    extern __shared__ double cells[];
    int output = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    Mask own = mask[tile * THREADS + threadIdx.x];
    double *word = cells + threadIdx.x * PITCH, *sum = word + THREADS * PITCH;
    for (int i = 0; i < 32; ++i) sum[i] = 0;
    for (int f = 0; f < filters; ++f) {
        int row = f * outputs + output;
        load_tile(trains + row * stride, tile * TILE, steps, cells);
        __syncthreads();
        Psc<double> system(filter[f]);
        PscStates<double> start =
            get_states<PscStates<double>>(at, tile, row, (size_t)filters * outputs);
        PscStates<double> s = word_start(
            system, uncut[tile],
            words + ((size_t)row * tiles + tile) * PscStates<double>::N * THREADS, start);
        run_word(system, s, own, word, word);
        for (int i = 0; i < 32; ++i) sum[i] += word[i];
        __syncthreads();
    }
    store_tile(cells + THREADS * PITCH, sums + output * stride, tile * TILE, steps);
}

// Sums and intercepts as estimates; not a number outside segments.
// estimates[step][output] = sum + intercept, kept between lowest and highest; not a number outside
// segments. last: (3, output), intercept, lowest, highest.
//: sums: in, rows(outputs, stride, steps)
//: mask: in, steps.div_ceil(32)
//: last: in, 3 * outputs
//: estimates: out, steps * outputs
extern "C" __global__ void decode_estimates(const double *sums, size_t stride, int steps,
                                            const Mask *mask, const double *last, int outputs,
                                            float *estimates) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (size_t)steps * outputs) return;
    int step = at / outputs, output = at % outputs;
    bool inside = mask[step / 32].inside >> step % 32 & 1;
    double value = sums[output * stride + step] + last[output];
    double low = last[outputs + output], high = last[2 * outputs + output];
    value = value < low ? low : value > high ? high : value;
    estimates[at] = inside ? (float)value : __int_as_float(0x7fffffff);
}
