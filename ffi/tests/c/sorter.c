// The sorter: the same spikes however the samples are cut and however little room there is; every refusal.
#include "support.h"

#include <math.h>

enum { CHANNELS = 8, ROWS = 9000, MOST = 2000 };

static const char *const FILE_NAME = "examples/data/array.sorter";

// Noise, and dips on one channel after the other.
static int16_t *voltage(void) {
    int16_t *samples = malloc(sizeof *samples * ROWS * CHANNELS);
    uint64_t state = 7;
    CHECK(samples != NULL);
    for (size_t i = 0; i < (size_t)ROWS * CHANNELS; i++) {
        samples[i] = (int16_t)(next_random(&state) % 120) - 60;
    }
    for (int row = 500, channel = 0; row + 60 < ROWS; row += 70, channel = (channel + 1) % CHANNELS) {
        for (int i = 0; i < 60; i++) {
            const double trough = (i - 20.0) / 4.0, hump = (i - 30.0) / 6.0;
            samples[(row + i) * CHANNELS + channel] +=
                (int16_t)(130.0 / 0.195 * (0.35 * exp(-hump * hump) - exp(-trough * trough)));
        }
    }
    return samples;
}

// All spikes, from pushes of `rows` rows with room for `cap` spikes.
static size_t sort_all(const int16_t *samples, size_t rows, size_t cap, betz_sorter_spike *all) {
    betz_sorter *sorter = NULL;
    OK(betz_sorter_load(FILE_NAME, &sorter));
    betz_sorter_spike *spikes = malloc(cap * sizeof *spikes);
    CHECK(spikes != NULL);
    size_t at = 0, found = 0, taken = 0, n = 0;
    while (at < ROWS || n == cap) {
        const size_t now = rows < ROWS - at ? rows : ROWS - at;
        OK(betz_sorter_push(sorter, samples + at * CHANNELS, now, CHANNELS, spikes, cap, &taken, &n));
        CHECK(taken <= now && n <= cap && (taken == now || n == cap) && found + n <= MOST);
        memcpy(all + found, spikes, n * sizeof *spikes);
        found += n;
        at += taken;
    }
    betz_sorter_stats stats;
    OK(betz_sorter_get_stats(sorter, &stats, sizeof stats));
    CHECK(stats.samples == ROWS && stats.unlabelled <= found && stats.saturated == 0);
    free(spikes);
    betz_sorter_close(sorter);
    return found;
}

static void cut(void) {
    int16_t *samples = voltage();
    betz_sorter_spike *whole = calloc(MOST, sizeof *whole), *parts = calloc(MOST, sizeof *parts);
    CHECK(whole != NULL && parts != NULL);
    const size_t n = sort_all(samples, ROWS, MOST, whole);
    size_t labelled = 0;
    for (size_t i = 0; i < n; i++) {
        labelled += whole[i].unit != BETZ_UNIT_NONE;
        CHECK(whole[i].channel < CHANNELS && whole[i].microvolts < 0.0f && whole[i].distance >= 0.0f);
        CHECK(i == 0 || whole[i].sample >= whole[i - 1].sample);
    }
    CHECK(n >= 100 && labelled >= 80);
    static const size_t CUTS[][2] = {{1, 8}, {7, 1}, {300, 3}, {ROWS, 1}};
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS; i++) {
        memset(parts, 0, MOST * sizeof *parts);
        CHECK(sort_all(samples, CUTS[i][0], CUTS[i][1], parts) == n);
        CHECK(memcmp(whole, parts, n * sizeof *parts) == 0);
    }
    free(samples);
    free(whole);
    free(parts);
}

static void refusals(void) {
    betz_sorter *sorter = NULL;
    betz_sorter_spike spikes[4];
    betz_sorter_stats stats;
    betz_sorter_unit unit;
    size_t taken = 9, n = 9;
    const int16_t row[CHANNELS] = {0};
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_load(NULL, &sorter));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_load(FILE_NAME, NULL));
    CHECK_STATUS(BETZ_ERROR_IO, betz_sorter_load("no/such/file", &sorter));
    CHECK_STATUS(BETZ_ERROR_INVALID_MODEL, betz_sorter_load("examples/c/sort.c", &sorter));
    CHECK(sorter == NULL);

    // The file's bytes, whole, cut and damaged.
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(FILE_NAME, "rb");
    CHECK(file != NULL);
    const size_t len = fread(bytes, 1, sizeof bytes, file);
    CHECK(len > 100 && len < sizeof bytes && fclose(file) == 0);
    for (size_t at = 0; at < len; at += 97) {
        CHECK(betz_sorter_load_bytes(bytes, at, &sorter) != BETZ_OK);
        bytes[at] ^= 0x40;
        CHECK(betz_sorter_load_bytes(bytes, len, &sorter) != BETZ_OK);
        bytes[at] ^= 0x40;
    }
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_load_bytes(NULL, len, &sorter));
    CHECK(sorter == NULL);
    OK(betz_sorter_load_bytes(bytes, len, &sorter));

    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_push(NULL, row, 1, CHANNELS, spikes, 4, &taken, &n));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_push(sorter, NULL, 1, CHANNELS, spikes, 4, &taken, &n));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_push(sorter, row, 1, CHANNELS, NULL, 4, &taken, &n));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_push(sorter, row, 1, CHANNELS, spikes, 4, NULL, &n));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_push(sorter, row, 1, CHANNELS, spikes, 4, &taken, NULL));
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_sorter_push(sorter, row, 1, 7, spikes, 4, &taken, &n));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_sorter_push(sorter, row, 1, CHANNELS, spikes, 0, &taken, &n));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_sorter_push(sorter, row, SIZE_MAX, CHANNELS, spikes, 4, &taken, &n));
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_sorter_push(sorter, row, SIZE_MAX / 8, CHANNELS, spikes, 4, &taken, &n));
    CHECK(taken == 9 && n == 9);
    OK(betz_sorter_get_stats(sorter, &stats, sizeof stats));
    CHECK(stats.samples == 0);
    OK(betz_sorter_push(sorter, NULL, 0, CHANNELS, spikes, 4, &taken, &n));
    CHECK(taken == 0 && n == 0);
    OK(betz_sorter_push(sorter, row, 1, CHANNELS, spikes, 4, &taken, &n));
    CHECK(taken == 1 && n == 0);

    CHECK(betz_sorter_channels(sorter) == CHANNELS && betz_sorter_units(sorter) >= CHANNELS);
    CHECK(betz_sorter_rate_hz(sorter) == 30000.0 && betz_sorter_microvolts(sorter) == 0.195);
    for (uint32_t i = 0; i < betz_sorter_units(sorter); i++) {
        OK(betz_sorter_get_unit(sorter, i, &unit, sizeof unit));
        CHECK(unit.channel < CHANNELS && unit.microvolts < 0.0f && unit.trained_hz > 0.0);
        CHECK(unit.moved == 0.0f && unit.reserved == 0);
    }
    CHECK_STATUS(BETZ_ERROR_INVALID_ARGUMENT,
                 betz_sorter_get_unit(sorter, betz_sorter_units(sorter), &unit, sizeof unit));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_get_unit(sorter, 0, NULL, sizeof unit));
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_sorter_get_unit(sorter, 0, &unit, 7));
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_sorter_get_stats(sorter, &stats, 9));
    CHECK_STATUS(BETZ_ERROR_NULL, betz_sorter_get_stats(NULL, &stats, sizeof stats));
    CHECK(betz_sorter_channels(NULL) == 0 && betz_sorter_units(NULL) == 0);
    CHECK(betz_sorter_rate_hz(NULL) == 0.0 && betz_sorter_microvolts(NULL) == 0.0);
    betz_sorter_close(sorter);
    betz_sorter_close(NULL);
}

int main(void) {
    cut();
    refusals();
    puts("sorter: ok");
    return 0;
}
