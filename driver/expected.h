// Arrays on which a kernel can be checked: inputs, and what the formula makes of them.
#pragma once

#include "driver/library.h"

namespace kumiko {

struct CheckArrays {
    std::vector<Buffer<>> inputs, outputs; // in the op's order
    // With small integers as inputs every schedule computes the same bits, and `bounds` is empty. Else outputs are in double,
    // and bounds[i] says how far each element of a kernel's output i may be off.
    bool exact = false;
    std::vector<Buffer<>> bounds;
    double seconds = 0; // that evaluating took

    // Throws UserError with the first difference.
    void check(const std::vector<Buffer<>> &actual) const;
};

// Evaluates the formula, slowly. Throws UserError when a symbolic size has no value.
CheckArrays make_check_arrays(const Op &op, const Sizes &sizes = {}, uint64_t seed = 1);

// For programs in other languages: <folder>/<kernel>.<tensor>.bin for every input and output of every kernel, raw elements of
// the tensor's own type in its own layout. Symbolic sizes are the description's test sizes, else 48. Written atomically.
void write_check_files(const LibraryDescription &library, const std::filesystem::path &folder,
                       const std::function<void(size_t done, size_t total, const std::string &kernel)> &progress = {});

} // namespace kumiko
