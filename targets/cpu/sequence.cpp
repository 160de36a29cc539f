#include "targets/cpu/sequence.h"

#include "runtime/kumiko_runtime.h"
#include "targets/cpu/baseline_module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/IR/IRBuilder.h>

namespace kumiko {

namespace {

class SequenceBuilder {
public:
    SequenceBuilder(cpu::BaselineModule &made, const Sequence &sequence, std::string prefix)
        : context_(made.context), module_(made.module), sequence_(sequence), prefix_(std::move(prefix)), ir_(context_) {
        auto *type = llvm::FunctionType::get(ir_.getInt32Ty(), {ir_.getPtrTy(), ir_.getPtrTy(), ir_.getPtrTy()}, false);
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
        if (const auto &w = sequence_.weights)
            return_failure(
                call("match_weights", ir_.getInt32Ty(),
                     {tensors_.at(w->tensor), ir_.getInt64(w->bytes), ir_.getInt64(w->hash), text(w->model)}));
        hooked_ = ir_.CreateIsNotNull(function_->getArg(2));
        for (size_t n = 0; n < sequence_.steps.size(); n++) {
            const SequenceStep &step = sequence_.steps[n];
            llvm::Constant *described = describe(step, int64_t(n));
            call_hooks("begin_step", {described});
            add(step);
            llvm::Constant *made = describe(step.made);
            call_hooks("end_step",
                       {described, made, ir_.getInt64(step.made.size()), function_->getArg(0), function_->getArg(1)});
        }
        ir_.CreateRet(ir_.getInt32(0));
    }

    // After run().
    void add_check_of_weights(cpu::BaselineModule &made) {
        const SequenceWeights &w = *sequence_.weights;
        auto *type = llvm::FunctionType::get(ir_.getInt32Ty(), {ir_.getPtrTy(), ir_.getInt64Ty()}, false);
        function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, w.check, module_);
        made.set_attributes(*function_);
        ir_.SetInsertPoint(block("entry"));
        ir_.CreateRet(call(
            "verify_weights", ir_.getInt32Ty(),
            {function_->getArg(0), function_->getArg(1), ir_.getInt64(w.bytes), ir_.getInt64(w.hash), text(w.model)}));
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
        int64_t offset = p.offset;
        if (p.base == SequencePointer::Base::Data && sequence_.weights) {
            base = tensors_.at(sequence_.weights->tensor);
            offset += KUMIKO_WEIGHTS_HEADER;
        } else if (p.base == SequencePointer::Base::Data) {
            auto *data = llvm::cast<llvm::GlobalVariable>(module_.getOrInsertGlobal(sequence_.data, ir_.getInt8Ty()));
            data->setVisibility(llvm::GlobalValue::HiddenVisibility);
            base = data;
        }
        return ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), base, static_cast<uint64_t>(offset));
    }

    llvm::Constant *text(const std::string &t) { return ir_.CreateGlobalStringPtr(t); }

    llvm::Constant *constant(llvm::Constant *value, const char *name) {
        return new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage, value,
                                        name);
    }

    llvm::Constant *numbers(const std::vector<int64_t> &values, const char *name) {
        return constant(
            llvm::ConstantDataArray::get(
                context_, llvm::ArrayRef<uint64_t>(reinterpret_cast<const uint64_t *>(values.data()), values.size())),
            name);
    }

    // A kumiko_step.
    llvm::Constant *describe(const SequenceStep &step, int64_t index) {
        return constant(llvm::ConstantStruct::getAnon({ir_.getInt64(uint64_t(index)),
                                                       text(fmt::format("{}", fmt::join(step.nodes, ", "))),
                                                       text(fmt::format("{}", fmt::join(step.operators, " ")))}),
                        "step");
    }

    // An array of kumiko_stored_tensor.
    llvm::Constant *describe(const std::vector<SequenceTensor> &made) {
        if (made.empty()) return llvm::ConstantPointerNull::get(ir_.getPtrTy());
        std::vector<llvm::Constant *> all;
        for (const SequenceTensor &t : made) {
            const bool in_array = t.place.base == SequencePointer::Base::Tensor;
            all.push_back(llvm::ConstantStruct::getAnon(
                {text(t.name), text(t.type), ir_.getInt64(t.extents.size()), numbers(t.extents, "extents"),
                 llvm::ConstantPointerNull::get(ir_.getPtrTy()), ir_.getInt64(in_array ? t.place.tensor : uint64_t(-1)),
                 ir_.getInt64(uint64_t(t.place.offset))}));
        }
        return constant(llvm::ConstantArray::get(llvm::ArrayType::get(all[0]->getType(), all.size()), all), "made");
    }

    // A call of a function of the runtime.
    llvm::Value *call(const std::string &name, llvm::Type *result, const std::vector<llvm::Value *> &arguments) {
        std::vector<llvm::Type *> types;
        for (const llvm::Value *v : arguments) types.push_back(v->getType());
        return ir_.CreateCall(
            module_.getOrInsertFunction(prefix_ + "_" + name, llvm::FunctionType::get(result, types, false)),
            arguments);
    }

    // Calls a function of the runtime with the context, if there is one.
    void call_hooks(const char *name, std::vector<llvm::Value *> arguments) {
        llvm::BasicBlock *call = block(name), *next = block("next");
        ir_.CreateCondBr(hooked_, call, next);
        ir_.SetInsertPoint(call);
        arguments.insert(arguments.begin(), function_->getArg(2));
        this->call(name, ir_.getVoidTy(), arguments);
        ir_.CreateBr(next);
        ir_.SetInsertPoint(next);
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
        arguments.push_back(step.workspace < 0 ? llvm::ConstantPointerNull::get(ir_.getPtrTy())
                                               : address({SequencePointer::Base::Arena, 0, step.workspace}));
        arguments.push_back(function_->getArg(2));
        const std::vector<llvm::Type *> types(arguments.size(), ir_.getPtrTy());
        const auto callee =
            module_.getOrInsertFunction(step.symbol, llvm::FunctionType::get(ir_.getInt32Ty(), types, false));
        return_failure(ir_.CreateCall(callee, arguments));
    }

    void check(const SequenceCheck &c, llvm::Value *indices) {
        llvm::Constant *extents = numbers(c.extents, "extents");
        const auto callee =
            module_.getOrInsertFunction(prefix_ + "_check_indices", ir_.getInt32Ty(), ir_.getPtrTy(), ir_.getInt32Ty(),
                                        ir_.getInt64Ty(), ir_.getPtrTy(), ir_.getInt64Ty(), ir_.getPtrTy());
        return_failure(ir_.CreateCall(callee, {indices, ir_.getInt32(uint32_t(c.bits)), ir_.getInt64(uint64_t(c.count)),
                                               extents, ir_.getInt64(c.extents.size()), text(c.text)}));
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
    llvm::Value *hooked_ = nullptr; // whether the run has a context
    std::vector<llvm::Value *> tensors_;
};

} // namespace

ObjectFile compile_sequence(const Sequence &sequence, const CpuTarget &target, const std::string &runtime_prefix) {
    cpu::BaselineModule made(target, sequence.name);
    SequenceBuilder builder(made, sequence, runtime_prefix);
    builder.run();
    if (sequence.weights) builder.add_check_of_weights(made);
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
