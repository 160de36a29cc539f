// kumiko best OP: the best schedule that a tuning database knows.
#include "cli/common.h"

#include "autotune/hints.h"
#include "autotune/work.h"
#include "driver/machines.h"
#include "driver/tuned.h"
#include "ops/registry.h"
#include "ops/shared_object.h"
#include "schedules/saved_text.h"
#include "support/duration.h"
#include "support/names.h"

#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <memory>
#include <set>

namespace kumiko::cli {

namespace {

struct Found {
    ChosenSchedule best;
    std::optional<Op> op; // set if it was named so that it can be created
    std::string machine;  // the machine that found it; empty: this one
};

// The result of another machine in the database; its seconds are that machine's.
std::optional<Found> found_elsewhere(const Op &op, const Machine &machine, const std::string &database,
                                     const BestOptions &wanted) {
    const std::vector<Hint> all = hints(op, machine, database, wanted);
    if (all.empty()) return {};
    const Record &r = all[0].record;
    if (!all[0].unfit.empty())
        throw UserError(
            fmt::format("{} has only schedules of other machines, and none is legal on this one; that of {}: {}",
                        database, r.key.machine, all[0].unfit));
    return Found{{Json(*r.saved_schedule), r.parameters, r.seconds(),
                  rate_text(count_work(op, r.key.sizes), r.seconds()), "tuned"},
                 op,
                 KeyMachine::parse(r.key.machine).id};
}

bool is_known(const std::string &name) {
    if (ops::shared_name(name)) return true;
    const auto &all = ops::registry();
    return std::any_of(all.begin(), all.end(), [&](const ops::Operator &o) { return o.name == name; });
}

Found best_of(const OpArguments &a, const Machine &machine, const std::string &database, BestOptions wanted, bool any) {
    const Op op = a.op();
    a.require_sizes(op);
    wanted.sizes = a.bound_sizes();
    if (const auto found = tuned_schedule(op, machine, database, wanted)) {
        // Checks that it still applies.
        Schedule::from_json(op, machine, nlohmann::json(*found->schedule));
        return {*found, op, ""};
    }
    if (any) {
        if (auto found = found_elsewhere(op, machine, database, wanted)) return *found;
    }
    throw UserError(database + " has no schedule for this op at this shape" +
                    (any ? ", neither of this machine nor of another" : " on this machine") +
                    "; tune it first: kumiko tune " + a.text() + " --db " + database +
                    (machine.id() == Machine::host().id() ? std::string() : " --target " + machine.name) +
                    (wanted.threads == 1 ? "" : fmt::format(" --threads {}", wanted.threads)) +
                    (wanted.cold ? " --cold" : "") + (wanted.ahead ? " --ahead" : ""));
}

// For an op that this program does not know, such as one from a user's shared object: the database
// entry with its name.
Found best_by_name(const std::string &name, const Machine &machine, const std::string &file, const BestOptions &wanted,
                   bool any) {
    const KeyMachine id = KeyMachine::parse(machine_of_key(machine, wanted));
    const Database database(file, Database::Mode::Read);
    const auto here = [&](const Database::TaskSummary &t) { return t.key.machine == id.text(); };
    std::vector<Database::TaskSummary> tasks;
    std::vector<std::string> names;
    std::set<std::string> otherwise; // machines and modes in which it was tuned
    for (const Database::TaskSummary &t : database.tasks()) {
        names.push_back(t.key.op);
        if (t.key.op == name && t.ok > 0) otherwise.insert(t.key.machine);
        if (t.key.op == name && (any ? id.same_conditions(KeyMachine::parse(t.key.machine)) : here(t)) && t.ok > 0)
            tasks.push_back(t);
    }
    if (std::any_of(tasks.begin(), tasks.end(), here)) std::erase_if(tasks, std::not_fn(here));
    if (tasks.size() > 1)
        std::erase_if(
            tasks, [&](const Database::TaskSummary &t) { return wanted.threads && t.key.threads != wanted.threads; });
    if (tasks.empty() && !otherwise.empty())
        throw UserError(fmt::format("{} has no schedule of \"{}\" for {}{}, but for {}; --any-machine, --cold and "
                                    "--ahead say which is meant",
                                    file, name, any ? "any machine" : id.id, id.conditions(),
                                    fmt::join(otherwise, "; ")));
    if (tasks.empty()) {
        for (const ops::Operator &o : ops::registry()) names.push_back(o.name);
        std::set<std::string> once;
        std::erase_if(names, [&](const std::string &n) { return !once.insert(n).second; });
        throw UserError("neither this program nor " + file + " knows an op \"" + name + "\" tuned on " +
                        (any ? "any" : "this") + " machine" + suggest(name, names));
    }
    if (tasks.size() > 1)
        throw UserError(fmt::format("{} knows {} at {} shapes; name the op with its shared object and the shape, as "
                                    "./libmyops.so:{} --shape ...",
                                    file, name, tasks.size(), name));
    const auto record = database.best(tasks[0].key, machine);
    if (!record) throw UserError(file + " knows no good schedule for " + name);
    // Without the formula the amount of work is unknown, so the rate is omitted.
    return {{Json(*record->saved_schedule), record->parameters, record->seconds(), "", "tuned"},
            {},
            here(tasks[0]) ? "" : KeyMachine::parse(tasks[0].key.machine).id};
}

} // namespace

void add_best(CLI::App &app) {
    auto *command = app.add_subcommand("best", "the best schedule that a tuning database knows for an op");
    struct DatabaseArguments {
        OpArguments op;
        std::string database = "tuning.db", form = "cpp", json, target = "host";
        BestOptions wanted{.threads = 1};
        bool any = false;
    };
    auto a = std::make_shared<DatabaseArguments>();
    a->op.add_to(*command);
    command->add_option("--db", a->database, "the database")->type_name("FILE")->capture_default_str();
    command->add_option("--target", a->target, "machine that it was tuned for: host, a level, or a simulated chip")
        ->capture_default_str();
    command->add_option("--threads", a->wanted.threads, "number of threads that it was tuned for; 0: one per core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    command->add_option("--as", a->form, "cpp (to paste into a source), json (a schedule file), parameters, nest")
        ->check(CLI::IsMember({"cpp", "json", "parameters", "nest"}))
        ->capture_default_str();
    command->add_flag("--any-machine", a->any,
                      "if this machine has none, print the best of another machine, with the same --cold and --ahead; "
                      "it was not measured here");
    command->add_flag("--cold", a->wanted.cold, "the best of those that were tuned for cold caches");
    command->add_flag("--ahead", a->wanted.ahead, "the best of those that take pre-packed weights");
    add_json_option(*command, a->json);
    add_examples(
        *command,
        "  kumiko best matmul --shape m=512,n=512,k=512 --as cpp\n  kumiko best group_norm_silu --as cpp      (an "
        "op of a shared object, by its name in the database)\n  kumiko best softmax --shape "
        "m=1536,n=128 --as json > softmax.json");
    command->callback([a] {
        const Machine machine = machine_named(a->target);
        const bool by_name = a->op.shape.empty() && a->op.type.empty() && !is_known(a->op.name);
        const Found found = by_name ? best_by_name(a->op.name, machine, a->database, a->wanted, a->any)
                                    : best_of(a->op, machine, a->database, a->wanted, a->any);
        if (a->form == "nest" && !found.op)
            throw UserError("the nest of " + a->op.name +
                            " needs the formula: name the op with its shared object, as " +
                            "./libmyops.so:" + a->op.name + " --shape ...");
        const std::string elsewhere =
            found.machine.empty() ? "" : " on " + found.machine + ", another machine; not measured on this one";
        if (a->json != "-") {
            if (a->form != "cpp" && !elsewhere.empty()) std::cerr << "kumiko: best found" << elsewhere << "\n";
            if (a->form == "cpp")
                std::cout << "// " << (found.best.rate.empty() ? "" : found.best.rate + ", ")
                          << duration_text(found.best.seconds) << " a call" << elsewhere << "\n"
                          << saved_cpp_text(*found.best.schedule);
            else if (a->form == "json")
                std::cout << dump_json(found.best.schedule);
            else if (a->form == "parameters")
                std::cout << dump_json(found.best.parameters);
            else
                std::cout << Schedule::from_json(*found.op, machine, nlohmann::json(*found.best.schedule)).nest()
                          << "\n";
        }
        write_json(a->json, {{"op", a->op.name},
                             {"parameters", found.op ? a->op.parameters() : Json(nullptr)},
                             {"machine", found.machine.empty() ? machine.id() : found.machine},
                             {"measured_here", found.machine.empty()},
                             {"seconds", found.best.seconds},
                             {"rate", found.best.rate},
                             {"template_parameters", found.best.parameters},
                             {"schedule", found.best.schedule}});
    });
}

} // namespace kumiko::cli
