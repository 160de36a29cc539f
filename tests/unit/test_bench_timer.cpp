// The timer and the measured peaks.
// Sanitized: no
#include "bench/peak.h"
#include "bench/timer.h"

#include <doctest/doctest.h>

#include <atomic>

using namespace kumiko::bench;

TEST_CASE("the timer counts what it runs") {
    int slow = 0, fast = 0;
    auto spin = [](int n, int &count) {
        count++;
        std::atomic<int> sink{0};
        for (int i = 0; i < n; i++) sink.store(i, std::memory_order_relaxed);
    };
    TimerOptions options{.sample_seconds = 1e-4, .budget_seconds = 0.01, .min_rounds = 3, .max_rounds = 5};
    std::vector<Timing> t = time_interleaved({[&] { spin(20000, slow); }, [&] { spin(2000, fast); }}, options);
    CHECK(t[0].samples.size() == t[1].samples.size());
    CHECK(t[0].samples.size() >= 3);
    CHECK(t[0].min <= t[0].median);
    CHECK(t[0].median <= t[0].p90);
    CHECK(slow > 3);
    CHECK(fast > 3);
    Timing s = summarize({4, 1, 3, 2});
    CHECK(s.median == doctest::Approx(2.5));
    CHECK(s.min == 1);
    CHECK(speedup(summarize({1, 2, 4}), summarize({2, 4, 4})) == doctest::Approx(2));
}

TEST_CASE("work that times itself is believed") {
    int runs = 0, measured = 0;
    const TimedWork elsewhere(std::function<double(int)>([&](int times) {
        runs += times;
        return 3e-3 * times; // independent of the clock
    }));
    const TimedWork here([&] { measured++; });
    const std::vector<Timing> t = time_interleaved(std::vector<TimedWork>{elsewhere, here},
                                                   {.budget_seconds = 0.01, .min_rounds = 3, .max_rounds = 3});
    CHECK(t[0].median == doctest::Approx(3e-3));
    CHECK(t[0].repeats == 2); // until a sample takes 4 ms
    CHECK(measured >= 3);
    CHECK(runs >= 6);
}

TEST_CASE("the loops that measure peaks count their work") {
    CountedWork copy = copy_bandwidth(2, 1 << 20);
    copy.run();
    CHECK(copy.bytes == 2 << 20);
    if (fma_vectors().empty()) return;
    CountedWork peak = fma_peak(2);
    peak.run();
    CHECK(peak.flops > 0);
    for (DotType type : {DotType::Bytes, DotType::Halves}) {
        CountedWork dot = dot_peak(type, 2);
        CAPTURE(dot.name);
        dot.run();
        CHECK(dot.flops > 0);
    }
}
