// betz.hpp: betz.h for C++17, with handles that free themselves, views instead of pointer and length, and
// exceptions instead of statuses. betz.h documents everything else.
//
//   betz::model model = betz::model::load("arm.betz");
//   betz::session session(model);
//   std::vector<float> out(model.outputs());
//   session.step_counts(counts, out);         // counts: any contiguous range of uint16_t
//
// Without exceptions, by choice or with -fno-exceptions: calls in a loop and calls that open a handle have a
// form that returns the status and throws nothing.
//
//   betz::model model;
//   if (betz::model::try_load("arm.betz", model) != BETZ_OK) { /* betz_last_error() */ }
//   betz::session session;
//   if (betz::session::try_open(model, betz::session_config(), session) != BETZ_OK) { ... }
//   if (session.try_step_counts(counts, out) != BETZ_OK) { ... }
//
// The throwing forms do not exist with -fno-exceptions. In C++23 every try_ form with a result also gives a std::expected:
//
//   auto model = betz::expect<betz::model>(
//       [](betz::model &out) { return betz::model::try_load("arm.betz", out); });
//   if (!model) { /* model.error().status, model.error().message */ }
//
// betz_live.hpp, betz_page.hpp and betz_spiking.hpp wrap the parts "live", "page" and "spiking" in the same way.
//
// Real time: step, push and mark throw only when the call is refused, but a thrown exception allocates. Call
// the try_ form if even that must not happen.
#ifndef BETZ_HPP
#define BETZ_HPP

#include "betz.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if !defined(BETZ_EXCEPTIONS)
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define BETZ_EXCEPTIONS 1
#else
#define BETZ_EXCEPTIONS 0
#endif
#endif

#if BETZ_EXCEPTIONS
#include <stdexcept>
#endif

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif
#if defined(__cpp_lib_expected)
#include <expected>
#endif

namespace betz {

#if BETZ_EXCEPTIONS
// An exception for a refused call, with its status and this thread's message.
class error : public std::runtime_error {
public:
    error(betz_status status, const std::string &message)
        : std::runtime_error(message), status_(status) {}

    betz_status status() const noexcept { return status_; }

private:
    betz_status status_;
};
#endif

// This thread's last message.
inline std::string last_error() {
    std::string text(betz_last_error(nullptr, 0) + 1, '\0');
    betz_last_error(&text[0], text.size());
    text.pop_back();
    return text;
}

#if BETZ_EXCEPTIONS
// Throws unless `status` is BETZ_OK.
inline void check(betz_status status) {
    if (status != BETZ_OK) {
        throw error(status, last_error());
    }
}
#endif

#if defined(__cpp_lib_expected)
// Reason for a refused call, with this thread's message.
struct failure {
    betz_status status;
    std::string message;
};

// The result that `call` writes to its argument, or the reason why it has none.
template <typename T, typename Call> [[nodiscard]] std::expected<T, failure> expect(Call &&call) {
    T out{};
    const betz_status status = call(out);
    if (status == BETZ_OK) {
        return out;
    }
    return std::unexpected(failure{status, last_error()});
}
#endif

// The version of the library that runs, such as "0.1.0"; `full` also names build and parts.
inline const char *version() noexcept { return betz_version(); }
inline const char *version_full() noexcept { return betz_version_full(); }

// ABI version of the library that runs; compare it with BETZ_ABI_VERSION.
inline std::uint32_t abi_version() noexcept { return betz_abi_version(); }

// True if the library has the part or feature `name`.
inline bool has_feature(const char *name) noexcept { return betz_has_feature(name) != 0; }

inline const char *status_string(betz_status status) noexcept { return betz_status_string(status); }

// Makes Betz allocate with these functions, before any other call.
[[nodiscard]] inline betz_status try_set_allocator(const betz_allocator &allocator) noexcept {
    return betz_set_allocator(&allocator);
}

// Receives reports of failures and panics.
[[nodiscard]] inline betz_status try_set_log(const betz_log &log) noexcept {
    return betz_set_log(&log);
}

#if defined(__cpp_lib_span)
// A view of contiguous elements: std::span.
template <typename T> using span = std::span<T>;
#else
// A view of contiguous elements, like C++20's std::span: made from a pointer and a length, or from anything
// with data() and size(). Does not own its elements.
template <typename T> class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    template <typename Range,
              typename = std::enable_if_t<std::is_convertible<
                  std::remove_pointer_t<decltype(std::declval<Range &>().data())> (*)[],
                  T (*)[]>::value>>
    constexpr span(Range &&range) noexcept(noexcept(range.data()))
        : data_(range.data()), size_(range.size()) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

namespace detail {
struct deleter {
    void operator()(betz_model *model) const noexcept { betz_model_free(model); }
    void operator()(betz_session *session) const noexcept { betz_session_close(session); }
    void operator()(betz_queue *queue) const noexcept { betz_queue_close(queue); }
    void operator()(betz_miner *miner) const noexcept { betz_miner_close(miner); }
    void operator()(betz_watch_list *list) const noexcept { betz_watch_list_free(list); }
    void operator()(betz_network *network) const noexcept { betz_network_close(network); }
    void operator()(betz_trainer *trainer) const noexcept { betz_trainer_close(trainer); }
    void operator()(betz_unlike *unlike) const noexcept { betz_unlike_close(unlike); }
    void operator()(betz_sorter *sorter) const noexcept { betz_sorter_close(sorter); }
    void operator()(betz_clusterless *decoder) const noexcept { betz_clusterless_close(decoder); }
};

#if BETZ_EXCEPTIONS
inline std::string text(const char *text) {
    if (text == nullptr) {
        throw error(BETZ_ERROR_INVALID_ARGUMENT, "expected a channel or output of the model");
    }
    return text;
}
#endif
} // namespace detail

// betz_train_config with its defaults. Bank and trials are copied; set other fields as in C and keep the data
// they point to alive until training is done.
struct train_config : betz_train_config {
    train_config(std::uint32_t channel_count, double step) : betz_train_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_train_config_default(this, sizeof(betz_train_config)) == BETZ_OK);
        channels = channel_count;
        step_seconds = step;
    }

    train_config(const train_config &other)
        : betz_train_config(other), bank_(other.bank_), sampled_(other.sampled_), trials_(other.trials_) {
        point();
    }

    train_config &operator=(const train_config &other) {
        betz_train_config::operator=(other);
        bank_ = other.bank_;
        sampled_ = other.sampled_;
        trials_ = other.trials_;
        point();
        return *this;
    }

    train_config &bank(span<const betz_filter> bank) {
        bank_.assign(bank.begin(), bank.end());
        filters = bank_.data();
        n_filters = bank_.size();
        return *this;
    }

    // The samples and names stay the caller's until training is done.
    train_config &sampled_bank(span<const betz_filter_sampled> bank) {
        sampled_.assign(bank.begin(), bank.end());
        sampled_filters = sampled_.data();
        n_sampled_filters = sampled_.size();
        return *this;
    }

    train_config &trials(span<const betz_segment> trials) {
        trials_.assign(trials.begin(), trials.end());
        segments = trials_.data();
        n_segments = trials_.size();
        return *this;
    }

private:
    // Points to this object's copies of the arrays; pointers that were set by hand stay.
    void point() noexcept {
        if (!bank_.empty()) filters = bank_.data();
        if (!sampled_.empty()) sampled_filters = sampled_.data();
        if (!trials_.empty()) segments = trials_.data();
    }

    std::vector<betz_filter> bank_;
    std::vector<betz_filter_sampled> sampled_;
    std::vector<betz_segment> trials_;
};

// A trained decoder. Copies share one handle; any number of threads may use it.
class model {
public:
    // An empty object, for try_load and try_load_bytes.
    model() noexcept = default;

    // Takes ownership of a handle.
    explicit model(betz_model *handle) : handle_(handle, detail::deleter()) {}

    [[nodiscard]] static betz_status try_load(const char *path, model &out) {
        betz_model *handle = nullptr;
        const betz_status status = betz_model_load(path, &handle);
        if (status == BETZ_OK) out = model(handle);
        return status;
    }

    [[nodiscard]] static betz_status try_load_bytes(span<const std::uint8_t> bytes, model &out) {
        betz_model *handle = nullptr;
        const betz_status status = betz_model_load_bytes(bytes.data(), bytes.size(), &handle);
        if (status == BETZ_OK) out = model(handle);
        return status;
    }

    [[nodiscard]] betz_status try_save(const char *path) const noexcept {
        return betz_model_save(get(), path);
    }

    [[nodiscard]] betz_status try_score(std::uint32_t output, betz_score &out) const noexcept {
        return betz_model_score(get(), output, &out, sizeof out);
    }

    [[nodiscard]] betz_status try_fingerprint(std::uint64_t &out) const noexcept {
        return betz_model_fingerprint(get(), &out);
    }

#if BETZ_EXCEPTIONS
    [[nodiscard]] static model load(const std::string &path) {
        betz_model *handle = nullptr;
        check(betz_model_load(path.c_str(), &handle));
        return model(handle);
    }

    [[nodiscard]] static model load_bytes(span<const std::uint8_t> bytes) {
        betz_model *handle = nullptr;
        check(betz_model_load_bytes(bytes.data(), bytes.size(), &handle));
        return model(handle);
    }

    // Spikes in ascending order; behaviour (steps, outputs) row-major.
    [[nodiscard]] static model train(const betz_train_config &config, span<const betz_spike> spikes,
                       span<const float> behavior, std::size_t outputs) {
        betz_model *handle = nullptr;
        check(betz_train(&config, spikes.data(), spikes.size(), behavior.data(),
                         rows(behavior.size(), outputs), outputs, &handle));
        return model(handle);
    }

    // Counts (steps, channels) and behaviour (steps, outputs), both row-major.
    [[nodiscard]] static model train_counts(const betz_train_config &config, span<const std::uint16_t> counts,
                              span<const float> behavior, std::size_t outputs) {
        const std::size_t steps = rows(behavior.size(), outputs);
        if (rows(counts.size(), config.channels) != steps) {
            throw error(BETZ_ERROR_MISMATCH, "counts and behavior: expected as many steps in both");
        }
        betz_model *handle = nullptr;
        check(betz_train_counts(&config, counts.data(), behavior.data(), steps, outputs, &handle));
        return model(handle);
    }

    // Features of any sign (steps, channels) and behaviour (steps, outputs), both row-major.
    [[nodiscard]] static model train_values(const betz_train_config &config, span<const float> values,
                              span<const float> behavior, std::size_t outputs) {
        const std::size_t steps = rows(behavior.size(), outputs);
        if (rows(values.size(), config.channels) != steps) {
            throw error(BETZ_ERROR_MISMATCH, "values and behavior: expected as many steps in both");
        }
        betz_model *handle = nullptr;
        check(betz_train_values(&config, values.data(), behavior.data(), steps, outputs, &handle));
        return model(handle);
    }

    void save(const std::string &path) const { check(betz_model_save(get(), path.c_str())); }

    [[nodiscard]] std::uint64_t fingerprint() const {
        std::uint64_t out = 0;
        check(try_fingerprint(out));
        return out;
    }

    [[nodiscard]] std::vector<std::uint8_t> save_bytes() const {
        std::size_t len = 0;
        check(betz_model_save_bytes(get(), nullptr, 0, &len));
        std::vector<std::uint8_t> bytes(len);
        check(betz_model_save_bytes(get(), bytes.data(), bytes.size(), &len));
        return bytes;
    }

#endif

    std::uint32_t channels() const noexcept { return betz_model_channels(get()); }
    std::uint32_t outputs() const noexcept { return betz_model_outputs(get()); }
    double step_seconds() const noexcept { return betz_model_step_seconds(get()); }
    std::int64_t delay_steps() const noexcept { return betz_model_delay_steps(get()); }
    // Kind of the decoder: "linear", "classes", ...
    const char *kind() const noexcept { return betz_model_kind(get()); }
    // Number of classes; 0 for a model without.
    std::uint32_t classes() const noexcept { return betz_model_classes(get()); }
    bool channel_used(std::uint32_t c) const noexcept { return betz_model_channel_used(get(), c) != 0; }
#if BETZ_EXCEPTIONS
    std::string channel_name(std::uint32_t c) const { return detail::text(betz_model_channel_name(get(), c)); }
    std::string output_name(std::uint32_t o) const { return detail::text(betz_model_output_name(get(), o)); }
    std::string output_unit(std::uint32_t o) const { return detail::text(betz_model_output_unit(get(), o)); }
    std::string class_name(std::uint32_t c) const { return detail::text(betz_model_class_name(get(), c)); }

    [[nodiscard]] betz_score score(std::uint32_t output) const {
        betz_score score;
        check(betz_model_score(get(), output, &score, sizeof score));
        return score;
    }
#endif

    const betz_model *get() const noexcept { return handle_.get(); }

private:
#if BETZ_EXCEPTIONS
    static std::size_t rows(std::size_t values, std::size_t columns) {
        if (columns == 0 || values % columns != 0) {
            throw error(BETZ_ERROR_MISMATCH, "expected a whole number of rows");
        }
        return values / columns;
    }
#endif

    std::shared_ptr<betz_model> handle_;
};

// betz_session_config with its defaults. Clamp, slew limit and mask are copied: they may be temporaries.
struct session_config : betz_session_config {
    session_config() : betz_session_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_session_config_default(this, sizeof(betz_session_config)) == BETZ_OK);
    }

    session_config(const session_config &other)
        : betz_session_config(other), low_(other.low_), high_(other.high_), slew_(other.slew_),
          mask_(other.mask_) {
        point();
    }

    session_config &operator=(const session_config &other) {
        betz_session_config::operator=(other);
        low_ = other.low_;
        high_ = other.high_;
        slew_ = other.slew_;
        mask_ = other.mask_;
        point();
        return *this;
    }

    // One bound per output in each list; the session is refused if the lengths differ.
    session_config &clamp(span<const float> low, span<const float> high) {
        low_.assign(low.begin(), low.end());
        high_.assign(high.begin(), high.end());
        clamp_low = low_.data();
        clamp_high = high_.data();
        clamp_len = low_.size();
        if (low_.size() != high_.size()) {
#if BETZ_EXCEPTIONS
            throw error(BETZ_ERROR_MISMATCH, "clamp: expected as many low as high bounds");
#else
            // No model has so many outputs: betz_session_open refuses it.
            clamp_len = static_cast<std::size_t>(-1) / sizeof(float);
            clamp_low = clamp_high = nullptr;
#endif
        }
        return *this;
    }

    // Largest change of each output from one step to the next.
    session_config &limit_slew(span<const float> most) {
        slew_.assign(most.begin(), most.end());
        slew = slew_.data();
        slew_len = slew_.size();
        return *this;
    }

    session_config &mask(span<const std::uint8_t> mask) {
        mask_.assign(mask.begin(), mask.end());
        channel_mask = mask_.data();
        channel_mask_len = mask_.size();
        return *this;
    }

private:
    // Points to this object's copies of the arrays; pointers that were set by hand stay.
    void point() noexcept {
        if (!low_.empty()) clamp_low = low_.data();
        if (!high_.empty()) clamp_high = high_.data();
        if (!slew_.empty()) slew = slew_.data();
        if (!mask_.empty()) channel_mask = mask_.data();
    }

    std::vector<float> low_, high_, slew_;
    std::vector<std::uint8_t> mask_;
};

// betz_swap_config with its defaults.
struct swap_config : betz_swap_config {
    swap_config() noexcept : betz_swap_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_swap_config_default(this, sizeof(betz_swap_config)) == BETZ_OK);
    }
};

class miner;
class network;

// A running decoder. Can be moved, but not copied; for one thread at a time, except for the model swap.
class session {
public:
    // An empty object, for try_open.
    session() noexcept = default;

    [[nodiscard]] static betz_status try_open(const model &model, const betz_session_config &config,
                                              session &out) noexcept {
        betz_session *handle = nullptr;
        const betz_status status = betz_session_open(model.get(), &config, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    [[nodiscard]] betz_status try_step_counts(span<const std::uint16_t> counts,
                                              span<float> out) noexcept {
        return betz_session_step_counts(get(), counts.data(), counts.size(), out.data(), out.size());
    }

    [[nodiscard]] betz_status try_step_spikes(span<const std::uint32_t> channels,
                                              span<float> out) noexcept {
        return betz_session_step_spikes(get(), channels.data(), channels.size(), out.data(),
                                        out.size());
    }

    // Counts of 8 bits.
    [[nodiscard]] betz_status try_step_counts(span<const std::uint8_t> counts,
                                              span<float> out) noexcept {
        return betz_session_step_counts_u8(get(), counts.data(), counts.size(), out.data(), out.size());
    }

    // Counts that need not be whole.
    [[nodiscard]] betz_status try_step_counts(span<const float> counts, span<float> out) noexcept {
        return betz_session_step_counts_f32(get(), counts.data(), counts.size(), out.data(), out.size());
    }

    // Features of any sign.
    [[nodiscard]] betz_status try_step_values(span<const float> values, span<float> out) noexcept {
        return betz_session_step_values(get(), values.data(), values.size(), out.data(), out.size());
    }

    // A step without data.
    [[nodiscard]] betz_status try_step_stale(span<float> out) noexcept {
        return betz_session_step_stale(get(), out.data(), out.size());
    }

    // Silent ticks at once.
    [[nodiscard]] betz_status try_skip(std::uint64_t ticks) noexcept {
        return betz_session_skip(get(), ticks);
    }

    [[nodiscard]] betz_status try_reset() noexcept { return betz_session_reset(get()); }

    // BETZ_STEP_* flags of the last step.
    std::uint32_t status() const noexcept { return betz_session_status(get()); }

    [[nodiscard]] betz_status try_health(betz_health &out) const noexcept {
        return betz_session_health(get(), &out, sizeof out);
    }

    [[nodiscard]] betz_status try_estimate_time(betz_estimate_time &out) const noexcept {
        return betz_session_estimate_time(get(), &out, sizeof out);
    }

    [[nodiscard]] betz_status try_class_count(std::size_t &out) const noexcept {
        return betz_session_class_count(get(), &out);
    }

    // Probabilities of the classes at the last step.
    [[nodiscard]] betz_status try_classes(span<float> out) const noexcept {
        return betz_session_classes(get(), out.data(), out.size());
    }

    // Takes the oldest events, at most as many as fit; `count`: their number.
    [[nodiscard]] betz_status try_events(span<betz_event> out, std::size_t &count) noexcept {
        return betz_session_events(get(), out.data(), out.size(), &count);
    }

    // One bound per output in each list; none for empty lists.
    [[nodiscard]] betz_status try_set_clamp(span<const float> low, span<const float> high) noexcept {
        if (low.size() != high.size()) return BETZ_ERROR_MISMATCH;
        return betz_session_set_clamp(get(), low.data(), high.data(), low.size());
    }

    // One flag per channel, 0 leaves it out; none for an empty list.
    [[nodiscard]] betz_status try_set_mask(span<const std::uint8_t> mask) noexcept {
        return betz_session_set_mask(get(), nullptr, mask.data(), mask.size());
    }

    [[nodiscard]] betz_status try_swap_progress(betz_swap_progress &out) const noexcept {
        return betz_session_swap_progress(get(), &out, sizeof out);
    }

    // Requests a checkpoint at one of the next steps, from any thread; try_take_checkpoint fetches it.
    [[nodiscard]] betz_status try_request_checkpoint() noexcept {
        return betz_session_request_checkpoint(get());
    }

    // `len`: length of the requested checkpoint; with an empty `out` only that.
    [[nodiscard]] betz_status try_take_checkpoint(span<std::uint8_t> out, std::size_t &len) noexcept {
        return betz_session_take_checkpoint(get(), out.data(), out.size(), &len);
    }

    // Bytes that try_open_in needs.
    [[nodiscard]] static betz_status try_size(const model &model, const betz_session_config &config,
                                              std::size_t &out) noexcept {
        return betz_session_size(model.get(), &config, &out);
    }

    // Opens a session in the caller's memory, aligned to 4,096 bytes, which outlives the session.
    [[nodiscard]] static betz_status try_open_in(const model &model,
                                                 const betz_session_config &config, void *block,
                                                 std::size_t size, session &out) noexcept {
        betz_session *handle = nullptr;
        const betz_status status = betz_session_open_in(model.get(), &config, block, size, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    // Brings a step's code and data into the caches and changes nothing.
    [[nodiscard]] betz_status try_warm() noexcept { return betz_session_warm(get()); }

    // Variances of the last step's estimates, one per output.
    [[nodiscard]] betz_status try_variances(span<float> out) const noexcept {
        return betz_session_variances(get(), out.data(), out.size());
    }

    [[nodiscard]] betz_status try_stats(betz_stats &out) const noexcept {
        return betz_session_stats(get(), &out, sizeof out);
    }

    [[nodiscard]] betz_status try_swap_model(const model &model) noexcept {
        return betz_session_swap_model(get(), model.get());
    }

    [[nodiscard]] betz_status try_swap_model(const model &model,
                                             const betz_swap_config &config) noexcept {
        return betz_session_swap_model_with(get(), model.get(), &config);
    }

    [[nodiscard]] betz_status try_rollback_model() noexcept {
        return betz_session_rollback_model(get());
    }

    [[nodiscard]] betz_status try_restore(span<const std::uint8_t> bytes) noexcept {
        return betz_session_restore(get(), bytes.data(), bytes.size());
    }

#if BETZ_EXCEPTIONS
    explicit session(const model &model, const betz_session_config &config = session_config()) {
        check(try_open(model, config, *this));
    }

    void step_counts(span<const std::uint16_t> counts, span<float> out) {
        check(try_step_counts(counts, out));
    }

    void step_counts(span<const std::uint8_t> counts, span<float> out) {
        check(try_step_counts(counts, out));
    }

    void step_counts(span<const float> counts, span<float> out) { check(try_step_counts(counts, out)); }
    void step_values(span<const float> values, span<float> out) { check(try_step_values(values, out)); }
    void step_stale(span<float> out) { check(try_step_stale(out)); }
    void skip(std::uint64_t ticks) { check(try_skip(ticks)); }

    void step_spikes(span<const std::uint32_t> channels, span<float> out) {
        check(try_step_spikes(channels, out));
    }

    [[nodiscard]] betz_health health() const {
        betz_health health;
        check(try_health(health));
        return health;
    }

    [[nodiscard]] betz_estimate_time estimate_time() const {
        betz_estimate_time time;
        check(try_estimate_time(time));
        return time;
    }

    // Probabilities of the classes at the last step.
    [[nodiscard]] std::vector<float> classes() const {
        std::size_t count = 0;
        check(try_class_count(count));
        std::vector<float> out(count);
        check(try_classes(out));
        return out;
    }

    // Takes all events since the last call.
    [[nodiscard]] std::vector<betz_event> events() {
        std::vector<betz_event> all;
        betz_event some[16];
        std::size_t count = 0;
        do {
            check(try_events(some, count));
            all.insert(all.end(), some, some + count);
        } while (count > 0);
        return all;
    }

    void set_clamp(span<const float> low, span<const float> high) { check(try_set_clamp(low, high)); }
    void set_mask(span<const std::uint8_t> mask) { check(try_set_mask(mask)); }

    [[nodiscard]] betz_swap_progress swap_progress() const {
        betz_swap_progress progress;
        check(try_swap_progress(progress));
        return progress;
    }

    void request_checkpoint() { check(try_request_checkpoint()); }

    // The requested checkpoint; fails until the session has made it.
    [[nodiscard]] std::vector<std::uint8_t> take_checkpoint() {
        std::size_t len = 0;
        check(try_take_checkpoint(span<std::uint8_t>(), len));
        std::vector<std::uint8_t> bytes(len);
        check(try_take_checkpoint(bytes, len));
        bytes.resize(len);
        return bytes;
    }

    void reset() { check(try_reset()); }

    void warm() { check(try_warm()); }

    void variances(span<float> out) const { check(try_variances(out)); }

    [[nodiscard]] betz_stats stats() const {
        betz_stats stats;
        check(try_stats(stats));
        return stats;
    }

    void clear_stats() { check(betz_session_clear_stats(get())); }

    void swap_model(const model &model) { check(try_swap_model(model)); }

    void swap_model(const model &model, const betz_swap_config &config) {
        check(try_swap_model(model, config));
    }

    void swap_model_after(const model &model, std::uint64_t warm_up_steps) {
        check(betz_session_swap_model_after(get(), model.get(), warm_up_steps));
    }

    void rollback_model() { check(try_rollback_model()); }
    void release_model() { check(betz_session_release_model(get())); }

    [[nodiscard]] betz_swap_state swap_state() const {
        betz_swap_state state;
        check(betz_session_swap_state(get(), &state));
        return state;
    }

    [[nodiscard]] std::vector<std::uint8_t> checkpoint() const {
        std::size_t len = 0;
        check(betz_session_checkpoint(get(), nullptr, 0, &len));
        std::vector<std::uint8_t> bytes(len);
        check(betz_session_checkpoint(get(), bytes.data(), bytes.size(), &len));
        return bytes;
    }

    void restore(span<const std::uint8_t> bytes) { check(try_restore(bytes)); }

    // Sends the spikes of the steps to `miner`, from the next step on, whose tick is `first_tick`; the miner
    // may be destroyed before or after the session.
    void attach(miner &miner, std::int64_t first_tick = 0);
    void detach_miner() { check(betz_session_detach_miner(get())); }

    // Sends the spikes of the steps to `network`, in the same way.
    void attach(network &network, std::int64_t first_tick = 0);
    void detach_network() { check(betz_session_detach_network(get())); }
#endif

    betz_session *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_session, detail::deleter> handle_;
};

// betz_queue_config with its defaults.
struct queue_config : betz_queue_config {
    queue_config() noexcept : betz_queue_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_queue_config_default(this, sizeof(betz_queue_config)) == BETZ_OK);
    }
};

// Spikes from an acquisition thread (push, mark) to the thread that steps (all other calls).
class queue {
public:
    // An empty object, for try_open.
    queue() noexcept = default;

    [[nodiscard]] static betz_status try_open(std::size_t capacity, betz_late_spikes late_spikes,
                                              queue &out) noexcept {
        betz_queue *handle = nullptr;
        const betz_status status = betz_queue_open(capacity, late_spikes, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    [[nodiscard]] static betz_status try_open(const betz_queue_config &config, queue &out) noexcept {
        betz_queue *handle = nullptr;
        const betz_status status = betz_queue_open_with(&config, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    // Sets the sample at which a tick begins, and the samples per tick.
    [[nodiscard]] betz_status try_set_clock(std::int64_t sample, std::int64_t tick,
                                            double samples_per_tick) noexcept {
        return betz_queue_set_clock(get(), sample, tick, samples_per_tick);
    }

    [[nodiscard]] betz_status try_push(span<const betz_sampled_spike> spikes,
                                       std::size_t &pushed) noexcept {
        return betz_queue_push_samples(get(), spikes.data(), spikes.size(), &pushed);
    }

    [[nodiscard]] betz_status try_mark_sample(std::int64_t sample) noexcept {
        return betz_queue_mark_sample(get(), sample);
    }

    // Continues at another tick, if the ticks jump.
    [[nodiscard]] betz_status try_resync(session &session, std::int64_t tick, betz_resync how) noexcept {
        return betz_queue_resync(get(), session.get(), tick, how);
    }

    // `cleared`: number of spikes that were thrown away.
    [[nodiscard]] betz_status try_clear(std::size_t &cleared) noexcept {
        return betz_queue_clear(get(), &cleared);
    }

    // `pushed`: number of spikes that entered the queue; the remaining ones are dropped and counted.
    [[nodiscard]] betz_status try_push(span<const betz_spike> spikes, std::size_t &pushed) noexcept {
        return betz_queue_push(get(), spikes.data(), spikes.size(), &pushed);
    }

    [[nodiscard]] betz_status try_mark(std::int64_t tick) noexcept {
        return betz_queue_mark(get(), tick);
    }

    [[nodiscard]] betz_status try_step(session &session, span<float> out) noexcept {
        return betz_queue_step(get(), session.get(), out.data(), out.size());
    }

    // Brings the code and data of a step through this queue into the caches and changes nothing.
    [[nodiscard]] betz_status try_warm(session &session) noexcept {
        return betz_queue_warm(get(), session.get());
    }

    [[nodiscard]] betz_status try_set_tick(std::int64_t tick) noexcept {
        return betz_queue_set_tick(get(), tick);
    }

    [[nodiscard]] betz_status try_state(betz_queue_state &out) const noexcept {
        return betz_queue_get_state(get(), &out, sizeof out);
    }

#if BETZ_EXCEPTIONS
    explicit queue(std::size_t capacity, betz_late_spikes late_spikes = BETZ_LATE_SPIKES_TAKE) {
        check(try_open(capacity, late_spikes, *this));
    }

    explicit queue(const betz_queue_config &config) { check(try_open(config, *this)); }

    void set_clock(std::int64_t sample, std::int64_t tick, double samples_per_tick) {
        check(try_set_clock(sample, tick, samples_per_tick));
    }

    std::size_t push(span<const betz_sampled_spike> spikes) {
        std::size_t pushed = 0;
        check(try_push(spikes, pushed));
        return pushed;
    }

    void mark_sample(std::int64_t sample) { check(try_mark_sample(sample)); }

    void resync(session &session, std::int64_t tick, betz_resync how) {
        check(try_resync(session, tick, how));
    }

    // Returns the number of spikes that were thrown away.
    std::size_t clear() {
        std::size_t cleared = 0;
        check(try_clear(cleared));
        return cleared;
    }

    // Returns the number of spikes that entered the queue; the remaining ones are dropped and counted.
    std::size_t push(span<const betz_spike> spikes) {
        std::size_t pushed = 0;
        check(try_push(spikes, pushed));
        return pushed;
    }

    void mark(std::int64_t tick) { check(try_mark(tick)); }
    void step(session &session, span<float> out) { check(try_step(session, out)); }
    void warm(session &session) { check(try_warm(session)); }
    void set_tick(std::int64_t tick) { check(try_set_tick(tick)); }

    [[nodiscard]] betz_queue_state state() const {
        betz_queue_state state;
        check(try_state(state));
        return state;
    }
#endif

    betz_queue *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_queue, detail::deleter> handle_;
};

// betz_miner_config with its defaults. Texts, names and edges are copied; keep the data that patterns point to
// alive until the miner is open.
struct miner_config : betz_miner_config {
    miner_config(std::uint32_t symbol_count, double tick) : betz_miner_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_miner_config_default(this, sizeof(betz_miner_config)) == BETZ_OK);
        symbols = symbol_count;
        tick_seconds = tick;
    }

    // Adds an episode to watch: "a3 -(0.004,0.006]-> a5", labels and seconds.
    miner_config &watch(std::string episode) {
        texts_.push_back(std::move(episode));
        return *this;
    }

    miner_config &watch_patterns(span<const betz_episode> given) {
        patterns_.assign(given.begin(), given.end());
        return *this;
    }

    // One name per symbol.
    miner_config &name(std::vector<std::string> names) {
        names_ = std::move(names);
        return *this;
    }

    miner_config &edges(span<const betz_interval> given) {
        edges_.assign(given.begin(), given.end());
        return *this;
    }

    // Watches episodes that occur at least `least` times in the last `seconds`.
    miner_config &window(double seconds, std::uint64_t least) noexcept {
        window_seconds = seconds;
        threshold = least;
        return *this;
    }

    [[nodiscard]] betz_status try_open(betz_miner **out) const {
        if (!names_.empty() && names_.size() != symbols) {
            return BETZ_ERROR_MISMATCH;
        }
        betz_miner_config config = *this;
        const std::vector<const char *> texts = pointers(texts_), names = pointers(names_);
        if (!texts.empty()) {
            config.episodes = texts.data();
            config.n_episodes = texts.size();
        }
        if (!names.empty()) {
            config.labels = names.data();
        }
        if (!patterns_.empty()) {
            config.patterns = patterns_.data();
            config.n_patterns = patterns_.size();
        }
        if (!edges_.empty()) {
            config.intervals = edges_.data();
            config.n_intervals = edges_.size();
        }
        return betz_miner_open(&config, out);
    }

#if BETZ_EXCEPTIONS
    [[nodiscard]] betz_miner *open() const {
        if (!names_.empty() && names_.size() != symbols) {
            throw error(BETZ_ERROR_MISMATCH, "names: expected one per symbol");
        }
        betz_miner *handle = nullptr;
        check(try_open(&handle));
        return handle;
    }
#endif

private:
    static std::vector<const char *> pointers(const std::vector<std::string> &texts) {
        std::vector<const char *> all;
        for (const std::string &text : texts) {
            all.push_back(text.c_str());
        }
        return all;
    }

    std::vector<std::string> texts_, names_;
    std::vector<betz_episode> patterns_;
    std::vector<betz_interval> edges_;
};

// Episodes that a miner watched at one moment, with their counts. Can be moved, but not copied.
class watch_list {
public:
    // Takes ownership of a handle.
    explicit watch_list(betz_watch_list *handle = nullptr) noexcept : handle_(handle) {}

    std::size_t size() const noexcept { return betz_watch_list_len(get()); }

    // The pointers in `out` are valid as long as the list.
    [[nodiscard]] betz_status try_get(std::size_t i, betz_watched &out) const noexcept {
        return betz_watch_list_get(get(), i, &out, sizeof out);
    }

#if BETZ_EXCEPTIONS
    [[nodiscard]] betz_watched operator[](std::size_t i) const {
        betz_watched watched;
        check(try_get(i, watched));
        return watched;
    }
#endif

    // Message of the last failure to mine the window; empty if mining has never failed.
    [[nodiscard]] std::string last_failure() const {
        const char *text = betz_watch_list_last_failure(get());
        return text == nullptr ? std::string() : text;
    }

    const betz_watch_list *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_watch_list, detail::deleter> handle_;
};

// Counts episodes in real time. Can be moved, but not copied; one thread feeds it, any thread may read it.
class miner {
public:
    // An empty object, for try_open.
    miner() noexcept = default;

    [[nodiscard]] static betz_status try_open(const miner_config &config, miner &out) {
        betz_miner *handle = nullptr;
        const betz_status status = config.try_open(&handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    // `pushed`: number of events that entered the queue; the remaining ones are dropped and counted.
    [[nodiscard]] betz_status try_push(span<const betz_spike> events, std::size_t &pushed) noexcept {
        return betz_miner_push(get(), events.data(), events.size(), &pushed);
    }

    // Waits until every event pushed before this call has been counted.
    [[nodiscard]] betz_status try_flush() const noexcept { return betz_miner_flush(get()); }

    // `len`: number of counts; BETZ_ERROR_MISMATCH if `out` is too short.
    [[nodiscard]] betz_status try_counts(span<std::uint64_t> out, std::size_t &len) const noexcept {
        return betz_miner_counts(get(), out.data(), out.size(), &len);
    }

    [[nodiscard]] betz_status try_watch_list(betz::watch_list &out) const {
        betz_watch_list *list = nullptr;
        const betz_status status = betz_miner_watch_list(get(), &list);
        if (status == BETZ_OK) out = betz::watch_list(list);
        return status;
    }

    [[nodiscard]] betz_status try_stats(betz_miner_stats &out) const noexcept {
        return betz_miner_get_stats(get(), &out, sizeof out);
    }

#if BETZ_EXCEPTIONS
    explicit miner(const miner_config &config) : handle_(config.open()) {}

    // Returns the number of events that entered the queue; the remaining ones are dropped and counted.
    std::size_t push(span<const betz_spike> events) {
        std::size_t pushed = 0;
        check(betz_miner_push(get(), events.data(), events.size(), &pushed));
        return pushed;
    }

    std::size_t push_seconds(span<const double> seconds, span<const std::uint32_t> symbols) {
        if (seconds.size() != symbols.size()) {
            throw error(BETZ_ERROR_MISMATCH, "push_seconds: expected as many times as symbols");
        }
        std::size_t pushed = 0;
        check(betz_miner_push_seconds(get(), seconds.data(), symbols.data(), seconds.size(), &pushed));
        return pushed;
    }

    // Waits until every event pushed before this call has been counted.
    void flush() const { check(betz_miner_flush(get())); }

    // Counts in the order of the list. With a window, watch_list() gives a list with its own counts.
    [[nodiscard]] std::vector<std::uint64_t> counts() const {
        std::vector<std::uint64_t> counts;
        for (;;) {
            // With a window the list may grow between the call for its length and the call for its counts.
            std::size_t len = 0;
            check(betz_miner_counts(get(), nullptr, 0, &len));
            counts.resize(len);
            if (len == 0) {
                return counts;
            }
            const betz_status status = betz_miner_counts(get(), counts.data(), counts.size(), &len);
            if (status != BETZ_ERROR_MISMATCH) {
                check(status);
                counts.resize(len);
                return counts;
            }
        }
    }

    [[nodiscard]] betz::watch_list watch_list() const {
        betz_watch_list *list = nullptr;
        check(betz_miner_watch_list(get(), &list));
        return betz::watch_list(list);
    }

    [[nodiscard]] betz_miner_stats stats() const {
        betz_miner_stats stats;
        check(try_stats(stats));
        return stats;
    }
#endif

    betz_miner *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_miner, detail::deleter> handle_;
};

// betz_network_config with its defaults. Processors are copied; set other fields as in C.
struct network_config : betz_network_config {
    // Windows of `window` bins; `tick` and `bin` in seconds.
    network_config(std::uint32_t channel_count, double tick, double bin, std::uint32_t window)
        : betz_network_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_network_config_default(this, sizeof(betz_network_config)) == BETZ_OK);
        channels = channel_count;
        tick_seconds = tick;
        bin_seconds = bin;
        window_bins = window;
    }

    // Sets the processors that the network's thread may run on.
    network_config &run_on(span<const std::uint32_t> given) {
        on_.assign(given.begin(), given.end());
        return *this;
    }

    [[nodiscard]] betz_status try_open(betz_network **out) const noexcept {
        betz_network_config config = *this;
        if (!on_.empty()) {
            config.processors = on_.data();
            config.n_processors = on_.size();
        }
        return betz_network_open(&config, out);
    }

private:
    std::vector<std::uint32_t> on_;
};

// The edges of a window, ordered by (i, j), and the description of the window.
struct network_window {
    betz_network_info info{};
    std::vector<betz_edge> edges;
};

// A correlation network over a sliding window. Can be moved, but not copied; one thread or a session feeds it,
// any thread may read it.
class network {
public:
    // An empty object, for try_open.
    network() noexcept = default;

    [[nodiscard]] static betz_status try_open(const network_config &config, network &out) noexcept {
        betz_network *handle = nullptr;
        const betz_status status = config.try_open(&handle);
        if (status == BETZ_OK) {
            out.handle_.reset(handle);
            out.channels_ = config.channels;
        }
        return status;
    }

    std::size_t channels() const noexcept { return channels_; }

    // Takes a step's counts, one per channel. A step that does not fit into the queue is dropped and counted.
    [[nodiscard]] betz_status try_push(std::int64_t tick, span<const std::uint16_t> counts) noexcept {
        return betz_network_push_counts(get(), tick, counts.data(), counts.size());
    }

    // Waits until the network has taken every step queued before this call.
    [[nodiscard]] betz_status try_flush() const noexcept { return betz_network_flush(get()); }

    // Copies the first edges of the newest complete window, at most as many as fit into `edges`; `kept`:
    // number of edges that the network keeps.
    [[nodiscard]] betz_status try_snapshot(span<betz_edge> edges, std::size_t &kept,
                                           betz_network_info &info) const noexcept {
        return betz_network_snapshot(get(), edges.data(), edges.size(), &kept, &info, sizeof info);
    }

    // Degrees in the newest window, one per channel.
    [[nodiscard]] betz_status try_degrees(span<float> out) const noexcept {
        return betz_network_degrees(get(), out.data(), out.size());
    }

    [[nodiscard]] betz_status try_communities(span<std::uint32_t> out) const noexcept {
        return betz_network_communities(get(), out.data(), out.size());
    }

    [[nodiscard]] betz_status try_stats(betz_network_stats &out) const noexcept {
        return betz_network_get_stats(get(), &out, sizeof out);
    }

#if BETZ_EXCEPTIONS
    explicit network(const network_config &config) { check(try_open(config, *this)); }

    void push(std::int64_t tick, span<const std::uint16_t> counts) { check(try_push(tick, counts)); }

    void flush() const { check(try_flush()); }

    // The newest complete window with all edges that the network keeps. Without edges, and with zeros, before
    // the first window.
    [[nodiscard]] network_window snapshot() const {
        network_window window;
        for (;;) {
            // The next window, which may have more edges, may be completed between the two calls.
            std::size_t kept = 0;
            check(try_snapshot(window.edges, kept, window.info));
            const bool whole = kept <= window.edges.size();
            window.edges.resize(kept);
            if (whole) {
                return window;
            }
        }
    }

    // Degrees in the newest window, counting the edges that the network keeps.
    [[nodiscard]] std::vector<float> degrees() const {
        std::vector<float> degrees(channels());
        check(try_degrees(degrees));
        return degrees;
    }

    // Communities in the newest window; UINT32_MAX for a channel in no community of at least three. Needs a
    // configuration with communities = 1.
    [[nodiscard]] std::vector<std::uint32_t> communities() const {
        std::vector<std::uint32_t> communities(channels());
        check(try_communities(communities));
        return communities;
    }

    [[nodiscard]] betz_network_stats stats() const {
        betz_network_stats stats;
        check(try_stats(stats));
        return stats;
    }
#endif

    betz_network *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_network, detail::deleter> handle_;
    std::size_t channels_ = 0;
};

// betz_trainer_config with its defaults; set fields as in C.
struct trainer_config : betz_trainer_config {
    trainer_config() : betz_trainer_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_trainer_config_default(this, sizeof(betz_trainer_config)) == BETZ_OK);
    }
};

// Learns from labels for a session, which runs `model`. Can be moved, but not copied; the thread that steps
// gives labels, any thread may make other calls.
class trainer {
public:
    // An empty object, for try_open.
    trainer() noexcept = default;

    [[nodiscard]] static betz_status try_open(session &session, const model &model,
                                              const betz_trainer_config &config,
                                              trainer &out) noexcept {
        betz_trainer *handle = nullptr;
        const betz_status status = betz_trainer_open(session.get(), model.get(), &config, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    // Labels the step just taken, one value per output.
    [[nodiscard]] betz_status try_label(span<const float> target) noexcept {
        return betz_trainer_label(get(), target.data(), target.size());
    }

    [[nodiscard]] betz_status try_end_trial(bool keep = true) noexcept {
        return betz_trainer_end_trial(get(), keep ? 1 : 0);
    }

    [[nodiscard]] betz_status try_request() const noexcept { return betz_trainer_request(get()); }

    // `applied`: true if there was a new model for the session.
    [[nodiscard]] betz_status try_apply(session &session, bool &applied) const noexcept {
        std::uint32_t given = 0;
        const betz_status status = betz_trainer_apply(get(), session.get(), &given);
        applied = given != 0;
        return status;
    }

    // The newest model since the last call; an empty object if there is none.
    [[nodiscard]] betz_status try_take(model &out) const {
        betz_model *handle = nullptr;
        const betz_status status = betz_trainer_take(get(), &handle);
        if (status == BETZ_OK) out = handle == nullptr ? model() : model(handle);
        return status;
    }

    // `len`: number of dead or screaming channels; with an empty `out` only that.
    [[nodiscard]] betz_status try_ill_channels(span<std::uint32_t> out,
                                               std::size_t &len) const noexcept {
        return betz_trainer_ill_channels(get(), out.data(), out.size(), &len);
    }

    [[nodiscard]] betz_status try_set_half_life(double seconds) const noexcept {
        return betz_trainer_set_half_life(get(), seconds);
    }

    [[nodiscard]] betz_status try_save(const char *path) const noexcept {
        return betz_trainer_save(get(), path);
    }

    [[nodiscard]] betz_status try_load(const char *path) const noexcept {
        return betz_trainer_load(get(), path);
    }

    [[nodiscard]] betz_status try_state(betz_trainer_state &out) const noexcept {
        return betz_trainer_get_state(get(), &out, sizeof out);
    }

#if BETZ_EXCEPTIONS
    trainer(session &session, const model &model,
            const betz_trainer_config &config = trainer_config()) {
        check(try_open(session, model, config, *this));
    }

    void label(span<const float> target) { check(try_label(target)); }
    void end_trial(bool keep = true) { check(try_end_trial(keep)); }

    // Requests candidates now, without waiting for the end of the batch.
    void request() const { check(try_request()); }

    // True if there was a new model for the session.
    bool apply(session &session) const {
        bool applied = false;
        check(try_apply(session, applied));
        return applied;
    }

    // The newest model since the last call; an empty object if there is none.
    [[nodiscard]] model take() const {
        model out;
        check(try_take(out));
        return out;
    }

    // Numbers of the dead or screaming channels.
    [[nodiscard]] std::vector<std::uint32_t> ill_channels() const {
        std::vector<std::uint32_t> out;
        for (;;) {
            // Their number may grow between the two calls.
            std::size_t len = 0;
            check(try_ill_channels(span<std::uint32_t>(), len));
            out.resize(len);
            if (len == 0) return out;
            const betz_status status = try_ill_channels(out, len);
            if (status != BETZ_ERROR_MISMATCH) {
                check(status);
                out.resize(len);
                return out;
            }
        }
    }

    void set_half_life(double seconds) const { check(try_set_half_life(seconds)); }
    void save(const std::string &path) const { check(try_save(path.c_str())); }
    void load(const std::string &path) const { check(try_load(path.c_str())); }

    [[nodiscard]] betz_trainer_state state() const {
        betz_trainer_state state;
        check(try_state(state));
        return state;
    }
#endif

    betz_trainer *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_trainer, detail::deleter> handle_;
};

// Says how far a session's steps are unlike the training of its model. Can be moved, but not copied.
class unlike {
public:
    // An empty object, for try_open.
    unlike() noexcept = default;

    [[nodiscard]] static betz_status try_open(session &session, const model &model,
                                              double window_seconds, unlike &out) noexcept {
        betz_unlike *handle = nullptr;
        const betz_status status =
            betz_unlike_open(session.get(), model.get(), window_seconds, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    [[nodiscard]] betz_status try_state(betz_unlike_state &out) const noexcept {
        return betz_unlike_get_state(get(), &out, sizeof out);
    }

#if BETZ_EXCEPTIONS
    // A window of 0 s stands for the default.
    unlike(session &session, const model &model, double window_seconds = 0.0) {
        check(try_open(session, model, window_seconds, *this));
    }

    [[nodiscard]] betz_unlike_state state() const {
        betz_unlike_state state;
        check(try_state(state));
        return state;
    }
#endif

    betz_unlike *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_unlike, detail::deleter> handle_;
};

// Voltage in, spikes with their units out. Can be moved, but not copied; for one thread at a time.
class sorter {
public:
    // An empty object, for try_load.
    sorter() noexcept = default;

    [[nodiscard]] static betz_status try_load(const char *path, sorter &out) noexcept {
        betz_sorter *handle = nullptr;
        const betz_status status = betz_sorter_load(path, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    [[nodiscard]] static betz_status try_load_bytes(span<const std::uint8_t> bytes,
                                                    sorter &out) noexcept {
        betz_sorter *handle = nullptr;
        const betz_status status = betz_sorter_load_bytes(bytes.data(), bytes.size(), &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    std::uint32_t channels() const noexcept { return betz_sorter_channels(get()); }
    std::uint32_t units() const noexcept { return betz_sorter_units(get()); }
    double rate_hz() const noexcept { return betz_sorter_rate_hz(get()); }
    double microvolts() const noexcept { return betz_sorter_microvolts(get()); }

    // Samples (rows, channels), row-major. `taken`: rows that were taken; `n`: spikes that were written.
    [[nodiscard]] betz_status try_push(span<const std::int16_t> samples,
                                       span<betz_sorter_spike> spikes, std::size_t &taken,
                                       std::size_t &n) noexcept {
        const std::size_t columns = channels();
        if (columns == 0 || samples.size() % columns != 0) return BETZ_ERROR_MISMATCH;
        return betz_sorter_push(get(), samples.data(), samples.size() / columns, columns,
                                spikes.data(), spikes.size(), &taken, &n);
    }

    [[nodiscard]] betz_status try_unit(std::uint32_t unit, betz_sorter_unit &out) const noexcept {
        return betz_sorter_get_unit(get(), unit, &out, sizeof out);
    }

    [[nodiscard]] betz_status try_stats(betz_sorter_stats &out) const noexcept {
        return betz_sorter_get_stats(get(), &out, sizeof out);
    }

#if BETZ_EXCEPTIONS
    explicit sorter(const std::string &path) { check(try_load(path.c_str(), *this)); }

    [[nodiscard]] betz_sorter_unit unit(std::uint32_t unit) const {
        betz_sorter_unit out;
        check(try_unit(unit, out));
        return out;
    }

    [[nodiscard]] betz_sorter_stats stats() const {
        betz_sorter_stats stats;
        check(try_stats(stats));
        return stats;
    }
#endif

    betz_sorter *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_sorter, detail::deleter> handle_;
};

// Spikes with features in, place out. Can be moved, but not copied; for one thread at a time.
class clusterless {
public:
    // An empty object, for try_load.
    clusterless() noexcept = default;

    // `max_spikes` bounds a step: the spikes beyond are left out and counted. 0: no bound.
    [[nodiscard]] static betz_status try_load(const char *path, clusterless &out,
                                              std::size_t max_spikes = 0) noexcept {
        betz_clusterless *handle = nullptr;
        const betz_status status = betz_clusterless_load(path, max_spikes, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    [[nodiscard]] static betz_status try_load_bytes(span<const std::uint8_t> bytes, clusterless &out,
                                                    std::size_t max_spikes = 0) noexcept {
        betz_clusterless *handle = nullptr;
        const betz_status status =
            betz_clusterless_load_bytes(bytes.data(), bytes.size(), max_spikes, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    std::uint32_t channels() const noexcept { return betz_clusterless_channels(get()); }
    std::uint32_t features() const noexcept { return betz_clusterless_features(get()); }
    std::uint32_t outputs() const noexcept { return betz_clusterless_outputs(get()); }
    std::uint32_t cells() const noexcept { return betz_clusterless_cells(get()); }
    double step_seconds() const noexcept { return betz_clusterless_step_seconds(get()); }

    // One step: the channel of each spike, and its features (spikes, features), row-major.
    [[nodiscard]] betz_status try_step(span<const std::uint32_t> channels,
                                       span<const float> features, span<float> out) noexcept {
        const std::size_t columns = this->features();
        if (features.size() != channels.size() * columns) return BETZ_ERROR_MISMATCH;
        return betz_clusterless_step(get(), channels.data(), features.data(), channels.size(),
                                     columns, out.data(), out.size());
    }

    [[nodiscard]] betz_status try_reset() noexcept { return betz_clusterless_reset(get()); }

    // Probability of every cell after the last step.
    [[nodiscard]] betz_status try_posterior(span<double> out) const noexcept {
        return betz_clusterless_posterior(get(), out.data(), out.size());
    }

    // The outputs in each cell, (cells, outputs).
    [[nodiscard]] betz_status try_cell_values(span<double> out) const noexcept {
        return betz_clusterless_cell_values(get(), out.data(), out.size());
    }

    [[nodiscard]] betz_status try_left_out(std::uint64_t &out) const noexcept {
        return betz_clusterless_left_out(get(), &out);
    }

#if BETZ_EXCEPTIONS
    explicit clusterless(const std::string &path, std::size_t max_spikes = 0) {
        check(try_load(path.c_str(), *this, max_spikes));
    }

    std::string channel_name(std::uint32_t c) const {
        return detail::text(betz_clusterless_channel_name(get(), c));
    }
    std::string output_name(std::uint32_t o) const {
        return detail::text(betz_clusterless_output_name(get(), o));
    }

    void step(span<const std::uint32_t> channels, span<const float> features, span<float> out) {
        check(try_step(channels, features, out));
    }

    void reset() { check(try_reset()); }

    [[nodiscard]] std::vector<double> posterior() const {
        std::vector<double> all(cells());
        check(try_posterior(all));
        return all;
    }

    [[nodiscard]] std::vector<double> cell_values() const {
        std::vector<double> all(std::size_t{cells()} * outputs());
        check(try_cell_values(all));
        return all;
    }

    [[nodiscard]] std::uint64_t left_out() const {
        std::uint64_t spikes;
        check(try_left_out(spikes));
        return spikes;
    }
#endif

    betz_clusterless *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_clusterless, detail::deleter> handle_;
};

#if BETZ_EXCEPTIONS
inline void session::attach(miner &miner, std::int64_t first_tick) {
    check(betz_session_attach_miner(get(), miner.get(), first_tick));
}

inline void session::attach(network &network, std::int64_t first_tick) {
    check(betz_session_attach_network(get(), network.get(), first_tick));
}
#endif

} // namespace betz

#endif
