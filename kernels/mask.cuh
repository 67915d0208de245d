// Segments as masks of 32 steps. Needs u32.

#pragma once

#include "layout.cuh"

// What is known of a word: bit i of `inside` says that step i lies in a segment, of `fresh` that a
// segment begins there, from rest.
struct Mask {
    u32 inside;
    u32 fresh;
};
static_assert(sizeof(Mask) == 8 && OFFSET(Mask, inside) == 0 && OFFSET(Mask, fresh) == 4);
