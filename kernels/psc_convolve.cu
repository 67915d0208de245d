// PSC filtering by transforms (overlap-save): `convolve_load` cuts channels into rows, cuFFT
// transforms them in place, `convolve_multiply` makes the products with every filter's spectrum, cuFFT
// transforms back, `convolve_store` keeps what is whole.
//
// Items are numbered channel by channel, chunk by chunk; a batch is a run of items, one row each.
//
//: variants -DINPUT=u8 | -DINPUT=u16 | -DINPUT=float

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

// Samples of one row of a batch of transforms.
struct Chunk {
    int first;  // first sample of the input
    int count;  // number of samples
    int skip;   // of these, those at the beginning that are only the filters' history
    int to;     // the step of the output that the first sample behind the history belongs to
};

#define LOAD_SAMPLES 1024

// Four samples that are read at once.
struct alignas(4 * sizeof(INPUT)) Four {
    INPUT x, y, z, w;
};

// Cuts channels into rows of a batch of transforms.
// grid: item of the batch · parts + part; 256 threads, 4 samples each. Rows are `pitch` floats, zero
// behind their samples up to `length`.
//: chunk: in, chunks
//: rows: out, grid.x / parts.max(1) * pitch
extern "C" __global__ void convolve_load(const INPUT *input, size_t stride, const Chunk *chunk,
                                         int chunks, long long first_item, long long items, int parts,
                                         int length, int pitch, float *rows) {
    int at = blockIdx.x / parts, i = blockIdx.x % parts * LOAD_SAMPLES + 4 * threadIdx.x;
    long long item = first_item + at;
    if (i >= pitch) return;
    float4 four = make_float4(0, 0, 0, 0);
    if (item < items) {
        Chunk here = chunk[item % chunks];
        const INPUT *from = input + (item / chunks) * stride + here.first + i;
        if (i + 3 < here.count && (size_t)from % sizeof(Four) == 0) {
            Four at_once = *(const Four *)from;
            four = make_float4(at_once.x, at_once.y, at_once.z, at_once.w);
        } else {
            if (i < here.count) four.x = from[0];
            if (i + 1 < here.count) four.y = from[1];
            if (i + 2 < here.count) four.z = from[2];
            if (i + 3 < here.count) four.w = from[3];
        }
    }
    *(float4 *)(rows + (size_t)at * pitch + i) = four;  // pitch is a multiple of 32
}

#define ROWS_AT_ONCE 8

// The products of rows with every filter's spectrum; those of one filter may take the rows' place.
// grid: x = 256 bins, y = 8 rows. products[filter][row] = rows[row] · spectra[filter]; `products` may be
// `rows` where there is one filter. Rows are `pitch` floats, spectra `bins` complex numbers, scaled.
//: rows: in place, batch * pitch
//: spectra: in, filters * bins
//: products: in-out, filters * batch * pitch
extern "C" __global__ void convolve_multiply(const float *rows, const float2 *spectra, int filters,
                                             int batch, int bins, int pitch, float *products) {
    int bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= bins) return;
    float2 x[ROWS_AT_ONCE];
    int first = blockIdx.y * ROWS_AT_ONCE;
#pragma unroll
    for (int k = 0; k < ROWS_AT_ONCE; ++k) {
        if (first + k < batch) x[k] = ((const float2 *)(rows + (size_t)(first + k) * pitch))[bin];
    }
    for (int f = 0; f < filters; ++f) {
        float2 h = spectra[(size_t)f * bins + bin];
#pragma unroll
        for (int k = 0; k < ROWS_AT_ONCE; ++k) {
            if (first + k >= batch) break;
            float *row = products + ((size_t)f * batch + first + k) * pitch;
            ((float2 *)row)[bin] =
                make_float2(x[k].x * h.x - x[k].y * h.y, x[k].x * h.y + x[k].y * h.x);
        }
    }
}

// Keeps what is whole of the rows that come back.
// grid: (filter · batch + item of the batch) · parts + part; 256 threads, 4 samples each.
// output[channel · filters + filter][step].
//: products: in, filters * batch * pitch
//: chunk: in, chunks
//: output: in-out
extern "C" __global__ void convolve_store(const float *products, const Chunk *chunk, int chunks,
                                          long long first_item, long long items, int parts, int filters,
                                          int batch, int pitch, float *output, size_t output_stride) {
    int row = blockIdx.x / parts, filter = row / batch;
    long long item = first_item + row % batch;
    if (item >= items) return;
    Chunk here = chunk[item % chunks];
    const float *from = products + (size_t)row * pitch + here.skip;
    float *to = output + ((size_t)(item / chunks) * filters + filter) * output_stride + here.to;
    int whole = here.count - here.skip;
    int i = blockIdx.x % parts * LOAD_SAMPLES + 4 * threadIdx.x;
    if (i + 3 < whole && here.skip % 4 == 0 && (size_t)to % 16 == 0) {
        *(float4 *)(to + i) = *(const float4 *)(from + i);
    } else {
        for (int k = i; k < min(i + 4, whole); ++k) to[k] = from[k];
    }
}
