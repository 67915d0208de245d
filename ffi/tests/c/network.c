// The network: edges as plain loops over the same bins find them, alone and at a session, through gaps,
// drops and closings in any order; every refusal.
#include "support.h"

#include <math.h>
#include <pthread.h>

enum { CHANNELS = 12, BIN = 3, WINDOW = 10, STEP = 2, OUTPUTS = 2, PAIRS = CHANNELS * (CHANNELS - 1) / 2 };

static const double TICK = 0.02, THRESHOLD = 0.3;

static betz_network_config plain_config(void) {
    betz_network_config config;
    OK(betz_network_config_default(&config, sizeof config));
    config.channels = CHANNELS;
    config.tick_seconds = TICK;
    config.bin_seconds = BIN * TICK;
    config.window_bins = WINDOW;
    config.step_bins = STEP;
    config.threshold = THRESHOLD;
    return config;
}

static betz_network *open_network(void) {
    const betz_network_config config = plain_config();
    betz_network *network = NULL;
    OK(betz_network_open(&config, &network));
    return network;
}

// Correlations of the window whose bins begin at `counts`, (steps, channels), in plain loops.
static size_t plain_edges(const uint16_t *counts, betz_edge *edges, size_t *undefined) {
    double bins[WINDOW][CHANNELS] = {{0}};
    for (int b = 0; b < WINDOW; b++) {
        for (int s = 0; s < BIN; s++) {
            for (int c = 0; c < CHANNELS; c++) bins[b][c] += counts[(b * BIN + s) * CHANNELS + c];
        }
    }
    size_t n = 0;
    *undefined = 0;
    for (uint32_t i = 0; i < CHANNELS; i++) {
        int constant = 1;
        for (int b = 1; b < WINDOW; b++) constant &= bins[b][i] == bins[0][i];
        *undefined += (size_t)constant;
        for (uint32_t j = i + 1; j < CHANNELS; j++) {
            double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
            for (int b = 0; b < WINDOW; b++) {
                x += bins[b][i] / WINDOW;
                y += bins[b][j] / WINDOW;
            }
            for (int b = 0; b < WINDOW; b++) {
                const double u = bins[b][i] - x, v = bins[b][j] - y;
                xx += u * u;
                yy += v * v;
                xy += u * v;
            }
            if (xx > 1e-12 && yy > 1e-12 && fabs(xy) / sqrt(xx * yy) >= THRESHOLD) {
                edges[n++] = (betz_edge){i, j, (float)(xy / sqrt(xx * yy))};
            }
        }
    }
    return n;
}

// The newest window is `window`, and begins with the step at `counts`, which was `tick`.
static void check_window(const betz_network *network, uint64_t window, const uint16_t *counts, int64_t tick) {
    betz_edge edges[PAIRS], expected[PAIRS];
    betz_network_info info;
    float degrees[CHANNELS], plain[CHANNELS] = {0};
    size_t n = 0, undefined;
    OK(betz_network_snapshot(network, edges, PAIRS, &n, &info, sizeof info));
    CHECK(info.window == window && info.first_tick == tick);
    CHECK(info.end_tick == tick + WINDOW * BIN && info.edges == n);
    CHECK(n == plain_edges(counts, expected, &undefined) && n > 0);
    CHECK(info.undefined == undefined);
    for (size_t e = 0; e < n; e++) {
        CHECK(edges[e].i == expected[e].i && edges[e].j == expected[e].j);
        CHECK(fabs((double)edges[e].r - (double)expected[e].r) <= 1e-5);
        plain[edges[e].i] += 1;
        plain[edges[e].j] += 1;
    }
    OK(betz_network_degrees(network, degrees, CHANNELS));
    CHECK(same_bits(degrees, plain, CHANNELS));
}

static void edges_are_the_plain_ones(void) {
    enum { STEPS = 200 };
    uint16_t *counts = random_counts(STEPS, CHANNELS, 11);
    betz_network *network = open_network();
    betz_network_info info;
    betz_network_stats stats;
    size_t n = 77;
    OK(betz_network_snapshot(network, NULL, 0, &n, &info, sizeof info));
    CHECK(n == 0 && info.edges == 0);
    uint64_t windows = 0;
    for (int64_t t = 0; t < STEPS; t++) {
        OK(betz_network_push_counts(network, 500 + t, counts + t * CHANNELS, CHANNELS));
        OK(betz_network_flush(network));
        OK(betz_network_get_stats(network, &stats, sizeof stats));
        CHECK(stats.windows == windows || stats.windows == windows + 1);
        if (stats.windows > windows) {
            const int64_t first = (int64_t)windows * STEP * BIN;
            check_window(network, windows, counts + first * CHANNELS, 500 + first);
            windows = stats.windows;
        }
    }
    CHECK(windows == (STEPS / BIN - WINDOW) / STEP + 1);
    CHECK(stats.steps == STEPS && stats.bins == STEPS / BIN && stats.updates == STEPS / BIN);
    CHECK(stats.dropped == 0 && stats.gaps == 0 && stats.waiting == 0 && stats.skipped_windows == 0);
    CHECK(stats.update_p50_us > 0 && stats.update_p50_us <= stats.update_p99_us);
    CHECK(stats.update_p99_us <= stats.update_max_us * 1.01);
    // Too little room: the first ones, and how many there are.
    betz_edge one, all[PAIRS];
    size_t kept;
    OK(betz_network_snapshot(network, all, PAIRS, &kept, &info, sizeof info));
    OK(betz_network_snapshot(network, &one, 1, &n, &info, sizeof info));
    CHECK(n == kept && one.i == all[0].i && one.j == all[0].j && one.r == all[0].r);
    // A gap: everything begins anew.
    OK(betz_network_push_counts(network, 9000, counts, CHANNELS));
    OK(betz_network_flush(network));
    OK(betz_network_get_stats(network, &stats, sizeof stats));
    CHECK(stats.gaps == 1 && stats.partial_steps == STEPS % BIN);
    betz_network_close(network);

    // Fewer edges kept than there are, and communities.
    betz_network_config config = plain_config();
    uint32_t communities[CHANNELS];
    config.max_edges = 2;
    config.communities = 1;
    OK(betz_network_open(&config, &network));
    OK(betz_network_communities(network, communities, CHANNELS));
    CHECK(communities[0] == UINT32_MAX);
    for (int64_t t = 0; t < STEPS; t++) {
        OK(betz_network_push_counts(network, t, counts + t * CHANNELS, CHANNELS));
    }
    OK(betz_network_flush(network));
    OK(betz_network_snapshot(network, all, PAIRS, &n, &info, sizeof info));
    CHECK(n == 2 && info.edges == kept);
    OK(betz_network_communities(network, communities, CHANNELS));
    betz_network_close(network);
    free(counts);
}

// At a session beside a miner: two trials, the second given as lists; estimates stay what they were.
static void a_session_feeds_it(void) {
    enum { TICKS = 160, FIRST = 80 };
    betz_model *model = train_model(CHANNELS, OUTPUTS, 400, 5);
    uint16_t *counts = random_counts(TICKS, CHANNELS, 6);
    betz_session *session = open_session(model), *alone = open_session(model);
    betz_network *network = open_network(), *other = open_network();
    betz_miner *miner = NULL;
    const char *const texts[] = {"0 -(0,0.1]-> 1"};
    betz_miner_config watch;
    OK(betz_miner_config_default(&watch, sizeof watch));
    watch.symbols = CHANNELS;
    watch.tick_seconds = TICK;
    watch.episodes = texts;
    watch.n_episodes = 1;
    OK(betz_miner_open(&watch, &miner));
    OK(betz_session_attach_network(session, network, 100));
    OK(betz_session_attach_miner(session, miner, 100));
    uint64_t windows = 0;
    betz_network_stats stats;
    for (int64_t t = 0; t < TICKS; t++) {
        const uint16_t *now = counts + t * CHANNELS;
        float out[OUTPUTS], expected[OUTPUTS];
        if (t == FIRST) {
            OK(betz_session_reset(session));
            OK(betz_session_reset(alone));
        }
        if (t < FIRST) {
            OK(betz_session_step_counts(session, now, CHANNELS, out, OUTPUTS));
        } else {
            uint32_t spikes[CHANNELS * 2];
            size_t fired = 0;
            for (uint32_t c = 0; c < CHANNELS; c++) {
                for (int i = 0; i < now[c]; i++) spikes[fired++] = c;
            }
            OK(betz_session_step_spikes(session, spikes, fired, out, OUTPUTS));
        }
        OK(betz_session_step_counts(alone, now, CHANNELS, expected, OUTPUTS));
        CHECK(same_bits(out, expected, OUTPUTS));
        OK(betz_network_flush(network));
        OK(betz_network_get_stats(network, &stats, sizeof stats));
        if (stats.windows > windows) {
            // 60 s of silence lie between the trials; a bin begins with the second one.
            const uint64_t before = (FIRST / BIN - WINDOW) / STEP + 1;
            const int second = windows >= before;
            const int64_t from = second * FIRST + (int64_t)(windows - (second ? before : 0)) * STEP * BIN;
            check_window(network, windows, counts + from * CHANNELS, 100 + second * 3000 + from);
            windows = stats.windows;
        }
    }
    CHECK(windows == 2 * ((FIRST / BIN - WINDOW) / STEP + 1));
    CHECK(stats.gaps == 1 && stats.partial_steps == FIRST % BIN && stats.dropped == 0);

    // One session a network, one network a session; nobody else feeds it meanwhile; each is detached by
    // itself, whichever came first.
    float out[OUTPUTS];
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_network_push_counts(network, 0, counts, CHANNELS));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_attach_network(alone, network, 0));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_attach_network(session, other, 0));
    OK(betz_session_detach_network(session));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_detach_network(session));
    OK(betz_network_push_counts(network, 0, counts, CHANNELS));
    betz_miner_stats mined, later;
    OK(betz_miner_flush(miner));
    OK(betz_miner_get_stats(miner, &mined, sizeof mined));
    OK(betz_session_step_counts(session, (const uint16_t[CHANNELS]){1, 1}, CHANNELS, out, OUTPUTS));
    OK(betz_miner_flush(miner));
    OK(betz_miner_get_stats(miner, &later, sizeof later));
    CHECK(later.events == mined.events + 2);
    OK(betz_session_attach_network(session, network, 0));
    OK(betz_session_detach_miner(session));

    // Either may be closed first.
    betz_network_close(network);
    for (int i = 0; i < 100; i++) OK(betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    OK(betz_session_attach_network(alone, other, 0));
    betz_session_close(alone);
    OK(betz_network_push_counts(other, 0, counts, CHANNELS));
    betz_network_close(other);
    betz_session_close(session);
    betz_miner_close(miner);

    // Another clock, or too few channels.
    betz_network_config config = plain_config();
    config.tick_seconds = TICK / 2;
    OK(betz_network_open(&config, &network));
    session = open_session(model);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_attach_network(session, network, 0));
    betz_network_close(network);
    config = plain_config();
    config.channels = CHANNELS - 1;
    OK(betz_network_open(&config, &network));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_attach_network(session, network, 0));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_attach_network(NULL, network, 0));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_attach_network(session, NULL, 0));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_detach_network(NULL));
    betz_network_close(network);
    betz_session_close(session);
    betz_model_free(model);
    free(counts);
}

// Many steps at once into a short line: what was dropped and what was taken is all there is.
static void what_finds_no_room_is_counted(void) {
    enum { STEPS = 20000 };
    betz_network_config config = plain_config();
    betz_network *network = NULL;
    betz_network_stats stats;
    uint16_t ones[CHANNELS];
    for (int c = 0; c < CHANNELS; c++) ones[c] = 1;
    config.capacity = CHANNELS + 1;
    OK(betz_network_open(&config, &network));
    for (int64_t t = 0; t < STEPS; t++) OK(betz_network_push_counts(network, t, ones, CHANNELS));
    OK(betz_network_flush(network));
    OK(betz_network_get_stats(network, &stats, sizeof stats));
    CHECK(stats.steps + stats.dropped == STEPS && stats.steps >= 1 && stats.waiting == 0);
    CHECK((stats.dropped > 0) >= (stats.gaps > 0));
    betz_network_close(network);
}

static void *read_on(void *network) {
    betz_edge edges[PAIRS];
    betz_network_info info;
    float degrees[CHANNELS];
    size_t n;
    for (int i = 0; i < 2000; i++) {
        OK(betz_network_snapshot(network, edges, PAIRS, &n, &info, sizeof info));
        CHECK(n == info.edges && n <= PAIRS);
        for (size_t e = 0; e < n; e++) CHECK(edges[e].i < edges[e].j && edges[e].j < CHANNELS);
        OK(betz_network_degrees(network, degrees, CHANNELS));
    }
    return NULL;
}

static void readers_and_a_feeder(void) {
    enum { STEPS = 30000 };
    uint16_t *counts = random_counts(STEPS, CHANNELS, 13);
    betz_network *network = open_network();
    pthread_t readers[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&readers[i], NULL, read_on, network) == 0);
    for (int64_t t = 0; t < STEPS; t++) {
        OK(betz_network_push_counts(network, t, counts + t * CHANNELS, CHANNELS));
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(readers[i], NULL) == 0);
    OK(betz_network_flush(network));
    betz_network_close(network);
    free(counts);
}

static void refusals(void) {
    betz_network_config config;
    betz_network *network = NULL;
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_config_default(NULL, sizeof config));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_open(NULL, &network));
    config = plain_config();
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_open(&config, NULL));
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        config = plain_config();                                                                   \
        change;                                                                                    \
        CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_network_open(&config, &network));           \
        CHECK(network == NULL);                                                                    \
    } while (0)
    REFUSED(config.channels = 0);
    REFUSED(config.channels = UINT32_MAX);
    REFUSED(config.tick_seconds = 0);
    REFUSED(config.tick_seconds = NAN);
    REFUSED(config.bin_seconds = TICK * 1.5);
    REFUSED(config.bin_seconds = TICK / 2);
    REFUSED(config.bin_seconds = -TICK);
    REFUSED(config.bin_seconds = INFINITY);
    REFUSED(config.window_bins = 1);
    REFUSED(config.window_bins = UINT32_MAX);
    REFUSED(config.step_bins = 0);
    REFUSED(config.threshold = 1.5);
    REFUSED(config.threshold = NAN);
    REFUSED(config.sign = (betz_edge_sign)3);
    REFUSED(config.strict = 2);
    REFUSED(config.communities = 2);
    REFUSED(config.reserved = 1);
    REFUSED(config.capacity = CHANNELS);
    REFUSED(config.capacity = SIZE_MAX);
    REFUSED(config.thread_priority = 100);
#undef REFUSED
    config = plain_config();
    config.struct_size = 4;
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_network_open(&config, &network));
    network = open_network();
    const uint16_t counts[CHANNELS] = {0};
    betz_network_info info;
    betz_network_stats stats;
    betz_edge edge;
    float degrees[CHANNELS];
    uint32_t communities[CHANNELS];
    size_t n = 77;
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_network_push_counts(network, 0, counts, CHANNELS - 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_push_counts(network, 0, NULL, CHANNELS));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_push_counts(NULL, 0, counts, CHANNELS));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_flush(NULL));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_snapshot(NULL, &edge, 1, &n, &info, sizeof info));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_snapshot(network, NULL, 1, &n, &info, sizeof info));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_snapshot(network, &edge, 1, NULL, &info, sizeof info));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_snapshot(network, &edge, 1, &n, NULL, sizeof info));
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_network_snapshot(network, &edge, 1, &n, &info, 3));
    CHECK(n == 77);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_network_degrees(network, degrees, CHANNELS + 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_degrees(network, NULL, CHANNELS));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_network_communities(network, communities, CHANNELS));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_network_communities(network, communities, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_get_stats(network, NULL, sizeof stats));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_network_get_stats(NULL, &stats, sizeof stats));
    betz_network_close(network);
    betz_network_close(NULL);
}

int main(void) {
    edges_are_the_plain_ones();
    a_session_feeds_it();
    what_finds_no_room_is_counted();
    readers_and_a_feeder();
    refusals();
    puts("network: edges of the same bins, gaps, drops, readers, refusals");
    return 0;
}
