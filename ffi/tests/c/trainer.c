// The trainer: channels that are heard as others are learned from labels, a channel that dies is left out
// without any, models are applied, saved and loaded, a miner at the same session stays what it was, and every refusal.
#include "support.h"

#include <math.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { CHANNELS = 8, OUTPUTS = 2, STEPS = 1600, TRIAL = 40, TRIALS = 60 };

static betz_model *retaining_model(size_t retain_bytes) {
    betz_train_config config = small_config(CHANNELS);
    config.retain_bytes = retain_bytes;
    uint16_t *counts = random_counts(STEPS, CHANNELS, 1);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    betz_model *model = NULL;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    free(counts);
    free(behavior);
    return model;
}

static betz_trainer_config default_config(void) {
    betz_trainer_config config;
    OK(betz_trainer_config_default(&config, sizeof config));
    return config;
}

static betz_trainer *open_trainer(betz_session *session, const betz_model *model) {
    betz_trainer_config config = default_config();
    config.half_life_seconds = 8;
    betz_trainer *trainer = NULL;
    OK(betz_trainer_open(session, model, &config, &trainer));
    return trainer;
}

static betz_trainer_state state_of(const betz_trainer *trainer) {
    betz_trainer_state state;
    OK(betz_trainer_get_state(trainer, &state, sizeof state));
    return state;
}

static uint64_t ended(const betz_trainer_state *s) {
    return s->trials + s->dropped_full + s->dropped_unwanted + s->dropped_unlabelled +
           s->dropped_long + s->dropped_reset;
}

// Until the trainer has had so many trials: it has a thread of its own.
static betz_trainer_state wait_for(const betz_trainer *trainer, uint64_t trials) {
    for (;;) {
        const betz_trainer_state state = state_of(trainer);
        if (ended(&state) >= trials) return state;
        const struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
}

// The counts as they are heard: each channel as another.
static void hear(const uint16_t *counts, uint16_t *heard) {
    for (size_t c = 0; c < CHANNELS; c++) heard[(c * 3 + 1) % CHANNELS] = counts[c];
}

// Mean squared error of a fresh session of `model` on what is heard.
static double error_of(const betz_model *model) {
    uint16_t *counts = random_counts(STEPS, CHANNELS, 99), heard[CHANNELS];
    float *truth = follow(counts, STEPS, CHANNELS, OUTPUTS), out[OUTPUTS];
    betz_session *session = open_session(model);
    double sum = 0;
    for (size_t t = 0; t < STEPS; t++) {
        hear(counts + t * CHANNELS, heard);
        OK(betz_session_step_counts(session, heard, CHANNELS, out, OUTPUTS));
        for (size_t o = 0; o < OUTPUTS; o++) sum += pow(out[o] - truth[t * OUTPUTS + o], 2);
    }
    betz_session_close(session);
    free(counts);
    free(truth);
    return sum / (STEPS * OUTPUTS);
}

static void exchanged_channels_are_learned(const betz_model *model) {
    betz_session *session = open_session(model);
    betz_trainer *trainer = open_trainer(session, model);
    betz_model *newest = NULL, *taken = NULL;
    uint64_t seed = 5;
    uint16_t heard[CHANNELS];
    float out[OUTPUTS];
    for (uint64_t trial = 1; trial <= TRIALS; trial++) {
        uint16_t *counts = random_counts(TRIAL, CHANNELS, next_random(&seed) + 1);
        float *truth = follow(counts, TRIAL, CHANNELS, OUTPUTS);
        OK(betz_session_reset(session));
        for (size_t t = 0; t < TRIAL; t++) {
            hear(counts + t * CHANNELS, heard);
            OK(betz_session_step_counts(session, heard, CHANNELS, out, OUTPUTS));
            OK(betz_trainer_label(trainer, truth + t * OUTPUTS, OUTPUTS));
        }
        OK(betz_trainer_end_trial(trainer, 1));
        free(counts);
        free(truth);
        wait_for(trainer, trial);
        OK(betz_trainer_take(trainer, &taken));
        if (taken == NULL) continue;
        OK(betz_session_swap_model(session, taken));
        betz_model_free(newest);
        newest = taken;
    }
    const betz_trainer_state state = state_of(trainer);
    CHECK(state.trials == TRIALS && state.accepted > 0 && state.failed == 0);
    CHECK(fabs(state.labelled_seconds - TRIALS * TRIAL * 0.02) < 1e-6);
    CHECK(newest != NULL && error_of(newest) < 0.25 * error_of(model));
    betz_trainer_close(trainer);
    OK(betz_session_step_counts(session, heard, CHANNELS, out, OUTPUTS));
    betz_session_close(session);
    betz_model_free(newest);
}

static void a_dead_channel_is_left_out(const betz_model *model) {
    betz_session *session = open_session(model);
    betz_trainer *trainer = open_trainer(session, model);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 7);
    float out[OUTPUTS];
    betz_model *without = NULL;
    // Steps go faster than the seconds that they stand for: the trainer looks when it can.
    for (size_t t = 0; without == NULL; t = (t + 1) % STEPS) {
        counts[t * CHANNELS + 3] = 0;
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        if (t % 50 == 0) {
            const struct timespec pause = {0, 1000000};
            nanosleep(&pause, NULL);
            OK(betz_trainer_take(trainer, &without));
        }
    }
    uint32_t ill[CHANNELS];
    size_t n = 0;
    OK(betz_trainer_ill_channels(trainer, NULL, 0, &n));
    CHECK(n == 1);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_trainer_ill_channels(trainer, ill, 0, &n));
    OK(betz_trainer_ill_channels(trainer, ill, CHANNELS, &n));
    CHECK(n == 1 && ill[0] == 3 && state_of(trainer).ill_channels == 1);
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    CHECK(betz_session_status(session) & BETZ_STEP_CHANNELS);
    CHECK(!(betz_session_status(session) & BETZ_STEP_UNTRUSTED));
    betz_model_free(without);
    // Closed before its trainer.
    betz_session_close(session);
    CHECK(state_of(trainer).trials == 0);
    betz_trainer_close(trainer);
    free(counts);
}

// A trial of channels that are heard as others, with its labels.
static void run_trial(betz_session *session, betz_trainer *trainer, uint64_t seed) {
    uint16_t *counts = random_counts(TRIAL, CHANNELS, seed), heard[CHANNELS];
    float *truth = follow(counts, TRIAL, CHANNELS, OUTPUTS), out[OUTPUTS];
    OK(betz_session_reset(session));
    for (size_t t = 0; t < TRIAL; t++) {
        hear(counts + t * CHANNELS, heard);
        OK(betz_session_step_counts(session, heard, CHANNELS, out, OUTPUTS));
        OK(betz_trainer_label(trainer, truth + t * OUTPUTS, OUTPUTS));
    }
    OK(betz_trainer_end_trial(trainer, 1));
    free(counts);
    free(truth);
}

static uint64_t running(const betz_session *session) {
    betz_swap_progress progress;
    OK(betz_session_swap_progress(session, &progress, sizeof progress));
    return progress.running;
}

static uint64_t fingerprint(const betz_model *model) {
    uint64_t print;
    OK(betz_model_fingerprint(model, &print));
    return print;
}

// Candidates when asked for, at another half-life, given to the session by the trainer; what was learned is
// saved, and goes on in another trainer.
static void models_are_applied_and_what_was_learned_is_kept(const betz_model *model) {
    betz_session *session = open_session(model);
    betz_trainer_config config = default_config();
    config.batch = 1000;
    betz_trainer *trainer = NULL;
    OK(betz_trainer_open(session, model, &config, &trainer));
    CHECK(isnan(state_of(trainer).score_before) && isnan(state_of(trainer).score_after));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_trainer_set_half_life(trainer, 0));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_trainer_set_half_life(trainer, NAN));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_set_half_life(NULL, 8));
    OK(betz_trainer_set_half_life(trainer, 8));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_request(NULL));
    uint32_t applied = 7;
    OK(betz_trainer_apply(trainer, session, &applied));
    CHECK(applied == 0);
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_apply(NULL, session, &applied));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_apply(trainer, NULL, &applied));
    const uint64_t first = running(session);
    uint64_t trials = 0, seed = 11;
    while (state_of(trainer).accepted == 0) {
        CHECK(trials < 20 * TRIALS);
        for (int i = 0; i < 6; i++) run_trial(session, trainer, next_random(&seed) + 1);
        wait_for(trainer, trials += 6);
        OK(betz_trainer_request(trainer));
        // Answered when it is: a trial more comes after it or before.
        run_trial(session, trainer, next_random(&seed) + 1);
        wait_for(trainer, ++trials);
    }
    const betz_trainer_state state = state_of(trainer);
    CHECK(state.score_after > state.score_before && state.failed == 0);
    OK(betz_trainer_apply(trainer, session, &applied));
    CHECK(applied == 1);
    OK(betz_trainer_apply(trainer, session, NULL));
    betz_model *none = NULL, *restored = NULL;
    OK(betz_trainer_take(trainer, &none));
    CHECK(none == NULL);
    // At a reset the new model has nothing to catch up with.
    run_trial(session, trainer, 1);
    OK(betz_session_reset(session));
    CHECK(running(session) != first);
    wait_for(trainer, ++trials);

    char path[] = "/tmp/betz-trainer-XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0 && close(file) == 0);
    CHECK_STATUS(BETZ_ERROR_INVALID_MODEL, betz_trainer_load(trainer, path));
    OK(betz_trainer_save(trainer, path));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_save(trainer, NULL));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_save(NULL, path));
    CHECK_STATUS(BETZ_ERROR_IO, betz_trainer_save(trainer, "/nowhere/at/all"));
    CHECK_STATUS(BETZ_ERROR_IO, betz_trainer_save(trainer, "/dev/null"));
    const betz_trainer_state saved = state_of(trainer);
    betz_trainer_close(trainer);
    betz_session_close(session);

    session = open_session(model);
    trainer = open_trainer(session, model);
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_load(trainer, NULL));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_load(NULL, path));
    CHECK_STATUS(BETZ_ERROR_IO, betz_trainer_load(trainer, "/nowhere/at/all"));
    CHECK(state_of(trainer).trials == 0);
    OK(betz_trainer_load(trainer, path));
    const betz_trainer_state again = state_of(trainer);
    CHECK(again.trials == saved.trials && again.accepted == saved.accepted);
    CHECK(again.labelled_seconds == saved.labelled_seconds);
    OK(betz_trainer_take(trainer, &restored));
    CHECK(restored != NULL && fingerprint(restored) != fingerprint(model));
    CHECK(error_of(restored) < error_of(model));
    betz_model_free(restored);
    betz_trainer_close(trainer);
    betz_session_close(session);

    // That of other channels is told.
    betz_train_config few = small_config(3);
    few.retain_bytes = 1 << 20;
    uint16_t *counts = random_counts(STEPS, 3, 1);
    float *behavior = follow(counts, STEPS, 3, OUTPUTS);
    betz_model *other = NULL;
    OK(betz_train_counts(&few, counts, behavior, STEPS, OUTPUTS, &other));
    session = open_session(other);
    trainer = open_trainer(session, other);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_trainer_load(trainer, path));
    betz_trainer_close(trainer);
    betz_session_close(session);
    betz_model_free(other);
    free(counts);
    free(behavior);
    CHECK(remove(path) == 0);
}

static void a_miner_comes_and_goes(const betz_model *model) {
    betz_miner_config config;
    OK(betz_miner_config_default(&config, sizeof config));
    const char *const episodes[] = {"0 -(0,0.1]-> 1"};
    config.symbols = CHANNELS;
    config.tick_seconds = 0.02;
    config.episodes = episodes;
    config.n_episodes = 1;
    betz_miner *miner = NULL;
    OK(betz_miner_open(&config, &miner));
    betz_session *session = open_session(model);
    OK(betz_session_attach_miner(session, miner, 0));
    betz_trainer *trainer = open_trainer(session, model);
    const uint16_t counts[CHANNELS] = {1};
    const float label[OUTPUTS] = {0};
    float out[OUTPUTS];
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    OK(betz_session_detach_miner(session));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_detach_miner(session));
    // The trainer hears on.
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    OK(betz_trainer_label(trainer, label, OUTPUTS));
    OK(betz_trainer_end_trial(trainer, 1));
    CHECK(wait_for(trainer, 1).trials == 1);
    betz_miner_stats stats;
    OK(betz_miner_flush(miner));
    OK(betz_miner_get_stats(miner, &stats, sizeof stats));
    CHECK(stats.events == 1);
    betz_trainer_close(trainer);
    betz_miner_close(miner);
    betz_session_close(session);
}

static void what_makes_no_sense_is_refused(const betz_model *model) {
    betz_model *plain = retaining_model(0);
    betz_session *session = open_session(model);
    betz_trainer *trainer = NULL;
    betz_trainer_config config = default_config();
    CHECK_STATUS(BETZ_ERROR_INSUFFICIENT_DATA, betz_trainer_open(session, plain, &config, &trainer));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_open(NULL, model, &config, &trainer));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_open(session, NULL, &config, &trainer));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_open(session, model, NULL, &trainer));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_open(session, model, &config, NULL));
    config.struct_size = 13;
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_trainer_open(session, model, &config, &trainer));
    config = default_config();
    config.half_life_seconds = -1;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_trainer_open(session, model, &config, &trainer));
    config = default_config();
    config.watch_channels = 2;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_trainer_open(session, model, &config, &trainer));
    config = default_config();
    config.reserved = 1;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_trainer_open(session, model, &config, &trainer));
    betz_model *other = train_model(3, 1, 400, 2);
    config = default_config();
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_trainer_open(session, other, &config, &trainer));
    betz_model_free(other);
    CHECK(trainer == NULL);

    // An older caller's struct ends earlier.
    config = default_config();
    config.struct_size = offsetof(betz_trainer_config, thread_priority);
    OK(betz_trainer_open(session, model, &config, &trainer));
    const float label[OUTPUTS] = {0.5f, 0.5f}, nan[OUTPUTS] = {NAN, 0};
    const uint16_t counts[CHANNELS] = {0};
    float out[OUTPUTS];
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_trainer_label(trainer, label, OUTPUTS));
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_trainer_label(trainer, label, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_label(trainer, NULL, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_label(NULL, label, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_NON_FINITE, betz_trainer_label(trainer, nan, OUTPUTS));
    OK(betz_trainer_end_trial(trainer, 1));
    OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    OK(betz_trainer_label(trainer, label, OUTPUTS));
    OK(betz_trainer_end_trial(trainer, 0));
    const betz_trainer_state state = wait_for(trainer, 2);
    CHECK(state.dropped_unlabelled == 1 && state.dropped_unwanted == 1 && state.trials == 0);
    CHECK(state.lost_labels == 2);
    betz_model *none = (betz_model *)session;
    OK(betz_trainer_take(trainer, &none));
    CHECK(none == NULL);
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_take(trainer, NULL));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_end_trial(NULL, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_trainer_get_state(trainer, NULL, sizeof state));
    betz_trainer_close(trainer);
    betz_trainer_close(NULL);
    betz_session_close(session);
    betz_model_free(plain);
}

// Runs `model` on counts of which a share is kept, and returns the comparison at the end.
static betz_unlike_state compared(const betz_model *model, int only_half) {
    betz_session *session = open_session(model);
    betz_unlike *unlike = NULL;
    betz_unlike_state state;
    OK(betz_unlike_open(session, model, 20.0, &unlike));
    OK(betz_unlike_get_state(unlike, &state, sizeof state));
    CHECK(state.seconds == 0 && isnan(state.latents) && isnan(state.rates) && state.lost_steps == 0);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 33);
    float out[OUTPUTS];
    for (size_t t = 0; t < STEPS; t++) {
        for (size_t c = 0; only_half && c < CHANNELS / 2; c++) counts[t * CHANNELS + c] = 0;
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
    }
    do OK(betz_unlike_get_state(unlike, &state, sizeof state));
    while (state.seconds == 0 || state.tick < STEPS - 100);
    CHECK(state.lost_steps == 0 && fabs(state.seconds - 20.0) < 0.5);
    // The session may go first.
    betz_session_close(session);
    betz_unlike_close(unlike);
    free(counts);
    return state;
}

static void half_a_recording_is_unlike_training(const betz_model *model) {
    const betz_unlike_state like = compared(model, 0), unlike = compared(model, 1);
    CHECK(like.latents >= 0 && unlike.latents > 5 * like.latents);
    betz_model *plain = retaining_model(0);
    betz_session *session = open_session(plain);
    betz_unlike *none = NULL;
    CHECK_STATUS(BETZ_ERROR_INSUFFICIENT_DATA, betz_unlike_open(session, plain, 0, &none));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_unlike_open(session, model, 0.1, &none));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_unlike_open(session, model, NAN, &none));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_unlike_open(session, NULL, 0, &none));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_unlike_open(session, model, 0, NULL));
    betz_unlike_close(NULL);
    betz_session_close(session);
    betz_model_free(plain);
}

int main(void) {
    betz_model *model = retaining_model(1 << 20);
    exchanged_channels_are_learned(model);
    a_dead_channel_is_left_out(model);
    models_are_applied_and_what_was_learned_is_kept(model);
    a_miner_comes_and_goes(model);
    what_makes_no_sense_is_refused(model);
    half_a_recording_is_unlike_training(model);
    betz_model_free(model);
    puts("trainer: ok");
    return 0;
}
