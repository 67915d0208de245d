// A step of Betz beside one of PhantomCore's decoders (github.com/yelabb/PhantomCore, 52d7d2b), on one core, in turns:
// 142 channels, counts in, 4 outputs (PhantomCore's linear decoder has 2).
//
//   scripts/perf --phantomcore PATH_OF_PHANTOMCORE    builds this program, runs it in every way, and prints the table
//
//   phantomcore 0 [MODEL...]       back to back: per step, the median of 300 parts of 1,000 steps, and the least
//   phantomcore MIB [MODEL...]     once per millisecond, after writing MIB mebibytes of other memory: quantiles of 1,600 steps
//   valgrind --tool=callgrind --cache-sim=yes --collect-atstart=no phantomcore count [MODEL...]
//                                  one dump of counters per row, named after it, of 100 steps whose data are in no cache
//
// MODEL is a model of 142 channels (benches/programs/src/bin/cost_models.rs), whose steps are measured, too. Flags of the
// compiler are those of PhantomCore's own CMakeLists. PhantomCore's decoders forget nothing between bins (linear), or have
// 4 states (Kalman); Betz filters every channel through 8 PSC filters first.
#include <algorithm>
#include <cmath>
#include <betz.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <phantomcore/kalman_decoder.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <time.h>
#include <valgrind/callgrind.h>
#include <vector>

namespace {

constexpr std::size_t channels = 142, outputs = 4, drawn = 1024, part = 1000, parts = 300, counted = 100;
constexpr betz_filter eight[] = {{0.005, 0}, {0.01, 1}, {0.02, 1}, {0.04, 1}, {0.05, 0}, {0.1, 1}, {0.2, 0}, {0.4, 0}};

void ok(betz_status status) {
    if (status == BETZ_OK) return;
    char said[512];
    betz_last_error(said, sizeof said);
    std::fprintf(stderr, "%s: %s\n", betz_status_string(status), said);
    std::exit(1);
}

struct Counts {
    std::vector<uint16_t> whole;
    std::vector<float> real;

    explicit Counts(double mean) : whole(drawn * channels), real(drawn * channels) {
        std::mt19937 random(1);
        std::poisson_distribution<int> count(mean);
        for (std::size_t i = 0; i < whole.size(); i++) real[i] = whole[i] = static_cast<uint16_t>(count(random));
    }
};

// Kinematics that follow some channels.
std::vector<float> movement(const Counts &counts) {
    std::vector<float> out(drawn * outputs);
    for (std::size_t t = 0; t < drawn; t++) {
        for (std::size_t c = 0; c < channels; c++) {
            out[t * outputs + c % outputs] += counts.real[t * channels + c] * (c % 3 == 0 ? 1.0f : -0.5f);
        }
    }
    return out;
}

struct Peer {
    std::string name;
    std::function<void(std::size_t)> step;
    std::vector<double> times;
    std::function<void()> warm = [] {};
};

// Way to measure: `count`, or the MiB of other work between two steps.
struct Way {
    bool counts;
    std::size_t mebibytes;
};

using Clock = std::chrono::steady_clock;

void wait_until(Clock::time_point moment) {
    const auto ns = moment.time_since_epoch().count();
    const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {}
}

// Thousands of steps in a row.
void back_to_back(std::vector<Peer> &peers, double mean) {
    for (std::size_t i = 0; i < parts; i++) {
        for (Peer &peer : peers) {
            const auto start = Clock::now();
            for (std::size_t t = 0; t < part; t++) peer.step((i * part + t) % drawn);
            const std::chrono::duration<double, std::micro> took = Clock::now() - start;
            peer.times.push_back(took.count() / part);
        }
    }
    for (Peer &peer : peers) {
        std::ranges::sort(peer.times);
        std::printf("%-36s %.1f spikes per channel and bin: median %.3f, least %.3f us\n", peer.name.c_str(), mean,
                    peer.times[parts / 2], peer.times[0]);
    }
}

// One step per millisecond, in turns of 24 of which the first four are left out. Between two steps, other work fills the
// caches; a warm call comes 20 us before its step.
void once_per_millisecond(std::vector<Peer> &peers, double mean, std::size_t mebibytes) {
    constexpr std::size_t rounds = 80, turn = 24, left_out = 4;
    std::vector<char> other(mebibytes << 20);
    auto next = Clock::now();
    for (std::size_t round = 0; round < rounds; round++) {
        for (Peer &peer : peers) {
            for (std::size_t i = 0; i < turn; i++) {
                next = std::max(next + std::chrono::milliseconds(1), Clock::now());
                for (std::size_t at = 0; at < other.size(); at += 64) other[at]++;
                wait_until(next);
                peer.warm();
                wait_until(next + std::chrono::microseconds(20));
                const auto start = Clock::now();
                peer.step((round * turn + i) % drawn);
                const std::chrono::duration<double, std::micro> took = Clock::now() - start;
                if (i >= left_out) peer.times.push_back(took.count());
            }
        }
    }
    for (Peer &peer : peers) {
        std::ranges::sort(peer.times);
        const auto quantile = [&](double q) { return peer.times[static_cast<std::size_t>(q * (peer.times.size() - 1))]; };
        std::printf("%-36s %.1f spikes per channel and bin, %zu MiB between: p50 %.2f, p99 %.2f us\n", peer.name.c_str(), mean,
                    mebibytes, quantile(0.5), quantile(0.99));
    }
}

// Counters of steps whose data are in no cache of less than 4 MiB. The code of each peer is cold once.
void count(std::vector<Peer> &peers, double mean) {
    std::vector<char> other(4 << 20);
    for (Peer &peer : peers) {
        CALLGRIND_ZERO_STATS;
        for (std::size_t i = 0; i < counted; i++) {
            for (std::size_t at = 0; at < other.size(); at += 64) other[at]++;
            CALLGRIND_TOGGLE_COLLECT;
            peer.step(i % drawn);
            CALLGRIND_TOGGLE_COLLECT;
        }
        char row[128];
        std::snprintf(row, sizeof row, "%s; %.1f; %zu", peer.name.c_str(), mean, counted);
        CALLGRIND_DUMP_STATS_AT(row);
    }
}

// A block for a session, in one huge page if the host has one.
void *block_of(std::size_t size) {
    constexpr std::size_t page = 2 << 20;
    void *block = std::aligned_alloc(page, (size + page - 1) / page * page);
    if (block == nullptr) std::exit(1);
    madvise(block, page, MADV_HUGEPAGE);
    std::fill_n(static_cast<char *>(block), size, 0);
    return block;
}

void run(double mean, Way way, std::span<char *const> models) {
    const Counts counts(mean);
    const std::vector<float> truth = movement(counts);

    betz_train_config config;
    ok(betz_train_config_default(&config, sizeof config));
    config.filters = eight;
    config.n_filters = std::size(eight);
    config.ridge_choice = BETZ_RIDGE_NOISE;
    config.folds = 0;
    config.channels = channels;
    config.step_seconds = 0.02;
    betz_model *model = nullptr;
    ok(betz_train_counts(&config, counts.whole.data(), truth.data(), drawn, outputs, &model));
    betz_session_config session_config;
    ok(betz_session_config_default(&session_config, sizeof session_config));
    betz_session *session = nullptr;
    ok(betz_session_open(model, &session_config, &session));
    std::size_t size = 0;
    ok(betz_session_size(model, &session_config, &size));
    betz_session *in_block = nullptr;
    void *block = block_of(size);
    ok(betz_session_open_in(model, &session_config, block, size, &in_block));

    using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::MatrixXf x = Eigen::Map<const Matrix>(counts.real.data(), drawn, channels);
    const Eigen::MatrixXf y = Eigen::Map<const Matrix>(truth.data(), drawn, outputs);
    phantomcore::LinearDecoder linear{phantomcore::ChannelConfig::mc_maze()};
    linear.train(x, y.leftCols(2));
    phantomcore::KalmanDecoder::Config latent_config, raw_config;
    raw_config.use_pca = false;
    phantomcore::KalmanDecoder latent(latent_config), raw(raw_config);
    if (!latent.calibrate(x, y).success || !raw.calibrate(x, y).success) std::exit(1);

    float sum = 0;
    const auto row = [&](std::size_t t) { return std::span(counts.real.data() + t * channels, channels); };
    std::vector<Peer> peers;
    std::vector<betz_session *> others;
    const auto step = [&](betz_session *of, std::size_t t) {
        float out[outputs];
        ok(betz_session_step_counts(of, counts.whole.data() + t * channels, channels, out, outputs));
        sum += out[0];
    };
    const bool warms = !way.counts && way.mebibytes > 0;
    peers.push_back({"Betz, 8 filters", [&](std::size_t t) { step(session, t); }, {}});
    peers.push_back({"Betz, 8 filters, in one block", [&](std::size_t t) { step(in_block, t); }, {}});
    if (warms) {
        peers.push_back({"Betz, 8 filters, warm", [&](std::size_t t) { step(session, t); }, {},
                         [&] { ok(betz_session_warm(session)); }});
        peers.push_back({"Betz, 8 filters, in one block, warm", [&](std::size_t t) { step(in_block, t); }, {},
                         [&] { ok(betz_session_warm(in_block)); }});
    }
    peers.push_back({"PhantomCore, linear", [&](std::size_t t) { sum += linear.decode(row(t)).position.x; }, {}});
    peers.push_back({"PhantomCore, Kalman of 15 latents", [&](std::size_t t) { sum += latent.decode(row(t)).position.x; }, {}});
    peers.push_back({"PhantomCore, Kalman of all channels", [&](std::size_t t) { sum += raw.decode(row(t)).position.x; }, {}});
    for (const char *path : models) {
        betz_model *other = nullptr;
        ok(betz_model_load(path, &other));
        betz_session *of = nullptr;
        ok(betz_session_open(other, &session_config, &of));
        const std::string name = std::string("Betz, ") + betz_model_kind(other) + " of " + path;
        peers.push_back({name, [&, of](std::size_t t) { step(of, t); }, {}});
        if (warms) peers.push_back({name + ", warm", [&, of](std::size_t t) { step(of, t); }, {}, [of] { ok(betz_session_warm(of)); }});
        others.push_back(of);
        betz_model_free(other);
    }
    if (way.counts) {
        count(peers, mean);
    } else if (way.mebibytes == 0) {
        back_to_back(peers, mean);
    } else {
        once_per_millisecond(peers, mean, way.mebibytes);
    }
    if (!std::isfinite(sum)) std::exit(1);
    for (betz_session *of : others) betz_session_close(of);
    betz_session_close(session);
    betz_session_close(in_block);
    std::free(block);
    betz_model_free(model);
}

} // namespace

int main(int argc, char **argv) {
    const std::string_view first = argc > 1 ? argv[1] : "0";
    const Way way{first == "count", std::strtoul(first.data(), nullptr, 10)};
    const std::span<char *const> models(argv + std::min(argc, 2), argv + argc);
    for (const double mean : {0.4, 3.0}) run(mean, way, models);
}
