// The figures of the record: 142 channels -> 4 outputs, counts in, ten million ticks; beside it, a
// loop that only reads the clock, so that what the machine takes is told apart from what a step does.
//   latency [TICKS]
#define _GNU_SOURCE
#include "support.h"

#include <malloc.h>
#include <time.h>

enum { CHANNELS = 142, OUTPUTS = 4, PATTERNS = 1024, BINS = 1 << 20 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Nanoseconds, one bin each, up to about a millisecond.
struct latencies {
    uint32_t *bins;
    int64_t n, sum, max, over_100us;
};

static void add(struct latencies *l, int64_t ns) {
    l->bins[ns < BINS ? ns : BINS - 1]++;
    l->n++;
    l->sum += ns;
    l->over_100us += ns > 100000;
    if (ns > l->max) l->max = ns;
}

static double quantile_us(const struct latencies *l, double q) {
    int64_t left = (int64_t)(q * (double)l->n);
    for (int64_t bin = 0; bin < BINS; bin++) {
        left -= l->bins[bin];
        if (left < 0) return (double)bin * 1e-3;
    }
    return (double)l->max * 1e-3;
}

static void report(const char *name, const struct latencies *l) {
    printf("%-34s mean %.3f  p50 %.3f  p99 %.3f  p99.9 %.3f  max %.1f us; %lld over 100 us\n", name,
           (double)l->sum * 1e-3 / (double)l->n, quantile_us(l, 0.5), quantile_us(l, 0.99),
           quantile_us(l, 0.999), (double)l->max * 1e-3, (long long)l->over_100us);
}

static void opening(void) {
    betz_model *model = train_model(1024, 2, 1600, 1);
    betz_session_config config;
    OK(betz_session_config_default(&config, sizeof config));
    betz_session *sessions[2];
    for (int i = 0; i < 2; i++) {
        const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        const int64_t start = now_ns();
        OK(betz_session_open(model, &config, &sessions[i]));
        const int64_t end = now_ns();
        printf("open a session of 1024 channels (%s): %.2f ms, %.0f kB\n",
               i == 0 ? "the process's first" : "another", (double)(end - start) * 1e-6,
               (double)(mallinfo2().uordblks + mallinfo2().hblkhd - before) / 1024.0);
    }
    betz_session_close(sessions[0]);
    betz_session_close(sessions[1]);
    betz_model_free(model);
}

int main(int argc, char **argv) {
    const int64_t ticks = argc > 1 ? (int64_t)strtod(argv[1], NULL) : 10000000;
    opening();
    betz_model *model = train_model(CHANNELS, OUTPUTS, 1200, 1);
    betz_session *session = open_session(model);
    // 20 Hz in bins of 20 ms: a Poisson mean of 0.4 per channel, so a third of the channels fire.
    uint16_t *counts = random_counts(PATTERNS, CHANNELS, 3);
    uint64_t chance = 4;
    for (size_t i = 0; i < (size_t)PATTERNS * CHANNELS; i++) {
        const uint32_t r = next_random(&chance) % 1000;
        counts[i] = (uint16_t)((r < 330) + (r < 62) + (r < 8));
    }
    struct latencies step = {calloc(BINS, sizeof(uint32_t)), 0, 0, 0, 0};
    struct latencies bare = {calloc(BINS, sizeof(uint32_t)), 0, 0, 0, 0};
    float out[OUTPUTS];
    // Not under SCHED_FIFO: the kernel throttles a thread that never sleeps (sched_rt_runtime_us).
    // In turns, so that both see the same machine.
    for (int64_t t = -100000; t < ticks; t++) {
        const uint16_t *now = counts + (size_t)(t + 100000) % PATTERNS * CHANNELS;
        const int64_t a = now_ns();
        const betz_status status = betz_session_step_counts(session, now, CHANNELS, out, OUTPUTS);
        const int64_t b = now_ns();
        const int64_t c = now_ns();
        CHECK(status == BETZ_OK);
        if (t < 0) continue;
        add(&step, b - a);
        add(&bare, c - b);
    }
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    printf("%d channels -> %d outputs, counts, %.1f spikes per tick, %lld ticks\n", CHANNELS, OUTPUTS,
           (double)stats.spikes / (double)stats.ticks, (long long)ticks);
    report("call, with two clock readings", &step);
    report("two clock readings alone", &bare);
    printf("%-34s mean %.3f  p50 %.3f  p99 %.3f  p99.9 %.3f  max %.1f us\n",
           "the session's own statistics", stats.latency_mean_us, stats.latency_p50_us,
           stats.latency_p99_us, stats.latency_p99_9_us, stats.latency_max_us);
    betz_session_close(session);
    betz_model_free(model);
    free(counts);
    free(step.bins);
    free(bare.bins);
    return 0;
}
