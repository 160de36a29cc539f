#include "autotune/report.h"

#include "autotune/database_care.h"
#include "autotune/features/feature_sets.h"
#include "autotune/report/plot.h"
#include "autotune/report/sections.h"
#include "support/html.h"
#include "support/names.h"

#include <algorithm>

namespace kumiko {

namespace {

constexpr const char *page_style = R"(<style>
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6875; --line: #e3e8ee; --box: #f4f7fa; --page: #fff;
  --best: #1f6fb2; --chance: #c2703d; --dot: #1f6fb255; --dot2: #c2703d77; --good: #2a8a4a; --bad: #b3403a }
@media (prefers-color-scheme: dark) { :root { --ink: #dbe3ea; --soft: #93a1ae; --line: #2b343e; --box: #222a33;
  --page: #14191f;
  --best: #62a8e0; --chance: #e29a66; --dot: #62a8e066; --dot2: #e29a6688; --good: #65bd83; --bad: #e5837d } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; padding: 0 1rem;
  color: var(--ink); background: var(--page) }
h1 { font-size: 1.5rem } h2 { font-size: 1.25rem; margin-top: 3rem; border-top: 1px solid var(--line);
  padding-top: 1.5rem }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem } small, .soft, figcaption { color: var(--soft) }
  figure { margin: 1rem 0 }
table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
  td.for { color: var(--good) } td.against { color: var(--bad) }
pre, code { font: 13px/1.45 ui-monospace, monospace } pre { background: var(--box); padding: .8rem 1rem;
  border-radius: 6px; overflow-x: auto }
code { overflow-wrap: anywhere } .scroll { overflow-x: auto } a { color: var(--best) }
.facts { display: flex; flex-wrap: wrap; gap: .8rem } .facts div { background: var(--box); padding: .5rem .9rem;
  border-radius: 6px }
.facts b { display: block; font-size: 1.15rem; font-weight: 600 }
svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
  svg text.name { font-size: 12px; fill: var(--ink) }
.grid { stroke: var(--line); fill: none } .diagonal { stroke: var(--soft); stroke-dasharray: 4 4; fill: none }
  .line { fill: none; stroke-width: 2 }
path.best { stroke: var(--best) } path.chance { stroke: var(--chance); stroke-dasharray: 6 3 }
  circle.dot { fill: var(--dot) } circle.dot2 { fill: var(--dot2) }
figcaption span { margin-right: 1.2rem } figcaption i { display: inline-block; width: .8rem; height: .8rem;
  border-radius: 50%; vertical-align: -1px }
i.best { background: var(--best) } i.chance { background: var(--chance) } i.dot { background: var(--dot) }
  i.dot2 { background: var(--dot2) }
</style>)";

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
    std::string h = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
                    html_escaped(title) + "</title>\n" + page_style + "\n</head>\n<body>\n<h1>" + html_escaped(title) +
                    "</h1>\n";
    if (tasks.size() > 1) {
        h += "<ul>\n";
        for (size_t i = 0; i < tasks.size(); i++)
            h += "<li><a href=\"#task" + std::to_string(i) + "\">" + html_escaped(name_of(tasks[i].task)) +
                 "</a> <small>" + html_escaped(tensors_text(tasks[i].task.tensors)) + "</small></li>\n";
        h += "</ul>\n";
    }
    for (size_t i = 0; i < tasks.size(); i++) h += task_part(tasks[i], *model_of(tasks[i], options), i);
    return h + "</body>\n</html>\n";
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
