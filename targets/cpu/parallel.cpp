// A parallel loop: its body becomes a function task(closure, index), run through the hook
// parallel_for. The closure holds the pointers, sizes, loop variables and lets that the body uses.
// For kernels of models, iterations with workspaces are run by workers (targets/cpu/workspace.h).
// Accesses in the task keep their alias scopes, which name arrays of the kernel, so a task is
// optimised like straight-line code.
#include "targets/cpu/statements.h"
#include "targets/cpu/workspace.h"

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

std::vector<Statements::Captured> Statements::captured_by(const For *op) const {
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

llvm::Function *Statements::declare_task(const std::string &loop, bool worker) {
    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    std::vector<llvm::Type *> parameters = {pointer, ir_.getInt64Ty()};
    if (worker) parameters.push_back(pointer);
    auto *task_type = llvm::FunctionType::get(ir_.getInt32Ty(), parameters, false);
    auto *task = llvm::Function::Create(task_type, llvm::Function::InternalLinkage,
                                        fmt::format("{}.parallel.{}.{}", kernel_, loop, tasks_++), *module);
    task->addParamAttr(0, llvm::Attribute::NoAlias);
    task->addParamAttr(0, llvm::Attribute::ReadOnly);
    task->addParamAttr(0, llvm::Attribute::NonNull);
    if (worker) task->addParamAttr(2, llvm::Attribute::NoAlias);
    set_attributes(task);
    return task;
}

void Statements::define_task(llvm::Function *task, const For *op, const std::vector<Captured> &captured,
                             llvm::StructType *closure_type) {
    const bool nonnegative = is_nonnegative(op->min);
    llvm::Function *outer_function = function_;
    llvm::IRBuilderBase::InsertPoint outer_place = ir_.saveIP();
    auto outer_workspaces = std::move(workspaces_);
    workspaces_.clear();
    Value *outer_workspace = workspace_, *outer_context = context_argument_;
    const int64_t outer_used = std::exchange(workspace_used_, 0);
    {
        begin_function(task);
        if (options_.model_threads) {
            workspace_ = task->arg_size() > 2 ? task->getArg(2) : nullptr;
            const auto field = unsigned(captured.size());
            context_argument_ =
                ir_.CreateLoad(ir_.getPtrTy(), ir_.CreateStructGEP(closure_type, task->getArg(0), field), "context");
        }
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
    workspace_ = outer_workspace, context_argument_ = outer_context, workspace_used_ = outer_used;
    function_ = outer_function;
    ir_.restoreIP(outer_place);
}

// The task of a worker: it takes iterations until there are none left. The closure has, after the
// fields for the iteration's own task: the workers' block, the next iteration, and the end.
llvm::Function *Statements::worker_task(llvm::Function *iteration, llvm::StructType *closure_type, int64_t bytes) {
    llvm::Function *outer_function = function_;
    const llvm::IRBuilderBase::InsertPoint outer_place = ir_.saveIP();
    auto *type = llvm::FunctionType::get(ir_.getInt32Ty(), {ir_.getPtrTy(), ir_.getInt64Ty()}, false);
    auto *task =
        llvm::Function::Create(type, llvm::Function::InternalLinkage, iteration->getName() + ".worker", *module);
    set_attributes(task);
    begin_function(task);
    Value *closure = task->getArg(0);
    const auto field = [&](unsigned from_end) {
        const unsigned n = closure_type->getNumElements() - from_end;
        return ir_.CreateLoad(closure_type->getElementType(n), ir_.CreateStructGEP(closure_type, closure, n));
    };
    Value *own = ir_.CreateInBoundsGEP(ir_.getInt8Ty(), field(3), ir_.CreateNSWMul(task->getArg(1), i64(bytes)));
    Value *next = field(2), *end = field(1);
    llvm::BasicBlock *take = block("take"), *run = block("run"), *failed = block("failed"), *done = block("done");
    ir_.CreateBr(take);
    ir_.SetInsertPoint(take);
    Value *i = ir_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, next, i64(1), llvm::MaybeAlign(8),
                                   llvm::AtomicOrdering::Monotonic);
    ir_.CreateCondBr(ir_.CreateICmpSLT(i, end), run, done);
    ir_.SetInsertPoint(run);
    Value *code = ir_.CreateCall(iteration, {closure, i, own});
    ir_.CreateCondBr(ir_.CreateICmpEQ(code, ir_.getInt32(0)), take, failed);
    ir_.SetInsertPoint(failed); // the other workers take no more either
    ir_.CreateAtomicRMW(llvm::AtomicRMWInst::Max, next, end, llvm::MaybeAlign(8), llvm::AtomicOrdering::Monotonic);
    ir_.CreateRet(code);
    ir_.SetInsertPoint(done);
    ir_.CreateRet(ir_.getInt32(0));
    function_ = outer_function;
    ir_.restoreIP(outer_place);
    return task;
}

void Statements::parallel_loop(const For *op) {
    Value *min = index(op->min), *extent = index(op->extent);
    const std::vector<Captured> captured = captured_by(op);
    const int64_t own = options_.model_threads ? workspace_bytes(op->body, options_.model_threads) : 0;
    std::vector<std::pair<Value *, llvm::Type *>> fields;
    for (const Captured &c : captured) fields.emplace_back(c.value, c.value->getType());
    if (options_.model_threads) fields.emplace_back(context_argument_, ir_.getPtrTy());
    if (own) {
        // Apart from the closure, which tasks may take as constant.
        Value *next = stack_slot(ir_.getInt64Ty(), 64, "next." + op->name);
        ir_.CreateStore(min, next);
        Value *block =
            ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), workspace_, static_cast<uint64_t>(workspace_used_));
        Value *end = ir_.CreateNSWAdd(min, extent);
        for (Value *v : {block, next, end}) fields.emplace_back(v, v->getType());
    }
    std::vector<llvm::Type *> types;
    for (const auto &[value, type] : fields) types.push_back(type);
    llvm::StructType *closure_type = llvm::StructType::get(context_, types);
    Value *closure = stack_slot(closure_type, 64, "closure." + op->name);
    for (size_t i = 0; i < fields.size(); i++) {
        if (i < captured.size() && llvm::isa<llvm::Constant>(fields[i].first)) continue;
        ir_.CreateStore(fields[i].first, ir_.CreateStructGEP(closure_type, closure, unsigned(i)));
    }
    llvm::Function *task = declare_task(op->name, own > 0);
    define_task(task, op, captured, closure_type);

    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    std::vector<Value *> arguments = {task, closure, min, extent};
    if (own) {
        Value *threads = i64(options_.model_threads);
        Value *workers = ir_.CreateSelect(ir_.CreateICmpSLT(extent, threads), extent, threads);
        arguments = {worker_task(task, closure_type, own), closure, i64(0), workers};
    }
    std::vector<llvm::Type *> parameters = {pointer, pointer, ir_.getInt64Ty(), ir_.getInt64Ty()};
    if (options_.model_threads) {
        arguments.insert(arguments.begin(), context_argument_);
        parameters.insert(parameters.begin(), pointer);
    }
    llvm::Function *parallel_for =
        hook(options_.model_threads ? "parallel_for_in" : "parallel_for", ir_.getInt32Ty(), parameters);
    Value *code = ir_.CreateCall(parallel_for, arguments);
    llvm::BasicBlock *failed = block("failed"), *after = block("joined");
    ir_.CreateCondBr(ir_.CreateICmpEQ(code, ir_.getInt32(0)), after, failed,
                     llvm::MDBuilder(context_).createBranchWeights(1 << 20, 1));
    ir_.SetInsertPoint(failed);
    return_code(code);
    ir_.SetInsertPoint(after);
}

} // namespace kumiko::cpu
