// The C entry of a kernel: checks at the door, the body, and the packed form.
#include "targets/cpu/codegen.h"

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
    bool parallel = false;

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
    void visit(const For *op) override {
        parallel |= op->for_type == ForType::Parallel;
        IRVisitor::visit(op);
    }
};

} // namespace

void Codegen::set_attributes(llvm::Function *f) {
    const CpuTarget &target = options_.target;
    f->addFnAttr(llvm::Attribute::NoUnwind);
    f->setUWTableKind(llvm::UWTableKind::Async);
    f->addFnAttr("target-cpu", target.cpu);
    f->addFnAttr("target-features", target.features);
    f->addFnAttr("frame-pointer", "all");
    f->addFnAttr("no-trapping-math", "true");
    if (target.vector_bits >= 512 && target.architecture() == "x86_64") {
        f->addFnAttr("prefer-vector-width", "512");
        f->addFnAttr("min-legal-vector-width", "512");
    }
}

void Codegen::begin_function(llvm::Function *f) {
    function_ = f;
    ir_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", f));
}

llvm::Function *Codegen::hook(const std::string &name, llvm::Type *result, std::vector<llvm::Type *> args) {
    auto callee =
        module->getOrInsertFunction(options_.runtime_prefix + "_" + name, llvm::FunctionType::get(result, args, false));
    auto *f = llvm::cast<llvm::Function>(callee.getCallee());
    f->addFnAttr(llvm::Attribute::NoUnwind);
    return f;
}

// One alias scope for each array of the kernel; an access of one array is declared not to touch any other.
void Codegen::declare_scopes(const Nest &nest) {
    FindArrays found;
    nest.body.accept(&found);
    std::set<std::string> names = found.allocated;
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

// Returns from the function, freeing the workspaces that are live.
void Codegen::return_code(Value *code) {
    for (auto p = workspaces_.rbegin(); p != workspaces_.rend(); ++p) {
        ir_.CreateCall(hook("free", ir_.getVoidTy(), {(*p)->getType()}), {*p});
    }
    ir_.CreateRet(code);
}

void Codegen::fail_unless(Value *ok, int code, const std::string &text) {
    if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(ok); known && known->isOne()) {
        return;
    }
    llvm::BasicBlock *failed = block("fail"), *after = block("checked");
    ir_.CreateCondBr(ok, after, failed, llvm::MDBuilder(context_).createBranchWeights(1 << 20, 1));
    ir_.SetInsertPoint(failed);
    llvm::Function *fail = hook("fail", ir_.getInt32Ty(), {ir_.getInt32Ty(), llvm::PointerType::getUnqual(context_)});
    fail->addFnAttr(llvm::Attribute::Cold);
    return_code(ir_.CreateCall(fail, {ir_.getInt32(code), ir_.CreateGlobalStringPtr(text)}));
    ir_.SetInsertPoint(after);
}

namespace {

// Two matrices with gaps between their rows, which may be columns of one larger matrix.
bool may_share_rows(const TensorArgument &a, const TensorArgument &b) {
    for (const TensorArgument *t : {&a, &b}) {
        if (t->extents.size() != 2 || !is_const_one(t->strides[1]) ||
            is_const_zero(simplify(t->strides[0] - t->extents[1])))
            return false;
    }
    return a.type.bytes() == b.type.bytes();
}

} // namespace

// Whether two matrices whose rows are equally far apart are different columns of one: seen modulo that distance, neither
// begins inside the other, nor goes round.
Value *Codegen::columns_apart(const TensorArgument &a, Value *a_begin, const TensorArgument &b, Value *b_begin) {
    Value *row = index(a.strides[0]), *bytes = i64(std::max(1, a.type.bytes()));
    Value *pitch = ir_.CreateMul(row, bytes);
    Value *usable = ir_.CreateAnd(ir_.CreateICmpEQ(row, index(b.strides[0])), ir_.CreateICmpSGT(row, i64(0)));
    pitch = ir_.CreateSelect(usable, pitch, i64(1));
    Value *ahead = ir_.CreateICmpUGE(b_begin, a_begin);
    Value *distance = ir_.CreateSelect(ahead, ir_.CreateSub(b_begin, a_begin), ir_.CreateSub(a_begin, b_begin));
    Value *rest = ir_.CreateURem(distance, pitch);
    // From a's first column to b's, going up.
    Value *offset =
        ir_.CreateSelect(ir_.CreateOr(ahead, ir_.CreateICmpEQ(rest, i64(0))), rest, ir_.CreateSub(pitch, rest));
    Value *a_width = ir_.CreateMul(index(a.extents[1]), bytes), *b_width = ir_.CreateMul(index(b.extents[1]), bytes);
    Value *beyond = ir_.CreateICmpUGE(offset, a_width);
    return ir_.CreateAnd(usable, ir_.CreateAnd(beyond, ir_.CreateICmpULE(ir_.CreateAdd(offset, b_width), pitch)));
}

// No output may overlap another tensor: the alias scopes promise that to LLVM.
void Codegen::check_overlap(const Nest &nest) {
    size_t n = nest.tensors.size();
    std::vector<Value *> begin(n), end(n);
    for (size_t i = 0; i < n; i++) {
        const TensorArgument &t = nest.tensors[i];
        if (t.strides.size() != t.extents.size()) {
            throw InternalError("kernel " + kernel_ + ": tensor " + t.name + " has not one stride for each extent");
        }
        Value *last = i64(0), *empty = ir_.getFalse();
        for (size_t d = 0; d < t.extents.size(); d++) {
            Value *extent = index(t.extents[d]), *stride = index(t.strides[d]);
            last = ir_.CreateNSWAdd(last, ir_.CreateNSWMul(ir_.CreateNSWSub(extent, i64(1)), stride));
            empty = ir_.CreateOr(empty, ir_.CreateICmpSLE(extent, i64(0)));
        }
        Value *bytes = ir_.CreateNSWMul(ir_.CreateNSWAdd(last, i64(1)), i64(std::max(1, t.type.bits() / 8)));
        begin[i] = ir_.CreatePtrToInt(arrays_.find(t.name)->pointer, ir_.getInt64Ty());
        end[i] = ir_.CreateAdd(begin[i], ir_.CreateSelect(empty, i64(0), bytes));
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            if (!nest.tensors[i].output || i == j || (nest.tensors[j].output && j < i)) {
                continue;
            }
            Value *apart = ir_.CreateOr(ir_.CreateICmpULE(end[i], begin[j]), ir_.CreateICmpULE(end[j], begin[i]));
            if (may_share_rows(nest.tensors[i], nest.tensors[j])) {
                llvm::BasicBlock *before = ir_.GetInsertBlock(), *look = block("columns"), *after = block("known");
                ir_.CreateCondBr(apart, after, look);
                ir_.SetInsertPoint(look);
                Value *columns = columns_apart(nest.tensors[i], begin[i], nest.tensors[j], begin[j]);
                llvm::BasicBlock *looked = ir_.GetInsertBlock();
                ir_.CreateBr(after);
                ir_.SetInsertPoint(after);
                llvm::PHINode *either = ir_.CreatePHI(ir_.getInt1Ty(), 2);
                either->addIncoming(ir_.getTrue(), before);
                either->addIncoming(columns, looked);
                apart = either;
            }
            fail_unless(apart, bad_overlap,
                        fmt::format("{}: output {} overlaps {} in memory", kernel_, nest.tensors[i].name,
                                    nest.tensors[j].name));
        }
    }
}

void Codegen::check_door(const Nest &nest) {
    for (const TensorArgument &t : nest.tensors) {
        Value *p = arrays_.find(t.name)->pointer;
        fail_unless(ir_.CreateICmpNE(p, llvm::Constant::getNullValue(p->getType())), null_pointer,
                    fmt::format("{}: tensor {} is a null pointer", kernel_, t.name));
    }
    if (!options_.check_door) {
        return;
    }
    for (const std::string &size : nest.sizes) {
        fail_unless(ir_.CreateICmpULE(symbols_.find(size)->index, i64(INT32_MAX)), bad_size,
                    fmt::format("{}: size {} is outside [0, 2147483647]", kernel_, size));
    }
    for (const Assumption &a : nest.assumptions) {
        fail_unless(condition(a.condition), failed_assumption,
                    fmt::format("{}: the assumption {} does not hold", kernel_, a.text));
    }
    check_strides(nest);
    check_overlap(nest);
}

// The elements of an output lie apart: each stride steps over all that the smaller ones reach. With sizes in the strides this
// is tested for one and two dimensions, in either order.
void Codegen::check_strides(const Nest &nest) {
    for (const TensorArgument &t : nest.tensors) {
        if (!t.output) continue;
        std::vector<std::pair<Expr, Expr>> dims; // stride, extent
        bool numbers = true;
        for (size_t d = 0; d < t.strides.size(); d++) {
            const Expr stride = Halide::Internal::simplify(t.strides[d]),
                       extent = Halide::Internal::simplify(t.extents[d]);
            numbers = numbers && is_const(stride) && is_const(extent);
            if (!is_const_one(extent)) dims.emplace_back(Halide::cast(Int(64), stride), Halide::cast(Int(64), extent));
        }
        if (numbers) {
            std::stable_sort(dims.begin(), dims.end(), [](const auto &a, const auto &b) {
                return *Halide::Internal::as_const_int(Halide::Internal::simplify(a.first)) >
                       *Halide::Internal::as_const_int(Halide::Internal::simplify(b.first));
            });
        }
        const auto apart = [&](const std::vector<std::pair<Expr, Expr>> &dims) {
            Expr ok = dims.empty() ? const_true() : dims.back().first >= 1 || dims.back().second <= 1;
            for (size_t d = 0; d + 1 < dims.size(); d++) {
                ok = ok && (dims[d].second <= 1 || dims[d + 1].second <= 1 ||
                            dims[d].first > dims[d + 1].first * (dims[d + 1].second - 1));
            }
            return ok;
        };
        if (!numbers && dims.size() > 2) continue;
        Expr ok = apart(dims);
        if (!numbers) ok = ok || apart({dims.rbegin(), dims.rend()});
        ok = Halide::Internal::simplify(ok);
        if (is_const_one(ok)) continue;
        const std::string text =
            fmt::format("{}: the strides of output {} put different elements in one place", kernel_, t.name);
        if (is_const_zero(ok)) throw UserError(text);
        fail_unless(condition(ok), bad_size, text);
    }
}

void Codegen::packed_entry(const Nest &nest, llvm::Function *kernel) {
    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    auto *f = llvm::Function::Create(llvm::FunctionType::get(ir_.getInt32Ty(), {pointer, pointer}, false),
                                     llvm::Function::ExternalLinkage, nest.name + "_packed", *module);
    set_attributes(f);
    begin_function(f);
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

// How many elements the array takes that a packing kernel writes, as a function of the sizes.
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

    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    std::vector<llvm::Type *> params(nest.tensors.size(), pointer);
    params.resize(nest.tensors.size() + nest.sizes.size(), ir_.getInt64Ty());
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
        if (!found.parallel) {
            arg->addAttr(llvm::Attribute::NoCapture);
            if (!found.stored.count(t.name)) {
                arg->addAttr(llvm::Attribute::ReadOnly);
            }
        }
        Array array;
        array.pointer = arg;
        array.type = t.type;
        array.alignment = unsigned(std::max(1, t.type.bits() / 8));
        arrays.push_back(std::make_unique<ScopedBinding<Array>>(arrays_, t.name, array));
    }
    for (size_t i = 0; i < nest.sizes.size(); i++) {
        llvm::Argument *arg = f->getArg(unsigned(nest.tensors.size() + i));
        arg->setName(nest.sizes[i]);
        symbols.push_back(
            std::make_unique<ScopedBinding<Symbol>>(symbols_, nest.sizes[i], bind_index(arg, Int(32), true, {})));
    }
    check_door(nest);
    statement(nest.body);
    ir_.CreateRet(ir_.getInt32(0));
    if (options_.symbol_suffix.empty()) packed_entry(nest, f);
    if (!nest.tensors.empty() && nest.tensors.back().output && !nest.tensors.back().packed_from.empty())
        elements_function(nest);

    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(*module, &stream)) {
        throw InternalError("kernel " + nest.name + ": invalid code was generated: " + problems);
    }
}

} // namespace kumiko::cpu
