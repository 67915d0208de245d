// PSC filtering by the recursion of the filters' states, in tiles: `psc_tile_ends`, `psc_carry`,
// `psc_responses`. Sums within a word are f32, those across tiles f64.
//
//: variants -DORDER=1 -DINPUT=u8 | -DORDER=4 -DINPUT=u16 -DBRIEF | -DORDER=1 -DINPUT=float

#define BLOCKS 1  // of no use here
#include "spike_states.cuh"
#include "tile_scan.cuh"
#include "psc_system.cuh"

typedef Psc<float> System;

// Counts of a word as they lie in memory: EACH in 32 bits, BITS each.
#define EACH (4 / (int)sizeof(INPUT))
#define BITS (8 * (int)sizeof(INPUT))
#define RAW (32 / EACH)

// Bits set in a word's counts up to which they are taken spike by spike.
#define SPARSE 8

__device__ __forceinline__ u32 low_bits(int bits) { return bits < 32 ? (1u << bits) - 1 : ~0u; }

// Reads the calling thread's word: zeros behind the row's end, and before the last segment's begin in
// it, since what came before counts for nothing.
__device__ __forceinline__ void load_counts(const INPUT *row, int first, int count, u32 fresh,
                                            u32 *raw) {
    const INPUT *from = row + first;
    if (first + 32 <= count && (size_t)from % 16 == 0) {
#pragma unroll
        for (int i = 0; i < RAW / 4; ++i) ((uint4 *)raw)[i] = ((const uint4 *)from)[i];
    } else {
#pragma unroll
        for (int i = 0; i < RAW; ++i) {
            raw[i] = 0;
            for (int k = 0; k < EACH; ++k) {
                int step = first + i * EACH + k;
                if (step < count) raw[i] |= (u32)row[step] << (k * BITS % 32);
            }
        }
    }
    if (fresh) {
        int begin = 31 - __clz(fresh);
#pragma unroll
        for (int i = 0; i < RAW; ++i) {
            raw[i] &= ~low_bits(BITS * min(max(begin - i * EACH, 0), EACH));
        }
    }
}

// States behind a word of counts, from rest before it. By whole warps.
__device__ __forceinline__ System::States counts_end(const System &system, const u32 *raw) {
    System::States s;
    clear(s);
    int bits = 0;
#pragma unroll
    for (int i = 0; i < RAW; ++i) bits += __popc(raw[i]);
    if (__any_sync(0xffffffffu, bits > SPARSE)) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            u32 count = raw[i / EACH] >> (i % EACH * BITS) & low_bits(BITS);
            system.step(s, (float)count);
        }
        return s;
    }
#pragma unroll
    for (int i = 0; i < RAW; ++i) {
        u32 rest = raw[i];
        while (__any_sync(0xffffffffu, rest != 0)) {
            int k = rest ? (__ffs(rest) - 1) / BITS : 0;
            u32 count = rest >> (k * BITS) & low_bits(BITS);
            rest &= ~(low_bits(BITS) << (k * BITS));
            float x = system.rate * (31 - i * EACH - k);
            float p = (float)count * decay(x);
#pragma unroll
            for (int j = 0; j <= ORDER; ++j) {
                s.s[j] += p;
                p *= x;
            }
        }
    }
    return s;
}

// Effect of each tile on every filter at rest.
// grid: row · tiles + tile for every input row (channel); THREADS threads; THREADS · PITCH floats
// shared for INPUT float. at[tile][state][channel · filters + filter]: states behind each tile, from
// rest; words[channel · filters + filter][tile][state][word]: states at each word's start, from rest
// at the tile's.
//: input: in, rows(channels, stride, steps)
//: mask: in, tiles * TILE_WORDS
//: filter: in, filters
//: at: out, tiles * channels * filters
//: words: out, tiles * channels * filters * TILE_WORDS
extern "C" __global__ void __launch_bounds__(THREADS)
    psc_tile_ends(const INPUT *input, size_t stride, int steps, const Mask *mask,
                  const Filter *filter, int filters, int channels, int tiles, float *at,
                  float *words) {
    extern __shared__ float cells[];
    int channel = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    u32 fresh = mask[tile * THREADS + threadIdx.x].fresh;
    const bool COUNTS = sizeof(INPUT) < 4;
    alignas(16) u32 raw[RAW];
    if (COUNTS) {
        load_counts(input + channel * stride, tile * TILE + 32 * threadIdx.x, steps, fresh, raw);
    } else {
        load_tile(input + channel * stride, tile * TILE, steps, cells);
        __syncthreads();
    }
    for (int f = 0; f < filters; ++f) {
        System system(filter[f]);
        size_t row = (size_t)channel * filters + f;
        System::States own = COUNTS ? counts_end(system, raw)
                                    : word_end(system, fresh, cells + threadIdx.x * PITCH);
        System::States s = tile_ends(system, own, fresh != 0,
                                     words + (row * tiles + tile) * System::States::N * THREADS);
        if (threadIdx.x == 0) put_states(s, at, tile, row, (size_t)channels * filters);
    }
}

// From the states that tiles reach by themselves to the states at their starts.
// One thread per row (channel · filters + filter).
//: at: in-out, tiles * channels * filters
//: words: in, tiles * channels * filters * TILE_WORDS
//: uncut: in, tiles
//: filter: in, filters
//: carry: in-out, channels * filters
extern "C" __global__ void psc_carry(float *at, const float *words, int steps, const u32 *uncut,
                                     int tiles, const Filter *filter, int filters, int channels,
                                     double *carry) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, rows = channels * filters;
    if (row >= rows) return;
    Psc<double> system(filter[row % filters]);
    carry_tiles(system, at, words, steps, uncut, tiles, row, rows, carry);
}

// The responses to every filter.
// As `psc_tile_ends`, from what it and `psc_carry` left; output[channel · width + filter][step].
// THREADS · PITCH floats shared, twice that where there are several filters.
//: input: in, rows(channels, stride, steps)
//: mask: in, tiles * TILE_WORDS
//: uncut: in, tiles
//: filter: in, filters
//: at: in, tiles * channels * filters
//: words: in, tiles * channels * filters * TILE_WORDS
//: output: in-out, rows(channels.saturating_sub(1) * width + filters, output_stride, steps)
extern "C" __global__ void __launch_bounds__(THREADS)
    psc_responses(const INPUT *input, size_t stride, int steps, const Mask *mask, const u32 *uncut,
                  const Filter *filter, int filters, int channels, int tiles, const float *at,
                  const float *words, int width, float *output, size_t output_stride) {
    extern __shared__ float cells[];
    int channel = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    load_tile(input + channel * stride, tile * TILE, steps, cells);
    Mask own = mask[tile * THREADS + threadIdx.x];
    __syncthreads();
    for (int f = 0; f < filters; ++f) {
        System system(filter[f]);
        size_t row = (size_t)channel * filters + f;
        System::States start =
            get_states<System::States>(at, tile, row, (size_t)channels * filters);
        System::States s =
            word_start(system, uncut[tile],
                       words + (row * tiles + tile) * System::States::N * THREADS, start);
        // The last filter overwrites the input.
        float *y = f + 1 < filters ? cells + THREADS * PITCH : cells;
        run_word(system, s, own, cells + threadIdx.x * PITCH, y + threadIdx.x * PITCH);
        __syncthreads();
        store_tile(y, output + ((size_t)channel * width + f) * output_stride, tile * TILE, steps);
        __syncthreads();
    }
}
