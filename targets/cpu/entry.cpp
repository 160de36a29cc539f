#include "targets/cpu/entry.h"

#include "targets/cpu/baseline_module.h"

#include <llvm/IR/IRBuilder.h>

namespace kumiko {

namespace {

class EntryBuilder {
public:
    EntryBuilder(cpu::BaselineModule &made, std::string prefix)
        : made_(made), context_(made.context), module_(made.module), prefix_(std::move(prefix)), ir_(context_) {}

    void add(const Entry &entry) {
        if (entry.variants.empty() || !entry.variants.back().equals.empty())
            throw InternalError("entry " + entry.name + " has no unconditional variant");
        llvm::Type *result = entry.counts ? ir_.getInt64Ty() : ir_.getInt32Ty();
        std::vector<llvm::Type *> types;
        for (const EntryParameter &p : entry.parameters) types.push_back(type_of(p));
        llvm::Function *f = begin(entry.name, result, types);
        for (size_t i = 0; i < types.size(); i++) f->getArg(unsigned(i))->setName(entry.parameters[i].name);
        const auto first = std::find_if(entry.variants.begin(), entry.variants.end(),
                                        [](const EntryVariant &w) { return w.features != 0; });
        llvm::Value *ready = nullptr;
        if (first != entry.variants.end()) {
            ready = ready_features();
            auto *ask = llvm::BasicBlock::Create(context_, "ask", f),
                 *choose = llvm::BasicBlock::Create(context_, "choose", f);
            ir_.CreateCondBr(has(ready, first->features), choose, ask);
            ir_.SetInsertPoint(ask);
            llvm::Function *asking = asking_entry(entry, f);
            ir_.SetInsertPoint(ask);
            take(asking, arguments_of(f));
            ir_.SetInsertPoint(choose);
        }
        choose(entry, f, ready);
        if (entry.internal)
            f->setVisibility(llvm::GlobalValue::HiddenVisibility);
        else if (entry.with_packed_form)
            packed(entry, f);
    }

private:
    const cpu::BaselineModule &made_;
    llvm::LLVMContext &context_;
    llvm::Module &module_;
    std::string prefix_;
    llvm::IRBuilder<> ir_;

    // The features that the runtime has already detected, read without a call.
    llvm::Value *ready_features() {
        auto *known =
            llvm::cast<llvm::GlobalVariable>(module_.getOrInsertGlobal(prefix_ + "_ready_features", ir_.getInt64Ty()));
        known->setVisibility(llvm::GlobalValue::HiddenVisibility);
        llvm::LoadInst *ready = ir_.CreateAlignedLoad(ir_.getInt64Ty(), known, llvm::Align(8));
        ready->setAtomic(llvm::AtomicOrdering::Monotonic);
        return ready;
    }

    // The same entry, preceded by a query to the runtime, and a request for tile registers if a
    // variant needs AMX. It is a separate function because a function with calls saves registers
    // even on paths without calls.
    llvm::Function *asking_entry(const Entry &entry, llvm::Function *f) {
        std::vector<llvm::Type *> types(f->getFunctionType()->params().begin(), f->getFunctionType()->params().end());
        llvm::Function *asking = begin(entry.name + ".ask", f->getReturnType(), types);
        asking->setLinkage(llvm::GlobalValue::InternalLinkage);
        asking->addFnAttr(llvm::Attribute::NoInline);
        const uint64_t tiles = CpuTarget::feature_bit(made_.target.architecture(), "amx-tile");
        if (std::any_of(entry.variants.begin(), entry.variants.end(),
                        [&](const EntryVariant &w) { return w.features & tiles; }))
            ir_.CreateCall(hook("request_tiles", ir_.getInt32Ty(), {}));
        choose(entry, asking, ir_.CreateCall(hook("cpu_features", ir_.getInt64Ty(), {})));
        return asking;
    }

    // Calls the first variant that applies to a processor with the features `have`.
    void choose(const Entry &entry, llvm::Function *f, llvm::Value *have) {
        for (const EntryVariant &variant : entry.variants) {
            // Applies unconditionally, so nothing follows it.
            if (!variant.features && variant.equals.empty()) return take(variant, f);
            llvm::Value *open = ir_.getTrue();
            for (const auto &[parameter, value] : variant.equals)
                open = ir_.CreateAnd(open,
                                     ir_.CreateICmpEQ(f->getArg(unsigned(parameter)), ir_.getInt64(uint64_t(value))));
            if (variant.features) open = ir_.CreateAnd(open, has(have, variant.features));
            auto *taken = llvm::BasicBlock::Create(context_, "take", f),
                 *next = llvm::BasicBlock::Create(context_, "next", f);
            ir_.CreateCondBr(open, taken, next);
            ir_.SetInsertPoint(taken);
            take(variant, f);
            ir_.SetInsertPoint(next);
        }
        llvm::Function *require = hook("require_features", ir_.getInt32Ty(), {ir_.getInt64Ty(), ir_.getPtrTy()});
        llvm::Value *code = ir_.CreateCall(
            require, {ir_.getInt64(entry.variants.back().features), ir_.CreateGlobalStringPtr(entry.name)});
        ir_.CreateRet(entry.counts ? ir_.getInt64(uint64_t(-1)) : code);
    }

    static std::vector<llvm::Value *> arguments_of(llvm::Function *f) {
        std::vector<llvm::Value *> all;
        for (llvm::Argument &a : f->args()) all.push_back(&a);
        return all;
    }

    llvm::Value *has(llvm::Value *have, uint64_t features) {
        return ir_.CreateICmpEQ(ir_.CreateAnd(have, ir_.getInt64(features)), ir_.getInt64(features));
    }

    llvm::Type *type_of(const EntryParameter &p) { return p.pointer ? (llvm::Type *)ir_.getPtrTy() : ir_.getInt64Ty(); }

    llvm::Function *begin(const std::string &name, llvm::Type *result, const std::vector<llvm::Type *> &types) {
        if (module_.getFunction(name) && !module_.getFunction(name)->empty())
            throw UserError("two functions are named " + name);
        auto *f = llvm::cast<llvm::Function>(
            module_.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false)).getCallee());
        made_.set_attributes(*f);
        ir_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", f));
        return f;
    }

    llvm::Function *hook(const std::string &name, llvm::Type *result, const std::vector<llvm::Type *> &types) {
        return llvm::cast<llvm::Function>(
            module_.getOrInsertFunction(prefix_ + "_" + name, llvm::FunctionType::get(result, types, false))
                .getCallee());
    }

    void take(const EntryVariant &variant, llvm::Function *f) {
        std::vector<llvm::Value *> arguments;
        std::vector<llvm::Type *> types;
        for (size_t a : variant.arguments) {
            arguments.push_back(f->getArg(unsigned(a)));
            types.push_back(arguments.back()->getType());
        }
        take(module_.getOrInsertFunction(variant.symbol, llvm::FunctionType::get(f->getReturnType(), types, false)),
             arguments);
    }
    void take(llvm::FunctionCallee callee, const std::vector<llvm::Value *> &arguments) {
        llvm::CallInst *call = ir_.CreateCall(callee, arguments);
        call->setTailCall();
        ir_.CreateRet(call);
    }

    void refuse_null(llvm::Function *f, unsigned argument, const std::string &text) {
        auto *bad = llvm::BasicBlock::Create(context_, "null", f),
             *good = llvm::BasicBlock::Create(context_, "given", f);
        ir_.CreateCondBr(ir_.CreateIsNull(f->getArg(argument)), bad, good);
        ir_.SetInsertPoint(bad);
        llvm::Function *fail = hook("fail", ir_.getInt32Ty(), {ir_.getInt32Ty(), ir_.getPtrTy()});
        ir_.CreateRet(ir_.CreateCall(fail, {ir_.getInt32(cpu::null_pointer), ir_.CreateGlobalStringPtr(text)}));
        ir_.SetInsertPoint(good);
    }

    void packed(const Entry &entry, llvm::Function *f) {
        if (entry.counts) return;
        llvm::Function *p = begin(entry.name + "_packed", ir_.getInt32Ty(), {ir_.getPtrTy(), ir_.getPtrTy()});
        unsigned tensors = 0, sizes = 0;
        for (const EntryParameter &parameter : entry.parameters) (parameter.pointer ? tensors : sizes)++;
        if (tensors) refuse_null(p, 0, entry.name + "_packed: the array of tensors is a null pointer");
        if (sizes) refuse_null(p, 1, entry.name + "_packed: the array of sizes is a null pointer");
        std::vector<llvm::Value *> arguments;
        tensors = sizes = 0;
        for (const EntryParameter &parameter : entry.parameters) {
            llvm::Type *t = type_of(parameter);
            llvm::Value *at = parameter.pointer ? ir_.CreateConstInBoundsGEP1_64(t, p->getArg(0), tensors++)
                                                : ir_.CreateConstInBoundsGEP1_64(t, p->getArg(1), sizes++);
            arguments.push_back(ir_.CreateLoad(t, at));
        }
        ir_.CreateRet(ir_.CreateCall(f, arguments));
    }
};

} // namespace

ObjectFile compile_entries(const std::vector<Entry> &entries, const CpuTarget &target,
                           const std::string &runtime_prefix) {
    cpu::BaselineModule made(target, "entries");
    EntryBuilder builder(made, runtime_prefix);
    for (const Entry &entry : entries) builder.add(entry);
    return made.emit();
}

} // namespace kumiko
