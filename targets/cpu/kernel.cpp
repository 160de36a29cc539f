// The C entry of a kernel: the body and the packed form. The entry checks are in entry_checks.cpp.
#include "targets/cpu/codegen.h"
#include "targets/lower/extern_calls.h"

#include "support/error.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

class FindArrays : public IRVisitor {
public:
    std::set<std::string> allocated, stored;
    std::set<std::string> instructions; // by name
    // calls: users' functions, which keep none of the pointers but may write through them.
    bool parallel = false, calls = false;

private:
    using IRVisitor::visit;
    void visit(const Allocate *op) override {
        allocated.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        stored.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Call *op) override {
        calls |= op->name == extern_call_name;
        if (op->name.starts_with(instruction_prefix)) instructions.insert(op->name.substr(instruction_prefix.size()));
        IRVisitor::visit(op);
    }
    void visit(const For *op) override {
        parallel |= op->for_type == ForType::Parallel;
        IRVisitor::visit(op);
    }
};

// Whether a target has a feature of a machine table. A feature that LLVM's tables do not know
// counts as present.
bool has_feature(const std::string &architecture, uint64_t have, const std::string &name) {
    // Linux's avx512_vnni is LLVM's avx512vnni, amx_tile is amx-tile.
    std::string joined = name, dashed = name;
    std::erase(joined, '_');
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    bool known = false;
    for (const char *of : {"x86_64", "aarch64", "riscv64"}) {
        const uint64_t bits =
            CpuTarget::feature_bit(of, name) | CpuTarget::feature_bit(of, joined) | CpuTarget::feature_bit(of, dashed);
        if (of == architecture && (bits & have)) return true;
        known = known || bits;
    }
    return !known;
}

} // namespace

// One alias scope for each array of the kernel; an access to one array is declared not to touch any
// other.
void Codegen::declare_scopes(const Nest &nest) {
    FindArrays found;
    nest.body.accept(&found);
    // Workspaces are objects of their own in any case; lists of scopes of very many would take time
    // with the square of their number.
    constexpr size_t most = 64;
    std::set<std::string> names;
    if (found.allocated.size() <= most) names = found.allocated;
    for (const TensorArgument &t : nest.tensors) {
        names.insert(t.name);
    }
    llvm::MDBuilder md(context_);
    llvm::MDNode *domain = md.createAnonymousAliasScopeDomain(nest.name);
    std::map<std::string, llvm::Metadata *> scopes;
    for (const std::string &name : names) {
        scopes[name] = md.createAnonymousAliasScope(domain, name);
    }
    alias_.clear();
    for (const auto &[name, scope] : scopes) {
        std::vector<llvm::Metadata *> others;
        for (const auto &[other, other_scope] : scopes) {
            if (other != name) {
                others.push_back(other_scope);
            }
        }
        alias_[name] = {llvm::MDNode::get(context_, {scope}),
                        others.empty() ? nullptr : llvm::MDNode::get(context_, others)};
    }
}

void Codegen::packed_entry(const Nest &nest, llvm::Function *kernel) {
    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    auto *f = llvm::Function::Create(llvm::FunctionType::get(ir_.getInt32Ty(), {pointer, pointer}, false),
                                     llvm::Function::ExternalLinkage, nest.name + "_packed", *module);
    set_attributes(f);
    begin_function(f);
    for (unsigned i = 0; i < 2; i++) {
        if (i ? nest.sizes.empty() : nest.tensors.empty()) continue;
        fail_unless(ir_.CreateICmpNE(f->getArg(i), llvm::Constant::getNullValue(pointer)), null_pointer,
                    nest.name + (i ? "_packed: the array of sizes is a null pointer"
                                   : "_packed: the array of tensors is a null pointer"));
    }
    std::vector<Value *> args;
    for (size_t i = 0; i < nest.tensors.size(); i++) {
        args.push_back(ir_.CreateLoad(pointer, ir_.CreateConstInBoundsGEP1_64(pointer, f->getArg(0), i)));
    }
    for (size_t i = 0; i < nest.sizes.size(); i++) {
        args.push_back(
            ir_.CreateLoad(ir_.getInt64Ty(), ir_.CreateConstInBoundsGEP1_64(ir_.getInt64Ty(), f->getArg(1), i)));
    }
    auto *code = ir_.CreateCall(kernel, args);
    code->setTailCall();
    ir_.CreateRet(code);
}

// The number of elements that a pre-packing kernel writes, as a function of the sizes.
void Codegen::elements_function(const Nest &nest) {
    auto *f = llvm::Function::Create(
        llvm::FunctionType::get(ir_.getInt64Ty(), std::vector<llvm::Type *>(nest.sizes.size(), ir_.getInt64Ty()),
                                false),
        llvm::Function::ExternalLinkage, nest.name + "_elements" + options_.symbol_suffix, *module);
    if (!options_.symbol_suffix.empty()) f->setVisibility(llvm::GlobalValue::HiddenVisibility);
    set_attributes(f);
    begin_function(f);
    std::vector<std::unique_ptr<ScopedBinding<Symbol>>> symbols;
    for (size_t i = 0; i < nest.sizes.size(); i++)
        symbols.push_back(std::make_unique<ScopedBinding<Symbol>>(
            symbols_, nest.sizes[i], bind_index(f->getArg(unsigned(i)), Int(32), true, {})));
    ir_.CreateRet(index(nest.tensors.back().extents[0]));
}

// LLVM aborts on intrinsics that its target lacks. A caller's own emitter that replaces a built-in
// one may emit anything.
void Codegen::check_instruction(const std::string &name) const {
    const Emission how = emission(name);
    if (!how.declared || !(how.own || how.builtin)) return;
    const uint64_t have = options_.target.required_features();
    for (const std::string &wanted : how.declared->features) {
        if (has_feature(options_.target.architecture(), have, wanted)) continue;
        throw UserError("kernel " + kernel_ + ": its schedule uses the instruction " + name + ", which needs " +
                        wanted + ", and is compiled for " + options_.target.name +
                        ", which lacks that; legal is a schedule made for the machine that is to run it");
    }
}

namespace {

// The number of elements of a dense array if it is constant, otherwise 0.
int64_t constant_size(const TensorArgument &t) {
    int64_t size = 1;
    for (size_t d = t.extents.size(); d-- > 0;) {
        const auto extent = Halide::Internal::as_const_int(t.extents[d]),
                   stride = Halide::Internal::as_const_int(t.strides[d]);
        if (!extent || !stride || *stride != size) return 0;
        size *= *extent;
    }
    return size;
}

} // namespace

void Codegen::add(const Nest &nest) {
    kernel_ = nest.name;
    instructions_ = nest.instructions;
    tasks_ = 0;
    if (module->getFunction(nest.name + options_.symbol_suffix)) {
        throw UserError("two kernels are named " + nest.name);
    }
    declare_scopes(nest);
    FindArrays found;
    nest.body.accept(&found);
    for (const std::string &name : found.instructions) check_instruction(name);

    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    std::vector<llvm::Type *> params(nest.tensors.size(), pointer);
    params.resize(nest.tensors.size() + nest.sizes.size(), ir_.getInt64Ty());
    if (options_.model_threads) params.resize(params.size() + 2, pointer);
    auto *f = llvm::Function::Create(llvm::FunctionType::get(ir_.getInt32Ty(), params, false),
                                     llvm::Function::ExternalLinkage, nest.name + options_.symbol_suffix, *module);
    if (!options_.symbol_suffix.empty()) f->setVisibility(llvm::GlobalValue::HiddenVisibility);
    set_attributes(f);
    begin_function(f);
    std::vector<std::unique_ptr<ScopedBinding<Symbol>>> symbols;
    std::vector<std::unique_ptr<ScopedBinding<Array>>> arrays;
    for (size_t i = 0; i < nest.tensors.size(); i++) {
        const TensorArgument &t = nest.tensors[i];
        llvm::Argument *arg = f->getArg(unsigned(i));
        arg->setName(t.name);
        arg->addAttr(llvm::Attribute::NoAlias);
        if (!found.parallel && !found.calls) {
            arg->addAttr(llvm::Attribute::NoCapture);
            if (!found.stored.count(t.name)) {
                arg->addAttr(llvm::Attribute::ReadOnly);
            }
        }
        Array array;
        array.pointer = arg;
        array.type = t.type;
        array.alignment = unsigned(std::max(1, t.type.bits() / 8));
        array.elements = constant_size(t);
        arrays.push_back(std::make_unique<ScopedBinding<Array>>(arrays_, t.name, array));
    }
    for (size_t i = 0; i < nest.sizes.size(); i++) {
        llvm::Argument *arg = f->getArg(unsigned(nest.tensors.size() + i));
        arg->setName(nest.sizes[i]);
        symbols.push_back(
            std::make_unique<ScopedBinding<Symbol>>(symbols_, nest.sizes[i], bind_index(arg, Int(32), true, {})));
    }
    if (options_.model_threads) {
        workspace_ = f->getArg(unsigned(params.size() - 2)), context_argument_ = f->getArg(unsigned(params.size() - 1));
        workspace_->setName("workspace"), context_argument_->setName("context");
        f->addParamAttr(unsigned(params.size() - 2), llvm::Attribute::NoAlias);
        workspace_used_ = 0;
    }
    check_arguments(nest);
    body(nest);
    ir_.CreateRet(ir_.getInt32(0));
    if (options_.symbol_suffix.empty()) packed_entry(nest, f);
    if (!nest.tensors.empty() && nest.tensors.back().output && !nest.tensors.back().packed_from.empty())
        elements_function(nest);

    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(*module, &stream)) {
        for (const std::string &name : found.instructions) {
            if (!emission(name).builtin)
                throw UserError("kernel " + nest.name + ": the emitter of instruction \"" + name +
                                "\" makes code that LLVM rejects: " + problems);
        }
        throw InternalError("kernel " + nest.name + ": invalid code was generated: " + problems);
    }
}

} // namespace kumiko::cpu
