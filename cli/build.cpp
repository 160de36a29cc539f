// kumiko build kernels.json -o out, kumiko build model.onnx -o out
#include "cli/common.h"
#include "cli/model.h"

#include "driver/expected.h"
#include "driver/tuned.h"
#include "graph/build/model_library.h"
#include "runtime/kumiko_runtime.h"
#include "support/duration.h"
#include "support/names.h"
#include "support/progress.h"
#include "support/table.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>

namespace kumiko::cli {

namespace {

struct BuildArguments {
    std::string folder = "out", database, expected, json, compiler;
    std::vector<std::string> files, targets, sizes, constants, states, bounds;
    std::string name, rounding, weights;
    std::optional<int> threads;
    bool plain_weights = false, self_test = true, shared = false, cold = false, quiet = false;
};

// The arguments "NAME=…" whose names are known to the model. A single model gets all, so that the
// others are errors.
std::vector<std::string> arguments_for(const std::vector<std::string> &arguments, const std::set<std::string> &known,
                                       bool single) {
    std::vector<std::string> chosen;
    for (const std::string &a : arguments) {
        if (single || a == "auto" || known.count(a.substr(0, a.rfind('=')))) chosen.push_back(a);
    }
    return chosen;
}

// Names that arguments of a model may have: of its inputs, of open sizes and of nodes.
struct ModelNames {
    std::set<std::string> inputs, sizes, nodes;
    explicit ModelNames(const graph::Model &model) {
        for (const graph::ValueInfo &in : model.graph().inputs) {
            inputs.insert(in.name);
            for (size_t d = 0; in.shape && d < in.shape->size(); d++) {
                if (!(*in.shape)[d].number) sizes.insert(in.symbol(d));
            }
        }
        for (const graph::Node &n : model.graph().nodes) nodes.insert(n.name);
    }
};

// Throws UserError for an argument whose name no model has.
void require_known(const char *option, const std::vector<std::string> &arguments, const std::set<std::string> &known) {
    for (const std::string &a : arguments) {
        const std::string name = a.substr(0, a.rfind('='));
        if (a != "auto" && !known.count(name))
            throw UserError(fmt::format("{} {}: no model has \"{}\"{}", option, a, name,
                                        suggest(name, {known.begin(), known.end()})));
    }
}

std::string identifier_of(const std::string &file) {
    return graph::c_identifier(std::filesystem::path(file).stem().string());
}

LibraryDescription describe_models(const BuildArguments &a, Progress &progress) {
    LibraryDescription library;
    library.name = a.name.empty() ? identifier_of(a.files[0]) : a.name;
    if (!a.targets.empty()) library.targets = a.targets;
    const bool single = a.files.size() == 1;
    std::vector<graph::Model> models;
    std::set<std::string> sizes, inputs, nodes;
    for (const std::string &file : a.files) {
        models.push_back(graph::Model::load(file));
        models.back().check();
        const ModelNames names(models.back());
        sizes.insert(names.sizes.begin(), names.sizes.end()), inputs.insert(names.inputs.begin(), names.inputs.end());
        nodes.insert(names.nodes.begin(), names.nodes.end());
    }
    if (!single) {
        require_known("--size", a.sizes, sizes), require_known("--constant", a.constants, inputs);
        require_known("--state", a.states, inputs), require_known("--bound", a.bounds, nodes);
    }
    for (size_t n = 0; n < models.size(); n++) {
        const graph::Model &model = models[n];
        const ModelNames names(model);
        graph::ModelLibraryOptions options;
        options.name = single ? library.name : identifier_of(a.files[n]);
        options.targets = library.targets;
        options.model.rules->rounding = rounding_of(a.rounding);
        std::vector<std::string> sizes = arguments_for(a.sizes, names.sizes, single);
        const auto ranges =
            std::stable_partition(sizes.begin(), sizes.end(), [](const auto &s) { return !is_range(s); });
        options.ranges = ranges_of({ranges, sizes.end()});
        options.model.sizes = sizes_of({sizes.begin(), ranges});
        options.model.constants = constants_of(arguments_for(a.constants, names.inputs, single), model);
        options.model.states = states_of(arguments_for(a.states, names.inputs, single), model);
        options.model.bounds = bounds_of(arguments_for(a.bounds, names.nodes, single));
        options.model.pack = !a.plain_weights;
        options.model.progress = phases_of(progress);
        options.weights_file = a.weights == "file";
        if (a.threads) options.threads = *a.threads ? *a.threads : kumiko_num_threads();
        if (!a.database.empty())
            options.model.source = tuned_schedules(a.database, {.threads = a.threads.value_or(1), .cold = a.cold});
        graph::add_model(library, model, options);
    }
    return library;
}

LibraryDescription describe(const BuildArguments &a, Progress &progress) {
    const auto models = std::count_if(a.files.begin(), a.files.end(), is_model);
    if (models == static_cast<std::ptrdiff_t>(a.files.size())) return describe_models(a, progress);
    if (a.files.size() > 1)
        throw UserError("several files are one library only if all are models, with names that end in .onnx; a list "
                        "of kernels is alone");
    for (const auto &[option, given] :
         {std::pair("--size", !a.sizes.empty()), std::pair("--constant", !a.constants.empty()),
          std::pair("--state", !a.states.empty()), std::pair("--bound", !a.bounds.empty()),
          std::pair("--name", !a.name.empty()), std::pair("--rounding", !a.rounding.empty()),
          std::pair("--weights", !a.weights.empty()), std::pair("--plain-weights", a.plain_weights)}) {
        if (given) throw UserError(fmt::format("{} is for models; {} is none", option, a.files[0]));
    }
    return LibraryDescription::load(a.files[0]);
}

void build(const BuildArguments &a) {
    if (a.shared && a.weights == "file")
        throw UserError("--shared makes functions for Python, which have no argument for weights in a file; legal is "
                        "--weights object");
    Progress progress(std::cerr, progress_style(2, a.quiet), "reading " + a.files[0], 0,
                      [] { return terminal_columns(2); });
    LibraryDescription library = describe(a, progress);
    if (!a.targets.empty()) library.targets = a.targets;
    if (!a.database.empty()) library.database = a.database;
    if (a.cold && library.database.empty())
        throw UserError(
            "--cold selects schedules of a tuning database, and none is given: name it with --db, or as \"tuned\" in " +
            a.files[0]);
    progress.begin_phase("building " + library.name, static_cast<int64_t>(library.kernels.size()));
    LibraryOptions options;
    options.self_test = a.self_test;
    options.shared = a.shared;
    options.compiler = a.compiler;
    if (!library.database.empty())
        options.source = tuned_schedules(library.database, {.threads = a.threads.value_or(1), .cold = a.cold});
    options.progress = [&](size_t done, size_t, const std::string &kernel) {
        progress.update(static_cast<int64_t>(done), kernel);
    };
    const LibraryReport report = build_library(library, a.folder, options);
    if (!a.expected.empty())
        write_check_files(library, a.expected, [&](size_t, size_t, const std::string &kernel) {
            progress.update(static_cast<int64_t>(library.kernels.size()), kernel.empty() ? "" : "evaluating " + kernel);
        });
    progress.finish();

    Table table({"file in " + a.folder, "what it is"});
    for (const auto &[name, purpose] : report.files) table.row({name, purpose});
    if (a.json != "-") {
        std::cout << table.text();
        std::cout << "\n"
                  << fmt::format("{} kernel{} for {} in ", library.kernels.size(),
                                 library.kernels.size() == 1 ? "" : "s", fmt::join(library.targets, ", "))
                  << duration_text(report.seconds)
                  << (report.compiler.empty() ? "" : ", their runtime by " + report.compiler) << ". To use them:\n"
                  << "  " << report.link << "\n";
        if (!report.brings.empty()) std::cout << report.brings << "\n";
    }
    for (const std::string &w : report.warnings) std::cerr << "kumiko: warning: " << w << "\n";
    Json out = {{"seconds", report.seconds},
                {"files", Json::array()},
                {"link", report.link},
                {"compiler", report.compiler},
                {"manifest", report.manifest}};
    for (const auto &[name, purpose] : report.files) out["files"].push_back(name);
    write_json(a.json, out);
}

} // namespace

void add_build(CLI::App &app) {
    auto *command =
        app.add_subcommand("build", "make a static library with a C header from a list of kernels, or from a model");
    auto a = std::make_shared<BuildArguments>();
    command->add_option("file", a->files, "the list, JSON, or one or several models of ONNX")
        ->required()
        ->type_name("kernels.json|model.onnx...");
    command->add_option("-o,--output", a->folder, "folder for the files")->type_name("FOLDER")->capture_default_str();
    command
        ->add_option("--name", a->name,
                     "name of the library, and of the function of a single model; default: that of the first file")
        ->type_name("NAME");
    add_size_options(*command, a->sizes, a->constants);
    add_state_option(*command, a->states);
    add_bound_option(*command, a->bounds);
    add_rounding_option(*command, a->rounding);
    command
        ->add_option(
            "--weights", a->weights,
            "where a model's weights are: `object`, in the archive (the default), or `file`, which the program "
            "reads or maps")
        ->check(CLI::IsMember({"object", "file"}));
    command->add_flag("--plain-weights", a->plain_weights,
                      "store a model's weights once, as all targets can read them, instead of packed for each target; "
                      "kernels are slower");
    command->add_flag("--shared", a->shared,
                      "also make a shared library, whose functions Python calls through TVM FFI; needs a C compiler");
    command->add_option("--db", a->database, "use the schedules of this tuning database")->type_name("FILE");
    command->add_flag("--cold", a->cold, "use schedules that were tuned for cold caches");
    command
        ->add_option("--threads", a->threads,
                     "prefer schedules that were tuned for this number of threads, otherwise for 1; 0: one per core; "
                     "the arena of a model has workspaces for so many threads, otherwise for 8")
        ->check(CLI::Range(0, 1024));
    command
        ->add_option("--target", a->targets,
                     "one or several targets, instead of those of the list: x86-64-avx512,x86-64-avx2; `kumiko machine "
                     "--list` lists them")
        ->delimiter(',')
        ->type_name("LEVEL");
    command
        ->add_option("--cc", a->compiler,
                     "C compiler, with arguments, for the runtime of another architecture; if it is not given, a cross "
                     "compiler in PATH is used, such as aarch64-linux-gnu-gcc")
        ->type_name("COMMAND");
    command->add_flag("!--no-self-test", a->self_test,
                      "do not write the self-test program, which needs each formula evaluated");
    command
        ->add_option("--expected", a->expected,
                     "also write inputs and expected outputs of each kernel as raw files into this folder")
        ->type_name("FOLDER");
    command->add_flag("--quiet", a->quiet, "no progress bar");
    add_json_option(*command, a->json);
    add_examples(
        *command,
        "  kumiko build kernels.json -o out\n"
        "  cc out/mykernels_selftest.c out/libmykernels.a -lm -lpthread -o selftest && ./selftest\n"
        "  kumiko build kernels.json --target aarch64 --cc aarch64-linux-gnu-gcc -o out\n"
        "  kumiko build resnet50.onnx --size batch=1 -o out\n"
        "  kumiko build detect.onnx classify.onnx --size batch=1 --name vision -o out\n\n"
        "kernels.json:\n"
        "  {\"name\": \"mykernels\", \"target\": \"host\", \"kernels\": [\n"
        "    {\"name\": \"sgemm_512\", \"op\": \"matmul\", \"parameters\": {\"m\": 512, \"n\": 512, \"k\": 512}},\n"
        "    {\"name\": \"act\", \"op\": \"gelu\", \"parameters\": {\"n\": \"n\"}}]}\n"
        "A kernel may also have \"schedule\" (a file), \"schedule_parameters\", \"type\", \"tuned\" and "
        "\"test_sizes\".");
    command->callback([a] { build(*a); });
}

} // namespace kumiko::cli
