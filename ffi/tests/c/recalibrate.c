/* Recalibration without labels from C: channels that lose spikes are told, nothing changes until it is asked for, and the way
 * back is exact. */
#include <betz_live.h>

#include "support.h"

#include <math.h>
#include <time.h>

enum { CHANNELS = 16, OUTPUTS = 2, STEPS = 60, TRIALS = 400, WINDOW = 100 };

static double uniform(uint64_t *seed) { return next_random(seed) / 4294967296.0; }

// Reaches of 1.2 s in random directions, and channels tuned to them, of whose spikes a share is kept.
static void trials(uint64_t seed, size_t count, int weaker, uint16_t *counts, float *behavior) {
    static const double share[4] = {0.15, 1.0, 0.4, 1.0};
    for (size_t trial = 0; trial < count; trial++) {
        const double angle = 6.283185307179586 * uniform(&seed);
        for (size_t t = 0; t < STEPS; t++) {
            const size_t step = trial * STEPS + t;
            const double reach = (1.0 - cos(6.283185307179586 * (double)t / STEPS)) / 2.0;
            const double x = reach * cos(angle), y = reach * sin(angle);
            behavior[step * OUTPUTS] = (float)x;
            behavior[step * OUTPUTS + 1] = (float)y;
            for (size_t c = 0; c < CHANNELS; c++) {
                const double p = 0.3 + 0.28 * (x * cos(2.4 * (double)c) + y * sin(2.4 * (double)c));
                const int fires = uniform(&seed) < p, kept = uniform(&seed) < (weaker ? share[c % 4] : 1.0);
                counts[step * CHANNELS + c] = (uint16_t)(fires && kept);
            }
        }
    }
}

// Steps both sessions through weaker channels; returns whether every output has the same bits.
static int run(betz_session *session, betz_session *control, uint64_t seed, size_t count) {
    uint16_t *counts = malloc(count * STEPS * CHANNELS * sizeof *counts);
    float *behavior = malloc(count * STEPS * OUTPUTS * sizeof *behavior), out[OUTPUTS], other[OUTPUTS];
    CHECK(counts != NULL && behavior != NULL);
    trials(seed, count, 1, counts, behavior);
    int same = 1;
    for (size_t t = 0; t < count * STEPS; t++) {
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        OK(betz_session_step_counts(control, counts + t * CHANNELS, CHANNELS, other, OUTPUTS));
        same = same && same_bits(out, other, OUTPUTS);
    }
    free(counts);
    free(behavior);
    return same;
}

static betz_recalibration state_of(const betz_recalibrator *recalibrator) {
    betz_recalibration state;
    OK(betz_recalibrator_get_state(recalibrator, &state, sizeof state));
    return state;
}

int main(void) {
    betz_train_config config = small_config(CHANNELS);
    static const betz_filter filters[2] = {{0.04, 0}, {0.12, 1}};
    config.filters = filters;
    config.n_filters = 2;
    config.retain_bytes = 1 << 20;
    uint16_t *counts = malloc(TRIALS * STEPS * CHANNELS * sizeof *counts);
    float *behavior = malloc(TRIALS * STEPS * OUTPUTS * sizeof *behavior);
    CHECK(counts != NULL && behavior != NULL);
    trials(1, TRIALS, 0, counts, behavior);
    betz_model *model = NULL, *plain = NULL;
    OK(betz_train_counts(&config, counts, behavior, TRIALS * STEPS, OUTPUTS, &model));
    config.retain_bytes = 0;
    OK(betz_train_counts(&config, counts, behavior, TRIALS * STEPS, OUTPUTS, &plain));
    free(counts);
    free(behavior);

    betz_session *session = open_session(model), *control = open_session(model);
    betz_recalibrator *recalibrator = NULL;
    CHECK_STATUS(BETZ_ERROR_INSUFFICIENT_DATA, betz_recalibrator_open(session, plain, 0, &recalibrator));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_recalibrator_open(session, model, 0.1, &recalibrator));
    // A window that never suggests anything.
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_recalibrator_open(session, model, 5.0, &recalibrator));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_recalibrator_open(session, model, INFINITY, &recalibrator));
    // Closed ones leave their places.
    for (int cycle = 0; cycle < 20; cycle++) {
        OK(betz_recalibrator_open(session, model, 0, &recalibrator));
        betz_recalibrator_close(recalibrator);
        CHECK(run(session, control, 2, 1));
    }
    // A session that does not step takes four requests, and refuses a fifth until it steps.
    for (int cycle = 0; cycle < 4; cycle++) {
        OK(betz_recalibrator_open(session, model, 0, &recalibrator));
        betz_recalibrator_close(recalibrator);
    }
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_recalibrator_open(session, model, 0, &recalibrator));
    CHECK(run(session, control, 3, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_recalibrator_open(NULL, model, 0, &recalibrator));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_recalibrator_open(session, NULL, 0, &recalibrator));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_recalibrator_open(session, model, 0, NULL));
    OK(betz_recalibrator_open(session, model, 110.0, &recalibrator));
    betz_recalibration state = state_of(recalibrator);
    CHECK(state.has_report == 0 && state.seconds == 0 && isnan(state.latents) && isnan(state.explained));
    uint32_t change = 9, was = 9;
    OK(betz_recalibrator_apply(recalibrator, session, &change));
    CHECK(change == BETZ_RECALIBRATION_NONE);

    CHECK(run(session, control, 5, WINDOW));
    while ((state = state_of(recalibrator)).has_report == 0) {
        const struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    CHECK(state.suggested == 1 && state.applied == 0 && state.roll_back == 0 && state.lost_steps == 0);
    CHECK(state.unexplained > 0.2 && state.explained < 0.6 && state.coverage > 0.5);
    double gains[CHANNELS];
    OK(betz_recalibrator_gains(recalibrator, gains, CHANNELS));
    CHECK(gains[0] < 0.3 && gains[1] > 0.8 && gains[2] < 0.6);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_recalibrator_gains(recalibrator, gains, 3));
    char reason[256] = "x";
    size_t len = 9;
    OK(betz_recalibrator_reason(recalibrator, reason, sizeof reason, &len));
    CHECK(len == 0 && reason[0] == '\0');

    CHECK_STATUS(BETZ_ERROR_NULL, betz_recalibrator_apply(recalibrator, NULL, &change));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_recalibrator_apply(recalibrator, control, &change));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_recalibrator_roll_back(recalibrator, control, &was));
    CHECK(change == BETZ_RECALIBRATION_NONE && was == 9);
    OK(betz_recalibrator_apply(recalibrator, session, &change));
    CHECK(change == BETZ_RECALIBRATION_APPLIED && state_of(recalibrator).applied == 1);
    CHECK(!run(session, control, 6, 20));
    OK(betz_recalibrator_roll_back(recalibrator, session, &was));
    CHECK(was == 1 && run(session, control, 7, 20));
    OK(betz_recalibrator_roll_back(recalibrator, session, &was));
    CHECK(was == 0);
    // The session may go first.
    betz_session_close(session);
    betz_recalibrator_close(recalibrator);
    betz_recalibrator_close(NULL);
    betz_session_close(control);
    betz_model_free(model);
    betz_model_free(plain);
    puts("recalibrate: ok");
    return 0;
}
