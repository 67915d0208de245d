// A controller: an acquisition thread, a queue, and a decoding thread at a fixed rate.
//
//   controller MODEL [--seconds S] [--cpu N]
//
// The acquisition is simulated at 20 Hz per channel; put your amplifier in its place. The decoding
// thread wakes at absolute deadlines (clock_nanosleep), one per tick of the model: 100 microseconds early to warm
// the caches, and then to decode the tick before. It would hand the estimate to the actuator. Memory is locked and the thread runs under
// SCHED_FIFO where the system permits it; what it does not permit is said and done without.
// Ends after S seconds (default: until SIGINT) with a table of latencies.
#include <betz.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

namespace {

// Set by the signal handler: lock-free, so that a handler may.
std::atomic<bool> running{true};
static_assert(std::atomic<bool>::is_always_lock_free, "the signal handler needs it");

extern "C" void stop(int) { running.store(false, std::memory_order_relaxed); }

// The clock of both threads: tick t lasts from start + t * period.
struct metronome {
    timespec start;
    std::int64_t period_ns;

    // Sleeps until tick `tick` begins; returns how many nanoseconds too late it woke.
    std::int64_t wait_for(std::int64_t tick) const {
        const std::int64_t at = start.tv_nsec + tick * period_ns;
        timespec until = start;
        until.tv_sec += at / 1000000000;
        until.tv_nsec = at % 1000000000;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
        }
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (now.tv_sec - until.tv_sec) * 1000000000 + (now.tv_nsec - until.tv_nsec);
    }
};

// A count of tenths of a microsecond: percentiles without allocation in the loop.
class histogram {
public:
    void add(std::int64_t nanoseconds) {
        const std::size_t bin = nanoseconds < 0 ? 0 : static_cast<std::size_t>(nanoseconds / 100);
        ++bins_[bin < bins_.size() ? bin : bins_.size() - 1];
        ++n_;
        if (nanoseconds > max_) max_ = nanoseconds;
    }

    double quantile_us(double q) const {
        const auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(n_)));
        std::uint64_t sum = 0;
        for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
            sum += bins_[bin];
            if (sum >= rank && rank > 0) {
                return std::fmin(0.1 * static_cast<double>(bin + 1), max_us());
            }
        }
        return 0.0;
    }

    double max_us() const { return static_cast<double>(max_) * 1e-3; }

private:
    std::vector<std::uint64_t> bins_ = std::vector<std::uint64_t>(1000000);
    std::uint64_t n_ = 0;
    std::int64_t max_ = 0;
};

// Gives a thread what it needs to meet deadlines, and reports what the system refused.
void become_real_time(int cpu) {
    sched_param priority{};
    priority.sched_priority = 80;
    if (const int e = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority)) {
        std::fprintf(stderr, "SCHED_FIFO: %s; going on without\n", std::strerror(e));
    }
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<unsigned>(cpu), &set);
        if (const int e = pthread_setaffinity_np(pthread_self(), sizeof set, &set)) {
            std::fprintf(stderr, "CPU %d: %s; going on without\n", cpu, std::strerror(e));
        }
    }
}

// Stands for the amplifier: pushes each tick's spikes when the tick is over, then says so. What it
// throws ends both threads, and is thrown again where they are joined.
void acquire(betz::queue &queue, const betz::model &model, metronome clock,
             std::exception_ptr &failure) try {
    std::mt19937 random(1);
    std::bernoulli_distribution fires(std::fmin(1.0, 20.0 * model.step_seconds()));
    std::vector<betz_spike> spikes;
    spikes.reserve(model.channels());
    for (std::int64_t tick = 0; running.load(std::memory_order_relaxed); ++tick) {
        clock.wait_for(tick + 1);
        spikes.clear();
        for (std::uint32_t channel = 0; channel < model.channels(); ++channel) {
            if (fires(random)) spikes.push_back({tick, channel});
        }
        queue.push(spikes);
        queue.mark(tick);
    }
} catch (...) {
    failure = std::current_exception();
    running = false;
}

struct report {
    histogram wake, age;
    std::uint64_t starved = 0;
    std::int64_t ticks = 0;
    std::exception_ptr failure;
};

// Decodes tick t half a period after it is over: the acquisition has that long to deliver.
void decode(betz::queue &queue, betz::session &session, std::size_t outputs, metronome clock,
            std::int64_t ticks, int cpu, report &report) try {
    become_real_time(cpu);
    std::vector<float> estimate(outputs);
    clock.start.tv_nsec += clock.period_ns / 2;
    metronome early = clock;
    early.start.tv_nsec -= std::min<std::int64_t>(100000, clock.period_ns / 2);
    for (std::int64_t tick = 0; tick != ticks && running.load(std::memory_order_relaxed); ++tick) {
        early.wait_for(tick + 1);
        queue.warm(session);
        report.wake.add(clock.wait_for(tick + 1));
        const betz_queue_state state = queue.state();
        // A tick is decoded at its time, complete or not: late spikes are taken in the next.
        report.starved += state.newest_tick < state.tick;
        if (std::isfinite(state.newest_age_us)) {
            report.age.add(static_cast<std::int64_t>(state.newest_age_us * 1e3));
        }
        queue.step(session, estimate);
        // Here the estimate goes to the actuator.
        ++report.ticks;
    }
} catch (...) {
    report.failure = std::current_exception();
    running = false;
}

int run(const std::string &path, double seconds, int cpu) {
    const betz::model model = betz::model::load(path);
    betz::session_config config;
    config.deadline_us = 100.0;
    betz::session session(model, config);
    // Room for a tenth of a second in which every channel fires at 1 kHz.
    betz::queue queue(std::min(std::size_t{100} * model.channels(), std::size_t{1} << 24));

    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        std::fprintf(stderr, "mlockall: %s; going on without\n", std::strerror(errno));
    }
    metronome clock{};
    clock_gettime(CLOCK_MONOTONIC, &clock.start);
    clock.period_ns = std::llround(model.step_seconds() * 1e9);
    const std::int64_t ticks =
        seconds > 0 ? static_cast<std::int64_t>(seconds / model.step_seconds()) : -1;

    report report;
    std::exception_ptr acquisition_failure;
    std::thread decoding(decode, std::ref(queue), std::ref(session), model.outputs(), clock, ticks,
                         cpu, std::ref(report));
    std::thread acquisition([&] { acquire(queue, model, clock, acquisition_failure); });
    decoding.join();
    running = false;
    acquisition.join();
    for (const std::exception_ptr &failure : {report.failure, acquisition_failure}) {
        if (failure) {
            std::rethrow_exception(failure);
        }
    }

    const betz_stats stats = session.stats();
    std::printf("%u channels, %u outputs, a tick every %g ms: %lld ticks, %llu spikes\n",
                model.channels(), model.outputs(), model.step_seconds() * 1e3,
                static_cast<long long>(report.ticks), static_cast<unsigned long long>(stats.spikes));
    std::printf("%-26s %10s %10s %10s %10s\n", "microseconds", "p50", "p99", "p99.9", "max");
    const auto row = [](const char *name, double p50, double p99, double p99_9, double max) {
        std::printf("%-26s %10.2f %10.2f %10.2f %10.2f\n", name, p50, p99, p99_9, max);
    };
    const auto measured = [&](const char *name, const histogram &h) {
        row(name, h.quantile_us(0.5), h.quantile_us(0.99), h.quantile_us(0.999), h.max_us());
    };
    measured("woken late by", report.wake);
    measured("age of the newest data", report.age);
    row("decoding step", stats.latency_p50_us, stats.latency_p99_us, stats.latency_p99_9_us,
        stats.latency_max_us);
    std::printf("ticks decoded before their data was complete: %llu; spikes late: %llu, dropped: "
                "%llu; steps over %g us: %llu\n",
                static_cast<unsigned long long>(report.starved),
                static_cast<unsigned long long>(stats.late),
                static_cast<unsigned long long>(stats.dropped), config.deadline_us,
                static_cast<unsigned long long>(stats.deadline_misses));
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    std::string path;
    double seconds = 0.0;
    int cpu = -1;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--seconds" && i + 1 < argc) {
            seconds = std::atof(argv[++i]);
        } else if (argument == "--cpu" && i + 1 < argc) {
            cpu = std::atoi(argv[++i]);
        } else if (path.empty() && argument[0] != '-') {
            path = argument;
        } else {
            path.clear();
            break;
        }
    }
    if (path.empty()) {
        std::fprintf(stderr, "usage: controller MODEL [--seconds S] [--cpu N]\n");
        return 2;
    }
    struct sigaction action {};
    action.sa_handler = stop;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    try {
        return run(path, seconds, cpu);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "controller: %s\n", e.what());
        return 1;
    }
}
