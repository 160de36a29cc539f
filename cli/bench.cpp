// kumiko bench SUITE...
#include "bench/outside_suite.h"
#include "bench/own_ops_suite.h"
#include "bench/page.h"
#include "bench/stale_suite.h"
#include "bench/suite.h"
#include "bench/tune_suite.h"

#include "cli/bench_models.h"
#include "cli/common.h"
#include "cli/model.h"
#include "driver/op_text.h"
#include "driver/tuned.h"

#include "support/atomic_file.h"
#include "support/progress.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

namespace kumiko::cli {

namespace {

// The suite `tune` has no peers: it measures how near the schedules after few trials are to the
// best known one.
void run_tune(const BenchArguments &a, const Target &target) {
    if (!a.page.empty() || !a.shape.empty())
        throw UserError("the suite tune takes no --page and no --shape; --only names its tasks");
    std::vector<bench::TuneSuiteRow> rows;
    {
        Progress progress(std::cerr, progress_style(2, a.quiet), "tuning", 0);
        rows = bench::run_tune_suite(target, a.tune, [&](const std::string &task) { progress.line(task); });
    }
    Json all = Json::array();
    for (const bench::TuneSuiteRow &r : rows) all.push_back(r.json());
    if (a.json != "-") std::cout << bench::tune_suite_text(rows);
    write_json(a.json, all);
}

void run_tune_chip(const BenchArguments &a) {
    if (!a.page.empty() || !a.shape.empty())
        throw UserError("the suite tune-chip takes no --page and no --shape; --only names its tasks");
    std::vector<bench::ChipTuneRow> rows;
    {
        Progress progress(std::cerr, progress_style(2, a.quiet), "tuning", 0);
        rows = bench::run_chip_tune_suite("chip:small", a.tune, [&](const std::string &t) { progress.line(t); });
    }
    Json all = Json::array();
    for (const bench::ChipTuneRow &r : rows) all.push_back(r.json());
    if (a.json != "-") std::cout << bench::chip_tune_suite_text(rows);
    write_json(a.json, all);
}

void run_stale(const BenchArguments &a, const Target &target) {
    if (!a.page.empty() || !a.shape.empty() || a.threads != std::vector<int>{1})
        throw UserError(
            "the suite stale has cases of its own, of one thread, and takes no --page, --shape and --threads; "
            "--only names its cases");
    std::vector<bench::StaleRow> rows;
    {
        Progress progress(std::cerr, progress_style(2, a.quiet), "timing", 0);
        rows = bench::run_stale_suite(target, a.options, a.tune.only, [&](const std::string &c) { progress.line(c); });
    }
    Json all = Json::array();
    for (const bench::StaleRow &r : rows) all.push_back(r.json());
    if (a.json != "-") std::cout << bench::stale_suite_text(rows);
    write_json(a.json, all);
}

void run_own_ops(const BenchArguments &a, const Target &target) {
    if (!a.page.empty() || a.threads != std::vector<int>{1})
        throw UserError("the suite own-ops runs on one thread, and takes no --page and --threads");
    if (!a.shape.empty() && a.tune.only.empty())
        throw UserError("ops of the suite own-ops have sizes of different names; --only NAME names the op of --shape");
    std::vector<bench::OwnOpRow> rows;
    {
        Progress progress(std::cerr, progress_style(2, a.quiet), "timing", 0);
        rows = bench::run_own_ops_suite(target, a.options,
                                        {a.tune.only, a.tune.known, a.tune.explore, parse_sizes(a.shape)},
                                        [&](const std::string &op) { progress.line(op); });
    }
    Json all = Json::array();
    for (const bench::OwnOpRow &r : rows) all.push_back(r.json());
    if (a.json != "-") std::cout << bench::own_ops_suite_text(rows);
    write_json(a.json, all);
    std::string failed;
    for (const bench::OwnOpRow &r : rows) {
        if (!r.failure.empty()) failed += (failed.empty() ? "" : ", ") + r.name;
    }
    if (!failed.empty()) throw UserError("ops of the suite own-ops were not measured: " + failed);
}

void run_outside(const BenchArguments &a, const Target &target) {
    if (!a.page.empty() || a.threads.size() != 1)
        throw UserError("the suite outside takes no --page and one number of --threads");
    std::vector<bench::OutsideCase> cases;
    if (a.shape.empty())
        cases = bench::outside_cases();
    else if (("," + a.shape).find(",op=") == std::string::npos)
        throw UserError("the suite outside has several ops: name one in the shape, as --shape op=softmax,m=64,n=1024");
    else
        cases.push_back({bench::suite_cases("rows", a.shape).at(0)}), cases[0].bench.suite = "outside";
    std::erase_if(cases, [&](const bench::OutsideCase &c) {
        return (c.bench.suite + " " + c.bench.name).find(a.tune.only) == std::string::npos;
    });
    if (cases.empty()) throw UserError("no case of the suite outside has \"" + a.tune.only + "\" in its name");
    bench::BenchOptions options = a.options;
    options.threads = a.threads[0];
    std::vector<bench::OutsideRow> rows;
    {
        Progress progress(std::cerr, progress_style(2, a.quiet), "timing", 0);
        rows = bench::run_outside_suite(cases, target, options, [&](const std::string &c) { progress.line(c); });
    }
    Json all = Json::array();
    for (const bench::OutsideRow &r : rows) all.push_back(r.json());
    if (a.json != "-") std::cout << bench::outside_suite_text(rows);
    write_json(a.json, all);
    std::string wrong;
    for (const bench::OutsideRow &r : rows) {
        if (!r.wrong.empty()) wrong += "\n  " + r.suite + " " + r.name + ": " + r.wrong;
    }
    if (!wrong.empty()) throw UserError("results of the C program differ from those of this process:" + wrong);
}

// A suite that does not compare with peers case by case, and runs alone.
struct LoneSuite {
    const char *name;
    void (*run)(const BenchArguments &, const Target &);
};
constexpr LoneSuite lone_suites[] = {{"own-ops", run_own_ops},
                                     {"stale", run_stale},
                                     {"outside", run_outside},
                                     {"models", run_models},
                                     {"model-start", run_model_start}};

// A suite whose cases are made by its own function.
struct OwnSuite {
    using Tell = std::function<void(const std::string &)>;
    const char *name, *what; // what it does, for the progress
    std::vector<bench::BenchRow> (*run)(const Target &, const bench::BenchOptions &, const Tell &);
};
// In the order in which they run.
const OwnSuite own_suites[] = {
    {"compile", "timing the compiler",
     [](const Target &t, const bench::BenchOptions &, const OwnSuite::Tell &tell) {
         return bench::run_compile_suite(t, tell);
     }},
    {"chip-gemm", "running programs of the chip",
     [](const Target &, const bench::BenchOptions &o, const OwnSuite::Tell &tell) {
         return bench::run_chip_suite(o, tell);
     }},
    {"chip-conv", "running convolutions on the chip",
     [](const Target &, const bench::BenchOptions &o, const OwnSuite::Tell &tell) {
         return bench::run_chip_conv_suite(o, tell);
     }},
    {"chip-rows", "running vectors and rows on the chip",
     [](const Target &, const bench::BenchOptions &o, const OwnSuite::Tell &tell) {
         return bench::run_chip_rows_suite(o, tell);
     }},
    {"sim-speed", "timing the simulator",
     [](const Target &, const bench::BenchOptions &o, const OwnSuite::Tell &tell) {
         return bench::run_sim_suite(o, tell);
     }},
    {"chip-move", "moving on the chip",
     [](const Target &, const bench::BenchOptions &, const OwnSuite::Tell &tell) {
         return bench::run_move_suite(tell);
     }},
};

// Runs a suite that runs alone, if one is named; returns whether it did.
bool run_alone(const BenchArguments &a, const Target &target) {
    const auto named = [&](const char *name) { return std::count(a.suites.begin(), a.suites.end(), name) > 0; };
    if ((!a.report.empty() || !a.trace.empty()) && (a.suites.empty() || !is_model(a.suites.front())))
        throw UserError("--report and --trace are of one model: kumiko bench model.onnx --report page.html");
    for (const LoneSuite &suite : lone_suites) {
        if (!named(suite.name)) continue;
        if (a.suites.size() != 1)
            throw UserError(std::string("the suite ") + suite.name + " runs alone: kumiko bench " + suite.name);
        suite.run(a, target);
        return true;
    }
    if (std::any_of(a.suites.begin(), a.suites.end(), is_model)) {
        if (a.suites.size() != 1) throw UserError("a model runs alone: kumiko bench " + a.suites.front());
        run_models(a, target);
        return true;
    }
    if (!a.sizes.empty() || !a.constants.empty() || !a.bounds.empty() || !a.rounding.empty())
        throw UserError("--size, --constant, --bound and --rounding are for models");
    if (a.suites == std::vector<std::string>{"tune-chip"}) {
        run_tune_chip(a);
        return true;
    }
    if (!named("tune") && !named("tune-chip")) return false;
    if (a.suites.size() != 1) throw UserError("the suites tune and tune-chip run alone: kumiko bench tune");
    run_tune(a, target);
    return true;
}

// The cases of the named suites, except suites with functions of their own.
std::vector<bench::BenchCase> cases_of(const BenchArguments &a) {
    std::vector<bench::BenchCase> cases;
    for (const std::string &suite : a.suites) {
        const bool own =
            suite == "compile" || suite == "sim-speed" || suite.starts_with("chip-") || suite.ends_with(".json");
        if (own && !a.shape.empty())
            throw UserError("suite " + suite + " has cases of its own and takes no --shape" +
                            (suite.starts_with("chip-")
                                 ? "; kumiko run OP --shape … --target chip:full prints the cycles of one op"
                                 : ""));
        if (std::any_of(std::begin(own_suites), std::end(own_suites),
                        [&](const OwnSuite &o) { return suite == o.name; }))
            continue;
        for (const bench::BenchCase &c :
             suite.ends_with(".json") ? bench::library_cases(suite) : bench::suite_cases(suite, a.shape))
            cases.push_back(c);
    }
    return cases;
}

std::vector<bench::BenchRow> run_cases(BenchArguments &a, const std::vector<bench::BenchCase> &cases,
                                       const Target &target) {
    std::vector<bench::BenchRow> rows;
    Progress progress(std::cerr, progress_style(2, a.quiet), "timing",
                      static_cast<int64_t>(cases.size() * a.threads.size()), [] { return terminal_columns(2); });
    for (int threads : a.threads) {
        a.options.threads = threads;
        for (const bench::BenchCase &c : cases) {
            progress.update(static_cast<int64_t>(rows.size()), c.suite + " " + c.name);
            rows.push_back(bench::run_case(c, target, a.options));
        }
    }
    progress.update(static_cast<int64_t>(rows.size()));
    for (const OwnSuite &suite : own_suites) {
        if (!std::count(a.suites.begin(), a.suites.end(), suite.name)) continue;
        progress.line(suite.what);
        for (const bench::BenchRow &r :
             suite.run(target, a.options, [&](const std::string &what) { progress.line("  " + what); }))
            rows.push_back(r);
    }
    return rows;
}

void print_rows(const BenchArguments &a, const std::vector<bench::BenchRow> &rows, bool with_cases) {
    if (a.options.peers && with_cases) {
        std::cout << "peers: ";
        std::string separator;
        for (const std::string &line : bench::peer_lines()) std::cout << std::exchange(separator, "; ") << line;
        std::cout << "\n\n";
    }
    std::cout << bench::report_text(rows, a.options);
    if (with_cases)
        std::cout << "\"of peak\" compares with the best instruction for these types, or with copying memory where the "
                     "caches are too small, timed in the same run; ratios are medians over rounds.\n";
}

void run(BenchArguments a) {
    const Target target = Target::host();
    a.options.peers = a.peers;
    if (run_alone(a, target)) return;
    if (a.suites.empty()) a.suites = bench::suite_names();
    if (!a.shape.empty() && a.suites.size() != 1)
        throw UserError("--shape belongs to one suite; name it: kumiko bench gemm-f32 --shape m=300,n=300,k=300");
    if (!a.shape.empty() && !a.page.empty())
        throw UserError(
            "--page shows whole suites, and one shape would take a suite's place; leave out --shape or --page");
    const std::vector<bench::BenchCase> cases = cases_of(a);
    const std::vector<bench::BenchRow> rows = run_cases(a, cases, target);
    Json all = Json::array();
    for (const bench::BenchRow &r : rows) all.push_back(r.json());
    if (a.json != "-") print_rows(a, rows, !cases.empty());
    write_json(a.json, all);
    std::string wrong;
    for (const bench::BenchRow &r : rows) {
        if (!r.wrong.empty()) wrong += "\n  " + r.suite + " " + r.name + ": " + r.wrong;
    }
    if (!wrong.empty()) throw UserError("not all contestants computed the same:" + wrong);
    if (!a.page.empty()) bench::write_page(a.page, rows, target);
}

} // namespace

void add_bench(CLI::App &app) {
    auto *command = app.add_subcommand("bench", "compare the speed of our kernels with that of other libraries");
    auto a = std::make_shared<BenchArguments>();
    std::string names;
    for (const std::string &s : bench::suite_names()) names += "\n  " + s + ": " + bench::suite_summary(s);
    names += "\n  tune: how close few trials come to the best known schedule, and how well the cost model ranks; not "
             "part of \"all suites\""
             "\n  tune-chip: the gain of tuning on the simulated chip; not part of \"all suites\""
             "\n  stale: how much slower kernels run on memory that holds denormal numbers; not part of \"all suites\""
             "\n  own-ops: ops that no library schedule covers completely: default and hand schedules, compared with "
             "plain loops and ONNX Runtime; not part of \"all suites\""
             "\n  outside: kernels of a library in a C program with a used heap, relative to their rates inside this "
             "process; "
             "not part of \"all suites\""
             "\n  models: models of ONNX beside ONNX Runtime and OpenVINO; not part of \"all suites\"";
    command->add_option("suite", a->suites,
                        "suites, a kernels.json, or a model of ONNX; all suites when none is named");
    add_size_options(*command, a->sizes, a->constants);
    add_bound_option(*command, a->bounds);
    add_rounding_option(*command, a->rounding);
    command
        ->add_option(
            "--shape", a->shape,
            "this shape alone: m=300,n=300,k=300 (suites of several ops: op=softmax,m=64,n=1000; of own-ops the "
            "sizes of the op of --only, at least the suite's: H=2160,W=3840)")
        ->type_name("NAME=VALUE,...");
    command->add_option("--threads", a->threads, "threads, one number or several: 1,2")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    command->add_option("--tuned", a->options.database, "measure the best schedules of this tuning database too")
        ->type_name("DB");
    command->add_option("--seconds", a->options.budget_seconds, "seconds for timing each piece")
        ->check(above_zero())
        ->capture_default_str();
    command->add_flag("!--no-peers", a->peers, "without other libraries; for own-ops, also the loops");
    command->add_flag("!--no-check", a->options.check, "do not compare outputs");
    command->add_flag("--halide", a->options.halide,
                      "measure our nests compiled by Halide's generator too; for own-ops, also the formula scheduled "
                      "by Halide's autoscheduler Adams2019");
    auto *tuning = command->add_option_group("of the suites tune and tune-chip; --only, --known and --explore also of "
                                             "own-ops, --only of stale, outside and models");
    tuning->add_option("--trials", a->tune.trials, "of each task")->check(above_zero())->capture_default_str();
    tuning->add_option("--few", a->tune.few, "number of first trials whose best is reported too")
        ->check(above_zero())
        ->capture_default_str();
    tuning
        ->add_option("--random", a->tune.random,
                     "random samples for comparison and for the cost model's accuracy; 0: none")
        ->check(CLI::Range(0, 100000))
        ->capture_default_str();
    tuning
        ->add_option("--chip-random", a->tune.chip_random, "the same for tune-chip, in the last space that is searched")
        ->check(CLI::Range(0, 100000))
        ->capture_default_str();
    tuning->add_flag("--formula-spaces", a->tune.formula_spaces,
                     "search the spaces made from formulas too if the library has one of its own");
    tuning->add_option("--explore", a->tune.explore, "trials of a longer search, whose best is stored as known")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    tuning->add_option("--known", a->tune.known, "file of the best known schedules")->type_name("FILE.json");
    tuning->add_option("--only", a->tune.only, "tasks whose name contains this")->type_name("TEXT");
    tuning
        ->add_option("--cost-model", a->tune.cost_model,
                     "used instead of the one that comes with Kumiko; none: an untrained one")
        ->type_name("FILE");
    tuning->add_option("--seed", a->tune.seed, "seed of the searches")->check(not_below_zero())->capture_default_str();
    command->add_flag("--quiet", a->quiet, "no progress bar");
    command
        ->add_option("--page", a->page,
                     "write a page with tables and plots; suites on it that are not measured now keep their numbers")
        ->type_name("FILE.md");
    command
        ->add_option("--report", a->report,
                     "of a model: write a page with its graph, times of its steps beside other programs and the "
                     "roofline, memory, and what was fused")
        ->type_name("FILE.html");
    command->add_option("--trace", a->trace, "of a model: write a trace of one run for ui.perfetto.dev")
        ->type_name("FILE");
    add_json_option(*command, a->json);
    add_examples(*command,
                 "  kumiko bench model.onnx --size batch=1 --report page.html --trace trace.json\n"
                 "  kumiko bench gemm-f32 --tuned tuning.db --threads 1,2 --json gemm.json\n  kumiko bench rows "
                 "--shape op=softmax,m=64,n=1000\nSuites:" +
                     names);
    command->callback([a] { run(*a); });
}

} // namespace kumiko::cli
