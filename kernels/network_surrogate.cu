// Surrogates of a signal whose Fourier phases are drawn anew: `surrogate_turn` turns every bin of the nodes' spectra by a
// random angle, cuFFT transforms them back, and `surrogate_place` writes (samples, nodes). Angles are those of the CPU:
// ChaCha with 8 rounds (Bernstein 2008) in one stream per segment and node, 64 bits per bin in the order of the bins.

typedef unsigned int u32;
typedef unsigned long long u64;

#define BINS 8   // that one block of ChaCha gives angles for
#define TILE 32  // samples and nodes that a block of threads writes

constexpr double TURN = 6.283185307179586;

__device__ __forceinline__ u32 rotated(u32 x, int by) { return __funnelshift_l(x, x, by); }

__device__ __forceinline__ void quarter(u32 &a, u32 &b, u32 &c, u32 &d) {
    a += b;
    d = rotated(d ^ a, 16);
    c += d;
    b = rotated(b ^ c, 12);
    a += b;
    d = rotated(d ^ a, 8);
    c += d;
    b = rotated(b ^ c, 7);
}

// Block `counter` of stream (`segment`, `node`).
__device__ void chacha(const u32 *key, u64 counter, u32 node, u32 segment, u32 *words) {
    u32 from[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u, key[0], key[1], key[2], key[3],
                    key[4], key[5], key[6], key[7], (u32)counter, (u32)(counter >> 32), node, segment};
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i] = from[i];
#pragma unroll
    for (int round = 0; round < 8; round += 2) {
        quarter(words[0], words[4], words[8], words[12]);
        quarter(words[1], words[5], words[9], words[13]);
        quarter(words[2], words[6], words[10], words[14]);
        quarter(words[3], words[7], words[11], words[15]);
        quarter(words[0], words[5], words[10], words[15]);
        quarter(words[1], words[6], words[11], words[12]);
        quarter(words[2], words[7], words[8], words[13]);
        quarter(words[3], words[4], words[9], words[14]);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i] += from[i];
}

// The spectra of a segment with new phases. grid: x = parts of the bins, y = node. The first bin, and those behind the
// `drawn` next ones, stay real. One thread per BINS bins.
//: spectra: in, grid.y * bins * 2
//: key: in, 8
//: turned: out, grid.y * bins * 2
extern "C" __global__ void surrogate_turn(const float *spectra, const u32 *key, int bins, int drawn, u32 segment,
                                          float *turned) {
    int group = blockIdx.x * blockDim.x + threadIdx.x;
    int first = 1 + BINS * group;
    const float *from = spectra + (size_t)blockIdx.y * bins * 2;
    float *to = turned + (size_t)blockIdx.y * bins * 2;
    if (group == 0) {
        to[0] = from[0];
        to[1] = 0;
    }
    if (first >= bins) return;
    u32 words[16];
    chacha(key, group, blockIdx.y, segment, words);
#pragma unroll
    for (int i = 0; i < BINS; ++i) {
        int bin = first + i;
        if (bin >= bins) break;
        double re = from[2 * bin], im = from[2 * bin + 1];
        if (bin <= drawn) {
            u64 bits = (u64)words[2 * i + 1] << 32 | words[2 * i];
            double sine, cosine, angle = (double)(bits >> 12) * 0x1p-52 * TURN;
            sincos(angle, &sine, &cosine);
            double turned_re = re * cosine - im * sine;
            im = re * sine + im * cosine;
            re = turned_re;
        } else {
            im = 0;
        }
        to[2 * bin] = (float)re;
        to[2 * bin + 1] = (float)im;
    }
}

// Writes `length` samples of each node from sample `first` on: mean + scale · value. grid: x = tile of samples, y = tile of
// nodes; TILE × 8 threads. A node's values are `stride` apart from the next node's.
//: values: in, nodes.saturating_sub(1) * stride + length
//: mean: in, nodes
//: scale: in, nodes
//: out: in-out, (first + length) * nodes
extern "C" __global__ void surrogate_place(const float *values, int stride, int length, int nodes,
                                           const double *mean, const double *scale, int first, float *out) {
    __shared__ float tile[TILE][TILE + 1];
    int lane = threadIdx.x % TILE, line = threadIdx.x / TILE;
    for (int i = line; i < TILE; i += 8) {
        int node = blockIdx.y * TILE + i, t = blockIdx.x * TILE + lane;
        if (node < nodes && t < length) tile[i][lane] = values[(size_t)node * stride + t];
    }
    __syncthreads();
    for (int i = line; i < TILE; i += 8) {
        int node = blockIdx.y * TILE + lane, t = blockIdx.x * TILE + i;
        if (node < nodes && t < length) {
            out[(size_t)(first + t) * nodes + node] = (float)(mean[node] + scale[node] * (double)tile[lane][i]);
        }
    }
}
