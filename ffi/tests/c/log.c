// The host's log: set once, told of failed calls, and of nothing that succeeds.
#include "support.h"

enum { CHANNELS = 4, OUTPUTS = 1, STEPS = 200 };

static struct {
    unsigned calls;
    uint32_t level;
    int32_t status;
    char text[256];
} seen;

static void note(void *user, uint32_t level, int32_t status, const char *text) {
    CHECK(user == &seen);
    seen.calls++;
    seen.level = level;
    seen.status = status;
    snprintf(seen.text, sizeof seen.text, "%s", text);
}

static void a_log_is_set_once(void) {
    betz_log log = {sizeof log, BETZ_LOG_FAILURES, &seen, note};
    CHECK_STATUS(BETZ_ERROR_NULL, betz_set_log(NULL));
    log.write = NULL;
    CHECK_STATUS(BETZ_ERROR_NULL, betz_set_log(&log));
    log.write = note;
    log.level = 3;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_set_log(&log));
    log.level = 0;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_set_log(&log));
    log.level = BETZ_LOG_FAILURES;
    log.struct_size = 4;
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_set_log(&log));
    log.struct_size = sizeof log;
    CHECK(seen.calls == 0);
    OK(betz_set_log(&log));
    CHECK(seen.calls == 0);
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_set_log(&log));
    CHECK(seen.calls == 1);
}

static void it_is_told_of_failed_calls_alone(const betz_model *model) {
    betz_session *session = open_session(model);
    float out[OUTPUTS];
    const unsigned before = seen.calls;
    OK(betz_session_step_spikes(session, NULL, 0, out, OUTPUTS));
    CHECK(seen.calls == before);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_step_spikes(session, NULL, 0, out, OUTPUTS + 1));
    char message[256];
    betz_last_error(message, sizeof message);
    CHECK(seen.calls == before + 1 && seen.level == BETZ_LOG_FAILURES);
    CHECK(seen.status == BETZ_ERROR_MISMATCH && strcmp(seen.text, message) == 0);
    // A query without a status reports its NULL as well.
    CHECK(betz_model_channels(NULL) == 0 && seen.calls == before + 2);
    CHECK(seen.status == BETZ_ERROR_NULL && strstr(seen.text, "model") != NULL);
    betz_session_close(session);
}

int main(void) {
    a_log_is_set_once();
    betz_model *model = train_model(CHANNELS, OUTPUTS, STEPS, 1);
    it_is_told_of_failed_calls_alone(model);
    betz_model_free(model);
    puts("log: ok");
    return 0;
}
