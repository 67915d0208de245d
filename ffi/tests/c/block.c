// Sessions in blocks of the host's memory: all that their steps touch, and nothing else refers to it after closing.
#define _GNU_SOURCE
#include "support.h"

#include <pthread.h>
#include <sys/mman.h>

enum { CHANNELS = 24, OUTPUTS = 2, STEPS = 300, PAGE = 4096, MOST = 64 };

static betz_session_config configuration(void) {
    betz_session_config config;
    OK(betz_session_config_default(&config, sizeof config));
    config.health = 1;
    config.watch_channels = 1;
    config.hold = 1;
    return config;
}

static size_t size_for(const betz_model *model) {
    const betz_session_config config = configuration();
    size_t size = 0, again = 0;
    OK(betz_session_size(model, &config, &size));
    OK(betz_session_size(model, &config, &again));
    CHECK(size == again && size > 0 && size % PAGE == 0);
    return size;
}

static unsigned reported;

static void report(void *user, uint32_t level, int32_t status, const char *text) {
    (void)user, (void)level, (void)status;
    fprintf(stderr, "%s\n", text);
    reported++;
}

// The same bits as on the heap, with listeners, swaps and checkpoints; the block is freed before what listened.
static void a_session_lives_in_its_block(const betz_model *model, const betz_model *next) {
    const betz_session_config config = configuration();
    const size_t size = size_for(model);
    uint8_t *memory = aligned_alloc(PAGE, size + 2 * PAGE), *block = memory + PAGE;
    CHECK(memory != NULL);
    memset(memory, 0xA5, size + 2 * PAGE);
    betz_session *session = NULL, *heap = NULL;
    OK(betz_session_open_in(model, &config, block, size, &session));
    OK(betz_session_open(model, &config, &heap));
    CHECK((uint8_t *)session >= block && (uint8_t *)session < block + size);
    betz_trainer_config learning;
    betz_trainer *trainer = NULL;
    OK(betz_trainer_config_default(&learning, sizeof learning));
    OK(betz_trainer_open(session, model, &learning, &trainer));
    const char *const episodes[] = {"0 -(0,0.1]-> 1"};
    betz_miner_config mining;
    betz_miner *miner = NULL;
    OK(betz_miner_config_default(&mining, sizeof mining));
    mining.symbols = CHANNELS;
    mining.tick_seconds = 0.02;
    mining.episodes = episodes;
    mining.n_episodes = 1;
    OK(betz_miner_open(&mining, &miner));
    OK(betz_session_attach_miner(session, miner, 0));
    uint16_t *counts = random_counts(STEPS, CHANNELS, 3);
    float out[OUTPUTS], expected[OUTPUTS];
    size_t bytes = 0;
    for (size_t t = 0; t < STEPS; t++) {
        if (t == 100) {
            OK(betz_session_swap_model(session, next));
            OK(betz_session_swap_model(heap, next));
            OK(betz_session_request_checkpoint(session));
        }
        if (t == 200) {
            OK(betz_session_release_model(session));
            OK(betz_session_release_model(heap));
            OK(betz_session_take_checkpoint(session, NULL, 0, &bytes));
            CHECK(bytes > 0);
        }
        OK(betz_session_warm(session));
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        OK(betz_session_step_counts(heap, counts + t * CHANNELS, CHANNELS, expected, OUTPUTS));
        CHECK(same_bits(out, expected, OUTPUTS));
    }
    betz_session_close(session);
    for (size_t i = 0; i < PAGE; i++) CHECK(memory[i] == 0xA5 && block[size + i] == 0xA5);
    free(memory);
    betz_trainer_close(trainer);
    betz_miner_close(miner);
    betz_session_close(heap);
    free(counts);
    // A closed session's block had no part in use.
    CHECK(reported == 0);
}

// A model in constant memory, as in flash, at an odd address: only read, and not looked at after loading.
static void a_model_is_loaded_from_constant_memory(const betz_model *model) {
    size_t len = 0;
    OK(betz_model_save_bytes(model, NULL, 0, &len));
    const size_t mapped = (len + 1 + PAGE - 1) / PAGE * PAGE;
    uint8_t *flash = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(flash != MAP_FAILED);
    OK(betz_model_save_bytes(model, flash + 1, len, &len));
    CHECK(mprotect(flash, mapped, PROT_READ) == 0);
    betz_model *loaded = NULL;
    OK(betz_model_load_bytes(flash + 1, len, &loaded));
    CHECK(munmap(flash, mapped) == 0);
    const betz_session_config config = configuration();
    const size_t size = size_for(loaded);
    uint8_t *block = aligned_alloc(PAGE, size);
    CHECK(block != NULL);
    betz_session *session = NULL, *heap = NULL;
    OK(betz_session_open_in(loaded, &config, block, size, &session));
    OK(betz_session_open(model, &config, &heap));
    betz_model_free(loaded);
    for (uint32_t t = 0; t < STEPS; t++) {
        const uint32_t spikes[] = {t % CHANNELS, t * 7 % CHANNELS};
        float out[OUTPUTS], expected[OUTPUTS];
        OK(betz_session_step_spikes(session, spikes, 2, out, OUTPUTS));
        OK(betz_session_step_spikes(heap, spikes, 2, expected, OUTPUTS));
        CHECK(same_bits(out, expected, OUTPUTS));
    }
    betz_session_close(session);
    betz_session_close(heap);
    free(block);
}

static void *open_and_close(void *argument) {
    const betz_model *model = argument;
    const betz_session_config config = configuration();
    const size_t size = size_for(model);
    uint8_t *block = aligned_alloc(PAGE, size);
    CHECK(block != NULL);
    for (int i = 0; i < 50; i++) {
        betz_session *session = NULL;
        float out[OUTPUTS];
        OK(betz_session_open_in(model, &config, block, size, &session));
        OK(betz_session_step_spikes(session, NULL, 0, out, OUTPUTS));
        betz_session_close(session);
        memset(block, 0xFF, size);
    }
    free(block);
    return NULL;
}

static void threads_have_their_own_blocks(const betz_model *model) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, open_and_close, (void *)model) == 0);
    }
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void at_most_64_blocks_are_in_use(const betz_model *model) {
    const betz_session_config config = configuration();
    const size_t size = size_for(model);
    uint8_t *blocks = aligned_alloc(PAGE, (MOST + 1) * size);
    betz_session *sessions[MOST], *none = NULL;
    CHECK(blocks != NULL);
    for (int i = 0; i < MOST; i++) {
        OK(betz_session_open_in(model, &config, blocks + i * size, size, &sessions[i]));
    }
    uint8_t *last = blocks + MOST * size;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_session_open_in(model, &config, last, size, &none));
    betz_session_close(sessions[5]);
    OK(betz_session_open_in(model, &config, last, size, &sessions[5]));
    for (int i = 0; i < MOST; i++) betz_session_close(sessions[i]);
    CHECK(none == NULL);
    free(blocks);
}

static void refusals(const betz_model *model) {
    betz_session_config config = configuration();
    const size_t size = size_for(model);
    uint8_t *block = aligned_alloc(PAGE, size + PAGE);
    betz_session *none = NULL;
    size_t got = 7;
    CHECK(block != NULL);
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_size(NULL, &config, &got));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_size(model, NULL, &got));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_size(model, &config, NULL));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_open_in(NULL, &config, block, size, &none));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_open_in(model, NULL, block, size, &none));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_open_in(model, &config, NULL, size, &none));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_open_in(model, &config, block, size, NULL));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_session_open_in(model, &config, block + 64, size, &none));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_open_in(model, &config, block, size - 1, &none));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_open_in(model, &config, block, 0, &none));
    config.patience_steps = 0;
    config.hold_seconds = -1;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_session_open_in(model, &config, block, size, &none));
    CHECK(none == NULL && got == 7);
    free(block);
}

int main(void) {
    betz_train_config config = small_config(CHANNELS);
    config.retain_bytes = (size_t)1 << 20;
    uint16_t *counts = random_counts(STEPS, CHANNELS, 1);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    betz_model *model = NULL, *next = train_model(CHANNELS, OUTPUTS, STEPS, 2);
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    const betz_log log = {sizeof log, BETZ_LOG_PANICS, NULL, report};
    OK(betz_set_log(&log));
    a_session_lives_in_its_block(model, next);
    a_model_is_loaded_from_constant_memory(next);
    threads_have_their_own_blocks(model);
    at_most_64_blocks_are_in_use(model);
    refusals(model);
    CHECK(reported == 0);
    betz_model_free(model);
    betz_model_free(next);
    free(counts);
    free(behavior);
    puts("block: ok");
    return 0;
}
