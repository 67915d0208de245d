// Samples of an amplifier through a queue to the estimates, and a cap on the spikes of a step.
#include "support.h"

enum { CHANNELS = 4, OUTPUTS = 1, STEPS = 300 };

static void samples_travel_to_the_estimate(const betz_model *model) {
    betz_session *session = open_session(model);
    betz_queue *queue = NULL;
    betz_estimate_time time;
    float out[OUTPUTS];
    size_t pushed = 9;
    OK(betz_queue_open(64, BETZ_LATE_SPIKES_TAKE, &queue));
    CHECK_STATUS(BETZ_ERROR_INSUFFICIENT_DATA,
                 betz_session_estimate_time(session, &time, sizeof time));
    const int64_t start = ((int64_t)5 << 32) - 100;
    const betz_sampled_spike spikes[] = {{start + 1, 0}, {start + 599, 1}, {start + 600, 2}};
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_queue_push_samples(queue, spikes, 3, &pushed));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_queue_mark_sample(queue, start));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_queue_set_clock(queue, 0, 0, 0.5));
    CHECK(pushed == 9);
    // 30 kHz, ticks of 20 ms.
    OK(betz_queue_set_clock(queue, start, 0, 600.0));
    OK(betz_queue_push_samples(queue, spikes, 3, &pushed));
    OK(betz_queue_mark_sample(queue, start + 599));
    CHECK(pushed == 3);
    OK(betz_queue_step(queue, session, out, OUTPUTS));
    CHECK(betz_session_status(session) == 0);
    OK(betz_session_estimate_time(session, &time, sizeof time));
    CHECK(time.tick == 0 && time.behavior_tick == 0 && time.first_sample == start);
    CHECK(time.last_sample == start + 599 && time.behavior_sample == start + 599);
    CHECK(time.newest_spike_sample == start + 599);
    // Tick 1 has one spike, and its last sample has not come.
    OK(betz_queue_mark_sample(queue, start + 1198));
    OK(betz_queue_step(queue, session, out, OUTPUTS));
    CHECK(betz_session_status(session) == BETZ_STEP_STALE);
    OK(betz_session_estimate_time(session, &time, sizeof time));
    CHECK(time.tick == 1 && time.newest_spike_sample == start + 600);
    // The amplifier restarts: the clock and the tick are set anew.
    OK(betz_queue_set_clock(queue, 0, 50, 600.0));
    OK(betz_queue_resync(queue, session, 50, BETZ_RESYNC_DECAY));
    OK(betz_queue_mark_sample(queue, 599));
    OK(betz_queue_step(queue, session, out, OUTPUTS));
    OK(betz_session_estimate_time(session, &time, sizeof time));
    CHECK(time.tick == 50 && time.first_sample == 0 && time.newest_spike_sample == INT64_MIN);
    // A step without the queue has no samples.
    OK(betz_session_step_spikes(session, NULL, 0, out, OUTPUTS));
    OK(betz_session_estimate_time(session, &time, sizeof time));
    CHECK(time.tick == 51 && time.first_sample == INT64_MIN && time.behavior_sample == INT64_MIN);
    CHECK_STATUS(BETZ_ERROR_NULL, betz_queue_set_clock(NULL, 0, 0, 30.0));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_queue_push_samples(NULL, spikes, 1, &pushed));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_queue_push_samples(queue, NULL, 1, &pushed));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_queue_push_samples(queue, spikes, 1, NULL));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_queue_mark_sample(NULL, 0));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_estimate_time(NULL, &time, sizeof time));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_estimate_time(session, NULL, sizeof time));
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_session_estimate_time(session, &time, 4));
    betz_queue_close(queue);
    betz_session_close(session);
}

static void spikes_beyond_a_cap_are_counted(const betz_model *model) {
    betz_session_config config;
    betz_session *capped = NULL, *reference = open_session(model);
    OK(betz_session_config_default(&config, sizeof config));
    CHECK(config.max_spikes == 0);
    config.max_spikes = 2;
    config.health = 1;
    OK(betz_session_open(model, &config, &capped));
    const uint32_t storm[] = {0, 1, 2, 3, 0, 1};
    float out[OUTPUTS], expected[OUTPUTS];
    for (size_t n = 0; n <= 6; n++) {
        OK(betz_session_step_spikes(capped, storm, n, out, OUTPUTS));
        OK(betz_session_step_spikes(reference, storm, n < 2 ? n : 2, expected, OUTPUTS));
        CHECK(same_bits(out, expected, OUTPUTS));
        CHECK((betz_session_status(capped) & BETZ_STEP_CAPPED) == (n > 2 ? BETZ_STEP_CAPPED : 0));
    }
    betz_stats stats;
    betz_health health;
    OK(betz_session_stats(capped, &stats, sizeof stats));
    OK(betz_session_health(capped, &health, sizeof health));
    CHECK(stats.capped == 1 + 2 + 3 + 4 && health.capped == stats.capped && stats.spikes == 11);
    betz_session_close(capped);
    betz_session_close(reference);
}

int main(void) {
    betz_model *model = train_model(CHANNELS, OUTPUTS, STEPS, 1);
    samples_travel_to_the_estimate(model);
    spikes_beyond_a_cap_are_counted(model);
    betz_model_free(model);
    puts("samples: ok");
    return 0;
}
