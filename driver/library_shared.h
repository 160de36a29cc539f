// A library as a shared object, for programs that load it and for Python.
#pragma once

#include "driver/library_files.h"

namespace kumiko {

// C source with a function __tvm_ffi_<name> for each kernel, packing function and model, by the
// convention of TVM FFI. Arguments are arrays, which are used in place: the inputs, then the
// outputs. The sizes that are neither an extent nor a stride of an array follow. Types, axes,
// extents, strides, alignment, devices and overlaps are checked. Errors name the argument and what
// is legal.
//
// The function of a model is <model>_run, and of a single one also `run`. If the model has states,
// their memory is an array of <NAME>_STATE_BYTES bytes (u8) between the inputs and the outputs, and
// there are <model>_reset(state) and <model>_state_bytes(), of a single model also without prefix.
// Throws UserError if two functions have one name, Unsupported for an extent that C cannot compute.
std::string ffi_source(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels);

// Throw UserError for what no shared library can be made of: freestanding targets, models with
// weights in a file, and kernels that call a program's functions.
void require_shareable(const LibraryDescription &library, const CpuTarget &target);
void require_shareable(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels);

// The bytes of lib<name>.so: the archive with the functions above. `compiler`: a C compiler for the
// target, with arguments. Throws UserError with the compiler's output if it fails.
std::string shared_library(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels,
                           const std::string &archive, const std::string &header, const std::string &compiler);

} // namespace kumiko
