// Stages computed by a C function, for algorithms that formulas cannot express: sorting, top-k,
// another library's tables.
//
//   int sort_rows(void *const *arrays, const int64_t *extents, const int64_t *strides);
//   Tensor S = extern_stage("S", f32, {i, j}, {X}, {"sort_rows", sort_rows});
//   std::vector<Tensor> T =
//       extern_stage({{"value", f32}, {"place", i32}}, {i, k}, {X}, {"top_rows", top_rows});
//
// The function is called once, after its inputs are computed and its outputs are allocated. It
// returns 0, or an error code that the kernel returns. Such a stage has no loops and is computed at
// the root. Its inputs are stored whole, with their axes in order.
#pragma once

#include "dsl/op.h"

namespace kumiko {

// `arrays`: the inputs, then the outputs. `extents` and `strides` hold the values of all arrays one
// after the other, outermost axis first; strides are in elements. Several threads may call the
// function at once. The tuner calls it in another process (autotune/measurer.h).
using ExternCall = int(void *const *arrays, const int64_t *extents, const int64_t *strides);

// A C function: its symbol, and its address if it is known.
struct ExternFunction {
    std::string symbol;         // link name in generated libraries
    ExternCall *call = nullptr; // address in this process; null: look up `symbol`
};

// Name and element type of one result of an extern stage.
struct ExternResult {
    std::string name;
    Type type;
};

// Throws UserError for names that are not valid in C, and for tensors without an array
// (zero_padded, clamped).
Tensor extern_stage(const std::string &name, Type type, const std::vector<Axis> &axes, const std::vector<Tensor> &takes,
                    const ExternFunction &function, std::source_location where = std::source_location::current());
// Several results over the same axes, computed by one call in a stage "<first>.extern". Each result
// is a tensor of its own.
std::vector<Tensor> extern_stage(const std::vector<ExternResult> &makes, const std::vector<Axis> &axes,
                                 const std::vector<Tensor> &takes, const ExternFunction &function,
                                 std::source_location where = std::source_location::current());

// ---- representation in a stage

// The call that is the value of an extern stage; null for other stages.
const Halide::Internal::Call *extern_call(const Stage &stage);
inline bool is_extern(const Stage &stage) { return extern_call(stage) != nullptr; }
bool has_extern(const Op &op);

ExternFunction extern_function(const Halide::Internal::Call *call);
std::vector<std::string> extern_takes(const Stage &stage);  // the input tensors, in order
std::vector<ExternResult> extern_makes(const Stage &stage); // the results, in order
// Throws UserError if the symbol is not found in this process.
ExternCall *extern_address(const ExternFunction &function);

// Used by Op for an extern call that is not in a stage yet.
inline constexpr const char *extern_name = "kumiko.extern";
inline bool is_extern(const Halide::Internal::Call *call) { return call && call->name == extern_name; }

} // namespace kumiko
