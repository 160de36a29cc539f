// Test data for kernels: inputs, and the outputs that the interpreter computes from them.
#pragma once

#include "driver/library.h"

namespace kumiko {

struct CheckArrays {
    std::vector<Buffer<>> inputs, outputs; // in the op's order
    // If true, inputs are small integers, every schedule gives the same bits, and `bounds` is
    // empty. Otherwise outputs are in double, and bounds[i] holds the error bound of each element
    // of output i.
    bool exact = false;
    std::vector<Buffer<>> bounds;
    double seconds = 0; // time of the evaluation

    // Throws UserError with the first difference.
    void check(const std::vector<Buffer<>> &actual) const;
};

// Evaluates the formula with the interpreter, which is slow. Throws UserError if a symbolic size
// has no value.
CheckArrays make_check_arrays(const Op &op, const Sizes &sizes = {}, uint64_t seed = 1);

// Writes test data for programs in other languages: <folder>/<kernel>.<tensor>.bin for every input
// and output of every kernel, as raw elements in the tensor's type and layout. Symbolic sizes take
// the description's test sizes, otherwise 48. All files are written atomically.
void write_check_files(const LibraryDescription &library, const std::filesystem::path &folder,
                       const std::function<void(size_t done, size_t total, const std::string &kernel)> &progress = {});

} // namespace kumiko
