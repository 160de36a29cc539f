// The data that a measurer needs for kernels of one op at one shape: inputs and expected outputs.
// Built once per task, and stored in a memory file that the measurer maps.
#pragma once

#include "autotune/arrays.h"

namespace kumiko {

// Throws Unsupported if a measurer cannot call the op's extern functions: they have no symbol, or
// are defined in this program and it does not act as a measurer (autotune/measurer.h). Throws
// UserError if one is not in this process.
void require_measurable(const Op &op);

class MeasureTask {
public:
    // If the op's arithmetic allows it (autotune/exact.h), inputs are small integers and outputs
    // must be equal bit for bit. Otherwise inputs are uniform in [-1, 1), and each output element
    // must be within its error bound. If evaluating the op would take more than `longest` seconds,
    // only a sample of elements is checked (autotune/arrays.h). Throws as require_measurable and
    // require_memory do, and UserError if the op cannot be evaluated on any of the inputs tried.
    MeasureTask(const Op &op, const Sizes &sizes, uint64_t seed = 1, double longest = longest_reference);
    ~MeasureTask();
    MeasureTask(const MeasureTask &) = delete;
    MeasureTask &operator=(const MeasureTask &) = delete;

    bool exact() const { return exact_; }
    int64_t sampled() const { return sampled_; } // number of checked elements; 0: all
    // The memory file, in the format of autotune/measurer/protocol.h.
    int descriptor() const { return descriptor_; }
    // Memory needed by a measurer: the file, and its own arrays.
    size_t bytes() const { return bytes_; }
    bool calls_functions() const { return calls_functions_; } // has extern stages (dsl/extern.h)
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
