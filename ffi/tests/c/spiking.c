// A spiking network: the spikes of `betz simulate`, by steps and by runs, with currents that change; spikes by call, reward, fork,
// steps that allocate nothing, every refusal.
//
// The numbers are those of the command, for each of the times below:
//   betz simulate --spec examples/data/steered.json --stimulus e=examples/data/steered.csv --seconds 0.4 --counts - --json
//   betz simulate --spec examples/data/rewarded.json --seconds 2 --json
//
// `spiking cuda` runs the network on that device instead of the CPU.
#include "no_malloc.h"
#include "support.h"

#include <betz_spiking.h>

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CELLS = 24, NEURONS = 28 };

// Where networks run.
static const char *device = "cpu";

// The text of a file, and its length.
static size_t text_of(const char *path, char *text, size_t room) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    const size_t length = fread(text, 1, room, file);
    CHECK(length > 0 && length < room && fclose(file) == 0);
    return length;
}

static betz_spiking *open_file(const char *path, const betz_spiking_config *config) {
    char text[4096];
    betz_spiking *network = NULL;
    const size_t length = text_of(path, text, sizeof text);
    OK(betz_spiking_open(text, length, config, &network));
    return network;
}

static const char *const STEERED = "examples/data/steered.json";
static const char *const REWARDED = "examples/data/rewarded.json";

// Currents of the table's rows, and the step of each.
static size_t read_table(size_t steps[8], double currents[8][CELLS]) {
    FILE *file = fopen("examples/data/steered.csv", "r");
    CHECK(file != NULL);
    size_t rows = 0;
    double seconds;
    while (rows < 8 && fscanf(file, "%lf", &seconds) == 1) {
        steps[rows] = (size_t)(seconds / 0.0005 + 0.5);
        for (int i = 0; i < CELLS; i++) CHECK(fscanf(file, ",%lf", &currents[rows][i]) == 1);
        rows++;
    }
    CHECK(rows == 4 && fclose(file) == 0);
    return rows;
}

// Steps, spikes and hash of the command.
static const struct { uint64_t steps, spikes, hash; } KNOWN[] = {
    {100, 1, 0x55a117e50b3872ccu},   {200, 78, 0x9e860a0eba2e1462u},  {300, 121, 0xe8f9b8b795dcff9bu},
    {400, 124, 0xf12ded9877448cf0u}, {600, 331, 0x345e98e1c56f240cu}, {800, 333, 0x23c0cc4668e09f0au},
};
static const uint32_t COUNTS[NEURONS] = {0,  0,  0,  0,  17, 14, 21, 10, 12, 23, 12, 12, 9,  14,
                                         16, 9,  12, 24, 17, 13, 21, 9,  8,  9,  8,  10, 16, 17};

static void check_totals(betz_spiking *network, size_t known) {
    uint64_t steps = 0, spikes = 0, hash = 0;
    OK(betz_spiking_totals(network, &steps, &spikes, &hash));
    CHECK(steps == KNOWN[known].steps && spikes == KNOWN[known].spikes && hash == KNOWN[known].hash);
}

static void steps_are_those_of_the_command(void) {
    betz_spiking_config config;
    OK(betz_spiking_config_default(&config, sizeof config));
    config.device = device;
    betz_spiking *network = open_file(STEERED, &config);
    CHECK(betz_spiking_neurons(network) == NEURONS && betz_spiking_step_seconds(network) == 0.0005);
    uint32_t population = 9, first = 9, count = 9, counts[NEURONS], own[NEURONS] = {0};
    OK(betz_spiking_population(network, "e", &population, &first, &count));
    CHECK(population == 1 && first == 4 && count == CELLS);
    size_t at[8], row = 0, known = 0;
    double currents[8][CELLS];
    const size_t rows = read_table(at, currents);
    for (size_t step = 0; step < 800; step++) {
        uint32_t fired[NEURONS];
        size_t n = 99;
        if (row < rows && at[row] == step) {
            OK(betz_spiking_set_currents(network, population, currents[row], CELLS));
            row++;
        }
        // By then its lists have grown: the drive was strongest at first.
        forbidden = step >= 450 && strcmp(device, "cpu") == 0;
        OK(betz_spiking_step(network, fired, NEURONS, &n));
        forbidden = 0;
        for (size_t i = 0; i < n; i++) {
            CHECK(i == 0 || fired[i] > fired[i - 1]);
            own[fired[i]]++;
        }
        if (step + 1 == KNOWN[known].steps) check_totals(network, known++);
    }
    CHECK(known == 6 && row == 4);
    OK(betz_spiking_counts(network, counts, NEURONS));
    CHECK(memcmp(counts, COUNTS, sizeof counts) == 0 && memcmp(own, COUNTS, sizeof own) == 0);
    betz_spiking_close(network);
}

static void runs_are_those_of_the_command(void) {
    size_t at[8];
    double currents[8][CELLS];
    const size_t rows = read_table(at, currents);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        betz_spiking_config config;
        OK(betz_spiking_config_default(&config, sizeof config));
        CHECK(config.threads == 1);
        config.threads = threads;
        config.device = device;
        betz_spiking *network = open_file(STEERED, &config);
        size_t done = 0;
        for (size_t row = 0; row < rows; row++) {
            OK(betz_spiking_run(network, at[row] - done));
            OK(betz_spiking_set_currents(network, 1, currents[row], CELLS));
            done = at[row];
        }
        OK(betz_spiking_run(network, 800 - done));
        check_totals(network, 5);
        betz_spiking_close(network);
    }
}

static void spikes_by_call(void) {
    betz_spiking *network = open_file(STEERED, NULL);
    const uint32_t sources[2] = {3, 0}, cell = 4, beyond = NEURONS, twice[2] = {1, 1};
    uint32_t fired[NEURONS];
    size_t n = 0;
    OK(betz_spiking_emit(network, sources, 2));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_emit(network, sources, 1));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_emit(network, &cell, 1));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_emit(network, &beyond, 1));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_emit(network, twice, 2));
    OK(betz_spiking_step(network, fired, NEURONS, &n));
    CHECK(n == 2 && fired[0] == 0 && fired[1] == 3);
    OK(betz_spiking_emit(network, NULL, 0));
    // Only the number is asked for.
    OK(betz_spiking_step(network, NULL, 0, &n));
    CHECK(n == 0);
    betz_spiking_close(network);
}

static void rewards(void) {
    betz_spiking *plain = open_file(REWARDED, NULL), *rewarded = open_file(REWARDED, NULL);
    uint64_t steps, spikes, hash, other;
    OK(betz_spiking_run(plain, 500));
    OK(betz_spiking_run(rewarded, 500));
    OK(betz_spiking_totals(rewarded, &steps, &spikes, &hash));
    CHECK(steps == 500 && spikes == 394 && hash == 0xead198d38e88d280u);
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_reward(rewarded, NAN));
    OK(betz_spiking_reward(rewarded, 2.0));
    OK(betz_spiking_run(plain, 1500));
    OK(betz_spiking_run(rewarded, 1500));
    OK(betz_spiking_totals(plain, &steps, &spikes, &hash));
    CHECK(steps == 2000 && spikes == 1570 && hash == 0xa31c657f33223520u);
    // Synapses that have grown let more cells fire.
    OK(betz_spiking_totals(rewarded, &steps, &spikes, &other));
    CHECK(other != hash && spikes > 1570);
    betz_spiking_close(plain);
    betz_spiking_close(rewarded);
}

// Weights that are lost beside a large one are counted.
static void rounded_weights(void) {
    static const char json[] =
        "{\"step_ms\": 0.5, \"seed\": 1, \"populations\": [{\"name\": \"a\", \"neurons\": 4}], \"projections\": [{\"source\": \"a\", "
        "\"target\": \"a\", \"weight\": 0, \"delay_ms\": 1, \"rule\": {\"list\": {\"synapses\": ["
        "{\"source\": 0, \"target\": 1, \"weight\": 500, \"delay_steps\": 2}, "
        "{\"source\": 1, \"target\": 2, \"weight\": 0.001, \"delay_steps\": 2}, "
        "{\"source\": 2, \"target\": 3, \"weight\": 0.002, \"delay_steps\": 2}]}}}]}";
    betz_spiking *network = NULL, *steered = open_file(STEERED, NULL);
    OK(betz_spiking_open(json, strlen(json), NULL, &network));
    CHECK(betz_spiking_rounded_weights(network) == 2 && betz_spiking_rounded_weights(steered) == 0);
    betz_spiking_close(network);
    betz_spiking_close(steered);
}

// A forked child goes on, as the parent does.
static void a_child_steps(void) {
    betz_spiking *network = open_file(STEERED, NULL);
    uint64_t steps, spikes, hash;
    const pid_t child = fork();
    CHECK(child >= 0);
    OK(betz_spiking_run(network, 100));
    OK(betz_spiking_totals(network, &steps, &spikes, &hash));
    CHECK(hash == KNOWN[0].hash);
    betz_spiking_close(network);
    if (child == 0) _exit(0);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// The last message names `part`.
static int said(const char *part) {
    char message[1024];
    betz_last_error(message, sizeof message);
    if (strstr(message, part) != NULL) return 1;
    fprintf(stderr, "expected %s in: %s\n", part, message);
    return 0;
}

static void refused_text(const char *json, betz_status expected, const char *part) {
    betz_spiking *network = NULL;
    CHECK_STATUS(expected, betz_spiking_open(json, strlen(json), NULL, &network));
    CHECK(network == NULL && said(part));
}

static void refused_descriptions(void) {
    const betz_status wrong = BETZ_ERROR_INVALID_ARGUMENT;
    refused_text("{", wrong, "EOF");
    refused_text("\xff", wrong, "json: expected UTF-8");
    refused_text("{\"step_ms\":0.5,\"seed\":1,\"populations\":[{\"name\":\"a\",\"neurons\":\"x\"}],\"projections\":[]}", wrong,
                 "neurons");
    refused_text("{\"step_ms\":0.5,\"seed\":1,\"populations\":[{\"name\":\"a\",\"neurons\":4,\"neuron\":{\"lif\":{\"tau_m_ms\":-1}}}],"
                 "\"projections\":[]}",
                 wrong, "population \"a\": tau_m_ms: expected");
    refused_text("{\"step_ms\":0.5,\"seed\":1,\"populations\":[{\"name\":\"a\",\"neurons\":4,"
                 "\"neuron\":{\"spikes\":{\"file\":\"none.csv\"}}}],\"projections\":[]}",
                 BETZ_ERROR_IO, "none.csv");
    // Any bytes: cut and damaged.
    char text[4096];
    const size_t length = text_of(STEERED, text, sizeof text);
    for (size_t at = 0; at < length; at++) {
        betz_spiking *network = NULL;
        CHECK(betz_spiking_open(text, at, NULL, &network) != BETZ_OK || at + 2 > length);
        betz_spiking_close(network);
    }
    for (size_t at = 0; at < length; at += 3) {
        betz_spiking *network = NULL;
        size_t n;
        text[at] ^= 0x11;
        if (betz_spiking_open(text, length, NULL, &network) == BETZ_OK) {
            OK(betz_spiking_step(network, NULL, 0, &n));
        }
        betz_spiking_close(network);
        text[at] ^= 0x11;
    }
}

static void refused_configurations(void) {
    char text[4096];
    const size_t length = text_of(STEERED, text, sizeof text);
    betz_spiking *network = NULL;
    betz_spiking_config config;
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_config_default(NULL, sizeof config));
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_spiking_config_default(&config, 13));
#define REFUSED(status, field, value, part)                                                       \
    do {                                                                                           \
        OK(betz_spiking_config_default(&config, sizeof config));                                   \
        config.field = (value);                                                                    \
        CHECK_STATUS(status, betz_spiking_open(text, length, &config, &network));                  \
        CHECK(network == NULL && said(part));                                                      \
    } while (0)
    REFUSED(BETZ_ERROR_STRUCT_SIZE, struct_size, 13, "config");
    REFUSED(BETZ_ERROR_INVALID_ARGUMENT, threads, 0, "config->threads");
    REFUSED(BETZ_ERROR_INVALID_ARGUMENT, threads, 257, "config->threads");
    REFUSED(BETZ_ERROR_INVALID_ARGUMENT, reserved, 1, "config->reserved");
    REFUSED(BETZ_ERROR_INVALID_ARGUMENT, thread_priority, 100, "config->thread_priority");
    REFUSED(BETZ_ERROR_INVALID_ARGUMENT, device, "abacus", "abacus");
    REFUSED(BETZ_ERROR_OUT_OF_MEMORY, memory_bytes, 1000, "memory");
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_open(NULL, 0, NULL, &network));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_open(text, length, NULL, NULL));
    // An older program's struct.
    OK(betz_spiking_config_default(&config, 8));
    CHECK(config.struct_size == 8);
    OK(betz_spiking_open(text, length, &config, &network));
    betz_spiking_close(network);
}

static void refused_calls(void) {
    betz_spiking *network = open_file(STEERED, NULL);
    double currents[CELLS] = {0.0};
    uint32_t a = 9, b = 9, c = 9, fired[NEURONS];
    size_t n = 99;
    uint64_t steps = 9, spikes = 9, hash = 9;
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_population(NULL, "e", &a, &b, &c));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_population(network, NULL, &a, &b, &c));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_population(network, "e", &a, NULL, &c));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_population(network, "f", &a, &b, &c));
    CHECK(said("\"f\"") && a == 9 && b == 9 && c == 9);
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_set_currents(network, 1, NULL, CELLS));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_spiking_set_currents(network, 1, currents, CELLS - 1));
    CHECK(said("\"e\""));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_set_currents(network, 2, currents, CELLS));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_set_currents(network, 0, currents, 4));
    CHECK(said("\"in\""));
    currents[5] = INFINITY;
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_set_currents(network, 1, currents, CELLS));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT, betz_spiking_reward(network, 1.0));
    CHECK(said("reward"));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_emit(network, NULL, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_step(NULL, fired, NEURONS, &n));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_step(network, fired, NEURONS, NULL));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_step(network, NULL, NEURONS, &n));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_spiking_step(network, fired, NEURONS - 1, &n));
    CHECK(said("capacity"));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_run(NULL, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_totals(network, &steps, NULL, &hash));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_spiking_counts(network, fired, 3));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_spiking_counts(network, NULL, NEURONS));
    CHECK(n == 99 && steps == 9 && hash == 9);
    // No refusal has made a step or changed one.
    OK(betz_spiking_run(network, 100));
    OK(betz_spiking_totals(network, &steps, &spikes, &hash));
    CHECK(steps == 100 && hash == KNOWN[0].hash);
    CHECK(betz_spiking_neurons(NULL) == 0 && betz_spiking_rounded_weights(NULL) == 0);
    CHECK(betz_spiking_step_seconds(NULL) == 0.0);
    betz_spiking_close(network);
    betz_spiking_close(NULL);
}

int main(int argc, char **argv) {
    if (argc > 1) device = argv[1];
    CHECK(betz_has_feature("spiking") == 1);
    steps_are_those_of_the_command();
    runs_are_those_of_the_command();
    spikes_by_call();
    rewards();
    rounded_weights();
    a_child_steps();
    refused_descriptions();
    refused_configurations();
    refused_calls();
    puts("spiking: ok");
    return 0;
}
