// Calls of users' functions (dsl/extern.h): tables of arrays, extents and strides on the stack, and
// the returned status.
#include "targets/cpu/expressions.h"
#include "targets/lower/extern_calls.h"

#include "support/error.h"

namespace kumiko::cpu {

using namespace Halide::Internal;

Value *Expressions::extern_call(const Call *op) {
    const ExternUse use = extern_use(op);
    std::vector<Value *> arrays, extents, strides;
    const int64_t count = op->args[3].as<IntImm>()->value;
    size_t at = 4;
    for (int64_t n = 0; n < count; n++) {
        const std::string &name = op->args[at++].as<StringImm>()->value;
        const Array *array = arrays_.find(name);
        if (!array || !array->pointer)
            throw InternalError("kernel " + kernel_ + ": stage " + use.stage + " needs the array " + name +
                                " in memory");
        arrays.push_back(array->pointer);
        const int64_t rank = op->args[at++].as<IntImm>()->value;
        for (auto *table : {&extents, &strides}) {
            for (int64_t d = 0; d < rank; d++) table->push_back(index(op->args[at++]));
        }
    }
    llvm::Type *pointer = llvm::PointerType::getUnqual(context_);
    const auto table = [&](const std::vector<Value *> &values, llvm::Type *element, const char *name) -> Value * {
        Value *slot = stack_slot(llvm::ArrayType::get(element, std::max<size_t>(values.size(), 1)), 8, name);
        for (size_t i = 0; i < values.size(); i++)
            ir_.CreateStore(values[i], ir_.CreateConstInBoundsGEP1_64(element, slot, i));
        return slot;
    };
    auto *type = llvm::FunctionType::get(ir_.getInt32Ty(), {pointer, pointer, pointer}, false);
    const llvm::Function *known = module->getFunction(use.symbol);
    if (known && (known->getFunctionType() != type || !known->isDeclaration()))
        throw UserError("stage " + use.stage + " calls the extern function \"" + use.symbol +
                        "\", but a kernel or a function of Kumiko's has that name; give one of them another");
    const llvm::FunctionCallee function = module->getOrInsertFunction(use.symbol, type);
    Value *code = ir_.CreateCall(function, {table(arrays, pointer, "extern.arrays"),
                                            table(extents, ir_.getInt64Ty(), "extern.extents"),
                                            table(strides, ir_.getInt64Ty(), "extern.strides")});
    fail_unless(ir_.CreateICmpEQ(code, ir_.getInt32(0)), code,
                fmt::format("{}: the extern function of stage {} failed", kernel_, use.stage));
    return code;
}

} // namespace kumiko::cpu
