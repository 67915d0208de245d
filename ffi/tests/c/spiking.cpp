// The same network through betz_spiking.hpp: the command's spikes, by steps and by runs; errors are exceptions that name the field.
#include <betz_spiking.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

static void expect(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "spiking.cpp: expected %s\n", what);
    std::abort();
}

static std::string text_of(const char *path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int main() {
    const std::string json = text_of("examples/data/steered.json");
    betz::spiking stepped(json);
    betz::spiking_config config;
    config.threads = 2;
    betz::spiking opened(json, config), run = std::move(opened);
    const betz::spiking_population cells = stepped.population("e");
    expect(cells.number == 1 && cells.first == 4 && cells.count == 24, "24 cells from neuron 4 on");
    expect(stepped.neurons() == 28 && stepped.step_seconds() == 0.0005 && stepped.rounded_weights() == 0, "28 neurons");

    const std::vector<double> currents(cells.count, 7.5);
    const std::vector<std::uint32_t> sources = {0, 2};
    std::size_t spikes = 0;
    stepped.set_currents(cells, currents);
    run.set_currents(cells, currents);
    stepped.emit(sources);
    run.emit(sources);
    for (int step = 0; step < 400; step++) {
        const std::vector<std::uint32_t> fired = stepped.step();
        if (step == 0) expect(fired == sources, "the sources that were named");
        spikes += fired.size();
    }
    run.run(400);
    const betz::spiking_totals all = stepped.totals(), same = run.totals();
    expect(all.steps == 400 && all.spikes == spikes && spikes > 50, "as many spikes as the steps gave");
    expect(same.steps == 400 && same.spikes == all.spikes && same.hash == all.hash, "the same spikes by a run");
    const std::vector<std::uint32_t> counts = run.counts();
    expect(std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == spikes, "counts that add up");

    betz::spiking rewarded(text_of("examples/data/rewarded.json"));
    rewarded.reward(1.0);
    int refused = 0;
    try {
        stepped.reward(1.0);
    } catch (const betz::error &error) {
        refused += std::string(error.what()).find("reward") != std::string::npos;
    }
    try {
        betz::spiking none(std::string_view("{}"));
    } catch (const betz::error &error) {
        refused += std::string(error.what()).find("missing field") != std::string::npos;
    }
    expect(refused == 2, "two exceptions with the field's name");
    std::puts("spiking, C++: ok");
    return 0;
}
