/* A whole session in a C program: it pushes the rows of its own rig and prints every output.
 *
 *     cc live.c $(pkg-config --cflags --libs betz) -o live && ./live session.toml 12
 *
 * The plan's source has from = "push" and sends = "steps": each row has the counts of a step, for as many channels as the
 * second argument says. */
#include <betz_live.h>

#include <stdio.h>
#include <stdlib.h>

static void check(betz_status status) {
    char message[512];
    if (status != BETZ_OK) {
        betz_last_error(message, sizeof message);
        fprintf(stderr, "%s: %s\n", betz_status_string(status), message);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: live PLAN CHANNELS\n");
        return 2;
    }
    betz_live *live = NULL;
    check(betz_live_open(argv[1], NULL, &live));
    size_t channels = strtoul(argv[2], NULL, 10), outputs = betz_live_outputs(live);
    float *counts = calloc(channels, sizeof *counts), *values = calloc(outputs, sizeof *values);
    if (counts == NULL || values == NULL) {
        return 1;
    }
    check(betz_live_start(live));
    for (int i = 0; i < 100; i++) {
        counts[(size_t)i % channels] += 1.0f;
        check(betz_live_push_features(live, BETZ_LIVE_NEXT_ROW, 1, channels, counts));
    }
    check(betz_live_end(live));

    betz_live_step step;
    uint32_t reading = BETZ_LIVE_NOTHING;
    while (reading != BETZ_LIVE_OVER) {
        check(betz_live_next(live, 100000, &reading, &step, sizeof step, values, outputs));
        if (reading == BETZ_LIVE_STEP) {
            printf("step %llu: %.3f\n", (unsigned long long)step.number, (double)values[0]);
        }
    }
    betz_live_health health;
    check(betz_live_stop(live));
    check(betz_live_health_read(live, &health, sizeof health));
    printf("%llu steps, %llu rows lost\n", (unsigned long long)health.steps, (unsigned long long)health.lost);
    betz_live_close(live);
    free(counts);
    free(values);
    return 0;
}
