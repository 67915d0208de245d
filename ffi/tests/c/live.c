/* A whole session from C: rows are pushed, outputs come by call, one after another and by newest; labels, marks, trials and a
 * swap are taken; the recording is replayed; wrong calls get a status and a message. MODEL OTHER-MODEL FOLDER */
#define _GNU_SOURCE
#include <betz_live.h>

#include "expect.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 300
#define LONG UINT64_C(600000000)

static void that(int truth, const char *what) {
    if (!truth) {
        fprintf(stderr, "not so: %s\n", what);
        failed = 1;
    }
}

struct heard {
    betz_live *live;
    size_t outputs;
    unsigned long steps;
    float last;
};

static void on_step(void *user, const betz_live_step *step, const float *values) {
    struct heard *heard = user;
    heard->last = values[step->outputs - 1];
    heard->outputs = step->outputs;
    if (heard->steps++ == 5 && heard->live != NULL) {
        betz_live_health health;
        expect(betz_live_mark(heard->live, "heard"), BETZ_OK, "", "a mark from the session's thread");
        expect(betz_live_health_read(heard->live, &health, sizeof health), BETZ_ERROR_INVALID_ARGUMENT, "own",
               "health from the session's thread");
        expect(betz_live_stop(NULL), BETZ_ERROR_NULL, "live", "NULL from the session's thread");
    }
}

static void write_plan(const char *path, const char *model, const char *more) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        exit(2);
    }
    fprintf(file, "[session]\nmodel = \"%s\"\n[[source]]\nname = \"c\"\nfrom = \"push\"\nsends = \"steps\"\n", model);
    fprintf(file, "[missing]\nstale_after = \"1h\"\nbacklog = 1000000\n%s", more);
    if (fclose(file) != 0) {
        exit(2);
    }
}

static void refusals(const char *plan, const char *odd, const char *model) {
    betz_live *live = NULL;
    betz_live_config config;
    expect(betz_live_config_default(NULL, sizeof config), BETZ_ERROR_NULL, "config", "no configuration");
    expect(betz_live_config_default(&config, 3), BETZ_ERROR_STRUCT_SIZE, "config", "a size that is none");
    expect(betz_live_config_default(&config, sizeof config), BETZ_OK, "", "a configuration");
    expect(betz_live_open(NULL, &config, &live), BETZ_ERROR_NULL, "plan", "no plan");
    expect(betz_live_open(plan, &config, NULL), BETZ_ERROR_NULL, "out", "no place");
    expect(betz_live_open("none.toml", NULL, &live), BETZ_ERROR_IO, "none.toml", "a plan that is not there");
    config.reserved = 1;
    expect(betz_live_open(plan, &config, &live), BETZ_ERROR_INVALID_ARGUMENT, "reserved", "a reserved field");
    config.reserved = 0;
    config.struct_size = 7;
    expect(betz_live_open(plan, &config, &live), BETZ_ERROR_STRUCT_SIZE, "config", "a cut configuration");
    config.struct_size = sizeof config;
    config.changes = "voltage.threshold=4";
    expect(betz_live_open(plan, &config, &live), BETZ_ERROR_INVALID_ARGUMENT, "voltage.threshold", "a change");
    config.changes = "\xff";
    expect(betz_live_open(plan, &config, &live), BETZ_ERROR_INVALID_ARGUMENT, "UTF-8", "changes that are no text");
    write_plan(odd, model, "[outptus]\nto = []\n");
    expect(betz_live_open(odd, NULL, &live), BETZ_ERROR_INVALID_ARGUMENT, "line 10, outptus", "an unknown section");
    write_plan(odd, "none.betz", "");
    expect(betz_live_open(odd, NULL, &live), BETZ_ERROR_IO, "line 2, session.model", "a model that is not there");
    that(live == NULL, "nothing came of it");
    expect(betz_live_start(NULL), BETZ_ERROR_NULL, "live", "starting nothing");
    expect(betz_live_mark(NULL, "x"), BETZ_ERROR_NULL, "live", "marking nothing");
    that(betz_live_outputs(NULL) == 0 && betz_live_missed(NULL) == 0 && betz_live_step_seconds(NULL) == 0.0,
         "nothing has nothing");
    betz_live_close(NULL);
    /* A caller with a header from before the last fields. */
    memset(&config, 0xa5, sizeof config);
    expect(betz_live_config_default(&config, 16), BETZ_OK, "", "a shorter configuration");
    that(config.struct_size == 16 && ((const unsigned char *)&config)[16] == 0xa5, "its end is not written to");
    expect(betz_live_open(plan, &config, &live), BETZ_OK, "", "opening with it");
    /* Closed without having been started. */
    betz_live_close(live);
}

static void session(const char *plan, const char *folder, const betz_model *model, const betz_model *other) {
    size_t channels = betz_model_channels(model), outputs = betz_model_outputs(model), len = 0;
    float values[16] = {0}, labels[16] = {0}, row[64] = {0};
    char changes[1024], recording[1024] = "";
    struct heard heard = {NULL, 0, 0, 0.0f};
    betz_live *live = NULL;
    betz_live_config config;
    betz_live_step step;
    betz_live_health health;
    uint32_t reading = 9, swapped = 0;
    unsigned long taken = 0;
    int status;

    snprintf(changes, sizeof changes, "record.to=\"%s\"\nsession.name=from C\n", folder);
    expect(betz_live_config_default(&config, sizeof config), BETZ_OK, "", "a configuration");
    config.changes = changes;
    config.on_step = on_step;
    config.user = &heard;
    expect(betz_live_open(plan, &config, &live), BETZ_OK, "", "a session");
    if (live == NULL) {
        exit(1);
    }
    heard.live = live;
    that(betz_live_outputs(live) == outputs && betz_live_step_seconds(live) > 0.0, "outputs and step");
    expect(betz_live_health_read(live, &health, sizeof health), BETZ_OK, "", "health before the start");
    that(health.phase == BETZ_LIVE_PHASE_OPEN, "it is open");
    expect(betz_live_latest(live, &step, sizeof step, values, outputs), BETZ_ERROR_INSUFFICIENT_DATA, "step",
           "the newest of none");
    expect(betz_live_next(live, 0, &reading, &step, sizeof step, values, outputs), BETZ_OK, "", "the next of none");
    that(reading == BETZ_LIVE_NOTHING, "there is none");
    expect(betz_live_swap(live, other), BETZ_ERROR_INVALID_ARGUMENT, "heard nothing", "a swap too early");
    expect(betz_live_start(live), BETZ_OK, "", "starting");
    expect(betz_live_start(live), BETZ_OK, "", "starting again");

    expect(betz_live_push_features(live, 0, 1, channels - 1, row), BETZ_ERROR_MISMATCH, "channels", "a narrow row");
    expect(betz_live_push_features(live, 0, 1, channels, NULL), BETZ_ERROR_NULL, "features", "no row");
    /* Values and times that no step takes are refused, and the session goes on. */
    row[1] = 1e30f;
    expect(betz_live_push_features(live, 0, 1, channels, row), BETZ_ERROR_INVALID_ARGUMENT, "1e15", "a huge value");
    row[1] = 0.0f / 0.0f;
    expect(betz_live_push_features(live, 0, 1, channels, row), BETZ_ERROR_INVALID_ARGUMENT, "finite", "NaN");
    row[1] = 0.0f;
    expect(betz_live_push_features(live, UINT64_MAX - 2, 1, channels, row), BETZ_ERROR_INVALID_ARGUMENT, "2^53",
           "a row at the end of time");
    expect(betz_live_push(live, 0, 1, channels, (const int16_t *)row), BETZ_ERROR_MISMATCH, "features", "voltage");
    for (int i = 0; i < STEPS; i++) {
        betz_status pushed;
        row[i % (int)channels] = (float)(i % 3);
        /* A row is lost on the way. */
        while ((pushed = betz_live_push_features(live, i == 100 ? 101 : BETZ_LIVE_NEXT_ROW, 1, channels, row))
               == BETZ_ERROR_BUSY) {
            usleep(1000);
        }
        expect(pushed, BETZ_OK, "", "a row");
        if (i == 9) {
            expect(betz_live_next(live, LONG, &reading, &step, sizeof step, values, outputs), BETZ_OK, "", "a step");
            that(reading == BETZ_LIVE_STEP && step.number == 0 && step.outputs == outputs && step.host_ns > 0, "it");
            expect(betz_live_trial(live, BETZ_TRIAL_BEGIN), BETZ_OK, "", "a trial's begin");
            expect(betz_live_trial(live, 7), BETZ_ERROR_INVALID_ARGUMENT, "BETZ_TRIAL_BEGIN", "another trial");
            expect(betz_live_label(live, 3, labels, outputs), BETZ_OK, "", "a label");
            expect(betz_live_label(live, BETZ_LIVE_OPEN_STEP, labels, outputs), BETZ_OK, "", "a label now");
            expect(betz_live_label(live, 3, labels, outputs + 1), BETZ_ERROR_MISMATCH, "label", "a wide label");
            expect(betz_live_mark(live, "reward"), BETZ_OK, "", "a mark");
            expect(betz_live_mark(live, NULL), BETZ_ERROR_NULL, "text", "no mark");
            expect(betz_live_trial(live, BETZ_TRIAL_END), BETZ_OK, "", "a trial's end");
            expect(betz_live_swap(live, NULL), BETZ_ERROR_NULL, "model", "no model");
        }
    }
    expect(betz_live_push_features(live, 5, 1, channels, row), BETZ_ERROR_INVALID_ARGUMENT, "or later", "an old row");
    expect(betz_live_end(live), BETZ_OK, "", "the end of the rows");
    expect(betz_live_next(live, 0, NULL, &step, sizeof step, values, outputs), BETZ_ERROR_NULL, "reading", "no place");
    expect(betz_live_next(live, 0, &reading, &step, 12, values, outputs), BETZ_ERROR_STRUCT_SIZE, "step", "a cut step");
    expect(betz_live_next(live, 0, &reading, &step, sizeof step, values, outputs + 1), BETZ_ERROR_MISMATCH, "n",
           "room for more outputs");
    for (taken = 1;; taken++) {
        expect(betz_live_next(live, LONG, &reading, &step, sizeof step, values, outputs), BETZ_OK, "", "the next");
        if (reading != BETZ_LIVE_STEP) {
            break;
        }
        swapped |= step.status & BETZ_STEP_SWAPPED;
    }
    that(reading == BETZ_LIVE_OVER && betz_live_missed(live) == 0 && swapped == 0, "all were read");
    expect(betz_live_stop(live), BETZ_OK, "", "stopping");
    expect(betz_live_stop(live), BETZ_OK, "", "stopping again");
    expect(betz_live_start(live), BETZ_ERROR_INVALID_ARGUMENT, "ended", "starting what has ended");
    expect(betz_live_mark(live, "late"), BETZ_ERROR_INVALID_ARGUMENT, "ended", "a mark after the end");
    expect(betz_live_latest(live, &step, sizeof step, values, outputs), BETZ_OK, "", "the newest");
    that(step.number + 1 == STEPS + 1 && values[outputs - 1] == heard.last, "it is the last");

    /* As a header from before the last fields has it. */
    memset(&health, 0xa5, sizeof health);
    expect(betz_live_health_read(live, &health, 24), BETZ_OK, "", "shorter health");
    that(((const unsigned char *)&health)[24] == 0xa5, "its end is not written to");
    expect(betz_live_health_read(live, &health, sizeof health), BETZ_OK, "", "health");
    that(health.phase == BETZ_LIVE_PHASE_ENDED && health.rows == STEPS && health.lost == 1, "rows");
    that(heard.steps == taken && heard.outputs == outputs, "every step was heard");
    that(health.behind == 0 && health.disk == 0 && health.recorder_fill >= 0 && health.recorder_fill <= 1, "disk");
    that(health.labels == 2 && health.trials == 2 && health.marks == 2, "notes");
    that(health.limits_crossed >= 1 && health.unrecorded == 0 && health.written_bytes > 0, "limits and recording");

    expect(betz_live_folder(live, NULL, 0, &len), BETZ_OK, "", "the length of the folder");
    expect(betz_live_folder(live, recording, len, &len), BETZ_ERROR_MISMATCH, "cap", "no room for it");
    expect(betz_live_folder(live, recording, sizeof recording, &len), BETZ_OK, "", "the folder");
    that(strlen(recording) == len && strncmp(recording, folder, strlen(folder)) == 0, "its name");
    betz_live_replayed replayed;
    expect(betz_live_replay(recording, &replayed, sizeof replayed), BETZ_OK, "", "a replay");
    that(replayed.equal == 1 && replayed.different == 0 && replayed.compared == taken, "it is equal");
    expect(betz_live_replay(folder, &replayed, sizeof replayed), BETZ_ERROR_INVALID_RECORDING, "", "another folder");

    /* A forked child has no thread of the session. */
    pid_t child = fork();
    if (child == 0) {
        betz_status got = betz_live_mark(live, "child");
        betz_live_close(live);
        _exit(got == BETZ_ERROR_FORKED ? 0 : 1);
    }
    that(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child is refused");
    betz_live_close(live);
}

static void swapped(const char *plan, const betz_model *other, const betz_model *foreign) {
    size_t channels = betz_model_channels(other), outputs = betz_model_outputs(other);
    static float rows[100 * 64];
    float values[16];
    uint32_t reading, flags = 0;
    betz_live *live = NULL;
    betz_live_step step;
    expect(betz_live_open(plan, NULL, &live), BETZ_OK, "", "a session to swap in");
    expect(betz_live_start(live), BETZ_OK, "", "starting it");
    expect(betz_live_push_features(live, BETZ_LIVE_NEXT_ROW, 1, channels, rows), BETZ_OK, "", "its first row");
    expect(betz_live_next(live, LONG, &reading, &step, sizeof step, values, outputs), BETZ_OK, "", "its first step");
    expect(betz_live_swap(live, foreign), BETZ_ERROR_MISMATCH, "channels", "a model of other channels");
    expect(betz_live_roll_back(live), BETZ_ERROR_INVALID_ARGUMENT, "", "a rollback without a swap");
    expect(betz_live_swap(live, other), BETZ_OK, "", "another model");
    expect(betz_live_roll_back(live), BETZ_OK, "", "the model before");
    expect(betz_live_swap(live, other), BETZ_OK, "", "another model again");
    uint32_t accepted = 7;
    expect(betz_live_accept(live, NULL), BETZ_ERROR_NULL, "accepted", "no place for the answer");
    expect(betz_live_accept(live, &accepted), BETZ_OK, "", "nothing is proposed");
    if (accepted != 0) {
        fprintf(stderr, "accepted: expected 0, got %u\n", (unsigned)accepted);
        exit(1);
    }
    /* After as many steps as the filters remember. */
    for (int i = 0; i < 200 && (flags & BETZ_STEP_SWAPPED) == 0; i++) {
        expect(betz_live_push_features(live, BETZ_LIVE_NEXT_ROW, 100, channels, rows), BETZ_OK, "", "rows");
        for (int k = 0; k < 100; k++) {
            expect(betz_live_next(live, LONG, &reading, &step, sizeof step, values, outputs), BETZ_OK, "", "a step");
            flags |= step.status;
        }
    }
    that((flags & BETZ_STEP_SWAPPED) != 0, "the other model has taken over");
    /* Closed while it runs. */
    betz_live_close(live);
}

int main(int argc, char **argv) {
    char plan[1024], odd[1024];
    betz_model *model = NULL, *foreign = NULL;
    if (argc < 4) {
        return 2;
    }
    snprintf(plan, sizeof plan, "%s/plan.toml", argv[3]);
    snprintf(odd, sizeof odd, "%s/odd.toml", argv[3]);
    write_plan(plan, argv[1], "");
    expect(betz_model_load(argv[1], &model), BETZ_OK, "", "a model");
    expect(betz_model_load(argv[2], &foreign), BETZ_OK, "", "another");
    refusals(plan, odd, argv[1]);
    session(plan, argv[3], model, foreign);
    swapped(plan, model, foreign);
    betz_model_free(model);
    betz_model_free(foreign);
    puts(failed ? "the session for C: failed" : "the session for C: its calls do what they say");
    return failed;
}
