#include "targets/cpu/object.h"

#include "support/error.h"
#include "targets/cpu/clock.h"
#include "targets/cpu/codegen.h"
#include "targets/cpu/optimize.h"
#include "targets/lower/extern_calls.h"

#include <llvm/ObjCopy/ConfigManager.h>
#include <llvm/ObjCopy/ObjCopy.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Object/ObjectFile.h>

#include <chrono>

namespace kumiko {

namespace {

template<typename T>
T unwrap(llvm::Expected<T> value, const char *what) {
    if (!value) {
        throw InternalError(std::string(what) + ": " + llvm::toString(value.takeError()));
    }
    return std::move(*value);
}

bool named_as_in_c(const Nest &nest) {
    static const std::set<std::string> reserved = {
        "erfc",  "expm1", "log1p", "exp",  "log",    "tanh",   "erf",     "pow",    "sin",   "cos",
        "tan",   "asin",  "acos",  "atan", "sinh",   "cosh",   "asinh",   "acosh",  "atanh", "atan2",
        "floor", "ceil",  "sqrt",  "fma",  "memcpy", "memset", "memmove", "malloc", "free",  "main"};
    return reserved.count(nest.name) > 0;
}

// For readable text only: a kernel with the name of a function that its code may call is renamed.
std::vector<Nest> with_other_names(std::vector<Nest> nests) {
    for (Nest &nest : nests) {
        if (named_as_in_c(nest)) nest.name += "_kernel";
    }
    return nests;
}

// The optimised module of some nests, with the objects that own it.
struct Compiled {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::TargetMachine> machine;
    std::unique_ptr<llvm::Module> module;
    std::vector<std::string> warnings;
    CompileTimes times;

    Compiled(const std::vector<Nest> &nests, const CodegenOptions &options) {
        auto clock = std::chrono::steady_clock::now();
        machine = cpu::make_target_machine(options.target);
        cpu::Codegen codegen(context, options, nests.empty() ? "kumiko" : nests[0].name);
        for (const Nest &nest : nests) {
            codegen.add(nest);
        }
        times.generate = milliseconds_since(clock);
        cpu::optimize(*codegen.module, *machine);
        warnings = codegen.warnings;
        cpu::report_spilled_arrays(*codegen.module, warnings);
        times.optimize = milliseconds_since(clock);
        module = std::move(codegen.module);
    }
};

std::unique_ptr<llvm::object::ObjectFile> parse(const std::string &object) {
    auto parsed = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "object"));
    if (!parsed) {
        throw UserError("not an object file: " + llvm::toString(parsed.takeError()));
    }
    return std::move(*parsed);
}

// The symbols with the flag; undefined symbols only if that is the flag.
std::vector<std::string> symbols_with(const std::string &object, uint32_t flag) {
    std::set<std::string> names;
    const uint32_t undefined = llvm::object::SymbolRef::SF_Undefined;
    const auto parsed = parse(object);
    for (const llvm::object::SymbolRef &symbol : parsed->symbols()) {
        const uint32_t flags = unwrap(symbol.getFlags(), "symbol");
        if ((flags & flag) && (flag == undefined || !(flags & undefined)))
            names.insert(unwrap(symbol.getName(), "symbol").str());
    }
    names.erase("");
    return {names.begin(), names.end()};
}

} // namespace

ObjectFile compile_object(const std::vector<Nest> &nests, const CodegenOptions &options) {
    for (const Nest &nest : nests) {
        if (named_as_in_c(nest)) {
            throw UserError("a kernel for a library cannot be named \"" + nest.name +
                            "\": the C library has a function of that name; give the library a prefix, or the "
                            "kernel another name");
        }
        for (const ExternUse &use : extern_uses(nest)) {
            if (use.function.symbol.empty())
                throw UserError("stage " + use.stage + " of kernel " + nest.name +
                                " calls an extern function that has only an address in this process; a library calls "
                                "it by ExternFunction::symbol");
        }
    }
    Compiled compiled(nests, options);
    auto clock = std::chrono::steady_clock::now();
    ObjectFile result{cpu::emit_object(*compiled.module, *compiled.machine), compiled.warnings, compiled.times};
    result.times.machine = milliseconds_since(clock);
    return result;
}

std::string compile_assembly(const std::vector<Nest> &nests, const CodegenOptions &options) {
    Compiled compiled(with_other_names(nests), options);
    return cpu::emit_assembly(*compiled.module, *compiled.machine);
}

std::string compile_llvm_ir(const std::vector<Nest> &nests, const CodegenOptions &options) {
    return cpu::print(*Compiled(with_other_names(nests), options).module);
}

std::string make_archive(const std::vector<std::pair<std::string, std::string>> &members) {
    std::vector<llvm::NewArchiveMember> list;
    for (const auto &[name, bytes] : members) {
        // The reference must outlive the writing; `members` does.
        list.emplace_back(llvm::MemoryBufferRef(bytes, name));
    }
    auto archive =
        unwrap(llvm::writeArchiveToBuffer(list, llvm::SymtabWritingMode::NormalSymtab, llvm::object::Archive::K_GNU,
                                          /*Deterministic=*/true, /*Thin=*/false),
               "archive");
    return archive->getBuffer().str();
}

std::vector<std::string> undefined_symbols(const std::string &object) {
    return symbols_with(object, llvm::object::SymbolRef::SF_Undefined);
}

std::vector<std::string> defined_symbols(const std::string &object) {
    return symbols_with(object, llvm::object::SymbolRef::SF_Global);
}

std::string object_architecture(const std::string &object) {
    return llvm::Triple::getArchTypeName(parse(object)->getArch()).str();
}

std::string rename_symbols(const std::string &object,
                           const std::vector<std::pair<std::string, std::string>> &prefixes) {
    const auto parsed = parse(object);
    llvm::objcopy::ConfigManager config;
    std::map<std::string, std::string> renamed;
    for (const llvm::object::SymbolRef &symbol : parsed->symbols()) {
        std::string name = unwrap(symbol.getName(), "symbol").str();
        for (const auto &[from, to] : prefixes) {
            if (name.starts_with(from)) {
                renamed[name] = to + name.substr(from.size());
                break;
            }
        }
    }
    for (const auto &[from, to] : renamed) { // the map owns the texts while the copy is made
        config.Common.SymbolsToRename[from] = to;
    }
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream stream(bytes);
    if (auto error = llvm::objcopy::executeObjcopyOnBinary(config, *parsed, stream)) {
        throw InternalError("renaming symbols: " + llvm::toString(std::move(error)));
    }
    return std::string(bytes.begin(), bytes.end());
}

} // namespace kumiko
