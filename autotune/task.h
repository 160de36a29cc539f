// What a measurer needs to judge kernels of one op at one shape: inputs, and what the outputs must be. Made once a
// task, and kept in a memory file that the measurer maps.
#pragma once

#include "autotune/arrays.h"

namespace kumiko {

// Throws Unsupported if no measurer can call the extern functions of the op: without a symbol, or
// defined in this program, which does not act as a measurer (autotune/measurer.h). Throws UserError
// if one is not in this process.
void require_measurable(const Op &op);

class MeasureTask {
public:
    // Where the op's arithmetic allows (autotune/exact.h), inputs are small integers and outputs must have equal bits;
    // elsewhere inputs are uniform in [-1, 1) and each output element must lie within the bound that its arithmetic
    // implies. Where evaluating the op would take more than `longest` seconds, only a sample of elements is checked
    // (autotune/arrays.h). Throws as require_measurable and require_memory do, and UserError when the op cannot be evaluated on any of
    // the inputs tried.
    MeasureTask(const Op &op, const Sizes &sizes, uint64_t seed = 1, double longest = longest_reference);
    ~MeasureTask();
    MeasureTask(const MeasureTask &) = delete;
    MeasureTask &operator=(const MeasureTask &) = delete;

    bool exact() const { return exact_; }
    int64_t sampled() const { return sampled_; } // elements that are checked, 0: all
    // A memory file in the form of autotune/measurer/protocol.h.
    int descriptor() const { return descriptor_; }
    size_t bytes() const { return bytes_; } // that a measurer needs for it: the file, and arrays of its own
    bool calls_functions() const { return calls_functions_; } // extern stages (dsl/extern.h)
    bool calls_this_program() const { return calls_this_program_; }
    double reference_seconds() const { return reference_seconds_; }

private:
    bool exact_ = false, calls_functions_ = false, calls_this_program_ = false;
    int64_t sampled_ = 0;
    int descriptor_ = -1;
    size_t bytes_ = 0;
    double reference_seconds_ = 0;
};

} // namespace kumiko
