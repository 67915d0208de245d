// Spikes as trains of counts, one row a channel. WEIGHTED: each counts for its weight, else for one.
//
//: variants -DSTEPS=1 | -DWEIGHTED
//: module psc

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

#ifdef WEIGHTED
#define WEIGHT(e) weight[e]
#else
#define WEIGHT(e) 1.0f
#endif

// Spikes as trains of counts, one row a channel.
// trains[channel − first_channel][32 · block + step] += 1 (or its weight) for every spike; counts in f32 are exact,
// so their order does not matter, and there is one value of a signal a step. Block b has spikes starts[b]..starts[b + 1]. grid: one block of threads
// each.
//: starts: in, grid.x + 1
//: trains: in-out, rows(channels, stride, 32 * grid.x)
extern "C" __global__ void trains_event(const u16 *channel, const u8 *step, const float *weight,
                                        const u32 *starts, int first_channel, int channels, size_t stride, float *trains) {
    u32 end = starts[blockIdx.x + 1];
    for (u32 e = starts[blockIdx.x] + threadIdx.x; e < end; e += blockDim.x) {
        int row = channel[e] - first_channel;
        if (row < 0 || row >= channels) continue;
        atomicAdd(trains + row * stride + 32 * (size_t)blockIdx.x + step[e], WEIGHT(e));
    }
}
