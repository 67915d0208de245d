// A soak: many ticks, memory flat, counters exact.
//   soak [TICKS] [CHANNELS]        default 1e6 and 256; the record uses 1e8
#define _GNU_SOURCE
#include "support.h"

#include <time.h>
#include <unistd.h>

enum { OUTPUTS = 4, PATTERNS = 4096 };

static long resident_kib(void) {
    long size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &size, &resident) == 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv) {
    const uint64_t ticks = argc > 1 ? (uint64_t)strtod(argv[1], NULL) : 1000000;
    const uint32_t channels = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 256;
    betz_model *model = train_model(channels, OUTPUTS, 4 * channels + 200, 1);
    betz_session *session = open_session(model);
    // 20 Hz at 1 ms: 2 % of the channels per tick.
    uint16_t *counts = calloc((size_t)PATTERNS * channels, sizeof *counts);
    uint64_t per_pattern[PATTERNS] = {0}, chance = 2;
    for (size_t i = 0; i < (size_t)PATTERNS * channels; i++) {
        counts[i] = next_random(&chance) % 50 == 0;
        per_pattern[i / channels] += counts[i];
    }
    float out[OUTPUTS];
    uint64_t spikes = 0;
    long start_kib = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t t = 0; t < ticks; t++) {
        const size_t pattern = t % PATTERNS;
        if (t == PATTERNS) start_kib = resident_kib();
        OK(betz_session_step_counts(session, counts + pattern * channels, channels, out, OUTPUTS));
        spikes += per_pattern[pattern];
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const long end_kib = resident_kib();
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    CHECK(stats.ticks == ticks && stats.spikes == spikes && stats.latency_steps == ticks);
    CHECK(stats.unknown_channel_spikes == 0 && stats.dropped == 0 && stats.late == 0);
    CHECK(ticks <= PATTERNS || end_kib - start_kib <= 256);
    printf("soak: %llu ticks of %u channels, %llu spikes, counters exact; RSS %ld kB at start, "
           "%ld kB at end\n",
           (unsigned long long)ticks, channels, (unsigned long long)spikes, start_kib, end_kib);
    printf("soak: %.1f s; latency us: mean %.3f p50 %.3f p99 %.3f p99.9 %.3f max %.1f\n",
           (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9,
           stats.latency_mean_us, stats.latency_p50_us, stats.latency_p99_us,
           stats.latency_p99_9_us, stats.latency_max_us);
    free(counts);
    betz_session_close(session);
    betz_model_free(model);
    return 0;
}
