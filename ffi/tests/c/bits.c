/* Prints a hash of the estimates of 5,000 steps of each model, so that two systems can be compared to the bit.
 *
 *   bits MODEL...
 */
#include <betz.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(betz_status status, const char *what) {
    if (status != BETZ_OK) {
        char message[512];
        betz_last_error(message, sizeof message);
        fprintf(stderr, "%s: %s: %s\n", what, betz_status_string(status), message);
        exit(1);
    }
}

static void hash_steps(const char *path) {
    betz_model *model = NULL;
    must(betz_model_load(path, &model), path);
    const uint32_t channels = betz_model_channels(model), outputs = betz_model_outputs(model);
    betz_session_config config;
    must(betz_session_config_default(&config, sizeof config), "configuring");
    betz_session *session = NULL;
    must(betz_session_open(model, &config, &session), "opening the session");
    uint16_t *counts = calloc(channels, sizeof *counts);
    float *estimate = calloc(outputs, sizeof *estimate);
    if (counts == NULL || estimate == NULL) {
        exit(1);
    }
    uint64_t random = 88172645463325252u, hash = 0xcbf29ce484222325u; /* xorshift64; FNV-1a */
    for (int step = 0; step < 5000; step++) {
        for (uint32_t c = 0; c < channels; c++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            counts[c] = random % 10 == 0;
        }
        must(betz_session_step_counts(session, counts, channels, estimate, outputs), "stepping");
        for (uint32_t o = 0; o < outputs; o++) {
            uint32_t bits;
            memcpy(&bits, &estimate[o], sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3u;
        }
    }
    printf("%08lx%08lx\n", (unsigned long)(hash >> 32), (unsigned long)(hash & 0xffffffffu));
    free(counts);
    free(estimate);
    betz_session_close(session);
    betz_model_free(model);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        hash_steps(argv[i]);
    }
    betz_model *model = NULL;
    return betz_model_load("no-such.betz", &model) == BETZ_OK;
}
