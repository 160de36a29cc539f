#include "bench/stale_suite.h"

#include "bench/stale_cases.h"
#include "bench/stale_memory.h"
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "ops/registry.h"
#include "support/table.h"

#include <fmt/format.h>

#include <ctime>

namespace kumiko::bench {

namespace {

// Workspaces allocated consecutively from one array, so that a kernel gets the same addresses at
// each call.
class Arena {
public:
    static constexpr size_t bytes = size_t(64) << 20;

    Arena() : base_(static_cast<char *>(std::aligned_alloc(64, bytes))) {
        if (!base_) throw UserError("there is no memory for the workspaces of the suite stale (64 MiB)");
        now() = this;
        kumiko_set_memory([](size_t n) { return now()->take(n); }, [](void *block) { now()->give(block); });
    }
    ~Arena() {
        kumiko_set_memory(nullptr, nullptr);
        std::free(base_);
    }
    Arena(const Arena &) = delete;

    // Fills the memory that kernels have used since the arena was created.
    void fill(uint64_t bits) { stale::fill(base_, most_, bits); }

private:
    char *base_;
    size_t used_ = 0, most_ = 0, taken_ = 0;

    static Arena *&now() {
        static Arena *arena;
        return arena;
    }
    void *take(size_t n) {
        const size_t whole = (n + 63) / 64 * 64;
        if (whole > bytes - used_) return nullptr; // the kernel reports that it has no memory
        taken_++;
        char *block = base_ + used_;
        used_ += whole;
        most_ = std::max(most_, used_);
        return block;
    }
    // Blocks are freed in the reverse order, or all of them.
    void give(void *block) {
        if (!block) return;
        used_ = std::min(used_, static_cast<size_t>(static_cast<char *>(block) - base_));
        if (--taken_ == 0) used_ = 0;
    }
};

// Processor time of this thread, which excludes other load.
double thread_seconds() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

StaleRow measure(const StaleCase &c, const Target &target, const BenchOptions &options) {
    StaleRow row;
    row.name = c.title();
    const Op op = ops::make(c.op, c.parameters);
    const Kernel kernel = compile(op, target);
    std::vector<Buffer<>> arrays;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        fill_random_integers(arrays.back(), arrays.size(), -3, 3);
    }
    for (const std::string &out : op.separate_outputs()) arrays.push_back(make_output(op, out, {}));
    std::vector<void *> pointers;
    for (const Buffer<> &b : arrays) pointers.push_back(b.data());
    Arena arena;
    const auto call = [&] {
        if (const int code = kernel.call_raw(pointers.data(), nullptr))
            throw UserError(fmt::format("{} returned {}: {}", row.name, code, kumiko_error()));
    };
    call();
    const auto work = [&](uint64_t bits) {
        return TimedWork(std::function<double(int)>([&, bits](int n) {
            arena.fill(bits);
            stale::fill_stack(bits);
            call();
            const double start = thread_seconds();
            for (int i = 0; i < n; i++) call();
            return thread_seconds() - start;
        }));
    };
    TimerOptions timer;
    timer.budget_seconds = options.budget_seconds;
    const std::vector<Timing> times = time_interleaved({work(stale::zeros.bits), work(stale::denormals.bits)}, timer);
    row.fresh = times[0].median, row.used = times[1].median;
    row.ratio = speedup(times[0], times[1]);
    row.spread = times[0].spread();
    return row;
}

} // namespace

Json StaleRow::json() const {
    Json j = {{"suite", "stale"}, {"case", name}};
    if (!failure.empty()) return j["failure"] = failure, j;
    j["fresh"] = fresh, j["used"] = used, j["ratio"] = ratio, j["spread"] = spread;
    return j;
}

std::vector<StaleRow> run_stale_suite(const Target &target, const BenchOptions &options, const std::string &only,
                                      const std::function<void(const std::string &)> &progress) {
    std::vector<StaleRow> rows;
    kumiko_set_num_threads(1);
    for (const StaleCase &c : stale_cases()) {
        if (c.title().find(only) == std::string::npos) continue;
        if (progress) progress(c.title());
        try {
            rows.push_back(measure(c, target, options));
        } catch (const Unsupported &e) {
            rows.push_back({});
            rows.back().name = c.title(), rows.back().failure = e.what();
        }
    }
    kumiko_set_num_threads(0);
    if (rows.empty()) throw UserError("no case of the suite stale has \"" + only + "\" in its name");
    return rows;
}

std::string stale_suite_text(const std::vector<StaleRow> &rows) {
    Table table({"stale", "fresh us", "used us", "ratio", "spread"});
    const StaleRow *worst = nullptr;
    std::string failures;
    for (const StaleRow &r : rows) {
        if (!r.failure.empty()) {
            failures += r.name + ": " + r.failure + "\n";
            continue;
        }
        table.row({r.name, fmt::format("{:.2f}", 1e6 * r.fresh), fmt::format("{:.2f}", 1e6 * r.used),
                   fmt::format("{:.2f}x", r.ratio), fmt::format("{:.1f} %", 100 * r.spread)});
        if (!worst || r.ratio > worst->ratio) worst = &r;
    }
    std::string text = table.text() + failures;
    if (worst) text += fmt::format("worst ratio: {:.2f} ({})\n", worst->ratio, worst->name);
    return text;
}

} // namespace kumiko::bench
