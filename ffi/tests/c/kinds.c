// Kinds of decoders in training, classes, features of any sign, and the names that a model tells.
//
// Without the feature "kinds" every kind but the linear one is refused; run.sh also builds a library that has it.
#include "support.h"

#include <math.h>

enum { CHANNELS = 6, OUTPUTS = 2, STEPS = 1500, TRIAL = 150 };

static betz_train_config configuration(const char *decoder) {
    betz_train_config config = small_config(CHANNELS);
    config.folds = 3;
    config.decoder = decoder;
    return config;
}

static betz_status train(const char *decoder, betz_model **model) {
    betz_train_config config = configuration(decoder);
    // "refit" needs a place and its velocity, and trials.
    const char *const names[] = {"x", "vx"}, *const units[] = {"mm", "mm/s"};
    config.output_names = names;
    config.output_units = units;
    betz_segment trials[STEPS / TRIAL];
    for (int i = 0; i < STEPS / TRIAL; i++) trials[i] = (betz_segment){i * TRIAL, (i + 1) * TRIAL};
    config.segments = trials;
    // A network trains for seconds.
    config.n_segments = strcmp(decoder, "recurrent") == 0 ? 3 : STEPS / TRIAL;
    uint16_t *counts = random_counts(STEPS, CHANNELS, 1);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    const betz_status status =
        betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, model);
    free(counts);
    free(behavior);
    return status;
}

static void a_linear_model_tells_its_kind(void) {
    betz_model *model = NULL;
    OK(train("linear", &model));
    CHECK(strcmp(betz_model_kind(model), "linear") == 0);
    CHECK(betz_model_classes(model) == 0 && betz_model_class_name(model, 0) == NULL);
    CHECK(betz_model_kind(NULL) == NULL && betz_model_classes(NULL) == 0);
    CHECK(betz_model_class_name(NULL, 0) == NULL);
    betz_model_free(model);
}

// Pauses of any length come back: states settle, or are where silence leads.
static void pause_and_step(betz_session *session) {
    betz_queue *queue = NULL;
    OK(betz_queue_open(64, BETZ_LATE_SPIKES_TAKE, &queue));
    float out[OUTPUTS];
    const uint64_t pauses[] = {1, 1000, UINT64_C(1) << 40};
    int64_t tick = 0;
    for (int i = 0; i < 3; i++) {
        const uint32_t channel = (uint32_t)i;
        OK(betz_session_step_spikes(session, &channel, 1, out, OUTPUTS));
        OK(betz_session_skip(session, pauses[i]));
        OK(betz_queue_step(queue, session, out, OUTPUTS));
        tick += 1 + (int64_t)pauses[i];
        OK(betz_queue_resync(queue, session, tick, BETZ_RESYNC_DECAY));
        OK(betz_queue_step(queue, session, out, OUTPUTS));
        tick++;
        CHECK(isfinite(out[0]) && isfinite(out[1]));
    }
    betz_queue_close(queue);
}

static void kinds_are_trained_by_name(void) {
    const char *const kinds[] = {"lift", "experts", "kalman", "refit", "place", "recurrent"};
    for (int i = 0; i < 6; i++) {
        betz_model *model = NULL;
        if (!betz_has_feature("kinds")) {
            CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, train(kinds[i], &model));
            CHECK(model == NULL);
            continue;
        }
        OK(train(kinds[i], &model));
        // "refit" trains a Kalman filter.
        CHECK(strcmp(betz_model_kind(model), i == 3 ? "kalman" : kinds[i]) == 0);
        betz_score score;
        OK(betz_model_score(model, 0, &score, sizeof score));
        // The last three need other behaviour, or more of it.
        CHECK(i < 3 ? score.r2 > 0.5 : isfinite(score.r2));
        betz_session *session = open_session(model);
        pause_and_step(session);
        betz_session_close(session);
        betz_model_free(model);
    }
}

enum { CLASSES = 3, RUN = 50 };

// Classes take turns; the channels of the class that is on fire more. One run of each turn has no label.
static int label(size_t step) {
    const size_t run = step / RUN;
    return run % 4 == 3 ? -1 : (int)(run % 4);
}

static uint16_t *counts_of_labels(float *labels) {
    uint16_t *counts = random_counts(STEPS, CHANNELS, 5);
    for (size_t t = 0; t < STEPS; t++) {
        labels[t] = (float)label(t);
        for (size_t c = 0; c < CHANNELS; c++) {
            if ((int)(c % CLASSES) == label(t)) counts[t * CHANNELS + c] += 1;
        }
    }
    return counts;
}

static void classes_are_trained_on_a_column_of_labels(const char *decoder) {
    betz_train_config config = configuration(decoder);
    static float labels[STEPS];
    uint16_t *counts = counts_of_labels(labels);
    betz_model *model = NULL;
    if (!betz_has_feature("kinds")) {
        CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                     betz_train_counts(&config, counts, labels, STEPS, 1, &model));
        free(counts);
        return;
    }
    // Two columns are no labels, and neither is half a class.
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, labels, STEPS / 2, 2, &model));
    labels[7] = 0.5f;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, labels, STEPS, 1, &model));
    labels[7] = (float)label(7);
    config.folds = 0;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, labels, STEPS, 1, &model));
    config.folds = 3;
    CHECK(model == NULL);
    OK(betz_train_counts(&config, counts, labels, STEPS, 1, &model));
    CHECK(strcmp(betz_model_kind(model), "classes") == 0);
    CHECK(betz_model_outputs(model) == CLASSES && betz_model_classes(model) == CLASSES);
    CHECK(strcmp(betz_model_class_name(model, 2), "2") == 0);
    betz_session *session = open_session(model);
    int right = 0, labelled = 0;
    for (size_t t = 0; t < STEPS; t++) {
        float out[CLASSES], p[CLASSES];
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, CLASSES));
        OK(betz_session_classes(session, p, CLASSES));
        CHECK(same_bits(out, p, CLASSES) && fabsf(p[0] + p[1] + p[2] - 1) < 1e-3f);
        if (label(t) < 0 || t % RUN < 10) continue;
        labelled++;
        const int likely = p[1] > p[0] ? (p[2] > p[1] ? 2 : 1) : p[2] > p[0] ? 2 : 0;
        right += likely == label(t);
    }
    CHECK(right > labelled * 8 / 10);
    betz_event events[64];
    size_t n = 0;
    OK(betz_session_events(session, events, 64, &n));
    CHECK(n > 0);
    // A session that nobody reads keeps 256 events, and counts the others.
    OK(betz_session_reset(session));
    size_t read = 0;
    for (size_t round = 0; round < 40; round++) {
        for (size_t t = 0; t < STEPS; t++) {
            float out[CLASSES];
            OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, CLASSES));
        }
    }
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    do {
        OK(betz_session_events(session, events, 64, &n));
        read += n;
    } while (n > 0);
    CHECK(read == 256 && stats.events_lost > 0);
    betz_session_close(session);
    betz_model_free(model);
    free(counts);
}

static void unknown_kinds_are_refused(void) {
    const char *const wrong[] = {"", "Linear", "lift,", "classes,lift", "lda,lift", "cubic"};
    betz_model *model = NULL;
    for (int i = 0; i < 6; i++) {
        CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, train(wrong[i], &model));
    }
    betz_train_config config = configuration("linear");
    const uint16_t counts[CHANNELS] = {0};
    const float behavior[OUTPUTS] = {0};
    config.folds = 0;
    config.variance = 2;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, 1, OUTPUTS, &model));
    config.variance = 0;
    config.reserved = 1;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, 1, OUTPUTS, &model));
    config.reserved = 0;
    config.reserved_2 = 1;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, 1, OUTPUTS, &model));
    config.reserved_2 = 0;
    memset(&config.solver, 0xff, sizeof config.solver);
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, 1, OUTPUTS, &model));
    CHECK(model == NULL);
}

// Decodes `counts` with `model` to the first output.
static void decode(const betz_model *model, const uint16_t *counts, float *estimates) {
    betz_session *session = open_session(model);
    float out[OUTPUTS];
    for (size_t t = 0; t < STEPS; t++) {
        OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        estimates[t] = out[0];
    }
    betz_session_close(session);
}

// True if the thread's latest message has this word.
static int message_names(const char *word) {
    char message[512];
    betz_last_error(message, sizeof message);
    return strstr(message, word) != NULL;
}

static double largest_difference(const float *a, const float *b) {
    double largest = 0;
    for (size_t t = 0; t < STEPS; t++) largest = fmax(largest, fabs((double)a[t] - b[t]));
    return largest;
}

// The inverse gives the weights of Cholesky's factor, and a filter of samples the response of the recursion with these
// samples. Samples that cannot be a filter are refused.
static void solvers_and_filters_of_samples(void) {
    enum { LENGTH = 120 };
    betz_train_config config = configuration("linear");
    config.folds = 0;
    uint16_t *counts = random_counts(STEPS, CHANNELS, 1);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    static float expected[STEPS], got[STEPS];
    betz_model *model = NULL;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    decode(model, counts, expected);
    betz_model_free(model);
    config.solver = BETZ_SOLVER_INVERSE;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    decode(model, counts, got);
    betz_model_free(model);
    CHECK(largest_difference(expected, got) < 1e-4);
    config.solver = BETZ_SOLVER_CHOLESKY;

    double samples[LENGTH];
    for (int i = 0; i < LENGTH; i++) samples[i] = 7.0 * exp(-i * 0.02 / 0.1);
    betz_filter_sampled filter = {samples, LENGTH, 0, NULL, 0, 0};
    config.filters = NULL;
    config.n_filters = 0;
    config.sampled_filters = &filter;
    config.n_sampled_filters = 1;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    decode(model, counts, got);
    betz_model_free(model);
    CHECK(largest_difference(expected, got) < 1e-3);

    // A filter that looks ahead is trained, and no session runs it.
    filter.start = -2;
    filter.name = "early";
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    betz_session_config settings;
    betz_session *session = NULL;
    OK(betz_session_config_default(&settings, sizeof settings));
    CHECK(betz_session_open(model, &settings, &session) != BETZ_OK && session == NULL);
    CHECK(message_names("early"));
    betz_model_free(model);
    model = NULL;
    filter.start = 0;

    const double bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        samples[3] = bad[i];
        CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                     betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
        CHECK(message_names("early"));
    }
    for (int i = 0; i < LENGTH; i++) samples[i] = 0;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    // Samples of both signs that cancel have no sum to scale to 1, but a gain that can be kept.
    samples[0] = 1;
    samples[1] = -1;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    filter.keep_gain = 1;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    betz_model_free(model);
    model = NULL;
    filter.keep_gain = 2;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    filter.keep_gain = 0;
    // The message names the filter and the way out.
    static double ones[STEPS + 1], zeros[2], large[] = {1e308, 1e308};
    for (size_t i = 0; i < STEPS + 1; i++) ones[i] = 1;
    const struct {
        const double *samples;
        size_t n_samples;
        int64_t start;
        betz_status status;
        const char *way_out;
    } refused[] = {
        {ones, 0, 0, BETZ_ERROR_INVALID_ARGUMENT, "one sample per step"},
        {bad, 2, 0, BETZ_ERROR_INVALID_ARGUMENT, "give a number"},
        {zeros, 2, 0, BETZ_ERROR_INVALID_ARGUMENT, "give other values"},
        {large, 2, 0, BETZ_ERROR_INVALID_ARGUMENT, "give smaller samples"},
        {ones, STEPS + 1, 0, BETZ_ERROR_INSUFFICIENT_DATA, "a shorter filter"},
        {ones, 5, STEPS, BETZ_ERROR_INSUFFICIENT_DATA, "Shift it"},
        {ones, 5, -STEPS - 4, BETZ_ERROR_INSUFFICIENT_DATA, "Shift it"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        filter.samples = refused[i].samples;
        filter.n_samples = refused[i].n_samples;
        filter.start = refused[i].start;
        CHECK_STATUS(refused[i].status,
                     betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
        CHECK(message_names("filter early") && message_names(refused[i].way_out));
    }
    filter.start = 0;
    filter.n_samples = LENGTH;
    filter.samples = NULL;
    CHECK_STATUS(BETZ_ERROR_NULL,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    config.n_sampled_filters = 257;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    CHECK(model == NULL);
    free(counts);
    free(behavior);
}

// Counts less their mean have the same dynamics, and negative values.
static void features_of_any_sign_are_trained_on(void) {
    betz_train_config config = configuration(NULL);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 1);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    float *values = malloc(STEPS * CHANNELS * sizeof *values);
    CHECK(values != NULL);
    for (size_t i = 0; i < STEPS * CHANNELS; i++) values[i] = counts[i] - 0.3f;
    betz_model *model = NULL;
    OK(betz_train_values(&config, values, behavior, STEPS, OUTPUTS, &model));
    betz_score score;
    OK(betz_model_score(model, 0, &score, sizeof score));
    CHECK(score.r2 > 0.5);
    betz_session *session = open_session(model);
    float out[OUTPUTS];
    double error = 0, spread = 0;
    for (size_t t = 0; t < STEPS; t++) {
        OK(betz_session_step_values(session, values + t * CHANNELS, CHANNELS, out, OUTPUTS));
        if (t < 100) continue;
        error += pow(out[0] - behavior[t * OUTPUTS], 2);
        spread += pow(behavior[t * OUTPUTS], 2);
    }
    CHECK(error < 0.5 * spread);
    betz_session_close(session);
    betz_model_free(model);
    model = NULL;
    const float wrong[] = {NAN, INFINITY, -1e16f};
    for (int i = 0; i < 3; i++) {
        values[7] = wrong[i];
        CHECK_STATUS(BETZ_ERROR_INVALID_RECORDING,
                     betz_train_values(&config, values, behavior, STEPS, OUTPUTS, &model));
    }
    CHECK_STATUS(BETZ_ERROR_NULL, betz_train_values(NULL, values, behavior, STEPS, OUTPUTS, &model));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_train_values(&config, NULL, behavior, STEPS, OUTPUTS, &model));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_train_values(&config, values, NULL, STEPS, OUTPUTS, &model));
    CHECK(model == NULL);
    free(counts);
    free(behavior);
    free(values);
}

int main(void) {
    a_linear_model_tells_its_kind();
    kinds_are_trained_by_name();
    classes_are_trained_on_a_column_of_labels("classes");
    classes_are_trained_on_a_column_of_labels("lda");
    unknown_kinds_are_refused();
    solvers_and_filters_of_samples();
    features_of_any_sign_are_trained_on();
    puts("kinds: ok");
    return 0;
}
