#include "cli/bench_models.h"

#include "bench/model_start.h"
#include "bench/model_suite.h"
#include "cli/common.h"
#include "cli/model.h"
#include "driver/tuned.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/progress.h"

#include <filesystem>
#include <iostream>

namespace kumiko::cli {

namespace {

// The model that the command names, or else the models of the suite.
std::vector<bench::ModelCase> chosen_models(const BenchArguments &a) {
    std::vector<bench::ModelCase> cases;
    if (is_model(a.suites.front())) {
        bench::ModelCase c{std::filesystem::path(a.suites.front()).stem().string(), a.suites.front(), {}};
        c.options.sizes = sizes_of(a.sizes);
        c.options.constants = constants_of(a.constants, graph::Model::load(c.file));
        c.options.bounds = bounds_of(a.bounds);
        cases.push_back(std::move(c));
    } else {
        for (bench::ModelCase &c : bench::model_cases()) {
            if (c.name.find(a.tune.only) != std::string::npos) cases.push_back(std::move(c));
        }
        if (cases.empty())
            throw UserError(
                "no model of the suite is there, or none has the name of --only; `./run models` fetches them");
    }
    for (bench::ModelCase &c : cases) c.options.rules->rounding = rounding_of(a.rounding);
    if (!a.options.database.empty()) {
        for (bench::ModelCase &c : cases)
            c.options.source = tuned_schedules(a.options.database, {.threads = a.threads[0]});
    }
    return cases;
}

} // namespace

void run_model_start(const BenchArguments &a, const Target &) {
    if (!a.page.empty() || !a.shape.empty() || a.threads != std::vector<int>{1})
        throw UserError("the start of models is measured without --page and --shape, and with one thread");
    std::vector<bench::ModelStartRow> rows;
    {
        Progress progress(std::cerr, progress_style(2, a.quiet), "starting", 0);
        for (const bench::ModelCase &c : chosen_models(a)) {
            progress.line(c.name);
            try {
                rows.push_back(bench::measure_model_start(c, a.options));
            } catch (const PlacedError &e) { // the other models of the suite are still measured
                rows.emplace_back();
                rows.back().name = c.name, rows.back().failure = e.message_without_places();
            }
        }
    }
    Json all = Json::array();
    for (const bench::ModelStartRow &r : rows) all.push_back(r.json());
    const bench::PythonCall call = bench::measure_python_call();
    all.push_back(call.json());
    if (a.json != "-") std::cout << bench::model_start_text(rows, call);
    write_json(a.json, all);
}

namespace {

// Writes the page and the trace of a model.
void write_profile(const BenchArguments &a, const bench::ModelCase &c, const bench::ModelProfile &profile) {
    const graph::Program &program = profile.model->program();
    if (!a.trace.empty()) write_file_atomically(a.trace, graph::trace_text(profile.trace, program));
    if (a.report.empty()) return;
    graph::ModelReport report =
        graph::report_model(graph::make_graph(graph::Model::load(c.file), c.options), c.options.groups, program,
                            graph::report_kernels(*profile.model, a.threads[0], profile.clock_hz));
    report.sizes = a.sizes;
    write_file_atomically(a.report, graph::model_page(report, &profile.times));
}

} // namespace

void run_models(const BenchArguments &a, const Target &) {
    if (!a.page.empty() || !a.shape.empty() || a.threads.size() != 1)
        throw UserError("models are timed without --page and --shape, and with one number of threads");
    const bool one = is_model(a.suites.front()), profiled = !a.report.empty() || !a.trace.empty();
    require_folder_of(a.report);
    require_folder_of(a.trace);
    bench::ModelProfile profile;
    const std::vector<bench::ModelCase> cases = chosen_models(a);
    std::vector<bench::ModelBenchRow> rows;
    {
        Progress progress(std::cerr, progress_style(2, a.quiet), "timing", int64_t(cases.size()),
                          [] { return terminal_columns(2); });
        for (bench::ModelCase c : cases) {
            if (one) c.options.progress = phases_of(progress);
            if (!one)
                c.options.progress = [&, name = c.name](const std::string &phase, size_t, size_t) {
                    progress.update(int64_t(rows.size()), name + ": " + phase);
                };
            try {
                rows.push_back(bench::bench_model(c, a.threads[0], a.options, one || !a.json.empty(),
                                                  profiled ? &profile : nullptr));
            } catch (const PlacedError &e) { // the other models of the suite are still measured
                if (one) throw;
                rows.emplace_back();
                rows.back().name = c.name, rows.back().failure = e.message_without_places();
            }
        }
        if (!one) progress.update(int64_t(rows.size()));
    }
    Json all = Json::array();
    for (const bench::ModelBenchRow &r : rows) all.push_back(r.json());
    if (a.json != "-") std::cout << bench::model_suite_text(rows, one);
    write_json(a.json, all);
    if (profiled) write_profile(a, cases.front(), profile);
}

} // namespace kumiko::cli
