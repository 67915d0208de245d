// A step of Betz beside one of PhantomCore's decoders (github.com/yelabb/PhantomCore, 52d7d2b), on one core, in turns:
// 142 channels, counts in, 4 outputs (PhantomCore's linear decoder has 2).
//
//   scripts/install.sh --prefix /tmp/betz
//   p=PATH_OF_PHANTOMCORE
//   g++ -std=c++23 -O3 -march=native -ffast-math benches/peers/phantomcore.cpp "$p"/src/kalman_decoder.cpp \
//       "$p"/src/{dimensionality_reduction,regularization,simd_utils,latency_tracker}.cpp -I"$p"/include \
//       -I/usr/include/eigen3 -I/tmp/betz/include -L/tmp/betz/lib -lbetz -Wl,-rpath,/tmp/betz/lib -o /tmp/phantomcore
//   chrt -f 50 taskset -c 1 /tmp/phantomcore
//
// The flags are those of PhantomCore's own CMakeLists. Each line: microseconds per step, the median of 300 parts of 1,000
// steps, and the least. PhantomCore's decoders forget nothing between bins (linear), or have 4 states (Kalman); Betz
// filters every channel through 8 PSC filters first.
#include <algorithm>
#include <betz.h>
#include <chrono>
#include <cstdio>
#include <functional>
#include <phantomcore/kalman_decoder.hpp>
#include <random>
#include <vector>

namespace {

constexpr std::size_t channels = 142, outputs = 4, drawn = 1024, part = 1000, parts = 300;
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
    const char *name;
    std::function<void(std::size_t)> step;
    std::vector<double> times;
};

void run(double mean) {
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
    peers.push_back({"Betz, 8 filters", [&](std::size_t t) {
                         float out[outputs];
                         ok(betz_session_step_counts(session, counts.whole.data() + t * channels, channels, out, outputs));
                         sum += out[0];
                     }, {}});
    peers.push_back({"PhantomCore, linear", [&](std::size_t t) { sum += linear.decode(row(t)).position.x; }, {}});
    peers.push_back({"PhantomCore, Kalman of 15 latents", [&](std::size_t t) { sum += latent.decode(row(t)).position.x; }, {}});
    peers.push_back({"PhantomCore, Kalman of all channels", [&](std::size_t t) { sum += raw.decode(row(t)).position.x; }, {}});
    for (std::size_t i = 0; i < parts; i++) {
        for (Peer &peer : peers) {
            const auto start = std::chrono::steady_clock::now();
            for (std::size_t t = 0; t < part; t++) peer.step((i * part + t) % drawn);
            const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
            peer.times.push_back(took.count() / part);
        }
    }
    for (Peer &peer : peers) {
        std::ranges::sort(peer.times);
        std::printf("%-36s %.1f spikes a channel and bin: median %.3f, least %.3f us\n", peer.name, mean,
                    peer.times[parts / 2], peer.times[0]);
    }
    if (!std::isfinite(sum)) std::exit(1);
    betz_session_close(session);
    betz_model_free(model);
}

} // namespace

int main() {
    run(0.4);
    run(3.0);
}
