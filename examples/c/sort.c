/* From voltage to movement: a sorter labels spikes while the samples come, and a session decodes them.
 *
 *   sort SORTER [SECONDS]
 *
 * SORTER is a file of `betz sort train`; examples/data/array.sorter is made for the electrodes that are simulated
 * here (eight, two units each, whose rates follow a velocity). The first half of the time trains a decoder of the
 * units' spikes, the second is decoded. Prints how well, and how long it took from the last sample of a spike to its
 * unit, and from the last sample of a tick to the estimate. Put your acquisition in the place of `acquire`. Build:
 * see examples/CMakeLists.txt, or
 *
 *   cc sort.c $(pkg-config --cflags --libs betz) -lm -o sort
 */
#define _POSIX_C_SOURCE 199309L
#include <betz.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHANNELS = 8, SOURCES = 16, RATE = 30000, TICK = 600, OUTPUTS = 2, WAVE = 60, ROOM = 64 };

static void must(betz_status status, const char *what) {
    if (status != BETZ_OK) {
        char message[512];
        betz_last_error(message, sizeof message);
        fprintf(stderr, "%s: %s: %s\n", what, betz_status_string(status), message);
        exit(1);
    }
}

static double uniform(void) { return (rand() + 0.5) / (RAND_MAX + 1.0); }

static double normal(void) { return sqrt(-2.0 * log(uniform())) * cos(6.283185307 * uniform()); }

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *what, float *times, size_t n) {
    if (n > 0) {
        qsort(times, n, sizeof *times, ascending);
        printf("%s: median %.2f us, 99 %% %.2f us, at most %.2f us, of %lu\n", what, times[n / 2],
               times[n * 99 / 100], times[n - 1], (unsigned long)n);
    }
}

/* A cell's spike, sample i of 60, in microvolts: cells of even number are large and fast. */
static double wave(int cell, int i) {
    const double size = cell % 2 == 0 ? 130.0 : 70.0, width = cell % 2 == 0 ? 4.0 : 8.0;
    const double trough = (i - 20.0) / width, hump = (i - 20.0 - 2.5 * width) / (1.5 * width);
    return size * (0.35 * exp(-hump * hump) - exp(-trough * trough));
}

/* The next row of samples. Each cell fires with the velocity along the direction that it prefers. */
static void acquire(int16_t *row, const double *velocity, double microvolts) {
    static int since[SOURCES];
    double voltage[CHANNELS];
    for (int c = 0; c < CHANNELS; c++) {
        voltage[c] = 6.0 * normal();
    }
    for (int cell = 0; cell < SOURCES; cell++) {
        const double angle = 2.399963 * cell;
        const double hz = 20.0 + 18.0 * (velocity[0] * cos(angle) + velocity[1] * sin(angle));
        since[cell]++;
        if (since[cell] > 3 * RATE / 1000 && uniform() < hz / RATE) {
            since[cell] = 0;
        }
        if (since[cell] < WAVE) {
            voltage[cell / 2] += wave(cell, since[cell]);
        }
    }
    for (int c = 0; c < CHANNELS; c++) {
        row[c] = (int16_t)lrint(voltage[c] / microvolts);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: sort SORTER [SECONDS]\n");
        return 2;
    }
    const int seconds = argc > 2 ? atoi(argv[2]) : 40;
    const int ticks = seconds * (RATE / TICK), learned = ticks / 2;
    betz_sorter *sorter = NULL;
    must(betz_sorter_load(argv[1], &sorter), "loading the sorter");
    const uint32_t units = betz_sorter_units(sorter);
    if (seconds < 2 || betz_sorter_channels(sorter) != CHANNELS || units == 0) {
        fprintf(stderr, "expected 2 seconds at least, and a sorter of %d channels with units; got %d, and %u with %u\n",
                CHANNELS, seconds, betz_sorter_channels(sorter), units);
        return 1;
    }

    /* Everything the loop needs is allocated before it. Cells are due after their dead time at first. */
    uint16_t *counts = calloc((size_t)learned * units, sizeof *counts);
    float *moved = calloc((size_t)ticks * OUTPUTS, sizeof *moved);
    float *to_label = calloc((size_t)ticks * ROOM, sizeof *to_label);
    float *to_estimate = calloc((size_t)ticks, sizeof *to_estimate);
    uint32_t *fired = calloc((size_t)TICK * ROOM, sizeof *fired);
    if (counts == NULL || moved == NULL || to_label == NULL || to_estimate == NULL || fired == NULL) {
        return 1;
    }
    betz_model *model = NULL;
    betz_session *session = NULL;
    double residual[OUTPUTS] = {0}, sum[OUTPUTS] = {0}, square[OUTPUTS] = {0};
    size_t labels = 0, estimates = 0, spikes = 0;
    for (int tick = 0; tick < ticks; tick++) {
        const double t = (double)tick * TICK / RATE;
        const double velocity[OUTPUTS] = {sin(1.7 * t) * cos(0.31 * t), cos(2.3 * t) * sin(0.45 * t + 1.0)};
        if (tick == learned) {
            /* The spikes sorted so far train the decoder, with one channel per unit. */
            betz_train_config config;
            must(betz_train_config_default(&config, sizeof config), "configuring");
            const betz_filter bank[] = {{0.06, 0}, {0.2, 0}};
            config.channels = units;
            config.step_seconds = (double)TICK / RATE;
            config.filters = bank;
            config.n_filters = sizeof bank / sizeof *bank;
            must(betz_train_counts(&config, counts, moved, (size_t)learned, OUTPUTS, &model), "training");
            betz_session_config session_config;
            must(betz_session_config_default(&session_config, sizeof session_config), "configuring");
            must(betz_session_open(model, &session_config, &session), "opening the session");
        }
        size_t n_fired = 0;
        double last = 0.0;
        for (int i = 0; i < TICK; i++) {
            int16_t row[CHANNELS];
            betz_sorter_spike found[ROOM];
            size_t taken = 0, n = 0;
            acquire(row, velocity, betz_sorter_microvolts(sorter));
            last = microseconds();
            /* A row has no more spikes than channels: all of it is taken. */
            must(betz_sorter_push(sorter, row, 1, CHANNELS, found, ROOM, &taken, &n), "sorting");
            if (n > 0 && labels < (size_t)ticks * ROOM) {
                to_label[labels++] = (float)(microseconds() - last);
            }
            for (size_t k = 0; k < n; k++) {
                spikes++;
                if (found[k].unit != BETZ_UNIT_NONE) {
                    fired[n_fired++] = found[k].unit;
                }
            }
        }
        if (session == NULL) {
            for (size_t k = 0; k < n_fired; k++) {
                counts[(size_t)tick * units + fired[k]]++;
            }
            for (int o = 0; o < OUTPUTS; o++) {
                moved[tick * OUTPUTS + o] = (float)velocity[o];
            }
            continue;
        }
        float estimate[OUTPUTS];
        must(betz_session_step_spikes(session, fired, n_fired, estimate, OUTPUTS), "stepping");
        to_estimate[estimates++] = (float)(microseconds() - last);
        for (int o = 0; o < OUTPUTS; o++) {
            residual[o] += pow(velocity[o] - estimate[o], 2.0);
            sum[o] += velocity[o];
            square[o] += velocity[o] * velocity[o];
        }
    }

    betz_sorter_stats stats;
    must(betz_sorter_get_stats(sorter, &stats, sizeof stats), "reading the statistics");
    printf("%d channels, %u units, %lu spikes, %lu without a unit\n", CHANNELS, units, (unsigned long)spikes,
           (unsigned long)stats.unlabelled);
    int worse = 0;
    for (int o = 0; o < OUTPUTS; o++) {
        const double r2 = 1.0 - residual[o] / (square[o] - sum[o] * sum[o] / (double)estimates);
        printf("velocity %d: R2 %.3f\n", o, r2);
        worse |= !(r2 > 0.5);
    }
    print_times("last sample of a spike to its unit", to_label, labels);
    print_times("last sample of a tick to the estimate", to_estimate, estimates);

    free(counts);
    free(moved);
    free(to_label);
    free(to_estimate);
    free(fired);
    betz_session_close(session);
    betz_model_free(model);
    betz_sorter_close(sorter);
    return worse;
}
