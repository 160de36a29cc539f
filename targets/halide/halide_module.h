// Kernels through Halide's own code generators: a second opinion on ours, and the way to hardware and to source code that
// we do not generate for ourselves.
//
// A nest is Halide IR already. What is done here is to say what Halide's generators expect otherwise: our math functions in
// terms of theirs, casts from float to integer that saturate, floating point that is not relaxed, parallel loops as tasks.
#pragma once

#include "targets/lower/nest.h"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace kumiko {

struct HalideOptions {
    // Halide's name of the target ("x86-64-linux-avx2-fma", "arm-64-linux", "host"). Just-in-time compilation needs "host".
    std::string target = "host";
};

// One kernel, compiled into this process.
class HalideModule {
public:
    // Throws Unsupported for what Halide's generator does not take.
    explicit HalideModule(const Nest &nest, const HalideOptions &options = {});

    // As the packed form of our own kernels: pointers in the order of Nest::tensors, sizes in the order of Nest::sizes.
    // Returns 0, or a code of runtime/kumiko_runtime.h with its text in kumiko_error(): null pointers, sizes out of range and
    // assumptions that fail are found at the door. Parallel loops take as many threads as kumiko_num_threads() says.
    int call(void *const *tensors, const int64_t *sizes) const;

private:
    struct Contents;
    std::shared_ptr<const Contents> contents_;
};

// The nest as C++ source text, self-contained but for Halide's runtime functions: int NAME(T0 *t0, …, int32_t size0, …) with
// untyped pointers.
std::string halide_c_source(const Nest &nest, const HalideOptions &options = {});

// An object file of the function above, for any target that Halide knows, with Halide's runtime in it. Throws UserError when the
// target's name is not one of Halide's or the file cannot be written.
void write_halide_object(const Nest &nest, const std::filesystem::path &file, const HalideOptions &options = {});

} // namespace kumiko
