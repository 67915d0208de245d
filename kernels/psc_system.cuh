// A PSC filter as a system of tile_scan.cuh. Needs ORDER and, where spike_states.cuh says so, BRIEF.

template <class Number>
struct PscStates : StatesOf<Number> {
    static const int N = ORDER + 1;
};

template <class Number>
struct Psc {
    typedef Number Real;
    typedef PscStates<Number> States;
    Number rate, loss, scale, tile_decay;
    int order;

    __device__ explicit Psc(const Filter &f)
        : rate((Number)f.exact_rate),
          loss(sizeof(Number) == 4 ? (Number)f.loss : (Number)-expm1(-f.exact_rate)),
          scale((Number)f.exact_scale),
          tile_decay((Number)exp(-f.exact_rate * TILE)),
          order(f.order) {}

    __device__ __forceinline__ Number step(States &s, Number x) const {
        s.step(rate, loss);
        s.s[0] += x;
        Number value = s.s[0];
#pragma unroll
        for (int d = 1; d <= ORDER; ++d) value = order == d ? s.s[d] : value;
        return scale * value;
    }

    __device__ __forceinline__ void words(States &s, int count) const { s.advance(rate, 32 * count); }

    __device__ __forceinline__ void tile(States &s) const {
        if (tile_decay == 0) return clear(s);  // and x^i could overflow
        s.shift(rate * TILE);
#pragma unroll
        for (int i = 0; i <= ORDER; ++i) s.s[i] *= tile_decay;
    }
};
