// Responses to sampled filters, in rows of a round: `responses[channel · width + filter][step]`.
//
// Two ways. `responses_gathered` adds a filter's samples at each spike, for spikes sorted by chunk and channel. Overlap-save:
// cuFFT transforms blocks of the input, `multiply_spectra` multiplies each spectrum by those of all filters at once, cuFFT
// transforms them back, and `place_blocks` takes the steps of each block that nothing wrapped around. Either way segments
// are so far apart in padded time that no filter reaches from one into another.
//
//: variants -DORDER=0 -DBLOCKS=8
//: module gram

typedef unsigned short u16;
typedef unsigned int u32;

#define STEPS (32 * BLOCKS)
#define WARPS 8        // of a block of threads
#define CHANNELS 4     // that a warp takes, one after another
#define AT_ONCE 8      // spikes that a lane lists at a time
#define LIST (32 * AT_ONCE)

// A filter's samples added at every spike: one launch per filter.
// grid: x = tile of WARPS · CHANNELS channels, y = chunk of the round. 32 · WARPS threads. Spikes are those of `chunks`
// sorted chunks, of which the round's first is number `round_chunk`; a response depends on those up to `back` chunks
// earlier and `ahead` later. Sample i comes `start` + i steps behind a spike. `piece` samples are in shared memory at a
// time. Shared: piece + 2 · STEPS floats. `responses` has the rows of `signals` channels from `first_channel` on.
//: ticks: in
//: offsets: in, chunks * (channels + 1)
//: samples: in, length
//: responses: in-out, rows(signals.saturating_sub(1) * width + 1 + filter, stride, grid.y * 256)
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    responses_gathered(const u16 *ticks, const u32 *offsets, int chunks, int channels, int round_chunk,
                       int back, int ahead, const float *samples, int length, int start, int piece,
                       int first_channel, int signals, int width, int filter, size_t stride,
                       float *responses) {
    extern __shared__ float h[];
    __shared__ alignas(16) int list[WARPS][LIST + 4];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int chunk = round_chunk + blockIdx.y;
    int earliest = max(0, chunk - back), latest = min(chunks - 1, chunk + ahead);
    const int NOWHERE = -STEPS;  // from there on, all of a warp's steps read zeros
    for (int from = 0; from < length; from += piece) {
        // h[STEPS + i] is sample from + i, between zeros.
        __syncthreads();
        for (int i = threadIdx.x; i < piece + 2 * STEPS; i += 32 * WARPS) {
            int sample = from + i - STEPS;
            bool inside = i >= STEPS && i < STEPS + piece && sample < length;
            h[i] = inside ? samples[sample] : 0.0f;
        }
        __syncthreads();
        for (int c = 0; c < CHANNELS; ++c) {
            int row = (blockIdx.x * CHANNELS + c) * WARPS + warp;
            if (row >= signals) break;
            float *y = responses + ((size_t)row * width + filter) * stride +
                       (size_t)blockIdx.y * STEPS + lane;
            float v[BLOCKS];
#pragma unroll
            for (int k = 0; k < BLOCKS; ++k) v[k] = from > 0 ? y[32 * k] : 0.0f;
            for (int first = earliest; first <= latest; first += 32) {
                // One chunk of spikes per lane.
                int own = first + lane;
                u32 at = 0, end = 0;
                if (own <= latest) {
                    const u32 *of = offsets + (size_t)own * (channels + 1) + first_channel + row;
                    at = of[0];
                    end = of[1];
                }
                // The sample that the warp's first step has of a spike at the chunk's step 0.
                int distance = (chunk - own) * STEPS - start - from;
                while (__any_sync(~0u, at < end)) {
                    int take = min((int)(end - at), AT_ONCE), sum = take;
#pragma unroll
                    for (int d = 1; d < 32; d *= 2) {
                        int below = __shfl_up_sync(~0u, sum, d);
                        if (lane >= d) sum += below;
                    }
                    int count = __shfl_sync(~0u, sum, 31);
                    int *to = list[warp] + sum - take;
                    for (int i = 0; i < take; ++i) {
                        int x = distance - (int)ticks[at + i];
                        to[i] = x > NOWHERE && x < piece ? x : NOWHERE;
                    }
                    at += take;
                    if (lane < 4) list[warp][count + lane] = NOWHERE;
                    __syncwarp();
                    const float *here = h + STEPS + lane;
                    for (int e = 0; e < count; e += 4) {
                        int4 x = *(const int4 *)(list[warp] + e);
#pragma unroll
                        for (int k = 0; k < BLOCKS; ++k) v[k] += here[x.x + 32 * k];
#pragma unroll
                        for (int k = 0; k < BLOCKS; ++k) v[k] += here[x.y + 32 * k];
#pragma unroll
                        for (int k = 0; k < BLOCKS; ++k) v[k] += here[x.z + 32 * k];
#pragma unroll
                        for (int k = 0; k < BLOCKS; ++k) v[k] += here[x.w + 32 * k];
                    }
                    __syncwarp();
                }
            }
#pragma unroll
            for (int k = 0; k < BLOCKS; ++k) y[32 * k] = v[k];
        }
    }
}

// The product of every block's spectrum with those of all filters, as pairs of floats.
// products[filter][block] = spectra[block] · filters[filter], where products[0] is `spectra` itself, in place.
// grid: x = pairs of a spectrum by 256 threads, y = block.
//: transfer: in, filters * 2 * pairs
//: spectra: in-out, filters * blocks * 2 * pairs
extern "C" __global__ void multiply_spectra(const float *transfer, int filters, int pairs, int blocks,
                                            float *spectra) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= pairs) return;
    float2 *out = (float2 *)spectra + (size_t)blockIdx.y * pairs + k;
    const float2 *by = (const float2 *)transfer + k;
    float2 x = *out;
    for (int f = 0; f < filters; ++f) {
        float2 h = by[(size_t)f * pairs];
        float2 y = make_float2(x.x * h.x - x.y * h.y, x.x * h.y + x.y * h.x);
        // Rounding leaves imaginary parts where a real signal has none.
        if (k == 0 || k == pairs - 1) y.y = 0.0f;
        out[(size_t)f * blocks * pairs] = y;
    }
}

// The steps of each block that nothing wrapped around, to their rows.
// Block `first` + b of all channels' is blocks[filter][b], of 2 · pairs floats; a channel has `each` blocks of `hop` steps
// that count, behind the first `skip`. grid: x = steps of a block by 256 threads, y = b, z = filter; `steps` of a row are
// written. Filter z is number `first_filter` + z of `width`.
//: blocks: in, grid.z * count * 2 * pairs
//: responses: in-out, rows((first + grid.y).saturating_sub(1) / each * width + first_filter + grid.z, stride, steps)
extern "C" __global__ void place_blocks(const float *blocks, int pairs, int count, int first, int each,
                                        int hop, int skip, int steps, int width, int first_filter,
                                        size_t stride, float *responses) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int channel = (first + (int)blockIdx.y) / each, number = (first + (int)blockIdx.y) % each;
    long long step = (long long)number * hop + i;
    if (i >= hop || step >= steps) return;
    size_t row = (size_t)channel * width + first_filter + blockIdx.z;
    size_t block = (size_t)blockIdx.z * count + blockIdx.y;
    responses[row * stride + step] = blocks[block * 2 * pairs + skip + i];
}

// Copies the first `count` values of `rows` rows. grid.y = row.
//: from: in, rows(grid.y, from_stride, count)
//: to: in-out, rows(grid.y, to_stride, count)
extern "C" __global__ void copy_rows(const float *from, size_t from_stride, int count,
                                     size_t to_stride, float *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[blockIdx.y * to_stride + i] = from[blockIdx.y * from_stride + i];
}
