// betz_spiking.hpp: betz_spiking.h for C++17, as betz.hpp wraps betz.h: networks of spiking neurons.
//
//   betz::spiking network(json);
//   const betz::spiking_population cells = network.population("e");
//   std::vector<double> currents(cells.count, 10.0);
//   network.set_currents(cells, currents);
//   for (const std::uint32_t neuron : network.step()) { ... }
#ifndef BETZ_SPIKING_HPP
#define BETZ_SPIKING_HPP

#include "betz.hpp"
#include "betz_spiking.h"

#include <string_view>

namespace betz {

namespace detail {
struct spiking_deleter {
    void operator()(betz_spiking *spiking) const noexcept { betz_spiking_close(spiking); }
};
} // namespace detail

// betz_spiking_config with its defaults.
struct spiking_config : betz_spiking_config {
    spiking_config() noexcept : betz_spiking_config() {
        // Cannot fail: the struct has the right size.
        static_cast<void>(betz_spiking_config_default(this, sizeof(betz_spiking_config)) == BETZ_OK);
    }
};

// A population: its number, its first neuron, and its number of neurons.
struct spiking_population {
    std::uint32_t number = 0, first = 0, count = 0;
};

// Steps and spikes since a network was opened, and a hash of these spikes.
struct spiking_totals {
    std::uint64_t steps = 0, spikes = 0, hash = 0;
};

// A running network of spiking neurons. Can be moved, but not copied.
class spiking {
public:
    // An empty object, for try_open.
    spiking() noexcept = default;

    [[nodiscard]] static betz_status try_open(std::string_view json, const betz_spiking_config &config,
                                              spiking &out) noexcept {
        betz_spiking *handle = nullptr;
        const betz_status status = betz_spiking_open(json.data(), json.size(), &config, &handle);
        if (status == BETZ_OK) out.handle_.reset(handle);
        return status;
    }

    std::uint32_t neurons() const noexcept { return betz_spiking_neurons(get()); }
    double step_seconds() const noexcept { return betz_spiking_step_seconds(get()); }
    // Listed weights that the unit of all weights rounds to 0.
    std::uint64_t rounded_weights() const noexcept { return betz_spiking_rounded_weights(get()); }

    [[nodiscard]] betz_status try_population(const char *name, spiking_population &out) const noexcept {
        return betz_spiking_population(get(), name, &out.number, &out.first, &out.count);
    }

    // Currents in pA from the next step on, one per neuron of the population.
    [[nodiscard]] betz_status try_set_currents(const spiking_population &population,
                                               span<const double> currents_pa) noexcept {
        return betz_spiking_set_currents(get(), population.number, currents_pa.data(), currents_pa.size());
    }

    // Neurons of source populations that fire in the next step.
    [[nodiscard]] betz_status try_emit(span<const std::uint32_t> neurons) noexcept {
        return betz_spiking_emit(get(), neurons.data(), neurons.size());
    }

    [[nodiscard]] betz_status try_reward(double amount) noexcept { return betz_spiking_reward(get(), amount); }

    // One step: writes the neurons that fire to `fired`, which has room for all neurons, and their number to `count`.
    [[nodiscard]] betz_status try_step(span<std::uint32_t> fired, std::size_t &count) noexcept {
        return betz_spiking_step(get(), fired.data(), fired.size(), &count);
    }

    [[nodiscard]] betz_status try_run(std::uint64_t steps) noexcept { return betz_spiking_run(get(), steps); }

    [[nodiscard]] betz_status try_totals(spiking_totals &out) const noexcept {
        return betz_spiking_totals(get(), &out.steps, &out.spikes, &out.hash);
    }

    // Number of spikes of each neuron.
    [[nodiscard]] betz_status try_counts(span<std::uint32_t> out) const noexcept {
        return betz_spiking_counts(get(), out.data(), out.size());
    }

#if BETZ_EXCEPTIONS
    explicit spiking(std::string_view json, const betz_spiking_config &config = spiking_config()) {
        check(try_open(json, config, *this));
    }

    [[nodiscard]] spiking_population population(const std::string &name) const {
        spiking_population found;
        check(try_population(name.c_str(), found));
        return found;
    }

    void set_currents(const spiking_population &population, span<const double> currents_pa) {
        check(try_set_currents(population, currents_pa));
    }

    void emit(span<const std::uint32_t> neurons) { check(try_emit(neurons)); }
    void reward(double amount) { check(try_reward(amount)); }

    // One step: the neurons that fire. Use try_step where nothing may be allocated.
    std::vector<std::uint32_t> step() {
        std::vector<std::uint32_t> fired(neurons());
        std::size_t count = 0;
        check(try_step(fired, count));
        fired.resize(count);
        return fired;
    }

    void run(std::uint64_t steps) { check(try_run(steps)); }

    [[nodiscard]] spiking_totals totals() const {
        spiking_totals all;
        check(try_totals(all));
        return all;
    }

    [[nodiscard]] std::vector<std::uint32_t> counts() const {
        std::vector<std::uint32_t> all(neurons());
        check(try_counts(all));
        return all;
    }
#endif

    betz_spiking *get() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<betz_spiking, detail::spiking_deleter> handle_;
};

} // namespace betz

#endif
