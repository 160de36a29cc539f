#include "targets/halide/halide_module.h"

#include "machine/machine.h"
#include "runtime/kumiko_runtime.h"
#include "support/error.h"
#include "targets/halide/translate.h"

#include <fstream>
#include <sstream>

#include <set>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Halide asks which features the processor has, but not whether the operating system enables them.
// Machine::host() checks both.
Halide::Target host_target() {
    using F = Halide::Target::Feature;
    Halide::Target target = Halide::get_host_target();
    const Machine machine = Machine::host();
    const auto require = [&](const char *name, std::initializer_list<F> features) {
        if (machine.has(name)) return;
        for (const F f : features) target = target.without_feature(f);
    };
    if (target.arch != Halide::Target::X86) return target;
    require("avx", {F::AVX, F::F16C});
    require("fma", {F::FMA});
    require("avx2", {F::AVX2});
    require("avx512f", {F::AVX512, F::AVX512_KNL, F::AVX512_Skylake, F::AVX512_Cannonlake, F::AVX512_Zen4,
                        F::AVX512_Zen5, F::AVX512_SapphireRapids, F::AVX10_1});
    return target;
}

Halide::Target target_of(const HalideOptions &options) {
    if (options.target == "host") return host_target();
    if (!Halide::Target::validate_target_string(options.target)) {
        throw UserError("\"" + options.target +
                        "\" is not the name of a Halide target; one is \"x86-64-linux-avx2\", or \"host\"");
    }
    return Halide::Target(options.target);
}

// Halide has one namespace for tensors and sizes: a size with the name of a tensor is renamed.
class RenameSizes : public IRMutator {
public:
    explicit RenameSizes(const Nest &nest) {
        for (const TensorArgument &t : nest.tensors) taken_.insert(t.name);
    }
    std::string name(const std::string &size) const { return taken_.count(size) ? size + ".size" : size; }

private:
    using IRMutator::visit;
    std::set<std::string> taken_;
    Expr visit(const Variable *v) override {
        return v->type == Int(32) && taken_.count(v->name) ? Variable::make(Int(32), name(v->name)) : Expr(v);
    }
};

// Tensors are pointers, sizes int32. Parameters have the names that the body uses.
LoweredFunc function_of(const Nest &nest, const Halide::Target &target, Halide::LinkageType linkage,
                        std::vector<LoweredFunc> &tasks) {
    std::vector<LoweredArgument> args;
    for (const TensorArgument &t : nest.tensors) {
        args.emplace_back(t.name, Halide::Argument::InputScalar, Halide::Handle(), 0, Halide::ArgumentEstimates{});
    }
    RenameSizes rename(nest);
    for (const std::string &s : nest.sizes)
        args.emplace_back(rename.name(s), Halide::Argument::InputScalar, Int(32), 0, Halide::ArgumentEstimates{});
    const Stmt body = lower_parallel_tasks(rename.mutate(halide_body(nest)), tasks, nest.name, target);
    return LoweredFunc(nest.name, args, body, linkage);
}

Halide::Module module_of(const Nest &nest, const Halide::Target &target, Halide::LinkageType linkage) {
    std::vector<LoweredFunc> tasks;
    const LoweredFunc function = function_of(nest, target, linkage, tasks);
    Halide::Module module(nest.name, target);
    for (const LoweredFunc &t : tasks) module.append(t);
    module.append(function);
    module.set_any_strict_float(true);
    return module;
}

// Rethrows Halide's errors as ours: an assertion about its input means that it does not support the
// nest.
template<typename Body>
auto guarded(const Nest &nest, const Body &body) {
    try {
        return body();
    } catch (const Halide::Error &e) {
        throw Unsupported("kernel " + nest.name + " through Halide: " + e.what());
    }
}

} // namespace

struct HalideModule::Contents {
    Nest nest;
    JITModule module;
    JITModule::argv_wrapper entry;
};

HalideModule::HalideModule(const Nest &nest, const HalideOptions &options) {
    if (options.target != "host")
        throw UserError("only the target \"host\" runs in this process, not \"" + options.target + "\"");
    contents_ = guarded(nest, [&] {
        const Halide::Target target = target_of(options).with_feature(Halide::Target::JIT);
        Nest named = nest; // a kernel may have the name of a C library function
        named.name = "kumiko_" + nest.name;
        const Halide::Module module = module_of(named, target, Halide::LinkageType::ExternalPlusArgv);
        const JITModule jit(module, module.get_function_by_name(named.name));
        return std::make_shared<Contents>(Contents{nest, jit, jit.argv_function()});
    });
    if (!contents_->entry) throw InternalError("Halide gave no entry for kernel " + nest.name);
}

int HalideModule::call(void *const *tensors, const int64_t *sizes) const {
    const Nest &nest = contents_->nest;
    std::vector<const void *> args;
    std::vector<int32_t> narrow(nest.sizes.size());
    if (!tensors && !nest.tensors.empty())
        return kumiko_fail(KUMIKO_NULL_POINTER, (nest.name + ": the array of tensors is a null pointer").c_str());
    if (!sizes && !nest.sizes.empty())
        return kumiko_fail(KUMIKO_NULL_POINTER, (nest.name + ": the array of sizes is a null pointer").c_str());
    for (size_t t = 0; t < nest.tensors.size(); t++) {
        if (!tensors[t]) return kumiko_fail(KUMIKO_NULL_POINTER, (nest.tensors[t].name + " is a null pointer").c_str());
        args.push_back(&tensors[t]);
    }
    std::map<std::string, Expr> values;
    for (size_t s = 0; s < nest.sizes.size(); s++) {
        if (sizes[s] < 0 || sizes[s] > INT32_MAX) {
            return kumiko_fail(
                KUMIKO_BAD_SIZE,
                ("size " + nest.sizes[s] + " is " + std::to_string(sizes[s]) + "; legal is 0 to 2147483647").c_str());
        }
        narrow[s] = static_cast<int32_t>(sizes[s]);
        args.push_back(&narrow[s]);
        values[nest.sizes[s]] = narrow[s];
    }
    for (const Assumption &a : nest.assumptions) {
        if (!is_const_one(simplify(substitute(values, a.condition)))) {
            return kumiko_fail(KUMIKO_FAILED_ASSUMPTION, ("the assumption " + a.text + " does not hold").c_str());
        }
    }
    JITSharedRuntime::set_num_threads(kumiko_num_threads()); // Halide's pool, as many as ours
    return contents_->entry(args.data());
}

std::string halide_c_source(const Nest &nest, const HalideOptions &options) {
    return guarded(nest, [&] {
        std::ostringstream text;
        {
            const Halide::Target target = target_of(options);
            CodeGen_C generator(text, target, CodeGen_C::CImplementation);
            generator.compile(module_of(nest, target, Halide::LinkageType::External));
        } // the generator's destructor writes the last lines
        return text.str();
    });
}

void write_halide_object(const Nest &nest, const std::filesystem::path &file, const HalideOptions &options) {
    const Halide::Target target = target_of(options);
    const std::filesystem::path part = file.string() + ".part.o";
    if (!std::ofstream(part)) throw UserError("the object cannot be written to " + file.string());
    guarded(nest, [&] {
        module_of(nest, target, Halide::LinkageType::External)
            .compile({{Halide::OutputFileType::object, part.string()}});
        return 0;
    });
    std::error_code error;
    std::filesystem::rename(part, file, error);
    if (error) {
        std::filesystem::remove(part, error);
        throw UserError("the object cannot be written to " + file.string());
    }
}

} // namespace kumiko
