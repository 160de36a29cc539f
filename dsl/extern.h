// Stages that a C function computes, for what formulas do not say: sorting, the k greatest, tables of another library.
//
//   int sort_rows(void *const *arrays, const int64_t *extents, const int64_t *strides);
//   Tensor S = extern_stage("S", f32, {i, j}, {X}, {"sort_rows", sort_rows});
//   std::vector<Tensor> T = extern_stage({{"value", f32}, {"place", i32}}, {i, k}, {X}, {"top_rows", top_rows});
//
// The function is called once, with all that it takes computed and room for all that it makes. It returns 0, or a code that the kernel
// returns. Such a stage has no loops and stands at the root; what it takes is stored whole, with its axes in order.
#pragma once

#include "dsl/op.h"

namespace kumiko {

// `arrays`: first what the stage takes, then what it makes. The extents of all of them follow each
// other in `extents`, outermost axis first, and in `strides` the strides, in elements. Several
// threads may call it at once. The tuner calls it in another process (autotune/measurer.h).
using ExternCall = int(void *const *arrays, const int64_t *extents, const int64_t *strides);

struct ExternFunction {
    std::string symbol;         // how a library calls it, which has to be linked with it
    ExternCall *call = nullptr; // in this process; null: what this process has under the symbol
};

struct ExternResult {
    std::string name;
    Type type;
};

// Throws UserError for names that C does not take, and for tensors without an array: those of zero_padded and clamped.
Tensor extern_stage(const std::string &name, Type type, const std::vector<Axis> &axes, const std::vector<Tensor> &takes,
                    const ExternFunction &function, std::source_location where = std::source_location::current());
// Several results over the same axes, made by one call of a stage "<first>.extern"; each is a tensor of its own.
std::vector<Tensor> extern_stage(const std::vector<ExternResult> &makes, const std::vector<Axis> &axes,
                                 const std::vector<Tensor> &takes, const ExternFunction &function,
                                 std::source_location where = std::source_location::current());

// ---- how it stands in a stage

// The call that is the value of an extern stage; null for other stages.
const Halide::Internal::Call *extern_call(const Stage &stage);
inline bool is_extern(const Stage &stage) { return extern_call(stage) != nullptr; }
bool has_extern(const Op &op);

ExternFunction extern_function(const Halide::Internal::Call *call);
std::vector<std::string> extern_takes(const Stage &stage);  // the tensors, in order
std::vector<ExternResult> extern_makes(const Stage &stage); // the same
ExternCall *extern_address(const ExternFunction &function); // in this process; throws UserError when it is not there

// What Op needs of one that is not in a stage yet.
inline constexpr const char *extern_name = "kumiko.extern";
inline bool is_extern(const Halide::Internal::Call *call) { return call && call->name == extern_name; }

} // namespace kumiko
