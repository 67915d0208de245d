// A clusterless place decoder: spikes with features lead to their place, what is left out is counted, a step allocates nothing,
// every refusal.
//
// The file is trained on two tetrodes beside a track of 100 cm. Even channels hear cells at 10, 42 and 74 cm, odd ones at 26, 58 and
// 90 cm; the first amplitude tells them apart (100, 160 and 220), the second is 80. It is made of the recording of
// cli/tests/commands/marks.rs: `betz train tetrodes.npz --decoder place --marks --cells 20 --out examples/data/tetrodes.betz`.
#include "no_malloc.h"
#include "support.h"

#include <math.h>

static const char *const FILE_NAME = "examples/data/tetrodes.betz";

static betz_clusterless *load(size_t max_spikes) {
    betz_clusterless *decoder = NULL;
    OK(betz_clusterless_load(FILE_NAME, max_spikes, &decoder));
    CHECK(betz_clusterless_channels(decoder) == 2 && betz_clusterless_features(decoder) == 2);
    CHECK(betz_clusterless_outputs(decoder) == 1 && betz_clusterless_step_seconds(decoder) == 0.02);
    CHECK(strcmp(betz_clusterless_channel_name(decoder, 0), "t0") == 0);
    CHECK(strcmp(betz_clusterless_channel_name(decoder, 1), "t1") == 0);
    CHECK(strcmp(betz_clusterless_output_name(decoder, 0), "x") == 0);
    CHECK(betz_clusterless_channel_name(decoder, 2) == NULL && betz_clusterless_output_name(decoder, 1) == NULL);
    CHECK(betz_clusterless_channel_name(NULL, 0) == NULL && betz_clusterless_output_name(NULL, 0) == NULL);
    return decoder;
}

// The estimate after 30 steps, in every third of which `channel` has a spike of the amplitude.
static float after(betz_clusterless *decoder, uint32_t channel, float amplitude) {
    const float features[2] = {amplitude, 80.0f};
    float out = NAN;
    OK(betz_clusterless_reset(decoder));
    forbidden = 1;
    for (int step = 0; step < 30; step++) {
        OK(betz_clusterless_step(decoder, &channel, features, step % 3 == 0, 2, &out, 1));
    }
    forbidden = 0;
    return out;
}

static void places(void) {
    betz_clusterless *decoder = load(0);
    for (uint32_t cell = 0; cell < 6; cell++) {
        const float out = after(decoder, cell % 2, 100.0f + 60.0f * (float)(cell / 2));
        CHECK(fabsf(out - (10.0f + 16.0f * (float)cell)) < 10.0f);
    }
    // The same again from rest, bit for bit.
    const float one = after(decoder, 0, 160.0f), other = after(decoder, 0, 160.0f);
    CHECK(same_bits(&one, &other, 1));
    // The probabilities of the cells give the estimate.
    const uint32_t cells = betz_clusterless_cells(decoder);
    double p[64], values[64], sum = 0.0, mean = 0.0;
    CHECK(cells >= 4 && cells <= 64);
    OK(betz_clusterless_posterior(decoder, p, cells));
    OK(betz_clusterless_cell_values(decoder, values, cells));
    for (uint32_t c = 0; c < cells; c++) {
        sum += p[c];
        mean += p[c] * values[c];
    }
    CHECK(fabs(sum - 1.0) < 1e-9 && fabs(mean - (double)other) < 1e-3);
    OK(betz_clusterless_reset(decoder));
    OK(betz_clusterless_posterior(decoder, p, cells));
    CHECK(p[0] == 0.0 && p[cells - 1] == 0.0);
    betz_clusterless_close(decoder);
}

static void left_out(void) {
    betz_clusterless *decoder = load(2), *unbounded = load(0);
    const uint32_t channels[4] = {0, 2, 1, 1};
    const float features[8] = {160.0f, 80.0f, 160.0f, 80.0f, NAN, 80.0f, 160.0f, 80.0f};
    float out = 0.0f, first = 0.0f;
    uint64_t spikes = 9;
    // Two beyond the bound, and one of an unknown channel.
    OK(betz_clusterless_step(decoder, channels, features, 4, 2, &out, 1));
    OK(betz_clusterless_left_out(decoder, &spikes));
    CHECK(spikes == 3);
    // As if they had not been there.
    OK(betz_clusterless_step(unbounded, channels, features, 1, 2, &first, 1));
    CHECK(same_bits(&out, &first, 1));
    OK(betz_clusterless_reset(unbounded));
    OK(betz_clusterless_step(unbounded, channels, features, 4, 2, &out, 1));
    OK(betz_clusterless_left_out(unbounded, &spikes));
    CHECK(spikes == 2);
    betz_clusterless_close(decoder);
    betz_clusterless_close(unbounded);
}

static void refusals(void) {
    betz_clusterless *decoder = NULL;
    const uint32_t channel = 0;
    const float features[2] = {160.0f, 80.0f};
    float out = 7.0f;
    double p[64];
    uint64_t spikes = 9;
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_load(NULL, 0, &decoder));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_load(FILE_NAME, 0, NULL));
    CHECK_STATUS(BETZ_ERROR_IO, betz_clusterless_load("no/such/file", 0, &decoder));
    CHECK_STATUS(BETZ_ERROR_INVALID_MODEL,
                 betz_clusterless_load("examples/data/array.sorter", 0, &decoder));
    betz_model *model = NULL;
    CHECK_STATUS(BETZ_ERROR_INVALID_MODEL, betz_model_load(FILE_NAME, &model));
    char message[512];
    betz_last_error(message, sizeof message);
    CHECK(strstr(message, "; betz_clusterless_load reads it") != NULL);
    CHECK(decoder == NULL && model == NULL);

    // The file's bytes, whole, cut and damaged.
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(FILE_NAME, "rb");
    CHECK(file != NULL);
    const size_t len = fread(bytes, 1, sizeof bytes, file);
    CHECK(len > 100 && len < sizeof bytes && fclose(file) == 0);
    for (size_t at = 0; at < len; at += 97) {
        CHECK(betz_clusterless_load_bytes(bytes, at, 0, &decoder) != BETZ_OK);
        bytes[at] ^= 0x40;
        CHECK(betz_clusterless_load_bytes(bytes, len, 0, &decoder) != BETZ_OK);
        bytes[at] ^= 0x40;
    }
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_load_bytes(NULL, len, 0, &decoder));
    CHECK(decoder == NULL);
    OK(betz_clusterless_load_bytes(bytes, len, 0, &decoder));

    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_step(NULL, &channel, features, 1, 2, &out, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_step(decoder, NULL, features, 1, 2, &out, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_step(decoder, &channel, NULL, 1, 2, &out, 1));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_step(decoder, &channel, features, 1, 2, NULL, 1));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_clusterless_step(decoder, &channel, features, 1, 3, &out, 1));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_clusterless_step(decoder, &channel, features, 1, 0, &out, 1));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_clusterless_step(decoder, &channel, features, 1, 2, &out, 2));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_clusterless_step(decoder, &channel, features, SIZE_MAX, 2, &out, 1));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_clusterless_step(decoder, &channel, features, SIZE_MAX / 4, 2, &out, 1));
    CHECK(out == 7.0f);
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_clusterless_posterior(decoder, p, 3));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_posterior(decoder, NULL, betz_clusterless_cells(decoder)));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_clusterless_cell_values(decoder, p, 3));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_left_out(decoder, NULL));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_clusterless_reset(NULL));
    OK(betz_clusterless_left_out(decoder, &spikes));
    CHECK(spikes == 0);
    // No refusal has made a step.
    OK(betz_clusterless_posterior(decoder, p, betz_clusterless_cells(decoder)));
    CHECK(p[0] == 0.0);
    OK(betz_clusterless_step(decoder, NULL, NULL, 0, 2, &out, 1));
    CHECK(out >= 0.0f && out <= 100.0f);
    CHECK(betz_clusterless_channels(NULL) == 0 && betz_clusterless_features(NULL) == 0);
    CHECK(betz_clusterless_outputs(NULL) == 0 && betz_clusterless_cells(NULL) == 0);
    CHECK(betz_clusterless_step_seconds(NULL) == 0.0);
    betz_clusterless_close(decoder);
    betz_clusterless_close(NULL);
}

int main(void) {
    places();
    left_out();
    refusals();
    puts("clusterless: ok");
    return 0;
}
