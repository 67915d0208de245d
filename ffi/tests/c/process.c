// The library within its process: threads that inherit nothing and end with the call, forked children, and
// the progress function.
#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNELS = 8, OUTPUTS = 2, STEPS = 400 };

static cpu_set_t at_start;
static pthread_t caller;
static atomic_int asked, foreign, wrong_place, wrong_policy, stop_at;

static uint32_t progress(void *user, const char *stage, uint64_t done, uint64_t total) {
    const cpu_set_t *expected = user;
    CHECK(stage != NULL && done <= total);
    if (!pthread_equal(pthread_self(), caller)) {
        foreign++;
        cpu_set_t mine;
        CHECK(sched_getaffinity(0, sizeof mine, &mine) == 0);
        wrong_place += !CPU_EQUAL(&mine, expected);
        wrong_policy += sched_getscheduler(0) != SCHED_OTHER;
    }
    return ++asked == stop_at;
}

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) n += entry->d_name[0] != '.';
    closedir(tasks);
    return n;
}

// A joined thread may be listed a moment longer.
static void expect_threads(int expected) {
    for (int tries = 0; threads() != expected && tries < 2000; tries++) usleep(1000);
    CHECK(threads() == expected);
}

static betz_status train(const uint16_t *counts, const float *behavior, cpu_set_t *expected,
                         const uint32_t *processors, size_t n) {
    betz_train_config config = small_config(CHANNELS);
    config.folds = 2;
    config.progress = progress;
    config.progress_user = expected;
    config.processors = processors;
    config.n_processors = n;
    betz_model *model = NULL;
    const betz_status status = betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model);
    betz_model_free(model);
    return status;
}

static void inherits_nothing(const uint16_t *counts, const float *behavior) {
    uint32_t first = 0;
    while (!CPU_ISSET(first, &at_start)) first++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    const struct sched_param fifo = {.sched_priority = 50};
    const int real_time = pthread_setschedparam(pthread_self(), SCHED_FIFO, &fifo) == 0;
    OK(train(counts, behavior, &at_start, NULL, 0));
    CHECK(foreign > 0 && wrong_place == 0 && wrong_policy == 0);
    expect_threads(1);
    // As asked, when asked.
    OK(train(counts, behavior, &one, &first, 1));
    CHECK(wrong_place == 0 && wrong_policy == 0);
    expect_threads(1);
    CHECK(!real_time || sched_getscheduler(0) == SCHED_FIFO);
    const struct sched_param normal = {0};
    CHECK(pthread_setschedparam(pthread_self(), SCHED_OTHER, &normal) == 0);
    CHECK(sched_setaffinity(0, sizeof at_start, &at_start) == 0);
    const uint32_t nowhere = 1000;
    CHECK_STATUS(BETZ_ERROR_IO, train(counts, behavior, &one, &nowhere, 1));
    printf("process: trained from a thread pinned to one processor%s: %d calls of the progress function "
           "from threads of the process's own kind\n",
           real_time ? ", FIFO 50" : "", (int)foreign);
}

static void stops_when_told(const uint16_t *counts, const float *behavior) {
    asked = 0;
    stop_at = 0;
    OK(train(counts, behavior, &at_start, NULL, 0));
    const int calls = asked;
    CHECK(calls >= 2);
    for (int at = 1; at <= calls; at++) {
        asked = 0;
        stop_at = at;
        CHECK_STATUS(BETZ_ERROR_INTERRUPTED, train(counts, behavior, &at_start, NULL, 0));
    }
    stop_at = 0;
}

static betz_miner *open_miner(void) {
    static const char *episodes[] = {"0 1"};
    static const betz_interval near = {0.0, 0.1};
    betz_miner_config config;
    OK(betz_miner_config_default(&config, sizeof config));
    config.symbols = CHANNELS;
    config.tick_seconds = 0.02;
    config.episodes = episodes;
    config.n_episodes = 1;
    config.intervals = &near;
    config.n_intervals = 1;
    config.window_seconds = 10.0;
    config.threshold = 2;
    betz_miner *miner = NULL;
    OK(betz_miner_open(&config, &miner));
    return miner;
}

static void works_in_a_child(const uint16_t *counts, const float *behavior) {
    betz_model *model = train_model(CHANNELS, OUTPUTS, STEPS, 1);
    betz_session *session = open_session(model);
    betz_miner *miner = open_miner();
    OK(betz_session_attach_miner(session, miner, 0));
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60); // what hangs is ended
        caller = pthread_self();
        float out[OUTPUTS];
        size_t len = 0;
        betz_miner_stats stats;
        betz_watch_list *list = NULL;
        betz_session *second = open_session(model);
        for (int t = 0; t < 100; t++) {
            OK(betz_session_step_counts(session, counts + t * CHANNELS, CHANNELS, out, OUTPUTS));
        }
        CHECK_STATUS(BETZ_ERROR_FORKED, betz_miner_flush(miner));
        CHECK_STATUS(BETZ_ERROR_FORKED, betz_miner_counts(miner, NULL, 0, &len));
        CHECK_STATUS(BETZ_ERROR_FORKED, betz_miner_get_stats(miner, &stats, sizeof stats));
        CHECK_STATUS(BETZ_ERROR_FORKED, betz_miner_watch_list(miner, &list));
        CHECK_STATUS(BETZ_ERROR_FORKED, betz_session_attach_miner(second, miner, 0));
        OK(train(counts, behavior, &at_start, NULL, 0));
        betz_miner *own = open_miner();
        OK(betz_miner_flush(own));
        betz_miner_close(own);
        betz_session_close(second);
        betz_session_close(session);
        betz_miner_close(miner);
        betz_model_free(model);
        _exit(0);
    }
    int how = 0;
    CHECK(waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    OK(betz_miner_flush(miner));
    betz_session_close(session);
    betz_miner_close(miner);
    betz_model_free(model);
}

int main(void) {
    caller = pthread_self();
    CHECK(sched_getaffinity(0, sizeof at_start, &at_start) == 0);
    uint16_t *counts = random_counts(STEPS, CHANNELS, 1);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    inherits_nothing(counts, behavior);
    stops_when_told(counts, behavior);
    works_in_a_child(counts, behavior);
    free(counts);
    free(behavior);
    puts("process: ok");
    return 0;
}
