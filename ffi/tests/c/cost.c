// Steps whose instructions and cache lines are counted (scripts/step_cost.sh):
//
//   cost MODEL CHANNELS FILTERS     trains a linear model on random counts and saves it
//   cost MODEL SPIKES               steps with so many spikes of a list, and evicts all data in between
//   cost MODEL skip TICKS           skips so many ticks, after 200 steps of counts, and makes one step of a list
#include "support.h"

#include <pthread.h>

enum { OUTPUTS = 2, MOST_OUTPUTS = 64, STEPS = 600, COUNTED = 20, EVICTED = 4 << 20, STACK = 1 << 18, PAINT = 0xA5 };

static void save(const char *path, uint32_t channels, size_t filters) {
    betz_filter bank[16];
    CHECK(filters <= 16);
    for (size_t i = 0; i < filters; i++) bank[i] = (betz_filter){0.02 * (double)(i + 1), 1};
    betz_train_config config = small_config(channels);
    config.filters = bank;
    config.n_filters = filters;
    uint16_t *counts = random_counts(STEPS, channels, 1);
    float *behavior = follow(counts, STEPS, channels, OUTPUTS);
    betz_model *model = NULL;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    OK(betz_model_save(model, path));
    betz_model_free(model);
    free(counts);
    free(behavior);
}

typedef struct {
    betz_session *session;
    const uint32_t *list;
    size_t spikes, outputs;
    // The thread's stack, painted, and the bytes that a step takes of it.
    uint8_t *stack;
    size_t taken;
} steps;

static void *run(void *argument) {
    static uint8_t other[EVICTED];
    steps *s = argument;
    float out[MOST_OUTPUTS];
    for (int i = 0; i < COUNTED; i++) {
        for (size_t at = 0; at < EVICTED; at += 64) ((volatile uint8_t *)other)[at]++;
        OK(betz_session_step_spikes(s->session, s->list, s->spikes, out, s->outputs));
    }
    const uint8_t *deepest = s->stack;
    while (*deepest == PAINT) deepest++;
    CHECK(deepest > s->stack && deepest < (const uint8_t *)out);
    s->taken = (size_t)((const uint8_t *)out - deepest);
    return NULL;
}

static void step(const char *path, size_t spikes) {
    betz_model *model = NULL;
    OK(betz_model_load(path, &model));
    const uint32_t channels = betz_model_channels(model);
    steps s = {open_session(model), NULL, spikes, betz_model_outputs(model), aligned_alloc(4096, STACK), 0};
    CHECK(s.outputs <= MOST_OUTPUTS);
    uint32_t *list = malloc((spikes + 1) * sizeof *list);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(list != NULL && s.stack != NULL && pthread_attr_init(&attributes) == 0);
    for (size_t i = 0; i < spikes; i++) list[i] = (uint32_t)(i * channels / spikes);
    s.list = list;
    memset(s.stack, PAINT, STACK);
    CHECK(pthread_attr_setstack(&attributes, s.stack, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, run, &s) == 0 && pthread_join(thread, NULL) == 0);
    betz_session_config config;
    size_t size = 0;
    OK(betz_session_config_default(&config, sizeof config));
    OK(betz_session_size(model, &config, &size));
    printf("steps %d size %zu stack %zu\n", COUNTED, size, s.taken);
    free(s.stack);
    free(list);
    betz_session_close(s.session);
    betz_model_free(model);
}

static void skip(const char *path, uint64_t ticks) {
    betz_model *model = NULL;
    OK(betz_model_load(path, &model));
    betz_session *session = open_session(model);
    float out[MOST_OUTPUTS];
    const size_t outputs = betz_model_outputs(model);
    CHECK(outputs <= MOST_OUTPUTS);
    const uint32_t channels = betz_model_channels(model);
    uint16_t *counts = calloc(channels, sizeof *counts);
    CHECK(counts != NULL && channels >= 13);
    for (uint32_t t = 0; t < 200; t++) {
        const uint32_t spikes[] = {t % 7, t % 11, t % 13};
        for (int i = 0; i < 3; i++) counts[spikes[i]]++;
        OK(betz_session_step_counts(session, counts, channels, out, outputs));
        for (int i = 0; i < 3; i++) counts[spikes[i]] = 0;
    }
    OK(betz_session_skip(session, ticks));
    const uint32_t after[] = {1, 5, 12};
    OK(betz_session_step_spikes(session, after, 3, out, outputs));
    free(counts);
    betz_session_close(session);
    betz_model_free(model);
}

int main(int argc, char **argv) {
    CHECK(argc == 3 || argc == 4);
    if (argc == 4 && strcmp(argv[2], "skip") == 0) {
        skip(argv[1], strtoull(argv[3], NULL, 10));
    } else if (argc == 4) {
        save(argv[1], (uint32_t)strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    } else {
        step(argv[1], strtoul(argv[2], NULL, 10));
    }
    return 0;
}
