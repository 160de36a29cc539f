#include "targets/cpu/sequence.h"

#include "targets/cpu/baseline_module.h"

#include <llvm/IR/IRBuilder.h>

namespace kumiko {

namespace {

class SequenceBuilder {
public:
    SequenceBuilder(cpu::BaselineModule &made, const Sequence &sequence, std::string prefix)
        : context_(made.context), module_(made.module), sequence_(sequence), prefix_(std::move(prefix)), ir_(context_) {
        auto *type = llvm::FunctionType::get(ir_.getInt32Ty(), {ir_.getPtrTy(), ir_.getPtrTy()}, false);
        function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, sequence.name, module_);
        made.set_attributes(*function_);
        ir_.SetInsertPoint(block("entry"));
    }

    void run() {
        if (!sequence_.tensors.empty()) refuse_null(function_->getArg(0), "the list of tensors");
        for (size_t t = 0; t < sequence_.tensors.size(); t++) {
            tensors_.push_back(ir_.CreateLoad(ir_.getPtrTy(),
                                              ir_.CreateConstInBoundsGEP1_64(ir_.getPtrTy(), function_->getArg(0), t)));
            refuse_null(tensors_.back(), sequence_.tensors[t]);
        }
        if (sequence_.arena) refuse_null(function_->getArg(1), "the arena");
        for (const SequenceStep &step : sequence_.steps) add(step);
        ir_.CreateRet(ir_.getInt32(0));
    }

private:
    llvm::BasicBlock *block(const char *name) { return llvm::BasicBlock::Create(context_, name, function_); }

    void refuse_null(llvm::Value *pointer, const std::string &what) {
        llvm::BasicBlock *bad = block("null"), *good = block("given");
        ir_.CreateCondBr(ir_.CreateIsNull(pointer), bad, good);
        ir_.SetInsertPoint(bad);
        const auto fail =
            module_.getOrInsertFunction(prefix_ + "_fail", ir_.getInt32Ty(), ir_.getInt32Ty(), ir_.getPtrTy());
        ir_.CreateRet(
            ir_.CreateCall(fail, {ir_.getInt32(cpu::null_pointer),
                                  ir_.CreateGlobalStringPtr(sequence_.name + ": " + what + " is a null pointer")}));
        ir_.SetInsertPoint(good);
    }

    llvm::Value *address(const SequencePointer &p) {
        if (p.base == SequencePointer::Base::Tensor) return tensors_.at(p.tensor);
        llvm::Value *base = function_->getArg(1);
        if (p.base == SequencePointer::Base::Data) {
            auto *data = llvm::cast<llvm::GlobalVariable>(module_.getOrInsertGlobal(sequence_.data, ir_.getInt8Ty()));
            data->setVisibility(llvm::GlobalValue::HiddenVisibility);
            base = data;
        }
        return ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), base, static_cast<uint64_t>(p.offset));
    }

    void add(const SequenceStep &step) {
        std::vector<llvm::Value *> arguments;
        for (const SequencePointer &p : step.arguments) arguments.push_back(address(p));
        if (step.check) {
            check(*step.check, arguments.at(0));
            return;
        }
        if (step.symbol.empty()) {
            ir_.CreateMemCpy(arguments.at(1), llvm::MaybeAlign(1), arguments.at(0), llvm::MaybeAlign(1),
                             static_cast<uint64_t>(step.bytes));
            return;
        }
        const std::vector<llvm::Type *> types(arguments.size(), ir_.getPtrTy());
        const auto callee =
            module_.getOrInsertFunction(step.symbol, llvm::FunctionType::get(ir_.getInt32Ty(), types, false));
        return_failure(ir_.CreateCall(callee, arguments));
    }

    void check(const SequenceCheck &c, llvm::Value *indices) {
        llvm::Constant *values = llvm::ConstantDataArray::get(
            context_, llvm::ArrayRef<uint64_t>(reinterpret_cast<const uint64_t *>(c.extents.data()), c.extents.size()));
        auto *extents = new llvm::GlobalVariable(module_, values->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                                 values, "extents");
        const auto callee =
            module_.getOrInsertFunction(prefix_ + "_check_indices", ir_.getInt32Ty(), ir_.getPtrTy(), ir_.getInt32Ty(),
                                        ir_.getInt64Ty(), ir_.getPtrTy(), ir_.getInt64Ty(), ir_.getPtrTy());
        return_failure(
            ir_.CreateCall(callee, {indices, ir_.getInt32(uint32_t(c.bits)), ir_.getInt64(uint64_t(c.count)), extents,
                                    ir_.getInt64(c.extents.size()), ir_.CreateGlobalStringPtr(c.text)}));
    }

    void return_failure(llvm::Value *status) {
        llvm::BasicBlock *failed = block("failed"), *next = block("next");
        ir_.CreateCondBr(ir_.CreateICmpNE(status, ir_.getInt32(0)), failed, next);
        ir_.SetInsertPoint(failed);
        ir_.CreateRet(status);
        ir_.SetInsertPoint(next);
    }

    llvm::LLVMContext &context_;
    llvm::Module &module_;
    const Sequence &sequence_;
    const std::string prefix_;
    llvm::IRBuilder<> ir_;
    llvm::Function *function_;
    std::vector<llvm::Value *> tensors_;
};

} // namespace

ObjectFile compile_sequence(const Sequence &sequence, const CpuTarget &target, const std::string &runtime_prefix) {
    cpu::BaselineModule made(target, sequence.name);
    SequenceBuilder(made, sequence, runtime_prefix).run();
    return made.emit();
}

ObjectFile compile_data(const std::string &symbol, const std::string &bytes, const CpuTarget &target) {
    cpu::BaselineModule made(target, symbol);
    llvm::Constant *value = llvm::ConstantDataArray::getString(made.context, bytes, false);
    auto *data = new llvm::GlobalVariable(made.module, value->getType(), true, llvm::GlobalValue::ExternalLinkage,
                                          value, symbol);
    data->setVisibility(llvm::GlobalValue::HiddenVisibility);
    data->setAlignment(llvm::Align(64));
    return made.emit();
}

} // namespace kumiko
