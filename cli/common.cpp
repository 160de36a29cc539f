#include "cli/common.h"

#include "driver/default_schedule.h"
#include "driver/op_text.h"
#include "driver/tuned.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/names.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace kumiko::cli {

void OpArguments::add_to(CLI::App &command, bool required) {
    auto *op = command.add_option("op", name,
                                  "operator; `kumiko ops` lists them; or one of a shared object: ./libmyops.so:NAME");
    if (required) op->required();
    command
        .add_option("--shape", shape,
                    "its parameters: m=512,n=512,k=512; a name instead of a number is a size known only at run time; "
                    "commas continue a list: shape=3,5,7,axes=1,2")
        ->type_name("NAME=VALUE,...");
    command.add_option("--type", type, "type of the elements: f32, f16, bf16, f64, i8, ...")->type_name("TYPE");
    command.add_option("--sizes", sizes, "values for sizes known only at run time: M=100,N=7")
        ->type_name("NAME=NUMBER,...");
}

Json OpArguments::parameters() const {
    Json given = parse_op_parameters(shape);
    if (!type.empty()) {
        if (given.contains("type")) throw UserError("the type is given twice, as --type and in --shape");
        given["type"] = type;
    }
    return ops::complete_parameters(ops::find_operator(name), given);
}

Op OpArguments::op() const { return ops::make(name, parameters()); }

std::map<std::string, int64_t> OpArguments::bound_sizes() const { return parse_sizes(sizes); }

void OpArguments::check_sizes(const Op &op) const {
    for (const auto &[name, value] : bound_sizes()) {
        if (std::find(op.sizes().begin(), op.sizes().end(), name) != op.sizes().end()) continue;
        throw UserError("op \"" + op.name() + "\" has no size \"" + name + "\" that is bound at run time" +
                        (op.sizes().empty() ? ": all its sizes are numbers" : "; it has " + quoted_list(op.sizes())));
    }
}

void OpArguments::require_sizes(const Op &op) const {
    check_sizes(op);
    const auto given = bound_sizes();
    for (const std::string &s : op.sizes()) {
        if (!given.count(s))
            throw UserError("op \"" + op.name() + "\": size " + s + " has no value; give it a value, as --sizes " + s +
                            "=100");
    }
}

std::string OpArguments::text() const {
    std::string all = name;
    if (!shape.empty()) all += " --shape " + shape;
    if (!type.empty()) all += " --type " + type;
    if (!sizes.empty()) all += " --sizes " + sizes;
    return all;
}

void ScheduleArguments::add_to(CLI::App &command) {
    auto *f = command.add_option("--schedule", file, "a saved schedule (JSON)")->type_name("FILE");
    auto *d = command.add_option("--tuned", database, "use the best schedule of this tuning database")->type_name("DB");
    auto *p = command
                  .add_option("--parameters", parameters,
                              "parameters of the library's schedule for this op: rows=6,vectors=2; or decisions "
                              "that show --why lists: e.at=root")
                  ->type_name("NAME=VALUE,...");
    command
        .add_flag("--force", force,
                  "apply the file's directives even if they were saved for another formula, shape or type")
        ->needs(f);
    command.add_flag("--cold", cold, "use a schedule of the database that was tuned for cold caches")->needs(d);
    command.add_flag("--ahead", ahead, "use a schedule that takes pre-packed weights")->excludes(f);
    f->excludes(d)->excludes(p);
    d->excludes(p);
}

Schedule ScheduleArguments::schedule(const Op &op, const Machine &machine, std::string *origin,
                                     std::string *candidate) const {
    const auto name = [&](const std::string &text) {
        if (origin) *origin = text;
    };
    const PackedBy who = packed_by(ahead);
    if (!file.empty()) {
        name(file);
        return Schedule::from_json(op, machine, nlohmann::json(load_json(file)), nullptr,
                                   force ? SavedFor::AnyOp : SavedFor::ThisOp);
    }
    if (!database.empty()) {
        if (const auto found =
                tuned_schedule(op, machine, database, {.threads = threads, .cold = cold, .ahead = ahead})) {
            name("tuned");
            return Schedule::from_json(op, machine, nlohmann::json(*found->schedule));
        }
        throw UserError(
            database + " has no schedule for this op at this shape on this machine; tune it first: kumiko tune " +
            op.name() + " --shape ... --db " + database + (cold ? " --cold" : "") + (ahead ? " --ahead" : ""));
    }
    if (!parameters.empty()) {
        const Json given = parse_op_parameters(parameters); // items() only refers to it
        auto space = library::space_of(op, machine, who);
        const auto has = [&](const Space &space) {
            const Json known = space.to_json(space.default_point());
            return std::all_of(given.items().begin(), given.items().end(),
                               [&](const auto &parameter) { return known.contains(parameter.key()); });
        };
        if (!has(*space)) { // decisions of tuning, which --why lists
            auto tuned = space_for(op, machine, SpaceKind::Fitting, who).second;
            // For the error message.
            const bool lists_more = tuned->parameters().size() > space->parameters().size();
            if (has(*tuned) || lists_more) space = std::move(tuned);
        }
        const Json defaults = space->to_json(space->default_point());
        Json chosen = Json::object();
        for (const auto &[key, value] : given.items()) {
            // The text is a number, a flag or a name, depending on the parameter's default.
            const std::string text = value.get<std::string>();
            const Json typed = Json::parse(text, nullptr, false);
            chosen[key] =
                typed.is_discarded() || (defaults.contains(key) && defaults[key].is_string()) ? Json(text) : typed;
        }
        name("library, " + parameters);
        return space->schedule(space->default_with(chosen));
    }
    std::vector<PassedOver> passed_over;
    Schedule schedule = default_schedule(op, machine, who, &passed_over, candidate);
    std::string text = "default";
    for (const PassedOver &other : passed_over) text += "; " + to_string(other);
    name(text);
    return schedule;
}

std::shared_ptr<const CostModel> cost_model_named(const std::string &name) {
    if (name.empty()) return nullptr;
    return std::make_shared<CostModel>(name == "none" ? CostModel() : CostModel::load_file(name));
}

void add_json_option(CLI::App &command, std::string &file) {
    command.add_option("--json", file, "also write the report as JSON; - means the standard output")->type_name("FILE");
}

void write_json(const std::string &file, const Json &value) {
    if (file.empty()) return;
    if (file == "-")
        std::cout << dump_json(value);
    else
        write_file_atomically(file, dump_json(value));
}

namespace {

CLI::Validator number_that(const std::string &rule, bool (*holds)(double)) {
    return CLI::Validator(
        [rule, holds](const std::string &text) {
            char *end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            return text.empty() || *end || !std::isfinite(value) || !holds(value)
                       ? "\"" + text + "\" is not a number " + rule
                       : std::string();
        },
        "");
}

} // namespace

void require_folder_of(const std::string &file) {
    if (file.empty() || file == "-") return;
    const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
    if (!std::filesystem::is_directory(folder))
        throw UserError("cannot write " + file + ": there is no folder " + folder.string());
}

CLI::Validator above_zero() {
    return number_that("above 0", [](double v) { return v > 0; });
}

CLI::Validator not_below_zero() {
    return number_that("from 0", [](double v) { return v >= 0; });
}

void add_examples(CLI::App &command, const std::string &text) { command.footer("Examples:\n" + text); }

} // namespace kumiko::cli
