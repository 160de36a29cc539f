// One op at one shape: our kernels and the peers' timed alternately.
#include "bench/contest.h"
#include "bench/suite.h"

#include "autotune/database.h"
#include "autotune/tune.h"
#include "autotune/work.h"
#include "bench/peak.h"
#include "driver/default_schedule.h"
#include "ops/registry.h"
#include "ops/winograd.h"
#include "runtime/kumiko_runtime.h"
#include "schedules/library/table.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::bench {

namespace {

void add_halide(Contest &contest, const Schedule &schedule, BenchRow &row) {
    try {
        contest.add_ours("Halide", schedule, true);
    } catch (const Unsupported &e) {
        row.remarks.push_back(std::string("Halide's code generator is missing: ") + e.what());
    }
}

bool convolves(const BenchCase &c) { return c.op.find("conv2d") != std::string::npos; }

// The default schedule; for a convolution one that takes pre-packed weights, as the peers do, if
// there is one.
Schedule plain_schedule(const BenchCase &c, const Op &op, const Machine &machine) {
    if (c.ahead) return default_schedule(op, machine, PackedBy::Caller);
    const LibraryTemplate *fits = library::find_template(op, machine);
    const bool packs = convolves(c) && fits->packs_ahead && fits->packs_ahead(op);
    const auto space = fits->make_space(op, machine, packed_by(packs));
    return space->schedule(space->default_point());
}

// The record in the database, for the same number of threads; for a convolution preferably with
// pre-packed weights.
std::optional<Record> tuned_record(const BenchCase &c, const Op &op, const Machine &machine,
                                   const BenchOptions &options) {
    const Database known(options.database, Database::Mode::Read);
    BestOptions wanted{.threads = options.threads, .ahead = c.ahead || convolves(c)};
    auto found = known.best(task_key(op, machine, wanted), machine);
    if (found || c.ahead) return found;
    wanted.ahead = false;
    return known.best(task_key(op, machine, wanted), machine);
}

// The op by Winograd's algorithm, if profitable (ops/winograd.h).
std::optional<Op> by_winograd(const BenchCase &c, const char *layout) {
    if (c.op != "conv2d" || c.parameters.at("kh") != 3 || c.parameters.at("kw") != 3 ||
        c.parameters.at("type") != "f32" || c.parameters.at("layout") != "nchw")
        return {};
    const auto number = [&](const char *name) { return c.parameters.at(name).get<int64_t>(); };
    const int64_t stride = number("stride");
    const auto results = [&](const char *size) { return (number(size) + 2 * number("padding") - 3) / stride + 1; };
    const int64_t height = results("h"), width = results("w");
    const int best = ops::winograd_tile(number("n"), number("c"), number("o"), height, width, stride);
    if (best == 0) return {};
    Json p = {{"tile", best}};
    const ops::Operator faster = ops::find_operator("winograd_conv2d"), given = ops::find_operator(c.op);
    for (const ops::Parameter &q : given.parameters) {
        const Json &value = c.parameters.at(q.name);
        const auto same = [&](const ops::Parameter &its) { return its.name == q.name; };
        if (std::any_of(faster.parameters.begin(), faster.parameters.end(), same))
            p[q.name] = value;
        else if (q.name != "kh" && q.name != "kw" && value != q.otherwise)
            return {}; // other options are unsupported
    }
    p["layout"] = layout;
    return ops::make(faster.name, p);
}

// The largest difference between two of our results, relative to the largest result.
double error_between(const Buffer<> &a, const Buffer<> &b) {
    if (Type(a.type()) != Float(32) || Type(b.type()) != Float(32) || a.number_of_elements() != b.number_of_elements())
        throw InternalError("ways to compute one case have results of different shapes or types");
    const auto *x = reinterpret_cast<const float *>(a.data()), *y = reinterpret_cast<const float *>(b.data());
    double difference = 0, largest = 0;
    for (size_t i = 0; i < a.number_of_elements(); i++) {
        const double d = std::abs(double(x[i]) - double(y[i]));
        if (std::isnan(d)) return NAN;
        difference = std::max(difference, d);
        largest = std::max(largest, std::abs(double(y[i])));
    }
    return largest > 0 ? difference / largest : 0;
}

// A convolution with channels last: our own layout, as the peers have theirs.
std::optional<Op> channels_last(const BenchCase &c) {
    if (c.op != "conv2d" && c.op != "depthwise_conv2d") return {};
    Json p = c.parameters;
    if (p.at("layout") != "nchw") return {};
    p["layout"] = "nhwc";
    return ops::make(c.op, p);
}

const char *const direct = "direct", *const tuned = "tuned", *const winograd = "Winograd",
                  *const own_layout = "own layouts", *const own_winograd = "Winograd, own layouts";

// Our ways to compute a case; their contestants are those from 1 on: the op's default schedule
// first, the tuned one last.
struct Ours {
    std::vector<std::string> ways;
    bool tuned = false;
};

// Adds the default schedule and the tuned one, if the database has it; otherwise, for convolutions,
// Winograd's if profitable, and both in our own layout. Unsupported is recorded in row.failure.
Ours add_ours(Contest &contest, const Target &target, const BenchOptions &options, BenchRow &row) {
    Ours ours;
    const auto add = [&](const char *way, const Schedule &schedule) {
        contest.add_ours(way, schedule);
        ours.ways.push_back(way);
    };
    const auto add_other = [&](const char *way, const std::optional<Op> &op) {
        try {
            if (op) add(way, plain_schedule(contest.bench_case(), *op, target.machine));
        } catch (const Unsupported &e) {
            row.remarks.push_back(fmt::format("{}, {}: {}", row.name, way, e.what()));
        }
    };
    try {
        const Schedule plain = plain_schedule(contest.bench_case(), contest.op(), target.machine);
        add(convolves(contest.bench_case()) ? direct : "default", plain);
        const auto faster = by_winograd(contest.bench_case(), "nchw"), turned = channels_last(contest.bench_case());
        if (options.database.empty() && !options.halide) {
            add_other(winograd, faster);
            add_other(own_layout, turned);
            add_other(own_winograd, by_winograd(contest.bench_case(), "nhwc"));
        } else if (faster || turned) {
            row.remarks.push_back(
                "only direct convolutions of NCHW, because a database or Halide's generator was requested");
        }
        std::optional<Schedule> best;
        if (!options.database.empty()) {
            if (const auto found = tuned_record(contest.bench_case(), contest.op(), target.machine, options)) {
                best = found->schedule(contest.op());
                add(tuned, *best);
                ours.tuned = true;
            } else {
                row.remarks.push_back(fmt::format("not in {} for {} thread{}", options.database, options.threads,
                                                  options.threads == 1 ? "" : "s"));
            }
        }
        if (options.halide) add_halide(contest, best ? *best : plain, row);
    } catch (const Unsupported &e) {
        row.failure = e.what();
    }
    return ours;
}

// Products and convolutions are rated by their operations, however small; matrix–vector products by
// their bytes.
bool counts_operations(const BenchCase &c, const Work &work) {
    if (c.op == "conv2d" || c.op == "depthwise_conv2d") return true;
    if (c.op == "matmul" && c.parameters.at("m") != 1 && c.parameters.at("n") != 1) return true;
    return measured_by_operations(work);
}

// Whether the arrays exceed the caches, so that each run reloads them.
bool exceeds_caches(const Work &work, const Machine &machine) {
    int64_t largest = 0;
    for (size_t i = 0; i + 1 < machine.memory.size(); i++) // the last level is not a cache
        largest = std::max(largest, machine.memory[i].bytes);
    return work.bytes > 2 * static_cast<double>(largest);
}

// The machine's limit for this kind of work. A vector holds half as many float64.
CountedWork peak_of(const Op &op, bool by_operations, int threads) {
    if (!by_operations) return copy_bandwidth(threads);
    const Type t = op.inputs()[0].type;
    if (t.is_int_or_uint() && t.bits() == 8) return dot_peak(DotType::Bytes, threads);
    if (t == BFloat(16)) return dot_peak(DotType::Halves, threads);
    CountedWork peak = fma_peak(threads);
    if (t == Float(64)) peak.flops /= 2;
    return peak;
}

// The fastest of the contestants that `among` admits; 0: none.
size_t fastest(
    const std::vector<Timing> &timings, size_t first, size_t past,
    const std::function<bool(size_t)> &among = [](size_t) { return true; }) {
    size_t best = 0;
    for (size_t i = first; i < past; i++) {
        if (among(i) && (!best || timings[i].median < timings[best].median)) best = i;
    }
    return best;
}

// Sets the rates of peers and the best one; `first` is the first contestant that is not ours.
void fill_peers(BenchRow &row, const Contest &contest, const std::vector<Timing> &timings, size_t ours, size_t first,
                double amount) {
    double fast = 0;
    for (size_t i = first; i < contest.pieces.size(); i++) {
        const Piece &p = contest.pieces[i];
        row.peers[p.name] = amount / timings[i].median;
        if (!p.note.empty()) row.peer_notes[p.name] = p.note;
        if (fast == 0 || timings[i].p10 < fast) fast = timings[i].p10;
    }
    const size_t best = fastest(timings, first, contest.pieces.size());
    if (!best) return;
    row.best_peer = contest.pieces[best].name;
    if (ours) row.ratio = speedup(timings[ours], timings[best]), row.fast_ratio = fast / timings[ours].p10;
    if (row.tuned) row.default_ratio = speedup(timings[1], timings[best]);
}

// Sets the rates of our ways and the best one, and, if layouts differ, the comparison of those that
// keep the given layout.
void fill_ways(BenchRow &row, const Contest &contest, const std::vector<Timing> &timings, const Ours &ours,
               size_t first, double amount) {
    const auto given = [&](size_t i) { return !contest.pieces[i].name.ends_with(own_layout); };
    for (size_t w = 0; w < ours.ways.size(); w++) {
        row.ways[ours.ways[w]] = amount / timings[1 + w].median;
        if (!ours.ways[w].starts_with(winograd)) continue;
        contest.pieces[1 + w].collect();
        const double error = error_between(contest.pieces[1 + w].output, contest.pieces[1].output);
        if (!(error <= row.error) && !std::isnan(row.error)) row.error = error;
    }
    if (!row.ways.count(own_layout)) return;
    const size_t mine = fastest(timings, 1, first, given), theirs = fastest(timings, first, timings.size(), given);
    if (mine && theirs) row.given_ratio = speedup(timings[mine], timings[theirs]);
}

} // namespace

// For tables and sliced arrays only the elements that the result uses count.
CaseWork work_of(const BenchCase &c, const Op &op) {
    CaseWork w{count_work(op, {}), false, "", 0};
    if (c.op == "gather" || c.op == "embedding" || c.op == "slice") {
        const Input &source = op.inputs()[0];
        double whole = source.type.bytes();
        for (const Axis &a : source.axes) whole *= static_cast<double>(*Halide::Internal::as_const_int(a.extent()));
        if (whole > w.work.output_bytes) w.work.bytes -= whole - w.work.output_bytes;
    }
    w.by_operations = counts_operations(c, w.work);
    w.unit = !w.by_operations ? "GB/s" : op.inputs()[0].type.is_float() ? "GFLOP/s" : "GOP/s";
    w.amount = (w.by_operations ? w.work.operations : w.work.bytes) * 1e-9;
    return w;
}

BenchRow run_case(const BenchCase &c, const Target &target, const BenchOptions &options) {
    kumiko_set_num_threads(options.threads);
    Contest contest(c, target, options);
    const auto [work, by_operations, unit, amount] = work_of(c, contest.op());
    BenchRow row;
    row.suite = c.suite, row.name = c.name, row.threads = options.threads, row.unit = unit;

    // Contestants: the peak, our ways, possibly Halide's code for one of them, then the peers.
    const CountedWork peak = peak_of(contest.op(), by_operations, options.threads);
    contest.pieces.push_back({"peak", "", peak.run, [] {}, {}});
    const Ours ways = add_ours(contest, target, options, row);
    const bool failed = !row.failure.empty();
    // The first that is not ours.
    const size_t first = failed ? contest.pieces.size() : 1 + ways.ways.size();
    if (options.peers) contest.add_peers();

    TimerOptions timer;
    timer.budget_seconds = options.budget_seconds;
    timer.pause_seconds = options.threads > 1 && contest.pieces.size() > first ? 0.005 : 0;
    std::vector<TimedWork> works;
    for (const Piece &p : contest.pieces) works.push_back(p.work);
    const std::vector<Timing> timings = time_interleaved(works, timer);
    if (options.check && !failed) row.wrong = contest.differences();

    // The peak uses its fastest sample, since it is a bound.
    if (by_operations || exceeds_caches(work, target.machine))
        row.peak = (by_operations ? peak.flops : peak.bytes) * 1e-9 / timings[0].min;
    size_t ours = 0;
    if (!failed) {
        ours = ways.tuned ? first - 1 : fastest(timings, 1, first);
        row.tuned = ways.tuned;
        row.seconds = timings[ours].median;
        row.ours = amount / timings[ours].median;
        row.untuned = amount / timings[1].median;
        row.way = ways.ways[ours - 1];
        row.spread = timings[ours].spread();
        row.of_peak = row.peak > 0 ? row.ours / row.peak : 0;
        fill_ways(row, contest, timings, ways, first, amount);
    } else {
        row.remarks.push_back(c.name + ": " + row.failure);
    }
    fill_peers(row, contest, timings, ours, first, amount);
    row.remarks.insert(row.remarks.end(), contest.remarks.begin(), contest.remarks.end());
    return row;
}

} // namespace kumiko::bench
