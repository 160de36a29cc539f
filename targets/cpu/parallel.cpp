// A parallel loop: its body becomes a function task(closure, index), run through the hook
// parallel_for. The closure holds the pointers, sizes, loop variables and lets that the body uses.
// Accesses in the task keep their alias scopes, which name arrays of the kernel, so a task is
// optimised like straight-line code.
#include "targets/cpu/codegen.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

class UsedNames : public IRVisitor {
public:
    std::set<std::string> names;

private:
    using IRVisitor::visit;
    void visit(const Variable *op) override { names.insert(op->name); }
    void visit(const Load *op) override {
        names.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        names.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Call *op) override {
        for (const Expr &arg : op->args) { // prefetch names its array by a string
            if (const auto *s = arg.as<StringImm>()) {
                names.insert(s->value);
            }
        }
        IRVisitor::visit(op);
    }
};

} // namespace

std::vector<Codegen::Captured> Codegen::captured_by(const For *op) const {
    UsedNames used;
    op->body.accept(&used);
    used.names.erase(op->name);
    std::vector<Captured> captured;
    for (const std::string &name : used.names) {
        // A size and a tensor may share a name.
        if (const Symbol *s = symbols_.find(name))
            captured.push_back({name, s->index ? s->index : s->value, false, s->index != nullptr});
        if (const Array *a = arrays_.find(name); a && a->pointer) captured.push_back({name, a->pointer, true, false});
    }
    return captured;
}

llvm::Function *Codegen::declare_task(const std::string &loop) {
    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    auto *task_type = llvm::FunctionType::get(ir_.getInt32Ty(), {pointer, ir_.getInt64Ty()}, false);
    auto *task = llvm::Function::Create(task_type, llvm::Function::InternalLinkage,
                                        fmt::format("{}.parallel.{}.{}", kernel_, loop, tasks_++), *module);
    task->addParamAttr(0, llvm::Attribute::NoAlias);
    task->addParamAttr(0, llvm::Attribute::ReadOnly);
    task->addParamAttr(0, llvm::Attribute::NonNull);
    set_attributes(task);
    return task;
}

void Codegen::define_task(llvm::Function *task, const For *op, const std::vector<Captured> &captured,
                          llvm::StructType *closure_type) {
    const bool nonnegative = is_nonnegative(op->min);
    llvm::Function *outer_function = function_;
    llvm::IRBuilderBase::InsertPoint outer_place = ir_.saveIP();
    auto outer_workspaces = std::move(workspaces_);
    workspaces_.clear();
    {
        begin_function(task);
        std::vector<std::unique_ptr<ScopedBinding<Symbol>>> symbols;
        std::vector<std::unique_ptr<ScopedBinding<Array>>> arrays;
        for (size_t i = 0; i < captured.size(); i++) {
            const Captured &c = captured[i];
            Value *v = c.value;
            if (!llvm::isa<llvm::Constant>(v)) {
                auto *loaded = ir_.CreateLoad(closure_type->getElementType(unsigned(i)),
                                              ir_.CreateStructGEP(closure_type, task->getArg(0), unsigned(i)), c.name);
                loaded->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
                v = loaded;
            }
            if (c.is_array) {
                Array array = *arrays_.find(c.name);
                array.pointer = v;
                array.on_stack = false;
                arrays.push_back(std::make_unique<ScopedBinding<Array>>(arrays_, c.name, array));
            } else {
                Symbol symbol = *symbols_.find(c.name);
                if (c.is_index) {
                    symbol.index = v;
                    symbol.value = ir_.CreateTrunc(v, symbol.value->getType());
                } else {
                    symbol.value = v;
                }
                symbols.push_back(std::make_unique<ScopedBinding<Symbol>>(symbols_, c.name, symbol));
            }
        }
        ScopedBinding<Symbol> bound(symbols_, op->name, bind_index(task->getArg(1), Int(32), nonnegative, {}));
        ScopedBinding<ModulusRemainder> aligned(alignments_, op->name, ModulusRemainder());
        statement(op->body);
        fence_streams();
        ir_.CreateRet(ir_.getInt32(0));
    }
    workspaces_ = std::move(outer_workspaces);
    function_ = outer_function;
    ir_.restoreIP(outer_place);
}

void Codegen::parallel_loop(const For *op) {
    Value *min = index(op->min), *extent = index(op->extent);
    const std::vector<Captured> captured = captured_by(op);
    std::vector<llvm::Type *> fields;
    for (const Captured &c : captured) {
        fields.push_back(c.value->getType());
    }
    llvm::StructType *closure_type = llvm::StructType::get(context_, fields);
    Value *closure = stack_slot(closure_type, 64, "closure." + op->name);
    for (size_t i = 0; i < captured.size(); i++) {
        if (!llvm::isa<llvm::Constant>(captured[i].value)) {
            ir_.CreateStore(captured[i].value, ir_.CreateStructGEP(closure_type, closure, unsigned(i)));
        }
    }
    llvm::Function *task = declare_task(op->name);
    define_task(task, op, captured, closure_type);

    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    llvm::Function *parallel_for =
        hook("parallel_for", ir_.getInt32Ty(), {pointer, pointer, ir_.getInt64Ty(), ir_.getInt64Ty()});
    Value *code = ir_.CreateCall(parallel_for, {task, closure, min, extent});
    llvm::BasicBlock *failed = block("failed"), *after = block("joined");
    ir_.CreateCondBr(ir_.CreateICmpEQ(code, ir_.getInt32(0)), after, failed,
                     llvm::MDBuilder(context_).createBranchWeights(1 << 20, 1));
    ir_.SetInsertPoint(failed);
    return_code(code);
    ir_.SetInsertPoint(after);
}

} // namespace kumiko::cpu
