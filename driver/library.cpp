#include "driver/library.h"

#include "driver/default_schedule.h"
#include "driver/library_files.h"
#include "driver/library_runtime.h"
#include "driver/library_shared.h"
#include "driver/tuned.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "support/atomic_file.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/names.h"
#include "targets/cpu/object.h"
#include "targets/cpu/stack_usage.h"
#include "targets/cpu/workspace.h"
#include "targets/lower/extern_calls.h"
#include "targets/lower/lower.h"

#include <bit>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

namespace kumiko {

namespace {

// Creates the folder if needed, and removes it again if nothing was written to it.
class OutputFolder {
public:
    explicit OutputFolder(const std::filesystem::path &path) : path_(path) {
        std::error_code error;
        made_ = std::filesystem::create_directories(path, error);
        if (error) throw UserError("cannot make the folder " + path.string() + ": " + error.message());
        if (!std::filesystem::is_directory(path, error)) throw UserError(path.string() + " is not a folder");
    }
    ~OutputFolder() {
        std::error_code ignored;
        if (made_) std::filesystem::remove(path_, ignored); // fails unless it is empty
    }

private:
    std::filesystem::path path_;
    bool made_ = false;
};

ChosenSchedule choose(const LibraryKernel &k, const Target &target, const ScheduleSource &source) {
    if (k.schedule) return *k.schedule;
    const PackedBy who = packed_by(k.ahead);
    if (!k.schedule_parameters->is_null()) {
        const auto space = library::space_of(k.op, target.machine, who);
        const Point point = space->default_with(k.schedule_parameters);
        return {Json(space->schedule(point).to_json()), space->to_json(point), 0, "", "given parameters"};
    }
    if (k.tuned && source) {
        if (auto found = source(k.op, target.machine, who)) return *found;
    }
    std::vector<PassedOver> passed_over;
    const Schedule schedule = default_schedule(k.op, target.machine, who, &passed_over);
    std::string origin = "default";
    for (const PassedOver &other : passed_over) origin += "; " + to_string(other);
    return {Json(schedule.to_json()), nullptr, 0, "", origin};
}

// Rejects kernel names that collide with symbols of the library or the C library.
void check_symbol(const LibraryDescription &library, const CpuTarget &target, const std::string &symbol) {
    std::vector<std::string> own = runtime_functions();
    own.push_back("status");
    own.push_back("selftest_write");
    if (target.freestanding() && symbol.starts_with(library.name + "_math_"))
        own.push_back(symbol.substr(library.name.size() + 1));
    for (const std::string &taken : own) {
        if (symbol == library.name + "_" + taken) {
            throw UserError("the function name " + symbol +
                            " is used by the library itself; give the kernel another name");
        }
    }
    if (in_c_library(symbol))
        throw UserError("the function name " + symbol +
                        " is one of the C library; give the library a prefix, or the kernel another name");
}

// Checks that the names of the kernels' functions are unique and differ from the header's macros
// and constants.
void check_symbols(const std::vector<PackagedKernel> &kernels, const std::string &header) {
    std::map<std::string, std::string> owner;
    for (const PackagedKernel &k : kernels) {
        std::vector<std::string> names = {k.symbol, k.symbol + "_packed"};
        for (const Entry &e : k.entries) names.insert(names.end(), {e.name, e.name + "_packed"});
        for (const std::string &name : std::set<std::string>(names.begin(), names.end())) {
            const auto [other, fresh] = owner.emplace(name, k.kernel->name);
            if (!fresh)
                throw UserError("kernels " + other->second + " and " + k.kernel->name +
                                " would both define a function " + name + "; give one of them another name");
            const bool taken = std::regex_search(header, std::regex("(#define |#ifndef |\n    )" + name + "\\b"));
            if (taken)
                throw UserError("kernel " + k.kernel->name + " would define a function " + name +
                                ", a name that the header uses for something else; give the kernel another name");
        }
    }
}

// The targets of a list, the most demanding first.
std::vector<Target> targets_of(const std::vector<std::string> &names) {
    if (names.empty()) throw UserError("a library needs a target; `host` is this machine");
    std::vector<Target> targets;
    for (const std::string &name : names) {
        targets.push_back(Target::named(name));
        const CpuTarget &first = targets[0].cpu, &cpu = targets.back().cpu;
        if (cpu.architecture() != first.architecture() || cpu.freestanding() != first.freestanding())
            throw UserError("the targets " + first.name + " and " + cpu.name +
                            " cannot be in one library, which is of one architecture; build a library for each");
        for (size_t i = 0; i + 1 < targets.size(); i++) {
            if (targets[i].cpu.name == cpu.name) throw UserError("the target " + name + " is named twice");
        }
    }
    std::stable_sort(targets.begin(), targets.end(), [](const Target &a, const Target &b) {
        return std::popcount(a.cpu.required_features()) > std::popcount(b.cpu.required_features());
    });
    return targets;
}

// `sizes` in the order of the op's parameters, then those that no parameter names.
std::vector<std::string> in_declared_order(const LibraryKernel &k, const std::vector<std::string> &sizes) {
    std::vector<std::string> ordered;
    const auto add = [&](const std::string &name) {
        if (std::count(sizes.begin(), sizes.end(), name) && !std::count(ordered.begin(), ordered.end(), name))
            ordered.push_back(name);
    };
    if (!k.op_name.empty() && k.parameters->is_object()) {
        for (const ops::Parameter &p : ops::find_operator(k.op_name).parameters) {
            if (p.kind != ops::Parameter::Kind::Size && p.kind != ops::Parameter::Kind::Sizes) continue;
            const Json value = k.parameters->value(p.name, Json());
            for (const Json &v : value.is_array() ? value : Json::array({value})) {
                if (v.is_string()) add(v.get<std::string>());
            }
        }
    }
    for (const std::string &s : sizes) add(s);
    return ordered;
}

// Lowers one kernel for one target.
PackagedVariant lower_variant(const LibraryKernel &k, const std::string &symbol, const Target &target,
                              const ScheduleSource &source) {
    PackagedVariant v{target, target.cpu.required_features(), {}, choose(k, target, source)};
    const Schedule schedule = Schedule::from_json(k.op, target.machine, *v.schedule.schedule);
    LowerOptions lowering;
    lowering.kernel_name = symbol;
    v.nest = lower(schedule, lowering);
    if (k.internal) bound_workspaces(v.nest, k.ranges);
    v.nest.sizes = in_declared_order(k, v.nest.sizes);
    for (Nest &pack : v.nest.packs) pack.sizes = in_declared_order(k, pack.sizes);
    return v;
}

// Compiles its functions, which the entry hides.
ObjectFile compile_variant(const PackagedVariant &v, CodegenOptions codegen) {
    codegen.target = v.target.cpu;
    codegen.symbol_suffix = "." + v.name();
    return compile_object(codegen.model_threads ? std::vector<Nest>{v.nest} : with_packs(v.nest), codegen);
}

// Of the models that call the library's internal kernels.
int threads_of(const std::vector<LibraryModel> &models) {
    int most = 1;
    for (const LibraryModel &m : models) most = std::max(most, m.threads);
    return most;
}

// Plans the models' memory with the workspaces of their kernels.
void place_models(std::vector<LibraryModel> &models, const std::vector<PackagedKernel> &kernels) {
    std::vector<int64_t> workspaces;
    for (const PackagedKernel &k : kernels) {
        workspaces.push_back(0);
        for (const PackagedVariant &v : k.variants) {
            if (k.kernel->internal)
                workspaces.back() = std::max(workspaces.back(), workspace_bytes(v.nest.body, threads_of(models)));
        }
    }
    for (LibraryModel &m : models) {
        if (m.place) m.place(m, workspaces);
    }
}

// Runs `what`, and prefixes its errors with the kernel's name.
template<class What>
void naming_kernel(const LibraryDescription &library, const LibraryKernel &k, What what) {
    try {
        what();
    } catch (const UserError &e) {
        throw UserError("library " + library.name + ", kernel " + k.name + ": " + e.what());
    } catch (const Unsupported &e) {
        throw Unsupported("library " + library.name + ", kernel " + k.name + ": " + e.what());
    }
}

std::vector<PackagedKernel> lower_kernels(const LibraryDescription &library, const std::vector<Target> &targets,
                                          const LibraryOptions &options) {
    const CpuTarget &cpu = targets[0].cpu;
    const std::string prefix = library.prefix.value_or(library.name + "_");
    const ScheduleSource source = options.source             ? options.source
                                  : library.database.empty() ? nullptr
                                                             : tuned_schedules(library.database);
    std::vector<PackagedKernel> kernels;
    for (const LibraryKernel &k : library.kernels) {
        if (options.progress) options.progress(0, library.kernels.size(), "lowering " + k.name);
        naming_kernel(library, k, [&] {
            PackagedKernel packaged{&k, prefix + k.name, {}, {}};
            check_symbol(library, cpu, packaged.symbol);
            const std::vector<Target> own = k.targets.empty() ? targets : targets_of(k.targets);
            if (own[0].cpu.architecture() != cpu.architecture())
                throw UserError("its targets are of another architecture than the library's");
            if (own[0].cpu.freestanding() != cpu.freestanding())
                throw UserError(
                    "its targets and the library's have to be all freestanding, or all with an operating system");
            for (const Target &target : own)
                packaged.variants.push_back(lower_variant(k, packaged.symbol, target, source));
            kernels.push_back(std::move(packaged));
        });
    }
    return kernels;
}

using Members = std::vector<std::pair<std::string, std::string>>; // of the archive: name, bytes

// Compiles kernels and entries; adds the warnings to the report.
Members compile_kernels(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels,
                        const CpuTarget &cpu, const LibraryOptions &options, LibraryReport &report) {
    Members members;
    CodegenOptions codegen;
    codegen.runtime_prefix = library.name;
    if (cpu.freestanding()) codegen.libm_prefix = library.name + "_math_";
    for (size_t n = 0; n < kernels.size(); n++) {
        const PackagedKernel &k = kernels[n];
        if (options.progress) options.progress(n, kernels.size(), k.kernel->name);
        codegen.model_threads = k.kernel->internal ? threads_of(library.models) : 0;
        naming_kernel(library, *k.kernel, [&] {
            for (const PackagedVariant &v : k.variants) {
                ObjectFile object = compile_variant(v, codegen);
                for (const std::string &w : object.warnings)
                    report.warnings.push_back(k.kernel->name + (k.variants.size() > 1 ? " for " + v.name() : "") +
                                              ": " + w);
                members.emplace_back(k.kernel->name + "." + v.name() + ".o", std::move(object.bytes));
            }
        });
    }
    for (const PackagedKernel &k : kernels)
        members.emplace_back(k.kernel->name + ".o", compile_entries(k.entries, cpu, library.name).bytes);
    return members;
}

// The function of a model with a program for each target, the most demanding one first.
Entry entry_of(const LibraryModel &model, const std::vector<Target> &targets) {
    Entry entry{model.name + "_run", {{"io", true}, {"arena", true}, {"context", true}}, {}};
    entry.with_packed_form = false;
    for (const Target &t : targets) {
        const bool known = std::any_of(model.programs.begin(), model.programs.end(),
                                       [&](const LibraryProgram &p) { return p.target == t.cpu.name; });
        if (!known) throw UserError(fmt::format("model {} has no program for {}", model.name, t.cpu.name));
        entry.variants.push_back({entry.name + "." + t.cpu.name, {0, 1, 2}, {}, t.cpu.required_features()});
    }
    return entry;
}

// The same of the function that returns the arena's bytes.
Entry arena_entry_of(const LibraryModel &model, const std::vector<Target> &targets) {
    Entry entry{model.name + "_arena_bytes", {{"sizes", true}}, {}};
    entry.counts = true, entry.with_packed_form = false;
    for (const Target &t : targets)
        entry.variants.push_back({entry.name + "." + t.cpu.name, {0}, {}, t.cpu.required_features()});
    return entry;
}

// Compiles the models' functions, and states their stacks.
void compile_models(LibraryDescription &library, const std::vector<PackagedKernel> &kernels,
                    const std::vector<Target> &targets, Members &members) {
    const CpuTarget &cpu = targets[0].cpu;
    for (const LibraryModel &model : library.models) {
        const std::vector<Sequence> sequences = model_sequences(library, model, kernels);
        for (const Sequence &s : sequences)
            members.emplace_back(model.name + "_run" + (s.target.empty() ? "" : "." + s.target) + ".o",
                                 compile_sequence(s, cpu, library.name).bytes);
        if (sequences.size() > 1) {
            std::vector<Entry> entries = {entry_of(model, targets)};
            if (!model.sizes.empty()) entries.push_back(arena_entry_of(model, targets));
            members.emplace_back(model.name + "_run.o", compile_entries(entries, cpu, library.name).bytes);
        }
        if (!model.data.empty() && !model.weights_file)
            members.emplace_back(model.name + "_data.o", compile_data(sequences.at(0).data, model.data, cpu).bytes);
    }
    for (LibraryModel &model : library.models) model.stack_bytes = stack_bytes(members, model.name + "_run");
}

} // namespace

LibraryReport build_library(const LibraryDescription &description, const std::string &folder,
                            const LibraryOptions &options) {
    const Stopwatch watch;
    LibraryDescription library = description; // its models are placed below
    require_identifier(library.name, "library");
    const std::vector<Target> targets = targets_of(library.targets);
    const CpuTarget &cpu = targets[0].cpu;
    if (options.shared) require_shareable(library, cpu);
    const OutputFolder output(folder);

    LibraryReport report;
    std::vector<PackagedKernel> kernels = lower_kernels(library, targets, options);
    // Everything that can fail is checked before code generation, which is slow.
    if (options.shared) require_shareable(library, kernels);
    make_entries(kernels);
    place_models(library.models, kernels);
    check_symbols(kernels, library_header(library, kernels));
    const LibraryRuntime runtime = make_runtime(library.name, cpu, options.compiler);

    Members members = compile_kernels(library, kernels, cpu, options, report);
    compile_models(library, kernels, targets, members);
    std::vector<std::string> externs;
    for (const PackagedKernel &k : kernels) {
        for (const ExternUse &use : extern_uses(k.nest())) externs.push_back(use.symbol);
    }
    check_complete(library.name, cpu, members, externs);
    if (options.progress) options.progress(kernels.size(), kernels.size(), "the runtime");
    members.insert(members.end(), runtime.members.begin(), runtime.members.end());
    if (!runtime.warning.empty()) report.warnings.push_back(runtime.warning);
    const LibraryUse use{cpu.freestanding(), !runtime.source.empty(),
                         runtime.compiler.empty() ? usual_compiler(cpu) : runtime.compiler};
    report.compiler = runtime.compiler;
    report.link = use.command(library.name, folder, "app.c");
    report.brings = use.brings(library.name);

    const std::string archive = make_archive(members), header = library_header(library, kernels);
    report.manifest = library_manifest(library, targets, kernels);
    (*report.manifest)["warnings"] = report.warnings;
    std::vector<std::pair<std::string, std::string>> files;
    const auto add = [&](const std::string &name, const std::string &purpose, std::string bytes) {
        report.files.emplace_back(name, purpose);
        files.emplace_back((std::filesystem::path(folder) / name).string(), std::move(bytes));
    };
    add("lib" + library.name + ".a", "the kernels" + std::string(runtime.source.empty() ? " and their runtime" : ""),
        archive);
    if (options.shared)
        add("lib" + library.name + ".so", "the same, shared, and for Python by TVM FFI",
            shared_library(library, kernels, archive, header, use.compiler));
    add(library.name + ".h", "C declarations", header);
    for (const LibraryModel &model : library.models) {
        if (model.weights_file) add(model.name + ".weights", "weights, for the program", weights_file(model));
    }
    add(library.name + "Config.cmake", "for CMake's find_package", library_cmake(library, use));
    add(library.name + "ConfigVersion.cmake", "the version, for CMake", library_cmake_version(library));
    add(library.name + ".pc", "for pkg-config", library_pkg_config(library, use));
    if (!runtime.source.empty())
        add(library.name + "_runtime.c", "their runtime, to be compiled with the program", runtime.source);
    add("manifest.json", "what is inside", dump_json(report.manifest));
    if (options.self_test)
        add(library.name + "_selftest.c", "a program that checks the library",
            library_self_test(library, kernels, use));
    write_files_atomically(files);
    if (options.progress) options.progress(kernels.size(), kernels.size(), "");
    report.seconds = watch.seconds();
    return report;
}

} // namespace kumiko
