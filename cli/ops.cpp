// kumiko ops [NAME]
#include "cli/common.h"

#include "ops/registry.h"
#include "ops/shared_object.h"
#include "support/names.h"
#include "support/table.h"

#include <iostream>
#include <memory>
#include <optional>

namespace kumiko::cli {

namespace {

Json operator_json(const ops::Operator &op) {
    Json parameters = Json::array();
    for (const ops::Parameter &p : op.parameters) {
        Json j = {{"name", p.name},
                  {"kind", ops::kind_name(p.kind)},
                  {"required", p.required()},
                  {"default", p.otherwise},
                  {"summary", p.summary}};
        if (!p.choices.empty()) j["choices"] = p.choices;
        parameters.push_back(j);
    }
    return {{"name", op.name}, {"summary", op.summary}, {"parameters", parameters}};
}

void describe(const ops::Operator &op) {
    std::cout << op.name << ": " << op.summary << "\n\n";
    Table table({"parameter", "kind", "default", ""});
    std::optional<std::string> lists;
    for (const ops::Parameter &p : op.parameters) {
        if (!lists && p.is_list()) lists = p.name;
        std::string what = p.summary;
        if (!p.choices.empty()) {
            std::string choices;
            for (const std::string &c : p.choices) {
                if (!c.empty()) choices += (choices.empty() ? "" : ", ") + c;
            }
            what += " (" + choices + ")";
        }
        const std::string otherwise = p.required()              ? "(needed)"
                                      : p.otherwise.is_string() ? p.otherwise.get<std::string>()
                                                                : p.otherwise.dump();
        table.row({p.name, ops::kind_name(p.kind), otherwise.empty() ? "(none)" : otherwise, what});
    }
    std::cout << table.text();
    if (lists) std::cout << "\nCommas continue a list: --shape " << *lists << "=3,5,7,...\n";
}

} // namespace

void add_ops(CLI::App &app) {
    auto *command = app.add_subcommand("ops", "list the operators, or one with its parameters");
    struct OpsArguments {
        std::string name, json;
    };
    auto a = std::make_shared<OpsArguments>();
    command->add_option("op", a->name, "print more about this operator");
    add_json_option(*command, a->json);
    add_examples(*command, "  kumiko ops\n  kumiko ops conv2d\n  kumiko ops ./libmyops.so\n  kumiko ops --json -");
    command->callback([a] {
        Json all = Json::array();
        const auto shared = ops::shared_name(a->name);
        if (!a->name.empty() && !(shared && shared->op.empty())) {
            const ops::Operator op = ops::find_operator(a->name);
            if (a->json != "-") describe(op);
            all.push_back(operator_json(op));
        } else {
            Table table({"operator", "needs", ""});
            for (const ops::Operator &op : shared ? ops::load_operators(shared->file) : ops::registry()) {
                std::string needs;
                for (const ops::Parameter &p : op.parameters) {
                    if (p.required()) needs += (needs.empty() ? "" : ", ") + p.name;
                }
                table.row({op.name, needs, op.summary});
                all.push_back(operator_json(op));
            }
            if (a->json != "-") std::cout << table.text();
        }
        write_json(a->json, all);
    });
}

} // namespace kumiko::cli
