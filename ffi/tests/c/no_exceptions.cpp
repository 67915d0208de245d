// betz.hpp where there are no exceptions: compiled with -fno-exceptions.
#include <betz.hpp>

#include <cstdio>
#include <cstdlib>
#include <vector>

#if BETZ_EXCEPTIONS
#error "expected a compiler without exceptions"
#endif

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);          \
            std::abort();                                                                          \
        }                                                                                          \
    } while (0)

static std::vector<float> bounds(std::size_t n, float value) {
    return std::vector<float>(n, value);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    betz::model model;
    CHECK(model.get() == nullptr && model.channels() == 0);
    CHECK(betz::model::try_load("/nonexistent", model) == BETZ_ERROR_IO);
    CHECK(betz::last_error().find("/nonexistent") != std::string::npos);
    CHECK(betz::model::try_load(argv[1], model) == BETZ_OK);
    betz::session_config config;
    // Temporaries: they are copied.
    config.clamp(bounds(model.outputs(), -1.0f), bounds(model.outputs(), 1.0f))
        .mask(std::vector<std::uint8_t>(model.channels(), 1));
    const betz::session_config copy = config;
    config = betz::session_config();
    betz::session session;
    CHECK(betz::session::try_open(model, copy, session) == BETZ_OK);
    betz::session_config uneven;
    uneven.clamp(bounds(model.outputs(), -1.0f), bounds(model.outputs() + 1, 1.0f));
    betz::session refused;
    CHECK(betz::session::try_open(model, uneven, refused) != BETZ_OK && refused.get() == nullptr);
    std::vector<float> out(model.outputs());
    const std::vector<std::uint16_t> counts(model.channels(), 3);
    for (int t = 0; t < 50; ++t) {
        CHECK(session.try_step_counts(counts, out) == BETZ_OK);
        for (const float x : out) CHECK(x >= -1.0f && x <= 1.0f);
    }
    CHECK(session.try_step_spikes({}, out) == BETZ_OK);
    betz_stats stats;
    CHECK(session.try_stats(stats) == BETZ_OK && stats.ticks == 51);
    betz::swap_config swapping;
    swapping.warm_up_steps = 0;
    CHECK(session.try_swap_model(model, swapping) == BETZ_OK);
    CHECK(session.try_step_spikes({}, out) == BETZ_OK && session.try_rollback_model() == BETZ_OK);
    betz::queue queue;
    CHECK(betz::queue::try_open(16, BETZ_LATE_SPIKES_TAKE, queue) == BETZ_OK);
    std::size_t pushed = 0;
    CHECK(queue.try_push(std::vector<betz_spike>{{0, 0}}, pushed) == BETZ_OK && pushed == 1);
    CHECK(queue.try_mark(0) == BETZ_OK && queue.try_step(session, out) == BETZ_OK);
    betz_queue_state state;
    CHECK(queue.try_state(state) == BETZ_OK && state.tick == 1);
    betz::miner_config mining(model.channels(), model.step_seconds());
    mining.watch("0 1").edges(std::vector<betz_interval>{{0.0, 0.1}});
    betz::miner miner;
    CHECK(betz::miner::try_open(mining, miner) == BETZ_OK && miner.try_flush() == BETZ_OK);
    betz::network_config networking(4, 0.02, 0.02, 2);
    betz::network network;
    CHECK(network.get() == nullptr && network.channels() == 0);
    CHECK(betz::network::try_open(networking, network) == BETZ_OK && network.channels() == 4);
    for (std::int64_t t = 0; t < 2; ++t) {
        const std::uint16_t fired = static_cast<std::uint16_t>(t);
        CHECK(network.try_push(t, std::vector<std::uint16_t>{fired, fired, 0, 0}) == BETZ_OK);
    }
    CHECK(network.try_flush() == BETZ_OK);
    std::vector<betz_edge> edges(6);
    std::vector<float> degrees(4);
    betz_network_info info;
    betz_network_stats taken;
    std::size_t kept = 0;
    CHECK(network.try_snapshot(edges, kept, info) == BETZ_OK && kept == 1 && info.edges == 1);
    CHECK(network.try_degrees(degrees) == BETZ_OK && degrees[1] == 1.0f);
    CHECK(network.try_stats(taken) == BETZ_OK && taken.windows == 1);
    std::vector<std::uint32_t> communities(4);
    CHECK(network.try_communities(communities) == BETZ_ERROR_INVALID_ARGUMENT);
    std::puts("no exceptions: ok");
    return 0;
}
