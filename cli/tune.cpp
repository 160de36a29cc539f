// kumiko tune OP, or all kernels of a kernels.json or a model.
#include "cli/common.h"
#include "cli/model.h"

#include "autotune/report.h"
#include "autotune/tune.h"
#include "autotune/work.h"
#include "driver/machines.h"
#include "graph/build/model_library.h"
#include "ops/shared_object.h"
#include "support/atomic_file.h"
#include "support/duration.h"
#include "support/progress.h"
#include "support/table.h"
#include "targets/chip/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <unistd.h>

namespace kumiko::cli {

namespace {

struct TuneArguments {
    OpArguments op;
    TuneOptions options;
    double budget = 0;
    std::vector<std::string> sizes, constants, bounds; // of a model
    std::string rounding;                              // of a model
    std::string json, target = "host", search = "model", space = "fitting", page;
};

std::atomic<bool> interrupted = false;

// Control-C ends the search properly with the best so far; a second one ends the program.
class InterruptHandler {
public:
    InterruptHandler() {
        interrupted = false;
        before_ = std::signal(SIGINT, [](int) {
            interrupted = true;
            std::signal(SIGINT, SIG_DFL);
            constexpr char told[] = "\nkumiko: ending; press again to end at once\n";
            [[maybe_unused]] const auto n = write(STDERR_FILENO, told, sizeof told - 1);
        });
    }
    ~InterruptHandler() { std::signal(SIGINT, before_); }

private:
    void (*before_)(int);
};

struct Task {
    std::string name;
    Op op;
    OpRecipe recipe;
    bool ahead;
    double weight = 1;
};

TaskKey key_of(const TuneArguments &a, const Task &task, const Machine &machine) {
    BestOptions options = best_options(a.options);
    options.ahead = task.ahead;
    return task_key(task.op, machine, options);
}

// The results for each task, from the database, or from this session if nothing is stored. Returns
// whether there are any; without them there is no page.
bool write_page(const TuneArguments &a, const std::vector<Task> &tasks, const Machine &machine,
                const std::vector<TuneReport> &reports) {
    std::vector<ReportTask> all;
    for (size_t i = 0; i < tasks.size(); i++) {
        const TaskKey key = key_of(a, tasks[i], machine);
        ReportTask t{Database::task_of(tasks[i].op, key), reports[i].records, count_work(tasks[i].op, a.options.sizes),
                     reports[i].checked_elements};
        t.records.insert(t.records.end(), reports[i].rejections.begin(), reports[i].rejections.end());
        if (!a.options.database.empty())
            t.records = Database(a.options.database, Database::Mode::Read).records(key, machine);
        if (!t.records.empty()) all.push_back(std::move(t));
    }
    if (all.empty()) return false;
    write_file_atomically(a.page, report_page(all, {.model = cost_model_named(a.options.cost_model)}));
    return true;
}

// Writes the page after a session that failed, possibly because its database is unusable.
bool write_page_after_failure(const TuneArguments &a, const std::vector<Task> &tasks, const Machine &machine,
                              const std::vector<TuneReport> &reports) {
    try {
        return write_page(a, tasks, machine, reports);
    } catch (const UserError &) {
        return false;
    }
}

// "37 of 128 trials", of the trials for all tunable tasks.
std::string trials_text(const TuneArguments &a, const std::vector<TuneReport> &reports) {
    int64_t done = 0, all = 0;
    for (const TuneReport &r : reports) {
        if (!r.error.empty()) continue;
        done += r.measured + std::min(r.known, a.options.trials);
        all += a.options.trials;
    }
    return fmt::format("{} of {} trials", done, all);
}

std::string interruption(const TuneArguments &a, const std::vector<TuneReport> &reports) {
    std::string text = "kumiko: interrupted after " + trials_text(a, reports);
    if (a.options.database.empty()) return text + ", which are not stored, because --db names no database";
    return text + fmt::format(": all measurements are stored in {}, and the same command continues from there",
                              a.options.database);
}

// Why there is no schedule for it.
std::string why_none(const TuneReport &report) {
    if (!report.error.empty()) return report.error;
    if (report.failures.empty()) return report.used_up.empty() ? "it was not tried" : report.used_up;
    const auto most = std::max_element(report.failures.begin(), report.failures.end(),
                                       [](const auto &a, const auto &b) { return a.second < b.second; });
    return fmt::format("no candidate is good, most often {}", report.failure_examples.at(most->first));
}

// For several kernels: reports failures after the others have been tuned.
void require_all(const std::vector<Task> &tasks, const std::vector<TuneReport> &reports,
                 const std::vector<std::optional<Record>> &found) {
    std::string failed;
    size_t n = 0;
    for (size_t i = 0; i < tasks.size(); i++) {
        if (found[i]) continue;
        n++;
        failed += (failed.empty() ? "" : "; ") + tasks[i].name + ": " + why_none(reports[i]);
    }
    if (n > 0)
        throw UserError(fmt::format("of {} kernels {} not tuned: {}", tasks.size(),
                                    n == 1 ? "1 was" : fmt::format("{} were", n), failed));
}

// A shared object gets its full path, since workers run in other folders.
OpRecipe recipe_of(const std::string &name, const Json &parameters) {
    const auto shared = ops::shared_name(name);
    if (!shared) return {name, parameters};
    return {std::filesystem::absolute(shared->file).lexically_normal().string() + ":" + shared->op, parameters};
}

// Programs of the chip are simulated here, and kernels of a named level run here.
Target target_of(const TuneArguments &a) {
    if (!a.options.workers.empty() && a.target != "host")
        throw UserError(
            "workers measure on their own machines: --workers goes with --target host alone; a worker under "
            "`kumiko --limit " +
            a.target + " worker …` serves `kumiko --limit " + a.target + " tune …`");
    return is_chip(a.target)    ? Target{machine_named(a.target), CpuTarget::host()}
           : a.target == "host" ? Target::host()
                                : Target::named(a.target);
}

// The op, or the kernels of a kernels.json; those with sizes known only at run time are left out.
std::vector<Task> tasks_of(TuneArguments &a, const Target &target, std::vector<std::string> &left_out) {
    std::vector<Task> tasks;
    if (is_model(a.op.name)) {
        const graph::Model model = graph::Model::load(a.op.name);
        model.check();
        graph::CompileModelOptions options;
        options.sizes = sizes_of(a.sizes), options.constants = constants_of(a.constants, model);
        options.bounds = bounds_of(a.bounds);
        options.rules->rounding = rounding_of(a.rounding);
        Progress progress(std::cerr, progress_style(2, a.options.quiet), "reading " + a.op.name, 0,
                          [] { return terminal_columns(2); });
        options.progress = phases_of(progress);
        for (const graph::ModelTask &t : graph::tuning_tasks(model, options, target))
            tasks.push_back({fmt::format("{} ({} call{})", t.name, t.calls, t.calls == 1 ? "" : "s"),
                             t.op,
                             {},
                             t.packed,
                             double(t.calls)});
        if (tasks.empty()) throw UserError(a.op.name + " has no kernels to tune");
        return tasks;
    }
    if (!a.sizes.empty() || !a.constants.empty() || !a.bounds.empty() || !a.rounding.empty())
        throw UserError("--size, --constant, --bound and --rounding are for models");
    if (!a.op.name.ends_with(".json")) {
        tasks.push_back({a.op.name, a.op.op(), recipe_of(a.op.name, a.op.parameters()), a.options.ahead});
        a.op.require_sizes(tasks[0].op);
        a.options.sizes = a.op.bound_sizes();
        return tasks;
    }
    if (!a.op.shape.empty() || !a.op.type.empty())
        throw UserError("--shape and --type belong to one op; " + a.op.name + " states its own");
    for (const LibraryKernel &k : LibraryDescription::load(a.op.name).kernels) {
        if (k.op.sizes().empty())
            tasks.push_back({k.name, k.op, recipe_of(k.op_name, k.parameters), k.ahead || a.options.ahead});
        else
            left_out.push_back(k.name);
    }
    for (const std::string &name : left_out)
        std::cerr << "kumiko: " << name << " is left out: its sizes are known only at run time; tune the op at "
                  << "some of them: kumiko tune OP --shape ... --sizes ...\n";
    if (tasks.empty()) throw UserError(a.op.name + " has no kernel with all sizes known");
    return tasks;
}

void complete_options(TuneArguments &a) {
    a.options.search = a.search == "random"      ? SearchMethod::Random
                       : a.search == "evolution" ? SearchMethod::Evolution
                                                 : SearchMethod::Model;
    a.options.spaces = a.space == "library" ? SpaceKind::Library
                       : a.space == "auto"  ? SpaceKind::Auto
                                            : SpaceKind::Fitting;
    a.options.interrupt = &interrupted;
    a.options.progress = &std::cerr;
    a.options.style = progress_style(2, a.options.quiet);
    a.options.columns = [] { return terminal_columns(2); };
    a.options.seconds = a.budget;
}

// The best record of each task.
std::vector<std::optional<Record>> tune_tasks(TuneArguments &a, const std::vector<Task> &tasks, const Target &target,
                                              std::vector<TuneReport> &reports) {
    if (tasks.size() > 1) {
        std::vector<TuneTask> all;
        for (const Task &task : tasks) all.push_back({task.op, task.weight, task.recipe, task.ahead});
        return kumiko::tune_all(all, target.machine, target.cpu, a.options, &reports);
    }
    a.options.recipe = tasks[0].recipe, a.options.ahead = tasks[0].ahead;
    try {
        return {tune(tasks[0].op, target, a.options, &reports[0])};
    } catch (const UserError &e) { // the page is most useful for a failure
        if (!interrupted) {
            if (!a.page.empty() && write_page_after_failure(a, tasks, target.machine, reports))
                std::cerr << "kumiko: " << a.page << " shows what failed\n";
            throw;
        }
        std::cerr << "kumiko: " << e.what() << "\n";
        return {std::nullopt};
    }
}

// The entry of a task in the output of --json, without its best schedule.
Json entry_of(const TuneArguments &a, const Task &task, const TuneReport &report) {
    Json failures = Json::object();
    for (const auto &[reason, count] : report.failures) failures[reason] = count;
    Json entry = {{"name", task.name},
                  {"formula_hash", task.op.hash()},
                  {"cold", a.options.cold},
                  {"ahead", task.ahead},
                  {"measured", report.measured},
                  {"known", report.known},
                  {"rejected", report.rejected},
                  {"failures", failures},
                  {"interrupted", interrupted.load()},
                  {"budget_ended", report.budget_ended},
                  {"seconds", report.seconds},
                  {"search_seconds", report.search_seconds}};
    if (report.measured > 0)
        entry["checked_elements"] = report.checked_elements > 0 ? Json(report.checked_elements) : Json("all");
    if (!report.used_up.empty()) entry["used_up"] = report.used_up;
    if (!report.unmeasured.empty()) entry["unmeasured"] = report.unmeasured;
    if (!report.error.empty()) entry["error"] = report.error;
    if (!a.options.workers.empty()) entry["by_worker"] = report.by_worker;
    return entry;
}

// Adds a task's row to the table, and its best schedule to the entry.
void add_result(const TuneArguments &a, const Task &task, const TuneReport &report, const std::optional<Record> &found,
                Table &table, Json &entry) {
    const std::string tried = fmt::format("{}", report.measured + report.known);
    if (!found) {
        const char *why = !report.error.empty()                ? "cannot be tuned"
                          : report.measured + report.known > 0 ? "none is good"
                                                               : "not tried";
        table.row({task.name, "-", why, "-", tried, duration_text(report.seconds)});
        return;
    }
    const Record &best = *found;
    const Work work = count_work(task.op, a.options.sizes);
    const double before = report.default_seconds, after = best.seconds();
    table.row({task.name, before > 0 ? rate_text(work, before) : "-", rate_text(work, after),
               before > 0 ? fmt::format("{:.2f}x", before / after) : "-", tried, duration_text(report.seconds)});
    entry.update({{"threads", best.key.threads},
                  {"default_seconds", before > 0 ? Json(before) : Json(nullptr)},
                  {"best_seconds", after},
                  {"rate", rate_text(work, after)},
                  {"parameters", *best.parameters},
                  {"schedule", Json(*best.saved_schedule)}});
}

// The lines below the table.
void print_remarks(const TuneArguments &a, const std::vector<Task> &tasks, const std::vector<TuneReport> &reports,
                   const std::vector<std::string> &left_out, bool page) {
    for (size_t i = 0; i < tasks.size(); i++) {
        if (!reports[i].error.empty()) std::cout << tasks[i].name << " cannot be tuned: " << reports[i].error << "\n";
        if (!reports[i].used_up.empty())
            std::cout << tasks[i].name << ": no more trials, for " << reports[i].used_up << "\n";
        if (!reports[i].unmeasured.empty())
            std::cout << tasks[i].name << ": nothing was measured; this was known before: " << reports[i].unmeasured
                      << "\n";
    }
    if (std::any_of(reports.begin(), reports.end(), [](const TuneReport &r) { return r.budget_ended; }))
        std::cout << (tasks.size() == 1 ? tasks[0].name + ": the budget ended it" : "the budget ended the search")
                  << " after " << trials_text(a, reports) << "\n";
    for (const std::string &name : left_out)
        std::cout << name << ": left out, because its sizes are known only at run time\n";
    for (size_t i = 0; i < tasks.size(); i++) {
        if (reports[i].checked_elements > 0)
            std::cout << tasks[i].name << ": results were checked at a sample of " << reports[i].checked_elements
                      << " elements, for evaluating the formula takes long\n";
    }
    if (!a.options.database.empty()) std::cout << "kept in " << a.options.database << "\n";
    if (page) std::cout << "report: " << a.page << "\n";
    if (!page && !a.page.empty()) std::cout << "no report: nothing was tried\n";
}

void run_tune(TuneArguments a) {
    require_folder_of(a.page);
    require_folder_of(a.json);
    const Target target = target_of(a);
    std::vector<std::string> left_out;
    const std::vector<Task> tasks = tasks_of(a, target, left_out);
    const InterruptHandler handler;
    complete_options(a);
    std::vector<TuneReport> reports(1);
    const std::vector<std::optional<Record>> found = tune_tasks(a, tasks, target, reports);

    const bool page = !a.page.empty() && write_page(a, tasks, target.machine, reports);
    Table table({"kernel", "before", "after", "gain", "tried", "took"});
    Json all = Json::array();
    for (size_t i = 0; i < tasks.size(); i++) {
        Json entry = entry_of(a, tasks[i], reports[i]);
        add_result(a, tasks[i], reports[i], found[i], table, entry);
        all.push_back(std::move(entry));
    }
    if (a.json != "-") {
        std::cout << table.text();
        print_remarks(a, tasks, reports, left_out, page);
    }
    write_json(a.json, all);
    if (interrupted) {
        std::cerr << interruption(a, reports) << "\n";
        throw Interrupted();
    }
    if (tasks.size() > 1) require_all(tasks, reports, found);
}

} // namespace

void add_tune(CLI::App &app) {
    auto *command = app.add_subcommand(
        "tune", "search for a good schedule of an op, or of every kernel of a kernels.json or a model");
    auto a = std::make_shared<TuneArguments>();
    a->options.database = "tuning.db";
    a->options.threads = 1;
    a->op.add_to(*command);
    add_size_options(*command, a->sizes, a->constants);
    add_bound_option(*command, a->bounds);
    add_rounding_option(*command, a->rounding);
    command
        ->add_option("--trials", a->options.trials,
                     "schedules to measure for each kernel, including those in the database")
        ->check(above_zero())
        ->capture_default_str();
    command->add_option("--budget", a->budget, "seconds for all kernels together; 0: until the trials are done")
        ->check(not_below_zero())
        ->capture_default_str();
    command->add_option("--db", a->options.database, "database of results, in which tuning continues")
        ->type_name("FILE")
        ->capture_default_str();
    command
        ->add_option(
            "--target", a->target,
            "host, a level that the host can run, such as x86-64-avx2, or a simulated chip: chip:small, chip:full")
        ->capture_default_str();
    command->add_option("--threads", a->options.threads, "threads that the kernel may use; 0: one per core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    command
        ->add_option("--memory", a->options.memory_mib,
                     "memory limit in MiB of the process that runs candidates; 0: three quarters of the machine's")
        ->check(not_below_zero())
        ->capture_default_str();
    command->add_flag("--cold", a->options.cold,
                      "measure with arrays out of the caches, as between other work; these records are separate from "
                      "those measured in the caches");
    command->add_flag("--ahead", a->options.ahead,
                      "the kernel takes pre-packed weights; these records are separate from those of kernels that "
                      "pack. Entries of a kernels.json use their own \"ahead\"; this flag sets it for all");
    command->add_option("--seed", a->options.seed, "seed of the search")
        ->check(not_below_zero())
        ->capture_default_str();
    command
        ->add_option("--search", a->search,
                     "model: guided by a trained cost model; evolution: by this task's measurements alone; random: a "
                     "baseline for comparison")
        ->check(CLI::IsMember({"model", "evolution", "random"}))
        ->capture_default_str();
    command
        ->add_option("--space", a->space,
                     "library: the parameters of the library's schedule; auto: a space made from the formula; fitting: "
                     "auto if the library has no schedule of its own for the op")
        ->check(CLI::IsMember({"fitting", "library", "auto"}))
        ->capture_default_str();
    command
        ->add_option(
            "--cost-model", a->options.cost_model,
            "a cost model of `kumiko learn`, instead of the one that comes with Kumiko; none: an untrained one")
        ->type_name("FILE");
    command
        ->add_option("--workers", a->options.workers,
                     "address of a Redis server, whose workers (`kumiko worker`) measure instead of this machine")
        ->type_name("redis://HOST:PORT");
    command->add_option("--report", a->page, "write a page: curves, predictions, the best schedule, failures")
        ->type_name("FILE.html");
    command->add_flag("--fresh", a->options.fresh, "measure known schedules again");
    command->add_flag("--quiet", a->options.quiet, "no progress bar");
    add_json_option(*command, a->json);
    add_examples(
        *command,
        "  kumiko tune matmul --shape m=512,n=512,k=512 --trials 128\n"
        "  kumiko tune ./libmyops.so:group_norm_silu --shape N=2,G=8,C=4,H=32,W=32\n"
        "  kumiko tune matmul --shape m=512,n=512,k=512,transpose_b=true,output=f32 --type f16 --target chip:small\n"
        "  kumiko tune kernels.json --budget 120 --db tuning.db\n"
        "  kumiko tune model.onnx --size batch=1 --budget 600 --db tuning.db\n"
        "  kumiko tune matmul --shape m=512,n=512,k=512 --workers redis://localhost:6379\n"
        "Control-C ends the search with the best so far; the same command continues from there.");
    command->callback([a] { run_tune(*a); });
}

} // namespace kumiko::cli
