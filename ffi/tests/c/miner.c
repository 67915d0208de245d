// The miner: counts as a plain count of the same events, alone and at a session, whole and in chunks;
// the list that follows a window; every refusal.
#include "support.h"

#include <math.h>
#include <pthread.h>

enum { SYMBOLS = 6, EVENTS = 20000, EPISODES = 5, LONGEST = 4, OUTPUTS = 2 };

static const double TICK = 0.001;

// In ticks: symbols, then (low, high] of each edge.
typedef struct {
    size_t size;
    uint32_t symbols[LONGEST];
    int64_t low[LONGEST], high[LONGEST];
} plain_episode;

static const plain_episode PLAIN[EPISODES] = {
    {2, {0, 1}, {4}, {6}},
    {3, {2, 2, 3}, {0, 5}, {10, 10}},
    {1, {4}, {0}, {0}},
    {4, {0, 1, 2, 3}, {0, 0, 0}, {20, 20, 20}},
    {2, {5, 0}, {4}, {6}},
};

static const char *const TEXTS[] = {
    "a -(0.004,0.006]-> b",
    "c -(0,0.01]-> c -(0.005,0.01]-> d",
    "e",
};
enum { N_TEXTS = 3 };

static const char *const LABELS[SYMBOLS] = {"a", "b", "c", "d", "e", "f"};

// Events with ties and gaps, ticks ascending.
static betz_spike *random_events(size_t n, int64_t first, uint64_t seed) {
    betz_spike *events = malloc(n * sizeof *events);
    CHECK(events != NULL);
    for (size_t i = 0; i < n; i++) {
        first += next_random(&seed) % 5;
        events[i].tick = first;
        events[i].channel = next_random(&seed) % SYMBOLS;
    }
    return events;
}

// The definition in plain loops: for each event that ends a chain the latest start of one, and from
// those, in order, every occurrence that starts after the last one taken ended.
static uint64_t plain_count(const plain_episode *e, const betz_spike *events, size_t n) {
    const int64_t none = INT64_MIN;
    int64_t *start = malloc(n * sizeof *start), *next = malloc(n * sizeof *next);
    CHECK(start != NULL && next != NULL);
    for (size_t i = 0; i < n; i++) {
        start[i] = events[i].channel == e->symbols[0] ? events[i].tick : none;
    }
    for (size_t k = 1; k < e->size; k++) {
        for (size_t i = 0; i < n; i++) {
            next[i] = none;
            if (events[i].channel != e->symbols[k]) continue;
            for (size_t j = i; j-- > 0 && events[i].tick - events[j].tick <= e->high[k - 1];) {
                const int inside = events[i].tick - events[j].tick > e->low[k - 1];
                if (inside && start[j] > next[i]) next[i] = start[j];
            }
        }
        int64_t *swap = start;
        start = next;
        next = swap;
    }
    uint64_t count = 0;
    int64_t end = none;
    for (size_t i = 0; i < n; i++) {
        if (start[i] != none && start[i] > end) {
            count++;
            end = events[i].tick;
        }
    }
    free(start);
    free(next);
    return count;
}

static void check_counts(const betz_miner *miner, const betz_spike *events, size_t n) {
    uint64_t counts[EPISODES];
    size_t len = 0;
    OK(betz_miner_flush(miner));
    OK(betz_miner_counts(miner, counts, EPISODES, &len));
    CHECK(len == EPISODES);
    for (size_t i = 0; i < EPISODES; i++) CHECK(counts[i] == plain_count(&PLAIN[i], events, n));
}

// Three episodes as text, two as arrays.
static betz_miner *open_miner(size_t capacity) {
    static const uint32_t chain[] = {0, 1, 2, 3}, pair[] = {5, 0};
    static const betz_interval wide[] = {{0, 0.02}, {0, 0.02}, {0, 0.02}}, narrow[] = {{0.004, 0.006}};
    static const betz_episode patterns[] = {{chain, wide, 4}, {pair, narrow, 2}};
    betz_miner_config config;
    betz_miner *miner = NULL;
    OK(betz_miner_config_default(&config, sizeof config));
    config.symbols = SYMBOLS;
    config.tick_seconds = TICK;
    config.labels = LABELS;
    config.episodes = TEXTS;
    config.n_episodes = N_TEXTS;
    config.patterns = patterns;
    config.n_patterns = 2;
    config.capacity = capacity;
    OK(betz_miner_open(&config, &miner));
    return miner;
}

static void counts_are_the_plain_ones(void) {
    betz_spike *events = random_events(EVENTS, -500, 3);
    betz_miner *miner = open_miner(EVENTS);
    size_t pushed = 0, from = 0, len = 0;
    check_counts(miner, events, 0);
    for (uint64_t chance = 9; from < EVENTS; from += pushed) {
        size_t chunk = next_random(&chance) % 3000;
        if (chunk > EVENTS - from) chunk = EVENTS - from;
        OK(betz_miner_push(miner, events + from, chunk, &pushed));
        CHECK(pushed == chunk);
        check_counts(miner, events, from + chunk);
    }
    OK(betz_miner_counts(miner, NULL, 0, &len));
    CHECK(len == EPISODES);

    // The same in seconds, each a third of a tick off.
    betz_miner *again = open_miner(EVENTS);
    double *seconds = malloc(EVENTS * sizeof *seconds);
    uint32_t *symbols = malloc(EVENTS * sizeof *symbols);
    CHECK(seconds != NULL && symbols != NULL);
    for (size_t i = 0; i < EVENTS; i++) {
        seconds[i] = ((double)events[i].tick + (i % 3 - 1.0) / 3.0) * TICK;
        symbols[i] = events[i].channel;
    }
    OK(betz_miner_push_seconds(again, seconds, symbols, EVENTS, &pushed));
    CHECK(pushed == EVENTS);
    check_counts(again, events, EVENTS);
    seconds[7] = NAN;
    pushed = 77;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_miner_push_seconds(again, seconds, symbols, EVENTS, &pushed));
    CHECK(pushed == 77);
    check_counts(again, events, EVENTS);

    // The list: what was given, as text and as arrays.
    betz_watch_list *list = NULL;
    OK(betz_miner_watch_list(miner, &list));
    betz_miner_close(miner); // the list outlives it
    CHECK(betz_watch_list_len(list) == EPISODES && betz_watch_list_last_failure(list) == NULL);
    betz_watched watched;
    for (size_t i = 0; i < EPISODES; i++) {
        OK(betz_watch_list_get(list, i, &watched, sizeof watched));
        CHECK(watched.size == PLAIN[i].size && watched.since_tick == INT64_MIN);
        CHECK(watched.count == plain_count(&PLAIN[i], events, EVENTS));
        CHECK(i >= N_TEXTS || strcmp(watched.text, TEXTS[i]) == 0);
        for (size_t k = 0; k < watched.size; k++) {
            CHECK(watched.symbols[k] == PLAIN[i].symbols[k]);
            CHECK(k + 1 == watched.size ||
                  fabs(watched.intervals[k].high_seconds - (double)PLAIN[i].high[k] * TICK) < 1e-12);
        }
    }
    CHECK(strcmp(watched.text, "f -(0.004,0.006]-> a") == 0);
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_watch_list_get(list, EPISODES, &watched, sizeof watched));
    betz_watch_list_free(list);
    betz_miner_close(again);
    free(seconds);
    free(symbols);
    free(events);
}

static void what_is_not_taken_is_counted(void) {
    betz_miner *miner = open_miner(16);
    const betz_spike events[] = {{5, 0}, {4, 1}, {5, SYMBOLS}, {INT64_MAX, 0}, {10, 1}};
    size_t pushed;
    betz_miner_stats stats;
    OK(betz_miner_push(miner, events, 5, &pushed));
    OK(betz_miner_flush(miner));
    OK(betz_miner_get_stats(miner, &stats, sizeof stats));
    CHECK(pushed == 5 && stats.events == 2 && stats.late == 1 && stats.invalid == 2);
    CHECK(stats.newest_tick == 10 && stats.episodes == EPISODES && stats.dropped == 0);
    CHECK(stats.renewed == 0 && stats.failures == 0);
    // More than the line holds at once: the miner's thread may take some meanwhile, not 1,000.
    betz_spike flood[1000];
    for (int i = 0; i < 1000; i++) flood[i] = (betz_spike){20, 0};
    uint64_t taken = 0;
    OK(betz_miner_push(miner, flood, 1000, &pushed));
    CHECK(pushed >= 1 && pushed <= 1000);
    taken += pushed;
    OK(betz_miner_flush(miner));
    OK(betz_miner_get_stats(miner, &stats, sizeof stats));
    CHECK(stats.events == 2 + taken && stats.dropped == 1000 - taken);
    betz_miner_close(miner);
}

// A miner at a session counts what the steps take in, and the estimates stay what they were.
static void a_session_feeds_it(void) {
    enum { TICKS = 3000 };
    const betz_train_config train = small_config(SYMBOLS);
    uint16_t *counts = random_counts(TICKS, SYMBOLS, 5);
    float *behavior = follow(counts, TICKS, SYMBOLS, OUTPUTS);
    betz_model *model = NULL;
    betz_train_config fine = train;
    fine.step_seconds = TICK;
    OK(betz_train_counts(&fine, counts, behavior, TICKS, OUTPUTS, &model));
    betz_session *session = open_session(model), *alone = open_session(model);
    betz_miner *miner = open_miner(1 << 20), *other = open_miner(16);

    betz_spike *events = malloc((size_t)TICKS * SYMBOLS * 3 * sizeof *events);
    CHECK(events != NULL);
    size_t n = 0;
    OK(betz_session_attach_miner(session, miner, 100));
    for (int trial = 0; trial < 2; trial++) {
        if (trial == 1) {
            OK(betz_session_reset(session));
            OK(betz_session_reset(alone));
        }
        for (int64_t t = 0; t < TICKS / 2; t++) {
            const uint16_t *now = counts + (trial * TICKS / 2 + t) * SYMBOLS;
            // 60 s of silence after the first trial's last tick.
            const int64_t tick = 100 + trial * (TICKS / 2 + 60000) + t;
            uint32_t spikes[SYMBOLS * 2];
            size_t fired = 0;
            for (uint32_t c = 0; c < SYMBOLS; c++) {
                for (int i = 0; i < now[c]; i++) spikes[fired++] = c;
                if (now[c] > 0) events[n++] = (betz_spike){tick, c};
            }
            float out[OUTPUTS], expected[OUTPUTS];
            if (trial == 0) {
                OK(betz_session_step_counts(session, now, SYMBOLS, out, OUTPUTS));
                OK(betz_session_step_counts(alone, now, SYMBOLS, expected, OUTPUTS));
            } else {
                OK(betz_session_step_spikes(session, spikes, fired, out, OUTPUTS));
                OK(betz_session_step_spikes(alone, spikes, fired, expected, OUTPUTS));
            }
            CHECK(same_bits(out, expected, OUTPUTS));
        }
    }
    check_counts(miner, events, n);
    betz_miner_stats stats;
    OK(betz_miner_get_stats(miner, &stats, sizeof stats));
    CHECK(stats.dropped == 0 && stats.late == 0 && stats.invalid == 0);

    // One session a miner, one miner a session; nobody else feeds it meanwhile.
    size_t pushed = 77;
    const betz_spike event = {INT64_C(1) << 40, 0};
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_miner_push(miner, &event, 1, &pushed));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_attach_miner(alone, miner, 0));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_attach_miner(session, other, 0));
    CHECK(pushed == 77);
    OK(betz_session_detach_miner(session));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_detach_miner(session));
    OK(betz_miner_push(miner, &event, 1, &pushed));
    CHECK(pushed == 1);

    // Either may be closed first.
    float out[OUTPUTS];
    OK(betz_session_attach_miner(session, miner, INT64_C(1) << 41));
    betz_miner_close(miner);
    for (int i = 0; i < 100; i++) {
        OK(betz_session_step_counts(session, counts, SYMBOLS, out, OUTPUTS));
    }
    OK(betz_session_attach_miner(alone, other, 0));
    betz_session_close(alone);
    OK(betz_miner_push(other, &event, 1, &pushed));
    betz_session_close(session);
    betz_miner_close(other);

    // A miner on another clock, or with too few symbols.
    betz_model *slow = NULL, *wide = train_model(SYMBOLS + 1, OUTPUTS, 200, 1);
    OK(betz_train_counts(&train, counts, behavior, TICKS, OUTPUTS, &slow));
    session = open_session(slow);
    miner = open_miner(16);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_attach_miner(session, miner, 0));
    betz_session_close(session);
    session = open_session(wide);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_attach_miner(session, miner, 0));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_attach_miner(NULL, miner, 0));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_attach_miner(session, NULL, 0));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_session_detach_miner(NULL));
    betz_session_close(session);
    betz_miner_close(miner);
    betz_model_free(model);
    betz_model_free(slow);
    betz_model_free(wide);
    free(counts);
    free(behavior);
    free(events);
}

// A window: 0 then 1 for some time, 2 then 3 later; the list follows.
static void the_list_follows_a_window(void) {
    const betz_interval near = {0, 0.005};
    betz_miner_config config;
    betz_miner *miner = NULL;
    OK(betz_miner_config_default(&config, sizeof config));
    config.symbols = 4;
    config.tick_seconds = TICK;
    config.intervals = &near;
    config.n_intervals = 1;
    config.window_seconds = 0.4;
    config.threshold = 8;
    OK(betz_miner_open(&config, &miner));
    const char *const wanted[] = {"0 -(0,0.005]-> 1", "2 -(0,0.005]-> 3"};
    int64_t tick = 0;
    for (int part = 0; part < 2; part++) {
        int found = 0;
        while (!found) {
            CHECK(tick < 100000000);
            tick += 20;
            const uint32_t s = 2 * (uint32_t)part;
            const betz_spike events[] = {{tick, s}, {tick + 3, s + 1}};
            size_t pushed;
            OK(betz_miner_push(miner, events, 2, &pushed));
            CHECK(pushed == 2);
            OK(betz_miner_flush(miner));
            betz_watch_list *list = NULL;
            betz_watched first;
            OK(betz_miner_watch_list(miner, &list));
            if (betz_watch_list_len(list) > 0) {
                OK(betz_watch_list_get(list, 0, &first, sizeof first));
                found = strcmp(first.text, wanted[part]) == 0;
                CHECK(!found || first.count >= 8);
            }
            betz_watch_list_free(list);
        }
    }
    betz_miner_stats stats;
    OK(betz_miner_get_stats(miner, &stats, sizeof stats));
    CHECK(stats.renewed >= 2 && stats.failures == 0 && stats.newest_tick == tick + 3);
    betz_miner_close(miner);
}

static void *feed(void *miner) {
    betz_spike *events = random_events(EVENTS, 0, 11);
    for (size_t from = 0; from < EVENTS; from += 100) {
        size_t pushed;
        OK(betz_miner_push(miner, events + from, 100, &pushed));
        CHECK(pushed == 100);
    }
    free(events);
    return NULL;
}

// Read from two threads while another feeds.
static void *look(void *miner) {
    uint64_t before = 0, counts[EPISODES];
    for (int i = 0; i < 200; i++) {
        size_t len;
        betz_miner_stats stats;
        OK(betz_miner_counts(miner, counts, EPISODES, &len));
        CHECK(len == EPISODES && counts[2] >= before);
        before = counts[2];
        OK(betz_miner_get_stats(miner, &stats, sizeof stats));
        OK(betz_miner_flush(miner));
    }
    return NULL;
}

static void others_may_read_while_one_feeds(void) {
    betz_miner *miner = open_miner(EVENTS);
    pthread_t threads[3];
    CHECK(pthread_create(&threads[0], NULL, feed, miner) == 0);
    CHECK(pthread_create(&threads[1], NULL, look, miner) == 0);
    CHECK(pthread_create(&threads[2], NULL, look, miner) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    betz_spike *events = random_events(EVENTS, 0, 11);
    check_counts(miner, events, EVENTS);
    free(events);
    betz_miner_close(miner);
}

// A place for a result, and what must still be in it after a failure.
#define CANARY ((void *)(uintptr_t)0xB0B0)

static void refusals(void) {
    betz_miner *miner = open_miner(16), *none = CANARY;
    betz_watch_list *list = CANARY;
    betz_miner_config config, bad;
    OK(betz_miner_config_default(&config, sizeof config));
    config.symbols = SYMBOLS;
    config.tick_seconds = TICK;
    config.labels = LABELS;
    config.episodes = TEXTS;
    config.n_episodes = N_TEXTS;
    const betz_spike event = {0, 0};
    const double second = 0;
    const uint32_t symbol = 0;
    uint64_t counts[EPISODES];
    size_t size = 77;
    betz_miner_stats stats;
    betz_watched watched;
    memset(counts, 0x77, sizeof counts);
    memset(&stats, 0x77, sizeof stats);
    memset(&watched, 0x77, sizeof watched);

#define NULL_REFUSED(call) CHECK_STATUS(BETZ_ERROR_NULL, call)
    NULL_REFUSED(betz_miner_config_default(NULL, 64));
    NULL_REFUSED(betz_miner_open(NULL, &none));
    NULL_REFUSED(betz_miner_open(&config, NULL));
    NULL_REFUSED(betz_miner_push(NULL, &event, 1, &size));
    NULL_REFUSED(betz_miner_push(miner, NULL, 1, &size));
    NULL_REFUSED(betz_miner_push(miner, &event, 1, NULL));
    NULL_REFUSED(betz_miner_push_seconds(NULL, &second, &symbol, 1, &size));
    NULL_REFUSED(betz_miner_push_seconds(miner, NULL, &symbol, 1, &size));
    NULL_REFUSED(betz_miner_push_seconds(miner, &second, NULL, 1, &size));
    NULL_REFUSED(betz_miner_push_seconds(miner, &second, &symbol, 1, NULL));
    NULL_REFUSED(betz_miner_flush(NULL));
    NULL_REFUSED(betz_miner_counts(NULL, counts, EPISODES, &size));
    NULL_REFUSED(betz_miner_counts(miner, NULL, 1, &size));
    NULL_REFUSED(betz_miner_counts(miner, counts, EPISODES, NULL));
    NULL_REFUSED(betz_miner_get_stats(NULL, &stats, sizeof stats));
    NULL_REFUSED(betz_miner_get_stats(miner, NULL, 64));
    NULL_REFUSED(betz_miner_watch_list(NULL, &list));
    NULL_REFUSED(betz_miner_watch_list(miner, NULL));
    NULL_REFUSED(betz_watch_list_get(NULL, 0, &watched, sizeof watched));
    CHECK(betz_watch_list_len(NULL) == 0 && betz_watch_list_last_failure(NULL) == NULL);
    betz_watch_list *real = NULL;
    OK(betz_miner_watch_list(miner, &real));
    NULL_REFUSED(betz_watch_list_get(real, 0, NULL, 64));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_watch_list_get(real, SIZE_MAX, &watched, sizeof watched));
    betz_watch_list_free(real);
    betz_watch_list_free(NULL);
    betz_miner_close(NULL);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_miner_counts(miner, counts, EPISODES - 1, &size));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_miner_push(miner, &event, SIZE_MAX, &size));

    const uint32_t sizes[] = {0, 1, sizeof config - 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bad = config;
        bad.struct_size = sizes[i];
        CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_miner_open(&bad, &none));
    }
    // A newer caller that asks for something this version does not have.
    struct {
        betz_miner_config config;
        uint64_t unknown;
    } newer = {config, 1};
    newer.config.struct_size = sizeof newer;
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_miner_open(&newer.config, &none));
    char message[256];
#define CONFIG_REFUSED(status, words, ...)                                                         \
    do {                                                                                           \
        bad = config;                                                                              \
        __VA_ARGS__;                                                                               \
        CHECK_STATUS(status, betz_miner_open(&bad, &none));                                        \
        betz_last_error(message, sizeof message);                                                  \
        if (strstr(message, words) == NULL) fprintf(stderr, "message: %s\n", message);             \
        CHECK(strstr(message, words) != NULL);                                                     \
    } while (0)
    const char *const unknown[] = {"a -(0,1]-> z"}, *const bare[] = {"a b"}, *const holes[] = {NULL};
    const char *const twice[SYMBOLS] = {"a", "b", "c", "d", "e", "a"};
    const betz_interval backwards = {0.5, 0.1}, good = {0, 0.01};
    const uint32_t pair[] = {0, 1}, strange[] = {0, SYMBOLS};
    const betz_episode empty = {pair, &good, 0}, no_edge = {pair, NULL, 2};
    const betz_episode edge = {pair, &backwards, 2}, far = {strange, &good, 2};
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->symbols", bad.symbols = 0);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->symbols", bad.symbols = UINT32_MAX);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->tick_seconds", bad.tick_seconds = 0);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->tick_seconds", bad.tick_seconds = NAN);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->labels", bad.labels = twice);
    CONFIG_REFUSED(BETZ_ERROR_NULL, "config->episodes", bad.episodes = NULL);
    CONFIG_REFUSED(BETZ_ERROR_NULL, "config->episodes", bad.episodes = holes; bad.n_episodes = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->episodes[0]", bad.episodes = unknown;
                   bad.n_episodes = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "no interval", bad.episodes = bare;
                   bad.n_episodes = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "episodes to watch", bad.n_episodes = 0);
    CONFIG_REFUSED(BETZ_ERROR_NULL, "config->patterns", bad.n_patterns = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->patterns[0]", bad.patterns = &empty;
                   bad.n_patterns = 1);
    CONFIG_REFUSED(BETZ_ERROR_NULL, "intervals", bad.patterns = &no_edge; bad.n_patterns = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->patterns[0]", bad.patterns = &edge;
                   bad.n_patterns = 1);
    CONFIG_REFUSED(BETZ_ERROR_MISMATCH, "symbol", bad.patterns = &far; bad.n_patterns = 1);
    CONFIG_REFUSED(BETZ_ERROR_NULL, "config->intervals", bad.n_intervals = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "config->intervals", bad.intervals = &backwards;
                   bad.n_intervals = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "ring", bad.capacity = 0);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "window", bad.window_seconds = INFINITY);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "interval", bad.window_seconds = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "threshold", bad.window_seconds = 1;
                   bad.intervals = &good; bad.n_intervals = 1);
    CONFIG_REFUSED(BETZ_ERROR_INVALID_ARGUMENT, "longer window", bad.window_seconds = 0.05;
                   bad.intervals = &good; bad.n_intervals = 1; bad.threshold = 1);

    // Nothing was touched.
    CHECK(none == CANARY && list == CANARY && size == 77);
    for (size_t i = 0; i < sizeof counts; i++) CHECK(((uint8_t *)counts)[i] == 0x77);
    for (size_t i = 0; i < sizeof stats; i++) CHECK(((uint8_t *)&stats)[i] == 0x77);
    for (size_t i = 0; i < sizeof watched; i++) CHECK(((uint8_t *)&watched)[i] == 0x77);
    OK(betz_miner_flush(miner));
    OK(betz_miner_get_stats(miner, &stats, sizeof stats));
    CHECK(stats.events == 0);
    // One interval given stands for edges without their own.
    bad = config;
    bad.episodes = bare;
    bad.n_episodes = 1;
    bad.intervals = &good;
    bad.n_intervals = 1;
    OK(betz_miner_open(&bad, &none));
    betz_miner_close(none);
    betz_miner_close(miner);
}

int main(void) {
    counts_are_the_plain_ones();
    what_is_not_taken_is_counted();
    a_session_feeds_it();
    the_list_follows_a_window();
    others_may_read_while_one_feeds();
    refusals();
    puts("miner: ok");
    return 0;
}
