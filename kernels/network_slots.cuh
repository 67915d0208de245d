// Slots of the buffer of edges, as `network_walk.cu` has them, for walks whose warps take runs of slots. Needs u32 and u64.

#pragma once

// Slots that a warp takes with one addition.
constexpr u32 RUN = 512;
// The key of a slot without an edge.
constexpr u64 EMPTY = ~0ull;
constexpr u32 ALL = 0xffffffffu;

// A warp's slots: a run of the buffer.
struct Sink {
    u64* keys;
    float* values;
    u64* slots;
    u64 capacity, at;
    u32 left, lane, kept;

    // One pair of each lane that has one. All threads of the warp.
    __device__ void put(bool keep, u64 key, float value) {
        const u32 those = __ballot_sync(ALL, keep), total = __popc(those);
        u64 more = 0;
        if (total > left) {
            if (lane == 0) {
                more = atomicAdd(slots, (u64)RUN);
            }
            more = __shfl_sync(ALL, more, 0);
        }
        if (keep) {
            const u32 place = __popc(those & ((1u << lane) - 1));
            const u64 own = place < left ? at + place : more + (place - left);
            if (own < capacity) {
                keys[own] = key;
                values[own] = value;
            }
        }
        if (total > left) {
            at = more + (total - left);
            left = RUN - (total - left);
        } else {
            at += total;
            left -= total;
        }
        kept += total;
    }

    // Empties the slots that are left, and adds up the others. All threads of the warp.
    __device__ void close(float no_value, u64* all_kept) {
        for (u32 slot = lane; slot < left; slot += 32) {
            if (at + slot < capacity) {
                keys[at + slot] = EMPTY;
                values[at + slot] = no_value;
            }
        }
        if (lane == 0) {
            atomicAdd(all_kept, (u64)kept);
        }
    }
};
