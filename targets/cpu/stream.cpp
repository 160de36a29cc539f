// Outputs written with non-temporal stores. Such a store needs an address that is a multiple of its
// size, which depends on the caller's pointer, so the body is emitted twice: with non-temporal
// stores and without.
#include "targets/cpu/codegen.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace kumiko::cpu {

namespace {

constexpr unsigned line = 64; // bytes: alignment required of a streamed output

} // namespace

// Other threads see non-temporal stores only after a fence.
void Statements::fence_streams() {
    if (streaming_ && options_.target.architecture() == "x86_64")
        ir_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

void Codegen::body(const Nest &nest) {
    Value *aligned = nullptr;
    for (const TensorArgument &t : nest.tensors) {
        if (!t.streamed) continue;
        Value *address = ir_.CreatePtrToInt(arrays_.find(t.name)->pointer, ir_.getInt64Ty());
        Value *begins = ir_.CreateICmpEQ(ir_.CreateAnd(address, i64(line - 1)), i64(0));
        aligned = aligned ? ir_.CreateAnd(aligned, begins) : begins;
    }
    if (!aligned) return statement(nest.body);
    llvm::BasicBlock *streams = block("streams"), *stores = block("stores"), *done = block("done");
    ir_.CreateCondBr(aligned, streams, stores);
    ir_.SetInsertPoint(streams);
    {
        std::vector<std::unique_ptr<Halide::Internal::ScopedBinding<Array>>> arrays;
        for (const TensorArgument &t : nest.tensors) {
            if (!t.streamed) continue;
            Array array = *arrays_.find(t.name);
            array.alignment = line;
            array.streamed = true;
            arrays.push_back(std::make_unique<Halide::Internal::ScopedBinding<Array>>(arrays_, t.name, array));
        }
        streaming_ = true;
        non_temporal_.clear();
        statement(nest.body);
        fence_streams();
        streaming_ = false;
    }
    ir_.CreateBr(done);
    ir_.SetInsertPoint(stores);
    statement(nest.body);
    ir_.CreateBr(done);
    done->moveAfter(ir_.GetInsertBlock());
    ir_.SetInsertPoint(done);
    for (const TensorArgument &t : nest.tensors) {
        if (t.streamed && !non_temporal_.count(t.name))
            warnings.push_back(
                fmt::format("kernel {}: {} is stored through the caches: no store of it is a whole vector at a "
                            "provably aligned address",
                            kernel_, t.name));
    }
}

} // namespace kumiko::cpu
