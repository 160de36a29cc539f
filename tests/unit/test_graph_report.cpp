// The page of a model and the trace of a run: they are well-formed, complete and escaped, and their
// numbers are those of the program.
// Links: graph/report
// Levels: no
#include "dsl/dense.h"
#include "graph/report/page.h"
#include "graph/report/run_trace.h"
#include "runtime/kumiko_runtime.h"
#include "support/json.h"
#include "tests/unit/count.h"
#include "tests/unit/graph_model.h"
#include "tests/unit/html_fault.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cstring>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// A product with an activation, a branch, a loop, and a residual sum.
Model branching() {
    return model(
        "(float[8, 8] x, bool c, int64 n, float[8, 8] w) => (float[8, 8] y, float[8, 8] z)",
        "p = MatMul(x, w) a = Relu(p) q = MatMul(a, w) b = Add(q, x) "
        "d = If(c) <then_branch = t () => (float[8, 8] r) { r = Exp(b) }, "
        "else_branch = e () => (float[8, 8] r) { s = MatMul(b, b) r = Neg(s) }> "
        "y = Softmax(d) "
        "z = Loop(n, yes, b) <body = l (int64 i, bool before, float[8, 8] v) => (bool again, float[8, 8] next) "
        "{ again = Identity(before) next = MatMul(v, v) }>",
        "bool yes = {1}");
}

// Arrays of zeros and ones for a run, and the run.
struct Run {
    explicit Run(const Model &m, bool loops = false, const CompileModelOptions &options = {})
        : model(CompiledModel::compile(m, options)), graph(make_graph(m, options)) {
        for (const auto *list : {&model.program().inputs, &model.program().outputs}) {
            for (const ProgramTensor &t : *list) {
                buffers.emplace_back(t.type, t.extents);
                std::memset(buffers.back().data(), 0, buffers.back().size_in_bytes());
                if (list == &model.program().outputs)
                    arrays.outputs.push_back(buffers.back().data());
                else
                    arrays.inputs.push_back(buffers.back().data());
                if (t.name == "c") *static_cast<uint8_t *>(buffers.back().data()) = 1;
                if (t.name == "n") *static_cast<int64_t *>(buffers.back().data()) = 3;
            }
        }
        arena.reset(kumiko_malloc(size_t(model.program().arena_bytes) + 64));
        arrays.arena = arena.get();
        trace = record_run(model, arrays, loops);
    }

    ModelReport report() const { return report_model(graph, {}, model.program(), report_kernels(model, 1, 2e9)); }
    ModelTimes times() const {
        ModelTimes t;
        t.seconds = trace.seconds;
        for (const StepSeconds &s : seconds_of_steps(trace, report().steps.size()))
            t.steps.push_back({s.seconds, s.runs, {}});
        return t;
    }

    CompiledModel model;
    FixedGraph graph;
    std::vector<Buffer<>> buffers;
    std::unique_ptr<void, void (*)(void *)> arena{nullptr, kumiko_free};
    RunArrays arrays;
    RunTrace trace;
};

const ReportStep &step_named(const ModelReport &r, const std::string &title) {
    for (const ReportStep &s : r.steps) {
        if (s.title == title) return s;
    }
    throw UserError("no step " + title);
}

// Slices of one track may contain each other, but not overlap otherwise. Returns a fault or "".
std::string fault_of_trace(const Json &trace) {
    std::map<int64_t, std::vector<double>> open; // ends, by track
    std::map<int64_t, double> last;
    constexpr double rounded = 2e-6; // microseconds
    for (const Json &e : trace.at("traceEvents")) {
        if (e.at("ph") != "X") continue;
        const auto track = e.at("tid").get<int64_t>();
        const double begin = e.at("ts").get<double>(), end = begin + e.at("dur").get<double>();
        if (end < begin) return "a slice ends before it begins";
        if (begin + rounded < last[track]) return "slices are not in the order of their begins";
        last[track] = begin;
        std::vector<double> &ends = open[track];
        while (!ends.empty() && ends.back() <= begin + rounded) ends.pop_back();
        if (!ends.empty() && end > ends.back() + rounded)
            return fmt::format("\"{}\" overlaps", e.at("name").get<std::string>());
        ends.push_back(end);
    }
    return "";
}

} // namespace

TEST_CASE("a report has the steps of all lists, the values between them, and reasons") {
    const Run run(branching());
    const ModelReport r = run.report();
    REQUIRE_EQ(r.lists.size(), 5); // the model, then, else, before the iterations, an iteration
    CHECK_EQ(r.lists[1].title, "If d: then");
    CHECK_EQ(r.lists[4].title, "Loop z: an iteration");
    CHECK_EQ(r.steps[r.lists[4].around].title, "Loop");
    CHECK_EQ(r.buffers.size() > 0, true);
    size_t listed = 0;
    for (const ReportList &list : r.lists) {
        listed += list.steps.size();
        for (const ReportLine &line : list.lines) {
            CHECK_LT(line.from, list.steps.size() + list.ends.size());
            CHECK_LT(line.to, list.steps.size() + list.ends.size());
        }
    }
    CHECK_EQ(listed, r.steps.size());
    const ReportList &main = r.lists[0];
    std::map<std::string, std::string> lines; // "from to" → value and reason
    const auto name = [&](size_t box) {
        return box < main.steps.size() ? r.steps[main.steps[box]].title : main.ends[box - main.steps.size()].name;
    };
    for (const ReportLine &l : main.lines)
        lines[name(l.from) + " > " + name(l.to)] = l.value.name + " " + l.value.text + ": " + l.reason;
    CHECK_EQ(lines.at("MatMul Relu > MatMul Add"), "a f32[8,8]: MatMul is not pointwise: it begins a group of its own");
    CHECK_EQ(lines.at("x > MatMul Relu"), "x f32[8,8]: ");
    CHECK_EQ(lines.at("MatMul Add > If"), "b f32[8,8]: ");
    CHECK_EQ(lines.at("c > If"), "c bool[]: ");
    CHECK_EQ(lines.at("Softmax > y"), "y f32[8,8]: ");
    CHECK_EQ(lines.at("Loop > z"), "z f32[8,8]: ");
    CHECK(lines.count("If > Softmax"));
    const ReportStep &product = step_named(r, "MatMul Relu");
    CHECK_EQ(r.kernels[product.kernel].operations, 2 * 8 * 8 * 8);
    CHECK_EQ(r.kernels[product.kernel].bytes, 3 * 8 * 8 * 4);
    CHECK_GT(r.kernels[product.kernel].bound, 0);
    CHECK_FALSE(r.kernels[product.kernel].stages.empty());
    REQUIRE_EQ(product.made.size(), 1);
    CHECK_EQ(product.made[0].name, "a");
    CHECK(product.made[0].place.starts_with("arena "));
}

TEST_CASE("buffers that are live at one step have places of their own") {
    const std::string chain = "a = MatMul(x, w) b = MatMul(a, w) c = Concat<axis = 0>(a, b) d = MatMul(c, w) "
                              "e = ReduceSum<keepdims = 1>(d) f = Add(d, e) g = MatMul(f, w) y = Sub(g, e)";
    for (const Model &m : {branching(), model("(float[8, 8] x, float[8, 8] w) => (float[16, 8] y)", chain)}) {
        const FixedGraph graph = fix_sizes(m);
        const Program program = make_program(graph);
        const ModelReport r = report_model(graph, {}, program, std::vector<ReportKernel>(program.kernels.size()));
        int64_t most = 0;
        for (size_t a = 0; a < r.buffers.size(); a++) {
            const ReportBuffer &p = r.buffers[a];
            CHECK_LE(p.offset + p.bytes, r.arena_bytes);
            CHECK_LT(p.last, program.steps.size());
            most = std::max(most, p.offset + p.bytes);
            for (size_t b = 0; b < a; b++) {
                const ReportBuffer &q = r.buffers[b];
                const bool together = p.first <= q.last && q.first <= p.last;
                const bool own = p.offset >= q.offset + q.bytes || q.offset >= p.offset + p.bytes;
                // The lists of a branch have one memory, and their own values are not at once live.
                const bool control = p.first == p.last && !program.steps[p.first].lists.empty();
                CHECK_MESSAGE((!together || own || control), p.name, " and ", q.name);
            }
        }
        CHECK_EQ((most + 63) / 64 * 64, r.arena_bytes);
        CHECK_LE(*std::max_element(r.live.begin(), r.live.end()), r.arena_bytes);
    }
}

TEST_CASE("the page is well-formed, names all groups, loads nothing, and escapes names") {
    Run run(branching());
    const std::string evil = "<script>alert(\"1\")</script>&'";
    for (Node &n : run.graph.nodes) {
        if (n.op == "MatMul") n.name = evil + n.outputs[0];
    }
    const Program program = make_program(run.graph);
    const std::vector<ReportKernel> kernels(program.kernels.size());
    ModelReport r = report_model(run.graph, {}, program, kernels);
    r.name = evil, r.sizes = {evil};
    for (ReportStep &s : r.steps) s.made.push_back({evil, evil, 4, true, evil});
    const ModelTimes times = run.times();
    for (const ModelTimes *t : {static_cast<const ModelTimes *>(nullptr), &times}) {
        const std::string page = model_page(r, t);
        CHECK_EQ(fault_of_html(page), "");
        CHECK_FALSE(has(page, "<script>alert"));
        CHECK_EQ(count(page, "<script>"), 1);
        CHECK(has(page, "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;q"));
        for (const char *external : {"http://", "https://", "src=", "@import", "url("})
            CHECK_FALSE(has(page, external));
        for (size_t n = 0; n < r.steps.size(); n++) {
            CHECK(has(page, fmt::format("id=\"step{}\"><h3>Step {}: {}<", n, n, r.steps[n].title)));
            CHECK(has(page, fmt::format("data-step=\"{}\"", n)));
        }
        CHECK_EQ(count(page, "class=\"graph\""), r.lists.size());
        CHECK_EQ(count(page, "class=\"buffer "), r.buffers.size());
        CHECK_EQ(has(page, "GFLOP/s"), t != nullptr);
        CHECK(has(page, "MatMul is not pointwise: it begins a group of its own"));
    }
}

TEST_CASE("the page of a model that was not run has estimates") {
    const FixedGraph graph = fix_sizes(branching());
    Program program = make_program(graph);
    const std::vector<PreparedKernel> prepared = prepare(program, Target::host());
    const ModelReport r = report_model(graph, {}, program, report_kernels(program, prepared, Target::host()));
    for (const ReportKernel &k : r.kernels) {
        CHECK_GT(k.estimate, 0);
        CHECK_EQ(k.origin, "default");
        CHECK_FALSE(k.stages.empty());
    }
    const std::string page = model_page(r);
    CHECK_EQ(fault_of_html(page), "");
    CHECK(has(page, "<div>estimate, 1 thread<b>"));
    CHECK(has(page, "<tr><th>estimate</th><td>"));
    CHECK_FALSE(has(page, "roofline"));
}

TEST_CASE("the page has the times of steps and peers, and their share of the roofline") {
    Run run(branching());
    const ModelReport r = run.report();
    ModelTimes t = run.times();
    t.seconds = 1e-3;
    t.peers = {{"Other", 2e-3, 5e-4}};
    for (ModelTimes::Step &s : t.steps) s.seconds = 1e-4, s.peers = {3e-4};
    const std::string page = model_page(r, &t);
    CHECK(has(page, "<div>Other<b>2.00 ms</b></div>"));
    CHECK(
        has(page, "The times of Other are those of the same nodes, by its profile; 500 us of them belong to no step"));
    // In the table and in the details.
    CHECK_EQ(count(page, ">300 us<"), 2 * r.steps.size());
    CHECK(has(page, "<tr><th>rate</th><td>0.0102 GFLOP/s</td></tr>")); // 1024 FLOP in 100 us
    // The loop's kernel ran three times.
    CHECK(has(page, "<tr><th>runs</th><td>3</td></tr>"));
    // Its step leads to its iterations.
    CHECK(has(page, fmt::format("<a href=\"#step{}\">Loop z: an iteration</a>", r.lists[4].steps[0])));
}

TEST_CASE("compiling reports its phases") {
    std::vector<std::string> phases;
    size_t kernels = 0;
    CompileModelOptions options;
    options.progress = [&](const std::string &phase, size_t done, size_t pieces) {
        if (phases.empty() || phases.back() != phase) phases.push_back(phase);
        if (pieces > 0) CHECK_LE(done, pieces);
        if (phase == "choosing schedules") kernels = pieces;
        if (phase == "compiling kernels") CHECK_EQ(pieces, kernels);
    };
    const CompiledModel compiled = CompiledModel::compile(branching(), options);
    CHECK_EQ(phases, std::vector<std::string>{"simplifying the graph", "choosing layouts", "choosing schedules",
                                              "compiling kernels"});
    CHECK_EQ(kernels, compiled.program().kernels.size());
}

TEST_CASE("a trace of a run is JSON with slices that do not overlap") {
    const Run run(branching());
    const Json j = parse_json(trace_text(run.trace, run.model.program()), "trace");
    CHECK_EQ(fault_of_trace(j), "");
    std::map<std::string, int> names;
    for (const Json &e : j.at("traceEvents")) {
        if (e.at("ph") == "X") names[e.at("name").get<std::string>()]++;
    }
    // The other branch does not run, and an iteration has a product and a copy.
    CHECK_EQ(names, std::map<std::string, int>{{"(copy)", 1 + 3},
                                               {"Exp", 1},
                                               {"If", 1},
                                               {"Loop", 1},
                                               {"MatMul", 3},
                                               {"MatMul Add", 1},
                                               {"MatMul Relu", 1},
                                               {"Softmax", 1}});
    double steps = 0;
    for (const RunSlice &s : run.trace.slices) {
        CHECK_LE(s.begin, s.end);
        if (s.thread == 0 && s.iterations == 0) steps += s.end - s.begin;
    }
    CHECK_GT(steps, 0);
    CHECK_EQ(seconds_of_steps(run.trace, run.report().steps.size()).size(), run.report().steps.size());
}

TEST_CASE("a trace shows parallel loops on their threads, and the runtime's hook is restored") {
    kumiko_set_num_threads(2);
    const Model m =
        model("(float[512, 512] x, float[512, 512] w) => (float[512, 512] y)", "a = MatMul(x, w) y = Relu(a)");
    const Run run(m, true);
    const Json j = parse_json(trace_text(run.trace, run.model.program()), "trace");
    CHECK_EQ(fault_of_trace(j), "");
    int64_t iterations = 0;
    for (const RunSlice &s : run.trace.slices) {
        iterations += s.iterations;
        CHECK_EQ(s.step, 0);
    }
    CHECK_GT(iterations, 1);
    CHECK((kumiko_set_parallel_for(nullptr) == kumiko_default_parallel_for));
    kumiko_set_num_threads(0);
}
