// kumiko docs [TOPIC]: reference pages generated from the program's tables.
#include "cli/common.h"

#include "ops/elementwise.h"
#include "ops/functions_page.h"
#include "schedules/page.h"
#include "schedules/primitive.h"
#include "support/error.h"

#include <iostream>
#include <memory>

namespace kumiko::cli {

namespace {

Json primitive_json(const Primitive &p) {
    Json parameters = Json::array();
    for (const Parameter &q : p.parameters) {
        Json j = {{"name", q.name}, {"optional", q.optional}, {"summary", q.description}};
        if (!q.choices.empty()) j["choices"] = q.choices;
        parameters.push_back(j);
    }
    return {{"name", p.name},
            {"group", p.group},
            {"summary", p.summary},
            {"requires", p.requires_},
            {"parameters", parameters}};
}

Json function_json(const ops::UnaryFunction &f) {
    return {{"name", f.name}, {"summary", f.summary}, {"integers", f.integers}, {"units", f.units}};
}

} // namespace

void add_docs(CLI::App &app) {
    auto *command =
        app.add_subcommand("docs", "print a reference page: the scheduling primitives, with examples run, or the "
                                   "functions of values, with their accuracy");
    struct DocsArguments {
        std::string topic = "primitives", name, json;
    };
    auto a = std::make_shared<DocsArguments>();
    command->add_option("topic", a->topic, "which page")
        ->check(CLI::IsMember({"primitives", "functions"}))
        ->capture_default_str();
    command->add_option("name", a->name, "only the part about this primitive");
    add_json_option(*command, a->json);
    add_examples(*command, "  kumiko docs primitives > primitives.md\n  kumiko docs primitives place_in\n"
                           "  kumiko docs functions > functions.md\n"
                           "  kumiko docs primitives --json -");
    command->callback([a] {
        if (a->topic == "functions") {
            if (!a->name.empty()) throw UserError("docs functions is one page; it takes no name");
            if (a->json != "-") std::cout << ops::functions_page();
            Json all = Json::array();
            for (const ops::UnaryFunction &f : ops::unary_functions()) all.push_back(function_json(f));
            write_json(a->json, all);
            return;
        }
        if (a->json != "-") std::cout << (a->name.empty() ? primitives_page() : primitive_section(a->name));
        Json all = Json::array();
        if (!a->json.empty()) {
            if (!a->name.empty())
                all.push_back(primitive_json(primitive(a->name)));
            else
                for (const Primitive *p : primitives()) all.push_back(primitive_json(*p));
        }
        write_json(a->json, all);
    });
}

} // namespace kumiko::cli
