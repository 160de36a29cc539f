#include "driver/library_runtime.h"

#include "driver/runtime_objects.h"
#include "support/command.h"
#include "support/error.h"
#include "support/temporary_folder.h"
#include "targets/cpu/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <set>
#include <unistd.h>

namespace kumiko {

namespace {

const char *const math_functions[] = {"exp",  "expm1", "log",  "log1p", "pow",   "erf",   "erfc",
                                      "sinh", "cosh",  "tanh", "asinh", "acosh", "atanh", "fmod",
                                      "sin",  "cos",   "tan",  "asin",  "acos",  "atan",  "atan2"};

std::vector<std::string> usual_compilers(const CpuTarget &target) {
    const std::string arch = target.architecture();
    std::vector<std::string> names;
    if (target.freestanding()) {
        const std::string bare = arch == "aarch64" ? "none-elf" : arch == "riscv64" ? "unknown-elf" : "elf";
        names.push_back(arch + "-" + bare + "-gcc");
    }
    names.push_back(arch + "-linux-gnu-gcc");
    if (arch == runtime_architecture()) names.push_back("cc");
    return names;
}

bool in_path(const std::string &program) {
    if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0;
    const char *path = std::getenv("PATH");
    const std::string folders = path ? path : "";
    for (size_t at = 0; at <= folders.size();) {
        const size_t end = std::min(folders.find(':', at), folders.size());
        if (end > at && access((folders.substr(at, end - at) + "/" + program).c_str(), X_OK) == 0) return true;
        at = end + 1;
    }
    return false;
}

std::string read_file(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Compiles the source and returns the bytes of the object file. Throws UserError with the
// compiler's output.
std::string compiled(const std::string &compiler, const std::string &name, const CpuTarget &target,
                     const std::string &source) {
    const TemporaryFolder folder;
    const std::string at = folder.path().string(), file = at + "/" + name + "_runtime.c", object = at + "/runtime.o";
    std::ofstream(file, std::ios::binary) << source;
    const std::string command =
        fmt::format("{} -std=c11 -O2 -fPIC -ffunction-sections -fdata-sections{} -c '{}' -o '{}'", compiler,
                    target.freestanding() ? " -ffreestanding -fno-stack-protector" : "", file, object);
    if (const std::string program = compiler.substr(0, compiler.find(' ')); !in_path(program))
        throw UserError(fmt::format("there is no program \"{}\" here; legal is a C compiler for {}, as {}", program,
                                    target.triple, usual_compiler(target)));
    std::string printed;
    const int status = run_command(command, printed);
    std::string bytes = read_file(object);
    if (status != 0 || bytes.empty()) {
        while (!printed.empty() && printed.back() == '\n') printed.pop_back();
        throw UserError(compiler + " does not compile the runtime for " + target.triple +
                        (printed.empty() ? "" : ": " + printed));
    }
    const std::string made = object_architecture(bytes);
    if (made != target.architecture())
        throw UserError(
            fmt::format("{} compiles for {}, but the library is for {}; legal is a C compiler for {}, as {}", compiler,
                        made, target.architecture(), target.triple, usual_compiler(target)));
    return bytes;
}

} // namespace

std::string usual_compiler(const CpuTarget &target) {
    return target.architecture() == runtime_architecture() ? "cc" : target.architecture() + "-linux-gnu-gcc";
}

const std::vector<std::string> &runtime_functions() {
    static const std::vector<std::string> names = {"abi_version",
                                                   "parallel_for",
                                                   "set_parallel_for",
                                                   "default_parallel_for",
                                                   "set_num_threads",
                                                   "num_threads",
                                                   "shutdown_threads",
                                                   "malloc",
                                                   "free",
                                                   "set_memory",
                                                   "trim_memory",
                                                   "fill_workspaces",
                                                   "cpu_features",
                                                   "cpu_feature",
                                                   "ready_features",
                                                   "set_cpu_features",
                                                   "request_tiles",
                                                   "require_features",
                                                   "fail",
                                                   "check_indices",
                                                   "select_nonzero",
                                                   "select_compress",
                                                   "select_unique",
                                                   "select_boxes",
                                                   "parallel_for_in",
                                                   "begin_step",
                                                   "end_step",
                                                   "hash_weights",
                                                   "match_weights",
                                                   "verify_weights",
                                                   "error",
                                                   "clear_error"};
    return names;
}

LibraryRuntime make_runtime(const std::string &name, const CpuTarget &target, const std::string &compiler) {
    LibraryRuntime runtime;
    if (compiler.empty() && target.architecture() == runtime_architecture() && !target.freestanding()) {
        for (const RuntimeObject &r : runtime_objects())
            runtime.members.emplace_back("runtime_" + r.name,
                                         rename_symbols(std::string(r.bytes), {{"kumiko_", name + "_"}}));
        return runtime;
    }
    const std::string source = runtime_source(name, target.freestanding());
    if (!compiler.empty()) {
        runtime.members.emplace_back("runtime.o", compiled(compiler, name, target, source));
        runtime.compiler = compiler;
        return runtime;
    }
    std::string reason;
    for (const std::string &usual : usual_compilers(target)) {
        if (!in_path(usual)) continue;
        try {
            runtime.members.emplace_back("runtime.o", compiled(usual, name, target, source));
            runtime.compiler = usual;
            return runtime;
        } catch (const UserError &e) {
            reason = e.what();
        }
    }
    if (reason.empty())
        reason = fmt::format("there is no C compiler for {} here ({})", target.triple,
                             fmt::join(usual_compilers(target), ", "));
    runtime.source = source;
    runtime.warning = fmt::format("{}, so lib{}.a holds the kernels alone: programs compile {}_runtime.c as well; "
                                  "--cc names a compiler",
                                  reason, name, name);
    return runtime;
}

bool in_c_library(const std::string &symbol) {
    for (const char *file : {"libc.so.6", "libm.so.6"}) {
        void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
        if (!library) continue;
        const bool found = dlsym(library, symbol.c_str());
        dlclose(library);
        if (found) return true;
    }
    return false;
}

void check_complete(const std::string &name, const CpuTarget &target,
                    const std::vector<std::pair<std::string, std::string>> &members,
                    const std::vector<std::string> &externs) {
    std::set<std::string> given(externs.begin(), externs.end());
    given.insert({"memcpy", "memmove", "memset"});
    for (const std::string &f : runtime_functions()) given.insert(name + "_" + f);
    for (const char *f : math_functions) given.insert(target.freestanding() ? name + "_math_" + f : f);
    std::vector<std::string> missing;
    std::vector<std::pair<std::string, std::string>> needed;
    for (const auto &[member, bytes] : members) {
        for (const std::string &s : defined_symbols(bytes)) given.insert(s);
        for (const std::string &s : undefined_symbols(bytes)) needed.emplace_back(member, s);
    }
    // On a hosted target, compilers link libc, libm and their own helper functions (__extendhfsf2).
    const auto of_system = [&](const std::string &symbol) {
        return symbol == "_GLOBAL_OFFSET_TABLE_" ||
               (!target.freestanding() && (symbol.starts_with("__") || in_c_library(symbol)));
    };
    for (const auto &[member, symbol] : needed) {
        if (!given.count(symbol) && !of_system(symbol)) missing.push_back(symbol + " (" + member + ")");
    }
    if (!missing.empty())
        throw InternalError(fmt::format("library {}: its kernels for {} need functions that nothing gives: {}", name,
                                        target.triple, fmt::join(missing, ", ")));
}

} // namespace kumiko
