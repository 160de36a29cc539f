// The texts that go into a library's folder beside the archive. Each is a function of its arguments alone.
#pragma once

#include "driver/library.h"
#include "targets/lower/nest.h"

namespace kumiko {

// A kernel that has been compiled for a library.
struct PackagedKernel {
    const LibraryKernel *kernel = nullptr;
    Nest nest; // named by its symbol; nest.packs likewise
    ChosenSchedule schedule;
};

std::string library_header(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels);
std::string library_cmake(const LibraryDescription &library);
std::string library_cmake_version(const LibraryDescription &library);
std::string library_pkg_config(const LibraryDescription &library);
Json library_manifest(const LibraryDescription &library, const Target &target,
                      const std::vector<PackagedKernel> &kernels);
// A C program that calls each kernel on inputs that it makes, and compares samples of the outputs with values that are
// computed here: by the interpreter, or for large ops by the unscheduled kernel.
std::string library_self_test(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels);

} // namespace kumiko
