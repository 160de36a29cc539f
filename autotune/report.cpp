#include "autotune/report.h"

#include "autotune/database_care.h"
#include "autotune/features/feature_sets.h"
#include "autotune/report/plot.h"
#include "autotune/report/sections.h"
#include "support/html.h"
#include "support/html_page.h"
#include "support/names.h"

#include <algorithm>

namespace kumiko {

namespace {

std::string name_of(const DatabaseTask &task) {
    std::string text = task.key.op;
    for (const auto &[size, value] : task.key.sizes) text += " " + size + "=" + std::to_string(value);
    return text + KeyMachine::parse(task.key.machine).conditions();
}

std::string task_part(const ReportTask &task, const CostModel &model, size_t number) {
    using namespace report;
    const Numbers numbers = numbers_of(task.records, model);
    const Subject s{task, numbers, model};
    std::string h = "<section id=\"task" + std::to_string(number) + "\">\n<h2>" + html_escaped(name_of(task.task)) +
                    "</h2>\n<p>" + html_escaped(tensors_text(task.task.tensors)) + "</p>\n<pre>" +
                    html_escaped(task.task.formula) + "</pre>\n";
    return h + facts_section(s) + curve_section(s) + best_section(s) + prediction_section(s) + reasons_section(s) +
           failures_section(s) + "</section>\n";
}

// The machine with the key's id; nullopt if it is unknown here.
std::optional<Machine> machine_of(const TaskKey &key) {
    const std::string id = KeyMachine::parse(key.machine).id;
    const auto is = [&](const Machine &m) { return id == m.id(); };
    if (const Machine host = Machine::host(); is(host)) return host;
    for (const std::string &name : Machine::names()) {
        if (Machine m = Machine::named(name); is(m)) return m;
    }
    return std::nullopt;
}

// A page can contain tasks of processors and of chips.
std::shared_ptr<const CostModel> model_of(const ReportTask &task, const ReportOptions &options) {
    if (options.model) return options.model;
    for (const Record &r : task.records) {
        if (!is_current(r.features)) continue;
        const auto machine = machine_of(task.task.key);
        const bool fits = machine && features_for(*machine).version == r.features.version;
        return fits ? CostModel::shipped(*machine) : CostModel::shipped(r.features.version);
    }
    return CostModel::shipped();
}

} // namespace

std::string report_page(const std::vector<ReportTask> &tasks, const ReportOptions &options) {
    if (tasks.empty()) throw UserError("there is nothing to report: no task is given");
    for (const ReportTask &t : tasks) {
        if (t.records.empty())
            throw UserError("there is nothing to report of " + name_of(t.task) + ": it has no records; tune it first");
    }
    const std::string title = tasks.size() == 1 ? "Tuning of " + name_of(tasks[0].task)
                                                : "Tuning of " + std::to_string(tasks.size()) + " tasks";
    std::string h;
    if (tasks.size() > 1) {
        h += "<ul>\n";
        for (size_t i = 0; i < tasks.size(); i++)
            h += "<li><a href=\"#task" + std::to_string(i) + "\">" + html_escaped(name_of(tasks[i].task)) +
                 "</a> <small>" + html_escaped(tensors_text(tasks[i].task.tensors)) + "</small></li>\n";
        h += "</ul>\n";
    }
    for (size_t i = 0; i < tasks.size(); i++) h += task_part(tasks[i], *model_of(tasks[i], options), i);
    return html_page(title, h);
}

std::vector<ReportTask> report_tasks(const Database &database, const std::vector<std::string> &ops) {
    std::vector<ReportTask> all;
    std::vector<std::string> names;
    for (const Database::TaskSummary &t : database.tasks()) {
        if (std::find(names.begin(), names.end(), t.key.op) == names.end()) names.push_back(t.key.op);
        if (!ops.empty() && std::find(ops.begin(), ops.end(), t.key.op) == ops.end()) continue;
        if (t.records == 0) continue;
        all.push_back({t, database.records(t.key, Machine{}), {}});
        if (all.back().records.empty())
            throw UserError("the tuning database " + database.path() + " is damaged: the records of a task of " +
                            t.key.op + " do not have its key");
    }
    if (names.empty()) throw UserError(database.path() + " holds no records to report; tune something first");
    for (const std::string &op : ops) {
        if (std::find(names.begin(), names.end(), op) == names.end())
            throw UserError(database.path() + " has no records of an op \"" + op + "\"" + suggest(op, names));
    }
    return all;
}

} // namespace kumiko
