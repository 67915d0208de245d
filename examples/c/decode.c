/* Loads a model and decodes: one tick of spikes in, one estimate out.
 *
 *   decode MODEL [TICKS]
 *
 * Spikes are simulated at 20 Hz per channel; put your acquisition in their place. Prints one line a
 * tick, then what the session has counted. Build: see examples/CMakeLists.txt, or
 *
 *   cc decode.c $(pkg-config --cflags --libs betz) -o decode
 */
#include <betz.h>

#include <stdio.h>
#include <stdlib.h>

static void must(betz_status status, const char *what) {
    if (status != BETZ_OK) {
        char message[512];
        betz_last_error(message, sizeof message);
        fprintf(stderr, "%s: %s: %s\n", what, betz_status_string(status), message);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: decode MODEL [TICKS]\n");
        return 2;
    }
    const long ticks = argc > 2 ? atol(argv[2]) : 100;

    betz_model *model = NULL;
    must(betz_model_load(argv[1], &model), "loading the model");
    const uint32_t channels = betz_model_channels(model), outputs = betz_model_outputs(model);
    const double step = betz_model_step_seconds(model);

    betz_session_config config;
    must(betz_session_config_default(&config, sizeof config), "configuring");
    config.deadline_us = 100.0;
    betz_session *session = NULL;
    must(betz_session_open(model, &config, &session), "opening the session");

    /* Everything the loop needs is allocated before it. */
    uint16_t *counts = calloc(channels, sizeof *counts);
    float *estimate = calloc(outputs, sizeof *estimate);
    if (counts == NULL || estimate == NULL) {
        return 1;
    }

    printf("seconds");
    for (uint32_t i = 0; i < outputs; i++) {
        printf("\t%s [%s]", betz_model_output_name(model, i), betz_model_output_unit(model, i));
    }
    printf("\n");
    for (long tick = 0; tick < ticks; tick++) {
        for (uint32_t c = 0; c < channels; c++) {
            counts[c] = rand() < 20.0 * step * RAND_MAX;
        }
        must(betz_session_step_counts(session, counts, channels, estimate, outputs), "stepping");
        printf("%g", (double)(tick + 1) * step);
        for (uint32_t i = 0; i < outputs; i++) {
            printf("\t%g", estimate[i]);
        }
        printf("\n");
    }

    betz_stats stats;
    must(betz_session_stats(session, &stats, sizeof stats), "reading the statistics");
    fprintf(stderr, "%llu ticks, %llu spikes; a step took %.2f us (median), %.2f us (99 %%), %.2f us at most\n",
            (unsigned long long)stats.ticks, (unsigned long long)stats.spikes, stats.latency_p50_us,
            stats.latency_p99_us, stats.latency_max_us);

    free(counts);
    free(estimate);
    betz_session_close(session);
    betz_model_free(model);
    return 0;
}
