// The meaning of a formula: it is evaluated directly, unscheduled, in the stated types, each reduction in row-major order
// of its axes. Every test compares with this.
//
// Arithmetic is Halide's. int32 and int64 overflow is an error; 8- and 16-bit and unsigned integers wrap. x / y and x % y of
// integers round so that the remainder is in [0, |y|) (down, for y > 0), and x / 0 = x % 0 = 0. Float to integer saturates
// and NaN gives 0; anything becomes bool by x != 0. max(a, b) is a > b ? a : b, min(a, b) is a < b ? a : b. f16 and bf16 are
// rounded after each operation. exp and the like are computed in double and rounded. A read outside a tensor is an error;
// select evaluates both sides, the helpers of dsl/tensor.h (zero_padded) only the one that is taken.
#pragma once

#include "dsl/buffers.h"

#include <set>
#include <string>
#include <vector>

namespace kumiko {

struct InterpretOptions {
    Sizes sizes = {};       // those that no buffer binds
    bool in_double = false; // evaluate every float in double; float outputs are f64 buffers
};

// One buffer per output. With a single output it is that buffer.
struct Results : std::vector<Buffer<>> {
    operator const Buffer<> &() const {
        if (size() != 1) throw UserError("the op has " + std::to_string(size()) + " outputs; pick one by its index");
        return front();
    }
    template<typename T>
    requires(!std::is_void_v<T>) operator Buffer<T>() const { return Buffer<T>(static_cast<const Buffer<> &>(*this)); }
};

// `buffers`: the inputs, which makes the outputs; or the inputs and the outputs, which are written. An inout tensor's new elements
// are written to its array in either case, but in double, where they too are of f64.
// Throws UserError when the buffers do not fit the op, and for arithmetic that has no result.
Results interpret(const Op &op, const std::vector<Buffer<>> &buffers, const InterpretOptions &options = {});

template<typename... T>
Results interpret(const Op &op, const Buffer<T> &...buffers) {
    return interpret(op, std::vector<Buffer<>>{Buffer<>(buffers)...});
}

// The outputs evaluated in double, and for each element a bound on how far a kernel that computes in the stated types may
// be off, whatever the order of its sums, with or without fused products, and with functions within 4 ulp. Both are f64
// buffers; the bound is inf where nothing can be promised (a comparison that the error may turn, an overflow).
// `exact`: tensors that the caller knows to be exact with these inputs; their bound is 0.
struct Bounded {
    Results values, bounds;
    // Extern stages that took rounded values: nothing is promised of their results.
    std::vector<std::string> unsure = {};
};
Bounded interpret_with_bound(const Op &op, const std::vector<Buffer<>> &inputs, const Sizes &sizes = {},
                             const std::set<std::string> &exact = {});

} // namespace kumiko
