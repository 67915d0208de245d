/* Trains a model from binned counts and behaviour, and saves it.
 *
 *   train MODEL
 *
 * The data is simulated: 96 channels tuned to the velocity of a hand that moves in the plane, in 40
 * trials of 5 s, binned at 20 ms. Put your recording in its place: `counts` is (steps, channels) and
 * `behavior` (steps, outputs), both row-major. Build: see examples/CMakeLists.txt, or
 *
 *   cc train.c $(pkg-config --cflags --libs betz) -lm -o train
 */
#include <betz.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHANNELS = 96, OUTPUTS = 2, TRIALS = 40, TRIAL_STEPS = 250, STEPS = TRIALS * TRIAL_STEPS };

static const double STEP_SECONDS = 0.02;

static double uniform(void) { return (rand() + 0.5) / (RAND_MAX + 1.0); }

/* A Poisson number, by counting exponential waiting times. */
static uint16_t poisson(double mean) {
    uint16_t n = 0;
    for (double t = -log(uniform()); t < mean; t -= log(uniform())) {
        n++;
    }
    return n;
}

static void simulate(uint16_t *counts, float *velocity) {
    double preferred[CHANNELS], v[OUTPUTS] = {0.0, 0.0};
    for (int c = 0; c < CHANNELS; c++) {
        preferred[c] = 6.283185307 * uniform();
    }
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < OUTPUTS; i++) {
            v[i] = t % TRIAL_STEPS == 0 ? 0.0 : 0.97 * v[i] + 40.0 * (uniform() - 0.5);
            velocity[t * OUTPUTS + i] = (float)v[i];
        }
        for (int c = 0; c < CHANNELS; c++) {
            const double drive = v[0] * cos(preferred[c]) + v[1] * sin(preferred[c]);
            counts[t * CHANNELS + c] = poisson(STEP_SECONDS * fmax(0.0, 15.0 + 0.3 * drive));
        }
    }
}

static uint32_t report(void *user, const char *stage, uint64_t done, uint64_t total) {
    (void)user;
    fprintf(stderr, "\r%-12s %llu/%llu ", stage, (unsigned long long)done,
            (unsigned long long)total);
    return 0; /* go on */
}

static void must(betz_status status, const char *what) {
    if (status != BETZ_OK) {
        char message[512];
        betz_last_error(message, sizeof message);
        fprintf(stderr, "\n%s: %s: %s\n", what, betz_status_string(status), message);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: train MODEL\n");
        return 2;
    }
    uint16_t *counts = calloc((size_t)STEPS * CHANNELS, sizeof *counts);
    float *velocity = calloc((size_t)STEPS * OUTPUTS, sizeof *velocity);
    if (counts == NULL || velocity == NULL) {
        return 1;
    }
    simulate(counts, velocity);

    betz_train_config config;
    must(betz_train_config_default(&config, sizeof config), "configuring");
    config.channels = CHANNELS;
    config.step_seconds = STEP_SECONDS;
    const betz_filter bank[] = {{0.05, 0}, {0.15, 0}, {0.15, 1}};
    config.filters = bank;
    config.n_filters = sizeof bank / sizeof *bank;
    /* All trials but the last five, which are kept for judging. */
    betz_segment trials[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        trials[i].start = i * TRIAL_STEPS;
        trials[i].stop = (i + 1) * TRIAL_STEPS;
    }
    config.segments = trials;
    config.n_segments = TRIALS - 5;
    const char *names[OUTPUTS] = {"vx", "vy"}, *units[OUTPUTS] = {"mm/s", "mm/s"};
    config.output_names = names;
    config.output_units = units;
    config.progress = report;

    /* The ridge is left to cross-validation, as the default has it. */
    betz_model *model = NULL;
    must(betz_train_counts(&config, counts, velocity, STEPS, OUTPUTS, &model), "training");
    must(betz_model_save(model, argv[1]), "saving");
    fprintf(stderr, "\n");
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        betz_score score;
        must(betz_model_score(model, i, &score, sizeof score), "reading the score");
        printf("%s: R2 %.3f cross-validated, RMSE %.2f %s\n", betz_model_output_name(model, i),
               score.r2, score.rmse, betz_model_output_unit(model, i));
    }

    /* Judge on the trials that were kept: R2 = 1 - residual / total sum of squares. */
    betz_session_config session_config;
    must(betz_session_config_default(&session_config, sizeof session_config), "configuring");
    betz_session *session = NULL;
    must(betz_session_open(model, &session_config, &session), "opening the session");
    double residual[OUTPUTS] = {0}, sum[OUTPUTS] = {0}, square[OUTPUTS] = {0};
    const int first = (TRIALS - 5) * TRIAL_STEPS, n = STEPS - first;
    for (int t = first; t < STEPS; t++) {
        float estimate[OUTPUTS];
        if (t % TRIAL_STEPS == 0) {
            must(betz_session_reset(session), "resetting");
        }
        must(betz_session_step_counts(session, counts + (size_t)t * CHANNELS, CHANNELS, estimate,
                                      OUTPUTS), "stepping");
        for (int i = 0; i < OUTPUTS; i++) {
            const double truth = velocity[t * OUTPUTS + i];
            residual[i] += (truth - estimate[i]) * (truth - estimate[i]);
            sum[i] += truth;
            square[i] += truth * truth;
        }
    }
    for (int i = 0; i < OUTPUTS; i++) {
        printf("%s: R2 %.3f on %d steps not trained on\n", names[i],
               1.0 - residual[i] / (square[i] - sum[i] * sum[i] / n), n);
    }
    printf("model: %s\n", argv[1]);

    betz_session_close(session);
    betz_model_free(model);
    free(counts);
    free(velocity);
    return 0;
}
