// The life of a model, a session and a queue, each function doing what the header says.
#include "support.h"

#include <math.h>
#include <unistd.h>

enum { CHANNELS = 12, OUTPUTS = 3, STEPS = 400 };

static void versions(void) {
    CHECK(betz_abi_version() == BETZ_ABI_VERSION);
    CHECK(strlen(betz_version()) >= 5);
    char begin[64];
    snprintf(begin, sizeof begin, "betz %s abi %u commit ", betz_version(), (unsigned)betz_abi_version());
    CHECK(strncmp(betz_version_full(), begin, strlen(begin)) == 0);
    CHECK(strstr(betz_version_full(), " train mine network sort") != NULL);
    CHECK(strcmp(betz_status_string(BETZ_OK), "success") == 0);
    CHECK(strcmp(betz_status_string((betz_status)12345), "unknown status") == 0);
}

static void model_is_saved_and_loaded(const betz_model *model) {
    CHECK(betz_model_channels(model) == CHANNELS);
    CHECK(betz_model_outputs(model) == OUTPUTS);
    CHECK(betz_model_step_seconds(model) == 0.02);
    CHECK(betz_model_delay_steps(model) == 0);
    CHECK(strcmp(betz_model_channel_name(model, 11), "ch11") == 0);
    CHECK(betz_model_channel_name(model, CHANNELS) == NULL);
    CHECK(betz_model_channel_used(model, 0) == 1);
    CHECK(betz_model_channel_used(model, CHANNELS) == 0);
    CHECK(strcmp(betz_model_output_name(model, 0), "x0") == 0);
    CHECK(betz_model_output_name(model, OUTPUTS) == NULL);
    CHECK(strcmp(betz_model_output_unit(model, 0), "") == 0);
    CHECK(betz_model_output_unit(model, OUTPUTS) == NULL);

    size_t len = 0;
    OK(betz_model_save_bytes(model, NULL, 0, &len));
    uint8_t *bytes = malloc(len);
    size_t written = 0;
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_model_save_bytes(model, bytes, len - 1, &written));
    CHECK(written == 0);
    OK(betz_model_save_bytes(model, bytes, len, &written));
    CHECK(written == len);

    betz_model *copy = NULL;
    OK(betz_model_load_bytes(bytes, len, &copy));
    CHECK(betz_model_channels(copy) == CHANNELS);
    betz_model_free(copy);

    char path[] = "/tmp/betz-lifecycle-XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    OK(betz_model_save(model, path));
    copy = NULL;
    OK(betz_model_load(path, &copy));
    uint8_t *again = malloc(len);
    OK(betz_model_save_bytes(copy, again, len, &written));
    CHECK(memcmp(bytes, again, len) == 0);
    free(again);
    betz_model_free(copy);
    unlink(path);

    // Every flipped byte and every truncation is refused, and *out stays as it was.
    for (size_t i = 0; i < len; i++) {
        copy = NULL;
        bytes[i] ^= 0x10;
        CHECK(betz_model_load_bytes(bytes, len, &copy) != BETZ_OK && copy == NULL);
        bytes[i] ^= 0x10;
        CHECK(betz_model_load_bytes(bytes, i, &copy) != BETZ_OK && copy == NULL);
    }
    free(bytes);
}

static void counts_and_spikes_train_the_same_model(void) {
    betz_train_config config = small_config(CHANNELS);
    const betz_filter bank[] = {{0.05, 0}, {0.2, 1}};
    const betz_segment segments[] = {{0, 150}, {160, STEPS}};
    const char *names[OUTPUTS] = {"x", "y", "grip"};
    const char *units[OUTPUTS] = {"mm", "mm", "N"};
    config.filters = bank;
    config.n_filters = 2;
    config.segments = segments;
    config.n_segments = 2;
    config.output_names = names;
    config.output_units = units;
    config.delay_steps = 1;
    uint16_t *counts = random_counts(STEPS, CHANNELS, 7);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    // Between the trials nothing is looked at.
    behavior[155 * OUTPUTS] = NAN;
    betz_spike *spikes = malloc(sizeof *spikes * 2 * STEPS * CHANNELS);
    size_t n = 0;
    for (int t = 0; t < STEPS; t++) {
        for (uint32_t c = 0; c < CHANNELS; c++) {
            for (int k = 0; k < counts[t * CHANNELS + (int)c]; k++) {
                spikes[n++] = (betz_spike){t, c};
            }
        }
    }
    betz_model *a = NULL, *b = NULL;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &a));
    OK(betz_train(&config, spikes, n, behavior, STEPS, OUTPUTS, &b));
    CHECK(strcmp(betz_model_output_name(b, 2), "grip") == 0);
    CHECK(strcmp(betz_model_output_unit(b, 2), "N") == 0);
    CHECK(betz_model_delay_steps(b) == 1);
    // The same spikes, the same model, to rounding: several in a bin are a count there and a list here.
    betz_session *from_counts = open_session(a), *from_spikes = open_session(b);
    for (int t = 0; t < STEPS; t++) {
        float one[OUTPUTS], other[OUTPUTS];
        const uint16_t *now = counts + t * CHANNELS;
        OK(betz_session_step_counts(from_counts, now, CHANNELS, one, OUTPUTS));
        OK(betz_session_step_counts(from_spikes, now, CHANNELS, other, OUTPUTS));
        for (int o = 0; o < OUTPUTS; o++) CHECK(fabsf(one[o] - other[o]) <= 1e-4f * (1.0f + fabsf(one[o])));
    }
    betz_session_close(from_counts);
    betz_session_close(from_spikes);
    betz_model_free(a);
    betz_model_free(b);

    // Data that training refuses.
    betz_model *none = NULL;
    spikes[0].tick = 3;
    spikes[1].tick = 2;
    CHECK_STATUS(BETZ_ERROR_INVALID_RECORDING,
                 betz_train(&config, spikes, n, behavior, STEPS, OUTPUTS, &none));
    CHECK_STATUS(BETZ_ERROR_INSUFFICIENT_DATA,
                 betz_train(&config, NULL, 0, behavior, STEPS, OUTPUTS, &none));
    config.ridge_choice = (betz_ridge)77;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &none));
    config.ridge_choice = BETZ_RIDGE_FIXED;
    config.ridge = -1.0;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &none));
    config.ridge = 1.0;
    config.n_filters = 0;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &none));
    config.n_filters = 2;
    // A dead channel: named, or masked on request.
    for (int t = 0; t < STEPS; t++) counts[t * CHANNELS + 4] = 0;
    config.ridge = 0.0;
    CHECK_STATUS(BETZ_ERROR_NOT_POSITIVE_DEFINITE,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &none));
    CHECK(none == NULL);
    config.bad_channels = BETZ_BAD_CHANNELS_MASK;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &none));
    CHECK(betz_model_channel_used(none, 3) == 1 && betz_model_channel_used(none, 4) == 0);
    betz_model_free(none);
    free(counts);
    free(behavior);
    free(spikes);
}

static uint32_t stop_at_once(void *user, const char *stage, uint64_t done, uint64_t total) {
    (void)stage;
    CHECK(done <= total);
    ++*(int *)user;
    return 1;
}

static void training_can_be_stopped(void) {
    betz_train_config config = small_config(CHANNELS);
    int calls = 0;
    // Every fold asks whether to go on.
    config.folds = 2;
    config.progress = stop_at_once;
    config.progress_user = &calls;
    uint16_t *counts = random_counts(STEPS, CHANNELS, 3);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    betz_model *model = NULL;
    CHECK_STATUS(BETZ_ERROR_INTERRUPTED,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    CHECK(calls > 0 && model == NULL);
    free(counts);
    free(behavior);
}

// Every trained model can be saved and opened: names and sizes that would prevent this are refused
// before the work, and before anything in proportion to them is allocated.
static void a_model_that_nobody_could_open_is_not_trained(void) {
    enum { MANY_FILTERS = 257, MANY_OUTPUTS = 4097, SHORT = 4 };
    betz_train_config config = small_config(CHANNELS);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 3);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    betz_model *model = NULL;
    char text[1100];

    const char *channels[CHANNELS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "b"};
    const char *outputs[OUTPUTS] = {"x", "y", "x"};
    config.channel_names = channels;
    CHECK_STATUS(BETZ_ERROR_INVALID_RECORDING,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    betz_last_error(text, sizeof text);
    CHECK(strstr(text, "[11] = `b` is there already at [1]") != NULL);
    config.channel_names = NULL;
    config.output_names = outputs;
    CHECK_STATUS(BETZ_ERROR_INVALID_RECORDING,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    config.output_names = NULL;

    betz_filter bank[MANY_FILTERS];
    for (int f = 0; f < MANY_FILTERS; f++) bank[f] = (betz_filter){0.01 * (f + 1), 0};
    config.filters = bank;
    config.n_filters = MANY_FILTERS;
    for (config.folds = 0; config.folds <= 2; config.folds += 2) {
        CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                     betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
        betz_last_error(text, sizeof text);
        CHECK(strstr(text, "n_filters: expected at most 256, got 257") != NULL);
    }
    config.folds = 0;
    config.n_filters = 1;

    float *wide = calloc((size_t)SHORT * MANY_OUTPUTS, sizeof *wide);
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, wide, SHORT, MANY_OUTPUTS, &model));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train(&config, NULL, 0, NULL, 0, SIZE_MAX, &model));
    free(wide);
    const betz_spike spike = {0, 0};
    config.channels = UINT32_MAX;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train(&config, &spike, 1, behavior, STEPS, OUTPUTS, &model));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, NULL, NULL, 0, OUTPUTS, &model));
    config.channels = CHANNELS;

    // Weights that no session takes: behaviour at the end of f32, from next to no response (a filter of
    // days gives a spike 2e-8).
    config.ridge_choice = BETZ_RIDGE_FIXED;
    config.ridge = 0.0;
    bank[0] = (betz_filter){1e6, 0};
    for (int i = 0; i < STEPS * OUTPUTS; i++) behavior[i] = i / OUTPUTS / 4 % 2 ? 3e38f : -3e38f;
    CHECK_STATUS(BETZ_ERROR_NON_FINITE,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));

    // A bin takes the same memory whatever its count: these are refused as copies of each other alone.
    const size_t full = 2000;
    uint16_t *many = malloc(full * CHANNELS * sizeof *many);
    float *still = calloc(full * OUTPUTS, sizeof *still);
    memset(many, 0xFF, full * CHANNELS * sizeof *many);
    CHECK_STATUS(BETZ_ERROR_NOT_POSITIVE_DEFINITE,
                 betz_train_counts(&config, many, still, full, OUTPUTS, &model));
    free(many);
    free(still);
    CHECK(model == NULL);
    free(counts);
    free(behavior);
}

// Where there is no device, asking for one by name is refused and leaving the choice is not.
static void a_device_can_be_chosen(void) {
    uint16_t *counts = random_counts(STEPS, CHANNELS, 3);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    const char *devices[] = {NULL, "cpu", "auto", "cuda", "cuda:all"};
    float first[OUTPUTS], out[OUTPUTS];
    for (int i = 0; i < 5; i++) {
        betz_train_config config = small_config(CHANNELS);
        config.device = devices[i];
        betz_model *model = NULL;
        const betz_status status =
            betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model);
        if (i > 2 && status == BETZ_ERROR_DEVICE_UNAVAILABLE) {
            CHECK(model == NULL);
            continue;
        }
        CHECK(status == BETZ_OK);
        betz_session *session = open_session(model);
        OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
        if (i == 0) memcpy(first, out, sizeof first);
        for (int o = 0; o < OUTPUTS; o++) {
            CHECK(fabsf(out[o] - first[o]) <= 1e-3f * (1.0f + fabsf(first[o])));
        }
        CHECK(i != 1 || same_bits(out, first, OUTPUTS));
        betz_session_close(session);
        betz_model_free(model);
    }
    free(counts);
    free(behavior);
}

static void defaults_are_cross_validated(void) {
    enum { LONG = 3000 };
    betz_train_config config;
    OK(betz_train_config_default(&config, sizeof config));
    config.channels = CHANNELS;
    config.step_seconds = 0.02;
    uint16_t *counts = random_counts(LONG, CHANNELS, 3);
    float *behavior = follow(counts, LONG, CHANNELS, OUTPUTS);
    betz_model *model = NULL;
    OK(betz_train_counts(&config, counts, behavior, LONG, OUTPUTS, &model));
    betz_score score;
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        OK(betz_model_score(model, o, &score, sizeof score));
        CHECK(score.r2 > 0.95 && score.r2 <= 1.0 && score.rmse > 0.0);
        CHECK(score.nrmse_range > 0.0 && score.nrmse_range < score.nrmse_std);
    }
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_model_score(model, OUTPUTS, &score, sizeof score));
    betz_model_free(model);
    // Nothing left to choose with when there are no folds.
    model = NULL;
    config.folds = 0;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, LONG, OUTPUTS, &model));
    CHECK(model == NULL);
    free(counts);
    free(behavior);
}

static void session_steps(const betz_model *model) {
    betz_session *session = open_session(model);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 11);
    float first[STEPS][OUTPUTS], out[OUTPUTS];
    uint64_t spikes = 0;
    for (int t = 0; t < STEPS; t++) {
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, first[t], OUTPUTS));
        for (int c = 0; c < CHANNELS; c++) spikes += counts[t * CHANNELS + c];
    }
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.ticks == STEPS && stats.spikes == spikes);
    CHECK(stats.unknown_channel_spikes == 0 && stats.dropped == 0 && stats.late == 0);
    CHECK(stats.deadline_misses == 0 && stats.model_swaps == 0);
    CHECK(stats.latency_steps == STEPS);
    CHECK(stats.latency_p50_us > 0 && stats.latency_p50_us <= stats.latency_p99_us);
    CHECK(stats.latency_p99_us <= stats.latency_p99_9_us);
    CHECK(stats.latency_p99_9_us <= stats.latency_max_us * 1.02);

    // Reset twice: the same bits again.
    OK(betz_session_reset(session));
    OK(betz_session_reset(session));
    for (int t = 0; t < STEPS; t++) {
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        CHECK(same_bits(out, first[t], OUTPUTS));
    }
    OK(betz_session_clear_stats(session));
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.ticks == 0 && stats.spikes == 0 && stats.latency_steps == 0);

    // As a list of spikes: equal to rounding; an unknown channel is counted and changes nothing.
    OK(betz_session_reset(session));
    for (int t = 0; t < STEPS; t++) {
        uint32_t list[2 * CHANNELS + 1];
        size_t n = 0;
        for (uint32_t c = 0; c < CHANNELS; c++) {
            for (int k = 0; k < counts[t * CHANNELS + (int)c]; k++) list[n++] = c;
        }
        list[n++] = CHANNELS + 5;
        OK(betz_session_step_spikes(session, list, n, out, OUTPUTS));
        for (int o = 0; o < OUTPUTS; o++) {
            CHECK(fabsf(out[o] - first[t][o]) <= 1e-5f * (1.0f + fabsf(first[t][o])));
        }
    }
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.unknown_channel_spikes == STEPS && stats.spikes == spikes);
    // Nothing fired: an empty list needs no pointer.
    OK(betz_session_step_spikes(session, NULL, 0, out, OUTPUTS));
    betz_session_close(session);
    free(counts);
}

static void configurations(const betz_model *model) {
    betz_session_config config;
    betz_session *session = NULL;
    uint16_t counts[CHANNELS] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    const uint32_t unknown[] = {0, CHANNELS};
    float out[OUTPUTS];
    const float low[OUTPUTS] = {-0.25f, -INFINITY, 0.0f}, high[OUTPUTS] = {0.25f, 0.5f, 0.0f};
    OK(betz_session_config_default(&config, sizeof config));
    CHECK(config.struct_size == sizeof config && config.statistics == 1);
    config.clamp_low = low;
    config.clamp_high = high;
    config.clamp_len = OUTPUTS;
    config.deadline_us = 1e-3;
    config.unknown_channels = BETZ_UNKNOWN_CHANNELS_REFUSE;
    OK(betz_session_open(model, &config, &session));
    for (int t = 0; t < 50; t++) {
        OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
        CHECK(out[0] >= -0.25f && out[0] <= 0.25f && out[1] <= 0.5f && out[2] == 0.0f);
    }
    // A step of one nanosecond is missed for certain.
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.deadline_misses == 50);
    out[0] = 42.0f;
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_step_spikes(session, unknown, 2, out, OUTPUTS));
    CHECK(out[0] == 42.0f);
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.ticks == 50);
    betz_session_close(session);

    // A masked channel makes no difference.
    uint8_t mask[CHANNELS];
    memset(mask, 1, sizeof mask);
    mask[2] = 0;
    OK(betz_session_config_default(&config, sizeof config));
    config.channel_mask = mask;
    config.channel_mask_len = CHANNELS;
    config.statistics = 0;
    betz_session *other = NULL;
    OK(betz_session_open(model, &config, &session));
    OK(betz_session_open(model, &config, &other));
    float masked[OUTPUTS];
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    counts[2] = 0;
    OK(betz_session_step_counts(other, counts, CHANNELS, masked, OUTPUTS));
    CHECK(same_bits(out, masked, OUTPUTS));
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.ticks == 1 && stats.latency_steps == 0 && stats.latency_max_us == 0.0);
    betz_session_close(session);
    betz_session_close(other);

    // Configurations that opening refuses.
    session = NULL;
    config.channel_mask_len = CHANNELS - 1;
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_open(model, &config, &session));
    config.channel_mask_len = CHANNELS;
    config.unknown_channels = (betz_unknown_channels)9;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &config, &session));
    config.unknown_channels = BETZ_UNKNOWN_CHANNELS_IGNORE;
    config.deadline_us = 10.0;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &config, &session));
    config.statistics = 1;
    config.deadline_us = NAN;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &config, &session));
    config.deadline_us = -1.0;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &config, &session));
    config.deadline_us = 0.0;
    config.clamp_low = high;
    config.clamp_high = low;
    config.clamp_len = OUTPUTS;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &config, &session));
    CHECK(session == NULL);
}

static void a_checkpoint_goes_on(const betz_model *model) {
    betz_session *session = open_session(model), *restored = open_session(model);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 13);
    float out[OUTPUTS], again[OUTPUTS];
    for (int t = 0; t < STEPS / 2; t++) {
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
    }
    size_t len = 0, written = 0;
    OK(betz_session_checkpoint(session, NULL, 0, &len));
    uint8_t *state = malloc(len);
    memset(state, 0x5A, len);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_checkpoint(session, state, len - 1, &written));
    CHECK(written == 0 && state[0] == 0x5A);
    OK(betz_session_checkpoint(session, state, len, &written));
    CHECK(written == len);
    OK(betz_session_restore(restored, state, len));
    for (int t = STEPS / 2; t < STEPS; t++) {
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        OK(betz_session_step_counts(restored, counts + t * CHANNELS, CHANNELS, again, OUTPUTS));
        CHECK(same_bits(out, again, OUTPUTS));
    }
    betz_stats a, b;
    OK(betz_session_stats(session, &a, sizeof a));
    OK(betz_session_stats(restored, &b, sizeof b));
    CHECK(a.ticks == b.ticks && a.spikes == b.spikes);
    // Damage and truncation are refused, and change nothing.
    OK(betz_session_reset(session));
    OK(betz_session_reset(restored));
    for (size_t i = 0; i < len; i++) {
        state[i] ^= 0x01;
        CHECK(betz_session_restore(restored, state, len) != BETZ_OK);
        state[i] ^= 0x01;
        CHECK(betz_session_restore(restored, state, i) != BETZ_OK);
    }
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    OK(betz_session_step_counts(restored, counts, CHANNELS, again, OUTPUTS));
    CHECK(same_bits(out, again, OUTPUTS));
    // Another model's state is refused.
    betz_model *other_model = train_model(CHANNELS, OUTPUTS, STEPS, 99);
    betz_session *other = open_session(other_model);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_restore(other, state, len));
    betz_session_close(other);
    betz_model_free(other_model);
    betz_session_close(session);
    betz_session_close(restored);
    free(state);
    free(counts);
}

static void a_swap_takes_over_and_rolls_back(const betz_model *model) {
    betz_model *next = train_model(CHANNELS, OUTPUTS, STEPS, 21);
    betz_model *misfit = train_model(CHANNELS + 1, OUTPUTS, STEPS, 22);
    betz_session *session = open_session(model), *plain = open_session(model);
    betz_session *fresh = open_session(next);
    betz_swap_state state = (betz_swap_state)99;
    uint16_t *counts = random_counts(STEPS, CHANNELS, 17);
    float out[OUTPUTS], reference[OUTPUTS];
    OK(betz_session_swap_state(session, &state));
    CHECK(state == BETZ_SWAP_IDLE);
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_rollback_model(session));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_swap_model(session, misfit));
    betz_model_free(misfit);
    int t = 0;
    for (; t < 20; t++) {
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        OK(betz_session_step_counts(plain, counts + t * CHANNELS, CHANNELS, reference, OUTPUTS));
    }
    OK(betz_session_swap_model_after(session, next, 30));
    betz_model_free(next);
    OK(betz_session_swap_state(session, &state));
    CHECK(state == BETZ_SWAP_PENDING);
    // 30 ticks of the old model, bit for bit, then the new one as if opened when it was taken.
    for (int k = 0; k < 60; k++, t++) {
        const uint16_t *now = counts + t * CHANNELS;
        float old[OUTPUTS], new[OUTPUTS];
        OK(betz_session_step_counts(session, now, CHANNELS, out, OUTPUTS));
        OK(betz_session_step_counts(plain, now, CHANNELS, old, OUTPUTS));
        OK(betz_session_step_counts(fresh, now, CHANNELS, new, OUTPUTS));
        CHECK(same_bits(out, k < 30 ? old : new, OUTPUTS));
        OK(betz_session_swap_state(session, &state));
        CHECK(state == (k < 29 ? BETZ_SWAP_WARMING_UP : BETZ_SWAP_TAKEN_OVER));
    }
    size_t len = 0;
    OK(betz_session_checkpoint(session, NULL, 0, &len));
    // Back, as if nothing had been.
    OK(betz_session_rollback_model(session));
    for (int k = 0; k < 20; k++, t++) {
        const uint16_t *now = counts + t * CHANNELS;
        OK(betz_session_step_counts(session, now, CHANNELS, out, OUTPUTS));
        OK(betz_session_step_counts(plain, now, CHANNELS, reference, OUTPUTS));
        CHECK(same_bits(out, reference, OUTPUTS));
    }
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.model_swaps == 2);
    // With the warm-up that the filters need, then no way back.
    OK(betz_session_swap_model(session, model));
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    OK(betz_session_reset(session));
    OK(betz_session_release_model(session));
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    OK(betz_session_swap_state(session, &state));
    CHECK(state == BETZ_SWAP_IDLE);
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_rollback_model(session));
    betz_session_close(session);
    betz_session_close(plain);
    betz_session_close(fresh);
    free(counts);
}

static void a_queue_feeds_a_session(const betz_model *model) {
    betz_session *session = open_session(model), *direct = open_session(model);
    betz_queue *queue = NULL;
    betz_queue_state state;
    float out[OUTPUTS], reference[OUTPUTS];
    size_t pushed = 99;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_queue_open(0, BETZ_LATE_SPIKES_TAKE, &queue));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_queue_open(((size_t)1 << 24) + 1, BETZ_LATE_SPIKES_TAKE, &queue));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_queue_open(8, (betz_late_spikes)5, &queue));
    CHECK(queue == NULL);
    OK(betz_queue_open(8, BETZ_LATE_SPIKES_TAKE, &queue));
    OK(betz_queue_get_state(queue, &state, sizeof state));
    CHECK(state.tick == 0 && state.newest_tick == INT64_MIN && isinf(state.newest_age_us));
    OK(betz_queue_set_tick(queue, 100));
    const betz_spike spikes[] = {{100, 1}, {100, 1}, {100, 5}, {102, 3}, {101, 7}};
    OK(betz_queue_push(queue, spikes, 5, &pushed));
    CHECK(pushed == 5);
    OK(betz_queue_push(queue, NULL, 0, &pushed));
    CHECK(pushed == 0);
    OK(betz_queue_mark(queue, 102));
    OK(betz_queue_get_state(queue, &state, sizeof state));
    CHECK(state.tick == 100 && state.newest_tick == 102 && state.waiting == 5);
    CHECK(state.newest_age_us >= 0.0 && isfinite(state.newest_age_us));
    const uint32_t ticks[4][3] = {{1, 1, 5}, {0}, {3, 7}, {0}};
    const size_t n[4] = {3, 0, 2, 0};
    for (int t = 0; t < 4; t++) {
        OK(betz_queue_step(queue, session, out, OUTPUTS));
        OK(betz_session_step_spikes(direct, ticks[t], n[t], reference, OUTPUTS));
        CHECK(same_bits(out, reference, OUTPUTS));
    }
    // The spike of tick 101 came after that of 102: late. Then more than there is room for.
    betz_spike many[12];
    for (int i = 0; i < 12; i++) many[i] = (betz_spike){104, 0};
    OK(betz_queue_push(queue, many, 12, &pushed));
    CHECK(pushed == 8);
    OK(betz_queue_mark(queue, 104));
    OK(betz_queue_step(queue, session, out, OUTPUTS));
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.late == 1 && stats.dropped == 4 && stats.spikes == 13 && stats.ticks == 5);
    OK(betz_queue_get_state(queue, &state, sizeof state));
    CHECK(state.dropped == 4 && state.waiting == 0 && state.tick == 105);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_queue_step(queue, session, out, OUTPUTS + 1));
    betz_queue_close(queue);
    betz_session_close(session);
    betz_session_close(direct);
}

static void messages_belong_to_a_failure(void) {
    char text[8] = "?";
    betz_model *model = NULL;
    CHECK_STATUS(BETZ_ERROR_IO, betz_model_load("/nonexistent/model.betz", &model));
    const size_t len = betz_last_error(NULL, 0);
    CHECK(len > sizeof text);
    CHECK(betz_last_error(text, sizeof text) == len && strlen(text) == sizeof text - 1);
    char *whole = malloc(len + 1);
    CHECK(betz_last_error(whole, len + 1) == len && strlen(whole) == len);
    CHECK(strstr(whole, "/nonexistent/model.betz") != NULL);
    free(whole);
    CHECK_STATUS(BETZ_ERROR_IO, betz_model_load("/tmp", &model));
    CHECK(model == NULL);
}

int main(void) {
    versions();
    betz_model *model = train_model(CHANNELS, OUTPUTS, STEPS, 1);
    model_is_saved_and_loaded(model);
    counts_and_spikes_train_the_same_model();
    training_can_be_stopped();
    a_model_that_nobody_could_open_is_not_trained();
    a_device_can_be_chosen();
    defaults_are_cross_validated();
    betz_score score;
    CHECK_STATUS(BETZ_ERROR_INSUFFICIENT_DATA, betz_model_score(model, 0, &score, sizeof score));
    session_steps(model);
    configurations(model);
    a_checkpoint_goes_on(model);
    a_swap_takes_over_and_rolls_back(model);
    a_queue_feeds_a_session(model);
    messages_belong_to_a_failure();
    // The model may go before its sessions.
    betz_session *session = open_session(model);
    betz_model_free(model);
    float out[OUTPUTS];
    OK(betz_session_step_spikes(session, NULL, 0, out, OUTPUTS));
    betz_session_close(session);
    puts("lifecycle: ok");
    return 0;
}
