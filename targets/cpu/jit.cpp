#include "targets/cpu/jit.h"

#include "runtime/kumiko_runtime.h"
#include "support/error.h"
#include "targets/cpu/clock.h"
#include "targets/cpu/codegen.h"
#include "targets/cpu/optimize.h"
#include "targets/lower/extern_calls.h"

#include <llvm/ExecutionEngine/JITEventListener.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/RTDyldObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/SectionMemoryManager.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Object/SymbolSize.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace kumiko {

namespace {

using Clock = std::chrono::steady_clock;

template<typename F>
void *address(F *function) {
    return reinterpret_cast<void *>(function);
}

const char *const libm_prefix = "kumiko_libm_";

std::map<std::string, void *> default_symbols(const std::string &prefix) {
    std::map<std::string, void *> s = {
        {prefix + "_parallel_for", address(&kumiko_parallel_for)},
        {prefix + "_malloc", address(&kumiko_malloc)},
        {prefix + "_free", address(&kumiko_free)},
        {prefix + "_fail", address(&kumiko_fail)},
        {"memcpy", address(&std::memcpy)},
        {"memset", address(&std::memset)},
        {"memmove", address(&std::memmove)},
    };
    using F1 = double (*)(double);
    using F2 = double (*)(double, double);
    const std::string libm = libm_prefix;
    const std::pair<const char *, F1> unary[] = {
        {"exp", std::exp},     {"log", std::log},     {"tanh", std::tanh},           {"erf", std::erf},
        {"erfc", std::erfc},   {"expm1", std::expm1}, {"log1p", std::log1p},         {"sin", std::sin},
        {"cos", std::cos},     {"tan", std::tan},     {"asin", std::asin},           {"acos", std::acos},
        {"atan", std::atan},   {"sinh", std::sinh},   {"cosh", std::cosh},           {"asinh", std::asinh},
        {"acosh", std::acosh}, {"atanh", std::atanh}, {"floor", std::floor},         {"ceil", std::ceil},
        {"trunc", std::trunc}, {"rint", std::rint},   {"sqrt", std::sqrt},           {"exp2", std::exp2},
        {"log2", std::log2},   {"log10", std::log10}, {"nearbyint", std::nearbyint}, {"roundeven", std::nearbyint}};
    for (auto [name, f] : unary) {
        s[name] = s[libm + name] = address(f);
    }
    const std::pair<const char *, F2> binary[] = {{"pow", std::pow}, {"atan2", std::atan2}, {"fmod", std::fmod}};
    for (auto [name, f] : binary) {
        s[name] = s[libm + name] = address(f);
    }
    using G1 = float (*)(float);
    const std::pair<const char *, G1> unary_f[] = {
        {"floorf", std::floor},         {"ceilf", std::ceil},           {"truncf", std::trunc}, {"rintf", std::rint},
        {"nearbyintf", std::nearbyint}, {"roundevenf", std::nearbyint}, {"sqrtf", std::sqrt}};
    for (auto [name, f] : unary_f) {
        s[name] = address(f);
    }
    s["fma"] = address(static_cast<double (*)(double, double, double)>(std::fma));
    s["fmaf"] = address(static_cast<float (*)(float, float, float)>(std::fma));
    // LLVM emits these for f16 minima and maxima that it knows to be free of NaN.
    s["fmax"] = address(static_cast<double (*)(double, double)>(std::fmax));
    s["fmin"] = address(static_cast<double (*)(double, double)>(std::fmin));
    s["fmaxf"] = address(static_cast<float (*)(float, float)>(std::fmax));
    s["fminf"] = address(static_cast<float (*)(float, float)>(std::fmin));
    return s;
}

void check(llvm::Error error) {
    if (error) {
        throw InternalError("JIT: " + llvm::toString(std::move(error)));
    }
}

} // namespace

struct JitModule::Contents {
    std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
    std::unique_ptr<llvm::Module> module; // kept for llvm_ir() and assembly()
    CpuTarget target;
    std::vector<std::string> warnings;
    CompileTimes times;
    std::unique_ptr<llvm::orc::ExecutionSession> session;
    std::unique_ptr<llvm::orc::RTDyldObjectLinkingLayer> layer;
    std::map<std::string, void *> addresses;

    void link(const std::string &object, const std::vector<Nest> &nests, const JitOptions &options);
    ~Contents() {
        if (session) {
            if (auto error = session->endSession()) {
                llvm::consumeError(std::move(error));
            }
        }
    }
};

void JitModule::Contents::link(const std::string &object, const std::vector<Nest> &nests, const JitOptions &options) {
    using namespace llvm::orc;
    auto control = SelfExecutorProcessControl::Create();
    if (!control) {
        throw InternalError("JIT: " + llvm::toString(control.takeError()));
    }
    session = std::make_unique<ExecutionSession>(std::move(*control));
    std::string missing;
    session->setErrorReporter([&missing](llvm::Error error) { missing += llvm::toString(std::move(error)) + " "; });
    layer = std::make_unique<RTDyldObjectLinkingLayer>(*session,
                                                       [] { return std::make_unique<llvm::SectionMemoryManager>(); });
    layer->setProcessAllSections(options.debugger);
    if (options.debugger) {
        layer->registerJITEventListener(*llvm::JITEventListener::createGDBRegistrationListener());
    }
    std::map<std::string, std::pair<uint64_t, uint64_t>> perf_rows;
    if (options.perf_map) {
        layer->setNotifyLoaded([&](MaterializationResponsibility &, const llvm::object::ObjectFile &file,
                                   const llvm::RuntimeDyld::LoadedObjectInfo &loaded) {
            for (const auto &[symbol, size] : llvm::object::computeSymbolSizes(file)) {
                auto kind = symbol.getType();
                auto name = symbol.getName();
                auto section = symbol.getSection();
                auto offset = symbol.getAddress();
                if (kind && name && section && offset && *kind == llvm::object::SymbolRef::ST_Function &&
                    *section != file.section_end()) {
                    uint64_t base = loaded.getSectionLoadAddress(**section);
                    perf_rows[name->str()] = {base + *offset - (*section)->getAddress(), size};
                }
                llvm::consumeError(kind.takeError());
                llvm::consumeError(name.takeError());
                llvm::consumeError(section.takeError());
                llvm::consumeError(offset.takeError());
            }
        });
    }
    JITDylib &library = session->createBareJITDylib("kernels");
    SymbolMap symbols;
    auto all = default_symbols(options.codegen.runtime_prefix);
    for (const auto &[name, p] : options.symbols) {
        all[name] = p;
    }
    for (const Nest &nest : nests) {
        for (const ExternUse &use : extern_uses(nest)) all[use.symbol] = address(extern_address(use.function));
    }
    for (const auto &[name, p] : all) {
        symbols[session->intern(name)] = {ExecutorAddr::fromPtr(p), llvm::JITSymbolFlags::Exported};
    }
    // A separate library, so that a kernel may have any name.
    JITDylib &runtime = session->createBareJITDylib("runtime");
    check(runtime.define(absoluteSymbols(std::move(symbols))));
    library.addToLinkOrder(runtime);
    check(layer->add(library, llvm::MemoryBuffer::getMemBufferCopy(object, "kernels")));
    SymbolLookupSet wanted;
    for (const Nest &nest : nests) {
        wanted.add(session->intern(nest.name));
        wanted.add(session->intern(nest.name + "_packed"));
    }
    auto found = session->lookup({{&library, JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted));
    if (!found) {
        throw InternalError("JIT: " + llvm::toString(found.takeError()) + " " + missing);
    }
    for (const auto &[name, definition] : *found) {
        addresses[(*name).str()] = definition.getAddress().toPtr<void *>();
    }
    session->setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
    if (options.perf_map) {
        std::ofstream map("/tmp/perf-" + std::to_string(getpid()) + ".map", std::ios::app);
        for (const auto &[name, row] : perf_rows) {
            map << std::hex << row.first << ' ' << row.second << ' ' << name << '\n';
        }
    }
}

JitModule::JitModule(const std::vector<Nest> &nests, const JitOptions &options)
    : contents_(std::make_unique<Contents>()) {
    auto clock = Clock::now();
    Contents &c = *contents_;
    c.target = options.codegen.target;
    if (std::string missing = c.target.missing_on(CpuTarget::host()); !missing.empty()) {
        throw UserError("this processor cannot run code for " + c.target.name + ": it lacks " + missing);
    }
    CodegenOptions generation = options.codegen;
    generation.libm_prefix = libm_prefix;
    cpu::Codegen codegen(*c.context, generation, nests.empty() ? "kumiko" : nests[0].name);
    for (const Nest &nest : nests) {
        codegen.add(nest);
    }
    c.times.generate = milliseconds_since(clock);
    auto machine = cpu::make_target_machine(c.target);
    cpu::optimize(*codegen.module, *machine);
    c.warnings = codegen.warnings;
    cpu::report_spilled_arrays(*codegen.module, c.warnings);
    c.times.optimize = milliseconds_since(clock);
    if (options.keep_text) {
        c.module = llvm::CloneModule(*codegen.module);
    }
    std::string object = cpu::emit_object(*codegen.module, *machine);
    c.times.machine = milliseconds_since(clock);
    c.link(object, nests, options);
    c.times.link = milliseconds_since(clock);
}

JitModule::~JitModule() = default;
JitModule::JitModule(JitModule &&) noexcept = default;
JitModule &JitModule::operator=(JitModule &&) noexcept = default;

void *JitModule::symbol(const std::string &name) const {
    auto found = contents_->addresses.find(name);
    if (found == contents_->addresses.end()) {
        throw UserError("no kernel is named \"" + name + "\"");
    }
    return found->second;
}

std::string JitModule::llvm_ir() const { return contents_->module ? cpu::print(*contents_->module) : ""; }

std::string JitModule::assembly() const {
    if (!contents_->module) {
        return "";
    }
    // printing runs code generation, which changes the module
    auto copy = llvm::CloneModule(*contents_->module);
    auto machine = cpu::make_target_machine(contents_->target);
    return cpu::emit_assembly(*copy, *machine);
}

const std::vector<std::string> &JitModule::warnings() const { return contents_->warnings; }
const CompileTimes &JitModule::times() const { return contents_->times; }

} // namespace kumiko
