// Segments as masks of 32 steps. Needs u32.

#pragma once

// Segments over a word of 32 steps, one bit per step.
struct Mask {
    u32 inside;  // the step lies in a segment
    u32 fresh;   // a segment begins there, from rest
};
