#include "targets/cpu/function_builder.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>

namespace kumiko::cpu {

FunctionBuilder::FunctionBuilder(llvm::LLVMContext &context, const CodegenOptions &options,
                                 const std::string &module_name)
    : module(std::make_unique<llvm::Module>(module_name, context)), context_(context), options_(options), ir_(context) {
    module->setTargetTriple(options.target.triple);
    module->setPICLevel(llvm::PICLevel::BigPIC);
    module->setUwtable(llvm::UWTableKind::Async);
    module->setFramePointer(llvm::FramePointerKind::All);
}

void FunctionBuilder::set_attributes(llvm::Function *f) {
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

void FunctionBuilder::begin_function(llvm::Function *f) {
    function_ = f;
    ir_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", f));
}

llvm::Function *FunctionBuilder::hook(const std::string &name, llvm::Type *result, std::vector<llvm::Type *> args) {
    auto callee =
        module->getOrInsertFunction(options_.runtime_prefix + "_" + name, llvm::FunctionType::get(result, args, false));
    auto *f = llvm::cast<llvm::Function>(callee.getCallee());
    f->addFnAttr(llvm::Attribute::NoUnwind);
    return f;
}

// Returns from the function and frees the live workspaces. Each workspace has one block that frees
// it and branches to the block of the enclosing one, so code size is linear in their number.
void FunctionBuilder::return_code(Value *code) {
    if (workspaces_.empty()) {
        ir_.CreateRet(code);
        return;
    }
    for (size_t n = workspaces_.size(); n-- > 0;) {
        Workspace &w = workspaces_[n];
        const bool known = w.exit;
        if (!known) {
            w.exit = block("leave");
            w.code = llvm::PHINode::Create(ir_.getInt32Ty(), 2, "", w.exit);
        }
        w.code->addIncoming(code, ir_.GetInsertBlock());
        ir_.CreateBr(w.exit);
        if (known) return;
        ir_.SetInsertPoint(w.exit);
        ir_.CreateCall(hook("free", ir_.getVoidTy(), {w.pointer->getType()}), {w.pointer});
        code = w.code;
    }
    ir_.CreateRet(code);
}

void FunctionBuilder::fail_unless(Value *ok, int code, const std::string &text) {
    fail_unless(ok, ir_.getInt32(static_cast<uint32_t>(code)), text);
}

void FunctionBuilder::fail_unless(Value *ok, Value *code, const std::string &text) {
    if (auto *known = llvm::dyn_cast<llvm::ConstantInt>(ok); known && known->isOne()) {
        return;
    }
    llvm::BasicBlock *failed = block("fail"), *after = block("checked");
    ir_.CreateCondBr(ok, after, failed, llvm::MDBuilder(context_).createBranchWeights(1 << 20, 1));
    ir_.SetInsertPoint(failed);
    llvm::Function *fail = hook("fail", ir_.getInt32Ty(), {ir_.getInt32Ty(), llvm::PointerType::getUnqual(context_)});
    fail->addFnAttr(llvm::Attribute::Cold);
    return_code(ir_.CreateCall(fail, {code, ir_.CreateGlobalStringPtr(text)}));
    ir_.SetInsertPoint(after);
}

Value *FunctionBuilder::stack_slot(llvm::Type *t, unsigned align, const std::string &name) {
    llvm::BasicBlock &entry = function_->getEntryBlock();
    llvm::IRBuilder<> at(&entry, entry.begin());
    llvm::AllocaInst *slot = at.CreateAlloca(t, nullptr, name);
    slot->setAlignment(llvm::Align(align));
    return slot;
}

llvm::BasicBlock *FunctionBuilder::block(const std::string &name) {
    return llvm::BasicBlock::Create(context_, name, function_);
}

Value *FunctionBuilder::i64(int64_t v) const { return llvm::ConstantInt::get(llvm::Type::getInt64Ty(context_), v); }

} // namespace kumiko::cpu
