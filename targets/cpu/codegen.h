// Private to targets/cpu: from a Nest to LLVM IR.
//
// A Codegen fills one llvm::Module with the kernels given to add(). Values keep Halide's semantics;
// targets/cpu/README.md says how each case is implemented.
//
// The generator is divided into layers. Each derives from the one that it uses and knows none above
// it, and shows the ones above only what they need:
//   Codegen          the C entry of a kernel and its checks
//   Statements       loops, tasks, allocations, stores, products of tiles
//   Expressions      values of expressions, loads, calls
//   Accesses         loads and stores at addresses that are computed
//   MathFunctions    exp, erf, sin, …
//   Arithmetic       divisions and casts
//   Vectors          types, constants and lanes
//   FunctionBuilder  the module, the function and its exits
#pragma once

#include "targets/cpu/statements.h"
#include "targets/lower/nest.h"

namespace kumiko::cpu {

// The code generator of one module.
class Codegen : private Statements {
public:
    Codegen(llvm::LLVMContext &context, const CodegenOptions &options, const std::string &module_name)
        : Statements(context, options, module_name) {}

    using FunctionBuilder::module;
    using FunctionBuilder::warnings;

    // Adds the functions NAME and NAME_packed. Throws Unsupported for an unknown node or call.
    void add(const Nest &nest);

private:
    // The body, twice if outputs may be streamed: with non-temporal stores and without
    // (stream.cpp).
    void body(const Nest &nest);
    // One alias scope for each array.
    void declare_scopes(const Nest &nest);
    // The entry checks of options.h.
    void check_arguments(const Nest &nest);
    // Checks that products of sizes fit the 32 bits in which loops count.
    void check_totals(const Nest &nest);
    // Checks that the elements of an output are distinct.
    void check_strides(const Nest &nest);
    // Checks that outputs overlap no other tensor.
    void check_overlap(const Nest &nest);
    // Whether two matrices are disjoint column ranges of one larger matrix.
    Value *columns_apart(const TensorArgument &a, Value *a_begin, const TensorArgument &b, Value *b_begin);
    // NAME_elements, for a kernel that pre-packs.
    void elements_function(const Nest &nest);
    // NAME_packed.
    void packed_entry(const Nest &nest, llvm::Function *kernel);
    // Throws UserError if the target lacks a feature of the instruction.
    void check_instruction(const std::string &name) const;
};

} // namespace kumiko::cpu
