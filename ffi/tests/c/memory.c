// Memory that runs out: for every call, its n-th allocation fails, alone or with all after it, for every
// n. No process may end of it, and what a call has made must be given back.
//
// malloc and its like are this program's: the library's go through them. Each case is a child process.
#include "support.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNELS = 12, OUTPUTS = 3, STEPS = 300, SPIKES = 400 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_int armed;
static atomic_long asked;
static long fails_at, fails_until;

// Counts an allocation; whether it is to fail.
static int refuse(void) {
    if (!atomic_load_explicit(&armed, memory_order_relaxed)) return 0;
    const long n = atomic_fetch_add(&asked, 1);
    return n >= fails_at && n < fails_until;
}

void *malloc(size_t size) {
    if (refuse()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    if (refuse()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(n, size);
}

void *realloc(void *block, size_t size) {
    if (refuse()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(block, size);
}

int posix_memalign(void **out, size_t align, size_t size) {
    if (refuse()) return ENOMEM;
    *out = __libc_memalign(align, size);
    return *out == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t align, size_t size) {
    if (refuse()) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(align, size);
}

static const char *path;
static betz_model *model, *next;
static betz_session *session, *running;
static betz_queue *queue;
static betz_spike spikes[SPIKES];
static uint16_t *counts;
static float *behavior;
static uint8_t *bytes, *state;
static size_t bytes_len, state_len;

static betz_status load(void) {
    betz_model *made = NULL;
    const betz_status status = betz_model_load(path, &made);
    betz_model_free(made);
    return status;
}

static betz_status load_bytes(void) {
    betz_model *made = NULL;
    const betz_status status = betz_model_load_bytes(bytes, bytes_len, &made);
    betz_model_free(made);
    return status;
}

static betz_status save(void) { return betz_model_save(model, path); }

static betz_status save_bytes(void) {
    size_t len = 0;
    return betz_model_save_bytes(model, NULL, 0, &len);
}

static betz_status open_one(void) {
    betz_session_config config;
    betz_session *made = NULL;
    OK(betz_session_config_default(&config, sizeof config));
    const betz_status status = betz_session_open(model, &config, &made);
    betz_session_close(made);
    return status;
}

static betz_status swap(void) { return betz_session_swap_model(session, next); }

static betz_status swap_with(void) {
    betz_swap_config config;
    OK(betz_swap_config_default(&config, sizeof config));
    config.by_position = 1;
    return betz_session_swap_model_with(session, next, &config);
}

static betz_status queue_open(void) {
    betz_queue *made = NULL;
    const betz_status status = betz_queue_open(1000, BETZ_LATE_SPIKES_TAKE, &made);
    betz_queue_close(made);
    return status;
}

static betz_status mine(void) {
    static const char *episodes[] = {"0 1 2", "3 4"};
    static const betz_interval near = {0.0, 0.1};
    betz_miner_config config;
    betz_miner *made = NULL;
    OK(betz_miner_config_default(&config, sizeof config));
    config.symbols = CHANNELS;
    config.tick_seconds = 0.02;
    config.episodes = episodes;
    config.n_episodes = 2;
    config.intervals = &near;
    config.n_intervals = 1;
    config.window_seconds = 10.0;
    config.threshold = 5;
    const betz_status status = betz_miner_open(&config, &made);
    if (status == BETZ_OK) {
        betz_watch_list *list = NULL;
        const betz_status listed = betz_miner_watch_list(made, &list);
        betz_watch_list_free(list);
        betz_miner_close(made);
        return listed;
    }
    return status;
}

// With a window: two threads more.
static betz_status mine_a_window(void) {
    static const betz_interval near = {0.0, 0.1};
    betz_miner_config config;
    betz_miner *made = NULL;
    OK(betz_miner_config_default(&config, sizeof config));
    config.symbols = CHANNELS;
    config.tick_seconds = 0.02;
    config.intervals = &near;
    config.n_intervals = 1;
    config.window_seconds = 10.0;
    config.threshold = 5;
    const betz_status status = betz_miner_open(&config, &made);
    if (status == BETZ_OK) betz_miner_close(made);
    return status;
}

static betz_status attach(void) {
    static const char *episodes[] = {"0 1"};
    static const betz_interval near = {0.0, 0.1};
    // A child has a miner only if it opens it: not part of the case.
    atomic_store(&armed, 0);
    betz_miner_config config;
    betz_miner *miner = NULL;
    OK(betz_miner_config_default(&config, sizeof config));
    config.symbols = CHANNELS;
    config.tick_seconds = 0.02;
    config.episodes = episodes;
    config.n_episodes = 1;
    config.intervals = &near;
    config.n_intervals = 1;
    OK(betz_miner_open(&config, &miner));
    atomic_store(&armed, 1);
    const betz_status status = betz_session_attach_miner(running, miner, 0);
    atomic_store(&armed, 0);
    if (status == BETZ_OK) OK(betz_session_detach_miner(running));
    betz_miner_close(miner);
    return status;
}

static betz_status refused_detach(void) { return betz_session_detach_miner(session); }

static betz_status swap_in_all_ways(void) {
    static const betz_spike replay[] = {{0, 1}, {1, 2}, {5, 3}};
    betz_swap_config config;
    OK(betz_swap_config_default(&config, sizeof config));
    config.warm_up_steps = 2;
    config.cross_fade_steps = 3;
    config.replay = replay;
    config.n_replay = 3;
    config.replay_end_tick = 6;
    return betz_session_swap_model_with(session, next, &config);
}

static betz_status set_mask(void) {
    uint8_t mask[CHANNELS] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
    return betz_session_set_mask(running, model, mask, CHANNELS);
}

static betz_status set_clamp(void) {
    const float low[OUTPUTS] = {-1, -1, -1}, high[OUTPUTS] = {1, 1, 1};
    return betz_session_set_clamp(running, low, high, OUTPUTS);
}

static betz_status request_checkpoint(void) {
    const betz_status status = betz_session_request_checkpoint(running);
    if (status != BETZ_OK) return status;
    float out[OUTPUTS];
    OK(betz_session_step_counts(running, counts, CHANNELS, out, OUTPUTS));
    static uint8_t room[1 << 16];
    size_t len = 0;
    return betz_session_take_checkpoint(running, room, sizeof room, &len);
}

static betz_status open_with_all(void) {
    betz_session_config config;
    betz_session *made = NULL;
    const float low[OUTPUTS] = {-1, -1, -1}, high[OUTPUTS] = {1, 1, 1};
    const uint8_t mask[CHANNELS] = {0, 1};
    OK(betz_session_config_default(&config, sizeof config));
    config.clamp_low = low;
    config.clamp_high = high;
    config.clamp_len = OUTPUTS;
    config.channel_mask = mask;
    config.channel_mask_len = CHANNELS;
    config.health = 1;
    const betz_status status = betz_session_open(model, &config, &made);
    betz_session_close(made);
    return status;
}

static betz_status train_from_spikes(void) {
    betz_train_config config = small_config(CHANNELS);
    config.threads = 2;
    betz_model *made = NULL;
    const betz_status status = betz_train(&config, spikes, SPIKES, behavior, STEPS, OUTPUTS, &made);
    betz_model_free(made);
    return status;
}

static betz_status train(void) {
    betz_train_config config = small_config(CHANNELS);
    config.folds = 2;
    config.threads = 2;
    betz_model *made = NULL;
    const betz_status status = betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &made);
    betz_model_free(made);
    return status;
}

static betz_status refused_step(void) {
    const uint32_t unknown = 999;
    float out[OUTPUTS];
    return betz_session_step_spikes(session, &unknown, 1, out, OUTPUTS);
}

// A spike of a channel that there is not, through a queue.
static betz_status refused_queue_step(void) {
    float out[OUTPUTS];
    const betz_spike unknown = {1, 999};
    size_t pushed = 0;
    OK(betz_queue_set_tick(queue, 1));
    OK(betz_queue_push(queue, &unknown, 1, &pushed));
    return betz_queue_step(queue, session, out, OUTPUTS);
}

static betz_status refused_f32_step(void) {
    float out[OUTPUTS], wrong[CHANNELS] = {0, -1};
    return betz_session_step_counts_f32(session, wrong, CHANNELS, out, OUTPUTS);
}

static betz_status step(void) {
    float out[OUTPUTS];
    return betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS);
}

static betz_status restore(void) { return betz_session_restore(session, state, state_len); }

static betz_status refused_restore(void) {
    return betz_session_restore(session, state, state_len - 1);
}

static const struct call {
    const char *name;
    betz_status (*run)(void);
    betz_status expected;
    int allocates; // 0: must not
} calls[] = {
    {"model_load", load, BETZ_OK, 1},
    {"model_load_bytes", load_bytes, BETZ_OK, 1},
    {"model_save", save, BETZ_OK, 1},
    {"model_save_bytes", save_bytes, BETZ_OK, 1},
    {"session_open", open_one, BETZ_OK, 1},
    {"swap_model", swap, BETZ_OK, 1},
    {"swap_model_with", swap_with, BETZ_OK, 1},
    {"queue_open", queue_open, BETZ_OK, 1},
    {"miner_open", mine, BETZ_OK, 1},
    {"train", train, BETZ_OK, 1},
    {"miner_open, a window", mine_a_window, BETZ_OK, 1},
    {"attach_miner", attach, BETZ_OK, 1},
    {"detach, refused", refused_detach, BETZ_ERROR_INVALID_ARGUMENT, 0},
    {"swap, replay, fade", swap_in_all_ways, BETZ_OK, 1},
    {"set_mask", set_mask, BETZ_OK, 1},
    {"set_clamp", set_clamp, BETZ_OK, 1},
    {"checkpoint, asked for", request_checkpoint, BETZ_OK, 1},
    {"open, all options", open_with_all, BETZ_OK, 1},
    {"train, from spikes", train_from_spikes, BETZ_OK, 1},
    {"queue step, refused", refused_queue_step, BETZ_ERROR_MISMATCH, 0},
    {"float step, refused", refused_f32_step, BETZ_ERROR_INVALID_ARGUMENT, 0},
    {"step", step, BETZ_OK, 0},
    {"step, refused", refused_step, BETZ_ERROR_MISMATCH, 0},
    {"restore", restore, BETZ_OK, 0},
    {"restore, refused", refused_restore, BETZ_ERROR_INVALID_CHECKPOINT, 1},
};

// Runs `call` with the allocations from `at` to before `until` failing; the number asked for.
static long run(const struct call *call, long at, long until, betz_status *status) {
    fails_at = at;
    fails_until = until;
    atomic_store(&asked, 0);
    atomic_store(&armed, 1);
    *status = call->run();
    atomic_store(&armed, 0);
    return atomic_load(&asked);
}

// In a child. 0: refused as it should be; 1: done all the same; 2: otherwise; 3: ended by a signal.
static int attempt(const struct call *call, long at, long until) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        betz_status status;
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(2);
        run(call, at, until, &status);
        // With memory there again everything works again.
        betz_status again;
        run(call, LONG_MAX, LONG_MAX, &again);
        const int short_of_it = status == BETZ_ERROR_OUT_OF_MEMORY || status == BETZ_ERROR_IO;
        const int code = again != call->expected      ? 2
                         : status == call->expected   ? 1
                         : call->allocates && short_of_it ? 0
                                                      : 2;
        if (code == 2) {
            char said[256];
            betz_last_error(said, sizeof said);
            dprintf(STDOUT_FILENO,
                    "memory: %s, allocations %ld to %ld failed: status %d, with memory again %d: \"%s\"\n",
                    call->name, at, until, (int)status, (int)again, said);
        }
        _exit(code);
    }
    int how = 0;
    CHECK(waitpid(child, &how, 0) == child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 3;
}

// After a call that ran short, every call that makes a handle finds the memory that is there again.
static void the_shortage_is_the_calls(void) {
    betz_train_config config = small_config(CHANNELS);
    config.retain_bytes = 1 << 20;
    betz_model *retaining = NULL;
    OK(betz_train_counts(&config, counts, behavior, STEPS, OUTPUTS, &retaining));
    betz_session *watched = open_session(retaining);
    betz_trainer_config of_trainer;
    OK(betz_trainer_config_default(&of_trainer, sizeof of_trainer));
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        betz_status status;
        if (!calls[c].allocates || calls[c].run != swap_with) continue;
        run(&calls[c], 0, LONG_MAX, &status);
        CHECK(status == BETZ_ERROR_OUT_OF_MEMORY);
        betz_unlike *unlike = NULL;
        OK(betz_unlike_open(watched, retaining, 1.0, &unlike));
        betz_unlike_close(unlike);
        run(&calls[c], 0, LONG_MAX, &status);
        betz_trainer *trainer = NULL;
        OK(betz_trainer_open(watched, retaining, &of_trainer, &trainer));
        betz_trainer_close(trainer);
        run(&calls[c], 0, LONG_MAX, &status);
        betz_session *another = open_session(model);
        betz_session_close(another);
    }
    betz_session_close(watched);
    betz_model_free(retaining);
}

int main(void) {
    char file[] = "/tmp/betz-memory-XXXXXX";
    const int descriptor = mkstemp(file);
    CHECK(descriptor >= 0 && close(descriptor) == 0);
    path = file;
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    counts = random_counts(STEPS, CHANNELS, 1);
    behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    model = train_model(CHANNELS, OUTPUTS, STEPS, 2);
    next = train_model(CHANNELS, OUTPUTS, STEPS, 3);
    OK(betz_model_save(model, path));
    OK(betz_model_save_bytes(model, NULL, 0, &bytes_len));
    bytes = malloc(bytes_len);
    OK(betz_model_save_bytes(model, bytes, bytes_len, &bytes_len));
    betz_session_config config;
    OK(betz_session_config_default(&config, sizeof config));
    config.unknown_channels = BETZ_UNKNOWN_CHANNELS_REFUSE;
    OK(betz_session_open(model, &config, &session));
    running = open_session(model);
    OK(betz_queue_open(1000, BETZ_LATE_SPIKES_TAKE, &queue));
    for (int64_t i = 0; i < SPIKES; i++) {
        spikes[i] = (betz_spike){i * STEPS / SPIKES, (uint32_t)(i * 7 % CHANNELS)};
    }
    OK(betz_session_checkpoint(session, NULL, 0, &state_len));
    state = malloc(state_len);
    OK(betz_session_checkpoint(session, state, state_len, &state_len));

    the_shortage_is_the_calls();
    long ended = 0, wrong = 0, tried = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        const struct call *call = &calls[c];
        // Count the allocations in a child, so that every case begins in the same state.
        int ends[2];
        CHECK(pipe(ends) == 0);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            betz_status status;
            const long n = run(call, LONG_MAX, LONG_MAX, &status);
            CHECK_STATUS(call->expected, status);
            CHECK(write(ends[1], &n, sizeof n) == (ssize_t)sizeof n);
            _exit(0);
        }
        long n = -1;
        CHECK(read(ends[0], &n, sizeof n) == (ssize_t)sizeof n);
        close(ends[0]);
        close(ends[1]);
        CHECK(waitpid(child, NULL, 0) == child);
        CHECK(call->allocates || n == 0);
        long outcomes[2][4] = {{0}};
        for (long at = 0; at < n; at++) {
            outcomes[0][attempt(call, at, at + 1)]++;
            outcomes[1][attempt(call, at, LONG_MAX)]++;
        }
        for (int all = 0; all < 2; all++) {
            const long *o = outcomes[all];
            if (n > 0) {
                printf("memory: %-21s %5ld allocations, %s: %ld refused, %ld done all the same, "
                       "%ld wrong, %ld ended\n",
                       call->name, n, all ? "the n-th and all after fail" : "the n-th fails",
                       o[0], o[1], o[2], o[3]);
            }
            tried += n;
            wrong += o[2];
            ended += o[3];
        }
    }
    unlink(path);
    printf("memory: %ld allocations made to fail: %ld ended the process, %ld were answered wrongly\n", tried,
           ended, wrong);
    CHECK(tried > 500 && ended == 0 && wrong == 0);
    betz_session_close(session);
    betz_model_free(model);
    betz_model_free(next);
    free(counts);
    free(behavior);
    free(bytes);
    free(state);
    puts("memory: ok");
    return 0;
}
