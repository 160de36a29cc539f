// kumiko learn: measures tasks, and trains the cost model from tuning databases.
#include "cli/common.h"

#include "autotune/features/chip_features.h"
#include "autotune/features/feature_sets.h"
#include "autotune/model/learn.h"
#include "autotune/model/multi_stage_tasks.h"
#include "autotune/model/training_tasks.h"
#include "autotune/tune.h"
#include "driver/machines.h"
#include "support/atomic_file.h"
#include "support/duration.h"
#include "support/progress.h"
#include "support/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace kumiko::cli {

namespace {

struct LearnArguments {
    std::vector<std::string> databases = {"learn.db"};
    std::string out = "cost-model.ubj", from, only, json, target = "host";
    int trials = 200, folds = 5;
    TreeOptions trees = CostModel::default_options();
    bool measure = true, quiet = false;
};

Machine machine_of(const LearnArguments &a) { return a.target == "host" ? Machine::host() : machine_named(a.target); }
bool for_chip(const LearnArguments &a) { return machine_of(a).architecture == "chip"; }
// Code is generated for processors; candidates for a chip are simulated on this one.
CpuTarget cpu_of(const LearnArguments &a) {
    return a.target == "host" || for_chip(a) ? CpuTarget::host() : Target::named(a.target).cpu;
}

void measure_one(const TrainingTask &task, const Machine &machine, const CpuTarget &cpu, const TuneOptions &options) {
    try {
        tune(task.op, machine, cpu, options);
        // Failures are training data too; and not all ops have both spaces.
    } catch (const PlacedError &e) {
        if (!options.quiet) std::cerr << "kumiko: " << task.name << ": " << e.what() << "\n";
    }
}

std::vector<TrainingTask> tasks_to_measure(const LearnArguments &a) {
    std::vector<TrainingTask> tasks = for_chip(a) ? chip_training_tasks() : training_tasks();
    std::erase_if(tasks, [&](const TrainingTask &t) { return t.name.find(a.only) == std::string::npos; });
    if (tasks.empty()) throw UserError("no training task has \"" + a.only + "\" in its name");
    return tasks;
}

// Measures the library's space and the one made from the formula: half of the trials at random, so
// that the whole space is covered, and half by evolution, where tuning will search.
void measure(const LearnArguments &a) {
    const Machine machine = machine_of(a);
    const CpuTarget cpu = cpu_of(a);
    const std::vector<TrainingTask> tasks = tasks_to_measure(a);
    for (size_t i = 0; i < tasks.size(); i++) {
        TuneOptions o;
        o.threads = 1;
        o.database = a.databases[0];
        o.final_seconds = 0;
        o.trial_seconds = 0.05;
        o.cost_model = "none";
        o.quiet = a.quiet;
        o.progress = &std::cerr;
        o.style = progress_style(2, a.quiet);
        o.columns = [] { return terminal_columns(2); };
        if (!a.quiet) std::cerr << fmt::format("[{}/{}] {}\n", i + 1, tasks.size(), tasks[i].name);
        for (const SpaceKind kind : {SpaceKind::Library, SpaceKind::Auto}) {
            // The library's spaces for chips are small; tuning searches those of formulas.
            const int lesser = a.trials / 3, greater = a.trials - lesser;
            int all = (kind == SpaceKind::Library) == for_chip(a) ? lesser : greater;
            if (tasks[i].formula_space) all = kind == SpaceKind::Auto ? a.trials : 0;
            if (all < 2) continue;
            o.spaces = kind;
            o.search = SearchMethod::Random;
            o.trials = all / 2;
            measure_one(tasks[i], machine, cpu, o);
            o.search = SearchMethod::Evolution;
            o.trials = all;
            measure_one(tasks[i], machine, cpu, o);
        }
    }
}

std::string task_name(const std::string &op, const std::string &hash) { return op + " " + hash.substr(0, 8); }

std::vector<ModelTask> read_tasks(const LearnArguments &a) {
    const int version = features_for(machine_of(a)).version;
    std::vector<ModelTask> all;
    std::map<int, int> others; // version → number of records with that feature version
    for (const std::string &file : a.databases) {
        const Database database(file, Database::Mode::Read);
        for (const Database::TaskSummary &t : database.tasks()) {
            std::string name = task_name(t.key.op, t.key.op_hash);
            if (t.key.threads != 1) name += fmt::format(", {} threads", t.key.threads);
            const std::vector<Record> records = database.records(t.key, Machine{});
            for (const Record &r : records) {
                if (r.features.version != 0 && r.features.version != version) others[r.features.version]++;
            }
            ModelTask task = model_task(name, records, version);
            if (task.features.size() >= 2) all.push_back(std::move(task));
        }
    }
    if (!all.empty() || others.empty()) return all;
    std::string text = fmt::format("no model can be trained for {}: no task has two candidates with features of {}",
                                   a.target, describe_features(version));
    for (const auto &[other, n] : others) text += fmt::format("; {} have those of {}", n, describe_features(other));
    if (others.count(chip_features_version)) text += "; kumiko learn --target chip:small trains on those";
    if (others.count(features_version)) text += "; kumiko learn --target host trains on those";
    throw UserError(text);
}

// `from`: null unless training continues a model.
std::vector<std::string> cells(const std::string &name, const Accuracy &l, const Accuracy *from, const Accuracy &a) {
    const auto number = [](double x) { return fmt::format("{:.3f}", x); };
    std::vector<std::string> row = {name, number(l.pairs), number(l.recall_30), number(l.top_1), number(l.top_5)};
    if (from) row.insert(row.end(), {number(from->pairs), number(from->recall_30), number(from->top_1)});
    row.insert(row.end(), {number(a.pairs), number(a.recall_30), number(a.top_1)});
    return row;
}

// A row for each task. The last rows are means: of the tasks of several stages, of the others, and
// of all. Appends an object for each task to the report.
Table table_of(const Validation &v, Json &report) {
    const bool from = !v.before.empty();
    std::vector<std::string> headings = {"task, not seen", "pairs", "recall@30", "top-1", "top-5"};
    if (from) headings.insert(headings.end(), {"from: pairs", "recall@30", "top-1"});
    headings.insert(headings.end(), {"estimate: pairs", "recall@30", "top-1"});
    Table table(headings);
    const auto add = [&](Json &j, const std::string &prefix, const Accuracy &a) {
        j[prefix + "pairs"] = a.pairs, j[prefix + "recall_30"] = a.recall_30, j[prefix + "top_1"] = a.top_1;
    };
    std::set<std::string> chains; // task names as made by read_tasks
    for (const TrainingTask &t : multi_stage_tasks()) chains.insert(task_name(t.op.name(), t.op.hash()));
    for (size_t i = 0; i < v.tasks.size(); i++) {
        table.row(cells(v.tasks[i], v.learned[i], from ? &v.before[i] : nullptr, v.analytical[i]));
        Json j = {{"task", v.tasks[i]}};
        add(j, "", v.learned[i]);
        if (from) add(j, "from_", v.before[i]);
        add(j, "analytical_", v.analytical[i]);
        report.push_back(std::move(j));
    }
    const auto means = [&](const std::string &of, const std::function<bool(size_t)> &counts) {
        std::vector<Accuracy> learned, before, analytical;
        for (size_t i = 0; i < v.tasks.size(); i++) {
            if (!counts(i)) continue;
            learned.push_back(v.learned[i]), analytical.push_back(v.analytical[i]);
            if (from) before.push_back(v.before[i]);
        }
        if (learned.empty()) return;
        const Accuracy b = mean(before);
        table.row(cells("mean" + of, mean(learned), from ? &b : nullptr, mean(analytical)));
    };
    const auto is_chain = [&](size_t i) { return chains.count(v.tasks[i].substr(0, v.tasks[i].find(','))) > 0; };
    size_t n = 0;
    for (size_t i = 0; i < v.tasks.size(); i++) n += is_chain(i);
    if (n > 0 && n < v.tasks.size()) {
        means(fmt::format(" of {} multi-stage training tasks", n), is_chain);
        means(fmt::format(" of {} others", v.tasks.size() - n), [&](size_t i) { return !is_chain(i); });
    }
    means("", [](size_t) { return true; });
    return table;
}

// The scores of random guessing: half of the pairs; for the 30 fastest, the fraction that 30 of all
// candidates contain; as first choice, the mean.
std::string chance_text(const std::vector<ModelTask> &tasks) {
    double recall = 0, top_1 = 0, counted = 0;
    for (const ModelTask &t : tasks) {
        const auto n = static_cast<double>(t.seconds.size());
        if (n < 30) continue;
        double sum = 0;
        for (const float q : qualities(t.seconds)) sum += q;
        recall += std::min(30.0, n) / n, top_1 += sum / n, counted++;
    }
    if (counted == 0) return "";
    return fmt::format("chance: pairs 0.500, recall@30 {:.3f}, top-1 {:.3f}\n", recall / counted, top_1 / counted);
}

// Checks that there will be a task for each fold, as far as known before an hour of measuring. A
// database that is missing or damaged is an error here too.
void check_folds(const LearnArguments &a) {
    std::set<std::string> tasks;
    const auto add = [&](const TaskKey &k) {
        // One op on several machines is left out as a whole.
        tasks.insert(k.op_hash + " " + std::to_string(k.threads));
    };
    for (size_t i = 0; i < a.databases.size(); i++) {
        // It will be created.
        if (i == 0 && a.measure && !std::filesystem::exists(a.databases[0])) continue;
        const Database database(a.databases[i], Database::Mode::Read);
        for (const Database::TaskSummary &t : database.tasks()) {
            if (t.records >= 2) add(t.key);
        }
    }
    if (a.measure) {
        for (const TrainingTask &t : tasks_to_measure(a)) add(task_key(t.op, machine_of(a), {.threads = 1}));
    }
    if (tasks.empty()) throw UserError("no model can be trained: the databases hold no task with two candidates");
    if (a.folds > 1 && tasks.size() < static_cast<size_t>(a.folds))
        throw UserError(fmt::format(
            "{} folds need as many tasks, and there {} {}; {}", a.folds, tasks.size() == 1 ? "is" : "are", tasks.size(),
            tasks.size() < 2 ? std::string("legal is --folds 0")
                             : fmt::format("legal are --folds 2 to {}, or 0 for none", tasks.size())));
}

void learn(const LearnArguments &a) {
    require_folder_of(a.out);
    require_folder_of(a.json);
    check_folds(a);
    std::optional<CostModel> from;
    if (!a.from.empty()) from = CostModel::load_file(a.from);
    const CostModel *before = from ? &*from : nullptr;
    if (before && before->version() != features_for(machine_of(a)).version)
        throw UserError(fmt::format("{} was learned from features of {}; a model for {} needs those of {}", a.from,
                                    describe_features(before->version()), a.target,
                                    describe_features(features_for(machine_of(a)).version)));
    if (a.measure) measure(a);
    const std::vector<ModelTask> tasks = read_tasks(a);
    Json report = Json::array();
    if (a.folds > 1) {
        std::set<std::string> names;
        for (const ModelTask &t : tasks) names.insert(t.name);
        // Tasks may have failed to measure or contain nothing to learn from.
        if (names.size() < static_cast<size_t>(a.folds))
            throw UserError(
                fmt::format("{} folds need as many tasks with features, and there are {}", a.folds, names.size()));
        const Validation v = cross_validate(tasks, static_cast<size_t>(a.folds), a.trees, nullptr, before);
        const Table table = table_of(v, report);
        if (a.json != "-") std::cout << table.text() << chance_text(tasks);
    }
    write_file_atomically(a.out, CostModel::learn(tasks, a.trees, before).save());
    size_t candidates = 0;
    for (const ModelTask &t : tasks) candidates += t.features.size();
    if (a.json != "-")
        std::cout << fmt::format("trained on {} candidates of {} tasks: {}\n", candidates, tasks.size(), a.out);
    write_json(a.json, report);
}

} // namespace

void add_learn(CLI::App &app) {
    auto *command = app.add_subcommand("learn", "measure many tasks, and train the cost model that tuning begins with");
    auto a = std::make_shared<LearnArguments>();
    command
        ->add_option("--db", a->databases,
                     "databases of measurements; all are used for training, and the first is written to")
        ->type_name("FILE")
        ->capture_default_str();
    command->add_option("--out", a->out, "file of the model, for kumiko tune --cost-model")
        ->type_name("FILE")
        ->capture_default_str();
    command
        ->add_option("--from", a->from,
                     "a model to continue from: its trees are kept, and --rounds trees are added; the table shows its "
                     "ranking of the tasks, on some of which it may have been trained")
        ->type_name("MODEL");
    command->add_option("--trials", a->trials, "candidates of each task, including those in the database")
        ->check(above_zero())
        ->capture_default_str();
    command
        ->add_option("--target", a->target,
                     "machine to measure for: the host, a level that it can run, such as x86-64-avx2, or a simulated "
                     "chip, chip:small; chips and processors have separate models")
        ->capture_default_str();
    command->add_option("--only", a->only, "measure tasks whose name contains this")->type_name("TEXT");
    command->add_option("--folds", a->folds, "number of folds of the cross-validation; 0: none")
        ->check(CLI::Range(0, 100))
        ->capture_default_str();
    command->add_option("--rounds", a->trees.rounds, "trees")->check(above_zero())->capture_default_str();
    command->add_option("--depth", a->trees.depth, "of a tree")->check(CLI::Range(1, 12))->capture_default_str();
    command->add_flag("!--no-measure", a->measure, "train on the contents of the databases");
    command->add_flag("--quiet", a->quiet, "no progress bar");
    add_json_option(*command, a->json);
    add_examples(*command,
                 "  kumiko learn --db learn.db --out cost-model.ubj\n"
                 "  kumiko learn --target chip:small --trials 120 --rounds 120 --db chip.db --out chip.ubj\n"
                 "  kumiko learn --no-measure --db mine.db --db learn.db --out mine.ubj\n"
                 "  kumiko learn --from cost-model.ubj --rounds 200 --no-measure --db mine.db --out mine.ubj\n"
                 "  kumiko tune matmul --shape m=512,n=512,k=512 --cost-model mine.ubj\n"
                 "Control-C ends it; the same command continues from there.");
    command->callback([a] { learn(*a); });
}

} // namespace kumiko::cli
