// No allocation and no system call in a million steps, seen from C.
//
// malloc, calloc, realloc, free and their kin are replaced by ones that abort while steps run; and a
// seccomp filter kills the process at any system call but write and exit, so a lock that had to wait
// (futex), a clock that is no vDSO and memory asked of the system would all show.
#define _GNU_SOURCE
#include "no_malloc.h"
#include "support.h"

#include <signal.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNELS = 256, OUTPUTS = 4, MILLION = 1000000, PATTERNS = 64 };

static betz_trainer *trainer;

// Fails the test if the replacements are not the ones that the library calls.
static void replacements_are_in_force(const betz_model *model) {
    const pid_t child = fork();
    if (child == 0) {
        FILE *quiet = freopen("/dev/null", "w", stderr);
        (void)quiet;
        forbidden = 1;
        open_session(model); // allocates: must abort
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

// Kills the process at any system call but write (for messages) and exit. (seccomp's strict mode
// would forbid reading the time-stamp counter as well.)
static void forbid_system_calls(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof program / sizeof *program, program};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

// Fails the test if the filter does not kill.
static void filter_is_in_force(void) {
    const pid_t child = fork();
    if (child == 0) {
        forbid_system_calls();
        syscall(SYS_getpid);
        syscall(SYS_exit, 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static uint64_t steps(betz_session *session, betz_session *plain, betz_queue *queue,
                      betz_miner *miner, uint16_t *counts, uint32_t *list, float *out,
                      uint8_t *state) {
    uint64_t failures = 0;
    size_t pushed;
    betz_stats stats;
    betz_queue_state line;
    betz_spike spikes[32];
    double seconds[8];
    char text[64];
    size_t len;
    for (int64_t t = 0; t < MILLION; t++) {
        const uint16_t *now = counts + t % PATTERNS * CHANNELS;
        failures += betz_session_step_counts(session, now, CHANNELS, out, OUTPUTS) != BETZ_OK;
        // One channel of the list is unknown.
        failures += betz_session_step_spikes(session, list + t % PATTERNS, 32, out, OUTPUTS) != BETZ_OK;
        for (int i = 0; i < 32; i++) spikes[i] = (betz_spike){t - (i == 0), list[i]};
        failures += betz_queue_push(queue, spikes, 32, &pushed) != BETZ_OK;
        failures += betz_queue_mark(queue, t) != BETZ_OK;
        failures += betz_queue_step(queue, session, out, OUTPUTS) != BETZ_OK;
        failures += betz_miner_push(miner, spikes, 32, &pushed) != BETZ_OK;
        for (int i = 0; i < 8; i++) seconds[i] = (double)t * 0.02;
        failures += betz_miner_push_seconds(miner, seconds, list, 8, &pushed) != BETZ_OK;
        if (t % 100 == 0) {
            failures += betz_session_warm(session) != BETZ_OK;
            failures += betz_queue_warm(queue, session) != BETZ_OK;
            failures += betz_session_skip(plain, 7) != BETZ_OK;
        }
        if (t % 1000 == 0) {
            failures += betz_queue_get_state(queue, &line, sizeof line) != BETZ_OK;
            failures += betz_session_stats(session, &stats, sizeof stats) != BETZ_OK;
            failures += betz_session_step_counts(plain, now, CHANNELS, out, OUTPUTS) != BETZ_OK;
            failures += betz_session_checkpoint(plain, state, 1 << 16, &len) != BETZ_OK;
            // A refusal of a wrong length or pointer is within the promise too.
            failures += betz_session_step_counts(session, now, CHANNELS - 1, out, OUTPUTS) !=
                        BETZ_ERROR_MISMATCH;
            failures += betz_session_step_counts(session, NULL, CHANNELS, out, OUTPUTS) !=
                        BETZ_ERROR_NULL;
            failures += betz_last_error(text, sizeof text) == 0;
            failures += betz_session_variances(session, out, OUTPUTS) != BETZ_ERROR_INSUFFICIENT_DATA;
            failures += betz_trainer_request(trainer) != BETZ_OK;
            failures += betz_queue_set_tick(queue, t + 1) != BETZ_OK;
        }
        if (t % 10000 == 0) {
            failures += betz_session_restore(plain, state, len) != BETZ_OK;
            failures += betz_session_reset(session) != BETZ_OK;
            failures += betz_session_clear_stats(session) != BETZ_OK;
        }
    }
    return failures;
}

int main(void) {
    betz_model *model = train_model(CHANNELS, OUTPUTS, 1200, 1);
    betz_model *next = train_model(CHANNELS, OUTPUTS, 1200, 2);
    replacements_are_in_force(model);
    filter_is_in_force();
    betz_session_config config;
    OK(betz_session_config_default(&config, sizeof config));
    const float low[OUTPUTS] = {-1, -1, -1, -1}, high[OUTPUTS] = {1, 1, 1, 1};
    config.clamp_low = low;
    config.clamp_high = high;
    config.clamp_len = OUTPUTS;
    config.deadline_us = 50.0;
    betz_session *session = NULL;
    OK(betz_session_open(model, &config, &session));
    betz_session *plain = open_session(model);
    betz_train_config retaining = small_config(8);
    retaining.retain_bytes = 1 << 20;
    uint16_t *few = random_counts(400, 8, 1);
    float *behavior = follow(few, 400, 8, OUTPUTS);
    betz_model *retained = NULL;
    OK(betz_train_counts(&retaining, few, behavior, 400, OUTPUTS, &retained));
    betz_session *learning = open_session(retained);
    betz_trainer_config training;
    OK(betz_trainer_config_default(&training, sizeof training));
    OK(betz_trainer_open(learning, retained, &training, &trainer));
    free(few);
    free(behavior);
    betz_queue *queue = NULL;
    OK(betz_queue_open(256, BETZ_LATE_SPIKES_TAKE, &queue));
    // One miner hears the session's steps, the other is fed beside it. Their threads stay behind when
    // the child is forked: the lines have room at first and are full for most of the steps.
    betz_miner_config mining;
    betz_miner *attached = NULL, *fed = NULL;
    const char *const episodes[] = {"0 -(0,0.1]-> 1"};
    OK(betz_miner_config_default(&mining, sizeof mining));
    mining.symbols = CHANNELS;
    mining.tick_seconds = betz_model_step_seconds(model);
    mining.episodes = episodes;
    mining.n_episodes = 1;
    mining.capacity = 1 << 20;
    OK(betz_miner_open(&mining, &attached));
    OK(betz_miner_open(&mining, &fed));
    OK(betz_session_attach_miner(session, attached, 0));
    uint16_t *counts = random_counts(PATTERNS, CHANNELS, 3);
    uint32_t list[PATTERNS + 32];
    uint64_t chance = 5;
    for (int i = 0; i < PATTERNS + 32; i++) list[i] = next_random(&chance) % (CHANNELS + 8);
    float out[OUTPUTS];
    uint8_t *state = malloc(1 << 16);
    // A swap is under way during the steps: taken, warmed up, taken over in one.
    OK(betz_session_swap_model(session, next));

    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // This thread's place for messages, once; everything else is ready.
        CHECK_STATUS(BETZ_ERROR_NULL, betz_session_reset(NULL));
        forbid_system_calls();
        forbidden = 1;
        const uint64_t failures = steps(session, plain, queue, fed, counts, list, out, state);
        forbidden = 0;
        syscall(SYS_exit, failures == 0 ? 0 : 2);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "realtime: killed by signal %d: %s\n", WTERMSIG(status),
                WTERMSIG(status) == SIGSYS ? "a system call in a step" : "see above");
        return 1;
    }
    CHECK(WEXITSTATUS(status) == 0);
    betz_queue_close(queue);
    betz_session_close(session);
    betz_session_close(plain);
    betz_miner_close(attached);
    betz_miner_close(fed);
    betz_trainer_close(trainer);
    betz_session_close(learning);
    betz_model_free(retained);
    betz_model_free(model);
    betz_model_free(next);
    free(counts);
    free(state);
    puts("realtime: ok, 3 x 1e6 steps without allocation or system call");
    return 0;
}
