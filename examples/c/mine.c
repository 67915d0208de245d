/* Watches episodes of spikes while they come: which unit fires after which, at which delay, how often.
 *
 *   mine [SECONDS]
 *
 * Eight units fire at 5 Hz; in 30 s of every minute, a spike of unit 2 makes unit 5 fire 4 to 6 ms
 * later, and that one unit 1. One miner watches a fixed list; another mines the last 30 s again and
 * again and watches what is frequent in them. Put your acquisition in place of the simulation; to
 * count what a decoder is fed with, attach the miner to its session (betz_session_attach_miner).
 *
 *   cc mine.c $(pkg-config --cflags --libs betz) -o mine
 */
#include <betz.h>

#include <stdio.h>
#include <stdlib.h>

enum { UNITS = 8, DELAYED = 64 };

static const double TICK = 0.0001;

static void must(betz_status status, const char *what) {
    if (status != BETZ_OK) {
        char message[512];
        betz_last_error(message, sizeof message);
        fprintf(stderr, "%s: %s: %s\n", what, betz_status_string(status), message);
        exit(1);
    }
}

static double chance(void) { return rand() / (RAND_MAX + 1.0); }

/* The spikes of one tick to `spikes`; how many. */
static size_t acquire(int64_t tick, betz_spike *spikes) {
    static int64_t due[DELAYED];
    static uint32_t due_unit[DELAYED];
    static size_t waiting = 0;
    const int linked = tick % (int64_t)(60 / TICK) < (int64_t)(30 / TICK);
    size_t n = 0;
    for (uint32_t unit = 0; unit < UNITS; unit++) {
        int fires = chance() < 5.0 * TICK;
        for (size_t i = 0; i < waiting; i++) {
            if (due[i] == tick && due_unit[i] == unit) {
                fires = 1;
                waiting--;
                due[i] = due[waiting];
                due_unit[i] = due_unit[waiting];
                i--;
            }
        }
        if (fires) {
            spikes[n].tick = tick;
            spikes[n].channel = unit;
            n++;
            if (linked && (unit == 2 || unit == 5) && waiting < DELAYED) {
                due[waiting] = tick + 41 + (int64_t)(chance() * 20);
                due_unit[waiting] = unit == 2 ? 5 : 1;
                waiting++;
            }
        }
    }
    return n;
}

static void print(const betz_miner *miner, size_t most) {
    betz_watch_list *list = NULL;
    must(betz_miner_watch_list(miner, &list), "reading the counts");
    for (size_t i = 0; i < betz_watch_list_len(list) && i < most; i++) {
        betz_watched watched;
        must(betz_watch_list_get(list, i, &watched, sizeof watched), "reading an episode");
        printf("  %6llu  %s\n", (unsigned long long)watched.count, watched.text);
    }
    betz_watch_list_free(list);
}

int main(int argc, char **argv) {
    const long seconds = argc > 1 ? atol(argv[1]) : 120;
    static const char *const labels[UNITS] = {"u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7"};
    static const char *const episodes[] = {
        "u2 -(0.004,0.006]-> u5 -(0.004,0.006]-> u1",
        "u5 -(0.004,0.006]-> u2",
    };
    static const betz_interval interval = {0.004, 0.006};

    betz_miner_config config;
    must(betz_miner_config_default(&config, sizeof config), "configuring");
    config.symbols = UNITS;
    config.tick_seconds = TICK;
    config.labels = labels;
    config.episodes = episodes;
    config.n_episodes = sizeof episodes / sizeof *episodes;
    betz_miner *fixed = NULL;
    must(betz_miner_open(&config, &fixed), "opening the miner of a fixed list");

    config.episodes = NULL;
    config.n_episodes = 0;
    config.intervals = &interval;
    config.n_intervals = 1;
    config.window_seconds = 30.0;
    config.threshold = 60;
    betz_miner *following = NULL;
    must(betz_miner_open(&config, &following), "opening the miner of a window");

    const int64_t ticks_a_second = (int64_t)(1.0 / TICK + 0.5);
    for (int64_t tick = 0; tick < seconds * ticks_a_second; tick++) {
        betz_spike spikes[UNITS];
        size_t pushed;
        const size_t n = acquire(tick, spikes);
        must(betz_miner_push(fixed, spikes, n, &pushed), "pushing");
        must(betz_miner_push(following, spikes, n, &pushed), "pushing");
        if ((tick + 1) % (30 * ticks_a_second) == 0) {
            /* Only to read counts that are up to date: a feeding thread would not wait. */
            must(betz_miner_flush(fixed), "waiting");
            must(betz_miner_flush(following), "waiting");
            printf("%lld s, watched:\n", (long long)((tick + 1) / ticks_a_second));
            print(fixed, 2);
            printf("frequent lately, counted since:\n");
            print(following, 4);
        }
    }

    betz_miner_stats stats;
    must(betz_miner_get_stats(fixed, &stats, sizeof stats), "reading the statistics");
    printf("%llu events, %llu dropped\n", (unsigned long long)stats.events,
           (unsigned long long)stats.dropped);
    betz_miner_close(fixed);
    betz_miner_close(following);
    return 0;
}
