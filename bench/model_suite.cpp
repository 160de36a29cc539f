#include "bench/model_suite.h"

#include "bench/model_peers.h"
#include "bench/peak.h"
#include "bench/timer.h"
#include "dsl/buffer_elements.h"
#include "dsl/types.h"
#include "graph/report/model_report.h"
#include "runtime/kumiko_runtime.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

namespace kumiko::bench {

namespace {

constexpr double tolerance = 0.01; // of the largest element of an output
constexpr size_t shown_steps = 12; // of a model
constexpr int step_rounds = 21;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Buffer<> random_input(const graph::ProgramTensor &t, uint32_t seed) {
    Buffer<> b(t.type, t.extents);
    std::minstd_rand draw(seed);
    for_each_element(b.raw_buffer(), [&](const std::vector<int64_t> &, uint8_t *p) {
        const double unit = double(draw() % 65536) / 65536;
        // Whole numbers are small: they are indices, or bytes of an image or text.
        write_element(t.type, p, t.type.is_float() || t.type.is_bfloat() ? 2 * unit - 1 : std::floor(2 * unit));
    });
    return b;
}

// The end of a long text.
std::string shortened(const std::string &text) {
    constexpr size_t most = 48;
    return text.size() <= most ? text : "…" + text.substr(text.size() - most);
}

// The arrays of a program, and its arena.
class ModelRun {
public:
    explicit ModelRun(const graph::CompiledModel &model)
        : model_(model), arena_(size_t(model.program().arena_bytes) + 64) {
        const graph::Program &p = model.program();
        for (size_t n = 0; n < p.inputs.size(); n++) {
            inputs.push_back(random_input(p.inputs[n], uint32_t(n + 1)));
            from_.push_back(inputs[n].data());
        }
        for (const graph::ProgramTensor &o : p.outputs) {
            outputs.emplace_back(o.type, o.extents);
            to_.push_back(outputs.back().data());
        }
        void *place = arena_.data();
        size_t room = arena_.size();
        aligned_ = std::align(64, arena_.size() - 64, place, room);
    }

    void run() {
        if (const int status = model_.run_raw(from_.data(), to_.data(), aligned_))
            throw UserError(
                fmt::format("{}: a kernel failed with code {}: {}", model_.program().name, status, kumiko_error()));
    }

    // `loops`: as of graph::record_run().
    graph::RunTrace record(bool loops) const { return graph::record_run(model_, {from_, to_, aligned_}, loops); }

    // The median seconds of each step over several runs, in the order of for_each_step().
    std::vector<graph::StepSeconds> time_steps() const {
        std::vector<graph::StepSeconds> medians;
        std::vector<std::vector<double>> samples;
        for (int round = 0; round < step_rounds; round++) {
            medians = graph::seconds_of_steps(record(false), count_steps());
            samples.resize(medians.size());
            for (size_t s = 0; s < medians.size(); s++) samples[s].push_back(medians[s].seconds);
        }
        for (size_t s = 0; s < medians.size(); s++) medians[s].seconds = summarize(samples[s]).median;
        return medians;
    }

    std::vector<Buffer<>> inputs, outputs;

private:
    size_t count_steps() const {
        size_t steps = 0;
        graph::for_each_step(model_.program().steps, [&](const graph::Step &) { steps++; });
        return steps;
    }

    const graph::CompiledModel &model_;
    std::vector<uint8_t> arena_;
    void *aligned_ = nullptr;
    std::vector<const void *> from_;
    std::vector<void *> to_;
};

// Throws UserError if an element differs by more than the tolerance.
void check_same(const ModelCase &model, const graph::Program &program, const std::vector<Buffer<>> &ours,
                const std::vector<Buffer<>> &theirs, const char *peer) {
    for (size_t o = 0; o < program.model_outputs; o++) {
        const Buffer<> mine = cut_to_size(program, ours, o);
        if (mine.extents() != theirs[o].extents())
            throw UserError(fmt::format("{}: the output \"{}\" is [{}], and [{}] by {}", model.name,
                                        program.outputs[o].name, fmt::join(mine.extents(), ","),
                                        fmt::join(theirs[o].extents(), ","), peer));
        std::vector<double> a, b;
        const auto into = [](std::vector<double> &to, const Buffer<> &from) {
            for_each_element(from.raw_buffer(), [&](const std::vector<int64_t> &, const uint8_t *p) {
                to.push_back(read_element(from.type(), p));
            });
        };
        into(a, mine), into(b, theirs[o]);
        double largest = 0;
        for (const double v : b) largest = std::max(largest, std::isfinite(v) ? std::abs(v) : 0);
        for (size_t n = 0; n < a.size(); n++) {
            if (a[n] == b[n] || (std::isnan(a[n]) && std::isnan(b[n]))) continue;
            if (!(std::abs(a[n] - b[n]) <= tolerance * largest))
                throw UserError(fmt::format("{}: element {} of output \"{}\" is {}, and {} by {}", model.name, n,
                                            program.outputs[o].name, a[n], b[n], peer));
        }
    }
}

// A peer that takes part, and its row in ModelBenchRow::peers.
struct TimedPeer {
    explicit TimedPeer(PythonPeer::Library library) : process(library) {}
    PythonPeer process;
    std::optional<ModelPeer> model;
    size_t row = 0;
};

// The ratios to one peer.
struct RatioSummary {
    double log_sum = 0, worst = 0;
    int models = 0;
    std::string worst_name;
    void add(const std::string &name, double ratio) {
        if (models == 0 || ratio < worst) worst = ratio, worst_name = name;
        log_sum += std::log(ratio), models++;
    }
};

// A table of the slowest steps, beside the peers' times of the same nodes.
std::string steps_text(const ModelBenchRow &r) {
    std::vector<size_t> order(r.steps.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return r.steps[a].seconds > r.steps[b].seconds; });
    double sum = 0;
    for (const auto &s : r.steps) sum += s.seconds;
    std::vector<std::string> heads = {"step", "ms", "of all"};
    for (const ModelPeerTime &p : r.peers) {
        if (p.not_measured.empty() && !r.other.empty()) heads.push_back(p.name);
    }
    heads.insert(heads.end(), {"operators", "last node"});
    Table slowest(heads);
    for (size_t n = 0; n < std::min(shown_steps, order.size()); n++) {
        const auto &s = r.steps[order[n]];
        std::vector<std::string> cells = {std::to_string(order[n]), fmt::format("{:.3f}", 1e3 * s.seconds),
                                          fmt::format("{:.0f} %", 100 * s.seconds / sum)};
        for (const double seconds : s.peers) cells.push_back(seconds > 0 ? fmt::format("{:.3f}", 1e3 * seconds) : "-");
        cells.insert(cells.end(), {shortened(s.operators), shortened(s.node)});
        slowest.row(cells);
    }
    std::string text = fmt::format("\nthe slowest steps of {}:\n{}", r.name, slowest.text());
    for (size_t n = 0; n < r.other.size(); n++)
        text += fmt::format("{:.3f} ms of {} belong to no step\n", 1e3 * r.other[n], heads[3 + n]);
    return text;
}

} // namespace

std::vector<ModelCase> model_cases() {
    const std::filesystem::path folder = KUMIKO_DEPS "/models";
    std::vector<ModelCase> cases;
    for (const Json &m : load_json(KUMIKO_SOURCE_DIR "/bench/models.json")) {
        ModelCase c{m.at("name"), (folder / m.at("file").get<std::string>()).string(), {}};
        if (!std::filesystem::exists(c.file)) continue;
        for (const auto &[name, size] : m.at("sizes").items()) c.options.sizes[name] = size.get<int64_t>();
        const Json constants = m.value("constants", Json::object());
        for (const auto &[name, value] : constants.items()) {
            Buffer<int64_t> constant{std::vector<int64_t>()};
            constant() = value.get<int64_t>();
            c.options.constants[name] = constant;
        }
        cases.push_back(std::move(c));
    }
    return cases;
}

namespace {

// The times of a row for the page. `numbers`: of the row's steps among all.
graph::ModelTimes times_of(const ModelBenchRow &row, const std::vector<graph::StepSeconds> &steps,
                           const std::vector<size_t> &numbers, int threads) {
    graph::ModelTimes times;
    times.threads = threads, times.seconds = row.seconds;
    for (const graph::StepSeconds &s : steps) times.steps.push_back({s.seconds, s.runs, {}});
    for (size_t s = 0; s < numbers.size(); s++) times.steps[numbers[s]].peers = row.steps[s].peers;
    size_t measured = 0;
    for (const ModelPeerTime &p : row.peers) {
        if (!p.not_measured.empty()) continue;
        times.peers.push_back({p.name, p.seconds, measured < row.other.size() ? row.other[measured] : 0});
        measured++;
    }
    return times;
}

// The clock at which multiply-adds reach their peak now, by the machine's table; 0: unknown.
double measured_clock(int threads) {
    const Machine machine = Machine::host();
    if (machine.fmas_per_cycle <= 0 || machine.vector_bits <= 0) return 0;
    const CountedWork peak = fma_peak(threads);
    const double rate = peak.flops / time_one(TimedWork(peak.run)).median;
    return rate / (2 * machine.fmas_per_cycle * machine.lanes(32) * threads);
}

} // namespace

ModelBenchRow bench_model(const ModelCase &model, int threads, const BenchOptions &options, bool layers,
                          ModelProfile *profile) {
    ModelBenchRow row;
    row.name = model.name;
    kumiko_set_num_threads(threads);
    const auto begin = Clock::now();
    const graph::Model loaded = graph::Model::load(model.file);
    const graph::CompiledModel compiled = graph::CompiledModel::compile(loaded, model.options);
    row.compile_seconds = seconds_since(begin);
    const auto tell = [&](const std::string &phase) {
        if (model.options.progress) model.options.progress(phase, 0, 0);
    };
    tell("loading peers");
    const graph::Program &program = compiled.program();
    row.nodes = loaded.graph().nodes.size(), row.kernels = program.kernels.size();
    row.arena_bytes = program.arena_bytes, row.arena_bound = program.arena_bound;
    for (const Buffer<> &c : program.constants) row.weights_bytes += int64_t(c.size_in_bytes());
    ModelRun ours(compiled);
    ours.run();
    std::vector<TimedWork> work = {TimedWork([&] { ours.run(); })};
    std::vector<std::unique_ptr<TimedPeer>> peers;
    for (const auto library : {PythonPeer::Library::OnnxRuntime, PythonPeer::Library::OpenVino}) {
        if (!options.peers) continue;
        auto peer = std::make_unique<TimedPeer>(library);
        row.peers.push_back({peer->process.name(), 0, 0, peer->process.reason()});
        std::string &reason = row.peers.back().not_measured;
        if (!reason.empty()) continue;
        peer->model.emplace(peer->process, model.file, program, ours.inputs, model.options.constants, threads);
        reason = peer->model->refusal();
        if (!reason.empty()) continue;
        if (options.check)
            check_same(model, program, ours.outputs, peer->model->outputs(program), peer->process.name());
        peer->row = row.peers.size() - 1;
        work.emplace_back(std::function<double(int)>([m = &*peer->model](int n) { return m->run(n); }));
        peers.push_back(std::move(peer));
    }
    TimerOptions timer;
    timer.budget_seconds = std::max(1.0, options.budget_seconds);
    timer.pause_seconds = threads > 1 && !peers.empty() ? 0.005 : 0; // until peers' threads sleep
    tell("timing");
    const std::vector<Timing> times = time_interleaved(work, timer);
    row.seconds = times[0].median, row.spread = times[0].spread();
    const std::vector<graph::StepSeconds> steps = ours.time_steps();
    std::map<const graph::Step *, size_t> number_of;
    graph::for_each_step(program.steps, [&](const graph::Step &s) { number_of.emplace(&s, number_of.size()); });
    std::vector<size_t> numbers; // of the program's own steps among all
    for (const graph::Step &s : program.steps) numbers.push_back(number_of.at(&s));
    for (size_t s = 0; s < numbers.size(); s++)
        row.steps.push_back({graph::step_title(program.steps[s]),
                             program.steps[s].nodes.empty() ? "" : program.steps[s].nodes.back(),
                             steps[numbers[s]].seconds,
                             {}});
    for (size_t n = 0; n < peers.size(); n++) {
        ModelPeerTime &peer = row.peers[peers[n]->row];
        peer.seconds = times[n + 1].median, peer.ratio = speedup(times[0], times[n + 1]);
        if (!layers) continue;
        const auto theirs = seconds_of_steps(peers[n]->model->profile(), loaded.graph(), program);
        for (size_t s = 0; s < row.steps.size(); s++) row.steps[s].peers.push_back(theirs[s]);
        row.other.push_back(theirs.back());
    }
    if (profile) {
        profile->model = compiled;
        profile->times = times_of(row, steps, numbers, threads);
        profile->clock_hz = measured_clock(threads);
        ours.run(); // fills the caches
        profile->trace = ours.record(true);
    }
    return row;
}

double ModelBenchRow::best_ratio() const {
    double best = 0;
    for (const ModelPeerTime &p : peers) {
        if (p.ratio > 0 && (best == 0 || p.ratio < best)) best = p.ratio;
    }
    return best;
}

Json ModelBenchRow::json() const {
    Json j = {{"suite", "models"}, {"case", name}};
    if (!failure.empty()) {
        j["failure"] = failure;
        return j;
    }
    j["nodes"] = nodes, j["kernels"] = kernels, j["compile_seconds"] = compile_seconds;
    j["ours_ms"] = 1e3 * seconds, j["spread"] = spread;
    j["arena_bytes"] = arena_bytes, j["arena_bound_bytes"] = arena_bound, j["weights_bytes"] = weights_bytes;
    Json measured = Json::array();
    for (const ModelPeerTime &p : peers) {
        if (p.not_measured.empty()) {
            j["peers"][p.name] = {{"ms", 1e3 * p.seconds}, {"ratio", p.ratio}};
            measured.push_back(p.name);
        } else {
            j["peers"][p.name] = {{"not_measured", p.not_measured}};
        }
    }
    if (best_ratio() > 0) j["best_ratio"] = best_ratio();
    const auto milliseconds = [&](const std::vector<double> &of_peers) {
        Json all = Json::object();
        for (size_t n = 0; n < of_peers.size(); n++) all[measured[n].get<std::string>()] = 1e3 * of_peers[n];
        return all;
    };
    j["steps"] = Json::array();
    for (const StepTime &s : steps) {
        Json step = {{"operators", s.operators}, {"node", s.node}, {"ms", 1e3 * s.seconds}};
        if (!s.peers.empty()) step["peers_ms"] = milliseconds(s.peers);
        j["steps"].push_back(step);
    }
    if (!other.empty()) j["other_ms"] = milliseconds(other);
    return j;
}

std::string model_suite_text(const std::vector<ModelBenchRow> &rows, bool steps) {
    Table table({"model", "nodes", "steps", "ours ms", "ONNX Runtime", "ratio", "OpenVINO", "ratio", "spread",
                 "arena KiB", "weights KiB", "compile s"});
    std::map<std::string, RatioSummary> summaries; // by peer, and of the best one
    std::string notes;
    for (const ModelBenchRow &r : rows) {
        if (!r.failure.empty()) {
            notes += fmt::format("{}: not measured: {}\n", r.name, r.failure);
            continue;
        }
        std::vector<std::string> cells = {r.name, std::to_string(r.nodes), std::to_string(r.steps.size()),
                                          fmt::format("{:.3f}", 1e3 * r.seconds)};
        for (size_t p = 0; p < 2; p++) {
            const bool there = p < r.peers.size() && r.peers[p].ratio > 0;
            cells.push_back(there ? fmt::format("{:.3f}", 1e3 * r.peers[p].seconds) : "-");
            cells.push_back(there ? fmt::format("{:.2f}", r.peers[p].ratio) : "-");
        }
        cells.insert(cells.end(), {fmt::format("{:.0f} %", 100 * r.spread), std::to_string(r.arena_bytes / 1024),
                                   std::to_string(r.weights_bytes / 1024), fmt::format("{:.1f}", r.compile_seconds)});
        table.row(cells);
        for (const ModelPeerTime &p : r.peers) {
            if (!p.not_measured.empty())
                notes += fmt::format("{}: without {}: {}\n", r.name, p.name, p.not_measured);
            else
                summaries[p.name].add(r.name, p.ratio);
        }
        if (r.best_ratio() > 0) summaries["the faster of them"].add(r.name, r.best_ratio());
    }
    std::string text = table.text() + notes;
    for (const auto &[peer, summary] : summaries) {
        if (summary.models > 1)
            text += fmt::format("against {}: geometric mean {:.2f} of {} models, worst {:.2f} ({})\n", peer,
                                std::exp(summary.log_sum / summary.models), summary.models, summary.worst,
                                summary.worst_name);
    }
    for (const ModelBenchRow &r : rows) {
        if (steps && !r.steps.empty()) text += steps_text(r);
    }
    return text;
}

} // namespace kumiko::bench
