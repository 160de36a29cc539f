// Calls a kernel that allocates its outputs.
#pragma once

#include "driver/kernel.h"

namespace kumiko {

// `inputs`: in the order of the op's. Returns the outputs. Throws UserError as Kernel::call.
inline std::vector<Buffer<>> run_kernel(const Kernel &kernel, const std::vector<Buffer<>> &inputs) {
    std::vector<Buffer<>> arrays = inputs, outputs;
    for (const std::string &name : kernel.op().outputs()) {
        outputs.push_back(make_output(kernel.op(), name, {}));
        arrays.push_back(outputs.back());
    }
    kernel(arrays);
    return outputs;
}

} // namespace kumiko
