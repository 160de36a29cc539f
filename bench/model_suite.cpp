#include "bench/model_suite.h"

#include "bench/onnxruntime_process.h"
#include "bench/timer.h"
#include "dsl/buffer_elements.h"
#include "dsl/types.h"
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

// The type in the requests of bench/onnxruntime_peer.py.
std::string peer_type(Type t) {
    const std::string name = type_name(t);
    return name[0] == 'i' ? "s" + name.substr(1) : name;
}

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

std::string step_text(const graph::Step &step) {
    if (step.kind == graph::Step::Kind::Copy) return "(copy)";
    if (step.kind == graph::Step::Kind::Check) return "(check of indices)";
    return fmt::format("{}", fmt::join(step.operators, " "));
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

    // The median seconds of each step over several runs.
    std::vector<double> time_steps() {
        std::vector<std::vector<double>> samples(model_.program().steps.size());
        for (int round = 0; round < step_rounds; round++) {
            for (size_t s = 0; s < samples.size(); s++) {
                const auto begin = Clock::now();
                model_.run_step(s, from_.data(), to_.data(), aligned_);
                samples[s].push_back(seconds_since(begin));
            }
        }
        std::vector<double> medians;
        for (std::vector<double> &s : samples) medians.push_back(summarize(s).median);
        return medians;
    }

    std::vector<Buffer<>> inputs, outputs;

private:
    const graph::CompiledModel &model_;
    std::vector<uint8_t> arena_;
    void *aligned_ = nullptr;
    std::vector<const void *> from_;
    std::vector<void *> to_;
};

// A session of the model's own file.
class PeerSession {
public:
    PeerSession(OnnxRuntimeProcess &process, const ModelCase &model, const graph::Program &program,
                const std::vector<Buffer<>> &inputs, int threads)
        : process_(process) {
        Json request = {{"do", "make"},
                        {"threads", threads},
                        {"model", std::filesystem::absolute(model.file).string()},
                        {"inputs", Json::array()},
                        {"outputs", Json::array()}};
        const auto add = [&](const char *list, const std::string &name, Type type, const std::vector<int64_t> &shape,
                             size_t bytes) {
            files_.push_back(std::make_unique<SharedFile>(bytes));
            request[list].push_back(
                {{"name", name}, {"type", peer_type(type)}, {"shape", shape}, {"file", files_.back()->path()}});
        };
        const auto add_input = [&](const std::string &name, const Buffer<> &b) {
            add("inputs", name, b.type(), b.extents(), b.size_in_bytes());
            files_.back()->write(b.data());
        };
        for (size_t n = 0; n < inputs.size(); n++) add_input(program.inputs[n].name, inputs[n]);
        for (const auto &[name, value] : model.options.constants) add_input(name, value.copy());
        first_output_ = files_.size();
        for (const graph::ProgramTensor &o : program.outputs)
            add("outputs", o.name, o.type, o.extents, size_t(o.bytes()));
        const Json answer = process_.ask(request);
        if (answer.contains("refused"))
            refusal = answer.at("refused").get<std::string>();
        else
            id_ = answer.at("id").get<int64_t>();
    }
    ~PeerSession() {
        try {
            if (id_ >= 0) process_.ask({{"do", "drop"}, {"id", id_}});
        } catch (const std::exception &) { // the process has ended
        }
    }
    PeerSession(const PeerSession &) = delete;
    PeerSession &operator=(const PeerSession &) = delete;

    std::string refusal;

    double run(int times) {
        return process_.ask({{"do", "run"}, {"id", id_}, {"times", times}}).at("seconds").get<double>();
    }

    std::vector<Buffer<>> outputs(const graph::Program &program) {
        run(1);
        process_.ask({{"do", "collect"}, {"id", id_}});
        std::vector<Buffer<>> all;
        for (size_t o = 0; o < program.outputs.size(); o++) {
            all.emplace_back(program.outputs[o].type, program.outputs[o].extents);
            files_[first_output_ + o]->read(all.back().data());
        }
        return all;
    }

private:
    OnnxRuntimeProcess &process_;
    std::vector<std::unique_ptr<SharedFile>> files_;
    size_t first_output_ = 0;
    int64_t id_ = -1;
};

// Throws UserError if an element differs by more than the tolerance.
void check_same(const ModelCase &model, const graph::Program &program, const std::vector<Buffer<>> &ours,
                const std::vector<Buffer<>> &theirs) {
    for (size_t o = 0; o < ours.size(); o++) {
        std::vector<double> a, b;
        const auto into = [](std::vector<double> &to, const Buffer<> &from) {
            for_each_element(from.raw_buffer(), [&](const std::vector<int64_t> &, const uint8_t *p) {
                to.push_back(read_element(from.type(), p));
            });
        };
        into(a, ours[o]), into(b, theirs[o]);
        double largest = 0;
        for (const double v : b) largest = std::max(largest, std::isfinite(v) ? std::abs(v) : 0);
        for (size_t n = 0; n < a.size(); n++) {
            if (a[n] == b[n] || (std::isnan(a[n]) && std::isnan(b[n]))) continue;
            if (!(std::abs(a[n] - b[n]) <= tolerance * largest))
                throw UserError(fmt::format("{}: element {} of output \"{}\" is {}, and {} by ONNX Runtime", model.name,
                                            n, program.outputs[o].name, a[n], b[n]));
        }
    }
}

} // namespace

std::vector<ModelCase> model_cases() {
    const std::filesystem::path folder = KUMIKO_DEPS "/models";
    std::vector<ModelCase> cases;
    for (const Json &m : load_json(KUMIKO_SOURCE_DIR "/bench/models.json")) {
        ModelCase c{m.at("name"), (folder / m.at("file").get<std::string>()).string(), {}};
        if (!std::filesystem::exists(c.file)) continue;
        for (const auto &[name, size] : m.at("sizes").items()) c.options.sizes[name] = size.get<int64_t>();
        cases.push_back(std::move(c));
    }
    return cases;
}

ModelBenchRow bench_model(const ModelCase &model, int threads, const BenchOptions &options) {
    ModelBenchRow row;
    row.name = model.name;
    kumiko_set_num_threads(threads);
    const auto begin = Clock::now();
    const graph::Model loaded = graph::Model::load(model.file);
    const graph::CompiledModel compiled = graph::CompiledModel::compile(loaded, model.options);
    row.compile_seconds = seconds_since(begin);
    const graph::Program &program = compiled.program();
    row.nodes = loaded.graph().nodes.size(), row.kernels = program.kernels.size();
    row.arena_bytes = program.arena_bytes, row.arena_bound = program.arena_bound;
    for (const Buffer<> &c : program.constants) row.weights_bytes += int64_t(c.size_in_bytes());
    ModelRun ours(compiled);
    ours.run();
    std::vector<TimedWork> work = {TimedWork([&] { ours.run(); })};
    std::optional<OnnxRuntimeProcess> process;
    std::optional<PeerSession> peer;
    if (options.peers) {
        process.emplace();
        row.no_onnxruntime = process->reason();
        if (row.no_onnxruntime.empty()) {
            peer.emplace(*process, model, program, ours.inputs, threads);
            row.no_onnxruntime = peer->refusal;
        }
        if (row.no_onnxruntime.empty()) {
            if (options.check) check_same(model, program, ours.outputs, peer->outputs(program));
            work.emplace_back(std::function<double(int)>([&](int n) { return peer->run(n); }));
        }
    }
    TimerOptions timer;
    timer.budget_seconds = std::max(1.0, options.budget_seconds);
    const std::vector<Timing> times = time_interleaved(work, timer);
    row.seconds = times[0].median, row.spread = times[0].spread();
    if (times.size() > 1) row.onnxruntime = times[1].median, row.to_onnxruntime = speedup(times[0], times[1]);
    const std::vector<double> steps = ours.time_steps();
    for (size_t s = 0; s < steps.size(); s++)
        row.steps.push_back({step_text(program.steps[s]),
                             program.steps[s].nodes.empty() ? "" : program.steps[s].nodes.back(), steps[s]});
    return row;
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
    if (onnxruntime > 0) j["onnxruntime_ms"] = 1e3 * onnxruntime, j["onnxruntime"] = to_onnxruntime;
    if (!no_onnxruntime.empty()) j["no_onnxruntime"] = no_onnxruntime;
    j["steps"] = Json::array();
    for (const StepTime &s : steps)
        j["steps"].push_back({{"operators", s.operators}, {"node", s.node}, {"ms", 1e3 * s.seconds}});
    return j;
}

std::string model_suite_text(const std::vector<ModelBenchRow> &rows, bool steps) {
    Table table({"model", "nodes", "steps", "ours ms", "ONNX ms", "of ONNX", "spread", "arena KiB", "weights KiB",
                 "compile s"});
    double log_sum = 0, worst = 0;
    int compared = 0;
    std::string worst_name, notes;
    for (const ModelBenchRow &r : rows) {
        if (!r.failure.empty()) {
            notes += fmt::format("{}: not measured: {}\n", r.name, r.failure);
            continue;
        }
        const bool peer = r.onnxruntime > 0;
        table.row({r.name, std::to_string(r.nodes), std::to_string(r.steps.size()),
                   fmt::format("{:.3f}", 1e3 * r.seconds), peer ? fmt::format("{:.3f}", 1e3 * r.onnxruntime) : "-",
                   peer ? fmt::format("{:.2f}", r.to_onnxruntime) : "-", fmt::format("{:.0f} %", 100 * r.spread),
                   std::to_string(r.arena_bytes / 1024), std::to_string(r.weights_bytes / 1024),
                   fmt::format("{:.1f}", r.compile_seconds)});
        if (!r.no_onnxruntime.empty()) notes += fmt::format("{}: without ONNX Runtime: {}\n", r.name, r.no_onnxruntime);
        if (!peer) continue;
        log_sum += std::log(r.to_onnxruntime), compared++;
        if (worst_name.empty() || r.to_onnxruntime < worst) worst = r.to_onnxruntime, worst_name = r.name;
    }
    std::string text = table.text() + notes;
    if (compared > 1)
        text += fmt::format("against ONNX Runtime: geometric mean {:.2f} of {} models, worst {:.2f} ({})\n",
                            std::exp(log_sum / compared), compared, worst, worst_name);
    for (const ModelBenchRow &r : rows) {
        if (!steps || r.steps.empty()) continue;
        std::vector<size_t> order(r.steps.size());
        std::iota(order.begin(), order.end(), size_t(0));
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return r.steps[a].seconds > r.steps[b].seconds; });
        double sum = 0;
        for (const auto &s : r.steps) sum += s.seconds;
        Table slowest({"step", "ms", "of all", "operators", "last node"});
        for (size_t n = 0; n < std::min(shown_steps, order.size()); n++) {
            const auto &s = r.steps[order[n]];
            slowest.row({std::to_string(order[n]), fmt::format("{:.3f}", 1e3 * s.seconds),
                         fmt::format("{:.0f} %", 100 * s.seconds / sum), shortened(s.operators), shortened(s.node)});
        }
        text += fmt::format("\nthe slowest steps of {}:\n{}", r.name, slowest.text());
    }
    return text;
}

} // namespace kumiko::bench
