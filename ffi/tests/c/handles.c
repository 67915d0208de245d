// The threads of every handle and their scheduling, places of listeners that are closed, handles that know their session, and
// handles in a forked child.
#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHANNELS = 8, OUTPUTS = 2, STEPS = 1600, TRIAL = 40, LISTENERS = 8 };

static betz_model *model;
static uint16_t *counts;
static float *behavior;

static void pause_ms(long ms) {
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

struct threads {
    int all, foreign, real_time, pinned;
};

// The threads of this process besides its first one: those whose name is not Betz's, those of a real-time policy, and those
// that may run on fewer than `processors`.
static struct threads threads(int processors) {
    struct threads found = {0, 0, 0, 0};
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        const pid_t thread = (pid_t)atoi(entry->d_name);
        if (thread == 0 || thread == getpid()) continue;
        char path[64], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)thread);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue; // it has just ended
        if (fgets(name, sizeof name, file) == NULL) name[0] = 0;
        fclose(file);
        cpu_set_t set;
        CPU_ZERO(&set);
        sched_getaffinity(thread, sizeof set, &set);
        found.all++;
        found.foreign += strncmp(name, "betz-", 5) != 0;
        found.real_time += sched_getscheduler(thread) != SCHED_OTHER;
        found.pinned += CPU_COUNT(&set) < processors;
        if (strncmp(name, "betz-", 5) != 0) fprintf(stderr, "a thread named %s", name);
    }
    closedir(folder);
    return found;
}

static void step(betz_session *session, size_t n) {
    float out[OUTPUTS];
    for (size_t t = 0; t < n; t++) {
        OK(betz_session_step_counts(session, counts + t % STEPS * CHANNELS, CHANNELS, out, OUTPUTS));
    }
}

static betz_trainer *open_trainer(betz_session *session) {
    betz_trainer_config config;
    OK(betz_trainer_config_default(&config, sizeof config));
    config.batch = 2;
    betz_trainer *trainer = NULL;
    OK(betz_trainer_open(session, model, &config, &trainer));
    return trainer;
}

// Gives a trainer trials, and waits until it has learned from them and solved candidates.
static void learn(betz_session *session, betz_trainer *trainer, uint64_t trials) {
    float out[OUTPUTS];
    for (size_t t = 0; t < trials * TRIAL; t++) {
        OK(betz_session_step_counts(session, counts + t % STEPS * CHANNELS, CHANNELS, out, OUTPUTS));
        OK(betz_trainer_label(trainer, behavior + t % STEPS * OUTPUTS, OUTPUTS));
        if (t % TRIAL == TRIAL - 1) OK(betz_trainer_end_trial(trainer, 1));
    }
    for (;;) {
        betz_trainer_state state;
        OK(betz_trainer_get_state(trainer, &state, sizeof state));
        if (state.trials + state.dropped_full >= trials && state.waiting == 0) return;
        pause_ms(1);
    }
}

static betz_miner *open_miner(void) {
    static const char *const episodes[1] = {"1 2"};
    static const betz_interval interval = {0, 0.1};
    betz_miner_config config;
    betz_miner *miner = NULL;
    OK(betz_miner_config_default(&config, sizeof config));
    config.symbols = CHANNELS;
    config.tick_seconds = 0.02;
    config.episodes = episodes;
    config.n_episodes = 1;
    config.intervals = &interval;
    config.n_intervals = 1;
    config.window_seconds = 1;
    config.threshold = 5;
    OK(betz_miner_open(&config, &miner));
    return miner;
}

static betz_network *open_network(void) {
    betz_network_config config;
    betz_network *network = NULL;
    OK(betz_network_config_default(&config, sizeof config));
    config.channels = CHANNELS;
    config.tick_seconds = 0.02;
    config.bin_seconds = 0.04;
    config.window_bins = 4;
    OK(betz_network_open(&config, &network));
    return network;
}

// With every handle at work, all threads are Betz's by name: a global pool's have the program's. None is left after the handles
// are closed. None has the caller's processor.
static void every_thread_is_its_handles(void) {
    cpu_set_t before, one;
    CPU_ZERO(&before);
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    const int processors = CPU_COUNT(&before);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    const struct sched_param high = {.sched_priority = 60}, none = {.sched_priority = 0};
    const int real_time = sched_setscheduler(0, SCHED_FIFO, &high) == 0;
    betz_session *session = open_session(model);
    betz_unlike *unlike = NULL;
    OK(betz_unlike_open(session, model, 1.0, &unlike));
    betz_trainer *trainer = open_trainer(session);
    if (real_time) CHECK(sched_setscheduler(0, SCHED_OTHER, &none) == 0);
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
    betz_miner *miner = open_miner();
    betz_network *network = open_network();
    OK(betz_session_attach_miner(session, miner, 0));
    OK(betz_session_attach_network(session, network, 0));
    learn(session, trainer, 12);
    OK(betz_miner_flush(miner));
    OK(betz_network_flush(network));
    const struct threads found = threads(processors);
    printf("handles: %d threads of 5 handles on %d processors%s\n", found.all, processors,
           real_time ? ", opened from a FIFO thread" : "");
    CHECK(found.all >= 5 && found.foreign == 0 && found.real_time == 0 && found.pinned == 0);
    betz_trainer_close(trainer);
    betz_unlike_close(unlike);
    betz_miner_close(miner);
    betz_network_close(network);
    betz_session_close(session);
    CHECK(threads(processors).all == 0);
}

// A child opens and closes what its parent has had.
static void a_child_opens_its_own(void) {
    betz_session *session = open_session(model);
    betz_trainer *trainer = open_trainer(session);
    betz_unlike *unlike = NULL;
    OK(betz_unlike_open(session, model, 1.0, &unlike));
    learn(session, trainer, 4);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // Ends a child that hangs.
        alarm(60);
        betz_session *own = open_session(model);
        betz_trainer *its = open_trainer(own);
        betz_unlike *watch = NULL;
        OK(betz_unlike_open(own, model, 1.0, &watch));
        learn(own, its, 4);
        betz_trainer_state state;
        CHECK_STATUS(BETZ_ERROR_FORKED, betz_trainer_get_state(trainer, &state, sizeof state));
        betz_trainer_close(its);
        betz_unlike_close(watch);
        // Those of the parent.
        betz_trainer_close(trainer);
        betz_unlike_close(unlike);
        betz_session_close(session);
        betz_session_close(own);
        _exit(0);
    }
    int how = 0;
    CHECK(waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    betz_trainer_close(trainer);
    betz_unlike_close(unlike);
    betz_session_close(session);
}

// Opened and closed again and again on one session: each leaves its place, and the last one hears.
static void closed_listeners_leave_their_places(void) {
    betz_session *session = open_session(model);
    for (int cycle = 0; cycle < 3 * LISTENERS; cycle++) {
        betz_unlike *unlike = NULL;
        OK(betz_unlike_open(session, model, 1.0, &unlike));
        step(session, 3);
        betz_unlike_close(unlike);
        // The trainer's queue is larger: now and then.
        if (cycle % 3 == 0) {
            betz_trainer *trainer = open_trainer(session);
            step(session, 3);
            betz_trainer_close(trainer);
        }
        betz_miner *miner = open_miner();
        OK(betz_session_attach_miner(session, miner, 0));
        step(session, 3);
        // Closed while it is attached, and detached before.
        if (cycle % 2 == 0) OK(betz_session_detach_miner(session));
        betz_miner_close(miner);
    }
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_detach_miner(session));
    betz_unlike *all[LISTENERS], *more = NULL;
    for (int i = 0; i < LISTENERS; i++) {
        OK(betz_unlike_open(session, model, 0.5, &all[i]));
    }
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_unlike_open(session, model, 0.5, &more));
    betz_miner *miner = open_miner();
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_session_attach_miner(session, miner, 0));
    betz_unlike_close(all[3]);
    OK(betz_session_attach_miner(session, miner, 0));
    step(session, STEPS);
    for (int i = 0; i < LISTENERS; i++) {
        if (i == 3) continue;
        betz_unlike_state state = {0};
        // Its thread may still be at work.
        while (state.tick == 0) {
            OK(betz_unlike_get_state(all[i], &state, sizeof state));
            pause_ms(1);
        }
        betz_unlike_close(all[i]);
    }
    OK(betz_miner_flush(miner));
    betz_miner_stats stats;
    OK(betz_miner_get_stats(miner, &stats, sizeof stats));
    CHECK(stats.events > 0);
    betz_miner_close(miner);
    step(session, 3);
    betz_session_close(session);
}

struct stepping {
    betz_session *session;
    int stop;
};

static void *steps_on(void *data) {
    struct stepping *stepping = data;
    while (!__atomic_load_n(&stepping->stop, __ATOMIC_ACQUIRE)) step(stepping->session, 10);
    return NULL;
}

// Miners come and go while another thread steps.
static void listeners_are_closed_during_steps(void) {
    struct stepping stepping = {open_session(model), 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, steps_on, &stepping) == 0);
    for (int cycle = 0; cycle < 40; cycle++) {
        betz_miner *miner = open_miner();
        betz_miner_stats stats = {0};
        OK(betz_session_attach_miner(stepping.session, miner, 0));
        while (stats.events == 0) {
            pause_ms(1);
            OK(betz_miner_get_stats(miner, &stats, sizeof stats));
        }
        betz_miner_close(miner);
    }
    __atomic_store_n(&stepping.stop, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
    betz_session_close(stepping.session);
}

static void a_trainer_knows_its_session(void) {
    betz_session *session = open_session(model), *other = open_session(model);
    betz_trainer *trainer = open_trainer(session);
    uint32_t applied = 9;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_trainer_apply(trainer, other, &applied));
    char said[256];
    betz_last_error(said, sizeof said);
    CHECK(applied == 9 && strstr(said, "the session that the trainer was opened for") != NULL);
    OK(betz_trainer_apply(trainer, session, &applied));
    CHECK(applied == 0);
    betz_session_close(session);
    // Not even one that may lie where the first one lay.
    session = open_session(model);
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_trainer_apply(trainer, session, &applied));
    betz_trainer_close(trainer);
    betz_session_close(session);
    betz_session_close(other);
}

int main(void) {
    betz_train_config config = small_config(CHANNELS);
    config.retain_bytes = 1 << 20;
    counts = random_counts(STEPS, CHANNELS, 1);
    behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &model));
    every_thread_is_its_handles();
    a_child_opens_its_own();
    closed_listeners_leave_their_places();
    listeners_are_closed_during_steps();
    a_trainer_knows_its_session();
    betz_model_free(model);
    free(counts);
    free(behavior);
    puts("handles: ok");
    return 0;
}
