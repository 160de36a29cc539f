#include "bench/own_ops_suite.h"

#include "autotune/tune.h"
#include "bench/halide_peer.h"
#include "bench/known.h"
#include "bench/own_ops/loops.h"
#include "bench/own_ops/onnx.h"
#include "driver/kernel.h"
#include "dsl/inout.h"
#include "runtime/kumiko_runtime.h"
#include "support/names.h"
#include "support/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <optional>
#include <set>

namespace kumiko::bench {

namespace {

constexpr double check_seconds = 0.1; // for interpreting each op
constexpr double surely_faster = 1.05;
constexpr int halide_seconds = 60; // for each search for a schedule

// Processor time of this thread.
double processor_seconds() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A kernel, a loop or a peer, with its own outputs and in-place tensors.
struct Contestant {
    double OwnOpRow::*seconds = nullptr;
    std::function<void(void **)> call;
    std::function<double(int)> timed; // for work in another process; as TimedWork::timed
    std::vector<Buffer<>> arguments;
    std::vector<void *> arrays;
    nlohmann::json schedule; // null for the loop
};

class OwnOpRun {
public:
    OwnOpRun(const OwnOp &own, const Target &target) : own_(own), op_(own.op()), target_(target) {
        row_.name = own.name;
        inputs_ = make_inputs(own_, op_);
    }

    void add_default() {
        const Kernel kernel = compile(op_, target_);
        row_.schedule = kernel.report().schedule;
        add_kernel(&OwnOpRow::plain_default, kernel, nullptr);
    }
    void add(double OwnOpRow::*seconds, const Schedule &s) { add_kernel(seconds, compile(s, target_), s.to_json()); }
    void add_hand() {
        Schedule s(op_, target_.machine);
        own_.hand(s);
        add(&OwnOpRow::hand, s);
    }
    void add_loop(CompiledLoops::Function loop) {
        add_contestant(&OwnOpRow::loop, [loop](void **arrays) { loop(arrays); });
    }

    // Adds the faster of the forms that Halide accepts and that compute the same. If there is none,
    // the row says why.
    void add_halide() {
        std::shared_ptr<HalidePeer> fastest;
        double least = 0;
        const std::vector<Stage> &stages = op_.stages();
        const bool bounded = std::any_of(stages.begin(), stages.end(), [](const Stage &s) { return s.bounded; });
        for (const bool domain_conditions : {true, false}) {
            if (!domain_conditions && !bounded) break;
            try {
                HalideForm form;
                form.domain_conditions = domain_conditions;
                const auto peer = std::make_shared<HalidePeer>(op_, form, halide_seconds);
                Contestant theirs = checked_peer([&](void **arrays) { peer->call(arrays); });
                const double start = processor_seconds();
                for (int i = 0; i < 10; i++) peer->call(theirs.arrays.data());
                const double seconds = processor_seconds() - start;
                if (!fastest || seconds < least) fastest = peer, least = seconds;
            } catch (const std::exception &e) {
                row_.no_halide = e.what();
            }
        }
        if (!fastest) return;
        row_.no_halide.clear();
        row_.halide_beam = fastest->beam();
        add_contestant(&OwnOpRow::halide, [fastest](void **arrays) { fastest->call(arrays); });
    }

    // Does nothing if the op has no graph. If ONNX Runtime's result differs from ours, which
    // `interpret` and the loop confirm, the row has a note instead of its time. Throws UserError if
    // ONNX Runtime rejects the graph, or ours is wrong.
    void add_onnxruntime(const std::shared_ptr<PythonPeer> &process) {
        if (!has_onnx_graph(own_)) return;
        if (!process->reason().empty()) {
            row_.no_onnxruntime = process->reason();
            return;
        }
        const auto session = make_onnx_session(process, own_, op_, inputs_);
        const auto call = [session, first = inputs_.size(), outputs = op_.outputs().size()](void **arrays) {
            session->run(0);
            session->collect(std::vector<void *>(arrays + first, arrays + first + outputs));
        };
        try {
            checked_peer(call);
        } catch (const UserError &e) {
            check();
            row_.no_onnxruntime = fmt::format("{} has other results there, {}", own_.name, e.what());
            return;
        }
        add_contestant(&OwnOpRow::onnxruntime, call);
        contestants_.back().timed = [session](int n) { return session->run(n, OnnxSession::Clock::Processor); };
    }

    // Compares the first contestant with `interpret`, and the others with the first, each after one
    // call.
    void check() {
        for (Contestant &c : contestants_) {
            reset(c);
            c.call(c.arrays.data());
        }
        const std::vector<Buffer<>> first = output_arrays(op_, contestants_.front().arguments);
        check_outputs(own_, op_, inputs_, first, check_seconds);
        for (size_t i = 1; i < contestants_.size(); i++)
            check_same(own_, output_arrays(op_, contestants_[i].arguments), first);
    }

    OwnOpRow time(double budget_seconds) {
        std::vector<TimedWork> work;
        for (Contestant &c : contestants_) {
            if (c.timed) {
                work.push_back(TimedWork(c.timed));
                continue;
            }
            work.push_back(TimedWork(std::function<double(int)>([&c](int n) {
                c.call(c.arrays.data());
                const double start = processor_seconds();
                for (int i = 0; i < n; i++) c.call(c.arrays.data());
                return processor_seconds() - start;
            })));
        }
        TimerOptions timer;
        timer.budget_seconds = budget_seconds;
        times_ = time_interleaved(work, timer);
        const Timing *loop = nullptr, *tuned = nullptr, *halide = nullptr, *onnxruntime = nullptr, *best = &times_[0];
        for (size_t i = 0; i < times_.size(); i++) {
            row_.*contestants_[i].seconds = times_[i].median;
            if (contestants_[i].seconds == &OwnOpRow::loop) loop = &times_[i];
            if (contestants_[i].seconds == &OwnOpRow::tuned) tuned = &times_[i];
            if (contestants_[i].seconds == &OwnOpRow::halide)
                halide = &times_[i];
            else if (contestants_[i].seconds == &OwnOpRow::onnxruntime)
                onnxruntime = &times_[i];
            else if (times_[i].median < best->median)
                best = &times_[i];
        }
        row_.best = best->median;
        row_.default_to_best = speedup(times_[0], *best);
        if (loop) row_.default_to_loop = speedup(times_[0], *loop);
        if (tuned) row_.tuned_to_best = speedup(*tuned, *best);
        if (tuned && loop) row_.tuned_to_loop = speedup(*tuned, *loop);
        if (halide) row_.default_to_halide = speedup(times_[0], *halide);
        if (onnxruntime) row_.default_to_onnxruntime = speedup(times_[0], *onnxruntime);
        row_.spread = times_[0].spread();
        return row_;
    }

    // Keeps the tuned schedule if it is the fastest. Hand schedules need no file.
    void keep(KnownSchedules &known, int trials) const {
        if (row_.tuned == 0) return;
        for (const double other : {row_.plain_default, row_.hand, row_.known}) {
            if (other > 0 && row_.tuned * surely_faster > other) return;
        }
        for (const Contestant &c : contestants_) {
            if (c.seconds == &OwnOpRow::tuned) known.keep(own_.name, op_, target_.machine, c.schedule, trials);
        }
    }

    const Op &op() const { return op_; }

private:
    const OwnOp &own_;
    Op op_;
    const Target &target_;
    std::vector<Buffer<>> inputs_;
    std::vector<Contestant> contestants_;
    std::vector<Timing> times_;
    OwnOpRow row_;

    void add_kernel(double OwnOpRow::*seconds, const Kernel &kernel, const nlohmann::json &schedule) {
        add_contestant(
            seconds,
            [kernel, name = own_.name](void **arrays) {
                if (const int code = kernel.call_raw(arrays, nullptr))
                    throw UserError(fmt::format("{} returned {}: {}", name, code, kumiko_error()));
            },
            schedule);
    }
    void add_contestant(double OwnOpRow::*seconds, std::function<void(void **)> call,
                        const nlohmann::json &schedule = nullptr) {
        Contestant c{seconds, std::move(call), {}, {}, {}, schedule};
        reset(c);
        contestants_.push_back(std::move(c));
    }
    // Arrays after one call of the peer. Throws UserError if the first contestant's results differ.
    Contestant checked_peer(const std::function<void(void **)> &call) const {
        Contestant ours = contestants_.front(), theirs;
        reset(ours), reset(theirs);
        ours.call(ours.arrays.data()), call(theirs.arrays.data());
        check_same(own_, output_arrays(op_, theirs.arguments), output_arrays(op_, ours.arguments));
        return theirs;
    }
    void reset(Contestant &c) const {
        c.arguments = make_arguments(op_, inputs_);
        c.arrays.clear();
        for (const Buffer<> &b : c.arguments) c.arrays.push_back(b.data());
    }
};

std::optional<Record> tuned_record(const Op &op, const Target &target, const std::string &database, int trials) {
    if (trials > 0) {
        TuneOptions tuning;
        tuning.threads = 1;
        tuning.trials = trials;
        tuning.database = database;
        return tune(op, target, tuning);
    }
    if (database.empty()) return std::nullopt;
    return best(op, target, database, {.threads = 1});
}

// The op with other sizes. Smaller ones are rejected, since inputs may contain indices up to a
// size.
OwnOp with_sizes(OwnOp own, const Sizes &sizes) {
    for (const auto &[name, value] : sizes) {
        const auto size = own.sizes.find(name);
        if (size == own.sizes.end()) {
            std::vector<std::string> names;
            for (const auto &[n, v] : own.sizes) names.push_back(n);
            throw UserError(
                fmt::format("{} of the suite own-ops has no size {}; it has {}", own.name, name, quoted_list(names)));
        }
        if (value < size->second)
            throw UserError(fmt::format("size {} of {} is {}; in the suite own-ops it is at least {}", name, own.name,
                                        value, size->second));
        size->second = value;
    }
    return own;
}

std::string milliseconds(double seconds) { return seconds > 0 ? fmt::format("{:.4f}", 1e3 * seconds) : "-"; }
std::string ratio(double r) { return r > 0 ? fmt::format("{:.2f}", r) : "-"; }

} // namespace

Json OwnOpRow::json() const {
    Json j = {{"suite", "own-ops"}, {"case", name}, {"threads", 1}};
    if (!failure.empty()) return j["failure"] = failure, j;
    const auto number = [](double x) { return x > 0 ? Json(x) : Json(nullptr); };
    j["schedule"] = schedule;
    j["default_ms"] = number(1e3 * plain_default), j["hand_ms"] = number(1e3 * hand);
    j["ofast_ms"] = number(1e3 * loop), j["tuned_ms"] = number(1e3 * tuned);
    j["known_ms"] = number(1e3 * known), j["best_known_ms"] = number(1e3 * best);
    j["ofast"] = number(default_to_loop), j["best_known"] = number(default_to_best);
    j["tuned_ofast"] = number(tuned_to_loop), j["tuned_best_known"] = number(tuned_to_best);
    if (halide > 0)
        j["halide_ms"] = number(1e3 * halide), j["halide"] = number(default_to_halide), j["halide_beam"] = halide_beam;
    if (!no_halide.empty()) j["no_halide"] = no_halide;
    if (onnxruntime > 0)
        j["onnxruntime_ms"] = number(1e3 * onnxruntime), j["onnxruntime"] = number(default_to_onnxruntime);
    if (!no_onnxruntime.empty()) j["no_onnxruntime"] = no_onnxruntime;
    j["spread"] = spread;
    return j;
}

std::vector<OwnOpRow> run_own_ops_suite(const Target &target, const BenchOptions &options,
                                        const OwnOpsOptions &own_options,
                                        const std::function<void(const std::string &)> &progress) {
    std::vector<OwnOp> resized;
    for (const OwnOp &own : own_ops()) {
        if (own.name.find(own_options.only) != std::string::npos) resized.push_back(with_sizes(own, own_options.sizes));
    }
    if (resized.empty()) throw UserError("no op of the suite own-ops has \"" + own_options.only + "\" in its name");
    std::vector<const OwnOp *> chosen;
    for (const OwnOp &own : resized) chosen.push_back(&own);
    const auto say = [&](const std::string &what) {
        if (progress) progress(what);
    };
    say("compiling plain loops");
    const CompiledLoops loops(chosen);
    if (!loops.failure().empty()) say(loops.failure());
    std::shared_ptr<PythonPeer> onnxruntime;
    if (options.peers && std::any_of(chosen.begin(), chosen.end(), [](const OwnOp *o) { return has_onnx_graph(*o); })) {
        onnxruntime = std::make_shared<PythonPeer>(PythonPeer::Library::OnnxRuntime);
        if (!onnxruntime->reason().empty()) say("without ONNX Runtime: " + onnxruntime->reason());
    }
    KnownSchedules known(own_options.known);
    std::vector<OwnOpRow> rows;
    kumiko_set_num_threads(1);
    for (const OwnOp *own : chosen) {
        say(own->name);
        try {
            OwnOpRun run(*own, target);
            run.add_default();
            if (own->hand) run.add_hand();
            if (const auto loop = loops.find(own->name)) run.add_loop(loop);
            if (const auto record = tuned_record(run.op(), target, options.database, own_options.explore))
                run.add(&OwnOpRow::tuned, record->schedule(run.op()));
            if (const Json *entry = known.find(own->name, run.op(), target.machine))
                run.add(&OwnOpRow::known,
                        Schedule::from_json(run.op(), target.machine, nlohmann::json((*entry)["schedule"])));
            if (options.halide) run.add_halide();
            if (onnxruntime) run.add_onnxruntime(onnxruntime);
            if (options.check) run.check();
            rows.push_back(run.time(options.budget_seconds));
            run.keep(known, own_options.explore);
        } catch (const std::exception &e) {
            rows.push_back({});
            rows.back().name = own->name, rows.back().failure = e.what();
        }
    }
    kumiko_set_num_threads(0);
    return rows;
}

std::string own_ops_suite_text(const std::vector<OwnOpRow> &rows) {
    const auto any = [&](double OwnOpRow::*seconds) {
        return std::any_of(rows.begin(), rows.end(), [&](const OwnOpRow &r) { return r.*seconds > 0; });
    };
    const bool tuned = any(&OwnOpRow::tuned), known = any(&OwnOpRow::known), halide = any(&OwnOpRow::halide),
               onnxruntime = any(&OwnOpRow::onnxruntime);
    std::vector<std::string> headings = {"own-ops", "schedule", "default ms", "hand ms", "Ofast ms"};
    if (tuned) headings.push_back("tuned ms");
    if (known) headings.push_back("known ms");
    if (halide) headings.push_back("Halide ms");
    if (onnxruntime) headings.push_back("ONNX ms");
    headings.insert(headings.end(), {"of Ofast", "of best"});
    if (halide) headings.push_back("of Halide");
    if (onnxruntime) headings.push_back("of ONNX");
    if (tuned) headings.insert(headings.end(), {"tuned of Ofast", "tuned of best"});
    headings.push_back("spread");
    Table table(headings);
    std::string failures;
    for (const OwnOpRow &r : rows) {
        if (!r.failure.empty()) {
            failures += r.name + ": " + r.failure + "\n";
            continue;
        }
        std::vector<std::string> cells = {r.name, r.schedule, milliseconds(r.plain_default), milliseconds(r.hand),
                                          milliseconds(r.loop)};
        if (tuned) cells.push_back(milliseconds(r.tuned));
        if (known) cells.push_back(milliseconds(r.known));
        if (halide) cells.push_back(milliseconds(r.halide));
        if (onnxruntime) cells.push_back(milliseconds(r.onnxruntime));
        cells.insert(cells.end(), {ratio(r.default_to_loop), ratio(r.default_to_best)});
        if (halide) cells.push_back(ratio(r.default_to_halide));
        if (onnxruntime) cells.push_back(ratio(r.default_to_onnxruntime));
        if (tuned) cells.insert(cells.end(), {ratio(r.tuned_to_loop), ratio(r.tuned_to_best)});
        cells.push_back(fmt::format("{:.0f} %", 100 * r.spread));
        table.row(cells);
    }
    for (const OwnOpRow &r : rows) {
        if (!r.no_halide.empty()) failures += r.name + " without Halide: " + r.no_halide + "\n";
    }
    std::set<std::string> reasons; // usually one for all ops
    for (const OwnOpRow &r : rows) {
        if (!r.no_onnxruntime.empty()) reasons.insert(r.no_onnxruntime);
    }
    for (const std::string &reason : reasons) failures += "without ONNX Runtime: " + reason + "\n";
    std::string text = table.text() + failures;
    const auto line = [&](const char *what, double OwnOpRow::*figure) {
        double logarithms = 0;
        int count = 0;
        const OwnOpRow *worst = nullptr;
        for (const OwnOpRow &r : rows) {
            if (!(r.*figure > 0)) continue;
            logarithms += std::log(r.*figure), count++;
            if (!worst || r.*figure < worst->*figure) worst = &r;
        }
        if (count > 0)
            text += fmt::format("{}: geometric mean {:.2f} of {} ops, worst {:.2f} ({})\n", what,
                                std::exp(logarithms / count), count, worst->*figure, worst->name);
    };
    line("default relative to the loop by -Ofast", &OwnOpRow::default_to_loop);
    line("default relative to the best known", &OwnOpRow::default_to_best);
    line("default relative to Halide's Adams2019", &OwnOpRow::default_to_halide);
    line("default relative to ONNX Runtime", &OwnOpRow::default_to_onnxruntime);
    line("tuned relative to the loop by -Ofast", &OwnOpRow::tuned_to_loop);
    line("tuned relative to the best known", &OwnOpRow::tuned_to_best);
    return text;
}

} // namespace kumiko::bench
