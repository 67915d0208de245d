/* Decodes as decode.c does, and shows it on a page.
 *
 *   watch MODEL [SECONDS]
 *
 * Prints the address to open in a browser, steps in real time for so long (600 s), and says how many pages watched.
 * The library needs the part "page":
 *
 *   scripts/install.sh --prefix ~/betz --parts training,page
 *   cc watch.c $(PKG_CONFIG_PATH=~/betz/lib/pkgconfig pkg-config --cflags --libs betz) -o watch
 */
#define _POSIX_C_SOURCE 200809L
#include <betz_page.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
        fprintf(stderr, "usage: watch MODEL [SECONDS]\n");
        return 2;
    }
    const double seconds = argc > 2 ? atof(argv[2]) : 600.0;

    betz_model *model = NULL;
    must(betz_model_load(argv[1], &model), "loading the model");
    const uint32_t channels = betz_model_channels(model), outputs = betz_model_outputs(model);
    const double step = betz_model_step_seconds(model);
    betz_session_config running;
    must(betz_session_config_default(&running, sizeof running), "configuring");
    betz_session *session = NULL;
    must(betz_session_open(model, &running, &session), "opening the session");

    betz_monitor_config config = {0};
    config.struct_size = sizeof config;
    config.name = argv[1];
    config.deadline_us = 500.0;
    betz_monitor *monitor = NULL;
    must(betz_monitor_open(model, &config, &monitor), "opening the page");
    must(betz_monitor_attach(monitor, session, 0), "attaching it");
    printf("%s\n", betz_monitor_url(monitor));
    fflush(stdout);

    uint16_t *counts = calloc(channels, sizeof *counts);
    float *estimate = calloc(outputs, sizeof *estimate);
    if (counts == NULL || estimate == NULL) {
        return 1;
    }
    const struct timespec tick = {(time_t)step, (long)((step - (double)(time_t)step) * 1e9)};
    size_t most = 0;
    for (double t = 0.0; t < seconds; t += step) {
        for (uint32_t c = 0; c < channels; c++) {
            counts[c] = rand() < 20.0 * step * RAND_MAX;
        }
        must(betz_session_step_counts(session, counts, channels, estimate, outputs), "a step");
        const size_t watch = betz_monitor_viewers(monitor);
        most = watch > most ? watch : most;
        nanosleep(&tick, NULL);
        /* Awake, and before the tick's spikes are there: the step to come finds its code and data in the caches. */
        must(betz_session_warm(session), "warming");
    }
    printf("%zu watched\n", most);

    betz_monitor_close(monitor);
    betz_session_close(session);
    betz_model_free(model);
    free(counts);
    free(estimate);
    return 0;
}
