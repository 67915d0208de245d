// Status of steps, slew limits, dead channels, missing data, spikes too far ahead, skipped ticks, other counts, and a
// session that is changed and watched from outside its loop.
#include "support.h"

#include <math.h>

enum { CHANNELS = 6, OUTPUTS = 2, STEPS = 300 };

static betz_session *open_with(const betz_model *model, void (*change)(betz_session_config *)) {
    betz_session_config config;
    betz_session *session = NULL;
    OK(betz_session_config_default(&config, sizeof config));
    change(&config);
    OK(betz_session_open(model, &config, &session));
    return session;
}

static void plain(betz_session_config *config) { config->statistics = 1; }

static void watched(betz_session_config *config) { config->health = 1; }

static void held(betz_session_config *config) {
    config->hold = 1;
    config->hold_seconds = 0.1;  // 5 ticks
    config->decay_seconds = 0.1; // 5 more
}

static void watching(betz_session_config *config) { config->watch_channels = 1; }

static const float slow_changes[OUTPUTS] = {0.01f, INFINITY};

static void slow(betz_session_config *config) {
    config->slew = slow_changes;
    config->slew_len = OUTPUTS;
}

static void outputs_change_slowly(const betz_model *model) {
    betz_session *session = open_with(model, slow), *free_one = open_with(model, plain);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 3);
    float out[OUTPUTS], reference[OUTPUTS], before = 0;
    size_t slewed = 0;
    for (size_t t = 0; t < STEPS; t++) {
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        OK(betz_session_step_counts(free_one, counts + t * CHANNELS, CHANNELS, reference, OUTPUTS));
        const int said = (betz_session_status(session) & BETZ_STEP_SLEWED) != 0;
        CHECK(said == (out[0] != reference[0]) && out[1] == reference[1]);
        CHECK(t == 0 ? !said : fabsf(out[0] - before) <= 0.01001f);
        before = out[0];
        slewed += (size_t)said;
    }
    CHECK(slewed > STEPS / 4);
    // A linear model does not tell how far its estimates are off.
    CHECK_STATUS(BETZ_ERROR_INSUFFICIENT_DATA, betz_session_variances(session, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_variances(session, NULL, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_variances(NULL, out, OUTPUTS));
    size_t classes = 9, events = 9;
    betz_event event;
    CHECK_STATUS(BETZ_OK, betz_session_class_count(session, &classes));
    CHECK_STATUS(BETZ_OK, betz_session_events(session, &event, 1, &events));
    CHECK(classes == 0 && events == 0);
    CHECK_STATUS(BETZ_ERROR_INSUFFICIENT_DATA, betz_session_classes(session, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_classes(NULL, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_events(session, NULL, 1, &events));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_class_count(session, NULL));
    betz_session_close(session);
    betz_session_close(free_one);
    free(counts);
    betz_session_config config;
    OK(betz_session_config_default(&config, sizeof config));
    slow(&config);
    config.slew_len = 1;
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_open(model, &config, &session));
    config.slew_len = OUTPUTS;
    config.slew = NULL;
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_open(model, &config, &session));
}

static void a_session_watches_itself(const betz_model *model) {
    betz_session *session = open_with(model, watching);
    uint16_t *counts = random_counts(2000, CHANNELS, 5);
    float out[OUTPUTS];
    int said = 0;
    // Channel 2 falls silent: it had a spike every third step.
    for (size_t t = 0; t < 2000; t++) {
        if (t >= 1000) counts[t * CHANNELS + 2] = 0;
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        said = (betz_session_status(session) & BETZ_STEP_CHANNELS) != 0;
        CHECK(!said || t > 1000);
    }
    CHECK(said);
    betz_session_close(session);
    free(counts);
    betz_session_config config;
    OK(betz_session_config_default(&config, sizeof config));
    config.watch_channels = 2;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &config, &session));
    config.watch_channels = 1;
    config.reserved_3 = 1;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_open(model, &config, &session));
}

static void far_ahead(const betz_model *model) {
    betz_session *session = open_with(model, plain);
    betz_queue_config config;
    betz_queue *queue = NULL;
    OK(betz_queue_config_default(&config, sizeof config));
    CHECK(config.capacity == 65536 && config.ahead_seconds == 10.0);
    config.capacity = 1000;
    config.ahead_seconds = 1.0;
    OK(betz_queue_open_with(&config, &queue));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_queue_set_tick(queue, INT64_MAX));
    float out[OUTPUTS];
    size_t pushed = 0;
    const betz_spike first = {(int64_t)1 << 40, 0};
    OK(betz_queue_push(queue, &first, 1, &pushed));
    for (int64_t t = 0; t < 100; t++) {
        const betz_spike spike = {t, (uint32_t)(t % CHANNELS)};
        OK(betz_queue_push(queue, &spike, 1, &pushed));
        CHECK(pushed == 1);
        OK(betz_queue_mark(queue, t));
        OK(betz_queue_step(queue, session, out, OUTPUTS));
        CHECK(((betz_session_status(session) & BETZ_STEP_FUTURE) != 0) == (t == 0));
    }
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.future == 1 && stats.spikes == 100 && stats.dropped == 0 && stats.late == 0);
    betz_queue_state state;
    OK(betz_queue_get_state(queue, &state, sizeof state));
    CHECK(state.lag == 0 && state.waiting == 0 && state.tick == 100);
    // A pause: the filters decay by the ticks between, as by so many silent steps.
    betz_session *stepped = open_with(model, plain);
    size_t len = 0;
    uint8_t bytes[4096];
    OK(betz_session_checkpoint(session, bytes, sizeof bytes, &len));
    OK(betz_session_restore(stepped, bytes, len));
    OK(betz_queue_resync(queue, session, 150, BETZ_RESYNC_DECAY));
    float reference[OUTPUTS];
    for (int i = 0; i < 51; i++) OK(betz_session_step_spikes(stepped, NULL, 0, reference, OUTPUTS));
    OK(betz_queue_step(queue, session, out, OUTPUTS));
    for (int o = 0; o < OUTPUTS; o++) CHECK(fabsf(out[o] - reference[o]) <= 1e-5f);
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.skipped == 50);
    const betz_spike later = {200, 1};
    size_t cleared = 0;
    OK(betz_queue_push(queue, &later, 1, &pushed));
    OK(betz_queue_clear(queue, &cleared));
    CHECK(cleared == 1);
    betz_session_close(stepped);
    betz_queue_close(queue);
    betz_session_close(session);
}

static void stops(const betz_model *model) {
    betz_session *session = open_with(model, held);
    const uint32_t spikes[] = {0, 1, 2, 0, 1};
    float out[OUTPUTS], last[OUTPUTS];
    /* No more than in training: an output beyond its range would be flagged. */
    for (int t = 0; t < 20; t++) OK(betz_session_step_spikes(session, spikes, t % 3 == 0, last, OUTPUTS));
    CHECK(betz_session_status(session) == 0);
    for (int t = 0; t < 4; t++) {
        OK(betz_session_step_stale(session, out, OUTPUTS));
        CHECK(same_bits(out, last, OUTPUTS));
        const uint32_t status = betz_session_status(session);
        CHECK((status & BETZ_STEP_STALE) && (status & BETZ_STEP_HELD));
    }
    for (int t = 0; t < 20; t++) OK(betz_session_step_stale(session, out, OUTPUTS));
    CHECK(out[0] == 0.0f && out[1] == 0.0f && (betz_session_status(session) & BETZ_STEP_AT_REST));
    betz_session_close(session);
}

// Features of any sign: whole ones from 0 on give the same bits as counts, and those below 0 are taken as well.
static void values_of_any_sign(const betz_model *model) {
    betz_session *up = open_with(model, plain), *counted = open_with(model, plain);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 9);
    float values[CHANNELS], x[OUTPUTS], y[OUTPUTS];
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < CHANNELS; i++) values[i] = counts[t * CHANNELS + i];
        OK(betz_session_step_values(up, values, CHANNELS, x, OUTPUTS));
        OK(betz_session_step_counts_f32(counted, values, CHANNELS, y, OUTPUTS));
        CHECK(same_bits(x, y, OUTPUTS));
    }
    values[1] = -0.5f;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_session_step_counts_f32(counted, values, CHANNELS, y, OUTPUTS));
    OK(betz_session_step_values(up, values, CHANNELS, x, OUTPUTS));
    values[1] = 0;
    OK(betz_session_step_values(counted, values, CHANNELS, y, OUTPUTS));
    CHECK(!same_bits(x, y, OUTPUTS) && isfinite(x[0]) && isfinite(x[1]));
    free(counts);
    float bad[CHANNELS] = {0}, out[OUTPUTS];
    const float refused[] = {NAN, INFINITY, -1e16f};
    for (int i = 0; i < 3; i++) {
        bad[3] = refused[i];
        CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_step_values(up, bad, CHANNELS, out, OUTPUTS));
    }
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_step_values(up, bad, CHANNELS - 1, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_step_values(NULL, bad, CHANNELS, out, OUTPUTS));
    betz_session_close(up);
    betz_session_close(counted);
}

static void other_counts(const betz_model *model) {
    betz_session *a = open_with(model, plain), *b = open_with(model, plain), *c = open_with(model, plain);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 9);
    for (int t = 0; t < STEPS; t++) {
        uint8_t small[CHANNELS];
        float real[CHANNELS], x[OUTPUTS], y[OUTPUTS], z[OUTPUTS];
        for (int i = 0; i < CHANNELS; i++) {
            small[i] = (uint8_t)counts[t * CHANNELS + i];
            real[i] = counts[t * CHANNELS + i];
        }
        OK(betz_session_step_counts(a, counts + t * CHANNELS, CHANNELS, x, OUTPUTS));
        OK(betz_session_step_counts_u8(b, small, CHANNELS, y, OUTPUTS));
        OK(betz_session_step_counts_f32(c, real, CHANNELS, z, OUTPUTS));
        CHECK(same_bits(x, y, OUTPUTS) && same_bits(x, z, OUTPUTS));
    }
    float bad[CHANNELS] = {0}, out[OUTPUTS];
    bad[3] = NAN;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_session_step_counts_f32(c, bad, CHANNELS, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_MISMATCH,
                 betz_session_step_counts_u8(b, (const uint8_t *)bad, CHANNELS - 1, out, OUTPUTS));
    OK(betz_session_skip(a, 1000));
    betz_stats stats;
    OK(betz_session_stats(a, &stats, sizeof stats));
    CHECK(stats.skipped == 1000);
    free(counts);
    betz_session_close(a);
    betz_session_close(b);
    betz_session_close(c);
}

static void from_outside(const betz_model *model, const betz_model *next) {
    betz_session *blind = open_with(model, plain), *session = open_with(model, watched);
    betz_health health;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_health(blind, &health, sizeof health));
    betz_session_close(blind);
    const uint32_t spikes[] = {0, 1, 99};
    float out[OUTPUTS];
    OK(betz_session_step_spikes(session, spikes, 3, out, OUTPUTS));
    OK(betz_session_health(session, &health, sizeof health));
    CHECK(health.ticks == 1 && health.spikes == 2 && health.unknown_channel_spikes == 1);
    CHECK(health.status == BETZ_STEP_UNKNOWN && health.swap == BETZ_SWAP_IDLE);

    uint64_t fingerprint = 0, other = 0;
    OK(betz_model_fingerprint(model, &fingerprint));
    OK(betz_model_fingerprint(next, &other));
    betz_swap_progress progress;
    OK(betz_session_swap_progress(session, &progress, sizeof progress));
    CHECK(progress.running == fingerprint && progress.ticks_left == 0 && fingerprint != other);
    betz_swap_config swapping;
    OK(betz_swap_config_default(&swapping, sizeof swapping));
    const betz_spike past[] = {{-5, 0}, {-2, 1}};
    swapping.warm_up_steps = 3;
    swapping.cross_fade_steps = 4;
    swapping.by_position = 1;
    swapping.replay = past;
    swapping.n_replay = 2;
    swapping.replay_end_tick = 0;
    OK(betz_session_swap_model_with(session, next, &swapping));
    OK(betz_session_swap_progress(session, &progress, sizeof progress));
    CHECK(progress.state == BETZ_SWAP_PENDING && progress.ticks_left == 7 && progress.ticks == 7);
    uint32_t seen = 0;
    for (int t = 0; t < 10; t++) {
        OK(betz_session_step_spikes(session, spikes, 2, out, OUTPUTS));
        seen |= betz_session_status(session);
    }
    CHECK((seen & BETZ_STEP_FADING) && (seen & BETZ_STEP_SWAPPED));
    OK(betz_session_swap_progress(session, &progress, sizeof progress));
    CHECK(progress.state == BETZ_SWAP_TAKEN_OVER && progress.ticks_left == 0 &&
          progress.running == other);
    OK(betz_session_release_model(session));
    OK(betz_session_step_spikes(session, spikes, 2, out, OUTPUTS));

    const float low[OUTPUTS] = {-0.001f, -0.001f}, high[OUTPUTS] = {0.001f, 0.001f};
    OK(betz_session_set_clamp(session, low, high, OUTPUTS));
    OK(betz_session_step_spikes(session, spikes, 2, out, OUTPUTS));
    CHECK(fabsf(out[0]) <= 0.001f && (betz_session_status(session) & BETZ_STEP_CLAMPED));
    OK(betz_session_set_clamp(session, NULL, NULL, 0));
    OK(betz_session_step_spikes(session, spikes, 2, out, OUTPUTS)); /* which takes the request */
    const uint8_t mask[CHANNELS] = {0, 1, 1, 1, 1, 1};
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_set_mask(session, model, mask, CHANNELS));
    OK(betz_session_set_mask(session, next, mask, CHANNELS));
    OK(betz_session_step_spikes(session, spikes, 2, out, OUTPUTS));

    size_t len = 77;
    uint8_t bytes[8192], now[8192];
    OK(betz_session_take_checkpoint(session, NULL, 0, &len));
    CHECK(len == 0);
    OK(betz_session_request_checkpoint(session));
    OK(betz_session_step_spikes(session, spikes, 2, out, OUTPUTS));
    OK(betz_session_take_checkpoint(session, bytes, sizeof bytes, &len));
    size_t expected = 0;
    OK(betz_session_checkpoint(session, now, sizeof now, &expected));
    CHECK(len > 0);
    OK(betz_session_restore(session, bytes, len));
    betz_session_close(session);
}

int main(void) {
    betz_model *model = train_model(CHANNELS, OUTPUTS, STEPS, 1);
    betz_model *next = train_model(CHANNELS, OUTPUTS, STEPS, 2);
    far_ahead(model);
    stops(model);
    other_counts(model);
    values_of_any_sign(model);
    outputs_change_slowly(model);
    a_session_watches_itself(model);
    from_outside(model, next);
    betz_model_free(model);
    betz_model_free(next);
    puts("steps: ok");
    return 0;
}
