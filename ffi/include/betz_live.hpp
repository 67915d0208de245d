// betz_live.hpp: betz_live.h for C++17, as betz.hpp wraps betz.h: a whole session, and recalibration without labels.
//
//   betz::live live("session.toml");
//   live.start();
//   std::vector<float> values(live.outputs());
//   betz_live_step step;
//   for (;;) {
//       const std::uint32_t reading = live.next(1000000, step, values);
//       if (reading == BETZ_LIVE_OVER) break;
//       if (reading == BETZ_LIVE_STEP) { ... }
//   }
//   live.stop();
#ifndef BETZ_LIVE_HPP
#define BETZ_LIVE_HPP

#include "betz.hpp"
#include "betz_live.h"

namespace betz {

namespace detail {
struct live_deleter {
    void operator()(betz_live *live) const noexcept { betz_live_close(live); }
    void operator()(betz_recalibrator *recalibrator) const noexcept {
        betz_recalibrator_close(recalibrator);
    }
};
} // namespace detail

// betz_live_config with its defaults. A receiver must not throw: that ends the process.
struct live_config : betz_live_config {
    live_config() noexcept : betz_live_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_live_config_default(this, sizeof(betz_live_config)) == BETZ_OK);
    }
};

// A whole session: source, front end, decoder, outputs and recording. Can be moved, but not copied.
class live {
public:
    // An empty object, for try_open.
    live() noexcept = default;

    [[nodiscard]] static betz_status try_open(const char *plan, const betz_live_config &config,
                                              live &out) noexcept {
        betz_live *handle = nullptr;
        const betz_status status = betz_live_open(plan, &config, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    // Runs a recorded session again and compares every output.
    [[nodiscard]] static betz_status try_replay(const char *folder, betz_live_replayed &out) noexcept {
        return betz_live_replay(folder, &out, sizeof out);
    }

    [[nodiscard]] betz_status try_start() noexcept { return betz_live_start(get()); }
    [[nodiscard]] betz_status try_end() noexcept { return betz_live_end(get()); }
    [[nodiscard]] betz_status try_stop() noexcept { return betz_live_stop(get()); }

    // Adds the true outputs of a step, or of the one that is open (BETZ_LIVE_OPEN_STEP).
    [[nodiscard]] betz_status try_label(std::uint64_t step, span<const float> values) noexcept {
        return betz_live_label(get(), step, values.data(), values.size());
    }

    [[nodiscard]] betz_status try_mark(const char *text) noexcept { return betz_live_mark(get(), text); }

    // BETZ_TRIAL_BEGIN, BETZ_TRIAL_END or BETZ_TRIAL_REJECT.
    [[nodiscard]] betz_status try_trial(std::uint32_t trial) noexcept {
        return betz_live_trial(get(), trial);
    }

    [[nodiscard]] betz_status try_swap(const model &model) noexcept {
        return betz_live_swap(get(), model.get());
    }

    [[nodiscard]] betz_status try_roll_back() noexcept { return betz_live_roll_back(get()); }

    // `accepted`: true if a model waited for this call.
    [[nodiscard]] betz_status try_accept(bool &accepted) noexcept {
        std::uint32_t given = 0;
        const betz_status status = betz_live_accept(get(), &given);
        accepted = given != 0;
        return status;
    }

    // Voltage (rows, channels), row-major.
    [[nodiscard]] betz_status try_push(std::uint64_t first, span<const std::int16_t> samples,
                                       std::size_t channels) noexcept {
        if (channels == 0 || samples.size() % channels != 0) return BETZ_ERROR_MISMATCH;
        return betz_live_push(get(), first, samples.size() / channels, channels, samples.data());
    }

    // Features (rows, channels), row-major.
    [[nodiscard]] betz_status try_push_features(std::uint64_t first, span<const float> features,
                                                std::size_t channels) noexcept {
        if (channels == 0 || features.size() % channels != 0) return BETZ_ERROR_MISMATCH;
        return betz_live_push_features(get(), first, features.size() / channels, channels,
                                       features.data());
    }

    // The newest step and its outputs.
    [[nodiscard]] betz_status try_latest(betz_live_step &step, span<float> values) const noexcept {
        return betz_live_latest(get(), &step, sizeof step, values.data(), values.size());
    }

    // `reading`: BETZ_LIVE_NOTHING, BETZ_LIVE_STEP or BETZ_LIVE_OVER.
    [[nodiscard]] betz_status try_next(std::uint64_t patience_us, std::uint32_t &reading,
                                       betz_live_step &step, span<float> values) noexcept {
        return betz_live_next(get(), patience_us, &reading, &step, sizeof step, values.data(),
                              values.size());
    }

    [[nodiscard]] betz_status try_health(betz_live_health &out) const noexcept {
        return betz_live_health_read(get(), &out, sizeof out);
    }

    // `len`: length of the path of the recording; 0 if nothing is recorded.
    [[nodiscard]] betz_status try_folder(span<char> out, std::size_t &len) const noexcept {
        return betz_live_folder(get(), out.data(), out.size(), &len);
    }

    std::size_t outputs() const noexcept { return betz_live_outputs(get()); }
    double step_seconds() const noexcept { return betz_live_step_seconds(get()); }
    // Number of steps that were overwritten before next() gave them.
    std::uint64_t missed() const noexcept { return betz_live_missed(get()); }

#if BETZ_EXCEPTIONS
    explicit live(const std::string &plan, const betz_live_config &config = live_config()) {
        check(try_open(plan.c_str(), config, *this));
    }

    [[nodiscard]] static betz_live_replayed replay(const std::string &folder) {
        betz_live_replayed replayed;
        check(try_replay(folder.c_str(), replayed));
        return replayed;
    }

    void start() { check(try_start()); }
    void end() { check(try_end()); }
    void stop() { check(try_stop()); }
    void label(std::uint64_t step, span<const float> values) { check(try_label(step, values)); }
    void mark(const std::string &text) { check(try_mark(text.c_str())); }
    void trial(std::uint32_t trial) { check(try_trial(trial)); }
    void swap(const model &model) { check(try_swap(model)); }
    void roll_back() { check(try_roll_back()); }

    // True if a model waited for this call.
    bool accept() {
        bool accepted = false;
        check(try_accept(accepted));
        return accepted;
    }

    void push(std::uint64_t first, span<const std::int16_t> samples, std::size_t channels) {
        check(try_push(first, samples, channels));
    }

    void push_features(std::uint64_t first, span<const float> features, std::size_t channels) {
        check(try_push_features(first, features, channels));
    }

    void latest(betz_live_step &step, span<float> values) const { check(try_latest(step, values)); }

    std::uint32_t next(std::uint64_t patience_us, betz_live_step &step, span<float> values) {
        std::uint32_t reading = BETZ_LIVE_NOTHING;
        check(try_next(patience_us, reading, step, values));
        return reading;
    }

    [[nodiscard]] betz_live_health health() const {
        betz_live_health health;
        check(try_health(health));
        return health;
    }

    // Folder of the recording; empty if nothing is recorded.
    [[nodiscard]] std::string folder() const {
        std::size_t len = 0;
        check(try_folder(span<char>(), len));
        std::vector<char> text(len + 1);
        check(try_folder(text, len));
        return std::string(text.data(), len);
    }
#endif

    betz_live *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_live, detail::live_deleter> handle_;
};

// Compares a session with its model's training and suggests recalibrations without labels. Can be moved, but not
// copied.
class recalibrator {
public:
    // An empty object, for try_open.
    recalibrator() noexcept = default;

    [[nodiscard]] static betz_status try_open(session &session, const model &model,
                                              double window_seconds, recalibrator &out) noexcept {
        betz_recalibrator *handle = nullptr;
        const betz_status status =
            betz_recalibrator_open(session.get(), model.get(), window_seconds, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    [[nodiscard]] betz_status try_state(betz_recalibration &out) const noexcept {
        return betz_recalibrator_get_state(get(), &out, sizeof out);
    }

    // `len`: length of the reason why nothing is suggested; 0 if there is none.
    [[nodiscard]] betz_status try_reason(span<char> out, std::size_t &len) const noexcept {
        return betz_recalibrator_reason(get(), out.data(), out.size(), &len);
    }

    // One gain per channel.
    [[nodiscard]] betz_status try_gains(span<double> out) const noexcept {
        return betz_recalibrator_gains(get(), out.data(), out.size());
    }

    // `change`: BETZ_RECALIBRATION_*. `session` is the one that this was opened for.
    [[nodiscard]] betz_status try_apply(session &session, std::uint32_t &change) noexcept {
        return betz_recalibrator_apply(get(), session.get(), &change);
    }

    // `was_applied`: true if a recalibrated model ran.
    [[nodiscard]] betz_status try_roll_back(session &session, bool &was_applied) noexcept {
        std::uint32_t was = 0;
        const betz_status status = betz_recalibrator_roll_back(get(), session.get(), &was);
        was_applied = was != 0;
        return status;
    }

#if BETZ_EXCEPTIONS
    // A window of 0 s stands for the default.
    recalibrator(session &session, const model &model, double window_seconds = 0.0) {
        check(try_open(session, model, window_seconds, *this));
    }

    [[nodiscard]] betz_recalibration state() const {
        betz_recalibration state;
        check(try_state(state));
        return state;
    }

    // The reason why nothing is suggested; empty if there is none.
    [[nodiscard]] std::string reason() const {
        for (;;) {
            // The reason may change between the two calls.
            std::size_t len = 0;
            check(try_reason(span<char>(), len));
            std::vector<char> text(len + 1);
            const betz_status status = try_reason(text, len);
            if (status != BETZ_ERROR_MISMATCH) {
                check(status);
                return std::string(text.data(), len);
            }
        }
    }

    void gains(span<double> out) const { check(try_gains(out)); }

    std::uint32_t apply(session &session) {
        std::uint32_t change = BETZ_RECALIBRATION_NONE;
        check(try_apply(session, change));
        return change;
    }

    // True if a recalibrated model ran.
    bool roll_back(session &session) {
        bool was_applied = false;
        check(try_roll_back(session, was_applied));
        return was_applied;
    }
#endif

    betz_recalibrator *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_recalibrator, detail::live_deleter> handle_;
};

} // namespace betz

#endif
