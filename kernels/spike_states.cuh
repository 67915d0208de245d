// Padded time and the states of PSC filters: what the kernels that start from spikes share.
//
// Time is padded: every segment begins at a multiple of 32 steps. A block is 32 steps, a chunk
// BLOCKS blocks; a slice is a run of chunks that one thread block walks through.
//
// Compile-time: ORDER, the largest order n in the bank; BLOCKS, blocks a chunk (one warp each); BRIEF,
// defined when a filter of the bank loses more than a part in three per step.

#define STEPS (32 * BLOCKS)

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

// A block of 32 steps within its segment; an array of blocks ends with one entry more, whose `since` is 0.
struct Block {
    int since;   // steps since the segment began; 0 in its first block
    int left;    // steps until the sums end
    int before;  // steps until the sums begin; 0 once they have
    int origin;  // row of the behaviour that is paired with the first step
};

// One filter `h[m]` = scale · (m/τ)^n e^(−m/τ), m in steps.
struct Filter {
    float rate;          // 1/τ, per step
    float loss;          // 1 − e^(−1/τ)
    float scale;         // factor of the response
    int order;           // n
    double exact_rate;   // `rate` in f64
    double exact_scale;  // `scale` in f64
};

__device__ __forceinline__ float decay(float x) { return exp2f(-1.44269504f * x); }
__device__ __forceinline__ double decay(double x) { return exp(-x); }

// States of one filter, about a current step: s[i] = Σ x^i e^(−x).
template <class Real>
struct StatesOf {
    Real s[ORDER + 1];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) s[i] = 0;
    }

    // Adds one spike at distance x (in τ).
    __device__ __forceinline__ void spike(Real x) {
        Real p = decay(x);
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) {
            s[i] += p;
            p *= x;
        }
    }

    // Sums over i of C(j, i) x^(j−i) s_i, for all j: the states a distance x later, not yet decayed.
    __device__ __forceinline__ void shift(Real x) {
#pragma unroll
        for (int pass = 0; pass < ORDER; ++pass) {
#pragma unroll
            for (int j = ORDER; j > pass; --j) s[j] += x * s[j - 1];
        }
    }

    // One step later. A slow filter's 1 − e^(−1/τ) is exact in f32 where its e^(−1/τ) would not be;
    // of a brief one, it is the other way round.
    __device__ __forceinline__ void step(Real rate, Real loss) {
        shift(rate);
#ifdef BRIEF
        bool slow = rate < Real(0.4);
        Real factor = slow ? -loss : decay(rate);
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) s[i] = factor * s[i] + (slow ? s[i] : Real(0));
#else
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) s[i] -= loss * s[i];
#endif
    }

    // `steps` steps later.
    __device__ __forceinline__ void advance(Real rate, int steps) {
        Real x = rate * steps;
        Real p = decay(x);
        if (p == 0) return clear();  // and x^i could overflow
        shift(x);
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) s[i] *= p;
    }
};

typedef StatesOf<float> States;
typedef StatesOf<double> ExactStates;
