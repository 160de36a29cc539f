// kumiko best OP, kumiko db: what a tuning database knows.
#include "cli/common.h"

#include "autotune/tune.h"
#include "autotune/work.h"
#include "driver/tuned.h"
#include "support/duration.h"
#include "support/table.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>

namespace kumiko::cli {

void add_best(CLI::App &app) {
    auto *command = app.add_subcommand("best", "the best schedule that a tuning database knows for an op");
    struct Arguments {
        OpArguments op;
        std::string database = "tuning.db", form = "cpp", json;
        int threads = 1;
    };
    auto a = std::make_shared<Arguments>();
    a->op.add_to(*command);
    command->add_option("--db", a->database, "the database")->type_name("FILE")->capture_default_str();
    command->add_option("--threads", a->threads, "tuned for so many threads; 0: one per core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    command->add_option("--as", a->form, "cpp (to paste into a source), json (a schedule file), parameters, nest")
        ->check(CLI::IsMember({"cpp", "json", "parameters", "nest"}))
        ->capture_default_str();
    add_json_option(*command, a->json);
    examples(*command, "  kumiko best matmul --shape m=512,n=512,k=512 --as cpp\n  kumiko best softmax --shape "
                       "m=1536,n=128 --as json > softmax.json");
    command->callback([a] {
        const Op op = a->op.op();
        const Machine machine = Machine::host();
        const auto found =
            tuned_schedule(op, machine, a->database, {.threads = a->threads, .sizes = a->op.bound_sizes()});
        if (!found) {
            throw UserError(
                a->database +
                " knows no schedule for this op at this shape on this machine; tune it first: kumiko tune " +
                a->op.name + (a->op.shape.empty() ? "" : " --shape " + a->op.shape) + " --db " + a->database);
        }
        const Schedule schedule = Schedule::from_json(op, machine, nlohmann::json(found->schedule));
        if (a->json != "-") {
            if (a->form == "cpp")
                std::cout << "// " << found->rate << ", " << duration_text(found->seconds) << " a call\n"
                          << schedule.to_cpp();
            else if (a->form == "json")
                std::cout << dump_json(found->schedule);
            else if (a->form == "parameters")
                std::cout << dump_json(found->parameters);
            else
                std::cout << schedule.nest() << "\n";
        }
        write_json(a->json, {{"op", a->op.name},
                             {"parameters", a->op.parameters()},
                             {"seconds", found->seconds},
                             {"rate", found->rate},
                             {"template_parameters", found->parameters},
                             {"schedule", found->schedule}});
    });
}

void add_db(CLI::App &app) {
    auto *command = app.add_subcommand("db", "list what a tuning database holds");
    struct Arguments {
        std::string database = "tuning.db", json;
    };
    auto a = std::make_shared<Arguments>();
    command->add_option("file", a->database, "the database")->capture_default_str();
    add_json_option(*command, a->json);
    examples(*command, "  kumiko db tuning.db");
    command->callback([a] {
        const Database database(a->database, Database::Mode::Read);
        Table table({"op", "formula", "sizes", "machine", "threads", "tried", "good", "best"});
        Json all = Json::array();
        for (const Database::TaskSummary &t : database.tasks()) {
            std::string sizes;
            for (const auto &[name, value] : t.key.sizes)
                sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ",", name, value);
            table.row({t.key.op, t.key.op_hash.substr(0, 8), sizes, t.key.machine, std::to_string(t.key.threads),
                       std::to_string(t.records), std::to_string(t.ok),
                       t.best_seconds > 0 ? duration_text(t.best_seconds) : "-"});
            all.push_back({{"op", t.key.op},
                           {"formula_hash", t.key.op_hash},
                           {"formula", t.formula},
                           {"sizes", t.key.sizes},
                           {"machine", t.key.machine},
                           {"threads", t.key.threads},
                           {"records", t.records},
                           {"ok", t.ok},
                           {"best_seconds", t.best_seconds > 0 ? Json(t.best_seconds) : Json(nullptr)}});
        }
        if (a->json != "-") std::cout << table.text();
        write_json(a->json, all);
    });
}

} // namespace kumiko::cli
