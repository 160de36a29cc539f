// Reads kernels.json.
#include "driver/library.h"

#include "ops/registry.h"
#include "ops/shared_object.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "support/names.h"

#include <filesystem>
#include <set>

namespace kumiko {

namespace {

// The parameters that the kernel states; "type" beside them is a shorthand.
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

std::vector<Machine> machines_of(const JsonView &targets) {
    std::vector<Machine> machines;
    for (const std::string &name : targets.strings()) {
        try {
            machines.push_back(Target::named(name).machine);
        } catch (const UserError &e) {
            targets.fail(e.what());
        }
    }
    if (machines.empty()) targets.fail("expected the names of targets, at least one");
    return machines;
}

// For an any-shape kernel: sizes that are not given become symbolic (M for "m"), and so do the
// storage parameters.
void leave_open(const JsonView &kernel, const ops::Operator &op, Json &parameters) {
    for (const ops::Parameter &p : op.parameters) {
        if (parameters.contains(p.name)) continue;
        if (p.kind == ops::Parameter::Kind::Size && p.required()) {
            std::string name; // upper case, because axes may have the lower-case name
            for (const char c : p.name) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
            parameters[p.name] = name;
        }
        if (p.kind == ops::Parameter::Kind::Flag && p.storage) parameters[p.name] = true;
        if (p.kind == ops::Parameter::Kind::Sizes && p.required())
            kernel.fail("any_shape cannot tell how many axes \"" + p.name + "\" of op \"" + op.name +
                        "\" has; state it with a name for each, as {\"parameters\": {\"" + p.name +
                        "\": [\"m\", \"n\"]}}");
    }
}

// A row of the registry, and the name by which the kernel asks for it.
struct NamedOperator {
    std::string name;       // with the path of its shared object, if it is in one
    std::string short_name; // without
    ops::Operator op;
};

NamedOperator find_operator_of(const JsonView &kernel, const std::filesystem::path &folder) {
    std::string name = kernel["op"].string(), short_name = name;
    if (const auto shared = ops::shared_name(name)) {
        short_name = shared->op;
        name = (std::filesystem::path(shared->file).is_absolute() ? shared->file : (folder / shared->file).string()) +
               ":" + shared->op;
    }
    try {
        return {name, short_name, ops::find_operator(name)};
    } catch (const UserError &e) {
        kernel["op"].fail(e.what());
    }
}

// The kernel's op, with all its parameters.
LibraryKernel build_op(const JsonView &kernel, const NamedOperator &registered, const std::string &name) {
    Json parameters = parameters_of(kernel);
    const bool any_shape = kernel.boolean_or("any_shape", false);
    if (any_shape) leave_open(kernel, registered.op, parameters);
    std::optional<Op> op;
    try {
        parameters = ops::complete_parameters(registered.op, parameters);
        op = registered.op.build(parameters);
    } catch (const UserError &e) {
        kernel.fail(e.what());
    }
    if (any_shape && op->sizes().empty())
        kernel.fail("any_shape needs a size that is bound at run time, but no size of op \"" + registered.name +
                    "\" is left open: state fewer, or give some a name in place of a number");
    const bool own = ops::shared_name(registered.name).has_value();
    const auto stored = [](const ops::Parameter &p) { return p.storage; };
    if (any_shape && own && std::none_of(registered.op.parameters.begin(), registered.op.parameters.end(), stored))
        op = op->with_open_rows();
    LibraryKernel result{name, *op};
    result.any_shape = any_shape;
    result.op_name = registered.name;
    result.parameters = parameters;
    return result;
}

Sizes test_sizes_of(const JsonView &kernel, const LibraryKernel &k) {
    Sizes all;
    if (!kernel.has("test_sizes")) return all;
    const JsonView sizes = kernel["test_sizes"];
    for (const std::string &key : sizes.keys()) {
        if (!std::count(k.op.sizes().begin(), k.op.sizes().end(), key))
            sizes.fail("op \"" + k.op_name + "\" has no size \"" + key + "\"" + suggest(key, k.op.sizes()));
        all[key] = sizes[key].integer(0, INT32_MAX);
    }
    return all;
}

// Reads the kernel's schedule, or the parameters of the library's schedule, which each machine's
// must have.
void read_schedule(const JsonView &kernel, const std::vector<Machine> &machines, const std::filesystem::path &folder,
                   LibraryKernel &result) {
    if (kernel.has("schedule") && kernel.has("schedule_parameters"))
        kernel.fail("\"schedule\" and \"schedule_parameters\" exclude each other");
    if (kernel.has("schedule") && result.ahead)
        kernel.fail("\"schedule\" and \"ahead\" exclude each other: a schedule itself says what it packs ahead");
    const PackedBy who = packed_by(result.ahead);
    if (result.ahead) {
        try {
            for (const Machine &machine : machines) library::find_template(result.op, machine, who);
        } catch (const PlacedError &e) {
            kernel["ahead"].fail(e.message());
        }
    }
    if (kernel.has("schedule")) {
        const JsonView s = kernel["schedule"];
        Json saved = s.is_string() ? load_json((folder / s.string()).string()) : s.raw();
        if (!saved.is_object()) s.fail("expected the name of a file or a saved schedule, found " + saved.dump());
        result.schedule = ChosenSchedule{std::move(saved), nullptr, 0, "", "given"};
    } else if (kernel.has("schedule_parameters")) {
        const JsonView p = kernel["schedule_parameters"];
        try {
            for (const Machine &machine : machines) {
                const auto space = library::space_of(result.op, machine, who);
                space->schedule(space->default_with(p.raw()));
            }
            result.schedule_parameters = p.raw();
        } catch (const UserError &e) {
            p.fail(e.what());
        }
    }
}

LibraryKernel read_kernel(const JsonView &kernel, const std::vector<Machine> &machines,
                          const std::filesystem::path &folder) {
    kernel.allow_only({"name", "op", "type", "parameters", "schedule", "schedule_parameters", "tuned", "test_sizes",
                       "targets", "any_shape", "ahead"});
    const NamedOperator registered = find_operator_of(kernel, folder);
    const std::string name = kernel.string_or("name", registered.short_name);
    if (!is_identifier(name))
        kernel["name"].fail("\"" + name +
                            "\" cannot be the name of a C function; a letter, then letters, digits and underscores");
    LibraryKernel result = build_op(kernel, registered, name);
    if (kernel.has("targets")) result.targets = kernel["targets"].strings();
    result.tuned = kernel.boolean_or("tuned", true);
    result.ahead = kernel.boolean_or("ahead", false);
    result.test_sizes = test_sizes_of(kernel, result);
    read_schedule(kernel, result.targets.empty() ? machines : machines_of(kernel["targets"]), folder, result);
    return result;
}

} // namespace

Sizes LibraryKernel::sizes_for_test() const {
    Sizes sizes;
    for (const std::string &s : op.sizes()) sizes[s] = 48;
    for (const auto &[name, value] : test_sizes) sizes[name] = value;
    // A leading dimension must be at least a row.
    const auto widen = [&](const std::vector<Axis> &axes, const std::vector<Expr> &strides) {
        const std::vector<int64_t> dense = dense_strides(evaluate_extents(axes, sizes));
        std::set<std::string> extents;
        for (const Axis &a : axes) {
            if (const auto *v = a.extent().as<Halide::Internal::Variable>()) extents.insert(v->name);
        }
        for (size_t d = 0; d < strides.size(); d++) {
            const auto *v = strides[d].as<Halide::Internal::Variable>();
            if (v && !extents.count(v->name) && !test_sizes.count(v->name)) sizes[v->name] = dense[d] + 5;
        }
    };
    for (const Input &in : op.inputs()) {
        if (in.stated_strides) widen(in.axes, in.strides);
    }
    for (const std::string &o : op.outputs()) widen(op.stage(o).axes, op.stage(o).strides);
    return sizes;
}

LibraryDescription LibraryDescription::from_json(const Json &json, const std::string &document,
                                                 const std::string &folder) {
    const JsonView view(json, document);
    if (!view.is_object())
        view.fail("expected an object with \"name\" and \"kernels\", found " + std::string(json.type_name()));
    view.allow_only({"name", "version", "prefix", "target", "targets", "tuned", "kernels", "comment"});
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
    if (view.has("target") && view.has("targets")) view.fail("\"target\" and \"targets\" exclude each other");
    if (view.has("target")) d.targets = {view["target"].string()};
    if (view.has("targets")) d.targets = view["targets"].strings();
    const Json target_names = d.targets;
    const std::vector<Machine> machines =
        machines_of(view.has("targets") ? view["targets"] : JsonView(target_names, document + ": /target"));
    if (view.has("tuned")) d.database = (std::filesystem::path(folder) / view["tuned"].string()).string();
    const JsonView kernels = view["kernels"];
    if (!kernels.is_array() || kernels.size() == 0) kernels.fail("expected a list of kernels, at least one");
    std::set<std::string> names;
    for (const JsonView &kernel : kernels.elements()) {
        d.kernels.push_back(read_kernel(kernel, machines, folder));
        if (!names.insert(d.kernels.back().name).second)
            kernel.fail("there are two kernels named \"" + d.kernels.back().name +
                        "\"; give this one another \"name\"");
    }
    return d;
}

LibraryDescription LibraryDescription::load(const std::string &file) {
    return from_json(load_json(file), file, std::filesystem::path(file).parent_path());
}

} // namespace kumiko
