#include "bench/outside_suite.h"

#include "autotune/tune.h"
#include "bench/contest.h"
#include "bench/outside_program.h"
#include "driver/default_schedule.h"
#include "ops/registry.h"
#include "runtime/kumiko_runtime.h"
#include "support/table.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace kumiko::bench {

namespace {

constexpr double trusted = 0.95; // minimum fraction of the rate inside

// A case with the kernel that both programs call.
struct OutsideWork {
    LibraryKernel kernel;
    Schedule schedule;
    double recorded = 0; // seconds recorded in the database; 0: the schedule is the default
};

// "m" becomes "M": a size name instead of the number, distinct from the names of axes.
LibraryKernel library_kernel(const OutsideCase &c, const std::string &name) {
    Json parameters = c.bench.parameters;
    Sizes sizes;
    for (const std::string &p : c.open) {
        std::string size;
        for (const char letter : p) size += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
        sizes[size] = parameters.at(p).get<int64_t>();
        parameters[p] = size;
    }
    LibraryKernel k{name, ops::make(c.bench.op, parameters)};
    k.op_name = c.bench.op, k.parameters = parameters, k.test_sizes = sizes;
    return k;
}

OutsideWork make_work(const OutsideCase &c, const std::string &name, const Target &target,
                      const BenchOptions &options) {
    LibraryKernel kernel = library_kernel(c, name);
    std::optional<Record> found;
    if (!options.database.empty())
        found = best(kernel.op, target, options.database, {.threads = options.threads, .ahead = c.bench.ahead});
    OutsideWork work{kernel,
                     found ? found->schedule(kernel.op)
                           : default_schedule(kernel.op, target.machine, packed_by(c.bench.ahead)),
                     found ? found->seconds() : 0};
    work.kernel.schedule = ChosenSchedule{Json(work.schedule.to_json()), nullptr, 0, "", found ? "tuned" : "default"};
    return work;
}

// Speed of `theirs` relative to `ours` in each round.
Timing ratios(const Timing &ours, const Timing &theirs) {
    std::vector<double> all;
    for (size_t i = 0; i < ours.samples.size(); i++) all.push_back(ours.samples[i] / theirs.samples[i]);
    return summarize(all);
}

std::string remark_of(const OutsideRow &r) {
    if (r.ratio >= trusted) return "";
    if (r.lines >= trusted) return "slower on arrays that do not begin at cache lines";
    if (r.pages >= trusted) return "slower on arrays without large pages";
    return "slower on aligned arrays with large pages too";
}

// `number`: index of the kernel in the program.
void measure(OutsideRow &row, const OutsideCase &c, const OutsideWork &work, OutsideProgram &program, size_t number,
             const Target &target, const BenchOptions &options) {
    Contest contest(c.bench, target, options);
    contest.add_ours("inside", work.schedule);
    const Piece &inside = contest.pieces[0];
    std::vector<TimedWork> works = {inside.work};
    for (const Placement p : placements) {
        program.open(number, p, contest.inputs());
        works.push_back(
            TimedWork(std::function<double(int)>([&program, p](int calls) { return program.time(p, calls); })));
    }
    TimerOptions timer;
    timer.budget_seconds = options.budget_seconds;
    // The threads of the other process still spin.
    timer.pause_seconds = options.threads > 1 ? 0.005 : 0;
    const std::vector<Timing> times = time_interleaved(works, timer);
    const CaseWork amount = work_of(c.bench, contest.op());
    row.unit = amount.unit;
    row.inside = amount.amount / times[0].median, row.outside = amount.amount / times[1].median;
    const Timing malloced = ratios(times[0], times[1]);
    row.ratio = malloced.median, row.spread = malloced.spread();
    row.lines = ratios(times[0], times[2]).median, row.pages = ratios(times[0], times[3]).median;
    row.remark = remark_of(row);
    row.recorded = work.recorded > 0 ? amount.amount / work.recorded : 0;
    for (const Placement p : placements) {
        const std::vector<Buffer<>> outputs = program.outputs(p);
        for (size_t o = 0; options.check && o < outputs.size() && row.wrong.empty(); o++)
            row.wrong = difference(outputs[o], inside.arrays.at(contest.inputs().size() + o));
        program.close(p);
    }
}

} // namespace

std::vector<OutsideCase> outside_cases() {
    std::vector<OutsideCase> all;
    const auto add = [&](const char *suite, const char *shape, bool ahead = false,
                         const std::vector<std::string> &open = {}) {
        all.push_back({suite_cases(suite, shape).at(0), open});
        all.back().bench.ahead = ahead;
        if (ahead) all.back().bench.name += ", packed ahead";
        for (const std::string &p : open) all.back().bench.name += ", open " + p;
    };
    add("gemm-small", "m=8,n=8,k=8");
    add("gemm-f32", "m=512,n=512,k=512");
    add("gemm-f32", "m=16,n=1024,k=1024", true);
    add("gemm-f32", "m=128,n=768,k=768", false, {"m"});
    add("gemm-bf16", "m=64,n=64,k=64");
    add("gemm-bf16", "m=512,n=512,k=512");
    add("gemm-int8", "m=64,n=64,k=64");
    add("gemm-int8", "m=512,n=512,k=512");
    add("gemv", "m=1024,k=1024");
    add("conv-f32", "c=64,h=56,w=56,o=64,padding=1", true);
    add("conv-f32", "c=256,h=56,w=56,o=64,kh=1,kw=1");
    add("conv-u8s8", "c=128,h=28,w=28,o=128,padding=1", true);
    add("depthwise-f32", "c=144,h=56,w=56,padding=1");
    add("rows", "op=softmax,m=128,n=1000");
    add("rows", "op=layer_norm,m=512,n=768");
    add("rows", "op=reduce,kind=sum,shape=4096,1024,axes=0");
    add("elementwise", "op=gelu,n=1048576");
    add("transpose", "m=1000,n=1000");
    add("pool", "op=max_pool,c=64,h=112,w=112,kh=3,kw=3,stride=2,padding=1");
    add("attention", "heads=12,s=128,t=128,d=64");
    return all;
}

std::vector<OutsideRow> run_outside_suite(const std::vector<OutsideCase> &cases, const Target &target,
                                          const BenchOptions &options,
                                          const std::function<void(const std::string &)> &progress) {
    const auto say = [&](const std::string &what) {
        if (progress) progress(what);
    };
    std::vector<OutsideRow> rows;
    std::vector<std::optional<OutsideWork>> works;
    std::vector<LibraryKernel> kernels;
    say("building the library and its program");
    for (const OutsideCase &c : cases) {
        OutsideRow row;
        row.suite = c.bench.suite, row.name = c.bench.name;
        works.emplace_back();
        try {
            works.back() = make_work(c, "k" + std::to_string(kernels.size()), target, options);
            row.tuned = works.back()->recorded > 0;
            kernels.push_back(works.back()->kernel);
        } catch (const Unsupported &e) {
            row.failure = e.what();
        }
        rows.push_back(row);
    }
    if (kernels.empty()) return rows;
    OutsideProgram program(kernels, options.threads);
    kumiko_set_num_threads(options.threads);
    size_t number = 0;
    for (size_t i = 0; i < cases.size(); i++) {
        if (!works[i]) continue;
        say(rows[i].suite + " " + rows[i].name);
        measure(rows[i], cases[i], *works[i], program, number++, target, options);
    }
    kumiko_set_num_threads(0);
    return rows;
}

Json OutsideRow::json() const {
    Json j = {{"suite", "outside"}, {"of", suite}, {"case", name}};
    if (!failure.empty()) return j["failure"] = failure, j;
    j["unit"] = unit, j["tuned"] = tuned, j["inside"] = inside, j["outside"] = outside;
    j["ratio"] = ratio, j["spread"] = spread, j["lines"] = lines, j["pages"] = pages;
    j["told"] = recorded > 0 ? Json(recorded) : Json(nullptr);
    if (!remark.empty()) j["remark"] = remark;
    if (!wrong.empty()) j["wrong"] = wrong;
    return j;
}

std::string outside_suite_text(const std::vector<OutsideRow> &rows) {
    std::vector<std::string> headings = {"outside", "unit", "inside", "outside", "ratio", "spread", "lines", "pages"};
    const bool any_recorded = std::any_of(rows.begin(), rows.end(), [](const OutsideRow &r) { return r.recorded > 0; });
    if (any_recorded) headings.push_back("recorded");
    Table table(headings);
    std::string remarks;
    double logarithms = 0;
    int count = 0, below = 0;
    const OutsideRow *worst = nullptr;
    for (const OutsideRow &r : rows) {
        const std::string name = r.suite + " " + r.name;
        for (const std::string *text : {&r.failure, &r.remark, &r.wrong}) {
            if (!text->empty()) remarks += name + ": " + *text + "\n";
        }
        if (!r.failure.empty()) continue;
        std::vector<std::string> cells = {name,
                                          r.unit,
                                          fmt::format("{:.1f}", r.inside),
                                          fmt::format("{:.1f}", r.outside),
                                          fmt::format("{:.3f}", r.ratio),
                                          fmt::format("{:.0f} %", 100 * r.spread),
                                          fmt::format("{:.3f}", r.lines),
                                          fmt::format("{:.3f}", r.pages)};
        if (any_recorded) cells.push_back(r.recorded > 0 ? fmt::format("{:.1f}", r.recorded) : "-");
        table.row(cells);
        logarithms += std::log(r.ratio), count++, below += r.ratio < trusted;
        if (!worst || r.ratio < worst->ratio) worst = &r;
    }
    std::string text = table.text() + remarks;
    if (worst)
        text +=
            fmt::format("outside / inside: geometric mean {:.3f} of {}, {} below {}, worst {:.3f} ({} {})\n",
                        std::exp(logarithms / count), count, below, trusted, worst->ratio, worst->suite, worst->name);
    return text;
}

} // namespace kumiko::bench
