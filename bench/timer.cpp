#include "bench/timer.h"

#include "support/duration.h"

#include <algorithm>
#include <cmath>
#include <thread>

namespace kumiko::bench {

namespace {

double quantile(const std::vector<double> &sorted, double q) {
    double at = q * static_cast<double>(sorted.size() - 1);
    auto low = static_cast<size_t>(at);
    size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

double sample(const TimedWork &work, int repeats) {
    if (work.timed) return work.timed(repeats) / repeats;
    Stopwatch watch;
    for (int r = 0; r < repeats; r++) work.run();
    return watch.seconds() / repeats;
}

} // namespace

Timing summarize(std::vector<double> samples) {
    Timing t;
    t.samples = samples;
    std::sort(samples.begin(), samples.end());
    t.median = quantile(samples, 0.5);
    t.min = samples.front();
    t.p10 = quantile(samples, 0.1);
    t.p90 = quantile(samples, 0.9);
    return t;
}

double speedup(const Timing &ours, const Timing &theirs) {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(ours.samples.size(), theirs.samples.size()); i++) {
        ratios.push_back(theirs.samples[i] / ours.samples[i]);
    }
    return ratios.empty() ? 0 : summarize(ratios).median;
}

std::vector<Timing> time_interleaved(const std::vector<TimedWork> &work, const TimerOptions &options) {
    std::vector<int> repeats(work.size());
    double slowest = options.sample_seconds;
    for (size_t i = 0; i < work.size(); i++) {
        work[i].run(); // touches pages and code for the first time
        // The faster of two counts, so that an interruption does not shrink the sample.
        double once = std::max(std::min(sample(work[i], 1), sample(work[i], 1)), 1e-9);
        auto count = [&] { return static_cast<int>(std::clamp(std::ceil(options.sample_seconds / once), 1.0, 1e8)); };
        repeats[i] = count();
        if (repeats[i] > 100) { // a single run is too short for the clock
            once = std::max(sample(work[i], repeats[i] / 10), 1e-10);
            repeats[i] = count();
        }
        slowest = std::max(slowest, once * repeats[i]);
    }
    int rounds =
        std::max(options.min_rounds, std::min(options.max_rounds, static_cast<int>(options.budget_seconds / slowest)));
    std::vector<std::vector<double>> samples(work.size());
    for (int round = 0; round < rounds; round++) {
        for (size_t turn = 0; turn < work.size(); turn++) {
            size_t i = round % 2 ? work.size() - 1 - turn : turn;
            if (options.pause_seconds > 0) {
                std::this_thread::sleep_for(std::chrono::duration<double>(options.pause_seconds));
            }
            if (!work[i].timed) work[i].run();
            samples[i].push_back(sample(work[i], repeats[i]));
        }
    }
    std::vector<Timing> out;
    for (size_t i = 0; i < work.size(); i++) {
        out.push_back(summarize(samples[i]));
        out.back().repeats = repeats[i];
    }
    return out;
}

} // namespace kumiko::bench
