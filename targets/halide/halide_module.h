// Compiles kernels with Halide's own code generators: an independent check of ours, and a way to
// hardware and source languages that our generators do not cover.
//
// A nest is Halide IR already. This adapter expresses what Halide's generators expect differently:
// our math functions in terms of theirs, saturating casts from float to integer, strict floating
// point, and parallel loops as tasks.
#pragma once

#include "targets/lower/nest.h"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace kumiko {

struct HalideOptions {
    // Halide's name of the target ("x86-64-linux-avx2-fma", "arm-64-linux", "host"). Just-in-time
    // compilation requires "host".
    std::string target = "host";
};

// One kernel, compiled into this process.
class HalideModule {
public:
    // Throws Unsupported for anything that Halide's generator does not support.
    explicit HalideModule(const Nest &nest, const HalideOptions &options = {});

    // Like the packed form of our own kernels: pointers in the order of Nest::tensors, sizes in the
    // order of Nest::sizes. Returns 0, or a code of runtime/kumiko_runtime.h with its text in
    // kumiko_error(): null pointers, sizes out of range and failed assumptions are checked on
    // entry. Parallel loops use kumiko_num_threads() threads.
    int call(void *const *tensors, const int64_t *sizes) const;

private:
    struct Contents;
    std::shared_ptr<const Contents> contents_;
};

// The nest as C++ source text, self-contained except for Halide's runtime functions: int NAME(T0
// *t0, …, int32_t size0, …) with untyped pointers.
std::string halide_c_source(const Nest &nest, const HalideOptions &options = {});

// Writes an object file of the function above, including Halide's runtime, for any target that
// Halide knows. Throws UserError if Halide does not know the target or the file cannot be written.
void write_halide_object(const Nest &nest, const std::filesystem::path &file, const HalideOptions &options = {});

} // namespace kumiko
