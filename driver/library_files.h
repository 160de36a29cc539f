// The texts that go into a library's folder beside the archive. Each is a function of its arguments alone.
#pragma once

#include "driver/library.h"
#include "targets/cpu/entry.h"
#include "targets/lower/nest.h"

namespace kumiko {

// A kernel for one target. Its functions are <symbol>.<target's name>, hidden.
struct PackagedVariant {
    Target target;
    uint64_t features = 0; // what it needs: runtime/cpu_features.h
    Nest nest;             // named by the kernel's symbol; nest.packs likewise
    ChosenSchedule schedule;

    const std::string &name() const { return target.cpu.name; }
};

// A kernel of a library, for each of its targets, the one that needs most first.
struct PackagedKernel {
    const LibraryKernel *kernel = nullptr;
    std::string symbol;
    std::vector<PackagedVariant> variants;
    std::vector<Entry> entries; // the kernel's own, then for each packed input the packing and its number of elements

    // What the C function looks like is the same for all variants, but for the extents of packed inputs.
    const Nest &nest() const { return variants.front().nest; }
};

// How programs use the library.
struct LibraryUse {
    bool freestanding = false;
    bool runtime_source = false; // <name>_runtime.c stands beside the archive, which has no runtime
    std::string compiler;        // the command's first words

    // Compiles `source` with the library in `folder`.
    std::string command(const std::string &name, const std::string &folder, const std::string &source) const;
    // What the program must bring besides, one sentence; "" for nothing.
    std::string brings(const std::string &name) const;
};

// Fills in the entries of all kernels. Throws UserError when the variants of one do not take the same arguments, Unsupported
// for an any-shape kernel with packed inputs.
void make_entries(std::vector<PackagedKernel> &kernels);

std::string library_header(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels);
std::string library_cmake(const LibraryDescription &library, const LibraryUse &use);
std::string library_cmake_version(const LibraryDescription &library);
std::string library_pkg_config(const LibraryDescription &library, const LibraryUse &use);
Json library_manifest(const LibraryDescription &library, const std::vector<Target> &targets,
                      const std::vector<PackagedKernel> &kernels);
// A C program that calls each kernel on inputs that it makes, and compares samples of the outputs with values that are
// computed here: by the interpreter, or for large ops by the unscheduled kernel.
// It prints how many kernels and samples it compared, and how many kernels passed and failed. For a
// freestanding library it needs no C library: the board gives <name>_selftest_write(text).
std::string library_self_test(const LibraryDescription &library, const std::vector<PackagedKernel> &kernels,
                              const LibraryUse &use);

} // namespace kumiko
