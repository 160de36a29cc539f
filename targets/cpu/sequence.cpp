#include "targets/cpu/sequence.h"

#include "runtime/kumiko_runtime.h"
#include "targets/cpu/baseline_module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <llvm/IR/IRBuilder.h>
#include <map>

namespace kumiko {

namespace {

class SequenceBuilder {
public:
    SequenceBuilder(cpu::BaselineModule &made, const Sequence &sequence, std::string prefix)
        : context_(made.context), module_(made.module), sequence_(sequence), prefix_(std::move(prefix)), ir_(context_) {
        auto *type = llvm::FunctionType::get(ir_.getInt32Ty(), {ir_.getPtrTy(), ir_.getPtrTy(), ir_.getPtrTy()}, false);
        function_ =
            llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                   sequence.name + (sequence.target.empty() ? "" : "." + sequence.target), module_);
        if (!sequence.target.empty()) function_->setVisibility(llvm::GlobalValue::HiddenVisibility);
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
        if (sequence_.sizes)
            read_sizes(sequence_.name, tensors_.at(sequence_.sizes->tensor), ir_.getInt32(KUMIKO_BAD_SIZE));
        hooked_ = ir_.CreateIsNotNull(function_->getArg(2));
        begin_numbers();
        add(sequence_.steps);
        ir_.CreateRet(ir_.getInt32(0));
    }

    // After run().
    void add_reset(cpu::BaselineModule &made) {
        auto *type = llvm::FunctionType::get(ir_.getVoidTy(), {ir_.getPtrTy()}, false);
        function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, sequence_.reset->name, module_);
        made.set_attributes(*function_);
        ir_.SetInsertPoint(block("entry"));
        ir_.CreateMemSet(function_->getArg(0), ir_.getInt8(0), static_cast<uint64_t>(sequence_.reset->bytes),
                         llvm::MaybeAlign(1));
        ir_.CreateRetVoid();
    }

    // After run().
    void add_arena_bytes(cpu::BaselineModule &made) {
        auto *type = llvm::FunctionType::get(ir_.getInt64Ty(), {ir_.getPtrTy()}, false);
        function_ = llvm::Function::Create(
            type, llvm::GlobalValue::ExternalLinkage,
            sequence_.sizes->arena_bytes + (sequence_.target.empty() ? "" : "." + sequence_.target), module_);
        if (!sequence_.target.empty()) function_->setVisibility(llvm::GlobalValue::HiddenVisibility);
        made.set_attributes(*function_);
        ir_.SetInsertPoint(block("entry"));
        refuse_null(function_->getArg(0), "the list of sizes", ir_.getInt64(uint64_t(-1)));
        read_sizes(sequence_.sizes->arena_bytes, function_->getArg(0), ir_.getInt64(uint64_t(-1)));
        begin_numbers();
        llvm::Value *most = ir_.getInt64(0);
        for (size_t b = 0; b < sequence_.sizes->blocks.size(); b++)
            most = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, most, end_of_block(b));
        ir_.CreateRet(most);
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

    // Steps are numbered before those of their lists.
    void add(const std::vector<SequenceStep> &steps) {
        for (const SequenceStep &step : steps) {
            llvm::Constant *described = describe(step, steps_++);
            call_hooks("begin_step", [&] { return std::vector<llvm::Value *>{described}; });
            add(step);
            call_hooks("end_step", [&] {
                return std::vector<llvm::Value *>{described, describe(step.made), ir_.getInt64(step.made.size()),
                                                  function_->getArg(0), function_->getArg(1)};
            });
        }
    }

    // Loads the sizes and refuses those that are not legal.
    void read_sizes(const std::string &function, llvm::Value *array, llvm::Value *failure) {
        variables_.clear();
        for (const SequenceSize &s : sequence_.sizes->all) {
            llvm::Value *size = ir_.CreateAlignedLoad(
                ir_.getInt64Ty(), ir_.CreateConstInBoundsGEP1_64(ir_.getInt64Ty(), array, variables_.size()),
                llvm::Align(8));
            llvm::BasicBlock *bad = block("bad"), *next = block("next"), *good = block("good");
            llvm::Value *above = ir_.CreateSub(size, ir_.getInt64(uint64_t(s.least))),
                        *step = ir_.getInt64(uint64_t(s.step));
            ir_.CreateCondBr(ir_.CreateICmpULE(above, ir_.getInt64(uint64_t(s.most - s.least))), next, bad);
            ir_.SetInsertPoint(next);
            ir_.CreateCondBr(ir_.CreateICmpEQ(ir_.CreateURem(above, step), ir_.getInt64(0)), good, bad);
            ir_.SetInsertPoint(bad);
            const std::string steps = s.step == 1 ? "" : fmt::format(" in steps of {}", s.step);
            call("fail", ir_.getInt32Ty(),
                 {ir_.getInt32(KUMIKO_BAD_SIZE),
                  text(fmt::format("{}: the size {} is out of range; legal are {} to {}{}", function, s.name, s.least,
                                   s.most, steps))});
            ir_.CreateRet(failure);
            ir_.SetInsertPoint(good);
            variables_.push_back(ir_.CreateUDiv(size, step));
        }
    }

    // Numbers that follow from sizes are computed before the first step, once each.
    void begin_numbers() {
        numbers_.clear(), offsets_.clear();
        llvm::BasicBlock *steps = block("steps");
        before_steps_ = ir_.CreateBr(steps);
        ir_.SetInsertPoint(steps);
    }

    llvm::Value *number(const Polynomial &p) {
        if (const auto constant = p.constant()) return ir_.getInt64(uint64_t(*constant));
        llvm::Value *&made = numbers_[p.terms()];
        if (made) return made;
        llvm::IRBuilder<> ir(before_steps_);
        for (const auto &[exponents, coefficient] : p.terms()) {
            llvm::Value *term = ir.getInt64(uint64_t(coefficient));
            for (size_t v = 0; v < exponents.size(); v++) {
                for (int n = 0; n < exponents[v]; n++) term = ir.CreateMul(term, variables_.at(v));
            }
            made = made ? ir.CreateAdd(made, term) : term;
        }
        return made;
    }

    // Bytes from the arena's begin to that of a block.
    llvm::Value *begin_of_block(size_t b) {
        const auto known = offsets_.find(b);
        if (known != offsets_.end()) return known->second;
        llvm::Value *most = ir_.getInt64(0);
        for (const size_t below : sequence_.sizes->blocks.at(b).below) {
            llvm::Value *end = end_of_block(below);
            llvm::IRBuilder<> ir(before_steps_);
            most = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, most, end);
        }
        return offsets_[b] = most;
    }

    // The multiple of 64 bytes at or after its end.
    llvm::Value *end_of_block(size_t b) {
        llvm::Value *begin = begin_of_block(b), *bytes = number(sequence_.sizes->blocks.at(b).bytes + 63);
        llvm::IRBuilder<> ir(before_steps_);
        return ir.CreateAdd(begin, ir.CreateAnd(bytes, ir.getInt64(~uint64_t(63))));
    }

    void refuse_null(llvm::Value *pointer, const std::string &what, llvm::Value *failure = nullptr) {
        llvm::BasicBlock *bad = block("null"), *good = block("given");
        ir_.CreateCondBr(ir_.CreateIsNull(pointer), bad, good);
        ir_.SetInsertPoint(bad);
        const auto fail =
            module_.getOrInsertFunction(prefix_ + "_fail", ir_.getInt32Ty(), ir_.getInt32Ty(), ir_.getPtrTy());
        llvm::Value *code =
            ir_.CreateCall(fail, {ir_.getInt32(cpu::null_pointer),
                                  ir_.CreateGlobalStringPtr(sequence_.name + ": " + what + " is a null pointer")});
        ir_.CreateRet(failure ? failure : code);
        ir_.SetInsertPoint(good);
    }

    llvm::Value *address(const SequencePointer &p) {
        llvm::Value *base = function_->getArg(1);
        Polynomial offset = p.offset;
        if (p.base == SequencePointer::Base::Tensor)
            base = tensors_.at(p.tensor);
        else if (p.base == SequencePointer::Base::Data && sequence_.weights) {
            base = tensors_.at(sequence_.weights->tensor);
            offset = offset + KUMIKO_WEIGHTS_HEADER;
        } else if (p.base == SequencePointer::Base::Data) {
            auto *data = llvm::cast<llvm::GlobalVariable>(module_.getOrInsertGlobal(sequence_.data, ir_.getInt8Ty()));
            data->setVisibility(llvm::GlobalValue::HiddenVisibility);
            base = data;
        }
        if (p.block >= 0) base = ir_.CreateInBoundsGEP(ir_.getInt8Ty(), base, begin_of_block(size_t(p.block)));
        if (offset != 0) base = ir_.CreateInBoundsGEP(ir_.getInt8Ty(), base, number(offset));
        if (p.stride == 0) return base;
        llvm::Value *step = ir_.CreateLoad(ir_.getInt64Ty(), counters_.at(size_t(p.loop)));
        return ir_.CreateInBoundsGEP(ir_.getInt8Ty(), base, ir_.CreateMul(step, number(p.stride)));
    }

    llvm::Constant *text(const std::string &t) { return ir_.CreateGlobalStringPtr(t); }

    llvm::Constant *constant(llvm::Constant *value, const char *name) {
        return new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage, value,
                                        name);
    }

    // Memory of the run.
    llvm::Value *on_stack(llvm::Type *type, size_t count) {
        llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
        return entry.CreateAlloca(type, entry.getInt32(uint32_t(count)));
    }

    // An array of int64_t.
    llvm::Value *numbers(const std::vector<Polynomial> &values, const char *name) {
        std::vector<uint64_t> constants;
        for (const Polynomial &p : values) {
            if (const auto c = p.constant()) constants.push_back(uint64_t(*c));
        }
        if (constants.size() == values.size())
            return constant(llvm::ConstantDataArray::get(context_, llvm::ArrayRef<uint64_t>(constants)), name);
        llvm::Value *array = on_stack(ir_.getInt64Ty(), values.size());
        for (size_t n = 0; n < values.size(); n++)
            ir_.CreateStore(number(values[n]), ir_.CreateConstInBoundsGEP1_64(ir_.getInt64Ty(), array, n));
        return array;
    }

    // A kumiko_step.
    llvm::Constant *describe(const SequenceStep &step, int64_t index) {
        return constant(llvm::ConstantStruct::getAnon({ir_.getInt64(uint64_t(index)),
                                                       text(fmt::format("{}", fmt::join(step.nodes, ", "))),
                                                       text(fmt::format("{}", fmt::join(step.operators, " ")))}),
                        "step");
    }

    // An array of kumiko_stored_tensor.
    llvm::Value *describe(const std::vector<SequenceTensor> &made) {
        if (made.empty()) return llvm::ConstantPointerNull::get(ir_.getPtrTy());
        std::vector<std::vector<llvm::Value *>> fields;
        bool constants = true;
        for (const SequenceTensor &t : made) {
            const bool in_array = t.place.base == SequencePointer::Base::Tensor;
            llvm::Value *offset = number(t.place.offset);
            if (t.place.block >= 0) offset = ir_.CreateAdd(offset, begin_of_block(size_t(t.place.block)));
            fields.push_back({text(t.name), text(t.type), ir_.getInt64(t.extents.size()), numbers(t.extents, "extents"),
                              llvm::ConstantPointerNull::get(ir_.getPtrTy()),
                              ir_.getInt64(in_array ? t.place.tensor : uint64_t(-1)), offset});
            for (const llvm::Value *v : fields.back()) constants = constants && llvm::isa<llvm::Constant>(v);
        }
        std::vector<llvm::Type *> types;
        for (const llvm::Value *v : fields[0]) types.push_back(v->getType());
        auto *type = llvm::StructType::get(context_, types);
        if (!constants) {
            llvm::Value *array = on_stack(type, made.size());
            for (size_t n = 0; n < fields.size(); n++) {
                llvm::Value *one = ir_.CreateConstInBoundsGEP1_64(type, array, n);
                for (unsigned f = 0; f < fields[n].size(); f++)
                    ir_.CreateStore(fields[n][f], ir_.CreateStructGEP(type, one, f));
            }
            return array;
        }
        std::vector<llvm::Constant *> all;
        for (const auto &one : fields) {
            std::vector<llvm::Constant *> of_one;
            for (llvm::Value *v : one) of_one.push_back(llvm::cast<llvm::Constant>(v));
            all.push_back(llvm::ConstantStruct::get(type, of_one));
        }
        return constant(llvm::ConstantArray::get(llvm::ArrayType::get(type, all.size()), all), "made");
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
    void call_hooks(const char *name, const std::function<std::vector<llvm::Value *>()> &given) {
        llvm::BasicBlock *call = block(name), *next = block("next");
        ir_.CreateCondBr(hooked_, call, next);
        ir_.SetInsertPoint(call);
        std::vector<llvm::Value *> arguments = given();
        arguments.insert(arguments.begin(), function_->getArg(2));
        this->call(name, ir_.getVoidTy(), arguments);
        ir_.CreateBr(next);
        ir_.SetInsertPoint(next);
    }

    void add_branch(const SequenceStep &step) {
        llvm::BasicBlock *then = block("then"), *otherwise = block("else"), *end = block("end");
        ir_.CreateCondBr(is_true(step.arguments.at(0)), then, otherwise);
        for (const auto &[at, list] : {std::pair(then, 0), std::pair(otherwise, 1)}) {
            ir_.SetInsertPoint(at);
            add(step.lists.at(size_t(list)));
            ir_.CreateBr(end);
        }
        ir_.SetInsertPoint(end);
    }

    llvm::Value *is_true(const SequencePointer &p) {
        return ir_.CreateICmpNE(ir_.CreateLoad(ir_.getInt8Ty(), address(p)), ir_.getInt8(0));
    }

    void add_loop(const SequenceStep &step) {
        const SequenceLoop &loop = *step.loop;
        while (counters_.size() <= size_t(loop.depth)) {
            llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
            counters_.push_back(entry.CreateAlloca(ir_.getInt64Ty()));
        }
        llvm::Value *counter = counters_[size_t(loop.depth)];
        add(step.lists.at(0));
        const bool open = loop.trips == -1;
        llvm::Value *count = open ? ir_.getInt64(uint64_t(INT64_MAX)) : number(loop.trips);
        if (loop.count) count = ir_.CreateAlignedLoad(ir_.getInt64Ty(), address(*loop.count), llvm::Align(1));
        ir_.CreateStore(ir_.getInt64(0), counter);
        llvm::BasicBlock *head = block("head"), *run = block("iteration"), *end = block("end");
        ir_.CreateCondBr(loop.condition ? is_true(*loop.condition) : ir_.getTrue(), head, end);
        ir_.SetInsertPoint(head);
        llvm::Value *number = ir_.CreateLoad(ir_.getInt64Ty(), counter);
        ir_.CreateCondBr(ir_.CreateICmpSLT(number, count), run, end);
        ir_.SetInsertPoint(run);
        if (open) {
            llvm::BasicBlock *bad = block("bad"), *good = block("good");
            ir_.CreateCondBr(ir_.CreateICmpSGE(number, ir_.getInt64(uint64_t(loop.most))), bad, good);
            ir_.SetInsertPoint(bad);
            ir_.CreateRet(call("fail", ir_.getInt32Ty(), {ir_.getInt32(KUMIKO_BAD_COUNT), text(loop.text)}));
            ir_.SetInsertPoint(good);
        }
        if (loop.number) ir_.CreateStore(number, address(*loop.number));
        add(step.lists.at(1));
        llvm::Value *again = loop.again ? is_true(*loop.again) : ir_.getTrue();
        ir_.CreateStore(ir_.CreateAdd(ir_.CreateLoad(ir_.getInt64Ty(), counter), ir_.getInt64(1)), counter);
        ir_.CreateCondBr(again, head, end);
        ir_.SetInsertPoint(end);
        if (loop.size) ir_.CreateStore(ir_.CreateLoad(ir_.getInt64Ty(), counter), address(*loop.size));
    }

    void add(const SequenceStep &step) {
        if (!step.lists.empty()) {
            step.loop ? add_loop(step) : add_branch(step);
            return;
        }
        std::vector<llvm::Value *> arguments;
        for (const SequencePointer &p : step.arguments) arguments.push_back(address(p));
        if (step.check) {
            check(*step.check, arguments.at(0));
            return;
        }
        if (step.selection) {
            select(step, arguments);
            return;
        }
        if (step.symbol.empty()) {
            ir_.CreateMemCpy(arguments.at(1), llvm::MaybeAlign(1), arguments.at(0), llvm::MaybeAlign(1),
                             number(step.bytes));
            return;
        }
        for (const size_t v : step.sizes) arguments.push_back(variables_.at(v));
        arguments.push_back(workspace_of(step));
        arguments.push_back(function_->getArg(2));
        std::vector<llvm::Type *> types;
        for (const llvm::Value *v : arguments) types.push_back(v->getType());
        const auto callee =
            module_.getOrInsertFunction(step.symbol, llvm::FunctionType::get(ir_.getInt32Ty(), types, false));
        return_failure(ir_.CreateCall(callee, arguments));
    }

    void select(const SequenceStep &step, const std::vector<llvm::Value *> &arguments) {
        llvm::Value *arrays = on_stack(ir_.getPtrTy(), arguments.size());
        for (size_t n = 0; n < arguments.size(); n++)
            ir_.CreateStore(arguments[n], ir_.CreateConstInBoundsGEP1_64(ir_.getPtrTy(), arrays, n));
        return_failure(call("select_" + step.selection->function, ir_.getInt32Ty(),
                            {arrays, numbers(step.selection->parameters, "parameters"), workspace_of(step)}));
    }

    llvm::Value *workspace_of(const SequenceStep &step) {
        return step.workspace ? address(*step.workspace) : llvm::ConstantPointerNull::get(ir_.getPtrTy());
    }

    void check(const SequenceCheck &c, llvm::Value *indices) {
        llvm::Value *extents = numbers(c.extents, "extents");
        const auto callee =
            module_.getOrInsertFunction(prefix_ + "_check_indices", ir_.getInt32Ty(), ir_.getPtrTy(), ir_.getInt32Ty(),
                                        ir_.getInt64Ty(), ir_.getPtrTy(), ir_.getInt64Ty(), ir_.getPtrTy());
        return_failure(ir_.CreateCall(callee, {indices, ir_.getInt32(uint32_t(c.bits)), number(c.count), extents,
                                               ir_.getInt64(c.extents.size()), text(c.text)}));
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
    std::vector<llvm::Value *> counters_;  // of loops, by depth
    std::vector<llvm::Value *> variables_; // that follow from the sizes
    // Numbers are computed before this instruction, once each.
    llvm::Instruction *before_steps_ = nullptr;
    using Terms = std::map<std::vector<int>, int64_t>; // Polynomial::terms
    std::map<Terms, llvm::Value *> numbers_;
    std::map<size_t, llvm::Value *> offsets_; // of blocks
    int64_t steps_ = 0;
};

} // namespace

ObjectFile compile_sequence(const Sequence &sequence, const CpuTarget &target, const std::string &runtime_prefix) {
    cpu::BaselineModule made(target, sequence.name);
    SequenceBuilder builder(made, sequence, runtime_prefix);
    builder.run();
    if (sequence.sizes) builder.add_arena_bytes(made);
    if (sequence.reset) builder.add_reset(made);
    if (sequence.weights && !sequence.weights->check.empty()) builder.add_check_of_weights(made);
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
