// Programs compiled with an older or a newer header than the library's: structs that are shorter and
// longer than the library's own, with a canary behind each.
#include "support.h"

enum { CHANNELS = 5, OUTPUTS = 2, STEPS = 200, ROOM = 1024 };

typedef union {
    uint8_t bytes[ROOM];
    uint64_t align;
    betz_session_config session;
    betz_train_config train;
    betz_miner_config miner;
    betz_swap_config swap;
    betz_stats stats;
    betz_queue_state queue;
    betz_estimate_time time;
    betz_miner_stats mined;
    betz_score score;
    betz_watched watched;
} room;

static void fill(room *r) { memset(r->bytes, 0xA5, sizeof r->bytes); }

static void canary(const room *r, size_t from) {
    for (size_t i = from; i < sizeof r->bytes; i++) CHECK(r->bytes[i] == 0xA5);
}

static int zeros(const room *r, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        if (r->bytes[i] != 0) return 0;
    }
    return 1;
}

static const betz_model *model;
static betz_session *session;
static betz_queue *queue;
static betz_miner *miner;
static betz_watch_list *list;

// One struct that Betz fills: as a function of its place and size.
#define FILLED(name, call)                                                                         \
    static betz_status name(room *r, size_t size) { return call; }
FILLED(session_default, betz_session_config_default(&r->session, size))
FILLED(train_default, betz_train_config_default(&r->train, size))
FILLED(miner_default, betz_miner_config_default(&r->miner, size))
FILLED(swap_default, betz_swap_config_default(&r->swap, size))
FILLED(stats, betz_session_stats(session, &r->stats, size))
FILLED(queue_state, betz_queue_get_state(queue, &r->queue, size))
FILLED(estimate_time, betz_session_estimate_time(session, &r->time, size))
FILLED(miner_stats, betz_miner_get_stats(miner, &r->mined, size))
FILLED(score, betz_model_score(model, 0, &r->score, size))
FILLED(watched, betz_watch_list_get(list, 0, &r->watched, size))

static void grows(betz_status (*fill_struct)(room *, size_t), size_t size, int has_size) {
    room whole, r;
    fill(&whole);
    OK(fill_struct(&whole, size));
    canary(&whole, size);
    size_t accepted = 0;
    for (size_t shorter = 0; shorter < size; shorter++) {
        fill(&r);
        const betz_status status = fill_struct(&r, shorter);
        if (status != BETZ_OK) {
            CHECK(status == BETZ_ERROR_STRUCT_SIZE);
            canary(&r, 0);
            continue;
        }
        accepted++;
        canary(&r, shorter);
        // The same as of the whole, but for its own size.
        const size_t from = has_size ? 4 : 0;
        CHECK(memcmp(r.bytes + from, whole.bytes + from, shorter - from) == 0);
        uint32_t own = 0;
        memcpy(&own, r.bytes, sizeof own);
        CHECK(!has_size || own == shorter);
    }
    CHECK(accepted >= 1);
    const size_t longer = size + 24;
    fill(&r);
    OK(fill_struct(&r, longer));
    canary(&r, longer);
    CHECK(zeros(&r, size, longer));
    fill(&r);
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, fill_struct(&r, (size_t)1 << 40));
    canary(&r, 0);
}

// A session of an older program, whose struct ends before the deadline: what it lacks has its default,
// and what lies behind it is not looked at.
static void older_session(void) {
    room r;
    betz_session *old = NULL;
    const size_t size = offsetof(betz_session_config, deadline_us);
    fill(&r);
    OK(betz_session_config_default(&r.session, size));
    r.session.unknown_channels = BETZ_UNKNOWN_CHANNELS_REFUSE;
    OK(betz_session_open(model, &r.session, &old));
    const uint32_t unknown = CHANNELS;
    float out[OUTPUTS];
    CHECK_STATUS(BETZ_ERROR_MISMATCH, betz_session_step_spikes(old, &unknown, 1, out, OUTPUTS));
    OK(betz_session_step_spikes(old, NULL, 0, out, OUTPUTS));
    betz_stats now;
    OK(betz_session_stats(old, &now, sizeof now));
    // The default of `statistics`, which it does not know.
    CHECK(now.latency_steps == 1 && now.deadline_misses == 0);
    betz_session_close(old);
    canary(&r, size);
}

static void newer_session(void) {
    room r;
    betz_session *opened = NULL;
    const size_t size = sizeof(betz_session_config) + 16;
    fill(&r);
    OK(betz_session_config_default(&r.session, size));
    OK(betz_session_open(model, &r.session, &opened));
    betz_session_close(opened);
    opened = NULL;
    r.bytes[size - 1] = 1;
    CHECK_STATUS(BETZ_ERROR_STRUCT_SIZE, betz_session_open(model, &r.session, &opened));
    char message[512];
    betz_last_error(message, sizeof message);
    CHECK(opened == NULL && strncmp(message, "config", 6) == 0);
}

int main(void) {
    betz_train_config training = small_config(CHANNELS);
    training.folds = 2;
    uint16_t *counts = random_counts(STEPS, CHANNELS, 1);
    float *behavior = follow(counts, STEPS, CHANNELS, OUTPUTS);
    betz_model *trained = NULL;
    // An older program's: up to the device.
    training.struct_size = offsetof(betz_train_config, device);
    training.threads = 77777;
    OK(betz_train_counts(&training, counts, behavior, STEPS, OUTPUTS, &trained));
    model = trained;
    session = open_session(model);
    float out[OUTPUTS];
    OK(betz_session_step_spikes(session, NULL, 0, out, OUTPUTS));
    OK(betz_queue_open(16, BETZ_LATE_SPIKES_TAKE, &queue));
    const char *episodes[] = {"0 1"};
    const betz_interval near = {0.0, 0.1};
    betz_miner_config mining;
    OK(betz_miner_config_default(&mining, sizeof mining));
    mining.symbols = CHANNELS;
    mining.tick_seconds = 0.02;
    mining.episodes = episodes;
    mining.n_episodes = 1;
    mining.intervals = &near;
    mining.n_intervals = 1;
    OK(betz_miner_open(&mining, &miner));
    OK(betz_miner_watch_list(miner, &list));

    grows(session_default, sizeof(betz_session_config), 1);
    grows(train_default, sizeof(betz_train_config), 1);
    grows(miner_default, sizeof(betz_miner_config), 1);
    grows(swap_default, sizeof(betz_swap_config), 1);
    grows(stats, sizeof(betz_stats), 0);
    grows(queue_state, sizeof(betz_queue_state), 0);
    grows(estimate_time, sizeof(betz_estimate_time), 0);
    grows(miner_stats, sizeof(betz_miner_stats), 0);
    grows(score, sizeof(betz_score), 0);
    grows(watched, sizeof(betz_watched), 0);
    older_session();
    newer_session();

    betz_watch_list_free(list);
    betz_miner_close(miner);
    betz_queue_close(queue);
    betz_session_close(session);
    betz_model_free(trained);
    free(counts);
    free(behavior);
    puts("growth: ok");
    return 0;
}
