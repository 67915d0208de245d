// A panic stops at the boundary and poisons its handle. Needs a library built with the feature
// `provoke-panic`.
#include "support.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

betz_status betz_test_panic_model(const betz_model *model);
betz_status betz_test_panic_twice(const betz_model *model);
betz_status betz_test_panic_session(betz_session *session);
betz_status betz_test_panic_miner(betz_miner *miner);
betz_status betz_test_panic_sorter(betz_sorter *sorter);
betz_status betz_test_panic_queue(betz_queue *queue, betz_session *session);

enum { CHANNELS = 4, OUTPUTS = 2 };

static void message_is(const char *expected) {
    char text[256];
    betz_last_error(text, sizeof text);
    CHECK(strcmp(text, expected) == 0);
}

static void count_panics(void *user, uint32_t level, int32_t status, const char *text) {
    CHECK(level == BETZ_LOG_PANICS && status == BETZ_ERROR_PANIC);
    CHECK(strcmp(text, "panic: provoked in a model") == 0);
    ++*(unsigned *)user;
}

// A panic while another one unwinds ends the process, which says why.
static void ends_on_a_second_panic(const betz_model *model) {
    FILE *printed = tmpfile();
    CHECK(printed != NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        if (setrlimit(RLIMIT_CORE, &none) != 0 || dup2(fileno(printed), STDERR_FILENO) < 0) _exit(1);
        (void)!betz_test_panic_twice(model);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    char text[2048] = {0};
    rewind(printed);
    CHECK(fread(text, 1, sizeof text - 1, printed) > 0);
    CHECK(strstr(text, "provoked in a destructor") != NULL);
    CHECK(strstr(text, "provoked before a destructor") == NULL);
    fclose(printed);
}

int main(void) {
    betz_model *model = train_model(CHANNELS, OUTPUTS, 200, 1);
    betz_session *session = open_session(model), *other = open_session(model);
    betz_queue *queue = NULL;
    OK(betz_queue_open(16, BETZ_LATE_SPIKES_TAKE, &queue));
    const uint16_t counts[CHANNELS] = {1, 0, 2, 0};
    float out[OUTPUTS] = {1.5f, 2.5f};
    betz_stats stats;
    betz_swap_state state;
    size_t size = 0;

    // A loop that moves something waits for no terminal: nothing is printed.
    FILE *printed = tmpfile();
    CHECK(printed != NULL);
    const int terminal = dup(STDERR_FILENO);
    CHECK(terminal >= 0 && dup2(fileno(printed), STDERR_FILENO) >= 0);
    const betz_status panicked = betz_test_panic_session(session);
    CHECK(dup2(terminal, STDERR_FILENO) >= 0 && close(terminal) == 0);
    CHECK(panicked == BETZ_ERROR_PANIC && lseek(fileno(printed), 0, SEEK_END) == 0);
    fclose(printed);
    message_is("panic: provoked in a session");
    CHECK_STATUS(BETZ_ERROR_POISONED,
                 betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_step_spikes(session, NULL, 0, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_reset(session));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_stats(session, &stats, sizeof stats));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_clear_stats(session));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_swap_model(session, model));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_rollback_model(session));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_release_model(session));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_swap_state(session, &state));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_checkpoint(session, NULL, 0, &size));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_queue_step(queue, session, out, OUTPUTS));
    CHECK(out[0] == 1.5f && out[1] == 2.5f);

    // The model and its other sessions go on; a queue that met the poisoned session does too.
    OK(betz_session_step_counts(other, counts, CHANNELS, out, OUTPUTS));
    OK(betz_queue_step(queue, other, out, OUTPUTS));

    // A miner: the session that it hangs on goes on.
    betz_miner_config mining;
    betz_miner *miner = NULL;
    betz_watch_list *list = NULL;
    betz_miner_stats mined;
    const betz_spike event = {0, 0};
    const double second = 0;
    const uint32_t symbol = 0;
    const char *const episodes[] = {"0 -(0,0.1]-> 1"};
    OK(betz_miner_config_default(&mining, sizeof mining));
    mining.symbols = CHANNELS;
    mining.tick_seconds = betz_model_step_seconds(model);
    mining.episodes = episodes;
    mining.n_episodes = 1;
    OK(betz_miner_open(&mining, &miner));
    OK(betz_session_attach_miner(other, miner, 0));
    CHECK_STATUS(BETZ_ERROR_PANIC, betz_test_panic_miner(miner));
    message_is("panic: provoked in a miner");
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_miner_push(miner, &event, 1, &size));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_miner_push_seconds(miner, &second, &symbol, 1, &size));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_miner_flush(miner));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_miner_counts(miner, NULL, 0, &size));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_miner_get_stats(miner, &mined, sizeof mined));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_miner_watch_list(miner, &list));
    OK(betz_session_step_counts(other, counts, CHANNELS, out, OUTPUTS));
    OK(betz_session_detach_miner(other));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_attach_miner(other, miner, 0));
    OK(betz_session_step_counts(other, counts, CHANNELS, out, OUTPUTS));
    CHECK(list == NULL);
    betz_miner_close(miner);

    // A sorter.
    betz_sorter *sorter = NULL;
    betz_sorter_spike spike;
    betz_sorter_stats sorted;
    size_t taken = 0;
    const int16_t row[8] = {0};
    OK(betz_sorter_load("examples/data/array.sorter", &sorter));
    CHECK_STATUS(BETZ_ERROR_PANIC, betz_test_panic_sorter(sorter));
    message_is("panic: provoked in a sorter");
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_sorter_push(sorter, row, 1, 8, &spike, 1, &taken, &size));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_sorter_get_stats(sorter, &sorted, sizeof sorted));
    CHECK(betz_sorter_channels(sorter) == 8);
    betz_sorter_close(sorter);

    // A panic in a call on two handles poisons both.
    CHECK_STATUS(BETZ_ERROR_PANIC, betz_test_panic_queue(queue, other));
    message_is("panic: provoked in a queue's step");
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_queue_mark(queue, 1));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_reset(other));

    ends_on_a_second_panic(model);

    // The host's log hears of a panic, and at this level of nothing else.
    unsigned reports = 0;
    const betz_log log = {sizeof log, BETZ_LOG_PANICS, &reports, count_panics};
    OK(betz_set_log(&log));
    CHECK_STATUS(BETZ_ERROR_PANIC, betz_test_panic_model(model));
    CHECK(reports == 1);
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_model_save_bytes(model, NULL, 0, &size));
    betz_session_config config;
    OK(betz_session_config_default(&config, sizeof config));
    betz_session *none = NULL;
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_open(model, &config, &none));
    CHECK(none == NULL && reports == 1);

    betz_queue_close(queue);
    betz_session_close(session);
    betz_session_close(other);
    betz_model_free(model);
    puts("poison: ok");
    return 0;
}
