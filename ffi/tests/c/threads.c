// One model in eight sessions in eight threads; a producer and a consumer on one queue; models
// swapped from a second thread. Also run under ThreadSanitizer.
#include "support.h"

#include <pthread.h>
#include <sched.h>

enum { CHANNELS = 16, OUTPUTS = 2, STEPS = 2000, THREADS = 8, QUEUE_TICKS = 20000 };

struct decoding {
    const betz_model *model;
    const uint16_t *counts;
    float out[STEPS][OUTPUTS];
};

static void *decode(void *argument) {
    struct decoding *d = argument;
    betz_session *session = open_session(d->model);
    for (int t = 0; t < STEPS; t++) {
        OK(betz_session_step_counts(session, d->counts + t * CHANNELS, CHANNELS, d->out[t],
                                    OUTPUTS));
    }
    betz_session_close(session);
    return NULL;
}

static void eight_sessions_share_a_model(const betz_model *model) {
    static struct decoding work[THREADS];
    pthread_t threads[THREADS];
    uint16_t *counts = random_counts(STEPS, CHANNELS, 4);
    for (int i = 0; i < THREADS; i++) {
        work[i].model = model;
        work[i].counts = counts;
        CHECK(pthread_create(&threads[i], NULL, decode, &work[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 1; i < THREADS; i++) {
        CHECK(memcmp(work[0].out, work[i].out, sizeof work[0].out) == 0);
    }
    free(counts);
}

struct acquisition {
    betz_queue *queue;
    uint64_t offered, taken;
};

// Spikes of QUEUE_TICKS ticks, in bursts that now and then find the queue full.
static void *acquire(void *argument) {
    struct acquisition *a = argument;
    uint64_t chance = 9;
    betz_spike burst[64];
    for (int64_t tick = 0; tick < QUEUE_TICKS; tick++) {
        const size_t n = next_random(&chance) % 64;
        for (size_t i = 0; i < n; i++) {
            burst[i] = (betz_spike){tick, next_random(&chance) % CHANNELS};
        }
        size_t pushed = 0;
        OK(betz_queue_push(a->queue, burst, n, &pushed));
        CHECK(pushed <= n);
        a->offered += n;
        a->taken += pushed;
        OK(betz_queue_mark(a->queue, tick));
        if (tick % 16 == 0) sched_yield();
    }
    return NULL;
}

static void a_queue_joins_two_threads(const betz_model *model) {
    struct acquisition a = {0};
    OK(betz_queue_open(256, BETZ_LATE_SPIKES_TAKE, &a.queue));
    betz_session *session = open_session(model);
    pthread_t producer;
    CHECK(pthread_create(&producer, NULL, acquire, &a) == 0);
    float out[OUTPUTS];
    betz_queue_state state;
    for (int64_t tick = 0; tick < QUEUE_TICKS; tick++) {
        for (;;) {
            OK(betz_queue_get_state(a.queue, &state, sizeof state));
            CHECK(state.tick == tick);
            if (state.newest_tick >= tick) break;
            sched_yield();
        }
        OK(betz_queue_step(a.queue, session, out, OUTPUTS));
    }
    CHECK(pthread_join(producer, NULL) == 0);
    OK(betz_queue_get_state(a.queue, &state, sizeof state));
    betz_stats stats;
    OK(betz_session_stats(session, &stats, sizeof stats));
    // Every spike is accounted for, exactly.
    CHECK(stats.ticks == QUEUE_TICKS && state.waiting == 0);
    CHECK(stats.spikes + stats.future == a.taken); // the producer may run further ahead than the queue believes
    CHECK(state.dropped == a.offered - a.taken && stats.dropped == state.dropped);
    CHECK(stats.late == 0 && stats.unknown_channel_spikes == 0);
    betz_session_close(session);
    betz_queue_close(a.queue);
}

struct control {
    betz_session *session;
    const betz_model *models[2];
    int stop;
};

static void *swap_models(void *argument) {
    struct control *c = argument;
    for (unsigned i = 0; !__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE); i++) {
        betz_swap_state state;
        OK(betz_session_swap_state(c->session, &state));
        // Requests that the session has not taken yet may be refused; nothing else may go wrong.
        betz_status status;
        switch (i % 4) {
        case 0: status = betz_session_swap_model(c->session, c->models[i / 4 % 2]); break;
        case 1: status = betz_session_swap_model_after(c->session, c->models[i / 4 % 2], 3); break;
        case 2: status = betz_session_rollback_model(c->session); break;
        default: status = betz_session_release_model(c->session); break;
        }
        CHECK(status == BETZ_OK || status == BETZ_ERROR_INVALID_ARGUMENT);
        sched_yield();
    }
    return NULL;
}

static void models_are_swapped_while_a_session_steps(const betz_model *model) {
    betz_model *next = train_model(CHANNELS, OUTPUTS, 400, 33);
    struct control control = {open_session(model), {next, model}, 0};
    uint16_t *counts = random_counts(STEPS, CHANNELS, 6);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, swap_models, &control) == 0);
    float out[OUTPUTS];
    for (int t = 0; t < 20 * STEPS; t++) {
        OK(betz_session_step_counts(control.session, counts + t % STEPS * CHANNELS, CHANNELS, out,
                                    OUTPUTS));
    }
    __atomic_store_n(&control.stop, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
    betz_stats stats;
    OK(betz_session_stats(control.session, &stats, sizeof stats));
    CHECK(stats.ticks == 20 * STEPS);
    betz_session_close(control.session);
    betz_model_free(next);
    free(counts);
}

int main(void) {
    betz_model *model = train_model(CHANNELS, OUTPUTS, 400, 1);
    eight_sessions_share_a_model(model);
    a_queue_joins_two_threads(model);
    models_are_swapped_while_a_session_steps(model);
    betz_model_free(model);
    puts("threads: ok");
    return 0;
}
