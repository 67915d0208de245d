// NULL for every pointer argument of every function, wrong struct sizes, wrong lengths: each is
// refused, and no output is touched.
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

enum { CHANNELS = 5, OUTPUTS = 2, STEPS = 200 };

// A place for a result, and what must still be in it after a failure.
#define CANARY ((void *)(uintptr_t)0xB0B0)

static void nulls(const betz_model *model, betz_session *session, betz_queue *queue) {
    const betz_train_config train = small_config(CHANNELS);
    betz_session_config config;
    OK(betz_session_config_default(&config, sizeof config));
    uint16_t *counts = random_counts(STEPS, CHANNELS, 5);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    const betz_spike spike = {0, 0};
    const uint32_t channel = 0;
    const uint8_t byte = 0;
    uint8_t buffer[4096];
    float out[OUTPUTS] = {1.5f, 2.5f};
    size_t size = 77;
    betz_model *new_model = CANARY;
    betz_session *new_session = CANARY;
    betz_queue *new_queue = CANARY;
    betz_stats stats;
    betz_queue_state state;
    betz_swap_state swap = (betz_swap_state)77;
    memset(&stats, 0x77, sizeof stats);
    memset(&state, 0x77, sizeof state);
    memset(buffer, 0x77, sizeof buffer);

#define NULL_REFUSED(call) CHECK_STATUS(BETZ_ERROR_NULL, call)
    NULL_REFUSED(betz_model_load(NULL, &new_model));
    NULL_REFUSED(betz_model_load("x", NULL));
    NULL_REFUSED(betz_model_load_bytes(NULL, 1, &new_model));
    NULL_REFUSED(betz_model_load_bytes(NULL, 0, &new_model));
    NULL_REFUSED(betz_model_load_bytes(&byte, 1, NULL));
    NULL_REFUSED(betz_model_save(NULL, "x"));
    NULL_REFUSED(betz_model_save(model, NULL));
    NULL_REFUSED(betz_model_save_bytes(NULL, buffer, sizeof buffer, &size));
    NULL_REFUSED(betz_model_save_bytes(model, NULL, sizeof buffer, &size));
    NULL_REFUSED(betz_model_save_bytes(model, buffer, sizeof buffer, NULL));
    betz_score score;
    NULL_REFUSED(betz_model_score(NULL, 0, &score, sizeof score));
    NULL_REFUSED(betz_model_score(model, 0, NULL, 64));
    betz_model_free(NULL);
    CHECK(betz_model_channels(NULL) == 0);
    CHECK(betz_model_outputs(NULL) == 0);
    CHECK(betz_model_step_seconds(NULL) == 0.0);
    CHECK(betz_model_delay_steps(NULL) == 0);
    CHECK(betz_model_channel_name(NULL, 0) == NULL);
    CHECK(betz_model_channel_used(NULL, 0) == 0);
    CHECK(betz_model_output_name(NULL, 0) == NULL);
    CHECK(betz_model_output_unit(NULL, 0) == NULL);

    NULL_REFUSED(betz_train_config_default(NULL, 64));
    NULL_REFUSED(betz_train(NULL, &spike, 1, behavior, STEPS, OUTPUTS, &new_model));
    NULL_REFUSED(betz_train(&train, NULL, 1, behavior, STEPS, OUTPUTS, &new_model));
    NULL_REFUSED(betz_train(&train, &spike, 1, NULL, STEPS, OUTPUTS, &new_model));
    NULL_REFUSED(betz_train(&train, &spike, 1, behavior, STEPS, OUTPUTS, NULL));
    NULL_REFUSED(betz_train_counts(NULL, counts, behavior, STEPS, OUTPUTS, &new_model));
    NULL_REFUSED(betz_train_counts(&train, NULL, behavior, STEPS, OUTPUTS, &new_model));
    NULL_REFUSED(betz_train_counts(&train, counts, NULL, STEPS, OUTPUTS, &new_model));
    NULL_REFUSED(betz_train_counts(&train, counts, behavior, STEPS, OUTPUTS, NULL));
    betz_train_config bad_train = train;
    bad_train.filters = NULL;
    NULL_REFUSED(betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));
    bad_train = train;
    bad_train.n_segments = 1;
    NULL_REFUSED(betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));
    const char *names[CHANNELS] = {"a", "b", NULL, "d", "e"};
    bad_train = train;
    bad_train.channel_names = names;
    NULL_REFUSED(betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));
    names[2] = "\xff\xfe";
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));

    bad_train = train;
    bad_train.device = "gpu";
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));

    NULL_REFUSED(betz_session_config_default(NULL, 64));
    NULL_REFUSED(betz_session_open(NULL, &config, &new_session));
    NULL_REFUSED(betz_session_open(model, NULL, &new_session));
    NULL_REFUSED(betz_session_open(model, &config, NULL));
    betz_session_config bad_config = config;
    bad_config.clamp_len = OUTPUTS;
    NULL_REFUSED(betz_session_open(model, &bad_config, &new_session));
    bad_config = config;
    bad_config.channel_mask_len = CHANNELS;
    NULL_REFUSED(betz_session_open(model, &bad_config, &new_session));
    NULL_REFUSED(betz_session_step_counts(NULL, counts, CHANNELS, out, OUTPUTS));
    NULL_REFUSED(betz_session_step_counts(session, NULL, CHANNELS, out, OUTPUTS));
    NULL_REFUSED(betz_session_step_counts(session, counts, CHANNELS, NULL, OUTPUTS));
    NULL_REFUSED(betz_session_step_spikes(NULL, &channel, 1, out, OUTPUTS));
    NULL_REFUSED(betz_session_step_spikes(session, NULL, 1, out, OUTPUTS));
    NULL_REFUSED(betz_session_step_spikes(session, &channel, 1, NULL, OUTPUTS));
    NULL_REFUSED(betz_session_reset(NULL));
    NULL_REFUSED(betz_session_stats(NULL, &stats, sizeof stats));
    NULL_REFUSED(betz_session_stats(session, NULL, 64));
    NULL_REFUSED(betz_session_clear_stats(NULL));
    NULL_REFUSED(betz_session_swap_model(NULL, model));
    NULL_REFUSED(betz_session_swap_model(session, NULL));
    NULL_REFUSED(betz_session_swap_model_after(NULL, model, 0));
    NULL_REFUSED(betz_session_swap_model_after(session, NULL, 0));
    NULL_REFUSED(betz_session_rollback_model(NULL));
    NULL_REFUSED(betz_session_release_model(NULL));
    NULL_REFUSED(betz_session_swap_state(NULL, &swap));
    NULL_REFUSED(betz_session_swap_state(session, NULL));
    NULL_REFUSED(betz_session_checkpoint(NULL, buffer, sizeof buffer, &size));
    NULL_REFUSED(betz_session_checkpoint(session, NULL, sizeof buffer, &size));
    NULL_REFUSED(betz_session_checkpoint(session, buffer, sizeof buffer, NULL));
    NULL_REFUSED(betz_session_restore(NULL, &byte, 1));
    NULL_REFUSED(betz_session_restore(session, NULL, 1));
    betz_session_close(NULL);

    NULL_REFUSED(betz_queue_open(4, BETZ_LATE_SPIKES_TAKE, NULL));
    NULL_REFUSED(betz_queue_push(NULL, &spike, 1, &size));
    NULL_REFUSED(betz_queue_push(queue, NULL, 1, &size));
    NULL_REFUSED(betz_queue_push(queue, &spike, 1, NULL));
    NULL_REFUSED(betz_queue_mark(NULL, 0));
    NULL_REFUSED(betz_queue_step(NULL, session, out, OUTPUTS));
    NULL_REFUSED(betz_queue_step(queue, NULL, out, OUTPUTS));
    NULL_REFUSED(betz_queue_step(queue, session, NULL, OUTPUTS));
    NULL_REFUSED(betz_queue_set_tick(NULL, 0));
    NULL_REFUSED(betz_queue_get_state(NULL, &state, sizeof state));
    NULL_REFUSED(betz_queue_get_state(queue, NULL, 64));
    betz_queue_close(NULL);

    // Lengths and sizes.
    CHECK_STATUS(BETZ_ERROR_MISMATCH,
                 betz_session_step_counts(session, counts, CHANNELS + 1, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_step_counts(session, counts, 0, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_MISMATCH,
                 betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS - 1));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_step_spikes(session, &channel, 1, out, 0));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_session_step_spikes(session, &channel, SIZE_MAX, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_session_step_counts(session, (const uint16_t *)((const char *)counts + 1),
                                          CHANNELS, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train(&train, &spike, 1, behavior, SIZE_MAX, OUTPUTS, &new_model));
    // Sizes that no version has: cutting a field, or garbled. (growth.c has those of other versions.)
    const uint32_t sizes[] = {0, 1, 4, sizeof config - 1, sizeof config - 2, 1 << 20, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bad_config = config;
        bad_config.struct_size = sizes[i];
        CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_session_open(model, &bad_config, &new_session));
        bad_train = train;
        bad_train.struct_size = sizes[i];
        CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE,
                     betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));
        CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE,
                     betz_train(&bad_train, &spike, 1, behavior, STEPS, OUTPUTS, &new_model));
    }
    // Fields that must be 0 or 1, or 0.
    bad_config = config;
    bad_config.statistics = 2;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &bad_config, &new_session));
    bad_config = config;
    bad_config.reserved = 1;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &bad_config, &new_session));
    betz_swap_config swapping;
    OK(betz_swap_config_default(&swapping, sizeof swapping));
    NULL_REFUSED(betz_swap_config_default(NULL, 64));
    NULL_REFUSED(betz_session_swap_model_with(NULL, model, &swapping));
    NULL_REFUSED(betz_session_swap_model_with(session, NULL, &swapping));
    NULL_REFUSED(betz_session_swap_model_with(session, model, NULL));
    swapping.by_position = 2;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_session_swap_model_with(session, model, &swapping));
    NULL_REFUSED(betz_set_allocator(NULL));
    // More folds than steps, and than memory.
    bad_train = train;
    bad_train.ridge_choice = BETZ_RIDGE_NOISE;
    const uint32_t folds[] = {STEPS + 1, 4000000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
        bad_train.folds = folds[i];
        CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                     betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));
    }
    bad_train = train;
    bad_train.threads = 1 << 20;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));
    bad_train = train;
    bad_train.thread_priority = 100;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&bad_train, counts, behavior, STEPS, OUTPUTS, &new_model));
    // A place for a model that is no regular file stays what it is.
    CHECK_STATUS(BETZ_ERROR_IO, betz_model_save(model, "/dev/null"));
    char link[] = "/tmp/betz-link-XXXXXX";
    const int file = mkstemp(link);
    CHECK(file >= 0 && close(file) == 0 && unlink(link) == 0 && symlink("/nonexistent", link) == 0);
    CHECK_STATUS(BETZ_ERROR_IO, betz_model_save(model, link));
    struct stat there;
    CHECK(lstat(link, &there) == 0 && S_ISLNK(there.st_mode) && unlink(link) == 0);
    CHECK(betz_has_feature(NULL) == 0 && betz_has_feature("telepathy") == 0);
    CHECK(betz_has_feature("train") == 1 && betz_has_feature("mine") == 1);
    CHECK(betz_has_feature("network") == 1 && betz_has_feature("sort") == 1);
    CHECK(betz_abi_version() == BETZ_ABI_VERSION);
    char version[64];
    snprintf(version, sizeof version, "%d.%d.%d", BETZ_VERSION_MAJOR, BETZ_VERSION_MINOR,
             BETZ_VERSION_PATCH);
    CHECK(strcmp(version, betz_version()) == 0);
    CHECK(betz_queue_open(SIZE_MAX, BETZ_LATE_SPIKES_TAKE, &new_queue) != BETZ_OK);

    // Nothing was touched.
    CHECK(new_model == CANARY && new_session == CANARY && new_queue == CANARY);
    CHECK(out[0] == 1.5f && out[1] == 2.5f && size == 77 && swap == (betz_swap_state)77);
    for (size_t i = 0; i < sizeof stats; i++) CHECK(((uint8_t *)&stats)[i] == 0x77);
    for (size_t i = 0; i < sizeof state; i++) CHECK(((uint8_t *)&state)[i] == 0x77);
    for (size_t i = 0; i < sizeof buffer; i++) CHECK(buffer[i] == 0x77);
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.ticks == 0 && stats.spikes == 0);
    free(counts);
    free(behavior);
}

int main(void) {
    betz_model *model = train_model(CHANNELS, OUTPUTS, STEPS, 1);
    betz_session *session = open_session(model);
    betz_queue *queue = NULL;
    OK(betz_queue_open(16, BETZ_LATE_SPIKES_TAKE, &queue));
    nulls(model, session, queue);
    betz_queue_close(queue);
    betz_session_close(session);
    betz_model_free(model);
    puts("refusals: ok");
    return 0;
}
