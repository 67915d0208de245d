// betz.hpp: every function of the wrapper, against what it wraps.
#include <betz.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <dlfcn.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);          \
            std::abort();                                                                          \
        }                                                                                          \
    } while (0)

template <typename Call> betz_status status_of(Call call) {
    try {
        call();
    } catch (const betz::error &e) {
        CHECK(std::strlen(e.what()) > 0);
        return e.status();
    }
    return BETZ_OK;
}

// In front of the library's: tells the list to be this much shorter, once, when its length is asked for.
static std::size_t grows_by = 0;

extern "C" betz_status betz_miner_counts(const betz_miner *miner, std::uint64_t *counts,
                                         std::size_t cap, std::size_t *len) {
    const auto real =
        reinterpret_cast<decltype(&betz_miner_counts)>(dlsym(RTLD_NEXT, "betz_miner_counts"));
    const betz_status status = real(miner, counts, cap, len);
    if (counts == nullptr && cap == 0 && status == BETZ_OK) {
        CHECK(grows_by <= *len);
        *len -= grows_by;
        grows_by = 0;
    }
    return status;
}

// A network of a few channels: by itself, at `session`, moved, refused.
static void networks(betz::session &session, std::uint32_t channels) {
    betz::network_config config(channels, 0.02, 0.02, 4);
    config.threshold = 0.9;
    config.communities = 1;
    betz::network_config none = config;
    none.window_bins = 1;
    CHECK(status_of([&] { betz::network{none}; }) == BETZ_ERROR_INVALID_ARGUMENT);
    betz::network first(config.run_on(std::vector<std::uint32_t>{}));
    betz::network network = std::move(first);
    CHECK(first.get() == nullptr && network.channels() == channels);
    CHECK(network.snapshot().edges.empty() && network.snapshot().info.end_tick == 0);
    // 0 and 1 fire together, 2 when they do not; the others never.
    for (std::int64_t t = 0; t < 8; ++t) {
        std::vector<std::uint16_t> counts(channels);
        counts[0] = counts[1] = static_cast<std::uint16_t>(t % 2);
        counts[2] = static_cast<std::uint16_t>(1 - t % 2);
        network.push(t, counts);
    }
    network.flush();
    const betz::network_window window = network.snapshot();
    CHECK(window.info.window == 4 && window.info.first_tick == 4 && window.info.end_tick == 8);
    CHECK(window.info.edges == 3 && window.info.undefined == channels - 3 && window.edges.size() == 3);
    CHECK(window.edges[0].i == 0 && window.edges[0].j == 1 && window.edges[0].r == 1.0f);
    CHECK(window.edges[2].i == 1 && window.edges[2].j == 2 && window.edges[2].r == -1.0f);
    CHECK(network.degrees()[0] == 2.0f && network.degrees()[3] == 0.0f);
    CHECK(network.communities().size() == channels && network.communities()[3] == UINT32_MAX);
    CHECK(network.stats().steps == 8 && network.stats().windows == 5 && network.stats().gaps == 0);
    CHECK(status_of([&] { network.push(8, std::vector<std::uint16_t>(channels + 1)); }) ==
          BETZ_ERROR_MISMATCH);
    std::vector<float> out(2);
    session.attach(network, 8);
    session.step_spikes(std::vector<std::uint32_t>{0, 1}, out);
    CHECK(status_of([&] { network.push(9, std::vector<std::uint16_t>(channels)); }) ==
          BETZ_ERROR_INVALID_ARGUMENT);
    session.detach_network();
    network.flush();
    CHECK(network.stats().steps == 9);
    CHECK(status_of([&] { session.detach_network(); }) == BETZ_ERROR_INVALID_ARGUMENT);
    betz::network_config plain = config;
    plain.communities = 0;
    CHECK(status_of([&] { static_cast<void>(betz::network(plain).communities()); }) ==
          BETZ_ERROR_INVALID_ARGUMENT);
}

// A trainer beside a session of a model that retains its sums: opened, moved, told, refused.
static void trainers(betz::train_config config, const std::vector<std::uint16_t> &counts,
                     const std::vector<float> &behavior, std::size_t outputs) {
    config.retain_bytes = 1 << 20;
    const betz::model model = betz::model::train_counts(config, counts, behavior, outputs);
    betz::session session(model);
    betz::trainer_config given;
    given.batch = 1;
    CHECK(status_of([&] { betz::trainer{session, model, given}; }) == BETZ_ERROR_INVALID_ARGUMENT);
    {
        betz::unlike unlike(session, model, 1.0);
        CHECK(unlike.state().tick == 0);
        CHECK(status_of([&] { betz::unlike{session, model, -1.0}; }) == BETZ_ERROR_INVALID_ARGUMENT);
    }
    betz::trainer first(session, model);
    betz::trainer trainer = std::move(first);
    CHECK(first.get() == nullptr && trainer.get() != nullptr);
    std::vector<float> out(outputs);
    CHECK(status_of([&] { trainer.label(out); }) == BETZ_ERROR_INVALID_ARGUMENT);
    session.step_spikes(std::vector<std::uint32_t>{0, 1}, out);
    trainer.label(out);
    CHECK(status_of([&] { trainer.label(std::vector<float>(outputs + 1)); }) == BETZ_ERROR_MISMATCH);
    trainer.end_trial();
    trainer.request();
    trainer.set_half_life(30.0);
    CHECK(status_of([&] { trainer.set_half_life(-1.0); }) == BETZ_ERROR_INVALID_ARGUMENT);
    CHECK(!trainer.apply(session) && trainer.take().get() == nullptr && trainer.ill_channels().empty());
    while (trainer.state().trials == 0) {
    }
    char path[] = "/tmp/betz-wrapper-XXXXXX";
    CHECK(mkstemp(path) >= 0);
    trainer.save(path);
    trainer.load(path);
    CHECK(trainer.state().trials == 1 && trainer.apply(session));
    std::remove(path);
    CHECK(status_of([&] { trainer.load(path); }) == BETZ_ERROR_IO);
}

// Functions of a session besides its plain steps, against those of C.
static void sessions(const betz::model &model, const std::vector<std::uint16_t> &counts) {
    const std::size_t channels = model.channels(), outputs = model.outputs();
    CHECK(std::string(betz::version()) == betz_version() && betz::abi_version() == BETZ_ABI_VERSION);
    CHECK(std::strstr(betz::version_full(), betz::version()) != nullptr);
    CHECK(betz::has_feature("train") && !betz::has_feature("teleportation"));
    CHECK(std::string(betz::status_string(BETZ_OK)) == betz_status_string(BETZ_OK));
    CHECK(std::string(model.kind()) == "linear" && model.classes() == 0 && model.fingerprint() != 0);
    CHECK(status_of([&] { static_cast<void>(model.class_name(0)); }) == BETZ_ERROR_INVALID_ARGUMENT);
    betz::session_config config;
    config.health = 1;
    betz::session one(model, config), other(model, config);
    std::vector<float> a(outputs), b(outputs);
    std::vector<std::uint8_t> bytes(channels);
    std::vector<float> floats(channels);
    for (std::size_t c = 0; c < channels; ++c) {
        bytes[c] = static_cast<std::uint8_t>(counts[c]);
        floats[c] = counts[c];
    }
    const betz::span<const std::uint16_t> now(counts.data(), channels);
    one.step_counts(now, a);
    other.step_counts(bytes, b);
    CHECK(a == b);
    one.step_counts(now, a);
    other.step_counts(floats, b);
    CHECK(a == b);
    one.step_values(floats, a);
    other.step_counts(floats, b);
    CHECK(a == b);
    one.skip(3);
    for (int i = 0; i < 3; ++i) other.step_spikes({}, b);
    one.step_stale(a);
    CHECK((one.status() & BETZ_STEP_STALE) != 0 && (other.status() & BETZ_STEP_STALE) == 0);
    CHECK(one.health().ticks == 4 && one.health().skipped == 3 && one.estimate_time().tick == 6);
    CHECK(one.events().empty());
    CHECK(status_of([&] { static_cast<void>(one.classes()); }) == BETZ_ERROR_INSUFFICIENT_DATA);
    one.set_clamp(std::vector<float>(outputs, -0.1f), std::vector<float>(outputs, 0.1f));
    CHECK(one.try_set_clamp(std::vector<float>(1), {}) == BETZ_ERROR_MISMATCH);
    one.step_counts(now, a);
    CHECK(std::fabs(a[0]) <= 0.1f && std::fabs(a[1]) <= 0.1f);
    // A step takes one request.
    one.set_clamp({}, {});
    one.step_counts(now, a);
    one.set_mask(std::vector<std::uint8_t>(channels, 0));
    one.step_counts(now, a);
    one.set_mask({});
    one.step_counts(now, a);
    CHECK(one.swap_progress().state == BETZ_SWAP_IDLE && one.swap_progress().running == model.fingerprint());
    one.request_checkpoint();
    one.step_counts(now, a);
    other.restore(one.take_checkpoint());
    one.step_counts(now, a);
    // The checkpoint was made before the first of these two steps.
    other.step_counts(now, b);
    other.step_counts(now, b);
    CHECK(a == b && other.health().ticks == one.health().ticks);
    std::size_t size = 0;
    CHECK(betz::session::try_size(model, config, size) == BETZ_OK && size % 4096 == 0);
    void *block = nullptr;
    CHECK(posix_memalign(&block, 4096, size) == 0);
    {
        betz::session within;
        CHECK(betz::session::try_open_in(model, config, block, size, within) == BETZ_OK);
        betz::session fresh(model, config);
        within.step_counts(now, a);
        fresh.step_counts(now, b);
        CHECK(a == b);
    }
    std::free(block);

    betz::queue_config wide;
    wide.capacity = 32;
    betz::queue queue(wide);
    queue.set_clock(0, 0, 600.0);
    CHECK(queue.push(std::vector<betz_sampled_spike>{{10, 1}, {700, 2}}) == 2);
    queue.mark_sample(1200);
    queue.step(one, a);
    CHECK(queue.state().waiting == 1 && queue.clear() == 1);
    queue.resync(one, 50, BETZ_RESYNC_RESET);
    CHECK(queue.state().tick == 50);

    CHECK(status_of([&] { betz::sorter{"/nonexistent"}; }) == BETZ_ERROR_IO);
    betz::sorter none;
    std::size_t taken = 0, n = 0;
    CHECK(none.channels() == 0 && none.try_push({}, {}, taken, n) == BETZ_ERROR_MISMATCH);
    CHECK(status_of([&] { betz::clusterless{"/nonexistent"}; }) == BETZ_ERROR_IO);
    betz::clusterless places{"examples/data/tetrodes.betz", 16};
    CHECK(places.channels() == 2 && places.features() == 2 && places.outputs() == 1);
    CHECK(places.channel_name(1) == "t1" && places.output_name(0) == "x");
    CHECK(status_of([&] { static_cast<void>(places.channel_name(2)); }) == BETZ_ERROR_INVALID_ARGUMENT);
    const std::array<std::uint32_t, 2> groups{0, 7};
    const std::array<float, 4> amplitudes{160.0f, 80.0f, 160.0f, 80.0f};
    std::array<float, 1> place{};
    places.step(groups, amplitudes, place);
    CHECK(place[0] > 0.0f && place[0] < 100.0f && places.left_out() == 1);
    CHECK(places.posterior().size() == places.cells() && places.cell_values().size() == places.cells());
    CHECK(places.try_step(groups, {}, place) == BETZ_ERROR_MISMATCH);
    places.reset();
    CHECK(places.posterior()[0] == 0.0);
#if defined(__cpp_lib_expected)
    const auto absent = betz::expect<betz::model>(
        [](betz::model &out) { return betz::model::try_load("/nonexistent", out); });
    CHECK(!absent && absent.error().status == BETZ_ERROR_IO);
    CHECK(absent.error().message.find("/nonexistent") != std::string::npos);
    auto opened = betz::expect<betz::session>(
        [&](betz::session &out) { return betz::session::try_open(model, config, out); });
    CHECK(opened && opened->get() != nullptr);
#endif
#if defined(__cpp_lib_span)
    static_assert(std::is_same_v<betz::span<float>, std::span<float>>);
#endif
}

int main() {
    constexpr std::size_t channels = 6, outputs = 2, steps = 300;
    std::vector<std::uint16_t> counts(steps * channels);
    std::vector<float> behavior(steps * outputs);
    std::vector<betz_spike> spikes;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        counts[i] = static_cast<std::uint16_t>(i * i % 7 % 3);
        for (int k = 0; k < counts[i]; ++k) {
            spikes.push_back({static_cast<std::int64_t>(i / channels),
                              static_cast<std::uint32_t>(i % channels)});
        }
    }
    for (std::size_t i = 0; i < behavior.size(); ++i) {
        behavior[i] = std::sin(0.05f * static_cast<float>(i));
    }

    betz::train_config config(channels, 0.02);
    const std::array<betz_filter, 2> bank{{{0.05, 0}, {0.2, 1}}};
    const betz_segment trials[] = {{0, 150}, {150, 300}};
    config.bank(bank).trials(trials);
    config.folds = 2;
    config.ridge_choice = BETZ_RIDGE_NOISE;
    const betz::model a = betz::model::train_counts(config, counts, behavior, outputs);
    const betz::model b = betz::model::train(config, spikes, behavior, outputs);
    // The same spikes, the same model, to rounding.
    CHECK(a.save_bytes().size() == b.save_bytes().size());
    CHECK(std::abs(a.score(0).r2 - b.score(0).r2) <= 1e-5);
    CHECK(a.channels() == channels && a.outputs() == outputs && a.step_seconds() == 0.02);
    CHECK(a.delay_steps() == 0 && a.channel_name(5) == "ch5" && a.output_name(1) == "x1");
    CHECK(a.score(0).r2 <= 1.0 && a.score(1).rmse > 0.0);
    CHECK(a.output_unit(0).empty() && a.channel_used(0));
    CHECK(status_of([&] { static_cast<void>(a.output_name(outputs)); }) == BETZ_ERROR_INVALID_ARGUMENT);
    CHECK(status_of([&] { static_cast<void>(betz::model::train_counts(config, counts, behavior, 7)); }) ==
          BETZ_ERROR_MISMATCH);
    CHECK(status_of([&] { static_cast<void>(betz::model::load("/nonexistent")); }) == BETZ_ERROR_IO);
    CHECK(betz::last_error().find("/nonexistent") != std::string::npos);

    const std::vector<std::uint8_t> bytes = a.save_bytes();
    const betz::model c = betz::model::load_bytes(bytes);
    const betz::model shared = c; // copies share
    CHECK(shared.get() == c.get());

    const float low[] = {-0.5f, -0.5f}, high[] = {0.5f, 0.5f};
    const std::vector<std::uint8_t> mask(channels, 1);
    betz::session_config clamped;
    clamped.clamp(low, high).mask(mask);
    betz::session session(shared, clamped), plain(a);
    float out[outputs], reference[outputs];
    for (std::size_t t = 0; t < steps; ++t) {
        const betz::span<const std::uint16_t> now(&counts[t * channels], channels);
        session.step_counts(now, out);
        plain.step_counts(now, reference);
        for (std::size_t o = 0; o < outputs; ++o) {
            CHECK(out[o] == std::fmin(0.5f, std::fmax(-0.5f, reference[o])));
        }
    }
    CHECK(session.stats().ticks == steps);
    CHECK(status_of([&] { session.variances(out); }) == BETZ_ERROR_INSUFFICIENT_DATA);
    const std::vector<std::uint8_t> state = session.checkpoint();
    session.reset();
    session.restore(state);
    CHECK(session.checkpoint() == state);
    session.clear_stats();
    CHECK(session.stats().ticks == 0);
    session.swap_model_after(b, 0);
    CHECK(session.swap_state() == BETZ_SWAP_PENDING);
    session.step_spikes(std::vector<std::uint32_t>{1, 2, 2}, out);
    CHECK(session.swap_state() == BETZ_SWAP_TAKEN_OVER);
    session.rollback_model();
    session.step_spikes({}, out);
    session.swap_model(a);
    session.step_spikes({}, out);
    session.release_model();
    std::vector<float> wrong(outputs + 1);
    CHECK(status_of([&] { session.step_spikes({}, wrong); }) == BETZ_ERROR_MISMATCH);

    // The arguments of a configuration may be temporaries, and the configuration a copy.
    betz::session_config temporary;
    temporary.clamp(std::vector<float>(outputs, -0.25f), std::vector<float>(outputs, 0.25f));
    const betz::session_config copied = temporary;
    temporary = betz::session_config();
    CHECK(copied.clamp_low[1] == -0.25f && copied.clamp_high[0] == 0.25f);
    betz::session narrow(a, copied);
    narrow.step_counts(betz::span<const std::uint16_t>(counts.data(), channels), out);
    CHECK(std::fabs(out[0]) <= 0.25f && std::fabs(out[1]) <= 0.25f);
    const betz::train_config again = betz::train_config(channels, 0.02).bank(std::vector<betz_filter>{{0.05, 0}});
    CHECK(again.n_filters == 1 && again.filters[0].tau_seconds == 0.05);

    betz::session_config slow;
    slow.limit_slew(std::vector<float>(outputs, 0.01f));
    betz::session limited(a, betz::session_config(slow));
    for (std::size_t t = 0; t < 20; ++t) {
        float before[outputs] = {out[0], out[1]};
        limited.step_counts(betz::span<const std::uint16_t>(&counts[t * channels], channels), out);
        CHECK(t == 0 || std::fabs(out[0] - before[0]) <= 0.010001f);
    }

    betz::session moved = std::move(session);
    CHECK(session.get() == nullptr && moved.get() != nullptr);
    betz::queue queue(16, BETZ_LATE_SPIKES_DISCARD);
    queue.set_tick(3);
    CHECK(queue.push(std::vector<betz_spike>{{3, 0}, {4, 1}}) == 2);
    queue.mark(4);
    queue.step(moved, out);
    CHECK(queue.state().tick == 4 && queue.state().waiting == 1);

    const betz_interval near[] = {{0.0, 0.1}};
    const std::uint32_t pair[] = {1, 0};
    const betz_episode pattern[] = {{pair, near, 2}};
    betz::miner_config mining(channels, 0.02);
    mining.watch("zero one").watch("two").watch_patterns(pattern).edges(near);
    CHECK(status_of([&] { betz::miner{mining}; }) == BETZ_ERROR_INVALID_ARGUMENT);
    CHECK(status_of([&] { betz::miner{betz::miner_config(mining).name({"zero"})}; }) ==
          BETZ_ERROR_MISMATCH);
    mining.name({"zero", "one", "two", "three", "four", "five"});
    betz::miner first(mining);
    betz::miner miner = std::move(first);
    CHECK(miner.push(std::vector<betz_spike>{{0, 0}, {1, 1}, {3, 0}, {3, 2}}) == 4);
    CHECK(miner.push_seconds(std::vector<double>{1.0, 1.02}, std::vector<std::uint32_t>{0, 1}) == 2);
    CHECK(status_of([&] { miner.push_seconds(std::vector<double>{1.0}, {}); }) ==
          BETZ_ERROR_MISMATCH);
    miner.flush();
    CHECK((miner.counts() == std::vector<std::uint64_t>{2, 1, 1}));
    const betz::watch_list watched = miner.watch_list();
    CHECK(watched.size() == 3 && watched[0].count == 2 && watched.last_failure().empty());
    CHECK(std::string(watched[2].text) == "one -(0,0.1]-> zero");
    CHECK(status_of([&] { static_cast<void>(watched[3]); }) == BETZ_ERROR_INVALID_ARGUMENT);
    moved.attach(miner, 100);
    moved.step_spikes(std::vector<std::uint32_t>{2}, out);
    CHECK(status_of([&] { miner.push({}); }) == BETZ_ERROR_INVALID_ARGUMENT);
    moved.detach_miner();
    miner.flush();
    CHECK(miner.counts()[1] == 2 && miner.stats().newest_tick == 100);
    CHECK(status_of([&] { moved.detach_miner(); }) == BETZ_ERROR_INVALID_ARGUMENT);
    // A list that is renewed between its length and its counts: none is made up, none is missing.
    grows_by = 3;
    CHECK(miner.counts().empty() && grows_by == 0);
    grows_by = 1;
    CHECK((miner.counts() == std::vector<std::uint64_t>{2, 2, 1}) && grows_by == 0);
    betz::miner following(betz::miner_config(channels, 0.02).edges(near).window(10.0, 5));
    CHECK(following.counts().empty() && following.watch_list().size() == 0);

    sessions(a, counts);
    networks(moved, channels);
    trainers(config, counts, behavior, outputs);

    char path[] = "/tmp/betz-wrapper-XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0);
    a.save(path);
    CHECK(betz::model::load(path).save_bytes() == bytes);
    std::remove(path);
    std::puts("wrapper: ok");
    return 0;
}
