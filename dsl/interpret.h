// Reference semantics: evaluates a formula directly, unscheduled, in the declared types, each
// reduction in row-major order of its axes. All tests compare with this.
//
// Arithmetic is Halide's. Overflow of int32 and int64 is an error; 8- and 16-bit and unsigned
// integers wrap. Integer x / y and x % y round so that the remainder is in [0, |y|) (down, for y >
// 0); x / 0 = x % 0 = 0. Float to integer saturates, and NaN gives 0. Any type converts to bool as
// x != 0. max(a, b) is a > b ? a : b, min(a, b) is a < b ? a : b. f16 and bf16 are rounded after
// each operation. exp and similar functions are computed in double and rounded once. A read outside
// a tensor is an error. select evaluates both values; the padding helpers (zero_padded,
// dsl/tensor.h) evaluate only the selected one.
#pragma once

#include "dsl/buffers.h"

#include <set>
#include <string>
#include <vector>

namespace kumiko {

// Options of interpret().
struct InterpretOptions {
    Sizes sizes = {};       // sizes that no buffer binds
    bool in_double = false; // evaluate every float in double; float outputs are f64 buffers
};

// One buffer per output. Converts to the buffer if there is one output.
struct Results : std::vector<Buffer<>> {
    operator const Buffer<> &() const {
        if (size() != 1) throw UserError("the op has " + std::to_string(size()) + " outputs; pick one by its index");
        return front();
    }
    template<typename T>
    requires(!std::is_void_v<T>) operator Buffer<T>() const { return Buffer<T>(static_cast<const Buffer<> &>(*this)); }
};

// `buffers`: the inputs alone, and outputs are allocated; or inputs and outputs, and outputs are
// overwritten. The new elements of an inout tensor are written to its array in both cases, except
// with in_double, which returns them in f64 buffers.
// Throws UserError if the buffers do not fit the op or an arithmetic result is undefined.
Results interpret(const Op &op, const std::vector<Buffer<>> &buffers, const InterpretOptions &options = {});

template<typename... T>
Results interpret(const Op &op, const Buffer<T> &...buffers) {
    return interpret(op, std::vector<Buffer<>>{Buffer<>(buffers)...});
}

// Evaluates the outputs in double, with an error bound per element: the largest error of a kernel
// that computes in the declared types, in any summation order, with or without FMA contraction, and
// with functions accurate to 4 ulp. Both are f64 buffers. The bound is inf if it cannot be computed
// (a comparison that the error can flip, an overflow).
// `exact`: tensors that the caller knows to be exact for these inputs; their bound is 0.
struct Bounded {
    Results values, bounds;
    // Extern stages that received rounded inputs. The bounds of their results are inf.
    std::vector<std::string> unsure = {};
};
Bounded interpret_with_bound(const Op &op, const std::vector<Buffer<>> &inputs, const Sizes &sizes = {},
                             const std::set<std::string> &exact = {});

} // namespace kumiko
