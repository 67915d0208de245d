/* Wrong calls get a status and a message, and no page; either side may be closed first. */
#include <betz_page.h>

#include "expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        return 2;
    }
    betz_model *model = NULL, *other = NULL;
    expect(betz_model_load(argv[1], &model), BETZ_OK, "", "a model");
    expect(betz_model_load(argv[2], &other), BETZ_OK, "", "another");
    betz_session_config running;
    expect(betz_session_config_default(&running, sizeof running), BETZ_OK, "", "configuring");
    betz_session *session = NULL, *second = NULL, *foreign = NULL;
    expect(betz_session_open(model, &running, &session), BETZ_OK, "", "a session");
    expect(betz_session_open(model, &running, &second), BETZ_OK, "", "a second");
    expect(betz_session_open(other, &running, &foreign), BETZ_OK, "", "another model's");

    betz_monitor *monitor = NULL;
    betz_monitor_config config = {0};
    expect(betz_monitor_open(NULL, NULL, &monitor), BETZ_ERROR_NULL, "model", "no model");
    expect(betz_monitor_open(model, NULL, NULL), BETZ_ERROR_NULL, "out", "no place");
    expect(betz_monitor_open(model, &config, &monitor), BETZ_ERROR_STRUCT_SIZE, "config", "no size");
    config.struct_size = sizeof config;
    config.port = 70000;
    expect(betz_monitor_open(model, &config, &monitor), BETZ_ERROR_INVALID_ARGUMENT, "port", "a port");
    config.port = 0;
    config.address = "nowhere";
    expect(betz_monitor_open(model, &config, &monitor), BETZ_ERROR_INVALID_ARGUMENT, "address", "an address");
    config.address = NULL;
    config.deadline_us = -1.0;
    expect(betz_monitor_open(model, &config, &monitor), BETZ_ERROR_INVALID_ARGUMENT, "deadline_us", "a deadline");
    config.deadline_us = 0.0;
    config.name = "\xff";
    expect(betz_monitor_open(model, &config, &monitor), BETZ_ERROR_INVALID_ARGUMENT, "name", "a name");
    if (monitor != NULL || betz_monitor_url(NULL) != NULL || betz_monitor_viewers(NULL) != 0) {
        fprintf(stderr, "something came of nothing\n");
        failed = 1;
    }
    betz_monitor_close(NULL);

    expect(betz_monitor_open(model, NULL, &monitor), BETZ_OK, "", "a page");
    expect(betz_monitor_attach(NULL, session, 0), BETZ_ERROR_NULL, "monitor", "no page");
    expect(betz_monitor_attach(monitor, NULL, 0), BETZ_ERROR_NULL, "session", "no session");
    expect(betz_monitor_attach(monitor, foreign, 0), BETZ_ERROR_MISMATCH, "channels", "another model's session");
    expect(betz_monitor_attach(monitor, session, 0), BETZ_OK, "", "attaching");
    expect(betz_monitor_attach(monitor, second, 0), BETZ_ERROR_INVALID_ARGUMENT, "session", "twice");

    const size_t channels = betz_model_channels(model), outputs = betz_model_outputs(model);
    uint16_t *counts = calloc(channels, sizeof *counts);
    float *out = calloc(outputs, sizeof *out);
    for (int i = 0; i < 100; i++) {
        expect(betz_session_step_counts(session, counts, channels, out, outputs), BETZ_OK, "", "a step");
    }
    betz_monitor_close(monitor);
    for (int i = 0; i < 100; i++) {
        expect(betz_session_step_counts(session, counts, channels, out, outputs), BETZ_OK, "", "a step without it");
    }
    expect(betz_monitor_open(model, NULL, &monitor), BETZ_OK, "", "a page again");
    expect(betz_monitor_attach(monitor, second, 0), BETZ_OK, "", "attaching again");
    betz_session_close(second);
    betz_monitor_close(monitor);
    betz_session_close(session);
    betz_session_close(foreign);
    betz_model_free(model);
    betz_model_free(other);
    free(counts);
    free(out);
    puts(failed ? "failed" : "passed");
    return failed;
}
