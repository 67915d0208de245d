// A panic stops at the boundary and poisons its handle. Needs a library built with the feature
// `provoke-panic`.
#include "support.h"

betz_status betz_test_panic_model(const betz_model *model);
betz_status betz_test_panic_session(betz_session *session);
betz_status betz_test_panic_queue(betz_queue *queue, betz_session *session);

enum { CHANNELS = 4, OUTPUTS = 2 };

static void message_is(const char *expected) {
    char text[256];
    betz_last_error(text, sizeof text);
    CHECK(strcmp(text, expected) == 0);
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

    CHECK_STATUS(BETZ_ERROR_PANIC, betz_test_panic_session(session));
    message_is("panic: provoked in a session");
    CHECK_STATUS(BETZ_ERROR_POISONED,
                 betz_session_step_counts(session, counts, CHANNELS, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_step_spikes(session, NULL, 0, out, OUTPUTS));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_reset(session));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_stats(session, &stats));
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

    // A panic in a call on two handles poisons both.
    CHECK_STATUS(BETZ_ERROR_PANIC, betz_test_panic_queue(queue, other));
    message_is("panic: provoked in a queue's step");
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_queue_mark(queue, 1));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_reset(other));

    CHECK_STATUS(BETZ_ERROR_PANIC, betz_test_panic_model(model));
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_model_save_bytes(model, NULL, 0, &size));
    betz_session_config config;
    OK(betz_session_config_default(&config));
    betz_session *none = NULL;
    CHECK_STATUS(BETZ_ERROR_POISONED, betz_session_open(model, &config, &none));
    CHECK(none == NULL);

    betz_queue_close(queue);
    betz_session_close(session);
    betz_session_close(other);
    betz_model_free(model);
    puts("poison: ok");
    return 0;
}
