// Shared by the C tests: checks, random numbers, and a small model.
#ifndef BETZ_TEST_SUPPORT_H
#define BETZ_TEST_SUPPORT_H

#include <betz.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK_STATUS(expected, call)                                                               \
    do {                                                                                           \
        const betz_status got_status = (call);                                                     \
        if (got_status != (expected)) {                                                            \
            char message[512];                                                                     \
            betz_last_error(message, sizeof message);                                              \
            fprintf(stderr, "%s:%d: %s\n  expected %d, got %d (%s): %s\n", __FILE__, __LINE__,      \
                    #call, (int)(expected), (int)got_status, betz_status_string(got_status),       \
                    message);                                                                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call) CHECK_STATUS(BETZ_OK, call)

// xorshift64*: the same numbers everywhere.
static inline uint32_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * 2685821657736338717ull) >> 32);
}

// Counts, (steps, channels), most of them 0.
static inline uint16_t *random_counts(size_t steps, size_t channels, uint64_t seed) {
    uint16_t *counts = malloc((steps * channels + 1) * sizeof *counts);
    CHECK(counts != NULL);
    for (size_t i = 0; i < steps * channels; i++) {
        const uint32_t chance = next_random(&seed) % 16;
        counts[i] = (uint16_t)(chance == 0 ? 2 : chance < 4 ? 1 : 0);
    }
    return counts;
}

// Behaviour that can be decoded: each output follows the recent counts of some channels.
static inline float *follow(const uint16_t *counts, size_t steps, size_t channels, size_t outputs) {
    float *behavior = calloc(steps * outputs + 1, sizeof *behavior);
    CHECK(behavior != NULL);
    for (size_t t = 0; t < steps; t++) {
        for (size_t o = 0; o < outputs; o++) {
            const float before = t > 0 ? behavior[(t - 1) * outputs + o] : 0.0f;
            float drive = 0.0f;
            for (size_t c = o; c < channels; c += outputs) {
                drive += counts[t * channels + c] * (c % 2 ? -1.0f : 1.0f);
            }
            behavior[t * outputs + o] = 0.8f * before + drive;
        }
    }
    return behavior;
}

// One filter, a ridge by noise, no cross-validation.
static inline betz_train_config small_config(uint32_t channels) {
    static const betz_filter filter = {0.1, 0};
    betz_train_config config;
    OK(betz_train_config_default(&config, sizeof config));
    config.filters = &filter;
    config.n_filters = 1;
    config.ridge_choice = BETZ_RIDGE_NOISE;
    config.folds = 0;
    config.channels = channels;
    config.step_seconds = 0.02;
    return config;
}

static inline betz_model *train_model(uint32_t channels, size_t outputs, size_t steps,
                                      uint64_t seed) {
    const betz_train_config config = small_config(channels);
    uint16_t *counts = random_counts(steps, channels, seed);
    float *behavior = follow(counts, steps, channels, outputs);
    betz_model *model = NULL;
    OK(betz_train_counts(&config, counts, behavior, steps, outputs, &model));
    free(counts);
    free(behavior);
    return model;
}

static inline betz_session *open_session(const betz_model *model) {
    betz_session_config config;
    betz_session *session = NULL;
    OK(betz_session_config_default(&config, sizeof config));
    OK(betz_session_open(model, &config, &session));
    return session;
}

static inline int same_bits(const float *a, const float *b, size_t n) {
    return memcmp(a, b, n * sizeof *a) == 0;
}

#endif
