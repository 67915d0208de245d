// A linear recurrence over rows of samples, cut into tiles that run side by side.
//
// A word is 32 steps, the share of one thread; a tile is the words of one block of threads. Three
// kernels make one run: `tile_ends` gives, for a system at rest at a tile's start, the states at each
// word's start and behind the tile; `carry_tiles`, one thread per row, turns the latter into the states
// at each tile's start; `word_start` puts the two together, and every word runs from there.
// Sums are always made in the same order: two runs give the same bits.
//
// A system has a type `Real`, a type `States` with an array `s` of N of them, and
//   Real step(States &, Real x)      one step with its input, and its output
//   void words(States &, int count)  32 · count steps without input, count <= THREADS
//   void tile(States &)              a tile's steps without input
// It is linear: states of a sum are sums of states.

#include "mask.cuh"

#define THREADS 128
#define TILE (32 * THREADS)
#define PITCH 33  // of a word's cells in shared memory: no two lanes of a warp meet in a bank

template <class T>
struct alignas(4 * sizeof(T)) Four {
    T v[4];
};

// Copies steps first..first + TILE of a row of `count` samples to `cells`; zeros behind the row's end.
template <class Real, class In>
__device__ __forceinline__ void load_tile(const In *row, int first, int count, Real *cells) {
    int most = min(TILE, count - first);
    const In *from = row + first;
    if (sizeof(In) <= 4 && most == TILE && (size_t)from % sizeof(Four<In>) == 0) {
#pragma unroll 4
        for (int e = 4 * threadIdx.x; e < TILE; e += 4 * THREADS) {
            Four<In> four = *(const Four<In> *)(from + e);
#pragma unroll
            for (int k = 0; k < 4; ++k) cells[e / 32 * PITCH + e % 32 + k] = (Real)four.v[k];
        }
    } else {
        for (int e = threadIdx.x; e < TILE; e += THREADS) {
            cells[e / 32 * PITCH + e % 32] = e < most ? (Real)from[e] : (Real)0;
        }
    }
}

// Copies `cells` to steps first..first + TILE of a row of `count` samples.
template <class Out, class Real>
__device__ __forceinline__ void store_tile(const Real *cells, Out *row, int first, int count) {
    int most = min(TILE, count - first);
    Out *to = row + first;
    if (sizeof(Out) <= 4 && most == TILE && (size_t)to % sizeof(Four<Out>) == 0) {
#pragma unroll 4
        for (int e = 4 * threadIdx.x; e < TILE; e += 4 * THREADS) {
            Four<Out> four;
#pragma unroll
            for (int k = 0; k < 4; ++k) four.v[k] = (Out)cells[e / 32 * PITCH + e % 32 + k];
            *(Four<Out> *)(to + e) = four;
        }
    } else {
        for (int e = threadIdx.x; e < most; e += THREADS) {
            to[e] = (Out)cells[e / 32 * PITCH + e % 32];
        }
    }
}

template <class States>
__device__ __forceinline__ void clear(States &s) {
#pragma unroll
    for (int i = 0; i < States::N; ++i) s.s[i] = 0;
}

template <class States>
__device__ __forceinline__ void add(States &s, const States &other) {
#pragma unroll
    for (int i = 0; i < States::N; ++i) s.s[i] += other.s[i];
}

template <class States>
__device__ __forceinline__ States from_lane_below(const States &s, int distance) {
    States other;
#pragma unroll
    for (int i = 0; i < States::N; ++i) {
        other.s[i] = __shfl_up_sync(0xffffffffu, s.s[i], distance);
    }
    return other;
}

// States behind this thread's word, from rest before it.
template <class System, class Real = typename System::Real>
__device__ __forceinline__ typename System::States word_end(const System &system, u32 fresh,
                                                            const Real *x) {
    typename System::States s;
    clear(s);
    if (fresh == 0) {
#pragma unroll 8
        for (int i = 0; i < 32; ++i) system.step(s, x[i]);
    } else {
        for (int i = 0; i < 32; ++i) {
            if (fresh >> i & 1) clear(s);
            system.step(s, x[i]);
        }
    }
    return s;
}

// Runs this thread's word from states `s`; outside segments the output is zero. y may be x.
template <class System, class Real = typename System::Real>
__device__ __forceinline__ void run_word(const System &system, typename System::States s,
                                         const Mask &mask, const Real *x, Real *y) {
    if (mask.fresh == 0 && mask.inside == 0xffffffffu) {
#pragma unroll 8
        for (int i = 0; i < 32; ++i) y[i] = system.step(s, x[i]);
    } else {
        for (int i = 0; i < 32; ++i) {
            if (mask.fresh >> i & 1) clear(s);
            Real value = system.step(s, x[i]);
            y[i] = mask.inside >> i & 1 ? value : (Real)0;
        }
    }
}

// The sums over words up to and with this thread's within its warp, in place; `cut` says whether a
// segment began in one of them, so that nothing from before counts.
template <class System>
__device__ __forceinline__ void scan_warp(const System &system, typename System::States &own,
                                          bool &cut) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        typename System::States before = from_lane_below(own, d);
        bool cut_before = __shfl_up_sync(0xffffffffu, (int)cut, d);
        if (lane >= d) {
            if (!cut) {
                system.words(before, d);
                add(own, before);
            }
            cut = cut || cut_before;
        }
    }
}

// Hands every warp's sums to all threads. Both arrays are shared, one entry a warp.
template <class States>
__device__ __forceinline__ void share_warps(const States &own, bool cut, States *sums, bool *cuts) {
    if (threadIdx.x % 32 == 31) {
        sums[threadIdx.x / 32] = own;
        cuts[threadIdx.x / 32] = cut;
    }
    __syncthreads();
}

// Moves `s` from the start of the tile to that of warp `warp`.
template <class System>
__device__ __forceinline__ void to_warp(const System &system, typename System::States &s, int warp,
                                        const typename System::States *sums, const bool *cuts) {
    for (int w = 0; w < warp; ++w) {
        if (cuts[w]) {
            clear(s);
        } else {
            system.words(s, 32);
        }
        add(s, sums[w]);
    }
}

// From each thread's states behind its word, from rest before it: writes the states at the words'
// starts, from rest at the tile's, to words[i][thread], and returns those behind the tile, to be used
// by thread 0.
template <class System>
__device__ typename System::States tile_ends(const System &system, typename System::States own,
                                             bool cut, typename System::Real *words) {
    typedef typename System::States States;
    __shared__ States sums[THREADS / 32];
    __shared__ bool cuts[THREADS / 32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    scan_warp(system, own, cut);
    share_warps(own, cut, sums, cuts);
    States s;
    clear(s);
    to_warp(system, s, warp, sums, cuts);
    States before = from_lane_below(own, 1);
    bool cut_before = __shfl_up_sync(0xffffffffu, (int)cut, 1);
    if (lane > 0) {
        if (cut_before) {
            clear(s);
        } else {
            system.words(s, lane);
        }
        add(s, before);
    }
#pragma unroll
    for (int i = 0; i < States::N; ++i) words[i * THREADS + threadIdx.x] = s.s[i];
    clear(s);
    if (threadIdx.x == 0) to_warp(system, s, THREADS / 32, sums, cuts);
    __syncthreads();
    return s;
}

// States at the start of this thread's word, from those at the start of the tile, of which the first
// `uncut` words know: no segment begins before them.
template <class System>
__device__ typename System::States word_start(const System &system, u32 uncut,
                                              const typename System::Real *words,
                                              typename System::States start) {
    typename System::States s;
#pragma unroll
    for (int i = 0; i < System::States::N; ++i) s.s[i] = words[i * THREADS + threadIdx.x];
    if (threadIdx.x < uncut) {
        system.words(start, threadIdx.x);
        add(s, start);
    }
    return s;
}

// One row's states: at[tile][i][row], of `rows`.
template <class States, class Stored>
__device__ __forceinline__ void put_states(const States &s, Stored *at, int tile, size_t row,
                                           size_t rows) {
#pragma unroll
    for (int i = 0; i < States::N; ++i) at[((size_t)tile * States::N + i) * rows + row] = s.s[i];
}

template <class States, class Stored>
__device__ __forceinline__ States get_states(const Stored *at, int tile, size_t row, size_t rows) {
    States s;
#pragma unroll
    for (int i = 0; i < States::N; ++i) s.s[i] = at[((size_t)tile * States::N + i) * rows + row];
    return s;
}

// Turns the states behind every tile, each from rest, into those at every tile's start; `carry` holds
// those at the start of the first, and afterwards those behind the last step (behind the last whole
// word, where a row ends inside one: it cannot be gone on from). One thread per row.
// `uncut[tile]`: words of the tile before which no segment begins in it; more than there are, if none
// does.
template <class System, class Stored>
__device__ void carry_tiles(const System &system, Stored *at, const Stored *words, int steps,
                            const u32 *uncut, int tiles, size_t row, size_t rows, double *carry) {
    typedef typename System::States States;
    int last_words = steps % TILE / 32;
    States s = get_states<States>(carry, 0, row, rows);
    const int AHEAD = 32 / States::N;
    for (int first = 0; first < tiles; first += AHEAD) {
        Stored ends[AHEAD][States::N];  // asked for together: the loop waits for memory once
        bool cut[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            if (first + k >= tiles) break;
            cut[k] = uncut[first + k] <= THREADS;
#pragma unroll
            for (int i = 0; i < States::N; ++i) {
                ends[k][i] = at[((size_t)(first + k) * States::N + i) * rows + row];
            }
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            if (first + k >= tiles) break;
            put_states(s, at, first + k, row, rows);
            if (first + k == tiles - 1 && steps % TILE) {
                if (last_words < uncut[first + k]) {
                    system.words(s, last_words);
                } else {
                    clear(s);
                }
                const Stored *last = words + (row * tiles + first + k) * States::N * THREADS;
#pragma unroll
                for (int i = 0; i < States::N; ++i) s.s[i] += last[i * THREADS + last_words];
                break;
            }
            if (cut[k]) {
                clear(s);
            } else {
                system.tile(s);
            }
#pragma unroll
            for (int i = 0; i < States::N; ++i) s.s[i] += ends[k][i];
        }
    }
    put_states(s, carry, 0, row, rows);
}
