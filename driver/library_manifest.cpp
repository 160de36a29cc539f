// Reading kernels.json.
#include "driver/library.h"

#include "ops/registry.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "support/names.h"

#include <set>

namespace kumiko {

namespace {

// The parameters that the kernel states, with "type" beside them as a short form.
Json parameters_of(const JsonView &kernel) {
    Json parameters = kernel.has("parameters") ? kernel["parameters"].raw() : Json::object();
    if (!parameters.is_object()) kernel["parameters"].fail("expected an object, found " + parameters.dump());
    if (kernel.has("type")) {
        if (parameters.contains("type") && parameters["type"] != kernel["type"].raw())
            kernel.fail("\"type\" is stated twice, and differs");
        parameters["type"] = kernel["type"].string();
    }
    return parameters;
}

LibraryKernel read_kernel(const JsonView &kernel, const Machine &machine, const std::filesystem::path &folder) {
    kernel.allow_only({"name", "op", "type", "parameters", "schedule", "schedule_parameters", "tuned", "test_sizes"});
    const std::string op_name = kernel["op"].string();
    const std::string name = kernel.string_or("name", op_name);
    if (!is_identifier(name))
        kernel["name"].fail("\"" + name +
                            "\" cannot be the name of a C function; a letter, then letters, digits and underscores");
    const ops::Operator &registered = [&]() -> const ops::Operator & {
        try {
            return ops::find_operator(op_name);
        } catch (const UserError &e) {
            kernel["op"].fail(e.what());
        }
    }();
    Json parameters = parameters_of(kernel);
    std::optional<Op> op;
    try {
        parameters = ops::complete_parameters(registered, parameters);
        op = registered.build(parameters);
    } catch (const UserError &e) {
        kernel.fail(e.what());
    }
    LibraryKernel result{name, *op};
    result.op_name = op_name;
    result.parameters = parameters;
    result.tuned = kernel.boolean_or("tuned", true);
    if (kernel.has("test_sizes")) {
        const JsonView sizes = kernel["test_sizes"];
        for (const std::string &key : sizes.keys()) result.test_sizes[key] = sizes[key].integer(0, INT32_MAX);
    }
    if (kernel.has("schedule") && kernel.has("schedule_parameters"))
        kernel.fail("\"schedule\" and \"schedule_parameters\" exclude each other");
    if (kernel.has("schedule")) {
        const JsonView s = kernel["schedule"];
        Json saved = s.is_string() ? load_json((folder / s.string()).string()) : s.raw();
        if (!saved.is_object()) s.fail("expected the name of a file or a saved schedule, found " + saved.dump());
        result.schedule = ChosenSchedule{std::move(saved), nullptr, 0, "", "given"};
    } else if (kernel.has("schedule_parameters")) {
        const JsonView p = kernel["schedule_parameters"];
        const LibraryTemplate *found = library::find_template(*op);
        if (!found) p.fail("no schedule of the library fits " + op_name + ", so there are no parameters to set");
        try {
            const auto space = found->make_space(*op, machine);
            const Point point = space->from_json(p.raw());
            result.schedule = ChosenSchedule{Json(space->schedule(point).to_json()), space->to_json(point), 0, "",
                                             "given parameters"};
        } catch (const UserError &e) {
            p.fail(e.what());
        }
    }
    return result;
}

} // namespace

LibraryDescription LibraryDescription::from_json(const Json &json, const std::string &document,
                                                 const std::filesystem::path &folder) {
    const JsonView view(json, document);
    if (!view.is_object())
        view.fail("expected an object with \"name\" and \"kernels\", found " + std::string(json.type_name()));
    view.allow_only({"name", "version", "prefix", "target", "tuned", "kernels", "comment"});
    LibraryDescription d;
    d.name = view["name"].string();
    if (!is_identifier(d.name))
        view["name"].fail("\"" + d.name + "\" cannot begin C names; a letter, then letters, digits and underscores");
    d.version = view.string_or("version", d.version);
    if (d.version.find_first_not_of("0123456789.") != std::string::npos || d.version.empty())
        view["version"].fail("expected digits and dots, as \"1.2.0\"");
    if (view.has("prefix")) d.prefix = view["prefix"].string();
    if (d.prefix && !d.prefix->empty() && !is_identifier(*d.prefix))
        view["prefix"].fail("\"" + *d.prefix + "\" cannot begin a C name");
    d.target = view.string_or("target", d.target);
    Target target;
    try {
        target = Target::named(d.target);
    } catch (const UserError &e) {
        view.fail(e.what());
    }
    if (view.has("tuned")) d.database = (folder / view["tuned"].string()).string();
    const JsonView kernels = view["kernels"];
    if (!kernels.is_array() || kernels.size() == 0) kernels.fail("expected a list of kernels, at least one");
    std::set<std::string> names;
    for (const JsonView &kernel : kernels.elements()) {
        d.kernels.push_back(read_kernel(kernel, target.machine, folder));
        if (!names.insert(d.kernels.back().name).second)
            kernel.fail("there are two kernels named \"" + d.kernels.back().name +
                        "\"; give this one another \"name\"");
    }
    return d;
}

LibraryDescription LibraryDescription::load(const std::filesystem::path &file) {
    return from_json(load_json(file.string()), file.string(), file.parent_path());
}

} // namespace kumiko
