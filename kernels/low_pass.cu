// A low-pass, second-order sections in series, in tiles: `low_pass_tile_ends`, `low_pass_carry`,
// `low_pass_filter`. f64 throughout: at a low cut-off the sections' poles are too near one for f32.
//
// Compile-time: SECTIONS; INPUT and OUTPUT, the types of samples.
//: variants -DSECTIONS=1 -DINPUT=u8 -DOUTPUT=float | -DSECTIONS=4 -DINPUT=double -DOUTPUT=double
//: variants -DSECTIONS=2 -DINPUT=float -DOUTPUT=float
//: module psc

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

#include "tile_scan.cuh"

// A second-order section: y = b0·x + z1; z1 = b1·x − a1·y + z2; z2 = b2·x − a2·y.
struct Section {
    double b0;  // of x
    double b1;  // of x, one step before
    double b2;  // of x, two steps before
    double a1;  // of −y, one step before
    double a2;  // of −y, two steps before
};

// The sections' delays: z1, z2 of the first, then of the next.
struct Delays {
    static const int N = 2 * SECTIONS;
    double s[N];
};

struct Cascade {
    typedef double Real;
    typedef Delays States;
    Section section[SECTIONS];
    // Powers of the transition: those of 32·k silent steps, k = 0…32, then of a tile: N × N each, row-major,
    // zero where a section would depend on a later one.
    const double *powers;

    __device__ Cascade(const Section *sections, const double *their_powers) : powers(their_powers) {
#pragma unroll
        for (int i = 0; i < SECTIONS; ++i) section[i] = sections[i];
    }

    __device__ __forceinline__ double step(Delays &z, double x) const {
#pragma unroll
        for (int i = 0; i < SECTIONS; ++i) {
            const Section &c = section[i];
            double y = c.b0 * x + z.s[2 * i];
            z.s[2 * i] = c.b1 * x - c.a1 * y + z.s[2 * i + 1];
            z.s[2 * i + 1] = c.b2 * x - c.a2 * y;
            x = y;
        }
        return x;
    }

    __device__ __forceinline__ void times(Delays &z, const double *matrix) const {
        Delays product;
#pragma unroll
        for (int i = 0; i < Delays::N; ++i) {
            product.s[i] = 0;
#pragma unroll
            for (int j = 0; j <= (i | 1); ++j) product.s[i] += matrix[i * Delays::N + j] * z.s[j];
        }
        z = product;
    }

    __device__ __forceinline__ void words(Delays &z, int count) const {
        const int SIZE = Delays::N * Delays::N;
        for (; count >= 32; count -= 32) times(z, powers + 32 * SIZE);
        if (count) times(z, powers + count * SIZE);
    }
    __device__ __forceinline__ void tile(Delays &z) const {
        times(z, powers + 33 * Delays::N * Delays::N);
    }
};

// Effect of each tile on sections at rest.
// grid: row · tiles + tile; THREADS threads; THREADS · PITCH doubles shared. at[tile][state][row]:
// states behind each tile, from rest; words[row][tile][state][word]: at each word's start, from rest
// at the tile's.
//: input: in, rows(rows, stride, steps)
//: mask: in, tiles * TILE_WORDS
//: at: out, 2 * tiles * rows
//: words: out, 2 * tiles * rows * TILE_WORDS
extern "C" __global__ void __launch_bounds__(THREADS)
    low_pass_tile_ends(const INPUT *input, size_t stride, int steps, const Mask *mask,
                       const Section *sections, const double *powers, int rows, int tiles, double *at,
                       double *words) {
    extern __shared__ double cells[];
    int row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    load_tile(input + row * stride, tile * TILE, steps, cells);
    u32 fresh = mask[tile * THREADS + threadIdx.x].fresh;
    __syncthreads();
    Cascade system(sections, powers);
    Delays own = word_end(system, fresh, cells + threadIdx.x * PITCH);
    Delays s = tile_ends(system, own, fresh != 0,
                         words + ((size_t)row * tiles + tile) * Delays::N * THREADS);
    if (threadIdx.x == 0) put_states(s, at, tile, row, rows);
}

// From the delays that tiles reach by themselves to the delays at their starts.
// One thread per row.
//: at: in-out, 2 * tiles * rows
//: words: in, 2 * tiles * rows * TILE_WORDS
//: uncut: in, tiles
//: carry: in-out, 2 * rows
extern "C" __global__ void low_pass_carry(double *at, const double *words, int steps,
                                          const u32 *uncut, int tiles, const Section *sections,
                                          const double *powers, int rows, double *carry) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    carry_tiles(Cascade(sections, powers), at, words, steps, uncut, tiles, row, rows, carry);
}

// The filtered rows; the output may be the input.
// As `low_pass_tile_ends`, from what it and `low_pass_carry` left; output[row][step], which may be the
// input.
//: input: in place, rows(rows, stride, steps)
//: mask: in, tiles * TILE_WORDS
//: uncut: in, tiles
//: at: in, 2 * tiles * rows
//: words: in, 2 * tiles * rows * TILE_WORDS
//: output: in-out, rows(rows, output_stride, steps)
extern "C" __global__ void __launch_bounds__(THREADS)
    low_pass_filter(const INPUT *input, size_t stride, int steps, const Mask *mask, const u32 *uncut,
                    const Section *sections, const double *powers, int rows, int tiles,
                    const double *at, const double *words, OUTPUT *output, size_t output_stride) {
    extern __shared__ double cells[];
    int row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    load_tile(input + row * stride, tile * TILE, steps, cells);
    Mask own = mask[tile * THREADS + threadIdx.x];
    __syncthreads();
    Cascade system(sections, powers);
    Delays start = get_states<Delays>(at, tile, row, rows);
    Delays s = word_start(system, uncut[tile],
                          words + ((size_t)row * tiles + tile) * Delays::N * THREADS, start);
    double *word = cells + threadIdx.x * PITCH;
    run_word(system, s, own, word, word);
    __syncthreads();
    store_tile(cells, output + row * output_stride, tile * TILE, steps);
}
