// What a measurer needs to judge kernels of one op at one shape: inputs, and what the outputs must be. Made once a
// task, and kept in a memory file that the measurer maps.
#pragma once

#include "dsl/buffers.h"

namespace kumiko {

class MeasureTask {
public:
    // Where the op's arithmetic allows (autotune/exact.h), inputs are small integers and outputs must have equal bits;
    // elsewhere inputs are uniform in [-1, 1) and each output element must lie within the bound that its arithmetic
    // implies. Throws UserError when the op cannot be evaluated on any of the inputs tried.
    MeasureTask(const Op &op, const Sizes &sizes, uint64_t seed = 1);
    ~MeasureTask();
    MeasureTask(const MeasureTask &) = delete;
    MeasureTask &operator=(const MeasureTask &) = delete;

    bool exact() const { return exact_; }
    // A memory file in the form of autotune/measurer/protocol.h.
    int descriptor() const { return descriptor_; }
    double reference_seconds() const { return reference_seconds_; }

private:
    bool exact_ = false;
    int descriptor_ = -1;
    double reference_seconds_ = 0;
};

} // namespace kumiko
